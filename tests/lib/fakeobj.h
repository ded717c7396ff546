/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKEOBJ_H
#define FAKEOBJ_H
/*
 * An object server that misbehaves on demand: S3, Swift (TempAuth v1, Keystone v3) and the services
 * that issue credentials (instance metadata, container, STS), over HTTP/1.1 on loopback. Objects
 * are in memory. Signatures, tokens and their ends are checked here by code that shares nothing
 * with the product's. Every bucket and container is there, but for those named "missing…".
 *
 * What goes wrong is said by rules, several separated by ';':
 *
 *	VERB:every=K:KIND[=ARG]   VERB:nth=N:KIND[=ARG]   VERB:from=A:to=B:KIND[=ARG]
 *
 * VERB    put get head del list bulk (a POST that deletes many); other (buckets, /info);
 *         auth (Swift tokens), creds (metadata, STS); any: put to other; all: everything; connect:
 *         a connection that was accepted. A rule counts the requests of its verb from when it was
 *         set.
 * KIND    not carried out:
 *         NNN[=CODE]    that status; S3 gets an error document with CODE or the usual one
 *         slowdown      503 SlowDown            toomany[=S]  429 with Retry-After: S
 *         ok-error[=CODE]   200 with an error document
 *         redirect[=NNN]    301, 302, 307 or 308 to /_elsewhere on this server, which counts
 *         reset         RST instead of a reply  half         ends its side of the connection
 *         garbage       no HTTP                 endless      headers without end
 *         blackhole     nothing, ever           bad-body cut-body bomb-body huge-body xxe-body: a
 *         reply of 200 whose document (XML or JSON) is garbage, cut off with the length right, an
 *         entity bomb (deeply nested JSON), 64 MiB long, one that names a file
 *         carried out:
 *         reset-after   then RST                reset-mid    RST in the middle of the reply
 *         short         less than announced, then closed     long  more than announced
 *         less more     a byte less, more than was asked for, announced as such
 *         unframed      half the body with no length, then closed
 *         delay=MS      before the first byte   stall[=MS]   in the middle of the body, then closed
 *         flip          a bit of the body       other-range  the range behind the one asked for
 *         whole         the object instead of the range      cut    its first half, as if that were all
 *         close         after the reply, unannounced       etag   of a put: another's
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fakeobj;

struct fakeobj_conf {
	unsigned    port;	/* 0: a free one */
	unsigned    page;	/* names in a listing at most; 0: 1000 */
	uint64_t    max_object;	/* bytes, of Swift, which says so in /info; 0: 5 GiB */
	unsigned    life_ms;	/* of what is issued from now on; 0: an hour */
	int         skew;	/* seconds this server's clock is ahead */
	const char *access, *secret;	/* of S3, for ever; NULL: FAKEOBJ_ACCESS, FAKEOBJ_SECRET */
	const char *user, *key;		/* of Swift; NULL: FAKEOBJ_USER, FAKEOBJ_KEY */
	const char *region;		/* S3 refuses others; NULL: any will do */
	bool        anonymous;		/* S3 asks for no signature */
	bool        no_conditional;	/* If-None-Match is 501, as some services say */
	bool        no_bulk;		/* bulk deletion is 501 */
};
#define FAKEOBJ_ACCESS "AKIAFAKEOBJECTSERVER"
#define FAKEOBJ_SECRET "fake+secret/KEY0of1the2object3server4xyz"
#define FAKEOBJ_USER   "test:tester"	/* Keystone: user "tester", project "test" */
#define FAKEOBJ_KEY    "fake-swift-password"
#define FAKEOBJ_APP_ID "fakeapplicationcredential"	/* its secret is the key */
#define FAKEOBJ_JWT    "fake-web-identity-token"	/* what AssumeRoleWithWebIdentity wants */
#define FAKEOBJ_BEARER "fake-container-token"	/* Authorization of the container endpoint */

int  fakeobj_start(struct fakeobj **ret, const struct fakeobj_conf *conf);	/* NULL: all defaults */
void fakeobj_stop(struct fakeobj *f);		/* NULL is fine; ends every connection */
unsigned fakeobj_port(const struct fakeobj *f);
/* Rules instead of those set; "" or NULL: none. -EINVAL: nothing changed. */
int  fakeobj_rules(struct fakeobj *f, const char *rules);
void fakeobj_max_object(struct fakeobj *f, uint64_t bytes);
void fakeobj_life(struct fakeobj *f, unsigned life_ms);
void fakeobj_skew(struct fakeobj *f, int seconds);
void fakeobj_access(struct fakeobj *f, const char *access);	/* the other one is not known any more */
void fakeobj_expire(struct fakeobj *f);		/* all that was issued ends now */
void fakeobj_kick(struct fakeobj *f);		/* RST for every connection */
/*
 * Requests of VERB ("any", "all" too) with OUTCOME: "all", "ok", "fault", "denied" (401, 403 of its
 * own), "missing" (404), "other". Whatever the verb: "elsewhere" those that followed a redirect,
 * "issued" credentials and tokens.
 */
uint64_t fakeobj_count(struct fakeobj *f, const char *verb, const char *outcome);
uint64_t fakeobj_objects(struct fakeobj *f, const char *prefix, uint64_t *ret_bytes);
uint64_t fakeobj_connections(struct fakeobj *f);	/* accepted so far */
/* A secret, a token or a password that it knows or issued is in these bytes. */
bool fakeobj_leaks(struct fakeobj *f, const void *p, size_t n);
char *fakeobj_stats(struct fakeobj *f);		/* JSON; malloc()ed */
/*
 * The same over HTTP: GET /_stats; POST /_control?QUERY with rules=…, life=MS, page=N,
 * skew=S, expire=1, kick=1, anonymous=0|1, clear=1 (drops the objects), reset=1 (counters).
 */
#endif
