/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/laminate.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <stdlib.h>
#include <string.h>

/* ---- what is remembered: sets of a few, of which the one used longest ago makes room ---- */

#define LAM_SETS  8192u
#define LAM_WAYS  8u
#define LAM_LOCKS 64u

/* Of an inode: dir 0 and no name. Of a name in a laminated directory: the inode it leads to. */
struct lam_entry {
	uint64_t dir, ino;
	struct meta_attr a; /* of an inode */
	bool opened;
	uint32_t len;
	char name[];
};

struct laminate {
	struct lock lock[LAM_LOCKS];		  /* LOCK_LEAF; of each LAM_LOCKS-th set */
	struct lam_entry *(*set)[LAM_WAYS]; /* owned; used last first */
	/* Before this changes what was read may be remembered; after, it may be old. */
	atomic_uint_fast64_t epoch;
	uint8_t marks;		     /* meta_new.hidden_marks */
	struct trace_counter count[2];
	struct trace_group stats;
};

int laminate_start(struct fs *fs)
{
	struct laminate *l = mem_zalloc(sizeof(*l));
	struct tess_policy p;

	if (!l)
		return -ENOMEM;
	l->set = mem_array(LAM_SETS, sizeof(*l->set));
	if (!l->set) {
		free(l);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < LAM_LOCKS; i++)
		lock_init(&l->lock[i], LOCK_LEAF, "fs.laminate");
	for (unsigned i = 0; i < MODE_COUNT; i++) {
		policy_resolve(fs->conf.policy, (enum tess_mode)i, &p);
		l->marks |= (uint8_t)((p.mode == MODE_LAMINATE) << i);
	}
	l->count[0].name = "hits";
	l->count[1].name = "misses";
	l->stats = (struct trace_group){.name = "laminated", .counters = l->count, .ncounters = 2};
	trace_register(&l->stats);
	fs->laminate = l;
	return 0;
}

void laminate_stop(struct fs *fs)
{
	struct laminate *l = fs->laminate;

	if (!l)
		return;
	trace_unregister(&l->stats);
	laminate_forget(fs, NULL, NULL);
	for (unsigned i = 0; i < LAM_LOCKS; i++)
		lock_done(&l->lock[i]);
	free(l->set);
	free(l);
	fs->laminate = NULL;
}

static size_t lam_set(uint64_t dir, uint64_t ino, const char *name, size_t len)
{
	return (dir ? hash_bytes(name, len, hash64(dir)) : hash64(ino)) % LAM_SETS;
}

static bool lam_is(const struct lam_entry *e, uint64_t dir, uint64_t ino, const char *name, size_t len)
{
	if (!e || e->dir != dir)
		return false;
	return dir ? e->len == len && !memcmp(e->name, name, len) : e->ino == ino;
}

/* To the front of its set; way LAM_WAYS - 1, whose entry the caller has taken, when it comes new. */
static void lam_front(struct lam_entry **set, unsigned way, struct lam_entry *e)
{
	memmove(set + 1, set, way * sizeof(struct lam_entry *));
	set[0] = e;
}

static struct lam_entry *lam_find(struct lam_entry **set, uint64_t dir, uint64_t ino, const char *name,
				  size_t len)
{
	for (unsigned i = 0; i < LAM_WAYS; i++) {
		struct lam_entry *e = set[i];

		if (!lam_is(e, dir, ino, name, len))
			continue;
		lam_front(set, i, e);
		return e;
	}
	return NULL;
}

static bool lam_get(struct fs *fs, uint64_t dir, uint64_t ino, const char *name, size_t len,
		    struct lam_entry *ret)
{
	struct laminate *l = fs->laminate;
	size_t at = lam_set(dir, ino, name, len);
	struct lam_entry *e;

	scoped_lock(&l->lock[at % LAM_LOCKS]);
	e = lam_find(l->set[at], dir, ino, name, len);
	if (e)
		*ret = *e;
	return e != NULL;
}

/* Takes e. */
static void lam_put(struct laminate *l, size_t at, uint64_t epoch, struct lam_entry *e)
{
	scoped_free struct lam_entry *old = e;
	struct lam_entry **set = l->set[at];

	scoped_lock(&l->lock[at % LAM_LOCKS]);
	/* Two threads may have asked: the first one's stays. */
	if (atomic_load(&l->epoch) != epoch || lam_find(set, e->dir, e->ino, e->name, e->len))
		return;
	old = set[LAM_WAYS - 1];
	lam_front(set, LAM_WAYS - 1, e);
}

static void lam_put_inode(struct laminate *l, uint64_t epoch, const struct meta_attr *a)
{
	struct lam_entry *e;

	/* A link of another name goes without our being told which inode it was of. */
	if (!(a->flags & META_LAMINATED) || (!S_ISDIR(a->mode) && a->nlink != 1))
		return;
	e = mem_zalloc(sizeof(*e));
	if (!e)
		return;
	e->ino = a->ino;
	e->a = *a;
	lam_put(l, lam_set(0, a->ino, NULL, 0), epoch, e);
}

