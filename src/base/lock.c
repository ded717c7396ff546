/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lock.h"

#include "base/clock.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef TESS_DEBUG
/* What this thread holds. Depth is bounded by the ranks: each is held at most once. */
#define LOCK_DEPTH 16
static _Thread_local const struct lock *lock_held[LOCK_DEPTH];
static _Thread_local unsigned lock_nheld;

static void lock_die(const char *what, const char *a, const char *b)
{
	fprintf(stderr, "lock order: %s %s while holding %s\n", what, a, b);
	abort();
}

static void lock_push(const struct lock *l)
{
	for (unsigned i = 0; i < lock_nheld; i++)
		if (lock_held[i]->rank >= l->rank)
			lock_die("takes", l->name, lock_held[i]->name);
	if (lock_nheld == LOCK_DEPTH)
		lock_die("takes", l->name, "too many");
	lock_held[lock_nheld++] = l;
}

static void lock_pop(const struct lock *l)
{
	for (unsigned i = lock_nheld; i-- > 0;)
		if (lock_held[i] == l) {
			for (lock_nheld--; i < lock_nheld; i++)
				lock_held[i] = lock_held[i + 1];
			return;
		}
	lock_die("drops", l->name, "not that one");
}

void lock_assert_held(const struct lock *l)
{
	for (unsigned i = 0; i < lock_nheld; i++)
		if (lock_held[i] == l)
			return;
	lock_die("needs", l->name, lock_nheld ? lock_held[lock_nheld - 1]->name : "nothing");
}

void lock_assert_none(const char *where)
{
	if (lock_nheld)
		lock_die("calls", where, lock_held[lock_nheld - 1]->name);
}
#else
static inline void lock_push(const struct lock *l)
{
	(void)l;
}

static inline void lock_pop(const struct lock *l)
{
	(void)l;
}

void lock_assert_held(const struct lock *l)
{
	(void)l;
}

void lock_assert_none(const char *where)
{
	(void)where;
}
#endif

void lock_init(struct lock *l, enum lock_rank rank, const char *name)
{
	pthread_mutex_init(&l->mutex, NULL);
	l->name = name;
	l->rank = (int)rank;
}

void lock_done(struct lock *l)
{
	pthread_mutex_destroy(&l->mutex);
}

/* The order is checked before waiting: a deadlock shows as a message, not as a hang. */
void NO_TSA lock_take(struct lock *l)
{
	lock_push(l);
	pthread_mutex_lock(&l->mutex);
}

void NO_TSA lock_drop(struct lock *l)
{
	lock_pop(l);
	pthread_mutex_unlock(&l->mutex);
}

void cond_init(struct cond *c)
{
	pthread_condattr_t a;

	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&c->cond, &a);
	pthread_condattr_destroy(&a);
}

void cond_done(struct cond *c)
{
	pthread_cond_destroy(&c->cond);
}

void NO_TSA cond_wait(struct cond *c, struct lock *l)
{
	lock_pop(l);
	pthread_cond_wait(&c->cond, &l->mutex);
	lock_push(l);
}

bool NO_TSA cond_wait_until(struct cond *c, struct lock *l, int64_t deadline)
{
	int64_t left = deadline - clock_now();
	struct timespec ts;

	if (deadline == CLOCK_NEVER) {
		cond_wait(c, l);
		return true;
	}
	if (left <= 0)
		return false;
	/* Relative to the kernel's clock: clock_now() may be a test's. */
	clock_gettime(CLOCK_MONOTONIC, &ts);
	left += ts.tv_nsec;
	ts.tv_sec += left / NS_PER_S;
	ts.tv_nsec = left % NS_PER_S;
	lock_pop(l);
	pthread_cond_timedwait(&c->cond, &l->mutex, &ts);
	lock_push(l);
	return clock_now() < deadline;
}

void cond_wake_one(struct cond *c)
{
	pthread_cond_signal(&c->cond);
}

void cond_wake_all(struct cond *c)
{
	pthread_cond_broadcast(&c->cond);
}
