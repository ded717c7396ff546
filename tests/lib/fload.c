/* SPDX-License-Identifier: Apache-2.0 */
#include "fload.h"

#include "fmodel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define FILES 8
#define BIG   1500000u

static struct mnt *mnt;
static struct file {
	struct fmodel m;
	bool tainted; /* something failed: until it is rewritten, old and new bytes are both right
		       */
} file[FILES];
static uint64_t serial = 1;
unsigned fload_errors, fload_bad;
static bool has_dir;
static char what[128];

void fload_what(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
}

void fload_broken(const char *a, const char *b)
{
	fprintf(stderr, "%s: %s: %s\n", what, a, b);
	fload_bad++;
}

static void path_of(unsigned i, char *ret, size_t cap)
{
	snprintf(ret, cap, "%s/f%u", mnt->dir, i);
}

/* Non-zero when it failed, which is fine as long as the caller remembers. */
static int tried(int failed)
{
	if (failed)
		fload_errors++;
	return failed;
}

static int write_all(int fd, struct fmodel *m, size_t off, size_t len)
{
	uint8_t *buf = malloc(len);
	size_t done = 0;

	if (!buf)
		abort();
	fm_fill(buf, serial, off, len);
	fm_write(m, serial++, off, len);
	while (done < len) {
		ssize_t n = pwrite(fd, buf + done, len - done, (off_t)(off + done));

		if (tried(n < 0))
			break;
		done += (size_t)n;
	}
	free(buf);
	return done == len ? 0 : -1;
}

/* Opens, does one thing, ends with fsync or close. What all returned success for must stay. */
static void change(unsigned i, int flags, int (*fn)(int fd, struct fmodel *m), bool sync)
{
	struct file *f = &file[i];
	bool ok = true;
	char path[600];
	int fd;

	path_of(i, path, sizeof(path));
	if (flags & O_TRUNC)
		fm_cut(&f->m, 0);
	fd = open(path, flags, 0644);
	if (tried(fd < 0)) {
		f->tainted |= (flags & O_TRUNC) != 0;
		return;
	}
	if (fn(fd, &f->m))
		ok = false;
	if (sync && tried(fsync(fd)))
		ok = false;
	if (tried(close(fd)))
		ok = false;
	if (flags & O_TRUNC && ok)
		f->tainted = false;
	f->tainted |= !ok;
	if (!f->tainted)
		fm_synced(&f->m);
}

static int do_small(int fd, struct fmodel *m)
{
	return write_all(fd, m, 100, 5000);
}
static int do_append(int fd, struct fmodel *m)
{
	return m->size > 3 * BIG ? 0 : write_all(fd, m, m->size, 30000);
}
static int do_big(int fd, struct fmodel *m)
{
	return write_all(fd, m, 0, BIG);
}
static int do_cut(int fd, struct fmodel *m)
{
	fm_cut(m, m->size / 2);
	return tried(ftruncate(fd, (off_t)m->size));
}
static int do_punch(int fd, struct fmodel *m)
{
	fm_punch(m, 4000, 9000);
	return tried(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4000, 9000));
}

static uint8_t *slurp(const char *path, size_t *ret)
{
	int fd = open(path, O_RDONLY), e;
	uint8_t *p = NULL;
	ssize_t n = -1;
	struct stat st;

	*ret = 0;
	if (fd < 0)
		return NULL;
	/* The kernel's cache would hide what the daemon has. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (!fstat(fd, &st) && (p = malloc((size_t)st.st_size + 1)))
		while ((n = read(fd, p + *ret, (size_t)st.st_size + 1 - *ret)) > 0)
			*ret += (size_t)n;
	e = errno;
	close(fd);
	if (n < 0) {
		free(p);
		p = NULL;
		errno = e;
	}
	return p;
}

/* A read gives an error or right bytes. */
static void look(unsigned i, bool may_fail)
{
	const char *why;
	char path[600];
	uint8_t *p;
	size_t n;

	path_of(i, path, sizeof(path));
	p = slurp(path, &n);
	if (!p) {
		tried(1);
		if (!may_fail)
			fload_broken(path, strerror(errno));
		return;
	}
	why = fm_check(&file[i].m, p, n);
	if (why)
		fload_broken(path, why);
	free(p);
}

/* Write a temporary file and rename it over f2: whole in either case. */
static void replace(void)
{
	struct fmodel next = {0};
	char a[600], b[600];
	int fd, err;

	snprintf(a, sizeof(a), "%s/temp", mnt->dir);
	path_of(2, b, sizeof(b));
	unlink(a);
	fd = open(a, O_RDWR | O_CREAT, 0644);
	if (tried(fd < 0))
		return;
	err = write_all(fd, &next, 0, 40000);
	err |= tried(close(fd));
	if (!err && !tried(rename(a, b))) {
		fm_done(&file[2].m);
		fm_synced(&next);
		file[2].m = next;
		file[2].tainted = false;
		return;
	}
	fm_done(&next);
}

static void names(void)
{
	char a[600], value[8] = "1234567", got[8];
	struct stat st;
	int err;

	snprintf(a, sizeof(a), "%s/dir", mnt->dir);
	err = tried(has_dir ? rmdir(a) : mkdir(a, 0755));
	if (!err)
		has_dir = !has_dir;
	err = stat(a, &st);
	if (err && errno != ENOENT)
		tried(1);
	else if ((err == 0) != has_dir)
		fload_broken(a, "mkdir or rmdir did not do what it returned");
	path_of(7, a, sizeof(a));
	if (!tried(setxattr(a, "user.x", value, sizeof(value), 0)) &&
	    getxattr(a, "user.x", got, sizeof(got)) == (ssize_t)sizeof(got) &&
	    memcmp(got, value, sizeof(got)))
		fload_broken(a, "xattr is wrong");
}

static int range(int fd, int type, off_t start, off_t len)
{
	struct flock f = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};

	return fcntl(fd, F_OFD_SETLK, &f);
}

