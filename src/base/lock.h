/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H
/*
 * Mutexes that know their rank. A thread may take a lock only while every lock it holds has a
 * lower rank; in debug builds (-DTESS_DEBUG) lock_take() asserts it and names both locks. Nothing
 * slow happens under a lock: no store I/O, no FUSE reply, no done(), no commit.
 *
 * The order, first to last taken. A gap between numbers leaves room; two locks of one rank are
 * never held together.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum lock_rank {
	LOCK_NONE = 0,
	LOCK_MOUNT = 10,	/* mount/: start and stop */
	LOCK_FS_TABLE = 20,	/* fs/: table of open inodes (one shard) */
	LOCK_FS_INODE = 30,	/* fs/: one open inode */
	LOCK_IO_SYNC = 38,	/* io/: checkpoint sequencer */
	LOCK_IO_FILE = 40,	/* io/: dirty state of one inode */
	LOCK_IO_STAGE = 50,	/* io/: open segments */
	LOCK_IO_CACHE = 60,	/* io/: one shard of the segment cache */
	LOCK_STORE_DECO = 70,	/* store/: a decorator */
	LOCK_STORE = 75,	/* store/: a store */
	LOCK_META = 80,		/* meta/: session, id ranges */
	LOCK_KV = 85,		/* meta/: an engine */
	LOCK_ENV = 88,		/* base/env */
	LOCK_POOL = 90,		/* base/pool */
	LOCK_BUDGET = 92,	/* base/budget */
	LOCK_LEAF = 99,		/* anything that calls nothing while held */
};

#if defined(__clang__)
#define TSA(x) __attribute__((x))
#else
#define TSA(x)
#endif
#define GUARDED_BY(m)	/* for readers: C compilers cannot yet resolve a sibling member here */
#define REQUIRES(m)    TSA(requires_capability(m))
#define ACQUIRE(...)   TSA(acquire_capability(__VA_ARGS__))
#define RELEASE(...)   TSA(release_capability(__VA_ARGS__))
#define EXCLUDES(m)    TSA(locks_excluded(m))
#define NO_TSA         TSA(no_thread_safety_analysis)

struct TSA(capability("mutex")) lock {
	pthread_mutex_t mutex;
	const char     *name;	/* static */
	int             rank;
};

struct cond {
	pthread_cond_t cond;	/* on CLOCK_MONOTONIC */
};

void lock_init(struct lock *l, enum lock_rank rank, const char *name);
void lock_done(struct lock *l);
void lock_take(struct lock *l) ACQUIRE(l);
void lock_drop(struct lock *l) RELEASE(l);
/* Aborts, in debug builds, unless this thread holds `l`. */
void lock_assert_held(const struct lock *l);
/* Aborts, in debug builds, if this thread holds any lock: called before store_submit, replies, done(). */
void lock_assert_none(const char *where);

void cond_init(struct cond *c);
void cond_done(struct cond *c);
void cond_wait(struct cond *c, struct lock *l) REQUIRES(l);
/* Waits until `deadline` (ns on clock_now()); returns false when it passed first. */
bool cond_wait_until(struct cond *c, struct lock *l, int64_t deadline) REQUIRES(l);
void cond_wake_one(struct cond *c);
void cond_wake_all(struct cond *c);

static inline void scoped_lock_(struct lock **l) NO_TSA
{
	if (*l)
		lock_drop(*l);
}
/* Holds `l` to the end of the enclosing block. */
#define scoped_lock(l) SCOPED_LOCK_(l, __COUNTER__)
#define SCOPED_LOCK_(l, n) SCOPED_LOCK__(l, n)
#define SCOPED_LOCK__(l, n)                                                                     \
	struct lock *scoped_lock_##n __attribute__((cleanup(scoped_lock_), unused)) = (l);      \
	lock_take(l)
#endif
