/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference engine, for tests: ten ordered maps in memory. Each is a treap of immutable,
 * counted nodes, so that a snapshot is a set of roots and a write copies one path. Values that a
 * put or del replaces are really freed, which shows a caller that kept a pointer across one.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/htab.h"
#include "base/scoped.h"
#include "meta/kv.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct node {
	atomic_uint refs;
	uint32_t rank; /* heap order; from the key, so the shape depends on the content alone */
	struct node *sub[2]; /* owns refs */
	size_t nkey, nval;
	char bytes[]; /* key, value */
};

struct mem_root {
	struct node *top; /* owns a ref */
	uint64_t n;
};

struct mem_kv {
	struct kv kv;
	pthread_mutex_t writer; /* held from begin to the end of a write, as LMDB's is */
	pthread_mutex_t lock;	/* roots and serials; innermost */
	struct mem_root root[KV_NDBS];
	uint64_t serial, durable;
	int (*before_sync)(void *arg, uint64_t serial);
	void *arg;
	shared_word words[KV_WORDS];
};

struct mem_txn {
	struct kv_txn t;
	struct mem_root root[KV_NDBS];
	struct node *place[KV_NDBS]; /* owns a ref: what the last seek or step returned */
};

static struct mem_kv *mem_of(struct kv *kv)
{
	return container_of(kv, struct mem_kv, kv);
}

static struct mem_txn *mem_txn_of(struct kv_txn *t)
{
	return container_of(t, struct mem_txn, t);
}

static struct node *node_ref(struct node *n)
{
	if (n)
		atomic_fetch_add(&n->refs, 1);
	return n;
}

static void node_unref(struct node *n)
{
	while (n && atomic_fetch_sub(&n->refs, 1) == 1) {
		struct node *right = n->sub[1];

		node_unref(n->sub[0]);
		free(n);
		n = right;
	}
}

static struct node *node_new(struct kv_val key, struct kv_val val)
{
	struct node *n = mem_alloc(sizeof(*n) + key.n + val.n);

	if (!n)
		return NULL;
	atomic_init(&n->refs, 1);
	n->rank = (uint32_t)hash_bytes(key.p, key.n, 0);
	n->sub[0] = n->sub[1] = NULL;
	n->nkey = key.n;
	n->nval = val.n;
	memcpy(n->bytes, key.p, key.n);
	if (val.n)
		memcpy(n->bytes + key.n, val.p, val.n);
	return n;
}

static struct kv_val node_key(const struct node *n)
{
	return kv_val(n->bytes, n->nkey);
}

static struct kv_val node_val(const struct node *n)
{
	return kv_val(n->bytes + n->nkey, n->nval);
}

/* A copy that may be linked elsewhere; its subtrees are shared. */
static struct node *node_copy(const struct node *n)
{
	struct node *c = node_new(node_key(n), node_val(n));

	if (c)
		for (int i = 0; i < 2; i++)
			c->sub[i] = node_ref(n->sub[i]);
	return c;
}

static int key_cmp(struct kv_val a, struct kv_val b)
{
	int c = memcmp(a.p, b.p, MIN(a.n, b.n));

	return c ? c : (a.n > b.n) - (a.n < b.n);
}

static bool node_above(const struct node *a, const struct node *b)
{
	return a->rank != b->rank ? a->rank > b->rank : key_cmp(node_key(a), node_key(b)) < 0;
}

/* All of a before all of b; borrows both, returns a new tree. False when out of memory. */
static bool tree_join(struct node *a, struct node *b, struct node **ret)
{
	struct node *n, *sub;
	int side;

	if (!a || !b) {
		*ret = node_ref(a ? a : b);
		return true;
	}
	side = node_above(a, b);
	if (!(side ? tree_join(a->sub[1], b, &sub) : tree_join(a, b->sub[0], &sub)))
		return false;
	n = node_copy(side ? a : b);
	if (!n) {
		node_unref(sub);
		return false;
	}
	node_unref(n->sub[side]);
	n->sub[side] = sub;
	*ret = n;
	return true;
}

/* New trees of the keys below and above `key`; the key itself is left out. */
static bool tree_split(struct node *t, struct kv_val key, struct node **ret_lo,
		       struct node **ret_hi)
{
	struct node *part[2], *n;
	int c;

	if (!t) {
		*ret_lo = *ret_hi = NULL;
		return true;
	}
	c = key_cmp(key, node_key(t));
	if (c == 0) {
		*ret_lo = node_ref(t->sub[0]);
		*ret_hi = node_ref(t->sub[1]);
		return true;
	}
	int side = c > 0; /* where the key is; the other side stays whole, with t */

