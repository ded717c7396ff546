/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main() of a fuzz target (LLVMFuzzerTestOneInput) that is not built with libFuzzer: runs it on every
 * file of the corpus directory given, then on a fixed number of mutations of each. The same input
 * always gives the same run, so what fails here fails again.
 *
 *	fuzz_x CORPUS_DIR [MUTATIONS_PER_FILE]      (an absent directory is an empty corpus)
 */
#include "base/htab.h"
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static uint64_t seed;

static uint64_t random_below(uint64_t n)
{
	seed += UINT64_C(0x9e3779b97f4a7c15);
	return n ? hash64(seed) % n : 0;
}

/* Runs on an exact-size heap copy: one byte read past the end is then seen by ASan. */
static void run(const uint8_t *data, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);

	if (!copy)
		abort();
	memcpy(copy, data, n);
	LLVMFuzzerTestOneInput(copy, n);
	free(copy);
}

static size_t mutate(uint8_t *b, size_t n)
{
	static const uint8_t edge[] = { 0, 1, 0x7f, 0x80, 0xff, '=', ',', '/', '-', '9' };
	size_t at = random_below(n), len = random_below(8) + 1;

	switch (random_below(6)) {
	case 0:
		if (n)
			b[at] ^= (uint8_t)(1 << random_below(8));
		return n;
	case 1:
		if (n)
			b[at] = edge[random_below(sizeof(edge))];
		return n;
	case 2:
		return at;
	case 3:	/* cut a piece out */
		if (at + len > n)
			return n;
		memmove(b + at, b + at + len, n - at - len);
		return n - len;
	case 4:	/* repeat a piece */
		if (at + len > n || n + len > INPUT_MAX)
			return n;
		memmove(b + at + len, b + at, n - at);
		return n + len;
	default:
		for (size_t i = 0; i < len && at + i < n; i++)
			b[at + i] = (uint8_t)random_below(256);
		return n;
	}
}

static size_t load(const char *path, uint8_t *buf)
{
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f)
		return 0;
	n = fread(buf, 1, INPUT_MAX, f);
	fclose(f);
	return n;
}

static void run_file(const uint8_t *orig, size_t n, unsigned long rounds)
{
	static uint8_t b[INPUT_MAX + 8];

	run(orig, n);
	seed = hash_bytes(orig, n, 0);
	for (unsigned long i = 0; i < rounds; i++) {
		size_t m = n;

		memcpy(b, orig, n);
		for (uint64_t k = random_below(4) + 1; k; k--)
			m = mutate(b, m);
		run(b, m);
	}
}

int main(int argc, char **argv)
{
	static uint8_t buf[INPUT_MAX];
	unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 2000;
	struct dirent **names = NULL;
	int n = argc > 1 ? scandir(argv[1], &names, NULL, alphasort) : 0, files = 0;

	run_file(buf, 0, rounds);
	for (int i = 0; i < n; i++) {
		char path[4096];

		if (names[i]->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", argv[1], names[i]->d_name);
			run_file(buf, load(path, buf), rounds);
			files++;
		}
		free(names[i]);
	}
	free(names);
	printf("%d files, %lu mutations of each\n", files, rounds);
	return 0;
}
