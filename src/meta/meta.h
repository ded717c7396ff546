/* SPDX-License-Identifier: Apache-2.0 */
#ifndef META_META_H
#define META_META_H
/*
 * What the file system remembers: POSIX names and attributes, extents, segments, garbage, sessions.
 * Each function is one transaction unless it says otherwise, returns 0 or a negative error, and may
 * be called from any thread with no lock held. No permission is checked here (the kernel does, under
 * default_permissions); no object is touched.
 *
 * Times are the caller's `now` (ns): meta reads no clock.
 */
#include "base/req.h"
#include "meta/kv.h"
#include <sys/types.h>
#include <tessera/types.h>

struct meta;

/* ---- the file system ---- */

#define META_LABEL_MAX 63u
#define META_URI_MAX   1023u

struct meta_layout {		/* what new files of a directory get */
	uint16_t cls;		/* oclass id */
	uint16_t mapper;	/* mapper id */
	uint32_t segment_size;	/* bytes */
};
struct meta_target {
	uint16_t id;
	uint16_t state;		/* enum meta_target_state */
	char     tier[16];
	char     uri[META_URI_MAX + 1];	/* never a secret */
};
enum meta_target_state { META_TARGET_UP, META_TARGET_DRAINING };
struct meta_super {
	uint32_t format;	/* version */
	uint64_t compat, ro_compat, incompat;	/* feature bits */
	uint64_t fsid;
	uint8_t  uuid[16];
	char     label[META_LABEL_MAX + 1];
	int64_t  created;
	struct meta_layout layout;
	unsigned ntargets;
	struct meta_target targets[TESS_TARGETS_MAX];
};
/*
 * Writes the super record, the root directory (mode 0755, uid, gid of req) and counters into an
 * empty kv.
 */
int meta_format(struct kv *kv, const struct meta_super *super, const struct tess_req *req, int64_t now);
/*
 * Reads and checks the super record: -TESS_E_FORMAT_MAGIC, -TESS_E_FORMAT_NEWER, -TESS_E_RECORD with
 * `why`. kv stays the caller's until success.
 */
int  meta_open(struct meta **ret, struct kv *kv, struct text *why);
void meta_close(struct meta *m);	/* closes kv; NULL is fine */
const struct meta_super *meta_super(const struct meta *m);
struct kv *meta_kv(const struct meta *m);
int meta_super_update(struct meta *m, const struct meta_super *super);	/* label, layout, targets */

/* ---- sessions ---- */

struct meta_session {
	uint32_t id;			/* high half of its segment ids */
	char     host[65], boot[37];
	uint64_t pidns;			/* inode of /proc/self/ns/pid */
	uint32_t pid;
	uint64_t pid_start;		/* field 22 of /proc/PID/stat: a reused pid is another process */
	int64_t  started, heartbeat;
	char     mountpoint[256];
};
/*
 * Registers this process; ids of inodes and segments come from it. Refuses (OTHER_HOST,
 * OTHER_PIDNS, with `why`) while a live-looking session of elsewhere exists.
 */
int meta_session_begin(struct meta *m, const char *mountpoint, int64_t now, struct text *why);
int meta_session_beat(struct meta *m, int64_t now);
int meta_session_end(struct meta *m);		/* nothing of it is left: no orphans, no staged segments */
uint32_t meta_session_id(const struct meta *m);	/* 0: none */
int meta_sessions(struct meta *m, struct meta_session *ret, unsigned max, unsigned *ret_n);
/* Its process is gone (this host, this boot or not) */
bool meta_session_dead(const struct meta_session *s);
/* Takes over a dead session: its orphans and staged segments now belong to ours; its record goes. */
int meta_session_adopt(struct meta *m, uint32_t dead);
tess_segid meta_segment_new(struct meta *m);	/* no transaction but once every 2^32 */

/* ---- inodes ---- */

