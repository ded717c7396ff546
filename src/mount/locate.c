/* SPDX-License-Identifier: Apache-2.0 */
/* From a path to the file system that is mounted there, by /proc/self/mountinfo (proc(5)). */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "mount/mount.h"
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define LOCATE_TYPE "fuse.tessera"

struct locate_line {
	unsigned maj, min;
	char *root, *mountpoint, *type, *source;	/* into the line, unescaped */
};

/* Blanks and backslashes come as \040: three octal digits. */
static void locate_unescape(char *s)
{
	char *to = s;

	for (; *s; s++, to++) {
		*to = *s;
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		}
	}
	*to = '\0';
}

static char *locate_field(char **at)
{
	return strsep(at, " \n");
}

/* "36 35 0:52 / /mnt rw,nosuid shared:1 - fuse.tessera /data/fs rw" */
static bool locate_parse(char *line, struct locate_line *ret)
{
	char *at = line, *dev, *f;

	locate_field(&at);
	locate_field(&at);
	dev = locate_field(&at);
	ret->root = locate_field(&at);
	ret->mountpoint = locate_field(&at);
	do {
		f = locate_field(&at);
	} while (f && strcmp(f, "-"));
	ret->type = locate_field(&at);
	ret->source = locate_field(&at);
	if (!ret->source || sscanf(dev, "%u:%u", &ret->maj, &ret->min) != 2)
		return false;
	locate_unescape(ret->root);
	locate_unescape(ret->mountpoint);
	locate_unescape(ret->source);
	return true;
}

/*
 * The path with everything but its last component resolved: a dead mount point cannot be looked at
 * itself. NULL with errno set.
 */
static char *locate_resolve(const char *path)
{
	scoped_free char *copy = mem_strdup(path), *parent = NULL;
	char *slash, *base;
	size_t n = copy ? strlen(copy) : 0;

	if (!copy)
		return NULL;
	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = '\0';
	slash = strrchr(copy, '/');
	base = slash ? slash + 1 : copy;
	if (!*base || !strcmp(base, ".") || !strcmp(base, ".."))
		return realpath(path, NULL);
	if (slash)
		*slash = '\0';
	parent = realpath(!slash ? "." : *copy ? copy : "/", NULL);
	if (!parent)
		return NULL;
	return mem_printf("%s/%s", strcmp(parent, "/") ? parent : "", base);
}

struct locate {
	dev_t dev;		/* of a path that can be looked at */
	const char *path;	/* of one that cannot */
	struct tess_where *ret;
	bool found;
};

static void locate_match(struct locate *l, const struct locate_line *m)
{
	size_t n = strlen(m->mountpoint);

	if (strcmp(m->type, LOCATE_TYPE))
		return;
	if (l->path) {
		/* Below a dead mount point everything is dead. The last mount on a point hides the others. */
		if (strncmp(l->path, m->mountpoint, n) || (l->path[n] && l->path[n] != '/'))
			return;
	} else if (l->found || makedev(m->maj, m->min) != l->dev || strcmp(m->root, "/")) {
		return;	/* bind mounts share the device; the original came first */
	}
	l->found = true;
	snprintf(l->ret->dir, sizeof(l->ret->dir), "%s", m->source);
	snprintf(l->ret->mountpoint, sizeof(l->ret->mountpoint), "%s", m->mountpoint);
}

static int locate_scan(struct locate *l)
{
	scoped_file FILE *f = fopen("/proc/self/mountinfo", "re");
	scoped_free char *line = NULL;
	struct locate_line m;
	size_t cap = 0;

	if (!f)
		return -errno;
	while (getline(&line, &cap, f) > 0)
		if (locate_parse(line, &m))
			locate_match(l, &m);
	return l->found ? 0 : -ENOTSUP;
}

int tess_where(const char *path, struct tess_where *ret, char *why)
{
	scoped_free char *real = NULL;
	struct locate l = { .ret = ret };
	struct text w = TEXT_INIT;
	struct stat st;
	int err = 0;

	memset(ret, 0, sizeof(*ret));
	if (!stat(path, &st) || (errno == ENOENT && !lstat(path, &st))) {
		l.dev = st.st_dev;
		ret->ino = st.st_ino;
	} else if (errno == ENOTCONN || errno == ESHUTDOWN || errno == ECONNABORTED) {
		l.path = real = locate_resolve(path);
		ret->dead = true;
		err = real ? 0 : -errno;
	} else {
		err = -errno;
	}
	if (err)
		text_fmt(&w, "%s: %s", path, err_text(err));
	else
		err = locate_scan(&l);
	if (err == -ENOTSUP)
		text_fmt(&w, "%s: not on a mounted Tessera file system", path);
	if (err)
		mount_why(why, &w, err);
	text_done(&w);
	return err;
}

int tess_locate(const char *path, char *ret_dir, size_t cap, uint64_t *ret_ino, char *why)
{
	scoped_free struct tess_where *w = mem_zalloc(sizeof(*w));
	int err = w ? tess_where(path, w, why) : -ENOMEM;

	if (err)
		return err;
	if (w->dead || strlen(w->dir) >= cap) {
		err = w->dead ? -ENOTCONN : -ENAMETOOLONG;
		if (why)
			snprintf(why, TESS_WHY, "%.400s: %s", path, err_text(err));
		return err;
	}
	snprintf(ret_dir, cap, "%s", w->dir);
	*ret_ino = w->ino;
	return 0;
}
