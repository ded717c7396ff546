/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an object back to files. There is no reverse index: the segment's record names its owner,
 * whose extents are looked at first. When they do not account for all of its live bytes (a clone
 * shares it, or it packs many files) the whole tree is searched, until they do.
 */
#include "admin/admin.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "oclass/oclass.h"
#include "oclass/place.h"
#include "store/store.h"
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

struct whose {
	struct admin *a;
	const struct admin_whose *q;
	struct meta_segment seg;
	struct oclass_geo geo;
	bool     staged;
	unsigned shard;
	uint64_t left;		/* live bytes not yet found */
	uint64_t skip;		/* inode searched already */
	struct meta_map *map;	/* owned */
	uint64_t *dirs;		/* owned: still to be searched */
	size_t   ndirs, cap;
	int      err;
};

/* Reports the parts of one extent that lie in our shard. */
static int whose_extent(struct whose *w, const char *path, uint64_t ino,
			const struct tess_extent *e)
{
	struct tess_range r = { e->seg_off, e->len };
	struct tess_owner o = { .ino = ino, .path = path };
	struct oclass_piece p;
	uint64_t it = 0;
	int err = 0;

	while (!err && oclass_next(&w->geo, r, &it, &p)) {
		if (p.shard != w->shard)
			continue;
		o.offset = e->off + (p.seg_off - e->seg_off);
		o.length = p.len;
		o.object_offset = p.shard_off;
		err = w->q->fn(w->q->arg, &o);
	}
	w->left -= MIN(w->left, e->len);
	return err;
}

static int whose_inode(struct whose *w, uint64_t ino)
{
	char path[PATH_MAX] = "";
	struct meta_attr attr;
	uint64_t at = 0;
	int err = meta_getattr(w->a->meta, ino, &attr);

	if (err == -TESS_E_STALE || (!err && !S_ISREG(attr.mode)))
		return 0;
	while (!err && at < attr.size) {
		err = meta_map(w->a->meta, ino, (struct tess_range){ at, attr.size - at }, w->map);
		for (unsigned i = 0; !err && i < w->map->npieces; i++) {
			if (w->map->pieces[i].ext.seg != w->seg.id)
				continue;
			if (!*path && meta_path(w->a->meta, ino, path, sizeof(path)) < 0)
				snprintf(path, sizeof(path), "(unlinked)");
			err = whose_extent(w, path, ino, &w->map->pieces[i].ext);
		}
		if (!err && w->map->end <= at)
			break;
		at = w->map->end;
	}
	return err;
}

static int whose_push(struct whose *w, uint64_t dir)
{
	if (w->ndirs == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 64;
		uint64_t *p = mem_resize(w->dirs, cap, sizeof(*p));

		if (!p)
			return -ENOMEM;
		w->dirs = p;
		w->cap = cap;
	}
	w->dirs[w->ndirs++] = dir;
	return 0;
}

/* Files found in one page of a directory: the transaction is over before they are looked at. */
#define WHOSE_BATCH 256
struct whose_page {
	struct whose *w;
	uint64_t inos[WHOSE_BATCH];
	unsigned n;
	uint64_t cookie;
	bool     full;
};

static int whose_entry(void *arg, const struct meta_dirent *e)
{
	struct whose_page *p = arg;

	if (p->n == WHOSE_BATCH) {
		p->full = true;
		return 1;
	}
	p->cookie = e->cookie;
	if (e->cookie <= 2)	/* "." and ".." */
		return 0;
	if (S_ISDIR(e->type)) {
		p->w->err = whose_push(p->w, e->ino);
		return p->w->err;
	}
	if (S_ISREG(e->type) && e->ino != p->w->skip)
		p->inos[p->n++] = e->ino;
	return 0;
}

static int whose_dir(struct whose *w, uint64_t dir)
{
	struct whose_page p = { .w = w };
	int err;

	do {
		p.n = 0;
		p.full = false;
		err = meta_readdir(w->a->meta, dir, p.cookie, false, whose_entry, &p);
		if (err == -TESS_E_STALE || err == -ENOENT)
			return 0;
		if (err >= 0)
			err = w->err;
		for (unsigned i = 0; !err && i < p.n && w->left; i++)
			err = whose_inode(w, p.inos[i]);
	} while (!err && p.full && w->left);
	return err;
}

static int whose_tree(struct whose *w)
{
	int err = whose_push(w, TESS_ROOT_INO);

	while (!err && w->ndirs && w->left)
		err = whose_dir(w, w->dirs[--w->ndirs]);
	return err;
}

static int whose_begin(struct whose *w, struct text *why)
{
	const struct admin_whose *q = w->q;
	tess_segid id;
	int err = place_parse(q->object, &id, &w->shard);

	if (err) {
		text_fmt(why, "%s: not an object name: 16 hex digits of the segment, '.', 2 of the shard",
			 q->object);
		return err;
	}
	err = meta_segment_get(w->a->meta, id, &w->seg);
	if (err == -ENOENT) {
		text_fmt(why, "%u:%s: no file has it: garbage, or never one of ours", q->target,
			 q->object);
		return err;
	}
	if (err)
		return err;
	if (w->seg.state == META_STAGED) {
		text_fmt(why, "%u:%s: still in the staging area, on no target", q->target, q->object);
		return -ENOENT;
	}
	err = admin_geo(&w->seg, &w->geo);
	if (err)
		return err;
	if (w->shard >= w->geo.width || !oclass_shard_len(&w->geo, w->shard) ||
	    w->seg.target[w->shard] != q->target) {
		text_fmt(why, "%u:%s: its segment has no such object on this target", q->target,
			 q->object);
		return -ENOENT;
	}
	w->left = w->seg.live;
	return 0;
}

int admin_whose(struct admin *a, const struct admin_whose *q, struct text *why)
{
	struct whose w = { .a = a, .q = q };
	int err = whose_begin(&w, why);

	if (err)
		return err;
	w.map = mem_zalloc(sizeof(*w.map));
	err = w.map ? 0 : -ENOMEM;
	if (!err && w.seg.owner != TESS_PACKED_INO && w.seg.owner) {
		err = whose_inode(&w, w.seg.owner);
		w.skip = w.seg.owner;
	}
	if (!err && w.left)
		err = whose_tree(&w);
	free(w.map);
	free(w.dirs);
	if (err < 0)
		text_fmt(why, "%s: %s", q->object, err_text(err));
	return err;
}
