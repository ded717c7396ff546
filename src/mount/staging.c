/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "mount/mount.h"
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* 1 empty, 0 not, or -errno. */
static int staging_empty(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int empty = 1;

	if (!d)
		return -errno;
	while (empty && (e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			empty = 0;
	closedir(d);
	return empty;
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
	if (now) {
		r = staging_empty(now);
		if (r == 0) {
			text_fmt(why, "staging=%s: %s still holds segments: mount once without staging=",
				 want, now);
			return -EBUSY;
		}
	}
	r = staging_point(link, to);
	if (r < 0)
		text_fmt(why, "staging=%s: %s: %s", want, link, err_text(r));
	return r;
}

int mount_staging_prepare(const char *dir, const char *want, char **ret, struct text *why)
{
	scoped_free char *link = mount_path(dir, MOUNT_STAGING);
	struct stat st;
	int r;

	if (!link)
		return -ENOMEM;
	r = want ? staging_move(link, want, why) : 0;
	if (r < 0)
		return r;
	if (stat(link, &st) < 0) {
		r = -errno;
		/* An empty one may be missing in a copy made by a tool that skips empty directories. */
		if (r == -ENOENT && lstat(link, &st) < 0 && !mkdir(link, 0700)) {
			*ret = steal_ptr(link);
			return 0;
		}
		text_fmt(why, "staging area %s: %s", link, err_text(r));
		return r;
	}
	*ret = steal_ptr(link);
	return 0;
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
