/* SPDX-License-Identifier: Apache-2.0 */
/* Records come back as they were put, and no bytes whatever make a reader stumble. */
#include "meta/codec.h"
#include "base/err.h"
#include "unit.h"

#include <sys/stat.h>

static uint64_t seed = 1;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static struct meta_attr some_attr(void)
{
	static const uint32_t types[] = {S_IFREG,  S_IFDIR, S_IFLNK, S_IFIFO,
					 S_IFSOCK, S_IFCHR, S_IFBLK};
	struct meta_attr a = {
		.ino = rnd() | 1,
		.generation = rnd(),
		.parent = rnd(),
		.mode = types[rnd() % 7] | (rnd() & 07777),
		.uid = (uint32_t)rnd(),
		.gid = (uint32_t)rnd(),
		.nlink = (uint32_t)rnd() | 1,
		.rdev = rnd(),
		.size = rnd() >> 1,
		.bytes = rnd() >> 1,
		.atime = (int64_t)rnd(),
		.mtime = (int64_t)rnd(),
		.ctime = (int64_t)rnd(),
		.btime = (int64_t)rnd(),
		.flags = (uint32_t)rnd() & (META_HAS_XATTR | META_HAS_ACL | META_DFLT_ACL),
		.layout = {(uint16_t)rnd(), (uint16_t)rnd(), (uint32_t)rnd()},
	};

	if (rnd() % 4 == 0) {
		a.nlink = 0;
		a.flags |= META_ORPHAN;
	}
	return a;
}

START_TEST(inodes_come_back)
{
	for (int i = 0; i < 1000; i++) {
		struct meta_attr a = some_attr(), b;
		uint8_t buf[FMT_INODE_LEN], again[FMT_INODE_LEN];
		size_t n = codec_inode_put(buf, &a);

		ck_assert_uint_eq(n, FMT_INODE_LEN);
		CLEAN(codec_inode_get(kv_val(buf, n), a.ino, &b));
		ck_assert_uint_eq(b.ino, a.ino);
		ck_assert_uint_eq(codec_inode_put(again, &b), n);
		ck_assert_mem_eq(again, buf, n);
		ck_assert(b.size == a.size && b.mode == a.mode && b.btime == a.btime &&
			  b.layout.segment_size == a.layout.segment_size);
	}
}
END_TEST

START_TEST(an_inode_is_one_length_and_means_something)
{
	struct meta_attr a = some_attr(), b;
	uint8_t buf[FMT_INODE_LEN + 1] = {0};

	a.nlink = 1;
	a.flags = 0;
	size_t n = codec_inode_put(buf, &a);

	ck_assert_int_eq(codec_inode_get(kv_val(buf, n - 1), 1, &b), -TESS_E_RECORD);
	ck_assert_int_eq(codec_inode_get(kv_val(buf, n + 1), 1, &b), -TESS_E_RECORD);
	buf[1]++;
	ck_assert_int_eq(codec_inode_get(kv_val(buf, n), 1, &b), -TESS_E_RECORD);
	a.nlink = 0; /* and no orphan */
	n = codec_inode_put(buf, &a);
	ck_assert_int_eq(codec_inode_get(kv_val(buf, n), 1, &b), -TESS_E_RECORD);
	a.nlink = 1;
	a.mode = 0644;
	n = codec_inode_put(buf, &a);
	ck_assert_int_eq(codec_inode_get(kv_val(buf, n), 1, &b), -TESS_E_RECORD);
	a.mode = S_IFREG;
	a.size = UINT64_MAX;
	n = codec_inode_put(buf, &a);
	ck_assert_int_eq(codec_inode_get(kv_val(buf, n), 1, &b), -TESS_E_RECORD);
}
END_TEST

static const char *const bad_names[] = {"", ".", "..", "a/b", "/"};

