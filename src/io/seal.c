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

#define SEAL_LEADERS 2u		/* seals that fsyncs began; the others append meanwhile, and share the next */
#define SEAL_LEAD    NS_PER_S	/* one that takes longer does not count: its target may be dead */
#define SEAL_PLACES  8u		/* of a target: PUTs of seals in flight */
#define SEAL_PATIENCE (60 * NS_PER_S)

/* A seal whose objects are on their way. */
struct seal_put {
	struct io_put     put;
	struct stage_seg *s;
	struct iovec      iov;
	struct buf       *b;	/* a reference */
	bool              placed;	/* holds a place at its targets */
};

/* Whether the targets have room for another one; if not, it is parked until a PUT ends. */
static bool place_take(struct stage_seg *s, struct seal_put *w)
{
	struct io *io = s->io;
	struct stage *st = io->stage;
	bool full = false, busy = false;

	scoped_lock(&st->lock);
	for (unsigned i = 0; i < w->put.seg.width; i++) {
		const struct io_tgt *t = io_target(io, w->put.seg.target[i]);

		full |= t->seals >= SEAL_PLACES;
		busy |= t->seals > 0;
	}
	full |= busy && st->seal_bytes + s->used > budget_limit(io->budget) / 4;
	if (full) {
		s->parked = true;
		return false;
	}
	for (unsigned i = 0; i < w->put.seg.width; i++)
		io_target(io, w->put.seg.target[i])->seals++;
	st->seal_bytes += s->used;
	w->placed = true;
	return true;
}

/* Only others' PUTs keep one parked, so whoever gives places back takes them all off. */
static void place_give(struct stage_seg *s, struct seal_put *w)
{
	struct io *io = s->io;
	struct stage *st = io->stage;

	scoped_lock(&st->lock);
	for (unsigned i = 0; i < w->put.seg.width; i++)
		io_target(io, w->put.seg.target[i])->seals--;
	st->seal_bytes -= s->used;
	list_for_each(n, &st->segs) {
		struct stage_seg *p = list_entry(n, struct stage_seg, link);

		if (!p->parked || pool_try(io->seal, &p->job) < 0)
			continue;
		p->parked = false;
	}
}

static void put_free(struct stage_seg *s, struct seal_put *w)
{
	if (!w)
		return;
	io_put_done(&w->put);
	buf_unref(w->b);
	if (w->placed)
		place_give(s, w);
	free(w);
}

static int put_new(struct stage_seg *s, struct seal_put **ret)
{
	struct io *io = s->io;
	scoped_free struct seal_put *w = mem_zalloc(sizeof(*w));
	struct oclass cls;
	int e = oclass_from_id(s->cls, &cls);

	if (!w)
		return -ENOMEM;
	w->s = s;
	w->put.io = io;
	w->put.seg.id = s->node.key;
	w->put.seg.owner = TESS_PACKED_INO;
	w->put.seg.state = META_DURABLE;
	if (e == 0)
		e = io_geometry(io, &cls, s->size, s->node.key, &w->put.seg);
	if (e < 0)
		return e;
	*ret = steal_ptr(w);
	return 0;
}

/* Reads the file back. The record-to-be is in w->put.seg. */
static int put_load(struct stage_seg *s, struct seal_put *w)
{
	struct io *io = s->io;
	int e = fault_point("stage.seal.put");

	if (e < 0)
		return e;
	w->b = buf_new(io->budget, MEM_IO, round_up(s->used, TESS_BLOCK));
	if (!w->b)
		return -ENOMEM;
	e = stage_read(io, s->node.key, 0, w->b->data, s->used);
	w->iov = (struct iovec){ w->b->data, s->used };
	w->put.data = (struct tess_iov){ &w->iov, 1, s->used };
	req_begin(&w->put.req, "seal");
	w->put.req.deadline = clock_now() + IO_DEADLINE;
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
		(void)fault_point("stage.sealed");
		return 0;
	}
	return e;
}

