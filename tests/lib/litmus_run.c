/* SPDX-License-Identifier: Apache-2.0 */
/* Parties in lock step: a phase begins for all of them at once and ends when all have done their steps. */
#include "litmus.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HANG_S	 60
#define RESET	 0xffu
#define JITTER_NS 40000u

struct crew_shm {
	_Atomic uint32_t done, line, quit;
	_Atomic uint32_t order[LIT_PARTIES];
	uint32_t	 prog, phase, first, n;
	_Atomic uint32_t at[LIT_PARTIES];	/* the step a party is in, plus one */
	struct lit_obs	 obs[LIT_BATCH][LIT_STEPS];
};

struct lit_crew {
	const struct lit_prog *progs;
	enum lit_place	       place;
	const char	      *roots[2];
	const struct lit_env  *env;
	pid_t		       pids[LIT_PARTIES];
	unsigned	       npids;
	struct crew_shm	      *shm;
};

struct crew_arg {
	struct lit_crew *crew;
	unsigned	 who;
};

static long crew_futex(_Atomic uint32_t *at, int op, uint32_t value, const struct timespec *ts)
{
	return syscall(SYS_futex, at, op, value, ts, NULL, 0);
}

void lit_crew_dir(char *buf, size_t cap, const struct lit_prog *p, enum lit_place place, unsigned inst)
{
	(void)snprintf(buf, cap, "%s.%s/%u", p->name, lit_places[place], inst);
}

static unsigned crew_rand(unsigned *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	return *x ^= *x << 5;
}

/* Everybody of a race stands at the line, then each starts after a moment of its own. */
static void crew_line(struct crew_shm *shm, const struct lit_prog *p, unsigned phase, unsigned *x)
{
	unsigned all = 0, turn;
	int64_t until;

	for (unsigned i = 0, seen = 0; i < p->nsteps; i++)
		if (p->steps[i].phase == phase && !(seen & (1u << p->steps[i].party))) {
			seen |= 1u << p->steps[i].party;
			all++;
		}
	turn = atomic_fetch_add(&shm->line, 1) / all;
	while (atomic_load(&shm->line) < (turn + 1) * all)
		sched_yield();
	for (until = lit_now() + crew_rand(x) % JITTER_NS; lit_now() < until;)
		;
}

static void crew_phase(struct crew_shm *shm, struct lit_party *me, const struct lit_prog *p, unsigned phase,
		       enum lit_place place, unsigned slot)
{
	char dir[80];

	lit_crew_dir(dir, sizeof(dir), p, place, shm->first + slot);
	for (unsigned i = 0; i < p->nsteps; i++) {
		struct lit_obs *o = &shm->obs[slot][i];

		if (p->steps[i].phase != phase || p->steps[i].party != me->who)
			continue;
		if ((p->steps[i].op == OP_WAIT || p->steps[i].op == OP_PAUSE) && slot) {
			*o = shm->obs[0][i];
			o->t0 = o->t1;
			continue;
		}
		atomic_store(&shm->at[me->who], i + 1);
		o->t0 = lit_now();
		lit_do(me, &p->steps[i], dir, slot, o->text);
		o->t1 = lit_now();
		atomic_store(&shm->at[me->who], 0);
	}
}

static bool crew_mine(const struct lit_prog *p, unsigned phase, unsigned who)
{
	for (unsigned i = 0; i < p->nsteps; i++)
		if (p->steps[i].phase == phase && p->steps[i].party == who)
			return true;
	return false;
}

static void *crew_work(void *arg)
{
	struct crew_arg *a = arg;
	struct lit_crew *c = a->crew;
	struct crew_shm *shm = c->shm;
	struct lit_party me = { .who = a->who, .wait_ns = c->env->waits ? LIT_WAIT : 0,
				.flags = c->env->flags };
	unsigned x = 2463534242u + a->who * 7919u;

	me.root = c->roots[c->place == LIT_MOUNTS && a->who == 1];
	lit_party_init(&me);
	for (uint32_t seen = 0; !atomic_load(&shm->quit);) {
		const struct lit_prog *p;

		_Atomic uint32_t *order = &shm->order[me.who];

		crew_futex(order, FUTEX_WAIT, seen, NULL);
		if (atomic_load(order) == seen)
			continue;
		seen = atomic_load(order);
		p = &c->progs[shm->prog];
		for (unsigned slot = 0; slot < shm->n; slot++) {
			if (shm->phase == RESET) {
				lit_party_reset(&me, slot);
			} else {
				if (p->racing[shm->phase])
					crew_line(shm, p, shm->phase, &x);
				crew_phase(shm, &me, p, shm->phase, c->place, slot);
			}
		}
		atomic_fetch_add(&shm->done, 1);
		crew_futex(&shm->done, FUTEX_WAKE, INT_MAX, NULL);
	}
	return NULL;
}