static void lam_put_name(struct laminate *l, uint64_t epoch, struct fs_name n, uint64_t ino)
{
	struct lam_entry *e = mem_zalloc(sizeof(*e) + n.len);

	if (!e)
		return;
	e->dir = n.dir;
	e->ino = ino;
	e->len = (uint32_t)n.len;
	memcpy(e->name, n.name, n.len);
	lam_put(l, lam_set(n.dir, 0, n.name, n.len), epoch, e);
}

uint64_t laminate_epoch(const struct fs *fs)
{
	return atomic_load(&fs->laminate->epoch);
}

void laminate_seen(struct fs *fs, uint64_t epoch, const struct meta_attr *a)
{
	lam_put_inode(fs->laminate, epoch, a);
}

int laminate_getattr(struct fs *fs, uint64_t ino, struct meta_attr *ret)
{
	struct laminate *l = fs->laminate;
	uint64_t epoch = atomic_load(&l->epoch);
	struct lam_entry e;
	struct meta_attr a;
	int r;

	if (lam_get(fs, 0, ino, NULL, 0, &e)) {
		trace_add(&l->count[0], 1);
		*ret = e.a;
		return 0;
	}
	trace_add(&l->count[1], 1);
	r = meta_getattr(fs->conf.meta, ino, &a);
	if (r < 0)
		return r;
	lam_put_inode(l, epoch, &a);
	*ret = a;
	return 0;
}

int laminate_lookup(struct fs *fs, struct fs_name n, struct meta_attr *ret)
{
	struct laminate *l = fs->laminate;
	uint64_t epoch = atomic_load(&l->epoch);
	struct lam_entry e;
	struct meta_attr a;
	int r;

	if (lam_get(fs, n.dir, 0, n.name, n.len, &e))
		return laminate_getattr(fs, e.ino, ret);
	r = meta_lookup(fs->conf.meta, n.dir, n.name, n.len, &a);
	if (r < 0)
		return r;
	lam_put_inode(l, epoch, &a);
	/* ".." of a directory changes when that is moved. */
	if (n.name[0] != '.' && laminate_frozen(fs, n.dir))
		lam_put_name(l, epoch, n, a.ino);
	*ret = a;
	return 0;
}

static struct lam_entry *lam_take(struct laminate *l, size_t at, unsigned way)
{
	struct lam_entry *old;

	scoped_lock(&l->lock[at % LAM_LOCKS]);
	old = l->set[at][way];
	l->set[at][way] = NULL;
	return old;
}

void laminate_forget(struct fs *fs, void (*fn)(void *arg, uint64_t ino), void *arg)
{
	atomic_fetch_add(&fs->laminate->epoch, 1);
	for (size_t i = 0; i < LAM_SETS * LAM_WAYS; i++) {
		scoped_free struct lam_entry *e = lam_take(fs->laminate, i / LAM_WAYS, i % LAM_WAYS);

		if (e && !e->dir && fn)
			fn(arg, e->ino);
	}
}

void laminate_changed(struct fs *fs, uint64_t ino)
{
	struct laminate *l = fs->laminate;
	size_t at = lam_set(0, ino, NULL, 0);
	scoped_free struct lam_entry *e = NULL;

	atomic_fetch_add(&l->epoch, 1);
	lock_take(&l->lock[at % LAM_LOCKS]);
	e = lam_find(l->set[at], 0, ino, NULL, 0);
	if (e)
		l->set[at][0] = NULL;
	lock_drop(&l->lock[at % LAM_LOCKS]);
	/* Its names are anywhere in the table. */
	if (e && S_ISDIR(e->a.mode))
		laminate_forget(fs, NULL, NULL);
}

bool laminate_frozen(const struct fs *fs, uint64_t dir)
{
	struct lam_entry e;

	return lam_get((struct fs *)(uintptr_t)fs, 0, dir, NULL, 0, &e) && S_ISDIR(e.a.mode);
}

bool laminate_bare(const struct fs *fs, uint64_t ino)
{
	struct lam_entry e;

	return lam_get((struct fs *)(uintptr_t)fs, 0, ino, NULL, 0, &e) &&
	       !(e.a.flags & META_HAS_XATTR);
}

bool laminate_opened(struct fs *fs, uint64_t ino)
{
	struct laminate *l = fs->laminate;
	size_t at = lam_set(0, ino, NULL, 0);
	struct lam_entry *e;
	bool was;

	scoped_lock(&l->lock[at % LAM_LOCKS]);
	e = lam_find(l->set[at], 0, ino, NULL, 0);
	if (!e)
		return false;
	was = e->opened;
	e->opened = true;
	return was;
}

/* ---- files that are one session's ---- */

