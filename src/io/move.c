/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mover: segments that are elsewhere are copied to the rest tier, in the background, some at a
 * time. One of them:
 *
 *	read		all of it, verified, from where it is
 *	begin		src/meta/move.c: a record names the objects to be
 *	PUT		the same bytes under the same names on the new targets
 *	end		the segment's record names them; the old ones are garbage, after a checkpoint
 *
 * Candidates come from what this session publishes and seals, and from a scan of the segment table, at the
 * start and for io_rest(). A session moves its own segments and those of dead ones: another live one may
 * have unpublished bytes in what it wrote.
 *
 * When is the drain policy's to say; io_rest() overrides it. A target that fails holds the others up for
 * a growing while: nobody waits for the mover but io_rest().
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scoped.h"
#include "io/read_int.h"
#include "io/stage.h"
#include <inttypes.h>
#include <string.h>

LOG_MODULE("io")

#define MOVE_WORKERS  2u
#define MOVE_QUEUE    4096u	/* candidates in memory; more are found by another scan */
#define MOVE_SCAN     64u
#define MOVE_SESSIONS 256u
#define MOVE_LATER    (NS_PER_S / 5)
#define MOVE_BACKOFF  (30 * NS_PER_S)
#define MOVE_LOG      (60 * NS_PER_S)
#define MOVE_GIVE_UP  3u	/* failures in a row that end an io_rest() */
#define MOVE_BUSY     1		/* not now: unpublished bytes, or an earlier move is not over */
#define MOVE_NONE     2		/* nothing to do */

struct move_worker {
	struct mover   *mv;
	pthread_t       thread;
	bool            on, left;
	tess_segid      id;	/* under way; 0: none */
	uint64_t        bytes;	/* of it, in memory */
	uint64_t        failed;	/* the record of a copy that failed, yet to be told so; 0: none */
	struct tess_req req;
	struct io_put   put;
	bool            putting, over;	/* the PUTs were submitted; are done */
};

struct mover {
	struct io  *io;
	struct lock lock;	/* LOCK_LEAF, guards the rest */
	struct cond cond;
	tess_segid  ids[MOVE_QUEUE];
	unsigned    head, n;
	tess_segid  at;		/* of the scan */
	unsigned    scans;	/* how often it began */
	bool        scan, scanning;
	bool        again;	/* something was passed over: another scan, some time */
	bool        go;		/* the drain policy says so */
	bool        stopping;
	unsigned    forced;	/* io_rest() calls that wait */
	unsigned    fails;	/* in a row */
	unsigned    turns;	/* busy ones in a row */
	int         err;	/* the last failure */
	int64_t     logged;	/* when one was; 0: none */
	int64_t     retry_at;
	struct move_worker w[MOVE_WORKERS];
};

/* ---- candidates ---- */

static void level_locked(struct mover *mv)
{
	unsigned n = mv->n;

	for (unsigned i = 0; i < MOVE_WORKERS; i++)
		n += mv->w[i].id != 0;
	trace_set(&mv->io->counters[IO_MOVE_WAITING], n);
}

static void push_locked(struct mover *mv, tess_segid id)
{
	if (mv->n == MOVE_QUEUE) {
		mv->again = true;
		return;
	}
	mv->ids[(mv->head + mv->n++) % MOVE_QUEUE] = id;
	level_locked(mv);
	cond_wake_all(&mv->cond);
}

static tess_segid pop_locked(struct mover *mv)
{
	tess_segid id = mv->ids[mv->head];

	mv->head = (mv->head + 1) % MOVE_QUEUE;
	mv->n--;
	return id;
}

void move_note(struct io *io, const struct meta_segment *s)
{
	struct meta_segment to;

	if (!io->mover || io_rest_place(io, s, &to) == 0)
		return;
	scoped_lock(&io->mover->lock);
	push_locked(io->mover, s->id);
}

/* Whether the session that wrote it is another one that lives; 1, 0, or negative. */
static int is_others(struct io *io, tess_segid id)
{
	uint32_t session = (uint32_t)(id >> 32);
	struct meta_session s;
	int e;

	if (session == meta_session_id(io->meta))
		return 0;
	e = meta_session_get(io->meta, session, &s);
	return e == -ENOENT ? 0 : e < 0 ? e : !meta_session_dead(&s);
}

