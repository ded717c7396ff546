/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/pages.h"
#include "base/range.h"
#include "base/scoped.h"
#include <string.h>

struct buf *buf_new(struct budget *budget, enum mem_use use, size_t cap)
{
	scoped_free struct buf *b = mem_alloc(sizeof(*b));

	if (!b || cap > SIZE_MAX / 2)
		return NULL;
	cap = cap ? round_up(cap, 4096) : 4096;
	b->data = pages_take(cap);
	if (!b->data)
		return NULL;
	b->cap = cap;
	b->use = use;
	b->budget = budget;
	atomic_init(&b->refs, 1);
	if (budget)
		budget_charge(budget, use, cap);
	return steal_ptr(b);
}

struct buf *buf_ref(struct buf *b)
{
	atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	return b;
}

void buf_unref(struct buf *b)
{
	struct budget *budget;
	enum mem_use use;
	size_t cap;

	if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) > 1)
		return;
	budget = b->budget;
	use = b->use;
	cap = b->cap;
	pages_give(b->data, cap);
	free(b);
	/* Last: a waiter that this wakes may allocate at once. */
	if (budget)
		budget_credit(budget, use, cap);
}

struct iov_cursor {
	const struct tess_iov *src;
	unsigned               i;
	uint64_t               skip;	/* within iov[i], or beyond it */
};

/* The next contiguous part, at most n bytes long; 0 at the end of src or when n is 0. */
static size_t iov_next(struct iov_cursor *c, uint64_t n, char **ret_at)
{
	for (; n && c->i < c->src->n; c->i++) {
		const struct iovec *v = &c->src->iov[c->i];
		size_t part;

		if (c->skip >= v->iov_len) {
			c->skip -= v->iov_len;
			continue;
		}
		part = (size_t)MIN((uint64_t)(v->iov_len - c->skip), n);
		*ret_at = (char *)v->iov_base + c->skip;
		c->skip += part;
		return part;
	}
	return 0;
}

size_t iov_copy_out(void *dst, const struct tess_iov *src, uint64_t skip, size_t n)
{
	struct iov_cursor c = { .src = src, .skip = skip };
	size_t done = 0, part;
	char *at;

	for (; (part = iov_next(&c, n - done, &at)); done += part)
		memcpy((char *)dst + done, at, part);
	return done;
}

size_t iov_copy_in(const struct tess_iov *dst, uint64_t skip, const void *src, size_t n)
{
	struct iov_cursor c = { .src = dst, .skip = skip };
	size_t done = 0, part;
	char *at;

	for (; (part = iov_next(&c, n - done, &at)); done += part)
		memcpy(at, (const char *)src + done, part);
	return done;
}

size_t iov_zero(const struct tess_iov *dst, uint64_t skip, size_t n)
{
	struct iov_cursor c = { .src = dst, .skip = skip };
	size_t done = 0, part;
	char *at;

	for (; (part = iov_next(&c, n - done, &at)); done += part)
		memset(at, 0, part);
	return done;
}

int iov_slice(const struct tess_iov *src, uint64_t skip, uint64_t n, struct iovec *ret, unsigned *nret)
{
	struct iov_cursor c = { .src = src, .skip = skip };
	unsigned used = 0;
	size_t part;
	char *at;

	for (; (part = iov_next(&c, n, &at)); n -= part) {
		if (used == *nret)
			return -E2BIG;
		ret[used++] = (struct iovec){ .iov_base = at, .iov_len = part };
	}
	*nret = used;
	return 0;
}
