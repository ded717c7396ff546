/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/laminate.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "base/text.h"
#include <limits.h>
#include <string.h>
#include <linux/limits.h>

#define XATTR_VIEW "tessera."
/* A directory this deep is counted to here and no further: the walk keeps its place per level. */
#define XATTR_WALK_MAX 1000000u

/* ---- views: computed, never stored ---- */

static int view_layout(struct fs *fs, const struct meta_attr *a, struct text *out)
{
	char path[PATH_MAX];

	if (meta_path(fs->conf.meta, a->ino, path, sizeof(path)) < 0)
		path[0] = '\0';
	return fs_layout_json(fs->conf.meta, a->ino, path, out);
}

static int view_mode(struct fs *fs, const struct meta_attr *a, struct text *out)
{
	(void)fs;
	text_add(out, fs_mark_name(a->flags));
	return 0;
}

static int view_generation(struct fs *fs, const struct meta_attr *a, struct text *out)
{
	(void)fs;
	text_fmt(out, "%llu", (unsigned long long)a->generation);
	return 0;
}

/* The worst of its bytes: dirty (a kill loses them), staged, durable. */
static int view_durability(struct fs *fs, const struct meta_attr *a, struct text *out)
{
	scoped_free struct meta_map *map = mem_alloc(sizeof(*map));
	const char *word = "durable";
	uint64_t off = 0;

	if (!map)
		return -ENOMEM;
	if (icache_dirty(fs, a->ino)) {
		text_add(out, "dirty");
		return 0;
	}
	while (S_ISREG(a->mode) && off < a->size) {
		struct tess_range rest = {off, a->size - off};
		int r = meta_map(fs->conf.meta, a->ino, rest, map);

		if (r < 0)
			return r;
		for (unsigned i = 0; i < map->nsegments; i++)
			if (map->segments[i].state == META_STAGED)
				word = "staged";
		if (map->end <= off)
			break;
		off = map->end;
	}
	text_add(out, word);
	return 0;
}

/* Directories still to be looked into: a stack, so that the depth of a tree costs no C stack. */
struct view_walk {
	uint64_t *dirs;
	size_t n, cap;
	uint64_t bytes, files;
	int err;
};

static int view_walk_entry(void *arg, const struct meta_dirent *e)
{
	struct view_walk *w = arg;

	if (e->cookie <= 2) /* "." and ".." */
		return 0;
	w->files++;
	if (e->attr && S_ISREG(e->type))
		w->bytes += e->attr->size;
	if (!S_ISDIR(e->type))
		return 0;
	if (w->n == w->cap) {
		size_t cap = w->cap ? 2 * w->cap : 64;
		uint64_t *p = cap > XATTR_WALK_MAX ? NULL : mem_resize(w->dirs, cap, sizeof(*p));

		if (!p) {
			w->err = -ENOMEM;
			return 1;
		}
		w->dirs = p;
		w->cap = cap;
	}
	w->dirs[w->n++] = e->ino;
	return 0;
}

static int view_walk(struct fs *fs, const struct meta_attr *a, struct view_walk *w)
{
	uint64_t dir = a->ino;
	int r = 0;

	if (!S_ISDIR(a->mode)) {
		w->bytes = a->size;
		w->files = 1;
		return 0;
	}
	for (;;) {
		r = meta_readdir(fs->conf.meta, dir, 0, true, view_walk_entry, w);
		if (r == -TESS_E_STALE)
			r = 0;
		if (r < 0 || w->err < 0 || w->n == 0)
			break;
		dir = w->dirs[--w->n];
	}
	free(w->dirs);
	return r < 0 ? r : w->err;
}

static int view_rbytes(struct fs *fs, const struct meta_attr *a, struct text *out)
{
	struct view_walk w = {0};
	int r = view_walk(fs, a, &w);

	text_fmt(out, "%llu", (unsigned long long)w.bytes);
	return r;
}

static int view_rfiles(struct fs *fs, const struct meta_attr *a, struct text *out)
{
	struct view_walk w = {0};
	int r = view_walk(fs, a, &w);

	text_fmt(out, "%llu", (unsigned long long)w.files);
	return r;
}

static int view_laminated(struct fs *fs, const struct meta_attr *a, struct text *out)
{
	(void)fs;
	text_add(out, a->flags & META_LAMINATED ? "1" : "0");
	return 0;
}

static const struct view {
	const char *name;
	int (*get)(struct fs *fs, const struct meta_attr *a, struct text *out);
} views[] = {
	{XATTR_VIEW "layout", view_layout},	    {XATTR_VIEW "generation", view_generation},
	{XATTR_VIEW "durability", view_durability}, {XATTR_VIEW "rbytes", view_rbytes},
	{XATTR_VIEW "rfiles", view_rfiles},	    {XATTR_VIEW "mode", view_mode},
	{XATTR_VIEW "laminated", view_laminated},
};

static bool xattr_is_view(const char *name)
{
	return !strncmp(name, XATTR_VIEW, sizeof(XATTR_VIEW) - 1);
}

