/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_RENEW_H
#define STORE_RENEW_H
/*
 * Something that expires and is asked for by every request: credentials, a token. One thread
 * fetches it, ahead of its end, so that no request waits while an old one is still good; a request
 * that finds none is called back instead of sleeping.
 *
 * Fetched anew: when less than a tenth of its life (at least 5 s, at most 10 min and half of it) is
 * left; at once when renew_reject() says that the service refuses it, but with back-off when it refuses
 * one fresh value after another; after a failure with back-off, while the old value is served on as
 * long as it is good. The back-off grows from 100 ms to 2 s, and only after some 20 attempts to 30 s.
 *
 * Logs one line when renewing begins to fail, and one when it succeeds again; and one when fresh values
 * are refused in a row.
 */
#include "base/list.h"
#include "base/text.h"
#include <stdatomic.h>
#include <stdint.h>

struct renew;

/* First member of what is fetched. Immutable once published. */
struct renewed {
	atomic_uint refs;		/* 1 for who fetched it */
	int64_t     until;		/* clock_wall() scale; INT64_MAX: for ever */
	void      (*free)(struct renewed *);
};
void renewed_put(struct renewed *v);	/* NULL is fine */

/* In the renewer's thread; may block, bounded by its own timeouts. `why`: one line, no secrets. */
typedef int (*renew_fetch)(void *arg, struct renewed **ret, struct text *why);

int  renew_new(struct renew **ret, const char *name, renew_fetch fetch, void *arg);
/* Waits for the first value: mount tells at once what is wrong. Error of the fetch. */
int  renew_first(struct renew *r, int64_t timeout, struct text *why);
void renew_free(struct renew *r);	/* waiters end with -ECANCELED; NULL is fine */

struct renew_wait {
	struct list_node link;
	/* Once, the renewer's thread, no lock held: `v` is the callee's reference, or NULL and err. */
	void (*ready)(struct renew_wait *w, struct renewed *v, int err);
};
/*
 * A reference that is good now; or NULL, and w->ready() comes (maybe before this returns), after the
 * attempt that is under way or next: up to 30 s and a fetch later. Never blocks.
 */
struct renewed *renew_get(struct renew *r, struct renew_wait *w);
/* True: it was waiting, and ready() will not come. */
bool renew_forget(struct renew *r, struct renew_wait *w);
/* The service said that `v` is not good (any more): fetched anew unless that was done since. */
void renew_reject(struct renew *r, const struct renewed *v);
#endif
