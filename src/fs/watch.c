/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other sessions do. Two threads:
 *
 *	watch	polls for commits, tells this mount's own tables, moves the session's tail, beats for its
 *		lease, looks after dead sessions. Never waits for the kernel.
 *	notify	tells the kernel, one thing after the other, with nothing held: that waits for requests
 *		which the kernel has in flight with us.
 *
 * Nothing that a strict, commit or session mount promises rests on how soon they come to it: while
 * the file system is shared those have times to live of 0. It may be late for whatever lives longer.
 */
#include "fs/laminate.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/pool.h"
#include <inttypes.h>
#include <string.h>

LOG_MODULE("watch");

#define WATCH_POLL  (20 * NS_PER_MS)
#define WATCH_STALE (100 * NS_PER_MS)	/* without a look for so long there may be others */
#define WATCH_TAIL  (200 * NS_PER_MS)	/* how late the tail may be when nobody waits for it */
#define WATCH_DEAD  NS_PER_S
#define WATCH_PATIENCE (30 * NS_PER_S)
#define WATCH_QUEUE 65536u
#define WATCH_NAMES 64u

enum note_kind { NOTE_INODE, NOTE_ENTRY, NOTE_DROP };
struct note {
	struct list_node link;
	enum note_kind kind;
	bool data;
	uint64_t ino, off, bytes; /* bytes: only these pages, and before all else that is queued */
	void (*done)(void *arg);
	void *arg;
	size_t len;
	char name[];
};

bool fs_shared(const struct fs *fs)
{
	return atomic_load_explicit(&fs->shared, memory_order_relaxed) ||
	       clock_now_coarse() - atomic_load_explicit(&fs->watch.looked, memory_order_relaxed) >
		       WATCH_STALE;
}

bool fs_fenced(const struct fs *fs)
{
	return meta_fenced(fs->conf.meta);
}

/* ---- what waits for the notify thread ---- */

/* Drops are never given up: somebody waits for them. */
static int note_push(struct watch *w, enum note_kind kind, const struct note *in, const char *name)
{
	struct note *n = mem_alloc(sizeof(*n) + in->len + 1);

	if (n) {
		*n = *in;
		n->kind = kind;
		memcpy(n->name, name, in->len);
		n->name[in->len] = '\0'; /* libfuse sends it along */
	}
	scoped_lock(&w->lock);
	if (kind != NOTE_DROP && (!n || w->nnotes >= WATCH_QUEUE || !w->kernel)) {
		w->overflow |= w->kernel != NULL;
		free(n);
		return 0;
	}
	if (!n || !w->kernel) {
		free(n);
		return n ? 1 : -ENOMEM;
	}
	if (n->bytes)
		list_push_front(&w->notes, &n->link);
	else
		list_push_back(&w->notes, &n->link);
	w->nnotes++;
	cond_wake_all(&w->told);
	return 0;
}

void watch_forget_inode(struct fs *fs, uint64_t ino)
{
	struct note n = {.ino = ino, .data = true};

	(void)note_push(&fs->watch, NOTE_INODE, &n, "");
}

void watch_forget_name(struct fs *fs, uint64_t dir, const char *name, size_t len)
{
	struct note n = {.ino = dir, .len = len};

	(void)note_push(&fs->watch, NOTE_ENTRY, &n, name);
}

static int watch_drop(struct fs *fs, const struct note *in)
{
	int r = note_push(&fs->watch, NOTE_DROP, in, "");

	if (r == 1)
		in->done(in->arg);
	return r < 0 ? r : 0;
}

int fs_drop_pages(struct fs *fs, uint64_t ino, void (*done)(void *arg), void *arg)
{
	struct note n = {.ino = ino, .data = true, .done = done, .arg = arg};

	return watch_drop(fs, &n);
}

int watch_drop_range(struct fs *fs, uint64_t ino, uint64_t off, uint64_t len, void (*done)(void *arg), void *arg)
{
	struct note n = {.ino = ino, .off = off, .bytes = len, .done = done, .arg = arg};

	return watch_drop(fs, &n);
}

