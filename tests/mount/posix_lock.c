/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks. POSIX_OTHER, when set, is the same directory by way of another mount: one side of each check
 * then goes through it. LOCK_COUNT: how often each process counts.
 */
#include "posix.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>

static char other_path[4096];

/* The path of a file of this check as the other mount has it. */
static const char *other(const char *name)
{
	const char *o = getenv("POSIX_OTHER");

	if (!o)
		return name;
	snprintf(other_path, sizeof(other_path), "%s/%s/%s", o, posix_name, name);
	return other_path;
}

static int range(int fd, int cmd, int type, off_t start, off_t len)
{
	struct flock f = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};

	return fcntl(fd, cmd, &f);
}

/* Could another process, through the other mount, have it? */
static bool could(const char *name, int type, off_t start, off_t len)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int fd = open(other(name), O_RDWR), r = range(fd, F_SETLK, type, start, len);

		_exit(r == 0 ? 0 : errno == EAGAIN ? 1 : 2);
	}
	waitpid(pid, &status, 0);
	OK(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int make(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT, 0644);

	OK(fd >= 0);
	return fd;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void nap(int ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		continue;
}

/* A child that does fn() and then stays until it is let go: its end of the pipe says when it has. */
struct peer {
	pid_t pid;
	int said, go;
};

static struct peer peer_start(void (*fn)(void))
{
	int a[2], b[2];
	char c;
	struct peer p;

	OK(pipe(a) == 0 && pipe(b) == 0);
	fflush(stdout);
	p.pid = fork();
	if (p.pid == 0) {
		close(a[0]);
		close(b[1]);
		fn();
		fflush(stdout);
		OK(write(a[1], "", 1) == 1);
		_exit(read(b[0], &c, 1) < 0 || posix_bad);
	}
	close(a[1]);
	close(b[0]);
	p.said = a[0];
	p.go = b[1];
	return p;
}

static void peer_wait(const struct peer *p)
{
	char c;

	EQ(1, read(p->said, &c, 1));
}

static bool peer_silent(const struct peer *p, int ms)
{
	struct timeval t = {ms / 1000, ms % 1000 * 1000};
	fd_set set;

	FD_ZERO(&set);
	FD_SET(p->said, &set);
	return select(p->said + 1, &set, NULL, NULL, &t) == 0;
}

static void peer_end(struct peer *p)
{
	int status = -1;

	OK(write(p->go, "", 1) == 1);
	close(p->go);
	close(p->said);
	OK(waitpid(p->pid, &status, 0) == p->pid && status == 0);
}

static void peer_kill(struct peer *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->go);
	close(p->said);
}

/* ---- ranges ---- */

static void ranges_exclude_each_other(void)
{
	int fd = make("f");

	OK(range(fd, F_SETLK, F_WRLCK, 10, 10) == 0);
	OK(!could("f", F_WRLCK, 19, 1));
	OK(!could("f", F_RDLCK, 0, 0));
	OK(could("f", F_WRLCK, 0, 10));
	OK(could("f", F_WRLCK, 20, 0));
	OK(range(fd, F_SETLK, F_RDLCK, 10, 10) == 0);
	OK(could("f", F_RDLCK, 0, 0));
	OK(!could("f", F_WRLCK, 15, 1));
	OK(range(fd, F_SETLK, F_UNLCK, 10, 10) == 0);
	OK(could("f", F_WRLCK, 0, 0));
	close(fd);
}

static void ranges_split_join_and_change(void)
{
	int fd = make("f");

	OK(range(fd, F_SETLK, F_WRLCK, 0, 100) == 0);
	OK(range(fd, F_SETLK, F_UNLCK, 40, 10) == 0);
	OK(could("f", F_WRLCK, 40, 10));
	OK(!could("f", F_RDLCK, 39, 1) && !could("f", F_RDLCK, 50, 1));
	OK(range(fd, F_SETLK, F_RDLCK, 0, 60) == 0);
	OK(could("f", F_RDLCK, 0, 60) && !could("f", F_RDLCK, 60, 1) && !could("f", F_WRLCK, 45, 1));
	OK(range(fd, F_SETLK, F_WRLCK, 0, 0) == 0);
	OK(!could("f", F_RDLCK, 1 << 30, 1));
	OK(range(fd, F_SETLK, F_UNLCK, 0, 0) == 0);
	OK(could("f", F_WRLCK, 0, 0));
	close(fd);
}

