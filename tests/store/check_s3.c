/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/*
 * What only the s3 store does, against tests/lib/fakeobj.h: parts, crowds of deletions, clocks and
 * regions that are wrong, services that lack a request. What every store does is in check_contract.c,
 * what goes wrong on every network in check_faulthttp.c.
 */
#include "store/store.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/list.h"
#include "base/text.h"
#include "fakeobj.h"
#include "store/http.h"
#include "storetest.h"
#include "unit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct fakeobj *server;
static struct storetest t;

static void env_mine(void)
{
	static const char *const not[] = {
		"AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE",
		"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CONFIG_FILE", "http_proxy", "all_proxy",
		"AWS_SHARED_CREDENTIALS_FILE",
	};

	for (size_t i = 0; i < ARRAY_SIZE(not); i++)
		ck_assert_int_eq(unsetenv(not[i]), 0);
	setenv("HOME", t.dir, 1);
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	setenv("AWS_ACCESS_KEY_ID", FAKEOBJ_ACCESS, 1);
	setenv("AWS_SECRET_ACCESS_KEY", FAKEOBJ_SECRET, 1);
}

static void set_uri(const char *place, const char *query)
{
	free(t.uri);
	ck_assert_int_gt(asprintf(&t.uri, "s3://%s?endpoint=http://localhost:%u&%s", place,
				  fakeobj_port(server), query), 0);
}

static void serve(const struct fakeobj_conf *conf, const char *place, const char *query)
{
	storetest_init(&t, "");
	CLEAN(fakeobj_start(&server, conf));
	env_mine();
	set_uri(place, query);
}

static void begin(const struct fakeobj_conf *conf, const char *query)
{
	serve(conf, "data/p", query);
	storetest_open(&t, true, NULL);
}

static void end(void)
{
	CLEAN(fakeobj_rules(server, NULL));
	storetest_done(&t);
	fakeobj_stop(server);
}

/* What a put, get, head, list and del of one object is. */
static void all_verbs(void)
{
	CLEAN(storetest_put(&t, "x", 70000));
	CLEAN(storetest_verify(&t, "x", 70000));
	ck_assert_uint_eq(storetest_objects(&t, false), 1);
	CLEAN(store_del(t.s, &t.req, "x"));
	ck_assert_uint_eq(storetest_objects(&t, false), 0);
}

#define CROWD 400u
static struct store_op crowd[CROWD];
static atomic_uint crowd_done;

static void one_done(struct store_op *op)
{
	(void)op;
	atomic_fetch_add(&crowd_done, 1);
}

static void crowd_begin(void)
{
	atomic_store(&crowd_done, 0);
	for (unsigned i = 0; i < CROWD; i++) {
		crowd[i] = (struct store_op){ .req = &t.req, .code = STORE_DEL, .done = one_done };
		(void)snprintf(crowd[i].key.name, sizeof(crowd[i].key.name), "c%u", i);
		store_submit(t.s, &crowd[i]);
	}
}

static void crowd_delete(void)
{
	crowd_begin();
	for (unsigned n = 0; atomic_load(&crowd_done) < CROWD; n++) {
		ck_assert_uint_lt(n, 6000);
		clock_sleep(5 * NS_PER_MS);
	}
	for (unsigned i = 0; i < CROWD; i++)
		ck_assert_msg(crowd[i].err == 0, "%u: %s", i, err_name(crowd[i].err));
}

static void crowd_put(void)
{
	char name[16];

	/* Some are not there: that is success as well. */
	for (unsigned i = 0; i < CROWD; i += 4) {
		(void)snprintf(name, sizeof(name), "c%u", i);
		CLEAN(storetest_put(&t, name, 1));
	}
}

/* ---- parts ---- */

START_TEST(an_object_above_max_put_goes_up_in_parts)
{
	static const size_t sizes[] = { 5 << 20, (5 << 20) + 1, 10 << 20, (13 << 20) + 777 };
	static const char *const sums[] = { "none", "md5", "crc32c" };
	char query[64], name[16];

	(void)snprintf(query, sizeof(query), "retry=0&max-put=5M&checksum=%s", sums[_i]);
	begin(NULL, query);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		(void)snprintf(name, sizeof(name), "o%zu", i);
		CLEAN(storetest_put(&t, name, sizes[i]));
		CLEAN(storetest_verify(&t, name, sizes[i]));
	}
	ck_assert_uint_eq(fakeobj_objects(server, "\x01", NULL), 0);
	end();
}
END_TEST

