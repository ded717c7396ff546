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
	uint16_t mark;		/* consistency mode of inodes without a META_MODE mark, 0: the mount's */
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
/*
 * From now on what this session changes leaves out what only tells when it did: a directory's mtime and
 * ctime are up to `ns` older than its last entry, a rename within a directory leaves the ctime of what it
 * renames. 0: exact, as at the start; and so is whatever has mark i where bit i of `exact` is set.
 */
void meta_relax(struct meta *m, int64_t ns, unsigned exact);

/* ---- sessions ---- */

struct meta_session {
	uint32_t id;			/* high half of its segment ids */
	char     host[65], boot[37];
	uint64_t pidns;			/* inode of /proc/self/ns/pid */
	uint32_t pid;
	uint64_t pid_start;		/* field 22 of /proc/PID/stat: a reused pid is another process */
	int64_t  started, heartbeat;	/* wall clock: for people, and other hosts */
	int64_t  beat;			/* the same beat on this host's monotonic clock: leases go by it */
	int64_t  lease;			/* ns it may be silent, by its own word; 0: 30 s */
	uint64_t joined;		/* the commit that registered it */
	/* Every commit up to here it knows of; UINT64_MAX: it caches nothing, nobody waits for it */
	uint64_t tail;
	bool     fenced;		/* nothing it has not published will be */
	char     mountpoint[256];
};
/*
 * Registers this process; ids of inodes and segments come from it. Refuses (OTHER_HOST,
 * OTHER_PIDNS, with `why`) while a live-looking session of elsewhere exists.
 */
int meta_session_begin(struct meta *m, const char *mountpoint, int64_t now, struct text *why);
void meta_lease(struct meta *m, int64_t ns);	/* of the session that begins next */
int meta_session_beat(struct meta *m, int64_t now);
int meta_session_end(struct meta *m);		/* nothing of it is left: no orphans, no staged segments */
uint32_t meta_session_id(const struct meta *m);	/* 0: none */
int meta_sessions(struct meta *m, struct meta_session *ret, unsigned max, unsigned *ret_n);
int meta_session_get(struct meta *m, uint32_t id, struct meta_session *ret);	/* -ENOENT */
/* Its process is gone (this host, this boot or not) */
bool meta_session_dead(const struct meta_session *s);
/* Takes over a dead session: its orphans and staged segments now belong to ours; its record goes. */
int meta_session_adopt(struct meta *m, uint32_t dead);

/*
 * Fencing. Who needs something of a session whose process lives but has not beaten for its lease
 * fences it: from that commit on each write transaction of that session fails -TESS_E_FENCED, so
 * nothing it did under a lock it no longer holds is ever published. Only its end takes it back.
 */
/* Its last beat is older than its lease; now: clock_now(). False for one that is fenced already or has no beat. */
bool meta_session_lapsed(const struct meta_session *s, int64_t now);
int  meta_fence(struct meta *m, uint32_t session);	/* 0 when it was fenced before; -ENOENT; -EINVAL: ourselves */
bool meta_fenced(const struct meta *m);		/* we are, as far as we know; a write transaction knows for sure */

/*
 * What others changed. Every write transaction leaves a note of the inodes and names it changed
 * while more than one session is registered; a session looks from where it stopped and says how far
 * it came (its tail), and what every tail has passed goes. The log is bounded: one that fell off it has lost
 * count and must take everything it cached for old.
 */
enum meta_change_kind {
	META_CHANGE_ATTR = 1,	/* of an inode; a directory's when an entry comes or goes, too */
	META_CHANGE_DATA,	/* published bytes or size; an ATTR comes with it */
	META_CHANGE_NAME,	/* an entry of directory `ino` came, went or is another inode now */
	META_CHANGE_ORPHAN,	/* the last link went */
};
struct meta_change {
	uint64_t serial;	/* of its commit */
	uint32_t session;	/* whose */
	enum meta_change_kind kind;
	uint64_t ino;
	const char *name;	/* NAME: valid during the callback, not terminated; else NULL */
	size_t   nlen;
};
struct meta_look {
	uint64_t serial;	/* everything up to here was told */
	bool     more;		/* call again from there: it was much */
	bool     lost;		/* notes between `after` and serial are gone */
	unsigned notes;		/* that were passed, our own included */
	unsigned sessions;	/* registered, ours included */
	uint64_t joined;	/* the newest session's */
	bool     fenced;
};
/* One read transaction; fn is called inside it and may not call meta. Own changes are left out. */
int meta_look(struct meta *m, uint64_t after, void (*fn)(void *arg, const struct meta_change *c),
	      void *arg, struct meta_look *ret);
