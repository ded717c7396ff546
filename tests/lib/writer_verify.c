/* SPDX-License-Identifier: Apache-2.0 */
#include "writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool there(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

static void drop_name(struct writer *w, unsigned name)
{
	struct wr_file *f = w->name[name];

	w->name[name] = NULL;
	if (f)
		f->names--;
	writer_put(f);
}

static void settle_rename(struct writer *w, const char *from)
{
	struct wr_file *f = w->file;

	if (there(from))
		return;
	drop_name(w, w->to);
	w->name[w->to] = f;
	w->name[w->from] = NULL;
	fm_synced(&f->m);
}

/* The operation that did not return: look whether it happened. */
static void settle_flight(struct writer *w)
{
	char path[600];

	switch (w->flight) {
	case WR_NONE:
		break;
	case WR_CREATE:
		writer_path(w, w->to, path, sizeof(path));
		if (there(path)) {
			w->name[w->to] = w->file;
			w->file->names = 1;
		} else {
			writer_put(w->file);
		}
		break;
	case WR_UNLINK:
		writer_path(w, w->from, path, sizeof(path));
		if (!there(path))
			drop_name(w, w->from);
		break;
	case WR_RENAME:
		writer_path(w, w->from, path, sizeof(path));
		settle_rename(w, path);
		break;
	case WR_MKDIR:
	case WR_RMDIR:
		writer_dir_path(w, w->to, path, sizeof(path));
		w->has_dir[w->to] = there(path);
		break;
	}
	w->flight = WR_NONE;
	w->file = NULL;
}

/* Reads `path` whole. NULL with errno; *ret_size is also what stat says. */
static uint8_t *slurp(const char *path, size_t *ret_size)
{
	int fd = open(path, O_RDONLY), e;
	uint8_t *buf = NULL;
	struct stat st;
	size_t done = 0;
	ssize_t n = -1;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && (buf = malloc((size_t)st.st_size + 4096)))
		while ((n = read(fd, buf + done, (size_t)st.st_size + 4096 - done)) > 0)
			done += (size_t)n;
	e = errno;
	close(fd);
	if (n == 0 && done == (size_t)st.st_size) {
		*ret_size = done;
		return buf;
	}
	free(buf);
	errno = n == 0 ? EMSGSIZE : e;
	return NULL;
}

static int verify_file(struct writer *w, unsigned name)
{
	struct wr_file *f = w->name[name];
	const char *why;
	char path[600];
	uint8_t *p;
	size_t n;

	writer_path(w, name, path, sizeof(path));
	p = slurp(path, &n);
	if (!p)
		return writer_fail(w, f->id, "%s: %s", path, strerror(errno));
	why = fm_check(&f->m, p, n);
	if (!why)
		fm_settle(&f->m, p, n);
	free(p);
	writer_note(w, f->id, "verified: size", n, 0);
	return why ? writer_fail(w, f->id, "%s: %s", path, why) : 0;
}

static int verify_shared(struct writer *w)
{
	static __thread uint8_t buf[WR_RECORD_SIZE];
	const char *why = NULL;
	char path[600];
	int fd;

	writer_shared_path(w, path, sizeof(path));
	fd = open(path, O_RDONLY);
	for (unsigned r = 0; r < WR_RECORDS && !why; r++) {
		off_t at = (off_t)(r * w->nwriters + w->id) * WR_RECORD_SIZE;

		memset(buf, 0, sizeof(buf));
		if (fd >= 0 && pread(fd, buf, sizeof(buf), at) < 0)
			why = strerror(errno);
		else
			why = fm_check(&w->record[r], buf, sizeof(buf));
		if (why)
			writer_note(w, 0, "at shared record", r, (uint64_t)at);
		else
			fm_settle(&w->record[r], buf, sizeof(buf));
	}
	if (fd >= 0)
		close(fd);
	return why ? writer_fail(w, 0, "shared file: %s", why) : 0;
}

/* Nothing is there that nobody made, and nothing twice. */
static int verify_dir(struct writer *w, unsigned d, unsigned *seen)
{
	char path[600];
	struct dirent *e;
	DIR *dir;

	if (d == WR_DIRS)
		snprintf(path, sizeof(path), "%s", w->dir);
	else
		snprintf(path, sizeof(path), "%s/d%u", w->dir, d);
	dir = opendir(path);
	if (!dir)
		return writer_fail(w, 0, "%s: %s", path, strerror(errno));
	while ((e = readdir(dir))) {
		char *end;
		unsigned long n = strtoul(e->d_name + 1, &end, 10);

		if (e->d_name[0] == '.' || (d == WR_DIRS && e->d_name[0] == 'd'))
			continue;
		if (d == WR_DIRS && e->d_name[0] == 'e') {
			if (n >= WR_DIRS || !w->has_dir[n])
				break;
		} else if (*end || n >= WR_NAMES || !w->name[n] || seen[n]++) {
			break;
		}
	}
	if (e)
		writer_fail(w, 0, "%s/%s: nobody made this, or it comes twice", path, e->d_name);
	closedir(dir);
	return e ? -1 : 0;
}

int writer_verify(struct writer *w)
{
	unsigned seen[WR_NAMES] = {0};
	char path[600];

	if (!w->ready)
		return 0;
	settle_flight(w);
	for (unsigned d = 0; d <= WR_DIRS; d++)
		if (verify_dir(w, d, seen))
			return -1;
	for (unsigned d = 0; d < WR_DIRS; d++) {
		writer_dir_path(w, d, path, sizeof(path));
		if (w->has_dir[d] && !there(path))
			return writer_fail(w, 0, "%s is lost", path);
	}
	for (unsigned i = 0; i < WR_NAMES; i++) {
		if (!w->name[i])
			continue;
		if (!seen[i])
			return writer_fail(w, w->name[i]->id, "name %u is lost", i);
		if (verify_file(w, i))
			return -1;
	}
	return verify_shared(w);
}
