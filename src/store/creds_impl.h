/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_CREDS_IMPL_H
#define STORE_CREDS_IMPL_H
/*
 * Shared by creds*.c. Two rules hold in all of them: bytes that may be a secret live in a struct
 * secret or are wiped by who made the copy; and no byte that came from a file, a process or a
 * service gets into a message, except names (of profiles, roles, error codes), made printable.
 */
#include "base/lock.h"
#include "base/text.h"
#include "store/creds.h"
#include "store/http.h"
#include <stdatomic.h>
#include <sys/types.h>

/* ---- creds_value.c ---- */

/*
 * A buffer of fixed room in pages of its own: out of core files, wiped when it goes. Fixed, because a
 * growing one leaves copies behind. Always NUL-terminated once it has room.
 */
struct secret {
	char  *s;
	size_t n, cap;	/* cap: without the NUL */
};
#define SECRET_INIT { 0 }
int  secret_init(struct secret *b, size_t cap);		/* -ENOMEM */
void secret_done(struct secret *b);
int  secret_addn(struct secret *b, const char *s, size_t n);	/* -EMSGSIZE: no room */
int  secret_add(struct secret *b, const char *s);
int  secret_encode(struct secret *b, const char *s);	/* percent-encoded, as of RFC 3986 */

struct creds_parts {
	const char *id, *secret, *token;	/* token may be NULL */
	int64_t     until;
};
/* -EINVAL when a part is not what keys are made of: it would end up in a header. `source` names them. */
int creds_value_new(struct creds_aws **ret, const struct creds_parts *p, const char *source,
		    struct text *why);

/* "2026-11-20T21:54:10Z", with fraction and offset. -EINVAL */
int creds_time_parse(const char *s, int64_t *ret);
void creds_time_add(struct text *out, int64_t t);	/* as above, to the second */

enum creds_json { CREDS_JSON_PROCESS, CREDS_JSON_SERVICE };
/* What credential_process prints, or what the container endpoint and IMDS answer. Wipes `s`. */
int creds_json_parse(enum creds_json kind, struct secret *s, const char *source,
		     struct creds_aws **ret, struct text *why);
/* Appends with everything but printable ASCII as '?', at most 200 bytes: a name that others chose. */
void creds_add_name(struct text *out, const char *s);

/* ---- creds_ini.c ---- */

#define CREDS_FILE_MAX ((size_t)1 << 20)

struct ini_entry {
	const char *kind;	/* of the section: "profile", "sso-session", "services"; "": none */
	const char *section;	/* its name */
	const char *outer;	/* "s3" of a nested block, or NULL */
	const char *key, *value;	/* key in lower case */
};
/* A file and what is in it. Strings point into `text`. */
struct creds_file {
	const char       *path;		/* borrowed */
	struct secret     text;
	struct ini_entry *e;
	unsigned          n, cap;
	mode_t            mode;
	uid_t             owner;
	bool              there;
};
void creds_file_done(struct creds_file *f);
/* Whole, bounded, regular only. -ENOENT leaves `there` false. Messages name the path. */
int  creds_file_read(struct creds_file *f, const char *path, struct text *why);
/* -EPERM when another user owns it or anybody but the owner may read (`keys`) or write it. */
int  creds_file_private(const struct creds_file *f, bool keys, struct text *why);
/*
 * Cuts the text into entries. `config`: profiles are "[profile x]"; else "[x]", and what comes before
 * the first section is of "default". -EINVAL with the line's number.
 */
int  creds_ini_parse(struct creds_file *f, bool config, struct text *why);
/* The last one wins. NULL: not there. */
const char *creds_ini_get(const struct creds_file *f, const char *kind, const char *section,
			  const char *outer, const char *key);
bool creds_ini_has(const struct creds_file *f, const char *kind, const char *section);

/* ---- creds_process.c ---- */

/* Words as a shell would cut them: quotes and backslashes, nothing else. Into argv[max], NULL-ended. */
int creds_words_split(char *line, char **argv, unsigned max);	/* in place; -EINVAL, -E2BIG */
struct creds_process {
	const char        *line;
	int64_t            timeout;
	const atomic_bool *stop;	/* set by another thread: give up */
};
int creds_process_run(const struct creds_process *p, struct secret *out, struct text *why);

/* ---- creds.c ---- */

