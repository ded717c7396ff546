/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RADOS lists the objects of a namespace in the order of their hashes and without sizes. A page is
 * made by going through all of them and keeping the KEEP smallest names after the one asked for; the
 * sizes of those that are returned are asked for, BATCH at a time.
 *
 * So a page costs a look at every object, but its names serve the pages that follow too, for a while:
 * N objects are gone through N / KEEP times for a whole listing, which is as of when its names were
 * gathered. An object that was deleted since is left out.
 */
#ifdef HAVE_RADOS
#include "store/rados_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "store/marker.h"

#include <string.h>

#define KEEP     65536u
#define KEEP_FOR (30 * NS_PER_S)
#define BATCH    64u

/* While names are gathered a heap with the greatest on top, then in order. */
struct rados_page {
	struct tess_key  after;		/* names follow this one */
	struct tess_key *names;		/* owned */
	unsigned         n, cap;
	unsigned         next;		/* first not yet returned */
	bool             more;		/* there were others behind the last */
	int64_t          born;
};

struct rados_list_job {
	struct pool_job   job;
	struct list_node  link;		/* rados.lock: rados.lists */
	struct rados     *rs;
	struct store_op  *op;
	atomic_bool       cancelled;
};

void rados_page_free(struct rados_page *p)
{
	if (!p)
		return;
	free(p->names);
	free(p);
}

static void heap_swap(struct tess_key *a, struct tess_key *b)
{
	struct tess_key t = *a;

	*a = *b;
	*b = t;
}

static void heap_up(struct tess_key *h, unsigned i)
{
	for (; i > 0 && strcmp(h[i].name, h[(i - 1) / 2].name) > 0; i = (i - 1) / 2)
		heap_swap(&h[i], &h[(i - 1) / 2]);
}

static void heap_down(struct tess_key *h, unsigned n)
{
	for (unsigned i = 0, c = 1; c < n; i = c, c = 2 * c + 1) {
		if (c + 1 < n && strcmp(h[c + 1].name, h[c].name) > 0)
			c++;
		if (strcmp(h[c].name, h[i].name) <= 0)
			return;
		heap_swap(&h[i], &h[c]);
	}
}

static int page_add(struct rados_page *p, const char *name)
{
	struct tess_key key;

	/* What is not named as we name is not ours, nor of anybody who asks. */
	if (store_key_set(&key, name) < 0 || store_is_marker(name) || strcmp(name, p->after.name) <= 0)
		return 0;
	if (p->n == KEEP) {
		p->more = true;
		if (strcmp(name, p->names[0].name) < 0) {
			p->names[0] = key;
			heap_down(p->names, p->n);
		}
		return 0;
	}
	if (p->n == p->cap) {
		unsigned cap = p->cap ? p->cap * 2 : 256;
		void *names = mem_resize(p->names, cap, sizeof(p->names[0]));

		if (!names)
			return -ENOMEM;
		p->names = names;
		p->cap = cap;
	}
	p->names[p->n] = key;
	heap_up(p->names, p->n++);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct tess_key *)a)->name, ((const struct tess_key *)b)->name);
}

static int page_gather(struct rados_page *p, const struct rados_list_job *j, struct rados_conn *c)
{
	const struct rados_api *api = j->rs->api;
	const char *name;
	rados_list_ctx_t ctx;
	uint64_t seen = 0;
	int r = api->nobjects_list_open(c->io, &ctx);

	if (r < 0)
		return r;
	while ((r = api->nobjects_list_next(ctx, &name, NULL, NULL)) == 0) {
		seen++;
		r = page_add(p, name);
		if (r == 0 && (atomic_load(&j->cancelled) || req_expired(j->op->req)))
			r = -ECANCELED;
		if (r < 0)
			break;
	}
	api->nobjects_list_close(ctx);
	trace_add(&j->rs->counters[RADOS_C_SCANNED], seen);
	if (r != -ENOENT)
		return r;
	if (p->n > 0)
		qsort(p->names, p->n, sizeof(p->names[0]), by_name);
	return 0;
}

