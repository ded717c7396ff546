/* SPDX-License-Identifier: Apache-2.0 */
/* Making the directory that a choice describes. */
#include "cut_int.h"
#include "fmodel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTOR 512u
#define PAGE   4096u
#define FILES  (1u << 12) /* buckets */

/* Bytes with holes: pages are made when they are written. */
struct image {
	uint8_t **page;
	size_t npages;
	uint64_t size;
};
struct file {
	struct file *next;
	uint64_t ino;
	struct image now, disk;
	bool mapped;
	bool behind; /* a lost cut: later changes did not overtake it */
};
struct name {
	struct name *next;
	const char *path;
	struct file *file;
	enum cut_type type;
	const struct cut_event *link; /* of a symbolic one */
};
struct build {
	struct file *file[FILES];
	struct name *names;
	uint64_t rng;
	const char *dir;
};

static uint8_t *page_at(struct image *m, uint64_t off)
{
	size_t i = off / PAGE;

	if (i >= m->npages) {
		size_t n = i + 64 + m->npages;

		m->page = realloc(m->page, n * sizeof(*m->page));
		if (!m->page)
			cut_die("out of memory");
		memset(m->page + m->npages, 0, (n - m->npages) * sizeof(*m->page));
		m->npages = n;
	}
	if (!m->page[i])
		m->page[i] = cut_alloc(PAGE);
	return m->page[i] + off % PAGE;
}

static void image_write(struct image *m, uint64_t off, const uint8_t *p, uint64_t n)
{
	if (off + n > m->size)
		m->size = off + n;
	while (n > 0) {
		uint64_t k = PAGE - off % PAGE < n ? PAGE - off % PAGE : n;

		memcpy(page_at(m, off), p, k);
		p += k;
		off += k;
		n -= k;
	}
}

static void image_zero(struct image *m, uint64_t off, uint64_t end)
{
	while (off < end) {
		uint64_t k = PAGE - off % PAGE < end - off ? PAGE - off % PAGE : end - off;

		if (off / PAGE < m->npages && m->page[off / PAGE])
			memset(m->page[off / PAGE] + off % PAGE, 0, k);
		off += k;
	}
}

static void image_size(struct image *m, uint64_t size)
{
	if (size < m->size)
		image_zero(m, size, m->size);
	m->size = size;
}

static void image_free(struct image *m)
{
	for (size_t i = 0; i < m->npages; i++)
		free(m->page[i]);
	free(m->page);
}

static struct file *file_of(struct build *b, uint64_t ino)
{
	struct file *f;

	for (f = b->file[ino % FILES]; f; f = f->next)
		if (f->ino == ino)
			return f;
	return NULL;
}

/* Its number may have been another file's before. */
static void file_new(struct build *b, uint64_t ino)
{
	struct file *f = file_of(b, ino);

	if (f)
		f->ino = UINT64_MAX;
	f = cut_alloc(sizeof(*f));
	f->ino = ino;
	f->next = b->file[ino % FILES];
	b->file[ino % FILES] = f;
}

/* ---- bytes ---- */

/* The sectors of [off, end) come to the disk as they are now. */
static void sectors_reach(struct build *b, struct file *f, const struct cut_event *e, uint64_t off,
			  uint64_t end)
{
	for (uint64_t at = off / SECTOR * SECTOR; at < end; at += SECTOR) {
		uint64_t to = at + SECTOR;

		if (e->torn && rnd(&b->rng) & 1)
			continue;
		memcpy(page_at(&f->disk, at), page_at(&f->now, at), SECTOR);
		if (to > f->now.size)
			to = f->now.size;
		if (to > f->disk.size)
			f->disk.size = to;
	}
}

static void apply_data(struct build *b, const struct cut_event *e)
{
	const struct cut_rec *r = e->r;
	struct file *f = file_of(b, r->ino);
	uint64_t end = r->off + r->len;
	bool reach = e->kept;

	if (!f)
		cut_die("the log changes file %llu, which it never made", (unsigned long long)r->ino);
	if (r->type == CUT_SIZE)
		end = r->len;
	if (!e->durable && f->behind)
		reach = false;
	if (r->type == CUT_SIZE && r->len < f->now.size && !reach)
		f->behind = true;
	if (e->durable)
		f->behind = false;
	if (r->type == CUT_WRITE)
		image_write(&f->now, r->off, e->data, r->len);
	else if (r->type == CUT_ZERO)
		image_zero(&f->now, r->off, end);
	else
		image_size(&f->now, end);
	if (!reach)
		return;
	if (r->type == CUT_SIZE)
		image_size(&f->disk, end);
	else
		sectors_reach(b, f, e, r->off, end < f->now.size ? end : f->now.size);
}

/* ---- names ---- */

static struct name **name_find(struct build *b, const char *path)
{
	struct name **p;

