/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system on a device of 64 MiB is given ten times as much. Who gets no space is told so, at
 * write, fsync or close; what returned success is there; the full file system mounts and unmounts;
 * deleting makes room again.
 */
#include "../lib/fmodel.h"
#include "../lib/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEVICE (64u << 20)
#define FILES  260

static struct mnt mnt;
static struct file {
	size_t size; /* 0: not there, or not all of it */
} file[FILES];
static unsigned bad, refused;

static int broken(const char *what, unsigned i)
{
	fprintf(stderr, "file %u: %s (%s)\n", i, what, strerror(errno));
	bad++;
	return -1;
}

static void path_of(unsigned i, char *ret, size_t cap)
{
	snprintf(ret, cap, "%s/f%u", mnt.dir, i);
}

/* 0: all of it was taken. */
static int put(unsigned i, size_t size)
{
	uint8_t *buf = malloc(size);
	size_t done = 0;
	char path[600];
	int fd, err = 0;

	if (!buf)
		abort();
	file[i].size = 0;
	fm_fill(buf, i + 1, 0, size);
	path_of(i, path, sizeof(path));
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (fd < 0)
		err = errno;
	while (!err && done < size) {
		ssize_t n = write(fd, buf + done, size - done);

		if (n < 0)
			err = errno;
		else
			done += (size_t)n;
	}
	if (!err && i % 4 == 0 && fsync(fd))
		err = errno;
	if (fd >= 0 && close(fd) && !err)
		err = errno;
	free(buf);
	errno = err;
	if (!err)
		file[i].size = size;
	else if (err != ENOSPC)
		broken("should be ENOSPC", i);
	return err;
}

static void verify(const char *when)
{
	char path[600];

	for (unsigned i = 0; i < FILES; i++) {
		size_t size = file[i].size, done = 0;
		uint8_t *want = malloc(size + 1), *got = malloc(size + 1);
		ssize_t n = 0;
		int fd;

		if (!want || !got)
			abort();
		path_of(i, path, sizeof(path));
		fd = size ? open(path, O_RDONLY) : -1;
		if (size && fd < 0)
			broken(when, i);
		while (fd >= 0 && (n = read(fd, got + done, size + 1 - done)) > 0)
			done += (size_t)n;
		fm_fill(want, i + 1, 0, size);
		if (fd >= 0 && (n < 0 || done != size || memcmp(want, got, size)))
			broken(when, i);
		if (fd >= 0)
			close(fd);
		free(want);
		free(got);
	}
}

static int setup(char *device, size_t cap)
{
	snprintf(device, cap, "%s/device", mnt_tmp());
	if (mkdir(device, 0755) || mount("tmpfs", device, "tmpfs", 0, "size=64m")) {
		printf("no tmpfs can be mounted: %s\n", strerror(errno));
		exit(77);
	}
	mnt_init(&mnt, "full");
	snprintf(mnt.fs, sizeof(mnt.fs), "%.500s/fs", device);
	return mnt_mkfs(&mnt, NULL, NULL) || mnt_mount(&mnt, getenv("FULL_OPTIONS"));
}

/* Space comes back in the background. */
static int put_patiently(unsigned i, size_t size)
{
	struct timespec t = {0, 100000000};
	int err = 0;

	for (unsigned k = 0; k < 300; k++) {
		err = put(i, size);
		if (err != ENOSPC)
			break;
		nanosleep(&t, NULL);
	}
	return err;
}

int main(void)
{
	unsigned there = 0;
	char device[600], path[600];
	uint64_t rng = mnt_env("SEED", 5), taken = 0;

	mnt_need();
	if (setup(device, sizeof(device)))
		return 1;
	for (unsigned i = 0; i < FILES; i++) {
		size_t size = i % 3 ? 1 + rnd_below(&rng, 6u << 20) : 1 + rnd_below(&rng, 100000);

		if (put(i, size))
			refused++;
		else
			taken += size, there++;
	}
	printf("%u files were taken, %llu bytes of %u, %u refused\n", there,
	       (unsigned long long)taken, DEVICE, refused);
	if (!refused || taken < DEVICE / 8)
		broken("the device is full too early or never", there);
	verify("while full");
	/* What is staged may find no room on its target: then it says so, and stays staged. */
	mnt_tessera(&mnt, "umount", mnt.dir, NULL);
	if (mnt_wait_dead(&mnt, 60000) || !WIFEXITED(mnt.status))
		broken("the daemon does not end, or crashed", 0);
	if (mnt_mount(&mnt, getenv("FULL_OPTIONS"))) {
		mnt_show_log(&mnt, 20);
		return 1;
	}
	verify("full, mounted again");
	for (unsigned i = 0; i < FILES; i++) {
		path_of(i, path, sizeof(path));
		if (i % 2 == 0 || !file[i].size) {
			if (unlink(path) && errno != ENOENT)
				broken("unlink", i);
			file[i].size = 0;
		}
	}
	if (put_patiently(0, 3u << 20))
		broken("no space after deleting", 0);
	verify("after deleting");
	if (mnt_umount(&mnt) || mnt_fsck(&mnt, true))
		bad++;
	mnt_end(&mnt);
	umount2(device, MNT_DETACH);
	printf("%u passed, %u failed\n", bad ? 0 : 1, bad);
	return bad != 0;
}
