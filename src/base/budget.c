/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/lock.h"
#include "base/pages.h"
#include "base/scoped.h"
#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>

#define BUDGET_MAX (UINT64_C(4) << 30)
#define BUDGET_MIN (UINT64_C(64) << 20)

struct budget {
	uint64_t             limit;
	atomic_uint_fast64_t used[MEM_NUSES];
	atomic_uint          waiters;
	struct lock          lock;
	struct cond          freed;
	void               (*reclaim)(void *, uint64_t want);
	void               (*kick)(void *);
	void                *arg;
};

/* A number in a file, or UINT64_MAX when there is none ("max", no such file). */
static uint64_t budget_read(const char *path)
{
	scoped_file FILE *f = fopen(path, "re");
	unsigned long long v;

	return f && fscanf(f, "%llu", &v) == 1 ? v : UINT64_MAX;
}

/* The least limit on the way from our cgroup to the root: each of them binds. */
static uint64_t budget_cgroup_walk(const char *root, char *path, const char *file)
{
	uint64_t least = UINT64_MAX;

	for (;;) {
		char name[2 * PATH_MAX];
		char *slash;

		snprintf(name, sizeof(name), "%s%s/%s", root, path, file);
		least = MIN(least, budget_read(name));
		slash = strrchr(path, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

static uint64_t budget_cgroup(void)
{
	scoped_file FILE *f = fopen("/proc/self/cgroup", "re");
	uint64_t least = UINT64_MAX;
	char line[PATH_MAX];

	while (f && fgets(line, sizeof(line), f)) {
		char *ctl = strchr(line, ':'), *path = ctl ? strchr(ctl + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (!strcmp(ctl, ":"))
			least = MIN(least, budget_cgroup_walk("/sys/fs/cgroup", path, "memory.max"));
		else if (strstr(ctl, "memory"))
			least = MIN(least, budget_cgroup_walk("/sys/fs/cgroup/memory", path,
							      "memory.limit_in_bytes"));
	}
	return least;
}

static uint64_t budget_default(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	uint64_t all = budget_cgroup();

	if (pages > 0 && size > 0)
		all = MIN(all, (uint64_t)pages * (uint64_t)size);
	return MAX(MIN(all / 4, BUDGET_MAX), BUDGET_MIN);
}

/*
 * What was freed and is kept for the next taker is nobody's, but memory all the same: a small budget
 * keeps little. The general allocator keeps by arena, and makes one for each of its first threads.
 */
static void budget_bound_idle(uint64_t limit)
{
	uint64_t arenas = limit / (UINT64_C(32) << 20);

	pages_bound((size_t)MIN(limit / 4, (uint64_t)SIZE_MAX));
	(void)mallopt(M_ARENA_MAX, (int)MAX(MIN(arenas, UINT64_C(64)), UINT64_C(1)));
	/* Said once, it also ends that each freed block raises the size up to which blocks are kept. */
	(void)mallopt(M_TRIM_THRESHOLD, (int)MIN(limit / 16, UINT64_C(32) << 20));
}

int budget_new(struct budget **ret, uint64_t limit)
{
	struct budget *b = mem_zalloc(sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->limit = limit ? limit : budget_default();
	lock_init(&b->lock, LOCK_BUDGET, "budget");
	cond_init(&b->freed);
	budget_bound_idle(b->limit);
	*ret = b;
	return 0;
}

void budget_free(struct budget *b)
{
	if (!b)
		return;
	cond_done(&b->freed);
	lock_done(&b->lock);
	free(b);
}

uint64_t budget_limit(const struct budget *b)
{
	return b->limit;
}

uint64_t budget_used(const struct budget *b, enum mem_use use)
{
	return atomic_load(&b->used[use]);
}

void budget_charge(struct budget *b, enum mem_use use, uint64_t n)
{
	atomic_fetch_add(&b->used[use], n);
}

/*
 * Sequentially consistent on purpose: a waiter counts itself and then looks at `used`, this lowers
 * `used` and then looks for waiters; one of the two sees the other.
 */
void budget_credit(struct budget *b, enum mem_use use, uint64_t n)
{
	atomic_fetch_sub(&b->used[use], n);
	if (!atomic_load(&b->waiters))
		return;
	lock_take(&b->lock);
	cond_wake_all(&b->freed);
	lock_drop(&b->lock);
}

static uint64_t budget_total(const struct budget *b)
{
	uint64_t sum = 0;

	for (int i = 0; i < MEM_NUSES; i++)
		sum += atomic_load(&b->used[i]);
	return sum;
}

bool budget_over(const struct budget *b, enum mem_use use)
{
	switch (use) {
	case MEM_DIRTY:
		return budget_used(b, use) > b->limit / 2;
	case MEM_IO:
		return budget_used(b, use) > b->limit / 4;
	default:
		return budget_total(b) > b->limit;
	}
}

void budget_set_reclaim(struct budget *b, void (*reclaim)(void *, uint64_t want), void (*kick)(void *),
			void *arg)
{
	b->reclaim = reclaim;
	b->kick = kick;
	b->arg = arg;
}

/* One wait of at most a moment: the flusher is asked again should it have missed the first kick. */
static void budget_pause(struct budget *b, int64_t deadline)
{
	int64_t until = MIN(deadline, clock_now() + 100 * NS_PER_MS);

	scoped_lock(&b->lock);
	atomic_fetch_add(&b->waiters, 1);
	if (budget_over(b, MEM_DIRTY))
		cond_wait_until(&b->freed, &b->lock, until);
	atomic_fetch_sub(&b->waiters, 1);
}

int budget_wait_dirty(struct budget *b, const struct tess_req *req, int64_t deadline)
{
	uint64_t total = budget_total(b);

	if (total > b->limit && b->reclaim)
		b->reclaim(b->arg, total - b->limit);
	while (budget_over(b, MEM_DIRTY)) {
		if (req && atomic_load(&req->cancelled))
			return -EINTR;
		if (clock_now() >= deadline)
			return -ETIMEDOUT;
		if (b->kick)
			b->kick(b->arg);
		budget_pause(b, deadline);
	}
	return 0;
}
