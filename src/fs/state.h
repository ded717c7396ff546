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
#include <stdatomic.h>

#define ICACHE_SHARDS 64u
#define ICACHE_KNOWN  1024u /* remembered generations per shard */

struct fs_inode {
	struct htab_node node;	  /* key: the inode number */
	struct list_node link;	  /* DYING: in the reclaimer's queue */
	struct list_node handles; /* fs_file.link */
	unsigned pins;
	bool closing, forgotten, dying;
	atomic_bool orphan;   /* no link is left; read without the lock by flush */
	atomic_bool priv;     /* suid, sgid or capabilities that a write must clear */
	struct io_file *file; /* owned; stays while pinned once set */
};

/* Which published generation the kernel's cached pages belong to. Lossy: a miss costs the pages. */
struct icache_known {
	uint64_t ino, generation;
};
struct icache_shard {
	struct lock lock; /* rank LOCK_FS_TABLE; guards every fs_inode in tab, too */
	struct cond closed;
	struct htab tab;
	struct icache_known *known; /* [ICACHE_KNOWN] */
};

struct reclaim {
	struct lock lock; /* LOCK_LEAF */
	struct cond work;
	struct list_node queue; /* fs_inode.link */
	bool stop, running;
	pthread_t thread;
};

struct fs {
	struct fs_conf conf;
	struct icache_shard shard[ICACHE_SHARDS];
	struct reclaim reclaim;
	atomic_uint writers;	/* handles that may write: without any, rename asks nothing */
	atomic_uint orphans;	/* inodes in ORPHAN, or pinned with the last link gone */
	atomic_uint closes;	/* io_files let go: what was read of their inodes before may be old */
	atomic_bool forgets;	/* fs_forget() will come */
};

struct fs_file {
	struct fs *fs;
	struct fs_inode *in;   /* pinned */
	struct list_node link; /* in->handles */
	int flags;	       /* as opened */
	bool writer;
	atomic_bool was_read;	   /* for atime */
	_Atomic uint32_t err_seen; /* errors of the file that this handle has reported */
	struct fs_open_info info;
	struct io_stream stream;
};

/* ---- icache.c ---- */
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
void icache_forget_all(struct fs *fs);			   /* every unused ORPHAN → DYING */
/* True when the kernel's pages are of `generation`; from now on they are. */
bool icache_known(struct fs *fs, uint64_t ino, uint64_t generation);
/* This mount itself took the inode from the generation before to this one. */
void icache_known_bump(struct fs *fs, uint64_t ino, uint64_t generation);

/* ---- reclaim.c ---- */
int reclaim_start(struct fs *fs);
void reclaim_stop(struct fs *fs); /* the queue is empty afterwards, unless the namespace fails */
void reclaim_push(struct fs *fs, struct fs_inode *in); /* under the shard's lock */

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
