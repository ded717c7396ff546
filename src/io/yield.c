/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpublished bytes that another session wrote over later, and has published. A publish leaves them out
 * anyhow; a reader whose open or lock came after that publish must not be shown them until then.
 */
#include "base/fault.h"
#include "base/scoped.h"
#include "io/io_int.h"

/* Somebody may have written later where dirty bytes of [off, end) lie. */
static bool contested_locked(struct io_file *f, uint64_t off, uint64_t end)
{
	struct dirty_node *n = dirty_next(&f->dirty, off);

	for (; n && dirty_off(n) < end; n = dirty_after(n)) {
		uint64_t from = MAX(dirty_off(n), off), to = MIN(dirty_end(n), end);

		if (!n->fill && !meta_turn_stands(f->io->meta, f->ino, (struct tess_range){ from, to - from },
						  n->turn))
			return true;
	}
	return false;
}

/* What was written earlier than e, and lies where e does. */
static int give_way_locked(struct io_file *f, const struct tess_extent *e)
{
	uint64_t at = e->off, end = e->off + e->len;
	int err = 0;

	while (err == 0 && at < end) {
		struct dirty_node *n = dirty_next(&f->dirty, at);
		uint64_t from = n ? MAX(dirty_off(n), at) : end;

		if (from >= end)
			break;
		at = MIN(dirty_end(n), end);
		if (n->turn < e->turn)
			err = dirty_clip(&f->dirty, (struct tess_range){ from, at - from });
	}
	return err;
}

/* What a cut of this session's will take away with its next publish replaces nothing. */
static bool cut_locked(const struct io_file *f, const struct tess_extent *e)
{
	struct tess_range r = { e->off, e->len };

	return io_cut_hides(&f->pend, r) || io_cut_hides(&f->pub, r);
}

static int yield_to(struct io_file *f, const struct meta_map *map)
{
	int e = 0;

	scoped_lock(&f->lock);
	for (unsigned i = 0; e == 0 && i < map->npieces; i++) {
		const struct tess_extent *x = &map->pieces[i].ext;

		if (x->seg != 0 && !cut_locked(f, x))
			e = give_way_locked(f, x);
	}
	/* What is read there now must not be older than what gave way. */
	io_file_base_locked(f, map->size, map->generation);
	io_file_size_locked(f);
	return e;
}

int io_yield(struct io_file *f, uint64_t off, uint64_t end)
{
	scoped_free struct meta_map *map = NULL;
	bool look;
	int e = 0;

	lock_take(&f->lock);
	/* The administrator gets what was written here, not what others put there since. */
	look = !f->rescuing && contested_locked(f, off, end);
	lock_drop(&f->lock);
	if (!look || meta_fenced(f->io->meta))
		return 0;
	map = mem_alloc(sizeof(*map));
	if (!map)
		return -ENOMEM;
	while (off < end) {
		e = meta_map(f->io->meta, f->ino, (struct tess_range){ off, end - off }, map);
		if (e == 0)
			e = yield_to(f, map);
		/* The end of what is published. */
		if (e < 0 || map->end <= off)
			break;
		off = map->end;
	}
	return e;
}
