/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking and giving back. A lock says that what its holder reads is what the last one wrote: so
 * giving back publishes first, and taking looks at the namespace anew before it is granted.
 */
#include "fs/state.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/proc.h"
#include <string.h>

/* How long others that wait in another session are let pass: many times what they need to see it. */
#define LOCK_YIELD (100 * NS_PER_MS)
#define LOCK_DEAF  (2 * NS_PER_S)
/* For how long the end of a description may be on its way. */
#define LOCK_GOING (50 * NS_PER_MS)

/* ---- who may hold something: under the lock ---- */

static struct lock_file *file_find(const struct locks *k, uint64_t ino)
{
	struct htab_node *n = htab_find(&k->files, ino);

	return n ? container_of(n, struct lock_file, node) : NULL;
}

static struct lock_owner *owner_find(const struct lock_file *f, uint64_t owner, unsigned kind)
{
	if (f)
		list_for_each(n, &f->owners) {
			struct lock_owner *o = list_entry(n, struct lock_owner, link);

			if (o->owner == owner && o->kind == kind)
				return o;
		}
	return NULL;
}

static struct lock_pid *pid_find(const struct locks *k, uint32_t pid)
{
	struct htab_node *n = htab_find(&k->pids, pid);

	return n ? container_of(n, struct lock_pid, node) : NULL;
}

/* One whose number we do not see, of another PID namespace, may hold anything. */
bool locks_pid_holds(const struct locks *k, uint32_t pid)
{
	return !pid || pid_find(k, pid);
}

static void owner_holds(struct locks *k, struct lock_owner *o)
{
	struct lock_pid *p = pid_find(k, o->pid);

	if (o->holds)
		return;
	o->holds = true;
	if (!p) {
		/* Without it the process queues with those that hold nothing: less than ideal, no more. */
		p = mem_zalloc(sizeof(*p));
		if (!p)
			return;
		p->node.key = o->pid;
		htab_insert(&k->pids, &p->node);
	}
	p->n++;
}

static void owner_lost(struct locks *k, struct lock_owner *o)
{
	struct lock_pid *p = o->holds ? pid_find(k, o->pid) : NULL;

	o->holds = false;
	if (p && !--p->n) {
		htab_remove(&k->pids, &p->node);
		free(p);
	}
}

static void owner_free(struct locks *k, struct lock_file *f, struct lock_owner *o)
{
	owner_lost(k, o);
	k->undropped -= o->undropped;
	k->unheard -= o->unheard;
	list_remove(&o->link);
	free(o);
	if (!list_empty(&f->owners))
		return;
	htab_remove(&k->files, &f->node);
	lockset_done(&f->local);
	free(f);
}

static struct lock_owner *owner_enter(struct locks *k, const struct fs_lock *l)
{
	const struct meta_lock *w = &l->want;
	struct lock_file *f = file_find(k, w->ino), *fresh = NULL;
	struct lock_owner *o = owner_find(f, w->owner, w->kind);

	if (!o) {
		o = mem_zalloc(sizeof(*o));
		if (!f)
			f = fresh = mem_zalloc(sizeof(*f));
		if (!o || !f) {
			free(o);
			free(fresh);
			return NULL;
		}
		if (fresh) {
			f->node.key = w->ino;
			list_init(&f->owners);
			htab_insert(&k->files, &f->node);
		}
		o->owner = w->owner;
		o->kind = w->kind;
		o->pid = w->pid;
		list_push_back(&f->owners, &o->link);
	}
	o->fh = l->fh;
	o->flushed = 0;
	o->local = lock_is_local(l);
	if (l->fh->info.noflush && w->kind == META_LOCK_RANGE && !o->unheard) {
		o->unheard = true;
		if (!k->unheard++)
			cond_wake_one(&k->work);
	}
	o->busy++;
	o->count++;
	return o;
}

/* A range made readable, or a flock that was lost because it could not be converted, lets others in. */
static void owner_leave(struct locks *k, const struct fs_lock *l, struct lock_owner *o, int err)
{
	bool flock = l->want.kind == META_LOCK_FLOCK;
	bool gave = o->holds && (err ? flock && err == -EAGAIN
				     : flock || l->want.type == META_LOCK_READ);

	o->busy--;
	if (!err)
		owner_holds(k, o);
	else if (gave)
		owner_lost(k, o);
	if (gave)
		locks_poke(k, l->want.ino);
	if (!o->busy && !o->holds)
		owner_free(k, file_find(k, l->want.ino), o);
}

/* ---- one attempt ---- */

bool lock_is_local(const struct fs_lock *l)
{
	return l->fh->policy.locks == LOCKS_LOCAL;
}

