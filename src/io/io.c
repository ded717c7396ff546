/* SPDX-License-Identifier: Apache-2.0 */
/* Building the data path up and taking it down. */
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/pages.h"
#include "base/scoped.h"
#include "io/read_int.h"
#include "io/stage.h"
#include <inttypes.h>
#include <string.h>

#define DIRECT_LOCAL (UINT64_C(256) << 10)	/* a PUT to a disk of this size costs no more than a seal's share */
#define QUEUE        65536u
#define ZEROS        (UINT64_C(256) << 10)
#define DRAIN_TRIES  5u
#define SEALERS      4u
#define TRIM_AFTER   (10 * NS_PER_S)

static const char *const counter_names[IO_NCOUNTERS] = {
	[IO_WRITE_BYTES] = "write.bytes", [IO_WRITES] = "writes", [IO_READ_BYTES] = "read.bytes",
	[IO_READS] = "reads", [IO_PUBLISHES] = "publishes", [IO_EXTENTS] = "publish.extents",
	[IO_SEGS_DIRECT] = "segments.direct", [IO_SEGS_STAGED] = "segments.sealed",
	[IO_APPENDS] = "stage.appends", [IO_APPEND_BYTES] = "stage.bytes",
	[IO_PUT_BYTES] = "put.bytes", [IO_GET_BYTES] = "get.bytes", [IO_GETS] = "gets",
	[IO_CACHE_HIT] = "cache.hits", [IO_CACHE_MISS] = "cache.misses",
	[IO_AHEAD_CHUNKS] = "ahead.chunks", [IO_AHEAD_USED] = "ahead.used",
	[IO_AHEAD_WASTED] = "ahead.wasted", [IO_CHECKPOINTS] = "checkpoints",
	[IO_STAGE_SYNCS] = "stage.syncs", [IO_BARRIERS] = "barriers",
	[IO_FLUSH_ERRORS] = "flush.errors", [IO_RETRIES] = "read.retries",
	[IO_GC_DELETED] = "gc.deleted", [IO_CHECKSUM_ERRORS] = "checksum.errors",
	[IO_VIEW_HIT] = "view.hit", [IO_VIEW_MISS] = "view.miss",
	[IO_RESCUED] = "fence.failed.bytes", [IO_MOVE_SEGS] = "move.segments",
	[IO_MOVE_BYTES] = "move.bytes", [IO_MOVE_FAILED] = "move.failed",
	[IO_MOVE_WAITING] = "move.waiting",
};
static const char *const hist_names[IO_NHISTS] = {
	[IO_H_SYNC] = "sync", [IO_H_PUT] = "put", [IO_H_PUBLISH] = "publish",
	[IO_H_CHECKPOINT] = "checkpoint",
};

static void trace_init(struct io *io)
{
	for (unsigned i = 0; i < IO_NCOUNTERS; i++)
		io->counters[i].name = counter_names[i];
	for (unsigned i = 0; i < IO_NHISTS; i++)
		io->hists[i].name = hist_names[i];
	memcpy(io->group.name, "io", 3);
	io->group.counters = io->counters;
	io->group.ncounters = IO_NCOUNTERS;
	io->group.hists = io->hists;
	io->group.nhists = IO_NHISTS;
	trace_register(&io->group);
}

/* ---- the minder ---- */

/* Nothing was read or written since the last look, long enough ago: buffers that wait for a taker go. */
static void trim_idle(struct io *io, uint64_t *seen, int64_t *due)
{
	uint64_t now = atomic_load(&io->counters[IO_WRITES].n) + atomic_load(&io->counters[IO_READS].n);

	if (now != *seen)
		io->busy = clock_now();
	if (now == *seen && clock_now() >= *due)
		pages_trim();
	if (now == *seen && clock_now() < *due)
		return;
	*seen = now;
	*due = clock_now() + TRIM_AFTER;
}

/* Several looks: a request may have been on its way to where it waits, or to its store. */
#define GIVEN_UP_LOOKS 10u

void io_given_up(struct io *io)
{
	atomic_store(&io->given_up, GIVEN_UP_LOOKS);
}

bool io_is_local(const struct io *io)
{
	return io->local;
}

static void hurry_given_up(struct io *io)
{
	if (atomic_load(&io->given_up) == 0)
		return;
	atomic_fetch_sub(&io->given_up, 1);
	if (io_fetch_hurry(io))
		io_given_up(io);
	cache_hurry(io);
}

static void tick_mover(struct io *io)
{
	uint64_t segments;

	if (io->mover)
		move_tick(io, io->busy + io->idle_seal <= clock_now(), stage_pending(io, &segments) > 0);
}

