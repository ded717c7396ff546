/* SPDX-License-Identifier: Apache-2.0 */
/* Segment records, their checksums, and the tally of live bytes that a closure changes. */
#include "base/err.h"
#include "base/fault.h"
#include "base/htab.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"

/* ---- records ---- */

int segment_get(struct kv_txn *t, tess_segid id, struct meta_segment *ret)
{
	struct fmt_key k;
	struct kv_val v;
	int err = kv_get(t, KV_SEGMENT, key_u64(&k, id), &v);

	return err ? err : codec_segment_get(v, id, ret);
}

int segment_put(struct kv_txn *t, const struct meta_segment *s)
{
	uint8_t buf[FMT_SEGMENT_MAX];
	struct fmt_key k;

	return kv_put(t, KV_SEGMENT, key_u64(&k, s->id), kv_val(buf, codec_segment_put(buf, s)));
}

int csum_put(struct kv_txn *t, const struct meta_new_segment *s)
{
	scoped_free uint8_t *buf = mem_alloc(FMT_HEAD + (size_t)s->ncsums * 4);
	struct fmt_key k;

	if (!buf)
		return -ENOMEM;
	codec_head_put(buf, FMT_CSUM);
	for (uint32_t i = 0; i < s->ncsums; i++) {
		uint32_t x = htole32(s->csums[i]);

		memcpy(buf + FMT_HEAD + (size_t)i * 4, &x, 4);
	}
	return kv_put(t, KV_CSUM, key_u64(&k, s->seg.id),
		      kv_val(buf, FMT_HEAD + (size_t)s->ncsums * 4));
}

/* ---- the tally ---- */

void tally_init(struct tally *y, struct meta *m)
{
	y->m = m;
	y->row = y->few;
	y->slot = NULL;
	y->n = 0;
	y->cap = ARRAY_SIZE(y->few);
}

void tally_done(struct tally *y)
{
	if (y->row != y->few)
		free(y->row);
	free(y->slot);
}

static uint32_t *tally_slot(const struct tally *y, tess_segid id)
{
	uint64_t mask = (uint64_t)y->cap * 2 - 1;
	uint64_t i = hash64(id) & mask;

	while (y->slot[i] && y->row[y->slot[i] - 1].seg.id != id)
		i = (i + 1) & mask;
	return &y->slot[i];
}

static struct tally_row *tally_find(const struct tally *y, tess_segid id)
{
	if (y->slot) {
		uint32_t i = *tally_slot(y, id);

		return i ? &y->row[i - 1] : NULL;
	}
	for (unsigned i = y->n; i-- > 0;)
		if (y->row[i].seg.id == id)
			return &y->row[i];
	return NULL;
}

static int tally_grow(struct tally *y)
{
	unsigned cap = y->cap * 4;
	struct tally_row *row = mem_array(cap, sizeof(*row));
	uint32_t *slot = mem_array((size_t)cap * 2, sizeof(*slot));

	if (!row || !slot) {
		free(row);
		free(slot);
		return -ENOMEM;
	}
	memcpy(row, y->row, y->n * sizeof(*row));
	tally_done(y);
	y->row = row;
	y->slot = slot;
	y->cap = cap;
	for (uint32_t i = 0; i < y->n; i++)
		*tally_slot(y, row[i].seg.id) = i + 1;
	return 0;
}

static int tally_add(struct tally *y, const struct tally_row *r, struct tally_row **ret)
{
	int err = y->n == y->cap ? tally_grow(y) : 0;

	if (err)
		return err;
	if (y->slot)
		*tally_slot(y, r->seg.id) = y->n + 1;
	y->row[y->n] = *r;
	*ret = &y->row[y->n++];
	return 0;
}

int tally_row(struct tally *y, struct kv_txn *t, tess_segid id, struct tally_row **ret)
{
	struct tally_row r = {.stored = true};
	int err;

	*ret = tally_find(y, id);
	if (*ret)
		return 0;
	err = segment_get(t, id, &r.seg);
	return err ? err : tally_add(y, &r, ret);
}

/*
 * A staged segment that lost its last live byte is on the garbage list while its file is still
 * appended to. New extents take it off again; had the list been worked off before, its file would
 * be gone.
 */
static int tally_revive(struct tally *y, struct kv_txn *t, tess_segid id)
{
	uint32_t session;
	uint64_t serial;
	struct fmt_key k;
	int err = staged_find(t, y->m, id, &session, &serial);

	if (err)
		return absent_ok(err);
	err = kv_del(t, KV_GARBAGE, key_u64(&k, serial));
	return err == -ENOENT ? -TESS_E_STAGE_LOST : err;
}

int tally_new(struct tally *y, struct kv_txn *t, const struct meta_new_segment *s)
{
	struct tally_row r = {.seg = s->seg, .changed = true, .fresh = s}, *old;
	int err;

	if (!s->seg.id || s->seg.len > UINT32_MAX || s->seg.width > TESS_SHARDS_MAX ||
	    s->seg.state < META_STAGED || s->seg.state > META_DEGRADED ||
	    (s->seg.state == META_STAGED) != (s->seg.width == 0))
		return -EINVAL;
	err = tally_row(y, t, s->seg.id, &old);
	if (!err) {
		/*
		 * Sealed meanwhile: it has all that was appended. Or it is about to be, and this publish,
		 * which knows, came before the seal's transaction.
		 */
		if (old->seg.state == META_STAGED && s->seg.len > old->seg.len) {
			old->seg.len = s->seg.len;
			old->changed = true;
		}
		return 0;
	}
	if (err != -ENOENT)
		return err;
	r.seg.live = 0;
	err = s->seg.state == META_STAGED ? tally_revive(y, t, s->seg.id) : 0;
	return err ? err : tally_add(y, &r, &old);
}

