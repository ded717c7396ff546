/* SPDX-License-Identifier: Apache-2.0 */
/* Names: lookup, create, link, unlink. Renaming is in rename.c, listing in readdir.c. */
#include "base/err.h"
#include "base/htab.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"
#include <sys/stat.h>

#define NLINK_MAX (UINT32_C(1) << 31)

/* ---- records ---- */

uint64_t dentry_hash_mask = UINT64_MAX;

/* Seeded, so that nobody who only makes files can make them collide. */
uint64_t dentry_hash(const struct meta *m, const char *name, size_t n)
{
	uint64_t h = hash_bytes(name, n, meta_super(m)->fsid) & dentry_hash_mask;

	return (h >> 9) ? h >> 9 : 1;
}

int dentry_name_check(const char *name, size_t n)
{
	if (n > TESS_NAME_MAX)
		return -ENAMETOOLONG;
	return codec_name_ok(name, n) ? 0 : -EINVAL;
}

/* The pair that seek or step returned, if it is one of dir's. */
static int dentry_here(struct kv_val key, struct kv_val v, uint64_t dir, uint64_t *ret_cookie,
		       struct fmt_dentry *ret)
{
	if (key.n != 16)
		return -TESS_E_RECORD;
	if (fmt_be64_get(key.p) != dir)
		return -ENOENT;
	*ret_cookie = fmt_be64_get((const char *)key.p + 8);
	return codec_dentry_get(v, ret);
}

int dentry_first(struct kv_txn *t, uint64_t dir, uint64_t from, uint64_t *ret_cookie,
		 struct fmt_dentry *ret)
{
	struct fmt_key k;
	struct kv_val v, key = key_u64_u64(&k, dir, from);
	int err = kv_seek(t, KV_DENTRY, 1, &key, &v);

	return err ? err : dentry_here(key, v, dir, ret_cookie, ret);
}

int dentry_next(struct kv_txn *t, uint64_t dir, uint64_t *ret_cookie, struct fmt_dentry *ret)
{
	struct kv_val key, v;
	int err = kv_step(t, KV_DENTRY, 1, &key, &v);

	return err ? err : dentry_here(key, v, dir, ret_cookie, ret);
}

int dentry_find(struct kv_txn *t, const struct meta *m, uint64_t dir, struct kv_val name,
		struct dent *ret)
{
	uint64_t base = dentry_hash(m, name.p, name.n) * FMT_COLLISIONS, free = base, cookie;
	struct fmt_dentry d;
	int err = dentry_first(t, dir, base, &cookie, &d);

	while (!err && cookie - base < FMT_COLLISIONS) {
		if (d.nlen == name.n && memcmp(d.name, name.p, name.n) == 0) {
			*ret = (struct dent){cookie, d.ino, d.type};
			return 0;
		}
		if (cookie == free)
			free++;
		err = dentry_next(t, dir, &cookie, &d);
	}
	if (err && err != -ENOENT)
		return err;
	*ret = (struct dent){free - base < FMT_COLLISIONS ? free : 0, 0, 0};
	return -ENOENT;
}

int dentry_put(struct kv_txn *t, uint64_t dir, struct kv_val name, const struct dent *d)
{
	struct fmt_dentry f = {d->ino, d->type & S_IFMT, name.p, name.n};
	uint8_t buf[FMT_DENTRY_MAX];
	struct fmt_key k;
	int err;

	if (!d->cookie)
		return -ENOSPC; /* 256 names of one 55-bit hash */
	err = kv_put(t, KV_DENTRY, key_u64_u64(&k, dir, d->cookie),
		     kv_val(buf, codec_dentry_put(buf, &f)));
	return err ? err : change_note_name(t, dir, d->cookie, name);
}

/* What goes is known by its place here, by its name to others. */
static int dentry_note_gone(struct kv_txn *t, struct kv_val key, uint64_t dir, uint64_t cookie)
{
	struct fmt_dentry f;
	struct kv_val v;
	int err = kv_get(t, KV_DENTRY, key, &v);

	if (!err)
		err = codec_dentry_get(v, &f);
	return err ? err : change_note_name(t, dir, cookie, kv_val(f.name, f.nlen));
}

int dentry_del(struct kv_txn *t, uint64_t dir, const struct dent *d)
{
	struct fmt_key k;
	struct kv_val key = key_u64_u64(&k, dir, d->cookie);
	int err = change_noting(t) ? dentry_note_gone(t, key, dir, d->cookie) : 0;

	return err ? err : kv_del(t, KV_DENTRY, key);
}