static void ranges_at_the_ends(void)
{
	struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = -50};
	int fd = make("f");

	OK(fcntl(fd, F_SETLK, &f) == 0);
	OK(could("f", F_WRLCK, 0, 50) && could("f", F_WRLCK, 100, 0) && !could("f", F_WRLCK, 99, 1));
	OK(range(fd, F_SETLK, F_UNLCK, 0, 0) == 0);
	EQ(5, write(fd, "12345", 5));
	f = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -1, .l_len = 1};
	OK(fcntl(fd, F_SETLK, &f) == 0);
	OK(!could("f", F_WRLCK, 4, 1) && could("f", F_WRLCK, 5, 0) && could("f", F_WRLCK, 0, 4));
	OK(range(fd, F_SETLK, F_WRLCK, INT64_MAX, 1) == 0);
	OK(!could("f", F_WRLCK, INT64_MAX, 0) && could("f", F_WRLCK, INT64_MAX - 1, 1));
	close(fd);
}

static void hold_some(void)
{
	int fd = open(other("f"), O_RDWR);

	OK(range(fd, F_SETLK, F_RDLCK, 20, 10) == 0);
	OK(range(fd, F_SETLK, F_WRLCK, 50, 0) == 0);
}

static void getlk_tells_who_is_in_the_way(void)
{
	struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 40};
	int fd = make("f");
	struct peer p = peer_start(hold_some);

	peer_wait(&p);
	OK(fcntl(fd, F_GETLK, &f) == 0);
	OK(f.l_type == F_RDLCK && f.l_start == 20 && f.l_len == 10 && f.l_whence == SEEK_SET);
	EQ(p.pid, f.l_pid);
	f = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 40};
	OK(fcntl(fd, F_GETLK, &f) == 0 && f.l_type == F_UNLCK);
	f = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 45};
	OK(fcntl(fd, F_GETLK, &f) == 0 && f.l_type == F_WRLCK && f.l_start == 50 && f.l_len == 0);
	peer_end(&p);
	OK(range(fd, F_SETLK, F_WRLCK, 0, 0) == 0);
	close(fd);
}

static void any_close_gives_ranges_back(void)
{
	int a = make("f"), b = open("f", O_RDONLY), c = dup(b);

	OK(range(a, F_SETLK, F_WRLCK, 0, 0) == 0);
	close(c);
	OK(could("f", F_WRLCK, 0, 0));
	OK(range(b, F_SETLK, F_RDLCK, 0, 10) == 0);
	OK(!could("f", F_WRLCK, 0, 10));
	close(a);
	OK(could("f", F_WRLCK, 0, 10));
	OK(range(b, F_SETLK, F_RDLCK, 0, 10) == 0);
	/* A child's closes are not ours. */
	OK(!could("f", F_WRLCK, 0, 10));
	OK(!could("f", F_WRLCK, 0, 10));
	close(b);
}

static void hold_all(void)
{
	int fd = open(other("f"), O_RDWR);

	OK(range(fd, F_SETLK, F_WRLCK, 0, 0) == 0);
	OK(flock(open(other("f"), O_RDWR), LOCK_EX) == 0);
}

static void the_killed_hold_nothing(void)
{
	int fd = make("f");
	struct peer p = peer_start(hold_all);

	peer_wait(&p);
	FAILS(EAGAIN, range(fd, F_SETLK, F_RDLCK, 5, 1));
	FAILS(EAGAIN, flock(fd, LOCK_SH | LOCK_NB));
	peer_kill(&p);
	OK(range(fd, F_SETLKW, F_WRLCK, 0, 0) == 0);
	OK(flock(fd, LOCK_EX) == 0);
	close(fd);
}

