/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer: io. Unpublished bytes and what another mount wrote later, and published before. Two io_files of
 * one inode are what two mounts have of it; the session beside makes publishes keep their turns.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "io/io_int.h"
#include "iotest.h"
#include "meta/meta_impl.h"
#include "unit.h"
#include <stdio.h>
#include <string.h>

#define LEN 20000u

static struct iotest t;
static struct io_file *mine, *theirs;
static struct meta *beside;
static char want[LEN + 1];

static void setup(void)
{
	iotest_init(&t);
}

static void teardown(void)
{
	iotest_done(&t);
}

static void put(struct io_file *f, uint64_t off, uint64_t n, char c)
{
	static struct io_file *last;
	static char p[LEN];

	/* Of one session both would write in one turn. */
	if (f != last)
		(void)meta_turn(beside, iotest_ino(&t, 1), (struct tess_range){ 0, LEN });
	last = f;
	memset(p, c, n);
	memset(want + off, c, n);
	CLEAN(io_write(f, &t.req, off, p, n));
}

static void expect(struct io_file *f)
{
	static char got[LEN + 1];

	memset(got, 0, sizeof(got));
	ck_assert_int_eq(io_read_sync(f, &t.req, 0, got, LEN), LEN);
	for (unsigned i = 0; i < LEN; i++)
		ck_assert_msg(got[i] == want[i], "byte %u is %c, not %c", i, got[i], want[i]);
}

/* LEN published bytes of 'o', and both have looked. */
static void both(void)
{
	struct meta_attr a;

	iotest_open(&t);
	CLEAN(meta_open(&beside, t.kv, NULL));
	CLEAN(meta_session_begin(beside, "/beside", 1, NULL));
	mine = iotest_file(&t, 1);
	put(mine, 0, LEN, 'o');
	CLEAN(iotest_publish(&t, mine));
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	CLEAN(io_file_open(t.io, &a, &theirs));
}

static void both_close(void)
{
	io_file_close(mine, false);
	io_file_close(theirs, false);
	CLEAN(meta_session_end(beside));
	beside->kv = NULL;
	meta_close(beside);
	ck_assert_int_eq(iotest_check(&t), 0);
}

/* What is published, as a new handle sees it. */
static void expect_published(void)
{
	struct meta_attr a;
	struct io_file *f;

	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	CLEAN(io_file_open(t.io, &a, &f));
	expect(f);
	io_file_close(f, false);
}

START_TEST(what_was_written_later_shows_before_the_older_is_published)
{
	both();
	put(mine, 0, 10000, 'm');
	put(theirs, 5000, 10000, 't');
	CLEAN(iotest_publish(&t, theirs));
	expect(mine);
	CLEAN(iotest_publish(&t, mine));
	expect(mine);
	expect_published();
	both_close();
}
END_TEST

START_TEST(what_was_written_last_stays_on_top)
{
	both();
	put(mine, 0, LEN, 'm');
	put(theirs, 5000, 5000, 't');
	put(mine, 7000, 100, 'n');
	CLEAN(iotest_publish(&t, theirs));
	expect(mine);
	put(mine, 9900, 200, 'p');
	expect(mine);
	CLEAN(iotest_publish(&t, mine));
	expect_published();
	both_close();
}
END_TEST

START_TEST(only_what_is_read_gives_way)
{
	char c;

	both();
	put(mine, 0, LEN, 'm');
	put(theirs, 100, 10, 't');
	put(theirs, 15000, 10, 't');
	CLEAN(iotest_publish(&t, theirs));
	ck_assert_int_eq(io_read_sync(mine, &t.req, 105, &c, 1), 1);
	ck_assert_int_eq(c, 't');
	ck_assert_uint_eq(mine->dirty.bytes[DIRTY_MEM], LEN - 1);
	expect(mine);
	ck_assert_uint_eq(mine->dirty.bytes[DIRTY_MEM], LEN - 20);
	both_close();
}
END_TEST

/* Stored, and the transaction failed: the segment that held it all is nobody's in the end. */
START_TEST(stored_bytes_give_way_too)
{
	both();
	put(mine, 0, LEN, 'm');
	put(theirs, 0, LEN, 't');
	CLEAN(iotest_publish(&t, theirs));
	CLEAN(fault_set("io.flush.commit@1=EIO"));
	ck_assert_int_eq(iotest_publish(&t, mine), -EIO);
	CLEAN(fault_set(NULL));
	ck_assert_uint_eq(mine->dirty.bytes[DIRTY_STORED], LEN);
	expect(mine);
	ck_assert_uint_eq(mine->dirty.tree.n, 0);
	CLEAN(iotest_publish(&t, mine));
	expect_published();
	both_close();
}
END_TEST

