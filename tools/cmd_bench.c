/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "admin/bench.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/scoped.h"
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

struct bench_opts {
	char    *mounts, *ranks, *ops, *modes, *csv, *svg;
	uint64_t min_size, max_size, space, time, depth, repeat;
	bool     json, no_verify, processes, drop_caches;
};

#define ROW(n, t, f, d, lo, hi, h)                                                             \
	{ .name = (n), .type = TESS_OPT_##t, .when = TESS_AT_RUN, \
	  .at = offsetof(struct bench_opts, f), .dflt = (d), .min = (lo), .max = (hi), .help = (h) }
static const struct tess_opt bench_rows[] = {
	ROW("mount", STRING, mounts, NULL, 0, 0, "sweep files in this directory; may be repeated"),
	ROW("min-size", SIZE, min_size, "2", 1, BENCH_SIZE_MAX, "smallest object; sizes double from there"),
	ROW("max-size", SIZE, max_size, "64M", 1, BENCH_SIZE_MAX, "largest object"),
	ROW("ranks", STRING, ranks, "1,2,4,8", 0, 0, "ranks at a time, with commas"),
	ROW("modes", STRING, modes, "sync,async", 0, 0, "of sync, async"),
	ROW("ops", STRING, ops, "put,get,delete", 0, 0, "what to report, of put, get, delete"),
	ROW("depth", UINT, depth, "16", 1, 1024, "operations in flight of a rank in mode async"),
	ROW("time", TIME, time, "1s", NS_PER_MS, 3600 * NS_PER_S, "for one op of one cell"),
	ROW("space", SIZE, space, "256M", 1, 0, "bytes kept in the store, and in memory, at once"),
	ROW("repeat", UINT, repeat, "1", 1, 100, "sweeps; medians are shown"),
	ROW("processes", BOOL, processes, NULL, 0, 0, "ranks are processes with a connection each"),
	ROW("no-verify", BOOL, no_verify, NULL, 0, 0, "do not compare what is got"),
	ROW("drop-caches", BOOL, drop_caches, NULL, 0, 0, "--mount, root: drop page caches before get"),
	ROW("csv", STRING, csv, NULL, 0, 0, "write a table for programs to this file"),
	ROW("svg", STRING, svg, NULL, 0, 0, "write a plot to this file"),
	ROW("json", BOOL, json, NULL, 0, 0, "for programs"),
	{ 0 },
};
static const struct tool_letter bench_letters[] = { { ' ', "mount", true }, { 0 } };

static volatile sig_atomic_t bench_signal;

static void bench_on_signal(int sig)
{
	/* The second one ends it as it is. */
	signal(sig, SIG_DFL);
	bench_signal = sig;
}

static bool bench_stopped(void *arg)
{
	(void)arg;
	return bench_signal != 0;
}

struct bench_show {
	int64_t start;
	bool    terminal;
};

static void bench_progress(void *arg, unsigned done, unsigned all, const char *cell)
{
	struct bench_show *s = arg;
	int64_t ns = clock_now() - s->start;

	if (!s->terminal)
		return;
	fprintf(stderr, "\r\033[K%u/%u  %s", done, all, cell);
	if (done)
		fprintf(stderr, "  (about %.0f s left)", (double)ns / done * (all - done) * 1e-9);
	fflush(stderr);
}

/* Names and limits; 0 or TOOL_USAGE, told. */
static int bench_conf_make(struct tool *t, struct bench_conf *c)
{
	const struct bench_opts *o = t->opts;
	struct text why = TEXT_INIT;
	int err;

	*c = (struct bench_conf){
		.min_size = o->min_size, .max_size = o->max_size, .space = o->space, .time = o->time,
		.depth = (unsigned)o->depth, .repeat = (unsigned)o->repeat, .verify = !o->no_verify,
		.processes = o->processes, .drop_caches = o->drop_caches, .stopped = bench_stopped,
		.progress = bench_progress,
	};
	err = bench_parse_ranks(o->ranks, c, &why);
	if (!err)
		err = bench_parse_words(o->ops, bench_op_names, &c->ops, &why);
	if (!err)
		err = bench_parse_words(o->modes, bench_mode_names, &c->modes, &why);
	if (!err && c->min_size > c->max_size) {
		text_add(&why, "--min-size is larger than --max-size");
		err = -EINVAL;
	}
	if (err)
		err = tool_usage(t, "%s", text_str(&why));
	text_done(&why);
	return err;
}

