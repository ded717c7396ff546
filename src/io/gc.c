/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage: objects and staging files that nothing refers to any more. Their bytes go only when
 *  - the commit that let go of them is durable, or a power cut would want them back,
 *  - reads of this process that began before are over (those of other processes look their extents
 *    up again when an object is gone),
 *  - no unpublished bytes of an open file are in them, and no record came back for them since.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scoped.h"
#include "io/stage.h"
#include <string.h>

LOG_MODULE("io")

#define BATCH    64u	/* entries of the list at a time */

/* ---- reads in flight, for garbage collection ---- */

unsigned io_read_enter(struct io *io)
{
	for (;;) {
		unsigned e = atomic_load(&io->epoch);

		atomic_fetch_add(&io->reading[e & 1], 1);
		if (atomic_load(&io->epoch) == e)
			return e;
		atomic_fetch_sub(&io->reading[e & 1], 1);
	}
}

void io_read_leave(struct io *io, unsigned epoch)
{
	atomic_fetch_sub(&io->reading[epoch & 1], 1);
}

bool io_read_quiesce(struct io *io, int64_t deadline)
{
	unsigned e = atomic_load(&io->epoch);

	/* Left over from a call that gave up. */
	while (atomic_load(&io->reading[(e + 1) & 1]) > 0) {
		if (clock_now() >= deadline)
			return false;
		clock_sleep(NS_PER_MS);
	}
	atomic_fetch_add(&io->epoch, 1);
	while (atomic_load(&io->reading[e & 1]) > 0) {
		if (clock_now() >= deadline)
			return false;
		clock_sleep(NS_PER_MS);
	}
	return true;
}

void io_dead_add(struct io *io, const struct meta_segment *seg)
{
	struct io_dead *d = mem_alloc(sizeof(*d));

	if (!d)
		return;		/* an orphan for io_gc() */
	d->seg = *seg;
	scoped_lock(&io->gc_lock);
	list_push_back(&io->dead, &d->link);
}

/* ---- deleting objects ---- */

struct del {
	struct io       *io;
	struct tess_req  req;
	struct lock      lock;		/* LOCK_LEAF */
	struct cond      cond;
	unsigned         left;
	int              err;
};

struct del_op {
	struct store_op op;
	struct io_tgt  *tgt;
	struct del     *del;
};

static void del_done(struct store_op *op)
{
	struct del_op *o = container_of(op, struct del_op, op);
	struct del *d = o->del;
	int e = op->err;

	if (e == 0)
		io_target_changed(o->tgt);
	free(o);
	scoped_lock(&d->lock);
	if (e < 0 && e != -ENOENT && d->err == 0)
		d->err = e;
	if (--d->left == 0)
		cond_wake_all(&d->cond);
}

static void del_init(struct del *d, struct io *io)
{
	*d = (struct del){ .io = io };
	req_begin(&d->req, "gc");
	d->req.deadline = clock_now() + IO_DEADLINE;
	lock_init(&d->lock, LOCK_LEAF, "io.gc.del");
	cond_init(&d->cond);
}

static int del_object(struct del *d, uint16_t target, const char *name)
{
	struct io_tgt *t = io_target(d->io, target);
	struct del_op *o;

	if (!t)
		return -TESS_E_NO_OBJECT;
	o = mem_zalloc(sizeof(*o));
	if (!o)
		return -ENOMEM;
	o->tgt = t;
	o->del = d;
	o->op.req = &d->req;
	o->op.code = STORE_DEL;
	o->op.done = del_done;
	memcpy(o->op.key.name, name, strlen(name) + 1);
	lock_take(&d->lock);
	d->left++;
	lock_drop(&d->lock);
	store_submit(t->store, &o->op);
	return 0;
}

/* Its objects, but for those that `keep` (or NULL) names. */
static int del_segment(struct del *d, const struct meta_segment *s, const struct meta_segment *keep)
{
	char name[PLACE_NAME_LEN + 1];
	struct oclass_geo g;
	int e = fault_point("gc.delete");

	if (e == 0)
		e = io_geo(s, &g);
	for (unsigned i = 0; e == 0 && i < s->width; i++) {
		if (oclass_shard_len(&g, i) == 0 || (keep && meta_segment_at(keep, i, s->target[i])))
			continue;
		place_name(s->id, i, name);
		e = del_object(d, s->target[i], name);
	}
	return e;
}

/* Waits for all; the first error. */
static int del_wait(struct del *d)
{
	lock_take(&d->lock);
	while (d->left > 0)
		cond_wait(&d->cond, &d->lock);
	lock_drop(&d->lock);
	cond_done(&d->cond);
	lock_done(&d->lock);
	return d->err;
}

/* ---- the garbage list ---- */

/* By itself, not from a list of some: a live one that is not in it would be taken for over. */
bool io_session_lives(struct io *io, uint32_t id)
{
	struct meta_session s;
	int e;

	if (id == meta_session_id(io->meta))
		return true;
	e = meta_session_get(io->meta, id, &s);
	return e == 0 ? !meta_session_dead(&s) : e != -ENOENT;
}

/*
 * Another live session may be about to publish into what it wrote: its garbage is its own to collect. So
 * is what a move made or left: of a dead session it is claimed first, since a move back may begin when
 * one is done, and two would not know of each other.
 */
