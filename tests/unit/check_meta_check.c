/* SPDX-License-Identifier: Apache-2.0 */
/* layer: meta */
/* The checker: it finds each kind of damage, repairs what it can, and cries no wolf while others
 * write. */
#include "../lib/metatest.h"
#include "base/err.h"
#include "meta/codec.h"
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define R TESS_ROOT_INO
#define F (S_IFREG | 0644)
#define D (S_IFDIR | 0755)

static uint64_t dir, file, gone;
static tess_segid seg;

static void tree(int engine)
{
	mt_open(engine);
	dir = mt_make(R, "d", D);
	file = mt_make(dir, "f", F);
	gone = mt_make(dir, "g", F);
	mt_make(dir, "sub", D);
	CLEAN(meta_xattr_set(mt, file, "user.a", "b", 1, 0, NOW));
	CLEAN(mt_publish(file, 0, 10000, &seg));
	CLEAN(mt_unlink(dir, "g", NULL));
}

static int change_inode(struct kv_txn *t, uint64_t ino, void (*fn)(struct meta_attr *))
{
	uint8_t buf[FMT_INODE_LEN];
	struct meta_attr a;
	struct fmt_key k;
	struct kv_val v;

	CLEAN(kv_get(t, KV_INODE, key_u64(&k, ino), &v));
	CLEAN(codec_inode_get(v, ino, &a));
	fn(&a);
	return kv_put(t, KV_INODE, key_u64(&k, ino), kv_val(buf, codec_inode_put(buf, &a)));
}

static void nlink_up(struct meta_attr *a)
{
	a->nlink++;
}
static void bytes_up(struct meta_attr *a)
{
	a->bytes++;
}
static void parent_off(struct meta_attr *a)
{
	a->parent = 777;
}

static int bad_nlink(struct kv_txn *t, void *arg)
{
	(void)arg;
	return change_inode(t, file, nlink_up);
}
static int bad_dir_nlink(struct kv_txn *t, void *arg)
{
	(void)arg;
	return change_inode(t, dir, nlink_up);
}
static int bad_bytes(struct kv_txn *t, void *arg)
{
	(void)arg;
	return change_inode(t, file, bytes_up);
}
static int bad_parent(struct kv_txn *t, void *arg)
{
	(void)arg;
	return change_inode(t, dir, parent_off);
}

static int del_u64(struct kv_txn *t, enum kv_db db, uint64_t a)
{
	struct fmt_key k;

	return kv_del(t, db, key_u64(&k, a));
}
static int no_inode(struct kv_txn *t, void *arg)
{
	(void)arg;
	return del_u64(t, KV_INODE, file);
}
static int no_segment(struct kv_txn *t, void *arg)
{
	(void)arg;
	return del_u64(t, KV_SEGMENT, seg);
}
static int no_csum(struct kv_txn *t, void *arg)
{
	(void)arg;
	return del_u64(t, KV_CSUM, seg);
}
static int no_extent(struct kv_txn *t, void *arg)
{
	struct fmt_key k;

	(void)arg;
	return kv_del(t, KV_EXTENT, key_u64_u64(&k, file, 0));
}
static int no_orphan(struct kv_txn *t, void *arg)
{
	struct fmt_key k;

	(void)arg;
	return kv_del(t, KV_ORPHAN, key_u32_u64(&k, meta_session_id(mt), gone));
}
static int no_dentry(struct kv_txn *t, void *arg)
{
	struct fmt_key k;
	struct kv_val v, key = key_u64_u64(&k, dir, 0);
	struct fmt_key copy;

	(void)arg;
	CLEAN(kv_seek(t, KV_DENTRY, 1, &key, &v));
	memcpy(copy.b, key.p, key.n);
	return kv_del(t, KV_DENTRY, kv_val(copy.b, key.n));
}

static int put_junk(struct kv_txn *t, enum kv_db db, struct kv_val key)
{
	return kv_put(t, db, key, kv_val("junk", 4));
}
static int junk_inode(struct kv_txn *t, void *arg)
{
	struct fmt_key k;

	(void)arg;
	return put_junk(t, KV_INODE, key_u64(&k, file));
}
static int junk_extent(struct kv_txn *t, void *arg)
{
	struct fmt_key k;

	(void)arg;
	return put_junk(t, KV_EXTENT, key_u64_u64(&k, file, 0));
}
static int junk_segment(struct kv_txn *t, void *arg)
{
	struct fmt_key k;

	(void)arg;
	return put_junk(t, KV_SEGMENT, key_u64(&k, seg));
}
static int junk_garbage(struct kv_txn *t, void *arg)
{
	struct fmt_key k;

	(void)arg;
	return put_junk(t, KV_GARBAGE, key_u64(&k, 5));
}
static int junk_dentry(struct kv_txn *t, void *arg)
{
	struct fmt_key k;

	(void)arg;
	return put_junk(t, KV_DENTRY, key_u64_u64(&k, dir, 300));
}
static int stray_xattr(struct kv_txn *t, void *arg)
{
	struct fmt_key k;

	(void)arg;
	return put_junk(t, KV_XATTR, key_xattr(&k, 4242, "user.x", 6));
}
static int stray_csum(struct kv_txn *t, void *arg)
{
	struct fmt_key k;

	(void)arg;
	return put_junk(t, KV_CSUM, key_u64(&k, 4242));
}

