/* SPDX-License-Identifier: Apache-2.0 */
/* layer: meta */
/* Turns: what was written later stays, in whatever order sessions publish, and however they come and go. */
#include "../lib/metatest.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/htab.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"
#include "unit.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define R TESS_ROOT_INO
#define F (S_IFREG | 0644)

/* ---- the oracle: files of units, each a hole or a place in a segment and when it was written ---- */

#define UNITS 256u	/* of a file: four regions that have turns of their own */
#define UNIT  4096u
#define FILES 3u
#define WHOLE ((struct tess_range){0, UNITS * UNIT})
#define SEGS  40000u

struct place {
	uint32_t seg, at; /* number in segs[] + 1, unit in it; 0: hole */
	uint64_t turn;	  /* in which it was written, by whomever */
	uint64_t stored;  /* what its record has to say of that */
};
static struct place want[FILES][UNITS];
static uint64_t size[FILES]; /* in units */
static uint64_t file[FILES];
static struct {
	tess_segid id;
	uint32_t len;
} segs[SEGS];
static uint32_t nsegs;
static uint32_t open_seg; /* number of the staged one that grows, the first session's; 0: none */

static void lay(unsigned f, uint32_t at, struct place p)
{
	struct place *w = &want[f][at];

	if (p.turn == META_TURN_MOVED) {
		w->at = w->seg ? p.at : 0;
		w->seg = w->seg ? p.seg : 0;
	} else if (!w->seg || w->turn <= p.turn) {
		*w = p;
	}
}

static void cut(unsigned f, uint64_t at, uint64_t end)
{
	if (at < end)
		memset(&want[f][at], 0, (end - at) * sizeof(want[f][at]));
}

static void expect_piece(unsigned f, const struct meta_map *map, const struct meta_piece *p)
{
	const struct tess_extent *x = &p->ext;

	for (uint64_t b = x->off; b < x->off + x->len; b += UNIT - b % UNIT) {
		const struct place *w = &want[f][b / UNIT];

		ck_assert_uint_eq(x->seg, w->seg ? segs[w->seg - 1].id : 0);
		if (!w->seg)
			continue;
		ck_assert_uint_eq(x->seg_off + (b - x->off), w->at * UNIT + b % UNIT);
		ck_assert_uint_eq(x->turn, w->stored);
		ck_assert_uint_eq(map->segments[p->segment].id, x->seg);
	}
}

static void expect_file(unsigned f)
{
	static struct meta_map map;
	struct meta_attr a = mt_attr(file[f]);
	uint64_t bytes = 0, at = 0;

	for (unsigned i = 0; i < UNITS; i++)
		bytes += want[f][i].seg ? UNIT : 0;
	ck_assert_uint_eq(a.size, size[f] * UNIT);
	ck_assert_uint_eq(a.bytes, bytes);
	while (at < a.size) {
		CLEAN(meta_map(mt, file[f], (struct tess_range){at, UNITS * UNIT}, &map));
		ck_assert_uint_gt(map.end, at);
		for (unsigned i = 0; i < map.npieces; i++) {
			ck_assert_uint_eq(map.pieces[i].ext.off, at);
			expect_piece(f, &map, &map.pieces[i]);
			at += map.pieces[i].ext.len;
		}
		ck_assert_uint_eq(map.end, at);
	}
}

static void start(int engine, unsigned sessions)
{
	char name[4];

	mt_open(engine);
	memset(want, 0, sizeof(want));
	memset(size, 0, sizeof(size));
	nsegs = open_seg = 0;
	for (unsigned s = 1; s < sessions; s++)
		mt_join(s);
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		file[i] = mt_make(R, name, F);
	}
}

/* ---- publishing, to both ---- */

#define PIECES 24u

/* One publish: its extents lie one behind the other in one segment. */
struct pub {
	unsigned s, f;
	uint32_t number, used; /* of the segment; its units so far */
	struct meta_publish p;
	struct meta_new_segment seg;
	struct tess_extent x[PIECES];
	struct tess_range punch;
};