struct meta_attr {
	uint64_t ino;
	uint64_t generation;	/* grows with every change of content or attributes but a reader's atime */
	uint64_t parent;	/* a directory's parent; a file's last known one, a hint */
	uint32_t mode, uid, gid, nlink;
	uint64_t rdev;
	uint64_t size;
	uint64_t bytes;		/* published bytes that extents cover: st_blocks × 512, rounded up */
	int64_t  atime, mtime, ctime, btime;
	uint32_t flags;		/* enum meta_iflag */
	struct meta_layout layout;
};
enum meta_iflag {
	META_HAS_XATTR = 1 << 0,	/* a miss costs no lookup otherwise */
	META_HAS_ACL   = 1 << 1,
	META_DFLT_ACL  = 1 << 2,	/* directory with a default ACL */
	META_ORPHAN    = 1 << 3,	/* nlink 0, kept for open handles */
};
/* -TESS_E_STALE when there is none */
int meta_getattr(struct meta *m, uint64_t ino, struct meta_attr *ret);

enum meta_set {
	META_SET_MODE = 1 << 0, META_SET_UID = 1 << 1, META_SET_GID = 1 << 2, META_SET_ATIME = 1 << 3,
	META_SET_MTIME = 1 << 4, META_SET_CTIME = 1 << 5, META_SET_LAYOUT = 1 << 6, META_SET_BTIME = 1 << 7,
	META_KILL_PRIV = 1 << 8,	/* clear suid, sgid-with-group-x, and security.capability */
};
/*
 * ctime becomes `now` unless META_SET_CTIME. Size is meta_publish()'s. Changing mode with an ACL
 * updates the ACL's mask entry too.
 */
int meta_setattr(struct meta *m, uint64_t ino, unsigned mask, const struct meta_attr *in,
		 int64_t now, struct meta_attr *ret);

struct meta_new {
	/*
	 * Type and permission bits; with a default ACL on the parent the umask is ignored and the
	 * ACL applied
	 */
	uint32_t mode;
	uint32_t umask;
	uint32_t uid, gid;	/* a setgid parent wins for gid, and directories inherit the bit */
	uint64_t rdev;
	const char *symlink;	/* target, for S_IFLNK */
	size_t   symlink_len;
};
/*
 * -EEXIST (ret is then the existing one's attributes), -ENOENT parent gone, -ENOTDIR,
 * -ENAMETOOLONG, -EMLINK.
 */
int meta_create(struct meta *m, uint64_t parent, const char *name, size_t nlen,
		const struct meta_new *in, int64_t now, struct meta_attr *ret);
/* Nlink 0, orphan */
int meta_tmpfile(struct meta *m, uint64_t parent, const struct meta_new *in, int64_t now,
		 struct meta_attr *ret);
/* "." and ".." too. -ENOENT */
int meta_lookup(struct meta *m, uint64_t parent, const char *name, size_t nlen,
		struct meta_attr *ret);
int meta_readlink(struct meta *m, uint64_t ino, char *ret, size_t cap, size_t *ret_len);
int meta_link(struct meta *m, uint64_t ino, uint64_t parent, const char *name, size_t nlen,
	      int64_t now, struct meta_attr *ret);

struct meta_gone {		/* what a name pointed at, when that was its last link */
	uint64_t ino;		/* 0: nothing to reclaim */
	uint32_t mode;
	uint32_t nlink;
};
/*
 * Last link gone: the inode becomes an orphan of this session, to be reclaimed by meta_reclaim()
 * when nobody has it open.
 */
int meta_unlink(struct meta *m, uint64_t parent, const char *name, size_t nlen, int64_t now,
		struct meta_gone *ret);
int meta_rmdir(struct meta *m, uint64_t parent, const char *name, size_t nlen, int64_t now,
	       struct meta_gone *ret);
/*
 * flags: 0, RENAME_NOREPLACE or RENAME_EXCHANGE of <linux/fs.h>. All POSIX rules, -EINVAL into own
 * subtree included.
 */
struct meta_rename {
	uint64_t from_dir, to_dir;
	const char *from, *to;
	size_t from_len, to_len;
	unsigned flags;
};
int meta_rename(struct meta *m, const struct meta_rename *r, int64_t now, struct meta_gone *ret);

struct meta_dirent {
	const char *name;	/* valid during the callback */
	size_t      nlen;
	uint64_t    ino;
	uint32_t    type;	/* S_IFMT bits */
	uint64_t    cookie;	/* > 0: resume after this entry; stable while entries come and go */
	const struct meta_attr *attr;	/* when asked for */
};
/*
 * Calls fn for "." and ".." (cookies 1 and 2) and entries after `cookie` (0: start), in cookie
 * order, until it returns non-zero (a full reply; not an error) or the end. Entries present
 * throughout appear exactly once. One short read transaction.
 */
