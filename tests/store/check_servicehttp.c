/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/*
 * The stores behind HTTP, each kind of identity and each habit of a service: tokens that end, were
 * revoked or cannot be had for a while, clocks that are off, regions, listings in pages, uploads in
 * parts. The server checks signatures and tokens (tests/lib/fakeobj.h).
 *
 *	SERVICEHTTP_SECONDS	of load on short-lived credentials; 3
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "httptest.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

/* One of each kind of store is enough where it is not about identities. */
static const enum ht_service stores[] = { HT_S3, HT_TEMPAUTH };

static int64_t seconds(void)
{
	const char *v = getenv("SERVICEHTTP_SECONDS");

	return (v ? strtol(v, NULL, 10) : 3) * NS_PER_S;
}

START_TEST(test_each_identity_does_everything)
{
	ht_begin((enum ht_service)_i, "retry=0", NULL);
	ck_assert_uint_gt(ht_load(NS_PER_S / 20, 2), 5);
	ck_assert(ht_old_is_there());
	ck_assert_uint_eq(fakeobj_count(ht.server, "any", "denied"), 0);
	ht_end();
}
END_TEST

START_TEST(test_credentials_that_end_after_two_seconds_are_not_noticed)
{
	struct fakeobj_conf conf = { .life_ms = 2000 };
	unsigned done;

	ht_begin((enum ht_service)_i, "retry=0", &conf);
	done = ht_load(seconds(), 2);
	ck_assert_uint_gt(done, 50);
	/* Asked for again and again, but not for each request. */
	ck_assert_uint_ge(fakeobj_count(ht.server, "all", "issued"), 2);
	ck_assert_uint_lt(fakeobj_count(ht.server, "all", "issued"), 20 + done / 3);
	ht_end();
}
END_TEST

START_TEST(test_credentials_that_were_revoked_are_fetched_again)
{
	ht_begin((enum ht_service)_i, "retry=0", NULL);
	for (unsigned i = 0; i < 3; i++) {
		fakeobj_expire(ht.server);
		(void)ht_load(NS_PER_S / 20, 3);
	}
	ck_assert_uint_ge(fakeobj_count(ht.server, "all", "issued"), 4);
	ck_assert_uint_lt(fakeobj_count(ht.server, "all", "issued"), 40);
	ht_end();
}
END_TEST

START_TEST(test_who_issues_credentials_may_hiccup)
{
	struct fakeobj_conf conf = { .life_ms = 3000 };
	static const char *const kinds[] = { "500", "reset", "garbage", "short", "bad-body" };

	ht_begin((enum ht_service)_i, "retry=12&deadline=30s", &conf);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		ht_rules("creds:to=2:%s;auth:to=2:%s", kinds[i], kinds[i]);
		fakeobj_expire(ht.server);
		(void)ht_load(NS_PER_S / 5, 2);
	}
	ht_end();
}
END_TEST

START_TEST(test_wrong_secrets_are_refused_at_once_and_never_repeated_to_anybody)
{
	static const char wrong[] = "a+wrong/secret0that1nobody2may3see4again";
	char *why = NULL;
	int r;

	ht_serve(stores[_i], NULL);
	setenv(ht_is_s3() ? "AWS_SECRET_ACCESS_KEY" : "ST_KEY", wrong, 1);
	ht_uri("data/p", "retry=12");
	r = storetest_try(&ht.t, true, NULL, &why);
	ck_assert_int_eq(err_fold(r), -EACCES);
	ck_assert_ptr_nonnull(why);
	ck_assert_int_gt((int)strlen(why), 10);
	ck_assert_ptr_null(strstr(why, wrong));
	ck_assert_uint_lt(fakeobj_count(ht.server, "all", "all"), 10);
	free(why);
	ht_end();
}
END_TEST