/* How a seal ends, in failure or not; `s` may be gone afterwards. */
static void seal_over(struct stage_seg *s, int e)
{
	struct stage *st = s->io->stage;
	struct meta_segment sealed = s->sealed;

	if (err_fold(e) == -ENOSPC)
		io_committer_kick(s->io);	/* whose garbage collection may make room for the next try */
	if (e < 0 && e != -TESS_E_STOPPING && e != -TESS_E_FENCED) {
		log_warn("segment %016" PRIx64 " stays staged: %s", s->node.key, err_text(e));
		io_error_note(s->io, 0, "segment of small files", e);
	}
	lock_take(&st->lock);
	if (e < 0) {
		if (s->state == STAGE_SEALING)
			s->state = STAGE_CLOSED;
		s->err = e;
		s->retry_at = clock_now() + NS_PER_S / 10 +
			      clock_backoff(MIN(s->tries, 8u), NS_PER_S / 10, 10 * NS_PER_S);
		s->tries++;
	}
	s->queued = s->led = false;
	st->sealing--;
	cond_wake_all(&st->cond);
	lock_drop(&st->lock);
	if (e == 0)
		move_note(st->io, &sealed);
}

/* The write tier is full: the same bytes go to the rest tier. */
static bool seal_spill(struct stage_seg *s, struct seal_put *w)
{
	struct io *io = s->io;
	struct stage *st = io->stage;
	struct meta_segment old = w->put.seg;

	if (!io_spill(io, &w->put.seg))
		return false;
	lock_take(&st->lock);
	for (unsigned i = 0; i < old.width; i++)
		io_target(io, old.target[i])->seals--;
	for (unsigned i = 0; i < w->put.seg.width; i++)
		io_target(io, w->put.seg.target[i])->seals++;
	lock_drop(&st->lock);
	io_put_done(&w->put);
	s->put = w;
	io_put_start(&w->put);
	return true;
}

/* The PUT is over. */
static void seal_end_job(struct pool_job *j)
{
	struct stage_seg *s = container_of(j, struct stage_seg, job);
	struct stage *st = s->io->stage;
	struct seal_put *w = steal_ptr(s->put);
	int e = atomic_load(&w->put.err);

	if (err_fold(e) == -ENOSPC && seal_spill(s, w))
		return;
	if (e == 0) {
		scoped_lock(&st->lock);
		s->sealed = w->put.seg;
		s->csums = steal_ptr(w->put.csums);
		s->ncsums = w->put.ncsums;
		s->state = STAGE_SEALED;
	}
	put_free(s, w);
	if (e == 0) {
		io_count(s->io, IO_SEGS_STAGED, 1);
		e = seal_commit(s);
	}
	seal_over(s, e);
}

/* On a thread of the store's, which a commit would hold up; the pool has room, or else it is held up. */
static void seal_put_over(struct io_put *p)
{
	struct stage_seg *s = container_of(p, struct seal_put, put)->s;

	s->job.run = seal_end_job;
	if (pool_try(s->io->seal, &s->job) < 0)
		seal_end_job(&s->job);
}

/* 1: it goes on when its PUT ends, or another one's; `s` is not this thread's any more. */
static int seal_begin(struct stage_seg *s)
{
	struct stage *st = s->io->stage;
	struct seal_put *w = NULL;
	bool stopping;
	int e;

	lock_take(&st->lock);
	while (s->writing > 0)
		cond_wait(&st->cond, &st->lock);
	stopping = st->stopping;
	lock_drop(&st->lock);
	if (s->state == STAGE_SEALED)
		return seal_commit(s);
	if (seal_is_dead(s)) {
		seal_finish(s, -ENOENT);
		return 0;
	}
	if (stopping)
		return -TESS_E_STOPPING;
	e = put_new(s, &w);
	if (e == 0 && !place_take(s, w)) {
		put_free(NULL, w);
		return 1;
	}
	if (e == 0)
		e = put_load(s, w);
	if (e < 0) {
		put_free(s, w);
		return e;
	}
	s->put = w;
	w->put.done = seal_put_over;
	io_put_start(&w->put);
	return 1;
}

static void seal_job(struct pool_job *j)
{
	struct stage_seg *s = container_of(j, struct stage_seg, job);
	struct stage *st = s->io->stage;
	int e;

	lock_take(&st->lock);
	s->attempt = ++st->attempts;
	lock_drop(&st->lock);
	e = seal_begin(s);
	if (e <= 0)
		seal_over(s, e);
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
	s->queued = s->led = false;
	s->retry_at = 0;
	if (s->state == STAGE_SEALING)
		s->state = STAGE_CLOSED;
}

void stage_filled_locked(struct stage_seg *s)
{
	if (s->io->drain == IO_DRAIN_EAGER)
		seal_submit_locked(s);
	else
		s->state = STAGE_CLOSED;
}

