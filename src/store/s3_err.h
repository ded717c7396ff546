/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_S3_ERR_H
#define STORE_S3_ERR_H
/*
 * What an S3 service's refusal means: one table. Whether an errno is worth another try is the retry
 * decorator's to know; here is only what the store itself can mend first.
 */

enum s3_mend {
	S3_FINAL,	/* nothing: the error goes up */
	S3_SKEW,	/* our clock is wrong: take theirs */
	S3_RENEW,	/* fetch credentials anew */
	S3_REGION,	/* another region, which the reply names */
	S3_NO_VERB,	/* the service does not have this request */
};

struct s3_err {
	const char  *code;	/* as in <Code>; NULL: none, or unknown to the table */
	int          err;	/* negative */
	enum s3_mend mend;
	const char  *says;	/* in plain words; NULL: err_text() does */
};

/* `code` may be ""; then, and when it is not in the table, `status` decides. */
struct s3_err s3_err_find(const char *code, unsigned status);
#endif
