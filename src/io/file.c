/* SPDX-License-Identifier: Apache-2.0 */
/* One open inode: its dirty state, what it shows to stat, truncation, errors. */
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scoped.h"
#include "io/stage.h"
#include <string.h>

LOG_MODULE("io")

void io_file_get(struct io_file *f)
{
	atomic_fetch_add(&f->refs, 1);
}

/* The last reference goes under the lock: after it the file, and io itself, may be gone at once. */
void io_file_put(struct io_file *f)
{
	struct io *io = f->io;
	unsigned n = atomic_load(&f->refs);

	while (n > 1)
		if (atomic_compare_exchange_weak(&f->refs, &n, n - 1))
			return;
	scoped_lock(&io->lock);
	if (atomic_fetch_sub(&f->refs, 1) == 1 && io->closing > 0)
		cond_wake_all(&io->idle);
}

void io_files_each(struct io *io, void (*fn)(struct io_file *, void *), void *arg)
{
	scoped_free struct io_file **all = NULL;
	uint64_t n = 0;

	lock_take(&io->lock);
	all = mem_array(io->nfiles + 1, sizeof(struct io_file *));
	for (struct list_node *x = io->files.next; all && x != &io->files; x = x->next) {
		all[n] = list_entry(x, struct io_file, link);
		io_file_get(all[n++]);
	}
	lock_drop(&io->lock);
	for (uint64_t i = 0; i < n; i++) {
		fn(all[i], arg);
		io_file_put(all[i]);
	}
}

static void layout_resolve(const struct io *io, struct io_layout *lay, const struct meta_layout *l)
{
	lay->layout = *l;
	lay->mapper = map_by_id(l->mapper);
	lay->err = oclass_from_id(l->cls, &lay->cls);
	if (lay->err == 0 && !lay->mapper)
		lay->err = -TESS_E_MAPPER_UNKNOWN;
	/* Buffers are cut at multiples of it, so it must be one whatever the record says. */
	if (l->segment_size < TESS_SEGMENT_MIN || l->segment_size > TESS_SEGMENT_MAX ||
	    l->segment_size % TESS_BLOCK != 0) {
		lay->err = lay->err < 0 ? lay->err : -TESS_E_RECORD;
		lay->layout.segment_size = (uint32_t)TESS_SEGMENT_DEFAULT;
	}
	/* A directory's layout may ask for more than the targets take, or take by now. */
	lay->layout.segment_size = MIN(lay->layout.segment_size, io->segment_max);
}

static void cut_init(struct io_cut *c)
{
	*c = (struct io_cut){ .trunc_to = META_NO_TRUNC };
}

