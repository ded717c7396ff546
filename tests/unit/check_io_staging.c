/* SPDX-License-Identifier: Apache-2.0 */
/* layer: io. Small files on their way through staging, and what a killed session left there. */
#include "base/clock.h"
#include "base/fault.h"
#include "base/pool.h"
#include "io/stage.h"
#include "iotest.h"
#include "meta/meta_impl.h"
#include "unit.h"
#include <pthread.h>
#include <signal.h>
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

START_TEST(a_thousand_small_files_are_few_puts)
{
	t.segment = 4 << 20;
	t.conf.idle_seal = 3600 * NS_PER_S;
	iotest_open(&t);
	for (unsigned i = 0; i < 1000; i++)
		iotest_put_small(&t, i, 3901);
	ck_assert_uint_eq(iotest_objects(&t), 0);
	iotest_expect_small(&t, 500, 3901);
	CLEAN(io_sync_all(t.io, &t.req));
	ck_assert_uint_eq(iotest_objects(&t), 1);
	for (unsigned i = 0; i < 1000; i += 7)
		iotest_expect_small(&t, i, 3901);
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
	iotest_put_small(&t, 1, 5000);
	iotest_until_zero(&t, iotest_staging);
	ck_assert_uint_eq(iotest_objects(&t), 1);
	iotest_expect_small(&t, 1, 5000);
}
END_TEST

START_TEST(a_failed_seal_loses_nothing_and_is_tried_again)
{
	t.conf.idle_seal = 10 * NS_PER_MS;
	t.conf.commit_interval = 20 * NS_PER_MS;
	iotest_open(&t);
	CLEAN(fault_set("stage.seal.put@1=EIO,stage.seal.commit@1=EIO"));
	iotest_put_small(&t, 1, 5000);
	iotest_expect_small(&t, 1, 5000);
	iotest_until_zero(&t, iotest_staging);
	CLEAN(fault_set(NULL));
	iotest_expect_small(&t, 1, 5000);
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
		iotest_put_small(&t, i, 3000 + i);
	f = iotest_file(&t, 60);
	iotest_write(&t, f, 0, 1000, 60);
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
		iotest_expect_small(&t, i, 3000 + i);
	CLEAN(iotest_close(&t, true));
	ck_assert_uint_eq(iotest_staging(&t), 0);
	iotest_open(&t);
	for (unsigned i = 0; i < 50; i++)
		iotest_expect_small(&t, i, 3000 + i);
	CLEAN(iotest_check(&t));
}
END_TEST

static void *fsync_some(void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < 8; i++) {
		struct io_file *f = iotest_file(&t, n * 100 + i);

		iotest_write(&t, f, 0, 2000, n * 100 + i);
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
		iotest_expect_small(&t, i * 100 + 7, 2000);
}
END_TEST

static bool is_staged(tess_segid id)
{
	scoped_lock(&t.io->stage->lock);
	return stage_find_locked(t.io->stage, id) != NULL;
}

static bool is_queued(tess_segid id)
{
	scoped_lock(&t.io->stage->lock);
	return stage_find_locked(t.io->stage, id)->queued;
}

START_TEST(a_seal_that_is_not_over_keeps_its_segment)
{
	tess_segid id = (tess_segid)1 << 32 | 1;

	t.conf.idle_seal = 3600 * NS_PER_S;
	t.conf.commit_interval = 3600 * NS_PER_S;
	iotest_open(&t);
	iotest_put_small(&t, 1, 5000);
	ck_assert(is_staged(id));
	CLEAN(fault_set("stage.sealed@1=delay:500ms"));
	seal_full(t.io);
	while (fault_hits("stage.sealed") == 0)
		clock_sleep(NS_PER_MS);
	/* Its file is garbage that a checkpoint covers. */
	CLEAN(io_checkpoint(t.io));
	ck_assert(io_gc_pass(t.io, clock_now() + NS_PER_S));
	ck_assert(is_staged(id));
	while (is_queued(id))
		clock_sleep(NS_PER_MS);
	CLEAN(fault_set(NULL));
	ck_assert(io_gc_pass(t.io, clock_now() + NS_PER_S));
	ck_assert(!is_staged(id));
	iotest_expect_small(&t, 1, 5000);
}
END_TEST

