/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that outlives the daemon by a moment.
 *
 * Killed while it tells the kernel to drop pages, the daemon may be in an uninterruptible wait for a page
 * that one of its own requests has locked. Nobody answers that any more, and the kernel gives up
 * the requests only when the last descriptor of /dev/fuse goes: which the waiting thread holds. Everybody who
 * uses the mount would hang until a person unmounts by force, and LMDB could reuse no page that the dead
 * may be reading. So somebody else, who has no descriptor of it, ends the connection.
 */
#include "fuse/daemon.h"

#include "base/fault.h"
#include "base/log.h"
#include "base/scoped.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

LOG_MODULE("guard");

#define GUARD_GRACE_MS 1000
#define GUARD_SIGNAL   SIGUSR1

struct guard {
	pid_t daemon;
	int pidfd;
	unsigned major, minor;	/* of the mount; its connection's number */
	const char *mountpoint;
};

/* What is mounted on top there, if it is one of ours. */
static bool guard_look(const char *mountpoint, unsigned *ret_major, unsigned *ret_minor)
{
	scoped_file FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[3 * 4096], at[4096];
	unsigned major, minor;
	bool found = false;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %*s %u:%u %*s %4095s", &major, &minor, at) == 3 && !strcmp(at, mountpoint)) {
			found = strstr(line, " - fuse.tessera ");
			*ret_major = major;
			*ret_minor = minor;
		}
	return found;
}

static bool guard_abort_by_number(const struct guard *g)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/fs/fuse/connections/%u/abort", g->minor);
	scoped_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, "1", 1) == 1;
}

/*
 * Where fusectl is not mounted. The mount stays, and answers with ENOTCONN, as when a daemon dies
 * otherwise: a job must not go on in the directory below. A descriptor of it keeps it busy.
 */
static bool guard_abort_by_force(const struct guard *g)
{
	unsigned major, minor;

	if (!guard_look(g->mountpoint, &major, &minor) || major != g->major || minor != g->minor)
		return false;
	scoped_fd int fd = open(g->mountpoint, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && (umount2(g->mountpoint, MNT_FORCE | UMOUNT_NOFOLLOW) == 0 || errno == EBUSY);
}

static void guard_watch(struct guard *g, int mounted)
{
	struct pollfd end = { .fd = g->pidfd, .events = POLLIN };
	sigset_t died;
	char c;

	sigemptyset(&died);
	sigaddset(&died, GUARD_SIGNAL);
	/* The end of the file: there is no mount, and never will be. */
	if (read(mounted, &c, 1) != 1 || !guard_look(g->mountpoint, &g->major, &g->minor))
		return;
	sigwaitinfo(&died, NULL);
	if (poll(&end, 1, GUARD_GRACE_MS) != 0)
		return;
	log_to_syslog("tessera");
	if (guard_abort_by_number(g) || guard_abort_by_force(g))
		log_err("%s: its daemon (%ld) was killed while the kernel waited for it: what waits there "
			"is given up", g->mountpoint, (long)g->daemon);
	else
		log_err("%s: its daemon (%ld) was killed while the kernel waited for it, and this user cannot end "
			"that: umount -f it", g->mountpoint, (long)g->daemon);
}

/* Nothing of the daemon may stay open for its sake, nor a signal to the daemon's group end it. */
static void guard_main(pid_t daemon, const char *mountpoint, int mounted)
{
	struct guard g = { .daemon = daemon, .mountpoint = mountpoint };
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	if (chdir("/") < 0 || dup2(mounted, 0) < 0)
		_exit(1);
	close_range(1, ~0u, 0);
	g.pidfd = (int)syscall(SYS_pidfd_open, daemon, 0);
	prctl(PR_SET_NAME, "tessera-guard");
	prctl(PR_SET_PDEATHSIG, GUARD_SIGNAL);
	if (g.pidfd >= 0 && getppid() == daemon)
		guard_watch(&g, 0);
	_exit(0);
}

int guard_start(const char *mountpoint)
{
	pid_t daemon = getpid(), pid;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		guard_main(daemon, mountpoint, fds[0]);
	close(fds[0]);
	if (pid > 0)
		return fds[1];
	close(fds[1]);
	return -1;
}

void guard_mounted(int fd)
{
	if (fd >= 0 && write(fd, "+", 1) < 0)
		log_debug("the guard is gone");
}
