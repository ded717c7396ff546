/* SPDX-License-Identifier: Apache-2.0 */
#include "httptest.h"

#include "base/clock.h"
#include "base/err.h"

#include <check.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define CLEAN(err) ck_assert_int_eq((err), 0)
#define SLOTS 64u

struct httptest ht;

static const char *const names[] = {
	[HT_S3] = "s3",
	[HT_S3_INSTANCE] = "s3, instance metadata",
	[HT_S3_CONTAINER] = "s3, container",
	[HT_S3_WEB] = "s3, web identity",
	[HT_TEMPAUTH] = "swift, TempAuth",
	[HT_KEYSTONE] = "swift, Keystone",
	[HT_APP_CREDENTIAL] = "swift, application credential",
};
const char *const ht_verb_names[HT_NVERBS] = { "put", "get", "head", "del", "list" };

bool ht_is_s3(void)
{
	return ht.service < HT_TEMPAUTH;
}

const char *ht_name(void)
{
	return names[ht.service];
}

static void env_url(const char *name, unsigned port, const char *path)
{
	char value[200];

	(void)snprintf(value, sizeof(value), "http://127.0.0.1:%u%s", port, path);
	ck_assert_int_eq(setenv(name, value, 1), 0);
}

static void env_s3(unsigned port)
{
	char path[100];
	FILE *f;

	setenv("AWS_EC2_METADATA_DISABLED", ht.service == HT_S3_INSTANCE ? "false" : "true", 1);
	switch (ht.service) {
	case HT_S3:
		setenv("AWS_ACCESS_KEY_ID", FAKEOBJ_ACCESS, 1);
		setenv("AWS_SECRET_ACCESS_KEY", FAKEOBJ_SECRET, 1);
		break;
	case HT_S3_INSTANCE:
		env_url("AWS_EC2_METADATA_SERVICE_ENDPOINT", port, "");
		break;
	case HT_S3_CONTAINER:
		env_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", port, "/v2/credentials/0123");
		setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", FAKEOBJ_BEARER, 1);
		break;
	default:
		(void)snprintf(path, sizeof(path), "%s/jwt", ht.t.dir);
		f = fopen(path, "w");
		ck_assert_ptr_nonnull(f);
		fputs(FAKEOBJ_JWT, f);
		ck_assert_int_eq(fclose(f), 0);
		ck_assert_int_eq(chmod(path, 0600), 0);
		setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path, 1);
		setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/fake-role", 1);
		env_url("AWS_ENDPOINT_URL_STS", port, "");
		break;
	}
}

static void env_swift(unsigned port)
{
	if (ht.service == HT_TEMPAUTH) {
		env_url("ST_AUTH", port, "/auth/v1.0");
		setenv("ST_USER", FAKEOBJ_USER, 1);
		setenv("ST_KEY", FAKEOBJ_KEY, 1);
		return;
	}
	env_url("OS_AUTH_URL", port, "/v3");
	setenv("OS_REGION_NAME", "RegionOne", 1);
	if (ht.service == HT_APP_CREDENTIAL) {
		setenv("OS_APPLICATION_CREDENTIAL_ID", FAKEOBJ_APP_ID, 1);
		setenv("OS_APPLICATION_CREDENTIAL_SECRET", FAKEOBJ_KEY, 1);
		return;
	}
	setenv("OS_USERNAME", "tester", 1);
	setenv("OS_PASSWORD", FAKEOBJ_KEY, 1);
	setenv("OS_PROJECT_NAME", "test", 1);
	setenv("OS_USER_DOMAIN_NAME", "Default", 1);
	setenv("OS_PROJECT_DOMAIN_NAME", "Default", 1);
}

/* Nobody's identity but the test's. */
static void env_none(void)
{
	extern char **environ;
	char name[64];

	for (char **e = environ; *e;) {
		if (strncmp(*e, "AWS_", 4) && strncmp(*e, "OS_", 3) && strncmp(*e, "ST_", 3) &&
		    strncasecmp(*e, "http_proxy", 10) && strncasecmp(*e, "all_proxy", 9)) {
			e++;
			continue;
		}
		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
		ck_assert_int_eq(unsetenv(name), 0);
		e = environ;
	}
	setenv("HOME", ht.t.dir, 1);
}

void ht_uri(const char *place, const char *query)
{
	char end[64];

	free(ht.t.uri);
	(void)snprintf(end, sizeof(end), "endpoint=http://127.0.0.1:%u&", fakeobj_port(ht.server));
	ck_assert_int_gt(asprintf(&ht.t.uri, "%s://%s?%s%s", ht_is_s3() ? "s3" : "swift", place,
				  ht_is_s3() ? end : "", query), 0);
}

