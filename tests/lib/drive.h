/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_DRIVE_H
#define TEST_DRIVE_H
/* Random operations on a directory and on the reference, compared one by one. */
#include "fmodel.h"
#include "ref.h"

#define DR_HANDLES 8
#define DR_LAST 30

struct dr_handle {
	int              fd;	/* -1: free */
	struct ref_node *node;
	bool             append, direct;
};
struct drive {
	const char      *base;		/* directory of its own, made by the caller */
	uint64_t         seed, rng, serial;
	unsigned long    step;
	size_t           big;		/* largest file */
	bool             direct;	/* O_DIRECT too */
	struct ref_node *root;
	struct dr_handle handle[DR_HANDLES];
	char             last[DR_LAST][200];
	unsigned         nlast;
};

void drive_init(struct drive *d, const char *base, uint64_t seed);
int  drive_step(struct drive *d);	/* one operation; non-zero: they differ, said on stderr */
int  drive_check_all(struct drive *d);	/* every name, attribute and byte */
int  drive_close_all(struct drive *d);	/* handles; and syncs what was written through mappings */
void drive_done(struct drive *d);

/* between its files */
int  dr_fail(struct drive *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dr_note(struct drive *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* `got`: 0 or errno. Non-zero when that is not `want`. */
int  dr_expect(struct drive *d, int want, int got);
void dr_some_path(struct drive *d, struct ref_path *ret);
int  dr_names_step(struct drive *d);
int  dr_data_step(struct drive *d);
int  dr_check_stat(struct drive *d, struct ref_node *n, const char *path, int fd);
int  dr_check_data(struct drive *d, struct ref_node *n, int fd);
int  dr_open(struct drive *d);
#endif
