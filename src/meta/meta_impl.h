/* SPDX-License-Identifier: Apache-2.0 */
#ifndef META_META_IMPL_H
#define META_META_IMPL_H
/*
 * Shared by the files of meta/, included by nobody else. A function that takes a struct kv_txn is a
 * step of some closure; what it writes is in the transaction alone.
 */
#include "base/lock.h"
#include "meta/codec.h"
#include "meta/meta.h"
#include <errno.h>
#include <stdatomic.h>

struct meta {
	struct kv *kv;				/* owned */
	_Atomic(struct meta_super_box *) super; /* owned; replaced whole */
	atomic_uint session;			/* 0: none */
	struct lock lock;			/* LOCK_META; never held over a transaction */
	uint64_t ino_next, ino_end;		/* ids in hand; by: lock */
	uint64_t seg_next; /* by: lock; 0 in the low half: take a new high half */
	atomic_bool fenced;
	_Atomic uint64_t turn_floor;		/* of the session: above all turns of sessions that a restart of the host ended */
	_Atomic int64_t relax;			/* ns; 0: exact */
	_Atomic int64_t lease;			/* of the session that begins next */
	atomic_uint relax_not;			/* marks, one bit each */
	struct trace_group stats;		/* of kv's counters */
	shared_word turns[KV_WORDS];		/* what this session put into the words last */
};
/* A replaced one stays until close: meta_super() lent it. */
struct meta_super_box {
	struct meta_super s;
	struct meta_super_box *older; /* owned */
};

/* ---- change.c, fence.c ---- */
/*
 * Every write of the namespace: kv_run() for a session that is not fenced (else -TESS_E_FENCED), with
 * what change_note() needs. Not for beginning and ending a session.
 */
int meta_run(struct meta *m, int (*fn)(struct kv_txn *, void *arg), void *arg);
/* Tells other sessions, if there are any. Many notes of one inode in a transaction are one. */
int change_note(struct kv_txn *t, enum meta_change_kind kind, uint64_t ino);
int change_note_name(struct kv_txn *t, uint64_t dir, uint64_t cookie, struct kv_val name);
bool change_noting(const struct kv_txn *t);
extern uint64_t change_log_max;	/* notes; tests lower it */
/* How many sessions are registered, and how many of them fenced: kept with their records. */
int session_count_get(struct kv_txn *t, uint32_t *ret_sessions, uint32_t *ret_fenced);
int session_count_put(struct kv_txn *t, uint32_t sessions, uint32_t fenced);
int session_count_add(struct kv_txn *t, int sessions, int fenced);

/* ---- turn.c ---- */
void turn_begin(struct meta *m, uint64_t serial); /* of the commit that registered the session */

/* ---- session.c ---- */
int session_put(struct kv_txn *t, const struct meta_session *s);
int session_get(struct kv_txn *t, uint32_t id, struct meta_session *ret);	/* -ENOENT */
/* Moves what stands under one session's id in a database to another's. */
int session_move(struct kv_txn *t, enum kv_db db, uint32_t from, uint32_t to);
/* The first with an id >= from, what is staged passed over. -ENOENT */
int session_first(struct kv_txn *t, uint64_t from, struct meta_session *ret);

/* ---- super.c, session.c: ids ---- */
int counter_take(struct kv_txn *t, const char *name, uint64_t n, uint64_t first, uint64_t *ret);
int ino_take(struct meta *m, uint64_t *ret); /* may run a transaction of its own */
/* Of staged segments, in the session database; a serial other than 0 is of its garbage record. */
int staged_put(struct kv_txn *t, uint32_t session, tess_segid id, uint64_t garbage);
int staged_del(struct kv_txn *t, struct meta *m,
	       tess_segid id); /* of whichever session; 0 when absent */
int staged_find(struct kv_txn *t, struct meta *m, tess_segid id, uint32_t *ret_session,
		uint64_t *ret_garbage); /* -ENOENT */

/* ---- laminate.c ---- */
/* -EPERM: laminated; -EBUSY: hidden, and another session's */
int inode_may_change(const struct meta *m, const struct meta_attr *a);

/* ---- inode.c ---- */
int inode_get(struct kv_txn *t, uint64_t ino, struct meta_attr *ret); /* -TESS_E_STALE */
int inode_put(struct kv_txn *t, const struct meta_attr *a);
int inode_dir(struct kv_txn *t, uint64_t ino,
	      struct meta_attr *ret); /* to change its entries: -ENOTDIR; -ENOENT when removed; -EPERM */
/* Takes n links away and stores it; the last one makes it an orphan of our session, told in *gone.
 */
int inode_unlink(struct kv_txn *t, struct meta *m, struct meta_attr *a, unsigned n, int64_t now,
		 struct meta_gone *gone);
int inode_kill_priv(struct kv_txn *t, struct meta_attr *a);
void inode_touch(struct meta_attr *a, int64_t now);
/* An entry of a directory came or went; `must`: its record changed besides. Stores it. */
int64_t inode_relax(const struct meta *m, const struct meta_attr *a);
int inode_entry_changed(struct kv_txn *t, const struct meta *m, struct meta_attr *dir, int64_t now,
			bool must);
int inode_init(
	struct kv_txn *t, const struct meta_attr *parent, const struct meta_new *in, int64_t now,
	struct meta_attr *a); /* a->ino is set; stores what hangs on it, not the record itself */

/* ---- orphan.c ---- */
int orphan_put(struct kv_txn *t, struct meta *m, uint64_t ino);
int orphan_del(struct kv_txn *t, uint64_t ino); /* of all sessions; 0 when absent */
/* The first session >= from that holds it. -ENOENT */
int orphan_holder(struct kv_txn *t, uint64_t ino, uint64_t from, uint32_t *ret);

