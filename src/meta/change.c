/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What write transactions tell other sessions. A note is a key, so that what a transaction does to
 * one inode many times is one note; who is alone writes none.
 *
 * What every session knows goes as tails advance. A session that does not advance (stopped, killed
 * and not adopted yet) must not make the log grow without end: past LOG_MAX the oldest notes go, and the record
 * "change-floor" says up to where, to those that had not seen them.
 */
#include "base/err.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"

#define LOG_BATCH 1024u	/* notes that one transaction deletes, and one look tells: under a ms */

uint64_t change_log_max = 65536;

struct guard {
	struct meta *m;
	int (*fn)(struct kv_txn *, void *arg);
	void *arg;
	uint32_t session;
	bool noting;
};

/* ---- how many there are: what each write transaction reads first ---- */

int session_count_get(struct kv_txn *t, uint32_t *ret_sessions, uint32_t *ret_fenced)
{
	uint64_t both = 0;
	struct kv_val v;
	int err = kv_get(t, KV_SUPER, key_str(FMT_KEY_SESSIONS), &v);

	if (!err)
		err = codec_u64_get(v, FMT_COUNT, &both);
	if (absent_ok(err))
		return err;
	*ret_sessions = (uint32_t)both;
	*ret_fenced = (uint32_t)(both >> 32);
	return 0;
}

int session_count_put(struct kv_txn *t, uint32_t sessions, uint32_t fenced)
{
	uint8_t buf[FMT_HEAD + 8];

	return kv_put(t, KV_SUPER, key_str(FMT_KEY_SESSIONS),
		      kv_val(buf, codec_u64_put(buf, FMT_COUNT, (uint64_t)fenced << 32 | sessions)));
}

int session_count_add(struct kv_txn *t, int sessions, int fenced)
{
	uint32_t n, f;
	int err = session_count_get(t, &n, &f);

	/* A count that was lost to corruption is for the checker; it must not wrap around here. */
	n = sessions < 0 && n == 0 ? 0 : n + (uint32_t)sessions;
	f = fenced < 0 && f == 0 ? 0 : f + (uint32_t)fenced;
	return err ? err : session_count_put(t, n, f);
}

/* ---- writing ---- */

static int guard_fence(struct kv_txn *t, const struct guard *g)
{
	struct meta_session s;
	int err = session_get(t, g->session, &s);

	/* Gone: somebody took us for dead, and has what was ours. */
	return err == -ENOENT || (!err && s.fenced) ? -TESS_E_FENCED : err;
}

static int guard_run(struct kv_txn *t, void *arg)
{
	struct guard *g = arg;
	uint32_t sessions, fenced;
	int err = session_count_get(t, &sessions, &fenced);

	g->session = atomic_load(&g->m->session);
	if (!err && g->session && fenced)
		err = guard_fence(t, g);
	if (err)
		return err;
	g->noting = sessions > (g->session ? 1u : 0u);
	t->ctx = g;
	return g->fn(t, g->arg);
}

int meta_run(struct meta *m, int (*fn)(struct kv_txn *, void *arg), void *arg)
{
	struct guard g = {.m = m, .fn = fn, .arg = arg};
	int err;

	if (atomic_load(&m->fenced))
		return -TESS_E_FENCED;
	err = kv_run(m->kv, guard_run, &g, NULL);
	if (err == -TESS_E_FENCED)
		atomic_store(&m->fenced, true);
	return err;
}

bool change_noting(const struct kv_txn *t)
{
	const struct guard *g = t->ctx;

	return g && g->noting;
}

/* Deletes the oldest notes of commits up to `serial`. *ret_last: the last one deleted, 0: none. */
static int log_trim(struct kv_txn *t, uint64_t serial, unsigned max, uint64_t *ret_last,
		    unsigned *ret_n)
{
	struct fmt_key k;
	unsigned n = 0;

	*ret_last = 0;
	for (; n < max; n++) {
		struct kv_val v, key = key_u64(&k, 0);
		int err = kv_seek(t, KV_CHANGE, 1, &key, &v);

		if (err || key.n < 8 || fmt_be64_get(key.p) > serial) {
			*ret_n = n;
			return absent_ok(err);
		}
		*ret_last = fmt_be64_get(key.p);
		k.n = MIN(key.n, sizeof(k.b));
		memcpy(k.b, key.p, k.n);
		err = kv_del(t, KV_CHANGE, kv_val(k.b, k.n));
		if (err)
			return err;
	}
	*ret_n = n;
	return 0;
}

static int log_bound(struct kv_txn *t)
{
	uint8_t buf[FMT_HEAD + 8];
	uint64_t n, last;
	unsigned gone;
	int err = kv_count(t, KV_CHANGE, &n);

	if (err || n <= change_log_max)
		return err;
	err = log_trim(t, UINT64_MAX, (unsigned)MIN(change_log_max / 8 + 1, (uint64_t)LOG_BATCH),
		       &last, &gone);
	return err ? err
		   : kv_put(t, KV_SUPER, key_str(FMT_KEY_CHANGE_FLOOR),
			    kv_val(buf, codec_u64_put(buf, FMT_NEXT, last)));
}

