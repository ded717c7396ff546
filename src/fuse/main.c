/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the command to the daemon and back.
 *
 *	parent                          child
 *	checks the mount point
 *	fork ─────────────────────────▶ setsid, tess_open, mount
 *	waits on the pipe ◀──────────── "+" when the kernel has spoken to it, or the reason
 *	returns                         serves, unmounts, tess_close, exits
 *
 * LMDB's handles may not cross a fork, so nothing of the file system is open before it.
 */
#include "fuse/daemon.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scoped.h"
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

LOG_MODULE("mount");

struct daemonise {
	int fd; /* to the parent; -1: told already, or in the foreground */
	int guard;
	bool foreground;
};

static void daemonise_tell(struct daemonise *dz, const char *line)
{
	size_t n = strlen(line);

	if (dz->fd < 0)
		return;
	/* A parent that was killed misses nothing. */
	if (write(dz->fd, line, n) < 0)
		log_debug("the parent is gone");
	close(dz->fd);
	dz->fd = -1;
}

static void daemonise_ready(void *arg)
{
	struct daemonise *dz = arg;

	guard_mounted(dz->guard);
	/* Not before: what was opened may be named from where the command was given. */
	if (!dz->foreground && chdir("/") < 0)
		log_debug("chdir: %s", strerror(errno));
	daemonise_tell(dz, "+");
	if (dz->foreground)
		return;
	scoped_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	log_to_syslog("tessera");
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
	}
}

static int main_serve(const char *dir, const char *mountpoint, const struct tess_conf *conf,
		      struct daemonise *dz, char *why)
{
	struct fuse_serve_conf sc = {
		.dir = dir,
		.mountpoint = mountpoint,
		.conf = conf,
		.ready = daemonise_ready,
		.arg = dz,
	};
	char close_why[TESS_WHY] = "";
	struct tess *t;
	int r, c;

	dz->guard = guard_start(mountpoint);
	r = signals_start();
	if (r == 0)
		r = tess_open(&t, dir, TESS_MOUNT, conf, mountpoint, why);
	if (r < 0)
		return r;
	/* Of a private mount this is a directory below, which is what tools must find. */
	sc.dir = tess_dir(t);
	r = fuse_serve(t, &sc, why);
	c = tess_close(t, close_why);
	if (c < 0)
		log_err("%s: not everything is durable: %s", dir, close_why);
	if (r == 0 && c < 0)
		snprintf(why, TESS_WHY, "not everything is durable: %.400s", close_why);
	return r < 0 ? r : c;
}

static void main_child(const char *dir, const char *mountpoint, const struct tess_conf *conf,
		       int fd)
{
	struct daemonise dz = {.fd = fd};
	char why[TESS_WHY] = "";
	int r;

	setsid();
	r = main_serve(dir, mountpoint, conf, &dz, why);
	/* Who waits for it prints it. */
	if (r < 0 && dz.fd >= 0)
		daemonise_tell(&dz, *why ? why : err_text(r));
	else if (r < 0)
		log_err("%s: %s", mountpoint, *why ? why : err_text(r));
	exit(r < 0 ? 1 : 0);
}

/* Reads until the child has said something, or is gone. */
static int main_wait(pid_t pid, int fd, char *why)
{
	char said[TESS_WHY];
	size_t n = 0;
	ssize_t got;

	while (n < sizeof(said) - 1) {
		got = read(fd, said + n, sizeof(said) - 1 - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	said[n] = '\0';
	if (!strcmp(said, "+"))
		return 0;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	snprintf(why, TESS_WHY, "%s", n ? said : "the daemon ended before it served anything");
	return -EIO;
}

static int main_daemon(const char *dir, const char *mountpoint, const struct tess_conf *conf,
		       char *why)
{
	int fds[2], r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		r = -errno;
		close(fds[0]);
		close(fds[1]);
		return r;
	}
	if (pid == 0) {
		close(fds[0]);
		main_child(dir, mountpoint, conf, fds[1]);
	}
	close(fds[1]);
	r = main_wait(pid, fds[0], why);
	close(fds[0]);
	return r;
}

static int main_check_device(char *why)
{
	scoped_fd int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		return 0;
	if (errno == ENOENT || errno == ENODEV || errno == ENXIO)
		snprintf(why, TESS_WHY,
			 "/dev/fuse is missing: load the fuse module, or give the container the "
			 "device");
	else
		snprintf(why, TESS_WHY, "/dev/fuse: %s", strerror(errno));
	return -ENODEV;
}

int fuse_mount_main(const char *dir, const char *mountpoint, const struct tess_conf *conf,
		    char *why)
{
	scoped_free char *at = NULL, *from = NULL;
	int r;

	*why = '\0';
	from = realpath(dir, NULL);
	if (!from) {
		r = -errno;
		snprintf(why, TESS_WHY, "%s: %s", dir, err_text(r));
		return r;
	}
	r = mountpoint_path(mountpoint, &at);
	if (r < 0) {
		snprintf(why, TESS_WHY, "mount point %s: %s", mountpoint, err_text(r));
		return r;
	}
	r = main_check_device(why);
	if (r == 0)
		r = mountpoint_prepare(at, from, why);
	if (r == 0 && conf->foreground) {
		struct daemonise dz = {.fd = -1, .foreground = true};

		r = main_serve(from, at, conf, &dz, why);
	} else if (r == 0) {
		r = main_daemon(from, at, conf, why);
	}
	if (r < 0 && !*why)
		snprintf(why, TESS_WHY, "%s", err_text(r));
	return r;
}
