/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded: records every change of the files below CUT_DIR into the file CUT_LOG (cutlog.h), which
 * lies elsewhere. A call and its record are one step under a lock, so the order is what happened;
 * only syncs run beside others, between a record of their begin and one of their end.
 *
 *	CUT_SYNC_US=N	a sync takes up to that long, so that others write meanwhile
 *
 * Writing in a way that is not recorded ends the program with a message. CUT_DIR exists and
 * is empty at first; processes that change it at the same time are children of one that was preloaded.
 */
/* The names with and without 64 are defined here both, so neither may stand for the other. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include "../lib/cutlog.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define TRACKED_MAX 65536u

static char root[PATH_MAX];
static size_t nroot; /* 0: not recording */
static int log_fd = -1;
static dev_t dev;
/* Shared with children. */
static struct tracked {
	pthread_mutex_t lock;
	unsigned n; /* by: lock, as is the rest */
	ino_t ino[TRACKED_MAX];
} *tracked;
static unsigned long sync_us;
static atomic_ulong syncs;

void powercut_mark(const char *line);
void powercut_kill(void);

static void die(const char *what)
{
	dprintf(2, "record: %s\n", what);
	_exit(99);
}

static void *real_of(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (!p)
		die(name);
	return p;
}
/* Looked up once: the pointer is the same whoever stores it. */
#define REAL(name)                                                                                 \
	({                                                                                         \
		static __typeof__(&name) p_;                                                       \
		if (!p_)                                                                           \
			p_ = (__typeof__(&name))real_of(#name);                                    \
		p_;                                                                                \
	})

/* Who ended while holding it, had done and logged all it would. */
static void take(void)
{
	if (pthread_mutex_lock(&tracked->lock) == EOWNERDEAD)
		(void)pthread_mutex_consistent(&tracked->lock);
}

static bool same_file(int fd, struct stat *st)
{
	return nroot && fstat(fd, st) == 0 && st->st_dev == dev;
}

/* by: lock */
static bool is_tracked(ino_t ino)
{
	for (unsigned i = tracked->n; i-- > 0;)
		if (tracked->ino[i] == ino)
			return true;
	return false;
}

static void track(ino_t ino)
{
	if (is_tracked(ino))
		return;
	if (tracked->n == TRACKED_MAX)
		die("too many files");
	tracked->ino[tracked->n++] = ino;
}

static int track_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)path;
	(void)type;
	(void)at;
	track(st->st_ino);
	return 0;
}

/* The file that fd is, if it is one of ours. Takes the lock if so. */
static bool enter(int fd, struct stat *st)
{
	if (!same_file(fd, st))
		return false;
	take();
	if (is_tracked(st->st_ino))
		return true;
	pthread_mutex_unlock(&tracked->lock);
	return false;
}

static void leave(void)
{
	int e = errno;

	pthread_mutex_unlock(&tracked->lock);
	errno = e;
}

/* ---- records; by: lock ---- */

static void emit(struct cut_rec r, const char *path, const char *path2, const struct iovec *data,
		 int n)
{
	struct iovec v[3 + IOV_MAX];
	uint64_t left = r.data;
	int e = errno, k = 3;

	r.magic = CUT_MAGIC;
	r.path = path ? (uint32_t)strlen(path) : 0;
	r.path2 = path2 ? (uint32_t)strlen(path2) : 0;
	v[0] = (struct iovec){&r, sizeof(r)};
	v[1] = (struct iovec){(void *)(uintptr_t)path, r.path};
	v[2] = (struct iovec){(void *)(uintptr_t)path2, r.path2};
	for (int i = 0; i < n && left > 0; i++) {
		v[k].iov_base = data[i].iov_base;
		v[k].iov_len = data[i].iov_len < left ? data[i].iov_len : left;
		left -= v[k++].iov_len;
	}
	/* IOV_MAX holds for us, too. */
	for (int i = 0; i < k;) {
		int m = k - i < IOV_MAX ? k - i : IOV_MAX;
		ssize_t want = 0;

		for (int j = 0; j < m; j++)
			want += (ssize_t)v[i + j].iov_len;
		if (REAL(writev)(log_fd, v + i, m) != want)
			die("cannot write the log");
		i += m;
	}
	errno = e;
}

