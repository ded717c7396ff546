/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LIST_H
#define BASE_LIST_H
/* Intrusive doubly linked ring. A node that is in no list points at itself (list_init) . */
#include "base/scoped.h"
#include <stdbool.h>
#include <stddef.h>

struct list_node {
	struct list_node *next, *prev;
};
#define LIST_INIT(name) { &(name), &(name) }
static inline void list_init(struct list_node *n)
{
	n->next = n->prev = n;
}
static inline bool list_empty(const struct list_node *h)
{
	return h->next == h;
}
static inline void list_insert_(struct list_node *n, struct list_node *prev, struct list_node *next)
{
	n->prev = prev;
	n->next = next;
	prev->next = n;
	next->prev = n;
}
static inline void list_push_back(struct list_node *h, struct list_node *n)
{
	list_insert_(n, h->prev, h);
}
static inline void list_push_front(struct list_node *h, struct list_node *n)
{
	list_insert_(n, h, h->next);
}
static inline void list_remove(struct list_node *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}
static inline struct list_node *list_pop_front(struct list_node *h)
{
	struct list_node *n = h->next;

	if (n == h)
		return NULL;
	list_remove(n);
	return n;
}
#define list_entry(n, type, member) container_of(n, type, member)
#define list_for_each(pos, h) for (struct list_node *pos = (h)->next; pos != (h); pos = pos->next)
#define list_for_each_safe(pos, tmp, h)                                                         \
	for (struct list_node *pos = (h)->next, *tmp = pos->next; pos != (h); pos = tmp, tmp = pos->next)
#endif
