/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/daemon.h"

#include "base/err.h"
#include "base/fault.h"
#include <stdlib.h>
#include <string.h>

/*
 * A write waits for memory while a store is slow. Longer than any retry below takes; without an
 * end, the application could not be killed, nor the mount.
 */
#define WRITE_DEADLINE (600 * NS_PER_S)

static struct fs_name name_of(fuse_ino_t dir, const char *name)
{
	return (struct fs_name){dir, name, strlen(name)};
}

static void op_open(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs_file *fh = NULL;
	struct op op;
	int r;

	op_begin(&op, fuse, OP_OPEN, ino);
	r = fs_file_open(op.d->fs, &op.req, ino, fi->flags, &fh);
	reply_open(&op, r, fh, fi);
}

static void op_create(fuse_req_t fuse, fuse_ino_t dir, const char *name, mode_t mode,
		      struct fuse_file_info *fi)
{
	struct fs_file *fh = NULL;
	struct meta_attr a;
	struct op op;
	int r;

	op_begin(&op, fuse, OP_CREATE, dir);
	r = fs_create(op.d->fs, &op.req, name_of(dir, name), mode, fi->flags, &a, &fh);
	reply_create(&op, r, &a, fh, fi);
}

#if DAEMON_HAS_TMPFILE
static void op_tmpfile(fuse_req_t fuse, fuse_ino_t dir, mode_t mode, struct fuse_file_info *fi)
{
	struct fs_file *fh = NULL;
	struct meta_attr a;
	struct op op;
	int r;

	op_begin(&op, fuse, OP_TMPFILE, dir);
	r = fs_tmpfile(op.d->fs, &op.req, dir, mode, fi->flags, &a, &fh);
	reply_create(&op, r, &a, fh, fi);
}
#endif

/* A read that replies from whichever thread has the last of its bytes. */
struct op_read {
	struct op op;
	struct fs_read read;
};

static void op_read_done(struct io_read *io)
{
	struct op_read *rd = io->owner;
	struct daemon *d = rd->op.d;

	reply_iov(&rd->op, io->err, io->iov, io->niov);
	fs_read_release(&rd->read);
	free(rd);
	atomic_fetch_sub(&d->inflight, 1);
}

static void op_read(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	struct op_read *rd = mem_zalloc(sizeof(*rd));
	struct op op;

	if (!rd) {
		op_begin(&op, fuse, OP_READ, ino);
		reply_err(&op, -ENOMEM);
		return;
	}
	op_begin(&rd->op, fuse, OP_READ, ino);
	op_watch(&rd->op);
	rd->read.fh = file_of(fi);
	/* fuse_send_read() names an owner for a program that reads, fuse_do_readfolio() none for a page. */
	rd->read.direct = fi->lock_owner != 0;
	rd->read.io.req = &rd->op.req;
	rd->read.io.off = (uint64_t)off;
	rd->read.io.len = size;
	rd->read.io.done = op_read_done;
	rd->read.io.owner = rd;
	atomic_fetch_add(&rd->op.d->inflight, 1);
	fs_read(&rd->read);
}

static void run_write(struct op *op, const struct op_args *a)
{
	__typeof__(fs_write) *write = a->fi.writepage ? fs_write_back : fs_write;

	/* Written back from the page cache: whose bytes they were is not known, and nobody's bits
	 * are cleared. */
	if (a->fi.writepage)
		op->req.uid = 0;
	op->req.deadline = op->req.start + WRITE_DEADLINE;
	if (fs_write_waits(file_of(&a->fi)))
		op_watch(op);
	reply_write(op, write(file_of(&a->fi), &op->req, a->off, a->buf, a->len), a->len);
}

static void op_write(fuse_req_t fuse, fuse_ino_t ino, const char *buf, size_t size, off_t off,
		     struct fuse_file_info *fi)
{
	struct op_args a = { .fi = *fi, .buf = buf, .len = size, .off = (uint64_t)off };

