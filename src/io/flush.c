/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conductor: MEM ranges are planned into segments; each segment's ranges are frozen and their
 * bytes put on targets, or appended to staging when there are few of them. Publishing is sync.c's.
 *
 * One thread plans a file at a time, so MEM ranges may grow, shrink or change while the mapper
 * thinks, but none of them is frozen by anybody else. What a truncate took meanwhile is left out.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scoped.h"
#include "io/stage.h"
#include <string.h>

LOG_MODULE("io")

/* A planned segment on its way. */
struct io_flush {
	struct list_node   link;	/* f->inflight */
	struct list_node   ready;	/* frozen, to be sent */
	uint64_t           no;
	struct io_file    *f;		/* a reference */
	struct io_put      put;
	struct pool_job    job;
	struct stage_seg  *stage;	/* NULL: direct */
	uint64_t           seg_off;	/* of the first byte */
	struct tess_range *pieces;	/* owned; dirty ones, then npieces says how many are in */
	struct io_fill    *fills;	/* owned, in place of a piece with range.len 0 */
	unsigned           npieces;
	uint64_t           published, cuts;	/* f's, when the fills were read */
	uint64_t           len;		/* gathered */
	struct iovec      *iov;		/* owned */
	struct buf       **bufs;	/* owned, a reference each */
	unsigned           niov, cap;
	struct io_seg     *seg;		/* owned until the bytes are stored */
	bool               again;	/* the target was full once already */
};

static void flush_free(struct io_flush *w)
{
	for (unsigned i = 0; i < w->niov; i++)
		buf_unref(w->bufs[i]);
	for (unsigned i = 0; w->fills && i < w->npieces; i++)
		buf_unref(w->fills[i].buf);
	io_put_done(&w->put);
	free(w->pieces);
	free(w->fills);
	free(w->iov);
	free(w->bufs);
	free(w->seg);
	free(w);
}

uint64_t io_direct_min(const struct io *io, uint32_t segment_size)
{
	uint64_t min = io->direct_min ? io->direct_min : segment_size;

	return MIN(min, (uint64_t)segment_size);
}

void io_file_failed_locked(struct io_file *f, int err)
{
	f->err = err;
	f->err_seq++;
	/* Nothing makes up for having been fenced. */
	f->fails = err == -TESS_E_FENCED ? IO_RETRY_LIMIT + 1 : f->fails + 1;
	f->retry_at = clock_now() + NS_PER_S / 20 +
		      clock_backoff(MIN(f->fails, 8u), NS_PER_S / 20, 10 * NS_PER_S);
	atomic_store(&f->io->failing, true);
	io_count(f->io, IO_FLUSH_ERRORS, 1);
	io_error_note(f->io, f->ino, "store", err);
}

/* The file's note of where its unpublished bytes are; several appends to one open segment share it. */
static void note_segment_locked(struct io_flush *w)
{
	struct io_file *f = w->f;
	uint64_t end = w->seg_off + w->len;

	struct io_seg *s = (struct io_seg *)tree_find(&f->segs, w->put.seg.id);

	if (s) {
		s->seg.len = MAX(s->seg.len, end);
		s->round = f->round;
		stage_unuse(f->io, s->seg.id);
		return;
	}
	w->seg->seg = w->put.seg;
	w->seg->seg.len = end;
	w->seg->staged = w->stage != NULL;
	w->seg->csums = steal_ptr(w->put.csums);
	w->seg->ncsums = w->put.ncsums;
	w->seg->round = f->round;
	w->seg->tree.key = w->put.seg.id;
	(void)tree_insert(&f->segs, &w->seg->tree);
	w->seg = NULL;
}

