/* SPDX-License-Identifier: Apache-2.0 */
/* Publishing what was written, and sharing it. The hot path: O(log n) an extent, each record once.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/range.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"
#include <sys/stat.h>

#define PUBLISH_TICK (INT64_C(1000) * 1000 * 1000)

/* ---- checks, all before the first write: a file's error must not spoil the others' transaction
 * ---- */

static bool publish_range_ok(struct tess_range r)
{
	return r.off <= TESS_FILE_MAX && r.len <= TESS_FILE_MAX - r.off;
}

/* Where offset 0 of what is published lies. */
static uint64_t publish_base(const struct meta_attr *a, const struct meta_publish *p)
{
	return p->append ? a->size : 0;
}

static int publish_check_extent(struct kv_txn *t, struct tally *y, const struct tess_extent *x)
{
	struct tally_row *r;
	int err;

	if (!x->len || x->len > UINT32_MAX || !x->seg || x->seg_off > UINT32_MAX - x->len ||
	    !publish_range_ok((struct tess_range){x->off, x->len}))
		return -EINVAL;
	err = tally_row(y, t, x->seg, &r);
	if (err)
		return err == -ENOENT ? -TESS_E_RECORD : err;
	return x->seg_off + x->len > r->seg.len ? -EINVAL : 0;
}

static int publish_check(struct kv_txn *t, struct tally *y, const struct meta_attr *a,
			 const struct meta_publish *p)
{
	uint64_t size = p->trunc_to == META_NO_TRUNC ? a->size : MIN(a->size, p->trunc_to);
	uint64_t base = publish_base(a, p);
	int err = S_ISREG(a->mode) ? 0 : S_ISDIR(a->mode) ? -EISDIR : -EINVAL;

	if (!err)
		err = inode_may_change(y->m, a);
	if (!err && p->generation && p->generation != a->generation)
		err = -EAGAIN;
	if (!err && (p->size > TESS_FILE_MAX || base > TESS_FILE_MAX - p->size))
		err = -EFBIG;
	if (!err && p->append && (p->trunc_to != META_NO_TRUNC || p->npunch))
		err = -EINVAL;
	size = MAX(size, base + p->size);
	for (unsigned i = 0; i < p->npunch && !err; i++)
		err = publish_range_ok(p->punch[i]) ? 0 : -EINVAL;
	for (unsigned i = 0; i < p->nsegs && !err; i++)
		err = tally_new(y, t, &p->segs[i]);
	for (unsigned i = 0; i < p->next && !err; i++) {
		err = publish_check_extent(t, y, &p->ext[i]);
		if (!err && base + p->ext[i].off + p->ext[i].len > size)
			err = -EINVAL; /* bytes beyond the end would come to light when it grows */
	}
	return err;
}

/* ---- one file ---- */

/*
 * The clock ticks each 4 ms, and who compares (mtime, size) must see two changes within a tick. Who wrote
 * first may publish last, which takes no time back. One that a user set far ahead is not held on to.
 */
static int64_t publish_mtime(int64_t was, int64_t now)
{
	bool past = was - now < PUBLISH_TICK || was <= clock_wall_coarse();

	return now <= was && past ? was + 1 : now;
}

static int publish_apply(struct kv_txn *t, struct tally *y, struct meta_attr *a,
			 const struct meta_publish *p)
{
	uint64_t base = publish_base(a, p), end_turn = 0;
	int err = 0;

	/* Where it goes is known only now. */
	if (p->append)
		end_turn = meta_turn(y->m, a->ino, (struct tess_range){base, p->size});
	if (p->trunc_to != META_NO_TRUNC && p->trunc_to < a->size) {
		err = extent_cut(t, y, a, p->trunc_to, UINT64_MAX);
		a->size = p->trunc_to;
	}
	for (unsigned i = 0; i < p->npunch && !err; i++)
		err = extent_cut(t, y, a, p->punch[i].off, p->punch[i].off + p->punch[i].len);
	for (unsigned i = 0; i < p->next && !err; i++) {
		struct tess_extent x = p->ext[i];

		x.off += base;
		x.turn = MAX(x.turn, end_turn);
		err = extent_lay(t, y, a, &x);
	}
	if (!err)
		err = tally_apply(y, t);
	if (!err && p->kill_priv)
		err = inode_kill_priv(t, a);
	if (err)
		return err;
	a->size = MAX(a->size, base + p->size);
	a->generation++;
	if (p->mtime)
		a->mtime = a->ctime = publish_mtime(a->mtime, p->mtime);
	if (p->atime)
		a->atime = p->atime;
	err = inode_put(t, a);
	return err ? err : change_note(t, META_CHANGE_DATA, a->ino);
}

/* *ret_own: the error is this file's, and nothing was written for it. */
static int publish_one(struct kv_txn *t, struct meta *m, uint64_t ino, const struct meta_publish *p,
		       struct meta_attr *a, bool *ret_own)
{
	struct tally y;
	int err;

	tally_init(&y, m);
	err = inode_get(t, ino, a);
	if (!err)
		err = publish_check(t, &y, a, p);
	*ret_own = err == -TESS_E_STALE || err == -EINVAL || err == -EISDIR || err == -EFBIG ||
		   err == -EEXIST || err == -EPERM || err == -EBUSY || err == -EAGAIN;
	if (!err)
		err = publish_apply(t, &y, a, p);
	tally_done(&y);
	return err;
}

