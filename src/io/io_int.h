/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_IO_INT_H
#define IO_IO_INT_H
/*
 * What the files of the data path share and nobody else sees.
 *
 * Threads: `flush` workers plan, stage and PUT; `seal` workers turn staging files into segments
 * (of their own, since a flush may wait for staging space that only a seal frees); `ahead` workers
 * read ahead; one committer checkpoints and collects garbage; one minder adopts, seals what idles,
 * retries and answers memory pressure. Only io_sync_*(), io_close() and these threads wait for stores.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/htab.h"
#include "base/lock.h"
#include "base/pool.h"
#include "base/range.h"
#include "base/text.h"
#include "base/trace.h"
#include "io/dirty.h"
#include "io/io.h"
#include "map/map.h"
#include "oclass/oclass.h"
#include "oclass/place.h"
#include <pthread.h>
#include <stdatomic.h>

#define IO_NO_SIZE       UINT64_MAX
#define IO_RETRY_LIMIT   8u		/* failed flushes of a file in a row before only a sync tries again */
#define IO_NODES_MAX     65536u		/* unpublished ranges of a file; one more publishes: bounds memory and transactions */
#define IO_SCATTER_MAX   (UINT64_C(64) << 20)	/* scattered dirty bytes of a file that wait to be sorted */
#define IO_SCATTER_PIECE (UINT64_C(16) << 10)	/* mean piece below which dirty bytes count as scattered */
#define IO_DEADLINE      (120 * NS_PER_S)	/* of background store requests */
#define IO_TICK          (20 * NS_PER_MS)	/* how late a publish by time may be */
#define IO_LOOK          (100 * NS_PER_MS)	/* between two looks whether a waiting request was given up */
#define IO_CHUNK         (UINT64_C(1) << 20)	/* of a segment: what the cache holds and read-ahead fetches */
#define IO_CHUNK_NET     (UINT64_C(4) << 20)	/* the same where each GET has to be asked for over a network */

enum io_counter {
	IO_WRITE_BYTES, IO_WRITES, IO_READ_BYTES, IO_READS, IO_PUBLISHES, IO_EXTENTS, IO_SEGS_DIRECT,
	IO_SEGS_STAGED, IO_APPENDS, IO_APPEND_BYTES, IO_PUT_BYTES, IO_GET_BYTES, IO_GETS, IO_CACHE_HIT,
	IO_CACHE_MISS, IO_AHEAD_CHUNKS, IO_AHEAD_USED, IO_AHEAD_WASTED, IO_CHECKPOINTS, IO_STAGE_SYNCS,
	IO_BARRIERS, IO_FLUSH_ERRORS, IO_RETRIES, IO_GC_DELETED, IO_CHECKSUM_ERRORS,
	IO_VIEW_HIT, IO_VIEW_MISS, IO_RESCUED, IO_MOVE_SEGS, IO_MOVE_BYTES, IO_MOVE_FAILED, IO_MOVE_WAITING,
	IO_NCOUNTERS
};
enum io_hist { IO_H_SYNC, IO_H_PUT, IO_H_PUBLISH, IO_H_CHECKPOINT, IO_NHISTS };

struct io_tgt {
	uint16_t      id;
	struct store *store;		/* borrowed */
	atomic_uint_fast64_t changes;	/* PUTs and DELs acknowledged */
	atomic_uint_fast64_t synced;	/* how many of them a barrier covers */
	unsigned      seals;		/* PUTs of seals under way; by the lock of staging */
};

/* The targets that a kind of segment is placed on. */
struct io_set {
	struct place_target t[TESS_TARGETS_MAX];
	unsigned n, live;	/* live: weight > 0 */
};

struct stage;
struct cache;
struct mover;
struct io {
	struct meta     *meta;		/* borrowed */
	struct budget   *budget;	/* borrowed */
	struct io_tgt    tgt[TESS_TARGETS_MAX];
	unsigned         ntgt;
	struct io_set    all, write, rest;	/* write, rest: of a tier; n 0: there is none */
	bool             local;		/* all targets are STORE_LOCAL */
	uint64_t         direct_min;	/* 0: by segment size */
	uint32_t         segment_max;	/* what every target takes as one object, in whole blocks */
	uint64_t         chunk;		/* IO_CHUNK or IO_CHUNK_NET */
	int64_t          commit_interval, idle_seal;
	bool             fsync_local;
	const char      *rescue_dir;	/* borrowed; or NULL */
	struct lock      rescue_lock;	/* LOCK_LEAF: one manifest line at a time */
	enum io_drain    drain;
	atomic_bool      drain_now;	/* the next look drains what is staged */
	int64_t          busy;		/* the minder's: when something was last read or written */
	uint64_t         readahead;
	struct pool     *flush, *seal, *ahead;
	struct pool     *timed;		/* made with the first interval; by: lock */
	atomic_uint      intervals;	/* files that have one */

