/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages that come back while a write is on its way.
 *
 * For a write through its page cache Linux copies the bytes into pages, unlocks those, and sends WRITE
 * (fs/fuse/file.c, fuse_fill_write_pages() and fuse_send_write_pages()). Pages that it drops in between, for
 * an open without FOPEN_KEEP_CACHE, a notification or a size that it did not expect, a read fills again
 * with what was there before the write, and nobody drops them when that has arrived. A direct write drops
 * the pages itself, but most kernels do so only before they send it.
 *
 * So we keep count of drops that may come, and of what is read after one while somebody has the file
 * open to write. A write that finds its bytes among those has the kernel drop them once more before it is
 * answered. Cached writes of an inode come one by one, each answered before the next is copied: once
 * one is, and no drop is still to come, no write can be older than the last drop.
 */
#include "fs/state.h"

#include "base/clock.h"
#include "base/fault.h"

/* An order of magnitude above what telling a busy kernel takes. */
#define REFILL_PATIENCE (20 * NS_PER_MS)
/* And above what it takes to see a reply. */
#define REFILL_SETTLE	(10 * REFILL_PATIENCE)
#define REFILL_PAGE	4096u

void refill_begin(struct fs *fs, struct fs_inode *in)
{
	struct icache_shard *s = icache_shard(fs, inode_ino(in));

	scoped_lock(&s->lock);
	in->refill.dropping++;
	atomic_store(&in->refill.dropped, true);
}

void refill_end(struct fs *fs, struct fs_inode *in)
{
	struct icache_shard *s = icache_shard(fs, inode_ino(in));

	scoped_lock(&s->lock);
	in->refill.dropping--;
}

static bool refill_add(struct fs_read *r)
{
	struct icache_shard *s = icache_shard(r->fh->fs, inode_ino(r->fh->in));
	struct refill *f = &r->fh->in->refill;

	scoped_lock(&s->lock);
	if (!atomic_load(&f->dropped))
		return false;
	f->from = f->to ? MIN(f->from, r->io.off) : r->io.off;
	f->to = MAX(f->to, r->io.off + r->io.len);
	r->turn = ++f->turn;
	list_push_back(&f->reads, &r->link);
	f->nreads++;
	return true;
}

static void refill_read_done(struct io_read *io)
{
	struct fs_read *r = container_of(io, struct fs_read, io);
	struct icache_shard *s = icache_shard(r->fh->fs, inode_ino(r->fh->in));

	lock_take(&s->lock);
	list_remove(&r->link);
	r->fh->in->refill.nreads--;
	lock_drop(&s->lock);
	r->done(io);
}

/* Before anything is read: a write that comes after that is what the read brings. */
void refill_read(struct fs_read *r)
{
	struct fs_file *fh = r->fh;

	/* Who writes had it open before what was copied could be dropped and this be asked for. */
	if (r->direct || !atomic_load(&fh->in->refill.dropped) || !atomic_load(&fh->in->writers) ||
	    !refill_add(r))
		return;
	r->done = r->io.done;
	r->io.done = refill_read_done;
}

/* Both the one who waits and the notify thread have it; the last of them frees it. */
struct refill_drop {
	struct fs *fs;
	struct fs_inode *in; /* pinned until done */
	uint64_t from, to, turn; /* turn: later reads bring what was written */
	bool done, left;
};

static void refill_dropped(void *arg)
{
	struct refill_drop *d = arg;
	struct fs_inode *in = d->in;
	struct fs *fs = d->fs;
	struct icache_shard *s = icache_shard(fs, inode_ino(in));

	lock_take(&s->lock);
	in->refill.dropping--;
	d->done = true;
	cond_wake_all(&s->told);
	if (d->left)
		free(d);
	lock_drop(&s->lock);
	icache_unpin(fs, in);
}

static bool refill_reads(const struct refill *f, const struct refill_drop *d)
{
	list_for_each(pos, &f->reads) {
		const struct fs_read *r = list_entry(pos, struct fs_read, link);

		if (r->turn > d->turn)
			break;
		if (r->io.off < d->to && r->io.off + r->io.len > d->from)
			return true;
	}
	return false;
}

