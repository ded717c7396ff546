/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Space for objects. A process takes large chunks of free space in one transaction, marks them as
 * its own in the index, and carves objects out of them in memory; the transaction that records an
 * object takes its extents out of the reservation. So a PUT costs no search and no transaction of
 * its own for space, however large or fragmented the target is, and what a killed process had
 * reserved is known.
 *
 * A chunk is made of the smallest free ranges that are still long (REUSE_MIN), and only then of the
 * largest. What was freed is used again before what never was, so a sparse file under churn grows to
 * what lives and not to its limit, and extents stay long; each choice is one step in an index.
 */
#include "store/kv_impl.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/proc.h"
#include "base/range.h"
#include "base/scoped.h"

#include <fcntl.h>
#include <stdio.h>

#define SPLIT_MIN   (UINT64_C(1) << 20)	/* no object is cut into less while there is more */
#define REUSE_MIN(kv) MAX((kv)->chunk / 16, SPLIT_MIN)	/* long enough for a sequential reader */
#define REFILL_MAX  64u			/* ranges taken in one transaction */
#define DRAIN_MAX   1024u		/* pending ranges made free in one transaction */

void kv_pool_init(struct kv_pool *p)
{
	memset(p, 0, sizeof(*p));
	lock_init(&p->lock, LOCK_STORE, "kv pool");
	cond_init(&p->cond);
}

void kv_pool_done(struct kv_pool *p)
{
	free(p->r);
	cond_done(&p->cond);
	lock_done(&p->lock);
}

/* ---- in memory; the lock is held ---- */

static int pool_room_locked(struct kv_pool *p, unsigned more)
{
	unsigned cap = MAX(p->cap * 2, 4 * REFILL_MAX);
	void *r;

	if (p->n + more <= p->cap)
		return 0;
	r = mem_resize(p->r, cap, sizeof(p->r[0]));
	if (!r)
		return -ENOMEM;
	p->r = r;
	p->cap = cap;
	return 0;
}

static int pool_add_locked(struct kv_pool *p, struct kv_ext x)
{
	unsigned i;

	for (i = 0; i < p->n && p->r[i].off < x.off; i++)
		;
	p->bytes += x.len;
	if (i > 0 && p->r[i - 1].off + p->r[i - 1].len == x.off) {
		p->r[i - 1].len += x.len;
		if (i < p->n && x.off + x.len == p->r[i].off) {
			p->r[i - 1].len += p->r[i].len;
			memmove(&p->r[i], &p->r[i + 1], (p->n - i - 1) * sizeof(p->r[0]));
			p->n--;
		}
		return 0;
	}
	if (i < p->n && x.off + x.len == p->r[i].off) {
		p->r[i].off = x.off;
		p->r[i].len += x.len;
		return 0;
	}
	if (pool_room_locked(p, 1) < 0) {
		p->bytes -= x.len;
		return -ENOMEM;
	}
	memmove(&p->r[i + 1], &p->r[i], (p->n - i) * sizeof(p->r[0]));
	p->r[i] = x;
	p->n++;
	return 0;
}

/* The smallest range of at least `bytes`, else the largest; p->n when there is none. */
static unsigned pool_pick_locked(const struct kv_pool *p, uint64_t bytes)
{
	unsigned best = p->n;

	for (unsigned i = 0; i < p->n; i++) {
		uint64_t have = p->r[i].len, was = best < p->n ? p->r[best].len : 0;

		if (best == p->n || (have >= bytes && (was < bytes || have < was)) ||
		    (have < bytes && have > was))
			best = i;
	}
	return best;
}

