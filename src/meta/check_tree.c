/* SPDX-License-Identifier: Apache-2.0 */
/* Names against inodes, both ways; what hangs on inodes; orphans. */
#include "base/err.h"
#include "base/scoped.h"
#include "meta/check_impl.h"
#include <inttypes.h>
#include <sys/stat.h>

/* ---- dentries ---- */

/* The name goes, and the count of subdirectories with it, when the inode is still missing. */
static int fix_dentry(struct kv_txn *t, struct check *k, const struct check_fix *f)
{
	uint64_t dir = fmt_be64_get(f->key.b);
	struct meta_attr a;
	int err;

	if (f->arg && inode_get(t, f->arg, &a) == 0)
		return -EAGAIN;
	err = check_fix_del(t, k, f);
	if (err)
		return err;
	err = inode_get(t, dir, &a);
	if (err)
		return err == -TESS_E_STALE ? 0 : err;
	a.ctime++; /* somebody's cache of it is wrong */
	a.generation++;
	return inode_put(t, &a);
}

static int fix_parent(struct kv_txn *t, struct check *k, const struct check_fix *f)
{
	struct meta_attr a;
	int err = inode_get(t, f->found.ino, &a);

	(void)k;
	if (err || a.parent == f->arg)
		return err ? err : -EAGAIN;
	a.parent = f->arg;
	return inode_put(t, &a);
}

static int check_dentry(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v)
{
	struct meta_attr a, dir;
	struct fmt_dentry d;
	struct check_fix f;
	uint64_t parent;
	int err;

	if (key.n != 16 || codec_dentry_get(v, &d)) {
		f = check_found("record", 0, 0, NULL, "dentry record is corrupt");
		return check_report(k, &f);
	}
	parent = fmt_be64_get(key.p);
	err = inode_get(t, parent, &dir);
	if (err == -TESS_E_STALE || (!err && (!S_ISDIR(dir.mode) || !dir.nlink))) {
		f = check_found("dangling-dentry", parent, 0, fix_dentry,
				"name \"%.*s\" is in %" PRIu64 ", which is no directory",
				(int)d.nlen, d.name, parent);
		check_key(&f, KV_DENTRY, key);
		return check_report(k, &f);
	}
	if (!err)
		err = inode_get(t, d.ino, &a);
	if (err == -TESS_E_STALE || (!err && d.type != (a.mode & S_IFMT))) {
		f = check_found("dangling-dentry", d.ino, 0, err ? fix_dentry : NULL,
				err ? "name \"%.*s\" in %" PRIu64 " has no inode"
				    : "name \"%.*s\" in %" PRIu64
				      " is of another type than its inode",
				(int)d.nlen, d.name, parent);
		f.arg = d.ino;
		check_key(&f, KV_DENTRY, key);
		return check_report(k, &f);
	}
	if (err == -TESS_E_RECORD)
		return 0; /* told with the inodes */
	if (err)
		return err;
	if (S_ISDIR(a.mode) && a.parent != parent) {
		f = check_found("parent", d.ino, 0, fix_parent,
				"directory says that %" PRIu64 " is its parent; it is %" PRIu64,
				a.parent, parent);
		f.arg = parent;
		err = check_report(k, &f);
	}
	return err ? err : counts_add(&k->links, d.ino, 1);
}

/* ---- inodes ---- */

/* A directory's own count can be seen in one snapshot. */
static int dir_subdirs(struct kv_txn *t, uint64_t dir, uint32_t *ret)
{
	struct fmt_dentry d;
	uint64_t cookie;
	uint32_t n = 0;
	int err = dentry_first(t, dir, 0, &cookie, &d);

	/* A corrupt name was told on the way; its neighbours count. */
	while (!err || err == -TESS_E_RECORD) {
		n += !err && S_ISDIR(d.type);
		err = dentry_next(t, dir, &cookie, &d);
	}
	*ret = n;
	return absent_ok(err);
}

static int fix_dir_nlink(struct kv_txn *t, struct check *k, const struct check_fix *f)
{
	struct meta_attr a;
	uint32_t n;
	int err = inode_get(t, f->found.ino, &a);

	(void)k;
	if (!err)
		err = dir_subdirs(t, a.ino, &n);
	if (err || a.nlink == n + 2)
		return err ? err : -EAGAIN;
	a.nlink = n + 2;
	return inode_put(t, &a);
}

static int fix_nlink(struct kv_txn *t, struct check *k, const struct check_fix *f)
{
	struct meta_attr a;
	int err = inode_get(t, f->found.ino, &a);

	if (err || a.generation != f->stamp)
		return err == -TESS_E_STALE || !err ? -EAGAIN : err;
	if (f->arg == 0)
		return inode_unlink(t, k->m, &a, a.nlink, a.ctime, NULL);
	if (a.flags & META_ORPHAN)
		err = orphan_del(t, a.ino);
	a.flags &= ~(uint32_t)META_ORPHAN;
	a.nlink = (uint32_t)f->arg;
	a.generation++;
	return err ? err : inode_put(t, &a);
}

static int nlink_finding(struct check *k, const struct meta_attr *a, int64_t n)
{
	bool dir = S_ISDIR(a->mode);
	struct check_fix f = check_found("nlink", a->ino, 0, dir ? NULL : fix_nlink,
					 dir ? "directory has %" PRId64 " names, link count %u"
					     : "%" PRId64 " names, link count %u",
					 n, a->nlink);

	f.arg = (uint64_t)n;
	f.stamp = a->generation;
	return check_report(k, &f);
}

