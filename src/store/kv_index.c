/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the index, packed and checked.
 *
 * object:  0 u8 kind (1 inline, 2 extents) | 1 three zero bytes | 4 u32 crc32c of name and of all
 *          but itself | 8 u64 size | 16 u64 transaction that put it | 24 the bytes, or u64
 *          offset and u64 length of each extent
 * target:  u64 version, fsid, uid, size     counts:  u64 objects, used, pending
 */
#include "store/kv_impl.h"

#include "base/crc.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/range.h"

#define REC_HEAD 24u
#define REC_INLINE 1
#define REC_EXTENTS 2

int kv_extv_add(struct kv_extv *v, struct kv_ext x)
{
	if (!v->e) {
		v->e = v->few;
		v->cap = ARRAY_SIZE(v->few);
	}
	if (v->n == v->cap) {
		struct kv_ext *more = v->e == v->few ? NULL : v->e;

		more = mem_resize(more, v->cap * 4, sizeof(*more));
		if (!more)
			return -ENOMEM;
		if (v->e == v->few)
			memcpy(more, v->few, sizeof(v->few));
		v->e = more;
		v->cap *= 4;
	}
	v->e[v->n++] = x;
	return 0;
}

void kv_extv_done(struct kv_extv *v)
{
	if (v->e != v->few)
		free(v->e);
	v->e = NULL;
	v->n = v->cap = 0;
}

void kv_rec_done(struct kv_rec *r)
{
	kv_extv_done(&r->ext);
}

uint64_t kv_rec_space(const struct kv_rec *r)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < r->ext.n; i++)
		sum += r->ext.e[i].len;
	return sum;
}

static uint32_t rec_crc(MDB_val key, const char *rec, size_t n)
{
	uint32_t crc = crc32c(0, key.mv_data, key.mv_size);

	crc = crc32c(crc, rec, 4);
	return crc32c(crc, rec + 8, n - 8);
}

static bool ext_ok(const struct kv_target *t, struct kv_ext x)
{
	return x.len > 0 && x.off % KV_UNIT == 0 && x.len % KV_UNIT == 0 && x.off >= KV_DATA_OFF &&
	       x.off < t->size && x.len <= t->size - x.off;
}

static int rec_decode_extents(const struct kv_target *t, const char *p, size_t n,
			      struct kv_rec *ret)
{
	uint64_t sum = 0;

	if (n % 16 != 0 || n == 0 || n / 16 > KV_EXTENTS_MAX)
		return -TESS_E_RECORD;
	for (size_t i = 0; i < n; i += 16) {
		struct kv_ext x = { get_le64(p + i), get_le64(p + i + 8) };

		if (!ext_ok(t, x))
			return -TESS_E_RECORD;
		if (kv_extv_add(&ret->ext, x) < 0)
			return -ENOMEM;
		sum += x.len;
	}
	return sum >= ret->size && sum - ret->size < KV_UNIT ? 0 : -TESS_E_RECORD;
}

int kv_rec_decode(const struct kv_target *t, MDB_val key, MDB_val val, struct kv_rec *ret)
{
	const char *p = val.mv_data;
	struct kv_rec rec = { .data = NULL };
	int r = 0;

	if (val.mv_size < REC_HEAD || rec_crc(key, p, val.mv_size) != get_le32(p + 4))
		return -TESS_E_RECORD;
	rec.size = get_le64(p + 8);
	rec.gen = get_le64(p + 16);
	if (p[0] == REC_INLINE && rec.size == val.mv_size - REC_HEAD)
		rec.data = p + REC_HEAD;
	else if (p[0] == REC_EXTENTS)
		r = rec_decode_extents(t, p + REC_HEAD, val.mv_size - REC_HEAD, &rec);
	else
		r = -TESS_E_RECORD;
	if (r < 0) {
		kv_rec_done(&rec);
		return r;
	}
	/* The list points into the struct while it is short. */
	if (rec.ext.e == rec.ext.few) {
		*ret = rec;
		ret->ext.e = ret->ext.few;
	} else {
		*ret = rec;
	}
	return 0;
}

