/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/* What the kv store promises beyond the contract: after kills and power cuts, shared, failing. */
#include "store/store.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/list.h"
#include "base/text.h"
#include "storetest.h"
#include "unit.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct storetest t;
static char name_buf[32];

static const char *name_of(const char *prefix, unsigned i)
{
	(void)snprintf(name_buf, sizeof(name_buf), "%s%u", prefix, i);
	return name_buf;
}

/* Some inline, some of one block, some large and ragged. */
static size_t size_of(unsigned i)
{
	static const size_t sizes[] = { 100, 5000, 4096, 70001, 0, 300000, 8192 };

	return sizes[i % ARRAY_SIZE(sizes)];
}

static void begin(const char *uri)
{
	storetest_init(&t, uri);
	storetest_open(&t, true, NULL);
}

static void end(void)
{
	ck_assert_int_eq(storetest_defects(&t), 0);
	storetest_done(&t);
}

/* A child with the target open for itself. It dies by SIGKILL or with 0, or the test fails. */
static pid_t child(void (*fn)(int fd), int *ret_fd)
{
	int fds[2];
	pid_t pid;

	ck_assert_int_eq(pipe(fds), 0);
	(void)fflush(NULL);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		(void)close(fds[0]);
		if (storetest_try(&t, false, NULL, NULL) < 0)
			_exit(3);
		fn(fds[1]);
		storetest_close(&t);
		_exit(0);
	}
	(void)close(fds[1]);
	*ret_fd = fds[0];
	return pid;
}

static void reap(pid_t pid, bool killed)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (killed)
		ck_assert_int_eq(WIFSIGNALED(status) ? WTERMSIG(status) : 0, SIGKILL);
	else
		ck_assert_int_eq(status, 0);
}

static void must(bool ok)
{
	if (!ok)
		_exit(4);
}

static void put_40_and_die(int fd)
{
	(void)fd;
	for (unsigned i = 0; i < 40; i++)
		must(storetest_put(&t, name_of("k", i), size_of(i)) == 0);
	must(store_del(t.s, &t.req, "k3") == 0);
	(void)kill(getpid(), SIGKILL);
}

START_TEST(test_a_killed_process_loses_nothing_that_was_done)
{
	struct store_usage u;
	uint64_t sum = 0;
	int fd;

	begin("kv:@/dev?size=64M");
	storetest_close(&t);
	reap(child(put_40_and_die, &fd), true);
	storetest_open(&t, false, NULL);
	for (unsigned i = 0; i < 40; i++) {
		ck_assert_int_eq(storetest_verify(&t, name_of("k", i), size_of(i)),
				 i == 3 ? -ENOENT : 0);
		if (i != 3 && size_of(i) > 4096)
			sum += (size_of(i) + 4095) / 4096 * 4096;
	}
	/* What it had reserved is free again: all of it can be had. */
	CLEAN(store_usage(t.s, &u));
	ck_assert_uint_eq(u.total - u.free, sum);
	CLEAN(storetest_put(&t, "rest", u.free));
	end();
}
END_TEST

struct event {
	unsigned i;
	char     what;	/* '+' put i is done, 'b' and a barrier after it, '-' deletion of i begins */
};

static void tell(int fd, unsigned i, char what)
{
	struct event e = {i, what};

	must(write(fd, &e, sizeof(e)) == sizeof(e));
}

/* Puts, syncs and deletes for ever. */
static void churn(int fd)
{
	for (unsigned i = 0;; i++) {
		must(storetest_put(&t, name_of("c", i), size_of(i)) == 0);
		tell(fd, i, '+');
		if (i % 5 == 4) {
			must(store_barrier(t.s, &t.req) == 0);
			tell(fd, i, 'b');
		}
		if (i >= 20) {
			tell(fd, i - 20, '-');
			must(store_del(t.s, &t.req, name_of("c", i - 20)) == 0);
		}
	}
}

