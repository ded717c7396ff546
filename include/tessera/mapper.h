/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_MAPPER_H
#define TESSERA_MAPPER_H
/*
 * A mapper is the policy that turns dirty file ranges into segments. It is pure: no I/O, no lock, no
 * clock, no global; the same input gives the same plan. The host (src/map) checks every plan.
 */
#include <tessera/opt.h>
#include <tessera/types.h>

#define TESS_MAPPER_ABI 2u	/* 2: struct tess_extent has a turn */

/* What a mapper may know of the file. Borrowed for the call. */
struct tess_map_view {
	uint64_t ino;
	uint64_t file_size;	/* with the dirty ranges applied */
	uint64_t segment_size;	/* of the file's layout: limit of one planned segment, TESS_BLOCK multiple */
	uint64_t direct_min;	/* segments shorter than this are staged; ≤ segment_size */
	bool     final;		/* everything must be planned: close, fsync, memory pressure. Else whole segments suffice */
	/* The published extents that overlap [off, off + len), in order, at most `max`; for read-around mappers. */
	unsigned (*extents)(const struct tess_map_view *, struct tess_range r, struct tess_extent *ret, unsigned max);
	void    *host;		/* for extents() */
};

/*
 * Builder calls. A plan is a list of segments; a segment is filled front to back with pieces.
 * Pieces are file ranges: dirty bytes, or with tess_plan_fill() published bytes that the host must
 * read first (read-modify-write of a bucket). Each dirty byte is planned exactly once, or not at
 * all when !view->final.
 */
struct tess_plan;
int tess_plan_segment(struct tess_plan *p);			/* starts a segment; the previous one is closed */
int tess_plan_add(struct tess_plan *p, struct tess_range r);	/* dirty bytes, appended to the current segment */
int tess_plan_fill(struct tess_plan *p, struct tess_range r);	/* published, not dirty bytes, likewise */

struct tess_mapper {
	uint32_t abi;		/* TESS_MAPPER_ABI */
	uint32_t size;		/* sizeof(struct tess_mapper) */
	uint16_t id;		/* on disk; < 1024 are Tessera's own */
	const char *name;	/* "write-optimized" */
	const char *summary;	/* one line for `tessera mapper list` */
	const struct tess_opt *opts;	/* may be NULL */
	/*
	 * Plans `n` disjoint dirty ranges in ascending order (adjacent ones already merged).
	 * Returns 0 or what a builder call returned.
	 */
	int (*plan_write)(const struct tess_map_view *v, const struct tess_range *dirty, unsigned n, struct tess_plan *ret);
	/* Optional. Widens a read to what is worth fetching with it; *inout stays a superset. */
	void (*plan_read)(const struct tess_map_view *v, struct tess_range *inout);
};
#endif
