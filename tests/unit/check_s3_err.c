/* SPDX-License-Identifier: Apache-2.0 */
/* What refusals mean: 404 alone is ENOENT, and then only of an object. */
#include "store/s3_err.h"

#include "base/err.h"
#include "base/scoped.h"
#include "unit.h"

static const struct {
	const char  *code;
	unsigned     status;
	int          err;
	enum s3_mend mend;
} rows[] = {
	{ "NoSuchKey", 404, -ENOENT, S3_FINAL },
	{ "NoSuchBucket", 404, -ENODEV, S3_FINAL },
	{ "", 404, -ENOENT, S3_FINAL },
	{ "", 401, -EACCES, S3_FINAL },
	{ "", 403, -EACCES, S3_FINAL },
	{ "AccessDenied", 403, -EACCES, S3_FINAL },
	{ "InvalidAccessKeyId", 403, -EACCES, S3_RENEW },
	{ "SignatureDoesNotMatch", 403, -EACCES, S3_FINAL },
	{ "ExpiredToken", 400, -EACCES, S3_RENEW },
	{ "RequestTimeTooSkewed", 403, -EACCES, S3_SKEW },
	{ "AuthorizationHeaderMalformed", 400, -EACCES, S3_REGION },
	{ "PermanentRedirect", 301, -EREMCHG, S3_REGION },
	{ "", 301, -EREMCHG, S3_REGION },
	{ "", 307, -EAGAIN, S3_REGION },
	{ "SlowDown", 503, -TESS_E_STORE_BUSY, S3_FINAL },
	{ "", 503, -TESS_E_STORE_BUSY, S3_FINAL },
	{ "", 429, -TESS_E_STORE_BUSY, S3_FINAL },
	/* The body is right where the status is not. */
	{ "SlowDown", 200, -TESS_E_STORE_BUSY, S3_FINAL },
	{ "InternalError", 200, -EIO, S3_FINAL },
	{ "SomethingNew", 200, -EIO, S3_FINAL },
	{ "InternalError", 500, -EIO, S3_FINAL },
	{ "InternalError", 503, -TESS_E_STORE_BUSY, S3_FINAL },
	{ "InternalError", 408, -ETIMEDOUT, S3_FINAL },
	{ "", 500, -EIO, S3_FINAL },
	{ "", 502, -EIO, S3_FINAL },
	{ "SomethingNew", 500, -EIO, S3_FINAL },
	{ "SomethingNew", 400, -EINVAL, S3_FINAL },
	{ "RequestTimeout", 400, -ETIMEDOUT, S3_FINAL },
	{ "BadDigest", 400, -EPROTO, S3_FINAL },
	{ "InvalidRange", 416, -TESS_E_SHORT_BODY, S3_FINAL },
	{ "", 416, -TESS_E_SHORT_BODY, S3_FINAL },
	{ "PreconditionFailed", 412, -EEXIST, S3_FINAL },
	{ "", 412, -EEXIST, S3_FINAL },
	{ "QuotaExceeded", 403, -TESS_E_STORE_FULL, S3_FINAL },
	{ "", 507, -TESS_E_STORE_FULL, S3_FINAL },
	{ "EntityTooLarge", 400, -EFBIG, S3_FINAL },
	{ "NotImplemented", 501, -EOPNOTSUPP, S3_NO_VERB },
	{ "", 405, -EOPNOTSUPP, S3_NO_VERB },
	{ "", 501, -EOPNOTSUPP, S3_NO_VERB },
};

START_TEST(refusals_mean_what_they_say)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct s3_err e = s3_err_find(rows[i].code, rows[i].status);

		ck_assert_msg(e.err == rows[i].err && e.mend == rows[i].mend,
			      "%s %u: %s, mend %d; expected %s, mend %d", rows[i].code,
			      rows[i].status, err_name(e.err), e.mend, err_name(rows[i].err),
			      rows[i].mend);
	}
}
END_TEST

START_TEST(every_status_is_an_error_here)
{
	for (unsigned status = 0; status < 1000; status++) {
		int err = s3_err_find("", status).err;

		ck_assert_int_lt(err, 0);
		ck_assert_msg((err == -ENOENT) == (status == 404), "%u: %s", status, err_name(err));
	}
}
END_TEST

UNIT_MAIN("s3_err", refusals_mean_what_they_say, every_status_is_an_error_here)
