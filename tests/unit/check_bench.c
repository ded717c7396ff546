/* SPDX-License-Identifier: Apache-2.0 */
/* layer: admin */
#include "admin/bench_int.h"

#include "base/clock.h"
#include "unit.h"
#include <errno.h>
#include <expat.h>
#include <math.h>
#include <string.h>

/* ---- statistics ---- */

START_TEST(test_percentiles_are_within_a_bucket_and_never_below)
{
	static struct bench_hist h;

	ck_assert_int_eq(bench_hist_at(&h, 0.5), 0);
	for (int64_t v = 1; v <= 100000; v++)
		bench_hist_add(&h, v * 1000);
	for (double part = 0.01; part < 1; part += 0.07) {
		double want = part * 100000 * 1000, got = (double)bench_hist_at(&h, part);

		ck_assert(got >= want - 1000);
		ck_assert(got <= want * 1.04);
	}
	ck_assert_int_ge(bench_hist_at(&h, 1.0), 100000 * 1000);
}
END_TEST

START_TEST(test_small_and_huge_latencies_are_counted_too)
{
	static struct bench_hist h;

	for (int64_t v = 0; v < 32; v++)
		bench_hist_add(&h, v);
	ck_assert_int_eq(bench_hist_at(&h, 0.5), 15);
	ck_assert_int_eq(bench_hist_at(&h, 1.0), 31);
	bench_hist_add(&h, INT64_MAX);
	bench_hist_add(&h, -1);
	ck_assert_uint_eq(h.n, 34);
	/* An hour and more is the last bucket's. */
	ck_assert_int_gt(bench_hist_at(&h, 1.0), 1000 * NS_PER_S);
}
END_TEST

START_TEST(test_merging_is_adding_all)
{
	static struct bench_hist a, b, both;

	for (int64_t v = 1; v < 5000; v++) {
		bench_hist_add(v % 3 ? &a : &b, v * v);
		bench_hist_add(&both, v * v);
	}
	bench_hist_merge(&a, &b);
	ck_assert_int_eq(memcmp(&a, &both, sizeof(a)), 0);
}
END_TEST

static struct bench_row row(enum bench_op op, unsigned ranks, uint64_t size, uint64_t ops, int64_t ns)
{
	return (struct bench_row){
		.op = op, .mode = ranks % 2 ? BENCH_SYNC : BENCH_ASYNC, .ranks = ranks, .size = size,
		.ops = ops, .bytes = ops * size, .ns = ns, .p50 = 1000, .p99 = 2500,
	};
}

START_TEST(test_rates_are_per_second)
{
	struct bench_row r = row(BENCH_PUT, 1, 1 << 20, 10, NS_PER_S / 2);

	ck_assert(fabs(bench_mib(&r) - 20) < 1e-9);
	ck_assert(fabs(bench_rate(&r) - 20) < 1e-9);
	r.ns = 0;
	ck_assert(bench_mib(&r) == 0 && bench_rate(&r) == 0);
}
END_TEST

START_TEST(test_the_median_run_stands_for_all)
{
	struct bench_row runs[5];
	static const uint64_t ops[] = { 50, 10, 30, 30, 90 };

	for (unsigned i = 0; i < 5; i++)
		runs[i] = row(BENCH_PUT, 1, 8, ops[i], NS_PER_S);
	ck_assert_uint_eq(runs[bench_median(runs, 5)].ops, 30);
	ck_assert_uint_eq(bench_median(runs, 1), 0);
	ck_assert_uint_eq(runs[bench_median(runs, 2)].ops, 10);
	ck_assert_uint_eq(runs[bench_median(runs, 3)].ops, 30);
}
END_TEST

/* ---- arguments ---- */

START_TEST(test_rank_lists_are_numbers_with_commas)
{
	static const char *const bad[] = { "", "0", "1,", ",1", "65", "a", "1 2", "-1", "1,1", "2x",
					   "99999999999999999999",
					   "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17" };
	struct bench_conf c = { 0 };

	CLEAN(bench_parse_ranks("1,2,64", &c, NULL));
	ck_assert_uint_eq(c.nranks, 3);
	ck_assert_uint_eq(c.ranks[2], 64);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct text why = TEXT_INIT;

		ck_assert_msg(bench_parse_ranks(bad[i], &c, &why) == -EINVAL, "%s", bad[i]);
		ck_assert_ptr_nonnull(strstr(text_str(&why), "ranks"));
		text_done(&why);
	}
}
END_TEST