static int note_put(struct kv_txn *t, struct kv_val key, struct kv_val name)
{
	const struct guard *g = t->ctx;
	uint8_t buf[FMT_CHANGE_MAX];
	int err = kv_put(t, KV_CHANGE, key, kv_val(buf, codec_change_put(buf, g->session, name)));

	return err ? err : log_bound(t);
}

int change_note(struct kv_txn *t, enum meta_change_kind kind, uint64_t ino)
{
	struct fmt_key k;

	if (!change_noting(t))
		return 0;
	return note_put(t, key_change(&k, t->serial, kind, ino), kv_val("", 0));
}

int change_note_name(struct kv_txn *t, uint64_t dir, uint64_t cookie, struct kv_val name)
{
	struct fmt_key k;

	if (!change_noting(t))
		return 0;
	(void)key_change(&k, t->serial, META_CHANGE_NAME, dir);
	fmt_be64(k.b + k.n, cookie);
	return note_put(t, kv_val(k.b, k.n + 8), name);
}

/* ---- looking ---- */

struct look {
	struct meta *m;
	uint64_t after;
	void (*fn)(void *arg, const struct meta_change *c);
	void *arg;
	struct meta_look *ret;
};

static int look_notes(struct kv_txn *t, struct look *l)
{
	uint32_t self = atomic_load(&l->m->session);
	struct fmt_key k;
	struct kv_val v, key = key_u64(&k, l->after + 1);
	uint64_t serial = l->after;
	int err = kv_seek(t, KV_CHANGE, 1, &key, &v);

	for (unsigned i = 0; !err; i++) {
		struct meta_change c;

		err = codec_change_get(key, v, &c);
		if (err)
			return err;
		/* A commit is told whole, however much that is. */
		if (i >= LOG_BATCH && c.serial != serial) {
			l->ret->serial = serial;
			l->ret->more = true;
			return 0;
		}
		serial = c.serial;
		l->ret->notes++;
		if (c.session != self && l->fn)
			l->fn(l->arg, &c);
		err = kv_step(t, KV_CHANGE, 1, &key, &v);
	}
	return absent_ok(err);
}

static int look_sessions(struct kv_txn *t, struct look *l)
{
	uint32_t self = atomic_load(&l->m->session);
	struct meta_session s;
	uint64_t from = 0;
	int err;

	l->ret->fenced = self != 0;
	while (!(err = session_first(t, from, &s))) {
		l->ret->joined = MAX(l->ret->joined, s.joined);
		if (s.id == self)
			l->ret->fenced = s.fenced;
		from = (uint64_t)s.id + 1;
	}
	return absent_ok(err);
}

static int look_run(struct kv_txn *t, void *arg)
{
	struct look *l = arg;
	uint64_t floor = 0;
	uint32_t fenced;
	struct kv_val v;
	int err;

	*l->ret = (struct meta_look){.serial = t->serial};
	err = session_count_get(t, &l->ret->sessions, &fenced);
	if (!err)
		err = look_sessions(t, l);
	if (!err)
		err = kv_get(t, KV_SUPER, key_str(FMT_KEY_CHANGE_FLOOR), &v);
	if (!err)
		err = codec_u64_get(v, FMT_NEXT, &floor);
	if (absent_ok(err))
		return err;
	l->ret->lost = l->after < floor;
	return l->after < t->serial ? look_notes(t, l) : 0;
}

int meta_look(struct meta *m, uint64_t after, void (*fn)(void *arg, const struct meta_change *c),
	      void *arg, struct meta_look *ret)
{
	struct look l = {m, after, fn, arg, ret};
	int err = kv_read(m->kv, look_run, &l);

	if (!err && ret->fenced)
		atomic_store(&m->fenced, true);
	return err;
}

/* ---- tails ---- */

struct tail {
	struct meta *m;
	uint64_t serial;
	bool more;
};

static int tail_run(struct kv_txn *t, void *arg)
{
	struct tail *x = arg;
	uint64_t from = 0, low = UINT64_MAX, last;
	struct meta_session s;
	unsigned n;
	int err;

	while (!(err = session_first(t, from, &s))) {
		from = (uint64_t)s.id + 1;
		if (s.id == atomic_load(&x->m->session)) {
			s.tail = x->serial;
			err = session_put(t, &s);
			if (err)
				return err;
		}
		if (!s.fenced)
			low = MIN(low, s.tail);
	}
	if (absent_ok(err))
		return err;
	err = log_trim(t, low, LOG_BATCH, &last, &n);
	x->more = n == LOG_BATCH;
	return err;
}

int meta_tail(struct meta *m, uint64_t serial)
{
	struct tail x = {m, serial, false};
	int err = meta_run(m, tail_run, &x);

	return err ? err : x.more;
}

static int tails_run(struct kv_txn *t, void *arg)
{
	struct tail *x = arg;
	struct meta_session s;
	uint64_t from = 0;
	int err;

	x->serial = UINT64_MAX;
	while (!(err = session_first(t, from, &s))) {
		from = (uint64_t)s.id + 1;
		if (s.id == atomic_load(&x->m->session) || s.fenced || s.tail >= x->serial)
			continue;
		if (!meta_session_dead(&s))
			x->serial = s.tail;
	}
	return absent_ok(err);
}

int meta_tails(struct meta *m, uint64_t *ret)
{
	struct tail x = {.m = m};
	int err = kv_read(m->kv, tails_run, &x);

	if (!err)
		*ret = x.serial;
	return err;
}