/* All of `bytes` in at most `max` pieces, or nothing and -TESS_E_STORE_FULL. */
static int pool_carve_locked(struct kv_pool *p, uint64_t bytes, unsigned max, struct kv_extv *ret)
{
	int r = p->bytes < bytes ? -TESS_E_STORE_FULL : 0;

	while (r == 0 && bytes > 0) {
		unsigned i = pool_pick_locked(p, bytes);
		struct kv_ext x;

		if (i == p->n || ret->n == max) {
			r = -TESS_E_STORE_FULL;
			break;
		}
		x = (struct kv_ext){ p->r[i].off, MIN(p->r[i].len, bytes) };
		r = kv_extv_add(ret, x);
		if (r < 0)
			break;
		p->r[i].off += x.len;
		p->r[i].len -= x.len;
		p->bytes -= x.len;
		bytes -= x.len;
		if (p->r[i].len == 0) {
			memmove(&p->r[i], &p->r[i + 1], (p->n - i - 1) * sizeof(p->r[0]));
			p->n--;
		}
	}
	for (unsigned i = 0; r < 0 && i < ret->n; i++)
		(void)pool_add_locked(p, ret->e[i]);
	if (r < 0)
		ret->n = 0;
	return r;
}

/* ---- from the index ---- */

/*
 * A process is told from a later one with its number by the time it started; both mean nothing
 * after the next boot.
 */
struct owner_rec {
	char b[16 + 40];	/* u64 pid, u64 start, boot id */
};

static void owner_rec_self(const struct kv *kv, struct owner_rec *o)
{
	memset(o, 0, sizeof(*o));
	put_le64(o->b, (uint64_t)getpid());
	put_le64(o->b + 8, kv->start);
	memcpy(o->b + 16, kv->boot, sizeof(kv->boot));
}

static bool owner_alive(const struct kv *kv, MDB_val val)
{
	const char *b = val.mv_data;
	uint64_t start;
	int r;

	if (val.mv_size != sizeof(struct owner_rec) ||
	    memcmp(b + 16, kv->boot, sizeof(kv->boot)) != 0)
		return false;
	r = proc_start((uint32_t)get_le64(b), &start);
	/* One that we cannot look at may live. */
	return r < 0 ? r != -ESRCH : start == get_le64(b + 8);
}

/* Registers this process in the transaction: its new id. */
static int owner_new(struct kv *kv, MDB_txn *txn, uint64_t *ret)
{
	MDB_val key = { .mv_size = 5, .mv_data = (char[]){ 'o', 'w', 'n', 'e', 'r' } }, val;
	char id_be[8], id_le[8];
	struct owner_rec o;
	uint64_t id = 0;
	int rc = mdb_get(txn, env_db(kv->env, KV_SUPER), &key, &val);

	if (!rc && val.mv_size == 8)
		id = get_le64(val.mv_data);
	else if (rc != MDB_NOTFOUND)
		return rc ? env_error(rc) : -TESS_E_RECORD;
	id++;
	put_le64(id_le, id);
	put_be64(id_be, id);
	owner_rec_self(kv, &o);
	val = (MDB_val){ .mv_size = 8, .mv_data = id_le };
	rc = mdb_put(txn, env_db(kv->env, KV_SUPER), &key, &val, 0);
	key = (MDB_val){ .mv_size = 8, .mv_data = id_be };
	val = (MDB_val){ .mv_size = sizeof(o.b), .mv_data = o.b };
	if (!rc)
		rc = mdb_put(txn, env_db(kv->env, KV_OWNER), &key, &val, 0);
	if (!rc)
		*ret = id;
	return env_error(rc);
}

struct refill {
	struct kv    *kv;
	uint64_t      want, durable;
	uint64_t      owner;		/* in: 0 for a new one; out */
	uint64_t      was_owner;
	struct kv_ext got[REFILL_MAX];
	unsigned      n, drained;
};

