/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Security Token Service: a role, for who signs the request (AssumeRole) or shows a token
 * (AssumeRoleWithWebIdentity). Of its errors the code is told, never the message: for a signature that
 * does not match it quotes what we signed, token and all.
 *
 * Source: AWS Security Token Service API Reference, version 2011-06-15.
 */
#include "store/creds_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/scoped.h"
#include "store/s3_sign.h"
#include <expat.h>
#include <openssl/crypto.h>
#include <string.h>

#define BODY_MAX  (64u << 10)
#define REPLY_MAX (64u << 10)
#define DEPTH_MAX 16u
#define FORM	  "application/x-www-form-urlencoded; charset=utf-8"

/* ---- replies ---- */

struct sts_reply {
	char     id[260], secret[1028], token[(16 << 10) + 4], until[64], code[128];
	bool     found;			/* <Credentials> */
	bool     bad;			/* a field too long, a DOCTYPE, too deep */
	unsigned depth;
	const char *parents[DEPTH_MAX];	/* static names, or "" */
	char    *field;			/* being filled */
	size_t   n, max;
	XML_Parser parser;
};

static void sts_doctype(void *arg, const XML_Char *name, const XML_Char *sys, const XML_Char *pub,
			int internal)
{
	struct sts_reply *s = arg;

	(void)name, (void)sys, (void)pub, (void)internal;
	s->bad = true;
	XML_StopParser(s->parser, XML_FALSE);
}

static const char *sts_parent(const char *name)
{
	static const char *const known[] = { "Credentials", "Error" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcmp(known[i], name))
			return known[i];
	return "";
}

static void sts_start(void *arg, const XML_Char *name, const XML_Char **attrs)
{
	struct sts_reply *s = arg;
	const struct {
		const char *parent, *name;
		char  *to;
		size_t size;
	} fields[] = {
		{ "Credentials", "AccessKeyId", s->id, sizeof(s->id) },
		{ "Credentials", "SecretAccessKey", s->secret, sizeof(s->secret) },
		{ "Credentials", "SessionToken", s->token, sizeof(s->token) },
		{ "Credentials", "Expiration", s->until, sizeof(s->until) },
		{ "Error", "Code", s->code, sizeof(s->code) },
	};

	(void)attrs;
	if (s->depth == DEPTH_MAX) {
		s->bad = true;
		XML_StopParser(s->parser, XML_FALSE);
		return;
	}
	s->field = NULL;
	for (size_t i = 0; s->depth && i < ARRAY_SIZE(fields); i++) {
		if (strcmp(s->parents[s->depth - 1], fields[i].parent) ||
		    strcmp(name, fields[i].name))
			continue;
		s->field = fields[i].to;
		s->max = fields[i].size - 1;
		s->n = 0;
		s->field[0] = 0;
	}
	s->parents[s->depth++] = sts_parent(name);
	s->found = s->found || !strcmp(name, "Credentials");
}

static void sts_end(void *arg, const XML_Char *name)
{
	struct sts_reply *s = arg;

	(void)name;
	s->depth--;
	s->field = NULL;
}

static void sts_text(void *arg, const XML_Char *p, int n)
{
	struct sts_reply *s = arg;

	if (!s->field)
		return;
	if ((size_t)n > s->max - s->n) {
		s->bad = true;
		XML_StopParser(s->parser, XML_FALSE);
		return;
	}
	memcpy(s->field + s->n, p, (size_t)n);
	s->n += (size_t)n;
	s->field[s->n] = 0;
}

/* `s` is zeroed. -EPROTO */
static int sts_read(struct sts_reply *s, const char *xml, size_t n)
{
	bool whole;

	s->parser = XML_ParserCreate(NULL);
	if (!s->parser)
		return -ENOMEM;
	XML_SetUserData(s->parser, s);
	XML_SetElementHandler(s->parser, sts_start, sts_end);
	XML_SetCharacterDataHandler(s->parser, sts_text);
	XML_SetStartDoctypeDeclHandler(s->parser, sts_doctype);
	whole = n <= REPLY_MAX && XML_Parse(s->parser, xml, (int)n, 1) == XML_STATUS_OK;
	XML_ParserFree(s->parser);
	return whole && !s->bad ? 0 : -EPROTO;
}

