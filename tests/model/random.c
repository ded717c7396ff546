/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations on a mount, each compared with a reference in memory: results, errno,
 *attributes, bytes. Several processes, each with a directory of its own, and one file that all
 *write disjoint records of. Between phases the file system is mounted anew, or its daemon killed:
 *everything was closed, so everything must be there.
 *
 *	SEED=N		a failure prints it; process P's stream is SEED + P
 *	MODEL_OPS=N	operations of each process, 4,000
 *	MODEL_PROCS=N	3
 *	MODEL_BIG=N	largest file, 400,000
 *	MODEL_DIR=DIR	no mount: the same on DIR, to test the reference
 *	MODEL_OPTIONS=LIST	of the mount
 */
#include "../lib/drive.h"
#include "../lib/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCS_MAX 16
#define RECORDS	  64
#define RECORD	  5003u /* no multiple of anything */

static struct shared {
	atomic_uint phase, arrived, failed;
	atomic_bool quit;
} * shm;
static struct mnt mnt;
static const char *dir, *plain;
static unsigned long seed, ops, procs;
static pid_t proc[PROCS_MAX];

static void nap(void)
{
	struct timespec t = {0, 1000000};

	nanosleep(&t, NULL);
}

/* ---- a child ---- */

struct records {
	uint64_t seed[RECORDS]; /* 0: never written */
	unsigned p;
};

static off_t record_at(const struct records *r, unsigned i)
{
	return (off_t)((i * procs + r->p) * RECORD);
}

static int check_record(struct drive *d, const struct records *r, int fd, unsigned i)
{
	uint8_t want[RECORD], got[RECORD];

	if (!r->seed[i])
		return 0;
	fm_fill(want, r->seed[i], 0, RECORD);
	if (pread(fd, got, RECORD, record_at(r, i)) != RECORD || memcmp(want, got, RECORD))
		return dr_fail(d, "record %u of the shared file, at %lld, is wrong", i,
			       (long long)record_at(r, i));
	return 0;
}

static int records_step(struct drive *d, struct records *r, int fd)
{
	unsigned i = (unsigned)rnd_below(&d->rng, RECORDS);
	uint8_t buf[RECORD];

	if (rnd_below(&d->rng, 3)) {
		r->seed[i] = d->serial++;
		fm_fill(buf, r->seed[i], 0, RECORD);
		dr_note(d, "write of shared record %u", i);
		if (pwrite(fd, buf, RECORD, record_at(r, i)) != RECORD)
			return dr_fail(d, "write of the shared file: %s", strerror(errno));
	}
	return check_record(d, r, fd, i);
}

static int run_phase(struct drive *d, struct records *r, unsigned long n)
{
	char path[600];
	int err = drive_check_all(d), fd;

	snprintf(path, sizeof(path), "%s/shared", dir);
	fd = open(path, O_RDWR | O_CREAT, 0644);
	if (fd < 0)
		return dr_fail(d, "open of the shared file: %s", strerror(errno));
	for (unsigned i = 0; i < RECORDS && !err; i++)
		err = check_record(d, r, fd, i);
	while (n-- && !err) {
		err = drive_step(d);
		if (!err && n % 8 == 0)
			err = records_step(d, r, fd);
	}
	if (close(fd) && !err)
		err = dr_fail(d, "close of the shared file: %s", strerror(errno));
	return err ? err : drive_close_all(d);
}

static void child(unsigned p, unsigned phases)
{
	static struct drive d;
	struct records r = {.p = p};
	char base[600];

	snprintf(base, sizeof(base), "%s/p%u", dir, p);
	umask(0);
	if (mkdir(base, 0755)) {
		perror(base);
		shm->failed++;
	}
	drive_init(&d, base, seed + p);
	d.big = mnt_env("MODEL_BIG", 400000);
	d.direct = !getenv("MODEL_NO_DIRECT");
	d.root->uid = getuid();
	d.root->gid = getgid();
	for (unsigned k = 1; k <= phases + 1 && !shm->quit; k++) {
		while (shm->phase < k && !shm->quit)
			nap();
		/* The last one only looks. */
		if (!shm->quit && run_phase(&d, &r, k > phases ? 0 : ops / phases))
			shm->failed++;
		shm->arrived++;
	}
	while (!shm->quit)
		nap();
	drive_done(&d);
	_exit(0);
}

/* ---- the parent ---- */

static int gather(void)
{
	unsigned long limit = 1000 * mnt_env("MODEL_TIMEOUT", 170);

	for (unsigned long i = 0; shm->arrived < procs; i++) {
		for (unsigned p = 0; p < procs; p++)
			if (shm->failed || i > limit ||
			    waitpid(proc[p], NULL, WNOHANG) == proc[p]) {
				if (!plain)
					mnt_stacks(&mnt);
				return shm->failed
					       ? 1
					       : (fprintf(stderr, "a process died or hangs\n"), 1);
			}
		nap();
	}
	shm->arrived = 0;
	return shm->failed != 0;
}

static int again(unsigned k)
{
	if (plain)
		return 0;
	if (k % 2 == 0)
		return mnt_remount(&mnt, getenv("MODEL_OPTIONS"));
	mnt_kill(&mnt);
	return mnt_mount(&mnt, getenv("MODEL_OPTIONS"));
}

static int run(unsigned phases)
{
	int failed = 0;

	for (unsigned p = 0; p < procs; p++) {
		proc[p] = fork();
		if (!proc[p])
			child(p, phases);
	}
	for (unsigned k = 0; k <= phases && !failed; k++) {
		shm->phase++;
		failed = gather();
		if (!failed && k < phases)
			failed = again(k);
	}
	shm->quit = true;
	for (unsigned p = 0; p < procs; p++) {
		if (failed)
			kill(proc[p], SIGKILL);
		waitpid(proc[p], NULL, 0);
	}
	if (plain || failed)
		return failed;
	return mnt_umount(&mnt) || mnt_fsck(&mnt, true);
}

int main(void)
{
	int failed;

	plain = getenv("MODEL_DIR");
	seed = mnt_env("SEED", (unsigned long)time(NULL) % 1000000 * 100);
	ops = mnt_env("MODEL_OPS", 4000);
	procs = mnt_env("MODEL_PROCS", 3);
	if (procs > PROCS_MAX)
		procs = PROCS_MAX;
	if (!plain) {
		mnt_need();
		mnt_init(&mnt, "model");
		if (mnt_mkfs(&mnt, NULL, NULL) || mnt_mount(&mnt, getenv("MODEL_OPTIONS")))
			return 1;
	}
	dir = plain ? plain : mnt.dir;
	shm = mmap(NULL, sizeof(*shm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shm == MAP_FAILED)
		return 1;
	failed = run((unsigned)mnt_env("MODEL_PHASES", 4));
	if (!plain) {
		if (failed)
			mnt_show_log(&mnt, 40);
		mnt_end(&mnt);
	}
	printf("SEED=%lu, %lu operations\n%lu passed, %d failed\n", seed, ops * procs,
	       failed ? 0 : procs, failed);
	return failed;
}
