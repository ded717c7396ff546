/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/bench_int.h"

#include "base/err.h"
#include "base/scoped.h"
#include <inttypes.h>
#include <string.h>

const char *const bench_op_names[] = { "put", "get", "delete", NULL };
const char *const bench_mode_names[] = { "sync", "async", NULL };

/* ---- latencies ---- */

static unsigned hist_bucket(uint64_t v)
{
	unsigned top, at;

	if (v < BENCH_HIST_STEPS)
		return (unsigned)v;
	top = 63 - (unsigned)__builtin_clzll(v);
	/* The five bits below the highest. */
	at = (top - 4) * BENCH_HIST_STEPS + (unsigned)((v >> (top - 5)) & (BENCH_HIST_STEPS - 1));
	return MIN(at, BENCH_HIST_BUCKETS - 1);
}

static int64_t hist_end(unsigned bucket)
{
	unsigned top = bucket / BENCH_HIST_STEPS + 4;

	if (bucket < BENCH_HIST_STEPS)
		return bucket;
	return (int64_t)(((UINT64_C(1) << 5 | bucket % BENCH_HIST_STEPS) + 1) << (top - 5)) - 1;
}

void bench_hist_add(struct bench_hist *h, int64_t ns)
{
	h->n++;
	h->bucket[hist_bucket(ns < 0 ? 0 : (uint64_t)ns)]++;
}

void bench_hist_merge(struct bench_hist *to, const struct bench_hist *from)
{
	to->n += from->n;
	for (unsigned i = 0; i < BENCH_HIST_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

int64_t bench_hist_at(const struct bench_hist *h, double part)
{
	uint64_t want = (uint64_t)(part * (double)h->n), seen = 0;

	if (!h->n)
		return 0;
	want = (double)want < part * (double)h->n || !want ? want + 1 : want;
	for (unsigned i = 0; i < BENCH_HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= want)
			return hist_end(i);
	}
	return hist_end(BENCH_HIST_BUCKETS - 1);
}

/* ---- rows ---- */

double bench_mib(const struct bench_row *r)
{
	return r->ns > 0 ? (double)r->bytes / 1048576.0 / ((double)r->ns * 1e-9) : 0;
}

double bench_rate(const struct bench_row *r)
{
	return r->ns > 0 ? (double)r->ops / ((double)r->ns * 1e-9) : 0;
}

unsigned bench_median(const struct bench_row *runs, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		double mine = bench_rate(&runs[i]);
		unsigned less = 0;

		for (unsigned j = 0; j < n; j++) {
			double its = bench_rate(&runs[j]);

			less += its < mine || (its == mine && j < i);
		}
		if (less == (n - 1) / 2)
			return i;
	}
	return 0;
}

void bench_result_done(struct bench_result *r)
{
	free(r->name);
	free(r->rows);
	*r = (struct bench_result){ 0 };
}

/* ---- lists ---- */

static bool ranks_has(const struct bench_conf *conf, unsigned long n)
{
	for (unsigned i = 0; i < conf->nranks; i++) {
		if (conf->ranks[i] == n)
			return true;
	}
	return false;
}

int bench_parse_ranks(const char *list, struct bench_conf *conf, struct text *why)
{
	conf->nranks = 0;
	for (const char *at = list;; at++) {
		char *end;
		unsigned long n = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0;

		if (n < 1 || n > BENCH_RANKS_MAX || (*end && *end != ',') ||
		    conf->nranks == BENCH_LIST_MAX || ranks_has(conf, n)) {
			text_fmt(why, "ranks: \"%s\": up to %u different numbers from 1 to %u, with commas",
				 list, BENCH_LIST_MAX, BENCH_RANKS_MAX);
			return -EINVAL;
		}
		conf->ranks[conf->nranks++] = (unsigned)n;
		at = end;
		if (!*at)
			return 0;
	}
}

int bench_parse_words(const char *list, const char *const *words, unsigned *ret_mask, struct text *why)
{
	unsigned mask = 0;

	for (const char *at = list;;) {
		size_t n = strcspn(at, ",");
		unsigned i = 0;

		while (words[i] && (strlen(words[i]) != n || memcmp(words[i], at, n) != 0))
			i++;
		if (!words[i]) {
			text_fmt(why, "\"%s\": choose of", list);
			for (i = 0; words[i]; i++)
				text_fmt(why, "%s %s", i ? "," : "", words[i]);
			return -EINVAL;
		}
		mask |= 1u << i;
		at += n;
		if (!*at++)
			break;
	}
	*ret_mask = mask;
	return 0;
}

