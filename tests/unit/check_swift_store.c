/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/* The swift store against a server that does wrong on demand: tokens, bulk deletes, bodies, cancellation. */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "base/text.h"
#include "fakeobj.h"
#include "store/marker.h"
#include "store/store.h"
#include "store/swift_auth.h"
#include "storetest.h"
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define ONCE "retry=0&limit=64"	/* each op's own outcome */

static struct fakeobj *f;
static struct store *s;
static struct tess_req req;
static struct text why;

static void env_url(const char *name, const char *path)
{
	char url[128];

	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", fakeobj_port(f), path);
	ck_assert_int_eq(setenv(name, url, 1), 0);
}

static void begin(const struct fakeobj_conf *conf)
{
	static const char *const names[] = { "OS_CLOUD", "OS_AUTH_URL", "OS_STORAGE_URL", "OS_TOKEN",
					     "OS_AUTH_TOKEN", "OS_REGION_NAME", "http_proxy" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		ck_assert_int_eq(unsetenv(names[i]), 0);
	s = NULL;
	CLEAN(fakeobj_start(&f, conf));
	env_url("ST_AUTH", "/auth/v1.0");
	setenv("ST_USER", FAKEOBJ_USER, 1);
	setenv("ST_KEY", FAKEOBJ_KEY, 1);
	req_begin(&req, "test");
	req.deadline = INT64_MAX;
}

static int try(const char *uri, bool create, uint64_t fsid)
{
	struct store_open_opts o = { .create = create, .fsid = fsid };

	text_clear(&why);
	s = NULL;
	return store_open_uri(&s, uri, &o, &why);
}

static void opened(const char *uri)
{
	int r = try(uri, true, 7);

	ck_assert_msg(r == 0, "%s: %s", err_name(r), text_str(&why));
}

static void end(void)
{
	store_close(s);
	fakeobj_stop(f);
	text_done(&why);
}

static void says(const char *what)
{
	unit_says(text_str(&why), what, FAKEOBJ_KEY);
}

static int put(const char *name, size_t n)
{
	char p[100000];

	ck_assert_uint_le(n, sizeof(p));
	storetest_fill(p, n, name, 0);
	return store_put(s, &req, name, p, n);
}

static int get(const char *name, uint64_t off, size_t n)
{
	char p[100000];
	int r = store_get(s, &req, name, off, p, n);

	return r == 0 && !storetest_same(p, n, name, off) ? 1 : r;
}

/* ---- identity ---- */

static void keystone_env(void)
{
	unsetenv("ST_AUTH");
	env_url("OS_AUTH_URL", "/v3");
	setenv("OS_REGION_NAME", "RegionOne", 1);
}

START_TEST(test_keystone_gives_a_token_for_each_kind_of_credential)
{
	char token[200] = "";

	begin(NULL);
	keystone_env();
	setenv("OS_USERNAME", "tester", 1);
	setenv("OS_PASSWORD", FAKEOBJ_KEY, 1);
	setenv("OS_PROJECT_NAME", "test", 1);
	opened("swift://c/password?" ONCE);
	CLEAN(put("a", 100));
	store_close(s);
	opened("swift://c/internal?interface=internal&" ONCE);
	store_close(s);
	unsetenv("OS_REGION_NAME");
	ck_assert_int_eq(try("swift://c/x", true, 7), -EACCES);
	says("more than one object-store endpoint");
	opened("swift://c/region?region=RegionOne&" ONCE);
	store_close(s);
	unsetenv("OS_PROJECT_NAME");
	ck_assert_int_eq(try("swift://c/x", true, 7), -EACCES);
	says("no catalog");
	unsetenv("OS_PASSWORD");
	setenv("OS_APPLICATION_CREDENTIAL_ID", FAKEOBJ_APP_ID, 1);
	setenv("OS_APPLICATION_CREDENTIAL_SECRET", FAKEOBJ_KEY, 1);
	opened("swift://c/app?region=RegionOne&" ONCE);
	CLEAN(put("a", 100));
	CLEAN(get("a", 0, 100));
	setenv("OS_APPLICATION_CREDENTIAL_SECRET", "wrong", 1);
	store_close(s);
	ck_assert_int_eq(try("swift://c/x", true, 7), -EACCES);
	says("application credential refused");
	ck_assert_uint_eq(strlen(token), 0);
	end();
}
END_TEST

START_TEST(test_a_wrong_key_is_told_at_once_and_without_it)
{
	begin(NULL);
	setenv("ST_KEY", "wr0ng", 1);
	ck_assert_int_eq(try("swift://c", true, 7), -EACCES);
	says("status 401");
	says("user, project or key refused");
	ck_assert_ptr_null(strstr(text_str(&why), "wr0ng"));
	ck_assert_uint_eq(fakeobj_count(f, "auth", "all"), 1);
	setenv("ST_AUTH", "http://127.0.0.1:1/auth/v1.0", 1);
	ck_assert_int_eq(try("swift://c", true, 7), -ECONNREFUSED);
	end();
}
END_TEST

START_TEST(test_a_revoked_token_is_renewed_and_the_op_goes_on)
{
	begin(NULL);
	opened("swift://c?" ONCE);
	CLEAN(put("a", 5000));
	fakeobj_expire(f);
	CLEAN(get("a", 10, 100));
	ck_assert_uint_eq(fakeobj_count(f, "all", "issued"), 2);
	end();
}
END_TEST

/* The store of the tokens is broken: one that was just issued is refused, and so is the next. */
static int get_of_forgetful(const char *uri, const char *rules)
{
	int r;

	CLEAN(fakeobj_rules(f, ""));
	CLEAN(try(uri, false, 7));
	CLEAN(fakeobj_rules(f, rules));
	r = get("a", 10, 100);
	store_close(s);
	return r;
}

START_TEST(test_a_service_that_forgets_its_tokens_is_waited_for)
{
	begin(NULL);
	opened("swift://c?" ONCE);
	CLEAN(put("a", 5000));
	store_close(s);
	CLEAN(get_of_forgetful("swift://c?" ONCE, "get:from=1:to=4:401"));
	ck_assert_uint_eq(fakeobj_count(f, "all", "issued"), 1 + 1 + 4);
	CLEAN(get_of_forgetful("swift://c?retry=12&deadline=60s", "get:from=1:to=6:401"));
	s = NULL;
	end();
}
END_TEST

/* That this user may not was told when it was opened: it is busy, which is tried again while there is time. */
START_TEST(test_a_service_that_goes_on_forgetting_is_busy)
{
	begin(NULL);
	opened("swift://c?" ONCE);
	CLEAN(put("a", 5000));
	store_close(s);
	ck_assert_int_eq(get_of_forgetful("swift://c?" ONCE, "get:every=1:401"),
			 -TESS_E_STORE_BUSY);
	ck_assert_int_eq(get_of_forgetful("swift://c?retry=12&deadline=300ms", "get:every=1:401"),
			 -TESS_E_STORE_DEADLINE);
	s = NULL;
	end();
}
END_TEST

START_TEST(test_a_token_that_is_refused_is_told_when_the_store_is_opened)
{
	char url[64];

	begin(NULL);
	opened("swift://c?" ONCE);
	CLEAN(put("a", 5000));
	store_close(s);
	CLEAN(fakeobj_rules(f, "other:every=1:401"));
	ck_assert_int_eq(try("swift://c?retry=12", false, 7), -EACCES);
	says("status 401");
	ck_assert_uint_le(fakeobj_count(f, "all", "issued"), 4);
	/* And a token that nobody can renew is refused for good. */
	unsetenv("ST_AUTH");
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/v1/AUTH_test", fakeobj_port(f));
	setenv("OS_STORAGE_URL", url, 1);
	setenv("OS_AUTH_TOKEN", "AUTH_tk0123456789", 1);
	ck_assert_int_eq(try("swift://c?retry=12", false, 7), -EACCES);
	end();
}
END_TEST

static atomic_uint works;

static void *work(void *arg)
{
	const int64_t *until = arg;
	char name[32];

	for (unsigned i = 0; clock_now() < *until; i++) {
		(void)snprintf(name, sizeof(name), "w%u", atomic_fetch_add(&works, 1));
		CLEAN(put(name, 3000));
		CLEAN(get(name, 5, 1000));
		CLEAN(store_del(s, &req, name));
	}
	return NULL;
}

START_TEST(test_tokens_of_a_second_or_two_are_renewed_under_load_without_an_error)
{
	const char *secs = getenv("TESS_SWIFT_LOAD");
	struct fakeobj_conf conf = { .life_ms = 1000 };
	int64_t until;
	pthread_t th[4];

	begin(&conf);
	if (_i) {
		keystone_env();
		setenv("OS_USERNAME", "tester", 1);
		setenv("OS_PASSWORD", FAKEOBJ_KEY, 1);
		setenv("OS_PROJECT_NAME", "test", 1);
	}
	opened("swift://c/load?" ONCE);
	until = clock_now() + (secs ? strtol(secs, NULL, 10) : 4) * NS_PER_S;
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&th[i], NULL, work, &until), 0);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_join(th[i], NULL), 0);
	ck_assert_uint_ge(fakeobj_count(f, "all", "issued"), 2);
	end();
}
END_TEST

