/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tessera top: what a mounted daemon does, as differences of two samples of its counters. The sample
 * is lines of "group.name value", or of "group.name n sum_ns bucket0 bucket1 …" for a histogram.
 */
#include "tool.h"

#include "base/clock.h"
#include "base/scoped.h"
#include "base/text.h"
#include "base/trace.h"
#include <string.h>
#include <time.h>
#include <unistd.h>

struct top_opts {
	bool     json;
	uint64_t count, interval;
};

static const struct tess_opt top_rows[] = {
	{ .name = "count", .type = TESS_OPT_UINT, .when = TESS_AT_RUN, .dflt = "0", .max = 1u << 30,
	  .at = offsetof(struct top_opts, count), .help = "end after so many intervals; 0: never" },
	{ .name = "interval", .type = TESS_OPT_TIME, .when = TESS_AT_RUN, .dflt = "1s",
	  .min = 10000000, .max = UINT64_C(3600000000000),
	  .at = offsetof(struct top_opts, interval), .help = "time between two samples" },
	{ .name = "json", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct top_opts, json), .help = "for programs: an object a line" },
	{ 0 },
};
static const struct tool_letter top_letters[] = { { 'n', "count", false }, { 0 } };

/* ---- samples ---- */

#define TOP_ROWS 1024u

struct top_row {
	const char *name;	/* in the sample's text */
	bool        hist;
	uint64_t    v;		/* of a counter; how many of a histogram */
	uint64_t    sum, bucket[TRACE_BUCKETS];
};
struct top_sample {
	char          *text;	/* owned */
	int64_t        at;
	unsigned       n;
	struct top_row row[TOP_ROWS];
};

static void top_parse_row(char *line, struct top_row *r)
{
	char *at = line + strcspn(line, " ");

	*r = (struct top_row){ .name = line };
	if (!*at)
		return;
	*at++ = '\0';
	r->v = strtoull(at, &at, 10);
	r->hist = *at == ' ';
	r->sum = strtoull(at, &at, 10);
	for (unsigned i = 0; r->hist && i < TRACE_BUCKETS; i++)
		r->bucket[i] = strtoull(at, &at, 10);
}

static int top_take(struct tool *t, struct top_sample *s)
{
	free(s->text);
	s->n = 0;
	s->text = tool_ask(t, t->argv[0], "sample");
	s->at = clock_now();
	if (!s->text)
		return TOOL_FAILED;
	for (char *line = s->text, *next; *line && s->n < TOP_ROWS; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		top_parse_row(line, &s->row[s->n++]);
	}
	return TOOL_OK;
}

static const struct top_row *top_find(const struct top_sample *s, const char *name)
{
	for (unsigned i = 0; i < s->n; i++)
		if (!strcmp(s->row[i].name, name))
			return &s->row[i];
	return NULL;
}

/* ---- differences ---- */

struct top {
	const struct top_sample *old, *now;
	double   seconds;
	bool     json;
	unsigned members;	/* of the JSON object that is being written */
};

/* What became of it in the interval. A group that came in between began at 0. */
static struct top_row top_delta(const struct top *d, const char *name)
{
	const struct top_row *a = top_find(d->old, name), *b = top_find(d->now, name);
	struct top_row r = { 0 };

	if (!b)
		return r;
	r = *b;
	if (!a || a->v > b->v)
		return r;
	r.v -= a->v;
	r.sum -= a->sum;
	for (unsigned i = 0; i < TRACE_BUCKETS; i++)
		r.bucket[i] -= a->bucket[i];
	return r;
}

static double top_rate(const struct top *d, const char *name)
{
	return (double)top_delta(d, name).v / d->seconds;
}

/* Upper bound, µs. */
static double top_quantile(const struct top_row *r, double q)
{
	double want = q * (double)r->v, seen = 0;

	for (unsigned i = 0; i < TRACE_BUCKETS; i++) {
		seen += (double)r->bucket[i];
		if (r->bucket[i] && seen >= want)
			return (double)(UINT64_C(2) << i) / 1e3;
	}
	return 0;
}

