/* SPDX-License-Identifier: Apache-2.0 */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SIZE_MAX_FILE (3u << 20)
static const char SHARED[] = "shared";

void writer_path(const struct writer *w, unsigned name, char *ret, size_t cap)
{
	if (name >= WR_NAMES - WR_TEMPS)
		snprintf(ret, cap, "%s/t%u", w->dir, name);
	else
		snprintf(ret, cap, "%s/d%u/f%u", w->dir, name % WR_DIRS, name);
}

void writer_dir_path(const struct writer *w, unsigned d, char *ret, size_t cap)
{
	snprintf(ret, cap, "%s/e%u", w->dir, d);
}

void writer_shared_path(const struct writer *w, char *ret, size_t cap)
{
	snprintf(ret, cap, "%s/%s", w->mnt, SHARED);
}

void writer_note(struct writer *w, uint32_t file, const char *what, uint64_t a, uint64_t b)
{
	w->history[w->nhistory++ % WR_HISTORY] = (struct wr_event){file, what, a, b};
}

int writer_fail(struct writer *w, uint32_t file, const char *fmt, ...)
{
	uint32_t first = w->nhistory > WR_HISTORY ? w->nhistory - WR_HISTORY : 0;
	char line[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	fprintf(stderr, "writer %u, file %u: %s\n", w->id, file, line);
	for (uint32_t i = first; i < w->nhistory; i++) {
		const struct wr_event *e = &w->history[i % WR_HISTORY];

		if (e->file == file || (!e->file && i + 16 > w->nhistory))
			fprintf(stderr, "    #%u %s %llu %llu\n", i, e->what,
				(unsigned long long)e->a, (unsigned long long)e->b);
	}
	w->failed = true;
	return -1;
}

/* A call failed. That is right only when the mount is dead, and nothing else may be the reason. */
static int dead(struct writer *w, uint32_t file, const char *what)
{
	int e = errno;
	struct statfs s;

	/* EIO: a write to a part of a page that had to be read first. */
	if ((e == ENOTCONN || e == ECONNABORTED || e == ENODEV || e == EIO) && statfs(w->mnt, &s))
		return 1;
	return writer_fail(w, file, "%s: %s", what, strerror(e));
}

void writer_put(struct wr_file *f)
{
	if (!f || f->names || f->handles)
		return;
	fm_done(&f->m);
	free(f);
}

static struct wr_handle *free_handle(struct writer *w)
{
	for (unsigned i = 0; i < WR_HANDLES; i++)
		if (w->handle[i].fd < 0)
			return &w->handle[i];
	return NULL;
}

static struct wr_handle *some_handle(struct writer *w)
{
	unsigned at = (unsigned)rnd_below(&w->rng, WR_HANDLES);

	for (unsigned i = 0; i < WR_HANDLES; i++, at = (at + 1) % WR_HANDLES)
		if (w->handle[at].fd >= 0)
			return &w->handle[at];
	return NULL;
}

static void hold(struct wr_handle *h, int fd, struct wr_file *f, int flags)
{
	*h = (struct wr_handle){fd, f, flags & O_APPEND, flags & O_SYNC};
	f->handles++;
}

static int op_create(struct writer *w, unsigned name, struct wr_handle *h)
{
	struct wr_file *f;
	char path[600];
	int fd;

	f = calloc(1, sizeof(*f));
	if (!f)
		abort();
	f->id = ++w->nfiles;
	writer_path(w, name, path, sizeof(path));
	w->flight = WR_CREATE, w->to = name, w->file = f;
	writer_note(w, f->id, "create as", name, 0);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
	if (fd < 0)
		return dead(w, f->id, "create");
	w->flight = WR_NONE;
	w->name[name] = f;
	f->names = 1;
	hold(h, fd, f, 0);
	return 0;
}

static int op_open(struct writer *w)
{
	static const int how[] = {O_RDWR, O_RDWR, O_RDWR | O_APPEND, O_RDWR | O_SYNC,
				  O_RDWR | O_TRUNC};
	struct wr_handle *h = free_handle(w);
	unsigned name = (unsigned)rnd_below(&w->rng, WR_NAMES - WR_TEMPS);
	int flags = how[rnd_below(&w->rng, 5)], fd;
	struct wr_file *f = w->name[name];
	char path[600];

	if (!h)
		return 0;
	if (!f)
		return op_create(w, name, h);
	writer_path(w, name, path, sizeof(path));
	writer_note(w, f->id, "open as, flags", name, (uint64_t)flags);
	if (flags & O_TRUNC)
		fm_cut(&f->m, 0);
	fd = open(path, flags);
	if (fd < 0)
		return dead(w, f->id, "open");
	hold(h, fd, f, flags);
	return 0;
}

static int op_close(struct writer *w, struct wr_handle *h)
{
	struct wr_file *f = h->file;
	int err;

	writer_note(w, f->id, "close", 0, 0);
	err = close(h->fd);
	h->fd = -1;
	f->handles--;
	if (err)
		return dead(w, f->id, "close");
	fm_synced(&f->m);
	writer_put(f);
	return 0;
}

static int op_fsync(struct writer *w, struct wr_handle *h)
{
	writer_note(w, h->file->id, "fsync", 0, 0);
	if (rnd_below(&w->rng, 2) ? fsync(h->fd) : fdatasync(h->fd))
		return dead(w, h->file->id, "fsync");
	writer_note(w, h->file->id, "fsync returned", 0, 0);
	fm_synced(&h->file->m);
	return 0;
}

static size_t some_length(struct writer *w)
{
	switch (rnd_below(&w->rng, 16)) {
	case 0:
		return 1 + rnd_below(&w->rng, 1500000);
	case 1:
	case 2:
		return 1 + rnd_below(&w->rng, 300000);
	case 3:
	case 4:
	case 5:
		return 4096 * (1 + rnd_below(&w->rng, 16));
	default:
		return 1 + rnd_below(&w->rng, 9000);
	}
}

static int op_write(struct writer *w, struct wr_handle *h)
{
	size_t len = some_length(w), off, done = 0;
	struct fmodel *m = &h->file->m;
	uint64_t seed = w->serial++;
	uint8_t *buf;

	off = h->append || !rnd_below(&w->rng, 3) ? m->size : rnd_below(&w->rng, m->size + 20000);
	if (off + len > SIZE_MAX_FILE)
		return 0;
	buf = malloc(len);
	if (!buf)
		abort();
	fm_fill(buf, seed, off, len);
	writer_note(w, h->file->id, "write at, length", off, len);
	fm_write(m, seed, off, len);
	while (done < len) {
		errno = EIO;	/* as in op_shared(): a dying daemon's 0 sets none */
		ssize_t n = h->append ? write(h->fd, buf + done, len - done)
				      : pwrite(h->fd, buf + done, len - done, (off_t)(off + done));

		if (n <= 0) {
			free(buf);
			return dead(w, h->file->id, "write");
		}
		done += (size_t)n;
	}
	free(buf);
	if (h->sync)
		fm_synced(m);
	return 0;
}

static int op_shape(struct writer *w, struct wr_handle *h)
{
	struct fmodel *m = &h->file->m;
	size_t off = rnd_below(&w->rng, m->size + 8192), len = 1 + rnd_below(&w->rng, 100000);

	if (rnd_below(&w->rng, 2)) {
		writer_note(w, h->file->id, "truncate to", off, 0);
		fm_cut(m, off);
		return ftruncate(h->fd, (off_t)off) ? dead(w, h->file->id, "truncate") : 0;
	}
	writer_note(w, h->file->id, "punch at, length", off, len);
	fm_punch(m, off, len);
	if (fallocate(h->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)len))
		return dead(w, h->file->id, "punch");
	return 0;
}

