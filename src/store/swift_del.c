/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletions. A request deletes up to BATCH_MAX objects for little more than the price of one, but
 * waiting for company would slow a lone one down. So nobody waits: the first DELS_ALONE go at once,
 * and what comes while they are under way goes together when one of them is back; the delay is
 * bounded by one request.
 *
 * A bulk delete answers 200 whatever happened. When its count is not that of all names, each of them
 * is deleted by itself, which is idempotent and has a status of its own.
 */
#include "store/swift_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"

#include <string.h>

#define DELS_ALONE   2u
#define BATCH_MAX    256u	/* bounds how long one request takes on the server */
#define BULK_TIMEOUT (60 * NS_PER_S)

struct swift_batch {
	struct list_node link;	/* swift_store.batches */
	struct list_node ops;	/* struct store_op.link: those not cancelled */
	unsigned         n;	/* names in the request; 1: an ordinary DELETE */
	struct text      body;
	struct iovec     v;
};

static void del_next(struct swift_store *s);

/* ---- one ---- */

static void del_alone_done(struct swift_call *c, int err)
{
	struct swift_store *s = c->s;
	struct store_op *op = c->op;
	int r = err < 0 ? err : swift_call_err(c);

	/* Before the op is done: its owner may close the store then. */
	del_next(s);
	swift_call_done(c);
	store_op_done(op, r == -ENOENT ? 0 : r);
}

/* Counted in s->dels by the caller. */
static void del_alone(struct swift_store *s, struct store_op *op)
{
	struct swift_call *c = swift_call_new(s, op, "DELETE", del_alone_done);

	if (!c) {
		del_next(s);
		store_op_done(op, -ENOMEM);
		return;
	}
	text_fmt(&c->path, "%s%s", s->dir, op->key.name);
	swift_call_send(c);
}

/* ---- many ---- */

static void batch_free(struct swift_batch *b)
{
	text_done(&b->body);
	free(b);
}

static struct store_op *batch_pop(struct swift_store *s, struct swift_batch *b, bool alone)
{
	struct list_node *n;

	scoped_lock(&s->lock);
	n = list_pop_front(&b->ops);
	s->dels += n && alone;
	if (!n)
		list_remove(&b->link);	/* no cancel() finds it any more */
	return n ? list_entry(n, struct store_op, link) : NULL;
}

/* No bulk delete here after all: a proxy that does not know it, or a user that may not. */
static bool batch_refused(const struct swift_call *c)
{
	unsigned status = c->http.status;

	return status == 400 || status == 403 || status == 404 || status == 405 || status == 411 ||
	       status == 412 || status == 501;
}

static void batch_done(struct swift_call *c, int err)
{
	struct swift_store *s = c->s;
	struct swift_batch *b = c->priv;
	struct store_op *op;
	bool alone = false;

	if (err == 0 && b->n > 1 && batch_refused(c)) {
		lock_take(&s->lock);
		s->no_bulk = true;
		lock_drop(&s->lock);
		alone = true;
	} else if (err == 0) {
		err = swift_call_err(c);
		if (b->n == 1)
			err = err == -ENOENT ? 0 : err;
		else if (err == 0)
			alone = swift_bulk_parse(text_str(&c->http.reply), c->http.reply.n,
						 b->n) < 0;
	}
	del_next(s);
	while ((op = batch_pop(s, b, alone))) {
		if (alone)
			del_alone(s, op);
		else
			store_op_done(op, err);
	}
	batch_free(b);
	swift_call_done(c);
}

/* The names of those that were not cancelled meanwhile. */
static int batch_compose(struct swift_store *s, struct swift_batch *b, struct swift_call *c)
{
	scoped_lock(&s->lock);
	list_for_each(l, &b->ops) {
		text_fmt(&b->body, "%s%s\n", s->dir, list_entry(l, struct store_op, link)->key.name);
		b->n++;
	}
	if (b->n == 1) {
		text_addn(&c->path, text_str(&b->body), b->body.n - (b->body.n > 0));
		c->method = "DELETE";
	} else {
		text_add(&c->path, "?bulk-delete");
	}
	return text_error(&b->body);
}

