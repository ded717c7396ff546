/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SWIFT_IMPL_H
#define STORE_SWIFT_IMPL_H
/* What the files of the swift store share. For src/store/swift_*.c and store_swift.c only. */
#include "base/lock.h"
#include "store/http.h"
#include "store/renew.h"
#include "store/store.h"
#include "store/swift_auth.h"
#include "store/swift_reply.h"
#include <stdatomic.h>

#define SWIFT_MD5_HEX 33u

struct swift_store {
	struct store       s;
	struct swift_auth *auth;	/* owned */
	struct http       *http;	/* auth's */
	struct renew      *renew;	/* auth's */
	char              *place;	/* owned: "/CONTAINER", encoded */
	char              *dir;		/* owned: "/CONTAINER/PREFIX/", encoded: + a key is an object */
	char              *prefix;	/* owned: "PREFIX/" as it is, or "" */
	struct swift_info  info;	/* const after open */
	bool               opening;	/* const after open: what is refused now is told at once */
	void              *md5;		/* owned EVP_MD, fetched once; NULL: checksum=none */

	struct lock      lock;
	struct cond      idle;		/* no calls */
	struct list_node calls GUARDED_BY(&lock);	/* struct swift_call.link */
	unsigned         ncalls GUARDED_BY(&lock);

	/* Deletions: the first few go alone, what comes while they are under way goes together. */
	struct list_node pending GUARDED_BY(&lock);	/* struct store_op.link */
	struct list_node batches GUARDED_BY(&lock);	/* struct swift_batch.link */
	unsigned         dels GUARDED_BY(&lock);	/* requests that delete, under way */
	bool             no_bulk GUARDED_BY(&lock);	/* it turned out that there is none */

	/* usage() never waits: what was heard last, asked for again when it is old. */
	struct store_usage usage GUARDED_BY(&lock);
	uint64_t           used GUARDED_BY(&lock);	/* bytes of the container */
	int64_t            usage_at GUARDED_BY(&lock);	/* clock_now() of asking; 0: never */
	bool               usage_busy GUARDED_BY(&lock);
};

/*
 * One request with a token, which it waits for and gets renewed when it is refused. States:
 *   waiting for a token (in the renewer) -> sent (in the transport) -> finish(), or back for a new token
 */
struct swift_call {
	/* Set by the caller between swift_call_new() and swift_call_send(). */
	const char      *method;
	struct text      path;		/* encoded, from the account on: "/CONTAINER/…?…" */
	struct text      headers;	/* lines, besides the token */
	struct tess_iov  body, into;
	uint32_t         reply_max;
	int64_t          timeout;
	/* Once, on a thread of transport or renewer, or in swift_call_send(). Ends with swift_call_done(). */
	void           (*finish)(struct swift_call *c, int err);
	struct store_op *op;		/* borrowed: what cancel() looks for; or NULL */
	void            *priv;
	char             md5[SWIFT_MD5_HEX];	/* of the body, or "" */

	/* finish()'s to read when err is 0: any status. */
	struct http_call http;

	/* swift_call.c's */
	struct swift_store *s;
	struct renew_wait   wait;
	struct swift_token *token;	/* of what was sent; a reference */
	struct text         url, head;
	struct list_node    link;
	atomic_uint         refs;
	atomic_bool         cancelled;
	unsigned            refused;
};

struct swift_call *swift_call_new(struct swift_store *s, struct store_op *op, const char *method,
				  void (*finish)(struct swift_call *c, int err));
void swift_call_send(struct swift_call *c);	/* again from finish(), with another path, too */
void swift_call_done(struct swift_call *c);	/* it is nobody's any more */
void swift_call_cancel_op(struct swift_store *s, const struct store_op *op);
void swift_call_cancel_all(struct swift_store *s);	/* and waits until none is left */
/* Sends and waits. `c` stays the caller's, to be read and ended by swift_call_done(). Error or the status's. */
int  swift_call_do(struct swift_call *c);
int  swift_call_err(const struct swift_call *c);	/* of a reply that came */

/* ---- swift_del.c ---- */
void swift_del_submit(struct swift_store *s, struct store_op *op);
bool swift_del_cancel(struct swift_store *s, struct store_op *op);	/* true: it was there and is done */

/* ---- swift_open.c ---- */
int  swift_open(struct store **ret, const struct store_conf *conf, struct store *inner,
		struct text *why);
void swift_close(struct store *s);
void swift_unmake(const struct store_conf *conf);
int  swift_usage(struct store *s, struct store_usage *ret);
#endif
