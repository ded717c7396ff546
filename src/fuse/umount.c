/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/daemon.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

/* The daemon's own answer; 0 when there is none (it is dead, or of another version). */
static pid_t umount_pid(const struct tess_where *w)
{
	scoped_free char *text = NULL;
	char why[TESS_WHY];
	const char *at;

	if (w->dead || tess_control(w->dir, w->mountpoint, "config", &text, why) < 0)
		return 0;
	at = strstr(text, "\npid=");
	return at ? (pid_t)strtol(at + 5, NULL, 10) : 0;
}

static void umount_wait(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		continue;
}

/* What the daemon could not make durable, in its own words; it leaves them where the next mount
 * clears them. */
static int umount_last_words(const char *dir, pid_t pid, char *why)
{
	scoped_free char *path = mem_printf("%s/run/%d.failed", dir, (int)pid);
	scoped_file FILE *f = path ? fopen(path, "re") : NULL;
	char line[TESS_WHY - 64];

	if (!f)
		return 0;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	snprintf(why, TESS_WHY, "unmounted, but not everything is durable: %s", line);
	return -EIO;
}

int fuse_umount_main(const char *mountpoint, bool lazy, char *why)
{
	scoped_free struct tess_where *w = mem_zalloc(sizeof(*w));
	scoped_free char *at = NULL;
	scoped_fd int pidfd = -1;
	pid_t pid;
	int r;

	if (!w)
		return -ENOMEM;
	r = mountpoint_path(mountpoint, &at);
	if (r < 0) {
		snprintf(why, TESS_WHY, "%s: %s", mountpoint, err_text(r));
		return r;
	}
	r = tess_where(at, w, why);
	if (r < 0)
		return r;
	if (strcmp(w->mountpoint, at)) {
		snprintf(why, TESS_WHY, "%.200s: not a mount point, but inside of %.200s", at,
			 w->mountpoint);
		return -EINVAL;
	}
	pid = umount_pid(w);
	if (pid > 0)
		pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	r = mountpoint_detach(at, lazy || w->dead, why);
	if (r < 0 || pidfd < 0)
		return r;
	umount_wait(pidfd);
	return umount_last_words(w->dir, pid, why);
}