static MDB_val name_val(const char *name)
{
	return (MDB_val){ .mv_size = strlen(name), .mv_data = (void *)(uintptr_t)name };
}

int kv_rec_get(struct kv *kv, MDB_txn *txn, const char *name, struct kv_rec *ret)
{
	MDB_val key = name_val(name), val;
	int rc = mdb_get(txn, env_db(kv->env, KV_OBJECT), &key, &val);

	return rc ? env_error(rc) : kv_rec_decode(&kv->target, key, val, ret);
}

int kv_rec_put(struct kv *kv, MDB_txn *txn, const char *name, const struct kv_rec *rec)
{
	MDB_val key = name_val(name), val = { .mv_size = REC_HEAD };
	char *p;
	int rc;

	val.mv_size += rec->data ? rec->size : rec->ext.n * UINT64_C(16);
	/* Built where it will lie: a small value is copied once. */
	rc = mdb_put(txn, env_db(kv->env, KV_OBJECT), &key, &val, MDB_RESERVE);
	if (rc)
		return env_error(rc);
	p = val.mv_data;
	memset(p, 0, REC_HEAD);
	p[0] = rec->data ? REC_INLINE : REC_EXTENTS;
	put_le64(p + 8, rec->size);
	put_le64(p + 16, rec->gen);
	if (rec->data)
		memcpy(p + REC_HEAD, rec->data, rec->size);
	for (unsigned i = 0; !rec->data && i < rec->ext.n; i++) {
		put_le64(p + REC_HEAD + i * 16, rec->ext.e[i].off);
		put_le64(p + REC_HEAD + i * 16 + 8, rec->ext.e[i].len);
	}
	put_le32(p + 4, rec_crc(key, p, val.mv_size));
	return 0;
}

/* ---- fixed records of `super`: n little-endian words ---- */

static int words_get(struct kv *kv, MDB_txn *txn, const char *name, uint64_t *w, unsigned n)
{
	MDB_val key = name_val(name), val;
	int rc = mdb_get(txn, env_db(kv->env, KV_SUPER), &key, &val);

	if (rc)
		return env_error(rc);
	if (val.mv_size != n * 8)
		return -TESS_E_RECORD;
	for (unsigned i = 0; i < n; i++)
		w[i] = get_le64((char *)val.mv_data + i * 8);
	return 0;
}

static int words_put(struct kv *kv, MDB_txn *txn, const char *name, const uint64_t *w, unsigned n)
{
	char buf[64];
	MDB_val key = name_val(name), val = { .mv_size = n * 8, .mv_data = buf };

	for (unsigned i = 0; i < n; i++)
		put_le64(buf + i * 8, w[i]);
	return env_error(mdb_put(txn, env_db(kv->env, KV_SUPER), &key, &val, 0));
}

int kv_counts_get(struct kv *kv, MDB_txn *txn, struct kv_counts *ret)
{
	uint64_t w[3] = { 0 };
	int r = words_get(kv, txn, "counts", w, 3);

	if (r == 0)
		*ret = (struct kv_counts){ w[0], w[1], w[2] };
	return r == -ENOENT ? -TESS_E_RECORD : r;
}

int kv_counts_put(struct kv *kv, MDB_txn *txn, const struct kv_counts *c)
{
	return words_put(kv, txn, "counts", (uint64_t[]){ c->objects, c->used, c->pending }, 3);
}

int kv_target_get(struct kv *kv, MDB_txn *txn, struct kv_target *ret)
{
	uint64_t w[4] = { 0 };
	int r = words_get(kv, txn, "target", w, 4);

	if (r == 0)
		*ret = (struct kv_target){ w[0], w[1], w[2], w[3] };
	return r == -ENOENT ? -TESS_E_RECORD : r;
}

int kv_target_put(struct kv *kv, MDB_txn *txn, const struct kv_target *t)
{
	return words_put(kv, txn, "target", (uint64_t[]){t->version, t->fsid, t->uid, t->size}, 4);
}
