/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIT_H
#define UNIT_H
/*
 * What every libcheck program shares. A program is
 *
 *	START_TEST(a_promise) { … } END_TEST
 *	UNIT_MAIN("module", a_promise, another)
 *
 * or, for fixtures, loops and timeouts, builds its own Suite and ends with `return unit_run(suite);`.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define CLEAN(err) ck_assert_int_eq((err), 0)

static inline int unit_run(Suite *s)
{
	SRunner *r = srunner_create(s);
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* One line that has `what` in it, and not the secret. */
static inline void unit_says(const char *line, const char *what, const char *secret)
{
	ck_assert_msg(strstr(line, what) != NULL, "\"%s\" does not say \"%s\"", line, what);
	ck_assert_ptr_null(strchr(line, '\n'));
	ck_assert_ptr_null(strstr(line, secret));
}

static inline Suite *unit_suite(const char *name, const TTest *const *tests, size_t n)
{
	Suite *s = suite_create(name);
	TCase *c = tcase_create(name);

	suite_add_tcase(s, c);
	for (size_t i = 0; i < n; i++)
		tcase_add_test(c, tests[i]);
	return s;
}

/* Each between setup() and teardown(), and given `seconds`. */
static inline int unit_run_with(const char *name, const TTest *const *tests, size_t n, SFun setup,
				SFun teardown, double seconds)
{
	Suite *s = suite_create(name);
	TCase *c = tcase_create(name);

	tcase_set_timeout(c, seconds);
	tcase_add_checked_fixture(c, setup, teardown);
	for (size_t i = 0; i < n; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	return unit_run(s);
}

#define UNIT_MAIN(name, ...)                                                                       \
	int main(void)                                                                             \
	{                                                                                          \
		const TTest *const unit_tests[] = { __VA_ARGS__ };                                 \
												   \
		return unit_run(unit_suite((name), unit_tests,                                     \
					   sizeof(unit_tests) / sizeof(unit_tests[0])));           \
	}
#endif
