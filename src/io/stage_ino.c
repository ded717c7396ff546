/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files have published bytes in which open segment, so that an fsync waits for its own: one
 * target that does not answer must not hold up the files whose bytes go elsewhere.
 *
 * A segment remembers inodes, never forgets one, and when that takes too much memory stands for all
 * files: to wait for too much costs time, to wait for too little costs bytes. What a dead session
 * left in a segment nobody remembers; the extents of a file that is synced tell, once.
 */
#include "io/stage.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"

#define INODES_MAX 65536u	/* ranges of inode numbers of one segment; then it is everybody's */

void stage_note_locked(struct stage_seg *s, uint64_t ino)
{
	if (s->anyones)
		return;
	if (s->inodes.tree.n < INODES_MAX &&
	    range_set_add(&s->inodes, (struct tess_range){ ino, 1 }) == 0)
		return;
	s->anyones = true;
	range_set_done(&s->inodes);
}

bool stage_holds_locked(const struct stage_seg *s, uint64_t ino)
{
	return ino == STAGE_ANY_INO || s->anyones ||
	       range_set_has(&s->inodes, (struct tess_range){ ino, 1 });
}

void stage_note_clone(struct io *io, uint64_t src, uint64_t dst)
{
	struct stage *st = io->stage;

	scoped_lock(&st->lock);
	list_for_each(n, &st->segs) {
		struct stage_seg *s = list_entry(n, struct stage_seg, link);

		/* Of an adopted one the source may not have been asked yet. */
		if (!s->committed && (s->adopted || stage_holds_locked(s, src)))
			stage_note_locked(s, dst);
	}
}

/* 0: nothing adopted is left that the file was not asked about; else the number of the last adoption. */
static uint64_t unasked(struct io_file *f)
{
	struct stage *st = f->io->stage;
	uint64_t seen, last = 0;

	lock_take(&f->lock);
	seen = f->adoptions;
	lock_drop(&f->lock);
	scoped_lock(&st->lock);
	list_for_each(n, &st->segs) {
		const struct stage_seg *s = list_entry(n, struct stage_seg, link);

		if (s->adopted && !s->committed)
			last = MAX(last, s->birth);
	}
	return last > seen ? last : 0;
}

static void note_map(struct stage *st, uint64_t ino, const struct meta_map *m)
{
	scoped_lock(&st->lock);
	for (unsigned i = 0; i < m->nsegments; i++) {
		struct stage_seg *s;

		if (m->segments[i].state != META_STAGED)
			continue;
		s = stage_find_locked(st, m->segments[i].id);
		if (s && !s->committed)
			stage_note_locked(s, ino);
	}
}

int stage_note_adopted(struct io_file *f)
{
	uint64_t last = unasked(f), at = 0;
	scoped_free struct meta_map *m = last ? mem_alloc(sizeof(*m)) : NULL;
	int e = 0;

	if (!last)
		return 0;
	if (!m)
		return -ENOMEM;
	do {
		e = meta_map(f->io->meta, f->ino, (struct tess_range){ at, TESS_FILE_MAX - at }, m);
		if (e < 0)
			return e;
		note_map(f->io->stage, f->ino, m);
		if (m->end <= at)
			break;
		at = m->end;
	} while (at < m->size);
	scoped_lock(&f->lock);
	f->adoptions = MAX(f->adoptions, last);
	return 0;
}
