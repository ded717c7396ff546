/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_TWO_H
#define TEST_TWO_H
/* One file system, two mounts, and processes spread over both. */
#include "mnt.h"

#include <pthread.h>

struct two {
	struct mnt	   m[2];
	pthread_barrier_t *barrier;	/* of all processes of two_run() */
	unsigned	   procs;
	unsigned long	   bad;
};

/* mkfs and both mounts; non-zero: said. MNT_OPTIONS are added to `options` (may be NULL). */
int two_start(struct two *t, const char *name, const char *options);
/*
 * `procs` processes, process p on mount p % 2. What they return is added up, and one that does not end
 * within `seconds` counts as well.
 */
unsigned long two_run(struct two *t, unsigned procs, unsigned seconds,
		      unsigned long (*work)(struct two *t, unsigned p, const char *dir));
void two_wait(struct two *t);		/* for the others of two_run() */
int two_end(struct two *t);		/* unmounts, fsck; non-zero: said */
#endif