struct publish_op {
	struct meta *m;
	const uint64_t *inos;
	const struct meta_publish *p;
	unsigned n;
	int *errs;
	struct meta_attr a;
};

static int publish_run(struct kv_txn *t, void *arg)
{
	struct publish_op *o = arg;
	bool own;

	return publish_one(t, o->m, *o->inos, o->p, &o->a, &own);
}

int meta_publish(struct meta *m, uint64_t ino, const struct meta_publish *p, struct meta_attr *ret)
{
	struct publish_op o = {.m = m, .inos = &ino, .p = p};
	int err = meta_run(m, publish_run, &o);

	if (!err && ret)
		*ret = o.a;
	return err;
}

static int publish_run_many(struct kv_txn *t, void *arg)
{
	struct publish_op *o = arg;

	for (unsigned i = 0; i < o->n; i++) {
		bool own;

		o->errs[i] = publish_one(t, o->m, o->inos[i], &o->p[i], &o->a, &own);
		if (o->errs[i] && !own)
			return o->errs[i];
	}
	return 0;
}

int meta_publish_many(struct meta *m, const uint64_t *inos, const struct meta_publish *p,
		      unsigned n, int *errs)
{
	struct publish_op o = {m, inos, p, n, errs, {0}};

	return n ? meta_run(m, publish_run_many, &o) : 0;
}

/* ---- sharing ---- */

struct clone_op {
	struct meta *m;
	const struct meta_clone *c;
	int64_t now;
	struct meta_attr src, dst;
	struct tess_extent *ext; /* owned by meta_clone() */
	size_t n, cap;
	uint64_t turn; /* of the destination's new bytes: they come after all that is written there */
};

static int clone_add(struct clone_op *o, const struct tess_extent *x)
{
	if (o->n == o->cap) {
		size_t cap = o->cap ? o->cap * 2 : 64;
		struct tess_extent *more = mem_resize(o->ext, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		o->ext = more;
		o->cap = cap;
	}
	o->ext[o->n++] = *x;
	return 0;
}

/* The source's extents of the range, at their place in the destination. */
static int clone_collect(struct kv_txn *t, struct clone_op *o, uint64_t end)
{
	const struct meta_clone *c = o->c;
	struct tess_extent x;
	int err = extent_first(t, c->src, c->src_off, &x);

	o->n = 0;
	o->turn = change_noting(t) ? meta_turn(o->m, c->dst, (struct tess_range){c->dst_off, c->len}) : 0;
	while (!err && x.off < end) {
		uint64_t skip = x.off < c->src_off ? c->src_off - x.off : 0;
		struct tess_extent y = {x.off + skip, x.len - skip, x.seg, x.seg_off + skip, o->turn};

		y.len = MIN(y.len, end - y.off);
		y.off = y.off - c->src_off + c->dst_off;
		err = clone_add(o, &y);
		if (!err)
			err = extent_next(t, c->src, &x);
	}
	return absent_ok(err);
}

static int clone_lay(struct kv_txn *t, struct clone_op *o, uint64_t len)
{
	const struct meta_clone *c = o->c;
	struct tally y;
	int err;

	tally_init(&y, o->m);
	err = extent_cut(t, &y, &o->dst, c->dst_off, c->dst_off + len);
	for (size_t i = 0; i < o->n && !err; i++)
		err = extent_put(t, &y, &o->dst, &o->ext[i]);
	if (!err)
		err = tally_apply(&y, t);
	tally_done(&y);
	return err;
}

static int clone_run(struct kv_txn *t, void *arg)
{
	struct clone_op *o = arg;
	const struct meta_clone *c = o->c;
	uint64_t len;
	int err = inode_get(t, c->src, &o->src);

	if (!err)
		err = inode_get(t, c->dst, &o->dst);
	if (!err && (!S_ISREG(o->src.mode) || !S_ISREG(o->dst.mode)))
		err = -EINVAL;
	if (!err)
		err = inode_may_change(o->m, &o->dst);
	if (err)
		return err;
	len = c->src_off < o->src.size ? MIN(c->len, o->src.size - c->src_off) : 0;
	if (c->dst_off > TESS_FILE_MAX || len > TESS_FILE_MAX - c->dst_off)
		return -EFBIG;
	if (c->src == c->dst && c->src_off < c->dst_off + len && c->dst_off < c->src_off + len)
		return -EINVAL;
	if (len == 0)
		return 0;
	err = clone_collect(t, o, c->src_off + len);
	if (!err)
		err = clone_lay(t, o, len);
	if (!err)
		err = inode_kill_priv(t, &o->dst);
	if (err)
		return err;
	o->dst.size = MAX(o->dst.size, c->dst_off + len);
	inode_touch(&o->dst, o->now);
	err = inode_put(t, &o->dst);
	return err ? err : change_note(t, META_CHANGE_DATA, o->dst.ino);
}

int meta_clone(struct meta *m, const struct meta_clone *c, int64_t now, struct meta_attr *ret_dst)
{
	struct clone_op o = {.m = m, .c = c, .now = now};
	int err = meta_run(m, clone_run, &o);

	free(o.ext);
	if (!err && ret_dst)
		*ret_dst = o.dst;
	return err;
}
