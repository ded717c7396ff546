/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit=N: at most N requests below, the others wait in the order they came. A request that is
 * cancelled while it waits ends at once with -ECANCELED.
 *
 * The next one is started by whoever finishes one. A local store finishes inside submit(), so
 * "done() submits the next" would recurse once per waiting request; instead submit() and done()
 * meet in `state`: who comes second ends the request, and the submitting side loops.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "store/deco.h"

#include <assert.h>
#include <stdatomic.h>

struct limit {
	struct store     s;
	unsigned         max;		/* const */
	struct lock      lock;
	unsigned         running GUARDED_BY(&lock);
	struct list_node waiting GUARDED_BY(&lock);	/* store_op.link */
};

enum { SUBMITTING, SUBMITTED, FINISHED };

struct limit_op {
	struct deco_hook hook;
	atomic_int       state;
};

static void limit_finish(struct store_op *op)
{
	struct limit_op *x = op->owner;

	deco_unhook_op(op);
	free(x);
	store_op_done(op, op->err);
}

/* One place became free: the op that takes it, or NULL. */
static struct store_op *limit_next(struct limit *l)
{
	struct list_node *n;

	scoped_lock(&l->lock);
	n = list_pop_front(&l->waiting);
	if (!n) {
		l->running--;
		return NULL;
	}
	return list_entry(n, struct store_op, link);
}

/* Sends `op`, which has a place, and all that its finishing inside submit() lets through. */
static void limit_run(struct limit *l, struct store_op *op)
{
	while (op) {
		struct limit_op *x = op->owner;
		struct store_op *next;

		store_submit(l->s.inner, op);
		if (atomic_exchange(&x->state, SUBMITTED) != FINISHED)
			return;		/* x may be gone */
		next = limit_next(l);
		limit_finish(op);
		op = next;
	}
}

static void limit_done(struct store_op *op)
{
	struct limit_op *x = op->owner;
	struct limit *l = container_of(x->hook.s, struct limit, s);
	struct store_op *next;

	if (atomic_exchange(&x->state, FINISHED) == SUBMITTING)
		return;			/* limit_run() goes on with it */
	next = limit_next(l);
	limit_finish(op);
	limit_run(l, next);
}

static void limit_submit(struct store *s, struct store_op *op)
{
	struct limit *l = container_of(s, struct limit, s);
	struct limit_op *x = mem_zalloc(sizeof(*x));
	bool run;

	if (!x) {
		store_op_done(op, -ENOMEM);
		return;
	}
	atomic_init(&x->state, SUBMITTING);
	deco_hook_op(&x->hook, s, op, limit_done);
	lock_take(&l->lock);
	run = l->running < l->max;
	if (run)
		l->running++;
	else
		list_push_back(&l->waiting, &op->link);
	lock_drop(&l->lock);
	if (run)
		limit_run(l, op);
}

static void limit_cancel(struct store *s, struct store_op *op)
{
	struct limit *l = container_of(s, struct limit, s);
	bool mine = false;

	lock_take(&l->lock);
	list_for_each(n, &l->waiting) {
		if (n == &op->link) {
			list_remove(n);
			mine = true;
			break;
		}
	}
	lock_drop(&l->lock);
	if (!mine) {
		store_cancel(s->inner, op);
		return;
	}
	op->err = -ECANCELED;
	limit_finish(op);
}

static void limit_to_text(const struct store *s, struct text *out)
{
	text_fmt(out, "max=%u", container_of(s, struct limit, s)->max);
}

static void limit_close(struct store *s)
{
	struct limit *l = container_of(s, struct limit, s);

	assert(list_empty(&l->waiting));
	lock_done(&l->lock);
	free(l);
}

static int limit_open(struct store **ret, const struct store_conf *conf, struct store *inner,
		      struct text *why)
{
	uint64_t max;
	struct limit *l;
	int r = deco_param_uint(conf, "limit", 0, &max, why);

	if (r < 0)
		return r;
	if (max < 1 || max > 65536) {
		text_fmt(why, "%s: limit: 1 to 65536 requests are possible", conf->uri);
		return -TESS_E_URI;
	}
	l = mem_zalloc(sizeof(*l));
	if (!l)
		return -ENOMEM;
	deco_init(&l->s, &deco_limit_ops, inner);
	l->max = (unsigned)max;
	l->s.caps.max_inflight = MIN(l->max, inner->caps.max_inflight);
	lock_init(&l->lock, LOCK_STORE_DECO, "limit");
	list_init(&l->waiting);
	*ret = &l->s;
	return 0;
}

const struct store_ops deco_limit_ops = {
	.name = "limit",
	.open = limit_open,
	.submit = limit_submit,
	.cancel = limit_cancel,
	.barrier = deco_barrier,
	.usage = deco_usage,
	.to_text = limit_to_text,
	.close = limit_close,
};
