/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services near by that hand out credentials to who can reach them: the container endpoint and the
 * instance's metadata. They answer within milliseconds or are not there, so they get a second and a
 * second try; they are asked directly, as a proxy would be asked for its own identity.
 *
 * The instance is asked by IMDSv2 only. The first version gives keys to whoever can make this host send
 * a GET somewhere; an instance that has nothing else has been without a reason to for years.
 */
#include "store/creds_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/scoped.h"
#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

#define REPLY_MAX    (64u << 10)
#define NEAR_TRIES   2u
#define FAR_TRIES    3u
#define NEAR_TIMEOUT (2 * NS_PER_S)
#define FAR_TIMEOUT  (10 * NS_PER_S)
#define PAUSE	     (200 * NS_PER_MS)

static int creds_http_get(struct creds *c, bool near, struct http **ret, struct text *why)
{
	struct http_conf conf = {
		.name = near ? "metadata" : "sts",
		.proxy = near ? "" : NULL,
		.ca_file = near ? NULL : c->env[ENV_CA_BUNDLE],
		.threads = 1,
		.connections = 2,
		.connect_timeout = near ? NS_PER_S : 0,
	};
	struct http **h = near ? &c->near : &c->far;
	int err = *h ? 0 : http_new(h, &conf, why);

	if (!err)
		*ret = *h;
	return err;
}

/* So that creds_close() can hurry it. */
static int creds_http_call(struct creds *c, struct http *h, struct http_call *call)
{
	int err = -ECANCELED;

	lock_take(&c->lock);
	c->calling = call;
	c->calling_by = h;
	lock_drop(&c->lock);
	if (!atomic_load(&c->stop))
		err = http_do(h, call);
	lock_take(&c->lock);
	c->calling = NULL;
	lock_drop(&c->lock);
	return err;
}

static bool worth_again(int err, unsigned status)
{
	return (err && err != -ECANCELED && err != -EACCES && err != -ENOMEM && err != -EPROTO) ||
	       (!err && (status == 408 || status == 429 || status >= 500));
}

/* One try: the status or an error. */
static int creds_http_try(struct creds *c, struct http *h, const struct creds_ask *a,
			  struct text *why)
{
	struct iovec out = { 0 }, in = { .iov_base = a->into->s, .iov_len = a->into->cap };
	struct http_call call = {
		.method = a->method,
		.url = a->url,
		.headers = a->headers,
		.into = { .iov = &in, .n = 1, .len = a->into->cap },
		.timeout = a->near ? NEAR_TIMEOUT : FAR_TIMEOUT,
	};
	int err;

	if (a->body) {
		out = (struct iovec){ .iov_base = a->body->s, .iov_len = a->body->n };
		call.body = (struct tess_iov){ .iov = &out, .n = 1, .len = a->body->n };
	}
	err = creds_http_call(c, h, &call);
	text_clear(why);
	if (err) {
		a->into->n = a->into->cap;	/* whatever came is wiped with it */
		if (err != -ECANCELED)
			text_fmt(why, "%s: %s", a->what, http_why(&call));
	} else {
		a->into->n = call.status == 200 ? (size_t)call.got : 0;
		a->into->s[a->into->n] = 0;
		if (call.status != 200 && a->error) {
			text_clear(a->error);
			text_addn(a->error, text_str(&call.reply), call.reply.n);
		}
		err = (int)call.status;
	}
	if (call.reply.s)
		OPENSSL_cleanse(call.reply.s, call.reply.n);
	http_call_done(&call);
	return err;
}

int creds_http_ask(struct creds *c, const struct creds_ask *a, struct text *why)
{
	struct text last = TEXT_INIT;
	struct http *h;
	int r = creds_http_get(c, a->near, &h, why);

	if (r)
		return r;
	for (unsigned left = a->near ? NEAR_TRIES : FAR_TRIES; left; left--) {
		r = creds_http_try(c, h, a, &last);
		if (!worth_again(MIN(r, 0), r > 0 ? (unsigned)r : 0) || atomic_load(&c->stop))
			break;
		if (left > 1)
			clock_sleep(PAUSE / 2 + clock_backoff(0, PAUSE, PAUSE));
	}
	if (r < 0)
		text_add(why, text_str(&last));
	text_done(&last);
	return r;
}

/* A reply that is credentials in JSON. */
static int creds_http_json(struct creds *c, struct creds_ask *a, const char *source,
			   struct creds_aws **ret, struct text *why)
{
	struct secret in = SECRET_INIT;
	struct text bad = TEXT_INIT;
	int r = secret_init(&in, REPLY_MAX);