static int tally_die(struct kv_txn *t, struct tally_row *r, struct meta *m)
{
	bool staged = r->seg.state == META_STAGED;
	struct fmt_key k;
	uint64_t serial;
	int err = r->stored ? kv_del(t, KV_SEGMENT, key_u64(&k, r->seg.id)) : 0;

	if (!err && r->stored && !staged)
		err = absent_ok(kv_del(t, KV_CSUM, key_u64(&k, r->seg.id)));
	if (!err)
		err = garbage_add(t, staged ? META_GARBAGE_STAGED : META_GARBAGE_OBJECTS, &r->seg,
				  &serial);
	if (!err && staged) {
		uint32_t session = atomic_load(&m->session);
		uint64_t old;

		err = absent_ok(staged_find(t, m, r->seg.id, &session, &old));
		if (!err)
			err = staged_put(t, session, r->seg.id, serial);
	}
	return err;
}

static int tally_store(struct kv_txn *t, struct tally_row *r, struct meta *m)
{
	int err = 0;

	if (!r->delta && !r->changed)
		return 0;
	if (r->delta < 0 && (uint64_t)-r->delta > r->seg.live)
		return -TESS_E_RECORD;
	r->seg.live += (uint64_t)r->delta;
	if (r->seg.live == 0 && (r->delta || !r->stored))
		return tally_die(t, r, m);
	if (!r->stored && r->seg.state == META_STAGED)
		err = staged_put(t, atomic_load(&m->session), r->seg.id, 0);
	else if (!r->stored && r->fresh)
		err = csum_put(t, r->fresh);
	return err ? err : segment_put(t, &r->seg);
}

int tally_apply(struct tally *y, struct kv_txn *t)
{
	int err = 0;

	for (unsigned i = 0; i < y->n && !err; i++)
		err = tally_store(t, &y->row[i], y->m);
	return err;
}

/* ---- operations ---- */

struct segment_op {
	struct meta *m;
	tess_segid id;
	struct meta_segment *ret;
	unsigned max, n;
	uint32_t first;
	uint32_t *csums;
	const struct meta_new_segment *s;
};

static int segment_run_get(struct kv_txn *t, void *arg)
{
	struct segment_op *o = arg;

	return segment_get(t, o->id, o->ret);
}

int meta_segment_get(struct meta *m, tess_segid id, struct meta_segment *ret)
{
	struct segment_op o = {.m = m, .id = id, .ret = ret};

	return kv_read(m->kv, segment_run_get, &o);
}

static int segment_run_list(struct kv_txn *t, void *arg)
{
	struct segment_op *o = arg;
	struct fmt_key k;
	struct kv_val v, key = key_u64(&k, o->id + 1);
	int err = kv_seek(t, KV_SEGMENT, 1, &key, &v);

	while (!err && o->n < o->max) {
		err = key.n == 8 ? codec_segment_get(v, fmt_be64_get(key.p), &o->ret[o->n])
				 : -TESS_E_RECORD;
		if (!err) {
			o->n++;
			err = kv_step(t, KV_SEGMENT, 1, &key, &v);
		}
	}
	return absent_ok(err);
}

int meta_segments(struct meta *m, tess_segid after, struct meta_segment *ret, unsigned max,
		  unsigned *ret_n)
{
	struct segment_op o = {.m = m, .id = after, .ret = ret, .max = max};
	int err = after == UINT64_MAX ? 0 : kv_read(m->kv, segment_run_list, &o);

	if (!err)
		*ret_n = o.n;
	return err;
}

static int segment_run_csums(struct kv_txn *t, void *arg)
{
	struct segment_op *o = arg;
	struct fmt_key k;
	struct kv_val v;
	int err = kv_get(t, KV_CSUM, key_u64(&k, o->id), &v);

	if (!err)
		err = codec_bytes_get(v, FMT_CSUM, &v);
	if (err)
		return err == -ENOENT ? -TESS_E_RECORD : err;
	if (v.n % 4 || v.n / 4 < (uint64_t)o->first + o->max)
		return -TESS_E_RECORD;
	for (uint32_t i = 0; i < o->max; i++)
		o->csums[i] = codec_csum_get(v, o->first + i);
	return 0;
}

int meta_csums(struct meta *m, tess_segid id, uint32_t first, uint32_t n, uint32_t *ret)
{
	struct segment_op o = {.m = m, .id = id, .first = first, .max = n, .csums = ret};

	return kv_read(m->kv, segment_run_csums, &o);
}

static int segment_run_seal(struct kv_txn *t, void *arg)
{
	struct segment_op *o = arg;
	struct meta_segment old, s = o->s->seg;
	uint64_t serial;
	int err = segment_get(t, s.id, &old);

	if (err)
		return err;
	if (old.state != META_STAGED)
		return -EEXIST;
	if (s.len < old.len)
		return -EINVAL;
	s.live = old.live;
	s.owner = old.owner;
	err = segment_put(t, &s);
	if (!err)
		err = csum_put(t, o->s);
	if (!err)
		err = staged_del(t, o->m, s.id);
	return err ? err : garbage_add(t, META_GARBAGE_STAGED, &old, &serial);
}

int meta_segment_seal(struct meta *m, const struct meta_new_segment *s)
{
	struct segment_op o = {.m = m, .s = s};

	if (s->seg.state == META_STAGED || !s->seg.width || s->seg.width > TESS_SHARDS_MAX ||
	    s->seg.len > UINT32_MAX || !s->csums)
		return -EINVAL;
	return meta_run(m, segment_run_seal, &o);
}
