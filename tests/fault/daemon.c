/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each named fault point fails at its Nth hit in a running daemon, under one scripted load.
 *
 * An application must see an errno or its bytes: what returned success is there, what failed left
 *the old content readable. Once disarmed everything goes on; the daemon never dies of a fault; fsck
 *is clean. Then the same for starting (it mounts, or says no in one line) and for unmounting.
 *
 *	FAULT_POINT=NAME	only this one
 */
#include "../lib/fmodel.h"
#include "../lib/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define FILES 8
#define BIG   1500000u

/* ENOMEM and ENOSPC take other ways than EIO does: they may be tried again. */
static const struct point {
	const char *name, *error;
	unsigned every; /* so many hits apart are worth a try */
} points[] = {
	{ "alloc", "ENOMEM", 3 },
	{ "kv.put", "EIO", 2 },
	{ "kv.commit", "EIO", 1 },
	{ "kv.get", "EIO", 3 },
	{ "env.commit", "EIO", 1 },
	{ "env.sync", "EIO", 1 },
	{ "env.meta", "EIO", 1 },
	{ "store.put", "EIO", 1 },
	{ "store.put", "ENOSPC", 1 },
	{ "store.get", "EIO", 1 },
	{ "store.del", "EIO", 1 },
	{ "store.head", "EIO", 1 },
	{ "store.list", "EIO", 1 },
	{ "store.kv.allocate", "ENOSPC", 1 },
	{ "store.kv.write", "EIO", 1 },
	{ "store.kv.read", "EIO", 1 },
	{ "store.kv.sync", "EIO", 1 },
	{ "store.kv.header", "EIO", 1 },
	{ "io.flush.put", "EIO", 1 },
	{ "io.flush.commit", "EIO", 1 },
	{ "io.sync", "EIO", 1 },
	{ "stage.append", "EIO", 1 },
	{ "stage.append", "ENOSPC", 1 },
	{ "stage.seal.put", "EIO", 1 },
	{ "stage.seal.commit", "EIO", 1 },
	{ "gc.delete", "EIO", 1 },
	{ "thread", "EAGAIN", 1 },
};

static struct mnt mnt;
static struct file {
	struct fmodel m;
	bool tainted; /* something failed: until it is rewritten, old and new bytes are both right
		       */
} file[FILES];
static uint64_t serial = 1;
static unsigned failures, seen_errors, bad;
static bool has_dir;
static char what[128];

static void broken(const char *a, const char *b)
{
	fprintf(stderr, "%s: %s: %s\n", what, a, b);
	bad++;
}

static void path_of(unsigned i, char *ret, size_t cap)
{
	snprintf(ret, cap, "%s/f%u", mnt.dir, i);
}

/* Non-zero when it failed, which is fine as long as the caller remembers. */
static int tried(int failed)
{
	if (failed)
		seen_errors++;
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
			broken(path, strerror(errno));
		return;
	}
	why = fm_check(&file[i].m, p, n);
	if (why)
		broken(path, why);
	free(p);
}

/* Write a temporary file and rename it over f2: whole in either case. */
static void replace(void)
{
	struct fmodel next = {0};
	char a[600], b[600];
	int fd, err;

	snprintf(a, sizeof(a), "%s/temp", mnt.dir);
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

	snprintf(a, sizeof(a), "%s/dir", mnt.dir);
	err = tried(has_dir ? rmdir(a) : mkdir(a, 0755));
	if (!err)
		has_dir = !has_dir;
	err = stat(a, &st);
	if (err && errno != ENOENT)
		tried(1);
	else if ((err == 0) != has_dir)
		broken(a, "mkdir or rmdir did not do what it returned");
	path_of(7, a, sizeof(a));
	if (!tried(setxattr(a, "user.x", value, sizeof(value), 0)) &&
	    getxattr(a, "user.x", got, sizeof(got)) == (ssize_t)sizeof(got) &&
	    memcmp(got, value, sizeof(got)))
		broken(a, "xattr is wrong");
}

static void load(void)
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
	for (unsigned i = 0; i < FILES; i++)
		look(i, true);
}

