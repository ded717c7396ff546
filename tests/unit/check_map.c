/* SPDX-License-Identifier: Apache-2.0 */
/* layer: mappers */
#include "unit.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "base/text.h"
#include "map/map.h"
#include <string.h>

#define S (UINT64_C(64) << 10)

/* One published extent, [S, 2 S): what the fills of the tests below may and may not touch. */
static unsigned one_extent(const struct tess_map_view *v, struct tess_range r,
			   struct tess_extent *ret, unsigned max)
{
	(void)v;
	if (max == 0 || r.off >= 2 * S || r.off + r.len <= S)
		return 0;
	*ret = (struct tess_extent){ .off = S, .len = S, .seg = 1 };
	return 1;
}

static const struct tess_map_view view = {
	.ino = 2, .file_size = 4 * S, .segment_size = S, .direct_min = S, .final = true,
	.extents = one_extent,
};
static const struct tess_range dirty[] = { { 0, 4096 }, { 8192, 4096 }, { 3 * S, S } };

/* Says what a script says: 's' a segment, 'd' and 'f' the next range as dirty, as fill. */
static const char *script;
static const struct tess_range *script_ranges;
static bool script_ignores;

static int scripted(const struct tess_map_view *v, const struct tess_range *d, unsigned n,
		    struct tess_plan *ret)
{
	const struct tess_range *r = script_ranges;

	(void)v, (void)d, (void)n;
	for (const char *c = script; *c; c++) {
		int e = *c == 's' ? tess_plan_segment(ret)
		      : *c == 'd' ? tess_plan_add(ret, *r++) : tess_plan_fill(ret, *r++);

		if (e < 0 && !script_ignores)
			return e;
	}
	return 0;
}

static int run_script(const char *s, const struct tess_range *ranges, bool final)
{
	struct tess_map_view v = view;
	struct tess_plan p = { .nsegs = 77 };
	const struct tess_mapper m = { TESS_MAPPER_ABI, sizeof(m), 9999, "bad", "bad", NULL,
				       scripted, NULL };
	int r;

	v.final = final;
	script = s;
	script_ranges = ranges;
	r = map_plan_write(&m, &v, dirty, ARRAY_SIZE(dirty), &p);
	if (r < 0)
		ck_assert_msg(p.nsegs == 77, "output written on failure");
	else
		plan_done(&p);
	return r;
}

#define RANGES(...) ((const struct tess_range[]){ __VA_ARGS__ })
#define REFUSED(s, final, ...)                                                                     \
	ck_assert_int_eq(run_script((s), RANGES(__VA_ARGS__), (final)), -TESS_E_PLAN)
#define ALL { 0, 4096 }, { 8192, 4096 }, { 3 * S, S }

START_TEST(a_good_plan_in_any_order_passes)
{
	CLEAN(run_script("sddsd", RANGES(ALL), true));
	CLEAN(run_script("sdsdd", RANGES({ 3 * S, S }, { 8192, 4096 }, { 0, 4096 }), true));
	CLEAN(run_script("sdfsddsd", RANGES({ 8192, 100 }, { S, 4096 }, { 8292, 3996 }, { 0, 4096 },
					    { 3 * S, S }), true));
	CLEAN(run_script("sd", RANGES({ 8192, 4096 }), false));
	CLEAN(run_script("", RANGES({ 0, 0 }), false));
}
END_TEST

START_TEST(a_plan_that_forgets_dirty_bytes_is_refused_when_final)
{
	REFUSED("", true, { 0, 0 });
	REFUSED("sdd", true, { 0, 4096 }, { 8192, 4096 });
	REFUSED("sddsd", true, { 0, 4096 }, { 8192, 4096 }, { 3 * S, S - 1 });
}
END_TEST

START_TEST(a_plan_that_takes_a_byte_twice_is_refused)
{
	REFUSED("sddsdsd", true, ALL, { 0, 4096 });
	REFUSED("sdd", false, { 0, 4096 }, { 4095, 1 });
	REFUSED("sff", false, { S, 100 }, { S + 99, 1 });
}
END_TEST

START_TEST(a_plan_of_bytes_that_are_not_dirty_is_refused)
{
	REFUSED("sd", false, { 4096, 1 });
	REFUSED("sd", false, { 0, 4097 });
	REFUSED("sd", false, { 8191, 2 });
	REFUSED("sd", false, { 4095, 4098 });
	REFUSED("sd", false, { 4 * S, 1 });
	REFUSED("sd", false, { UINT64_MAX - 1, 1 });
}
END_TEST

START_TEST(a_fill_of_dirty_or_unpublished_bytes_is_refused)
{
	REFUSED("sf", false, { 0, 1 });
	REFUSED("sf", false, { 5000, 10 });
	REFUSED("sf", false, { S - 1, 2 });
	REFUSED("sf", false, { 2 * S - 1, 2 });
	REFUSED("sddsdsf", true, ALL, { 3 * S - 1, 1 });
	CLEAN(run_script("sf", RANGES({ S, S }), false));
}
END_TEST

START_TEST(a_segment_that_is_empty_or_too_long_is_refused)
{
	REFUSED("s", false, { 0, 0 });
	REFUSED("ssddsd", true, ALL);
	REFUSED("sddsds", true, ALL);
	REFUSED("sddd", true, ALL);
	REFUSED("sd", false, { 3 * S, S + 1 });
	REFUSED("sd", false, { 3 * S, 0 });
	REFUSED("sd", false, { UINT64_MAX, 2 });
}
END_TEST

