/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks of sessions that there are no records of. Those of a dead one are not stale: they go with its
 * session, when the next mount takes it over.
 */
#include "base/err.h"
#include "meta/check_impl.h"

static int lock_orphaned(struct kv_txn *t, const struct meta_lock *l)
{
	struct fmt_key k;
	struct kv_val v;
	int err = kv_get(t, KV_SESSION, key_u32(&k, l->session), &v);

	return err == -ENOENT ? 1 : err;
}

static int fix_lock(struct kv_txn *t, struct check *k, const struct check_fix *f)
{
	struct kv_val v, key = kv_val(f->key.b, f->key.n);
	struct meta_lock l;
	int err = kv_get(t, KV_LOCK, key, &v);

	if (err)
		return err == -ENOENT ? -EAGAIN : err;
	err = codec_lock_get(key, v, &l) ? 1 : lock_orphaned(t, &l);
	if (err <= 0)
		return err ? err : -EAGAIN;
	return check_fix_del(t, k, f);
}

static int check_lock(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v)
{
	struct meta_lock l = {0};
	struct check_fix f;
	int err = codec_lock_get(key, v, &l) ? 1 : lock_orphaned(t, &l);

	if (err <= 0)
		return err;
	f = check_found("lock", l.ino, 0, fix_lock,
			l.ino ? "a lock of session %u, which is not registered"
			      : "lock record is corrupt", l.session);
	check_key(&f, KV_LOCK, key);
	return check_report(k, &f);
}

int check_locks(struct check *k)
{
	return check_walk(k, KV_LOCK, check_lock);
}