int creds_sts_parse(const char *xml, size_t n, const char *source, struct creds_aws **ret,
		    struct text *why)
{
	struct secret room = SECRET_INIT;
	struct creds_parts p = { .until = INT64_MAX };
	struct sts_reply *s;
	int err = secret_init(&room, sizeof(*s));

	if (err)
		return err;
	room.n = sizeof(*s);
	s = (struct sts_reply *)(void *)room.s;
	err = sts_read(s, xml, n);
	if (!err && (!s->found || !s->id[0] || !s->secret[0]))
		err = -EPROTO;
	if (!err && (!s->until[0] || creds_time_parse(s->until, &p.until)))
		err = -EPROTO;
	if (err == -EPROTO)
		text_add(why, "STS: what came is no <Credentials> with key, secret and expiration");
	if (!err) {
		p.id = s->id;
		p.secret = s->secret;
		p.token = s->token[0] ? s->token : NULL;
		err = creds_value_new(ret, &p, source, why);
	}
	secret_done(&room);
	return err;
}

void creds_sts_error(const char *xml, size_t n, struct text *out)
{
	struct secret room = SECRET_INIT;
	struct sts_reply *s;

	if (secret_init(&room, sizeof(*s)))
		return;
	room.n = sizeof(*s);
	s = (struct sts_reply *)(void *)room.s;
	if (!sts_read(s, xml, n) && s->code[0]) {
		text_add(out, " ");
		creds_add_name(out, s->code);
	}
	secret_done(&room);
}

/* ---- requests ---- */

static int form_add(struct secret *b, const char *name, const char *value)
{
	int err = 0;

	if (!value)
		return 0;
	if (b->n)
		err = secret_add(b, "&");
	err = err ? err : secret_add(b, name);
	err = err ? err : secret_add(b, "=");
	return err ? err : secret_encode(b, value);
}

static int form_token(struct secret *b, const char *path, struct text *why)
{
	struct creds_file f = { 0 };
	int err = creds_file_read(&f, path, why);

	if (!err) {
		while (f.text.n && strchr(" \t\r\n", f.text.s[f.text.n - 1]))
			f.text.s[--f.text.n] = 0;
		if (!f.text.n) {
			text_fmt(why, "%s: is empty", path);
			err = -EINVAL;
		}
	}
	if (!err)
		err = form_add(b, "WebIdentityToken", f.text.s);
	if (err == -EMSGSIZE)
		text_fmt(why, "%s: too long for a token", path);
	creds_file_done(&f);
	return err;
}

static int role_form(const struct creds_role *role, struct secret *b, struct text *why)
{
	const char *session = role->session ? role->session : "tessera";
	uint64_t seconds;
	char *end;
	int err;

	if (role->duration) {
		errno = 0;
		seconds = strtoul(role->duration, &end, 10);
		if (*end || errno || seconds < 900 || seconds > 43200) {
			text_add(why, "duration_seconds is 900 to 43200");
			return -EINVAL;
		}
	}
	err = form_add(b, "Action", role->token_file ? "AssumeRoleWithWebIdentity" : "AssumeRole");
	err = err ? err : form_add(b, "Version", "2011-06-15");
	err = err ? err : form_add(b, "RoleArn", role->arn);
	err = err ? err : form_add(b, "RoleSessionName", session);
	err = err ? err : form_add(b, "DurationSeconds", role->duration);
	if (!err && role->token_file)
		return form_token(b, role->token_file, why);
	return err ? err : form_add(b, "ExternalId", role->external_id);
}

struct sts_request {
	struct http_url end;
	struct text     url, host, path;
	char            region[64];
};

static int sts_endpoint(const struct creds_role *role, struct sts_request *q, struct text *why)
{
	const char *region = role->region ? role->region : "us-east-1";

	/* It becomes part of a host's name. */
	if (strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(region) ||
	    strlen(region) >= sizeof(q->region)) {
		text_add(why, "the region ");
		creds_add_name(why, region);
		text_add(why, " is no region's name: a-z, 0-9 and -");
		return -EINVAL;
	}
	(void)snprintf(q->region, sizeof(q->region), "%s", region);
	if (role->endpoint)
		text_add(&q->url, role->endpoint);
	else
		text_fmt(&q->url, "https://sts.%s.amazonaws.com%s", region,
			 strncmp(region, "cn-", 3) ? "" : ".cn");
	if (http_url_parse(text_str(&q->url), &q->end)) {
		text_add(why, "the endpoint of STS is not http[s]://HOST[:PORT][/PATH]");
		return -EINVAL;
	}
	text_add(&q->host, q->end.host);
	if (q->end.port && q->end.port != (q->end.tls ? 443u : 80u))
		text_fmt(&q->host, ":%u", q->end.port);
	text_fmt(&q->path, "%s/", q->end.path);
	text_clear(&q->url);
	text_fmt(&q->url, "%s://%s%s", q->end.tls ? "https" : "http", text_str(&q->host),
		 text_str(&q->path));
	return text_error(&q->url) || text_error(&q->host) || text_error(&q->path) ? -ENOMEM : 0;
}