static void *minder_main(void *arg)
{
	struct io *io = arg;
	int64_t tick = MIN(io->idle_seal / 4 + 1, NS_PER_S / 10);
	bool stop = false, pressed;
	uint64_t seen = 0;
	int64_t due = 0;

	while (!stop) {
		int64_t until = clock_now() + (atomic_load(&io->intervals) ? MIN(tick, IO_TICK) : tick);

		lock_take(&io->lock);
		while (!io->stopping && !io->pressed &&
		       cond_wait_until(&io->wake, &io->lock, until))
			;
		stop = io->stopping;
		pressed = io->pressed;
		io->pressed = false;
		lock_drop(&io->lock);
		if (stop)
			break;
		if (pressed)
			io_flush_pressed(io);
		seal_idle(io);
		tick_mover(io);
		io_interval_pass(io);
		hurry_given_up(io);
		if (atomic_exchange(&io->failing, false))
			io_flush_retry(io);
		trim_idle(io, &seen, &due);
	}
	return NULL;
}

static int minder_start(struct io *io)
{
	int e = thread_start(&io->minder, "io-minder", minder_main, io);

	io->minder_on = e == 0;
	return e;
}

static void adopt_job(struct pool_job *j)
{
	struct io *io = container_of(j, struct io, adopt);

	seal_adopt(io);
	scoped_lock(&io->lock);
	io->adopting = false;
	cond_wake_all(&io->idle);
}

/* Not a step of io_open(): a large file system that was killed would take long to mount. */
static int adopt_start(struct io *io)
{
	int e;

	if (meta_session_id(io->meta) == 0)
		return 0;
	io->adopt.run = adopt_job;
	io->adopting = true;
	e = pool_submit(io->seal, &io->adopt);
	/* Only then: the job may be over by now, and has said so itself. */
	if (e < 0)
		io->adopting = false;
	return e;
}

void io_adopt(struct io *io)
{
	int e;

	lock_take(&io->lock);
	if (io->adopting || io->stopping) {
		lock_drop(&io->lock);
		return;
	}
	io->adopting = true;
	lock_drop(&io->lock);
	e = pool_submit(io->seal, &io->adopt);
	if (e == 0)
		return;
	scoped_lock(&io->lock);
	io->adopting = false;
	cond_wake_all(&io->idle);
}

/* The budget's: a writer waits for dirty memory. */
static void kick(void *arg)
{
	struct io *io = arg;

	scoped_lock(&io->lock);
	io->pressed = true;
	cond_wake_all(&io->wake);
}

/* ---- open ---- */

static void set_conf(struct io *io, const struct io_conf *conf)
{
	uint64_t share = budget_limit(conf->budget) / 8;

	io->meta = conf->meta;
	io->budget = conf->budget;
	io->direct_min = conf->direct_min;
	io->chunk = io->local ? IO_CHUNK : IO_CHUNK_NET;
	if (io->direct_min == 0 && io->local)
		io->direct_min = DIRECT_LOCAL;
	io->commit_interval = conf->commit_interval ? conf->commit_interval : 5 * NS_PER_S;
	io->idle_seal = conf->idle_seal ? conf->idle_seal : NS_PER_S;
	io->fsync_local = conf->fsync_local;
	io->rescue_dir = conf->rescue_dir;
	io->drain = conf->drain;
	io->readahead = conf->readahead ? conf->readahead : UINT64_C(16) << 20;
	io->readahead = MIN(io->readahead, share);
}

static int start_pools(struct io *io, unsigned threads)
{
	int e = pool_new(&io->flush, "io-flush", threads ? threads : 4, QUEUE);

	if (e == 0)
		e = pool_new(&io->seal, "io-seal", SEALERS, QUEUE);
	if (e == 0)
		e = pool_new(&io->ahead, "io-ahead", 4, 256);
	return e;
}

static void stop_threads(struct io *io)
{
	lock_take(&io->lock);
	io->stopping = true;
	cond_wake_all(&io->wake);
	lock_drop(&io->lock);
	if (io->stage) {
		lock_take(&io->stage->lock);
		io->stage->stopping = true;
		cond_wake_all(&io->stage->cond);
		cond_wake_all(&io->stage->early_cond);
		lock_drop(&io->stage->lock);
		if (io->stage->syncer_on)
			pthread_join(io->stage->syncer, NULL);
		seal_quiesce(io);
	}
	if (io->minder_on)
		pthread_join(io->minder, NULL);
	move_stop(io);
	if (io->committer_on)
		pthread_join(io->committer, NULL);
	pool_free(io->timed);
	pool_free(io->ahead);
	pool_free(io->flush);
	pool_free(io->seal);
}

static void io_free(struct io *io)
{
	struct list_node *n;

	budget_set_reclaim(io->budget, NULL, NULL, NULL);
	stop_threads(io);
	if (io->cache) {
		cache_drain(io);
		cache_free(io);
	}
	stage_free(io->stage);
	move_free(io);
	while ((n = list_pop_front(&io->dead)))
		free(list_entry(n, struct io_dead, link));
	buf_unref(io->zero);
	trace_unregister(&io->group);
	lock_done(&io->gc_lock);
	lock_done(&io->rescue_lock);
	lock_done(&io->errors_lock);
	lock_done(&io->fetch_lock);
	cond_done(&io->idle);
	cond_done(&io->wake);
	lock_done(&io->lock);
	free(io);
}

