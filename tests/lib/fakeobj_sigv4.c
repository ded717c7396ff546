/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks AWS Signature Version 4 of a request, from the rules in the "Amazon S3 API Reference",
 * "Authenticating Requests: Using the Authorization Header", and with nothing of the product.
 */
#include "fakeobj_int.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SKEW_MAX 900

struct auth {
	char *id, *date, *region, *service;	/* of Credential */
	char *headers, *signature;
	char  copy[2048];
};

static void hex_of(const unsigned char *p, size_t n, char *ret)
{
	for (size_t i = 0; i < n; i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", p[i]);
}

static void sha256_hex(const void *p, size_t n, char ret[65])
{
	unsigned char md[32];

	(void)EVP_Digest(p, n, md, NULL, EVP_sha256(), NULL);
	hex_of(md, 32, ret);
}

static void hmac(const void *key, size_t n, const char *text, unsigned char ret[32])
{
	unsigned len = 32;

	(void)HMAC(EVP_sha256(), key, (int)n, (const unsigned char *)text, strlen(text), ret, &len);
}

static bool parse(const char *text, struct auth *a)
{
	char *rest = a->copy, *one, *end;

	memset(a, 0, sizeof(*a));
	if (strncmp(text, "AWS4-HMAC-SHA256 ", 17) != 0 || strlen(text) >= sizeof(a->copy))
		return false;
	(void)snprintf(a->copy, sizeof(a->copy), "%s", text + 17);
	while ((one = strsep(&rest, ",")) != NULL) {
		one += strspn(one, " ");
		if (strncmp(one, "Credential=", 11) == 0) {
			one += 11;
			a->id = strsep(&one, "/");
			a->date = strsep(&one, "/");
			a->region = strsep(&one, "/");
			a->service = strsep(&one, "/");
			end = one;
			if (!end || strcmp(end, "aws4_request") != 0)
				return false;
		} else if (strncmp(one, "SignedHeaders=", 14) == 0) {
			a->headers = one + 14;
		} else if (strncmp(one, "Signature=", 10) == 0) {
			a->signature = one + 10;
		}
	}
	return a->id && a->service && a->headers && a->signature;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Decoded and encoded again, in order. */
static void canonical_query(const struct request *q, FILE *o)
{
	char *pair[QUERIES_MAX];
	unsigned n = 0;

	for (; n < q->nquery; n++) {
		size_t len;
		FILE *p = open_memstream(&pair[n], &len);

		if (!p)
			abort();
		fake_http_encode_to(p, q->query[n].name, false);
		fputc('=', p);
		fake_http_encode_to(p, q->query[n].value, false);
		(void)fclose(p);
	}
	qsort(pair, n, sizeof(pair[0]), by_text);
	for (unsigned i = 0; i < n; i++) {
		fprintf(o, "%s%s", i ? "&" : "", pair[i]);
		free(pair[i]);
	}
}

static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; at && *at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL) {
		if (strncasecmp(at, name, n) == 0 && (at[n] == ';' || at[n] == 0))
			return true;
	}
	return false;
}

/* Runs of blanks are one. */
static void canonical_value(FILE *o, const char *s)
{
	for (; *s; s++) {
		if (*s != ' ' || s[1] != ' ')
			fputc(*s, o);
	}
}

static bool canonical_headers(const struct request *q, const struct auth *a, FILE *o)
{
	const char *last = "";
	char list[2048], *rest = list, *name;

	(void)snprintf(list, sizeof(list), "%s", a->headers);
	while ((name = strsep(&rest, ";")) != NULL) {
		const char *value = fake_http_field(q, name);

		if (!value || strcmp(last, name) >= 0)
			return false;
		last = name;
		fprintf(o, "%s:", name);
		canonical_value(o, value);
		fputc('\n', o);
	}
	/* What decides on rights must be signed. */
	if (!listed(a->headers, "host"))
		return false;
	for (unsigned i = 0; i < q->nfield; i++) {
		if (strncasecmp(q->field[i].name, "x-amz-", 6) == 0 &&
		    !listed(a->headers, q->field[i].name))
			return false;
	}
	return true;
}

