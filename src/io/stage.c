/* SPDX-License-Identifier: Apache-2.0 */
#include "io/stage.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define STAGE_OPEN_TRIES 16u
#define STAGE_PATIENCE (30 * NS_PER_S)	/* for room, when the request has no deadline of its own */

/*
 * With a shared lock: a mount that would have the area elsewhere takes it for its own first, and may just have done so.
 */
static int stage_dir_open(const char *dir)
{
	struct stat here, there;

	for (unsigned i = 0; i < STAGE_OPEN_TRIES; i++) {
		scoped_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			return -errno;
		while (flock(fd, LOCK_SH) < 0 && errno == EINTR)
			;
		if (fstat(fd, &here) == 0 && stat(dir, &there) == 0 && here.st_dev == there.st_dev &&
		    here.st_ino == there.st_ino)
			return steal_fd(fd);
	}
	return -EBUSY;
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
	st->dirfd = stage_dir_open(dir);
	if (st->dirfd < 0) {
		e = st->dirfd;
		htab_done(&st->table);
		return e;
	}
	lock_init(&st->lock, LOCK_IO_STAGE, "io.stage");
	cond_init(&st->cond);
	cond_init(&st->early_cond);
	list_init(&st->segs);
	st->io = io;
	st->limit = limit ? limit : UINT64_MAX;
	io->stage = steal_ptr(st);
	return 0;
}

void stage_seg_free(struct stage_seg *s)
{
	if (s->fd >= 0)
		close(s->fd);
	free(s->csums);
	range_set_done(&s->inodes);
	free(s);
}

void stage_free(struct stage *st)
{
	struct list_node *n;

	if (!st)
		return;
	while ((n = list_pop_front(&st->segs)))
		stage_seg_free(list_entry(n, struct stage_seg, link));
	stage_drop_spares(st);
	htab_done(&st->table);
	close(st->dirfd);
	cond_done(&st->early_cond);
	cond_done(&st->cond);
	lock_done(&st->lock);
	free(st);
}

struct stage_seg *stage_find_locked(struct stage *st, tess_segid id)
{
	return (struct stage_seg *)htab_find(&st->table, id);
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
		stage_filled_locked(s);
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
	e = io_room_for(st->io, l->segment_size);
	if (e == 0)
		e = stage_create(st->io, l, &s);
	lock_take(&st->lock);
	st->creating = false;
	if (e == 0) {
		s->touched = clock_now();
		st->dir_unsynced = true;
		stage_enter_locked(st, s);
	}
	cond_wake_all(&st->cond);
	return e;
}

bool stage_has_room(struct io *io, uint64_t len)
{
	struct stage *st = io->stage;

	scoped_lock(&st->lock);
	return len <= st->limit - MIN(st->bytes, st->limit);
}

bool stage_is_much(struct io *io, uint64_t bytes)
{
	return bytes > io->stage->limit / 4 && io->drain == IO_DRAIN_EAGER;
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
void stage_close_idle_locked(struct stage_seg *s)
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
	s = stage_find_locked(st, id);
	s->uses--;
	stage_close_idle_locked(s);
}

void stage_publish_begin(struct io *io, uint64_t ino, tess_segid id, struct meta_new_segment *ret)
{
	struct stage *st = io->stage;
	struct stage_seg *s;

	scoped_lock(&st->lock);
	s = stage_find_locked(st, id);
	if (s->state == STAGE_SEALED) {
		s->carried = true;
		ret->seg = s->sealed;
		ret->csums = s->csums;
		ret->ncsums = s->ncsums;
		return;
	}
	s->publishing++;
	stage_note_locked(s, ino);
	ret->seg.state = META_STAGED;
	ret->csums = NULL;
	ret->ncsums = 0;
}

void stage_publish_end(struct io *io, tess_segid id)
{
	struct stage *st = io->stage;
	struct stage_seg *s;

	scoped_lock(&st->lock);
	s = stage_find_locked(st, id);
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

/* Whether the file is still of that name. It loses it before its bytes go, or serve another segment. */
static bool still_named(const struct stage *st, const char *name, int fd)
{
	struct stat is, was;

	return fstat(fd, &was) == 0 && fstatat(st->dirfd, name, &is, 0) == 0 &&
	       is.st_ino == was.st_ino && is.st_dev == was.st_dev;
}

/*
 * Another live session's, or ours whose file is not held open any more. Its owner waits for no reader
 * but its own, so what was read counts only if the file was not given away meanwhile.
 */
static int read_by_name(struct stage *st, tess_segid id, struct tess_range r, void *p)
{
	char name[17];
	scoped_fd int fd = -1;
	int e;

	stage_name(id, name);
	fd = openat(st->dirfd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -TESS_E_STAGE_LOST : -errno;
	e = fault_point("stage.read");
	if (e == 0)
		e = read_all(fd, r.off, p, r.len);
	return e == 0 && !still_named(st, name, fd) ? -TESS_E_STAGE_LOST : e;
}

int stage_read(struct io *io, tess_segid id, uint64_t off, void *p, size_t n)
{
	struct stage *st = io->stage;
	struct stage_seg *s;
	int e;

	lock_take(&st->lock);
	s = stage_find_locked(st, id);
	if (!s || s->fd < 0) {
		lock_drop(&st->lock);
		return read_by_name(st, id, (struct tess_range){ off, n }, p);
	}
	s->reading++;
	lock_drop(&st->lock);
	e = read_all(s->fd, off, p, n);
	scoped_lock(&st->lock);
	s->reading--;
	stage_close_idle_locked(s);
	return e;
}

bool stage_busy(struct io *io, tess_segid id)
{
	struct stage *st = io->stage;
	struct stage_seg *s;

	scoped_lock(&st->lock);
	s = stage_find_locked(st, id);
	return s && (!s->committed || s->queued || s->uses > 0 || s->publishing > 0);
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
