/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rados://POOL[/NAMESPACE]: an object of the store is a RADOS object, written whole (so erasure-coded
 * pools need no overwrites) and named as it is.
 *
 * Every operation has a timeout, because librados waits for ever by default, and is tried on a full
 * pool (FULL_TRY), where librados would wait for somebody to make room. Its own limits of operations
 * and bytes in flight are off: they block the caller, and the decorators bound both. done() runs on
 * librados' thread for completions.
 *
 * A PUT of scattered memory is copied into one piece first: several pieces in one operation are
 * appends, which erasure-coded pools only take at multiples of their stripe. GETs of up to PARTS_MAX
 * pieces are one read each within one operation.
 */
#ifdef HAVE_RADOS
#include "store/rados_impl.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "store/marker.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define PARTS_MAX    16u
#define BEST_PUT     (UINT64_C(4) << 20)
#define MIN_GET      (UINT64_C(16) << 10)
#define MAX_INFLIGHT 64u
#define USAGE_AGE    (3 * NS_PER_S)

struct rados_call {
	struct list_node   link;	/* rados.lock: conn->calls, until it is done */
	struct rados      *rs;
	struct rados_conn *conn;	/* a reference */
	struct store_op   *op;
	rados_completion_t completion;	/* owned */
	unsigned           refs;	/* rados.lock: the callback, the submitter, who cancels */
	bool               cancelled;	/* rados.lock: of a retired connection, asked for already */
	uint64_t           size;
	time_t             mtime;
	int                stat_err;
	char              *flat;	/* owned: the one piece of scattered memory */
	unsigned           nparts;
	struct {
		size_t got;
		int    err;
	} parts[PARTS_MAX];
};

int rados_map_error(int r)
{
	if (r >= 0)
		return 0;
	switch (-r) {
	case EPERM:
	case EACCES:
		return -EACCES;
	case ENOSPC:
	case EDQUOT:
		return -TESS_E_STORE_FULL;
	case ESHUTDOWN:		/* EBLOCKLISTED */
		return -TESS_E_SHUT_OUT;
	case EMSGSIZE:
		return -EFBIG;
	default:
		return r;
	}
}

static void call_unref(struct rados_call *x)
{
	struct rados *rs = x->rs;
	bool last;

	lock_take(&rs->lock);
	last = --x->refs == 0;
	lock_drop(&rs->lock);
	if (!last)
		return;
	rs->api->aio_release(x->completion);
	rados_conn_drop(rs, x->conn);
	free(x->flat);
	free(x);
}

/* All that was asked for came? */
static int call_get_result(struct rados_call *x)
{
	struct store_op *op = x->op;
	size_t want = x->nparts == 1 ? (size_t)op->range.len : 0;

	if (x->stat_err < 0)
		return rados_map_error(x->stat_err);
	op->info.size = x->size;
	for (unsigned i = 0; i < x->nparts; i++) {
		if (x->parts[i].err < 0)
			return rados_map_error(x->parts[i].err);
		if (x->parts[i].got != (want ? want : op->data.iov[i].iov_len))
			return -TESS_E_SHORT_BODY;
	}
	if (x->flat)
		(void)iov_copy_in(&op->data, 0, x->flat, op->range.len);
	return 0;
}

static int call_result(struct rados_call *x, int r)
{
	if (x->op->code == STORE_DEL && r == -ENOENT)
		return 0;
	if (r < 0)
		return rados_map_error(r);
	if (x->op->code == STORE_GET || x->op->code == STORE_HEAD)
		return call_get_result(x);
	return 0;
}

static void call_finish(struct rados_call *x, int r)
{
	struct rados *rs = x->rs;
	int err = call_result(x, r);

	lock_take(&rs->lock);
	list_remove(&x->link);
	/* Shut out, then cancelled or timed out: the reason is the first. */
	if (rados_conn_dead_locked(rs, x->conn, r) && err < 0 && err != -ENOENT)
		err = -TESS_E_SHUT_OUT;
	lock_drop(&rs->lock);
	store_op_done(x->op, err);
	call_unref(x);
}

