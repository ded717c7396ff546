/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishing by time: what was written to a file is everybody's within its interval, though nobody
 * closes it. Whole writes, in order: io_sync_file() publishes all that came before it together, so what
 * others see, and what a kill leaves, is a prefix of what was written.
 */
#include "base/err.h"
#include "base/log.h"
#include "base/scoped.h"
#include "io/io_int.h"

LOG_MODULE("io")

#define INTERVAL_THREADS 4u /* they wait for targets */
#define INTERVAL_QUEUE	 1024u

static void interval_job(struct pool_job *j)
{
	struct io_file *f = container_of(j, struct io_file, timed);
	struct tess_req req;
	int e;

	req_begin(&req, "interval");
	req.ino = f->ino;
	req.deadline = clock_now() + IO_DEADLINE;
	e = io_sync_file(f, &req, IO_PUBLISH);
	if (e < 0)
		log_warn("inode %llu: not published in time: %s", (unsigned long long)f->ino,
			 err_text(e));
	lock_take(&f->lock);
	f->timed_queued = false;
	/* What was written meanwhile has a time of its own. */
	f->dirtied = io_file_dirty_locked(f) ? clock_now() : 0;
	lock_drop(&f->lock);
	io_file_put(f);
}

static void interval_look(struct io_file *f, void *arg)
{
	int64_t now = clock_now();

	(void)arg;
	scoped_lock(&f->lock);
	/* Not given up as a flush is: what was promised for a time is due when the store is back. */
	if (f->interval == 0 || f->timed_queued || (f->fails > 0 && f->retry_at > now) ||
	    meta_fenced(f->io->meta) || !io_file_dirty_locked(f))
		return;
	if (f->dirtied == 0)
		f->dirtied = now;
	if (now - f->dirtied < f->interval)
		return;
	f->timed.run = interval_job;
	f->timed_queued = true;
	io_file_get(f);
	if (pool_try(f->io->timed, &f->timed) == 0)
		return;
	f->timed_queued = false;
	atomic_fetch_sub(&f->refs, 1);
}

void io_interval_pass(struct io *io)
{
	if (atomic_load(&io->intervals) > 0)
		io_files_each(io, interval_look, NULL);
}

int io_file_interval(struct io_file *f, int64_t ns)
{
	struct io *io = f->io;

	scoped_lock(&io->lock);
	if (ns > 0 && !io->timed) {
		int e = pool_new(&io->timed, "io-timed", INTERVAL_THREADS, INTERVAL_QUEUE);

		if (e < 0)
			return e;
	}
	lock_take(&f->lock);
	if ((f->interval == 0) != (ns == 0))
		atomic_fetch_add(&io->intervals, ns ? 1 : -1u);
	f->interval = ns;
	lock_drop(&f->lock);
	return 0;
}
