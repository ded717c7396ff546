/* SPDX-License-Identifier: Apache-2.0 */
/* One segment to its targets: checksums, shards, a PUT each. Used by flushes and by seals. */
#include "io/io_int.h"
#include "base/err.h"
#include "base/fault.h"
#include <string.h>

struct io_tgt *io_target(struct io *io, uint16_t id)
{
	for (unsigned i = 0; i < io->ntgt; i++)
		if (io->tgt[i].id == id)
			return &io->tgt[i];
	return NULL;
}

void io_target_changed(struct io_tgt *t)
{
	atomic_fetch_add(&t->changes, 1);
}

int io_geometry(struct io *io, const struct oclass *cls, uint32_t segment_size, uint64_t seed,
		struct meta_segment *ret)
{
	bool fits = io->write.live > 0 && oclass_usable(cls, io->write.live, NULL) == 0;
	const struct io_set *s = fits ? &io->write : &io->all;
	unsigned width = oclass_width(cls, s->live);
	int e = oclass_usable(cls, s->live, NULL);

	if (e == 0)
		e = place(seed, s->t, s->n, width, ret->target);
	if (e < 0)
		return e;
	ret->cls = cls->id;
	ret->width = (uint8_t)width;
	ret->cell = oclass_cell(segment_size, width);
	return 0;
}

int io_geo(const struct meta_segment *s, struct oclass_geo *ret)
{
	int e = oclass_from_id(s->cls, &ret->cls);

	if (e < 0)
		return e;
	ret->width = s->width;
	ret->cell = s->cell;
	ret->len = s->len;
	return oclass_geo_check(ret);
}

/* The last one out calls done(). */
static void put_drop(struct io_put *p, int err)
{
	int none = 0;

	if (err < 0)
		atomic_compare_exchange_strong(&p->err, &none, err);
	if (atomic_fetch_sub(&p->left, 1) != 1)
		return;
	trace_lat(&p->io->hists[IO_H_PUT], clock_now() - p->began);
	p->done(p);
}

static void put_op_done(struct store_op *op)
{
	struct io_put *p = op->owner;
	unsigned shard = (unsigned)(op - p->ops);

	if (op->err == 0)
		io_target_changed(io_target(p->io, p->seg.target[shard]));
	put_drop(p, op->err);
}

/* Shard i as an op, its iovecs from `iov` on; *ret_n of them used. */
static int put_shard(struct io_put *p, const struct oclass_geo *g, unsigned i, struct iovec *iov,
		     unsigned *inout_n)
{
	struct store_op *op = &p->ops[i];
	int e = oclass_encode(g, &p->data, i, iov, inout_n);

	if (e < 0)
		return e;
	if (!io_target(p->io, p->seg.target[i]))
		return -TESS_E_NO_OBJECT;
	op->req = &p->req;
	op->code = STORE_PUT;
	place_name(p->seg.id, i, op->key.name);
	op->data = (struct tess_iov){ iov, *inout_n, oclass_shard_len(g, i) };
	op->done = put_op_done;
	op->owner = p;
	return 0;
}

static int put_prepare(struct io_put *p)
{
	struct oclass_geo g;
	unsigned max, used = 0;
	int e;

	p->seg.len = p->data.len;
	e = io_geo(&p->seg, &g);
	if (e < 0)
		return e;
	/* Of all shards together: each cell and each buffer ends one piece. */
	max = p->data.n + (unsigned)((g.len + g.cell - 1) / g.cell);
	p->ncsums = (uint32_t)((p->data.len + TESS_BLOCK - 1) / TESS_BLOCK);
	p->csums = mem_array(p->ncsums, sizeof(*p->csums));
	p->ops = mem_array(g.width, sizeof(*p->ops));
	p->iovs = mem_array(max, sizeof(*p->iovs));
	if (!p->csums || !p->ops || !p->iovs)
		return -ENOMEM;
	oclass_checksum(&p->data, p->csums);
	for (unsigned i = 0; i < g.width; i++) {
		unsigned n = max - used;

		if (oclass_shard_len(&g, i) == 0 || (p->stay >> i & 1))
			continue;	/* no object, or there already */
		e = put_shard(p, &g, i, p->iovs + used, &n);
		if (e < 0)
			return e;
		used += n;
	}
	return 0;
}

void io_put_start(struct io_put *p)
{
	unsigned n = 0;
	int e;

	p->began = clock_now();
	p->csums = NULL;
	p->ops = NULL;
	p->iovs = NULL;
	atomic_store(&p->left, 1);
	atomic_store(&p->err, 0);
	e = fault_point("io.flush.put");
	if (e == 0)
		e = put_prepare(p);
	if (e < 0) {
		put_drop(p, e);
		return;
	}
	for (unsigned i = 0; i < p->seg.width; i++)
		n += p->ops[i].done != NULL;
	atomic_fetch_add(&p->left, n);
	io_count(p->io, IO_PUT_BYTES, p->data.len);
	for (unsigned i = 0; i < p->seg.width; i++)
		if (p->ops[i].done)
			store_submit(io_target(p->io, p->seg.target[i])->store, &p->ops[i]);
	put_drop(p, 0);
}

bool io_put_pin(struct io_put *p)
{
	unsigned left = atomic_load(&p->left);

	while (left > 0)
		if (atomic_compare_exchange_weak(&p->left, &left, left + 1))
			return true;
	return false;
}

void io_put_cancel(struct io_put *p)
{
	for (unsigned i = 0; p->ops && i < p->seg.width; i++)
		if (p->ops[i].done)
			store_cancel(io_target(p->io, p->seg.target[i])->store, &p->ops[i]);
	put_drop(p, 0);
}

void io_put_done(struct io_put *p)
{
	free(p->csums);
	free(p->ops);
	free(p->iovs);
	p->csums = NULL;
	p->ops = NULL;
	p->iovs = NULL;
}
