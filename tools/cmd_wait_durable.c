/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/err.h"
#include "base/scoped.h"
#include "base/text.h"
#include <stdlib.h>
#include <sys/stat.h>

struct wait_opts {
	uint64_t timeout; /* ns */
};

static const struct tess_opt wait_rows[] = {
	{ .name = "timeout", .type = TESS_OPT_TIME, .when = TESS_AT_RUN,
	  .at = offsetof(struct wait_opts, timeout), .dflt = "0",
	  .help = "give up after so long, exit 1; 0: wait for as long as it takes" },
	{ 0 },
};
static const struct tool_letter wait_letters[] = {
	{ 't', "timeout", true }, { 0 },
};

/* A file: its own bytes. Anything else: all there is, since what lies below a directory changes. */
static int wait_one(struct tool *t, const char *path)
{
	scoped_free struct tess_where *w = calloc(1, sizeof(*w));
	const struct wait_opts *o = t->opts;
	struct text cmd = TEXT_INIT;
	struct stat st;
	int r;

	if (!w || stat(path, &st) < 0 || tess_where(path, w, t->why) < 0)
		return tool_fail(t, path, !w || !*t->why ? strerror(errno) : t->why);
	text_fmt(&cmd, "durable %llu %llu", S_ISREG(st.st_mode) ? (unsigned long long)w->ino : 0ull,
		 (unsigned long long)(o->timeout / 1000000));
	/* Any session may have staged some of it. */
	r = tess_control_each(w->dir, text_str(&cmd), t->why);
	text_done(&cmd);
	return r < 0 ? tool_fail(t, path, t->why) : TOOL_OK;
}

static int wait_run(struct tool *t)
{
	int code = TOOL_OK;

	for (int i = 0; i < t->argc && !code; i++)
		code = wait_one(t, t->argv[i]);
	return code;
}

const struct tool_cmd cmd_wait_durable = {
	.name = "wait-durable",
	.args = "PATH... [--timeout TIME]",
	.summary = "return when the bytes of files are on their targets",
	.opts = wait_rows,
	.letters = wait_letters,
	.size = sizeof(struct wait_opts),
	.min = 1,
	.max = 1000000,
	.run = wait_run,
};
