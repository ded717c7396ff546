/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer: io. What an open file sees of what others publish. Two io_files of one inode are what two
 * mounts have of it: neither knows of the other but through the namespace.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/pool.h"
#include "io/stage.h"
#include "iotest.h"
#include "meta/meta_impl.h"
#include "unit.h"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LEN 30000u

static struct iotest t;
static struct io_file *mine, *theirs;

static void setup(void)
{
	iotest_init(&t);
}

static void teardown(void)
{
	iotest_done(&t);
}

static struct io_file *other(unsigned n)
{
	struct io_file *f;
	struct meta_attr a;

	CLEAN(meta_getattr(t.meta, iotest_ino(&t, n), &a));
	CLEAN(io_file_open(t.io, &a, &f));
	return f;
}

/* LEN bytes of 1, published, and looked at by both. */
static void both(void)
{
	iotest_open(&t);
	mine = iotest_file(&t, 1);
	iotest_write(&t, mine, 0, LEN, 1);
	CLEAN(iotest_publish(&t, mine));
	theirs = other(1);
	iotest_expect(&t, mine, 0, LEN, 1);
	iotest_expect(&t, theirs, 0, LEN, 1);
}

static void both_close(void)
{
	io_file_close(mine, false);
	io_file_close(theirs, false);
	ck_assert_int_eq(iotest_check(&t), 0);
}

struct fresh {
	struct io_read r;
	_Atomic int    done;
};

static void fresh_done(struct io_read *r)
{
	((struct fresh *)r->owner)->done = 1;
}

/* As strict and commit read. */
static int64_t fresh(struct io_file *f, uint64_t off, void *p, size_t n)
{
	struct fresh x = { .r = { .req = &t.req, .file = f, .off = off, .len = n, .fresh = true,
				  .done = fresh_done } };
	size_t at = 0;

	x.r.owner = &x;
	io_read(&x.r);
	while (!x.done)
		clock_sleep(100000);
	CLEAN(x.r.err);
	for (unsigned i = 0; i < x.r.niov; i++) {
		memcpy((char *)p + at, x.r.iov[i].iov_base, x.r.iov[i].iov_len);
		at += x.r.iov[i].iov_len;
	}
	io_read_release(&x.r);
	return (int64_t)at;
}

static void *publish_main(void *arg)
{
	if (iotest_publish(&t, arg) < 0)
		abort();
	return NULL;
}

START_TEST(a_file_is_seen_as_of_the_last_look)
{
	char *p, *one = iotest_bytes(LEN, 1);

	/* Some of each segment lives on: one that is dead would move the file on. */
	t.conf.commit_interval = 3600 * NS_PER_S;
	both();
	p = iotest_bytes(20000, 2);
	iotest_write(&t, theirs, 0, 20000, 2);
	CLEAN(iotest_publish(&t, theirs));
	iotest_expect(&t, mine, 0, LEN, 1);
	/* What was staged is on its targets now; still the bytes of then. */
	CLEAN(io_sync_all(t.io, &t.req));
	iotest_expect(&t, mine, 0, LEN, 1);
	CLEAN(io_file_refresh(mine));
	iotest_expect(&t, mine, 0, 20000, 2);
	ck_assert_int_eq(io_read_sync(mine, &t.req, 20000, p, LEN), LEN - 20000);
	ck_assert_int_eq(memcmp(p, one + 20000, LEN - 20000), 0);
	free(p);
	free(one);
	both_close();
}
END_TEST

START_TEST(no_look_no_transaction)
{
	uint64_t misses;
	char p[500];

	both();
	misses = iotest_counter(&t, "view.miss");
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_eq(io_read_sync(mine, &t.req, i * 250u, p, sizeof(p)), sizeof(p));
	ck_assert_uint_eq(iotest_counter(&t, "view.miss"), misses);
	ck_assert_uint_ge(iotest_counter(&t, "view.hit"), 100);
	both_close();
}
END_TEST

