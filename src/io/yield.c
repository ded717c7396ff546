/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpublished bytes that another session wrote over later, and has published. A publish leaves them out
 * anyhow; a reader whose open or lock came after that publish must not be shown them until then.
 */
#include "base/fault.h"
#include "base/scoped.h"
#include "io/io_int.h"

static bool overlaps_locked(const struct io_file *f, uint64_t off, uint64_t end)
{
	const struct dirty_node *n = dirty_next(&f->dirty, off);

	return n && dirty_off(n) < end;
}

/* All dirty bytes are of the turn that is still the file's last one, or else others wrote in between. */
static bool contested_locked(const struct io_file *f)
{
	return f->dirty.tree.n > 0 && meta_turn_last(f->io->meta, f->ino) != f->first_turn;
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

static int yield_to(struct io_file *f, const struct meta_map *map)
{
	int e = 0;

	scoped_lock(&f->lock);
	for (unsigned i = 0; e == 0 && i < map->npieces; i++)
		if (map->pieces[i].ext.seg != 0)
			e = give_way_locked(f, &map->pieces[i].ext);
	/* What is read there now must not be older than what gave way. */
	io_file_base_locked(f, map->size, map->generation);
	return e;
}

int io_yield(struct io_file *f, uint64_t off, uint64_t end)
{
	scoped_free struct meta_map *map = NULL;
	bool look;
	int e = 0;

	lock_take(&f->lock);
	/* The administrator gets what was written here, not what others put there since. */
	look = !f->rescuing && contested_locked(f) && overlaps_locked(f, off, end);
	lock_drop(&f->lock);
	if (!look)
		return 0;
	map = mem_alloc(sizeof(*map));
	if (!map)
		return -ENOMEM;
	while (e == 0 && off < end) {
		e = meta_map(f->io->meta, f->ino, (struct tess_range){ off, end - off }, map);
		if (e == 0)
			e = yield_to(f, map);
		/* The end of what is published. */
		if (map->end <= off)
			break;
		off = map->end;
	}
	return e;
}
