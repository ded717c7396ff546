/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAP_MAP_H
#define MAP_MAP_H
/*
 * The host of mappers: registry, plan builder, plan check. Pure. A piece costs what the mapper
 * takes for it plus O(log pieces).
 */
#include <tessera/mapper.h>

struct text;

const struct tess_mapper *map_find(const char *name);	/* NULL: unknown */
const struct tess_mapper *map_by_id(uint16_t id);
const struct tess_mapper *map_row(unsigned i);		/* i-th by name, NULL past the end */
void map_names(struct text *out);			/* "balanced, naive, write-optimized" */

struct tess_plan_piece {
	struct tess_range file;
	bool              fill;		/* published bytes to read, not dirty ones */
};
struct tess_plan_segment {
	unsigned first, n;		/* pieces [first, first + n) */
	uint64_t len;
};
struct tess_plan {
	struct tess_plan_segment *segs;		/* owned */
	struct tess_plan_piece   *pieces;	/* owned */
	unsigned nsegs, npieces, cap_segs, cap_pieces;
	uint64_t segment_size;			/* limit, set by map_plan_write() */
	int err;				/* first failed builder call: cannot be ignored */
};
void plan_done(struct tess_plan *p);	/* NULL-safe, zeroes */
/* A line per segment, "~" before a fill: "segment 0 (12288): 0+4096 ~4096+8192". */
void plan_to_text(const struct tess_plan *p, struct text *out);

/*
 * Asks `m` and checks what it said: every segment within segment_size and not empty, every planned
 * dirty byte dirty and planned once, every fill published, not dirty and planned once, and when
 * v->final all dirty bytes planned. `dirty` is ascending and disjoint. -TESS_E_PLAN, -ENOMEM;
 * *ret, which the caller gives to plan_done(), is written only on success.
 */
int map_plan_write(const struct tess_mapper *m, const struct tess_map_view *v,
		   const struct tess_range *dirty, unsigned n, struct tess_plan *ret);
#endif
