/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an administrator who knows better than a time to live asks for: nothing of a subtree is answered
 * from memory any more. The walk is over the namespace, not through the mount, which would only fill
 * the caches again; the kernel is told by the notify thread, as of any change of another session.
 */
#include "fs/laminate.h"

#include "base/err.h"
#include "base/fault.h"
#include <string.h>

struct walk {
	struct fs *fs;
	uint64_t dir;
	uint64_t *dirs; /* owned: still to be walked */
	size_t n, cap;
	uint64_t cookie;
	unsigned left; /* of this look: a read transaction is short */
	int err;
};

#define WALK_LOOK 1024u

static void walk_forget(struct fs *fs, uint64_t ino)
{
	laminate_changed(fs, ino);
	watch_forget_inode(fs, ino);
}

static int walk_push(struct walk *w, uint64_t dir)
{
	if (w->n == w->cap) {
		size_t cap = MAX((size_t)64, w->cap * 2);
		uint64_t *more = mem_resize(w->dirs, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		w->dirs = more;
		w->cap = cap;
	}
	w->dirs[w->n++] = dir;
	return 0;
}

static int walk_entry(void *arg, const struct meta_dirent *e)
{
	struct walk *w = arg;

	w->cookie = e->cookie;
	if ((e->nlen == 1 && e->name[0] == '.') || (e->nlen == 2 && !memcmp(e->name, "..", 2)))
		return 0;
	watch_forget_name(w->fs, w->dir, e->name, e->nlen);
	walk_forget(w->fs, e->ino);
	if (S_ISDIR(e->type))
		w->err = walk_push(w, e->ino);
	return w->err || --w->left == 0;
}

static int walk_dir(struct walk *w, uint64_t dir)
{
	int r = 0;

	w->dir = dir;
	w->cookie = 0;
	w->left = 0;
	while (r == 0 && w->err == 0 && w->left == 0) {
		w->left = WALK_LOOK;
		r = meta_readdir(w->fs->conf.meta, dir, w->cookie, false, walk_entry, w);
	}
	return r ? r : w->err;
}

struct settled {
	struct lock lock; /* LOCK_LEAF */
	struct cond cond;
	bool done;
};

static void settled_done(void *arg)
{
	struct settled *s = arg;

	scoped_lock(&s->lock);
	s->done = true;
	cond_wake_all(&s->cond);
}

/* The notify thread works in order: when it has come to this one, it has told all before. */
static int walk_settle(struct fs *fs, uint64_t ino)
{
	struct settled s = {.done = false};
	int r;

	lock_init(&s.lock, LOCK_LEAF, "fs.settled");
	cond_init(&s.cond);
	r = fs_drop_pages(fs, ino, settled_done, &s);
	lock_take(&s.lock);
	while (r == 0 && !s.done)
		cond_wait(&s.cond, &s.lock);
	lock_drop(&s.lock);
	cond_done(&s.cond);
	lock_done(&s.lock);
	return r;
}

int fs_invalidate(struct fs *fs, uint64_t ino)
{
	struct walk w = {.fs = fs};
	struct meta_attr a;
	int r = meta_getattr(fs->conf.meta, ino, &a);

	walk_forget(fs, ino);
	if (r == 0 && S_ISDIR(a.mode))
		r = walk_push(&w, ino);
	/* No walk meets a name that is gone, or led to this inode; the change log has those. */
	if (r == 0 || r == -ENOENT || r == -TESS_E_STALE)
		r = watch_catch_up(fs);
	while (r == 0 && w.n > 0)
		r = walk_dir(&w, w.dirs[--w.n]);
	free(w.dirs);
	/* One that was removed meanwhile has nothing to forget. */
	if (r == -TESS_E_STALE || r == -ENOENT)
		r = 0;
	return r < 0 ? r : walk_settle(fs, ino);
}
