/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_S3_SIGN_H
#define STORE_S3_SIGN_H
/*
 * AWS Signature Version 4, as pure functions: nothing here knows of stores, clocks or connections.
 *
 * Sources: "Signature Version 4 signing process" and "Authenticating Requests: Using the
 * Authorization Header" (Amazon S3 API Reference). A path is encoded once, as S3 has it.
 */
#include "base/text.h"
#include <stdbool.h>
#include <stdint.h>
#include <tessera/types.h>

#define S3_PAIRS_MAX 16u	/* headers, or query parameters, of one request */
#define S3_UNSIGNED  "UNSIGNED-PAYLOAD"
#define S3_HEX_LEN   64u	/* of SHA-256 */

struct s3_pair {
	const char *name, *value;
};

struct s3_request {
	const char           *method;
	const char           *path;	/* encoded, begins with '/' */
	const struct s3_pair *query;	/* plain, in any order */
	unsigned              nquery;
	const struct s3_pair *headers;	/* those that are signed, Host among them, in any order and case */
	unsigned              nheaders;
	const char           *payload;	/* SHA-256 of the body in hexadecimal, or S3_UNSIGNED */
};

/* What one day, region and service make of a secret. Wiped by its owner. */
struct s3_signkey {
	char          day[9];		/* "20130524" */
	char          region[64];
	char          service[16];
	unsigned char key[32];
};

void s3_date(int64_t wall, char ret[17]);	/* ns -> "20130524T000000Z" */
/* -ENAMETOOLONG for a region or service of absurd length, -EIO when the library of ciphers fails. */
int  s3_signkey_derive(struct s3_signkey *ret, const char *secret, const char *date,
		       const char *region, const char *service);

/* The query as it is signed and as it is sent: encoded and sorted. */
int  s3_query(struct text *out, const struct s3_pair *pairs, unsigned n);
int  s3_canonical(struct text *out, const struct s3_request *rq);
int  s3_string_to_sign(struct text *out, const char *canonical, const char *date,
		       const struct s3_signkey *key);
/* Value of the header Authorization. -E2BIG for more than S3_PAIRS_MAX pairs. */
int  s3_authorization(struct text *out, const struct s3_request *rq, const char *id,
		      const char *date, const struct s3_signkey *key);

int  s3_sha256_hex(const struct tess_iov *body, char ret[S3_HEX_LEN + 1]);
int  s3_md5(const struct tess_iov *body, unsigned char ret[16]);
void s3_hex(char *ret, const unsigned char *p, size_t n);	/* 2 n + 1 bytes */
void s3_base64(char *ret, const unsigned char *p, size_t n);	/* 4 ceil(n / 3) + 1 bytes */
#endif
