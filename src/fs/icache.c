/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/laminate.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include <string.h>

LOG_MODULE("fs");

struct icache_shard *icache_shard(struct fs *fs, uint64_t ino)
{
	return &fs->shard[hash64(ino) % ICACHE_SHARDS];
}

static struct fs_inode *icache_find(struct icache_shard *s, uint64_t ino)
{
	struct htab_node *n = htab_find(&s->tab, ino);

	return n ? container_of(n, struct fs_inode, node) : NULL;
}

static struct fs_inode *icache_insert(struct icache_shard *s, uint64_t ino)
{
	struct fs_inode *in = mem_zalloc(sizeof(*in));

	if (!in)
		return NULL;
	in->node.key = ino;
	list_init(&in->link);
	list_init(&in->handles);
	list_init(&in->refill.reads);
	atomic_init(&in->refill.size, UINT64_MAX);
	htab_insert(&s->tab, &in->node);
	return in;
}

static void icache_remove(struct icache_shard *s, struct fs_inode *in)
{
	htab_remove(&s->tab, &in->node);
	free(in);
}

int icache_init(struct fs *fs)
{
	for (unsigned i = 0; i < ICACHE_SHARDS; i++) {
		struct icache_shard *s = &fs->shard[i];
		int r = htab_init(&s->tab, 64);

		if (r < 0)
			return r;
		lock_init(&s->lock, LOCK_FS_TABLE, "fs.table");
		cond_init(&s->closed);
		cond_init(&s->told);
		s->known = mem_array(ICACHE_KNOWN, sizeof(*s->known));
		if (!s->known)
			return -ENOMEM;
	}
	return 0;
}

/* With no caller left; publishes what a vanished kernel left open. */
static void icache_drop(struct icache_shard *s, struct fs_inode *in)
{
	list_for_each_safe(pos, tmp, &in->handles) {
		free(list_entry(pos, struct fs_file, link));
	}
	if (in->file)
		io_file_close(in->file, in->orphan);
	icache_remove(s, in);
}

void icache_done(struct fs *fs)
{
	for (unsigned i = 0; i < ICACHE_SHARDS; i++) {
		struct icache_shard *s = &fs->shard[i];
		struct htab_node *n;

		if (!s->known)
			continue;
		while ((n = htab_next(&s->tab, NULL)))
			icache_drop(s, container_of(n, struct fs_inode, node));
		free(s->known);
		s->known = NULL;
		cond_done(&s->told);
		cond_done(&s->closed);
		lock_done(&s->lock);
		htab_done(&s->tab);
	}
}

int icache_pin(struct fs *fs, uint64_t ino, struct fs_inode **ret)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	while ((in = icache_find(s, ino)) && in->closing)
		cond_wait(&s->closed, &s->lock);
	if (in && in->dying)
		return -TESS_E_STALE;
	if (!in)
		in = icache_insert(s, ino);
	if (!in)
		return -ENOMEM;
	in->pins++;
	*ret = in;
	return 0;
}

struct fs_inode *icache_pin_open(struct fs *fs, uint64_t ino)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	while ((in = icache_find(s, ino)) && in->closing)
		cond_wait(&s->closed, &s->lock);
	if (!in || in->dying || !in->file)
		return NULL;
	in->pins++;
	return in;
}

int icache_attach(struct fs *fs, struct fs_inode *in, const struct meta_attr *a)
{
	struct icache_shard *s = icache_shard(fs, inode_ino(in));

	scoped_lock(&s->lock);
	if (a->flags & META_ORPHAN && !in->orphan) {
		in->orphan = true;
		atomic_fetch_add(&fs->orphans, 1);
	}
	atomic_store(&in->frozen, a->flags & META_LAMINATED);
	if (in->file)
		return 0;
	atomic_store(&in->priv, attr_has_priv(a));
	return io_file_open(fs->conf.io, a, &in->file);
}

int icache_open(struct fs *fs, uint64_t ino, struct fs_inode **ret, struct meta_attr *ret_attr)
{
	struct fs_inode *in;
	struct meta_attr a;
	int r = icache_pin(fs, ino, &in);

	if (r < 0)
		return r;
	r = laminate_getattr(fs, ino, &a);
	if (r == 0 && !S_ISREG(a.mode))
		r = S_ISDIR(a.mode) ? -EISDIR : -EINVAL;
	/* One that another session unlinked before anybody here used it is not kept for us. */
	if (r == 0 && (a.flags & META_ORPHAN) && !in->orphan)
		r = meta_orphan_held(fs->conf.meta, ino);
	if (r == 0)
		r = icache_attach(fs, in, &a);
	if (r < 0) {
		icache_unpin(fs, in);
		return r;
	}
	*ret = in;
	*ret_attr = a;
	return 0;
}

/* Nobody uses it any more: it goes, or waits for the kernel to forget it. */
static void icache_settle_locked(struct fs *fs, struct icache_shard *s, struct fs_inode *in)
{
	lock_assert_held(&s->lock);
	if (!in->orphan) {
		icache_remove(s, in);
		return;
	}
	if (in->forgotten || !atomic_load(&fs->forgets)) {
		in->dying = true;
		atomic_fetch_sub(&fs->orphans, 1);
		reclaim_push(fs, in);
	}
}

