/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "base/err.h"
#include "base/opt.h"
#include "base/scoped.h"
#include "base/text.h"
#include <stdarg.h>
#include <string.h>

int tool_fail(const struct tool *t, const char *what, const char *why)
{
	fflush(stdout);
	fprintf(stderr, "tessera %s: %s%s%s\n", t->cmd->name, what ? what : "", what ? ": " : "", why);
	return TOOL_FAILED;
}

int tool_usage(const struct tool *t, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "tessera %s: ", t->cmd->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "; see tessera %s --help\n", t->cmd->name);
	return TOOL_USAGE;
}

int tool_end(struct tool *t, int code)
{
	if (fflush(stdout) || ferror(stdout))
		return tool_fail(t, "standard output", strerror(errno));
	return code;
}

/* A file system cannot lie on another one's mount, so whatever is there means that mount. */
char *tool_fs(struct tool *t, const char *arg)
{
	scoped_free struct tess_where *w = calloc(1, sizeof(*w));
	char *dir = w ? strdup(tess_where(arg, w, NULL) < 0 ? arg : w->dir) : NULL;

	if (!dir)
		tool_fail(t, arg, strerror(ENOMEM));
	return dir;
}

static const struct tool_letter *tool_letter_of(const struct tool_cmd *cmd, const char *name)
{
	for (const struct tool_letter *l = cmd->letters; l && l->letter; l++)
		if (!strcmp(l->name, name))
			return l;
	return NULL;
}

static const struct tess_opt *tool_row(const struct tool_cmd *cmd, const char *name)
{
	for (const struct tess_opt *o = cmd->opts; o && o->name; o++)
		if (!strcmp(o->name, name))
			return o;
	return NULL;
}

void tool_help(const struct tool_cmd *cmd, FILE *out)
{
	fprintf(out, "usage: tessera %s %s\n%s.\n", cmd->name, cmd->args, cmd->summary);
	if (cmd->alias)
		fprintf(out, "Also: tessera %s\n", cmd->alias);
	if (cmd->opts && cmd->opts->name)
		fputc('\n', out);
	for (const struct tess_opt *o = cmd->opts; o && o->name; o++) {
		const struct tool_letter *l = tool_letter_of(cmd, o->name);
		char flag[64];

		snprintf(flag, sizeof(flag), "%c%c%s --%s%s", l && l->letter != ' ' ? '-' : ' ',
			 l && l->letter != ' ' ? l->letter : ' ',
			 l && l->letter != ' ' ? "," : " ", o->name,
			 o->type == TESS_OPT_BOOL ? "" : " VALUE");
		fprintf(out, "  %-28s %s%s%s%s\n", flag, o->help, o->dflt ? " (default " : "",
			o->dflt ? o->dflt : "", o->dflt ? ")" : "");
	}
	if (cmd->more)
		fprintf(out, "\n%s", cmd->more);
}

/* Sets one option; `value` NULL for a flag. 0 or TOOL_USAGE, told. */
static int tool_set(struct tool *t, const char *name, const char *value)
{
	const struct tess_opt *row = tool_row(t->cmd, name);
	const struct tool_letter *l = tool_letter_of(t->cmd, name);
	struct text w = TEXT_INIT, joined = TEXT_INIT;
	int r;

	if (row && l && l->list && *(char **)((char *)t->opts + row->at)) {
		text_fmt(&joined, "%s\n%s", *(char **)((char *)t->opts + row->at), value);
		value = text_str(&joined);
	}
	r = opt_set(t->cmd->opts, t->opts, ~0u, name, value, &w);
	if (r)
		r = tool_usage(t, "%s", w.n ? text_str(&w) : err_text(r));
	text_done(&joined);
	text_done(&w);
	return r;
}

/* "--name", "--name=value", "--name value". */
static int tool_long(struct tool *t, int argc, char **argv, int *i)
{
	char *name = argv[*i] + 2, *value = strchr(name, '=');
	const struct tess_opt *row;

	if (value)
		*value++ = '\0';
	row = tool_row(t->cmd, name);
	if (!row)
		return tool_usage(t, "unknown option --%s", name);
	if (!value && row->type != TESS_OPT_BOOL) {
		if (++*i >= argc)
			return tool_usage(t, "option --%s needs a value", name);
		value = argv[*i];
	}
	return tool_set(t, name, value);
}

/* "-rj", "-c S2", "-cS2". */
static int tool_short(struct tool *t, int argc, char **argv, int *i)
{
	for (char *c = argv[*i] + 1; *c; c++) {
		const struct tool_letter *l = t->cmd->letters;
		const struct tess_opt *row;
		char *value = NULL;
		int r;

		while (l && l->letter && l->letter != *c)
			l++;
		if (!l || !l->letter || *c == ' ')
			return tool_usage(t, "unknown option -%c", *c);
		row = tool_row(t->cmd, l->name);
		if (row->type != TESS_OPT_BOOL) {
			value = c[1] ? c + 1 : ++*i < argc ? argv[*i] : NULL;
			if (!value)
				return tool_usage(t, "option -%c needs a value", *c);
		}
		r = tool_set(t, l->name, value);
		if (r || value)
			return r;
	}
	return 0;
}

/* -1: go on and run; else the exit code. Positional arguments move to the front of argv. */
static int tool_parse(struct tool *t, int argc, char **argv)
{
	bool only_args = false;
	int r = 0;

	for (int i = 0; i < argc && !r; i++) {
		char *s = argv[i];

		if (only_args || s[0] != '-' || !s[1]) {
			argv[t->argc++] = s;
		} else if (!strcmp(s, "--")) {
			only_args = true;
		} else if (!strcmp(s, "--help") || (!strcmp(s, "-h") && !t->cmd->min)) {
			tool_help(t->cmd, stdout);
			return TOOL_OK;
		} else {
			r = s[1] == '-' ? tool_long(t, argc, argv, &i) : tool_short(t, argc, argv, &i);
		}
	}
	t->argv = argv;
	if (r)
		return r;
	if (t->argc < t->cmd->min)
		return tool_usage(t, "%s", "an argument is missing");
	if (t->cmd->max >= 0 && t->argc > t->cmd->max)
		return tool_usage(t, "one argument too many: %s", argv[t->cmd->max]);
	return -1;
}

int tool_main(const struct tool_cmd *cmd, int argc, char **argv)
{
	static const struct tess_opt none[] = { { 0 } };
	const struct tess_opt *rows = cmd->opts ? cmd->opts : none;
	struct tool t = { .cmd = cmd };
	int r;

	t.opts = calloc(1, cmd->size ? cmd->size : 1);
	if (!t.opts)
		return tool_fail(&t, NULL, strerror(ENOMEM));
	r = opt_init(rows, t.opts) < 0 ? tool_fail(&t, NULL, strerror(ENOMEM)) :
					 tool_parse(&t, argc, argv);
	if (r == -1)
		r = tool_end(&t, cmd->run(&t));
	opt_done(rows, t.opts);
	free(t.opts);
	return r;
}
