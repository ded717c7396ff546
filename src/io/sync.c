/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishing: what is stored becomes what everybody sees, one transaction a file, in order. And
 * checkpoints: what everybody sees becomes what survives a power cut.
 *
 *	begin (locked)    STORED nodes → extents, pend → pub
 *	meta_publish()    not locked: writes, reads and flushes go on
 *	end (locked)      nodes that still say what was published go
 *
 * Readers look at nodes and cuts first and at the namespace second, so between commit and end they
 * see the same bytes twice, and never not at all.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scoped.h"
#include "io/stage.h"
#include <string.h>

LOG_MODULE("io")

struct publish {
	struct io_file          *f;
	struct meta_publish      p;
	struct tess_extent      *ext;	/* owned, like the next two */
	struct tess_range       *punch;
	struct meta_new_segment *segs;
	unsigned                 staged;	/* how many of segs stage_publish_end() is due for */
	uint64_t                 round;
	uint64_t                 touches, sets;	/* of the file, when this was collected */
	bool                     no_fills;	/* somebody else published since they were read */
};

static void publish_free(struct publish *u)
{
	free(u->ext);
	free(u->punch);
	free(u->segs);
}

/* A failed publish leaves its cuts in `pub`. */
static int merge_cuts_locked(struct io_file *f)
{
	struct tess_range r = { 0, 0 };

	while (range_set_next(&f->pub.punched, r.off + r.len, &r))
		if (range_set_add(&f->pend.punched, r) < 0)
			return -ENOMEM;
	f->pend.trunc_to = io_cut_end_locked(f);
	range_set_done(&f->pub.punched);
	f->pub = f->pend;
	f->pend = (struct io_cut){ .trunc_to = META_NO_TRUNC };
	return 0;
}

static int collect_punches(struct publish *u)
{
	const struct range_set *s = &u->f->pub.punched;
	struct tess_range r = { 0, 0 };

	u->punch = mem_array(s->tree.n + 1, sizeof(*u->punch));
	if (!u->punch)
		return -ENOMEM;
	while (range_set_next(s, r.off + r.len, &r))
		u->punch[u->p.npunch++] = r;
	u->p.punch = u->punch;
	return 0;
}

/* Adds the segment of an extent, once. */
static void carry_segment(struct publish *u, struct io_seg *s)
{
	struct meta_new_segment *m = &u->segs[u->p.nsegs];

	if (s->carried)
		return;
	s->carried = true;
	m->seg = s->seg;
	m->csums = s->csums;
	m->ncsums = s->ncsums;
	if (s->staged) {
		stage_publish_begin(u->f->io, u->f->ino, s->seg.id, m);
		u->staged += m->seg.state == META_STAGED;
	}
	u->p.nsegs++;
}

static int collect_extents(struct publish *u)
{
	struct io_file *f = u->f;
	struct tess_extent *last = NULL;
	struct io_seg *s = NULL;

	u->ext = mem_array(f->dirty.nodes[DIRTY_STORED] + 1, sizeof(*u->ext));
	u->segs = mem_array(f->segs.n + 1, sizeof(*u->segs));
	if (!u->ext || !u->segs)
		return -ENOMEM;
	for (struct dirty_node *n = dirty_next(&f->dirty, 0); n; n = dirty_after(n)) {
		if (n->state != DIRTY_STORED || (n->fill && u->no_fills))
			continue;
		if (last && last->off + last->len == dirty_off(n) && last->seg == n->seg &&
		    last->seg_off + last->len == n->seg_off && last->turn == n->turn) {
			last->len += n->len;
			continue;
		}
		last = &u->ext[u->p.next++];
		*last = (struct tess_extent){ dirty_off(n), n->len, n->seg, n->seg_off, n->turn };
		if (!s || s->seg.id != n->seg)
			s = (struct io_seg *)tree_find(&f->segs, n->seg);
		carry_segment(u, s);
	}
	if (last)
		u->p.size = MAX(u->p.size, last->off + last->len);
	u->p.ext = u->ext;
	u->p.segs = u->segs;
	return 0;
}

