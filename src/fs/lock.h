/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_LOCK_H
#define FS_LOCK_H
/*
 * Shared by lock.c and lock_wait.c. What this daemon remembers of its own locks: who may hold some,
 * so that the many closes of files that were never locked ask nothing; the locks themselves where
 * they are local; and who waits, in order of arrival.
 */
#include "base/htab.h"
#include "base/list.h"
#include "base/lock.h"
#include "meta/lock.h"
#include <stdatomic.h>

struct fs;
struct fs_file;
struct fs_lock;

struct locks {
	atomic_bool used; /* some program locked something, ever */
	struct lock lock;	/* LOCK_LEAF; guards all below */
	struct cond work;
	struct htab files;	/* lock_file.node */
	struct htab pids;	/* lock_pid.node */
	struct list_node waits;	/* fs_lock.link, first come first */
	uint64_t numbers;	/* of requests that may wait */
	uint64_t seen;		/* kv_last() when the waits were last looked over */
	uint32_t deaf;		/* a session that was let pass and did not come, until then */
	int64_t deaf_until;
	unsigned unheard;	/* owners whose closes the kernel may not tell of: they are looked for */
	int64_t unheard_at;	/* ... then */
	unsigned undropped;	/* owners that hold what could not be dropped at their close */
	bool stop, running;
	pthread_t thread;
};

struct lock_owner {
	struct list_node link;	/* lock_file.owners */
	uint64_t owner;
	struct fs_file *fh;	/* it last took one through */
	int64_t flushed;	/* when a descriptor of fh was closed, perhaps the last; 0: none was */
	uint32_t pid;
	unsigned busy;		/* requests of it at work */
	unsigned count;		/* of them, ever */
	uint8_t kind;
	bool holds;		/* it was granted one; false positives are dropped at its close */
	bool unheard;		/* took one through a description that was opened without flush */
	bool undropped;		/* closed, but its records would not go: try again */
	bool local;
};
struct lock_file {
	struct htab_node node;	/* key: ino */
	struct list_node owners;
	struct lockset local;	/* of LOCKS_LOCAL */
};
struct lock_pid {
	struct htab_node node;
	unsigned n;		/* owners of this process that hold something */
};

int locks_start(struct fs *fs);
void locks_stop(struct fs *fs);

/* ---- lock.c ---- */
bool lock_is_local(const struct fs_lock *l);
/* Once. 0, -EAGAIN, or an error. */
int lock_try(struct fs *fs, struct fs_lock *l);
/* It was had: what is cached of the file is made new, then done(). */
void lock_settle(struct fs *fs, struct fs_lock *l);
bool locks_pid_holds(const struct locks *k, uint32_t pid);
/* All locks of all files and waits, of this daemon's local ones. 0 or -ENOMEM. */
int locks_gather(const struct locks *k, struct lockset *ret);
void locks_drop_again(struct fs *fs);
void locks_drop_dead(struct fs *fs);	/* what those held who died unheard */
void locks_free(struct locks *k);

/* ---- lock_wait.c ---- */
void locks_first_try(struct fs *fs, struct fs_lock *l);
void locks_poke(struct locks *k, uint64_t ino);	/* something of it was given back; under the lock */
#endif
