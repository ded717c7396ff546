/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes out. A read is cut into parts, in this order and never another:
 *
 *	dirty nodes and cuts, under the file's lock	BUF, SEG (unpublished), HOLE, and the rest: PUB
 *	the namespace, for what is PUB			SEG, HOLE
 *	staging files, the cache, targets		SEG → BUF
 *
 * Nodes leave the dirty map only after what they say is in the namespace, so looking there second finds
 * each byte at least once. The parts' buffers become the reply's iovecs: no byte is copied.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "io/read_int.h"
#include "io/stage.h"
#include <string.h>

#define READ_PLANS 1000u	/* a generation newer than the plan's, each time: 1,000 publishes of others in a row */
#define READ_TRIES 3u	/* lookups of extents whose bytes were gone when we came for them */
#define READ_MOVED 100u	/* the same, each time because of somebody who published meanwhile */

enum part_kind { PART_PUB, PART_HOLE, PART_BUF, PART_SEG };

struct part {
	enum part_kind      kind;
	uint64_t            off, len;	/* in the file */
	struct buf         *buf;	/* BUF: a reference */
	uint64_t            at;		/* in buf; SEG: in the segment */
	struct meta_segment *seg;	/* SEG: owned */
	uint32_t           *csums;	/* SEG: owned, of an unpublished segment's blocks; or NULL */
	uint64_t            chunk_at;	/* of the wanted byte in a cache chunk */
	struct io_read_priv *priv;
	struct cache_wait   wait;
	struct io_fetch    *fetch;	/* owned */
};

struct io_read_priv {
	struct io_read  *r;
	struct io       *io;
	unsigned         epoch, tries, moved;
	bool             run;		/* sequential: whole chunks are worth it */
	uint64_t         planned, found, found_size;	/* generations: of the plan, of the newest look; its size */
	struct part    **parts;		/* owned, in file order */
	unsigned         nparts, cap;
	atomic_uint      left;
	atomic_int       err;
	atomic_uint_fast64_t lost;	/* a segment that was not where it should be */
	struct buf      *flat;		/* when there were too many parts for the iovecs */
	struct iovec     iov[IO_READ_IOVS];
};

/* ---- parts ---- */

static void part_free(struct part *p)
{
	if (p->fetch)
		io_fetch_done(p->fetch);
	free(p->fetch);
	buf_unref(p->buf);
	free(p->seg);
	free(p->csums);
	free(p);
}

static void parts_free(struct io_read_priv *v)
{
	for (unsigned i = 0; i < v->nparts; i++)
		part_free(v->parts[i]);
	v->nparts = 0;
}

static struct part *part_add(struct io_read_priv *v, enum part_kind kind, uint64_t off, uint64_t len)
{
	struct part *p;

	if (v->nparts == v->cap) {
		unsigned cap = v->cap ? v->cap * 2 : 8;
		struct part **a = mem_resize(v->parts, cap, sizeof(*a));

		if (!a)
			return NULL;
		v->parts = a;
		v->cap = cap;
	}
	p = mem_zalloc(sizeof(*p));
	if (!p)
		return NULL;
	p->kind = kind;
	p->off = off;
	p->len = len;
	p->priv = v;
	v->parts[v->nparts++] = p;
	return p;
}

/* The part continues `last` in the same segment: one request will do. */
static bool part_extend(struct io_read_priv *v, const struct meta_segment *seg, uint64_t off,
			uint64_t at, uint64_t len)
{
	struct part *p = v->nparts ? v->parts[v->nparts - 1] : NULL;

	if (!p || p->kind != PART_SEG || p->seg->id != seg->id || p->csums ||
	    p->off + p->len != off || p->at + p->len != at)
		return false;
	p->len += len;
	return true;
}

static struct part *part_seg(struct io_read_priv *v, const struct meta_segment *seg, uint64_t off,
			     uint64_t at, uint64_t len)
{
	struct part *p = part_add(v, PART_SEG, off, len);

	if (!p)
		return NULL;
	p->at = at;
	p->seg = mem_alloc(sizeof(*p->seg));
	if (!p->seg)
		return NULL;
	*p->seg = *seg;
	return p;
}

/* ---- 1: dirty nodes and cuts ---- */