/* One step of the scan: what is not at rest is queued. */
static int scan_some(struct mover *mv, tess_segid *inout_at, bool *ret_over)
{
	scoped_free struct meta_segment *s = mem_array(MOVE_SCAN, sizeof(*s));
	struct meta_segment to;
	unsigned n = 0;
	int e = s ? meta_segments(mv->io->meta, *inout_at, s, MOVE_SCAN, &n) : -ENOMEM;

	for (unsigned i = 0; e == 0 && i < n; i++) {
		*inout_at = s[i].id;
		if (io_rest_place(mv->io, &s[i], &to) == 0)
			continue;
		scoped_lock(&mv->lock);
		push_locked(mv, s[i].id);
	}
	*ret_over = n < MOVE_SCAN;
	return e;
}

static void scan_begin_locked(struct mover *mv)
{
	mv->scan = true;
	mv->scans++;
	mv->at = 0;
}

static void scan_locked(struct mover *mv)
{
	unsigned scans = mv->scans;
	tess_segid at = mv->at;
	bool over = true;
	int e;

	mv->scanning = true;
	lock_drop(&mv->lock);
	e = scan_some(mv, &at, &over);
	lock_take(&mv->lock);
	mv->scanning = false;
	/* Unless io_rest() had it begin anew meanwhile. */
	if (mv->scans == scans) {
		mv->at = at;
		mv->scan &= !over;
	}
	if (e < 0) {
		mv->again = true;
		mv->retry_at = clock_now() + NS_PER_S;
		log_warn("looking for segments to move: %s", err_text(e));
	}
	cond_wake_all(&mv->cond);
}

/* ---- one segment ---- */

static int read_all(struct move_worker *w, const struct meta_segment *s, char *p)
{
	struct io *io = w->mv->io;
	int e = fault_point("move.read");

	for (uint64_t at = 0; e == 0 && at < s->len; at += io->chunk) {
		w->req.deadline = clock_now() + IO_DEADLINE;
		e = io_fetch_sync(io, &w->req, s, at, p + at, MIN(io->chunk, s->len - at));
	}
	return e;
}

static void put_over(struct io_put *p)
{
	struct move_worker *w = container_of(p, struct move_worker, put);

	scoped_lock(&w->mv->lock);
	w->over = true;
	cond_wake_all(&w->mv->cond);
}

static int put_all(struct move_worker *w, const struct meta_segment *old, const struct meta_segment *to,
		   char *p)
{
	struct iovec iov = { p, to->len };
	struct mover *mv = w->mv;
	int e = fault_point("move.put");

	if (e < 0)
		return e;
	w->put = (struct io_put){ .io = mv->io, .seg = *to, .data = { &iov, 1, to->len }, .done = put_over };
	for (unsigned i = 0; i < to->width; i++)
		if (meta_segment_at(old, i, to->target[i]))
			w->put.stay |= UINT64_C(1) << i;
	req_begin(&w->put.req, "move");
	w->put.req.deadline = clock_now() + IO_DEADLINE;
	w->over = false;
	io_put_start(&w->put);
	lock_take(&mv->lock);
	w->putting = true;
	while (!w->over)
		cond_wait(&mv->cond, &mv->lock);
	w->putting = false;
	lock_drop(&mv->lock);
	e = atomic_load(&w->put.err);
	io_put_done(&w->put);
	return e;
}

static bool stopping(struct mover *mv)
{
	scoped_lock(&mv->lock);
	return mv->stopping;
}

/* What a copy made is to be deleted. Not told, its segment would stay while this session lives. */
static int cancel(struct move_worker *w)
{
	int e = w->failed ? meta_move_cancel(w->mv->io->meta, w->failed) : 0;

	if (e == 0 || e == -ESTALE)
		w->failed = 0;
	return w->failed ? e : 0;
}

/* The bytes are in memory. */
static int copy(struct move_worker *w, const struct meta_segment *old, const struct meta_segment *to,
		char *p)
{
	struct io *io = w->mv->io;
	bool moved = false;
	uint64_t serial;
	int e = fault_point("move.begin");

	if (e == 0)
		e = meta_move_begin(io->meta, old, to, &serial);
	if (e < 0)
		return e == -EBUSY ? MOVE_BUSY : e;
	e = put_all(w, old, to, p);
	if (e == 0)
		e = fault_point("move.end");
	if (e == 0 && stopping(w->mv))
		e = -TESS_E_STOPPING;
	if (e == 0)
		e = meta_move_end(io->meta, serial, old, to, &moved);
	if (e < 0) {
		w->failed = serial;
		(void)cancel(w);
		return e;
	}
	(void)fault_point("move.ended");
	return moved ? 0 : MOVE_NONE;
}

