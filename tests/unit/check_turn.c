/* SPDX-License-Identifier: Apache-2.0 */
/* layer: meta */
/* The numbers of turns, and the words they come from. */
#include "../lib/metatest.h"
#include "base/fault.h"
#include "base/text.h"
#include "meta/meta_impl.h"
#include "unit.h"
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURNS_PER_COMMIT (UINT64_C(1) << 24)

static uint64_t file;

/* Of a page, all of it one region. */
static uint64_t turn(struct meta *m)
{
	return meta_turn(m, file, (struct tess_range){4096, 4096});
}

static void start(int engine, unsigned sessions)
{
	mt_open(engine);
	for (unsigned s = 1; s < sessions; s++)
		mt_join(s);
	file = mt_make(TESS_ROOT_INO, "f", S_IFREG | 0644);
}

START_TEST(a_turn_is_kept_while_nobody_else_writes)
{
	uint64_t a, b, c;

	start(_i, 2);
	a = turn(mt_s[0]);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_uint_eq(turn(mt_s[0]), a);
	b = turn(mt_s[1]);
	ck_assert_uint_gt(b, a);
	ck_assert_uint_eq(turn(mt_s[1]), b);
	c = turn(mt_s[0]);
	ck_assert_uint_gt(c, b);
	ck_assert_uint_gt(turn(mt_s[1]), c);
	mt_close();
}
END_TEST

#define REGION (UINT64_C(256) << 10)

static uint64_t turn_at(unsigned s, uint64_t off, uint64_t len)
{
	return meta_turn(mt_s[s], file, (struct tess_range){off, len});
}

/* Streams of two mounts in halves of their own, and a write over the border. */
START_TEST(regions_have_turns_of_their_own)
{
	uint64_t a, b, c;

	start(_i, 2);
	a = turn_at(0, 0, 4096);
	b = turn_at(1, 8 * REGION, 4096);
	for (uint64_t at = 4096; at < 4 * REGION; at += 50000) {
		ck_assert_uint_eq(turn_at(0, at, 50000), a);
		ck_assert_uint_eq(turn_at(1, 8 * REGION + at, 50000), b);
	}
	ck_assert(meta_turn_stands(mt_s[1], file, (struct tess_range){0, 4 * REGION}, a));
	/* One turn for all of a write, above the other's and again its own everywhere. */
	c = turn_at(0, 3 * REGION, 6 * REGION);
	ck_assert(c > a && c > b);
	ck_assert(!meta_turn_stands(mt_s[1], file, (struct tess_range){0, 4 * REGION}, a));
	ck_assert(meta_turn_stands(mt_s[1], file, (struct tess_range){0, 2 * REGION}, a));
	ck_assert_uint_eq(turn_at(0, 5 * REGION, 1), c);
	ck_assert_uint_gt(turn_at(1, 9 * REGION - 1, 1), c);
	ck_assert_uint_eq(turn_at(1, 11 * REGION, 1), b);
	/* Everything there is, in both directions. */
	c = turn_at(1, 0, UINT64_MAX);
	ck_assert_uint_gt(c, turn_at(1, 0, 1) - 1);
	ck_assert_uint_gt(turn_at(0, UINT64_C(1) << 60, 1), c);
	mt_close();
}
END_TEST

/* Files of one mount that share a word by hash: it finds its own number, whichever file it was for. */
START_TEST(a_mount_does_not_contend_with_itself)
{
	uint64_t a;

	start(_i, 2);
	a = meta_turn(mt_s[0], file, (struct tess_range){0, 1});
	for (unsigned round = 0; round < 2; round++)
		for (uint64_t ino = 100; ino < 100 + 2 * KV_WORDS; ino++)
			ck_assert_uint_eq(meta_turn(mt_s[0], ino, (struct tess_range){0, 1}), a);
	mt_close();
}
END_TEST

#define THREADS 4u
#define TAKES	20000u

struct taken {
	uint64_t turn;
	unsigned by;
};
static struct taken taken[THREADS * TAKES];
static _Atomic uint64_t handed_out;
static atomic_uint wrong;

static void *take_turns(void *arg)
{
	unsigned self = *(unsigned *)arg;
	uint64_t last = 0;

	for (unsigned i = 0; i < TAKES; i++) {
		uint64_t before = atomic_load(&handed_out);
		uint64_t t = turn(mt_s[self % MT_SESSIONS]), max = before;

		if (t < before || t < last)
			atomic_fetch_add(&wrong, 1);
		while (max < t && !atomic_compare_exchange_weak(&handed_out, &max, t))
			;
		taken[self * TAKES + i] = (struct taken){last = t, self % MT_SESSIONS};
	}
	return NULL;
}

static int by_turn(const void *a, const void *b)
{
	const struct taken *x = a, *y = b;

	return (x->turn > y->turn) - (x->turn < y->turn);
}

