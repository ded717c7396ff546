/* SPDX-License-Identifier: Apache-2.0 */
#ifndef META_CHECK_IMPL_H
#define META_CHECK_IMPL_H
/* Shared by check.c, check_tree.c and check_data.c. */
#include "meta/meta_impl.h"

/* How often a key was met (or how many bytes), and what its record was then. */
struct count {
	uint64_t key; /* 0: free */
	int64_t n;
	uint64_t stamp;
};
struct counts {
	struct count *slot; /* owned */
	size_t cap, n;	    /* cap: a power of two */
	bool closed;	    /* a recount: keys that are not there are passed over */
};
int counts_add(struct counts *c, uint64_t key, int64_t n);	 /* 0 or -ENOMEM */
struct count *counts_find(const struct counts *c, uint64_t key); /* NULL */
void counts_done(struct counts *c);

struct check {
	struct meta *m;
	struct meta_check *c;
	struct counts links; /* by ino */
	struct counts live;  /* by segment */
	struct counts again; /* what did not agree, while others write */
	uint64_t ino;	     /* of the pair at hand, for findings */
	/* A fix found inside a read transaction waits for its end. */
	struct check_fix *fix; /* owned */
	unsigned nfix, cap_fix;
};

/* One repair: run in a write transaction of its own, looks again before it changes anything. */
struct check_fix {
	int (*fn)(struct kv_txn *t, struct check *k, const struct check_fix *f);
	struct meta_finding found;
	enum kv_db db;
	struct fmt_key key;
	uint64_t arg, stamp;
};

/* Reports `f`, or with `fix` set and repair asked for keeps it until the transaction is over. */
int check_report(struct check *k, const struct check_fix *f);
__attribute__((format(printf, 5, 6))) struct check_fix
check_found(const char *what, uint64_t ino, tess_segid seg,
	    int (*fn)(struct kv_txn *, struct check *, const struct check_fix *), const char *fmt,
	    ...);
/* Calls fn for each pair of db, some hundreds to a read transaction. */
int check_walk(struct check *k, enum kv_db db,
	       int (*fn)(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v));
int check_fix_del(struct kv_txn *t, struct check *k, const struct check_fix *f); /* db, key */
void check_key(struct check_fix *f, enum kv_db db, struct kv_val key);

int check_tree(struct check *k); /* dentries, inodes, xattrs, orphans */
int check_data(struct check *k); /* segments, checksums, garbage */
int check_sessions(struct check *k); /* and what they tell each other */
int check_locks(struct check *k);
/* One file's extents; adds to k->live. */
int check_file(struct check *k, struct kv_txn *t, const struct meta_attr *a);
#endif
