/* SPDX-License-Identifier: Apache-2.0 */
/* layer: base */
/*
 * Rates of small files: create + write + close, stat, read back, unlink, one pass each over all of
 * them, one process.
 *
 *	smallfiles [-n FILES] [-s BYTES] [-d FILES_A_DIRECTORY] [-y] [-R] DIR
 *
 * -y: an fsync before each close. -R: contents are not compared (a null file system has none).
 * Prints "create N", "stat N", "read N", "unlink N", N in files a second. Removes what it made.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct job {
	unsigned long files, bytes, per_dir;
	int sync, no_verify;
	const char *dir;
	char *data, *back;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int die(const char *what, const char *path)
{
	fprintf(stderr, "smallfiles: %s %s: %s\n", what, path, strerror(errno));
	return -1;
}

static void path_of(const struct job *j, unsigned long i, char *ret, size_t cap)
{
	snprintf(ret, cap, "%s/d%lu/f%lu", j->dir, i / j->per_dir, i);
}

/* Contents differ by file, so that a mixed-up one is found. */
static void fill(const struct job *j, unsigned long i, char *p)
{
	for (unsigned long k = 0; k < j->bytes; k++)
		p[k] = (char)(i * 31 + k * 7 + (k >> 8));
}

static int create_one(const struct job *j, unsigned long i, const char *path)
{
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);

	if (fd < 0)
		return die("create", path);
	if (j->bytes > 0) {
		fill(j, i, j->data);
		if (write(fd, j->data, j->bytes) != (ssize_t)j->bytes)
			return die("write", path);
	}
	if (j->sync && fsync(fd) < 0)
		return die("fsync", path);
	return close(fd) < 0 ? die("close", path) : 0;
}

static int stat_one(const struct job *j, unsigned long i, const char *path)
{
	struct stat st;

	(void)i;
	if (stat(path, &st) < 0)
		return die("stat", path);
	if ((unsigned long)st.st_size != j->bytes) {
		errno = EIO;
		return die("size of", path);
	}
	return 0;
}

static int read_one(const struct job *j, unsigned long i, const char *path)
{
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		return die("open", path);
	if (read(fd, j->back, j->bytes + 1) != (ssize_t)j->bytes)
		return die("read", path);
	close(fd);
	fill(j, i, j->data);
	if (!j->no_verify && memcmp(j->data, j->back, j->bytes) != 0) {
		errno = EIO;
		return die("contents of", path);
	}
	return 0;
}

static int unlink_one(const struct job *j, unsigned long i, const char *path)
{
	(void)j;
	(void)i;
	return unlink(path) < 0 ? die("unlink", path) : 0;
}

static int pass(const struct job *j, const char *name,
		int (*one)(const struct job *, unsigned long, const char *))
{
	char path[4096];
	double t = now();

	for (unsigned long i = 0; i < j->files; i++) {
		path_of(j, i, path, sizeof(path));
		if (one(j, i, path) < 0)
			return -1;
	}
	printf("%s %.1f\n", name, (double)j->files / (now() - t));
	fflush(stdout);
	return 0;
}

static int directories(const struct job *j, int (*make)(const char *))
{
	char path[4096];

	for (unsigned long i = 0; i < j->files; i += j->per_dir) {
		snprintf(path, sizeof(path), "%s/d%lu", j->dir, i / j->per_dir);
		if (make(path) < 0)
			return die("directory", path);
	}
	return 0;
}

static int make_dir(const char *path)
{
	return mkdir(path, 0755);
}

static int run(const struct job *j)
{
	if (directories(j, make_dir) < 0 || pass(j, "create", create_one) < 0 ||
	    pass(j, "stat", stat_one) < 0)
		return -1;
	if (j->bytes > 0 && pass(j, "read", read_one) < 0)
		return -1;
	return pass(j, "unlink", unlink_one) < 0 ? -1 : directories(j, rmdir);
}

int main(int argc, char **argv)
{
	struct job j = { .files = 2000, .bytes = 3901, .per_dir = 1000 };
	int c, r;

	while ((c = getopt(argc, argv, "n:s:d:yR")) != -1) {
		switch (c) {
		case 'n': j.files = strtoul(optarg, NULL, 10); break;
		case 's': j.bytes = strtoul(optarg, NULL, 10); break;
		case 'd': j.per_dir = strtoul(optarg, NULL, 10); break;
		case 'y': j.sync = 1; break;
		case 'R': j.no_verify = 1; break;
		default: optind = argc; break;
		}
	}
	if (optind + 1 != argc || j.per_dir == 0) {
		fprintf(stderr, "usage: smallfiles [-n FILES] [-s BYTES] [-d FILES_A_DIRECTORY] "
				"[-y] [-R] DIR\n");
		return 2;
	}
	j.dir = argv[optind];
	j.data = malloc(j.bytes + 1);
	j.back = malloc(j.bytes + 1);
	r = j.data && j.back ? run(&j) : -1;
	free(j.data);
	free(j.back);
	return r < 0;
}