/* ---- open file descriptions ---- */

static void descriptions_own_their_ranges(void)
{
	int a = make("f"), b = open(other("f"), O_RDWR), c = dup(a), d = open("f", O_RDWR);

	OK(range(a, F_OFD_SETLK, F_WRLCK, 0, 10) == 0);
	FAILS(EAGAIN, range(b, F_OFD_SETLK, F_RDLCK, 9, 1));
	FAILS(EAGAIN, range(d, F_OFD_SETLK, F_RDLCK, 9, 1));
	FAILS(EAGAIN, range(b, F_SETLK, F_RDLCK, 9, 1));
	OK(range(c, F_OFD_SETLK, F_WRLCK, 0, 20) == 0);
	/* Closing others of the process, or one of two duplicates, changes nothing. */
	close(d);
	close(a);
	FAILS(EAGAIN, range(b, F_OFD_SETLK, F_RDLCK, 15, 1));
	close(c);
	OK(range(b, F_OFD_SETLKW, F_WRLCK, 0, 0) == 0);
	close(b);
	/* The daemon hears of the last close of a description a little later. */
	for (int i = 0; i < 200 && !could("f", F_WRLCK, 0, 0); i++)
		nap(10);
	OK(could("f", F_WRLCK, 0, 0));
}

/* ---- flock ---- */

static void flock_is_of_the_description(void)
{
	int a = make("f"), b = open(other("f"), O_RDONLY), c = dup(a), status;
	pid_t pid;

	OK(flock(a, LOCK_SH) == 0 && flock(b, LOCK_SH | LOCK_NB) == 0);
	FAILS(EAGAIN, flock(c, LOCK_EX | LOCK_NB));
	/* What could not be converted is lost, on Linux. */
	OK(flock(b, LOCK_EX | LOCK_NB) == 0);
	FAILS(EAGAIN, flock(a, LOCK_SH | LOCK_NB));
	OK(flock(b, LOCK_UN) == 0 && flock(a, LOCK_EX | LOCK_NB) == 0);
	/* Ranges are another thing. */
	OK(could("f", F_WRLCK, 0, 0));
	close(a);
	nap(20);
	FAILS(EAGAIN, flock(b, LOCK_SH | LOCK_NB));
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(flock(c, LOCK_UN) != 0);
	OK(waitpid(pid, &status, 0) == pid && status == 0);
	OK(flock(b, LOCK_EX | LOCK_NB) == 0);
	close(b);
	OK(flock(c, LOCK_EX) == 0);
	close(c);
}

/* ---- waiting ---- */

static double *shared_time;

static void wait_for_range(void)
{
	OK(range(open(other("f"), O_RDWR), F_SETLKW, F_WRLCK, 0, 0) == 0);
	if (shared_time)
		*shared_time = now();
}
static void wait_for_flock(void)
{
	OK(flock(open(other("f"), O_RDWR), LOCK_EX) == 0);
	if (shared_time)
		*shared_time = now();
}

static void who_waits_is_woken(void)
{
	int fd = make("f");
	double worst[2] = {0};

	shared_time = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 10; i++) {
		struct peer p;
		double t;

		OK(i & 1 ? flock(fd, LOCK_EX) == 0 : range(fd, F_SETLKW, F_WRLCK, 0, 0) == 0);
		p = peer_start(i & 1 ? wait_for_flock : wait_for_range);
		OK(peer_silent(&p, i < 8 ? 30 : 1000));
		t = now();
		OK(i & 1 ? flock(fd, LOCK_UN) == 0 : range(fd, F_SETLK, F_UNLCK, 0, 0) == 0);
		peer_wait(&p);
		worst[i >= 8] = worst[i >= 8] > *shared_time - t ? worst[i >= 8] : *shared_time - t;
		peer_end(&p);
	}
	if (getenv("LOCK_TELL"))
		printf("woken within %.1f ms after 30 ms, %.1f ms after 1 s\n", worst[0] * 1e3,
		       worst[1] * 1e3);
	OK(worst[0] < 5 && worst[1] < 5);
	close(fd);
}