START_TEST(a_fresh_read_sees_what_is_published_when_it_begins)
{
	char *p = malloc(3 * LEN), *want = iotest_bytes(LEN, 2);

	both();
	iotest_write(&t, theirs, 0, LEN, 2);
	ck_assert_int_eq(fresh(mine, 0, p, LEN), LEN);
	ck_assert_int_ne(memcmp(p, want, LEN), 0);
	CLEAN(iotest_publish(&t, theirs));
	ck_assert_int_eq(fresh(mine, 0, p, LEN), LEN);
	ck_assert_int_eq(memcmp(p, want, LEN), 0);
	/* Longer, then shorter: never zeros for bytes that are not there. */
	iotest_write(&t, theirs, LEN, LEN, 2);
	CLEAN(iotest_publish(&t, theirs));
	ck_assert_int_eq(fresh(mine, LEN, p, 2 * LEN), LEN);
	CLEAN(io_truncate(theirs, &t.req, 10, 5));
	CLEAN(iotest_publish(&t, theirs));
	ck_assert_int_eq(fresh(mine, 0, p, LEN), 10);
	ck_assert_int_eq(fresh(mine, 10, p, LEN), 0);
	free(p);
	free(want);
	both_close();
}
END_TEST

START_TEST(unpublished_bytes_stay_on_top_of_what_others_publish)
{
	struct meta_attr a;

	both();
	iotest_write(&t, mine, 5000, 100, 7);
	iotest_write(&t, theirs, 0, 3 * LEN, 2);
	CLEAN(iotest_publish(&t, theirs));
	CLEAN(io_file_refresh(mine));
	iotest_expect(&t, mine, 5000, 100, 7);
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	io_file_stat(mine, &a);
	ck_assert_uint_eq(a.size, 3 * LEN);
	/* Both survive: a publish merges. */
	CLEAN(iotest_publish(&t, mine));
	CLEAN(io_file_refresh(theirs));
	iotest_expect(&t, theirs, 5000, 100, 7);
	both_close();
}
END_TEST

START_TEST(a_truncate_cuts_what_others_appended_meanwhile)
{
	struct meta_attr a;

	both();
	iotest_write(&t, theirs, LEN, 4 * LEN, 2);
	CLEAN(iotest_publish(&t, theirs));
	/* For us it grows the file; for the file, it does not. */
	CLEAN(io_truncate(mine, &t.req, 2 * LEN, 5));
	CLEAN(iotest_publish(&t, mine));
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	ck_assert_uint_eq(a.size, 2 * LEN);
	both_close();
}
END_TEST

START_TEST(a_segment_that_is_gone_moves_the_file_on)
{
	both();
	/* Sealed, overwritten by others, collected. */
	CLEAN(io_sync_all(t.io, &t.req));
	iotest_expect(&t, mine, 0, LEN, 1);
	iotest_write(&t, theirs, 0, LEN, 2);
	CLEAN(iotest_publish(&t, theirs));
	CLEAN(io_sync_all(t.io, &t.req));
	struct io_gc gc = { 0 };

	CLEAN(io_gc(t.io, &gc));
	char *p = malloc(LEN), *one = iotest_bytes(LEN, 1), *two = iotest_bytes(LEN, 2);

	ck_assert_int_eq(io_read_sync(mine, &t.req, 0, p, LEN), LEN);
	/* Whole, of one generation or the other. */
	ck_assert(memcmp(p, one, LEN) == 0 || memcmp(p, two, LEN) == 0);
	free(p);
	free(one);
	free(two);
	both_close();
}
END_TEST

START_TEST(appends_of_two_never_meet)
{
	char *p = malloc(2000), *a = iotest_bytes(100, 1), *b = iotest_bytes(100, 2);
	unsigned got[2] = { 0 };

	both();
	CLEAN(io_truncate(mine, &t.req, 0, 5));
	CLEAN(iotest_publish(&t, mine));
	CLEAN(io_file_refresh(theirs));
	/* Some of it still in memory: it comes first. */
	iotest_write(&t, mine, 0, 50, 9);
	for (unsigned i = 0; i < 10; i++) {
		CLEAN(io_append(i % 2 ? theirs : mine, &t.req, i % 2 ? b : a, 100));
	}
	ck_assert_int_eq(fresh(theirs, 0, p, 2000), 1050);
	for (unsigned i = 0; i < 10; i++) {
		got[0] += memcmp(p + 50 + 100 * i, a, 100) == 0;
		got[1] += memcmp(p + 50 + 100 * i, b, 100) == 0;
	}
	ck_assert(got[0] == 5 && got[1] == 5);
	ck_assert_int_eq(io_append(mine, &t.req, p, IO_APPEND_MAX + 1), -EFBIG);
	free(p);
	free(a);
	free(b);
	both_close();
}
END_TEST

