/* SPDX-License-Identifier: Apache-2.0 */
/* layer: io. What the data path promises, one promise a test. */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/pool.h"
#include "base/text.h"
#include "iotest.h"
#include "oclass/place.h"
#include "unit.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct iotest t;

static void setup(void)
{
	iotest_init(&t);
}

static void teardown(void)
{
	iotest_done(&t);
}

static void fill(void *p, size_t n, unsigned what)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = (uint8_t)(what + i * 31 + (i >> 12));
}

static char *bytes(size_t n, unsigned what)
{
	char *p = malloc(n);

	ck_assert_ptr_nonnull(p);
	fill(p, n, what);
	return p;
}

static void write_at(struct io_file *f, uint64_t off, size_t n, unsigned what)
{
	char *p = bytes(n, what);
	int e = io_write(f, &t.req, off, p, n);

	free(p);
	ck_assert_int_eq(e, 0);
}

static void expect(struct io_file *f, uint64_t off, size_t n, unsigned what)
{
	char *p = bytes(n, what), *q = malloc(n);
	ssize_t got = io_read_sync(f, &t.req, off, q, n);

	if (got != (ssize_t)n)
		ck_abort_msg("read %zu at %llu: %zd (%s)", n, (unsigned long long)off, got,
			     got < 0 ? err_text((int)got) : "short");
	ck_assert(memcmp(p, q, n) == 0);
	free(p);
	free(q);
}

static int sync_file(struct io_file *f)
{
	return io_sync_file(f, &t.req, IO_PUBLISH);
}

static void small_file(unsigned n, size_t size)
{
	struct io_file *f = iotest_file(&t, n);

	write_at(f, 0, size, n);
	io_file_close(f, false);
}

static void check_file(unsigned n, size_t size)
{
	struct io_file *f = iotest_file(&t, n);

	expect(f, 0, size, n);
	io_file_close(f, false);
}

/* Waits for something that a background thread does, for as long as a test may take. */
static void until_zero(unsigned (*fn)(struct iotest *))
{
	for (unsigned i = 0; fn(&t) != 0; i++) {
		ck_assert_uint_lt(i, 3000);
		clock_sleep(10 * NS_PER_MS);
	}
}

/* ---- errors ---- */

START_TEST(a_failed_flush_is_reported_once_per_handle_and_retried)
{
	struct io_file *f;
	uint32_t a, b;

	iotest_open(&t);
	small_file(1, 200000);
	f = iotest_file(&t, 1);
	a = b = io_file_error_seq(f);
	CLEAN(fault_set("io.flush.put=EIO"));
	write_at(f, 0, 200000, 7);
	ck_assert_int_eq(err_fold(sync_file(f)), -EIO);
	ck_assert_int_eq(err_fold(io_file_error(f, &a)), -EIO);
	CLEAN(io_file_error(f, &a));
	ck_assert_int_eq(err_fold(io_file_error(f, &b)), -EIO);
	CLEAN(fault_set(NULL));
	/* The new bytes are still there, and the namespace still has the old ones. */
	expect(f, 0, 200000, 7);
	CLEAN(sync_file(f));
	CLEAN(io_file_error(f, &a));
	expect(f, 0, 200000, 7);
	io_file_close(f, false);
	check_file(1, 0);
}
END_TEST

START_TEST(a_failed_publish_keeps_the_old_content_readable_and_loses_nothing)
{
	struct meta_attr a;
	struct io_file *f;

	iotest_open(&t);
	small_file(1, 100000);
	f = iotest_file(&t, 1);
	CLEAN(io_truncate(f, &t.req, 0, 5));
	write_at(f, 0, 50000, 9);
	CLEAN(fault_set("io.flush.commit=ENOSPC"));
	ck_assert_int_eq(sync_file(f), -ENOSPC);
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	ck_assert_uint_eq(a.size, 100000);
	CLEAN(io_truncate(f, &t.req, 60000, 5));
	CLEAN(fault_set(NULL));
	CLEAN(sync_file(f));
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	ck_assert_uint_eq(a.size, 60000);
	expect(f, 0, 50000, 9);
	io_file_close(f, false);
}
END_TEST