int dentry_empty(struct kv_txn *t, uint64_t dir)
{
	struct fmt_dentry d;
	uint64_t cookie;
	int err = dentry_first(t, dir, 0, &cookie, &d);

	return err ? absent_ok(err) : -ENOTEMPTY;
}

/* ---- operations ---- */

struct dentry_op {
	struct meta *m;
	uint64_t parent, ino;
	struct kv_val name;
	const struct meta_new *in;
	int64_t now;
	bool dir; /* rmdir */
	struct meta_attr *ret;
	struct meta_gone *gone;
};

static int dentry_lookup(struct kv_txn *t, void *arg)
{
	struct dentry_op *o = arg;
	const char *s = o->name.p;
	struct meta_attr dir;
	struct dent d;
	int err;

	if (s[0] == '.' && (o->name.n == 1 || (o->name.n == 2 && s[1] == '.'))) {
		err = inode_get(t, o->parent, &dir);
		if (!err && !S_ISDIR(dir.mode))
			err = -ENOTDIR;
		return err ? err : inode_get(t, o->name.n == 1 ? o->parent : dir.parent, o->ret);
	}
	err = dentry_find(t, o->m, o->parent, o->name, &d);
	if (!err)
		err = inode_get(t, d.ino, o->ret);
	/* A name without its inode is for the checker; to the caller it must not look like a miss.
	 */
	return err == -TESS_E_STALE ? -TESS_E_RECORD : err;
}

int meta_lookup(struct meta *m, uint64_t parent, const char *name, size_t nlen,
		struct meta_attr *ret)
{
	struct dentry_op o = {.m = m, .parent = parent, .name = kv_val(name, nlen), .ret = ret};

	if (nlen > TESS_NAME_MAX)
		return -ENAMETOOLONG;
	return nlen ? kv_read(m->kv, dentry_lookup, &o) : -ENOENT;
}

static int dentry_create(struct kv_txn *t, void *arg)
{
	struct dentry_op *o = arg;
	struct meta_attr dir, a = {.ino = o->ino};
	struct dent d;
	int err = inode_dir(t, o->parent, &dir);

	if (err)
		return err;
	err = dentry_find(t, o->m, o->parent, o->name, &d);
	if (!err) {
		err = inode_get(t, d.ino, o->ret);
		return err ? err : -EEXIST;
	}
	if (err != -ENOENT)
		return err;
	err = inode_init(t, &dir, o->in, o->now, &a);
	if (err)
		return err;
	if (S_ISDIR(a.mode) && dir.nlink++ >= NLINK_MAX)
		return -EMLINK;
	d.ino = a.ino;
	d.type = a.mode & S_IFMT;
	err = dentry_put(t, o->parent, o->name, &d);
	if (!err)
		err = inode_put(t, &a);
	if (!err)
		err = inode_entry_changed(t, o->m, &dir, o->now, S_ISDIR(a.mode));
	if (!err)
		*o->ret = a;
	return err;
}

static int new_check(const struct meta_new *in)
{
	if (!codec_mode_ok(in->mode & (S_IFMT | 07777u)))
		return -EINVAL;
	if (!S_ISLNK(in->mode))
		return 0;
	return in->symlink_len == 0		    ? -ENOENT
	       : in->symlink_len > TESS_SYMLINK_MAX ? -ENAMETOOLONG
						    : 0;
}

int meta_create(struct meta *m, uint64_t parent, const char *name, size_t nlen,
		const struct meta_new *in, int64_t now, struct meta_attr *ret)
{
	struct dentry_op o = {.m = m,
			      .parent = parent,
			      .name = kv_val(name, nlen),
			      .in = in,
			      .now = now,
			      .ret = ret};
	int err = dentry_name_check(name, nlen);

	if (!err)
		err = new_check(in);
	if (!err)
		err = ino_take(m, &o.ino);
	return err ? err : meta_run(m, dentry_create, &o);
}

static int dentry_tmpfile(struct kv_txn *t, void *arg)
{
	struct dentry_op *o = arg;
	struct meta_attr dir, a = {.ino = o->ino};
	int err = inode_dir(t, o->parent, &dir);

	if (!err)
		err = inode_init(t, &dir, o->in, o->now, &a);
	if (!err)
		err = inode_unlink(t, o->m, &a, a.nlink, o->now, NULL);
	if (!err)
		*o->ret = a;
	return err;
}

