/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/admin.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "fs/fs.h"
#include "map/map.h"
#include "oclass/oclass.h"
#include "oclass/place.h"
#include "store/store.h"
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

static const char *layout_state(unsigned state)
{
	static const char *const names[] = { "?", "staged", "durable", "degraded" };

	return names[state < ARRAY_SIZE(names) ? state : 0];
}

static void layout_head(const struct meta_attr *attr, const char *path, struct text *out)
{
	const struct tess_mapper *m = map_by_id(attr->layout.mapper);
	struct oclass cls;
	char name[16] = "?";

	if (!oclass_from_id(attr->layout.cls, &cls))
		oclass_name(&cls, name);
	text_fmt(out, "%s: ", path);
	if (S_ISREG(attr->mode)) {
		text_size(out, attr->size);
		text_fmt(out, ", inode %" PRIu64 ", ", attr->ino);
	} else {
		text_fmt(out, "inode %" PRIu64 "%s, ", attr->ino,
			 S_ISDIR(attr->mode) ? ", new files get" : "");
	}
	text_fmt(out, "class %s, segment ", name);
	text_size(out, attr->layout.segment_size);
	text_fmt(out, ", mapper %s, mode %s, generation %" PRIu64 "\n", m ? m->name : "?",
		 fs_mark_name(attr->flags), attr->generation);
}

/* "0:0000000100000000.00 1:0000000100000000.01", each with its target's tier, if it has one: "(fast)" */
static void layout_objects(struct meta *m, const struct meta_segment *seg, struct text *out)
{
	struct oclass_geo geo;
	char name[PLACE_NAME_LEN + 1];

	if (seg->state == META_STAGED) {
		text_add(out, "in the staging area");
		return;
	}
	if (admin_geo(seg, &geo) < 0) {
		text_add(out, "(bad geometry)");
		return;
	}
	for (unsigned i = 0; i < geo.width; i++) {
		const char *tier = fs_tier(m, seg->target[i]);

		if (!oclass_shard_len(&geo, i))
			continue;
		place_name(seg->id, i, name);
		text_fmt(out, "%s%u:%s", i ? " " : "", seg->target[i], name);
		if (*tier)
			text_fmt(out, " (%s)", tier);
	}
}

static void layout_row(struct meta *m, const struct meta_map *map, const struct meta_piece *p, struct text *out)
{
	const struct meta_segment *seg;

	text_fmt(out, "  %14" PRIu64 " %12" PRIu64 "  ", p->ext.off, p->ext.len);
	if (!p->ext.seg) {
		text_add(out, "hole\n");
		return;
	}
	seg = &map->segments[p->segment];
	text_fmt(out, "%016" PRIx64 " %10" PRIu64 "  %-8s ", p->ext.seg, p->ext.seg_off,
		 layout_state(seg->state));
	layout_objects(m, seg, out);
	text_add(out, "\n");
}

static int layout_rows(struct admin *a, const struct meta_attr *attr, struct text *out)
{
	scoped_free struct meta_map *map = mem_zalloc(sizeof(*map));
	uint64_t at = 0;
	int err;

	if (!map)
		return -ENOMEM;
	if (attr->size)
		text_fmt(out, "  %14s %12s  %-16s %10s  %-8s %s\n", "offset", "length", "segment", "at",
			 "state", "target:object");
	while (at < attr->size) {
		err = meta_map(a->meta, attr->ino, (struct tess_range){ at, attr->size - at }, map);
		if (err)
			return err;
		for (unsigned i = 0; i < map->npieces; i++)
			layout_row(a->meta, map, &map->pieces[i], out);
		if (map->end <= at)
			break;	/* truncated while we looked */
		at = map->end;
	}
	return 0;
}

int admin_layout(struct admin *a, uint64_t ino, const char *path, enum tess_layout_format how,
		 FILE *out, struct text *why)
{
	struct text t = TEXT_INIT;
	struct meta_attr attr;
	int err = meta_getattr(a->meta, ino, &attr);

	if (!err && how == TESS_LAYOUT_JSON) {
		err = fs_layout_json(a->meta, ino, path, &t);
		text_add(&t, "\n");
	} else if (!err) {
		layout_head(&attr, path, &t);
		if (S_ISREG(attr.mode))
			err = layout_rows(a, &attr, &t);
	}
	if (!err)
		err = text_error(&t);
	if (!err && fputs(text_str(&t), out) < 0)
		err = -EIO;
	if (err)
		text_fmt(why, "%s: %s", path, err_text(err));
	text_done(&t);
	return err;
}

int admin_setlayout(struct admin *a, uint64_t ino, const char *spec, struct text *why)
{
	struct meta_attr attr;
	unsigned mask;
	int err = meta_getattr(a->meta, ino, &attr);

	if (!err)
		err = fs_spec_parse(spec, meta_super(a->meta)->ntargets, &attr, &mask, why);
	if (!err)
		err = meta_setattr(a->meta, ino, mask, &attr, clock_wall(), &attr);
	if (err && !why->n)
		text_fmt(why, "%s: %s", spec, err_text(err));
	return err;
}