/* Under the lock. */
static int local_set(struct lock_file *f, const struct meta_lock *want, bool *ret_left)
{
	struct meta_lock w = *want;
	int err = w.type && lockset_conflict(&f->local, &w) ? -EAGAIN : 0, r;

	if (err && (w.kind != META_LOCK_FLOCK || !lockset_holds(&f->local, &w)))
		return err;
	if (err) /* as between sessions: what cannot be converted is lost */
		w.type = META_LOCK_NONE;
	r = lockset_apply(&f->local, &w);
	lockset_sweep(&f->local);
	*ret_left = lockset_holds(&f->local, &w);
	return r ? r : err;
}

static struct meta_lock_op lock_op(struct fs *fs, struct fs_lock *l)
{
	struct locks *k = &fs->locks;
	struct meta_lock_op op = {.want = l->want, .now = clock_now()};

	scoped_lock(&k->lock);
	op.yield = l->wait && !locks_pid_holds(k, l->want.pid);
	op.deaf = op.now < k->deaf_until ? k->deaf : 0;
	return op;
}

/* Lets pass for so long; who has not come by then is stopped, and is not waited for any more. */
static void lock_yielded(struct locks *k, struct fs_lock *l, const struct meta_lock_op *op)
{
	if (!op->holder.wait) {
		l->yielded = 0;
	} else if (!l->yielded) {
		l->yielded = op->now;
	} else if (op->now - l->yielded > LOCK_YIELD) {
		k->deaf = op->holder.session;
		k->deaf_until = op->now + LOCK_DEAF;
		l->due = true;
	}
}

static int global_set(struct fs *fs, struct fs_lock *l)
{
	struct meta *m = fs->conf.meta;
	struct meta_lock_op op = lock_op(fs, l);
	int err = meta_lock_set(m, &op);

	if (err == -EAGAIN && op.lapsed) {
		err = meta_fence(m, op.lapsed);
		if (!err || err == -ENOENT)
			err = meta_lock_set(m, &op);
	}
	if (err == -EAGAIN) {
		scoped_lock(&fs->locks.lock);
		lock_yielded(&fs->locks, l, &op);
	}
	return err;
}

int lock_try(struct fs *fs, struct fs_lock *l)
{
	struct locks *k = &fs->locks;
	struct lock_owner *o;
	bool left;
	int err;

	lock_take(&k->lock);
	o = owner_enter(k, l);
	if (!o)
		err = -ENOMEM;
	else if (lock_is_local(l))
		err = local_set(file_find(k, l->want.ino), &l->want, &left);
	else {
		lock_drop(&k->lock);
		err = global_set(fs, l);
		lock_take(&k->lock);
	}
	if (o)
		owner_leave(k, l, o, err);
	lock_drop(&k->lock);
	return err;
}

/* Whether a descriptor of one who holds something of the file was closed just now. */
static bool lock_going(struct locks *k, uint64_t ino)
{
	int64_t since = clock_now() - LOCK_GOING;

	scoped_lock(&k->lock);
	struct lock_file *f = file_find(k, ino);

	if (f)
		list_for_each(n, &f->owners) {
			struct lock_owner *o = list_entry(n, struct lock_owner, link);

			if (o->holds && o->flushed > since)
				return true;
		}
	return false;
}

/*
 * close(2) waits for our answer when a descriptor goes, not when the description does: what a program
 * has just given back by it may be here still. Who does not want to wait would be told that it is held.
 */
static int lock_try_now(struct fs *fs, struct fs_lock *l)
{
	int64_t until = clock_now() + LOCK_GOING;
	int err = lock_try(fs, l);

	while (err == -EAGAIN && clock_now() < until && lock_going(&fs->locks, l->want.ino)) {
		clock_sleep(NS_PER_MS);
		err = lock_try(fs, l);
	}
	return err;
}

/* ---- granted ---- */

static int lock_give_back(struct fs *fs, const struct meta_lock *want);

static void lock_settled(void *arg)
{
	struct fs_lock *l = arg;

	icache_known_set(l->fh->fs, l->want.ino, l->generation);
	l->done(l, 0);
}

/* Pages of the generation that the namespace has now are as good as new ones. */
void lock_settle(struct fs *fs, struct fs_lock *l)
{
	struct meta_attr a;
	int err;

	if (lock_is_local(l) || l->fh->policy.refresh == REFRESH_NEVER) {
		l->done(l, 0);
		return;
	}
	err = meta_getattr(fs->conf.meta, l->want.ino, &a);
	if (!err) {
		io_file_look(l->fh->in->file, &a);
		if (icache_known_within(fs, a.ino, a.generation, 0)) {
			l->done(l, 0);
			return;
		}
		l->generation = a.generation;
		err = fs_drop_pages(fs, l->want.ino, lock_settled, l);
	}
	if (err == 0)
		return;
	/* What it would read may be old: not granted. */
	(void)lock_give_back(fs, &l->want);
	l->done(l, err);
}

