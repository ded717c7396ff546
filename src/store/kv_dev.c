/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device: a regular file or a block device, through O_DIRECT where the file system allows it,
 * so that object data neither pushes other things out of the page cache nor is copied into it.
 *
 * O_DIRECT wants aligned memory. What comes in aligned goes as it is, and only the last partial
 * block is copied; anything else goes through a bounce buffer of 1 MiB, which stays in the
 * processor's cache while it is filled and written. The bytes behind an object's end in its last
 * block are zeros.
 */
#include "store/kv_impl.h"

#include "base/buf.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/range.h"
#include "base/scoped.h"
#include "base/text.h"

#include <assert.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define BOUNCE_BYTES ((size_t)1 << 20)
#define BOUNCE_KEEP  8u		/* idle ones: as many writers at once find one */
#define IOV_BATCH    128u
/*
 * What a growing file leaves to its file system, if that is less than a fiftieth of it: an index that
 * cannot write a page can delete nothing, and then full is for ever.
 */
#define HOST_KEEP    (UINT64_C(64) << 20)

struct bounce {
	struct list_node link;	/* in the buffer itself while idle */
};

static char *bounce_take(struct kv_dev *d)
{
	struct list_node *n;

	lock_take(&d->lock);
	n = list_pop_front(&d->bounce);
	if (n)
		d->nbounce--;
	lock_drop(&d->lock);
	return n ? (char *)list_entry(n, struct bounce, link) : mem_pages(BOUNCE_BYTES);
}

static void bounce_give(struct kv_dev *d, char *p)
{
	struct bounce *b = (struct bounce *)(void *)p;

	lock_take(&d->lock);
	if (d->nbounce < BOUNCE_KEEP) {
		list_push_front(&d->bounce, &b->link);
		d->nbounce++;
		p = NULL;
	}
	lock_drop(&d->lock);
	free(p);
}

/* ---- open ---- */

static void dev_alignment(struct kv_dev *d)
{
	d->mem_mask = d->len_mask = KV_UNIT - 1;
#ifdef STATX_DIOALIGN
	struct statx sx;

	if (statx(d->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 &&
	    (sx.stx_mask & STATX_DIOALIGN) && sx.stx_dio_mem_align && sx.stx_dio_offset_align &&
	    sx.stx_dio_mem_align <= KV_UNIT && sx.stx_dio_offset_align <= KV_UNIT) {
		d->mem_mask = MAX(sx.stx_dio_mem_align, 8u) - 1;
		d->len_mask = sx.stx_dio_offset_align - 1;
	}
#endif
}

/* Some file systems take the flag and refuse the I/O, so one block is read. */
static bool dev_direct_works(const struct kv_dev *d)
{
	scoped_free char *p = mem_pages(KV_UNIT);

	return p && (pread(d->fd, p, KV_UNIT, 0) >= 0 || errno != EINVAL);
}

int kv_dev_open(struct kv_dev *d, const char *path, int flags, bool direct, struct text *why)
{
	struct stat st;
	int r;

	lock_init(&d->lock, LOCK_LEAF, "kv bounce");
	list_init(&d->bounce);
	d->nbounce = 0;
	d->direct = direct;
	d->fd = -1;
	d->path = mem_strdup(path);
	if (!d->path)
		return -ENOMEM;
	if (direct) {
		d->fd = open(path, flags | O_DIRECT | O_CLOEXEC, 0666);
		if (d->fd >= 0 && !dev_direct_works(d)) {
			(void)close(d->fd);
			d->fd = -1;
			errno = EINVAL;
		}
	}
	if (d->fd < 0 && (!direct || errno == EINVAL)) {
		d->direct = false;
		/* The first open may have created it and then refused the flag. */
		d->fd = open(path, (direct ? flags & ~O_EXCL : flags) | O_CLOEXEC, 0666);
	}
	if (d->fd < 0 || fstat(d->fd, &st) < 0) {
		r = -errno;
		text_fmt(why, "%s: %s", path, err_text(r));
		return r;
	}
	d->block = S_ISBLK(st.st_mode);
	if (!d->block && !S_ISREG(st.st_mode)) {
		text_fmt(why, "%s is neither a regular file nor a block device", path);
		return -EINVAL;
	}
	dev_alignment(d);
	return 0;
}

void kv_dev_close(struct kv_dev *d)
{
	struct list_node *n;

	while (d->path && (n = list_pop_front(&d->bounce)) != NULL)
		free(list_entry(n, struct bounce, link));
	if (d->path)
		lock_done(&d->lock);
	if (d->path && d->fd >= 0)
		(void)close(d->fd);
	free(d->path);
	d->path = NULL;
}

int kv_dev_size(const struct kv_dev *d, uint64_t *ret)
{
	struct stat st;

	if (d->block)
		return ioctl(d->fd, BLKGETSIZE64, ret) < 0 ? -errno : 0;
	if (fstat(d->fd, &st) < 0)
		return -errno;
	*ret = (uint64_t)st.st_size;
	return 0;
}

/* ---- I/O ---- */

static int dev_error(int err)
{
	return err == ENOSPC || err == EDQUOT ? -TESS_E_STORE_FULL : -err;
}

/* v[0..n) at off, all of it. Changes v. */
static int dev_vec(struct kv_dev *d, bool write, struct iovec *v, unsigned n, uint64_t off)
{
	while (n > 0) {
		ssize_t got = write ? pwritev(d->fd, v, (int)n, (off_t)off)
				    : preadv(d->fd, v, (int)n, (off_t)off);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)	/* 0: the device ends here */
			return got < 0 ? dev_error(errno) : -EIO;
		off += (uint64_t)got;
		for (; n > 0 && (size_t)got >= v->iov_len; v++, n--)
			got -= (ssize_t)v->iov_len;
		if (n > 0) {
			v->iov_base = (char *)v->iov_base + got;
			v->iov_len -= (size_t)got;
		}
	}
	return 0;
}

