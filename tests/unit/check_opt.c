/* SPDX-License-Identifier: Apache-2.0 */
#include "base/opt.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "unit.h"
#include <stddef.h>
#include <string.h>

struct conf {
	bool     sync, nocache;
	uint64_t threads, segment, wait;
	double   rate;
	int      mode;
	char    *label;
};
static const char *const modes[] = { "strict", "relaxed", NULL };
#define AT(f) offsetof(struct conf, f)
static const struct tess_opt rows[] = {
	{ "sync", TESS_OPT_BOOL, TESS_AT_MOUNT, AT(sync), "on", 0, 0, NULL, "wait for the disk" },
	{ "nocache", TESS_OPT_BOOL, TESS_AT_MOUNT, AT(nocache), NULL, 0, 0, NULL, "no cache" },
	{ "threads", TESS_OPT_UINT, TESS_AT_MOUNT, AT(threads), "4", 1, 64, NULL, "workers" },
	{ "segment", TESS_OPT_SIZE, TESS_AT_MKFS, AT(segment), "4M", 65536, 67108864, NULL, "size" },
	{ "wait", TESS_OPT_TIME, TESS_AT_MOUNT, AT(wait), "1500ms", 0, 0, NULL, "how long" },
	{ "rate", TESS_OPT_DOUBLE, TESS_AT_MOUNT, AT(rate), "0.5", 0, 0, NULL, "how much" },
	{ "mode", TESS_OPT_ENUM, TESS_AT_MOUNT, AT(mode), "relaxed", 0, 0, modes, "which" },
	{ "label", TESS_OPT_STRING, TESS_AT_MOUNT | TESS_AT_MKFS, AT(label), "none", 0, 0, NULL, "name" },
	{ NULL, TESS_OPT_BOOL, 0, 0, NULL, 0, 0, NULL, NULL },
};

static struct conf c;
static struct text why;

static void setup(void)
{
	memset(&c, 0xa5, sizeof(c));
	CLEAN(opt_init(rows, &c));
}

static void teardown(void)
{
	opt_done(rows, &c);
	text_done(&why);
}

START_TEST(test_every_field_starts_at_its_default)
{
	struct text t = TEXT_INIT;

	opt_to_text(rows, &c, &t);
	ck_assert_str_eq(text_str(&t), "sync=on\nnocache=off\nthreads=4\nsegment=4M\nwait=1500ms\n"
				       "rate=0.5\nmode=relaxed\nlabel=none\n");
	text_done(&t);
}
END_TEST

START_TEST(test_a_list_sets_fields_in_order)
{
	CLEAN(opt_parse(rows, &c, TESS_AT_MOUNT,
			"nosync,nocache,threads=8,,wait=2,rate=1e3,mode=strict,label=a=b", &why));
	ck_assert(!c.sync);
	ck_assert(c.nocache);
	ck_assert_uint_eq(c.threads, 8);
	ck_assert_uint_eq(c.wait, UINT64_C(2000000000));
	ck_assert_double_eq(c.rate, 1000);
	ck_assert_int_eq(c.mode, 0);
	ck_assert_str_eq(c.label, "a=b");
	CLEAN(opt_parse(rows, &c, TESS_AT_MOUNT, "sync,nonocache,label=", &why));
	ck_assert(c.sync && !c.nocache);
	ck_assert_str_eq(c.label, "");
	CLEAN(opt_parse(rows, &c, TESS_AT_MOUNT, "", &why));
}
END_TEST

static const struct {
	const char *list;
	int         err;
	const char *why;
} bad[] = {
	{ "colour=red", TESS_E_OPT_UNKNOWN, "unknown option colour" },
	{ "nothreads", TESS_E_OPT_UNKNOWN, "unknown option nothreads" },
	{ "segment=1M", TESS_E_OPT_UNKNOWN, "option segment cannot be set here" },
	{ "threads", TESS_E_OPT_VALUE, "option threads needs a value: a number, at least 1, at most 64" },
	{ "threads=0", TESS_E_OPT_VALUE, "option threads: \"0\" is not a number, at least 1, at most 64" },
	{ "threads=65", TESS_E_OPT_VALUE, NULL },
	{ "threads=4x", TESS_E_OPT_VALUE, NULL },
	{ "threads=-1", TESS_E_OPT_VALUE, NULL },
	{ "mode=lax", TESS_E_OPT_VALUE, "option mode: \"lax\" is not one of strict, relaxed" },
	{ "sync=maybe", TESS_E_OPT_VALUE, "option sync: \"maybe\" is not on or off" },
	{ "rate=fast", TESS_E_OPT_VALUE, NULL },
	{ "rate=nan", TESS_E_OPT_VALUE, NULL },
	{ "wait=5parsec", TESS_E_OPT_VALUE, NULL },
	{ "nosync=on", TESS_E_OPT_UNKNOWN, NULL },
};

