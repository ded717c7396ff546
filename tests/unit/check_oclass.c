/* SPDX-License-Identifier: Apache-2.0 */
/* layer: oclass */
#include "unit.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/scoped.h"
#include "base/text.h"
#include "oclass/oclass.h"
#include <ctype.h>
#include <string.h>

/* Every id, so every class there can be: names and ids are one to one and stay what they are. */
START_TEST(every_legal_class_round_trips_by_name_and_by_id)
{
	unsigned legal = 0, by_scheme[3] = { 0 };

	for (unsigned id = 0; id <= UINT16_MAX; id++) {
		struct oclass c, d;
		char name[16], lower[16];

		if (oclass_from_id((uint16_t)id, &c) < 0)
			continue;
		legal++;
		by_scheme[c.scheme]++;
		ck_assert_uint_eq(c.id, id);
		oclass_name(&c, name);
		CLEAN(oclass_parse(name, &d, NULL));
		ck_assert_uint_eq(d.id, id);
		ck_assert(d.scheme == c.scheme && d.data == c.data && d.parity == c.parity &&
			  d.groups == c.groups);
		for (unsigned i = 0; i < sizeof(name); i++)
			lower[i] = (char)tolower((unsigned char)name[i]);
		CLEAN(oclass_parse(lower, &d, NULL));
		ck_assert_uint_eq(d.id, id);
		ck_assert_uint_le(oclass_width(&c, TESS_TARGETS_MAX), TESS_SHARDS_MAX);
	}
	/* S1…S64 and SX; 64/r groups and X for r copies; (64 / (k + p)) and X for each code. */
	ck_assert_uint_eq(by_scheme[OCLASS_NONE], 65);
	ck_assert_uint_eq(by_scheme[OCLASS_REPLICA], 32 + 21 + 16 + 12 + 10 + 5);
	ck_assert_uint_eq(by_scheme[OCLASS_EC], 21 + 16 + 12 + 10 + 9 + 7 + 6 + 5 + 3 + 3 + 3 + 11);
	ck_assert_uint_eq(legal, 65 + 96 + 106);
}
END_TEST

START_TEST(ids_on_disk_never_change)
{
	static const struct {
		const char *name;
		uint16_t id;
	} t[] = {
		{ "SX", 0x4000 }, { "S1", 0x4001 }, { "S2", 0x4002 }, { "S64", 0x4040 },
		{ "RP_2GX", 0x8100 }, { "RP_3G1", 0x8181 }, { "EC_2P1G1", 0xc841 },
		{ "EC_4P2GX", 0xd080 }, { "EC_16P3G3", 0xda03 },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		struct oclass c;

		CLEAN(oclass_parse(t[i].name, &c, NULL));
		ck_assert_msg(c.id == t[i].id, "%s is 0x%x", t[i].name, c.id);
	}
}
END_TEST

START_TEST(a_wrong_name_is_refused_with_the_nearest_legal_one)
{
	static const char *const t[][2] = {
		{ "S0", "S1" }, { "S01", "S1" }, { "S65", "S64" },
		{ "S99999999999999999999", "S64" },
		{ "T1", "S1" }, { "SXX", "SX" }, { "S 2", "S2" }, { "S2 ", "S2" }, { "", "S1" },
		{ "RP_1G1", "RP_2G1" }, { "RP_9GX", "RP_6GX" }, { "RP_2G0", "RP_2G1" },
		{ "RP_2G33", "RP_2G32" }, { "RP2GX", "RP_2GX" }, { "EC_3P1G1", "EC_2P1G1" },
		{ "EC_4P9GX", "EC_4P3GX" }, { "EC_8P2", "EC_8P2G1" },
		{ "S", "S1" }, { "RP_3", "RP_3G1" }, { "EC_16P2G4", "EC_16P2G3" },
		{ "EC_4+2GX", "EC_4P2GX" }, { "EC_0P0G0", "EC_2P1G1" }, { "ec_4p0gx", "EC_4P1GX" },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		struct text why = TEXT_INIT;
		struct oclass c, d;
		char want[64];

		ck_assert_int_eq(oclass_parse(t[i][0], &c, &why), -TESS_E_CLASS_UNKNOWN);
		snprintf(want, sizeof(want), "the nearest is %s", t[i][1]);
		ck_assert_msg(strstr(text_str(&why), want) != NULL, "\"%s\": %s", t[i][0],
			      text_str(&why));
		CLEAN(oclass_parse(t[i][1], &d, NULL));
		text_done(&why);
	}
}
END_TEST

