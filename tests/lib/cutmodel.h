/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CUTMODEL_H
#define TEST_CUTMODEL_H
/*
 * A random but repeatable load in a directory of its own, and what it leaves. Step n follows from
 * the seed and what the steps before made, so whoever knows the seed can go over the same load
 * again, without a file system.
 *
 * A step has two moments: cm_data() when its bytes may begin to reach the file, cm_commit() when it
 * returned. What a power cut leaves is what was committed by some step k, and of later bytes those
 * of step k + 1 in any part.
 */
#include "fmodel.h"

#include <stdbool.h>
#include <stdint.h>

#define CM_SLOTS 14u /* names of files; the odd ones in a subdirectory */
#define CM_DIRS	 3u  /* made and removed, always empty */

enum cm_op {
	CM_BASE,
	CM_SUB,
	CM_WRITE,
	CM_CUT,
	CM_PUNCH,
	CM_FSYNC,
	CM_CLOSE,
	CM_CREATE,
	CM_RENAME,
	CM_UNLINK,
	CM_LINK,
	CM_MKDIR,
	CM_RMDIR,
	CM_FSYNCDIR,
	CM_SYNC_ALL,
	CM_GC,
	CM_END, /* everything closed, and durable */
};
struct cm_file {
	struct fmodel m;
	unsigned names, id;
	bool open, osync;
	void *handle; /* the driver's */
};
struct cm {
	uint64_t seed, n; /* n steps were committed */
	unsigned nfiles;
	bool base, sub, ended;
	bool dir[CM_DIRS];
	struct cm_file *slot[CM_SLOTS];
};
struct cm_step {
	enum cm_op op;
	unsigned a, b; /* slots, or a: a directory */
	bool osync;    /* how the file is opened if it is not */
	bool sync;     /* when it returns, all that was committed before is durable */
	uint64_t seed;
	size_t off, len;
};

void cm_init(struct cm *c, uint64_t seed);
void cm_done(struct cm *c);
struct cm_step cm_next(const struct cm *c);
struct cm_step cm_last(void); /* CM_END, which no cm_next() gives */
void cm_data(struct cm *c, const struct cm_step *s);
/* *ret_gone: a file without a name, its model already freed; its handle is the driver's to close. */
void cm_commit(struct cm *c, const struct cm_step *s, void **ret_gone);
const char *cm_op_name(enum cm_op op);
#endif