/*
 * On each server that TESS_STORE_URIS names, as check_contract.c does it: parts, and deletions in crowds
 * are where services differ most.
 */
START_TEST(real_servers_take_parts_and_crowds)
{
	scoped_free char *uris = strdup(getenv("TESS_STORE_URIS") ?: "");
	char *rest = uris, *uri, template[2048];

	while ((uri = strsep(&rest, " \t\n")) != NULL) {
		if (strncmp(uri, "s3://", 5) != 0)
			continue;
		(void)snprintf(template, sizeof(template), "%s%cmax-put=5M&retry=0&limit=1000", uri,
			       strchr(uri, '?') ? '&' : '?');
		storetest_init(&t, template);
		storetest_open(&t, true, NULL);
		CLEAN(storetest_put(&t, "large", (13 << 20) + 777));
		CLEAN(storetest_verify(&t, "large", (13 << 20) + 777));
		crowd_put();
		crowd_delete();
		ck_assert_uint_eq(storetest_objects(&t, false), 1);
		storetest_done(&t);
	}
}
END_TEST

/* Other bytes than storetest_put()'s. */
static int put_other(const char *name, size_t n)
{
	scoped_free char *p = calloc(1, n);

	ck_assert_ptr_nonnull(p);
	return store_put(t.s, &t.req, name, p, n);
}

START_TEST(parts_that_fail_leave_nothing_behind)
{
	/* Of the others, the first begins and the second completes: 200, and an error in it. */
	static const char *const rules[] = {
		"put:nth=1:500", "put:nth=2:reset", "put:nth=3:slowdown", "put:nth=2:ok-error",
		"other:nth=1:ok-error", "other:nth=1:bad-body", "other:nth=2:ok-error=SlowDown",
		"other:nth=2:bad-body",
	};
	uint64_t objects;

	begin(NULL, "retry=0&max-put=5M");
	objects = fakeobj_objects(server, NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		CLEAN(fakeobj_rules(server, rules[i]));
		ck_assert_msg(storetest_put(&t, "o", 14 << 20) < 0, "%s", rules[i]);
		CLEAN(fakeobj_rules(server, NULL));
		ck_assert_msg(fakeobj_objects(server, NULL, NULL) == objects, "%s", rules[i]);
	}
	CLEAN(storetest_put(&t, "o", 14 << 20));
	CLEAN(storetest_verify(&t, "o", 14 << 20));
	end();
}
END_TEST

/* It was done, and nobody heard: neither of it, nor of the same request sent again. */
START_TEST(a_completion_whose_reply_is_lost_is_looked_for)
{
	static const char *const rules[] = {
		"other:nth=2:reset-after", "other:from=2:to=3:reset-after", "other:nth=2:garbage",
	};
	uint64_t puts;

	begin(NULL, "retry=0&max-put=5M&payload-hash=unsigned");
	puts = fakeobj_count(server, "put", "all");
	for (unsigned i = 0; i < 2; i++) {
		CLEAN(fakeobj_rules(server, rules[i]));
		CLEAN(storetest_put(&t, "o", 14 << 20));
		CLEAN(fakeobj_rules(server, NULL));
		CLEAN(storetest_verify(&t, "o", 14 << 20));
	}
	ck_assert_uint_eq(fakeobj_count(server, "put", "all") - puts, 6);
	/* One that was not done, and an object of the name and the length that is another. */
	CLEAN(fakeobj_rules(server, rules[2]));
	ck_assert_int_lt(storetest_put(&t, "none", 14 << 20), 0);
	CLEAN(fakeobj_rules(server, rules[2]));
	ck_assert_int_lt(put_other("o", 14 << 20), 0);
	CLEAN(fakeobj_rules(server, NULL));
	CLEAN(storetest_verify(&t, "o", 14 << 20));
	CLEAN(put_other("o", 14 << 20));
	ck_assert_int_eq(storetest_verify(&t, "o", 14 << 20), 1);
	ck_assert_uint_eq(fakeobj_objects(server, "\x01", NULL), 0);
	end();
}
END_TEST

/* ---- deletions ---- */

START_TEST(a_crowd_of_deletions_takes_few_requests)
{
	uint64_t n;

	begin(NULL, "retry=0&limit=1000");
	crowd_put();
	CLEAN(storetest_put(&t, "stays", 1));
	CLEAN(fakeobj_rules(server, "any:every=1:delay=20"));
	crowd_delete();
	CLEAN(fakeobj_rules(server, NULL));
	ck_assert_uint_eq(storetest_objects(&t, false), 1);
	n = fakeobj_count(server, "del", "all") + fakeobj_count(server, "bulk", "all");
	ck_assert_uint_lt(n, CROWD / 10);
	ck_assert_uint_gt(fakeobj_count(server, "bulk", "all"), 0);
	end();
}
END_TEST

