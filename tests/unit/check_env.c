/* SPDX-License-Identifier: Apache-2.0 */
/* A power cut is played by a child that dies and a parent that opens as another boot of the host.
 */
#include "base/env.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "unit.h"

#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOOT_A "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
#define BOOT_B "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"

static char dir[256];
static const char *const dbs[] = {"one", "two", NULL};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void setup(void)
{
	const char *tmp = getenv("TESS_TMP");

	snprintf(dir, sizeof(dir), "%s/env.XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
	(void)fault_set(NULL);
	(void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct env_conf conf(const char *boot)
{
	return (struct env_conf){.dir = dir, .dbs = dbs, .boot_id = boot, .map_size = 1 << 20};
}

static struct env *open_as(const char *boot)
{
	struct env_conf c = conf(boot);
	struct text why = TEXT_INIT;
	struct env *e;
	int err = env_open(&e, &c, &why);

	ck_assert_msg(err == 0, "%s: %s", err_name(err), text_str(&why));
	text_done(&why);
	return e;
}

struct put {
	struct env *e;
	unsigned from, n;
	uint32_t value;
};

/* Values are big, so that a few hundred keys are many pages. */
static int put_run(void *arg, MDB_txn *txn)
{
	const struct put *p = arg;
	uint32_t buf[128];

	for (unsigned i = 0; i < 128; i++)
		buf[i] = p->value;
	for (unsigned i = p->from; i < p->from + p->n; i++) {
		uint32_t be = __builtin_bswap32(i);
		MDB_val k = {sizeof(be), &be}, v = {sizeof(buf), buf};
		int rc = mdb_put(txn, env_db(p->e, i & 1), &k, &v, 0);

		if (rc)
			return env_error(rc);
	}
	return 0;
}

static int try_put(struct env *e, unsigned from, unsigned n, uint32_t value)
{
	struct put p = {e, from, n, value};

	return env_write(e, put_run, &p, NULL);
}

static void put(struct env *e, unsigned from, unsigned n, uint32_t value)
{
	CLEAN(try_put(e, from, n, value));
}

/* 0: the key is not there. A value that is not one value throughout is torn. */
static uint32_t get(struct env *e, unsigned i)
{
	uint32_t be = __builtin_bswap32(i), value = 0, word;
	MDB_val k = {sizeof(be), &be}, v;
	MDB_txn *txn;
	int rc;

	CLEAN(env_begin_read(e, &txn));
	rc = mdb_get(txn, env_db(e, i & 1), &k, &v);
	if (!rc) {
		ck_assert_uint_eq(v.mv_size, 512);
		memcpy(&value, v.mv_data, 4);
		for (unsigned at = 0; at < 512; at += 4) {
			memcpy(&word, (char *)v.mv_data + at, 4);
			ck_assert_uint_eq(word, value);
		}
	}
	env_end_read(e, txn);
	ck_assert(rc == 0 || rc == MDB_NOTFOUND);
	return value;
}

static void all_are(struct env *e, unsigned n, uint32_t value)
{
	for (unsigned i = 0; i < n; i++)
		ck_assert_uint_eq(get(e, i), value);
}

/*
 * A child that waits to be told, runs fn and dies without closing anything. It is made before this
 * process opens an environment, which has a thread.
 */
struct child {
	pid_t pid;
	int go;
};

static struct child spawn(void (*fn)(void))
{
	int fd[2];
	char c;

	ck_assert_int_eq(pipe(fd), 0);
	struct child ch = {fork(), fd[1]};

	ck_assert_int_ge(ch.pid, 0);
	if (ch.pid == 0) {
		close(fd[1]);
		if (read(fd[0], &c, 1) == 1)
			fn();
		raise(SIGKILL);
	}
	close(fd[0]);
	return ch;
}

static void run(struct child ch)
{
	int st;

	ck_assert_int_eq(write(ch.go, "x", 1), 1);
	close(ch.go);
	ck_assert_int_eq(waitpid(ch.pid, &st, 0), ch.pid);
	ck_assert_msg(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL, "child failed: %#x",
		      (unsigned)st);
}

static void die_after(void (*fn)(void))
{
	run(spawn(fn));
}

/* Of one process or two: fewer commits than make the environment take a checkpoint by itself (256). */
#define LOST_ROUNDS 12u
#define LOST_LAST   (LOST_ROUNDS + 1)

static void overwrite_after_checkpoint(void)
{
	struct env *e = open_as(BOOT_A);

	put(e, 0, 500, 1);
	CLEAN(env_checkpoint(e));
	for (unsigned round = 0; round < LOST_ROUNDS; round++)
		for (unsigned i = 0; i < 500; i += 50)
			put(e, i, 50, 2 + round);
}

START_TEST(a_commit_survives_the_death_of_its_process)
{
	die_after(overwrite_after_checkpoint);
	struct env *e = open_as(BOOT_A);

	all_are(e, 500, LOST_LAST);
	CLEAN(env_close(e));
}
END_TEST

START_TEST(a_power_cut_leaves_the_checkpoint_whole)
{
	die_after(overwrite_after_checkpoint);
	struct env *e = open_as(BOOT_B);

	all_are(e, 500, 1);
	put(e, 0, 500, 7);
	all_are(e, 500, 7);
	CLEAN(env_close(e));
}
END_TEST

static void overwrite_after_kill(void)
{
	struct env *e = open_as(BOOT_A);

	/* Opened after a kill: what was committed then is the checkpoint now. */
	all_are(e, 500, LOST_LAST);
	for (unsigned round = 0; round < LOST_ROUNDS * 10; round++)
		put(e, (round * 10) % 500, 10, 1000);
}

START_TEST(a_checkpoint_is_taken_before_the_first_commit_after_a_kill)
{
	die_after(overwrite_after_checkpoint);
	die_after(overwrite_after_kill);
	struct env *e = open_as(BOOT_B);

	all_are(e, 500, LOST_LAST);
	CLEAN(env_close(e));
}
END_TEST

START_TEST(a_clean_close_is_not_restored)
{
	struct env *e = open_as(BOOT_A);

	put(e, 0, 10, 5);
	CLEAN(env_close(e));
	e = open_as(BOOT_B);
	all_are(e, 10, 5);
	CLEAN(env_close(e));
}
END_TEST

START_TEST(a_torn_slot_leaves_the_checkpoint_before_it)
{
	struct child child = spawn(overwrite_after_checkpoint);
	struct env *e = open_as(BOOT_A);
	char path[300], junk[64] = "junk";

	put(e, 0, 10, 1);
	CLEAN(env_checkpoint(e));
	uint64_t before = env_durable(e);

	run(child);
	snprintf(path, sizeof(path), "%s/synced", dir);
	int fd = open(path, O_RDWR);
	uint64_t serial[2];

	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(pread(fd, &serial[i], 8, i * 4096 + 16), 8);
	ck_assert_int_eq(pwrite(fd, junk, sizeof(junk), serial[1] > serial[0] ? 4096 + 40 : 40),
			 64);
	close(fd);
	ck_assert_uint_ge(env_durable(e), before);
	CLEAN(env_close(e)); /* writes a good one over the bad */
	e = open_as(BOOT_B);
	all_are(e, 500, LOST_LAST);
	CLEAN(env_close(e));
}
END_TEST

static void hold_reader(void)
{
	struct env *e = open_as(BOOT_A);
	MDB_txn *txn;

	put(e, 0, 500, 3);
	CLEAN(env_begin_read(e, &txn));
}

START_TEST(the_readers_of_a_killed_process_are_reaped)
{
	struct child child = spawn(hold_reader);
	struct env *e = open_as(BOOT_A);
	int reaped = 0;

	run(child);
	CLEAN(env_reap_readers(e, &reaped));
	ck_assert_int_ge(reaped, 1);
	CLEAN(env_reap_readers(e, &reaped));
	ck_assert_int_eq(reaped, 0);
	all_are(e, 500, 3);
	CLEAN(env_close(e));
}
END_TEST

/* The other process checkpoints and dies; what it pinned is freed; we go on, and the power goes. */
static void survive_another(void)
{
	struct child child = spawn(overwrite_after_checkpoint);
	struct env *e = open_as(BOOT_A);

	run(child);
	CLEAN(env_reap_readers(e, NULL));
	for (unsigned round = 0; round < LOST_ROUNDS * 10; round++)
		put(e, (round * 10) % 500, 10, 2000);
}

START_TEST(the_death_of_another_frees_no_page_of_its_checkpoint)
{
	die_after(survive_another);
	struct env *e = open_as(BOOT_B);

	all_are(e, 500, 1);
	CLEAN(env_close(e));
}
END_TEST

struct worker {
	struct env *e;
	unsigned first;
};

static void *grow_worker(void *arg)
{
	const struct worker *w = arg;

	for (unsigned i = 0; i < 300; i++) {
		put(w->e, w->first + i * 4, 4, w->first + 1);
		ck_assert_uint_eq(get(w->e, w->first + i * 4), w->first + 1);
	}
	return NULL;
}

START_TEST(the_map_grows_under_threads)
{
	struct env *e = open_as(BOOT_A);
	struct worker w[4];
	pthread_t th[4];

	for (unsigned i = 0; i < 4; i++) {
		w[i] = (struct worker){e, i * 100000};
		ck_assert_int_eq(pthread_create(&th[i], NULL, grow_worker, &w[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	ck_assert_uint_gt(env_bytes(e), 2 << 20);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < 1200; k++)
			ck_assert_uint_eq(get(e, i * 100000 + k), i * 100000 + 1);
	CLEAN(env_close(e));
}
END_TEST

static void grow_there(void)
{
	struct env *e = open_as(BOOT_A);

	for (unsigned i = 0; i < 40; i++)
		put(e, i * 100, 100, 9);
}

START_TEST(a_map_that_grew_elsewhere_is_followed)
{
	struct child child = spawn(grow_there);
	struct env *e = open_as(BOOT_A);

	put(e, 0, 10, 1);
	run(child);
	all_are(e, 4000, 9);
	put(e, 0, 10, 2);
	all_are(e, 10, 2);
	CLEAN(env_close(e));
}
END_TEST

static atomic_int syncs;

static int slow_sync(void *arg, uint64_t txnid)
{
	(void)arg;
	(void)txnid;
	atomic_fetch_add(&syncs, 1);
	clock_sleep(100 * NS_PER_MS);
	return 0;
}

static void *ckpt_worker(void *arg)
{
	const struct worker *w = arg;

	put(w->e, w->first, 1, 1);
	return (void *)(intptr_t)env_checkpoint(w->e);
}

START_TEST(checkpoints_asked_for_at_once_are_one)
{
	struct env_conf c = conf(BOOT_A);
	struct worker w[8];
	pthread_t th[8];
	struct env *e;
	void *err;

	c.before_sync = slow_sync;
	CLEAN(env_open(&e, &c, NULL));
	int before = atomic_load(&syncs);

	for (unsigned i = 0; i < 8; i++) {
		w[i] = (struct worker){e, i};
		ck_assert_int_eq(pthread_create(&th[i], NULL, ckpt_worker, &w[i]), 0);
	}
	for (unsigned i = 0; i < 8; i++) {
		pthread_join(th[i], &err);
		ck_assert_ptr_null(err);
	}
	ck_assert_int_lt(atomic_load(&syncs) - before, 8);
	ck_assert_uint_eq(env_durable(e), env_last(e));
	CLEAN(env_close(e));
}
END_TEST

START_TEST(a_checkpoint_with_nothing_new_costs_nothing)
{
	struct env_conf c = conf(BOOT_A);
	struct env *e;

	c.before_sync = slow_sync;
	CLEAN(env_open(&e, &c, NULL));
	put(e, 0, 1, 1);
	CLEAN(env_checkpoint(e));
	int before = atomic_load(&syncs);

	CLEAN(env_checkpoint(e));
	ck_assert_int_eq(atomic_load(&syncs), before);
	CLEAN(env_close(e));
}
END_TEST

static const char *const faults[] = {"env.sync@1=EIO", "env.meta@1=EIO"};

START_TEST(a_failed_checkpoint_is_told_and_tried_again)
{
	struct env *e = open_as(BOOT_A);

	put(e, 0, 100, 1);
	CLEAN(fault_set(faults[_i]));
	ck_assert_int_eq(env_checkpoint(e), -EIO);
	ck_assert_uint_lt(env_durable(e), env_last(e));
	CLEAN(env_checkpoint(e));
	ck_assert_uint_eq(env_durable(e), env_last(e));
	CLEAN(env_close(e));
}
END_TEST

START_TEST(a_failed_commit_changes_nothing)
{
	struct env *e = open_as(BOOT_A);

	put(e, 0, 10, 1);
	CLEAN(fault_set("env.commit@1=EIO"));
	ck_assert_int_eq(try_put(e, 0, 10, 2), -EIO);
	all_are(e, 10, 1);
	put(e, 0, 10, 3);
	CLEAN(env_close(e));
}
END_TEST

START_TEST(two_boots_at_once_are_two_hosts)
{
	struct env_conf c = conf(BOOT_B);
	struct env *a = open_as(BOOT_A), *b;
	struct text why = TEXT_INIT;
	pid_t pid = fork();
	int st;

	if (pid == 0)
		_exit(env_open(&b, &c, &why) == -TESS_E_OTHER_HOST &&
				      strstr(text_str(&why), "another host")
			      ? 0
			      : 1);
	ck_assert_int_eq(waitpid(pid, &st, 0), pid);
	ck_assert_int_eq(st, 0);
	CLEAN(env_close(a));
	CLEAN(env_close(open_as(BOOT_B))); /* its record is stale now, and in nobody's way */
}
END_TEST

static void stop_in_a_transaction(void)
{
	struct env *e = open_as(BOOT_A);
	uint64_t maps;
	MDB_txn *txn;

	CLEAN(env_begin_write(e, &txn, &maps));
	raise(SIGSTOP);
	CLEAN(env_commit(e, txn, NULL));
	for (uint32_t i = 0;; i++)
		put(e, 10, 1, i);
}

static void await_stop(pid_t pid)
{
	int st;

	ck_assert_int_eq(waitpid(pid, &st, WUNTRACED), pid);
	ck_assert_msg(WIFSTOPPED(st), "child: %#x", (unsigned)st);
}

START_TEST(one_that_is_stopped_in_the_middle_holds_nobody_up)
{
	struct child ch = spawn(stop_in_a_transaction);
	struct env *e;
	uint32_t seen;
	int st;

	ck_assert_int_eq(write(ch.go, "x", 1), 1);
	await_stop(ch.pid);
	e = open_as(BOOT_A);
	put(e, 0, 1, 7);
	/* It went on, and was stopped again when it was in no transaction. */
	await_stop(ch.pid);
	seen = get(e, 10);
	for (uint32_t i = 0; i < 100; i++)
		put(e, 0, 1, i);
	ck_assert_uint_eq(get(e, 10), seen);
	close(ch.go);
	kill(ch.pid, SIGKILL);
	ck_assert_int_eq(waitpid(ch.pid, &st, 0), ch.pid);
	CLEAN(env_close(e));
}
END_TEST

/* Its slot in the table of readers stays behind, as of a killed process whose number is another's by now. */
static void become_another_program(void)
{
	struct env *e = open_as(BOOT_A);

	get(e, 0);
	(void)execl("/bin/sh", "sh", "-c", "kill -STOP $$", (char *)NULL);
	_exit(1);
}

static void take_long(void)
{
	struct env *e = open_as(BOOT_A);
	uint64_t maps;
	MDB_txn *txn;

	raise(SIGSTOP);
	CLEAN(env_begin_write(e, &txn, &maps));
	clock_sleep(3 * NS_PER_S);
	CLEAN(env_commit(e, txn, NULL));
	CLEAN(env_close(e));
	_exit(0);
}

START_TEST(one_that_has_it_not_open_stays_stopped)
{
	struct child slow, other;
	struct env *e;
	int st;

	CLEAN(env_close(open_as(BOOT_A)));
	slow = spawn(take_long);
	other = spawn(become_another_program);
	/* In this order: who opens it tidies the table. */
	ck_assert_int_eq(write(slow.go, "x", 1), 1);
	await_stop(slow.pid);
	ck_assert_int_eq(write(other.go, "x", 1), 1);
	await_stop(other.pid);
	kill(slow.pid, SIGCONT);
	clock_sleep(200 * NS_PER_MS);
	e = open_as(BOOT_A);
	ck_assert_int_eq(waitpid(other.pid, &st, WNOHANG | WUNTRACED | WCONTINUED), 0);
	ck_assert_int_eq(waitpid(slow.pid, &st, 0), slow.pid);
	ck_assert_int_eq(st, 0);
	kill(other.pid, SIGKILL);
	ck_assert_int_eq(waitpid(other.pid, &st, 0), other.pid);
	close(other.go);
	close(slow.go);
	CLEAN(env_close(e));
}
END_TEST

START_TEST(another_pid_namespace_is_refused)
{
	struct env_conf c = conf(BOOT_A);
	struct env *a = open_as(BOOT_A), *b;
	struct text why = TEXT_INIT;
	pid_t pid = fork();
	int st;

	if (pid == 0) {
		if (unshare(CLONE_NEWPID) < 0)
			_exit(77);
		pid = fork();
		if (pid == 0) /* /proc is still the outer one: what it says of "self" is enough */
			_exit(env_open(&b, &c, &why) == -TESS_E_OTHER_PIDNS ? 0 : 1);
		waitpid(pid, &st, 0);
		_exit(WEXITSTATUS(st));
	}
	ck_assert_int_eq(waitpid(pid, &st, 0), pid);
	ck_assert(WIFEXITED(st) && (WEXITSTATUS(st) == 0 || WEXITSTATUS(st) == 77));
	CLEAN(env_close(a));
}
END_TEST

START_TEST(a_look_changes_nothing)
{
	struct env_conf c = conf(BOOT_A);
	struct env *e, *w;
	char path[300];

	c.readonly = true;
	ck_assert_int_eq(env_open(&e, &c, NULL), -ENOENT);
	snprintf(path, sizeof(path), "%s/users", dir);
	ck_assert_int_ne(access(path, F_OK), 0);
	w = open_as(BOOT_A);
	put(w, 0, 10, 1);
	CLEAN(env_close(w));
	CLEAN(env_open(&e, &c, NULL));
	all_are(e, 10, 1);
	ck_assert_int_eq(try_put(e, 0, 1, 2), -EROFS);
	CLEAN(env_checkpoint(e));
	CLEAN(env_close(e));
}
END_TEST

START_TEST(a_file_is_no_directory)
{
	char path[300];
	struct env_conf c = conf(BOOT_A);
	struct text why = TEXT_INIT;
	struct env *e;

	snprintf(path, sizeof(path), "%s/file", dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	c.dir = path;
	ck_assert_int_eq(env_open(&e, &c, &why), -ENOTDIR);
	ck_assert_ptr_nonnull(strstr(text_str(&why), "not a directory"));
	ck_assert_ptr_null(strchr(text_str(&why), '\n'));
	text_done(&why);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
	struct env_conf c = conf(BOOT_A);
	char spec[64];
	struct env *e;

	snprintf(spec, sizeof(spec), "alloc@%d=ENOMEM", _i + 1);
	CLEAN(fault_set(spec));
	if (env_open(&e, &c, NULL) == 0)
		CLEAN(env_close(e));
	CLEAN(fault_set(NULL));
	CLEAN(env_close(open_as(BOOT_A)));
}
END_TEST

int main(void)
{
	static const TTest *const *const plain[] = {
		&a_commit_survives_the_death_of_its_process,
		&a_power_cut_leaves_the_checkpoint_whole,
		&a_checkpoint_is_taken_before_the_first_commit_after_a_kill,
		&a_clean_close_is_not_restored,
		&a_torn_slot_leaves_the_checkpoint_before_it,
		&the_readers_of_a_killed_process_are_reaped,
		&the_death_of_another_frees_no_page_of_its_checkpoint,
		&the_map_grows_under_threads,
		&a_map_that_grew_elsewhere_is_followed,
		&checkpoints_asked_for_at_once_are_one,
		&a_checkpoint_with_nothing_new_costs_nothing,
		&a_failed_commit_changes_nothing,
		&two_boots_at_once_are_two_hosts,
		&another_pid_namespace_is_refused,
		&one_that_is_stopped_in_the_middle_holds_nobody_up,
		&one_that_has_it_not_open_stays_stopped,
		&a_look_changes_nothing,
		&a_file_is_no_directory,
	};
	Suite *s = suite_create("env");
	TCase *c = tcase_create("env");

	suite_add_tcase(s, c);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		tcase_add_test(c, *plain[i]);
	tcase_add_loop_test(c, a_failed_checkpoint_is_told_and_tried_again, 0, 2);
	tcase_add_loop_test(c, every_allocation_may_fail, 0, 12);
	return unit_run(s);
}
