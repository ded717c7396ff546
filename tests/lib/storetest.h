/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORETEST_H
#define STORETEST_H
/* What the tests of stores share: a store in a directory of its own, and objects that tell their name. */
#include "store/store.h"
#include <stddef.h>

struct storetest {
	struct store   *s;
	struct tess_req req;
	char            dir[64];	/* removed by storetest_done() */
	char           *uri;		/* "@" of the template replaced by dir */
};

/*
 * Makes the directory. Aborts the test on any error. The place of a URI with "//" gets a name of its own
 * appended, so that tests share a bucket and not its objects.
 */
void storetest_init(struct storetest *t, const char *uri_template);
void storetest_done(struct storetest *t);	/* closes, removes everything, on a server too */
/* `boot`: NULL or another boot id, to play a power cut. */
void storetest_open(struct storetest *t, bool create, const char *boot);
int  storetest_try(struct storetest *t, bool create, const char *boot, char **ret_why);
void storetest_close(struct storetest *t);

/* Bytes [off, off + n) of the object `name`. */
void storetest_fill(void *p, size_t n, const char *name, uint64_t off);
bool storetest_same(const void *p, size_t n, const char *name, uint64_t off);
int  storetest_put(struct storetest *t, const char *name, size_t n);
/* 0: there, with that size and those bytes; negative: the store's error; 1: wrong. */
int  storetest_verify(struct storetest *t, const char *name, size_t n);
/* Defects that store_check() finds; printed. */
int  storetest_defects(struct storetest *t);
bool storetest_remote(const struct storetest *t);
/* Objects there, by listing all of them; deletes them too when asked. */
uint64_t storetest_objects(struct storetest *t, bool del);
#endif
