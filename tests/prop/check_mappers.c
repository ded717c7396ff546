/* SPDX-License-Identifier: Apache-2.0 */
/* layer: mappers */
/*
 * Every mapper on random files. The oracle is a byte map, in units: all offsets of a case are
 * multiples of its unit, which does not divide a segment evenly into anything the mappers know of.
 * TESS_SEED and TESS_CASES repeat or lengthen a run.
 */
#include "../unit/unit.h"
#include "base/scoped.h"
#include "base/text.h"
#include "map/map.h"
#include <string.h>
#include <time.h>

#define UNITS 1024u		/* of a file, … */
#define SEG_UNITS 64u		/* … and of a segment at most */
#define EXT_MAX 200u

struct file {
	struct tess_map_view v;	/* first: extents() casts */
	uint64_t unit;
	struct tess_range dirty[UNITS / 2];
	struct tess_extent ext[EXT_MAX];
	unsigned ndirty, next;
	bool is_dirty[UNITS], is_pub[UNITS];
};

static uint64_t state;

static unsigned rnd(unsigned below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)((state >> 16) % below);
}

static unsigned file_extents(const struct tess_map_view *v, struct tess_range r,
			     struct tess_extent *ret, unsigned max)
{
	const struct tess_extent *e = ((const struct file *)v->host)->ext;
	unsigned lo = 0, hi = ((const struct file *)v->host)->next, n = 0;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (e[mid].off + e[mid].len <= r.off)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (hi = ((const struct file *)v->host)->next; lo < hi && n < max; lo++) {
		if (e[lo].off >= r.off + r.len)
			break;
		ret[n++] = e[lo];
	}
	return n;
}

/* Stretches of up to `most` units with gaps of up to `gap`: the densities of files differ. */
static void make_file(struct file *f)
{
	unsigned most = 1 + rnd(rnd(4) ? 20 : 300), gap = 1 + rnd(40), end = 0;

	memset(f, 0, sizeof(*f));
	f->unit = 64 * (1 + rnd(100));
	f->v.segment_size = f->unit * (2 + rnd(SEG_UNITS - 1));
	f->v.direct_min = f->v.segment_size / 2;
	f->v.final = rnd(3) != 0;
	f->v.extents = rnd(20) ? file_extents : NULL;
	f->v.host = f;
	for (unsigned at = rnd(2) ? 0 : rnd(UNITS); at < UNITS; at += 1 + rnd(gap)) {
		unsigned len = MIN(1 + rnd(most), UNITS - at);

		f->dirty[f->ndirty++] = (struct tess_range){ at * f->unit, len * f->unit };
		memset(f->is_dirty + at, 1, len);
		at += len;
		end = MAX(end, at);
		if (f->ndirty == ARRAY_SIZE(f->dirty) || rnd(50) == 0)
			break;
	}
	gap = rnd(3) ? 1 + rnd(20) : 1;		/* 1: touching extents */
	for (unsigned at = rnd(100); f->v.extents && at < UNITS && f->next < EXT_MAX;
	     at += rnd(gap)) {
		unsigned len = MIN(1 + rnd(most), UNITS - at);

		f->ext[f->next++] = (struct tess_extent){ .off = at * f->unit, .len = len * f->unit, .seg = 1 };
		memset(f->is_pub + at, 1, len);
		at += len;
		end = MAX(end, at);
	}
	f->v.file_size = end * f->unit;
}

/* Check's own assertions write to a pipe each: a hundred thousand cases would take minutes. */
static const char *now_mapper;
static uint64_t now_seed;
#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!(cond))                                                                       \
			ck_abort_msg("%s: %s (TESS_SEED=%llu TESS_CASES=1)", now_mapper, #cond,    \
				     (unsigned long long)now_seed);                                \
	} while (0)

/* What every plan must be, said without the host's check: how often each unit is planned. */
static void check_any(const struct file *f, const struct tess_plan *p)
{
	unsigned char planned[UNITS] = { 0 };
	unsigned piece = 0;

	for (unsigned i = 0; i < p->nsegs; i++) {
		uint64_t len = 0;

		REQUIRE(p->segs[i].first == piece);
		REQUIRE(p->segs[i].n > 0);
		for (unsigned j = 0; j < p->segs[i].n; j++, piece++) {
			const struct tess_plan_piece *q = &p->pieces[piece];

			len += q->file.len;
			REQUIRE(q->file.len > 0);
			REQUIRE(q->file.off % f->unit == 0 && q->file.len % f->unit == 0);
			for (uint64_t u = q->file.off / f->unit;
			     u < (q->file.off + q->file.len) / f->unit; u++) {
				REQUIRE(u < UNITS && ++planned[u] == 1);
				REQUIRE(q->fill ? f->is_pub[u] && !f->is_dirty[u] : f->is_dirty[u]);
			}
		}
		REQUIRE(p->segs[i].len == len);
		REQUIRE(len <= f->v.segment_size);
	}
	REQUIRE(piece == p->npieces);
	for (unsigned u = 0; f->v.final && u < UNITS; u++)
		REQUIRE(!f->is_dirty[u] || planned[u]);
}

/* As few segments as there can be, nothing read, less than one left; chunks are segments. */
static void check_write_optimized(const struct file *f, const struct tess_plan *p)
{
	uint64_t total = 0, size = f->v.segment_size;

	for (unsigned i = 0; i < f->ndirty; i++)
		total += f->dirty[i].len;
	REQUIRE(p->nsegs == (total + (f->v.final ? size - 1 : 0)) / size);
	for (unsigned i = 0; i < p->nsegs; i++)
		REQUIRE(p->segs[i].len == size || (f->v.final && i + 1 == p->nsegs));
	for (unsigned i = 0; i < p->npieces; i++)
		REQUIRE(!p->pieces[i].fill);
	for (unsigned i = 0; i < f->ndirty; i++) {
		uint64_t end = f->dirty[i].off + f->dirty[i].len;

		for (uint64_t c = (f->dirty[i].off + size - 1) / size * size; c + size <= end;
		     c += size) {
			unsigned j = 0;

			while (j < p->npieces && p->pieces[j].file.off != c)
				j++;
			REQUIRE(j < p->npieces && p->pieces[j].file.len == size);
		}
	}
}

