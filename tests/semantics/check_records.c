/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interleaved records of 47,008 bytes, which no page nor stripe divides, by four processes on each of
 * two mounts: every byte is its writer's, in every mode that publishes what one file's writers write.
 * With the kernel made to hold back writes of files that are shared, which no mount does by itself, bytes
 * are wrong: so this test can see it. RECORDS=n of each process; MNT_OPTIONS are added to the mode.
 * layer: mount
 * cell: invariant6 pieces close
 */
#include "two.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROCS  8u
#define RECORD 47008u

static unsigned records;
static unsigned wait_ms;

static void fill(unsigned char *b, unsigned p, unsigned k)
{
	uint32_t x = p * 1000003u + k * 7919u + 1;

	for (unsigned i = 0; i < RECORD; i++) {
		x = x * 1664525u + 1013904223u;
		b[i] = (unsigned char)(x >> 24);
	}
}

static unsigned long look(const char *path)
{
	static unsigned char got[RECORD], want[RECORD];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned long bad = 0;

	for (unsigned k = 0; k < records; k++)
		for (unsigned p = 0; p < PROCS; p++) {
			ssize_t n = pread(fd, got, RECORD, (off_t)(k * PROCS + p) * RECORD);
			unsigned i = 0;

			fill(want, p, k);
			while (i < RECORD && n == RECORD && got[i] == want[i])
				i++;
			if (i == RECORD)
				continue;
			if (!bad++)
				printf("%s: record %u of process %u differs at byte %u (%zd read)\n", path, k,
				       p, i, n);
		}
	if (fd >= 0)
		close(fd);
	return bad;
}

static unsigned long work(struct two *t, unsigned p, const char *dir)
{
	static unsigned char b[RECORD];
	unsigned long bad = 0;
	char path[600];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/records", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	two_wait(t);
	for (unsigned k = 0; k < records; k++) {
		fill(b, p, k);
		if (pwrite(fd, b, RECORD, (off_t)(k * PROCS + p) * RECORD) != RECORD)
			bad++;
		if (k % 4 == 3 && p % 3 == 0 && fsync(fd))
			bad++;
	}
	if (close(fd))
		bad++;
	two_wait(t);
	nanosleep(&(struct timespec){ .tv_nsec = wait_ms * 1000000L }, NULL);
	return bad + (p < 2 ? look(path) : 0);
}

static unsigned long one(const char *mode, const char *more)
{
	char options[120];
	unsigned long bad;
	struct two t;

	wait_ms = strcmp(mode, "lazy") ? 0 : 800;
	(void)snprintf(options, sizeof(options), "mode=%s%s%s", mode, wait_ms ? ",interval=100ms" : "", more);
	if (two_start(&t, more[0] ? "forced" : mode, options)) {
		(void)puts("0 passed, 1 failed");
		exit(1);
	}
	bad = two_run(&t, PROCS, 120, work);
	bad += two_end(&t) != 0;
	printf("%s%s: %lu records wrong\n", mode, more, bad);
	return bad;
}

int main(void)
{
	static const char *const modes[] = { "strict", "commit", "session", "lazy" };
	unsigned passed = 0, failed = 0;
	const char *only = getenv("MODES");

	records = (unsigned)mnt_env("RECORDS", 12);
	mnt_need();
	for (unsigned i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		if (only && *only && !strstr(only, modes[i]))
			continue;
		if (!one(modes[i], ""))
			passed++;
		else if (++failed)
			printf("FAILED: %s\n", modes[i]);
	}
	if (one("session", ",faults=fuse.writeback=EBUSY"))
		passed++;
	else if (++failed)
		printf("FAILED: forced write-back goes unnoticed\n");
	printf("%u passed, %u failed\n", passed, failed);
	return failed ? 1 : 0;
}
