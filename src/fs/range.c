/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on ranges of open files: holes, reserved space, shared copies. */
#include "fs/state.h"

#include "base/clock.h"
#include "base/err.h"
#include <linux/falloc.h>

/* Space cannot be reserved in an object store, but a promise that is a lie from the start is
 * refused. */
static int range_room(struct fs *fs, uint64_t len)
{
	struct statvfs st;
	int r = fs_statfs(fs, NULL, &st);

	if (r < 0)
		return r;
	return len / st.f_frsize > st.f_bavail ? -ENOSPC : 0;
}

/* A size or an end to keep is the one of now, where each read is of now. */
static int range_look(struct fs_file *fh)
{
	return fh->policy.refresh == REFRESH_READ && fs_shared(fh->fs) ? io_file_refresh(fh->in->file) : 0;
}

int fs_fallocate(struct fs_file *fh, struct tess_req *req, int mode, uint64_t off, uint64_t len)
{
	struct tess_range range = {off, len};
	uint64_t end;
	int r;

	if (!fh->writer)
		return -EBADF;
	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		return -EOPNOTSUPP;
	if ((mode & FALLOC_FL_PUNCH_HOLE) && !(mode & FALLOC_FL_KEEP_SIZE))
		return -EOPNOTSUPP;
	if ((mode & FALLOC_FL_PUNCH_HOLE) && (mode & FALLOC_FL_ZERO_RANGE))
		return -EOPNOTSUPP;
	if (len == 0)
		return -EINVAL;
	if (__builtin_add_overflow(off, len, &end) || end > TESS_FILE_MAX)
		return -EFBIG;
	r = file_may_change(fh);
	if (r == 0)
		r = attr_kill_priv(fh->fs, fh->in, req);
	if (r == 0)
		r = range_look(fh);
	if (r == 0 && mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		r = io_punch(fh->in->file, req, range, clock_wall_coarse());
	else if (r == 0)
		r = range_room(fh->fs, len);
	if (r == 0 && !(mode & FALLOC_FL_KEEP_SIZE))
		r = io_extend(fh->in->file, end, clock_wall_coarse());
	if (r == 0)
		r = file_cut(fh->fs, req, fh->in->file);
	if (r == 0 && !(mode & FALLOC_FL_KEEP_SIZE))
		refill_grown(fh->in, end);
	return r < 0 ? r : file_written(fh, req, AT_WRITE);
}

int fs_lseek(struct fs_file *fh, struct tess_req *req, uint64_t off, int whence, uint64_t *ret)
{
	(void)req;
	if (file_is_blind(fh))
		return -ENXIO;
	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return -EINVAL;
	return io_seek(fh->in->file, off, whence == SEEK_DATA, ret);
}

int fs_copy(struct fs_file *src, uint64_t src_off, struct fs_file *dst, uint64_t dst_off,
	    uint64_t len, struct tess_req *req, uint64_t *ret_n)
{
	struct fs *fs = dst->fs;
	struct meta_attr a;
	uint64_t end;
	int r = attr_get(fs, inode_ino(src->in), &a);

	if (r < 0)
		return r;
	if (!dst->writer)
		return -EBADF;
	len = src_off >= a.size ? 0 : MIN(len, a.size - src_off);
	if (len == 0) {
		*ret_n = 0;
		return 0;
	}
	if (__builtin_add_overflow(dst_off, len, &end) || end > TESS_FILE_MAX)
		return -EFBIG;
	r = file_may_change(dst);
	if (r == 0)
		r = attr_kill_priv(fs, dst->in, req);
	if (r == 0)
		r = io_clone(src->in->file, src_off, dst->in->file, dst_off, len, req, clock_wall_coarse(),
			     &a);
	if (r < 0)
		return r;
	refill_grown(dst->in, end);
	*ret_n = len;
	return 0;
}
