/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit=N: at most N requests below, the others wait in the order they came. A request that is
 * cancelled while it waits ends at once with -ECANCELED. limit=auto: as many as the service takes
 * without answering later for it (store/window.h); every network target has that by default.
 *
 * The next one is started by whoever finishes one. A local store finishes inside submit(), so
 * "done() submits the next" would recurse once per waiting request; instead submit() and done()
 * meet in `state`: who comes second ends the request, and the submitting side loops.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "base/trace.h"
#include "store/deco.h"
#include "store/window.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define AUTO_START 16u
#define AUTO_MAX   256u

enum { C_WINDOW, C_QUEUED, C_BUSY, C_N };

struct limit {
	struct store     s;
	bool             adapts;	/* const */
	struct lock      lock;
	struct window    window GUARDED_BY(&lock);	/* min == max unless it adapts */
	unsigned         running GUARDED_BY(&lock);
	struct list_node waiting GUARDED_BY(&lock);	/* store_op.link */
	struct trace_group   group;
	struct trace_counter counters[C_N];
};

enum { SUBMITTING, SUBMITTED, FINISHED };

struct limit_op {
	struct deco_hook hook;
	atomic_int       state;
	int64_t          start;		/* sent below */
};

static void limit_finish(struct store_op *op)
{
	struct limit_op *x = op->owner;

	deco_unhook_op(op);
	free(x);
	store_op_done(op, op->err);
}

static struct store_op *limit_pop_locked(struct limit *l)
{
	struct list_node *n;

	lock_assert_held(&l->lock);
	if (l->running >= window_size(&l->window))
		return NULL;
	n = list_pop_front(&l->waiting);
	if (!n)
		return NULL;
	l->running++;
	return list_entry(n, struct store_op, link);
}

/* `op` came back: its place may go to the op returned. */
static struct store_op *limit_next(struct limit *l, const struct store_op *op)
{
	const struct limit_op *x = op->owner;

	scoped_lock(&l->lock);
	if (l->adapts) {
		window_ended(&l->window, op, clock_now() - x->start, l->running);
		trace_set(&l->counters[C_WINDOW], window_size(&l->window));
		if (op->err == -TESS_E_STORE_BUSY)
			trace_add(&l->counters[C_BUSY], 1);
	}
	l->running--;
	return limit_pop_locked(l);
}

static struct store_op *limit_more(struct limit *l)
{
	scoped_lock(&l->lock);
	return limit_pop_locked(l);
}

/* Sends `op`, which has a place, and all that its finishing inside submit() lets through. */
static void limit_run(struct limit *l, struct store_op *op)
{
	while (op) {
		struct limit_op *x = op->owner;
		struct store_op *next;

		x->start = clock_now();
		store_submit(l->s.inner, op);
		if (atomic_exchange(&x->state, SUBMITTED) != FINISHED)
			return;		/* x may be gone */
		next = limit_next(l, op);
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
	next = limit_next(l, op);
	limit_finish(op);
	/*
	 * The window may have grown by more than the place that became free. Asked before the one in hand is sent:
	 * once the last is done the store may be gone.
	 */
	while (next) {
		struct store_op *more = limit_more(l);

		limit_run(l, next);
		next = more;
	}
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
	run = l->running < window_size(&l->window);
	if (run) {
		l->running++;
	} else {
		list_push_back(&l->waiting, &op->link);
		trace_add(&l->counters[C_QUEUED], 1);
	}
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
	struct limit *l = container_of(s, struct limit, s);

	scoped_lock(&l->lock);
	text_fmt(out, l->adapts ? "auto=%u" : "max=%u", window_size(&l->window));
}

static void limit_close(struct store *s)
{
	struct limit *l = container_of(s, struct limit, s);

	assert(list_empty(&l->waiting));
	if (l->adapts)
		trace_unregister(&l->group);
	lock_done(&l->lock);
	free(l);
}

static void limit_trace(struct limit *l)
{
	static const char *const names[C_N] = { "window", "queued", "busy" };

	for (unsigned i = 0; i < C_N; i++)
		l->counters[i].name = names[i];
	(void)snprintf(l->group.name, sizeof(l->group.name), "store.%.18s.limit", l->s.label);
	trace_set(&l->counters[C_WINDOW], window_size(&l->window));
	l->group.counters = l->counters;
	l->group.ncounters = C_N;
	trace_register(&l->group);
}

static int limit_open(struct store **ret, const struct store_conf *conf, struct store *inner,
		      struct text *why)
{
	const char *value = conf->param(conf, "limit");
	bool adapts = value && strcmp(value, "auto") == 0;
	uint64_t max = AUTO_MAX;
	struct limit *l;
	int r = adapts ? 0 : deco_param_uint(conf, "limit", 0, &max, why);

	if (r < 0)
		return r;
	if (max < 1 || max > 65536) {
		text_fmt(why, "%s: limit: 1 to 65536 requests are possible, or auto", conf->uri);
		return -TESS_E_URI;
	}
	l = mem_zalloc(sizeof(*l));
	if (!l)
		return -ENOMEM;
	deco_init(&l->s, &deco_limit_ops, inner);
	l->adapts = adapts;
	window_init(&l->window, adapts ? 1 : (unsigned)max, adapts ? AUTO_START : (unsigned)max,
		    (unsigned)max);
	l->s.caps.max_inflight = MIN((unsigned)max, inner->caps.max_inflight);
	lock_init(&l->lock, LOCK_STORE_DECO, "limit");
	list_init(&l->waiting);
	if (adapts)
		limit_trace(l);
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