START_TEST(dentries_come_back)
{
	struct fmt_dentry d = {7, S_IFDIR, "a name \xff", 8}, e;
	uint8_t buf[FMT_DENTRY_MAX];
	size_t n = codec_dentry_put(buf, &d);

	CLEAN(codec_dentry_get(kv_val(buf, n), &e));
	ck_assert(e.ino == 7 && e.type == S_IFDIR && e.nlen == 8 && memcmp(e.name, d.name, 8) == 0);
	for (size_t i = 0; i < sizeof(bad_names) / sizeof(bad_names[0]); i++) {
		d.name = bad_names[i];
		d.nlen = strlen(d.name);
		n = codec_dentry_put(buf, &d);
		ck_assert_int_eq(codec_dentry_get(kv_val(buf, n), &e), -TESS_E_RECORD);
	}
}
END_TEST

START_TEST(extents_come_back)
{
	struct fmt_extent x = {.len = 4096, .seg = 0x100000002, .seg_off = 12};
	uint8_t buf[FMT_EXTENT_MAX];
	struct tess_extent y;
	struct fmt_key k;
	uint64_t ino;
	size_t n = codec_extent_put(buf, &x);

	CLEAN(codec_extent_get(key_u64_u64(&k, 5, 1 << 20), kv_val(buf, n), &ino, &y));
	ck_assert(ino == 5 && y.off == 1 << 20 && y.len == 4096 && y.seg == x.seg &&
		  y.seg_off == 12);
	ck_assert_int_eq(codec_extent_get(key_u64_u64(&k, 5, INT64_MAX), kv_val(buf, n), &ino, &y),
			 -TESS_E_RECORD);
	ck_assert_int_eq(codec_extent_get(key_u64(&k, 5), kv_val(buf, n), &ino, &y),
			 -TESS_E_RECORD);
	x.seg_off = UINT32_MAX - 10;
	n = codec_extent_put(buf, &x);
	ck_assert_int_eq(codec_extent_get(key_u64_u64(&k, 5, 0), kv_val(buf, n), &ino, &y),
			 -TESS_E_RECORD);
}
END_TEST

START_TEST(an_extent_has_a_turn_or_is_shorter)
{
	struct fmt_extent x = {.len = 4096, .seg = 0x100000002, .seg_off = 12};
	uint8_t buf[FMT_EXTENT_MAX + 8];
	struct tess_extent y;
	struct fmt_key k;
	struct kv_val key = key_u64_u64(&k, 5, 0);
	uint64_t ino;
	size_t n = codec_extent_put(buf, &x);

	ck_assert_uint_eq(n, FMT_EXTENT_MAX - 8);
	y.turn = 1;
	CLEAN(codec_extent_get(key, kv_val(buf, n), &ino, &y));
	ck_assert_uint_eq(y.turn, 0);
	/* No turn is said by none, and there is no other way. */
	for (size_t i = 1; i <= 16; i++) {
		memset(buf + n, 0, 16);
		ck_assert_int_eq(codec_extent_get(key, kv_val(buf, n + i), &ino, &y), -TESS_E_RECORD);
		memset(buf + n, 1, 16);
		ck_assert_int_eq(codec_extent_get(key, kv_val(buf, n + i), &ino, &y),
				 i == 8 ? 0 : -TESS_E_RECORD);
	}
	for (unsigned i = 0; i < 64; i++) {
		x.turn = UINT64_C(1) << i | 1;
		n = codec_extent_put(buf, &x);
		ck_assert_uint_eq(n, FMT_EXTENT_MAX);
		CLEAN(codec_extent_get(key, kv_val(buf, n), &ino, &y));
		ck_assert(y.turn == x.turn && y.len == x.len && y.seg == x.seg && y.seg_off == x.seg_off);
		ck_assert_int_eq(codec_extent_get(key, kv_val(buf, n - 1), &ino, &y), -TESS_E_RECORD);
	}
}
END_TEST

static struct meta_segment some_segment(void)
{
	struct meta_segment s = {.id = rnd() | 1,
				 .cls = 3,
				 .state = META_DURABLE,
				 .width = 5,
				 .cell = 4096,
				 .len = 70000,
				 .live = 69999,
				 .owner = 12};

	for (unsigned i = 0; i < s.width; i++)
		s.target[i] = (uint16_t)rnd();
	return s;
}

