/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3_err.h"

#include "base/err.h"
#include "base/scoped.h"
#include "store/http.h"

#include <string.h>

/*
 * Source: Amazon S3 API Reference, "List of error codes"; codes that begin with X or are marked are
 * of MinIO, versitygw, radosgw. A missing bucket is not ENOENT: that would say of every object
 * that it is gone. What was damaged on its way is EPROTO, which another try may mend.
 */
static const struct s3_err rows[] = {
	/* there is no such thing */
	{ "NoSuchKey", -ENOENT, S3_FINAL, NULL },
	{ "NoSuchVersion", -ENOENT, S3_FINAL, NULL },
	{ "NoSuchBucket", -ENODEV, S3_FINAL, "the bucket does not exist" },
	{ "InvalidBucketName", -EINVAL, S3_FINAL, "this is no name of a bucket" },
	{ "NoSuchUpload", -EIO, S3_FINAL, NULL },
	{ "InvalidRange", -TESS_E_SHORT_BODY, S3_FINAL, NULL },

	/* who we are */
	{ "AccessDenied", -EACCES, S3_FINAL, "access is denied: these credentials are known, but not allowed this" },
	{ "InvalidAccessKeyId", -EACCES, S3_RENEW, "the service does not know this access key id" },
	{ "XAdminUserNotFound", -EACCES, S3_RENEW, "the service does not know this access key id" },
	{ "SignatureDoesNotMatch", -EACCES, S3_FINAL,
	  "the secret key is not the one of this access key id" },
	{ "ExpiredToken", -EACCES, S3_RENEW, "the session token has expired" },
	{ "TokenRefreshRequired", -EACCES, S3_RENEW, "the session token has expired" },
	{ "InvalidToken", -EACCES, S3_RENEW, "the session token is not valid" },
	{ "InvalidClientTokenId", -EACCES, S3_RENEW, "the session token is not valid" },
	{ "AllAccessDisabled", -EACCES, S3_FINAL, "all access to the bucket is disabled" },
	{ "AccountProblem", -EACCES, S3_FINAL, "there is a problem with the account" },
	{ "NotSignedUp", -EACCES, S3_FINAL, "the account is not signed up for this service" },
	{ "UserSuspended", -EACCES, S3_FINAL, "the account is suspended" },	/* radosgw */
	{ "InvalidPayer", -EACCES, S3_FINAL, "access to the bucket is disabled" },
	{ "InvalidSecurity", -EACCES, S3_FINAL, "the credentials are not valid" },
	{ "MissingSecurityHeader", -EACCES, S3_FINAL, "the service wants signed requests" },
	{ "AccessPointAliasAlreadyOwnedByYou", -EACCES, S3_FINAL, NULL },
	{ "InvalidObjectState", -EACCES, S3_FINAL, "the object is in an archive" },
	{ "KMS.DisabledException", -EACCES, S3_FINAL, "the encryption key is disabled" },
	{ "KMS.NotFoundException", -EACCES, S3_FINAL, "the encryption key does not exist" },
	{ "RequestTimeTooSkewed", -EACCES, S3_SKEW, "the clocks differ by more than 15 minutes" },
	{ "RequestExpired", -EACCES, S3_SKEW, "the clocks differ by more than 15 minutes" },

	/* where */
	{ "AuthorizationHeaderMalformed", -EACCES, S3_REGION, "the region is wrong" },
	{ "IllegalLocationConstraintException", -EACCES, S3_REGION, "the region is wrong" },
	{ "PermanentRedirect", -EREMCHG, S3_REGION, "the bucket is in another region" },
	{ "TemporaryRedirect", -EAGAIN, S3_REGION, "the bucket is in another region" },
	{ "Redirect", -EAGAIN, S3_REGION, "the bucket is in another region" },

	/* come back later */
	{ "SlowDown", -TESS_E_STORE_BUSY, S3_FINAL, NULL },
	{ "SlowDownRead", -TESS_E_STORE_BUSY, S3_FINAL, NULL },
	{ "SlowDownWrite", -TESS_E_STORE_BUSY, S3_FINAL, NULL },
	{ "ServiceUnavailable", -TESS_E_STORE_BUSY, S3_FINAL, NULL },
	{ "Busy", -TESS_E_STORE_BUSY, S3_FINAL, NULL },
	{ "TooManyRequests", -TESS_E_STORE_BUSY, S3_FINAL, NULL },
	{ "TooManyRequestsException", -TESS_E_STORE_BUSY, S3_FINAL, NULL },
	{ "RequestLimitExceeded", -TESS_E_STORE_BUSY, S3_FINAL, NULL },
	{ "RequestThrottled", -TESS_E_STORE_BUSY, S3_FINAL, NULL },
	{ "Throttling", -TESS_E_STORE_BUSY, S3_FINAL, NULL },
	{ "ThrottlingException", -TESS_E_STORE_BUSY, S3_FINAL, NULL },
	{ "BandwidthLimitExceeded", -TESS_E_STORE_BUSY, S3_FINAL, NULL },
	{ "XMinioServerNotInitialized", -TESS_E_STORE_BUSY, S3_FINAL, NULL },
	{ "InternalError", -EIO, S3_FINAL, NULL },
	{ "InternalFailure", -EIO, S3_FINAL, NULL },
	{ "OperationAborted", -EBUSY, S3_FINAL, NULL },
	{ "ConditionalRequestConflict", -EBUSY, S3_FINAL, NULL },
	{ "RequestTimeout", -ETIMEDOUT, S3_FINAL, NULL },
	{ "XMinioStorageQuorum", -EIO, S3_FINAL, NULL },

	/* damaged on its way */
	{ "BadDigest", -EPROTO, S3_FINAL, NULL },
	{ "XAmzContentSHA256Mismatch", -EPROTO, S3_FINAL, NULL },
	{ "XAmzContentChecksumMismatch", -EPROTO, S3_FINAL, NULL },
	{ "IncompleteBody", -ECONNRESET, S3_FINAL, NULL },

	/* room */
	{ "QuotaExceeded", -TESS_E_STORE_FULL, S3_FINAL, NULL },	/* radosgw */
	{ "XMinioStorageFull", -TESS_E_STORE_FULL, S3_FINAL, NULL },
	{ "XMinioAdminBucketQuotaExceeded", -TESS_E_STORE_FULL, S3_FINAL, NULL },
	{ "InsufficientStorage", -TESS_E_STORE_FULL, S3_FINAL, NULL },
	{ "EntityTooLarge", -EFBIG, S3_FINAL, "the service does not take objects so large" },
	{ "KeyTooLongError", -ENAMETOOLONG, S3_FINAL, "the prefix is too long" },

	/* conditions */
	{ "PreconditionFailed", -EEXIST, S3_FINAL, NULL },
	{ "MethodNotAllowed", -EOPNOTSUPP, S3_NO_VERB, "the service does not have this request" },
	{ "NotImplemented", -EOPNOTSUPP, S3_NO_VERB, "the service does not have this request" },

	/* our mistake: another try would make it again */
	{ "InvalidRequest", -EINVAL, S3_FINAL, NULL },
	{ "InvalidArgument", -EINVAL, S3_FINAL, NULL },
	{ "InvalidDigest", -EINVAL, S3_FINAL, NULL },
	{ "InvalidURI", -EINVAL, S3_FINAL, NULL },
	{ "InvalidPart", -EIO, S3_FINAL, NULL },
	{ "InvalidPartOrder", -EINVAL, S3_FINAL, NULL },
	{ "EntityTooSmall", -EINVAL, S3_FINAL, "max-put is below what the service takes as a part" },
	{ "MalformedXML", -EINVAL, S3_FINAL, NULL },
	{ "MissingContentLength", -EINVAL, S3_FINAL, NULL },
	{ "MissingContentMD5", -EINVAL, S3_FINAL, NULL },
	{ "BadRequest", -EINVAL, S3_FINAL, NULL },
};

struct s3_err s3_err_find(const char *code, unsigned status)
{
	struct s3_err e = { .code = NULL };

	for (size_t i = 0; i < ARRAY_SIZE(rows) && code[0]; i++) {
		if (strcmp(rows[i].code, code) != 0)
			continue;
		/* Says less than a status that is not simply 500; a 404 with it is not about the object. */
		if (rows[i].err == -EIO && status >= 400 && status != 404 && status != 500)
			break;
		return rows[i];
	}
	switch (status) {
	case 301:
		e.err = -EREMCHG;
		e.mend = S3_REGION;
		e.says = "the bucket is in another region";
		break;
	case 302:
	case 303:
	case 307:
	case 308:
		e.err = -EAGAIN;
		e.mend = S3_REGION;
		e.says = "the service points to another address";
		break;
	case 400:
		e.err = -EINVAL;
		break;
	case 405:
	case 501:
		e.err = -EOPNOTSUPP;
		e.mend = S3_NO_VERB;
		e.says = "the service does not have this request";
		break;
	case 0 ... 299:	/* an <Error> in a reply that calls itself a success */
		e.err = -EIO;
		break;
	default:
		e.err = http_status_err(status);
	}
	return e;
}
