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
	a = meta_turn(mt_s[0], file, 0);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_uint_eq(meta_turn(mt_s[0], file, a), a);
	b = meta_turn(mt_s[1], file, 0);
	ck_assert_uint_gt(b, a);
	ck_assert_uint_eq(meta_turn(mt_s[1], file, b), b);
	c = meta_turn(mt_s[0], file, a);
	ck_assert_uint_gt(c, b);
	ck_assert_uint_gt(meta_turn(mt_s[1], file, b), c);
	/* Who has written nothing yet has no turn to keep, even if it is ours that is the last. */
	a = meta_turn(mt_s[0], file, 0);
	b = meta_turn(mt_s[0], file, 0);
	ck_assert_uint_gt(b, a);
	ck_assert_uint_gt(meta_turn(mt_s[0], file, a), b);
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
		uint64_t before = atomic_load(&handed_out), keep = i % 64 ? last : 0;
		uint64_t t = meta_turn(mt_s[self % MT_SESSIONS], file, keep), max = before;

		if (t < before || (t == before && t != keep) || t < last)
			atomic_fetch_add(&wrong, 1);
		while (max < t && !atomic_compare_exchange_weak(&handed_out, &max, t))
			;
		taken[self * TAKES + i] = (struct taken){last = t, self};
	}
	return NULL;
}

static int by_turn(const void *a, const void *b)
{
	const struct taken *x = a, *y = b;

	return (x->turn > y->turn) - (x->turn < y->turn);
}

START_TEST(no_turn_is_two_writers)
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
	a = meta_turn(mt_s[0], file, 0);
	ck_assert_uint_ge(a, floor_of(0));
	b = meta_turn(mt_s[1], file, 0);
	ck_assert(b > a && b >= floor_of(1));
	/* The older one goes on behind the younger, not at its own start. */
	ck_assert_uint_eq(meta_turn(mt_s[0], file, a), b + 1);
	mt_join(2);
	for (unsigned i = 0; i < KV_WORDS; i++)
		atomic_store(&kv_words(meta_kv(mt))[i], 0);
	ck_assert_uint_gt(meta_turn(mt_s[2], file, 0), b + 1);
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
		top = meta_turn(mt_s[i % 2], file, 0);
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
		ck_assert_uint_gt(meta_turn(mt_s[s], file, 0), top);
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
	t = meta_turn(mt, file, 0);
	say(out, t);
	(void)hear(in);
	say(out, meta_turn(mt, file, t));
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
	b = meta_turn(mt, file, 0);
	ck_assert_uint_gt(b, a);
	say(to[1], 0);
	c = hear(from[0]);
	ck_assert_uint_eq(c, b + 1);
	ck_assert_uint_eq(meta_turn(mt, file, b), c + 1);
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
	ck_assert_uint_gt(meta_turn(mt, file, 0), 0);
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
	tcase_add_loop_test(c, no_turn_is_two_writers, 0, 2);
	tcase_add_loop_test(c, a_later_session_starts_above, 0, 2);
	tcase_add_loop_test(c, turns_go_on_when_their_file_is_lost, 0, 2);
	tcase_add_test(c, processes_take_turns_from_one_word);
	tcase_add_test(c, no_room_for_the_words_fails_the_opening);
	return unit_run(s);
}
