/* SPDX-License-Identifier: Apache-2.0 */
/* layer: meta */
/* Extents and segments against an oracle that knows each unit of each file. */
#include "../lib/metatest.h"
#include "base/err.h"
#include "base/fault.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define R TESS_ROOT_INO
#define F (S_IFREG | 0644)

/* ---- the oracle: files of UNITS units, each a hole or a place in a segment ---- */

#define UNITS 512u
#define UNIT  100u
#define FILES 3u
#define SEGS  30000u

struct place {
	uint32_t seg, at; /* number in segs[] + 1, unit in it; 0: hole */
};
static struct place want[FILES][UNITS];
static uint64_t size[FILES]; /* in units */
static uint64_t file[FILES];
static struct {
	tess_segid id;
	uint32_t live, len;
	bool staged;
} segs[SEGS];
static uint32_t nsegs;
static uint32_t open_seg; /* number + 1 of the staged one that grows; 0: none */

static void lay(unsigned f, uint32_t at, struct place p)
{
	struct place *w = &want[f][at];

	if (w->seg)
		segs[w->seg - 1].live--;
	*w = p;
	if (p.seg)
		segs[p.seg - 1].live++;
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
			const struct tess_extent *x = &map.pieces[i].ext;

			ck_assert_uint_eq(x->off, at);
			for (uint64_t b = x->off; b < x->off + x->len; b += UNIT - b % UNIT) {
				const struct place *w = &want[f][b / UNIT];

				ck_assert_uint_eq(x->seg, w->seg ? segs[w->seg - 1].id : 0);
				if (!w->seg)
					continue;
				ck_assert_uint_eq(x->seg_off + (b - x->off),
						  w->at * UNIT + b % UNIT);
				ck_assert_uint_eq(map.segments[map.pieces[i].segment].id, x->seg);
			}
			at = x->off + x->len;
		}
		ck_assert_uint_eq(map.end, at);
	}
	ck_assert_uint_eq(at, a.size);
}

static void expect_segments(void)
{
	struct meta_segment s;

	for (uint32_t i = 0; i < nsegs; i++) {
		int err = meta_segment_get(mt, segs[i].id, &s);

		ck_assert_int_eq(err, segs[i].live ? 0 : -ENOENT);
		if (!err) {
			ck_assert_uint_eq(s.live, segs[i].live * UNIT);
			ck_assert_uint_eq(s.state, segs[i].staged ? META_STAGED : META_DURABLE);
		}
	}
}

static struct meta_new_segment seg_new(bool staged, uint32_t len)
{
	static const uint32_t csums[64];
	struct meta_new_segment s = {{.cls = 1,
				      .state = staged ? META_STAGED : META_DURABLE,
				      .width = !staged,
				      .len = (uint64_t)len * UNIT,
				      .owner = 5},
				     staged ? NULL : csums,
				     (len * UNIT + 4095) / 4096};

	s.seg.id = meta_segment_new(mt);
	ck_assert_uint_lt(nsegs, SEGS);
	segs[nsegs].id = s.seg.id;
	segs[nsegs].staged = staged;
	segs[nsegs].len = len;
	segs[nsegs].live = 0;
	nsegs++;
	return s;
}

