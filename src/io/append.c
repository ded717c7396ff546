/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes at the end of a file that other sessions append to as well. Where the end is only the
 * publishing transaction knows, so the bytes are stored first, in the open segment, and their
 * extents are laid at the end as it is then: no lock between sessions, one transaction an append.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "io/stage.h"
#include <string.h>

#define APPEND_PIECES (IO_APPEND_MAX / TESS_SEGMENT_MIN + 1)

struct append {
	struct io_file         *f;
	struct meta_layout      layout;
	struct tess_extent      ext[APPEND_PIECES];
	struct meta_new_segment segs[APPEND_PIECES];
	unsigned                n;
};

static int append_store(struct append *a, struct tess_req *req, const char *p, size_t len)
{
	struct io_file *f = a->f;
	uint64_t off = 0;

	while (off < len) {
		uint64_t n = MIN((uint64_t)a->layout.segment_size, len - off), at;
		struct iovec v = { (void *)(uintptr_t)(p + off), n };
		struct tess_iov data = { &v, 1, n };
		struct stage_seg *s;
		int e = stage_reserve(f->io, req, &a->layout, n, &s, &at);

		if (e < 0)
			return e;
		a->ext[a->n] = (struct tess_extent){ .off = off, .len = n, .seg = s->node.key, .seg_off = at };
		a->segs[a->n].seg = (struct meta_segment){
			.id = s->node.key, .cls = a->layout.cls, .state = META_STAGED,
			.len = at + n, .owner = TESS_PACKED_INO,
		};
		a->n++;
		e = stage_write(s, at, &data);
		if (e < 0)
			return e;
		off += n;
	}
	return 0;
}

/* One publish per append: the segments are carried like any other's. */
static int append_publish(struct append *a, size_t len, struct meta_attr *ret)
{
	struct io *io = a->f->io;
	struct meta_publish p = {
		.trunc_to = META_NO_TRUNC, .append = true, .size = len, .ext = a->ext, .next = a->n,
		.segs = a->segs, .mtime = clock_wall_coarse(),
	};
	unsigned state[APPEND_PIECES];
	int e;

	for (unsigned i = 0; i < a->n; i++) {
		/* Twice the same: the second adds nothing but length. */
		stage_publish_begin(io, a->f->ino, a->ext[i].seg, &a->segs[i]);
		state[i] = a->segs[i].seg.state;
	}
	p.nsegs = a->n;
	e = fault_point("io.flush.commit");
	if (e == 0)
		e = meta_publish(io->meta, a->f->ino, &p, ret);
	for (unsigned i = 0; i < a->n; i++)
		if (state[i] == META_STAGED)
			stage_publish_end(io, a->ext[i].seg);
	return e;
}

int io_append(struct io_file *f, struct tess_req *req, const void *p, size_t len)
{
	scoped_free struct append *a = mem_zalloc(sizeof(*a));
	struct meta_attr attr;
	int e;

	if (len > IO_APPEND_MAX)
		return -EFBIG;
	if (!a)
		return -ENOMEM;
	lock_take(&f->lock);
	a->layout = f->lay.layout;
	e = f->lay.err;
	lock_drop(&f->lock);
	/* What this handle wrote before comes before. */
	if (e == 0 && io_file_dirty(f))
		e = io_sync_file(f, req, IO_PUBLISH);
	if (e < 0)
		return e;
	a->f = f;
	e = append_store(a, req, p, len);
	if (e == 0)
		e = append_publish(a, len, &attr);
	for (unsigned i = 0; i < a->n; i++)
		stage_unuse(f->io, a->ext[i].seg);
	if (e < 0)
		return e;
	io_count(f->io, IO_WRITES, 1);
	io_count(f->io, IO_WRITE_BYTES, len);
	io_count(f->io, IO_PUBLISHES, 1);
	if (f->io->published)
		f->io->published(f->io->published_arg, f->ino, attr.generation);
	io_file_look(f, &attr);
	return 0;
}
