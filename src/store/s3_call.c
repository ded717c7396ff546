/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request to the service, from credentials to an outcome:
 *
 *   asked  -> waits for credentials -> signed and sent -> judged -> done
 *               ^                                            |
 *               +---- mended: clock, credentials, region ----+   each once
 *
 * What another try may cure besides is for the retry decorator; this waits for nothing but credentials.
 */
#include "store/s3_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

LOG_MODULE("s3")

#define SKEW_MIN  (300 * NS_PER_S)	/* the service's own limit is 15 min */
#define TELL_EACH (10 * NS_PER_S)
#define REREAD_EACH (10 * NS_PER_S)

static void call_go(struct s3_call *c, struct renewed *creds);

/* It held a session token. */
static void text_wipe(struct text *t)
{
	if (t->s)
		OPENSSL_cleanse(t->s, t->cap);
	text_done(t);
}

void s3_call_done(struct s3_call *c)
{
	http_call_done(&c->http);
	text_wipe(&c->lines);
	text_done(&c->url);
	memset(c, 0, sizeof(*c));
}

static void call_finish(struct s3_call *c, int err)
{
	if (c->op) {
		scoped_lock(&c->s3->lock);
		list_remove(&c->link);
	}
	renewed_put(steal_ptr(c->creds));
	c->done(c, err);
}

/* ---- signing ---- */

static struct renewed *renewed_keep(struct renewed *v)
{
	atomic_fetch_add(&v->refs, 1);
	return v;
}

/* The key of today, derived at its first use. */
static int call_key(struct s3_call *c, const char *secret, const char *date, struct s3_signkey *ret)
{
	struct s3 *s3 = c->s3;
	struct renewed *old;
	int r;

	lock_take(&s3->lock);
	if (s3->key_of == c->creds && strncmp(s3->key.day, date, 8) == 0 &&
	    strcmp(s3->key.region, s3->conf.region) == 0) {
		*ret = s3->key;
		lock_drop(&s3->lock);
		return 0;
	}
	lock_drop(&s3->lock);
	r = s3_signkey_derive(ret, secret, date, s3->conf.region, "s3");
	if (r < 0)
		return r;
	lock_take(&s3->lock);
	s3->key = *ret;
	old = s3->key_of;
	s3->key_of = renewed_keep(c->creds);
	lock_drop(&s3->lock);
	renewed_put(old);
	return 0;
}

static int call_hash(struct s3_call *c)
{
	if (c->payload[0])
		return 0;
	if (!c->s3->conf.sign_body && c->body.len > 0) {
		(void)snprintf(c->payload, sizeof(c->payload), S3_UNSIGNED);
		return 0;
	}
	return s3_sha256_hex(&c->body, c->payload);
}

static int call_authorize(struct s3_call *c, const struct s3_request *rq, const char *date)
{
	const struct creds_aws *id = container_of(c->creds, struct creds_aws, r);
	struct s3_signkey key;
	int r = call_key(c, id->secret, date, &key);

	if (r == 0) {
		text_add(&c->lines, "Authorization: ");
		r = s3_authorization(&c->lines, rq, id->id, date, &key);
		text_add(&c->lines, "\n");
	}
	OPENSSL_cleanse(&key, sizeof(key));
	return r;
}

/* Fills url and lines. */
static int call_sign(struct s3_call *c)
{
	const struct creds_aws *id = c->creds ? container_of(c->creds, struct creds_aws, r) : NULL;
	struct text host = TEXT_INIT, path = TEXT_INIT;
	struct s3_pair h[S3_CALL_PAIRS + 5];
	struct s3_request rq = { .method = c->method, .query = c->query, .nquery = c->nquery,
				 .headers = h, .payload = c->payload };
	const struct s3_conf *conf = &c->s3->conf;
	char date[17];
	int r = call_hash(c);

	c->signed_at = clock_now();
	c->skew = atomic_load(&c->s3->skew);
	s3_date(clock_wall() + c->skew, date);
	s3_conf_host(conf, &host);
	s3_conf_path(conf, c->name, &path);
	text_fmt(&c->url, "%s://%s%s%s", conf->end.tls ? "https" : "http", text_str(&host),
		 text_str(&path), c->nquery ? "?" : "");
	if (r == 0)
		r = s3_query(&c->url, c->query, c->nquery);
	h[rq.nheaders++] = (struct s3_pair){ "Host", text_str(&host) };
	if (id && id->id) {
		h[rq.nheaders++] = (struct s3_pair){ "x-amz-date", date };
		h[rq.nheaders++] = (struct s3_pair){ "x-amz-content-sha256", c->payload };
		if (id->token)
			h[rq.nheaders++] = (struct s3_pair){ "x-amz-security-token", id->token };
	}
	for (unsigned i = 0; i < c->nheaders; i++)
		h[rq.nheaders++] = c->headers[i];
	if (c->head_as_get)
		h[rq.nheaders++] = (struct s3_pair){ "Range", "bytes=0-0" };
	rq.path = text_str(&path);
	for (unsigned i = 1; i < rq.nheaders; i++)
		text_fmt(&c->lines, "%s: %s\n", h[i].name, h[i].value);
	if (r == 0 && id && id->id)
		r = call_authorize(c, &rq, date);
	if (r == 0)
		r = text_error(&host) | text_error(&path) | text_error(&c->url) | text_error(&c->lines) ?
			-ENOMEM : 0;
	text_done(&host);
	text_done(&path);
	return r;
}

