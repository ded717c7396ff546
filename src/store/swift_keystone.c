/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to Keystone v3, and what it answers: text to text, no I/O. */
#include "base/err.h"
#include "base/scoped.h"
#include "store/http.h"
#include "store/swift_ident.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

static void add_string(struct text *t, const char *name, const char *value)
{
	text_json(t, name, strlen(name));
	text_add(t, ":");
	text_json(t, value, strlen(value));
}

/* "domain": by id, by name, else the one that every Keystone begins with. */
static void add_domain(struct text *t, const char *id, const char *name)
{
	text_add(t, "\"domain\":{");
	add_string(t, id || !name ? "id" : "name", id ? id : name ? name : "default");
	text_add(t, "}");
}

/* "user": {…, left open. */
static void add_user(const struct swift_ident *id, struct text *t)
{
	text_add(t, "\"user\":{");
	if (id->f[SWIFT_USER_ID]) {
		add_string(t, "id", id->f[SWIFT_USER_ID]);
	} else {
		add_string(t, "name", id->f[SWIFT_USER]);
		text_add(t, ",");
		add_domain(t, id->f[SWIFT_USER_DOMAIN_ID], id->f[SWIFT_USER_DOMAIN]);
	}
}

static void add_app(const struct swift_ident *id, struct text *t)
{
	text_add(t, "{\"methods\":[\"application_credential\"],\"application_credential\":{");
	if (id->f[SWIFT_APP_ID]) {
		add_string(t, "id", id->f[SWIFT_APP_ID]);
	} else {
		add_string(t, "name", id->f[SWIFT_APP_NAME]);
		text_add(t, ",");
		add_user(id, t);
		text_add(t, "}");
	}
	text_add(t, ",");
	add_string(t, "secret", id->f[SWIFT_APP_SECRET]);
	text_add(t, "}}");
}

static void add_scope(const struct swift_ident *id, struct text *t)
{
	if (!id->f[SWIFT_PROJECT_ID] && !id->f[SWIFT_PROJECT])
		return;
	text_add(t, ",\"scope\":{\"project\":{");
	if (id->f[SWIFT_PROJECT_ID]) {
		add_string(t, "id", id->f[SWIFT_PROJECT_ID]);
	} else {
		add_string(t, "name", id->f[SWIFT_PROJECT]);
		text_add(t, ",");
		add_domain(t, id->f[SWIFT_PROJECT_DOMAIN_ID], id->f[SWIFT_PROJECT_DOMAIN]);
	}
	text_add(t, "}}");
}

int swift_keystone_body(const struct swift_ident *id, struct text *ret)
{
	size_t room = 1024;

	/* A byte becomes six at most. */
	for (unsigned i = 0; i < SWIFT_NFIELDS; i++)
		room += id->f[i] ? strlen(id->f[i]) * 6 : 0;
	if (swift_secret_room(ret, room) < 0)
		return -ENOMEM;
	text_add(ret, "{\"auth\":{\"identity\":");
	if (id->f[SWIFT_APP_SECRET]) {
		add_app(id, ret);	/* scoped by itself; a scope besides is refused */
	} else if (id->f[SWIFT_PASSWORD] && (id->f[SWIFT_USER] || id->f[SWIFT_USER_ID])) {
		text_add(ret, "{\"methods\":[\"password\"],\"password\":{");
		add_user(id, ret);
		text_add(ret, ",");
		add_string(ret, "password", id->f[SWIFT_PASSWORD]);
		text_add(ret, "}}}");
		add_scope(id, ret);
	} else {
		text_add(ret, "{\"methods\":[\"token\"],\"token\":{");
		add_string(ret, "id", id->f[SWIFT_TOKEN]);
		text_add(ret, "}}");
		add_scope(id, ret);
	}
	text_add(ret, "}}");
	return text_error(ret);
}

int swift_keystone_url(const char *auth_url, struct text *ret)
{
	size_t n = strlen(auth_url);

	while (n > 0 && auth_url[n - 1] == '/')
		n--;
	if (n >= 5 && strncmp(auth_url + n - 5, "/v2.0", 5) == 0)
		return -EINVAL;
	text_addn(ret, auth_url, n);
	if (n < 3 || strncmp(auth_url + n - 3, "/v3", 3) != 0)
		text_add(ret, "/v3");
	text_add(ret, "/auth/tokens");
	return text_error(ret);
}

/* "2026-11-20T21:00:00.000000Z" in seconds, or -1. */
static int64_t time_parse(const json_t *j)
{
	struct tm tm = { 0 };

	if (!json_is_string(j) || !strptime(json_string_value(j), "%Y-%m-%dT%H:%M:%S", &tm))
		return -1;
	return timegm(&tm);
}

