/* SPDX-License-Identifier: Apache-2.0 */
/* layer: fs */
#include "unit.h"
#include "base/err.h"
#include "base/text.h"
#include "fs/fs.h"
#include <string.h>

static struct meta_layout start(void)
{
	struct meta_layout l = { 0 };

	CLEAN(fs_layout_parse("class=S1,segment=4M,mapper=write-optimized", 4, &l, NULL));
	return l;
}

START_TEST(a_spec_changes_what_it_names_and_nothing_else)
{
	struct meta_layout l = start(), was = l;

	CLEAN(fs_layout_parse("segment=64K", 4, &l, NULL));
	ck_assert_uint_eq(l.segment_size, 65536);
	ck_assert_uint_eq(l.cls, was.cls);
	ck_assert_uint_eq(l.mapper, was.mapper);
	CLEAN(fs_layout_parse("class=S2,mapper=balanced", 4, &l, NULL));
	ck_assert_uint_ne(l.cls, was.cls);
	ck_assert_uint_ne(l.mapper, was.mapper);
	ck_assert_uint_eq(l.segment_size, 65536);
	CLEAN(fs_layout_parse("", 4, &l, NULL));
}
END_TEST

START_TEST(what_is_printed_can_be_parsed)
{
	struct meta_layout l = start(), back = { 0 };
	struct text t = TEXT_INIT;

	CLEAN(fs_layout_parse("class=SX,segment=1M,mapper=balanced", 4, &l, NULL));
	fs_layout_text(&l, &t);
	CLEAN(fs_layout_parse(text_str(&t), 4, &back, NULL));
	ck_assert_uint_eq(back.cls, l.cls);
	ck_assert_uint_eq(back.segment_size, l.segment_size);
	ck_assert_uint_eq(back.mapper, l.mapper);
	text_done(&t);
}
END_TEST

static const struct {
	const char *spec;
	int err;
	const char *why;
} bad[] = {
	{ "class=S3x", -TESS_E_CLASS_UNKNOWN, "S3" },
	{ "class=S8", -TESS_E_CLASS_TARGETS, "8" },
	{ "segment=1K", -TESS_E_OPT_VALUE, "64K" },
	{ "segment=128M", -TESS_E_OPT_VALUE, "64M" },
	{ "segment=65537", -TESS_E_OPT_VALUE, "4K" },
	{ "segment=", -TESS_E_OPT_VALUE, "segment" },
	{ "mapper=lazy", -TESS_E_MAPPER_UNKNOWN, "balanced" },
	{ "stripe=4", -TESS_E_OPT_UNKNOWN, "class=" },
	{ "S1", -TESS_E_OPT_VALUE, "class=" },
	{ "segment=1M,class=none", -TESS_E_CLASS_UNKNOWN, "none" },
};

START_TEST(a_bad_spec_changes_nothing_and_says_what_is_legal)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct meta_layout l = start(), was = l;
		struct text why = TEXT_INIT;

		ck_assert_int_eq(fs_layout_parse(bad[i].spec, 4, &l, &why), bad[i].err);
		ck_assert_msg(strstr(text_str(&why), bad[i].why) != NULL, "%s: %s", bad[i].spec,
			      text_str(&why));
		ck_assert_int_eq(memcmp(&l, &was, sizeof(l)), 0);
		text_done(&why);
	}
}
END_TEST

static const struct {
	const char *spec;
	unsigned mask, mark;
	int err;
} marks[] = {
	{ "mode=strict", META_SET_MARK, MODE_STRICT, 0 },
	{ "mode=none", META_SET_MARK, MODE_NONE, 0 },
	{ "mode=laminate,class=S2", META_SET_MARK | META_SET_LAYOUT, MODE_LAMINATE, 0 },
	{ "segment=1M", META_SET_LAYOUT, MODE_LAZY, 0 },
	{ "mode=private", 0, MODE_LAZY, -TESS_E_OPT_VALUE },
	{ "mode=posix", 0, MODE_LAZY, -TESS_E_OPT_VALUE },
	{ "mode=", 0, MODE_LAZY, -TESS_E_OPT_VALUE },
	{ "mode=strict,class=S99", 0, MODE_LAZY, -TESS_E_CLASS_UNKNOWN },
};

START_TEST(a_mark_is_set_beside_other_flags_or_not_at_all)
{
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		struct meta_attr a = { .layout = start(),
				       .flags = META_HAS_ACL | MODE_LAZY << META_MODE_SHIFT };
		struct text why = TEXT_INIT;
		unsigned mask = 0;

		ck_assert_int_eq(fs_spec_parse(marks[i].spec, 4, &a, &mask, &why), marks[i].err);
		ck_assert_uint_eq(mask, marks[i].mask);
		ck_assert_uint_eq(meta_mark(a.flags), marks[i].mark);
		ck_assert_uint_eq(a.flags & ~(unsigned)META_MODE, META_HAS_ACL);
		ck_assert_str_eq(fs_mark_name(a.flags),
				 marks[i].mark ? policy_presets[marks[i].mark].name : "none");
		ck_assert_msg(!marks[i].err == !why.n, "%s: '%s'", marks[i].spec, text_str(&why));
		text_done(&why);
	}
}
END_TEST

START_TEST(a_layout_alone_has_no_mode)
{
	struct meta_layout l = start(), was = l;

	ck_assert_int_eq(fs_layout_parse("mode=strict,segment=64K", 4, &l, NULL), -TESS_E_OPT_VALUE);
	ck_assert_int_eq(memcmp(&l, &was, sizeof(l)), 0);
}
END_TEST

UNIT_MAIN("layout", a_spec_changes_what_it_names_and_nothing_else, what_is_printed_can_be_parsed,
	  a_bad_spec_changes_nothing_and_says_what_is_legal,
	  a_mark_is_set_beside_other_flags_or_not_at_all, a_layout_alone_has_no_mode)
