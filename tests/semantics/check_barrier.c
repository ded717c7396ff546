/* SPDX-License-Identifier: Apache-2.0 */
/*
 * close; barrier; open between two mounts: who opens sees what was closed, whether the file is new,
 * cut and written again, written in place, or of another size. ROUNDS=100000 for the proof.
 * layer: mount
 * cell: close names size
 */
#include "two.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX 9000u

static unsigned long rounds;

/* Every fourth round the file is another one; sizes of the others change or stay. */
static void what(unsigned long r, char *name, size_t cap, size_t *size, int *flags)
{
	unsigned kind = (unsigned)(r % 4);

	(void)snprintf(name, cap, kind == 3 ? "new.%lu" : "file", r);
	*size = kind == 0 ? 100 : kind == 1 ? 100 + r % (MAX - 100) : kind == 2 ? 4096 : 64;
	*flags = O_WRONLY | O_CREAT | (kind == 3 ? O_EXCL : kind == 0 ? 0 : O_TRUNC);
}

static void fill(char *b, size_t n, unsigned long r)
{
	for (size_t i = 0; i < n; i += sizeof(r))
		memcpy(b + i, &r, n - i < sizeof(r) ? n - i : sizeof(r));
}

static int put(const char *path, size_t n, int flags, unsigned long r)
{
	char b[MAX];
	int fd = open(path, flags | O_CLOEXEC, 0666);

	fill(b, n, r);
	if (fd < 0 || write(fd, b, n) != (ssize_t)n || close(fd)) {
		perror(path);
		return 1;
	}
	return 0;
}

static int look(const char *path, size_t n, unsigned long r)
{
	char b[MAX + 1], want[MAX];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st = { 0 };
	ssize_t got = -1;

	fill(want, n, r);
	/* Looked at first: what stat brought into the kernel must be right as well. */
	if (fd < 0 || ((r & 4) && fstat(fd, &st)) || (got = pread(fd, b, sizeof(b), 0)) < 0)
		perror(path);
	if (fd >= 0)
		close(fd);
	/* A file that is written in place keeps the rest of what it had. */
	if (got < (ssize_t)n || memcmp(b, want, n) || ((r & 4) && st.st_size != got) ||
	    (r % 4 && got != (ssize_t)n)) {
		unsigned long first = 0, last = 0;

		memcpy(&first, b, got < (ssize_t)sizeof(first) ? 0 : sizeof(first));
		memcpy(&last, b + (got < (ssize_t)sizeof(last) ? 0 : (got - 8) / 8 * 8), sizeof(last));
		printf("FAILED: round %lu: %s is stale: %zd bytes, not %zu, stat %lld; of round %lu, at "
		       "the end of %lu\n",
		       r, path, got, n, (long long)st.st_size, first, last);
		return 1;
	}
	return 0;
}

static unsigned long work(struct two *t, unsigned p, const char *dir)
{
	unsigned long bad = 0;
	size_t root = strlen(dir) + 1;
	char path[600];

	(void)snprintf(path, sizeof(path), "%s/", dir);
	for (unsigned long r = 0; r < rounds && bad < 10; r++) {
		size_t n;
		int flags;

		what(r, path + root, sizeof(path) - root, &n, &flags);
		/* Both write in turn, three times each, so that either has old pages of its own. */
		if (r / 3 % 2 == p)
			bad += (unsigned long)put(path, n, flags, r);
		two_wait(t);
		if (r / 3 % 2 != p) {
			bad += (unsigned long)look(path, n, r);
			if (r % 4 == 3)
				(void)unlink(path);
		}
		two_wait(t);
	}
	return bad;
}

int main(void)
{
	struct timespec a, b;
	unsigned long bad;
	struct two t;

	rounds = mnt_env("ROUNDS", 2000);
	mnt_need();
	if (two_start(&t, "barrier", getenv("MODE")))
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &a);
	bad = two_run(&t, 2, 60 + (unsigned)rounds / 100, work);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%lu rounds of close, barrier, open in %.1f s\n", rounds,
	       (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
	bad += two_end(&t) != 0;
	printf("%d passed, %lu failed\n", bad ? 0 : 1, bad);
	return bad ? 1 : 0;
}
