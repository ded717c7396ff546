/* SPDX-License-Identifier: Apache-2.0 */
/* rename(2), whole. */
#include "base/err.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"
#include <linux/fs.h>
#include <sys/stat.h>

#define DEPTH_MAX 100000u /* of a walk to the root: only a damaged tree is deeper */

/* Two directories that may be one, and two inodes of which the second may be absent. */
struct rename_op {
	struct meta *m;
	const struct meta_rename *r;
	int64_t now;
	struct meta_gone gone;

	struct meta_attr dir[2]; /* dir[1] is unused when both are one: to points at dir[0] */
	struct meta_attr *from, *to;
	struct kv_val name[2];
	struct dent d[2]; /* what the names are of */
	struct meta_attr moved, target;
	bool has_target;
};

/* Would `dir` get into its own subtree by being put below `into`? */
static int rename_loop_check(struct kv_txn *t, uint64_t dir, uint64_t into)
{
	struct meta_attr a;

	for (unsigned i = 0; i < DEPTH_MAX; i++) {
		int err;

		if (into == dir)
			return -EINVAL;
		if (into == TESS_ROOT_INO)
			return 0;
		err = inode_get(t, into, &a);
		if (err)
			return err;
		into = a.parent;
	}
	return -TESS_E_RECORD;
}

static int rename_load(struct kv_txn *t, struct rename_op *o)
{
	const struct meta_rename *r = o->r;
	int err = inode_dir(t, r->from_dir, &o->dir[0]);

	o->from = o->to = &o->dir[0];
	if (!err && r->to_dir != r->from_dir) {
		o->to = &o->dir[1];
		err = inode_dir(t, r->to_dir, o->to);
	}
	if (!err)
		err = dentry_find(t, o->m, r->from_dir, o->name[0], &o->d[0]);
	if (!err)
		err = inode_get(t, o->d[0].ino, &o->moved);
	if (err)
		return err;
	err = dentry_find(t, o->m, r->to_dir, o->name[1], &o->d[1]);
	o->has_target = !err;
	if (!err)
		err = inode_get(t, o->d[1].ino, &o->target);
	return absent_ok(err);
}

/* 1: nothing is to be done. */
static int rename_allowed(struct kv_txn *t, struct rename_op *o)
{
	bool exchange = o->r->flags & RENAME_EXCHANGE, dir = S_ISDIR(o->moved.mode);
	bool over_dir = o->has_target && S_ISDIR(o->target.mode);
	int err = 0;

	if (o->has_target && (o->r->flags & RENAME_NOREPLACE))
		return -EEXIST;
	if (!o->has_target && exchange)
		return -ENOENT;
	if (o->has_target && o->moved.ino == o->target.ino)
		return 1; /* two links to one file: POSIX leaves both */
	if (o->from != o->to && dir)
		err = rename_loop_check(t, o->moved.ino, o->r->to_dir);
	if (!err && o->from != o->to && exchange && over_dir)
		err = rename_loop_check(t, o->target.ino, o->r->from_dir);
	if (err || exchange || !o->has_target)
		return err;
	if (dir != over_dir)
		return dir ? -ENOTDIR : -EISDIR;
	return over_dir ? dentry_empty(t, o->target.ino) : 0;
}

/* What is laminated has been told for ever. */
static void rename_touch(struct meta_attr *a, int64_t now)
{
	if (a->flags & META_LAMINATED)
		return;
	a->ctime = now;
	a->generation++;
}

static int rename_exchange(struct kv_txn *t, struct rename_op *o)
{
	struct dent a = {o->d[0].cookie, o->d[1].ino, o->d[1].type};
	struct dent b = {o->d[1].cookie, o->d[0].ino, o->d[0].type};
	int err = dentry_put(t, o->r->from_dir, o->name[0], &a);

	if (!err)
		err = dentry_put(t, o->r->to_dir, o->name[1], &b);
	if (err)
		return err;
	int by = S_ISDIR(o->moved.mode) - S_ISDIR(o->target.mode);

	o->from->nlink -= (uint32_t)by;
	o->to->nlink += (uint32_t)by;
	o->target.parent = o->r->from_dir;
	rename_touch(&o->target, o->now);
	return inode_put(t, &o->target);
}

static int rename_replace(struct kv_txn *t, struct rename_op *o)
{
	struct dent d = {o->d[1].cookie, o->d[0].ino, o->d[0].type};
	bool dir = S_ISDIR(o->moved.mode);
	int err = dentry_del(t, o->r->from_dir, &o->d[0]);

	/* In one directory the place found for the new name cannot be the old one: that was taken.
	 */
	if (!err)
		err = dentry_put(t, o->r->to_dir, o->name[1], &d);
	if (!err && o->has_target)
		err = inode_unlink(t, o->m, &o->target, dir ? o->target.nlink : 1, o->now,
				   &o->gone);
	if (err)
		return err;
	if (dir) {
		o->from->nlink--;
		if (!o->has_target)
			o->to->nlink++;
	}
	return 0;
}

static int rename_run(struct kv_txn *t, void *arg)
{
	struct rename_op *o = arg;
	int err = rename_load(t, o);
	uint32_t nlink[2];

	memset(&o->gone, 0, sizeof(o->gone));
	if (!err)
		err = rename_allowed(t, o);
	if (err)
		return err > 0 ? 0 : err;
	nlink[0] = o->from->nlink;
	nlink[1] = o->to->nlink;
	err = o->r->flags & RENAME_EXCHANGE ? rename_exchange(t, o) : rename_replace(t, o);
	if (err)
		return err;
	if (o->to != o->from || !inode_relax(o->m, &o->moved)) {
		o->moved.parent = o->r->to_dir;
		rename_touch(&o->moved, o->now);
		err = inode_put(t, &o->moved);
	}
	if (!err)
		err = inode_entry_changed(t, o->m, o->from, o->now, o->from->nlink != nlink[0]);
	if (!err && o->to != o->from)
		err = inode_entry_changed(t, o->m, o->to, o->now, o->to->nlink != nlink[1]);
	return err;
}

int meta_rename(struct meta *m, const struct meta_rename *r, int64_t now, struct meta_gone *ret)
{
	struct rename_op o = {.m = m, .r = r, .now = now};
	int err = dentry_name_check(r->from, r->from_len);

	if (!err)
		err = dentry_name_check(r->to, r->to_len);
	if (!err && ((r->flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE)) ||
		     r->flags == (RENAME_NOREPLACE | RENAME_EXCHANGE)))
		err = -EINVAL;
	if (err)
		return err;
	o.name[0] = kv_val(r->from, r->from_len);
	o.name[1] = kv_val(r->to, r->to_len);
	err = meta_run(m, rename_run, &o);
	if (!err && ret)
		*ret = o.gone;
	return err == -TESS_E_STALE ? -TESS_E_RECORD : err;
}
