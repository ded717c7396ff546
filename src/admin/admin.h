/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H
/*
 * What tools do with a file system beside serving it: looking, checking, repairing, collecting.
 * Works while daemons have it mounted: nothing is held between two looks, and what a concurrent
 * change may explain is looked at again before it is called a finding.
 */
#include "base/text.h"
#include "io/io.h"
#include "meta/meta.h"
#include <stdio.h>
#include <tessera/tessera.h>

struct admin {
	struct meta *meta;			/* borrowed, as everything here */
	const struct io_target *targets;	/* may be none, where no object is looked at */
	unsigned    ntargets;
	struct io  *io;				/* gc only */
	const char *staging;
};

int admin_layout(struct admin *a, uint64_t ino, const char *path, enum tess_layout_format how,
		 FILE *out, struct text *why);
/* "class=S2,segment=4M,mapper=balanced"; what is not named stays. */
int admin_setlayout(struct admin *a, uint64_t ino, const char *spec, struct text *why);
int admin_df(struct admin *a, bool json, FILE *out, struct text *why);
int admin_fsck(struct admin *a, struct tess_fsck *f, struct text *why);
int admin_gc(struct admin *a, struct tess_gc *g, struct text *why);

struct admin_whose {
	unsigned    target;
	const char *object;
	int       (*fn)(void *arg, const struct tess_owner *);
	void       *arg;
};
int admin_whose(struct admin *a, const struct admin_whose *q, struct text *why);

/*
 * Needs no file system: where the credentials of a target URI come from, one line for each source, and
 * what a try to get them gave. Never a secret. The error when there are none.
 */
int admin_creds(const char *uri, bool json, FILE *out, struct text *why);

/* ---- shared by the files of this directory ---- */

struct store *admin_target(const struct admin *a, unsigned id);	/* NULL: no such target */
struct oclass_geo;
/* The geometry of a durable segment, checked. */
int admin_geo(const struct meta_segment *seg, struct oclass_geo *ret);
/* Bytes of the staging file of a segment; -ENOENT. */
int admin_staged_size(const struct admin *a, tess_segid id, uint64_t *ret);
/* Files and bytes in staging. */
int admin_staged_total(const struct admin *a, uint64_t *ret_files, uint64_t *ret_bytes);

/* Every object of one target, a page at a time; fn until non-zero, which is returned. */
int admin_objects(struct store *s, int (*fn)(void *arg, const char *name, uint64_t size), void *arg);

/* ---- fsck.c, fsck_objects.c ---- */
struct admin_check {
	struct admin    *a;
	struct tess_fsck *f;
	bool             first;		/* json: no comma before the next finding */
	bool             online;	/* others may change what we look at */
	uint64_t         unknown, unknown_bytes;	/* objects in no record */
};
void admin_finding(struct admin_check *c, const struct meta_finding *m);
int  admin_check_segments(struct admin_check *c);
int  admin_check_unknown(struct admin_check *c);
int  admin_check_stores(struct admin_check *c);	/* nobody else writes */
#endif