/* The sentence goes to a terminal: one line, whatever came in, however long. */
START_TEST(the_refusal_is_one_short_line_of_text)
{
	char junk[4096];
	struct text why = TEXT_INIT;
	struct oclass c;

	memset(junk, '\n', sizeof(junk));
	junk[sizeof(junk) - 1] = '\0';
	ck_assert_int_eq(oclass_parse(junk, &c, &why), -TESS_E_CLASS_UNKNOWN);
	ck_assert_ptr_null(strchr(text_str(&why), '\n'));
	ck_assert_uint_lt(strlen(text_str(&why)), 600);
	text_done(&why);
}
END_TEST

START_TEST(classes_with_redundancy_are_refused_by_name)
{
	static const char *const t[] = { "RP_2G1", "RP_3GX", "EC_2P1G1", "EC_16P3GX" };

	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		struct text why = TEXT_INIT;
		struct oclass c;

		CLEAN(oclass_parse(t[i], &c, NULL));
		ck_assert_int_eq(oclass_usable(&c, TESS_TARGETS_MAX, &why), -TESS_E_CLASS_LATER);
		ck_assert_ptr_nonnull(strstr(text_str(&why), t[i]));
		ck_assert_int_eq(oclass_usable(&c, 1, NULL), -TESS_E_CLASS_LATER);
		text_done(&why);
	}
}
END_TEST

START_TEST(a_class_needs_as_many_targets_as_it_is_wide)
{
	struct text why = TEXT_INIT;
	struct oclass c;

	CLEAN(oclass_parse("S4", &c, NULL));
	CLEAN(oclass_usable(&c, 4, &why));
	ck_assert_str_eq(text_str(&why), "");
	ck_assert_int_eq(oclass_usable(&c, 3, &why), -TESS_E_CLASS_TARGETS);
	ck_assert_str_eq(text_str(&why), "object class S4 needs 4 targets, there are 3");
	text_done(&why);
	CLEAN(oclass_parse("SX", &c, NULL));
	CLEAN(oclass_usable(&c, 1, NULL));
	ck_assert_int_eq(oclass_usable(&c, 0, NULL), -TESS_E_CLASS_TARGETS);
	ck_assert_uint_eq(oclass_width(&c, 5), 5);
	ck_assert_uint_eq(oclass_width(&c, 1000), TESS_SHARDS_MAX);
	CLEAN(oclass_parse("RP_3GX", &c, NULL));
	ck_assert_uint_eq(oclass_width(&c, 8), 6);
	ck_assert_uint_eq(oclass_width(&c, 1), 3);
}
END_TEST

START_TEST(rows_are_distinct_legal_and_end)
{
	bool seen[UINT16_MAX + 1] = { false };
	struct oclass c, d;
	unsigned n = 0;

	for (; oclass_row(n, &c); n++) {
		CLEAN(oclass_from_id(c.id, &d));
		ck_assert(!seen[c.id]);
		seen[c.id] = true;
	}
	ck_assert_uint_gt(n, 40);
	ck_assert_uint_lt(n, 100);
	ck_assert(!oclass_row(n + 1, &c) && !oclass_row(UINT32_MAX, &c));
	CLEAN(oclass_parse("SX", &c, NULL));
	ck_assert(seen[c.id]);
	CLEAN(oclass_parse("EC_16P3GX", &c, NULL));
	ck_assert(seen[c.id]);
}
END_TEST

START_TEST(a_cell_is_whole_blocks_and_leaves_no_shard_of_a_full_segment_empty)
{
	for (uint64_t size = TESS_SEGMENT_MIN; size <= TESS_SEGMENT_MAX; size += TESS_SEGMENT_MIN) {
		for (unsigned w = 1; w <= TESS_SHARDS_MAX; w++) {
			uint32_t cell = oclass_cell(size, w);

			if (cell < TESS_BLOCK || cell % TESS_BLOCK != 0 || cell > 1u << 20 ||
			    (size / w >= TESS_BLOCK && (uint64_t)cell * w > size) ||
			    (size / w >= UINT64_C(65536) && cell % 65536 != 0))
				ck_abort_msg("cell %u for %llu over %u", cell,
					     (unsigned long long)size, w);
		}
	}
	ck_assert_uint_eq(oclass_cell(TESS_SEGMENT_DEFAULT, 1), 1u << 20);
	ck_assert_uint_eq(oclass_cell(TESS_SEGMENT_DEFAULT, 4), 1u << 20);
	ck_assert_uint_eq(oclass_cell(TESS_SEGMENT_DEFAULT, 8), 512u << 10);
}
END_TEST

static uint64_t rnd_state = 1;

static uint64_t rnd(uint64_t below)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state % below;
}

static struct oclass_geo some_geo(unsigned width, uint32_t cell, uint64_t len)
{
	struct oclass_geo g = { .width = width, .cell = cell, .len = len };

