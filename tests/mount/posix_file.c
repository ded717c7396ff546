/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes: reads, writes, sizes, holes, maps, copies. */
#include "posix.h"

#include <linux/falloc.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>

#define MB (1 << 20)

static void fill(char *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		p[i] = (char)(seed >> 56);
	}
}

/* Bytes [off, off + n) of fd are those of fill(…, seed). */
static bool same(int fd, off_t off, size_t n, uint64_t seed)
{
	char *want = malloc(n), *got = malloc(n);
	bool r;

	fill(want, n, seed);
	r = pread(fd, got, n, off) == (ssize_t)n && !memcmp(want, got, n);
	free(want);
	free(got);
	return r;
}

static void put(int fd, off_t off, size_t n, uint64_t seed)
{
	char *p = malloc(n);

	fill(p, n, seed);
	EQ(n, pwrite(fd, p, n, off));
	free(p);
}

static bool zero(int fd, off_t off, size_t n)
{
	char *p = malloc(n);
	bool r = pread(fd, p, n, off) == (ssize_t)n;

	for (size_t i = 0; r && i < n; i++)
		r = p[i] == 0;
	free(p);
	return r;
}

static long size_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? -1 : (long)st.st_size;
}

static void bytes_come_back_before_and_after_close(void)
{
	int fd = posix_make("f", NULL, 0);

	put(fd, 0, 3 * MB + 7, 1);
	OK(same(fd, 0, 3 * MB + 7, 1));
	put(fd, MB + 5, 1000, 2);
	OK(same(fd, MB + 5, 1000, 2));
	OK(close(fd) == 0);
	fd = open("f", O_RDONLY);
	EQ(3 * MB + 7, size_of(fd));
	OK(same(fd, MB + 5, 1000, 2));
	FAILS(EBADF, write(fd, "x", 1));
	close(fd);
}

static void records_of_47008_bytes_from_two_processes(void)
{
	enum { REC = 47008, N = 64 };
	int fd = posix_make("f", NULL, 0);

	for (int rank = 0; rank < 2; rank++)
		if (fork() == 0) {
			int own = open("f", O_RDWR);

			for (int i = rank; i < N; i += 2)
				put(own, (off_t)i * REC, REC, (uint64_t)i);
			OK(fsync(own) == 0 && close(own) == 0);
			_exit(posix_bad != 0);
		}
	for (int rank = 0; rank < 2; rank++) {
		int status;

		wait(&status);
		EQ(0, status);
	}
	EQ((long)REC * N, size_of(fd));
	for (int i = 0; i < N; i++)
		OK(same(fd, (off_t)i * REC, REC, (uint64_t)i));
	close(fd);
}

static void appends_of_many_processes_do_not_overlap(void)
{
	char line[32], buf[32];
	int fd, n = 0, counts[4] = { 0 };
	FILE *f;

	posix_put("log", "");
	for (int p = 0; p < 4; p++)
		if (fork() == 0) {
			fd = open("log", O_WRONLY | O_APPEND);
			snprintf(line, sizeof(line), "line of process %d\n", p);
			for (int i = 0; i < 200; i++)
				if (write(fd, line, strlen(line)) != (ssize_t)strlen(line))
					_exit(1);
			_exit(close(fd) != 0);
		}
	for (int p = 0; p < 4; p++) {
		int status;

		wait(&status);
		EQ(0, status);
	}
	f = fopen("log", "r");
	while (f && fgets(buf, sizeof(buf), f)) {
		int p;

		n++;
		if (sscanf(buf, "line of process %d", &p) == 1 && p >= 0 && p < 4)
			counts[p]++;
	}
	EQ(800, n);
	for (int p = 0; p < 4; p++)
		EQ(200, counts[p]);
	if (f)
		fclose(f);
}

static void truncation_cuts_and_extends_with_zeros(void)
{
	int fd = posix_make("f", NULL, 0);
	struct stat st;

	put(fd, 0, 100000, 1);
	OK(ftruncate(fd, 5000) == 0);
	EQ(5000, size_of(fd));
	OK(ftruncate(fd, 50000) == 0);
	OK(zero(fd, 5000, 45000));
	OK(close(fd) == 0);
	OK(truncate("f", 4000) == 0);
	OK(truncate("f", 1LL << 40) == 0);
	fd = open("f", O_RDWR);
	EQ(1LL << 40, size_of(fd));
	OK(zero(fd, 4000, 10000) && zero(fd, (1LL << 40) - 5000, 5000));
	OK(fstat(fd, &st) == 0);
	OK(st.st_blocks < 1000);
	OK(close(fd) == 0);
	fd = open("f", O_RDWR | O_TRUNC);
	EQ(0, size_of(fd));
	put(fd, 0, 10, 3);
	close(fd);
	EQ(10, posix_stat("f").st_size);
	FAILS(EINVAL, truncate("f", -1));
}

