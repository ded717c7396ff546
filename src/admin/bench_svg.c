/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plot: for each target one panel an op, over object size, both axes logarithmic. Colour is the
 * number of ranks; a full line with dots is async, a dashed one with rings sync. Delete moves no
 * bytes, so its axis is objects.
 */
#include "admin/bench_int.h"

#include "base/scoped.h"
#include <inttypes.h>
#include <math.h>

enum {
	PANEL_W = 380, PANEL_H = 270,	/* of the axes */
	GAP_LEFT = 76, GAP_RIGHT = 28,
	HEAD = 64,			/* legend, above all panels */
	TITLE = 56, FOOT = 52,		/* around the panels of one target */
};

/* Told apart also by who sees no red from green: dark to light, and by hue. */
static const char *const colours[] = {
	"#1b3a6b", "#0f8b8d", "#e08a1e", "#c8324e", "#7a4fa3", "#5b8c2a", "#8a6d3b", "#4d4d4d",
};

struct panel {
	enum bench_op op;
	double        x, y;		/* of the axes' upper left corner */
	double        x0, x1, y0, y1;	/* log2 of size, log10 of value */
};

static const char *colour_of(const struct bench_result *r, unsigned n, unsigned ranks)
{
	unsigned less = 0;

	/* By place among the rank counts there are, so that every target uses the same. */
	for (unsigned k = 1; k < ranks; k++) {
		bool there = false;

		for (unsigned i = 0; i < n && !there; i++)
			for (unsigned j = 0; j < r[i].n && !there; j++)
				there = r[i].rows[j].ranks == k;
		less += there;
	}
	return colours[less % ARRAY_SIZE(colours)];
}

static void svg_escape(struct text *out, const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '&' || c == '<' || c == '>' || c == '"')
			text_fmt(out, "&#%u;", c);
		else
			/* No encoding is promised for a path, but one is for XML. */
			text_addn(out, c < ' ' || c >= 0x7f ? "?" : s, 1);
	}
}

static double value_of(const struct bench_row *w)
{
	return w->op == BENCH_DELETE ? bench_rate(w) : bench_mib(w);
}

static double panel_x(const struct panel *p, double v)
{
	return p->x + (log2(v) - p->x0) / (p->x1 - p->x0) * PANEL_W;
}

static double panel_y(const struct panel *p, double v)
{
	return p->y + (p->y1 - log10(v)) / (p->y1 - p->y0) * PANEL_H;
}

/* False: nothing to draw. */
static bool panel_range(struct panel *p, const struct bench_result *r)
{
	double lo = INFINITY, hi = 0, small = INFINITY, large = 0;

	for (unsigned i = 0; i < r->n; i++) {
		double v = value_of(&r->rows[i]);

		if (r->rows[i].op != p->op || !(v > 0))
			continue;
		lo = fmin(lo, v);
		hi = fmax(hi, v);
		small = fmin(small, (double)r->rows[i].size);
		large = fmax(large, (double)r->rows[i].size);
	}
	if (!(hi > 0))
		return false;
	p->x0 = log2(small);
	p->x1 = large > small ? log2(large) : p->x0 + 1;
	p->y0 = floor(log10(lo));
	p->y1 = ceil(log10(hi));
	if (p->y1 <= p->y0)
		p->y1 = p->y0 + 1;
	return true;
}

static void text_bytes(struct text *out, double v)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	unsigned u = 0;

	for (; v >= 1024 && u + 1 < ARRAY_SIZE(units); u++)
		v /= 1024;
	text_fmt(out, "%.4g %s", v, units[u]);
}

static void text_value(struct text *out, double v)
{
	if (v >= 1e6)
		text_fmt(out, "%.4gM", v / 1e6);
	else if (v >= 1e4)
		text_fmt(out, "%.4gk", v / 1e3);
	else
		text_fmt(out, "%.4g", v);
}

static void panel_grid_x(const struct panel *p, struct text *out)
{
	unsigned step = MAX(1u, (unsigned)ceil((p->x1 - p->x0) / 7));

	for (double e = p->x0; e <= p->x1 + 1e-9; e += step) {
		double x = panel_x(p, exp2(e));

		text_fmt(out, "<line class=\"g\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x,
			 p->y, x, p->y + PANEL_H);
		text_fmt(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", x, p->y + PANEL_H + 17);
		text_bytes(out, exp2(e));
		text_add(out, "</text>\n");
	}
}

static void panel_grid_y(const struct panel *p, struct text *out)
{
	bool few = p->y1 - p->y0 < 1.5;
	unsigned step = (unsigned)ceil((p->y1 - p->y0) / 9);

	for (int e = (int)p->y0; e <= (int)p->y1; e++) {
		for (unsigned m = 1; m < 10 && (m == 1 || e < (int)p->y1); m++) {
			double v = m * pow(10, e), y = panel_y(p, v);
			bool label = m == 1 ? (unsigned)(e - (int)p->y0) % step == 0 :
					      few && (m == 2 || m == 5);

			text_fmt(out,
				 "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
				 m == 1 ? "g" : "h", p->x, y, p->x + PANEL_W, y);
			if (!label)
				continue;
			text_fmt(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", p->x - 8, y + 4);
			text_value(out, v);
			text_add(out, "</text>\n");
		}
	}
}

static void mark(struct text *out, enum bench_mode mode, const char *colour, double x, double y)
{
	text_fmt(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" stroke=\"%s\" fill=\"%s\"/>\n", x, y,
		 colour, mode == BENCH_ASYNC ? colour : "#fff");
}

static void line_begin(struct text *out, enum bench_mode mode, const char *colour)
{
	text_fmt(out, "<polyline class=\"l\" stroke=\"%s\"%s points=\"", colour,
		 mode == BENCH_ASYNC ? "" : " stroke-dasharray=\"5 3\"");
}

static void panel_line(const struct panel *p, const struct bench_result *r, const struct bench_row *of,
		       const char *colour, struct text *out)
{
	line_begin(out, of->mode, colour);
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < r->n; i++) {
			const struct bench_row *w = &r->rows[i];
			double v = value_of(w);

			if (w->op != of->op || w->mode != of->mode || w->ranks != of->ranks || !(v > 0))
				continue;
			if (pass == 0)
				text_fmt(out, "%.1f,%.1f ", panel_x(p, (double)w->size), panel_y(p, v));
			else
				mark(out, w->mode, colour, panel_x(p, (double)w->size), panel_y(p, v));
		}
		if (pass == 0)
			text_add(out, "\"/>\n");
	}
}