	if (!tree_split(t->sub[side], key, &part[0], &part[1]))
		return false;
	n = node_copy(t);
	if (!n) {
		node_unref(part[0]);
		node_unref(part[1]);
		return false;
	}
	node_unref(n->sub[side]);
	n->sub[side] = part[!side];
	*ret_lo = side ? n : part[0];
	*ret_hi = side ? part[1] : n;
	return true;
}

static bool tree_put(struct node *t, struct node *add, struct node **ret)
{
	struct kv_val key = node_key(add);
	int c = t ? key_cmp(key, node_key(t)) : 0;
	struct node *n, *sub;

	if (!t || c == 0 || node_above(add, t)) {
		if (!tree_split(t, key, &add->sub[0], &add->sub[1]))
			return false;
		*ret = node_ref(add);
		return true;
	}
	if (!tree_put(t->sub[c > 0], add, &sub))
		return false;
	n = node_copy(t);
	if (!n) {
		node_unref(sub);
		return false;
	}
	node_unref(n->sub[c > 0]);
	n->sub[c > 0] = sub;
	*ret = n;
	return true;
}

/* The key is in t. */
static bool tree_del(struct node *t, struct kv_val key, struct node **ret)
{
	int c = key_cmp(key, node_key(t));
	struct node *n, *sub;

	if (c == 0)
		return tree_join(t->sub[0], t->sub[1], ret);
	if (!tree_del(t->sub[c > 0], key, &sub))
		return false;
	n = node_copy(t);
	if (!n) {
		node_unref(sub);
		return false;
	}
	node_unref(n->sub[c > 0]);
	n->sub[c > 0] = sub;
	*ret = n;
	return true;
}

/* Nearest node on the side of dir; `past` leaves out the key itself. Borrowed. */
static struct node *tree_near(struct node *t, struct kv_val key, int dir, bool past)
{
	struct node *best = NULL;

	while (t) {
		int c = key_cmp(key, node_key(t));

		if (c == 0 && !past)
			return t;
		if (dir > 0 ? c < 0 : c > 0) {
			best = t;
			t = t->sub[dir < 0];
		} else {
			t = t->sub[dir > 0];
		}
	}
	return best;
}