static void sparse_files_say_where_data_is(void)
{
	int fd = posix_make("f", NULL, 0);
	struct stat st;

	for (int round = 0; round < 2; round++) {
		put(fd, 10 * MB, 65536, 1);
		put(fd, 20 * MB, 65536, 2);
		if (round == 1)
			OK(fsync(fd) == 0);
		EQ(10 * MB, lseek(fd, 0, SEEK_DATA));
		EQ(10 * MB + 65536, lseek(fd, 10 * MB, SEEK_HOLE));
		EQ(20 * MB, lseek(fd, 10 * MB + 65536, SEEK_DATA));
		EQ(0, lseek(fd, 0, SEEK_HOLE));
		FAILS(ENXIO, lseek(fd, 21 * MB, SEEK_DATA));
		EQ(20 * MB + 65536, lseek(fd, 20 * MB, SEEK_HOLE));
		OK(fstat(fd, &st) == 0);
		EQ(2 * 65536 / 512, st.st_blocks);
	}
	close(fd);
}

static void fallocate_modes(void)
{
	int fd = posix_make("f", NULL, 0);
	struct stat st;

	OK(fallocate(fd, 0, 0, MB) == 0);
	EQ(MB, size_of(fd));
	OK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 2 * MB) == 0);
	EQ(MB, size_of(fd));
	put(fd, 0, MB, 1);
	OK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 65536, 131072) == 0);
	OK(zero(fd, 65536, 131072));
	EQ(MB, size_of(fd));
	OK(fsync(fd) == 0);
	OK(zero(fd, 65536, 131072));
	OK(fstat(fd, &st) == 0);
	EQ((MB - 131072) / 512, st.st_blocks);
	OK(fallocate(fd, FALLOC_FL_ZERO_RANGE, MB - 1000, 2000) == 0);
	EQ(MB + 1000, size_of(fd));
	OK(zero(fd, MB - 1000, 2000));
	OK(fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, MB, MB) == 0);
	EQ(MB + 1000, size_of(fd));
	FAILS(EOPNOTSUPP, fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
	FAILS(EOPNOTSUPP, fallocate(fd, FALLOC_FL_INSERT_RANGE, 0, 4096));
	close(fd);
}

static void maps_are_the_file(void)
{
	int fd = posix_make("f", NULL, 0);
	char *m;

	OK(ftruncate(fd, MB) == 0);
	m = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	OK(m != MAP_FAILED);
	memcpy(m + 5000, "mapped", 6);
	put(fd, 100, 10, 1);
	OK(m[100] != 0);
	OK(msync(m, MB, MS_SYNC) == 0);
	munmap(m, MB);
	close(fd);
	fd = open("f", O_RDONLY);
	m = mmap(NULL, MB, PROT_READ, MAP_PRIVATE, fd, 0);
	OK(!memcmp(m + 5000, "mapped", 6));
	OK(m[MB - 1] == 0);
	munmap(m, MB);
	close(fd);
}

static void map_outlives_close_and_is_published(void)
{
	int fd = posix_make("f", NULL, 0);
	char *m, buf[6] = "";

	OK(ftruncate(fd, 8192) == 0);
	m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	memcpy(m, "after", 5);
	munmap(m, 8192);
	fd = open("f", O_RDONLY);
	EQ(5, pread(fd, buf, 5, 0));
	OK(!memcmp(buf, "after", 5));
	close(fd);
}

static void direct_io_of_any_shape(void)
{
	char *p = aligned_alloc(4096, 2 * MB);
	int fd = open("f", O_RDWR | O_CREAT | O_DIRECT, 0644);

	fill(p, 2 * MB, 7);
	EQ(2 * MB, pwrite(fd, p, 2 * MB, 0));
	EQ(47008, pwrite(fd, p, 47008, 2 * MB));
	OK(same(fd, 0, 2 * MB, 7));
	OK(same(fd, 2 * MB, 47008, 7));
	EQ(2 * MB + 47008, size_of(fd));
	EQ(8, pread(fd, p, 4096, 2 * MB + 47000));
	free(p);
	close(fd);
}