/* ---- giving back ---- */

/* A failure is remembered on the file, for its fsync and close to report, as any late one is. */
static void lock_publish(struct fs_file *fh, struct tess_req *req)
{
	if (fh->policy.locks == LOCKS_GLOBAL && !atomic_load(&fh->in->orphan) &&
	    io_file_dirty(fh->in->file))
		(void)io_sync_file(fh->in->file, req, IO_PUBLISH);
}

static bool lock_may_hold(struct fs *fs, const struct meta_lock *w)
{
	scoped_lock(&fs->locks.lock);
	return owner_find(file_find(&fs->locks, w->ino), w->owner, w->kind);
}

/* Who holds nothing asks nothing of the namespace. */
static int lock_give_back(struct fs *fs, const struct meta_lock *want)
{
	struct meta_lock_op op = {.want = *want};
	struct locks *k = &fs->locks;
	struct lock_owner *o;
	unsigned count = 0;
	int err = 0;

	op.want.type = META_LOCK_NONE;
	op.want.wait = op.want.ticket = 0;
	lock_take(&k->lock);
	o = owner_find(file_find(k, want->ino), want->owner, want->kind);
	if (!o) {
		lock_drop(&k->lock);
		return 0;
	}
	count = o->count;
	if (o->local) {
		err = local_set(file_find(k, want->ino), &op.want, &op.left);
	} else {
		lock_drop(&k->lock);
		err = meta_lock_set(fs->conf.meta, &op);
		lock_take(&k->lock);
		o = owner_find(file_find(k, want->ino), want->owner, want->kind);
	}
	if (!err)
		locks_poke(k, want->ino);
	/* A request that came meanwhile may have been granted after we looked. */
	if (!err && !op.left && o && !o->busy && o->count == count)
		owner_free(k, file_find(k, want->ino), o);
	lock_drop(&k->lock);
	return err;
}

/* A close cannot fail for it: what does not go now is tried again. */
static void lock_close(struct fs *fs, const struct meta_lock *who)
{
	struct locks *k = &fs->locks;
	struct lock_owner *o;

	if (lock_give_back(fs, who) == 0)
		return;
	scoped_lock(&k->lock);
	o = owner_find(file_find(k, who->ino), who->owner, who->kind);
	if (!o || o->undropped)
		return;
	o->undropped = true;
	k->undropped++;
	cond_wake_one(&k->work);
}

static bool lock_next_undropped(struct locks *k, struct meta_lock *ret)
{
	scoped_lock(&k->lock);
	for (struct htab_node *n = NULL; (n = htab_next(&k->files, n));) {
		struct lock_file *f = container_of(n, struct lock_file, node);

		list_for_each(m, &f->owners) {
			struct lock_owner *o = list_entry(m, struct lock_owner, link);

			if (!o->undropped)
				continue;
			*ret = (struct meta_lock){.ino = n->key, .owner = o->owner,
						  .kind = o->kind, .end = META_LOCK_END};
			return true;
		}
	}
	return false;
}

void locks_drop_again(struct fs *fs)
{
	struct meta_lock who;

	while (lock_next_undropped(&fs->locks, &who))
		if (lock_give_back(fs, &who))
			break;
}

/* A descriptor of fh was closed. Whether `who` may hold something. */
static bool owners_flushed(struct locks *k, const struct fs_file *fh, const struct meta_lock *who)
{
	scoped_lock(&k->lock);
	struct lock_file *f = file_find(k, who->ino);

	if (f)
		list_for_each(n, &f->owners) {
			struct lock_owner *o = list_entry(n, struct lock_owner, link);

			if (o->fh == fh)
				o->flushed = clock_now();
		}
	return owner_find(f, who->owner, who->kind);
}

static bool lock_next_dead(struct locks *k, struct meta_lock *ret)
{
	uint64_t start;

	scoped_lock(&k->lock);
	for (struct htab_node *n = NULL; (n = htab_next(&k->files, n));)
		list_for_each(m, &container_of(n, struct lock_file, node)->owners) {
			struct lock_owner *o = list_entry(m, struct lock_owner, link);

			if (!o->unheard || o->busy || !o->pid || proc_start(o->pid, &start) != -ESRCH)
				continue;
			o->unheard = false;
			k->unheard--;
			*ret = (struct meta_lock){.ino = n->key, .owner = o->owner,
						  .kind = o->kind, .end = META_LOCK_END};
			return true;
		}
	return false;
}

void locks_drop_dead(struct fs *fs)
{
	struct meta_lock who;

	while (lock_next_dead(&fs->locks, &who))
		lock_close(fs, &who);
}