static void carried_done_locked(struct publish *u, bool published)
{
	struct io_file *f = u->f;

	for (unsigned i = 0; i < u->p.nsegs; i++)
		if (u->segs[i].seg.state == META_STAGED)
			stage_publish_end(f->io, u->segs[i].seg.id);
	for (struct tree_node *t = tree_first(&f->segs), *next; t; t = next) {
		struct io_seg *s = (struct io_seg *)t;

		next = tree_next(t);
		if (published && s->round <= u->round) {
			/* All its bytes were overwritten before anybody saw them. */
			if (!s->carried && !s->staged)
				io_dead_add(f->io, &s->seg);
			io_seg_free(f, s);
		} else {
			s->carried = false;
		}
	}
}

/* 1: there is something to publish, and f->publishing is this thread's. */
static int publish_begin_locked(struct publish *u)
{
	struct io_file *f = u->f;
	int e;

	while (f->publishing)
		cond_wait(&f->cond, &f->lock);
	if (f->dirty.nodes[DIRTY_STORED] == 0 && f->mtime == 0 && f->set_size == IO_NO_SIZE &&
	    f->pend.punched.tree.n == 0 && f->pub.punched.tree.n == 0 &&
	    io_cut_end_locked(f) == META_NO_TRUNC)
		return 0;
	e = merge_cuts_locked(f);
	if (e == 0)
		e = collect_punches(u);
	if (e < 0)
		return e;
	u->touches = f->touches;
	u->sets = f->sets;
	u->p.trunc_to = f->pub.trunc_to;
	u->p.size = f->set_size == IO_NO_SIZE ? 0 : f->set_size;
	u->p.mtime = f->mtime;
	u->no_fills |= f->fill_mixed;
	/* Somebody else's bytes of since would be undone by them. */
	u->p.generation = u->no_fills ? 0 : f->fill_generation;
	e = collect_extents(u);
	if (e < 0) {
		carried_done_locked(u, false);
		return e;
	}
	u->round = f->round++;
	f->publishing = true;
	return 1;
}

/* With the fills left out their nodes must go as well. */
static void drop_fills_locked(struct io_file *f)
{
	struct dirty_node *n = dirty_next(&f->dirty, 0), *next;

	for (; n; n = next) {
		next = dirty_after(n);
		if (n->fill && n->state == DIRTY_STORED)
			(void)dirty_clip(&f->dirty, (struct tess_range){ dirty_off(n), n->len });
	}
}

static bool fills_left(const struct io_file *f)
{
	for (struct dirty_node *n = dirty_next(&f->dirty, 0); n; n = dirty_after(n))
		if (n->fill)
			return true;
	return false;
}

/* Those that are still on their way are of a generation that is not the newest any more. */
static void fills_age_locked(struct publish *u, uint64_t generation)
{
	struct io_file *f = u->f;

	if (f->fill_generation == 0)
		return;
	if (!fills_left(f)) {
		f->fill_generation = 0;
		f->fill_mixed = false;
	} else if (!u->no_fills && f->fill_generation == u->p.generation) {
		f->fill_generation = generation;	/* nobody but us published in between */
	} else if (u->no_fills || f->fill_generation != generation) {
		f->fill_mixed = true;
	}
}

static void publish_end_locked(struct publish *u, int err, const struct meta_attr *a)
{
	struct io_file *f = u->f;

	f->publishing = false;
	carried_done_locked(u, err == 0);
	cond_wake_all(&f->cond);
	if (err == -EAGAIN)
		return;
	if (err < 0) {
		io_file_failed_locked(f, err);
		return;
	}
	for (unsigned i = 0; i < u->p.next; i++)
		dirty_publish(&f->dirty, &u->ext[i]);
	if (u->no_fills)
		drop_fills_locked(f);
	fills_age_locked(u, a->generation);
	f->published++;
	f->staged = 0;
	f->fails = 0;
	range_set_done(&f->pub.punched);
	f->pub = (struct io_cut){ .trunc_to = META_NO_TRUNC };
	if (f->touches == u->touches)
		f->mtime = 0;
	if (f->sets == u->sets)
		f->set_size = IO_NO_SIZE;
	f->appended &= f->dirty.tree.n > 0;
	io_view_drop_locked(f);
	if (a->generation > f->generation)
		io_file_base_locked(f, a->size, a->generation);
	else	/* somebody looked since the commit, and took our changes for unpublished */
		io_file_size_locked(f);
}

