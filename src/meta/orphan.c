/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inodes without a name. Each session that has one open holds it by a record of its own; the last to
 * let go deletes it, and not before every session that may have had it open when the last link went
 * has heard of that: such a one adds its record before it moves its tail past the unlink.
 */
#include "base/err.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"

static struct kv_val orphan_key(struct fmt_key *k, const struct meta *m, uint64_t ino)
{
	return key_u32_u64(k, atomic_load(&m->session), ino);
}

static int orphan_store(struct kv_txn *t, const struct meta *m, uint64_t ino)
{
	uint8_t buf[FMT_HEAD + 8];
	struct fmt_key k;

	return kv_put(t, KV_ORPHAN, orphan_key(&k, m, ino),
		      kv_val(buf, codec_u64_put(buf, FMT_ORPHAN, t->serial)));
}

int orphan_put(struct kv_txn *t, struct meta *m, uint64_t ino)
{
	int err = orphan_store(t, m, ino);

	return err ? err : change_note(t, META_CHANGE_ORPHAN, ino);
}

/* Sessions are few; each one's part of the database is jumped over. */
int orphan_holder(struct kv_txn *t, uint64_t ino, uint64_t from, uint32_t *ret)
{
	struct fmt_key k;
	struct kv_val key, v;

	for (; from <= UINT32_MAX; from++) {
		key = key_u32_u64(&k, (uint32_t)from, 0);
		int err = kv_seek(t, KV_ORPHAN, 1, &key, &v);

		if (err || key.n != 12)
			return err ? err : -TESS_E_RECORD;
		from = fmt_be32_get(key.p);
		err = kv_get(t, KV_ORPHAN, key_u32_u64(&k, (uint32_t)from, ino), &v);
		if (!err)
			*ret = (uint32_t)from;
		if (err != -ENOENT)
			return err;
	}
	return -ENOENT;
}

int orphan_del(struct kv_txn *t, uint64_t ino)
{
	uint32_t session;
	uint64_t from = 0;
	struct fmt_key k;
	int err;

	while (!(err = orphan_holder(t, ino, from, &session))) {
		err = kv_del(t, KV_ORPHAN, key_u32_u64(&k, session, ino));
		if (err)
			return err;
		from = (uint64_t)session + 1;
	}
	return absent_ok(err);
}

/* ---- holding ---- */

struct orphan_op {
	struct meta *m;
	uint64_t ino;
};

static int orphan_held(struct kv_txn *t, void *arg)
{
	const struct orphan_op *o = arg;
	struct fmt_key k;
	struct kv_val v;
	int err = kv_get(t, KV_ORPHAN, orphan_key(&k, o->m, o->ino), &v);

	return err == -ENOENT ? -TESS_E_STALE : err;
}

int meta_orphan_held(struct meta *m, uint64_t ino)
{
	struct orphan_op o = {m, ino};

	return kv_read(m->kv, orphan_held, &o);
}

static int orphan_hold(struct kv_txn *t, void *arg)
{
	const struct orphan_op *o = arg;
	struct meta_attr a;
	int err = inode_get(t, o->ino, &a);

	if (err || !(a.flags & META_ORPHAN))
		return err;
	err = orphan_held(t, arg);
	return err == -TESS_E_STALE ? orphan_store(t, o->m, o->ino) : err;
}

int meta_orphan_hold(struct meta *m, uint64_t ino)
{
	struct orphan_op o = {m, ino};

	return meta_run(m, orphan_hold, &o);
}

/* ---- letting go ---- */

struct reclaim {
	struct meta *m;
	const uint64_t *inos;
	unsigned n, budget, max_work;
	uint64_t tails;
	bool more, waits;
};

/* 1: it is this call's to delete. */
static int orphan_release(struct kv_txn *t, struct reclaim *r, uint64_t ino)
{
	uint32_t self = atomic_load(&r->m->session), other;
	struct fmt_key k;
	struct kv_val v;
	uint64_t since;
	int err = kv_get(t, KV_ORPHAN, orphan_key(&k, r->m, ino), &v);

	if (err)
		return absent_ok(err);	/* another session's by now */
	err = codec_u64_get(v, FMT_ORPHAN, &since);
	if (err)
		return err;
	if (since > r->tails) {
		r->waits = true;
		return 0;
	}
	err = orphan_holder(t, ino, 0, &other);
	if (!err && other == self)
		err = orphan_holder(t, ino, (uint64_t)self + 1, &other);
	if (err)
		return err == -ENOENT ? 1 : err;
	return kv_del(t, KV_ORPHAN, orphan_key(&k, r->m, ino));
}

