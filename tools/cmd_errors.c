/* SPDX-License-Identifier: Apache-2.0 */
/* tessera errors: what failed lately in a mounted daemon, also what no program was told of. */
#include "tool.h"

#include "base/scoped.h"
#include "base/text.h"
#include <string.h>
#include <time.h>

struct errors_opts {
	bool json, clear;
};

static const struct tess_opt errors_rows[] = {
	{ .name = "json", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct errors_opts, json), .help = "for programs" },
	{ .name = "clear", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct errors_opts, clear), .help = "forget them after this" },
	{ 0 },
};

enum { F_INO, F_ERROR, F_WHAT, F_FIRST, F_LAST, F_COUNT, F_MESSAGE, F_PATH, F_N };

/* Cuts a row at its tabs; the path, the last, may be empty. */
static bool errors_split(char *row, char *ret[F_N])
{
	for (unsigned i = 0; i < F_N; i++) {
		ret[i] = row;
		row += strcspn(row, "\t");
		if (i + 1 < F_N && !*row)
			return false;
		if (*row)
			*row++ = '\0';
	}
	return true;
}

static void errors_row(char *row)
{
	char *f[F_N], when[32];
	struct tm tm;
	time_t at;

	if (!errors_split(row, f))
		return;
	at = (time_t)strtoll(f[F_LAST], NULL, 10);
	strftime(when, sizeof(when), "%F %T", localtime_r(&at, &tm));
	printf("%-19s %6s  %-10s %s: %s", when, f[F_COUNT], f[F_ERROR], f[F_WHAT], f[F_MESSAGE]);
	if (*f[F_PATH])
		printf("  %s", f[F_PATH]);
	else if (strcmp(f[F_INO], "0"))
		printf("  inode %s", f[F_INO]);
	putchar('\n');
}

static int errors_run(struct tool *t)
{
	const struct errors_opts *o = t->opts;
	scoped_free char *answer = NULL;
	char cmd[32];

	snprintf(cmd, sizeof(cmd), "failures%s%s", o->json ? " json" : "", o->clear ? " clear" : "");
	answer = tool_ask(t, t->argv[0], cmd);
	if (!answer)
		return TOOL_FAILED;
	if (o->json) {
		fputs(answer, stdout);
		return TOOL_OK;
	}
	if (*answer)
		printf("%-19s %6s  %-10s %s\n", "LAST", "TIMES", "ERROR", "WHAT");
	for (char *row = answer, *next; *row; row = next) {
		next = row + strcspn(row, "\n");
		if (*next)
			*next++ = '\0';
		errors_row(row);
	}
	return TOOL_OK;
}

const struct tool_cmd cmd_errors = {
	.name = "errors",
	.args = "MNT [--json] [--clear]",
	.summary = "list what failed lately in a mounted daemon",
	.opts = errors_rows,
	.size = sizeof(struct errors_opts),
	.min = 1,
	.max = 1,
	.run = errors_run,
};
