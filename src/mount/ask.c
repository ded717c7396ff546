/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of the control socket: finds the daemon of a mount and asks it. */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "mount/mount.h"
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

int control_connect(int run, const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const struct timeval patience = { .tv_sec = 1 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	/* Of a daemon that is stopped the queue may be full: connecting would wait until it goes on. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/%.63s", run, name);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

/* Reads the whole answer; a flush may take as long as it takes. */
static int ask_read(int fd, struct text *out)
{
	char buf[4096];

	for (;;) {
		ssize_t n = recv(fd, buf, sizeof(buf), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return text_error(out);
		text_addn(out, buf, (size_t)n);
	}
}

struct ask {
	int         run;
	const char *name, *mountpoint, *cmd;
};

/*
 * 0 or the daemon's error, with its text in `out`; -ENOTCONN: not this one. The mount point is
 * asked for first, so that no other daemon gets a command that was not for it.
 */
static int ask_one(const struct ask *a, const char *cmd, struct text *out)
{
	scoped_fd int fd = control_connect(a->run, a->name);
	struct text all = TEXT_INIT;
	const char *mnt, *code, *body;
	int err = fd < 0 ? -ENOTCONN : 0;

	if (!err && (send(fd, cmd, strlen(cmd), MSG_NOSIGNAL) < 0 ||
		     send(fd, "\n", 1, MSG_NOSIGNAL) < 0 || shutdown(fd, SHUT_WR) < 0))
		err = -ENOTCONN;
	if (!err)
		err = ask_read(fd, &all);
	mnt = text_str(&all);
	code = strchr(mnt, '\n');
	body = code ? strchr(code + 1, '\n') : NULL;
	if (!err && !body)
		err = -ENOTCONN;
	if (!err && a->mountpoint &&
	    (strlen(a->mountpoint) != (size_t)(code - mnt) ||
	     strncmp(a->mountpoint, mnt, (size_t)(code - mnt))))
		err = -ENOTCONN;
	if (!err) {
		err = -(int)strtol(code + 1, NULL, 10);
		text_add(out, body + 1);
	}
	text_done(&all);
	return err;
}

/* `each`: all of them, until one fails; one that goes away meanwhile has nothing left to do. */
static int ask_all(int run, const char *mountpoint, const char *cmd, bool each, struct text *out)
{
	int copy = dup(run), err = -ENOTCONN;
	bool asked = false;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	if (!d)
		return -errno;
	while (err == -ENOTCONN && (e = readdir(d))) {
		struct ask a = { run, e->d_name, mountpoint, cmd };
		const char *dot = strrchr(e->d_name, '.');

		if (!dot || strcmp(dot, ".sock"))
			continue;
		text_clear(out);
		err = ask_one(&a, "hello", out);
		text_clear(out);
		if (!err)
			err = ask_one(&a, cmd, out);
		asked |= err != -ENOTCONN;
		if (each && err == 0)
			err = -ENOTCONN;
	}
	closedir(d);
	return each && asked && err == -ENOTCONN ? 0 : err;
}

int tess_control(const char *dir, const char *mountpoint, const char *cmd, char **ret, char *why)
{
	scoped_fd int run = control_run_dir(dir, false);
	struct text out = TEXT_INIT;
	int err = run == -ENOENT ? -ENOTCONN : run < 0 ? run : 0;

	if (!err)
		err = ask_all(run, mountpoint, cmd, false, &out);
	if (err == -ENOTCONN) {
		text_clear(&out);
		text_fmt(&out, "%s: no daemon answers", mountpoint ? mountpoint : dir);
	}
	if (!err) {
		*ret = text_steal(&out);
		if (!*ret) /* an empty answer leaves the buffer unused */
			*ret = mem_strdup("");
		err = *ret ? 0 : -ENOMEM;
	}
	if (err)
		mount_why(why, &out, err);
	text_done(&out);
	return err;
}

int tess_control_each(const char *dir, const char *cmd, char *why)
{
	scoped_fd int run = control_run_dir(dir, false);
	struct text out = TEXT_INIT;
	int err = run == -ENOENT ? -ENOTCONN : run < 0 ? run : 0;

	if (!err)
		err = ask_all(run, NULL, cmd, true, &out);
	if (err == -ENOTCONN) {
		text_clear(&out);
		text_fmt(&out, "%s: no daemon answers", dir);
	}
	if (err)
		mount_why(why, &out, err);
	text_done(&out);
	return err;
}
