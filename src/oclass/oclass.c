/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, ids and shapes of object classes. Cutting a segment into shards is in split.c.
 *
 * The id is on disk, in every inode and segment record, so its layout never changes:
 *
 *	bits 15..14  1 none, 2 replica, 3 erasure code; 0: no class, a zeroed record has none
 *	none         6..0 groups
 *	replica      10..7 copies, 6..0 groups
 *	erasure      13..11 parity, 10..5 data, 4..0 groups
 *
 * Groups 0 is X. The fields are wider than what is legal today: more names can become legal.
 */
#include "oclass/oclass.h"
#include "base/err.h"
#include "base/scoped.h"
#include "base/text.h"
#include <ctype.h>
#include <string.h>

#define COPIES_MIN 2u
#define COPIES_MAX 6u
#define NAME_MAX_LEN 16

/* The codes DAOS offers: a parity wider than the data buys nothing that copies do not. */
static const struct {
	unsigned char data, parity;
} codes[] = {
	{ 2, 1 }, { 2, 2 }, { 4, 1 }, { 4, 2 }, { 4, 3 }, { 8, 1 },
	{ 8, 2 }, { 8, 3 }, { 16, 1 }, { 16, 2 }, { 16, 3 },
};

/* What `class list` shows: the names worth choosing from, not all that parse. */
static const unsigned char rows_single[] = { 1, 2, 4, 8, 16, 32, 64, 0 };
static const unsigned char rows_groups[] = { 1, 2, 4, 8, 0 };

static unsigned group_width(const struct oclass *c)
{
	return c->data + c->parity;
}

static bool is_code(unsigned data, unsigned parity)
{
	for (unsigned i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].data == data && codes[i].parity == parity)
			return true;
	return false;
}

static bool is_legal(const struct oclass *c)
{
	switch (c->scheme) {
	case OCLASS_NONE:
		if (c->data != 1 || c->parity != 0)
			return false;
		break;
	case OCLASS_REPLICA:
		if (c->data != 1 || c->parity + 1 < COPIES_MIN || c->parity + 1 > COPIES_MAX)
			return false;
		break;
	case OCLASS_EC:
		if (!is_code(c->data, c->parity))
			return false;
		break;
	default:
		return false;
	}
	return c->groups <= TESS_SHARDS_MAX / group_width(c);
}

static uint16_t make_id(const struct oclass *c)
{
	switch (c->scheme) {
	case OCLASS_REPLICA:
		return (uint16_t)(2u << 14 | (c->parity + 1) << 7 | c->groups);
	case OCLASS_EC:
		return (uint16_t)(3u << 14 | c->parity << 11 | c->data << 5 | c->groups);
	default:
		return (uint16_t)(1u << 14 | c->groups);
	}
}

int oclass_from_id(uint16_t id, struct oclass *ret)
{
	struct oclass c = { .id = id, .data = 1 };

	switch (id >> 14) {
	case 1:
		c.scheme = OCLASS_NONE;
		c.groups = id & 0x7f;
		break;
	case 2:
		c.scheme = OCLASS_REPLICA;
		c.parity = (id >> 7 & 0xf) - 1u;	/* 0 copies wraps and is not legal */
		c.groups = id & 0x7f;
		break;
	case 3:
		c.scheme = OCLASS_EC;
		c.parity = id >> 11 & 0x7;
		c.data = id >> 5 & 0x3f;
		c.groups = id & 0x1f;
		break;
	default:
		return -TESS_E_CLASS_UNKNOWN;
	}
	if (!is_legal(&c) || make_id(&c) != id)	/* the second: unused bits are zero */
		return -TESS_E_CLASS_UNKNOWN;
	*ret = c;
	return 0;
}

void oclass_name(const struct oclass *c, char ret[16])
{
	char groups[4] = "X";

	if (c->groups)
		snprintf(groups, sizeof(groups), "%u", c->groups & 0x7f);
	switch (c->scheme) {
	case OCLASS_REPLICA:
		snprintf(ret, NAME_MAX_LEN, "RP_%uG%s", (c->parity + 1) & 0xf, groups);
		break;
	case OCLASS_EC:
		snprintf(ret, NAME_MAX_LEN, "EC_%uP%uG%s", c->data & 0x3f, c->parity & 7,
			 groups);
		break;
	default:
		snprintf(ret, NAME_MAX_LEN, "S%s", groups);
	}
}