	CLEAN(oclass_parse("SX", &g.cls, NULL));
	CLEAN(oclass_geo_check(&g));
	return g;
}

/* Cuts p[0, len) at random into *n iovecs, at most max. */
static void scatter(unsigned char *p, uint64_t len, struct iovec *v, unsigned max, unsigned *n)
{
	*n = 0;
	while (len > 0) {
		uint64_t part = *n + 1 == max ? len : 1 + rnd(MIN(len, UINT64_C(30000)));

		v[*n].iov_base = p;
		v[(*n)++].iov_len = part;
		p += part;
		len -= part;
	}
}

/* The definition, byte by byte: where byte `off` of the segment lives. */
static void brute_place(const struct oclass_geo *g, uint64_t off, unsigned *shard, uint64_t *at)
{
	uint64_t i = off / g->cell;

	*shard = (unsigned)(i % g->width);
	*at = i / g->width * g->cell + off % g->cell;
}

static void check_geometry(const struct oclass_geo *g, unsigned char *seg)
{
	unsigned char *shards[TESS_SHARDS_MAX];
	uint64_t lens[TESS_SHARDS_MAX] = { 0 }, total = 0, it = 0, at;
	struct iovec in[50], *out;
	struct tess_range r = { rnd(g->len), 1 + rnd(g->len + 10) };
	struct oclass_piece p;
	unsigned n, s;

	for (uint64_t off = 0; off < g->len; off++) {
		brute_place(g, off, &s, &at);
		if (lens[s]++ != at)	/* not Check's assertion: each writes to a pipe */
			ck_abort_msg("a gap in shard %u", s);
	}
	scatter(seg, g->len, in, 50, &n);
	out = calloc(oclass_encode_max(g, n), sizeof(*out));
	for (unsigned i = 0; i < g->width; i++) {
		struct tess_iov v = { in, n, g->len };
		unsigned slots = oclass_encode_max(g, n);
		uint64_t got = 0;

		ck_assert_uint_eq(oclass_shard_len(g, i), lens[i]);
		CLEAN(oclass_encode(g, &v, i, out, &slots));
		shards[i] = malloc(lens[i] + 1);
		for (unsigned j = 0; j < slots; j++) {
			memcpy(shards[i] + got, out[j].iov_base, out[j].iov_len);
			got += out[j].iov_len;
		}
		ck_assert_uint_eq(got, lens[i]);
		total += got;
	}
	ck_assert_uint_eq(total, g->len);
	ck_assert_uint_eq(oclass_shard_len(g, g->width), 0);
	for (at = r.off; oclass_next(g, r, &it, &p); at += p.len) {
		ck_assert_uint_eq(p.seg_off, at);
		ck_assert_uint_gt(p.len, 0);
		ck_assert_uint_le(p.shard_off + p.len, lens[p.shard]);
		ck_assert_int_eq(memcmp(shards[p.shard] + p.shard_off, seg + at, p.len), 0);
	}
	ck_assert_uint_eq(at, MIN(g->len, r.off + r.len));
	for (unsigned i = 0; i < g->width; i++)
		free(shards[i]);
	free(out);
}

START_TEST(shards_and_pieces_agree_with_brute_force)
{
	const uint64_t max = 200000;
	unsigned char *seg = malloc(max);

	for (uint64_t i = 0; i < max; i++)
		seg[i] = (unsigned char)rnd(256);
	for (unsigned i = 0; i < 1500; i++) {
		unsigned width = 1 + (unsigned)rnd(i % 3 ? 5 : TESS_SHARDS_MAX);
		uint32_t cell = TESS_BLOCK * (1 + (uint32_t)rnd(4));
		uint64_t row = (uint64_t)width * cell, len = 1 + rnd(max);
		struct oclass_geo g;

		/* Half of them at and around a whole number of rows or cells. */
		if (i % 4 == 0)
			len = MIN(max, row * (1 + rnd(3)) + rnd(3)) - (rnd(2) ? 1 : 0);
		if (i % 4 == 1)
			len = MIN(max, (uint64_t)cell * (1 + rnd(10)) + rnd(3)) - (rnd(2) ? 1 : 0);
		g = some_geo(width, cell, len);
		check_geometry(&g, seg);
	}
	free(seg);
}
END_TEST

