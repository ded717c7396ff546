/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals: a staging file is read back, put on targets as one segment, and its record told so in one
 * transaction. The file itself goes through the garbage list, after the checkpoint that makes the
 * record durable: a power cut before that needs it again.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scoped.h"
#include "io/stage.h"
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

LOG_MODULE("io")

#define SEAL_LEADERS 2u		/* fsyncs that seal; the others append meanwhile, and share the next seal */
#define SEAL_PATIENCE (60 * NS_PER_S)

struct seal_put {
	struct io_put put;
	struct lock   lock;
	struct cond   cond;
	bool          over;
};

static void seal_put_done(struct io_put *p)
{
	struct seal_put *w = container_of(p, struct seal_put, put);

	scoped_lock(&w->lock);
	w->over = true;
	cond_wake_all(&w->cond);
}

static int put_and_wait(struct seal_put *w)
{
	lock_init(&w->lock, LOCK_LEAF, "io.seal");
	cond_init(&w->cond);
	w->put.done = seal_put_done;
	io_put_start(&w->put);
	lock_take(&w->lock);
	while (!w->over)
		cond_wait(&w->cond, &w->lock);
	lock_drop(&w->lock);
	cond_done(&w->cond);
	lock_done(&w->lock);
	return atomic_load(&w->put.err);
}

/* Reads the file back and puts it; the record-to-be is in w->put.seg. */
static int seal_store(struct stage_seg *s, struct seal_put *w)
{
	struct io *io = s->io;
	struct oclass cls;
	struct buf *b;
	struct iovec iov;
	int e = oclass_from_id(s->cls, &cls);

	w->put.io = io;
	w->put.seg.id = s->node.key;
	w->put.seg.owner = TESS_PACKED_INO;
	w->put.seg.state = META_DURABLE;
	if (e == 0)
		e = io_geometry(io, &cls, s->size, s->node.key, &w->put.seg);
	if (e == 0)
		e = fault_point("stage.seal.put");
	if (e < 0)
		return e;
	b = buf_new(io->budget, MEM_IO, round_up(s->used, TESS_BLOCK));
	if (!b)
		return -ENOMEM;
	e = stage_read(io, s->node.key, 0, b->data, s->used);
	if (e == 0) {
		iov = (struct iovec){ b->data, s->used };
		w->put.data = (struct tess_iov){ &iov, 1, s->used };
		req_begin(&w->put.req, "seal");
		w->put.req.deadline = clock_now() + IO_DEADLINE;
		e = put_and_wait(w);
	}
	buf_unref(b);
	return e;
}

/* Nothing refers to it and nothing will: no PUT for what nobody wants. */
static bool seal_is_dead(struct stage_seg *s)
{
	struct stage *st = s->io->stage;
	struct meta_segment m;
	bool unused;

	lock_take(&st->lock);
	unused = s->uses == 0 && s->publishing == 0;
	lock_drop(&st->lock);
	return unused && meta_segment_get(s->io->meta, s->node.key, &m) == -ENOENT;
}

/* `err`: what the seal's transaction said; 0, -ENOENT or -EEXIST. */
static void seal_finish(struct stage_seg *s, int err)
{
	struct stage *st = s->io->stage;
	uint64_t now = kv_last(meta_kv(s->io->meta));

	scoped_lock(&st->lock);
	s->state = STAGE_SEALED;
	s->committed = true;
	s->retired = err != 0;
	s->unnamed = err == -ENOENT;
	s->retired_at = now;
	s->err = 0;
	if (s->uses == 0 && s->reading == 0 && s->fd >= 0) {
		close(s->fd);
		s->fd = -1;
	}
}

/* The objects are there: from here on publishes say `durable`; those that say `staged` are waited for. */
static int seal_commit(struct stage_seg *s)
{
	struct stage *st = s->io->stage;
	struct meta_new_segment m = { .seg = s->sealed, .csums = s->csums, .ncsums = s->ncsums };
	int e;

	lock_take(&st->lock);
	while (s->publishing > 0)
		cond_wait(&st->cond, &st->lock);
	lock_drop(&st->lock);
	e = fault_point("stage.seal.commit");
	if (e == 0)
		e = meta_segment_seal(s->io->meta, &m);
	/* No record, or one that a publish or another adopter made durable: no garbage record either. */
	if (e == 0 || e == -ENOENT || e == -EEXIST) {
		seal_finish(s, e);
		return 0;
	}
	return e;
}