/* Takes `word` off the front of *s, ignoring case. */
static bool eat(const char **s, const char *word)
{
	size_t n = strlen(word);

	if (strncasecmp(*s, word, n) != 0)
		return false;
	*s += n;
	return true;
}

/* A decimal number; what is too large for any class becomes 9999. *strict is cleared by "07". */
static bool eat_number(const char **s, unsigned *ret, bool *strict)
{
	unsigned v = 0;

	if (!isdigit((unsigned char)**s))
		return false;
	if (**s == '0')
		*strict = false;	/* "S01", and "S0": X is how no limit is said */
	for (; isdigit((unsigned char)**s); (*s)++)
		v = MIN(v * 10 + (unsigned)(**s - '0'), 9999u);
	*ret = v;
	return true;
}

static bool eat_groups(const char **s, unsigned *ret, bool *strict)
{
	if (eat(s, "X")) {
		*ret = 0;
		return true;
	}
	if (!eat_number(s, ret, strict))
		return false;
	if (*ret == 0)
		*ret = 1;	/* only a suggestion is made of it */
	return true;
}

/* The grammar alone: numbers may still be out of their limits. */
static bool parse_shape(const char *s, struct oclass *ret, bool *strict)
{
	struct oclass c = { .data = 1, .groups = 1 };
	unsigned copies;

	if (eat(&s, "RP_")) {
		c.scheme = OCLASS_REPLICA;
		if (!eat_number(&s, &copies, strict))
			return false;
		c.parity = MAX(copies, 1u) - 1;
	} else if (eat(&s, "EC_")) {
		c.scheme = OCLASS_EC;
		if (!eat_number(&s, &c.data, strict) || !eat(&s, "P") ||
		    !eat_number(&s, &c.parity, strict))
			return false;
	} else if (!eat(&s, "S")) {
		return false;
	}
	if (*s == '\0')
		*strict = false;	/* "EC_4P2": one group, as a suggestion */
	else if ((c.scheme != OCLASS_NONE && !eat(&s, "G")) ||
		 !eat_groups(&s, &c.groups, strict) || *s != '\0')
		return false;
	*ret = c;
	return true;
}

static unsigned distance(unsigned a, unsigned b)
{
	return a > b ? a - b : b - a;
}

/* Right grammar, wrong numbers: moves each to the nearest that is legal. */
static void clamp_shape(struct oclass *c)
{
	unsigned best = 0, best_d = UINT32_MAX;

	if (c->scheme == OCLASS_REPLICA)
		c->parity = MAX(MIN(c->parity, COPIES_MAX - 1), COPIES_MIN - 1);
	if (c->scheme == OCLASS_EC) {
		for (unsigned i = 0; i < ARRAY_SIZE(codes); i++) {
			unsigned d = distance(c->data, codes[i].data) * 16 +
				     distance(c->parity, codes[i].parity);

			if (d < best_d) {
				best_d = d;
				best = i;
			}
		}
		c->data = codes[best].data;
		c->parity = codes[best].parity;
	}
	c->groups = MIN(c->groups, TESS_SHARDS_MAX / group_width(c));
}

/* Levenshtein, ignoring case. Names longer than the buffer are far from all of ours anyway. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned row[NAME_MAX_LEN + 1], nb = (unsigned)strlen(b);

	for (unsigned j = 0; j <= nb; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1] != '\0'; i++) {
		unsigned diag = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= nb; j++) {
			bool same = toupper((unsigned char)a[i - 1]) == (unsigned char)b[j - 1];
			unsigned sub = diag + !same, gap = MIN(row[j], row[j - 1]) + 1;

			diag = row[j];
			row[j] = MIN(sub, gap);
		}
	}
	return row[nb];
}

/* i-th of a group of classes that differ in scheme and code only; false past the end. */
static bool nth_shape(unsigned i, struct oclass *ret)
{
	*ret = (struct oclass){ .data = 1 };
	if (i == 0)
		return true;
	i--;
	if (i <= COPIES_MAX - COPIES_MIN) {
		ret->scheme = OCLASS_REPLICA;
		ret->parity = COPIES_MIN - 1 + i;
		return true;
	}
	i -= COPIES_MAX - COPIES_MIN + 1;
	if (i >= ARRAY_SIZE(codes))
		return false;
	ret->scheme = OCLASS_EC;
	ret->data = codes[i].data;
	ret->parity = codes[i].parity;
	return true;
}

