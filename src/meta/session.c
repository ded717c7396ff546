/* SPDX-License-Identifier: Apache-2.0 */
/* Who has the file system open, what is staged for it, and what becomes of a dead one's. */
#include "base/clock.h"
#include "base/err.h"
#include "base/proc.h"
#include "base/scoped.h"
#include "base/text.h"
#include "meta/meta_impl.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A session of another host that beat this recently is taken to be alive. */
#define SESSION_FRESH (INT64_C(60) * 1000 * 1000 * 1000)

/* ---- this process ---- */

/* Where processes are told apart: this boot of this host, and the PID namespace. */
static int session_place(struct meta_session *s)
{
	scoped_fd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	struct stat st;

	memset(s, 0, sizeof(*s));
	if (fd < 0)
		return -errno;
	if (read(fd, s->boot, sizeof(s->boot) - 1) < 36)
		return -EIO;
	if (stat("/proc/self/ns/pid", &st) < 0)
		return -errno;
	s->pidns = st.st_ino;
	return 0;
}

static int session_self(struct meta_session *s)
{
	int err = session_place(s);

	(void)gethostname(s->host, sizeof(s->host) - 1);
	s->pid = (uint32_t)getpid();
	return err ? err : proc_start(s->pid, &s->pid_start);
}

/*
 * While we have the engine open no process of another boot or PID namespace can: the engine
 * refuses. So one from there is dead, whatever its heartbeat says. Nobody is that we cannot tell of: what
 * it has would be taken from under it.
 */
bool meta_session_dead(const struct meta_session *s)
{
	struct meta_session here;
	uint64_t start;
	int err;

	if (session_place(&here))
		return false;
	if (strcmp(s->boot, here.boot) != 0 || s->pidns != here.pidns)
		return true;
	err = proc_start(s->pid, &start);
	return err ? err == -ESRCH : start != s->pid_start;
}

/* ---- records ---- */

int session_put(struct kv_txn *t, const struct meta_session *s)
{
	uint8_t buf[FMT_SESSION_MAX];
	struct fmt_key k;

	return kv_put(t, KV_SESSION, key_u32(&k, s->id), kv_val(buf, codec_session_put(buf, s)));
}

int session_get(struct kv_txn *t, uint32_t id, struct meta_session *ret)
{
	struct fmt_key k;
	struct kv_val v;
	int err = kv_get(t, KV_SESSION, key_u32(&k, id), &v);

	return err ? err : codec_session_get(v, id, ret);
}

int session_first(struct kv_txn *t, uint64_t from, struct meta_session *ret)
{
	struct fmt_key k;
	struct kv_val key, v;

	while (from <= UINT32_MAX) {
		key = key_u32(&k, (uint32_t)from);
		int err = kv_seek(t, KV_SESSION, 1, &key, &v);

		if (err)
			return err;
		if (key.n == 4)
			return codec_session_get(v, fmt_be32_get(key.p), ret);
		if (key.n != 12)
			return -TESS_E_RECORD;
		from = (uint64_t)fmt_be32_get(key.p) + 1;
	}
	return -ENOENT;
}

/* ---- staged segments ---- */

int staged_put(struct kv_txn *t, uint32_t session, tess_segid id, uint64_t garbage)
{
	uint8_t buf[FMT_HEAD + 8];
	struct fmt_key k;

	return kv_put(t, KV_SESSION, key_u32_u64(&k, session, id),
		      kv_val(buf, codec_u64_put(buf, FMT_STAGED, garbage)));
}

int staged_find(struct kv_txn *t, struct meta *m, tess_segid id, uint32_t *ret_session,
		uint64_t *ret_garbage)
{
	uint32_t session = atomic_load(&m->session);
	struct kv_val key, v;
	struct fmt_key k;
	int err = kv_get(t, KV_SESSION, key_u32_u64(&k, session, id), &v);

	for (uint64_t from = 0; err == -ENOENT && from <= UINT32_MAX;
	     from = (uint64_t)session + 1) {
		key = key_u32(&k, (uint32_t)from);
		err = kv_seek(t, KV_SESSION, 1, &key, &v);
		if (err || key.n < 4)
			break;
		session = fmt_be32_get(key.p);
		err = kv_get(t, KV_SESSION, key_u32_u64(&k, session, id), &v);
	}
	if (!err)
		err = codec_u64_get(v, FMT_STAGED, ret_garbage);
	if (!err)
		*ret_session = session;
	return err;
}

