/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/fs.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/opt.h"
#include "base/scoped.h"
#include "base/text.h"
#include "map/map.h"
#include "oclass/oclass.h"
#include "oclass/place.h"
#include <string.h>

static const char *layout_class(uint16_t id, char buf[16])
{
	struct oclass c;

	if (oclass_from_id(id, &c) < 0)
		return "?";
	oclass_name(&c, buf);
	return buf;
}

static const char *layout_mapper(uint16_t id)
{
	const struct tess_mapper *m = map_by_id(id);

	return m ? m->name : "?";
}

static const char *layout_state(uint8_t state)
{
	static const char *const names[] = {"?", "staged", "durable", "degraded"};

	return state < ARRAY_SIZE(names) ? names[state] : "?";
}

const char *fs_tier(struct meta *m, uint16_t target)
{
	const struct meta_super *s = meta_super(m);

	for (unsigned i = 0; i < s->ntargets; i++)
		if (s->targets[i].id == target)
			return s->targets[i].tier;
	return "";
}

/* Of a target that has one. */
static void layout_tier(struct meta *m, uint16_t target, struct text *out)
{
	const char *tier = fs_tier(m, target);

	if (!*tier)
		return;
	text_add(out, "\"tier\":");
	text_json(out, tier, strlen(tier));
	text_add(out, ",");
}

/* A staged segment has no objects yet: an empty list. */
static void layout_objects(struct meta *m, const struct meta_segment *s, struct text *out)
{
	struct oclass_geo g = {.width = s->width, .cell = s->cell, .len = s->len};
	const char *sep = "";
	char name[PLACE_NAME_LEN + 1];

	if (s->state == META_STAGED || oclass_from_id(s->cls, &g.cls) < 0 ||
	    oclass_geo_check(&g) < 0)
		return;
	for (unsigned i = 0; i < s->width; i++) {
		uint64_t len = oclass_shard_len(&g, i);

		if (len == 0)
			continue;
		place_name(s->id, i, name);
		text_fmt(out, "%s{\"target\":%u,", sep, s->target[i]);
		layout_tier(m, s->target[i], out);
		text_fmt(out, "\"name\":\"%s\",\"shard\":%u,\"length\":%llu,\"health\":\"ok\"}", name, i,
			 (unsigned long long)len);
		sep = ",";
	}
}

static void layout_extents(struct meta *m, const struct meta_map *map, bool *first, struct text *out)
{
	for (unsigned i = 0; i < map->npieces; i++) {
		const struct meta_piece *p = &map->pieces[i];
		const struct meta_segment *s;

		if (p->ext.seg == 0)
			continue;
		s = &map->segments[p->segment];
		text_fmt(out,
			 "%s{\"offset\":%llu,\"length\":%llu,\"segment\":\"%016llx\",\"segment_"
			 "offset\":%llu,"
			 "\"state\":\"%s\",\"objects\":[",
			 *first ? "" : ",", (unsigned long long)p->ext.off,
			 (unsigned long long)p->ext.len, (unsigned long long)p->ext.seg,
			 (unsigned long long)p->ext.seg_off, layout_state(s->state));
		layout_objects(m, s, out);
		text_add(out, "]}");
		*first = false;
	}
}

int fs_layout_json(struct meta *m, uint64_t ino, const char *path, struct text *out)
{
	scoped_free struct meta_map *map = mem_alloc(sizeof(*map));
	struct meta_attr a;
	char cls[16];
	uint64_t off = 0;
	bool first = true;
	int r = map ? meta_getattr(m, ino, &a) : -ENOMEM;

	if (r < 0)
		return r;
	text_add(out, "{\"path\":");
	text_json(out, path, strlen(path));
	text_fmt(out,
		 ",\"ino\":%llu,\"size\":%llu,\"class\":\"%s\",\"mapper\":\"%s\",\"segment_size\":%"
		 "u,"
		 "\"mode\":\"%s\",\"generation\":%llu,\"extents\":[",
		 (unsigned long long)ino, (unsigned long long)a.size,
		 layout_class(a.layout.cls, cls), layout_mapper(a.layout.mapper),
		 a.layout.segment_size, fs_mark_name(a.flags), (unsigned long long)a.generation);
	while (S_ISREG(a.mode) && off < a.size) {
		struct tess_range rest = {off, a.size - off};

		r = meta_map(m, ino, rest, map);
		if (r < 0)
			return r;
		layout_extents(m, map, &first, out);
		/* The file was cut meanwhile. */
		if (map->end <= off)
			break;
		off = map->end;
	}
	text_add(out, "]}");
	return text_error(out);
}

void fs_layout_text(const struct meta_layout *l, struct text *out)
{
	char cls[16];

	text_fmt(out, "class=%s,segment=%u,mapper=%s", layout_class(l->cls, cls), l->segment_size,
		 layout_mapper(l->mapper));
}

