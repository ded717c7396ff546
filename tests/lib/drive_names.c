/* SPDX-License-Identifier: Apache-2.0 */
#include "drive.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ERR(call) ((call) < 0 ? errno : 0)

static const char *rel(const struct drive *d, const char *path)
{
	return path + strlen(d->base);
}

static uint32_t some_mode(struct drive *d)
{
	return 0700 | (uint32_t)rnd_below(&d->rng, 0100);
}

static int made(struct drive *d, int want, int got, struct ref_node *n)
{
	int err = dr_expect(d, want, got);

	if (!err && !got) {
		n->uid = getuid();
		n->gid = getgid();
	}
	return err;
}

static int op_mkdir(struct drive *d, const struct ref_path *p, const char *path)
{
	uint32_t mode = some_mode(d);
	struct ref_node *n = NULL;
	int want;

	dr_note(d, "mkdir %o %s", mode, rel(d, path));
	want = ref_create(d->root, p, S_IFDIR | mode, &n);
	return made(d, want, ERR(mkdir(path, mode)), n);
}

static int op_mkfifo(struct drive *d, const struct ref_path *p, const char *path)
{
	uint32_t mode = some_mode(d);
	struct ref_node *n = NULL;
	int want;

	dr_note(d, "mkfifo %o %s", mode, rel(d, path));
	want = ref_create(d->root, p, S_IFIFO | mode, &n);
	return made(d, want, ERR(mkfifo(path, mode)), n);
}

static int op_symlink(struct drive *d, const struct ref_path *p, const char *path)
{
	struct ref_node *n = NULL;
	char target[REF_TARGET];
	int want;

	snprintf(target, sizeof(target), "nowhere-%llu", (unsigned long long)d->serial++);
	dr_note(d, "symlink %s", rel(d, path));
	want = ref_create(d->root, p, S_IFLNK | 0777, &n);
	if (!want)
		memcpy(n->target, target, sizeof(target));
	return made(d, want, ERR(symlink(target, path)), n);
}

static int op_unlink(struct drive *d, const struct ref_path *p, const char *path)
{
	dr_note(d, "unlink %s", rel(d, path));
	return dr_expect(d, ref_unlink(d->root, p), ERR(unlink(path)));
}

static int op_rmdir(struct drive *d, const struct ref_path *p, const char *path)
{
	dr_note(d, "rmdir %s", rel(d, path));
	return dr_expect(d, ref_rmdir(d->root, p), ERR(rmdir(path)));
}

static int op_link(struct drive *d, const struct ref_path *p, const char *path)
{
	struct ref_path to;
	char b[4096];

	dr_some_path(d, &to);
	ref_path_text(d->base, &to, b, sizeof(b));
	dr_note(d, "link %s %s", rel(d, path), rel(d, b));
	return dr_expect(d, ref_link(d->root, p, &to), ERR(link(path, b)));
}

