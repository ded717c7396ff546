/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/scoped.h"
#include "fuse/fuse.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct umount_opts {
	bool lazy, force;
};

static const struct tess_opt umount_rows[] = {
	{ .name = "lazy", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct umount_opts, lazy),
	  .help = "take it out of the tree now, though programs still use it" },
	{ .name = "force", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct umount_opts, force),
	  .help = "last resort: kill the daemon; what was not flushed is lost" },
	{ 0 },
};
static const struct tool_letter umount_letters[] = {
	{ 'l', "lazy", false }, { 'f', "force", false }, { 0 },
};

static int umount_kill(struct tool *t, const struct tess_where *w)
{
	scoped_free char *answer = NULL;
	long pid;

	if (w->dead || tess_control(w->dir, w->mountpoint, "hello", &answer, t->why) < 0)
		return TOOL_OK;	/* nobody to kill: only the mount is left */
	pid = strtol(answer, NULL, 10);
	if (pid <= 1 || kill((pid_t)pid, SIGKILL) < 0)
		return tool_fail(t, "daemon", strerror(errno));
	return TOOL_OK;
}

static int umount_run(struct tool *t)
{
	scoped_free struct tess_where *w = calloc(1, sizeof(*w));
	struct umount_opts *o = t->opts;
	scoped_free char *answer = NULL;
	int code = TOOL_OK, r;

	if (!w || tess_where(t->argv[0], w, t->why) < 0)
		return tool_fail(t, NULL, w ? t->why : "out of memory");
	if (o->force)
		code = umount_kill(t, w);
	else if (!w->dead)
		/* A busy mount stays when this fails; the daemon reports what still fails at its end. */
		tess_control(w->dir, w->mountpoint, "flush", &answer, t->why);
	if (code)
		return code;
	r = fuse_umount_main(t->argv[0], o->lazy || o->force, t->why);
	if (r < 0 && !o->force)
		return tool_fail(t, NULL, t->why);
	return TOOL_OK;
}

const struct tool_cmd cmd_umount = {
	.name = "umount",
	.alias = "unmount",
	.args = "MNT [--lazy] [--force]",
	.summary = "unmount, and return when everything is durable",
	.opts = umount_rows,
	.letters = umount_letters,
	.size = sizeof(struct umount_opts),
	.min = 1,
	.max = 1,
	.run = umount_run,
};