int meta_tmpfile(struct meta *m, uint64_t parent, const struct meta_new *in, int64_t now,
		 struct meta_attr *ret)
{
	struct dentry_op o = {.m = m, .parent = parent, .in = in, .now = now, .ret = ret};
	int err = S_ISREG(in->mode) ? ino_take(m, &o.ino) : -EINVAL;

	return err ? err : meta_run(m, dentry_tmpfile, &o);
}

static int dentry_link(struct kv_txn *t, void *arg)
{
	struct dentry_op *o = arg;
	struct meta_attr dir, a;
	struct dent d;
	int err = inode_get(t, o->ino, &a);

	if (!err && S_ISDIR(a.mode))
		err = -EPERM;
	if (!err)
		err = inode_dir(t, o->parent, &dir);
	if (err)
		return err;
	err = dentry_find(t, o->m, o->parent, o->name, &d);
	if (err != -ENOENT)
		return err ? err : -EEXIST;
	if (a.nlink >= NLINK_MAX)
		return -EMLINK;
	err = a.flags & META_ORPHAN ? orphan_del(t, a.ino) : 0;
	if (err)
		return err;
	a.flags &= ~(uint32_t)META_ORPHAN;
	a.nlink++;
	a.parent = o->parent;
	a.ctime = o->now;
	a.generation++;
	d.ino = a.ino;
	d.type = a.mode & S_IFMT;
	err = dentry_put(t, o->parent, o->name, &d);
	if (!err)
		err = inode_put(t, &a);
	if (!err)
		err = inode_entry_changed(t, o->m, &dir, o->now, false);
	if (!err)
		*o->ret = a;
	return err;
}

int meta_link(struct meta *m, uint64_t ino, uint64_t parent, const char *name, size_t nlen,
	      int64_t now, struct meta_attr *ret)
{
	struct dentry_op o = {.m = m,
			      .parent = parent,
			      .ino = ino,
			      .name = kv_val(name, nlen),
			      .now = now,
			      .ret = ret};
	int err = dentry_name_check(name, nlen);

	return err ? err : meta_run(m, dentry_link, &o);
}

static int dentry_unlink(struct kv_txn *t, void *arg)
{
	struct dentry_op *o = arg;
	struct meta_attr dir, a;
	struct dent d;
	int err = inode_dir(t, o->parent, &dir);

	memset(o->gone, 0, sizeof(*o->gone));
	if (!err)
		err = dentry_find(t, o->m, o->parent, o->name, &d);
	if (err)
		return err;
	if (o->dir != S_ISDIR(d.type))
		return o->dir ? -ENOTDIR : -EISDIR;
	err = o->dir ? dentry_empty(t, d.ino) : 0;
	if (!err)
		err = dentry_del(t, o->parent, &d);
	if (!err)
		err = inode_get(t, d.ino, &a);
	if (!err)
		err = inode_unlink(t, o->m, &a, o->dir ? a.nlink : 1, o->now, o->gone);
	if (err)
		return err == -TESS_E_STALE ? -TESS_E_RECORD : err;
	dir.nlink -= o->dir;
	return inode_entry_changed(t, o->m, &dir, o->now, o->dir);
}

static int dentry_remove(struct meta *m, uint64_t parent, struct kv_val name, int64_t now, bool dir,
			 struct meta_gone *ret)
{
	struct meta_gone gone;
	struct dentry_op o = {
		.m = m, .parent = parent, .name = name, .now = now, .dir = dir, .gone = &gone};
	int err = dentry_name_check(name.p, name.n);

	if (!err)
		err = meta_run(m, dentry_unlink, &o);
	if (!err && ret)
		*ret = gone;
	return err;
}

int meta_unlink(struct meta *m, uint64_t parent, const char *name, size_t nlen, int64_t now,
		struct meta_gone *ret)
{
	return dentry_remove(m, parent, kv_val(name, nlen), now, false, ret);
}

int meta_rmdir(struct meta *m, uint64_t parent, const char *name, size_t nlen, int64_t now,
	       struct meta_gone *ret)
{
	if (nlen == 2 && memcmp(name, "..", 2) == 0)
		return -ENOTEMPTY;
	return dentry_remove(m, parent, kv_val(name, nlen), now, true, ret);
}
