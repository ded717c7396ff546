/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/text.h"
#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

struct setlayout_opts {
	char *cls, *mapper, *segment, *mode;
};

static const struct tess_opt setlayout_rows[] = {
	{ .name = "class", .type = TESS_OPT_STRING, .when = TESS_AT_RUN,
	  .at = offsetof(struct setlayout_opts, cls),
	  .help = "object class; see tessera class list" },
	{ .name = "segment", .type = TESS_OPT_STRING, .when = TESS_AT_RUN,
	  .at = offsetof(struct setlayout_opts, segment),
	  .help = "segment size, a multiple of 4k from 64k to 64M" },
	{ .name = "mapper", .type = TESS_OPT_STRING, .when = TESS_AT_RUN,
	  .at = offsetof(struct setlayout_opts, mapper),
	  .help = "mapper; see tessera mapper list" },
	{ .name = "mode", .type = TESS_OPT_STRING, .when = TESS_AT_RUN,
	  .at = offsetof(struct setlayout_opts, mode),
	  .help = "consistency mode, or none: the mount's; see tessera mode list" },
	{ 0 },
};
static const struct tool_letter setlayout_letters[] = {
	{ 'c', "class", false }, { 'z', "segment", false }, { 'm', "mapper", false },
	{ 'M', "mode", false },	 { 0 },
};

static void setlayout_add(struct text *spec, const char *name, const char *value)
{
	if (value)
		text_fmt(spec, "%s%s=%s", spec->n ? "," : "", name, value);
}

/*
 * Through the mount, by the attribute: so the daemon hears of it for files that are open, and the
 * kernel checks who asks. That way has only an errno to say what is wrong, so the words are checked
 * here first.
 */
static int setlayout_path(struct tool *t, const char *path, const char *spec)
{
	char dir[4096];
	uint64_t ino;

	if (tess_locate(path, dir, sizeof(dir), &ino, t->why) < 0)
		return tool_fail(t, NULL, t->why);
	if (tess_checklayout(dir, spec, t->why) < 0)
		return tool_fail(t, NULL, t->why);
	if (setxattr(path, "tessera.layout", spec, strlen(spec), 0) < 0)
		return tool_fail(t, path, strerror(errno));
	return TOOL_OK;
}

static int setlayout_run(struct tool *t)
{
	struct setlayout_opts *o = t->opts;
	struct text spec = TEXT_INIT;
	int code = TOOL_OK;

	setlayout_add(&spec, "class", o->cls);
	setlayout_add(&spec, "segment", o->segment);
	setlayout_add(&spec, "mapper", o->mapper);
	setlayout_add(&spec, "mode", o->mode);
	if (!spec.n)
		code = tool_usage(t, "%s", "nothing to set: one of -c, -z, -m, -M is needed");
	for (int i = 0; !code && i < t->argc; i++)
		code = setlayout_path(t, t->argv[i], text_str(&spec));
	text_done(&spec);
	return code;
}

const struct tool_cmd cmd_setlayout = {
	.name = "setlayout",
	.alias = "setstripe",
	.args = "PATH... [-c CLASS] [-z SIZE] [-m MAPPER] [-M MODE]",
	.summary = "set the layout of what is written from now on",
	.opts = setlayout_rows,
	.letters = setlayout_letters,
	.size = sizeof(struct setlayout_opts),
	.min = 1,
	.max = -1,
	.run = setlayout_run,
	.more = "Data already written stays where it is. New files take the layout of their directory.\n"
		"A mode holds for the next open.\n",
};
