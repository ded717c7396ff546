/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latency=TIME and rate=BYTES: makes a near store feel like a far one, for tests, demonstrations
 * and tuning. A request's done() comes no earlier than TIME after its submission, and the bytes of
 * all PUTs and GETs share one link of BYTES per second.
 *
 * The inner store works at once and only the answer is late: the delay must not move the work from
 * many submitting threads to the one timer thread.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "store/deco.h"

#include <string.h>

struct latency {
	struct store       s;
	int64_t            delay;	/* const, ns */
	uint64_t           rate;	/* const, bytes/s; 0: unlimited */
	struct deco_timer *timer;	/* owned */
	struct lock        lock;
	int64_t link_free GUARDED_BY(&lock); /* when the link has carried what was sent so far */
};

struct latency_op {
	struct deco_hook hook;
	struct deco_wait wait;
	int64_t          due;
};

static void latency_finish(struct store_op *op)
{
	struct latency_op *x = op->owner;

	deco_unhook_op(op);
	free(x);
	store_op_done(op, op->err);
}

static void latency_fire(struct deco_wait *w)
{
	latency_finish(w->op);
}

static int64_t latency_due(struct latency *l, uint64_t bytes)
{
	int64_t now = clock_now();

	if (!l->rate || !bytes)
		return now + l->delay;
	scoped_lock(&l->lock);
	l->link_free = MAX(l->link_free, now) +
		       (int64_t)((double)bytes / (double)l->rate * (double)NS_PER_S);
	return l->link_free + l->delay;
}

static void latency_done(struct store_op *op)
{
	struct latency_op *x = op->owner;
	struct latency *l = container_of(x->hook.s, struct latency, s);

	if (x->due <= clock_now())
		latency_finish(op);
	else
		deco_timer_add(l->timer, &x->wait, x->due);
}

static void latency_submit(struct store *s, struct store_op *op)
{
	struct latency *l = container_of(s, struct latency, s);
	struct latency_op *x = mem_zalloc(sizeof(*x));
	bool bytes = op->code == STORE_PUT || op->code == STORE_GET;

	if (!x) {
		store_op_done(op, -ENOMEM);
		return;
	}
	x->due = latency_due(l, bytes ? op->data.len : 0);
	x->wait.op = op;
	x->wait.fire = latency_fire;
	deco_hook_op(&x->hook, s, op, latency_done);
	store_submit(s->inner, op);
}

/* The work is done or under way below: what a cancel can save here is the rest of the waiting. */
static void latency_cancel(struct store *s, struct store_op *op)
{
	struct latency *l = container_of(s, struct latency, s);

	if (!deco_timer_find(l->timer, op, latency_fire)) {
		store_cancel(s->inner, op);
		return;
	}
	op->err = -ECANCELED;
	latency_finish(op);
}

static int latency_barrier(struct store *s, struct tess_req *req)
{
	struct latency *l = container_of(s, struct latency, s);
	int r = store_barrier(s->inner, req);

	if (l->delay > 0)
		clock_sleep(l->delay);
	return r;
}

static void latency_to_text(const struct store *s, struct text *out)
{
	const struct latency *l = container_of(s, struct latency, s);

	text_fmt(out, "delay=%lldus rate=%llu", (long long)(l->delay / 1000),
		 (unsigned long long)l->rate);
}

static void latency_close(struct store *s)
{
	struct latency *l = container_of(s, struct latency, s);

	deco_timer_free(l->timer);
	lock_done(&l->lock);
	free(l);
}

static int latency_open(struct store **ret, const struct store_conf *conf, struct store *inner,
			struct text *why)
{
	uint64_t delay, rate;
	scoped_free struct latency *l = NULL;
	int r = deco_param_time(conf, "latency", 0, &delay, why);

	if (r == 0)
		r = deco_param_size(conf, "rate", 0, &rate, why);
	if (r < 0)
		return r;
	l = mem_zalloc(sizeof(*l));
	if (!l)
		return -ENOMEM;
	deco_init(&l->s, &deco_latency_ops, inner);
	l->delay = (int64_t)delay;
	l->rate = rate;
	/* Late and from another thread, as a remote store's answer: queues are sized by that. */
	l->s.caps.flags &= ~(unsigned)STORE_LOCAL;
	r = deco_timer_new(&l->timer, "tess-latency");
	if (r < 0)
		return r;
	lock_init(&l->lock, LOCK_STORE_DECO, "latency");
	*ret = &steal_ptr(l)->s;
	return 0;
}

const struct store_ops deco_latency_ops = {
	.name = "latency",
	.open = latency_open,
	.submit = latency_submit,
	.cancel = latency_cancel,
	.barrier = latency_barrier,
	.usage = deco_usage,
	.to_text = latency_to_text,
	.close = latency_close,
};