static char *canonical(const struct request *q, const struct auth *a, const char *payload)
{
	char *p = NULL;
	size_t n = 0;
	FILE *o = open_memstream(&p, &n);
	bool good;

	if (!o)
		abort();
	fprintf(o, "%s\n", q->method);
	fake_http_encode_to(o, q->path, true);
	fputc('\n', o);
	canonical_query(q, o);
	fputc('\n', o);
	good = canonical_headers(q, a, o);
	fprintf(o, "\n%s\n%s", a->headers, payload);
	(void)fclose(o);
	if (!good) {
		free(p);
		return NULL;
	}
	return p;
}

static bool signature_fits(const struct request *q, const struct auth *a, const char *secret,
			   const char *stamp, const char *payload)
{
	unsigned char key[32];
	char hash[65], hex[65], first[80], *text = canonical(q, a, payload), *to_sign = NULL;

	if (!text)
		return false;
	sha256_hex(text, strlen(text), hash);
	free(text);
	if (asprintf(&to_sign, "AWS4-HMAC-SHA256\n%s\n%s/%s/%s/aws4_request\n%s", stamp, a->date,
		     a->region, a->service, hash) < 0)
		abort();
	(void)snprintf(first, sizeof(first), "AWS4%s", secret);
	hmac(first, strlen(first), a->date, key);
	hmac(key, 32, a->region, key);
	hmac(key, 32, a->service, key);
	hmac(key, 32, "aws4_request", key);
	hmac(key, 32, to_sign, key);
	free(to_sign);
	hex_of(key, 32, hex);
	return strlen(a->signature) == 64 && CRYPTO_memcmp(hex, a->signature, 64) == 0;
}

static bool stamp_time(const char *s, time_t *ret)
{
	struct tm tm;
	const char *end;

	memset(&tm, 0, sizeof(tm));
	end = s ? strptime(s, "%Y%m%dT%H%M%SZ", &tm) : NULL;
	if (!end || *end)
		return false;
	*ret = timegm(&tm);
	return true;
}

/* The payload as it was signed; NULL: the body is another. */
static const char *payload_of(const struct request *q, bool s3, char hash[65])
{
	const char *said = fake_http_field(q, "x-amz-content-sha256");

	sha256_hex(q->body, q->body_len, hash);
	if (!said)
		return s3 ? NULL : hash;
	if (strcmp(said, "UNSIGNED-PAYLOAD") == 0)
		return said;
	return strcmp(said, hash) == 0 ? said : NULL;
}

static const char *identity(const struct request *q, const struct auth *a, struct grant *g)
{
	const char *token = fake_http_field(q, "x-amz-security-token");
	int r = fake_creds_find(q->f, a->id, NULL, g);

	if (r < 0)
		return "InvalidAccessKeyId";
	if (strcmp(token ? token : "", g->token) != 0)
		return "InvalidToken";
	return r == 0 ? "ExpiredToken" : NULL;
}

const char *fake_sigv4_check(const struct request *q, const char *service, unsigned *ret_status)
{
	const char *text = fake_http_field(q, "Authorization"), *stamp = fake_http_field(q, "x-amz-date");
	const char *payload, *bad;
	struct grant g;
	struct auth a;
	char hash[65];
	time_t t;

	*ret_status = 403;
	if (!text)
		return q->f->conf.anonymous ? NULL : "AccessDenied";
	*ret_status = 400;
	if (!parse(text, &a) || strcmp(a.service, service) != 0)
		return "AuthorizationHeaderMalformed";
	if (q->f->region[0] && strcmp(a.region, q->f->region) != 0)
		return "AuthorizationHeaderMalformed";
	payload = payload_of(q, strcmp(service, "s3") == 0, hash);
	if (!payload)
		return "XAmzContentSHA256Mismatch";
	*ret_status = 403;
	bad = identity(q, &a, &g);
	if (bad) {
		/* As S3 does: these two are bad requests. */
		*ret_status = strcmp(bad, "InvalidAccessKeyId") == 0 ? 403 : 400;
		return bad;
	}
	if (!stamp_time(stamp, &t) || strncmp(stamp, a.date, 8) != 0)
		return "AccessDenied";
	if (llabs((long long)(t - fake_now(q->f))) > SKEW_MAX)
		return "RequestTimeTooSkewed";
	return signature_fits(q, &a, g.secret, stamp, payload) ? NULL : "SignatureDoesNotMatch";
}