START_TEST(test_a_bucket_that_is_not_there_is_said_so)
{
	char *why = NULL;
	int r;

	ht_serve(stores[_i], NULL);
	ht_uri("missing-one/p", "retry=2");
	r = storetest_try(&ht.t, false, NULL, &why);
	ck_assert_int_lt(r, 0);
	ck_assert_msg(why && strstr(why, "missing-one"), "%s", why ? why : "");
	free(why);
	ht_end();
}
END_TEST

START_TEST(test_listings_in_pages_of_three_are_whole_and_in_order)
{
	struct fakeobj_conf conf = { .page = 3 };
	static const unsigned slots[] = { 1, 2, 3, 4, 7, 100 };
	struct tess_key keys[100];
	struct tess_objinfo infos[100];
	char name[16];

	ht_begin(stores[_i], "retry=0", &conf);
	for (unsigned i = 0; i < 22; i++) {
		(void)snprintf(name, sizeof(name), "%02u.x_-", i);
		CLEAN(storetest_put(&ht.t, name, i));
	}
	for (size_t i = 0; i < ARRAY_SIZE(slots); i++) {
		struct store_list l = { .max = slots[i], .keys = keys, .infos = infos };
		struct store_op op = { .req = &ht.t.req, .code = STORE_LIST, .list = &l };
		unsigned n = 0;

		do {
			CLEAN(store_do(ht.t.s, &op));
			for (unsigned j = 0; j < l.n; j++, n++) {
				(void)snprintf(name, sizeof(name), "%02u.x_-", n);
				ck_assert_str_eq(keys[j].name, n < 22 ? name : "old");
				ck_assert_uint_eq(infos[j].size, n < 22 ? n : HT_OLD_SIZE);
			}
			ck_assert(l.n > 0 || !l.more);
			if (l.n > 0)
				l.after = keys[l.n - 1];
		} while (l.more);
		ck_assert_uint_eq(n, 23);
	}
	ht_end();
}
END_TEST

/* --- habits of services --- */

START_TEST(test_a_clock_that_is_off_is_mended_or_told)
{
	struct fakeobj_conf conf = { .skew = 1800 };
	char *why = NULL;
	int r;

	ht_serve(HT_S3, &conf);
	ht_uri("data/p", "retry=0");
	r = storetest_try(&ht.t, true, NULL, &why);
	if (r < 0) {
		ck_assert_msg(strstr(why, "clock") != NULL, "%s", why);
	} else {
		CLEAN(storetest_put(&ht.t, "old", HT_OLD_SIZE));
		ck_assert(ht_old_is_there());
	}
	free(why);
	ht_end();
}
END_TEST

START_TEST(test_a_region_that_was_not_given_is_asked_for)
{
	struct fakeobj_conf conf = { .region = "eu-test-1" };

	ht_begin(HT_S3, "retry=0", &conf);
	ck_assert(ht_old_is_there());
	ht_end();
	ht_begin(HT_S3, "retry=0&region=eu-test-1", &conf);
	ck_assert_uint_gt(ht_load(NS_PER_S / 50, 1), 4);
	ht_end();
}
END_TEST

/* "data.localhost": the transport knows where that is without asking anybody. */
START_TEST(test_a_bucket_in_the_name_of_the_host)
{
	ht_serve(HT_S3, NULL);
	free(ht.t.uri);
	ck_assert_int_gt(asprintf(&ht.t.uri, "s3://data/p?endpoint=http://localhost:%u&path-style=0&"
				  "retry=0", fakeobj_port(ht.server)), 0);
	storetest_open(&ht.t, true, NULL);
	CLEAN(storetest_put(&ht.t, "old", HT_OLD_SIZE));
	ck_assert_uint_gt(ht_load(NS_PER_S / 20, 1), 4);
	ck_assert_uint_eq(fakeobj_objects(ht.server, "data/p/old", NULL), 1);
	ht_end();
}
END_TEST