void io_on_publish(struct io *io, void (*fn)(void *arg, uint64_t ino, uint64_t generation),
		   void *arg)
{
	io->published = fn;
	io->published_arg = arg;
}

/* -EAGAIN: somebody else published since the fills were read. */
static int publish_once(struct io_file *f, bool no_fills)
{
	struct publish u = { .f = f, .no_fills = no_fills };
	struct meta_attr a = { 0 };
	int64_t began = clock_now();
	int e;

	lock_take(&f->lock);
	e = publish_begin_locked(&u);
	lock_drop(&f->lock);
	if (e == 1) {
		e = fault_point("io.flush.commit");
		if (e == 0)
			e = meta_publish(f->io->meta, f->ino, &u.p, &a);
		/* While `publishing` holds the next one back. */
		for (unsigned i = 0; e == 0 && i < u.p.nsegs; i++)
			move_note(f->io, &u.segs[i].seg);
		if (e == 0 && f->io->published)
			f->io->published(f->io->published_arg, f->ino, a.generation);
		(void)fault_point("io.flush.committed");
		lock_take(&f->lock);
		publish_end_locked(&u, e, &a);
		lock_drop(&f->lock);
		io_count(f->io, IO_PUBLISHES, 1);
		io_count(f->io, IO_EXTENTS, u.p.next);
		trace_lat(&f->io->hists[IO_H_PUBLISH], clock_now() - began);
	}
	publish_free(&u);
	return e;
}

int io_publish(struct io_file *f)
{
	int e = publish_once(f, false);

	return e == -EAGAIN ? publish_once(f, true) : e;
}

/* ---- sync ---- */

static int store_and_publish(struct io_file *f, struct tess_req *req, bool soon)
{
	uint32_t seen = io_file_error_seq(f);
	uint64_t last;
	int e = io_flush_start(f, req, true, &last), waited, failed;

	waited = io_flush_wait(f, req, last);
	if (e == 0)
		e = waited;
	failed = io_file_error(f, &seen);
	if (e == 0)
		e = failed;
	if (e == 0 && soon)
		stage_sync_early(f->io);
	return e < 0 ? e : io_publish(f);
}

int io_sync_file(struct io_file *f, struct tess_req *req, enum io_sync how)
{
	struct io *io = f->io;
	int64_t began = clock_now();
	int e = 0;

	if (io_file_dirty(f))
		e = store_and_publish(f, req, how == IO_DURABLE && io->fsync_local);
	if (e == -TESS_E_FENCED)
		io_rescue_file(f);
	if (e == 0 && (how == IO_TARGETS || (how == IO_DURABLE && !io->fsync_local)))
		e = seal_file(f, req);
	if (e == 0 && how != IO_PUBLISH)
		e = io_checkpoint(io);
	trace_lat(&io->hists[IO_H_SYNC], clock_now() - began);
	return e;
}

struct sync_all {
	struct tess_req *req;
	int              err;
};

static void sync_one(struct io_file *f, void *arg)
{
	struct sync_all *a = arg;
	int e = io_sync_file(f, a->req, IO_PUBLISH);

	if (e < 0 && a->err == 0)
		a->err = e;
}

#define CUT_PATIENCE (2 * NS_PER_S)

static void cut_one(struct io_file *f, void *arg)
{
	const int64_t *deadline = arg;
	struct tess_req req;
	bool cut;
	int e;

	lock_take(&f->lock);
	cut = f->appended || io_cut_end_locked(f) != META_NO_TRUNC || f->pend.punched.tree.n > 0;
	lock_drop(&f->lock);
	if (!cut)
		return;
	req_begin(&req, "shared");
	req.ino = f->ino;
	req.deadline = *deadline;
	e = io_sync_file(f, &req, IO_PUBLISH);
	if (e < 0)
		log_warn("inode %llu: what was cut or appended is not published: %s",
			 (unsigned long long)f->ino, err_text(e));
}