static void pub_begin(struct pub *b, unsigned s, unsigned f, bool staged)
{
	static const uint32_t csums[PIECES * UNITS];

	*b = (struct pub){.s = s, .f = f, .p = {.trunc_to = META_NO_TRUNC}};
	b->number = staged ? open_seg : 0;
	if (!b->number) {
		ck_assert_uint_lt(nsegs, SEGS);
		segs[nsegs].id = meta_segment_new(mt_s[s]);
		segs[nsegs].len = 0;
		b->number = ++nsegs;
		if (staged)
			open_seg = b->number;
	}
	b->used = segs[b->number - 1].len;
	b->seg = (struct meta_new_segment){{.id = segs[b->number - 1].id,
					    .cls = 1,
					    .state = staged ? META_STAGED : META_DURABLE,
					    .width = !staged,
					    .owner = 5},
					   staged ? NULL : csums, 0};
}

static void pub_add(struct pub *b, uint32_t at, uint32_t n, uint64_t turn)
{
	ck_assert_uint_lt(b->p.next, PIECES);
	b->x[b->p.next++] = (struct tess_extent){at * UNIT, n * UNIT, b->seg.seg.id, b->used * UNIT, turn};
	b->used += n;
	b->p.size = MAX(b->p.size, (uint64_t)(at + n) * UNIT);
}

static void pub_oracle(const struct pub *b)
{
	uint64_t to = b->p.trunc_to == META_NO_TRUNC ? size[b->f] : b->p.trunc_to / UNIT;

	cut(b->f, to, UNITS);
	size[b->f] = MAX(MIN(size[b->f], to), b->p.size / UNIT);
	if (b->p.npunch)
		cut(b->f, b->punch.off / UNIT, (b->punch.off + b->punch.len) / UNIT);
	for (unsigned i = 0; i < b->p.next; i++) {
		const struct tess_extent *x = &b->x[i];

		for (uint32_t u = 0; u < x->len / UNIT; u++)
			lay(b->f, (uint32_t)(x->off / UNIT) + u,
			    (struct place){b->number, (uint32_t)(x->seg_off / UNIT) + u, x->turn,
					   mt_alone() ? 0 : x->turn});
	}
	segs[b->number - 1].len = b->used;
}

static int pub_commit(struct pub *b)
{
	int err;

	b->seg.seg.len = (uint64_t)b->used * UNIT;
	b->seg.ncsums = b->seg.csums ? (uint32_t)((b->seg.seg.len + TESS_BLOCK - 1) / TESS_BLOCK) : 0;
	b->p.ext = b->x;
	b->p.punch = &b->punch;
	b->p.segs = &b->seg;
	b->p.nsegs = b->p.next > 0;
	err = meta_publish(mt_s[b->s], file[b->f], &b->p, NULL);
	if (!err)
		pub_oracle(b);
	return err;
}

static void put(unsigned s, unsigned f, uint32_t at, uint32_t n, uint64_t turn)
{
	struct pub b;

	pub_begin(&b, s, f, false);
	pub_add(&b, at, n, turn);
	CLEAN(pub_commit(&b));
}

/* ---- who stays ---- */

#define FEW 5u

/* What is there, by unit: a hole, older than what comes, of its turn, later. */
static void shape_base(unsigned shape)
{
	static const uint64_t turns[] = {0, 10, 20, 30};
	struct pub b;

	pub_begin(&b, 1, 0, false);
	b.p.trunc_to = 0;
	for (unsigned u = 0; u < FEW; u++, shape /= 4)
		if (shape % 4)
			pub_add(&b, u, 1, turns[shape % 4]);
	CLEAN(pub_commit(&b));
}

START_TEST(each_overlap_leaves_what_is_later)
{
	start(_i, 2);
	for (unsigned shape = 0; shape < 1024; shape++) {
		for (unsigned at = 0; at < FEW; at++) {
			for (unsigned n = 1; at + n <= FEW; n++) {
				nsegs = 0; /* all die in the cut that comes */
				shape_base(shape);
				put(0, 0, at, n, 20);
				expect_file(0);
			}
		}
		if (shape % 128 == 0)
			ck_assert_int_eq(mt_check(false), 0);
	}
	mt_close();
}
END_TEST

static uint64_t extents(void)
{
	struct meta_totals t;

	CLEAN(meta_totals(mt, &t));
	return t.extents;
}

struct record {
	uint64_t ino, off;
	size_t n;
};

static int record_run(struct kv_txn *t, void *arg)
{
	struct record *r = arg;
	struct fmt_key k;
	struct kv_val v;
	int err = kv_get(t, KV_EXTENT, key_u64_u64(&k, r->ino, r->off), &v);

	if (!err)
		r->n = v.n;
	return err;
}

