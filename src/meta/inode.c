/* SPDX-License-Identifier: Apache-2.0 */
/* Inode records, link counts, orphans. */
#include "base/err.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"
#include <sys/stat.h>

int inode_get(struct kv_txn *t, uint64_t ino, struct meta_attr *ret)
{
	struct fmt_key k;
	struct kv_val v;
	int err = kv_get(t, KV_INODE, key_u64(&k, ino), &v);

	if (err)
		return err == -ENOENT ? -TESS_E_STALE : err;
	return codec_inode_get(v, ino, ret);
}

static int inode_store(struct kv_txn *t, const struct meta_attr *a)
{
	uint8_t buf[FMT_INODE_LEN];
	struct fmt_key k;

	return kv_put(t, KV_INODE, key_u64(&k, a->ino), kv_val(buf, codec_inode_put(buf, a)));
}

int inode_put(struct kv_txn *t, const struct meta_attr *a)
{
	int err = inode_store(t, a);

	/* Of a new one nobody can have heard. */
	return err || a->generation == 1 ? err : change_note(t, META_CHANGE_ATTR, a->ino);
}

int inode_dir(struct kv_txn *t, uint64_t ino, struct meta_attr *ret)
{
	struct meta_attr a;
	int err = inode_get(t, ino, &a);

	if (err)
		return err == -TESS_E_STALE ? -ENOENT : err;
	if (!S_ISDIR(a.mode))
		return -ENOTDIR;
	if (a.nlink == 0)
		return -ENOENT;
	if (a.flags & META_LAMINATED)
		return -EPERM;
	*ret = a;
	return 0;
}

void inode_touch(struct meta_attr *a, int64_t now)
{
	a->mtime = a->ctime = now;
	a->generation++;
}

/* How late the times of `a` may be. */
int64_t inode_relax(const struct meta *m, const struct meta_attr *a)
{
	int64_t relax = atomic_load_explicit(&m->relax, memory_order_relaxed);
	unsigned exact = atomic_load_explicit(&m->relax_not, memory_order_relaxed);

	return exact >> meta_mark(a->flags) & 1 ? 0 : relax;
}

/*
 * A directory's record is one page more for each name that comes or goes, and the one that all creators in
 * it write. Relaxed, its times are right to within `relax`; they never run ahead.
 */
int inode_entry_changed(struct kv_txn *t, const struct meta *m, struct meta_attr *dir, int64_t now,
			bool must)
{
	if (!must && now >= dir->mtime && now - dir->mtime < inode_relax(m, dir))
		return 0;
	inode_touch(dir, now);
	return inode_put(t, dir);
}

int inode_unlink(struct kv_txn *t, struct meta *m, struct meta_attr *a, unsigned n, int64_t now,
		 struct meta_gone *gone)
{
	a->nlink -= MIN(n, a->nlink);
	a->ctime = now;
	a->generation++;
	if (a->nlink == 0) {
		int err = orphan_put(t, m, a->ino);

		if (err)
			return err;
		a->flags |= META_ORPHAN;
		if (gone) {
			gone->ino = a->ino;
			gone->mode = a->mode;
			gone->nlink = 0;
		}
	}
	return inode_put(t, a);
}

int inode_kill_priv(struct kv_txn *t, struct meta_attr *a)
{
	int err;

	if (S_ISDIR(a->mode))
		return 0;
	a->mode &= ~(uint32_t)S_ISUID;
	/* Without group execution the bit asks for mandatory locks: not a privilege. */
	if (a->mode & S_IXGRP)
		a->mode &= ~(uint32_t)S_ISGID;
	if (!(a->flags & META_HAS_XATTR))
		return 0;
	err = xattr_del(t, a, "security.capability");
	return err == -ENODATA ? 0 : err;
}

