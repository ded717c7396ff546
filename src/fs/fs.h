/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_FS_H
#define FS_FS_H
/*
 * POSIX meaning: handles, attributes, names, and the consistency policy that decides what must
 * happen before a call returns. Knows nothing of FUSE: fuse/, a preload library and tests call the
 * same functions.
 *
 * Every function takes the request it works for, returns 0 or negative, and may be called from any thread.
 * Permission is the kernel's (default_permissions); what the kernel leaves to us (suid clearing, ACL
 * inheritance, append) is done here. Inode numbers are the kernel's node ids: root is 1.
 */
#include "fs/policy.h"
#include "base/list.h"
#include "io/io.h"
#include "meta/lock.h"
#include "meta/meta.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <tessera/types.h>

struct fs;

struct fs_conf {
	struct meta *meta;		/* borrowed */
	struct io   *io;		/* borrowed */
	const struct tess_policy *policy;	/* of the mount; borrowed */
	const struct io_target *targets;	/* for statfs; borrowed */
	unsigned     ntargets;
	bool         readonly;
	enum fs_atime { ATIME_NO, ATIME_REL, ATIME_STRICT } atime;	/* strict: at every close after a read */
	int64_t      lease;		/* ns between beats, three times; 0: 30 s */
};
/* Starts the reclaimer of unlinked files, which first takes up what earlier sessions left. */
int fs_open(struct fs **ret, const struct fs_conf *conf);
/* All handles are closed (leftovers are published and closed). */
int fs_close(struct fs *fs);
const struct tess_policy *fs_policy(const struct fs *fs);	/* of the mount */
/* What holds for this inode: its mark, else the mount's. */
void fs_policy_of(const struct fs *fs, const struct meta_attr *a, struct tess_policy *ret);
/*
 * From now on the caller says with fs_forget() when its kernel has dropped an inode; until then what
 * lost its last name can still be asked about (fstat of an O_PATH descriptor, a removed working
 * directory). Without this call such inodes go as soon as no handle is open.
 */
void fs_forget_begin(struct fs *fs);
/* Every inode the kernel drops; cheap for those that live on */
void fs_forget(struct fs *fs, uint64_t ino);

/*
 * The kernel drops cached pages that a direct write changes (Linux 6.6 on, with DIRECT_IO_ALLOW_MMAP): appends and
 * O_DIRECT may pass the cache by. Elsewhere other handles would read zeros behind the old end.
 */
void fs_direct_appends(struct fs *fs);
/* Do other sessions have the file system open, or may they without our knowing yet? */
bool fs_shared(const struct fs *fs);
/*
 * How long the kernel may answer from what it was told of `a` (NULL: that a name is not there), in s.
 * dir: where the name is; 0: there is none.
 */
struct fs_ttl {
	double attr, entry;
};
struct fs_ttl fs_ttl(struct fs *fs, uint64_t dir, const struct meta_attr *a);

/*
 * What the kernel was told and other sessions have changed since. One thread calls these, one after
 * the other, with no lock held: telling the kernel waits for requests that it has in flight.
 */
#define FS_KERNEL_ATTR (-1)
struct fs_kernel {
	/*
	 * Forget the attributes, and the clean pages of `len` bytes from `off`; len 0: to the end; off
	 * FS_KERNEL_ATTR: of none.
	 */
	void (*inode)(void *arg, uint64_t ino, int64_t off, int64_t len);
	void (*entry)(void *arg, uint64_t dir, const char *name, size_t len);
	/* Forget every name that was told up to now. False: it cannot. */
	bool (*names)(void *arg);
};
void fs_watch_begin(struct fs *fs, const struct fs_kernel *kernel, void *arg);	/* both borrowed until the end */
void fs_watch_end(struct fs *fs);	/* no call comes after it; what was queued is done(), not told */
/*
 * From that same thread the kernel forgets pages and attributes of ino, and then done(arg) is
 * called; without a kernel (before begin, after end) at once. -ENOMEM: it is not.
 */
int fs_drop_pages(struct fs *fs, uint64_t ino, void (*done)(void *arg), void *arg);
/*
 * Nothing of the inode, nor of what is below a directory, is answered from memory any more when this
 * returns. Not from a handler of the kernel's requests.
 */
int fs_invalidate(struct fs *fs, uint64_t ino);
bool fs_fenced(const struct fs *fs);	/* this session was shut out: writes are -TESS_E_FENCED */

/* ---- names ---- */

struct fs_name {
	uint64_t    dir;
	const char *name;
	size_t      len;	/* checked: 1..255, no '/', not "." or ".." where that is illegal */
};
int fs_lookup(struct fs *fs, struct tess_req *req, struct fs_name n, struct meta_attr *ret);
/* Also regular files and directories. */
int fs_mknod(struct fs *fs, struct tess_req *req, struct fs_name n, mode_t mode, dev_t rdev,
	     struct meta_attr *ret);