static void op_publish(void)
{
	unsigned f = (unsigned)mt_rnd(FILES), next = (unsigned)mt_rnd(4),
		 npunch = (unsigned)mt_rnd(3) / 2;
	struct meta_publish p = {.trunc_to = META_NO_TRUNC};
	struct meta_new_segment s;
	struct tess_extent x[4];
	struct tess_range punch[2];
	uint32_t base = 0, used = 0, number;

	if (mt_rnd(6) == 0) {
		uint64_t to = mt_rnd(UNITS + 1);

		p.trunc_to = to * UNIT;
		for (uint64_t i = to; i < size[f]; i++)
			lay(f, (uint32_t)i, (struct place){0, 0});
		size[f] = to < size[f] ? to : size[f];
	}
	for (unsigned i = 0; i < npunch; i++) {
		uint32_t at = (uint32_t)mt_rnd(UNITS), n = (uint32_t)mt_rnd(UNITS - at);

		punch[i] = (struct tess_range){at * UNIT, n * UNIT};
		for (uint32_t u = at; u < at + n; u++)
			lay(f, u, (struct place){0, 0});
	}
	/* Half of the time the open staged segment grows, else a new one is made. */
	if (open_seg && mt_rnd(2)) {
		number = open_seg;
		base = segs[number - 1].len;
		s = (struct meta_new_segment){
			{.id = segs[number - 1].id, .state = META_STAGED, .cls = 1, .owner = 5},
			NULL,
			0};
	} else {
		bool staged = mt_rnd(3) == 0;

		s = seg_new(staged, 40);
		number = nsegs;
		if (staged) {
			open_seg = number;
			segs[number - 1].len = 0;
		}
	}
	for (unsigned i = 0; i < next; i++) {
		uint32_t n = 1 + (uint32_t)mt_rnd(10), at = (uint32_t)mt_rnd(UNITS - n);

		x[i] = (struct tess_extent){.off = at * UNIT, .len = n * UNIT, .seg = s.seg.id,
					     .seg_off = (base + used) * UNIT};
		for (uint32_t u = 0; u < n; u++)
			lay(f, at + u, (struct place){number, base + used + u});
		used += n;
		if (p.size < (at + n) * UNIT)
			p.size = (at + n) * UNIT;
	}
	if (s.seg.state == META_STAGED) {
		segs[number - 1].len = base + used;
		s.seg.len = (base + used) * UNIT;
		if (s.seg.len > 60000)
			open_seg = 0;
	}
	if (size[f] < p.size / UNIT)
		size[f] = p.size / UNIT;
	p.ext = x;
	p.next = next;
	p.punch = punch;
	p.npunch = npunch;
	p.segs = &s;
	p.nsegs = 1;
	CLEAN(meta_publish(mt, file[f], &p, NULL));
}

static void op_clone(void)
{
	static struct place copy[UNITS];
	unsigned f = (unsigned)mt_rnd(FILES), g = (unsigned)mt_rnd(FILES);
	uint64_t from = mt_rnd(UNITS), to = mt_rnd(UNITS),
		 n = mt_rnd(UNITS - (from > to ? from : to));
	struct meta_clone c = {file[f], from * UNIT, file[g], to * UNIT, n * UNIT};
	uint64_t end = from + n < size[f] ? from + n : size[f];
	bool overlap = f == g && from < end && from < to + (end - from) && to < end;
	int err = meta_clone(mt, &c, 9, NULL);

	ck_assert_int_eq(err, overlap ? -EINVAL : 0);
	if (err || from >= end)
		return;
	memcpy(copy, want[f], sizeof(copy));
	for (uint64_t i = from; i < end; i++)
		lay(g, (uint32_t)(to + i - from), copy[i]);
	if (size[g] < to + end - from)
		size[g] = to + end - from;
}

static void op_seal(void)
{
	static const uint32_t csums[64];
	uint32_t i = (uint32_t)mt_rnd(nsegs);

	if (!segs[i].staged || i + 1 == open_seg)
		return;
	struct meta_new_segment s = {{.id = segs[i].id,
				      .cls = 1,
				      .state = META_DURABLE,
				      .width = 1,
				      .len = segs[i].len * UNIT},
				     csums,
				     (segs[i].len * UNIT + 4095) / 4096};

	ck_assert_int_eq(meta_segment_seal(mt, &s), segs[i].live ? 0 : -ENOENT);
	segs[i].staged = false;
}

static void op_seek(void)
{
	unsigned f = (unsigned)mt_rnd(FILES);
	uint64_t at = mt_rnd(UNITS), hole = at, data = at, got;

	if (at >= size[f]) {
		ck_assert_int_eq(meta_seek(mt, file[f], at * UNIT, true, &got), -ENXIO);
		ck_assert_int_eq(meta_seek(mt, file[f], at * UNIT, false, &got), -ENXIO);
		return;
	}
	while (hole < size[f] && want[f][hole].seg)
		hole++;
	while (data < size[f] && !want[f][data].seg)
		data++;
	CLEAN(meta_seek(mt, file[f], at * UNIT, false, &got));
	ck_assert_uint_eq(got, hole * UNIT);
	ck_assert_int_eq(meta_seek(mt, file[f], at * UNIT, true, &got),
			 data < size[f] ? 0 : -ENXIO);
	if (data < size[f])
		ck_assert_uint_eq(got, data * UNIT);
}

