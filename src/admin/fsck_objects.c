/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/admin.h"

#include "base/crc.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/range.h"
#include "base/scoped.h"
#include "oclass/oclass.h"
#include "oclass/place.h"
#include "store/store.h"
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define CHECK_CHUNK (UINT64_C(1) << 20)	/* read at a time; a multiple of TESS_BLOCK */
#define CHECK_BATCH 16u

struct check_object {
	struct admin_check *c;
	struct meta_segment seg;
	struct oclass_geo   geo;
	char               *chunk;	/* owned: CHECK_CHUNK bytes, when verifying */
	uint32_t           *csums;	/* owned */
};

/* A segment that died or moved since we read its record is no finding: its objects may go at any time. */
static bool check_still(struct check_object *o)
{
	struct meta_segment now;

	return !meta_segment_get(o->c->a->meta, o->seg.id, &now) && now.state == o->seg.state &&
	       now.width == o->seg.width &&
	       !memcmp(now.target, o->seg.target, now.width * sizeof(now.target[0]));
}

static void check_found(struct check_object *o, const char *what, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void check_found(struct check_object *o, const char *what, const char *fmt, ...)
{
	struct meta_finding m = { .what = what, .seg = o->seg.id };
	char path[128] = "several files";
	va_list ap;
	int n;

	if (!check_still(o))
		return;
	if (o->seg.owner != TESS_PACKED_INO) {
		m.ino = o->seg.owner;
		if (meta_path(o->c->a->meta, m.ino, path, sizeof(path)) < 0)
			snprintf(path, sizeof(path), "inode %" PRIu64, m.ino);
	}
	va_start(ap, fmt);
	n = vsnprintf(m.text, sizeof(m.text), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(m.text))
		snprintf(m.text + n, sizeof(m.text) - (size_t)n, "; segment %016" PRIx64 " of %s",
			 o->seg.id, path);
	admin_finding(o->c, &m);
}

static void check_staged(struct check_object *o)
{
	uint64_t size = 0;
	int err = admin_staged_size(o->c->a, o->seg.id, &size);

	if (err == -ENOENT)
		check_found(o, "staged", "its staging file is missing");
	else if (err)
		check_found(o, "staged", "staging file: %s", err_text(err));
	else if (size < o->seg.len)
		check_found(o, "staged", "staging file has %" PRIu64 " bytes of %" PRIu64, size, o->seg.len);
}

/* False: reading it would say the same again. */
static bool check_shard(struct check_object *o, unsigned shard)
{
	uint64_t want = oclass_shard_len(&o->geo, shard);
	struct store *s = admin_target(o->c->a, o->seg.target[shard]);
	struct tess_objinfo info = { 0 };
	char name[PLACE_NAME_LEN + 1];
	struct tess_req req;
	int err;

	if (!want)
		return true;
	place_name(o->seg.id, shard, name);
	if (!s) {
		check_found(o, "target", "object %s: there is no target %u", name, o->seg.target[shard]);
		return false;
	}
	req_begin(&req, "fsck");
	err = store_head(s, &req, name, &info);
	if (err)
		check_found(o, "object", "object %u:%s: %s", o->seg.target[shard], name, err_text(err));
	else if (info.size != want)
		check_found(o, "object", "object %u:%s has %" PRIu64 " bytes of %" PRIu64,
			    o->seg.target[shard], name, info.size, want);
	o->c->f->objects++;
	return !err && info.size == want;
}

/* Gathers [off, off + len) of the segment from its objects. */
static int check_read(struct check_object *o, uint64_t off, uint64_t len)
{
	struct tess_range r = { off, len };
	struct oclass_piece p;
	char name[PLACE_NAME_LEN + 1];
	struct tess_req req;
	uint64_t it = 0;
	int err = 0;

	req_begin(&req, "fsck");
	while (!err && oclass_next(&o->geo, r, &it, &p)) {
		place_name(o->seg.id, p.shard, name);
		err = store_get(admin_target(o->c->a, o->seg.target[p.shard]), &req, name, p.shard_off,
				o->chunk + (p.seg_off - off), p.len);
	}
	return err;
}

static void check_bytes(struct check_object *o)
{
	for (uint64_t off = 0; off < o->seg.len; off += CHECK_CHUNK) {
		uint64_t len = MIN(CHECK_CHUNK, o->seg.len - off);
		uint32_t nblocks = (uint32_t)(round_up(len, TESS_BLOCK) / TESS_BLOCK);
		int err = meta_csums(o->c->a->meta, o->seg.id, (uint32_t)(off / TESS_BLOCK), nblocks,
				     o->csums);

		if (!err)
			err = check_read(o, off, len);
		if (err) {
			check_found(o, "read", "at %" PRIu64 ": %s", off, err_text(err));
			return;
		}
		for (uint32_t b = 0; b < nblocks; b++) {
			uint64_t at = (uint64_t)b * TESS_BLOCK;

			if (crc32c(0, o->chunk + at, MIN((uint64_t)TESS_BLOCK, len - at)) == o->csums[b])
				continue;
			check_found(o, "checksum", "block at %" PRIu64 ": checksum mismatch", off + at);
			return;
		}
	}
}

static void check_segment(struct check_object *o)
{
	bool readable = true;

	if (o->seg.state == META_STAGED) {
		check_staged(o);
		return;
	}
	if (admin_geo(&o->seg, &o->geo) < 0) {
		check_found(o, "record", "its class or geometry is not a legal one");
		return;
	}
	for (unsigned i = 0; i < o->geo.width; i++)
		if (!check_shard(o, i))
			readable = false;
	if (readable && o->c->f->verify)
		check_bytes(o);
}

int admin_check_segments(struct admin_check *c)
{
	scoped_free struct meta_segment *batch = mem_array(CHECK_BATCH, sizeof(*batch));
	scoped_free char *chunk = mem_pages(CHECK_CHUNK);
	scoped_free uint32_t *csums = mem_array(CHECK_CHUNK / TESS_BLOCK, sizeof(*csums));
	struct check_object o = { .c = c, .chunk = chunk, .csums = csums };
	tess_segid after = 0;
	unsigned n;

	if (!batch || !chunk || !csums)
		return -ENOMEM;
	do {
		int err = meta_segments(c->a->meta, after, batch, CHECK_BATCH, &n);

		if (err)
			return err;
		for (unsigned i = 0; i < n; i++) {
			o.seg = batch[i];
			after = batch[i].id;
			check_segment(&o);
		}
	} while (n == CHECK_BATCH);
	return 0;
}

/* ---- objects that nothing refers to ---- */

struct check_unknown {
	struct admin_check *c;
	unsigned    target;
	tess_segid *garbage;	/* owned; ascending */
	size_t      n, cap;
};

static int unknown_cmp(const void *a, const void *b)
{
	const tess_segid *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int unknown_garbage(struct check_unknown *u)
{
	struct meta_garbage g[64];
	uint64_t after = 0;
	unsigned n;

	do {
		int err = meta_garbage_list(u->c->a->meta, after, g, ARRAY_SIZE(g), &n);

		if (err)
			return err;
		if (u->n + n > u->cap) {
			size_t cap = (u->cap + n) * 2;
			tess_segid *p = mem_resize(u->garbage, cap, sizeof(*p));

			if (!p)
				return -ENOMEM;
			u->garbage = p;
			u->cap = cap;
		}
		for (unsigned i = 0; i < n; i++) {
			u->garbage[u->n++] = g[i].seg.id;
			after = g[i].serial;
		}
	} while (n == ARRAY_SIZE(g));
	if (u->n)
		qsort(u->garbage, u->n, sizeof(*u->garbage), unknown_cmp);
	return 0;
}

static int unknown_object(void *arg, const char *name, uint64_t size)
{
	struct check_unknown *u = arg;
	tess_segid id;
	unsigned shard;

	if (place_parse(name, &id, &shard) < 0)
		goto unknown;
	if (u->n && bsearch(&id, u->garbage, u->n, sizeof(id), unknown_cmp))
		return 0;
	if (meta_object_known(u->c->a->meta, id, shard, (uint16_t)u->target) == 1)
		return 0;
unknown:
	u->c->unknown++;
	u->c->unknown_bytes += size;
	return 0;
}

int admin_check_unknown(struct admin_check *c)
{
	struct check_unknown u = { .c = c };
	int err = unknown_garbage(&u);

	for (unsigned i = 0; !err && i < c->a->ntargets; i++) {
		u.target = c->a->targets[i].id;
		err = admin_objects(c->a->targets[i].store, unknown_object, &u);
	}
	free(u.garbage);
	return err;
}

int admin_check_stores(struct admin_check *c)
{
	for (unsigned i = 0; i < c->a->ntargets; i++) {
		struct meta_finding m = { .what = "store" };
		struct text t = TEXT_INIT;
		char *rest, *line;
		int n = store_check(c->a->targets[i].store, &t);

		rest = t.s;
		while (n > 0 && (line = strsep(&rest, "\n"))) {
			if (!*line)
				continue;
			snprintf(m.text, sizeof(m.text), "target %u: %s", c->a->targets[i].id, line);
			admin_finding(c, &m);
		}
		text_done(&t);
		if (n < 0)
			return n;
	}
	return 0;
}