/* ---- judging ---- */

static bool reply_has(const struct s3_call *c)
{
	return c->http.reply.n > 0;
}

/* Their clock less ours as this call used it, ns; 0 when they do not say. */
static int64_t call_skew(const struct s3_call *c)
{
	const char *date = http_header(&c->http, "Date");
	struct tm tm = { 0 };
	const char *end = date ? strptime(date, "%a, %d %b %Y %H:%M:%S", &tm) : NULL;

	if (!end)
		return 0;
	return (int64_t)timegm(&tm) * NS_PER_S - (clock_wall() + c->skew);
}

static bool mend_skew(struct s3_call *c)
{
	int64_t skew = call_skew(c);
	int_fast64_t used = c->skew;

	if (c->mended_skew || llabs(skew) < SKEW_MIN)
		return false;
	c->mended_skew = true;
	/* Of many that were under way one mends it, and all go again. */
	(void)atomic_compare_exchange_strong(&c->s3->skew, &used, used + skew);
	return true;
}

/*
 * Those without an end may have been exchanged where they came from, which is looked at now and then:
 * a service that goes on refusing them must not make every request wait for that.
 */
static bool creds_worth(struct s3_call *c)
{
	int64_t now = clock_now(), last = atomic_load(&c->s3->reread);

	/* Or another one that was under way has had them looked for since: then this goes again with those. */
	if (c->creds->until != INT64_MAX || (last && c->signed_at <= last))
		return true;
	return (!last || now - last > REREAD_EACH) &&
	       atomic_compare_exchange_strong(&c->s3->reread, &last, now);
}

static bool mend_creds(struct s3_call *c)
{
	if (c->mended_creds || !c->creds || !creds_worth(c))
		return false;
	c->mended_creds = true;
	renew_reject(c->s3->renew, c->creds);
	return true;
}

/* The right region is in the body or in a header, which HEAD has too. */
static bool mend_region(struct s3_call *c)
{
	struct s3_conf *conf = &c->s3->conf;
	const char *named = c->error.region;

	if (!named[0]) {
		named = http_header(&c->http, "x-amz-bucket-region");
		if (!named)
			return false;
		(void)snprintf(c->error.region, sizeof(c->error.region), "%s", named);
	}
	if (c->mended_region || conf->region_given || !c->s3->opening ||
	    strcmp(c->error.region, conf->region) == 0)
		return false;
	c->mended_region = true;
	(void)snprintf(conf->region, sizeof(conf->region), "%s", c->error.region);
	return true;
}

/* HEAD has no body to say why it was refused: asked once more as a GET, it has. */
static bool mend_head(struct s3_call *c)
{
	unsigned s = c->http.status;

	if (strcmp(c->method, "HEAD") != 0 || (s != 400 && s != 401 && s != 403))
		return false;
	c->method = "GET";
	c->head_as_get = true;
	return true;
}

static bool call_mend(struct s3_call *c, const struct s3_err *e)
{
	switch (e->mend) {
	case S3_SKEW:
		return mend_skew(c);
	case S3_RENEW:
		return mend_creds(c);
	case S3_REGION:
		return mend_region(c);
	case S3_FINAL:
	case S3_NO_VERB:
		break;
	}
	return mend_head(c);
}

/* What the service says may repeat what we sent. */
static void error_scrub(struct s3_call *c)
{
	const struct creds_aws *id = c->creds ? container_of(c->creds, struct creds_aws, r) : NULL;
	const char *s = c->error.message;

	if (id && ((id->id && strstr(s, id->id)) || (id->secret && strstr(s, id->secret)) ||
		   (id->token && strstr(s, id->token))))
		c->error.message[0] = 0;
}

static void call_tell(struct s3_call *c, int err)
{
	struct s3 *s3 = c->s3;
	int64_t now = clock_now(), told = atomic_load(&s3->told);

	if (s3->opening || err == -ENOENT || err == -EEXIST || err == -TESS_E_SHORT_BODY ||
	    err == -TESS_E_STORE_BUSY || err == -ECANCELED)
		return;
	atomic_fetch_add(&s3->untold, 1);
	if ((told && now - told < TELL_EACH) || !atomic_compare_exchange_strong(&s3->told, &told, now))
		return;
	log_at(LOG_NOTICE, c->req ? c->req->id : 0,
	       "%s: %s %s%s: status %u %s%s%s%s (%s; request %s; %u failed since the last such line)",
	       s3->s.label, c->method, s3->conf.prefix, c->name ? c->name : "", c->http.status,
	       c->error.code, c->error.code[0] ? " " : "", c->error.message,
	       c->http.err ? http_why(&c->http) : "", err_name(err),
	       c->error.request[0] ? c->error.request : "-", atomic_exchange(&s3->untold, 0));
}

