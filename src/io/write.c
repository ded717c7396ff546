/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in: a copy into the dirty map, and a word to the flusher when enough has come together. */
#include "base/err.h"
#include "base/scoped.h"
#include "io/io_int.h"

#define WRITE_PATIENCE (60 * NS_PER_S)	/* for memory, when the request has no deadline of its own */

/* The budget's share of dirty bytes is used up: wait for the flusher, which the budget kicks. */
static int wait_memory(struct io *io, const struct tess_req *req)
{
	int64_t limit = clock_now() + WRITE_PATIENCE;

	return budget_wait_dirty(io->budget, req, MIN(req->deadline, limit));
}

bool io_write_waits(const struct io *io)
{
	return budget_over(io->budget, MEM_DIRTY);
}

int io_write(struct io_file *f, struct tess_req *req, uint64_t off, const void *p, size_t len)
{
	struct io *io = f->io;
	struct tess_range r = { off, len };
	uint64_t end;
	int e = 0;

	if (!range_end(r, &end) || end > (uint64_t)TESS_FILE_MAX)
		return -EFBIG;
	if (len == 0)
		return 0;
	if (budget_over(io->budget, MEM_DIRTY))
		e = wait_memory(io, req);
	if (e < 0)
		return e;
	scoped_lock(&f->lock);
	if (f->rescued || meta_fenced(io->meta))
		return -TESS_E_FENCED;
	e = dirty_write(&f->dirty, r, p, f->lay.layout.segment_size, meta_turn(io->meta, f->ino, r));
	if (e < 0)
		return e;
	f->size = MAX(f->size, end);
	io_file_touch_locked(f, clock_wall_coarse());
	io_flush_check_locked(f);
	io_count(io, IO_WRITES, 1);
	io_count(io, IO_WRITE_BYTES, len);
	return 0;
}