/* ---- another session on the same namespace, staging area and targets ---- */

struct second {
	struct meta *meta;
	struct io *io;
};

static void second_open(struct second *x, const char *mountpoint)
{
	struct io_target targets[IOTEST_TARGETS];
	struct io_conf conf = t.conf;
	char staging[128];

	snprintf(staging, sizeof(staging), "%s/staging", t.dir);
	for (unsigned i = 0; i < IOTEST_TARGETS; i++)
		targets[i] = (struct io_target){ .id = (uint16_t)i, .store = t.store[i], .weight = 1 };
	CLEAN(meta_open(&x->meta, t.kv, NULL));
	CLEAN(meta_session_begin(x->meta, mountpoint, clock_wall(), NULL));
	conf.meta = x->meta;
	conf.targets = targets;
	conf.staging_dir = staging;
	CLEAN(io_open(&x->io, &conf, NULL));
}

static void second_close(struct second *x, bool drain)
{
	CLEAN(io_close(x->io, drain, NULL));
	if (drain)
		CLEAN(meta_session_end(x->meta));
	x->meta->kv = NULL;	/* the other's */
	meta_close(x->meta);
}

static uint64_t staged(struct io *io)
{
	struct io_pending p;

	io_adopted_wait(io);
	io_pending(io, &p);
	return p.staged_segments;
}

static struct io_file *second_file(struct second *x, unsigned n)
{
	struct meta_attr a;
	struct io_file *f;

	CLEAN(meta_getattr(x->meta, iotest_ino(&t, n), &a));
	CLEAN(io_file_open(x->io, &a, &f));
	return f;
}

static int end_process(struct kv_txn *txn, void *arg)
{
	struct meta_session s;
	int e = session_get(txn, *(uint32_t *)arg, &s);

	s.pid_start++;
	return e ? e : session_put(txn, &s);
}

START_TEST(what_a_live_session_took_over_nobody_takes_from_it)
{
	struct second dead, late;
	struct io_file *f;
	uint32_t id;

	t.conf.idle_seal = 3600 * NS_PER_S;
	iotest_open(&t);
	second_open(&dead, "/dead");
	f = second_file(&dead, 1);
	iotest_write(&t, f, 0, 5000, 1);
	CLEAN(io_sync_file(f, &t.req, IO_PUBLISH));
	io_file_close(f, true);
	id = meta_session_id(dead.meta);
	second_close(&dead, false);
	CLEAN(kv_run(t.kv, end_process, &id, NULL));
	CLEAN(fault_set("stage.seal.put=EIO"));
	io_adopt(t.io);
	ck_assert_uint_eq(staged(t.io), 1);
	second_open(&late, "/late");
	ck_assert_uint_eq(staged(late.io), 0);
	CLEAN(fault_set(NULL));
	second_close(&late, true);
	CLEAN(io_sync_all(t.io, &t.req));
	iotest_expect_small(&t, 1, 5000);
}
END_TEST

START_TEST(what_dies_while_it_is_sealed_is_nobodys_leftover)
{
	struct second dead;
	struct io_file *f;
	uint32_t id;

	t.conf.idle_seal = 3600 * NS_PER_S;
	t.conf.commit_interval = 3600 * NS_PER_S;
	iotest_open(&t);
	second_open(&dead, "/dead");
	f = second_file(&dead, 1);
	iotest_write(&t, f, 0, 5000, 1);
	CLEAN(io_sync_file(f, &t.req, IO_PUBLISH));
	io_file_close(f, true);
	id = meta_session_id(dead.meta);
	second_close(&dead, false);
	CLEAN(kv_run(t.kv, end_process, &id, NULL));
	CLEAN(fault_set("stage.seal.put@1=delay:700ms"));
	io_adopt(t.io);
	while (fault_hits("stage.seal.put") == 0)
		clock_sleep(NS_PER_MS);
	f = iotest_file(&t, 1);
	iotest_write(&t, f, 0, 5000, 2);
	CLEAN(iotest_publish(&t, f));
	io_file_close(f, false);
	/* Another one died. */
	io_adopted_wait(t.io);
	io_adopt(t.io);
	io_adopted_wait(t.io);
	ck_assert(is_staged((tess_segid)id << 32 | 1));
	CLEAN(io_sync_all(t.io, &t.req));
	CLEAN(fault_set(NULL));
}
END_TEST

