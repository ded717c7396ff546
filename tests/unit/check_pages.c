/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pages.h"
#include "unit.h"
#include <stdint.h>
#include <string.h>

START_TEST(pages_are_aligned_and_nobody_elses)
{
	static const size_t sizes[] = { 4096, 8192, 49152, 65536, 1 << 20, 4 << 20, 5 << 20 };
	char *p[7][300];

	for (unsigned i = 0; i < 7; i++)
		for (unsigned k = 0; k < (i < 4 ? 300 : 4); k++) {
			p[i][k] = pages_take(sizes[i]);
			ck_assert_ptr_nonnull(p[i][k]);
			ck_assert_uint_eq((uintptr_t)p[i][k] % 4096, 0);
			memset(p[i][k], (int)(i * 50 + k), sizes[i]);
		}
	for (unsigned i = 0; i < 7; i++)
		for (unsigned k = 0; k < (i < 4 ? 300 : 4); k++) {
			ck_assert_int_eq(p[i][k][0], (char)(i * 50 + k));
			ck_assert_int_eq(p[i][k][sizes[i] - 1], (char)(i * 50 + k));
			pages_give(p[i][k], sizes[i]);
		}
	pages_give(NULL, 4096);
}
END_TEST

START_TEST(what_waits_for_a_taker_is_bounded_and_can_be_given_back)
{
	void *p[40];

	for (unsigned i = 0; i < 40; i++)
		p[i] = pages_take(4 << 20);
	for (unsigned i = 0; i < 40; i++)
		pages_give(p[i], 4 << 20);
	ck_assert_uint_le(pages_idle(), PAGES_KEPT);
	pages_trim();
	ck_assert_uint_eq(pages_idle(), 0);
}
END_TEST

START_TEST(slabs_empty_in_any_order)
{
	static void *p[2000];

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 2000; i++)
			p[i] = pages_take(4096);
		for (unsigned i = 0; i < 2000; i++)
			pages_give(p[i * 7 % 2000], 4096);
	}
}
END_TEST

UNIT_MAIN("pages", pages_are_aligned_and_nobody_elses,
	  what_waits_for_a_taker_is_bounded_and_can_be_given_back, slabs_empty_in_any_order)