static void copies_share_and_then_differ(void)
{
	int a = posix_make("a", NULL, 0), b = posix_make("b", NULL, 0);
	off_t from = 0, to = 0;
	ssize_t n, total = 0;

	put(a, 0, 5 * MB + 123, 1);
	OK(fsync(a) == 0);
	while ((n = copy_file_range(a, &from, b, &to, 8 * MB, 0)) > 0)
		total += n;
	EQ(0, n);
	EQ(5 * MB + 123, total);
	OK(same(b, 0, 5 * MB + 123, 1));
	put(b, 1000, 100000, 2);
	OK(same(a, 0, 5 * MB + 123, 1));
	OK(same(b, 1000, 100000, 2));
	from = 17;
	to = 3 * MB + 1;
	EQ(MB, copy_file_range(a, &from, b, &to, MB, 0));
	OK(close(a) == 0 && unlink("a") == 0);
	OK(fsync(b) == 0);
	OK(same(b, 1000, 100000, 2));
	close(b);
}

static void unaligned_overwrites_in_any_order(void)
{
	enum { SIZE = 300000 };
	static char want[SIZE], got[SIZE];
	int fd = posix_make("f", NULL, 0);
	uint64_t x = 42;

	for (int i = 0; i < 400; i++) {
		size_t off, n;

		x = x * 6364136223846793005u + 1;
		off = (x >> 33) % (SIZE - 5000);
		n = (x >> 20) % 5000 + 1;
		memset(want + off, i, n);
		EQ(n, pwrite(fd, want + off, n, (off_t)off));
		if (i % 50 == 49)
			OK(fsync(fd) == 0);
	}
	EQ(size_of(fd), pread(fd, got, SIZE, 0));
	OK(!memcmp(want, got, (size_t)size_of(fd)));
	close(fd);
}

static void vectors_and_synchronous_writes(void)
{
	char a[] = "abc", b[] = "defg", buf[8] = "";
	struct iovec iov[2] = { { a, 3 }, { b, 4 } };
	int fd = open("f", O_RDWR | O_CREAT | O_SYNC, 0644);

	EQ(7, pwritev(fd, iov, 2, 3));
	EQ(7, pread(fd, buf, 7, 3));
	OK(!memcmp(buf, "abcdefg", 7));
	OK(fdatasync(fd) == 0);
	close(fd);
	fd = open(".", O_RDONLY);
	OK(fsync(fd) == 0);
	close(fd);
}

static void dup_closes_twice_and_loses_nothing(void)
{
	int fd = posix_make("f", "one", 3), other = dup(fd);

	OK(close(fd) == 0);
	EQ(3, write(other, "two", 3));
	OK(close(other) == 0);
	OK(posix_holds("f", "onetwo"));
}

static void locks_between_processes(void)
{
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10 };
	int fd = posix_make("f", "0123456789012345678901234567890", 30), status;

	OK(fcntl(fd, F_SETLK, &fl) == 0);
	if (fork() == 0) {
		int own = open("f", O_RDWR);

		FAILS(EAGAIN, fcntl(own, F_SETLK, &fl));
		fl.l_start = 20;
		OK(fcntl(own, F_SETLK, &fl) == 0);
		fl.l_start = 10;
		OK(fcntl(own, F_GETLK, &fl) == 0);
		EQ(F_WRLCK, fl.l_type);
		EQ(getppid(), fl.l_pid);
		fflush(stdout);
		_exit(posix_bad != 0);
	}
	wait(&status);
	EQ(0, status);
	OK(flock(fd, LOCK_EX) == 0);
	if (fork() == 0) {
		int own = open("f", O_RDWR);

		FAILS(EWOULDBLOCK, flock(own, LOCK_SH | LOCK_NB));
		fflush(stdout);
		_exit(posix_bad != 0);
	}
	wait(&status);
	EQ(0, status);
	close(fd);
}

static void large_offsets(void)
{
	int fd = posix_make("f", NULL, 0);
	off_t far = INT64_MAX - 4096;

	EQ(1, pwrite(fd, "x", 1, far));
	EQ(far + 1, lseek(fd, 0, SEEK_END));
	OK(zero(fd, 1LL << 50, 4096));
	OK(fsync(fd) == 0);
	EQ(far, lseek(fd, 1, SEEK_DATA));
	close(fd);
	OK(posix_stat("f").st_blocks <= 8);
}