int staged_del(struct kv_txn *t, struct meta *m, tess_segid id)
{
	struct fmt_key k;
	uint32_t session;
	uint64_t garbage;
	int err = staged_find(t, m, id, &session, &garbage);

	return err ? absent_ok(err) : kv_del(t, KV_SESSION, key_u32_u64(&k, session, id));
}

/* ---- beginning and ending ---- */

struct session_op {
	struct meta *m;
	struct meta_session self, other;
};
static int session_end(struct kv_txn *t, void *arg);

/* One that was alone had no need to beat; its lease begins now. */
static int session_wake(struct kv_txn *t, int64_t beat)
{
	struct meta_session s;
	int err = session_first(t, 0, &s);

	if (err)
		return absent_ok(err);
	s.beat = beat;
	return session_put(t, &s);
}

static int session_begin(struct kv_txn *t, void *arg)
{
	struct session_op *o = arg;
	uint32_t sessions, fenced;
	uint64_t from = 0, id;
	int err;

	while (!(err = session_first(t, from, &o->other))) {
		const struct meta_session *s = &o->other;

		if (strcmp(s->boot, o->self.boot) != 0 && strcmp(s->host, o->self.host) != 0 &&
		    s->heartbeat > o->self.started - SESSION_FRESH)
			return -TESS_E_OTHER_HOST;
		from = (uint64_t)s->id + 1;
	}
	if (err != -ENOENT)
		return err;
	err = counter_take(t, FMT_KEY_NEXT_SESSION, 1, 1, &id);
	if (!err && id > UINT32_MAX)
		err = -EOVERFLOW;
	if (err)
		return err;
	err = session_count_get(t, &sessions, &fenced);
	if (!err && sessions == 1)
		err = session_wake(t, o->self.beat);
	if (err)
		return err;
	o->self.id = (uint32_t)id;
	o->self.joined = t->serial;
	/* Who has no mount caches nothing. */
	o->self.tail = *o->self.mountpoint ? t->serial : UINT64_MAX;
	err = session_put(t, &o->self);
	return err ? err : session_count_add(t, 1, 0);
}

int meta_session_begin(struct meta *m, const char *mountpoint, int64_t now, struct text *why)
{
	struct session_op o = {.m = m};
	int err = session_self(&o.self);

	if (err) {
		if (why)
			text_fmt(why, "who we are cannot be read from /proc: %s", err_text(err));
		return err;
	}
	o.self.started = o.self.heartbeat = now;
	o.self.beat = clock_now();
	o.self.lease = atomic_load(&m->lease);
	if (mountpoint)
		memcpy(o.self.mountpoint, mountpoint,
		       strnlen(mountpoint, sizeof(o.self.mountpoint) - 1));
	err = kv_run(m->kv, session_begin, &o, NULL);
	if (err == -TESS_E_OTHER_HOST && why)
		text_fmt(why, "in use on host %s (process %u, %s)", o.other.host, o.other.pid,
			 *o.other.mountpoint ? o.other.mountpoint : "not mounted");
	if (err)
		return err;
	/*
	 * Its id is in the names of staging files and objects, which may survive a power cut that
	 * this commit does not: the next session must not be given it again.
	 */
	err = kv_sync(m->kv);
	if (err) {
		(void)kv_run(m->kv, session_end, &o, NULL);
		return err;
	}
	scoped_lock(&m->lock);
	m->seg_next = (uint64_t)o.self.id << 32 | 1;
	turn_begin(m, o.self.joined);
	atomic_store(&m->session, o.self.id);
	atomic_store(&m->fenced, false);
	return 0;
}