static size_t record_len(unsigned f, uint32_t at)
{
	struct record r = {file[f], at * UNIT, 0};

	CLEAN(kv_read(meta_kv(mt), record_run, &r));
	return r.n;
}

/* One unit after the other, each publish with the next one of `turns`, and all in one segment. */
static void put_run(unsigned f, const uint64_t *turns, unsigned n)
{
	struct pub b;

	open_seg = 0;
	for (unsigned i = 0; i < n; i++) {
		pub_begin(&b, 0, f, true);
		pub_add(&b, i, 1, turns[i]);
		CLEAN(pub_commit(&b));
	}
	expect_file(f);
}

START_TEST(alone_no_turn_is_stored)
{
	static const uint64_t turns[] = {3, 3, 4, 9, 9, 12};
	struct pub b;

	start(_i, 1);
	put_run(0, turns, 6);
	ck_assert_uint_eq(extents(), 1);
	ck_assert_uint_eq(record_len(0, 0), FMT_EXTENT_MAX - 8);
	mt_join(1);
	put_run(1, turns, 6);
	ck_assert_uint_eq(extents(), 1 + 4);
	ck_assert_uint_eq(record_len(1, 0), FMT_EXTENT_MAX);
	/* What continues a record that has a turn does not take it over. */
	put_run(2, turns, 1);
	mt_leave(1);
	pub_begin(&b, 0, 2, true);
	pub_add(&b, 1, 1, 3);
	CLEAN(pub_commit(&b));
	expect_file(2);
	ck_assert_uint_eq(record_len(2, 0), FMT_EXTENT_MAX);
	ck_assert_uint_eq(record_len(2, 1), FMT_EXTENT_MAX - 8);
	ck_assert_uint_eq(record_len(0, 0), FMT_EXTENT_MAX - 8);
	/* A turn that another left is heeded by one who is alone. */
	put(0, 2, 0, 1, 2);
	expect_file(2);
	ck_assert_uint_eq(want[2][0].turn, 3);
	mt_close();
}
END_TEST

START_TEST(a_turn_begins_a_record_of_its_own)
{
	struct pub b;

	start(_i, 2);
	pub_begin(&b, 0, 0, false);
	pub_add(&b, 0, 2, 5);
	pub_add(&b, 2, 2, 5);
	pub_add(&b, 4, 2, 6);
	pub_add(&b, 6, 2, 5);
	CLEAN(pub_commit(&b));
	expect_file(0);
	ck_assert_uint_eq(extents(), 3);
	/* What stays between two parts of one extent keeps its borders. */
	put(1, 0, 0, 10, 5);
	expect_file(0);
	ck_assert_uint_eq(extents(), 3);
	/* And a part is one record over whatever it covers. */
	put(1, 0, 0, 10, 6);
	expect_file(0);
	ck_assert_uint_eq(extents(), 1);
	mt_close();
}
END_TEST

START_TEST(what_has_no_turn_loses_to_everybody)
{
	start(_i, 1);
	put(0, 0, 0, 10, META_TURN_MOVED - 1);
	ck_assert_uint_eq(record_len(0, 0), FMT_EXTENT_MAX - 8);
	mt_join(1);
	/* Nothing that is published from here on was written before. */
	for (unsigned u = 0; u < 10; u++)
		want[0][u].turn = 0;
	put(1, 0, 2, 3, 1);
	put(0, 0, 6, 1, 2);
	put(1, 0, 8, 4, 1);
	expect_file(0);
	/* What is published without one loses as well, but to none of its kind. */
	put(0, 0, 0, 12, 0);
	expect_file(0);
	ck_assert_uint_eq(want[0][0].seg, nsegs);
	ck_assert_uint_ne(want[0][2].seg, nsegs);
	mt_close();
}
END_TEST

