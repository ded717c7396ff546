/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ENV_H
#define BASE_ENV_H
/*
 * A crash-safe LMDB environment: the one place that opens LMDB, used by the namespace engine
 * (meta/kv_lmdb) and by the kv store's index.
 *
 * Commits do not wait for the disk (MDB_NOSYNC), which alone would let a power cut destroy the
 * file: LMDB reuses pages that the last *synced* tree still needs. So a checkpoint
 *   1. takes the writer lock, opens a read transaction at the newest commit T (which keeps LMDB
 * from reusing any page of T), copies T's meta page, drops the writer lock;
 *   2. fdatasyncs the data file: every page of T is now durable;
 *   3. lets the caller sync what T refers to outside the file (`before_sync`);
 *   4. stores the copied meta page in `<dir>/synced` (two checksummed slots in turn, O_DSYNC);
 *   5. drops the read transaction that pinned the previous checkpoint.
 * Opened after an unclean shutdown of the *host* (boot id in `<dir>/opened` differs), both meta
 * pages are overwritten with the stored one: the file is checkpoint T exactly. After a kill the
 * page cache still has every commit and nothing is restored.
 *
 * A pinned checkpoint makes every commit take fresh pages, so a checkpoint also starts by itself,
 * on a thread of the environment's own, when some 2,000 commits have passed since the last.
 *
 * A thread has at most one transaction open, of either kind: growing the map waits for readers.
 *
 * Rules inherited from LMDB: open after fork(); never on a network file system; all openers in one
 * PID namespace of one host (enforced, -TESS_E_NETFS, -TESS_E_OTHER_PIDNS, -TESS_E_OTHER_HOST); a
 * write transaction belongs to one thread; read transactions are short, never across I/O.
 *
 * Several processes may hold one environment open. Stale readers of killed processes are reaped
 * only right after a checkpoint of our own, since a dead process's pin may be the one that guards
 * the stored meta page.
 */
#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

struct env;
struct text;

struct env_conf {
	const char *dir; /* existing directory */
	const char *const
		*dbs; /* names of the named databases, NULL-terminated; created when writable */
	const unsigned *db_flags; /* MDB_… per database, or NULL */
	uint64_t map_size;	  /* initial; grows by doubling. 0: 1 GiB */
	unsigned readers;	  /* 0: 1024 */
	bool readonly;		  /* tools that only look */
	const char *boot_id;	  /* NULL: this host's; tests pass another to play a power cut */
	/* Step 3 above; called on the checkpointing thread with no lock held. An error fails the
	 * checkpoint. */
	int (*before_sync)(void *arg, uint64_t txnid);
	void *arg;
};
/* `why`, when not NULL, gets one line for the user. */
int env_open(struct env **ret, const struct env_conf *conf, struct text *why);
/*
 * Checkpoints, and marks the environment clean when the last process leaves. 0 or the checkpoint's
 * error; always closes.
 */
int env_close(struct env *e);
MDB_dbi env_db(const struct env *e, unsigned i); /* i-th of conf.dbs */

/* Read transactions are recycled (reset/renew): begin costs no system call. */
int env_begin_read(struct env *e, MDB_txn **ret);
void env_end_read(struct env *e, MDB_txn *txn);
/*
 * One write transaction, of the calling thread, which commits or aborts it soon. Whoever meets
 * -TESS_E_KV_FULL in it aborts, calls env_grow() with the `maps` it began with, and starts anew.
 */
int env_begin_write(struct env *e, MDB_txn **ret, uint64_t *ret_maps);
int env_commit(struct env *e, MDB_txn *txn, uint64_t *ret_txnid); /* always ends it */
void env_abort(struct env *e, MDB_txn *txn);
int env_grow(struct env *e, uint64_t maps); /* -TESS_E_KV_FULL: it cannot */
/*
 * After a commit that found the disk full: 0 when a checkpoint gave back pages that the last one had
 * pinned, so that a deletion still finds some; start anew. -ENOSPC: there is nothing to give back.
 */
int env_squeeze(struct env *e);
/*
 * Runs fn in a write transaction and commits; fn returning non-zero aborts and is returned. When
 * the map was too small (here or in another process) it is grown and fn runs again, so fn has no
 * side effect outside the transaction. *ret_txnid (may be NULL) is the commit's id.
 * -TESS_E_KV_FULL, -ENOSPC (disk), -EIO.
 */
int env_write(struct env *e, int (*fn)(void *arg, MDB_txn *txn), void *arg, uint64_t *ret_txnid);

/*
 * Group commit to disk: returns when a checkpoint that *began* after this call is complete;
 * concurrent callers share one. A failed checkpoint fails everyone who waited for it, and the next
 * one tries again.
 */
int env_checkpoint(struct env *e);
uint64_t
env_durable(const struct env *e); /* txn id of the newest complete checkpoint, of any process */
uint64_t env_last(struct env *e); /* txn id of the newest commit */
int env_reap_readers(struct env *e, int *ret_reaped);
int env_error(int mdb_rc);	   /* LMDB or errno code → our negative code */
uint64_t env_bytes(struct env *e); /* used pages × page size */
#endif
