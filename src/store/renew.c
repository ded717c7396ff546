/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread and one value. The thread sleeps until the value is due, somebody rejects it or nobody
 * wants it any more; it alone fetches, publishes and calls back.
 *
 *   now     failures  state       renew_get() gives
 *   NULL    0         first, or rejected: fetching    a wait
 *   good    0         served                          now
 *   good    > 0       renewal fails, served on        now
 *   past    any       lost                            a wait; every attempt that fails ends it
 */
#include "store/renew.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/scoped.h"
#include <inttypes.h>

LOG_MODULE("renew")

#define MARGIN_MIN  (5 * NS_PER_S)
#define MARGIN_MAX  (600 * NS_PER_S)
#define BACKOFF_MIN (100 * NS_PER_MS)
#define BACKOFF_MAX (30 * NS_PER_S)
/* A service that is restarted is back within seconds: it shall be found so, before it is taken for gone. */
#define QUICK_MAX   (2 * NS_PER_S)
#define QUICK_TRIES 20u
#define TELL_REJECT 4u		/* fresh values refused in a row */
#define PROVEN	    (60 * NS_PER_S)	/* a value that served this long was good */
#define NAP_MAX	    (30 * NS_PER_S)	/* the wall clock may be set meanwhile */

struct renew {
	struct lock      lock;
	struct cond      work;		/* the thread's: due, rejected, stop */
	struct cond      tried;		/* renew_first()'s */
	struct list_node waiting GUARDED_BY(lock);	/* struct renew_wait.link */
	struct list_node called GUARDED_BY(lock);	/* of them, those whose outcome is known */
	struct renewed  *now GUARDED_BY(lock);	/* owns a reference */
	int64_t          due GUARDED_BY(lock);		/* of now; wall clock */
	int64_t          not_before GUARDED_BY(lock);	/* of the next fetch; clock_now() */
	int64_t          fetched GUARDED_BY(lock);	/* when now came; clock_now() */
	unsigned         failures GUARDED_BY(lock), rejects GUARDED_BY(lock);
	bool             stop GUARDED_BY(lock), tries GUARDED_BY(lock), told GUARDED_BY(lock);
	int              err GUARDED_BY(lock);		/* of the last attempt */
	struct text      why GUARDED_BY(lock);		/* likewise */
	renew_fetch      fetch;
	void            *arg;
	char             name[96];
	pthread_t        thread;
};

void renewed_put(struct renewed *v)
{
	if (v && atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) == 1)
		v->free(v);
}

static struct renewed *renewed_ref(struct renewed *v)
{
	if (v)
		atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
	return v;
}

/* Half of it is jitter: the mounts of a whole cluster must not come back in step. */
static int64_t renew_backoff(unsigned attempt)
{
	int64_t top;

	if (attempt < QUICK_TRIES)
		top = MIN(QUICK_MAX, BACKOFF_MIN << MIN(attempt, 8u));
	else
		top = MIN(BACKOFF_MAX, QUICK_MAX << MIN(attempt - QUICK_TRIES + 1, 8u));
	return top / 2 + clock_backoff(0, top / 2, top / 2);
}

static int64_t renew_margin(int64_t life)
{
	return MIN(MAX(MIN(life / 10, MARGIN_MAX), MARGIN_MIN), life / 2);
}

/* Until the next fetch; 0: now. */
static int64_t renew_left_locked(const struct renew *r)
{
	int64_t left = r->now ? r->due - clock_wall() : 0;

	if (r->now && r->due == CLOCK_NEVER)
		return CLOCK_NEVER;
	return MAX(MAX(left, r->not_before - clock_now()), INT64_C(0));
}

/* False: stop. */
static bool renew_sleep(struct renew *r)
{
	int64_t left;

	scoped_lock(&r->lock);
	while (!r->stop && (left = renew_left_locked(r)) > 0)
		(void)cond_wait_until(&r->work, &r->lock, clock_now() + MIN(left, NAP_MAX));
	return !r->stop;
}

/*
 * Those that wait now hear of the attempt that has just ended; with it in one hold of the lock, or who
 * rejects its value and asks again would be handed the same once more.
 */
static void renew_settle_locked(struct renew *r)
{
	struct list_node *n;

	while ((n = list_pop_front(&r->waiting)))
		list_push_back(&r->called, n);
}

static void renew_call(struct renew *r, struct renewed *v, int err)
{
	struct list_node *n;

	lock_take(&r->lock);
	while ((n = list_pop_front(&r->called))) {
		struct renew_wait *w = list_entry(n, struct renew_wait, link);

		lock_drop(&r->lock);
		w->ready(w, renewed_ref(v), err);
		lock_take(&r->lock);
	}
	lock_drop(&r->lock);
}

/* Takes the caller's reference. Returns the value that was there, the caller's to put. */
static struct renewed *renew_publish_locked(struct renew *r, struct renewed *v)
{
	struct renewed *old = r->now;

	r->fetched = clock_now();
	r->due = CLOCK_NEVER;
	if (v->until != INT64_MAX) {
		int64_t wall = clock_wall();

		r->due = v->until - renew_margin(MAX(v->until - wall, INT64_C(0)));
	}
	r->now = v;
	r->failures = 0;
	/* A service may give the same value again until its last minutes; it is not asked in a loop. */
	r->not_before = r->fetched + BACKOFF_MIN;
	return old;
}

static void renew_fail_locked(struct renew *r)
{
	r->not_before = clock_now() + renew_backoff(r->failures);
	r->failures++;
}

