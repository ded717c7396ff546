/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker's frame. What can be seen in one snapshot (a file and its extents, a name and its
 * inode) is judged in one; what takes the whole file system (link counts, live bytes) is counted
 * over many, and while others write it is counted again for those that did not agree: one that
 * changed meanwhile is let go, one that did not and still disagrees is a finding.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/htab.h"
#include "base/scoped.h"
#include "meta/check_impl.h"
#include <stdarg.h>
#include <stdio.h>

#define PAIRS_PER_TXN 512u

/* ---- counting ---- */

struct count *counts_find(const struct counts *c, uint64_t key)
{
	if (!c->n)
		return NULL;
	for (uint64_t i = hash64(key);; i++) {
		struct count *s = &c->slot[i & (c->cap - 1)];

		if (s->key == key)
			return s;
		if (!s->key)
			return NULL;
	}
}

static void counts_insert(struct counts *c, const struct count *x)
{
	for (uint64_t i = hash64(x->key);; i++) {
		struct count *s = &c->slot[i & (c->cap - 1)];

		if (s->key)
			continue;
		*s = *x;
		c->n++;
		return;
	}
}

int counts_add(struct counts *c, uint64_t key, int64_t n)
{
	struct count *s = counts_find(c, key);

	if (s)
		s->n += n;
	if (s || c->closed)
		return 0;
	if (c->n * 2 >= c->cap) {
		struct counts more = {.cap = c->cap ? c->cap * 2 : 1024};

		more.slot = mem_array(more.cap, sizeof(*more.slot));
		if (!more.slot)
			return -ENOMEM;
		for (size_t i = 0; i < c->cap; i++)
			if (c->slot[i].key)
				counts_insert(&more, &c->slot[i]);
		free(c->slot);
		*c = more;
	}
	counts_insert(c, &(struct count){key, n, 0});
	return 0;
}

void counts_done(struct counts *c)
{
	free(c->slot);
	memset(c, 0, sizeof(*c));
}

/* ---- findings ---- */

struct check_fix check_found(const char *what, uint64_t ino, tess_segid seg,
			     int (*fn)(struct kv_txn *, struct check *, const struct check_fix *),
			     const char *fmt, ...)
{
	struct check_fix f = {.fn = fn, .found = {.what = what, .ino = ino, .seg = seg}};
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f.found.text, sizeof(f.found.text), fmt, ap);
	va_end(ap);
	return f;
}

void check_key(struct check_fix *f, enum kv_db db, struct kv_val key)
{
	f->db = db;
	f->key.n = MIN(key.n, sizeof(f->key.b));
	memcpy(f->key.b, key.p, f->key.n);
}

static void check_tell(struct check *k, const struct meta_finding *f)
{
	k->c->findings++;
	k->c->repaired += f->repaired;
	if (k->c->fn)
		k->c->fn(k->c->arg, f);
}

int check_report(struct check *k, const struct check_fix *f)
{
	if (!f->fn || !k->c->repair) {
		check_tell(k, &f->found);
		return 0;
	}
	if (k->nfix == k->cap_fix) {
		unsigned cap = k->cap_fix ? k->cap_fix * 2 : 16;
		struct check_fix *more = mem_resize(k->fix, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		k->fix = more;
		k->cap_fix = cap;
	}
	k->fix[k->nfix++] = *f;
	return 0;
}

struct fix_op {
	struct check *k;
	struct check_fix *f;
};

static int check_fix_run(struct kv_txn *t, void *arg)
{
	struct fix_op *o = arg;

	return o->f->fn(t, o->k, o->f);
}

/* A repair that finds the trouble gone (-EAGAIN) reports nothing. */
static void check_fix_all(struct check *k)
{
	for (unsigned i = 0; i < k->nfix; i++) {
		struct fix_op o = {k, &k->fix[i]};
		int err = meta_run(k->m, check_fix_run, &o);

		k->fix[i].found.repaired = !err;
		if (err != -EAGAIN)
			check_tell(k, &k->fix[i].found);
	}
	k->nfix = 0;
}

int check_fix_del(struct kv_txn *t, struct check *k, const struct check_fix *f)
{
	int err = kv_del(t, f->db, kv_val(f->key.b, f->key.n));

	(void)k;
	return err == -ENOENT ? -EAGAIN : err;
}

/* ---- walking ---- */

struct walk {
	struct check *k;
	enum kv_db db;
	int (*fn)(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v);
	struct fmt_key at; /* the last key done */
	bool more;
};

static int walk_some(struct kv_txn *t, void *arg)
{
	struct walk *w = arg;
	struct kv_val v, key = kv_val(w->at.b, w->at.n);
	int err = kv_seek(t, w->db, 1, &key, &v);

	if (!err && key.n == w->at.n && memcmp(key.p, w->at.b, key.n) == 0)
		err = kv_step(t, w->db, 1, &key, &v);
	for (unsigned i = 0; !err; i++) {
		if (key.n > sizeof(w->at.b))
			return -TESS_E_RECORD;
		/* fn uses cursors of its own, and may move this database's: it is set again below.
		 */
		w->at.n = key.n;
		memcpy(w->at.b, key.p, key.n);
		err = w->fn(w->k, t, key, v);
		if (err || i == PAIRS_PER_TXN)
			return err;
		key = kv_val(w->at.b, w->at.n);
		err = kv_seek(t, w->db, 1, &key, &v);
		if (!err)
			err = kv_step(t, w->db, 1, &key, &v);
	}
	w->more = err != -ENOENT;
	return absent_ok(err);
}

int check_walk(struct check *k, enum kv_db db,
	       int (*fn)(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v))
{
	struct walk w = {.k = k, .db = db, .fn = fn, .at = {.n = 1}, .more = true};
	int err = 0;

	while (w.more && !err) {
		err = kv_read(k->m->kv, walk_some, &w);
		check_fix_all(k);
	}
	return err;
}

int meta_check(struct meta *m, struct meta_check *c)
{
	struct check k = {.m = m, .c = c};
	int err;

	c->inodes = c->extents = c->segments = c->findings = c->repaired = 0;
	err = check_tree(&k);
	if (!err)
		err = check_data(&k);
	if (!err)
		err = check_sessions(&k);
	if (!err)
		err = check_locks(&k);
	check_fix_all(&k);
	counts_done(&k.links);
	counts_done(&k.live);
	counts_done(&k.again);
	free(k.fix);
	return err;
}
