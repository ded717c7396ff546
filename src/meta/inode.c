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

int inode_put(struct kv_txn *t, const struct meta_attr *a)
{
	uint8_t buf[FMT_INODE_LEN];
	struct fmt_key k;

	return kv_put(t, KV_INODE, key_u64(&k, a->ino), kv_val(buf, codec_inode_put(buf, a)));
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
	*ret = a;
	return 0;
}

void inode_touch(struct meta_attr *a, int64_t now)
{
	a->mtime = a->ctime = now;
	a->generation++;
}

int orphan_put(struct kv_txn *t, struct meta *m, uint64_t ino)
{
	uint8_t buf[FMT_HEAD];
	struct fmt_key k;

	return kv_put(t, KV_ORPHAN, key_u32_u64(&k, atomic_load(&m->session), ino),
		      kv_val(buf, codec_mark_put(buf, FMT_ORPHAN)));
}

/* Sessions are few; each one's part of the database is jumped over. */
int orphan_del(struct kv_txn *t, struct meta *m, uint64_t ino)
{
	struct fmt_key k;
	struct kv_val key, v;
	uint32_t session = 0;
	int err = kv_del(t, KV_ORPHAN, key_u32_u64(&k, atomic_load(&m->session), ino));

	if (err != -ENOENT)
		return err;
	for (;;) {
		key = key_u32_u64(&k, session, 0);
		err = kv_seek(t, KV_ORPHAN, 1, &key, &v);
		if (err || key.n != 12)
			return err ? absent_ok(err) : -TESS_E_RECORD;
		session = fmt_be32_get(key.p);
		err = kv_del(t, KV_ORPHAN, key_u32_u64(&k, session, ino));
		if (err != -ENOENT || session++ == UINT32_MAX)
			return absent_ok(err);
	}
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
		err = inode_put(t, &a);
	if (!err)
		*o->ret = a;
	return err;
}

int meta_setattr(struct meta *m, uint64_t ino, unsigned mask, const struct meta_attr *in,
		 int64_t now, struct meta_attr *ret)
{
	struct meta_attr a;
	struct inode_op o = {m, ino, mask, in, now, &a};
	int err = kv_run(m->kv, inode_setattr, &o, NULL);

	if (!err && ret)
		*ret = a;
	return err;
}

/* ---- orphans ---- */

struct reclaim {
	struct meta *m;
	const uint64_t *inos;
	unsigned n, budget, max_work;
	bool more;
};

/* Content goes first, so that a file of any size takes bounded steps. */
static int inode_reclaim(struct kv_txn *t, struct reclaim *r, struct tally *y, uint64_t ino)
{
	struct meta_attr a;
	struct fmt_key k;
	int err = inode_get(t, ino, &a);

	if (err == -TESS_E_STALE)
		return orphan_del(t, r->m, ino);
	if (err || !(a.flags & META_ORPHAN))
		return err; /* linked again, an O_TMPFILE */
	err = extent_drop(t, y, &a, &r->budget);
	if (!err && r->budget)
		err = xattr_drop_all(t, ino, &r->budget);
	if (err)
		return err;
	if (!r->budget)
		return inode_put(t, &a);
	r->budget--;
	err = kv_del(t, KV_INODE, key_u64(&k, ino));
	return err ? err : orphan_del(t, r->m, ino);
}

static int reclaim_run(struct kv_txn *t, void *arg)
{
	struct reclaim *r = arg;
	struct tally y;
	int err = 0;

	r->budget = r->max_work;
	tally_init(&y, r->m);
	for (unsigned i = 0; i < r->n && !err && r->budget; i++)
		err = inode_reclaim(t, r, &y, r->inos[i]);
	if (!err)
		err = tally_apply(&y, t);
	tally_done(&y);
	r->more = r->budget == 0;
	return err;
}

int meta_reclaim(struct meta *m, const uint64_t *inos, unsigned n, unsigned max_work, int64_t now,
		 bool *ret_more)
{
	struct reclaim r = {m, inos, n, 0, MAX(max_work, 1u), false};
	int err = n ? kv_run(m->kv, reclaim_run, &r, NULL) : 0;

	(void)now;
	if (!err)
		*ret_more = r.more;
	return err;
}

struct orphans {
	uint32_t session;
	uint64_t after;
	uint64_t *ret;
	unsigned max, n;
};

static int orphans_run(struct kv_txn *t, void *arg)
{
	struct orphans *o = arg;
	struct fmt_key k;
	struct kv_val v, key = key_u32_u64(&k, o->session, o->after + 1);
	int err = kv_seek(t, KV_ORPHAN, 1, &key, &v);

	while (!err && o->n < o->max && key.n == 12 && fmt_be32_get(key.p) == o->session) {
		o->ret[o->n++] = fmt_be64_get((const char *)key.p + 4);
		err = kv_step(t, KV_ORPHAN, 1, &key, &v);
	}
	return absent_ok(err);
}

int meta_orphans(struct meta *m, uint64_t after, uint64_t *ret, unsigned max, unsigned *ret_n)
{
	struct orphans o = {atomic_load(&m->session), after, ret, max, 0};
	int err = after == UINT64_MAX ? 0 : kv_read(m->kv, orphans_run, &o);

	if (!err)
		*ret_n = o.n;
	return err;
}
