/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletes what has no name and no user any more. A file of a million extents takes many short
 * transactions, so it happens here and not in unlink().
 */
#include "fs/state.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/pool.h"

LOG_MODULE("reclaim");

#define RECLAIM_BATCH 64u
#define RECLAIM_WORK  2000u /* records per transaction: a few ms of the writer */
#define RECLAIM_LOOK \
	(60 * NS_PER_S) /* how often the namespace is asked for orphans nobody told us of */
#define RECLAIM_RETRY NS_PER_S
#define RECLAIM_WAIT  (20 * NS_PER_MS) /* for another session that may have it open */
#define RECLAIM_END   (2 * NS_PER_S)   /* the same, when we want to end */
#define RECLAIM_LINGER \
	(5 * NS_PER_MS) /* after the first of them: unlinks come in runs, and share transactions */

void reclaim_push(struct fs *fs, struct fs_inode *in)
{
	struct reclaim *rc = &fs->reclaim;

	scoped_lock(&rc->lock);
	if (list_empty(&rc->queue))
		cond_wake_one(&rc->work);
	list_push_back(&rc->queue, &in->link);
}

/* Another session may come to hold some of it: from the front again, in a moment. */
static void reclaim_return(struct reclaim *rc, struct fs_inode **in, unsigned n)
{
	scoped_lock(&rc->lock);
	while (n)
		list_push_front(&rc->queue, &in[--n]->link);
}

void reclaim_kick(struct fs *fs)
{
	struct reclaim *rc = &fs->reclaim;

	scoped_lock(&rc->lock);
	rc->look = true;
	cond_wake_all(&rc->work);
}

static unsigned reclaim_take(struct reclaim *rc, struct fs_inode **ret)
{
	unsigned n = 0;
	struct list_node *pos;

	scoped_lock(&rc->lock);
	while (n < RECLAIM_BATCH && (pos = list_pop_front(&rc->queue)))
		ret[n++] = list_entry(pos, struct fs_inode, link);
	return n;
}

static int reclaim_batch(struct fs *fs, struct fs_inode **in, unsigned n)
{
	uint64_t inos[RECLAIM_BATCH];
	bool more = true;
	int r = 0;

	for (unsigned i = 0; i < n; i++)
		inos[i] = inode_ino(in[i]);
	while (r == 0 && more)
		r = meta_reclaim(fs->conf.meta, inos, n, RECLAIM_WORK, clock_wall_coarse(), &more);
	if (r == -EBUSY) {
		reclaim_return(&fs->reclaim, in, n);
		return r;
	}
	for (unsigned i = 0; i < n; i++) {
		if (r == 0)
			icache_reclaimed(fs, in[i]);
		else
			reclaim_push(fs, in[i]);
	}
	return r;
}

static int reclaim_queue(struct fs *fs)
{
	struct fs_inode *in[RECLAIM_BATCH];
	unsigned n;
	int r = 0;

	while (r == 0 && (n = reclaim_take(&fs->reclaim, in)))
		r = reclaim_batch(fs, in, n);
	if (r < 0 && r != -EBUSY && !fs_fenced(fs))
		log_warn("deleting unlinked files: %s", err_text(r));
	return r;
}

/* Orphans that dead sessions left, and any that an unlink had no memory to tell us of. */
static void reclaim_look(struct fs *fs)
{
	uint64_t inos[RECLAIM_BATCH], after = 0;
	unsigned n = RECLAIM_BATCH;

	while (n == RECLAIM_BATCH) {
		if (meta_orphans(fs->conf.meta, after, inos, RECLAIM_BATCH, &n) < 0)
			return;
		for (unsigned i = 0; i < n; i++)
			icache_stale(fs, inos[i]);
		if (n)
			after = inos[n - 1];
	}
}

static void *reclaim_main(void *arg)
{
	struct fs *fs = arg;
	struct reclaim *rc = &fs->reclaim;
	int64_t look = 0, wake;
	bool stop = false;
	int r;

	/* Or the first look misses the orphans of a killed daemon, and the next is a minute away. */
	io_adopted_wait(fs->conf.io);
	while (!stop) {
		if (clock_now() >= look) {
			reclaim_look(fs);
			look = clock_now() + RECLAIM_LOOK;
		}
		r = reclaim_queue(fs);
		wake = r == 0 ? look : clock_now() + (r == -EBUSY ? RECLAIM_WAIT : RECLAIM_RETRY);
		lock_take(&rc->lock);
		/* After a failure the queue is not empty, and waiting is the point. */
		if (!rc->stop && !rc->look && (r < 0 || list_empty(&rc->queue)))
			cond_wait_until(&rc->work, &rc->lock, wake);
		stop = rc->stop;
		look = rc->look ? 0 : look;
		rc->look = false;
		lock_drop(&rc->lock);
		if (!stop)
			clock_sleep(RECLAIM_LINGER);
	}
	return NULL;
}

void reclaim_init(struct fs *fs)
{
	struct reclaim *rc = &fs->reclaim;

	lock_init(&rc->lock, LOCK_LEAF, "fs.reclaim");
	cond_init(&rc->work);
	list_init(&rc->queue);
}

void reclaim_done(struct fs *fs)
{
	cond_done(&fs->reclaim.work);
	lock_done(&fs->reclaim.lock);
}

int reclaim_start(struct fs *fs)
{
	struct reclaim *rc = &fs->reclaim;
	int r;

	r = thread_start(&rc->thread, "reclaim", reclaim_main, fs);
	rc->running = r == 0;
	return r;
}

/* A session that leaves orphans cannot end; dead ones' may have become ours since. */
static void reclaim_last(struct fs *fs)
{
	int64_t until = clock_now() + RECLAIM_END;
	int r;

	icache_forget_all(fs);
	reclaim_look(fs);
	while ((r = reclaim_queue(fs)) == -EBUSY && clock_now() < until)
		clock_sleep(RECLAIM_WAIT);
	/* Whoever does not answer has it open, maybe: then they are his. */
	if (r == -EBUSY)
		r = meta_orphans_leave(fs->conf.meta);
	if (r < 0)
		log_warn("unlinked files are left to the next mount: %s", err_text(r));
}

void reclaim_stop(struct fs *fs)
{
	struct reclaim *rc = &fs->reclaim;

	lock_take(&rc->lock);
	rc->stop = true;
	cond_wake_all(&rc->work);
	lock_drop(&rc->lock);
	if (rc->running) {
		pthread_join(rc->thread, NULL);
		rc->running = false;
		reclaim_last(fs);
	}
}
