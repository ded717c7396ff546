/* SPDX-License-Identifier: Apache-2.0 */
/* OpenStack Swift: tokens by TempAuth (/auth/v1.0) and Keystone (/v3/auth/tokens), then /v1/. */
#include "fakeobj_int.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define ACCOUNT "/v1/AUTH_test"

struct place {
	const char *name;	/* "container/object" */
	const char *object;	/* NULL: a container; "" never */
	char        container[300];
};

bool fake_swift_is(const struct request *q)
{
	return strncmp(q->path, "/auth/v1", 8) == 0 || strcmp(q->path, "/v3") == 0 ||
	       strncmp(q->path, "/v3/", 4) == 0 || strncmp(q->path, "/v1/", 4) == 0 ||
	       strcmp(q->path, "/info") == 0;
}

/* False: the account itself. */
static bool place_of(const struct request *q, struct place *p)
{
	const char *slash;

	memset(p, 0, sizeof(*p));
	if (strncmp(q->path, ACCOUNT "/", strlen(ACCOUNT) + 1) != 0)
		return false;
	p->name = q->path + strlen(ACCOUNT) + 1;
	slash = strchr(p->name, '/');
	p->object = slash && slash[1] ? slash + 1 : NULL;
	(void)snprintf(p->container, sizeof(p->container), "%.*s",
		       (int)strcspn(p->name, "/"), p->name);
	return p->container[0] != 0;
}

enum verb fake_swift_verb(const struct request *q)
{
	struct place p;

	if (strncmp(q->path, "/auth/", 6) == 0 || strncmp(q->path, "/v3", 3) == 0)
		return V_AUTH;
	if (fake_http_query(q, "bulk-delete"))
		return V_BULK;
	if (!place_of(q, &p))
		return V_OTHER;
	if (!p.object)
		return strcmp(q->method, "GET") == 0 ? V_LIST : V_OTHER;
	return fake_http_verb(q);
}

static void tempauth(struct request *q, struct reply *r)
{
	const char *user = fake_http_field(q, "X-Auth-User"), *key = fake_http_field(q, "X-Auth-Key");
	struct grant g;

	user = user ? user : fake_http_field(q, "X-Storage-User");
	key = key ? key : fake_http_field(q, "X-Storage-Pass");
	if (!user || !key || strcmp(user, q->f->user) != 0 || strcmp(key, q->f->key) != 0) {
		fake_reply_error(r, q, 401, NULL);
		return;
	}
	fake_creds_issue(q->f, &g);
	fake_reply_header(r, "X-Auth-Token: %s", g.token);
	fake_reply_header(r, "X-Storage-Token: %s", g.token);
	fake_reply_header(r, "X-Auth-Token-Expires: %ld", (long)(g.until - fake_now(q->f)));
	fake_reply_header(r, "X-Storage-Url: http://127.0.0.1:%u" ACCOUNT, q->f->port);
}

static const char *text_at(const json_t *j, const char *a, const char *b)
{
	j = json_object_get(j, a);
	return json_string_value(b ? json_object_get(j, b) : j);
}

static bool same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

static bool who_fits(const struct request *q, const json_t *identity)
{
	const char *how = json_string_value(json_array_get(json_object_get(identity, "methods"), 0));
	const json_t *user = json_object_get(json_object_get(identity, "password"), "user");
	const json_t *app = json_object_get(identity, "application_credential");
	const char *colon = strchr(q->f->user, ':'), *name = colon ? colon + 1 : q->f->user;
	struct grant g;

	if (same(how, "password"))
		return same(text_at(user, "name", NULL), name) &&
		       same(text_at(user, "password", NULL), q->f->key) &&
		       (text_at(user, "domain", "name") || text_at(user, "domain", "id"));
	if (same(how, "application_credential"))
		return same(text_at(app, "id", NULL), FAKEOBJ_APP_ID) &&
		       same(text_at(app, "secret", NULL), q->f->key);
	if (same(how, "token"))
		return fake_creds_find(q->f, NULL, text_at(json_object_get(identity, "token"), "id", NULL),
				  &g) == 1;
	return false;
}

static json_t *endpoint(const char *interface, const char *region, unsigned port, const char *path)
{
	return json_pack("{s:s,s:s,s:s,s:o,s:s}", "interface", interface, "region", region,
			 "region_id", region, "url",
			 json_sprintf("http://127.0.0.1:%u%s", port, path), "id", interface);
}

