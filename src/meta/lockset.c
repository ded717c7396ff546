/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of POSIX ranges and of flock, over a set in memory: pure, tested against a byte array. */
#include "base/fault.h"
#include "base/scoped.h"
#include "meta/lock.h"
#include <string.h>

void lockset_done(struct lockset *s)
{
	free(s->v);
	memset(s, 0, sizeof(*s));
}

static int lockset_room(struct lockset *s, unsigned more)
{
	unsigned cap = s->cap ? s->cap : 8;

	while (cap - s->n < more)
		cap *= 2;
	if (cap == s->cap)
		return 0;
	struct lockset_row *v = mem_resize(s->v, cap, sizeof(*v));

	if (!v)
		return -ENOMEM;
	s->v = v;
	s->cap = cap;
	return 0;
}

int lockset_add(struct lockset *s, const struct meta_lock *l, bool stored)
{
	int err = lockset_room(s, 1);

	if (!err)
		s->v[s->n++] = (struct lockset_row){.l = *l, .stored = stored};
	return err;
}

static bool lock_same_owner(const struct meta_lock *a, const struct meta_lock *b)
{
	return a->session == b->session && a->owner == b->owner && a->kind == b->kind;
}

bool lock_excludes(const struct meta_lock *a, const struct meta_lock *b)
{
	return a->ino == b->ino && a->kind == b->kind && a->start <= b->end && b->start <= a->end &&
	       (a->type == META_LOCK_WRITE || b->type == META_LOCK_WRITE) && !lock_same_owner(a, b);
}

const struct meta_lock *lockset_conflict(const struct lockset *s, const struct meta_lock *want)
{
	for (unsigned i = 0; i < s->n; i++)
		if (!s->v[i].gone && !s->v[i].l.wait && lock_excludes(&s->v[i].l, want))
			return &s->v[i].l;
	return NULL;
}

bool lockset_holds(const struct lockset *s, const struct meta_lock *who)
{
	for (unsigned i = 0; i < s->n; i++)
		if (!s->v[i].gone && !s->v[i].l.wait && lock_same_owner(&s->v[i].l, who))
			return true;
	return false;
}

/*
 * One pass is enough: an owner's locks are disjoint, and those of one type that touch are joined
 * already, so what a join adds to the range touches nothing more of that type.
 */
int lockset_apply(struct lockset *s, const struct meta_lock *want)
{
	unsigned n = s->n;
	struct meta_lock put = *want, left = {0}, right = {0};
	int err = lockset_room(s, 3);

	if (err)
		return err;
	put.wait = put.ticket = 0;
	for (unsigned i = 0; i < n; i++) {
		const struct meta_lock *l = &s->v[i].l;
		bool joins = l->type == want->type;
		uint64_t touch = joins && want->start ? want->start - 1 : want->start;

		if (s->v[i].gone || l->wait || l->ino != want->ino || !lock_same_owner(l, want) ||
		    l->end < touch || (l->start > want->end && (!joins || l->start - 1 > want->end)))
			continue;
		s->v[i].gone = true;
		if (joins) {
			put.start = MIN(put.start, l->start);
			put.end = MAX(put.end, l->end);
			continue;
		}
		if (l->start < want->start) {
			left = *l;
			left.end = want->start - 1;
		}
		if (l->end > want->end) {
			right = *l;
			right.start = want->end + 1;
		}
	}
	if (left.type)
		(void)lockset_add(s, &left, false);
	if (right.type)
		(void)lockset_add(s, &right, false);
	if (put.type)
		(void)lockset_add(s, &put, false);
	return 0;
}

void lockset_drop_session(struct lockset *s, uint32_t session)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->v[i].l.session == session)
			s->v[i].gone = true;
}

void lockset_sweep(struct lockset *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->n; i++)
		if (!s->v[i].gone)
			s->v[n++] = s->v[i];
	s->n = n;
}

/* Breadth first. Waits that were met move to the front: [0, done) were followed, [done, ready) not yet. */
bool lockset_deadlock(struct lockset *s, const struct meta_lock *want)
{
	unsigned ready = 0;
	bool circle = false;
	const struct meta_lock *from = want;

	for (unsigned done = 0; !circle; from = &s->v[done++].l) {
		for (unsigned i = 0; i < s->n && !circle; i++) {
			struct meta_lock held = s->v[i].l;

			if (held.wait || !lock_excludes(&held, from))
				continue;
			circle = lock_same_owner(&held, want);
			for (unsigned j = ready; j < s->n; j++) {
				struct lockset_row x = s->v[j];

				if (!x.l.wait || !lock_same_owner(&x.l, &held))
					continue;
				s->v[j] = s->v[ready];
				s->v[ready++] = x;
			}
		}
		if (done == ready)
			break;
	}
	return circle;
}
