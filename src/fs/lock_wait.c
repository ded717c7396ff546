/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for a lock holds no thread: one thread of the daemon tries for all. It is told what is
 * given back on this mount; for the others it looks whether the namespace has moved, every ms for one
 * that has just come, every 20 ms for one that waits long.
 *
 * Within a session requests that exclude each other are served as they came, so that readers who
 * keep coming do not starve a writer; who holds something already goes ahead, because others may wait
 * for that. One that still waits after LOCK_REGISTER is registered in the namespace: other
 * sessions let it pass, and circles are found.
 */
#include "fs/state.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/pool.h"

#define LOCK_REGISTER (20 * NS_PER_MS)
/* Nobody says when a session dies or lapses. */
#define LOCK_RECHECK  (100 * NS_PER_MS)
/* Who died holding what its description, opened before anybody locked, lives on with: rare. */
#define LOCK_UNHEARD  NS_PER_S
#define LOCK_POLL_MIN NS_PER_MS
#define LOCK_POLL_MAX (20 * NS_PER_MS)

static struct fs_lock *wait_of(struct list_node *n)
{
	return list_entry(n, struct fs_lock, link);
}

void locks_poke(struct locks *k, uint64_t ino)
{
	bool any = false;

	list_for_each(n, &k->waits)
		if (wait_of(n)->want.ino == ino)
			any = wait_of(n)->due = true;
	if (any)
		cond_wake_one(&k->work);
}

/* ---- the queue ---- */

uint64_t fs_lock_begin(struct fs_lock *l)
{
	struct locks *k = &l->fh->fs->locks;
	uint64_t number;

	l->want.ino = fs_file_ino(l->fh);
	if (!l->wait || !l->want.type || l->fh->policy.locks == LOCKS_OFF)
		return 0;
	scoped_lock(&k->lock);
	number = l->want.wait = ++k->numbers;
	l->queued = l->busy = true;
	l->since = clock_now();
	l->recheck = l->since + LOCK_RECHECK;
	list_push_back(&k->waits, &l->link);
	return number;
}

static bool wait_held_back(const struct locks *k, const struct fs_lock *l)
{
	list_for_each(n, &k->waits) {
		const struct fs_lock *e = wait_of(n);

		if (e == l)
			break;
		if (!e->cancelled && lock_excludes(&e->want, &l->want))
			return !locks_pid_holds(k, l->want.pid);
	}
	return false;
}

static void wait_finish(struct fs *fs, struct fs_lock *l, int err)
{
	struct locks *k = &fs->locks;

	if (err && l->want.ticket && !lock_is_local(l)) {
		struct meta_lock_op op = {.want = l->want};

		/* One that stays delays others a little, and goes with the session. */
		op.want.session = meta_session_id(fs->conf.meta);
		(void)meta_lock_wait_end(fs->conf.meta, &op);
	}
	lock_take(&k->lock);
	list_remove(&l->link);
	l->want.wait = l->want.ticket = 0;
	locks_poke(k, l->want.ino);
	lock_drop(&k->lock);
	if (err)
		l->done(l, err);
	else
		lock_settle(fs, l);
}

static int wait_circle(struct fs *fs, struct fs_lock *l)
{
	struct locks *k = &fs->locks;
	struct lockset all = {0};
	int err;

	scoped_lock(&k->lock);
	err = locks_gather(k, &all);
	if (!err && lockset_deadlock(&all, &l->want))
		err = -EDEADLK;
	lockset_done(&all);
	return err;
}

static int wait_register(struct fs *fs, struct fs_lock *l)
{
	struct meta_lock_op op = {.want = l->want};
	int err;

	op.want.ticket = 1;
	if (lock_is_local(l))
		err = l->want.kind == META_LOCK_RANGE ? wait_circle(fs, l) : 0;
	else
		err = meta_lock_wait(fs->conf.meta, &op);
	if (err)
		return err;
	scoped_lock(&fs->locks.lock);
	l->want.ticket = op.want.ticket;
	return 0;
}

/* Busy, and not under the lock. Ends the request, or leaves it to a later look. */
static void wait_try(struct fs *fs, struct fs_lock *l, bool held_back)
{
	struct locks *k = &fs->locks;
	int err = held_back ? -EAGAIN : lock_try(fs, l);

	if (err == -EAGAIN && !l->want.ticket && !atomic_load(&l->cancelled) &&
	    clock_now() - l->since >= LOCK_REGISTER) {
		int r = wait_register(fs, l);

		err = r < 0 ? r : err;
	}
	lock_take(&k->lock);
	if (err == -EAGAIN && l->cancelled)
		err = -EINTR;
	else if (err == -EAGAIN && k->stop)
		err = -TESS_E_STOPPING;
	if (err == -EAGAIN) {
		l->busy = false;
		l->recheck = clock_now() + LOCK_RECHECK;
		cond_wake_one(&k->work);
	}
	lock_drop(&k->lock);
	if (err != -EAGAIN)
		wait_finish(fs, l, err);
}

void locks_first_try(struct fs *fs, struct fs_lock *l)
{
	struct locks *k = &fs->locks;
	bool held_back;

	lock_take(&k->lock);
	held_back = wait_held_back(k, l);
	lock_drop(&k->lock);
	wait_try(fs, l, held_back);
}

