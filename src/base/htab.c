/* SPDX-License-Identifier: Apache-2.0 */
#include "base/htab.h"

#include "base/err.h"
#include "base/fault.h"
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define HTAB_MIN 16

static size_t htab_slot(const struct htab *h, uint64_t key)
{
	return (size_t)hash64(key) & (h->nslots - 1);
}

int htab_init(struct htab *h, size_t hint)
{
	size_t n = HTAB_MIN;

	while (n < hint && n <= SIZE_MAX / 2 / sizeof(*h->slot))
		n *= 2;
	h->slot = mem_array(n, sizeof(*h->slot));
	h->nslots = h->slot ? n : 0;
	h->n = 0;
	return h->slot ? 0 : -ENOMEM;
}

void htab_done(struct htab *h)
{
	free(h->slot);
	*h = (struct htab){ 0 };
}

struct htab_node *htab_find(const struct htab *h, uint64_t key)
{
	struct htab_node *n = h->slot[htab_slot(h, key)];

	while (n && n->key != key)
		n = n->next;
	return n;
}

/* Without memory the chains only get longer. */
static void htab_grow(struct htab *h)
{
	struct htab bigger = { .nslots = h->nslots * 2, .n = h->n };

	bigger.slot = mem_array(bigger.nslots, sizeof(*bigger.slot));
	if (!bigger.slot)
		return;
	for (size_t i = 0; i < h->nslots; i++)
		while (h->slot[i]) {
			struct htab_node *n = h->slot[i], **to = &bigger.slot[htab_slot(&bigger, n->key)];

			h->slot[i] = n->next;
			n->next = *to;
			*to = n;
		}
	free(h->slot);
	*h = bigger;
}

void htab_insert(struct htab *h, struct htab_node *n)
{
	struct htab_node **to;

	if (h->n >= h->nslots)
		htab_grow(h);
	to = &h->slot[htab_slot(h, n->key)];
	n->next = *to;
	*to = n;
	h->n++;
}

void htab_remove(struct htab *h, struct htab_node *n)
{
	struct htab_node **p = &h->slot[htab_slot(h, n->key)];

	while (*p != n)
		p = &(*p)->next;
	*p = n->next;
	n->next = NULL;
	h->n--;
}

struct htab_node *htab_next(const struct htab *h, const struct htab_node *n)
{
	size_t i = 0;

	if (n) {
		if (n->next)
			return n->next;
		i = htab_slot(h, n->key) + 1;
	}
	for (; i < h->nslots; i++)
		if (h->slot[i])
			return h->slot[i];
	return NULL;
}

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, n, seed);
}