int fs_symlink(struct fs *fs, struct tess_req *req, struct fs_name n, const char *target,
	       struct meta_attr *ret);
int fs_readlink(struct fs *fs, struct tess_req *req, uint64_t ino, char *ret, size_t cap, size_t *ret_len);
int fs_link(struct fs *fs, struct tess_req *req, uint64_t ino, struct fs_name n, struct meta_attr *ret);
int fs_unlink(struct fs *fs, struct tess_req *req, struct fs_name n);
int fs_rmdir(struct fs *fs, struct tess_req *req, struct fs_name n);
/* Publishes the source's bytes first */
int fs_rename(struct fs *fs, struct tess_req *req, struct fs_name from, struct fs_name to,
	      unsigned flags);
/*
 * plus: with attributes, except of entries that are open right now (their size may be ahead of the
 * namespace).
 */
int fs_readdir(struct fs *fs, struct tess_req *req, uint64_t dir, uint64_t cookie, bool plus,
	       int (*fn)(void *arg, const struct meta_dirent *e), void *arg);
bool fs_dir_frozen(const struct fs *fs, uint64_t dir);	/* the kernel may keep its listing */
int fs_fsyncdir(struct fs *fs, struct tess_req *req);

/* ---- attributes ---- */

int fs_getattr(struct fs *fs, struct tess_req *req, uint64_t ino, struct meta_attr *ret);
/* mask: enum meta_set bits, and: */
#define FS_SET_SIZE (1u << 16)		/* st->size */
#define FS_SET_ATIME_NOW (1u << 17)
#define FS_SET_MTIME_NOW (1u << 18)
#define FS_SET_KILL_PRIV (1u << 19)	/* the caller may not keep suid and sgid bits (kernel's KILL_SUIDGID) */
struct fs_file;
int fs_setattr(struct fs *fs, struct tess_req *req, uint64_t ino, struct fs_file *fh, unsigned mask,
	       const struct meta_attr *in, struct meta_attr *ret);
void fs_attr_stat(const struct meta_attr *a, struct stat *ret);	/* blksize 4096…, blocks exact */
int fs_statfs(struct fs *fs, struct tess_req *req, struct statvfs *ret);	/* no store I/O */
int fs_xattr_get(struct fs *fs, struct tess_req *req, uint64_t ino, const char *name, void *ret,
		 size_t cap, size_t *ret_len);
int fs_xattr_set(struct fs *fs, struct tess_req *req, uint64_t ino, const char *name,
		 const void *val, size_t n, int flags);
int fs_xattr_list(struct fs *fs, struct tess_req *req, uint64_t ino, char *ret, size_t cap,
		  size_t *ret_len);
int fs_xattr_remove(struct fs *fs, struct tess_req *req, uint64_t ino, const char *name);
/* Names beginning with "tessera." are views, computed, never stored: tessera.layout (read: JSON; write:
 * "class=S2,segment=4M,mapper=balanced,mode=strict"), tessera.mode (read and write: a mark or "none"),
 * tessera.generation, tessera.durability, tessera.rbytes, tessera.rfiles. Not listed. */

/* ---- open files ---- */

/* O_EXCL honoured */
int fs_create(struct fs *fs, struct tess_req *req, struct fs_name n, mode_t mode, int flags,
	      struct meta_attr *ret, struct fs_file **ret_fh);
int fs_tmpfile(struct fs *fs, struct tess_req *req, uint64_t dir, mode_t mode, int flags,
	       struct meta_attr *ret, struct fs_file **ret_fh);
int fs_file_open(struct fs *fs, struct tess_req *req, uint64_t ino, int flags, struct fs_file **ret_fh);
struct fs_open_info {		/* what the kernel may do with this handle */
	bool keep_cache, direct_io, noflush, parallel_writes;
};
struct fs_open_info fs_file_info(const struct fs_file *fh);
/* All or nothing; O_SYNC is a publish and a checkpoint */
int fs_write(struct fs_file *fh, struct tess_req *req, uint64_t off, const void *p, size_t n);
/* The same of what the kernel writes back from its own pages: nobody waits for it in a call. */
int fs_write_back(struct fs_file *fh, struct tess_req *req, uint64_t off, const void *p, size_t n);
struct fs_read {		/* embed; see io_read for the rules */
	struct io_read io;
	struct fs_file *fh;
	bool direct;		/* not into the kernel's pages; those of a mapping a direct handle fills, too */
	/* fs/refill.c's: */
	void (*done)(struct io_read *io);	/* the caller's */
	struct list_node link;
	uint64_t turn;
};
/* io.off, io.len, io.done, io.owner, io.req and direct set by the caller */
void fs_read(struct fs_read *r);
void fs_read_release(struct fs_read *r);
int fs_flush(struct fs_file *fh, struct tess_req *req);	/* each close(2): publishes; idempotent */
int fs_fsync(struct fs_file *fh, struct tess_req *req, bool datasync);
/* Returns when what is written so far is on its targets, wherever fsync puts it */
int fs_wait_durable(struct fs *fs, struct tess_req *req, uint64_t ino);
int fs_fallocate(struct fs_file *fh, struct tess_req *req, int mode, uint64_t off, uint64_t len);
int fs_lseek(struct fs_file *fh, struct tess_req *req, uint64_t off, int whence, uint64_t *ret);
int fs_copy(struct fs_file *src, uint64_t src_off, struct fs_file *dst, uint64_t dst_off,
	    uint64_t len, struct tess_req *req, uint64_t *ret_n);
