/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/scoped.h"
#include "base/text.h"
#include <inttypes.h>
#include <string.h>

struct whose_opts {
	char *fs;
	bool  json;
};

static const struct tess_opt whose_rows[] = {
	{ .name = "fs", .type = TESS_OPT_STRING, .when = TESS_AT_RUN,
	  .at = offsetof(struct whose_opts, fs), .dflt = ".",
	  .help = "the file system, or a path on its mount" },
	{ .name = "json", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct whose_opts, json),
	  .help = "for programs: an array" },
	{ 0 },
};
static const struct tool_letter whose_letters[] = { { 'F', "fs", false }, { 0 } };

struct whose_out {
	bool     json;
	unsigned n;
};

static int whose_print(void *arg, const struct tess_owner *o)
{
	struct whose_out *w = arg;
	struct text t = TEXT_INIT;

	if (w->json) {
		text_fmt(&t, "%s{\"path\":", w->n ? ",\n" : "");
		text_json(&t, o->path, strlen(o->path));
		text_fmt(&t,
			 ",\"ino\":%" PRIu64 ",\"offset\":%" PRIu64 ",\"length\":%" PRIu64
			 ",\"object_offset\":%" PRIu64 "}",
			 o->ino, o->offset, o->length, o->object_offset);
	} else {
		if (!w->n)
			text_fmt(&t, "%12s %14s %12s %8s  %s\n", "object at", "file offset", "length",
				 "inode", "path");
		text_fmt(&t, "%12" PRIu64 " %14" PRIu64 " %12" PRIu64 " %8" PRIu64 "  %s\n",
			 o->object_offset, o->offset, o->length, o->ino, o->path);
	}
	w->n++;
	fputs(text_str(&t), stdout);
	text_done(&t);
	return 0;
}

static int whose_run(struct tool *t)
{
	struct whose_opts *o = t->opts;
	struct whose_out out = { .json = o->json };
	scoped_free char *dir = NULL;
	char *colon = strchr(t->argv[0], ':'), *end;
	unsigned long target = strtoul(t->argv[0], &end, 10);
	struct tess *fs;
	int err;

	if (!colon || end != colon || end == t->argv[0] || target >= TESS_TARGETS_MAX)
		return tool_usage(t, "%s: not TARGET:OBJECT, as tessera layout prints them", t->argv[0]);
	dir = tool_fs(t, t->argc > 1 ? t->argv[1] : o->fs);
	if (!dir)
		return TOOL_FAILED;
	if (tess_open(&fs, dir, TESS_LOOK, NULL, NULL, t->why) < 0)
		return tool_fail(t, NULL, t->why);
	if (o->json)
		fputs("[", stdout);
	err = tess_whose(fs, (unsigned)target, colon + 1, whose_print, &out, t->why);
	if (o->json)
		fputs("]\n", stdout);
	tess_close(fs, NULL);
	return err < 0 ? tool_fail(t, NULL, t->why) : TOOL_OK;
}

const struct tool_cmd cmd_whose = {
	.name = "whose",
	.args = "TARGET:OBJECT [FS] [--json]",
	.summary = "show which files an object belongs to",
	.opts = whose_rows,
	.letters = whose_letters,
	.size = sizeof(struct whose_opts),
	.min = 1,
	.max = 2,
	.run = whose_run,
	.more = "FS may be any path on its mount; without it, the current directory is taken.\n",
};
