/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credential_process: a command line of the user's that prints keys. No shell sees it. It gets a
 * process group of its own, so that what it started goes with it, and its standard error goes nowhere: it
 * may show what it works with.
 */
#include "store/creds_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#define WORDS_MAX 64u
#define LOOK_EVERY (50 * NS_PER_MS)

int creds_words_split(char *line, char **argv, unsigned max)
{
	char *from = line, *to = line, quote = 0;
	unsigned n = 0;

	for (;;) {
		while (*from == ' ' || *from == '\t')
			from++;
		if (!*from)
			break;
		if (n + 1 >= max)
			return -E2BIG;
		argv[n++] = to;
		for (; *from && (quote || (*from != ' ' && *from != '\t')); from++) {
			bool escapes =
				*from == '\\' &&
				(!quote || (quote == '"' && (from[1] == '"' || from[1] == '\\')));

			if (escapes && !from[1])
				return -EINVAL;
			if (escapes)
				*to++ = *++from;
			else if (quote ? *from == quote : *from == '"' || *from == '\'')
				quote = quote ? 0 : *from;
			else
				*to++ = *from;
		}
		if (quote)
			return -EINVAL;
		from += *from != 0;
		*to++ = 0;	/* never beyond `from`: each word ends with a blank or the NUL */
	}
	argv[n] = NULL;
	return n ? 0 : -EINVAL;
}

static int spawn_prepare(posix_spawn_file_actions_t *fa, posix_spawnattr_t *at, int out)
{
	sigset_t none, all;
	int err;

	sigemptyset(&none);
	sigfillset(&all);
	err = posix_spawn_file_actions_addopen(fa, 0, "/dev/null", O_RDONLY, 0);
	err = err ? err : posix_spawn_file_actions_adddup2(fa, out, 1);
	err = err ? err : posix_spawn_file_actions_addopen(fa, 2, "/dev/null", O_WRONLY, 0);
	err = err ? err : posix_spawn_file_actions_addclosefrom_np(fa, 3);
	err = err ? err : posix_spawnattr_setpgroup(at, 0);
	/* Threads of the daemon block all signals; this must not be inherited. */
	err = err ? err : posix_spawnattr_setsigmask(at, &none);
	err = err ? err : posix_spawnattr_setsigdefault(at, &all);
	err = err ? err
		  : posix_spawnattr_setflags(at, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
							 POSIX_SPAWN_SETSIGDEF);
	return -err;
}

static int spawn_command(char **argv, int out, pid_t *ret)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	int err;

	if (posix_spawn_file_actions_init(&fa))
		return -ENOMEM;
	if (posix_spawnattr_init(&at)) {
		posix_spawn_file_actions_destroy(&fa);
		return -ENOMEM;
	}
	err = spawn_prepare(&fa, &at, out);
	if (!err)
		err = -posix_spawnp(ret, argv[0], &fa, &at, argv, environ);
	posix_spawnattr_destroy(&at);
	posix_spawn_file_actions_destroy(&fa);
	return err;
}

static int given_up(const struct creds_process *p, int64_t deadline, struct text *why)
{
	if (p->stop && atomic_load(p->stop))
		return -ECANCELED;
	if (clock_now() < deadline)
		return 0;
	text_fmt(why, "was killed after %" PRIi64 " s", p->timeout / NS_PER_S);
	return -ETIMEDOUT;
}

/* Until it closes its end. */
static int output_read(const struct creds_process *p, int fd, int64_t deadline, struct secret *out,
		       struct text *why)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	for (;;) {
		int err = given_up(p, deadline, why);
		ssize_t n;

		if (err)
			return err;
		if (poll(&pfd, 1, LOOK_EVERY / NS_PER_MS) <= 0)
			continue;
		if (out->n == out->cap) {
			text_fmt(why, "prints more than %zu bytes", out->cap);
			return -EFBIG;
		}
		n = read(fd, out->s + out->n, out->cap - out->n);
		if (!n)
			return 0;
		if (n > 0)
			out->n += (size_t)n;
		else if (errno != EINTR && errno != EAGAIN)
			return -errno;
	}
}

static int child_wait(const struct creds_process *p, pid_t pid, int64_t deadline, int *ret_status,
		      struct text *why)
{
	int64_t nap = NS_PER_MS;

	for (;;) {
		pid_t got = waitpid(pid, ret_status, WNOHANG);
		int err;

		if (got == pid)
			return 0;
		if (got < 0 && errno != EINTR)
			return -errno;
		err = given_up(p, deadline, why);
		if (err)
			return err;
		clock_sleep(nap);
		nap = MIN(nap * 2, LOOK_EVERY);
	}
}

static int child_judge(int status, struct text *why)
{
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (WIFEXITED(status))
		text_fmt(why, "ended with exit status %d", WEXITSTATUS(status));
	else
		text_fmt(why, "was killed by signal %d", WTERMSIG(status));
	return -EACCES;
}

static int process_collect(const struct creds_process *p, pid_t pid, int fd, struct secret *out,
			   struct text *why)
{
	int64_t deadline = clock_now() + p->timeout;
	int status = 0;
	int err = output_read(p, fd, deadline, out, why);

	if (!err)
		err = child_wait(p, pid, deadline, &status, why);
	if (!err)
		return child_judge(status, why);
	if (err == -ECHILD)	/* somebody waited for it: the number may be another's by now */
		return err;
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);	/* where it has left its group */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return err;
}

int creds_process_run(const struct creds_process *p, struct secret *out, struct text *why)
{
	scoped_free char *line = mem_strdup(p->line);
	char *argv[WORDS_MAX + 1];
	struct text more = TEXT_INIT;
	int fds[2], err;
	pid_t pid;

	if (!line)
		return -ENOMEM;
	err = creds_words_split(line, argv, WORDS_MAX);
	if (err) {
		text_add(why,
			 "credential_process: its quotes do not match, or it is empty or too long");
		return err;
	}
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	err = spawn_command(argv, fds[1], &pid);
	close(fds[1]);
	if (err)
		text_fmt(&more, "cannot be started: %s", strerror(-err));
	else
		err = process_collect(p, pid, fds[0], out, &more);
	close(fds[0]);
	if (err) {
		/* Its name only: arguments may be secrets. */
		text_add(why, "credential_process ");
		creds_add_name(why, argv[0]);
		text_fmt(why, " %s", more.n ? text_str(&more) : strerror(-err));
	}
	text_done(&more);
	out->s[out->n] = 0;
	return err;
}