static volatile sig_atomic_t rang;
static void on_alarm(int sig)
{
	(void)sig;
	rang++;
}

/* Under a sanitizer handlers run late. */
static void rung(int n)
{
	for (int i = 0; i < 100 && rang < n; i++)
		nap(10);
	EQ(n, rang);
}

static void interrupted_wait(void)
{
	struct sigaction a = {.sa_handler = on_alarm};
	int fd = open(other("f"), O_RDWR);

	sigaction(SIGALRM, &a, NULL);
	alarm(1);
	FAILS(EINTR, range(fd, F_SETLKW, F_WRLCK, 0, 0));
	rung(1);
	alarm(1);
	FAILS(EINTR, flock(fd, LOCK_EX));
	rung(2);
}

static void signals_end_a_wait(void)
{
	int fd = make("f");
	struct peer p, q;

	OK(range(fd, F_SETLK, F_WRLCK, 0, 0) == 0 && flock(fd, LOCK_EX) == 0);
	p = peer_start(interrupted_wait);
	q = peer_start(wait_for_range);
	peer_wait(&p);
	peer_end(&p);
	/* One that was killed waits no more, and is not given what comes free. */
	OK(peer_silent(&q, 50));
	peer_kill(&q);
	OK(range(fd, F_SETLK, F_UNLCK, 0, 0) == 0);
	for (int i = 0; i < 3; i++) {
		OK(could("f", F_WRLCK, 0, 0));
		nap(20);
	}
	close(fd);
}

static void lock_two_wait_one(void)
{
	int fd = open(other("f"), O_RDWR);

	OK(range(fd, F_SETLK, F_WRLCK, 1, 1) == 0);
	nap(100);
	OK(range(fd, F_SETLKW, F_WRLCK, 0, 1) == 0);
	OK(range(fd, F_SETLKW, F_UNLCK, 0, 2) == 0);
}

static void circles_are_refused(void)
{
	int fd = make("f");
	struct peer p;

	OK(range(fd, F_SETLK, F_WRLCK, 0, 1) == 0);
	p = peer_start(lock_two_wait_one);
	nap(400);
	FAILS(EDEADLK, range(fd, F_SETLKW, F_WRLCK, 1, 1));
	OK(range(fd, F_SETLK, F_UNLCK, 0, 1) == 0);
	peer_wait(&p);
	OK(range(fd, F_SETLKW, F_WRLCK, 0, 2) == 0);
	peer_end(&p);
	close(fd);
}

static void read_again_and_again(void)
{
	int fd = open(other("f"), O_RDWR);

	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			/* Never a moment without one of the four. */
			for (double t = now(); now() - t < 10 && *shared_time == 0;) {
				OK(range(fd, F_SETLKW, F_RDLCK, 0, 0) == 0);
				nap(20);
				OK(range(fd, F_SETLKW, F_UNLCK, 0, 0) == 0);
			}
			_exit(0);
		}
}

static void readers_do_not_starve_a_writer(void)
{
	int fd = make("f");
	struct peer p;
	double t;

	if (!getenv("POSIX_OTHER"))
		return;
	shared_time = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	p = peer_start(read_again_and_again);
	peer_wait(&p);
	nap(100);
	t = now();
	for (int i = 0; i < 5; i++) {
		OK(range(fd, F_SETLKW, F_WRLCK, 0, 0) == 0);
		OK(range(fd, F_SETLKW, F_UNLCK, 0, 0) == 0);
	}
	OK(now() - t < 5);
	if (getenv("LOCK_TELL"))
		printf("a writer among four readers: %.1f ms each\n", (now() - t) * 200);
	*shared_time = 1;
	nap(200);
	peer_end(&p);
	close(fd);
}

/* ---- what a lock says of the bytes ---- */

