/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/daemon.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <limits.h>
#include <string.h>

static struct fs_name name_of(fuse_ino_t dir, const char *name)
{
	return (struct fs_name){dir, name, strlen(name)};
}

static void op_lookup(fuse_req_t fuse, fuse_ino_t dir, const char *name)
{
	struct meta_attr a;
	struct op op;
	int r;

	op_begin(&op, fuse, OP_LOOKUP, dir);
	r = fs_lookup(op.d->fs, &op.req, name_of(dir, name), &a);
	reply_entry(&op, r, &a);
}

static void op_forget(fuse_req_t fuse, fuse_ino_t ino, uint64_t nlookup)
{
	struct daemon *d = fuse_req_userdata(fuse);

	(void)nlookup;
	fs_forget(d->fs, ino);
	fuse_reply_none(fuse);
}

static void op_forget_multi(fuse_req_t fuse, size_t count, struct fuse_forget_data *forgets)
{
	struct daemon *d = fuse_req_userdata(fuse);

	for (size_t i = 0; i < count; i++)
		fs_forget(d->fs, forgets[i].ino);
	fuse_reply_none(fuse);
}

static void op_mknod(fuse_req_t fuse, fuse_ino_t dir, const char *name, mode_t mode, dev_t rdev)
{
	struct meta_attr a;
	struct op op;
	int r;

	op_begin(&op, fuse, OP_MKNOD, dir);
	r = fs_mknod(op.d->fs, &op.req, name_of(dir, name), mode, rdev, &a);
	reply_entry(&op, r, &a);
}

static void op_mkdir(fuse_req_t fuse, fuse_ino_t dir, const char *name, mode_t mode)
{
	struct meta_attr a;
	struct op op;
	int r;

	op_begin(&op, fuse, OP_MKDIR, dir);
	r = fs_mknod(op.d->fs, &op.req, name_of(dir, name), S_IFDIR | (mode & ~(mode_t)S_IFMT), 0,
		     &a);
	reply_entry(&op, r, &a);
}

static void op_unlink(fuse_req_t fuse, fuse_ino_t dir, const char *name)
{
	struct op op;

	op_begin(&op, fuse, OP_UNLINK, dir);
	reply_err(&op, fs_unlink(op.d->fs, &op.req, name_of(dir, name)));
}

static void op_rmdir(fuse_req_t fuse, fuse_ino_t dir, const char *name)
{
	struct op op;

	op_begin(&op, fuse, OP_RMDIR, dir);
	reply_err(&op, fs_rmdir(op.d->fs, &op.req, name_of(dir, name)));
}

static void op_symlink(fuse_req_t fuse, const char *target, fuse_ino_t dir, const char *name)
{
	struct meta_attr a;
	struct op op;
	int r;

	op_begin(&op, fuse, OP_SYMLINK, dir);
	r = fs_symlink(op.d->fs, &op.req, name_of(dir, name), target, &a);
	reply_entry(&op, r, &a);
}

static void op_readlink(fuse_req_t fuse, fuse_ino_t ino)
{
	char target[TESS_SYMLINK_MAX + 1];
	struct op op;
	size_t n = 0;
	int r;

	op_begin(&op, fuse, OP_READLINK, ino);
	r = fs_readlink(op.d->fs, &op.req, ino, target, sizeof(target), &n);
	reply_buf(&op, r, target, n);
}

static void op_rename(fuse_req_t fuse, fuse_ino_t dir, const char *name, fuse_ino_t to_dir,
		      const char *to, unsigned int flags)
{
	struct op op;

	op_begin(&op, fuse, OP_RENAME, dir);
	reply_err(&op,
		  fs_rename(op.d->fs, &op.req, name_of(dir, name), name_of(to_dir, to), flags));
}

