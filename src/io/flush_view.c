/* SPDX-License-Identifier: Apache-2.0 */
/* What a mapper may ask about published bytes, and reading those that move to a new segment. */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "io/io_int.h"
#include "io/stage.h"

bool io_cut_hides(const struct io_cut *c, struct tess_range r)
{
	struct tess_range hit;

	if (r.off + r.len > c->trunc_to)
		return true;
	return range_set_next(&c->punched, r.off, &hit) && hit.off < r.off + r.len;
}

uint64_t io_cut_end_locked(const struct io_file *f)
{
	return MIN(f->pend.trunc_to, f->pub.trunc_to);
}

static bool hidden(struct io_file *f, struct tess_range r)
{
	scoped_lock(&f->lock);
	return io_cut_hides(&f->pend, r) || io_cut_hides(&f->pub, r);
}

unsigned io_view_extents(const struct tess_map_view *v, struct tess_range r,
			 struct tess_extent *ret, unsigned max)
{
	struct io_file *f = v->host;
	scoped_free struct meta_map *map = mem_alloc(sizeof(*map));
	uint64_t at = r.off, end = r.off + r.len;
	unsigned n = 0;

	while (map && n < max && at < end) {
		if (meta_map(f->io->meta, f->ino, (struct tess_range){ at, end - at }, map) < 0)
			break;
		for (unsigned i = 0; n < max && i < map->npieces; i++) {
			const struct tess_extent *e = &map->pieces[i].ext;

			if (e->seg != 0 && !hidden(f, (struct tess_range){ e->off, e->len }))
				ret[n++] = *e;
		}
		if (map->end <= at)
			break;
		at = map->end;
	}
	return n;
}

static int fill_piece(struct io_file *f, struct tess_req *req, const struct meta_map *map,
		      unsigned i, struct io_fill *fill)
{
	const struct tess_extent *e = &map->pieces[i].ext;
	const struct meta_segment *s = &map->segments[map->pieces[i].segment];
	uint64_t from, to;
	char *p;

	if (e->seg == 0)
		return -ENODATA;
	from = MAX(e->off, fill->range.off);
	to = MIN(e->off + e->len, fill->range.off + fill->range.len);
	p = fill->buf->data + (from - fill->range.off);
	return io_fetch_sync(f->io, req, s, e->seg_off + (from - e->off), p, to - from);
}

static int fill_pieces(struct io_file *f, struct tess_req *req, struct io_fill *fill)
{
	scoped_free struct meta_map *map = mem_alloc(sizeof(*map));
	uint64_t at = fill->range.off, end = at + fill->range.len;
	int e = map ? 0 : -ENOMEM;

	while (e == 0 && at < end) {
		e = meta_map(f->io->meta, f->ino, (struct tess_range){ at, end - at }, map);
		if (e == 0 && map->end <= at)
			e = -ENODATA;	/* beyond the end of the file */
		if (e == 0 && at > fill->range.off && map->generation != fill->generation)
			e = -EAGAIN;
		fill->generation = e == 0 ? map->generation : 0;
		for (unsigned i = 0; e == 0 && i < map->npieces; i++)
			e = fill_piece(f, req, map, i, fill);
		at = e == 0 ? map->end : at;
	}
	return e;
}

int io_fill_read(struct io_file *f, struct tess_req *req, struct tess_range r, struct io_fill *ret)
{
	struct io_fill fill = { .range = r };
	unsigned epoch;
	int e;

	if (hidden(f, r))
		return -ENODATA;
	fill.buf = buf_new(f->io->budget, MEM_IO, round_up(r.len, TESS_BLOCK));
	if (!fill.buf)
		return -ENOMEM;
	epoch = io_read_enter(f->io);
	e = fill_pieces(f, req, &fill);
	io_read_leave(f->io, epoch);
	if (e < 0) {
		buf_unref(fill.buf);
		return e;
	}
	*ret = fill;
	return 0;
}
