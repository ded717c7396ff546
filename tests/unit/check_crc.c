/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc.h"

#include "base/htab.h"
#include "unit.h"
#include <string.h>

/* The build's own choice is linked; the paths of a build without ISA-L are compiled in here. */
#undef HAVE_ISAL
uint32_t crc32c_plain(uint32_t crc, const void *p, size_t n);
#define crc32c crc32c_plain
#include "base/crc.c"
#undef crc32c

/* Bit by bit from the definition: independent of every fast path. */
static uint32_t reference(uint32_t crc, const unsigned char *p, size_t n)
{
	crc = ~crc;
	while (n--) {
		crc ^= *p++;
		for (int i = 0; i < 8; i++)
			crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

START_TEST(test_known_vectors)
{
	unsigned char b[32];

	ck_assert_uint_eq(crc32c(0, "", 0), 0);
	ck_assert_uint_eq(crc32c(0, "123456789", 9), 0xe3069283);
	memset(b, 0, sizeof(b));	/* RFC 3720, B.4 */
	ck_assert_uint_eq(crc32c(0, b, sizeof(b)), 0x8a9136aa);
	memset(b, 0xff, sizeof(b));
	ck_assert_uint_eq(crc32c(0, b, sizeof(b)), 0x62a8ab43);
	for (unsigned i = 0; i < sizeof(b); i++)
		b[i] = (unsigned char)i;
	ck_assert_uint_eq(crc32c(0, b, sizeof(b)), 0x46dd794e);
}
END_TEST

START_TEST(test_any_length_alignment_and_cut_agree_with_the_definition)
{
	static unsigned char b[6000];
	uint64_t rnd = 1;

	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (unsigned char)(rnd = hash64(rnd + 0x9e3779b97f4a7c15));
	for (int i = 0; i < 400; i++) {
		size_t off = (rnd = hash64(rnd + 1)) % 16, n = (rnd >> 8) % (i < 200 ? 64 : 5900);
		size_t cut = n ? (rnd >> 32) % n : 0;
		uint32_t want = reference(0, b + off, n);

		ck_assert_uint_eq(crc32c(0, b + off, n), want);
		ck_assert_uint_eq(crc32c_plain(0, b + off, n), want);
		ck_assert_uint_eq(~crc_soft(~0u, b + off, n), want);
		ck_assert_uint_eq(crc32c(crc32c(0, b + off, cut), b + off + cut, n - cut), want);
	}
}
END_TEST

UNIT_MAIN("crc", test_known_vectors, test_any_length_alignment_and_cut_agree_with_the_definition)
