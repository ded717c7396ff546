/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TREE_H
#define BASE_TREE_H
/*
 * Intrusive balanced search tree keyed by uint64_t (a red-black or AVL tree; callers see only this).
 * Keys are unique. O(log n) find, insert, remove; in-order steps amortised O(1). Not locked.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_node {
	struct tree_node *parent, *left, *right;
	uint64_t          key;
	int               balance;
};
struct tree {
	struct tree_node *root;
	size_t            n;
};
#define TREE_INIT { NULL, 0 }

struct tree_node *tree_find(const struct tree *t, uint64_t key);	/* exact, or NULL */
struct tree_node *tree_floor(const struct tree *t, uint64_t key);	/* greatest key <= key, or NULL */
struct tree_node *tree_ceil(const struct tree *t, uint64_t key);	/* least key >= key, or NULL */
struct tree_node *tree_first(const struct tree *t);
struct tree_node *tree_last(const struct tree *t);
struct tree_node *tree_next(const struct tree_node *n);
struct tree_node *tree_prev(const struct tree_node *n);
/* n->key is set by the caller. Returns false, and inserts nothing, when the key is there already. */
bool tree_insert(struct tree *t, struct tree_node *n);
void tree_remove(struct tree *t, struct tree_node *n);
/* Aborts when order or balance is broken: for tests and debug builds. */
void tree_check(const struct tree *t);
#endif
