/* SPDX-License-Identifier: Apache-2.0 */
#include "base/range.h"

#include "base/fault.h"
#include "base/htab.h"
#include "unit.h"
#include <errno.h>
#include <string.h>

#define R(o, l) ((struct tess_range){ .off = (o), .len = (l) })
#define SPACE 256

static void has_exactly(const struct range_set *s, const char *want)	/* "0+10 20+5" */
{
	char got[256] = "";
	size_t n = 0;
	struct tess_range r;

	for (uint64_t at = 0; range_set_next(s, at, &r); at = r.off + r.len)
		n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%d+%d", n ? " " : "", (int)r.off,
				      (int)r.len);
	ck_assert_str_eq(got, want);
	tree_check(&s->tree);
}

START_TEST(test_intersection_never_overflows)
{
	struct tess_range r;

	ck_assert(range_intersect(R(0, UINT64_MAX), R(UINT64_MAX - 1, 1), &r));
	ck_assert_uint_eq(r.off, UINT64_MAX - 1);
	ck_assert_uint_eq(r.len, 1);
	ck_assert(!range_intersect(R(0, 10), R(10, 10), &r));
	ck_assert(!range_intersect(R(5, 0), R(0, 10), &r));
	ck_assert(range_intersect(R(5, 10), R(0, 7), &r));
	ck_assert_uint_eq(r.off, 5);
	ck_assert_uint_eq(r.len, 2);
}
END_TEST

START_TEST(test_touching_ranges_merge)
{
	struct range_set s = { TREE_INIT };

	CLEAN(range_set_add(&s, R(10, 10)));
	CLEAN(range_set_add(&s, R(30, 10)));
	has_exactly(&s, "10+10 30+10");
	CLEAN(range_set_add(&s, R(20, 10)));
	has_exactly(&s, "10+30");
	CLEAN(range_set_add(&s, R(5, 5)));
	has_exactly(&s, "5+35");
	CLEAN(range_set_add(&s, R(100, 1)));
	CLEAN(range_set_add(&s, R(102, 1)));
	CLEAN(range_set_add(&s, R(0, 101)));
	has_exactly(&s, "0+101 102+1");
	CLEAN(range_set_add(&s, R(50, 0)));
	has_exactly(&s, "0+101 102+1");
	range_set_done(&s);
	ck_assert_ptr_null(s.tree.root);
}
END_TEST

START_TEST(test_removal_splits_trims_and_drops)
{
	struct range_set s = { TREE_INIT };

	CLEAN(range_set_add(&s, R(0, 100)));
	CLEAN(range_set_remove(&s, R(40, 10)));
	has_exactly(&s, "0+40 50+50");
	CLEAN(range_set_remove(&s, R(30, 30)));
	has_exactly(&s, "0+30 60+40");
	CLEAN(range_set_remove(&s, R(0, 30)));
	has_exactly(&s, "60+40");
	CLEAN(range_set_remove(&s, R(90, 100)));
	has_exactly(&s, "60+30");
	CLEAN(range_set_remove(&s, R(0, UINT64_MAX)));
	has_exactly(&s, "");
	range_set_done(&s);
}
END_TEST

START_TEST(test_without_memory_the_set_is_unchanged)
{
	struct range_set s = { TREE_INIT };

	CLEAN(range_set_add(&s, R(0, 100)));
	CLEAN(fault_set("alloc=ENOMEM"));
	ck_assert_int_eq(range_set_add(&s, R(200, 1)), -ENOMEM);
	ck_assert_int_eq(range_set_remove(&s, R(10, 10)), -ENOMEM);
	has_exactly(&s, "0+100");
	/* What needs no node works all the same. */
	CLEAN(range_set_add(&s, R(100, 10)));
	CLEAN(range_set_remove(&s, R(0, 10)));
	has_exactly(&s, "10+100");
	range_set_done(&s);
}
END_TEST

START_TEST(test_a_range_past_the_end_is_refused)
{
	struct range_set s = { TREE_INIT };

	ck_assert_int_eq(range_set_add(&s, R(UINT64_MAX, 1)), -EOVERFLOW);
	ck_assert_int_eq(range_set_remove(&s, R(2, UINT64_MAX)), -EOVERFLOW);
	ck_assert(!range_set_has(&s, R(2, UINT64_MAX)));
}
END_TEST

static void compare(const struct range_set *s, const unsigned char *ref)
{
	struct tess_range r = { 0, 0 };
	uint64_t at = 0, sum = 0;

	while (range_set_next(s, at, &r)) {
		for (; at < r.off; at++)
			ck_assert(!ref[at]);
		for (; at < r.off + r.len; at++, sum++)
			ck_assert(ref[at]);
		ck_assert(at == SPACE || !ref[at]);	/* merged as far as it goes */
	}
	for (; at < SPACE; at++)
		ck_assert(!ref[at]);
	ck_assert_uint_eq(range_set_bytes(s), sum);
}

START_TEST(test_random_changes_agree_with_a_byte_map)
{
	struct range_set s = { TREE_INIT };
	unsigned char ref[SPACE] = { 0 };
	uint64_t rnd = (uint64_t)_i;

	for (int step = 0; step < 3000; step++) {
		uint64_t off = (rnd = hash64(rnd + 0x9e3779b97f4a7c15)) % SPACE;
		uint64_t len = (rnd >> 16) % (SPACE - off) / (1 + step % 8);
		bool add = rnd >> 63;

		CLEAN(add ? range_set_add(&s, R(off, len)) : range_set_remove(&s, R(off, len)));
		memset(ref + off, add, len);
		ck_assert_int_eq(range_set_has(&s, R(off, len)), add || !len);
		compare(&s, ref);
	}
	tree_check(&s.tree);
	range_set_done(&s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("range");
	TCase *c = tcase_create("range");

	suite_add_tcase(s, c);
	tcase_add_test(c, test_intersection_never_overflows);
	tcase_add_test(c, test_touching_ranges_merge);
	tcase_add_test(c, test_removal_splits_trims_and_drops);
	tcase_add_test(c, test_without_memory_the_set_is_unchanged);
	tcase_add_test(c, test_a_range_past_the_end_is_refused);
	tcase_add_loop_test(c, test_random_changes_agree_with_a_byte_map, 0, 4);
	return unit_run(s);
}