	op_run(fuse, OP_WRITE, ino, &a, fs_write_waits(file_of(fi)), run_write);
}

/*
 * The kernel waits for the answer whatever happens to the program: one that was killed must not stay
 * until a store has answered. Its bytes go on their way; nobody is left to be told how it ended.
 */
static void run_flush(struct op *op, const struct op_args *a)
{
	struct fs_file *fh = file_of(&a->fi);
	int err;

	op_watch(op);
	if (!fs_is_local(op->d->fs) && fs_file_dirty(fh) && op_died_of_signal(op))
		atomic_store(&op->req.cancelled, true);
	err = fs_flush(fh, &op->req);
	fs_lock_flush(fh, &op->req, a->fi.lock_owner);
	reply_err(op, err);
}

static void op_flush(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct op_args a = { .fi = *fi };

	op_run(fuse, OP_FLUSH, ino, &a, fs_file_dirty(file_of(fi)), run_flush);
}

static void run_release(struct op *op, const struct op_args *a)
{
	fs_lock_release(file_of(&a->fi), &op->req);
	fs_release(file_of(&a->fi), &op->req);
	reply_err(op, 0);
}

static void op_release(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct op_args a = { .fi = *fi };

	op_run(fuse, OP_RELEASE, ino, &a, fs_file_dirty(file_of(fi)), run_release);
}

static void run_fsync(struct op *op, const struct op_args *a)
{
	op_watch(op);
	reply_err(op, fs_fsync(file_of(&a->fi), &op->req, a->mode));
}

static void op_fsync(fuse_req_t fuse, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct op_args a = { .fi = *fi, .mode = datasync };

	op_run(fuse, OP_FSYNC, ino, &a, true, run_fsync);
}

static void op_fallocate(fuse_req_t fuse, fuse_ino_t ino, int mode, off_t off, off_t len,
			 struct fuse_file_info *fi)
{
	struct op op;

	op_begin(&op, fuse, OP_FALLOCATE, ino);
	reply_err(&op,
		  fs_fallocate(file_of(fi), &op.req, mode, (uint64_t)off, (uint64_t)len));
}

static void op_lseek(fuse_req_t fuse, fuse_ino_t ino, off_t off, int whence,
		     struct fuse_file_info *fi)
{
	uint64_t at = 0;
	struct op op;
	int r;

	op_begin(&op, fuse, OP_LSEEK, ino);
	r = off < 0 ? -ENXIO : fs_lseek(file_of(fi), &op.req, (uint64_t)off, whence, &at);
	reply_lseek(&op, r, at);
}

static void run_copy(struct op *op, const struct op_args *a)
{
	struct fs_file *from = (struct fs_file *)(uintptr_t)a->attr.ino;
	uint64_t n = 0;
	int r = a->mode ? -EINVAL : 0;

	if (r == 0)
		r = fs_copy(from, a->attr.size, file_of(&a->fi), a->off, a->len, &op->req, &n);
	reply_write(op, r, n);
}

/* The source goes as `attr`: its handle and offset. It publishes both files, so it may wait. */
static void op_copy(fuse_req_t fuse, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,
		    fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t len,
		    int flags)
{
	struct op_args a = {
		.fi = *fi_out, .off = (uint64_t)off_out, .len = len, .mode = flags,
		.attr = { .ino = fi_in->fh, .size = (uint64_t)off_in },
	};

	(void)ino_in;
	op_run(fuse, OP_COPY, ino_out, &a, true, run_copy);
}

void ops_file_fill(struct fuse_lowlevel_ops *ops)
{
	ops->open = op_open;
	ops->create = op_create;
#if DAEMON_HAS_TMPFILE
	ops->tmpfile = op_tmpfile;
#endif
	ops->read = op_read;
	ops->write = op_write;
	ops->flush = op_flush;
	ops->release = op_release;
	ops->fsync = op_fsync;
	ops->fallocate = op_fallocate;
	ops->lseek = op_lseek;
	ops->copy_file_range = op_copy;
}
