/* SPDX-License-Identifier: Apache-2.0 */
/* Opening: everything that can be wrong is asked for before the first op, and told in one line. */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "store/deco.h"
#include "store/marker.h"
#include "store/swift_impl.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>

#define OPEN_TIMEOUT  (20 * NS_PER_S)
#define USAGE_AGE     (60 * NS_PER_S)
#define MADE_HEADER   "X-Container-Meta-Tessera-Fsid"	/* who made the container: only that one removes it */
#define CONNECTIONS   64u

/* ---- usage ---- */

/* A HEAD of the container, or of the account: false when it names no quota. */
static bool usage_take(struct swift_store *s, const struct http_call *h, bool account)
{
	uint64_t used = swift_header_uint(h, account ? "X-Account-Bytes-Used" :
						       "X-Container-Bytes-Used");
	uint64_t quota = swift_header_uint(h, account ? "X-Account-Meta-Quota-Bytes" :
							"X-Container-Meta-Quota-Bytes");

	scoped_lock(&s->lock);
	if (used != UINT64_MAX && !account)
		s->used = used;
	if (used == UINT64_MAX || quota == UINT64_MAX || quota == 0) {
		s->usage = (struct store_usage){ .objects = UINT64_MAX };
		return false;
	}
	s->usage = (struct store_usage){ .total = quota, .free = quota - MIN(used, quota),
					 .objects = UINT64_MAX };
	return true;
}

static void usage_end(struct swift_call *c)
{
	lock_take(&c->s->lock);
	c->s->usage_busy = false;
	lock_drop(&c->s->lock);
	swift_call_done(c);
}

/* What is not heard leaves the old numbers. */
static void usage_account_done(struct swift_call *c, int err)
{
	if (err == 0 && c->http.status / 100 == 2)
		(void)usage_take(c->s, &c->http, true);
	usage_end(c);
}

static void usage_container_done(struct swift_call *c, int err)
{
	if (err < 0 || c->http.status / 100 != 2 || usage_take(c->s, &c->http, false)) {
		usage_end(c);
		return;
	}
	text_clear(&c->path);
	c->finish = usage_account_done;
	swift_call_send(c);
}

int swift_usage(struct store *st, struct store_usage *ret)
{
	struct swift_store *s = container_of(st, struct swift_store, s);
	struct swift_call *c = NULL;
	bool ask;

	lock_take(&s->lock);
	ask = !s->usage_busy && clock_now() - s->usage_at >= USAGE_AGE;
	if (ask) {
		s->usage_busy = true;
		s->usage_at = clock_now();
	}
	*ret = s->usage;
	lock_drop(&s->lock);
	if (!ask)
		return 0;
	c = swift_call_new(s, NULL, "HEAD", usage_container_done);
	if (!c) {
		lock_take(&s->lock);
		s->usage_busy = false;
		lock_drop(&s->lock);
		return 0;
	}
	c->timeout = OPEN_TIMEOUT;
	text_add(&c->path, s->place);
	swift_call_send(c);
	return 0;
}

/* ---- the URI ---- */

static int place_refuse(const struct store_conf *conf, const char *what, struct text *why)
{
	text_fmt(why, "%s: %s", conf->uri, what);
	return -TESS_E_URI;
}

/* Components that every service keeps as they are. */
static bool prefix_sane(const char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t len = strcspn(p + i, "/");

		len = MIN(len, n - i);
		if (len == 0 || (len == 1 && p[i] == '.') || (len == 2 && strncmp(p + i, "..", 2) == 0))
			return false;
		i += len + 1;
	}
	return true;
}

static int place_parse(struct swift_store *s, const struct store_conf *conf, struct text *why)
{
	struct text place = TEXT_INIT, dir = TEXT_INIT;
	size_t n = strcspn(conf->place, "/"), rest;
	const char *prefix = conf->place + n + (conf->place[n] == '/');
	scoped_free char *container = mem_printf("%.*s", (int)n, conf->place);

	for (rest = strlen(prefix); rest > 0 && prefix[rest - 1] == '/';)
		rest--;
	if (n == 0 || n > 256)
		return place_refuse(conf, "a container's name has 1 to 256 bytes", why);
	if (!prefix_sane(prefix, rest))
		return place_refuse(conf, "PREFIX: no component may be empty, . or ..", why);
	s->prefix = rest ? mem_printf("%.*s/", (int)rest, prefix) : mem_strdup("");
	if (!container || !s->prefix)
		return -ENOMEM;
	text_add(&place, "/");
	http_encode(&place, container, false);
	text_fmt(&dir, "%s/", text_str(&place));
	http_encode(&dir, s->prefix, true);
	s->place = text_steal(&place);
	s->dir = text_steal(&dir);
	text_done(&place);
	text_done(&dir);
	return s->place && s->dir ? 0 : -ENOMEM;
}