static void icache_publish_last(struct fs *fs, struct fs_inode *in)
{
	struct tess_req req;
	int r;

	req_begin(&req, "close");
	req.ino = inode_ino(in);
	r = io_sync_file(in->file, &req, IO_PUBLISH);
	/* Gone altogether, or rescued: said elsewhere. */
	if (r < 0 && err_fold(r) != -ESTALE)
		log_err("inode %llu: bytes written before the last close could not be stored: %s",
			(unsigned long long)inode_ino(in), err_text(r));
	(void)fs;
}

void icache_unpin(struct fs *fs, struct fs_inode *in)
{
	struct icache_shard *s = icache_shard(fs, inode_ino(in));
	struct io_file *file;
	bool orphan;

	lock_take(&s->lock);
	if (--in->pins) {
		lock_drop(&s->lock);
		return;
	}
	file = in->file;
	orphan = in->orphan;
	if (!file) {
		icache_settle_locked(fs, s, in);
		lock_drop(&s->lock);
		return;
	}
	in->closing = true;
	lock_drop(&s->lock);
	/* While still in the table, so that getattr never sees the size before these bytes. */
	if (!orphan && io_file_dirty(file))
		icache_publish_last(fs, in);
	lock_take(&s->lock);
	in->file = NULL;
	orphan = in->orphan;
	atomic_fetch_add(&fs->closes, 1);
	lock_drop(&s->lock);
	io_file_close(file, orphan);
	lock_take(&s->lock);
	in->closing = false;
	cond_wake_all(&s->closed);
	icache_settle_locked(fs, s, in);
	lock_drop(&s->lock);
}

bool icache_overlay(struct fs *fs, struct meta_attr *a, bool was_dirty)
{
	struct icache_shard *s = icache_shard(fs, a->ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	in = icache_find(s, a->ino);
	if (!in || !in->file)
		return !was_dirty;
	io_file_stat(in->file, a);
	return !was_dirty || io_file_dirty(in->file);
}

bool icache_dirty(struct fs *fs, uint64_t ino)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	in = icache_find(s, ino);
	return in && in->file && io_file_dirty(in->file);
}

bool icache_is_open(struct fs *fs, uint64_t ino)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	in = icache_find(s, ino);
	return in && in->file;
}

void icache_set_priv(struct fs *fs, uint64_t ino, bool priv)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	in = icache_find(s, ino);
	if (in)
		atomic_store(&in->priv, priv);
}

void icache_add_handle(struct fs *fs, struct fs_file *fh)
{
	struct icache_shard *s = icache_shard(fs, inode_ino(fh->in));

	scoped_lock(&s->lock);
	list_push_back(&fh->in->handles, &fh->link);
	/* What was told while nobody wrote was not written down. */
	if (fh->writer && atomic_fetch_add(&fh->in->writers, 1) == 0)
		refill_resized(fh->in, UINT64_MAX);
}

void icache_del_handle(struct fs *fs, struct fs_file *fh)
{
	struct icache_shard *s = icache_shard(fs, inode_ino(fh->in));

	scoped_lock(&s->lock);
	list_remove(&fh->link);
	if (fh->writer)
		atomic_fetch_sub(&fh->in->writers, 1);
}

void icache_sized(struct fs *fs, uint64_t ino, uint64_t size)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	in = icache_find(s, ino);
	if (in)
		refill_sized(in, size);
}

void icache_resized(struct fs *fs, uint64_t ino, uint64_t size)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	in = icache_find(s, ino);
	if (in)
		refill_resized(in, size);
}

void icache_orphaned(struct fs *fs, uint64_t ino)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	in = icache_find(s, ino);
	if (!in)
		in = icache_insert(s, ino);
	/* Out of memory: the reclaimer's next look at the namespace finds it. */
	if (!in || in->dying || in->orphan)
		return;
	in->orphan = true;
	atomic_fetch_add(&fs->orphans, 1);
	if (in->pins == 0 && !in->closing)
		icache_settle_locked(fs, s, in);
}

bool icache_in_use(struct fs *fs, uint64_t ino)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	in = icache_find(s, ino);
	return in && (in->pins || in->closing);
}

/*
 * Another session did it. Nobody may wait for the kernel to forget it: the kernel was not asked, and
 * keeps what it knows until it has a reason to look.
 */
void icache_unlinked(struct fs *fs, uint64_t ino)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	in = icache_find(s, ino);
	if (!in) {
		/* Closed since; the hold must go again. */
		in = icache_insert(s, ino);
		if (!in)
			return;
	}
	if (in->dying)
		return;
	in->forgotten = true;
	if (!in->orphan) {
		in->orphan = true;
		atomic_fetch_add(&fs->orphans, 1);
	}
	if (in->pins == 0 && !in->closing)
		icache_settle_locked(fs, s, in);
}

