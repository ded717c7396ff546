/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets in memory, and the two encodings in which they come: JSON and ISO 8601. */
#include "store/creds_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <ctype.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE	   4096u
#define ID_MAX	   256u
#define SECRET_MAX 1024u
#define TOKEN_MAX  (16u << 10)

static void *pages_secret(size_t n)
{
	void *p;

	if (fault_point("alloc"))
		return NULL;
	p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	(void)madvise(p, n, MADV_DONTDUMP);
	return p;
}

static void pages_wipe(void *p, size_t n)
{
	OPENSSL_cleanse(p, n);
	(void)munmap(p, n);
}

static size_t pages_round(size_t n)
{
	return (n + PAGE - 1) / PAGE * PAGE;
}

int secret_init(struct secret *b, size_t cap)
{
	size_t n = pages_round(cap + 1);

	b->s = pages_secret(n);
	if (!b->s)
		return -ENOMEM;
	b->n = 0;
	b->cap = n - 1;
	return 0;
}

/* Only what was written is wiped: the rest was never touched, and a large buffer stays cheap. */
void secret_done(struct secret *b)
{
	if (!b->s)
		return;
	OPENSSL_cleanse(b->s, b->n);
	(void)munmap(b->s, b->cap + 1);
	*b = (struct secret)SECRET_INIT;
}

int secret_addn(struct secret *b, const char *s, size_t n)
{
	if (n > b->cap - b->n)
		return -EMSGSIZE;
	memcpy(b->s + b->n, s, n);
	b->n += n;
	b->s[b->n] = 0;
	return 0;
}

int secret_add(struct secret *b, const char *s)
{
	return secret_addn(b, s, strlen(s));
}

int secret_encode(struct secret *b, const char *s)
{
	static const char hex[] = "0123456789ABCDEF";
	int err = 0;

	for (; *s && !err; s++) {
		unsigned char c = (unsigned char)*s;
		char code[3] = { '%', hex[c >> 4], hex[c & 15] };

		if ((c < 0x80 && isalnum(c)) || strchr("-._~", c))
			err = secret_addn(b, s, 1);
		else
			err = secret_addn(b, code, 3);
	}
	return err;
}

/* The value, its strings after it, all in one mapping. */
struct creds_box {
	struct creds_aws aws;
	size_t           size;
	char             strings[];
};

static void creds_value_free(struct renewed *r)
{
	struct creds_box *b = container_of(r, struct creds_box, aws.r);

	pages_wipe(b, b->size);
}

static int part_check(const char *s, size_t max, const char *name, struct text *why)
{
	size_t n = strlen(s);

	if (!n || n > max) {
		text_fmt(why, "%s has %zu characters, not 1 to %zu", name, n, max);
		return -EINVAL;
	}
	for (; *s; s++) {
		if (*s <= ' ' || *s > '~') {
			text_fmt(why, "%s holds a character that no key has", name);
			return -EINVAL;
		}
	}
	return 0;
}

static const char *box_add(char **at, const char *s)
{
	const char *ret = *at;
	size_t n = s ? strlen(s) + 1 : 0;

	if (!s)
		return NULL;
	memcpy(*at, s, n);
	*at += n;
	return ret;
}

int creds_value_new(struct creds_aws **ret, const struct creds_parts *p, const char *source,
		    struct text *why)
{
	size_t n = sizeof(struct creds_box) + strlen(source) + 1;
	struct creds_box *b;
	char *at;
	int err = 0;

	if (p->id) {
		err = part_check(p->id, ID_MAX, "the access key id", why);
		if (!err)
			err = part_check(p->secret, SECRET_MAX, "the secret access key", why);
		if (!err && p->token)
			err = part_check(p->token, TOKEN_MAX, "the session token", why);
		if (err)
			return err;
		n += strlen(p->id) + strlen(p->secret) + (p->token ? strlen(p->token) : 0) + 3;
	}
	n = pages_round(n);
	b = pages_secret(n);
	if (!b)
		return -ENOMEM;
	at = b->strings;
	b->size = n;
	atomic_init(&b->aws.r.refs, 1);
	b->aws.r.until = p->until;
	b->aws.r.free = creds_value_free;
	b->aws.id = box_add(&at, p->id);
	b->aws.secret = box_add(&at, p->id ? p->secret : NULL);
	b->aws.token = box_add(&at, p->id ? p->token : NULL);
	b->aws.source = box_add(&at, source);
	*ret = &b->aws;
	return 0;
}

/* Exactly n digits. */
static int digits(const char **s, unsigned n, int *ret)
{
	*ret = 0;
	for (; n; n--, (*s)++) {
		if (**s < '0' || **s > '9')
			return -EINVAL;
		*ret = *ret * 10 + (**s - '0');
	}
	return 0;
}