/* The one left over that begins where this listing goes on, else a new one. */
static int page_get(struct rados_page **ret, const struct rados_list_job *j, struct rados_conn *c)
{
	struct rados *rs = j->rs;
	const struct tess_key *after = &j->op->list->after;
	struct rados_page *p;
	int r;

	lock_take(&rs->lock);
	p = steal_ptr(rs->page);
	lock_drop(&rs->lock);
	if (p && after->name[0] && strcmp(p->after.name, after->name) == 0 && p->next < p->n &&
	    clock_now() - p->born < KEEP_FOR) {
		*ret = p;
		return 0;
	}
	rados_page_free(p);
	p = mem_zalloc(sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->after = *after;
	p->born = clock_now();
	r = page_gather(p, j, c);
	if (r < 0)
		rados_page_free(p);
	else
		*ret = p;
	return r;
}

/* Keeps what is left for who asks next. */
static void page_put(struct rados *rs, struct rados_page *p)
{
	struct rados_page *old;

	lock_take(&rs->lock);
	old = rs->page;
	rs->page = p;
	lock_drop(&rs->lock);
	rados_page_free(old);
}

/* Sizes of up to BATCH names at once; returns how many were gone through, or an error. */
static int page_sizes(struct rados_page *p, const struct rados_list_job *j, struct rados_conn *c)
{
	const struct rados_api *api = j->rs->api;
	struct store_list *l = j->op->list;
	unsigned n = MIN(MIN(l->max - l->n, p->n - p->next), BATCH), sent = 0;
	rados_completion_t done[BATCH];
	uint64_t size[BATCH];
	time_t mtime[BATCH];
	int r = 0;

	for (; sent < n && r == 0; sent++) {
		r = api->aio_create_completion2(NULL, NULL, &done[sent]);
		if (r < 0)
			break;
		r = api->aio_stat(c->io, p->names[p->next + sent].name, done[sent], &size[sent],
				  &mtime[sent]);
		if (r < 0) {
			api->aio_release(done[sent]);
			break;
		}
	}
	/* Every one that was sent must end: it writes to our arrays. */
	for (unsigned i = 0; i < sent; i++) {
		int one;

		(void)api->aio_wait_for_complete(done[i]);
		one = api->aio_get_return_value(done[i]);
		api->aio_release(done[i]);
		if (one == 0 && r == 0) {
			l->keys[l->n] = p->names[p->next + i];
			l->infos[l->n++].size = size[i];
		} else if (one < 0 && one != -ENOENT) {
			r = one;
		}
	}
	if (r == 0) {
		p->after = p->names[p->next + sent - 1];
		p->next += sent;
	}
	return r;
}

static int list_run(const struct rados_list_job *j, struct rados_conn *c)
{
	struct store_list *l = j->op->list;
	struct rados_page *p = NULL;
	int r = page_get(&p, j, c);

	l->n = 0;
	while (r == 0 && l->n < l->max && p->next < p->n) {
		r = atomic_load(&j->cancelled) ? -ECANCELED : page_sizes(p, j, c);
	}
	if (r < 0) {
		rados_page_free(p);
		return r;
	}
	l->more = p->next < p->n || p->more;
	if (p->next < p->n)
		page_put(j->rs, p);
	else
		rados_page_free(p);
	return 0;
}

static void list_main(struct pool_job *job)
{
	struct rados_list_job *j = container_of(job, struct rados_list_job, job);
	struct rados *rs = j->rs;
	struct store_op *op = j->op;
	struct rados_conn *c = rados_conn_take(rs);
	int r = c ? list_run(j, c) : -ENOTCONN;

	lock_take(&rs->lock);
	list_remove(&j->link);
	if (c && rados_conn_dead_locked(rs, c, r))
		r = r < 0 ? -ESHUTDOWN : r;
	lock_drop(&rs->lock);
	rados_conn_drop(rs, c);
	free(j);
	store_op_done(op, rados_map_error(r));
}

void rados_list_submit(struct rados *rs, struct store_op *op)
{
	struct rados_list_job *j = mem_zalloc(sizeof(*j));
	int r;

	if (!j) {
		store_op_done(op, -ENOMEM);
		return;
	}
	j->rs = rs;
	j->op = op;
	j->job.run = list_main;
	atomic_init(&j->cancelled, false);
	lock_take(&rs->lock);
	list_push_back(&rs->lists, &j->link);
	lock_drop(&rs->lock);
	r = pool_try(rs->pool, &j->job);
	if (r < 0) {
		lock_take(&rs->lock);
		list_remove(&j->link);
		lock_drop(&rs->lock);
		free(j);
		store_op_done(op, r);
	}
}

bool rados_list_cancel(struct rados *rs, const struct store_op *op)
{
	scoped_lock(&rs->lock);
	list_for_each(n, &rs->lists) {
		struct rados_list_job *j = list_entry(n, struct rados_list_job, link);

		if (j->op == op) {
			atomic_store(&j->cancelled, true);
			return true;
		}
	}
	return false;
}

int rados_list_refuse_used(struct rados *rs, struct rados_conn *c, const char *uri, struct text *why)
{
	rados_list_ctx_t ctx;
	const char *name;
	int r = rs->api->nobjects_list_open(c->io, &ctx);

	if (r < 0)
		return rados_map_error(r);
	while ((r = rs->api->nobjects_list_next(ctx, &name, NULL, NULL)) == 0) {
		if (store_is_marker(name))
			continue;
		text_fmt(why, "%s: not empty: holds \"%.80s\"; give a pool or namespace of its own", uri,
			 name);
		r = -EEXIST;
		break;
	}
	rs->api->nobjects_list_close(ctx);
	if (r < 0 && r != -ENOENT && r != -EEXIST)
		text_fmt(why, "%s: listing: %s", uri, err_text(rados_map_error(r)));
	return r == -ENOENT ? 0 : rados_map_error(r);
}
#endif
