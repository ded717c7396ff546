/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/daemon.h"

#include "base/err.h"
#include "base/log.h"
#include "base/scoped.h"
#include "base/trace.h"
#include <signal.h>
#include <string.h>

LOG_MODULE("fuse");

static struct trace_hist reply_hists[OP_COUNT] = {
#define REPLY_HIST(code, str) [OP_##code] = {.name = (str)},
	DAEMON_OPS(REPLY_HIST)
#undef REPLY_HIST
};
static struct trace_counter reply_counters[] = {
	{.name = "errors"}, {.name = "io_errors"}, {.name = "hung"}};
static struct trace_group reply_group = {
	.name = "fuse",
	.counters = reply_counters,
	.ncounters = ARRAY_SIZE(reply_counters),
	.hists = reply_hists,
	.nhists = OP_COUNT,
};

int reply_stats_start(void)
{
	trace_register(&reply_group);
	return 0;
}

void reply_stats_stop(void)
{
	trace_unregister(&reply_group);
}

void reply_count_hung(void)
{
	trace_add(&reply_counters[2], 1);
}

void op_begin(struct op *op, fuse_req_t fuse, enum daemon_op code, uint64_t ino)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(fuse);

	req_begin(&op->req, reply_hists[code].name);
	op->req.ino = ino;
	op->req.uid = ctx->uid;
	op->req.gid = ctx->gid;
	op->req.pid = ctx->pid;
	op->req.umask = ctx->umask;
	op->fuse = fuse;
	op->code = code;
	op->d = fuse_req_userdata(fuse);
	op->watched = false;
	hung_enter(op);
}

/*
 * The kernel sends an interrupt for any signal, once. One that the program handles and goes on from
 * (a timer, a child, a garbage collector's preemption) must not make its read fail.
 */
static bool op_is_killed(pid_t tid)
{
	char path[32], line[128];
	unsigned long long pending;
	bool killed = false;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	scoped_file FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "SigPnd: %llx", &pending) == 1 ||
		    sscanf(line, "ShdPnd: %llx", &pending) == 1)
			killed |= pending >> (SIGKILL - 1) & 1;
	return killed;
}

/* It has given back its memory, which comes before its files. Waits for no lock: see below. */
static bool op_is_exiting(pid_t tid)
{
	char path[32], line[128];
	bool memory = false;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	scoped_file FILE *f = fopen(path, "re");

	while (f && !memory && fgets(line, sizeof(line), f))
		memory = strncmp(line, "VmSize:", 7) == 0;
	return f && !memory;
}

/* Fields of /proc/PID/stat behind the name, which may hold anything: proc(5), 3 is the first. */
#define STAT_FLAGS	9
#define STAT_EXIT_CODE	52
#define PF_EXITING	0x4u	/* linux/sched.h; part of what stat shows since 2.6 */

/*
 * A program in execve(2) closes files too, and holds the lock that whoever reads its stat waits for:
 * it for our answer and we for it. So only one that exits is asked.
 */
bool op_died_of_signal(const struct op *op)
{
	unsigned long flags = 0, code = 0;
	char path[32], line[1024];
	char *at;

	if (!op_is_exiting(op->req.pid))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)op->req.pid);
	scoped_file FILE *f = fopen(path, "re");

	if (!f || !fgets(line, sizeof(line), f))
		return false;
	at = strrchr(line, ')');
	for (unsigned i = 2; at && i < STAT_EXIT_CODE; i++) {
		at = strchr(at + 1, ' ');
		if (at && i + 1 == STAT_FLAGS)
			flags = strtoul(at, NULL, 10);
		if (at && i + 1 == STAT_EXIT_CODE)
			code = strtoul(at, NULL, 10);
	}
	return (flags & PF_EXITING) && (code & 0x7f) != 0;
}

static void op_interrupt(fuse_req_t fuse, void *data)
{
	struct op *op = data;

	(void)fuse;
	if (!op_is_killed(op->req.pid))
		return;
	atomic_store(&op->req.cancelled, true);
	fs_given_up(op->d->fs);
}

void op_watch(struct op *op)
{
	op->watched = true;
	fuse_req_interrupt_func(op->fuse, op_interrupt, op);
}

void op_run(fuse_req_t fuse, enum daemon_op code, uint64_t ino, const struct op_args *a, bool waits,
	    void (*fn)(struct op *op, const struct op_args *a))
{
	struct op op;

	op_begin(&op, fuse, code, ino);
	if (waits && op.d->waiters)
		waiters_run(op.d->waiters, &op, a, fn);
	else
		fn(&op, a);
}

/* Before the reply: afterwards the request is libfuse's, and op may be freed under an interrupt. */
static void op_end(struct op *op, int err)
{
	if (op->watched)
		fuse_req_interrupt_func(op->fuse, NULL, NULL);
	hung_leave(op);
	trace_lat(&reply_hists[op->code], clock_now() - op->req.start);
	if (err < 0)
		trace_add(&reply_counters[0], 1);
}

/* What a user will ask about: not the ENOENTs of a path search. */
static bool reply_is_trouble(int err)
{
	int no = -err_fold(err);

	return no == EIO || no == ENOMEM || no == ENOSPC || no == ETIMEDOUT || no == ESHUTDOWN ||
	       no == EBUSY;
}

