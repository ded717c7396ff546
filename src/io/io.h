/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_IO_H
#define IO_IO_H
/*
 * The data path. Bytes written to a file become dirty ranges in memory; a flush plans them into
 * segments (map), stores those on targets (oclass, store) or appends them to the session's open
 * segment (staging), and publishes them in one transaction (meta). Reads overlay dirty ranges on
 * published extents.
 *
 * A dirty range is in one of these states, and moves only to the right:
 *
 *   state      where its bytes are     a new write over it          a crash now
 *   MEM        buffer                  changes the bytes in place   loses it
 *   FROZEN     buffer, being stored    replaces (trims) the range   loses it
 *   STORED     segment, unpublished    replaces (trims) the range   loses it; gc finds the segment
 *   (gone)     segment, published      starts a new MEM range       keeps it, see durability
 *
 * Published bytes survive a kill at once and a power cut after the next checkpoint: every commit
 * interval, or the next io_sync_file(IO_DURABLE) of anybody.
 *
 * Errors: a failed store or publish leaves the range dirty when it can be tried again (-ENOSPC,
 * timeouts) until `retry_limit`, and is remembered on the file; io_file_error() reports it once per
 * handle. The old published content stays readable throughout, nothing that failed is called
 * durable later.
 *
 * Locks: io_file.lock (rank LOCK_IO_FILE) guards one file's dirty state; never held over store,
 * meta or staging I/O. Any thread may call anything; a call blocks only where its comment says so.
 */
#include "base/budget.h"
#include "base/req.h"
#include "meta/meta.h"
#include "store/store.h"
#include <tessera/types.h>

struct io;
struct io_file;

struct io_target {
	uint16_t      id;
	struct store *store;	/* borrowed until io_close() */
	double        weight;	/* placement weight; 0: draining */
	unsigned      tiers;	/* enum io_tier */
};
/* What the targets of a mount's tiers are for. When no target has a bit, there is no such tier. */
enum io_tier {
	IO_TIER_WRITE = 1,	/* takes new segments, of the classes that it has targets enough for */
	IO_TIER_REST = 2,	/* where segments belong: others are moved there in the background */
};

/* When what is staged goes to its targets, besides when an fsync, a full staging area or the end asks. */
enum io_drain {
	IO_DRAIN_EAGER,		/* full segments at once, others when they idle; whole stripes are not staged at all */
	/* In the others everything is staged first, and goes: */
	IO_DRAIN_CLOSE,		/* when a file is closed */
	IO_DRAIN_IDLE,		/* when nothing was read or written for idle_seal */
	IO_DRAIN_MANUAL,	/* when told to: io_sync_all(), IO_TARGETS */
};
struct io_conf {
	struct meta   *meta;		/* borrowed */
	struct budget *budget;		/* borrowed */
	const struct io_target *targets;/* copied */
	unsigned       ntargets;
	const char    *staging_dir;	/* existing directory on a local file system */
	uint64_t       staging_size;	/* bytes; writers wait when it is full */
	/* Pieces from here on go straight to targets; 0: 256 KiB when all targets are STORE_LOCAL, else the
	 * segment size. */
	uint64_t       direct_min;
	unsigned       threads;		/* flush workers; 0: 4 */
	int64_t        idle_seal;	/* ns an open segment may idle before it is sealed; 0: 1 s */
	int64_t        commit_interval;	/* ns between checkpoints when something was committed; 0: 5 s */
	enum io_drain  drain;
	bool           fsync_local;	/* fsync returns when staging is synced; else when targets hold the data */
	/* Made at need, SESSION/INO.OFFSET in it: what a fenced session could not publish; NULL: lost */
	const char    *rescue_dir;	/* borrowed */
	uint64_t       readahead;	/* bytes ahead of a sequential reader; 0: 16 MiB, bounded by the budget */
};
/*
 * Starts flush workers, sealer, committer, garbage collector; adopts and drains dead sessions'
 * staged segments in the background.
 */
int io_open(struct io **ret, const struct io_conf *conf, struct text *why);
/* Waits until what dead sessions left, their orphans included, is this session's. Waits for no store. */
void io_adopted_wait(struct io *io);
void io_adopt(struct io *io);	/* a session died: in the background, as at the start */
/*
 * This session was fenced: nothing it has not published ever will be. Writes what it holds of
 * each file to io_conf.rescue_dir, once; writes and syncs fail -TESS_E_FENCED from then on.
 */
void io_rescue(struct io *io);
/*
 * Publishes everything, seals and drains staging when `drain`, checkpoints, collects garbage that
 * may go, stops. Returns the first error and names what is not durable in `why`; always closes. All
 * io_files are closed before.
 */
