/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills the daemon again and again under load; each time the next mount must heal by itself, fsck
 * must be clean, and everything that fsync, close or rename had returned for must be there.
 *
 *	killloop		TESSERA, TESS_TMP as tests/run sets them
 *	ROUNDS=25 SEED=time	a failure prints both
 *	CRASH_DIR=DIR		no daemon: the same load on DIR, to test the test
 *
 * The writers (threads of child processes) outlive the daemon, so what they remember is the log:
 * nothing of it is kept on the mount. A writer owns its directory; one file is shared by all.
 */
#include "../lib/fmodel.h"
#include "../lib/mnt.h"
#include "../lib/writer.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCS	2
#define THREADS 2
#define WRITERS (PROCS * THREADS)

/* A step is odd while writers write and even while they verify. */
static struct shared {
	atomic_uint step, arrived, failed;
	atomic_bool stop, quit;
	atomic_ulong ops;
} * shm;
static struct mnt mnt;
static const char *dir, *plain;
static uint64_t seed;
static pid_t proc[PROCS];

static void nap(unsigned us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&t, NULL);
}

/* ---- children ---- */

static void await(unsigned step)
{
	while (shm->step < step && !shm->quit)
		nap(300);
}

static void *write_and_verify(void *arg)
{
	struct writer *w = arg;
	unsigned step = 1;

	for (;; step += 2) {
		await(step);
		if (shm->quit)
			break;
		while (!shm->stop && !writer_step(w))
			shm->ops++;
		writer_stop(w, plain);
		if (w->failed)
			shm->failed++;
		shm->arrived++;
		await(step + 1);
		if (shm->quit)
			break;
		if (!w->failed && writer_verify(w))
			shm->failed++;
		shm->arrived++;
	}
	writer_done(w);
	return NULL;
}

static void child(unsigned p)
{
	static struct writer w[THREADS];
	pthread_t t[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		unsigned id = p * THREADS + i;

		writer_init(&w[i], dir, id, WRITERS, seed);
		if (pthread_create(&t[i], NULL, write_and_verify, &w[i]))
			_exit(1);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	_exit(0);
}

/* ---- the parent ---- */

static int fail(unsigned round, const char *what)
{
	fprintf(stderr, "round %u, SEED=%llu: %s\n", round, (unsigned long long)seed, what);
	if (!plain) {
		mnt_stacks(&mnt);
		mnt_show_log(&mnt, 30);
	}
	return 1;
}

static int gather(unsigned round, const char *what)
{
	for (unsigned i = 0; shm->arrived < WRITERS; i++) {
		for (unsigned p = 0; p < PROCS; p++)
			if (waitpid(proc[p], NULL, WNOHANG) == proc[p])
				return fail(round, "a writer died");
		if (i > 120 * 1000)
			return fail(round, what);
		nap(1000);
	}
	shm->arrived = 0;
	return shm->failed ? fail(round, "a promise is broken") : 0;
}

/* Points at which the order of the steps matters; one that the product does not have never hits. */
static const char *const points[] = {
	"env.commit",	"env.sync",	   "env.meta",	       "kv.commit",	"kv.put",
	"store.put",	"store.del",	   "store.kv.write",   "store.kv.sync", "store.kv.header",
	"io.flush.put", "io.flush.commit", "io.flush.committed", "io.sync",	"stage.append",
	"stage.seal.put", "stage.seal.commit", "gc.delete",
};

static void die(unsigned round, uint64_t *rng)
{
	char cmd[80];

	/* Early, to meet recovery and first writes; late, to meet the sealer and the checkpoint. */
	nap(20000 + rnd_below(rng, round % 4 ? 900000 : 2500000));
	if (plain) {
		shm->stop = true;
		return;
	}
	if (round % 3 == 0) {
		snprintf(cmd, sizeof(cmd), "faults %s@%u=kill",
			 points[rnd_below(rng, sizeof(points) / sizeof(points[0]))],
			 (unsigned)(1 + rnd_below(rng, 60)));
		if (!mnt_control(&mnt, cmd, NULL, 0))
			mnt_wait_dead(&mnt, 1000);
	}
	mnt_kill(&mnt);
}

static int heal(unsigned round, uint64_t *rng)
{
	char options[80];

	if (plain) {
		shm->stop = false;
		return 0;
	}
	if (round % 2 && mnt_fsck(&mnt, false))
		return fail(round, "fsck before the mount");
	/* Recovery may be killed as well. */
	if (round % 5 == 4) {
		snprintf(options, sizeof(options), "faults=%s@%u=kill",
			 points[rnd_below(rng, sizeof(points) / sizeof(points[0]))],
			 (unsigned)(1 + rnd_below(rng, 5)));
		if (!mnt_mount(&mnt, options))
			mnt_wait_dead(&mnt, 200);
		mnt_kill(&mnt);
	}
	if (mnt_mount(&mnt, getenv("CRASH_OPTIONS")))
		return fail(round, "mounting over a dead mount");
	if (round % 2 == 0 && mnt_fsck(&mnt, false))
		return fail(round, "fsck after the mount");
	return 0;
}

static int one_round(unsigned round, uint64_t *rng)
{
	shm->step++;
	die(round, rng);
	if (gather(round, "writers hang after the daemon was killed") || heal(round, rng))
		return 1;
	shm->step++;
	return gather(round, "verifying hangs");
}

/* The same for an unmount that nobody forced. */
static int clean_round(unsigned round)
{
	shm->stop = true;
	shm->step++;
	if (gather(round, "writers do not stop"))
		return 1;
	if (!plain && mnt_remount(&mnt, NULL))
		return fail(round, "a clean unmount and mount");
	shm->step++;
	return gather(round, "verifying hangs");
}

static int finish(unsigned rounds)
{
	if (plain)
		return 0;
	if (mnt_umount(&mnt))
		return fail(rounds, "the last unmount");
	if (mnt_fsck(&mnt, true))
		return fail(rounds, "the last fsck");
	if (mnt_tessera(&mnt, "gc", mnt.fs, NULL))
		return fail(rounds, "gc");
	return 0;
}

int main(void)
{
	unsigned long rounds = mnt_env("ROUNDS", 25), r = 0;
	int failed = 0;
	uint64_t rng;

	plain = getenv("CRASH_DIR");
	seed = mnt_env("SEED", (unsigned long)time(NULL) ^ (unsigned long)getpid() << 20);
	rng = seed;
	if (!plain) {
		mnt_need();
		mnt_init(&mnt, "kill");
		if (mnt_mkfs(&mnt, NULL, NULL) || mnt_mount(&mnt, getenv("CRASH_OPTIONS")))
			return fail(0, "mkfs and mount");
	}
	dir = plain ? plain : mnt.dir;
	shm = mmap(NULL, sizeof(*shm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shm == MAP_FAILED)
		return 1;
	for (unsigned p = 0; p < PROCS; p++) {
		proc[p] = fork();
		if (!proc[p])
			child(p);
	}
	for (r = 0; r < rounds && !failed; r++)
		failed = one_round((unsigned)r, &rng);
	failed = failed || clean_round((unsigned)r);
	shm->quit = true;
	for (unsigned p = 0; p < PROCS; p++) {
		if (failed)
			kill(proc[p], SIGKILL);
		waitpid(proc[p], NULL, 0);
	}
	if (!failed)
		failed = finish((unsigned)rounds);
	if (!plain)
		mnt_end(&mnt);
	printf("%lu operations, SEED=%llu\n%lu passed, %d failed\n", (unsigned long)shm->ops,
	       (unsigned long long)seed, failed ? r - 1 : r, failed);
	return failed;
}
