/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tree.h"

#include "base/scoped.h"
#include <stdlib.h>

/*
 * An AVL tree. `balance` is height(right) - height(left), -1, 0 or 1 between calls. AVL rather than
 * red-black: the code is shorter, and extent and dirty maps are looked up more often than changed.
 */

struct tree_node *tree_find(const struct tree *t, uint64_t key)
{
	struct tree_node *n = t->root;

	while (n && n->key != key)
		n = key < n->key ? n->left : n->right;
	return n;
}

struct tree_node *tree_floor(const struct tree *t, uint64_t key)
{
	struct tree_node *n = t->root, *best = NULL;

	while (n) {
		if (n->key <= key) {
			best = n;
			n = n->right;
		} else {
			n = n->left;
		}
	}
	return best;
}

struct tree_node *tree_ceil(const struct tree *t, uint64_t key)
{
	struct tree_node *n = t->root, *best = NULL;

	while (n) {
		if (n->key >= key) {
			best = n;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return best;
}

static struct tree_node *tree_leftmost(struct tree_node *n)
{
	while (n && n->left)
		n = n->left;
	return n;
}

static struct tree_node *tree_rightmost(struct tree_node *n)
{
	while (n && n->right)
		n = n->right;
	return n;
}

struct tree_node *tree_first(const struct tree *t)
{
	return tree_leftmost(t->root);
}

struct tree_node *tree_last(const struct tree *t)
{
	return tree_rightmost(t->root);
}

struct tree_node *tree_next(const struct tree_node *n)
{
	if (n->right)
		return tree_leftmost(n->right);
	while (n->parent && n == n->parent->right)
		n = n->parent;
	return n->parent;
}

struct tree_node *tree_prev(const struct tree_node *n)
{
	if (n->left)
		return tree_rightmost(n->left);
	while (n->parent && n == n->parent->left)
		n = n->parent;
	return n->parent;
}

/* Puts `to` (may be NULL) where `n` hangs. */
static void tree_replace(struct tree *t, const struct tree_node *n, struct tree_node *to)
{
	if (!n->parent)
		t->root = to;
	else if (n->parent->left == n)
		n->parent->left = to;
	else
		n->parent->right = to;
	if (to)
		to->parent = n->parent;
}

static struct tree_node *tree_rotate_left(struct tree *t, struct tree_node *n)
{
	struct tree_node *r = n->right;

	tree_replace(t, n, r);
	n->right = r->left;
	if (n->right)
		n->right->parent = n;
	r->left = n;
	n->parent = r;
	n->balance -= 1 + MAX(r->balance, 0);
	r->balance -= 1 - MIN(n->balance, 0);
	return r;
}

static struct tree_node *tree_rotate_right(struct tree *t, struct tree_node *n)
{
	struct tree_node *l = n->left;

	tree_replace(t, n, l);
	n->left = l->right;
	if (n->left)
		n->left->parent = n;
	l->right = n;
	n->parent = l;
	n->balance += 1 - MIN(l->balance, 0);
	l->balance += 1 + MAX(n->balance, 0);
	return l;
}

/* n->balance is -2 or 2; returns the node that is now on top. */
static struct tree_node *tree_fix(struct tree *t, struct tree_node *n)
{
	if (n->balance > 0) {
		if (n->right->balance < 0)
			tree_rotate_right(t, n->right);
		return tree_rotate_left(t, n);
	}
	if (n->left->balance > 0)
		tree_rotate_left(t, n->left);
	return tree_rotate_right(t, n);
}

bool tree_insert(struct tree *t, struct tree_node *n)
{
	struct tree_node *p = NULL, **at = &t->root;

	while (*at) {
		p = *at;
		if (p->key == n->key)
			return false;
		at = n->key < p->key ? &p->left : &p->right;
	}
	n->parent = p;
	n->left = n->right = NULL;
	n->balance = 0;
	*at = n;
	t->n++;
	/* Upwards while the subtree has grown. */
	for (; p; n = p, p = p->parent) {
		p->balance += n == p->right ? 1 : -1;
		if (p->balance == 0)
			break;
		if (p->balance == 2 || p->balance == -2) {
			tree_fix(t, p);
			break;
		}
	}
	return true;
}

/* The subtree of p on side `dir` (1: right, -1: left) has lost a level. */
static void tree_shrink(struct tree *t, struct tree_node *p, int dir)
{
	while (p) {
		struct tree_node *up;

		p->balance -= dir;
		if (p->balance == 1 || p->balance == -1)
			return;
		if (p->balance) {
			p = tree_fix(t, p);
			if (p->balance)
				return;
		}
		up = p->parent;
		if (up)
			dir = p == up->right ? 1 : -1;
		p = up;
	}
}

void tree_remove(struct tree *t, struct tree_node *n)
{
	struct tree_node *next, *p;
	int dir;

	t->n--;
	if (!n->left || !n->right) {
		p = n->parent;
		dir = p && p->right == n ? 1 : -1;
		tree_replace(t, n, n->left ? n->left : n->right);
		tree_shrink(t, p, dir);
		return;
	}
	/* Two children: the successor, which has no left one, takes the place and the balance of n. */
	next = tree_leftmost(n->right);
	p = next->parent == n ? next : next->parent;
	dir = next->parent == n ? 1 : -1;
	if (next->parent != n) {
		tree_replace(t, next, next->right);
		next->right = n->right;
		next->right->parent = next;
	}
	tree_replace(t, n, next);
	next->left = n->left;
	next->left->parent = next;
	next->balance = n->balance;
	tree_shrink(t, p, dir);
}

static int tree_check_node(const struct tree_node *n, size_t *count)
{
	int l, r;

	if (!n)
		return 0;
	if (n->left && (n->left->parent != n || n->left->key >= n->key))
		abort();
	if (n->right && (n->right->parent != n || n->right->key <= n->key))
		abort();
	l = tree_check_node(n->left, count);
	r = tree_check_node(n->right, count);
	if (n->balance != r - l || n->balance > 1 || n->balance < -1)
		abort();
	++*count;
	return 1 + MAX(l, r);
}

void tree_check(const struct tree *t)
{
	size_t count = 0;

	if (t->root && t->root->parent)
		abort();
	tree_check_node(t->root, &count);
	if (count != t->n)
		abort();
	for (const struct tree_node *n = tree_first(t), *prev = NULL; n; prev = n, n = tree_next(n))
		if (prev && prev->key >= n->key)
			abort();
}
