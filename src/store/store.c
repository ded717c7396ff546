/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/lock.h"
#include "base/text.h"

#include <assert.h>
#include <string.h>

/*
 * The front. A defect of a caller or of a store stops here, with the op at hand, and not three
 * layers later as a file with the wrong bytes.
 */

static bool name_char_ok(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '_' || c == '-';
}

int store_key_set(struct tess_key *k, const char *name)
{
	size_t n = strlen(name);

	if (n > STORE_NAME_MAX)
		return -ENAMETOOLONG;
	if (n == 0)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (!name_char_ok(name[i]))
			return -EINVAL;
	}
	memcpy(k->name, name, n + 1);
	return 0;
}

const char *store_code_name(enum store_code code)
{
	static const char *const names[STORE_NCODES] = { "put", "get", "head", "del", "list" };

	return code < STORE_NCODES ? names[code] : "?";
}

int store_fault(enum store_code code)
{
	switch (code) {
	case STORE_PUT:
		return fault_point("store.put");
	case STORE_GET:
		return fault_point("store.get");
	case STORE_HEAD:
		return fault_point("store.head");
	case STORE_DEL:
		return fault_point("store.del");
	case STORE_LIST:
		return fault_point("store.list");
	case STORE_NCODES:
		break;
	}
	return -EINVAL;
}

void store_dispatch(struct store *s, struct store_op *op, const store_verb verbs[STORE_NCODES])
{
	int r = store_fault(op->code);

	if (r < 0)
		store_op_done(op, r);
	else
		verbs[op->code](s, op);
}

static uint64_t iov_sum(const struct tess_iov *v)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < v->n; i++)
		sum += v->iov[i].iov_len;
	return sum;
}

static void op_assert(const struct store *s, const struct store_op *op)
{
	assert(s && s->ops && s->ops->submit);
	assert(op && op->req && op->done);
	assert(op->code < STORE_NCODES);
	if (op->code == STORE_LIST) {
		assert(op->list && op->list->max > 0 && op->list->keys && op->list->infos);
		return;
	}
	assert(op->key.name[0] && memchr(op->key.name, 0, sizeof(op->key.name)));
	if (op->code == STORE_GET)
		assert(op->range.len > 0 && op->range.len == op->data.len &&
		       op->range.off + op->range.len > op->range.off);
	if (op->code == STORE_PUT || op->code == STORE_GET)
		assert(iov_sum(&op->data) == op->data.len);
}

void store_submit(struct store *s, struct store_op *op)
{
	op_assert(s, op);
	lock_assert_none("store_submit");
	op->err = 0;
	if (op->code == STORE_PUT && op->data.len > s->caps.max_object)
		store_op_done(op, -EFBIG);
	else
		s->ops->submit(s, op);
}

void store_op_done(struct store_op *op, int err)
{
	assert(err <= 0);
	lock_assert_none("store_op_done");
	op->err = err;
	op->done(op);
}

void store_cancel(struct store *s, struct store_op *op)
{
	lock_assert_none("store_cancel");
	if (s->ops->cancel)
		s->ops->cancel(s, op);
}

int store_barrier(struct store *s, struct tess_req *req)
{
	int r = 0;

	lock_assert_none("store_barrier");
	if (s->ops->barrier)
		r = s->ops->barrier(s, req);
	assert(r <= 0);
	return r;
}

int store_usage(struct store *s, struct store_usage *ret)
{
	struct store_usage u = { .objects = UINT64_MAX };
	int r = 0;

	if (s->ops->usage)
		r = s->ops->usage(s, &u);
	if (r < 0)
		return r;
	assert(u.free <= u.total);
	*ret = u;
	return 0;
}

void store_to_text(const struct store *s, struct text *out)
{
	for (; s; s = s->inner) {
		text_fmt(out, "%s", s->ops->name);
		if (s->ops->to_text) {
			text_add(out, " ");
			s->ops->to_text(s, out);
		}
		text_add(out, "\n");
	}
}

int store_check(struct store *s, struct text *out)
{
	while (s->inner)
		s = s->inner;
	return s->ops->check ? s->ops->check(s, out) : 0;
}

void store_close(struct store *s)
{
	lock_assert_none("store_close");
	while (s) {
		struct store *inner = s->inner;

		s->ops->close(s);
		s = inner;
	}
}

/* ---- submit and wait ---- */

struct waiter {
	struct lock lock;
	struct cond cond;
	bool        done;
};

static void waiter_done(struct store_op *op)
{
	struct waiter *w = op->owner;

	scoped_lock(&w->lock);
	w->done = true;
	cond_wake_all(&w->cond);
}

int store_do(struct store *s, struct store_op *op)
{
	struct waiter w = { .done = false };

	lock_init(&w.lock, LOCK_LEAF, "store_do");
	cond_init(&w.cond);
	op->done = waiter_done;
	op->owner = &w;
	store_submit(s, op);
	lock_take(&w.lock);
	while (!w.done)
		cond_wait(&w.cond, &w.lock);
	lock_drop(&w.lock);
	cond_done(&w.cond);
	lock_done(&w.lock);
	return op->err;
}

static int op_flat(struct store *s, struct tess_req *req, enum store_code code, const char *name,
		   struct store_op *op)
{
	int r = store_key_set(&op->key, name);

	if (r < 0)
		return r;
	op->req = req;
	op->code = code;
	return store_do(s, op);
}

int store_put(struct store *s, struct tess_req *req, const char *name, const void *p, size_t n)
{
	/* A PUT only reads its data; struct iovec has no const to say so. */
	struct iovec v = { .iov_base = (void *)(uintptr_t)p, .iov_len = n };
	struct store_op op = { .data = { .iov = &v, .n = 1, .len = n } };

	return op_flat(s, req, STORE_PUT, name, &op);
}

int store_get(struct store *s, struct tess_req *req, const char *name, uint64_t off, void *p,
	      size_t n)
{
	struct iovec v = { .iov_base = p, .iov_len = n };
	struct store_op op = { .range = { off, n }, .data = { .iov = &v, .n = 1, .len = n } };

	if (n == 0)
		return 0;
	return op_flat(s, req, STORE_GET, name, &op);
}

int store_head(struct store *s, struct tess_req *req, const char *name, struct tess_objinfo *ret)
{
	struct store_op op = { 0 };
	int r = op_flat(s, req, STORE_HEAD, name, &op);

	if (r == 0)
		*ret = op.info;
	return r;
}

int store_del(struct store *s, struct tess_req *req, const char *name)
{
	struct store_op op = { 0 };

	return op_flat(s, req, STORE_DEL, name, &op);
}