/* The bytes are stored, or are not; frees w. */
static void flush_settle(struct io_flush *w, int err)
{
	struct io_file *f = w->f;

	lock_take(&f->lock);
	for (unsigned i = 0; i < w->npieces; i++) {
		struct tess_range r = w->pieces[i].len ? w->pieces[i] : w->fills[i].range;

		dirty_settle(&f->dirty, r, w->no, err == 0);
	}
	if (err == 0 && w->len > 0)
		note_segment_locked(w);
	else if (w->stage)
		stage_unuse(f->io, w->put.seg.id);
	if (err < 0)
		io_file_failed_locked(f, err);
	else
		f->fails = 0;
	list_remove(&w->link);
	if (err == 0 && w->stage)
		f->staged += w->len;
	if (err == 0 && (f->dirty.nodes[DIRTY_STORED] > IO_NODES_MAX || stage_is_much(f->io, f->staged))) {
		f->want_publish = true;
		io_flush_schedule_locked(f, false);
	}
	cond_wake_all(&f->cond);
	lock_drop(&f->lock);
	flush_free(w);
	io_file_put(f);
}

static void flush_again_job(struct pool_job *j)
{
	struct io_flush *w = container_of(j, struct io_flush, job);

	/* One more try for where it went instead. */
	if (io_spill(w->put.io, &w->put.seg))
		w->again = false;
	else
		io_make_room(w->put.io);
	io_put_done(&w->put);
	io_put_start(&w->put);
}

static void flush_put_done(struct io_put *p)
{
	struct io_flush *w = container_of(p, struct io_flush, put);
	int e = atomic_load(&p->err);

	if (err_fold(e) == -ENOSPC && !w->again) {
		w->again = true;
		w->job.run = flush_again_job;
		if (pool_try(p->io->flush, &w->job) == 0)
			return;
	}
	if (e == 0)
		io_count(p->io, IO_SEGS_DIRECT, 1);
	flush_settle(w, e);
}

static void flush_put_job(struct pool_job *j)
{
	struct io_flush *w = container_of(j, struct io_flush, job);

	io_put_start(&w->put);
}

/* ---- gathering ---- */

static int add_iov(struct io_flush *w, struct buf *b, uint64_t at, uint64_t len)
{
	char *p = b->data + at;

	w->len += len;
	if (w->niov > 0 && w->bufs[w->niov - 1] == b &&
	    (char *)w->iov[w->niov - 1].iov_base + w->iov[w->niov - 1].iov_len == p) {
		w->iov[w->niov - 1].iov_len += len;
		return 0;
	}
	if (w->niov == w->cap) {
		unsigned cap = w->cap ? w->cap * 2 : 8;
		struct iovec *v = mem_resize(w->iov, cap, sizeof(*v));
		struct buf **bufs;

		if (!v)
			return -ENOMEM;
		w->iov = v;
		bufs = mem_resize(w->bufs, cap, sizeof(*bufs));
		if (!bufs)
			return -ENOMEM;
		w->bufs = bufs;
		w->cap = cap;
	}
	w->iov[w->niov] = (struct iovec){ p, len };
	w->bufs[w->niov++] = buf_ref(b);
	return 0;
}

/* Freezes the MEM nodes of r and gathers them. */
static int freeze_piece_locked(struct io_flush *w, struct tess_range r)
{
	struct dirty *d = &w->f->dirty;
	struct dirty_node *n;
	int e = dirty_cut(d, r.off);

	if (e == 0)
		e = dirty_cut(d, r.off + r.len);
	if (e < 0)
		return e;
	for (n = dirty_next(d, r.off); n && dirty_off(n) < r.off + r.len; n = dirty_after(n)) {
		if (n->state != DIRTY_MEM)
			continue;
		dirty_freeze(d, n, w->no, w->put.seg.id, w->seg_off + w->len);
		e = add_iov(w, n->buf, n->at, n->len);
		if (e < 0)
			return e;
	}
	return 0;
}

/* Published bytes that move along, unless something happened to them since they were read. */
static int freeze_fill_locked(struct io_flush *w, const struct io_fill *fill)
{
	struct io_file *f = w->f;
	struct dirty_node like = { .flush = w->no, .seg = w->put.seg.id,
				   .seg_off = w->seg_off + w->len, .turn = META_TURN_MOVED };
	int e;

	if (!fill->buf || f->published != w->published || f->cuts != w->cuts)
		return 0;
	e = dirty_fill(&f->dirty, fill->range, fill->buf, &like);
	if (e == 0)
		e = add_iov(w, fill->buf, 0, fill->range.len);
	if (f->fill_generation != 0 && f->fill_generation != fill->generation)
		f->fill_mixed = true;
	f->fill_generation = fill->generation;
	return e;
}

