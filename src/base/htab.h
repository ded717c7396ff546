/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HTAB_H
#define BASE_HTAB_H
/* Intrusive chained hash table keyed by uint64_t; grows by doubling; not locked. */
#include <stddef.h>
#include <stdint.h>

struct htab_node {
	struct htab_node *next;
	uint64_t          key;
};
struct htab {
	struct htab_node **slot;	/* owned */
	size_t             nslots, n;
};
int  htab_init(struct htab *h, size_t hint);	/* 0 or -ENOMEM */
void htab_done(struct htab *h);			/* nodes are the caller's */
struct htab_node *htab_find(const struct htab *h, uint64_t key);
void htab_insert(struct htab *h, struct htab_node *n);	/* key must be absent; never fails: growth is optional */
void htab_remove(struct htab *h, struct htab_node *n);	/* n must be in h */
struct htab_node *htab_next(const struct htab *h, const struct htab_node *n);	/* any order; NULL starts and ends */

static inline uint64_t hash64(uint64_t x)	/* splitmix64's finaliser: Steele et al., OOPSLA 2014 */
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}
uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);	/* XXH3 of libxxhash: stable across hosts */
#endif
