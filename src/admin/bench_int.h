/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ADMIN_BENCH_INT_H
#define ADMIN_BENCH_INT_H
/*
 * What the files of the sweep share. bench_sweep.c says which phase comes next and collects, a port
 * (bench_store.c, bench_mount.c) runs one phase of one rank.
 *
 * Everything here lies in memory that ranks which are processes share with the one that started them.
 * A phase and its answer travel over a socket pair, so that the fields of a rank are its own between
 * the two, and the caller's at other times.
 */
#include "admin/bench.h"
#include "base/lock.h"
#include "base/req.h"
#include <stdatomic.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Latencies by magnitude, 32 steps to a power of two: 3 %. */
#define BENCH_HIST_STEPS   32u
#define BENCH_HIST_BUCKETS (BENCH_HIST_STEPS * 38u)
struct bench_hist {
	uint64_t n;
	uint32_t bucket[BENCH_HIST_BUCKETS];
};
void bench_hist_add(struct bench_hist *h, int64_t ns);
void bench_hist_merge(struct bench_hist *to, const struct bench_hist *from);
/* Smallest latency that `part` of all do not exceed, rounded up to its bucket's end; 0 when empty. */
int64_t bench_hist_at(const struct bench_hist *h, double part);
/* Index of the median by rate; of an even number the slower one. */
unsigned bench_median(const struct bench_row *runs, unsigned n);

enum bench_step { BENCH_OPEN, BENCH_RUN, BENCH_QUIT };
struct bench_phase {
	enum bench_step step;
	enum bench_op   op;
	enum bench_mode mode;
	uint64_t        size;
	uint64_t        count;		/* put: objects at most */
	unsigned        window;
	int64_t         time;		/* ns; a delete takes as long as it takes */
	bool            clean;		/* goes on although the sweep is to stop */
};

struct bench;
struct bench_rank {
	struct bench      *b;
	unsigned           id;
	int                fd, peer;	/* the rank's end of its socket pair, and ours */
	pthread_t          thread;
	pid_t              pid;
	bool               running;
	void              *priv;	/* the port's */
	struct bench_phase phase;
	struct lock        lock;
	/* Under the lock while a phase runs. */
	uint64_t           base, have;	/* objects [base, base + have) of this rank may exist */
	uint64_t           next;
	int64_t            start, end, deadline;
	uint64_t           ops, bytes;
	int                err;
	char               why[256];	/* with err */
	struct bench_hist  hist;
};

struct bench_port {
	int  (*open)(struct bench_rank *r);	/* in the rank; 0 or negative */
	void (*run)(struct bench_rank *r);	/* one phase */
	void (*close)(struct bench_rank *r);
	void (*cold)(struct bench *b);		/* before a get; may be NULL */
};

struct bench {
	const struct bench_conf *conf;
	const struct bench_port *port;
	uint64_t                 max_size;	/* what the store allows, and conf */
	char                    *body;		/* shared, max_size bytes, the same for all objects but a stamp */
	size_t                   body_len;
	atomic_bool              stop;
	bool                     processes;
	bool                     given;		/* the ranks' ends are closed here */
	uint32_t                 salt;		/* in object names */
	void                    *priv;		/* the port's */
	unsigned                 nranks;
	struct bench_rank        ranks[];
};

/* Shared memory and socket pairs for the most ranks of `conf`; with conf->processes they are started here. */
int  bench_new(struct bench **ret, const struct bench_conf *conf, const struct bench_port *port,
	       void *priv);
/* The rest: body and, unless they run, ranks. Then the sweep. */
int  bench_sweep(struct bench *b, struct bench_result *ret, struct text *why);
void bench_free(struct bench *b);	/* ends the ranks; NULL is fine */

/* ---- for ports ---- */
/* Starts the clock of a phase: when all that it needs is at hand. */
void bench_start(struct bench_rank *r);
/* The next object to work on; false: the phase is over. */
bool bench_next(struct bench_rank *r, uint64_t *ret_index);
void bench_count(struct bench_rank *r, int64_t ns);		/* one operation succeeded */
void bench_fail(struct bench_rank *r, int err, const char *name);/* the first one counts */
void bench_end(struct bench_rank *r);				/* stops the clock */
void bench_object_name(const struct bench_rank *r, uint64_t index, char *ret, size_t cap);

/*
 * Contents: pages that all objects share, but for a stamp at the beginning which no two have alike, so
 * that a mixed-up, cut or shifted object is noticed at the price of a memcmp(). Filling `iov` (2 slots)
 * for writing takes a page of the caller's for the stamped beginning.
 */
#define BENCH_PAGE 4096u
unsigned bench_fill(const struct bench_rank *r, uint64_t index, char *page, struct iovec *iov);
bool bench_check(const struct bench_rank *r, uint64_t index, const char *data);
#endif
