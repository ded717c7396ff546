/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fcntl(2) and flock(2). A request that has to wait holds no thread: it is replied to by whichever
 * finds the lock free, or that the program got a signal.
 */
#include "fuse/daemon.h"

#include "base/fault.h"
#include <stdlib.h>
#include <sys/file.h>

struct op_lock {
	struct op op;
	struct fs_lock l;
};

static void op_lock_done(struct fs_lock *l, int err)
{
	struct op_lock *ol = container_of(l, struct op_lock, l);
	struct daemon *d = ol->op.d;

	reply_err(&ol->op, err);
	free(ol);
	atomic_fetch_sub(&d->inflight, 1);
}

/* By number, not by address: it may come when the request has just been replied to. */
static void op_lock_interrupt(fuse_req_t fuse, void *number)
{
	struct daemon *d = fuse_req_userdata(fuse);

	fs_lock_cancel(d->fs, (uintptr_t)number);
}

/* The lock comes as attr: .ino owner, .size and .bytes its range, .mode type, .uid kind, .gid pid. */
static struct meta_lock lock_of(const struct op_args *a)
{
	return (struct meta_lock){
		.owner = a->attr.ino,
		.start = a->attr.size,
		.end = a->attr.bytes,
		.type = (uint8_t)a->attr.mode,
		.kind = (uint8_t)a->attr.uid,
		.pid = a->attr.gid,
	};
}

static void run_lock(struct op *op, const struct op_args *a)
{
	struct op_lock *ol = mem_zalloc(sizeof(*ol));
	uint64_t number;

	if (!ol) {
		reply_err(op, -ENOLCK);
		return;
	}
	op_move(&ol->op, op);
	ol->l.fh = file_of(&a->fi);
	ol->l.req = &ol->op.req;
	ol->l.want = lock_of(a);
	ol->l.wait = a->mode;
	ol->l.done = op_lock_done;
	atomic_fetch_add(&op->d->inflight, 1);
	number = fs_lock_begin(&ol->l);
	if (number) {
		ol->op.watched = true;
		fuse_req_interrupt_func(op->fuse, op_lock_interrupt, (void *)(uintptr_t)number);
	}
	fs_lock_set(&ol->l);
}

static int lock_type(int type)
{
	return type == F_WRLCK	 ? META_LOCK_WRITE
	       : type == F_RDLCK ? META_LOCK_READ
				 : META_LOCK_NONE;
}

static struct op_args lock_args(const struct fuse_file_info *fi, const struct flock *f)
{
	struct op_args a = {.fi = *fi};

	a.attr.ino = fi->lock_owner;
	a.attr.size = (uint64_t)f->l_start;
	a.attr.bytes = f->l_len ? (uint64_t)f->l_start + (uint64_t)f->l_len - 1 : META_LOCK_END;
	a.attr.mode = (uint32_t)lock_type(f->l_type);
	a.attr.uid = META_LOCK_RANGE;
	a.attr.gid = (uint32_t)f->l_pid;
	return a;
}

/* What gives back publishes, which may wait for a store. */
static bool lock_waits(const struct fuse_file_info *fi, int type)
{
	return type != META_LOCK_WRITE && fs_file_dirty(file_of(fi));
}

static void op_setlk(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *f,
		     int sleep)
{
	struct op_args a = lock_args(fi, f);

	a.mode = sleep;
	op_run(fuse, OP_SETLK, ino, &a, lock_waits(fi, (int)a.attr.mode), run_lock);
}

static void op_flock(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi, int op)
{
	struct op_args a = {.fi = *fi, .mode = !(op & LOCK_NB)};

	op &= ~LOCK_NB;
	a.attr.ino = fi->lock_owner;
	a.attr.bytes = META_LOCK_END;
	a.attr.mode = op == LOCK_EX   ? META_LOCK_WRITE
		      : op == LOCK_SH ? META_LOCK_READ
				      : META_LOCK_NONE;
	a.attr.uid = META_LOCK_FLOCK;
	a.attr.gid = (uint32_t)fuse_req_ctx(fuse)->pid;
	op_run(fuse, OP_FLOCK, ino, &a, lock_waits(fi, (int)a.attr.mode), run_lock);
}

static void op_getlk(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *f)
{
	struct op_args a = lock_args(fi, f);
	struct meta_lock want = lock_of(&a), got;
	struct op op;
	int err;

	op_begin(&op, fuse, OP_GETLK, ino);
	err = fs_lock_get(file_of(fi), &want, &got);
	if (!err && got.type != META_LOCK_NONE) {
		f->l_type = got.type == META_LOCK_WRITE ? F_WRLCK : F_RDLCK;
		f->l_start = (off_t)got.start;
		f->l_len = got.end == META_LOCK_END ? 0 : (off_t)(got.end - got.start + 1);
		f->l_pid = (pid_t)got.pid;
	} else {
		f->l_type = F_UNLCK;
	}
	f->l_whence = SEEK_SET;
	reply_lock(&op, err, f);
}

void ops_lock_fill(struct fuse_lowlevel_ops *ops)
{
	ops->setlk = op_setlk;
	ops->getlk = op_getlk;
	ops->flock = op_flock;
}
