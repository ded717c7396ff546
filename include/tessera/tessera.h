/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_TESSERA_H
#define TESSERA_TESSERA_H
/*
 * libtessera: one file system, as daemons and tools see it. The FUSE daemon and the `tessera`
 * command are thin users of this header; so may a preload library or an MPI tool be.
 *
 * Every call returns 0 or a negative error (tess_strerror(), tess_errno()). Where a call takes
 * `why`, it is a caller's buffer of TESS_WHY bytes that gets one line for the user on failure.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <tessera/types.h>

#define TESS_WHY 512

struct tess;		/* an open file system */
struct fs;

const char *tess_version(void);
int         tess_errno(int err);	/* negative error → positive errno */
const char *tess_strerror(int err);

/* ---- making one ---- */
struct tess_mkfs {
	const char        *dir;			/* made if absent; must be empty */
	const char *const *targets;		/* URIs; ntargets 0: one kv target inside dir */
	unsigned           ntargets;
	const char        *cls;			/* NULL: "S1" */
	const char        *mapper;		/* NULL: "write-optimized" */
	uint64_t           segment_size;	/* 0: 4 MiB */
	const char        *label;		/* NULL: none */
	uint64_t           kv_size;		/* of the target inside dir; 0: most of what is free */
	const char        *mode;		/* consistency mode of what has no mark; NULL: each mount's */
};
int tess_mkfs(const struct tess_mkfs *conf, char *why);

/* ---- opening one ---- */
enum tess_open_mode {
	TESS_LOOK,	/* namespace only, read-only, no session: layout, df, whose, fsck without repair */
	TESS_WORK,	/* writes namespace and targets, registers a session: gc, repair */
	TESS_MOUNT,	/* everything: data path and background work */
};
struct tess_conf {		/* the mount options; rows in tess_mount_opts() */
	bool     readonly;
	uint64_t cache_size, staging_size;
	char    *staging;	/* directory; NULL: FS/staging */
	int      fsync_how;	/* 0 auto, 1 local, 2 target */
	int      drain;		/* 0 eager, 1 close, 2 idle, 3 manual */
	char    *write_tier, *rest_tier;	/* of targets; NULL: none */
	uint64_t commit_interval, seal_idle;	/* ns */
	uint64_t readahead;
	/* The consistency policy: see tessera-semantics(7). Words are indices, 0 leaves it to the mode. */
	int      mode;		/* 0: session, or what mkfs said */
	int      locks, append, size_how, mtime_how, meta_how;
	int      atime;		/* 0 no, 1 rel, 2 strict */
	bool     cto, writeback_cache, direct_io;
	uint64_t interval, actimeo, lease;	/* ns */
	uint64_t attr_time, dentry_time, dentry_dir_time, ndentry_time;	/* ns */
	char    *data_cache;
	uint32_t given;		/* enum tess_given: which of these were set, where 0 says something */
	char    *log;
	char    *faults;
	char    *boot_id;	/* tests */
	uint64_t meta_latency;	/* ns; measurements */
	/* used by the FUSE adaptor only */
	bool     allow_other, allow_root, default_permissions, foreground, debug_fuse;
	uint64_t threads, max_write;
	uint64_t hung_request;	/* ns */
	char    *generic;	/* mount(8)'s options that the kernel acts on: "nosuid,nodev"; or NULL */
};
enum tess_given {
	TESS_GIVEN_WRITEBACK = 1 << 0, TESS_GIVEN_DIRECT = 1 << 1, TESS_GIVEN_INTERVAL = 1 << 2,
	TESS_GIVEN_ACTIMEO = 1 << 3, TESS_GIVEN_ATTR = 1 << 4, TESS_GIVEN_DENTRY = 1 << 5,
	TESS_GIVEN_DENTRY_DIR = 1 << 6, TESS_GIVEN_NDENTRY = 1 << 7,
};
struct tess_opt;
const struct tess_opt *tess_mount_opts(void);
int  tess_conf_init(struct tess_conf *conf);	/* the defaults */
void tess_conf_done(struct tess_conf *conf);	/* frees the strings */
/*
 * "cache-size=1G,ro,noatime": option rows and what mount(8) and fstab(5) add. The latter are accepted:
 * kernel flags go to `generic`, the rest is dropped. -TESS_E_OPT_UNKNOWN, -TESS_E_OPT_VALUE.
 */