/* [*ret_first, *ret_next) must be there. */
static void churn_killed(unsigned ms, char mark, unsigned *ret_first, unsigned *ret_next)
{
	struct event e;
	int fd;
	pid_t pid = child(churn, &fd);

	clock_sleep(ms * NS_PER_MS);
	(void)kill(pid, SIGKILL);
	reap(pid, true);
	*ret_first = *ret_next = 0;
	while (read(fd, &e, sizeof(e)) == sizeof(e)) {
		if (e.what == mark)
			*ret_next = e.i + 1;
		else if (e.what == '-')
			*ret_first = e.i + 1;
	}
	(void)close(fd);
}

START_TEST(test_killed_anywhere_it_opens_with_all_that_was_done)
{
	unsigned first, next;

	begin("kv:@/dev?size=32M");
	storetest_close(&t);
	churn_killed(20 + (unsigned)_i * 37, '+', &first, &next);
	storetest_open(&t, false, NULL);
	for (unsigned i = first; i < next; i++)
		CLEAN(storetest_verify(&t, name_of("c", i), size_of(i)));
	end();
}
END_TEST

START_TEST(test_power_cut_anywhere_it_opens_with_all_of_before_the_barrier)
{
	unsigned first, next;

	/* Small, so that what is deleted is soon wanted again. */
	begin("kv:@/dev?size=16M");
	storetest_close(&t);
	churn_killed(20 + (unsigned)_i * 37, 'b', &first, &next);
	storetest_open(&t, false, "another-boot");
	for (unsigned i = 0; i < next + 100; i++) {
		int r = storetest_verify(&t, name_of("c", i), size_of(i));

		ck_assert(r == 0 || (r == -ENOENT && (i < first || i >= next)));
	}
	end();
}
END_TEST

static void barrier_then_mess(int fd)
{
	(void)fd;
	for (unsigned i = 0; i < 60; i++)
		must(storetest_put(&t, name_of("p", i), size_of(i)) == 0);
	must(store_del(t.s, &t.req, "p0") == 0);
	must(store_barrier(t.s, &t.req) == 0);
	/* Freed after the barrier: nobody may write there before the next one. */
	for (unsigned i = 1; i < 40; i++)
		must(store_del(t.s, &t.req, name_of("p", i)) == 0);
	for (unsigned i = 0; i < 200; i++)
		must(storetest_put(&t, name_of("q", i), 60000) == 0);
	(void)kill(getpid(), SIGKILL);
}

/* Another boot id is what a power cut looks like: the index goes back to its checkpoint. */
START_TEST(test_a_power_cut_loses_nothing_of_before_the_barrier)
{
	int fd;

	begin("kv:@/dev?size=64M");
	storetest_close(&t);
	reap(child(barrier_then_mess, &fd), true);
	storetest_open(&t, false, "another-boot");
	ck_assert_int_eq(storetest_verify(&t, "p0", size_of(0)), -ENOENT);
	for (unsigned i = 1; i < 60; i++)
		CLEAN(storetest_verify(&t, name_of("p", i), size_of(i)));
	for (unsigned i = 0; i < 200; i++) {
		int r = storetest_verify(&t, name_of("q", i), 60000);

		ck_assert(r == 0 || r == -ENOENT);
	}
	ck_assert_int_eq(storetest_defects(&t), 0);
	CLEAN(storetest_put(&t, "after", 30 << 20));
	CLEAN(storetest_verify(&t, "after", 30 << 20));
	end();
}
END_TEST

static void fill_without_barrier(int fd)
{
	unsigned i = 0;

	(void)fd;
	for (; i < 12; i++)
		must(storetest_put(&t, name_of("p", i), 1 << 20) == 0);
	must(store_barrier(t.s, &t.req) == 0);
	for (i = 0; i < 12; i += 2)
		must(store_del(t.s, &t.req, name_of("p", i)) == 0);
	/* More than was free: some of it can only be had by making the deletions durable. */
	for (i = 0; i < 8; i++)
		must(storetest_put(&t, name_of("q", i), 1 << 20) == 0);
	(void)kill(getpid(), SIGKILL);
}