int meta_tail(struct meta *m, uint64_t serial);	/* we know everything up to it; trims the log */
/*
 * The lowest tail of the other sessions that live and are not fenced: what was committed up to it
 * nobody has yet to hear of. UINT64_MAX: there are none.
 */
int meta_tails(struct meta *m, uint64_t *ret);
tess_segid meta_segment_new(struct meta *m);	/* no transaction but once every 2^32 */

/* ---- inodes ---- */

struct meta_attr {
	uint64_t ino;
	uint64_t generation;	/* grows with every change of content or attributes but a reader's atime */
	uint64_t parent;	/* a directory's parent; a file's last known one, a hint */
	uint32_t mode, uid, gid, nlink;
	uint64_t rdev;		/* of a META_HIDDEN file: the session that writes it */
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
	META_LAMINATED = 1 << 4,	/* content (a directory: its names) never changes again */
	META_HIDDEN    = 1 << 5,	/* a regular file whose content is session rdev's alone until it is laminated */
	META_MODE      = 7 << 8,	/* the consistency mode it is marked with, 0: none; fs/policy.h has the names */
};
#define META_MODE_SHIFT 8
static inline unsigned meta_mark(uint32_t flags)
{
	return (flags & META_MODE) >> META_MODE_SHIFT;
}
/* -TESS_E_STALE when there is none */
int meta_getattr(struct meta *m, uint64_t ino, struct meta_attr *ret);

enum meta_set {
	META_SET_MODE = 1 << 0, META_SET_UID = 1 << 1, META_SET_GID = 1 << 2, META_SET_ATIME = 1 << 3,
	META_SET_MTIME = 1 << 4, META_SET_CTIME = 1 << 5, META_SET_LAYOUT = 1 << 6, META_SET_BTIME = 1 << 7,
	META_SET_FLAGS = 1 << 9,	/* LAMINATED, HIDDEN (with rdev) and MODE bits */
	META_SET_MARK = 1 << 10,	/* the MODE bits alone */
	META_KILL_PRIV = 1 << 8,	/* clear suid, sgid-with-group-x, and security.capability */
};
/*
 * ctime becomes `now` unless META_SET_CTIME. Size is meta_publish()'s. Changing mode with an ACL
 * updates the ACL's mask entry too.
 */
int meta_setattr(struct meta *m, uint64_t ino, unsigned mask, const struct meta_attr *in,
		 int64_t now, struct meta_attr *ret);

/*
 * Content from here on is as it is, of a directory the names: what would change it, or the attributes
 * that come with it, is -EPERM. Of a hidden file session `owner` gives it to everybody by this; -EBUSY: it is
 * another's. mode: new permission bits, META_KEEP_MODE: as they are. 0 for one that is laminated.
 */
#define META_KEEP_MODE UINT32_MAX
int meta_laminate(struct meta *m, uint64_t ino, uint32_t owner, uint32_t mode, int64_t now,
		  struct meta_attr *ret);
int meta_unlaminate(struct meta *m, uint64_t ino, int64_t now, struct meta_attr *ret);
/*
 * A hidden file that session `from`, which is gone, left: ours to write, hidden as before or not. 0 when
 * it is not hidden or ours already; -EBUSY: somebody else was faster; -EPERM: laminated.
 */
int meta_claim(struct meta *m, uint64_t ino, uint32_t from, bool hide, int64_t now,
	       struct meta_attr *ret);

struct meta_new {
	/*
	 * Type and permission bits; with a default ACL on the parent the umask is ignored and the
	 * ACL applied
	 */
	uint32_t mode;
	uint32_t umask;
	uint32_t uid, gid;	/* a setgid parent wins for gid, and directories inherit the bit */
	uint32_t hidden;	/* session: a regular file is born META_HIDDEN; 0: not */
	uint8_t  hidden_marks;	/* bit i: in a directory that is marked with mode i */
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
/*
 * Each session that has an orphan open holds it by a record of its own, and the last one to let go
 * deletes it. An orphan that another session may still come to hold (its tail is behind the unlink)
 * stays: meta_reclaim() does the others and returns -EBUSY.
 */
int meta_orphan_hold(struct meta *m, uint64_t ino);	/* -TESS_E_STALE: too late; 0 when it is no orphan, too */
int meta_orphan_held(struct meta *m, uint64_t ino);	/* by our session: 0 or -TESS_E_STALE */
/* Leaves our orphans that are still waited for to a session that lives; for the end of ours. */
int meta_orphans_leave(struct meta *m);
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
	/*
	 * The garbage record that names objects of it besides these: of a copy under way, or left by a move.
	 * 0, or one that is gone by now: there are none.
	 */
	uint64_t   moved;
	uint16_t   target[TESS_SHARDS_MAX];	/* of shard i */
};
/* The record says that the target has this shard. */
static inline bool meta_segment_at(const struct meta_segment *s, unsigned shard, uint16_t target)
{
	return s->state != META_STAGED && shard < s->width && s->target[shard] == target;
}

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
 * at trunc_to (unless TESS_FILE_MAX + 1u), punches, then lays `ext` over what is there and was not
 * written in a later turn (of equal ones the later extent wins), adds segments, sets the size to
 * max(size, new_size), accounts dead bytes, bumps the generation. Segments whose last live byte went
 * become garbage. A segment in `segs` that exists already (a staged one that grows) has its length
 * raised.
 */
