/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that write with plain POSIX calls and read what another rank wrote. MPI only keeps them in
 * step, so that what is tested is the file system and not an MPI-IO library's caches.
 *
 *	mpi_rw [-m each|blocks|strided] [-r RECORD_BYTES] [-n RECORDS_A_RANK] [-s] DIR
 *
 *	each     a file per rank
 *	blocks   one file, a contiguous part of it per rank
 *	strided  one file, records of the ranks in turn
 *
 * Rounds: write all; overwrite every third record; append to a shared log; after each, an fsync,
 * a barrier, and every rank compares the records of the next one. -s: no fsync, for what one mount
 * promises without it. Prints MiB/s. Exits 0 only when every byte and every size was right.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum mode { EACH, BLOCKS, STRIDED };
static const char *const mode_names[] = { "each", "blocks", "strided" };

struct job {
	enum mode mode;
	uint64_t bytes, records;
	int rank, ranks, no_sync;
	const char *dir;
	unsigned char *want, *got;
};

static void fail(const struct job *j, const char *what)
{
	fprintf(stderr, "mpi_rw: rank %d: %s: %s\n", j->rank, what, strerror(errno));
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static void path_of(const struct job *j, int rank, char *ret, size_t cap)
{
	if (j->mode == EACH)
		snprintf(ret, cap, "%s/mpi_rw.%d", j->dir, rank);
	else
		snprintf(ret, cap, "%s/mpi_rw.shared", j->dir);
}

static uint64_t place(const struct job *j, int rank, uint64_t i)
{
	switch (j->mode) {
	case BLOCKS: return ((uint64_t)rank * j->records + i) * j->bytes;
	case STRIDED: return (i * (uint64_t)j->ranks + (uint64_t)rank) * j->bytes;
	default: return i * j->bytes;
	}
}

/* A different stream per rank, record and generation: no two records are alike anywhere. */
static void fill(const struct job *j, int rank, uint64_t i, unsigned gen, unsigned char *p)
{
	uint64_t x = ((uint64_t)rank << 40 ^ i << 8 ^ gen) * UINT64_C(0x9e3779b97f4a7c15) | 1;

	for (uint64_t k = 0; k < j->bytes; k++) {
		if (k % 8 == 0) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
		}
		p[k] = (unsigned char)(x >> k % 8 * 8);
	}
}

static unsigned gen_of(uint64_t i, unsigned gen)
{
	return i % 3 == 0 ? gen : 0;
}

/* Interrupted and short transfers are legal, if not expected. */
static void write_all(const struct job *j, int fd, const unsigned char *p, uint64_t n, uint64_t off)
{
	while (n > 0) {
		ssize_t r = pwrite(fd, p, n, (off_t)off);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			fail(j, "write");
		p += r;
		off += (uint64_t)r;
		n -= (uint64_t)r;
	}
}

static void read_all(const struct job *j, int fd, unsigned char *p, uint64_t n, uint64_t off)
{
	while (n > 0) {
		ssize_t r = pread(fd, p, n, (off_t)off);

		if (r < 0 && errno == EINTR)
			continue;
		if (r == 0)
			errno = ENODATA;
		if (r <= 0)
			fail(j, "read");
		p += r;
		off += (uint64_t)r;
		n -= (uint64_t)r;
	}
}

static void write_round(const struct job *j, unsigned gen)
{
	char path[4096];
	int fd;

	path_of(j, j->rank, path, sizeof(path));
	fd = open(path, O_CREAT | O_RDWR, 0644);
	if (fd < 0)
		fail(j, path);
	for (uint64_t i = 0; i < j->records; i++) {
		if (gen > 0 && i % 3 != 0)
			continue;
		fill(j, j->rank, i, gen, j->want);
		write_all(j, fd, j->want, j->bytes, place(j, j->rank, i));
	}
	if (!j->no_sync && fsync(fd) < 0)
		fail(j, "fsync");
	if (close(fd) < 0)
		fail(j, "close");
}

static void read_round(const struct job *j, unsigned gen)
{
	uint64_t size = j->records * j->bytes * (uint64_t)(j->mode == EACH ? 1 : j->ranks);
	int rank = (j->rank + 1) % j->ranks, fd;
	char path[4096];
	struct stat st;

	path_of(j, rank, path, sizeof(path));
	fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0)
		fail(j, path);
	if ((uint64_t)st.st_size != size) {
		fprintf(stderr, "mpi_rw: size %lld, not %llu\n", (long long)st.st_size,
			(unsigned long long)size);
		errno = EIO;
		fail(j, path);
	}
	for (uint64_t i = 0; i < j->records; i++) {
		read_all(j, fd, j->got, j->bytes, place(j, rank, i));
		fill(j, rank, i, gen_of(i, gen), j->want);
		for (uint64_t k = 0; k < j->bytes; k++) {
			if (j->got[k] == j->want[k])
				continue;
			fprintf(stderr, "mpi_rw: %s: record %llu of rank %d differs at byte %llu "
				"of the file\n", path, (unsigned long long)i, rank,
				(unsigned long long)(place(j, rank, i) + k));
			errno = EIO;
			fail(j, "compare");
		}
	}
	close(fd);
}

