/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletions come in crowds: a collector's, a removed tree's. A lone one is sent at once as DELETE. While
 * ROUNDS of them are under way others gather, and go together in one DeleteObjects as soon as one comes
 * back: no timer, no wait for a lone one, and the fuller the rounds the slower the service is. One that
 * stalls does not hold the others up for longer than STALL.
 *
 * A service without DeleteObjects is noticed by its refusal, and gets DELETEs from then on.
 */
#include "store/s3_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "base/text.h"

#include <string.h>

#define ROUNDS	   2u
#define ROUNDS_MAX 16u
#define STALL	   NS_PER_S
#define TIMEOUT	   (60 * NS_PER_S)

struct s3_round {
	struct s3_call     call;
	struct list_node   link;
	struct s3         *s3;
	struct text        body;
	struct iovec       v;
	unsigned           n;
	struct store_op  **ops GUARDED_BY(&s3->lock);	/* NULL: cancelled, and done */
	struct tess_key   *keys;			/* of ops; those may be gone */
	int               *errs;
	char               md5[25];
};

static void del_kick(struct s3 *s3, struct list_node *batch);

static void round_free(struct s3_round *r)
{
	if (!r)
		return;
	text_done(&r->body);
	free(r->ops);
	free(r->keys);
	free(r->errs);
	free(r);
}
DEFINE_SCOPED(struct s3_round, round_free)

/* Moves what goes into the next round to `batch`; empty: nothing goes now. */
static void batch_take_locked(struct s3 *s3, struct list_node *batch) NO_TSA
{
	struct list_node *n;
	unsigned count = 0;

	list_init(batch);
	if (list_empty(&s3->dels) || s3->nrounds >= ROUNDS_MAX ||
	    (s3->nrounds >= ROUNDS && clock_now() - s3->del_last < STALL))
		return;
	while (count++ < S3_BATCH && (n = list_pop_front(&s3->dels)))
		list_push_back(batch, n);
	s3->nrounds++;
	s3->del_last = clock_now();
}

/* A round came back. The next one is sent by the caller, after its ops are done. */
static void round_over(struct s3 *s3, struct s3_round *r, struct list_node *batch)
{
	scoped_lock(&s3->lock);
	if (r)
		list_remove(&r->link);
	s3->nrounds--;
	if (s3->nrounds == 0)
		cond_wake_all(&s3->no_rounds);
	batch_take_locked(s3, batch);
}

/* ---- one name ---- */

static int one_err(int err)
{
	return err == -ENOENT ? 0 : err;
}

static void one_done(struct s3_call *c, int err)
{
	struct store_op *op = c->owner;

	s3_call_done(c);
	free(c);
	store_op_done(op, one_err(err));
}

static void one_done_kick(struct s3_call *c, int err)
{
	struct store_op *op = c->owner;
	struct s3 *s3 = c->s3;
	struct list_node batch;

	s3_call_done(c);
	free(c);
	round_over(s3, NULL, &batch);
	store_op_done(op, one_err(err));
	/* Those in it are not done, so that the store is still there. */
	if (!list_empty(&batch))
		del_kick(s3, &batch);
}

