/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks as records. A transaction reads all locks of one inode, decides by the rules of lockset.c,
 * and writes what changed. Nobody is told: whoever waits looks again when the namespace has moved on.
 */
#include "meta/lock.h"
#include "base/err.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"

/* Circles are looked for among so many locks and waits; who is among more may wait in one. */
#define LOCK_CIRCLE_MAX 4096u

struct lock_txn {
	struct meta *m;
	struct meta_lock_op *op;
	struct lockset set;
	int err; /* of a transaction that commits */
};

/* ---- records ---- */

static int lock_load(struct kv_txn *t, uint64_t ino, struct lockset *s)
{
	struct fmt_key k;
	struct kv_val v, key = key_u64(&k, ino);
	int err = kv_seek(t, KV_LOCK, 1, &key, &v);

	s->n = 0;
	while (!err && key.n >= 8 && fmt_be64_get(key.p) == ino) {
		struct meta_lock l;

		err = codec_lock_get(key, v, &l);
		if (!err)
			err = lockset_add(s, &l, true);
		if (!err)
			err = kv_step(t, KV_LOCK, 1, &key, &v);
	}
	return absent_ok(err);
}

static int lock_put(struct kv_txn *t, const struct meta_lock *l)
{
	uint8_t buf[FMT_LOCK_LEN];
	struct fmt_key k;

	return kv_put(t, KV_LOCK, key_lock(&k, l), kv_val(buf, codec_lock_put(buf, l)));
}

static int lock_del(struct kv_txn *t, const struct meta_lock *l)
{
	struct fmt_key k;

	return absent_ok(kv_del(t, KV_LOCK, key_lock(&k, l)));
}

/* What is gone first: what replaces it may have its key. */
static int lock_store(struct kv_txn *t, const struct lockset *s)
{
	int err = 0;

	for (unsigned i = 0; i < s->n && !err; i++)
		if (s->v[i].stored && s->v[i].gone)
			err = lock_del(t, &s->v[i].l);
	for (unsigned i = 0; i < s->n && !err; i++)
		if (!s->v[i].stored && !s->v[i].gone)
			err = lock_put(t, &s->v[i].l);
	return err;
}

int lock_drop_session(struct kv_txn *t, uint32_t session)
{
	struct fmt_key k;
	struct kv_val v, key = key_u64(&k, 0);
	int err = kv_seek(t, KV_LOCK, 1, &key, &v);

	while (!err) {
		struct meta_lock l;

		err = codec_lock_get(key, v, &l);
		if (!err && l.session == session)
			err = lock_del(t, &l);
		if (!err)
			err = kv_step(t, KV_LOCK, 1, &key, &v);
	}
	return absent_ok(err);
}

/* ---- whose it is ---- */

/* *ret_gone: whatever it held may be broken. *ret_lapsed: when it has been fenced. */
static int lock_session(struct kv_txn *t, uint32_t id, const struct meta_lock_op *op,
			bool *ret_gone, bool *ret_lapsed)
{
	struct meta_session s;
	int err = session_get(t, id, &s);

	if (err == -ENOENT) {
		*ret_gone = true;
		return 0;
	}
	if (err)
		return err;
	*ret_gone = s.fenced || meta_session_dead(&s);
	*ret_lapsed = !*ret_gone && meta_session_lapsed(&s, op->now);
	return 0;
}

/* The oldest right of way of another session, or NULL. */
static const struct meta_lock *lock_ahead(const struct lock_txn *x)
{
	const struct meta_lock *want = &x->op->want, *ahead = NULL;

	for (unsigned i = 0; x->op->yield && i < x->set.n; i++) {
		const struct meta_lock *l = &x->set.v[i].l;

		if (!x->set.v[i].gone && l->wait && l->session != want->session &&
		    l->session != x->op->deaf && lock_excludes(l, want) &&
		    (!want->ticket || l->ticket < want->ticket))
			ahead = l;
	}
	return ahead;
}

/* 0 when nobody is in the way; those who are no more leave the set. */
static int lock_blocked(struct kv_txn *t, struct lock_txn *x)
{
	struct meta_lock_op *op = x->op;

	for (;;) {
		const struct meta_lock *l = lockset_conflict(&x->set, &op->want);
		bool gone = false, lapsed = false;
		int err = 0;

		if (!l)
			l = lock_ahead(x);
		if (!l)
			return 0;
		if (l->session != op->want.session)
			err = lock_session(t, l->session, op, &gone, &lapsed);
		if (err)
			return err;
		if (!gone) {
			op->holder = *l;
			op->lapsed = lapsed ? l->session : 0;
			return -EAGAIN;
		}
		lockset_drop_session(&x->set, l->session);
	}
}

/* A flock of another type is given up before the new one is had: two that convert must not wait for each other. */
static bool lock_converts(const struct lock_txn *x)
{
	return x->op->want.kind == META_LOCK_FLOCK && lockset_holds(&x->set, &x->op->want);
}

/* ---- transactions ---- */