int io_close(struct io *io, bool drain, struct text *why);
/*
 * kv_conf.before_sync of the composition root calls this: fdatasyncs staging and store_barrier()s
 * targets that changed.
 */
int io_before_sync(struct io *io, uint64_t serial);

/* ---- files ---- */

/* One per open inode, shared by its handles; the fs layer counts them. `attr`: as just read. */
int  io_file_open(struct io *io, const struct meta_attr *attr, struct io_file **ret);
/*
 * The last handle is gone: unpublished bytes are published in this call (or discarded when
 * `discard`: the inode is an orphan).
 */
void io_file_close(struct io_file *f, bool discard);

/*
 * Copies `len` bytes in. Blocks for memory (back-pressure, bounded by req's deadline), never for a store.
 * 0, -EFBIG, -ETIMEDOUT, -ENOMEM; all or nothing.
 */
int io_write(struct io_file *f, struct tess_req *req, uint64_t off, const void *p, size_t len);
bool io_write_waits(const struct io *io);	/* would io_write() wait for memory now? */

enum io_sync {
	IO_PUBLISH,	/* stored and published: other sessions see it, a kill keeps it */
	/*
	 * And survives a power cut: with fsync_local in synced staging, else on targets; shared
	 * with concurrent callers
	 */
	IO_DURABLE,
	IO_TARGETS,	/* and is on its targets, wherever fsync puts data */
};
/* Blocks. Publishes all bytes written before the call, with size and times, in one transaction. */
int io_sync_file(struct io_file *f, struct tess_req *req, enum io_sync how);
/*
 * `fn` hears of every generation this mount gives a file by publishing it, the file's in order; on
 * any thread, no lock held. Set before the first file is opened, NULL after the last is closed.
 */
void io_on_publish(struct io *io, void (*fn)(void *arg, uint64_t ino, uint64_t generation),
		   void *arg);
void io_closed(struct io *io);	/* a file was closed: with IO_DRAIN_CLOSE what is staged goes */
/* Every open file, staging sealed, checkpoint: `tessera flush`, umount */
int io_sync_all(struct io *io, struct tess_req *req);
/*
 * io_sync_all(), and moves what is not on the rest tier, whatever the drain policy says. -TESS_E_NOT_AT_REST
 * with `why`: something is left. 0 without such a tier.
 */
int io_rest(struct io *io, struct tess_req *req, struct text *why);
/* A checkpoint alone: fsyncdir, metadata-only fsync. */
int io_checkpoint(struct io *io);

/*
 * Cuts or extends. Takes effect for readers of this mount now; published with the next sync,
 * together with what is written after it.
 */
int io_truncate(struct io_file *f, struct tess_req *req, uint64_t size, int64_t now);
/* As long as that at least; cuts nothing, whatever others have published. */
int io_extend(struct io_file *f, uint64_t size, int64_t now);
/* Hole, size kept; published likewise. */
int io_punch(struct io_file *f, struct tess_req *req, struct tess_range r, int64_t now);
/* Bytes are about to be written to the end of the file, as this mount knows it. */
void io_appends(struct io_file *f);
/* Publishes every file whose cuts and appends nobody else sees yet: another session is about to write, too. */
void io_publish_cuts(struct io *io);
/* SEEK_DATA (data) or SEEK_HOLE over dirty and published bytes; -ENXIO. */
int io_seek(struct io_file *f, uint64_t off, bool data, uint64_t *ret);
/* Publishes both, then shares extents: no byte moves. dst_attr: after. */
int io_clone(struct io_file *src, uint64_t src_off, struct io_file *dst, uint64_t dst_off,
	     uint64_t len, struct tess_req *req, int64_t now, struct meta_attr *ret_dst);

/*
 * What other sessions published becomes visible to this file's handles: as of `a`, just read (io_file_look),
 * or of now (io_file_refresh). Until then reads without io_read.fresh may see it as of the last such
 * call, or as of now: a file moves on as a whole, and never back.
 */
void io_file_look(struct io_file *f, const struct meta_attr *a);
int  io_file_refresh(struct io_file *f);
/* Unpublished bytes are published at most so long (ns) after the first of them was written; 0: not by time. */
int  io_file_interval(struct io_file *f, int64_t ns);
/* Lays the unpublished size, mtime, ctime and bytes over `a`. */
void io_file_stat(struct io_file *f, struct meta_attr *a);
/* An explicit utimens wins over the pending times of earlier writes. */
void io_file_times_set(struct io_file *f, bool mtime, bool ctime);
/* The layout changed (setlayout on an open file): later segments follow it. */
void io_file_layout_set(struct io_file *f, const struct meta_layout *l);
bool io_file_dirty(struct io_file *f);
/* 0, or an error that happened since *seen; updates *seen. New handles start with io_file_error_seq(). */
int      io_file_error(struct io_file *f, uint32_t *seen);
uint32_t io_file_error_seq(struct io_file *f);

