/* SPDX-License-Identifier: Apache-2.0 */
/* The extent map of a file: looking at it, and the two ways it changes: cut a hole, fill a hole. */
#include "base/err.h"
#include "base/range.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"

/* ---- steps ---- */

/* The pair that seek or step returned, if it is one of ino's. */
static int extent_here(struct kv_val key, struct kv_val v, uint64_t ino, struct tess_extent *ret)
{
	struct tess_extent x;
	uint64_t of;
	int err;

	if (key.n != 16)
		return -TESS_E_RECORD;
	if (fmt_be64_get(key.p) != ino)
		return -ENOENT;
	err = codec_extent_get(key, v, &of, &x);
	if (!err)
		*ret = x;
	return err;
}

int extent_next(struct kv_txn *t, uint64_t ino, struct tess_extent *ret)
{
	struct kv_val key, v;
	int err = kv_step(t, KV_EXTENT, 1, &key, &v);

	return err ? err : extent_here(key, v, ino, ret);
}

/* The one that begins at off or before; it may end before, too. */
static int extent_before(struct kv_txn *t, uint64_t ino, uint64_t off, struct tess_extent *ret)
{
	struct fmt_key k;
	struct kv_val v, key = key_u64_u64(&k, ino, off);
	int err = kv_seek(t, KV_EXTENT, -1, &key, &v);

	return err ? err : extent_here(key, v, ino, ret);
}

static int extent_from(struct kv_txn *t, uint64_t ino, uint64_t off, struct tess_extent *ret)
{
	struct fmt_key k;
	struct kv_val v, key = key_u64_u64(&k, ino, off);
	int err = kv_seek(t, KV_EXTENT, 1, &key, &v);

	return err ? err : extent_here(key, v, ino, ret);
}

int extent_first(struct kv_txn *t, uint64_t ino, uint64_t off, struct tess_extent *ret)
{
	struct tess_extent x;
	int err = extent_before(t, ino, off, &x);

	if (!err && x.off + x.len > off) {
		*ret = x;
		return 0;
	}
	/* From the one before it is a step; with none before, the seek left no place to step from.
	 */
	if (!err)
		return extent_next(t, ino, ret);
	return err == -ENOENT ? extent_from(t, ino, off, ret) : err;
}

static int extent_store(struct kv_txn *t, uint64_t ino, const struct tess_extent *x)
{
	struct fmt_extent f = {x->len, x->seg, x->seg_off, x->turn};
	uint8_t buf[FMT_EXTENT_MAX];
	struct fmt_key k;

	return kv_put(t, KV_EXTENT, key_u64_u64(&k, ino, x->off),
		      kv_val(buf, codec_extent_put(buf, &f)));
}

static int extent_del(struct kv_txn *t, uint64_t ino, uint64_t off)
{
	struct fmt_key k;

	return kv_del(t, KV_EXTENT, key_u64_u64(&k, ino, off));
}

/* n bytes that an extent of the file refers to in seg come (n > 0) or go. */
static int extent_account(struct kv_txn *t, struct tally *y, struct meta_attr *a, tess_segid seg,
			  int64_t n)
{
	struct tally_row *r;
	int err = tally_row(y, t, seg, &r);

	if (err)
		return err == -ENOENT ? -TESS_E_RECORD : err;
	r->delta += n;
	a->bytes += (uint64_t)n;
	return 0;
}

/*
 *      x:  |------------|          keeps its head, its tail, both or neither
 *   hole:      |----|
 */
static int extent_trim(struct kv_txn *t, struct tally *y, struct meta_attr *a,
		       const struct tess_extent *x, uint64_t off, uint64_t end)
{
	uint64_t x_end = x->off + x->len, from = MAX(x->off, off), to = MIN(x_end, end);
	struct tess_extent head = {x->off, from - x->off, x->seg, x->seg_off, x->turn};
	struct tess_extent tail = {to, x_end - to, x->seg, x->seg_off + (to - x->off), x->turn};
	int err = head.len ? extent_store(t, a->ino, &head) : extent_del(t, a->ino, x->off);

	if (!err && tail.len)
		err = extent_store(t, a->ino, &tail);
	return err ? err : extent_account(t, y, a, x->seg, -(int64_t)(to - from));
}

