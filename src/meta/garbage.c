/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be deleted from stores and the staging area. A serial is never used twice, so that two
 * processes that work off the list at once cannot strike each other's entries.
 */
#include "base/err.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"

#define GARBAGE_PER_COMMIT_BITS 20

int garbage_get(struct kv_txn *t, uint64_t serial, struct meta_garbage *ret)
{
	struct fmt_key k;
	struct kv_val v;
	int err = kv_get(t, KV_GARBAGE, key_u64(&k, serial), &v);

	return err ? err : codec_garbage_get(v, serial, ret);
}

int garbage_put(struct kv_txn *t, const struct meta_garbage *g)
{
	uint8_t buf[FMT_GARBAGE_MAX];
	struct fmt_key k;

	return kv_put(t, KV_GARBAGE, key_u64(&k, g->serial), kv_val(buf, codec_garbage_put(buf, g)));
}

int garbage_new(struct kv_txn *t, struct meta_garbage *g)
{
	struct fmt_key k;
	struct kv_val v, key = key_u64(&k, UINT64_MAX);
	int err = kv_seek(t, KV_GARBAGE, -1, &key, &v);

	g->died = t->serial - 1;
	g->serial = t->serial << GARBAGE_PER_COMMIT_BITS;
	if (!err) {
		if (key.n != 8)
			return -TESS_E_RECORD;
		g->serial = MAX(g->serial, fmt_be64_get(key.p) + 1);
	}
	err = absent_ok(err);
	return err ? err : garbage_put(t, g);
}

int garbage_add(struct kv_txn *t, enum meta_garbage_kind kind, const struct meta_segment *s,
		uint64_t *ret_serial)
{
	struct meta_garbage g = {.kind = (uint8_t)kind, .seg = *s};
	int err = garbage_new(t, &g);

	if (!err)
		*ret_serial = g.serial;
	return err;
}

struct garbage_op {
	struct meta *m;
	uint64_t after;
	struct meta_garbage *ret;
	unsigned max, n;
	const uint64_t *serials;
};

static int garbage_run_list(struct kv_txn *t, void *arg)
{
	struct garbage_op *o = arg;
	struct fmt_key k;
	struct kv_val v, key = key_u64(&k, o->after + 1);
	int err = kv_seek(t, KV_GARBAGE, 1, &key, &v);

	while (!err && o->n < o->max) {
		err = key.n == 8 ? codec_garbage_get(v, fmt_be64_get(key.p), &o->ret[o->n])
				 : -TESS_E_RECORD;
		if (!err) {
			o->n++;
			err = kv_step(t, KV_GARBAGE, 1, &key, &v);
		}
	}
	return absent_ok(err);
}

int meta_garbage_list(struct meta *m, uint64_t after, struct meta_garbage *ret, unsigned max,
		      unsigned *ret_n)
{
	struct garbage_op o = {.m = m, .after = after, .ret = ret, .max = max};
	int err = after == UINT64_MAX ? 0 : kv_read(m->kv, garbage_run_list, &o);

	if (!err)
		*ret_n = o.n;
	return err;
}

/* A staged segment's entry in the session goes with its file. */
static int garbage_strike(struct kv_txn *t, struct meta *m, uint64_t serial)
{
	struct meta_garbage g;
	struct fmt_key k;
	uint32_t session;
	uint64_t of;
	int err = garbage_get(t, serial, &g);

	if (!err)
		err = kv_del(t, KV_GARBAGE, key_u64(&k, serial));
	if (err)
		return absent_ok(err);
	if (g.kind != META_GARBAGE_STAGED)
		return 0;
	err = staged_find(t, m, g.seg.id, &session, &of);
	if (!err && of == serial)
		err = kv_del(t, KV_SESSION, key_u32_u64(&k, session, g.seg.id));
	return absent_ok(err);
}

static int garbage_run_done(struct kv_txn *t, void *arg)
{
	struct garbage_op *o = arg;
	int err = 0;

	for (unsigned i = 0; i < o->n && !err; i++)
		err = garbage_strike(t, o->m, o->serials[i]);
	return err;
}

int meta_garbage_done(struct meta *m, const uint64_t *serials, unsigned n)
{
	struct garbage_op o = {.m = m, .serials = serials, .n = n};

	return n ? meta_run(m, garbage_run_done, &o) : 0;
}