/* First what a read would be answered from, then what was answered. */
static void notify_pages(void *arg, uint64_t ino)
{
	struct fs *fs = arg;
	struct watch *w = &fs->watch;
	struct fs_inode *in;
	bool used = icache_pin(fs, ino, &in) == 0;

	if (used) {
		refill_begin(fs, in);
		icache_refresh(fs, ino);
	}
	w->kernel->inode(w->kernel_arg, ino, 0, 0);
	if (used) {
		refill_end(fs, in);
		icache_unpin(fs, in);
	}
}

struct root_names {
	uint64_t cookie;
	unsigned n;
	struct {
		uint8_t len;
		char name[TESS_NAME_MAX + 1]; /* with the NUL that libfuse sends along */
	} at[WATCH_NAMES];
};

static int root_names_add(void *arg, const struct meta_dirent *e)
{
	struct root_names *w = arg;

	w->cookie = e->cookie;
	if (e->cookie <= 2) /* "." and ".." */
		return 0;
	w->at[w->n].len = (uint8_t)e->nlen;
	memcpy(w->at[w->n].name, e->name, e->nlen);
	w->at[w->n].name[e->nlen] = '\0';
	return ++w->n == WATCH_NAMES;
}

/*
 * For a kernel that cannot forget all names at once: with the name of a directory it forgets those
 * below. Names of the root that are gone it keeps as long as it was told to.
 */
static void notify_root_names(struct fs *fs)
{
	scoped_free struct root_names *w = mem_zalloc(sizeof(*w));
	int r = w ? 0 : -ENOMEM;

	while (r == 0 && (w->cookie == 0 || w->n == WATCH_NAMES)) {
		w->n = 0;
		r = meta_readdir(fs->conf.meta, TESS_ROOT_INO, w->cookie, false, root_names_add, w);
		for (unsigned i = 0; i < w->n; i++)
			fs->watch.kernel->entry(fs->watch.kernel_arg, TESS_ROOT_INO, w->at[i].name,
						w->at[i].len);
	}
	if (r < 0)
		log_warn("the kernel may keep names as long as it was told to: %s", err_text(r));
}

static void notify_all(struct fs *fs)
{
	log_notice("much has changed at once: the kernel forgets all there is");
	if (!fs->watch.kernel->names(fs->watch.kernel_arg))
		notify_root_names(fs);
	icache_each(fs, notify_pages, fs);
	laminate_forget(fs, notify_pages, fs);
}

static void notify_one(struct fs *fs, struct note *n)
{
	struct watch *w = &fs->watch;

	if (n->kind == NOTE_ENTRY) {
		w->kernel->entry(w->kernel_arg, n->ino, n->name, n->len);
		return;
	}
	if (n->bytes)
		w->kernel->inode(w->kernel_arg, n->ino, (int64_t)n->off, (int64_t)n->bytes);
	else if (n->data)
		notify_pages(fs, n->ino);
	else
		w->kernel->inode(w->kernel_arg, n->ino, FS_KERNEL_ATTR, 0);
}

static void *notify_main(void *arg)
{
	struct fs *fs = arg;
	struct watch *w = &fs->watch;

	for (;;) {
		struct list_node *pos;
		struct note *n;
		bool all;

		lock_take(&w->lock);
		while (list_empty(&w->notes) && !w->overflow && !w->ending)
			cond_wait(&w->told, &w->lock);
		pos = list_pop_front(&w->notes);
		w->nnotes -= pos != NULL;
		all = w->overflow && !w->ending;
		w->overflow = false;
		if (!pos && !all) {
			lock_drop(&w->lock);
			return NULL;
		}
		bool tell = !w->ending;

		lock_drop(&w->lock);
		if (all)
			notify_all(fs);
		n = pos ? list_entry(pos, struct note, link) : NULL;
		if (n && tell)
			notify_one(fs, n);
		if (n && n->done)
			n->done(n->arg);
		free(n);
	}
}