static void op_link(fuse_req_t fuse, fuse_ino_t ino, fuse_ino_t dir, const char *name)
{
	struct meta_attr a;
	struct op op;
	int r;

	op_begin(&op, fuse, OP_LINK, ino);
	r = fs_link(op.d->fs, &op.req, ino, name_of(dir, name), &a);
	reply_entry(&op, r, &a);
}

/* Nothing is kept per handle: a cookie says all. The kernel may keep a listing that nobody changes. */
static void op_opendir(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct daemon *d = fuse_req_userdata(fuse);

	fi->fh = 0;
	fi->cache_readdir = fi->keep_cache = fs_dir_frozen(d->fs, ino);
	fuse_reply_open(fuse, fi);
}

static void op_releasedir(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	(void)fi;
	fuse_reply_err(fuse, 0);
}

static void run_fsyncdir(struct op *op, const struct op_args *a)
{
	(void)a;
	reply_err(op, fs_fsyncdir(op->d->fs, &op->req));
}

static void op_fsyncdir(fuse_req_t fuse, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct op_args a = { .fi = *fi, .mode = datasync };

	op_run(fuse, OP_FSYNCDIR, ino, &a, true, run_fsyncdir);
}

struct listing {
	struct op *op;
	char *p;
	size_t n, cap;
	bool plus;
};

static int listing_add(void *arg, const struct meta_dirent *e)
{
	struct listing *l = arg;
	struct fuse_entry_param fe;
	char name[TESS_NAME_MAX + 1];
	size_t n;

	memcpy(name, e->name, e->nlen);
	name[e->nlen] = '\0';
	/* Node 0: an entry without attributes; the kernel looks it up if it wants them. */
	memset(&fe, 0, sizeof(fe));
	fe.attr.st_ino = e->ino;
	fe.attr.st_mode = e->type;
	if (l->plus && e->attr && e->cookie > 2)
		reply_fill_entry(l->op->d, l->op->req.ino, e->attr, &fe);
	n = l->plus ? fuse_add_direntry_plus(l->op->fuse, l->p + l->n, l->cap - l->n, name, &fe,
					     (off_t)e->cookie)
		    : fuse_add_direntry(l->op->fuse, l->p + l->n, l->cap - l->n, name, &fe.attr,
					(off_t)e->cookie);
	if (n > l->cap - l->n)
		return 1;
	l->n += n;
	return 0;
}

static void listing_reply(struct op *op, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
	scoped_free char *p = mem_alloc(size);
	struct listing l = {.op = op, .p = p, .cap = size, .plus = plus};
	int r = -ENOMEM;

	if (p)
		r = fs_readdir(op->d->fs, &op->req, ino, (uint64_t)off, plus, listing_add, &l);
	/* Removed while open: it has no entries. */
	if (r == -TESS_E_STALE)
		r = 0;
	reply_buf(op, r, p, l.n);
}

static void op_readdir(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	struct op op;

	(void)fi;
	op_begin(&op, fuse, OP_READDIR, ino);
	listing_reply(&op, ino, size, off, false);
}

static void op_readdirplus(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t off,
			   struct fuse_file_info *fi)
{
	struct op op;

	(void)fi;
	op_begin(&op, fuse, OP_READDIRPLUS, ino);
	listing_reply(&op, ino, size, off, true);
}

void ops_dir_fill(struct fuse_lowlevel_ops *ops)
{
	ops->lookup = op_lookup;
	ops->forget = op_forget;
	ops->forget_multi = op_forget_multi;
	ops->mknod = op_mknod;
	ops->mkdir = op_mkdir;
	ops->unlink = op_unlink;
	ops->rmdir = op_rmdir;
	ops->symlink = op_symlink;
	ops->readlink = op_readlink;
	ops->rename = op_rename;
	ops->link = op_link;
	ops->opendir = op_opendir;
	ops->releasedir = op_releasedir;
	ops->fsyncdir = op_fsyncdir;
	ops->readdir = op_readdir;
	ops->readdirplus = op_readdirplus;
}