/* The cut takes away what would have been given way to. */
START_TEST(nothing_gives_way_to_what_a_cut_will_take)
{
	struct meta_attr a;
	char c = 0;

	both();
	CLEAN(io_truncate(mine, &t.req, 0, NS_PER_S));
	put(mine, 0, 100, 'm');
	put(theirs, 0, 100, 't');
	CLEAN(iotest_publish(&t, theirs));
	ck_assert_int_eq(io_read_sync(mine, &t.req, 50, &c, 1), 1);
	ck_assert_int_eq(c, 'm');
	CLEAN(iotest_publish(&t, mine));
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	ck_assert_uint_eq(a.size, 100);
	CLEAN(io_file_refresh(theirs));
	ck_assert_int_eq(io_read_sync(theirs, &t.req, 50, &c, 1), 1);
	ck_assert_int_eq(c, 'm');
	both_close();
}
END_TEST

static void *publish_main(void *arg)
{
	if (iotest_publish(&t, arg) < 0)
		abort();
	return NULL;
}

/* Between the commit of a publish that left some of it out and its end, and before that commit. */
START_TEST(a_publish_under_way_is_no_hindrance)
{
	static const char *const at[] = { "io.flush.commit", "io.flush.committed", "stage.append" };

	both();
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++) {
		pthread_t thread;
		char spec[64];

		snprintf(spec, sizeof(spec), "%s@1=delay:300ms", at[i]);
		put(mine, 0, LEN, (char)('a' + i));
		put(theirs, 2000 * (i + 1), 9000, 't');
		CLEAN(iotest_publish(&t, theirs));
		CLEAN(fault_set(spec));
		ck_assert_int_eq(pthread_create(&thread, NULL, publish_main, mine), 0);
		while (fault_hits(at[i]) == 0)
			clock_sleep(NS_PER_MS);
		expect(mine);
		put(mine, 3000, 5, 'z');
		expect(mine);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		CLEAN(fault_set(NULL));
		expect(mine);
		CLEAN(iotest_publish(&t, mine));
		expect_published();
	}
	both_close();
}
END_TEST

START_TEST(who_writes_alone_asks_nothing)
{
	uint64_t reads;

	both();
	put(mine, 0, LEN, 'm');
	reads = atomic_load(&t.kv->count[0].n);
	for (unsigned i = 0; i < 50; i++)
		expect(mine);
	/* Threads in the background look now and then. */
	ck_assert_uint_lt(atomic_load(&t.kv->count[0].n), reads + 50);
	both_close();
}
END_TEST

START_TEST(a_namespace_that_fails_is_an_error_and_no_old_bytes)
{
	char p[100];

	both();
	put(mine, 0, LEN, 'm');
	put(theirs, 0, LEN, 't');
	CLEAN(iotest_publish(&t, theirs));
	CLEAN(fault_set("kv.seek=EIO"));
	ck_assert_int_eq(io_read_sync(mine, &t.req, 0, p, sizeof(p)), -EIO);
	/* No memory: one allocation after the other. */
	for (unsigned i = 1; i < 40; i++) {
		char spec[32];
		int64_t n;

		snprintf(spec, sizeof(spec), "alloc@%u=ENOMEM", i);
		CLEAN(fault_set(spec));
		n = io_read_sync(mine, &t.req, 0, p, sizeof(p));
		CLEAN(fault_set(NULL));
		ck_assert(n == -ENOMEM || (n == sizeof(p) && p[0] == 't' && p[99] == 't'));
	}
	expect(mine);
	both_close();
}
END_TEST

/* The administrator gets what was written here. */
START_TEST(what_is_rescued_is_the_sessions_own)
{
	char rescued[128], path[256], got[100] = "";
	uint64_t ino;
	FILE *f;

	snprintf(rescued, sizeof(rescued), "%s/rescued", t.dir);
	t.conf.rescue_dir = rescued;
	both();
	ino = iotest_ino(&t, 1);
	put(mine, 0, 90, 'm');
	put(theirs, 10, 50, 't');
	CLEAN(iotest_publish(&t, theirs));
	CLEAN(meta_fence(beside, meta_session_id(t.meta)));
	ck_assert_int_eq(iotest_publish(&t, mine), -TESS_E_FENCED);
	snprintf(path, sizeof(path), "%s/%u/%llu.0", rescued, meta_session_id(t.meta),
		 (unsigned long long)ino);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fread(got, 1, sizeof(got), f), 90);
	ck_assert(got[0] == 'm' && got[30] == 'm' && got[89] == 'm');
	fclose(f);
	io_file_close(mine, true);
	io_file_close(theirs, true);
	(void)iotest_close(&t, false);
	CLEAN(meta_session_end(beside));
	beside->kv = NULL;
	meta_close(beside);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		what_was_written_later_shows_before_the_older_is_published,
		what_was_written_last_stays_on_top,
		only_what_is_read_gives_way,
		stored_bytes_give_way_too,
		nothing_gives_way_to_what_a_cut_will_take,
		a_publish_under_way_is_no_hindrance,
		who_writes_alone_asks_nothing,
		a_namespace_that_fails_is_an_error_and_no_old_bytes,
		what_is_rescued_is_the_sessions_own,
	};

	return unit_run_with("io_yield", tests, sizeof(tests) / sizeof(tests[0]), setup, teardown, 60);
}