void fs_watch_begin(struct fs *fs, const struct fs_kernel *kernel, void *arg)
{
	struct watch *w = &fs->watch;
	int r;

	scoped_lock(&w->lock);
	w->kernel = kernel;
	w->kernel_arg = arg;
	w->ending = false;
	r = thread_start(&w->notifier, "notify", notify_main, fs);
	if (r < 0) {
		w->kernel = NULL;
		log_err("changes of other mounts will be seen late: %s", err_text(r));
	}
}

void fs_watch_end(struct fs *fs)
{
	struct watch *w = &fs->watch;
	bool on;

	lock_take(&w->lock);
	on = w->kernel != NULL;
	w->ending = true;
	cond_wake_all(&w->told);
	lock_drop(&w->lock);
	if (!on)
		return;
	pthread_join(w->notifier, NULL);
	lock_take(&w->lock);
	w->kernel = NULL;
	lock_drop(&w->lock);
	/* What came between the thread's end and here. */
	for (struct list_node *pos; (pos = list_pop_front(&w->notes));) {
		struct note *n = list_entry(pos, struct note, link);

		if (n->done)
			n->done(n->arg);
		free(n);
	}
	w->nnotes = 0;
}

/* ---- looking ---- */

/* Inside a read transaction: only kept. */
static void watch_collect(void *arg, const struct meta_change *c)
{
	struct watch *w = arg;
	struct watch_change *x;

	if (w->nchanges == w->cap) {
		unsigned cap = MAX(64u, w->cap * 2);

		x = mem_resize(w->changes, cap, sizeof(*x));
		if (!x) {
			w->missed = true;
			return;
		}
		w->changes = x;
		w->cap = cap;
	}
	x = &w->changes[w->nchanges++];
	x->kind = c->kind;
	x->ino = c->ino;
	x->len = (uint16_t)MIN(c->nlen, sizeof(x->name));
	if (x->len)
		memcpy(x->name, c->name, x->len);
}

/* Before the tail says that we know of it. */
static int watch_orphan(struct fs *fs, uint64_t ino)
{
	int r;

	if (!icache_in_use(fs, ino))
		return 0;
	r = meta_orphan_hold(fs->conf.meta, ino);
	if (r == 0)
		icache_unlinked(fs, ino);
	return r == -TESS_E_STALE ? 0 : r;
}

/*
 * Whether the kernel may hold attributes longer than until it asks again. If it does not, it must not be
 * told to forget them: it throws away the answer to a question that is under way meanwhile, and a read
 * ends where the file ended before.
 */
static bool watch_holds(const struct fs *fs)
{
	const struct tess_policy *p = fs->conf.policy;

	return (p->attr_ttl != POLICY_AUTO && p->attr_ttl != 0) ||
	       (p->dir_ttl != POLICY_AUTO && p->dir_ttl != 0) || p->relaxed_meta ||
	       atomic_load_explicit(&fs->kept, memory_order_relaxed);
}

static int watch_change(struct fs *fs, const struct watch_change *c)
{
	struct watch *w = &fs->watch;
	struct note n = {.ino = c->ino, .len = c->len};

	if (c->kind != META_CHANGE_NAME)
		laminate_changed(fs, c->ino);
	switch (c->kind) {
	case META_CHANGE_ORPHAN:
		return watch_orphan(fs, c->ino);
	case META_CHANGE_DATA:
		n.data = icache_timed(fs, c->ino);
		return n.data ? note_push(w, NOTE_INODE, &n, "") : 0;
	case META_CHANGE_ATTR:
		return watch_holds(fs) ? note_push(w, NOTE_INODE, &n, "") : 0;
	case META_CHANGE_NAME:
		return note_push(w, NOTE_ENTRY, &n, c->name);
	}
	return 0;
}

