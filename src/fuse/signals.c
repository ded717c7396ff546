/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals are blocked everywhere and taken by one thread with sigwait(), so that what happens on
 * one may take locks, log and wait.
 */
#include "fuse/daemon.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/scoped.h"
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

LOG_MODULE("signal");

static struct {
	struct lock lock;
	struct fuse_session *se; /* NULL: none attached */
	pthread_t loop;		 /* runs it */
	char mountpoint[4096];
	atomic_bool started;
} signals;

static void signals_nothing(int sig)
{
	(void)sig;
}

static bool signals_target(char *mountpoint, size_t cap)
{
	scoped_lock(&signals.lock);
	snprintf(mountpoint, cap, "%s", signals.mountpoint);
	return signals.se != NULL;
}

/* libfuse's loop sleeps in sem_wait(); a signal wakes it, or comes just before it sleeps: again,
 * then. */
static void signals_end_loop(void)
{
	for (;;) {
		lock_take(&signals.lock);
		if (!signals.se) {
			lock_drop(&signals.lock);
			return;
		}
		fuse_session_exit(signals.se);
		pthread_kill(signals.loop, SIGUSR1);
		lock_drop(&signals.lock);
		clock_sleep(20 * NS_PER_MS);
	}
}

/*
 * An unmount by the kernel is best: it writes back what is mapped, and our loop ends by itself.
 * When somebody still has files open it is busy; then what is mapped is written back, and the loop
 * is ended. On a thread of its own, since it may hang, and a second signal must be heard.
 */
static void *signals_unmount(void *arg)
{
	char mountpoint[sizeof(signals.mountpoint)];

	(void)arg;
	if (signals_target(mountpoint, sizeof(mountpoint)) && geteuid() == 0) {
		if (umount2(mountpoint, UMOUNT_NOFOLLOW) == 0)
			return NULL;
		int fd = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd >= 0) {
			syncfs(fd);
			close(fd);
		}
	}
	signals_end_loop();
	return NULL;
}

static void signals_first(int sig)
{
	char mountpoint[sizeof(signals.mountpoint)];
	pthread_t helper;

	if (!signals_target(mountpoint, sizeof(mountpoint))) {
		log_notice("signal %d: already stopping; again to stop at once", sig);
		return;
	}
	log_notice("signal %d: unmounting %s; again to stop at once", sig, mountpoint);
	if (thread_start(&helper, "unmount", signals_unmount, NULL) == 0)
		pthread_detach(helper);
	else
		signals_end_loop();
}

static void *signals_main(void *arg)
{
	sigset_t *set = arg;
	bool again = false;
	int sig;

	for (;;) {
		if (sigwait(set, &sig) != 0)
			continue;
		/* Before anything is mounted there is nothing to bring to an end. */
		if (again || !signals.started)
			break;
		again = true;
		signals_first(sig);
	}
	log_err("signal %d: stopping at once; what was synced is safe", sig);
	_exit(1);
	return NULL;
}

int signals_start(void)
{
	static sigset_t set;
	struct sigaction wake = {.sa_handler = signals_nothing}, ignore = {.sa_handler = SIG_IGN};
	pthread_t thread;
	int r;

	lock_init(&signals.lock, LOCK_MOUNT, "signals");
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGUSR1, &wake, NULL);
	sigaction(SIGHUP, &ignore, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
	r = thread_start(&thread, "signals", signals_main, &set);
	if (r == 0)
		pthread_detach(thread);
	return r;
}

void signals_attach(struct fuse_session *se, const char *mountpoint)
{
	scoped_lock(&signals.lock);
	snprintf(signals.mountpoint, sizeof(signals.mountpoint), "%s", mountpoint);
	signals.loop = pthread_self();
	signals.se = se;
	signals.started = true;
}

void signals_detach(void)
{
	scoped_lock(&signals.lock);
	signals.se = NULL;
}