START_TEST(test_space_is_reused_only_after_the_deletion_is_durable)
{
	int fd;

	begin("kv:@/dev?size=16M");
	storetest_close(&t);
	reap(child(fill_without_barrier, &fd), true);
	storetest_open(&t, false, "another-boot");
	for (unsigned i = 0; i < 12; i++) {
		int r = storetest_verify(&t, name_of("p", i), 1 << 20);

		ck_assert(r == 0 || (i % 2 == 0 && r == -ENOENT));
	}
	end();
}
END_TEST

static void put_100_as_child(int fd)
{
	(void)fd;
	for (unsigned i = 0; i < 100; i++) {
		must(storetest_put(&t, name_of("child", i), size_of(i)) == 0);
		must(storetest_put(&t, "both", 90000) == 0);
		must(storetest_verify(&t, name_of("child", i), size_of(i)) == 0);
		if (i % 10 == 0)
			must(store_barrier(t.s, &t.req) == 0);
	}
}

START_TEST(test_two_processes_share_a_target)
{
	pid_t pid;
	int fd;

	begin("kv:@/dev?size=64M");
	/* LMDB is opened after fork(): the parent opens its own. */
	storetest_close(&t);
	pid = child(put_100_as_child, &fd);
	storetest_open(&t, false, NULL);
	for (unsigned i = 0; i < 100; i++) {
		CLEAN(storetest_put(&t, name_of("parent", i), size_of(i)));
		CLEAN(storetest_put(&t, "both", 90000));
		CLEAN(storetest_verify(&t, name_of("parent", i), size_of(i)));
	}
	reap(pid, false);
	for (unsigned i = 0; i < 100; i++) {
		CLEAN(storetest_verify(&t, name_of("parent", i), size_of(i)));
		CLEAN(storetest_verify(&t, name_of("child", i), size_of(i)));
	}
	CLEAN(storetest_verify(&t, "both", 90000));
	end();
}
END_TEST

static void put_reserve_wait_put(int fd)
{
	unsigned zero = 0;

	must(storetest_put(&t, "first", 5000) == 0);
	must(write(fd, &zero, sizeof(zero)) == sizeof(zero));
	raise(SIGSTOP);
	for (unsigned i = 0; i < 20; i++)
		must(storetest_put(&t, name_of("child", i), 5000) == 0);
}

/* Full, it looks for what dead processes reserved; with as many files open as it may, it can ask of nobody. */
START_TEST(test_nobody_is_dead_who_cannot_be_looked_at)
{
	struct rlimit was, none;
	unsigned n = 0;
	pid_t pid;
	int fd;

	begin("kv:@/dev?size=16M");
	storetest_close(&t);
	pid = child(put_reserve_wait_put, &fd);
	ck_assert_int_eq(read(fd, &n, sizeof(n)), sizeof(n));
	storetest_open(&t, false, NULL);
	CLEAN(getrlimit(RLIMIT_NOFILE, &was));
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = was.rlim_max };
	CLEAN(setrlimit(RLIMIT_NOFILE, &none));
	while (n < 10000 && storetest_put(&t, name_of("f", n), 5000) == 0)
		n++;
	CLEAN(setrlimit(RLIMIT_NOFILE, &was));
	ck_assert(n > 100 && n < 10000);
	kill(pid, SIGCONT);
	reap(pid, false);
	CLEAN(storetest_verify(&t, "first", 5000));
	for (unsigned i = 0; i < n; i++)
		CLEAN(storetest_verify(&t, name_of("f", i), 5000));
	end();
}
END_TEST

/* Ten of 1 MiB in 16 MiB, the oldest deleted for the next: space goes round as fast as it can. */
static void recycle(int fd)
{
	for (unsigned i = 0; i < 150; i++) {
		if (i >= 10)
			must(store_del(t.s, &t.req, name_of("r", i - 10)) == 0);
		must(store_barrier(t.s, &t.req) == 0);
		must(storetest_put(&t, name_of("r", i), 1 << 20) == 0);
		must(write(fd, &i, sizeof(i)) == sizeof(i));
	}
}

