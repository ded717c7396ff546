/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_STATE_H
#define FS_STATE_H
/*
 * What the files of fs/ share: the table of inodes in use, handles, the reclaimer. Not for other
 * layers.
 *
 * An inode is in the table while one of these holds:
 *
 *   state      pins  file   means                                      leaves by
 *   OPEN       > 0   set*   handles, or a call that is at work on it   last unpin: CLOSING
 *   CLOSING    0     set    last bytes are published; openers wait     done: gone, ORPHAN or DYING
 *   ORPHAN     0     NULL   no link left, the kernel still knows it    forget: DYING
 *   DYING      0     NULL   queued for the reclaimer; open is ESTALE   reclaimed: gone
 *
 *   * from the first icache_attach() on.
 *
 * An opener pins before it asks the namespace whether the inode exists, and the reclaimer makes it
 * DYING before it deletes: one of the two sees the other.
 */
#include "base/htab.h"
#include "base/list.h"
#include "base/lock.h"
#include "fs/fs.h"
#include "fs/lock.h"
#include <stdatomic.h>

#define ICACHE_SHARDS 64u
#define ICACHE_KNOWN  1024u /* remembered generations per shard */

/* Under the shard's lock; `dropped` is read without, to see that there is nothing to do. */
struct refill {
	unsigned dropping;   /* drops of the kernel's pages that may still come */
	int64_t settles;     /* when one for a size that it was told is over */
	atomic_bool dropped; /* since then no cached write can be told from one that was copied before */
	uint64_t from, to;   /* bytes read since, while somebody might write */
	struct list_node reads; /* fs_read.link: of these what has not arrived, by age */
	atomic_uint nreads;  /* read without the lock, too */
	uint64_t turn;	     /* of the youngest */
	_Atomic uint64_t size; /* what the kernel thinks; UINT64_MAX: not known */
};

struct fs_inode {
	struct htab_node node;	  /* key: the inode number */
	struct list_node link;	  /* DYING: in the reclaimer's queue */
	struct list_node handles; /* fs_file.link */
	unsigned pins;
	bool closing, forgotten, dying;
	atomic_bool orphan;   /* no link is left; read without the lock by flush */
	atomic_bool frozen;   /* laminated */
	atomic_bool priv;     /* suid, sgid or capabilities that a write must clear */
	atomic_uint writers;  /* handles that may write; changed under the shard's lock */
	struct refill refill;
	struct io_file *file; /* owned; stays while pinned once set */
};

/* Which published generation the kernel's cached pages belong to. Lossy: a miss costs the pages. */
struct icache_known {
	uint64_t ino, generation;
	int64_t closed; /* when a handle was, under a policy that limits how long pages stay; 0: open */
};
struct icache_shard {
	struct lock lock; /* rank LOCK_FS_TABLE; guards every fs_inode in tab, too */
	struct cond closed;
	struct cond told; /* pages that came back are dropped */
	struct htab tab;
	struct icache_known *known; /* [ICACHE_KNOWN] */
};

struct reclaim {
	struct lock lock; /* LOCK_LEAF */
	struct cond work;
	struct list_node queue; /* fs_inode.link */
	bool stop, running, look; /* look: ask the namespace for orphans now */
	pthread_t thread;
};

/* ---- watch.c ---- */
#define WATCH_SESSIONS 256u
struct watch_change {
	enum meta_change_kind kind;
	uint64_t ino;
	uint16_t len;
	char name[TESS_NAME_MAX];
};
struct watch {
	struct lock lock; /* LOCK_LEAF: stop, seen, and down to overflow */
	struct cond wake, told, looks; /* looks: seen has moved */
	const struct fs_kernel *kernel;
	void *kernel_arg;
	struct list_node notes;	/* struct note.link: what the kernel has yet to hear */
	unsigned nnotes;
	bool ending, overflow;	/* overflow: it must forget everything */
	bool stop, running;
	pthread_t thread, notifier;
	atomic_int_fast64_t looked;	/* clock_now_coarse() */
	uint64_t seen;		/* commits that were looked at, and are told or on their way */
	/* The watch thread's own: */
	uint64_t tail, joined;	/* commits: told of; of the newest session */
	unsigned sessions;
	bool behind, urgent, fenced, adopting;
	int64_t tail_at, beat_at, dead_at;
	struct watch_change *changes;	/* owned */
	unsigned nchanges, cap;
	bool missed;
};