/*
 * The kernel may wait for a page which this very write has locked, one that was not cached when it was
 * copied: nothing can have come back into that, and the write must be answered for the kernel to go on.
 * But it may wait as well for a read that was under way, and then for what that brings to be dropped.
 * Not for those that came later: where many read there is always one.
 */
static void refill_wait(struct refill *f, struct icache_shard *s, const struct tess_req *req,
			struct refill_drop *d)
{
	int64_t until = 0;

	scoped_lock(&s->lock);
	while (!d->done) {
		int64_t now = clock_now();

		if (refill_reads(f, d) && !req_expired(req))
			until = 0;
		else if (!until)
			until = now + REFILL_PATIENCE;
		else if (now >= until)
			break;
		cond_wait_until(&s->told, &s->lock, now + REFILL_PATIENCE);
	}
	/* One that is still to come is a drop like any other. */
	if (!d->done)
		atomic_store(&f->dropped, true);
	d->left = true;
	if (d->done)
		free(d);
}

static void refill_drop(struct fs_file *fh, const struct tess_req *req, uint64_t from, uint64_t to)
{
	struct icache_shard *s = icache_shard(fh->fs, inode_ino(fh->in));
	struct refill_drop *d = mem_zalloc(sizeof(*d));

	/* Late, and more than need be. */
	if (!d || icache_pin(fh->fs, inode_ino(fh->in), &d->in) < 0) {
		free(d);
		watch_forget_inode(fh->fs, inode_ino(fh->in));
		return;
	}
	d->fs = fh->fs;
	d->from = from;
	d->to = to;
	lock_take(&s->lock);
	d->turn = fh->in->refill.turn;
	fh->in->refill.dropping++;
	lock_drop(&s->lock);
	if (watch_drop_range(fh->fs, inode_ino(fh->in), from, to - from, refill_dropped, d) == 0) {
		refill_wait(&fh->in->refill, s, req, d);
		return;
	}
	refill_dropped(d);
	free(d);
	watch_forget_inode(fh->fs, inode_ino(fh->in));
}

bool refill_may_wait(struct fs_inode *in)
{
	return atomic_load_explicit(&in->refill.dropped, memory_order_relaxed) &&
	       atomic_load_explicit(&in->refill.nreads, memory_order_relaxed);
}

/*
 * With a size that it does not expect, another mount's, the kernel drops all pages of the inode, and does not
 * say when it has.
 */
void refill_sized(struct fs_inode *in, uint64_t size)
{
	struct refill *f = &in->refill;

	if (atomic_exchange(&f->size, size) == size)
		return;
	f->settles = clock_now() + REFILL_SETTLE;
	atomic_store(&f->dropped, true);
}

void refill_grown(struct fs_inode *in, uint64_t end)
{
	struct refill *f = &in->refill;
	uint64_t size = atomic_load_explicit(&f->size, memory_order_relaxed);

	while (size < end && !atomic_compare_exchange_weak(&f->size, &size, end))
		;
}

void refill_written(struct fs_file *fh, const struct tess_req *req, uint64_t off, uint64_t end)
{
	struct icache_shard *s = icache_shard(fh->fs, inode_ino(fh->in));
	struct refill *f = &fh->in->refill;
	uint64_t from, to;

	if (!atomic_load(&f->dropped))
		return;
	lock_take(&s->lock);
	from = MAX(f->from, off / REFILL_PAGE * REFILL_PAGE);
	to = MIN(f->to, end);
	/* It holds no page itself, and others like it may be under way: with all that was read this is over. */
	if (from < to && fh->info.direct_io) {
		from = f->from;
		to = f->to;
		f->from = f->to = 0;
	}
	if (!f->dropping && clock_now() >= f->settles) {
		f->from = f->to = 0;
		atomic_store(&f->dropped, false);
	}
	lock_drop(&s->lock);
	if (from < to)
		refill_drop(fh, req, from, to);
}
