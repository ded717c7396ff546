/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H
/*
 * A growing text buffer, the output of every *_to_text(). Running out of memory is remembered and
 * reported once, by text_error(); in between every call is safe.
 */
#include <stddef.h>
#include <stdint.h>

struct text {
	char  *s;	/* owned, NUL-terminated; NULL until first used */
	size_t n, cap;
	int    err;
};
#define TEXT_INIT { 0 }

void  text_done(struct text *t);
void  text_clear(struct text *t);
void  text_add(struct text *t, const char *s);
void  text_addn(struct text *t, const char *s, size_t n);
void  text_fmt(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void  text_json(struct text *t, const char *s, size_t n);	/* quoted; bytes that are not UTF-8 become U+FFFD */
void  text_size(struct text *t, uint64_t bytes);		/* "4.0M" */
int   text_error(const struct text *t);				/* 0 or -ENOMEM */
const char *text_str(const struct text *t);			/* never NULL */
char *text_steal(struct text *t);				/* owned by the caller; NULL if out of memory */
#endif