static void count_up(const char *path, long n, int how)
{
	int fd = open(path, O_RDWR);
	char buf[32];

	for (long i = 0; i < n; i++) {
		long v;

		OK(how == 2   ? flock(fd, LOCK_EX) == 0
		   : how == 1 ? range(fd, F_OFD_SETLKW, F_WRLCK, 0, 0) == 0
			      : range(fd, F_SETLKW, F_WRLCK, 0, 0) == 0);
		memset(buf, 0, sizeof(buf));
		OK(pread(fd, buf, sizeof(buf) - 1, 0) >= 0);
		v = strtol(buf, NULL, 10);
		snprintf(buf, sizeof(buf), "%ld\n", v + 1);
		OK(pwrite(fd, buf, strlen(buf), 0) == (ssize_t)strlen(buf));
		OK(how == 2   ? flock(fd, LOCK_UN) == 0
		   : how == 1 ? range(fd, F_OFD_SETLKW, F_UNLCK, 0, 0) == 0
			      : range(fd, F_SETLKW, F_UNLCK, 0, 0) == 0);
	}
	close(fd);
}

static void counted(int how)
{
	const char *more = getenv("LOCK_COUNT");
	long n = more ? atol(more) : 100, got = 0;
	pid_t pids[8];
	double t = now();
	char buf[32] = "";
	int fd = make("f"), status;

	fflush(stdout);
	for (int i = 0; i < 8; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			alarm(600);
			count_up(i & 1 ? other("f") : "f", n, how);
			fflush(stdout);
			_exit(posix_bad != 0);
		}
	}
	for (int i = 0; i < 8; i++)
		OK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
	close(fd);
	fd = open("f", O_RDONLY);
	OK(read(fd, buf, sizeof(buf) - 1) > 0);
	got = strtol(buf, NULL, 10);
	EQ(8 * n, got);
	if (getenv("LOCK_TELL"))
		printf("8 processes counted to %ld in %.1f s\n", got, now() - t);
	close(fd);
}
static void counts_under_ranges(void)
{
	counted(0);
}
static void counts_under_description_ranges(void)
{
	counted(1);
}
static void counts_under_flock(void)
{
	counted(2);
}

/* Pages that both have cached, and handles that stay open. */
static void pages_are_new_under_a_lock(void)
{
	static char buf[65536];
	int a = make("f"), b = -1;

	for (int i = 0; i < 8; i++) {
		int w = i & 1;

		memset(buf, 'a' + i, sizeof(buf));
		if (!i) {
			EQ(sizeof(buf), write(a, buf, sizeof(buf)));
			OK(fsync(a) == 0);
			b = open(other("f"), O_RDWR);
		}
		int from = w ? b : a, to = w ? a : b;

		OK(flock(from, LOCK_EX) == 0);
		EQ(sizeof(buf), pwrite(from, buf, sizeof(buf), 0));
		OK(ftruncate(from, 65536 - i * 100) == 0);
		OK(flock(from, LOCK_UN) == 0);
		OK(flock(to, LOCK_SH) == 0);
		EQ(65536 - i * 100, lseek(to, 0, SEEK_END));
		EQ(65536 - i * 100, pread(to, buf, sizeof(buf), 0));
		OK(buf[0] == 'a' + i && buf[40000] == 'a' + i);
		OK(flock(to, LOCK_UN) == 0);
	}
	close(a);
	close(b);
}

int main(int argc, char **argv)
{
#define C(fn) { #fn, fn }
	static const struct posix_check checks[] = {
		C(ranges_exclude_each_other), C(ranges_split_join_and_change), C(ranges_at_the_ends),
		C(getlk_tells_who_is_in_the_way), C(any_close_gives_ranges_back),
		C(the_killed_hold_nothing), C(descriptions_own_their_ranges),
		C(flock_is_of_the_description), C(who_waits_is_woken), C(signals_end_a_wait),
		C(circles_are_refused), C(readers_do_not_starve_a_writer), C(counts_under_ranges),
		C(counts_under_description_ranges), C(counts_under_flock),
		C(pages_are_new_under_a_lock),
		{ NULL, NULL },
	};

	return posix_main(argc, argv, checks);
}