static int freeze(struct io_flush *w)
{
	struct io_file *f = w->f;
	int e = 0;

	scoped_lock(&f->lock);
	w->no = ++f->flushes;
	for (unsigned i = 0; e == 0 && i < w->npieces; i++)
		e = w->pieces[i].len ? freeze_piece_locked(w, w->pieces[i]) :
				       freeze_fill_locked(w, &w->fills[i]);
	list_push_back(&f->inflight, &w->link);
	return e;
}

/* ---- one planned segment ---- */

static int read_fills(struct io_flush *w, struct tess_req *req, const struct tess_plan_piece *p)
{
	bool any = false;

	for (unsigned i = 0; i < w->npieces; i++)
		any |= p[i].fill;
	if (!any)
		return 0;
	w->fills = mem_array(w->npieces, sizeof(*w->fills));
	if (!w->fills)
		return -ENOMEM;
	lock_take(&w->f->lock);
	w->published = w->f->published;
	w->cuts = w->f->cuts;
	lock_drop(&w->f->lock);
	for (unsigned i = 0; i < w->npieces; i++) {
		if (!p[i].fill)
			continue;
		/* What cannot be read stays where it is: the extents there remain as they are. */
		w->fills[i].range = p[i].file;
		(void)io_fill_read(w->f, req, p[i].file, &w->fills[i]);
	}
	return 0;
}

static struct io_flush *flush_new(struct io_file *f, const struct tess_plan_piece *p, unsigned n)
{
	struct io_flush *w = mem_zalloc(sizeof(*w));

	if (!w)
		return NULL;
	w->pieces = mem_array(n, sizeof(*w->pieces));
	w->seg = mem_zalloc(sizeof(*w->seg));
	if (!w->pieces || !w->seg) {
		flush_free(w);
		return NULL;
	}
	for (unsigned i = 0; i < n; i++)
		if (!p[i].fill)
			w->pieces[i] = p[i].file;
	w->npieces = n;
	list_init(&w->link);
	w->put.io = f->io;
	w->put.done = flush_put_done;
	req_begin(&w->put.req, "flush");
	w->put.req.ino = f->ino;
	w->put.req.deadline = clock_now() + IO_DEADLINE;
	w->put.seg.owner = f->ino;
	w->put.seg.state = META_DURABLE;
	w->f = f;
	io_file_get(f);
	return w;
}

/* Where the segment goes. May wait for staging space. */
static int flush_place(struct io_flush *w, struct tess_req *req, const struct io_layout *lay,
		       uint64_t len)
{
	struct io *io = w->f->io;
	bool stripe = len >= io_direct_min(io, lay->layout.segment_size);
	int e;

	/* More unpublished bytes than staging holds would wait for room that only their publish makes. */
	if (stripe && (io->drain == IO_DRAIN_EAGER || !stage_has_room(io, lay->layout.segment_size))) {
		w->put.seg.id = meta_segment_new(io->meta);
		return io_geometry(io, &lay->cls, lay->layout.segment_size, w->f->ino,
				   &w->put.seg);
	}
	e = stage_reserve(io, req, &lay->layout, len, &w->stage, &w->seg_off);
	if (e < 0)
		return e;
	w->put.seg.id = w->stage->node.key;
	w->put.seg.cls = lay->layout.cls;
	w->put.seg.state = META_STAGED;
	w->put.seg.owner = TESS_PACKED_INO;
	return 0;
}

static void flush_send(struct io_flush *w, bool here)
{
	struct io *io = w->f->io;
	struct tess_iov data = { w->iov, w->niov, w->len };

	w->put.data = data;
	w->job.run = flush_put_job;
	if (w->stage)
		flush_settle(w, stage_write(w->stage, w->seg_off, &data));
	else if (here || !io->local || pool_submit(io->flush, &w->job) < 0)
		io_put_start(&w->put);
}

