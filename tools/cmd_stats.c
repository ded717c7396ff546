/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that ask a running daemon: stats and flush. */
#include "tool.h"

#include "base/scoped.h"
#include "base/text.h"
#include <string.h>

struct stats_opts {
	bool  json, pending, errors, config, verbose;
	char *faults, *log;
};

#define FLAG(n, f, h)                                                                          \
	{ .name = (n), .type = TESS_OPT_BOOL, .when = TESS_AT_RUN, \
	  .at = offsetof(struct stats_opts, f), .help = (h) }
static const struct tess_opt stats_rows[] = {
	FLAG("json", json, "for programs"),
	FLAG("pending", pending, "only what is not durable yet"),
	FLAG("errors", errors, "only the counters of what went wrong"),
	FLAG("verbose", verbose, "what each store says of itself, too"),
	FLAG("config", config, "the options the daemon runs with"),
	{ .name = "log", .type = TESS_OPT_STRING, .when = TESS_AT_RUN,
	  .at = offsetof(struct stats_opts, log),
	  .help = "change its log levels: debug, or io=debug,store=debug" },
	{ .name = "faults", .type = TESS_OPT_STRING, .when = TESS_AT_RUN,
	  .at = offsetof(struct stats_opts, faults),
	  .help = "arm its fault points, for tests; an empty value disarms" },
	{ 0 },
};

char *tool_ask(struct tool *t, const char *mnt, const char *cmd)
{
	scoped_free struct tess_where *w = calloc(1, sizeof(*w));
	char *answer = NULL;
	bool is_mount;
	int err;

	if (!w) {
		tool_fail(t, NULL, "out of memory");
		return NULL;
	}
	is_mount = !tess_where(mnt, w, t->why);
	if (is_mount && w->dead) {
		tool_fail(t, mnt, "its daemon is gone");
		return NULL;
	}
	/* The directory of the file system does as well: any of its daemons answers. */
	err = is_mount ? tess_control(w->dir, w->mountpoint, cmd, &answer, t->why) :
			 tess_control(mnt, NULL, cmd, &answer, t->why);
	if (err < 0) {
		tool_fail(t, NULL, t->why);
		return NULL;
	}
	return answer;
}

static int stats_ask(struct tool *t, const char *mnt, const char *cmd)
{
	scoped_free char *answer = tool_ask(t, mnt, cmd);

	if (!answer)
		return TOOL_FAILED;
	fputs(answer, stdout);
	return TOOL_OK;
}

static int stats_run(struct tool *t)
{
	struct stats_opts *o = t->opts;
	struct text cmd = TEXT_INIT;
	int code;

	if (o->faults)
		text_fmt(&cmd, "faults %s", o->faults);
	else if (o->log)
		text_fmt(&cmd, "log %s", o->log);
	else
		text_fmt(&cmd, "%s%s",
			 o->pending ? "pending" : o->errors ? "errors" : o->config ? "config" : "stats",
			 o->json ? " json" : o->verbose ? " verbose" : "");
	code = stats_ask(t, t->argv[0], text_str(&cmd));
	text_done(&cmd);
	return code;
}

const struct tool_cmd cmd_stats = {
	.name = "stats",
	.args = "MNT [--json | --verbose] [--pending | --errors | --config] [--log LEVELS]",
	.summary = "show what a mounted daemon counts",
	.opts = stats_rows,
	.size = sizeof(struct stats_opts),
	.min = 1,
	.max = 1,
	.run = stats_run,
};

struct flush_opts {
	bool rest;
};

static const struct tess_opt flush_rows[] = {
	{ .name = "rest", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct flush_opts, rest),
	  .help = "and on the tier where it belongs, of a mount with rest-tier=" },
	{ 0 },
};

static int flush_run(struct tool *t)
{
	const struct flush_opts *o = t->opts;

	return stats_ask(t, t->argv[0], o->rest ? "flush rest" : "flush");
}

const struct tool_cmd cmd_flush = {
	.name = "flush",
	.args = "MNT [--rest]",
	.summary = "return when everything written so far is on the targets",
	.opts = flush_rows,
	.size = sizeof(struct flush_opts),
	.min = 1,
	.max = 1,
	.run = flush_run,
};