/* The headers of a request that `by` signs; appended to `out`. */
static int sts_sign(const struct sts_request *q, const struct creds_aws *by, struct secret *body,
		    struct secret *out)
{
	struct iovec iov = { .iov_base = body->s, .iov_len = body->n };
	const struct tess_iov whole = { .iov = &iov, .n = 1, .len = body->n };
	char date[17], hash[S3_HEX_LEN + 1];
	struct text auth = TEXT_INIT;
	struct s3_pair headers[4] = {
		{ "content-type", FORM },
		{ "host", text_str(&q->host) },
		{ "x-amz-date", date },
		{ "x-amz-security-token", by->token },
	};
	struct s3_request rq = {
		.method = "POST",
		.path = text_str(&q->path),
		.headers = headers,
		.nheaders = by->token ? 4 : 3,
		.payload = hash,
	};
	struct s3_signkey key;
	int err;

	s3_date(clock_wall(), date);
	err = s3_sha256_hex(&whole, hash);
	err = err ? err : s3_signkey_derive(&key, by->secret, date, q->region, "sts");
	if (!err)
		err = s3_authorization(&auth, &rq, by->id, date, &key);
	OPENSSL_cleanse(&key, sizeof(key));
	err = err ? err : secret_add(out, "x-amz-date: ");
	err = err ? err : secret_add(out, date);
	err = err ? err : secret_add(out, "\nAuthorization: ");
	err = err ? err : secret_add(out, text_str(&auth));
	if (!err && by->token) {
		err = secret_add(out, "\nx-amz-security-token: ");
		err = err ? err : secret_add(out, by->token);
	}
	text_done(&auth);
	return err ? err : secret_add(out, "\n");
}

static int sts_send(struct creds *c, const struct creds_role *role, const struct creds_ask *ask,
		    struct creds_aws **ret, struct text *why)
{
	int r = creds_http_ask(c, ask, why);

	if (r == 200)
		return creds_sts_parse(ask->into->s, ask->into->n, role->source, ret, why);
	if (r < 0)
		return r;
	text_fmt(why, "STS refuses %s: status %d", role->source, r);
	creds_sts_error(text_str(ask->error), ask->error->n, why);
	/* STS says 400 to what it does not believe. */
	r = r == 400 ? -EACCES : http_status_err((unsigned)r);
	return r ? r : -EPROTO;
}

int creds_role_fetch(struct creds *c, const struct creds_role *role, struct creds_aws **ret,
		     struct text *why)
{
	struct secret body = SECRET_INIT, headers = SECRET_INIT, in = SECRET_INIT;
	struct text error = TEXT_INIT;
	struct sts_request q = { 0 };
	struct creds_ask ask = {
		.method = "POST", .body = &body, .into = &in, .error = &error, .what = "STS",
	};
	int err = sts_endpoint(role, &q, why);

	err = err ? err : secret_init(&body, BODY_MAX);
	err = err ? err : secret_init(&headers, BODY_MAX);
	err = err ? err : secret_init(&in, REPLY_MAX);
	err = err ? err : role_form(role, &body, why);
	err = err ? err : secret_add(&headers, "Content-Type: " FORM "\n");
	if (!err && role->by && role->by->id)
		err = sts_sign(&q, role->by, &body, &headers);
	if (!err) {
		ask.url = text_str(&q.url);
		ask.headers = headers.s;
		err = sts_send(c, role, &ask, ret, why);
	}
	text_done(&error);
	secret_done(&in);
	secret_done(&headers);
	secret_done(&body);
	text_done(&q.url);
	text_done(&q.host);
	text_done(&q.path);
	return err;
}