static int lock_begin(struct kv_txn *t, struct lock_txn *x)
{
	struct meta_lock_op *op = x->op;

	op->want.session = atomic_load(&x->m->session);
	op->lapsed = 0;
	op->left = false;
	x->err = 0;
	return lock_load(t, op->want.ino, &x->set);
}

static int lock_look(struct kv_txn *t, void *arg)
{
	struct lock_txn *x = arg;
	int err = lock_begin(t, x);

	if (!err)
		err = lock_blocked(t, x);
	if (err == -EAGAIN && lock_converts(x))
		err = 0;
	return err;
}

static int lock_test(struct kv_txn *t, void *arg)
{
	struct lock_txn *x = arg;
	int err = lock_begin(t, x);

	return err ? err : lock_blocked(t, x);
}

static int lock_set(struct kv_txn *t, void *arg)
{
	struct lock_txn *x = arg;
	struct meta_lock want = x->op->want;
	int err = lock_begin(t, x);

	if (!err && want.type)
		err = lock_blocked(t, x);
	want.session = x->op->want.session;
	if (err == -EAGAIN && lock_converts(x)) {
		x->err = err;
		want.type = META_LOCK_NONE;
		err = 0;
	}
	if (!err)
		err = lockset_apply(&x->set, &want);
	if (!err && want.ticket && !x->err)
		err = lock_del(t, &want);
	if (!err)
		err = lock_store(t, &x->set);
	x->op->left = lockset_holds(&x->set, &want);
	return err;
}

static int lock_run(struct meta *m, struct meta_lock_op *op,
		    int (*fn)(struct kv_txn *, void *arg), bool write)
{
	struct lock_txn x = {.m = m, .op = op};
	int err = write ? meta_run(m, fn, &x) : kv_read(m->kv, fn, &x);

	lockset_done(&x.set);
	return err ? err : x.err;
}

/* Most who wait find it held still: they look before they take the turn of a writer. */
int meta_lock_set(struct meta *m, struct meta_lock_op *op)
{
	int err = op->want.type ? lock_run(m, op, lock_look, false) : 0;

	return err ? err : lock_run(m, op, lock_set, true);
}

int meta_lock_test(struct meta *m, struct meta_lock_op *op)
{
	return lock_run(m, op, lock_test, false);
}

static int lock_drop_all(struct kv_txn *t, void *arg)
{
	struct lock_txn *x = arg;
	int err = lock_begin(t, x);

	x->op->want.start = 0;
	x->op->want.end = META_LOCK_END;
	x->op->want.type = META_LOCK_NONE;
	if (!err)
		err = lockset_apply(&x->set, &x->op->want);
	return err ? err : lock_store(t, &x->set);
}

int meta_lock_drop(struct meta *m, struct meta_lock_op *op)
{
	return lock_run(m, op, lock_drop_all, true);
}

/* ---- waits ---- */

static int lock_load_all(struct kv_txn *t, struct lockset *s)
{
	struct fmt_key k;
	struct kv_val v, key = key_u64(&k, 0);
	int err = kv_seek(t, KV_LOCK, 1, &key, &v);

	s->n = 0;
	while (!err && s->n < LOCK_CIRCLE_MAX) {
		struct meta_lock l;

		err = codec_lock_get(key, v, &l);
		if (!err)
			err = lockset_add(s, &l, true);
		if (!err)
			err = kv_step(t, KV_LOCK, 1, &key, &v);
	}
	return absent_ok(err);
}

static int lock_wait(struct kv_txn *t, void *arg)
{
	struct lock_txn *x = arg;
	int err = lock_load_all(t, &x->set);

	x->op->want.session = atomic_load(&x->m->session);
	if (!err && x->op->want.kind == META_LOCK_RANGE &&
	    lockset_deadlock(&x->set, &x->op->want))
		err = -EDEADLK;
	x->op->want.ticket = err ? 0 : t->serial;
	return err ? err : lock_put(t, &x->op->want);
}

int meta_lock_wait(struct meta *m, struct meta_lock_op *op)
{
	return lock_run(m, op, lock_wait, true);
}

static int lock_wait_end(struct kv_txn *t, void *arg)
{
	return lock_del(t, arg);
}

int meta_lock_wait_end(struct meta *m, const struct meta_lock_op *op)
{
	struct meta_lock l = op->want;

	return meta_run(m, lock_wait_end, &l);
}

struct lock_list {
	struct meta_lock *ret;
	unsigned max, n;
};

static int lock_list(struct kv_txn *t, void *arg)
{
	struct lock_list *o = arg;
	struct fmt_key k;
	struct kv_val v, key = key_u64(&k, 0);
	int err = kv_seek(t, KV_LOCK, 1, &key, &v);

	for (o->n = 0; !err && o->n < o->max; o->n++) {
		err = codec_lock_get(key, v, &o->ret[o->n]);
		if (!err)
			err = kv_step(t, KV_LOCK, 1, &key, &v);
	}
	return absent_ok(err);
}

int meta_locks(struct meta *m, struct meta_lock *ret, unsigned max, unsigned *ret_n)
{
	struct lock_list o = {ret, max, 0};
	int err = kv_read(m->kv, lock_list, &o);

	if (!err)
		*ret_n = o.n;
	return err;
}