START_TEST(what_loses_every_byte_leaves_its_segment_as_garbage)
{
	struct meta_garbage g[4];
	struct meta_segment seg;
	struct pub b;
	unsigned n;

	start(_i, 2);
	put(1, 0, 0, 10, 7);
	for (unsigned staged = 0; staged < 2; staged++) {
		pub_begin(&b, 0, 0, staged);
		pub_add(&b, 2, 3, 6);
		pub_add(&b, 0, 1, 5);
		pub_add(&b, 9, 1, 6);
		CLEAN(pub_commit(&b));
		expect_file(0);
		ck_assert_uint_eq(mt_attr(file[0]).bytes, 10 * UNIT);
		ck_assert_int_eq(meta_segment_get(mt, b.seg.seg.id, &seg), -ENOENT);
		CLEAN(meta_garbage_list(mt, 0, g, 4, &n));
		ck_assert_uint_eq(n, staged + 1);
		ck_assert_uint_eq(g[staged].seg.id, b.seg.seg.id);
		ck_assert_int_eq(g[staged].kind, staged ? META_GARBAGE_STAGED : META_GARBAGE_OBJECTS);
		ck_assert_int_eq(mt_check(false), 0);
	}
	/* The staged one is still written to, and some of it comes in time. */
	pub_begin(&b, 0, 0, true);
	pub_add(&b, 5, 1, 6);
	pub_add(&b, 6, 1, 8);
	CLEAN(pub_commit(&b));
	expect_file(0);
	CLEAN(meta_segment_get(mt, b.seg.seg.id, &seg));
	ck_assert(seg.live == UNIT && seg.len == 7 * UNIT);
	CLEAN(meta_garbage_list(mt, 0, g, 4, &n));
	ck_assert_uint_eq(n, 1);
	mt_close();
}
END_TEST

START_TEST(what_moves_keeps_its_turns)
{
	struct pub b;

	start(_i % 2, 2);
	pub_begin(&b, 1, 0, false);
	pub_add(&b, 0, 3, 10);
	pub_add(&b, 5, 2, 30);
	pub_add(&b, 7, 2, 20);
	pub_add(&b, 11, 1, 20);
	b.p.size = 14 * UNIT;
	CLEAN(pub_commit(&b));
	if (_i / 2)
		mt_leave(1); /* alone they are kept as well */
	put(0, 0, 1, 13, META_TURN_MOVED);
	expect_file(0);
	ck_assert_uint_eq(extents(), 5);
	ck_assert(want[0][1].stored == 10 && want[0][6].stored == 30 && want[0][8].stored == 20);
	ck_assert(!want[0][3].seg && !want[0][12].seg);
	ck_assert_uint_eq(record_len(0, 1), FMT_EXTENT_MAX);
	if (_i / 2)
		mt_join(1);
	/* They count where they are now. */
	put(1, 0, 0, 14, 20);
	expect_file(0);
	ck_assert_uint_eq(want[0][5].turn, 30);
	put(1, 0, 0, 14, 25);
	put(0, 0, 0, 14, META_TURN_MOVED);
	expect_file(0);
	put(0, 0, 0, 14, 24);
	expect_file(0);
	ck_assert_uint_ne(want[0][0].seg, nsegs);
	mt_close();
}
END_TEST

START_TEST(what_moves_into_a_hole_is_garbage)
{
	struct meta_garbage g[2];
	unsigned n;

	start(_i, 2);
	put(0, 0, 10, 1, 5);
	put(0, 0, 2, 4, META_TURN_MOVED);
	ck_assert_uint_eq(mt_attr(file[0]).bytes, UNIT);
	ck_assert_uint_eq(extents(), 1);
	CLEAN(meta_garbage_list(mt, 0, g, 2, &n));
	ck_assert(n == 1 && g[0].seg.id == segs[1].id);
	expect_file(0);
	mt_close();
}
END_TEST

START_TEST(a_clone_comes_after_all_that_was_written)
{
	struct meta_clone c = {.len = 4 * UNIT};
	struct meta_map *map = calloc(1, sizeof(*map));
	uint64_t a, b;

	start(_i, 2);
	c.src = file[0];
	c.dst = file[1];
	put(0, 0, 0, 4, meta_turn(mt_s[0], file[0], WHOLE));
	a = meta_turn(mt_s[1], file[1], WHOLE);
	CLEAN(meta_clone(mt_s[0], &c, NOW, NULL));
	CLEAN(meta_map(mt, file[1], (struct tess_range){0, 4 * UNIT}, map));
	ck_assert_uint_gt(map->pieces[0].ext.turn, a);
	for (unsigned u = 0; u < 4; u++)
		want[1][u] = (struct place){1, u, map->pieces[0].ext.turn, map->pieces[0].ext.turn};
	size[1] = 4;
	put(1, 1, 0, 3, a);
	expect_file(1);
	b = meta_turn(mt_s[1], file[1], WHOLE);
	ck_assert_uint_gt(b, map->pieces[0].ext.turn);
	put(1, 1, 1, 1, b);
	expect_file(1);
	ck_assert_uint_eq(want[1][1].turn, b);
	/* Alone it has no turn either. */
	mt_leave(1);
	c.dst = file[2];
	CLEAN(meta_clone(mt_s[0], &c, NOW, NULL));
	ck_assert_uint_eq(record_len(2, 0), FMT_EXTENT_MAX - 8);
	free(map);
	mt_close();
}
END_TEST

