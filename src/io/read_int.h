/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_READ_INT_H
#define IO_READ_INT_H
/* What the files of the read path share: fetches from targets, the segment cache, read-ahead. */
#include "io/io_int.h"

/* ---- read_fetch.c: a range of a durable segment, verified ---- */
struct io_fetch {
	struct io          *io;
	struct tess_req    *req;	/* borrowed until done */
	struct meta_segment seg;
	struct tess_range   want;	/* in the segment */
	uint32_t           *csums;	/* owned; of the blocks that `want` touches. NULL: meta has them */
	void              (*done)(struct io_fetch *);	/* once, any thread, maybe before start returns */
	void               *owner;
	/* valid from done on */
	int                 err;
	struct buf         *buf;	/* a reference, the fetch's */
	uint64_t            at;		/* of want.off in buf */
	/* private */
	enum mem_use        use;	/* in: what the buffer is charged to */
	struct tess_range   wide;	/* want, widened to checksummed blocks */
	struct store_op    *ops;
	struct iovec       *iovs;
	unsigned            nops, tries;
	atomic_uint         left;
	atomic_int          first_err;
	struct list_node    link;	/* io->fetches */
};
void io_fetch_start(struct io_fetch *f);
/* Cancels the requests of those whose `req` was given up. True: there were some. */
bool io_fetch_hurry(struct io *io);
void io_fetch_done(struct io_fetch *f);		/* frees what it owns, not itself */
/* The blocks of a segment of `len` bytes that `want` touches. */
struct tess_range io_fetch_blocks(struct tess_range want, uint64_t len);

/* ---- cache.c: chunks of durable segments ---- */
struct cache_wait {
	struct list_node link;
	const struct tess_req *req;	/* who waits; borrowed */
	void (*fn)(struct cache_wait *w, struct buf *b, int err);	/* b: borrowed for the call */
};
enum cache_got { CACHE_MISS, CACHE_HIT, CACHE_WAIT };
int  cache_new(struct io *io);
void cache_free(struct io *io);		/* no load is in flight */
/*
 * HIT: *ret is a reference. WAIT: w->fn comes later, with no lock held. w NULL: only looks, nothing
 * is returned or called. `end`: of the bytes that a run wants, in the chunk; 0: no run, it will be back.
 */
enum cache_got cache_get(struct io *io, tess_segid seg, uint32_t chunk, struct buf **ret,
			 struct cache_wait *w, uint64_t end);
/* Starts loading a chunk unless it is there or on its way. 0 or -ENOMEM. */
int  cache_load(struct io *io, const struct meta_segment *seg, uint32_t chunk, bool ahead);
/* Counts a miss of `len` bytes; true: load the chunk, there will be more. */
bool cache_often_missed(struct io *io, const struct meta_segment *seg, uint32_t chunk, uint64_t len);
void cache_hurry(struct io *io);	/* ends the waits of requests that were given up with -EINTR */
void cache_reclaim(void *io, uint64_t want);	/* frees about this much of what nobody uses */
void cache_drain(struct io *io);		/* waits for loads */
uint64_t cache_bytes(struct io *io);

/* ---- ahead.c ---- */
/*
 * Notes a read of `r` of a handle's stream, and of the one of `all` handles of its file, and what it says of
 * the next ones. `*ret` is what is to be read ahead now, empty when nothing is. true: the read is part of
 * a run. The file's lock is held.
 */
bool ahead_note(struct io_stream *one, struct io_stream *all, struct tess_range r, uint64_t limit,
		struct tess_range *ret);
void ahead_start(struct io_file *f, struct tess_range r);
#endif
