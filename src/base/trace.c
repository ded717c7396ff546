/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trace.h"

#include "base/text.h"
#include <pthread.h>
#include <string.h>

static pthread_mutex_t trace_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct trace_group *trace_groups;

/* At the end: a dump lists groups in the order in which their owners were made. */
void trace_register(struct trace_group *g)
{
	struct trace_group **p = &trace_groups;

	pthread_mutex_lock(&trace_mutex);
	while (*p)
		p = &(*p)->next;
	g->next = NULL;
	*p = g;
	pthread_mutex_unlock(&trace_mutex);
}

void trace_unregister(struct trace_group *g)
{
	pthread_mutex_lock(&trace_mutex);
	for (struct trace_group **p = &trace_groups; *p; p = &(*p)->next)
		if (*p == g) {
			*p = g->next;
			break;
		}
	pthread_mutex_unlock(&trace_mutex);
}

void trace_lat(struct trace_hist *h, int64_t ns)
{
	uint64_t v = ns > 0 ? (uint64_t)ns : 0;
	unsigned i = v > 1 ? 63 - (unsigned)__builtin_clzll(v) : 0;

	if (i >= TRACE_BUCKETS)
		i = TRACE_BUCKETS - 1;
	atomic_fetch_add_explicit(&h->bucket[i], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->sum_ns, v, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->n, 1, memory_order_relaxed);
}

/* The buckets' own sum is the population: `n` may be ahead of or behind them while threads add. */
uint64_t trace_quantile(const struct trace_hist *h, double q)
{
	uint64_t b[TRACE_BUCKETS], n = 0, seen = 0;
	double want;

	for (unsigned i = 0; i < TRACE_BUCKETS; i++) {
		b[i] = atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
		n += b[i];
	}
	if (!n)
		return 0;
	want = q * (double)n;
	for (unsigned i = 0; i < TRACE_BUCKETS; i++) {
		seen += b[i];
		if ((double)seen >= want)
			return UINT64_C(1) << (i + 1);
	}
	return UINT64_C(1) << TRACE_BUCKETS;
}

static void trace_dump_hist(struct text *out, const char *prefix, const struct trace_hist *h, int json)
{
	unsigned long long n = atomic_load_explicit(&h->n, memory_order_relaxed);
	unsigned long long sum = atomic_load_explicit(&h->sum_ns, memory_order_relaxed);
	unsigned long long p50 = trace_quantile(h, 0.5), p99 = trace_quantile(h, 0.99);

	if (json)
		text_fmt(out, "{\"n\":%llu,\"mean_ns\":%llu,\"p50_ns\":%llu,\"p99_ns\":%llu}", n,
			 n ? sum / n : 0, p50, p99);
	else
		text_fmt(out, "%s.%s n %llu mean_us %.1f p50_us %.1f p99_us %.1f\n", prefix, h->name, n,
			 n ? (double)sum / (double)n / 1e3 : 0.0, (double)p50 / 1e3, (double)p99 / 1e3);
}

static void trace_dump_group(struct text *out, const struct trace_group *g, int json)
{
	const char *comma = "";

	if (json) {
		text_json(out, g->name, strlen(g->name));
		text_add(out, ":{");
	}
	for (unsigned i = 0; i < g->ncounters; i++) {
		const struct trace_counter *c = &g->counters[i];
		unsigned long long v = atomic_load_explicit(&c->n, memory_order_relaxed);

		text_fmt(out, json ? "%s\"%s\":%llu" : "%s.%s %llu\n", json ? comma : g->name, c->name, v);
		comma = ",";
	}
	for (unsigned i = 0; i < g->nhists; i++) {
		if (json)
			text_fmt(out, "%s\"%s\":", comma, g->hists[i].name);
		trace_dump_hist(out, g->name, &g->hists[i], json);
		comma = ",";
	}
	if (json)
		text_add(out, "}");
}

void trace_dump(struct text *out, int json)
{
	if (json)
		text_add(out, "{");
	pthread_mutex_lock(&trace_mutex);
	for (const struct trace_group *g = trace_groups; g; g = g->next) {
		trace_dump_group(out, g, json);
		if (json && g->next)
			text_add(out, ",");
	}
	pthread_mutex_unlock(&trace_mutex);
	if (json)
		text_add(out, "}");
}

static void trace_raw_group(struct text *out, const struct trace_group *g)
{
	for (unsigned i = 0; i < g->ncounters; i++)
		text_fmt(out, "%s.%s %llu\n", g->name, g->counters[i].name,
			 (unsigned long long)atomic_load_explicit(&g->counters[i].n,
								  memory_order_relaxed));
	for (unsigned i = 0; i < g->nhists; i++) {
		const struct trace_hist *h = &g->hists[i];

		text_fmt(out, "%s.%s %llu %llu", g->name, h->name,
			 (unsigned long long)atomic_load_explicit(&h->n, memory_order_relaxed),
			 (unsigned long long)atomic_load_explicit(&h->sum_ns, memory_order_relaxed));
		for (unsigned b = 0; b < TRACE_BUCKETS; b++)
			text_fmt(out, " %llu",
				 (unsigned long long)atomic_load_explicit(&h->bucket[b],
									  memory_order_relaxed));
		text_add(out, "\n");
	}
}

void trace_dump_raw(struct text *out)
{
	pthread_mutex_lock(&trace_mutex);
	for (const struct trace_group *g = trace_groups; g; g = g->next)
		trace_raw_group(out, g);
	pthread_mutex_unlock(&trace_mutex);
}
