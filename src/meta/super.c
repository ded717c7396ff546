/* SPDX-License-Identifier: Apache-2.0 */
/* The file system as a whole: making it, opening it, its own record and totals. */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "base/text.h"
#include "meta/meta_impl.h"
#include <sys/stat.h>

static int super_put(struct kv_txn *t, const struct meta_super *s)
{
	size_t n;
	scoped_free uint8_t *buf = codec_super_put(s, &n);

	return buf ? kv_put(t, KV_SUPER, key_str(FMT_KEY_SUPER), kv_val(buf, n)) : -ENOMEM;
}

int counter_take(struct kv_txn *t, const char *name, uint64_t n, uint64_t first, uint64_t *ret)
{
	uint8_t buf[FMT_HEAD + 8];
	uint64_t next = first;
	struct kv_val v;
	int err = kv_get(t, KV_SUPER, key_str(name), &v);

	if (!err)
		err = codec_u64_get(v, FMT_NEXT, &next);
	err = absent_ok(err);
	if (!err)
		err = kv_put(t, KV_SUPER, key_str(name),
			     kv_val(buf, codec_u64_put(buf, FMT_NEXT, next + n)));
	if (!err)
		*ret = next;
	return err;
}

/* ---- inode numbers, a range at a time, so that a create does not write the counter ---- */

#define INO_RANGE 4096u

static int ino_take_range(struct kv_txn *t, void *arg)
{
	return counter_take(t, FMT_KEY_NEXT_INO, INO_RANGE, FMT_FIRST_INO, arg);
}

int ino_take(struct meta *m, uint64_t *ret)
{
	uint64_t range;

	for (;;) {
		lock_take(&m->lock);
		if (m->ino_next < m->ino_end) {
			*ret = m->ino_next++;
			lock_drop(&m->lock);
			return 0;
		}
		lock_drop(&m->lock);
		int err = meta_run(m, ino_take_range, &range);

		if (err)
			return err;
		lock_take(&m->lock);
		/* Two threads may have asked: the numbers of one range are lost, there are enough.
		 */
		m->ino_next = range;
		m->ino_end = range + INO_RANGE;
		lock_drop(&m->lock);
	}
}

/* ---- making ---- */

struct format_op {
	const struct meta_super *super;
	const struct tess_req *req;
	int64_t now;
};

static int format_run(struct kv_txn *t, void *arg)
{
	const struct format_op *o = arg;
	struct meta_super s = *o->super;
	struct meta_attr root = {
		.ino = TESS_ROOT_INO,
		.generation = 1,
		.parent = TESS_ROOT_INO,
		.mode = S_IFDIR | 0755,
		.uid = o->req ? o->req->uid : 0,
		.gid = o->req ? o->req->gid : 0,
		.nlink = 2,
		.size = TESS_BLOCK,
		.atime = o->now,
		.mtime = o->now,
		.ctime = o->now,
		.btime = o->now,
		.layout = o->super->layout,
	};
	struct kv_val v;
	int err = kv_get(t, KV_SUPER, key_str(FMT_KEY_SUPER), &v);

	if (err != -ENOENT)
		return err ? err : -EEXIST;
	s.format = FMT_VERSION;
	err = super_put(t, &s);
	return err ? err : inode_put(t, &root);
}

int meta_format(struct kv *kv, const struct meta_super *super, const struct tess_req *req,
		int64_t now)
{
	struct format_op o = {super, req, now};

	if (super->ntargets > TESS_TARGETS_MAX)
		return -EINVAL;
	return kv_run(kv, format_run, &o, NULL);
}

/* ---- opening ---- */

static int super_get(struct kv_txn *t, void *arg)
{
	struct kv_val v;
	int err = kv_get(t, KV_SUPER, key_str(FMT_KEY_SUPER), &v);

	if (err)
		return err == -ENOENT ? -TESS_E_FORMAT_MAGIC : err;
	return codec_super_get(v, arg);
}

