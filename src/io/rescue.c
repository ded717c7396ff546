/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fenced session could not publish, saved for the administrator:
 *
 *	DIR/SESSION/INO.OFFSET	the bytes of one dirty range
 *	DIR/SESSION/manifest	PATH <tab> OFFSET <tab> LENGTH <tab> INO.OFFSET, a line each
 *
 * Not put back by itself: another session may have written there since, with the locks that this one
 * no longer had.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scoped.h"
#include "io/io_int.h"
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

LOG_MODULE("io")

#define RESCUE_PIECE (UINT64_C(1) << 20)

/* DIR/SESSION, made at need. A descriptor or negative. */
static int rescue_open(struct io *io)
{
	scoped_free char *path = mem_printf("%s/%" PRIu32, io->rescue_dir, meta_session_id(io->meta));
	int fd;

	if (!path)
		return -ENOMEM;
	if ((mkdir(io->rescue_dir, 0700) < 0 && errno != EEXIST) ||
	    (mkdir(path, 0700) < 0 && errno != EEXIST))
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno != EINTR)
			return -errno;
		if (w > 0) {
			p += w;
			n -= (size_t)w;
		}
	}
	return 0;
}

/* A name may hold anything but NUL and '/': a line and its fields stay what they are. As in /proc/mounts. */
static void path_text(const char *path, struct text *out)
{
	for (; *path; path++) {
		if ((unsigned char)*path < ' ' || *path == 0x7f || *path == '\\')
			text_fmt(out, "\\%03o", (unsigned)(unsigned char)*path);
		else
			text_addn(out, path, 1);
	}
}

static int rescue_note(struct io_file *f, int dir, const char *name, struct tess_range r)
{
	scoped_fd int fd = openat(dir, "manifest", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	struct text line = TEXT_INIT;
	char path[4096];
	int e;

	if (fd < 0)
		return -errno;
	if (meta_path(f->io->meta, f->ino, path, sizeof(path)) < 0)
		(void)snprintf(path, sizeof(path), "-");
	path_text(path, &line);
	text_fmt(&line, "\t%" PRIu64 "\t%" PRIu64 "\t%s\n", r.off, r.len, name);
	lock_take(&f->io->rescue_lock);
	e = text_error(&line) ? text_error(&line) : write_all(fd, text_str(&line), line.n);
	lock_drop(&f->io->rescue_lock);
	text_done(&line);
	return e;
}

static int rescue_range(struct io_file *f, int dir, struct tess_range r, char *buf)
{
	scoped_fd int fd = -1;
	struct tess_req req;
	char name[64];
	uint64_t at = 0;

	(void)snprintf(name, sizeof(name), "%" PRIu64 ".%" PRIu64, f->ino, r.off);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	req_begin(&req, "rescue");
	req.ino = f->ino;
	req.deadline = clock_now() + IO_DEADLINE;
	while (at < r.len) {
		ssize_t n = io_read_sync(f, &req, r.off + at, buf, MIN(r.len - at, RESCUE_PIECE));
		int e = n < 0 ? (int)n : write_all(fd, buf, (size_t)n);

		if (e < 0)
			return e;
		if (n == 0)
			break;	/* cut since */
		at += (uint64_t)n;
	}
	r.len = at;
	if (fsync(fd) < 0)
		return -errno;
	io_count(f->io, IO_RESCUED, at);
	return rescue_note(f, dir, name, r);
}

/* Pieces that lie end to end are one range. */
static int dirty_list_locked(struct io_file *f, struct tess_range **ret, size_t *ret_n)
{
	struct tess_range *r = mem_array(f->dirty.tree.n + 1, sizeof(*r));
	size_t n = 0;

	if (!r)
		return -ENOMEM;
	for (struct dirty_node *x = dirty_next(&f->dirty, 0); x; x = dirty_after(x)) {
		if (x->fill)
			continue;	/* published bytes, moved along */
		if (n && r[n - 1].off + r[n - 1].len == dirty_off(x))
			r[n - 1].len += x->len;
		else
			r[n++] = (struct tess_range){ dirty_off(x), x->len };
	}
	*ret = r;
	*ret_n = n;
	return 0;
}

static void rescue_ranges(struct io_file *f, const struct tess_range *r, size_t n, int e)
{
	scoped_free char *buf = NULL;
	scoped_fd int dir = -1;
	uint64_t bytes = 0;

	if (e == 0 && n == 0)
		return;
	buf = mem_alloc(RESCUE_PIECE);
	e = !buf ? -ENOMEM : e == 0 && !f->io->rescue_dir ? -ENOENT : e;
	if (e == 0)
		e = dir = rescue_open(f->io);
	for (size_t i = 0; e >= 0 && i < n; i++) {
		e = rescue_range(f, dir, r[i], buf);
		bytes += r[i].len;
	}
	if (e < 0)
		log_err("inode %" PRIu64 ": unpublished bytes are lost: this session was shut out, and "
			"they cannot be saved: %s", f->ino, err_text(e));
	else
		log_err("inode %" PRIu64 ": %" PRIu64 " unpublished bytes are in %s/%" PRIu32, f->ino,
			bytes, f->io->rescue_dir, meta_session_id(f->io->meta));
}

void io_rescue_file(struct io_file *f)
{
	scoped_free struct tess_range *r = NULL;
	size_t n = 0;
	int e;

	lock_take(&f->lock);
	if (f->rescued) {
		/* Whoever hears ESTALE finds the bytes. */
		while (f->rescuing)
			cond_wait(&f->cond, &f->lock);
		lock_drop(&f->lock);
		return;
	}
	e = dirty_list_locked(f, &r, &n);
	f->rescued = f->rescuing = true;
	lock_drop(&f->lock);
	rescue_ranges(f, r, n, e);
	lock_take(&f->lock);
	f->rescuing = false;
	cond_wake_all(&f->cond);
	lock_drop(&f->lock);
}

static void rescue_one(struct io_file *f, void *arg)
{
	(void)arg;
	io_rescue_file(f);
}

void io_rescue(struct io *io)
{
	io_files_each(io, rescue_one, NULL);
}
