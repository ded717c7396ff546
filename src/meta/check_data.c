/* SPDX-License-Identifier: Apache-2.0 */
/* Extents against segments, both ways; checksums, what is staged, garbage. */
#include "base/err.h"
#include "base/scoped.h"
#include "meta/check_impl.h"
#include <inttypes.h>

/* ---- one file ---- */

/* Sets the byte count from the extents, when it is still wrong. */
static int fix_bytes(struct kv_txn *t, struct check *k, const struct check_fix *f)
{
	struct tess_extent x;
	struct meta_attr a;
	uint64_t sum = 0;
	int err = inode_get(t, f->found.ino, &a);

	(void)k;
	if (err)
		return err == -TESS_E_STALE ? -EAGAIN : err;
	err = extent_first(t, a.ino, 0, &x);
	for (; !err; err = extent_next(t, a.ino, &x))
		sum += x.len;
	if (absent_ok(err) || a.bytes == sum)
		return absent_ok(err) ? absent_ok(err) : -EAGAIN;
	a.bytes = sum;
	return inode_put(t, &a);
}

/* What an extent refers to is lost: a hole says so, and the byte count follows. */
static int fix_extent(struct kv_txn *t, struct check *k, const struct check_fix *f)
{
	struct meta_segment s;
	int err;

	if (f->found.seg && segment_get(t, f->found.seg, &s) == 0 && f->arg <= s.len)
		return -EAGAIN;
	err = check_fix_del(t, k, f);
	if (!err)
		err = fix_bytes(t, k, f);
	return err == -EAGAIN ? 0 : err;
}

static int check_extent(struct check *k, struct kv_txn *t, const struct meta_attr *a,
			const struct tess_extent *x, uint64_t end)
{
	struct meta_segment s;
	struct check_fix f;
	struct fmt_key key;
	int err = segment_get(t, x->seg, &s);

	if (err == -ENOENT || (!err && x->seg_off + x->len > s.len)) {
		f = check_found("dangling-extent", a->ino, x->seg, fix_extent,
				"bytes %" PRIu64 "+%" PRIu64 " are in segment %016" PRIx64 ", %s",
				x->off, x->len, x->seg,
				err ? "which does not exist" : "behind its end");
		f.arg = x->seg_off + x->len;
		check_key(&f, KV_EXTENT, key_u64_u64(&key, a->ino, x->off));
		err = check_report(k, &f);
		return err ? err : 1;
	}
	if (err && err != -TESS_E_RECORD)
		return err;
	if (x->off < end || x->off + x->len > a->size) {
		f = check_found("overlap", a->ino, x->seg, NULL, "bytes %" PRIu64 "+%" PRIu64 " %s",
				x->off, x->len,
				x->off < end ? "are mapped twice"
					     : "are behind the end of the file");
		return check_report(k, &f);
	}
	return 0;
}

int check_file(struct check *k, struct kv_txn *t, const struct meta_attr *a)
{
	uint64_t end = 0, sum = 0;
	struct tess_extent x;
	struct check_fix f;
	int bad, err = extent_first(t, a->ino, 0, &x);

	for (; !err; err = extent_next(t, a->ino, &x)) {
		k->c->extents++;
		sum += x.len;
		bad = check_extent(k, t, a, &x, end);
		if (bad >= 0)
			bad = bad && k->c->repair ? 0 : counts_add(&k->live, x.seg, (int64_t)x.len);
		if (bad < 0)
			return bad;
		end = x.off + x.len;
	}
	if (err == -TESS_E_RECORD) {
		f = check_found("record", a->ino, 0, NULL,
				"extent record behind %" PRIu64 " is corrupt", end);
		return check_report(k, &f);
	}
	if (!absent_ok(err) && sum != a->bytes) {
		f = check_found("bytes", a->ino, 0, fix_bytes,
				"extents hold %" PRIu64 " bytes, the inode says %" PRIu64, sum,
				a->bytes);
		return check_report(k, &f);
	}
	return absent_ok(err);
}

/* Of an inode that is gone, or never was. */
static int check_stray_extent(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v)
{
	uint64_t ino = key.n == 16 ? fmt_be64_get(key.p) : 0;
	struct tess_extent x = {0};
	struct meta_attr a;
	struct check_fix f;
	int err;

	if (ino && ino == k->ino)
		return 0; /* seen with its last extent */
	err = inode_get(t, ino, &a);
	if (err != -TESS_E_STALE) {
		k->ino = ino;
		return err == -TESS_E_RECORD ? 0 : err;
	}
	(void)codec_extent_get(key, v, &ino, &x);
	f = check_found("dangling-extent", ino, x.seg, check_fix_del, "extent of no inode");
	check_key(&f, KV_EXTENT, key);
	return check_report(k, &f);
}

/* ---- segments ---- */

static int fix_live(struct kv_txn *t, struct check *k, const struct check_fix *f)
{
	struct tally_row *r;
	struct tally y;
	int err;

	tally_init(&y, k->m);
	err = tally_row(&y, t, f->found.seg, &r);
	if (!err && r->seg.live != f->stamp)
		err = -EAGAIN;
	if (!err) {
		r->delta = (int64_t)(f->arg - r->seg.live);
		r->changed = true;
		/* One that says 0 and is 0 should have died: let it. */
		if (!f->arg && !r->seg.live) {
			r->seg.live = 1;
			r->delta = -1;
		}
		err = tally_apply(&y, t);
	}
	tally_done(&y);
	return err == -ENOENT ? -EAGAIN : err;
}

static int live_finding(struct check *k, const struct meta_segment *s, uint64_t n)
{
	struct check_fix f = check_found(
		n ? "live" : "lost-segment", 0, s->id, fix_live,
		"extents refer to %" PRIu64 " bytes of it, the record says %" PRIu64, n, s->live);

	f.arg = n;
	f.stamp = s->live;
	return check_report(k, &f);
}

