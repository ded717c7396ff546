/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retry=N[&deadline=TIME]: repeats a request up to N times when its error may pass, after a pause
 * of full jitter (uniform up to 20 ms, 40 ms, … 5 s: many clients of a store that was down must not
 * come back in step). PUT, GET, HEAD, DEL and LIST are idempotent by contract, so that repeating
 * one whose answer was lost is safe.
 *
 * A request has until the earlier of its own deadline and TIME after its submission. Then it is
 * cancelled below and ends with -TESS_E_STORE_DEADLINE; a cancelled requester gets no further try.
 * A store that ignores cancel() has to bound its own operations; done() waits for it.
 *
 * What is worth another try is a table, because the other way round (all but ENOENT) repeats
 * a refused credential or a full target until the deadline, and hides it that long. A short body is
 * not in it: it means that the object is that short; a transfer that broke off is the store's
 * to report as ECONNRESET or EPROTO.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "base/trace.h"
#include "store/deco.h"

#include <stdatomic.h>
#include <stdio.h>

#define RETRY_BASE (20 * NS_PER_MS)
#define RETRY_CAP  (5 * NS_PER_S)
#define RETRY_HURRY (50 * NS_PER_MS)	/* between two cancels of an overdue request */

enum { C_AGAIN, C_GAVE_UP, C_DEADLINE, C_N };

struct retry {
	struct store         s;
	unsigned             max;	/* const: further tries */
	int64_t              allowed;	/* const, ns; 0: only the request's own deadline */
	struct deco_timer   *timer;	/* owned */
	struct trace_group   group;
	struct trace_counter counters[C_N];
};

struct retry_op {
	struct deco_hook hook;
	struct deco_wait pause;		/* before the next try */
	struct deco_wait watch;		/* queued while below, if there is a deadline */
	struct retry    *retry;
	int64_t          deadline;
	unsigned         tries;
	atomic_bool      late;		/* the watch fired: an error now means the deadline */
};

static bool retry_worth(int err)
{
	static const int worth[] = {
		TESS_E_STORE_BUSY, TESS_E_STORE_DEADLINE, TESS_E_FAULT,
		EIO, EAGAIN, EINTR, EBUSY, ETIMEDOUT, EPIPE, EPROTO, ECONNRESET, ECONNREFUSED,
		ECONNABORTED, ENOTCONN, ENETDOWN, ENETUNREACH, ENETRESET, EHOSTDOWN, EHOSTUNREACH,
	};

	for (size_t i = 0; i < ARRAY_SIZE(worth); i++) {
		if (err == -worth[i])
			return true;
	}
	return false;
}

static void retry_finish(struct store_op *op, int err)
{
	struct retry_op *x = op->owner;

	deco_unhook_op(op);
	free(x);
	store_op_done(op, err);
}

static void retry_send(struct retry_op *x, struct store_op *op)
{
	if (x->deadline != CLOCK_NEVER)
		deco_timer_add(x->retry->timer, &x->watch, x->deadline);
	store_submit(x->retry->s.inner, op);
}

static void retry_again(struct deco_wait *w)
{
	retry_send(container_of(w, struct retry_op, pause), w->op);
}

/*
 * On another thread than this, retry_done() waits until it returns; on this one, inside
 * store_cancel(), x and op are gone after it. It comes again until then, since the first time may
 * be before the op has arrived where it can be cancelled.
 */
static void retry_overdue(struct deco_wait *w)
{
	struct retry_op *x = container_of(w, struct retry_op, watch);
	struct retry *t = x->retry;

	atomic_store(&x->late, true);
	store_cancel(t->s.inner, w->op);
	deco_timer_again(t->timer, w, clock_now() + RETRY_HURRY);
}

static void retry_done(struct store_op *op)
{
	struct retry_op *x = op->owner;
	struct retry *t = x->retry;
	int err = op->err;
	int64_t due;

	if (x->deadline != CLOCK_NEVER)
		(void)deco_timer_remove(t->timer, &x->watch);
	if (err < 0 && atomic_load(&x->late)) {
		trace_add(&t->counters[C_DEADLINE], 1);
		err = -TESS_E_STORE_DEADLINE;
	} else if (err < 0 && retry_worth(err) && !req_expired(op->req)) {
		due = clock_now() + clock_backoff(x->tries, RETRY_BASE, RETRY_CAP);
		if (x->tries < t->max && due < x->deadline) {
			x->tries++;
			trace_add(&t->counters[C_AGAIN], 1);
			deco_timer_add(t->timer, &x->pause, due);
			return;
		}
		trace_add(&t->counters[C_GAVE_UP], 1);
	}
	retry_finish(op, err);
}

static void retry_submit(struct store *s, struct store_op *op)
{
	struct retry *t = container_of(s, struct retry, s);
	struct retry_op *x = mem_zalloc(sizeof(*x));

	if (!x) {
		store_op_done(op, -ENOMEM);
		return;
	}
	x->retry = t;
	x->deadline = op->req->deadline;
	if (t->allowed > 0)
		x->deadline = MIN(x->deadline, clock_now() + t->allowed);
	x->pause.op = x->watch.op = op;
	x->pause.fire = retry_again;
	x->watch.fire = retry_overdue;
	atomic_init(&x->late, false);
	deco_hook_op(&x->hook, s, op, retry_done);
	retry_send(x, op);
}

static void retry_cancel(struct store *s, struct store_op *op)
{
	struct retry *t = container_of(s, struct retry, s);

	if (deco_timer_find(t->timer, op, retry_again))
		retry_finish(op, -ECANCELED);
	else
		store_cancel(s->inner, op);
}

static void retry_to_text(const struct store *s, struct text *out)
{
	const struct retry *t = container_of(s, struct retry, s);

	text_fmt(out, "max=%u deadline=%lldms", t->max, (long long)(t->allowed / NS_PER_MS));
}

static void retry_close(struct store *s)
{
	struct retry *t = container_of(s, struct retry, s);

	deco_timer_free(t->timer);
	trace_unregister(&t->group);
	free(t);
}

static int retry_open(struct store **ret, const struct store_conf *conf, struct store *inner,
		      struct text *why)
{
	static const char *const names[C_N] = { "again", "gave_up", "deadline" };
	uint64_t max, allowed;
	struct retry *t;
	int r = deco_param_uint(conf, "retry", 0, &max, why);

	if (r == 0)
		r = deco_param_time(conf, "deadline", 0, &allowed, why);
	if (r < 0)
		return r;
	if (max > 100) {
		text_fmt(why, "%s: retry: 0 to 100 further tries are possible", conf->uri);
		return -TESS_E_URI;
	}
	t = mem_zalloc(sizeof(*t));
	if (!t)
		return -ENOMEM;
	deco_init(&t->s, &deco_retry_ops, inner);
	t->max = (unsigned)max;
	t->allowed = (int64_t)allowed;
	r = deco_timer_new(&t->timer, "tess-retry");
	if (r < 0) {
		free(t);
		return r;
	}
	(void)snprintf(t->group.name, sizeof(t->group.name), "store.%.18s.retry", t->s.label);
	for (unsigned i = 0; i < C_N; i++)
		t->counters[i].name = names[i];
	t->group.counters = t->counters;
	t->group.ncounters = C_N;
	trace_register(&t->group);
	*ret = &t->s;
	return 0;
}

const struct store_ops deco_retry_ops = {
	.name = "retry",
	.open = retry_open,
	.submit = retry_submit,
	.cancel = retry_cancel,
	.barrier = deco_barrier,
	.usage = deco_usage,
	.to_text = retry_to_text,
	.close = retry_close,
};
