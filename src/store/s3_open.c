/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening says at once what would otherwise be found out by the first write: that the endpoint
 * answers, that its certificate is trusted, that the service knows us, that the bucket is there, in
 * which region, and whose the place is.
 */
#include "store/s3_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "base/text.h"
#include "store/marker.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#define OPEN_TIMEOUT (30 * NS_PER_S)
#define OPEN_TRIES   4u

struct probe {
	struct lock lock;
	struct cond cond;
	bool        done;
	int         err;
};

static void probe_done(struct s3_call *c, int err)
{
	struct probe *p = c->owner;

	scoped_lock(&p->lock);
	p->err = err;
	p->done = true;
	cond_wake_all(&p->cond);
}

/* Sends and waits; the call is the caller's to free. */
static int call_do(struct s3_call *c)
{
	struct probe p = { .done = false };

	lock_init(&p.lock, LOCK_LEAF, "s3 probe");
	cond_init(&p.cond);
	c->done = probe_done;
	c->owner = &p;
	s3_call_send(c);
	lock_take(&p.lock);
	while (!p.done)
		cond_wait(&p.cond, &p.lock);
	lock_drop(&p.lock);
	cond_done(&p.cond);
	lock_done(&p.lock);
	return p.err;
}

/* ---- errors in plain words ---- */

static void why_transport(const struct s3 *s3, const struct s3_call *c, struct text *why)
{
	text_add(why, "endpoint ");
	s3_conf_endpoint(&s3->conf, why);
	text_fmt(why, ": %s", http_why(&c->http));
}

static void why_source(const struct s3 *s3, struct text *why)
{
	struct renew_wait w = { .ready = NULL };
	struct renewed *v;

	if (!s3->renew) {
		text_add(why, "; this target is anonymous");
		return;
	}
	list_init(&w.link);
	v = renew_get(s3->renew, &w);
	if (v) {
		text_fmt(why, "; credentials: %s", container_of(v, struct creds_aws, r)->source);
		renewed_put(v);
	} else {
		(void)renew_forget(s3->renew, &w);
	}
}

static void why_refused(const struct s3 *s3, const struct s3_call *c, int err, struct text *why)
{
	const struct s3_xml_error *e = &c->error;
	struct s3_err row = s3_err_find(e->code, c->http.status);

	text_fmt(why, "bucket %s: %s", s3->conf.bucket, row.says ? row.says : err_text(err));
	if (row.mend == S3_REGION && e->region[0])
		text_fmt(why, ": give region=%s", e->region);
	text_fmt(why, " (status %u %s", c->http.status, e->code);
	if (e->request[0])
		text_fmt(why, ", request %s", e->request);
	text_add(why, ")");
	if (err == -EACCES)
		why_source(s3, why);
}

static void why_line(const struct s3 *s3, const struct store_conf *conf, const struct s3_call *c,
		     int err, struct text *why)
{
	text_fmt(why, "%s: ", conf->uri);
	if (c->http.err)
		why_transport(s3, c, why);
	else if (c->http.status)
		why_refused(s3, c, err, why);
	else
		text_add(why, err_text(err));
}

/* ---- probes ---- */

static bool passing(int err)
{
	return err == -TESS_E_STORE_BUSY || err == -EIO || err == -ECONNRESET || err == -EBUSY;
}

/* One name of a listing: needs the bucket, the region, the credentials and the right to list. */
static int probe_once(struct s3 *s3, const struct store_conf *conf, bool last, struct text *why)
{
	struct s3_call c = { .s3 = s3, .method = "GET", .timeout = OPEN_TIMEOUT };
	struct s3_xml_page page = { .token = TEXT_INIT };
	int r;

	s3_call_query(&c, "list-type", "2");
	s3_call_query(&c, "prefix", s3->conf.prefix);
	s3_call_query(&c, "max-keys", "1");
	r = call_do(&c);
	if (r == 0 && s3_xml_root(text_str(&c.http.reply), c.http.reply.n, "ListBucketResult") < 0) {
		text_fmt(why, "%s: endpoint ", conf->uri);
		s3_conf_endpoint(&s3->conf, why);
		text_add(why, ": answers, but not as an S3 service does");
		r = -EPROTO;
	} else if (r < 0 && (last || !passing(r))) {
		why_line(s3, conf, &c, r, why);
	}
	text_done(&page.token);
	s3_call_done(&c);
	return r;
}

static int probe_bucket(struct s3 *s3, const struct store_conf *conf, struct text *why)
{
	int r = 0;

	for (unsigned i = 0; i < OPEN_TRIES; i++) {
		if (i > 0)
			clock_sleep(clock_backoff(i, 100 * NS_PER_MS, NS_PER_S));
		r = probe_once(s3, conf, i + 1 == OPEN_TRIES, why);
		if (!passing(r))
			break;
	}
	/* ENOENT would read as if the directory of the file system were not there. */
	return r == -ENOENT ? -ENODEV : r;
}

