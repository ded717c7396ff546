/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment moves to other targets in two transactions, with the copying between them:
 *
 *	begin	a garbage record COPYING names the new objects and the session that makes them
 *	end	the segment's record names the new objects, the garbage record the old ones: MOVED
 *
 * So at any moment each object is named by some record, whatever session dies. The id stays, and with
 * it extents and checksums.
 *
 * The same object may come and go several times, when a segment moves forth and back. Nobody may then
 * delete what an earlier move left while a later one makes it again: the segment's record leads to the one
 * garbage record that names objects of it elsewhere, no other move begins while that is there, and
 * one session alone works it off. It passes on when that one is dead.
 */
#include "base/err.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"
#include <string.h>

struct move_op {
	uint32_t self;
	uint64_t serial;
	const struct meta_segment *old, *to;
	uint32_t dead;
	bool moved;
	tess_segid id;
	unsigned shard;
	uint16_t target;
	int known;
};

static bool same_place(const struct meta_segment *a, const struct meta_segment *b)
{
	return a->state == b->state && a->width == b->width && a->cell == b->cell &&
	       a->len == b->len && memcmp(a->target, b->target, a->width * sizeof(a->target[0])) == 0;
}

/* The garbage record that a segment's leads to. -ENOENT: it is worked off. */
static int move_record(struct kv_txn *t, const struct meta_segment *s, struct meta_garbage *ret)
{
	int err = s->moved ? garbage_get(t, s->moved, ret) : -ENOENT;

	return err == 0 && ret->seg.id != s->id ? -ENOENT : err;
}

static int move_add(struct kv_txn *t, struct meta_segment *now, struct meta_garbage *g)
{
	struct meta_garbage old;
	int err = move_record(t, now, &old);

	if (err != -ENOENT)
		return err ? err : -EBUSY;
	err = garbage_new(t, g);
	if (err)
		return err;
	now->moved = g->serial;
	return segment_put(t, now);
}

static int move_run_begin(struct kv_txn *t, void *arg)
{
	struct move_op *o = arg;
	struct meta_garbage g = {.kind = META_GARBAGE_COPYING, .session = o->self, .seg = *o->to};
	struct meta_segment now;
	int err = segment_get(t, o->old->id, &now);

	if (!err && (now.state != META_DURABLE || !same_place(&now, o->old)))
		err = -ESTALE;
	if (!err)
		err = move_add(t, &now, &g);
	o->serial = g.serial;
	return err;
}

int meta_move_begin(struct meta *m, const struct meta_segment *old, const struct meta_segment *to,
		    uint64_t *ret_serial)
{
	struct move_op o = {.self = meta_session_id(m), .old = old, .to = to};
	int err;

	if (!o.self || old->id != to->id || to->state != META_DURABLE || !to->width)
		return -EINVAL;
	err = meta_run(m, move_run_begin, &o);
	if (!err)
		*ret_serial = o.serial;
	return err;
}

static int move_run_end(struct kv_txn *t, void *arg)
{
	struct move_op *o = arg;
	struct meta_segment now;
	struct meta_garbage g;
	int err = garbage_get(t, o->serial, &g);

	o->moved = false;
	if (err || g.kind != META_GARBAGE_COPYING || g.session != o->self)
		return err && err != -ENOENT ? err : -ESTALE;
	err = segment_get(t, g.seg.id, &now);
	if (!err && o->to && now.moved == o->serial && same_place(&now, o->old)) {
		now.width = o->to->width;
		now.cell = o->to->cell;
		memcpy(now.target, o->to->target, sizeof(now.target));
		g.seg = *o->old;
		o->moved = true;
		err = segment_put(t, &now);
	}
	if (absent_ok(err))
		return err;
	g.kind = META_GARBAGE_MOVED;
	g.died = t->serial - 1;
	return garbage_put(t, &g);
}

int meta_move_end(struct meta *m, uint64_t serial, const struct meta_segment *old,
		  const struct meta_segment *to, bool *ret_moved)
{
	struct move_op o = {.self = meta_session_id(m), .serial = serial, .old = old, .to = to};
	int err = meta_run(m, move_run_end, &o);

	if (!err)
		*ret_moved = o.moved;
	return err;
}

int meta_move_cancel(struct meta *m, uint64_t serial)
{
	struct move_op o = {.self = meta_session_id(m), .serial = serial};

	return meta_run(m, move_run_end, &o);
}

static int move_run_claim(struct kv_txn *t, void *arg)
{
	struct move_op *o = arg;
	struct meta_garbage g;
	int err = garbage_get(t, o->serial, &g);

	if (err || g.session != o->dead)
		return err && err != -ENOENT ? err : -ESTALE;
	g.session = o->self;
	/* What copied it may have died with it: its objects may go when that is durable. */
	if (g.kind == META_GARBAGE_COPYING)
		g.died = t->serial - 1;
	g.kind = META_GARBAGE_MOVED;
	return garbage_put(t, &g);
}

int meta_move_claim(struct meta *m, uint64_t serial, uint32_t session)
{
	struct move_op o = {.self = meta_session_id(m), .serial = serial, .dead = session};

	if (!o.self || !session)
		return -EINVAL;
	return o.self == session ? 0 : meta_run(m, move_run_claim, &o);
}

/* ---- objects ---- */

static int move_run_known(struct kv_txn *t, void *arg)
{
	struct move_op *o = arg;
	struct meta_segment now;
	struct meta_garbage g;
	int err = segment_get(t, o->id, &now);

	if (err)
		return err;
	/* A staged one with objects: its seal died before its commit and will be done again, on the same names. */
	o->known = now.state == META_STAGED || meta_segment_at(&now, o->shard, o->target);
	if (o->known)
		return 0;
	err = move_record(t, &now, &g);
	o->known = !err && meta_segment_at(&g.seg, o->shard, o->target);
	return absent_ok(err);
}

int meta_object_known(struct meta *m, tess_segid id, unsigned shard, uint16_t target)
{
	struct move_op o = {.id = id, .shard = shard, .target = target};
	int err = kv_read(m->kv, move_run_known, &o);

	return err ? err : o.known;
}

/* As MOVED, and not deleted by who finds it: a move may begin to make it at any moment. */
static int move_run_stray(struct kv_txn *t, void *arg)
{
	struct move_op *o = arg;
	struct meta_garbage g = {.kind = META_GARBAGE_MOVED, .session = o->self};
	struct meta_segment now;
	int err = segment_get(t, o->id, &now);

	if (err)
		return err;
	if (now.state == META_STAGED || o->shard >= now.width || now.target[o->shard] == o->target)
		return -EBUSY;
	g.seg = now;
	g.seg.target[o->shard] = o->target;
	return move_add(t, &now, &g);
}

int meta_object_stray(struct meta *m, tess_segid id, unsigned shard, uint16_t target)
{
	struct move_op o = {.self = meta_session_id(m), .id = id, .shard = shard, .target = target};

	return o.self ? meta_run(m, move_run_stray, &o) : -EINVAL;
}