START_TEST(test_who_we_are_is_explained_without_a_secret)
{
	struct text out = TEXT_INIT;

	begin(NULL);
	CLEAN(swift_auth_explain("swift://c", &out));
	ck_assert_ptr_nonnull(strstr(text_str(&out), "tempauth  ST_AUTH: used\n"));
	ck_assert_ptr_nonnull(strstr(text_str(&out), "account   http://127.0.0.1:"));
	ck_assert_ptr_nonnull(strstr(text_str(&out), "token     good for another "));
	ck_assert_ptr_null(strstr(text_str(&out), FAKEOBJ_KEY));
	text_clear(&out);
	setenv("ST_KEY", "wr0ng", 1);
	ck_assert_int_eq(swift_auth_explain("swift://c", &out), -EACCES);
	ck_assert_ptr_nonnull(strstr(text_str(&out), "error     "));
	ck_assert_ptr_null(strstr(text_str(&out), "wr0ng"));
	text_done(&out);
	end();
}
END_TEST

/* ---- the place ---- */

START_TEST(test_what_is_wrong_with_the_place_is_told_when_it_is_opened)
{
	static const struct {
		const char *uri, *says;
	} bad[] = {
		{ "swift://c//x", "PREFIX" }, { "swift://c/../x", "PREFIX" }, { "swift:///x", "1 to 256" },
		{ "swift://c?connections=0", "1 to 1024" }, { "swift://c?checksum=crc", "md5 and none" },
		{ "swift://c?key-file=k", "absolute" }, { "swift://c?ca=k", "absolute" },
		{ "swift://c?interface=secret", "public, internal" },
		{ "swift://c?auth=http://u:p@h/v3", "no credentials" },
		{ "swift://c?cloud=a&auth=http://h/v3", "exclude" },
		{ "swift://missing-one", "there is no container missing-one" },
		{ "swift://c/unused", "holds no target" },
	};

	begin(NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ck_assert_msg(try(bad[i].uri, false, 7) == -TESS_E_URI, "%s: %s", bad[i].uri,
			      text_str(&why));
		says(bad[i].says);
	}
	ck_assert_ptr_null(s);
	end();
}
END_TEST

