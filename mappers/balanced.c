/* SPDX-License-Identifier: Apache-2.0 */
/*
 * balanced: the file in buckets of the segment size. A bucket that is written to becomes a new
 * version of that bucket and of no other, so that it stays one segment: reads of it are one
 * request, and the price is that what a partial overwrite leaves of it is read and written again.
 */
#include <tessera/bucket.h>

/* Whether all of [off, off + size) is dirty; d is the first range that ends after off. */
static bool is_whole(const struct tess_range *d, uint64_t off, uint64_t size)
{
	return d->off <= off && d->off + d->len - off >= size;
}

static int plan_write(const struct tess_map_view *v, const struct tess_range *dirty, unsigned n,
		      struct tess_plan *ret)
{
	struct tess_bucket_walk w = { .dirty = dirty, .n = n };
	uint64_t size = v->segment_size, at = 0;

	while (w.i < n) {
		uint64_t end = dirty[w.i].off + dirty[w.i].len, off;
		int e;

		if (end <= at) {
			w.i++;
			continue;
		}
		off = dirty[w.i].off > at ? dirty[w.i].off : at;
		off -= off % size;
		at = off + size;	/* no overflow: a file ends before INT64_MAX */
		if (v->final || is_whole(&dirty[w.i], off, size)) {
			e = tess_plan_segment(ret);
			if (e == 0)
				e = tess_bucket_plan(v, (struct tess_range){ off, size }, &w, ret);
			if (e < 0)
				return e;
		}
	}
	return 0;
}

extern const struct tess_mapper tess_mapper_balanced;
const struct tess_mapper tess_mapper_balanced = {
	.abi = TESS_MAPPER_ABI,
	.size = sizeof(struct tess_mapper),
	.id = 2,
	.name = "balanced",
	.summary = "buckets of the segment size, rewritten whole; a bucket is one request to read",
	.plan_write = plan_write,
};
