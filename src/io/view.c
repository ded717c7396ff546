/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is published of an open file, as its handles see it: the extents of one generation, kept
 * once looked up. Close-to-open asks the namespace at open and not at each read; where the namespace is
 * a network away, that is the difference between a page and a round trip.
 *
 * The file moves to a newer generation as a whole: at an open, a stat or a lock that sees one, after its own
 * publish, or when a segment it remembers is gone.
 */
#include "base/fault.h"
#include "base/scoped.h"
#include "io/io_int.h"
#include <string.h>

#define VIEW_CHUNKS 64u			     /* of one file */
#define VIEW_TOTAL  (UINT64_C(32) << 20)     /* bytes, of all files */
#define VIEW_SPAN   (UINT64_C(256) << 20)    /* of file that one look asks for */

struct view_chunk {
	struct tree_node node;	/* key: first offset */
	uint64_t         end;
	size_t           bytes;	/* of this struct */
	unsigned         npieces, nsegments;
	struct meta_segment *segments;	/* behind the pieces */
	struct meta_piece    pieces[];
};

static struct view_chunk *view_chunk_new(const struct meta_map *m, uint64_t off)
{
	size_t pieces = m->npieces * sizeof(m->pieces[0]);
	size_t bytes = sizeof(struct view_chunk) + pieces + m->nsegments * sizeof(m->segments[0]);
	struct view_chunk *c = mem_alloc(bytes);

	if (!c)
		return NULL;
	c->node.key = off;
	c->end = m->end;
	c->bytes = bytes;
	c->npieces = m->npieces;
	c->nsegments = m->nsegments;
	memcpy(c->pieces, m->pieces, pieces);
	c->segments = (struct meta_segment *)((char *)c->pieces + pieces);
	memcpy(c->segments, m->segments, m->nsegments * sizeof(m->segments[0]));
	return c;
}

void io_view_drop_locked(struct io_file *f)
{
	struct tree_node *n;

	while ((n = tree_first(&f->view))) {
		struct view_chunk *c = container_of(n, struct view_chunk, node);

		tree_remove(&f->view, n);
		atomic_fetch_sub(&f->io->view_bytes, c->bytes);
		free(c);
	}
}

/* The record of the next staged segment after `id` in the view; false: there is none. */
static bool view_staged_after(struct io_file *f, tess_segid *id)
{
	tess_segid least = 0;

	scoped_lock(&f->lock);
	for (struct tree_node *n = tree_first(&f->view); n; n = tree_next(n)) {
		const struct view_chunk *c = container_of(n, struct view_chunk, node);

		for (unsigned i = 0; i < c->nsegments; i++)
			if (c->segments[i].state == META_STAGED && c->segments[i].id > *id &&
			    (least == 0 || c->segments[i].id < least))
				least = c->segments[i].id;
	}
	*id = least;
	return least != 0;
}

static void view_set_segment(struct io_file *f, const struct meta_segment *s)
{
	scoped_lock(&f->lock);
	for (struct tree_node *n = tree_first(&f->view); n; n = tree_next(n)) {
		struct view_chunk *c = container_of(n, struct view_chunk, node);

		for (unsigned i = 0; i < c->nsegments; i++)
			if (c->segments[i].id == s->id)
				c->segments[i] = *s;
	}
}

/* A segment that went to its targets, or to others, has the same bytes there: the extents stay as they are. */
void io_view_lost(struct io_file *f, tess_segid lost, bool again)
{
	struct meta_segment s;
	tess_segid id = 0;
	int e = again ? -ENOENT : 0;

	if (e == 0 && lost) {
		e = meta_segment_get(f->io->meta, lost, &s);
		if (e == 0)
			view_set_segment(f, &s);
	}
	while (e == 0 && view_staged_after(f, &id)) {
		e = meta_segment_get(f->io->meta, id, &s);
		if (e == 0)
			view_set_segment(f, &s);
	}
	if (e == 0)
		return;
	scoped_lock(&f->lock);
	io_view_drop_locked(f);
}

/* The part of c in r, clipped. */
static void view_copy(const struct io_file *f, const struct view_chunk *c, struct tess_range r,
		      struct meta_map *ret)
{
	uint64_t end = MIN(r.off + r.len, c->end);
	const struct meta_segment *last = NULL;