START_TEST(segments_and_garbage_come_back)
{
	struct meta_segment s = some_segment(), t;
	struct meta_garbage g = {.serial = 9, .kind = META_GARBAGE_STAGED, .seg = s, .died = 4}, h;
	uint8_t buf[FMT_GARBAGE_MAX];
	size_t n = codec_segment_put(buf, &s);

	CLEAN(codec_segment_get(kv_val(buf, n), s.id, &t));
	ck_assert_mem_eq(&s.target, &t.target, sizeof(s.target));
	ck_assert(t.len == s.len && t.live == s.live && t.owner == s.owner && t.state == s.state);
	n = codec_garbage_put(buf, &g);
	CLEAN(codec_garbage_get(kv_val(buf, n), 9, &h));
	ck_assert(h.kind == g.kind && h.died == 4 && h.seg.id == s.id && h.seg.width == 5);
	g.kind = META_GARBAGE_MOVED;
	g.session = 77;
	n = codec_garbage_put(buf, &g);
	CLEAN(codec_garbage_get(kv_val(buf, n), 9, &h));
	ck_assert(h.kind == g.kind && h.session == 77 && h.seg.width == 5);
	ck_assert_int_eq(codec_garbage_get(kv_val(buf, n - 4), 9, &h), -TESS_E_RECORD);
	g.session = 0;
	ck_assert_int_eq(codec_garbage_get(kv_val(buf, codec_garbage_put(buf, &g)), 9, &h), -TESS_E_RECORD);
	s.moved = 12;
	n = codec_segment_put(buf, &s);
	CLEAN(codec_segment_get(kv_val(buf, n), s.id, &t));
	ck_assert(t.moved == 12 && t.target[4] == s.target[4]);
	s.moved = 0;
	s.state = META_STAGED; /* with targets */
	n = codec_segment_put(buf, &s);
	ck_assert_int_eq(codec_segment_get(kv_val(buf, n), s.id, &t), -TESS_E_RECORD);
}
END_TEST

START_TEST(sessions_come_back)
{
	struct meta_session s = {.id = 3,
				 .host = "h",
				 .boot = "b",
				 .pidns = 1,
				 .pid = 2,
				 .pid_start = 3,
				 .started = -4,
				 .heartbeat = 5,
				 .beat = 6,
				 .lease = 9,
				 .joined = 7,
				 .tail = UINT64_MAX,
				 .fenced = true,
				 .mountpoint = "/mnt/a b"},
			    t;
	uint8_t buf[FMT_SESSION_MAX];
	size_t n = codec_session_put(buf, &s);

	CLEAN(codec_session_get(kv_val(buf, n), 3, &t));
	ck_assert_mem_eq(&s, &t, sizeof(s));
	buf[n - 1] = 2; /* neither fenced nor not */
	ck_assert_int_eq(codec_session_get(kv_val(buf, n), 3, &t), -TESS_E_RECORD);
}
END_TEST

START_TEST(changes_come_back)
{
	uint8_t buf[FMT_CHANGE_MAX];
	struct meta_change c;
	struct fmt_key k;
	struct kv_val key = key_change(&k, 7, META_CHANGE_DATA, 9);
	size_t n = codec_change_put(buf, 3, kv_val("", 0));

	CLEAN(codec_change_get(key, kv_val(buf, n), &c));
	ck_assert(c.serial == 7 && c.session == 3 && c.kind == META_CHANGE_DATA && c.ino == 9);
	ck_assert(!c.name && c.nlen == 0);
	/* A name is a name's change's alone, and it has to be one. */
	n = codec_change_put(buf, 3, kv_val("abc", 3));
	ck_assert_int_eq(codec_change_get(key, kv_val(buf, n), &c), -TESS_E_RECORD);
	(void)key_change(&k, 7, META_CHANGE_NAME, 9);
	fmt_be64(k.b + 17, 1000);
	key = kv_val(k.b, 25);
	CLEAN(codec_change_get(key, kv_val(buf, n), &c));
	ck_assert(c.kind == META_CHANGE_NAME && c.nlen == 3 && !memcmp(c.name, "abc", 3));
	ck_assert_int_eq(codec_change_get(kv_val(k.b, 17), kv_val(buf, n), &c), -TESS_E_RECORD);
	n = codec_change_put(buf, 3, kv_val("a/c", 3));
	ck_assert_int_eq(codec_change_get(key, kv_val(buf, n), &c), -TESS_E_RECORD);
	for (unsigned kind = 0; kind < 256; kind++) {
		key = key_change(&k, 7, (uint8_t)kind, 9);
		n = codec_change_put(buf, 3, kv_val("", 0));
		ck_assert_int_eq(codec_change_get(key, kv_val(buf, n), &c) == 0,
				 kind >= META_CHANGE_ATTR && kind <= META_CHANGE_ORPHAN &&
					 kind != META_CHANGE_NAME);
	}
}
END_TEST

