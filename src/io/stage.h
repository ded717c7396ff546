/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_STAGE_H
#define IO_STAGE_H
/*
 * Open segments: local files that small pieces of many files are appended to, and that become a
 * segment on targets later (seal.c).
 *
 *   state     appends   extents say   bytes are in           leaves by
 *   OPEN      yes       staged        the staging file       full, idle, fsync, shutdown
 *   CLOSED    no        staged        the staging file       a seal worker takes it
 *   SEALING   no        staged        the file, being PUT    failure: CLOSED again, later
 *   SEALED    no        durable       targets, and the file  garbage collection unlinks the file
 *
 * An append that is not published yet keeps a use of its segment; sealing does not wait for it: the
 * publish then carries the segment as durable, with its checksums. Only a publish that is already on
 * its way with `staged` is waited for, or its record would undo the seal's.
 *
 * No thread waits for the PUT of a seal. How many of them a target may have under way is bounded,
 * and one over it is parked: a target that does not answer keeps its own and no other's.
 */
#include "io/io_int.h"

enum stage_state { STAGE_OPEN, STAGE_CLOSED, STAGE_SEALING, STAGE_SEALED };

struct stage_seg {
	struct htab_node    node;	/* key: segment id */
	struct list_node    link;	/* stage.segs, oldest first */
	struct io          *io;
	uint16_t            cls;
	uint32_t            size;	/* limit of used */
	uint64_t            used;	/* reserved from the front */
	int                 fd;		/* -1: closed again, nobody needs it */
	enum stage_state    state;
	unsigned            writing;	/* reserved and not yet written */
	unsigned            uses;	/* files with unpublished extents in it */
	unsigned            publishing;	/* publishes that say `staged`, between snapshot and commit */
	unsigned            reading;	/* reads of the file under way */
	bool                unsynced;	/* written since the last fdatasync */
	int                 sync_err;	/* of an fdatasync: never to be trusted again */
	bool                whole;	/* made here, size bytes long: may serve again */
	bool                committed;	/* SEALED, and the seal's transaction is through */
	bool                retired;	/* ... without a garbage record: unlinked after a checkpoint */
	uint64_t            retired_at;	/* kv_last() then */
	bool                unnamed;	/* retired, and no record named its objects then */
	bool                carried;	/* a publish said that its objects are there: a record may know them */
	int64_t             touched;	/* last append */
	unsigned            tries;	/* failed seals */
	int64_t             retry_at;
	int                 err;	/* of the last failed seal */
	uint64_t            attempt;	/* number of its last seal among all: stage.attempts then */
	uint64_t            birth;	/* stage.births then */
	bool                queued;	/* a seal is due, runs, or waits for its PUT */
	bool                parked;	/* ... for a place at its targets */
	bool                led;	/* ... that a sync asked for */
	int64_t             led_at;
	struct seal_put    *put;	/* owned by the seal */
	bool                adopted;	/* of a session that is dead */
	struct range_set    inodes;	/* with published bytes in it, some perhaps overwritten since */
	bool                anyones;	/* ... or so many that it counts as everybody's */
	struct meta_segment sealed;	/* SEALED: the record, and its checksums */
	uint32_t           *csums;
	uint32_t            ncsums;
	struct pool_job     job;
};

#define STAGE_SPARES 4u
#define STAGE_SPARE  ".free-"	/* prefix of a spare's name */

struct stage {
	struct io       *io;
	struct lock      lock;		/* LOCK_IO_STAGE, guards everything here and in stage_segs */
	struct cond      cond;		/* any of it changed */
	struct list_node segs;
	struct htab      table;
	int              dirfd;
	bool             dir_unsynced;
	bool             creating;
	uint64_t         bytes, limit;	/* of staging files that exist */
	unsigned         sealing;	/* of the segments, those `queued` */
	uint64_t         seal_bytes;	/* in memory, on their way to targets */
	uint64_t         births, attempts;
	bool             stopping;
	unsigned         syncing;	/* fdatasyncs under way */
	struct {
		tess_segid id;
		uint32_t   size;
	} spare[STAGE_SPARES];		/* files that are garbage and may serve again */
	unsigned         nspares;
	atomic_uint      syncs;		/* fsyncs since a file was last made */
	bool             early;		/* the syncer is wanted */
	struct cond      early_cond;
	pthread_t        syncer;
	bool             syncer_on;
};