/* The first row of its line. */
static bool row_begins(const struct bench_result *r, unsigned i)
{
	for (unsigned k = 0; k < i; k++) {
		if (r->rows[k].op == r->rows[i].op && r->rows[k].mode == r->rows[i].mode &&
		    r->rows[k].ranks == r->rows[i].ranks)
			return false;
	}
	return true;
}

static void panel_draw(struct panel *p, const struct bench_result *all, unsigned n,
		       const struct bench_result *r, struct text *out)
{
	static const char *const units[] = { "MiB/s", "MiB/s", "objects/s" };
	double mid = p->y + PANEL_H / 2.0;

	text_fmt(out, "<text class=\"t\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
		 p->x + PANEL_W / 2.0, p->y - 10, bench_op_names[p->op]);
	panel_grid_x(p, out);
	panel_grid_y(p, out);
	text_fmt(out, "<rect class=\"f\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\"/>\n", p->x, p->y,
		 PANEL_W, PANEL_H);
	text_fmt(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">object size</text>\n",
		 p->x + PANEL_W / 2.0, p->y + PANEL_H + 36);
	text_fmt(out,
		 "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" "
		 "transform=\"rotate(-90 %.1f %.1f)\">%s</text>\n",
		 p->x - 56, mid, p->x - 56, mid, units[p->op]);
	for (unsigned i = 0; i < r->n; i++) {
		if (r->rows[i].op == p->op && row_begins(r, i))
			panel_line(p, r, &r->rows[i], colour_of(all, n, r->rows[i].ranks), out);
	}
}

static bool any_of(const struct bench_result *r, unsigned n, enum bench_mode mode, unsigned ranks)
{
	for (unsigned i = 0; i < n; i++) {
		for (unsigned k = 0; k < r[i].n; k++) {
			if (r[i].rows[k].mode == mode && r[i].rows[k].ranks == ranks)
				return true;
		}
	}
	return false;
}

static void legend(const struct bench_result *r, unsigned n, struct text *out)
{
	double x = GAP_LEFT, y = 42;

	for (unsigned ranks = 1; ranks <= BENCH_RANKS_MAX; ranks++) {
		for (enum bench_mode mode = BENCH_SYNC; mode < BENCH_NMODES; mode++) {
			const char *colour;

			if (!any_of(r, n, mode, ranks))
				continue;
			colour = colour_of(r, n, ranks);
			line_begin(out, mode, colour);
			text_fmt(out, "%.1f,%.1f %.1f,%.1f\"/>\n", x, y - 4, x + 30, y - 4);
			mark(out, mode, colour, x + 15, y - 4);
			text_fmt(out, "<text x=\"%.1f\" y=\"%.1f\">%u rank%s, %s</text>\n", x + 36, y, ranks,
				 ranks == 1 ? "" : "s", bench_mode_names[mode]);
			x += 138;
			if (x > (PANEL_W + GAP_LEFT + GAP_RIGHT) * 3 - 130) {
				x = GAP_LEFT;
				y += 17;
			}
		}
	}
}

static double svg_target(const struct bench_result *all, unsigned n, const struct bench_result *r,
			 double y, struct text *out)
{
	double x = GAP_LEFT;

	text_fmt(out, "<text class=\"T\" x=\"%.1f\" y=\"%.1f\">", x, y + 16);
	svg_escape(out, r->name);
	text_add(out, "</text>\n");
	for (enum bench_op op = BENCH_PUT; op < BENCH_NOPS; op++) {
		struct panel p = { .op = op, .x = x, .y = y + TITLE };

		if (!panel_range(&p, r))
			continue;
		panel_draw(&p, all, n, r, out);
		x += PANEL_W + GAP_LEFT + GAP_RIGHT;
	}
	return y + TITLE + PANEL_H + FOOT;
}

void bench_svg(const struct bench_result *r, unsigned n, struct text *out)
{
	int w = (PANEL_W + GAP_LEFT + GAP_RIGHT) * 3;
	int h = HEAD + (int)n * (TITLE + PANEL_H + FOOT);
	double y = HEAD;

	text_fmt(out,
		 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		 "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
		 "<style>.g{stroke:#d4d4d4;stroke-width:1}.h{stroke:#efefef;stroke-width:1}"
		 ".f{stroke:#555;fill:none}.l{fill:none;stroke-width:1.6}"
		 ".t{font-weight:bold;font-size:13px}.T{font-weight:bold;font-size:14px}</style>\n"
		 "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
		 "<text class=\"T\" x=\"%d\" y=\"20\">Throughput by object size</text>\n",
		 w, h, w, h, w, h, GAP_LEFT);
	legend(r, n, out);
	for (unsigned i = 0; i < n; i++)
		y = svg_target(r, n, &r[i], y, out);
	text_add(out, "</svg>\n");
}