/* The right one is neither the first service nor the first endpoint. */
static json_t *catalog(unsigned port)
{
	json_t *swift = json_array(), *keystone = json_array();

	json_array_append_new(keystone, endpoint("public", "RegionOne", port, "/v3"));
	json_array_append_new(swift, endpoint("admin", "RegionOne", port, "/_elsewhere/admin"));
	json_array_append_new(swift, endpoint("public", "RegionTwo", port, "/_elsewhere/two"));
	json_array_append_new(swift, endpoint("internal", "RegionOne", port, ACCOUNT));
	json_array_append_new(swift, endpoint("public", "RegionOne", port, ACCOUNT));
	return json_pack("[{s:s,s:s,s:o},{s:s,s:s,s:o}]", "type", "identity", "name", "keystone",
			 "endpoints", keystone, "type", "object-store", "name", "swift",
			 "endpoints", swift);
}

static void keystone(struct request *q, struct reply *r)
{
	json_t *ask = NULL, *answer;
	const json_t *auth;
	struct grant g;
	char until[24], since[24], *p;

	if (strcmp(q->method, "POST") == 0)
		ask = json_loadb((const char *)q->body, q->body_len, 0, NULL);
	auth = json_object_get(ask, "auth");
	if (strcmp(q->path, "/v3/auth/tokens") != 0 || !auth) {
		fake_reply_error(r, q, ask ? 400 : 404, NULL);
		json_decref(ask);
		return;
	}
	if (!who_fits(q, json_object_get(auth, "identity"))) {
		fake_reply_error(r, q, 401, NULL);
		json_decref(ask);
		return;
	}
	fake_creds_issue(q->f, &g);
	fake_creds_time(g.until, until);
	fake_creds_time(fake_now(q->f), since);
	fake_reply_header(r, "X-Subject-Token: %s", g.token);
	r->status = 201;
	answer = json_pack("{s:{s:s,s:s,s:{s:s}}}", "token", "expires_at", until, "issued_at",
			   since, "user", "name", "tester");
	/* A token without a scope has no catalog; an application credential has its own. */
	if (json_object_get(auth, "scope") ||
	    json_object_get(json_object_get(auth, "identity"), "application_credential"))
		json_object_set_new(json_object_get(answer, "token"), "catalog", catalog(q->f->port));
	p = json_dumps(answer, JSON_COMPACT);
	fake_reply_text(r, "application/json", p, strlen(p));
	json_decref(answer);
	json_decref(ask);
}

static void list(struct request *q, struct reply *r, const struct place *p)
{
	const char *prefix = fake_http_query(q, "prefix"), *marker = fake_http_query(q, "marker");
	const char *limit = fake_http_query(q, "limit"), *format = fake_http_query(q, "format");
	size_t page = q->f->conf.page ? q->f->conf.page : 10000, n, skip = strlen(p->container) + 1;
	char whole[1500], from[1500], *text;
	struct object **objs;
	json_t *rows = json_array();

	if (!format || strcmp(format, "json") != 0) {
		json_decref(rows);
		fake_reply_error(r, q, 501, NULL);
		return;
	}
	if (limit && strtoul(limit, NULL, 10) > 10000) {
		json_decref(rows);
		fake_reply_error(r, q, 412, NULL);
		return;
	}
	if (limit && strtoul(limit, NULL, 10) < page)
		page = strtoul(limit, NULL, 10);
	(void)snprintf(whole, sizeof(whole), "%s/%s", p->container, prefix ? prefix : "");
	(void)snprintf(from, sizeof(from), "%s/%s", p->container, marker ? marker : "");
	objs = calloc(page + 1, sizeof(objs[0]));
	if (!objs)
		abort();
	n = fake_objects_list(q->f, whole, from, objs, page);
	for (size_t i = 0; i < n; i++) {
		json_array_append_new(rows, json_pack("{s:s,s:I,s:s,s:s,s:s}", "name",
						      objs[i]->name + skip, "bytes",
						      (json_int_t)objs[i]->size, "hash",
						      objs[i]->md5, "content_type",
						      "application/octet-stream", "last_modified",
						      "2026-01-02T03:04:05.000000"));
		fake_object_unref(objs[i]);
	}
	free(objs);
	text = json_dumps(rows, JSON_COMPACT);
	fake_reply_text(r, "application/json; charset=utf-8", text, strlen(text));
	json_decref(rows);
}