START_TEST(a_service_without_bulk_deletion_gets_single_ones)
{
	struct fakeobj_conf conf = { .no_bulk = true };

	begin(&conf, "retry=0&limit=1000");
	crowd_put();
	crowd_delete();
	ck_assert_uint_eq(storetest_objects(&t, false), 0);
	/* Those that were under way when the first refusal came, and none later. */
	ck_assert_uint_lt(fakeobj_count(server, "bulk", "all"), 20);
	end();
}
END_TEST

START_TEST(deletions_that_wait_for_their_turn_can_be_cancelled)
{
	unsigned cancelled = 0;

	begin(NULL, "retry=0&limit=1000");
	CLEAN(fakeobj_rules(server, "any:blackhole"));
	crowd_begin();
	for (unsigned n = 0; atomic_load(&crowd_done) < CROWD; n++) {
		ck_assert_uint_lt(n, 1000);
		for (unsigned i = 0; i < CROWD; i++)
			store_cancel(t.s, &crowd[i]);
		clock_sleep(10 * NS_PER_MS);
	}
	for (unsigned i = 0; i < CROWD; i++)
		cancelled += crowd[i].err == -ECANCELED;
	ck_assert_uint_eq(cancelled, CROWD);
	end();
}
END_TEST

/* ---- what opening finds out ---- */

START_TEST(a_clock_that_is_off_is_allowed_for)
{
	static const int skews[] = { 3600, -86400 };
	struct fakeobj_conf conf = { .skew = skews[_i] };
	struct text out = TEXT_INIT;

	begin(&conf, "retry=0");
	all_verbs();
	store_to_text(t.s, &out);
	ck_assert_msg(strstr(text_str(&out), skews[_i] > 0 ? "skew=3" : "skew=-8"), "%s", text_str(&out));
	text_done(&out);
	/* Found out once, not with each request. */
	ck_assert_uint_le(fakeobj_count(server, "any", "denied"), 1);
	end();
}
END_TEST

/* So many GETs of "x" at once, none of which has its answer before all were sent. */
static void crowd_get(unsigned n)
{
	static char got[CROWD];
	static struct iovec v[CROWD];

	CLEAN(fakeobj_rules(server, "get:every=1:delay=200"));
	atomic_store(&crowd_done, 0);
	for (unsigned i = 0; i < n; i++) {
		v[i] = (struct iovec){ &got[i], 1 };
		crowd[i] = (struct store_op){ .req = &t.req, .code = STORE_GET, .done = one_done,
					      .key.name = "x", .range = { 0, 1 },
					      .data = { &v[i], 1, 1 } };
		store_submit(t.s, &crowd[i]);
	}
	while (atomic_load(&crowd_done) < n)
		clock_sleep(5 * NS_PER_MS);
	for (unsigned i = 0; i < n; i++)
		ck_assert_msg(crowd[i].err == 0, "%u: %s", i, err_name(crowd[i].err));
}

START_TEST(a_clock_that_is_set_meanwhile_fails_none_of_those_under_way)
{
	begin(NULL, "retry=0&limit=1000");
	CLEAN(storetest_put(&t, "x", 1));
	fakeobj_skew(server, 3600);
	crowd_get(40);
	end();
}
END_TEST

static void write_keys(const char *access)
{
	char path[128];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/keys", t.dir);
	(void)unlink(path);
	f = fopen(path, "wx");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fchmod(fileno(f), 0600), 0);
	ck_assert_int_gt(fprintf(f, "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n",
				 access, FAKEOBJ_SECRET), 0);
	ck_assert_int_eq(fclose(f), 0);
	setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
}

START_TEST(keys_that_are_exchanged_meanwhile_fail_none_of_those_under_way)
{
	serve(NULL, "data/p", "retry=0&limit=1000");
	CLEAN(unsetenv("AWS_ACCESS_KEY_ID"));
	CLEAN(unsetenv("AWS_SECRET_ACCESS_KEY"));
	write_keys(FAKEOBJ_ACCESS);
	storetest_open(&t, true, NULL);
	CLEAN(storetest_put(&t, "x", 1));
	write_keys("AKIAFAKEOBJECTSECOND");
	fakeobj_access(server, "AKIAFAKEOBJECTSECOND");
	crowd_get(40);
	end();
}
END_TEST

