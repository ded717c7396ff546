/* SPDX-License-Identifier: Apache-2.0 */
#include "base/range.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"

/* node.key is the start; ranges of a set neither overlap nor touch. */
struct range_node {
	struct tree_node node;
	uint64_t         end;
};

static struct range_node *range_of(struct tree_node *n)
{
	return n ? container_of(n, struct range_node, node) : NULL;
}

bool range_intersect(struct tess_range a, struct tess_range b, struct tess_range *ret)
{
	uint64_t off = MAX(a.off, b.off);
	uint64_t a_left, b_left;

	/* Differences instead of ends: nothing here can overflow. */
	if (off - a.off >= a.len || off - b.off >= b.len)
		return false;
	a_left = a.len - (off - a.off);
	b_left = b.len - (off - b.off);
	*ret = (struct tess_range){ .off = off, .len = MIN(a_left, b_left) };
	return true;
}

void range_set_done(struct range_set *s)
{
	struct tree_node *n;

	while ((n = s->tree.root)) {
		tree_remove(&s->tree, n);
		free(range_of(n));
	}
}

/* The first node that ends after, or with `touch` at, `from`. */
static struct range_node *range_set_seek(const struct range_set *s, uint64_t from, bool touch)
{
	struct tree_node *n = tree_floor(&s->tree, from);

	if (n && (range_of(n)->end > from || (touch && range_of(n)->end == from)))
		return range_of(n);
	return range_of(n ? tree_next(n) : tree_first(&s->tree));
}

static int range_set_insert(struct range_set *s, uint64_t off, uint64_t end)
{
	struct range_node *n = mem_alloc(sizeof(*n));

	if (!n)
		return -ENOMEM;
	n->node.key = off;
	n->end = end;
	tree_insert(&s->tree, &n->node);
	return 0;
}

int range_set_add(struct range_set *s, struct tess_range r)
{
	struct range_node *n, *next;
	uint64_t end;

	if (!range_end(r, &end))
		return -EOVERFLOW;
	if (!r.len)
		return 0;
	n = range_set_seek(s, r.off, true);
	if (!n || n->node.key > end)
		return range_set_insert(s, r.off, end);
	/* Grow the first one that is touched, then swallow what it reaches. Its order stays: nothing
	 * lies between the old and the new start. */
	n->node.key = MIN(n->node.key, r.off);
	n->end = MAX(n->end, end);
	while ((next = range_of(tree_next(&n->node))) && next->node.key <= n->end) {
		n->end = MAX(n->end, next->end);
		tree_remove(&s->tree, &next->node);
		free(next);
	}
	return 0;
}

int range_set_remove(struct range_set *s, struct tess_range r)
{
	struct range_node *n, *next;
	uint64_t end;

	if (!range_end(r, &end))
		return -EOVERFLOW;
	n = r.len ? range_set_seek(s, r.off, false) : NULL;
	if (n && n->node.key < r.off) {
		uint64_t old = n->end;

		if (old > end) {
			int err;

			/* The tail first: the set must not change when there is no memory. Its key is
			 * inside n for a moment, which the tree does not mind. */
			err = range_set_insert(s, end, old);
			if (err)
				return err;
		}
		n->end = r.off;
		if (old >= end)
			return 0;
		n = range_of(tree_next(&n->node));
	}
	for (; n && n->end <= end; n = next) {
		next = range_of(tree_next(&n->node));
		tree_remove(&s->tree, &n->node);
		free(n);
	}
	if (n && n->node.key < end)
		n->node.key = end;
	return 0;
}

bool range_set_has(const struct range_set *s, struct tess_range r)
{
	struct range_node *n;
	uint64_t end;

	if (!range_end(r, &end))
		return false;
	if (!r.len)
		return true;
	n = range_set_seek(s, r.off, false);
	return n && n->node.key <= r.off && n->end >= end;
}

bool range_set_next(const struct range_set *s, uint64_t from, struct tess_range *ret)
{
	struct range_node *n = range_set_seek(s, from, false);

	if (!n)
		return false;
	*ret = (struct tess_range){ .off = n->node.key, .len = n->end - n->node.key };
	return true;
}

uint64_t range_set_bytes(const struct range_set *s)
{
	uint64_t sum = 0;

	for (struct tree_node *n = tree_first(&s->tree); n; n = tree_next(n))
		sum += range_of(n)->end - n->key;
	return sum;
}
