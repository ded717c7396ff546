/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H
/*
 * Atomic words that processes of one host share, in a file that each of them maps. After a power cut
 * they are zero or of any time before; who needs more keeps it elsewhere. Room for them is allocated
 * when the file is made: a full disk fails the opening, and, where the file system writes in place, no
 * access afterwards.
 */
#include <stdatomic.h>
#include <stdint.h>

struct text;

typedef _Atomic(uint64_t) shared_word;

/* `n` words of DIR/NAME, made at need, all zero at first. `why`, when not NULL, gets one line for the user. */
int  words_open(shared_word **ret, const char *dir, const char *name, uint32_t n, struct text *why);
void words_close(shared_word *w, uint32_t n);	/* NULL: nothing */
#endif
