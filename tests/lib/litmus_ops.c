/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls of the steps, and what they gave as a short text: "ok", an errno's name, or content. */
#include "litmus.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BUF_MAX (1u << 20)

int64_t lit_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static const char *op_err(int err)
{
	const char *s = strerrorname_np(err);

	return s ? s : "E?";
}

/* 0 and errno, or what the call returned. */
static void op_result(char *text, long rc)
{
	(void)snprintf(text, LIT_TEXT, "%s", rc < 0 ? op_err(errno) : "ok");
}

/* "n2144o100.4": n 2144 times, o 100 times, four zero bytes. */
static void op_runs(char *text, const char *buf, long n)
{
	size_t at = 0;

	text[0] = '\0';
	for (long i = 0, k; i < n; i += k) {
		for (k = 1; i + k < n && buf[i + k] == buf[i];)
			k++;
		if (at + 12 > LIT_TEXT) {
			(void)snprintf(text + at, LIT_TEXT - at, "?");
			return;
		}
		at += (size_t)snprintf(text + at, LIT_TEXT - at, "%c%ld", buf[i] ? buf[i] : '.', k);
	}
	if (!n)
		(void)snprintf(text, LIT_TEXT, "empty");
}

/* O_DIRECT needs it aligned. */
static char *op_buf(long len, char fill)
{
	char *b = NULL;

	if (posix_memalign((void **)&b, 4096, (size_t)len + 1))
		abort();
	memset(b, fill == '.' ? 0 : fill, (size_t)len);
	return b;
}

static void op_write(int fd, const struct lit_step *s, char *text, bool at_offset)
{
	char *b = op_buf(s->len, s->fill);
	long n = 0;

	for (long i = 0; i < (s->n ? s->n : 1) && n >= 0; i++) {
		n = at_offset ? pwrite(fd, b, (size_t)s->len, s->off) : write(fd, b, (size_t)s->len);
		if (n >= 0 && n < s->len) {
			errno = EIO;
			n = -1;
		}
	}
	op_result(text, n);
	free(b);
}

static void op_read(int fd, const struct lit_step *s, char *text)
{
	char *b = op_buf(s->len, '?');
	long n = pread(fd, b, (size_t)s->len, s->off);

	if (n < 0)
		op_result(text, n);
	else
		op_runs(text, b, n);
	free(b);
}

/* The child's part of an open file that both have. */
static void op_forked(int fd, const struct lit_step *s, char *text)
{
	int status = 0;
	pid_t pid;
	char *b = op_buf(s->len, s->fill);

	pid = fork();
	if (!pid) {
		long n = s->op == OP_FWRITE ? pwrite(fd, b, (size_t)s->len, s->off)
					    : write(fd, b, (size_t)s->len);

		_exit(n == s->len ? 0 : n < 0 ? errno : EIO);
	}
	free(b);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		(void)snprintf(text, LIT_TEXT, "fork");
	else
		(void)snprintf(text, LIT_TEXT, "%s", status ? op_err(WEXITSTATUS(status)) : "ok");
}

static long op_lock(int fd, char kind, char type, const struct lit_step *s, bool wait)
{
	struct flock fl = { .l_type = type == 'w' ? F_WRLCK : type == 'r' ? F_RDLCK : F_UNLCK,
			    .l_start = s ? s->off : 0, .l_len = s ? s->len : 0 };

	if (kind == 'f')
		return flock(fd, (type == 'w' ? LOCK_EX : type == 'r' ? LOCK_SH : LOCK_UN) |
					 (wait ? 0 : LOCK_NB));
	if (kind == 'o')
		return fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &fl);
	return fcntl(fd, wait ? F_SETLKW : F_SETLK, &fl);
}

/* Read, add one, write; under a lock. */
static void op_incr(int fd, const struct lit_step *s, char *text)
{
	uint32_t v;

	for (long i = 0; i < s->n; i++)
		if (op_lock(fd, s->how, 'w', NULL, true) || pread(fd, &v, 4, 0) != 4 ||
		    (v++, pwrite(fd, &v, 4, 0) != 4) || op_lock(fd, s->how, 'u', NULL, true)) {
			op_result(text, -1);
			return;
		}
	op_result(text, 0);
}