static void error_parse(struct s3_call *c)
{
	const char *id = http_header(&c->http, "x-amz-request-id");

	memset(&c->error, 0, sizeof(c->error));
	if (reply_has(c))
		(void)s3_xml_error(text_str(&c->http.reply), c->http.reply.n, &c->error);
	if (id && !c->error.request[0])
		(void)snprintf(c->error.request, sizeof(c->error.request), "%s", id);
	error_scrub(c);
}

static void call_judge(struct http_call *h)
{
	struct s3_call *c = h->owner;
	struct s3_err e = { .err = h->err };

	memset(&c->error, 0, sizeof(c->error));
	if (h->err == 0) {
		bool good = h->status >= 200 && h->status < 300;

		/* S3 may begin a reply with 200 and find out then: the body tells. */
		if (!good || reply_has(c))
			error_parse(c);
		if (!good || c->error.code[0])
			e = s3_err_find(c->error.code, h->status);
	}
	if (e.err < 0 && h->err == 0 && call_mend(c, &e)) {
		http_call_done(&c->http);
		renewed_put(steal_ptr(c->creds));
		text_wipe(&c->lines);
		text_done(&c->url);
		/* It stays where cancel() finds it. */
		if (!c->s3->renew) {
			call_go(c, NULL);
			return;
		}
		struct renewed *v = renew_get(c->s3->renew, &c->wait);

		if (v)
			call_go(c, v);
		return;
	}
	if (e.err < 0)
		call_tell(c, e.err);
	call_finish(c, e.err);
}

/* ---- sending ---- */

/* Takes the reference. */
static void call_go(struct s3_call *c, struct renewed *creds)
{
	struct s3 *s3 = c->s3;
	int r;

	c->creds = creds;
	c->lines = c->url = (struct text)TEXT_INIT;
	r = call_sign(c);
	if (r == 0) {
		scoped_lock(&s3->lock);
		r = c->cancelled ? -ECANCELED : 0;
	}
	if (r < 0) {
		call_finish(c, r);
		return;
	}
	c->http = (struct http_call){
		.req = c->req, .method = c->method, .url = text_str(&c->url),
		.headers = text_str(&c->lines), .body = c->body, .into = c->into,
		.reply_max = c->reply_max, .timeout = c->timeout, .done = call_judge, .owner = c,
	};
	http_send(s3->http, &c->http);
}

/* Of renewal, for a request: nothing of it may say that an object is not there, and most of it passes. */
static int renewal_err(const struct s3 *s3, int err)
{
	switch (err) {
	case -ECANCELED:
	case -ENOMEM:
		return err;
	case -EACCES:
	case -EPERM:
	case -ENOENT:
		return -EACCES;
	default:
		return s3->opening ? err : -EAGAIN;
	}
}

static void call_ready(struct renew_wait *w, struct renewed *v, int err)
{
	struct s3_call *c = container_of(w, struct s3_call, wait);

	if (v)
		call_go(c, v);
	else
		call_finish(c, renewal_err(c->s3, err));
}

void s3_call_send(struct s3_call *c)
{
	struct s3 *s3 = c->s3;
	struct renewed *v = NULL;

	c->wait.ready = call_ready;
	list_init(&c->wait.link);
	if (c->op) {
		scoped_lock(&s3->lock);
		list_push_back(&s3->calls, &c->link);
	}
	if (s3->renew) {
		v = renew_get(s3->renew, &c->wait);
		if (!v)
			return;
	}
	call_go(c, v);
}

bool s3_call_stop_locked(struct s3_call *c)
{
	struct s3 *s3 = c->s3;

	c->cancelled = true;
	if (s3->renew && renew_forget(s3->renew, &c->wait))
		return true;
	http_cancel(s3->http, &c->http);
	return false;
}

void s3_call_stopped(struct s3_call *c)
{
	call_finish(c, -ECANCELED);
}

void s3_call_cancel(struct s3 *s3, const struct store_op *op)
{
	struct s3_call *waited = NULL;

	/* Under the lock, which call_finish() takes: what is found stays. */
	lock_take(&s3->lock);
	list_for_each(n, &s3->calls) {
		struct s3_call *c = list_entry(n, struct s3_call, link);

		if (c->op == op) {
			waited = s3_call_stop_locked(c) ? c : NULL;
			break;
		}
	}
	lock_drop(&s3->lock);
	if (waited)
		s3_call_stopped(waited);
}