static int op_read(struct writer *w, struct wr_handle *h)
{
	struct fmodel *m = &h->file->m;
	uint8_t *buf = malloc(m->size + 1);
	const char *why;
	size_t done = 0;
	ssize_t n;

	if (!buf)
		abort();
	while ((n = pread(h->fd, buf + done, m->size + 1 - done, (off_t)done)) > 0)
		done += (size_t)n;
	if (n < 0) {
		free(buf);
		return dead(w, h->file->id, "read");
	}
	why = fm_same(m, buf, done);
	free(buf);
	return why ? writer_fail(w, h->file->id, "read: %s", why) : 0;
}

static int op_unlink(struct writer *w)
{
	unsigned name = (unsigned)rnd_below(&w->rng, WR_NAMES);
	struct wr_file *f = w->name[name];
	char path[600];

	if (!f)
		return 0;
	writer_path(w, name, path, sizeof(path));
	writer_note(w, f->id, "unlink", name, 0);
	w->flight = WR_UNLINK, w->from = name, w->file = f;
	if (unlink(path))
		return dead(w, f->id, "unlink");
	w->flight = WR_NONE;
	w->name[name] = NULL;
	f->names--;
	writer_put(f);
	return 0;
}

static int do_rename(struct writer *w, unsigned from, unsigned to)
{
	struct wr_file *f = w->name[from], *old = w->name[to];
	char a[600], b[600];

	if (!f || from == to)
		return 0;
	writer_path(w, from, a, sizeof(a));
	writer_path(w, to, b, sizeof(b));
	writer_note(w, f->id, "rename from, to", from, to);
	if (old)
		writer_note(w, old->id, "replaced at, by file", to, f->id);
	w->flight = WR_RENAME, w->from = from, w->to = to, w->file = f;
	if (rename(a, b))
		return dead(w, f->id, "rename");
	w->flight = WR_NONE;
	fm_synced(&f->m); /* a rename publishes what it renames */
	w->name[to] = f;
	w->name[from] = NULL;
	if (old) {
		old->names--;
		writer_put(old);
	}
	return 0;
}

