/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/laminate.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include <string.h>

/* Another thread may unlink and the reclaimer delete between our create and our pin. */
#define FILE_CREATE_TRIES 8u

static bool file_may_write(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY;
}

static struct fs_file *file_new(struct fs *fs, struct fs_inode *in, int flags)
{
	struct fs_file *fh = mem_zalloc(sizeof(*fh));

	if (!fh)
		return NULL;
	fh->fs = fs;
	fh->in = in;
	fh->flags = flags;
	fh->writer = file_may_write(flags);
	list_init(&fh->link);
	atomic_store(&fh->err_seen, io_file_error_seq(in->file));
	icache_add_handle(fs, fh);
	if (fh->writer)
		atomic_fetch_add(&fs->writers, 1);
	return fh;
}

/* An inode's policy is that of all its handles; what open(2) tightens is the handle's own. */
static void file_policy(struct fs_file *fh, const struct meta_attr *a)
{
	int64_t interval = 0;

	fs_policy_of(fh->fs, a, &fh->policy);
	if (fh->policy.visible == AT_INTERVAL)
		interval = MAX(fh->policy.interval / 2, 1);
	/* Without memory for the threads it is published at the last close. */
	(void)io_file_interval(fh->in->file, interval);
	policy_tighten(&fh->policy, fh->flags);
}

int file_cut(struct fs *fs, struct tess_req *req, struct io_file *f)
{
	return fs_shared(fs) ? io_sync_file(f, req, IO_PUBLISH) : 0;
}

/* O_TRUNC; where each write is everybody's when it returns, so is this. */
static int file_empty(struct fs *fs, struct tess_req *req, struct fs_inode *in,
		      const struct meta_attr *a)
{
	struct tess_policy p;
	int r = attr_kill_priv(fs, in, req);

	if (r == 0)
		r = io_truncate(in->file, req, 0, clock_wall_coarse());
	if (r < 0)
		return r;
	fs_policy_of(fs, a, &p);
	if (p.visible == AT_WRITE)
		return io_sync_file(in->file, req, IO_PUBLISH);
	return file_cut(fs, req, in->file);
}

/*
 * The kernel keeps what it wrote where it thinks the end is, and ends reads there: O_DIRECT alone passes
 * its pages by, not what it remembers of the size.
 */
static bool file_passes(const struct fs_file *fh)
{
	if ((fh->flags & O_DIRECT) && fh->policy.refresh == REFRESH_READ)
		return true;
	return fh->writer && (fh->flags & O_APPEND) && fh->policy.atomic_append;
}

void file_opened(struct fs_file *fh)
{
	if (!atomic_load_explicit(&fh->opening, memory_order_relaxed) || !atomic_exchange(&fh->opening, false))
		return;
	icache_known_set(fh->fs, inode_ino(fh->in), fh->fresh);
	refill_end(fh->fs, fh->in);
}

/* A direct write drops the pages it changes, at a time that only the kernel knows. */
static bool file_drops(const struct fs_file *fh)
{
	return fh->info.direct_io && fh->writer;
}

static void file_opening(struct fs_file *fh, const struct meta_attr *a)
{
	uint64_t unknown = UINT64_MAX;

	fh->fresh = a->generation;
	if (!fh->info.keep_cache || (fh->flags & O_TRUNC)) {
		refill_begin(fh->fs, fh->in);
		atomic_store(&fh->opening, true);
	}
	if (file_drops(fh))
		refill_begin(fh->fs, fh->in);
	/* The kernel has just looked the name up. */
	if (fh->flags & O_TRUNC)
		refill_resized(fh->in, 0);
	else
		(void)atomic_compare_exchange_strong(&fh->in->refill.size, &unknown, a->size);
}

static int file_open(struct fs *fs, struct tess_req *req, uint64_t ino, int flags,
		     struct meta_attr *ret_attr, struct fs_file **ret_fh)
{
	struct meta_attr a;
	struct fs_inode *in;
	struct fs_file *fh;
	bool blind;
	int r;

