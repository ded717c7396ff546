/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep of a store. It works in a place made for it: a directory gets a file of ours, a bucket or
 * container a prefix, a pool a namespace; store_open_uri() with `create` refuses what holds anything.
 * What is in that place at the end is therefore ours to delete, whatever happened to a rank.
 */
#include "admin/admin.h"
#include "admin/bench_int.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "store/store.h"
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

/* ---- where ---- */

struct place {
	char    *uri;	/* owned; ours */
	uint64_t fsid;
};

static bool place_is_dir(const char *uri, size_t n)
{
	scoped_free char *path = mem_printf("%.*s", (int)n - 3, uri + 3);
	struct stat st;

	return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A target of a file system is no place for a sweep, not even below its prefix: its gc lists that too. */
static int place_refuse_used(const char *uri, struct text *why)
{
	struct store_open_opts look = { .readonly = true };
	struct text unread = TEXT_INIT;
	struct store *s;
	int err = store_open_uri(&s, uri, &look, &unread);

	text_done(&unread);
	/* Any other error will be met again when ours is made, and told then. */
	if (err < 0)
		return 0;
	store_close(s);
	text_fmt(why, "%s: is the target of a file system; give it a prefix or place of its own", uri);
	return -EEXIST;
}

static int place_make(const char *uri, struct place *ret, struct text *why)
{
	size_t n = strcspn(uri, "?");
	const char *sep = NULL;
	uint32_t id;
	int err;

	if (getrandom(&ret->fsid, sizeof(ret->fsid), 0) != sizeof(ret->fsid))
		return -EIO;
	ret->fsid |= 1;
	id = (uint32_t)(ret->fsid >> 32);
	if (strncmp(uri, "kv:", 3) == 0) {
		sep = n > 3 && place_is_dir(uri, n) ? "/" : NULL;
	} else if (strncmp(uri, "rados://", 8) == 0) {
		/* A namespace that was named is meant: its user's rights may end there. */
		sep = memchr(uri + 8, '/', n - 8) ? NULL : "/";
	} else if (strstr(uri, "://")) {
		sep = uri[n - 1] == '/' ? "" : "/";
		err = place_refuse_used(uri, why);
		if (err)
			return err;
	}
	ret->uri = sep ? mem_printf("%.*s%stessera-bench-%08" PRIx32 "%s", (int)n, uri, sep, id, uri + n) :
			 mem_strdup(uri);
	return ret->uri ? 0 : -ENOMEM;
}

/* ---- a rank ---- */

struct slot {
	struct store_op  op;
	struct iovec     iov[2];
	char            *data;		/* owned; a page for put, an object for get */
	uint64_t         index;
	int64_t          start, end;
	struct slot     *next;		/* done or free */
	struct rank_ops *ops;
};

struct rank_ops {
	struct bench_rank *r;
	struct store      *store;	/* this rank's, or the one of all */
	struct tess_req    req;
	struct lock        lock;
	struct cond        cond;
	struct slot       *done GUARDED_BY(&lock);
	struct slot       *slots;	/* owned */
	unsigned           window, busy;
	bool               cancelled;
};

struct bench_stores {
	struct place  place;
	struct store *shared;	/* of all ranks that are threads */
};

static void slot_done(struct store_op *op)
{
	struct slot *s = op->owner;

	s->end = clock_now();
	scoped_lock(&s->ops->lock);
	s->next = s->ops->done;
	s->ops->done = s;
	cond_wake_one(&s->ops->cond);
}

static void slot_submit(struct slot *s, uint64_t index)
{
	static const enum store_code codes[] = { STORE_PUT, STORE_GET, STORE_DEL };
	struct bench_rank *r = s->ops->r;
	uint64_t size = r->phase.size;

	s->index = index;
	s->op = (struct store_op){
		.req = &s->ops->req, .code = codes[r->phase.op], .done = slot_done, .owner = s,
	};
	bench_object_name(r, index, s->op.key.name, sizeof(s->op.key.name));
	if (r->phase.op == BENCH_PUT)
		s->op.data = (struct tess_iov){ s->iov, bench_fill(r, index, s->data, s->iov), size };
	if (r->phase.op == BENCH_GET) {
		s->iov[0] = (struct iovec){ s->data, size };
		s->op.data = (struct tess_iov){ s->iov, 1, size };
		s->op.range = (struct tess_range){ 0, size };
	}
	s->ops->busy++;
	s->start = clock_now();
	store_submit(s->ops->store, &s->op);
}

static void slot_finish(struct slot *s)
{
	struct bench_rank *r = s->ops->r;
	int err = s->op.err;

	if (!err && r->phase.op == BENCH_GET && r->b->conf->verify && !bench_check(r, s->index, s->data))
		err = -TESS_E_CHECKSUM;
	if (err)
		bench_fail(r, err, s->op.key.name);
	else
		bench_count(r, s->end - s->start);
}

/* Who waits for a service that does not answer is told by hand that all is over. */
static void ops_cancel(struct rank_ops *o)
{
	if (o->cancelled || o->r->phase.clean || !atomic_load(&o->r->b->stop))
		return;
	o->cancelled = true;
	atomic_store(&o->req.cancelled, true);
	for (unsigned i = 0; i < o->window; i++)
		store_cancel(o->store, &o->slots[i].op);
}

/* All that are done by now, at least one. */
static struct slot *ops_wait(struct rank_ops *o)
{
	struct slot *list;

	for (;;) {
		lock_take(&o->lock);
		if (!o->done)
			(void)cond_wait_until(&o->cond, &o->lock, clock_now() + 100 * NS_PER_MS);
		list = o->done;
		o->done = NULL;
		lock_drop(&o->lock);
		if (list)
			return list;
		ops_cancel(o);
	}
}

static void ops_loop(struct rank_ops *o)
{
	struct slot *free_slots = NULL, *s;
	uint64_t index;

	for (unsigned i = o->window; i-- > 0;) {
		o->slots[i].next = free_slots;
		free_slots = &o->slots[i];
	}
	for (;;) {
		while (free_slots && bench_next(o->r, &index)) {
			s = free_slots;
			free_slots = s->next;
			slot_submit(s, index);
		}
		if (!o->busy)
			return;
		for (s = ops_wait(o); s; ) {
			struct slot *next = s->next;

			o->busy--;
			slot_finish(s);
			s->next = free_slots;
			free_slots = s;
			s = next;
		}
	}
}

static int ops_alloc(struct rank_ops *o)
{
	const struct bench_phase *p = &o->r->phase;
	size_t n = p->op == BENCH_PUT ? BENCH_PAGE : p->op == BENCH_GET ? p->size : 0;

	o->window = p->window ? p->window : 1;
	o->slots = mem_array(o->window, sizeof(*o->slots));
	if (!o->slots)
		return -ENOMEM;
	for (unsigned i = 0; i < o->window; i++) {
		o->slots[i].ops = o;
		o->slots[i].data = n ? mem_pages(n) : NULL;
		if (n && !o->slots[i].data)
			return -ENOMEM;
		/* The first touch of memory is not what is measured. */
		if (n)
			memset(o->slots[i].data, 0, n);
	}
	return 0;
}

static void ops_free(struct rank_ops *o)
{
	for (unsigned i = 0; o->slots && i < o->window; i++)
		free(o->slots[i].data);
	free(o->slots);
	o->slots = NULL;
}

static void store_rank_run(struct bench_rank *r)
{
	struct rank_ops *o = r->priv;
	int err = ops_alloc(o);

	o->cancelled = false;
	req_begin(&o->req, "bench");
	if (!err) {
		bench_start(r);
		ops_loop(o);
		/* What is not durable is not put yet. */
		if (r->phase.op == BENCH_PUT && !(o->store->caps.flags & STORE_DURABLE_ON_DONE))
			err = store_barrier(o->store, &o->req);
		bench_end(r);
	}
	if (err)
		bench_fail(r, err, "");
	ops_free(o);
}

static void store_rank_close(struct bench_rank *r)
{
	struct rank_ops *o = r->priv;

	if (r->b->processes)
		store_close(o->store);
	cond_done(&o->cond);
	lock_done(&o->lock);
	free(o);
}

static int store_rank_open(struct bench_rank *r)
{
	struct bench_stores *all = r->b->priv;
	struct rank_ops *o = mem_zalloc(sizeof(*o));
	int err = 0;

	if (!o)
		return -ENOMEM;
	o->r = r;
	o->store = all->shared;
	if (r->b->processes) {
		struct store_open_opts opts = { .fsid = all->place.fsid };
		struct text why = TEXT_INIT;

		err = store_open_uri(&o->store, all->place.uri, &opts, &why);
		if (err)
			snprintf(r->why, sizeof(r->why), "rank %u: %s", r->id, text_str(&why));
		text_done(&why);
	}
	if (err) {
		free(o);
		return err;
	}
	lock_init(&o->lock, LOCK_LEAF, "bench ops");
	cond_init(&o->cond);
	r->priv = o;
	return 0;
}

static const struct bench_port store_port = {
	.open = store_rank_open,
	.run = store_rank_run,
	.close = store_rank_close,
};

/* ---- all ---- */

struct sweeping {
	struct store   *s;
	struct tess_req req;
	int             err;
};

static int sweep_one(void *arg, const char *name, uint64_t size)
{
	struct sweeping *w = arg;

	(void)size;
	w->err = store_del(w->s, &w->req, name);
	return w->err;
}

/* What ranks did not delete themselves: they died, or could not. */
static int place_empty(struct store *s, struct text *why)
{
	struct sweeping w = { .s = s };
	int err;

	req_begin(&w.req, "bench");
	err = admin_objects(s, sweep_one, &w);
	if (err)
		text_fmt(why, "%sobjects of the sweep remain: %s", text_str(why)[0] ? "; " : "",
			 err_text(err));
	return err;
}

static int bench_in_place(struct bench *b, struct bench_result *ret, struct text *why)
{
	struct bench_stores *all = b->priv;
	struct store_open_opts make = { .create = true, .fsid = all->place.fsid };
	int err, err2;

	err = store_open_uri(&all->shared, all->place.uri, &make, why);
	if (err)
		return err;
	if (b->processes && all->shared->caps.flags & STORE_VOLATILE) {
		text_fmt(why, "%s: a process does not see what another put there", all->place.uri);
		err = -EINVAL;
	}
	b->max_size = MIN(b->max_size, all->shared->caps.max_object);
	if (!err)
		err = bench_sweep(b, ret, why);
	err2 = place_empty(all->shared, why);
	return err ? err : err2;
}

int bench_store(const char *uri, const struct bench_conf *conf, struct bench_result *ret,
		struct text *why)
{
	struct bench_stores all = { 0 };
	struct bench *b = NULL;
	int err;

	*ret = (struct bench_result){ .name = mem_strdup(uri) };
	if (!ret->name)
		return -ENOMEM;
	err = store_uri_check(uri, why);
	if (!err)
		err = place_make(uri, &all.place, why);
	if (!err)
		err = bench_new(&b, conf, &store_port, &all);
	if (!err)
		err = bench_in_place(b, ret, why);
	bench_free(b);
	if (all.shared) {
		store_close(all.shared);
		store_unmake_uri(all.place.uri, all.place.fsid);
	}
	free(all.place.uri);
	if (err && err != -EINTR && !text_str(why)[0])
		text_fmt(why, "%s: %s", uri, err_text(err));
	return err;
}