static struct meta_super some_super(void)
{
	struct meta_super s = {.format = FMT_VERSION,
			       .fsid = 77,
			       .label = "scratch",
			       .created = 1,
			       .layout = {1, 2, 4 << 20},
			       .ntargets = 2};

	memcpy(s.targets[0].tier, "fast", 5);
	memcpy(s.targets[0].uri, "kv:kv0", 7);
	s.targets[1].id = 1;
	memset(s.targets[1].uri, 'u', META_URI_MAX);
	return s;
}

START_TEST(the_super_record_comes_back)
{
	static struct meta_super s, t;
	size_t n;

	s = some_super();
	for (s.mark = 0; s.mark < 8; s.mark++) {
		uint8_t *buf = codec_super_put(&s, &n);

		CLEAN(codec_super_get(kv_val(buf, n), &t));
		ck_assert_mem_eq(&s, &t, sizeof(s));
		free(buf);
	}
}
END_TEST

START_TEST(a_changed_super_record_is_refused_with_its_reason)
{
	static struct meta_super s, t;
	size_t n;

	s = some_super();
	uint8_t *buf = codec_super_put(&s, &n);

	for (size_t i = 0; i < n; i++) {
		buf[i] ^= 0x40;
		ck_assert_int_ne(codec_super_get(kv_val(buf, n), &t), 0);
		buf[i] ^= 0x40;
	}
	for (size_t i = 0; i < n; i++)
		ck_assert_int_ne(codec_super_get(kv_val(buf, i), &t), 0);
	free(buf);
	s.format = FMT_VERSION + 1;
	buf = codec_super_put(&s, &n);
	ck_assert_int_eq(codec_super_get(kv_val(buf, n), &t), -TESS_E_FORMAT_NEWER);
	ck_assert_uint_eq(t.format, FMT_VERSION + 1);
	free(buf);
	s.format = FMT_VERSION;
	s.incompat = UINT64_C(1) << 63;
	buf = codec_super_put(&s, &n);
	ck_assert_int_eq(codec_super_get(kv_val(buf, n), &t), -TESS_E_FORMAT_NEWER);
	free(buf);
	ck_assert_int_eq(codec_super_get(kv_val("SQLite format 3", 16), &t), -TESS_E_FORMAT_MAGIC);
	ck_assert_int_eq(codec_super_get(kv_val("", 0), &t), -TESS_E_FORMAT_MAGIC);
}
END_TEST

/* Exact heap copies, so that a sanitizer sees one byte too far. What is accepted must print again.
 */
