/* SPDX-License-Identifier: Apache-2.0 */
/* layer: io. Many threads on few files. */
#include "base/clock.h"
#include "base/pool.h"
#include "iotest.h"
#include "unit.h"
#include <pthread.h>
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

static atomic_bool stop;
static struct io_file *shared;

static void *write_own_stripe(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < 300; i++)
		iotest_write(&t, shared, ((uint64_t)(i % 50) * 4 + me) * 5000, 5000, me);
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

			iotest_fill(want, sizeof(want), me);
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
		iotest_expect(&t, shared, (uint64_t)i * 5000, 5000, i % 4);
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
		writers_readers_and_fsyncs_of_one_file_do_not_disturb_each_other,
		any_operations_at_once_leave_a_consistent_file_system,
	};

	return unit_run_with("io_threads", tests, sizeof(tests) / sizeof(tests[0]), setup, teardown, 120);
}
