/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/laminate.h"

#include "base/clock.h"
#include "base/err.h"
#include <linux/fs.h>
#include <string.h>

static int name_check(const struct fs *fs, struct fs_name n)
{
	if (n.len > TESS_NAME_MAX)
		return -ENAMETOOLONG;
	if (n.len == 0)
		return -ENOENT;
	return fs->conf.readonly ? -EROFS : 0;
}

static void name_gone(struct fs *fs, uint64_t ino)
{
	laminate_changed(fs, ino);
	icache_orphaned(fs, ino);
}

int fs_lookup(struct fs *fs, struct tess_req *req, struct fs_name n, struct meta_attr *ret)
{
	unsigned closes = atomic_load(&fs->closes);
	struct meta_attr a;
	int r;

	(void)req;
	if (n.len > TESS_NAME_MAX)
		return -ENAMETOOLONG;
	r = laminate_lookup(fs, n, &a);
	if (r == 0)
		r = attr_settle(fs, closes, &a);
	if (r == 0)
		r = laminate_mask(fs, &a);
	/* Gone between the two looks. */
	if (r == -TESS_E_STALE)
		return -ENOENT;
	if (r == 0)
		*ret = a;
	return r;
}

int fs_mknod(struct fs *fs, struct tess_req *req, struct fs_name n, mode_t mode, dev_t rdev,
	     struct meta_attr *ret)
{
	struct meta_new in = {
		.mode = mode,
		.umask = req->umask,
		.uid = req->uid,
		.gid = req->gid,
		.rdev = rdev,
	};
	int r = name_check(fs, n);

	laminate_new(fs, &in);
	return r < 0 ? r : meta_create(fs->conf.meta, n.dir, n.name, n.len, &in, clock_wall_coarse(), ret);
}

int fs_symlink(struct fs *fs, struct tess_req *req, struct fs_name n, const char *target,
	       struct meta_attr *ret)
{
	struct meta_new in = {
		.mode = S_IFLNK | 0777,
		.uid = req->uid,
		.gid = req->gid,
		.symlink = target,
		.symlink_len = strlen(target),
	};
	int r = name_check(fs, n);

	if (r == 0 && in.symlink_len > TESS_SYMLINK_MAX)
		r = -ENAMETOOLONG;
	return r < 0 ? r : meta_create(fs->conf.meta, n.dir, n.name, n.len, &in, clock_wall_coarse(), ret);
}

int fs_readlink(struct fs *fs, struct tess_req *req, uint64_t ino, char *ret, size_t cap,
		size_t *ret_len)
{
	(void)req;
	return meta_readlink(fs->conf.meta, ino, ret, cap, ret_len);
}

int fs_link(struct fs *fs, struct tess_req *req, uint64_t ino, struct fs_name n,
	    struct meta_attr *ret)
{
	int r = name_check(fs, n);

	(void)req;
	if (r == 0)
		r = meta_link(fs->conf.meta, ino, n.dir, n.name, n.len, clock_wall_coarse(), ret);
	if (r < 0)
		return r;
	if (atomic_load(&fs->orphans))
		icache_linked(fs, ino);
	icache_known_bump(fs, ino, ret->generation);
	laminate_changed(fs, ino);
	return attr_get(fs, ino, ret);
}

int fs_unlink(struct fs *fs, struct tess_req *req, struct fs_name n)
{
	struct meta_gone gone = {0};
	int r = name_check(fs, n);

	(void)req;
	if (r == 0)
		r = meta_unlink(fs->conf.meta, n.dir, n.name, n.len, clock_wall_coarse(), &gone);
	if (r == 0 && gone.ino)
		name_gone(fs, gone.ino);
	return r;
}

int fs_rmdir(struct fs *fs, struct tess_req *req, struct fs_name n)
{
	struct meta_gone gone = {0};
	int r = name_check(fs, n);

	(void)req;
	if (r == 0)
		r = meta_rmdir(fs->conf.meta, n.dir, n.name, n.len, clock_wall_coarse(), &gone);
	if (r == 0 && gone.ino)
		name_gone(fs, gone.ino);
	return r;
}

/*
 * Bytes before the name: write, rename over the old file, crash must leave the old content or the
 * new, also when the writer has not closed yet.
 */
static int rename_publish(struct fs *fs, struct tess_req *req, struct fs_name n)
{
	struct fs_inode *in;
	struct meta_attr a;
	int r;

	if (atomic_load(&fs->writers) == 0)
		return 0;
	r = meta_lookup(fs->conf.meta, n.dir, n.name, n.len, &a);
	if (r < 0 || !S_ISREG(a.mode))
		return r;
	in = icache_pin_open(fs, a.ino);
	if (!in)
		return 0;
	if (io_file_dirty(in->file))
		r = io_sync_file(in->file, req, IO_PUBLISH);
	icache_unpin(fs, in);
	return r;
}

int fs_rename(struct fs *fs, struct tess_req *req, struct fs_name from, struct fs_name to,
	      unsigned flags)
{
	struct meta_rename mr = {
		.from_dir = from.dir,
		.from = from.name,
		.from_len = from.len,
		.to_dir = to.dir,
		.to = to.name,
		.to_len = to.len,
		.flags = flags,
	};
	struct meta_gone gone = {0};
	int r = name_check(fs, from);

	if (r == 0)
		r = name_check(fs, to);
	if (r == 0 && (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE)))
		r = -EINVAL;
	if (r == 0)
		r = rename_publish(fs, req, from);
	if (r == 0)
		r = meta_rename(fs->conf.meta, &mr, clock_wall_coarse(), &gone);
	if (r == 0 && gone.ino)
		name_gone(fs, gone.ino);
	return r;
}

struct name_plus {
	struct fs *fs;
	unsigned closes;
	uint64_t epoch;
	int (*fn)(void *arg, const struct meta_dirent *e);
	void *arg;
};

static int name_plus_entry(void *arg, const struct meta_dirent *e)
{
	struct name_plus *p = arg;
	struct meta_dirent copy = *e;

	if (e->attr)
		laminate_seen(p->fs, p->epoch, e->attr);
	if (e->attr && S_ISREG(e->type) &&
	    ((e->attr->flags & META_HIDDEN) || p->closes != atomic_load(&p->fs->closes) || icache_is_open(p->fs, e->ino)))
		copy.attr = NULL;
	return p->fn(p->arg, &copy);
}

int fs_readdir(struct fs *fs, struct tess_req *req, uint64_t dir, uint64_t cookie, bool plus,
	       int (*fn)(void *arg, const struct meta_dirent *e), void *arg)
{
	struct name_plus p = {fs, atomic_load(&fs->closes), laminate_epoch(fs), fn, arg};

	(void)req;
	if (!plus)
		return meta_readdir(fs->conf.meta, dir, cookie, false, fn, arg);
	return meta_readdir(fs->conf.meta, dir, cookie, true, name_plus_entry, &p);
}

bool fs_dir_frozen(const struct fs *fs, uint64_t dir)
{
	return laminate_frozen(fs, dir);
}

int fs_fsyncdir(struct fs *fs, struct tess_req *req)
{
	(void)req;
	return fs->conf.readonly || fs->conf.policy->durable == NEVER ? 0 : io_checkpoint(fs->conf.io);
}
