/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CREDSTEST_H
#define CREDSTEST_H
/*
 * For tests of credentials: a home of its own, no AWS_ variable but the one that turns the instance
 * off, and a server that hands out credentials when asked for.
 */
#include "fakeobj.h"
#include "store/creds_impl.h"
#include <sys/types.h>

/* In every secret part of every file here: no message may hold it. */
#define LEAK "LEAKED"
#define KEY(n)	    "AKIATESTKEY0000" n
#define SECRET(n)   LEAK "+secret/of/" n
#define KEYS(n)	    "aws_access_key_id = " KEY(n) "\naws_secret_access_key = " SECRET(n) "\n"

extern char ct_home[64], ct_path[160];	/* path: of the last file */
extern struct text ct_why, ct_out;
extern struct fakeobj *ct_fake;

void ct_setup(void);	/* a checked fixture's */
void ct_teardown(void);
const char *ct_file(const char *name);	/* its path below the home */
void ct_write_bytes(const char *name, const void *p, size_t n, mode_t mode);
void ct_write(const char *name, const char *s);	/* mode 0600 */
void ct_no_leak(const struct text *t);
/* The id that the chain ends with, "" for anonymous. */
const char *ct_opens(const struct creds_conf *conf);
/* It fails with that error, in one line that has `part` and no secret. */
void ct_fails(const struct creds_conf *conf, int want, const char *part);
void ct_fake_start(void);
const char *ct_url(const char *tail);	/* of the server */

struct ct_waiter {
	struct renew_wait w;
	struct renewed   *v;
	atomic_int        called;
};
void ct_ready(struct renew_wait *w, struct renewed *v, int err);
#endif