START_TEST(test_a_refused_option_is_explained_and_changes_nothing)
{
	struct conf before = c;

	ck_assert_int_eq(opt_parse(rows, &c, TESS_AT_MOUNT, bad[_i].list, &why), -bad[_i].err);
	if (bad[_i].why)
		ck_assert_str_eq(text_str(&why), bad[_i].why);
	ck_assert_ptr_null(strchr(text_str(&why), '\n'));
	ck_assert_uint_gt(why.n, 0);
	ck_assert_int_eq(before.sync, c.sync);
	ck_assert_uint_eq(before.threads, c.threads);
	ck_assert_int_eq(before.mode, c.mode);
}
END_TEST

static const struct {
	const char *s;
	int         err;
	uint64_t    v;
} sizes[] = {
	{ "0", 0, 0 },
	{ "4M", 0, 4 << 20 },
	{ "64k", 0, 65536 },
	{ "64K", 0, 65536 },
	{ "1T", 0, UINT64_C(1) << 40 },
	{ "18446744073709551615", 0, UINT64_MAX },
	{ "18446744073709551616", -EINVAL, 0 },
	{ "16777216T", -EINVAL, 0 },
	{ "", -EINVAL, 0 },
	{ "M", -EINVAL, 0 },
	{ "-1", -EINVAL, 0 },
	{ " 1", -EINVAL, 0 },
	{ "1 ", -EINVAL, 0 },
	{ "1X", -EINVAL, 0 },
}, times[] = {
	{ "3", 0, UINT64_C(3000000000) },
	{ "7ns", 0, 7 },
	{ "7us", 0, 7000 },
	{ "7ms", 0, 7000000 },
	{ "2m", 0, UINT64_C(120000000000) },
	{ "1h", 0, UINT64_C(3600000000000) },
	{ "1M", -EINVAL, 0 },
	{ "99999999999s", -EINVAL, 0 },
	{ "", -EINVAL, 0 },
	{ "ms", -EINVAL, 0 },
};

START_TEST(test_sizes)
{
	uint64_t v = 77;

	ck_assert_int_eq(parse_size(sizes[_i].s, &v), sizes[_i].err);
	ck_assert_uint_eq(v, sizes[_i].err ? 77 : sizes[_i].v);
}
END_TEST

START_TEST(test_times)
{
	uint64_t v = 77;

	ck_assert_int_eq(parse_time(times[_i].s, &v), times[_i].err);
	ck_assert_uint_eq(v, times[_i].err ? 77 : times[_i].v);
}
END_TEST

START_TEST(test_what_is_printed_parses_to_the_same)
{
	struct text a = TEXT_INIT, b = TEXT_INIT;
	char *list;

	c.wait = 90 * UINT64_C(1000000000);
	c.segment = 65537;
	c.sync = false;
	opt_to_text(rows, &c, &a);
	opt_done(rows, &c);
	CLEAN(opt_init(rows, &c));
	list = strdup(text_str(&a));
	for (char *s = list; (s = strchr(s, '\n'));)
		*s = ',';
	CLEAN(opt_parse(rows, &c, TESS_AT_MOUNT | TESS_AT_MKFS, list, &why));
	opt_to_text(rows, &c, &b);
	ck_assert_str_eq(text_str(&a), text_str(&b));
	free(list);
	text_done(&a);
	text_done(&b);
}
END_TEST

START_TEST(test_without_memory_the_string_stays)
{
	CLEAN(fault_set("alloc@2=ENOMEM"));	/* the first is the parser's own copy */
	ck_assert_int_eq(opt_parse(rows, &c, TESS_AT_MOUNT, "label=new", &why), -ENOMEM);
	CLEAN(fault_set(NULL));
	ck_assert_str_eq(c.label, "none");
}
END_TEST

START_TEST(test_help_lists_what_can_be_set_here)
{
	struct text t = TEXT_INIT;

	opt_help(rows, TESS_AT_MOUNT, &t);
	ck_assert_ptr_nonnull(strstr(text_str(&t), "threads=NUMBER"));
	ck_assert_ptr_nonnull(strstr(text_str(&t), "which: strict, relaxed (default relaxed)\n"));
	ck_assert_ptr_null(strstr(text_str(&t), "segment"));
	text_done(&t);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
int main(void)
{
	Suite *s = suite_create("opt");
	TCase *t = tcase_create("opt");

	suite_add_tcase(s, t);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, test_every_field_starts_at_its_default);
	tcase_add_test(t, test_a_list_sets_fields_in_order);
	tcase_add_loop_test(t, test_a_refused_option_is_explained_and_changes_nothing, 0, COUNT(bad));
	tcase_add_loop_test(t, test_sizes, 0, COUNT(sizes));
	tcase_add_loop_test(t, test_times, 0, COUNT(times));
	tcase_add_test(t, test_what_is_printed_parses_to_the_same);
	tcase_add_test(t, test_without_memory_the_string_stays);
	tcase_add_test(t, test_help_lists_what_can_be_set_here);
	return unit_run(s);
}