static void start(int engine)
{
	char name[4];

	mt_open(engine);
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		file[i] = mt_make(R, name, F);
	}
}

static void clear_all(void)
{
	struct meta_totals t;

	for (unsigned i = 0; i < FILES; i++) {
		char name[4];

		snprintf(name, sizeof(name), "f%u", i);
		CLEAN(mt_unlink(R, name, NULL));
	}
	mt_reclaim_all();
	CLEAN(meta_totals(mt, &t));
	ck_assert_uint_eq(t.extents + t.segments + t.staged_segments, 0);
	ck_assert_uint_eq(t.inodes, 1);
}

START_TEST(extents_follow_the_oracle)
{
	unsigned rounds = _i % 2 ? 4000 : 12000;

	start(_i % 2);
	mt_rnd_seed((uint64_t)_i + 1);
	for (unsigned i = 0; i < rounds; i++) {
		switch (mt_rnd(8)) {
		case 0:
			op_clone();
			break;
		case 1:
			if (nsegs)
				op_seal();
			break;
		case 2:
			op_seek();
			break;
		default:
			op_publish();
		}
		if (i % 16 == 0)
			expect_file((unsigned)mt_rnd(FILES));
		if (i % 1000 == 0) {
			expect_segments();
			ck_assert_int_eq(mt_check(false), 0);
		}
	}
	for (unsigned f = 0; f < FILES; f++)
		expect_file(f);
	expect_segments();
	ck_assert_int_eq(mt_check(false), 0);
	clear_all();
	mt_close();
}
END_TEST

/* ---- single promises ---- */

START_TEST(neighbours_of_one_segment_are_one_record)
{
	struct meta_new_segment s;
	struct meta_totals t;
	struct tess_extent x = {.len = UNIT};
	struct meta_publish p = {
		.trunc_to = META_NO_TRUNC, .ext = &x, .next = 1, .segs = &s, .nsegs = 1};

	start(_i);
	s = seg_new(true, 1);
	x.seg = s.seg.id;
	for (unsigned i = 0; i < 50; i++) {
		x.off = x.seg_off = i * UNIT;
		p.size = s.seg.len = x.off + UNIT;
		CLEAN(meta_publish(mt, file[0], &p, NULL));
	}
	CLEAN(meta_totals(mt, &t));
	ck_assert_uint_eq(t.extents, 1);
	ck_assert_uint_eq(t.staged_segments, 1);
	mt_close();
}
END_TEST

START_TEST(bad_publishes_change_nothing)
{
	struct meta_new_segment s;
	struct tess_extent x;
	struct meta_publish p = {.trunc_to = META_NO_TRUNC, .size = 1 << 20, .ext = &x, .next = 1};
	struct meta_attr a;

	start(_i);
	CLEAN(mt_publish(file[0], 0, 1000, NULL));
	a = mt_attr(file[0]);
	x = (struct tess_extent){.len = 100, .seg = 12345};
	ck_assert_int_eq(meta_publish(mt, file[0], &p, NULL), -TESS_E_RECORD);
	s = seg_new(false, 10);
	x.seg = s.seg.id;
	p.segs = &s;
	p.nsegs = 1;
	x.len = 1001; /* behind the segment's end */
	ck_assert_int_eq(meta_publish(mt, file[0], &p, NULL), -EINVAL);
	x.len = 0;
	ck_assert_int_eq(meta_publish(mt, file[0], &p, NULL), -EINVAL);
	x.len = 100;
	x.off = UINT64_MAX - 10;
	ck_assert_int_eq(meta_publish(mt, file[0], &p, NULL), -EINVAL);
	x.off = (1 << 20) - 50; /* behind the file's end */
	ck_assert_int_eq(meta_publish(mt, file[0], &p, NULL), -EINVAL);
	ck_assert_int_eq(meta_publish(mt, R, &p, NULL), -EISDIR);
	ck_assert_int_eq(meta_publish(mt, 999, &p, NULL), -TESS_E_STALE);
	ck_assert_uint_eq(mt_attr(file[0]).generation, a.generation);
	mt_close();
}
END_TEST

