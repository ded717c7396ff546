/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a cut, and which of the unsynced changes survive it. */
#include "cut_int.h"
#include "fmodel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void cut_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

void *cut_alloc(size_t n)
{
	void *p = calloc(1, n ? n : 1);

	if (!p)
		cut_die("out of memory");
	return p;
}

const char *cut_strategy_name(enum cut_strategy s)
{
	static const char *const name[] = {"none",   "all",    "half",	  "torn",
					   "oldest", "newest", "all but one", "one"};

	return name[s];
}

static const char *text(const char *p, size_t n)
{
	char *s = cut_alloc(n + 1);

	memcpy(s, p, n);
	return s;
}

/* A record that was being written when the program ended is no record. */
static bool load_one(const struct cut_log *l, size_t *at, struct cut_event *ret)
{
	const struct cut_rec *r;
	const char *p = l->map + *at;
	size_t all;

	if (*at + sizeof(*r) > l->bytes)
		return false;
	/* Headers lie at any address. */
	r = memcpy(cut_alloc(sizeof(*r)), p, sizeof(*r));
	if (r->magic != CUT_MAGIC)
		cut_die("the log is damaged at byte %zu", *at);
	all = sizeof(*r) + r->path + r->path2 + r->data;
	if (*at + all > l->bytes)
		return false;
	*ret = (struct cut_event){.r = r, .data = p + sizeof(*r) + r->path + r->path2};
	ret->path = text(p + sizeof(*r), r->path);
	ret->path2 = text(p + sizeof(*r) + r->path, r->path2);
	*at += all;
	return true;
}

void cut_load(struct cut_log *l, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t at = 0, cap = 0;
	struct stat st;

	*l = (struct cut_log){0};
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0)
		cut_die("%s: no log", path);
	l->bytes = (size_t)st.st_size;
	l->map = mmap(NULL, l->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (l->map == MAP_FAILED)
		cut_die("%s: %s", path, strerror(errno));
	close(fd);
	for (;;) {
		if (l->n == cap) {
			cap = cap ? cap * 2 : 1024;
			l->e = realloc(l->e, cap * sizeof(*l->e));
			if (!l->e)
				cut_die("out of memory");
		}
		if (!load_one(l, &at, &l->e[l->n]))
			break;
		if (!l->ready && l->e[l->n].r->type == CUT_MARK)
			l->ready = l->n;
		l->n++;
	}
	if (l->n < 10)
		cut_die("%s: only %zu records", path, l->n);
}

void cut_choose(const struct cut_log *l, uint64_t seed, uint64_t n, struct cut_choice *ret)
{
	uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15) + n;

	(void)rnd(&s);
	ret->data = n % CUT_NSTRATEGIES;
	ret->names = rnd_below(&s, 3) ? rnd_below(&s, CUT_NSTRATEGIES) : ret->data;
	ret->at = l->ready + 1 + rnd_below(&s, l->n - l->ready);
	if (rnd_below(&s, 20) == 0)
		ret->at = 1 + rnd_below(&s, l->ready + 1);
	/* Right before a checkpoint is complete there is the most that nothing holds yet. */
	if (rnd_below(&s, 3) == 0)
		while (ret->at < l->n && !(l->e[ret->at].r->flags & CUT_DURABLE))
			ret->at++;
	if (ret->at > l->n)
		ret->at = l->n;
	ret->strict = rnd_below(&s, 4) == 0;
	ret->sizes = rnd_below(&s, 3) == 0;
	ret->in_flight = rnd_below(&s, 2);
	ret->seed = rnd(&s);
}

/* ---- what was synced ---- */

static bool is_data(const struct cut_event *e)
{
	return e->r->type == CUT_WRITE || e->r->type == CUT_SIZE || e->r->type == CUT_ZERO;
}

bool cut_is_name(const struct cut_event *e)
{
	return e->r->type >= CUT_CREATE && e->r->type <= CUT_RMDIR;
}

static bool in_dir(const char *path, const char *dir)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	return *path && strlen(dir) == n && !strncmp(path, dir, n);
}

static bool shares_name(const struct cut_event *a, const struct cut_event *b)
{
	return !strcmp(a->path, b->path) || (*b->path2 && !strcmp(a->path, b->path2)) ||
	       (*a->path2 && (!strcmp(a->path2, b->path) || !strcmp(a->path2, b->path2)));
}