/* A lock is held when the call said so, and by one only; closes give back what is left. */
static void locks(void)
{
	char a[600];
	int one, two;

	path_of(7, a, sizeof(a));
	one = open(a, O_RDWR);
	two = open(a, O_RDWR);
	if (!tried(one < 0) && !tried(two < 0)) {
		if (!tried(range(one, F_WRLCK, 0, 100) < 0)) {
			if (range(two, F_RDLCK, 50, 1) == 0)
				fload_broken(a, "two have one range");
			else
				tried(errno != EAGAIN);
			if (!tried(range(one, F_UNLCK, 40, 60) < 0) &&
			    tried(range(two, F_WRLCK, 50, 10) < 0) && errno == EAGAIN)
				fload_broken(a, "a range that was given back is not to be had");
		}
		if (!tried(flock(one, LOCK_EX | LOCK_NB) < 0) &&
		    flock(two, LOCK_SH | LOCK_NB) == 0)
			fload_broken(a, "two have one flock");
	}
	if (one >= 0)
		tried(close(one));
	if (two >= 0)
		tried(close(two));
}

static void locks_are_free(void)
{
	struct timespec t = {0, 20000000};
	bool got = false;
	char a[600];

	path_of(7, a, sizeof(a));
	/* The last close of a description is told to the daemon a little later. */
	for (int i = 0; i < 250 && !got; i++) {
		int fd = open(a, O_RDWR);

		got = fd >= 0 && range(fd, F_WRLCK, 0, 0) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
		if (fd >= 0)
			close(fd);
		if (!got)
			nanosleep(&t, NULL);
	}
	if (!got)
		fload_broken(a, "a lock outlives its holders");
}

void fload_look(bool may_fail)
{
	for (unsigned i = 0; i < FILES; i++)
		look(i, may_fail);
}

void fload_run(void)
{
	change(0, O_RDWR, do_small, true);
	change(1, O_RDWR, do_big, false);
	replace();
	change(3, O_RDWR, do_cut, true);
	change(3, O_RDWR, do_append, false);
	change(4, O_RDWR, do_punch, true);
	change(5, O_RDWR | O_CREAT | O_TRUNC, do_append, false);
	change(6, O_RDWR, do_append, true);
	names();
	locks();
	fload_look(true);
}

void fload_mend(void)
{
	fload_look(false);
	locks_are_free();
	for (unsigned i = 0; i < FILES; i++) {
		if (!file[i].tainted)
			continue;
		change(i, O_RDWR | O_CREAT | O_TRUNC, do_big, true);
		if (file[i].tainted)
			fload_broken("load", "writing a file again fails after the fault is gone");
		look(i, false);
	}
}

void fload_touch(void)
{
	change(0, O_RDWR, do_small, false);
	change(6, O_RDWR, do_append, false);
}

int fload_init(struct mnt *m)
{
	unsigned errors = fload_errors, broken = fload_bad;

	mnt = m;
	has_dir = false;
	for (unsigned i = 0; i < FILES; i++) {
		fm_done(&file[i].m);
		file[i].tainted = false;
		change(i, O_RDWR | O_CREAT | O_TRUNC, do_big, true);
	}
	return fload_errors > errors || fload_bad > broken;
}