/* Freezes one planned segment and puts it on `ready`. */
static int flush_one(struct io_file *f, const struct io_layout *lay, struct tess_req *req,
		     const struct tess_plan *plan, unsigned i, struct list_node *ready)
{
	const struct tess_plan_segment *s = &plan->segs[i];
	struct io_flush *w = flush_new(f, plan->pieces + s->first, s->n);
	int e = w ? read_fills(w, req, plan->pieces + s->first) : -ENOMEM;

	if (e == 0)
		e = flush_place(w, req, lay, s->len);
	if (e < 0) {
		if (w)
			flush_free(w);
		if (w)
			io_file_put(f);
		return e;
	}
	e = freeze(w);
	if (e < 0 || w->len == 0) {
		if (w->stage)
			(void)stage_write(w->stage, w->seg_off, NULL);
		flush_settle(w, e);
		return e;
	}
	list_push_back(ready, &w->ready);
	return 0;
}

static void flush_send_all(struct list_node *ready)
{
	struct list_node *n;

	while ((n = list_pop_front(ready)))
		flush_send(list_entry(n, struct io_flush, ready), list_empty(ready));
}

static void view_locked(struct io_file *f, bool final, struct tess_map_view *ret)
{
	*ret = (struct tess_map_view){
		.ino = f->ino,
		.file_size = f->size,
		.segment_size = f->lay.layout.segment_size,
		.direct_min = io_direct_min(f->io, f->lay.layout.segment_size),
		.final = final,
		.extents = io_view_extents,
		.host = f,
	};
}

/* Takes the planner's seat: 1, 0 when there is nothing to plan, or negative. */
static int plan_begin_locked(struct io_file *f, const struct tess_req *req,
			     struct tess_range **ret, unsigned *ret_n)
{
	int e;

	while (f->planning) {
		e = io_wait_locked(&f->cond, &f->lock, req);
		if (e < 0)
			return e;
	}
	if (f->dirty.nodes[DIRTY_MEM] == 0)
		return 0;
	if (f->lay.err < 0) {
		io_file_failed_locked(f, f->lay.err);
		return f->lay.err;
	}
	e = dirty_ranges(&f->dirty, ret, ret_n);
	f->planning = e == 0;
	return e < 0 ? e : 1;
}

/*
 * Plans, and freezes what is planned. Sending is apart from it, because a PUT to a local store is this
 * thread's work, and the next segments of the file need not wait for that to be planned.
 */
static int flush_prepare(struct io_file *f, struct tess_req *req, bool final,
			 struct list_node *ready)
{
	scoped_free struct tess_range *ranges = NULL;
	struct tess_plan plan = { 0 };
	struct tess_map_view v;
	struct io_layout lay;
	unsigned n = 0;
	int e;

	lock_take(&f->lock);
	e = plan_begin_locked(f, req, &ranges, &n);
	view_locked(f, final, &v);
	lay = f->lay;
	lock_drop(&f->lock);
	if (e <= 0)
		return e;
	e = map_plan_write(lay.mapper, &v, ranges, n, &plan);
	for (unsigned i = 0; e == 0 && i < plan.nsegs; i++)
		e = flush_one(f, &lay, req, &plan, i, ready);
	plan_done(&plan);
	scoped_lock(&f->lock);
	f->planning = false;
	f->flush_at = f->dirty.bytes[DIRTY_MEM] + f->lay.layout.segment_size;
	if (e < 0)
		io_file_failed_locked(f, e);
	cond_wake_all(&f->cond);
	return e;
}

int io_flush_start(struct io_file *f, struct tess_req *req, bool final, uint64_t *ret_last)
{
	struct list_node ready = LIST_INIT(ready);
	int e = flush_prepare(f, req, final, &ready);

	lock_take(&f->lock);
	*ret_last = f->flushes;
	lock_drop(&f->lock);
	flush_send_all(&ready);
	return e;
}

int io_wait_locked(struct cond *c, struct lock *l, const struct tess_req *req)
{
	int64_t until = clock_now() + IO_LOOK;

	if (atomic_load(&req->cancelled))
		return -EINTR;
	if (req_expired(req))
		return -ETIMEDOUT;
	(void)cond_wait_until(c, l, MIN(until, req->deadline));
	return 0;
}