START_TEST(test_a_get_never_sees_what_took_the_place_of_a_deleted_object)
{
	unsigned newest = 0, got = 0;
	pid_t pid;
	int fd;

	begin("kv:@/dev?size=16M");
	storetest_close(&t);
	pid = child(recycle, &fd);
	storetest_open(&t, false, NULL);
	while (read(fd, &newest, sizeof(newest)) == sizeof(newest)) {
		for (unsigned i = newest > 10 ? newest - 10 : 0; i <= newest; i++) {
			int r = storetest_verify(&t, name_of("r", i), 1 << 20);

			ck_assert(r == 0 || r == -ENOENT);
			got += r == 0;
		}
	}
	reap(pid, false);
	ck_assert_uint_gt(got, 0);
	end();
}
END_TEST

START_TEST(test_a_large_object_fits_into_scattered_space)
{
	unsigned n = 0;

	begin("kv:@/dev?size=16M");
	while (storetest_put(&t, name_of("s", n), 8192) == 0)
		n++;
	ck_assert_uint_gt(n, 1800);
	for (unsigned i = 0; i < n; i += 2)
		CLEAN(store_del(t.s, &t.req, name_of("s", i)));
	CLEAN(storetest_put(&t, "large", 3 << 20));
	CLEAN(storetest_verify(&t, "large", 3 << 20));
	ck_assert_int_eq(storetest_defects(&t), 0);
	CLEAN(store_del(t.s, &t.req, "large"));
	for (unsigned i = 1; i < n; i += 2)
		CLEAN(storetest_verify(&t, name_of("s", i), 8192));
	end();
}
END_TEST

START_TEST(test_an_index_that_cannot_be_written_is_full_and_not_asked_for_ever)
{
	char spec[1024] = "";
	unsigned n = 0;

	begin("kv:@/dev?size=16M");
	while (storetest_put(&t, name_of("s", n), 8192) == 0)
		n++;
	/* More deletions than one transaction makes free, so that there is a second. */
	ck_assert_uint_gt(n, 1800);
	for (unsigned i = 0; i < n; i++)
		CLEAN(store_del(t.s, &t.req, name_of("s", i)));
	CLEAN(store_barrier(t.s, &t.req));
	for (unsigned i = 2; i < 32; i++)
		(void)snprintf(spec + strlen(spec), sizeof(spec) - strlen(spec),
			       "%senv.commit@%u=ENOSPC", i > 2 ? "," : "", i);
	CLEAN(fault_set(spec));
	ck_assert_int_eq(storetest_put(&t, "large", 14 << 20), -TESS_E_STORE_FULL);
	ck_assert_uint_lt(fault_hits("env.commit"), 10);
	CLEAN(fault_set(NULL));
	CLEAN(storetest_put(&t, "large", 14 << 20));
	end();
}
END_TEST

/* ---- making and opening ---- */

static void refused(bool create, uint64_t fsid, const char *uri, int err, const char *says)
{
	struct store_open_opts o = { .create = create, .fsid = fsid };
	struct text why = TEXT_INIT;
	struct store *s = NULL;
	char *full = NULL;
	const char *at = strchr(uri, '@');

	ck_assert_int_ge(asprintf(&full, "%.*s%s%s", (int)(at - uri), uri, t.dir, at + 1), 0);
	ck_assert_int_eq(store_open_uri(&s, full, &o, &why), err);
	ck_assert_msg(strstr(text_str(&why), says) != NULL, "\"%s\" does not say \"%s\"",
		      text_str(&why), says);
	ck_assert_ptr_null(strchr(text_str(&why), '\n'));
	free(full);
	text_done(&why);
}

static void touch(const char *file, const char *content)
{
	char path[128];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", t.dir, file);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(content, f), 0);
	ck_assert_int_eq(fclose(f), 0);
}