static int session_beat(struct kv_txn *t, void *arg)
{
	struct session_op *o = arg;
	struct meta_session s;
	int err = session_get(t, o->self.id, &s);

	if (err)
		return err;
	s.heartbeat = o->self.heartbeat;
	s.beat = o->self.beat;
	return session_put(t, &s);
}

int meta_session_beat(struct meta *m, int64_t now)
{
	struct session_op o = {.m = m, .self = {.id = atomic_load(&m->session), .heartbeat = now}};

	o.self.beat = clock_now();
	return o.self.id ? meta_run(m, session_beat, &o) : -ENOENT;
}

/* Only a session that leaves nothing behind may go: somebody has to own what is left. */
static int session_end(struct kv_txn *t, void *arg)
{
	struct session_op *o = arg;
	struct fmt_key k;
	struct kv_val v, key = key_u32_u64(&k, o->self.id, 0);
	struct meta_session s;
	uint64_t garbage;
	int err = session_get(t, o->self.id, &s);

	/* Whoever fenced us counts on the record until the process is gone. */
	if (err || s.fenced)
		return err ? absent_ok(err) : -TESS_E_FENCED;
	err = kv_seek(t, KV_ORPHAN, 1, &key, &v);
	if (!err && key.n >= 4 && fmt_be32_get(key.p) == o->self.id)
		return -EBUSY;
	if (absent_ok(err))
		return err;
	for (;;) {
		key = key_u32_u64(&k, o->self.id, 0);
		err = kv_seek(t, KV_SESSION, 1, &key, &v);
		if (err || key.n != 12 || fmt_be32_get(key.p) != o->self.id)
			break;
		/* A dead one is the garbage list's, which does not care whose it was. */
		err = codec_u64_get(v, FMT_STAGED, &garbage);
		if (!err && !garbage)
			err = -EBUSY;
		if (!err)
			err = kv_del(
				t, KV_SESSION,
				key_u32_u64(&k, o->self.id, fmt_be64_get((const char *)key.p + 4)));
		if (err)
			return err;
	}
	if (!absent_ok(err))
		err = lock_drop_session(t, o->self.id);
	if (err)
		return err;
	err = kv_del(t, KV_SESSION, key_u32(&k, o->self.id));
	return err ? err : session_count_add(t, -1, 0);
}

int meta_session_end(struct meta *m)
{
	struct session_op o = {.m = m, .self = {.id = atomic_load(&m->session)}};
	int err = o.self.id ? kv_run(m->kv, session_end, &o, NULL) : 0;

	if (!err)
		atomic_store(&m->session, 0);
	return err;
}

uint32_t meta_session_id(const struct meta *m)
{
	return atomic_load(&m->session);
}

struct session_look {
	uint32_t id;
	struct meta_session *ret;
};

static int session_look(struct kv_txn *t, void *arg)
{
	const struct session_look *l = arg;

	return session_get(t, l->id, l->ret);
}

int meta_session_get(struct meta *m, uint32_t id, struct meta_session *ret)
{
	struct session_look l = {id, ret};

	return kv_read(m->kv, session_look, &l);
}

struct session_list {
	struct meta_session *ret;
	unsigned max, n;
};

static int session_list(struct kv_txn *t, void *arg)
{
	struct session_list *l = arg;
	uint64_t from = 0;
	int err = 0;

	while (l->n < l->max && !(err = session_first(t, from, &l->ret[l->n])))
		from = (uint64_t)l->ret[l->n++].id + 1;
	return absent_ok(err);
}

int meta_sessions(struct meta *m, struct meta_session *ret, unsigned max, unsigned *ret_n)
{
	struct session_list l = {ret, max, 0};
	int err = kv_read(m->kv, session_list, &l);

	if (!err)
		*ret_n = l.n;
	return err;
}

/* ---- adoption ---- */