	struct lock      lock;		/* LOCK_IO_SYNC: the list of files, the threads' signals */
	struct cond      wake;		/* committer and minder */
	struct cond      idle;		/* closers: a file's last reference went. Not `wake`: closes are frequent */
	unsigned         closing;	/* how many wait there */
	bool             making_room;	/* room.c */
	struct list_node files;		/* struct io_file.link */
	uint64_t         nfiles;
	bool             stopping, pressed, want_commit;
	bool             minder_on, committer_on;
	pthread_t        minder, committer;
	struct pool_job  adopt;		/* once, in `seal` */
	bool             adopting;	/* by: lock */
	atomic_bool      inherited;	/* from one that is not registered any more: the next checkpoint syncs for it */
	atomic_bool      failing;	/* some file waits to be tried again */

	atomic_uint      epoch;		/* readers register in reading[epoch & 1] */
	atomic_uint_fast64_t reading[2];
	struct lock      gc_lock;	/* LOCK_IO_FILE: dead, unlinks; and one collection at a time */
	struct list_node dead;		/* struct io_dead: stored, never published, nobody's */
	bool             collecting;

	atomic_uint_fast64_t view_bytes;	/* of all files' remembered extents */

	struct lock      fetch_lock;	/* LOCK_LEAF */
	struct list_node fetches;	/* struct io_fetch.link: those that a read may give up */
	atomic_uint      given_up;	/* some request was cancelled: looks for it that are left */

	struct lock      errors_lock;	/* LOCK_LEAF */
	struct io_error  errors[IO_ERRORS];
	unsigned         nerrors;

	struct stage    *stage;		/* owned */
	struct cache    *cache;		/* owned */
	struct mover    *mover;		/* owned; NULL: no rest tier */
	struct buf      *zero;		/* what holes read as */
	void           (*published)(void *arg, uint64_t ino, uint64_t generation);
	void            *published_arg;
	struct trace_group   group;
	struct trace_counter counters[IO_NCOUNTERS];
	struct trace_hist    hists[IO_NHISTS];
};

static inline void io_count(struct io *io, enum io_counter c, uint64_t n)
{
	trace_add(&io->counters[c], n);
}

/* What readers must not see of published bytes, until a publish says so to everybody. */
struct io_cut {
	uint64_t         trunc_to;	/* META_NO_TRUNC: nothing cut */
	struct range_set punched;
};

/* A file's layout, resolved. */
struct io_layout {
	struct meta_layout layout;
	struct oclass    cls;
	const struct tess_mapper *mapper;
	int              err;		/* 0, or why nothing can be stored with it */
};

/* A segment that holds unpublished bytes of a file. */
struct io_seg {
	struct tree_node    tree;	/* io_file.segs; key: segment id */
	struct meta_segment seg;
	uint32_t           *csums;	/* owned; NULL while staged */
	uint32_t            ncsums;
	bool                staged;	/* holds a use of the staging segment */
	bool                carried;	/* by the publish in flight */
	uint64_t            round;	/* io_file.round when bytes were last added */
};

