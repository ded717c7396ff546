/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of the device inside a transaction. Every byte of the data area is in exactly one of: an
 * object's extent, `space` (free or reserved by somebody), `pending`.
 *
 * Ranges of one owner are joined when they touch. For free space that is what keeps it usable; for
 * reservations it means that whatever a process sees as one piece is one record.
 */
#include "store/kv_impl.h"

#include "base/err.h"
#include "base/range.h"

struct space_key {
	char b[16];
};

static struct space_key space_key(uint64_t a, uint64_t b)
{
	struct space_key k;

	put_be64(k.b, a);
	put_be64(k.b + 8, b);
	return k;
}

static MDB_val key_val(struct space_key *k)
{
	return (MDB_val){ .mv_size = sizeof(k->b), .mv_data = k->b };
}

/* The range of `owner` with the greatest offset <= off: 0 or -ENOENT. */
static int space_floor(struct kv *kv, MDB_txn *txn, uint64_t owner, uint64_t off,
		       struct kv_ext *ret)
{
	struct space_key k = space_key(owner, off);
	MDB_val key = key_val(&k), val;
	MDB_cursor *c;
	int rc = mdb_cursor_open(txn, env_db(kv->env, KV_SPACE), &c);

	if (rc)
		return env_error(rc);
	rc = mdb_cursor_get(c, &key, &val, MDB_SET_RANGE);
	if (rc == MDB_NOTFOUND)
		rc = mdb_cursor_get(c, &key, &val, MDB_LAST);
	else if (!rc && memcmp(key.mv_data, k.b, MIN(key.mv_size, sizeof(k.b))) != 0)
		rc = mdb_cursor_get(c, &key, &val, MDB_PREV);
	mdb_cursor_close(c);
	if (rc)
		return env_error(rc);
	if (key.mv_size != 16 || val.mv_size != 8)
		return -TESS_E_RECORD;
	if (get_be64(key.mv_data) != owner)
		return -ENOENT;
	ret->off = get_be64((char *)key.mv_data + 8);
	ret->len = get_le64(val.mv_data);
	return 0;
}

static int space_set(struct kv *kv, MDB_txn *txn, uint64_t owner, struct kv_ext x)
{
	struct space_key k = space_key(owner, x.off), l = space_key(x.len, x.off);
	MDB_val key = key_val(&k), by_len = key_val(&l), none = { .mv_size = 0 };
	char len[8];
	MDB_val val = { .mv_size = 8, .mv_data = len };
	int rc;

	put_le64(len, x.len);
	rc = mdb_put(txn, env_db(kv->env, KV_SPACE), &key, &val, MDB_NOOVERWRITE);
	if (!rc && owner == 0)
		rc = mdb_put(txn, env_db(kv->env, KV_LARGEST), &by_len, &none, 0);
	return rc == MDB_KEYEXIST ? -TESS_E_KV_CORRUPT : env_error(rc);
}

static int space_unset(struct kv *kv, MDB_txn *txn, uint64_t owner, struct kv_ext x)
{
	struct space_key k = space_key(owner, x.off), l = space_key(x.len, x.off);
	MDB_val key = key_val(&k), by_len = key_val(&l);
	int rc = mdb_del(txn, env_db(kv->env, KV_SPACE), &key, NULL);

	if (!rc && owner == 0)
		rc = mdb_del(txn, env_db(kv->env, KV_LARGEST), &by_len, NULL);
	return rc == MDB_NOTFOUND ? -TESS_E_KV_CORRUPT : env_error(rc);
}

int kv_space_add(struct kv *kv, MDB_txn *txn, uint64_t owner, struct kv_ext x)
{
	struct kv_ext p;
	struct space_key k;
	MDB_val key, val;
	/* One look at the end finds what lies before as well as what overlaps. */
	int r = space_floor(kv, txn, owner, x.off + x.len - 1, &p);

	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0 && p.off + p.len > x.off)
		return -TESS_E_KV_CORRUPT;
	if (r == 0 && p.off + p.len == x.off) {
		r = space_unset(kv, txn, owner, p);
		if (r < 0)
			return r;
		x.off = p.off;
		x.len += p.len;
	}
	k = space_key(owner, x.off + x.len);
	key = key_val(&k);
	r = env_error(mdb_get(txn, env_db(kv->env, KV_SPACE), &key, &val));
	if (r == 0) {
		p = (struct kv_ext){ x.off + x.len, get_le64(val.mv_data) };
		r = space_unset(kv, txn, owner, p);
		x.len += p.len;
	}
	if (r < 0 && r != -ENOENT)
		return r;
	return space_set(kv, txn, owner, x);
}