/* Published bytes of [off, end): those behind a truncate and in punched ranges read as zeros. */
static int add_published(struct io_read_priv *v, uint64_t off, uint64_t end)
{
	const struct io_file *f = v->r->file;
	uint64_t cut = io_cut_end_locked(f);

	while (off < end) {
		uint64_t stop = end;
		enum part_kind kind = PART_PUB;
		struct tess_range a;

		if (off >= cut) {
			kind = PART_HOLE;
		} else {
			stop = MIN(stop, cut);
			for (unsigned i = 0; i < 2; i++) {
				const struct io_cut *c = i ? &f->pub : &f->pend;

				if (!range_set_next(&c->punched, off, &a) || a.off >= stop)
					continue;
				kind = a.off <= off ? PART_HOLE : kind;
				stop = a.off <= off ? MIN(stop, a.off + a.len) : a.off;
				if (kind == PART_HOLE)
					break;
			}
		}
		if (!part_add(v, kind, off, stop - off))
			return -ENOMEM;
		off = stop;
	}
	return 0;
}

/* An unpublished segment's checksums are in its note alone, which a publish frees. */
static int copy_csums(struct part *p, const struct io_seg *s)
{
	struct tess_range w = io_fetch_blocks((struct tess_range){ p->at, p->len }, p->seg->len);
	size_t n = (w.len + TESS_BLOCK - 1) / TESS_BLOCK;

	if (!s->csums)
		return 0;
	p->csums = mem_array(n, sizeof(*p->csums));
	if (!p->csums)
		return -ENOMEM;
	memcpy(p->csums, s->csums + w.off / TESS_BLOCK, n * sizeof(*p->csums));
	return 0;
}

static int add_node(struct io_read_priv *v, struct dirty_node *n, uint64_t off, uint64_t end)
{
	struct io_file *f = v->r->file;
	uint64_t skip = off - dirty_off(n);
	struct io_seg *s;
	struct part *p;

	if (n->state != DIRTY_STORED) {
		p = part_add(v, PART_BUF, off, end - off);
		if (!p)
			return -ENOMEM;
		p->buf = buf_ref(n->buf);
		p->at = n->at + skip;
		n->pinned = true;
		return 0;
	}
	s = (struct io_seg *)tree_find(&f->segs, n->seg);
	p = part_seg(v, &s->seg, off, n->seg_off + skip, end - off);
	return p ? copy_csums(p, s) : -ENOMEM;
}

/* What only moves along is published, by now perhaps anew. */
static struct dirty_node *past_fills(struct dirty_node *n)
{
	while (n && n->fill)
		n = dirty_after(n);
	return n;
}

static int add_dirty_locked(struct io_read_priv *v, uint64_t off, uint64_t end)
{
	struct io_file *f = v->r->file;
	struct dirty_node *n = f->dirty.tree.n ? past_fills(dirty_next(&f->dirty, off)) : NULL;
	int e = 0;

	while (e == 0 && off < end) {
		uint64_t next = n ? MIN(MAX(dirty_off(n), off), end) : end;

		e = add_published(v, off, next);
		off = next;
		if (e < 0 || off >= end)
			break;
		next = MIN(dirty_end(n), end);
		e = add_node(v, n, off, next);
		off = next;
		n = past_fills(dirty_after(n));
	}
	return e;
}

/* ---- 2: the namespace ---- */

static int add_map(struct io_read_priv *v, const struct meta_map *map, uint64_t end)
{
	for (unsigned i = 0; i < map->npieces; i++) {
		const struct tess_extent *e = &map->pieces[i].ext;
		const struct meta_segment *s = &map->segments[map->pieces[i].segment];

		if (e->off >= end)
			break;
		if (e->seg == 0) {
			if (!part_add(v, PART_HOLE, e->off, MIN(e->len, end - e->off)))
				return -ENOMEM;
		} else if (!part_extend(v, s, e->off, e->seg_off, e->len) &&
			   !part_seg(v, s, e->off, e->seg_off, e->len)) {
			return -ENOMEM;
		}
	}
	return 0;
}

static int look_up(struct io_read_priv *v, struct meta_map *map, uint64_t off, uint64_t end)
{
	while (off < end) {
		struct tess_range r = { off, end - off };
		int e = io_view(v->r->file, r, v->r->fresh, map);

		if (e < 0)
			return e;
		if (map->generation > v->found) {
			v->found = map->generation;
			v->found_size = map->size;
		}
		/* Newer than what the plan is made of: the caller makes another. */
		if (v->found > v->planned)
			return 0;
		e = add_map(v, map, end);
		if (e < 0)
			return e;
		if (map->end <= off || map->end >= end) {
			/* Behind the published end: written by size alone. */
			off = MAX(off, map->end);
			if (off < end && !part_add(v, PART_HOLE, off, end - off))
				return -ENOMEM;
			return 0;
		}
		off = map->end;
	}
	return 0;
}