/* So many bytes in memory at a time, of all workers. */
static int room_take(struct move_worker *w, uint64_t len)
{
	struct mover *mv = w->mv;
	uint64_t used;

	scoped_lock(&mv->lock);
	for (;;) {
		used = 0;
		for (unsigned i = 0; i < MOVE_WORKERS; i++)
			used += mv->w[i].bytes;
		if (mv->stopping)
			return -TESS_E_STOPPING;
		if (used == 0 || used + len <= budget_limit(mv->io->budget) / 8)
			break;
		cond_wait(&mv->cond, &mv->lock);
	}
	w->bytes = len;
	return 0;
}

static void room_give(struct move_worker *w)
{
	scoped_lock(&w->mv->lock);
	w->bytes = 0;
	cond_wake_all(&w->mv->cond);
}

/* 0: moved; MOVE_BUSY, MOVE_NONE; or negative. */
static int move_one(struct move_worker *w)
{
	struct io *io = w->mv->io;
	struct meta_segment old, to;
	struct buf *b;
	int e = cancel(w);

	if (e < 0)
		return e;
	e = meta_segment_get(io->meta, w->id, &old);
	if (e == -ENOENT)
		return MOVE_NONE;
	if (e == 0 && io_rest_place(io, &old, &to) == 0)
		return MOVE_NONE;
	if (e == 0)
		e = is_others(io, w->id);
	if (e != 0)
		return e > 0 ? MOVE_NONE : e;
	if (stage_busy(io, w->id))
		return MOVE_BUSY;
	e = room_take(w, old.len);
	if (e < 0)
		return e;
	b = buf_new(io->budget, MEM_IO, round_up(old.len, TESS_BLOCK));
	e = b ? read_all(w, &old, b->data) : -ENOMEM;
	if (e == 0)
		e = copy(w, &old, &to, b->data);
	buf_unref(b);
	room_give(w);
	if (e == 0) {
		io_count(io, IO_MOVE_SEGS, 1);
		io_count(io, IO_MOVE_BYTES, old.len);
	}
	return e;
}

/* ---- workers ---- */

static bool taken_locked(const struct mover *mv, tess_segid id)
{
	for (unsigned i = 0; i < MOVE_WORKERS; i++)
		if (mv->w[i].id == id)
			return true;
	return false;
}

/* The next one for `w`, 0: there is none now. */
static tess_segid take_locked(struct move_worker *w)
{
	struct mover *mv = w->mv;

	if (mv->n == 0 && !mv->scan && mv->again && mv->forced == 0) {
		scan_begin_locked(mv);
		mv->again = false;
	}
	/* There is room for what a step finds. */
	if (mv->scan && !mv->scanning && mv->n <= MOVE_SCAN)
		scan_locked(mv);
	while (mv->n > 0 && !mv->stopping) {
		tess_segid id = pop_locked(mv);

		if (!taken_locked(mv, id)) {
			w->id = id;
			level_locked(mv);
			return id;
		}
	}
	level_locked(mv);
	return 0;
}

static bool may_go_locked(const struct mover *mv)
{
	if (mv->forced > 0)
		return true;
	return mv->go && mv->retry_at <= clock_now() && !budget_over(mv->io->budget, MEM_IO);
}

/* Until there is one, 0: the end. */
static tess_segid next(struct move_worker *w)
{
	struct mover *mv = w->mv;
	bool work;

	scoped_lock(&mv->lock);
	while (!mv->stopping) {
		if (may_go_locked(mv) && take_locked(w) != 0)
			return w->id;
		work = mv->n > 0 || (mv->scan && !mv->scanning) || (mv->again && mv->forced == 0);
		if (work && may_go_locked(mv))
			continue;
		/* The policy wakes, time does not. */
		if (work && mv->go)
			(void)cond_wait_until(&mv->cond, &mv->lock,
					      MAX(mv->retry_at, clock_now() + MOVE_LATER / 4));
		else
			cond_wait(&mv->cond, &mv->lock);
	}
	return 0;
}