void fs_lock_cancel(struct fs *fs, uint64_t number)
{
	struct locks *k = &fs->locks;

	scoped_lock(&k->lock);
	list_for_each(n, &k->waits)
		if (wait_of(n)->want.wait == number) {
			atomic_store(&wait_of(n)->cancelled, true);
			cond_wake_one(&k->work);
			return;
		}
}

/* ---- the thread ---- */

/* The namespace has moved: any of those who wait for another session may have been let in. */
static void locks_look(struct fs *fs)
{
	struct locks *k = &fs->locks;
	uint64_t last;

	lock_drop(&k->lock);
	last = kv_last(meta_kv(fs->conf.meta));
	lock_take(&k->lock);
	if (last == k->seen)
		return;
	k->seen = last;
	list_for_each(n, &k->waits)
		wait_of(n)->due |= !lock_is_local(wait_of(n));
}

/* The first one to be tried, or NULL; *next: when to look again. */
static struct fs_lock *locks_due(struct locks *k, int64_t now, int64_t *next)
{
	list_for_each(n, &k->waits) {
		struct fs_lock *l = wait_of(n);
		int64_t poll = MIN(MAX((now - l->since) / 32, LOCK_POLL_MIN), LOCK_POLL_MAX);

		if (l->busy)
			continue;
		if (l->cancelled || (!l->want.ticket && now - l->since >= LOCK_REGISTER))
			return l;
		l->due |= now >= l->recheck;
		if (l->due && !wait_held_back(k, l))
			return l;
		if (l->due) {
			l->due = false;
			l->recheck = now + LOCK_RECHECK;
		}
		*next = MIN(*next, MIN(l->recheck, now + poll));
		if (!l->want.ticket)
			*next = MIN(*next, l->since + LOCK_REGISTER);
	}
	return NULL;
}

static void locks_work(struct fs *fs, struct fs_lock *l)
{
	struct locks *k = &fs->locks;
	bool held_back = wait_held_back(k, l) || l->cancelled;

	l->busy = true;
	l->due = false;
	lock_drop(&k->lock);
	wait_try(fs, l, held_back);
	lock_take(&k->lock);
}

static void *locks_main(void *arg)
{
	struct fs *fs = arg;
	struct locks *k = &fs->locks;

	lock_take(&k->lock);
	while (!k->stop) {
		int64_t now = clock_now(), next = CLOCK_NEVER;
		struct fs_lock *l;

		if (!list_empty(&k->waits))
			locks_look(fs);
		l = locks_due(k, now, &next);
		if (l) {
			locks_work(fs, l);
			continue;
		}
		if (k->unheard && now >= k->unheard_at) {
			lock_drop(&k->lock);
			locks_drop_dead(fs);
			lock_take(&k->lock);
			k->unheard_at = clock_now() + LOCK_UNHEARD;
			continue;
		}
		if (k->unheard)
			next = MIN(next, k->unheard_at);
		if (k->undropped) {
			lock_drop(&k->lock);
			locks_drop_again(fs);
			lock_take(&k->lock);
			next = MIN(next, clock_now() + LOCK_RECHECK);
		}
		/* Many who wait must not make a looking-over of all of them a full-time job. */
		if (next != CLOCK_NEVER)
			next = MAX(next, clock_now() + 4 * (clock_now() - now));
		if (next == CLOCK_NEVER)
			cond_wait(&k->work, &k->lock);
		else
			(void)cond_wait_until(&k->work, &k->lock, next);
	}
	lock_drop(&k->lock);
	return NULL;
}

/* Those that a thread of their own is trying right now see the flag themselves. */
static struct fs_lock *locks_last(struct locks *k)
{
	scoped_lock(&k->lock);
	list_for_each(n, &k->waits)
		if (!wait_of(n)->busy) {
			wait_of(n)->busy = true;
			return wait_of(n);
		}
	return NULL;
}

int locks_start(struct fs *fs)
{
	struct locks *k = &fs->locks;
	int err;

	lock_init(&k->lock, LOCK_LEAF, "locks");
	cond_init(&k->work);
	list_init(&k->waits);
	err = htab_init(&k->files, 64);
	if (!err)
		err = htab_init(&k->pids, 64);
	if (!err)
		err = thread_start(&k->thread, "locks", locks_main, fs);
	k->running = !err;
	if (err)
		locks_stop(fs);
	return err;
}

void fs_lock_stop(struct fs *fs)
{
	struct locks *k = &fs->locks;
	struct fs_lock *l;

	lock_take(&k->lock);
	k->stop = true;
	cond_wake_all(&k->work);
	lock_drop(&k->lock);
	if (k->running)
		pthread_join(k->thread, NULL);
	k->running = false;
	while ((l = locks_last(k)))
		wait_finish(fs, l, -TESS_E_STOPPING);
}

void locks_stop(struct fs *fs)
{
	struct locks *k = &fs->locks;

	fs_lock_stop(fs);
	locks_free(k);
	htab_done(&k->files);
	htab_done(&k->pids);
	cond_done(&k->work);
	lock_done(&k->lock);
}