START_TEST(appends_land_at_the_end_as_it_is_then)
{
	struct meta_new_segment s;
	struct tess_extent x = {.len = 1000};
	struct meta_publish p = {.trunc_to = META_NO_TRUNC, .size = 1000, .ext = &x, .next = 1,
				 .segs = &s, .nsegs = 1, .mtime = 70000, .append = true};
	uint64_t before;
	struct meta_map *m = calloc(1, sizeof(*m));

	start(_i);
	s = seg_new(false, 20);
	x.seg = s.seg.id;
	before = mt_attr(file[0]).size;
	CLEAN(meta_publish(mt, file[0], &p, NULL));
	x.seg_off = 1000;
	CLEAN(meta_publish(mt, file[0], &p, NULL));
	ck_assert_uint_eq(mt_attr(file[0]).size, before + 2000);
	/* Two changes within a tick of the clock: the second has a time of its own. */
	ck_assert_int_eq(mt_attr(file[0]).mtime, 70001);
	CLEAN(meta_map(mt, file[0], (struct tess_range){before, 2000}, m));
	ck_assert_uint_eq(m->pieces[0].ext.off, before);
	ck_assert_uint_eq(m->pieces[0].ext.len, 2000);
	free(m);
	p.trunc_to = 0;
	ck_assert_int_eq(meta_publish(mt, file[0], &p, NULL), -EINVAL);
	p.trunc_to = META_NO_TRUNC;
	p.size = TESS_FILE_MAX;
	ck_assert_int_eq(meta_publish(mt, file[0], &p, NULL), -EFBIG);
	mt_close();
}
END_TEST

START_TEST(one_files_error_is_its_own)
{
	struct meta_new_segment s[3];
	struct tess_extent x[3];
	struct meta_publish p[3];
	uint64_t inos[3];
	int errs[3];

	start(_i);
	for (unsigned i = 0; i < 3; i++) {
		s[i] = seg_new(false, 10);
		x[i] = (struct tess_extent){.len = 1000, .seg = s[i].seg.id};
		p[i] = (struct meta_publish){.trunc_to = META_NO_TRUNC,
					     .size = 1000,
					     .ext = &x[i],
					     .next = 1,
					     .segs = &s[i],
					     .nsegs = 1,
					     .mtime = 5000,
					     .kill_priv = true};
		inos[i] = file[i];
	}
	inos[1] = 999;
	CLEAN(meta_publish_many(mt, inos, p, 3, errs));
	ck_assert(errs[0] == 0 && errs[1] == -TESS_E_STALE && errs[2] == 0);
	ck_assert_uint_eq(mt_attr(file[0]).bytes, 1000);
	ck_assert_int_eq(mt_attr(file[2]).mtime, 5000);
	ck_assert_uint_eq(mt_attr(file[1]).bytes, 0);
	struct meta_segment g;

	ck_assert_int_eq(meta_segment_get(mt, s[1].seg.id, &g), -ENOENT);
	mt_close();
}
END_TEST

START_TEST(garbage_waits_until_its_death_is_durable)
{
	struct meta_garbage g[4];
	tess_segid seg;
	unsigned n;

	start(_i);
	CLEAN(mt_publish(file[0], 0, 10000, &seg));
	CLEAN(kv_sync(meta_kv(mt)));
	CLEAN(mt_publish(file[0], 0, 10000, NULL));
	CLEAN(meta_garbage_list(mt, 0, g, 4, &n));
	ck_assert_uint_eq(n, 1);
	ck_assert(g[0].kind == META_GARBAGE_OBJECTS && g[0].seg.id == seg && g[0].seg.width == 1);
	ck_assert_uint_le(kv_durable(meta_kv(mt)), g[0].died);
	CLEAN(kv_sync(meta_kv(mt)));
	ck_assert_uint_gt(kv_durable(meta_kv(mt)), g[0].died);
	CLEAN(meta_garbage_done(mt, &g[0].serial, 1));
	CLEAN(meta_garbage_done(mt, &g[0].serial, 1)); /* somebody else was first */
	uint64_t first = g[0].serial;

	CLEAN(mt_publish(file[0], 0, 10000, NULL));
	CLEAN(meta_garbage_list(mt, 0, g, 4, &n));
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_gt(g[0].serial, first);
	ck_assert_uint_ne(g[0].seg.id, seg);
	mt_close();
}
END_TEST