/* Must `a`, the earlier one, have happened if `b` has? */
static bool name_needs(const struct cut_event *b, const struct cut_event *a)
{
	if (!cut_is_name(a))
		return false;
	if (shares_name(a, b))
		return true;
	return a->r->type == CUT_MKDIR &&
	       (in_dir(b->path, a->path) || (*b->path2 && in_dir(b->path2, a->path)));
}

static void name_durable(struct cut_log *l, size_t i)
{
	if (l->e[i].durable)
		return;
	l->e[i].durable = true;
	for (size_t j = i; j-- > 0;)
		if (!l->e[j].durable && name_needs(&l->e[i], &l->e[j]))
			name_durable(l, j);
}

/* Everything before `before` that a sync of `ino` covers; 0: all. */
static void sync_covers(struct cut_log *l, size_t before, uint64_t ino, bool strict)
{
	const char *dir = NULL;

	for (size_t i = 0; i < before; i++)
		if (l->e[i].r->type == CUT_MKDIR && l->e[i].r->ino == ino)
			dir = l->e[i].path;
	for (size_t i = before; i-- > 0;) {
		struct cut_event *e = &l->e[i];

		if (e->durable)
			continue;
		if (is_data(e) && (!ino || e->r->ino == ino))
			e->durable = true;
		else if (cut_is_name(e) &&
			 (!ino || (e->r->ino == ino && !strict) ||
			  (dir && (in_dir(e->path, dir) || (*e->path2 && in_dir(e->path2, dir))))))
			name_durable(l, i);
	}
}

static void mark_durable(struct cut_log *l, const struct cut_choice *c)
{
	for (size_t i = 0; i < c->at; i++) {
		const struct cut_rec *r = l->e[i].r;
		size_t b = i;

		l->e[i].durable = !i || ((r->flags & CUT_DURABLE) && !(c->in_flight && i + 1 == c->at));
		l->e[i].kept = l->e[i].torn = false;
		if (r->type != CUT_SYNCED)
			continue;
		while (b > 0 && (l->e[b].r->type != CUT_SYNC || l->e[b].r->len != r->len))
			b--;
		sync_covers(l, b, r->ino, c->strict);
	}
}

/* ---- what of the rest survives ---- */

static bool choose_one(enum cut_strategy s, size_t k, size_t pivot, uint64_t *rng)
{
	switch (s) {
	case CUT_NONE:
		return false;
	case CUT_ALL:
	case CUT_TORN:
		return true;
	case CUT_HALF:
		return rnd(rng) & 1;
	case CUT_OLDEST:
		return k < pivot;
	case CUT_NEWEST:
		return k >= pivot;
	case CUT_BUT_ONE:
		return k != pivot;
	default:
		return k == pivot;
	}
}

static bool names_possible(const struct cut_log *l, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (!l->e[j].kept && name_needs(&l->e[i], &l->e[j]))
			return false;
	return true;
}

void cut_decide(struct cut_log *l, const struct cut_choice *c)
{
	uint64_t rng = c->seed;
	size_t ndata = 0, nnames = 0, kd = 0, kn = 0, pd, pn;

	mark_durable(l, c);
	for (size_t i = 0; i < c->at; i++) {
		ndata += !l->e[i].durable && is_data(&l->e[i]);
		nnames += !l->e[i].durable && cut_is_name(&l->e[i]);
	}
	pd = rnd_below(&rng, ndata + 1);
	pn = rnd_below(&rng, nnames + 1);
	for (size_t i = 0; i < c->at; i++) {
		struct cut_event *e = &l->e[i];

		e->kept = e->durable;
		if (e->durable)
			continue;
		if (is_data(e)) {
			e->kept = choose_one(c->data, kd++, pd, &rng);
			e->torn = e->kept && c->data == CUT_TORN && e->r->type == CUT_WRITE;
		} else if (cut_is_name(e)) {
			/* A torn name does not exist: whether it is there is even. */
			e->kept = choose_one(c->names == CUT_TORN ? CUT_HALF : c->names, kn++, pn, &rng) &&
				  names_possible(l, i);
		}
	}
}

void cut_marks(const struct cut_log *l, const struct cut_choice *c, const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		cut_die("%s: %s", path, strerror(errno));
	for (size_t i = 0; i < c->at; i++)
		if (l->e[i].r->type == CUT_MARK)
			fprintf(f, "%.*s\n", (int)l->e[i].r->data, (const char *)l->e[i].data);
	if (fclose(f))
		cut_die("%s: %s", path, strerror(errno));
}