static int fix_staged(struct kv_txn *t, struct check *k, const struct check_fix *f)
{
	return staged_put(t, atomic_load(&k->m->session), f->found.seg, 0);
}

static int check_segment_parts(struct check *k, struct kv_txn *t, const struct meta_segment *s)
{
	uint64_t blocks = (s->len + TESS_BLOCK - 1) / TESS_BLOCK, garbage = 0;
	struct fmt_key key;
	struct kv_val v;
	struct check_fix f;
	uint32_t session;
	int err;

	if (s->state == META_STAGED) {
		err = staged_find(t, k->m, s->id, &session, &garbage);
		if (!err && !garbage)
			return 0;
		f = check_found("lost-segment", 0, s->id, fix_staged,
				"staged, but on no session's list");
		return err && err != -ENOENT ? err : check_report(k, &f);
	}
	err = kv_get(t, KV_CSUM, key_u64(&key, s->id), &v);
	if (!err)
		err = codec_bytes_get(v, FMT_CSUM, &v);
	if (!err && v.n == blocks * 4)
		return 0;
	if (err && err != -ENOENT && err != -TESS_E_RECORD)
		return err;
	f = check_found("csum", 0, s->id, NULL, "its %" PRIu64 " checksums are %s", blocks,
			err == -ENOENT ? "missing" : "not as many");
	return check_report(k, &f);
}

static int check_segment(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v)
{
	struct meta_segment s;
	struct count *c;
	int err;

	k->c->segments++;
	if (key.n != 8 || codec_segment_get(v, fmt_be64_get(key.p), &s)) {
		struct check_fix f = check_found("record", 0, key.n == 8 ? fmt_be64_get(key.p) : 0,
						 NULL, "segment record is corrupt");

		return check_report(k, &f);
	}
	err = check_segment_parts(k, t, &s);
	if (err)
		return err;
	c = counts_find(&k->live, s.id);
	if (c && c->n == (int64_t)s.live)
		return 0;
	if (!k->c->online)
		return live_finding(k, &s, c ? (uint64_t)c->n : 0);
	err = counts_add(&k->again, s.id, 0);
	if (!err)
		counts_find(&k->again, s.id)->stamp = s.live;
	return err;
}

/* ---- counting again ---- */

static int recount_extent(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v)
{
	struct tess_extent x;
	uint64_t ino;

	(void)t;
	return codec_extent_get(key, v, &ino, &x) ? 0
						  : counts_add(&k->again, x.seg, (int64_t)x.len);
}

struct recount_op {
	struct check *k;
	const struct count *c;
};

static int recount_segment(struct kv_txn *t, void *arg)
{
	struct recount_op *o = arg;
	struct meta_segment s;
	int err = segment_get(t, o->c->key, &s);

	if (err || s.live != o->c->stamp || s.live == (uint64_t)o->c->n)
		return absent_ok(err);
	return live_finding(o->k, &s, (uint64_t)o->c->n);
}

static int check_live_again(struct check *k)
{
	int err = 0;

	if (!k->again.n)
		return 0;
	k->again.closed = true;
	err = check_walk(k, KV_EXTENT, recount_extent);
	for (size_t i = 0; i < k->again.cap && !err; i++) {
		struct recount_op o = {k, &k->again.slot[i]};

		if (o.c->key)
			err = kv_read(k->m->kv, recount_segment, &o);
	}
	counts_done(&k->again);
	return err;
}

/* ---- the small ones ---- */

static int check_csum(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v)
{
	uint64_t id = key.n == 8 ? fmt_be64_get(key.p) : 0;
	struct meta_segment s;
	struct check_fix f;
	int err = segment_get(t, id, &s);

	(void)v;
	if (err != -ENOENT)
		return err == -TESS_E_RECORD ? 0 : err;
	f = check_found("csum", 0, id, check_fix_del, "checksums of no segment");
	check_key(&f, KV_CSUM, key);
	return check_report(k, &f);
}

/* What is garbage while its segment lives: a sealed one's staging file, objects of a copy or left by a move. */
static bool garbage_beside(const struct meta_garbage *g, const struct meta_segment *s)
{
	if (s->state == META_STAGED)
		return false;
	if (g->kind == META_GARBAGE_STAGED)
		return true;
	return g->kind != META_GARBAGE_OBJECTS && s->moved == g->serial;
}

static int check_garbage(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v)
{
	struct meta_segment s;
	struct meta_garbage g;
	struct check_fix f;
	int err = 0;

	if (key.n != 8 || codec_garbage_get(v, fmt_be64_get(key.p), &g)) {
		f = check_found("record", 0, 0, check_fix_del, "garbage record is corrupt");
	} else {
		err = segment_get(t, g.seg.id, &s);
		if (err || garbage_beside(&g, &s))
			return absent_ok(err) == -TESS_E_RECORD ? 0 : absent_ok(err);
		f = check_found("lost-segment", 0, g.seg.id, check_fix_del,
				"it lives, and is on the garbage list");
	}
	check_key(&f, KV_GARBAGE, key);
	return check_report(k, &f);
}

int check_data(struct check *k)
{
	int err;

	k->ino = 0;
	err = check_walk(k, KV_EXTENT, check_stray_extent);
	if (!err)
		err = check_walk(k, KV_SEGMENT, check_segment);
	if (!err)
		err = check_live_again(k);
	if (!err)
		err = check_walk(k, KV_CSUM, check_csum);
	if (!err)
		err = check_walk(k, KV_GARBAGE, check_garbage);
	return err;
}
