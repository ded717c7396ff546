/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lock.h"

#include "base/clock.h"
#include "unit.h"
#include <signal.h>
#include <stdint.h>

static struct lock outer, inner;
static struct cond cond;
static int shared;

static void setup(void)
{
	lock_init(&outer, LOCK_META, "outer");
	lock_init(&inner, LOCK_LEAF, "inner");
	cond_init(&cond);
}

static void teardown(void)
{
	cond_done(&cond);
	lock_done(&inner);
	lock_done(&outer);
}

static void *add(void *arg)
{
	for (int i = 0; i < 20000; i++) {
		scoped_lock(&outer);
		shared++;
	}
	return arg;
}

START_TEST(test_a_lock_excludes_and_its_scope_releases)
{
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, add, NULL), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(shared, 60000);
}
END_TEST

START_TEST(test_rising_ranks_may_nest)
{
	lock_assert_none("here");
	lock_take(&outer);
	lock_take(&inner);
	lock_assert_held(&outer);
	lock_assert_held(&inner);
	lock_drop(&outer);
	lock_drop(&inner);
	lock_assert_none("here");
}
END_TEST

START_TEST(test_a_wait_ends_at_its_deadline)
{
	int64_t until = clock_now() + 2 * NS_PER_MS;

	lock_take(&outer);
	while (cond_wait_until(&cond, &outer, until))
		;
	ck_assert_int_ge(clock_now(), until);
	ck_assert(!cond_wait_until(&cond, &outer, until));
	lock_drop(&outer);
}
END_TEST

static void *signaller(void *arg)
{
	scoped_lock(&outer);
	shared = 1;
	cond_wake_all(&cond);
	return arg;
}

START_TEST(test_a_wait_ends_when_woken)
{
	pthread_t t;

	lock_take(&outer);
	ck_assert_int_eq(pthread_create(&t, NULL, signaller, NULL), 0);
	while (!shared)
		ck_assert(cond_wait_until(&cond, &outer, _i ? CLOCK_NEVER : clock_now() + 60 * NS_PER_S));
	lock_drop(&outer);
	pthread_join(t, NULL);
}
END_TEST

#ifdef TESS_DEBUG
START_TEST(test_a_falling_rank_aborts)
{
	lock_take(&inner);
	lock_take(&outer);
}
END_TEST

START_TEST(test_an_equal_rank_aborts)
{
	struct lock twin;

	lock_init(&twin, LOCK_META, "twin");
	lock_take(&outer);
	lock_take(&twin);
}
END_TEST

START_TEST(test_a_lock_that_should_be_held_and_is_not_aborts)
{
	lock_take(&outer);
	lock_assert_held(&inner);
}
END_TEST

START_TEST(test_a_lock_where_none_may_be_held_aborts)
{
	lock_take(&outer);
	lock_assert_none("a slow call");
}
END_TEST
#endif

int main(void)
{
	Suite *s = suite_create("lock");
	TCase *c = tcase_create("lock");

	suite_add_tcase(s, c);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, test_a_lock_excludes_and_its_scope_releases);
	tcase_add_test(c, test_rising_ranks_may_nest);
	tcase_add_test(c, test_a_wait_ends_at_its_deadline);
	tcase_add_loop_test(c, test_a_wait_ends_when_woken, 0, 2);
#ifdef TESS_DEBUG
	tcase_add_test_raise_signal(c, test_a_falling_rank_aborts, SIGABRT);
	tcase_add_test_raise_signal(c, test_an_equal_rank_aborts, SIGABRT);
	tcase_add_test_raise_signal(c, test_a_lock_that_should_be_held_and_is_not_aborts, SIGABRT);
	tcase_add_test_raise_signal(c, test_a_lock_where_none_may_be_held_aborts, SIGABRT);
#endif
	return unit_run(s);
}
