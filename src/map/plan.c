/* SPDX-License-Identifier: Apache-2.0 */
/* The builder that mappers call, and the check of what they built. */
#include "base/err.h"
#include "base/fault.h"
#include "base/range.h"
#include "base/scoped.h"
#include "base/text.h"
#include "map/map.h"
#include <inttypes.h>

static int plan_fail(struct tess_plan *p, int err)
{
	if (p->err == 0)
		p->err = err;
	return err;
}

/* Room for one more of `n` in the array at *a, doubling. */
static int grow(void **a, unsigned n, unsigned *cap, size_t size)
{
	unsigned want = *cap ? *cap * 2 : 16;
	void *p;

	if (n < *cap)
		return 0;
	if (want <= *cap)
		return -ENOMEM;
	p = mem_resize(*a, want, size);
	if (!p)
		return -ENOMEM;
	*a = p;
	*cap = want;
	return 0;
}

int tess_plan_segment(struct tess_plan *p)
{
	void *a = p->segs;
	int r = grow(&a, p->nsegs, &p->cap_segs, sizeof(p->segs[0]));

	p->segs = a;
	if (r < 0)
		return plan_fail(p, r);
	p->segs[p->nsegs++] = (struct tess_plan_segment){ .first = p->npieces };
	return 0;
}

static int plan_append(struct tess_plan *p, struct tess_range r, bool fill)
{
	struct tess_plan_segment *s;
	void *a = p->pieces;
	uint64_t end;
	int e;

	if (p->nsegs == 0 || r.len == 0 || !range_end(r, &end))
		return plan_fail(p, -TESS_E_PLAN);
	s = &p->segs[p->nsegs - 1];
	if (r.len > p->segment_size - s->len)
		return plan_fail(p, -TESS_E_PLAN);
	e = grow(&a, p->npieces, &p->cap_pieces, sizeof(p->pieces[0]));
	p->pieces = a;
	if (e < 0)
		return plan_fail(p, e);
	p->pieces[p->npieces++] = (struct tess_plan_piece){ .file = r, .fill = fill };
	s->n++;
	s->len += r.len;
	return 0;
}

int tess_plan_add(struct tess_plan *p, struct tess_range r)
{
	return plan_append(p, r, false);
}

int tess_plan_fill(struct tess_plan *p, struct tess_range r)
{
	return plan_append(p, r, true);
}

void plan_done(struct tess_plan *p)
{
	if (!p)
		return;
	free(p->segs);
	free(p->pieces);
	*p = (struct tess_plan){ 0 };
}

void plan_to_text(const struct tess_plan *p, struct text *out)
{
	for (unsigned i = 0; i < p->nsegs; i++) {
		const struct tess_plan_segment *s = &p->segs[i];

		text_fmt(out, "segment %u (%" PRIu64 "):", i, s->len);
		for (unsigned j = s->first; j < s->first + s->n; j++)
			text_fmt(out, " %s%" PRIu64 "+%" PRIu64, p->pieces[j].fill ? "~" : "",
				 p->pieces[j].file.off, p->pieces[j].file.len);
		text_add(out, "\n");
	}
}

static int by_offset(const void *a, const void *b)
{
	const struct tess_plan_piece *x = a, *y = b;

	return (x->file.off > y->file.off) - (x->file.off < y->file.off);
}

/* The pieces by file offset: the plan's array when it is in that order, else a copy in *own. */
static const struct tess_plan_piece *sorted_pieces(const struct tess_plan *p,
						   struct tess_plan_piece **own)
{
	unsigned i = 1;

	while (i < p->npieces && p->pieces[i].file.off > p->pieces[i - 1].file.off)
		i++;
	if (i >= p->npieces)
		return p->pieces;
	*own = mem_array(p->npieces, sizeof(**own));
	if (!*own)
		return NULL;
	for (i = 0; i < p->npieces; i++)
		(*own)[i] = p->pieces[i];
	qsort(*own, p->npieces, sizeof(**own), by_offset);
	return *own;
}

/* A fill of what was never written would store a hole as zeros. */
static bool is_published(const struct tess_map_view *v, struct tess_range r)
{
	uint64_t at = r.off, end = r.off + r.len;
	struct tess_extent e;

	while (at < end) {
		struct tess_range rest = { at, end - at };

		if (!v->extents || v->extents(v, rest, &e, 1) == 0 || e.off > at ||
		    e.off + e.len <= at)
			return false;
		at = e.off + e.len;
	}
	return true;
}

static int check_pieces(const struct tess_plan_piece *s, unsigned ns, const struct tess_map_view *v,
			const struct tess_range *dirty, unsigned n)
{
	uint64_t before = 0, planned = 0, all = 0;
	unsigned d = 0;

	for (unsigned i = 0; i < n; i++)
		all += dirty[i].len;
	for (unsigned i = 0; i < ns; i++) {
		struct tess_range f = s[i].file;
		uint64_t end = f.off + f.len;

		if (f.off < before)
			return -TESS_E_PLAN;	/* a byte twice */
		before = end;
		while (d < n && dirty[d].off + dirty[d].len <= f.off)
			d++;
		if (s[i].fill) {
			if ((d < n && dirty[d].off < end) || !is_published(v, f))
				return -TESS_E_PLAN;
		} else {
			if (d == n || dirty[d].off > f.off || dirty[d].off + dirty[d].len < end)
				return -TESS_E_PLAN;	/* not dirty */
			planned += f.len;
		}
	}
	return v->final && planned != all ? -TESS_E_PLAN : 0;
}

static int plan_check(const struct tess_plan *p, const struct tess_map_view *v,
		      const struct tess_range *dirty, unsigned n)
{
	scoped_free struct tess_plan_piece *own = NULL;
	const struct tess_plan_piece *s;

	if (p->err < 0)
		return p->err;
	for (unsigned i = 0; i < p->nsegs; i++)
		if (p->segs[i].n == 0)
			return -TESS_E_PLAN;
	s = sorted_pieces(p, &own);
	if (!s && p->npieces > 0)
		return -ENOMEM;
	return check_pieces(s, p->npieces, v, dirty, n);
}

int map_plan_write(const struct tess_mapper *m, const struct tess_map_view *v,
		   const struct tess_range *dirty, unsigned n, struct tess_plan *ret)
{
	struct tess_plan p = { .segment_size = v->segment_size };
	int r = m->plan_write(v, dirty, n, &p);

	if (r >= 0)
		r = plan_check(&p, v, dirty, n);
	if (r < 0) {
		plan_done(&p);
		return r;
	}
	*ret = p;
	return 0;
}