static int xattr_copy(const struct text *t, void *ret, size_t cap, size_t *ret_len)
{
	if (text_error(t) < 0)
		return -ENOMEM;
	if (cap && t->n > cap)
		return -ERANGE;
	if (cap)
		memcpy(ret, text_str(t), t->n);
	*ret_len = t->n;
	return 0;
}

static int view_get(struct fs *fs, uint64_t ino, const char *name, void *ret, size_t cap,
		    size_t *ret_len)
{
	struct text out = TEXT_INIT;
	struct meta_attr a;
	int r = -ENODATA;

	for (unsigned i = 0; i < ARRAY_SIZE(views); i++) {
		if (strcmp(name, views[i].name))
			continue;
		r = attr_get(fs, ino, &a);
		if (r == 0)
			r = views[i].get(fs, &a, &out);
		if (r == 0)
			r = xattr_copy(&out, ret, cap, ret_len);
		break;
	}
	text_done(&out);
	return r;
}

static int view_set(struct fs *fs, struct tess_req *req, uint64_t ino, const char *name,
		    const void *val, size_t n)
{
	bool mode = !strcmp(name, XATTR_VIEW "mode");
	struct fs_inode *in;
	unsigned mask = META_SET_MARK;
	struct meta_attr a;
	char spec[256];
	int r;

	if (!strcmp(name, XATTR_VIEW "laminated"))
		return laminate_set(fs, req, ino, val, n);
	if (!mode && strcmp(name, XATTR_VIEW "layout"))
		return -ENOTSUP;
	if (n >= sizeof(spec))
		return -EINVAL;
	memcpy(spec, val, n);
	spec[n] = '\0';
	r = meta_getattr(fs->conf.meta, ino, &a);
	if (r < 0)
		return r;
	/* A view is no user.* attribute: the kernel asks for write permission, which is not enough.
	 */
	if (req->uid && req->uid != a.uid)
		return -EPERM;
	r = mode ? fs_mark_parse(spec, &a.flags, NULL) :
		   fs_spec_parse(spec, fs->conf.ntargets, &a, &mask, NULL);
	if (r == 0)
		r = meta_setattr(fs->conf.meta, ino, mask, &a, clock_wall_coarse(), &a);
	if (r < 0)
		return r;
	icache_known_bump(fs, ino, a.generation);
	in = icache_pin_open(fs, ino);
	if (in) {
		io_file_layout_set(in->file, &a.layout);
		icache_unpin(fs, in);
	}
	return 0;
}

/* ---- the calls ---- */

int fs_xattr_get(struct fs *fs, struct tess_req *req, uint64_t ino, const char *name, void *ret,
		 size_t cap, size_t *ret_len)
{
	(void)req;
	if (xattr_is_view(name))
		return view_get(fs, ino, name, ret, cap, ret_len);
	if (laminate_bare(fs, ino))
		return -ENODATA;
	return meta_xattr_get(fs->conf.meta, ino, name, ret, cap, ret_len);
}

static void xattr_note_change(struct fs *fs, uint64_t ino)
{
	struct meta_attr a;

	if (meta_getattr(fs->conf.meta, ino, &a) < 0)
		return;
	icache_known_bump(fs, ino, a.generation);
	icache_set_priv(fs, ino, attr_has_priv(&a));
}

int fs_xattr_set(struct fs *fs, struct tess_req *req, uint64_t ino, const char *name,
		 const void *val, size_t n, int flags)
{
	int r;

	if (fs->conf.readonly)
		return -EROFS;
	if (xattr_is_view(name))
		return view_set(fs, req, ino, name, val, n);
	if (n > XATTR_SIZE_MAX)
		return -E2BIG;
	r = meta_xattr_set(fs->conf.meta, ino, name, val, n, flags, clock_wall_coarse());
	if (r == 0)
		xattr_note_change(fs, ino);
	return r;
}

/* trusted.* is not for everybody's eyes; the kernel hides the values, not the names. */
static size_t xattr_hide_trusted(char *list, size_t n)
{
	size_t out = 0;

	for (size_t i = 0; i < n;) {
		size_t len = strnlen(list + i, n - i) + 1;

		len = MIN(len, n - i);
		if (strncmp(list + i, "trusted.", 8)) {
			memmove(list + out, list + i, len);
			out += len;
		}
		i += len;
	}
	return out;
}

int fs_xattr_list(struct fs *fs, struct tess_req *req, uint64_t ino, char *ret, size_t cap,
		  size_t *ret_len)
{
	int r = meta_xattr_list(fs->conf.meta, ino, ret, cap, ret_len);

	if (r == 0 && cap && req->uid)
		*ret_len = xattr_hide_trusted(ret, *ret_len);
	return r;
}

int fs_xattr_remove(struct fs *fs, struct tess_req *req, uint64_t ino, const char *name)
{
	int r;

	if (fs->conf.readonly)
		return -EROFS;
	if (!strcmp(name, XATTR_VIEW "mode"))
		return view_set(fs, req, ino, name, FS_MARK_NONE, sizeof(FS_MARK_NONE) - 1);
	if (xattr_is_view(name))
		return -ENOTSUP;
	r = meta_xattr_remove(fs->conf.meta, ino, name, clock_wall_coarse());
	if (r == 0)
		xattr_note_change(fs, ino);
	return r;
}