START_TEST(a_staged_segment_lives_dies_and_lives_again)
{
	struct meta_new_segment s;
	struct tess_extent x = {.len = 1000};
	struct meta_publish p = {.trunc_to = META_NO_TRUNC,
				 .size = 1000,
				 .ext = &x,
				 .next = 1,
				 .segs = &s,
				 .nsegs = 1},
			    cut = {.trunc_to = 0};
	struct meta_segment got[2];
	struct meta_garbage g[4];
	unsigned n;

	start(_i);
	s = seg_new(true, 10);
	x.seg = s.seg.id;
	CLEAN(meta_publish(mt, file[0], &p, NULL));
	CLEAN(meta_publish(mt, file[0], &cut, NULL));
	CLEAN(meta_garbage_list(mt, 0, g, 4, &n));
	ck_assert(n == 1 && g[0].kind == META_GARBAGE_STAGED);
	CLEAN(meta_staged(mt, meta_session_id(mt), 0, got, 2, &n));
	ck_assert_uint_eq(n, 0);
	/* Its file is still appended to. */
	x.seg_off = 1000;
	s.seg.len = 2000;
	CLEAN(meta_publish(mt, file[0], &p, NULL));
	CLEAN(meta_garbage_list(mt, 0, g, 4, &n));
	ck_assert_uint_eq(n, 0);
	CLEAN(meta_staged(mt, meta_session_id(mt), 0, got, 2, &n));
	ck_assert(n == 1 && got[0].len == 2000 && got[0].live == 1000);
	/* Once its file was deleted it cannot come back. */
	CLEAN(meta_publish(mt, file[0], &cut, NULL));
	CLEAN(meta_garbage_list(mt, 0, g, 4, &n));
	CLEAN(meta_garbage_done(mt, &g[0].serial, 1));
	ck_assert_int_eq(mt_check(false), 0);
	mt_close();
}
END_TEST

START_TEST(sealing_checks_what_it_seals)
{
	static const uint32_t csums[4] = {1, 2, 3, 4};
	struct meta_new_segment s, d;
	struct tess_extent x = {.len = 9000};
	struct meta_publish p = {.trunc_to = META_NO_TRUNC,
				 .size = 9000,
				 .ext = &x,
				 .next = 1,
				 .segs = &s,
				 .nsegs = 1};
	struct meta_garbage g[2];
	uint32_t got[2];
	unsigned n;

	start(_i);
	s = seg_new(true, 90);
	x.seg = s.seg.id;
	CLEAN(meta_publish(mt, file[0], &p, NULL));
	d = (struct meta_new_segment){s.seg, csums, 3};
	d.seg.state = META_DURABLE;
	d.seg.width = 2;
	d.seg.target[1] = 1;
	d.seg.len = 8999;
	ck_assert_int_eq(meta_segment_seal(mt, &d), -EINVAL);
	d.seg.len = 9000;
	CLEAN(meta_segment_seal(mt, &d));
	ck_assert_int_eq(meta_segment_seal(mt, &d), -EEXIST);
	CLEAN(meta_csums(mt, d.seg.id, 1, 2, got));
	ck_assert(got[0] == 2 && got[1] == 3);
	ck_assert_int_eq(meta_csums(mt, d.seg.id, 2, 2, got), -TESS_E_RECORD);
	CLEAN(meta_garbage_list(mt, 0, g, 2, &n));
	ck_assert(n == 1 && g[0].kind == META_GARBAGE_STAGED && g[0].seg.id == d.seg.id);
	CLEAN(meta_garbage_done(mt, &g[0].serial, 1));
	mt_close();
}
END_TEST