static void call_callback(rados_completion_t completion, void *arg)
{
	struct rados_call *x = arg;

	call_finish(x, x->rs->api->aio_get_return_value(completion));
}

static int call_put(struct rados_call *x)
{
	const struct rados_api *api = x->rs->api;
	const struct tess_iov *d = &x->op->data;
	const char *p = d->n ? d->iov[0].iov_base : "";
	rados_write_op_t w;
	int r;

	if (d->n > 1) {
		x->flat = mem_alloc(d->len);
		if (!x->flat)
			return -ENOMEM;
		(void)iov_copy_out(x->flat, d, 0, d->len);
		p = x->flat;
		trace_add(&x->rs->counters[RADOS_C_COPIES], 1);
		trace_add(&x->rs->counters[RADOS_C_COPIED], d->len);
	}
	w = api->create_write_op();
	if (!w)
		return -ENOMEM;
	api->write_op_write_full(w, p, d->len);
	/* librados has its own copy now. */
	free(steal_ptr(x->flat));
	r = api->aio_write_op_operate(w, x->conn->io, x->completion, x->op->key.name, NULL,
				      LIBRADOS_OPERATION_FULL_TRY);
	api->release_write_op(w);
	return r;
}

static int call_del(struct rados_call *x)
{
	const struct rados_api *api = x->rs->api;
	rados_write_op_t w = api->create_write_op();
	int r;

	if (!w)
		return -ENOMEM;
	api->write_op_remove(w);
	r = api->aio_write_op_operate(w, x->conn->io, x->completion, x->op->key.name, NULL,
				      LIBRADOS_OPERATION_FULL_TRY);
	api->release_write_op(w);
	return r;
}

/* GET and HEAD. The destinations belong to the call until its callback, cancelled or not. */
static int call_get(struct rados_call *x)
{
	const struct rados_api *api = x->rs->api;
	const struct tess_iov *d = &x->op->data;
	uint64_t at = x->op->range.off;
	rados_read_op_t rd;
	int r;

	if (x->op->code == STORE_GET) {
		x->nparts = d->n <= PARTS_MAX ? d->n : 1;
		if (d->n > PARTS_MAX) {
			x->flat = mem_alloc(d->len);
			if (!x->flat)
				return -ENOMEM;
			trace_add(&x->rs->counters[RADOS_C_COPIES], 1);
			trace_add(&x->rs->counters[RADOS_C_COPIED], d->len);
		}
	}
	rd = api->create_read_op();
	if (!rd)
		return -ENOMEM;
	api->read_op_stat(rd, &x->size, &x->mtime, &x->stat_err);
	for (unsigned i = 0; i < x->nparts; i++) {
		size_t len = x->nparts == 1 ? (size_t)x->op->range.len : d->iov[i].iov_len;

		api->read_op_read(rd, at, len, x->flat ? x->flat : d->iov[i].iov_base,
				  &x->parts[i].got, &x->parts[i].err);
		at += len;
	}
	r = api->aio_read_op_operate(rd, x->conn->io, x->completion, x->op->key.name,
				     LIBRADOS_OPERATION_NOFLAG);
	api->release_read_op(rd);
	return r;
}

static void call_send(struct rados_call *x)
{
	int r;

	switch (x->op->code) {
	case STORE_PUT:
		r = call_put(x);
		break;
	case STORE_DEL:
		r = call_del(x);
		break;
	case STORE_GET:
	case STORE_HEAD:
		r = call_get(x);
		break;
	default:
		r = -EINVAL;
		break;
	}
	if (r < 0)
		call_finish(x, r);	/* no callback comes */
	call_unref(x);
}