static int seal_run(struct stage_seg *s)
{
	struct stage *st = s->io->stage;
	scoped_free struct seal_put *w = mem_zalloc(sizeof(*w));
	int e;

	if (!w)
		return -ENOMEM;
	lock_take(&st->lock);
	while (s->writing > 0)
		cond_wait(&st->cond, &st->lock);
	lock_drop(&st->lock);
	if (s->state == STAGE_SEALED)
		return seal_commit(s);
	if (seal_is_dead(s)) {
		seal_finish(s, -ENOENT);
		return 0;
	}
	e = seal_store(s, w);
	if (e == 0) {
		scoped_lock(&st->lock);
		s->sealed = w->put.seg;
		s->csums = steal_ptr(w->put.csums);
		s->ncsums = w->put.ncsums;
		s->state = STAGE_SEALED;
	}
	io_put_done(&w->put);
	if (e < 0)
		return e;
	io_count(s->io, IO_SEGS_STAGED, 1);
	return seal_commit(s);
}

static void seal_job(struct pool_job *j)
{
	struct stage_seg *s = container_of(j, struct stage_seg, job);
	struct stage *st = s->io->stage;
	int e;

	lock_take(&st->lock);
	s->attempt = ++st->attempts;
	lock_drop(&st->lock);
	e = seal_run(s);
	if (err_fold(e) == -ENOSPC)
		io_committer_kick(s->io);	/* whose garbage collection may make room for the next try */
	if (e < 0)
		log_warn("segment %016" PRIx64 " stays staged: %s", s->node.key, err_text(e));
	scoped_lock(&st->lock);
	if (e < 0) {
		if (s->state == STAGE_SEALING)
			s->state = STAGE_CLOSED;
		s->err = e;
		s->retry_at = clock_now() + NS_PER_S / 10 +
			      clock_backoff(MIN(s->tries, 8u), NS_PER_S / 10, 10 * NS_PER_S);
		s->tries++;
	}
	s->queued = false;
	st->sealing--;
	cond_wake_all(&st->cond);
}

void seal_submit_locked(struct stage_seg *s)
{
	struct stage *st = s->io->stage;

	if (s->queued || s->committed)
		return;
	if (s->state == STAGE_OPEN || s->state == STAGE_CLOSED)
		s->state = STAGE_SEALING;
	s->queued = true;
	s->job.run = seal_job;
	st->sealing++;
	if (pool_try(s->io->seal, &s->job) == 0)
		return;
	st->sealing--;
	s->queued = false;
	s->retry_at = 0;
	if (s->state == STAGE_SEALING)
		s->state = STAGE_CLOSED;
}

void seal_idle(struct io *io)
{
	struct stage *st = io->stage;
	int64_t now = clock_now();

	scoped_lock(&st->lock);
	list_for_each(n, &st->segs) {
		struct stage_seg *s = list_entry(n, struct stage_seg, link);

		if (s->committed || s->queued || s->retry_at > now)
			continue;
		if (s->state != STAGE_OPEN || (s->writing == 0 && s->touched + io->idle_seal <= now))
			seal_submit_locked(s);
	}
}

void seal_full(struct io *io)
{
	struct stage *st = io->stage;

	scoped_lock(&st->lock);
	list_for_each(n, &st->segs) {
		struct stage_seg *s = list_entry(n, struct stage_seg, link);

		if (s->state == STAGE_OPEN)
			seal_submit_locked(s);
	}
}

/*
 * 0: all of births up to `last` are sealed; 1: not yet; or what a seal of them failed with that began
 * after number `attempts`. One that was under way then may have failed for what is mended since: it is
 * tried again at once.
 */
static int seal_poll_locked(struct stage *st, uint64_t last, uint64_t attempts)
{
	int ret = 0;

	list_for_each(n, &st->segs) {
		struct stage_seg *s = list_entry(n, struct stage_seg, link);

		if (s->birth > last)
			break;
		if (s->committed)
			continue;
		if (!s->queued && s->err < 0 && s->attempt > attempts)
			return s->err;
		seal_submit_locked(s);
		ret = 1;
	}
	return ret;
}

/* Some of births up to `last` are nobody's to seal yet. */
static bool seal_wanted_locked(const struct stage *st, uint64_t last)
{
	list_for_each(n, &st->segs) {
		const struct stage_seg *s = list_entry(n, struct stage_seg, link);

		if (s->birth > last)
			break;
		if (!s->committed && !s->queued)
			return true;
	}
	return false;
}

static int seal_wait_locked(struct stage *st, const struct tess_req *req, int64_t limit)
{
	return clock_now() >= limit ? -ETIMEDOUT : io_wait_locked(&st->cond, &st->lock, req);
}

int seal_all(struct io *io, const struct tess_req *req)
{
	struct stage *st = io->stage;
	int64_t limit = clock_now() + SEAL_PATIENCE;
	uint64_t last, attempts;
	bool leads;
	int e;

	limit = MIN(limit, req->deadline);
	scoped_lock(&st->lock);
	last = st->births;
	attempts = st->attempts;
	while ((leads = seal_wanted_locked(st, last)) && st->leaders >= SEAL_LEADERS) {
		e = seal_wait_locked(st, req, limit);
		if (e < 0)
			return e;
	}
	st->leaders += leads;
	while ((e = seal_poll_locked(st, last, attempts)) == 1) {
		e = seal_wait_locked(st, req, limit);
		if (e < 0)
			break;
	}
	st->leaders -= leads;
	cond_wake_all(&st->cond);
	return e;
}