START_TEST(test_a_body_is_signed_or_not)
{
	static const char *const queries[] = {
		"retry=0&payload-hash=sha256", "retry=0&payload-hash=unsigned",
		"retry=0&checksum=md5", "retry=0&checksum=crc32c",
	};

	for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
		ht_begin(HT_S3, queries[i], NULL);
		ck_assert_uint_gt(ht_load(NS_PER_S / 50, 1), 4);
		ht_end();
	}
}
END_TEST

START_TEST(test_a_service_without_conditions_or_bulk_deletion_will_do)
{
	struct fakeobj_conf conf = { .no_conditional = true, .no_bulk = true };

	ht_begin(stores[_i], "retry=0", &conf);
	ck_assert_uint_gt(ht_load(NS_PER_S / 10, 4), 20);
	ht_end();
}
END_TEST

#define BIG (12u << 20)

START_TEST(test_uploads_in_parts_are_whole_or_fail)
{
	/* The last two are carried out: a completion is found to be, a part goes up again with the rest. */
	static const char *const kinds[] = { "ok-error", "500", "403", "reset-after", "short" };

	ht_begin(HT_S3, "retry=0&max-put=5M", NULL);
	CLEAN(storetest_put(&ht.t, "big", BIG));
	CLEAN(storetest_verify(&ht.t, "big", BIG));
	/* 1: begin; 2, 3, 4: parts; 5: complete. */
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		char name[16];
		int r;

		(void)snprintf(name, sizeof(name), "big%zu", i);
		ht_rules("other:nth=2:%s", kinds[i]);
		r = storetest_put(&ht.t, name, BIG);
		ht_rules("%s", "");
		ck_assert_msg((r == 0) == (i >= 3), "%s: %s", kinds[i], err_name(r));
		if (r == 0)
			CLEAN(storetest_verify(&ht.t, name, BIG));
		ck_assert_msg(r != -ENOENT, "%s: looks as if something were missing", kinds[i]);
		CLEAN(storetest_put(&ht.t, name, BIG));
		CLEAN(storetest_verify(&ht.t, name, BIG));
		ht_rules("put:nth=2:%s", kinds[i]);
		r = storetest_put(&ht.t, name, BIG);
		ht_rules("%s", "");
		ck_assert_msg(r < 0, "%s: a part: succeeded", kinds[i]);
		CLEAN(storetest_verify(&ht.t, name, BIG));
		CLEAN(store_del(ht.t.s, &ht.t.req, name));
	}
	ht_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("servicehttp");
	TCase *each = tcase_create("stores"), *who = tcase_create("identities");

	/* A failed test ends without flushing. */
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	tcase_set_timeout(each, 60);
	tcase_set_timeout(who, 30 + (double)seconds() / NS_PER_S);
	suite_add_tcase(s, each);
	suite_add_tcase(s, who);
#define EACH(test) tcase_add_loop_test(each, test, 0, ARRAY_SIZE(stores))
#define WHO(test) tcase_add_loop_test(who, test, HT_S3 + 1, HT_N)
	EACH(test_wrong_secrets_are_refused_at_once_and_never_repeated_to_anybody);
	EACH(test_a_bucket_that_is_not_there_is_said_so);
	EACH(test_listings_in_pages_of_three_are_whole_and_in_order);
	EACH(test_a_service_without_conditions_or_bulk_deletion_will_do);
	tcase_add_test(each, test_a_clock_that_is_off_is_mended_or_told);
	tcase_add_test(each, test_a_region_that_was_not_given_is_asked_for);
	tcase_add_test(each, test_a_bucket_in_the_name_of_the_host);
	tcase_add_test(each, test_a_body_is_signed_or_not);
	tcase_add_test(each, test_uploads_in_parts_are_whole_or_fail);
	WHO(test_each_identity_does_everything);
	WHO(test_credentials_that_end_after_two_seconds_are_not_noticed);
	WHO(test_credentials_that_were_revoked_are_fetched_again);
	WHO(test_who_issues_credentials_may_hiccup);
	return unit_run(s);
}