static int refill_txn(void *arg, MDB_txn *txn)
{
	struct refill *f = arg;
	uint64_t left = f->want;
	int r = kv_space_drain(f->kv, txn, f->durable, DRAIN_MAX, &f->drained);

	f->n = 0;
	f->owner = f->was_owner;
	if (r == 0 && !f->owner)
		r = owner_new(f->kv, txn, &f->owner);
	while (r == 0 && left > 0 && f->n < REFILL_MAX) {
		struct kv_ext x;

		r = kv_space_pick(f->kv, txn, REUSE_MIN(f->kv), &x);
		if (r == -ENOENT) {
			r = 0;
			break;
		}
		x.len = MIN(x.len, left);
		if (r == 0)
			r = kv_space_cut(f->kv, txn, 0, x);
		if (r == 0)
			r = kv_space_add(f->kv, txn, f->owner, x);
		f->got[f->n++] = x;
		left -= x.len;
	}
	if (r < 0)
		f->n = 0;
	return r;
}

struct move {
	struct kv           *kv;
	uint64_t             from;	/* owner: all its ranges, then its record goes */
	const struct kv_ext *x;		/* or these, of `from` */
	unsigned             n;
};

static int move_txn(void *arg, MDB_txn *txn)
{
	struct move *m = arg;
	char id[8];
	MDB_val key = { .mv_size = 8, .mv_data = id };
	struct kv_ext x;
	int r = 0;

	for (unsigned i = 0; m->x && r == 0 && i < m->n; i++) {
		r = kv_space_cut(m->kv, txn, m->from, m->x[i]);
		if (r == 0)
			r = kv_space_add(m->kv, txn, 0, m->x[i]);
	}
	if (m->x)
		return r;
	while ((r = kv_space_any(m->kv, txn, m->from, &x)) == 0) {
		r = kv_space_cut(m->kv, txn, m->from, x);
		if (r == 0)
			r = kv_space_add(m->kv, txn, 0, x);
		if (r < 0)
			return r;
	}
	if (r != -ENOENT)
		return r;
	put_be64(id, m->from);
	r = env_error(mdb_del(txn, env_db(m->kv->env, KV_OWNER), &key, NULL));
	return r == -ENOENT ? 0 : r;
}

/* Free ranges into the pool. The caller is the only one who refills, and holds no lock. */
static int refill_once(struct kv *kv, uint64_t need, unsigned *ret_drained)
{
	struct refill f = {.kv = kv, .want = MAX(need, kv->chunk), .durable = env_durable(kv->env)};
	int r;

	lock_take(&kv->pool.lock);
	r = pool_room_locked(&kv->pool, 2 * REFILL_MAX);
	lock_drop(&kv->pool.lock);
	if (r < 0)
		return r;
	f.was_owner = kv->pool.owner;
	r = env_write(kv->env, refill_txn, &f, NULL);
	if (r < 0)
		return r == -TESS_E_KV_FULL || r == -ENOSPC ? -TESS_E_STORE_FULL : r;
	*ret_drained = f.drained;
	for (unsigned i = 0; r == 0 && i < f.n; i++)
		r = kv_dev_allocate(&kv->dev, f.got[i]);
	if (r < 0) {
		struct move m = { .kv = kv, .from = f.owner, .x = f.got, .n = f.n };

		/* If this fails too, the reservation keeps it until it is given back at close. */
		(void)env_write(kv->env, move_txn, &m, NULL);
		f.n = 0;
	}
	scoped_lock(&kv->pool.lock);
	kv->pool.owner = f.owner;
	for (unsigned i = 0; i < f.n; i++)
		(void)pool_add_locked(&kv->pool, f.got[i]);
	if (r == 0 && f.n == 0)
		r = -TESS_E_STORE_FULL;
	return r;
}

static bool pool_has(struct kv *kv, uint64_t need)
{
	scoped_lock(&kv->pool.lock);
	return kv->pool.bytes >= need;
}

/*
 * Full is not said before everything that could be had was: deletions that only wait for a
 * checkpoint get one, and what dead processes had reserved is taken back.
 */
