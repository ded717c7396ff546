/* SPDX-License-Identifier: Apache-2.0 */
#include "store/swift_auth.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/lock.h"
#include "store/swift_ident.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <string.h>

#define AUTH_TIMEOUT (20 * NS_PER_S)
#define TOKEN_LIMIT  16384u
#define CLOSE_LOOK   (50 * NS_PER_MS)

struct swift_auth {
	struct swift_ident id;
	struct http       *http;	/* owned */
	struct renew      *renew;	/* owned */
	char              *source;	/* owned: for people */
	struct lock        lock;
	struct cond        asked;	/* the service has answered, or closing */
	bool               closing GUARDED_BY(&lock);
};

/* ---- tokens ---- */

static void token_free(struct renewed *r)
{
	struct swift_token *t = container_of(r, struct swift_token, r);

	OPENSSL_cleanse((char *)t->token, strlen(t->token));
	free((char *)t->token);
	free((char *)t->url);
	free(t);
}

/* Neither may break the line of a header, nor a URL. */
static bool printable(const char *s)
{
	for (; *s; s++) {
		if (*s <= ' ' || *s >= 0x7f)
			return false;
	}
	return true;
}

static int token_new(const char *token, const char *url, int64_t life, struct renewed **ret,
		     struct text *why)
{
	struct http_url parts;
	struct swift_token *t;
	size_t n = strlen(url);