START_TEST(what_a_dead_session_committed_is_synced_after_its_adoption_too)
{
	struct second dead;
	struct io_file *f;
	uint64_t barriers;
	uint32_t id;

	t.uri = "kv:@?size=64M";
	t.conf.idle_seal = 3600 * NS_PER_S;
	t.conf.commit_interval = 3600 * NS_PER_S;
	iotest_open(&t);
	second_open(&dead, "/dead");
	f = second_file(&dead, 1);
	CLEAN(io_sync_all(t.io, &t.req));
	/* A segment of its own on a target, and the rest staged. */
	iotest_write(&t, f, 0, t.segment + 5000, 1);
	CLEAN(io_sync_file(f, &t.req, IO_PUBLISH));
	id = meta_session_id(dead.meta);
	CLEAN(kv_run(t.kv, end_process, &id, NULL));
	/* Nothing of ours changes on the targets. */
	CLEAN(fault_set("stage.seal.put=EIO"));
	io_adopt(t.io);
	ck_assert_uint_eq(staged(t.io), 1);
	barriers = iotest_counter(&t, "barriers");
	CLEAN(fault_set("store.kv.sync@1=EIO"));
	ck_assert_int_eq(io_checkpoint(t.io), -EIO);
	CLEAN(fault_set("stage.seal.put=EIO"));
	CLEAN(io_checkpoint(t.io));
	ck_assert_uint_gt(iotest_counter(&t, "barriers"), barriers + 1);
	CLEAN(fault_set(NULL));
	io_file_close(f, true);
	second_close(&dead, false);
	CLEAN(io_sync_all(t.io, &t.req));
	iotest_expect_small(&t, 1, t.segment + 5000);
}
END_TEST

START_TEST(who_joins_during_an_adoption_keeps_what_it_stages)
{
	struct second late;
	struct io_file *f, *g;
	uint64_t last;

	t.conf.idle_seal = 3600 * NS_PER_S;
	t.conf.commit_interval = 3600 * NS_PER_S;
	iotest_open(&t);
	io_adopted_wait(t.io);
	CLEAN(fault_set("stage.adopt@1=delay:300ms"));
	io_adopt(t.io);
	clock_sleep(50 * NS_PER_MS);
	second_open(&late, "/late");
	/* Of one size of segments each, so that the second is in a file that no record names. */
	f = second_file(&late, 1);
	iotest_write(&t, f, 0, 5000, 1);
	CLEAN(io_sync_file(f, &t.req, IO_PUBLISH));
	CLEAN(io_sync_all(late.io, &t.req));
	iotest_write(&t, f, 5000, 5000, 1);
	CLEAN(io_sync_file(f, &t.req, IO_PUBLISH));
	g = second_file(&late, 2);
	io_file_layout_set(g, &(struct meta_layout){ .cls = f->lay.layout.cls, .mapper = 1,
						     .segment_size = 128 << 10 });
	iotest_write(&t, g, 0, 5000, 2);
	CLEAN(io_flush_start(g, &t.req, true, &last));
	CLEAN(io_flush_wait(g, &t.req, last));
	ck_assert_uint_eq(staged(t.io), 0);
	CLEAN(fault_set(NULL));
	CLEAN(io_sync_file(g, &t.req, IO_PUBLISH));
	/* Through this mount, which has to open the files by name. */
	iotest_expect_small(&t, 2, 5000);
	io_file_close(f, false);
	io_file_close(g, false);
	second_close(&late, true);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		a_thousand_small_files_are_few_puts,
		an_idle_open_segment_is_sealed_and_its_file_collected,
		a_failed_seal_loses_nothing_and_is_tried_again,
		what_a_killed_session_published_is_adopted_and_drained,
		concurrent_fsyncs_share_seals,
		a_seal_that_is_not_over_keeps_its_segment,
		what_a_live_session_took_over_nobody_takes_from_it,
		what_dies_while_it_is_sealed_is_nobodys_leftover,
		what_a_dead_session_committed_is_synced_after_its_adoption_too,
		who_joins_during_an_adoption_keeps_what_it_stages,
	};

	return unit_run_with("io_staging", tests, sizeof(tests) / sizeof(tests[0]), setup, teardown, 120);
}
