/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/err.h"
#include "unit.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

LOG_MODULE("mine")
static struct log_module other = { .name = "other", .level = LOG_NOTICE };

static char captured[65536];

/* Sends stderr to a file; the second call reads it back. */
static void capture(bool start)
{
	static FILE *f;
	size_t n;

	if (start) {
		f = tmpfile();
		ck_assert_ptr_nonnull(f);
		ck_assert_int_ge(dup2(fileno(f), STDERR_FILENO), 0);
		return;
	}
	rewind(f);
	n = fread(captured, 1, sizeof(captured) - 1, f);
	captured[n] = '\0';
	fclose(f);
}

static int lines(void)
{
	int n = 0;

	for (const char *s = captured; (s = strchr(s, '\n')); s++)
		n++;
	return n;
}

START_TEST(test_a_line_names_level_module_and_request)
{
	capture(true);
	errno = EDOM;
	log_at(LOG_ERR, 42, "cannot %s: %d", "fly", 7);
	ck_assert_int_eq(errno, EDOM);
	log_warn("plain");
	capture(false);
	ck_assert_ptr_nonnull(strstr(captured, " error mine req=42 cannot fly: 7\n"));
	ck_assert_ptr_nonnull(strstr(captured, " warning mine plain\n"));
	ck_assert_int_eq(lines(), 2);
}
END_TEST

START_TEST(test_a_spec_sets_one_module_or_all)
{
	log_register(&other);
	CLEAN(log_set("mine=debug"));
	ck_assert_int_eq(log_module_.level, LOG_DEBUG);
	ck_assert_int_eq(other.level, LOG_NOTICE);
	CLEAN(log_set("error,other=warning"));
	ck_assert_int_eq(log_module_.level, LOG_ERR);
	ck_assert_int_eq(other.level, LOG_WARN);
	capture(true);
	log_warn("dropped");
	log_err("shown");
	capture(false);
	ck_assert_int_eq(lines(), 1);
}
END_TEST

START_TEST(test_a_bad_spec_changes_nothing)
{
	ck_assert_int_eq(log_set("mine=debug,other=loud"), -TESS_E_OPT_VALUE);
	ck_assert_int_eq(log_set("noisy"), -TESS_E_OPT_VALUE);
	ck_assert_int_eq(log_set("mine="), -TESS_E_OPT_VALUE);
	ck_assert_int_eq(log_module_.level, LOG_NOTICE);
}
END_TEST

START_TEST(test_a_flood_is_cut_and_another_site_is_not)
{
	capture(true);
	for (int i = 0; i < 2000; i++)
		log_err("flood %d", i);
	log_err("after");
	capture(false);
	/* Not more than two seconds' worth: the loop may cross a second, it cannot take three. */
	ck_assert_int_ge(lines(), 51);
	ck_assert_int_le(lines(), 103);
	ck_assert_ptr_nonnull(strstr(captured, "after\n"));
}
END_TEST

START_TEST(test_a_module_of_the_environment_starts_at_its_level)
{
	setenv("TESSERA_LOG", "other=debug", 1);
	log_register(&other);
	ck_assert_int_eq(other.level, LOG_DEBUG);
	ck_assert_int_eq(log_module_.level, LOG_NOTICE);
}
END_TEST

UNIT_MAIN("log", test_a_line_names_level_module_and_request, test_a_spec_sets_one_module_or_all,
	  test_a_bad_spec_changes_nothing, test_a_flood_is_cut_and_another_site_is_not,
	  test_a_module_of_the_environment_starts_at_its_level)