/* The URI is remembered: no place for a path that means something here only, nor for secrets. */
static int params_check(const struct store_conf *conf, struct text *why)
{
	static const char *const files[] = { "key-file", "ca", "cert", "key" };
	static const char *const urls[] = { "auth", "proxy" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (deco_param_path(conf, files[i], why) < 0)
			return -TESS_E_URI;
	}
	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		const char *v = conf->param(conf, urls[i]);

		if (v && strchr(v, '@')) {
			text_fmt(why, "%s: %s: a target URI holds no credentials", conf->scheme,
				 urls[i]);
			return -TESS_E_URI;
		}
	}
	return 0;
}

static int params_read(struct swift_store *s, const struct store_conf *conf, unsigned *ret_conns,
		       struct text *why)
{
	const char *sum = conf->param(conf, "checksum");
	uint64_t conns;
	int r = params_check(conf, why);

	if (r == 0)
		r = deco_param_uint(conf, "connections", CONNECTIONS, &conns, why);
	if (r < 0)
		return r;
	if (conns < 1 || conns > 1024)
		return place_refuse(conf, "connections: 1 to 1024 are possible", why);
	if (sum && strcmp(sum, "md5") != 0 && strcmp(sum, "none") != 0)
		return place_refuse(conf, "checksum: md5 and none are possible", why);
	if (!sum || strcmp(sum, "md5") == 0) {
		s->md5 = EVP_MD_fetch(NULL, "MD5", NULL);
		if (!s->md5)
			return place_refuse(conf, "this OpenSSL has no MD5: give checksum=none", why);
	}
	*ret_conns = (unsigned)conns;
	return place_parse(s, conf, why);
}

/* ---- what the service says of itself ---- */

/* One try: the account's URL without what follows its first `keep` bytes, and /info. */
static int info_ask(struct swift_store *s, const char *url, size_t keep)
{
	struct text where = TEXT_INIT;
	struct http_call c = { .method = "GET", .timeout = OPEN_TIMEOUT, .reply_max = 1 << 20 };
	int r;

	text_fmt(&where, "%.*s/info", (int)keep, url);
	c.url = text_str(&where);
	r = text_error(&where);
	if (r == 0)
		r = http_do(s->http, &c);
	if (r == 0)
		r = c.status == 200 ? swift_info_parse(text_str(&c.reply), c.reply.n, &s->info) : -ENOENT;
	http_call_done(&c);
	text_done(&where);
	return r;
}

/* Swift has it at the root; radosgw below what is before /v1. None at all is fine. */
static void info_find(struct swift_store *s)
{
	struct renew_wait w = { .ready = NULL };
	struct renewed *v = renew_get(s->renew, &w);
	const char *url, *v1, *root;

	swift_info_default(&s->info);
	if (!v) {
		(void)renew_forget(s->renew, &w);
		return;
	}
	url = container_of(v, struct swift_token, r)->url;
	root = strstr(url, "://");
	root = root ? root + 3 + strcspn(root + 3, "/") : url + strlen(url);
	v1 = strstr(root, "/v1");
	if ((!v1 || info_ask(s, url, (size_t)(v1 - url)) < 0) && v1 != root)
		(void)info_ask(s, url, (size_t)(root - url));
	renewed_put(v);
}

static int limits_check(struct swift_store *s, const struct store_conf *conf, struct text *why)
{
	if (s->info.max_object < TESS_SEGMENT_MIN) {
		text_fmt(why, "%s: the service takes objects of at most %" PRIu64
			 " bytes; a segment has at least %" PRIu64, conf->uri, s->info.max_object,
			 TESS_SEGMENT_MIN);
		return -TESS_E_URI;
	}
	if (strlen(s->prefix) + STORE_NAME_MAX > s->info.max_name) {
		text_fmt(why, "%s: PREFIX is too long: the service takes names of %u bytes, ours have "
			 "up to %u more", conf->uri, s->info.max_name, STORE_NAME_MAX);
		return -TESS_E_URI;
	}
	s->s.caps = (struct store_caps){
		.flags = STORE_DURABLE_ON_DONE | (s->info.bulk_max > 1 ? STORE_BULK_DELETE : 0),
		.max_object = s->info.max_object,
		.best_put = 4 << 20,
		.min_get = 64 << 10,
	};
	return 0;
}

/* ---- the container ---- */

static struct swift_call *container_call(struct swift_store *s, const char *method)
{
	struct swift_call *c = swift_call_new(s, NULL, method, NULL);

	if (!c)
		return NULL;
	text_add(&c->path, s->place);
	c->timeout = OPEN_TIMEOUT;
	return c;
}