START_TEST(test_what_cannot_be_a_target_is_refused_in_one_clear_line)
{
	char path[128];

	begin("kv:@/dev?size=16M");
	storetest_close(&t);
	touch("text", "my thesis, the only copy");
	refused(true, 7, "kv:@/dev?size=16M", -EEXIST,
		"already a target, of file system 0000000000000007");
	refused(true, 7, "kv:@/text?size=16M", -EEXIST, "exists and is not empty");
	refused(true, 7, "kv:@/new?size=1M", -TESS_E_URI, "at least 16M");
	refused(true, 7, "kv:@/new?size=9000G", -TESS_E_STORE_FULL, "cannot be had");
	refused(true, 7, "kv:@/no/such/dir?size=16M", -ENOENT, "no/such/dir");
	refused(true, 7, "kv:@/new?index=here", -TESS_E_URI, "absolute");
	refused(true, 7, "kv:@", -EISDIR, "");
	refused(false, 8, "kv:@/dev", -EINVAL, "another file system, 0000000000000007");
	refused(false, 7, "kv:@/text", -TESS_E_FORMAT_MAGIC, "not a kv target");
	refused(false, 7, "kv:@/nothing", -ENOENT, "nothing");
	(void)snprintf(path, sizeof(path), "%s/dev", t.dir);
	ck_assert_int_eq(truncate(path, 8 << 20), 0);
	refused(false, 7, "kv:@/dev", -EIO, "truncated");
	ck_assert_int_eq(truncate(path, 16 << 20), 0);
	(void)snprintf(path, sizeof(path), "%s/dev.index", t.dir);
	ck_assert_int_eq(rename(path, "/nonexistent/x"), -1);
	touch("new", "");
	storetest_open(&t, false, NULL);
	end();
}
END_TEST

START_TEST(test_a_device_and_an_index_that_do_not_belong_together_are_refused)
{
	char a[128], b[128], c[128];

	begin("kv:@/a?size=16M");
	storetest_close(&t);
	(void)snprintf(a, sizeof(a), "%s/a.index", t.dir);
	(void)snprintf(b, sizeof(b), "%s/b.index", t.dir);
	(void)snprintf(c, sizeof(c), "%s/c.index", t.dir);
	refused(false, 7, "kv:@/a?index=/nonexistent", -ENOENT, "is missing");
	ck_assert_int_eq(rename(a, b), 0);
	refused(false, 7, "kv:@/a", -ENOENT, "a.index is missing");
	refused(true, 7, "kv:@/b?size=16M", -EEXIST, "not an empty directory");
	{
		struct store_open_opts o = { .create = true, .fsid = 7 };
		struct store *s;
		char *uri = NULL;

		ck_assert_int_ge(asprintf(&uri, "kv:%s/c?size=16M", t.dir), 0);
		CLEAN(store_open_uri(&s, uri, &o, NULL));
		store_close(s);
		free(uri);
	}
	ck_assert_int_eq(rename(c, a), 0);
	refused(false, 7, "kv:@/a", -EINVAL, "of another device");
	storetest_done(&t);
}
END_TEST

START_TEST(test_a_reader_changes_nothing)
{
	struct store_open_opts o = { .readonly = true, .fsid = 7 };

	begin("kv:@/dev?size=16M");
	CLEAN(storetest_put(&t, "x", 50000));
	storetest_close(&t);
	CLEAN(store_open_uri(&t.s, t.uri, &o, NULL));
	CLEAN(storetest_verify(&t, "x", 50000));
	ck_assert_int_eq(storetest_put(&t, "y", 50000), -EROFS);
	ck_assert_int_eq(store_del(t.s, &t.req, "x"), -EROFS);
	CLEAN(store_barrier(t.s, &t.req));
	CLEAN(storetest_verify(&t, "x", 50000));
	end();
}
END_TEST

START_TEST(test_a_target_without_a_size_grows_and_promises_only_what_there_is)
{
	struct store_usage u;
	struct stat st;
	char path[128];

	begin("kv:@/dev");
	(void)snprintf(path, sizeof(path), "%s/dev", t.dir);
	CLEAN(storetest_put(&t, "x", 1 << 20));
	CLEAN(store_usage(t.s, &u));
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_lt((uint64_t)st.st_blocks * 512, (uint64_t)st.st_size);
	ck_assert_uint_le(u.free, u.total - (1 << 20));
	CLEAN(storetest_verify(&t, "x", 1 << 20));
	end();
}
END_TEST