/* Write a temporary file, perhaps fsync it, close it before or after, rename it over a name. */
static int op_replace(struct writer *w)
{
	unsigned temp = WR_NAMES - WR_TEMPS + (unsigned)rnd_below(&w->rng, WR_TEMPS);
	unsigned to = (unsigned)rnd_below(&w->rng, WR_NAMES - WR_TEMPS), how;
	struct wr_handle *h = free_handle(w);
	int err;

	if (!h)
		return 0;
	if (w->name[temp])
		return do_rename(w, temp, to);
	err = op_create(w, temp, h);
	for (unsigned n = 1 + (unsigned)rnd_below(&w->rng, 4); n-- && !err;)
		err = op_write(w, h);
	how = (unsigned)rnd_below(&w->rng, 4);
	if (!err && how == 0)
		err = op_fsync(w, h);
	if (!err && how < 3)
		err = op_close(w, h);
	return err ? err : do_rename(w, temp, to);
}

static int op_dir(struct writer *w)
{
	unsigned d = (unsigned)rnd_below(&w->rng, WR_DIRS);
	char path[600];

	writer_dir_path(w, d, path, sizeof(path));
	writer_note(w, 0, w->has_dir[d] ? "rmdir" : "mkdir", d, 0);
	w->flight = w->has_dir[d] ? WR_RMDIR : WR_MKDIR, w->to = d;
	if (w->has_dir[d] ? rmdir(path) : mkdir(path, 0755))
		return dead(w, 0, "mkdir or rmdir");
	w->flight = WR_NONE;
	w->has_dir[d] = !w->has_dir[d];
	return 0;
}