static void nap(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/* Under a fault of `alloc` the request itself may meet it. */
static int disarm(void)
{
	for (unsigned i = 0; i < 200; i++) {
		if (!mnt_control(&mnt, "faults", NULL, 0))
			return 0;
		nap(5);
	}
	return -1;
}

static void after(void)
{
	if (!mnt_alive(&mnt)) {
		broken("load", "the daemon died");
		mnt_show_log(&mnt, 40);
		if (mnt_mount(&mnt, NULL))
			exit(1);
	} else if (disarm()) {
		broken("load", "disarming fails");
	}
	for (unsigned i = 0; i < FILES; i++)
		look(i, false);
	/* What failed is written again, as a whole. */
	for (unsigned i = 0; i < FILES; i++) {
		if (!file[i].tainted)
			continue;
		change(i, O_RDWR | O_CREAT | O_TRUNC, do_big, true);
		if (file[i].tainted)
			broken("load", "writing a file again fails after the fault is gone");
		look(i, false);
	}
}

static void check_whole(bool killed)
{
	if (killed)
		mnt_kill(&mnt);
	else if (mnt_umount(&mnt))
		broken("load", "unmounting");
	if (mnt_fsck(&mnt, false))
		broken("load", "fsck");
	if (mnt_mount(&mnt, NULL)) {
		broken("load", "mounting");
		exit(1);
	}
	for (unsigned i = 0; i < FILES; i++)
		look(i, false);
}

static void try_point(const struct point *p)
{
	static const unsigned at[] = {1, 2, 3, 5, 8, 13, 21, 34, 0};
	unsigned errors = seen_errors, before = bad;
	char spec[128];

	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		/* The last one: again and again. */
		if (at[i])
			snprintf(spec, sizeof(spec), "faults %s@%u=%s", p->name, at[i] * p->every,
				 p->error);
		else
			snprintf(spec, sizeof(spec), "faults %s%%20=%s", p->name, p->error);
		snprintf(what, sizeof(what), "%s", spec + 7);
		/* Armed, "alloc" may already take the answer. */
		if (mnt_control(&mnt, spec, NULL, 0) && strcmp(p->name, "alloc"))
			broken("load", "arming");
		load();
		/* Sealer and committer pass it too. */
		nap(i % 3 ? 5 : 60);
		after();
		if (bad > before)
			break;
	}
	check_whole((p - points) % 2);
	printf("%-16s %-8s %u errors seen%s\n", p->name, p->error, seen_errors - errors,
	       bad > before ? ", BROKEN" : "");
	failures += bad > before;
}

/* Starting with a fault: it mounts or it says no, and leaves nothing behind either way. */
static void try_start(void)
{
	static const char *const at_start[][2] = {
		{"alloc", "ENOMEM"},  {"env.sync", "EIO"},  {"kv.put", "EIO"},
		{"kv.commit", "EIO"}, {"thread", "EAGAIN"}, {"env.commit", "EIO"},
	};
	unsigned before = bad;
	char options[128];

	mnt_kill(&mnt);
	for (unsigned i = 0; i < sizeof(at_start) / sizeof(at_start[0]); i++)
		for (unsigned n = 1; n < 100; n = n * 2 + n / 3) {
			snprintf(options, sizeof(options), "faults=%s@%u=%s", at_start[i][0], n,
				 at_start[i][1]);
			snprintf(what, sizeof(what), "mount -o %.100s", options);
			if (!mnt_mount(&mnt, options))
				mnt_kill(&mnt);
			else if (!WIFEXITED(mnt.status))
				broken("load", "the daemon crashed");
		}
	snprintf(what, sizeof(what), "mount after failed mounts");
	if (mnt_mount(&mnt, NULL)) {
		broken("load", "mounting");
		exit(1);
	}
	for (unsigned i = 0; i < FILES; i++)
		look(i, false);
	failures += bad > before;
}

/* Unmounting while targets refuse: it says so, and nothing that was closed is lost. */
static void try_umount(void)
{
	unsigned before = bad;

	snprintf(what, sizeof(what), "umount with store.put=EIO");
	load();
	mnt_control(&mnt, "faults store.put=EIO", NULL, 0);
	change(0, O_RDWR, do_small, false);
	change(6, O_RDWR, do_append, false);
	mnt_tessera(&mnt, "umount", mnt.dir, NULL);
	if (mnt_wait_dead(&mnt, 60000)) {
		broken("load", "the daemon does not end");
		mnt_kill(&mnt);
	} else if (!WIFEXITED(mnt.status)) {
		broken("load", "the daemon crashed");
	}
	if (mnt_mount(&mnt, NULL)) {
		broken("load", "mounting");
		exit(1);
	}
	for (unsigned i = 0; i < FILES; i++)
		look(i, false);
	failures += bad > before;
}

int main(void)
{
	const char *only = getenv("FAULT_POINT");
	unsigned n = 0;

	mnt_need();
	mnt_init(&mnt, "fault");
	if (mnt_mkfs(&mnt, NULL, NULL) || mnt_mount(&mnt, NULL))
		return 1;
	snprintf(what, sizeof(what), "without faults");
	for (unsigned i = 0; i < FILES; i++)
		change(i, O_RDWR | O_CREAT | O_TRUNC, do_big, true);
	load();
	after();
	failures += bad > 0 || seen_errors > 0;
	for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		if (!only || !strcmp(only, points[i].name)) {
			try_point(&points[i]);
			n++;
		}
	if (!only || !strcmp(only, "start"))
		try_start();
	if (!only || !strcmp(only, "umount"))
		try_umount();
	snprintf(what, sizeof(what), "the end");
	check_whole(false);
	if (mnt_umount(&mnt) || mnt_fsck(&mnt, true))
		failures++;
	mnt_end(&mnt);
	printf("%u passed, %u failed\n", n + 3 > failures ? n + 3 - failures : 0, failures);
	return failures != 0;
}
