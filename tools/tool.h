/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H
/*
 * One command of `tessera`: a row of the table in tessera.c. Options come from the rows of
 * tessera/opt.h, which also make the help text; a letter table gives some of them a short form.
 */
#include <stdbool.h>
#include <tessera/opt.h>
#include <tessera/tessera.h>

struct tool_letter {
	char        letter;	/* 0 ends a table; ' ' for a row without a letter */
	const char *name;	/* of the option row */
	bool        list;	/* may be repeated: the values are joined by newlines */
};

struct tool;
struct tool_cmd {
	const char *name, *alias;	/* alias may be NULL */
	const char *args;		/* "FS [--json]", after the name */
	const char *summary;		/* one line, no full stop */
	const struct tess_opt *opts;	/* NULL: none */
	const struct tool_letter *letters;	/* NULL: none */
	size_t      size;		/* of the struct that opts write into */
	int         min, max;		/* positional arguments; max -1: any number */
	int       (*run)(struct tool *t);	/* exit code */
	const char *more;		/* paragraph at the end of --help, or NULL */
};
struct tool {
	const struct tool_cmd *cmd;
	void  *opts;
	int    argc;		/* positional arguments */
	char **argv;
	char   why[TESS_WHY];
};

enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

/* Parses the words after the command's name and runs it. */
int tool_main(const struct tool_cmd *cmd, int argc, char **argv);
/* "tessera CMD: WHAT: WHY" (WHAT may be NULL) on stderr; TOOL_FAILED. */
int tool_fail(const struct tool *t, const char *what, const char *why);
int tool_usage(const struct tool *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The FS directory meant by an argument: itself, or that of the mount it is (in). NULL: error told. */
char *tool_fs(struct tool *t, const char *arg);
/* The answer of the daemon behind a mount, or a directory of a file system; freed by free(). NULL: error told. */
char *tool_ask(struct tool *t, const char *mnt, const char *cmd);
/* Flushes stdout: a full disk or a closed pipe is a failure. */
int tool_end(struct tool *t, int code);

extern const struct tool_cmd cmd_mkfs, cmd_mount, cmd_umount, cmd_layout, cmd_setlayout;
extern const struct tool_cmd cmd_whose, cmd_df, cmd_stats, cmd_fsck, cmd_gc, cmd_flush, cmd_bench, cmd_creds, cmd_mode;
extern const struct tool_cmd cmd_top, cmd_errors, cmd_laminate, cmd_wait_durable, cmd_invalidate;
extern const struct tool_cmd cmd_class, cmd_mapper, cmd_session, cmd_version, cmd_help, cmd_mount_helper;
/* All of them, NULL-terminated. */
extern const struct tool_cmd *const tool_cmds[];
const struct tool_cmd *tool_find(const char *name);
void tool_help(const struct tool_cmd *cmd, FILE *out);
#endif
