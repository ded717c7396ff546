/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging files on their host's file system: made, synced, unlinked, used again.
 *
 * What an fsync of a few KiB costs is decided here. In a file whose size and blocks are settled an
 * fdatasync is one write and one flush; in a new one, even preallocated, it is a commit of the host's
 * journal. So files that are garbage are kept, a few of them, and renamed when the next is needed;
 * and who syncs often has the first ones filled with zeros.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "io/stage.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define HOST_KEEP (UINT64_C(64) << 20)
#define OFTEN     4u	/* fsyncs since the last file was made, from which on zeros pay */

void stage_name(tess_segid id, char ret[17])
{
	snprintf(ret, 17, "%016" PRIx64, id);
}

/* Of a spare: no listing takes it for a staging file. */
static void spare_name(tess_segid id, char ret[24])
{
	snprintf(ret, 24, STAGE_SPARE "%016" PRIx64, id);
}

static struct stage_seg *seg_new(struct io *io, tess_segid id, int flags)
{
	struct stage_seg *s = mem_zalloc(sizeof(*s));
	char name[17];

	if (!s)
		return NULL;
	s->io = io;
	s->node.key = id;
	list_init(&s->link);
	stage_name(id, name);
	s->fd = openat(io->stage->dirfd, name, flags | O_RDWR | O_CLOEXEC, 0600);
	if (s->fd < 0) {
		int e = errno;
		free(s);
		errno = e;
		return NULL;
	}
	return s;
}

void stage_enter_locked(struct stage *st, struct stage_seg *s)
{
	s->birth = ++st->births;
	htab_insert(&st->table, &s->node);
	list_push_back(&st->segs, &s->link);
}

/*
 * What staging leaves to its file system, where the namespace often lives too: one that cannot write a
 * page can delete nothing, and then full is for ever.
 */
static bool host_has_room(const struct stage *st, uint64_t len)
{
	struct statvfs fs;
	uint64_t avail, keep;

	if (fstatvfs(st->dirfd, &fs) < 0)
		return true;
	avail = (uint64_t)fs.f_bavail * fs.f_frsize;
	keep = MIN(HOST_KEEP, (uint64_t)fs.f_blocks * fs.f_frsize / 50);
	return avail >= keep && avail - keep >= len;
}

/* Preallocated, so that an fdatasync of appended bytes finds the file's size and blocks settled. */
static int make(struct io *io, tess_segid id, uint32_t size, struct stage_seg **ret)
{
	struct stage_seg *s;
	char name[17];
	int e;

	if (!host_has_room(io->stage, size))
		return -TESS_E_STAGE_FULL;
	errno = ENOMEM;
	s = seg_new(io, id, O_CREAT | O_EXCL);
	if (!s)
		return errno == ENOSPC || errno == EDQUOT ? -TESS_E_STAGE_FULL : -errno;
	e = fallocate(s->fd, 0, 0, size) < 0 ? -errno : 0;
	if (e == -EOPNOTSUPP)
		e = ftruncate(s->fd, size) < 0 ? -errno : 0;
	if (e < 0) {
		stage_name(id, name);
		(void)unlinkat(io->stage->dirfd, name, 0);
		stage_seg_free(s);
		return e == -ENOSPC || e == -EDQUOT ? -TESS_E_STAGE_FULL : e;
	}
	*ret = s;
	return 0;
}

/* Zeros now are a journal commit less for each fsync later. */
static void fill(struct io *io, struct stage_seg *s, uint32_t size)
{
	for (uint64_t at = 0; at < size; at += io->zero->cap)
		if (pwrite(s->fd, io->zero->data, MIN((uint64_t)size - at, (uint64_t)io->zero->cap),
			   (off_t)at) < 0)
			return;
}

static tess_segid spare_take(struct stage *st, uint32_t size)
{
	scoped_lock(&st->lock);
	for (unsigned i = 0; i < st->nspares; i++) {
		tess_segid id = st->spare[i].id;

		if (st->spare[i].size != size)
			continue;
		st->spare[i] = st->spare[--st->nspares];
		return id;
	}
	return 0;
}

