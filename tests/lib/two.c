/* SPDX-License-Identifier: Apache-2.0 */
#include "two.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCS 64u

int two_start(struct two *t, const char *name, const char *options)
{
	const char *more = getenv("MNT_OPTIONS");
	char all[300];

	memset(t, 0, sizeof(*t));
	(void)snprintf(all, sizeof(all), "%s%s%s", options ? options : "rw", more && *more ? "," : "",
		       more ? more : "");
	mnt_init(&t->m[0], name);
	mnt_init(&t->m[1], "second");
	memcpy(t->m[1].fs, t->m[0].fs, sizeof(t->m[1].fs));
	if (mnt_mkfs(&t->m[0], NULL, NULL) || mnt_mount(&t->m[0], all) || mnt_mount(&t->m[1], all)) {
		printf("FAILED: %s: no two mounts\n", all);
		mnt_show_log(&t->m[0], 5);
		mnt_show_log(&t->m[1], 5);
		mnt_end(&t->m[1]);
		mnt_end(&t->m[0]);
		return -1;
	}
	return 0;
}

void two_wait(struct two *t)
{
	(void)pthread_barrier_wait(t->barrier);
}

struct shared {
	pthread_barrier_t barrier;
	unsigned long	  bad[PROCS];
};

static unsigned two_reap(pid_t *pids, unsigned n, unsigned seconds)
{
	unsigned left = n;

	for (unsigned ms = 0; left && ms < seconds * 1000; ms += 10) {
		for (unsigned p = 0; p < n; p++) {
			int status;

			if (pids[p] && waitpid(pids[p], &status, WNOHANG) == pids[p]) {
				pids[p] = 0;
				left -= WIFEXITED(status);
			}
		}
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	for (unsigned p = 0; p < n; p++)
		if (pids[p]) {
			printf("FAILED: process %u does not end\n", p);
			kill(pids[p], SIGKILL);
			waitpid(pids[p], NULL, 0);
		}
	return left;
}

unsigned long two_run(struct two *t, unsigned procs, unsigned seconds,
		      unsigned long (*work)(struct two *t, unsigned p, const char *dir))
{
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;
	unsigned long bad = 0;
	pid_t pids[PROCS];

	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&s->barrier, &attr, procs);
	t->barrier = &s->barrier;
	t->procs = procs;
	(void)fflush(NULL);
	for (unsigned p = 0; p < procs; p++) {
		pids[p] = fork();
		if (pids[p])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		s->bad[p] = work(t, p, t->m[p % 2].dir);
		(void)fflush(NULL);
		_exit(0);
	}
	bad += two_reap(pids, procs, seconds);
	for (unsigned p = 0; p < procs; p++)
		bad += s->bad[p];
	munmap(s, sizeof(*s));
	return bad;
}

int two_end(struct two *t)
{
	int err = mnt_umount(&t->m[1]);

	if (mnt_umount(&t->m[0]) || err || mnt_fsck(&t->m[0], true)) {
		printf("FAILED: umount or fsck\n");
		mnt_show_log(&t->m[0], 20);
		err = -1;
	}
	mnt_end(&t->m[1]);
	mnt_end(&t->m[0]);
	return err;
}
