/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "unit.h"

START_TEST(test_the_monotonic_clock_does_not_go_back)
{
	int64_t a = clock_now();

	for (int i = 0; i < 1000; i++) {
		int64_t b = clock_now();

		ck_assert_int_ge(b, a);
		a = b;
	}
	ck_assert_int_gt(clock_wall(), INT64_C(1500000000) * NS_PER_S);
	ck_assert_int_gt(clock_wall_coarse(), INT64_C(1500000000) * NS_PER_S);
}
END_TEST

START_TEST(test_a_fake_clock_moves_by_sleeping_alone)
{
	clock_fake(5, 7);
	ck_assert_int_eq(clock_now(), 5);
	ck_assert_int_eq(clock_wall(), 7);
	ck_assert_int_eq(clock_wall_coarse(), 7);
	clock_sleep(3600 * NS_PER_S);
	ck_assert_int_eq(clock_now(), 5 + 3600 * NS_PER_S);
	ck_assert_int_eq(clock_wall(), 7 + 3600 * NS_PER_S);
	clock_sleep(-1);
	ck_assert_int_eq(clock_now(), 5 + 3600 * NS_PER_S);
	clock_fake(-1, -1);
	ck_assert_int_ne(clock_now(), 5 + 3600 * NS_PER_S);
}
END_TEST

START_TEST(test_a_real_sleep_lasts_at_least_as_long)
{
	int64_t start = clock_now();

	clock_sleep(2 * NS_PER_MS);
	ck_assert_int_ge(clock_now() - start, 2 * NS_PER_MS);
}
END_TEST

START_TEST(test_backoff_is_spread_below_a_doubling_bound)
{
	int64_t top = 0;

	for (unsigned attempt = 0; attempt < 100; attempt++)
		for (int i = 0; i < 50; i++) {
			int64_t bound = attempt < 10 ? NS_PER_MS << attempt : NS_PER_S;
			int64_t b = clock_backoff(attempt, NS_PER_MS, NS_PER_S);

			if (bound > NS_PER_S)
				bound = NS_PER_S;
			ck_assert_int_ge(b, 0);
			ck_assert_int_le(b, bound);
			if (b > top)
				top = b;
		}
	ck_assert_int_gt(top, NS_PER_S / 2);
	ck_assert_int_eq(clock_backoff(3, 0, NS_PER_S), 0);
	ck_assert_int_eq(clock_backoff(3, NS_PER_S, 0), 0);
}
END_TEST

UNIT_MAIN("clock", test_the_monotonic_clock_does_not_go_back,
	  test_a_fake_clock_moves_by_sleeping_alone, test_a_real_sleep_lasts_at_least_as_long,
	  test_backoff_is_spread_below_a_doubling_bound)