START_TEST(encode_refuses_too_few_slots_and_a_short_segment)
{
	struct oclass_geo g = some_geo(2, TESS_BLOCK, 4 * TESS_BLOCK);
	static char mem[4 * TESS_BLOCK];
	struct iovec in = { mem, sizeof(mem) }, out[4];
	struct tess_iov v = { &in, 1, sizeof(mem) };
	unsigned n = 1;

	ck_assert_int_eq(oclass_encode(&g, &v, 0, out, &n), -E2BIG);
	ck_assert_uint_eq(n, 1);
	n = 2;
	CLEAN(oclass_encode(&g, &v, 0, out, &n));
	in.iov_len--;
	n = 4;
	CLEAN(oclass_encode(&g, &v, 0, out, &n));
	n = 4;
	ck_assert_int_eq(oclass_encode(&g, &v, 1, out, &n), -EINVAL);
}
END_TEST

START_TEST(one_shard_is_the_segment_and_a_range_of_it_one_piece)
{
	struct oclass_geo g = some_geo(1, TESS_BLOCK, 10 * TESS_BLOCK + 1);
	struct oclass_piece p;
	uint64_t it = 0;

	ck_assert_uint_eq(oclass_shard_len(&g, 0), g.len);
	ck_assert_uint_eq(oclass_encode_max(&g, 7), 7);
	ck_assert(oclass_next(&g, (struct tess_range){ 5, UINT64_MAX - 5 }, &it, &p));
	ck_assert(p.shard == 0 && p.shard_off == 5 && p.seg_off == 5 && p.len == g.len - 5);
	ck_assert(!oclass_next(&g, (struct tess_range){ 5, UINT64_MAX - 5 }, &it, &p));
	it = 0;
	ck_assert(!oclass_next(&g, (struct tess_range){ g.len, 1 }, &it, &p));
	ck_assert(!oclass_next(&g, (struct tess_range){ 3, 0 }, &it, &p));
}
END_TEST

START_TEST(a_geometry_from_a_bad_record_is_refused)
{
	const struct oclass_geo good = some_geo(2, TESS_BLOCK, 100);
	struct oclass_geo g;

#define REFUSED(change, err)                                                                       \
	do {                                                                                       \
		g = good;                                                                          \
		change;                                                                            \
		ck_assert_int_eq(oclass_geo_check(&g), -(err));                                    \
	} while (0)
	REFUSED(g.width = 0, TESS_E_RECORD);
	REFUSED(g.width = TESS_SHARDS_MAX + 1, TESS_E_RECORD);
	REFUSED(g.cell = 0, TESS_E_RECORD);
	REFUSED(g.cell = TESS_BLOCK + 1, TESS_E_RECORD);
	REFUSED(g.len = 0, TESS_E_RECORD);
	REFUSED(g.len = TESS_SEGMENT_MAX + 1, TESS_E_RECORD);
	REFUSED(g.cls.groups = 3, TESS_E_RECORD);
	REFUSED(g.cls.scheme = OCLASS_EC, TESS_E_CLASS_LATER);
}
END_TEST

START_TEST(checksums_do_not_depend_on_how_memory_is_scattered)
{
	static const uint64_t lens[] = { 1, 4095, 4096, 4097, 8192, 100000 };
	static unsigned char mem[100000];

	for (unsigned i = 0; i < sizeof(mem); i++)
		mem[i] = (unsigned char)rnd(256);
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		uint32_t got[26];
		struct iovec in[40];
		struct tess_iov v = { .iov = in, .len = lens[i] };
		unsigned slots = (unsigned)((lens[i] + TESS_BLOCK - 1) / TESS_BLOCK);

		memset(got, 0xee, sizeof(got));
		scatter(mem, lens[i], in, 40, &v.n);
		oclass_checksum(&v, got);
		for (unsigned b = 0; b < slots; b++) {
			uint64_t off = (uint64_t)b * TESS_BLOCK;

			ck_assert_uint_eq(got[b], crc32c(0, mem + off,
							 MIN(lens[i] - off, (uint64_t)TESS_BLOCK)));
		}
		ck_assert_uint_eq(got[slots], 0xeeeeeeee);
	}
}
END_TEST

UNIT_MAIN("oclass", every_legal_class_round_trips_by_name_and_by_id, ids_on_disk_never_change,
	  a_wrong_name_is_refused_with_the_nearest_legal_one, the_refusal_is_one_short_line_of_text,
	  classes_with_redundancy_are_refused_by_name, a_class_needs_as_many_targets_as_it_is_wide,
	  rows_are_distinct_legal_and_end,
	  a_cell_is_whole_blocks_and_leaves_no_shard_of_a_full_segment_empty,
	  shards_and_pieces_agree_with_brute_force,
	  encode_refuses_too_few_slots_and_a_short_segment,
	  one_shard_is_the_segment_and_a_range_of_it_one_piece,
	  a_geometry_from_a_bad_record_is_refused,
	  checksums_do_not_depend_on_how_memory_is_scattered)
