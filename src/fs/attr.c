/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/laminate.h"

#include "base/clock.h"
#include "base/err.h"
#include <string.h>
#include <sys/sysmacros.h>

/*
 * What stdio and cp take as their buffer: large, since each write(2) is a request to this process;
 * not larger, since some programs touch all of it for a small file.
 */
#define ATTR_BLKSIZE 131072u
#define ATTR_TRIES   4u
#define ATTR_FOREVER 1e9 /* s; the kernel adds it to now */

bool attr_has_priv(const struct meta_attr *a)
{
	/* An inode with xattrs may have capabilities; asking once costs less than remembering. */
	return S_ISREG(a->mode) && ((a->mode & (S_ISUID | S_ISGID)) || (a->flags & META_HAS_XATTR));
}

/* Not while a write may change the mode behind the kernel's back. */
static bool attr_cacheable(const struct meta_attr *a)
{
	return !S_ISREG(a->mode) || !(a->mode & (S_ISUID | S_ISGID));
}

/*
 * Alone, the kernel itself makes every change there is. Shared, "never stale" leaves nothing between 0
 * and what the user asked for by name.
 */
static double attr_ttl(const struct fs *fs, int64_t ttl)
{
	if (ttl == POLICY_AUTO)
		return fs_shared(fs) ? 0 : 1;
	return ttl == POLICY_FOREVER ? ATTR_FOREVER : (double)ttl / NS_PER_S;
}

/*
 * Of a name that is not there the mark of its directory speaks. Only a mount whose kernel remembers such
 * names while others change them has to ask for it.
 */
static struct fs_ttl attr_ttls_absent(const struct fs *fs, uint64_t dir)
{
	struct tess_policy p;
	struct meta_attr a;

	policy_resolve(fs->conf.policy, MODE_NONE, &p);
	if (dir && p.negative_ttl > 0) {
		if (meta_getattr(fs->conf.meta, dir, &a) < 0)
			return (struct fs_ttl){ .entry = 0 };
		policy_resolve(fs->conf.policy, (enum tess_mode)meta_mark(a.flags), &p);
	}
	return (struct fs_ttl){ .entry = attr_ttl(fs, p.negative_ttl) };
}

static struct fs_ttl attr_ttls(const struct fs *fs, uint64_t dir, const struct meta_attr *a)
{
	struct tess_policy p;
	struct fs_ttl ret;

	if (!a)
		return attr_ttls_absent(fs, dir);
	fs_policy_of(fs, a, &p);
	ret.entry = attr_ttl(fs, S_ISDIR(a->mode) ? p.dir_ttl : p.entry_ttl);
	/* A file's size is data, a directory's attributes are names and permissions. */
	if (S_ISDIR(a->mode) && p.relaxed_meta)
		ret.attr = ret.entry;
	else
		ret.attr = attr_cacheable(a) ? attr_ttl(fs, p.attr_ttl) : 0;
	return ret;
}

struct fs_ttl fs_ttl(struct fs *fs, uint64_t dir, const struct meta_attr *a)
{
	struct fs_ttl ret = attr_ttls(fs, dir, a);

	/* Of a file in a directory that is not laminated the name may still go. */
	if (a && (a->flags & META_LAMINATED)) {
		ret.attr = ATTR_FOREVER;
		atomic_store_explicit(&fs->kept, true, memory_order_relaxed);
	}
	if (dir && laminate_frozen(fs, dir))
		ret.entry = ATTR_FOREVER;
	/* Of what this mount alone changed it knows already. */
	if (a && S_ISREG(a->mode) && atomic_load_explicit(&fs->was_shared, memory_order_relaxed) &&
	    atomic_load_explicit(&fs->writers, memory_order_relaxed))
		icache_sized(fs, a->ino, a->size);
	return ret;
}

int attr_get(struct fs *fs, uint64_t ino, struct meta_attr *ret)
{
	struct meta_attr a;

	/* Bytes may be published between the two looks; then the first one is old. */
	for (unsigned i = 0; i < ATTR_TRIES; i++) {
		bool dirty = icache_dirty(fs, ino);
		int r = laminate_getattr(fs, ino, &a);

		if (r < 0)
			return r;
		if (icache_overlay(fs, &a, dirty))
			break;
	}
	*ret = a;
	return laminate_mask(fs, ret);
}

int attr_settle(struct fs *fs, unsigned closes, struct meta_attr *a)
{
	if (!S_ISREG(a->mode))
		return 0;
	if (closes == atomic_load(&fs->closes) && !icache_is_open(fs, a->ino))
		return 0;
	return attr_get(fs, a->ino, a);
}

int fs_getattr(struct fs *fs, struct tess_req *req, uint64_t ino, struct meta_attr *ret)
{
	(void)req;
	return attr_get(fs, ino, ret);
}

/*
 * Linux: a write by someone without CAP_FSETID clears suid and sgid; anybody's write clears
 * capabilities. A uid of 0 is the nearest a request tells us of CAP_FSETID.
 */
