/* SPDX-License-Identifier: Apache-2.0 */
/* layer: io. What the data path promises of segments, one promise a test. */
#include "base/clock.h"
#include "base/err.h"
#include "iotest.h"
#include "meta/meta_impl.h"
#include "oclass/place.h"
#include "unit.h"
#include <stdint.h>

static struct iotest t;

static void setup(void)
{
	iotest_init(&t);
}

static void teardown(void)
{
	iotest_done(&t);
}

/* ---- segments ---- */

START_TEST(small_sequential_writes_make_whole_segments)
{
	struct io_file *f;

	t.segment = 4 << 20;
	iotest_open(&t);
	f = iotest_file(&t, 1);
	for (unsigned i = 0; i < 4096; i++)
		iotest_write(&t, f, (uint64_t)i * 4096, 4096, i);
	CLEAN(iotest_publish(&t, f));
	ck_assert_uint_eq(iotest_counter(&t, "segments.direct"), 4);
	ck_assert_uint_eq(iotest_objects(&t), 4);
	ck_assert_uint_eq(iotest_counter(&t, "publish.extents"), 4);
	for (unsigned i = 0; i < 4096; i += 97)
		iotest_expect(&t, f, (uint64_t)i * 4096, 4096, i);
	io_file_close(f, false);
}
END_TEST

START_TEST(interleaved_strided_writers_fill_whole_segments)
{
	const unsigned rec = 47008, n = 512;
	struct io_file *f;

	t.segment = 4 << 20;
	iotest_open(&t);
	f = iotest_file(&t, 1);
	for (unsigned i = 0; i < n; i += 2) {
		iotest_write(&t, f, (uint64_t)(i + 1) * rec, rec, i + 1);
		iotest_write(&t, f, (uint64_t)i * rec, rec, i);
	}
	CLEAN(iotest_publish(&t, f));
	ck_assert_uint_le(iotest_objects(&t), (uint64_t)n * rec / t.segment + 2);
	for (unsigned i = 0; i < n; i += 17)
		iotest_expect(&t, f, (uint64_t)i * rec, rec, i);
	io_file_close(f, false);
}
END_TEST

START_TEST(background_flushes_show_nothing_before_a_sync)
{
	struct meta_attr a;
	struct io_file *f;

	iotest_open(&t);
	f = iotest_file(&t, 1);
	iotest_write(&t, f, 0, 1 << 20, 1);
	for (unsigned i = 0; iotest_counter(&t, "segments.direct") < 10; i++) {
		ck_assert_uint_lt(i, 1000);
		clock_sleep(10 * NS_PER_MS);
	}
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	ck_assert_uint_eq(a.size, 0);
	iotest_expect(&t, f, 0, 1 << 20, 1);
	CLEAN(iotest_publish(&t, f));
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	ck_assert_uint_eq(a.size, 1 << 20);
	io_file_close(f, false);
}
END_TEST

START_TEST(memory_stays_within_the_budget)
{
	struct io_file *f[8];

	t.limit = 8 << 20;
	t.segment = 1 << 20;
	t.uri = "mem:?latency=1ms";
	iotest_open(&t);
	for (unsigned i = 0; i < 8; i++)
		f[i] = iotest_file(&t, i);
	for (unsigned k = 0; k < 64; k++)
		for (unsigned i = 0; i < 8; i++) {
			iotest_write(&t, f[i], (uint64_t)k * 70000, 60000, i + k);
			ck_assert_uint_le(budget_used(t.budget, MEM_DIRTY), (8 << 20) * 3 / 4);
		}
	for (unsigned i = 0; i < 8; i++) {
		iotest_expect(&t, f[i], 70000, 60000, i + 1);
		io_file_close(f[i], false);
	}
}
END_TEST

START_TEST(a_thousand_files_cost_what_was_written_to_them)
{
	enum { N = 1000 };
	static struct io_file *f[N];

	t.segment = 4 << 20;
	t.limit = 256 << 20;
	iotest_open(&t);
	for (unsigned i = 0; i < N; i++)
		f[i] = iotest_file(&t, i);
	for (unsigned k = 0; k < 12; k++)
		for (unsigned i = 0; i < N; i++)
			iotest_write(&t, f[i], k * 3000, 3000, i);
	/* A run's buffers double, so half of the last one may be empty. */
	ck_assert_uint_le(budget_used(t.budget, MEM_DIRTY), N * 12 * 3000 * 2);
	for (unsigned i = 0; i < N; i++)
		io_file_close(f[i], false);
	ck_assert_uint_eq(budget_used(t.budget, MEM_DIRTY), 0);
	iotest_expect_small(&t, 7, 3000);
}
END_TEST

