/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IOTEST_H
#define IOTEST_H
/* A whole data path in a directory of its own: namespace, targets, staging, and files by number. */
#include "io/io.h"
#include <stddef.h>

#define IOTEST_TARGETS 2u

struct iotest {
	bool            lmdb;		/* the namespace; else in memory */
	const char     *uri;		/* of every target: "mem:", "kv:@?size=64M" ("@": a file of its own) */
	const char     *cls;		/* "S1" */
	uint32_t        segment;
	uint64_t        limit;		/* of the budget */
	unsigned        tiers[IOTEST_TARGETS];	/* enum io_tier */
	struct io_conf  conf;		/* what iotest_open() passes; fields of the host are filled in */
	char            dir[64];
	struct kv      *kv;
	struct meta    *meta;
	struct budget  *budget;
	struct store   *store[IOTEST_TARGETS];
	struct io      *io;
	struct tess_req req;
	bool            formatted;
};

/* Defaults: everything in memory, S1, segments of 64 KiB, 64 MiB of memory. Change fields before iotest_open(). */
void iotest_init(struct iotest *t);
void iotest_open(struct iotest *t);	/* aborts the test on any error */
int  iotest_close(struct iotest *t, bool drain);	/* io; with lmdb also namespace and targets, when on disk */
void iotest_done(struct iotest *t);	/* everything, and the directory */
/* The file "fN", made when it is not there. */
struct io_file *iotest_file(struct iotest *t, unsigned n);
uint64_t iotest_ino(struct iotest *t, unsigned n);
uint64_t iotest_counter(struct iotest *t, const char *name);
unsigned iotest_objects(struct iotest *t);	/* on all targets */
unsigned iotest_staging(struct iotest *t);	/* files in staging */
/* Runs the namespace's own check: findings other than garbage, printed. */
int  iotest_check(struct iotest *t);

/* Bytes that tell `what` they are and where they stand. */
void iotest_fill(void *p, size_t n, unsigned what);
char *iotest_bytes(size_t n, unsigned what);	/* malloc()ed */
void iotest_write(struct iotest *t, struct io_file *f, uint64_t off, size_t n, unsigned what);
void iotest_expect(struct iotest *t, struct io_file *f, uint64_t off, size_t n, unsigned what);
int  iotest_publish(struct iotest *t, struct io_file *f);
/* The file "fN" whole, of bytes that tell n. */
void iotest_put_small(struct iotest *t, unsigned n, size_t size);
void iotest_expect_small(struct iotest *t, unsigned n, size_t size);
/* Waits for something that a background thread does, for as long as a test may take. */
void iotest_until_zero(struct iotest *t, unsigned (*fn)(struct iotest *));
#endif
