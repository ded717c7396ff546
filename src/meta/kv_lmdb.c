/* SPDX-License-Identifier: Apache-2.0 */
/* The engine that a file system uses: LMDB, made crash-safe by base/env. */
#include "base/env.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "base/text.h"
#include "meta/kv.h"
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

/* Names on disk, by enum kv_db. */
static const char *const db_names[KV_NDBS + 1] = {
	[KV_SUPER] = "super",	[KV_INODE] = "inode",	  [KV_DENTRY] = "dentry",
	[KV_XATTR] = "xattr",	[KV_EXTENT] = "extent",	  [KV_SEGMENT] = "segment",
	[KV_CSUM] = "csum",	[KV_GARBAGE] = "garbage", [KV_SESSION] = "session",
	[KV_ORPHAN] = "orphan",	[KV_CHANGE] = "change",
	[KV_LOCK] = "lock",
};

#define KEY_MAX 511u /* LMDB's */
#define NIDLE	64u

/* Where the cursor of a database stands. */
struct lmdb_place {
	MDB_cursor *cur; /* a read's is renewed with it; a write's dies with it */
	bool fresh;	 /* opened or renewed in this transaction */
	bool moved;	 /* written to since: LMDB's cursor may stand elsewhere */
	uint16_t n;	 /* of key; kept in write transactions only */
	uint8_t key[KEY_MAX];
};

struct lmdb_txn {
	struct kv_txn t;
	MDB_txn *txn;
	uint64_t maps;
	bool full; /* the map was too small: abort grows it */
	struct lmdb_place at[KV_NDBS];
};

struct lmdb_kv {
	struct kv kv;
	struct env *env;
	shared_word *words; /* NULL: opened to look only */
	atomic_int grow_err; /* of the last growth: the next write reports it */
	/* Recycled transaction objects: read ones keep their cursors. */
	_Atomic(struct lmdb_txn *) idle_read[NIDLE], idle_write[NIDLE];
};

static struct lmdb_kv *lmdb_of(struct kv *kv)
{
	return container_of(kv, struct lmdb_kv, kv);
}

static struct lmdb_txn *lmdb_txn_of(struct kv_txn *t)
{
	return container_of(t, struct lmdb_txn, t);
}

static unsigned lmdb_thread(void)
{
	static atomic_uint next;
	static _Thread_local unsigned self;

	if (!self)
		self = atomic_fetch_add(&next, 1) + 1;
	return self;
}

static struct lmdb_txn *lmdb_txn_take(struct lmdb_kv *k, bool write)
{
	_Atomic(struct lmdb_txn *) *idle = write ? k->idle_write : k->idle_read;
	struct lmdb_txn *x;

	for (unsigned i = 0; i < NIDLE; i++) {
		_Atomic(struct lmdb_txn *) *slot = &idle[(lmdb_thread() + i) % NIDLE];

		if (!atomic_load_explicit(slot, memory_order_relaxed))
			continue;
		x = atomic_exchange(slot, NULL);
		if (x)
			return x;
	}
	x = mem_zalloc(sizeof(*x));
	if (x) {
		x->t.kv = &k->kv;
		x->t.write = write;
	}
	return x;
}

static void lmdb_txn_free(struct lmdb_txn *x)
{
	if (!x)
		return;
	for (unsigned i = 0; i < KV_NDBS; i++)
		if (x->at[i].cur)
			mdb_cursor_close(x->at[i].cur);
	free(x);
}

static void lmdb_txn_give(struct lmdb_kv *k, struct lmdb_txn *x)
{
	_Atomic(struct lmdb_txn *) *idle = x->t.write ? k->idle_write : k->idle_read;

	for (unsigned i = 0; i < KV_NDBS; i++) {
		x->at[i].fresh = x->at[i].moved = false;
		if (x->t.write)
			x->at[i].cur = NULL;
	}
	for (unsigned i = 0; i < NIDLE; i++) {
		struct lmdb_txn *none = NULL;

		if (atomic_compare_exchange_strong(&idle[(lmdb_thread() + i) % NIDLE], &none, x))
			return;
	}
	lmdb_txn_free(x);
}

static int lmdb_begin(struct kv *kv, bool write, struct kv_txn **ret)
{
	struct lmdb_kv *k = lmdb_of(kv);
	struct lmdb_txn *x;
	int err = write ? atomic_exchange(&k->grow_err, 0) : 0;

	if (err)
		return err;
	x = lmdb_txn_take(k, write);
	if (!x)
		return -ENOMEM;
	err = write ? env_begin_write(k->env, &x->txn, &x->maps) : env_begin_read(k->env, &x->txn);
	if (err) {
		lmdb_txn_give(k, x);
		return err;
	}
	x->full = false;
	x->t.serial = mdb_txn_id(x->txn);
	*ret = &x->t;
	return 0;
}