	ret->generation = f->generation;
	ret->npieces = ret->nsegments = 0;
	ret->end = end;
	for (unsigned i = 0; i < c->npieces; i++) {
		struct tess_extent e = c->pieces[i].ext;
		struct meta_piece *p = &ret->pieces[ret->npieces];
		uint64_t skip = e.off < r.off ? r.off - e.off : 0;

		if (e.off + e.len <= r.off)
			continue;
		if (e.off >= end)
			break;
		p->ext = (struct tess_extent){ e.off + skip, MIN(e.len - skip, end - e.off - skip), e.seg,
					       e.seg ? e.seg_off + skip : 0, e.turn };
		if (e.seg != 0 && last != &c->segments[c->pieces[i].segment]) {
			last = &c->segments[c->pieces[i].segment];
			ret->segments[ret->nsegments++] = *last;
		}
		p->segment = ret->nsegments - (ret->nsegments > 0);
		ret->npieces++;
	}
}

static void view_keep_locked(struct io_file *f, struct view_chunk *c)
{
	struct tree_node *at = tree_floor(&f->view, c->node.key);

	/* Another reader was as fast. */
	if (at && container_of(at, struct view_chunk, node)->end > c->node.key) {
		free(c);
		return;
	}
	if (f->view.n >= VIEW_CHUNKS)
		io_view_drop_locked(f);
	at = tree_ceil(&f->view, c->node.key);
	if (at)
		c->end = MIN(c->end, at->key);
	(void)tree_insert(&f->view, &c->node);
	atomic_fetch_add(&f->io->view_bytes, c->bytes);
}

int io_view(struct io_file *f, struct tess_range r, bool fresh, struct meta_map *ret)
{
	struct tess_range wide = { r.off, MAX(r.len, VIEW_SPAN) };
	struct view_chunk *c;
	struct tree_node *n;
	uint64_t generation;
	int e;

	if (fresh)
		return meta_map(f->io->meta, f->ino, r, ret);
	lock_take(&f->lock);
	n = tree_floor(&f->view, r.off);
	if (n && container_of(n, struct view_chunk, node)->end > r.off) {
		view_copy(f, container_of(n, struct view_chunk, node), r, ret);
		ret->size = f->view_size;
		lock_drop(&f->lock);
		io_count(f->io, IO_VIEW_HIT, 1);
		return 0;
	}
	lock_drop(&f->lock);
	if (atomic_load_explicit(&f->io->view_bytes, memory_order_relaxed) > VIEW_TOTAL)
		return meta_map(f->io->meta, f->ino, r, ret);
	e = meta_map(f->io->meta, f->ino, wide, ret);
	io_count(f->io, IO_VIEW_MISS, 1);
	if (e < 0 || ret->end <= r.off)
		return e;
	c = view_chunk_new(ret, r.off);
	if (!c)
		return meta_map(f->io->meta, f->ino, r, ret);
	generation = ret->generation;
	scoped_lock(&f->lock);
	view_copy(f, c, r, ret);
	if (generation != f->generation) {
		/* Newer: the caller moves the file on, and asks again. Older: what it planned with. */
		ret->generation = generation;
		free(c);
		return 0;
	}
	f->view_size = ret->size;
	view_keep_locked(f, c);
	return 0;
}

void io_file_size_locked(struct io_file *f)
{
	struct tree_node *last = tree_last(&f->dirty.tree);
	uint64_t size = MIN(f->base_size, io_cut_end_locked(f));

	if (f->set_size != IO_NO_SIZE)
		size = MAX(size, f->set_size);
	if (last)
		size = MAX(size, dirty_end((struct dirty_node *)last));
	f->size = size;
}

void io_file_base_locked(struct io_file *f, uint64_t size, uint64_t generation)
{
	if (generation <= f->generation)
		return;
	io_view_drop_locked(f);
	f->generation = generation;
	f->base_size = size;
	io_file_size_locked(f);
}

void io_file_look(struct io_file *f, const struct meta_attr *a)
{
	scoped_lock(&f->lock);
	io_file_base_locked(f, a->size, a->generation);
}

int io_file_refresh(struct io_file *f)
{
	struct meta_attr a;
	int e = meta_getattr(f->io->meta, f->ino, &a);

	if (e == 0)
		io_file_look(f, &a);
	return e;
}
