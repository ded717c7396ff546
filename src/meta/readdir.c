/* SPDX-License-Identifier: Apache-2.0 */
/* Listing directories, and paths of inodes. */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"
#include <sys/stat.h>

struct readdir_op {
	uint64_t dir, cookie;
	bool want_attr;
	int (*fn)(void *arg, const struct meta_dirent *e);
	void *arg;
};

/* 1: the reply is full. */
static int readdir_emit(struct kv_txn *t, const struct readdir_op *o, struct meta_dirent *e)
{
	struct meta_attr a;
	int err = o->want_attr ? inode_get(t, e->ino, &a) : 0;

	if (err == -TESS_E_STALE)
		return 0; /* a name without an inode: the checker's */
	if (err)
		return err;
	e->attr = o->want_attr ? &a : NULL;
	return o->fn(o->arg, e) != 0;
}

static int readdir_run(struct kv_txn *t, void *arg)
{
	const struct readdir_op *o = arg;
	struct meta_attr dir;
	struct meta_dirent e = {.type = S_IFDIR};
	struct fmt_dentry d;
	uint64_t cookie;
	int err = inode_get(t, o->dir, &dir);

	if (!err && !S_ISDIR(dir.mode))
		err = -ENOTDIR;
	if (err || dir.nlink == 0)
		return err;
	for (e.cookie = o->cookie + 1; e.cookie <= 2 && !err; e.cookie++) {
		e.name = "..";
		e.nlen = e.cookie;
		e.ino = e.cookie == 1 ? o->dir : dir.parent;
		err = readdir_emit(t, o, &e);
	}
	if (err)
		return MIN(err, 0);
	err = dentry_first(t, o->dir, MAX(o->cookie + 1, FMT_COOKIE_MIN), &cookie, &d);
	while (!err) {
		e = (struct meta_dirent){d.name, d.nlen, d.ino, d.type, cookie, NULL};
		err = readdir_emit(t, o, &e);
		if (!err)
			err = dentry_next(t, o->dir, &cookie, &d);
	}
	return err > 0 ? 0 : absent_ok(err);
}

int meta_readdir(struct meta *m, uint64_t dir, uint64_t cookie, bool want_attr,
		 int (*fn)(void *arg, const struct meta_dirent *e), void *arg)
{
	struct readdir_op o = {dir, cookie, want_attr, fn, arg};

	return cookie >= (uint64_t)INT64_MAX ? 0 : kv_read(m->kv, readdir_run, &o);
}

/* ---- paths ---- */

struct path_op {
	struct meta *m;
	uint64_t ino;
	char *ret;
	size_t cap, at; /* ret[at..cap) is what there is of it */
};

/* The parent is a hint for a file: its name there is looked for, entry by entry. */
static int path_step(struct kv_txn *t, struct path_op *o, uint64_t dir, uint64_t ino)
{
	struct fmt_dentry d;
	uint64_t cookie;
	int err = dentry_first(t, dir, 0, &cookie, &d);

	while (!err && d.ino != ino)
		err = dentry_next(t, dir, &cookie, &d);
	if (err)
		return err;
	if (o->at < d.nlen + 1)
		return -ERANGE;
	o->at -= d.nlen;
	memcpy(o->ret + o->at, d.name, d.nlen);
	o->ret[--o->at] = '/';
	return 0;
}

static int path_run(struct kv_txn *t, void *arg)
{
	struct path_op *o = arg;
	uint64_t ino = o->ino;
	struct meta_attr a;
	int err = 0;

	if (o->cap < 2)
		return -ERANGE;
	o->at = o->cap;
	o->ret[--o->at] = 0;
	while (ino != TESS_ROOT_INO && !err) {
		err = inode_get(t, ino, &a);
		if (!err)
			err = a.nlink ? path_step(t, o, a.parent, ino) : -ENOENT;
		ino = a.parent;
	}
	if (err)
		return err == -TESS_E_STALE ? -ENOENT : err;
	if (o->at == o->cap - 1)
		o->ret[--o->at] = '/';
	memmove(o->ret, o->ret + o->at, o->cap - o->at);
	return 0;
}

int meta_path(struct meta *m, uint64_t ino, char *ret, size_t cap)
{
	struct path_op o = {.m = m, .ino = ino, .ret = ret, .cap = cap};

	return kv_read(m->kv, path_run, &o);
}

struct resolve_op {
	struct meta *m;
	const char *path;
	struct meta_attr *ret;
};

static int resolve_run(struct kv_txn *t, void *arg)
{
	struct resolve_op *o = arg;
	const char *s = o->path;
	struct meta_attr a;
	struct dent d;
	int err = inode_get(t, TESS_ROOT_INO, &a);

	while (!err) {
		size_t n;

		s += strspn(s, "/");
		n = strcspn(s, "/");
		if (n == 0)
			break;
		if (!S_ISDIR(a.mode))
			return -ENOTDIR;
		if (n > TESS_NAME_MAX)
			return -ENAMETOOLONG;
		if (n == 2 && memcmp(s, "..", 2) == 0) {
			err = inode_get(t, a.parent, &a);
		} else if (n != 1 || *s != '.') {
			err = dentry_find(t, o->m, a.ino, kv_val(s, n), &d);
			if (!err)
				err = inode_get(t, d.ino, &a);
		}
		s += n;
	}
	if (!err)
		*o->ret = a;
	return err;
}

int meta_resolve(struct meta *m, const char *path, struct meta_attr *ret)
{
	struct resolve_op o = {m, path, ret};

	return kv_read(m->kv, resolve_run, &o);
}