/* Makes a spare the file `id`. False when there is none of the size. */
static bool reuse(struct io *io, tess_segid id, uint32_t size, struct stage_seg **ret)
{
	tess_segid old = spare_take(io->stage, size);
	int dir = io->stage->dirfd;
	char from[24], to[17];

	if (!old)
		return false;
	spare_name(old, from);
	stage_name(id, to);
	if (renameat(dir, from, dir, to) == 0) {
		*ret = seg_new(io, id, 0);
		if (*ret)
			return true;
		(void)unlinkat(dir, to, 0);
	} else {
		(void)unlinkat(dir, from, 0);
	}
	return false;
}

int stage_create(struct io *io, const struct meta_layout *l, struct stage_seg **ret)
{
	tess_segid id = meta_segment_new(io->meta);
	struct stage_seg *s;

	if (!reuse(io, id, l->segment_size, &s)) {
		int e = make(io, id, l->segment_size, &s);

		if (e < 0)
			return e;
		if (atomic_exchange(&io->stage->syncs, 0) >= OFTEN)
			fill(io, s, l->segment_size);
	}
	s->cls = l->cls;
	s->size = l->segment_size;
	s->whole = true;
	*ret = s;
	return 0;
}

/* ---- syncing ---- */

/*
 * May the namespace as of commit `serial` refer to it? One that was sealed since is only sealed for
 * commits to come: a power cut that goes back to `serial` needs its file.
 */
static bool needed(const struct stage_seg *s, uint64_t serial)
{
	return !s->committed || s->retired_at > serial;
}

/*
 * A file that failed before and is still needed. The kernel may have dropped what it could not write,
 * so a later success would say nothing.
 */
static int failed_locked(struct stage *st, uint64_t serial)
{
	list_for_each(n, &st->segs) {
		struct stage_seg *s = list_entry(n, struct stage_seg, link);

		if (s->sync_err < 0 && needed(s, serial))
			return s->sync_err;
	}
	return 0;
}

/* Picks the next file to sync and marks it clean: what is appended from here on is the next call's. */
static struct stage_seg *next_unsynced_locked(struct stage *st, uint64_t serial)
{
	list_for_each(n, &st->segs) {
		struct stage_seg *s = list_entry(n, struct stage_seg, link);

		if (s->unsynced && needed(s, serial)) {
			s->unsynced = false;
			s->reading++;	/* keeps the file open and the struct alive */
			st->syncing++;
			return s;
		}
	}
	return NULL;
}

/* It is not held open any more once it is sealed. */
static int sync_file(struct stage *st, const struct stage_seg *s)
{
	scoped_fd int fd = -1;
	char name[17];

	if (s->fd >= 0)
		return fdatasync(s->fd) < 0 ? -errno : 0;
	stage_name(s->node.key, name);
	fd = openat(st->dirfd, name, O_RDONLY | O_CLOEXEC);
	return fd < 0 || fdatasync(fd) < 0 ? -errno : 0;
}

static void sync_files(struct io *io, uint64_t serial)
{
	struct stage *st = io->stage;
	struct stage_seg *s;

	scoped_lock(&st->lock);
	while ((s = next_unsynced_locked(st, serial))) {
		int e;

		lock_drop(&st->lock);
		e = sync_file(st, s);
		io_count(io, IO_STAGE_SYNCS, 1);
		lock_take(&st->lock);
		s->sync_err = e < 0 ? e : s->sync_err;
		s->reading--;
		st->syncing--;
		stage_close_idle_locked(s);
		cond_wake_all(&st->cond);
	}
}

static int sync_dir(struct stage *st)
{
	bool due;

	lock_take(&st->lock);
	due = st->dir_unsynced;
	st->dir_unsynced = false;
	lock_drop(&st->lock);
	if (!due || fsync(st->dirfd) == 0)
		return 0;
	scoped_lock(&st->lock);
	st->dir_unsynced = true;
	return -errno;
}

int stage_sync(struct io *io, uint64_t serial)
{
	struct stage *st = io->stage;
	int e;

	sync_files(io, serial);
	/* Others may be at it, for bytes that this call must see synced. */
	lock_take(&st->lock);
	while (st->syncing > 0)
		cond_wait(&st->cond, &st->lock);
	e = failed_locked(st, serial);
	lock_drop(&st->lock);
	return e < 0 ? e : sync_dir(st);
}

