/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trace.h"

#include "base/text.h"
#include "unit.h"
#include <jansson.h>
#include <pthread.h>

static struct trace_counter counters[] = { { .name = "puts" }, { .name = "bytes" } };
static struct trace_hist hists[] = { { .name = "lat" } };
static struct trace_group group = {
	.name = "store.0", .counters = counters, .ncounters = 2, .hists = hists, .nhists = 1,
};
static struct trace_group empty = { .name = "a \"quoted\" one" };

START_TEST(test_a_quantile_bounds_what_was_added)
{
	ck_assert_uint_eq(trace_quantile(&hists[0], 0.5), 0);
	for (int i = 0; i < 99; i++)
		trace_lat(&hists[0], 1000);
	trace_lat(&hists[0], 1000000);
	ck_assert_uint_eq(trace_quantile(&hists[0], 0.5), 1024);
	ck_assert_uint_eq(trace_quantile(&hists[0], 0.99), 1024);
	ck_assert_uint_eq(trace_quantile(&hists[0], 1.0), 1048576);
	ck_assert_uint_eq(hists[0].n, 100);
	ck_assert_uint_eq(hists[0].sum_ns, 99 * 1000 + 1000000);
}
END_TEST

START_TEST(test_extreme_latencies_have_a_bucket)
{
	trace_lat(&hists[0], -5);
	trace_lat(&hists[0], 0);
	trace_lat(&hists[0], INT64_MAX);
	ck_assert_uint_eq(hists[0].bucket[0], 2);
	ck_assert_uint_eq(hists[0].bucket[TRACE_BUCKETS - 1], 1);
}
END_TEST

START_TEST(test_dump_lists_registered_groups_only)
{
	struct text t = TEXT_INIT;

	trace_register(&group);
	trace_register(&empty);
	trace_add(&counters[1], 4096);
	trace_dump(&t, 0);
	ck_assert_ptr_nonnull(strstr(text_str(&t), "store.0.puts 0\nstore.0.bytes 4096\n"));
	text_clear(&t);
	trace_unregister(&group);
	trace_unregister(&group);
	trace_dump(&t, 0);
	ck_assert_str_eq(text_str(&t), "");
	text_done(&t);
}
END_TEST

START_TEST(test_json_dump_is_json)
{
	struct text t = TEXT_INIT;
	json_t *j;

	trace_register(&group);
	trace_register(&empty);
	trace_add(&counters[0], 3);
	trace_lat(&hists[0], 100);
	trace_dump(&t, 1);
	j = json_loads(text_str(&t), 0, NULL);
	ck_assert_ptr_nonnull(j);
	ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(j, "store.0"), "puts")), 3);
	ck_assert_ptr_nonnull(json_object_get(j, empty.name));
	json_decref(j);
	text_done(&t);
}
END_TEST

static void *adder(void *arg)
{
	for (int i = 0; i < 10000; i++) {
		trace_add(&counters[0], 1);
		trace_lat(&hists[0], i);
	}
	return arg;
}

START_TEST(test_no_addition_is_lost_between_threads)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, adder, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_eq(counters[0].n, 40000);
	ck_assert_uint_eq(hists[0].n, 40000);
}
END_TEST

UNIT_MAIN("trace", test_a_quantile_bounds_what_was_added, test_extreme_latencies_have_a_bucket,
	  test_dump_lists_registered_groups_only, test_json_dump_is_json,
	  test_no_addition_is_lost_between_threads)