static int op_rename(struct drive *d, const struct ref_path *p, const char *path)
{
	static const unsigned how[] = {0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
	unsigned flags = how[rnd_below(&d->rng, 5)];
	struct ref_path to;
	char b[4096];

	dr_some_path(d, &to);
	ref_path_text(d->base, &to, b, sizeof(b));
	dr_note(d, "rename %u %s %s", flags, rel(d, path), rel(d, b));
	return dr_expect(d, ref_rename(d->root, p, &to, flags),
			 ERR(renameat2(AT_FDCWD, path, AT_FDCWD, b, flags)));
}

/* Calls that follow symbolic links find nothing behind those of the reference. */
static int find_followed(struct drive *d, const struct ref_path *p, struct ref_node **ret)
{
	int e = ref_find(d->root, p, ret);

	return !e && S_ISLNK((*ret)->mode) ? ENOENT : e;
}

static int op_chmod(struct drive *d, const struct ref_path *p, const char *path)
{
	uint32_t mode = some_mode(d);
	struct ref_node *n = NULL;
	int want = find_followed(d, p, &n);

	dr_note(d, "chmod %o %s", mode, rel(d, path));
	if (!want)
		n->mode = (n->mode & S_IFMT) | mode;
	return dr_expect(d, want, ERR(chmod(path, mode)));
}

static int op_chown(struct drive *d, const struct ref_path *p, const char *path)
{
	struct ref_node *n = NULL;
	int want = ref_find(d->root, p, &n);
	uint32_t id = (uint32_t)rnd_below(&d->rng, 3);

	if (getuid())
		return 0;
	dr_note(d, "lchown %u %s", id, rel(d, path));
	if (!want)
		n->uid = n->gid = id;
	return dr_expect(d, want, ERR(lchown(path, id, id)));
}

static int op_utimens(struct drive *d, const struct ref_path *p, const char *path)
{
	int64_t t = INT64_C(1000000000000000001) + (int64_t)rnd_below(&d->rng, UINT64_C(1) << 59);
	struct timespec ts[2] = {{.tv_nsec = UTIME_OMIT}, {t / 1000000000, t % 1000000000}};
	struct ref_node *n = NULL;
	int want = ref_find(d->root, p, &n);

	dr_note(d, "utimens %lld %s", (long long)t, rel(d, path));
	if (!want)
		n->mtime = n->mapped ? 0 : t;
	return dr_expect(d, want, ERR(utimensat(AT_FDCWD, path, ts, AT_SYMLINK_NOFOLLOW)));
}

static int op_truncate(struct drive *d, const struct ref_path *p, const char *path)
{
	size_t size = rnd_below(&d->rng, d->big);
	struct ref_node *n = NULL;
	int want = find_followed(d, p, &n);

	if (!want && S_ISDIR(n->mode))
		want = EISDIR;
	else if (!want && !S_ISREG(n->mode))
		want = EINVAL;
	dr_note(d, "truncate %zu %s", size, rel(d, path));
	if (!want) {
		ref_size(n, size);
		n->mtime = 0;
	}
	return dr_expect(d, want, ERR(truncate(path, (off_t)size)));
}

static int op_stat(struct drive *d, const struct ref_path *p, const char *path)
{
	struct ref_node *n = NULL;
	int want = ref_find(d->root, p, &n);
	struct stat st;

	dr_note(d, "lstat %s", rel(d, path));
	if (want)
		return dr_expect(d, want, ERR(lstat(path, &st)));
	return dr_check_stat(d, n, path, -1);
}

static int op_readlink(struct drive *d, const struct ref_path *p, const char *path)
{
	struct ref_node *n = NULL;
	char target[REF_TARGET];
	int want = ref_find(d->root, p, &n);
	ssize_t len;

	if (!want && !S_ISLNK(n->mode))
		want = EINVAL;
	dr_note(d, "readlink %s", rel(d, path));
	len = readlink(path, target, sizeof(target));
	if (len >= 0 && !want &&
	    (strlen(n->target) != (size_t)len || memcmp(target, n->target, (size_t)len)))
		return dr_fail(d, "the target is wrong");
	return dr_expect(d, want, len < 0 ? errno : 0);
}

static int op_setxattr(struct drive *d, const struct ref_path *p, const char *path)
{
	static const int how[] = {0, 0, XATTR_CREATE, XATTR_REPLACE};
	unsigned i = (unsigned)rnd_below(&d->rng, REF_XATTRS);
	int flags = how[rnd_below(&d->rng, 4)], want;
	size_t len = rnd_below(&d->rng, REF_VALUE + 1);
	uint8_t value[REF_VALUE];
	struct ref_node *n = NULL;
	char name[16];

	snprintf(name, sizeof(name), "user.x%u", i);
	fm_fill(value, d->serial++, 0, len);
	want = ref_find(d->root, p, &n);
	if (!want && !S_ISREG(n->mode) && !S_ISDIR(n->mode))
		want = EPERM;
	else if (!want && flags == XATTR_CREATE && n->xattr[i].set)
		want = EEXIST;
	else if (!want && flags == XATTR_REPLACE && !n->xattr[i].set)
		want = ENODATA;
	if (!want) {
		n->xattr[i].set = true;
		n->xattr[i].len = len;
		memcpy(n->xattr[i].value, value, len);
	}
	dr_note(d, "setxattr %d %s %zu %s", flags, name, len, rel(d, path));
	return dr_expect(d, want, ERR(lsetxattr(path, name, value, len, flags)));
}

static int op_removexattr(struct drive *d, const struct ref_path *p, const char *path)
{
	unsigned i = (unsigned)rnd_below(&d->rng, REF_XATTRS);
	struct ref_node *n = NULL;
	char name[16];
	int want;

	snprintf(name, sizeof(name), "user.x%u", i);
	want = ref_find(d->root, p, &n);
	if (!want && !S_ISREG(n->mode) && !S_ISDIR(n->mode))
		want = EPERM;
	else if (!want && !n->xattr[i].set)
		want = ENODATA;
	if (!want)
		n->xattr[i].set = false;
	dr_note(d, "removexattr %s %s", name, rel(d, path));
	return dr_expect(d, want, ERR(lremovexattr(path, name)));
}

static int op_listxattr(struct drive *d, const struct ref_path *p, const char *path)
{
	unsigned want_n = 0, got_n = 0;
	struct ref_node *n = NULL;
	char list[1024];
	ssize_t len;

	dr_note(d, "listxattr %s", rel(d, path));
	if (ref_find(d->root, p, &n) || S_ISLNK(n->mode) || S_ISFIFO(n->mode))
		return 0;
	for (unsigned i = 0; i < REF_XATTRS; i++)
		want_n += n->xattr[i].set;
	len = llistxattr(path, list, sizeof(list));
	if (len < 0)
		return dr_fail(d, "listxattr: %s", strerror(errno));
	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(list + at) + 1) {
		unsigned i = (unsigned)(list[at + 6] - '0');

		if (strncmp(list + at, "user.x", 6))
			continue;
		if (i >= REF_XATTRS || !n->xattr[i].set)
			return dr_fail(d, "%s is listed", list + at);
		got_n++;
	}
	return got_n == want_n ? 0 : dr_fail(d, "%u names are listed, should be %u", got_n, want_n);
}

int dr_names_step(struct drive *d)
{
	static int (*const op[])(struct drive *, const struct ref_path *, const char *) = {
		op_mkdir,	op_mkdir,     op_mkfifo,  op_symlink,  op_unlink,   op_unlink,
		op_rmdir,	op_link,      op_link,	  op_rename,   op_rename,   op_rename,
		op_chmod,	op_chown,     op_utimens, op_utimens,  op_truncate, op_truncate,
		op_stat,	op_stat,      op_stat,	  op_readlink, op_setxattr, op_setxattr,
		op_removexattr, op_listxattr,
	};
	struct ref_path p;
	char path[4096];

	dr_some_path(d, &p);
	ref_path_text(d->base, &p, path, sizeof(path));
	return op[rnd_below(&d->rng, sizeof(op) / sizeof(op[0]))](d, &p, path);
}
