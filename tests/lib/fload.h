/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_FLOAD_H
#define TEST_FLOAD_H
/*
 * A load on a mounted file system that knows what every file may hold, for tests in which anything
 * may fail: a call returns an error, or it did what it says. One per process.
 */
#include "mnt.h"

extern unsigned fload_errors;	/* calls that failed so far */
extern unsigned fload_bad;	/* promises that were broken so far; each was told on stderr */

/* Makes the files, on a file system where none is. Non-zero: something failed. */
int  fload_init(struct mnt *m);
/* Begins the lines of broken promises. */
void fload_what(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void fload_broken(const char *a, const char *b);
/* Every kind of change once, then everything is read. */
void fload_run(void);
/* Everything is read; an error is a broken promise unless `may_fail`. */
void fload_look(bool may_fail);
/* Nothing is wrong any more: all is looked at, what failed is written again and looked at. */
void fload_mend(void);
/* A small change of two files, for faults that hit the unmount. */
void fload_touch(void);
#endif
