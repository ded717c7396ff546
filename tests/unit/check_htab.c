/* SPDX-License-Identifier: Apache-2.0 */
#include "base/htab.h"

#include "base/fault.h"
#include "unit.h"
#include <errno.h>
#include <string.h>

#define N 1000

static struct htab_node nodes[N];

static void fill(struct htab *h)
{
	for (unsigned i = 0; i < N; i++) {
		nodes[i].key = (uint64_t)i << 32;	/* low bits alike: the hash must spread them */
		htab_insert(h, &nodes[i]);
	}
}

START_TEST(test_every_inserted_key_is_found_and_no_other)
{
	struct htab h;

	CLEAN(htab_init(&h, 0));
	fill(&h);
	ck_assert_uint_eq(h.n, N);
	for (unsigned i = 0; i < N; i++)
		ck_assert_ptr_eq(htab_find(&h, (uint64_t)i << 32), &nodes[i]);
	ck_assert_ptr_null(htab_find(&h, 1));
	ck_assert_ptr_null(htab_find(&h, UINT64_MAX));
	htab_done(&h);
}
END_TEST

START_TEST(test_a_removed_key_is_gone_and_the_rest_stays)
{
	struct htab h;

	CLEAN(htab_init(&h, 4));
	fill(&h);
	for (unsigned i = 0; i < N; i += 2)
		htab_remove(&h, &nodes[i]);
	ck_assert_uint_eq(h.n, N / 2);
	for (unsigned i = 0; i < N; i++)
		ck_assert_ptr_eq(htab_find(&h, (uint64_t)i << 32), i % 2 ? &nodes[i] : NULL);
	htab_done(&h);
}
END_TEST

START_TEST(test_a_walk_meets_every_node_once)
{
	static unsigned char seen[N];
	struct htab h;

	memset(seen, 0, sizeof(seen));
	CLEAN(htab_init(&h, 0));
	ck_assert_ptr_null(htab_next(&h, NULL));
	fill(&h);
	for (struct htab_node *n = htab_next(&h, NULL); n; n = htab_next(&h, n))
		seen[n - nodes]++;
	for (unsigned i = 0; i < N; i++)
		ck_assert_uint_eq(seen[i], 1);
	htab_done(&h);
}
END_TEST

START_TEST(test_insertion_succeeds_when_growth_does_not)
{
	struct htab h;

	CLEAN(htab_init(&h, 0));
	CLEAN(fault_set("alloc=ENOMEM"));
	fill(&h);
	for (unsigned i = 0; i < N; i++)
		ck_assert_ptr_eq(htab_find(&h, (uint64_t)i << 32), &nodes[i]);
	htab_done(&h);
	ck_assert_int_eq(htab_init(&h, 0), -ENOMEM);
}
END_TEST

START_TEST(test_hash_of_bytes_is_xxh3_and_does_not_change)
{
	/* Stored placement depends on these values. */
	ck_assert_uint_eq(hash_bytes("", 0, 0), UINT64_C(0x2d06800538d394c2));
	ck_assert(hash_bytes("a", 1, 0) != hash_bytes("a", 1, 1));
	ck_assert(hash_bytes("a", 1, 0) != hash_bytes("b", 1, 0));
}
END_TEST

UNIT_MAIN("htab", test_every_inserted_key_is_found_and_no_other,
	  test_a_removed_key_is_gone_and_the_rest_stays, test_a_walk_meets_every_node_once,
	  test_insertion_succeeds_when_growth_does_not,
	  test_hash_of_bytes_is_xxh3_and_does_not_change)