/* Content goes first, so that a file of any size takes bounded steps. */
static int orphan_reclaim(struct kv_txn *t, struct reclaim *r, struct tally *y, uint64_t ino)
{
	struct meta_attr a;
	struct fmt_key k;
	int err = inode_get(t, ino, &a);

	if (err == -TESS_E_STALE)
		return orphan_del(t, ino);
	if (err || !(a.flags & META_ORPHAN))
		return err; /* linked again, an O_TMPFILE */
	err = orphan_release(t, r, ino);
	if (err <= 0)
		return err;
	err = extent_drop(t, y, &a, &r->budget);
	if (!err && r->budget)
		err = xattr_drop_all(t, ino, &r->budget);
	if (err)
		return err;
	if (!r->budget)
		return inode_put(t, &a);
	r->budget--;
	err = kv_del(t, KV_INODE, key_u64(&k, ino));
	return err ? err : orphan_del(t, ino);
}

static int reclaim_run(struct kv_txn *t, void *arg)
{
	struct reclaim *r = arg;
	struct tally y;
	int err = 0;

	r->budget = r->max_work;
	r->waits = false;
	tally_init(&y, r->m);
	for (unsigned i = 0; i < r->n && !err && r->budget; i++)
		err = orphan_reclaim(t, r, &y, r->inos[i]);
	if (!err)
		err = tally_apply(&y, t);
	tally_done(&y);
	r->more = r->budget == 0;
	return err;
}

int meta_reclaim(struct meta *m, const uint64_t *inos, unsigned n, unsigned max_work, int64_t now,
		 bool *ret_more)
{
	struct reclaim r = {.m = m, .inos = inos, .n = n, .max_work = MAX(max_work, 1u)};
	int err = n ? meta_tails(m, &r.tails) : 0;

	(void)now;
	if (!err && n)
		err = meta_run(m, reclaim_run, &r);
	if (!err)
		*ret_more = r.more;
	return !err && r.waits && !r.more ? -EBUSY : err;
}

/* ---- looking ---- */

struct orphans {
	uint32_t session;
	uint64_t after;
	uint64_t *ret;
	unsigned max, n;
};

static int orphans_run(struct kv_txn *t, void *arg)
{
	struct orphans *o = arg;
	struct fmt_key k;
	struct kv_val v, key = key_u32_u64(&k, o->session, o->after + 1);
	int err = kv_seek(t, KV_ORPHAN, 1, &key, &v);

	while (!err && o->n < o->max && key.n == 12 && fmt_be32_get(key.p) == o->session) {
		o->ret[o->n++] = fmt_be64_get((const char *)key.p + 4);
		err = kv_step(t, KV_ORPHAN, 1, &key, &v);
	}
	return absent_ok(err);
}

int meta_orphans(struct meta *m, uint64_t after, uint64_t *ret, unsigned max, unsigned *ret_n)
{
	struct orphans o = {atomic_load(&m->session), after, ret, max, 0};
	int err = after == UINT64_MAX ? 0 : kv_read(m->kv, orphans_run, &o);

	if (!err)
		*ret_n = o.n;
	return err;
}

/* ---- leaving ---- */

/* A mount that can look after them. */
static int leave_to(struct kv_txn *t, uint32_t self, uint32_t *ret)
{
	struct meta_session s;
	uint64_t from = 0;
	int err;

	while (!(err = session_first(t, from, &s))) {
		from = (uint64_t)s.id + 1;
		if (s.id == self || s.fenced || s.tail == UINT64_MAX || meta_session_dead(&s))
			continue;
		*ret = s.id;
		return 0;
	}
	return err;
}

static int leave_run(struct kv_txn *t, void *arg)
{
	struct meta *m = arg;
	uint32_t self = atomic_load(&m->session), to;
	int err = leave_to(t, self, &to);

	return err ? absent_ok(err) : session_move(t, KV_ORPHAN, self, to);
}

int meta_orphans_leave(struct meta *m)
{
	return meta_run(m, leave_run, m);
}