/* A name for each link of a file; exactly one for a directory, none for the root. */
static bool nlink_agrees(const struct meta_attr *a, int64_t n)
{
	if (a->ino == TESS_ROOT_INO)
		return n == 0;
	return n == (S_ISDIR(a->mode) ? a->nlink != 0 : (int64_t)a->nlink);
}

static int check_nlink(struct check *k, struct kv_txn *t, const struct meta_attr *a)
{
	struct count *c = counts_find(&k->links, a->ino);
	int64_t n = c ? c->n : 0;
	struct check_fix f;
	uint32_t subdirs;
	int err = 0;

	if (S_ISDIR(a->mode) && a->nlink) {
		err = dir_subdirs(t, a->ino, &subdirs);
		if (!err && a->nlink != subdirs + 2) {
			f = check_found("nlink", a->ino, 0, fix_dir_nlink,
					"directory has %u subdirectories, link count %u", subdirs,
					a->nlink);
			err = check_report(k, &f);
		}
	}
	if (err || nlink_agrees(a, n))
		return err;
	if (!k->c->online)
		return nlink_finding(k, a, n);
	err = counts_add(&k->again, a->ino, 0);
	if (!err)
		counts_find(&k->again, a->ino)->stamp = a->generation;
	return err;
}

static int fix_orphan_put(struct kv_txn *t, struct check *k, const struct check_fix *f)
{
	return orphan_put(t, k->m, f->found.ino);
}

static int check_inode(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v)
{
	uint32_t holder;
	struct meta_attr a;
	struct check_fix f;
	int err;

	k->c->inodes++;
	if (key.n != 8 || codec_inode_get(v, fmt_be64_get(key.p), &a)) {
		f = check_found("record", key.n == 8 ? fmt_be64_get(key.p) : 0, 0, NULL,
				"inode record is corrupt");
		return check_report(k, &f);
	}
	err = check_nlink(k, t, &a);
	if (!err && a.nlink == 0 && orphan_holder(t, a.ino, 0, &holder) == -ENOENT) {
		f = check_found("orphan", a.ino, 0, fix_orphan_put,
				"inode without links is on no session's list");
		err = check_report(k, &f);
	}
	if (!err && S_ISREG(a.mode))
		err = check_file(k, t, &a);
	return err;
}

/* ---- what hangs on inodes ---- */

static int check_xattr(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v)
{
	uint64_t ino = key.n >= 8 ? fmt_be64_get(key.p) : 0;
	struct meta_attr a;
	struct kv_val bytes;
	struct check_fix f;
	int err = inode_get(t, ino, &a);

	if (key.n < 8 || codec_bytes_get(v, key.n == 8 ? FMT_SYMLINK : FMT_XATTR, &bytes) ||
	    err == -TESS_E_STALE) {
		f = check_found("record", ino, 0, check_fix_del,
				err == -TESS_E_STALE ? "extended attribute of no inode"
						     : "extended attribute is corrupt");
		check_key(&f, KV_XATTR, key);
		return check_report(k, &f);
	}
	return err == -TESS_E_RECORD ? 0 : err;
}

static int check_orphan(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v)
{
	uint64_t since;
	uint64_t ino = key.n == 12 ? fmt_be64_get((const char *)key.p + 4) : 0;
	struct meta_attr a;
	struct check_fix f;
	int err = inode_get(t, ino, &a);

	if (key.n != 12 || codec_u64_get(v, FMT_ORPHAN, &since) || err == -TESS_E_STALE ||
	    (!err && a.nlink)) {
		f = check_found("orphan", ino, 0, check_fix_del,
				"on a session's list of orphans, but %s",
				err ? "no inode" : "not one");
		check_key(&f, KV_ORPHAN, key);
		return check_report(k, &f);
	}
	return err == -TESS_E_RECORD ? 0 : err;
}

/* ---- counting again ---- */

static int recount_dentry(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v)
{
	struct fmt_dentry d;

	(void)t;
	return key.n == 16 && codec_dentry_get(v, &d) == 0 ? counts_add(&k->again, d.ino, 1) : 0;
}

struct recount_op {
	struct check *k;
	const struct count *c;
};

static int recount_inode(struct kv_txn *t, void *arg)
{
	struct recount_op *o = arg;
	struct meta_attr a;
	int err = inode_get(t, o->c->key, &a);

	if (err || a.generation != o->c->stamp || nlink_agrees(&a, o->c->n))
		return err == -TESS_E_STALE ? 0 : err;
	return nlink_finding(o->k, &a, o->c->n);
}

static int check_links_again(struct check *k)
{
	int err = 0;

	if (!k->again.n)
		return 0;
	k->again.closed = true;
	err = check_walk(k, KV_DENTRY, recount_dentry);
	for (size_t i = 0; i < k->again.cap && !err; i++) {
		struct recount_op o = {k, &k->again.slot[i]};

		if (o.c->key)
			err = kv_read(k->m->kv, recount_inode, &o);
	}
	counts_done(&k->again);
	return err;
}

int check_tree(struct check *k)
{
	int err = check_walk(k, KV_DENTRY, check_dentry);

	if (!err)
		err = check_walk(k, KV_INODE, check_inode);
	counts_done(&k->links);
	if (!err)
		err = check_links_again(k);
	if (!err)
		err = check_walk(k, KV_XATTR, check_xattr);
	return err ? err : check_walk(k, KV_ORPHAN, check_orphan);
}