static int put_extent(struct kv_txn *t, uint64_t ino, uint64_t off, struct fmt_extent x)
{
	uint8_t buf[FMT_EXTENT_MAX];
	struct fmt_key k;

	return kv_put(t, KV_EXTENT, key_u64_u64(&k, ino, off),
		      kv_val(buf, codec_extent_put(buf, &x)));
}
static int two_extents(struct kv_txn *t, void *arg)
{
	(void)arg;
	return put_extent(t, file, 50, (struct fmt_extent){.len = 100, .seg = seg});
}
static int stray_extent(struct kv_txn *t, void *arg)
{
	(void)arg;
	return put_extent(t, 4242, 0, (struct fmt_extent){.len = 100, .seg = seg});
}
static int past_segment(struct kv_txn *t, void *arg)
{
	(void)arg;
	return put_extent(t, file, 0, (struct fmt_extent){.len = 10001, .seg = seg});
}
static int bad_live(struct kv_txn *t, void *arg)
{
	uint8_t buf[FMT_SEGMENT_MAX];
	struct meta_segment s;
	struct fmt_key k;
	struct kv_val v;

	(void)arg;
	CLEAN(kv_get(t, KV_SEGMENT, key_u64(&k, seg), &v));
	CLEAN(codec_segment_get(v, seg, &s));
	s.live += 5;
	return kv_put(t, KV_SEGMENT, key_u64(&k, seg), kv_val(buf, codec_segment_put(buf, &s)));
}

static const struct {
	int (*damage)(struct kv_txn *t, void *arg);
	const char *what;
	bool repairable;
} damages[] = {
	{bad_nlink, "nlink", true},
	{bad_dir_nlink, "nlink", true},
	{bad_bytes, "bytes", true},
	{bad_parent, "parent", true},
	{bad_live, "live", true},
	{no_inode, "dangling-dentry", true},
	{no_segment, "dangling-extent", true},
	{no_csum, "csum", false},
	{no_extent, "bytes", true},
	{no_extent, "lost-segment", true},
	{no_orphan, "orphan", true},
	{no_dentry, "nlink", false}, /* a file's is repaired; a directory without a name stays */
	{junk_inode, "record", false},
	{junk_extent, "record", false},
	{junk_segment, "record", false},
	{junk_dentry, "record", false},
	{junk_garbage, "record", true},
	{stray_xattr, "record", true},
	{stray_csum, "csum", true},
	{stray_extent, "dangling-extent", true},
	{past_segment, "dangling-extent", true},
	{two_extents, "overlap", false},
};

struct seen {
	const char *what;
	unsigned n;
};

static void count_kind(void *arg, const struct meta_finding *f)
{
	struct seen *s = arg;

	ck_assert_ptr_nonnull(memchr(f->text, 0, sizeof(f->text)));
	s->n += strcmp(f->what, s->what) == 0;
}

START_TEST(each_damage_is_found_and_repaired)
{
	unsigned i = (unsigned)_i / 4;
	struct seen s = {damages[i].what, 0};
	struct meta_check c = {.online = _i & 1, .fn = count_kind, .arg = &s};

	tree(_i >> 1 & 1);
	ck_assert_int_eq(mt_check(false), 0);
	CLEAN(kv_run(meta_kv(mt), damages[i].damage, NULL, NULL));
	CLEAN(meta_check(mt, &c));
	ck_assert_uint_ge(s.n, 1);
	ck_assert_uint_eq(c.repaired, 0);
	if (damages[i].repairable) {
		c.repair = true;
		CLEAN(meta_check(mt, &c));
		ck_assert_uint_ge(c.repaired, 1);
		/* What a repair uncovers the next run sees: extents of a file that is gone, say. */
		for (unsigned n = 0; n < 3 && mt_check(true); n++)
			;
		ck_assert_int_eq(mt_check(false), 0);
	}
	meta_close(mt);
}
END_TEST

static atomic_bool stop;
static atomic_uint errors;

static void *churn(void *arg)
{
	uintptr_t self = (uintptr_t)arg;
	char name[32];

	for (unsigned i = 0; !atomic_load(&stop) && i < 20000; i++) {
		struct meta_new in = {.mode = i % 5 ? F : D};
		struct meta_attr a;
		int n = snprintf(name, sizeof(name), "t%u-%u", (unsigned)self, i % 17);

		if (meta_lookup(mt, R, name, (size_t)n, &a) == 0) {
			int err = S_ISDIR(a.mode) ? meta_rmdir(mt, R, name, (size_t)n, NOW, NULL)
						  : meta_unlink(mt, R, name, (size_t)n, NOW, NULL);

			atomic_fetch_add(&errors, err != 0);
		} else if (meta_create(mt, R, name, (size_t)n, &in, NOW, &a) ||
			   (S_ISREG(a.mode) && mt_publish(a.ino, 0, 5000, NULL))) {
			atomic_fetch_add(&errors, 1);
		}
	}
	return NULL;
}

START_TEST(a_busy_file_system_is_clean)
{
	pthread_t th[2];

	mt_open(_i);
	for (uintptr_t i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&th[i], NULL, churn, (void *)i), 0);
	for (unsigned i = 0; i < 15; i++) {
		struct seen s = {"", 0};
		struct meta_check c = {.online = true, .fn = count_kind, .arg = &s};

		CLEAN(meta_check(mt, &c));
		ck_assert_uint_eq(c.findings, 0);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(th[i], NULL);
	ck_assert_uint_eq(atomic_load(&errors), 0);
	mt_reclaim_all();
	mt_close();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("meta_check");
	TCase *c = tcase_create("check");

	suite_add_tcase(s, c);
	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, each_damage_is_found_and_repaired, 0,
			    4 * (int)(sizeof(damages) / sizeof(damages[0])));
	tcase_add_loop_test(c, a_busy_file_system_is_clean, 0, 2);
	return unit_run(s);
}