/* The first of a row of failures is logged, and of rows that follow each other one in a while. */
static void failed_locked(struct mover *mv, tess_segid id, int e)
{
	int64_t now = clock_now();

	mv->err = e;
	if (mv->fails++ == 0 && (mv->logged == 0 || mv->logged + MOVE_LOG < now)) {
		mv->logged = now;
		log_warn("segment %016" PRIx64 " stays where it is: %s", id, err_text(e));
	}
	mv->retry_at = now + NS_PER_S / 10 +
		       clock_backoff(MIN(mv->fails, 10u), NS_PER_S / 10, MOVE_BACKOFF);
	if (mv->forced > 0 && mv->fails >= MOVE_GIVE_UP) {
		mv->n = 0;
		mv->scan = false;
		mv->again = true;
	}
}

static void settle(struct move_worker *w, int e)
{
	struct mover *mv = w->mv;
	tess_segid id = w->id;
	bool bad = e < 0 && !stopping(mv) && e != -ESTALE && e != -ENOENT;

	if (bad) {
		io_count(mv->io, IO_MOVE_FAILED, 1);
		io_error_note(mv->io, 0, "move to the rest tier", e);
		/* Its garbage collection may make room for the next try. */
		if (err_fold(e) == -ENOSPC)
			io_committer_kick(mv->io);
	}
	scoped_lock(&mv->lock);
	w->id = 0;
	if (e == 0)
		mv->fails = mv->turns = 0;
	if (bad || e == MOVE_BUSY) {
		/* io_rest() tries each once. */
		if (mv->forced > 0)
			mv->again = true;
		else
			push_locked(mv, id);
	}
	if (bad)
		failed_locked(mv, id, e);
	if (e == MOVE_BUSY && mv->forced == 0 && mv->turns++ >= mv->n) {
		mv->turns = 0;
		mv->retry_at = MAX(mv->retry_at, clock_now() + MOVE_LATER);
	}
	level_locked(mv);
	cond_wake_all(&mv->cond);
}

static void *worker_main(void *arg)
{
	struct move_worker *w = arg;

	while (next(w) != 0)
		settle(w, move_one(w));
	(void)cancel(w);	/* else when this session is dead */
	scoped_lock(&w->mv->lock);
	w->left = true;
	cond_wake_all(&w->mv->cond);
	return NULL;
}

/* ---- the drain policy ---- */

void move_closed(struct io *io)
{
	if (!io->mover)
		return;
	scoped_lock(&io->mover->lock);
	io->mover->go = true;
	cond_wake_all(&io->mover->cond);
}

void move_tick(struct io *io, bool idle, bool staged)
{
	struct mover *mv = io->mover;
	bool busy = false, was;

	scoped_lock(&mv->lock);
	was = mv->go;
	for (unsigned i = 0; i < MOVE_WORKERS; i++)
		busy |= mv->w[i].id != 0;
	if (io->drain == IO_DRAIN_EAGER)
		mv->go = true;
	else if (io->drain == IO_DRAIN_IDLE)
		mv->go = idle;
	/* All that a close let go is through. */
	else if (mv->n == 0 && !mv->scan && !mv->again && !busy && !staged)
		mv->go = false;
	if (mv->go && !was)
		cond_wake_all(&mv->cond);
}

/* ---- io_rest ---- */

struct rest_left {
	uint64_t segments, bytes, others;
};

static int count_left(struct io *io, struct rest_left *ret)
{
	scoped_free struct meta_segment *s = mem_array(MOVE_SCAN, sizeof(*s));
	struct meta_segment to;
	unsigned n = MOVE_SCAN;
	tess_segid at = 0;
	int e = s ? 0 : -ENOMEM;

	while (e == 0 && n == MOVE_SCAN) {
		e = meta_segments(io->meta, at, s, MOVE_SCAN, &n);
		for (unsigned i = 0; e == 0 && i < n; i++) {
			at = s[i].id;
			if (io_rest_place(io, &s[i], &to) == 0)
				continue;
			ret->segments++;
			ret->bytes += s[i].len;
			ret->others += is_others(io, at) == 1;
		}
	}
	return e;
}

