/* SPDX-License-Identifier: Apache-2.0 */
/* Content that is one session's until it is laminated, and everybody's and immutable from then on. */
#include "base/err.h"
#include "meta/meta_impl.h"
#include <sys/stat.h>

int inode_may_change(const struct meta *m, const struct meta_attr *a)
{
	if (a->flags & META_LAMINATED)
		return -EPERM;
	if ((a->flags & META_HIDDEN) && a->rdev != atomic_load(&m->session))
		return -EBUSY;
	return 0;
}

struct laminate_op {
	struct meta *m;
	uint64_t ino;
	uint32_t owner, mode;
	bool hide;
	int64_t now;
	struct meta_attr *ret;
};

static int laminate_store(struct kv_txn *t, struct laminate_op *o, struct meta_attr *a)
{
	int err;

	a->ctime = o->now;
	a->generation++;
	err = inode_put(t, a);
	/* Hidden, others were told that there is nothing in it. */
	if (!err)
		err = change_note(t, META_CHANGE_DATA, a->ino);
	if (!err)
		*o->ret = *a;
	return err;
}

static int laminate_run(struct kv_txn *t, void *arg)
{
	struct laminate_op *o = arg;
	struct meta_attr a;
	int err = inode_get(t, o->ino, &a);

	if (err)
		return err;
	if (a.flags & META_LAMINATED) {
		*o->ret = a;
		return 0;
	}
	if (a.flags & META_HIDDEN) {
		if (a.rdev != o->owner)
			return -EBUSY;
		a.flags &= ~(uint32_t)META_HIDDEN;
		a.rdev = 0;
	}
	a.flags |= META_LAMINATED;
	if (o->mode != META_KEEP_MODE) {
		a.mode = (a.mode & S_IFMT) | (o->mode & 07777u);
		err = acl_chmod(t, &a);
	}
	return err ? err : laminate_store(t, o, &a);
}

int meta_laminate(struct meta *m, uint64_t ino, uint32_t owner, uint32_t mode, int64_t now,
		  struct meta_attr *ret)
{
	struct laminate_op o = {.m = m, .ino = ino, .owner = owner, .mode = mode, .now = now, .ret = ret};

	return meta_run(m, laminate_run, &o);
}

static int unlaminate_run(struct kv_txn *t, void *arg)
{
	struct laminate_op *o = arg;
	struct meta_attr a;
	int err = inode_get(t, o->ino, &a);

	if (err)
		return err;
	if (!(a.flags & META_LAMINATED)) {
		*o->ret = a;
		return 0;
	}
	a.flags &= ~(uint32_t)META_LAMINATED;
	return laminate_store(t, o, &a);
}

int meta_unlaminate(struct meta *m, uint64_t ino, int64_t now, struct meta_attr *ret)
{
	struct laminate_op o = {.m = m, .ino = ino, .now = now, .ret = ret};

	return meta_run(m, unlaminate_run, &o);
}

static int claim_run(struct kv_txn *t, void *arg)
{
	struct laminate_op *o = arg;
	struct meta_attr a;
	int err = inode_get(t, o->ino, &a);

	if (err)
		return err;
	if (a.flags & META_LAMINATED)
		return -EPERM;
	if (!(a.flags & META_HIDDEN) || a.rdev == atomic_load(&o->m->session)) {
		*o->ret = a;
		return 0;
	}
	if (a.rdev != o->owner)
		return -EBUSY;
	if (!o->hide)
		a.flags &= ~(uint32_t)META_HIDDEN;
	a.rdev = o->hide ? atomic_load(&o->m->session) : 0;
	return laminate_store(t, o, &a);
}

int meta_claim(struct meta *m, uint64_t ino, uint32_t from, bool hide, int64_t now,
	       struct meta_attr *ret)
{
	struct laminate_op o = {.m = m, .ino = ino, .owner = from, .hide = hide, .now = now, .ret = ret};

	return meta_run(m, claim_run, &o);
}