void io_publish_cuts(struct io *io)
{
	/* For all of them: the watch is waiting, and with it the beat of this session's lease. */
	int64_t deadline = clock_now() + CUT_PATIENCE;

	io_files_each(io, cut_one, &deadline);
}

int io_sync_all(struct io *io, struct tess_req *req)
{
	struct sync_all a = { req, 0 };
	int e;

	io_adopted_wait(io);
	io_files_each(io, sync_one, &a);
	e = seal_all(io, req);
	if (a.err == 0)
		a.err = e;
	e = io_checkpoint(io);
	return a.err < 0 ? a.err : e;
}

/* ---- checkpoints ---- */

int io_checkpoint(struct io *io)
{
	struct kv *kv = meta_kv(io->meta);
	int64_t began = clock_now();
	int e;

	if (kv_durable(kv) >= kv_last(kv))
		return 0;
	e = fault_point("io.sync");
	if (e == 0)
		e = kv_sync(kv);
	io_count(io, IO_CHECKPOINTS, 1);
	trace_lat(&io->hists[IO_H_CHECKPOINT], clock_now() - began);
	return e;
}

/* What targets acknowledged before this call is durable after it; `all`: to any process. */
static int sync_targets(struct io *io, struct tess_req *req, bool all)
{
	for (unsigned i = 0; i < io->ntgt; i++) {
		struct io_tgt *t = &io->tgt[i];
		uint64_t changes = atomic_load(&t->changes);
		int e;

		if (changes == atomic_load(&t->synced) && !all)
			continue;
		if (!(t->store->caps.flags & STORE_DURABLE_ON_DONE)) {
			io_count(io, IO_BARRIERS, 1);
			e = store_barrier(t->store, req);
			if (e < 0)
				return e;
		}
		atomic_store(&t->synced, changes);
	}
	return 0;
}

/* A session that was killed counts until it is adopted: its commits are in the namespace, too. */
static bool others(struct io *io)
{
	struct meta_session s[2];
	unsigned n;

	return meta_sessions(io->meta, s, 2, &n) < 0 || n > 1;
}

/* What other sessions wrote we do not know, but a checkpoint makes their commits durable as well. */
int io_before_sync(struct io *io, uint64_t serial)
{
	bool inherited = atomic_exchange(&io->inherited, false), all = inherited || others(io);
	struct tess_req req;
	int e;

	req_begin(&req, "checkpoint");
	req.deadline = clock_now() + IO_DEADLINE;
	e = stage_sync(io, serial);
	if (e == 0 && all)
		e = syncfs(io->stage->dirfd) < 0 ? -errno : 0;
	if (e == 0)
		e = sync_targets(io, &req, all);
	if (e < 0 && inherited)
		atomic_store(&io->inherited, true);
	return e;
}

static void *committer_main(void *arg)
{
	struct io *io = arg;
	bool stop = false;

	/* What died before we opened: a daemon that is killed again and again would never come to it. */
	(void)io_gc_pass(io, clock_now() + NS_PER_S);
	while (!stop) {
		int64_t until = clock_now() + io->commit_interval;
		int e;

		lock_take(&io->lock);
		while (!io->stopping && !io->want_commit &&
		       cond_wait_until(&io->wake, &io->lock, until))
			;
		stop = io->stopping;
		io->want_commit = false;
		lock_drop(&io->lock);
		if (stop)
			break;
		e = io_checkpoint(io);
		if (e < 0)
			log_err("checkpoint: %s", err_text(e));
		else
			(void)io_gc_pass(io, clock_now() + NS_PER_S);
	}
	return NULL;
}

int io_committer_start(struct io *io)
{
	int e = thread_start(&io->committer, "io-commit", committer_main, io);

	io->committer_on = e == 0;
	return e;
}

void io_committer_kick(struct io *io)
{
	scoped_lock(&io->lock);
	io->want_commit = true;
	cond_wake_all(&io->wake);
}
