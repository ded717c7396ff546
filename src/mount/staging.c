/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "mount/mount.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define STAGING_OF ".of"	/* in an area outside FS: whose it is */

/* 1 empty, 0 not, or -errno. */
static int staging_empty(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int empty = 1;

	if (!d)
		return -errno;
	while (empty && (e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, STAGING_OF))
			empty = 0;
	closedir(d);
	return empty;
}

/* Nobody has it open (each that has holds a shared lock), nor will while the descriptor is. Or -errno. */
static int staging_hold(const char *path)
{
	scoped_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return -EBUSY;
	return steal_fd(fd);
}

/* Whether the file system in `fs` keeps its segments in `area`. */
static bool staging_leads(const char *fs, const char *area)
{
	scoped_free char *link = mount_path(fs, MOUNT_STAGING);
	scoped_free char *real = link ? realpath(link, NULL) : NULL;

	return real && !strcmp(real, area);
}

/*
 * Two file systems give their segments the same names, and each removes files that it knows nothing of:
 * so an area outside of FS is of one, as a file in it says.
 */
static int staging_claim(const char *fs, const char *area, struct text *why)
{
	scoped_free char *path = mount_path(area, STAGING_OF);
	scoped_fd int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	char whose[PATH_MAX];
	ssize_t n = fd < 0 ? -1 : pread(fd, whose, sizeof(whose) - 1, 0);
	size_t len = strlen(fs);

	if (n < 0)
		return path ? -errno : -ENOMEM;
	whose[n] = '\0';
	if (!strcmp(whose, fs))
		return 0;
	if (n && staging_leads(whose, area)) {
		text_fmt(why, "staging area %s: it is that of %s", area, whose);
		return -EBUSY;
	}
	if (ftruncate(fd, 0) < 0 || pwrite(fd, fs, len, 0) != (ssize_t)len)
		return errno ? -errno : -ENOSPC;
	return 0;
}

/* Makes `link` lead to `to`: a symbolic link, or a directory when `to` is the link's own path. */
static int staging_point(const char *link, const char *to)
{
	struct stat st;

	if (!lstat(link, &st) && (S_ISLNK(st.st_mode) ? unlink(link) : rmdir(link)) < 0)
		return -errno;
	if (!to || !strcmp(to, link))
		return mkdir(link, 0700) < 0 ? -errno : 0;
	return symlink(to, link) < 0 ? -errno : 0;
}

static int staging_busy(const char *want, const char *area, struct text *why)
{
	text_fmt(why, "staging=%s: another mount has segments in %s: unmount it first", want, area);
	return -EBUSY;
}

/* now: NULL, it is nowhere. */
static int staging_change(const char *link, const char *now, const char *to, const char *want,
			  struct text *why)
{
	scoped_fd int from_fd = now ? staging_hold(now) : -1;
	scoped_fd int to_fd = strcmp(to, link) ? staging_hold(to) : -1;
	scoped_free char *of = now ? mount_path(now, STAGING_OF) : NULL;
	int r;

	if (from_fd == -EBUSY || to_fd == -EBUSY)
		return staging_busy(want, from_fd == -EBUSY ? now : to, why);
	if (now) {
		r = staging_empty(now);
		if (r == 0) {
			text_fmt(why, "staging=%s: %s still holds segments: mount once without staging=",
				 want, now);
			return -EBUSY;
		}
		if (of)
			(void)unlink(of);
	}
	r = staging_point(link, to);
	if (r < 0)
		text_fmt(why, "staging=%s: %s: %s", want, link, err_text(r));
	return r;
}

static int staging_move(const char *link, const char *want, struct text *why)
{
	scoped_free char *to = NULL, *now = realpath(link, NULL);
	struct stat st;
	int r;

	if (!strcmp(want, link)) {
		to = mem_strdup(want);
	} else if (stat(want, &st) < 0 && errno == ENOENT && mkdir(want, 0700) < 0) {
		r = -errno;
		text_fmt(why, "staging=%s: %s", want, err_text(r));
		return r;
	} else {
		to = realpath(want, NULL);
	}
	if (!to || (strcmp(to, link) && (stat(to, &st) < 0 || !S_ISDIR(st.st_mode)))) {
		text_fmt(why, "staging=%s: not a directory", want);
		return -ENOTDIR;
	}
	if (now && !strcmp(now, to))
		return 0;
	return staging_change(link, now, to, want, why);
}

/* An empty one may be missing in a copy made by a tool that skips empty directories. */
static int staging_find(const char *link, struct text *why)
{
	struct stat st;
	int r;

	if (!stat(link, &st))
		return 0;
	r = -errno;
	if (r == -ENOENT && lstat(link, &st) < 0 && !mkdir(link, 0700))
		return 0;
	text_fmt(why, "staging area %s: %s", link, err_text(r));
	return r;
}

/* An area elsewhere that is another file system's is not even led to. */
static int staging_check(const char *dir, const char *link, const char *area, struct text *why)
{
	scoped_free char *real = realpath(area, NULL);

	return real && strcmp(real, link) ? staging_claim(dir, real, why) : 0;
}

int mount_staging_prepare(const char *dir, const char *want, char **ret, struct text *why)
{
	scoped_free char *link = mount_path(dir, MOUNT_STAGING);
	int r = link ? 0 : -ENOMEM;

	if (r == 0 && want)
		r = staging_check(dir, link, want, why);
	if (r == 0 && want)
		r = staging_move(link, want, why);
	if (r == 0)
		r = staging_find(link, why);
	if (r == 0)
		r = staging_check(dir, link, link, why);
	if (r == 0)
		*ret = steal_ptr(link);
	return r;
}

uint64_t mount_staging_size(const char *staging, uint64_t want)
{
	uint64_t size = UINT64_C(1) << 30, floor = UINT64_C(64) << 20;
	struct statvfs st;

	if (want)
		return want;
	if (!statvfs(staging, &st))
		size = MIN(size, (uint64_t)st.f_bavail * st.f_frsize / 4);
	return MAX(size, floor);
}