/*
 * Publishes len bytes at the end of the file as it is in the publishing transaction: appenders of
 * several sessions never overwrite each other, and each call's bytes stay together.
 */
#define IO_APPEND_MAX (UINT64_C(1) << 20)
int io_append(struct io_file *f, struct tess_req *req, const void *p, size_t len);

/* ---- reads ---- */

/* Read-ahead state of one handle: zero it at open; the io layer's. */
struct io_stream {
	uint64_t next, stride, ahead;
	uint32_t run;
	uint32_t misses;
};

#define IO_READ_IOVS 64
struct io_read {
	struct tess_req  *req;		/* borrowed until released */
	struct io_file   *file;
	struct io_stream *stream;	/* borrowed; NULL: no read-ahead */
	uint64_t          off, len;
	bool              fresh;	/* as published when the read begins, not when the file was looked at */
	/* Once, any thread, no lock held; maybe before io_read() returns */
	void            (*done)(struct io_read *);
	void             *owner;
	/* valid from done on: */
	int               err;
	uint64_t          n;			/* bytes; short only at the end of the file */
	struct iovec     *iov;			/* n bytes in total; owned by the read until io_read_release() */
	unsigned          niov;
	struct io_read_priv *priv;
};
/*
 * Gathers [off, off + len) as references to dirty buffers, cache, freshly read and verified bytes,
 * and zeros; never blocks on a remote store (a local store may use this thread). An object that is
 * missing because its segment died meanwhile makes it look the extents up again; a checksum
 * mismatch is read once more, then -TESS_E_CHECKSUM.
 */
void io_read(struct io_read *r);
void io_read_release(struct io_read *r);
/*
 * Some request's `cancelled` was set. Reads that wait for a store for its sake are hurried and end
 * with -ECANCELED or -EINTR; writes and syncs look themselves. Only sets a flag: may be called with any lock held.
 */
void io_given_up(struct io *io);
bool io_is_local(const struct io *io);	/* no target is behind a network: nothing waits for long */
/* Waits; for tools and tests. Returns bytes or negative. */
ssize_t io_read_sync(struct io_file *f, struct tess_req *req, uint64_t off, void *p, size_t len);

/* ---- whole-file-system work, also used by tools ---- */

struct io_gc {
	bool     dry_run;
	uint64_t garbage_objects, garbage_bytes;	/* known dead: in the garbage list */
	uint64_t orphan_objects, orphan_bytes;		/* on targets, of dead sessions, in no record */
	uint64_t staging_files;				/* of dead sessions, in no record */
	uint64_t kept;					/* not ours to judge: live sessions, foreign names */
	uint64_t deleted;
	void   (*fn)(void *arg, const char *what, const char *name, uint64_t bytes);	/* optional: each */
	void    *arg;
};
/* Aborts on any listing or metadata error, deletes nothing that it cannot prove dead. */
int io_gc(struct io *io, struct io_gc *gc);
/* Reads every shard of a segment back and verifies it: fsck --verify, scrub. */
int io_verify_segment(struct io *io, const struct meta_segment *seg, struct text *why);
/* "Is it safe to power off?": unpublished bytes, staged bytes not on targets, commits not checkpointed. */
struct io_pending {
	uint64_t dirty_bytes, dirty_files, staged_bytes, staged_segments, uncheckpointed;
};
void io_pending(struct io *io, struct io_pending *ret);
uint64_t io_staged(struct io *io);	/* bytes that targets have yet to take: not free, though no target counts them */
void io_to_text(struct io *io, struct text *out);

/* Appends what the file waits for: the oldest request to a store for its sake, or memory; nothing: not known. */
void io_waits(struct io *io, uint64_t ino, struct text *out);

/* What failed lately, each once with a count: of the caller's, and of background work that nobody waits for. */
#define IO_ERRORS 256u
struct io_error {
	uint64_t    ino;	/* 0: no file's alone */
	int         err;	/* negative */
	const char *what;	/* "fsync", "background flush": static */
	int64_t     first, last;/* wall clock, ns */
	uint64_t    count;
};
void     io_error_note(struct io *io, uint64_t ino, const char *what, int err);
unsigned io_errors(struct io *io, struct io_error ret[IO_ERRORS], bool clear);	/* how many, the newest first */
#endif
