/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "base/htab.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

static atomic_int_fast64_t clock_fake_now = -1, clock_fake_wall = -1;

static int64_t clock_read(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t clock_now(void)
{
	int64_t fake = atomic_load_explicit(&clock_fake_now, memory_order_relaxed);

	return fake >= 0 ? fake : clock_read(CLOCK_MONOTONIC);
}

int64_t clock_now_coarse(void)
{
	int64_t fake = atomic_load_explicit(&clock_fake_now, memory_order_relaxed);

	return fake >= 0 ? fake : clock_read(CLOCK_MONOTONIC_COARSE);
}

int64_t clock_wall(void)
{
	int64_t fake = atomic_load_explicit(&clock_fake_wall, memory_order_relaxed);

	return fake >= 0 ? fake : clock_read(CLOCK_REALTIME);
}

int64_t clock_wall_coarse(void)
{
	int64_t fake = atomic_load_explicit(&clock_fake_wall, memory_order_relaxed);

	return fake >= 0 ? fake : clock_read(CLOCK_REALTIME_COARSE);
}

void clock_fake(int64_t now, int64_t wall)
{
	atomic_store(&clock_fake_now, now);
	atomic_store(&clock_fake_wall, wall);
}

void clock_sleep(int64_t ns)
{
	struct timespec ts;

	if (ns <= 0)
		return;
	/* A test that replaced the clocks moves them by sleeping, and does not wait. */
	if (atomic_load(&clock_fake_now) >= 0) {
		atomic_fetch_add(&clock_fake_now, ns);
		if (atomic_load(&clock_fake_wall) >= 0)
			atomic_fetch_add(&clock_fake_wall, ns);
		return;
	}
	ts = (struct timespec){ .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts))
		;
}

static uint64_t clock_random(void)
{
	static _Thread_local uint64_t state;

	/* Jitter only has to differ between threads and hosts; the address is the thread's own. */
	if (!state)
		state = hash64((uint64_t)clock_read(CLOCK_REALTIME) ^ (uintptr_t)&state) | 1;
	state += UINT64_C(0x9e3779b97f4a7c15);
	return hash64(state);
}

int64_t clock_backoff(unsigned attempt, int64_t base, int64_t cap)
{
	int64_t top = base;

	if (base <= 0 || cap <= 0)
		return 0;
	if (attempt >= 62 || base > (cap >> attempt))
		top = cap;
	else
		top = base << attempt;
	if (top > cap)
		top = cap;
	return (int64_t)(clock_random() % ((uint64_t)top + 1));
}
