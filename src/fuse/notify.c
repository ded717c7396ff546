/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling the kernel what others changed. Every call may wait for requests that the kernel has in flight
 * (for a page that a read fills, for the directory that a create holds), so somebody has to go on
 * answering until the last of them is over: the threads of the loop, and when those are gone
 * notify_end() itself.
 */
#include "fuse/daemon.h"

#include "base/log.h"
#include "base/pool.h"
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

LOG_MODULE("notify");

#define NOTIFY_INC_EPOCH 8	/* FUSE_NOTIFY_INC_EPOCH of <linux/fuse.h>, 7.44 on */

static void notify_said(int r, const char *what)
{
	/* Not known to the kernel, or unmounted: nothing to forget. */
	if (r < 0 && r != -ENOENT && r != -ENODEV && r != -ENOTCONN && r != -EBADF)
		log_debug("the kernel was not told to forget an %s: %s", what, strerror(-r));
}

static void notify_inode(void *arg, uint64_t ino, int64_t off, int64_t len)
{
	struct daemon *d = arg;

	notify_said(fuse_lowlevel_notify_inval_inode(d->se, ino, off, len), "inode");
}

static void notify_entry(void *arg, uint64_t dir, const char *name, size_t len)
{
	struct daemon *d = arg;

	notify_said(fuse_lowlevel_notify_inval_entry(d->se, dir, name, len), "entry");
}

/* Linux 6.16 on; libfuse has no call for it that does more than send this. */
static bool notify_names(void *arg)
{
	const struct fuse_out_header h = { .len = sizeof(h), .error = NOTIFY_INC_EPOCH };
	struct daemon *d = arg;

	return write(fuse_session_fd(d->se), &h, sizeof(h)) == (ssize_t)sizeof(h);
}

static const struct fs_kernel notify_kernel = { notify_inode, notify_entry, notify_names };

void notify_begin(struct daemon *d)
{
	fs_watch_begin(d->fs, &notify_kernel, d);
}

struct notify_end {
	struct daemon *d;
	atomic_bool over;
};

static void *notify_end_main(void *arg)
{
	struct notify_end *e = arg;

	fs_watch_end(e->d->fs);
	atomic_store(&e->over, true);
	return NULL;
}

/* One request, if there is one. */
static void notify_serve(struct daemon *d, struct fuse_buf *buf)
{
	struct pollfd p = { .fd = fuse_session_fd(d->se), .events = POLLIN };
	int n = poll(&p, 1, 10);

	if (n <= 0 || !(p.revents & POLLIN)) {
		if (n > 0)
			clock_sleep(NS_PER_MS);	/* disconnected: poll does not wait */
		return;
	}
	if (fuse_session_receive_buf(d->se, buf) > 0)
		fuse_session_process_buf(d->se, buf);
	else
		clock_sleep(NS_PER_MS);
}

void notify_end(struct daemon *d)
{
	struct notify_end e = { .d = d };
	struct fuse_buf buf = { .mem = NULL };
	pthread_t thread;

	if (thread_start(&thread, "notify-end", notify_end_main, &e) < 0) {
		fs_watch_end(d->fs);	/* without memory for a thread: the risk is worth the exit */
		return;
	}
	while (!atomic_load(&e.over))
		notify_serve(d, &buf);
	pthread_join(thread, NULL);
	free(buf.mem);
}