struct fs {
	struct fs_conf conf;
	struct icache_shard shard[ICACHE_SHARDS];
	struct reclaim reclaim;
	struct watch watch;
	struct locks locks;
	struct laminate *laminate; /* owned */
	atomic_uint writers;	/* handles that may write: without any, rename asks nothing */
	atomic_uint orphans;	/* inodes in ORPHAN, or pinned with the last link gone */
	atomic_uint closes;	/* io_files let go: what was read of their inodes before may be old */
	atomic_bool forgets;	/* fs_forget() will come */
	atomic_bool direct_appends; /* fs_direct_appends() */
	atomic_bool shared;	/* another session has the file system open */
	atomic_bool was_shared;	/* or had since we have */
	atomic_bool kept;	/* the kernel was given attributes for ever: of what is laminated */
};

struct fs_file {
	struct fs *fs;
	struct fs_inode *in;   /* pinned */
	struct list_node link; /* in->handles */
	int flags;	       /* as opened */
	bool writer;
	atomic_bool blind;	   /* it was another session's to write when last looked at */
	atomic_bool was_read;	   /* for atime */
	atomic_bool opening;	   /* the kernel may not have dropped its pages yet, those older than `fresh` */
	uint64_t fresh;		   /* the generation at open */
	_Atomic uint32_t err_seen; /* errors of the file that this handle has reported */
	struct tess_policy policy; /* resolved at open */
	struct fs_open_info info;
	struct io_stream stream;
};

/* ---- icache.c ---- */
struct icache_shard *icache_shard(struct fs *fs, uint64_t ino);
int icache_init(struct fs *fs);
void icache_done(struct fs *fs); /* publishes and closes what is left */
/* Holds the inode in the table. -TESS_E_STALE when it is dying, -ENOMEM. Waits for a close in
 * progress. */
int icache_pin(struct fs *fs, uint64_t ino, struct fs_inode **ret);
void icache_unpin(struct fs *fs, struct fs_inode *in);
struct fs_inode *icache_pin_open(struct fs *fs,
				 uint64_t ino); /* only one that has an io_file; else NULL */
int icache_attach(struct fs *fs, struct fs_inode *in,
		  const struct meta_attr *a); /* makes in->file */
/* Pins, checks that it is a regular file, attaches. *ret_attr is as published. */
int icache_open(struct fs *fs, uint64_t ino, struct fs_inode **ret, struct meta_attr *ret_attr);
/* Lays unpublished state over *a. False when bytes were published meanwhile: read *a again. */
bool icache_overlay(struct fs *fs, struct meta_attr *a, bool was_dirty);
bool icache_dirty(struct fs *fs, uint64_t ino);
bool icache_is_open(struct fs *fs, uint64_t ino);
void icache_set_priv(struct fs *fs, uint64_t ino, bool priv);
void icache_add_handle(struct fs *fs, struct fs_file *fh);
void icache_del_handle(struct fs *fs, struct fs_file *fh);
void icache_orphaned(struct fs *fs, uint64_t ino); /* its last link is gone */
void icache_linked(struct fs *fs, uint64_t ino);   /* an orphan got a name again */
void icache_stale(struct fs *fs,
		  uint64_t ino); /* an orphan of an earlier session: reclaim unless in use */
void icache_reclaimed(struct fs *fs, struct fs_inode *in); /* DYING → gone */
void icache_sized(struct fs *fs, uint64_t ino, uint64_t size); /* refill_sized() if it is in use */
void icache_resized(struct fs *fs, uint64_t ino, uint64_t size); /* refill_resized() if it is */
/* What another session's commit asks: does anybody here use it; has it lost its last link there;
 * do its open handles keep pages by time; look again at what it published. */
