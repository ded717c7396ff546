/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/scoped.h"
#include <errno.h>
#include <fts.h>
#include <string.h>

struct layout_opts {
	bool recursive, json;
};

static const struct tess_opt layout_rows[] = {
	{ .name = "recursive", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct layout_opts, recursive),
	  .help = "everything below a directory too" },
	{ .name = "json", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct layout_opts, json),
	  .help = "for programs: an object, or an array of them with -r or several PATHs" },
	{ 0 },
};
static const struct tool_letter layout_letters[] = { { 'r', "recursive", false }, { 0 } };

struct layout {
	struct tool *t;
	struct tess *fs;	/* open file system, kept from path to path */
	char  dir[4096];	/* its directory */
	bool  array;
	unsigned done;
};

static int layout_open(struct layout *l, const char *dir)
{
	if (l->fs && !strcmp(dir, l->dir))
		return 0;
	tess_close(steal_ptr(l->fs), NULL);
	snprintf(l->dir, sizeof(l->dir), "%s", dir);
	return tess_open(&l->fs, dir, TESS_LOOK, NULL, NULL, l->t->why);
}

static int layout_path(struct layout *l, const char *path)
{
	struct layout_opts *o = l->t->opts;
	char dir[4096];
	uint64_t ino;

	if (tess_locate(path, dir, sizeof(dir), &ino, l->t->why) < 0 || layout_open(l, dir) < 0)
		return tool_fail(l->t, NULL, l->t->why);
	if (l->array)
		fputs(l->done ? ",\n" : "[\n", stdout);
	l->done++;
	if (tess_layout(l->fs, ino, path, o->json ? TESS_LAYOUT_JSON : TESS_LAYOUT_TABLE, stdout,
			l->t->why) < 0)
		return tool_fail(l->t, NULL, l->t->why);
	return TOOL_OK;
}

static int layout_tree(struct layout *l, char *path)
{
	char *paths[] = { path, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	int code = TOOL_OK;
	FTSENT *e;

	if (!fts)
		return tool_fail(l->t, path, strerror(errno));
	while ((e = fts_read(fts))) {
		if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS)
			code = tool_fail(l->t, e->fts_path, strerror(e->fts_errno));
		else if (e->fts_info == FTS_D || e->fts_info == FTS_F)
			code |= layout_path(l, e->fts_path);
	}
	fts_close(fts);
	return code;
}

static int layout_run(struct tool *t)
{
	struct layout_opts *o = t->opts;
	scoped_free struct layout *l = calloc(1, sizeof(*l));
	int code = TOOL_OK;

	if (!l)
		return tool_fail(t, NULL, strerror(ENOMEM));
	l->t = t;
	l->array = o->json && (o->recursive || t->argc > 1);
	for (int i = 0; i < t->argc; i++)
		code |= o->recursive ? layout_tree(l, t->argv[i]) : layout_path(l, t->argv[i]);
	if (l->array)
		fputs(l->done ? "]\n" : "[]\n", stdout);
	tess_close(l->fs, NULL);
	return code;
}

const struct tool_cmd cmd_layout = {
	.name = "layout",
	.alias = "getstripe",
	.args = "PATH... [-r] [--json]",
	.summary = "show which objects hold a file, and where they are",
	.opts = layout_rows,
	.letters = layout_letters,
	.size = sizeof(struct layout_opts),
	.min = 1,
	.max = -1,
	.run = layout_run,
};
