/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write-optimized: dirty ranges fill segments back to back, nothing is read, what was overwritten
 * becomes dead bytes.
 *
 * Whole chunks of the file (a segment's size, aligned to it) that are dirty get a segment of their
 * own first; what is left of each range is packed. That costs no segment more than packing all of
 * it would,
 *
 *	ceil(total / S) == chunks + ceil((total - chunks * S) / S)
 *
 * and a file that is written in order keeps segments that start at multiples of their size, however
 * its fsyncs fell.
 */
#include <tessera/mapper.h>

struct packer {
	const struct tess_map_view *v;
	struct tess_plan *plan;
	uint64_t rest;		/* dirty bytes that are left to pack */
	uint64_t room;		/* of the current segment */
};

/* The chunks of `r`: [*ret_from, *ret_to), empty when from == to. */
static void whole_chunks(struct tess_range r, uint64_t size, uint64_t *ret_from, uint64_t *ret_to)
{
	uint64_t skip = r.off % size ? size - r.off % size : 0;

	*ret_from = *ret_to = r.off;
	if (r.len < size || r.len - skip < size)
		return;
	*ret_from = r.off + skip;
	*ret_to = *ret_from + (r.len - skip) / size * size;
}

static int plan_chunks(struct packer *k, struct tess_range r)
{
	uint64_t size = k->v->segment_size, from, to;

	whole_chunks(r, size, &from, &to);
	k->rest += r.len - (to - from);
	for (; from < to; from += size) {
		int e = tess_plan_segment(k->plan);

		if (e == 0)
			e = tess_plan_add(k->plan, (struct tess_range){ from, size });
		if (e < 0)
			return e;
	}
	return 0;
}

/* Returns 1 when what is left does not fill a segment and need not be planned. */
static int pack(struct packer *k, uint64_t from, uint64_t to)
{
	while (from < to) {
		uint64_t len = to - from;
		int e = 0;

		if (k->room == 0) {
			if (!k->v->final && k->rest < k->v->segment_size)
				return 1;
			e = tess_plan_segment(k->plan);
			k->room = k->v->segment_size;
		}
		if (len > k->room)
			len = k->room;
		if (e == 0)
			e = tess_plan_add(k->plan, (struct tess_range){ from, len });
		if (e < 0)
			return e;
		from += len;
		k->room -= len;
		k->rest -= len;
	}
	return 0;
}

static int plan_write(const struct tess_map_view *v, const struct tess_range *dirty, unsigned n,
		      struct tess_plan *ret)
{
	struct packer k = { .v = v, .plan = ret };
	int e = 0;

	for (unsigned i = 0; e == 0 && i < n; i++)
		e = plan_chunks(&k, dirty[i]);
	for (unsigned i = 0; e == 0 && i < n; i++) {
		uint64_t from, to;

		whole_chunks(dirty[i], v->segment_size, &from, &to);
		e = pack(&k, dirty[i].off, from);
		if (e == 0)
			e = pack(&k, to, dirty[i].off + dirty[i].len);
	}
	return e < 0 ? e : 0;
}

extern const struct tess_mapper tess_mapper_write_optimized;
const struct tess_mapper tess_mapper_write_optimized = {
	.abi = TESS_MAPPER_ABI,
	.size = sizeof(struct tess_mapper),
	.id = 1,
	.name = "write-optimized",
	.summary = "log-structured: dirty ranges fill segments back to back, nothing is read",
	.plan_write = plan_write,
};