void reply_err(struct op *op, int err)
{
	op_end(op, err);
	if (err < 0 && reply_is_trouble(err)) {
		trace_add(&reply_counters[1], 1);
		tess_note_error(op->d->t, op->req.ino, op->req.op, err);
		log_at(LOG_WARN, op->req.id, "%s of inode %llu by pid %d: %s (%s)", op->req.op,
		       (unsigned long long)op->req.ino, (int)op->req.pid, err_text(err),
		       err_name(err));
	}
	/* The kernel knows no errno above 511, and takes a reply with one for garbage. */
	fuse_reply_err(op->fuse, -err_fold(err));
}

void reply_fill_entry(const struct daemon *d, uint64_t dir, const struct meta_attr *a,
		      struct fuse_entry_param *ret)
{
	struct fs_ttl ttl = fs_ttl(d->fs, dir, a);

	memset(ret, 0, sizeof(*ret));
	ret->ino = a->ino;
	fs_attr_stat(a, &ret->attr);
	ret->attr_timeout = ttl.attr;
	ret->entry_timeout = ttl.entry;
}

void reply_entry(struct op *op, int err, const struct meta_attr *a)
{
	uint64_t dir = op->code == OP_LINK ? 0 : op->req.ino;
	struct fs_ttl none = fs_ttl(op->d->fs, dir, NULL);
	struct fuse_entry_param e;

	/* Cached by the kernel, so that the next search for what is not there stays in the kernel.
	 */
	if (err == -ENOENT && op->code == OP_LOOKUP && none.entry > 0) {
		memset(&e, 0, sizeof(e));
		e.entry_timeout = none.entry;
	} else if (err < 0) {
		reply_err(op, err);
		return;
	} else {
		reply_fill_entry(op->d, dir, a, &e);
	}
	op_end(op, 0);
	fuse_reply_entry(op->fuse, &e);
}

void reply_attr(struct op *op, int err, const struct meta_attr *a)
{
	struct stat st;

	if (err < 0) {
		reply_err(op, err);
		return;
	}
	fs_attr_stat(a, &st);
	op_end(op, 0);
	fuse_reply_attr(op->fuse, &st, fs_ttl(op->d->fs, 0, a).attr);
}

void reply_buf(struct op *op, int err, const void *p, size_t n)
{
	if (err < 0) {
		reply_err(op, err);
		return;
	}
	op_end(op, 0);
	fuse_reply_buf(op->fuse, p, n);
}

void reply_iov(struct op *op, int err, const struct iovec *iov, unsigned n)
{
	if (err < 0) {
		reply_err(op, err);
		return;
	}
	op_end(op, 0);
	if (n)
		fuse_reply_iov(op->fuse, iov, (int)n);
	else
		fuse_reply_buf(op->fuse, NULL, 0);
}

void reply_write(struct op *op, int err, size_t n)
{
	if (err < 0) {
		reply_err(op, err);
		return;
	}
	op_end(op, 0);
	fuse_reply_write(op->fuse, n);
}

static void reply_fill_open(struct fs_file *fh, struct fuse_file_info *fi)
{
	struct fs_open_info info = fs_file_info(fh);

	fi->fh = (uintptr_t)fh;
	/* O_DIRECT reads and writes do not touch the cache: nothing to set for them. */
	fi->direct_io = info.direct_io;
	fi->keep_cache = info.keep_cache;
	fi->noflush = info.noflush;
#if DAEMON_HAS_PARALLEL
	fi->parallel_direct_writes = info.parallel_writes;
#endif
}

void reply_open(struct op *op, int err, struct fs_file *fh, struct fuse_file_info *fi)
{
	if (err < 0) {
		reply_err(op, err);
		return;
	}
	reply_fill_open(fh, fi);
	op_end(op, 0);
	/* Interrupted: no release will come. */
	if (fuse_reply_open(op->fuse, fi) == -ENOENT)
		fs_release(fh, &op->req);
}

void reply_create(struct op *op, int err, const struct meta_attr *a, struct fs_file *fh,
		  struct fuse_file_info *fi)
{
	struct fuse_entry_param e;

	if (err < 0) {
		reply_err(op, err);
		return;
	}
	reply_fill_entry(op->d, op->req.ino, a, &e);
	reply_fill_open(fh, fi);
	op_end(op, 0);
	if (fuse_reply_create(op->fuse, &e, fi) == -ENOENT)
		fs_release(fh, &op->req);
}

void reply_xattr(struct op *op, int err, const void *p, size_t n, bool size_only)
{
	if (err < 0) {
		reply_err(op, err);
		return;
	}
	op_end(op, 0);
	if (size_only)
		fuse_reply_xattr(op->fuse, n);
	else
		fuse_reply_buf(op->fuse, p, n);
}

void reply_statfs(struct op *op, int err, const struct statvfs *st)
{
	if (err < 0) {
		reply_err(op, err);
		return;
	}
	op_end(op, 0);
	fuse_reply_statfs(op->fuse, st);
}

void reply_lseek(struct op *op, int err, uint64_t off)
{
	if (err < 0) {
		reply_err(op, err);
		return;
	}
	op_end(op, 0);
	fuse_reply_lseek(op->fuse, (off_t)off);
}

void reply_lock(struct op *op, int err, const struct flock *f)
{
	if (err < 0) {
		reply_err(op, err);
		return;
	}
	op_end(op, 0);
	fuse_reply_lock(op->fuse, f);
}