START_TEST(a_dead_session_is_adopted)
{
	struct meta_session list[4];
	struct meta_segment got[2];
	struct meta_new_segment s;
	struct tess_extent x = {.len = 1000};
	struct meta_publish p = {.trunc_to = META_NO_TRUNC,
				 .size = 1000,
				 .ext = &x,
				 .next = 1,
				 .segs = &s,
				 .nsegs = 1};
	uint32_t old, new;
	uint64_t inos[2];
	unsigned n;

	start(_i);
	s = seg_new(true, 10);
	x.seg = s.seg.id;
	CLEAN(meta_publish(mt, file[0], &p, NULL));
	CLEAN(mt_unlink(R, "f1", NULL));
	old = meta_session_id(mt);
	ck_assert_int_eq(meta_session_end(mt), -EBUSY);
	CLEAN(meta_session_beat(mt, 123));
	CLEAN(meta_sessions(mt, list, 4, &n));
	ck_assert(n == 1 && list[0].heartbeat == 123 && !meta_session_dead(&list[0]));
	list[0].pid_start++;
	ck_assert(meta_session_dead(&list[0]));
	CLEAN(meta_session_begin(mt, "/other", NOW, NULL));
	new = meta_session_id(mt);
	ck_assert_uint_ne(new, old);
	CLEAN(meta_session_adopt(mt, old));
	ck_assert_int_eq(meta_session_adopt(mt, old), -ENOENT);
	CLEAN(meta_orphans(mt, 0, inos, 2, &n));
	ck_assert(n == 1 && inos[0] == file[1]);
	CLEAN(meta_staged(mt, new, 0, got, 2, &n));
	ck_assert(n == 1 && got[0].id == s.seg.id);
	ck_assert_uint_eq(meta_segment_new(mt) >> 32, new);
	CLEAN(mt_unlink(R, "f0", NULL));
	mt_reclaim_all();
	CLEAN(meta_session_end(mt));
	CLEAN(meta_sessions(mt, list, 4, &n));
	ck_assert_uint_eq(n, 0);
	mt_close();
}
END_TEST

START_TEST(a_big_file_goes_in_small_steps)
{
	bool more = true;
	unsigned calls = 0;

	start(_i);
	for (unsigned i = 0; i < 100; i++)
		CLEAN(mt_publish(file[0], i * 2 * UNIT, UNIT, NULL));
	CLEAN(mt_unlink(R, "f0", NULL));
	while (more) {
		CLEAN(meta_reclaim(mt, &file[0], 1, 10, NOW, &more));
		ck_assert_int_eq(mt_check(false), 0);
		calls++;
	}
	ck_assert_uint_ge(calls, 10);
	mt_close();
}
END_TEST

static const char *const points[] = {"alloc", "kv.put", "kv.get", "kv.seek", "kv.del", "kv.commit"};

START_TEST(any_failure_leaves_sound_accounts)
{
	char spec[64];
	int err = -ENOMEM;

	start(1);
	for (unsigned i = 0; i < 20; i++)
		CLEAN(mt_publish(file[0], i * 2000, 1000, NULL));
	for (int n = 1; n < 80 && err; n++) {
		struct meta_clone c = {file[0], 500, file[1], 0, 30000};

		snprintf(spec, sizeof(spec), "%s@%d=ENOMEM", points[_i], n);
		CLEAN(fault_set(spec));
		err = mt_publish(file[0], 1500, 9000, NULL);
		if (!err)
			err = meta_clone(mt, &c, NOW, NULL);
		CLEAN(fault_set(NULL));
		ck_assert(err == 0 || err == -ENOMEM);
		ck_assert_int_eq(mt_check(false), 0);
	}
	mt_close();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("meta_data");
	TCase *c = tcase_create("data");

	suite_add_tcase(s, c);
	tcase_set_timeout(c, 100);
	tcase_add_loop_test(c, extents_follow_the_oracle, 0, 4);
	tcase_add_loop_test(c, neighbours_of_one_segment_are_one_record, 0, 2);
	tcase_add_loop_test(c, bad_publishes_change_nothing, 0, 2);
	tcase_add_loop_test(c, appends_land_at_the_end_as_it_is_then, 0, 2);
	tcase_add_loop_test(c, one_files_error_is_its_own, 0, 2);
	tcase_add_loop_test(c, garbage_waits_until_its_death_is_durable, 0, 2);
	tcase_add_loop_test(c, a_staged_segment_lives_dies_and_lives_again, 0, 2);
	tcase_add_loop_test(c, sealing_checks_what_it_seals, 0, 2);
	tcase_add_loop_test(c, a_dead_session_is_adopted, 0, 2);
	tcase_add_loop_test(c, a_big_file_goes_in_small_steps, 0, 2);
	tcase_add_loop_test(c, any_failure_leaves_sound_accounts, 0,
			    (int)(sizeof(points) / sizeof(points[0])));
	return unit_run(s);
}