bool icache_in_use(struct fs *fs, uint64_t ino);
void icache_unlinked(struct fs *fs, uint64_t ino);
bool icache_timed(struct fs *fs, uint64_t ino);
void icache_refresh(struct fs *fs, uint64_t ino);
/* Every inode in use, and every one whose pages the kernel may have; no lock held. */
void icache_each(struct fs *fs, void (*fn)(void *arg, uint64_t ino), void *arg);
void icache_forget_all(struct fs *fs);			   /* every unused ORPHAN → DYING */
/* The kernel's pages are of `generation`, and the last close was no longer than `ttl` ago (0: no matter). */
bool icache_known_within(struct fs *fs, uint64_t ino, uint64_t generation, int64_t ttl);
/* It has dropped those that are older. Not before it has: an open that comes then would keep them. */
void icache_known_set(struct fs *fs, uint64_t ino, uint64_t generation);
void icache_known_closed(struct fs *fs, uint64_t ino);
/* This mount itself took the inode from the generation before to this one. */
void icache_known_bump(struct fs *fs, uint64_t ino, uint64_t generation);

/* ---- file.c ---- */
/* A request of it has come, so the kernel has finished the open, and dropped what pages it had. */
void file_opened(struct fs_file *fh);
bool file_is_blind(struct fs_file *fh); /* looks again, as long as it is */
int file_may_change(const struct fs_file *fh); /* -EPERM: laminated since it was opened */
/*
 * After a truncate or a punch. Alone, it is published with the bytes that follow: a crash in between leaves
 * the old file. Shared, it is published now: what another session writes after it must outlive it.
 */
int file_cut(struct fs *fs, struct tess_req *req, struct io_file *f);
int file_written(struct fs_file *fh, struct tess_req *req, enum tess_when when);

/* ---- refill.c: reads that bring back what a write on its way replaces ---- */
/* From begin to end the kernel may drop pages of the inode, which is pinned. */
void refill_begin(struct fs *fs, struct fs_inode *in);
void refill_end(struct fs *fs, struct fs_inode *in);
void refill_read(struct fs_read *r); /* of which nothing is read yet */
/* These bytes were written, by a program and not by the kernel's write-back; the write is not answered yet. */
void refill_written(struct fs_file *fh, const struct tess_req *req, uint64_t off, uint64_t end);
bool refill_may_wait(struct fs_inode *in); /* a write now might have to, for a read */
/* The kernel will be told so; under the shard's lock. */
void refill_sized(struct fs_inode *in, uint64_t size);
/* It has seen to that itself: a write, a cut. */
void refill_grown(struct fs_inode *in, uint64_t end);
static inline void refill_resized(struct fs_inode *in, uint64_t size)
{
	atomic_store(&in->refill.size, size);
}

/* ---- reclaim.c ---- */
void reclaim_init(struct fs *fs); /* before the watch, which pushes, and done after it */
void reclaim_done(struct fs *fs);
int reclaim_start(struct fs *fs);
void reclaim_stop(struct fs *fs); /* the queue is empty afterwards, unless the namespace fails */
void reclaim_push(struct fs *fs, struct fs_inode *in); /* under the shard's lock */
void reclaim_kick(struct fs *fs); /* orphans came from elsewhere */

/* ---- watch.c ---- */
int watch_start(struct fs *fs);
/* Queued for the kernel; with too many of them it forgets everything. */
/*
 * What is committed by now is told, or queued for the notify thread. For what the namespace itself no
 * longer shows: names that are gone. -ETIMEDOUT: it cannot be looked at.
 */
int watch_catch_up(struct fs *fs);
void watch_forget_inode(struct fs *fs, uint64_t ino);
/* The same of these bytes alone, before all else that is queued; done() as of fs_drop_pages(). */
int watch_drop_range(struct fs *fs, uint64_t ino, uint64_t off, uint64_t len, void (*done)(void *arg), void *arg);
void watch_forget_name(struct fs *fs, uint64_t dir, const char *name, size_t len);
void watch_stop(struct fs *fs); /* also after a start that failed */

/* ---- attr.c ---- */
int attr_get(struct fs *fs, uint64_t ino, struct meta_attr *ret);
/* *a was read from the namespace when fs->closes was `closes`: makes it what callers of this mount
 * must see. */
int attr_settle(struct fs *fs, unsigned closes, struct meta_attr *a);
bool attr_has_priv(const struct meta_attr *a);
int attr_kill_priv(struct fs *fs, struct fs_inode *in, const struct tess_req *req);

static inline uint64_t inode_ino(const struct fs_inode *in)
{
	return in->node.key;
}
#endif