/*
 * Until its end as the server counts: our clock may be wrong. A token issued earlier and given
 * again has less left than this says; that one ends with a 401.
 */
static int64_t token_life(const json_t *token)
{
	int64_t issued = time_parse(json_object_get(token, "issued_at"));
	int64_t end = time_parse(json_object_get(token, "expires_at"));

	if (end < 0)
		return INT64_MAX;
	if (issued < 0)
		issued = time(NULL);
	if (end <= issued)
		return NS_PER_S;
	return end - issued > INT64_MAX / NS_PER_S / 2 ? INT64_MAX : (end - issued) * NS_PER_S;
}

static const char *string_of(const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));

	return s ? s : "";
}

static bool endpoint_region(const json_t *e, const char *region)
{
	return strcmp(string_of(e, "region"), region) == 0 ||
	       strcmp(string_of(e, "region_id"), region) == 0;
}

/* Of one service: counts and remembers those that fit; `others` gets what there is besides. */
static void endpoints_pick(const struct swift_ident *id, const json_t *list, const json_t **pick,
			   unsigned *fit, struct text *others)
{
	const char *interface = id->f[SWIFT_INTERFACE] ? id->f[SWIFT_INTERFACE] : "public";
	const char *region = id->f[SWIFT_REGION];
	const json_t *e;
	size_t i;

	json_array_foreach(list, i, e) {
		if (i < 32)
			text_fmt(others, "%s%.64s in %.64s", others->n ? ", " : "",
				 string_of(e, "interface"), string_of(e, "region"));
		if (strcmp(string_of(e, "interface"), interface) != 0 ||
		    (region && !endpoint_region(e, region)))
			continue;
		if (*pick && strcmp(string_of(*pick, "url"), string_of(e, "url")) == 0)
			continue;
		*pick = e;
		(*fit)++;
	}
}

static int endpoint_find(const struct swift_ident *id, const json_t *catalog, struct text *ret_url,
			 struct text *why)
{
	const char *region = id->f[SWIFT_REGION];
	struct text others = TEXT_INIT;
	const json_t *service, *pick = NULL;
	unsigned fit = 0;
	size_t i;
	int r = 0;

	json_array_foreach(catalog, i, service) {
		if (strcmp(string_of(service, "type"), "object-store") == 0)
			endpoints_pick(id, json_object_get(service, "endpoints"), &pick, &fit, &others);
	}
	if (!others.n) {
		text_add(why, json_array_size(catalog) ?
			 "the catalog has no object-store" :
			 "the token has no catalog: is a project named?");
		r = -EACCES;
	} else if (fit != 1) {
		text_fmt(why, "%s object-store endpoint %s%s%s; there are: %s",
			 fit ? "more than one" : "no",
			 id->f[SWIFT_INTERFACE] ? id->f[SWIFT_INTERFACE] : "public",
			 region ? " in region " : "", region ? region : "", text_str(&others));
		r = -EACCES;
	} else {
		text_add(ret_url, string_of(pick, "url"));
	}
	text_done(&others);
	return r;
}

int swift_keystone_reply(const struct swift_ident *id, const char *json, size_t n,
			 struct text *ret_url, int64_t *ret_life, struct text *why)
{
	json_error_t e;
	json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &e);
	json_t *token = json_object_get(root, "token");
	int r = 0;

	if (!json_is_object(token)) {
		text_add(why, "its reply is not that of Keystone v3");
		r = -EPROTO;
	} else if (id->f[SWIFT_STORAGE_URL]) {
		text_add(ret_url, id->f[SWIFT_STORAGE_URL]);
	} else {
		r = endpoint_find(id, json_object_get(token, "catalog"), ret_url, why);
	}
	if (r == 0)
		*ret_life = token_life(token);
	json_decref(root);
	return r;
}

/* A line of text as people read it: no HTML, no control characters, 200 bytes at most. */
static void says_plain(const char *s, size_t n, struct text *out)
{
	bool tag = false, gap = false;
	size_t start = out->n;

	for (size_t i = 0; i < n && out->n - start < 200; i++) {
		bool was = tag;

		tag = s[i] == '<' || (tag && s[i] != '>');
		if (tag || was || (unsigned char)s[i] <= ' ' || (unsigned char)s[i] >= 0x7f) {
			gap = out->n > start;
			continue;
		}
		if (gap)
			text_add(out, " ");
		gap = false;
		text_addn(out, &s[i], 1);
	}
}

void swift_reply_says(const char *body, size_t n, struct text *out)
{
	json_error_t e;
	json_t *root = n ? json_loadb(body, n, 0, &e) : NULL;
	const char *said = string_of(json_object_get(root, "error"), "message");

	says_plain(said[0] ? said : body, said[0] ? strlen(said) : n, out);
	json_decref(root);
}