	if (fs->conf.readonly && (file_may_write(flags) || (flags & O_TRUNC)))
		return -EROFS;
	r = icache_open(fs, ino, &in, &a);
	if (r < 0)
		return r;
	io_file_look(in->file, &a);
	r = laminate_open(fs, file_may_write(flags) || (flags & O_TRUNC), &a, &blind);
	if (r == 0 && (flags & O_TRUNC))
		r = file_empty(fs, req, in, &a);
	fh = r == 0 ? file_new(fs, in, flags) : NULL;
	if (!fh) {
		icache_unpin(fs, in);
		return r < 0 ? r : -ENOMEM;
	}
	atomic_store(&fh->blind, blind);
	file_policy(fh, &a);
	fh->info.keep_cache = icache_known_within(fs, ino, a.generation, fh->policy.data_ttl) &&
			      fh->policy.keep_cache;
	fh->info.direct_io = fh->policy.direct_io || (atomic_load(&fs->direct_appends) && file_passes(fh));
	if (a.flags & META_LAMINATED)
		fh->info.keep_cache |= laminate_opened(fs, ino);
	file_opening(fh, &a);
	/*
	 * A close of any descriptor ends a process's locks, a reader's too. Where nobody locks the kernel
	 * need not tell of it: what was locked through this one until then goes at its release, or when its
	 * program is found dead.
	 */
	fh->info.noflush = !fh->writer &&
			   !atomic_load_explicit(&fs->locks.used, memory_order_relaxed);
	fh->info.parallel_writes = true;
	*ret_attr = a;
	*ret_fh = fh;
	return 0;
}

int fs_file_open(struct fs *fs, struct tess_req *req, uint64_t ino, int flags,
		 struct fs_file **ret_fh)
{
	struct meta_attr a;

	return file_open(fs, req, ino, flags, &a, ret_fh);
}

static int file_create_once(struct fs *fs, struct tess_req *req, struct fs_name n,
			    const struct meta_new *in, int flags, struct fs_file **ret_fh)
{
	struct meta_attr a;
	int r = meta_create(fs->conf.meta, n.dir, n.name, n.len, in, clock_wall_coarse(), &a);

	/* The kernel found no such name: another mount was faster. */
	if (r == -EEXIST && (flags & O_EXCL))
		return r;
	if (r == -EEXIST && S_ISREG(a.mode))
		return file_open(fs, req, a.ino, flags, &a, ret_fh);
	/* A symbolic link or directory by now: the kernel walks the path again on ESTALE. */
	if (r == -EEXIST)
		return -ESTALE;
	if (r < 0)
		return r;
	return file_open(fs, req, a.ino, flags & ~O_TRUNC, &a, ret_fh);
}

int fs_create(struct fs *fs, struct tess_req *req, struct fs_name n, mode_t mode, int flags,
	      struct meta_attr *ret, struct fs_file **ret_fh)
{
	struct meta_new in = {
		.mode = S_IFREG | (mode & ~(mode_t)S_IFMT),
		.umask = req->umask,
		.uid = req->uid,
		.gid = req->gid,
	};
	struct fs_file *fh = NULL;
	int r = -TESS_E_STALE;

	laminate_new(fs, &in);
	if (n.len > TESS_NAME_MAX)
		return -ENAMETOOLONG;
	if (fs->conf.readonly)
		return -EROFS;
	for (unsigned i = 0; r == -TESS_E_STALE && i < FILE_CREATE_TRIES; i++)
		r = file_create_once(fs, req, n, &in, flags, &fh);
	if (r == 0)
		r = attr_get(fs, inode_ino(fh->in), ret);
	if (r < 0 && fh)
		fs_release(fh, req);
	else if (r == 0)
		*ret_fh = fh;
	return r;
}

int fs_tmpfile(struct fs *fs, struct tess_req *req, uint64_t dir, mode_t mode, int flags,
	       struct meta_attr *ret, struct fs_file **ret_fh)
{
	struct meta_new in = {
		.mode = S_IFREG | (mode & ~(mode_t)S_IFMT),
		.umask = req->umask,
		.uid = req->uid,
		.gid = req->gid,
	};
	int r = -TESS_E_STALE;

	laminate_new(fs, &in);
	if (fs->conf.readonly)
		return -EROFS;
	for (unsigned i = 0; r == -TESS_E_STALE && i < FILE_CREATE_TRIES; i++) {
		struct meta_attr a;

		r = meta_tmpfile(fs->conf.meta, dir, &in, clock_wall_coarse(), &a);
		if (r == 0)
			r = file_open(fs, req, a.ino, flags & ~O_TRUNC, ret, ret_fh);
	}
	return r;
}

