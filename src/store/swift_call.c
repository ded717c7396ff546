/* SPDX-License-Identifier: Apache-2.0 */
#include "store/swift_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "store/swift_ident.h"

#include <string.h>

#define REFUSED_MAX 5u	/* tokens a call has refused before it says so */

static void call_sent_done(struct http_call *h);

static void call_unref(struct swift_call *c)
{
	if (atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	text_done(&c->path);
	text_done(&c->headers);
	text_done(&c->url);
	swift_wipe(&c->head);
	free(c);
}

static void call_ready(struct renew_wait *w, struct renewed *v, int err);

struct swift_call *swift_call_new(struct swift_store *s, struct store_op *op, const char *method,
				  void (*finish)(struct swift_call *c, int err))
{
	struct swift_call *c = mem_zalloc(sizeof(*c));

	if (!c)
		return NULL;
	c->s = s;
	c->op = op;
	c->method = method;
	c->finish = finish;
	c->wait.ready = call_ready;
	atomic_init(&c->refs, 1);
	atomic_init(&c->cancelled, false);
	scoped_lock(&s->lock);
	list_push_back(&s->calls, &c->link);
	s->ncalls++;
	return c;
}

/* What the last sending left behind. */
static void call_reset(struct swift_call *c)
{
	http_call_done(&c->http);
	memset(&c->http, 0, sizeof(c->http));
	if (c->token)
		renewed_put(&c->token->r);
	c->token = NULL;
}

void swift_call_done(struct swift_call *c)
{
	struct swift_store *s = c->s;

	call_reset(c);
	lock_take(&s->lock);
	list_remove(&c->link);
	if (--s->ncalls == 0)
		cond_wake_all(&s->idle);
	lock_drop(&s->lock);
	call_unref(c);
}

static int call_compose(struct swift_call *c)
{
	text_clear(&c->url);
	text_fmt(&c->url, "%s%s", c->token->url, text_str(&c->path));
	swift_wipe(&c->head);
	if (swift_secret_room(&c->head, strlen(c->token->token) + c->headers.n + 32) < 0)
		return -ENOMEM;
	text_fmt(&c->head, "X-Auth-Token: %s\n%s", c->token->token, text_str(&c->headers));
	if (text_error(&c->url) || text_error(&c->path) || text_error(&c->headers))
		return -ENOMEM;
	c->http = (struct http_call){
		.req = c->op ? c->op->req : NULL, .method = c->method, .url = text_str(&c->url),
		.headers = text_str(&c->head), .body = c->body, .into = c->into,
		.reply_max = c->reply_max, .timeout = c->timeout, .done = call_sent_done, .owner = c,
	};
	return 0;
}

/*
 * With c->token. Once it is sent the call may be over at any time, so a cancel() that came before the
 * transport knew of it is passed on under a reference.
 */
static void call_dispatch(struct swift_call *c)
{
	int r = atomic_load(&c->cancelled) ? -ECANCELED : call_compose(c);

	if (r < 0) {
		c->finish(c, r);
		return;
	}
	atomic_fetch_add(&c->refs, 1);
	http_send(c->s->http, &c->http);
	if (atomic_load(&c->cancelled))
		http_cancel(c->s->http, &c->http);
	call_unref(c);
}

static void call_ready(struct renew_wait *w, struct renewed *v, int err)
{
	struct swift_call *c = container_of(w, struct swift_call, wait);

	if (!v) {
		c->finish(c, err);
		return;
	}
	c->token = container_of(v, struct swift_token, r);
	call_dispatch(c);
}

void swift_call_send(struct swift_call *c)
{
	struct swift_store *s = c->s;
	struct renewed *v;

	call_reset(c);
	atomic_fetch_add(&c->refs, 1);
	v = renew_get(s->renew, &c->wait);
	if (v) {
		c->token = container_of(v, struct swift_token, r);
		call_dispatch(c);
	} else if (atomic_load(&c->cancelled) && renew_forget(s->renew, &c->wait)) {
		c->finish(c, -ECANCELED);
	}
	call_unref(c);
}

/*
 * How many tokens this call may have refused. One whose life is over by now was good when it was taken:
 * that is no answer. One that should be good may have been revoked; while the store is opened, or where
 * there is no other, the second refusal is believed and told. Later on we know that this user is let
 * in: a service that forgets the tokens it issues (its memcached was restarted) will stop doing so.
 */
static unsigned call_patience(const struct swift_call *c)
{
	if (!swift_auth_renews(c->s->auth) ||
	    (c->s->opening && c->token->r.until > clock_wall()))
		return 1;
	return REFUSED_MAX;
}

/* The renewer paces it, so that this asks no faster than another would after a pause. */
static void call_refused(struct swift_call *c)
{
	bool again = c->refused++ < call_patience(c);

	renew_reject(c->s->renew, &c->token->r);
	if (atomic_load(&c->cancelled))
		c->finish(c, -ECANCELED);
	else if (again)
		swift_call_send(c);
	else if (c->s->opening || !swift_auth_renews(c->s->auth))
		c->finish(c, 0);
	else
		c->finish(c, -TESS_E_STORE_BUSY);
}

static void call_sent_done(struct http_call *h)
{
	struct swift_call *c = h->owner;

	if (h->err == 0 && h->status == 401)
		call_refused(c);
	else
		c->finish(c, h->err);
}

static void call_cancel(struct swift_call *c)
{
	atomic_store(&c->cancelled, true);
	if (renew_forget(c->s->renew, &c->wait))
		c->finish(c, -ECANCELED);
	else
		http_cancel(c->s->http, &c->http);
}

void swift_call_cancel_op(struct swift_store *s, const struct store_op *op)
{
	struct swift_call *c = NULL;

	lock_take(&s->lock);
	list_for_each(n, &s->calls) {
		c = list_entry(n, struct swift_call, link);
		if (c->op == op)
			break;
		c = NULL;
	}
	if (c)
		atomic_fetch_add(&c->refs, 1);
	lock_drop(&s->lock);
	if (!c)
		return;
	call_cancel(c);
	call_unref(c);
}

/* A reference to one that was not cancelled yet. */
static struct swift_call *call_next(struct swift_store *s)
{
	scoped_lock(&s->lock);
	list_for_each(n, &s->calls) {
		struct swift_call *c = list_entry(n, struct swift_call, link);

		if (!atomic_load(&c->cancelled)) {
			atomic_fetch_add(&c->refs, 1);
			return c;
		}
	}
	return NULL;
}

void swift_call_cancel_all(struct swift_store *s)
{
	struct swift_call *c;

	while ((c = call_next(s))) {
		call_cancel(c);
		call_unref(c);
	}
	scoped_lock(&s->lock);
	while (s->ncalls)
		cond_wait(&s->idle, &s->lock);
}

int swift_call_err(const struct swift_call *c)
{
	return swift_status_err(c->http.status, text_str(&c->http.reply));
}

/* ---- and wait ---- */

struct call_wait {
	struct lock lock;
	struct cond cond;
	bool        done;
	int         err;
};

static void call_waited(struct swift_call *c, int err)
{
	struct call_wait *w = c->priv;

	scoped_lock(&w->lock);
	w->err = err;
	w->done = true;
	cond_wake_all(&w->cond);
}

int swift_call_do(struct swift_call *c)
{
	struct call_wait w = { .done = false };

	lock_init(&w.lock, LOCK_LEAF, "swift_do");
	cond_init(&w.cond);
	c->priv = &w;
	c->finish = call_waited;
	swift_call_send(c);
	lock_take(&w.lock);
	while (!w.done)
		cond_wait(&w.cond, &w.lock);
	lock_drop(&w.lock);
	cond_done(&w.cond);
	lock_done(&w.lock);
	return w.err < 0 ? w.err : swift_call_err(c);
}