int attr_kill_priv(struct fs *fs, struct fs_inode *in, const struct tess_req *req)
{
	struct meta_attr a, none = {0};
	int r;

	if (!atomic_load_explicit(&in->priv, memory_order_relaxed))
		return 0;
	r = meta_getattr(fs->conf.meta, inode_ino(in), &a);
	if (r < 0)
		return r;
	if (req->uid == 0 && (a.mode & (S_ISUID | S_ISGID))) {
		/* Stays set: the next writer may be somebody else. */
		r = meta_xattr_remove(fs->conf.meta, inode_ino(in), "security.capability",
				      clock_wall_coarse());
		return r == -ENODATA ? 0 : r;
	}
	r = meta_setattr(fs->conf.meta, inode_ino(in), META_KILL_PRIV, &none, clock_wall_coarse(), &a);
	if (r < 0)
		return r;
	atomic_store(&in->priv, false);
	icache_known_bump(fs, inode_ino(in), a.generation);
	return 0;
}

static int attr_set_size(struct fs *fs, struct tess_req *req, uint64_t ino, struct fs_file *fh,
			 uint64_t size)
{
	struct fs_inode *in;
	struct meta_attr a;
	bool blind;
	int r;

	if (size > TESS_FILE_MAX)
		return -EFBIG;
	if (fh) {
		r = file_may_change(fh);
		if (r == 0)
			r = attr_kill_priv(fs, fh->in, req);
		if (r == 0)
			r = io_truncate(fh->in->file, req, size, clock_wall_coarse());
		if (r == 0)
			r = file_cut(fs, req, fh->in->file);
		return r < 0 ? r : file_written(fh, req, AT_FSYNC);
	}
	/* truncate(2) has no close that could publish it. */
	r = icache_open(fs, ino, &in, &a);
	if (r < 0)
		return r;
	r = laminate_open(fs, true, &a, &blind);
	if (r == 0)
		r = attr_kill_priv(fs, in, req);
	if (r == 0)
		r = io_truncate(in->file, req, size, clock_wall_coarse());
	if (r == 0)
		r = io_sync_file(in->file, req, IO_PUBLISH);
	icache_unpin(fs, in);
	return r;
}

/* Pending times of earlier writes must not overwrite what is set now. */
static void attr_drop_pending(struct fs *fs, uint64_t ino, unsigned mask)
{
	struct fs_inode *in = icache_pin_open(fs, ino);

	if (!in)
		return;
	io_file_times_set(in->file, mask & META_SET_MTIME, true);
	icache_unpin(fs, in);
}

static int attr_set_rest(struct fs *fs, uint64_t ino, unsigned mask, const struct meta_attr *in)
{
	struct meta_attr a, set = *in;
	int64_t now = clock_wall_coarse();
	int r;

	if (mask & FS_SET_ATIME_NOW) {
		set.atime = now;
		mask |= META_SET_ATIME;
	}
	if (mask & FS_SET_MTIME_NOW) {
		set.mtime = now;
		mask |= META_SET_MTIME;
	}
	/* chown(2), by whomever; a mode in the same request is the kernel's own reckoning. */
	if ((mask & (META_SET_UID | META_SET_GID)) && !(mask & META_SET_MODE)) {
		r = meta_getattr(fs->conf.meta, ino, &a);
		if (r < 0)
			return r;
		if (attr_has_priv(&a))
			mask |= META_KILL_PRIV;
	}
	if (mask & FS_SET_KILL_PRIV)
		mask |= META_KILL_PRIV;
	mask &= FS_SET_SIZE - 1;
	attr_drop_pending(fs, ino, mask);
	r = meta_setattr(fs->conf.meta, ino, mask, &set, now, &a);
	if (r < 0)
		return r;
	icache_known_bump(fs, ino, a.generation);
	if (mask & (META_SET_MODE | META_KILL_PRIV))
		icache_set_priv(fs, ino, attr_has_priv(&a));
	return 0;
}

int fs_setattr(struct fs *fs, struct tess_req *req, uint64_t ino, struct fs_file *fh, unsigned mask,
	       const struct meta_attr *in, struct meta_attr *ret)
{
	int r = 0;

	if (fs->conf.readonly)
		return -EROFS;
	if (mask & FS_SET_SIZE)
		r = attr_set_size(fs, req, ino, fh, in->size);
	if (r == 0 && (mask & FS_SET_SIZE))
		icache_resized(fs, ino, in->size);
	if (r == 0 && (mask & META_SET_MODE)) {
		r = laminate_chmod(fs, req, ino, in->mode);
		/* Its times are as laminated, its owner as it was. */
		if (r > 0)
			return attr_get(fs, ino, ret);
	}
	/* An empty mask is a change too: chown(-1, -1), which updates ctime. */
	if (r == 0 && mask != FS_SET_SIZE)
		r = attr_set_rest(fs, ino, mask, in);
	return r < 0 ? r : attr_get(fs, ino, ret);
}

static struct timespec attr_time(int64_t ns)
{
	struct timespec ts = {ns / NS_PER_S, ns % NS_PER_S};

	if (ts.tv_nsec < 0) {
		ts.tv_nsec += NS_PER_S;
		ts.tv_sec--;
	}
	return ts;
}

void fs_attr_stat(const struct meta_attr *a, struct stat *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->st_ino = a->ino;
	ret->st_mode = a->mode;
	ret->st_nlink = a->nlink;
	ret->st_uid = a->uid;
	ret->st_gid = a->gid;
	ret->st_rdev = (dev_t)a->rdev;
	ret->st_size = (off_t)a->size;
	ret->st_blksize = ATTR_BLKSIZE;
	ret->st_blocks = (blkcnt_t)((a->bytes + 511) / 512);
	ret->st_atim = attr_time(a->atime);
	ret->st_mtim = attr_time(a->mtime);
	ret->st_ctim = attr_time(a->ctime);
}
