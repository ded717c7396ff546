/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read-ahead. A stream's reads are compared by the gap between one's end and the next one's start: 0 is
 * sequential, any constant one is strided. A run of them opens a window that doubles with every read up to
 * the limit; a read that does not fit closes it, and random access never opens one.
 */
#include "base/fault.h"
#include "base/scoped.h"
#include "io/read_int.h"

#define NEAR      IO_CHUNK	/* a gap up to this is cheaper to read over than to leave out */
#define RUN_SMALL 2u		/* equal gaps before a window opens; a large first read at 0 opens it at once */
#define LARGE     (UINT64_C(64) << 10)

/* Requests of one stream may overtake each other: a read just before or behind the expected place fits. */
static bool overtaken(const struct io_stream *s, uint64_t off)
{
	uint64_t far = off > s->next ? off - s->next : s->next - off;

	return s->run >= RUN_SMALL && s->stride == 0 && far <= NEAR;
}

static bool fits(struct io_stream *s, uint64_t off)
{
	uint64_t gap = off - s->next;

	if (gap == s->stride || overtaken(s, off)) {
		s->run++;
		return true;
	}
	s->stride = gap;
	s->run = 0;
	s->ahead = 0;
	s->misses++;
	return false;
}

static uint64_t window(const struct io_stream *s, uint64_t len, uint64_t limit)
{
	unsigned doublings = MIN(s->run, 20u);
	uint64_t w = MAX(len, IO_CHUNK) << doublings;

	return MIN(w, limit);
}

static bool stream_note(struct io_stream *s, uint64_t off, uint64_t len, uint64_t limit,
			struct tess_range *ret)
{
	uint64_t end = off + len, from, to;
	bool first = off == 0 && s->next == 0;

	ret->len = 0;
	if (!fits(s, off) || (s->run < RUN_SMALL && !(first && len >= LARGE))) {
		s->next = end;
		return false;
	}
	s->next = MAX(s->next, end);
	if (first)
		return true;
	if (s->stride > NEAR) {
		/* A wide stride: the next record alone, and only forwards. */
		if (s->stride < (uint64_t)INT64_MAX && len >= LARGE && limit > 0)
			*ret = (struct tess_range){ s->next + s->stride, len };
		return false;
	}
	from = MAX(s->ahead, end);
	to = end + window(s, len, limit);
	/* In steps of at least half a window, so that not every read asks. */
	if (to <= from || (to - from < (to - end) / 2 && to - from < 4 * IO_CHUNK))
		return true;
	*ret = (struct tess_range){ from, to - from };
	s->ahead = to;
	return true;
}

/*
 * Of a handle, and of all handles of a file together: processes that share the kernel's page cache take
 * turns in asking for what none of them has read yet, so that each alone leaves gaps of any size.
 */
bool ahead_note(struct io_stream *one, struct io_stream *all, struct tess_range r, uint64_t limit,
		struct tess_range *ret)
{
	struct tess_range shared;
	bool in_all = stream_note(all, r.off, r.len, limit, &shared);

	if (stream_note(one, r.off, r.len, limit, ret))
		return true;
	if (in_all)
		*ret = shared;
	return in_all;
}

struct ahead {
	struct pool_job   job;
	struct io_file   *f;		/* a reference */
	struct tess_range r;
	unsigned          epoch;
};

static void load_piece(struct io *io, const struct tess_extent *e, const struct meta_segment *s)
{
	uint64_t last = (e->seg_off + e->len - 1) / io->chunk;

	if (s->state == META_STAGED || e->seg_off + e->len > s->len)
		return;
	for (uint64_t c = e->seg_off / io->chunk; c <= last; c++) {
		if (budget_over(io->budget, MEM_IO))
			return;
		if (cache_load(io, s, (uint32_t)c, true) < 0)
			return;
	}
}

static void ahead_job(struct pool_job *j)
{
	struct ahead *a = container_of(j, struct ahead, job);
	struct io *io = a->f->io;
	struct meta_map *map = mem_alloc(sizeof(*map));

	if (map && io_view(a->f, a->r, false, map) == 0)
		for (unsigned i = 0; i < map->npieces; i++)
			if (map->pieces[i].ext.seg != 0)
				load_piece(io, &map->pieces[i].ext,
					   &map->segments[map->pieces[i].segment]);
	free(map);
	io_read_leave(io, a->epoch);
	io_file_put(a->f);
	free(a);
}

void ahead_start(struct io_file *f, struct tess_range r)
{
	/* A job for each chunk: on local stores a job's thread does the reading. */
	while (r.len > 0) {
		uint64_t step = MIN(r.len, f->io->chunk - r.off % f->io->chunk);
		struct ahead *a = mem_alloc(sizeof(*a));

		if (!a)
			return;
		*a = (struct ahead){ .job.run = ahead_job, .f = f, .r = { r.off, step } };
		io_file_get(f);
		a->epoch = io_read_enter(f->io);
		if (pool_try(f->io->ahead, &a->job) < 0) {
			io_read_leave(f->io, a->epoch);
			io_file_put(f);
			free(a);
			return;
		}
		r.off += step;
		r.len -= step;
	}
}