/* Who opened it hears of the first failure; of later ones nobody would. */
static void renew_tell(struct renew *r, bool had, bool good)
{
	if (r->err && r->err != -ECANCELED && had && !r->told) {
		log_err("%s: not renewed, tried again: %s (%s)", r->name, text_str(&r->why),
			good ? "the old ones still serve" : "none left");
		r->told = true;
	} else if (!r->err && r->told) {
		log_notice("%s: renewed", r->name);
		r->told = false;
	}
}

static void renew_attempt(struct renew *r)
{
	struct text why = TEXT_INIT;
	struct renewed *v = NULL, *old = NULL, *ours = NULL;
	bool had, good;
	int err = r->fetch(r->arg, &v, &why);

	if (!err && v->until <= clock_wall()) {
		text_add(&why, "what came has expired already; is the clock right?");
		renewed_put(steal_ptr(v));
		err = -EKEYEXPIRED;
	}
	if (err && !why.n)
		text_add(&why, err_text(err));
	lock_take(&r->lock);
	had = r->fetched != 0;
	r->err = err;
	text_done(&r->why);
	r->why = why;
	if (err) {
		renew_fail_locked(r);
	} else {
		ours = renewed_ref(v);
		old = renew_publish_locked(r, v);
	}
	good = r->now && r->now->until > clock_wall();
	r->tries = true;
	renew_settle_locked(r);
	cond_wake_all(&r->tried);
	lock_drop(&r->lock);
	renewed_put(old);
	renew_tell(r, had, good);	/* only this thread writes err and why */
	renew_call(r, ours, err);
	renewed_put(ours);
}

static void *renew_work(void *arg)
{
	struct renew *r = arg;

	while (renew_sleep(r))
		renew_attempt(r);
	lock_take(&r->lock);
	renew_settle_locked(r);
	lock_drop(&r->lock);
	renew_call(r, NULL, -ECANCELED);
	return NULL;
}

int renew_new(struct renew **ret, const char *name, renew_fetch fetch, void *arg)
{
	struct renew *r = mem_zalloc(sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->fetch = fetch;
	r->arg = arg;
	(void)snprintf(r->name, sizeof(r->name), "%s", name);
	lock_init(&r->lock, LOCK_LEAF, "renew");
	cond_init(&r->work);
	cond_init(&r->tried);
	list_init(&r->waiting);
	list_init(&r->called);
	err = thread_start(&r->thread, name, renew_work, r);
	if (!err) {
		*ret = r;
		return 0;
	}
	cond_done(&r->tried);
	cond_done(&r->work);
	lock_done(&r->lock);
	free(r);
	return err;
}

int renew_first(struct renew *r, int64_t timeout, struct text *why)
{
	int64_t deadline = clock_now() + timeout;

	scoped_lock(&r->lock);
	while (!r->tries) {
		if (!cond_wait_until(&r->tried, &r->lock, deadline) && !r->tries) {
			text_fmt(why, "%s: no answer in %" PRIi64 " s", r->name,
				 timeout / NS_PER_S);
			return -ETIMEDOUT;
		}
	}
	if (!r->fetched)
		text_add(why, text_str(&r->why));
	return r->fetched ? 0 : r->err;
}

void renew_free(struct renew *r)
{
	if (!r)
		return;
	lock_take(&r->lock);
	r->stop = true;
	cond_wake_all(&r->work);
	lock_drop(&r->lock);
	pthread_join(r->thread, NULL);
	renewed_put(r->now);
	text_done(&r->why);
	cond_done(&r->tried);
	cond_done(&r->work);
	lock_done(&r->lock);
	free(r);
}

struct renewed *renew_get(struct renew *r, struct renew_wait *w)
{
	scoped_lock(&r->lock);
	if (r->now && r->now->until > clock_wall()) {
		/* The host may have slept, or its clock been set, since the thread lay down. */
		if (!renew_left_locked(r))
			cond_wake_all(&r->work);
		return renewed_ref(r->now);
	}
	list_push_back(&r->waiting, &w->link);
	cond_wake_all(&r->work);
	return NULL;
}

static bool renew_unlist(struct list_node *h, struct renew_wait *w)
{
	list_for_each(n, h) {
		if (n == &w->link) {
			list_remove(n);
			return true;
		}
	}
	return false;
}

/* Looked for, since the caller may not know whether ready() has come and w is in a list at all. */
bool renew_forget(struct renew *r, struct renew_wait *w)
{
	scoped_lock(&r->lock);
	return renew_unlist(&r->waiting, w) || renew_unlist(&r->called, w);
}

/*
 * The first refusal is answered at once; one of a value that has hardly served is backed off from, or
 * a service that refuses everything would have us ask for credentials as often as for data.
 */
void renew_reject(struct renew *r, const struct renewed *v)
{
	struct renewed *old = NULL;
	bool tell = false;

	lock_take(&r->lock);
	if (r->now && r->now == v) {
		int64_t now = clock_now();

		r->rejects = now - r->fetched < PROVEN ? r->rejects + 1 : 1;
		r->not_before = r->rejects > 1 ? now + renew_backoff(r->rejects - 2) : now;
		tell = r->rejects == TELL_REJECT;
		old = steal_ptr(r->now);
		cond_wake_all(&r->work);
	}
	lock_drop(&r->lock);
	if (tell)
		log_err("%s: what has just been issued is refused by the service it is for, again and again",
			r->name);
	renewed_put(old);
}