static int hash_run(struct kv_txn *t, void *arg)
{
	uint64_t h = 0;

	for (unsigned db = 0; db < KV_NDBS; db++) {
		struct kv_val v, key = kv_val("", 1);
		int err = kv_seek(t, (enum kv_db)db, 1, &key, &v);

		for (; !err; err = kv_step(t, (enum kv_db)db, 1, &key, &v))
			h = hash_bytes(v.p, v.n, hash_bytes(key.p, key.n, h + db));
		ck_assert_int_eq(err, -ENOENT);
	}
	*(uint64_t *)arg = h;
	return 0;
}

/* Of every pair there is. */
static uint64_t hash_all(void)
{
	uint64_t h;

	CLEAN(kv_read(meta_kv(mt), hash_run, &h));
	return h;
}

static const char *const points[] = {"alloc", "kv.get", "kv.put", "kv.del", "kv.seek", "kv.commit"};
#define NPOINTS ((int)ARRAY_SIZE(points))

/* Of the other session: holes, older and later ones, of nine segments so that the tally has to grow. */
static void fault_base(void)
{
	for (uint32_t i = 0; i < 9; i++) {
		struct pub b;

		pub_begin(&b, 1, 0, false);
		pub_add(&b, i * 4, 2, i % 2 ? 10 : 30);
		pub_add(&b, i * 4 + 2, 1, 20);
		CLEAN(pub_commit(&b));
	}
}

START_TEST(each_failure_leaves_all_as_it_was)
{
	const char *point = points[_i / 2];
	int expected = _i / 2 ? -EIO : -ENOMEM, err = expected;
	uint64_t before;
	struct pub b;
	char spec[64];
	unsigned n;

	start(_i % 2, 2);
	fault_base();
	before = hash_all();
	pub_begin(&b, 0, 0, false);
	pub_add(&b, 1, 30, 20);
	pub_add(&b, 31, 5, 9);
	pub_add(&b, 3, 20, META_TURN_MOVED);
	for (n = 1; err && n < 500; n++) {
		snprintf(spec, sizeof(spec), "%s@%u=EIO", point, n);
		CLEAN(fault_set(spec));
		err = pub_commit(&b);
		CLEAN(fault_set(NULL));
		ck_assert(err == 0 || err == expected);
		if (err)
			ck_assert_uint_eq(hash_all(), before);
		expect_file(0);
		ck_assert_int_eq(mt_check(false), 0);
	}
	ck_assert_int_eq(err, 0);
	ck_assert_uint_gt(n, 2);
	ck_assert_uint_ne(hash_all(), before);
	mt_close();
}
END_TEST

/* Who wrote first may publish last; what a user set ahead of the clock gives way to a write. */
START_TEST(no_publish_takes_time_back)
{
	struct meta_publish p = {.trunc_to = META_NO_TRUNC, .mtime = 5 * NS_PER_S};
	struct meta_attr a;

	start(_i, 1);
	CLEAN(meta_publish(mt, file[0], &p, &a));
	ck_assert_int_eq(a.mtime, 5 * NS_PER_S);
	p.mtime = 2 * NS_PER_S;
	CLEAN(meta_publish(mt, file[0], &p, &a));
	ck_assert_int_eq(a.mtime, 5 * NS_PER_S + 1);
	a.mtime = clock_wall() + 3600 * NS_PER_S;
	CLEAN(meta_setattr(mt, file[0], META_SET_MTIME, &a, NOW, NULL));
	CLEAN(meta_publish(mt, file[0], &p, &a));
	ck_assert_int_eq(a.mtime, 2 * NS_PER_S);
	mt_close();
}
END_TEST

/* ---- the random one: sessions write, publish in any order, come and go ---- */

