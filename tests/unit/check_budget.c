/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"

#include "base/clock.h"
#include "unit.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define LIMIT 1000

static struct budget *b;
static atomic_int kicks;
static uint64_t wanted;

static void setup(void)
{
	CLEAN(budget_new(&b, LIMIT));
}

static void teardown(void)
{
	budget_free(b);
}

START_TEST(test_shares_are_a_half_a_quarter_and_all)
{
	budget_charge(b, MEM_DIRTY, 500);
	budget_charge(b, MEM_IO, 250);
	budget_charge(b, MEM_CACHE, 250);
	ck_assert(!budget_over(b, MEM_DIRTY) && !budget_over(b, MEM_IO) && !budget_over(b, MEM_CACHE));
	budget_charge(b, MEM_CACHE, 1);
	ck_assert(!budget_over(b, MEM_DIRTY) && !budget_over(b, MEM_IO) && budget_over(b, MEM_CACHE));
	budget_charge(b, MEM_DIRTY, 1);
	budget_charge(b, MEM_IO, 1);
	ck_assert(budget_over(b, MEM_DIRTY) && budget_over(b, MEM_IO));
	budget_credit(b, MEM_DIRTY, 501);
	ck_assert_uint_eq(budget_used(b, MEM_DIRTY), 0);
	ck_assert_uint_eq(budget_limit(b), LIMIT);
}
END_TEST

START_TEST(test_the_default_fits_the_machine)
{
	struct budget *d;

	CLEAN(budget_new(&d, 0));
	ck_assert_uint_ge(budget_limit(d), UINT64_C(64) << 20);
	ck_assert_uint_le(budget_limit(d), UINT64_C(4) << 30);
	budget_free(d);
}
END_TEST

static void kick(void *arg)
{
	(void)arg;
	kicks++;
}

START_TEST(test_a_wait_that_nobody_ends_times_out_and_kicks)
{
	budget_set_reclaim(b, NULL, kick, NULL);
	CLEAN(budget_wait_dirty(b, NULL, clock_now()));
	budget_charge(b, MEM_DIRTY, 501);
	ck_assert_int_eq(budget_wait_dirty(b, NULL, clock_now() + 5 * NS_PER_MS), -ETIMEDOUT);
	ck_assert_int_ge(kicks, 1);
}
END_TEST

static void reclaim(void *arg, uint64_t want)
{
	(void)arg;
	wanted = want;
	budget_credit(b, MEM_CACHE, want);
}

START_TEST(test_cache_is_given_back_before_a_writer_waits)
{
	budget_set_reclaim(b, reclaim, kick, NULL);
	budget_charge(b, MEM_CACHE, 900);
	budget_charge(b, MEM_DIRTY, 300);
	CLEAN(budget_wait_dirty(b, NULL, CLOCK_NEVER));
	ck_assert_uint_eq(wanted, 200);
	ck_assert_int_eq(kicks, 0);
}
END_TEST

static void *writer(void *arg)
{
	for (int i = 0; i < 2000; i++) {
		ck_assert_int_eq(budget_wait_dirty(b, NULL, CLOCK_NEVER), 0);
		budget_charge(b, MEM_DIRTY, 100);
	}
	return arg;
}

static void *cleaner(void *arg)
{
	for (int i = 0; i < 4000; i++) {
		while (budget_used(b, MEM_DIRTY) < 100)
			clock_sleep(1000);
		budget_credit(b, MEM_DIRTY, 100);
	}
	return arg;
}

START_TEST(test_every_waiter_is_woken)
{
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, i ? writer : cleaner, NULL), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_eq(budget_used(b, MEM_DIRTY), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("budget");
	TCase *c = tcase_create("budget");

	suite_add_tcase(s, c);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, test_shares_are_a_half_a_quarter_and_all);
	tcase_add_test(c, test_the_default_fits_the_machine);
	tcase_add_test(c, test_a_wait_that_nobody_ends_times_out_and_kicks);
	tcase_add_test(c, test_cache_is_given_back_before_a_writer_waits);
	tcase_add_test(c, test_every_waiter_is_woken);
	return unit_run(s);
}
