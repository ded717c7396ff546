/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_FMODEL_H
#define TEST_FMODEL_H
/*
 * What a file may hold after a crash, or after a write that failed.
 *
 * `base` is what the last returned fsync or close covered: it must be there. Every operation since
 * then may have been published or not, wholly or in part and in any order, so a byte is right when
 * it is the base's or that of any later operation over it. Data is never zero, and every byte of a
 * write follows from its seed and its offset: zeros and bytes of other files give themselves away.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fop_kind { FOP_WRITE, FOP_CUT, FOP_PUNCH };
struct fop {
	enum fop_kind kind;
	uint64_t      seed;
	size_t        off, len;	/* FOP_CUT: off is the new size */
};
struct fmodel {
	uint8_t    *base, *cur;		/* cur: as the application sees it now */
	size_t      base_size, size;	/* of cur */
	size_t      base_cap, cap;
	size_t      least, most;	/* sizes between the base and now */
	struct fop *op;
	unsigned    nop, op_cap;
};

void fm_fill(void *p, uint64_t seed, size_t off, size_t len);
void fm_done(struct fmodel *m);
void fm_write(struct fmodel *m, uint64_t seed, size_t off, size_t len);
void fm_cut(struct fmodel *m, size_t size);	/* truncates or extends */
void fm_punch(struct fmodel *m, size_t off, size_t len);	/* size kept */
void fm_synced(struct fmodel *m);	/* all so far is the base */
void fm_settle(struct fmodel *m, const void *p, size_t size);	/* what was found is the base */
/* NULL, or one line that says what is wrong (static per thread). */
const char *fm_check(const struct fmodel *m, const void *p, size_t size);
const char *fm_same(const struct fmodel *m, const void *p, size_t size);	/* exactly cur */

/* A small generator, so that a seed gives the same run everywhere. */
static inline uint64_t rnd(uint64_t *s)
{
	uint64_t z = *s += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}
static inline uint64_t rnd_below(uint64_t *s, uint64_t n)
{
	return rnd(s) % n;
}
#endif
