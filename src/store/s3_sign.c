/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3_sign.h"

#include "base/clock.h"
#include "store/http.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ALGORITHM "AWS4-HMAC-SHA256"

void s3_hex(char *ret, const unsigned char *p, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		*ret++ = digits[p[i] >> 4];
		*ret++ = digits[p[i] & 15];
	}
	*ret = 0;
}

void s3_base64(char *ret, const unsigned char *p, size_t n)
{
	(void)EVP_EncodeBlock((unsigned char *)ret, p, (int)n);
}

void s3_date(int64_t wall, char ret[17])
{
	time_t t = (time_t)(wall / NS_PER_S);
	struct tm tm;

	if (!gmtime_r(&t, &tm) || strftime(ret, 17, "%Y%m%dT%H%M%SZ", &tm) == 0)
		(void)snprintf(ret, 17, "19700101T000000Z");
}

static int hmac(unsigned char ret[32], const void *key, size_t nkey, const char *s)
{
	unsigned n = 0;

	if (!HMAC(EVP_sha256(), key, (int)nkey, (const unsigned char *)s, strlen(s), ret, &n) ||
	    n != 32)
		return -EIO;
	return 0;
}

int s3_signkey_derive(struct s3_signkey *ret, const char *secret, const char *date,
		      const char *region, const char *service)
{
	char first[256];
	const char *steps[3];
	size_t n = strlen(secret) + 4;
	int r;

	if (strlen(region) >= sizeof(ret->region) || strlen(service) >= sizeof(ret->service) ||
	    n >= sizeof(first))
		return -ENAMETOOLONG;
	(void)snprintf(ret->day, sizeof(ret->day), "%.8s", date);
	(void)snprintf(ret->region, sizeof(ret->region), "%s", region);
	(void)snprintf(ret->service, sizeof(ret->service), "%s", service);
	(void)snprintf(first, sizeof(first), "AWS4%s", secret);
	r = hmac(ret->key, first, n, ret->day);
	OPENSSL_cleanse(first, sizeof(first));
	steps[0] = region;
	steps[1] = service;
	steps[2] = "aws4_request";
	for (unsigned i = 0; i < 3 && r == 0; i++) {
		unsigned char next[32];

		r = hmac(next, ret->key, sizeof(ret->key), steps[i]);
		memcpy(ret->key, next, sizeof(next));
		OPENSSL_cleanse(next, sizeof(next));
	}
	return r;
}

/* ---- canonical forms ---- */

static int pair_cmp(const struct s3_pair *a, const struct s3_pair *b, bool values)
{
	int c = strcmp(a->name, b->name);

	return c || !values ? c : strcmp(a->value, b->value);
}

/* Stable: headers of one name keep their order, which is part of their meaning. */
static void pairs_sort(struct s3_pair *p, unsigned n, bool values)
{
	for (unsigned i = 1; i < n; i++) {
		struct s3_pair x = p[i];
		unsigned j = i;

		for (; j > 0 && pair_cmp(&p[j - 1], &x, values) > 0; j--)
			p[j] = p[j - 1];
		p[j] = x;
	}
}

/* Encoded strings, one after the other, each with its NUL: offsets, because `t` moves while it grows. */
static size_t keep_encoded(struct text *t, const char *s)
{
	size_t at = t->n;

	http_encode(t, s, false);
	text_addn(t, "", 1);
	return at;
}

int s3_query(struct text *out, const struct s3_pair *pairs, unsigned n)
{
	struct s3_pair sorted[S3_PAIRS_MAX];
	size_t at[S3_PAIRS_MAX][2];
	struct text t = TEXT_INIT;
	int r;

	if (n > S3_PAIRS_MAX)
		return -E2BIG;
	for (unsigned i = 0; i < n; i++) {
		at[i][0] = keep_encoded(&t, pairs[i].name);
		at[i][1] = keep_encoded(&t, pairs[i].value);
	}
	r = text_error(&t);
	for (unsigned i = 0; i < n && r == 0; i++)
		sorted[i] = (struct s3_pair){ t.s + at[i][0], t.s + at[i][1] };
	if (r == 0) {
		pairs_sort(sorted, n, true);
		for (unsigned i = 0; i < n; i++)
			text_fmt(out, "%s%s=%s", i ? "&" : "", sorted[i].name, sorted[i].value);
		r = text_error(out);
	}
	text_done(&t);
	return r;
}

static void add_lower(struct text *t, const char *s)
{
	for (; *s; s++) {
		char c = (char)tolower((unsigned char)*s);

		text_addn(t, &c, 1);
	}
}

/* Without white space at the ends, and with one blank for each run of it. */
static void add_trimmed(struct text *t, const char *s)
{
	bool any = false;

	while (*s) {
		size_t n = strcspn(s, " \t\r\n");

		if (n > 0) {
			if (any)
				text_add(t, " ");
			text_addn(t, s, n);
			any = true;
		}
		s += n;
		s += strspn(s, " \t\r\n");
	}
}