START_TEST(a_truncating_rewrite_shows_the_old_or_the_new_file_and_never_an_empty_one)
{
	struct meta_attr a;
	struct io_file *f;

	iotest_open(&t);
	small_file(1, 300000);
	f = iotest_file(&t, 1);
	CLEAN(io_truncate(f, &t.req, 0, 1));
	write_at(f, 0, 200000, 3);
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	ck_assert_uint_eq(a.size, 300000);
	io_file_stat(f, &a);
	ck_assert_uint_eq(a.size, 200000);
	CLEAN(sync_file(f));
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	ck_assert_uint_eq(a.size, 200000);
	ck_assert_uint_eq(iotest_counter(&t, "publishes"), 2);
	io_file_close(f, false);
}
END_TEST

START_TEST(a_full_target_is_enospc)
{
	struct io_file *f;

	t.uri = "mem:?size=300K";
	iotest_open(&t);
	f = iotest_file(&t, 1);
	write_at(f, 0, 2 << 20, 1);
	ck_assert_int_eq(err_fold(sync_file(f)), -ENOSPC);
	CLEAN(io_truncate(f, &t.req, 0, 1));
	CLEAN(sync_file(f));
	io_file_close(f, false);
}
END_TEST

START_TEST(a_target_full_of_the_dead_takes_the_living)
{
	struct io_file *f;

	t.lmdb = true;
	t.uri = "kv:@?size=16M";
	t.segment = 1u << 20;
	t.conf.commit_interval = 3600 * NS_PER_S;	/* no collection but the one that is needed */
	iotest_open(&t);
	f = iotest_file(&t, 0);
	for (unsigned i = 0; i < 12; i++) {
		write_at(f, 0, 6u << 20, i);
		ck_assert_int_eq(io_sync_file(f, &t.req, IO_PUBLISH), 0);
	}
	expect(f, 0, 6u << 20, 11);
	io_file_close(f, false);
}
END_TEST

START_TEST(a_full_staging_area_is_enospc_after_the_deadline)
{
	struct io_file *f;

	t.conf.staging_size = 64 << 10;
	iotest_open(&t);
	CLEAN(fault_set("stage.seal.put=EIO"));
	f = iotest_file(&t, 1);
	write_at(f, 0, 40000, 1);
	CLEAN(sync_file(f));
	write_at(f, 40000, 40000, 1);
	t.req.deadline = clock_now() + 300 * NS_PER_MS;
	ck_assert_int_eq(sync_file(f), -TESS_E_STAGE_FULL);
	t.req.deadline = CLOCK_NEVER;
	CLEAN(fault_set(NULL));
	CLEAN(sync_file(f));
	io_file_close(f, false);
}
END_TEST

START_TEST(corrupt_bytes_are_an_error_and_one_bad_transfer_is_not)
{
	struct io_file *f;
	char p[4096];

	t.uri = "mem:?fault=get:corrupt";
	iotest_open(&t);
	small_file(1, 300000);
	CLEAN(io_sync_all(t.io, &t.req));
	f = iotest_file(&t, 1);
	ck_assert_int_eq((int)io_read_sync(f, &t.req, 8192, p, sizeof(p)), -TESS_E_CHECKSUM);
	io_file_close(f, false);
	iotest_done(&t);
	iotest_init(&t);
	t.uri = "mem:?fault=get:nth=1:corrupt";
	iotest_open(&t);
	small_file(1, 300000);
	CLEAN(io_sync_all(t.io, &t.req));
	check_file(1, 300000);
	ck_assert_uint_ge(iotest_counter(&t, "checksum.errors"), 1);
}
END_TEST

