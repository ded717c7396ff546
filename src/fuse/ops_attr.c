/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/daemon.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <string.h>

static void op_getattr(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct meta_attr a;
	struct op op;
	int r;

	(void)fi;
	op_begin(&op, fuse, OP_GETATTR, ino);
	r = fs_getattr(op.d->fs, &op.req, ino, &a);
	reply_attr(&op, r, &a);
}

static int64_t setattr_time(struct timespec ts)
{
	int64_t ns;

	/* The years 1677 to 2262; beyond them the nearest. */
	if (__builtin_mul_overflow((int64_t)ts.tv_sec, NS_PER_S, &ns) ||
	    __builtin_add_overflow(ns, (int64_t)ts.tv_nsec, &ns))
		return ts.tv_sec < 0 ? INT64_MIN : INT64_MAX;
	return ns;
}

static unsigned setattr_mask(int to_set)
{
	static const struct {
		int fuse;
		unsigned fs;
	} rows[] = {
		{FUSE_SET_ATTR_MODE, META_SET_MODE},
		{FUSE_SET_ATTR_UID, META_SET_UID},
		{FUSE_SET_ATTR_GID, META_SET_GID},
		{FUSE_SET_ATTR_SIZE, FS_SET_SIZE},
		{FUSE_SET_ATTR_ATIME, META_SET_ATIME},
		{FUSE_SET_ATTR_MTIME, META_SET_MTIME},
		{FUSE_SET_ATTR_ATIME_NOW, FS_SET_ATIME_NOW},
		{FUSE_SET_ATTR_MTIME_NOW, FS_SET_MTIME_NOW},
		{FUSE_SET_ATTR_CTIME, META_SET_CTIME},
		{FUSE_SET_ATTR_KILL_SUID, FS_SET_KILL_PRIV},
	};
	unsigned mask = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		if (to_set & rows[i].fuse)
			mask |= rows[i].fs;
	return mask;
}

static void run_setattr(struct op *op, const struct op_args *a)
{
	struct meta_attr out;
	int r = fs_setattr(op->d->fs, &op->req, op->req.ino, file_of(&a->fi), a->mask, &a->attr, &out);

	reply_attr(op, r, &out);
}

/* truncate(2) publishes before it returns; the others are one transaction. */
static void op_setattr(fuse_req_t fuse, fuse_ino_t ino, struct stat *st, int to_set,
		       struct fuse_file_info *fi)
{
	struct op_args a = {
		.attr = { .mode = st->st_mode, .uid = st->st_uid, .gid = st->st_gid,
			  .size = (uint64_t)st->st_size, .atime = setattr_time(st->st_atim),
			  .mtime = setattr_time(st->st_mtim), .ctime = setattr_time(st->st_ctim) },
		.mask = setattr_mask(to_set),
	};

	if (fi)
		a.fi = *fi;
	op_run(fuse, OP_SETATTR, ino, &a, a.mask & FS_SET_SIZE, run_setattr);
}

static void op_statfs(fuse_req_t fuse, fuse_ino_t ino)
{
	struct statvfs st;
	struct op op;
	int r;

	op_begin(&op, fuse, OP_STATFS, ino);
	r = fs_statfs(op.d->fs, &op.req, &st);
	reply_statfs(&op, r, &st);
}

static void op_setxattr(fuse_req_t fuse, fuse_ino_t ino, const char *name, const char *value,
			size_t size, int flags)
{
	struct op op;

	op_begin(&op, fuse, OP_SETXATTR, ino);
	reply_err(&op, fs_xattr_set(op.d->fs, &op.req, ino, name, value, size, flags));
}

static void op_getxattr(fuse_req_t fuse, fuse_ino_t ino, const char *name, size_t size)
{
	scoped_free char *p = size ? mem_alloc(size) : NULL;
	size_t n = 0;
	struct op op;
	int r = size && !p ? -ENOMEM : 0;

	op_begin(&op, fuse, OP_GETXATTR, ino);
	if (r == 0)
		r = fs_xattr_get(op.d->fs, &op.req, ino, name, p, size, &n);
	reply_xattr(&op, r, p, n, size == 0);
}

static void op_listxattr(fuse_req_t fuse, fuse_ino_t ino, size_t size)
{
	scoped_free char *p = size ? mem_alloc(size) : NULL;
	size_t n = 0;
	struct op op;
	int r = size && !p ? -ENOMEM : 0;

	op_begin(&op, fuse, OP_LISTXATTR, ino);
	if (r == 0)
		r = fs_xattr_list(op.d->fs, &op.req, ino, p, size, &n);
	reply_xattr(&op, r, p, n, size == 0);
}

static void op_removexattr(fuse_req_t fuse, fuse_ino_t ino, const char *name)
{
	struct op op;

	op_begin(&op, fuse, OP_REMOVEXATTR, ino);
	reply_err(&op, fs_xattr_remove(op.d->fs, &op.req, ino, name));
}

void ops_attr_fill(struct fuse_lowlevel_ops *ops)
{
	ops->getattr = op_getattr;
	ops->setattr = op_setattr;
	ops->statfs = op_statfs;
	ops->setxattr = op_setxattr;
	ops->getxattr = op_getxattr;
	ops->listxattr = op_listxattr;
	ops->removexattr = op_removexattr;
}
