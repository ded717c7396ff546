/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv: objects in a file or block device, with an index in LMDB. The embedded default.
 *
 * A value up to 4 KiB lies in the index itself. A larger one lies in extents of the device, in one
 * piece when there is one; its record in the index names them and carries a checksum of itself.
 * (Checksums of the data are the namespace's: it verifies every block of every segment anyway.)
 *
 * Order is everything:
 *  - PUT writes the data, then commits the record. Until the commit the space is only reserved by
 *    this process, so a kill in between leaves a reservation that the next opening takes back.
 *    After it, done(): the page cache and the device have both, which survives any kill.
 *  - A checkpoint of the index first syncs the device, so that the synced index never names bytes
 *    that a power cut can take back. That is barrier(). A checkpoint of any process does it for
 * all: the sync covers the device, not this process's writes.
 *  - Space that a deletion frees is `pending` until a checkpoint that holds the deletion is
 *    complete. Before, a power cut could bring the object back, with somebody else's bytes in it.
 *    The name replaced by a PUT gives its old space back in the same way.
 *  - A GET reads without holding a transaction, and looks after the read whether the record is
 *    still the same one (`gen`). A deletion whose space was reused in between, here or by another
 *    process, is -ENOENT, never foreign bytes. When no transaction was committed meanwhile, that
 * look costs the begin of a read transaction and nothing else.
 *
 * All of it runs in the submitting thread: data I/O of many threads overlaps, and the index is
 * locked only for the commit. Space: kv_alloc.c. Several processes of one host may use a target.
 */
#include "store/kv_impl.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/range.h"
#include "base/text.h"

static struct kv *kv_of(struct store *s)
{
	return container_of(s, struct kv, s);
}

/* The index's "no space" is the target's. */
static int kv_full(int r)
{
	return r == -TESS_E_KV_FULL || r == -ENOSPC || r == -EDQUOT ? -TESS_E_STORE_FULL : r;
}

/* ---- PUT and DEL ---- */

struct kv_change {
	struct kv     *kv;
	const char    *name;
	struct kv_rec *rec;	/* NULL: DEL */
	uint64_t       owner;	/* of the reservation that rec's extents are in */
};

/* Removes what `name` was from the counts, and its space into `pending`. */
static int change_retire(struct kv_change *c, MDB_txn *txn, struct kv_counts *counts)
{
	struct kv_rec old;
	int r = kv_rec_get(c->kv, txn, c->name, &old);

	if (r < 0)
		return r;
	counts->objects--;
	counts->used -= kv_rec_space(&old);
	counts->pending += kv_rec_space(&old);
	for (unsigned i = 0; r == 0 && i < old.ext.n; i++)
		r = kv_space_retire(c->kv, txn, old.ext.e[i]);
	kv_rec_done(&old);
	return r;
}

static int change_txn(void *arg, MDB_txn *txn)
{
	struct kv_change *c = arg;
	MDB_val key = { .mv_size = strlen(c->name), .mv_data = (void *)(uintptr_t)c->name };
	struct kv_counts counts;
	int r = kv_counts_get(c->kv, txn, &counts);

	if (r == 0)
		r = change_retire(c, txn, &counts);
	if (r < 0 && (r != -ENOENT || !c->rec))
		return r;
	if (!c->rec) {
		r = env_error(mdb_del(txn, env_db(c->kv->env, KV_OBJECT), &key, NULL));
		return r == 0 ? kv_counts_put(c->kv, txn, &counts) : r;
	}
	r = 0;
	for (unsigned i = 0; r == 0 && i < c->rec->ext.n; i++)
		r = kv_space_cut(c->kv, txn, c->owner, c->rec->ext.e[i]);
	counts.objects++;
	counts.used += kv_rec_space(c->rec);
	c->rec->gen = mdb_txn_id(txn);
	if (r == 0)
		r = kv_rec_put(c->kv, txn, c->name, c->rec);
	return r == 0 ? kv_counts_put(c->kv, txn, &counts) : r;
}

static int kv_put_inline(struct kv *kv, struct store_op *op)
{
	char buf[KV_INLINE_MAX];
	struct kv_rec rec = { .size = op->data.len, .data = buf };
	struct kv_change c = { .kv = kv, .name = op->key.name, .rec = &rec };

	if (op->data.n == 1)
		rec.data = op->data.iov[0].iov_base ? op->data.iov[0].iov_base : buf;
	else
		(void)iov_copy_out(buf, &op->data, 0, op->data.len);
	return kv_full(env_write(kv->env, change_txn, &c, NULL));
}

static int kv_put(struct kv *kv, struct store_op *op)
{
	struct kv_rec rec = { .size = op->data.len };
	struct kv_change c = { .kv = kv, .name = op->key.name, .rec = &rec };
	uint64_t done = 0;
	int r;

	if (kv->readonly)
		return -EROFS;
	if (op->data.len <= kv->inline_max)
		return kv_put_inline(kv, op);
	r = kv_alloc(kv, op->data.len, &rec.ext, &c.owner);
	for (unsigned i = 0; r == 0 && i < rec.ext.n; i++) {
		uint64_t n = MIN(rec.ext.e[i].len, op->data.len - done);

		r = kv_dev_write(&kv->dev, &op->data, done, n, rec.ext.e[i].off);
		done += n;
	}
	if (r == 0)
		r = kv_full(env_write(kv->env, change_txn, &c, NULL));
	if (r < 0)
		kv_alloc_undo(kv, &rec.ext);
	kv_rec_done(&rec);
	return r;
}

static int kv_del(struct kv *kv, struct store_op *op)
{
	struct kv_change c = { .kv = kv, .name = op->key.name };
	int r;

	if (kv->readonly)
		return -EROFS;
	r = env_write(kv->env, change_txn, &c, NULL);
	return r == -ENOENT ? 0 : r;
}

/* ---- GET, HEAD, LIST ---- */

/* Is the record read in transaction `id` still that of `name`? 0, -ENOENT; -EAGAIN: another is. */
static int kv_still(struct kv *kv, const char *name, size_t id, uint64_t gen)
{
	struct kv_rec rec;
	MDB_txn *txn;
	int r = env_begin_read(kv->env, &txn);

	if (r < 0)
		return r;
	if (mdb_txn_id(txn) != id) {
		r = kv_rec_get(kv, txn, name, &rec);
		if (r == 0) {
			r = rec.gen == gen ? 0 : -EAGAIN;
			kv_rec_done(&rec);
		}
	}
	env_end_read(kv->env, txn);
	return r;
}

static int kv_read_extents(struct kv *kv, const struct store_op *op, const struct kv_rec *rec)
{
	uint64_t skip = op->range.off, done = 0;
	int r = 0;

	for (unsigned i = 0; r == 0 && done < op->range.len; i++) {
		const struct kv_ext *x = &rec->ext.e[i];
		uint64_t n;

		if (skip >= x->len) {
			skip -= x->len;
			continue;
		}
		n = MIN(x->len - skip, op->range.len - done);
		r = kv_dev_read(&kv->dev, &op->data, done, n, x->off + skip);
		done += n;
		skip = 0;
	}
	return r;
}

static int kv_get_once(struct kv *kv, struct store_op *op)
{
	struct kv_rec rec;
	MDB_txn *txn;
	size_t id;
	int r = env_begin_read(kv->env, &txn);

	if (r < 0)
		return r;
	id = mdb_txn_id(txn);
	r = kv_rec_get(kv, txn, op->key.name, &rec);
	if (r < 0) {
		env_end_read(kv->env, txn);
		return r;
	}
	op->info.size = rec.size;
	if (op->code == STORE_GET &&
	    (op->range.off > rec.size || op->range.len > rec.size - op->range.off))
		r = -TESS_E_SHORT_BODY;
	else if (op->code == STORE_GET && rec.data)
		(void)iov_copy_in(&op->data, 0, rec.data + op->range.off, op->range.len);
	env_end_read(kv->env, txn);
	if (r == 0 && op->code == STORE_GET && !rec.data) {
		r = kv_read_extents(kv, op, &rec);
		if (r == 0)
			r = kv_still(kv, op->key.name, id, rec.gen);
	}
	kv_rec_done(&rec);
	return r;
}

static int kv_get(struct kv *kv, struct store_op *op)
{
	int r;

	do
		r = kv_get_once(kv, op);
	while (r == -EAGAIN && !req_expired(op->req));
	return r;
}

static int kv_list(struct kv *kv, struct store_list *l)
{
	size_t after = strlen(l->after.name);
	MDB_val key = { .mv_size = after, .mv_data = l->after.name }, val;
	MDB_cursor *c;
	MDB_txn *txn;
	int rc, r = env_begin_read(kv->env, &txn);

	if (r < 0)
		return r;
	l->n = 0;
	rc = mdb_cursor_open(txn, env_db(kv->env, KV_OBJECT), &c);
	if (!rc) {
		rc = mdb_cursor_get(c, &key, &val, after ? MDB_SET_RANGE : MDB_FIRST);
		if (!rc && after && key.mv_size == after &&
		    memcmp(key.mv_data, l->after.name, after) == 0)
			rc = mdb_cursor_get(c, &key, &val, MDB_NEXT);
		for (; !rc && l->n < l->max; rc = mdb_cursor_get(c, &key, &val, MDB_NEXT)) {
			if (key.mv_size > STORE_NAME_MAX || val.mv_size < 24) {
				rc = MDB_CORRUPTED;
				break;
			}
			memcpy(l->keys[l->n].name, key.mv_data, key.mv_size);
			l->keys[l->n].name[key.mv_size] = 0;
			l->infos[l->n++].size = get_le64((char *)val.mv_data + 8);
		}
		mdb_cursor_close(c);
	}
	env_end_read(kv->env, txn);
	l->more = rc == 0;
	return rc == MDB_NOTFOUND ? 0 : env_error(rc);
}

static void kv_submit(struct store *s, struct store_op *op)
{
	struct kv *kv = kv_of(s);
	int r = store_fault(op->code);

	if (r == 0) {
		switch (op->code) {
		case STORE_PUT:
			r = kv_put(kv, op);
			break;
		case STORE_GET:
		case STORE_HEAD:
			r = kv_get(kv, op);
			break;
		case STORE_DEL:
			r = kv_del(kv, op);
			break;
		case STORE_LIST:
			r = kv_list(kv, op->list);
			break;
		case STORE_NCODES:
			break;
		}
	}
	store_op_done(op, r);
}

/* ---- the rest ---- */

static int kv_barrier(struct store *s, struct tess_req *req)
{
	struct kv *kv = kv_of(s);

	(void)req;
	if (kv->readonly || env_last(kv->env) <= env_durable(kv->env))
		return 0;
	return env_checkpoint(kv->env);
}

/*
 * A sparse file promises only what its file system still has, besides the blocks it holds itself
 * and does not use.
 */
static void usage_of_file(const struct kv *kv, uint64_t used, struct store_usage *u)
{
	uint64_t have, own;

	if (kv->dev.block || kv_dev_host(&kv->dev, &have, &own) < 0)
		return;
	have += own > used + KV_DATA_OFF ? own - used - KV_DATA_OFF : 0;
	u->free = MIN(u->free, have);
}

static int kv_usage(struct store *s, struct store_usage *ret)
{
	struct kv *kv = kv_of(s);
	struct kv_counts counts;
	MDB_txn *txn;
	int r = env_begin_read(kv->env, &txn);

	if (r < 0)
		return r;
	r = kv_counts_get(kv, txn, &counts);
	env_end_read(kv->env, txn);
	if (r < 0)
		return r;
	ret->total = kv->target.size - KV_DATA_OFF;
	ret->free = ret->total - MIN(ret->total, counts.used);
	ret->objects = counts.objects;
	usage_of_file(kv, counts.used, ret);
	return 0;
}

static void kv_to_text(const struct store *s, struct text *out)
{
	const struct kv *kv = container_of(s, struct kv, s);

	text_fmt(out, "path=%s size=%llu direct=%d chunk=%llu inline=%llu index-bytes=%llu",
		 kv->dev.path, (unsigned long long)kv->target.size, kv->dev.direct,
		 (unsigned long long)kv->chunk, (unsigned long long)kv->inline_max,
		 (unsigned long long)env_bytes(kv->env));
}

const struct store_ops store_kv_ops = {
	.name = "kv",
	.open = kv_open,
	.submit = kv_submit,
	.barrier = kv_barrier,
	.usage = kv_usage,
	.to_text = kv_to_text,
	.close = kv_store_close,
	.unmake = kv_unmake,
	.check = kv_check,
};
