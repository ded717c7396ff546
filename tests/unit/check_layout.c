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

UNIT_MAIN("layout", a_spec_changes_what_it_names_and_nothing_else, what_is_printed_can_be_parsed,
	  a_bad_spec_changes_nothing_and_says_what_is_legal)
