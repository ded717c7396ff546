/* SPDX-License-Identifier: Apache-2.0 */
#include "io/dirty.h"
#include "base/fault.h"
#include "base/range.h"
#include "base/scoped.h"
#include <string.h>

#define RUN_SMALL (UINT64_C(256) << 10)	/* a run's buffers when memory is getting short */
#define NODE(t) ((struct dirty_node *)(t))	/* tree is the first member, NULL stays NULL */

void dirty_init(struct dirty *d, struct budget *b)
{
	*d = (struct dirty){ .budget = b, .last_end = UINT64_MAX };
}

static void node_free(struct dirty_node *n)
{
	buf_unref(n->buf);
	free(n);
}

/* Nodes that are in no tree yet, linked by tree.right. */
static void list_free(struct dirty_node *n)
{
	while (n) {
		struct dirty_node *next = NODE(n->tree.right);

		node_free(n);
		n = next;
	}
}

static void count(struct dirty *d, unsigned state, uint64_t bytes)
{
	d->bytes[state] += bytes;
	d->nodes[state]++;
}

static void uncount(struct dirty *d, unsigned state, uint64_t bytes)
{
	d->bytes[state] -= bytes;
	d->nodes[state]--;
}

static void node_insert(struct dirty *d, struct dirty_node *n)
{
	count(d, n->state, n->len);
	(void)tree_insert(&d->tree, &n->tree);
}

static void node_remove(struct dirty *d, struct dirty_node *n)
{
	uncount(d, n->state, n->len);
	tree_remove(&d->tree, &n->tree);
	node_free(n);
}

static void set_state(struct dirty *d, struct dirty_node *n, enum dirty_state s)
{
	uncount(d, n->state, n->len);
	n->state = s;
	count(d, s, n->len);
}

void dirty_done(struct dirty *d)
{
	struct dirty_node *n;

	while ((n = NODE(tree_first(&d->tree))))
		node_remove(d, n);
}

struct dirty_node *dirty_next(const struct dirty *d, uint64_t from)
{
	struct dirty_node *n = NODE(tree_floor(&d->tree, from));

	if (n && dirty_end(n) > from)
		return n;
	return n ? dirty_after(n) : NODE(tree_first(&d->tree));
}

int dirty_cut(struct dirty *d, uint64_t at)
{
	struct dirty_node *n = NODE(tree_floor(&d->tree, at)), *right;
	uint64_t left;

	if (!n || dirty_off(n) == at || dirty_end(n) <= at)
		return 0;
	right = mem_alloc(sizeof(*right));
	if (!right)
		return -ENOMEM;
	left = at - dirty_off(n);
	*right = *n;
	right->tree.key = at;
	right->len = n->len - left;
	right->seg_off += left;
	if (n->buf) {
		right->buf = buf_ref(n->buf);
		right->at += (uint32_t)left;
	}
	d->bytes[n->state] -= right->len;
	n->len = left;
	n->room = 0;
	node_insert(d, right);
	return 0;
}

int dirty_clip(struct dirty *d, struct tess_range r)
{
	uint64_t end = r.off + r.len;
	struct dirty_node *n = dirty_next(d, r.off), *next;
	int e;

	if (!n || dirty_off(n) >= end)
		return 0;
	e = dirty_cut(d, r.off);
	if (e == 0)
		e = dirty_cut(d, end);
	if (e < 0)
		return e;
	for (n = dirty_next(d, r.off); n && dirty_off(n) < end; n = next) {
		next = dirty_after(n);
		node_remove(d, n);
	}
	return 0;
}

/*
 * A write alone gets what it needs; one that continues another gets twice what that one got, so
 * that memory stays within a factor of what was written and a long run needs few buffers. Powers of
 * two, because buffers of those sizes are used again.
 */
static uint64_t buffer_want(const struct dirty *d, uint64_t need, uint64_t before, uint64_t segment)
{
	uint64_t cap = MIN(before * 2, segment), lone = round_up(need, TESS_BLOCK);

	/* Many files at once: what each one has in hand must not add up to the budget. */
	if (d->budget && budget_used(d->budget, MEM_DIRTY) > budget_limit(d->budget) / 4)
		cap = MIN(cap, MAX(RUN_SMALL, d->bytes[DIRTY_MEM] + d->bytes[DIRTY_FROZEN]));
	cap = MAX(cap, lone);
	return cap < RUN_SMALL / 4 ? cap : UINT64_C(1) << (64 - __builtin_clzll(cap - 1));
}

