/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ENV_IMPL_H
#define BASE_ENV_IMPL_H
/*
 * Shared by env.c (transactions), env_ckpt.c (checkpoints) and env_guard.c (who may open); nobody
 * else includes it.
 *
 * Files of an environment, beside LMDB's data.mdb and lock.mdb:
 *   synced   two 4 KiB slots, written in turn: the meta page of the newest checkpoint
 *   opened   the boot that last opened for writing, and whether it was closed since
 *   users    locked shared by every process that has it open; its first page is memory that they
 *            share: who they are, and the newest checkpoint. Means nothing once nobody holds the
 * lock
 *
 * The rule that keeps checkpoint T restorable: every process that writes holds a read transaction
 * that is not newer than what `synced` says. It is taken before its first commit, by the checkpoint
 * in env_open(), and replaced only after `synced` was. So no death of another process and no
 * reaping of its reader slot, LMDB's own after a robust mutex included, can free a page of T.
 */
#include "base/env.h"
#include "base/lock.h"
#include <pthread.h>
#include <stdatomic.h>

#define ENV_META_BYTES 152u /* page header and meta record of LMDB 0.9, 64-bit */
#define ENV_SLOT_BYTES 4096u
#define ENV_BOOT_MAX   40u
#define ENV_ROUSE_MAX  16u

enum env_turn { ENV_TURN_WRITE, ENV_TURN_CHECKPOINT }; /* what processes wait for each other for */

/* The first page of `users`. */
struct env_shared {
	_Atomic uint64_t durable; /* txn id of the newest checkpoint */
	uint64_t pidns;		  /* of the processes that have it open */
	char boot[ENV_BOOT_MAX];
	char host[72];
};

/* One recycled read transaction. It lives as long as the environment. */
struct env_reader {
	MDB_txn *txn;
	atomic_bool active; /* its owner may touch the map: growing waits */
};

struct env {
	MDB_env *mdb;
	MDB_dbi *dbi; /* owned */
	bool readonly;
	bool guard; /* the file system check and `users` are done */
	char *dir;  /* owned */
	char boot[ENV_BOOT_MAX];
	unsigned psize;
	int data_fd; /* LMDB's */
	int users_fd, opened_fd, synced_fd;
	struct env_shared *shared; /* mapped */
	int (*before_sync)(void *arg, uint64_t txnid);
	void *arg;

	/*
	 * The process's turn to write, growing the map included. Not a struct lock: it is held over
	 * the caller's closure and the commit, as LMDB's own mutex is, and no other lock is taken
	 * with it.
	 */
	pthread_mutex_t writer;
	atomic_bool growing;
	_Atomic uint64_t maps; /* how often it was mapped anew */

	unsigned max_readers;
	atomic_uint nreaders;
	struct env_reader *readers;	     /* owned, max_readers */
	_Atomic(struct env_reader *) *idle;  /* owned, max_readers slots */
	_Atomic(struct env_reader *) *index; /* owned, by hash of txn; only ever filled */
	uint64_t index_mask;

	struct lock lock; /* LOCK_ENV */
	struct cond cond;
	bool running;	       /* a checkpoint; by: lock */
	uint64_t begun, ended; /* checkpoints; by: lock */
	int errs[64];	       /* of checkpoint n at [n % 64]; by: lock */

	pthread_t thread; /* checkpoints when too many commits are behind the pin */
	bool has_thread;
	bool stopping; /* by: lock */
	atomic_bool kicked;
	struct cond cond_auto;

	_Atomic int64_t asked[2];	/* when this process asked for a turn: enum env_turn; 0: it has it, or does not ask */
	atomic_uint nroused;
	struct env_roused {
		pid_t pid;
		uint64_t start;
	} roused[ENV_ROUSE_MAX];	/* to be stopped again in our turn; by: lock */
	bool rouse_stop, rouse_told;	/* by: lock */
	bool has_rouser;
	int rouse_fd;	/* LMDB's lock file */
	pthread_t rouser;
	struct cond cond_rouse;

	/* The rest belongs to the running checkpoint (env_open() and env_close() are alone). */
	MDB_txn *
		pin[2]; /* the newest checkpoint's is pin[cur]; the other is idle (reset) or NULL */
	unsigned cur;
	_Atomic uint64_t pinned; /* txn id of pin[cur] */
	atomic_bool has_pin;
	bool suspect;  /* an fdatasync failed: the kernel may have dropped pages and called them
			  clean */
	unsigned slot; /* of `synced` to write next */
};

/* env_guard.c */
int env_guard_fs(const char *dir, struct text *why);
int env_guard_enter(struct env *e, bool *ret_alone, struct text *why); /* locks `users`, maps it */
void env_guard_settle(struct env *e); /* opening is over: others may open */
bool env_guard_last(
	struct env *e); /* nobody else has it open, and nobody can until we close users_fd */
int env_marker_read(struct env *e, bool *ret_crashed);
int env_marker_write(struct env *e, bool clean);
int env_boot_id(char *ret, size_t cap);

/* env_rouse.c */
int env_rouse_start(struct env *e);
void env_rouse_stop(struct env *e);
void env_turn_ask(struct env *e, enum env_turn turn);
void env_turn_got(struct env *e, enum env_turn turn); /* those that were woken for it stop again */

/* env_trim.c */
void env_trim(struct env *e); /* the resident set's mapped pages, when they are many */

/* env_ckpt.c */
int env_synced_open(struct env *e);
int env_synced_restore(struct env *e, struct text *why); /* data.mdb becomes the checkpoint */
int env_ckpt_run(struct env *e);			 /* one checkpoint, alone in this process */
int env_auto_start(struct env *e);
void env_auto_kick(struct env *e, uint64_t id); /* after commit id, with nothing held */
void env_auto_stop(struct env *e);

/* env.c */
int env_txn_writer(struct env *e,
		   MDB_txn **ret); /* writer held; adopts another process's larger map */
#endif