struct io_file {
	struct io       *io;
	struct list_node link;		/* io->files; io->lock */
	atomic_uint      refs;		/* jobs, flushes and walkers: io_file_close() waits for them */
	uint64_t         ino;
	struct lock      lock;		/* LOCK_IO_FILE, guards the rest */
	struct cond      cond;		/* something below finished */
	struct dirty     dirty;
	uint64_t         size, generation;
	uint64_t         base_size;	/* of what is published at `generation` */
	struct io_stream stream;	/* of reads through all handles */
	int64_t          mtime;		/* of unpublished writes; 0: none */
	uint64_t         set_size;	/* a truncate's, to be published even without bytes; IO_NO_SIZE: none */
	bool             appended;	/* some of the dirty bytes lie where the end was thought to be */
	uint64_t         touches, sets;	/* how often those two were set: to the same value, perhaps */
	struct io_cut    pend, pub;	/* for the next publish; in the one in flight */
	struct io_layout lay;
	struct tree      view;		/* published extents of `generation`, as looked up */
	uint64_t         view_size;	/* the published size then */
	int64_t          interval;	/* io_file_interval() */
	struct tree      segs;		/* struct io_seg: stored, unpublished */
	struct list_node inflight;	/* struct io_flush.link, in order of their numbers */
	uint64_t         flushes;	/* number of the newest */
	uint64_t         staged;	/* bytes staged since the last publish */
	uint64_t         flush_at;	/* MEM bytes at which the next background flush is due */
	uint64_t         round;		/* of publishes */
	uint64_t         published, cuts;	/* publishes, and truncates and punches, so far */
	uint64_t         fill_generation;	/* that unpublished fills were read at; 0: none */
	bool             fill_mixed;	/* ... at different ones: they are dropped */
	bool             planning, publishing;
	bool             queued;	/* job is in the pool or running */
	bool             again, want_final, want_publish;	/* for the job */
	struct pool_job  job;
	int              err;		/* the newest failure */
	uint32_t         err_seq;	/* how many failures */
	unsigned         fails;		/* in a row */
	int64_t          retry_at;
	bool             rescued;	/* fenced: its bytes are saved elsewhere, no new ones come */
	bool             rescuing;	/* ... are being saved */
	uint64_t         adoptions;	/* stage_seg.birth of the last adopted one that was looked into */
	int64_t          dirtied;	/* with an interval: when unpublished bytes were first seen; 0: there were none */
	struct pool_job  timed;		/* publishes by time */
	bool             timed_queued;
};

/* ---- put.c: one segment to its targets ---- */
struct io_put {
	struct io          *io;
	struct tess_req     req;
	struct meta_segment seg;
	struct tess_iov     data;	/* borrowed until done */
	uint64_t            stay;	/* shards that are where they belong: bit i */
	uint32_t           *csums;	/* owned; filled when done() is called with err 0 */
	uint32_t            ncsums;
	atomic_uint         left;
	atomic_int          err;
	int64_t             began;
	struct store_op    *ops;	/* owned */
	struct iovec       *iovs;	/* owned */
	void              (*done)(struct io_put *);
};
/* Fills cls, width, cell and targets; `seed` chooses those. */
int  io_geometry(struct io *io, const struct oclass *cls, uint32_t segment_size, uint64_t seed,
		 struct meta_segment *ret);
int  io_geo(const struct meta_segment *s, struct oclass_geo *ret);	/* of a record: checked */
void io_put_start(struct io_put *p);	/* done() comes once, maybe before this returns */
void io_put_done(struct io_put *p);	/* frees what it owns */
/* Once it was started: holds done() back, unless it came, until io_put_cancel(), which hurries all there is. */
bool io_put_pin(struct io_put *p);
void io_put_cancel(struct io_put *p);
struct io_tgt *io_target(struct io *io, uint16_t id);	/* NULL: unknown */
void io_target_changed(struct io_tgt *t);

/* ---- tier.c ---- */
void io_set_targets(struct io *io, const struct io_conf *conf);
/* 1: the segment belongs elsewhere, *ret says where, with its id, class and bytes; 0: it is at rest, or cannot be. */
int  io_rest_place(const struct io *io, const struct meta_segment *now, struct meta_segment *ret);
bool io_takes_new(const struct io *io, const struct place_target *t);	/* new segments, or those that spill */
/* The write tier is full: the segment, of which nothing is kept, goes to the rest tier. false: there is none. */
bool io_spill(struct io *io, struct meta_segment *inout);

/* ---- move.c ---- */
int  move_start(struct io *io);
void move_stop(struct io *io);		/* waits for no store; may be called again */
bool move_stopped(struct io *io);	/* by move_stop() */
void move_free(struct io *io);
void move_note(struct io *io, const struct meta_segment *s);	/* is durable and published: is it at rest? */
void move_closed(struct io *io);				/* a file was closed */
void move_tick(struct io *io, bool idle, bool staged);		/* the minder's, several times a second */

/* ---- flush.c ---- */
/* Plans and starts storing MEM bytes; waits for staging space, not for PUTs. *ret_last: number of the newest flush. */
int  io_flush_start(struct io_file *f, struct tess_req *req, bool final, uint64_t *ret_last);
/* Until flushes up to `last` are settled. */
/* -EINTR, -ETIMEDOUT: `req` was given up; what was started goes on. */
int  io_flush_wait(struct io_file *f, const struct tess_req *req, uint64_t last);
/* One wait, of at most a moment: nobody wakes the condition of a request that was given up. */
int  io_wait_locked(struct cond *c, struct lock *l, const struct tess_req *req);
void io_flush_schedule_locked(struct io_file *f, bool final);	/* a job in the pool, soon */
void io_flush_check_locked(struct io_file *f);			/* after a write: is one due? */
void io_flush_pressed(struct io *io);			/* memory is short: every dirty file */
void io_flush_retry(struct io *io);			/* files whose back-off has passed */
void io_file_failed_locked(struct io_file *f, int err);
uint64_t io_direct_min(const struct io *io, uint32_t segment_size);

