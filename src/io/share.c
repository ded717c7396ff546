/* SPDX-License-Identifier: Apache-2.0 */
/* Clones, and where data and holes are. */
#include "base/err.h"
#include "base/scoped.h"
#include "io/stage.h"

int io_clone(struct io_file *src, uint64_t src_off, struct io_file *dst, uint64_t dst_off,
	     uint64_t len, struct tess_req *req, int64_t now, struct meta_attr *ret_dst)
{
	struct meta_clone c = { src->ino, src_off, dst->ino, dst_off, len };
	struct meta_attr a;
	int e = io_sync_file(src, req, IO_PUBLISH);

	if (e == 0 && dst != src)
		e = io_sync_file(dst, req, IO_PUBLISH);
	if (e == 0)
		e = meta_clone(src->io->meta, &c, now, &a);
	if (e < 0)
		return e;
	stage_note_clone(src->io, src->ino, dst->ino);
	lock_take(&dst->lock);
	/* What was written meanwhile lies over the clone, as if it came after it; what was published did. */
	io_file_base_locked(dst, a.size, a.generation);
	lock_drop(&dst->lock);
	*ret_dst = a;
	return 0;
}

/* End of the dirty bytes that start at or before `off`, or `off` when it is not dirty. */
static uint64_t dirty_run(const struct io_file *f, uint64_t off)
{
	struct dirty_node *n = dirty_next(&f->dirty, off);

	for (; n && dirty_off(n) <= off; n = dirty_after(n))
		off = MAX(off, dirty_end(n));
	return off;
}

/* First published byte at or behind `off` that no cut hides; f->size when there is none. */
static uint64_t published_data(struct io_file *f, uint64_t off, uint64_t size)
{
	uint64_t at;

	while (off < size) {
		struct tess_range p;
		uint64_t skip = 0;

		if (meta_seek(f->io->meta, f->ino, off, true, &at) < 0)
			return size;
		lock_take(&f->lock);
		if (at >= io_cut_end_locked(f))
			at = size;
		if (range_set_next(&f->pend.punched, at, &p) && p.off <= at)
			skip = p.off + p.len;
		else if (range_set_next(&f->pub.punched, at, &p) && p.off <= at)
			skip = p.off + p.len;
		lock_drop(&f->lock);
		if (skip == 0)
			return MIN(at, size);
		off = skip;
	}
	return size;
}

/* First byte at or behind `off`, which is published data, that is a hole or hidden by a cut. */
static uint64_t published_hole(struct io_file *f, uint64_t off, uint64_t size)
{
	struct tess_range p;
	uint64_t at;

	if (meta_seek(f->io->meta, f->ino, off, false, &at) < 0)
		at = off;
	scoped_lock(&f->lock);
	at = MIN(at, io_cut_end_locked(f));
	if (range_set_next(&f->pend.punched, off, &p))
		at = MIN(at, MAX(p.off, off));
	if (range_set_next(&f->pub.punched, off, &p))
		at = MIN(at, MAX(p.off, off));
	return MIN(at, size);
}

static uint64_t next_data(struct io_file *f, uint64_t off, uint64_t size)
{
	struct dirty_node *n;
	uint64_t dirty;

	lock_take(&f->lock);
	n = dirty_next(&f->dirty, off);
	dirty = n ? MAX(dirty_off(n), off) : size;
	lock_drop(&f->lock);
	if (dirty == off)
		return off;
	return MIN(dirty, published_data(f, off, size));
}

static uint64_t next_hole(struct io_file *f, uint64_t off, uint64_t size)
{
	while (off < size) {
		uint64_t at;

		lock_take(&f->lock);
		at = dirty_run(f, off);
		lock_drop(&f->lock);
		if (at == off && published_data(f, off, size) == off)
			at = published_hole(f, off, size);
		if (at == off)
			return off;
		off = at;
	}
	return size;
}

int io_seek(struct io_file *f, uint64_t off, bool data, uint64_t *ret)
{
	uint64_t size, at;

	lock_take(&f->lock);
	size = f->size;
	lock_drop(&f->lock);
	if (off >= size)
		return -ENXIO;
	at = data ? next_data(f, off, size) : next_hole(f, off, size);
	if (data && at >= size)
		return -ENXIO;
	*ret = at;
	return 0;
}
