/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_S3_IMPL_H
#define STORE_S3_IMPL_H
/*
 * The parts of the s3 store, for src/store/s3_*.c and store_s3.c only.
 *
 *   store_s3.c  the verbs, each one request       s3_conf.c  what the URI says
 *   s3_del.c    deletions, many to a request      s3_open.c  probing, and errors in plain words
 *   s3_list.c   listings                          s3_call.c  one request: signed, sent, judged, mended
 *   s3_multi.c  objects larger than max-put
 *
 * Below them, and alone: http (transport), s3_sign, s3_xml, s3_err (pure), creds (who we are).
 */
#include "base/lock.h"
#include "store/creds.h"
#include "store/http.h"
#include "store/s3_err.h"
#include "store/s3_sign.h"
#include "store/s3_xml.h"
#include "store/store.h"
#include <stdatomic.h>

#define S3_REGION_DEFAULT "us-east-1"
#define S3_BATCH	  1000u	/* names one DeleteObjects takes */
#define S3_PAGE		  1000u	/* names one listing gives */
#define S3_PARTS	  10000u
#define S3_PART_MIN	  (UINT64_C(5) << 20)
#define S3_CALL_PAIRS	  6u

enum s3_checksum { S3_SUM_NONE, S3_SUM_MD5, S3_SUM_CRC32C };

struct s3_conf {
	char            *bucket, *prefix;	/* prefix: "" or ends with '/' */
	struct http_url  end;			/* unless aws */
	bool             aws;			/* host of the region, no endpoint was given */
	bool             path_style, anonymous;
	char             region[64];
	bool             region_given;		/* else the service may correct it while we open */
	bool             sign_body;		/* payload-hash=sha256 */
	enum s3_checksum checksum;
	uint64_t         max_put, connections;
	char            *profile, *key_file, *ca, *cert, *key, *proxy;	/* or NULL */
};

struct s3 {
	struct store   s;
	struct s3_conf conf;		/* const once open, the region after opening */
	struct http   *http;		/* owned */
	struct creds  *creds;		/* owned; NULL: anonymous */
	struct renew  *renew;		/* of creds */
	bool           opening;		/* one request at a time, and its region may be corrected */
	atomic_int_fast64_t skew;	/* ns that their clock is ahead of ours */
	atomic_bool    no_bulk;		/* the service has no DeleteObjects */
	atomic_int_fast64_t reread;	/* clock_now() when credentials without an end were refused last */
	atomic_int_fast64_t told;	/* clock_now() of the last logged refusal */
	atomic_uint    untold;		/* refusals since then */

	struct lock        lock;
	struct list_node   calls GUARDED_BY(&lock);	/* s3_call.link, those with an op */
	struct s3_signkey  key GUARDED_BY(&lock);	/* of key_of, for its day */
	struct renewed    *key_of GUARDED_BY(&lock);	/* a reference; NULL: no key */
	struct list_node   dels GUARDED_BY(&lock);	/* store_op.link, to be deleted */
	struct list_node   rounds GUARDED_BY(&lock);	/* s3_round.link, being deleted */
	unsigned           nrounds GUARDED_BY(&lock);	/* being deleted, those with one name too */
	struct cond        no_rounds;
	int64_t            del_last GUARDED_BY(&lock);	/* when the last of them was sent */
};

/* ---- s3_conf.c ---- */

/* -TESS_E_URI with `why`, -EPERM for a private key others can read, -ENOMEM. */
int  s3_conf_parse(struct s3_conf *ret, const struct store_conf *conf, struct text *why);
void s3_conf_done(struct s3_conf *c);
/* "HOST[:PORT]" as it is signed, and the encoded path of an object, or of the bucket when name is NULL. */
void s3_conf_host(const struct s3_conf *c, struct text *out);
void s3_conf_path(const struct s3_conf *c, const char *name, struct text *out);
void s3_conf_endpoint(const struct s3_conf *c, struct text *out);	/* for messages */

/* ---- s3_call.c ---- */

struct s3_call {
	/* By the caller; zero the rest. Strings are borrowed until done. */
	struct s3       *s3;
	struct store_op *op;		/* whom s3_call_cancel() means; NULL */
	struct tess_req *req;		/* deadline; NULL */
	int64_t          timeout;	/* ns, 0: none */
	const char      *method;
	const char      *name;		/* of the object; NULL: the bucket itself */
	struct s3_pair   query[S3_CALL_PAIRS], headers[S3_CALL_PAIRS];
	unsigned         nquery, nheaders;
	struct tess_iov  body, into;
	uint32_t         reply_max;
	void           (*done)(struct s3_call *c, int err);	/* once; any thread, no lock held */
	void            *owner;

	/* Valid in done(), until s3_call_done(). */
	struct http_call    http;
	struct s3_xml_error error;	/* what the service said; codes "" when nothing */

	/* s3_call.c's */
	struct list_node  link;
	struct renew_wait wait;
	struct renewed   *creds;	/* a reference, while signed with them */
	int64_t           signed_at, skew;	/* clock_now() then, and s3->skew */
	struct text       url, lines;
	char              payload[S3_HEX_LEN + 1];
	bool              cancelled GUARDED_BY(&s3->lock);
	bool              mended_skew, mended_creds, mended_region, head_as_get;
};
/*
 * Takes the call; nothing of it blocks. `err` of done() is 0 for 2xx without an <Error>, else what the
 * refusal means; what can be mended (clock, credentials, region) was, once.
 */
void s3_call_send(struct s3_call *c);
/* Frees what a call holds and makes it ready to be filled in again. */
void s3_call_done(struct s3_call *c);
void s3_call_cancel(struct s3 *s3, const struct store_op *op);
/*
 * For a call that its finder's list, under s3->lock, keeps from being done. True: it waited for
 * credentials, and the caller ends it with s3_call_stopped() when the lock is dropped.
 */
bool s3_call_stop_locked(struct s3_call *c);
void s3_call_stopped(struct s3_call *c);
static inline void s3_call_query(struct s3_call *c, const char *name, const char *value)
{
	c->query[c->nquery++] = (struct s3_pair){ name, value };
}
static inline void s3_call_header(struct s3_call *c, const char *name, const char *value)
{
	c->headers[c->nheaders++] = (struct s3_pair){ name, value };
}

/* ---- the verbs with more than one request or more than one op ---- */

void s3_del_submit(struct s3 *s3, struct store_op *op);
bool s3_del_cancel(struct s3 *s3, const struct store_op *op);	/* true: it was here, and is the caller's */
void s3_del_close(struct s3 *s3);	/* waits for rounds whose names were all cancelled */
void s3_list_submit(struct s3 *s3, struct store_op *op);
void s3_multi_submit(struct s3 *s3, struct store_op *op);

/* ---- s3_open.c ---- */

int  s3_open(struct store **ret, const struct store_conf *conf, struct store *inner, struct text *why);
void s3_unmake(const struct store_conf *conf);
void s3_close(struct store *s);
#endif
