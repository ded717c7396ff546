/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that need no file system: class list, mapper list, version. */
#include "tool.h"

#include "fuse/fuse.h"
#include <string.h>

struct list_opts {
	bool json;
};

static const struct tess_opt list_rows[] = {
	{ .name = "json", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct list_opts, json),
	  .help = "for programs" },
	{ 0 },
};

static int list_run(struct tool *t, int (*fn)(bool json, FILE *out))
{
	struct list_opts *o = t->opts;
	int err;

	if (strcmp(t->argv[0], "list"))
		return tool_usage(t, "%s: only list is possible", t->argv[0]);
	err = fn(o->json, stdout);
	return err < 0 ? tool_fail(t, NULL, tess_strerror(err)) : TOOL_OK;
}

static int class_run(struct tool *t)
{
	return list_run(t, tess_class_list);
}

static int mapper_run(struct tool *t)
{
	return list_run(t, tess_mapper_list);
}

const struct tool_cmd cmd_class = {
	.name = "class",
	.args = "list [--json]",
	.summary = "list the object classes",
	.opts = list_rows,
	.size = sizeof(struct list_opts),
	.min = 1,
	.max = 1,
	.run = class_run,
};

const struct tool_cmd cmd_mapper = {
	.name = "mapper",
	.args = "list [--json]",
	.summary = "list the mappers",
	.opts = list_rows,
	.size = sizeof(struct list_opts),
	.min = 1,
	.max = 1,
	.run = mapper_run,
};

static int version_run(struct tool *t)
{
	(void)t;
	printf("tessera %s\n%s\n", tess_version(), fuse_build_info());
	return TOOL_OK;
}

const struct tool_cmd cmd_version = {
	.name = "version",
	.args = "",
	.summary = "print the version",
	.run = version_run,
};