/* ---- a host's file system that is full ---- */

/* What was freed goes first: a sparse file grows to what lives, not to all that was ever written. */
START_TEST(test_a_target_without_a_size_grows_to_what_lives)
{
	scoped_free char *file = NULL;
	struct stat st;

	begin("kv:@/t");
	for (unsigned round = 0; round < 40; round++) {
		for (unsigned i = 0; i < 4; i++)
			ck_assert_int_eq(storetest_put(&t, name_of("o", i), 4u << 20), 0);
		/* Stays, so that what is freed does not join what never was used. */
		ck_assert_int_eq(storetest_put(&t, name_of("k", round), 64u << 10), 0);
		ck_assert_int_eq(store_barrier(t.s, &t.req), 0);
		for (unsigned i = 0; i < 4; i++)
			ck_assert_int_eq(store_del(t.s, &t.req, name_of("o", i)), 0);
		ck_assert_int_eq(store_barrier(t.s, &t.req), 0);
	}
	file = mem_printf("%s/t", t.dir);
	ck_assert_int_eq(stat(file, &st), 0);
	/* 640 MiB were written, 16 lived at a time; chunks of 64 are reserved. */
	ck_assert_uint_lt((uint64_t)st.st_blocks * 512, UINT64_C(256) << 20);
	end();
}
END_TEST

static bool small_fs(const char *dir)
{
	return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("small", dir, "tmpfs", 0, "size=64M") == 0;
}

/* Without an index that can still write, nothing could ever be deleted again. */
START_TEST(test_a_full_host_file_system_does_not_stop_deletions)
{
	const size_t size = 1 << 20;
	struct store_usage u;
	unsigned n = 0;

	storetest_init(&t, "kv:@/dev");
	if (!small_fs(t.dir)) {
		printf("no mount namespace here: not tested\n");
		storetest_done(&t);
		return;
	}
	storetest_open(&t, true, NULL);
	for (unsigned round = 0; round < 3; round++) {
		for (n = 0; n < 64 && storetest_put(&t, name_of("h", n), size) == 0; n++)
			;
		ck_assert_uint_gt(n, 40);
		ck_assert_int_eq(storetest_put(&t, "one-more", size), -TESS_E_STORE_FULL);
		CLEAN(store_usage(t.s, &u));
		ck_assert_uint_lt(u.free, 4 * size);
		if (round == 0) {	/* somebody else takes what is left, to the last block */
			char cmd[128];

			(void)snprintf(cmd, sizeof(cmd),
				       "dd if=/dev/zero of=%s/fill bs=64k count=12 2>/dev/null", t.dir);
			(void)!system(cmd);
		}
		for (unsigned i = 0; i < n; i++) {
			CLEAN(storetest_verify(&t, name_of("h", i), size));
			CLEAN(store_del(t.s, &t.req, name_of("h", i)));
		}
		CLEAN(store_barrier(t.s, &t.req));
		CLEAN(store_usage(t.s, &u));
		ck_assert_uint_ge(u.free, n * size);
	}
	ck_assert_int_eq(storetest_defects(&t), 0);
	storetest_close(&t);
	ck_assert_int_eq(umount(t.dir), 0);
	storetest_done(&t);
}
END_TEST

/* ---- a block device ---- */

static bool loop_make(char *ret, size_t cap)
{
	char cmd[256];
	FILE *f;
	bool ok;

	(void)snprintf(cmd, sizeof(cmd),
		       "truncate -s 32M %s/disk && losetup --show -f %s/disk 2>/dev/null", t.dir,
		       t.dir);
	f = popen(cmd, "r");
	ok = f && fgets(ret, (int)cap, f) != NULL;
	if (f)
		(void)pclose(f);
	ret[strcspn(ret, "\n")] = 0;
	return ok && ret[0] == '/';
}