static void super_explain(int err, const struct meta_super *s, struct text *why)
{
	if (!why)
		return;
	if (err == -TESS_E_FORMAT_MAGIC)
		text_add(why, "not a Tessera file system: its super record is missing or is none");
	else if (err == -TESS_E_FORMAT_NEWER)
		text_fmt(why,
			 "made by a newer Tessera: format %u, features %#llx; this one knows "
			 "format %u, features %#llx",
			 s->format, (unsigned long long)s->incompat, FMT_VERSION,
			 (unsigned long long)FMT_INCOMPAT_KNOWN);
	else if (err == -TESS_E_RECORD)
		text_add(why, "the super record is corrupt: its checksum or a field is wrong");
	else
		text_fmt(why, "cannot read the super record: %s", err_text(err));
}

int meta_open(struct meta **ret, struct kv *kv, struct text *why)
{
	scoped_free struct meta_super_box *box = mem_zalloc(sizeof(*box));
	struct meta *m;
	int err;

	if (!box)
		return -ENOMEM;
	err = kv_read(kv, super_get, &box->s);
	if (err) {
		super_explain(err, &box->s, why);
		return err;
	}
	m = mem_zalloc(sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->kv = kv;
	atomic_init(&m->super, steal_ptr(box));
	lock_init(&m->lock, LOCK_META, "meta");
	kv->count[0].name = "reads";
	kv->count[1].name = "writes";
	m->stats = (struct trace_group){.name = "kv", .counters = kv->count, .ncounters = 2};
	trace_register(&m->stats);
	*ret = m;
	return 0;
}

void meta_close(struct meta *m)
{
	if (!m)
		return;
	for (struct meta_super_box *b = atomic_load(&m->super), *older; b; b = older) {
		older = b->older;
		free(b);
	}
	trace_unregister(&m->stats);
	kv_close(m->kv);
	lock_done(&m->lock);
	free(m);
}

const struct meta_super *meta_super(const struct meta *m)
{
	return &atomic_load_explicit(&m->super, memory_order_acquire)->s;
}

void meta_relax(struct meta *m, int64_t ns, unsigned exact)
{
	atomic_store(&m->relax_not, exact);
	atomic_store(&m->relax, ns);
}

struct kv *meta_kv(const struct meta *m)
{
	return m->kv;
}

static int super_set(struct kv_txn *t, void *arg)
{
	return super_put(t, arg);
}

int meta_super_update(struct meta *m, const struct meta_super *super)
{
	scoped_free struct meta_super_box *box = mem_zalloc(sizeof(*box));
	int err;

	if (!box)
		return -ENOMEM;
	if (super->ntargets > TESS_TARGETS_MAX)
		return -EINVAL;
	box->s = *super;
	box->s.format = FMT_VERSION;
	box->s.fsid = meta_super(m)->fsid; /* names are hashed with it */
	err = meta_run(m, super_set, &box->s);
	if (err)
		return err;
	scoped_lock(&m->lock);
	box->older = atomic_load(&m->super);
	atomic_store(&m->super, steal_ptr(box));
	return 0;
}

/* ---- totals ---- */

static int totals_run(struct kv_txn *t, void *arg)
{
	struct meta_totals *r = arg;
	struct kv_val v, key = kv_val("\0", 1);
	int err;

	memset(r, 0, sizeof(*r));
	if ((err = kv_count(t, KV_INODE, &r->inodes)) ||
	    (err = kv_count(t, KV_DENTRY, &r->dentries)) ||
	    (err = kv_count(t, KV_EXTENT, &r->extents)) ||
	    (err = kv_count(t, KV_SEGMENT, &r->segments)) ||
	    (err = kv_count(t, KV_GARBAGE, &r->garbage)))
		return err;
	/* Sessions and what they have staged: bounded by the staging area. */
	err = kv_seek(t, KV_SESSION, 1, &key, &v);
	while (!err) {
		uint64_t garbage = 1;

		if (key.n == 12)
			err = codec_u64_get(v, FMT_STAGED, &garbage);
		r->staged_segments += garbage == 0;
		if (!err)
			err = kv_step(t, KV_SESSION, 1, &key, &v);
	}
	return absent_ok(err);
}

int meta_totals(struct meta *m, struct meta_totals *ret)
{
	struct meta_totals r;
	int err = kv_read(m->kv, totals_run, &r);

	if (err)
		return err;
	r.kv_bytes = kv_bytes(m->kv);
	*ret = r;
	return 0;
}