/* Replaces PUB parts by what the namespace says. */
static int resolve(struct io_read_priv *v)
{
	scoped_free struct meta_map *map = NULL;
	scoped_free struct part **old = v->parts;
	unsigned n = v->nparts, i = 0;
	int e = 0;

	while (i < n && old[i]->kind != PART_PUB)
		i++;
	if (i == n) {
		old = NULL;
		return 0;
	}
	map = mem_alloc(sizeof(*map));
	if (!map) {
		old = NULL;
		return -ENOMEM;
	}
	v->parts = NULL;
	v->nparts = v->cap = 0;
	for (i = 0; i < n; i++) {
		struct part *p = old[i], *q;

		if (e == 0 && p->kind == PART_PUB) {
			e = look_up(v, map, p->off, p->off + p->len);
			part_free(p);
			continue;
		}
		/* Kept as it is; the slot is what part_add() is for. */
		q = e == 0 ? part_add(v, p->kind, p->off, p->len) : NULL;
		if (!q) {
			e = e < 0 ? e : -ENOMEM;
			part_free(p);
			continue;
		}
		free(q);
		v->parts[v->nparts - 1] = p;
	}
	return e;
}

/* ---- 3: bytes ---- */

static void read_start(struct io_read_priv *v);

/* More parts than iovecs: one flat copy. */
static int flatten(struct io_read_priv *v)
{
	struct io_read *r = v->r;
	char *to;

	v->flat = buf_new(v->io->budget, MEM_IO, round_up(r->n, TESS_BLOCK));
	if (!v->flat)
		return -ENOMEM;
	to = v->flat->data;
	for (unsigned i = 0; i < v->nparts; i++) {
		struct part *p = v->parts[i];

		if (p->kind == PART_HOLE)
			memset(to, 0, p->len);
		else
			memcpy(to, p->buf->data + p->at, p->len);
		to += p->len;
	}
	v->iov[0] = (struct iovec){ v->flat->data, r->n };
	r->niov = 1;
	return 0;
}

static int gather(struct io_read_priv *v)
{
	struct io_read *r = v->r;

	r->iov = v->iov;
	r->niov = 0;
	for (unsigned i = 0; i < v->nparts; i++) {
		struct part *p = v->parts[i];
		uint64_t max = p->kind == PART_HOLE ? v->io->zero->cap : p->len;

		for (uint64_t at = 0; at < p->len; at += max) {
			char *from = p->kind == PART_HOLE ? v->io->zero->data :
							    p->buf->data + p->at;

			if (r->niov == IO_READ_IOVS)
				return flatten(v);
			v->iov[r->niov++] = (struct iovec){ from, MIN(max, p->len - at) };
		}
	}
	return 0;
}

static bool worth_another_look(int e)
{
	return e == -TESS_E_NO_OBJECT || e == -TESS_E_STAGE_LOST || e == -TESS_E_CHECKSUM;
}

/* What is missing died of a publish since the plan was made: no wonder, however often that happens. */
static bool moved_on(const struct io_read_priv *v)
{
	struct meta_attr a;

	return meta_getattr(v->io->meta, v->r->file->ino, &a) == 0 && a.generation > v->planned;
}

static bool look_again(struct io_read_priv *v)
{
	if (v->moved < READ_MOVED && moved_on(v))
		v->moved++;
	else
		v->tries++;
	return v->tries < READ_TRIES;
}

static void read_finish(struct io_read_priv *v)
{
	struct io_read *r = v->r;
	int e = atomic_load(&v->err);

	if (worth_another_look(e) && look_again(v)) {
		io_count(v->io, IO_RETRIES, 1);
		io_read_leave(v->io, v->epoch);
		io_view_lost(r->file, atomic_load(&v->lost), v->tries > 1 || v->moved > 0);
		read_start(v);
		return;
	}
	if (e == 0)
		e = gather(v);
	io_read_leave(v->io, v->epoch);
	r->err = e;
	if (e < 0)
		r->n = r->niov = 0;
	io_count(v->io, IO_READ_BYTES, r->n);
	r->done(r);
}