static void reads_past_the_end_are_short(void)
{
	char buf[64];
	int fd = posix_make("f", "12345", 5);

	EQ(3, pread(fd, buf, 64, 2));
	EQ(0, pread(fd, buf, 64, 5));
	EQ(0, pread(fd, buf, 64, 1 << 30));
	EQ(0, pread(fd, buf, 0, 0));
	close(fd);
}

/* The page cache may not bring back what a punch, truncate or copy took away. */
static void cached_pages_follow_the_file(void)
{
	int fd = posix_make("f", NULL, 0), other = posix_make("g", NULL, 0);
	off_t from = 0, to = 8192;

	put(fd, 0, 65536, 1);
	OK(same(fd, 0, 65536, 1));
	OK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096) == 0);
	OK(zero(fd, 4096, 4096));
	put(other, 0, 4096, 9);
	EQ(4096, copy_file_range(other, &from, fd, &to, 4096, 0));
	OK(same(fd, 8192, 4096, 9));
	OK(ftruncate(fd, 20000) == 0 && ftruncate(fd, 65536) == 0);
	OK(zero(fd, 20000, 45536));
	close(fd);
	close(other);
}

static void statfs_is_believable(void)
{
	struct statvfs st;

	OK(statvfs(".", &st) == 0);
	OK(st.f_blocks > 0 && st.f_bfree > 0 && st.f_bfree <= st.f_blocks && st.f_bavail <= st.f_bfree);
	OK(st.f_blocks < (UINT64_C(1) << 60) / st.f_frsize);
	EQ(255, st.f_namemax);
	OK(st.f_files > 0 && st.f_ffree > 0 && st.f_ffree <= st.f_files);
}

static void on_alarm(int sig)
{
	(void)sig;
}

static void handled_signals_break_no_call(void)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct itimerval tick = { { 0, 2000 }, { 0, 2000 } }, off = { { 0, 0 }, { 0, 0 } };
	int fd = posix_make("f", NULL, 0);

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &tick, NULL);
	for (int i = 0; i < 100; i++) {
		put(fd, i * 65536, 65536, (uint64_t)i);
		if (i % 10 == 0)
			OK(fsync(fd) == 0);
	}
	OK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
	for (int i = 0; i < 100; i++)
		OK(same(fd, i * 65536, 65536, (uint64_t)i));
	OK(close(fd) == 0);
	setitimer(ITIMER_REAL, &off, NULL);
	alarm(POSIX_LIMIT);
	signal(SIGALRM, SIG_DFL);
}

/* The kernel holds the whole file open while we look at one path of it: nothing may go back in time. */
static _Atomic bool sizes_stop;
static void *sizes_grow(void *arg)
{
	int fd = open("f", O_WRONLY | O_APPEND);

	(void)arg;
	for (int i = 0; i < 300; i++) {
		if (write(fd, "0123456789", 10) != 10)
			break;
		if (i % 10 == 0) {
			close(fd);
			fd = open("f", O_WRONLY | O_APPEND);
		}
	}
	close(fd);
	sizes_stop = true;
	return NULL;
}

static void sizes_never_shrink_by_themselves(void)
{
	pthread_t t;
	off_t last = 0;

	posix_put("f", "");
	pthread_create(&t, NULL, sizes_grow, NULL);
	while (!sizes_stop) {
		struct stat st = posix_stat("f");

		OK(st.st_size >= last);
		last = st.st_size;
	}
	pthread_join(t, NULL);
	EQ(3000, posix_stat("f").st_size);
}

int main(int argc, char **argv)
{
#define C(fn) { #fn, fn }
	static const struct posix_check checks[] = {
		C(bytes_come_back_before_and_after_close), C(records_of_47008_bytes_from_two_processes),
		C(appends_of_many_processes_do_not_overlap), C(truncation_cuts_and_extends_with_zeros),
		C(sparse_files_say_where_data_is), C(fallocate_modes), C(maps_are_the_file),
		C(map_outlives_close_and_is_published), C(direct_io_of_any_shape),
		C(copies_share_and_then_differ), C(unaligned_overwrites_in_any_order),
		C(vectors_and_synchronous_writes), C(dup_closes_twice_and_loses_nothing),
		C(locks_between_processes), C(large_offsets), C(reads_past_the_end_are_short),
		C(cached_pages_follow_the_file), C(statfs_is_believable),
		C(handled_signals_break_no_call),
		C(sizes_never_shrink_by_themselves),
		{ NULL, NULL },
	};

	return posix_main(argc, argv, checks);
}
