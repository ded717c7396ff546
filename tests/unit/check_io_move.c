/* SPDX-License-Identifier: Apache-2.0 */
/* layer: io. Segments on their way from tier to tier, and what is left of it when something dies. */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/pool.h"
#include "base/text.h"
#include "iotest.h"
#include "oclass/place.h"
#include "unit.h"
#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAST 0u
#define CAP  1u
#define SIZE 60000u	/* of a file: one segment */

static struct iotest t;

/* Target 0 takes what is written, target 1 is where it belongs. Nothing moves but when told to. */
static void setup(void)
{
	iotest_init(&t);
	t.tiers[FAST] = IO_TIER_WRITE;
	t.tiers[CAP] = IO_TIER_REST;
	t.conf.drain = IO_DRAIN_MANUAL;
	t.conf.commit_interval = 3600 * NS_PER_S;
}

static void teardown(void)
{
	iotest_done(&t);
}

static unsigned objects(unsigned target)
{
	static struct tess_key keys[4096];
	static struct tess_objinfo infos[4096];
	struct store_list l = { .max = 4096, .keys = keys, .infos = infos };
	struct store_op op = { .req = &t.req, .code = STORE_LIST, .list = &l };

	CLEAN(store_do(t.store[target], &op));
	return l.n;
}

/* N files, stored and published. */
static void make(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		iotest_put_small(&t, i, SIZE);
	CLEAN(io_sync_all(t.io, &t.req));
}

static void expect(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		iotest_expect_small(&t, i, SIZE);
}

static int rest(void)
{
	struct text why = TEXT_INIT;
	int e = io_rest(t.io, &t.req, &why);

	if (e < 0)
		printf("rest: %s\n", text_str(&why));
	text_done(&why);
	return e;
}

static struct meta_segment segment_of(unsigned n)
{
	static struct meta_map map;

	CLEAN(meta_map(t.meta, iotest_ino(&t, n), (struct tess_range){ 0, SIZE }, &map));
	ck_assert_uint_ge(map.nsegments, 1);
	return map.segments[0];
}

static struct meta_segment to_cap(const struct meta_segment *s)
{
	struct meta_segment to = *s;

	to.target[0] = CAP;
	return to;
}

static unsigned garbage(uint8_t kind)
{
	struct meta_garbage g[64];
	unsigned n = 0, of = 0;

	CLEAN(meta_garbage_list(t.meta, 0, g, 64, &n));
	for (unsigned i = 0; i < n; i++)
		of += g[i].kind == kind;
	return of;
}

static uint64_t gc(bool dry)
{
	struct io_gc g = { .dry_run = dry };

	CLEAN(io_gc(t.io, &g));
	return g.orphan_objects + g.garbage_objects;
}

START_TEST(segments_are_written_to_one_tier_and_moved_to_the_other)
{
	iotest_open(&t);
	make(5);
	ck_assert_uint_gt(objects(FAST), 0);
	ck_assert_uint_eq(objects(CAP), 0);
	CLEAN(rest());
	expect(5);
	ck_assert_uint_gt(objects(CAP), 0);
	ck_assert_uint_gt(objects(FAST), 0);	/* until a checkpoint has it */
	gc(false);
	ck_assert_uint_eq(objects(FAST), 0);
	ck_assert_uint_eq(garbage(META_GARBAGE_MOVED), 0);
	expect(5);
	CLEAN(iotest_check(&t));
	ck_assert_uint_ge(iotest_counter(&t, "move.segments"), 1);
	ck_assert_uint_eq(iotest_counter(&t, "move.waiting"), 0);
	CLEAN(rest());	/* again: nothing to do */
}
END_TEST

static unsigned on_fast(struct iotest *x)
{
	(void)x;
	return objects(FAST);
}

