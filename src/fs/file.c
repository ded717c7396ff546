/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/state.h"

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

static int file_open(struct fs *fs, struct tess_req *req, uint64_t ino, int flags,
		     struct meta_attr *ret_attr, struct fs_file **ret_fh)
{
	struct meta_attr a;
	struct fs_inode *in;
	struct fs_file *fh;
	int r;

	if (fs->conf.readonly && (file_may_write(flags) || (flags & O_TRUNC)))
		return -EROFS;
	r = icache_open(fs, ino, &in, &a);
	if (r < 0)
		return r;
	if (flags & O_TRUNC) {
		/* The new size is published with the new bytes: a crash in between leaves the old
		 * file. */
		r = attr_kill_priv(fs, in, req);
		if (r == 0)
			r = io_truncate(in->file, req, 0, clock_wall_coarse());
	}
	fh = r == 0 ? file_new(fs, in, flags) : NULL;
	if (!fh) {
		icache_unpin(fs, in);
		return r < 0 ? r : -ENOMEM;
	}
	fh->info.keep_cache = icache_known(fs, ino, a.generation) && fs->conf.policy->keep_cache;
	fh->info.direct_io = fs->conf.policy->direct_io;
	fh->info.noflush = !fh->writer;
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
	return (fh->flags & (O_SYNC | O_DSYNC)) || io_write_waits(fh->fs->conf.io);
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

int fs_write(struct fs_file *fh, struct tess_req *req, uint64_t off, const void *p, size_t n)
{
	uint64_t end;
	int r;

	if (!fh->writer)
		return -EBADF;
	if (__builtin_add_overflow(off, n, &end) || end > TESS_FILE_MAX)
		return -EFBIG;
	r = attr_kill_priv(fh->fs, fh->in, req);
	if (r == 0)
		r = file_error(fh);
	if (r == 0)
		r = io_write(fh->in->file, req, off, p, n);
	if (r == 0 && (fh->flags & (O_SYNC | O_DSYNC)))
		r = file_sync(fh, req, IO_DURABLE);
	return r;
}

void fs_read(struct fs_read *r)
{
	struct fs_file *fh = r->fh;

	r->io.file = fh->in->file;
	r->io.stream = &fh->stream;
	if (fh->fs->conf.atime && !atomic_load_explicit(&fh->was_read, memory_order_relaxed))
		atomic_store_explicit(&fh->was_read, true, memory_order_relaxed);
	io_read(&r->io);
}

void fs_read_release(struct fs_read *r)
{
	io_read_release(&r->io);
}

int fs_flush(struct fs_file *fh, struct tess_req *req)
{
	if (!fh->writer)
		return 0;
	/* Nothing to publish, and nothing to confess: the many closes of a dup()ed descriptor. */
	if (!io_file_dirty(fh->in->file))
		return file_error(fh);
	/* Unlinked: nobody will ever look for these bytes. */
	if (fh->in->orphan)
		return 0;
	return file_sync(fh, req, IO_PUBLISH);
}

int fs_fsync(struct fs_file *fh, struct tess_req *req, bool datasync)
{
	(void)datasync;
	if (fh->fs->conf.readonly)
		return 0;
	return file_sync(fh, req, IO_DURABLE);
}

/* relatime: when older than the last change, or than a day. At release, so that a read never waits
 * for it. */
static void file_touch(struct fs_file *fh)
{
	struct fs *fs = fh->fs;
	struct meta_attr a, set = {0};
	int64_t now = clock_wall_coarse();

	if (fs->conf.readonly || !atomic_load(&fh->was_read) || (fh->flags & O_NOATIME))
		return;
	if (meta_getattr(fs->conf.meta, inode_ino(fh->in), &a) < 0)
		return;
	if (a.atime > a.mtime && a.atime > a.ctime && now - a.atime < 86400 * NS_PER_S)
		return;
	set.atime = now;
	set.ctime = a.ctime;
	(void)meta_setattr(fs->conf.meta, a.ino, META_SET_ATIME | META_SET_CTIME, &set, now, &a);
}

void fs_release(struct fs_file *fh, struct tess_req *req)
{
	struct fs *fs = fh->fs;

	(void)req;
	file_touch(fh);
	icache_del_handle(fs, fh);
	if (fh->writer)
		atomic_fetch_sub(&fs->writers, 1);
	icache_unpin(fs, fh->in);
	free(fh);
}
