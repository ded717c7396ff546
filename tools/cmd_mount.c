/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/opt.h"
#include "base/text.h"
#include "fuse/fuse.h"
#include <string.h>

struct mount_opts {
	char *options, *type, *netns;
	bool  foreground, readonly, list, no_mtab, verbose, sloppy, writable, fake;
};

#define FLAG(n, f, h)                                                                          \
	{ .name = (n), .type = TESS_OPT_BOOL, .when = TESS_AT_RUN, \
	  .at = offsetof(struct mount_opts, f), .help = (h) }
static const struct tess_opt mount_rows[] = {
	{ .name = "options", .type = TESS_OPT_STRING, .when = TESS_AT_RUN,
	  .at = offsetof(struct mount_opts, options),
	  .help = "mount options, separated by commas; may be repeated" },
	FLAG("foreground", foreground, "stay in the foreground, log to stderr"),
	FLAG("read-only", readonly, "as -o ro"),
	FLAG("read-write", writable, "as -o rw"),
	FLAG("no-mtab", no_mtab, "of mount(8); ignored"),
	FLAG("verbose", verbose, "of mount(8); ignored"),
	FLAG("sloppy", sloppy, "of mount(8); ignored"),
	{ .name = "type", .type = TESS_OPT_STRING, .when = TESS_AT_RUN,
	  .at = offsetof(struct mount_opts, type),
	  .help = "of mount(8); ignored" },
	{ .name = "namespace", .type = TESS_OPT_STRING, .when = TESS_AT_RUN,
	  .at = offsetof(struct mount_opts, netns),
	  .help = "of mount(8); ignored" },
	FLAG("fake", fake, "check the options, but do not mount"),
	FLAG("list-options", list, "print the option rows, for programs"),
	{ 0 },
};
static const struct tool_letter mount_letters[] = {
	{ 'o', "options", true }, { 'f', "foreground", false }, { 'r', "read-only", false },
	{ 'w', "read-write", false }, { 'n', "no-mtab", false }, { 'v', "verbose", false },
	{ 's', "sloppy", false }, { 't', "type", false }, { 'N', "namespace", false }, { 0 },
};
/* mount(8) means something else by -f. */
static const struct tool_letter helper_letters[] = {
	{ 'o', "options", true }, { 'f', "fake", false }, { 'r', "read-only", false },
	{ 'w', "read-write", false }, { 'n', "no-mtab", false }, { 'v', "verbose", false },
	{ 's', "sloppy", false }, { 't', "type", false }, { 'N', "namespace", false }, { 0 },
};

/* name, type, default or "-", help: separated by tabs. */
static int mount_list(void)
{
	static const char *const types[] = { "bool", "uint", "size", "time", "double", "enum", "string" };

	for (const struct tess_opt *o = tess_mount_opts(); o->name; o++)
		printf("%s\t%s\t%s\t%s\n", o->name, types[o->type], o->dflt ? o->dflt : "-", o->help);
	return TOOL_OK;
}

/* mount(8) calls its helpers with `SOURCE MNT -o …`, and so do people. */
static int mount_parse(struct tool *t, struct tess_conf *conf)
{
	struct mount_opts *o = t->opts;
	char *rest = o->options;

	while (rest)
		if (tess_conf_parse(conf, strsep(&rest, "\n"), t->why) < 0) {
			tool_fail(t, NULL, t->why);
			return TOOL_USAGE;
		}
	conf->foreground |= o->foreground || conf->debug_fuse;
	if (o->readonly)
		conf->readonly = true;
	if (o->writable)
		conf->readonly = false;
	if (conf->allow_other && conf->allow_root)
		return tool_usage(t, "%s", "allow_other and allow_root exclude each other");
	return TOOL_OK;
}

static int mount_run(struct tool *t)
{
	struct mount_opts *o = t->opts;
	struct tess_conf conf;
	int code;

	if (o->list)
		return mount_list();
	if (t->argc < 2)
		return tool_usage(t, "%s", "FS and MNT are needed");
	if (tess_conf_init(&conf) < 0)
		return tool_fail(t, NULL, "out of memory");
	code = mount_parse(t, &conf);
	if (!code && !o->fake && fuse_mount_main(t->argv[0], t->argv[1], &conf, t->why) < 0)
		code = tool_fail(t, NULL, t->why);
	tess_conf_done(&conf);
	return code;
}

const struct tool_cmd cmd_mount = {
	.name = "mount",
	.args = "FS MNT [-o OPTIONS] [-f]",
	.summary = "mount the file system FS on the directory MNT",
	.opts = mount_rows,
	.letters = mount_letters,
	.size = sizeof(struct mount_opts),
	.max = 2,
	.run = mount_run,
	.more = "Mount options: man mount.tessera. Also: mount -t fuse.tessera FS MNT -o OPTIONS.\n",
};

const struct tool_cmd cmd_mount_helper = {
	.name = "mount",
	.args = "FS MNT [-o OPTIONS]",
	.summary = "mount the file system FS on the directory MNT, for mount(8)",
	.opts = mount_rows,
	.letters = helper_letters,
	.size = sizeof(struct mount_opts),
	.max = 2,
	.run = mount_run,
};
