/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include <string.h>

struct mkfs_opts {
	char    *targets, *cls, *mapper, *label, *mode;
	uint64_t segment;
};

static const struct tess_opt mkfs_rows[] = {
	{ .name = "target", .type = TESS_OPT_STRING, .when = TESS_AT_MKFS,
	  .at = offsetof(struct mkfs_opts, targets),
	  .help = "URI of a target, kv:PATH[?size=SIZE]; may be repeated; without: one inside FS" },
	{ .name = "class", .type = TESS_OPT_STRING, .when = TESS_AT_MKFS,
	  .at = offsetof(struct mkfs_opts, cls), .dflt = "S1",
	  .help = "object class of new files; see tessera class list" },
	{ .name = "segment", .type = TESS_OPT_SIZE, .when = TESS_AT_MKFS,
	  .at = offsetof(struct mkfs_opts, segment), .dflt = "4M", .min = TESS_SEGMENT_MIN,
	  .max = TESS_SEGMENT_MAX, .help = "segment size, a multiple of 4k from 64k to 64M" },
	{ .name = "mapper", .type = TESS_OPT_STRING, .when = TESS_AT_MKFS,
	  .at = offsetof(struct mkfs_opts, mapper), .dflt = "write-optimized",
	  .help = "mapper of new files; see tessera mapper list" },
	{ .name = "label", .type = TESS_OPT_STRING, .when = TESS_AT_MKFS,
	  .at = offsetof(struct mkfs_opts, label), .help = "a name for people" },
	{ .name = "mode", .type = TESS_OPT_STRING, .when = TESS_AT_MKFS,
	  .at = offsetof(struct mkfs_opts, mode),
	  .help = "consistency mode of every mount of it; see tessera mode list" },
	{ 0 },
};
static const struct tool_letter mkfs_letters[] = {
	{ 't', "target", true }, { 'c', "class", false }, { 'z', "segment", false },
	{ 'm', "mapper", false }, { 'L', "label", false }, { 'M', "mode", false }, { 0 },
};

static int mkfs_run(struct tool *t)
{
	struct mkfs_opts *o = t->opts;
	const char *targets[TESS_TARGETS_MAX];
	struct tess_mkfs conf = {
		.dir = t->argv[0], .targets = targets, .cls = o->cls, .mapper = o->mapper,
		.segment_size = o->segment, .label = o->label, .mode = o->mode,
	};
	char *rest = o->targets;

	while (rest) {
		if (conf.ntargets == TESS_TARGETS_MAX)
			return tool_usage(t, "more than %u targets", TESS_TARGETS_MAX);
		targets[conf.ntargets++] = strsep(&rest, "\n");
	}
	if (tess_mkfs(&conf, t->why) < 0)
		return tool_fail(t, NULL, t->why);
	return TOOL_OK;
}

const struct tool_cmd cmd_mkfs = {
	.name = "mkfs",
	.args = "FS [--target URI]... [-c CLASS] [-z SEGMENT] [-m MAPPER] [--label NAME] [-M MODE]",
	.summary = "make a file system in the directory FS",
	.opts = mkfs_rows,
	.letters = mkfs_letters,
	.size = sizeof(struct mkfs_opts),
	.min = 1,
	.max = 1,
	.run = mkfs_run,
};
