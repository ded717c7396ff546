/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bookkeeping against itself: every byte of the data area belongs to exactly one of objects,
 * free space, reservations and pending deletions; the second index of free space and the counts say
 * the same. In one read transaction, so it may run beside writers; O(n log n) in records, for fsck
 * and tests.
 */
#include "store/kv_impl.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/range.h"
#include "base/text.h"

#define LINES_MAX 100

struct seen {
	struct kv_ext x;
	const char   *what;
};

struct kv_checker {
	struct kv   *kv;
	MDB_txn     *txn;
	struct text *out;
	int          defects;
	struct seen *seen;		/* owned */
	size_t       n, cap;
	uint64_t     objects, used, pending, nfree;
};

static void defect(struct kv_checker *c, const char *what, uint64_t a, uint64_t b)
{
	if (c->defects++ < LINES_MAX)
		text_fmt(c->out, "%s: %s (%llu+%llu)\n", c->kv->dev.path, what,
			 (unsigned long long)a, (unsigned long long)b);
}

static int see(struct kv_checker *c, struct kv_ext x, const char *what)
{
	if (c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 256;
		void *p = mem_resize(c->seen, cap, sizeof(c->seen[0]));

		if (!p)
			return -ENOMEM;
		c->seen = p;
		c->cap = cap;
	}
	c->seen[c->n++] = (struct seen){ x, what };
	return 0;
}

static int check_object(struct kv_checker *c, MDB_val key, MDB_val val)
{
	struct kv_rec rec;
	int r = kv_rec_decode(&c->kv->target, key, val, &rec);

	c->objects++;
	if (r == -TESS_E_RECORD) {
		defect(c, "corrupt object record", 0, 0);
		return 0;
	}
	if (r < 0)
		return r;
	for (unsigned i = 0; r == 0 && i < rec.ext.n; i++)
		r = see(c, rec.ext.e[i], "object");
	c->used += kv_rec_space(&rec);
	kv_rec_done(&rec);
	return r;
}

static int check_space(struct kv_checker *c, MDB_val key, MDB_val val)
{
	struct kv_ext x;
	uint64_t owner;
	char k[16];
	MDB_val id = { .mv_size = 8, .mv_data = k }, v;

	if (key.mv_size != 16 || val.mv_size != 8) {
		defect(c, "corrupt space record", 0, 0);
		return 0;
	}
	owner = get_be64(key.mv_data);
	x = (struct kv_ext){ get_be64((char *)key.mv_data + 8), get_le64(val.mv_data) };
	if (owner == 0) {
		c->nfree++;
		put_be64(k, x.len);
		put_be64(k + 8, x.off);
		id.mv_size = 16;
		if (mdb_get(c->txn, env_db(c->kv->env, KV_LARGEST), &id, &v) != 0)
			defect(c, "free range is not indexed by size", x.off, x.len);
	} else {
		put_be64(k, owner);
		if (mdb_get(c->txn, env_db(c->kv->env, KV_OWNER), &id, &v) != 0)
			defect(c, "range reserved by nobody", x.off, x.len);
	}
	return see(c, x, owner ? "reserved" : "free");
}

static int check_pending(struct kv_checker *c, MDB_val key, MDB_val val)
{
	struct kv_ext x;

	if (key.mv_size != 16 || val.mv_size != 8) {
		defect(c, "corrupt pending record", 0, 0);
		return 0;
	}
	x = (struct kv_ext){ get_be64((char *)key.mv_data + 8), get_le64(val.mv_data) };
	c->pending += x.len;
	return see(c, x, "pending");
}

static int check_db(struct kv_checker *c, enum kv_db db,
		    int (*fn)(struct kv_checker *, MDB_val, MDB_val))
{
	MDB_val key, val;
	MDB_cursor *cur;
	int r = 0, rc = mdb_cursor_open(c->txn, env_db(c->kv->env, db), &cur);

	if (rc)
		return env_error(rc);
	for (rc = mdb_cursor_get(cur, &key, &val, MDB_FIRST); !rc && r == 0;
	     rc = mdb_cursor_get(cur, &key, &val, MDB_NEXT))
		r = fn(c, key, val);
	mdb_cursor_close(cur);
	return r < 0 || rc == MDB_NOTFOUND ? r : env_error(rc);
}

static int seen_cmp(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return x->x.off < y->x.off ? -1 : x->x.off > y->x.off;
}

static void check_tiles(struct kv_checker *c)
{
	uint64_t at = KV_DATA_OFF;

	if (c->n)
		qsort(c->seen, c->n, sizeof(c->seen[0]), seen_cmp);
	for (size_t i = 0; i < c->n; i++) {
		const struct kv_ext *x = &c->seen[i].x;

		if (x->off > at)
			defect(c, "space belongs to nobody", at, x->off - at);
		if (x->off < at)
			defect(c,
			       c->seen[i].what[0] == 'o' ? "object overlaps another range"
							 : "range overlaps another",
			       x->off, x->len);
		at = MAX(at, x->off + x->len);
	}
	if (at != c->kv->target.size)
		defect(c, "space at the end belongs to nobody", at, c->kv->target.size);
}

static int check_counts(struct kv_checker *c)
{
	struct kv_counts n;
	MDB_stat st;
	int r = kv_counts_get(c->kv, c->txn, &n);

	if (r < 0)
		return r;
	if (n.objects != c->objects)
		defect(c, "wrong count of objects", n.objects, c->objects);
	if (n.used != c->used)
		defect(c, "wrong count of used bytes", n.used, c->used);
	if (n.pending != c->pending)
		defect(c, "wrong count of pending bytes", n.pending, c->pending);
	r = env_error(mdb_stat(c->txn, env_db(c->kv->env, KV_LARGEST), &st));
	if (r == 0 && st.ms_entries != c->nfree)
		defect(c, "index of free ranges by size has others", st.ms_entries, c->nfree);
	return r;
}

int kv_check(struct store *s, struct text *out)
{
	struct kv_checker c = { .kv = container_of(s, struct kv, s), .out = out };
	int r = env_begin_read(c.kv->env, &c.txn);

	if (r < 0)
		return r;
	r = check_db(&c, KV_OBJECT, check_object);
	if (r == 0)
		r = check_db(&c, KV_SPACE, check_space);
	if (r == 0)
		r = check_db(&c, KV_PENDING, check_pending);
	if (r == 0)
		r = check_counts(&c);
	env_end_read(c.kv->env, c.txn);
	if (r == 0)
		check_tiles(&c);
	free(c.seen);
	return r < 0 ? r : c.defects;
}
