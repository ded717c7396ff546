/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clouds.yaml:
 *
 *	clouds:
 *	  NAME:
 *	    auth:
 *	      auth_url: https://…
 *	    region_name: "R"
 *
 * Each line that is a mapping entry has a depth by its indentation. An entry that is not on the way
 * to a value we want is passed over with everything below it, however it is written; on the way only
 * plain and quoted scalars of one line are understood, so that a password is never half read.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "store/swift_ident.h"

#include <openssl/crypto.h>
#include <string.h>

#define DEPTH_MAX 4

static const char *const yaml_names[SWIFT_NFIELDS] = {
#define SWIFT_FIELD_YAML(name, env, alt, yaml, secret) yaml,
	SWIFT_FIELDS(SWIFT_FIELD_YAML)
#undef SWIFT_FIELD_YAML
};

struct yaml {
	struct swift_ident *id;
	const char         *cloud;
	struct text        *why;
	unsigned            line;
	int                 depth;		/* of the mapping the last entry of ours opened or was in */
	int                 indent[DEPTH_MAX];	/* of the entries of each depth; -1: none yet */
	int                 skip;		/* deeper lines than this belong to nobody; INT32_MAX: off */
	bool                found;		/* clouds: NAME: was there */
	bool                seen[2][SWIFT_NFIELDS];	/* twice in one mapping is a mistake */
	bool                kept[SWIFT_NFIELDS];	/* given by who was asked first */
};

static int yaml_bad(struct yaml *y, const char *what)
{
	text_fmt(y->why, "line %u: %s", y->line, what);
	return -TESS_E_URI;
}

/* "…" with the few escapes that a value of ours may hold. Appends, and sets *ret_end behind the quote. */
static int scalar_double(struct yaml *y, const char *s, struct text *ret, const char **ret_end)
{
	for (s++; *s && *s != '"'; s++) {
		if (*s != '\\') {
			text_addn(ret, s, 1);
			continue;
		}
		s++;
		if (*s != '"' && *s != '\\' && *s != '/')
			return yaml_bad(y, "this escape in a quoted value is not understood");
		text_addn(ret, s, 1);
	}
	if (*s != '"')
		return yaml_bad(y, "a quoted value must end on its line");
	*ret_end = s + 1;
	return 0;
}