int kv_space_cut(struct kv *kv, MDB_txn *txn, uint64_t owner, struct kv_ext x)
{
	struct kv_ext p;
	uint64_t end = x.off + x.len;
	int r = space_floor(kv, txn, owner, x.off, &p);

	if (r == -ENOENT || (r == 0 && p.off + p.len < end))
		return -TESS_E_KV_CORRUPT;
	if (r == 0)
		r = space_unset(kv, txn, owner, p);
	if (r == 0 && p.off < x.off)
		r = space_set(kv, txn, owner, (struct kv_ext){ p.off, x.off - p.off });
	if (r == 0 && p.off + p.len > end)
		r = space_set(kv, txn, owner, (struct kv_ext){ end, p.off + p.len - end });
	return r;
}

int kv_space_any(struct kv *kv, MDB_txn *txn, uint64_t owner, struct kv_ext *ret)
{
	return space_floor(kv, txn, owner, UINT64_MAX, ret);
}

int kv_space_pick(struct kv *kv, MDB_txn *txn, uint64_t min, struct kv_ext *ret)
{
	struct space_key k = space_key(min, 0);
	MDB_val key = key_val(&k), val;
	MDB_cursor *c;
	int rc = mdb_cursor_open(txn, env_db(kv->env, KV_LARGEST), &c);

	if (rc)
		return env_error(rc);
	rc = mdb_cursor_get(c, &key, &val, MDB_SET_RANGE);
	if (rc == MDB_NOTFOUND)
		rc = mdb_cursor_get(c, &key, &val, MDB_LAST);
	mdb_cursor_close(c);
	if (rc)
		return env_error(rc);
	if (key.mv_size != 16)
		return -TESS_E_RECORD;
	*ret = (struct kv_ext){ get_be64((char *)key.mv_data + 8), get_be64(key.mv_data) };
	return 0;
}

int kv_space_retire(struct kv *kv, MDB_txn *txn, struct kv_ext x)
{
	struct space_key k = space_key(mdb_txn_id(txn), x.off);
	MDB_val key = key_val(&k);
	char len[8];
	MDB_val val = { .mv_size = 8, .mv_data = len };

	put_le64(len, x.len);
	return env_error(mdb_put(txn, env_db(kv->env, KV_PENDING), &key, &val, 0));
}

int kv_space_drain(struct kv *kv, MDB_txn *txn, uint64_t durable, unsigned max, unsigned *ret_n)
{
	struct kv_counts counts;
	unsigned n = 0;
	int r = kv_counts_get(kv, txn, &counts);

	while (r == 0 && n < max) {
		MDB_val key, val;
		MDB_cursor *c;
		struct kv_ext x;
		int rc = mdb_cursor_open(txn, env_db(kv->env, KV_PENDING), &c);

		if (rc)
			return env_error(rc);
		rc = mdb_cursor_get(c, &key, &val, MDB_FIRST);
		if (!rc && get_be64(key.mv_data) > durable)
			rc = MDB_NOTFOUND;
		if (!rc) {
			x = (struct kv_ext){get_be64((char *)key.mv_data + 8),
					    get_le64(val.mv_data)};
			rc = mdb_cursor_del(c, 0);
		}
		mdb_cursor_close(c);
		if (rc == MDB_NOTFOUND)
			break;
		r = env_error(rc);
		if (r == 0)
			r = kv_space_add(kv, txn, 0, x);
		counts.pending -= r == 0 ? x.len : 0;
		n++;
	}
	if (r == 0 && n > 0)
		r = kv_counts_put(kv, txn, &counts);
	if (r == 0)
		*ret_n = n;
	return r;
}
