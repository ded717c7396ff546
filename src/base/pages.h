/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H
/*
 * Memory for buffers, in whole pages. What is given back is kept for the next taker, up to a bound:
 * the kernel clears every page that it hands out anew, and at a gigabyte a second those page
 * faults are most of what a write costs. Single pages come from slabs, since the general allocator needs
 * two pages for one that is aligned.
 */
#include <stddef.h>

#define PAGES_KEPT ((size_t)64 << 20)	/* bytes that wait for a taker at most, slabs aside */

/* Page-aligned, contents undefined; n is a multiple of 4096 and not 0. Passes the fault point "alloc". */
void *pages_take(size_t n);
void pages_give(void *p, size_t n);	/* the same n; NULL is fine */
/* Bytes held for nobody. */
size_t pages_idle(void);
/* Gives them back to the kernel. */
void pages_trim(void);
/* Holds at most n bytes for nobody from here on, slabs and all; PAGES_KEPT and more changes nothing. */
void pages_bound(size_t n);
#endif
