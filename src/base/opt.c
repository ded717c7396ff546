/* SPDX-License-Identifier: Apache-2.0 */
#include "base/opt.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "base/text.h"
#include <string.h>

struct opt_unit {
	const char *name;
	uint64_t    n;
};

static const struct opt_unit opt_sizes[] = {
	{ "T", UINT64_C(1) << 40 }, { "G", UINT64_C(1) << 30 }, { "M", UINT64_C(1) << 20 },
	{ "k", UINT64_C(1) << 10 }, { "", 1 },
};
static const struct opt_unit opt_times[] = {
	{ "d", UINT64_C(86400000000000) }, { "h", UINT64_C(3600000000000) },
	{ "m", UINT64_C(60000000000) },	   { "s", UINT64_C(1000000000) },
	{ "ms", 1000000 },		   { "us", 1000 },
	{ "ns", 1 },
};

/* Digits alone: strtoull() would take a sign and leading blanks. */
static int parse_digits(const char *s, const char **ret_end, uint64_t *ret)
{
	uint64_t v = 0;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return -EINVAL;
	*ret_end = s;
	*ret = v;
	return 0;
}

static int parse_unit(const char *s, const struct opt_unit *u, size_t n, bool any_case, uint64_t *ret)
{
	uint64_t v;
	int err;

	err = parse_digits(s, &s, &v);
	if (err)
		return err;
	for (size_t i = 0; i < n; i++)
		if (any_case ? !strcasecmp(s, u[i].name) : !strcmp(s, u[i].name))
			return __builtin_mul_overflow(v, u[i].n, ret) ? -EINVAL : 0;
	return -EINVAL;
}

int parse_size(const char *s, uint64_t *ret)
{
	uint64_t v;
	int err = parse_unit(s, opt_sizes, ARRAY_SIZE(opt_sizes), true, &v);

	if (!err)
		*ret = v;
	return err;
}

int parse_time(const char *s, uint64_t *ret_ns)
{
	const char *end;
	uint64_t v;
	int err;

	err = parse_digits(s, &end, &v);
	if (err)
		return err;
	if (!*end)
		err = __builtin_mul_overflow(v, UINT64_C(1000000000), &v) ? -EINVAL : 0;
	else
		err = parse_unit(s, opt_times, ARRAY_SIZE(opt_times), false, &v);
	if (!err)
		*ret_ns = v;
	return err;
}

static int parse_bool(const char *s, bool *ret)
{
	static const char *const yes[] = { "on", "yes", "true", "1" };
	static const char *const no[] = { "off", "no", "false", "0" };

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		if (!strcmp(s, yes[i]) || !strcmp(s, no[i])) {
			*ret = !strcmp(s, yes[i]);
			return 0;
		}
	return -EINVAL;
}

static int parse_double(const char *s, double *ret)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(s, &end);
	if (errno || end == s || *end || !__builtin_isfinite(v))
		return -EINVAL;
	*ret = v;
	return 0;
}

