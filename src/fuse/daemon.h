/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUSE_DAEMON_H
#define FUSE_DAEMON_H
/*
 * What the files of fuse/ share. An op_* function translates a request, calls one function of fs/
 * and replies by one of the reply_*() below, which are the only place where errors become errnos.
 */
#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>
#if FUSE_VERSION < FUSE_MAKE_VERSION(3, 12)
#error "libfuse 3.12 or newer is needed: run make deps"
#endif
#include "base/clock.h"
#include "base/list.h"
#include "base/req.h"
#include "fs/fs.h"
#include "fuse/fuse.h"
#include "mount/mount.h"
#include <stdatomic.h>

#define DAEMON_HAS_PARALLEL (FUSE_VERSION >= FUSE_MAKE_VERSION(3, 15))
#define DAEMON_HAS_TMPFILE  (FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17))
#define DAEMON_HAS_KILLPRIV (FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17))
#define DAEMON_HAS_URING    (FUSE_VERSION >= FUSE_MAKE_VERSION(3, 18))

/* One row per request that is timed: code, name in logs and `tessera stats`. */
/* clang-format off */
#define DAEMON_OPS(x)                                                                           \
	x(LOOKUP, "lookup") x(GETATTR, "getattr") x(SETATTR, "setattr") x(READLINK, "readlink") \
	x(MKNOD, "mknod") x(MKDIR, "mkdir") x(UNLINK, "unlink") x(RMDIR, "rmdir")               \
	x(SYMLINK, "symlink") x(RENAME, "rename") x(LINK, "link") x(OPEN, "open")               \
	x(CREATE, "create") x(TMPFILE, "tmpfile") x(READ, "read") x(WRITE, "write")             \
	x(FLUSH, "flush") x(RELEASE, "release") x(FSYNC, "fsync")                               \
	x(READDIR, "readdir") x(READDIRPLUS, "readdirplus") x(FSYNCDIR, "fsyncdir")             \
	x(STATFS, "statfs") x(SETXATTR, "setxattr") x(GETXATTR, "getxattr")                     \
	x(LISTXATTR, "listxattr") x(REMOVEXATTR, "removexattr") x(FALLOCATE, "fallocate")       \
	x(LSEEK, "lseek") x(COPY, "copy_file_range") x(SETLK, "setlk") x(GETLK, "getlk")        \
	x(FLOCK, "flock")
/* clang-format on */

enum daemon_op {
#define DAEMON_OP_CODE(code, name) OP_##code,
	DAEMON_OPS(DAEMON_OP_CODE)
#undef DAEMON_OP_CODE
	OP_COUNT
};

struct waiters;
struct hung;

struct daemon {
	struct tess *t;
	struct fs *fs;
	const struct fuse_serve_conf *conf;
	struct fuse_session *se;
	bool uring;
	struct waiters *waiters;	/* where requests wait when they may not on the thread they came on; or NULL */
	struct hung *hung;	/* of the requests under way; NULL: none begun yet */
	atomic_uint inflight;	/* requests that another thread will reply to */
};

/* One request, on the handler's stack or in an asynchronous request's own struct. */
struct op {
	struct tess_req req;
	fuse_req_t fuse;
	enum daemon_op code;
	struct daemon *d;
	bool watched;
	bool told;	/* the log has told how long it takes */
	struct list_node link;	/* hung.c's */
};
void op_begin(struct op *op, fuse_req_t fuse, enum daemon_op code, uint64_t ino);
/* The death of the application cancels op->req. For what may wait long; op stays where it is. */
void op_watch(struct op *op);
/*
 * The program is on its way out because a signal killed it; true for the closes that its exit makes. No
 * interrupt tells: a process that exits takes no signals any more.
 */
bool op_died_of_signal(const struct op *op);

/* What a request asks, for those that another thread may carry out. `buf` is libfuse's. */
struct op_args {
	struct fuse_file_info fi;
	const char *buf;
	uint64_t off, len;
	int mode;
	struct meta_attr attr;
	unsigned mask;
};
/*
 * Runs fn, which replies: here, or on a thread of d->waiters when there are such and the request `waits`.
 * Over io_uring libfuse has one thread per processor, and one that waits for an fsync would hold up all
 * requests of its processor; on /dev/fuse half of the threads may wait for stores that are far.
 */
