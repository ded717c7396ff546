/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_DIRTY_H
#define IO_DIRTY_H
/*
 * The unpublished bytes of one file: disjoint ranges in a tree by file offset. Not locked: the
 * file's lock is the caller's.
 *
 *   state    bytes are in                  written over by
 *   MEM      buf[at, at + len)             copying into the buffer, unless pinned or of another turn
 *   FROZEN   the same, a flush reads them  a new node; this one is trimmed
 *   STORED   segment seg at seg_off        a new node; this one is trimmed
 *
 * Several nodes may share a buffer; each owns its bytes of it, and at most one of them the room
 * behind its last byte, so that a run of writes fills one buffer and never the same byte twice.
 */
#include "base/buf.h"
#include "base/tree.h"
#include <tessera/types.h>

enum dirty_state { DIRTY_MEM, DIRTY_FROZEN, DIRTY_STORED, DIRTY_NSTATES };

struct dirty_node {
	struct tree_node tree;		/* key: file offset */
	uint64_t    len;
	struct buf *buf;		/* a reference; NULL when STORED */
	uint32_t    at;			/* of the first byte in buf */
	uint32_t    room;		/* free bytes of buf behind the last one, this node's to fill */
	tess_segid  seg;		/* FROZEN, STORED */
	uint64_t    seg_off;		/* likewise */
	uint64_t    turn;		/* in which the bytes were written */
	uint64_t    flush;		/* FROZEN: which flush has it */
	uint8_t     state;		/* enum dirty_state */
	bool        pinned;		/* a reader refers to the buffer: the bytes are immutable */
	bool        fill;		/* published bytes that move along, not new ones */
};

struct dirty {
	struct tree    tree;
	struct budget *budget;		/* borrowed */
	uint64_t       bytes[DIRTY_NSTATES];
	uint64_t       nodes[DIRTY_NSTATES];
	uint64_t       last_end;	/* of the last write, and the buffer size it got: the next one that */
	uint64_t       last_cap;	/* continues it gets twice as much */
	uint64_t       next_cap;	/* last_cap, once the write is in */
};

void dirty_init(struct dirty *d, struct budget *b);
void dirty_done(struct dirty *d);

static inline uint64_t dirty_off(const struct dirty_node *n)
{
	return n->tree.key;
}
static inline uint64_t dirty_end(const struct dirty_node *n)
{
	return n->tree.key + n->len;
}

/*
 * Copies bytes in, written in `turn`; `segment` is what buffers never cross a multiple of, so that whole
 * buffers make segments. 0 or -ENOMEM, then nothing changed.
 */
int dirty_write(struct dirty *d, struct tess_range r, const void *p, uint64_t segment, uint64_t turn);
/* Forgets a range: 0 or -ENOMEM (a split), then nothing changed. */
int dirty_clip(struct dirty *d, struct tess_range r);
/* Makes `at` a border between nodes. 0 or -ENOMEM. */
int dirty_cut(struct dirty *d, uint64_t at);
/* First node that ends after `from`, or NULL. */
struct dirty_node *dirty_next(const struct dirty *d, uint64_t from);
static inline struct dirty_node *dirty_after(const struct dirty_node *n)
{
	return (struct dirty_node *)tree_next(&n->tree);
}
/* The MEM ranges, ascending, touching ones merged; *ret is the caller's to free. 0 or -ENOMEM. */
int dirty_ranges(const struct dirty *d, struct tess_range **ret, unsigned *ret_n);
/* MEM → FROZEN. */
void dirty_freeze(struct dirty *d, struct dirty_node *n, uint64_t flush, tess_segid seg,
		  uint64_t seg_off);
/* Puts buf[0, r.len) at r as FROZEN where there is nothing: bytes of published extents that move along. */
int dirty_fill(struct dirty *d, struct tess_range r, struct buf *b, const struct dirty_node *like);
/* What flush `flush` froze in r and nobody replaced becomes STORED, or MEM again. */
void dirty_settle(struct dirty *d, struct tess_range r, uint64_t flush, bool stored);
/* Drops STORED nodes, or what is left of them, that say what `e` says: it is published. */
void dirty_publish(struct dirty *d, const struct tess_extent *e);
/* Aborts when the books do not agree with the tree: tests. */
void dirty_check(const struct dirty *d);
#endif
