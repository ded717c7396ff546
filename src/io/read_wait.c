/* SPDX-License-Identifier: Apache-2.0 */
/* Reads that wait: tools, tests, background threads, and flushes that move published bytes. */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "io/read_int.h"
#include "io/stage.h"
#include <string.h>

struct fetch_sync {
	struct io_fetch f;
	struct lock     lock;
	struct cond     cond;
	bool            over;
};

static void sync_done(struct io_fetch *f)
{
	struct fetch_sync *w = container_of(f, struct fetch_sync, f);

	scoped_lock(&w->lock);
	w->over = true;
	cond_wake_all(&w->cond);
}

int io_fetch_sync(struct io *io, struct tess_req *req, const struct meta_segment *seg, uint64_t off,
		  void *p, size_t n)
{
	scoped_free struct fetch_sync *w = NULL;
	int e;

	if (seg->state == META_STAGED)
		return stage_read(io, seg->id, off, p, n);
	w = mem_zalloc(sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->f = (struct io_fetch){ .io = io, .req = req, .seg = *seg, .want = { off, n },
				  .done = sync_done, .use = MEM_IO };
	lock_init(&w->lock, LOCK_LEAF, "io.fetch");
	cond_init(&w->cond);
	io_fetch_start(&w->f);
	lock_take(&w->lock);
	while (!w->over)
		cond_wait(&w->cond, &w->lock);
	lock_drop(&w->lock);
	e = w->f.err;
	if (e == 0)
		memcpy(p, w->f.buf->data + w->f.at, n);
	io_fetch_done(&w->f);
	cond_done(&w->cond);
	lock_done(&w->lock);
	return e;
}

struct read_sync {
	struct io_read r;
	struct lock    lock;
	struct cond    cond;
	bool           over;
};

static void read_over(struct io_read *r)
{
	struct read_sync *w = container_of(r, struct read_sync, r);

	scoped_lock(&w->lock);
	w->over = true;
	cond_wake_all(&w->cond);
}

ssize_t io_read_sync(struct io_file *f, struct tess_req *req, uint64_t off, void *p, size_t len)
{
	struct read_sync w = { .r = { .req = req, .file = f, .off = off, .len = len,
				      .done = read_over } };
	struct tess_iov v;
	ssize_t n;

	lock_init(&w.lock, LOCK_LEAF, "io.read");
	cond_init(&w.cond);
	io_read(&w.r);
	lock_take(&w.lock);
	while (!w.over)
		cond_wait(&w.cond, &w.lock);
	lock_drop(&w.lock);
	v = (struct tess_iov){ w.r.iov, w.r.niov, w.r.n };
	n = w.r.err < 0 ? w.r.err : (ssize_t)iov_copy_out(p, &v, 0, w.r.n);
	io_read_release(&w.r);
	cond_done(&w.cond);
	lock_done(&w.lock);
	return n;
}