START_TEST(a_small_overwrite_of_a_balanced_file_rewrites_one_bucket)
{
	struct meta_attr a;
	struct io_file *f;
	uint64_t put, got;

	t.segment = 1 << 20;
	t.limit = 256 << 20;
	iotest_open(&t);
	f = iotest_file(&t, 1);
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	a.layout.mapper = 2;
	io_file_layout_set(f, &a.layout);
	for (unsigned i = 0; i < 8; i++)
		iotest_write(&t, f, (uint64_t)i << 20, 1 << 20, i);
	CLEAN(iotest_publish(&t, f));
	ck_assert_uint_eq(iotest_counter(&t, "put.bytes"), 8 << 20);
	put = iotest_counter(&t, "put.bytes");
	got = iotest_counter(&t, "get.bytes");
	iotest_write(&t, f, (3 << 20) + 8192, 4096, 99);
	CLEAN(iotest_publish(&t, f));
	ck_assert_uint_eq(iotest_counter(&t, "put.bytes") - put, 1 << 20);
	ck_assert_uint_le(iotest_counter(&t, "get.bytes") - got, 1 << 20);
	iotest_expect(&t, f, 3 << 20, 8192, 3);
	iotest_expect(&t, f, (3 << 20) + 8192, 4096, 99);
	io_file_close(f, false);
	CLEAN(iotest_check(&t));
}
END_TEST

START_TEST(a_layout_beyond_what_a_target_takes_is_cut_to_it)
{
	struct meta_attr a;
	struct io_file *f;

	iotest_open(&t);
	CLEAN(iotest_close(&t, true));
	t.store[0]->caps.max_object = UINT64_C(5) << 40;
	t.store[1]->caps.max_object = 300000;
	iotest_open(&t);
	f = iotest_file(&t, 1);
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	a.layout.segment_size = 1 << 20;
	io_file_layout_set(f, &a.layout);
	iotest_write(&t, f, 0, 1 << 20, 5);
	CLEAN(iotest_publish(&t, f));
	iotest_expect(&t, f, 0, 1 << 20, 5);
	io_file_close(f, false);
	ck_assert_uint_ge(iotest_objects(&t), 3);
}
END_TEST

START_TEST(a_writer_that_may_not_wait_times_out)
{
	struct io_file *f;
	char *p;
	int e = 0;

	t.limit = 4 << 20;
	t.uri = "mem:?latency=1s";
	iotest_open(&t);
	f = iotest_file(&t, 1);
	p = iotest_bytes(1 << 20, 1);
	t.req.deadline = clock_now() + 200 * NS_PER_MS;
	for (unsigned i = 0; e == 0 && i < 32; i++)
		e = io_write(f, &t.req, (uint64_t)i << 20, p, 1 << 20);
	ck_assert_int_eq(e, -ETIMEDOUT);
	t.req.deadline = CLOCK_NEVER;
	free(p);
	io_file_close(f, true);
}
END_TEST

/* ---- garbage ---- */

START_TEST(overwritten_segments_leave_the_targets_after_a_checkpoint)
{
	struct io_file *f;

	t.conf.commit_interval = 20 * NS_PER_MS;
	iotest_open(&t);
	f = iotest_file(&t, 1);
	for (unsigned i = 0; i < 10; i++) {
		iotest_write(&t, f, 0, 256 << 10, i);
		CLEAN(iotest_publish(&t, f));
	}
	iotest_expect(&t, f, 0, 256 << 10, 9);
	for (unsigned i = 0; iotest_objects(&t) > 4; i++) {
		ck_assert_uint_lt(i, 1000);
		clock_sleep(10 * NS_PER_MS);
	}
	iotest_expect(&t, f, 0, 256 << 10, 9);
	io_file_close(f, false);
	CLEAN(iotest_check(&t));
}
END_TEST