START_TEST(test_two_file_systems_do_not_share_a_place)
{
	begin(NULL);
	opened("swift://c/a?" ONCE);
	store_close(s);
	ck_assert_int_eq(try("swift://c/a", true, 8), -EEXIST);
	ck_assert_int_eq(try("swift://c/a", false, 8), -TESS_E_URI);
	says("another file system");
	opened("swift://c/b?" ONCE);
	CLEAN(put("a", 10));
	store_close(s);
	CLEAN(try("swift://c/a", false, 7));
	ck_assert_int_eq(get("a", 0, 10), -ENOENT);
	store_close(steal_ptr(s));
	store_unmake_uri("swift://c/a", 8);
	CLEAN(try("swift://c/a", false, 7));
	store_close(steal_ptr(s));
	store_unmake_uri("swift://c/a", 7);
	ck_assert_int_eq(try("swift://c/a", false, 7), -TESS_E_URI);
	end();
}
END_TEST

/* ---- bodies ---- */

START_TEST(test_a_body_that_is_not_the_one_asked_for_is_an_error)
{
	static const char *const kinds[] = {
		"short", "long", "less", "more", "other-range", "whole", "reset", "reset-mid", "half",
		"garbage", "unframed", "close", "stall=50", "redirect", "ok-error", "slowdown", "500",
		"206", "404", "403", "416", "endless",
	};
	char rule[64];

	begin(NULL);
	opened("swift://c?" ONCE);
	CLEAN(put("a", 50000));
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		int r;

		(void)snprintf(rule, sizeof(rule), "get:every=1:%s", kinds[i]);
		CLEAN(fakeobj_rules(f, rule));
		r = get("a", 1000, 4096);
		if (strcmp(kinds[i], "close") == 0 || strcmp(kinds[i], "long") == 0)
			ck_assert_int_eq(r, 0);
		else
			ck_assert_msg(r < 0, "%s: %d", kinds[i], r);
		ck_assert_int_eq(r == -ENOENT, strcmp(kinds[i], "404") == 0);
	}
	CLEAN(fakeobj_rules(f, ""));
	CLEAN(get("a", 1000, 4096));
	ck_assert_uint_eq(fakeobj_count(f, "all", "elsewhere"), 0);
	end();
}
END_TEST