int io_flush_wait(struct io_file *f, const struct tess_req *req, uint64_t last)
{
	int e;

	scoped_lock(&f->lock);
	for (;;) {
		bool any = false;

		list_for_each(n, &f->inflight)
			any |= list_entry(n, struct io_flush, link)->no <= last;
		if (!any)
			return 0;
		e = io_wait_locked(&f->cond, &f->lock, req);
		if (e < 0)
			return e;
	}
}

/* ---- in the background ---- */

static void flush_job(struct pool_job *j)
{
	struct io_file *f = container_of(j, struct io_file, job);
	struct list_node ready = LIST_INIT(ready);
	bool final, publish;
	struct tess_req req;
	int e;

	lock_take(&f->lock);
	final = f->want_final;
	publish = f->want_publish;
	f->again = f->want_final = f->want_publish = false;
	lock_drop(&f->lock);
	req_begin(&req, "flush");
	req.ino = f->ino;
	e = flush_prepare(f, &req, final, &ready);
	if (e == 0 && publish)
		e = io_publish(f);
	if (e < 0)
		log_warn("inode %llu: cannot store dirty bytes: %s", (unsigned long long)f->ino,
			 err_text(e));
	lock_take(&f->lock);
	f->queued = false;
	if (f->again && f->fails == 0)
		io_flush_schedule_locked(f, false);
	lock_drop(&f->lock);
	flush_send_all(&ready);
	io_file_put(f);
}

void io_flush_schedule_locked(struct io_file *f, bool final)
{
	f->want_final |= final;
	if (f->queued) {
		f->again = true;
		return;
	}
	f->job.run = flush_job;
	io_file_get(f);
	f->queued = true;
	if (pool_try(f->io->flush, &f->job) == 0)
		return;
	/* Full: the next write, or the minder under pressure, tries again. */
	f->queued = false;
	atomic_fetch_sub(&f->refs, 1);
}

/*
 * A run goes as soon as it makes a segment. Scattered pieces wait for their neighbours until there are
 * many of them: sorted, they make fewer extents and better segments.
 */
void io_flush_check_locked(struct io_file *f)
{
	uint64_t mem = f->dirty.bytes[DIRTY_MEM], limit = budget_limit(f->io->budget) / 8;
	bool scattered = mem < f->dirty.nodes[DIRTY_MEM] * IO_SCATTER_PIECE;

	if (mem < f->flush_at || f->queued || f->planning)
		return;
	if (f->fails > 0 && (f->fails >= IO_RETRY_LIMIT || clock_now() < f->retry_at))
		return;
	if (!scattered || mem >= MIN(IO_SCATTER_MAX, limit))
		io_flush_schedule_locked(f, scattered);
}

struct pressure {
	uint64_t mem, frozen;
};

static void measure_file(struct io_file *f, void *arg)
{
	struct pressure *p = arg;

	scoped_lock(&f->lock);
	p->mem += f->dirty.bytes[DIRTY_MEM];
	p->frozen += f->dirty.bytes[DIRTY_FROZEN];
}

static void press_file(struct io_file *f, void *arg)
{
	int64_t now = clock_now();

	(void)arg;
	scoped_lock(&f->lock);
	if (f->dirty.nodes[DIRTY_MEM] > 0 && !f->queued && f->retry_at <= now)
		io_flush_schedule_locked(f, true);
}

/*
 * Memory is short. When much of it is on its way to targets it comes back soon, and cutting the
 * runs of busy writers into short segments would only make work.
 */
void io_flush_pressed(struct io *io)
{
	struct pressure p = { 0 };

	io_files_each(io, measure_file, &p);
	if (p.frozen < p.mem / 4)
		io_files_each(io, press_file, NULL);
}

static void retry_file(struct io_file *f, void *arg)
{
	int64_t now = clock_now();

	(void)arg;
	scoped_lock(&f->lock);
	if (f->fails == 0 || f->fails >= IO_RETRY_LIMIT)
		return;
	atomic_store(&f->io->failing, true);
	if (f->retry_at > now || f->queued)
		return;
	if (f->dirty.bytes[DIRTY_MEM] >= f->flush_at || f->want_publish)
		io_flush_schedule_locked(f, false);
}

void io_flush_retry(struct io *io)
{
	io_files_each(io, retry_file, NULL);
}
