/* SPDX-License-Identifier: Apache-2.0 */
#include "cutmodel.h"

#include <stdlib.h>
#include <string.h>

#define FILE_SIZE_MAX 300000u

void cm_init(struct cm *c, uint64_t seed)
{
	*c = (struct cm){.seed = seed};
}

static void file_put(struct cm_file *f, void **ret_gone)
{
	if (!f || --f->names)
		return;
	if (ret_gone)
		*ret_gone = f->handle;
	fm_done(&f->m);
	free(f);
}

void cm_done(struct cm *c)
{
	for (unsigned i = 0; i < CM_SLOTS; i++) {
		file_put(c->slot[i], NULL);
		c->slot[i] = NULL;
	}
}

const char *cm_op_name(enum cm_op op)
{
	static const char *const name[] = {"base",   "sub",    "write", "cut",	    "punch",
					   "fsync",  "close",  "create", "rename",   "unlink",
					   "link",   "mkdir",  "rmdir",	 "fsyncdir", "sync",
					   "gc",     "end"};

	return name[op];
}

/* ---- choosing ---- */

static enum cm_op some_op(uint64_t *s)
{
	static const struct {
		enum cm_op op;
		unsigned weight;
	} w[] = {{CM_WRITE, 40}, {CM_CUT, 6},	{CM_PUNCH, 4},	 {CM_FSYNC, 9},	   {CM_CLOSE, 9},
		 {CM_CREATE, 9}, {CM_RENAME, 9}, {CM_UNLINK, 5}, {CM_LINK, 3},	   {CM_MKDIR, 3},
		 {CM_RMDIR, 2},	 {CM_FSYNCDIR, 2}, {CM_SYNC_ALL, 1}, {CM_GC, 1}};
	unsigned sum = 0, at;

	for (unsigned i = 0; i < sizeof(w) / sizeof(w[0]); i++)
		sum += w[i].weight;
	at = (unsigned)rnd_below(s, sum);
	for (unsigned i = 0;; i++) {
		if (at < w[i].weight)
			return w[i].op;
		at -= w[i].weight;
	}
}

static size_t some_length(uint64_t *s)
{
	switch (rnd_below(s, 10)) {
	case 0:
		return 1 + rnd_below(s, 150000);
	case 1:
	case 2:
		return 4096 * (1 + rnd_below(s, 12));
	case 3:
		return 1 + rnd_below(s, 30000);
	default:
		return 1 + rnd_below(s, 5000);
	}
}

/* Does it make sense? */
static bool possible(const struct cm *c, const struct cm_step *s)
{
	const struct cm_file *a = s->a < CM_SLOTS ? c->slot[s->a] : NULL;
	const struct cm_file *b = s->b < CM_SLOTS ? c->slot[s->b] : NULL;

	switch (s->op) {
	case CM_WRITE:
		return a && s->off + s->len <= FILE_SIZE_MAX;
	case CM_CUT:
	case CM_PUNCH:
	case CM_UNLINK:
		return a;
	case CM_FSYNC:
	case CM_CLOSE:
		return a && a->open;
	case CM_CREATE:
		return !a;
	case CM_RENAME:
		return a && a != b;
	case CM_LINK:
		return a && !b && s->a != s->b;
	case CM_MKDIR:
		return !c->dir[s->a % CM_DIRS];
	case CM_RMDIR:
		return c->dir[s->a % CM_DIRS];
	default:
		return true;
	}
}

static void place(const struct cm *c, struct cm_step *s, uint64_t *rng)
{
	const struct cm_file *a = c->slot[s->a];
	size_t size = a ? a->m.size : 0;

	s->len = some_length(rng);
	s->off = rnd_below(rng, 3) ? size : rnd_below(rng, size + 9000);
	if (s->op == CM_CUT)
		s->off = rnd_below(rng, 4) ? rnd_below(rng, size + 1) : rnd_below(rng, size + 60000);
	if (s->op == CM_CUT && s->off > FILE_SIZE_MAX)
		s->off = FILE_SIZE_MAX;
	if (s->op == CM_PUNCH)
		s->off = rnd_below(rng, size + 1);
}