int meta_readdir(struct meta *m, uint64_t dir, uint64_t cookie, bool want_attr,
		 int (*fn)(void *arg, const struct meta_dirent *e), void *arg);

/*
 * Deletes up to `max_work` records of orphans whose content nobody has open; larger files take
 * several calls. *ret_more: call again.
 */
int meta_reclaim(struct meta *m, const uint64_t *inos, unsigned n, unsigned max_work, int64_t now,
		 bool *ret_more);
/* Orphans of our session (after an adoption: of dead ones too), ascending from `after`. */
int meta_orphans(struct meta *m, uint64_t after, uint64_t *ret, unsigned max, unsigned *ret_n);

/* ---- extended attributes: any namespace, name as the kernel gives it ---- */
/* -ENODATA; -ERANGE; cap 0: length only */
int meta_xattr_get(struct meta *m, uint64_t ino, const char *name, void *ret, size_t cap,
		   size_t *ret_len);
/* XATTR_CREATE, XATTR_REPLACE; system.posix_acl_* updates mode and flags */
int meta_xattr_set(struct meta *m, uint64_t ino, const char *name, const void *val, size_t n,
		   int flags, int64_t now);
int meta_xattr_remove(struct meta *m, uint64_t ino, const char *name, int64_t now);
/* NUL-separated */
int meta_xattr_list(struct meta *m, uint64_t ino, char *ret, size_t cap, size_t *ret_len);

/* ---- extents and segments ---- */

enum meta_seg_state { META_STAGED = 1, META_DURABLE = 2, META_DEGRADED = 3 };
struct meta_segment {
	tess_segid id;
	uint16_t   cls;			/* oclass id */
	uint8_t    state;		/* enum meta_seg_state */
	uint8_t    width;		/* shards; 0 while staged */
	uint32_t   cell;
	uint64_t   len;			/* bytes; while staged: at least what extents refer to */
	uint64_t   live;		/* bytes that extents refer to, counted once per extent */
	uint64_t   owner;		/* ino, or TESS_PACKED_INO */
	uint16_t   target[TESS_SHARDS_MAX];	/* of shard i */
};

/* A piece of a file, in order and without gaps over the range asked for; seg 0 is a hole. */
struct meta_piece {
	struct tess_extent ext;
	unsigned           segment;	/* index into meta_map.segments; undefined for a hole */
};
struct meta_map {
	uint64_t            size, generation;	/* of the file, in the same snapshot */
	struct meta_piece   pieces[64];
	unsigned            npieces;
	struct meta_segment segments[64];
	unsigned            nsegments;
	uint64_t            end;	/* the map covers [off, end); short of what was asked when arrays filled up */
};
/*
 * Extents of [off, off + len) ∩ [0, size) in one snapshot. The map is ~10 KiB: keep one per
 * request, not on deep stacks.
 */
int meta_map(struct meta *m, uint64_t ino, struct tess_range r, struct meta_map *ret);
/* Block checksums [first, first + n) of a durable segment. -TESS_E_RECORD when there are fewer. */
int meta_csums(struct meta *m, tess_segid id, uint32_t first, uint32_t n, uint32_t *ret);
/* SEEK_DATA / SEEK_HOLE over published extents and size; -ENXIO. */
int meta_seek(struct meta *m, uint64_t ino, uint64_t off, bool data, uint64_t *ret);

struct meta_new_segment {
	struct meta_segment seg;	/* live is computed */
	const uint32_t     *csums;	/* NULL while staged */
	uint32_t            ncsums;
};
/*
 * Publishes what was written to one file, in one transaction: first cuts published extents and size
 * at trunc_to (unless TESS_FILE_MAX + 1u), punches, then lays `ext` over what is there (later ones
 * win), adds segments, sets the size to max(size, new_size), accounts dead bytes, bumps the
 * generation. Segments whose last live byte went become garbage. A segment in `segs` that exists
 * already (a staged one that grows) has its length raised.
 */
