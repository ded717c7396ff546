/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is there after the daemon was killed, in every mode: what was written and no more, what was
 * synced and what was closed. What was written is there in strict at once and in lazy after its
 * interval; a private tree is gone.
 * layer: mount
 * cell: killed
 */
#include "two.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZE 300007u

static const struct {
	const char *mode, *options;
	bool	    written, private;
	unsigned    wait_ms;
} rows[] = {
	{ "strict", "mode=strict", true, false, 0 },
	{ "commit", "mode=commit", false, false, 0 },
	{ "session", "rw", false, false, 0 },
	{ "laminate", "mode=laminate", false, false, 0 },
	{ "lazy", "mode=lazy,interval=100ms", true, false, 600 },
	{ "private", "mode=private", false, true, 0 },
};
static unsigned passed, failed;

static void check(bool ok, const char *mode, const char *what)
{
	if (ok)
		passed++;
	else if (++failed)
		printf("FAILED: %s: %s\n", mode, what);
}

static int put(const char *dir, const char *name, char c, unsigned half)
{
	static char b[SIZE];
	char path[600];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	memset(b, c, sizeof(b));
	if (fd < 0 || pwrite(fd, b, SIZE / 2, (off_t)half * (SIZE / 2)) != SIZE / 2)
		perror(path);
	return fd;
}

/* All of the first half is `c`; -1: there is no such file. Anything but zeros or c is torn. */
static int whole(const char *dir, const char *name, char c)
{
	static char b[SIZE];
	unsigned n = 0;
	char path[600];
	ssize_t got;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	got = read(fd, b, SIZE);
	close(fd);
	for (ssize_t i = 0; i < got; i++)
		n += b[i] == c;
	if (got != 0 && (n != (unsigned)got || got != SIZE / 2)) {
		printf("%s: %u of %zd bytes\n", path, n, got);
		return -2;
	}
	return n == SIZE / 2;
}

static void one(unsigned i)
{
	const char *mode = rows[i].mode;
	struct mnt m;
	int w, s, fd;

	mnt_init(&m, mode);
	if (mnt_mkfs(&m, NULL, NULL) || mnt_mount(&m, rows[i].options)) {
		check(false, mode, "no mount");
		mnt_end(&m);
		return;
	}
	w = put(m.dir, "written", 'w', 0);
	s = put(m.dir, "synced", 's', 0);
	fd = put(m.dir, "closed", 'c', 0);
	check(!fsync(s) && !close(fd), mode, "fsync and close");
	nanosleep(&(struct timespec){ .tv_nsec = rows[i].wait_ms * 1000000L }, NULL);
	mnt_kill(&m);
	close(w);
	close(s);
	if (mnt_mount(&m, rows[i].options)) {
		check(false, mode, "no mount over the dead one");
	} else if (rows[i].private) {
		check(whole(m.dir, "closed", 'c') == -1, mode, "a private file is there again");
	} else {
		check(whole(m.dir, "synced", 's') == 1, mode, "what was synced");
		check(whole(m.dir, "closed", 'c') == 1, mode, "what was closed");
		w = whole(m.dir, "written", 'w');
		check(w >= (rows[i].written ? 1 : -1), mode, "what was written");
		/* Who comes after its writer's death may go on with it. */
		fd = put(m.dir, "closed", 'd', 0);
		check(fd >= 0 && !close(fd) && whole(m.dir, "closed", 'd') == 1, mode, "going on");
	}
	check(!mnt_umount(&m) && !mnt_fsck(&m, true), mode, "umount and fsck");
	mnt_end(&m);
}

int main(void)
{
	mnt_need();
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		one(i);
	printf("%u passed, %u failed\n", passed, failed);
	return failed ? 1 : 0;
}
