/* SPDX-License-Identifier: Apache-2.0 */
/* What the layer above asks of the data path, and what it tells whoever looks at the daemon. */
#include "mount/mount.h"

#include <pthread.h>

/* One daemon is one process; the tools that open file systems have nobody above them. */
static pthread_mutex_t look_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
	void (*fn)(void *arg, bool json, struct text *out);
	void  *arg;
} look_hook;

void tess_on_look(struct tess *t, void (*fn)(void *arg, bool json, struct text *out), void *arg)
{
	(void)t;
	pthread_mutex_lock(&look_mutex);
	look_hook.fn = fn;
	look_hook.arg = arg;
	pthread_mutex_unlock(&look_mutex);
}

void mount_look(bool json, struct text *out)
{
	pthread_mutex_lock(&look_mutex);
	if (look_hook.fn)
		look_hook.fn(look_hook.arg, json, out);
	pthread_mutex_unlock(&look_mutex);
}

void tess_waits(struct tess *t, uint64_t ino, struct text *out)
{
	struct io *io = atomic_load(&t->io);

	if (io)
		io_waits(io, ino, out);
}

void tess_note_error(struct tess *t, uint64_t ino, const char *what, int err)
{
	struct io *io = atomic_load(&t->io);

	if (io)
		io_error_note(io, ino, what, err);
}