#define META_NO_TRUNC (UINT64_C(1) << 63)
struct meta_publish {
	uint64_t trunc_to;		/* META_NO_TRUNC, or cut here first */
	uint64_t size;			/* file size afterwards is max(cut size, this) */
	const struct tess_range  *punch;/* become holes, before ext */
	unsigned npunch;
	const struct tess_extent *ext;	/* ascending or not; later ones win */
	unsigned next;
	const struct meta_new_segment *segs;
	unsigned nsegs;
	int64_t  mtime;			/* 0: leave mtime and ctime */
	int64_t  atime;			/* 0: leave */
	bool     kill_priv;		/* a write clears suid, sgid and security.capability */
};
int meta_publish(struct meta *m, uint64_t ino, const struct meta_publish *p, struct meta_attr *ret);
/* Several files in one transaction: a group of closes. errs[i] per file; the call fails only as a whole. */
int meta_publish_many(struct meta *m, const uint64_t *inos, const struct meta_publish *p,
		      unsigned n, int *errs);

/*
 * Shares the extents of src's range with dst at dst_off (replacing what is there), counts them
 * live, raises dst's size.
 */
struct meta_clone {
	uint64_t src, src_off, dst, dst_off, len;
};
int meta_clone(struct meta *m, const struct meta_clone *c, int64_t now, struct meta_attr *ret_dst);

int meta_segment_get(struct meta *m, tess_segid id, struct meta_segment *ret);	/* -ENOENT */
/* Staged segments of a session, in id order, ids > after: what an adopter has to drain. */
int meta_staged(struct meta *m, uint32_t session, tess_segid after, struct meta_segment *ret,
		unsigned max, unsigned *ret_n);
/* Segments in id order, ids > after. */
int meta_segments(struct meta *m, tess_segid after, struct meta_segment *ret, unsigned max,
		  unsigned *ret_n);
/*
 * A staged segment is now on its targets: state, width, targets, length, checksums; its staging
 * file becomes garbage. -ENOENT when all its bytes died meanwhile.
 */
int meta_segment_seal(struct meta *m, const struct meta_new_segment *s);

/* ---- garbage ---- */
enum meta_garbage_kind { META_GARBAGE_OBJECTS = 1, META_GARBAGE_STAGED = 2 };
struct meta_garbage {
	uint64_t serial;		/* key */
	uint8_t  kind;			/* enum meta_garbage_kind */
	struct meta_segment seg;	/* which objects, or which staging file */
	/* kv_last() of the commit before it died: deletable once kv_durable() > died */
	uint64_t died;
};
int meta_garbage_list(struct meta *m, uint64_t after, struct meta_garbage *ret, unsigned max,
		      unsigned *ret_n);
/* Their bytes are gone from the stores */
int meta_garbage_done(struct meta *m, const uint64_t *serials, unsigned n);

/* ---- totals, checking ---- */
struct meta_totals {
	uint64_t inodes, dentries, extents, segments, garbage, staged_segments;
	uint64_t kv_bytes;
};
int meta_totals(struct meta *m, struct meta_totals *ret);	/* O(1) */
/* Path of an inode by parent hints; NULL-terminated in ret; -ENOENT when orphaned, -ERANGE. */
int meta_path(struct meta *m, uint64_t ino, char *ret, size_t cap);
/* Walks "a/b/c" from the root without following symlinks at the end. */
int meta_resolve(struct meta *m, const char *path, struct meta_attr *ret);

/*
 * Checks every record and cross-reference; read transactions are chunked, so it may run while mounted
 * (`online`: findings that a concurrent change explains are looked at again before they are reported).
 * fn gets each finding; repair fixes what it can in small transactions.
 */
struct meta_finding {
	/*
	 * "nlink", "bytes", "live", "dangling-dentry", "dangling-extent", "overlap", "orphan",
	 * "record", "csum", "lost-segment", "parent"
	 */
	const char *what;
	uint64_t    ino;
	tess_segid  seg;
	char        text[256];
	bool        repaired;
};
struct meta_check {
	bool online, repair;
	void (*fn)(void *arg, const struct meta_finding *f);
	void *arg;
	uint64_t inodes, extents, segments, findings, repaired;	/* out */
};
int meta_check(struct meta *m, struct meta_check *c);
#endif