static void op_stat(char *text, int rc, const struct stat *st)
{
	if (rc)
		op_result(text, -1);
	else
		(void)snprintf(text, LIT_TEXT, S_ISDIR(st->st_mode) ? "dir" : "s%lld", (long long)st->st_size);
}

static int op_byname(const void *a, const void *b)
{
	return *(const char *)a - *(const char *)b;
}

static void op_list(const char *dir, char *text)
{
	DIR *d = opendir(dir);
	char names[64];
	size_t n = 0;

	if (!d) {
		op_result(text, -1);
		return;
	}
	for (struct dirent *e; (e = readdir(d)); )
		if (e->d_name[0] != '.' && n < sizeof(names))
			names[n++] = e->d_name[0];
	(void)closedir(d);
	qsort(names, n, 1, op_byname);
	(void)snprintf(text, LIT_TEXT, "[%.*s]", (int)n, names);
}

/* How often each byte is in a file: "n800p800". */
static void op_tally(const char *path, int flags, char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
	long count[256] = { 0 };
	unsigned char b[65536] __attribute__((aligned(4096)));
	size_t at = 0;
	ssize_t n = -1;

	text[0] = '\0';
	while (fd >= 0 && (n = read(fd, b, sizeof(b))) > 0)
		for (long i = 0; i < n; i++)
			count[b[i]]++;
	if (n < 0)
		op_result(text, -1);
	else
		for (unsigned i = 0; i < 256; i++)
			if (count[i] && at + 12 < LIT_TEXT)
				at += (size_t)snprintf(text + at, LIT_TEXT - at, "%c%ld", i ? (int)i : '.',
						       count[i]);
	if (fd >= 0)
		close(fd);
	if (!text[0])
		(void)snprintf(text, LIT_TEXT, "empty");
}

static void op_map(struct lit_party *p, const struct lit_step *s, unsigned slot, char *text)
{
	int fd = p->fds[slot][s->h], rw = PROT_READ | PROT_WRITE;
	void *m;

	if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
		rw = PROT_READ;
	m = mmap(NULL, (size_t)s->len, rw, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED) {
		op_result(text, -1);
		return;
	}
	p->maps[slot][s->h] = m;
	p->lens[slot][s->h] = (size_t)s->len;
	op_result(text, 0);
}

/* Who touches a mapping behind the end of its file: the threads of one process at once, too. */
static __thread sigjmp_buf op_bus;

static void op_on_bus(int sig)
{
	(void)sig;
	siglongjmp(op_bus, 1);
}

static void op_mapped(struct lit_party *p, const struct lit_step *s, unsigned slot, char *text)
{
	char *m = p->maps[slot][s->h];

	if (sigsetjmp(op_bus, 1)) {
		(void)snprintf(text, LIT_TEXT, "SIGBUS");
	} else if (!m) {
		(void)snprintf(text, LIT_TEXT, "-");
	} else if (s->op == OP_MREAD) {
		op_runs(text, m + s->off, s->len);
	} else if (s->op == OP_MWRITE) {
		memset(m + s->off, s->fill, (size_t)s->len);
		op_result(text, 0);
	} else if (s->op == OP_MSYNC) {
		op_result(text, msync(m, p->lens[slot][s->h], MS_SYNC));
	} else {
		op_result(text, munmap(m, p->lens[slot][s->h]));
		p->maps[slot][s->h] = NULL;
	}
}

/* Opens a name again and again while others change it: a list of what was seen but for "ok". */
static void op_loop(const char *path, const struct lit_step *s, char *text)
{
	(void)snprintf(text, LIT_TEXT, "ok");
	for (long i = 0; i < s->n; i++) {
		char b[17] = "";
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, b, 16);

		if (n < 0)
			op_result(text, -1);
		else if (n != 16 || strspn(b, (char[]){ b[0], 0 }) != 16)
			op_runs(text, b, n);
		if (fd >= 0)
			close(fd);
		if (strcmp(text, "ok"))
			return;
	}
}

/* What a mount has cached is forgotten. */
static void op_invalidate(const char *path, char *text)
{
	const char *tessera = getenv("TESSERA");
	char *const argv[] = { (char *)"tessera", (char *)"invalidate", (char *)path, NULL };
	int status = 0;
	pid_t pid;

	errno = posix_spawn(&pid, tessera ? tessera : "build/tessera", NULL, NULL, argv, environ);
	if (errno || waitpid(pid, &status, 0) < 0)
		op_result(text, -1);
	else
		(void)snprintf(text, LIT_TEXT, "%s", status ? "failed" : "ok");
}