void fs_release(struct fs_file *fh, struct tess_req *req);
uint64_t fs_file_ino(const struct fs_file *fh);
/* Some request's `cancelled` was set: what waits for a store for its sake ends soon. Only sets a flag. */
void fs_given_up(struct fs *fs);
bool fs_is_local(const struct fs *fs);		/* no store is behind a network */
bool fs_file_dirty(const struct fs_file *fh);	/* a flush or the last release has something to publish */
bool fs_write_waits(const struct fs_file *fh);	/* a write now would wait: for memory, or O_SYNC */

/* ---- locks: fcntl(2) ranges, of processes and of open file descriptions, and flock(2) ---- */

/*
 * Embedded in the caller's request, which stays, with fh open, until done() is called: once, on any
 * thread, no lock held. Taking one is a point of refresh, giving one back a point of publication.
 */
struct fs_lock {
	struct fs_file *fh;
	struct tess_req *req;
	struct meta_lock want;	/* owner, kind, type, start, end, pid; META_LOCK_NONE: gives back */
	bool wait;		/* while others have it; else -EAGAIN */
	void (*done)(struct fs_lock *l, int err);
	/* fs/lock_wait.c's: */
	struct list_node link;	/* locks.waits */
	int64_t since, recheck, yielded;
	atomic_bool cancelled;
	bool queued, busy, due;
	uint64_t generation;	/* of the file; what the kernel has of others it is told to drop */
};
/* First begin, then set. In between the caller may have it known by the number that begin returns. */
uint64_t fs_lock_begin(struct fs_lock *l);
void fs_lock_set(struct fs_lock *l);
/* The request with this number, if it still waits, ends with -EINTR. */
void fs_lock_cancel(struct fs *fs, uint64_t number);
/* Who would be in the way of `want`? ret->type is META_LOCK_NONE when nobody is. */
int fs_lock_get(struct fs_file *fh, const struct meta_lock *want, struct meta_lock *ret);
/* After fs_flush(): a process that closes any descriptor of a file loses its ranges. */
void fs_lock_flush(struct fs_file *fh, struct tess_req *req, uint64_t owner);
/* Before fs_release(): what was taken through the open file description. */
void fs_lock_release(struct fs_file *fh, struct tess_req *req);
/* Requests that wait end with -TESS_E_STOPPING, later ones as well. */
void fs_lock_stop(struct fs *fs);
/* Locks of this mount never concern anybody else: the kernel keeps them itself. */
bool fs_lock_by_kernel(const struct fs *fs);

/* ---- layout.c: needs the namespace and the class table alone; the command line uses it, too ---- */

struct text;
const char *fs_tier(struct meta *m, uint16_t target);	/* "": it has none */
/* One JSON object, no newline: what `tessera layout --json` prints for a file. */
int fs_layout_json(struct meta *m, uint64_t ino, const char *path, struct text *out);
/*
 * Changes what `spec` ("class=S2,segment=4M,mapper=balanced", any part of it) names in *inout.
 * `why` may be NULL.
 */
int fs_layout_parse(const char *spec, unsigned ntargets, struct meta_layout *inout, struct text *why);
/*
 * With "mode=strict", too, which is a bit of inout->flags; the META_SET_ bits of what was named in
 * *ret_mask.
 */
int fs_spec_parse(const char *spec, unsigned ntargets, struct meta_attr *inout, unsigned *ret_mask,
		  struct text *why);
#define FS_MARK_NONE "none"
/* Puts the mark of that name into *flags. */
int fs_mark_parse(const char *name, uint32_t *flags, struct text *why);
const char *fs_mark_name(uint32_t flags);
/* The same words back. */
void fs_layout_text(const struct meta_layout *l, struct text *out);
#endif