START_TEST(each_drain_policy_moves_when_it_says)
{
	static const enum io_drain how[] = { IO_DRAIN_EAGER, IO_DRAIN_CLOSE, IO_DRAIN_IDLE };

	t.conf.drain = how[_i];
	t.conf.idle_seal = 20 * NS_PER_MS;
	t.conf.commit_interval = 20 * NS_PER_MS;
	iotest_open(&t);
	for (unsigned i = 0; i < 3; i++)
		iotest_put_small(&t, i, SIZE);
	if (how[_i] == IO_DRAIN_CLOSE) {
		CLEAN(io_sync_all(t.io, &t.req));
		clock_sleep(100 * NS_PER_MS);
		ck_assert_uint_eq(objects(CAP), 0);
		io_closed(t.io);
	}
	for (unsigned i = 0; objects(CAP) == 0; i++) {
		ck_assert_uint_lt(i, 3000);
		clock_sleep(10 * NS_PER_MS);
	}
	iotest_until_zero(&t, on_fast);
	expect(3);
	CLEAN(iotest_check(&t));
}
END_TEST

START_TEST(a_reader_with_an_old_view_reads_on)
{
	struct io_file *f;

	t.limit = 8 << 20;
	iotest_open(&t);
	make(1);
	f = iotest_file(&t, 0);
	iotest_expect(&t, f, 0, 100, 0);	/* looks the extents up */
	CLEAN(rest());
	gc(false);
	ck_assert_uint_eq(objects(FAST), 0);
	iotest_expect(&t, f, 0, SIZE, 0);
	io_file_close(f, false);
}
END_TEST

START_TEST(a_copy_of_a_segment_that_dies_is_deleted)
{
	struct meta_segment old, to;
	struct meta_gone gone;
	uint64_t serial, ino;
	bool moved = true, more = true;

	iotest_open(&t);
	make(1);
	old = segment_of(0);
	to = to_cap(&old);
	CLEAN(meta_move_begin(t.meta, &old, &to, &serial));
	CLEAN(store_put(t.store[CAP], &t.req, "x", "y", 1));
	ino = iotest_ino(&t, 0);
	CLEAN(meta_unlink(t.meta, TESS_ROOT_INO, "f0", 2, 5, &gone));
	while (more)
		CLEAN(meta_reclaim(t.meta, &ino, 1, 100, 6, &more));
	CLEAN(meta_move_end(t.meta, serial, &old, &to, &moved));
	ck_assert(!moved);
	ck_assert_uint_eq(garbage(META_GARBAGE_MOVED), 1);
	ck_assert_uint_eq(garbage(META_GARBAGE_OBJECTS), 1);
	CLEAN(store_del(t.store[CAP], &t.req, "x"));
	gc(false);
	ck_assert_uint_eq(iotest_objects(&t), 0);
	CLEAN(iotest_check(&t));
}
END_TEST

START_TEST(what_changed_since_it_was_read_is_not_moved)
{
	struct meta_segment old, other, to;
	uint64_t serial, second;
	bool moved;

	iotest_open(&t);
	make(1);
	old = segment_of(0);
	to = to_cap(&old);
	other = old;
	other.target[0] = CAP;
	ck_assert_int_eq(meta_move_begin(t.meta, &other, &to, &serial), -ESTALE);
	CLEAN(meta_move_begin(t.meta, &old, &to, &serial));
	ck_assert_int_eq(meta_move_begin(t.meta, &old, &to, &second), -EBUSY);
	CLEAN(meta_move_end(t.meta, serial, &other, &to, &moved));
	ck_assert(!moved);
	ck_assert_uint_eq(segment_of(0).target[0], FAST);
	/* Until what the first copy left is deleted: a second would make what the collector deletes. */
	ck_assert_int_eq(meta_move_begin(t.meta, &old, &to, &second), -EBUSY);
	gc(false);
	CLEAN(meta_move_begin(t.meta, &old, &to, &second));
	CLEAN(meta_move_cancel(t.meta, second));
	ck_assert_int_eq(meta_move_end(t.meta, second, &old, &to, &moved), -ESTALE);
	CLEAN(rest() == -TESS_E_NOT_AT_REST ? 0 : -1);
	gc(false);
	CLEAN(rest());
	expect(1);
}
END_TEST