static void try_all(const uint8_t *bytes, size_t n)
{
	static struct meta_super super;
	uint8_t *p = malloc(n ? n : 1), out[FMT_SESSION_MAX + FMT_GARBAGE_MAX];
	struct kv_val v = kv_val(p, n), b;
	struct meta_session session;
	struct meta_garbage garbage;
	struct meta_segment segment;
	struct fmt_dentry dentry;
	struct tess_extent ext;
	struct meta_attr attr;
	struct meta_change change;
	struct fmt_key k;
	uint64_t x;

	memcpy(p, bytes, n);
	if (codec_inode_get(v, 1, &attr) == 0)
		ck_assert(codec_inode_put(out, &attr) == n && memcmp(out, p, n) == 0);
	if (codec_dentry_get(v, &dentry) == 0)
		ck_assert(codec_dentry_put(out, &dentry) == n && memcmp(out, p, n) == 0);
	if (codec_segment_get(v, 1, &segment) == 0)
		ck_assert(codec_segment_put(out, &segment) == n && memcmp(out, p, n) == 0);
	if (codec_garbage_get(v, 1, &garbage) == 0)
		ck_assert(codec_garbage_put(out, &garbage) == n && memcmp(out, p, n) == 0);
	if (codec_session_get(v, 1, &session) == 0)
		ck_assert(codec_session_put(out, &session) == n && memcmp(out, p, n) == 0);
	if (codec_extent_get(key_u64_u64(&k, 1, 0), v, &x, &ext) == 0) {
		struct fmt_extent e = {ext.len, ext.seg, ext.seg_off, ext.turn};

		ck_assert(codec_extent_put(out, &e) == n && memcmp(out, p, n) == 0);
	}
	(void)codec_extent_get(v, v, &x, &ext);
	(void)codec_super_get(v, &super);
	(void)codec_bytes_get(v, FMT_XATTR, &b);
	(void)codec_u64_get(v, FMT_ORPHAN, &x);
	(void)codec_change_get(key_change(&k, 1, META_CHANGE_ATTR, 1), v, &change);
	(void)codec_change_get(v, v, &change);
	for (size_t i = 0; i < 8; i++)
		k.b[17 + i] = 1;
	k.b[8] = META_CHANGE_NAME;
	if (codec_change_get(kv_val(k.b, 25), v, &change) == 0)
		ck_assert(codec_change_put(out, change.session, kv_val(change.name, change.nlen)) == n &&
			  memcmp(out, p, n) == 0);
	(void)codec_u64_get(v, FMT_NEXT, &x);
	free(p);
}

static size_t sample(unsigned which, uint8_t *buf)
{
	struct meta_attr a = some_attr();
	struct meta_segment s = some_segment();
	struct meta_garbage g = {.serial = 9, .kind = (uint8_t)(1 + which / 7 % 4), .session = 5, .seg = s, .died = 4};
	struct fmt_dentry d = {7, S_IFREG, "name", 4};
	struct fmt_extent x = {.len = 4096, .seg = 2, .seg_off = 12, .turn = 3};
	struct meta_session p = {.id = 3, .host = "h", .boot = "b"};

	switch (which % 7) {
	case 0:
		return codec_inode_put(buf, &a);
	case 1:
		return codec_dentry_put(buf, &d);
	case 2:
		return codec_extent_put(buf, &x);
	case 3:
		return codec_segment_put(buf, &s);
	case 4:
		return codec_garbage_put(buf, &g);
	case 5:
		return codec_change_put(buf, 3, kv_val("name", 4));
	default:
		return codec_session_put(buf, &p);
	}
}

START_TEST(no_bytes_make_a_reader_stumble)
{
	uint8_t buf[FMT_SESSION_MAX + FMT_GARBAGE_MAX];

	for (unsigned i = 0; i < 60000; i++) {
		size_t n = sample(i, buf);

		for (unsigned k = (unsigned)(rnd() % 4); k; k--)
			buf[rnd() % n] = (uint8_t)rnd();
		if (rnd() % 3 == 0)
			n = rnd() % (n + 1);
		if (rnd() % 8 == 0) {
			n = rnd() % sizeof(buf);
			for (size_t at = 2; at < n; at++)
				buf[at] = (uint8_t)rnd();
		}
		try_all(buf, n);
	}
}
END_TEST

UNIT_MAIN("codec", inodes_come_back, an_inode_is_one_length_and_means_something, dentries_come_back,
	  extents_come_back, an_extent_has_a_turn_or_is_shorter, segments_and_garbage_come_back,
	  sessions_come_back, changes_come_back, the_super_record_comes_back,
	  a_changed_super_record_is_refused_with_its_reason,
	  no_bytes_make_a_reader_stumble)
