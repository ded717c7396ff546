/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H
/*
 * Counters and latency histograms. They are plain structs that belong to the object they describe
 * (a store, the io layer, …) and are listed in a registry, so that `tessera stats` can print all of
 * them. Adding is one relaxed atomic add; never a lock.
 */
#include <stdatomic.h>
#include <stdint.h>

struct text;

struct trace_counter {
	const char          *name;	/* static or owned by the group's owner: "put.bytes" */
	atomic_uint_fast64_t n;
};

#define TRACE_BUCKETS 40	/* bucket i counts latencies in [2^i, 2^(i+1)) ns */
struct trace_hist {
	const char          *name;
	atomic_uint_fast64_t n, sum_ns, bucket[TRACE_BUCKETS];
};

/* A named set of both ("store.kv0", "io", "fs"). Registered while its owner lives. */
struct trace_group {
	char                  name[32];
	struct trace_counter *counters;	/* borrowed array */
	unsigned              ncounters;
	struct trace_hist    *hists;	/* borrowed array */
	unsigned              nhists;
	struct trace_group   *next;
};
void trace_register(struct trace_group *g);
void trace_unregister(struct trace_group *g);

static inline void trace_add(struct trace_counter *c, uint64_t n)
{
	atomic_fetch_add_explicit(&c->n, n, memory_order_relaxed);
}
/* A level, such as a queue's length. */
static inline void trace_set(struct trace_counter *c, uint64_t n)
{
	atomic_store_explicit(&c->n, n, memory_order_relaxed);
}
void trace_lat(struct trace_hist *h, int64_t ns);
/* Upper bound, ns, of quantile q in (0, 1]; 0 when empty. */
uint64_t trace_quantile(const struct trace_hist *h, double q);
/* All groups as "group.name value" lines, or as one JSON object. */
void trace_dump(struct text *out, int json);
/* For a reader who takes differences: "group.name value", "group.hist n sum_ns bucket0 bucket1 …". */
void trace_dump_raw(struct text *out);
#endif