static bool through_locked(const struct mover *mv)
{
	bool busy = mv->n > 0 || mv->scan || mv->scanning;

	for (unsigned i = 0; i < MOVE_WORKERS; i++)
		busy |= mv->w[i].id != 0;
	return !busy;
}

static int force(struct mover *mv, const struct tess_req *req, int *ret_err)
{
	int e = 0;

	scoped_lock(&mv->lock);
	mv->forced++;
	scan_begin_locked(mv);
	mv->fails = 0;
	mv->err = 0;
	cond_wake_all(&mv->cond);
	while (e == 0 && !mv->stopping && !through_locked(mv))
		e = io_wait_locked(&mv->cond, &mv->lock, req);
	if (e == 0 && mv->stopping)
		e = -TESS_E_STOPPING;
	mv->forced--;
	*ret_err = mv->err;
	cond_wake_all(&mv->cond);
	return e;
}

int io_rest(struct io *io, struct tess_req *req, struct text *why)
{
	struct rest_left left = { 0 };
	int e = io_sync_all(io, req), err = 0;

	if (e < 0 || !io->mover)
		return e;
	e = force(io->mover, req, &err);
	if (e == 0)
		e = count_left(io, &left);
	if (e < 0 || left.segments == 0)
		return e;
	text_fmt(why, "%" PRIu64 " segments, %" PRIu64 " bytes, are not on the rest tier", left.segments,
		 left.bytes);
	if (left.others > 0)
		text_fmt(why, "; %" PRIu64 " of them are for other mounts to move", left.others);
	if (err < 0)
		text_fmt(why, ": %s", err_text(err));
	return -TESS_E_NOT_AT_REST;
}

/* ---- start and stop ---- */

int move_start(struct io *io)
{
	struct mover *mv;
	int e = 0;

	if (io->rest.live == 0 || meta_session_id(io->meta) == 0)
		return 0;
	mv = mem_zalloc(sizeof(*mv));
	if (!mv)
		return -ENOMEM;
	mv->io = io;
	lock_init(&mv->lock, LOCK_LEAF, "io.move");
	cond_init(&mv->cond);
	mv->scan = true;
	mv->go = io->drain == IO_DRAIN_EAGER;
	io->mover = mv;
	for (unsigned i = 0; e == 0 && i < MOVE_WORKERS; i++) {
		struct move_worker *w = &mv->w[i];

		w->mv = mv;
		req_begin(&w->req, "move");
		e = thread_start(&w->thread, "io-move", worker_main, w);
		w->on = e == 0;
	}
	return e;
}

/* What is under way at a store is hurried: requests that reach one in this moment at the next call. */
static void hurry(struct mover *mv)
{
	for (unsigned i = 0; i < MOVE_WORKERS; i++) {
		struct move_worker *w = &mv->w[i];
		bool pinned;

		lock_take(&mv->lock);
		pinned = w->putting && io_put_pin(&w->put);
		lock_drop(&mv->lock);
		if (pinned)
			io_put_cancel(&w->put);
	}
	(void)io_fetch_hurry(mv->io);
}

static bool all_left(struct mover *mv)
{
	bool left = true;

	scoped_lock(&mv->lock);
	for (unsigned i = 0; i < MOVE_WORKERS; i++)
		left &= !mv->w[i].on || mv->w[i].left;
	if (!left)
		(void)cond_wait_until(&mv->cond, &mv->lock, clock_now() + NS_PER_S / 50);
	return left;
}

void move_stop(struct io *io)
{
	struct mover *mv = io->mover;

	if (!mv)
		return;
	lock_take(&mv->lock);
	mv->stopping = true;
	for (unsigned i = 0; i < MOVE_WORKERS; i++)
		atomic_store(&mv->w[i].req.cancelled, true);
	cond_wake_all(&mv->cond);
	lock_drop(&mv->lock);
	while (!all_left(mv))
		hurry(mv);
	for (unsigned i = 0; i < MOVE_WORKERS; i++) {
		if (mv->w[i].on)
			pthread_join(mv->w[i].thread, NULL);
		mv->w[i].on = false;
	}
}

bool move_stopped(struct io *io)
{
	return io->mover && stopping(io->mover);
}

void move_free(struct io *io)
{
	struct mover *mv = io->mover;

	if (!mv)
		return;
	cond_done(&mv->cond);
	lock_done(&mv->lock);
	free(mv);
	io->mover = NULL;
}