static bool op_later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

/* Which times of a file are later than those it had when it was stamped: "mc", "m", "c" or "same". */
static void op_times(struct lit_party *p, const struct lit_step *s, const char *path, unsigned slot, char *text)
{
	struct timespec *was = p->stamp[slot];
	struct stat st;

	if (stat(path, &st)) {
		op_result(text, -1);
		return;
	}
	(void)snprintf(text, LIT_TEXT, "%s%s", op_later(&st.st_mtim, &was[0]) ? "m" : "",
		       op_later(&st.st_ctim, &was[1]) ? "c" : "");
	if (!*text)
		(void)snprintf(text, LIT_TEXT, "same");
	if (s->op == OP_MOVED)
		return;
	was[0] = st.st_mtim;
	was[1] = st.st_ctim;
	(void)snprintf(text, LIT_TEXT, "ok");
}

/* A directory is as new as a file that was made in it, but for a second; the rest is the clock's grain. */
static void op_fresh(const char *dir, const char *file, char *text)
{
	struct stat d, f;

	if (stat(dir, &d) || stat(file, &f)) {
		op_result(text, -1);
		return;
	}
	d.st_mtim.tv_sec++;
	d.st_ctim.tv_sec++;
	d.st_mtim.tv_nsec += 20000000;
	d.st_ctim.tv_nsec += 20000000;
	(void)snprintf(text, LIT_TEXT, "%s",
		       op_later(&f.st_ctim, &d.st_mtim) || op_later(&f.st_ctim, &d.st_ctim) ? "late" : "ok");
}

static void op_named(struct lit_party *p, const struct lit_step *s, const char *path, const char *path2,
		     unsigned slot, char *text)
{
	struct timespec times[2] = { { .tv_sec = s->len }, { .tv_sec = s->len } };
	struct stat st;

	switch (s->op) {
	case OP_TRUNC: op_result(text, truncate(path, s->len)); break;
	case OP_STAT: op_stat(text, stat(path, &st), &st); break;
	case OP_UNLINK: op_result(text, unlink(path)); break;
	case OP_RENAME: op_result(text, rename(path, path2)); break;
	case OP_LINK: op_result(text, link(path, path2)); break;
	case OP_MKDIR: op_result(text, mkdir(path, 0777)); break;
	case OP_RMDIR: op_result(text, rmdir(path)); break;
	case OP_UTIME: op_result(text, utimensat(AT_FDCWD, path, times, 0)); break;
	case OP_LAM: op_result(text, chmod(path, 0444)); break;
	case OP_TALLY: op_tally(path, p->flags, text); break;
	case OP_LOOP: op_loop(path, s, text); break;
	case OP_INVAL: op_invalidate(path, text); break;
	case OP_STAMP:
	case OP_MOVED: op_times(p, s, path, slot, text); break;
	case OP_FRESH: op_fresh(path, path2, text); break;
	case OP_LINKS:
		if (stat(path, &st))
			op_result(text, -1);
		else
			(void)snprintf(text, LIT_TEXT, "l%u", (unsigned)st.st_nlink);
		break;
	default: abort();
	}
}