static uint64_t dirty[MT_SESSIONS][FILES][UNITS]; /* turn of what is written and not published; 0: nothing */
/* Of each unit: the last turn, and whose it was. */
static struct {
	uint64_t turn;
	unsigned by;
} newest[FILES][UNITS];

static unsigned some_session(void)
{
	unsigned s;

	do
		s = (unsigned)mt_rnd(MT_SESSIONS);
	while (!mt_in(s));
	return s;
}

static struct tess_range some_units(void)
{
	uint64_t n = 1 + mt_rnd(mt_rnd(4) ? 12 : 100), at = mt_rnd(UNITS - n);

	return (struct tess_range){at, n};
}

static void op_write(void)
{
	unsigned s = some_session(), f = (unsigned)mt_rnd(FILES);
	struct tess_range r = some_units();
	uint64_t t = meta_turn(mt_s[s], file[f], (struct tess_range){r.off * UNIT, r.len * UNIT});

	for (uint64_t u = r.off; u < r.off + r.len; u++) {
		ck_assert(t > newest[f][u].turn || (t == newest[f][u].turn && s == newest[f][u].by));
		newest[f][u].turn = dirty[s][f][u] = t;
		newest[f][u].by = s;
	}
}

/* Of what is dirty in r as much as goes into one publish; false: there was none. */
static bool collect(struct pub *b, struct tess_range r)
{
	uint64_t *d = dirty[b->s][b->f];
	uint32_t u = (uint32_t)r.off, end = (uint32_t)(r.off + r.len);

	while (u < end && b->p.next < PIECES) {
		uint32_t n = 1;

		if (!d[u]) {
			u++;
			continue;
		}
		/* A turn's bytes are several nodes, now and then. */
		while (u + n < end && d[u + n] == d[u] && mt_rnd(12))
			n++;
		pub_add(b, u, n, d[u]);
		memset(&d[u], 0, n * sizeof(*d));
		u += n;
	}
	for (unsigned i = b->p.next; i > 1 && mt_rnd(2); i--)
		if (b->x[i - 1].turn == b->x[i - 2].turn || mt_rnd(2)) {
			struct tess_extent x = b->x[i - 1];

			b->x[i - 1] = b->x[i - 2];
			b->x[i - 2] = x;
		}
	return b->p.next > 0;
}

static void cut_too(struct pub *b)
{
	uint64_t *d = dirty[b->s][b->f];

	if (mt_rnd(10) == 0) {
		uint64_t to = mt_rnd(UNITS);

		b->p.trunc_to = to * UNIT;
		memset(&d[to], 0, (UNITS - to) * sizeof(*d));
	}
	if (mt_rnd(8) == 0) {
		struct tess_range r = some_units();

		b->punch = (struct tess_range){r.off * UNIT, r.len * UNIT};
		b->p.npunch = 1;
		memset(&d[r.off], 0, r.len * sizeof(*d));
	}
}

static void op_publish(void)
{
	unsigned s = some_session(), f = (unsigned)mt_rnd(FILES);
	struct pub b;

	pub_begin(&b, s, f, s == 0 && mt_rnd(2));
	cut_too(&b);
	(void)collect(&b, some_units());
	CLEAN(pub_commit(&b));
	if (open_seg && segs[open_seg - 1].len > 1000)
		open_seg = 0;
}

static void publish_all(unsigned s, unsigned f)
{
	struct pub b;

	for (;;) {
		pub_begin(&b, s, f, false);
		if (!collect(&b, (struct tess_range){0, UNITS}))
			break;
		CLEAN(pub_commit(&b));
	}
	nsegs--; /* the one that took nothing */
}

static void op_come_or_go(void)
{
	unsigned s = 1 + (unsigned)mt_rnd(MT_SESSIONS - 1);

	if (!mt_in(s)) {
		mt_join(s);
		return;
	}
	for (unsigned f = 0; f < FILES; f++)
		publish_all(s, f);
	mt_leave(s);
}

static void op_move(void)
{
	unsigned f = (unsigned)mt_rnd(FILES);
	struct tess_range r = some_units();

	put(some_session(), f, (uint32_t)r.off, (uint32_t)r.len, META_TURN_MOVED);
}