int  tess_conf_parse(struct tess_conf *conf, const char *list, char *why);
int  tess_open(struct tess **ret, const char *dir, enum tess_open_mode mode,
	       const struct tess_conf *conf, const char *mountpoint, char *why);
/* Returns when everything is durable, or the first error with `why` naming what is not. Always closes. */
int  tess_close(struct tess *t, char *why);
struct fs *tess_fs(struct tess *t);		/* TESS_MOUNT only */
const char *tess_dir(const struct tess *t);	/* absolute */
int  tess_sync(struct tess *t);			/* all open files published, staged segments on targets, checkpoint */

/* ---- looking: also while mounted elsewhere on this host ---- */
/*
 * PATH on a mounted Tessera, or a path below a mount; fills the FS directory and inode. -ENOTSUP
 * when it is not on a Tessera mount.
 */
int tess_locate(const char *path, char *ret_dir, size_t cap, uint64_t *ret_ino, char *why);
/* More of the same, also for a dead mount (its daemon is gone), which has ino 0. */
struct tess_where {
	char     dir[4096], mountpoint[4096];
	uint64_t ino;
	bool     dead;
};
int tess_where(const char *path, struct tess_where *ret, char *why);
/* `path` from the root of the file system. */
int tess_resolve(struct tess *t, const char *path, uint64_t *ret_ino);

enum tess_layout_format { TESS_LAYOUT_TABLE, TESS_LAYOUT_JSON };
int tess_layout(struct tess *t, uint64_t ino, const char *path, enum tess_layout_format how,
		FILE *out, char *why);
/* spec: "class=S2,segment=4M,mapper=balanced,mode=strict". */
int tess_setlayout(struct tess *t, uint64_t ino, const char *spec, char *why);
int tess_checklayout(const char *dir, const char *spec, char *why);	/* would tess_setlayout() take it? */
/* object → file ranges. fn per range, until non-zero. */
struct tess_owner {
	uint64_t   ino;
	const char *path;
	uint64_t   offset, length, object_offset;
};
int tess_whose(struct tess *t, unsigned target, const char *object,
	       int (*fn)(void *arg, const struct tess_owner *), void *arg, char *why);
int tess_df(struct tess *t, bool json, FILE *out, char *why);

struct tess_fsck {
	bool repair, verify, json;	/* verify: read every object too */
	FILE *out;
	uint64_t inodes, extents, segments, objects, findings, repaired;	/* out */
};
/* 0 also with findings: look at the counts. */
int tess_fsck(struct tess *t, struct tess_fsck *f, char *why);
struct tess_gc {
	bool dry_run, verbose, json;
	FILE *out;
	uint64_t objects, bytes, deleted;	/* out */
	uint64_t privates;			/* out: private trees of dead daemons */
};
int tess_gc(struct tess *t, struct tess_gc *g, char *why);
/* Who has it open: a table, or JSON. */
int tess_session_list(struct tess *t, bool json, FILE *out, char *why);
int tess_session_fence(struct tess *t, uint32_t id, char *why);	/* TESS_WORK; see tessera-session(8) */
int tess_class_list(bool json, FILE *out);
int tess_mapper_list(bool json, FILE *out);
int tess_mode_list(bool json, FILE *out);	/* the presets of -o mode= */

/* ---- talking to a mounted daemon, by a socket in the FS directory: never touches the mount ---- */
/*
 * mountpoint NULL: any daemon of it; -ENOTCONN when there is none. cmd: "stats", "stats json",
 * "stats verbose", "sample", "pending", "flush", "errors", "failures", "failures json", "config",
 * "mode [json] [INO]", "faults SPEC", "log SPEC". *ret: text, owned by the caller.
 */
int tess_control(const char *dir, const char *mountpoint, const char *cmd, char **ret, char *why);
/* The same of every daemon of it; the first error. -ENOTCONN when there is none. */
int tess_control_each(const char *dir, const char *cmd, char *why);
#endif