void op_run(fuse_req_t fuse, enum daemon_op code, uint64_t ino, const struct op_args *a, bool waits,
	    void (*fn)(struct op *op, const struct op_args *a));

/* Each ends the request; err: 0 or negative, and then the other arguments are not looked at. */
void reply_err(struct op *op, int err);
void reply_entry(struct op *op, int err, const struct meta_attr *a);
void reply_attr(struct op *op, int err, const struct meta_attr *a);
void reply_buf(struct op *op, int err, const void *p, size_t n);
void reply_iov(struct op *op, int err, const struct iovec *iov, unsigned n);
void reply_write(struct op *op, int err, size_t n);
void reply_open(struct op *op, int err, struct fs_file *fh, struct fuse_file_info *fi);
void reply_create(struct op *op, int err, const struct meta_attr *a, struct fs_file *fh,
		  struct fuse_file_info *fi);
void reply_xattr(struct op *op, int err, const void *p, size_t n, bool size_only);
void reply_statfs(struct op *op, int err, const struct statvfs *st);
void reply_lock(struct op *op, int err, const struct flock *f);
void reply_lseek(struct op *op, int err, uint64_t off);
void reply_fill_entry(const struct daemon *d, uint64_t dir, const struct meta_attr *a,
		      struct fuse_entry_param *ret);
int reply_stats_start(void);
void reply_stats_stop(void);
void reply_count_hung(void);	/* a request that hung.c has told of */

static inline struct fs_file *file_of(const struct fuse_file_info *fi)
{
	return fi ? (struct fs_file *)(uintptr_t)fi->fh : NULL;
}

/* ---- ops_*.c: each fills in its rows ---- */
void ops_file_fill(struct fuse_lowlevel_ops *ops);
void ops_dir_fill(struct fuse_lowlevel_ops *ops);
void ops_attr_fill(struct fuse_lowlevel_ops *ops);
void ops_lock_fill(struct fuse_lowlevel_ops *ops);

/* ---- notify.c ---- */
void notify_begin(struct daemon *d);	/* once the kernel is there */
void notify_end(struct daemon *d);	/* when the loop has ended: serves on until the last one is told */

/* ---- waiters.c ---- */
/* `copies`: a request's buffer is its thread's, and must be copied when it goes to another. */
int waiters_new(struct waiters **ret, unsigned in_place_max, bool copies);
void waiters_free(struct waiters *w);
void waiters_run(struct waiters *w, struct op *op, const struct op_args *a,
		 void (*fn)(struct op *op, const struct op_args *a));

/* ---- hung.c ---- */
int hung_start(struct daemon *d);	/* before the first request */
void hung_stop(struct daemon *d);	/* after the last */
void hung_enter(struct op *op);
void hung_leave(struct op *op);
void op_move(struct op *to, struct op *from);	/* before op_watch() */

/* ---- raw.c ---- */
int raw_hook(struct fuse_session *se);
/* Was DIRECT_IO_ALLOW_MMAP agreed on? Once INIT has come. */
bool raw_allows_mmap(const struct fuse_conn_info *conn);

/* ---- mountpoint.c ---- */
/* Absolute path of a mount point, also of a dead one. Owned by the caller. */
int mountpoint_path(const char *path, char **ret);
/*
 * Detaches dead mounts; refuses what cannot be mounted on. After a detachment waits until the daemon
 * that was killed, one of `dir`, is quite gone, so that the next one sees that it may take over.
 */
int mountpoint_prepare(const char *path, const char *dir, char *why);
int mountpoint_detach(const char *path, bool lazy, char *why);
/* Raises the kernel's read-ahead window of the mount; needs root, and is only worth speed. */
void mountpoint_readahead(const char *path, unsigned kib);

/* ---- guard.c ---- */
/*
 * By the main thread, before any other is there: a process that ends the kernel's connection should this one be
 * killed and not be able to. -1: there is none. The descriptor is told, once, that the mount is there.
 */
int guard_start(const char *mountpoint);
void guard_mounted(int fd);

/* ---- signals.c ---- */
/*
 * SIGTERM and SIGINT, for the process: the first asks the attached session to end, one that comes
 * when it already does ends the process on the spot (exit 1), which loses nothing that was synced.
 * Call before any other thread is there; children of fork() call it themselves.
 */
int signals_start(void);
void signals_attach(struct fuse_session *se,
		    const char *mountpoint); /* by the thread that runs the loop */
void signals_detach(void);
#endif