/* iov[skip, skip + len) at off, without copying. */
static int dev_direct(struct kv_dev *d, bool write, const struct tess_iov *iov, uint64_t skip,
		      uint64_t len, uint64_t off)
{
	unsigned i = 0;

	for (; i < iov->n && skip >= iov->iov[i].iov_len; i++)
		skip -= iov->iov[i].iov_len;
	while (len > 0) {
		struct iovec v[IOV_BATCH];
		uint64_t bytes = 0;
		unsigned n = 0;
		int r;

		for (; n < IOV_BATCH && bytes < len && i < iov->n; n++) {
			v[n].iov_base = (char *)iov->iov[i].iov_base + skip;
			v[n].iov_len = MIN(iov->iov[i].iov_len - skip, len - bytes);
			bytes += v[n].iov_len;
			skip += v[n].iov_len;
			if (skip == iov->iov[i].iov_len) {
				skip = 0;
				i++;
			}
		}
		r = dev_vec(d, write, v, n, off);
		if (r < 0)
			return r;
		off += bytes;
		len -= bytes;
	}
	return 0;
}

/* May O_DIRECT see this memory? The end of the last piece does not matter: it is copied anyway. */
static bool dev_aligned(const struct kv_dev *d, const struct tess_iov *iov, uint64_t skip,
			uint64_t off)
{
	uint64_t sum = 0;

	if (!d->direct)
		return true;
	if (skip % KV_UNIT != 0 || off % KV_UNIT != 0)
		return false;
	for (unsigned i = 0; i < iov->n; i++) {
		if ((uintptr_t)iov->iov[i].iov_base & d->mem_mask)
			return false;
		if (sum & d->len_mask)
			return false;
		sum += iov->iov[i].iov_len;
	}
	return true;
}

/* Whole units by way of a buffer. Extents begin at a unit, so that a write does. */
static int dev_bounce(struct kv_dev *d, bool write, const struct tess_iov *iov, uint64_t skip,
		      uint64_t len, uint64_t off)
{
	char *buf = bounce_take(d);
	int r = buf ? 0 : -ENOMEM;

	assert(!write || off % KV_UNIT == 0);
	while (r == 0 && len > 0) {
		uint64_t from = round_down(off, KV_UNIT), head = off - from;
		size_t n = MIN(len, BOUNCE_BYTES - head);
		struct iovec v = { buf, round_up(head + n, KV_UNIT) };

		if (write) {
			(void)iov_copy_out(buf, iov, skip, n);
			memset(buf + n, 0, v.iov_len - n);
		}
		r = dev_vec(d, write, &v, 1, from);
		if (r == 0 && !write)
			(void)iov_copy_in(iov, skip, buf + head, n);
		skip += n;
		off += n;
		len -= n;
	}
	if (buf)
		bounce_give(d, buf);
	return r;
}

