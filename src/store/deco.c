/* SPDX-License-Identifier: Apache-2.0 */
#include "store/deco.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/opt.h"
#include "base/pool.h"
#include "base/text.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

void deco_init(struct store *s, const struct store_ops *ops, struct store *inner)
{
	s->ops = ops;
	s->inner = inner;
	s->caps = inner->caps;
	memcpy(s->label, inner->label, sizeof(s->label));
}

void deco_cancel(struct store *s, struct store_op *op)
{
	store_cancel(s->inner, op);
}

int deco_barrier(struct store *s, struct tess_req *req)
{
	return store_barrier(s->inner, req);
}

int deco_usage(struct store *s, struct store_usage *ret)
{
	return store_usage(s->inner, ret);
}

/* ---- timer ---- */

struct deco_timer {
	struct lock       lock;
	struct cond       cond;		/* queue head changed, firing ended, stop */
	struct list_node  queue;	/* ascending due; delays are alike, so adding looks from the back */
	struct deco_wait *firing;	/* only compared, never followed: it may be gone */
	int64_t           looks_at;	/* when the thread will look by itself */
	bool              stop;
	pthread_t         thread;
};

static void timer_fire_locked(struct deco_timer *t, struct deco_wait *w)
{
	list_remove(&w->link);
	t->firing = w;
	lock_drop(&t->lock);
	w->fire(w);
	lock_take(&t->lock);
	t->firing = NULL;
	cond_wake_all(&t->cond);
}

static void *timer_main(void *arg)
{
	struct deco_timer *t = arg;

	scoped_lock(&t->lock);
	while (!t->stop) {
		struct deco_wait *w;

		if (list_empty(&t->queue)) {
			t->looks_at = CLOCK_NEVER;
			cond_wait(&t->cond, &t->lock);
			continue;
		}
		w = list_entry(t->queue.next, struct deco_wait, link);
		t->looks_at = w->due;
		if (w->due > clock_now())
			(void)cond_wait_until(&t->cond, &t->lock, w->due);
		else
			timer_fire_locked(t, w);
	}
	return NULL;
}

int deco_timer_new(struct deco_timer **ret, const char *name)
{
	struct deco_timer *t = mem_zalloc(sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	lock_init(&t->lock, LOCK_STORE_DECO, "deco timer");
	cond_init(&t->cond);
	list_init(&t->queue);
	r = thread_start(&t->thread, name, timer_main, t);
	if (r < 0) {
		cond_done(&t->cond);
		lock_done(&t->lock);
		free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void deco_timer_free(struct deco_timer *t)
{
	if (!t)
		return;
	lock_take(&t->lock);
	assert(list_empty(&t->queue));
	t->stop = true;
	cond_wake_all(&t->cond);
	lock_drop(&t->lock);
	pthread_join(t->thread, NULL);
	cond_done(&t->cond);
	lock_done(&t->lock);
	free(t);
}

static void timer_queue_locked(struct deco_timer *t, struct deco_wait *w, int64_t due)
{
	struct list_node *at;

	w->due = due;
	for (at = t->queue.prev; at != &t->queue; at = at->prev) {
		if (list_entry(at, struct deco_wait, link)->due <= due)
			break;
	}
	list_insert_(&w->link, at, at->next);
	/* Most are removed long before they are due: the thread may as well sleep until then. */
	if (due < t->looks_at)
		cond_wake_all(&t->cond);
}

void deco_timer_add(struct deco_timer *t, struct deco_wait *w, int64_t due)
{
	scoped_lock(&t->lock);
	timer_queue_locked(t, w, due);
}

void deco_timer_again(struct deco_timer *t, struct deco_wait *w, int64_t due)
{
	scoped_lock(&t->lock);
	if (t->firing == w)
		timer_queue_locked(t, w, due);
}

static bool timer_unqueue_locked(struct deco_timer *t, const struct deco_wait *w)
{
	list_for_each(n, &t->queue) {
		if (n == &w->link) {
			list_remove(n);
			return true;
		}
	}
	return false;
}

bool deco_timer_remove(struct deco_timer *t, struct deco_wait *w)
{
	scoped_lock(&t->lock);
	for (;;) {
		if (timer_unqueue_locked(t, w))
			return true;
		if (t->firing != w)
			return false;
		if (pthread_equal(pthread_self(), t->thread)) {
			t->firing = NULL;	/* deco_timer_again() sees it */
			return false;
		}
		cond_wait(&t->cond, &t->lock);
	}
}

struct deco_wait *deco_timer_find(struct deco_timer *t, const struct store_op *op,
				  void (*fire)(struct deco_wait *))
{
	scoped_lock(&t->lock);
	list_for_each(n, &t->queue) {
		struct deco_wait *w = list_entry(n, struct deco_wait, link);

		if (w->op == op && w->fire == fire) {
			list_remove(n);
			return w;
		}
	}
	return NULL;
}

/* ---- parameters ---- */

int deco_param_uint(const struct store_conf *conf, const char *name, uint64_t dflt, uint64_t *ret,
		    struct text *why)
{
	const char *v = conf->param(conf, name);
	uint64_t x = 0;

	if (!v) {
		*ret = dflt;
		return 0;
	}
	for (const char *c = v; *c || c == v; c++) {
		if (*c < '0' || *c > '9' || x > UINT32_MAX) {
			text_fmt(why, "%s: %s=%s: not a number (a count such as 8 is)", conf->uri,
				 name, v);
			return -TESS_E_URI;
		}
		x = x * 10 + (uint64_t)(*c - '0');
	}
	*ret = x;
	return 0;
}

int deco_param_time(const struct store_conf *conf, const char *name, uint64_t dflt, uint64_t *ret,
		    struct text *why)
{
	const char *v = conf->param(conf, name);

	if (!v) {
		*ret = dflt;
		return 0;
	}
	if (parse_time(v, ret) < 0 || *ret > (uint64_t)INT64_MAX / 4) {
		text_fmt(why, "%s: %s=%s: not a time (20ms, 1s, 5m are)", conf->uri, name, v);
		return -TESS_E_URI;
	}
	return 0;
}

int deco_param_size(const struct store_conf *conf, const char *name, uint64_t dflt, uint64_t *ret,
		    struct text *why)
{
	const char *v = conf->param(conf, name);

	if (!v) {
		*ret = dflt;
		return 0;
	}
	if (parse_size(v, ret) < 0) {
		text_fmt(why, "%s: %s=%s: not a size (4096, 80M, 100G are)", conf->uri, name, v);
		return -TESS_E_URI;
	}
	return 0;
}

int deco_param_path(const struct store_conf *conf, const char *name, struct text *why)
{
	const char *v = conf->param(conf, name);

	if (!v || v[0] == '/')
		return 0;
	text_fmt(why, "%s: %s: the path must be absolute", conf->uri, name);
	return -TESS_E_URI;
}
