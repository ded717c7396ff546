/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_POOL_H
#define BASE_POOL_H
/*
 * Worker threads over one bounded FIFO. Jobs are intrusive and owned by the submitter until run()
 * is called; after that by run(). All signals are blocked in workers.
 */
#include "base/list.h"
#include <stddef.h>
#include <stdint.h>

struct pool;
struct pool_job {
	void (*run)(struct pool_job *);
	struct list_node link;
};
int  pool_new(struct pool **ret, const char *name, unsigned threads, unsigned queue_max);
/*
 * Blocks while the queue is full, unless called from one of the pool's own workers (which may
 * exceed it). 0 or -TESS_E_STOPPING.
 */
int  pool_submit(struct pool *p, struct pool_job *job);
int  pool_try(struct pool *p, struct pool_job *job);	/* -EAGAIN when full */
void pool_drain(struct pool *p);			/* returns when queue and workers were idle once */
void pool_free(struct pool *p);				/* drains, stops, joins. NULL is fine */
unsigned pool_queued(const struct pool *p);

/* A thread with a name, signals blocked. 0 or -errno. */
int thread_start(void *ret_pthread, const char *name, void *(*fn)(void *), void *arg);
/* The same, detached, with a stack of so many bytes: for those that there may be a thousand of. */
int thread_start_small(const char *name, void *(*fn)(void *), void *arg, size_t stack);
#endif