static void rados_submit(struct store *s, struct store_op *op)
{
	struct rados *rs = rados_of(s);
	struct rados_call *x;
	int r = store_fault(op->code);

	if (r < 0) {
		store_op_done(op, r);
		return;
	}
	if (op->code == STORE_LIST) {
		rados_list_submit(rs, op);
		return;
	}
	x = mem_zalloc(sizeof(*x));
	if (!x) {
		store_op_done(op, -ENOMEM);
		return;
	}
	x->rs = rs;
	x->op = op;
	x->refs = 2;
	x->conn = rados_conn_take(rs);
	r = x->conn ? rs->api->aio_create_completion2(x, call_callback, &x->completion) : -ENOTCONN;
	if (r < 0) {
		rados_conn_drop(rs, x->conn);
		free(x);
		store_op_done(op, r);
		return;
	}
	lock_take(&rs->lock);
	list_push_back(&x->conn->calls, &x->link);
	lock_drop(&rs->lock);
	call_send(x);
}

static struct rados_call *call_of_locked(struct list_node *calls, const struct store_op *op)
{
	list_for_each(n, calls) {
		struct rados_call *x = list_entry(n, struct rados_call, link);

		/* op NULL: any, but each once. */
		if (op ? x->op == op : !x->cancelled) {
			x->cancelled = true;
			x->refs++;
			return x;
		}
	}
	return NULL;
}

static void rados_cancel(struct store *s, struct store_op *op)
{
	struct rados *rs = rados_of(s);
	struct rados_call *x = NULL;

	if (rados_list_cancel(rs, op))
		return;
	lock_take(&rs->lock);
	if (rs->conn)
		x = call_of_locked(&rs->conn->calls, op);
	list_for_each(n, &rs->retired) {
		if (!x)
			x = call_of_locked(&list_entry(n, struct rados_conn, link)->calls, op);
	}
	lock_drop(&rs->lock);
	if (x) {
		(void)rs->api->aio_cancel(x->conn->io, x->completion);
		call_unref(x);
	}
}

void rados_calls_cancel(struct rados *rs)
{
	struct rados_call *x;

	do {
		x = NULL;
		lock_take(&rs->lock);
		list_for_each(n, &rs->retired) {
			if (!x)
				x = call_of_locked(&list_entry(n, struct rados_conn, link)->calls, NULL);
		}
		lock_drop(&rs->lock);
		if (x) {
			(void)rs->api->aio_cancel(x->conn->io, x->completion);
			call_unref(x);
		}
	} while (x);
}

static int rados_usage(struct store *s, struct store_usage *ret)
{
	struct rados *rs = rados_of(s);

	scoped_lock(&rs->lock);
	*ret = rs->usage;
	if (!rs->usage_wanted && clock_now() - rs->usage_at > USAGE_AGE) {
		rs->usage_wanted = true;
		cond_wake_all(&rs->cond);
	}
	return 0;
}

static void rados_to_text(const struct store *s, struct text *out)
{
	struct rados *rs = container_of(s, struct rados, s);

	text_fmt(out, "pool=%s namespace=%s id=%s timeout=%lldms max_object=%llu", rs->set.pool,
		 rs->set.nspace ? rs->set.nspace : "", rs->set.id,
		 (long long)(rs->set.timeout / NS_PER_MS), (unsigned long long)rs->s.caps.max_object);
	scoped_lock(&rs->lock);
	text_fmt(out, " client=%s", rs->conn && rs->conn->addr ? rs->conn->addr : "none");
}

static void rados_close(struct store *s)
{
	struct rados *rs = rados_of(s);

	pool_free(rs->pool);
	rados_keeper_stop(rs);
	trace_unregister(&rs->group);
	rados_page_free(rs->page);
	rados_settings_done(&rs->set);
	cond_done(&rs->cond);
	lock_done(&rs->lock);
	free(rs);
}