START_TEST(a_piece_without_a_segment_is_refused)
{
	REFUSED("d", false, { 0, 4096 });
	REFUSED("f", false, { S, 4096 });
}
END_TEST

/* A mapper that does not look at what the builder returns must not get its half a plan through. */
START_TEST(an_ignored_builder_error_still_fails_the_plan)
{
	script_ignores = true;
	REFUSED("dsddsd", true, { 1, 1 }, ALL);
	REFUSED("sddsdd", true, ALL, { 3 * S, S });
}
END_TEST

START_TEST(every_failed_allocation_is_out_of_memory_and_leaks_nothing)
{
	struct tess_range many[100];
	struct tess_map_view v = view;
	unsigned failed = 0;

	v.segment_size = 4096;
	for (unsigned i = 0; i < 100; i++)
		many[i] = (struct tess_range){ i * UINT64_C(5000), 4097 };
	for (unsigned nth = 1;; nth++) {
		struct tess_plan p;
		char spec[40];
		int r;

		snprintf(spec, sizeof(spec), "alloc@%u=ENOMEM", nth);
		CLEAN(fault_set(spec));
		r = map_plan_write(map_find("write-optimized"), &v, many, 100, &p);
		CLEAN(fault_set(NULL));
		if (r == 0) {
			plan_done(&p);
			break;
		}
		ck_assert_int_eq(r, -ENOMEM);
		failed++;
	}
	ck_assert_uint_gt(failed, 4);	/* two growing arrays and the sorted copy */
}
END_TEST

START_TEST(mappers_are_found_by_name_and_by_id)
{
	static const struct {
		uint16_t id;
		const char *name;
	} t[] = { { 1, "write-optimized" }, { 2, "balanced" }, { 3, "naive" } };
	struct text names = TEXT_INIT;

	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		const struct tess_mapper *m = map_by_id(t[i].id);

		ck_assert_ptr_nonnull(m);
		ck_assert_str_eq(m->name, t[i].name);
		ck_assert_ptr_eq(map_find(t[i].name), m);
		ck_assert_ptr_nonnull(map_row(i));
		ck_assert(m->abi == TESS_MAPPER_ABI && m->size == sizeof(*m) && m->summary);
	}
	ck_assert_ptr_null(map_row(ARRAY_SIZE(t)));
	ck_assert_ptr_null(map_by_id(0));
	ck_assert_ptr_null(map_find("Balanced"));
	map_names(&names);
	ck_assert_str_eq(text_str(&names), "balanced, naive, write-optimized");
	text_done(&names);
}
END_TEST

static void expect_text(const char *mapper, bool final, const char *want)
{
	struct text out = TEXT_INIT;
	struct tess_map_view v = view;
	struct tess_plan p;
	/* A run that begins and ends inside chunks, a hole, and part of what is published. */
	const struct tess_range d[] = { { 100, 50 }, { S + 4096, 4096 }, { 2 * S - 10, 2 * S } };

	v.final = final;
	CLEAN(map_plan_write(map_find(mapper), &v, d, ARRAY_SIZE(d), &p));
	plan_to_text(&p, &out);
	ck_assert_str_eq(text_str(&out), want);
	text_done(&out);
	plan_done(&p);
	plan_done(&p);
	plan_done(NULL);
}

START_TEST(plans_print_one_line_a_segment)
{
	expect_text("write-optimized", true,
		    "segment 0 (65536): 131072+65536\n"
		    "segment 1 (65536): 100+50 69632+4096 131062+10 196608+61380\n"
		    "segment 2 (4146): 257988+4146\n");
	expect_text("write-optimized", false,
		    "segment 0 (65536): 131072+65536\n"
		    "segment 1 (65536): 100+50 69632+4096 131062+10 196608+61380\n");
	expect_text("balanced", true,
		    "segment 0 (50): 100+50\n"
		    "segment 1 (65536): ~65536+4096 69632+4096 ~73728+57334 131062+10\n"
		    "segment 2 (65536): 131072+65536\n"
		    "segment 3 (65526): 196608+65526\n");
	expect_text("balanced", false, "segment 0 (65536): 131072+65536\n");
	expect_text("naive", true,
		    "segment 0 (50): 100+50\n"
		    "segment 1 (65536): ~65536+4096 69632+4096 ~73728+57334 131062+10\n"
		    "segment 2 (65536): 131072+65536\n"
		    "segment 3 (65526): 196608+65526\n");
	expect_text("naive", false, "");
}
END_TEST

START_TEST(a_read_of_naive_is_of_whole_segments_and_others_leave_it_alone)
{
	struct tess_range r = { S + 5, S };

	map_find("naive")->plan_read(&view, &r);
	ck_assert(r.off == S && r.len == 2 * S);
	ck_assert(!map_find("write-optimized")->plan_read && !map_find("balanced")->plan_read);
}
END_TEST

UNIT_MAIN("map", a_good_plan_in_any_order_passes,
	  a_plan_that_forgets_dirty_bytes_is_refused_when_final,
	  a_plan_that_takes_a_byte_twice_is_refused, a_plan_of_bytes_that_are_not_dirty_is_refused,
	  a_fill_of_dirty_or_unpublished_bytes_is_refused,
	  a_segment_that_is_empty_or_too_long_is_refused, a_piece_without_a_segment_is_refused,
	  an_ignored_builder_error_still_fails_the_plan,
	  every_failed_allocation_is_out_of_memory_and_leaks_nothing,
	  mappers_are_found_by_name_and_by_id, plans_print_one_line_a_segment,
	  a_read_of_naive_is_of_whole_segments_and_others_leave_it_alone)
