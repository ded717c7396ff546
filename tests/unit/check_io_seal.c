/* SPDX-License-Identifier: Apache-2.0 */
/* layer: io. What an fsync that ends on targets waits for, and what it does not. */
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "base/pool.h"
#include "iotest.h"
#include "oclass/place.h"
#include "unit.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
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

/* The session dies with published bytes in staging and unpublished ones in memory. */
static void die_with_staged_bytes(void)
{
	struct io_file *f;

	t.conf.idle_seal = 3600 * NS_PER_S;
	iotest_open(&t);
	for (unsigned i = 0; i < 50; i++)
		iotest_put_small(&t, i, 3000 + i);
	f = iotest_file(&t, 60);
	iotest_write(&t, f, 0, 1000, 60);
	kill(getpid(), SIGKILL);
}

/* Whose bytes are in the segments of a target that does not answer; the threads wait for them. */
static atomic_uint stuck_over;

static void *fsync_stuck(void *arg)
{
	(void)io_sync_file(arg, &t.req, IO_DURABLE);
	atomic_fetch_add(&stuck_over, 1);
	return NULL;
}

static tess_segid segment_of(unsigned n)
{
	static struct meta_map m;

	CLEAN(meta_map(t.meta, iotest_ino(&t, n), (struct tess_range){ 0, 1 }, &m));
	ck_assert_uint_eq(m.nsegments, 1);
	return m.segments[0].id;
}

/* Whether the segment that file n is staged in goes to target 0. */
static bool goes_to_first(unsigned n)
{
	struct place_target p[IOTEST_TARGETS];
	uint16_t at = 0;

	for (unsigned i = 0; i < IOTEST_TARGETS; i++)
		p[i] = (struct place_target){ .id = (uint16_t)i, .weight = 1 };
	CLEAN(place(segment_of(n), p, IOTEST_TARGETS, 1, &at));
	return at == 0;
}

static void open_with_stuck_first(const char *delay)
{
	struct store_open_opts o = { .create = true, .fsid = 1, .label = "t" };
	struct text why = TEXT_INIT;
	char uri[64];

	snprintf(uri, sizeof(uri), "mem:?fault=put:delay=%s", delay);
	ck_assert_int_eq(store_open_uri(&t.store[0], uri, &o, &why), 0);
	text_done(&why);
	t.conf.fsync_local = false;
	iotest_open(&t);
}

/* More stuck segments than there are seal workers, and more fsyncs of them than may lead. */
START_TEST(an_fsync_waits_for_no_segment_without_bytes_of_its_file)
{
	enum { STUCK = 12 };
	struct io_file *f[64] = { NULL };
	pthread_t th[STUCK];
	unsigned n = 0, stuck = 0;

	t.conf.idle_seal = 20 * NS_PER_MS;
	open_with_stuck_first("5s");
	while (stuck < STUCK && n < 64) {
		f[n] = iotest_file(&t, n);
		iotest_write(&t, f[n], 0, 3000, n);
		CLEAN(iotest_publish(&t, f[n]));
		if (!goes_to_first(n)) {
			CLEAN(io_sync_file(f[n++], &t.req, IO_DURABLE));
			continue;
		}
		/* The first ones lead their seals, the others find them begun. */
		clock_sleep(stuck < 3 ? 0 : 100 * NS_PER_MS);
		CLEAN(thread_start(&th[stuck++], "t", fsync_stuck, f[n++]));
		clock_sleep(20 * NS_PER_MS);
	}
	ck_assert_uint_eq(stuck, STUCK);
	ck_assert_uint_eq(atomic_load(&stuck_over), 0);
	for (unsigned i = 0; i < STUCK; i++)
		pthread_join(th[i], NULL);
	for (unsigned i = 0; i < n; i++)
		io_file_close(f[i], false);
	for (unsigned i = 0; i < n; i++)
		iotest_expect_small(&t, i, 3000);
}
END_TEST

/* Through another handle, through a clone, and when the bytes are a dead session's. */
START_TEST(an_fsync_waits_for_all_published_bytes_of_its_file)
{
	struct io_file *f, *g;
	struct meta_attr a;

	t.conf.idle_seal = 3600 * NS_PER_S;
	t.conf.fsync_local = false;
	iotest_open(&t);
	iotest_put_small(&t, 1, 3000);
	iotest_put_small(&t, 2, 3000);
	f = iotest_file(&t, 1);
	g = iotest_file(&t, 3);
	CLEAN(io_clone(f, 0, g, 0, 3000, &t.req, clock_wall(), &a));
	ck_assert_uint_eq(iotest_objects(&t), 0);
	CLEAN(io_sync_file(g, &t.req, IO_DURABLE));
	ck_assert_uint_eq(iotest_objects(&t), 1);
	io_file_close(f, false);
	io_file_close(g, false);
	iotest_put_small(&t, 4, 3000);
	f = iotest_file(&t, 4);
	CLEAN(io_sync_file(f, &t.req, IO_DURABLE));
	ck_assert_uint_eq(iotest_objects(&t), 2);
	io_file_close(f, false);
	f = iotest_file(&t, 3);
	iotest_expect(&t, f, 0, 3000, 1);
	io_file_close(f, false);
}
END_TEST

START_TEST(an_fsync_waits_for_bytes_that_were_adopted)
{
	struct meta_segment m;
	struct io_file *f;
	pid_t pid;
	int status;

	t.lmdb = true;
	t.uri = "kv:@?size=64M&fault=put:delay=300ms";
	pid = fork();
	if (pid == 0)
		die_with_staged_bytes();
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	t.formatted = true;
	t.conf.fsync_local = false;
	t.conf.idle_seal = 3600 * NS_PER_S;
	iotest_open(&t);
	f = iotest_file(&t, 7);
	CLEAN(io_sync_file(f, &t.req, IO_DURABLE));
	CLEAN(meta_segment_get(t.meta, segment_of(7), &m));
	ck_assert_int_eq(m.state, META_DURABLE);
	io_file_close(f, false);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		an_fsync_waits_for_no_segment_without_bytes_of_its_file,
		an_fsync_waits_for_all_published_bytes_of_its_file,
		an_fsync_waits_for_bytes_that_were_adopted,
	};

	return unit_run_with("io_seal", tests, sizeof(tests) / sizeof(tests[0]), setup, teardown, 120);
}
