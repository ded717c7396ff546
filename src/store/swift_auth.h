/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SWIFT_AUTH_H
#define STORE_SWIFT_AUTH_H
/*
 * Who we are to an object store with the Swift API, and where it is. The first source that is
 * configured is used; when it fails its error is the end: another identity than the configured one
 * would be worse than none.
 *
 *   name      configured by                         then asks
 *   uri       auth=URL of the target URI            TempAuth when URL ends in /v1, /v1.0 or /1.0, else Keystone
 *   cloud     cloud=NAME or OS_CLOUD                clouds.yaml (and secure.yaml), Keystone or TempAuth
 *   token     OS_STORAGE_URL and OS_AUTH_TOKEN      nothing: cannot be renewed
 *             or OS_TOKEN
 *   keystone  OS_AUTH_URL                           Keystone v3: password, application credential, token
 *   tempauth  ST_AUTH                               TempAuth v1
 *
 * user= and key-file= of the URI stand for the user and the key or password of "uri", "keystone" and
 * "tempauth"; region= and interface= for those of any. Files with a password or key that others can
 * read are refused (-EPERM). Values never reach a message; clear-text copies are wiped.
 *
 * Source: OpenStack Identity API v3 ("Password authentication", "Application credential", catalog);
 * Object Storage API v1 ("Authentication"); openstacksdk, "Configuring OpenStack SDK Applications".
 */
#include "store/http.h"
#include "store/renew.h"

struct swift_token {
	struct renewed r;
	const char    *token;
	const char    *url;	/* of the account, without a slash at its end */
};

struct store_conf;
struct swift_auth;

/*
 * Finds the source, makes the transport with its certificates (or the URI's), and waits for the first
 * token. One line in `why`. Copies what it needs of conf, files and environment.
 */
int  swift_auth_open(struct swift_auth **ret, const struct store_conf *conf, unsigned connections,
		     struct text *why);
void swift_auth_close(struct swift_auth *a);	/* every call is done; NULL is fine */
struct http *swift_auth_http(struct swift_auth *a);
/* container_of() a renewed to swift_token. */
struct renew *swift_auth_renew(struct swift_auth *a);
bool swift_auth_renews(const struct swift_auth *a);	/* false: there is but the one token */
const char *swift_auth_source(const struct swift_auth *a);	/* "keystone, user u of project p at http://…" */

/*
 * For `tessera creds --explain`: one line for each source: what it would take, whether it is
 * configured, which is used; then what was fetched: the account's URL and the token's end. Never a
 * secret. 0 when usable, else the error. `uri` is a whole target URI.
 */
int  swift_auth_explain(const char *uri, struct text *out);
#endif
