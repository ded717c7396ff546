/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CRC_H
#define BASE_CRC_H
/* CRC32C (Castagnoli, RFC 3720 appendix B.4). ISA-L where built with it, else SSE4.2, else a table. */
#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *p, size_t n);	/* start with 0; chainable */
#endif
