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
#include "io/io.h"
#include "meta/meta.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <tessera/types.h>

struct fs;

enum tess_when { AT_WRITE, AT_FSYNC, AT_CLOSE, AT_INTERVAL, AT_PUBLISH, NEVER };
struct tess_policy {
	const char    *name;
	enum tess_when visible, durable;		/* to other sessions; against a crash */
	double         attr_ttl, entry_ttl, negative_ttl;	/* s */
	bool           exact_size, exact_mtime, atomic_append, posix_locks;
	bool           kernel_writeback, keep_cache, direct_io;
};
extern const struct tess_policy policy_session;		/* close-to-open; the default */

struct fs_conf {
	struct meta *meta;		/* borrowed */
	struct io   *io;		/* borrowed */
	const struct tess_policy *policy;
	const struct io_target *targets;	/* for statfs; borrowed */
	unsigned     ntargets;
	bool         readonly;
	bool         atime;		/* update access times (relatime rule); off by default */
};
/* Starts the reclaimer of unlinked files, which first takes up what earlier sessions left. */
int fs_open(struct fs **ret, const struct fs_conf *conf);
/* All handles are closed (leftovers are published and closed). */
int fs_close(struct fs *fs);
const struct tess_policy *fs_policy(const struct fs *fs);
/*
 * From now on the caller says with fs_forget() when its kernel has dropped an inode; until then what
 * lost its last name can still be asked about (fstat of an O_PATH descriptor, a removed working
 * directory). Without this call such inodes go as soon as no handle is open.
 */
void fs_forget_begin(struct fs *fs);
/* Every inode the kernel drops; cheap for those that live on */
void fs_forget(struct fs *fs, uint64_t ino);

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
 * "class=S2,segment=4M,mapper=balanced"),
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
/* May this inode's attributes be cached by the kernel? Not while a write may change its mode behind it. */
bool fs_attr_cacheable(const struct meta_attr *a);
struct fs_open_info fs_file_info(const struct fs_file *fh);
/* All or nothing; O_SYNC is a publish and a checkpoint */
int fs_write(struct fs_file *fh, struct tess_req *req, uint64_t off, const void *p, size_t n);
struct fs_read {		/* embed; see io_read for the rules */
	struct io_read io;
	struct fs_file *fh;
};
void fs_read(struct fs_read *r);	/* io.off, io.len, io.done, io.owner, io.req set by the caller */
void fs_read_release(struct fs_read *r);
int fs_flush(struct fs_file *fh, struct tess_req *req);	/* each close(2): publishes; idempotent */
int fs_fsync(struct fs_file *fh, struct tess_req *req, bool datasync);
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

/* ---- layout.c: needs the namespace and the class table alone; the command line uses it, too ---- */

struct text;
/* One JSON object, no newline: what `tessera layout --json` prints for a file. */
int fs_layout_json(struct meta *m, uint64_t ino, const char *path, struct text *out);
/*
 * Changes what `spec` ("class=S2,segment=4M,mapper=balanced", any part of it) names in *inout.
 * `why` may be NULL.
 */
int fs_layout_parse(const char *spec, unsigned ntargets, struct meta_layout *inout, struct text *why);
/* The same words back. */
void fs_layout_text(const struct meta_layout *l, struct text *out);
#endif