START_TEST(the_right_region_is_found_or_named)
{
	struct fakeobj_conf conf = { .region = "eu-north-7" };
	char *why = NULL;

	begin(&conf, "retry=0");
	all_verbs();
	storetest_close(&t);
	set_uri("data/p", "region=us-east-1");
	ck_assert_int_eq(storetest_try(&t, false, NULL, &why), -EACCES);
	ck_assert_msg(strstr(why, "give region=eu-north-7"), "%s", why);
	free(why);
	set_uri("data/p", "region=eu-north-7");
	storetest_open(&t, false, NULL);
	all_verbs();
	end();
}
END_TEST

START_TEST(reasons_are_told_apart)
{
	static const struct {
		const char *place, *query, *access, *secret, *says;
		int         err;
	} rows[] = {
		{ "data/p", "retry=0", "AKIAWRONG", NULL, "does not know this access key id", -EACCES },
		{ "data/p", "retry=0", NULL, "wrong", "secret key is not the one", -EACCES },
		{ "missing-bucket/p", "retry=0", NULL, NULL, "bucket missing-bucket: the bucket does not exist",
		  -ENODEV },
		{ "data/p", "anonymous=1", NULL, NULL, "this target is anonymous", -EACCES },
		{ "data/nothing", "retry=0", NULL, NULL, "holds no target", -TESS_E_URI },
	};

	begin(NULL, "retry=0");
	storetest_close(&t);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *why = NULL;
		int r;

		setenv("AWS_ACCESS_KEY_ID", rows[i].access ? rows[i].access : FAKEOBJ_ACCESS, 1);
		setenv("AWS_SECRET_ACCESS_KEY", rows[i].secret ? rows[i].secret : FAKEOBJ_SECRET, 1);
		set_uri(rows[i].place, rows[i].query);
		r = storetest_try(&t, false, NULL, &why);
		ck_assert_msg(r == rows[i].err && strstr(why, rows[i].says), "%s: %s", err_name(r), why);
		ck_assert_ptr_null(strstr(why, FAKEOBJ_SECRET));
		free(why);
	}
	end();
}
END_TEST

START_TEST(a_place_belongs_to_one_file_system)
{
	struct store_open_opts other = { .create = true, .fsid = 99 };
	struct text why = TEXT_INIT;
	struct store *s = NULL;

	begin(NULL, "retry=0");
	ck_assert(t.s->caps.flags & STORE_CONDITIONAL_PUT);
	ck_assert_int_eq(store_open_uri(&s, t.uri, &other, &why), -EEXIST);
	other.create = false;
	text_clear(&why);
	ck_assert_int_eq(store_open_uri(&s, t.uri, &other, &why), -TESS_E_URI);
	ck_assert_msg(strstr(text_str(&why), "another file system"), "%s", text_str(&why));
	/* Nor is it taken back for another. */
	storetest_close(&t);
	store_unmake_uri(t.uri, 99);
	storetest_open(&t, false, NULL);
	text_done(&why);
	end();
}
END_TEST

START_TEST(a_service_without_conditions_will_do)
{
	struct fakeobj_conf conf = { .no_conditional = true };

	begin(&conf, "retry=0");
	ck_assert(!(t.s->caps.flags & STORE_CONDITIONAL_PUT));
	all_verbs();
	end();
}
END_TEST

START_TEST(ways_to_ask_all_work)
{
	static const char *const queries[] = {
		"path-style=1", "path-style=0", "payload-hash=unsigned", "payload-hash=sha256",
		"checksum=md5", "checksum=crc32c", "connections=1", "region=auto",
	};

	begin(NULL, queries[_i]);
	all_verbs();
	end();
}
END_TEST

START_TEST(anonymous_requests_are_not_signed)
{
	struct fakeobj_conf conf = { .anonymous = true };

	begin(&conf, "anonymous=1");
	all_verbs();
	end();
}
END_TEST

/* ---- listings ---- */

static void put_foreign(const char *key)
{
	struct http_conf conf = { .name = "test" };
	struct http *http = NULL;
	struct text url = TEXT_INIT, why = TEXT_INIT;
	struct http_call c = { .method = "PUT" };

	CLEAN(http_new(&http, &conf, &why));
	text_fmt(&url, "http://127.0.0.1:%u/data/", fakeobj_port(server));
	http_encode(&url, key, true);
	c.url = text_str(&url);
	CLEAN(http_do(http, &c));
	ck_assert_uint_eq(c.status, 200);
	http_call_done(&c);
	http_free(http);
	text_done(&url);
	text_done(&why);
}