static void loop_drop(const char *loop)
{
	char cmd[128];

	(void)snprintf(cmd, sizeof(cmd), "losetup -d %s", loop);
	ck_assert_int_eq(system(cmd), 0);
}

START_TEST(test_a_block_device_is_a_target)
{
	char loop[64] = "";

	storetest_init(&t, "mem:");
	if (!loop_make(loop, sizeof(loop))) {
		printf("no loop device here: not tested\n");
		storetest_done(&t);
		return;
	}
	free(t.uri);
	ck_assert_int_ge(asprintf(&t.uri, "kv:%s?index=%s/index", loop, t.dir), 0);
	storetest_open(&t, true, NULL);
	for (unsigned i = 0; i < 30; i++)
		CLEAN(storetest_put(&t, name_of("b", i), size_of(i) * 3));
	storetest_close(&t);
	storetest_open(&t, false, NULL);
	for (unsigned i = 0; i < 30; i++)
		CLEAN(storetest_verify(&t, name_of("b", i), size_of(i) * 3));
	ck_assert_int_eq(storetest_defects(&t), 0);
	storetest_close(&t);
	/* It holds something now, and its index is a choice of the user's. */
	{
		char *why = NULL;

		ck_assert_int_eq(storetest_try(&t, true, NULL, &why), -EEXIST);
		ck_assert_ptr_nonnull(strstr(why, "already a target"));
		free(why);
		free(t.uri);
		ck_assert_int_ge(asprintf(&t.uri, "kv:%s", loop), 0);
		ck_assert_int_eq(storetest_try(&t, false, NULL, &why), -TESS_E_URI);
		ck_assert_ptr_nonnull(strstr(why, "index=DIR"));
		free(why);
	}
	loop_drop(loop);
	storetest_done(&t);
}
END_TEST

/* ---- every failure in turn ---- */

static const char *const points[] = {
	"alloc",      "store.kv.write", "store.kv.read", "store.kv.sync", "store.kv.allocate",
	"env.commit", "env.sync",	"env.meta",
};

struct outcome {
	int put[4], replace, del, barrier;
};

/* Everything once; what it returned. */
static void scenario(struct outcome *o)
{
	char *p = malloc(200000);

	o->put[0] = storetest_put(&t, "n0", 100);
	o->put[1] = storetest_put(&t, "n1", 200000);
	o->put[2] = storetest_put(&t, "n2", 3 << 20);
	o->put[3] = storetest_put(&t, "n3", 5000);
	o->replace = storetest_put(&t, "old", 200000);
	(void)store_get(t.s, &t.req, "old", 3, p, 100000);
	o->del = store_del(t.s, &t.req, "gone");
	o->barrier = store_barrier(t.s, &t.req);
	free(p);
}

static void scenario_check(const struct outcome *o)
{
	static const size_t sizes[] = { 100, 200000, 3 << 20, 5000 };

	for (unsigned i = 0; i < 4; i++) {
		int r = storetest_verify(&t, name_of("n", i), sizes[i]);

		/* A put that failed may be there or not; one that did not fail is. */
		ck_assert(r == 0 || (r == -ENOENT && o->put[i] < 0));
	}
	CLEAN(storetest_verify(&t, "old", 200000));
	ck_assert_int_eq(storetest_verify(&t, "gone", 60000), o->del < 0 ? 0 : -ENOENT);
	ck_assert_int_eq(storetest_defects(&t), 0);
}