static int bench_write(struct tool *t, const char *path, FILE **file, const struct text *text)
{
	FILE *f = steal_ptr(*file);
	int err = text_error(text);

	if (!err && fputs(text_str(text), f) < 0)
		err = -errno;
	if (fclose(f) && !err)
		err = -errno;
	return err ? tool_fail(t, path, err_text(err)) : TOOL_OK;
}

static int bench_output(struct tool *t, const struct bench_result *r, unsigned n, FILE *files[2])
{
	const struct bench_opts *o = t->opts;
	struct text out = TEXT_INIT;
	int code = TOOL_OK;

	if (o->json)
		bench_json(r, n, &out);
	for (unsigned i = 0; !o->json && i < n; i++) {
		text_add(&out, i ? "\n" : "");
		bench_table(&r[i], &out);
	}
	fputs(text_str(&out), stdout);
	if (text_error(&out))
		code = tool_fail(t, NULL, err_text(text_error(&out)));
	if (files[0]) {
		text_clear(&out);
		bench_csv_head(&out);
		for (unsigned i = 0; i < n; i++)
			bench_csv(&r[i], &out);
		code |= bench_write(t, o->csv, &files[0], &out);
	}
	if (files[1]) {
		text_clear(&out);
		bench_svg(r, n, &out);
		code |= bench_write(t, o->svg, &files[1], &out);
	}
	text_done(&out);
	return code;
}

/* Files that cannot be written are better known before the minutes of a sweep than after. */
static int bench_files(struct tool *t, FILE *files[2])
{
	const struct bench_opts *o = t->opts;
	const char *const paths[2] = { o->csv, o->svg };

	for (unsigned i = 0; i < 2; i++) {
		files[i] = paths[i] ? fopen(paths[i], "we") : NULL;
		if (paths[i] && !files[i])
			return tool_fail(t, paths[i], strerror(errno));
	}
	return TOOL_OK;
}

static int bench_each(struct tool *t, const struct bench_conf *c, struct bench_result *r, unsigned *n)
{
	const struct bench_opts *o = t->opts;
	struct bench_show *show = c->arg;
	char *rest = o->mounts;
	int code = TOOL_OK;

	for (int i = 1; code == TOOL_OK && (i < t->argc || rest); i++, (*n)++) {
		struct text why = TEXT_INIT;
		int err;

		show->start = clock_now();
		err = i < t->argc ? bench_store(t->argv[i], c, &r[*n], &why) :
				    bench_mount(strsep(&rest, "\n"), c, &r[*n], &why);
		if (show->terminal)
			fputs("\r\033[K", stderr);
		if (err)
			code = tool_fail(t, NULL, err != -EINTR ? text_str(&why) :
				text_str(&why)[0] ? text_str(&why) : "interrupted");
		text_done(&why);
	}
	return code;
}

static unsigned bench_targets(const struct tool *t)
{
	const struct bench_opts *o = t->opts;
	unsigned n = (unsigned)t->argc - 1;

	if (o->mounts)
		n++;
	for (const char *c = o->mounts; c && *c; c++)
		n += *c == '\n';
	return n;
}

static int bench_run(struct tool *t)
{
	struct bench_show show = { .terminal = isatty(STDERR_FILENO) };
	struct bench_conf c;
	scoped_free struct bench_result *r = NULL;
	FILE *files[2] = { NULL, NULL };
	unsigned n = 0, max = bench_targets(t);
	int code;

	if (strcmp(t->argv[0], "store"))
		return tool_usage(t, "%s: only store is possible", t->argv[0]);
	if (!max)
		return tool_usage(t, "%s", "a target URI is missing, or --mount DIR");
	code = bench_conf_make(t, &c);
	if (code)
		return code;
	c.arg = &show;
	r = calloc(max, sizeof(*r));
	if (!r)
		return tool_fail(t, NULL, strerror(ENOMEM));
	code = bench_files(t, files);
	if (code == TOOL_OK) {
		signal(SIGINT, bench_on_signal);
		signal(SIGTERM, bench_on_signal);
		code = bench_each(t, &c, r, &n);
		code |= bench_output(t, r, n, files);
	}
	for (unsigned i = 0; i < n; i++)
		bench_result_done(&r[i]);
	for (unsigned i = 0; i < 2; i++)
		if (files[i])
			fclose(files[i]);
	return code;
}

const struct tool_cmd cmd_bench = {
	.name = "bench",
	.args = "store URI... | store --mount DIR [OPTIONS]",
	.summary = "measure an object store, or a mount: put, get, delete by size",
	.opts = bench_rows,
	.letters = bench_letters,
	.size = sizeof(struct bench_opts),
	.min = 1,
	.max = -1,
	.run = bench_run,
	.more = "Works in a place of its own within URI or DIR, and removes it at the end.\n",
};
