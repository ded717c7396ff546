/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_DECO_H
#define STORE_DECO_H
/*
 * What the decorators share. For src/store/deco_*.c only.
 *
 * A decorator sends the submitter's own op down, with `done` and `owner` exchanged for its own, so
 * that an op has one address in the whole stack and cancel() needs no translation. What it replaced
 * it keeps in a struct deco_hook, the first member of what it remembers of the op.
 */
#include "base/lock.h"
#include "store/store.h"

struct deco_hook {
	struct store *s;		/* the decorator */
	void        (*done)(struct store_op *);
	void         *owner;
};

static inline void deco_hook_op(struct deco_hook *h, struct store *s, struct store_op *op,
				void (*done)(struct store_op *))
{
	h->s = s;
	h->done = op->done;
	h->owner = op->owner;
	op->done = done;
	op->owner = h;
}

static inline void deco_unhook_op(struct store_op *op)
{
	const struct deco_hook *h = op->owner;

	op->done = h->done;
	op->owner = h->owner;
}

/* Label, capabilities and inner store of a new decorator. */
void deco_init(struct store *s, const struct store_ops *ops, struct store *inner);
/* The calls that most decorators hand on as they are. */
void deco_cancel(struct store *s, struct store_op *op);
int  deco_barrier(struct store *s, struct tess_req *req);
int  deco_usage(struct store *s, struct store_usage *ret);

/*
 * A thread that calls fire() at a time. States of an entry: idle -> queued -> firing -> idle or
 * queued again; the timer does not touch it after fire() was called, so fire() may free it.
 */
struct deco_timer;
struct deco_wait {
	struct list_node link;
	int64_t          due;
	void           (*fire)(struct deco_wait *);	/* on the timer's thread, no lock held */
	struct store_op *op;				/* what deco_timer_find() looks for */
};
int  deco_timer_new(struct deco_timer **ret, const char *name);
void deco_timer_free(struct deco_timer *t);	/* nothing is queued; NULL is fine */
void deco_timer_add(struct deco_timer *t, struct deco_wait *w, int64_t due);
/*
 * Takes `w` out: true when it had not fired. Else returns only after its fire() has: unless called
 * from that fire() itself.
 */
bool deco_timer_remove(struct deco_timer *t, struct deco_wait *w);
/* From the entry's own fire(): queues it again, unless it was removed since fire() began. */
void deco_timer_again(struct deco_timer *t, struct deco_wait *w, int64_t due);
/* Takes out and returns the entry queued for `op` with that fire(), or NULL. */
struct deco_wait *deco_timer_find(struct deco_timer *t, const struct store_op *op,
				  void (*fire)(struct deco_wait *));

/* "name=value" of the URI as number, or `dflt`; -TESS_E_URI with a line in `why`. */
int deco_param_uint(const struct store_conf *conf, const char *name, uint64_t dflt, uint64_t *ret,
		    struct text *why);
int deco_param_time(const struct store_conf *conf, const char *name, uint64_t dflt, uint64_t *ret,
		    struct text *why);
/* -TESS_E_URI for a relative path: the URI is remembered, and the daemon that uses it is elsewhere. */
int deco_param_path(const struct store_conf *conf, const char *name, struct text *why);
int deco_param_size(const struct store_conf *conf, const char *name, uint64_t dflt, uint64_t *ret,
		    struct text *why);
#endif
