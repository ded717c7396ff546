/* SPDX-License-Identifier: Apache-2.0 */
#include "fmodel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fm_fill(void *p, uint64_t seed, size_t off, size_t len)
{
	uint8_t *b = p;

	for (size_t i = 0; i < len;) {
		uint64_t word = (off + i) / 8, at = (off + i) % 8;
		uint64_t s = seed * UINT64_C(0x2545f4914f6cdd1d) + word, v = rnd(&s);

		for (; at < 8 && i < len; at++, i++) {
			uint8_t x = (uint8_t)(v >> (8 * at));

			b[i] = x ? x : 0xa5;
		}
	}
}

static void fm_fit(uint8_t **p, size_t *cap, size_t n)
{
	size_t want = *cap ? *cap : 4096;

	if (n <= *cap)
		return;
	while (want < n)
		want *= 2;
	*p = realloc(*p, want);
	if (!*p)
		abort();
	*cap = want;
}

static void fm_resize(struct fmodel *m, size_t size)
{
	fm_fit(&m->cur, &m->cap, size);
	if (size > m->size)
		memset(m->cur + m->size, 0, size - m->size);
	m->size = size;
	if (size < m->least)
		m->least = size;
	if (size > m->most)
		m->most = size;
}

static void fm_add(struct fmodel *m, struct fop op)
{
	if (m->nop == m->op_cap) {
		m->op_cap = m->op_cap ? 2 * m->op_cap : 16;
		m->op = realloc(m->op, m->op_cap * sizeof(m->op[0]));
		if (!m->op)
			abort();
	}
	m->op[m->nop++] = op;
}

void fm_done(struct fmodel *m)
{
	free(m->base);
	free(m->cur);
	free(m->op);
	*m = (struct fmodel){0};
}

void fm_write(struct fmodel *m, uint64_t seed, size_t off, size_t len)
{
	if (!len)
		return;
	if (off + len > m->size)
		fm_resize(m, off + len);
	fm_fill(m->cur + off, seed, off, len);
	fm_add(m, (struct fop){FOP_WRITE, seed, off, len});
}

void fm_cut(struct fmodel *m, size_t size)
{
	fm_resize(m, size);
	fm_add(m, (struct fop){FOP_CUT, 0, size, 0});
}

void fm_punch(struct fmodel *m, size_t off, size_t len)
{
	if (off < m->size)
		memset(m->cur + off, 0, len < m->size - off ? len : m->size - off);
	fm_add(m, (struct fop){FOP_PUNCH, 0, off, len});
}

void fm_synced(struct fmodel *m)
{
	fm_fit(&m->base, &m->base_cap, m->size);
	if (m->size)
		memcpy(m->base, m->cur, m->size);
	m->base_size = m->least = m->most = m->size;
	m->nop = 0;
}

void fm_settle(struct fmodel *m, const void *p, size_t size)
{
	fm_fit(&m->cur, &m->cap, size);
	if (size)
		memcpy(m->cur, p, size);
	m->size = size;
	fm_synced(m);
}

static void fm_allow(const struct fop *op, const uint8_t *p, uint8_t *ok, size_t size)
{
	size_t off = op->off, end = op->kind == FOP_CUT ? size : op->off + op->len;
	uint8_t want[256];

	if (end > size)
		end = size;
	for (size_t n; off < end; off += n) {
		n = end - off < sizeof(want) ? end - off : sizeof(want);
		if (op->kind == FOP_WRITE)
			fm_fill(want, op->seed, off, n);
		else
			memset(want, 0, n);
		for (size_t i = 0; i < n; i++)
			ok[off + i] |= p[off + i] == want[i];
	}
}

const char *fm_check(const struct fmodel *m, const void *buf, size_t size)
{
	static __thread char why[256];
	const uint8_t *p = buf;
	uint8_t *ok;
	size_t bad = 0, first = 0;

	if (size < m->least || size > m->most) {
		snprintf(why, sizeof(why), "size is %zu, was %zu when synced, then %zu to %zu",
			 size, m->base_size, m->least, m->most);
		return why;
	}
	ok = calloc(1, size + 1);
	if (!ok)
		abort();
	for (size_t i = 0; i < size; i++)
		ok[i] = p[i] == (i < m->base_size ? m->base[i] : 0);
	for (unsigned i = 0; i < m->nop; i++)
		fm_allow(&m->op[i], p, ok, size);
	for (size_t i = size; i-- > 0;)
		if (!ok[i])
			bad++, first = i;
	free(ok);
	if (!bad)
		return NULL;
	snprintf(why, sizeof(why),
		 "%zu of %zu bytes are wrong from %zu on, which is %s (0x%02x), synced 0x%02x, now "
		 "0x%02x",
		 bad, size, first, p[first] ? "foreign" : "zero", p[first],
		 first < m->base_size ? m->base[first] : 0, first < m->size ? m->cur[first] : 0);
	return why;
}

const char *fm_same(const struct fmodel *m, const void *buf, size_t size)
{
	static __thread char why[160];
	const uint8_t *p = buf;
	size_t i;

	if (size != m->size) {
		snprintf(why, sizeof(why), "size is %zu, not %zu", size, m->size);
		return why;
	}
	for (i = 0; i < size && p[i] == m->cur[i]; i++)
		;
	if (i == size)
		return NULL;
	snprintf(why, sizeof(why), "byte %zu of %zu is 0x%02x, not 0x%02x", i, size, p[i],
		 m->cur[i]);
	return why;
}
