/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "unit.h"
#include <string.h>

static const int all[] = {
#define ROW(name, no, text) TESS_E_##name,
	TESS_ERRORS(ROW)
#undef ROW
};
#define NALL ((int)(sizeof(all) / sizeof(all[0])))

START_TEST(test_every_private_code_folds_to_a_kernel_errno)
{
	for (int i = 0; i < NALL; i++) {
		int e = err_fold(-all[i]);

		ck_assert_int_lt(e, 0);
		ck_assert_int_gt(e, -200);
		ck_assert_ptr_nonnull(strerrorname_np(-e));
	}
}
END_TEST

START_TEST(test_fold_of_a_row_is_its_own_row)
{
	ck_assert_int_eq(err_fold(-TESS_E_SHORT_BODY), -EIO);
	ck_assert_int_eq(err_fold(-TESS_E_STORE_FULL), -ENOSPC);
	ck_assert_int_eq(err_fold(-TESS_E_STALE), -ESTALE);
	ck_assert_int_eq(err_fold(-TESS_E_STOPPING), -ESHUTDOWN);
	ck_assert_str_eq(err_name(-TESS_E_SHORT_BODY), "TESS_E_SHORT_BODY");
	ck_assert_str_eq(err_name(-TESS_E_STOPPING), "TESS_E_STOPPING");
	ck_assert_str_eq(err_text(-TESS_E_CHECKSUM), "checksum mismatch");
}
END_TEST

START_TEST(test_errno_zero_and_positive_pass_unchanged)
{
	ck_assert_int_eq(err_fold(0), 0);
	ck_assert_int_eq(err_fold(17), 17);
	ck_assert_int_eq(err_fold(TESS_E_CHECKSUM), TESS_E_CHECKSUM);
	ck_assert_int_eq(err_fold(-ENOENT), -ENOENT);
	ck_assert_str_eq(err_name(-ENOENT), "ENOENT");
}
END_TEST

START_TEST(test_numbers_beyond_the_table_fold_to_eio)
{
	ck_assert_int_eq(err_fold(-TESS_E_LAST), -EIO);
	ck_assert_int_eq(err_fold(-TESS_E_FIRST), -EIO);
	ck_assert_int_eq(err_fold(-1000000), -EIO);
	ck_assert_str_eq(err_name(-1000000), "UNKNOWN");
	ck_assert_ptr_nonnull(err_text(-1000000));
}
END_TEST

UNIT_MAIN("err", test_every_private_code_folds_to_a_kernel_errno,
	  test_fold_of_a_row_is_its_own_row, test_errno_zero_and_positive_pass_unchanged,
	  test_numbers_beyond_the_table_fold_to_eio)