	if (r)
		return r;
	a->into = &in;
	r = creds_http_ask(c, a, why);
	if (r == 200) {
		r = creds_json_parse(CREDS_JSON_SERVICE, &in, source, ret, &bad);
		if (r)
			text_fmt(why, "%s: %s", a->what, text_str(&bad));
	} else if (r > 0) {
		text_fmt(why, "%s: status %d", a->what, r);
		r = http_status_err((unsigned)r);
		r = r ? r : -EPROTO;
	}
	text_done(&bad);
	secret_done(&in);
	return r;
}

/* ---- container ---- */

/* Where plain HTTP may carry the token: this host, and the link-local addresses of ECS and EKS. */
static bool host_is_near(const char *host)
{
	return http_host_is_loopback(host) || !strcasecmp(host, "[fd00:ec2::23]") ||
	       !strcmp(host, "169.254.170.2") || !strcmp(host, "169.254.170.23");
}

int creds_container_url(const char *relative, const char *full, struct text *ret, struct text *why)
{
	const char *v = relative ? relative : full;
	struct http_url u;

	for (const char *s = v; *s; s++) {
		if (*s <= ' ' || *s > '~') {
			text_add(why,
				 "the URI of the container's credentials holds a blank or control "
				 "character");
			return -EINVAL;
		}
	}
	if (relative) {
		if (*relative != '/') {
			text_add(why,
				 "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with /");
			return -EINVAL;
		}
		text_fmt(ret, "http://169.254.170.2%s", relative);
		return text_error(ret);
	}
	if (http_url_parse(full, &u)) {
		text_add(why,
			 "AWS_CONTAINER_CREDENTIALS_FULL_URI is not http[s]://HOST[:PORT]/PATH");
		return -EINVAL;
	}
	if (!u.tls && !host_is_near(u.host)) {
		text_add(why,
			 "AWS_CONTAINER_CREDENTIALS_FULL_URI: without TLS only a loopback address, "
			 "169.254.170.2, 169.254.170.23 or [fd00:ec2::23] is asked, not ");
		creds_add_name(why, u.host);
		return -EPERM;
	}
	text_add(ret, full);
	return text_error(ret);
}

