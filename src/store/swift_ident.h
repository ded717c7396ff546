/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SWIFT_IDENT_H
#define STORE_SWIFT_IDENT_H
/* For src/store/swift_*.c only: an identity as it is configured, and what is said to get a token for it. */
#include "base/text.h"
#include "store/store.h"

/*
 *      name               environment, other name                  in clouds.yaml               secret
 */
#define SWIFT_FIELDS(x)                                                                             \
	x(AUTH_URL,          "OS_AUTH_URL", NULL,                     "auth_url",                     false) \
	x(USER,              "OS_USERNAME", NULL,                     "username",                     false) \
	x(USER_ID,           "OS_USER_ID", NULL,                      "user_id",                      false) \
	x(PASSWORD,          "OS_PASSWORD", NULL,                     "password",                     true)  \
	x(USER_DOMAIN,       "OS_USER_DOMAIN_NAME", NULL,             "user_domain_name",             false) \
	x(USER_DOMAIN_ID,    "OS_USER_DOMAIN_ID", NULL,               "user_domain_id",               false) \
	x(PROJECT,           "OS_PROJECT_NAME", "OS_TENANT_NAME",     "project_name",                 false) \
	x(PROJECT_ID,        "OS_PROJECT_ID", "OS_TENANT_ID",         "project_id",                   false) \
	x(PROJECT_DOMAIN,    "OS_PROJECT_DOMAIN_NAME", NULL,          "project_domain_name",          false) \
	x(PROJECT_DOMAIN_ID, "OS_PROJECT_DOMAIN_ID", NULL,            "project_domain_id",            false) \
	x(APP_ID,            "OS_APPLICATION_CREDENTIAL_ID", NULL,    "application_credential_id",    false) \
	x(APP_NAME,          "OS_APPLICATION_CREDENTIAL_NAME", NULL,  "application_credential_name",  false) \
	x(APP_SECRET,        "OS_APPLICATION_CREDENTIAL_SECRET", NULL, "application_credential_secret", true) \
	x(TOKEN,             "OS_TOKEN", "OS_AUTH_TOKEN",             "token",                        true)  \
	x(STORAGE_URL,       "OS_STORAGE_URL", NULL,                  "object_store_endpoint_override", false) \
	x(REGION,            "OS_REGION_NAME", NULL,                  "region_name",                  false) \
	x(INTERFACE,         "OS_INTERFACE", "OS_ENDPOINT_TYPE",      "interface",                    false) \
	x(CACERT,            "OS_CACERT", NULL,                       "cacert",                       false) \
	x(CERT,              "OS_CERT", NULL,                         "cert",                         false) \
	x(KEY,               "OS_KEY", NULL,                          "key",                          false) \
	x(AUTH_TYPE,         "OS_AUTH_TYPE", NULL,                    "auth_type",                    false)

enum swift_field {
#define SWIFT_FIELD_ENUM(name, env, alt, yaml, secret) SWIFT_##name,
	SWIFT_FIELDS(SWIFT_FIELD_ENUM)
#undef SWIFT_FIELD_ENUM
	SWIFT_NFIELDS
};

enum swift_kind { SWIFT_TEMPAUTH, SWIFT_KEYSTONE, SWIFT_STATIC };

struct swift_ident {
	enum swift_kind kind;
	const char     *source;	/* static: "keystone" */
	char            file[512];	/* the clouds.yaml used, or "" */
	char           *f[SWIFT_NFIELDS];	/* owned; NULL: not given */
};

/* What of the target URI takes part. Borrowed. */
struct swift_auth_conf {
	const char *uri;	/* for messages */
	const char *auth, *user, *key_file, *cloud, *region, *interface;
	const char *ca, *cert, *key, *proxy;
};
void swift_auth_conf_set(struct swift_auth_conf *c, const struct store_conf *conf);

/*
 * The chain of swift_auth.h: finds the source and fills `id`. `explain`, when not NULL, gets a line for
 * each source. -EACCES when nothing is configured; -EPERM for a file that others can read.
 */
int  swift_ident_load(struct swift_ident *id, const struct swift_auth_conf *c, struct text *explain,
		      struct text *why);
void swift_ident_done(struct swift_ident *id);	/* wipes */
/* What is missing for its kind, told in `why`; -EACCES. */
int  swift_ident_check(struct swift_ident *id, const struct swift_auth_conf *c, struct text *why);
void swift_ident_to_text(const struct swift_ident *id, struct text *out);
/* Replaces a field; NULL and "" leave it. */
int  swift_ident_set(struct swift_ident *id, enum swift_field field, const char *value, size_t n);
void swift_wipe(struct text *t);	/* overwrites, then frees */
int  swift_secret_room(struct text *t, size_t n);	/* so that growing leaves no copies behind */

/*
 * A regular file of at most 1 MiB. `secret`: refused unless it is this user's or root's and nobody
 * else may read it. The text is the caller's, to be wiped. *ret_open: others can read it (may be NULL).
 */
int  swift_file_read(const char *file, bool secret, struct text *ret, bool *ret_open,
		     struct text *why);

/*
 * Reads the cloud `cloud` out of clouds.yaml text into `id`, fields that are there already kept. A small
 * strict part of YAML: nested mappings of plain and quoted one-line scalars. What is not ours is passed
 * over; what is ours and written otherwise is refused with its line. *ret_found: the cloud is there.
 */
int  swift_clouds_parse(struct swift_ident *id, const struct text *yaml, const char *cloud,
			bool *ret_found, struct text *why);

/* ---- what is said to Keystone, and heard: pure ---- */

/* Body of POST /v3/auth/tokens. Secret. */
int  swift_keystone_body(const struct swift_ident *id, struct text *ret);
/*
 * Finds the object store in the catalog of the reply, appends its URL, and sets the token's life as
 * Keystone's own clock counts it: ns; INT64_MAX when it does not say. -EPROTO, -EACCES with `why`.
 */
int  swift_keystone_reply(const struct swift_ident *id, const char *json, size_t n,
			  struct text *ret_url, int64_t *ret_life, struct text *why);
/* "…/v3/auth/tokens" of an auth URL with or without /v3; -EINVAL for /v2.0. */
int  swift_keystone_url(const char *auth_url, struct text *ret);
/* The identity service's word about an error ("error": {"message"}) or Swift's plain text; one line, bounded. */
void swift_reply_says(const char *body, size_t n, struct text *out);
#endif