	if (!token[0] || strlen(token) > TOKEN_LIMIT || !printable(token)) {
		text_add(why, "it gave no token, or none that fits into a header");
		return -EPROTO;
	}
	if (!printable(url) || strchr(url, '?') || strchr(url, '@') ||
	    http_url_parse(url, &parts) < 0) {
		text_add(why, "it gave no usable URL of the object store");
		return -EPROTO;
	}
	while (n > 0 && url[n - 1] == '/')
		n--;
	t = mem_zalloc(sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->token = mem_strdup(token);
	t->url = mem_printf("%.*s", (int)n, url);
	if (!t->token || !t->url) {
		free((char *)t->token);
		free((char *)t->url);
		free(t);
		return -ENOMEM;
	}
	atomic_init(&t->r.refs, 1);
	t->r.until = life == INT64_MAX ? INT64_MAX : clock_wall() + life;
	t->r.free = token_free;
	*ret = &t->r;
	return 0;
}

/* ---- one round trip ---- */

struct asking {
	struct swift_auth *auth;
	bool               done;	/* under auth's lock */
};

static void asked(struct http_call *c)
{
	struct asking *x = c->owner;
	struct swift_auth *a = x->auth;

	scoped_lock(&a->lock);
	x->done = true;
	cond_wake_all(&a->asked);
}

/* Sends and waits, on the renewer's thread; not for a silent service when the store is closed. */
static void auth_do(struct swift_auth *a, struct http_call *c) NO_TSA
{
	struct asking x = { .auth = a };

	c->done = asked;
	c->owner = &x;
	http_send(a->http, c);
	lock_take(&a->lock);
	while (!x.done && !a->closing)
		cond_wait(&a->asked, &a->lock);
	/* More than once: the first may come before the transport has it. */
	while (!x.done) {
		lock_drop(&a->lock);
		http_cancel(a->http, c);
		lock_take(&a->lock);
		if (!x.done)
			(void)cond_wait_until(&a->asked, &a->lock, clock_now() + CLOSE_LOOK);
	}
	lock_drop(&a->lock);
}

static const char *header(const struct http_call *c, const char *name)
{
	const char *v = http_header(c, name);

	return v ? v : "";
}

/* What went wrong, for people. `c` is done and has err or another status than wanted. */
static int auth_refused(const struct swift_ident *id, struct http_call *c, struct text *why)
{
	const char *trace = header(c, "X-Openstack-Request-Id");
	int r = c->err < 0 ? c->err : http_status_err(c->status);

	text_fmt(why, "%s: ", id->f[SWIFT_AUTH_URL]);
	if (c->err < 0) {
		text_fmt(why, "%s", http_why(c));
		return r;
	}
	text_fmt(why, "status %u", c->status);
	if (c->status == 401 || c->status == 403)
		text_add(why, id->f[SWIFT_APP_SECRET] ? ", application credential refused" :
			      id->f[SWIFT_PASSWORD]   ? ", user, project or key refused" :
							", token refused");
	else if (c->status >= 300 && c->status < 400)
		text_add(why, ", a redirect, which is not followed");
	if (c->reply.n) {
		text_add(why, ": ");
		swift_reply_says(text_str(&c->reply), c->reply.n, why);
	}
	if (!trace[0])
		trace = header(c, "X-Trans-Id");
	if (trace[0] && printable(trace) && strlen(trace) < 100)
		text_fmt(why, " (%s)", trace);
	/* 404 means that this is no auth URL, 2xx that there was no token: no object is missing. */
	return r == 0 || r == -ENOENT ? -EACCES : r;
}

static int64_t life_parse(const char *s)
{
	int64_t sec = 0;

	if (!*s)
		return INT64_MAX;
	for (; *s >= '0' && *s <= '9' && sec < (INT64_C(1) << 31); s++)
		sec = sec * 10 + (*s - '0');
	return MAX(sec, INT64_C(1)) * NS_PER_S;
}

static int fetch_tempauth(struct swift_auth *a, struct renewed **ret, struct text *why)
{
	const struct swift_ident *id = &a->id;
	struct text head = TEXT_INIT;
	struct http_call c = { .method = "GET", .url = id->f[SWIFT_AUTH_URL],
			       .timeout = AUTH_TIMEOUT };
	const char *token;
	int r = swift_secret_room(&head, 128 + strlen(id->f[SWIFT_USER]) +
						strlen(id->f[SWIFT_PASSWORD]));

	if (r < 0)
		return r;
	/* Some give the old token again until its very end, unless asked for a new one. */
	text_fmt(&head, "X-Auth-User: %s\nX-Auth-Key: %s\nX-Auth-New-Token: true\n",
		 id->f[SWIFT_USER], id->f[SWIFT_PASSWORD]);
	c.headers = text_str(&head);
	auth_do(a, &c);
	token = header(&c, "X-Auth-Token");
	if (!token[0])
		token = header(&c, "X-Storage-Token");
	if (c.err < 0 || (c.status != 200 && c.status != 204))
		r = auth_refused(id, &c, why);
	else
		r = token_new(token, id->f[SWIFT_STORAGE_URL] ? id->f[SWIFT_STORAGE_URL] :
								header(&c, "X-Storage-Url"),
			      life_parse(header(&c, "X-Auth-Token-Expires")), ret, why);
	http_call_done(&c);
	swift_wipe(&head);
	return r;
}

static int fetch_keystone(struct swift_auth *a, struct renewed **ret, struct text *why)
{
	struct text body = TEXT_INIT, url = TEXT_INIT, where = TEXT_INIT;
	struct http_call c = { .method = "POST",
			       .headers = "Content-Type: application/json\n"
					  "Accept: application/json\n",
			       .reply_max = 4 << 20, .timeout = AUTH_TIMEOUT };
	struct iovec v;
	int64_t life = INT64_MAX;
	int r = swift_keystone_body(&a->id, &body);

	if (r == 0 && swift_keystone_url(a->id.f[SWIFT_AUTH_URL], &url) == -EINVAL) {
		text_fmt(why, "%s: Keystone v2 is not supported: give its /v3",
			 a->id.f[SWIFT_AUTH_URL]);
		r = -TESS_E_URI;
	}
	if (r == 0) {
		v = (struct iovec){ body.s, body.n };
		c.body = (struct tess_iov){ &v, 1, body.n };
		c.url = text_str(&url);
		auth_do(a, &c);
		if (c.err < 0 || (c.status != 201 && c.status != 200))
			r = auth_refused(&a->id, &c, why);
		else
			r = swift_keystone_reply(&a->id, text_str(&c.reply), c.reply.n, &where,
						 &life, why);
		if (r == 0)
			r = token_new(header(&c, "X-Subject-Token"), text_str(&where), life, ret,
				      why);
		http_call_done(&c);
	}
	swift_wipe(&body);
	text_done(&url);
	text_done(&where);
	return r;
}

static int auth_fetch(void *arg, struct renewed **ret, struct text *why)
{
	struct swift_auth *a = arg;

	switch (a->id.kind) {
	case SWIFT_TEMPAUTH:
		return fetch_tempauth(a, ret, why);
	case SWIFT_KEYSTONE:
		return fetch_keystone(a, ret, why);
	case SWIFT_STATIC:
		break;
	}
	return token_new(a->id.f[SWIFT_TOKEN], a->id.f[SWIFT_STORAGE_URL], INT64_MAX, ret, why);
}

/* ---- open and close ---- */

static int auth_transport(struct swift_auth *a, const struct swift_auth_conf *c,
			  unsigned connections, struct text *why)
{
	const struct http_conf conf = {
		.name = "swift",
		.ca_file = a->id.f[SWIFT_CACERT],
		.cert_file = a->id.f[SWIFT_CERT],
		.key_file = a->id.f[SWIFT_KEY],
		.proxy = c->proxy,
		.connections = connections,
	};
	struct text secret = TEXT_INIT;
	/* For its mode only: the transport reads it itself. */
	int r = conf.key_file ? swift_file_read(conf.key_file, true, &secret, NULL, why) : 0;

	swift_wipe(&secret);
	return r < 0 ? r : http_new(&a->http, &conf, why);
}

/* Everything but the first token. */
static int auth_new(struct swift_auth **ret, const struct swift_auth_conf *c, unsigned connections,
		    struct text *explain, struct text *why)
{
	struct text source = TEXT_INIT;
	struct swift_auth *a = mem_zalloc(sizeof(*a));
	int r;