START_TEST(test_a_put_that_is_not_confirmed_is_an_error)
{
	static const struct {
		const char *kind;
		int         r;
	} c[] = {
		{ "422", -EPROTO }, { "507", -TESS_E_STORE_FULL }, { "413", -EFBIG }, { "404", -EIO },
		{ "403", -EACCES }, { "200", -EPROTO }, { "slowdown", -TESS_E_STORE_BUSY },
		{ "toomany=1", -TESS_E_STORE_BUSY }, { "498", -TESS_E_STORE_BUSY }, { "500", -EIO },
		{ "redirect=307", -EPROTO }, { "reset", -ECONNRESET }, { "reset-after", -ECONNRESET },
	};
	char rule[64];

	begin(NULL);
	opened("swift://c?" ONCE);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		int r;

		(void)snprintf(rule, sizeof(rule), "put:every=1:%s", c[i].kind);
		CLEAN(fakeobj_rules(f, rule));
		r = put("a", 5000);
		ck_assert_msg(r == c[i].r, "%s: %s", c[i].kind, err_name(r));
	}
	end();
}
END_TEST

START_TEST(test_a_listing_goes_on_through_pages_of_any_length)
{
	struct fakeobj_conf conf = { .page = 3 };
	struct tess_key keys[30];
	struct tess_objinfo infos[30];
	struct store_list l = { .max = 30, .keys = keys, .infos = infos };
	struct store_op op = { .req = &req, .code = STORE_LIST, .list = &l };
	char name[16];

	begin(&conf);
	opened("swift://c/p?" ONCE);
	for (unsigned i = 0; i < 20; i++) {
		(void)snprintf(name, sizeof(name), "n%02u", i);
		CLEAN(put(name, i));
	}
	CLEAN(store_do(s, &op));
	ck_assert_uint_eq(l.n, 20);
	ck_assert(!l.more);
	ck_assert_str_eq(keys[19].name, "n19");
	ck_assert_uint_eq(infos[19].size, 19);
	for (unsigned i = 0; i < 5; i++) {
		static const char *const kinds[] = { "bad-body", "cut-body", "bomb-body", "huge-body", "ok-error" };

		(void)snprintf(name, sizeof(name), "%s", kinds[i]);
		text_clear(&why);
		text_fmt(&why, "list:nth=3:%s", kinds[i]);
		CLEAN(fakeobj_rules(f, text_str(&why)));
		ck_assert_msg(store_do(s, &op) < 0, "%s", kinds[i]);
	}
	end();
}
END_TEST

