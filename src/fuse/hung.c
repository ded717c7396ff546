/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that are under way, and a thread that tells of those that are for too long: who
 * waits, and what for, before anybody has to attach a debugger to a daemon that seems to hang.
 */
#include "fuse/daemon.h"

#include "base/fault.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/scoped.h"
#include <pthread.h>
#include <string.h>

LOG_MODULE("hung");

#define HUNG_SHARDS 16u	/* by the request's number: no lock that all requests share */
#define HUNG_TELL   20u	/* of a look, two a second: the log takes 50 lines; the next one tells the next */

struct hung_shard {
	struct lock      lock;
	struct list_node ops;	/* struct op.link, about in the order they came */
	unsigned         n;
} __attribute__((aligned(64)));

struct hung {
	struct hung_shard shard[HUNG_SHARDS];
	struct daemon     *d;
	int64_t            limit;	/* ns; 0: nobody is told of */
	struct lock        lock;
	struct cond        wake;
	bool               stopping;
	pthread_t          thread;
	bool               running;
};

/* What is told of a request, copied: the request itself may end at any moment. */
struct hung_row {
	uint64_t    id, ino;
	const char *op;
	uid_t       uid;
	pid_t       pid;
	int64_t     start;
};

static struct hung_shard *shard_of(const struct op *op)
{
	return &op->d->hung->shard[op->req.id % HUNG_SHARDS];
}

static void row_of(const struct op *op, struct hung_row *ret)
{
	*ret = (struct hung_row){ op->req.id,	op->req.ino, op->req.op,
				   op->req.uid, op->req.pid, op->req.start };
}

void hung_enter(struct op *op)
{
	struct hung_shard *s;

	op->told = false;
	if (!op->d->hung)
		return;
	s = shard_of(op);
	scoped_lock(&s->lock);
	list_push_back(&s->ops, &op->link);
	s->n++;
}

void hung_leave(struct op *op)
{
	struct hung_shard *s;

	if (!op->d->hung)
		return;
	s = shard_of(op);
	lock_take(&s->lock);
	list_remove(&op->link);
	s->n--;
	lock_drop(&s->lock);
	if (op->told)
		log_at(LOG_NOTICE, op->req.id, "%s of inode %llu ended after %.1f s", op->req.op,
		       (unsigned long long)op->req.ino,
		       (double)(clock_now() - op->req.start) / 1e9);
}

void op_move(struct op *to, struct op *from)
{
	struct hung_shard *s;

	if (!from->d->hung) {
		*to = *from;
		return;
	}
	s = shard_of(from);
	scoped_lock(&s->lock);
	*to = *from;
	list_push_back(&from->link, &to->link);
	list_remove(&from->link);
}

/* ---- the thread ---- */

/* Waits for another program, as it was asked to. */
static bool op_is_lock(const struct op *op)
{
	return op->code == OP_SETLK || op->code == OP_FLOCK;
}

static unsigned collect(struct hung *w, int64_t since, struct hung_row *ret)
{
	unsigned n = 0;

	for (unsigned i = 0; i < HUNG_SHARDS; i++) {
		struct hung_shard *s = &w->shard[i];

		scoped_lock(&s->lock);
		list_for_each(x, &s->ops) {
			struct op *op = list_entry(x, struct op, link);

			if (n == HUNG_TELL)
				return n;
			if (op->req.start > since || op->told || op_is_lock(op))
				continue;
			op->told = true;
			row_of(op, &ret[n++]);
		}
	}
	return n;
}

static void tell(struct hung *w, const struct hung_row *r)
{
	struct text on = TEXT_INIT;

	tess_waits(w->d->t, r->ino, &on);
	log_at(LOG_WARN, r->id, "%s of inode %llu by uid %u pid %d takes %.1f s so far: %s", r->op,
	       (unsigned long long)r->ino, (unsigned)r->uid, (int)r->pid,
	       (double)(clock_now() - r->start) / 1e9,
	       on.n ? text_str(&on) : "it waits for no request to a store that is known");
	text_done(&on);
	reply_count_hung();
}

