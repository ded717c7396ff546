/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCHTEST_H
#define WATCHTEST_H
/* One mount whose kernel is the test, and beside it another session that is nothing but the namespace. */
#include "base/clock.h"
#include "fs/state.h"
#include "meta/meta_impl.h"
#include "store/store.h"
#include <check.h>

#define WT_TOLD_MAX 256u

struct watchtest {
	struct meta *meta, *other;
	struct store *store;
	struct io_target target;
	struct budget *budget;
	struct io *io;
	struct fs *fs;
	struct tess_req req;
	char dir[200], rescued[240];
	/* What the kernel was told. */
	struct lock lock;
	struct cond cond;
	struct {
		uint64_t ino;
		bool data;
		char name[32];
		int64_t off, len;
	} told[WT_TOLD_MAX];
	unsigned ntold;
	atomic_bool block, blocked;
	atomic_uint done, names;
	atomic_bool cannot;	/* forget all names at once */
};
extern struct watchtest wt;

#define SOON(cond)                                               \
	do {                                                     \
		for (int i_ = 0; i_ < 2000 && !(cond); i_++)     \
			clock_sleep(5 * NS_PER_MS);              \
		ck_assert(cond);                                 \
	} while (0)

void wt_setup(void);
void wt_teardown(void);		/* checks the namespace */
void wt_join(void);		/* the other session begins, and the mount knows */
void wt_leave(void);
void wt_other_knows_all(void);	/* as the other's own watch would say */
struct fs_name wt_name(const char *n);	/* in the root */
struct fs_file *wt_create(const char *n, struct meta_attr *a);	/* open to read and write */
#endif
