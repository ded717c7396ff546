/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CUT_STATE_H
#define TEST_CUT_STATE_H
/*
 * What the disk may hold after a power cut, given a log of what was done (cutlog.h).
 *
 * Bytes: what a returned fsync, fdatasync or syncfs covered, or a write through O_DSYNC put, is
 * there. Of everything later each 512-byte sector holds what it held after any one of the writes
 * to it, or none, independently of its neighbours and of other files. A file that grew since has any
 * of the sizes between, the rest of it zeros. Shrinking is never overtaken by later writes to the
 * same file.
 *
 * Names: making, renaming and removing is there after an fsync of the directory. As on ext4 and XFS,
 * an fsync or fdatasync of a file also makes the name it then has durable, with the directories
 * above; in a strict state it does not, as POSIX has it. Of later changes each is there or not, but
 * in order where they concern the same name, and not without the directory they are in.
 *
 * A file that was mapped for shared writing holds anything.
 */
#include "cutlog.h"

#include <stdbool.h>
#include <stddef.h>

struct cut_event {
	const struct cut_rec *r;
	const char *path, *path2;
	const void *data;
	/* of one choice: */
	bool durable, kept, torn;
};
struct cut_log {
	struct cut_event *e;
	size_t n;
	const char *map;
	size_t bytes;
	size_t ready; /* cuts before this one are rare: the first mark, where the work begins */
};

enum cut_strategy {
	CUT_NONE,    /* nothing that was not synced */
	CUT_ALL,
	CUT_HALF,    /* each with an even chance */
	CUT_TORN,    /* each sector with an even chance */
	CUT_OLDEST,  /* all up to some moment */
	CUT_NEWEST,  /* all after some moment */
	CUT_BUT_ONE, /* all but one */
	CUT_ONE,     /* one only */
	CUT_NSTRATEGIES
};
struct cut_choice {
	size_t at; /* events [0, at) were begun */
	uint64_t seed;
	enum cut_strategy data, names;
	bool sizes;	/* a file that grew has any size between */
	bool strict;	/* names are durable by their directory's fsync only */
	bool in_flight; /* the last write did not return, so it is not durable */
};

void cut_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
const char *cut_strategy_name(enum cut_strategy s);
void cut_load(struct cut_log *l, const char *path);
void cut_choose(const struct cut_log *l, uint64_t seed, uint64_t n, struct cut_choice *ret);
void cut_build(struct cut_log *l, const struct cut_choice *c, const char *dir);
void cut_marks(const struct cut_log *l, const struct cut_choice *c, const char *path);
#endif
