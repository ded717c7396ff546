/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_BUDGET_H
#define BASE_BUDGET_H
/*
 * One memory budget for everything that grows with load: write buffers, read-ahead, caches.
 * Cache memory is what is given back first: when a writer must wait, the reclaim callback is asked.
 */
#include "base/req.h"
#include <stdbool.h>
#include <stdint.h>

enum mem_use { MEM_DIRTY, MEM_CACHE, MEM_IO, MEM_NUSES };

struct budget;
/*
 * limit 0: the default, a quarter of the smaller of physical memory and cgroup (v1 or v2) limit,
 * 64 MiB to 4 GiB.
 */
int  budget_new(struct budget **ret, uint64_t limit);
void budget_free(struct budget *b);
uint64_t budget_limit(const struct budget *b);
uint64_t budget_used(const struct budget *b, enum mem_use use);
void budget_charge(struct budget *b, enum mem_use use, uint64_t n);	/* never blocks, may pass the limit */
void budget_credit(struct budget *b, enum mem_use use, uint64_t n);	/* wakes waiters */
/* MEM_DIRTY: more than half of the limit; MEM_IO: a quarter; MEM_CACHE: all together more than the limit. */
bool budget_over(const struct budget *b, enum mem_use use);
/*
 * Waits until MEM_DIRTY is below its share or `deadline`; calls reclaim first, and `kick` (the flusher) on
 * each wait. 0, or -ETIMEDOUT. Called with no lock held.
 */
int  budget_wait_dirty(struct budget *b, const struct tess_req *req, int64_t deadline);
void budget_set_reclaim(struct budget *b, void (*reclaim)(void *, uint64_t want), void (*kick)(void *), void *arg);
#endif
