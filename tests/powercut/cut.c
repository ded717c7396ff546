/* SPDX-License-Identifier: Apache-2.0 */
/* layer: base */
/*
 * States that a power cut may leave, made from a log of what was written (tests/preload/record.c),
 * and a command run on each.
 *
 *	cut LOG WORK STATES SEED COMMAND [ARG…]
 *	cut LOG WORK =STATE SEED COMMAND [ARG…]		only that one, which stays in WORK
 *
 * WORK/fs is the state, WORK/marks has the program's lines from before the cut; the command gets
 * both paths as its last arguments, and 0 is its only good exit. State N of a log follows from SEED
 * and N alone.
 *
 * What may be lost: see cut_state.h.
 */
#include "../lib/cut_state.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMAND_SECONDS 120u
#define FAILURES_MAX	5u /* more say nothing new */

static const char *work;
static char **command; /* with two free places at its end */
static unsigned ncommand;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void work_path(char ret[600], const char *name)
{
	snprintf(ret, 600, "%s/%s", work, name);
}

static void clear(void)
{
	char path[600];

	work_path(path, "fs");
	(void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (mkdir(path, 0755) < 0)
		cut_die("%s: %s", path, strerror(errno));
}

/* Kills it when it hangs: that is a finding, too. */
static int wait_command(pid_t pid)
{
	struct timespec nap = {0, 2000000}, begin, now;
	int status;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (;;) {
		pid_t got = waitpid(pid, &status, WNOHANG);

		if (got == pid)
			return status;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec - begin.tv_sec > (time_t)COMMAND_SECONDS) {
			fprintf(stderr, "the command hangs\n");
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return status;
		}
		nanosleep(&nap, NULL);
	}
}

/* Its output is shown only when it fails. */
static int run_command(void)
{
	char fs[600], marks[600], out[600];
	pid_t pid;

	work_path(fs, "fs");
	work_path(marks, "marks");
	work_path(out, "out");
	command[ncommand] = fs;
	command[ncommand + 1] = marks;
	pid = fork();
	if (pid == 0) {
		int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0666);

		if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
			_exit(98);
		execv(command[0], command);
		_exit(97);
	}
	return pid < 0 ? -1 : wait_command(pid);
}

static void show_output(void)
{
	char path[600], line[1000];
	unsigned n = 0;
	FILE *f;

	work_path(path, "out");
	f = fopen(path, "re");
	while (f && n++ < 40 && fgets(line, sizeof(line), f))
		fprintf(stderr, "    %s", line);
	if (f)
		fclose(f);
}

static int one_state(struct cut_log *l, uint64_t seed, uint64_t n)
{
	char fs[600], marks[600];
	struct cut_choice c;
	int status;

	cut_choose(l, seed, n, &c);
	clear();
	work_path(fs, "fs");
	work_path(marks, "marks");
	cut_build(l, &c, fs);
	cut_marks(l, &c, marks);
	status = run_command();
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	fprintf(stderr, "seed %llu state %llu: cut after record %zu of %zu, unsynced data %s, names %s%s: ",
		(unsigned long long)seed, (unsigned long long)n, c.at, l->n, cut_strategy_name(c.data),
		cut_strategy_name(c.names), c.strict ? ", strict" : "");
	if (WIFSIGNALED(status))
		fprintf(stderr, "signal %d\n", WTERMSIG(status));
	else
		fprintf(stderr, "exit %d\n", WEXITSTATUS(status));
	show_output();
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t seed, first = 0, n, bad = 0, done = 0;
	struct cut_log l;
	bool only;

	if (argc < 6)
		cut_die("usage: cut LOG WORK STATES|=STATE SEED COMMAND [ARG…]");
	work = argv[2];
	only = argv[3][0] == '=';
	n = strtoull(argv[3] + only, NULL, 0);
	seed = strtoull(argv[4], NULL, 0);
	ncommand = (unsigned)argc - 5;
	command = calloc(ncommand + 3, sizeof(*command));
	if (!command)
		abort();
	memcpy(command, argv + 5, ncommand * sizeof(*command));
	cut_load(&l, argv[1]);
	if (only) {
		first = n++;
		printf("state %llu in %s/fs\n", (unsigned long long)first, work);
	}
	for (uint64_t i = first; i < n && bad < FAILURES_MAX; i++, done++)
		if (one_state(&l, seed, i)) {
			bad++;
			fprintf(stderr, "again: mkdir -p %s; %s %s %s =%llu %llu", work, argv[0], argv[1],
				work, (unsigned long long)i, (unsigned long long)seed);
			for (unsigned a = 0; a < ncommand; a++)
				fprintf(stderr, " %s", argv[5 + a]);
			fputc('\n', stderr);
		}
	printf("%zu records, seed %llu\n", l.n, (unsigned long long)seed);
	printf("%llu passed, %llu failed\n", (unsigned long long)(done - bad), (unsigned long long)bad);
	return bad ? 1 : 0;
}