/* ---- many at once ---- */

#define MANY 200u

static struct many {
	struct store_op op;
	atomic_int      dones;
} many[MANY];
static atomic_int left;

static void many_done(struct store_op *op)
{
	struct many *m = container_of(op, struct many, op);

	atomic_fetch_add(&m->dones, 1);
	atomic_fetch_sub(&left, 1);
}

static void many_submit(enum store_code code)
{
	static char byte[1] = "x";
	static struct iovec v = { byte, 1 };
	char name[32];

	atomic_store(&left, (int)MANY);
	for (unsigned i = 0; i < MANY; i++) {
		many[i].op = (struct store_op){ .req = &req, .code = code, .done = many_done };
		atomic_store(&many[i].dones, 0);
		if (code == STORE_PUT)
			many[i].op.data = (struct tess_iov){ &v, 1, 1 };
		(void)snprintf(name, sizeof(name), "m%u", i);
		CLEAN(store_key_set(&many[i].op.key, name));
		store_submit(s, &many[i].op);
	}
}

/* Number of those that failed. */
static unsigned many_wait(void)
{
	unsigned bad = 0;

	while (atomic_load(&left) > 0)
		clock_sleep(NS_PER_MS);
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_int_eq(atomic_load(&many[i].dones), 1);
		bad += many[i].op.err != 0;
	}
	return bad;
}

static void deleted_in(const char *rules, bool all_gone)
{
	uint64_t bytes;

	CLEAN(fakeobj_rules(f, ""));
	many_submit(STORE_PUT);
	ck_assert_uint_eq(many_wait(), 0);
	CLEAN(fakeobj_rules(f, rules));
	many_submit(STORE_DEL);
	ck_assert_msg((many_wait() == 0) == all_gone, "%s", rules);
	CLEAN(fakeobj_rules(f, ""));
	if (all_gone)
		ck_assert_msg(fakeobj_objects(f, "c/m", &bytes) == 0, "%s", rules);
}

START_TEST(test_deletions_that_come_together_go_together)
{
	begin(NULL);
	opened("swift://c?retry=0&limit=1000");
	deleted_in("", true);
	ck_assert_uint_ge(fakeobj_count(f, "bulk", "ok"), 1);
	ck_assert_uint_le(fakeobj_count(f, "bulk", "all") + fakeobj_count(f, "del", "all"), MANY / 4);
	end();
}
END_TEST

START_TEST(test_a_bulk_delete_that_fails_inside_is_made_up_for)
{
	begin(NULL);
	opened("swift://c?retry=0&limit=1000");
	/* 200, and not what a bulk delete answers: each by itself. */
	deleted_in("bulk:every=1:bad-body", true);
	deleted_in("bulk:every=1:ok-error", true);
	deleted_in("bulk:every=1:cut-body", true);
	/* No answer: an error that is worth another try. */
	deleted_in("bulk:every=1:slowdown", false);
	deleted_in("bulk:every=1:reset", false);
	/* There is none: never asked for again. */
	deleted_in("bulk:every=1:405", true);
	CLEAN(fakeobj_rules(f, ""));
	ck_assert_int_ge(store_usage(s, &(struct store_usage){ 0 }), 0);
	end();
	begin(NULL);
	opened("swift://c?limit=1000&retry=20");
	deleted_in("bulk:every=2:slowdown;del:every=3:reset", true);
	end();
}
END_TEST

START_TEST(test_a_service_without_bulk_delete_is_not_asked_for_it)
{
	struct fakeobj_conf conf = { .no_bulk = true };

	begin(&conf);
	opened("swift://c?retry=0&limit=1000");
	deleted_in("", true);
	ck_assert_uint_eq(fakeobj_count(f, "bulk", "all"), 0);
	end();
}
END_TEST

static unsigned count_err(int err)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MANY; i++)
		n += many[i].op.err == err;
	return n;
}