int inode_init(struct kv_txn *t, const struct meta_attr *parent, const struct meta_new *in,
	       int64_t now, struct meta_attr *a)
{
	int err = 0;

	a->generation = 1;
	a->parent = parent->ino;
	a->mode = in->mode & (S_IFMT | 07777u);
	a->uid = in->uid;
	a->gid = in->gid;
	a->nlink = S_ISDIR(a->mode) ? 2 : 1;
	a->rdev = S_ISCHR(a->mode) || S_ISBLK(a->mode) ? in->rdev : 0;
	a->size = S_ISDIR(a->mode) ? TESS_BLOCK : 0;
	a->atime = a->mtime = a->ctime = a->btime = now;
	a->layout = parent->layout;
	a->flags |= parent->flags & META_MODE;
	if (S_ISREG(a->mode) && in->hidden && (in->hidden_marks >> meta_mark(a->flags) & 1)) {
		a->flags |= META_HIDDEN;
		a->rdev = in->hidden;
	}
	if (parent->mode & S_ISGID) {
		a->gid = parent->gid;
		if (S_ISDIR(a->mode))
			a->mode |= S_ISGID;
	}
	if (S_ISLNK(a->mode)) {
		a->size = in->symlink_len;
		return xattr_put(t, a->ino, "", FMT_SYMLINK, kv_val(in->symlink, in->symlink_len));
	}
	if (parent->flags & META_DFLT_ACL)
		err = acl_inherit(t, parent, a);
	else
		a->mode &= ~(in->umask & 0777u);
	return err;
}

/* ---- getattr, setattr ---- */

struct inode_op {
	struct meta *m;
	uint64_t ino;
	unsigned mask;
	const struct meta_attr *in;
	int64_t now;
	struct meta_attr *ret;
};

static int inode_getattr(struct kv_txn *t, void *arg)
{
	struct inode_op *o = arg;

	return inode_get(t, o->ino, o->ret);
}

int meta_getattr(struct meta *m, uint64_t ino, struct meta_attr *ret)
{
	struct inode_op o = {.ino = ino, .ret = ret};

	return kv_read(m->kv, inode_getattr, &o);
}

static void inode_assign(struct meta_attr *a, unsigned mask, const struct meta_attr *in)
{
	if (mask & META_SET_UID)
		a->uid = in->uid;
	if (mask & META_SET_GID)
		a->gid = in->gid;
	if (mask & META_SET_ATIME)
		a->atime = in->atime;
	if (mask & META_SET_MTIME)
		a->mtime = in->mtime;
	if (mask & META_SET_BTIME)
		a->btime = in->btime;
	if (mask & META_SET_LAYOUT)
		a->layout = in->layout;
	if (mask & META_SET_MARK)
		a->flags = (a->flags & ~(uint32_t)META_MODE) | (in->flags & META_MODE);
	if (mask & META_SET_FLAGS) {
		const uint32_t bits = META_LAMINATED | META_HIDDEN | META_MODE;

		a->flags = (a->flags & ~bits) | (in->flags & bits);
		if (S_ISREG(a->mode))
			a->rdev = a->flags & META_HIDDEN ? in->rdev : 0;
	}
}

/*
 * A reader's atime, with the ctime put back. Not a change: counted as one, a touch that comes late
 * would look like another session's write to whoever keeps pages by generation.
 */
static bool inode_read_only_touched(unsigned mask)
{
	return mask == (META_SET_ATIME | META_SET_CTIME);
}

static int inode_setattr(struct kv_txn *t, void *arg)
{
	struct inode_op *o = arg;
	struct meta_attr a;
	int err = inode_get(t, o->ino, &a);

	if (err)
		return err;
	/* Others have been told that they need not ask again. */
	if ((a.flags & META_LAMINATED) && !(o->mask & META_SET_FLAGS))
		return -EPERM;
	inode_assign(&a, o->mask, o->in);
	a.ctime = o->mask & META_SET_CTIME ? o->in->ctime : o->now;
	if (!inode_read_only_touched(o->mask))
		a.generation++;
	if (o->mask & META_KILL_PRIV)
		err = inode_kill_priv(t, &a);
	if (!err && (o->mask & META_SET_MODE)) {
		a.mode = (a.mode & S_IFMT) | (o->in->mode & 07777u);
		err = acl_chmod(t, &a);
	}
	if (!err)
		err = inode_read_only_touched(o->mask) ? inode_store(t, &a) : inode_put(t, &a);
	if (!err)
		*o->ret = a;
	return err;
}

int meta_setattr(struct meta *m, uint64_t ino, unsigned mask, const struct meta_attr *in,
		 int64_t now, struct meta_attr *ret)
{
	struct meta_attr a;
	struct inode_op o = {m, ino, mask, in, now, &a};
	int err = meta_run(m, inode_setattr, &o);

	if (!err && ret)
		*ret = a;
	return err;
}