int extent_cut(struct kv_txn *t, struct tally *y, struct meta_attr *a, uint64_t off, uint64_t end)
{
	struct tess_extent x;
	int err = off < end ? extent_first(t, a->ino, off, &x) : -ENOENT;

	while (!err && x.off < end) {
		err = extent_trim(t, y, a, &x, off, end);
		if (err || x.off + x.len >= end)
			return err;
		/* What began at x.off may be gone, and a head of it ends before: look on from its
		 * end. */
		err = extent_from(t, a->ino, x.off + x.len, &x);
	}
	return absent_ok(err);
}

int extent_put(struct kv_txn *t, struct tally *y, struct meta_attr *a, const struct tess_extent *x)
{
	struct tess_extent p, joined = *x;
	int err = x->off ? extent_before(t, a->ino, x->off - 1, &p) : -ENOENT;

	if (!err && p.off + p.len == x->off && p.seg == x->seg && p.seg_off + p.len == x->seg_off &&
	    p.turn == x->turn && p.len + x->len <= UINT32_MAX) {
		joined = p;
		joined.len += x->len;
	}
	err = absent_ok(err);
	if (!err)
		err = extent_store(t, a->ino, &joined);
	return err ? err : extent_account(t, y, a, x->seg, (int64_t)x->len);
}

/*
 * What the range [at, ...) of one of x's parts becomes: a part is as long as all of it becomes the same.
 * Where later turns were published it stays what it is.
 */
struct extent_part {
	uint64_t end;
	uint64_t turn;	/* that its bytes are stored with */
	bool     stays, covered;	/* covered: there are extents in it */
};

/* `p`: what is there, NULL for a hole. */
static struct extent_part part_of(const struct tess_extent *x, const struct tess_extent *p)
{
	bool moved = x->turn == META_TURN_MOVED;

	return (struct extent_part){
		.turn = moved && p ? p->turn : x->turn,
		.stays = moved ? !p : p && p->turn > x->turn,
		.covered = p,
	};
}

static int part_find(struct kv_txn *t, uint64_t ino, const struct tess_extent *x, uint64_t at,
		     struct extent_part *ret)
{
	uint64_t end = x->off + x->len, from = at;
	struct tess_extent p;
	int err = extent_first(t, ino, at, &p);

	while (at < end) {
		bool hole = err || p.off > at;
		struct extent_part part = part_of(x, hole ? NULL : &p);

		if (absent_ok(err))
			return err;
		if (at > from && (part.stays != ret->stays || part.turn != ret->turn))
			break;
		part.covered |= at > from && ret->covered;
		*ret = part;
		at = hole ? (err ? end : MIN(p.off, end)) : MIN(p.off + p.len, end);
		if (!hole && at < end)
			err = extent_next(t, ino, &p);
	}
	ret->end = at;
	return 0;
}

int extent_lay(struct kv_txn *t, struct tally *y, struct meta_attr *a, const struct tess_extent *x)
{
	/* Nobody is there to have written before and publish after. */
	bool alone = x->turn != META_TURN_MOVED && !change_noting(t);
	uint64_t at = x->off, end = at + x->len;
	int err = 0;

	while (!err && at < end) {
		struct extent_part part = {0};

		err = part_find(t, a->ino, x, at, &part);
		if (err)
			break;
		if (!part.stays) {
			struct tess_extent put = {at, part.end - at, x->seg, x->seg_off + (at - x->off),
						  alone ? 0 : part.turn};

			err = part.covered ? extent_cut(t, y, a, at, part.end) : 0;
			if (!err)
				err = extent_put(t, y, a, &put);
		}
		at = part.end;
	}
	return err;
}

int extent_drop(struct kv_txn *t, struct tally *y, struct meta_attr *a, unsigned *budget)
{
	struct tess_extent x;
	int err = 0;

	while (*budget && !(err = extent_from(t, a->ino, 0, &x))) {
		err = extent_del(t, a->ino, x.off);
		if (!err)
			err = extent_account(t, y, a, x.seg, -(int64_t)x.len);
		if (err)
			return err;
		--*budget;
	}
	return absent_ok(err);
}

/* ---- looking ---- */