START_TEST(a_missing_object_is_named_as_such)
{
	struct store_list l = { .max = 64 };
	struct tess_key keys[64];
	struct tess_objinfo infos[64];
	struct store_op op = { .req = &t.req, .code = STORE_LIST, .list = &l };
	struct io_file *f;
	char p[100];

	iotest_open(&t);
	small_file(1, 300000);
	CLEAN(io_sync_all(t.io, &t.req));
	for (unsigned i = 0; i < IOTEST_TARGETS; i++) {
		l = (struct store_list){ .max = 64, .keys = keys, .infos = infos };
		CLEAN(store_do(t.store[i], &op));
		for (unsigned k = 0; k < l.n; k++)
			CLEAN(store_del(t.store[i], &t.req, keys[k].name));
	}
	f = iotest_file(&t, 1);
	ck_assert_int_eq((int)io_read_sync(f, &t.req, 5000, p, sizeof(p)), -TESS_E_NO_OBJECT);
	io_file_close(f, false);
}
END_TEST

/* ---- staging ---- */

START_TEST(a_thousand_small_files_are_few_puts)
{
	t.segment = 4 << 20;
	t.conf.idle_seal = 3600 * NS_PER_S;
	iotest_open(&t);
	for (unsigned i = 0; i < 1000; i++)
		small_file(i, 3901);
	ck_assert_uint_eq(iotest_objects(&t), 0);
	check_file(500, 3901);
	CLEAN(io_sync_all(t.io, &t.req));
	ck_assert_uint_eq(iotest_objects(&t), 1);
	for (unsigned i = 0; i < 1000; i += 7)
		check_file(i, 3901);
	CLEAN(iotest_check(&t));
	CLEAN(iotest_close(&t, true));
	ck_assert_uint_eq(iotest_staging(&t), 0);
}
END_TEST

START_TEST(an_idle_open_segment_is_sealed_and_its_file_collected)
{
	t.conf.idle_seal = 20 * NS_PER_MS;
	t.conf.commit_interval = 20 * NS_PER_MS;
	iotest_open(&t);
	small_file(1, 5000);
	until_zero(iotest_staging);
	ck_assert_uint_eq(iotest_objects(&t), 1);
	check_file(1, 5000);
}
END_TEST

START_TEST(a_failed_seal_loses_nothing_and_is_tried_again)
{
	t.conf.idle_seal = 10 * NS_PER_MS;
	t.conf.commit_interval = 20 * NS_PER_MS;
	iotest_open(&t);
	CLEAN(fault_set("stage.seal.put@1=EIO,stage.seal.commit@1=EIO"));
	small_file(1, 5000);
	check_file(1, 5000);
	until_zero(iotest_staging);
	CLEAN(fault_set(NULL));
	check_file(1, 5000);
	CLEAN(iotest_check(&t));
}
END_TEST

/* The session dies with published bytes in staging and unpublished ones in memory. */
static void die_with_staged_bytes(void)
{
	struct io_file *f;

	t.conf.idle_seal = 3600 * NS_PER_S;
	iotest_open(&t);
	for (unsigned i = 0; i < 50; i++)
		small_file(i, 3000 + i);
	f = iotest_file(&t, 60);
	write_at(f, 0, 1000, 60);
	kill(getpid(), SIGKILL);
}

START_TEST(what_a_killed_session_published_is_adopted_and_drained)
{
	int status;
	pid_t pid;

	t.lmdb = true;
	t.uri = "kv:@?size=64M";
	pid = fork();
	if (pid == 0)
		die_with_staged_bytes();
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	t.formatted = true;
	t.conf.commit_interval = 50 * NS_PER_MS;
	iotest_open(&t);
	for (unsigned i = 0; i < 50; i++)
		check_file(i, 3000 + i);
	CLEAN(iotest_close(&t, true));
	ck_assert_uint_eq(iotest_staging(&t), 0);
	iotest_open(&t);
	for (unsigned i = 0; i < 50; i++)
		check_file(i, 3000 + i);
	CLEAN(iotest_check(&t));
}
END_TEST

static void *fsync_some(void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < 8; i++) {
		struct io_file *f = iotest_file(&t, n * 100 + i);

		write_at(f, 0, 2000, n * 100 + i);
		if (io_sync_file(f, &t.req, IO_DURABLE) < 0)
			abort();
		io_file_close(f, false);
	}
	return NULL;
}