static int refill(struct kv *kv, uint64_t need)
{
	unsigned drained;
	bool any = false, asked = false;
	int r;

	for (;;) {
		drained = 0;
		r = refill_once(kv, need, &drained);
		if (r < 0 && r != -TESS_E_STORE_FULL)
			return r;
		if (r == 0 && pool_has(kv, need))
			return 0;
		if (r == 0 || drained == DRAIN_MAX)
			continue;
		if (asked)
			return r;
		asked = true;
		r = env_checkpoint(kv->env);
		if (r == 0)
			r = kv_alloc_reap(kv, &any);
		if (r < 0)
			return r;
	}
}

int kv_alloc(struct kv *kv, uint64_t bytes, struct kv_extv *ret, uint64_t *ret_owner)
{
	struct kv_pool *p = &kv->pool;
	unsigned few = (unsigned)MIN(bytes / SPLIT_MIN + 1, KV_EXTENTS_MAX);
	bool full = false;
	int r;

	bytes = round_up(bytes, KV_UNIT);
	scoped_lock(&p->lock);
	for (;;) {
		r = pool_carve_locked(p, bytes, few, ret);
		if (r == 0)
			*ret_owner = p->owner;
		if (r != -TESS_E_STORE_FULL || full)
			return r;
		/* The index gave its largest: this many pieces do not make an object. */
		if (few == KV_EXTENTS_MAX && p->bytes >= bytes)
			return r;
		if (p->refilling) {
			cond_wait(&p->cond, &p->lock);
			continue;
		}
		p->refilling = true;
		lock_drop(&p->lock);
		r = refill(kv, bytes);
		lock_take(&p->lock);
		p->refilling = false;
		cond_wake_all(&p->cond);
		few = KV_EXTENTS_MAX;
		if (r == -TESS_E_STORE_FULL)
			full = true;
		else if (r < 0)
			return r;
	}
}

void kv_alloc_undo(struct kv *kv, const struct kv_extv *v)
{
	scoped_lock(&kv->pool.lock);
	/* What finds no memory here stays reserved in the index, until close. */
	for (unsigned i = 0; i < v->n; i++)
		(void)pool_add_locked(&kv->pool, v->e[i]);
}

int kv_alloc_release(struct kv *kv)
{
	struct move m = { .kv = kv, .from = kv->pool.owner };

	if (!m.from)
		return 0;
	kv->pool.owner = 0;
	kv->pool.n = 0;
	kv->pool.bytes = 0;
	return env_write(kv->env, move_txn, &m, NULL);
}

/* The next owner after `after` that is gone: 0 or -ENOENT. */
static int owner_next_dead(struct kv *kv, uint64_t after, uint64_t *ret)
{
	char id[8];
	MDB_val key = { .mv_size = 8, .mv_data = id }, val;
	MDB_cursor *c;
	MDB_txn *txn;
	int rc, r = env_begin_read(kv->env, &txn);

	if (r < 0)
		return r;
	put_be64(id, after + 1);
	rc = mdb_cursor_open(txn, env_db(kv->env, KV_OWNER), &c);
	if (!rc) {
		rc = mdb_cursor_get(c, &key, &val, MDB_SET_RANGE);
		while (!rc && owner_alive(kv, val))
			rc = mdb_cursor_get(c, &key, &val, MDB_NEXT);
		if (!rc)
			*ret = get_be64(key.mv_data);
		mdb_cursor_close(c);
	}
	env_end_read(kv->env, txn);
	return env_error(rc);
}

int kv_alloc_reap(struct kv *kv, bool *ret_any)
{
	uint64_t id = 0;
	bool any = false;
	int r;

	while ((r = owner_next_dead(kv, id, &id)) == 0) {
		struct move m = { .kv = kv, .from = id };

		r = env_write(kv->env, move_txn, &m, NULL);
		if (r < 0)
			return r;
		any = true;
	}
	if (r != -ENOENT)
		return r;
	*ret_any = any;
	return 0;
}