static void emit_name(enum cut_type type, ino_t ino, const char *path, const char *path2)
{
	emit((struct cut_rec){.type = type, .ino = ino}, path, path2, NULL, 0);
}

static bool fd_durable(int fd)
{
	int fl = fcntl(fd, F_GETFL);

	return fl >= 0 && (fl & O_DSYNC);
}

static void emit_write(int fd, ino_t ino, off_t off, const struct iovec *v, int n, ssize_t done,
		       bool durable)
{
	struct cut_rec r = {.type = CUT_WRITE, .ino = ino, .off = (uint64_t)off};

	if (done <= 0)
		return;
	r.len = (uint64_t)done;
	r.data = (uint32_t)done;
	r.flags = durable || fd_durable(fd) ? CUT_DURABLE : 0;
	emit(r, NULL, NULL, v, n);
}

void powercut_mark(const char *line)
{
	struct iovec v = {(void *)(uintptr_t)line, strlen(line)};

	if (!nroot)
		return;
	take();
	emit((struct cut_rec){.type = CUT_MARK, .data = (uint32_t)v.iov_len}, NULL, NULL, &v, 1);
	leave();
}

/* The program ends as by SIGKILL, but nothing that it did is missing in the log. */
void powercut_kill(void)
{
	take();
	_exit(0);
}

__attribute__((constructor)) static void begin(void)
{
	const char *dir = getenv("CUT_DIR"), *log = getenv("CUT_LOG"), *us = getenv("CUT_SYNC_US");
	pthread_mutexattr_t attr;
	struct stat st;

	if (!dir || !log)
		return;
	sync_us = us ? strtoul(us, NULL, 10) : 0;
	if (!realpath(dir, root) || stat(root, &st) < 0)
		die("CUT_DIR is not there");
	log_fd = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (log_fd < 0)
		die("cannot open CUT_LOG");
	dev = st.st_dev;
	tracked = REAL(mmap)(NULL, sizeof(*tracked), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tracked == MAP_FAILED)
		die("no memory");
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&tracked->lock, &attr);
	if (nftw(root, track_one, 16, FTW_PHYS))
		die("cannot look into CUT_DIR");
	if (lseek(log_fd, 0, SEEK_END) == 0)
		emit_name(CUT_MKDIR, st.st_ino, "", NULL);
	nroot = strlen(root);
}

/* ---- names ---- */

/* What a name is below the root, its directory resolved; NULL: it is elsewhere. */
static const char *below(int dirfd, const char *path, char buf[PATH_MAX])
{
	char dir[PATH_MAX], parent[PATH_MAX + 64], *slash;
	const char *last;

	if (!nroot)
		return NULL;
	if (path[0] == '/' || dirfd == AT_FDCWD)
		snprintf(parent, sizeof(parent), "%s", path);
	else
		snprintf(parent, sizeof(parent), "/proc/self/fd/%d/%s", dirfd, path);
	for (size_t n = strlen(parent); n > 1 && parent[n - 1] == '/';)
		parent[--n] = 0;
	slash = strrchr(parent, '/');
	last = slash ? slash + 1 : parent;
	snprintf(buf, PATH_MAX, "%s", last);
	if (slash)
		*slash = 0;
	if (!realpath(!slash ? "." : *parent ? parent : "/", dir) || strncmp(dir, root, nroot) ||
	    (dir[nroot] && dir[nroot] != '/'))
		return NULL;
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s", buf);
	snprintf(buf, PATH_MAX, "%.*s%s%.*s", PATH_MAX / 2, dir[nroot] ? dir + nroot + 1 : "",
		 dir[nroot] ? "/" : "", PATH_MAX / 2 - 2, name);
	return buf;
}

