/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations on two files of a mount, each compared with a plain array. After every operation
 * the bytes it touched are read back, now and then everything; by read(2) or through a map.
 *
 *	posix_fsx DIR [OPERATIONS [SEED]]
 */
#include "posix.h"

#include <linux/falloc.h>
#include <sys/mman.h>
#include <time.h>

#define LIMIT 700000u	/* longest file */
#define PIECE 80000u	/* longest operation */

struct file {
	const char   *name;
	int           fd;
	size_t        size;
	unsigned char want[LIMIT];
};
static struct file files[2] = { { .name = "fsx0", .fd = -1 }, { .name = "fsx1", .fd = -1 } };
static uint64_t state;
static unsigned long step;
static const char *doing;

static uint64_t rnd(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

__attribute__((noreturn)) static void broken(const struct file *f, const char *what, size_t at)
{
	printf("FAILED: step %lu, %s of %s: %s at %zu (size %zu, %s)\n", step, doing, f->name, what, at,
	       f->size, strerror(errno));
	printf("0 passed, 1 failed\n");
	exit(1);
}

static void reopen(struct file *f)
{
	if (f->fd >= 0 && close(f->fd) < 0)
		broken(f, "close", 0);
	f->fd = open(f->name, O_RDWR | O_CREAT, 0644);
	if (f->fd < 0)
		broken(f, "open", 0);
}

static void compare(const struct file *f, const unsigned char *got, size_t off, size_t n)
{
	if (memcmp(got, f->want + off, n) == 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (got[i] != f->want[off + i])
			broken(f, "wrong byte", off + i);
}

static void verify(const struct file *f, size_t off, size_t n)
{
	static unsigned char got[LIMIT];
	struct stat st;

	if (fstat(f->fd, &st) < 0 || (size_t)st.st_size != f->size)
		broken(f, "wrong size", (size_t)st.st_size);
	if (off >= f->size)
		return;
	n = n < f->size - off ? n : f->size - off;
	if (rnd(4) == 0 && n) {
		size_t from = off & ~(size_t)4095;
		unsigned char *m = mmap(NULL, off + n - from, PROT_READ, MAP_SHARED, f->fd, (off_t)from);

		if (m == MAP_FAILED)
			broken(f, "mmap", off);
		compare(f, m + (off - from), off, n);
		munmap(m, off + n - from);
		return;
	}
	if (pread(f->fd, got, n, (off_t)off) != (ssize_t)n)
		broken(f, "short read", off);
	compare(f, got, off, n);
}

static void grow(struct file *f, size_t end)
{
	if (end > f->size)
		f->size = end;
}

static void do_write(struct file *f, size_t off, size_t n)
{
	doing = "write";
	for (size_t i = 0; i < n; i++)
		f->want[off + i] = (unsigned char)(step * 31 + i + (i >> 8));
	if (pwrite(f->fd, f->want + off, n, (off_t)off) != (ssize_t)n)
		broken(f, "write", off);
	grow(f, off + n);
}

static void do_map_write(struct file *f, size_t off, size_t n)
{
	size_t from = off & ~(size_t)4095;
	unsigned char *m;

	doing = "map write";
	if (off >= f->size)
		return;
	n = n < f->size - off ? n : f->size - off;
	m = mmap(NULL, off + n - from, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, (off_t)from);
	if (m == MAP_FAILED)
		broken(f, "mmap", off);
	for (size_t i = 0; i < n; i++)
		m[off - from + i] = f->want[off + i] = (unsigned char)(step * 17 + i);
	if (rnd(3) == 0 && msync(m, off + n - from, MS_SYNC) < 0)
		broken(f, "msync", off);
	munmap(m, off + n - from);
}

static void do_truncate(struct file *f, size_t to)
{
	doing = "truncate";
	if (rnd(2) ? ftruncate(f->fd, (off_t)to) : truncate(f->name, (off_t)to))
		broken(f, "truncate", to);
	if (to > f->size)
		memset(f->want + f->size, 0, to - f->size);
	else
		memset(f->want + to, 0, f->size - to);
	f->size = to;
}

static void do_fallocate(struct file *f, size_t off, size_t n)
{
	static const int modes[] = { FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
				     FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, FALLOC_FL_KEEP_SIZE };
	int mode = modes[rnd(5)];
	size_t end = off + n;

	doing = "fallocate";
	if (fallocate(f->fd, mode, (off_t)off, (off_t)n) < 0)
		broken(f, "fallocate", off);
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
		size_t upto = end < f->size || !(mode & FALLOC_FL_KEEP_SIZE) ? end : f->size;

		if (off < upto)
			memset(f->want + off, 0, upto - off);
	}
	if (!(mode & FALLOC_FL_KEEP_SIZE))
		grow(f, end);
}

static void do_copy(struct file *src, size_t from, struct file *dst, size_t to, size_t n)
{
	off_t in = (off_t)from, out = (off_t)to;
	ssize_t r;

	doing = "copy";
	if (from >= src->size || (src == dst && from < to + n && to < from + n))
		return;
	n = n < src->size - from ? n : src->size - from;
	r = copy_file_range(src->fd, &in, dst->fd, &out, n, 0);
	if (r < 0)
		broken(dst, "copy_file_range", to);
	memmove(dst->want + to, src->want + from, (size_t)r);
	if (r)
		grow(dst, to + (size_t)r);
}

static void one(void)
{
	struct file *f = &files[rnd(4) == 0];
	size_t off = rnd(LIMIT - PIECE), n = rnd(rnd(3) ? 5000 : PIECE) + 1;

	switch (rnd(16)) {
	case 0: case 1: case 2: case 3: case 4: case 5: do_write(f, off, n); break;
	case 6: case 7: do_map_write(f, off, n); break;
	case 8: do_truncate(f, rnd(LIMIT - PIECE)); break;
	case 9: case 10: do_fallocate(f, off, n); break;
	case 11: case 12: do_copy(&files[rnd(2)], rnd(LIMIT - PIECE), f, off, n); break;
	case 13:
		doing = "fsync";
		if (fsync(f->fd) < 0)
			broken(f, "fsync", 0);
		break;
	case 14:
		doing = "reopen";
		reopen(f);
		break;
	default:
		doing = "read";
	}
	verify(f, off, n);
	if (step % 64 == 0)
		verify(f, 0, f->size);
}

int main(int argc, char **argv)
{
	unsigned long steps = argc > 2 ? strtoul(argv[2], NULL, 0) : 10000;

	state = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL) * 2654435761u + (uint64_t)getpid();
	if (argc < 2 || chdir(argv[1]) < 0)
		return 2;
	printf("seed %llu\n", (unsigned long long)state);
	for (int i = 0; i < 2; i++)
		reopen(&files[i]);
	for (step = 1; step <= steps; step++)
		one();
	for (int i = 0; i < 2; i++) {
		reopen(&files[i]);
		verify(&files[i], 0, files[i].size);
	}
	printf("1 passed, 0 failed\n");
	return 0;
}
