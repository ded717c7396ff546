/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private tree is a file system of its own, made for one mount in FS/private/ID and removed at its end.
 * So nothing of FS can be seen or harmed through it, and nothing in the layers below knows of it.
 *
 * Its daemon holds flock(2) on ID for life: one that can be locked belongs to a dead daemon. Making and
 * sweeping take the lock of FS/private itself, since one just made is not locked yet.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "map/map.h"
#include "mount/mount.h"
#include "oclass/oclass.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define PRIVATE_TRIES	1000u
#define PRIVATE_STAGING "tessera-private-" /* of directories below staging=DIR that are ours to remove */

struct private {
	char *dir;	/* owned */
	char *staging;	/* owned; NULL: inside dir */
	int   lock;
};

const char *private_dir(const struct private *p)
{
	return p->dir;
}

const char *private_staging(const struct private *p)
{
	return p->staging;
}

/* Staging may have been elsewhere; a link to what nobody but us would make is followed. */
static void private_remove_tree(const char *dir)
{
	scoped_free char *link = mount_path(dir, MOUNT_STAGING);
	char to[PATH_MAX];
	const char *base;
	ssize_t n = link ? readlink(link, to, sizeof(to) - 1) : -1;

	if (n > 0) {
		to[n] = '\0';
		base = strrchr(to, '/');
		if (base && !strncmp(base + 1, PRIVATE_STAGING, strlen(PRIVATE_STAGING)))
			mount_remove(to);
	}
	mount_remove(dir);
}

void private_free(struct private *p)
{
	if (!p)
		return;
	if (p->dir)
		private_remove_tree(p->dir);
	if (p->staging)
		mount_remove(p->staging);
	if (p->lock >= 0)
		close(p->lock);
	free(p->staging);
	free(p->dir);
	free(p);
}
DEFINE_SCOPED(struct private, private_free)

/* The lock of FS/private as a descriptor, or -errno. */
static int private_enter(const char *fs, bool make)
{
	scoped_free char *path = mount_path(fs, MOUNT_PRIVATE);
	scoped_fd int fd = -1;

	if (!path)
		return -ENOMEM;
	if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return -errno;
	return steal_fd(fd);
}

static bool private_is_dead(int top, const char *name)
{
	scoped_fd int fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

unsigned mount_private_sweep(const char *fs, bool remove_them)
{
	scoped_fd int top = private_enter(fs, false);
	int copy = top < 0 ? -1 : dup(top);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d))) {
		scoped_free char *path = NULL;

		if (e->d_name[0] == '.' || !private_is_dead(top, e->d_name))
			continue;
		path = mem_printf("%s/%s/%s", fs, MOUNT_PRIVATE, e->d_name);
		if (path && remove_them)
			private_remove_tree(path);
		n++;
	}
	if (d)
		closedir(d);
	return n;
}

static int private_make_dir(struct private *p, const char *fs)
{
	scoped_fd int top = private_enter(fs, true);
	int err = top < 0 ? top : -EEXIST;

	for (unsigned i = 0; err == -EEXIST && i < PRIVATE_TRIES; i++) {
		/* Of a container's daemon with our pid, perhaps. */
		scoped_free char *dir = i ? mem_printf("%s/%s/%d.%u", fs, MOUNT_PRIVATE, (int)getpid(), i) :
					    mem_printf("%s/%s/%d", fs, MOUNT_PRIVATE, (int)getpid());

		if (!dir)
			return -ENOMEM;
		err = mkdir(dir, 0700) < 0 ? -errno : 0;
		if (!err)
			p->dir = steal_ptr(dir);
	}
	if (err)
		return err;
	p->lock = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return p->lock < 0 || flock(p->lock, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
}

static int private_make_staging(struct private *p, const char *want, struct text *why)
{
	scoped_free char *path = mem_printf("%s/" PRIVATE_STAGING "XXXXXX", want);
	int err;

	if (!path)
		return -ENOMEM;
	if ((mkdir(want, 0700) < 0 && errno != EEXIST) || !mkdtemp(path)) {
		err = -errno;
		text_fmt(why, "staging=%s: %s", want, err_text(err));
		return err;
	}
	p->staging = steal_ptr(path);
	return 0;
}

/* As FS makes files, but on one target: a class that needs more becomes the one that needs the least. */
static int private_defaults(const char *fs, char cls[16], struct tess_mkfs *ret, char *why)
{
	const struct tess_mapper *m;
	const struct meta_super *s;
	struct oclass c;
	struct tess *t;
	int err = tess_open(&t, fs, TESS_LOOK, NULL, NULL, why);

	if (err)
		return err;
	s = meta_super(t->meta);
	m = map_by_id(s->layout.mapper);
	snprintf(cls, 16, "S1");
	if (!oclass_from_id(s->layout.cls, &c) && !oclass_usable(&c, 1, NULL))
		oclass_name(&c, cls);
	*ret = (struct tess_mkfs){ .cls = cls, .mapper = m ? m->name : NULL,
				   .segment_size = s->layout.segment_size, .label = "private" };
	return tess_close(t, why);
}

static int private_format(struct private *p, const struct tess *t, struct text *why)
{
	char cls[16], line[TESS_WHY] = "";
	struct tess_mkfs conf;
	int err = private_defaults(t->dir, cls, &conf, line);

	if (!err) {
		conf.dir = p->dir;
		conf.kv_size = t->conf->staging_size;
		err = tess_mkfs(&conf, line);
	}
	if (err)
		text_fmt(why, "private tree in %s/%s: %s", t->dir, MOUNT_PRIVATE, *line ? line : err_text(err));
	return err;
}

int mount_private_make(struct private **ret, const struct tess *t, struct text *why)
{
	scoped(private_free) struct private *p = mem_zalloc(sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->lock = -1;
	if (t->conf->readonly) {
		text_add(why, "mode=private,ro: an empty tree that nobody could fill; leave one out");
		return -TESS_E_OPT_VALUE;
	}
	err = private_make_dir(p, t->dir);
	if (err) {
		text_fmt(why, "%s/%s: %s", t->dir, MOUNT_PRIVATE, err_text(err));
		return err;
	}
	if (t->conf->staging)
		err = private_make_staging(p, t->conf->staging, why);
	if (!err)
		err = private_format(p, t, why);
	if (!err)
		*ret = steal_ptr(p);
	return err;
}
