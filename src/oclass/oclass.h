/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OCLASS_OCLASS_H
#define OCLASS_OCLASS_H
/*
 * Object classes: how a segment becomes objects. Names are DAOS's grammar (DAOS User Guide, "Object
 * Class"): S<n>, SX; RP_<r>G<g>, RP_<r>GX; EC_<k>P<p>G<g>, EC_<k>P<p>GX. All functions are pure.
 *
 * A segment of `len` bytes of a class of width w and cell c is cut into cells of c bytes; cell i
 * goes to shard i mod w at offset (i div w) * c. A short segment therefore leaves high shards
 * shorter or empty; an empty shard is no object. Targets are chosen per file (`place`), so that a
 * file of class S2 touches two targets however long it is.
 */
#include <tessera/types.h>

struct text;

enum oclass_scheme { OCLASS_NONE, OCLASS_REPLICA, OCLASS_EC };

struct oclass {
	uint16_t           id;		/* on disk, see oclass.c; stable for ever; never 0 */
	enum oclass_scheme scheme;
	unsigned           data;	/* k: data shards of a group; 1 for S and RP */
	unsigned           parity;	/* p of EC, r - 1 of RP, 0 of S */
	unsigned           groups;	/* 0: X, as many as there are targets for */
};

/*
 * "EC_4P2GX" → *ret. -TESS_E_CLASS_UNKNOWN; `why` names the nearest legal name. Case-insensitive,
 * whole match. Legal: S1 … S64, SX; RP_2 … RP_6; EC_2P1 EC_2P2 EC_4P1 … EC_4P3 EC_8P1 … EC_8P3
 * EC_16P1 … EC_16P3; with at most TESS_SHARDS_MAX shards in all. `why` may be NULL.
 */
int  oclass_parse(const char *name, struct oclass *ret, struct text *why);
void oclass_name(const struct oclass *c, char ret[16]);
int  oclass_from_id(uint16_t id, struct oclass *ret);	/* -TESS_E_CLASS_UNKNOWN */
/* 0, -TESS_E_CLASS_LATER (scheme not built yet) or -TESS_E_CLASS_TARGETS, with `why`. */
int  oclass_usable(const struct oclass *c, unsigned ntargets, struct text *why);
/* The named rows that `tessera class list` prints; i from 0; false past the end. */
bool oclass_row(unsigned i, struct oclass *ret);

/* Shards of a segment of this class over ntargets: 1 … TESS_SHARDS_MAX. */
unsigned oclass_width(const struct oclass *c, unsigned ntargets);
/*
 * Default cell for a segment size: the largest multiple of 64 KiB ≤ 1 MiB (of TESS_BLOCK when there
 * is none) with which every shard of a full segment holds a whole cell; at least TESS_BLOCK.
 */
uint32_t oclass_cell(uint64_t segment_size, unsigned width);

/* The geometry of one segment as written; kept in its record. */
struct oclass_geo {
	struct oclass cls;
	unsigned      width;	/* shards, all of them */
	uint32_t      cell;	/* multiple of TESS_BLOCK */
	uint64_t      len;	/* bytes of the segment */
};
/*
 * For a geometry that comes out of a record: 0, -TESS_E_CLASS_LATER or -TESS_E_RECORD. The
 * functions below are defined only for one that passes.
 */
int      oclass_geo_check(const struct oclass_geo *g);
uint64_t oclass_shard_len(const struct oclass_geo *g, unsigned shard);

/* One contiguous piece of a shard that holds a piece of the segment. */
struct oclass_piece {
	unsigned shard;
	uint64_t shard_off;
	uint64_t seg_off;
	uint64_t len;
};
/* Walks the pieces of r, cut off at g->len, in order; false past the last. *it starts at 0. */
bool oclass_next(const struct oclass_geo *g, struct tess_range r, uint64_t *it,
		 struct oclass_piece *ret);

/*
 * Gathers shard `shard` of the segment in `seg` (seg->len is g->len) as iovecs into `ret`, the
 * caller's array of *nret slots; *nret becomes the number used. No copy: they point into `seg`.
 * -E2BIG when there are more pieces than slots (oclass_encode_max() is enough), -EINVAL when
 * `seg` is short.
 */
int      oclass_encode(const struct oclass_geo *g, const struct tess_iov *seg, unsigned shard,
		       struct iovec *ret, unsigned *nret);
unsigned oclass_encode_max(const struct oclass_geo *g, unsigned seg_iovs);
/* One CRC32C per TESS_BLOCK of the segment, the last one of the rest, into a slot of ret each. */
void     oclass_checksum(const struct tess_iov *seg, uint32_t *ret);
#endif
