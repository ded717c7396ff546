/* SPDX-License-Identifier: Apache-2.0 */
#include "mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <tessera/tessera.h>
#include <time.h>
#include <unistd.h>

#define FUSE_MAGIC 0x65735546

static void nap(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

static const char *program(void)
{
	const char *p = getenv("TESSERA");

	return p ? p : "./tessera";
}

unsigned long mnt_env(const char *name, unsigned long dflt)
{
	const char *v = getenv(name);

	return v && *v ? strtoul(v, NULL, 0) : dflt;
}

void mnt_need(void)
{
	const char *why = NULL;

	if (access("/dev/fuse", R_OK | W_OK))
		why = "/dev/fuse cannot be opened";
	else if (access(program(), X_OK))
		why = "the tessera program is not built";
	if (!why)
		return;
	puts(why);
	exit(77);
}

const char *mnt_tmp(void)
{
	static char made[] = "/tmp/tess-test.XXXXXX";
	const char *t = getenv("TESS_TMP");

	if (t)
		return t;
	if (made[strlen(made) - 1] == 'X' && !mkdtemp(made)) {
		perror("mkdtemp");
		exit(1);
	}
	return made;
}

void mnt_init(struct mnt *m, const char *name)
{
	memset(m, 0, sizeof(*m));
	snprintf(m->fs, sizeof(m->fs), "%s/%s.fs", mnt_tmp(), name);
	snprintf(m->dir, sizeof(m->dir), "%s/%s.mnt", mnt_tmp(), name);
	snprintf(m->log, sizeof(m->log), "%s/%s.log", mnt_tmp(), name);
	mkdir(m->dir, 0755);
}

static pid_t start(const char *log, const char *const *argv)
{
	pid_t pid = fork();
	int fd;

	if (pid)
		return pid;
	/* A test that is killed must not leave a daemon behind. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
		_exit(126);
	dprintf(2, "--");
	for (unsigned i = 0; argv[i]; i++)
		dprintf(2, " %s", argv[i]);
	dprintf(2, "\n");
	execv(argv[0], (char *const *)argv);
	_exit(127);
}

int mnt_tessera(struct mnt *m, ...)
{
	const char *argv[16] = {program()};
	unsigned n = 1;
	va_list ap;
	pid_t pid;
	int st;

	va_start(ap, m);
	while (n < 15 && (argv[n] = va_arg(ap, const char *)))
		n++;
	va_end(ap);
	pid = start(m->log, argv);
	while (waitpid(pid, &st, 0) < 0)
		if (errno != EINTR)
			return -1;
	if (WIFSIGNALED(st))
		fprintf(stderr, "tessera %s: killed by signal %d\n", argv[1], WTERMSIG(st));
	return WIFEXITED(st) ? WEXITSTATUS(st) : -1;
}

static int wrong(struct mnt *m, const char *what)
{
	fprintf(stderr, "%s failed\n", what);
	mnt_show_log(m, 30);
	return -1;
}

/* "s3://bucket?x=y" and "name" are "s3://bucket/name?x=y"; "kv:/a/b" is "kv:/a/b-name". */
static int target_at(const char *uri, const char *name, char *ret, size_t cap)
{
	size_t n = strcspn(uri, "?");
	const char *place = strstr(uri, "://");
	bool bare = place && (size_t)(place - uri) < n && !memchr(place + 3, '/', n - (size_t)(place + 3 - uri));
	int len = snprintf(ret, cap, "%.*s%c%s%s", (int)n, uri, bare ? '/' : '-', name, uri + n);

	return len < 0 || (size_t)len >= cap ? -1 : 0;
}

int mnt_mkfs(struct mnt *m, const char *option, const char *value)
{
	const char *target = getenv("TESS_TARGET"), *name = strrchr(m->fs, '/') + 1;
	char uri[4096];

	if (!option && target && *target) {
		if (target_at(target, name, uri, sizeof(uri)))
			return wrong(m, "TESS_TARGET: a name for mkfs");
		option = "--target";
		value = uri;
	}
	if (mnt_tessera(m, "mkfs", m->fs, option, value, NULL))
		return wrong(m, "mkfs");
	return 0;
}

bool mnt_alive(struct mnt *m)
{
	int st;

	if (!m->pid)
		return false;
	if (waitpid(m->pid, &st, WNOHANG) != m->pid)
		return true;
	m->pid = 0;
	m->status = st;
	return false;
}

static bool serves(const struct mnt *m)
{
	struct statfs s;
	struct stat st;

	return !statfs(m->dir, &s) && s.f_type == FUSE_MAGIC && !stat(m->dir, &st);
}

int mnt_mount(struct mnt *m, const char *options)
{
	const char *argv[] = {program(), "mount", m->fs, m->dir, "-f", "-o", options, NULL};
	unsigned long seconds = mnt_env("MNT_TIMEOUT", 60);

	if (!options)
		argv[5] = NULL;
	m->pid = start(m->log, argv);
	for (unsigned long i = 0; i < seconds * 200; i++) {
		/* The old dead mount answers ENOTCONN until the new one covers it. */
		if (serves(m))
			return 0;
		if (!mnt_alive(m))
			return -1;
		nap(5);
	}
	fprintf(stderr, "mount: not there after %lu s\n", seconds);
	mnt_stacks(m);
	mnt_kill(m);
	return wrong(m, "mount");
}

int mnt_wait_dead(struct mnt *m, int ms)
{
	for (int i = 0; i <= ms; i += 5) {
		if (!mnt_alive(m))
			return 0;
		nap(5);
	}
	return -1;
}

void mnt_kill(struct mnt *m)
{
	if (!m->pid)
		return;
	kill(m->pid, SIGKILL);
	while (waitpid(m->pid, &m->status, 0) < 0 && errno == EINTR)
		;
	m->pid = 0;
}

int mnt_umount(struct mnt *m)
{
	if (!mnt_alive(m))
		return wrong(m, "the daemon died; umount");
	if (mnt_tessera(m, "umount", m->dir, NULL))
		return wrong(m, "umount");
	if (mnt_wait_dead(m, 60000)) {
		mnt_stacks(m);
		mnt_kill(m);
		return wrong(m, "the daemon's end");
	}
	if (!WIFEXITED(m->status) || WEXITSTATUS(m->status))
		return wrong(m, "a clean end of the daemon");
	return 0;
}

int mnt_remount(struct mnt *m, const char *options)
{
	if (mnt_umount(m))
		return -1;
	return mnt_mount(m, options) ? wrong(m, "mount") : 0;
}

int mnt_fsck(struct mnt *m, bool verify)
{
	if (mnt_tessera(m, "fsck", m->fs, verify ? "--verify" : NULL, NULL))
		return wrong(m, "fsck");
	return 0;
}

int mnt_control(struct mnt *m, const char *cmd, char *ret, size_t cap)
{
	char why[TESS_WHY] = "", *answer = NULL;
	int err = tess_control(m->fs, m->dir, cmd, &answer, why);

	if (err)
		fprintf(stderr, "control: %s: %s (%s)\n", cmd, why, tess_strerror(err));
	else if (ret && cap)
		snprintf(ret, cap, "%s", answer ? answer : "");
	free(answer);
	return err;
}

void mnt_stacks(struct mnt *m)
{
	char cmd[160];

	if (!m->pid)
		return;
	snprintf(cmd, sizeof(cmd),
		 "gdb -p %d -batch -ex 'thread apply all bt' 2>/dev/null | "
		 "grep -vE '^(warning|\\[New|Using host)' | head -n 400 >&2",
		 (int)m->pid);
	if (system(cmd))
		fprintf(stderr, "no stacks: gdb is missing\n");
}

void mnt_show_log(struct mnt *m, unsigned lines)
{
	char cmd[600];

	snprintf(cmd, sizeof(cmd), "tail -n %u '%s' | sed 's/^/  | /' >&2", lines, m->log);
	if (system(cmd))
		return;
}

void mnt_end(struct mnt *m)
{
	mnt_kill(m);
	umount2(m->dir, MNT_DETACH);
}