START_TEST(a_failed_append_changes_nothing_and_the_next_one_is_whole)
{
	static const char *const points[] = { "stage.append@1=EIO", "io.flush.commit@1=EIO" };
	char *a = iotest_bytes(100, 3), p[300];
	struct meta_attr attr;

	both();
	for (unsigned i = 0; i < 2; i++) {
		CLEAN(fault_set(points[i]));
		ck_assert_int_eq(io_append(mine, &t.req, a, 100), -EIO);
		CLEAN(fault_set(NULL));
	}
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &attr));
	ck_assert_uint_eq(attr.size, LEN);
	CLEAN(io_append(mine, &t.req, a, 100));
	ck_assert_int_eq(fresh(theirs, LEN, p, sizeof(p)), 100);
	ck_assert_int_eq(memcmp(p, a, 100), 0);
	/* What the failed ones reserved is nobody's: staging drains. */
	CLEAN(io_sync_all(t.io, &t.req));
	free(a);
	both_close();
}
END_TEST

START_TEST(a_large_append_is_one_piece_over_several_segments)
{
	size_t n = 1 << 20;
	char *a = iotest_bytes(n, 3), *p = malloc(n);

	both();
	CLEAN(io_append(mine, &t.req, a, n));
	ck_assert_int_eq(fresh(theirs, LEN, p, n), (int64_t)n);
	ck_assert_int_eq(memcmp(p, a, n), 0);
	free(a);
	free(p);
	both_close();
}
END_TEST

static uint64_t published_size(void)
{
	struct meta_attr a;

	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	return a.size;
}

START_TEST(an_interval_publishes_without_a_close)
{
	both();
	CLEAN(io_file_interval(theirs, 50 * NS_PER_MS));
	iotest_write(&t, theirs, LEN, LEN, 2);
	for (unsigned i = 0; i < 1000 && published_size() != 2 * LEN; i++)
		clock_sleep(10 * NS_PER_MS);
	ck_assert_uint_eq(published_size(), 2 * LEN);
	CLEAN(io_file_interval(theirs, 0));
	both_close();
}
END_TEST

START_TEST(an_interval_goes_on_after_a_long_failure)
{
	bool many = false;

	both();
	CLEAN(fault_set("io.flush.commit=EIO"));
	CLEAN(io_file_interval(theirs, 20 * NS_PER_MS));
	iotest_write(&t, theirs, LEN, LEN, 2);
	for (unsigned i = 0; i < 5000 && !many; i++) {
		clock_sleep(2 * NS_PER_MS);
		scoped_lock(&theirs->lock);
		many = theirs->fails >= IO_RETRY_LIMIT;
		theirs->retry_at = 0;	/* as if the time to wait had passed */
	}
	ck_assert(many);
	CLEAN(fault_set(NULL));
	for (unsigned i = 0; i < 1000 && published_size() != 2 * LEN; i++)
		clock_sleep(10 * NS_PER_MS);
	ck_assert_uint_eq(published_size(), 2 * LEN);
	CLEAN(io_file_interval(theirs, 0));
	both_close();
}
END_TEST

/* A publish whose commit is made, and whose end is not: what is done now comes after it. */
static pthread_t in_the_middle(const char *point)
{
	pthread_t th;

	CLEAN(fault_set(point));
	CLEAN(thread_start(&th, "t", publish_main, mine));
	clock_sleep(100 * NS_PER_MS);
	return th;
}

START_TEST(what_is_set_while_a_publish_is_under_way_is_not_taken_for_published)
{
	struct meta_attr before, after;
	pthread_t th;

	both();
	/* The clock ticks each 4 ms: two changes are of one time. */
	CLEAN(io_punch(mine, &t.req, (struct tess_range){ 0, 4096 }, 12345));
	CLEAN(io_truncate(mine, &t.req, 2 * LEN, 12345));
	th = in_the_middle("io.flush.committed@1=delay:400ms");
	CLEAN(io_truncate(mine, &t.req, 10, 12345));
	CLEAN(io_truncate(mine, &t.req, 2 * LEN, 12345));
	pthread_join(th, NULL);
	CLEAN(fault_set(NULL));
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &before));
	CLEAN(iotest_publish(&t, mine));
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &after));
	ck_assert_uint_eq(after.size, 2 * LEN);
	ck_assert_int_gt(after.mtime, before.mtime);
	both_close();
}
END_TEST