	if (!a)
		return -ENOMEM;
	lock_init(&a->lock, LOCK_LEAF, "swift_auth");
	cond_init(&a->asked);
	r = swift_ident_load(&a->id, c, explain, why);
	if (r == 0) {
		swift_ident_to_text(&a->id, &source);
		a->source = text_steal(&source);
		text_done(&source);
		r = a->source ? auth_transport(a, c, connections, why) : -ENOMEM;
	}
	if (r == 0)
		r = renew_new(&a->renew, "swift-token", auth_fetch, a);
	if (r < 0)
		swift_auth_close(a);
	else
		*ret = a;
	return r;
}

static int auth_first(struct swift_auth *a, const char *uri, struct text *why)
{
	struct text line = TEXT_INIT;
	int r = renew_first(a->renew, AUTH_TIMEOUT + NS_PER_S, &line);

	if (r < 0 && !text_str(why)[0])
		text_fmt(why, "%s: %s", uri, text_str(&line)[0] ? text_str(&line) : err_text(r));
	text_done(&line);
	return r;
}

int swift_auth_open(struct swift_auth **ret, const struct store_conf *conf, unsigned connections,
		    struct text *why)
{
	struct swift_auth_conf c;
	struct swift_auth *a;
	int r;

	swift_auth_conf_set(&c, conf);
	r = auth_new(&a, &c, connections, NULL, why);
	if (r < 0)
		return r;
	r = auth_first(a, conf->uri, why);
	if (r < 0)
		swift_auth_close(a);
	else
		*ret = a;
	return r;
}

void swift_auth_close(struct swift_auth *a)
{
	if (!a)
		return;
	lock_take(&a->lock);
	a->closing = true;
	cond_wake_all(&a->asked);
	lock_drop(&a->lock);
	renew_free(a->renew);
	http_free(a->http);
	swift_ident_done(&a->id);
	cond_done(&a->asked);
	lock_done(&a->lock);
	free(a->source);
	free(a);
}

struct http *swift_auth_http(struct swift_auth *a)
{
	return a->http;
}

struct renew *swift_auth_renew(struct swift_auth *a)
{
	return a->renew;
}

bool swift_auth_renews(const struct swift_auth *a)
{
	return a->id.kind != SWIFT_STATIC;
}

const char *swift_auth_source(const struct swift_auth *a)
{
	return a->source;
}

/* ---- for people ---- */

/* A target URI's parameters without the store that would be opened by it. */
struct explain_conf {
	struct store_conf conf;
	const char       *uri;
	struct text       values[12];
	unsigned          n;
};

static const char *explain_param(const struct store_conf *conf, const char *name)
{
	struct explain_conf *x = container_of(conf, struct explain_conf, conf);
	struct text why = TEXT_INIT, *v;
	int r;

	if (x->n == ARRAY_SIZE(x->values))
		return NULL;
	v = &x->values[x->n];
	r = store_uri_param(x->uri, name, v, &why);
	text_done(&why);
	if (r < 0)
		return NULL;
	x->n++;
	return text_str(v);
}

static void explain_token(struct swift_auth *a, struct text *out)
{
	struct renew_wait w = { .ready = NULL };
	struct renewed *v = renew_get(a->renew, &w);
	const struct swift_token *t;

	if (!v) {
		(void)renew_forget(a->renew, &w);
		return;
	}
	t = container_of(v, struct swift_token, r);
	text_fmt(out, "account   %s\n", t->url);
	if (v->until == INT64_MAX)
		text_add(out, "token     ends when the service says so\n");
	else
		text_fmt(out, "token     good for another %" PRId64 " s\n",
			 (v->until - clock_wall()) / NS_PER_S);
	renewed_put(v);
}

int swift_auth_explain(const char *uri, struct text *out)
{
	struct explain_conf x = { .conf = { .uri = uri, .param = explain_param }, .uri = uri };
	struct swift_auth_conf c;
	struct swift_auth *a = NULL;
	struct text why = TEXT_INIT;
	int r = store_uri_check(uri, &why);

	if (r == 0) {
		swift_auth_conf_set(&c, &x.conf);
		r = auth_new(&a, &c, 2, out, &why);
	}
	if (r == 0) {
		text_fmt(out, "identity  %s\n", a->source);
		r = auth_first(a, uri, &why);
	}
	if (r == 0)
		explain_token(a, out);
	else
		text_fmt(out, "error     %s\n", text_str(&why)[0] ? text_str(&why) : err_text(r));
	swift_auth_close(a);
	for (unsigned i = 0; i < x.n; i++)
		text_done(&x.values[i]);
	text_done(&why);
	return r;
}