/* One id whose unlinking is due, or 0. */
static tess_segid next_retired(struct stage *st, uint64_t durable)
{
	scoped_lock(&st->lock);
	list_for_each(n, &st->segs) {
		struct stage_seg *s = list_entry(n, struct stage_seg, link);

		if (s->retired && !s->queued && s->uses == 0 && s->retired_at <= durable)
			return s->node.key;
	}
	return 0;
}

void seal_retired(struct io *io)
{
	uint64_t durable = kv_durable(meta_kv(io->meta));
	tess_segid id;

	while ((id = next_retired(io->stage, durable)) != 0)
		if (stage_unlink(io, id) < 0)
			return;
}

/* ---- adoption ---- */

struct live {
	struct meta_session *s;
	unsigned n;
};

static bool live_has(const struct live *l, uint32_t id)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->s[i].id == id)
			return true;
	return false;
}

/* Takes over dead sessions; what is left in *l is alive, ours included. */
static int adopt_sessions(struct io *io, struct live *l)
{
	unsigned n = 0, kept = 0;
	int e;

	l->s = mem_array(256, sizeof(*l->s));
	if (!l->s)
		return -ENOMEM;
	e = meta_sessions(io->meta, l->s, 256, &n);
	for (unsigned i = 0; e == 0 && i < n; i++) {
		if (l->s[i].id == meta_session_id(io->meta) || !meta_session_dead(&l->s[i])) {
			l->s[kept++] = l->s[i];
			continue;
		}
		e = meta_session_adopt(io->meta, l->s[i].id);
		if (e == 0)
			log_notice("adopted session %" PRIu32, l->s[i].id);
	}
	l->n = kept;
	return e;
}

static int adopt_segments(struct io *io, const struct live *l)
{
	enum { BATCH = 128 };
	scoped_free struct meta_segment *m = mem_array(BATCH, sizeof(*m));
	tess_segid after = 0;
	unsigned n = BATCH;

	if (!m)
		return -ENOMEM;
	while (n == BATCH) {
		int e = meta_segments(io->meta, after, m, BATCH, &n);

		if (e < 0)
			return e;
		for (unsigned i = 0; i < n; i++) {
			after = m[i].id;
			if (m[i].state != META_STAGED || live_has(l, (uint32_t)(m[i].id >> 32)))
				continue;
			e = stage_adopt(io, &m[i]);
			if (e < 0)
				log_err("staged segment %016" PRIx64 ": %s", m[i].id, err_text(e));
		}
	}
	return 0;
}

static bool parse_name(const char *s, tess_segid *ret)
{
	char again[17], *end;

	errno = 0;
	*ret = strtoull(s, &end, 16);
	stage_name(*ret, again);
	return errno == 0 && *ret != 0 && strcmp(s, again) == 0;
}

#define LEFTOVERS 1024u	/* at a time; the rest the next time */

/* Staging files of no live session that no record refers to. */
static unsigned list_leftovers(struct io *io, const struct live *l, tess_segid *ret)
{
	DIR *d = fdopendir(openat(io->stage->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct meta_segment m;
	struct dirent *x;
	unsigned n = 0;

	while (d && n < LEFTOVERS && (x = readdir(d))) {
		size_t skip = sizeof(STAGE_SPARE) - 1;

		if (strncmp(x->d_name, STAGE_SPARE, skip) == 0) {
			if (parse_name(x->d_name + skip, &ret[n]) &&
			    !live_has(l, (uint32_t)(ret[n] >> 32)))
				(void)unlinkat(io->stage->dirfd, x->d_name, 0);
			continue;
		}
		if (parse_name(x->d_name, &ret[n]) && !live_has(l, (uint32_t)(ret[n] >> 32)) &&
		    meta_segment_get(io->meta, ret[n], &m) == -ENOENT)
			n++;
	}
	if (d)
		closedir(d);
	return n;
}

/* The checkpoint in between makes it true of the namespace that a power cut would restore, too. */
static int adopt_leftovers(struct io *io, const struct live *l)
{
	scoped_free tess_segid *ids = mem_array(LEFTOVERS, sizeof(*ids));
	unsigned n = ids ? list_leftovers(io, l, ids) : 0;
	int e = ids ? 0 : -ENOMEM;

	if (n > 0)
		e = io_checkpoint(io);
	for (unsigned i = 0; e == 0 && i < n; i++)
		e = stage_unlink(io, ids[i]);
	return e;
}

void seal_adopt(struct io *io)
{
	struct live l = { 0 };
	int e = adopt_sessions(io, &l);

	if (e == 0)
		e = adopt_segments(io, &l);
	if (e == 0)
		e = adopt_leftovers(io, &l);
	if (e < 0)
		log_warn("cannot take over what dead sessions left: %s", err_text(e));
	free(l.s);
}