static void nearest_name(const char *name, char ret[NAME_MAX_LEN])
{
	char head[2 * NAME_MAX_LEN], cand[NAME_MAX_LEN];
	unsigned best = UINT32_MAX;
	struct oclass c;
	bool strict;

	if (parse_shape(name, &c, &strict)) {
		clamp_shape(&c);
		oclass_name(&c, ret);
		return;
	}
	snprintf(head, sizeof(head), "%.*s", (int)sizeof(head) - 1, name);
	for (unsigned i = 0; nth_shape(i, &c); i++) {
		unsigned most = TESS_SHARDS_MAX / group_width(&c);

		for (unsigned g = 1; g <= most + 1; g++) {
			unsigned d;

			c.groups = g <= most ? g : 0;
			oclass_name(&c, cand);
			d = edit_distance(head, cand);
			if (d < best) {
				best = d;
				memcpy(ret, cand, NAME_MAX_LEN);
			}
		}
	}
}

int oclass_parse(const char *name, struct oclass *ret, struct text *why)
{
	bool strict = true;
	char near[NAME_MAX_LEN];
	struct oclass c;

	if (parse_shape(name, &c, &strict) && strict && is_legal(&c)) {
		c.id = make_id(&c);
		*ret = c;
		return 0;
	}
	if (why) {
		nearest_name(name, near);
		text_add(why, "unknown object class ");
		text_json(why, name, strnlen(name, 64));
		text_fmt(why, "; the nearest is %s", near);
	}
	return -TESS_E_CLASS_UNKNOWN;
}

int oclass_usable(const struct oclass *c, unsigned ntargets, struct text *why)
{
	unsigned need = group_width(c) * MAX(c->groups, 1u);
	char name[NAME_MAX_LEN];

	oclass_name(c, name);
	if (c->scheme != OCLASS_NONE) {
		if (why)
			text_fmt(why,
				 "object class %s is not available in this version; "
				 "use S1 to S%u or SX", name, TESS_SHARDS_MAX);
		return -TESS_E_CLASS_LATER;
	}
	if (need > ntargets) {
		if (why)
			text_fmt(why, "object class %s needs %u targets, there %s %u", name, need,
				 ntargets == 1 ? "is" : "are", ntargets);
		return -TESS_E_CLASS_TARGETS;
	}
	return 0;
}

bool oclass_row(unsigned i, struct oclass *ret)
{
	struct oclass c = { .data = 1 };

	if (i < ARRAY_SIZE(rows_single)) {
		c.groups = rows_single[i];
	} else {
		i -= ARRAY_SIZE(rows_single);
		/* Too wide ones are left out, so the index is counted, not computed. */
		for (unsigned s = 1, g = 0;; g++) {
			if (g == ARRAY_SIZE(rows_groups)) {
				g = 0;
				s++;
			}
			if (!nth_shape(s, &c))
				return false;
			c.groups = rows_groups[g];
			if (is_legal(&c) && i-- == 0)
				break;
		}
	}
	c.id = make_id(&c);
	*ret = c;
	return true;
}

unsigned oclass_width(const struct oclass *c, unsigned ntargets)
{
	unsigned per = group_width(c), groups = c->groups;

	if (groups == 0)
		groups = MAX(MIN(ntargets, TESS_SHARDS_MAX) / per, 1u);
	return groups * per;
}

uint32_t oclass_cell(uint64_t segment_size, unsigned width)
{
	const uint64_t step = UINT64_C(64) << 10, most = UINT64_C(1) << 20;
	uint64_t c = segment_size / width;

	c = c >= step ? c - c % step : c - c % TESS_BLOCK;
	return (uint32_t)MAX(MIN(c, most), (uint64_t)TESS_BLOCK);
}
