/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/scoped.h"
#include "base/text.h"
#include <stdlib.h>

static int invalidate_one(struct tool *t, const char *path)
{
	scoped_free struct tess_where *w = calloc(1, sizeof(*w));
	scoped_free char *answer = NULL;
	struct text cmd = TEXT_INIT;
	int r = w ? tess_where(path, w, t->why) : -1;

	if (r == 0) {
		text_fmt(&cmd, "invalidate %llu", (unsigned long long)w->ino);
		r = tess_control(w->dir, w->mountpoint, text_str(&cmd), &answer, t->why);
	}
	text_done(&cmd);
	return r < 0 ? tool_fail(t, path, w ? t->why : "out of memory") : TOOL_OK;
}

static int invalidate_run(struct tool *t)
{
	int code = TOOL_OK;

	for (int i = 0; i < t->argc && !code; i++)
		code = invalidate_one(t, t->argv[i]);
	return code;
}

const struct tool_cmd cmd_invalidate = {
	.name = "invalidate",
	.args = "PATH...",
	.summary = "drop what a mount has cached of files and trees",
	.min = 1,
	.max = 1000000,
	.run = invalidate_run,
};
