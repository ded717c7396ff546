/* SPDX-License-Identifier: Apache-2.0 */
/* layer: base */
#include "base/words.h"
#include "base/fault.h"
#include "base/text.h"
#include "unit.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 1024u

static char dir[200], path[256];

static void setup(void)
{
	const char *tmp = getenv("TESS_TMP");

	snprintf(dir, sizeof(dir), "%s/words.XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/w", dir);
}

static void teardown(void)
{
	CLEAN(fault_set(NULL));
	(void)unlink(path);
	CLEAN(rmdir(dir));
}

static shared_word *open_words(uint32_t n)
{
	shared_word *w = NULL;

	CLEAN(words_open(&w, dir, "w", n, NULL));
	ck_assert_ptr_nonnull(w);
	return w;
}

START_TEST(two_that_open_the_same_share)
{
	shared_word *a = open_words(WORDS), *b = open_words(WORDS);

	ck_assert_ptr_ne(a, b);
	for (unsigned i = 0; i < WORDS; i++)
		ck_assert_uint_eq(atomic_load(&a[i]), 0);
	atomic_store(&a[0], 1);
	atomic_store(&b[WORDS - 1], UINT64_MAX);
	ck_assert_uint_eq(atomic_load(&b[0]), 1);
	ck_assert_uint_eq(atomic_load(&a[WORDS - 1]), UINT64_MAX);
	words_close(a, WORDS);
	ck_assert_uint_eq(atomic_fetch_add(&b[0], 1), 1);
	words_close(b, WORDS);
	words_close(NULL, WORDS);
}
END_TEST

START_TEST(words_outlive_who_has_them_open)
{
	shared_word *w = open_words(WORDS);

	for (unsigned i = 0; i < WORDS; i++)
		atomic_store(&w[i], i * UINT64_C(0x100000001));
	words_close(w, WORDS);
	w = open_words(WORDS);
	for (unsigned i = 0; i < WORDS; i++)
		ck_assert_uint_eq(atomic_load(&w[i]), i * UINT64_C(0x100000001));
	words_close(w, WORDS);
	/* Of a version that had fewer. */
	w = open_words(WORDS * 4);
	ck_assert_uint_eq(atomic_load(&w[WORDS - 1]), (WORDS - 1) * UINT64_C(0x100000001));
	ck_assert_uint_eq(atomic_load(&w[WORDS * 4 - 1]), 0);
	words_close(w, WORDS * 4);
}
END_TEST

#define ADDS 200000u

static void add(shared_word *w)
{
	for (unsigned i = 0; i < ADDS; i++)
		atomic_fetch_add(&w[7], 1);
}

START_TEST(no_addition_of_another_process_is_lost)
{
	shared_word *w;
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	w = open_words(WORDS);
	add(w);
	if (pid == 0)
		_exit(0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(atomic_load(&w[7]), 2 * ADDS);
	words_close(w, WORDS);
}
END_TEST

START_TEST(their_room_is_taken_when_they_are_made)
{
	shared_word *w = open_words(WORDS * 64);
	struct stat st;

	CLEAN(stat(path, &st));
	ck_assert_int_eq(st.st_size, WORDS * 64 * 8);
	ck_assert_int_ge(st.st_blocks * 512, st.st_size);
	words_close(w, WORDS * 64);
}
END_TEST

START_TEST(why_they_cannot_be_opened_is_said_in_a_line)
{
	struct text why = TEXT_INIT;
	shared_word *w = NULL;
	char gone[256];

	snprintf(gone, sizeof(gone), "%s/gone", dir);
	ck_assert_int_eq(words_open(&w, gone, "w", WORDS, NULL), -ENOENT);
	ck_assert_int_eq(words_open(&w, gone, "w", WORDS, &why), -ENOENT);
	unit_says(text_str(&why), "/gone/w: No such file or directory", "secret");
	text_clear(&why);
	CLEAN(mkdir(path, 0700));
	ck_assert_int_eq(words_open(&w, dir, "w", WORDS, &why), -EISDIR);
	unit_says(text_str(&why), path, "secret");
	CLEAN(rmdir(path));
	text_clear(&why);
	CLEAN(fault_set("words.open=ENOSPC"));
	ck_assert_int_eq(words_open(&w, dir, "w", WORDS, &why), -ENOSPC);
	unit_says(text_str(&why), "/w: No space left on device", "secret");
	CLEAN(fault_set("alloc=ENOMEM"));
	ck_assert_int_eq(words_open(&w, dir, "w", WORDS, NULL), -ENOMEM);
	CLEAN(fault_set(NULL));
	ck_assert_ptr_null(w);
	text_done(&why);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		two_that_open_the_same_share, words_outlive_who_has_them_open,
		no_addition_of_another_process_is_lost, their_room_is_taken_when_they_are_made,
		why_they_cannot_be_opened_is_said_in_a_line,
	};

	return unit_run_with("words", tests, sizeof(tests) / sizeof(*tests), setup, teardown, 30);
}