START_TEST(collecting_leaves_a_copy_under_way_alone)
{
	struct meta_segment old, to;
	char name[PLACE_NAME_LEN + 1];
	uint64_t serial;
	bool moved;
	char *p = iotest_bytes(SIZE, 0);

	iotest_open(&t);
	make(1);
	old = segment_of(0);
	to = to_cap(&old);
	gc(false);
	CLEAN(meta_move_begin(t.meta, &old, &to, &serial));
	place_name(old.id, 0, name);
	CLEAN(store_put(t.store[CAP], &t.req, name, p, SIZE));
	ck_assert_uint_eq(gc(false), 0);
	ck_assert_uint_eq(objects(CAP), 1);
	CLEAN(iotest_check(&t));
	CLEAN(meta_move_end(t.meta, serial, &old, &to, &moved));
	ck_assert(moved);
	CLEAN(iotest_check(&t));
	gc(false);
	ck_assert_uint_eq(objects(CAP), 1);
	ck_assert_uint_eq(objects(FAST), 0);
	CLEAN(iotest_check(&t));
	free(p);
}
END_TEST

static void on_disk(void)
{
	t.lmdb = true;
	t.uri = "kv:@?size=64M";
}

/* A session that is killed at a point of a move. */
static void die_at(const char *point, unsigned n)
{
	char spec[64];
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		iotest_open(&t);
		make(n);
		snprintf(spec, sizeof(spec), "%s=kill", point);
		if (fault_set(spec) == 0)
			(void)rest();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	t.formatted = true;
}

static const char *const die_points[] = { "move.read", "move.begin", "move.put", "move.end", "move.ended" };

START_TEST(a_session_that_dies_in_a_move_loses_nothing_and_leaves_nothing)
{
	on_disk();
	die_at(die_points[_i], 3);
	iotest_open(&t);
	expect(3);
	CLEAN(iotest_check(&t));
	CLEAN(rest() == 0 || rest() == -TESS_E_NOT_AT_REST ? 0 : -1);
	gc(false);
	CLEAN(rest());
	expect(3);
	gc(false);
	ck_assert_uint_eq(gc(true), 0);
	ck_assert_uint_eq(garbage(META_GARBAGE_COPYING) + garbage(META_GARBAGE_MOVED), 0);
	ck_assert_uint_eq(objects(FAST), 0);
	CLEAN(iotest_check(&t));
}
END_TEST

/* As a power cut leaves it that took the records of a copy along, and not its objects. */
START_TEST(an_object_beside_its_living_segment_is_an_orphan)
{
	char name[PLACE_NAME_LEN + 1];
	struct meta_segment s;

	on_disk();
	die_at("move.read", 1);
	iotest_open(&t);
	gc(false);
	s = segment_of(0);
	place_name(s.id, 0, name);
	CLEAN(store_put(t.store[CAP], &t.req, name, "z", 1));
	ck_assert_uint_eq(gc(true), 1);
	ck_assert_uint_eq(objects(CAP), 1);
	gc(false);
	ck_assert_uint_eq(objects(CAP), 0);
	expect(1);
	CLEAN(rest());
	expect(1);
	CLEAN(iotest_check(&t));
}
END_TEST

/* Forth and back again: what a move left is not what the next one makes. */
START_TEST(a_segment_goes_forth_and_back)
{
	on_disk();
	iotest_open(&t);
	make(4);
	for (unsigned i = 0; i < 4; i++) {
		unsigned to = i % 2 ? FAST : CAP;

		CLEAN(iotest_close(&t, true));
		t.tiers[FAST] = to == FAST ? IO_TIER_REST : IO_TIER_WRITE;
		t.tiers[CAP] = to == CAP ? IO_TIER_REST : IO_TIER_WRITE;
		iotest_open(&t);
		while (rest() != 0)
			gc(false);
		expect(4);
		gc(false);
		ck_assert_uint_eq(objects(to == FAST ? CAP : FAST), 0);
		CLEAN(iotest_check(&t));
	}
}
END_TEST