START_TEST(names_that_are_none_of_ours_are_passed_over)
{
	static const char *const foreign[] = {
		"a", "p", "p/0/deep", "p/0/deeper/still", "p/UPPER", "p/a b", "p/a+b", "p/a%20b", "p/1/",
		"pq", "p/zz/z", "p/a&b<c>",
		"p/this-name-is-longer-than-the-sixty-four-characters-that-a-store-gives-out",
	};
	struct fakeobj_conf conf = { .page = 2, .anonymous = true };
	struct tess_key keys[10];
	struct tess_objinfo infos[10];
	struct store_list l = { .max = 10, .keys = keys, .infos = infos };
	struct store_op op = { .req = &t.req, .code = STORE_LIST, .list = &l };
	struct text seen = TEXT_INIT;

	begin(&conf, "retry=0");
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		put_foreign(foreign[i]);
	CLEAN(storetest_put(&t, "ab", 3));
	CLEAN(storetest_put(&t, "z", 5));
	do {
		CLEAN(store_do(t.s, &op));
		for (unsigned i = 0; i < l.n; i++) {
			text_fmt(&seen, "%s=%u ", keys[i].name, (unsigned)infos[i].size);
			l.after = keys[i];
		}
		ck_assert(l.n > 0 || !l.more);
	} while (l.more);
	ck_assert_str_eq(text_str(&seen), "ab=3 z=5 ");
	text_done(&seen);
	end();
}
END_TEST

/* ---- out of memory ---- */

START_TEST(out_of_memory_is_an_error_of_the_request)
{
	unsigned failed = 0;
	char spec[32];

	begin(NULL, "retry=0");
	for (int i = 1; i < 80; i++) {
		char part[100];
		struct tess_objinfo info;
		int r[4];

		CLEAN(storetest_put(&t, "x", 100));
		(void)snprintf(spec, sizeof(spec), "alloc#%d=ENOMEM", i);
		CLEAN(fault_set(spec));
		r[0] = store_put(t.s, &t.req, "y", "abc", 3);
		r[1] = store_get(t.s, &t.req, "x", 0, part, sizeof(part));
		r[2] = store_head(t.s, &t.req, "x", &info);
		r[3] = store_del(t.s, &t.req, "y");
		CLEAN(fault_set(NULL));
		for (unsigned j = 0; j < 4; j++) {
			failed += r[j] == -ENOMEM;
			ck_assert_msg(r[j] == 0 || r[j] == -ENOMEM || r[j] == -EPROTO, "%d %u: %s", i, j,
				      err_name(r[j]));
		}
		if (r[1] == 0)
			ck_assert(storetest_same(part, sizeof(part), "x", 0));
	}
	ck_assert_uint_gt(failed, 20);
	CLEAN(store_del(t.s, &t.req, "x"));
	CLEAN(store_del(t.s, &t.req, "y"));
	all_verbs();
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("s3");
	TCase *c = tcase_create("s3");

	suite_add_tcase(s, c);
	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, an_object_above_max_put_goes_up_in_parts, 0, 3);
	tcase_add_test(c, parts_that_fail_leave_nothing_behind);
	tcase_add_test(c, a_completion_whose_reply_is_lost_is_looked_for);
	tcase_add_test(c, real_servers_take_parts_and_crowds);
	tcase_add_test(c, a_crowd_of_deletions_takes_few_requests);
	tcase_add_test(c, a_service_without_bulk_deletion_gets_single_ones);
	tcase_add_test(c, deletions_that_wait_for_their_turn_can_be_cancelled);
	tcase_add_loop_test(c, a_clock_that_is_off_is_allowed_for, 0, 2);
	tcase_add_test(c, a_clock_that_is_set_meanwhile_fails_none_of_those_under_way);
	tcase_add_test(c, keys_that_are_exchanged_meanwhile_fail_none_of_those_under_way);
	tcase_add_test(c, the_right_region_is_found_or_named);
	tcase_add_test(c, reasons_are_told_apart);
	tcase_add_test(c, a_place_belongs_to_one_file_system);
	tcase_add_test(c, a_service_without_conditions_will_do);
	tcase_add_loop_test(c, ways_to_ask_all_work, 0, 8);
	tcase_add_test(c, anonymous_requests_are_not_signed);
	tcase_add_test(c, names_that_are_none_of_ours_are_passed_over);
	tcase_add_test(c, out_of_memory_is_an_error_of_the_request);
	return unit_run(s);
}