struct fs_open_info fs_file_info(const struct fs_file *fh)
{
	return fh->info;
}

uint64_t fs_file_ino(const struct fs_file *fh)
{
	return inode_ino(fh->in);
}

bool fs_file_dirty(const struct fs_file *fh)
{
	return fh->writer && io_file_dirty(fh->in->file);
}

bool fs_write_waits(const struct fs_file *fh)
{
	return fh->policy.visible == AT_WRITE || fh->policy.durable == AT_WRITE ||
	       io_write_waits(fh->fs->conf.io) || refill_may_wait(fh->in);
}

/* An error of earlier, asynchronous work: of several threads on one handle, one reports it. */
static int file_error(struct fs_file *fh)
{
	uint32_t seen = atomic_load(&fh->err_seen), was = seen;
	int r = io_file_error(fh->in->file, &seen);

	if (seen == was || atomic_compare_exchange_strong(&fh->err_seen, &was, seen))
		return r;
	return 0;
}

/* What failed now is remembered on the file, too; this handle has reported it. */
static int file_sync(struct fs_file *fh, struct tess_req *req, enum io_sync how)
{
	int r = file_error(fh), s;

	s = io_sync_file(fh->in->file, req, how);
	if (s < 0)
		file_error(fh);
	return r < 0 ? r : s;
}

/* What the policy demands after a change of content; `when`: of the changes that are commit points. */
int file_written(struct fs_file *fh, struct tess_req *req, enum tess_when when)
{
	if (fh->policy.durable == AT_WRITE)
		return file_sync(fh, req, IO_DURABLE);
	return fh->policy.visible <= when ? file_sync(fh, req, IO_PUBLISH) : 0;
}

/* Alone, the kernel knows the end of the file as well as anybody. */
static bool file_appends(const struct fs_file *fh)
{
	return (fh->flags & O_APPEND) && fh->policy.atomic_append && fs_shared(fh->fs);
}

int file_may_change(const struct fs_file *fh)
{
	return atomic_load_explicit(&fh->in->frozen, memory_order_relaxed) ? -EPERM : 0;
}

/*
 * Bytes that the kernel appended while this mount was alone are published when it is not any more: who
 * joins appends after them. If that came since we looked, it was too early for these.
 */
static int file_write_at(struct fs_file *fh, struct tess_req *req, uint64_t off, const void *p, size_t n)
{
	bool appends = (fh->flags & O_APPEND) && fh->policy.atomic_append;
	int r;

	if (appends)
		io_appends(fh->in->file);
	r = io_write(fh->in->file, req, off, p, n);
	if (r == 0 && appends && fs_shared(fh->fs))
		r = file_sync(fh, req, IO_PUBLISH);
	return r;
}

static int file_write(struct fs_file *fh, struct tess_req *req, uint64_t off, const void *p, size_t n)
{
	uint64_t end;
	int r;

	if (!fh->writer)
		return -EBADF;
	if (__builtin_add_overflow(off, n, &end) || end > TESS_FILE_MAX)
		return -EFBIG;
	r = fault_point("fs.write");
	if (r == 0)
		r = file_may_change(fh);
	if (r == 0)
		r = attr_kill_priv(fh->fs, fh->in, req);
	if (r == 0)
		r = file_error(fh);
	if (r == 0 && file_appends(fh)) {
		r = io_append(fh->in->file, req, p, n);
		/* Its page cache has the bytes where it thought the end was. */
		if (r == 0 && !fh->info.direct_io)
			watch_forget_inode(fh->fs, inode_ino(fh->in));
	} else if (r == 0) {
		r = file_write_at(fh, req, off, p, n);
	}
	return r;
}

int fs_write(struct fs_file *fh, struct tess_req *req, uint64_t off, const void *p, size_t n)
{
	int r;

	file_opened(fh);
	r = file_write(fh, req, off, p, n);
	if (r < 0)
		return r;
	refill_grown(fh->in, off + n);
	/* The kernel has it there; only io knows where an append went. */
	if (file_appends(fh))
		refill_written(fh, req, 0, UINT64_MAX);
	else
		refill_written(fh, req, off, off + n);
	return file_written(fh, req, AT_WRITE);
}