/* O_APPEND from all ranks at once: every line is there once and whole, in any order. */
static void append_round(const struct job *j, unsigned lines)
{
	char path[4096], line[32];
	unsigned *next = calloc((size_t)j->ranks, sizeof(*next));
	int fd, rank;
	unsigned n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/mpi_rw.log", j->dir);
	fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0644);
	if (fd < 0 || !next)
		fail(j, path);
	for (unsigned i = 0; i < lines; i++) {
		int len = snprintf(line, sizeof(line), "rank %04d line %06u\n", j->rank, i);

		if (write(fd, line, (size_t)len) != len)
			fail(j, "append");
	}
	if ((!j->no_sync && fsync(fd) < 0) || close(fd) < 0)
		fail(j, "fsync of the log");
	MPI_Barrier(MPI_COMM_WORLD);
	f = fopen(path, "r");
	if (!f)
		fail(j, path);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "rank %d line %u", &rank, &n) != 2 || rank < 0 ||
		    rank >= j->ranks || n != next[rank]++) {
			errno = EIO;
			fail(j, "an appended line is torn, lost or out of order");
		}
	}
	for (rank = 0; rank < j->ranks; rank++) {
		if (next[rank] != lines) {
			errno = EIO;
			fail(j, "appended lines are missing");
		}
	}
	fclose(f);
	free(next);
}

/* Runs one collective step, and on rank 0 prints what it moved a second. */
static void step(const struct job *j, const char *name, void (*fn)(const struct job *, unsigned),
		 unsigned arg)
{
	uint64_t records = j->records;
	double t;

	MPI_Barrier(MPI_COMM_WORLD);
	t = MPI_Wtime();
	fn(j, arg);
	MPI_Barrier(MPI_COMM_WORLD);
	t = MPI_Wtime() - t;
	if (fn == write_round && arg > 0)
		records = (records + 2) / 3;
	if (j->rank == 0)
		printf("%-8s %-10s %7.1f MiB/s\n", mode_names[j->mode], name,
		       (double)(j->bytes * records) * j->ranks / t / 1048576);
}

static void clean(const struct job *j)
{
	char path[4096];

	MPI_Barrier(MPI_COMM_WORLD);
	path_of(j, j->rank, path, sizeof(path));
	if ((j->mode == EACH || j->rank == 0) && unlink(path) < 0)
		fail(j, "unlink");
	snprintf(path, sizeof(path), "%s/mpi_rw.log", j->dir);
	if (j->rank == 0 && unlink(path) < 0)
		fail(j, "unlink of the log");
}

static int parse(int argc, char **argv, struct job *j)
{
	int c, m;

	while ((c = getopt(argc, argv, "m:r:n:s")) != -1) {
		switch (c) {
		case 'm':
			for (m = EACH; m <= STRIDED && strcmp(optarg, mode_names[m]) != 0; m++)
				;
			if (m > STRIDED)
				return -1;
			j->mode = (enum mode)m;
			break;
		case 'r': j->bytes = strtoull(optarg, NULL, 10); break;
		case 'n': j->records = strtoull(optarg, NULL, 10); break;
		case 's': j->no_sync = 1; break;
		default: return -1;
		}
	}
	if (optind + 1 != argc || j->bytes == 0 || j->records == 0)
		return -1;
	j->dir = argv[optind];
	return 0;
}

int main(int argc, char **argv)
{
	struct job j = { .mode = STRIDED, .bytes = 47008, .records = 300 };

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &j.ranks);
	if (parse(argc, argv, &j) < 0) {
		if (j.rank == 0)
			fprintf(stderr, "usage: mpi_rw [-m each|blocks|strided] [-r RECORD_BYTES] "
					"[-n RECORDS_A_RANK] [-s] DIR\n");
		MPI_Finalize();
		return 2;
	}
	j.want = malloc(j.bytes);
	j.got = malloc(j.bytes);
	if (!j.want || !j.got)
		fail(&j, "memory");
	step(&j, "write", write_round, 0);
	step(&j, "read", read_round, 0);
	step(&j, "overwrite", write_round, 1);
	step(&j, "read", read_round, 1);
	MPI_Barrier(MPI_COMM_WORLD);
	append_round(&j, 500);
	clean(&j);
	free(j.want);
	free(j.got);
	MPI_Finalize();
	return 0;
}