	for (p = &b->names; *p && strcmp((*p)->path, path); p = &(*p)->next)
		;
	return p;
}

static void name_drop(struct build *b, const char *path)
{
	struct name **p = name_find(b, path), *n = *p;

	if (!n)
		return;
	*p = n->next;
	free(n);
}

static void name_add(struct build *b, const char *path, struct name n)
{
	struct name *p = cut_alloc(sizeof(*p));

	name_drop(b, path);
	*p = n;
	p->path = path;
	p->next = b->names;
	b->names = p;
}

static void apply_name(struct build *b, const struct cut_event *e)
{
	struct name n = {.type = e->r->type, .link = e}, **from;

	switch (e->r->type) {
	case CUT_CREATE:
	case CUT_LINK:
		n.type = CUT_CREATE;
		n.file = file_of(b, e->r->ino);
		name_add(b, e->path, n);
		break;
	case CUT_MKDIR:
	case CUT_SYMLINK:
		name_add(b, e->path, n);
		break;
	case CUT_RENAME:
		from = name_find(b, e->path);
		if (!*from || (*from)->type == CUT_MKDIR)
			cut_die("%s is renamed: it is not there, or a directory", e->path);
		name_add(b, e->path2, **from);
		name_drop(b, e->path);
		break;
	default:
		name_drop(b, e->path);
	}
}

/* ---- the directory ---- */

static void write_file(struct build *b, struct file *f, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint8_t junk[PAGE];

	if (fd < 0 || ftruncate(fd, (off_t)f->disk.size) < 0)
		cut_die("%s: %s", path, strerror(errno));
	for (uint64_t i = 0; i * PAGE < f->disk.size; i++) {
		const uint8_t *p = i < f->disk.npages ? f->disk.page[i] : NULL;
		uint64_t n = f->disk.size - i * PAGE < PAGE ? f->disk.size - i * PAGE : PAGE;

		if (f->mapped) {
			fm_fill(junk, rnd(&b->rng), 0, PAGE);
			p = junk;
		}
		if (p && pwrite(fd, p, n, (off_t)(i * PAGE)) != (ssize_t)n)
			cut_die("%s: %s", path, strerror(errno));
	}
	close(fd);
}

static void make_names(struct build *b, const char *under)
{
	char path[4096];

	for (struct name *n = b->names; n; n = n->next) {
		const char *slash = strrchr(n->path, '/');
		size_t len = slash ? (size_t)(slash - n->path) : 0;

		if (!*n->path || strlen(under) != len || strncmp(under, n->path, len))
			continue;
		snprintf(path, sizeof(path), "%s/%s", b->dir, n->path);
		if (n->type == CUT_MKDIR) {
			if (mkdir(path, 0700) < 0)
				cut_die("%s: %s", path, strerror(errno));
			make_names(b, n->path);
		} else if (n->type == CUT_SYMLINK) {
			char to[4096];

			snprintf(to, sizeof(to), "%.*s", (int)n->link->r->data, (const char *)n->link->data);
			if (symlink(to, path) < 0)
				cut_die("%s: %s", path, strerror(errno));
		} else {
			write_file(b, n->file, path);
		}
	}
}

static void settle_sizes(struct build *b)
{
	for (unsigned i = 0; i < FILES; i++)
		for (struct file *f = b->file[i]; f; f = f->next)
			if (!f->behind && f->now.size > f->disk.size)
				image_size(&f->disk,
					   f->disk.size +
						   rnd_below(&b->rng, f->now.size - f->disk.size + 1));
}

static void build_free(struct build *b)
{
	for (unsigned i = 0; i < FILES; i++)
		while (b->file[i]) {
			struct file *f = b->file[i];

			b->file[i] = f->next;
			image_free(&f->now);
			image_free(&f->disk);
			free(f);
		}
	while (b->names)
		name_drop(b, b->names->path);
}

void cut_build(struct cut_log *l, const struct cut_choice *c, const char *dir)
{
	struct build *b = cut_alloc(sizeof(*b));

	b->rng = c->seed ^ UINT64_C(0x5bd1e995);
	b->dir = dir;
	cut_decide(l, c);
	for (size_t i = 0; i < c->at; i++) {
		const struct cut_event *e = &l->e[i];

		if (e->r->type == CUT_CREATE)
			file_new(b, e->r->ino);
		if (e->r->type == CUT_WRITE || e->r->type == CUT_SIZE || e->r->type == CUT_ZERO)
			apply_data(b, e);
		else if (cut_is_name(e) && e->kept)
			apply_name(b, e);
		else if (e->r->type == CUT_MAPPED && file_of(b, e->r->ino))
			file_of(b, e->r->ino)->mapped = true;
	}
	if (c->sizes)
		settle_sizes(b);
	make_names(b, "");
	build_free(b);
	free(b);
}
