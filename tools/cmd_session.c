/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/scoped.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct session_opts {
	bool json;
};
static const struct tess_opt session_rows[] = {
	{ .name = "json", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct session_opts, json), .help = "for programs" },
	{ 0 },
};

static int session_list(struct tool *t, const char *dir)
{
	struct session_opts *o = t->opts;
	struct tess *fs;
	int err;

	if (tess_open(&fs, dir, TESS_LOOK, NULL, NULL, t->why) < 0)
		return tool_fail(t, NULL, t->why);
	err = tess_session_list(fs, o->json, stdout, t->why);
	tess_close(fs, NULL);
	return err < 0 ? tool_fail(t, t->argv[1], t->why) : tool_end(t, TOOL_OK);
}

static int session_fence(struct tool *t, const char *dir)
{
	char *end;
	unsigned long id = strtoul(t->argv[2], &end, 10);
	struct tess *fs;
	int err, closed;

	if (*end || end == t->argv[2] || id == 0 || id > UINT32_MAX)
		return tool_usage(t, "'%s' is no session: tessera session list %s", t->argv[2],
				  t->argv[1]);
	if (tess_open(&fs, dir, TESS_WORK, NULL, NULL, t->why) < 0)
		return tool_fail(t, NULL, t->why);
	err = tess_session_fence(fs, (uint32_t)id, t->why);
	if (err < 0)
		tool_fail(t, t->argv[2], t->why);
	closed = tess_close(fs, t->why);
	if (closed < 0)
		tool_fail(t, t->argv[1], t->why);
	return err < 0 || closed < 0 ? TOOL_FAILED : TOOL_OK;
}

static int session_run(struct tool *t)
{
	bool list = !strcmp(t->argv[0], "list");
	scoped_free char *dir = NULL;

	if (!list && strcmp(t->argv[0], "fence"))
		return tool_usage(t, "'%s': list or fence", t->argv[0]);
	if (t->argc != (list ? 2 : 3))
		return tool_usage(t, list ? "list takes FS" : "fence takes FS and ID");
	dir = tool_fs(t, t->argv[1]);
	if (!dir)
		return TOOL_FAILED;
	return list ? session_list(t, dir) : session_fence(t, dir);
}

const struct tool_cmd cmd_session = {
	.name = "session",
	.args = "list FS [--json] | fence FS ID",
	.summary = "who has the file system open; shut one out",
	.opts = session_rows,
	.size = sizeof(struct session_opts),
	.min = 2,
	.max = 3,
	.run = session_run,
	.more = "FS may be the mount point. A fenced session publishes nothing any more.\n",
};
