/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/scoped.h"

struct df_opts {
	bool json;
};

static const struct tess_opt df_rows[] = {
	{ .name = "json", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct df_opts, json),
	  .help = "for programs" },
	{ 0 },
};

static int df_run(struct tool *t)
{
	struct df_opts *o = t->opts;
	scoped_free char *dir = tool_fs(t, t->argv[0]);
	struct tess *fs;
	int err;

	if (!dir)
		return TOOL_FAILED;
	if (tess_open(&fs, dir, TESS_LOOK, NULL, NULL, t->why) < 0)
		return tool_fail(t, NULL, t->why);
	err = tess_df(fs, o->json, stdout, t->why);
	tess_close(fs, NULL);
	return err < 0 ? tool_fail(t, NULL, t->why) : TOOL_OK;
}

const struct tool_cmd cmd_df = {
	.name = "df",
	.args = "FS [--json]",
	.summary = "show space by target, and what the namespace counts",
	.opts = df_rows,
	.size = sizeof(struct df_opts),
	.min = 1,
	.max = 1,
	.run = df_run,
	.more = "FS may be the mount point.\n",
};
