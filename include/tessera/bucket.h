/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_BUCKET_H
#define TESSERA_BUCKET_H
/*
 * For mappers that keep one segment per stretch of the file ("bucket"): plans a bucket whole, dirty
 * bytes where there are some, published ones around them. Only builder calls, so that it is the
 * mapper's code and not the host's.
 *
 *	published  |####|      |#########|   |####
 *	dirty         |****|       |**|
 *	bucket   |--------------------------------|
 *	planned    |f |d d|    |f |d |f  |   |f   |	holes stay holes
 */
#include <tessera/mapper.h>

#define TESS_BUCKET_BATCH 64u	/* extents asked for at a time: 2 KiB of stack */

/* A walk over dirty ranges; one serves all buckets of a plan when they ascend. */
struct tess_bucket_walk {
	const struct tess_range *dirty;
	unsigned n, i;		/* dirty[i] is the first that ends after the current place */
	struct tess_range fill;	/* published, not yet added: touching extents join */
};

static inline int tess_bucket_put_fill(struct tess_bucket_walk *w, struct tess_plan *p)
{
	struct tess_range r = w->fill;

	w->fill.len = 0;
	return r.len ? tess_plan_fill(p, r) : 0;
}

/* Adds the dirty bytes of [from, to); moves past the ranges that end there. */
static inline int tess_bucket_put_dirty(struct tess_bucket_walk *w, uint64_t from, uint64_t to,
					struct tess_plan *p)
{
	for (; from < to && w->i < w->n && w->dirty[w->i].off < to; w->i++) {
		uint64_t off = w->dirty[w->i].off, end = off + w->dirty[w->i].len;
		int r;

		if (end > from) {
			struct tess_range piece = { off > from ? off : from, 0 };

			piece.len = (end < to ? end : to) - piece.off;
			r = tess_bucket_put_fill(w, p);
			if (r == 0)
				r = tess_plan_add(p, piece);
			if (r < 0)
				return r;
		}
		if (end > to)
			break;
	}
	return 0;
}

/* Adds the published bytes of [from, to), and the dirty ones before and between them. */
static inline int tess_bucket_put_extent(struct tess_bucket_walk *w, uint64_t from, uint64_t to,
					 struct tess_plan *p)
{
	while (from < to) {
		uint64_t stop;
		int r = 0;

		while (w->i < w->n && w->dirty[w->i].off + w->dirty[w->i].len <= from)
			w->i++;
		if (w->i < w->n && w->dirty[w->i].off <= from) {
			stop = w->dirty[w->i].off + w->dirty[w->i].len;
			stop = stop < to ? stop : to;
			r = tess_bucket_put_dirty(w, from, stop, p);
		} else {
			stop = w->i < w->n && w->dirty[w->i].off < to ? w->dirty[w->i].off : to;
			if (w->fill.len && w->fill.off + w->fill.len != from)
				r = tess_bucket_put_fill(w, p);
			if (w->fill.len == 0)
				w->fill.off = from;
			w->fill.len += stop - from;
		}
		if (r < 0)
			return r;
		from = stop;
	}
	return 0;
}

/*
 * Plans what b will hold, ascending, into the current segment. Adds nothing when b is all hole.
 */
static inline int tess_bucket_plan(const struct tess_map_view *v, struct tess_range b,
				   struct tess_bucket_walk *w, struct tess_plan *p)
{
	struct tess_extent e[TESS_BUCKET_BATCH];
	uint64_t at = b.off, end = b.off + b.len;
	unsigned got = TESS_BUCKET_BATCH;
	int r;

	w->fill.len = 0;
	while (v->extents && got == TESS_BUCKET_BATCH && at < end) {
		struct tess_range rest = { at, end - at };

		got = v->extents(v, rest, e, TESS_BUCKET_BATCH);
		for (unsigned i = 0; i < got; i++) {
			uint64_t from = e[i].off > at ? e[i].off : at;
			uint64_t to = e[i].off + e[i].len < end ? e[i].off + e[i].len : end;

			if (from >= to)
				continue;
			r = tess_bucket_put_dirty(w, at, from, p);
			if (r == 0)
				r = tess_bucket_put_extent(w, from, to, p);
			if (r < 0)
				return r;
			at = to;
		}
	}
	r = tess_bucket_put_dirty(w, at, end, p);
	return r < 0 ? r : tess_bucket_put_fill(w, p);
}
#endif
