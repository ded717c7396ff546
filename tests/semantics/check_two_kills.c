/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of two mounts is killed or stopped under load, again and again. The other goes on, what was
 * closed, synced or renamed is there, a lock of the dead one is free at once and one of a stopped one
 * when its lease is over, and not before. ROUNDS=500 for the proof; STOPS=0 only kills.
 * layer: mount
 * cell: killed locks fencing
 */
#include "two.h"
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WRITERS 4u	/* 0, 1: on the mount that goes on; 2, 3: on the other */
#define LEASE_MS 1000
#define OPTIONS	 "lease=1s"
/* A machine that is busy sees the end of a lease late. */
#define SLACK_MS 8000

/* A step is odd while the victim's writers write and even while they verify. */
static struct shared {
	atomic_uint step, arrived, failed;
	atomic_bool quit;
	atomic_ulong ops;	/* of the survivors */
} *shm;
static struct two t;
static uint64_t seed;
static bool stops;
static pid_t kids[WRITERS];

static void nap(unsigned ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L }, NULL);
}

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void await(unsigned step)
{
	while (shm->step < step && !shm->quit)
		nap(1);
}

static void survivor(struct writer *w)
{
	while (!shm->quit && !writer_step(w))
		shm->ops++;
	if (!shm->quit) {
		fprintf(stderr, "writer %u, on the mount that was left alone, got an error\n", w->id);
		shm->failed++;
		return;
	}
	writer_stop(w, true);
	if (w->failed || writer_verify(w))
		shm->failed++;
}

static void victim(struct writer *w)
{
	for (unsigned step = 1; !w->failed; step += 2) {
		await(step);
		if (shm->quit)
			break;
		while (!writer_step(w))
			;
		writer_stop(w, false);
		shm->failed += w->failed;
		shm->arrived++;
		await(step + 1);
		if (shm->quit)
			break;
		if (!w->failed && writer_verify(w))
			shm->failed++;
		shm->arrived++;
	}
}

static void child(unsigned id)
{
	static struct writer w;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	writer_init(&w, t.m[id / 2].dir, id, WRITERS, seed);
	if (id < 2)
		survivor(&w);
	else
		victim(&w);
	_exit(0);
}

static int fail(unsigned round, const char *what)
{
	printf("FAILED: round %u, SEED=%llu: %s\n", round, (unsigned long long)seed, what);
	return 1;
}

static int gather(unsigned round, const char *what)
{
	for (unsigned i = 0; shm->arrived < WRITERS / 2; i++) {
		if (i > 120 * 1000)
			return fail(round, what);
		nap(1);
	}
	shm->arrived = 0;
	return shm->failed ? fail(round, "a promise is broken") : 0;
}

/* A process that has a lock through the mount that is to die. */
static pid_t holder(void)
{
	char path[600];
	int ready[2];
	pid_t pid;

	(void)snprintf(path, sizeof(path), "%s/lock", t.m[1].dir);
	if (pipe(ready))
		return -1;
	pid = fork();
	if (!pid) {
		int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0666);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)!write(ready[1], fd >= 0 && !flock(fd, LOCK_EX) ? "y" : "n", 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], path, 1) != 1 || path[0] != 'y') {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		pid = -1;
	}
	close(ready[0]);
	return pid;
}

/* How many ms it takes to get the lock, at most `most`; -1: not within. */
static long take(long most)
{
	char path[600];
	long t0 = now_ms();
	int fd, rc = -1;

	(void)snprintf(path, sizeof(path), "%s/lock", t.m[0].dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	do {
		rc = fd < 0 ? -1 : flock(fd, LOCK_EX | LOCK_NB);
		if (rc && errno != EWOULDBLOCK) {
			perror(path);
			break;
		}
	} while (rc && (nap(5), now_ms() - t0 < most));
	if (fd >= 0)
		close(fd);
	return rc ? -1 : now_ms() - t0;
}

/* The survivors do something within `ms`. */
static int goes_on(unsigned round, long ms, const char *what)
{
	unsigned long before = shm->ops;

	for (long t0 = now_ms(); shm->ops < before + 3; nap(2))
		if (now_ms() - t0 > ms)
			return fail(round, what);
	return 0;
}

/* Shorter than its lease: nothing happens but a pause, and its locks hold. */
static int pause_round(unsigned round)
{
	long t0 = now_ms();
	int bad;

	kill(t.m[1].pid, SIGSTOP);
	bad = take(LEASE_MS / 4) >= 0 && now_ms() - t0 < LEASE_MS / 2;
	kill(t.m[1].pid, SIGCONT);
	return bad ? fail(round, "a lock was lost within its lease") :
		     goes_on(round, SLACK_MS, "nothing goes on after a pause");
}

static int kill_round(unsigned round, bool stop)
{
	long got;
	int bad;

	if (stop)
		kill(t.m[1].pid, SIGSTOP);
	else
		mnt_kill(&t.m[1]);
	bad = goes_on(round, LEASE_MS + SLACK_MS, "the other mount does not go on");
	if (bad)
		mnt_stacks(&t.m[0]);
	got = bad ? 0 : take(LEASE_MS + SLACK_MS);
	mnt_kill(&t.m[1]);
	return bad ? 1 : got < 0 ? fail(round, "a lock outlives its lease") : 0;
}

static int one_round(unsigned round, uint64_t *rng)
{
	pid_t lock = holder();
	int bad;

	if (lock < 0)
		return fail(round, "no lock to begin with");
	shm->step++;
	nap(20 + (unsigned)rnd_below(rng, 300));
	bad = stops && round % 4 == 1 ? pause_round(round) : 0;
	bad = bad || kill_round(round, stops && round % 2);
	kill(lock, SIGKILL);
	if (bad || gather(round, "writers hang after their mount was killed"))
		return 1;
	waitpid(lock, NULL, 0);
	if (mnt_mount(&t.m[1], OPTIONS))
		return fail(round, "mounting over a dead mount");
	if (round % 4 == 3 && mnt_fsck(&t.m[1], false))
		return fail(round, "fsck");
	shm->step++;
	return gather(round, "verifying hangs");
}

int main(void)
{
	unsigned long rounds = mnt_env("ROUNDS", 10), r = 0;
	int failed = 0;
	uint64_t rng;

	seed = mnt_env("SEED", (unsigned long)time(NULL) ^ (unsigned long)getpid() << 20);
	rng = seed;
	stops = mnt_env("STOPS", 1);
	mnt_need();
	shm = mmap(NULL, sizeof(*shm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shm == MAP_FAILED || two_start(&t, "kills", OPTIONS))
		return 1;
	(void)fflush(NULL);
	for (unsigned i = 0; i < WRITERS; i++) {
		kids[i] = fork();
		if (!kids[i])
			child(i);
	}
	for (; r < rounds && !failed; r++)
		failed = one_round((unsigned)r, &rng);
	shm->quit = true;
	for (unsigned i = 0; i < WRITERS; i++) {
		if (failed)
			kill(kids[i], SIGKILL);
		waitpid(kids[i], NULL, 0);
	}
	if (!failed && shm->failed)
		failed = fail((unsigned)r, "at the end a promise is broken");
	if (failed) {
		mnt_show_log(&t.m[0], 15);
		mnt_show_log(&t.m[1], 15);
	}
	if (two_end(&t) && !failed)
		failed = 1;
	printf("%lu operations of the survivors, SEED=%llu\n%lu passed, %d failed\n", (unsigned long)shm->ops,
	       (unsigned long long)seed, failed ? r - 1 : r, failed);
	return failed;
}