/* ---- the early syncer: an fsync's staging file is synced while its publish and the namespace are ---- */

static void *syncer_main(void *arg)
{
	struct io *io = arg;
	struct stage *st = io->stage;

	for (;;) {
		lock_take(&st->lock);
		while (!st->early && !st->stopping)
			cond_wait(&st->early_cond, &st->lock);
		st->early = false;
		if (st->stopping) {
			lock_drop(&st->lock);
			return NULL;
		}
		lock_drop(&st->lock);
		sync_files(io, UINT64_MAX);
	}
}

void stage_sync_early(struct io *io)
{
	struct stage *st = io->stage;

	atomic_fetch_add(&st->syncs, 1);
	scoped_lock(&st->lock);
	st->early = true;
	cond_wake_one(&st->early_cond);
}

int stage_syncer_start(struct io *io)
{
	int e = thread_start(&io->stage->syncer, "io-sync", syncer_main, io);

	io->stage->syncer_on = e == 0;
	return e;
}

/* ---- the end of a file ---- */

/* Takes the entry out of the table; the file stays. NULL when somebody uses it. */
static bool forget(struct stage *st, tess_segid id, uint32_t *ret_spare,
		   struct meta_segment *ret_dead)
{
	struct stage_seg *s;

	*ret_spare = 0;
	ret_dead->width = 0;
	scoped_lock(&st->lock);
	s = stage_find_locked(st, id);
	if (!s)
		return true;
	while (s->reading > 0)
		(void)cond_wait_until(&st->cond, &st->lock, clock_now() + NS_PER_MS);
	if (s->uses > 0 || s->queued)
		return false;
	if (s->whole && s->sync_err == 0 && !st->stopping && st->nspares < STAGE_SPARES)
		*ret_spare = s->size;
	/*
	 * All its bytes died while they were being put, and no publish ever told of the objects: no
	 * record, and so no garbage entry, will name them.
	 */
	if (s->unnamed && !s->carried)
		*ret_dead = s->sealed;
	st->bytes -= s->used;
	htab_remove(&st->table, &s->node);
	list_remove(&s->link);
	stage_seg_free(s);
	cond_wake_all(&st->cond);
	return true;
}

static bool spare_keep(struct stage *st, tess_segid id, uint32_t size)
{
	char from[17], to[24];

	stage_name(id, from);
	spare_name(id, to);
	if (renameat(st->dirfd, from, st->dirfd, to) < 0)
		return false;
	scoped_lock(&st->lock);
	if (st->nspares < STAGE_SPARES) {
		st->spare[st->nspares].id = id;
		st->spare[st->nspares++].size = size;
		return true;
	}
	(void)unlinkat(st->dirfd, to, 0);
	return true;
}

int stage_unlink(struct io *io, tess_segid id)
{
	struct stage *st = io->stage;
	struct meta_segment dead;
	uint32_t spare;
	char name[17];

	if (!forget(st, id, &spare, &dead))
		return -EBUSY;
	if (dead.width > 0)
		io_dead_add(io, &dead);
	if (spare && spare_keep(st, id, spare))
		return 0;
	stage_name(id, name);
	return unlinkat(st->dirfd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

void stage_drop_spares(struct stage *st)
{
	char name[24];

	while (st->nspares > 0) {
		spare_name(st->spare[--st->nspares].id, name);
		(void)unlinkat(st->dirfd, name, 0);
	}
}

int stage_adopt(struct io *io, const struct meta_segment *seg)
{
	struct stage *st = io->stage;
	struct stage_seg *s;

	errno = ENOMEM;
	s = seg_new(io, seg->id, 0);
	if (!s)
		return errno == ENOENT ? -TESS_E_STAGE_LOST : -errno;
	s->cls = seg->cls;
	s->used = seg->len;
	s->size = (uint32_t)seg->len;
	s->adopted = true;
	scoped_lock(&st->lock);
	if (stage_find_locked(st, seg->id)) {
		stage_seg_free(s);
		return 0;
	}
	s->state = STAGE_CLOSED;
	st->bytes += s->used;
	stage_enter_locked(st, s);
	seal_submit_locked(s);
	return 0;
}