int io_open(struct io **ret, const struct io_conf *conf, struct text *why)
{
	struct io *io = mem_zalloc(sizeof(*io));
	int e;

	if (!io)
		return -ENOMEM;
	lock_init(&io->lock, LOCK_IO_SYNC, "io");
	cond_init(&io->wake);
	cond_init(&io->idle);
	lock_init(&io->gc_lock, LOCK_LEAF, "io.gc");
	lock_init(&io->rescue_lock, LOCK_LEAF, "io.rescue");
	lock_init(&io->fetch_lock, LOCK_LEAF, "io.fetches");
	lock_init(&io->errors_lock, LOCK_LEAF, "io.errors");
	list_init(&io->fetches);
	list_init(&io->files);
	list_init(&io->dead);
	io_set_targets(io, conf);
	set_conf(io, conf);
	trace_init(io);
	io->zero = buf_new(io->budget, MEM_IO, ZEROS);
	if (io->zero)
		memset(io->zero->data, 0, ZEROS);
	e = io->zero ? cache_new(io) : -ENOMEM;
	if (e == 0) {
		e = stage_new(io, conf->staging_dir, conf->staging_size);
		if (e < 0 && why)
			text_fmt(why, "staging directory %s: %s", conf->staging_dir, err_text(e));
	}
	if (e == 0)
		e = stage_syncer_start(io);
	if (e == 0)
		e = start_pools(io, conf->threads);
	if (e == 0)
		budget_set_reclaim(io->budget, cache_reclaim, kick, io);
	if (e == 0)
		e = move_start(io);
	if (e == 0)
		e = minder_start(io);
	if (e == 0)
		e = io_committer_start(io);
	if (e == 0)
		e = adopt_start(io);
	if (e < 0) {
		io_free(io);
		return e;
	}
	*ret = io;
	return 0;
}

/* ---- close ---- */

void io_adopted_wait(struct io *io)
{
	scoped_lock(&io->lock);
	io->closing++;
	while (io->adopting)
		cond_wait(&io->idle, &io->lock);
	io->closing--;
}

static int drain(struct io *io, struct text *why)
{
	uint64_t n, bytes;
	struct tess_req req;
	int e = 0;

	req_begin(&req, "drain");
	io_adopted_wait(io);
	for (unsigned i = 0; i < DRAIN_TRIES; i++) {
		e = seal_all(io, &req);
		if (e == 0 || e == -ETIMEDOUT)
			break;
		clock_sleep(NS_PER_S / 10);
	}
	bytes = stage_pending(io, &n);
	if (e < 0 && why)
		text_fmt(why, "%s%" PRIu64 " bytes in %" PRIu64 " staged segments are not on their "
			 "targets: %s", why->n ? "; " : "", bytes, n, err_text(e));
	return e;
}

int io_close(struct io *io, bool drain_too, struct text *why)
{
	int e = 0, failed;

	if (!io)
		return 0;
	move_stop(io);
	if (drain_too)
		e = drain(io, why);
	failed = io_checkpoint(io);
	if (failed < 0) {
		if (why && e == 0)
			text_fmt(why, "what was written last may not survive a power cut: %s",
				 err_text(failed));
		e = e < 0 ? e : failed;
	} else {
		(void)io_gc_pass(io, clock_now() + NS_PER_S);
	}
	io_free(io);
	return e;
}

/* ---- looking in ---- */

static void pending_file(struct io_file *f, void *arg)
{
	struct io_pending *p = arg;

	scoped_lock(&f->lock);
	if (!io_file_dirty_locked(f))
		return;
	p->dirty_files++;
	for (unsigned s = 0; s < DIRTY_NSTATES; s++)
		p->dirty_bytes += f->dirty.bytes[s];
}

void io_pending(struct io *io, struct io_pending *ret)
{
	struct kv *kv = meta_kv(io->meta);
	uint64_t last = kv_last(kv), durable = kv_durable(kv);

	*ret = (struct io_pending){ 0 };
	io_files_each(io, pending_file, ret);
	ret->staged_bytes = stage_pending(io, &ret->staged_segments);
	ret->uncheckpointed = last > durable ? last - durable : 0;
}

void io_to_text(struct io *io, struct text *out)
{
	struct io_pending p;

	io_pending(io, &p);
	text_fmt(out, "dirty: %" PRIu64 " bytes in %" PRIu64 " files\n", p.dirty_bytes,
		 p.dirty_files);
	text_fmt(out, "staged: %" PRIu64 " bytes in %" PRIu64 " segments\n", p.staged_bytes,
		 p.staged_segments);
	text_fmt(out, "commits since the last checkpoint: %" PRIu64 "\n", p.uncheckpointed);
	text_fmt(out, "cache: %" PRIu64 " bytes\n", cache_bytes(io));
	for (unsigned i = 0; i < IO_NCOUNTERS; i++)
		text_fmt(out, "%s: %" PRIu64 "\n", counter_names[i],
			 (uint64_t)atomic_load(&io->counters[i].n));
}
