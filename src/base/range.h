/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RANGE_H
#define BASE_RANGE_H
/* Half-open range arithmetic with overflow checks, and a set of disjoint ranges. */
#include "base/tree.h"
#include <stdbool.h>
#include <tessera/types.h>

/* off + len, or false when it passes UINT64_MAX. */
static inline bool range_end(struct tess_range r, uint64_t *ret_end)
{
	return !__builtin_add_overflow(r.off, r.len, ret_end);
}
bool range_intersect(struct tess_range a, struct tess_range b, struct tess_range *ret);	/* false: empty */
static inline uint64_t round_up(uint64_t x, uint64_t to)	/* `to` a power of two; caller knows it fits */
{
	return (x + to - 1) & ~(to - 1);
}
static inline uint64_t round_down(uint64_t x, uint64_t to)
{
	return x & ~(to - 1);
}

struct range_set {
	struct tree tree;	/* nodes owned; adjacent ranges are merged */
};
void range_set_done(struct range_set *s);
int  range_set_add(struct range_set *s, struct tess_range r);		/* 0, or -ENOMEM, -EOVERFLOW: unchanged */
int  range_set_remove(struct range_set *s, struct tess_range r);	/* may split: the same */
bool range_set_has(const struct range_set *s, struct tess_range r);	/* all of r */
/* The first range that ends after `from`. */
bool range_set_next(const struct range_set *s, uint64_t from, struct tess_range *ret);
uint64_t range_set_bytes(const struct range_set *s);
#endif