static int op_shared(struct writer *w)
{
	unsigned r = (unsigned)rnd_below(&w->rng, WR_RECORDS);
	off_t at = (off_t)(r * w->nwriters + w->id) * WR_RECORD_SIZE;
	static __thread uint8_t buf[WR_RECORD_SIZE];
	char path[600];

	if (w->shared < 0) {
		writer_shared_path(w, path, sizeof(path));
		w->shared = open(path, O_RDWR | O_CREAT, 0644);
		if (w->shared < 0)
			return dead(w, 0, "open of the shared file");
	}
	writer_note(w, 0, "write of shared record", r, w->serial);
	fm_write(&w->record[r], w->serial, 0, WR_RECORD_SIZE);
	fm_fill(buf, w->serial++, 0, WR_RECORD_SIZE);
	/* Short only where the daemon died under it; a short write sets no errno of its own. */
	errno = EIO;
	if (pwrite(w->shared, buf, WR_RECORD_SIZE, at) != WR_RECORD_SIZE)
		return dead(w, 0, "write of the shared file");
	if (rnd_below(&w->rng, 4))
		return 0;
	if (fsync(w->shared))
		return dead(w, 0, "fsync of the shared file");
	writer_note(w, 0, "fsync of the shared file", 0, 0);
	for (r = 0; r < WR_RECORDS; r++)
		fm_synced(&w->record[r]);
	return 0;
}

static int make_ready(struct writer *w)
{
	char path[600];

	if (mkdir(w->dir, 0755) && errno != EEXIST)
		return dead(w, 0, "mkdir");
	for (unsigned d = 0; d < WR_DIRS; d++) {
		snprintf(path, sizeof(path), "%s/d%u", w->dir, d);
		if (mkdir(path, 0755) && errno != EEXIST)
			return dead(w, 0, "mkdir");
	}
	w->ready = true;
	return 0;
}

int writer_step(struct writer *w)
{
	struct wr_handle *h;
	unsigned dice = (unsigned)rnd_below(&w->rng, 100);

	if (!w->ready)
		return make_ready(w);
	if (dice < 12)
		return op_open(w);
	if (dice < 16)
		return op_unlink(w);
	if (dice < 26)
		return op_replace(w);
	if (dice < 29)
		return do_rename(w, (unsigned)rnd_below(&w->rng, WR_NAMES - WR_TEMPS),
				 (unsigned)rnd_below(&w->rng, WR_NAMES - WR_TEMPS));
	if (dice < 32)
		return op_dir(w);
	if (dice < 40)
		return op_shared(w);
	h = some_handle(w);
	if (!h)
		return 0;
	if (dice < 50)
		return op_close(w, h);
	if (dice < 58)
		return op_fsync(w, h);
	if (dice < 63)
		return op_shape(w, h);
	return dice < 70 ? op_read(w, h) : op_write(w, h);
}

void writer_init(struct writer *w, const char *mnt, unsigned id, unsigned nwriters, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->id = id;
	w->nwriters = nwriters;
	w->mnt = mnt;
	snprintf(w->dir, sizeof(w->dir), "%s/w%u", mnt, id);
	w->rng = seed + id * UINT64_C(1000003);
	w->serial = (uint64_t)id << 48 | 1;
	w->shared = -1;
	for (unsigned i = 0; i < WR_HANDLES; i++)
		w->handle[i].fd = -1;
	for (unsigned i = 0; i < WR_RECORDS; i++) {
		fm_cut(&w->record[i], WR_RECORD_SIZE);
		fm_synced(&w->record[i]);
	}
}

void writer_stop(struct writer *w, bool alive)
{
	writer_note(w, 0, "---- stop", 0, 0);
	for (unsigned i = 0; i < WR_HANDLES; i++) {
		struct wr_handle *h = &w->handle[i];

		if (h->fd < 0)
			continue;
		if (!close(h->fd) && alive)
			fm_synced(&h->file->m);
		h->fd = -1;
		h->file->handles--;
		writer_put(h->file);
	}
	if (w->shared >= 0)
		close(w->shared);
	w->shared = -1;
}

void writer_done(struct writer *w)
{
	for (unsigned i = 0; i < WR_NAMES; i++) {
		if (w->name[i])
			w->name[i]->names = 0;
		writer_put(w->name[i]);
	}
	for (unsigned i = 0; i < WR_RECORDS; i++)
		fm_done(&w->record[i]);
}