struct map_op {
	struct meta *m;
	uint64_t ino;
	struct tess_range r;
	struct meta_map *ret;
};

/* False: the arrays are full, and the map ends where this piece would begin. */
static bool map_add(struct meta_map *map, const struct tess_extent *x, unsigned segment)
{
	if (map->npieces == ARRAY_SIZE(map->pieces))
		return false;
	map->pieces[map->npieces++] = (struct meta_piece){*x, segment};
	map->end = x->off + x->len;
	return true;
}

/* Neighbours are mostly of one segment, so the newest is looked at first. */
static int map_segment(struct kv_txn *t, struct meta_map *map, tess_segid id, unsigned *ret)
{
	int err;

	for (unsigned i = map->nsegments; i-- > 0;) {
		if (map->segments[i].id == id) {
			*ret = i;
			return 0;
		}
	}
	if (map->nsegments == ARRAY_SIZE(map->segments))
		return -E2BIG;
	err = segment_get(t, id, &map->segments[map->nsegments]);
	if (err)
		return err == -ENOENT ? -TESS_E_RECORD : err;
	*ret = map->nsegments++;
	return 0;
}

static int map_extents(struct kv_txn *t, struct map_op *o, uint64_t end)
{
	struct meta_map *map = o->ret;
	struct tess_extent x;
	unsigned segment = 0;
	int err = extent_first(t, o->ino, o->r.off, &x);

	while (!err && x.off < end) {
		uint64_t skip = x.off < o->r.off ? o->r.off - x.off : 0;
		struct tess_extent hole = {.off = map->end, .len = x.off + skip - map->end};

		if (hole.len && !map_add(map, &hole, 0))
			return 0;
		err = map_segment(t, map, x.seg, &segment);
		if (err)
			return err == -E2BIG ? 0 : err;
		x = (struct tess_extent){x.off + skip, x.len - skip, x.seg, x.seg_off + skip, x.turn};
		x.len = MIN(x.len, end - x.off);
		if (!map_add(map, &x, segment))
			return 0;
		err = extent_next(t, o->ino, &x);
	}
	if (absent_ok(err))
		return err;
	struct tess_extent rest = {.off = map->end, .len = end - map->end};

	if (rest.len)
		(void)map_add(map, &rest, 0);
	return 0;
}

static int map_run(struct kv_txn *t, void *arg)
{
	struct map_op *o = arg;
	struct meta_map *map = o->ret;
	struct meta_attr a;
	uint64_t end;
	int err = inode_get(t, o->ino, &a);

	if (err)
		return err;
	map->size = a.size;
	map->generation = a.generation;
	map->npieces = map->nsegments = 0;
	map->end = o->r.off;
	if (!range_end(o->r, &end))
		end = UINT64_MAX;
	end = MIN(end, a.size);
	return o->r.off < end ? map_extents(t, o, end) : 0;
}

int meta_map(struct meta *m, uint64_t ino, struct tess_range r, struct meta_map *ret)
{
	struct map_op o = {m, ino, r, ret};

	return kv_read(m->kv, map_run, &o);
}

struct seek_op {
	uint64_t ino, off;
	bool data;
	uint64_t *ret;
};

static int seek_run(struct kv_txn *t, void *arg)
{
	struct seek_op *o = arg;
	struct meta_attr a;
	struct tess_extent x;
	uint64_t at = o->off;
	int err = inode_get(t, o->ino, &a);

	if (err)
		return err;
	if (at >= a.size)
		return -ENXIO;
	err = extent_first(t, o->ino, at, &x);
	if (o->data) {
		if (err || x.off >= a.size)
			return err && err != -ENOENT ? err : -ENXIO;
		*o->ret = MAX(at, x.off);
		return 0;
	}
	while (!err && x.off <= at) {
		at = x.off + x.len;
		err = extent_next(t, o->ino, &x);
	}
	if (absent_ok(err))
		return err;
	*o->ret = MIN(at, a.size);
	return 0;
}

int meta_seek(struct meta *m, uint64_t ino, uint64_t off, bool data, uint64_t *ret)
{
	struct seek_op o = {ino, off, data, ret};

	return kv_read(m->kv, seek_run, &o);
}
