/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_BUF_H
#define BASE_BUF_H
/*
 * Reference-counted, page-aligned data buffers, charged to the memory budget, and walking of
 * scattered memory. A buffer's bytes may be shared by dirty ranges, an object PUT, the cache and a
 * FUSE reply at once, so that a byte is copied once on its way in and never on its way out.
 */
#include "base/budget.h"
#include <stdatomic.h>
#include <tessera/types.h>

struct buf {
	atomic_uint    refs;
	enum mem_use   use;
	struct budget *budget;	/* borrowed; NULL: not charged */
	size_t         cap;	/* multiple of 4096 */
	char          *data;	/* page-aligned */
};
/* One reference, the caller's. NULL when out of memory. The budget is charged, never waited for. */
struct buf *buf_new(struct budget *b, enum mem_use use, size_t cap);
struct buf *buf_ref(struct buf *b);
void buf_unref(struct buf *b);		/* NULL is fine */

/* Copies between flat memory and iov[skip, skip + n); returns bytes copied, less only at the end of iov. */
size_t iov_copy_out(void *dst, const struct tess_iov *src, uint64_t skip, size_t n);
size_t iov_copy_in(const struct tess_iov *dst, uint64_t skip, const void *src, size_t n);
size_t iov_zero(const struct tess_iov *dst, uint64_t skip, size_t n);
/* Fills `ret` (caller's array, *nret slots) with the part [skip, skip + n) of src; sets *nret. -E2BIG when too many. */
int iov_slice(const struct tess_iov *src, uint64_t skip, uint64_t n, struct iovec *ret, unsigned *nret);
#endif