START_TEST(no_turn_is_two_sessions)
{
	unsigned self[THREADS];
	pthread_t t[THREADS];

	start(_i, MT_SESSIONS);
	atomic_store(&handed_out, 0);
	atomic_store(&wrong, 0);
	for (unsigned i = 0; i < THREADS; i++) {
		self[i] = i;
		CLEAN(pthread_create(&t[i], NULL, take_turns, &self[i]));
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_eq(atomic_load(&wrong), 0);
	qsort(taken, THREADS * TAKES, sizeof(taken[0]), by_turn);
	for (unsigned i = 1; i < THREADS * TAKES; i++)
		ck_assert(taken[i].turn != taken[i - 1].turn || taken[i].by == taken[i - 1].by);
	mt_close();
}
END_TEST

static uint64_t floor_of(unsigned s)
{
	struct meta_session x;

	CLEAN(meta_session_get(mt_s[s], meta_session_id(mt_s[s]), &x));
	return x.joined * TURNS_PER_COMMIT;
}

START_TEST(a_later_session_starts_above)
{
	uint64_t a, b;

	start(_i, 2);
	ck_assert_uint_gt(floor_of(1), floor_of(0));
	a = turn(mt_s[0]);
	ck_assert_uint_ge(a, floor_of(0));
	b = turn(mt_s[1]);
	ck_assert(b > a && b >= floor_of(1));
	/* The older one goes on behind the younger, not at its own start. */
	ck_assert_uint_eq(turn(mt_s[0]), b + 1);
	mt_join(2);
	for (unsigned i = 0; i < KV_WORDS; i++)
		atomic_store(&kv_words(meta_kv(mt))[i], 0);
	ck_assert_uint_gt(turn(mt_s[2]), b + 1);
	mt_close();
}
END_TEST

static void reopen(void)
{
	struct kv_conf c = {.dir = mt_dir, .map_size = 1 << 20};
	struct kv *kv;

	CLEAN(kv_lmdb_open(&kv, &c, NULL));
	CLEAN(meta_open(&mt, kv, NULL));
	mt_s[0] = mt;
	CLEAN(meta_session_begin(mt, "/mnt", NOW, NULL));
}

/* As after a power cut: the extents are there, the words are not. */
START_TEST(turns_go_on_when_their_file_is_lost)
{
	char path[sizeof(mt_dir) + 8];
	uint64_t top = 0;

	start(1, 2);
	for (unsigned i = 0; i < 100000; i++)
		top = turn(mt_s[i % 2]);
	mt_leave_others();
	if (_i)
		mt_leave(0); /* else it died */
	meta_close(mt);
	snprintf(path, sizeof(path), "%s/turns", mt_dir);
	CLEAN(unlink(path));
	reopen();
	mt_join(1);
	/* Both of them, not only the younger. */
	for (unsigned s = 0; s < 2; s++)
		ck_assert_uint_gt(turn(mt_s[s]), top);
	mt_close();
}
END_TEST

static void say(int fd, uint64_t x)
{
	ck_assert_int_eq(write(fd, &x, sizeof(x)), sizeof(x));
}

static uint64_t hear(int fd)
{
	uint64_t x = 0;

	ck_assert_int_eq(read(fd, &x, sizeof(x)), sizeof(x));
	return x;
}

static void other_process(int in, int out)
{
	uint64_t t;

	reopen();
	t = turn(mt);
	say(out, t);
	(void)hear(in);
	say(out, turn(mt));
	(void)hear(in);
	CLEAN(meta_session_end(mt));
	meta_close(mt);
	_exit(0);
}

START_TEST(processes_take_turns_from_one_word)
{
	int to[2], from[2], status;
	uint64_t a, b, c;
	pid_t pid;

	start(1, 1);
	mt_leave(0);
	meta_close(mt); /* no engine goes through a fork */
	CLEAN(pipe(to) || pipe(from));
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		other_process(to[0], from[1]);
	a = hear(from[0]);
	reopen();
	b = turn(mt);
	ck_assert_uint_gt(b, a);
	say(to[1], 0);
	c = hear(from[0]);
	ck_assert_uint_eq(c, b + 1);
	ck_assert_uint_eq(turn(mt), c + 1);
	say(to[1], 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	mt_close();
}
END_TEST

static unsigned open_files(void)
{
	struct dirent *e;
	unsigned n = 0;
	DIR *d = opendir("/proc/self/fd");

	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d)))
		n++;
	closedir(d);
	return n;
}

START_TEST(no_room_for_the_words_fails_the_opening)
{
	struct kv_conf c = {.dir = mt_dir, .map_size = 1 << 20};
	struct text why = TEXT_INIT;
	struct kv *kv = NULL;
	unsigned files;

	start(1, 1);
	mt_leave(0);
	meta_close(mt);
	files = open_files();
	for (unsigned i = 0; i < 3; i++) {
		CLEAN(fault_set("words.open=ENOSPC"));
		text_clear(&why);
		ck_assert_int_eq(kv_lmdb_open(&kv, &c, &why), -ENOSPC);
		ck_assert_ptr_null(kv);
		unit_says(text_str(&why), "/turns: No space left on device", "secret");
		ck_assert_int_eq(kv_lmdb_open(&kv, &c, NULL), -ENOSPC);
		CLEAN(fault_set(NULL));
	}
	text_done(&why);
	ck_assert_uint_eq(open_files(), files);
	/* Who only looks needs no turns. */
	CLEAN(fault_set("words.open=ENOSPC"));
	c.readonly = true;
	CLEAN(kv_lmdb_open(&kv, &c, NULL));
	ck_assert_ptr_null(kv_words(kv));
	kv_close(kv);
	CLEAN(fault_set(NULL));
	reopen();
	ck_assert_uint_gt(turn(mt), 0);
	mt_close();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("turn");
	TCase *c = tcase_create("turn");

	suite_add_tcase(s, c);
	tcase_set_timeout(c, 100);
	tcase_add_loop_test(c, a_turn_is_kept_while_nobody_else_writes, 0, 2);
	tcase_add_loop_test(c, regions_have_turns_of_their_own, 0, 2);
	tcase_add_loop_test(c, a_mount_does_not_contend_with_itself, 0, 2);
	tcase_add_loop_test(c, no_turn_is_two_sessions, 0, 2);
	tcase_add_loop_test(c, a_later_session_starts_above, 0, 2);
	tcase_add_loop_test(c, turns_go_on_when_their_file_is_lost, 0, 2);
	tcase_add_test(c, processes_take_turns_from_one_word);
	tcase_add_test(c, no_room_for_the_words_fails_the_opening);
	return unit_run(s);
}
