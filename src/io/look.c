/* SPDX-License-Identifier: Apache-2.0 */
/* For whoever asks what is going on: what a file waits for, and what failed lately. */
#include "io/stage.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <inttypes.h>
#include <string.h>

/* ---- what a file waits for ---- */

#define LOOK_FLIGHTS 64u	/* of a target, the oldest */

struct look_flight {
	const char     *target;
	enum store_code code;
	char            key[STORE_NAME_MAX + 1];
	uint64_t        ino;
	int64_t         start;
};
struct look {
	struct look_flight f[LOOK_FLIGHTS];
	unsigned           n;
	const char        *target;
};

static void look_copy(void *arg, const struct store_flight *f)
{
	struct look *l = arg;
	struct look_flight *to = &l->f[l->n];

	if (l->n == LOOK_FLIGHTS)
		return;
	*to = (struct look_flight){ .target = l->target, .code = f->code, .ino = f->ino,
				    .start = f->start };
	memcpy(to->key, f->key, strnlen(f->key, STORE_NAME_MAX));
	l->n++;
}

/* Whether published bytes of the file, the first ones of a large one, are in the segment. */
static bool in_extents(struct io *io, uint64_t ino, tess_segid id)
{
	scoped_free struct meta_map *m = mem_alloc(sizeof(*m));

	if (!m || meta_map(io->meta, ino, (struct tess_range){ 0, TESS_FILE_MAX }, m) < 0)
		return false;
	for (unsigned i = 0; i < m->nsegments; i++)
		if (m->segments[i].id == id)
			return true;
	return false;
}

static bool look_is_of(struct io *io, const struct look_flight *f, uint64_t ino)
{
	struct stage *st = io->stage;
	struct meta_segment m;
	unsigned shard;
	tess_segid id;
	bool staged;

	if (f->ino != 0)
		return f->ino == ino;
	if (place_parse(f->key, &id, &shard) < 0)
		return false;
	lock_take(&st->lock);
	staged = stage_find_locked(st, id) && stage_holds_locked(stage_find_locked(st, id), ino);
	lock_drop(&st->lock);
	if (staged || meta_segment_get(io->meta, id, &m) < 0)
		return staged;
	return m.owner == ino || (m.owner == TESS_PACKED_INO && in_extents(io, ino, id));
}

void io_waits(struct io *io, uint64_t ino, struct text *out)
{
	scoped_free struct look *l = mem_alloc(sizeof(*l));
	struct look_flight old = { .start = INT64_MAX };
	unsigned n = 0;

	for (unsigned i = 0; l && i < io->ntgt; i++) {
		l->n = 0;
		l->target = io->tgt[i].store->label;
		store_flights(io->tgt[i].store, look_copy, l);
		for (unsigned j = 0; j < l->n; j++) {
			if (!look_is_of(io, &l->f[j], ino))
				continue;
			n++;
			if (l->f[j].start < old.start)
				old = l->f[j];
		}
	}
	if (n > 0)
		text_fmt(out, "target %s, %s of %s for %.1f s", old.target,
			 store_code_name(old.code), old.key,
			 (double)(clock_now() - old.start) / 1e9);
	if (n > 1)
		text_fmt(out, " (and %u more)", n - 1);
	if (n == 0 && budget_over(io->budget, MEM_DIRTY))
		text_add(out, "memory: as much as may be is dirty");
}

/* ---- what failed ---- */

/* One that comes again is counted; else the one that was quiet for longest makes place. */
void io_error_note(struct io *io, uint64_t ino, const char *what, int err)
{
	struct io_error *at = NULL;
	int64_t now = clock_wall();

	scoped_lock(&io->errors_lock);
	for (unsigned i = 0; i < io->nerrors; i++) {
		struct io_error *x = &io->errors[i];

		if (x->ino == ino && x->err == err && strcmp(x->what, what) == 0) {
			x->last = now;
			x->count++;
			return;
		}
		if (!at || x->last < at->last)
			at = x;
	}
	if (io->nerrors < IO_ERRORS)
		at = &io->errors[io->nerrors++];
	*at = (struct io_error){ ino, err, what, now, now, 1 };
}

static int by_last(const void *a, const void *b)
{
	const struct io_error *x = a, *y = b;

	return (x->last < y->last) - (x->last > y->last);
}

unsigned io_errors(struct io *io, struct io_error ret[IO_ERRORS], bool clear)
{
	unsigned n;

	lock_take(&io->errors_lock);
	n = io->nerrors;
	memcpy(ret, io->errors, n * sizeof(*ret));
	if (clear)
		io->nerrors = 0;
	lock_drop(&io->errors_lock);
	qsort(ret, n, sizeof(*ret), by_last);
	return n;
}
