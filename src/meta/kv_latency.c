/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine that answers as late as one across a network would, for measurements: a round trip
 * before each snapshot and one after each commit. After it, not before: the writers of a distant
 * engine do not queue for each other's way home.
 */
#include "base/clock.h"
#include "base/fault.h"
#include "meta/kv.h"
#include <errno.h>
#include <stdlib.h>

struct latency_kv {
	struct kv kv;
	struct kv *on; /* owned */
	int64_t ns;
};
struct latency_txn {
	struct kv_txn txn;
	struct kv_txn *on; /* the engine's */
};

static struct latency_kv *latency_of(struct kv *kv)
{
	return (struct latency_kv *)kv;
}

static struct kv_txn *latency_on(struct kv_txn *t)
{
	return ((struct latency_txn *)t)->on;
}

static int latency_begin(struct kv *kv, bool write, struct kv_txn **ret)
{
	struct latency_kv *l = latency_of(kv);
	struct latency_txn *t = mem_alloc(sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	if (!write)
		clock_sleep(l->ns);
	err = l->on->ops->begin(l->on, write, &t->on);
	if (err) {
		free(t);
		return err;
	}
	t->txn = (struct kv_txn){.kv = kv, .write = write, .serial = t->on->serial};
	*ret = &t->txn;
	return 0;
}

static int latency_commit(struct kv_txn *t, uint64_t *ret_serial)
{
	struct latency_kv *l = latency_of(t->kv);
	int err = l->on->ops->commit(latency_on(t), ret_serial);

	free(t);
	clock_sleep(l->ns);
	return err;
}

static void latency_abort(struct kv_txn *t)
{
	latency_of(t->kv)->on->ops->abort(latency_on(t));
	free(t);
}

static int latency_get(struct kv_txn *t, enum kv_db db, struct kv_val key, struct kv_val *ret)
{
	return latency_of(t->kv)->on->ops->get(latency_on(t), db, key, ret);
}

static int latency_put(struct kv_txn *t, enum kv_db db, struct kv_val key, struct kv_val val)
{
	return latency_of(t->kv)->on->ops->put(latency_on(t), db, key, val);
}

static int latency_del(struct kv_txn *t, enum kv_db db, struct kv_val key)
{
	return latency_of(t->kv)->on->ops->del(latency_on(t), db, key);
}

static int latency_seek(struct kv_txn *t, enum kv_db db, int dir, struct kv_val *key,
			struct kv_val *ret)
{
	return latency_of(t->kv)->on->ops->seek(latency_on(t), db, dir, key, ret);
}

static int latency_step(struct kv_txn *t, enum kv_db db, int dir, struct kv_val *ret_key,
			struct kv_val *ret)
{
	return latency_of(t->kv)->on->ops->step(latency_on(t), db, dir, ret_key, ret);
}

static int latency_count(struct kv_txn *t, enum kv_db db, uint64_t *ret)
{
	return latency_of(t->kv)->on->ops->count(latency_on(t), db, ret);
}

static int latency_sync(struct kv *kv)
{
	return latency_of(kv)->on->ops->sync(latency_of(kv)->on);
}

static uint64_t latency_fact(struct kv *kv, enum kv_fact f)
{
	return latency_of(kv)->on->ops->fact(latency_of(kv)->on, f);
}

static shared_word *latency_words(struct kv *kv)
{
	return kv_words(latency_of(kv)->on);
}

static int latency_reap(struct kv *kv)
{
	return kv_reap(latency_of(kv)->on);
}

static void latency_close(struct kv *kv)
{
	kv_close(latency_of(kv)->on);
	free(kv);
}

static const struct kv_ops latency_ops = {
	.name = "latency",
	.begin = latency_begin,
	.commit = latency_commit,
	.abort = latency_abort,
	.get = latency_get,
	.put = latency_put,
	.del = latency_del,
	.seek = latency_seek,
	.step = latency_step,
	.sync = latency_sync,
	.close = latency_close,
	.fact = latency_fact,
	.count = latency_count,
	.reap = latency_reap,
	.words = latency_words,
};

int kv_latency_open(struct kv **ret, struct kv *on, int64_t ns)
{
	struct latency_kv *l = mem_zalloc(sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->kv.ops = &latency_ops;
	l->on = on;
	l->ns = ns;
	*ret = &l->kv;
	return 0;
}
