/* SPDX-License-Identifier: Apache-2.0 */
/* layer: io. What a read fetches, ahead and not. */
#include "base/clock.h"
#include "base/err.h"
#include "iotest.h"
#include "unit.h"
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

static struct iotest t;

static void setup(void)
{
	iotest_init(&t);
}

static void teardown(void)
{
	iotest_done(&t);
}

struct waiter {
	struct io_read r;
	atomic_bool    over;
};

static void wake(struct io_read *r)
{
	atomic_store(&((struct waiter *)r)->over, true);
}

/* A read of a stream, compared with what iotest_write() put there. */
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
	char *want = iotest_bytes(16 << 20, 1);
	struct io_file *f;

	t.segment = 4 << 20;
	t.limit = 256 << 20;
	t.uri = "mem:?latency=2ms";
	iotest_open(&t);
	f = iotest_file(&t, 1);
	iotest_write(&t, f, 0, 16 << 20, 1);
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
	char *want = iotest_bytes(16 << 20, 1);
	struct io_file *f;

	t.segment = 4 << 20;
	t.limit = 256 << 20;
	iotest_open(&t);
	f = iotest_file(&t, 1);
	iotest_write(&t, f, 0, 16 << 20, 1);
	CLEAN(io_sync_all(t.io, &t.req));
	for (unsigned i = 1; i <= 200; i++)
		stream_read(f, &st, (uint64_t)(i * 7919 % 4096) * 4096, 4096, want);
	ck_assert_uint_eq(iotest_counter(&t, "get.bytes"), 200 * 4096);
	ck_assert_uint_eq(iotest_counter(&t, "gets"), 200);
	io_file_close(f, false);
	free(want);
}
END_TEST

START_TEST(a_file_that_is_read_all_over_is_fetched_by_the_chunk_but_no_sooner)
{
	struct io_stream st = { 0 };
	char *want = iotest_bytes(8 << 20, 1);
	struct io_file *f;
	uint64_t got;

	t.segment = 4 << 20;
	t.limit = 256 << 20;
	t.uri = "mem:?latency=1us";	/* not local: a request is a round trip */
	iotest_open(&t);
	f = iotest_file(&t, 1);
	iotest_write(&t, f, 0, 8 << 20, 1);
	CLEAN(io_sync_all(t.io, &t.req));
	/* An eighth of each chunk of 4 MiB: 128 pages. */
	for (unsigned i = 1; i <= 128; i++)
		stream_read(f, &st, (uint64_t)(i * 397 % 1024) * 4096, 4096, want);
	ck_assert_uint_eq(iotest_counter(&t, "get.bytes"), 128 * 4096);
	for (unsigned i = 129; i <= 1024; i++)
		stream_read(f, &st, (uint64_t)(i * 397 % 1024) * 4096, 4096, want);
	got = iotest_counter(&t, "get.bytes");
	ck_assert_uint_eq(got, 128 * 4096 + (4 << 20));
	ck_assert_uint_eq(iotest_counter(&t, "gets"), 129);
	/* Those of the other are their own. */
	stream_read(f, &st, 5 << 20, 4096, want);
	ck_assert_uint_eq(iotest_counter(&t, "get.bytes"), got + 4096);
	io_file_close(f, false);
	free(want);
}
END_TEST

START_TEST(handles_that_share_a_run_are_read_ahead_of_together)
{
	struct io_stream st[2] = { { 0 } };
	char *want = iotest_bytes(32 << 20, 1);
	struct io_file *f;

	t.segment = 4 << 20;
	t.limit = 256 << 20;
	t.uri = "mem:?latency=1us";
	iotest_open(&t);
	f = iotest_file(&t, 1);
	iotest_write(&t, f, 0, 32 << 20, 1);
	CLEAN(io_sync_all(t.io, &t.req));
	/* Thue's and Morse's order: no two gaps in a row are alike, for either of them. */
	for (uint64_t i = 0; i < 32; i++)
		stream_read(f, &st[__builtin_parityll(i)], i << 20, 1 << 20, want);
	ck_assert_uint_le(iotest_counter(&t, "get.bytes"), (32 << 20) + (2 << 20));
	ck_assert_uint_le(iotest_counter(&t, "gets"), 12);
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
	iotest_write(&t, f, 1 << 20, 4096, 1);
	CLEAN(io_truncate(f, &t.req, UINT64_C(1) << 40, 1));
	for (unsigned i = 0; i < 2; i++) {
		CLEAN(io_seek(f, 0, true, &at));
		ck_assert_uint_eq(at, 1 << 20);
		CLEAN(io_seek(f, at, false, &at));
		ck_assert_uint_eq(at, (1 << 20) + 4096);
		ck_assert_int_eq(io_seek(f, at, true, &at), -ENXIO);
		ck_assert_int_eq(io_read_sync(f, &t.req, UINT64_C(1) << 39, p, sizeof(p)), sizeof(p));
		ck_assert(memcmp(p, z, sizeof(p)) == 0);
		CLEAN(iotest_publish(&t, f));
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
	iotest_write(&t, a, 0, 1 << 20, 1);
	CLEAN(iotest_publish(&t, a));
	put = iotest_counter(&t, "put.bytes");
	CLEAN(io_clone(a, 0, b, 0, 1 << 20, &t.req, 1, &at));
	ck_assert_uint_eq(iotest_counter(&t, "put.bytes"), put);
	iotest_expect(&t, b, 0, 1 << 20, 1);
	iotest_write(&t, a, 0, 1 << 20, 2);
	CLEAN(iotest_publish(&t, a));
	iotest_expect(&t, b, 0, 1 << 20, 1);
	io_file_close(a, false);
	io_file_close(b, false);
	CLEAN(iotest_check(&t));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		a_sequential_reader_is_read_ahead_of,
		a_random_reader_fetches_what_it_asks_for,
		a_file_that_is_read_all_over_is_fetched_by_the_chunk_but_no_sooner,
		handles_that_share_a_run_are_read_ahead_of_together,
		holes_read_as_zeros_and_are_found,
		a_clone_moves_no_byte,
	};

	return unit_run_with("io_read", tests, sizeof(tests) / sizeof(tests[0]), setup, teardown, 120);
}
