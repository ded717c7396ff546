/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that wait for a store, off the threads that serve the kernel. Those are limited, since
 * each has a buffer of the largest write; a store that hangs would soon have them all, and then a
 * stat(2) finds none. The threads here are made as they are needed, have small stacks and end when
 * they idle.
 *
 * A request that does not find one (no memory, too many) runs where it came.
 */
#include "fuse/daemon.h"

#include "base/fault.h"
#include "base/lock.h"
#include "base/pool.h"
#include "base/scoped.h"
#include <string.h>

#define WAITERS_MAX   1024u
#define WAITERS_IDLE  (10 * NS_PER_S)
#define WAITERS_COPY  (UINT64_C(64) << 20)	/* bytes of writes that wait for memory */
/* Address space, touched as it is used. The sanitizers' frames are some times as large. */
#define WAITERS_STACK (UINT64_C(512) << 10)

struct waiters {
	struct lock      lock;
	struct cond      work, ended;
	struct list_node queue;		/* struct waiters_job.link */
	unsigned         queued, threads, idle;
	uint64_t         copied;
	unsigned         in_place;	/* on the threads they came on */
	unsigned         in_place_max;
	bool             copies;	/* a write's bytes are gone once its thread goes on */
	bool             stopping;
};

struct waiters_job {
	struct list_node link;
	struct op        op;
	struct op_args   args;
	char            *copy;		/* owned; what args.buf points at, or NULL */
	void           (*fn)(struct op *op, const struct op_args *a);
};

int waiters_new(struct waiters **ret, unsigned in_place_max, bool copies)
{
	struct waiters *w = mem_zalloc(sizeof(*w));

	if (!w)
		return -ENOMEM;
	lock_init(&w->lock, LOCK_POOL, "fuse.waiters");
	cond_init(&w->work);
	cond_init(&w->ended);
	list_init(&w->queue);
	w->in_place_max = in_place_max;
	w->copies = copies;
	*ret = w;
	return 0;
}

/* After the last request: what is queued is carried out. */
void waiters_free(struct waiters *w)
{
	if (!w)
		return;
	lock_take(&w->lock);
	w->stopping = true;
	cond_wake_all(&w->work);
	while (w->threads > 0)
		cond_wait(&w->ended, &w->lock);
	lock_drop(&w->lock);
	cond_done(&w->ended);
	cond_done(&w->work);
	lock_done(&w->lock);
	free(w);
}

static void job_free(struct waiters *w, struct waiters_job *j)
{
	if (j->copy) {
		scoped_lock(&w->lock);
		w->copied -= j->args.len;
	}
	free(j->copy);
	free(j);
}

static void job_run(struct waiters *w, struct waiters_job *j)
{
	struct daemon *d = j->op.d;

	j->fn(&j->op, &j->args);
	job_free(w, j);
	atomic_fetch_sub(&d->inflight, 1);
}

static struct waiters_job *take_locked(struct waiters *w)
{
	struct list_node *n = list_pop_front(&w->queue);

	if (!n)
		return NULL;
	w->queued--;
	return list_entry(n, struct waiters_job, link);
}

static void *waiters_main(void *arg)
{
	struct waiters *w = arg;
	struct waiters_job *j;

	lock_take(&w->lock);
	for (;;) {
		bool woken = true;

		while (!(j = take_locked(w)) && !w->stopping && woken) {
			w->idle++;
			woken = cond_wait_until(&w->work, &w->lock, clock_now() + WAITERS_IDLE);
			w->idle--;
		}
		if (!j)
			break;
		lock_drop(&w->lock);
		job_run(w, j);
		lock_take(&w->lock);
	}
	w->threads--;
	cond_wake_all(&w->ended);
	lock_drop(&w->lock);
	return NULL;
}

/* There will be a thread for one more job: waiting ones that are not spoken for, or a new one. */
static bool thread_for_one_locked(struct waiters *w)
{
	if (w->idle > w->queued)
		return true;
	if (w->threads >= WAITERS_MAX ||
	    thread_start_small("fuse-wait", waiters_main, w, WAITERS_STACK) < 0)
		return false;
	w->threads++;
	return true;
}

static struct waiters_job *job_new(struct waiters *w, const struct op_args *a)
{
	struct waiters_job *j = mem_alloc(sizeof(*j));
	bool room;

	if (!j)
		return NULL;
	j->args = *a;
	j->copy = NULL;
	if (!a->buf || !w->copies)
		return j;
	lock_take(&w->lock);
	room = w->copied + a->len <= WAITERS_COPY;
	w->copied += room ? a->len : 0;
	lock_drop(&w->lock);
	if (room)
		j->copy = mem_alloc(a->len);
	if (j->copy) {
		memcpy(j->copy, a->buf, a->len);
		j->args.buf = j->copy;
		return j;
	}
	if (room) {
		scoped_lock(&w->lock);
		w->copied -= a->len;
	}
	free(j);
	return NULL;
}

/* The op moves: its address is known to nobody but hung.c. */
static bool hand_over(struct waiters *w, struct op *op, const struct op_args *a,
		      void (*fn)(struct op *op, const struct op_args *a))
{
	struct waiters_job *j = job_new(w, a);
	bool ok;

	if (!j)
		return false;
	j->fn = fn;
	op_move(&j->op, op);
	atomic_fetch_add(&j->op.d->inflight, 1);
	lock_take(&w->lock);
	ok = thread_for_one_locked(w);
	if (ok) {
		list_push_back(&w->queue, &j->link);
		w->queued++;
		cond_wake_one(&w->work);
	}
	lock_drop(&w->lock);
	if (ok)
		return true;
	op_move(op, &j->op);
	atomic_fetch_sub(&op->d->inflight, 1);
	job_free(w, j);
	return false;
}

static bool stays(struct waiters *w)
{
	scoped_lock(&w->lock);
	if (w->in_place >= w->in_place_max)
		return false;
	w->in_place++;
	return true;
}

void waiters_run(struct waiters *w, struct op *op, const struct op_args *a,
		 void (*fn)(struct op *op, const struct op_args *a))
{
	bool here = stays(w);

	if (!here && hand_over(w, op, a, fn))
		return;
	fn(op, a);
	if (!here)
		return;
	scoped_lock(&w->lock);
	w->in_place--;
}