START_TEST(test_word_lists_name_the_choices)
{
	struct text why = TEXT_INIT;
	unsigned mask = 0;

	CLEAN(bench_parse_words("get,put", bench_op_names, &mask, &why));
	ck_assert_uint_eq(mask, 1u << BENCH_PUT | 1u << BENCH_GET);
	ck_assert_int_eq(bench_parse_words("put,", bench_op_names, &mask, &why), -EINVAL);
	ck_assert_int_eq(bench_parse_words("pu", bench_op_names, &mask, &why), -EINVAL);
	ck_assert_ptr_nonnull(strstr(text_str(&why), "put, get, delete"));
	text_done(&why);
}
END_TEST

/* ---- output ---- */

static const char odd_name[] = "kv:/a \"b\" <c> & d\x01\xff?e='f',g";

static struct bench_result results(struct bench_row *rows)
{
	unsigned n = 0;

	for (enum bench_op op = BENCH_PUT; op < BENCH_NOPS; op++)
		for (unsigned ranks = 1; ranks <= 2; ranks++)
			for (uint64_t size = 2; size <= 1 << 20; size *= 8)
				rows[n++] = row(op, ranks, size, 1000 * ranks, NS_PER_S / ranks);
	return (struct bench_result){ .name = (char *)(uintptr_t)odd_name, .rows = rows, .n = n };
}

struct seen {
	unsigned lines, circles, panels, texts;
	bool     name;
};

static void on_element(void *arg, const char *name, const char **attrs)
{
	struct seen *s = arg;

	for (; *attrs; attrs += 2)
		ck_assert_msg(!strstr(attrs[1], "nan") && !strstr(attrs[1], "inf"), "%s", attrs[1]);
	s->lines += !strcmp(name, "polyline");
	s->circles += !strcmp(name, "circle");
	s->panels += !strcmp(name, "rect");
	s->texts += !strcmp(name, "text");
}

static void on_text(void *arg, const char *s, int n)
{
	struct seen *seen = arg;

	seen->name |= n == 1 && *s == '<';
}

static struct seen parse(const struct bench_result *r, unsigned n)
{
	XML_Parser p = XML_ParserCreate(NULL);
	struct text out = TEXT_INIT;
	struct seen seen = { 0 };

	bench_svg(r, n, &out);
	CLEAN(text_error(&out));
	XML_SetUserData(p, &seen);
	XML_SetStartElementHandler(p, on_element);
	XML_SetCharacterDataHandler(p, on_text);
	ck_assert_msg(XML_Parse(p, text_str(&out), (int)out.n, 1) == XML_STATUS_OK, "%s at line %lu",
		      XML_ErrorString(XML_GetErrorCode(p)), XML_GetCurrentLineNumber(p));
	XML_ParserFree(p);
	text_done(&out);
	return seen;
}

START_TEST(test_the_plot_is_xml_with_a_line_for_ranks_and_mode)
{
	struct bench_row rows[128];
	struct bench_result r = results(rows);
	struct seen s = parse(&r, 1);

	/* Three panels of two lines, and two of the legend; a mark for each row. */
	ck_assert_uint_eq(s.lines, 3 * 2 + 2);
	ck_assert_uint_eq(s.circles, r.n + 2);
	ck_assert_uint_eq(s.panels, 3 + 1);
	ck_assert(s.name);
}
END_TEST

START_TEST(test_a_plot_of_little_or_nothing_is_still_one)
{
	struct bench_row one = row(BENCH_GET, 1, 4096, 10, NS_PER_S);
	struct bench_result r[3] = {
		{ .name = (char *)(uintptr_t)odd_name },
		{ .name = (char *)(uintptr_t)"one", .rows = &one, .n = 1 },
		{ .name = (char *)(uintptr_t)"none" },
	};
	struct seen s = parse(r, 3);

	ck_assert_uint_eq(s.panels, 2);
	one.ns = 0;
	s = parse(r, 2);
	ck_assert_uint_eq(s.panels, 1);
	(void)parse(NULL, 0);
}
END_TEST

