/* SPDX-License-Identifier: Apache-2.0 */
/* layer: oclass */
#include "unit.h"
#include "base/err.h"
#include "oclass/place.h"
#include <string.h>

static void make_targets(struct place_target *t, unsigned n, double weight)
{
	for (unsigned i = 0; i < n; i++)
		t[i] = (struct place_target){ .id = (uint16_t)i, .weight = weight };
}

START_TEST(shards_get_distinct_live_targets)
{
	struct place_target t[TESS_TARGETS_MAX];
	uint16_t got[TESS_TARGETS_MAX];

	make_targets(t, TESS_TARGETS_MAX, 1);
	t[7].weight = 0;
	for (uint64_t seed = 0; seed < 500; seed++) {
		bool seen[TESS_TARGETS_MAX] = { false };

		CLEAN(place(seed, t, TESS_TARGETS_MAX, TESS_TARGETS_MAX - 1, got));
		for (unsigned i = 0; i < TESS_TARGETS_MAX - 1; i++) {
			ck_assert(got[i] != 7 && !seen[got[i]]);
			seen[got[i]] = true;
		}
	}
	ck_assert_int_eq(place(1, t, TESS_TARGETS_MAX, TESS_TARGETS_MAX, got),
			 -TESS_E_CLASS_TARGETS);
	ck_assert_int_eq(place(1, t, 0, 1, got), -TESS_E_CLASS_TARGETS);
	ck_assert_int_eq(place(1, t, 5, TESS_TARGETS_MAX + 1, got), -TESS_E_CLASS_TARGETS);
	CLEAN(place(1, t, 0, 0, got));
}
END_TEST

/* The best n are the first n of the best n + 1, and the order of the table is nothing. */
START_TEST(placement_is_one_ranking_of_the_targets)
{
	struct place_target t[9], u[9];
	uint16_t all[9], some[9], other[9];

	make_targets(t, 9, 2.5);
	for (unsigned i = 0; i < 9; i++)
		u[i] = t[8 - i];
	for (uint64_t seed = 0; seed < 1000; seed++) {
		CLEAN(place(seed, t, 9, 9, all));
		CLEAN(place(seed, u, 9, 9, other));
		ck_assert_int_eq(memcmp(all, other, sizeof(all)), 0);
		for (unsigned n = 1; n < 9; n++) {
			CLEAN(place(seed, t, 9, n, some));
			ck_assert_int_eq(memcmp(all, some, n * sizeof(all[0])), 0);
		}
	}
}
END_TEST

/* Where files already are was computed by an older build: the answer may never change. */
START_TEST(placement_is_the_same_for_ever)
{
	static const uint16_t want[4][3] = { { 2, 1, 0 }, { 4, 1, 2 }, { 0, 3, 4 }, { 1, 4, 0 } };
	struct place_target t[5];
	uint16_t got[3];

	make_targets(t, 5, 1);
	for (unsigned s = 0; s < 4; s++) {
		CLEAN(place(s + 1, t, 5, 3, got));
		ck_assert_msg(memcmp(got, want[s], sizeof(got)) == 0, "seed %u: %u %u %u", s + 1,
			      got[0], got[1], got[2]);
	}
}
END_TEST

START_TEST(load_follows_the_weights)
{
	struct place_target t[8];
	unsigned count[8] = { 0 };
	const unsigned files = 40000;
	uint16_t got;

	make_targets(t, 8, 1);
	t[3].weight = 3;	/* 3 of 10 */
	for (uint64_t seed = 1; seed <= files; seed++) {
		CLEAN(place(seed, t, 8, 1, &got));
		count[got]++;
	}
	for (unsigned i = 0; i < 8; i++) {
		double want = files * t[i].weight / 10;

		ck_assert_msg(count[i] > want * 0.95 && count[i] < want * 1.05, "target %u: %u", i,
			      count[i]);
	}
}
END_TEST

START_TEST(a_new_target_takes_only_what_it_wins)
{
	struct place_target t[8];
	const unsigned files = 20000;
	unsigned moved = 0;
	uint16_t before[2], after[2];

	make_targets(t, 8, 1);
	for (uint64_t seed = 1; seed <= files; seed++) {
		CLEAN(place(seed, t, 7, 1, before));
		CLEAN(place(seed, t, 8, 1, after));
		if (before[0] != after[0]) {
			ck_assert_uint_eq(after[0], 7);
			moved++;
		}
		/* Wider: those that stay keep their order. */
		CLEAN(place(seed, t, 7, 2, before));
		CLEAN(place(seed, t, 8, 2, after));
		if (after[0] != 7 && after[1] != 7)
			ck_assert_int_eq(memcmp(before, after, sizeof(before)), 0);
		else if (after[0] == 7)
			ck_assert_uint_eq(after[1], before[0]);
	}
	ck_assert(moved > files / 8 * 0.9 && moved < files / 8 * 1.1);
}
END_TEST

START_TEST(names_round_trip_and_foreign_ones_are_refused)
{
	static const char *const bad[] = {
		"", "0000000100000000", "0000000100000000.", "0000000100000000.0",
		"0000000100000000.000", "000000010000000A.00", "0000000000000000.00",
		"0000000100000000.40", "0000000100000000-00", " 000000100000000.00",
		"0x00000100000000.00", "00000001000000000.00", "0000000100000000.0g",
	};
	static const tess_segid ids[] = { 1, UINT64_C(0x10000002a), UINT64_MAX };
	char name[PLACE_NAME_LEN + 1];
	unsigned shard;
	tess_segid seg;

	for (unsigned i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		for (unsigned s = 0; s < TESS_SHARDS_MAX; s++) {
			place_name(ids[i], s, name);
			ck_assert_uint_eq(strlen(name), PLACE_NAME_LEN);
			CLEAN(place_parse(name, &seg, &shard));
			ck_assert(seg == ids[i] && shard == s);
		}
	}
	place_name(UINT64_C(0x10000002a), 10, name);
	ck_assert_str_eq(name, "000000010000002a.0a");
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(place_parse(bad[i], &seg, &shard) == -EINVAL, "\"%s\"", bad[i]);
}
END_TEST

UNIT_MAIN("place", shards_get_distinct_live_targets, placement_is_one_ranking_of_the_targets,
	  placement_is_the_same_for_ever, load_follows_the_weights,
	  a_new_target_takes_only_what_it_wins, names_round_trip_and_foreign_ones_are_refused)
