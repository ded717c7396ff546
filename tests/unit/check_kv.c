/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of kv_ops, held by both engines and by one that is far away, against a sorted array. */
#include "meta/kv.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "unit.h"

#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[256];
static struct kv *kv;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

#define FAR 1000 /* ns */

/* 0: memory; 1: LMDB; 2: memory, a little away */
static struct kv *open_engine(int engine, uint64_t map)
{
	struct kv_conf c = {.dir = dir, .create = true, .map_size = map};
	struct kv *k, *far;

	CLEAN((engine == 1 ? kv_lmdb_open : kv_mem_open)(&k, &c, NULL));
	if (engine < 2)
		return k;
	CLEAN(kv_latency_open(&far, k, FAR));
	return far;
}

static void setup(void)
{
	const char *tmp = getenv("TESS_TMP");

	snprintf(dir, sizeof(dir), "%s/kv.XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
	(void)fault_set(NULL);
	(void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct kv_val str(const char *s)
{
	return kv_val(s, strlen(s));
}

static void expect(struct kv_val v, const char *s)
{
	ck_assert_msg(v.n == strlen(s) && memcmp(v.p, s, v.n) == 0, "\"%.*s\" is not \"%s\"",
		      (int)v.n, (const char *)v.p, s);
}

static int put_abc(struct kv_txn *t, void *arg)
{
	(void)arg;
	CLEAN(kv_put(t, KV_INODE, str("b"), str("2")));
	CLEAN(kv_put(t, KV_INODE, str("a"), str("1")));
	CLEAN(kv_put(t, KV_INODE, str("bb"), str("3")));
	return 0;
}

static int see_abc(struct kv_txn *t, void *arg)
{
	struct kv_val k, v;
	uint64_t n;

	(void)arg;
	CLEAN(kv_get(t, KV_INODE, str("a"), &v));
	expect(v, "1");
	ck_assert_int_eq(kv_get(t, KV_INODE, str("c"), &v), -ENOENT);
	ck_assert_int_eq(kv_get(t, KV_DENTRY, str("a"), &v), -ENOENT);
	k = str("aa");
	CLEAN(kv_seek(t, KV_INODE, 1, &k, &v));
	expect(k, "b");
	CLEAN(kv_step(t, KV_INODE, 1, &k, &v));
	expect(k, "bb");
	ck_assert_int_eq(kv_step(t, KV_INODE, 1, &k, &v), -ENOENT);
	k = str("ba");
	CLEAN(kv_seek(t, KV_INODE, -1, &k, &v));
	expect(k, "b");
	CLEAN(kv_step(t, KV_INODE, -1, &k, &v));
	expect(k, "a");
	ck_assert_int_eq(kv_step(t, KV_INODE, -1, &k, &v), -ENOENT);
	k = str("bb");
	CLEAN(kv_seek(t, KV_INODE, -1, &k, &v));
	expect(k, "bb");
	k = str("zz");
	CLEAN(kv_seek(t, KV_INODE, -1, &k, &v));
	expect(k, "bb");
	k = str("A");
	ck_assert_int_eq(kv_seek(t, KV_INODE, -1, &k, &v), -ENOENT);
	k = str("c");
	ck_assert_int_eq(kv_seek(t, KV_INODE, 1, &k, &v), -ENOENT);
	CLEAN(kv_count(t, KV_INODE, &n));
	ck_assert_uint_eq(n, 3);
	return 0;
}

START_TEST(keys_are_ordered_as_byte_strings)
{
	kv = open_engine(_i, 0);
	CLEAN(kv_run(kv, put_abc, NULL, NULL));
	CLEAN(kv_read(kv, see_abc, NULL));
	kv_close(kv);
}
END_TEST

static int put_and_fail(struct kv_txn *t, void *arg)
{
	CLEAN(kv_put(t, KV_INODE, str("a"), str("changed")));
	CLEAN(kv_del(t, KV_INODE, str("b")));
	ck_assert_int_eq(kv_del(t, KV_INODE, str("b")), -ENOENT);
	return *(int *)arg;
}

START_TEST(an_aborted_write_leaves_nothing)
{
	uint64_t s1, s2;
	int err = -EPERM;

	kv = open_engine(_i, 0);
	CLEAN(kv_run(kv, put_abc, NULL, &s1));
	ck_assert_int_eq(kv_run(kv, put_and_fail, &err, &s2), -EPERM);
	CLEAN(kv_read(kv, see_abc, NULL));
	ck_assert_uint_eq(kv_last(kv), s1);
	CLEAN(kv_run(kv, put_abc, NULL, &s2));
	ck_assert_uint_gt(s2, s1);
	kv_close(kv);
}
END_TEST

static int see_serial(struct kv_txn *t, void *arg)
{
	*(uint64_t *)arg = t->serial;
	return t->write ? kv_put(t, KV_SUPER, str("x"), str("y")) : 0;
}

START_TEST(a_write_knows_the_serial_of_its_commit)
{
	uint64_t in, out, seen;

	kv = open_engine(_i, 0);
	for (int i = 0; i < 3; i++) {
		CLEAN(kv_run(kv, see_serial, &in, &out));
		ck_assert_uint_eq(in, out);
		CLEAN(kv_read(kv, see_serial, &seen));
		ck_assert_uint_eq(seen, out);
		ck_assert_uint_eq(kv_last(kv), out);
	}
	CLEAN(kv_sync(kv));
	ck_assert_uint_eq(kv_durable(kv), out);
	kv_close(kv);
}
END_TEST

static int see_snapshot(struct kv_txn *t, void *arg)
{
	struct kv_val v;

	(void)arg;
	CLEAN(kv_get(t, KV_INODE, str("a"), &v));
	expect(v, "1");
	return 0;
}

static int change_a(struct kv_txn *t, void *arg)
{
	return kv_put(t, KV_INODE, str("a"), str(arg));
}

static void *change_thread(void *arg)
{
	CLEAN(kv_run(kv, change_a, arg, NULL));
	return NULL;
}

/* Another thread commits while the snapshot is open. */
static int see_twice(struct kv_txn *t, void *arg)
{
	static char other[] = "other";
	pthread_t th;

	CLEAN(see_snapshot(t, arg));
	ck_assert_int_eq(pthread_create(&th, NULL, change_thread, other), 0);
	pthread_join(th, NULL);
	return see_snapshot(t, arg);
}

static int see_other(struct kv_txn *t, void *arg)
{
	struct kv_val v;

	(void)arg;
	CLEAN(kv_get(t, KV_INODE, str("a"), &v));
	expect(v, "other");
	return 0;
}

START_TEST(a_read_sees_one_snapshot)
{
	kv = open_engine(_i, 0);
	CLEAN(kv_run(kv, put_abc, NULL, NULL));
	CLEAN(kv_read(kv, see_twice, kv));
	CLEAN(kv_read(kv, see_other, NULL));
	kv_close(kv);
}
END_TEST

/* ---- random operations against an array, stepping while writing ---- */

#define SPACE 400u

struct model {
	uint32_t val[SPACE]; /* 0: absent */
	uint64_t seed;
};

static uint32_t rnd(struct model *m, uint32_t n)
{
	m->seed = m->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(m->seed >> 33) % n;
}

static void key_of(uint32_t i, char ret[8])
{
	snprintf(ret, 8, "%04u", i);
}

static int near(const struct model *m, int at, int way)
{
	for (; at >= 0 && at < (int)SPACE; at += way)
		if (m->val[at])
			return at;
	return -1;
}

static void expect_at(const struct model *m, int at, int err, struct kv_val k, struct kv_val v)
{
	char key[8];

	if (at < 0) {
		ck_assert_int_eq(err, -ENOENT);
		return;
	}
	CLEAN(err);
	key_of((uint32_t)at, key);
	expect(k, key);
	ck_assert_uint_eq(v.n, m->val[at] % 97 + 4);
	ck_assert_int_eq(memcmp(v.p, &m->val[at], 4), 0);
}

static void model_write(struct model *m, struct kv_txn *t)
{
	uint32_t i = rnd(m, SPACE), x = 1 + rnd(m, 1 << 30);
	char key[8], val[128] = {0};

	key_of(i, key);
	if (rnd(m, 3)) {
		memcpy(val, &x, 4);
		CLEAN(kv_put(t, KV_EXTENT, str(key), kv_val(val, x % 97 + 4)));
		m->val[i] = x;
	} else {
		ck_assert_int_eq(kv_del(t, KV_EXTENT, str(key)), m->val[i] ? 0 : -ENOENT);
		m->val[i] = 0;
	}
}

static int model_run(struct kv_txn *t, void *arg)
{
	struct model *m = arg;
	struct kv_val k, v;
	char key[8];

	for (int round = 0; round < 200; round++) {
		int way = rnd(m, 2) ? 1 : -1, at = (int)rnd(m, SPACE), err;

		key_of((uint32_t)at, key);
		k = str(key);
		err = kv_seek(t, KV_EXTENT, way, &k, &v);
		at = near(m, at, way);
		expect_at(m, at, err, k, v);
		for (int step = 0; at >= 0 && step < 5; step++) {
			if (rnd(m, 2))
				model_write(m, t);
			way = rnd(m, 2) ? 1 : -1;
			err = kv_step(t, KV_EXTENT, way, &k, &v);
			int next = near(m, at + way, way);

			expect_at(m, next, err, k, v);
			if (next < 0)
				break;
			at = next;
		}
	}
	return 0;
}

START_TEST(cursors_stand_still_while_others_move)
{
	static struct model m;

	m.seed = 42;
	kv = open_engine(_i, 1 << 20);
	for (int i = 0; i < 50; i++)
		CLEAN(kv_run(kv, model_run, &m, NULL));
	kv_close(kv);
}
END_TEST

/* ---- full maps, faults, processes ---- */

static int put_much(struct kv_txn *t, void *arg)
{
	static char big[60000];
	uint32_t n = *(uint32_t *)arg;
	char key[8];

	for (uint32_t i = 0; i < 20; i++) {
		key_of(n * 20 + i, key);
		int err = kv_put(t, KV_CSUM, str(key), kv_val(big, sizeof(big)));

		if (err)
			return err;
	}
	return 0;
}

static int see_much(struct kv_txn *t, void *arg)
{
	uint64_t n;

	CLEAN(kv_count(t, KV_CSUM, &n));
	ck_assert_uint_eq(n, *(uint32_t *)arg * 20);
	return 0;
}

START_TEST(a_small_map_grows_by_itself)
{
	uint32_t n;

	kv = open_engine(_i, 1 << 20);
	for (n = 0; n < 10; n++)
		CLEAN(kv_run(kv, put_much, &n, NULL));
	CLEAN(kv_read(kv, see_much, &n));
	kv_close(kv);
}
END_TEST

static int put_careful(struct kv_txn *t, void *arg)
{
	int err = 0;
	struct kv_val k = str("a"), v;

	(void)arg;
	for (char c = 'a'; c < 'f' && !err; c++)
		err = kv_put(t, KV_INODE, kv_val(&c, 1), str("new"));
	if (!err)
		err = kv_seek(t, KV_INODE, 1, &k, &v);
	if (!err)
		err = kv_del(t, KV_INODE, str("c"));
	return err;
}

/* Each failure leaves the old state, and what comes after is not harmed. */
static void fail_each(const char *point)
{
	char spec[64];

	for (int n = 1; n < 40; n++) {
		snprintf(spec, sizeof(spec), "%s@%d=ENOMEM", point, n);
		CLEAN(fault_set(spec));
		int err = kv_run(kv, put_careful, NULL, NULL);

		CLEAN(fault_set(NULL));
		ck_assert(err == 0 || err == -ENOMEM);
		if (err == 0)
			break;
		CLEAN(kv_read(kv, see_abc, NULL));
	}
}

static const char *const points[] = {"alloc",  "kv.put",    "kv.seek",
				     "kv.del", "kv.commit", "env.commit"};

START_TEST(any_failure_aborts_whole)
{
	kv = open_engine(_i % 3, 0);
	CLEAN(kv_run(kv, put_abc, NULL, NULL));
	fail_each(points[_i / 3]);
	kv_close(kv);
}
END_TEST

static int bump(struct kv_txn *t, void *arg)
{
	struct kv_val v;
	uint64_t n = 0;
	int err = kv_get(t, KV_SUPER, str("n"), &v);

	(void)arg;
	if (!err)
		memcpy(&n, v.p, 8);
	n++;
	return kv_put(t, KV_SUPER, str("n"), kv_val(&n, 8));
}

static int see_n(struct kv_txn *t, void *arg)
{
	struct kv_val v;

	CLEAN(kv_get(t, KV_SUPER, str("n"), &v));
	memcpy(arg, v.p, 8);
	return 0;
}

static void bump_child(unsigned times)
{
	struct kv *k = open_engine(1, 1 << 20);

	for (unsigned i = 0; i < times; i++)
		if (kv_run(k, bump, NULL, NULL))
			_exit(1);
	kv_close(k);
	_exit(0);
}

START_TEST(processes_share_one_database)
{
	pid_t pid[3];
	uint64_t n;
	int st;

	for (int i = 0; i < 3; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			bump_child(500);
	}
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(waitpid(pid[i], &st, 0), pid[i]);
		ck_assert_int_eq(st, 0);
	}
	kv = open_engine(1, 0);
	CLEAN(kv_read(kv, see_n, &n));
	ck_assert_uint_eq(n, 1500);
	kv_close(kv);
}
END_TEST

static void *bump_thread(void *arg)
{
	(void)arg;
	for (int i = 0; i < 300; i++)
		CLEAN(kv_run(kv, bump, NULL, NULL));
	return NULL;
}

START_TEST(threads_share_one_database)
{
	pthread_t th[4];
	uint64_t n;

	kv = open_engine(_i, 1 << 20);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&th[i], NULL, bump_thread, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	CLEAN(kv_read(kv, see_n, &n));
	ck_assert_uint_eq(n, 1200);
	kv_close(kv);
}
END_TEST

/* Children are made before this process has threads, and wait to be told. */
START_TEST(killed_writers_block_nobody)
{
	uint64_t before = 0, n;
	pid_t pid[10];
	int go[10][2];
	char c;

	for (int i = 0; i < 10; i++) {
		ck_assert_int_eq(pipe(go[i]), 0);
		pid[i] = fork();
		if (pid[i] == 0 && read(go[i][0], &c, 1) == 1)
			bump_child(1000000);
	}
	kv = open_engine(1, 1 << 20);
	CLEAN(kv_run(kv, bump, NULL, NULL));
	for (int i = 0; i < 10; i++) {
		ck_assert_int_eq(write(go[i][1], "x", 1), 1);
		usleep(20000 + (unsigned)i * 3000);
		kill(pid[i], SIGKILL);
		ck_assert_int_eq(waitpid(pid[i], NULL, 0), pid[i]);
		CLEAN(kv_reap(kv));
		CLEAN(kv_run(kv, bump, NULL, NULL));
		CLEAN(kv_sync(kv));
		CLEAN(kv_read(kv, see_n, &n));
		ck_assert_uint_gt(n, before);
		before = n;
	}
	kv_close(kv);
}
END_TEST

START_TEST(distance_is_waited_for_once_a_transaction)
{
	const int64_t away = 2 * NS_PER_MS;
	struct kv *on = open_engine(0, 0);
	int64_t began;

	CLEAN(kv_latency_open(&kv, on, away));
	began = clock_now();
	CLEAN(kv_run(kv, put_abc, NULL, NULL));
	ck_assert_int_ge(clock_now() - began, away);
	began = clock_now();
	for (int i = 0; i < 5; i++)
		CLEAN(kv_read(kv, see_abc, NULL));
	ck_assert_int_ge(clock_now() - began, 5 * away);
	ck_assert_uint_eq(atomic_load(&kv->count[0].n), 5);
	ck_assert_uint_eq(atomic_load(&kv->count[1].n), 1);
	kv_close(kv);
}
END_TEST

START_TEST(a_directory_without_a_database_is_refused_and_left_alone)
{
	struct kv_conf c = {.dir = dir};
	struct text why = TEXT_INIT;

	ck_assert_int_eq(kv_lmdb_open(&kv, &c, &why), -TESS_E_FORMAT_MAGIC);
	ck_assert_ptr_nonnull(strstr(text_str(&why), dir));
	ck_assert_int_eq(rmdir(dir), 0);
	text_done(&why);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("kv");
	TCase *c = tcase_create("engines");

	suite_add_tcase(s, c);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, keys_are_ordered_as_byte_strings, 0, 3);
	tcase_add_loop_test(c, an_aborted_write_leaves_nothing, 0, 3);
	tcase_add_loop_test(c, a_write_knows_the_serial_of_its_commit, 0, 3);
	tcase_add_loop_test(c, a_read_sees_one_snapshot, 0, 3);
	tcase_add_loop_test(c, cursors_stand_still_while_others_move, 0, 3);
	tcase_add_loop_test(c, a_small_map_grows_by_itself, 0, 3);
	tcase_add_loop_test(c, any_failure_aborts_whole, 0, 18);
	tcase_add_loop_test(c, threads_share_one_database, 0, 3);
	tcase_add_test(c, distance_is_waited_for_once_a_transaction);
	tcase_add_test(c, processes_share_one_database);
	tcase_add_test(c, killed_writers_block_nobody);
	tcase_add_test(c, a_directory_without_a_database_is_refused_and_left_alone);
	return unit_run(s);
}