static bool others(struct io *io, const struct meta_garbage *g)
{
	uint32_t self = meta_session_id(io->meta);
	uint32_t id = g->session ? g->session : (uint32_t)(g->seg.id >> 32);

	if (id != self && io_session_lives(io, id))
		return true;
	if (g->session && id != self)
		(void)meta_move_claim(io->meta, g->serial, id);	/* for the next pass */
	return g->session && (id != self || g->kind == META_GARBAGE_COPYING);
}

/* What the end cut off of a copy: the next mount's, or an unmount would wait for the tier that is slow. */
static bool left_over(struct io *io, const struct meta_garbage *g)
{
	struct meta_segment to;

	return g->session && move_stopped(io) && io_rest_place(io, &g->seg, &to) == 0;
}

enum wanted { WANTED_NOT, WANTED_SOME, WANTED_ALL, WANTED_BUSY };

/*
 * Whether bytes of `g` are wanted again: by a file here that has not published, or by a record: by the
 * shards that it names, SOME, with *ret_now the record.
 */
static enum wanted wanted(struct io *io, const struct meta_garbage *g, struct meta_segment *ret_now)
{
	int e;

	if (stage_busy(io, g->seg.id))
		return WANTED_BUSY;
	e = meta_segment_get(io->meta, g->seg.id, ret_now);
	if (e == -ENOENT)
		return WANTED_NOT;
	if (e < 0)
		return WANTED_BUSY;
	if (g->kind == META_GARBAGE_STAGED && ret_now->state != META_STAGED)
		return WANTED_NOT;	/* sealed: the file is garbage, the segment is not */
	if (g->kind == META_GARBAGE_STAGED || ret_now->state == META_STAGED)
		return WANTED_ALL;	/* it came back, and its next death makes an entry of its own */
	return WANTED_SOME;
}

static int collect_one(struct io *io, struct del *d, const struct meta_garbage *g)
{
	struct meta_segment now;

	switch (wanted(io, g, &now)) {
	case WANTED_ALL:
		return 0;
	case WANTED_BUSY:
		return -EBUSY;
	case WANTED_SOME:
		return del_segment(d, &g->seg, &now);
	default:
		return g->kind == META_GARBAGE_STAGED ? stage_unlink(io, g->seg.id) :
							del_segment(d, &g->seg, NULL);
	}
}

struct batch {
	struct meta_garbage  g[BATCH];
	unsigned             n, ndone;
	uint64_t             done[BATCH];	/* serials that may leave the list */
};

/* Deletes what one batch lists. */
static int collect_batch(struct io *io, struct batch *b)
{
	uint64_t durable = kv_durable(meta_kv(io->meta));
	struct del d;
	int e = 0, failed;

	del_init(&d, io);
	b->ndone = 0;
	for (unsigned i = 0; e == 0 && i < b->n; i++) {
		const struct meta_garbage *g = &b->g[i];

		if (g->died >= durable || others(io, g) || left_over(io, g))
			continue;
		e = collect_one(io, &d, g);
		if (e == -EBUSY) {
			e = 0;	/* somebody began to use it */
			continue;
		}
		if (e == 0)
			b->done[b->ndone++] = g->serial;
	}
	failed = del_wait(&d);
	/* Deleting twice is harmless, forgetting what is there is not. */
	if (failed < 0)
		b->ndone = 0;
	return e < 0 ? e : failed;
}

static int collect_list(struct io *io, struct batch *b)
{
	uint64_t after = 0;

	do {
		int e = meta_garbage_list(io->meta, after, b->g, BATCH, &b->n), failed;

		if (e < 0 || b->n == 0)
			return e;
		after = b->g[b->n - 1].serial;
		failed = collect_batch(io, b);
		if (b->ndone > 0)
			e = meta_garbage_done(io->meta, b->done, b->ndone);
		io_count(io, IO_GC_DELETED, b->ndone);
		if (e < 0 || failed < 0)
			return e < 0 ? e : failed;
	} while (b->n == BATCH);
	return 0;
}

/* Segments that were overwritten before they were published. */
static void collect_dead(struct io *io)
{
	struct list_node mine = LIST_INIT(mine), *n;
	struct del d;

	lock_take(&io->gc_lock);
	while ((n = list_pop_front(&io->dead)))
		list_push_back(&mine, n);
	lock_drop(&io->gc_lock);
	del_init(&d, io);
	while ((n = list_pop_front(&mine))) {
		struct io_dead *x = list_entry(n, struct io_dead, link);

		(void)del_segment(&d, &x->seg, NULL);	/* else an orphan for io_gc() */
		free(x);
	}
	(void)del_wait(&d);
}

static bool any_garbage(struct io *io)
{
	struct meta_garbage g;
	unsigned n = 0;
	bool any;

	lock_take(&io->gc_lock);
	any = !list_empty(&io->dead);
	lock_drop(&io->gc_lock);
	return any || (meta_garbage_list(io->meta, 0, &g, 1, &n) == 0 && n > 0);
}

bool io_gc_pass(struct io *io, int64_t deadline)
{
	scoped_free struct batch *b = NULL;
	bool mine;
	int e = 0;

	lock_take(&io->gc_lock);
	mine = !io->collecting;
	io->collecting = true;
	lock_drop(&io->gc_lock);
	if (!mine)
		return false;
	seal_retired(io);
	if (any_garbage(io) && io_read_quiesce(io, deadline)) {
		b = mem_alloc(sizeof(*b));
		e = b ? collect_list(io, b) : -ENOMEM;
		collect_dead(io);	/* last: the end of a staging file may add to them */
	}
	if (e < 0)
		log_warn("garbage collection: %s", err_text(e));
	scoped_lock(&io->gc_lock);
	io->collecting = false;
	return true;
}