/* Nodes for `r`, one for each multiple of `segment` that it touches. */
static struct dirty_node *new_nodes(struct dirty *d, struct tess_range r, const char *p,
				    uint64_t segment, uint64_t turn, uint64_t before)
{
	struct dirty_node *first = NULL, **tail = &first;

	while (r.len > 0) {
		uint64_t room = segment - r.off % segment, len = MIN(r.len, room);
		uint64_t want = buffer_want(d, len, before, segment);
		uint64_t cap = MIN(want, round_up(room, TESS_BLOCK));
		struct dirty_node *n = mem_alloc(sizeof(*n));

		if (!n)
			goto fail;
		*n = (struct dirty_node){ .tree.key = r.off, .len = len, .turn = turn };
		n->buf = buf_new(d->budget, MEM_DIRTY, cap);
		if (!n->buf) {
			free(n);
			goto fail;
		}
		n->room = (uint32_t)(n->buf->cap - len);
		memcpy(n->buf->data, p, len);
		*tail = n;
		tail = (struct dirty_node **)&n->tree.right;
		r.off += len;
		r.len -= len;
		p += len;
		d->next_cap = before = want;
	}
	return first;
fail:
	list_free(first);
	return NULL;
}

/* Bytes that may be appended to n in its buffer. */
static uint64_t appendable(const struct dirty_node *n, uint64_t off)
{
	return n && n->state == DIRTY_MEM && dirty_end(n) == off ? n->room : 0;
}

static void append(struct dirty *d, struct dirty_node *n, const void *p, uint64_t len)
{
	memcpy(n->buf->data + n->at + n->len, p, len);
	n->len += len;
	n->room -= (uint32_t)len;
	d->bytes[DIRTY_MEM] += len;
}

/* A node of another turn for the room of n's buffer, which stays n's until it is in. */
static struct dirty_node *node_behind(const struct dirty_node *n, const void *p, uint64_t len, uint64_t turn)
{
	struct dirty_node *b = mem_alloc(sizeof(*b));

	if (!b)
		return NULL;
	*b = (struct dirty_node){ .tree.key = dirty_end(n), .len = len, .buf = buf_ref(n->buf),
				  .at = n->at + (uint32_t)n->len, .room = n->room - (uint32_t)len,
				  .turn = turn };
	memcpy(b->buf->data + b->at, p, len);
	return b;
}

/* `n`: the last node that starts at or before r. */
static int write_new(struct dirty *d, struct dirty_node *n, struct tess_range r, const char *p,
		     uint64_t segment, uint64_t turn)
{
	struct dirty_node *fresh = NULL, *next = n ? dirty_after(n) : NODE(tree_first(&d->tree)), *b;
	uint64_t use = MIN(appendable(n, r.off), r.len), before = 0;
	struct tess_range rest = { r.off + use, r.len - use };
	bool clear = (!n || dirty_end(n) <= r.off) && (!next || dirty_off(next) >= r.off + r.len);

	if (d->last_end == r.off)
		before = d->last_cap;
	else if (n && n->state == DIRTY_MEM && dirty_end(n) == r.off)
		before = n->buf->cap;
	if (rest.len > 0) {
		fresh = new_nodes(d, rest, p + use, segment, turn, before);
		if (!fresh)
			return -ENOMEM;
	}
	if (use > 0 && n->turn != turn) {
		b = node_behind(n, p, use, turn);
		if (!b) {
			list_free(fresh);
			return -ENOMEM;
		}
		b->tree.right = (struct tree_node *)fresh;
		fresh = b;
	}
	if (!clear && dirty_clip(d, r) < 0) {
		list_free(fresh);
		return -ENOMEM;
	}
	if (use > 0 && n->turn == turn)
		append(d, n, p, use);
	else if (use > 0)
		n->room = 0;
	for (; fresh; fresh = next) {
		next = NODE(fresh->tree.right);
		d->last_cap = d->next_cap;
		node_insert(d, fresh);
	}
	return 0;
}

int dirty_write(struct dirty *d, struct tess_range r, const void *p, uint64_t segment, uint64_t turn)
{
	struct dirty_node *n = NODE(tree_floor(&d->tree, r.off));
	int e = 0;

	if (n && n->state == DIRTY_MEM && !n->pinned && n->turn == turn && dirty_end(n) >= r.off + r.len)
		memcpy(n->buf->data + n->at + (r.off - dirty_off(n)), p, r.len);
	else
		e = write_new(d, n, r, p, segment, turn);
	if (e == 0)
		d->last_end = r.off + r.len;
	return e;
}