static int dev_move(struct kv_dev *d, bool write, const struct tess_iov *iov, uint64_t skip,
		    uint64_t len, uint64_t off)
{
	uint64_t body = d->direct ? round_down(len, KV_UNIT) : len;
	int r;

	if (!dev_aligned(d, iov, skip, off))
		return dev_bounce(d, write, iov, skip, len, off);
	r = dev_direct(d, write, iov, skip, body, off);
	if (r == 0 && body < len)
		r = dev_bounce(d, write, iov, skip + body, len - body, off + body);
	return r;
}

int kv_dev_write(struct kv_dev *d, const struct tess_iov *src, uint64_t skip, uint64_t len,
		 uint64_t off)
{
	int r = fault_point("store.kv.write");

	return r < 0 ? r : dev_move(d, true, src, skip, len, off);
}

int kv_dev_read(struct kv_dev *d, const struct tess_iov *dst, uint64_t skip, uint64_t len,
		uint64_t off)
{
	int r = fault_point("store.kv.read");

	return r < 0 ? r : dev_move(d, false, dst, skip, len, off);
}

int kv_dev_sync(struct kv_dev *d)
{
	int r = fault_point("store.kv.sync");

	if (r < 0)
		return r;
	return fdatasync(d->fd) < 0 ? -errno : 0;
}

int kv_dev_host(const struct kv_dev *d, uint64_t *ret_free, uint64_t *ret_blocks)
{
	struct statvfs fs;
	struct stat st;
	uint64_t avail, keep;

	if (fstat(d->fd, &st) < 0 || fstatvfs(d->fd, &fs) < 0)
		return -errno;
	keep = MIN(HOST_KEEP, (uint64_t)fs.f_blocks * fs.f_frsize / 50);
	avail = (uint64_t)fs.f_bavail * fs.f_frsize;
	*ret_free = avail > keep ? avail - keep : 0;
	*ret_blocks = (uint64_t)st.st_blocks * 512;
	return 0;
}

int kv_dev_allocate(struct kv_dev *d, struct kv_ext x)
{
	uint64_t left, before, after;
	int r = fault_point("store.kv.allocate");

	if (r == 0 && !d->block)
		r = kv_dev_host(d, &left, &before);
	if (r < 0 || d->block)
		return r;
	while (fallocate(d->fd, 0, (off_t)x.off, (off_t)x.len) < 0) {
		if (errno == EOPNOTSUPP) /* then the write itself says whether there is space */
			return 0;
		if (errno != EINTR)
			return dev_error(errno);
	}
	r = kv_dev_host(d, &left, &after);
	if (r == 0 && left == 0 && after > before) {
		/* It holds nothing: the host's file system can have it all back. */
		(void)fallocate(d->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)x.off,
				(off_t)x.len);
		return -TESS_E_STORE_FULL;
	}
	return r;
}

/* ---- header: block 0, one sector of which means something ---- */

static const char header_magic[8] = "TESSERAk";

int kv_dev_header_write(struct kv_dev *d, const struct kv_target *t)
{
	scoped_free char *p = mem_pages(KV_UNIT);
	struct iovec v = { p, KV_UNIT };
	int r;

	if (!p)
		return -ENOMEM;
	memset(p, 0, KV_UNIT);
	if (t->version) {	/* else zeros: no target any more */
		memcpy(p, header_magic, 8);
		put_le64(p + 8, t->version);
		put_le64(p + 16, t->fsid);
		put_le64(p + 24, t->uid);
		put_le64(p + 32, t->size);
		put_le32(p + 40, crc32c(0, p, 40));
	}
	r = fault_point("store.kv.header");
	if (r == 0)
		r = dev_vec(d, true, &v, 1, 0);
	return r == 0 && fsync(d->fd) < 0 ? -errno : r;
}

int kv_dev_header_read(struct kv_dev *d, struct kv_target *ret)
{
	scoped_free char *p = mem_pages(KV_UNIT);
	struct iovec v = { p, KV_UNIT };
	uint64_t size;
	int r = kv_dev_size(d, &size);

	if (!p)
		return -ENOMEM;
	if (r == 0 && size < KV_UNIT)
		r = -TESS_E_FORMAT_MAGIC;
	if (r == 0)
		r = dev_vec(d, false, &v, 1, 0);
	if (r < 0)
		return r;
	if (memcmp(p, header_magic, 8) != 0 || crc32c(0, p, 40) != get_le32(p + 40))
		return -TESS_E_FORMAT_MAGIC;
	*ret = (struct kv_target){get_le64(p + 8), get_le64(p + 16), get_le64(p + 24),
				  get_le64(p + 32)};
	return ret->version > KV_VERSION ? -TESS_E_FORMAT_NEWER : 0;
}
