/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tree.h"

#include "base/htab.h"
#include "unit.h"
#include <string.h>

#define N 512

static struct tree_node nodes[N];
static bool in[N];

/* Node i has key 2 i, so that odd keys fall between. */
static void put(struct tree *t, unsigned i)
{
	nodes[i].key = 2 * i;
	ck_assert(tree_insert(t, &nodes[i]));
	in[i] = true;
}

static int below(unsigned i)	/* index of the greatest present node <= i, or -1 */
{
	int k = (int)i;

	while (k >= 0 && !in[k])
		k--;
	return k;
}

static int above(unsigned i)
{
	int k = (int)i;

	while (k < N && !in[k])
		k++;
	return k < N ? k : -1;
}

START_TEST(test_ascending_and_descending_insertion_stay_balanced)
{
	struct tree t = TREE_INIT;

	for (unsigned i = 0; i < N; i++)
		put(&t, _i ? N - 1 - i : i);
	tree_check(&t);
	ck_assert_uint_eq(t.n, N);
	ck_assert_ptr_eq(tree_first(&t), &nodes[0]);
	ck_assert_ptr_eq(tree_last(&t), &nodes[N - 1]);
}
END_TEST

START_TEST(test_a_key_that_is_there_is_refused)
{
	struct tree t = TREE_INIT;
	struct tree_node twin = { .key = 6 };

	for (unsigned i = 0; i < 8; i++)
		put(&t, i);
	ck_assert(!tree_insert(&t, &twin));
	ck_assert_uint_eq(t.n, 8);
	ck_assert_ptr_eq(tree_find(&t, 6), &nodes[3]);
	tree_check(&t);
}
END_TEST

START_TEST(test_an_empty_tree_finds_nothing)
{
	struct tree t = TREE_INIT;

	ck_assert_ptr_null(tree_find(&t, 0));
	ck_assert_ptr_null(tree_floor(&t, UINT64_MAX));
	ck_assert_ptr_null(tree_ceil(&t, 0));
	ck_assert_ptr_null(tree_first(&t));
	ck_assert_ptr_null(tree_last(&t));
}
END_TEST

static void compare(const struct tree *t)
{
	tree_check(t);
	for (unsigned i = 0; i < N; i++) {
		int lo = below(i), hi = above(i), after = i + 1 < N ? above(i + 1) : -1;

		ck_assert_ptr_eq(tree_find(t, 2 * i), in[i] ? &nodes[i] : NULL);
		ck_assert_ptr_eq(tree_floor(t, 2 * i + 1), lo < 0 ? NULL : &nodes[lo]);
		ck_assert_ptr_eq(tree_ceil(t, 2 * i), hi < 0 ? NULL : &nodes[hi]);
		if (!in[i])
			continue;
		ck_assert_ptr_eq(tree_next(&nodes[i]), after < 0 ? NULL : &nodes[after]);
		lo = i ? below(i - 1) : -1;
		ck_assert_ptr_eq(tree_prev(&nodes[i]), lo < 0 ? NULL : &nodes[lo]);
	}
}

START_TEST(test_random_changes_agree_with_an_array)
{
	struct tree t = TREE_INIT;
	uint64_t rnd = (uint64_t)_i;

	memset(in, 0, sizeof(in));
	for (int step = 0; step < 4000; step++) {
		unsigned i = (unsigned)((rnd = hash64(rnd + 0x9e3779b97f4a7c15)) % N);

		if (in[i]) {
			tree_remove(&t, &nodes[i]);
			in[i] = false;
		} else {
			put(&t, i);
		}
		if (step % 100 == 0)
			compare(&t);
	}
	for (unsigned i = 0; i < N; i++)
		if (in[i]) {
			tree_remove(&t, &nodes[i]);
			in[i] = false;
			tree_check(&t);
		}
	ck_assert_ptr_null(t.root);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tree");
	TCase *c = tcase_create("tree");

	suite_add_tcase(s, c);
	tcase_add_loop_test(c, test_ascending_and_descending_insertion_stay_balanced, 0, 2);
	tcase_add_test(c, test_a_key_that_is_there_is_refused);
	tcase_add_test(c, test_an_empty_tree_finds_nothing);
	tcase_add_loop_test(c, test_random_changes_agree_with_an_array, 0, 8);
	return unit_run(s);
}
