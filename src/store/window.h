/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_WINDOW_H
#define STORE_WINDOW_H
/*
 * How many requests a service is worth sending at a time. Pure: told of each request that ended, no
 * clock, no lock; the caller serialises.
 *
 * From `start` on it grows by one a round while latency holds, as in TCP Vegas (Brakmo and Peterson, "TCP Vegas:
 * End to End Congestion Avoidance on a Global Internet", IEEE JSAC 13(8), 1995): more requests that
 * only wait longer are not throughput. A round is as many answers as fit the window. When the service
 * says to slow down (-TESS_E_STORE_BUSY) the window halves, at most once a round, since all that
 * were sent at one time are refused together. Latency alone never takes it below `start`: on a busy
 * client the tail of its own scheduling looks like a slow service.
 *
 * Latencies are compared with the best one of their kind: same request, same size within a factor
 * of two. Every 64 rounds the best ones are measured anew, with a quarter of the window for one
 * round: a best that merely faded would take a standing queue for the service's own time, and grow.
 */
#include "store/store.h"

#define WINDOW_SIZES 32u

struct window {
	unsigned min, start, max;	/* const */
	double   size;		/* min .. max */
	double   ratio;		/* sum over the round: latency / best of its kind */
	unsigned timed, ended;	/* of the round */
	unsigned most;		/* in flight during the round */
	bool     cut;		/* halved in this round already */
	unsigned rounds;	/* since the last probe */
	double   resume;	/* size after the probe; 0: no probe */
	double   best[STORE_NCODES][WINDOW_SIZES];	/* ns; 0: none yet */
};

void window_init(struct window *w, unsigned min, unsigned start, unsigned max);
/* A request ended; `running` were in flight with it. `bytes`: of its body. */
void window_ended(struct window *w, const struct store_op *op, int64_t latency, unsigned running);
static inline unsigned window_size(const struct window *w)
{
	return (unsigned)w->size;
}
#endif
