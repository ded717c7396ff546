/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_OPT_H
#define BASE_OPT_H
/* Parses, prints and frees structs described by option rows (tessera/opt.h). */
#include <stdbool.h>
#include <tessera/opt.h>

struct text;

/* Sets every field to its row's default. 0, -ENOMEM, or -TESS_E_OPT_VALUE for a bad table. */
int  opt_init(const struct tess_opt *rows, void *st);
void opt_done(const struct tess_opt *rows, void *st);	/* frees strings, zeroes */
/* One "name=value" or "name" given as two strings (value may be NULL). `why`, when not NULL, gets one clear
 * line naming option, value and the legal choice. -TESS_E_OPT_UNKNOWN, -TESS_E_OPT_VALUE, -ENOMEM. */
int  opt_set(const struct tess_opt *rows, void *st, unsigned when, const char *name,
	     const char *value, struct text *why);
/* "a=1,b,c=x" split on commas; stops at the first error. */
int  opt_parse(const struct tess_opt *rows, void *st, unsigned when, const char *list, struct text *why);
void opt_to_text(const struct tess_opt *rows, const void *st, struct text *out);	/* "name=value\n" each */
void opt_help(const struct tess_opt *rows, unsigned when, struct text *out);

int parse_size(const char *s, uint64_t *ret);	/* "4M"; 0 or -EINVAL, overflow included */
int parse_time(const char *s, uint64_t *ret_ns);
#endif