int dirty_ranges(const struct dirty *d, struct tess_range **ret, unsigned *ret_n)
{
	struct tess_range *a = mem_array(d->nodes[DIRTY_MEM] + 1, sizeof(*a));
	unsigned n = 0;

	if (!a)
		return -ENOMEM;
	for (struct dirty_node *x = NODE(tree_first(&d->tree)); x; x = dirty_after(x)) {
		if (x->state != DIRTY_MEM)
			continue;
		if (n > 0 && a[n - 1].off + a[n - 1].len == dirty_off(x))
			a[n - 1].len += x->len;
		else
			a[n++] = (struct tess_range){ dirty_off(x), x->len };
	}
	*ret = a;
	*ret_n = n;
	return 0;
}

void dirty_freeze(struct dirty *d, struct dirty_node *n, uint64_t flush, tess_segid seg,
		  uint64_t seg_off)
{
	n->flush = flush;
	n->seg = seg;
	n->seg_off = seg_off;
	set_state(d, n, DIRTY_FROZEN);
}

int dirty_fill(struct dirty *d, struct tess_range r, struct buf *b, const struct dirty_node *like)
{
	uint64_t at = r.off, end = r.off + r.len;

	while (at < end) {
		struct dirty_node *next = dirty_next(d, at), *n;
		uint64_t stop = next && dirty_off(next) < end ? dirty_off(next) : end;

		if (next && dirty_off(next) <= at) {
			at = dirty_end(next);
			continue;
		}
		n = mem_alloc(sizeof(*n));
		if (!n)
			return -ENOMEM;
		*n = (struct dirty_node){ .tree.key = at, .len = stop - at, .buf = buf_ref(b),
					  .at = (uint32_t)(at - r.off), .flush = like->flush,
					  .seg = like->seg, .seg_off = like->seg_off + (at - r.off),
					  .turn = like->turn,
					  .state = DIRTY_FROZEN, .pinned = true, .fill = true };
		node_insert(d, n);
		at = stop;
	}
	return 0;
}

void dirty_settle(struct dirty *d, struct tess_range r, uint64_t flush, bool stored)
{
	struct dirty_node *n = dirty_next(d, r.off), *next;

	for (; n && dirty_off(n) < r.off + r.len; n = next) {
		next = dirty_after(n);
		if (n->state != DIRTY_FROZEN || n->flush != flush)
			continue;
		if (stored) {
			set_state(d, n, DIRTY_STORED);
			buf_unref(steal_ptr(n->buf));
			n->room = 0;
		} else if (n->fill) {
			node_remove(d, n);
		} else {
			set_state(d, n, DIRTY_MEM);
		}
	}
}

void dirty_publish(struct dirty *d, const struct tess_extent *e)
{
	struct dirty_node *n = dirty_next(d, e->off), *next;

	for (; n && dirty_off(n) < e->off + e->len; n = next) {
		next = dirty_after(n);
		/* The same bytes of the same segment, even if the node was cut or is longer now. */
		if (n->state == DIRTY_STORED && n->seg == e->seg && dirty_off(n) >= e->off &&
		    dirty_end(n) <= e->off + e->len &&
		    n->seg_off - e->seg_off == dirty_off(n) - e->off)
			node_remove(d, n);
	}
}

static void require(bool ok)
{
	if (!ok)
		abort();
}

void dirty_check(const struct dirty *d)
{
	uint64_t bytes[DIRTY_NSTATES] = { 0 }, nodes[DIRTY_NSTATES] = { 0 }, end = 0;

	tree_check(&d->tree);
	for (struct dirty_node *n = NODE(tree_first(&d->tree)); n; n = dirty_after(n)) {
		require(n->len > 0 && dirty_off(n) >= end && n->state < DIRTY_NSTATES);
		require((n->state == DIRTY_STORED) == (n->buf == NULL));
		require(!n->buf || (uint64_t)n->at + n->len + n->room <= n->buf->cap);
		end = dirty_end(n);
		bytes[n->state] += n->len;
		nodes[n->state]++;
	}
	for (unsigned s = 0; s < DIRTY_NSTATES; s++)
		require(bytes[s] == d->bytes[s] && nodes[s] == d->nodes[s]);
}
