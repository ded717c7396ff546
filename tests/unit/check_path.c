/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include "base/fault.h"
#include "base/scoped.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

START_TEST(a_relative_path_is_below_the_working_directory)
{
	scoped_free char *one = NULL, *two = NULL;

	ck_assert_int_eq(chdir("/usr"), 0);
	CLEAN(path_absolute("a/b c", &one));
	ck_assert_str_eq(one, "/usr/a/b c");
	CLEAN(path_absolute("/x", &two));
	ck_assert_str_eq(two, "/x");
}
END_TEST

START_TEST(what_fails_leaves_nothing)
{
	char dir[] = "/tmp/check_path.XXXXXX", *p = NULL;

	CLEAN(fault_set("alloc@1=ENOMEM"));
	ck_assert_int_eq(path_absolute("/x", &p), -ENOMEM);
	CLEAN(fault_set("alloc@1=ENOMEM"));
	ck_assert_int_eq(path_absolute("x", &p), -ENOMEM);
	CLEAN(fault_set(NULL));
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chdir(dir), 0);
	ck_assert_int_eq(rmdir(dir), 0);
	ck_assert_int_eq(path_absolute("x", &p), -ENOENT);
	ck_assert_ptr_null(p);
	CLEAN(path_absolute("/x", &p));
	free(p);
}
END_TEST

UNIT_MAIN("path", a_relative_path_is_below_the_working_directory, what_fails_leaves_nothing)