int session_move(struct kv_txn *t, enum kv_db db, uint32_t from, uint32_t to)
{
	uint8_t copy[FMT_HEAD + 8];
	struct fmt_key k;
	struct kv_val key, v;

	for (;;) {
		key = key_u32_u64(&k, from, 0);
		int err = kv_seek(t, db, 1, &key, &v);

		if (err || key.n != 12 || fmt_be32_get(key.p) != from)
			return absent_ok(err);
		uint64_t id = fmt_be64_get((const char *)key.p + 4);
		size_t n = v.n;

		if (n > sizeof(copy))
			return -TESS_E_RECORD;
		memcpy(copy, v.p, n);
		err = kv_del(t, db, key_u32_u64(&k, from, id));
		if (!err)
			err = kv_put(t, db, key_u32_u64(&k, to, id), kv_val(copy, n));
		if (err)
			return err;
	}
}

static int session_adopt(struct kv_txn *t, void *arg)
{
	struct session_op *o = arg;
	struct meta_session s;
	struct fmt_key k;
	int err = session_get(t, o->other.id, &s);

	if (!err) /* else another process was first */
		err = kv_del(t, KV_SESSION, key_u32(&k, o->other.id));
	if (!err)
		err = session_count_add(t, -1, s.fenced ? -1 : 0);
	if (!err)
		err = session_move(t, KV_ORPHAN, o->other.id, o->self.id);
	if (!err)
		err = session_move(t, KV_SESSION, o->other.id, o->self.id);
	if (!err)
		err = lock_drop_session(t, o->other.id);
	return err;
}

int meta_session_adopt(struct meta *m, uint32_t dead)
{
	struct session_op o = {.m = m};

	o.self.id = atomic_load(&m->session);
	o.other.id = dead;
	if (!o.self.id || dead == o.self.id)
		return -EINVAL;
	return meta_run(m, session_adopt, &o);
}

/* ---- segment ids ---- */

static int segment_take_half(struct kv_txn *t, void *arg)
{
	return counter_take(t, FMT_KEY_NEXT_SESSION, 1, 1, arg);
}

tess_segid meta_segment_new(struct meta *m)
{
	uint64_t half;

	for (;;) {
		lock_take(&m->lock);
		if ((uint32_t)m->seg_next) {
			tess_segid id = m->seg_next++;

			/* The last of its half: the sum carried into the next one, which is
			 * another's. */
			if (!(uint32_t)m->seg_next)
				m->seg_next = 0;
			lock_drop(&m->lock);
			return id;
		}
		lock_drop(&m->lock);
		if (meta_run(m, segment_take_half, &half) || half > UINT32_MAX)
			return 0;
		lock_take(&m->lock);
		if (!(uint32_t)m->seg_next)
			m->seg_next = half << 32 | 1;
		lock_drop(&m->lock);
	}
}

/* ---- what is staged ---- */

struct staged_list {
	uint32_t session;
	tess_segid after;
	struct meta_segment *ret;
	unsigned max, n;
};

static int staged_list(struct kv_txn *t, void *arg)
{
	struct staged_list *l = arg;
	struct fmt_key k;
	struct kv_val v, key = key_u32_u64(&k, l->session, l->after + 1);
	int err = kv_seek(t, KV_SESSION, 1, &key, &v);

	while (!err && l->n < l->max && key.n == 12 && fmt_be32_get(key.p) == l->session) {
		tess_segid id = fmt_be64_get((const char *)key.p + 4);
		uint64_t garbage;

		err = codec_u64_get(v, FMT_STAGED, &garbage);
		if (!err && !garbage)
			err = segment_get(t, id, &l->ret[l->n]);
		if (err)
			return err == -ENOENT ? -TESS_E_RECORD : err;
		l->n += !garbage;
		err = kv_step(t, KV_SESSION, 1, &key, &v);
	}
	return absent_ok(err);
}

int meta_staged(struct meta *m, uint32_t session, tess_segid after, struct meta_segment *ret,
		unsigned max, unsigned *ret_n)
{
	struct staged_list l = {session, after, ret, max, 0};
	int err = after == UINT64_MAX ? 0 : kv_read(m->kv, staged_list, &l);

	if (!err)
		*ret_n = l.n;
	return err;
}
