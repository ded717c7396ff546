/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shutting a session out. Not a lock or a file of it but all of it: a program that is resumed may
 * have acted on locks that are another's by now, and nobody can tell on which.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"

#define FENCE_LEASE (30 * NS_PER_S)

/* By the lease of the one that is silent: it beats as often as that asks for, and no oftener. */
bool meta_session_lapsed(const struct meta_session *s, int64_t now)
{
	return !s->fenced && s->beat && now - s->beat > (s->lease > 0 ? s->lease : FENCE_LEASE);
}

void meta_lease(struct meta *m, int64_t ns)
{
	atomic_store(&m->lease, ns);
}

static int fence_run(struct kv_txn *t, void *arg)
{
	struct meta_session s;
	int err = session_get(t, *(const uint32_t *)arg, &s);

	if (err || s.fenced)
		return err;
	s.fenced = true;
	err = session_put(t, &s);
	return err ? err : session_count_add(t, 0, 1);
}

int meta_fence(struct meta *m, uint32_t session)
{
	if (session == 0 || session == atomic_load(&m->session))
		return -EINVAL;
	return meta_run(m, fence_run, &session);
}

bool meta_fenced(const struct meta *m)
{
	return atomic_load(&m->fenced);
}
