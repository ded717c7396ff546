/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#include "base/clock.h"
#include "base/err.h"
#include "unit.h"
#include <signal.h>
#include <string.h>

START_TEST(test_an_unarmed_point_does_nothing)
{
	ck_assert_int_eq(fault_point("a"), 0);
	ck_assert_uint_eq(fault_hits("a"), 0);
}
END_TEST

START_TEST(test_only_the_nth_hit_fails)
{
	CLEAN(fault_set("a@3=ENOSPC"));
	for (int i = 1; i <= 6; i++)
		ck_assert_int_eq(fault_point("a"), i == 3 ? -ENOSPC : 0);
	ck_assert_int_eq(fault_point("b"), 0);
	ck_assert_uint_eq(fault_hits("a"), 6);
	ck_assert_uint_eq(fault_hits("b"), 1);
	CLEAN(fault_set(NULL));
	ck_assert_int_eq(fault_point("a"), 0);
}
END_TEST

START_TEST(test_every_nth_percent_and_star)
{
	int n = 0;

	CLEAN(fault_set("a#2=EIO,b%100=TESS_E_CHECKSUM,*@4=EAGAIN"));
	ck_assert_int_eq(fault_point("a"), 0);
	ck_assert_int_eq(fault_point("a"), -EIO);
	ck_assert_int_eq(fault_point("b"), -TESS_E_CHECKSUM);
	ck_assert_int_eq(fault_point("c"), -EAGAIN);
	CLEAN(fault_set("a%50=EIO"));
	for (int i = 0; i < 1000; i++)
		n += fault_point("a") != 0;
	ck_assert_int_gt(n, 300);
	ck_assert_int_lt(n, 700);
	CLEAN(fault_set("a@0=EIO,b%0=EIO"));
	ck_assert_int_eq(fault_point("a") | fault_point("b"), 0);
	ck_assert_uint_eq(fault_hits("a"), 1);
}
END_TEST

START_TEST(test_a_delay_sleeps)
{
	clock_fake(0, 0);
	CLEAN(fault_set("a=delay:20ms"));
	ck_assert_int_eq(fault_point("a"), 0);
	ck_assert_int_eq(clock_now(), 20 * NS_PER_MS);
}
END_TEST

START_TEST(test_kill_does_not_return)
{
	CLEAN(fault_set("a=kill"));
	ck_assert_int_eq(fault_point("a"), 1);
}
END_TEST

static const char *const bad[] = {
	"a", "=EIO", "a=", "a=ENOSUCH", "a@=EIO", "a@x=EIO", "a#0=EIO", "a%101=EIO", "a=delay:", "a@-1=EIO",
	"ok=EIO,a=delay:1parsec",
};

START_TEST(test_what_does_not_parse_changes_nothing)
{
	CLEAN(fault_set("keep=EIO"));
	ck_assert_int_eq(fault_set(bad[_i]), -TESS_E_OPT_VALUE);
	ck_assert_int_eq(fault_point("keep"), -EIO);
	ck_assert_int_eq(fault_point("ok"), 0);
}
END_TEST

START_TEST(test_every_allocator_can_fail)
{
	char keep[4] = "abc", *p = strdup(keep);

	CLEAN(fault_set("alloc=ENOMEM"));
	ck_assert_ptr_null(mem_alloc(1));
	ck_assert_ptr_null(mem_zalloc(1));
	ck_assert_ptr_null(mem_array(1, 1));
	ck_assert_ptr_null(mem_resize(p, 10, 1));
	ck_assert_str_eq(p, keep);
	ck_assert_ptr_null(mem_strdup("a"));
	ck_assert_ptr_null(mem_printf("%d", 1));
	ck_assert_ptr_null(mem_pages(1));
	ck_assert_uint_eq(fault_hits("alloc"), 7);
	free(p);
}
END_TEST

START_TEST(test_overflow_is_failure_and_memory_is_as_promised)
{
	char *p;

	ck_assert_ptr_null(mem_array(SIZE_MAX / 2, 3));
	ck_assert_ptr_null(mem_resize(NULL, SIZE_MAX / 2, 3));
	ck_assert_ptr_null(mem_pages(SIZE_MAX - 1));
	p = mem_array(100, 7);
	for (int i = 0; i < 700; i++)
		ck_assert_int_eq(p[i], 0);
	free(p);
	p = mem_pages(5000);
	ck_assert_uint_eq((uintptr_t)p % 4096, 0);
	memset(p, 1, 8192);
	free(p);
	p = mem_printf("%s-%d", "x", 5);
	ck_assert_str_eq(p, "x-5");
	free(p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fault");
	TCase *c = tcase_create("fault");

	suite_add_tcase(s, c);
	tcase_add_test(c, test_an_unarmed_point_does_nothing);
	tcase_add_test(c, test_only_the_nth_hit_fails);
	tcase_add_test(c, test_every_nth_percent_and_star);
	tcase_add_test(c, test_a_delay_sleeps);
	tcase_add_test_raise_signal(c, test_kill_does_not_return, SIGKILL);
	tcase_add_loop_test(c, test_what_does_not_parse_changes_nothing, 0,
			    sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(c, test_every_allocator_can_fail);
	tcase_add_test(c, test_overflow_is_failure_and_memory_is_as_promised);
	return unit_run(s);
}
