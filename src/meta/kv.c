/* SPDX-License-Identifier: Apache-2.0 */
/* The asserting front of the engines, and the loop that runs closures. */
#include "meta/kv.h"
#include "base/err.h"
#include "base/fault.h"
#include <assert.h>

int kv_read(struct kv *kv, int (*fn)(struct kv_txn *, void *arg), void *arg)
{
	struct kv_txn *t;
	int err = kv->ops->begin(kv, false, &t);

	trace_add(&kv->count[0], 1);
	if (err)
		return err;
	err = fn(t, arg);
	kv->ops->abort(t);
	return err;
}

int kv_run(struct kv *kv, int (*fn)(struct kv_txn *, void *arg), void *arg, uint64_t *ret_serial)
{
	struct kv_txn *t;
	int err;

	trace_add(&kv->count[1], 1);
	do {
		err = kv->ops->begin(kv, true, &t);
		if (err)
			return err;
		t->ctx = NULL;
		err = fn(t, arg);
		if (!err)
			err = fault_point("kv.commit");
		if (err)
			kv->ops->abort(t);
		else
			err = kv->ops->commit(t, ret_serial);
	} while (err == -TESS_E_KV_CONFLICT);
	return err;
}

int kv_get(struct kv_txn *t, enum kv_db db, struct kv_val key, struct kv_val *ret)
{
	int err = fault_point("kv.get");

	assert(db < KV_NDBS && key.n > 0);
	return err ? err : t->kv->ops->get(t, db, key, ret);
}

int kv_put(struct kv_txn *t, enum kv_db db, struct kv_val key, struct kv_val val)
{
	int err = fault_point("kv.put");

	assert(db < KV_NDBS && key.n > 0 && t->write);
	return err ? err : t->kv->ops->put(t, db, key, val);
}

int kv_del(struct kv_txn *t, enum kv_db db, struct kv_val key)
{
	int err = fault_point("kv.del");

	assert(db < KV_NDBS && key.n > 0 && t->write);
	return err ? err : t->kv->ops->del(t, db, key);
}

int kv_seek(struct kv_txn *t, enum kv_db db, int dir, struct kv_val *key, struct kv_val *ret)
{
	int err = fault_point("kv.seek");

	assert(db < KV_NDBS && key->n > 0 && dir);
	return err ? err : t->kv->ops->seek(t, db, dir, key, ret);
}

int kv_step(struct kv_txn *t, enum kv_db db, int dir, struct kv_val *ret_key, struct kv_val *ret)
{
	int err = fault_point("kv.seek");

	assert(db < KV_NDBS && dir);
	return err ? err : t->kv->ops->step(t, db, dir, ret_key, ret);
}

int kv_count(struct kv_txn *t, enum kv_db db, uint64_t *ret)
{
	assert(db < KV_NDBS);
	return t->kv->ops->count(t, db, ret);
}

int kv_sync(struct kv *kv)
{
	int err = fault_point("kv.sync");

	return err ? err : kv->ops->sync(kv);
}

uint64_t kv_durable(struct kv *kv)
{
	return kv->ops->fact(kv, KV_FACT_DURABLE);
}

uint64_t kv_last(struct kv *kv)
{
	return kv->ops->fact(kv, KV_FACT_LAST);
}

uint64_t kv_bytes(struct kv *kv)
{
	return kv->ops->fact(kv, KV_FACT_BYTES);
}

shared_word *kv_words(struct kv *kv)
{
	return kv->ops->words(kv);
}

int kv_reap(struct kv *kv)
{
	return kv->ops->reap ? kv->ops->reap(kv) : 0;
}

void kv_close(struct kv *kv)
{
	if (kv)
		kv->ops->close(kv);
}