START_TEST(a_time_that_is_set_outlives_a_publish_that_was_under_way)
{
	struct meta_attr a = { .mtime = 777 };
	pthread_t th;

	both();
	iotest_write(&t, mine, 0, 1000, 2);
	th = in_the_middle("io.flush.commit@1=delay:400ms");
	io_file_times_set(mine, true, true);
	CLEAN(meta_setattr(t.meta, iotest_ino(&t, 1), META_SET_MTIME, &a, 1, &a));
	pthread_join(th, NULL);
	CLEAN(fault_set(NULL));
	CLEAN(iotest_publish(&t, mine));
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	ck_assert_int_eq(a.mtime, 777);
	both_close();
}
END_TEST

/* Whole buckets are written: what is not dirty moves along. */
static void in_buckets(struct io_file *f)
{
	struct meta_layout l = { .mapper = 2, .segment_size = t.segment };
	struct oclass c;

	CLEAN(oclass_parse("S1", &c, NULL));
	l.cls = c.id;
	io_file_layout_set(f, &l);
}

START_TEST(bytes_that_only_move_along_never_undo_what_others_publish)
{
	pthread_t th;

	both();
	in_buckets(mine);
	iotest_write(&t, mine, 0, 1000, 2);
	th = in_the_middle("io.flush.commit@1=delay:400ms");
	iotest_write(&t, theirs, 20000, 1000, 3);
	CLEAN(iotest_publish(&t, theirs));
	pthread_join(th, NULL);
	CLEAN(fault_set(NULL));
	CLEAN(io_file_refresh(mine));
	iotest_expect(&t, mine, 0, 1000, 2);
	iotest_expect(&t, mine, 20000, 1000, 3);
	both_close();
}
END_TEST

START_TEST(not_even_when_they_were_on_their_way_during_a_publish)
{
	uint64_t last;

	t.uri = "mem:?latency=300ms";
	t.conf.direct_min = 4096;
	both();
	in_buckets(mine);
	iotest_write(&t, mine, 0, 1000, 2);
	CLEAN(io_flush_start(mine, &t.req, true, &last));
	CLEAN(io_truncate(mine, &t.req, 2 * LEN, 1));
	CLEAN(io_publish(mine));
	iotest_write(&t, theirs, 20000, 1000, 3);
	CLEAN(iotest_publish(&t, theirs));
	CLEAN(iotest_publish(&t, mine));
	CLEAN(io_file_refresh(mine));
	iotest_expect(&t, mine, 0, 1000, 2);
	iotest_expect(&t, mine, 20000, 1000, 3);
	both_close();
}
END_TEST

START_TEST(bytes_that_move_along_are_read_where_they_are_published)
{
	char *p = malloc(LEN), *want = iotest_bytes(1000, 3);
	uint64_t last;

	t.uri = "mem:?latency=300ms";
	t.conf.direct_min = 4096;
	both();
	in_buckets(mine);
	iotest_write(&t, mine, 0, 1000, 2);
	CLEAN(io_flush_start(mine, &t.req, true, &last));
	iotest_write(&t, theirs, 20000, 1000, 3);
	CLEAN(iotest_publish(&t, theirs));
	ck_assert_int_eq(fresh(mine, 20000, p, 1000), 1000);
	ck_assert_int_eq(memcmp(p, want, 1000), 0);
	CLEAN(iotest_publish(&t, mine));
	iotest_expect(&t, mine, 0, 1000, 2);
	free(p);
	free(want);
	both_close();
}
END_TEST
/* ---- a publish between a look and what is made of it ---- */

static struct kv_ops hooked;
static const struct kv_ops *engine;
static void (*after_look)(void), (*after_commit)(void);
static pthread_t hooker;

static void hook_run(void (**at)(void))
{
	void (*fn)(void) = *at;

	if (!fn || !pthread_equal(hooker, pthread_self()))
		return;
	*at = NULL;
	fn();
}

static void hooked_abort(struct kv_txn *x)
{
	bool write = x->write;

	engine->abort(x);
	if (!write)
		hook_run(&after_look);
}

static int hooked_commit(struct kv_txn *x, uint64_t *ret_serial)
{
	int e = engine->commit(x, ret_serial);

	hook_run(&after_commit);
	return e;
}

/* Each runs once, after this thread's next read or commit of the namespace. */
static void hook(void (*look)(void), void (*commit)(void))
{
	if (!engine) {
		engine = t.kv->ops;
		hooked = *engine;
		hooked.abort = hooked_abort;
		hooked.commit = hooked_commit;
		t.kv->ops = &hooked;
	}
	hooker = pthread_self();
	after_look = look;
	after_commit = commit;
}

