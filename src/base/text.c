/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <stdarg.h>
#include <string.h>

void text_done(struct text *t)
{
	free(t->s);
	*t = (struct text)TEXT_INIT;
}

void text_clear(struct text *t)
{
	t->n = 0;
	t->err = 0;
	if (t->s)
		t->s[0] = '\0';
}

/* Room for n more bytes and the NUL. */
static int text_grow(struct text *t, size_t n)
{
	size_t need, cap;
	char *s;

	if (t->err)
		return t->err;
	if (__builtin_add_overflow(t->n, n, &need) || need > SIZE_MAX / 4) {
		t->err = -ENOMEM;
		return t->err;
	}
	if (need < t->cap)
		return 0;
	cap = MAX(need + 1, MAX(t->cap * 2, (size_t)64));
	s = mem_resize(t->s, cap, 1);
	if (!s) {
		t->err = -ENOMEM;
		return t->err;
	}
	t->s = s;
	t->cap = cap;
	return 0;
}

void text_addn(struct text *t, const char *s, size_t n)
{
	if (text_grow(t, n))
		return;
	memcpy(t->s + t->n, s, n);
	t->n += n;
	t->s[t->n] = '\0';
}

void text_add(struct text *t, const char *s)
{
	text_addn(t, s, strlen(s));
}

void text_fmt(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || text_grow(t, (size_t)n))
		return;
	va_start(ap, fmt);
	vsnprintf(t->s + t->n, (size_t)n + 1, fmt, ap);
	va_end(ap);
	t->n += (size_t)n;
}

/* Length of the well-formed UTF-8 sequence at s (RFC 3629: no surrogates, no overlong forms), or 0. */
static size_t text_utf8(const unsigned char *s, size_t n)
{
	unsigned char lo = 0x80, hi = 0xbf;
	size_t len;

	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (len > n)
		return 0;
	if (s[0] == 0xe0)
		lo = 0xa0;
	else if (s[0] == 0xed)
		hi = 0x9f;
	else if (s[0] == 0xf0)
		lo = 0x90;
	else if (s[0] == 0xf4)
		hi = 0x8f;
	if (s[1] < lo || s[1] > hi)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

void text_json(struct text *t, const char *str, size_t n)
{
	const unsigned char *s = (const unsigned char *)str;

	text_add(t, "\"");
	for (size_t i = 0; i < n;) {
		size_t len = text_utf8(s + i, n - i);

		if (!len)
			text_add(t, "\xef\xbf\xbd");
		else if (s[i] == '"' || s[i] == '\\')
			text_fmt(t, "\\%c", s[i]);
		else if (s[i] < 0x20 || s[i] == 0x7f)
			text_fmt(t, "\\u%04x", s[i]);
		else
			text_addn(t, str + i, len);
		i += len ? len : 1;
	}
	text_add(t, "\"");
}

void text_size(struct text *t, uint64_t bytes)
{
	static const char unit[] = "BKMGTPE";
	double v = (double)bytes;
	unsigned i = 0;

	while (v >= 1024 && i < sizeof(unit) - 2) {
		v /= 1024;
		i++;
	}
	if (i)
		text_fmt(t, "%.1f%c", v, unit[i]);
	else
		text_fmt(t, "%u", (unsigned)bytes);
}

int text_error(const struct text *t)
{
	return t->err;
}

const char *text_str(const struct text *t)
{
	return t->s ? t->s : "";
}

char *text_steal(struct text *t)
{
	char *s;

	if (!t->s)
		text_add(t, "");
	s = t->err ? NULL : steal_ptr(t->s);
	text_done(t);
	return s;
}