/* Buckets written to, or for naive all of them: each is one segment, complete, in order. */
static void check_buckets(const struct file *f, const struct tess_plan *p, bool all)
{
	unsigned per = (unsigned)(f->v.segment_size / f->unit), seg = 0;

	for (unsigned b = 0; b < UNITS; b += per) {
		unsigned end = MIN(b + per, UNITS), want = 0, ndirty = 0;
		uint64_t at = 0;

		for (unsigned u = b; u < end; u++) {
			ndirty += f->is_dirty[u];
			want += f->is_dirty[u] || f->is_pub[u];
		}
		if (all ? !f->v.final || want == 0 || f->ndirty == 0
			: f->v.final ? ndirty == 0 : ndirty < per)
			continue;
		REQUIRE(seg < p->nsegs);
		REQUIRE(p->segs[seg].len == want * f->unit);
		for (unsigned j = 0; j < p->segs[seg].n; j++) {
			struct tess_range r = p->pieces[p->segs[seg].first + j].file;

			REQUIRE(r.off >= at && r.off >= b * f->unit);
			at = r.off + r.len;
			REQUIRE(at <= end * f->unit);
		}
		seg++;
	}
	REQUIRE(seg == p->nsegs);
}

static void check_file(const struct tess_mapper *m, const struct file *f)
{
	struct text first = TEXT_INIT, again = TEXT_INIT;
	struct tess_plan p;

	for (unsigned i = 0; i < 2; i++) {
		struct file copy = *f;

		copy.v.host = &copy;
		REQUIRE(0 == map_plan_write(m, &copy.v, copy.dirty, copy.ndirty, &p));
		plan_to_text(&p, i ? &again : &first);
		if (i == 0) {
			check_any(f, &p);
			if (m->id == 1)
				check_write_optimized(f, &p);
			else
				check_buckets(f, &p, m->id == 3);
		}
		plan_done(&p);
	}
	REQUIRE(strcmp(text_str(&first), text_str(&again)) == 0);
	text_done(&first);
	text_done(&again);
}

static uint64_t env_number(const char *name, uint64_t dflt)
{
	const char *s = getenv(name);

	return s && *s ? strtoull(s, NULL, 0) : dflt;
}

START_TEST(plans_of_random_files_keep_every_promise)
{
	const struct tess_mapper *m = map_row((unsigned)_i);
	uint64_t seed = env_number("TESS_SEED", UINT64_C(132472442));
	uint64_t cases = env_number("TESS_CASES", 40000);
	struct file *f = malloc(sizeof(*f));

	for (uint64_t i = 0; i < cases; i++) {
		state = (seed + i) * UINT64_C(0x9e3779b97f4a7c15) | 1;
		make_file(f);
		now_mapper = m->name;
		now_seed = seed + i;
		check_file(m, f);
	}
	printf("%s: %llu cases from seed %llu\n", m->name, (unsigned long long)cases,
	       (unsigned long long)seed);
	free(f);
}
END_TEST

#define BIG 1000000u
#define PIECES 100000u

static unsigned big_extents(const struct tess_map_view *v, struct tess_range r,
			    struct tess_extent *ret, unsigned max)
{
	uint64_t first = r.off / 4096, end = (r.off + r.len + 4095) / 4096;
	unsigned n = 0;

	(void)v;
	for (; first < MIN(end, (uint64_t)BIG) && n < max; first++)
		ret[n++] = (struct tess_extent){ .off = first * 4096, .len = 4096, .seg = 1,
						   .seg_off = first % 1024 * 4096 };
	return n;
}

/* Not a promise, a figure: what a piece costs in a file of a million extents. */
START_TEST(cost_of_a_piece_in_a_file_of_many_extents)
{
	const struct tess_mapper *m = map_row((unsigned)_i);
	struct tess_map_view v = { .ino = 2, .file_size = UINT64_C(4096) * BIG,
				   .segment_size = TESS_SEGMENT_DEFAULT, .direct_min = 65536,
				   .final = true, .extents = big_extents };
	struct tess_range *d = malloc(PIECES * sizeof(*d));
	struct timespec a, b;
	struct tess_plan p;

	for (unsigned i = 0; i < PIECES; i++)
		d[i] = (struct tess_range){ i * UINT64_C(40960) + 4096, 4096 };
	clock_gettime(CLOCK_MONOTONIC, &a);
	CLEAN(map_plan_write(m, &v, d, PIECES, &p));
	clock_gettime(CLOCK_MONOTONIC, &b);
	ck_assert_uint_ge(p.npieces, PIECES);
	printf("%s: %.0f ns a piece (%u pieces in %u segments, %u extents)\n", m->name,
	       ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / p.npieces,
	       p.npieces, p.nsegs, BIG);
	plan_done(&p);
	free(d);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("mappers");
	TCase *c = tcase_create("random");
	int n = 0;

	while (map_row((unsigned)n))
		n++;
	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, plans_of_random_files_keep_every_promise, 0, n);
	tcase_add_loop_test(c, cost_of_a_piece_in_a_file_of_many_extents, 0, n);
	suite_add_tcase(s, c);
	return unit_run(s);
}