static void crew_child(struct lit_crew *c, unsigned who)
{
	struct crew_arg args[LIT_PARTIES];
	pthread_t tids[LIT_PARTIES];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0; i < LIT_PARTIES; i++) {
		args[i] = (struct crew_arg){ .crew = c, .who = c->place == LIT_THREADS ? i : who };
		if (c->place != LIT_THREADS)
			(void)crew_work(&args[i]);
		else if (pthread_create(&tids[i], NULL, crew_work, &args[i]))
			_exit(1);
	}
	for (unsigned i = 0; i < LIT_PARTIES; i++)
		pthread_join(tids[i], NULL);
	_exit(0);
}

struct lit_crew *lit_crew_start(const struct lit_prog *progs, enum lit_place place,
				const char *const roots[2], const struct lit_env *env)
{
	struct lit_crew *c = calloc(1, sizeof(*c));

	c->progs = progs;
	c->place = place;
	c->roots[0] = roots[0];
	c->roots[1] = roots[1];
	c->env = env;
	c->npids = place == LIT_THREADS ? 1 : LIT_PARTIES;
	c->shm = mmap(NULL, sizeof(*c->shm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	(void)fflush(NULL);
	for (unsigned i = 0; i < c->npids; i++) {
		c->pids[i] = fork();
		if (!c->pids[i])
			crew_child(c, i);
	}
	return c;
}

static int crew_order(struct lit_crew *c, unsigned phase)
{
	struct timespec ts = { .tv_sec = 1 };
	uint32_t all = 0;

	c->shm->phase = phase;
	atomic_store(&c->shm->done, 0);
	atomic_store(&c->shm->line, 0);
	for (unsigned i = 0; i < LIT_PARTIES; i++) {
		if (phase != RESET && !crew_mine(&c->progs[c->shm->prog], phase, i))
			continue;
		all++;
		atomic_fetch_add(&c->shm->order[i], 1);
		crew_futex(&c->shm->order[i], FUTEX_WAKE, INT_MAX, NULL);
	}
	for (int s = 0; s < HANG_S;) {
		uint32_t done = atomic_load(&c->shm->done);

		if (done == all)
			return 0;
		if (crew_futex(&c->shm->done, FUTEX_WAIT, done, &ts) && errno == ETIMEDOUT)
			s++;
	}
	for (unsigned i = 0; i < LIT_PARTIES; i++)
		if (atomic_load(&c->shm->at[i]))
			fprintf(stderr, "%s.%s: %c hangs in step %u\n", c->progs[c->shm->prog].name,
				lit_places[c->place], 'A' + i, atomic_load(&c->shm->at[i]) - 1);
	return -ETIMEDOUT;
}

int lit_crew_run(struct lit_crew *c, const struct lit_prog *p, unsigned first, unsigned n)
{
	int err = 0;

	c->shm->prog = (uint32_t)(p - c->progs);
	c->shm->first = first;
	c->shm->n = n;
	memset(c->shm->obs, 0, sizeof(c->shm->obs));
	for (unsigned ph = 0; ph < p->nphases && !err; ph++)
		err = crew_order(c, ph);
	return err ? err : crew_order(c, RESET);
}

const struct lit_obs *lit_crew_obs(const struct lit_crew *c, unsigned slot)
{
	return c->shm->obs[slot];
}

void lit_crew_end(struct lit_crew *c)
{
	atomic_store(&c->shm->quit, 1);
	for (unsigned i = 0; i < c->npids; i++)
		kill(c->pids[i], SIGKILL);
	for (unsigned i = 0; i < c->npids; i++)
		waitpid(c->pids[i], NULL, 0);
	munmap(c->shm, sizeof(*c->shm));
	free(c);
}