/* May it go by itself now? */
static bool seal_is_due(const struct io *io, const struct stage_seg *s, bool drain, int64_t now)
{
	/* What once began, or a dead session left, is not held back. */
	if (s->tries > 0 || s->adopted)
		return true;
	if (io->drain != IO_DRAIN_EAGER)
		return drain && s->writing == 0;
	return s->state != STAGE_OPEN || (s->writing == 0 && s->touched + io->idle_seal <= now);
}

void io_closed(struct io *io)
{
	if (io->drain != IO_DRAIN_CLOSE)
		return;
	atomic_store(&io->drain_now, true);
	move_closed(io);
}

void seal_idle(struct io *io)
{
	struct stage *st = io->stage;
	int64_t now = clock_now();
	bool drain = atomic_exchange(&io->drain_now, false) ||
		     (io->drain == IO_DRAIN_IDLE && io->busy + io->idle_seal <= now);

	scoped_lock(&st->lock);
	list_for_each(n, &st->segs) {
		struct stage_seg *s = list_entry(n, struct stage_seg, link);

		if (s->committed || s->queued || s->retry_at > now)
			continue;
		if (seal_is_due(io, s, drain, now))
			seal_submit_locked(s);
	}
}

void seal_full(struct io *io)
{
	struct stage *st = io->stage;

	scoped_lock(&st->lock);
	list_for_each(n, &st->segs) {
		struct stage_seg *s = list_entry(n, struct stage_seg, link);

		if (s->state == STAGE_OPEN || s->state == STAGE_CLOSED)
			seal_submit_locked(s);
	}
}

/* What is waited for. */
struct seal_want {
	uint64_t ino;		/* STAGE_ANY_INO: all */
	uint64_t last;		/* births up to this one */
	uint64_t attempts;	/* stage.attempts when the wait began */
};

/*
 * 0: all of it is sealed; 1: not yet; or what a seal of it failed with that began after the wait did.
 * One that was under way then may have failed for what is mended since: it is tried again at once.
 */
static int seal_poll_locked(struct stage *st, const struct seal_want *w)
{
	int ret = 0;

	list_for_each(n, &st->segs) {
		struct stage_seg *s = list_entry(n, struct stage_seg, link);

		if (s->birth > w->last)
			break;
		if (s->committed || !stage_holds_locked(s, w->ino))
			continue;
		if (!s->queued && s->err < 0 && s->attempt > w->attempts)
			return s->err;
		if (!s->queued) {
			s->led = true;
			s->led_at = clock_now();
		}
		seal_submit_locked(s);
		ret = 1;
	}
	return ret;
}

/* Some of it is nobody's to seal yet, and enough seals are under way already: they may be shared. */
static bool seal_must_queue_locked(const struct stage *st, const struct seal_want *w)
{
	int64_t since = clock_now() - SEAL_LEAD;
	unsigned leaders = 0;
	bool wanted = false;

	list_for_each(n, &st->segs) {
		const struct stage_seg *s = list_entry(n, struct stage_seg, link);

		leaders += s->queued && s->led && s->led_at > since;
		wanted |= s->birth <= w->last && !s->committed && !s->queued &&
			  stage_holds_locked(s, w->ino);
	}
	return wanted && leaders >= SEAL_LEADERS;
}

static int seal_wait_locked(struct stage *st, const struct tess_req *req, int64_t limit)
{
	return clock_now() >= limit ? -ETIMEDOUT : io_wait_locked(&st->cond, &st->lock, req);
}

static int seal_wanted(struct io *io, const struct tess_req *req, uint64_t ino)
{
	struct stage *st = io->stage;
	int64_t limit = clock_now() + SEAL_PATIENCE;
	struct seal_want w = { .ino = ino };
	int e = 0;

	limit = MIN(limit, req->deadline);
	scoped_lock(&st->lock);
	w.last = st->births;
	w.attempts = st->attempts;
	while (e == 0 && seal_must_queue_locked(st, &w))
		e = seal_wait_locked(st, req, limit);
	while (e == 0 && (e = seal_poll_locked(st, &w)) == 1)
		e = seal_wait_locked(st, req, limit);
	return e;
}

int seal_all(struct io *io, const struct tess_req *req)
{
	return seal_wanted(io, req, STAGE_ANY_INO);
}

int seal_file(struct io_file *f, const struct tess_req *req)
{
	int e;

	io_adopted_wait(f->io);
	e = stage_note_adopted(f);
	return e < 0 && e != -ENOENT ? e : seal_wanted(f->io, req, f->ino);
}