static int layout_why(struct text *why, int err, const char *fmt, const char *arg)
{
	if (why && why->n == 0)
		text_fmt(why, "%s: %s", arg, fmt);
	return err;
}

static int layout_set_class(const char *value, unsigned ntargets, struct meta_layout *l,
			    struct text *why)
{
	struct oclass c;
	int r = oclass_parse(value, &c, why);

	if (r == 0)
		r = oclass_usable(&c, ntargets, why);
	if (r == 0)
		l->cls = c.id;
	return r;
}

static int layout_set_segment(const char *value, struct meta_layout *l, struct text *why)
{
	uint64_t n;

	if (parse_size(value, &n) < 0 || n < TESS_SEGMENT_MIN || n > TESS_SEGMENT_MAX ||
	    n % TESS_BLOCK)
		return layout_why(why, -TESS_E_OPT_VALUE,
				  "segment size must be a multiple of 4K from 64K to 64M", value);
	l->segment_size = (uint32_t)n;
	return 0;
}

static int layout_set_mapper(const char *value, struct meta_layout *l, struct text *why)
{
	const struct tess_mapper *m = map_find(value);

	if (!m) {
		struct text names = TEXT_INIT;

		map_names(&names);
		if (why)
			text_fmt(why, "mapper '%s' is unknown: %s", value, text_str(&names));
		text_done(&names);
		return -TESS_E_MAPPER_UNKNOWN;
	}
	l->mapper = m->id;
	return 0;
}

int fs_mark_parse(const char *value, uint32_t *flags, struct text *why)
{
	enum tess_mode mode = policy_mode(value);

	if (mode == MODE_PRIVATE)
		return layout_why(why, -TESS_E_OPT_VALUE,
				  "of a whole mount, -o mode=private; not of a file or directory", value);
	if (mode == MODE_NONE && strcmp(value, FS_MARK_NONE)) {
		if (why && why->n == 0)
			text_fmt(why, "mode '%s' is unknown: none", value);
		for (unsigned i = MODE_NONE + 1; why && i < MODE_PRIVATE; i++)
			text_fmt(why, ", %s", policy_presets[i].name);
		return -TESS_E_OPT_VALUE;
	}
	*flags = (*flags & ~(uint32_t)META_MODE) | (uint32_t)mode << META_MODE_SHIFT;
	return 0;
}

const char *fs_mark_name(uint32_t flags)
{
	unsigned mark = meta_mark(flags);

	if (mark == MODE_NONE)
		return FS_MARK_NONE;
	return mark < MODE_COUNT ? policy_presets[mark].name : "?";
}

struct layout_spec {
	struct meta_attr *a;
	unsigned ntargets, mask;
	struct text *why;
};

static int layout_set_word(struct layout_spec *s, char *word)
{
	static const char known[] = "not class=, segment=, mapper= or mode=";
	struct meta_layout *l = &s->a->layout;
	char *value = strchr(word, '=');

	if (!value)
		return layout_why(s->why, -TESS_E_OPT_VALUE, known, word);
	*value++ = '\0';
	if (!strcmp(word, "mode")) {
		s->mask |= META_SET_MARK;
		return fs_mark_parse(value, &s->a->flags, s->why);
	}
	s->mask |= META_SET_LAYOUT;
	if (!strcmp(word, "class"))
		return layout_set_class(value, s->ntargets, l, s->why);
	if (!strcmp(word, "segment"))
		return layout_set_segment(value, l, s->why);
	if (!strcmp(word, "mapper"))
		return layout_set_mapper(value, l, s->why);
	return layout_why(s->why, -TESS_E_OPT_UNKNOWN, known, word);
}

int fs_spec_parse(const char *spec, unsigned ntargets, struct meta_attr *inout, unsigned *ret_mask,
		  struct text *why)
{
	scoped_free char *copy = mem_strdup(spec);
	struct meta_attr a = *inout;
	struct layout_spec s = { &a, ntargets, 0, why };
	char *next = copy;
	int r = copy ? 0 : -ENOMEM;

	while (r == 0 && next) {
		char *word = strsep(&next, ", \n");

		if (*word)
			r = layout_set_word(&s, word);
	}
	if (r < 0)
		return r;
	inout->layout = a.layout;
	inout->flags = a.flags;
	*ret_mask = s.mask;
	return 0;
}

int fs_layout_parse(const char *spec, unsigned ntargets, struct meta_layout *inout,
		    struct text *why)
{
	struct meta_attr a = { .layout = *inout };
	unsigned mask;
	int r = fs_spec_parse(spec, ntargets, &a, &mask, why);

	if (r == 0 && (mask & META_SET_MARK))
		return layout_why(why, -TESS_E_OPT_VALUE, "mode= is no part of a layout", spec);
	if (r == 0)
		*inout = a.layout;
	return r;
}