START_TEST(concurrent_fsyncs_share_seals)
{
	pthread_t th[16];

	t.uri = "mem:?latency=5ms";
	t.conf.fsync_local = false;
	t.conf.idle_seal = 3600 * NS_PER_S;
	iotest_open(&t);
	for (uintptr_t i = 0; i < 16; i++)
		CLEAN(thread_start(&th[i], "t", fsync_some, (void *)i));
	for (unsigned i = 0; i < 16; i++)
		pthread_join(th[i], NULL);
	ck_assert_uint_lt(iotest_counter(&t, "segments.sealed"), 16 * 8);
	for (unsigned i = 0; i < 16; i++)
		check_file(i * 100 + 7, 2000);
}
END_TEST

/* ---- segments ---- */

START_TEST(small_sequential_writes_make_whole_segments)
{
	struct io_file *f;

	t.segment = 4 << 20;
	iotest_open(&t);
	f = iotest_file(&t, 1);
	for (unsigned i = 0; i < 4096; i++)
		write_at(f, (uint64_t)i * 4096, 4096, i);
	CLEAN(sync_file(f));
	ck_assert_uint_eq(iotest_counter(&t, "segments.direct"), 4);
	ck_assert_uint_eq(iotest_objects(&t), 4);
	ck_assert_uint_eq(iotest_counter(&t, "publish.extents"), 4);
	for (unsigned i = 0; i < 4096; i += 97)
		expect(f, (uint64_t)i * 4096, 4096, i);
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
		write_at(f, (uint64_t)(i + 1) * rec, rec, i + 1);
		write_at(f, (uint64_t)i * rec, rec, i);
	}
	CLEAN(sync_file(f));
	ck_assert_uint_le(iotest_objects(&t), (uint64_t)n * rec / t.segment + 2);
	for (unsigned i = 0; i < n; i += 17)
		expect(f, (uint64_t)i * rec, rec, i);
	io_file_close(f, false);
}
END_TEST

START_TEST(background_flushes_show_nothing_before_a_sync)
{
	struct meta_attr a;
	struct io_file *f;

	iotest_open(&t);
	f = iotest_file(&t, 1);
	write_at(f, 0, 1 << 20, 1);
	for (unsigned i = 0; iotest_counter(&t, "segments.direct") < 10; i++) {
		ck_assert_uint_lt(i, 1000);
		clock_sleep(10 * NS_PER_MS);
	}
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	ck_assert_uint_eq(a.size, 0);
	expect(f, 0, 1 << 20, 1);
	CLEAN(sync_file(f));
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
			write_at(f[i], (uint64_t)k * 70000, 60000, i + k);
			ck_assert_uint_le(budget_used(t.budget, MEM_DIRTY), (8 << 20) * 3 / 4);
		}
	for (unsigned i = 0; i < 8; i++) {
		expect(f[i], 70000, 60000, i + 1);
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
			write_at(f[i], k * 3000, 3000, i);
	/* A run's buffers double, so half of the last one may be empty. */
	ck_assert_uint_le(budget_used(t.budget, MEM_DIRTY), N * 12 * 3000 * 2);
	for (unsigned i = 0; i < N; i++)
		io_file_close(f[i], false);
	ck_assert_uint_eq(budget_used(t.budget, MEM_DIRTY), 0);
	check_file(7, 3000);
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
		write_at(f, (uint64_t)i << 20, 1 << 20, i);
	CLEAN(sync_file(f));
	ck_assert_uint_eq(iotest_counter(&t, "put.bytes"), 8 << 20);
	put = iotest_counter(&t, "put.bytes");
	got = iotest_counter(&t, "get.bytes");
	write_at(f, (3 << 20) + 8192, 4096, 99);
	CLEAN(sync_file(f));
	ck_assert_uint_eq(iotest_counter(&t, "put.bytes") - put, 1 << 20);
	ck_assert_uint_le(iotest_counter(&t, "get.bytes") - got, 1 << 20);
	expect(f, 3 << 20, 8192, 3);
	expect(f, (3 << 20) + 8192, 4096, 99);
	io_file_close(f, false);
	CLEAN(iotest_check(&t));
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
	p = bytes(1 << 20, 1);
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
		write_at(f, 0, 256 << 10, i);
		CLEAN(sync_file(f));
	}
	expect(f, 0, 256 << 10, 9);
	for (unsigned i = 0; iotest_objects(&t) > 4; i++) {
		ck_assert_uint_lt(i, 1000);
		clock_sleep(10 * NS_PER_MS);
	}
	expect(f, 0, 256 << 10, 9);
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
		write_at(f, 0, 256 << 10, i);
	CLEAN(sync_file(f));
	for (unsigned i = 0; iotest_objects(&t) > 4; i++) {
		ck_assert_uint_lt(i, 1000);
		clock_sleep(10 * NS_PER_MS);
		write_at(f, 1 << 20, 1, 1);	/* so that there is something to checkpoint */
		CLEAN(sync_file(f));
	}
	expect(f, 0, 256 << 10, 19);
	io_file_close(f, false);
}
END_TEST