START_TEST(a_failing_tier_is_told_and_tried_again)
{
	t.conf.drain = IO_DRAIN_EAGER;
	t.conf.idle_seal = 10 * NS_PER_MS;
	t.conf.commit_interval = 20 * NS_PER_MS;
	iotest_open(&t);
	CLEAN(fault_set("move.put@1=EIO,move.put@2=ENOSPC,move.read@1=EIO"));
	make(4);
	iotest_until_zero(&t, on_fast);
	CLEAN(fault_set(NULL));
	ck_assert_uint_ge(iotest_counter(&t, "move.failed"), 1);
	expect(4);
	CLEAN(iotest_check(&t));
}
END_TEST

START_TEST(rest_says_what_is_left)
{
	struct text why = TEXT_INIT;

	iotest_open(&t);
	make(9);
	CLEAN(fault_set("move.put=EIO"));
	ck_assert_int_eq(io_rest(t.io, &t.req, &why), -TESS_E_NOT_AT_REST);
	ck_assert_ptr_nonnull(strstr(text_str(&why), "not on the rest tier"));
	ck_assert_ptr_nonnull(strstr(text_str(&why), err_text(-EIO)));
	CLEAN(fault_set(NULL));
	expect(9);
	gc(false);
	CLEAN(rest());
	text_done(&why);
	CLEAN(iotest_check(&t));
}
END_TEST

START_TEST(a_full_write_tier_spills)
{
	t.conf.drain = IO_DRAIN_EAGER;
	iotest_open(&t);
	/* The PUT to the fast tier fails, the next one, of the same segment, does not. */
	CLEAN(fault_set("store.put@1=TESS_E_STORE_FULL"));
	make(1);
	CLEAN(fault_set(NULL));
	ck_assert_uint_eq(objects(FAST), 0);
	ck_assert_uint_eq(objects(CAP), 1);
	expect(1);
	CLEAN(iotest_check(&t));
}
END_TEST

START_TEST(a_class_too_wide_for_the_tier_is_placed_over_all)
{
	t.cls = "S2";
	iotest_open(&t);
	make(3);
	ck_assert_uint_ge(objects(FAST), 1);
	ck_assert_uint_ge(objects(CAP), 1);
	CLEAN(rest());
	expect(3);
	CLEAN(iotest_check(&t));
}
END_TEST

START_TEST(a_striped_segment_is_cut_anew_for_its_tier)
{
	t.cls = "SX";
	t.tiers[FAST] = 0;
	t.tiers[CAP] = IO_TIER_REST;
	iotest_open(&t);
	make(6);
	ck_assert_uint_ge(objects(FAST), 1);
	CLEAN(rest());
	expect(6);
	gc(false);
	expect(6);
	CLEAN(iotest_check(&t));
	/* But for those whose first shard is there, where the only one would have to be. */
	for (unsigned i = 0; i < 6; i++)
		ck_assert(segment_of(i).width == 1 || segment_of(i).target[0] == CAP);
}
END_TEST

static void *read_on(void *arg)
{
	atomic_bool *stop = arg;

	while (!atomic_load(stop))
		expect(8);
	return NULL;
}

START_TEST(reads_go_on_while_segments_move_and_are_collected)
{
	atomic_bool stop = false;
	pthread_t th[2];

	t.conf.drain = IO_DRAIN_EAGER;
	t.conf.idle_seal = 5 * NS_PER_MS;
	t.conf.commit_interval = 5 * NS_PER_MS;
	t.limit = 4 << 20;
	iotest_open(&t);
	make(8);
	for (unsigned i = 0; i < 2; i++)
		CLEAN(thread_start(&th[i], "t", read_on, &stop));
	for (unsigned i = 0; i < 30; i++) {
		iotest_put_small(&t, 8 + i, SIZE);
		iotest_put_small(&t, i % 8, SIZE);	/* the same bytes in a new segment */
		clock_sleep(5 * NS_PER_MS);
	}
	iotest_until_zero(&t, on_fast);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(th[i], NULL);
	expect(38);
	CLEAN(iotest_check(&t));
}
END_TEST