/* What the bytes of a clone by session s came to be written in. */
static void clone_turn(unsigned s, unsigned g, uint64_t at, uint64_t n)
{
	static struct meta_map map;
	uint64_t t = 0;

	CLEAN(meta_map(mt, file[g], (struct tess_range){at * UNIT, n * UNIT}, &map));
	for (unsigned i = 0; i < map.npieces; i++)
		if (map.pieces[i].ext.seg)
			t = map.pieces[i].ext.turn;
	for (uint64_t u = at; u < at + n; u++) {
		want[g][u].turn = want[g][u].stored = t;
		if (!t)
			continue;
		ck_assert(t > newest[g][u].turn || (t == newest[g][u].turn && s == newest[g][u].by));
		newest[g][u].turn = t;
		newest[g][u].by = s;
	}
}

static void op_clone(void)
{
	static struct place copy[UNITS];
	unsigned s = some_session(), f = (unsigned)mt_rnd(FILES), g = (unsigned)mt_rnd(FILES);
	struct tess_range r = some_units();
	uint64_t to = mt_rnd(UNITS - r.len), end;
	struct meta_clone c = {file[f], r.off * UNIT, file[g], to * UNIT, r.len * UNIT};
	int err;

	publish_all(s, f);
	publish_all(s, g);
	end = MIN(r.off + r.len, size[f]);
	err = meta_clone(mt_s[s], &c, NOW, NULL);
	if (r.off < end && f == g && r.off < to + (end - r.off) && to < end)
		ck_assert_int_eq(err, -EINVAL);
	else
		CLEAN(err);
	if (err || r.off >= end)
		return;
	memcpy(copy, &want[f][r.off], (end - r.off) * sizeof(*copy));
	memcpy(&want[g][to], copy, (end - r.off) * sizeof(*copy));
	size[g] = MAX(size[g], to + end - r.off);
	clone_turn(s, g, to, end - r.off);
}

static void op_any(void)
{
	switch (mt_rnd(24)) {
	case 0:
		op_clone();
		break;
	case 1:
		op_move();
		break;
	case 2:
		if (mt_rnd(4) == 0)
			op_come_or_go();
		break;
	case 3 ... 12:
		op_publish();
		break;
	default:
		op_write();
	}
}

START_TEST(sessions_follow_the_oracle)
{
	unsigned rounds = _i % 2 ? 8000 : 20000;

	start(_i % 2, 2);
	memset(dirty, 0, sizeof(dirty));
	memset(newest, 0, sizeof(newest));
	mt_rnd_seed((uint64_t)_i + 1);
	for (unsigned i = 0; i < rounds; i++) {
		op_any();
		if (i % 8 == 0)
			expect_file((unsigned)mt_rnd(FILES));
		if (i % 1000)
			continue;
		ck_assert_int_eq(mt_check(false), 0);
		for (unsigned s = 0; s < MT_SESSIONS; s++)
			if (mt_in(s))
				ck_assert_int_ge(meta_tail(mt_s[s], kv_last(meta_kv(mt))), 0);
	}
	for (unsigned s = 0; s < MT_SESSIONS; s++)
		for (unsigned f = 0; f < FILES && mt_in(s); f++)
			publish_all(s, f);
	for (unsigned f = 0; f < FILES; f++)
		expect_file(f);
	mt_close();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("turns");
	TCase *c = tcase_create("turns");

	suite_add_tcase(s, c);
	tcase_set_timeout(c, 100);
	tcase_add_loop_test(c, each_overlap_leaves_what_is_later, 0, 2);
	tcase_add_loop_test(c, alone_no_turn_is_stored, 0, 2);
	tcase_add_loop_test(c, a_turn_begins_a_record_of_its_own, 0, 2);
	tcase_add_loop_test(c, what_has_no_turn_loses_to_everybody, 0, 2);
	tcase_add_loop_test(c, what_loses_every_byte_leaves_its_segment_as_garbage, 0, 2);
	tcase_add_loop_test(c, what_moves_keeps_its_turns, 0, 4);
	tcase_add_loop_test(c, what_moves_into_a_hole_is_garbage, 0, 2);
	tcase_add_loop_test(c, a_clone_comes_after_all_that_was_written, 0, 2);
	tcase_add_loop_test(c, no_publish_takes_time_back, 0, 2);
	tcase_add_loop_test(c, each_failure_leaves_all_as_it_was, 0, NPOINTS * 2);
	tcase_add_loop_test(c, sessions_follow_the_oracle, 0, 6);
	return unit_run(s);
}
