/* SPDX-License-Identifier: Apache-2.0 */
#include "drive.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

void drive_init(struct drive *d, const char *base, uint64_t seed)
{
	memset(d, 0, sizeof(*d));
	d->base = base;
	d->seed = d->rng = seed;
	d->serial = seed << 20 | 1;
	d->big = 400000;
	d->root = ref_new(S_IFDIR | 0755);
	d->root->nlink = 1;
	for (unsigned i = 0; i < DR_HANDLES; i++)
		d->handle[i].fd = -1;
}

void drive_done(struct drive *d)
{
	ref_free_tree(d->root);
}

void dr_note(struct drive *d, const char *fmt, ...)
{
	va_list ap;
	int n;

	n = snprintf(d->last[d->nlast % DR_LAST], sizeof(d->last[0]), "#%lu ", d->step);
	va_start(ap, fmt);
	vsnprintf(d->last[d->nlast++ % DR_LAST] + n, sizeof(d->last[0]) - (size_t)n, fmt, ap);
	va_end(ap);
}

static void print_clean(const char *s)
{
	fputs("    ", stderr);
	for (; *s; s++)
		fputc(*s >= ' ' && *s < 127 ? *s : '?', stderr);
	fputc('\n', stderr);
}

int dr_fail(struct drive *d, const char *fmt, ...)
{
	char line[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	flockfile(stderr);
	fprintf(stderr, "%s, seed %llu, step %lu: %s\n  the last operations:\n", d->base,
		(unsigned long long)d->seed, d->step, line);
	for (unsigned i = d->nlast > DR_LAST ? d->nlast - DR_LAST : 0; i < d->nlast; i++)
		print_clean(d->last[i % DR_LAST]);
	funlockfile(stderr);
	return -1;
}

int dr_expect(struct drive *d, int want, int got)
{
	if (want == got)
		return 0;
	return dr_fail(d, "got %s, should be %s", got ? strerrorname_np(got) : "success",
		       want ? strerrorname_np(want) : "success");
}

/* Rather something that exists than not. */
void dr_some_path(struct drive *d, struct ref_path *ret)
{
	struct ref_node *n = d->root;
	unsigned depth = 1 + (unsigned)rnd_below(&d->rng, REF_DEPTH);

	ret->n = 0;
	while (ret->n < depth) {
		unsigned name = (unsigned)rnd_below(&d->rng, REF_NAMES);

		for (unsigned i = 0; n && !n->child[name] && i < 2; i++)
			name = (unsigned)rnd_below(&d->rng, REF_NAMES);
		ret->name[ret->n++] = (uint8_t)name;
		n = n ? n->child[name] : NULL;
		/* Few ways through what is no directory. */
		if ((!n || !S_ISDIR(n->mode)) && rnd_below(&d->rng, 8))
			break;
	}
}

int dr_check_stat(struct drive *d, struct ref_node *n, const char *path, int fd)
{
	int64_t mtime;
	struct stat st;

	if (fd >= 0 ? fstat(fd, &st) : lstat(path, &st))
		return dr_fail(d, "stat of %s: %s", path ? path : "handle", strerror(errno));
	if (n->ino && n->ino != st.st_ino)
		return dr_fail(d, "inode %llu became %llu", (unsigned long long)n->ino,
			       (unsigned long long)st.st_ino);
	n->ino = st.st_ino;
	if (st.st_mode != n->mode && !S_ISLNK(n->mode))
		return dr_fail(d, "mode is %o, should be %o", st.st_mode, n->mode);
	if ((st.st_mode ^ n->mode) & S_IFMT)
		return dr_fail(d, "type is %o, should be %o", st.st_mode, n->mode);
	if (st.st_nlink != ref_nlink(n))
		return dr_fail(d, "nlink is %lu, should be %u", (unsigned long)st.st_nlink,
			       ref_nlink(n));
	if (st.st_uid != n->uid || st.st_gid != n->gid)
		return dr_fail(d, "owner is %u:%u, should be %u:%u", st.st_uid, st.st_gid, n->uid,
			       n->gid);
	if (S_ISREG(n->mode) && (size_t)st.st_size != n->size)
		return dr_fail(d, "size is %lld, should be %zu", (long long)st.st_size, n->size);
	if (S_ISLNK(n->mode) && (size_t)st.st_size != strlen(n->target))
		return dr_fail(d, "size of a link is %lld", (long long)st.st_size);
	mtime = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
	if (n->mtime && n->mtime != mtime)
		return dr_fail(d, "mtime is %lld, was set to %lld", (long long)mtime,
			       (long long)n->mtime);
	return 0;
}

int dr_check_data(struct drive *d, struct ref_node *n, int fd)
{
	uint8_t *buf = malloc(n->size + 4096);
	size_t done = 0, i;
	ssize_t got;

	if (!buf)
		abort();
	while ((got = pread(fd, buf + done, n->size + 4096 - done, (off_t)done)) > 0)
		done += (size_t)got;
	if (got < 0 || done != n->size) {
		free(buf);
		return got < 0 ? dr_fail(d, "read: %s", strerror(errno))
			       : dr_fail(d, "read gives %zu bytes, should be %zu", done, n->size);
	}
	for (i = 0; i < done && buf[i] == n->data[i]; i++)
		;
	got = i < done ? buf[i] : 0;
	free(buf);
	return i < done ? dr_fail(d, "byte %zu of %zu is 0x%02zx, should be 0x%02x", i, done,
				  (size_t)got, n->data[i])
			: 0;
}

static int check_xattrs(struct drive *d, struct ref_node *n, const char *path)
{
	uint8_t buf[REF_VALUE + 1];
	char name[16];

	for (unsigned i = 0; i < REF_XATTRS; i++) {
		const struct ref_xattr *x = &n->xattr[i];
		ssize_t len;

		snprintf(name, sizeof(name), "user.x%u", i);
		len = lgetxattr(path, name, buf, sizeof(buf));
		if (len < 0 ? x->set || errno != ENODATA
			    : !x->set || (size_t)len != x->len || memcmp(buf, x->value, x->len))
			return dr_fail(d, "%s of %s is wrong (%zd)", name, path, len);
	}
	return 0;
}

static int check_names(struct drive *d, const struct ref_node *n, const char *path)
{
	bool seen[REF_NAMES] = {false};
	struct dirent *e;
	DIR *dir = opendir(path);
	unsigned i;

	if (!dir)
		return dr_fail(d, "opendir %s: %s", path, strerror(errno));
	while ((e = readdir(dir))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		for (i = 0; i < REF_NAMES && strcmp(e->d_name, ref_name[i]); i++)
			;
		if (i == REF_NAMES || seen[i] || !n->child[i])
			break;
		if (e->d_type != DT_UNKNOWN &&
		    (uint32_t)DTTOIF(e->d_type) != (n->child[i]->mode & S_IFMT))
			break;
		seen[i] = true;
	}
	if (e)
		dr_fail(d, "readdir gives a wrong %s", e->d_name);
	closedir(dir);
	for (i = 0; i < REF_NAMES && !e; i++)
		if (n->child[i] && !seen[i])
			return dr_fail(d, "readdir misses %s", ref_name[i]);
	return e ? -1 : 0;
}

static int check_tree(struct drive *d, struct ref_node *n, const char *path)
{
	char sub[4096], target[REF_TARGET + 1];
	int err = dr_check_stat(d, n, path, -1), fd;
	ssize_t len;

	if (!err && !S_ISLNK(n->mode) && !S_ISFIFO(n->mode))
		err = check_xattrs(d, n, path);
	if (!err && S_ISLNK(n->mode)) {
		len = readlink(path, target, sizeof(target));
		if (len != (ssize_t)strlen(n->target) || memcmp(target, n->target, (size_t)len))
			err = dr_fail(d, "readlink of %s is wrong", path);
	}
	if (!err && S_ISREG(n->mode)) {
		fd = open(path, O_RDONLY);
		if (fd < 0)
			return dr_fail(d, "open of %s: %s", path, strerror(errno));
		err = dr_check_data(d, n, fd);
		close(fd);
		if (err)
			fprintf(stderr, "  (in %s)\n", path);
	}
	if (err || !S_ISDIR(n->mode))
		return err;
	err = check_names(d, n, path);
	for (unsigned i = 0; i < REF_NAMES && !err; i++)
		if (n->child[i]) {
			snprintf(sub, sizeof(sub), "%s/%s", path, ref_name[i]);
			err = check_tree(d, n->child[i], sub);
		}
	return err;
}

int drive_check_all(struct drive *d)
{
	dr_note(d, "check of everything");
	return check_tree(d, d->root, d->base);
}

static int sync_mapped(struct drive *d, struct ref_node *n, const char *path)
{
	char sub[4096];
	int fd, err = 0;

	if (n->mapped) {
		fd = open(path, O_RDWR);
		if (fd < 0 || fsync(fd))
			err = dr_fail(d, "fsync of %s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		n->mapped = false;
	}
	for (unsigned i = 0; i < REF_NAMES && !err; i++)
		if (n->child[i]) {
			snprintf(sub, sizeof(sub), "%s/%s", path, ref_name[i]);
			err = sync_mapped(d, n->child[i], sub);
		}
	return err;
}

int drive_close_all(struct drive *d)
{
	for (unsigned i = 0; i < DR_HANDLES; i++) {
		struct dr_handle *h = &d->handle[i];

		if (h->fd < 0)
			continue;
		if (close(h->fd))
			return dr_fail(d, "close: %s", strerror(errno));
		h->fd = -1;
		h->node->opens--;
		ref_put(h->node);
	}
	return sync_mapped(d, d->root, d->base);
}

int drive_step(struct drive *d)
{
	int err;

	d->step++;
	err = rnd_below(&d->rng, 5) < 2 ? dr_names_step(d) : dr_data_step(d);
	/* Not every step: a look may hide what comes later. */
	if (!err && !rnd_below(&d->rng, 1000))
		err = drive_check_all(d);
	return err;
}
