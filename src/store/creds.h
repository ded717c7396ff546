/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_CREDS_H
#define STORE_CREDS_H
/*
 * Who we are to an S3 service: the credential chain of the AWS command line and SDKs, in their order.
 *
 *   name           from
 *   environment    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN (not when the URI gives a
 *                  profile or key-file: two targets may need two identities)
 *   key-file       URI parameter key-file=FILE (mode 0600 or 0400, of this user): two lines, or an INI file
 *   web-identity   AWS_WEB_IDENTITY_TOKEN_FILE + AWS_ROLE_ARN; STS AssumeRoleWithWebIdentity
 *   profile        ~/.aws/credentials and ~/.aws/config (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE):
 *                  keys, credential_process, source_profile/credential_source + role_arn (STS AssumeRole),
 *                  web_identity_token_file + role_arn
 *   container      AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI, AWS_CONTAINER_AUTHORIZATION_TOKEN[_FILE]
 *   instance       IMDSv2 at 169.254.169.254 or AWS_EC2_METADATA_SERVICE_ENDPOINT, unless AWS_EC2_METADATA_DISABLED
 *   anonymous      only when asked for: URI parameter anonymous=1; then nothing else is looked at
 *
 * The first source that is configured is used; when it fails the chain ends with its error: going
 * on with another identity than the configured one would be worse than none. Not configured at all:
 * -EACCES with a line that lists what was looked at. Values never reach a message; clear-text copies
 * are wiped when the last reference goes (OPENSSL_cleanse), and are kept out of core files
 * (MADV_DONTDUMP) where they live long.
 *
 * Files with keys that others can read are refused (-EPERM, naming file and mode), as ssh does.
 *
 * Source: "AWS SDKs and Tools Reference Guide", standardized credential providers; EC2 IMDSv2 and
 * STS API references.
 */
#include "store/renew.h"

struct creds_aws {
	struct renewed r;
	const char    *id, *secret;	/* NULL both: anonymous */
	const char    *token;		/* session token or NULL */
	const char    *source;		/* "profile lab of /home/u/.aws/credentials": for people */
};

struct creds_conf {
	const char *uri;		/* for messages */
	const char *profile;		/* NULL: AWS_PROFILE, else "default" */
	const char *key_file;		/* NULL: none */
	const char *region;		/* for STS; NULL: from the chain, us-east-1 */
	bool        anonymous;
};

struct creds;
/* Copies conf and what it needs of the environment (a daemon's changes with fork and time). Blocks for the first. */
int  creds_open(struct creds **ret, const struct creds_conf *conf, struct text *why);
void creds_close(struct creds *c);	/* NULL is fine */
/* As renew_get() and so on; container_of() a renewed to creds_aws. */
struct renew *creds_renew(struct creds *c);

/* Settings of the same files: "region", "endpoint_url", "ca_bundle" of the profile (and AWS_REGION, AWS_DEFAULT_REGION,
 * AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_CA_BUNDLE). Appends; -ENOENT. */
int creds_setting(const struct creds_conf *conf, const char *name, struct text *ret);

/*
 * For `tessera creds --explain`: one line for each source of the chain in order: what it would take, whether it is
 * configured, why not, and which one is used; at the end what was fetched: kind, last four characters
 * of the key id, expiry. Never a secret. 0 when usable, else the chain's error.
 */
int creds_explain(const struct creds_conf *conf, struct text *out);
#endif