/* The end waits for no move, and the next session goes on. */
START_TEST(closing_does_not_wait_for_a_slow_tier)
{
	int64_t began;

	on_disk();
	t.uri = "kv:@?size=64M&latency=200ms";
	t.conf.drain = IO_DRAIN_EAGER;
	iotest_open(&t);
	make(20);
	began = clock_now();
	CLEAN(iotest_close(&t, true));
	ck_assert_int_lt((clock_now() - began) / NS_PER_S, 20);
	t.uri = "kv:@?size=64M";
	iotest_open(&t);
	for (unsigned i = 0; objects(FAST) > 0; i++) {
		ck_assert_uint_lt(i, 1000);
		clock_sleep(10 * NS_PER_MS);
		gc(false);
	}
	expect(20);
	CLEAN(iotest_check(&t));
}
END_TEST

/* Each step that can fail, once: whatever it is, nothing is lost and the next call ends it. */
static void fail_nth(const char *point)
{
	char spec[64];

	iotest_open(&t);
	for (unsigned n = 1; n <= 40; n++) {
		uint64_t hits;

		iotest_put_small(&t, n, SIZE);
		CLEAN(io_sync_all(t.io, &t.req));
		snprintf(spec, sizeof(spec), "%s@%u=%s", point, n,
			 strcmp(point, "alloc") ? "EIO" : "ENOMEM");
		CLEAN(fault_set(spec));
		(void)rest();
		hits = fault_hits(point);
		CLEAN(fault_set(NULL));
		for (unsigned i = 0; rest() != 0; i++) {
			ck_assert_uint_lt(i, 100);
			gc(false);
		}
		iotest_expect_small(&t, n, SIZE);
		if (hits < n)
			break;
	}
	gc(false);
	ck_assert_uint_eq(objects(FAST), 0);
	CLEAN(iotest_check(&t));
}

static const char *const fail_points[] = { "alloc", "store.put", "store.get", "store.del", "kv.commit" };

START_TEST(any_failure_of_a_move_leaves_the_segment_readable)
{
	fail_nth(fail_points[_i]);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("move");
	Suite *s = suite_create("io_move");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, segments_are_written_to_one_tier_and_moved_to_the_other);
	tcase_add_loop_test(tc, each_drain_policy_moves_when_it_says, 0, 3);
	tcase_add_test(tc, a_reader_with_an_old_view_reads_on);
	tcase_add_test(tc, a_copy_of_a_segment_that_dies_is_deleted);
	tcase_add_test(tc, what_changed_since_it_was_read_is_not_moved);
	tcase_add_test(tc, collecting_leaves_a_copy_under_way_alone);
	tcase_add_loop_test(tc, a_session_that_dies_in_a_move_loses_nothing_and_leaves_nothing, 0, 5);
	tcase_add_test(tc, an_object_beside_its_living_segment_is_an_orphan);
	tcase_add_test(tc, a_segment_goes_forth_and_back);
	tcase_add_test(tc, a_failing_tier_is_told_and_tried_again);
	tcase_add_test(tc, rest_says_what_is_left);
	tcase_add_test(tc, a_full_write_tier_spills);
	tcase_add_test(tc, a_class_too_wide_for_the_tier_is_placed_over_all);
	tcase_add_test(tc, a_striped_segment_is_cut_anew_for_its_tier);
	tcase_add_test(tc, reads_go_on_while_segments_move_and_are_collected);
	tcase_add_test(tc, closing_does_not_wait_for_a_slow_tier);
	tcase_add_loop_test(tc, any_failure_of_a_move_leaves_the_segment_readable, 0, 5);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
