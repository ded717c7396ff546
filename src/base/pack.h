/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PACK_H
#define BASE_PACK_H
/* Integers in bytes of either order, at any address: what is on disk is the same on every machine. */
#include <endian.h>
#include <stdint.h>
#include <string.h>

#define PACK_DEFINE(bits, order, to, from)                                                         \
	static inline void put_##order##bits(void *p, uint##bits##_t x)                            \
	{                                                                                          \
		x = to(x);                                                                         \
		memcpy(p, &x, sizeof(x));                                                          \
	}                                                                                          \
	static inline uint##bits##_t get_##order##bits(const void *p)                              \
	{                                                                                          \
		uint##bits##_t x;                                                                  \
		memcpy(&x, p, sizeof(x));                                                          \
		return from(x);                                                                    \
	}
PACK_DEFINE(16, le, htole16, le16toh)
PACK_DEFINE(32, le, htole32, le32toh)
PACK_DEFINE(64, le, htole64, le64toh)
PACK_DEFINE(32, be, htobe32, be32toh)
PACK_DEFINE(64, be, htobe64, be64toh)
#undef PACK_DEFINE
#endif