static void read_drop(struct io_read_priv *v, int err)
{
	int none = 0;

	if (err < 0)
		atomic_compare_exchange_strong(&v->err, &none, err);
	if (atomic_fetch_sub(&v->left, 1) == 1)
		read_finish(v);
}

/* `p` may be gone afterwards. */
static void part_drop(struct part *p, int err)
{
	if (worth_another_look(err))
		atomic_store(&p->priv->lost, p->seg->id);
	read_drop(p->priv, err);
}

static void part_fetched(struct io_fetch *f)
{
	struct part *p = f->owner;

	if (f->err == 0) {
		p->buf = buf_ref(f->buf);
		p->at = f->at;
		p->kind = PART_BUF;
	}
	part_drop(p, f->err);
}

static void part_cached(struct cache_wait *w, struct buf *b, int err)
{
	struct part *p = container_of(w, struct part, wait);

	if (err == 0) {
		p->buf = buf_ref(b);
		p->at = p->chunk_at;
		p->kind = PART_BUF;
	}
	part_drop(p, err);
}

static int part_staged(struct io_read_priv *v, struct part *p)
{
	int e;

	p->buf = buf_new(v->io->budget, MEM_IO, round_up(p->len, TESS_BLOCK));
	e = p->buf ? stage_read(v->io, p->seg->id, p->at, p->buf->data, p->len) : -ENOMEM;
	if (e == 0) {
		p->kind = PART_BUF;
		p->at = 0;
	}
	return e;
}

static int part_get(struct io_read_priv *v, struct part *p)
{
	struct io_fetch *f = mem_zalloc(sizeof(*f));

	if (!f)
		return -ENOMEM;
	*f = (struct io_fetch){ .io = v->io, .req = v->r->req, .seg = *p->seg,
				.want = { p->at, p->len }, .csums = steal_ptr(p->csums),
				.done = part_fetched, .owner = p, .use = MEM_IO };
	p->fetch = f;
	atomic_fetch_add(&v->left, 1);
	io_fetch_start(f);
	return 0;
}

/* A part within one chunk of a published segment. */
static int part_chunk(struct io_read_priv *v, struct part *p)
{
	uint32_t index = (uint32_t)(p->at / v->io->chunk);
	enum cache_got got;
	bool loaded = false;
	int e;

	p->chunk_at = p->at - index * v->io->chunk;
	p->wait.fn = part_cached;
	p->wait.req = v->r->req;
	list_init(&p->wait.link);
	for (;;) {
		atomic_fetch_add(&v->left, 1);
		got = cache_get(v->io, p->seg->id, index, &p->buf, &p->wait,
				v->run ? p->chunk_at + p->len : 0);
		if (got == CACHE_WAIT)
			break;
		atomic_fetch_sub(&v->left, 1);
		if (got == CACHE_HIT) {
			p->at = p->chunk_at;
			p->kind = PART_BUF;
			break;
		}
		if (loaded || budget_over(v->io->budget, MEM_IO) ||
		    (!v->run && !cache_often_missed(v->io, p->seg, index, p->len))) {
			io_count(v->io, IO_CACHE_MISS, 1);
			return part_get(v, p);
		}
		e = cache_load(v->io, p->seg, index, false);
		if (e < 0)
			return e;
		loaded = true;
	}
	io_count(v->io, loaded ? IO_CACHE_MISS : IO_CACHE_HIT, 1);
	return 0;
}

static int part_start(struct io_read_priv *v, struct part *p)
{
	if (p->kind != PART_SEG)
		return 0;
	if (p->seg->state == META_STAGED)
		return part_staged(v, p);
	if (p->csums || p->at / v->io->chunk != (p->at + p->len - 1) / v->io->chunk)
		return part_get(v, p);
	return part_chunk(v, p);
}

static bool in_cache(struct io_read_priv *v, const struct part *p)
{
	uint64_t last = (p->at + p->len - 1) / v->io->chunk;
	struct buf *none;

	for (uint64_t c = p->at / v->io->chunk; c <= last; c++)
		if (cache_get(v->io, p->seg->id, (uint32_t)c, &none, NULL, 0) != CACHE_MISS)
			return true;
	return false;
}

