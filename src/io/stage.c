/* SPDX-License-Identifier: Apache-2.0 */
#include "io/stage.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define HOST_KEEP      (UINT64_C(64) << 20)
#define STAGE_PATIENCE (30 * NS_PER_S)	/* for room, when the request has no deadline of its own */

void stage_name(tess_segid id, char ret[17])
{
	snprintf(ret, 17, "%016" PRIx64, id);
}

int stage_new(struct io *io, const char *dir, uint64_t limit)
{
	scoped_free struct stage *st = mem_zalloc(sizeof(*st));
	int e;

	if (!st)
		return -ENOMEM;
	e = htab_init(&st->table, 64);
	if (e < 0)
		return e;
	st->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (st->dirfd < 0) {
		e = -errno;
		htab_done(&st->table);
		return e;
	}
	lock_init(&st->lock, LOCK_IO_STAGE, "io.stage");
	cond_init(&st->cond);
	list_init(&st->segs);
	st->io = io;
	st->limit = limit ? limit : UINT64_MAX;
	io->stage = steal_ptr(st);
	return 0;
}

static void seg_free(struct stage_seg *s)
{
	if (s->fd >= 0)
		close(s->fd);
	free(s->csums);
	free(s);
}

void stage_free(struct stage *st)
{
	struct list_node *n;

	if (!st)
		return;
	while ((n = list_pop_front(&st->segs)))
		seg_free(list_entry(n, struct stage_seg, link));
	htab_done(&st->table);
	close(st->dirfd);
	cond_done(&st->cond);
	lock_done(&st->lock);
	free(st);
}

static struct stage_seg *find_locked(struct stage *st, tess_segid id)
{
	return (struct stage_seg *)htab_find(&st->table, id);
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

static void enter_locked(struct stage *st, struct stage_seg *s)
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
static int create(struct io *io, const struct meta_layout *l, struct stage_seg **ret)
{
	tess_segid id = meta_segment_new(io->meta);
	struct stage_seg *s;
	int e;

	if (!host_has_room(io->stage, l->segment_size))
		return -TESS_E_STAGE_FULL;
	errno = ENOMEM;
	s = seg_new(io, id, O_CREAT | O_EXCL);
	if (!s)
		return errno == ENOSPC || errno == EDQUOT ? -TESS_E_STAGE_FULL : -errno;
	e = fallocate(s->fd, 0, 0, l->segment_size) < 0 ? -errno : 0;
	if (e == -EOPNOTSUPP)
		e = ftruncate(s->fd, l->segment_size) < 0 ? -errno : 0;
	if (e < 0) {
		char name[17];

		stage_name(id, name);
		(void)unlinkat(io->stage->dirfd, name, 0);
		seg_free(s);
		return e == -ENOSPC || e == -EDQUOT ? -TESS_E_STAGE_FULL : e;
	}
	s->cls = l->cls;
	s->size = l->segment_size;
	*ret = s;
	return 0;
}

/* The segment to append to, or NULL. One with too little left is closed on the way. */
static struct stage_seg *open_seg_locked(struct stage *st, const struct meta_layout *l, uint64_t len)
{
	for (struct list_node *n = st->segs.prev; n != &st->segs; n = n->prev) {
		struct stage_seg *s = list_entry(n, struct stage_seg, link);

		if (s->state != STAGE_OPEN || s->cls != l->cls || s->size != l->segment_size)
			continue;
		if (len <= s->size - s->used)
			return s;
		seal_submit_locked(s);
		return NULL;
	}
	return NULL;
}

static int64_t patience(const struct tess_req *req)
{
	int64_t limit = clock_now() + STAGE_PATIENCE;

	return MIN(req->deadline, limit);
}

/* Waits for room below the limit; seals and checkpoints make it. */
static int wait_room_locked(struct stage *st, const struct tess_req *req, uint64_t len,
			    int64_t deadline)
{
	while (len > st->limit - MIN(st->bytes, st->limit)) {
		if (st->stopping || req_expired(req) || clock_now() >= deadline)
			return -TESS_E_STAGE_FULL;
		lock_drop(&st->lock);
		seal_full(st->io);
		io_committer_kick(st->io);
		lock_take(&st->lock);
		if (len > st->limit - MIN(st->bytes, st->limit))
			(void)cond_wait_until(&st->cond, &st->lock,
					      MIN(deadline, clock_now() + NS_PER_S / 20));
	}
	return 0;
}

/* Makes the next open segment; one thread at a time, the others wait for it. */
static int make_open_locked(struct stage *st, const struct meta_layout *l)
{
	struct stage_seg *s = NULL;
	int e;

	if (st->creating) {
		cond_wait(&st->cond, &st->lock);
		return 0;
	}
	st->creating = true;
	lock_drop(&st->lock);
	e = create(st->io, l, &s);
	lock_take(&st->lock);
	st->creating = false;
	if (e == 0) {
		s->touched = clock_now();
		st->dir_unsynced = true;
		enter_locked(st, s);
	}
	cond_wake_all(&st->cond);
	return e;
}

int stage_reserve(struct io *io, struct tess_req *req, const struct meta_layout *l, uint64_t len,
		  struct stage_seg **ret, uint64_t *ret_off)
{
	struct stage *st = io->stage;
	int64_t deadline = patience(req);
	struct stage_seg *s;
	int e = fault_point("stage.append");