START_TEST(gc_finds_orphans_of_dead_sessions_and_leaves_the_rest)
{
	struct io_gc gc = { .dry_run = true };
	char name[PLACE_NAME_LEN + 1];

	iotest_open(&t);
	small_file(1, 300000);
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
	check_file(1, 300000);
}
END_TEST

/* ---- reading ---- */

struct waiter {
	struct io_read r;
	atomic_bool    over;
};

static void wake(struct io_read *r)
{
	atomic_store(&((struct waiter *)r)->over, true);
}

/* A read of a stream, compared with what write_at(f, 0, …, what) wrote. */
static void stream_read(struct io_file *f, struct io_stream *s, uint64_t off, size_t n, const char *want)
{
	struct waiter w = { .r = { .req = &t.req, .file = f, .stream = s, .off = off, .len = n,
				   .done = wake } };
	uint64_t at = 0;

	io_read(&w.r);
	while (!atomic_load(&w.over))
		clock_sleep(NS_PER_MS / 10);
	CLEAN(w.r.err);
	ck_assert_uint_eq(w.r.n, n);
	ck_assert_uint_le(w.r.niov, IO_READ_IOVS);
	for (unsigned i = 0; i < w.r.niov; at += w.r.iov[i++].iov_len)
		ck_assert(memcmp(w.r.iov[i].iov_base, want + off + at, w.r.iov[i].iov_len) == 0);
	ck_assert_uint_eq(at, n);
	io_read_release(&w.r);
}

START_TEST(a_sequential_reader_is_read_ahead_of)
{
	struct io_stream st = { 0 };
	char *want = bytes(16 << 20, 1);
	struct io_file *f;

	t.segment = 4 << 20;
	t.limit = 256 << 20;
	t.uri = "mem:?latency=2ms";
	iotest_open(&t);
	f = iotest_file(&t, 1);
	write_at(f, 0, 16 << 20, 1);
	CLEAN(io_sync_all(t.io, &t.req));
	for (uint64_t at = 0; at < 16 << 20; at += 128 << 10)
		stream_read(f, &st, at, 128 << 10, want);
	ck_assert_uint_ge(iotest_counter(&t, "ahead.used"), 2);
	/* Each byte was fetched once, but for what came before the run was seen. */
	ck_assert_uint_le(iotest_counter(&t, "get.bytes"), (16 << 20) + (512 << 10));
	io_file_close(f, false);
	free(want);
}
END_TEST

START_TEST(a_random_reader_fetches_what_it_asks_for)
{
	struct io_stream st = { 0 };
	char *want = bytes(16 << 20, 1);
	struct io_file *f;

	t.segment = 4 << 20;
	t.limit = 256 << 20;
	iotest_open(&t);
	f = iotest_file(&t, 1);
	write_at(f, 0, 16 << 20, 1);
	CLEAN(io_sync_all(t.io, &t.req));
	for (unsigned i = 1; i <= 200; i++)
		stream_read(f, &st, (uint64_t)(i * 7919 % 4096) * 4096, 4096, want);
	ck_assert_uint_eq(iotest_counter(&t, "get.bytes"), 200 * 4096);
	ck_assert_uint_eq(iotest_counter(&t, "gets"), 200);
	io_file_close(f, false);
	free(want);
}
END_TEST

