/* SPDX-License-Identifier: Apache-2.0 */
/* GETs of a segment's shards, and the check of what came back. */
#include "base/crc.h"
#include "base/err.h"
#include "base/fault.h"
#include "io/read_int.h"

struct tess_range io_fetch_blocks(struct tess_range want, uint64_t len)
{
	struct tess_range r = { round_down(want.off, TESS_BLOCK), 0 };

	r.len = MIN(round_up(want.off + want.len, TESS_BLOCK), len) - r.off;
	return r;
}

static bool verify(const struct io_fetch *f)
{
	const char *p = f->buf->data;

	for (uint64_t at = 0, i = 0; at < f->wide.len; at += TESS_BLOCK, i++)
		if (crc32c(0, p + at, MIN(f->wide.len - at, (uint64_t)TESS_BLOCK)) != f->csums[i])
			return false;
	return true;
}

static void fetch_submit(struct io_fetch *f);

static struct store *fetch_store(const struct io_fetch *f, unsigned i)
{
	unsigned shard;
	tess_segid id;

	(void)place_parse(f->ops[i].key.name, &id, &shard);
	return io_target(f->io, f->seg.target[shard])->store;
}

/* ---- requests that are given up ---- */

static void fetch_enter(struct io_fetch *f)
{
	if (f->io->local)
		return;
	scoped_lock(&f->io->fetch_lock);
	list_push_back(&f->io->fetches, &f->link);
}

static void fetch_leave(struct io_fetch *f)
{
	if (f->io->local)
		return;
	scoped_lock(&f->io->fetch_lock);
	list_remove(&f->link);
}

/* Holds a fetch as one more answer that is awaited, unless the last one came. */
static bool fetch_pin(struct io_fetch *f)
{
	unsigned left = atomic_load(&f->left);

	while (left > 0)
		if (atomic_compare_exchange_weak(&f->left, &left, left + 1))
			return true;
	return false;
}

/* One that was given up, pinned; moved to the end, so that each is looked at once. */
static struct io_fetch *fetch_next_given_up(struct io *io, unsigned *inout_n)
{
	scoped_lock(&io->fetch_lock);
	while (*inout_n > 0 && !list_empty(&io->fetches)) {
		struct io_fetch *f = list_entry(io->fetches.next, struct io_fetch, link);

		--*inout_n;
		list_remove(&f->link);
		list_push_back(&io->fetches, &f->link);
		if (atomic_load(&f->req->cancelled) && fetch_pin(f))
			return f;
	}
	return NULL;
}

static void fetch_drop(struct io_fetch *f, int err);

bool io_fetch_hurry(struct io *io)
{
	struct io_fetch *f;
	unsigned n = 0;
	bool any = false;

	lock_take(&io->fetch_lock);
	list_for_each(at, &io->fetches)
		n++;
	lock_drop(&io->fetch_lock);
	while ((f = fetch_next_given_up(io, &n)) != NULL) {
		for (unsigned i = 0; i < f->nops; i++)
			store_cancel(fetch_store(f, i), &f->ops[i]);
		fetch_drop(f, 0);
		any = true;
	}
	return any;
}

/* ---- one fetch ---- */

static void fetch_finish(struct io_fetch *f)
{
	int e = atomic_load(&f->first_err);

	fetch_leave(f);
	if (e == -ENOENT)
		e = -TESS_E_NO_OBJECT;
	if (e == 0 && !verify(f)) {
		io_count(f->io, IO_CHECKSUM_ERRORS, 1);
		/* Once more: it may have been the way and not the place. */
		if (f->tries++ == 0) {
			fetch_submit(f);
			return;
		}
		e = -TESS_E_CHECKSUM;
	}
	f->err = e;
	f->done(f);
}

static void fetch_drop(struct io_fetch *f, int err)
{
	int none = 0;

	if (err < 0)
		atomic_compare_exchange_strong(&f->first_err, &none, err);
	if (atomic_fetch_sub(&f->left, 1) == 1)
		fetch_finish(f);
}

static void fetch_op_done(struct store_op *op)
{
	fetch_drop(op->owner, op->err);
}

/* One op for each piece of a shard; they share the buffer. */
static int fetch_ops(struct io_fetch *f, const struct oclass_geo *g)
{
	struct oclass_piece p;
	uint64_t it = 0;
	unsigned n = 0;

	while (oclass_next(g, f->wide, &it, &p))
		n++;
	f->ops = mem_array(n, sizeof(*f->ops));
	f->iovs = mem_array(n, sizeof(*f->iovs));
	if (!f->ops || !f->iovs)
		return -ENOMEM;
	it = 0;
	while (f->nops < n && oclass_next(g, f->wide, &it, &p)) {
		struct store_op *op = &f->ops[f->nops];

		if (!io_target(f->io, f->seg.target[p.shard]))
			return -TESS_E_NO_OBJECT;
		f->iovs[f->nops] = (struct iovec){ f->buf->data + (p.seg_off - f->wide.off),
						   p.len };
		op->req = f->req;
		op->code = STORE_GET;
		place_name(f->seg.id, p.shard, op->key.name);
		op->range = (struct tess_range){ p.shard_off, p.len };
		op->data = (struct tess_iov){ &f->iovs[f->nops], 1, p.len };
		op->done = fetch_op_done;
		op->owner = f;
		f->nops++;
	}
	return 0;
}

static int fetch_prepare(struct io_fetch *f)
{
	struct oclass_geo g;
	struct meta_segment now;
	uint32_t n;
	int e = io_geo(&f->seg, &g);

	if (e < 0)
		return e;
	if (f->want.len == 0 || f->want.off + f->want.len > f->seg.len)
		return -TESS_E_RECORD;
	f->wide = io_fetch_blocks(f->want, f->seg.len);
	f->at = f->want.off - f->wide.off;
	n = (uint32_t)((f->wide.len + TESS_BLOCK - 1) / TESS_BLOCK);
	f->buf = buf_new(f->io->budget, f->use, round_up(f->wide.len, TESS_BLOCK));
	if (!f->buf)
		return -ENOMEM;
	e = fetch_ops(f, &g);
	if (e < 0 || f->csums)
		return e;
	f->csums = mem_array(n, sizeof(*f->csums));
	if (!f->csums)
		return -ENOMEM;
	e = meta_csums(f->io->meta, f->seg.id, (uint32_t)(f->wide.off / TESS_BLOCK), n, f->csums);
	/* The segment died while its extents were being looked at: look again. */
	if (e < 0 && meta_segment_get(f->io->meta, f->seg.id, &now) == -ENOENT)
		e = -TESS_E_NO_OBJECT;
	return e;
}

static void fetch_submit(struct io_fetch *f)
{
	unsigned n = f->nops;

	atomic_store(&f->first_err, 0);
	atomic_store(&f->left, n + 1);
	fetch_enter(f);
	for (unsigned i = 0; i < n; i++)
		store_submit(fetch_store(f, i), &f->ops[i]);
	fetch_drop(f, 0);
}

void io_fetch_start(struct io_fetch *f)
{
	int e = fetch_prepare(f);

	if (e < 0) {
		f->err = e;
		f->done(f);
		return;
	}
	io_count(f->io, IO_GETS, f->nops);
	io_count(f->io, IO_GET_BYTES, f->wide.len);
	fetch_submit(f);
}

void io_fetch_done(struct io_fetch *f)
{
	buf_unref(f->buf);
	free(f->csums);
	free(f->ops);
	free(f->iovs);
}