/* ---- flush_view.c: what a mapper may ask, and the published bytes that move along ---- */
struct io_fill {
	struct tess_range range;
	struct buf *buf;	/* a reference */
	uint64_t    generation;	/* of the file when it was read */
};
unsigned io_view_extents(const struct tess_map_view *v, struct tess_range r,
			 struct tess_extent *ret, unsigned max);
/* Reads r; -ENODATA when not all of it is published. */
int  io_fill_read(struct io_file *f, struct tess_req *req, struct tess_range r, struct io_fill *ret);
bool io_cut_hides(const struct io_cut *c, struct tess_range r);	/* any byte of it */
uint64_t io_cut_end_locked(const struct io_file *f);	/* published bytes from here on are gone */

/* ---- view.c ---- */
/*
 * As meta_map(), for what handles see: of f->generation when it is remembered, else (or `fresh`) of now. When
 * ret->generation is another than f->generation the caller tells io_file_base_locked() and starts anew.
 */
int  io_view(struct io_file *f, struct tess_range r, bool fresh, struct meta_map *ret);
void io_view_drop_locked(struct io_file *f);
/* Segment `lost` (0: one of them) was not where it says; `again`: nor after the last such call. */
void io_view_lost(struct io_file *f, tess_segid lost, bool again);
/* The namespace has `generation` with `size`; unpublished changes stay on top of it. */
void io_file_base_locked(struct io_file *f, uint64_t size, uint64_t generation);
void io_file_size_locked(struct io_file *f);	/* anew: of what is published, and of changes on top of it */

/* ---- yield.c ---- */
/* Before a look at the dirty bytes of [off, end): those that others wrote over later and published go. */
int io_yield(struct io_file *f, uint64_t off, uint64_t end);

/* ---- interval.c ---- */
void io_interval_pass(struct io *io);	/* the minder's: files whose time has come are published, by others */

/* ---- rescue.c ---- */
void io_rescue_file(struct io_file *f);	/* the first call does it */

/* ---- sync.c ---- */
int  io_publish(struct io_file *f);
void io_file_touch_locked(struct io_file *f, int64_t now);	/* its bytes change */
bool io_file_dirty_locked(const struct io_file *f);
int  io_committer_start(struct io *io);
void io_committer_kick(struct io *io);

/* ---- file.c ---- */
void io_file_get(struct io_file *f);
void io_file_put(struct io_file *f);
/* Calls fn for every open file, with a reference held and no lock. */
void io_files_each(struct io *io, void (*fn)(struct io_file *, void *), void *arg);
void io_seg_free(struct io_file *f, struct io_seg *s);

/* ---- gc.c ---- */
/* Asked after what is judged was seen: a session registers before it writes, so one that is not there is over. */
bool io_session_lives(struct io *io, uint32_t id);
unsigned io_read_enter(struct io *io);
void io_read_leave(struct io *io, unsigned epoch);
/* Waits until reads that began before are over. false: `deadline` passed. */
bool io_read_quiesce(struct io *io, int64_t deadline);
/* Waits for the bytes of one stored segment range: flush, verify. */
int  io_fetch_sync(struct io *io, struct tess_req *req, const struct meta_segment *seg, uint64_t off,
		   void *p, size_t n);

struct io_dead {
	struct list_node    link;
	struct meta_segment seg;
};
void io_dead_add(struct io *io, const struct meta_segment *seg);	/* objects that nothing will ever refer to */
bool io_gc_pass(struct io *io, int64_t deadline);	/* false: another thread is at it */

/* ---- room.c ---- */
/*
 * 0, or -TESS_E_STORE_FULL: so many bytes more could be staged, but never stored. May collect garbage
 * first, for seconds. A file that was closed without an error must find its place later.
 */
int  io_room_for(struct io *io, uint64_t len);
void io_make_room(struct io *io);	/* a target was full: deletes what is dead; callers share one go */

/* ---- io.c ---- */
int io_minder_start(struct io *io);
#endif
