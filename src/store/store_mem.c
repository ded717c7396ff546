/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem:[?size=SIZE]: objects in this process's memory, the reference for tests. Names are kept in
 * one sorted array, because a listing in order is then a scan; inserting moves pointers, which for
 * the some 10^5 objects of a test is cheaper than a tree would be to read. Bytes are copied outside
 * the lock: an object is immutable and counted.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/lock.h"
#include "base/text.h"
#include "store/deco.h"

#include <stdatomic.h>
#include <string.h>

struct mem_object {
	atomic_uint     refs;
	struct tess_key key;
	size_t          len;
	char            data[];
};

struct mem_store {
	struct store        s;
	uint64_t            limit;	/* const, bytes */
	struct lock         lock;
	struct mem_object **objects GUARDED_BY(&lock);	/* owned, by name; a reference each */
	size_t              n GUARDED_BY(&lock), cap GUARDED_BY(&lock);
	uint64_t            bytes GUARDED_BY(&lock);
};

static struct mem_store *mem_of(struct store *s)
{
	return container_of(s, struct mem_store, s);
}

static void object_unref(struct mem_object *o)
{
	if (o && atomic_fetch_sub(&o->refs, 1) == 1)
		free(o);
}

/* Index of the first object whose name is >= name (> name where `after`). */
static size_t mem_seek_locked(const struct mem_store *m, const char *name, bool after) NO_TSA
{
	size_t lo = 0, hi = m->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int c = strcmp(m->objects[mid]->key.name, name);

		if (c < 0 || (c == 0 && after))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct mem_object *mem_at_locked(const struct mem_store *m, size_t i,
					const char *name) NO_TSA
{
	if (i < m->n && strcmp(m->objects[i]->key.name, name) == 0)
		return m->objects[i];
	return NULL;
}

/* Takes the reference of `o` on success; *ret_old is then the caller's. */
static int mem_insert(struct mem_store *m, struct mem_object *o, struct mem_object **ret_old)
{
	struct mem_object *old;
	size_t i;

	scoped_lock(&m->lock);
	i = mem_seek_locked(m, o->key.name, false);
	old = mem_at_locked(m, i, o->key.name);
	if (m->bytes - (old ? old->len : 0) + o->len > m->limit)
		return -TESS_E_STORE_FULL;
	if (!old) {
		if (m->n == m->cap) {
			size_t cap = m->cap ? m->cap * 2 : 64;
			void *p = mem_resize(m->objects, cap, sizeof(m->objects[0]));

			if (!p)
				return -ENOMEM;
			m->objects = p;
			m->cap = cap;
		}
		memmove(&m->objects[i + 1], &m->objects[i], (m->n - i) * sizeof(m->objects[0]));
		m->n++;
	}
	m->bytes += o->len - (old ? old->len : 0);
	m->objects[i] = o;
	*ret_old = old;
	return 0;
}

static int mem_put(struct mem_store *m, struct store_op *op)
{
	struct mem_object *o, *old = NULL;
	int r;

	if (op->data.len > m->limit)
		return -TESS_E_STORE_FULL;
	o = mem_alloc(sizeof(*o) + op->data.len);
	if (!o)
		return -ENOMEM;
	atomic_init(&o->refs, 1);
	o->key = op->key;
	o->len = iov_copy_out(o->data, &op->data, 0, op->data.len);
	r = mem_insert(m, o, &old);
	object_unref(r < 0 ? o : old);
	return r;
}

static struct mem_object *mem_find(struct mem_store *m, const char *name)
{
	struct mem_object *o;

	scoped_lock(&m->lock);
	o = mem_at_locked(m, mem_seek_locked(m, name, false), name);
	if (o)
		atomic_fetch_add(&o->refs, 1);
	return o;
}

static int mem_get(struct mem_store *m, struct store_op *op)
{
	struct mem_object *o = mem_find(m, op->key.name);
	int r = 0;

	if (!o)
		return -ENOENT;
	op->info.size = o->len;
	if (op->code == STORE_GET) {
		if (op->range.off > o->len || op->range.len > o->len - op->range.off)
			r = -TESS_E_SHORT_BODY;
		else
			(void)iov_copy_in(&op->data, 0, o->data + op->range.off, op->range.len);
	}
	object_unref(o);
	return r;
}

static int mem_del(struct mem_store *m, const char *name)
{
	struct mem_object *o;
	size_t i;

	lock_take(&m->lock);
	i = mem_seek_locked(m, name, false);
	o = mem_at_locked(m, i, name);
	if (o) {
		m->n--;
		memmove(&m->objects[i], &m->objects[i + 1], (m->n - i) * sizeof(m->objects[0]));
		m->bytes -= o->len;
	}
	lock_drop(&m->lock);
	object_unref(o);
	return 0;
}

static int mem_list(struct mem_store *m, struct store_list *l)
{
	size_t i;

	scoped_lock(&m->lock);
	i = mem_seek_locked(m, l->after.name, true);
	for (l->n = 0; l->n < l->max && i < m->n; i++, l->n++) {
		l->keys[l->n] = m->objects[i]->key;
		l->infos[l->n].size = m->objects[i]->len;
	}
	l->more = i < m->n;
	return 0;
}

static void mem_submit(struct store *s, struct store_op *op)
{
	struct mem_store *m = mem_of(s);
	int r = store_fault(op->code);

	if (r == 0) {
		switch (op->code) {
		case STORE_PUT:
			r = mem_put(m, op);
			break;
		case STORE_GET:
		case STORE_HEAD:
			r = mem_get(m, op);
			break;
		case STORE_DEL:
			r = mem_del(m, op->key.name);
			break;
		case STORE_LIST:
			r = mem_list(m, op->list);
			break;
		case STORE_NCODES:
			break;
		}
	}
	store_op_done(op, r);
}

static int mem_usage(struct store *s, struct store_usage *ret)
{
	struct mem_store *m = mem_of(s);

	scoped_lock(&m->lock);
	ret->total = m->limit;
	ret->free = m->limit - m->bytes;
	ret->objects = m->n;
	return 0;
}

static void mem_to_text(const struct store *s, struct text *out)
{
	text_fmt(out, "limit=%llu",
		 (unsigned long long)container_of(s, struct mem_store, s)->limit);
}

static void mem_close(struct store *s) NO_TSA
{
	struct mem_store *m = mem_of(s);

	for (size_t i = 0; i < m->n; i++)
		object_unref(m->objects[i]);
	free(m->objects);
	lock_done(&m->lock);
	free(m);
}

static int mem_open(struct store **ret, const struct store_conf *conf, struct store *inner,
		    struct text *why)
{
	struct mem_store *m;
	uint64_t limit;
	int r = deco_param_size(conf, "size", UINT64_C(4) << 30, &limit, why);

	(void)inner;
	if (r < 0)
		return r;
	m = mem_zalloc(sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->s.ops = &store_mem_ops;
	m->limit = limit;
	m->s.caps = (struct store_caps){
		.flags = STORE_LOCAL | STORE_VOLATILE, .max_object = UINT64_C(1) << 30,
		.best_put = 64 << 10, .min_get = 1, .max_inflight = 64,
	};
	lock_init(&m->lock, LOCK_STORE, "mem");
	*ret = &m->s;
	return 0;
}

const struct store_ops store_mem_ops = {
	.name = "mem",
	.open = mem_open,
	.submit = mem_submit,
	.usage = mem_usage,
	.to_text = mem_to_text,
	.close = mem_close,
};
