/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/scoped.h"
#include "base/text.h"
#include <string.h>

struct mode_opts {
	bool json;
};

static const struct tess_opt mode_rows[] = {
	{ .name = "json", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct mode_opts, json), .help = "for programs" },
	{ 0 },
};

static int mode_ask(struct tool *t, const char *path, bool of_path)
{
	scoped_free struct tess_where *w = calloc(1, sizeof(*w));
	struct mode_opts *o = t->opts;
	scoped_free char *answer = NULL;
	char cmd[64], ino[24] = "";

	if (!w)
		return tool_fail(t, NULL, "out of memory");
	if (tess_where(path, w, t->why) < 0)
		return tool_fail(t, NULL, t->why);
	if (w->dead)
		return tool_fail(t, path, "its daemon is gone");
	if (of_path)
		snprintf(ino, sizeof(ino), " %llu", (unsigned long long)w->ino);
	snprintf(cmd, sizeof(cmd), "mode%s%s", o->json ? " json" : "", ino);
	if (tess_control(w->dir, w->mountpoint, cmd, &answer, t->why) < 0)
		return tool_fail(t, NULL, t->why);
	fputs(answer, stdout);
	return TOOL_OK;
}

static int mode_show(struct tool *t)
{
	scoped_free struct tess_where *mnt = calloc(1, sizeof(*mnt)), *at = calloc(1, sizeof(*at));

	if (t->argc < 2)
		return tool_usage(t, "%s", "show needs a mount point");
	if (t->argc < 3)
		return mode_ask(t, t->argv[1], false);
	if (!mnt || !at)
		return tool_fail(t, NULL, "out of memory");
	if (tess_where(t->argv[1], mnt, t->why) < 0 || tess_where(t->argv[2], at, t->why) < 0)
		return tool_fail(t, NULL, t->why);
	if (strcmp(mnt->mountpoint, at->mountpoint))
		return tool_fail(t, t->argv[2], "not on that mount");
	return mode_ask(t, t->argv[2], true);
}

static int mode_run(struct tool *t)
{
	struct mode_opts *o = t->opts;

	if (!strcmp(t->argv[0], "show"))
		return mode_show(t);
	if (strcmp(t->argv[0], "list"))
		return tool_usage(t, "%s is not show or list", t->argv[0]);
	if (t->argc > 1)
		return tool_usage(t, "one argument too many: %s", t->argv[1]);
	return tess_mode_list(o->json, stdout) < 0 ? tool_fail(t, NULL, "cannot write") : TOOL_OK;
}

const struct tool_cmd cmd_mode = {
	.name = "mode",
	.args = "show MNT [PATH] [--json] | list [--json]",
	.summary = "show who sees what when: of a mount, of a file, of each mode",
	.opts = mode_rows,
	.size = sizeof(struct mode_opts),
	.min = 1,
	.max = 3,
	.run = mode_run,
};
