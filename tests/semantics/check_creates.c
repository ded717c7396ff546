/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 32 processes over two mounts make files in one directory: every name once, nobody is told that a name
 * is there which is not, and of those who want the same name one gets it. FILES=60000 for the proof.
 * layer: mount
 * cell: names
 */
#include "two.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PROCS 32u

static unsigned files;
static unsigned *won;	/* how many got each name that all want */

static int make(const char *path)
{
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);

	return fd < 0 ? -errno : close(fd);
}

static unsigned listed(const char *dir)
{
	unsigned n = 0;
	DIR *d = opendir(dir);

	for (struct dirent *e; d && (e = readdir(d)); )
		n += e->d_name[0] != '.';
	if (d)
		(void)closedir(d);
	return n;
}

/* Nine of ten names are a process's own; the tenth is everybody's. */
static unsigned long work(struct two *t, unsigned p, const char *dir)
{
	unsigned own = files / PROCS * 9 / 10, all = files / 10;
	unsigned long bad = 0;
	char path[600];

	if (!p) {
		(void)snprintf(path, sizeof(path), "%s/d", dir);
		bad += mkdir(path, 0777) != 0;
	}
	two_wait(t);
	for (unsigned i = 0; i < own && bad < 5; i++) {
		int err;

		(void)snprintf(path, sizeof(path), "%s/d/own.%u.%u", dir, p, i);
		err = make(path);
		if (err) {
			printf("FAILED: %s: %s\n", path, strerror(-err));
			bad++;
		}
	}
	for (unsigned i = p / 2 % 8; i < all && bad < 5; i += 8) {
		/* Four processes, two of each mount, come to each name at about the same time. */
		int err;

		(void)snprintf(path, sizeof(path), "%s/d/all.%u", dir, i);
		err = make(path);
		if (!err)
			__atomic_fetch_add(&won[i], 1, __ATOMIC_RELAXED);
		else if (err != -EEXIST)
			bad++;
	}
	two_wait(t);
	return bad;
}

int main(void)
{
	struct timespec a, b;
	unsigned long bad;
	unsigned n = 0, names = 0;
	double s;
	struct two t;
	char path[600];

	files = (unsigned)mnt_env("FILES", 6000);
	mnt_need();
	won = mmap(NULL, files * sizeof(*won), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (won == MAP_FAILED || two_start(&t, "creates", getenv("MODE")))
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &a);
	bad = two_run(&t, PROCS, 60 + files / 100, work);
	clock_gettime(CLOCK_MONOTONIC, &b);
	s = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
	for (unsigned i = 0; i < files; i++) {
		bad += won[i] > 1;
		names += won[i];
	}
	names += files / PROCS * 9 / 10 * PROCS;
	for (unsigned k = 0; k < 2; k++) {
		(void)snprintf(path, sizeof(path), "%s/d", t.m[k].dir);
		n = listed(path);
		if (n != names) {
			printf("FAILED: mount %u lists %u of %u names\n", k, n, names);
			bad++;
		}
	}
	printf("%u files in %.2f s: %.0f a second\n", n, s, n / s);
	bad += two_end(&t) != 0;
	printf("%d passed, %lu failed\n", bad ? 0 : 1, bad);
	return bad ? 1 : 0;
}