static int one_send(struct s3 *s3, struct store_op *op, void (*done)(struct s3_call *, int))
{
	struct s3_call *c = mem_zalloc(sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->s3 = s3;
	c->op = c->owner = op;
	c->req = op->req;
	c->method = "DELETE";
	c->name = op->key.name;
	c->done = done;
	s3_call_send(c);
	return 0;
}

/* ---- many names ---- */

static void round_failed(void *arg, const char *key, const char *code)
{
	struct s3_round *r = arg;
	size_t n = strlen(r->s3->conf.prefix);
	int err = one_err(s3_err_find(code, 500).err);

	if (strncmp(key, r->s3->conf.prefix, n) != 0)
		return;
	for (unsigned i = 0; i < r->n; i++) {
		if (strcmp(r->keys[i].name, key + n) == 0)
			r->errs[i] = err;
	}
}

static void round_alone(struct s3_round *r)
{
	for (unsigned i = 0; i < r->n; i++) {
		struct store_op *op = steal_ptr(r->ops[i]);

		if (op && one_send(r->s3, op, one_done) < 0)
			store_op_done(op, -ENOMEM);
	}
}

static void round_done(struct s3_call *c, int err)
{
	struct s3_round *r = c->owner;
	struct s3 *s3 = r->s3;
	struct list_node batch;
	bool alone = c->error.code[0] || c->http.err == 0 ?
		s3_err_find(c->error.code, c->http.status).mend == S3_NO_VERB : false;

	if (err == 0)
		err = s3_xml_deleted(text_str(&c->http.reply), c->http.reply.n, round_failed, r);
	s3_call_done(c);
	if (alone)
		atomic_store(&s3->no_bulk, true);
	/* If all of it was cancelled, close() waits for this alone: s3 is not touched after it. */
	round_over(s3, r, &batch);
	if (alone)
		round_alone(r);
	for (unsigned i = 0; i < r->n; i++) {
		/* Out of the list, it is nobody else's. */
		if (r->ops[i])
			store_op_done(r->ops[i], err < 0 ? err : r->errs[i]);
	}
	round_free(r);
	if (!list_empty(&batch))
		del_kick(s3, &batch);
}

static void body_key(struct text *body, const char *prefix, const char *name)
{
	text_add(body, "<Object><Key>");
	s3_xml_escape(body, prefix);
	s3_xml_escape(body, name);
	text_add(body, "</Key></Object>");
}

static int round_new(struct s3_round **ret, struct s3 *s3, unsigned n)
{
	scoped(round_free) struct s3_round *r = mem_zalloc(sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->s3 = s3;
	r->ops = mem_array(n, sizeof(r->ops[0]));
	r->keys = mem_array(n, sizeof(r->keys[0]));
	r->errs = mem_array(n, sizeof(r->errs[0]));
	if (!r->ops || !r->keys || !r->errs)
		return -ENOMEM;
	*ret = steal_ptr(r);
	return 0;
}

static int round_body(struct s3_round *r)
{
	unsigned char md5[16];
	struct tess_iov body;
	int err;

	text_add(&r->body, "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>");
	for (unsigned i = 0; i < r->n; i++)
		body_key(&r->body, r->s3->conf.prefix, r->keys[i].name);
	text_add(&r->body, "</Delete>");
	r->v = (struct iovec){ .iov_base = r->body.s, .iov_len = r->body.n };
	body = (struct tess_iov){ .iov = &r->v, .n = 1, .len = r->body.n };
	err = text_error(&r->body);
	if (err == 0)
		err = s3_md5(&body, md5);
	if (err == 0)
		s3_base64(r->md5, md5, sizeof(md5));
	r->call.body = body;
	return err;
}

/* It serves many deadlines: `timeout` is the latest, and who runs out of time before is taken out. */
static void round_send(struct s3_round *r, int64_t timeout)
{
	struct s3_call *c = &r->call;

	c->s3 = r->s3;
	c->timeout = timeout;
	c->method = "POST";
	c->reply_max = 2 << 20;
	c->done = round_done;
	c->owner = r;
	s3_call_query(c, "delete", "");
	s3_call_header(c, "Content-MD5", r->md5);
	s3_call_header(c, "Content-Type", "application/xml");
	lock_take(&r->s3->lock);
	list_push_back(&r->s3->rounds, &r->link);
	lock_drop(&r->s3->lock);
	s3_call_send(c);
}

static void batch_fail(struct s3 *s3, struct list_node *batch, int err)
{
	struct list_node *n;

	/* Sends no further one: they would fail the same way, one within the other. */
	lock_take(&s3->lock);
	s3->nrounds--;
	if (s3->nrounds == 0) {
		while ((n = list_pop_front(&s3->dels)))
			list_push_back(batch, n);
	}
	lock_drop(&s3->lock);
	while ((n = list_pop_front(batch)))
		store_op_done(list_entry(n, struct store_op, link), err);
}

/* Sends a batch that batch_take_locked() gave. */
static void del_kick(struct s3 *s3, struct list_node *batch)
{
	struct s3_round *r = NULL;
	int64_t latest = 0, now = clock_now();
	unsigned n = 0;
	int err;

	list_for_each(pos, batch)
		n++;
	if (n == 1) {
		struct list_node *one = list_pop_front(batch);

		err = one_send(s3, list_entry(one, struct store_op, link), one_done_kick);
		if (err < 0)
			list_push_back(batch, one);
	} else {
		err = round_new(&r, s3, n);
		if (err == 0) {
			list_for_each(pos, batch) {
				struct store_op *op = list_entry(pos, struct store_op, link);

				r->keys[r->n] = op->key;
				r->ops[r->n++] = op;
				latest = MAX(latest, op->req->deadline);
			}
			err = round_body(r);
		}
		if (err == 0)
			round_send(r, MAX(MIN(latest, now + TIMEOUT) - now, NS_PER_MS));
		else
			round_free(r);
	}
	if (err < 0)
		batch_fail(s3, batch, err);
}

void s3_del_submit(struct s3 *s3, struct store_op *op)
{
	struct list_node batch;

	if (atomic_load(&s3->no_bulk)) {
		if (one_send(s3, op, one_done) < 0)
			store_op_done(op, -ENOMEM);
		return;
	}
	lock_take(&s3->lock);
	list_push_back(&s3->dels, &op->link);
	batch_take_locked(s3, &batch);
	lock_drop(&s3->lock);
	if (!list_empty(&batch))
		del_kick(s3, &batch);
}

/* True: nobody waits for it any more. */
static bool round_forget_locked(struct s3_round *r, const struct store_op *op, bool *found) NO_TSA
{
	bool any = false;

	for (unsigned i = 0; i < r->n; i++) {
		if (r->ops[i] == op) {
			r->ops[i] = NULL;
			*found = true;
		}
		any |= r->ops[i] != NULL;
	}
	return *found && !any;
}

bool s3_del_cancel(struct s3 *s3, const struct store_op *op)
{
	struct s3_call *waited = NULL;
	bool found = false;

	lock_take(&s3->lock);
	list_for_each(n, &s3->dels) {
		if (n == &op->link) {
			list_remove(n);
			found = true;
			break;
		}
	}
	list_for_each(n, &s3->rounds) {
		struct s3_round *r = list_entry(n, struct s3_round, link);

		if (found)
			break;
		if (round_forget_locked(r, op, &found) && s3_call_stop_locked(&r->call))
			waited = &r->call;
	}
	lock_drop(&s3->lock);
	if (waited)
		s3_call_stopped(waited);
	return found;
}

void s3_del_close(struct s3 *s3)
{
	scoped_lock(&s3->lock);
	while (s3->nrounds > 0)
		cond_wait(&s3->no_rounds, &s3->lock);
}
