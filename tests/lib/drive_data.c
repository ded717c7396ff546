/* SPDX-License-Identifier: Apache-2.0 */
#include "drive.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ERR(call)   ((call) < 0 ? errno : 0)
#define DIRECT_UNIT 4096u
#define at_of(d, h) ((unsigned)((h) - (d)->handle))

static struct dr_handle *pick(struct drive *d, bool open)
{
	unsigned at = (unsigned)rnd_below(&d->rng, DR_HANDLES);

	for (unsigned i = 0; i < DR_HANDLES; i++, at = (at + 1) % DR_HANDLES)
		if ((d->handle[at].fd >= 0) == open)
			return &d->handle[at];
	return NULL;
}

static int want_open(struct drive *d, const struct ref_path *p, int flags, uint32_t mode,
		     struct ref_node **ret)
{
	int e = ref_find(d->root, p, ret);
	struct ref_node *dir;

	if (e == ENOENT && flags & O_CREAT && !ref_parent(d->root, p, &dir)) {
		e = ref_create(d->root, p, S_IFREG | mode, ret);
		(*ret)->uid = getuid();
		(*ret)->gid = getgid();
		return e;
	}
	if (e)
		return e;
	if (flags & O_CREAT && flags & O_EXCL)
		return EEXIST;
	if (S_ISLNK((*ret)->mode))
		return ELOOP;
	if (S_ISDIR((*ret)->mode))
		return EISDIR;
	if (flags & O_TRUNC) {
		ref_size(*ret, 0);
		(*ret)->mtime = 0;
	}
	return 0;
}

int dr_open(struct drive *d)
{
	static const int how[] = {0,	   O_CREAT,	      O_CREAT, O_CREAT | O_EXCL,
				  O_TRUNC, O_CREAT | O_TRUNC, O_APPEND};
	int flags = O_RDWR | O_NOFOLLOW | how[rnd_below(&d->rng, 7)], want, fd;
	uint32_t mode = 0600 | (uint32_t)rnd_below(&d->rng, 0100);
	struct dr_handle *h = pick(d, false);
	struct ref_node *n = NULL;
	struct ref_path p;
	char path[4096];

	if (!h)
		return 0;
	if (d->direct && !rnd_below(&d->rng, 8))
		flags |= O_DIRECT;
	dr_some_path(d, &p);
	if (!ref_find(d->root, &p, &n) && S_ISFIFO(n->mode))
		return 0;
	n = NULL;
	ref_path_text(d->base, &p, path, sizeof(path));
	want = want_open(d, &p, flags, mode, &n);
	dr_note(d, "open %#o %s -> handle %u", (unsigned)flags, path + strlen(d->base),
		at_of(d, h));
	fd = open(path, flags, mode);
	if (dr_expect(d, want, fd < 0 ? errno : 0))
		return -1;
	if (fd < 0)
		return 0;
	*h = (struct dr_handle){fd, n, flags & O_APPEND, flags & O_DIRECT};
	n->opens++;
	return 0;
}

static int op_close(struct drive *d, struct dr_handle *h)
{
	int got;

	dr_note(d, "close handle %u", at_of(d, h));
	got = ERR(close(h->fd));
	h->fd = -1;
	h->node->opens--;
	ref_put(h->node);
	return dr_expect(d, 0, got);
}

static int op_dup_close(struct drive *d, struct dr_handle *h)
{
	dr_note(d, "dup and close handle %u", at_of(d, h));
	return dr_expect(d, 0, ERR(close(dup(h->fd))));
}

static size_t some_length(struct drive *d)
{
	size_t r = rnd_below(&d->rng, 10);

	return 1 + rnd_below(&d->rng, r < 6 ? 6000 : r < 9 ? 70000 : d->big / 2);
}

static void some_range(struct drive *d, struct dr_handle *h, size_t *off, size_t *len)
{
	*len = some_length(d);
	*off = rnd_below(&d->rng, 3) ? rnd_below(&d->rng, h->node->size + 1)
				     : rnd_below(&d->rng, d->big);
	if (!rnd_below(&d->rng, 4)) {
		*off &= ~(size_t)4095;
		*len = (*len + 4095) & ~(size_t)4095;
	}
	if (*off + *len > d->big)
		*off = *off % (d->big / 2), *len = *len % (d->big / 2) + 1;
	if (h->direct) {
		*off -= *off % DIRECT_UNIT;
		*len += DIRECT_UNIT - 1;
		*len -= *len % DIRECT_UNIT;
	}
}

static void *pages(size_t n)
{
	void *p = aligned_alloc(DIRECT_UNIT, (n + DIRECT_UNIT) / DIRECT_UNIT * DIRECT_UNIT);

	if (!p)
		abort();
	return p;
}