static int open_any(int dirfd, const char *path, int flags, mode_t mode)
{
	char buf[PATH_MAX];
	const char *rel = flags & (O_CREAT | O_TRUNC) ? below(dirfd, path, buf) : NULL;
	struct stat st, old;
	int fd;

	if (!rel)
		return REAL(openat)(dirfd, path, flags, mode);
	if ((flags & O_TMPFILE) == O_TMPFILE)
		die("O_TMPFILE is not recorded");
	take();
	bool there = fstatat(dirfd, path, &old, 0) == 0;

	fd = REAL(openat)(dirfd, path, flags, mode);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		if (!there) {
			track(st.st_ino);
			emit_name(CUT_CREATE, st.st_ino, rel, NULL);
		} else if ((flags & O_TRUNC) && old.st_size > 0) {
			emit((struct cut_rec){.type = CUT_SIZE, .ino = st.st_ino}, NULL, NULL, NULL, 0);
		}
	}
	leave();
	return fd;
}

#define OPEN_MODE(flags)                                                                           \
	mode_t mode = 0;                                                                           \
	if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                   \
		va_list ap;                                                                        \
		va_start(ap, flags);                                                               \
		mode = va_arg(ap, mode_t);                                                         \
		va_end(ap);                                                                        \
	}

int open(const char *path, int flags, ...)
{
	OPEN_MODE(flags)
	return open_any(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	OPEN_MODE(flags)
	return open_any(AT_FDCWD, path, flags, mode);
}

int openat(int dirfd, const char *path, int flags, ...)
{
	OPEN_MODE(flags)
	return open_any(dirfd, path, flags, mode);
}

int openat64(int dirfd, const char *path, int flags, ...)
{
	OPEN_MODE(flags)
	return open_any(dirfd, path, flags, mode);
}

int creat(const char *path, mode_t mode)
{
	return open_any(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int mkdirat(int dirfd, const char *path, mode_t mode)
{
	char buf[PATH_MAX];
	const char *rel = below(dirfd, path, buf);
	struct stat st;
	int r;

	if (!rel)
		return REAL(mkdirat)(dirfd, path, mode);
	take();
	r = REAL(mkdirat)(dirfd, path, mode);
	if (r == 0 && fstatat(dirfd, path, &st, 0) == 0) {
		track(st.st_ino);
		emit_name(CUT_MKDIR, st.st_ino, rel, NULL);
	}
	leave();
	return r;
}

int mkdir(const char *path, mode_t mode)
{
	return mkdirat(AT_FDCWD, path, mode);
}

int unlinkat(int dirfd, const char *path, int flags)
{
	char buf[PATH_MAX];
	const char *rel = below(dirfd, path, buf);
	struct stat st;
	int r;

	if (!rel)
		return REAL(unlinkat)(dirfd, path, flags);
	take();
	bool known = fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		     (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode));

	r = REAL(unlinkat)(dirfd, path, flags);
	/* Who has it open may go on writing: it stays tracked. */
	if (r == 0 && known)
		emit_name(flags & AT_REMOVEDIR ? CUT_RMDIR : CUT_UNLINK, st.st_ino, rel, NULL);
	leave();
	return r;
}

int unlink(const char *path)
{
	return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
	return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int remove(const char *path)
{
	int r = unlinkat(AT_FDCWD, path, 0);

	return r < 0 && errno == EISDIR ? unlinkat(AT_FDCWD, path, AT_REMOVEDIR) : r;
}

int renameat2(int from, const char *a, int to, const char *b, unsigned flags)
{
	char abuf[PATH_MAX], bbuf[PATH_MAX];
	const char *arel = below(from, a, abuf), *brel = below(to, b, bbuf);
	struct stat st;
	int r;

	if (!arel && !brel)
		return REAL(renameat2)(from, a, to, b, flags);
	if (!arel || !brel || (flags & RENAME_EXCHANGE))
		die("such a rename is not recorded");
	take();
	r = REAL(renameat2)(from, a, to, b, flags);
	/* Sockets are gone with their process. */
	if (r == 0 && fstatat(to, b, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISSOCK(st.st_mode))
		emit_name(CUT_RENAME, st.st_ino, arel, brel);
	leave();
	return r;
}

int renameat(int from, const char *a, int to, const char *b)
{
	return renameat2(from, a, to, b, 0);
}

int rename(const char *a, const char *b)
{
	return renameat2(AT_FDCWD, a, AT_FDCWD, b, 0);
}

int linkat(int from, const char *a, int to, const char *b, int flags)
{
	char buf[PATH_MAX];
	const char *rel = below(to, b, buf);
	struct stat st;
	int r;

	if (!rel)
		return REAL(linkat)(from, a, to, b, flags);
	take();
	r = REAL(linkat)(from, a, to, b, flags);
	if (r == 0 && fstatat(to, b, &st, AT_SYMLINK_NOFOLLOW) == 0)
		emit_name(CUT_LINK, st.st_ino, rel, NULL);
	leave();
	return r;
}

int link(const char *a, const char *b)
{
	return linkat(AT_FDCWD, a, AT_FDCWD, b, 0);
}

int symlinkat(const char *target, int dirfd, const char *path)
{
	char buf[PATH_MAX];
	const char *rel = below(dirfd, path, buf);
	struct iovec v = {(void *)(uintptr_t)target, strlen(target)};
	struct stat st;
	int r;

	if (!rel)
		return REAL(symlinkat)(target, dirfd, path);
	take();
	r = REAL(symlinkat)(target, dirfd, path);
	if (r == 0 && fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
		emit((struct cut_rec){.type = CUT_SYMLINK, .ino = st.st_ino, .data = (uint32_t)v.iov_len},
		     rel, NULL, &v, 1);
	leave();
	return r;
}

int symlink(const char *target, const char *path)
{
	return symlinkat(target, AT_FDCWD, path);
}

/* ---- bytes ---- */

static ssize_t write_any(int fd, const struct iovec *v, int n, off_t off, int flags)
{
	struct stat st;
	ssize_t r;
	bool here = off < 0;

	if (!enter(fd, &st))
		return REAL(pwritev2)(fd, v, n, off, flags);
	if (here) {
		bool append = fcntl(fd, F_GETFL) & O_APPEND;

		(void)fstat(fd, &st);
		off = append ? st.st_size : lseek(fd, 0, SEEK_CUR);
		r = REAL(writev)(fd, v, n);
	} else {
		r = REAL(pwritev2)(fd, v, n, off, flags);
	}
	emit_write(fd, st.st_ino, off, v, n, r, flags & (RWF_DSYNC | RWF_SYNC));
	leave();
	return r;
}

ssize_t write(int fd, const void *p, size_t n)
{
	struct iovec v = {(void *)(uintptr_t)p, n};
	struct stat st;

	/* Sockets and pipes see the very call. */
	if (!same_file(fd, &st))
		return REAL(write)(fd, p, n);
	return write_any(fd, &v, 1, -1, 0);
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
	struct stat st;

	if (!same_file(fd, &st))
		return REAL(writev)(fd, v, n);
	return write_any(fd, v, n, -1, 0);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t off)
{
	struct iovec v = {(void *)(uintptr_t)p, n};

	return write_any(fd, &v, 1, off, 0);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t off)
{
	return pwrite(fd, p, n, off);
}

ssize_t pwritev(int fd, const struct iovec *v, int n, off_t off)
{
	return write_any(fd, v, n, off, 0);
}

ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t off)
{
	return write_any(fd, v, n, off, 0);
}

ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t off, int flags)
{
	return write_any(fd, v, n, off, flags);
}

ssize_t pwritev64v2(int fd, const struct iovec *v, int n, off64_t off, int flags)
{
	return write_any(fd, v, n, off, flags);
}

int ftruncate(int fd, off_t size)
{
	struct stat st;
	int r;

	if (!enter(fd, &st))
		return REAL(ftruncate)(fd, size);
	(void)fstat(fd, &st);
	r = REAL(ftruncate)(fd, size);
	if (r == 0 && st.st_size != size)
		emit((struct cut_rec){.type = CUT_SIZE, .ino = st.st_ino, .len = (uint64_t)size}, NULL,
		     NULL, NULL, 0);
	leave();
	return r;
}

int ftruncate64(int fd, off64_t size)
{
	return ftruncate(fd, size);
}

int fallocate(int fd, int mode, off_t off, off_t len)
{
	struct stat st;
	int r;

	if (!enter(fd, &st))
		return REAL(fallocate)(fd, mode, off, len);
	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		die("such a fallocate is not recorded");
	(void)fstat(fd, &st);
	r = REAL(fallocate)(fd, mode, off, len);
	if (r == 0 && (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)))
		emit((struct cut_rec){.type = CUT_ZERO, .ino = st.st_ino, .off = (uint64_t)off,
				      .len = (uint64_t)len},
		     NULL, NULL, NULL, 0);
	if (r == 0 && !(mode & FALLOC_FL_KEEP_SIZE) && off + len > st.st_size)
		emit((struct cut_rec){.type = CUT_SIZE, .ino = st.st_ino, .len = (uint64_t)(off + len)},
		     NULL, NULL, NULL, 0);
	leave();
	return r;
}

int fallocate64(int fd, int mode, off64_t off, off64_t len)
{
	return fallocate(fd, mode, off, len);
}

int posix_fallocate(int fd, off_t off, off_t len)
{
	return fallocate(fd, 0, off, len) < 0 ? errno : 0;
}

int posix_fallocate64(int fd, off64_t off, off64_t len)
{
	return posix_fallocate(fd, off, len);
}

/* ---- syncs ---- */

static int sync_any(int fd, bool all, int (*real)(int))
{
	struct stat st;
	struct cut_rec r = {.type = CUT_SYNC};
	int rc;

	if (!enter(fd, &st))
		return real(fd);
	r.ino = all ? 0 : st.st_ino;
	r.len = atomic_fetch_add(&syncs, 1) + ((uint64_t)getpid() << 32);
	emit(r, NULL, NULL, NULL, 0);
	leave();
	rc = real(fd);
	if (rc < 0)
		return rc;
	if (sync_us)
		usleep((useconds_t)(r.len * UINT64_C(2654435761) % (sync_us + 1)));
	take();
	r.type = CUT_SYNCED;
	emit(r, NULL, NULL, NULL, 0);
	leave();
	return 0;
}

int fsync(int fd)
{
	return sync_any(fd, false, REAL(fsync));
}

int fdatasync(int fd)
{
	return sync_any(fd, false, REAL(fdatasync));
}

int syncfs(int fd)
{
	return sync_any(fd, true, REAL(syncfs));
}

/* ---- what is not recorded ---- */

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	struct stat st;

	if (fd >= 0 && (prot & PROT_WRITE) && (flags & MAP_SHARED) && enter(fd, &st)) {
		emit_name(CUT_MAPPED, st.st_ino, NULL, NULL);
		leave();
	}
	return REAL(mmap)(at, len, prot, flags, fd, off);
}

void *mmap64(void *at, size_t len, int prot, int flags, int fd, off64_t off)
{
	return mmap(at, len, prot, flags, fd, off);
}

ssize_t copy_file_range(int in, off64_t *in_off, int out, off64_t *out_off, size_t n,
			unsigned flags)
{
	struct stat st;

	if (enter(out, &st))
		die("copy_file_range is not recorded");
	return REAL(copy_file_range)(in, in_off, out, out_off, n, flags);
}