/* Counted in s->dels and listed in s->batches by the caller. */
static void batch_send(struct swift_store *s, struct swift_batch *b)
{
	struct swift_call *c = swift_call_new(s, NULL, "POST", batch_done);
	struct store_op *op;
	int r = c ? batch_compose(s, b, c) : -ENOMEM;

	if (c)
		c->priv = b;
	if (c && (r < 0 || b->n == 0)) {
		b->n = 1;
		batch_done(c, r < 0 ? r : -ECANCELED);
	} else if (c && b->n == 1) {
		swift_call_send(c);
	} else if (c) {
		b->v = (struct iovec){ b->body.s, b->body.n };
		c->body = (struct tess_iov){ &b->v, 1, b->v.iov_len };
		c->timeout = BULK_TIMEOUT;
		text_add(&c->headers, "Content-Type: text/plain\nAccept: application/json\n");
		swift_call_send(c);
	} else {
		del_next(s);
		while ((op = batch_pop(s, b, false)))
			store_op_done(op, -ENOMEM);
		batch_free(b);
	}
}

/* ---- the queue ---- */

static struct swift_batch *batch_new(void)
{
	struct swift_batch *b = mem_zalloc(sizeof(*b));

	if (b)
		list_init(&b->ops);
	return b;
}

/* Moves what gathered; at every moment cancel() finds an op in one of the lists. */
static unsigned del_take(struct swift_store *s, struct list_node *to, struct list_node *link)
{
	unsigned n = 0, max = MIN(s->info.bulk_max, BATCH_MAX);
	struct list_node *l;

	scoped_lock(&s->lock);
	s->dels--;
	if (s->no_bulk)
		max = 1;
	while ((n < max || !link) && (l = list_pop_front(&s->pending))) {
		list_push_back(to, l);
		n++;
	}
	if (n && link) {
		list_push_back(&s->batches, link);
		s->dels++;
	}
	return n;
}

/* A request that deleted is back: what gathered meanwhile goes. */
static void del_next(struct swift_store *s)
{
	struct swift_batch *b = batch_new();
	struct list_node failed = LIST_INIT(failed), *l;

	if (!b) {
		(void)del_take(s, &failed, NULL);
		while ((l = list_pop_front(&failed)))
			store_op_done(list_entry(l, struct store_op, link), -ENOMEM);
	} else if (del_take(s, &b->ops, &b->link)) {
		batch_send(s, b);
	} else {
		batch_free(b);
	}
}

void swift_del_submit(struct swift_store *s, struct store_op *op)
{
	bool wait;

	lock_take(&s->lock);
	wait = s->dels >= DELS_ALONE && s->info.bulk_max > 1 && !s->no_bulk;
	if (wait)
		list_push_back(&s->pending, &op->link);
	else
		s->dels++;
	lock_drop(&s->lock);
	if (!wait)
		del_alone(s, op);
}

/* Looked for by comparing: `op` may be done and gone. */
static bool del_unlist(struct list_node *ops, const struct store_op *op)
{
	list_for_each(n, ops) {
		if (n == &op->link) {
			list_remove(n);
			return true;
		}
	}
	return false;
}

/* Of one in a batch only the waiting ends: the others' request goes on, and deletes it or not. */
bool swift_del_cancel(struct swift_store *s, struct store_op *op)
{
	bool found;

	lock_take(&s->lock);
	found = del_unlist(&s->pending, op);
	list_for_each(n, &s->batches) {
		if (found)
			break;
		found = del_unlist(&list_entry(n, struct swift_batch, link)->ops, op);
	}
	lock_drop(&s->lock);
	if (found)
		store_op_done(op, -ECANCELED);
	return found;
}
