/* SPDX-License-Identifier: Apache-2.0 */
/*
 * naive: one file is one object, as far as a segment can hold it; any change rewrites the file.
 * Not for use: the baseline that other mappers' ratios are against.
 */
#include <tessera/bucket.h>

/* First byte from `at` on that is dirty or published, or false: a sparse file is not walked. */
static bool next_byte(const struct tess_map_view *v, const struct tess_bucket_walk *w, uint64_t at,
		      uint64_t *ret)
{
	struct tess_extent e;
	bool found = false;

	if (w->i < w->n) {
		*ret = w->dirty[w->i].off > at ? w->dirty[w->i].off : at;
		found = true;
	}
	if (v->extents && at < v->file_size &&
	    v->extents(v, (struct tess_range){ at, v->file_size - at }, &e, 1) == 1) {
		uint64_t off = e.off > at ? e.off : at;

		if (!found || off < *ret)
			*ret = off;
		found = true;
	}
	return found;
}

static int plan_write(const struct tess_map_view *v, const struct tess_range *dirty, unsigned n,
		      struct tess_plan *ret)
{
	struct tess_bucket_walk w = { .dirty = dirty, .n = n };
	uint64_t size = v->segment_size, at = 0;

	if (n == 0 || !v->final)
		return 0;	/* an object is put when it is complete */
	while (next_byte(v, &w, at, &at)) {
		int e = tess_plan_segment(ret);

		at -= at % size;
		if (e == 0)
			e = tess_bucket_plan(v, (struct tess_range){ at, size }, &w, ret);
		if (e < 0)
			return e;
		at += size;
	}
	return 0;
}

/* Whole-object GET. */
static void plan_read(const struct tess_map_view *v, struct tess_range *inout)
{
	uint64_t end = inout->off + inout->len;

	if (inout->len == 0)
		return;
	inout->off -= inout->off % v->segment_size;
	if (end % v->segment_size)
		end += v->segment_size - end % v->segment_size;
	inout->len = end - inout->off;
}

extern const struct tess_mapper tess_mapper_naive;
const struct tess_mapper tess_mapper_naive = {
	.abi = TESS_MAPPER_ABI,
	.size = sizeof(struct tess_mapper),
	.id = 3,
	.name = "naive",
	.summary = "one file is one object, rewritten whole; the baseline of comparisons",
	.plan_write = plan_write,
	.plan_read = plan_read,
};
