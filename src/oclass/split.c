/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment as shards, scheme none:
 *
 *	segment  | c0 | c1 | c2 | c3 | c4 | c5 | c6 |c7|	w = 3
 *	shard 0  | c0 | c3 | c6 |
 *	shard 1  | c1 | c4 |c7|
 *	shard 2  | c2 | c5 |
 *
 * With one shard the cells join to the segment itself, and a range of it stays one piece.
 */
#include "base/crc.h"
#include "base/err.h"
#include "base/scoped.h"
#include "oclass/oclass.h"

int oclass_geo_check(const struct oclass_geo *g)
{
	if (g->cls.scheme != OCLASS_NONE)
		return -TESS_E_CLASS_LATER;
	if (g->width == 0 || g->width > TESS_SHARDS_MAX)
		return -TESS_E_RECORD;
	if (g->cls.groups != 0 && g->cls.groups != g->width)
		return -TESS_E_RECORD;
	if (g->cell == 0 || g->cell % TESS_BLOCK != 0)
		return -TESS_E_RECORD;
	if (g->len == 0 || g->len > TESS_SEGMENT_MAX)
		return -TESS_E_RECORD;
	return 0;
}

uint64_t oclass_shard_len(const struct oclass_geo *g, unsigned shard)
{
	uint64_t row = (uint64_t)g->cell * g->width, rest = g->len % row;
	uint64_t before = (uint64_t)g->cell * shard;

	if (shard >= g->width)
		return 0;
	return g->len / row * g->cell + (rest > before ? MIN(rest - before, (uint64_t)g->cell) : 0);
}

bool oclass_next(const struct oclass_geo *g, struct tess_range r, uint64_t *it,
		 struct oclass_piece *ret)
{
	uint64_t left, off, cell;

	if (r.off >= g->len)
		return false;
	left = MIN(r.len, g->len - r.off);
	if (*it >= left)
		return false;
	left -= *it;
	off = r.off + *it;
	if (g->width == 1) {
		*ret = (struct oclass_piece){ .shard_off = off, .seg_off = off, .len = left };
	} else {
		cell = off / g->cell;
		ret->shard = (unsigned)(cell % g->width);
		ret->shard_off = cell / g->width * g->cell + off % g->cell;
		ret->seg_off = off;
		ret->len = MIN(left, g->cell - off % g->cell);
	}
	*it += ret->len;
	return true;
}

/* A place in scattered memory that only moves forward. */
struct cursor {
	const struct tess_iov *v;
	unsigned i;		/* iov[i] holds the place, … */
	uint64_t at;		/* … `at` bytes into it */
	uint64_t off;		/* of the place, from the front of all */
};

/* Moves to `off`; false when that is the end or behind it. */
static bool cursor_seek(struct cursor *c, uint64_t off)
{
	uint64_t skip = off - c->off;

	while (c->i < c->v->n && c->at + skip >= c->v->iov[c->i].iov_len) {
		skip -= c->v->iov[c->i].iov_len - c->at;
		c->at = 0;
		c->i++;
	}
	c->at += skip;
	c->off = off;
	return c->i < c->v->n;
}

int oclass_encode(const struct oclass_geo *g, const struct tess_iov *seg, unsigned shard,
		  struct iovec *ret, unsigned *nret)
{
	uint64_t row = (uint64_t)g->cell * g->width;
	uint64_t first = (uint64_t)g->cell * shard, step = row, run = g->cell;
	struct cursor c = { .v = seg };
	unsigned n = 0;

	if (g->width == 1)
		run = step = MAX(g->len, UINT64_C(1));
	for (uint64_t off = first; shard < g->width && off < g->len; off += step) {
		uint64_t end = off + MIN(run, g->len - off);

		for (uint64_t at = off; at < end;) {
			struct iovec *v;
			uint64_t len;

			if (!cursor_seek(&c, at))
				return -EINVAL;		/* shorter than the geometry says */
			if (n == *nret)
				return -E2BIG;
			v = &seg->iov[c.i];
			len = MIN(end - at, v->iov_len - c.at);
			ret[n].iov_base = (char *)v->iov_base + c.at;
			ret[n++].iov_len = len;
			at += len;
		}
	}
	*nret = n;
	return 0;
}

unsigned oclass_encode_max(const struct oclass_geo *g, unsigned seg_iovs)
{
	uint64_t row = (uint64_t)g->cell * g->width;

	if (g->width == 1)
		return seg_iovs;
	return seg_iovs + (unsigned)((g->len + row - 1) / row);
}

void oclass_checksum(const struct tess_iov *seg, uint32_t *ret)
{
	uint64_t room = TESS_BLOCK, slot = 0;
	uint32_t crc = 0;

	for (unsigned i = 0; i < seg->n; i++) {
		const char *p = seg->iov[i].iov_base;
		size_t left = seg->iov[i].iov_len;

		while (left > 0) {
			size_t n = MIN(left, room);

			crc = crc32c(crc, p, n);
			p += n;
			left -= n;
			room -= n;
			if (room == 0) {
				ret[slot++] = crc;
				crc = 0;
				room = TESS_BLOCK;
			}
		}
	}
	if (room != TESS_BLOCK)
		ret[slot] = crc;
}