static void rados_trace(struct rados *rs)
{
	static const char *const names[RADOS_C_N] = { "copies", "copied.bytes", "shut_out", "connects",
						      "list.scanned" };

	for (unsigned i = 0; i < RADOS_C_N; i++)
		rs->counters[i].name = names[i];
	(void)snprintf(rs->group.name, sizeof(rs->group.name), "rados.%.20s", rs->set.pool);
	rs->group.counters = rs->counters;
	rs->group.ncounters = RADOS_C_N;
	trace_register(&rs->group);
}

/* Connected, but nothing is known of what the place holds. */
static int rados_connect_store(struct rados **ret, const struct store_conf *conf, struct text *why)
{
	const struct rados_api *api = rados_api(why);
	struct rados *rs;
	int r;

	if (!api)
		return -ENOTSUP;
	rs = mem_zalloc(sizeof(*rs));
	if (!rs)
		return -ENOMEM;
	rs->s.ops = &store_rados_ops;
	rs->api = api;
	rs->usage.objects = UINT64_MAX;
	lock_init(&rs->lock, LOCK_STORE, "rados");
	cond_init(&rs->cond);
	list_init(&rs->retired);
	list_init(&rs->lists);
	r = rados_settings_read(&rs->set, conf, why);
	rados_trace(rs);
	if (r == 0)
		r = rados_conn_new(&rs->conn, rs, conf->uri, why);
	if (r == 0)
		r = pool_new(&rs->pool, "tess-rados", 2, 64);
	if (r == 0)
		r = rados_keeper_start(rs);
	if (r < 0) {
		rados_close(&rs->s);
		return r;
	}
	rs->s.caps = (struct store_caps){
		.flags = STORE_DURABLE_ON_DONE,
		.max_object = rados_conn_max_object(rs, rs->conn),
		.best_put = BEST_PUT, .min_get = MIN_GET, .max_inflight = MAX_INFLIGHT,
	};
	*ret = rs;
	return 0;
}

static int rados_check(struct rados *rs, const struct store_conf *conf, struct text *why)
{
	int r = 0;

	if (rs->s.caps.max_object < TESS_SEGMENT_MIN) {
		text_fmt(why, "%s: the cluster takes objects of at most %llu bytes (osd_max_object_size)",
			 conf->uri, (unsigned long long)rs->s.caps.max_object);
		return -TESS_E_URI;
	}
	if (conf->create)
		r = rados_list_refuse_used(rs, rs->conn, conf->uri, why);
	if (r == 0)
		r = store_marker_check(&rs->s, conf, rs->set.timeout, why);
	if (r == -EACCES) {
		text_clear(why);
		text_fmt(why, "%s: client.%s may not use pool %s%s%s (its capabilities: ceph auth get)",
			 conf->uri, rs->set.id, rs->set.pool, rs->set.nspace ? ", namespace " : "",
			 rs->set.nspace ? rs->set.nspace : "");
	}
	return r;
}

static int rados_open(struct store **ret, const struct store_conf *conf, struct store *inner,
		      struct text *why)
{
	struct rados *rs = NULL;
	int r = rados_connect_store(&rs, conf, why);

	(void)inner;
	if (r < 0)
		return r;
	r = rados_check(rs, conf, why);
	if (r < 0) {
		rados_close(&rs->s);
		return r;
	}
	rados_usage_read(rs, rs->conn);
	*ret = &rs->s;
	return 0;
}

static void rados_unmake(const struct store_conf *conf)
{
	struct text unread = TEXT_INIT;
	struct rados *rs = NULL;

	if (rados_connect_store(&rs, conf, &unread) == 0) {
		store_marker_remove(&rs->s, conf, rs->set.timeout);
		rados_close(&rs->s);
	}
	text_done(&unread);
}

const struct store_ops store_rados_ops = {
	.name = "rados",
	.open = rados_open,
	.submit = rados_submit,
	.cancel = rados_cancel,
	.usage = rados_usage,
	.to_text = rados_to_text,
	.close = rados_close,
	.unmake = rados_unmake,
};
#endif
