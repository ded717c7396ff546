/* SPDX-License-Identifier: Apache-2.0 */
#ifndef METATEST_H
#define METATEST_H
/* A fresh namespace on either engine, and short names for what tests of it do. */
#include "meta/meta.h"

#include <check.h>
#include <stdbool.h>

extern struct meta *mt;	 /* the namespace under test */
extern char mt_dir[256]; /* of the LMDB engine */

void mt_open(int engine);  /* 0: memory, 1: LMDB; formatted, with a session */
void mt_close(void);	   /* ends the other sessions, checks everything, then closes and removes */
int mt_check(bool repair); /* number of findings; printed when not repairing */
void mt_rnd_seed(uint64_t seed);
uint64_t mt_rnd(uint64_t n); /* [0, n) */

#define NOW INT64_C(1000)
/* Sessions of one process over the one engine: the first is mt's, and closes it. */
#define MT_SESSIONS 3u
extern struct meta *mt_s[MT_SESSIONS]; /* NULL: has never joined */
void mt_join(unsigned s);
void mt_leave(unsigned s); /* may join again */
void mt_leave_others(void);
bool mt_in(unsigned s);
bool mt_alone(void); /* nobody but the first is in */

uint64_t mt_make(uint64_t dir, const char *name, uint32_t mode); /* aborts the test on failure */
int mt_try_make(uint64_t dir, const char *name, uint32_t mode);
uint64_t mt_find(uint64_t dir, const char *name); /* 0: not there */
struct meta_attr mt_attr(uint64_t ino);
int mt_unlink(uint64_t dir, const char *name, struct meta_gone *gone);
int mt_rmdir(uint64_t dir, const char *name);
int mt_rename(uint64_t from_dir, const char *from, uint64_t to_dir, const char *to, unsigned flags);
void mt_reclaim_all(void);
/* Publishes extents of one durable segment made for them. */
int mt_publish(uint64_t ino, uint64_t off, uint64_t len, tess_segid *ret_seg);
#endif