static void top_time(double us, char ret[16])
{
	if (us >= 1e6)
		snprintf(ret, 16, "%.1fs", us / 1e6);
	else if (us >= 1e3)
		snprintf(ret, 16, "%.1fms", us / 1e3);
	else
		snprintf(ret, 16, "%.0fus", us);
}

static void top_latency(struct top *d, const char *label, const struct top_row *r)
{
	double mean = r->v ? (double)r->sum / (double)r->v / 1e3 : 0;
	char m[16], p50[16], p99[16];

	if (d->json) {
		printf("%s\"%s\":{\"per_s\":%.1f,\"mean_us\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f}",
		       d->members++ ? "," : "", label, (double)r->v / d->seconds, mean,
		       top_quantile(r, 0.5), top_quantile(r, 0.99));
		return;
	}
	top_time(mean, m);
	top_time(top_quantile(r, 0.5), p50);
	top_time(top_quantile(r, 0.99), p99);
	printf("  %-24s %10.0f %9s %9s %9s\n", label, (double)r->v / d->seconds, m, p50, p99);
}

static void top_ops(struct top *d)
{
	if (!d->json)
		printf("  %-24s %10s %9s %9s %9s\n", "OPERATION", "per s", "mean", "p50", "p99");
	d->members = 0;
	for (unsigned i = 0; i < d->now->n; i++) {
		const struct top_row *r = &d->now->row[i];
		struct top_row x;

		if (!r->hist || strncmp(r->name, "fuse.", 5))
			continue;
		x = top_delta(d, r->name);
		if (x.v)
			top_latency(d, r->name + 5, &x);
	}
}

/* ---- targets ---- */

static const char *const top_codes[] = { "put", "get", "head", "del", "list", NULL };
static const char *const top_bad[] = { "busy", "timeout", "full", "cancelled", "error", NULL };

static double top_errors(const struct top *d, const char *group)
{
	char name[128];
	double sum = 0;

	for (unsigned c = 0; top_codes[c]; c++)
		for (unsigned b = 0; top_bad[b]; b++) {
			snprintf(name, sizeof(name), "%s.%s.%s", group, top_codes[c], top_bad[b]);
			sum += top_rate(d, name);
		}
	return sum;
}

static double top_member(const struct top *d, const char *group, const char *member)
{
	char name[128];

	snprintf(name, sizeof(name), "%s.%s", group, member);
	return top_rate(d, name);
}

static void top_target(struct top *d, const char *group)
{
	const char *label = group + sizeof("store.") - 1;
	struct text up = TEXT_INIT, down = TEXT_INIT;
	const struct top_row *flights;
	char name[128], row[128];

	snprintf(name, sizeof(name), "%s.inflight", group);
	flights = top_find(d->now, name);
	text_size(&up, (uint64_t)top_member(d, group, "put.bytes"));
	text_size(&down, (uint64_t)top_member(d, group, "get.bytes"));
	if (d->json)
		printf("\"%s\":{\"inflight\":%llu,\"errors_per_s\":%.1f,\"put_bytes_per_s\":%.0f,"
		       "\"get_bytes_per_s\":%.0f",
		       label, flights ? (unsigned long long)flights->v : 0, top_errors(d, group),
		       top_member(d, group, "put.bytes"), top_member(d, group, "get.bytes"));
	else
		printf("  %s: %llu in flight, %s/s up, %s/s down, %.0f errors/s\n", label,
		       flights ? (unsigned long long)flights->v : 0, text_str(&up), text_str(&down),
		       top_errors(d, group));
	d->members = 1;
	for (unsigned c = 0; top_codes[c]; c++) {
		struct top_row x;

		snprintf(name, sizeof(name), "%s.%s", group, top_codes[c]);
		x = top_delta(d, name);
		snprintf(row, sizeof(row), d->json ? "%s%s" : "%.60s %s", d->json ? "" : label,
			 top_codes[c]);
		if (x.v)
			top_latency(d, row, &x);
	}
	if (d->json)
		putchar('}');
	text_done(&up);
	text_done(&down);
}