#define META_NO_TRUNC (UINT64_C(1) << 63)
#define META_TURN_MOVED UINT64_MAX	/* of an extent: the bytes that were there, in the turns they have */
struct meta_publish {
	uint64_t trunc_to;		/* META_NO_TRUNC, or cut here first */
	uint64_t size;			/* file size afterwards is max(cut size, this) */
	const struct tess_range  *punch;/* become holes, before ext */
	unsigned npunch;
	const struct tess_extent *ext;	/* ascending or not; with `append` their turns are taken here */
	unsigned next;
	const struct meta_new_segment *segs;
	unsigned nsegs;
	int64_t  mtime;			/* 0: leave mtime and ctime */
	int64_t  atime;			/* 0: leave */
	uint64_t generation;		/* not 0: -EAGAIN, and nothing is published, when the file is of another */
	bool     append;		/* size and offsets of ext count from the end of the file; no trunc_to, no punches */
	bool     kill_priv;		/* a write clears suid, sgid and security.capability */
};
int meta_publish(struct meta *m, uint64_t ino, const struct meta_publish *p, struct meta_attr *ret);
/*
 * The turn of a write to the range that begins now: not below that of any write to it, by whichever
 * session, that ended before, and above those of other sessions. Lamport's logical clock (CACM 21(7),
 * 1978), one for each region of a file. No transaction, no lock, no system call. Needs words: not of a
 * namespace that was opened to look only.
 */
uint64_t meta_turn(struct meta *m, uint64_t ino, struct tess_range r);
/* Nobody has taken another turn of any of the range since this one was. */
bool meta_turn_stands(const struct meta *m, uint64_t ino, struct tess_range r, uint64_t turn);
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
enum meta_garbage_kind {
	META_GARBAGE_OBJECTS = 1, META_GARBAGE_STAGED = 2,
	META_GARBAGE_COPYING = 3,	/* `session` is making these objects: garbage when it is dead */
	META_GARBAGE_MOVED = 4,		/* objects beside those of a segment that lives; `session` deletes them, nobody else */
};
struct meta_garbage {
	uint64_t serial;		/* key */
	uint8_t  kind;			/* enum meta_garbage_kind */
	uint32_t session;		/* COPYING, MOVED: whose it is; else 0 */
	struct meta_segment seg;	/* which objects, or which staging file */
	/* kv_last() of the commit before it died: deletable once kv_durable() > died */
	uint64_t died;
};
int meta_garbage_list(struct meta *m, uint64_t after, struct meta_garbage *ret, unsigned max,
		      unsigned *ret_n);
/* Their bytes are gone from the stores */
int meta_garbage_done(struct meta *m, const uint64_t *serials, unsigned n);

/* ---- moving a segment to other targets: src/meta/move.c ---- */
/*
 * Says that this session makes the objects that `to` names, of the segment as `old` says it is. -ENOENT: it
 * died; -ESTALE: it is another by now; -EBUSY: objects of it elsewhere are made or deleted right now.
 */
int meta_move_begin(struct meta *m, const struct meta_segment *old, const struct meta_segment *to,
		    uint64_t *ret_serial);
/*
 * They are there: the segment is where `to` says, and the old objects are this session's to delete. When
 * it is not as `old` says any more the new ones are, and *ret_moved false. -ESTALE: nothing was known of the copy.
 */
int meta_move_end(struct meta *m, uint64_t serial, const struct meta_segment *old,
		  const struct meta_segment *to, bool *ret_moved);
int meta_move_cancel(struct meta *m, uint64_t serial);	/* the copy failed: its objects are to be deleted */
/* What dead `session` copied or had to delete is this one's to delete. -ESTALE: another took it. */
int meta_move_claim(struct meta *m, uint64_t serial, uint32_t session);
/* Whether records name the object, of whatever session: 1, 0, or -ENOENT: its segment does not exist. */
int meta_object_known(struct meta *m, tess_segid id, unsigned shard, uint16_t target);
/* One that is not known, of a segment that lives, is this session's to delete. -EBUSY: not now. */
int meta_object_stray(struct meta *m, tess_segid id, unsigned shard, uint16_t target);

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
	 * "record", "csum", "lost-segment", "parent", "session", "lock"
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