START_TEST(holes_read_as_zeros_and_are_found)
{
	struct io_file *f;
	char p[8192], z[8192] = { 0 };
	uint64_t at;

	iotest_open(&t);
	f = iotest_file(&t, 1);
	write_at(f, 1 << 20, 4096, 1);
	CLEAN(io_truncate(f, &t.req, UINT64_C(1) << 40, 1));
	for (unsigned i = 0; i < 2; i++) {
		CLEAN(io_seek(f, 0, true, &at));
		ck_assert_uint_eq(at, 1 << 20);
		CLEAN(io_seek(f, at, false, &at));
		ck_assert_uint_eq(at, (1 << 20) + 4096);
		ck_assert_int_eq(io_seek(f, at, true, &at), -ENXIO);
		ck_assert_int_eq(io_read_sync(f, &t.req, UINT64_C(1) << 39, p, sizeof(p)), sizeof(p));
		ck_assert(memcmp(p, z, sizeof(p)) == 0);
		CLEAN(sync_file(f));
	}
	ck_assert_int_eq(io_write(f, &t.req, TESS_FILE_MAX, "x", 1), -EFBIG);
	io_file_close(f, false);
}
END_TEST

START_TEST(a_clone_moves_no_byte)
{
	struct io_file *a, *b;
	struct meta_attr at;
	uint64_t put;

	iotest_open(&t);
	a = iotest_file(&t, 1);
	b = iotest_file(&t, 2);
	write_at(a, 0, 1 << 20, 1);
	CLEAN(sync_file(a));
	put = iotest_counter(&t, "put.bytes");
	CLEAN(io_clone(a, 0, b, 0, 1 << 20, &t.req, 1, &at));
	ck_assert_uint_eq(iotest_counter(&t, "put.bytes"), put);
	expect(b, 0, 1 << 20, 1);
	write_at(a, 0, 1 << 20, 2);
	CLEAN(sync_file(a));
	expect(b, 0, 1 << 20, 1);
	io_file_close(a, false);
	io_file_close(b, false);
	CLEAN(iotest_check(&t));
}
END_TEST

/* ---- threads ---- */

static atomic_bool stop;
static struct io_file *shared;

static void *write_own_stripe(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < 300; i++)
		write_at(shared, ((uint64_t)(i % 50) * 4 + me) * 5000, 5000, me);
	return NULL;
}

static void *read_all_stripes(void *arg)
{
	struct io_stream s = { 0 };

	(void)s;
	(void)arg;
	while (!atomic_load(&stop))
		for (unsigned i = 0; i < 50; i++) {
			static const uint8_t zero[5000];
			uint8_t p[5000], want[5000];
			unsigned me = i % 4;
			ssize_t n = io_read_sync(shared, &t.req, ((uint64_t)i * 4 + me) * 5000, p, 5000);

			fill(want, sizeof(want), me);
			if (n < 0 || (n > 0 && memcmp(p, want, (size_t)n) && memcmp(p, zero, (size_t)n)))
				abort();
		}
	return NULL;
}

static void *sync_often(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop))
		if (io_sync_file(shared, &t.req, IO_DURABLE) < 0)
			abort();
	return NULL;
}

START_TEST(writers_readers_and_fsyncs_of_one_file_do_not_disturb_each_other)
{
	pthread_t w[4], r[2], s[2];

	t.conf.idle_seal = 10 * NS_PER_MS;
	t.conf.commit_interval = 10 * NS_PER_MS;
	t.conf.direct_min = 32 << 10;
	iotest_open(&t);
	shared = iotest_file(&t, 1);
	for (uintptr_t i = 0; i < 4; i++)
		CLEAN(thread_start(&w[i], "w", write_own_stripe, (void *)i));
	for (unsigned i = 0; i < 2; i++) {
		CLEAN(thread_start(&r[i], "r", read_all_stripes, NULL));
		CLEAN(thread_start(&s[i], "s", sync_often, NULL));
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(w[i], NULL);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(r[i], NULL);
		pthread_join(s[i], NULL);
	}
	for (unsigned i = 0; i < 200; i++)
		expect(shared, (uint64_t)i * 5000, 5000, i % 4);
	io_file_close(shared, false);
	CLEAN(iotest_check(&t));
}
END_TEST

static struct io_file *both[2];