/* A target's group is one that counts PUTs. */
static void top_targets(struct top *d)
{
	bool first = true;

	for (unsigned i = 0; i < d->now->n; i++) {
		const char *name = d->now->row[i].name, *end = strstr(name, ".put.ok");
		char group[64];

		if (strncmp(name, "store.", 6) || !end || end[7])
			continue;
		snprintf(group, sizeof(group), "%.*s", (int)(end - name), name);
		if (d->json && !first)
			putchar(',');
		first = false;
		top_target(d, group);
	}
}

/* ---- an interval ---- */

static void top_json(struct top *d)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	printf("{\"time\":%lld.%03ld,\"interval_s\":%.3f,\"bytes_per_s\":{\"read\":%.0f,"
	       "\"written\":%.0f},\"errors_per_s\":%.1f,\"operations\":{",
	       (long long)ts.tv_sec, ts.tv_nsec / 1000000, d->seconds, top_rate(d, "io.read.bytes"),
	       top_rate(d, "io.write.bytes"), top_rate(d, "fuse.io_errors"));
	top_ops(d);
	printf("},\"targets\":{");
	top_targets(d);
	printf("}}\n");
}

static void top_plain(struct top *d, const char *mnt)
{
	struct text in = TEXT_INIT, out = TEXT_INIT;
	time_t now = time(NULL);
	char when[32];
	struct tm tm;

	strftime(when, sizeof(when), "%T", localtime_r(&now, &tm));
	text_size(&in, (uint64_t)top_rate(d, "io.write.bytes"));
	text_size(&out, (uint64_t)top_rate(d, "io.read.bytes"));
	printf("%s %s: %s/s written, %s/s read, %.0f failures/s\n", when, mnt, text_str(&in),
	       text_str(&out), top_rate(d, "fuse.io_errors"));
	top_ops(d);
	top_targets(d);
	text_done(&in);
	text_done(&out);
}

static void top_show(const struct tool *t, const struct top_sample *old,
		     const struct top_sample *now)
{
	const struct top_opts *o = t->opts;
	struct top d = { .old = old, .now = now, .json = o->json,
			 .seconds = (double)(now->at - old->at) / 1e9 };

	if (o->json) {
		top_json(&d);
		return;
	}
	if (isatty(STDOUT_FILENO))
		fputs("\033[H\033[J", stdout);
	top_plain(&d, t->argv[0]);
	if (!isatty(STDOUT_FILENO))
		putchar('\n');
}

static int top_run(struct tool *t)
{
	const struct top_opts *o = t->opts;
	struct top_sample *s[2] = { calloc(1, sizeof(**s)), calloc(1, sizeof(**s)) };
	int code = s[0] && s[1] ? TOOL_OK : tool_fail(t, NULL, "out of memory");

	if (code == TOOL_OK)
		code = top_take(t, s[0]);
	for (uint64_t i = 0; code == TOOL_OK && (o->count == 0 || i < o->count); i++) {
		struct top_sample *old = s[i % 2], *now = s[(i + 1) % 2];

		clock_sleep((int64_t)o->interval);
		code = top_take(t, now);
		if (code == TOOL_OK)
			top_show(t, old, now);
		if (fflush(stdout))
			break;	/* whoever read it has gone; tool_end() tells */
	}
	for (unsigned i = 0; i < 2; i++) {
		if (s[i])
			free(s[i]->text);
		free(s[i]);
	}
	return code;
}

const struct tool_cmd cmd_top = {
	.name = "top",
	.args = "MNT [-n COUNT] [--interval TIME] [--json]",
	.summary = "watch what a mounted daemon does, each second",
	.opts = top_rows,
	.letters = top_letters,
	.size = sizeof(struct top_opts),
	.min = 1,
	.max = 1,
	.run = top_run,
};
