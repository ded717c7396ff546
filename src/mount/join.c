/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mount that is alone lets its kernel answer from what it was told, for a second. So a second mount
 * waits, before it changes anything: until each that was there has seen that it is not alone any
 * more, and for the second after that. One that does not answer is stopped, and so are its answers; it looks
 * around before it gives the next one.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "mount/mount.h"

#define JOIN_WAIT (2 * NS_PER_S)
#define JOIN_TTL  (1100 * NS_PER_MS)	/* what the kernel was given, and the time to give it */
#define JOIN_LOOK (5 * NS_PER_MS)

/* Other mounts were together for long: none of them gave its kernel any time. */
static bool join_shared(struct tess *t, const struct meta_session *self)
{
	enum { MAX_LOOK = 64 };
	scoped_free struct meta_session *s = mem_array(MAX_LOOK, sizeof(*s));
	unsigned n = 0, mounts = 0;

	if (!s || meta_sessions(t->meta, s, MAX_LOOK, &n) < 0)
		return false;
	for (unsigned i = 0; i < n; i++)
		mounts += s[i].id != self->id && s[i].tail != UINT64_MAX && !s[i].fenced &&
			  s[i].started + 4 * NS_PER_S < self->started && !meta_session_dead(&s[i]);
	return mounts > 1;
}

int mount_join(struct tess *t)
{
	int64_t until = clock_now() + JOIN_WAIT;
	struct meta_session self;
	uint64_t tails;
	bool shared;
	int err = meta_session_get(t->meta, meta_session_id(t->meta), &self);

	if (err)
		return err;
	shared = join_shared(t, &self);
	err = meta_tails(t->meta, &tails);
	if (err || tails == UINT64_MAX)
		return err;
	while (!err && tails < self.joined && clock_now() < until) {
		clock_sleep(JOIN_LOOK);
		err = meta_tails(t->meta, &tails);
	}
	if (!err && !shared)
		clock_sleep(JOIN_TTL);
	return err;
}