/*
 * Whether If-None-Match counts: the marker is put where it is. A service that does not look stores
 * the same bytes again.
 */
static bool probe_condition(struct s3 *s3)
{
	char buf[256];
	struct tess_objinfo info;
	struct tess_req req;

	req_begin(&req, "target");
	req.deadline = clock_now() + OPEN_TIMEOUT;
	if (store_head(&s3->s, &req, STORE_MARKER, &info) < 0 || info.size > sizeof(buf) ||
	    store_get(&s3->s, &req, STORE_MARKER, 0, buf, info.size) < 0)
		return false;
	return store_put(&s3->s, &req, STORE_MARKER, buf, info.size) == -EEXIST;
}

/* ---- open and close ---- */

static int open_parts(struct s3 *s3, const struct store_conf *conf, struct text *why)
{
	struct creds_conf who = {
		.uri = conf->uri, .profile = s3->conf.profile, .key_file = s3->conf.key_file,
		.region = s3->conf.region_given ? s3->conf.region : NULL,
	};
	struct http_conf http = {
		.name = "s3", .ca_file = s3->conf.ca, .cert_file = s3->conf.cert,
		.key_file = s3->conf.key, .proxy = s3->conf.proxy,
		.connections = (unsigned)s3->conf.connections,
	};
	int r = 0;

	if (!s3->conf.anonymous) {
		r = creds_open(&s3->creds, &who, why);
		if (r == 0)
			s3->renew = creds_renew(s3->creds);
	}
	if (r == 0)
		r = http_new(&s3->http, &http, why);
	return r;
}

static void caps_set(struct s3 *s3)
{
	uint64_t max = (uint64_t)S3_PARTS * s3->conf.max_put;

	s3->s.caps = (struct store_caps){
		.flags = STORE_DURABLE_ON_DONE | STORE_BULK_DELETE,
		.max_object = MIN(max, UINT64_C(5) << 40), .best_put = 8 << 20, .min_get = 128 << 10,
		.max_inflight = MIN(64u, (unsigned)s3->conf.connections),
	};
}

/* Everything but the marker. */
static int open_bare(struct s3 **ret, const struct store_conf *conf, struct text *why)
{
	struct s3 *s3 = mem_zalloc(sizeof(*s3));
	int r;

	if (!s3)
		return -ENOMEM;
	s3->s.ops = &store_s3_ops;
	(void)snprintf(s3->s.label, sizeof(s3->s.label), "s3");
	lock_init(&s3->lock, LOCK_STORE, "s3");
	cond_init(&s3->no_rounds);
	list_init(&s3->calls);
	list_init(&s3->dels);
	list_init(&s3->rounds);
	r = s3_conf_parse(&s3->conf, conf, why);
	if (r == 0) {
		caps_set(s3);
		r = open_parts(s3, conf, why);
	}
	s3->opening = true;
	if (r == 0)
		r = probe_bucket(s3, conf, why);
	if (r < 0)
		s3_close(&s3->s);
	else
		*ret = s3;
	return r;
}

int s3_open(struct store **ret, const struct store_conf *conf, struct store *inner, struct text *why)
{
	struct s3 *s3;
	int r = open_bare(&s3, conf, why);

	(void)inner;
	if (r < 0)
		return r;
	r = store_marker_check(&s3->s, conf, OPEN_TIMEOUT, why);
	if (r < 0) {
		s3_close(&s3->s);
		return r;
	}
	if (!conf->readonly && probe_condition(s3))
		s3->s.caps.flags |= STORE_CONDITIONAL_PUT;
	s3->opening = false;
	*ret = &s3->s;
	return 0;
}

void s3_unmake(const struct store_conf *conf)
{
	struct text why = TEXT_INIT;
	struct s3 *s3;

	if (open_bare(&s3, conf, &why) == 0) {
		store_marker_remove(&s3->s, conf, OPEN_TIMEOUT);
		s3_close(&s3->s);
	}
	text_done(&why);
}

void s3_close(struct store *s)
{
	struct s3 *s3 = container_of(s, struct s3, s);

	s3_del_close(s3);
	http_free(s3->http);
	renewed_put(s3->key_of);
	creds_close(s3->creds);
	OPENSSL_cleanse(&s3->key, sizeof(s3->key));
	s3_conf_done(&s3->conf);
	cond_done(&s3->no_rounds);
	lock_done(&s3->lock);
	free(s3);
}
