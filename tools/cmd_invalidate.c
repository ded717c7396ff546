/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/scoped.h"
#include "base/text.h"
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

/* A name that is gone, or that the kernel takes for absent, is known of by its directory alone. */
static int invalidate_where(const char *path, struct tess_where *ret, char *why)
{
	scoped_free char *copy = NULL;
	int r = tess_where(path, ret, why);

	if (r != -ENOENT)
		return r;
	copy = strdup(path);
	return copy ? tess_where(dirname(copy), ret, why) : -ENOMEM;
}

static int invalidate_one(struct tool *t, const char *path)
{
	scoped_free struct tess_where *w = calloc(1, sizeof(*w));
	scoped_free char *answer = NULL;
	struct text cmd = TEXT_INIT;
	int r = w ? invalidate_where(path, w, t->why) : -1;

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