START_TEST(test_ops_that_a_service_swallows_end_when_cancelled)
{
	static const enum store_code codes[] = { STORE_PUT, STORE_HEAD, STORE_DEL };

	begin(NULL);
	opened("swift://c?retry=0&limit=1000");
	for (size_t k = 0; k < ARRAY_SIZE(codes); k++) {
		CLEAN(fakeobj_rules(f, "any:every=1:blackhole"));
		many_submit(codes[k]);
		for (unsigned i = 0; i < MANY; i++)
			store_cancel(s, &many[i].op);
		(void)many_wait();
		for (unsigned i = 0; i < MANY; i++)
			ck_assert_msg(many[i].op.err == -ECANCELED, "%s %u: %s",
				      store_code_name(codes[k]), i, err_name(many[i].op.err));
	}
	/* Also while they wait for a token. */
	CLEAN(fakeobj_rules(f, "auth:every=1:blackhole"));
	fakeobj_expire(f);
	many_submit(STORE_HEAD);
	clock_sleep(50 * NS_PER_MS);
	for (unsigned i = 0; i < MANY; i++)
		store_cancel(s, &many[i].op);
	(void)many_wait();
	ck_assert_uint_eq(count_err(-ECANCELED), MANY);
	end();	/* the renewer is still waiting for the service: nobody waits for the renewer */
}
END_TEST

/* Nothing is lost, nobody waits for ever, whichever allocation fails. */
START_TEST(test_any_allocation_may_fail)
{
	char spec[64];

	begin(NULL);
	for (unsigned n = 1, reached = 1; reached; n++) {
		struct tess_key key;
		struct tess_objinfo info;
		struct store_list l = { .max = 1, .keys = &key, .infos = &info };
		struct store_op op = { .req = &req, .code = STORE_LIST, .list = &l };
		int r;

		(void)snprintf(spec, sizeof(spec), "swift://c/%u?retry=0", n);
		opened(spec);
		store_close(s);
		(void)snprintf(spec, sizeof(spec), "alloc@%u=ENOMEM", n);
		CLEAN(fault_set(spec));
		(void)snprintf(spec, sizeof(spec), "swift://c/%u?retry=0", n);
		r = try(spec, false, 7);
		if (r == 0) {
			(void)put("a", 100);
			(void)get("a", 0, 100);
			(void)store_do(s, &op);
			(void)store_del(s, &req, "a");
			(void)store_usage(s, &(struct store_usage){ 0 });
			store_close(s);
		}
		s = NULL;
		reached = fault_hits("alloc") >= n;
		CLEAN(fault_set(NULL));
	}
	end();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_keystone_gives_a_token_for_each_kind_of_credential,
		test_a_wrong_key_is_told_at_once_and_without_it,
		test_a_revoked_token_is_renewed_and_the_op_goes_on,
		test_a_service_that_forgets_its_tokens_is_waited_for,
		test_a_service_that_goes_on_forgetting_is_busy,
		test_a_token_that_is_refused_is_told_when_the_store_is_opened,
		test_who_we_are_is_explained_without_a_secret,
		test_what_is_wrong_with_the_place_is_told_when_it_is_opened,
		test_two_file_systems_do_not_share_a_place,
		test_a_body_that_is_not_the_one_asked_for_is_an_error,
		test_a_put_that_is_not_confirmed_is_an_error,
		test_a_listing_goes_on_through_pages_of_any_length,
		test_deletions_that_come_together_go_together,
		test_a_bulk_delete_that_fails_inside_is_made_up_for,
		test_a_service_without_bulk_delete_is_not_asked_for_it,
		test_ops_that_a_service_swallows_end_when_cancelled,
	};
	Suite *suite = unit_suite("swift store", tests, ARRAY_SIZE(tests));
	TCase *load = tcase_create("load");

	suite_add_tcase(suite, load);
	tcase_set_timeout(load, 3600);
	tcase_add_test(load, test_any_allocation_may_fail);
	tcase_add_loop_test(load, test_tokens_of_a_second_or_two_are_renewed_under_load_without_an_error,
			    0, 2);
	return unit_run(suite);
}