static int scalar_single(struct yaml *y, const char *s, struct text *ret, const char **ret_end)
{
	for (s++; *s; s++) {
		if (*s == '\'' && s[1] != '\'')
			break;
		s += *s == '\'';
		text_addn(ret, s, 1);
	}
	if (*s != '\'')
		return yaml_bad(y, "a quoted value must end on its line");
	*ret_end = s + 1;
	return 0;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

/* The value at `s`; *ret_null: empty, ~ or null and not quoted. */
static int scalar_read(struct yaml *y, const char *s, struct text *ret, bool *ret_null)
{
	const char *end = s;
	int r;

	*ret_null = false;
	if (*s == '"' || *s == '\'') {
		r = *s == '"' ? scalar_double(y, s, ret, &end) : scalar_single(y, s, ret, &end);
		if (r < 0)
			return r;
		while (blank(*end))
			end++;
		return *end && *end != '#' ? yaml_bad(y, "text after a quoted value") : 0;
	}
	if (*s && strchr("&*!|>{}[]%@`,?", *s))
		return yaml_bad(y, "only plain and quoted values of one line are understood here");
	while (*end && !(*end == '#' && (end == s || blank(end[-1]))))
		end++;
	while (end > s && blank(end[-1]))
		end--;
	text_addn(ret, s, (size_t)(end - s));
	if (strstr(text_str(ret), ": "))
		return yaml_bad(y, "a plain value may not hold \": \"");
	*ret_null = end == s || strcmp(text_str(ret), "~") == 0 ||
		    strcmp(text_str(ret), "null") == 0;
	return 0;
}

/* Splits "key: value"; the key is copied out. NULL when it is no mapping entry. */
static const char *entry_split(const char *s, char *key, size_t max)
{
	char quote = *s == '"' || *s == '\'' ? *s : 0;
	size_t n;

	s += quote != 0;
	for (n = 0; s[n] && s[n] != quote; n++) {
		if (!quote && s[n] == ':' && (blank(s[n + 1]) || !s[n + 1]))
			break;
	}
	if (n == 0 || n >= max || (quote && s[n] != quote))
		return NULL;
	memcpy(key, s, n);
	key[n] = 0;
	s += n + (quote != 0);
	if (*s != ':' || (s[1] && !blank(s[1])))
		return NULL;
	for (s++; blank(*s);)
		s++;
	return s;
}

/* An entry of the cloud or of its "auth". */
static int yaml_field(struct yaml *y, const char *key, const char *value, int depth)
{
	struct text t = TEXT_INIT;
	unsigned f = 0;
	bool null;
	int r;

	while (f < SWIFT_NFIELDS && strcmp(yaml_names[f], key) != 0)
		f++;
	if (f == SWIFT_NFIELDS)
		return 0;
	if (y->seen[depth - 2][f])
		return yaml_bad(y, "this is given twice");
	y->seen[depth - 2][f] = true;
	r = swift_secret_room(&t, strlen(value) + 1);
	if (r == 0)
		r = scalar_read(y, value, &t, &null);
	if (r == 0 && !null && !y->kept[f])
		r = swift_ident_set(y->id, f, text_str(&t), t.n);
	if (r == -EINVAL)
		r = yaml_bad(y, "the value is too long or holds control characters");
	swift_wipe(&t);
	return r;
}

/* Keys that change what the others mean: ignoring them would be wrong. */
static int yaml_refused(struct yaml *y, const char *key, const char *value)
{
	if (strcmp(key, "profile") == 0 || strcmp(key, "cloud") == 0)
		return yaml_bad(y, "vendor profiles are not supported: write the values here");
	if (strcmp(key, "verify") == 0 && strncasecmp(value, "true", 4) != 0)
		return yaml_bad(y, "verify: certificates are always verified; give cacert");
	if (strcmp(key, "identity_api_version") == 0 && !strchr(value, '3'))
		return yaml_bad(y, "identity_api_version: only 3 is supported");
	return 0;
}

/* A mapping of ours is opened: its value must be nothing. */
static int yaml_open(struct yaml *y, const char *value, int depth)
{
	if (*value && *value != '#')
		return yaml_bad(y, "an indented mapping must follow, one entry a line");
	y->depth = depth + 1;
	y->indent[depth + 1] = -1;
	return 0;
}

static int yaml_entry(struct yaml *y, const char *key, const char *value, int depth)
{
	int r = 0;

	y->depth = depth;
	if (depth == 0 && strcmp(key, "clouds") == 0)
		return yaml_open(y, value, 0);
	if (depth == 1 && strcmp(key, y->cloud) == 0) {
		if (y->found)
			return yaml_bad(y, "this cloud is there twice");
		y->found = true;
		return yaml_open(y, value, 1);
	}
	if (depth == 2 && strcmp(key, "auth") == 0)
		return yaml_open(y, value, 2);
	if (depth >= 2)
		r = yaml_refused(y, key, value);
	if (r == 0 && depth >= 2)
		r = yaml_field(y, key, value, depth);
	y->skip = y->indent[depth];
	return r;
}

/* Depth of a line with this indentation, or -1. */
static int yaml_depth(struct yaml *y, int indent)
{
	int d = y->depth;

	if (y->indent[d] < 0) {
		if (d == 0 || indent > y->indent[d - 1]) {
			y->indent[d] = indent;
			return d;
		}
		d--;	/* an empty mapping */
	}
	while (d > 0 && indent < y->indent[d])
		d--;
	return indent == y->indent[d] ? d : -1;
}

static bool ours(const char *key, const struct yaml *y)
{
	for (unsigned f = 0; f < SWIFT_NFIELDS; f++) {
		if (y->depth >= 2 && strcmp(yaml_names[f], key) == 0)
			return true;
	}
	return false;
}

static int yaml_line(struct yaml *y, const char *s, char *last, size_t max)
{
	char key[256];
	const char *value;
	int indent = (int)strspn(s, " "), depth;

	s += indent;
	if (!*s || *s == '#')
		return 0;
	if (indent > y->skip || (indent == y->skip && s[0] == '-' && (blank(s[1]) || !s[1])))
		return ours(last, y) ? yaml_bad(y, "a value must be on the line of its name") : 0;
	y->skip = INT32_MAX;
	if (strcmp(s, "---") == 0 && y->line == 1)
		return 0;
	if (*s == '\t')
		return yaml_bad(y, "indented with a tab: YAML wants spaces");
	if (*s == '-' && (blank(s[1]) || !s[1]))
		return yaml_bad(y, "a list is not understood here");
	value = entry_split(s, key, sizeof(key));
	if (!value)
		return yaml_bad(y, "not \"NAME: VALUE\"");
	depth = yaml_depth(y, indent);
	if (depth < 0)
		return yaml_bad(y, "the indentation fits nothing above");
	(void)snprintf(last, max, "%s", key);
	return yaml_entry(y, key, value, depth);
}

int swift_clouds_parse(struct swift_ident *id, const struct text *yaml, const char *cloud,
		       bool *ret_found, struct text *why)
{
	struct yaml y = { .id = id, .cloud = cloud, .why = why, .skip = INT32_MAX };
	const char *at = text_str(yaml);
	char last[256] = "";
	int r = 0;

	y.indent[0] = -1;
	for (unsigned f = 0; f < SWIFT_NFIELDS; f++)
		y.kept[f] = id->f[f] != NULL;
	while (*at && r == 0) {
		size_t n = strcspn(at, "\n"), len = n;
		char *line = mem_alloc(n + 1);

		if (!line)
			return -ENOMEM;
		y.line++;
		while (len > 0 && (at[len - 1] == '\r' || blank(at[len - 1])))
			len--;
		memcpy(line, at, len);
		line[len] = 0;
		r = yaml_line(&y, line, last, sizeof(last));
		OPENSSL_cleanse(line, n + 1);
		free(line);
		at += n + (at[n] == '\n');
	}
	*ret_found = y.found;
	return r;
}