static void lmdb_abort(struct kv_txn *t)
{
	struct lmdb_txn *x = lmdb_txn_of(t);
	struct lmdb_kv *k = lmdb_of(t->kv);

	if (t->write)
		env_abort(k->env, x->txn);
	else
		env_end_read(k->env, x->txn);
	if (x->full)
		atomic_store(&k->grow_err, env_grow(k->env, x->maps));
	lmdb_txn_give(k, x);
}

static int lmdb_commit(struct kv_txn *t, uint64_t *ret_serial)
{
	struct lmdb_txn *x = lmdb_txn_of(t);
	struct lmdb_kv *k = lmdb_of(t->kv);
	int err = env_commit(k->env, x->txn, ret_serial);

	if (err == -TESS_E_KV_FULL || err == -ENOSPC) {
		err = err == -ENOSPC ? env_squeeze(k->env) : env_grow(k->env, x->maps);
		if (!err)
			err = -TESS_E_KV_CONFLICT;
	}
	lmdb_txn_give(k, x);
	return err;
}

/* A map that is too small is a conflict to the closure: the abort grows it, then it runs again. */
static int lmdb_error(struct lmdb_txn *x, int rc)
{
	if (rc != MDB_MAP_FULL)
		return env_error(rc);
	x->full = true;
	return -TESS_E_KV_CONFLICT;
}

static int lmdb_get(struct kv_txn *t, enum kv_db db, struct kv_val key, struct kv_val *ret)
{
	struct lmdb_txn *x = lmdb_txn_of(t);
	MDB_val k = {key.n, (void *)(uintptr_t)key.p}, v;
	int rc = mdb_get(x->txn, env_db(lmdb_of(t->kv)->env, db), &k, &v);

	if (rc)
		return lmdb_error(x, rc);
	*ret = kv_val(v.mv_data, v.mv_size);
	return 0;
}

static int lmdb_put(struct kv_txn *t, enum kv_db db, struct kv_val key, struct kv_val val)
{
	struct lmdb_txn *x = lmdb_txn_of(t);
	MDB_val k = {key.n, (void *)(uintptr_t)key.p};
	MDB_val v = {val.n, (void *)(uintptr_t)val.p};

	x->at[db].moved = true;
	return lmdb_error(x, mdb_put(x->txn, env_db(lmdb_of(t->kv)->env, db), &k, &v, 0));
}

static int lmdb_del(struct kv_txn *t, enum kv_db db, struct kv_val key)
{
	struct lmdb_txn *x = lmdb_txn_of(t);
	MDB_val k = {key.n, (void *)(uintptr_t)key.p};

	x->at[db].moved = true;
	return lmdb_error(x, mdb_del(x->txn, env_db(lmdb_of(t->kv)->env, db), &k, NULL));
}

static int lmdb_place(struct lmdb_txn *x, enum kv_db db, struct lmdb_place **ret)
{
	struct lmdb_place *p = &x->at[db];
	int rc = 0;

	if (!p->cur)
		rc = mdb_cursor_open(x->txn, env_db(lmdb_of(x->t.kv)->env, db), &p->cur);
	else if (!p->fresh)
		rc = mdb_cursor_renew(x->txn, p->cur);
	p->fresh = !rc;
	*ret = p;
	return env_error(rc);
}

static int lmdb_place_ret(struct lmdb_txn *x, struct lmdb_place *p, int rc, const MDB_val kv[2],
			  struct kv_val ret[2])
{
	if (rc)
		return lmdb_error(x, rc);
	if (x->t.write) {
		p->n = (uint16_t)MIN(kv[0].mv_size, (size_t)KEY_MAX);
		memcpy(p->key, kv[0].mv_data, p->n);
		p->moved = false;
	}
	ret[0] = kv_val(kv[0].mv_data, kv[0].mv_size);
	ret[1] = kv_val(kv[1].mv_data, kv[1].mv_size);
	return 0;
}

static bool lmdb_same(const MDB_val *a, const void *p, size_t n)
{
	return a->mv_size == n && memcmp(a->mv_data, p, n) == 0;
}

/* kv[0] is the key to look for, and what was found. */
static int lmdb_find(struct lmdb_place *p, int dir, MDB_val kv[2], bool past)
{
	MDB_val want = kv[0];
	int rc = mdb_cursor_get(p->cur, &kv[0], &kv[1], MDB_SET_RANGE);
	bool same = !rc && lmdb_same(&kv[0], want.mv_data, want.mv_size);

	if (dir > 0)
		return same && past ? mdb_cursor_get(p->cur, &kv[0], &kv[1], MDB_NEXT) : rc;
	if (rc == MDB_NOTFOUND)
		return mdb_cursor_get(p->cur, &kv[0], &kv[1], MDB_LAST);
	if (rc || (same && !past))
		return rc;
	return mdb_cursor_get(p->cur, &kv[0], &kv[1], MDB_PREV);
}

static int lmdb_seek(struct kv_txn *t, enum kv_db db, int dir, struct kv_val *key,
		     struct kv_val *ret)
{
	struct lmdb_txn *x = lmdb_txn_of(t);
	MDB_val kv[2] = {{key->n, (void *)(uintptr_t)key->p}, {0, NULL}};
	struct lmdb_place *p;
	struct kv_val out[2];
	int err = lmdb_place(x, db, &p);