static void *do_anything(void *arg)
{
	uint64_t seed = 88172645463325252u + (uintptr_t)arg * 7919;
	static const char bytes_[300000];
	char *p = malloc(65536);
	struct meta_attr a;
	uint64_t at;

	for (unsigned i = 0; i < 250; i++) {
		struct io_file *f = both[i % 2];

		seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
		uint64_t off = seed >> 20 & 0xfffff, len = 1 + (seed >> 40 & 0xffff);

		switch (seed >> 60) {
		case 0:
			(void)io_truncate(f, &t.req, off, 1);
			break;
		case 1:
			(void)io_punch(f, &t.req, (struct tess_range){ off, len }, 1);
			break;
		case 2:
			CLEAN(io_sync_file(f, &t.req, seed & 1 ? IO_DURABLE : IO_PUBLISH));
			break;
		case 3:
			CLEAN(io_clone(f, 0, both[(i + 1) % 2], off, len, &t.req, 1, &a));
			break;
		case 4:
			(void)io_seek(f, off, seed & 1, &at);
			break;
		case 5:
		case 6:
		case 7:
		case 8:
			if (io_read_sync(f, &t.req, off, p, len < 65536 ? len : 65536) < 0)
				abort();
			break;
		default:
			CLEAN(io_write(f, &t.req, off, bytes_, len * 4));
		}
	}
	free(p);
	return NULL;
}

START_TEST(any_operations_at_once_leave_a_consistent_file_system)
{
	pthread_t th[6];

	t.conf.idle_seal = 5 * NS_PER_MS;
	t.conf.commit_interval = 5 * NS_PER_MS;
	t.conf.direct_min = 32 << 10;
	iotest_open(&t);
	both[0] = iotest_file(&t, 1);
	both[1] = iotest_file(&t, 2);
	for (uintptr_t i = 0; i < 6; i++)
		CLEAN(thread_start(&th[i], "any", do_anything, (void *)i));
	for (unsigned i = 0; i < 6; i++)
		pthread_join(th[i], NULL);
	io_file_close(both[0], false);
	io_file_close(both[1], false);
	CLEAN(iotest_close(&t, true));
	iotest_open(&t);
	CLEAN(iotest_check(&t));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		a_failed_flush_is_reported_once_per_handle_and_retried,
		a_failed_publish_keeps_the_old_content_readable_and_loses_nothing,
		a_truncating_rewrite_shows_the_old_or_the_new_file_and_never_an_empty_one,
		a_full_target_is_enospc,
		a_target_full_of_the_dead_takes_the_living,
		a_full_staging_area_is_enospc_after_the_deadline,
		corrupt_bytes_are_an_error_and_one_bad_transfer_is_not,
		a_missing_object_is_named_as_such,
		a_thousand_small_files_are_few_puts,
		an_idle_open_segment_is_sealed_and_its_file_collected,
		a_failed_seal_loses_nothing_and_is_tried_again,
		what_a_killed_session_published_is_adopted_and_drained,
		concurrent_fsyncs_share_seals,
		small_sequential_writes_make_whole_segments,
		interleaved_strided_writers_fill_whole_segments,
		background_flushes_show_nothing_before_a_sync,
		memory_stays_within_the_budget,
		a_thousand_files_cost_what_was_written_to_them,
		a_small_overwrite_of_a_balanced_file_rewrites_one_bucket,
		a_writer_that_may_not_wait_times_out,
		overwritten_segments_leave_the_targets_after_a_checkpoint,
		bytes_that_were_overwritten_before_anybody_saw_them_leave_no_object,
		gc_finds_orphans_of_dead_sessions_and_leaves_the_rest,
		a_sequential_reader_is_read_ahead_of,
		a_random_reader_fetches_what_it_asks_for,
		holes_read_as_zeros_and_are_found,
		a_clone_moves_no_byte,
		writers_readers_and_fsyncs_of_one_file_do_not_disturb_each_other,
		any_operations_at_once_leave_a_consistent_file_system,
	};
	Suite *s = suite_create("io");
	TCase *c = tcase_create("io");

	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, setup, teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	return unit_run(s);
}