bool icache_timed(struct fs *fs, uint64_t ino)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	in = icache_find(s, ino);
	if (!in)
		return false;
	list_for_each(pos, &in->handles) {
		const struct fs_file *fh = list_entry(pos, struct fs_file, link);

		if (fh->policy.refresh == REFRESH_INTERVAL || fh->policy.refresh == REFRESH_NEVER)
			return true;
	}
	return false;
}

void icache_refresh(struct fs *fs, uint64_t ino)
{
	struct fs_inode *in = icache_pin_open(fs, ino);

	if (!in)
		return;
	(void)io_file_refresh(in->file);
	icache_unpin(fs, in);
}

void icache_each(struct fs *fs, void (*fn)(void *arg, uint64_t ino), void *arg)
{
	for (unsigned i = 0; i < ICACHE_SHARDS; i++) {
		struct icache_shard *s = &fs->shard[i];
		scoped_free uint64_t *inos = NULL;
		struct htab_node *node = NULL;
		size_t n = 0, used = 0;

		lock_take(&s->lock);
		while ((node = htab_next(&s->tab, node)))
			used++;
		inos = mem_array(used + ICACHE_KNOWN, sizeof(*inos));
		while (inos && (node = htab_next(&s->tab, node)))
			inos[n++] = node->key;
		for (unsigned k = 0; inos && k < ICACHE_KNOWN; k++)
			if (s->known[k].ino)
				inos[n++] = s->known[k].ino;
		lock_drop(&s->lock);
		for (size_t k = 0; k < n; k++)
			fn(arg, inos[k]);
	}
}

void icache_linked(struct fs *fs, uint64_t ino)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	in = icache_find(s, ino);
	if (!in || !in->orphan || in->dying)
		return;
	in->orphan = in->forgotten = false;
	atomic_fetch_sub(&fs->orphans, 1);
	if (in->pins == 0 && !in->closing)
		icache_remove(s, in);
}

void icache_stale(struct fs *fs, uint64_t ino)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct fs_inode *in;

	scoped_lock(&s->lock);
	if (icache_find(s, ino))
		return;
	in = icache_insert(s, ino);
	if (!in)
		return;
	in->orphan = in->dying = true;
	reclaim_push(fs, in);
}

void icache_reclaimed(struct fs *fs, struct fs_inode *in)
{
	struct icache_shard *s = icache_shard(fs, inode_ino(in));

	scoped_lock(&s->lock);
	icache_remove(s, in);
}

void fs_forget(struct fs *fs, uint64_t ino)
{
	struct icache_shard *s;
	struct fs_inode *in;

	/* Nearly every forget is of an inode that lives on: do not take a lock for those. */
	if (atomic_load_explicit(&fs->orphans, memory_order_relaxed) == 0)
		return;
	s = icache_shard(fs, ino);
	scoped_lock(&s->lock);
	in = icache_find(s, ino);
	if (!in || !in->orphan || in->dying)
		return;
	in->forgotten = true;
	if (in->pins == 0 && !in->closing)
		icache_settle_locked(fs, s, in);
}

void icache_forget_all(struct fs *fs)
{
	for (unsigned i = 0; i < ICACHE_SHARDS; i++) {
		struct icache_shard *s = &fs->shard[i];
		struct htab_node *n = NULL;

		scoped_lock(&s->lock);
		while ((n = htab_next(&s->tab, n))) {
			struct fs_inode *in = container_of(n, struct fs_inode, node);

			if (!in->orphan || in->dying || in->closing || in->pins)
				continue;
			in->forgotten = true;
			icache_settle_locked(fs, s, in);
		}
	}
}

static struct icache_known *icache_slot(struct icache_shard *s, uint64_t ino)
{
	return &s->known[hash64(ino) / ICACHE_SHARDS % ICACHE_KNOWN];
}

bool icache_known_within(struct fs *fs, uint64_t ino, uint64_t generation, int64_t ttl)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct icache_known *k;

	scoped_lock(&s->lock);
	k = icache_slot(s, ino);
	if (k->ino != ino || k->generation != generation ||
	    (ttl && k->closed && clock_now() - k->closed > ttl))
		return false;
	k->closed = 0;
	return true;
}

void icache_known_set(struct fs *fs, uint64_t ino, uint64_t generation)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct icache_known *k;

	scoped_lock(&s->lock);
	k = icache_slot(s, ino);
	if (k->ino != ino || k->generation < generation)
		*k = (struct icache_known){ino, generation, 0};
}

void icache_known_closed(struct fs *fs, uint64_t ino)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct icache_known *k;

	scoped_lock(&s->lock);
	k = icache_slot(s, ino);
	if (k->ino == ino)
		k->closed = clock_now();
}

void icache_known_bump(struct fs *fs, uint64_t ino, uint64_t generation)
{
	struct icache_shard *s = icache_shard(fs, ino);
	struct icache_known *k;

	scoped_lock(&s->lock);
	k = icache_slot(s, ino);
	if (k->ino == ino && k->generation + 1 == generation)
		k->generation = generation;
}