	if (e < 0)
		return e;
	scoped_lock(&st->lock);
	for (;;) {
		e = wait_room_locked(st, req, len, deadline);
		if (e < 0)
			return e;
		s = open_seg_locked(st, l, len);
		if (s)
			break;
		e = make_open_locked(st, l);
		if (e < 0)
			return e;
	}
	*ret_off = s->used;
	*ret = s;
	s->used += len;
	st->bytes += len;
	s->writing++;
	s->uses++;
	return 0;
}

static int write_all(int fd, uint64_t off, const struct tess_iov *data)
{
	unsigned i = 0;

	while (i < data->n) {
		struct iovec part[64];
		unsigned n = MIN(data->n - i, (unsigned)ARRAY_SIZE(part));
		uint64_t want = 0, at = 0;

		for (unsigned j = 0; j < n; j++) {
			part[j] = data->iov[i + j];
			want += part[j].iov_len;
		}
		for (unsigned j = 0; at < want;) {
			ssize_t got = pwritev(fd, part + j, (int)(n - j), (off_t)(off + at));

			if (got < 0 && errno == EINTR)
				continue;
			if (got <= 0)
				return got < 0 ? -errno : -EIO;
			at += (uint64_t)got;
			while (j < n && (size_t)got >= part[j].iov_len)
				got -= (ssize_t)part[j++].iov_len;
			if (j < n) {
				part[j].iov_base = (char *)part[j].iov_base + got;
				part[j].iov_len -= (size_t)got;
			}
		}
		off += want;
		i += n;
	}
	return 0;
}

int stage_write(struct stage_seg *s, uint64_t off, const struct tess_iov *data)
{
	struct stage *st = s->io->stage;
	int e = data ? write_all(s->fd, off, data) : 0;

	if (data) {
		io_count(s->io, IO_APPENDS, 1);
		io_count(s->io, IO_APPEND_BYTES, data->len);
	}
	scoped_lock(&st->lock);
	s->unsynced |= data != NULL;
	s->touched = clock_now();
	if (--s->writing == 0 && s->state != STAGE_OPEN)
		cond_wake_all(&st->cond);
	return e;
}

/* The file is open while somebody may read it through us. */
static void close_idle_locked(struct stage_seg *s)
{
	if (s->committed && s->uses == 0 && s->reading == 0 && s->fd >= 0) {
		close(s->fd);
		s->fd = -1;
	}
}

void stage_unuse(struct io *io, tess_segid id)
{
	struct stage *st = io->stage;
	struct stage_seg *s;

	scoped_lock(&st->lock);
	s = find_locked(st, id);
	s->uses--;
	close_idle_locked(s);
}

void stage_publish_begin(struct io *io, tess_segid id, struct meta_new_segment *ret)
{
	struct stage *st = io->stage;
	struct stage_seg *s;

	scoped_lock(&st->lock);
	s = find_locked(st, id);
	if (s->state == STAGE_SEALED) {
		ret->seg = s->sealed;
		ret->csums = s->csums;
		ret->ncsums = s->ncsums;
		return;
	}
	s->publishing++;
	ret->seg.state = META_STAGED;
	ret->csums = NULL;
	ret->ncsums = 0;
}

void stage_publish_end(struct io *io, tess_segid id)
{
	struct stage *st = io->stage;
	struct stage_seg *s;

	scoped_lock(&st->lock);
	s = find_locked(st, id);
	if (--s->publishing == 0)
		cond_wake_all(&st->cond);
}

static int read_all(int fd, uint64_t off, char *p, size_t n)
{
	while (n > 0) {
		ssize_t got = pread(fd, p, n, (off_t)off);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -TESS_E_STAGE_LOST;
		p += got;
		off += (uint64_t)got;
		n -= (size_t)got;
	}
	return 0;
}

/* Another live session's, or ours whose file is not held open any more. */
static int read_by_name(struct stage *st, tess_segid id, struct tess_range r, void *p)
{
	char name[17];
	scoped_fd int fd = -1;

	stage_name(id, name);
	fd = openat(st->dirfd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -TESS_E_STAGE_LOST : -errno;
	return read_all(fd, r.off, p, r.len);
}

int stage_read(struct io *io, tess_segid id, uint64_t off, void *p, size_t n)
{
	struct stage *st = io->stage;
	struct stage_seg *s;
	int e;

	lock_take(&st->lock);
	s = find_locked(st, id);
	if (!s || s->fd < 0) {
		lock_drop(&st->lock);
		return read_by_name(st, id, (struct tess_range){ off, n }, p);
	}
	s->reading++;
	lock_drop(&st->lock);
	e = read_all(s->fd, off, p, n);
	scoped_lock(&st->lock);
	s->reading--;
	close_idle_locked(s);
	return e;
}

/* Picks the next file to sync and marks it clean: what is appended from here on is the next call's. */
static struct stage_seg *next_unsynced(struct stage *st)
{
	scoped_lock(&st->lock);
	list_for_each(n, &st->segs) {
		struct stage_seg *s = list_entry(n, struct stage_seg, link);

		if (s->unsynced && s->fd >= 0) {
			s->unsynced = false;
			s->reading++;	/* keeps the file open and the struct alive */
			return s;
		}
	}
	return NULL;
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

int stage_sync(struct io *io)
{
	struct stage *st = io->stage;
	struct stage_seg *s;
	int e = 0;

	while (e == 0 && (s = next_unsynced(st))) {
		e = fdatasync(s->fd) < 0 ? -errno : 0;
		io_count(io, IO_STAGE_SYNCS, 1);
		scoped_lock(&st->lock);
		s->unsynced |= e < 0;
		s->reading--;
		close_idle_locked(s);
	}
	return e < 0 ? e : sync_dir(st);
}

bool stage_busy(struct io *io, tess_segid id)
{
	struct stage *st = io->stage;
	struct stage_seg *s;

	scoped_lock(&st->lock);
	s = find_locked(st, id);
	return s && (!s->committed || s->uses > 0 || s->publishing > 0);
}

int stage_unlink(struct io *io, tess_segid id)
{
	struct stage *st = io->stage;
	struct stage_seg *s;
	char name[17];

	stage_name(id, name);
	if (unlinkat(st->dirfd, name, 0) < 0 && errno != ENOENT)
		return -errno;
	scoped_lock(&st->lock);
	s = find_locked(st, id);
	while (s && s->reading > 0)
		cond_wait_until(&st->cond, &st->lock, clock_now() + NS_PER_MS);
	if (s && s->uses == 0) {
		st->bytes -= s->used;
		htab_remove(&st->table, &s->node);
		list_remove(&s->link);
		seg_free(s);
	}
	cond_wake_all(&st->cond);
	return 0;
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
	scoped_lock(&st->lock);
	if (find_locked(st, seg->id)) {
		seg_free(s);
		return 0;
	}
	s->state = STAGE_CLOSED;
	st->bytes += s->used;
	enter_locked(st, s);
	seal_submit_locked(s);
	return 0;
}

uint64_t stage_pending(struct io *io, uint64_t *ret_segments)
{
	struct stage *st = io->stage;
	uint64_t bytes = 0, n = 0;

	scoped_lock(&st->lock);
	list_for_each(x, &st->segs) {
		struct stage_seg *s = list_entry(x, struct stage_seg, link);

		if (!s->committed && s->used > 0) {
			bytes += s->used;
			n++;
		}
	}
	*ret_segments = n;
	return bytes;
}