/* Fields of one line of RFC 4180 without line breaks; `s` is cut up. */
static unsigned fields(char *s, char **ret, unsigned max)
{
	unsigned n = 0;

	while (n < max) {
		char *to = s;

		ret[n++] = to;
		if (*s == '"') {
			for (s++; *s && (*s != '"' || s[1] == '"'); s++) {
				s += *s == '"';
				*to++ = *s;
			}
			s += *s == '"';
		} else {
			while (*s && *s != ',')
				*to++ = *s++;
		}
		if (!*s) {
			*to = 0;
			break;
		}
		ck_assert_int_eq(*s, ',');
		s++;
		*to = 0;
	}
	return n;
}

START_TEST(test_csv_has_a_column_for_each_title_and_gives_names_back)
{
	struct bench_row rows[128];
	struct bench_result r = results(rows);
	struct text out = TEXT_INIT;
	char *f[20], *rest, *line;
	unsigned n = 0;

	bench_csv_head(&out);
	bench_csv(&r, &out);
	rest = out.s;
	line = strsep(&rest, "\n");
	ck_assert_uint_eq(fields(line, f, 20), 12);
	ck_assert_str_eq(f[4], "size_bytes");
	ck_assert_str_eq(f[8], "mib_per_s");
	while ((line = strsep(&rest, "\n")) && *line) {
		ck_assert_uint_eq(fields(line, f, 20), 12);
		ck_assert_str_eq(f[0], odd_name);
		ck_assert_str_eq(f[1], bench_op_names[r.rows[n].op]);
		ck_assert_uint_eq(strtoul(f[4], NULL, 10), r.rows[n].size);
		ck_assert(fabs(strtod(f[9], NULL) - bench_rate(&r.rows[n])) < 0.01);
		ck_assert(fabs(strtod(f[11], NULL) - 2.5) < 1e-6);
		n++;
	}
	ck_assert_uint_eq(n, r.n);
	text_done(&out);
}
END_TEST

START_TEST(test_a_table_has_a_line_for_each_row)
{
	struct bench_row rows[128];
	struct bench_result r = results(rows);
	struct text out = TEXT_INIT;
	unsigned lines = 0;

	r.left_out = 3;
	bench_table(&r, &out);
	for (const char *c = text_str(&out); *c; c++)
		lines += *c == '\n';
	ck_assert_uint_eq(lines, r.n + 3);
	ck_assert_ptr_nonnull(strstr(text_str(&out), "left out: 3"));
	text_done(&out);
}
END_TEST

/* ---- contents ---- */

static void flatten(const struct iovec *v, unsigned n, char *to)
{
	for (unsigned i = 0; i < n; to += v[i++].iov_len)
		memcpy(to, v[i].iov_base, v[i].iov_len);
}

START_TEST(test_other_bytes_than_put_are_noticed)
{
	static const uint64_t sizes[] = { 2, 15, 16, 17, 4096, 4097, 100000 };
	struct bench *b = calloc(1, sizeof(*b) + 2 * sizeof(b->ranks[0]));
	char *got = calloc(1, 100000), page[BENCH_PAGE];
	struct iovec v[2];

	b->body = calloc(1, 100000);
	for (unsigned i = 0; i < 100000; i++)
		b->body[i] = (char)(i * 7 + (i >> 8));
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		uint64_t n = sizes[k];
		struct bench_rank *r = b->ranks, *other = &b->ranks[1];

		r->b = other->b = b;
		other->id = 1;
		r->phase.size = other->phase.size = n;
		flatten(v, bench_fill(r, 5, page, v), got);
		ck_assert(bench_check(r, 5, got));
		ck_assert(!bench_check(r, 6, got));
		ck_assert(!bench_check(other, 5, got));
		got[n - 1] ^= 1;
		ck_assert(!bench_check(r, 5, got));
	}
	free(b->body);
	free(b);
	free(got);
}
END_TEST

UNIT_MAIN("bench", test_percentiles_are_within_a_bucket_and_never_below,
	  test_small_and_huge_latencies_are_counted_too, test_merging_is_adding_all,
	  test_rates_are_per_second, test_the_median_run_stands_for_all,
	  test_rank_lists_are_numbers_with_commas, test_word_lists_name_the_choices,
	  test_the_plot_is_xml_with_a_line_for_ranks_and_mode,
	  test_a_plot_of_little_or_nothing_is_still_one,
	  test_csv_has_a_column_for_each_title_and_gives_names_back, test_a_table_has_a_line_for_each_row,
	  test_other_bytes_than_put_are_noticed)