static void bulk(struct request *q, struct reply *r)
{
	char *rest = (char *)q->body, *line, *text = NULL;
	unsigned deleted = 0, missing = 0;

	if (q->f->conf.no_bulk) {
		fake_reply_error(r, q, 501, NULL);
		return;
	}
	while ((line = strsep(&rest, "\n")) != NULL) {
		line[strcspn(line, "\r")] = 0;
		fake_http_decode(line, false);
		line += *line == '/';
		if (*line && fake_objects_del(q->f, line))
			deleted++;
		else if (*line)
			missing++;
	}
	if (asprintf(&text, "{\"Number Not Found\": %u, \"Response Status\": \"%s\", "
		     "\"Response Body\": \"\", \"Errors\": [], \"Number Deleted\": %u}", missing,
		     deleted + missing ? "200 OK" : "400 Bad Request", deleted) > 0)
		fake_reply_text(r, "application/json", text, strlen(text));
}

static void info(struct request *q, struct reply *r)
{
	char *text = NULL;

	if (asprintf(&text, "{\"swift\": {\"version\": \"2.30.0\", \"max_file_size\": %llu, "
		     "\"container_listing_limit\": %u, \"max_object_name_length\": 1024}%s}",
		     (unsigned long long)q->f->conf.max_object,
		     q->f->conf.page ? q->f->conf.page : 10000,
		     q->f->conf.no_bulk ? "" : ", \"bulk_delete\": {\"max_deletes_per_request\": "
					       "10000, \"max_failed_deletes\": 1000}") > 0)
		fake_reply_text(r, "application/json", text, strlen(text));
}

static void container(struct request *q, struct reply *r, const struct place *p)
{
	char prefix[320];
	uint64_t n, bytes;

	if (strncmp(p->container, "missing", 7) == 0 && strcmp(q->method, "PUT") != 0) {
		fake_reply_error(r, q, 404, NULL);
		return;
	}
	(void)snprintf(prefix, sizeof(prefix), "%s/", p->container);
	n = fakeobj_objects(q->f, prefix, &bytes);
	fake_reply_header(r, "X-Container-Object-Count: %llu", (unsigned long long)n);
	fake_reply_header(r, "X-Container-Bytes-Used: %llu", (unsigned long long)bytes);
	if (strcmp(q->method, "GET") == 0)
		list(q, r, p);
	else if (strcmp(q->method, "PUT") == 0)
		r->status = 201;
	else
		r->status = 204;
}

static void object(struct request *q, struct reply *r, const struct place *p)
{
	const char *none = fake_http_field(q, "If-None-Match"), *etag = fake_http_field(q, "ETag");
	struct object *o;
	char md5[FAKE_TAG];

	if (strncmp(p->container, "missing", 7) == 0) {
		fake_reply_error(r, q, 404, NULL);
	} else if (q->verb == V_PUT && q->body_len > q->f->conf.max_object) {
		fake_reply_error(r, q, 413, NULL);
	} else if (q->verb == V_PUT) {
		int err = fake_objects_put(q->f, p->name, q->body, q->body_len, none != NULL, md5);

		if (err == 0 && etag && strcmp(etag, md5) != 0) {
			(void)fake_objects_del(q->f, p->name);
			fake_reply_error(r, q, 422, NULL);
			return;
		}
		if (err < 0) {
			fake_reply_error(r, q, err == -EEXIST ? 412 : 500, NULL);
			return;
		}
		r->status = 201;
		fake_reply_header(r, "Etag: %s", q->fault.kind == K_ETAG ? FAKE_OTHER_TAG : md5);
	} else if (q->verb == V_DEL) {
		r->status = 204;
		if (!fake_objects_del(q->f, p->name))
			fake_reply_error(r, q, 404, NULL);
	} else {
		o = fake_objects_get(q->f, p->name);
		if (o)
			fake_reply_object(r, q, o);
		else
			fake_reply_error(r, q, 404, NULL);
	}
}

void fake_swift_serve(struct request *q, struct reply *r)
{
	struct place p;
	struct grant g;

	if (strcmp(q->path, "/info") == 0) {
		info(q, r);
		return;
	}
	if (q->verb == V_AUTH) {
		if (strncmp(q->path, "/auth", 5) == 0)
			tempauth(q, r);
		else
			keystone(q, r);
		return;
	}
	if (fake_creds_find(q->f, NULL, fake_http_field(q, "X-Auth-Token"), &g) != 1) {
		fake_reply_error(r, q, 401, NULL);
		fake_reply_header(r, "WWW-Authenticate: Swift realm=\"AUTH_test\"");
	} else if (strncmp(q->path, ACCOUNT, strlen(ACCOUNT)) != 0) {
		fake_reply_error(r, q, 403, NULL);
	} else if (q->verb == V_BULK) {
		bulk(q, r);
	} else if (!place_of(q, &p)) {
		r->status = 204;
		fake_reply_header(r, "X-Account-Container-Count: 1");
	} else if (p.object) {
		object(q, r, &p);
	} else {
		container(q, r, &p);
	}
}