/* ---- dentry.c ---- */
struct dent {
	uint64_t cookie; /* when there is none of the name: where to put one; 0: no room */
	uint64_t ino;
	uint32_t type;
};
uint64_t dentry_hash(const struct meta *m, const char *name, size_t n);
extern uint64_t dentry_hash_mask; /* tests make names collide by clearing bits */
int dentry_find(struct kv_txn *t, const struct meta *m, uint64_t dir, struct kv_val name,
		struct dent *ret);
int dentry_put(struct kv_txn *t, uint64_t dir, struct kv_val name, const struct dent *d);
int dentry_del(struct kv_txn *t, uint64_t dir, const struct dent *d);
int dentry_empty(struct kv_txn *t, uint64_t dir); /* 0 or -ENOTEMPTY */
int dentry_first(struct kv_txn *t, uint64_t dir, uint64_t from, uint64_t *ret_cookie,
		 struct fmt_dentry *ret);
int dentry_next(struct kv_txn *t, uint64_t dir, uint64_t *ret_cookie, struct fmt_dentry *ret);
int dentry_name_check(const char *name, size_t n); /* -EINVAL, -ENAMETOOLONG */

/* ---- xattr.c, acl.c ---- */
int xattr_get(struct kv_txn *t, uint64_t ino, const char *name, struct kv_val *ret); /* -ENODATA */
int xattr_put(struct kv_txn *t, uint64_t ino, const char *name, enum fmt_tag tag,
	      struct kv_val val);
int xattr_del(struct kv_txn *t, struct meta_attr *a,
	      const char *name); /* -ENODATA; clears META_HAS_XATTR */
int xattr_drop_all(struct kv_txn *t, uint64_t ino, unsigned *budget);
#define ACL_ACCESS   "system.posix_acl_access"
#define ACL_DEFAULT  "system.posix_acl_default"
#define ACL_BASE_LEN 4u
int acl_check(const void *acl, size_t n); /* -EINVAL */
/* Bits that the access ACL implies; false when the mode alone says all that the ACL does. */
bool acl_to_mode(const void *acl, size_t n, uint32_t *mode);
void acl_from_mode(void *acl, size_t n, uint32_t mode);
bool acl_for_new(void *acl, size_t n,
		 uint32_t *mode); /* a copy of the default one becomes the access one */
int acl_chmod(struct kv_txn *t, const struct meta_attr *a); /* a->mode is the new one */
int acl_inherit(struct kv_txn *t, const struct meta_attr *parent, struct meta_attr *a);

/* ---- extent.c, publish.c, segment.c, garbage.c ---- */

/* What one closure does to live bytes, by segment: each record is read once and written once. */
struct tally_row {
	struct meta_segment seg; /* as stored, or new */
	int64_t delta;
	bool stored;			      /* there is a record */
	bool changed;			      /* length or state, besides live */
	const struct meta_new_segment *fresh; /* its checksums; NULL */
};
struct tally {
	struct meta *m;
	struct tally_row *row; /* owned when not `few` */
	uint32_t *slot;	       /* owned; hash of id → row + 1; NULL while few */
	unsigned n, cap;
	struct tally_row few[8];
};
void tally_init(struct tally *y, struct meta *m);
void tally_done(struct tally *y);
/* The segment's row, read at need. -ENOENT when there is no such segment. Valid until the next
 * call. */
int tally_row(struct tally *y, struct kv_txn *t, tess_segid id, struct tally_row **ret);
int tally_new(struct tally *y, struct kv_txn *t, const struct meta_new_segment *s);
int tally_apply(struct tally *y,
		struct kv_txn *t); /* stores; what has no live byte left becomes garbage */

/* Makes [off, end) of the file a hole. a->bytes and y follow. */
int extent_cut(struct kv_txn *t, struct tally *y, struct meta_attr *a, uint64_t off, uint64_t end);
/* Puts x into a hole; joins what continues it and was written in the same turn. */
int extent_put(struct kv_txn *t, struct tally *y, struct meta_attr *a, const struct tess_extent *x);
/* Puts x where nothing of a later turn is. */
int extent_lay(struct kv_txn *t, struct tally *y, struct meta_attr *a, const struct tess_extent *x);
/* First extent that ends after off. -ENOENT past the last one of the file. Then extent_next(). */
int extent_first(struct kv_txn *t, uint64_t ino, uint64_t off, struct tess_extent *ret);
int extent_next(struct kv_txn *t, uint64_t ino, struct tess_extent *ret);
/* Deletes up to *budget extents of a file, and counts down. */
int extent_drop(struct kv_txn *t, struct tally *y, struct meta_attr *a, unsigned *budget);

int segment_get(struct kv_txn *t, tess_segid id, struct meta_segment *ret); /* -ENOENT */
int segment_put(struct kv_txn *t, const struct meta_segment *s);
int csum_put(struct kv_txn *t, const struct meta_new_segment *s);
int garbage_add(struct kv_txn *t, enum meta_garbage_kind kind, const struct meta_segment *s,
		uint64_t *ret_serial);
int garbage_get(struct kv_txn *t, uint64_t serial, struct meta_garbage *ret); /* -ENOENT */
int garbage_put(struct kv_txn *t, const struct meta_garbage *g);
/* A new one: fills serial and died. */
int garbage_new(struct kv_txn *t, struct meta_garbage *g);

/* ---- lock.c ---- */
int lock_drop_session(struct kv_txn *t, uint32_t session); /* it is gone, or was fenced */

/* A missing key is no error here. */
static inline int absent_ok(int err)
{
	return err == -ENOENT ? 0 : err;
}
#endif