int io_file_open(struct io *io, const struct meta_attr *attr, struct io_file **ret)
{
	struct io_file *f = mem_zalloc(sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->io = io;
	f->ino = attr->ino;
	lock_init(&f->lock, LOCK_IO_FILE, "io.file");
	cond_init(&f->cond);
	dirty_init(&f->dirty, io->budget);
	f->size = f->base_size = attr->size;
	f->generation = attr->generation;
	cut_init(&f->pend);
	cut_init(&f->pub);
	layout_resolve(io, &f->lay, &attr->layout);
	f->flush_at = f->lay.layout.segment_size;
	f->set_size = IO_NO_SIZE;
	list_init(&f->inflight);
	scoped_lock(&io->lock);
	list_push_back(&io->files, &f->link);
	io->nfiles++;
	*ret = f;
	return 0;
}

void io_seg_free(struct io_file *f, struct io_seg *s)
{
	tree_remove(&f->segs, &s->tree);
	if (s->staged)
		stage_unuse(f->io, s->seg.id);
	free(s->csums);
	free(s);
}

/* Nobody else has it any more: jobs are over and walkers gone. */
static void file_free(struct io_file *f)
{
	struct io_seg *s;

	while ((s = (struct io_seg *)tree_first(&f->segs))) {
		if (!s->staged)
			io_dead_add(f->io, &s->seg);
		io_seg_free(f, s);
	}
	io_view_drop_locked(f);
	if (f->interval)
		atomic_fetch_sub(&f->io->intervals, 1);
	dirty_done(&f->dirty);
	range_set_done(&f->pend.punched);
	range_set_done(&f->pub.punched);
	cond_done(&f->cond);
	lock_done(&f->lock);
	free(f);
}

void io_file_close(struct io_file *f, bool discard)
{
	struct io *io = f->io;
	struct tess_req req;
	int e = 0;

	req_begin(&req, "close");
	req.ino = f->ino;
	for (unsigned i = 0; !discard && i < 3; i++) {
		e = io_sync_file(f, &req, IO_PUBLISH);
		if (e == 0 || err_fold(e) == -ESTALE)
			break;
	}
	/* After this nobody hears of it but the log. */
	if (e < 0 && err_fold(e) != -ESTALE) {
		log_err("inode %llu: unpublished bytes are lost: %s", (unsigned long long)f->ino,
			err_text(e));
		io_error_note(io, f->ino, "lost at the last close", e);
	}
	lock_take(&io->lock);
	list_remove(&f->link);
	io->nfiles--;
	io->closing++;
	while (atomic_load(&f->refs) > 0)
		cond_wait(&io->idle, &io->lock);
	io->closing--;
	lock_drop(&io->lock);
	file_free(f);
}

/* ---- size and holes ---- */

void io_file_touch_locked(struct io_file *f, int64_t now)
{
	f->mtime = now;
	f->touches++;
}

static void io_file_set_size_locked(struct io_file *f, uint64_t size)
{
	f->size = f->set_size = size;
	f->sets++;
}

int io_truncate(struct io_file *f, struct tess_req *req, uint64_t size, int64_t now)
{
	int e;

	(void)req;
	if (size > (uint64_t)TESS_FILE_MAX)
		return -EFBIG;
	scoped_lock(&f->lock);
	if (size < f->size) {
		e = dirty_clip(&f->dirty, (struct tess_range){ size, UINT64_MAX - size });
		if (e < 0)
			return e;
		f->cuts++;
	}
	/* Also when it grows: what another session published meanwhile may reach further. */
	f->pend.trunc_to = MIN(f->pend.trunc_to, size);
	io_file_set_size_locked(f, size);
	io_file_touch_locked(f, now);
	return 0;
}

int io_extend(struct io_file *f, uint64_t size, int64_t now)
{
	if (size > (uint64_t)TESS_FILE_MAX)
		return -EFBIG;
	scoped_lock(&f->lock);
	if (size <= f->size)
		return 0;
	io_file_set_size_locked(f, size);
	io_file_touch_locked(f, now);
	return 0;
}

void io_appends(struct io_file *f)
{
	scoped_lock(&f->lock);
	f->appended = true;
}

int io_punch(struct io_file *f, struct tess_req *req, struct tess_range r, int64_t now)
{
	uint64_t end;
	int e;

	(void)req;
	if (!range_end(r, &end) || end > (uint64_t)TESS_FILE_MAX)
		return -EFBIG;
	if (r.len == 0)
		return 0;
	scoped_lock(&f->lock);
	/* Clip first: a punch without it would leave dirty bytes, one without the set published ones. */
	e = range_set_add(&f->pend.punched, r);
	if (e == 0)
		e = dirty_clip(&f->dirty, r);
	if (e < 0)
		return e;
	if (end >= f->size)
		io_file_set_size_locked(f, f->size);	/* the bytes that made it so may be gone */
	f->cuts++;
	io_file_touch_locked(f, now);
	return 0;
}

/* ---- attributes ---- */

bool io_file_dirty_locked(const struct io_file *f)
{
	return f->dirty.tree.n > 0 || f->mtime != 0 || f->set_size != IO_NO_SIZE || f->publishing ||
	       io_cut_end_locked(f) != META_NO_TRUNC || f->pend.punched.tree.n > 0 ||
	       f->pub.punched.tree.n > 0;
}

bool io_file_dirty(struct io_file *f)
{
	scoped_lock(&f->lock);
	return io_file_dirty_locked(f);
}

/*
 * st_blocks of unpublished bytes: those behind the published end are counted, those before it are taken
 * to replace bytes that are there already. Exact when published, and for files written from empty.
 */
static uint64_t dirty_bytes_from(const struct io_file *f, uint64_t from)
{
	uint64_t sum = 0;

	if (f->dirty.tree.n == 0)
		return 0;
	if (from == 0)
		return f->dirty.bytes[DIRTY_MEM] + f->dirty.bytes[DIRTY_FROZEN] +
		       f->dirty.bytes[DIRTY_STORED];
	for (struct dirty_node *n = dirty_next(&f->dirty, from); n; n = dirty_after(n))
		sum += dirty_end(n) - MAX(from, dirty_off(n));
	return sum;
}

void io_file_stat(struct io_file *f, struct meta_attr *a)
{
	uint64_t cut;

	scoped_lock(&f->lock);
	io_file_base_locked(f, a->size, a->generation);
	if (!io_file_dirty_locked(f))
		return;
	cut = io_cut_end_locked(f);
	if (a->size > cut) {
		a->bytes = cut == 0 ? 0 : MIN(a->bytes, round_up(cut, TESS_BLOCK));
		a->size = cut;
	}
	a->bytes += dirty_bytes_from(f, a->bytes == 0 ? 0 : a->size);
	a->size = f->size;
	if (f->mtime != 0)
		a->mtime = a->ctime = f->mtime;
}

void io_file_times_set(struct io_file *f, bool mtime, bool ctime)
{
	scoped_lock(&f->lock);
	(void)ctime;	/* pending times say mtime == ctime; a publish without them keeps both */
	/* One that is under way says when the bytes were written, after the caller has said otherwise. */
	while (mtime && f->publishing)
		cond_wait(&f->cond, &f->lock);
	if (mtime)
		f->mtime = 0;
}

void io_file_layout_set(struct io_file *f, const struct meta_layout *l)
{
	scoped_lock(&f->lock);
	layout_resolve(f->io, &f->lay, l);
	f->flush_at = f->dirty.bytes[DIRTY_MEM] + f->lay.layout.segment_size;
}

int io_file_error(struct io_file *f, uint32_t *seen)
{
	scoped_lock(&f->lock);
	if (*seen == f->err_seq)
		return 0;
	*seen = f->err_seq;
	return f->err;
}

uint32_t io_file_error_seq(struct io_file *f)
{
	scoped_lock(&f->lock);
	return f->err_seq;
}
