/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace=0|1 (1 is the default): counts every request that reaches a target, per kind and outcome,
 * with bytes and latencies, as group "store.LABEL" of `tessera stats`. Outermost, so that it shows
 * what the file system asked for; what retries added is `retry.again` of the same group's name
 * with ".retry" behind it.
 *
 * It also knows the requests that are under way, for whoever asks what is being waited for.
 *
 * It costs one small allocation, a short lock and a few relaxed adds per request. When there is no memory for
 * that, the request goes through uncounted: to observe must never be what fails.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "base/trace.h"
#include "store/deco.h"

#include <stdio.h>

/* Outcomes. Columns of the counter table below; anything not named by the others is an error. */
enum outcome {
	OUT_OK, OUT_MISSING, OUT_BUSY, OUT_TIMEOUT, OUT_FULL, OUT_CANCELLED, OUT_ERROR, OUT_N
};

#define ROW(op)                                                                                 \
	op ".ok", op ".missing", op ".busy", op ".timeout", op ".full", op ".cancelled", op ".error"
static const char *const counter_names[] = {
	ROW("put"), ROW("get"), ROW("head"), ROW("del"), ROW("list"),
	"put.bytes", "get.bytes", "barrier.ok", "barrier.error", "inflight",
};
static const char *const hist_names[] = { "put", "get", "head", "del", "list", "barrier" };

enum { C_PUT_BYTES = STORE_NCODES * OUT_N, C_GET_BYTES, C_BARRIER_OK, C_BARRIER_ERROR, C_INFLIGHT, C_N };
enum { H_BARRIER = STORE_NCODES, H_N };
_Static_assert(ARRAY_SIZE(counter_names) == C_N, "one name per counter");
_Static_assert(ARRAY_SIZE(hist_names) == H_N, "one name per histogram");

struct trace_store {
	struct store         s;
	struct trace_group   group;
	struct trace_counter counters[C_N];
	struct trace_hist    hists[H_N];
	struct lock          lock;
	struct list_node     flights GUARDED_BY(&lock);	/* struct trace_op.link, oldest first */
};

struct trace_op {
	struct deco_hook hook;
	struct list_node link;
	struct store_op *op;
	int64_t          start;
};

static enum outcome outcome_of(int err)
{
	switch (-err) {
	case 0:
		return OUT_OK;
	case ENOENT:
		return OUT_MISSING;
	case TESS_E_STORE_BUSY:
	case EAGAIN:
		return OUT_BUSY;
	case TESS_E_STORE_DEADLINE:
	case ETIMEDOUT:
		return OUT_TIMEOUT;
	case TESS_E_STORE_FULL:
	case ENOSPC:
		return OUT_FULL;
	case ECANCELED:
		return OUT_CANCELLED;
	default:
		return OUT_ERROR;
	}
}

static void trace_done(struct store_op *op)
{
	scoped_free struct trace_op *x = op->owner;
	struct trace_store *t = container_of(x->hook.s, struct trace_store, s);

	lock_take(&t->lock);
	list_remove(&x->link);
	lock_drop(&t->lock);
	trace_add(&t->counters[C_INFLIGHT], UINT64_MAX);
	trace_lat(&t->hists[op->code], clock_now() - x->start);
	trace_add(&t->counters[op->code * OUT_N + outcome_of(op->err)], 1);
	if (op->err == 0 && op->code == STORE_PUT)
		trace_add(&t->counters[C_PUT_BYTES], op->data.len);
	if (op->err == 0 && op->code == STORE_GET)
		trace_add(&t->counters[C_GET_BYTES], op->data.len);
	deco_unhook_op(op);
	store_op_done(op, op->err);
}

static void trace_submit(struct store *s, struct store_op *op)
{
	struct trace_store *t = container_of(s, struct trace_store, s);
	struct trace_op *x = mem_alloc(sizeof(*x));

	if (x) {
		x->start = clock_now();
		x->op = op;
		deco_hook_op(&x->hook, s, op, trace_done);
		trace_add(&t->counters[C_INFLIGHT], 1);
		lock_take(&t->lock);
		list_push_back(&t->flights, &x->link);
		lock_drop(&t->lock);
	}
	store_submit(s->inner, op);
}

static int trace_barrier(struct store *s, struct tess_req *req)
{
	struct trace_store *t = container_of(s, struct trace_store, s);
	int64_t start = clock_now();
	int r = store_barrier(s->inner, req);

	trace_lat(&t->hists[H_BARRIER], clock_now() - start);
	trace_add(&t->counters[r < 0 ? C_BARRIER_ERROR : C_BARRIER_OK], 1);
	return r;
}

static void trace_to_text(const struct store *s, struct text *out)
{
	const struct trace_store *t = container_of(s, struct trace_store, s);

	for (unsigned i = 0; i < C_N; i++) {
		uint64_t n = atomic_load_explicit(&t->counters[i].n, memory_order_relaxed);

		if (n)
			text_fmt(out, "%s=%llu ", t->counters[i].name, (unsigned long long)n);
	}
}

void store_flights(struct store *s, void (*fn)(void *arg, const struct store_flight *), void *arg)
{
	struct trace_store *t;

	while (s && s->ops != &deco_trace_ops)
		s = s->inner;
	if (!s)
		return;
	t = container_of(s, struct trace_store, s);
	scoped_lock(&t->lock);
	list_for_each(n, &t->flights) {
		const struct trace_op *x = list_entry(n, struct trace_op, link);
		const struct store_op *op = x->op;
		struct store_flight f = { op->code, op->key.name, "", 0, op->data.len, x->start };

		if (op->req) {
			f.op = op->req->op;
			f.ino = op->req->ino;
		}
		fn(arg, &f);
	}
}

static void trace_close(struct store *s)
{
	struct trace_store *t = container_of(s, struct trace_store, s);

	trace_unregister(&t->group);
	lock_done(&t->lock);
	free(t);
}

static int trace_open(struct store **ret, const struct store_conf *conf, struct store *inner,
		      struct text *why)
{
	struct trace_store *t = mem_zalloc(sizeof(*t));

	(void)conf;
	(void)why;
	if (!t)
		return -ENOMEM;
	deco_init(&t->s, &deco_trace_ops, inner);
	lock_init(&t->lock, LOCK_LEAF, "trace");
	list_init(&t->flights);
	for (unsigned i = 0; i < C_N; i++)
		t->counters[i].name = counter_names[i];
	for (unsigned i = 0; i < H_N; i++)
		t->hists[i].name = hist_names[i];
	(void)snprintf(t->group.name, sizeof(t->group.name), "store.%.24s", t->s.label);
	t->group.counters = t->counters;
	t->group.ncounters = C_N;
	t->group.hists = t->hists;
	t->group.nhists = H_N;
	trace_register(&t->group);
	*ret = &t->s;
	return 0;
}

const struct store_ops deco_trace_ops = {
	.name = "trace",
	.open = trace_open,
	.submit = trace_submit,
	.cancel = deco_cancel,
	.barrier = trace_barrier,
	.usage = deco_usage,
	.to_text = trace_to_text,
	.close = trace_close,
};
