/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>
#ifdef HAVE_ISAL
#include <isa-l/crc.h>
#elif defined(__x86_64__)
#include <nmmintrin.h>
#endif

/* The register's view: not inverted before and after. */
#ifdef HAVE_ISAL
static uint32_t crc_raw(uint32_t crc, const unsigned char *p, size_t n)
{
	/* It takes an int and, though it reads only, a pointer to non-const. */
	while (n) {
		int part = n > (1 << 30) ? 1 << 30 : (int)n;

		crc = crc32_iscsi((unsigned char *)(uintptr_t)p, part, crc);
		p += part;
		n -= (size_t)part;
	}
	return crc;
}
#else
#define CRC_POLY 0x82f63b78u	/* Castagnoli, reflected */

static uint32_t crc_table[8][256];

static void crc_make_table(void)
{
	for (unsigned i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int bit = 0; bit < 8; bit++)
			c = (c >> 1) ^ (c & 1 ? CRC_POLY : 0);
		crc_table[0][i] = c;
	}
	for (unsigned i = 0; i < 256; i++)
		for (int t = 1; t < 8; t++)
			crc_table[t][i] = (crc_table[t - 1][i] >> 8) ^
					  crc_table[0][crc_table[t - 1][i] & 0xff];
}

/* Eight bytes a step ("slicing by 8", Kounavis and Berry, ISCC 2005). */
static uint32_t crc_soft(uint32_t crc, const unsigned char *p, size_t n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, crc_make_table);
	for (; n >= 8; p += 8, n -= 8) {
		uint32_t a = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
				    (uint32_t)p[3] << 24);

		crc = crc_table[7][a & 0xff] ^ crc_table[6][(a >> 8) & 0xff] ^
		      crc_table[5][(a >> 16) & 0xff] ^ crc_table[4][a >> 24] ^ crc_table[3][p[4]] ^
		      crc_table[2][p[5]] ^ crc_table[1][p[6]] ^ crc_table[0][p[7]];
	}
	while (n--)
		crc = (crc >> 8) ^ crc_table[0][(crc ^ *p++) & 0xff];
	return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_hard(uint32_t crc, const unsigned char *p,
							     size_t n)
{
	uint64_t c = crc;

	for (; n >= 8; p += 8, n -= 8) {
		uint64_t v;

		memcpy(&v, p, 8);
		c = _mm_crc32_u64(c, v);
	}
	for (; n; p++, n--)
		c = _mm_crc32_u8((uint32_t)c, *p);
	return (uint32_t)c;
}

static uint32_t crc_raw(uint32_t crc, const unsigned char *p, size_t n)
{
	return __builtin_cpu_supports("sse4.2") ? crc_hard(crc, p, n) : crc_soft(crc, p, n);
}
#else
static uint32_t crc_raw(uint32_t crc, const unsigned char *p, size_t n)
{
	return crc_soft(crc, p, n);
}
#endif
#endif

uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
	return ~crc_raw(~crc, p, n);
}
