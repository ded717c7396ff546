/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/lock.h"
#include "base/scoped.h"
#include <signal.h>
#include <string.h>

struct pool {
	struct lock      lock;
	struct cond      work, room, idle;
	struct list_node queue GUARDED_BY(lock);	/* struct pool_job.link */
	unsigned         queued GUARDED_BY(lock), busy GUARDED_BY(lock);
	unsigned         queue_max;
	bool             stopping GUARDED_BY(lock);
	char             name[16];
	unsigned         nthreads;
	pthread_t       *threads;
};

/* The pool whose worker this thread is: it must not wait for a queue that only it can empty. */
static _Thread_local const struct pool *pool_mine;

static int thread_make(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	sigset_t all, old;
	int err;

	if (fault_point("thread"))
		return -EAGAIN;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(ret, attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

int thread_start(void *ret_pthread, const char *name, void *(*fn)(void *), void *arg)
{
	char brief[16];
	pthread_t t;
	int err = thread_make(&t, NULL, fn, arg);

	if (err)
		return err;
	snprintf(brief, sizeof(brief), "%s", name);
	pthread_setname_np(t, brief);
	*(pthread_t *)ret_pthread = t;
	return 0;
}

struct thread_small {
	void *(*fn)(void *);
	void   *arg;
	char    name[16];
};

/* It names itself: its starter may not touch it any more. */
static void *thread_small_main(void *arg)
{
	struct thread_small s = *(struct thread_small *)arg;

	free(arg);
	pthread_setname_np(pthread_self(), s.name);
	return s.fn(s.arg);
}

int thread_start_small(const char *name, void *(*fn)(void *), void *arg, size_t stack)
{
	struct thread_small *s = mem_alloc(sizeof(*s));
	pthread_attr_t attr;
	pthread_t t;
	int err;

	if (!s)
		return -ENOMEM;
	s->fn = fn;
	s->arg = arg;
	snprintf(s->name, sizeof(s->name), "%s", name);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, stack);
	err = thread_make(&t, &attr, thread_small_main, s);
	pthread_attr_destroy(&attr);
	if (err)
		free(s);
	return err;
}

/* The next job, or NULL when the pool stops and the queue is empty. */
static struct pool_job *pool_take(struct pool *p)
{
	struct list_node *n;

	scoped_lock(&p->lock);
	while (list_empty(&p->queue) && !p->stopping)
		cond_wait(&p->work, &p->lock);
	n = list_pop_front(&p->queue);
	if (!n)
		return NULL;
	p->queued--;
	p->busy++;
	cond_wake_one(&p->room);
	return list_entry(n, struct pool_job, link);
}

static void pool_finish(struct pool *p)
{
	scoped_lock(&p->lock);
	p->busy--;
	if (!p->busy && !p->queued)
		cond_wake_all(&p->idle);
}

static void *pool_work(void *arg)
{
	struct pool *p = arg;
	struct pool_job *job;

	pool_mine = p;
	while ((job = pool_take(p))) {
		job->run(job);
		lock_assert_none("the end of a job");
		pool_finish(p);
	}
	return NULL;
}

static int pool_start(struct pool *p, unsigned threads)
{
	for (; p->nthreads < threads; p->nthreads++) {
		int err = thread_start(&p->threads[p->nthreads], p->name, pool_work, p);

		if (err)
			return err;
	}
	return 0;
}

int pool_new(struct pool **ret, const char *name, unsigned threads, unsigned queue_max)
{
	struct pool *p = mem_zalloc(sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->threads = mem_array(threads, sizeof(*p->threads));
	if (!p->threads) {
		free(p);
		return -ENOMEM;
	}
	lock_init(&p->lock, LOCK_POOL, "pool");
	cond_init(&p->work);
	cond_init(&p->room);
	cond_init(&p->idle);
	list_init(&p->queue);
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->queue_max = queue_max ? queue_max : 1;
	err = pool_start(p, threads);
	if (err) {
		pool_free(p);
		return err;
	}
	*ret = p;
	return 0;
}

static int pool_put(struct pool *p, struct pool_job *job, bool wait)
{
	scoped_lock(&p->lock);
	while (!p->stopping && p->queued >= p->queue_max && pool_mine != p) {
		if (!wait)
			return -EAGAIN;
		cond_wait(&p->room, &p->lock);
	}
	/* A worker's own follow-up is part of what pool_free() drains. */
	if (p->stopping && pool_mine != p)
		return -TESS_E_STOPPING;
	list_push_back(&p->queue, &job->link);
	p->queued++;
	cond_wake_one(&p->work);
	return 0;
}

int pool_submit(struct pool *p, struct pool_job *job)
{
	return pool_put(p, job, true);
}

int pool_try(struct pool *p, struct pool_job *job)
{
	return pool_put(p, job, false);
}

void pool_drain(struct pool *p)
{
	scoped_lock(&p->lock);
	while (p->queued || p->busy)
		cond_wait(&p->idle, &p->lock);
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	if (p->nthreads)
		pool_drain(p);
	lock_take(&p->lock);
	p->stopping = true;
	cond_wake_all(&p->work);
	cond_wake_all(&p->room);
	lock_drop(&p->lock);
	for (unsigned i = 0; i < p->nthreads; i++)
		pthread_join(p->threads[i], NULL);
	cond_done(&p->idle);
	cond_done(&p->room);
	cond_done(&p->work);
	lock_done(&p->lock);
	free(p->threads);
	free(p);
}

unsigned pool_queued(const struct pool *p)
{
	/* The lock is not part of what a reader sees as the pool's state. */
	struct pool *q = (struct pool *)(uintptr_t)p;

	scoped_lock(&q->lock);
	return q->queued;
}