/* Cuts part i at the chunks' borders when the cache has, or should have, some of it. */
static int split_chunks(struct io_read_priv *v, unsigned i)
{
	struct part *p = v->parts[i];
	uint64_t first = v->io->chunk - p->at % v->io->chunk;
	struct part *q;

	if (p->kind != PART_SEG || p->csums || p->seg->state == META_STAGED || p->len <= first ||
	    (!v->run && !in_cache(v, p)))
		return 0;
	q = part_seg(v, p->seg, p->off + first, p->at + first, p->len - first);
	if (!q)
		return -ENOMEM;
	p->len = first;
	memmove(&v->parts[i + 2], &v->parts[i + 1], (v->nparts - i - 2) * sizeof(q));
	v->parts[i + 1] = q;
	return 0;
}

static void read_bytes(struct io_read_priv *v)
{
	int e = 0;

	atomic_store(&v->err, 0);
	atomic_store(&v->lost, 0);
	atomic_store(&v->left, 1);
	for (unsigned i = 0; e == 0 && i < v->nparts; i++)
		e = split_chunks(v, i);
	for (unsigned i = 0; e == 0 && i < v->nparts; i++)
		e = part_start(v, v->parts[i]);
	read_drop(v, e);
}

static int look_at_end(struct io_read_priv *v)
{
	struct meta_attr a;
	int e = meta_getattr(v->io->meta, v->r->file->ino, &a);

	if (e == 0 && a.generation > v->found) {
		v->found = a.generation;
		v->found_size = a.size;
	}
	return e;
}

static int read_plan_once(struct io_read_priv *v, struct tess_range *ret_ahead)
{
	struct io_read *r = v->r;
	struct io_file *f = r->file;
	int e;

	ret_ahead->len = 0;
	parts_free(v);
	e = io_yield(f, r->off, r->off + r->len);
	if (e < 0)
		return e;
	lock_take(&f->lock);
	v->planned = v->found = f->generation;
	r->n = r->off < f->size ? MIN(r->len, f->size - r->off) : 0;
	e = add_dirty_locked(v, r->off, r->off + r->n);
	if (r->stream && v->tries == 0 && v->moved == 0 && r->n > 0)
		v->run = ahead_note(r->stream, &f->stream, (struct tess_range){ r->off, r->n },
				    v->io->readahead, ret_ahead);
	if (ret_ahead->len && ret_ahead->off >= f->size)
		ret_ahead->len = 0;
	else if (ret_ahead->len)
		ret_ahead->len = MIN(ret_ahead->len, f->size - ret_ahead->off);
	lock_drop(&f->lock);
	if (e == 0)
		e = resolve(v);
	/* An end that the file was last seen to have. */
	if (e == 0 && r->fresh && r->n < r->len && v->found == v->planned)
		e = look_at_end(v);
	return e;
}

/* A plan is made of one generation: a read never mixes what two publishes say. */
static int read_plan(struct io_read_priv *v, struct tess_range *ret_ahead)
{
	struct io_file *f = v->r->file;
	int e;

	for (unsigned i = 0;; i++) {
		e = read_plan_once(v, ret_ahead);
		if (e < 0 || v->found <= v->planned)
			return e;
		if (i >= READ_PLANS)
			return -EBUSY;
		lock_take(&f->lock);
		io_file_base_locked(f, v->found_size, v->found);
		lock_drop(&f->lock);
	}
}

static void read_start(struct io_read_priv *v)
{
	struct io_file *f = v->r->file;
	struct tess_range next;
	int e;

	v->epoch = io_read_enter(v->io);
	e = read_plan(v, &next);
	if (e < 0) {
		atomic_store(&v->err, e);
		read_finish(v);
		return;
	}
	if (next.len && !budget_over(v->io->budget, MEM_IO))
		ahead_start(f, next);
	read_bytes(v);
}

void io_read(struct io_read *r)
{
	struct io_read_priv *v = mem_alloc(sizeof(*v));

	r->priv = v;
	r->err = 0;
	r->n = r->niov = 0;
	r->iov = NULL;
	if (!v) {
		r->err = -ENOMEM;
		r->done(r);
		return;
	}
	memset(v, 0, offsetof(struct io_read_priv, iov));
	v->r = r;
	v->io = r->file->io;
	io_count(v->io, IO_READS, 1);
	read_start(v);
}

void io_read_release(struct io_read *r)
{
	struct io_read_priv *v = r->priv;

	if (!v)
		return;
	parts_free(v);
	buf_unref(v->flat);
	free(v->parts);
	free(v);
	r->priv = NULL;
}