void seal_quiesce(struct io *io)
{
	struct stage *st = io->stage;

	scoped_lock(&st->lock);
	while (st->sealing > 0)
		cond_wait(&st->cond, &st->lock);
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

#define ADOPT_SESSIONS 256u	/* at a time; the rest the next time */

static int adopt_sessions(struct io *io)
{
	scoped_free struct meta_session *s = mem_array(ADOPT_SESSIONS, sizeof(*s));
	unsigned n = 0;
	int e = s ? meta_sessions(io->meta, s, ADOPT_SESSIONS, &n) : -ENOMEM;

	for (unsigned i = 0; e == 0 && i < n; i++) {
		if (s[i].id == meta_session_id(io->meta) || !meta_session_dead(&s[i]))
			continue;
		/* First: once it is not counted any more, a checkpoint would sync our own bytes only. */
		atomic_store(&io->inherited, true);
		e = meta_session_adopt(io->meta, s[i].id);
		if (e == 0)
			log_notice("adopted session %" PRIu32, s[i].id);
		e = e == -ENOENT ? 0 : e;	/* another one was faster */
	}
	return e;
}

/* What is ours by record, of those that are dead: another session's, taken over or its own, is in use. */
static int adopt_segments(struct io *io)
{
	enum { BATCH = 128 };
	scoped_free struct meta_segment *m = mem_array(BATCH, sizeof(*m));
	uint32_t self = meta_session_id(io->meta);
	tess_segid after = 0;
	unsigned n = BATCH;

	if (!m)
		return -ENOMEM;
	while (n == BATCH) {
		int e = meta_staged(io->meta, self, after, m, BATCH, &n);

		if (e < 0)
			return e;
		for (unsigned i = 0; i < n; i++) {
			after = m[i].id;
			if ((uint32_t)(m[i].id >> 32) == self)
				continue;
			e = stage_adopt(io, &m[i]);
			if (e < 0)
				log_err("staged segment %016" PRIx64 ": %s", m[i].id, err_text(e));
		}
	}
	return 0;
}

/* Asked after its file was seen: a session registers before it makes one, so one that is not there is over. */
static bool session_is_over(struct io *io, tess_segid id)
{
	struct meta_session s;

	return meta_session_get(io->meta, (uint32_t)(id >> 32), &s) == -ENOENT;
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

/* Staging files of sessions that are over that no record refers to. */
static unsigned list_leftovers(struct io *io, tess_segid *ret)
{
	DIR *d = fdopendir(openat(io->stage->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct meta_segment m;
	struct dirent *x;
	unsigned n = 0;

	while (d && n < LEFTOVERS && (x = readdir(d))) {
		size_t skip = sizeof(STAGE_SPARE) - 1;

		if (strncmp(x->d_name, STAGE_SPARE, skip) == 0) {
			if (parse_name(x->d_name + skip, &ret[n]) && session_is_over(io, ret[n]))
				(void)unlinkat(io->stage->dirfd, x->d_name, 0);
			continue;
		}
		if (parse_name(x->d_name, &ret[n]) && session_is_over(io, ret[n]) &&
		    meta_segment_get(io->meta, ret[n], &m) == -ENOENT)
			n++;
	}
	if (d)
		closedir(d);
	return n;
}

/* The checkpoint in between makes it true of the namespace that a power cut would restore, too. */
static int adopt_leftovers(struct io *io)
{
	scoped_free tess_segid *ids = mem_array(LEFTOVERS, sizeof(*ids));
	unsigned n = ids ? list_leftovers(io, ids) : 0;
	int e = ids ? 0 : -ENOMEM;

	if (n > 0)
		e = io_checkpoint(io);
	for (unsigned i = 0; e == 0 && i < n; i++) {
		e = stage_unlink(io, ids[i]);
		/* It is being sealed, and died meanwhile: the garbage list's. */
		e = e == -EBUSY ? 0 : e;
	}
	return e;
}

void seal_adopt(struct io *io)
{
	int e = adopt_sessions(io);

	if (e == 0)
		e = fault_point("stage.adopt");
	if (e == 0)
		e = adopt_segments(io);
	if (e == 0)
		e = adopt_leftovers(io);
	if (e < 0)
		log_warn("cannot take over what dead sessions left: %s", err_text(e));
}