	if (!err)
		err = lmdb_place_ret(x, p, lmdb_find(p, dir, kv, false), kv, out);
	if (!err) {
		*key = out[0];
		*ret = out[1];
	}
	return err;
}

/* After a write LMDB's cursor stands where its pages were moved to, so look for the place again. */
static int lmdb_step(struct kv_txn *t, enum kv_db db, int dir, struct kv_val *ret_key,
		     struct kv_val *ret)
{
	struct lmdb_txn *x = lmdb_txn_of(t);
	struct lmdb_place *p = &x->at[db];
	MDB_val kv[2] = {{0, NULL}, {0, NULL}};
	uint8_t from[KEY_MAX];
	struct kv_val out[2];
	int rc, err;

	if (!p->fresh)
		return -EINVAL;
	if (p->moved) {
		memcpy(from, p->key, p->n);
		kv[0].mv_data = from;
		kv[0].mv_size = p->n;
		rc = lmdb_find(p, dir, kv, true);
	} else {
		rc = mdb_cursor_get(p->cur, &kv[0], &kv[1], dir > 0 ? MDB_NEXT : MDB_PREV);
	}
	err = lmdb_place_ret(x, p, rc, kv, out);
	if (!err) {
		*ret_key = out[0];
		*ret = out[1];
	}
	return err;
}

static int lmdb_count(struct kv_txn *t, enum kv_db db, uint64_t *ret)
{
	struct lmdb_txn *x = lmdb_txn_of(t);
	MDB_stat st;
	int rc = mdb_stat(x->txn, env_db(lmdb_of(t->kv)->env, db), &st);

	if (!rc)
		*ret = st.ms_entries;
	return env_error(rc);
}

static int lmdb_sync(struct kv *kv)
{
	return env_checkpoint(lmdb_of(kv)->env);
}

static uint64_t lmdb_fact(struct kv *kv, enum kv_fact f)
{
	struct env *e = lmdb_of(kv)->env;

	switch (f) {
	case KV_FACT_DURABLE:
		return env_durable(e);
	case KV_FACT_LAST:
		return env_last(e);
	case KV_FACT_BYTES:
		return env_bytes(e);
	}
	return 0;
}

static shared_word *lmdb_words(struct kv *kv)
{
	return lmdb_of(kv)->words;
}

static int lmdb_reap(struct kv *kv)
{
	return env_reap_readers(lmdb_of(kv)->env, NULL);
}

static void lmdb_close(struct kv *kv)
{
	struct lmdb_kv *k = lmdb_of(kv);

	for (unsigned i = 0; i < NIDLE; i++) {
		lmdb_txn_free(atomic_load(&k->idle_read[i]));
		lmdb_txn_free(atomic_load(&k->idle_write[i]));
	}
	words_close(k->words, KV_WORDS);
	if (k->env)
		(void)env_close(k->env);
	free(k);
}

static const struct kv_ops lmdb_ops = {
	.name = "lmdb",
	.begin = lmdb_begin,
	.commit = lmdb_commit,
	.abort = lmdb_abort,
	.get = lmdb_get,
	.put = lmdb_put,
	.del = lmdb_del,
	.seek = lmdb_seek,
	.step = lmdb_step,
	.sync = lmdb_sync,
	.close = lmdb_close,
	.fact = lmdb_fact,
	.count = lmdb_count,
	.reap = lmdb_reap,
	.words = lmdb_words,
};

/* Opening for a look must not make an empty database of some directory. */
static int lmdb_probe(const struct kv_conf *c, struct text *why)
{
	scoped_free char *path = mem_printf("%s/data.mdb", c->dir);
	struct stat st;

	if (!path)
		return -ENOMEM;
	if (c->create || (stat(path, &st) == 0 && S_ISREG(st.st_mode)))
		return 0;
	if (why)
		text_fmt(why, "%s is not a Tessera file system: it has no data.mdb", c->dir);
	return -TESS_E_FORMAT_MAGIC;
}

int kv_lmdb_open(struct kv **ret, const struct kv_conf *conf, struct text *why)
{
	struct env_conf c = {
		.dir = conf->dir,
		.dbs = db_names,
		.map_size = conf->map_size,
		.readonly = conf->readonly,
		.boot_id = conf->boot_id,
		.before_sync = conf->before_sync,
		.arg = conf->arg,
	};
	scoped_free struct lmdb_kv *k = NULL;
	int err = lmdb_probe(conf, why);

	if (err)
		return err;
	k = mem_zalloc(sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->kv.ops = &lmdb_ops;
	err = env_open(&k->env, &c, why);
	if (!err && !conf->readonly)
		err = words_open(&k->words, conf->dir, "turns", KV_WORDS, why);
	if (err) {
		if (k->env)
			(void)env_close(k->env);
		return err;
	}
	*ret = &steal_ptr(k)->kv;
	return 0;
}
