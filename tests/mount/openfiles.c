/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thousand files open and written at once: the daemon's memory stays inside its budget plus what
 * a process needs anyway, and every byte is right.
 */
#include "../lib/fmodel.h"
#include "../lib/mnt.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define THREADS	  4u
#define CACHE_MIB 64u
#define SLACK_MIB 64u

static struct mnt mnt;
static unsigned files, file_size;
static int *fds;
static unsigned bad;

/* Piece after piece of file after file, so that all are dirty together. */
static void *write_some(void *arg)
{
	unsigned t = (unsigned)(uintptr_t)arg;
	uint64_t rng = t + 1;
	uint8_t buf[20000];

	for (unsigned off = 0; off < file_size;) {
		unsigned n = 1000 + (unsigned)rnd_below(&rng, sizeof(buf) - 1000);

		if (n > file_size - off)
			n = file_size - off;
		for (unsigned i = t; i < files; i += THREADS) {
			fm_fill(buf, i + 1, off, n);
			if (pwrite(fds[i], buf, n, off) != (ssize_t)n)
				__atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED);
		}
		off += n;
	}
	return NULL;
}

static void open_all(int flags)
{
	char path[600];

	for (unsigned i = 0; i < files; i++) {
		snprintf(path, sizeof(path), "%s/f%u", mnt.dir, i);
		fds[i] = open(path, flags, 0644);
		if (fds[i] < 0)
			bad++;
	}
}

static unsigned long status_kib(const char *name)
{
	unsigned long kib = 0;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)mnt.pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			kib = strtoul(line + strlen(name), NULL, 10);
	if (f)
		fclose(f);
	return kib;
}

static void verify(void)
{
	uint8_t *want = malloc(file_size), *got = malloc(file_size + 1);

	if (!want || !got)
		abort();
	open_all(O_RDONLY);
	for (unsigned i = 0; i < files; i++) {
		fm_fill(want, i + 1, 0, file_size);
		if (pread(fds[i], got, file_size + 1, 0) != (ssize_t)file_size ||
		    memcmp(want, got, file_size)) {
			fprintf(stderr, "file %u is wrong\n", i);
			bad++;
		}
		close(fds[i]);
	}
	free(want);
	free(got);
}

int main(void)
{
	struct rlimit lim = {8192, 8192};
	unsigned long peak;
	pthread_t t[THREADS];
	char options[64];

	files = (unsigned)mnt_env("FILES", 1000);
	file_size = (unsigned)mnt_env("FILE_SIZE", 200000);
	fds = calloc(files, sizeof(*fds));
	mnt_need();
	setrlimit(RLIMIT_NOFILE, &lim);
	mnt_init(&mnt, "open");
	snprintf(options, sizeof(options), "cache-size=%uM", CACHE_MIB);
	if (!fds || mnt_mkfs(&mnt, NULL, NULL) || mnt_mount(&mnt, options))
		return 1;
	open_all(O_RDWR | O_CREAT);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, write_some, (void *)i))
			return 1;
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 0; i < files; i++)
		if (close(fds[i]))
			bad++;
	verify();
	peak = status_kib("VmHWM:") >> 10;
	printf("peak %lu MiB of %u + %u\n", peak, CACHE_MIB, SLACK_MIB);
	/* A sanitizer's shadow memory is not ours. */
	if (!getenv("SANFLAGS") || !*getenv("SANFLAGS"))
		bad += peak > CACHE_MIB + SLACK_MIB;
	if (mnt_remount(&mnt, options))
		bad++;
	verify();
	if (mnt_umount(&mnt) || mnt_fsck(&mnt, false))
		bad++;
	mnt_end(&mnt);
	free(fds);
	printf("%u passed, %u failed\n", bad ? 0 : 1, bad);
	return bad != 0;
}