static void op_handle(struct lit_party *p, const struct lit_step *s, unsigned slot, char *text)
{
	int fd = p->fds[slot][s->h];
	uint32_t v = 0;
	struct stat st;

	switch (s->op) {
	case OP_CLOSE:
		p->fds[slot][s->h] = -1;
		op_result(text, close(fd));
		break;
	case OP_WRITE: op_write(fd, s, text, true); break;
	case OP_APPEND:
	case OP_SWRITE: op_write(fd, s, text, false); break;
	case OP_READ: op_read(fd, s, text); break;
	case OP_FSYNC: op_result(text, fsync(fd)); break;
	case OP_FDATASYNC: op_result(text, fdatasync(fd)); break;
	case OP_FTRUNC: op_result(text, ftruncate(fd, s->len)); break;
	case OP_FSTAT: op_stat(text, fstat(fd, &st), &st); break;
	case OP_MMAP: op_map(p, s, slot, text); break;
	case OP_FLOCK: op_result(text, op_lock(fd, 'f', s->how, s, false)); break;
	case OP_SETLK: op_result(text, op_lock(fd, 'p', s->how, s, false)); break;
	case OP_OFD: op_result(text, op_lock(fd, 'o', s->how, s, false)); break;
	case OP_INCR: op_incr(fd, s, text); break;
	case OP_COUNT:
		if (pread(fd, &v, 4, 0) != 4)
			op_result(text, -1);
		else
			(void)snprintf(text, LIT_TEXT, "k%u", v);
		break;
	case OP_DUP: op_result(text, p->fds[slot][s->h2] = fcntl(fd, F_DUPFD_CLOEXEC, 0)); break;
	case OP_FWRITE:
	case OP_FSWRITE: op_forked(fd, s, text); break;
	case OP_PUNCH:
		op_result(text, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, s->off, s->len));
		break;
	case OP_FALLOC: op_result(text, fallocate(fd, 0, s->off, s->len)); break;
	case OP_SYNCRANGE:
		op_result(text, sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE |
								  SYNC_FILE_RANGE_WRITE |
								  SYNC_FILE_RANGE_WAIT_AFTER));
		break;
	default: abort();
	}
}

void lit_do(struct lit_party *p, const struct lit_step *s, const char *dir, unsigned slot, char text[LIT_TEXT])
{
	char path[512], path2[512];

	(void)snprintf(path, sizeof(path), "%s/%s/%c", p->root, dir, s->f);
	(void)snprintf(path2, sizeof(path2), "%s/%s/%c", p->root, dir, s->g);
	if (s->op == OP_WAIT || s->op == OP_PAUSE) {
		int64_t ns = s->op == OP_WAIT ? p->wait_ns : s->n * INT64_C(1000000);
		struct timespec ts = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

		nanosleep(&ts, NULL);
		op_result(text, 0);
	} else if (s->op == OP_OPEN) {
		p->fds[slot][s->h] = open(path, s->flags | p->flags | O_CLOEXEC, 0666);
		op_result(text, p->fds[slot][s->h]);
	} else if (s->op == OP_LIST) {
		op_list(path, text);
	} else if (s->op >= OP_MREAD && s->op <= OP_MUNMAP) {
		op_mapped(p, s, slot, text);
	} else if (s->f) {
		op_named(p, s, path, path2, slot, text);
	} else if (p->fds[slot][s->h] < 0) {
		(void)snprintf(text, LIT_TEXT, "-");
	} else {
		op_handle(p, s, slot, text);
	}
}

void lit_party_init(struct lit_party *p)
{
	memset(p->fds, 0xff, sizeof(p->fds));
	memset(p->maps, 0, sizeof(p->maps));
	(void)signal(SIGBUS, op_on_bus);
}

void lit_party_reset(struct lit_party *p, unsigned slot)
{
	for (unsigned h = 0; h < LIT_HANDLES; h++) {
		if (p->maps[slot][h])
			munmap(p->maps[slot][h], p->lens[slot][h]);
		p->maps[slot][h] = NULL;
		if (p->fds[slot][h] >= 0)
			close(p->fds[slot][h]);
		p->fds[slot][h] = -1;
	}
}

/* "f=o100 d=/": a file of 100 times o, and a directory. */
int lit_setup(const struct lit_prog *p, const char *root, const char *dir)
{
	char path[512], text[80], *rest = text;

	(void)snprintf(path, sizeof(path), "%s/%s", root, dir);
	if (mkdir(path, 0777) && errno != EEXIST)
		return -errno;
	memcpy(text, p->setup, sizeof(text));
	for (char *w; (w = strsep(&rest, " ")); ) {
		long len = strlen(w) > 3 ? strtol(w + 3, NULL, 10) : 0;
		char *b;
		int fd;

		if (!*w)
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s/%c", root, dir, w[0]);
		if (w[2] == '/') {
			if (mkdir(path, 0777))
				return -errno;
			continue;
		}
		fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0666);
		b = op_buf(len, w[2]);
		if (fd < 0 || write(fd, b, (size_t)len) != len || close(fd))
			return -errno;
		free(b);
	}
	return 0;
}
