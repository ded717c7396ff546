/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "base/fault.h"
#include "unit.h"
#include <errno.h>
#include <string.h>

START_TEST(test_a_buffer_is_charged_until_its_last_reference_goes)
{
	struct budget *budget;
	struct buf *b;

	CLEAN(budget_new(&budget, 1 << 20));
	b = buf_new(budget, MEM_CACHE, 5000);
	ck_assert_uint_eq(b->cap, 8192);
	ck_assert_uint_eq((uintptr_t)b->data % 4096, 0);
	memset(b->data, 1, b->cap);
	ck_assert_uint_eq(budget_used(budget, MEM_CACHE), 8192);
	ck_assert_ptr_eq(buf_ref(b), b);
	buf_unref(b);
	ck_assert_uint_eq(budget_used(budget, MEM_CACHE), 8192);
	buf_unref(b);
	ck_assert_uint_eq(budget_used(budget, MEM_CACHE), 0);
	buf_unref(NULL);
	budget_free(budget);
}
END_TEST

START_TEST(test_an_empty_or_uncharged_buffer_is_one_page)
{
	struct buf *b = buf_new(NULL, MEM_IO, 0);

	ck_assert_uint_eq(b->cap, 4096);
	buf_unref(b);
	ck_assert_ptr_null(buf_new(NULL, MEM_IO, SIZE_MAX));
}
END_TEST

START_TEST(test_no_buffer_without_memory_and_nothing_charged)
{
	char spec[32];
	struct budget *budget;

	CLEAN(budget_new(&budget, 1 << 20));
	snprintf(spec, sizeof(spec), "alloc@%d=ENOMEM", _i);
	CLEAN(fault_set(spec));
	ck_assert_ptr_null(buf_new(budget, MEM_DIRTY, 1));
	ck_assert_uint_eq(budget_used(budget, MEM_DIRTY), 0);
	CLEAN(fault_set(NULL));
	budget_free(budget);
}
END_TEST

static char a[3], c[5];
static struct iovec parts[] = { { a, 3 }, { NULL, 0 }, { c, 5 } };
static const struct tess_iov whole = { parts, 3, 8 };

START_TEST(test_copies_cross_the_parts_and_stop_at_the_end)
{
	char out[16] = "";

	ck_assert_uint_eq(iov_copy_in(&whole, 0, "abcdefgh", 8), 8);
	ck_assert_uint_eq(iov_copy_out(out, &whole, 2, 4), 4);
	ck_assert_mem_eq(out, "cdef", 4);
	ck_assert_uint_eq(iov_copy_out(out, &whole, 6, 16), 2);
	ck_assert_uint_eq(iov_copy_out(out, &whole, 8, 1), 0);
	ck_assert_uint_eq(iov_copy_out(out, &whole, UINT64_MAX, 1), 0);
	ck_assert_uint_eq(iov_copy_in(&whole, 3, "XYZ", 3), 3);
	ck_assert_mem_eq(a, "abc", 3);
	ck_assert_mem_eq(c, "XYZgh", 5);
	ck_assert_uint_eq(iov_zero(&whole, 1, 3), 3);
	ck_assert_mem_eq(a, "a\0\0", 3);
	ck_assert_mem_eq(c, "\0YZgh", 5);
	ck_assert_uint_eq(iov_zero(&whole, 7, 100), 1);
	ck_assert_int_eq(c[4], 0);
}
END_TEST

START_TEST(test_a_slice_points_into_the_same_memory)
{
	struct iovec got[2];
	unsigned n = 2;

	CLEAN(iov_slice(&whole, 1, 4, got, &n));
	ck_assert_uint_eq(n, 2);
	ck_assert_ptr_eq(got[0].iov_base, a + 1);
	ck_assert_uint_eq(got[0].iov_len, 2);
	ck_assert_ptr_eq(got[1].iov_base, c);
	ck_assert_uint_eq(got[1].iov_len, 2);
	n = 1;
	ck_assert_int_eq(iov_slice(&whole, 1, 4, got, &n), -E2BIG);
	ck_assert_uint_eq(n, 1);
	CLEAN(iov_slice(&whole, 3, 5, got, &n));
	ck_assert_uint_eq(n, 1);
	n = 0;
	CLEAN(iov_slice(&whole, 3, 0, got, &n));
	ck_assert_uint_eq(n, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("buf");
	TCase *t = tcase_create("buf");

	suite_add_tcase(s, t);
	tcase_add_test(t, test_a_buffer_is_charged_until_its_last_reference_goes);
	tcase_add_test(t, test_an_empty_or_uncharged_buffer_is_one_page);
	tcase_add_loop_test(t, test_no_buffer_without_memory_and_nothing_charged, 1, 3);
	tcase_add_test(t, test_copies_cross_the_parts_and_stop_at_the_end);
	tcase_add_test(t, test_a_slice_points_into_the_same_memory);
	return unit_run(s);
}