/* ---- what is printed ---- */

static void text_ns(struct text *out, int64_t ns)
{
	char buf[32];

	if (ns < 1000000)
		snprintf(buf, sizeof(buf), "%.1fus", (double)ns * 1e-3);
	else if (ns < 1000000000)
		snprintf(buf, sizeof(buf), "%.1fms", (double)ns * 1e-6);
	else
		snprintf(buf, sizeof(buf), "%.2fs", (double)ns * 1e-9);
	text_fmt(out, " %10s", buf);
}

void bench_table(const struct bench_result *r, struct text *out)
{
	if (!r->n)
		return;
	text_fmt(out, "%s\n%-7s %-6s %5s %10s %9s %12s %12s %10s %10s\n", r->name, "op", "mode",
		 "ranks", "size", "ops", "MiB/s", "op/s", "p50", "p99");
	for (unsigned i = 0; i < r->n; i++) {
		const struct bench_row *w = &r->rows[i];
		double mib = bench_mib(w);

		text_fmt(out, "%-7s %-6s %5u %10" PRIu64 " %9" PRIu64, bench_op_names[w->op],
			 bench_mode_names[w->mode], w->ranks, w->size, w->ops);
		/* What a delete frees moves nowhere. */
		if (w->op == BENCH_DELETE)
			text_fmt(out, " %12s", "-");
		else
			text_fmt(out, " %12.*f", mib < 1 ? 4 : 1, mib);
		text_fmt(out, " %12.1f", bench_rate(w));
		text_ns(out, w->p50);
		text_ns(out, w->p99);
		text_add(out, "\n");
	}
	if (r->left_out)
		text_fmt(out, "left out: %u cells whose objects together are larger than --space\n",
			 r->left_out);
}

void bench_csv_head(struct text *out)
{
	text_add(out, "target,op,mode,ranks,size_bytes,operations,bytes,seconds,mib_per_s,ops_per_s,"
		      "p50_us,p99_us\n");
}

void bench_csv(const struct bench_result *r, struct text *out)
{
	for (unsigned i = 0; i < r->n; i++) {
		const struct bench_row *w = &r->rows[i];

		/* RFC 4180: quoted, and quotes doubled. */
		text_add(out, "\"");
		for (const char *c = r->name; *c; c++)
			text_addn(out, *c == '"' ? "\"\"" : c, *c == '"' ? 2 : 1);
		text_fmt(out, "\",%s,%s,%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.6f,%.6f,%.3f,%.3f,%.3f\n",
			 bench_op_names[w->op], bench_mode_names[w->mode], w->ranks, w->size, w->ops,
			 w->bytes, (double)w->ns * 1e-9, bench_mib(w), bench_rate(w),
			 (double)w->p50 * 1e-3, (double)w->p99 * 1e-3);
	}
}

static void json_row(const struct bench_row *w, struct text *out)
{
	text_fmt(out,
		 "{\"op\":\"%s\",\"mode\":\"%s\",\"ranks\":%u,\"size\":%" PRIu64 ",\"operations\":%" PRIu64
		 ",\"bytes\":%" PRIu64 ",\"seconds\":%.6f,\"mib_per_s\":%.6f,\"ops_per_s\":%.3f,"
		 "\"p50_us\":%.3f,\"p99_us\":%.3f}",
		 bench_op_names[w->op], bench_mode_names[w->mode], w->ranks, w->size, w->ops, w->bytes,
		 (double)w->ns * 1e-9, bench_mib(w), bench_rate(w), (double)w->p50 * 1e-3,
		 (double)w->p99 * 1e-3);
}

void bench_json(const struct bench_result *r, unsigned n, struct text *out)
{
	text_add(out, "[");
	for (unsigned i = 0; i < n; i++) {
		text_fmt(out, "%s\n{\"target\":", i ? "," : "");
		text_json(out, r[i].name, strlen(r[i].name));
		text_fmt(out, ",\"left_out\":%u,\"rows\":[", r[i].left_out);
		for (unsigned k = 0; k < r[i].n; k++) {
			text_add(out, k ? ",\n" : "\n");
			json_row(&r[i].rows[k], out);
		}
		text_add(out, "]}");
	}
	text_add(out, "\n]\n");
}