static int parse_word(const char *const *words, const char *s, int *ret)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(words[i], s)) {
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

static void *opt_at(const struct tess_opt *row, const void *st)
{
	return (char *)(uintptr_t)st + row->at;
}

/* The value in the largest unit that shows it exactly. */
static void opt_add_unit(struct text *out, uint64_t v, const struct opt_unit *u, size_t n)
{
	size_t i = 0;

	while (i < n - 1 && (v % u[i].n || !v))
		i++;
	text_fmt(out, "%llu%s", (unsigned long long)(v / u[i].n), u[i].name);
}

static void opt_add_number(const struct tess_opt *row, uint64_t v, struct text *out)
{
	if (row->type == TESS_OPT_SIZE)
		opt_add_unit(out, v, opt_sizes, ARRAY_SIZE(opt_sizes));
	else if (row->type == TESS_OPT_TIME && v)
		opt_add_unit(out, v, opt_times, ARRAY_SIZE(opt_times));
	else
		text_fmt(out, "%llu", (unsigned long long)v);
}

/* "one of a, b, c", "a size of 64k to 64M", … */
static void opt_add_legal(const struct tess_opt *row, struct text *out)
{
	static const char *const kind[] = {
		[TESS_OPT_BOOL] = "on or off",	   [TESS_OPT_UINT] = "a number",
		[TESS_OPT_SIZE] = "a size like 4M", [TESS_OPT_TIME] = "a time like 20ms",
		[TESS_OPT_DOUBLE] = "a number",	   [TESS_OPT_ENUM] = "one of ",
		[TESS_OPT_STRING] = "a string",
	};

	text_add(out, kind[row->type]);
	for (int i = 0; row->type == TESS_OPT_ENUM && row->words[i]; i++)
		text_fmt(out, "%s%s", i ? ", " : "", row->words[i]);
	if (row->type != TESS_OPT_UINT && row->type != TESS_OPT_SIZE && row->type != TESS_OPT_TIME)
		return;
	if (row->min) {
		text_add(out, ", at least ");
		opt_add_number(row, row->min, out);
	}
	if (row->max) {
		text_add(out, ", at most ");
		opt_add_number(row, row->max, out);
	}
}

static int opt_store_number(const struct tess_opt *row, void *at, const char *value)
{
	const char *end;
	uint64_t v = 0;
	int err;

	if (row->type == TESS_OPT_SIZE)
		err = parse_size(value, &v);
	else if (row->type == TESS_OPT_TIME)
		err = parse_time(value, &v);
	else
		err = parse_digits(value, &end, &v) || *end ? -EINVAL : 0;
	if (err || v < row->min || (row->max && v > row->max))
		return -EINVAL;
	*(uint64_t *)at = v;
	return 0;
}

static int opt_store_string(char **at, const char *value)
{
	char *s = mem_strdup(value);

	if (!s)
		return -ENOMEM;
	free(*at);
	*at = s;
	return 0;
}

/* Writes the field on success only: 0, -EINVAL or -ENOMEM. */
static int opt_store(const struct tess_opt *row, void *at, const char *value)
{
	switch (row->type) {
	case TESS_OPT_BOOL:
		return parse_bool(value, at);
	case TESS_OPT_UINT:
	case TESS_OPT_SIZE:
	case TESS_OPT_TIME:
		return opt_store_number(row, at, value);
	case TESS_OPT_DOUBLE:
		return parse_double(value, at);
	case TESS_OPT_ENUM:
		return parse_word(row->words, value, at);
	case TESS_OPT_STRING:
		return opt_store_string(at, value);
	}
	return -EINVAL;
}

static size_t opt_size(const struct tess_opt *row)
{
	switch (row->type) {
	case TESS_OPT_BOOL:
		return sizeof(bool);
	case TESS_OPT_ENUM:
		return sizeof(int);
	case TESS_OPT_STRING:
		return sizeof(char *);
	case TESS_OPT_DOUBLE:
		return sizeof(double);
	default:
		return sizeof(uint64_t);
	}
}

int opt_init(const struct tess_opt *rows, void *st)
{
	for (const struct tess_opt *row = rows; row->name; row++)
		memset(opt_at(row, st), 0, opt_size(row));
	for (const struct tess_opt *row = rows; row->name; row++) {
		int err = row->dflt ? opt_store(row, opt_at(row, st), row->dflt) : 0;

		if (err) {
			opt_done(rows, st);
			return err == -ENOMEM ? err : -TESS_E_OPT_VALUE;
		}
	}
	return 0;
}

void opt_done(const struct tess_opt *rows, void *st)
{
	for (const struct tess_opt *row = rows; row->name; row++) {
		if (row->type == TESS_OPT_STRING)
			free(*(char **)opt_at(row, st));
		memset(opt_at(row, st), 0, opt_size(row));
	}
}

static const struct tess_opt *opt_find(const struct tess_opt *rows, const char *name)
{
	for (const struct tess_opt *row = rows; row->name; row++)
		if (!strcmp(row->name, name))
			return row;
	return NULL;
}

static int opt_bad_value(const struct tess_opt *row, const char *value, struct text *why)
{
	if (why && !value) {
		text_fmt(why, "option %s needs a value: ", row->name);
		opt_add_legal(row, why);
	} else if (why) {
		text_fmt(why, "option %s: \"%s\" is not ", row->name, value);
		opt_add_legal(row, why);
	}
	return -TESS_E_OPT_VALUE;
}

int opt_set(const struct tess_opt *rows, void *st, unsigned when, const char *name, const char *value,
	    struct text *why)
{
	const struct tess_opt *row = opt_find(rows, name);
	int err;

	if (!row && !value && !strncmp(name, "no", 2)) {
		row = opt_find(rows, name + 2);
		if (row && row->type != TESS_OPT_BOOL)
			row = NULL;
		value = "off";
	}
	if (!row || !(row->when & when)) {
		if (why)
			text_fmt(why, row ? "option %s cannot be set here" : "unknown option %s", name);
		return -TESS_E_OPT_UNKNOWN;
	}
	if (!value && row->type == TESS_OPT_BOOL)
		value = "on";
	if (!value)
		return opt_bad_value(row, NULL, why);
	err = opt_store(row, opt_at(row, st), value);
	return err == -EINVAL ? opt_bad_value(row, value, why) : err;
}

int opt_parse(const struct tess_opt *rows, void *st, unsigned when, const char *list, struct text *why)
{
	while (*list) {
		size_t n = strcspn(list, ",");
		scoped_free char *one = mem_alloc(n + 1);
		char *value;
		int err;

		if (!one)
			return -ENOMEM;
		memcpy(one, list, n);
		one[n] = '\0';
		value = strchr(one, '=');
		if (value)
			*value++ = '\0';
		err = n ? opt_set(rows, st, when, one, value, why) : 0;
		if (err)
			return err;
		list += n + (list[n] == ',');
	}
	return 0;
}

static void opt_add_value(const struct tess_opt *row, const void *st, struct text *out)
{
	const void *at = opt_at(row, st);

	switch (row->type) {
	case TESS_OPT_BOOL:
		text_add(out, *(const bool *)at ? "on" : "off");
		break;
	case TESS_OPT_DOUBLE:
		text_fmt(out, "%g", *(const double *)at);
		break;
	case TESS_OPT_ENUM:
		text_add(out, row->words[*(const int *)at]);
		break;
	case TESS_OPT_STRING:
		text_add(out, *(char *const *)at ? *(char *const *)at : "");
		break;
	default:
		opt_add_number(row, *(const uint64_t *)at, out);
	}
}

void opt_to_text(const struct tess_opt *rows, const void *st, struct text *out)
{
	for (const struct tess_opt *row = rows; row->name; row++) {
		text_fmt(out, "%s=", row->name);
		opt_add_value(row, st, out);
		text_add(out, "\n");
	}
}

void opt_help(const struct tess_opt *rows, unsigned when, struct text *out)
{
	static const char *const kind[] = {
		[TESS_OPT_BOOL] = "",	       [TESS_OPT_UINT] = "=NUMBER", [TESS_OPT_SIZE] = "=SIZE",
		[TESS_OPT_TIME] = "=TIME",     [TESS_OPT_DOUBLE] = "=NUMBER", [TESS_OPT_ENUM] = "=WORD",
		[TESS_OPT_STRING] = "=STRING",
	};

	for (const struct tess_opt *row = rows; row->name; row++) {
		int width;

		if (!(row->when & when))
			continue;
		width = 28 - (int)strlen(row->name);
		text_fmt(out, "  %s%-*s %s", row->name, MAX(width, 1), kind[row->type], row->help);
		if (row->type == TESS_OPT_ENUM) {
			text_add(out, ": ");
			for (int i = 0; row->words[i]; i++)
				text_fmt(out, "%s%s", i ? ", " : "", row->words[i]);
		}
		if (row->dflt)
			text_fmt(out, " (default %s)", row->dflt);
		text_add(out, "\n");
	}
}