static void watch_lost(struct fs *fs)
{
	struct watch *w = &fs->watch;

	log_warn("too much changed while this mount was stopped: it takes all it cached for old");
	scoped_lock(&w->lock);
	w->overflow = w->kernel != NULL;
	cond_wake_all(&w->told);
}

/* Open files whose unlinking went past us; what is gone by now stays open, and is ESTALE. */
static void watch_lost_one(void *arg, uint64_t ino)
{
	struct meta_attr a;
	struct fs *fs = arg;

	if (meta_getattr(fs->conf.meta, ino, &a) == 0 && (a.flags & META_ORPHAN))
		(void)watch_orphan(fs, ino);
}

/* 0 or negative: look again from where we were. */
static int watch_apply(struct fs *fs, const struct meta_look *look)
{
	struct watch *w = &fs->watch;
	int r = 0;

	if (look->lost || w->missed) {
		icache_each(fs, watch_lost_one, fs);
		watch_lost(fs);
	}
	for (unsigned i = 0; r == 0 && i < w->nchanges; i++) {
		w->urgent |= w->changes[i].kind == META_CHANGE_ORPHAN;
		r = watch_change(fs, &w->changes[i]);
	}
	return r;
}

static void watch_fenced(struct fs *fs)
{
	struct watch *w = &fs->watch;

	if (w->fenced)
		return;
	w->fenced = true;
	log_err("session %" PRIu32 " was shut out: it did not answer for longer than its lease, and another "
		"mount needed what it held. Nothing it has not published will be: unmount and mount again",
		meta_session_id(fs->conf.meta));
	io_rescue(fs->conf.io);
}

/* 1: there is more. */
static int watch_look(struct fs *fs)
{
	struct watch *w = &fs->watch;
	struct meta_look look;
	int r;

	w->nchanges = 0;
	w->missed = false;
	r = meta_look(fs->conf.meta, w->tail, watch_collect, w, &look);
	if (r < 0)
		return r;
	atomic_store(&fs->shared, look.sessions > 1);
	if (look.sessions > 1)
		atomic_store(&fs->was_shared, true);
	if (look.sessions > 1 && w->sessions <= 1)
		io_publish_cuts(fs->conf.io);
	if (look.fenced)
		watch_fenced(fs);
	r = watch_apply(fs, &look);
	if (r < 0)
		return r;
	/* Somebody who joined waits for this; and who is alone again clears the log. */
	w->urgent |= look.joined != w->joined || (look.sessions == 1 && w->sessions != 1);
	w->behind |= look.notes > 0;
	w->joined = look.joined;
	w->sessions = look.sessions;
	w->tail = look.serial;
	return look.more;
}

static void watch_tail(struct fs *fs, int64_t now)
{
	struct watch *w = &fs->watch;
	int r;

	if (!w->urgent && (!w->behind || now < w->tail_at))
		return;
	r = meta_tail(fs->conf.meta, w->tail);
	if (r < 0 && r != -TESS_E_FENCED)
		log_warn("cannot say what this mount knows: %s", err_text(r));
	w->tail_at = now + WATCH_TAIL;
	w->behind = r != 0;
	w->urgent = r == 1;
}

/* ---- others ---- */

static void watch_dead(struct fs *fs)
{
	scoped_free struct meta_session *s = mem_array(WATCH_SESSIONS, sizeof(*s));
	unsigned n = 0;

	if (!s || meta_sessions(fs->conf.meta, s, WATCH_SESSIONS, &n) < 0)
		return;
	for (unsigned i = 0; i < n; i++) {
		if (s[i].id == meta_session_id(fs->conf.meta) || !meta_session_dead(&s[i]))
			continue;
		io_adopt(fs->conf.io);
		fs->watch.adopting = true;
		return;
	}
	/* Their orphans are ours now. */
	if (fs->watch.adopting)
		reclaim_kick(fs);
	fs->watch.adopting = false;
}

