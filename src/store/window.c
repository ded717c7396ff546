/* SPDX-License-Identifier: Apache-2.0 */
#include "store/window.h"

#include "base/err.h"

#include <string.h>

/* Mean latency of a round over the best: below it grows, above it shrinks, between it stays. */
#define GROW_BELOW   1.5
#define SHRINK_ABOVE 3.0
#define PROBE_ROUNDS 64u

void window_init(struct window *w, unsigned min, unsigned start, unsigned max)
{
	memset(w, 0, sizeof(*w));
	w->min = min;
	w->start = start;
	w->max = max;
	w->size = start;
}

static unsigned size_class(uint64_t bytes)
{
	unsigned n = 0;

	while (bytes >>= 1)
		n++;
	return MIN(n, WINDOW_SIZES - 1);
}

static void window_time(struct window *w, const struct store_op *op, double latency)
{
	bool body = op->code == STORE_PUT || op->code == STORE_GET;
	double *best = &w->best[op->code][size_class(body ? op->data.len : 0)];

	latency = MAX(latency, 1.0);
	if (*best == 0 || latency < *best)
		*best = latency;
	w->ratio += latency / *best;
	w->timed++;
}

static void window_set(struct window *w, double size)
{
	w->size = MAX((double)w->min, MIN((double)w->max, size));
}

static void window_probe(struct window *w)
{
	w->rounds = 0;
	w->resume = w->size;
	window_set(w, w->size / 4);
	memset(w->best, 0, sizeof(w->best));
}

/* A window that was not used up says nothing about a larger one. */
static void window_judge(struct window *w)
{
	double mean = w->timed ? w->ratio / w->timed : 0;

	if (w->resume > 0) {
		window_set(w, w->resume);
		w->resume = 0;
	} else if (!w->cut && w->timed && w->most >= window_size(w) &&
		   (mean < GROW_BELOW || w->size < w->start)) {
		window_set(w, w->size + 1);
	} else if (!w->cut && mean > SHRINK_ABOVE && w->size > w->start) {
		window_set(w, MAX(w->start, MIN(w->size - 1, w->size * MAX(0.8, SHRINK_ABOVE / mean))));
	}
	if (++w->rounds == PROBE_ROUNDS)
		window_probe(w);
}

static void window_round(struct window *w)
{
	window_judge(w);
	w->ratio = 0;
	w->timed = w->ended = w->most = 0;
	w->cut = false;
}

void window_ended(struct window *w, const struct store_op *op, int64_t latency, unsigned running)
{
	w->most = MAX(w->most, running);
	w->ended++;
	if (op->err == 0 || op->err == -ENOENT) {
		window_time(w, op, (double)latency);
	} else if (op->err == -TESS_E_STORE_BUSY && !w->cut) {
		window_set(w, w->size / 2);
		w->resume = 0;
		w->cut = true;
		w->ended = 1;
	}
	if (w->ended >= window_size(w))
		window_round(w);
}