void fs_lock_flush(struct fs_file *fh, struct tess_req *req, uint64_t owner)
{
	struct meta_lock who = {.ino = fs_file_ino(fh), .owner = owner,
				.kind = META_LOCK_RANGE, .end = META_LOCK_END};

	if (!atomic_load_explicit(&fh->fs->locks.used, memory_order_relaxed))
		return;
	if (!owners_flushed(&fh->fs->locks, fh, &who))
		return;
	lock_publish(fh, req);
	lock_close(fh->fs, &who);
}

static bool lock_next_of(struct fs_file *fh, struct meta_lock *ret)
{
	struct locks *k = &fh->fs->locks;

	scoped_lock(&k->lock);
	struct lock_file *f = file_find(k, fs_file_ino(fh));

	if (f)
		list_for_each(n, &f->owners) {
			struct lock_owner *o = list_entry(n, struct lock_owner, link);

			if (o->fh != fh)
				continue;
			o->fh = NULL; /* each once */
			*ret = (struct meta_lock){.ino = f->node.key, .owner = o->owner,
						  .kind = o->kind, .end = META_LOCK_END};
			return true;
		}
	return false;
}

/*
 * The kernel says nothing of a description's ranges when it goes: but through it they were taken, and a
 * process that took some through it has lost them at its own close.
 */
void fs_lock_release(struct fs_file *fh, struct tess_req *req)
{
	struct meta_lock who;

	(void)fault_point("fs.lock.release");
	while (lock_next_of(fh, &who)) {
		lock_publish(fh, req);
		lock_close(fh->fs, &who);
	}
}

/* ---- requests ---- */

/* Others may read what is given back: a range, or the right to write it. */
void fs_lock_set(struct fs_lock *l)
{
	struct fs *fs = l->fh->fs;
	int err;

	atomic_store_explicit(&fs->locks.used, true, memory_order_relaxed);
	file_opened(l->fh);
	if (l->want.type != META_LOCK_WRITE && lock_may_hold(fs, &l->want))
		lock_publish(l->fh, l->req);
	if (l->queued) {
		locks_first_try(fs, l);
		return;
	}
	if (l->fh->policy.locks == LOCKS_OFF)
		err = -ENOLCK;
	else
		err = l->want.type ? lock_try_now(fs, l) : lock_give_back(fs, &l->want);
	if (!err && l->want.type)
		lock_settle(fs, l);
	else
		l->done(l, err);
}

int fs_lock_get(struct fs_file *fh, const struct meta_lock *want, struct meta_lock *ret)
{
	struct fs *fs = fh->fs;
	struct meta_lock_op op = {.want = *want, .now = clock_now()};
	const struct meta_lock *c = NULL;
	struct lock_file *f;
	int err;

	op.want.ino = fs_file_ino(fh);
	*ret = (struct meta_lock){.type = META_LOCK_NONE};
	if (fh->policy.locks == LOCKS_OFF)
		return -ENOLCK;
	if (fh->policy.locks == LOCKS_LOCAL) {
		scoped_lock(&fs->locks.lock);
		f = file_find(&fs->locks, op.want.ino);
		c = f ? lockset_conflict(&f->local, &op.want) : NULL;
		if (c)
			*ret = *c;
		return 0;
	}
	err = meta_lock_test(fs->conf.meta, &op);
	if (err == -EAGAIN && !op.lapsed)
		*ret = op.holder;
	return err == -EAGAIN ? 0 : err;
}

bool fs_lock_by_kernel(const struct fs *fs)
{
	const struct tess_policy *p = fs->conf.policy;

	return p->locks == LOCKS_LOCAL && p->mode == MODE_PRIVATE;
}

void locks_free(struct locks *k)
{
	struct htab_node *n;

	while ((n = htab_next(&k->files, NULL))) {
		struct lock_file *f = container_of(n, struct lock_file, node);

		owner_free(k, f, list_entry(f->owners.next, struct lock_owner, link));
	}
	while ((n = htab_next(&k->pids, NULL))) {
		htab_remove(&k->pids, n);
		free(container_of(n, struct lock_pid, node));
	}
}

int locks_gather(const struct locks *k, struct lockset *ret)
{
	int err = 0;

	for (struct htab_node *n = NULL; !err && (n = htab_next(&k->files, n));) {
		const struct lockset *s = &container_of(n, struct lock_file, node)->local;

		for (unsigned i = 0; i < s->n && !err; i++)
			err = lockset_add(ret, &s->v[i].l, true);
	}
	list_for_each(n, &k->waits) {
		const struct fs_lock *l = list_entry(n, struct fs_lock, link);

		if (!err && lock_is_local(l))
			err = lockset_add(ret, &l->want, true);
	}
	return err;
}