void laminate_new(const struct fs *fs, struct meta_new *in)
{
	in->hidden = fs->laminate->marks ? meta_session_id(fs->conf.meta) : 0;
	in->hidden_marks = fs->laminate->marks;
}

static bool lam_foreign(const struct fs *fs, const struct meta_attr *a)
{
	return (a->flags & META_HIDDEN) && a->rdev != meta_session_id(fs->conf.meta);
}

/*
 * 1: the session that writes it is there. One that does not answer is shut out by whoever needs
 * something of it, and by nobody else.
 */
static int lam_owned(struct fs *fs, const struct meta_attr *a, bool need)
{
	struct meta_session s;
	int r = meta_session_get(fs->conf.meta, (uint32_t)a->rdev, &s);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (s.fenced || meta_session_dead(&s))
		return 0;
	if (!need || !meta_session_lapsed(&s, clock_now()))
		return 1;
	return meta_fence(fs->conf.meta, s.id);
}

int laminate_open(struct fs *fs, bool write, struct meta_attr *inout, bool *ret_blind)
{
	struct tess_policy p;
	int r;

	*ret_blind = false;
	if (inout->flags & META_LAMINATED)
		return write ? -EPERM : 0;
	if (!lam_foreign(fs, inout))
		return 0;
	r = lam_owned(fs, inout, write);
	if (r < 0)
		return r;
	if (r > 0 && write)
		return -EBUSY;
	*ret_blind = r > 0;
	if (!write)
		return 0;
	fs_policy_of(fs, inout, &p);
	return meta_claim(fs->conf.meta, inout->ino, (uint32_t)inout->rdev, p.mode == MODE_LAMINATE,
			  clock_wall_coarse(), inout);
}

int laminate_mask(struct fs *fs, struct meta_attr *inout)
{
	int r = lam_foreign(fs, inout) ? lam_owned(fs, inout, false) : 0;

	if (r > 0)
		inout->size = inout->bytes = 0;
	return MIN(r, 0);
}

/* ---- laminating ---- */

/* New writes first, then those before; what slips in between is refused when it is published. */
static int lam_publish(struct tess_req *req, struct fs_inode *in)
{
	atomic_store(&in->frozen, true);
	return io_file_dirty(in->file) ? io_sync_file(in->file, req, IO_PUBLISH) : 0;
}

static int lam_laminate(struct fs *fs, struct tess_req *req, struct meta_attr *a, uint32_t mode)
{
	struct fs_inode *in;
	int r = lam_foreign(fs, a) ? lam_owned(fs, a, true) : 0;

	if (r)
		return r < 0 ? r : -EBUSY;
	in = S_ISREG(a->mode) ? icache_pin_open(fs, a->ino) : NULL;
	if (in)
		r = lam_publish(req, in);
	if (r == 0)
		r = meta_laminate(fs->conf.meta, a->ino, (uint32_t)a->rdev, mode, clock_wall_coarse(), a);
	if (r == 0)
		icache_known_bump(fs, a->ino, a->generation);
	if (in) {
		atomic_store(&in->frozen, r == 0);
		icache_unpin(fs, in);
	}
	laminate_changed(fs, a->ino);
	return r;
}

static int lam_undo(struct fs *fs, struct meta_attr *a)
{
	struct fs_inode *in;
	int r = meta_unlaminate(fs->conf.meta, a->ino, clock_wall_coarse(), a);

	laminate_changed(fs, a->ino);
	if (r < 0)
		return r;
	icache_known_bump(fs, a->ino, a->generation);
	in = icache_pin_open(fs, a->ino);
	if (in) {
		atomic_store(&in->frozen, false);
		icache_unpin(fs, in);
	}
	return 0;
}

int laminate_chmod(struct fs *fs, struct tess_req *req, uint64_t ino, uint32_t mode)
{
	struct meta_attr a;
	int r;

	if (mode & 0222)
		return 0;
	r = meta_getattr(fs->conf.meta, ino, &a);
	if (r < 0 || !(a.flags & META_HIDDEN))
		return r;
	r = lam_laminate(fs, req, &a, mode);
	return r < 0 ? r : 1;
}

int laminate_set(struct fs *fs, struct tess_req *req, uint64_t ino, const void *val, size_t n)
{
	struct meta_attr a;
	bool on;
	int r;

	if (n != 1 || (*(const char *)val != '0' && *(const char *)val != '1'))
		return -EINVAL;
	on = *(const char *)val == '1';
	r = meta_getattr(fs->conf.meta, ino, &a);
	if (r < 0)
		return r;
	/* As of chmod(2); the kernel checks no owner for a view. */
	if (req->uid && req->uid != a.uid)
		return -EPERM;
	if (on == !!(a.flags & META_LAMINATED))
		return 0;
	return on ? lam_laminate(fs, req, &a, META_KEEP_MODE) : lam_undo(fs, &a);
}