static void publish_mine(void)
{
	CLEAN(iotest_publish(&t, mine));
}

START_TEST(a_look_that_a_publish_overtakes_covers_what_was_asked_for)
{
	char *p = malloc(LEN), *want = iotest_bytes(LEN, 2);
	char *one = iotest_bytes(LEN, 1);

	iotest_open(&t);
	mine = iotest_file(&t, 1);
	iotest_write(&t, mine, 0, LEN, 1);
	CLEAN(iotest_publish(&t, mine));
	iotest_write(&t, mine, 8192, LEN - 8192, 2);
	memcpy(p, one, 8192);
	ck_assert_int_eq(io_read_sync(mine, &t.req, 8192, want, LEN - 8192), LEN - 8192);
	memcpy(p + 8192, want, LEN - 8192);
	hook(publish_mine, NULL);
	ck_assert_int_eq(io_read_sync(mine, &t.req, 0, want, LEN), LEN);
	ck_assert_ptr_null(after_look);
	ck_assert_int_eq(memcmp(p, want, LEN), 0);
	free(p);
	free(one);
	free(want);
	io_file_close(mine, false);
}
END_TEST

static unsigned overwrites;

/* All of it, in a segment of its own, when the newest was looked up: that is dead then. */
static void overwrite_theirs(void)
{
	after_look = overwrite_theirs;
	if (mine->generation != theirs->generation)
		return;
	after_look = NULL;
	iotest_write(&t, theirs, 0, LEN, 100 + overwrites);
	CLEAN(iotest_publish(&t, theirs));
	after_look = --overwrites ? overwrite_theirs : NULL;
}

START_TEST(a_read_outlasts_those_who_overwrite_what_it_looked_up)
{
	char *p = malloc(LEN), *want = iotest_bytes(LEN, 101);

	t.conf.direct_min = 4096;
	both();
	overwrites = 20;
	hook(overwrite_theirs, NULL);
	ck_assert_int_eq(fresh(mine, 0, p, LEN), LEN);
	ck_assert_uint_eq(overwrites, 0);
	ck_assert_int_eq(memcmp(p, want, LEN), 0);
	free(p);
	free(want);
	both_close();
}
END_TEST

static void append_theirs(void)
{
	iotest_write(&t, theirs, LEN, LEN, 2);
	CLEAN(iotest_publish(&t, theirs));
	CLEAN(io_file_refresh(mine));
}

START_TEST(the_end_of_a_publish_does_not_go_back_behind_a_newer_look)
{
	both();
	iotest_write(&t, mine, 0, 100, 3);
	CLEAN(io_sync_file(theirs, &t.req, IO_PUBLISH));
	hook(NULL, append_theirs);
	CLEAN(iotest_publish(&t, mine));
	ck_assert_ptr_null(after_commit);
	iotest_expect(&t, mine, LEN, LEN, 2);
	/* A truncate that is published with it is below what came after it. */
	CLEAN(io_truncate(mine, &t.req, 10, 5));
	hook(NULL, append_theirs);
	CLEAN(iotest_publish(&t, mine));
	iotest_expect(&t, mine, LEN, LEN, 2);
	both_close();
}
END_TEST

static void append_mine(void)
{
	iotest_write(&t, mine, LEN, LEN, 2);
	CLEAN(iotest_publish(&t, mine));
}

START_TEST(a_clone_does_not_go_back_behind_what_was_published_after_it)
{
	struct meta_attr a;
	struct io_file *src;

	both();
	src = iotest_file(&t, 2);
	iotest_write(&t, src, 0, LEN, 3);
	CLEAN(iotest_publish(&t, src));
	hook(NULL, append_mine);
	CLEAN(io_clone(src, 0, mine, 0, LEN, &t.req, 5, &a));
	ck_assert_ptr_null(after_commit);
	iotest_expect(&t, mine, LEN, LEN, 2);
	iotest_expect(&t, mine, 0, LEN, 3);
	io_file_close(src, false);
	both_close();
}
END_TEST

static void *read_main(void *arg)
{
	if (io_read_sync(theirs, &t.req, 0, arg, LEN) != LEN)
		abort();
	return NULL;
}