int  stage_new(struct io *io, const char *dir, uint64_t limit);
void stage_free(struct stage *st);
/*
 * Room for len bytes in the open segment of (cls, size): *ret stays valid, and the segment unsealed,
 * until stage_write(); the use is the caller's until stage_unuse(). Waits while staging is full:
 * -TESS_E_STAGE_FULL at the deadline.
 */
int  stage_reserve(struct io *io, struct tess_req *req, const struct meta_layout *l, uint64_t len,
		   struct stage_seg **ret, uint64_t *ret_off);
bool stage_has_room(struct io *io, uint64_t len);	/* now; another may be faster */
/* So much that one file holds back by not publishing it. */
bool stage_is_much(struct io *io, uint64_t bytes);
/* Writes what was reserved, NULL: gives it up. */
int  stage_write(struct stage_seg *s, uint64_t off, const struct tess_iov *data);
void stage_unuse(struct io *io, tess_segid id);
/* How a publish that starts now describes the segment; *ret_csums is valid while it is used. */
void stage_publish_begin(struct io *io, uint64_t ino, tess_segid id, struct meta_new_segment *ret);
void stage_publish_end(struct io *io, tess_segid id);
/* Bytes of a staging file of any session: -TESS_E_STAGE_LOST when it is gone. */
int  stage_read(struct io *io, tess_segid id, uint64_t off, void *p, size_t n);
struct stage_seg *stage_find_locked(struct stage *st, tess_segid id);
void stage_close_idle_locked(struct stage_seg *s);
void stage_seg_free(struct stage_seg *s);

/* ---- stage_file.c ---- */
int  stage_create(struct io *io, const struct meta_layout *l, struct stage_seg **ret);
void stage_enter_locked(struct stage *st, struct stage_seg *s);
/* fdatasyncs what was appended before this call and what commits up to `serial` refer to. */
int  stage_sync(struct io *io, uint64_t serial);
void stage_sync_early(struct io *io);	/* a stage_sync() comes soon: starts without waiting */
int  stage_syncer_start(struct io *io);
void stage_drop_spares(struct stage *st);
/* Whether garbage collection must leave its bytes alone. */
bool stage_busy(struct io *io, tess_segid id);
int  stage_unlink(struct io *io, tess_segid id);
void stage_name(tess_segid id, char ret[17]);
/* Enters a staging file of another session, CLOSED. -TESS_E_STAGE_LOST. */
int  stage_adopt(struct io *io, const struct meta_segment *seg);
uint64_t stage_pending(struct io *io, uint64_t *ret_segments);	/* bytes not on targets */

/* ---- stage_ino.c ---- */
#define STAGE_ANY_INO 0u
void stage_note_locked(struct stage_seg *s, uint64_t ino);
bool stage_holds_locked(const struct stage_seg *s, uint64_t ino);
void stage_note_clone(struct io *io, uint64_t src, uint64_t dst);	/* after the clone's commit */
/* Looks for the file's bytes in what was adopted, when that has changed since. */
int  stage_note_adopted(struct io_file *f);

/* ---- seal.c ---- */
void seal_submit_locked(struct stage_seg *s);	/* OPEN or CLOSED → a worker will */
/* Full: on its way, or kept until the drain policy says so. */
void stage_filled_locked(struct stage_seg *s);
void seal_idle(struct io *io);			/* what the drain policy lets go, and failed ones whose back-off passed */
void seal_full(struct io *io);			/* all that waits: room is needed */
/* Seals all that is appended so far and waits; callers at one time share the seals. */
int  seal_all(struct io *io, const struct tess_req *req);
/* The same for what holds published bytes of the file, and nothing else is waited for. */
int  seal_file(struct io_file *f, const struct tess_req *req);
void seal_quiesce(struct io *io);		/* st->stopping is set: until no seal is under way */
void seal_adopt(struct io *io);			/* dead sessions' staging */
void seal_retired(struct io *io);		/* unlinks those whose checkpoint came */
#endif