int creds_container_configured(struct creds *c, struct text *what)
{
	if (c->env[ENV_CONTAINER_REL])
		text_add(what, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	else if (c->env[ENV_CONTAINER_FULL])
		text_add(what, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
	else
		text_add(what, "AWS_CONTAINER_CREDENTIALS_{RELATIVE,FULL}_URI: not set");
	return c->env[ENV_CONTAINER_REL] || c->env[ENV_CONTAINER_FULL];
}

static bool header_fits(const char *s)
{
	for (; *s; s++) {
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return false;
	}
	return true;
}

static int header_add(struct secret *out, const char *name, const char *value, struct text *why)
{
	int err;

	if (!header_fits(value)) {
		text_fmt(why, "the value for %s holds a control character", name);
		return -EINVAL;
	}
	err = secret_add(out, name);
	err = err ? err : secret_add(out, ": ");
	err = err ? err : secret_add(out, value);
	return err ? err : secret_add(out, "\n");
}

/* The file wins, and is read each time: its token is short-lived. */
static int container_headers(struct creds *c, struct secret *out, struct text *why)
{
	const char *path = c->env[ENV_CONTAINER_AUTH_FILE], *token = c->env[ENV_CONTAINER_AUTH];
	struct creds_file f = { 0 };
	int err = 0;

	if (path) {
		err = creds_file_read(&f, path, why);
		if (!err) {
			while (f.text.n && strchr(" \t\r\n", f.text.s[f.text.n - 1]))
				f.text.s[--f.text.n] = 0;
			token = f.text.s;
		}
	}
	if (!err)
		err = secret_add(out, "Accept: application/json\n");
	if (!err && token && *token)
		err = header_add(out, "Authorization", token, why);
	creds_file_done(&f);
	return err;
}

int creds_container_fetch(struct creds *c, struct creds_aws **ret, struct text *why)
{
	struct secret headers = SECRET_INIT;
	struct text url = TEXT_INIT;
	struct creds_ask ask = { .near = true, .method = "GET", .what = "container endpoint" };
	int err;

	if (!c->env[ENV_CONTAINER_REL] && !c->env[ENV_CONTAINER_FULL]) {
		text_add(why, "credential_source = EcsContainer: ");
		(void)creds_container_configured(c, why);
		return -ENOENT;
	}
	err = creds_container_url(c->env[ENV_CONTAINER_REL], c->env[ENV_CONTAINER_FULL], &url, why);
	if (!err)
		err = secret_init(&headers, REPLY_MAX);
	if (!err)
		err = container_headers(c, &headers, why);
	if (!err) {
		ask.url = text_str(&url);
		ask.headers = headers.s;
		err = creds_http_json(c, &ask, "container endpoint", ret, why);
	}
	secret_done(&headers);
	text_done(&url);
	return err;
}

/* ---- instance ---- */

static void instance_base(const struct creds *c, struct text *out)
{
	const char *v = c->env[ENV_IMDS_ENDPOINT];
	const char *mode = c->env[ENV_IMDS_MODE];
	size_t n;

	if (!v)
		v = mode && !strcasecmp(mode, "IPv6") ? "http://[fd00:ec2::254]"
						      : "http://169.254.169.254";
	n = strlen(v);
	text_addn(out, v, n && v[n - 1] == '/' ? n - 1 : n);
}

int creds_instance_configured(struct creds *c, struct text *what)
{
	const char *off = c->env[ENV_IMDS_OFF];

	if (off && !strcasecmp(off, "true")) {
		text_add(what, "AWS_EC2_METADATA_DISABLED is set");
		return 0;
	}
	text_add(what, "IMDSv2 at ");
	instance_base(c, what);
	return 1;
}

/* One request of the exchange: text in `in`. */
static int instance_ask(struct creds *c, const struct creds_ask *ask, struct text *why)
{
	int r = creds_http_ask(c, ask, why);

	if (r == 200 && !ask->into->n)
		r = 404;
	if (r == 200)
		return 0;
	if (r > 0) {
		text_fmt(why, "%s: %s: status %d", ask->what, ask->method, r);
		r = http_status_err((unsigned)r);
		r = r ? r : -EPROTO;
	}
	return r;
}

static int instance_token(struct creds *c, const char *base, struct secret *headers,
			  struct text *why)
{
	struct secret in = SECRET_INIT;
	struct text url = TEXT_INIT;
	struct creds_ask ask = {
		.near = true,
		.method = "PUT",
		.headers = "X-aws-ec2-metadata-token-ttl-seconds: 300\n",
		.into = &in,
		.what = "instance metadata",
	};
	int err = secret_init(&in, 4096);

	text_fmt(&url, "%s/latest/api/token", base);
	ask.url = text_str(&url);
	if (!err)
		err = text_error(&url);
	if (!err)
		err = instance_ask(c, &ask, why);
	if (!err)
		err = header_add(headers, "X-aws-ec2-metadata-token", in.s, why);
	secret_done(&in);
	text_done(&url);
	return err;
}

/* The first line of the list, as a URL's last part. */
static int instance_role(struct creds *c, const char *list, struct secret *headers,
			 struct text *ret, struct text *why)
{
	struct secret in = SECRET_INIT;
	struct creds_ask ask = {
		.near = true,
		.method = "GET",
		.url = list,
		.headers = headers->s,
		.into = &in,
		.what = "instance metadata",
	};
	int err = secret_init(&in, 4096);

	if (!err)
		err = instance_ask(c, &ask, why);
	if (!err) {
		in.s[strcspn(in.s, "\r\n")] = 0;
		text_add(ret, list);
		http_encode(ret, in.s, false);
		err = text_error(ret);
	}
	if (err == -ENOENT)
		text_add(why, " (the instance has no role)");
	secret_done(&in);
	return err;
}

int creds_instance_fetch(struct creds *c, struct creds_aws **ret, struct text *why)
{
	struct text base = TEXT_INIT, list = TEXT_INIT, url = TEXT_INIT, source = TEXT_INIT;
	struct secret headers = SECRET_INIT;
	struct creds_ask ask = { .near = true, .method = "GET", .what = "instance metadata" };
	int err = secret_init(&headers, 8192);

	instance_base(c, &base);
	text_fmt(&list, "%s/latest/meta-data/iam/security-credentials/", text_str(&base));
	if (!err)
		err = text_error(&base);
	if (!err)
		err = text_error(&list);
	if (!err)
		err = instance_token(c, text_str(&base), &headers, why);
	if (!err)
		err = instance_role(c, text_str(&list), &headers, &url, why);
	if (!err) {
		text_add(&source, "instance role ");
		creds_add_name(&source, text_str(&url) + list.n);
		ask.url = text_str(&url);
		ask.headers = headers.s;
		err = creds_http_json(c, &ask, text_str(&source), ret, why);
	}
	secret_done(&headers);
	text_done(&source);
	text_done(&url);
	text_done(&list);
	text_done(&base);
	return err;
}