struct cm_step cm_next(const struct cm *c)
{
	uint64_t rng = c->seed + c->n * UINT64_C(0x632be59bd9b4e019);
	struct cm_step s = {.op = !c->base ? CM_BASE : CM_SUB, .sync = false};

	while (c->base && c->sub) {
		s = (struct cm_step){.op = some_op(&rng)};
		s.a = (unsigned)rnd_below(&rng, CM_SLOTS);
		s.b = (unsigned)rnd_below(&rng, CM_SLOTS);
		s.osync = rnd_below(&rng, 16) == 0;
		s.seed = rnd(&rng) | 1;
		place(c, &s, &rng);
		if (possible(c, &s))
			break;
	}
	if (s.op == CM_WRITE)
		s.sync = c->slot[s.a]->open ? c->slot[s.a]->osync : s.osync;
	s.sync |= s.op == CM_FSYNC || s.op == CM_FSYNCDIR || s.op == CM_SYNC_ALL;
	return s;
}

struct cm_step cm_last(void)
{
	return (struct cm_step){.op = CM_END, .sync = true};
}

/* ---- doing ---- */

static void data_open(struct cm_file *f, const struct cm_step *s)
{
	if (!f->open)
		f->osync = s->osync;
	f->open = true;
}

void cm_data(struct cm *c, const struct cm_step *s)
{
	struct cm_file *f = s->a < CM_SLOTS ? c->slot[s->a] : NULL;

	if (!f || (s->op != CM_WRITE && s->op != CM_CUT && s->op != CM_PUNCH))
		return;
	data_open(f, s);
	if (s->op == CM_WRITE)
		fm_write(&f->m, s->seed, s->off, s->len);
	else if (s->op == CM_CUT)
		fm_cut(&f->m, s->off);
	else
		fm_punch(&f->m, s->off, s->len);
}

static void commit_all(struct cm *c, bool end)
{
	for (unsigned i = 0; i < CM_SLOTS; i++) {
		if (!c->slot[i])
			continue;
		fm_synced(&c->slot[i]->m);
		if (end)
			c->slot[i]->open = false;
	}
	c->ended = end;
}

static void commit_create(struct cm *c, const struct cm_step *s)
{
	struct cm_file *f = calloc(1, sizeof(*f));

	if (!f)
		abort();
	f->names = 1;
	f->open = true;
	f->osync = s->osync;
	f->id = ++c->nfiles;
	c->slot[s->a] = f;
}

static void commit_rename(struct cm *c, const struct cm_step *s, void **ret_gone)
{
	struct cm_file *f = c->slot[s->a];

	/* Its bytes come before its new name. */
	fm_synced(&f->m);
	file_put(c->slot[s->b], ret_gone);
	c->slot[s->b] = f;
	c->slot[s->a] = NULL;
}

void cm_commit(struct cm *c, const struct cm_step *s, void **ret_gone)
{
	struct cm_file *f = s->a < CM_SLOTS ? c->slot[s->a] : NULL;

	c->n++;
	switch (s->op) {
	case CM_BASE:
		c->base = true;
		break;
	case CM_SUB:
		c->sub = true;
		break;
	case CM_WRITE:
		if (s->sync)
			fm_synced(&f->m);
		break;
	case CM_FSYNC:
		fm_synced(&f->m);
		break;
	case CM_CLOSE:
		fm_synced(&f->m);
		f->open = false;
		break;
	case CM_CREATE:
		commit_create(c, s);
		break;
	case CM_RENAME:
		commit_rename(c, s, ret_gone);
		break;
	case CM_UNLINK:
		c->slot[s->a] = NULL;
		file_put(f, ret_gone);
		break;
	case CM_LINK:
		f->names++;
		c->slot[s->b] = f;
		break;
	case CM_MKDIR:
	case CM_RMDIR:
		c->dir[s->a % CM_DIRS] = s->op == CM_MKDIR;
		break;
	case CM_SYNC_ALL:
	case CM_END:
		commit_all(c, s->op == CM_END);
		break;
	default:
		break;
	}
}