START_TEST(bytes_that_were_overwritten_before_anybody_saw_them_leave_no_object)
{
	struct io_file *f;

	t.conf.commit_interval = 20 * NS_PER_MS;
	iotest_open(&t);
	f = iotest_file(&t, 1);
	for (unsigned i = 0; i < 20; i++)
		iotest_write(&t, f, 0, 256 << 10, i);
	CLEAN(iotest_publish(&t, f));
	for (unsigned i = 0; iotest_objects(&t) > 4; i++) {
		ck_assert_uint_lt(i, 1000);
		clock_sleep(10 * NS_PER_MS);
		iotest_write(&t, f, 1 << 20, 1, 1);	/* so that there is something to checkpoint */
		CLEAN(iotest_publish(&t, f));
	}
	iotest_expect(&t, f, 0, 256 << 10, 19);
	io_file_close(f, false);
}
END_TEST

START_TEST(gc_finds_orphans_of_dead_sessions_and_leaves_the_rest)
{
	struct io_gc gc = { .dry_run = true };
	char name[PLACE_NAME_LEN + 1];

	iotest_open(&t);
	iotest_put_small(&t, 1, 300000);
	CLEAN(io_sync_all(t.io, &t.req));
	unsigned before = iotest_objects(&t);

	place_name(UINT64_C(0x7777) << 32 | 5, 0, name);
	CLEAN(store_put(t.store[0], &t.req, name, "orphan", 6));
	CLEAN(store_put(t.store[0], &t.req, "foreign", "foreign", 7));
	place_name((uint64_t)meta_session_id(t.meta) << 32 | 0xffffff, 0, name);
	CLEAN(store_put(t.store[1], &t.req, name, "in flight", 9));
	CLEAN(io_gc(t.io, &gc));
	ck_assert_uint_eq(gc.orphan_objects, 1);
	ck_assert_uint_eq(gc.orphan_bytes, 6);
	ck_assert_uint_ge(gc.kept, 2);
	ck_assert_uint_eq(gc.deleted, 0);
	ck_assert_uint_eq(iotest_objects(&t), before + 3);
	gc = (struct io_gc){ 0 };
	CLEAN(io_gc(t.io, &gc));
	ck_assert_uint_eq(gc.orphan_objects, 1);
	ck_assert_uint_eq(iotest_objects(&t), before + 2);
	iotest_expect_small(&t, 1, 300000);
}
END_TEST

START_TEST(gc_knows_a_live_session_among_hundreds)
{
	enum { SESSIONS = 300 };
	struct meta *m[SESSIONS];
	struct io_gc gc = { 0 };
	char name[PLACE_NAME_LEN + 1];

	iotest_open(&t);
	for (unsigned i = 0; i < SESSIONS; i++) {
		CLEAN(meta_open(&m[i], t.kv, NULL));
		CLEAN(meta_session_begin(m[i], "/mnt", clock_wall(), NULL));
		place_name((uint64_t)meta_session_id(m[i]) << 32 | 1, 0, name);
		CLEAN(store_put(t.store[0], &t.req, name, "in flight", 9));
	}
	CLEAN(io_gc(t.io, &gc));
	ck_assert_uint_eq(gc.orphan_objects, 0);
	ck_assert_uint_eq(gc.kept, SESSIONS);
	for (unsigned i = 0; i < SESSIONS; i++) {
		CLEAN(meta_session_end(m[i]));
		m[i]->kv = NULL;	/* the mount's */
		meta_close(m[i]);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		small_sequential_writes_make_whole_segments,
		interleaved_strided_writers_fill_whole_segments,
		background_flushes_show_nothing_before_a_sync,
		memory_stays_within_the_budget,
		a_thousand_files_cost_what_was_written_to_them,
		a_small_overwrite_of_a_balanced_file_rewrites_one_bucket,
		a_layout_beyond_what_a_target_takes_is_cut_to_it,
		a_writer_that_may_not_wait_times_out,
		overwritten_segments_leave_the_targets_after_a_checkpoint,
		bytes_that_were_overwritten_before_anybody_saw_them_leave_no_object,
		gc_finds_orphans_of_dead_sessions_and_leaves_the_rest,
		gc_knows_a_live_session_among_hundreds,
	};

	return unit_run_with("io", tests, sizeof(tests) / sizeof(tests[0]), setup, teardown, 120);
}