/* Through any handle of the inode, and one whose open drops the page that is written back is the first. */
int fs_write_back(struct fs_file *fh, struct tess_req *req, uint64_t off, const void *p, size_t n)
{
	int r = file_write(fh, req, off, p, n);

	return r < 0 ? r : file_written(fh, req, AT_WRITE);
}

bool file_is_blind(struct fs_file *fh)
{
	struct meta_attr a;
	bool blind;

	if (!atomic_load_explicit(&fh->blind, memory_order_relaxed))
		return false;
	if (meta_getattr(fh->fs->conf.meta, inode_ino(fh->in), &a) < 0 ||
	    laminate_open(fh->fs, false, &a, &blind) < 0 || blind)
		return true;
	io_file_look(fh->in->file, &a);
	atomic_store(&fh->blind, false);
	return false;
}

void fs_read(struct fs_read *r)
{
	struct fs_file *fh = r->fh;

	file_opened(fh);
	refill_read(r);
	if (file_is_blind(fh)) {
		r->io.done(&r->io);
		return;
	}
	r->io.file = fh->in->file;
	r->io.stream = &fh->stream;
	r->io.fresh = fh->policy.refresh == REFRESH_READ;
	if (fh->fs->conf.atime && !atomic_load_explicit(&fh->was_read, memory_order_relaxed))
		atomic_store_explicit(&fh->was_read, true, memory_order_relaxed);
	io_read(&r->io);
}

void fs_read_release(struct fs_read *r)
{
	io_read_release(&r->io);
}

static int file_flush(struct fs_file *fh, struct tess_req *req)
{
	/* Nothing to publish, and nothing to confess: the many closes of a dup()ed descriptor. */
	if (!io_file_dirty(fh->in->file))
		return file_error(fh);
	/* Unlinked: nobody will ever look for these bytes. */
	if (fh->in->orphan || fh->policy.visible == AT_INTERVAL || fh->policy.visible == NEVER)
		return file_error(fh);
	return file_sync(fh, req, IO_PUBLISH);
}

int fs_flush(struct fs_file *fh, struct tess_req *req)
{
	int r;

	file_opened(fh);
	if (!fh->writer)
		return 0;
	r = file_flush(fh, req);
	io_closed(fh->fs->conf.io);
	return r;
}

int fs_wait_durable(struct fs *fs, struct tess_req *req, uint64_t ino)
{
	struct fs_inode *in;
	struct meta_attr a;
	int r = icache_open(fs, ino, &in, &a);

	if (r < 0)
		return r == -EISDIR || r == -EINVAL ? io_checkpoint(fs->conf.io) : r;
	r = io_sync_file(in->file, req, IO_TARGETS);
	icache_unpin(fs, in);
	return r;
}

int fs_fsync(struct fs_file *fh, struct tess_req *req, bool datasync)
{
	(void)datasync;
	if (fh->fs->conf.readonly)
		return 0;
	return file_sync(fh, req, fh->policy.durable == NEVER ? IO_PUBLISH : IO_DURABLE);
}

/* relatime: when older than the last change, or than a day. At release, so that a read never waits
 * for it. */
static void file_touch(struct fs_file *fh)
{
	struct fs *fs = fh->fs;
	struct meta_attr a, set = {0};
	int64_t now = clock_wall_coarse();

	if (fs->conf.readonly || !atomic_load(&fh->was_read) || (fh->flags & O_NOATIME) ||
	    fh->in->frozen)
		return;
	if (meta_getattr(fs->conf.meta, inode_ino(fh->in), &a) < 0)
		return;
	if (fs->conf.atime == ATIME_REL && a.atime > a.mtime && a.atime > a.ctime &&
	    now - a.atime < 86400 * NS_PER_S)
		return;
	set.atime = now;
	set.ctime = a.ctime;
	(void)meta_setattr(fs->conf.meta, a.ino, META_SET_ATIME | META_SET_CTIME, &set, now, &a);
}

void fs_release(struct fs_file *fh, struct tess_req *req)
{
	struct fs *fs = fh->fs;

	(void)req;
	file_opened(fh);
	if (fh->policy.data_ttl)
		icache_known_closed(fs, inode_ino(fh->in));
	file_touch(fh);
	if (file_drops(fh))
		refill_end(fs, fh->in);
	icache_del_handle(fs, fh);
	if (fh->writer)
		atomic_fetch_sub(&fs->writers, 1);
	icache_unpin(fs, fh->in);
	free(fh);
}