enum creds_env {
	ENV_KEY_ID, ENV_SECRET, ENV_TOKEN, ENV_PROFILE, ENV_CREDENTIALS_FILE, ENV_CONFIG_FILE,
	ENV_WEB_TOKEN_FILE, ENV_ROLE_ARN, ENV_ROLE_SESSION, ENV_CONTAINER_REL, ENV_CONTAINER_FULL,
	ENV_CONTAINER_AUTH, ENV_CONTAINER_AUTH_FILE, ENV_IMDS_OFF, ENV_IMDS_ENDPOINT, ENV_IMDS_MODE,
	ENV_REGION, ENV_DEFAULT_REGION, ENV_ENDPOINT, ENV_ENDPOINT_STS, ENV_ENDPOINT_S3,
	ENV_CA_BUNDLE, ENV_HOME, ENV_N
};

struct creds_source;
struct creds {
	struct creds_conf conf;		/* strings of `arena` */
	struct secret     arena;
	const char       *env[ENV_N];	/* of `arena`; NULL: unset or empty */
	const char       *profile;	/* by URI, environment or "default" */
	bool              profile_given;	/* by URI or AWS_PROFILE */
	char             *credentials, *config;	/* paths */
	const struct creds_source *source;	/* chosen once: a renewal never changes identity */
	struct renew     *renew;
	struct http      *near, *far;	/* metadata services, no proxy; STS. Made when first needed */
	atomic_bool       stop;
	struct lock       lock;
	struct http      *calling_by GUARDED_BY(lock);
	struct http_call *calling GUARDED_BY(lock);
};
/* Without a thread and without fetching: what creds_setting() and creds_explain() need. */
int  creds_init(struct creds *c, const struct creds_conf *conf, struct text *why);
void creds_done(struct creds *c);
int  creds_fetch_static(struct creds *c, struct creds_aws **ret, struct text *why);	/* environment */

/* ---- creds_profile.c ---- */

struct creds_profiles {
	struct creds_file credentials, config;
};
int  creds_profiles_load(const struct creds *c, struct creds_profiles *p, struct text *why);
void creds_profiles_done(struct creds_profiles *p);
/* Of the credentials file, else of config. NULL: not there. */
const char *creds_profile_get(const struct creds_profiles *p, const char *profile, const char *key);
/* 1: there is something to take in it, which is appended to `what`; 0: no; or negative. */
int  creds_profile_configured(struct creds *c, struct text *what);
int  creds_profile_fetch(struct creds *c, struct creds_aws **ret, struct text *why);
int  creds_keyfile_fetch(struct creds *c, struct creds_aws **ret, struct text *why);
/* Of the environment, else of the profile: borrowed from p or c; NULL. service: "s3", "sts". */
const char *creds_endpoint(const struct creds *c, const struct creds_profiles *p, const char *service);
const char *creds_region(const struct creds *c, const struct creds_profiles *p);

/* ---- creds_service.c ---- */

struct creds_ask {
	bool           near;	/* a metadata service */
	const char    *method, *url;
	const char    *headers;
	struct secret *body;	/* NULL: none */
	struct secret *into;	/* the body of a 200 */
	struct text   *error;	/* NULL, or the body of another status */
	const char    *what;	/* "STS", for messages */
};
/* Waits, tries again what is worth it. The status, or negative with `why`. */
int creds_http_ask(struct creds *c, const struct creds_ask *a, struct text *why);
int creds_container_configured(struct creds *c, struct text *what);
int creds_container_fetch(struct creds *c, struct creds_aws **ret, struct text *why);
/* Whether the SDKs would send an authorization token there. -EINVAL, -EPERM */
int creds_container_url(const char *relative, const char *full, struct text *ret, struct text *why);
int creds_instance_configured(struct creds *c, struct text *what);
int creds_instance_fetch(struct creds *c, struct creds_aws **ret, struct text *why);

/* ---- creds_sts.c ---- */

struct creds_role {
	const char *arn, *session, *external_id, *duration;	/* NULL: not given, but arn */
	const char *token_file;		/* web identity */
	const char *region, *endpoint;
	const struct creds_aws *by;	/* who asks; NULL with token_file */
	const char *source;		/* for the result */
};
int creds_role_fetch(struct creds *c, const struct creds_role *role, struct creds_aws **ret,
		     struct text *why);
/* Reply of STS. Pure but for the clock; for tests and fuzzing. */
int creds_sts_parse(const char *xml, size_t n, const char *source, struct creds_aws **ret,
		    struct text *why);
void creds_sts_error(const char *xml, size_t n, struct text *out);
#endif
