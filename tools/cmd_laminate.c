/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include <errno.h>
#include <fts.h>
#include <string.h>
#include <sys/xattr.h>

struct laminate_opts {
	bool recursive, undo, show;
};

static const struct tess_opt laminate_rows[] = {
	{ .name = "recursive", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct laminate_opts, recursive),
	  .help = "everything below a directory too, and its names" },
	{ .name = "undo", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct laminate_opts, undo), .help = "let it be changed again" },
	{ .name = "show", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct laminate_opts, show), .help = "change nothing; say what is laminated" },
	{ 0 },
};
static const struct tool_letter laminate_letters[] = { { 'r', "recursive", false }, { 0 } };

#define LAMINATE_XATTR "tessera.laminated"

static int laminate_one(struct tool *t, const char *path)
{
	struct laminate_opts *o = t->opts;
	char is[2] = "";

	if (o->show) {
		if (lgetxattr(path, LAMINATE_XATTR, is, sizeof(is)) < 0)
			return tool_fail(t, path, strerror(errno));
		printf("%s %s\n", is[0] == '1' ? "laminated" : "writable ", path);
		return TOOL_OK;
	}
	if (lsetxattr(path, LAMINATE_XATTR, o->undo ? "0" : "1", 1, 0) == 0)
		return TOOL_OK;
	if (errno == EOPNOTSUPP)
		return tool_fail(t, path, "not on a mounted Tessera file system");
	if (errno == EBUSY)
		return tool_fail(t, path, "another mount is still writing it");
	return tool_fail(t, path, strerror(errno));
}

/* A directory after what is in it, whose names it freezes; before it when it has to let go. */
static int laminate_tree(struct tool *t, char *path)
{
	struct laminate_opts *o = t->opts;
	char *paths[] = { path, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	int code = TOOL_OK;
	FTSENT *e;

	if (!fts)
		return tool_fail(t, path, strerror(errno));
	while ((e = fts_read(fts))) {
		if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS)
			code |= tool_fail(t, e->fts_path, strerror(e->fts_errno));
		else if (e->fts_info != (o->undo || o->show ? FTS_DP : FTS_D) && e->fts_info != FTS_DC)
			code |= laminate_one(t, e->fts_path);
	}
	fts_close(fts);
	return code;
}

static int laminate_run(struct tool *t)
{
	struct laminate_opts *o = t->opts;
	int code = TOOL_OK;

	for (int i = 0; i < t->argc; i++)
		code |= o->recursive ? laminate_tree(t, t->argv[i]) : laminate_one(t, t->argv[i]);
	return tool_end(t, code);
}

const struct tool_cmd cmd_laminate = {
	.name = "laminate",
	.args = "PATH... [-r] [--undo | --show]",
	.summary = "make files and directories immutable, and cached without limit",
	.opts = laminate_rows,
	.letters = laminate_letters,
	.size = sizeof(struct laminate_opts),
	.min = 1,
	.max = -1,
	.run = laminate_run,
	.more = "What is laminated is everybody's and can neither be changed nor, in a laminated\n"
		"directory, removed, so each mount asks for it once and keeps it.",
};
