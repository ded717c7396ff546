/* SPDX-License-Identifier: Apache-2.0 */
/* layer: io. What goes wrong below is told, once, and loses nothing. */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "iotest.h"
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

START_TEST(a_failed_flush_is_reported_once_per_handle_and_retried)
{
	struct io_file *f;
	uint32_t a, b;

	iotest_open(&t);
	iotest_put_small(&t, 1, 200000);
	f = iotest_file(&t, 1);
	a = b = io_file_error_seq(f);
	CLEAN(fault_set("io.flush.put=EIO"));
	iotest_write(&t, f, 0, 200000, 7);
	ck_assert_int_eq(err_fold(iotest_publish(&t, f)), -EIO);
	ck_assert_int_eq(err_fold(io_file_error(f, &a)), -EIO);
	CLEAN(io_file_error(f, &a));
	ck_assert_int_eq(err_fold(io_file_error(f, &b)), -EIO);
	CLEAN(fault_set(NULL));
	/* The new bytes are still there, and the namespace still has the old ones. */
	iotest_expect(&t, f, 0, 200000, 7);
	CLEAN(iotest_publish(&t, f));
	CLEAN(io_file_error(f, &a));
	iotest_expect(&t, f, 0, 200000, 7);
	io_file_close(f, false);
	iotest_expect_small(&t, 1, 0);
}
END_TEST

START_TEST(a_failed_publish_keeps_the_old_content_readable_and_loses_nothing)
{
	struct meta_attr a;
	struct io_file *f;

	iotest_open(&t);
	iotest_put_small(&t, 1, 100000);
	f = iotest_file(&t, 1);
	CLEAN(io_truncate(f, &t.req, 0, 5));
	iotest_write(&t, f, 0, 50000, 9);
	CLEAN(fault_set("io.flush.commit=ENOSPC"));
	ck_assert_int_eq(iotest_publish(&t, f), -ENOSPC);
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	ck_assert_uint_eq(a.size, 100000);
	CLEAN(io_truncate(f, &t.req, 60000, 5));
	CLEAN(fault_set(NULL));
	CLEAN(iotest_publish(&t, f));
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	ck_assert_uint_eq(a.size, 60000);
	iotest_expect(&t, f, 0, 50000, 9);
	io_file_close(f, false);
}
END_TEST

START_TEST(a_truncating_rewrite_shows_the_old_or_the_new_file_and_never_an_empty_one)
{
	struct meta_attr a;
	struct io_file *f;

	iotest_open(&t);
	iotest_put_small(&t, 1, 300000);
	f = iotest_file(&t, 1);
	CLEAN(io_truncate(f, &t.req, 0, 1));
	iotest_write(&t, f, 0, 200000, 3);
	CLEAN(meta_getattr(t.meta, iotest_ino(&t, 1), &a));
	ck_assert_uint_eq(a.size, 300000);
	io_file_stat(f, &a);
	ck_assert_uint_eq(a.size, 200000);
	CLEAN(iotest_publish(&t, f));
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
	iotest_write(&t, f, 0, 2 << 20, 1);
	ck_assert_int_eq(err_fold(iotest_publish(&t, f)), -ENOSPC);
	CLEAN(io_truncate(f, &t.req, 0, 1));
	CLEAN(iotest_publish(&t, f));
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
		iotest_write(&t, f, 0, 6u << 20, i);
		ck_assert_int_eq(io_sync_file(f, &t.req, IO_PUBLISH), 0);
	}
	iotest_expect(&t, f, 0, 6u << 20, 11);
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
	iotest_write(&t, f, 0, 40000, 1);
	CLEAN(iotest_publish(&t, f));
	iotest_write(&t, f, 40000, 40000, 1);
	t.req.deadline = clock_now() + 300 * NS_PER_MS;
	ck_assert_int_eq(iotest_publish(&t, f), -TESS_E_STAGE_FULL);
	t.req.deadline = CLOCK_NEVER;
	CLEAN(fault_set(NULL));
	CLEAN(iotest_publish(&t, f));
	io_file_close(f, false);
}
END_TEST

START_TEST(corrupt_bytes_are_an_error_and_one_bad_transfer_is_not)
{
	struct io_file *f;
	char p[4096];

	t.uri = "mem:?fault=get:corrupt";
	iotest_open(&t);
	iotest_put_small(&t, 1, 300000);
	CLEAN(io_sync_all(t.io, &t.req));
	f = iotest_file(&t, 1);
	ck_assert_int_eq((int)io_read_sync(f, &t.req, 8192, p, sizeof(p)), -TESS_E_CHECKSUM);
	io_file_close(f, false);
	iotest_done(&t);
	iotest_init(&t);
	t.uri = "mem:?fault=get:nth=1:corrupt";
	iotest_open(&t);
	iotest_put_small(&t, 1, 300000);
	CLEAN(io_sync_all(t.io, &t.req));
	iotest_expect_small(&t, 1, 300000);
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
	iotest_put_small(&t, 1, 300000);
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
	};

	return unit_run_with("io_errors", tests, sizeof(tests) / sizeof(tests[0]), setup, teardown, 120);
}