static int mem_begin(struct kv *kv, bool write, struct kv_txn **ret)
{
	struct mem_kv *k = mem_of(kv);
	struct mem_txn *x = mem_zalloc(sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->t.kv = kv;
	x->t.write = write;
	if (write)
		pthread_mutex_lock(&k->writer);
	pthread_mutex_lock(&k->lock);
	for (unsigned i = 0; i < KV_NDBS; i++) {
		x->root[i] = k->root[i];
		node_ref(x->root[i].top);
	}
	x->t.serial = k->serial + write;
	pthread_mutex_unlock(&k->lock);
	*ret = &x->t;
	return 0;
}

static void mem_end(struct mem_txn *x)
{
	for (unsigned i = 0; i < KV_NDBS; i++) {
		node_unref(x->root[i].top);
		node_unref(x->place[i]);
	}
	if (x->t.write)
		pthread_mutex_unlock(&mem_of(x->t.kv)->writer);
	free(x);
}

static void mem_abort(struct kv_txn *t)
{
	mem_end(mem_txn_of(t));
}

static int mem_commit(struct kv_txn *t, uint64_t *ret_serial)
{
	struct mem_txn *x = mem_txn_of(t);
	struct mem_kv *k = mem_of(t->kv);

	pthread_mutex_lock(&k->lock);
	for (unsigned i = 0; i < KV_NDBS; i++) {
		struct mem_root old = k->root[i];

		k->root[i] = x->root[i];
		x->root[i] = old; /* freed with the transaction */
	}
	k->serial = t->serial;
	if (ret_serial)
		*ret_serial = t->serial;
	pthread_mutex_unlock(&k->lock);
	mem_end(x);
	return 0;
}

static int mem_get(struct kv_txn *t, enum kv_db db, struct kv_val key, struct kv_val *ret)
{
	struct node *n = tree_near(mem_txn_of(t)->root[db].top, key, 1, false);

	if (!n || key_cmp(node_key(n), key) != 0)
		return -ENOENT;
	*ret = node_val(n);
	return 0;
}

static int mem_put(struct kv_txn *t, enum kv_db db, struct kv_val key, struct kv_val val)
{
	struct mem_root *r = &mem_txn_of(t)->root[db];
	struct node *top, *add = node_new(key, val);
	struct kv_val old;
	bool had = mem_get(t, db, key, &old) == 0;

	if (!add)
		return -ENOMEM;
	bool ok = tree_put(r->top, add, &top);

	node_unref(add);
	if (!ok)
		return -ENOMEM;
	node_unref(r->top);
	r->top = top;
	r->n += !had;
	return 0;
}

static int mem_del(struct kv_txn *t, enum kv_db db, struct kv_val key)
{
	struct mem_root *r = &mem_txn_of(t)->root[db];
	struct kv_val old;
	struct node *top;

	if (mem_get(t, db, key, &old))
		return -ENOENT;
	if (!tree_del(r->top, key, &top))
		return -ENOMEM;
	node_unref(r->top);
	r->top = top;
	r->n--;
	return 0;
}

static int mem_stand(struct mem_txn *x, enum kv_db db, struct node *n, struct kv_val ret[2])
{
	if (!n)
		return -ENOENT;
	node_ref(n);
	node_unref(x->place[db]);
	x->place[db] = n;
	ret[0] = node_key(n);
	ret[1] = node_val(n);
	return 0;
}

static int mem_seek(struct kv_txn *t, enum kv_db db, int dir, struct kv_val *key,
		    struct kv_val *ret)
{
	struct mem_txn *x = mem_txn_of(t);
	struct kv_val out[2];
	int err = mem_stand(x, db, tree_near(x->root[db].top, *key, dir, false), out);

	if (!err) {
		*key = out[0];
		*ret = out[1];
	}
	return err;
}

static int mem_step(struct kv_txn *t, enum kv_db db, int dir, struct kv_val *ret_key,
		    struct kv_val *ret)
{
	struct mem_txn *x = mem_txn_of(t);
	struct kv_val out[2];
	int err;

	if (!x->place[db])
		return -EINVAL;
	err = mem_stand(x, db, tree_near(x->root[db].top, node_key(x->place[db]), dir, true), out);
	if (!err) {
		*ret_key = out[0];
		*ret = out[1];
	}
	return err;
}

static int mem_count(struct kv_txn *t, enum kv_db db, uint64_t *ret)
{
	*ret = mem_txn_of(t)->root[db].n;
	return 0;
}

static int mem_sync(struct kv *kv)
{
	struct mem_kv *k = mem_of(kv);
	uint64_t serial;
	int err = 0;

	pthread_mutex_lock(&k->lock);
	serial = k->serial;
	pthread_mutex_unlock(&k->lock);
	if (k->before_sync)
		err = k->before_sync(k->arg, serial);
	if (err)
		return err;
	pthread_mutex_lock(&k->lock);
	k->durable = MAX(k->durable, serial);
	pthread_mutex_unlock(&k->lock);
	return 0;
}

static uint64_t mem_fact(struct kv *kv, enum kv_fact f)
{
	struct mem_kv *k = mem_of(kv);
	uint64_t v;

	pthread_mutex_lock(&k->lock);
	v = f == KV_FACT_DURABLE ? k->durable : f == KV_FACT_LAST ? k->serial : 0;
	pthread_mutex_unlock(&k->lock);
	return v;
}

static shared_word *mem_words(struct kv *kv)
{
	return mem_of(kv)->words;
}

static void mem_close(struct kv *kv)
{
	struct mem_kv *k = mem_of(kv);

	for (unsigned i = 0; i < KV_NDBS; i++)
		node_unref(k->root[i].top);
	pthread_mutex_destroy(&k->writer);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

static const struct kv_ops mem_ops = {
	.name = "mem",
	.begin = mem_begin,
	.commit = mem_commit,
	.abort = mem_abort,
	.get = mem_get,
	.put = mem_put,
	.del = mem_del,
	.seek = mem_seek,
	.step = mem_step,
	.sync = mem_sync,
	.close = mem_close,
	.fact = mem_fact,
	.count = mem_count,
	.words = mem_words,
};

int kv_mem_open(struct kv **ret, const struct kv_conf *conf, struct text *why)
{
	struct mem_kv *k = mem_zalloc(sizeof(*k));

	(void)why;
	if (!k)
		return -ENOMEM;
	k->kv.ops = &mem_ops;
	k->before_sync = conf ? conf->before_sync : NULL;
	k->arg = conf ? conf->arg : NULL;
	pthread_mutex_init(&k->writer, NULL);
	pthread_mutex_init(&k->lock, NULL);
	*ret = &k->kv;
	return 0;
}