START_TEST(test_each_failure_in_turn_leaves_the_store_consistent)
{
	const char *point = points[_i];
	bool hit = true;

	begin("kv:@/dev?size=16M&inline=1000");
	for (unsigned n = 1; hit && n < 300; n++) {
		struct outcome o = { { -1, -1, -1, -1 }, -1, -1, -1 };
		char spec[64], *why = NULL;

		CLEAN(storetest_put(&t, "old", 200000));
		CLEAN(storetest_put(&t, "gone", 60000));
		for (unsigned i = 0; i < 4; i++)
			CLEAN(store_del(t.s, &t.req, name_of("n", i)));
		storetest_close(&t);
		(void)snprintf(spec, sizeof(spec), "%s@%u=%s", point, n,
			       _i == 0 ? "ENOMEM" : "EIO");
		CLEAN(fault_set(spec));
		if (storetest_try(&t, false, NULL, &why) == 0)
			scenario(&o);
		free(why);
		hit = fault_hits(point) >= n;
		if (t.s && o.barrier == 0 && !hit)
			ck_assert(o.put[0] == 0 && o.put[1] == 0 && o.put[2] == 0 && o.del == 0);
		CLEAN(fault_set(NULL));
		if (t.s)
			scenario_check(&o);
		storetest_close(&t);
		storetest_open(&t, false, NULL);
		if (o.del != -1)
			scenario_check(&o);
	}
	ck_assert(!hit);
	end();
}
END_TEST

START_TEST(test_a_target_that_could_not_be_made_leaves_nothing_behind)
{
	static const char *const making[] = {
		"alloc",      "store.kv.sync", "store.kv.allocate", "store.kv.header",
		"env.commit", "env.sync",      "env.meta",
	};

	storetest_init(&t, "kv:@/dev?size=16M");
	for (unsigned i = 0; i < ARRAY_SIZE(making); i++) {
		for (unsigned n = 1; n < 200; n++) {
			char spec[64], *why = NULL;
			bool hit;
			int r;

			(void)snprintf(spec, sizeof(spec), "%s@%u=EIO", making[i], n);
			CLEAN(fault_set(spec));
			r = storetest_try(&t, true, NULL, &why);
			hit = fault_hits(making[i]) >= n;
			CLEAN(fault_set(NULL));
			free(why);
			storetest_close(&t);
			if (r == 0) {
				/* Not every failure costs more than a retry. */
				storetest_open(&t, false, NULL);
				ck_assert_int_eq(storetest_defects(&t), 0);
				storetest_close(&t);
				store_unmake_uri(t.uri, 7);
			}
			if (!hit)
				break;
		}
	}
	/* A bad decorator is found last. */
	refused(true, 7, "kv:@/dev?size=16M&limit=0", -TESS_E_URI, "limit");
	storetest_open(&t, true, NULL);
	end();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_a_killed_process_loses_nothing_that_was_done,
		test_a_power_cut_loses_nothing_of_before_the_barrier,
		test_space_is_reused_only_after_the_deletion_is_durable,
		test_two_processes_share_a_target,
		test_nobody_is_dead_who_cannot_be_looked_at,
		test_a_get_never_sees_what_took_the_place_of_a_deleted_object,
		test_a_large_object_fits_into_scattered_space,
		test_an_index_that_cannot_be_written_is_full_and_not_asked_for_ever,
		test_what_cannot_be_a_target_is_refused_in_one_clear_line,
		test_a_device_and_an_index_that_do_not_belong_together_are_refused,
		test_a_reader_changes_nothing,
		test_a_target_without_a_size_grows_and_promises_only_what_there_is,
		test_a_target_without_a_size_grows_to_what_lives,
		test_a_full_host_file_system_does_not_stop_deletions,
		test_a_block_device_is_a_target,
		test_a_target_that_could_not_be_made_leaves_nothing_behind,
	};
	Suite *s = suite_create("kv store");
	TCase *c = tcase_create("kv"), *k = tcase_create("killed"), *f = tcase_create("failures");

	suite_add_tcase(s, c);
	suite_add_tcase(s, k);
	suite_add_tcase(s, f);
	tcase_set_timeout(c, 120);
	tcase_set_timeout(k, 60);
	tcase_set_timeout(f, 300);
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
		tcase_add_test(c, tests[i]);
	tcase_add_loop_test(k, test_killed_anywhere_it_opens_with_all_that_was_done, 0, 10);
	tcase_add_loop_test(k, test_power_cut_anywhere_it_opens_with_all_of_before_the_barrier, 0,
			    10);
	tcase_add_loop_test(f, test_each_failure_in_turn_leaves_the_store_consistent, 0,
			    (int)ARRAY_SIZE(points));
	return unit_run(s);
}
