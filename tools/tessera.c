/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one program. Called by mount(8) as mount.fuse.tessera or mount.tessera it is `tessera mount`
 * with mount(8)'s calling convention, which differs only in the order of its words.
 */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

const struct tool_cmd *const tool_cmds[] = {
	&cmd_mkfs, &cmd_mount, &cmd_umount, &cmd_layout, &cmd_setlayout, &cmd_mode,
	&cmd_laminate, &cmd_whose, &cmd_df, &cmd_stats, &cmd_top, &cmd_errors, &cmd_fsck,
	&cmd_gc, &cmd_flush, &cmd_bench, &cmd_creds, &cmd_class, &cmd_mapper, &cmd_session,
	&cmd_wait_durable, &cmd_invalidate, &cmd_version, &cmd_help, NULL,
};

const struct tool_cmd *tool_find(const char *name)
{
	for (unsigned i = 0; tool_cmds[i]; i++)
		if (!strcmp(tool_cmds[i]->name, name) ||
		    (tool_cmds[i]->alias && !strcmp(tool_cmds[i]->alias, name)))
			return tool_cmds[i];
	return NULL;
}

static void tessera_help(FILE *out)
{
	fputs("usage: tessera COMMAND [ARGUMENTS]\n\n", out);
	for (unsigned i = 0; tool_cmds[i]; i++)
		fprintf(out, "  %-10s %s\n", tool_cmds[i]->name, tool_cmds[i]->summary);
	fputs("\ntessera COMMAND --help says more; so does man tessera.\n", out);
}

static int help_run(struct tool *t)
{
	const struct tool_cmd *cmd;

	if (!t->argc) {
		tessera_help(stdout);
		return TOOL_OK;
	}
	cmd = tool_find(t->argv[0]);
	if (!cmd)
		return tool_usage(t, "no command %s", t->argv[0]);
	tool_help(cmd, stdout);
	return TOOL_OK;
}

const struct tool_cmd cmd_help = {
	.name = "help",
	.args = "[COMMAND]",
	.summary = "list the commands, or explain one",
	.max = 1,
	.run = help_run,
};

int main(int argc, char **argv)
{
	const char *self = strrchr(argv[0], '/');
	const struct tool_cmd *cmd;

	self = self ? self + 1 : argv[0];
	if (!strncmp(self, "mount.", 6))
		return tool_main(&cmd_mount_helper, argc - 1, argv + 1);
	if (argc < 2) {
		tessera_help(stderr);
		return TOOL_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		argv[1] = (char *)(uintptr_t)"help";
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		argv[1] = (char *)(uintptr_t)"version";
	cmd = tool_find(argv[1]);
	if (!cmd) {
		fprintf(stderr, "tessera: no command '%s'; see tessera help\n", argv[1]);
		return TOOL_USAGE;
	}
	return tool_main(cmd, argc - 2, argv + 2);
}