void ht_serve(enum ht_service s, const struct fakeobj_conf *conf)
{
	ht.service = s;
	storetest_init(&ht.t, "");
	CLEAN(fakeobj_start(&ht.server, conf));
	env_none();
	if (ht_is_s3())
		env_s3(fakeobj_port(ht.server));
	else
		env_swift(fakeobj_port(ht.server));
}

void ht_rules(const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ck_assert_msg(fakeobj_rules(ht.server, text) == 0, "%s", text);
}

void ht_begin(enum ht_service s, const char *query, const struct fakeobj_conf *conf)
{
	ht_serve(s, conf);
	ht_uri("data/p", query);
	storetest_open(&ht.t, true, NULL);
	CLEAN(storetest_put(&ht.t, "old", HT_OLD_SIZE));
}

void ht_end(void)
{
	ht_rules("%s", "");
	storetest_done(&ht.t);
	fakeobj_stop(ht.server);
}

/* --- one operation, judged --- */

static int do_list(void)
{
	struct tess_key keys[SLOTS];
	struct tess_objinfo infos[SLOTS];
	struct store_list l = { .max = SLOTS, .keys = keys, .infos = infos };
	struct store_op op = { .req = &ht.t.req, .code = STORE_LIST, .list = &l };
	bool old = false;
	int r = store_do(ht.t.s, &op);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < l.n; i++)
		old |= strcmp(keys[i].name, "old") == 0 && infos[i].size == HT_OLD_SIZE;
	return old && !l.more ? 0 : 1;
}

int ht_do(enum ht_verb v, unsigned serial)
{
	struct tess_objinfo info;
	char name[32], part[1500];
	int r;

	(void)snprintf(name, sizeof(name), "n%u", serial);
	switch (v) {
	case HT_PUT:
		return storetest_put(&ht.t, name, 3000 + serial);
	case HT_GET:
		r = store_get(ht.t.s, &ht.t.req, "old", 700, part, sizeof(part));
		return r < 0 ? r : !storetest_same(part, sizeof(part), "old", 700);
	case HT_HEAD:
		r = store_head(ht.t.s, &ht.t.req, "old", &info);
		return r < 0 ? r : info.size != HT_OLD_SIZE;
	case HT_DEL:
		return store_del(ht.t.s, &ht.t.req, name);
	default:
		return do_list();
	}
}

bool ht_is_put(unsigned serial)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "n%u", serial);
	return storetest_verify(&ht.t, name, 3000 + serial) == 0;
}

bool ht_is_gone(unsigned serial)
{
	struct tess_objinfo info;
	char name[32];

	(void)snprintf(name, sizeof(name), "n%u", serial);
	return store_head(ht.t.s, &ht.t.req, name, &info) == -ENOENT;
}

bool ht_old_is_there(void)
{
	return storetest_verify(&ht.t, "old", HT_OLD_SIZE) == 0;
}

const char *ht_said(int r)
{
	return r < 0 ? err_name(r) : r ? "wrong bytes" : "success";
}

struct worker {
	pthread_t thread;
	unsigned  id;
	int64_t   until;
	unsigned  done;
	int       err;
	enum ht_verb verb;	/* of the error */
};

/* Puts, reads back, deletes, until the time is up or something fails. */
static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned serial = w->id * 100000 + 1;

	while (clock_now() < w->until && w->err == 0) {
		for (enum ht_verb v = 0; v < HT_NVERBS && w->err == 0; v++) {
			w->err = ht_do(v, serial);
			w->verb = v;
			w->done++;
		}
		serial++;
	}
	return NULL;
}

unsigned ht_load(int64_t time, unsigned threads)
{
	struct worker w[8] = { { 0 } };
	unsigned done = 0;

	for (unsigned i = 0; i < threads; i++) {
		w[i].id = i + 1;
		w[i].until = clock_now() + time;
		CLEAN(pthread_create(&w[i].thread, NULL, work, &w[i]));
	}
	for (unsigned i = 0; i < threads; i++) {
		CLEAN(pthread_join(w[i].thread, NULL));
		ck_assert_msg(w[i].err == 0, "%s: %s after %u: %s", ht_name(),
			      ht_verb_names[w[i].verb], w[i].done, ht_said(w[i].err));
		done += w[i].done;
	}
	return done;
}