static void watch_seen(struct watch *w, uint64_t last)
{
	atomic_store(&w->looked, clock_now_coarse());
	scoped_lock(&w->lock);
	w->seen = last;
	cond_wake_all(&w->looks);
}

int watch_catch_up(struct fs *fs)
{
	uint64_t last = kv_last(meta_kv(fs->conf.meta));
	int64_t until = clock_now() + WATCH_PATIENCE;
	struct watch *w = &fs->watch;

	scoped_lock(&w->lock);
	cond_wake_all(&w->wake);
	while (w->seen < last && !w->stop)
		if (!cond_wait_until(&w->looks, &w->lock, until) && clock_now() >= until)
			return -ETIMEDOUT;
	return 0;
}

static void watch_round(struct fs *fs)
{
	struct watch *w = &fs->watch;
	struct kv *kv = meta_kv(fs->conf.meta);
	int64_t now = clock_now();
	uint64_t last = kv_last(kv);
	int r = last != w->seen;

	while (r == 1)
		r = watch_look(fs);
	if (r < 0)
		log_warn("cannot look what other mounts changed: %s", err_text(r));
	else
		watch_seen(w, last);
	if (meta_session_id(fs->conf.meta) == 0 || fs_fenced(fs))
		return;
	watch_tail(fs, now);
	/* Who is alone does not: nobody looks, and a disk may sleep. Who joins starts our lease. */
	if (w->sessions > 1 && now >= w->beat_at) {
		r = meta_session_beat(fs->conf.meta, clock_wall());
		if (r < 0 && r != -TESS_E_FENCED)
			log_warn("cannot beat: %s", err_text(r));
		w->beat_at = now + MAX(fs->conf.lease, WATCH_DEAD / 10) / 3;
	}
	if ((w->sessions > 1 || w->adopting) && now >= w->dead_at) {
		watch_dead(fs);
		w->dead_at = now + WATCH_DEAD;
	}
}

static void *watch_main(void *arg)
{
	struct fs *fs = arg;
	struct watch *w = &fs->watch;
	bool stop = false;

	while (!stop) {
		watch_round(fs);
		lock_take(&w->lock);
		if (!w->stop)
			cond_wait_until(&w->wake, &w->lock, clock_now() + WATCH_POLL);
		stop = w->stop;
		lock_drop(&w->lock);
	}
	return NULL;
}

int watch_start(struct fs *fs)
{
	struct watch *w = &fs->watch;
	struct meta_session self;
	int r = 0;

	lock_init(&w->lock, LOCK_LEAF, "fs.watch");
	cond_init(&w->wake);
	cond_init(&w->told);
	cond_init(&w->looks);
	list_init(&w->notes);
	if (!fs->conf.lease)
		fs->conf.lease = 30 * NS_PER_S;
	if (meta_session_id(fs->conf.meta))
		r = meta_session_get(fs->conf.meta, meta_session_id(fs->conf.meta), &self);
	if (r < 0)
		return r;
	/* This mount's kernel knows nothing that is older. */
	w->tail = meta_session_id(fs->conf.meta) ? self.joined : kv_last(meta_kv(fs->conf.meta));
	watch_round(fs);
	r = thread_start(&w->thread, "watch", watch_main, fs);
	w->running = r == 0;
	return r;
}

void watch_stop(struct fs *fs)
{
	struct watch *w = &fs->watch;

	lock_take(&w->lock);
	w->stop = true;
	cond_wake_all(&w->wake);
	cond_wake_all(&w->looks);
	lock_drop(&w->lock);
	if (w->running)
		pthread_join(w->thread, NULL);
	/* Nobody need wait for us any more, however long the rest of the end takes. */
	if (w->running && meta_session_id(fs->conf.meta))
		(void)meta_tail(fs->conf.meta, UINT64_MAX);
	w->running = false;
	free(w->changes);
	cond_done(&w->looks);
	cond_done(&w->told);
	cond_done(&w->wake);
	lock_done(&w->lock);
}