/* Sorted, with names in lower case, which `names` holds. */
static int headers_sorted(const struct s3_request *rq, struct s3_pair *ret, struct text *names)
{
	size_t at[S3_PAIRS_MAX];

	if (rq->nheaders > S3_PAIRS_MAX || rq->nquery > S3_PAIRS_MAX)
		return -E2BIG;
	for (unsigned i = 0; i < rq->nheaders; i++) {
		at[i] = names->n;
		add_lower(names, rq->headers[i].name);
		text_addn(names, "", 1);
	}
	if (text_error(names) < 0)
		return -ENOMEM;
	for (unsigned i = 0; i < rq->nheaders; i++)
		ret[i] = (struct s3_pair){ names->s + at[i], rq->headers[i].value };
	pairs_sort(ret, rq->nheaders, false);
	return 0;
}

static void add_signed_names(struct text *out, const struct s3_pair *h, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (i > 0 && strcmp(h[i].name, h[i - 1].name) == 0)
			continue;
		text_fmt(out, "%s%s", i ? ";" : "", h[i].name);
	}
}

static int canonical_sorted(struct text *out, const struct s3_request *rq, const struct s3_pair *h)
{
	int r;

	text_fmt(out, "%s\n%s\n", rq->method, rq->path);
	r = s3_query(out, rq->query, rq->nquery);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < rq->nheaders; i++) {
		if (i > 0 && strcmp(h[i].name, h[i - 1].name) == 0)
			text_add(out, ",");
		else
			text_fmt(out, "\n%s:", h[i].name);
		add_trimmed(out, h[i].value);
	}
	text_add(out, "\n\n");
	add_signed_names(out, h, rq->nheaders);
	text_fmt(out, "\n%s", rq->payload);
	return text_error(out);
}

int s3_canonical(struct text *out, const struct s3_request *rq)
{
	struct s3_pair h[S3_PAIRS_MAX];
	struct text names = TEXT_INIT;
	int r = headers_sorted(rq, h, &names);

	if (r == 0)
		r = canonical_sorted(out, rq, h);
	text_done(&names);
	return r;
}

static int sha256_flat(const char *s, char ret[S3_HEX_LEN + 1])
{
	struct iovec v = { .iov_base = (void *)(uintptr_t)s, .iov_len = strlen(s) };
	struct tess_iov iov = { .iov = &v, .n = 1, .len = v.iov_len };

	return s3_sha256_hex(&iov, ret);
}

int s3_string_to_sign(struct text *out, const char *canonical, const char *date,
		      const struct s3_signkey *key)
{
	char hash[S3_HEX_LEN + 1];
	int r = sha256_flat(canonical, hash);

	if (r < 0)
		return r;
	text_fmt(out, ALGORITHM "\n%s\n%s/%s/%s/aws4_request\n%s", date, key->day, key->region,
		 key->service, hash);
	return text_error(out);
}

static int signature(const struct s3_request *rq, const struct s3_pair *h, const char *date,
		     const struct s3_signkey *key, char ret[S3_HEX_LEN + 1])
{
	struct text canonical = TEXT_INIT, string = TEXT_INIT;
	unsigned char mac[32];
	int r = canonical_sorted(&canonical, rq, h);

	if (r == 0)
		r = s3_string_to_sign(&string, text_str(&canonical), date, key);
	if (r == 0)
		r = hmac(mac, key->key, sizeof(key->key), text_str(&string));
	if (r == 0)
		s3_hex(ret, mac, sizeof(mac));
	/* The canonical request holds the session token. */
	if (canonical.s)
		OPENSSL_cleanse(canonical.s, canonical.cap);
	text_done(&canonical);
	text_done(&string);
	return r;
}

int s3_authorization(struct text *out, const struct s3_request *rq, const char *id,
		     const char *date, const struct s3_signkey *key)
{
	struct s3_pair h[S3_PAIRS_MAX];
	struct text names = TEXT_INIT;
	char hex[S3_HEX_LEN + 1];
	int r = headers_sorted(rq, h, &names);

	if (r == 0)
		r = signature(rq, h, date, key, hex);
	if (r == 0) {
		text_fmt(out, ALGORITHM " Credential=%s/%s/%s/%s/aws4_request,SignedHeaders=", id,
			 key->day, key->region, key->service);
		add_signed_names(out, h, rq->nheaders);
		text_fmt(out, ",Signature=%s", hex);
		r = text_error(out);
	}
	text_done(&names);
	return r;
}

/* ---- of bodies ---- */

static int digest_iov(const EVP_MD *md, const struct tess_iov *body, unsigned char *ret)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = ctx && EVP_DigestInit_ex(ctx, md, NULL);

	for (unsigned i = 0; i < body->n && ok; i++)
		ok = EVP_DigestUpdate(ctx, body->iov[i].iov_base, body->iov[i].iov_len);
	ok = ok && EVP_DigestFinal_ex(ctx, ret, NULL);
	EVP_MD_CTX_free(ctx);
	return ok ? 0 : -EIO;
}

int s3_sha256_hex(const struct tess_iov *body, char ret[S3_HEX_LEN + 1])
{
	unsigned char hash[32];
	int r = digest_iov(EVP_sha256(), body, hash);

	if (r == 0)
		s3_hex(ret, hash, sizeof(hash));
	return r;
}

int s3_md5(const struct tess_iov *body, unsigned char ret[16])
{
	return digest_iov(EVP_md5(), body, ret);
}
