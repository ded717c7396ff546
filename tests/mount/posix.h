/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNT_POSIX_H
#define MOUNT_POSIX_H
/*
 * For programs that hold a mounted directory to POSIX: `program DIR [NAME]` runs each check in a
 * fresh subdirectory of DIR, in a child with a time limit, and ends with the line that the runner counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define POSIX_LIMIT 30	/* s, for one check */

struct posix_check {
	const char *name;
	void (*fn)(void);
};

static const char *posix_name;
static unsigned posix_bad;
#define POSIX_SAY (posix_bad++ < 10)	/* a loop that fails says so often enough */

#define OK(expr)                                                                                \
	do {                                                                                    \
		errno = 0;                                                                      \
		if (!(expr)) {                                                                  \
			if (POSIX_SAY)                                                          \
				printf("FAILED: %s, line %d: %s (%s)\n", posix_name, __LINE__, \
				       #expr, strerror(errno));                                 \
		}                                                                               \
	} while (0)
/* Fails with just this errno. */
#define FAILS(no, expr)                                                                         \
	do {                                                                                    \
		long fails_r_;                                                                  \
		errno = 0;                                                                      \
		fails_r_ = (long)(expr);                                                        \
		if (fails_r_ != -1 || errno != (no)) {                                          \
			if (POSIX_SAY)                                                          \
				printf("FAILED: %s, line %d: %s: %ld, %s instead of %s\n",     \
				       posix_name, __LINE__, #expr, fails_r_, strerror(errno),  \
				       strerror(no));                                           \
		}                                                                               \
	} while (0)
#define EQ(want, expr)                                                                          \
	do {                                                                                    \
		long long eq_w_ = (long long)(want), eq_g_ = (long long)(expr);                 \
		if (eq_w_ != eq_g_) {                                                           \
			if (POSIX_SAY)                                                          \
				printf("FAILED: %s, line %d: %s is %lld, not %lld (%s)\n",     \
				       posix_name, __LINE__, #expr, eq_g_, eq_w_,               \
				       strerror(errno));                                        \
		}                                                                               \
	} while (0)

static inline int posix_make(const char *path, const void *p, size_t n)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);

	if (fd >= 0 && n && write(fd, p, n) != (ssize_t)n) {
		close(fd);
		return -1;
	}
	return fd;
}

static inline void posix_put(const char *path, const char *s)
{
	int fd = posix_make(path, s, strlen(s));

	OK(fd >= 0);
	OK(close(fd) == 0);
}

static inline bool posix_holds(const char *path, const char *s)
{
	char buf[4096];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)strlen(s) && memcmp(buf, s, (size_t)n) == 0;
}

static inline struct stat posix_stat(const char *path)
{
	struct stat st;

	memset(&st, 0, sizeof(st));
	OK(lstat(path, &st) == 0);
	return st;
}

static inline int posix_one(const char *dir, const struct posix_check *c)
{
	char sub[64];
	pid_t pid;
	int status = 0;

	snprintf(sub, sizeof(sub), "%.60s", c->name);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		posix_name = c->name;
		umask(022);
		alarm(POSIX_LIMIT);
		OK(chdir(dir) == 0 && mkdir(sub, 0755) == 0 && chdir(sub) == 0);
		if (!posix_bad)
			c->fn();
		fflush(stdout);
		_exit(posix_bad != 0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (!WIFEXITED(status))
		printf("FAILED: %s: signal %d\n", c->name, WTERMSIG(status));
	return !WIFEXITED(status) || WEXITSTATUS(status);
}

static inline int posix_main(int argc, char **argv, const struct posix_check *checks)
{
	unsigned passed = 0, failed = 0;

	if (argc < 2)
		return 2;
	for (const struct posix_check *c = checks; c->name; c++) {
		if (argc > 2 && strcmp(argv[2], c->name))
			continue;
		if (posix_one(argv[1], c))
			failed++;
		else
			passed++;
	}
	printf("%u passed, %u failed\n", passed, failed);
	return failed ? 1 : 0;
}
#endif
