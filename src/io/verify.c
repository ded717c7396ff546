/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a segment back, all of it, and compares it with what the namespace remembers. */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "io/io_int.h"
#include <inttypes.h>
#include <string.h>

static int verify_chunks(struct io *io, const struct meta_segment *seg, void *p, uint64_t *ret_at)
{
	struct tess_req req;

	req_begin(&req, "verify");
	for (*ret_at = 0; *ret_at < seg->len; *ret_at += IO_CHUNK) {
		int e;

		req.deadline = clock_now() + IO_DEADLINE;
		e = io_fetch_sync(io, &req, seg, *ret_at, p, MIN(IO_CHUNK, seg->len - *ret_at));
		if (e < 0)
			return e;
	}
	return 0;
}

/* Sealed, moved or collected while it was read: then the record says so. */
static bool verify_still(struct io *io, const struct meta_segment *seg)
{
	struct meta_segment now;
	int e = meta_segment_get(io->meta, seg->id, &now);

	return e == 0 ? now.state == seg->state && now.width == seg->width &&
				memcmp(now.target, seg->target, seg->width * sizeof(seg->target[0])) == 0
		      : e != -ENOENT;
}

/* A shard that is longer than its record says is as wrong as one that is shorter. */
static int verify_sizes(struct io *io, const struct meta_segment *seg, struct text *why)
{
	struct oclass_geo g;
	int e = io_geo(seg, &g);

	for (unsigned i = 0; e == 0 && i < seg->width; i++) {
		struct io_tgt *t = io_target(io, seg->target[i]);
		struct tess_objinfo info;
		struct tess_req req;
		char name[PLACE_NAME_LEN + 1];

		if (oclass_shard_len(&g, i) == 0)
			continue;
		req_begin(&req, "verify");
		req.deadline = clock_now() + IO_DEADLINE;
		place_name(seg->id, i, name);
		e = t ? store_head(t->store, &req, name, &info) : -ENOENT;
		if (e == 0 && info.size != oclass_shard_len(&g, i))
			e = -TESS_E_SHORT_BODY;
		if (e == -ENOENT)
			e = -TESS_E_NO_OBJECT;
		if (e < 0)
			text_fmt(why, "object %s on target %u: %s", name, seg->target[i],
				 err_text(e));
	}
	return e;
}

int io_verify_segment(struct io *io, const struct meta_segment *seg, struct text *why)
{
	scoped_free void *p = NULL;
	uint64_t at = 0;
	int e = 0;

	if (seg->state != META_STAGED)
		e = verify_sizes(io, seg, why);
	if (e < 0)
		return verify_still(io, seg) ? e : 0;
	p = mem_alloc(IO_CHUNK);
	if (!p)
		return -ENOMEM;
	e = verify_chunks(io, seg, p, &at);
	if (e < 0 && !verify_still(io, seg))
		return 0;
	if (e < 0)
		text_fmt(why, "segment %016" PRIx64 " at %" PRIu64 ": %s", seg->id, at, err_text(e));
	return e;
}
