/* SPDX-License-Identifier: Apache-2.0 */
#ifndef META_LOCK_H
#define META_LOCK_H
/*
 * Advisory locks of files: byte ranges of fcntl(2) (a process's and an open file description's) and
 * whole files of flock(2). Records of the namespace when they hold between sessions; the same rules
 * over a set in memory when they do not.
 *
 * An owner is what the kernel calls one, and means something within its session alone. The two
 * kinds do not know of each other, as on Linux.
 */
#include <stdbool.h>
#include <stdint.h>

struct meta;

enum meta_lock_kind { META_LOCK_RANGE = 1, META_LOCK_FLOCK = 2 };
enum meta_lock_type { META_LOCK_NONE, META_LOCK_READ, META_LOCK_WRITE };
#define META_LOCK_END ((uint64_t)INT64_MAX)

struct meta_lock {
	uint64_t ino, owner;
	uint64_t start, end;	/* both are part of it */
	uint64_t wait;		/* 0: held; else not yet, and this is the request's number in its session */
	uint64_t ticket;	/* of a wait: smaller is older, among all sessions. 0: none yet */
	uint32_t session, pid;
	uint8_t  kind, type;
};

/* ---- the rules, over any set of locks ---- */

struct lockset_row {
	struct meta_lock l;
	bool stored;	/* the namespace has it */
	bool gone;	/* no longer in the set */
};
struct lockset {
	struct lockset_row *v;	/* owned */
	unsigned n, cap;
};
void lockset_done(struct lockset *s);
int  lockset_add(struct lockset *s, const struct meta_lock *l, bool stored);	/* 0 or -ENOMEM */
/* A held lock of another owner that `want` cannot be beside, or NULL. */
const struct meta_lock *lockset_conflict(const struct lockset *s, const struct meta_lock *want);
/* Two that could not both be held. */
bool lock_excludes(const struct meta_lock *a, const struct meta_lock *b);
/*
 * Makes the owner hold want->type over the range, and nothing else there: splits, merges, upgrades,
 * drops (META_LOCK_NONE). Does not ask for conflicts. 0 or -ENOMEM, and then nothing has changed.
 */
int  lockset_apply(struct lockset *s, const struct meta_lock *want);
bool lockset_holds(const struct lockset *s, const struct meta_lock *who);	/* session, owner, kind */
void lockset_drop_session(struct lockset *s, uint32_t session);
void lockset_sweep(struct lockset *s);	/* forgets rows that are gone */
/* Would `want` wait for somebody who, by the waits in the set, waits for its owner? */
bool lockset_deadlock(struct lockset *s, const struct meta_lock *want);

/* ---- between sessions: one transaction each ---- */

struct meta_lock_op {
	struct meta_lock want;	/* session is set here */
	int64_t  now;		/* clock_now(), for leases */
	bool     yield;		/* let pass whom other sessions registered before want.ticket */
	uint32_t deaf;		/* but not this session's */
	/* out */
	struct meta_lock holder;/* of -EAGAIN: who is in the way; its `wait` is set when it was let pass */
	uint32_t lapsed;	/* of -EAGAIN: the holder's session is alive, but has lapsed */
	bool     left;		/* of 0: the owner still holds something of this kind */
};
/*
 * Takes or drops. What sessions that are gone left in the way is broken. -EAGAIN: held, and nothing
 * has changed but that a flock to be converted is lost, as on Linux. -TESS_E_FENCED.
 */
int meta_lock_set(struct meta *m, struct meta_lock_op *op);
/* Would it be had? 0, or -EAGAIN with the holder. Changes nothing. */
int meta_lock_test(struct meta *m, struct meta_lock_op *op);
/*
 * Registers op->want as waiting: other sessions let it pass, and those who would wait in a circle
 * learn of it. Sets its ticket. -EDEADLK.
 */
int meta_lock_wait(struct meta *m, struct meta_lock_op *op);
int meta_lock_wait_end(struct meta *m, const struct meta_lock_op *op);
/* Everything of this kind that the owner has on the inode, what it waits for excepted. */
int meta_lock_drop(struct meta *m, struct meta_lock_op *op);
/* All locks, of anybody; *ret_n: how many. For tools and tests. */
int meta_locks(struct meta *m, struct meta_lock *ret, unsigned max, unsigned *ret_n);
#endif