static int op_write(struct drive *d, struct dr_handle *h)
{
	size_t off, len;
	ssize_t n;
	void *buf;

	some_range(d, h, &off, &len);
	if (h->append)
		off = h->node->size;
	if (off + len > 2 * d->big || (h->append && h->direct))
		return 0;
	buf = pages(len);
	fm_fill(buf, d->serial++, off, len);
	dr_note(d, "write handle %u %zu+%zu%s%s", at_of(d, h), off, len, h->append ? " append" : "",
		h->direct ? " direct" : "");
	n = h->append ? write(h->fd, buf, len) : pwrite(h->fd, buf, len, (off_t)off);
	if (n == (ssize_t)len)
		ref_write(h->node, buf, off, len);
	free(buf);
	if (n < 0)
		return dr_fail(d, "write: %s", strerror(errno));
	return n == (ssize_t)len ? 0 : dr_fail(d, "short write of %zd", n);
}

static int op_read(struct drive *d, struct dr_handle *h)
{
	size_t off, len, want;
	uint8_t *buf;
	ssize_t n;
	int err = 0;

	some_range(d, h, &off, &len);
	want = off >= h->node->size ? 0 : len < h->node->size - off ? len : h->node->size - off;
	buf = pages(len);
	dr_note(d, "read handle %u %zu+%zu%s", at_of(d, h), off, len, h->direct ? " direct" : "");
	n = pread(h->fd, buf, len, (off_t)off);
	if (n < 0)
		err = dr_fail(d, "read: %s", strerror(errno));
	else if ((size_t)n != want)
		err = dr_fail(d, "read of %zd bytes, should be %zu", n, want);
	for (size_t i = 0; i < want && !err; i++)
		if (buf[i] != h->node->data[off + i])
			err = dr_fail(d, "byte %zu of handle %u is 0x%02x, should be 0x%02x",
				      off + i, at_of(d, h), buf[i], h->node->data[off + i]);
	free(buf);
	return err;
}

static int op_ftruncate(struct drive *d, struct dr_handle *h)
{
	size_t size = rnd_below(&d->rng, 2) ? rnd_below(&d->rng, h->node->size + 1)
					    : rnd_below(&d->rng, d->big);

	dr_note(d, "ftruncate handle %u %zu", at_of(d, h), size);
	ref_size(h->node, size);
	h->node->mtime = 0;
	return dr_expect(d, 0, ERR(ftruncate(h->fd, (off_t)size)));
}

