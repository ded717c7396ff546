/* SPDX-License-Identifier: Apache-2.0 */
/* layer: base */
/*
 * What IOR calls hard and easy: processes that write records of 47,008 bytes, in turns into one
 * file, or each into a file of its own; then read back what another wrote, and compare.
 *
 *	strided [-p PROCESSES] [-n RECORDS_A_PROCESS] [-s BYTES] [-e] [-R] [-m write|read] DIR
 *
 * -e: easy, a file per process. -R: contents are not compared (a null file system has none).
 * -m: only write, and leave the files; only read, and remove them. In between, caches can be emptied.
 * Prints "write N" and "read N" in MiB/s, from the first process that starts to the last that ends;
 * an fsync and the close are part of writing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct job {
	unsigned long procs, records, bytes;
	int easy, no_verify, write, read;
	const char *dir;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int die(const char *what)
{
	fprintf(stderr, "strided: %s: %s\n", what, strerror(errno));
	return -1;
}

static int open_file(const struct job *j, unsigned long rank, int flags)
{
	char path[4096];

	if (j->easy)
		snprintf(path, sizeof(path), "%s/easy.%lu", j->dir, rank);
	else
		snprintf(path, sizeof(path), "%s/hard", j->dir);
	return open(path, flags, 0644);
}

static off_t place(const struct job *j, unsigned long rank, unsigned long i)
{
	return (off_t)((j->easy ? i : i * j->procs + rank) * j->bytes);
}

/* 8-byte words that say whose record and which word: any mix-up shows. */
static void fill(const struct job *j, unsigned long rank, unsigned long i, char *p)
{
	for (unsigned long k = 0; k < j->bytes; k++)
		p[k] = (char)(rank * 131 + i * 17 + (k >> 3) * 5 + (k >> 11));
}

static int write_rank(const struct job *j, unsigned long rank, char *a, char *b)
{
	int fd = open_file(j, rank, O_CREAT | O_WRONLY);

	(void)b;
	if (fd < 0)
		return die("open");
	for (unsigned long i = 0; i < j->records; i++) {
		fill(j, rank, i, a);
		if (pwrite(fd, a, j->bytes, place(j, rank, i)) != (ssize_t)j->bytes)
			return die("write");
	}
	if (fsync(fd) < 0)
		return die("fsync");
	return close(fd) < 0 ? die("close") : 0;
}

static int read_rank(const struct job *j, unsigned long me, char *a, char *b)
{
	unsigned long rank = (me + 1) % j->procs;
	int fd = open_file(j, rank, O_RDONLY);

	if (fd < 0)
		return die("open");
	for (unsigned long i = 0; i < j->records; i++) {
		if (pread(fd, b, j->bytes, place(j, rank, i)) != (ssize_t)j->bytes)
			return die("read");
		if (j->no_verify)
			continue;
		fill(j, rank, i, a);
		if (memcmp(a, b, j->bytes) != 0) {
			errno = EIO;
			fprintf(stderr, "strided: record %lu of rank %lu differs\n", i, rank);
			return die("compare");
		}
	}
	close(fd);
	return 0;
}

static int phase(const struct job *j, const char *name,
		 int (*one)(const struct job *, unsigned long, char *, char *))
{
	double t = now();
	int bad = 0, status;

	fflush(stdout);
	for (unsigned long r = 0; r < j->procs; r++) {
		pid_t pid = fork();

		if (pid < 0)
			return die("fork");
		if (pid == 0) {
			char *a = malloc(j->bytes), *b = malloc(j->bytes);

			_exit(!a || !b || one(j, r, a, b) < 0);
		}
	}
	while (wait(&status) > 0)
		bad |= status != 0;
	if (bad)
		return -1;
	printf("%s %.1f\n", name,
	       (double)(j->procs * j->records * j->bytes) / (now() - t) / 1048576);
	return 0;
}

static void clean(const struct job *j)
{
	char path[4096];

	for (unsigned long r = 0; j->easy && r < j->procs; r++) {
		snprintf(path, sizeof(path), "%s/easy.%lu", j->dir, r);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/hard", j->dir);
	if (!j->easy)
		unlink(path);
}

static int run(const struct job *j)
{
	if (j->write && phase(j, "write", write_rank) < 0)
		return -1;
	return j->read ? phase(j, "read", read_rank) : 0;
}

int main(int argc, char **argv)
{
	struct job j = { .procs = 2, .records = 2000, .bytes = 47008, .write = 1, .read = 1 };
	int c, r;

	while ((c = getopt(argc, argv, "p:n:s:eRm:")) != -1) {
		switch (c) {
		case 'p': j.procs = strtoul(optarg, NULL, 10); break;
		case 'n': j.records = strtoul(optarg, NULL, 10); break;
		case 's': j.bytes = strtoul(optarg, NULL, 10); break;
		case 'e': j.easy = 1; break;
		case 'R': j.no_verify = 1; break;
		case 'm':
			j.write = strcmp(optarg, "write") == 0;
			j.read = strcmp(optarg, "read") == 0;
			break;
		default: optind = argc; break;
		}
	}
	if (optind + 1 != argc || j.procs == 0 || !(j.write || j.read)) {
		fprintf(stderr, "usage: strided [-p PROCESSES] [-n RECORDS] [-s BYTES] [-e] "
				"[-R] [-m write|read] DIR\n");
		return 2;
	}
	j.dir = argv[optind];
	r = run(&j);
	if (j.read || r < 0)
		clean(&j);
	return r < 0;
}