static int offset_parse(const char *s, int *ret_seconds)
{
	int hours = 0, minutes = 0, sign = *s == '-' ? -1 : 1;

	*ret_seconds = 0;
	if (!strcmp(s, "Z") || !strcmp(s, "z"))
		return 0;
	if (*s != '+' && *s != '-')
		return -EINVAL;
	s++;
	if (digits(&s, 2, &hours))
		return -EINVAL;
	s += *s == ':';
	if (digits(&s, 2, &minutes) || *s || hours > 23 || minutes > 59)
		return -EINVAL;
	*ret_seconds = sign * (hours * 3600 + minutes * 60);
	return 0;
}

int creds_time_parse(const char *s, int64_t *ret)
{
	struct tm tm = { 0 };
	int off;

	if (digits(&s, 4, &tm.tm_year) || *s++ != '-' || digits(&s, 2, &tm.tm_mon) || *s++ != '-' ||
	    digits(&s, 2, &tm.tm_mday) || (*s != 'T' && *s != 't' && *s != ' '))
		return -EINVAL;
	s++;
	if (digits(&s, 2, &tm.tm_hour) || *s++ != ':' || digits(&s, 2, &tm.tm_min) || *s++ != ':' ||
	    digits(&s, 2, &tm.tm_sec))
		return -EINVAL;
	if (tm.tm_year < 1970 || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 ||
	    tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
		return -EINVAL;
	if (*s == '.' || *s == ',') {
		s++;
		if (*s < '0' || *s > '9')
			return -EINVAL;
		while (*s >= '0' && *s <= '9')
			s++;
	}
	if (offset_parse(s, &off))
		return -EINVAL;
	/* Beyond what fits into 64 bits of ns is as good as for ever. */
	if (tm.tm_year > 2200) {
		*ret = INT64_MAX;
		return 0;
	}
	tm.tm_year -= 1900;
	tm.tm_mon--;
	*ret = ((int64_t)timegm(&tm) - off) * NS_PER_S;
	return 0;
}

void creds_time_add(struct text *out, int64_t t)
{
	time_t s = t / NS_PER_S;
	char buf[32];
	struct tm tm;

	gmtime_r(&s, &tm);
	strftime(buf, sizeof(buf), "%Y-%m-%dT%H:%M:%SZ", &tm);
	text_add(out, buf);
}

void creds_add_name(struct text *out, const char *s)
{
	for (unsigned n = 0; *s && n < 200; s++, n++) {
		char c = *s >= ' ' && *s <= '~' ? *s : '?';

		text_addn(out, &c, 1);
	}
}

/* A string member, or NULL. jansson's own copy: wiped by json_wipe(). */
static const char *json_text(const json_t *o, const char *name)
{
	return json_string_value(json_object_get(o, name));
}

static void json_wipe(json_t *o)
{
	const char *key;
	json_t *v;

	if (!o)
		return;
	json_object_foreach(o, key, v) {
		if (json_is_string(v))
			OPENSSL_cleanse((char *)(uintptr_t)json_string_value(v),
					json_string_length(v));
	}
	json_decref(o);
}

static int json_check(enum creds_json kind, const json_t *o, struct text *why)
{
	const char *code = json_text(o, "Code");

	if (!json_is_object(o)) {
		text_add(why, "what came is no JSON object");
		return -EINVAL;
	}
	if (kind == CREDS_JSON_PROCESS &&
	    (!json_is_integer(json_object_get(o, "Version")) ||
	     json_integer_value(json_object_get(o, "Version")) != 1)) {
		text_add(why, "\"Version\": 1 is missing in what came");
		return -EINVAL;
	}
	if (kind == CREDS_JSON_SERVICE && code && strcmp(code, "Success")) {
		text_add(why, "the service says ");
		creds_add_name(why, code);
		return -EACCES;
	}
	if (!json_text(o, "AccessKeyId") || !json_text(o, "SecretAccessKey")) {
		text_add(why, "\"AccessKeyId\" or \"SecretAccessKey\" is missing in what came");
		return -EINVAL;
	}
	return 0;
}

/* Parse errors are told without jansson's text: it quotes what it could not read. */
int creds_json_parse(enum creds_json kind, struct secret *s, const char *source,
		     struct creds_aws **ret, struct text *why)
{
	json_t *o = json_loadb(s->s, s->n, JSON_REJECT_DUPLICATES, NULL);
	struct creds_parts p = { .until = INT64_MAX };
	const char *until;
	int err = json_check(kind, o, why);

	OPENSSL_cleanse(s->s, s->n);
	if (!err) {
		p.id = json_text(o, "AccessKeyId");
		p.secret = json_text(o, "SecretAccessKey");
		p.token = json_text(o, kind == CREDS_JSON_PROCESS ? "SessionToken" : "Token");
		until = json_text(o, "Expiration");
		if (until && creds_time_parse(until, &p.until)) {
			text_add(why, "\"Expiration\" is not a time such as 2026-01-31T12:00:00Z");
			err = -EINVAL;
		}
	}
	if (!err)
		err = creds_value_new(ret, &p, source, why);
	json_wipe(o);
	return err;
}