static int op_fallocate(struct drive *d, struct dr_handle *h)
{
	static const int how[] = {0,
				  FALLOC_FL_KEEP_SIZE,
				  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				  FALLOC_FL_ZERO_RANGE,
				  FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
	int mode = how[rnd_below(&d->rng, 6)];
	size_t off, len;

	some_range(d, h, &off, &len);
	dr_note(d, "fallocate %d handle %u %zu+%zu", mode, at_of(d, h), off, len);
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		ref_zero(h->node, off, len);
	if (!(mode & FALLOC_FL_KEEP_SIZE) && off + len > h->node->size)
		ref_size(h->node, off + len);
	h->node->mtime = 0;
	return dr_expect(d, 0, ERR(fallocate(h->fd, mode, (off_t)off, (off_t)len)));
}

static int op_fsync(struct drive *d, struct dr_handle *h)
{
	int data = (int)rnd_below(&d->rng, 2);

	dr_note(d, "%s handle %u", data ? "fdatasync" : "fsync", at_of(d, h));
	h->node->mapped = false;
	return dr_expect(d, 0, ERR(data ? fdatasync(h->fd) : fsync(h->fd)));
}

static bool zeros(const struct ref_node *n, size_t off, size_t end)
{
	for (; off < end; off++)
		if (n->data[off])
			return false;
	return true;
}

/* What is data in the reference is never in a hole; more may be data than has to be. */
static int op_seek(struct drive *d, struct dr_handle *h)
{
	size_t size = h->node->size, off = rnd_below(&d->rng, size + 100);
	bool data = rnd_below(&d->rng, 2);
	off_t r;

	dr_note(d, "seek %s handle %u %zu", data ? "data" : "hole", at_of(d, h), off);
	r = lseek(h->fd, (off_t)off, data ? SEEK_DATA : SEEK_HOLE);
	if (r < 0 && errno != ENXIO)
		return dr_fail(d, "seek: %s", strerror(errno));
	if (r < 0)
		return off >= size || (data && zeros(h->node, off, size))
			       ? 0
			       : dr_fail(d, "seek: ENXIO");
	if (off >= size)
		return dr_fail(d, "seek behind the end gives %lld", (long long)r);
	if ((size_t)r < off || (size_t)r > size || (data && (size_t)r == size))
		return dr_fail(d, "seek gives %lld of %zu", (long long)r, size);
	if (data && !zeros(h->node, off, (size_t)r))
		return dr_fail(d, "seek gives %lld, data comes before", (long long)r);
	if (!data && (size_t)r < size && h->node->data[r])
		return dr_fail(d, "seek gives a hole at %lld, which is data", (long long)r);
	return 0;
}

static int op_copy(struct drive *d, struct dr_handle *h)
{
	struct dr_handle *to = pick(d, true);
	size_t off, len, dst, want;
	loff_t a, b;
	ssize_t n;

	some_range(d, h, &off, &len);
	dst = rnd_below(&d->rng, d->big / 2);
	if (!rnd_below(&d->rng, 2))
		off &= ~(size_t)4095, dst &= ~(size_t)4095;
	if (to->append || h->direct || to->direct)
		return 0;
	if (to->node == h->node && off < dst + len && dst < off + len)
		return 0;
	want = off >= h->node->size ? 0 : len < h->node->size - off ? len : h->node->size - off;
	dr_note(d, "copy handle %u %zu+%zu to handle %u %zu", at_of(d, h), off, len, at_of(d, to),
		dst);
	a = (loff_t)off, b = (loff_t)dst;
	n = copy_file_range(h->fd, &a, to->fd, &b, len, 0);
	if (n < 0)
		return dr_fail(d, "copy_file_range: %s", strerror(errno));
	if ((size_t)n > want || (want && !n))
		return dr_fail(d, "copy_file_range of %zd bytes, should be %zu", n, want);
	if (n) {
		uint8_t *buf = pages((size_t)n);

		memcpy(buf, h->node->data + off, (size_t)n);
		ref_write(to->node, buf, dst, (size_t)n);
		free(buf);
	}
	return 0;
}

static int op_map(struct drive *d, struct dr_handle *h)
{
	size_t size = h->node->size, off, len;
	bool sync = rnd_below(&d->rng, 2);
	uint8_t *map;
	int err = 0;

	if (!size || h->direct)
		return 0;
	off = rnd_below(&d->rng, size);
	len = 1 + rnd_below(&d->rng, size - off < 20000 ? size - off : 20000);
	dr_note(d, "map handle %u, write %zu+%zu%s", at_of(d, h), off, len, sync ? ", msync" : "");
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd, 0);
	if (map == MAP_FAILED)
		return dr_fail(d, "mmap: %s", strerror(errno));
	if (memcmp(map + off, h->node->data + off, len))
		err = dr_fail(d, "the mapping differs in %zu+%zu", off, len);
	fm_fill(map + off, d->serial++, off, len);
	ref_write(h->node, map + off, off, len);
	h->node->mapped = !sync;
	if (sync && msync(map, size, MS_SYNC))
		err = dr_fail(d, "msync: %s", strerror(errno));
	munmap(map, size);
	return err;
}

static int op_fstat(struct drive *d, struct dr_handle *h)
{
	dr_note(d, "fstat handle %u", at_of(d, h));
	return dr_check_stat(d, h->node, NULL, h->fd);
}

static int op_futimens(struct drive *d, struct dr_handle *h)
{
	int64_t t = INT64_C(1000000000000000001) + (int64_t)rnd_below(&d->rng, UINT64_C(1) << 59);
	struct timespec ts[2] = {{t / 1000000000, t % 1000000000},
				 {t / 1000000000, t % 1000000000}};

	dr_note(d, "futimens handle %u %lld", at_of(d, h), (long long)t);
	h->node->mtime = h->node->mapped ? 0 : t;
	return dr_expect(d, 0, ERR(futimens(h->fd, ts)));
}

int dr_data_step(struct drive *d)
{
	static int (*const op[])(struct drive *, struct dr_handle *) = {
		op_close,     op_close,	    op_dup_close, op_write, op_write,	 op_write, op_write,
		op_write,     op_write,	    op_write,	  op_read,  op_read,	 op_read,  op_read,
		op_ftruncate, op_fallocate, op_fallocate, op_fsync, op_seek,	 op_seek,  op_copy,
		op_copy,      op_map,	    op_fstat,	  op_fstat, op_futimens,
	};
	struct dr_handle *h = pick(d, true);

	if (!h || !rnd_below(&d->rng, 8))
		return dr_open(d);
	return op[rnd_below(&d->rng, sizeof(op) / sizeof(op[0]))](d, h);
}
