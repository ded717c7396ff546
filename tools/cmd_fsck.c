/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/scoped.h"

struct fsck_opts {
	bool repair, verify, json;
};

#define FLAG(n, f, h)                                                                          \
	{ .name = (n), .type = TESS_OPT_BOOL, .when = TESS_AT_RUN, \
	  .at = offsetof(struct fsck_opts, f), .help = (h) }
static const struct tess_opt fsck_rows[] = {
	FLAG("repair", repair, "mend what can be mended"),
	FLAG("verify", verify, "read every object and compare its checksums"),
	FLAG("json", json, "for programs"),
	{ 0 },
};

static int fsck_run(struct tool *t)
{
	struct fsck_opts *o = t->opts;
	struct tess_fsck f = {
		.repair = o->repair, .verify = o->verify, .json = o->json, .out = stdout,
	};
	scoped_free char *dir = tool_fs(t, t->argv[0]);
	struct tess *fs;
	int err, end;

	if (!dir)
		return TOOL_FAILED;
	if (tess_open(&fs, dir, o->repair ? TESS_WORK : TESS_LOOK, NULL, NULL, t->why) < 0)
		return tool_fail(t, NULL, t->why);
	err = tess_fsck(fs, &f, t->why);
	if (err < 0)
		tool_fail(t, t->argv[0], t->why);
	end = tess_close(fs, t->why);
	if (end < 0)
		tool_fail(t, t->argv[0], t->why);
	return err < 0 || end < 0 || f.findings > f.repaired ? TOOL_FAILED : TOOL_OK;
}

const struct tool_cmd cmd_fsck = {
	.name = "fsck",
	.args = "FS [--repair] [--verify] [--json]",
	.summary = "check every record, and every object that a file needs",
	.opts = fsck_rows,
	.size = sizeof(struct fsck_opts),
	.min = 1,
	.max = 1,
	.run = fsck_run,
	.more = "FS may be the mount point: checking and repairing work while it is in use.\n"
		"Exit code 0: clean, or all findings repaired; 1: findings, or it could not check.\n",
};
