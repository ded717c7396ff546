/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/fault.h"
#include "unit.h"
#include <errno.h>
#include <string.h>

START_TEST(test_pieces_are_joined_in_order)
{
	struct text t = TEXT_INIT;

	ck_assert_str_eq(text_str(&t), "");
	text_add(&t, "a");
	text_addn(&t, "bcd", 2);
	text_fmt(&t, "-%d-%s", 7, "x");
	ck_assert_str_eq(text_str(&t), "abc-7-x");
	CLEAN(text_error(&t));
	text_clear(&t);
	ck_assert_str_eq(text_str(&t), "");
	text_done(&t);
}
END_TEST

START_TEST(test_long_text_is_whole)
{
	struct text t = TEXT_INIT;

	for (int i = 0; i < 10000; i++)
		text_fmt(&t, "%04d", i);
	ck_assert_uint_eq(t.n, 40000);
	ck_assert_uint_eq(strlen(text_str(&t)), 40000);
	ck_assert_int_eq(memcmp(t.s + 4 * 1234, "1234", 4), 0);
	text_done(&t);
}
END_TEST

START_TEST(test_lost_memory_is_reported_once_and_calls_stay_safe)
{
	struct text t = TEXT_INIT;
	char big[4096];

	memset(big, 'x', sizeof(big));
	text_add(&t, "kept");
	CLEAN(fault_set("alloc=ENOMEM"));
	text_addn(&t, big, sizeof(big));
	text_add(&t, "no more");
	ck_assert_int_eq(text_error(&t), -ENOMEM);
	ck_assert_str_eq(text_str(&t), "kept");
	ck_assert_ptr_null(text_steal(&t));
	ck_assert_ptr_null(t.s);
}
END_TEST

START_TEST(test_a_stolen_text_is_the_callers)
{
	struct text t = TEXT_INIT;
	char *s;

	s = text_steal(&t);
	ck_assert_str_eq(s, "");
	free(s);
	text_add(&t, "mine");
	s = text_steal(&t);
	ck_assert_str_eq(s, "mine");
	ck_assert_str_eq(text_str(&t), "");
	free(s);
}
END_TEST

static const struct {
	const char *in, *out;
} json[] = {
	{ "plain", "\"plain\"" },
	{ "a\"b\\c", "\"a\\\"b\\\\c\"" },
	{ "\n\x01\x7f", "\"\\u000a\\u0001\\u007f\"" },
	{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
	{ "\xff", "\"\xef\xbf\xbd\"" },
	{ "\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },			 /* overlong */
	{ "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },	 /* surrogate */
	{ "x\xe2\x82", "\"x\xef\xbf\xbd\xef\xbf\xbd\"" },		 /* cut off */
	{ "\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
};

START_TEST(test_json_is_always_valid_utf8)
{
	struct text t = TEXT_INIT;

	text_json(&t, json[_i].in, strlen(json[_i].in));
	ck_assert_str_eq(text_str(&t), json[_i].out);
	text_done(&t);
}
END_TEST

START_TEST(test_sizes_are_readable)
{
	struct text t = TEXT_INIT;

	text_size(&t, 0);
	text_add(&t, " ");
	text_size(&t, 1023);
	text_add(&t, " ");
	text_size(&t, 4 << 20);
	text_add(&t, " ");
	text_size(&t, UINT64_MAX);
	ck_assert_str_eq(text_str(&t), "0 1023 4.0M 16.0E");
	text_done(&t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("text");
	TCase *c = tcase_create("text");

	suite_add_tcase(s, c);
	tcase_add_test(c, test_pieces_are_joined_in_order);
	tcase_add_test(c, test_long_text_is_whole);
	tcase_add_test(c, test_lost_memory_is_reported_once_and_calls_stay_safe);
	tcase_add_test(c, test_a_stolen_text_is_the_callers);
	tcase_add_loop_test(c, test_json_is_always_valid_utf8, 0, sizeof(json) / sizeof(json[0]));
	tcase_add_test(c, test_sizes_are_readable);
	return unit_run(s);
}
