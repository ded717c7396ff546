/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ADMIN_BENCH_H
#define ADMIN_BENCH_H
/*
 * Sweeps of an object store: for each object size, number of ranks and mode, as many objects as fit
 * into a time are put, got and deleted.
 *
 * A rank is a thread or a process with names of its own. In mode sync it has one operation under
 * way at a time, in mode async a window of them.
 *
 * Source of shape and sizes: Kordenbrock, Templet, Ulmer, Widener, "Viability of S3 Object Storage
 * for the ASC Program at Sandia", SAND report, October 2022.
 */
#include "base/text.h"
#include <stdbool.h>
#include <stdint.h>

#define BENCH_RANKS_MAX 64u
#define BENCH_LIST_MAX	16u	/* rank counts of one sweep */
#define BENCH_SIZE_MAX	(UINT64_C(1) << 30)

enum bench_op { BENCH_PUT, BENCH_GET, BENCH_DELETE, BENCH_NOPS };
enum bench_mode { BENCH_SYNC, BENCH_ASYNC, BENCH_NMODES };

struct bench_conf {
	uint64_t min_size, max_size;	/* bytes; sizes double from the first to the last */
	uint64_t space;			/* bytes that the objects and buffers of a cell may take */
	uint64_t time;			/* ns for each op of a cell */
	unsigned depth;			/* window of async */
	unsigned repeat;		/* of the whole sweep; a row is the median one */
	unsigned ranks[BENCH_LIST_MAX], nranks;
	unsigned ops;			/* mask of 1 << enum bench_op: what is reported */
	unsigned modes;			/* mask of 1 << enum bench_mode */
	bool     verify;		/* compare what is got */
	bool     processes;		/* ranks are processes with a handle each */
	bool     drop_caches;		/* mount, root: empty the machine's page cache before reading */
	bool   (*stopped)(void *arg);	/* or NULL; polled: end early, clean up, -EINTR */
	/* Or NULL. Before each cell; `done` of `all` are behind. */
	void   (*progress)(void *arg, unsigned done, unsigned all, const char *cell);
	void    *arg;
};

struct bench_row {
	enum bench_op   op;
	enum bench_mode mode;
	unsigned        ranks;
	uint64_t        size;		/* of one object */
	uint64_t        ops, bytes;
	int64_t         ns;		/* from the first rank's start to the last one's end */
	int64_t         p50, p99;	/* ns of one operation */
};

struct bench_result {
	char             *name;		/* owned; what was measured, as the user wrote it */
	struct bench_row *rows;		/* owned */
	unsigned          n;
	unsigned          left_out;	/* cells that did not fit into `space` */
};
void bench_result_done(struct bench_result *r);

double bench_mib(const struct bench_row *r);	/* MiB/s */
double bench_rate(const struct bench_row *r);	/* operations a second */

/* "1,2,4": ascending order is not asked for. "put,get,delete" and so on: a mask. 0 or -EINVAL with `why`. */
int bench_parse_ranks(const char *list, struct bench_conf *conf, struct text *why);
int bench_parse_words(const char *list, const char *const *words, unsigned *ret_mask, struct text *why);
extern const char *const bench_op_names[], *const bench_mode_names[];	/* NULL-terminated */

/*
 * Sweeps a target, in a place of its own within it that is removed at the end, or the directory of a
 * mount. -EINTR: `ret` has what was measured before. It is to be freed after an error too.
 */
int bench_store(const char *uri, const struct bench_conf *conf, struct bench_result *ret,
		struct text *why);
int bench_mount(const char *dir, const struct bench_conf *conf, struct bench_result *ret,
		struct text *why);

void bench_table(const struct bench_result *r, struct text *out);
void bench_csv_head(struct text *out);
void bench_csv(const struct bench_result *r, struct text *out);
void bench_json(const struct bench_result *r, unsigned n, struct text *out);
void bench_svg(const struct bench_result *r, unsigned n, struct text *out);
#endif