START_TEST(a_staging_file_that_serves_again_is_not_read_as_what_it_was)
{
	struct io_file *second;
	struct meta_map *m = malloc(sizeof(*m));
	pthread_t reader;
	char *p = malloc(LEN), *want;

	/* The remembered extents say staged; by now all of it is on its targets. */
	t.conf.commit_interval = 3600 * NS_PER_S;
	both();
	CLEAN(meta_map(t.meta, iotest_ino(&t, 1), (struct tess_range){ 0, LEN }, m));
	ck_assert_int_eq(m->segments[0].state, META_STAGED);
	CLEAN(io_sync_all(t.io, &t.req));
	CLEAN(fault_set("stage.read@1=delay:700ms"));
	ck_assert_int_eq(pthread_create(&reader, NULL, read_main, p), 0);
	while (fault_hits("stage.read") == 0)
		clock_sleep(NS_PER_MS);
	/* As its owner does, for whom the reader is in another process, or came after it had looked for readers. */
	CLEAN(stage_unlink(t.io, m->segments[0].id));
	second = iotest_file(&t, 2);
	iotest_write(&t, second, 0, LEN, 2);
	CLEAN(iotest_publish(&t, second));
	ck_assert_int_eq(pthread_join(reader, NULL), 0);
	CLEAN(fault_set(NULL));
	want = iotest_bytes(LEN, 1);
	ck_assert_mem_eq(p, want, LEN);
	free(want);
	free(p);
	free(m);
	io_file_close(second, false);
	both_close();
}
END_TEST

/* Whoever names a file does not write in the administrator's list. */
START_TEST(what_is_rescued_is_one_line_each)
{
	static const char name[] = "x\t0\t9\t7.0\ny\\";
	struct meta_new in = { .mode = S_IFREG | 0644 };
	char rescued[128], path[200], line[4096];
	struct meta *other;
	struct io_file *f;
	struct meta_attr a;
	FILE *m;

	snprintf(rescued, sizeof(rescued), "%s/rescued", t.dir);
	t.conf.rescue_dir = rescued;
	iotest_open(&t);
	CLEAN(meta_create(t.meta, TESS_ROOT_INO, name, strlen(name), &in, 1, &a));
	CLEAN(io_file_open(t.io, &a, &f));
	iotest_write(&t, f, 0, 100, 1);
	CLEAN(meta_open(&other, t.kv, NULL));
	CLEAN(meta_session_begin(other, "/other", 1, NULL));
	CLEAN(meta_fence(other, meta_session_id(t.meta)));
	ck_assert_int_eq(iotest_publish(&t, f), -TESS_E_FENCED);
	snprintf(path, sizeof(path), "%s/%u/manifest", rescued, meta_session_id(t.meta));
	m = fopen(path, "r");
	ck_assert_ptr_nonnull(m);
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), m));
	ck_assert_ptr_nonnull(strstr(line, "x\\0110\\0119\\0117.0\\012"));
	ck_assert_ptr_nonnull(strstr(line, "y\\134\t0\t100\t"));
	ck_assert_ptr_null(fgets(line, sizeof(line), m));
	fclose(m);
	io_file_close(f, true);
	(void)iotest_close(&t, false);
	CLEAN(meta_session_end(other));
	other->kv = NULL;
	meta_close(other);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		a_file_is_seen_as_of_the_last_look,
		no_look_no_transaction,
		a_fresh_read_sees_what_is_published_when_it_begins,
		unpublished_bytes_stay_on_top_of_what_others_publish,
		a_truncate_cuts_what_others_appended_meanwhile,
		a_segment_that_is_gone_moves_the_file_on,
		appends_of_two_never_meet,
		a_failed_append_changes_nothing_and_the_next_one_is_whole,
		a_large_append_is_one_piece_over_several_segments,
		an_interval_publishes_without_a_close,
		an_interval_goes_on_after_a_long_failure,
		what_is_set_while_a_publish_is_under_way_is_not_taken_for_published,
		a_time_that_is_set_outlives_a_publish_that_was_under_way,
		bytes_that_only_move_along_never_undo_what_others_publish,
		not_even_when_they_were_on_their_way_during_a_publish,
		bytes_that_move_along_are_read_where_they_are_published,
		what_is_rescued_is_one_line_each,
		a_look_that_a_publish_overtakes_covers_what_was_asked_for,
		a_read_outlasts_those_who_overwrite_what_it_looked_up,
		the_end_of_a_publish_does_not_go_back_behind_a_newer_look,
		a_clone_does_not_go_back_behind_what_was_published_after_it,
		a_staging_file_that_serves_again_is_not_read_as_what_it_was,
	};

	return unit_run_with("io_view", tests, sizeof(tests) / sizeof(tests[0]), setup, teardown, 120);
}
