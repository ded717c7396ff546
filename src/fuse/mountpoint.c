/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/daemon.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define MOUNTPOINT_PATIENCE (5 * NS_PER_S)
#define MOUNTPOINT_STACK 16u /* dead mounts over dead mounts that are detached before giving up */

static bool mountpoint_is_dead(int err)
{
	return err == ENOTCONN || err == ECONNABORTED;
}

/* realpath() fails on a dead mount point itself, but not on its parent. */
int mountpoint_path(const char *path, char **ret)
{
	scoped_free char *full = realpath(path, NULL), *copy = NULL, *copy2 = NULL, *dir = NULL;

	if (!full) {
		if (!mountpoint_is_dead(errno))
			return -errno;
		copy = mem_strdup(path);
		copy2 = mem_strdup(path);
		if (!copy || !copy2)
			return -ENOMEM;
		dir = realpath(dirname(copy), NULL);
		if (!dir)
			return -errno;
		full = mem_printf("%s/%s", strcmp(dir, "/") ? dir : "", basename(copy2));
	}
	if (!full)
		return -ENOMEM;
	*ret = steal_ptr(full);
	return 0;
}

/* What cannot unmount by itself asks the setuid helper. */
static int mountpoint_helper(const char *path, bool lazy)
{
	char *argv[] = {(char *)(uintptr_t) "fusermount3",
			(char *)(uintptr_t) "-u",
			(char *)(uintptr_t)(lazy ? "-z" : "-q"),
			(char *)(uintptr_t) "--",
			(char *)(uintptr_t)path,
			NULL};
	int status;
	pid_t pid;
	int r = posix_spawnp(&pid, "fusermount3", NULL, NULL, argv, environ);

	if (r != 0)
		return -r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

int mountpoint_detach(const char *path, bool lazy, char *why)
{
	int r = 0;

	if (umount2(path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) < 0)
		r = -errno;
	if (r == -EPERM)
		r = mountpoint_helper(path, lazy);
	if (r == -EBUSY && why)
		snprintf(why, TESS_WHY,
			 "%s: busy: a process has files open or works in it (fuser -m shows them)",
			 path);
	else if (r < 0 && why)
		snprintf(why, TESS_WHY, "%s: cannot unmount: %s", path, err_text(r));
	return r;
}

/* Is a living Tessera mounted exactly there? */
static bool mountpoint_is_ours(const char *path)
{
	scoped_file FILE *f = fopen("/proc/self/mounts", "re");
	char line[3 * PATH_MAX], at[PATH_MAX], type[64];
	bool ours = false;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %4095s %63s", at, type) == 2 && !strcmp(at, path))
			ours = !strcmp(type, "fuse.tessera");
	return ours;
}

#define MOUNTPOINT_EXITING 0x4u /* PF_EXITING: the ninth field of /proc/PID/stat */

/* Killed, but still on its way out: its connection to the kernel ends before its process does. */
static bool mountpoint_is_exiting(const char *pid)
{
	scoped_free char *path = mem_printf("/proc/%s/stat", pid);
	scoped_file FILE *f = path ? fopen(path, "re") : NULL;
	char line[1024], state;
	unsigned flags;
	const char *s;

	if (!f || !fgets(line, sizeof(line), f))
		return false;
	s = strrchr(line, ')');
	if (!s || sscanf(s + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
		return false;
	return state != 'Z' && state != 'X' && (flags & MOUNTPOINT_EXITING);
}

static bool mountpoint_any_exiting(const char *dir)
{
	scoped_free char *run = mem_printf("%s/run", dir);
	DIR *d = run ? opendir(run) : NULL;
	bool any = false;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char *dot = strchr(e->d_name, '.');

		if (!dot || strcmp(dot, ".sock"))
			continue;
		*dot = '\0';
		any |= mountpoint_is_exiting(e->d_name);
	}
	if (d)
		closedir(d);
	return any;
}

static void mountpoint_wait_exiting(const char *dir)
{
	int64_t until = clock_now() + MOUNTPOINT_PATIENCE;

	while (mountpoint_any_exiting(dir) && clock_now() < until)
		clock_sleep(10 * NS_PER_MS);
}

int mountpoint_prepare(const char *path, const char *dir, char *why)
{
	struct statfs sf;
	struct stat st;
	int r = 0;

	mountpoint_wait_exiting(dir);
	for (unsigned i = 0; i < MOUNTPOINT_STACK; i++) {
		/* Not stat(): the kernel may still know the answer of a daemon that is dead. */
		r = statfs(path, &sf) < 0 || stat(path, &st) < 0 ? -errno : 0;
		if (!mountpoint_is_dead(-r))
			break;
		r = mountpoint_detach(path, true, why);
		if (r < 0)
			return r;
		mountpoint_wait_exiting(dir);
	}
	if (r < 0) {
		snprintf(why, TESS_WHY, "mount point %s: %s", path, err_text(r));
	} else if (!S_ISDIR(st.st_mode)) {
		r = -ENOTDIR;
		snprintf(why, TESS_WHY, "mount point %s: not a directory", path);
	} else if (mountpoint_is_ours(path)) {
		r = -EBUSY;
		snprintf(why, TESS_WHY, "mount point %s: a Tessera file system is mounted there already",
			 path);
	}
	return r;
}

void mountpoint_readahead(const char *path, unsigned kib)
{
	scoped_file FILE *f = fopen("/proc/self/mountinfo", "re"), *out = NULL;
	char line[3 * PATH_MAX], at[PATH_MAX], name[64];
	unsigned maj = 0, min = 0;
	bool found = false;

	while (f && fgets(line, sizeof(line), f)) {
		unsigned a, b;

		if (sscanf(line, "%*u %*u %u:%u %*s %4095s", &a, &b, at) == 3 &&
		    !strcmp(at, path)) {
			maj = a;
			min = b;
			found = true;
		}
	}
	if (!found)
		return;
	snprintf(name, sizeof(name), "/sys/class/bdi/%u:%u/read_ahead_kb", maj, min);
	out = fopen(name, "we");
	if (out)
		fprintf(out, "%u\n", kib);
}