/* One line about a request that failed with `r`. */
static int container_said(const struct store_conf *conf, const struct swift_call *c, int r,
			  const char *what, struct text *why)
{
	text_fmt(why, "%s: %s: ", conf->uri, what);
	if (r == -EACCES)
		text_add(why, "this user may not, ");
	swift_call_says(&c->http, why);
	return r;
}

static int container_make(struct swift_store *s, const struct store_conf *conf, struct text *why)
{
	struct swift_call *c = container_call(s, "PUT");
	int r;

	if (!c)
		return -ENOMEM;
	text_fmt(&c->headers, "%s: %016" PRIx64 "\n", MADE_HEADER, conf->fsid);
	r = swift_call_do(c);
	if (r < 0)
		r = container_said(conf, c, r, "cannot make the container", why);
	swift_call_done(c);
	return r;
}

static int container_look(struct swift_store *s, const struct store_conf *conf, bool make,
			  struct text *why)
{
	struct swift_call *c = container_call(s, "HEAD");
	int r;

	if (!c)
		return -ENOMEM;
	r = swift_call_do(c);
	if (r == 0)
		(void)usage_take(s, &c->http, false);
	else if (r == -ENOENT && make)
		r = container_make(s, conf, why);
	else if (r == -ENOENT) {
		text_fmt(why, "%s: there is no container %s at %s", conf->uri, s->place + 1,
			 swift_auth_source(s->auth));
		r = -TESS_E_URI;
	} else {
		r = container_said(conf, c, r, "container", why);
	}
	swift_call_done(c);
	return r;
}

/* ---- open and close ---- */

void swift_close(struct store *st)
{
	struct swift_store *s = container_of(st, struct swift_store, s);

	if (s->auth)
		swift_call_cancel_all(s);
	swift_auth_close(s->auth);
	cond_done(&s->idle);
	lock_done(&s->lock);
	free(s->place);
	free(s->dir);
	free(s->prefix);
	EVP_MD_free(s->md5);
	free(s);
}

static struct swift_store *swift_new(void)
{
	struct swift_store *s = mem_zalloc(sizeof(*s));

	if (!s)
		return NULL;
	s->s.ops = &store_swift_ops;
	s->opening = true;
	s->usage.objects = UINT64_MAX;
	lock_init(&s->lock, LOCK_STORE, "swift");
	cond_init(&s->idle);
	list_init(&s->calls);
	list_init(&s->pending);
	list_init(&s->batches);
	return s;
}

/* Everything but the marker. `make`: the container, when it is not there. */
static int swift_open_place(struct swift_store **ret, const struct store_conf *conf, bool make,
			    struct text *why)
{
	struct swift_store *s = swift_new();
	unsigned conns = 0;
	int r;

	if (!s)
		return -ENOMEM;
	r = params_read(s, conf, &conns, why);
	if (r == 0)
		r = swift_auth_open(&s->auth, conf, conns, why);
	if (r == 0) {
		s->http = swift_auth_http(s->auth);
		s->renew = swift_auth_renew(s->auth);
		info_find(s);
		r = limits_check(s, conf, why);
		s->s.caps.max_inflight = conns;
	}
	if (r == 0)
		r = container_look(s, conf, make, why);
	if (r < 0)
		swift_close(&s->s);
	else
		*ret = s;
	return r;
}

int swift_open(struct store **ret, const struct store_conf *conf, struct store *inner,
	       struct text *why)
{
	struct swift_store *s;
	struct store_usage u;
	int r = swift_open_place(&s, conf, conf->create, why);

	(void)inner;
	if (r < 0)
		return r;
	r = store_marker_check(&s->s, conf, OPEN_TIMEOUT, why);
	if (r < 0) {
		swift_close(&s->s);
		return r;
	}
	s->opening = false;
	(void)swift_usage(&s->s, &u);	/* the account's quota comes when it comes */
	*ret = &s->s;
	return 0;
}

static void container_unmake(struct swift_store *s, uint64_t fsid)
{
	struct swift_call *c = container_call(s, "HEAD");
	const char *made;
	char mine[17];
	bool ours;

	if (!c)
		return;
	(void)snprintf(mine, sizeof(mine), "%016" PRIx64, fsid);
	ours = swift_call_do(c) == 0 && (made = http_header(&c->http, MADE_HEADER)) != NULL &&
	       strcmp(made, mine) == 0;
	swift_call_done(c);
	c = ours ? container_call(s, "DELETE") : NULL;	/* refused when it holds anything */
	if (!c)
		return;
	(void)swift_call_do(c);
	swift_call_done(c);
}

void swift_unmake(const struct store_conf *conf)
{
	struct text why = TEXT_INIT;
	struct swift_store *s;

	if (swift_open_place(&s, conf, false, &why) == 0) {
		store_marker_remove(&s->s, conf, OPEN_TIMEOUT);
		container_unmake(s, conf->fsid);
		swift_close(&s->s);
	}
	text_done(&why);
}