static void *hung_main(void *arg)
{
	struct hung *w = arg;
	int64_t tick = MIN(w->limit / 4 + NS_PER_MS, NS_PER_S);
	struct hung_row rows[HUNG_TELL];

	lock_take(&w->lock);
	while (!w->stopping) {
		unsigned n;

		if (cond_wait_until(&w->wake, &w->lock, clock_now() + tick))
			continue;
		lock_drop(&w->lock);
		n = collect(w, clock_now() - w->limit, rows);
		for (unsigned i = 0; i < n; i++)
			tell(w, &rows[i]);
		lock_take(&w->lock);
	}
	lock_drop(&w->lock);
	return NULL;
}

/* ---- for `tessera stats` ---- */

static bool oldest(struct hung *w, struct hung_row *ret, unsigned *ret_n)
{
	bool any = false;

	*ret_n = 0;
	for (unsigned i = 0; i < HUNG_SHARDS; i++) {
		struct hung_shard *s = &w->shard[i];

		scoped_lock(&s->lock);
		*ret_n += s->n;
		list_for_each(x, &s->ops) {
			const struct op *op = list_entry(x, struct op, link);

			if (any && op->req.start >= ret->start)
				continue;
			row_of(op, ret);
			any = true;
		}
	}
	return any;
}

static void hung_look(void *arg, bool json, struct text *out)
{
	struct text on = TEXT_INIT;
	struct hung *w = arg;
	struct hung_row r;
	unsigned n;
	bool any = oldest(w, &r, &n);
	double age = any ? (double)(clock_now() - r.start) / 1e9 : 0;

	if (any && age >= 0.1)
		tess_waits(w->d->t, r.ino, &on);
	text_fmt(out, json ? "\"requests\":{\"inflight\":%u" : "requests.inflight %u\n", n);
	if (any && json) {
		text_fmt(out, ",\"oldest\":{\"op\":\"%s\",\"ino\":%llu,\"uid\":%u,\"pid\":%d,"
			      "\"age_s\":%.3f,\"waits_for\":",
			 r.op, (unsigned long long)r.ino, (unsigned)r.uid, (int)r.pid, age);
		text_json(out, text_str(&on), on.n);
		text_add(out, "}");
	} else if (any) {
		text_fmt(out, "requests.oldest %s inode %llu uid %u pid %d age_s %.3f%s%s\n", r.op,
			 (unsigned long long)r.ino, (unsigned)r.uid, (int)r.pid, age,
			 on.n ? " waits for " : "", text_str(&on));
	}
	if (json)
		text_add(out, "}");
	text_done(&on);
}

/* ---- from the first request to the last ---- */

int hung_start(struct daemon *d)
{
	struct hung *w = aligned_alloc(64, sizeof(*w));
	int e = 0;

	if (!w)
		return -ENOMEM;
	memset(w, 0, sizeof(*w));
	w->d = d;
	w->limit = (int64_t)d->conf->conf->hung_request;
	for (unsigned i = 0; i < HUNG_SHARDS; i++) {
		lock_init(&w->shard[i].lock, LOCK_LEAF, "fuse.hung");
		list_init(&w->shard[i].ops);
	}
	lock_init(&w->lock, LOCK_LEAF, "fuse.watcher");
	cond_init(&w->wake);
	d->hung = w;
	if (w->limit > 0)
		e = thread_start(&w->thread, "fuse-hung", hung_main, w);
	w->running = w->limit > 0 && e == 0;
	if (e == 0)
		tess_on_look(d->t, hung_look, w);
	else
		hung_stop(d);
	return e;
}

void hung_stop(struct daemon *d)
{
	struct hung *w = steal_ptr(d->hung);

	if (!w)
		return;
	tess_on_look(d->t, NULL, NULL);
	lock_take(&w->lock);
	w->stopping = true;
	cond_wake_all(&w->wake);
	lock_drop(&w->lock);
	if (w->running)
		pthread_join(w->thread, NULL);
	cond_done(&w->wake);
	lock_done(&w->lock);
	for (unsigned i = 0; i < HUNG_SHARDS; i++)
		lock_done(&w->shard[i].lock);
	free(w);
}
