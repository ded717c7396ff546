/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/scoped.h"

struct gc_opts {
	bool del, verbose, json;
};

#define FLAG(n, f, h)                                                                          \
	{ .name = (n), .type = TESS_OPT_BOOL, .when = TESS_AT_RUN, \
	  .at = offsetof(struct gc_opts, f), .help = (h) }
static const struct tess_opt gc_rows[] = {
	FLAG("delete", del, "delete; without it, only look"),
	FLAG("verbose", verbose, "name each object"),
	FLAG("json", json, "for programs"),
	{ 0 },
};
static const struct tool_letter gc_letters[] = { { 'v', "verbose", false }, { 0 } };

static int gc_run(struct tool *t)
{
	struct gc_opts *o = t->opts;
	struct tess_gc g = {
		.dry_run = !o->del, .verbose = o->verbose, .json = o->json, .out = stdout,
	};
	scoped_free char *dir = tool_fs(t, t->argv[0]);
	struct tess *fs;
	int err, end;

	if (!dir)
		return TOOL_FAILED;
	if (tess_open(&fs, dir, TESS_WORK, NULL, NULL, t->why) < 0)
		return tool_fail(t, NULL, t->why);
	err = tess_gc(fs, &g, t->why);
	if (err < 0)
		tool_fail(t, t->argv[0], t->why);
	end = tess_close(fs, t->why);
	if (end < 0)
		tool_fail(t, t->argv[0], t->why);
	return err < 0 || end < 0 ? TOOL_FAILED : TOOL_OK;
}

const struct tool_cmd cmd_gc = {
	.name = "gc",
	.args = "FS [--delete] [-v] [--json]",
	.summary = "find, and delete if asked, objects that no file needs",
	.opts = gc_rows,
	.letters = gc_letters,
	.size = sizeof(struct gc_opts),
	.min = 1,
	.max = 1,
	.run = gc_run,
	.more = "FS may be the mount point. What a live session may still write or read is kept.\n",
};
