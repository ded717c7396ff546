/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "unit.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#define JOBS 500

static atomic_int ran, gate;
static struct pool *p;

static void count(struct pool_job *job)
{
	(void)job;
	atomic_fetch_add(&ran, 1);
}

static void wait_for_gate(struct pool_job *job)
{
	(void)job;
	while (!gate)
		clock_sleep(100000);
	atomic_fetch_add(&ran, 1);
}

START_TEST(test_every_job_runs_once_before_drain_returns)
{
	static struct pool_job jobs[JOBS];

	CLEAN(pool_new(&p, "test", 4, 8));
	for (int i = 0; i < JOBS; i++) {
		jobs[i].run = count;
		CLEAN(pool_submit(p, &jobs[i]));
	}
	pool_drain(p);
	ck_assert_int_eq(ran, JOBS);
	ck_assert_uint_eq(pool_queued(p), 0);
	pool_free(p);
	pool_free(NULL);
}
END_TEST

START_TEST(test_free_runs_what_is_queued)
{
	static struct pool_job jobs[JOBS];

	CLEAN(pool_new(&p, "test", 2, JOBS));
	for (int i = 0; i < JOBS; i++) {
		jobs[i].run = count;
		CLEAN(pool_submit(p, &jobs[i]));
	}
	pool_free(p);
	ck_assert_int_eq(ran, JOBS);
}
END_TEST

START_TEST(test_a_full_queue_refuses_a_try)
{
	struct pool_job a = { .run = wait_for_gate }, b = { .run = count }, c = { .run = count };

	CLEAN(pool_new(&p, "test", 1, 1));
	CLEAN(pool_submit(p, &a));
	while (pool_queued(p))
		clock_sleep(100000);
	CLEAN(pool_try(p, &b));
	ck_assert_int_eq(pool_try(p, &c), -EAGAIN);
	ck_assert_uint_eq(pool_queued(p), 1);
	gate = 1;
	CLEAN(pool_submit(p, &c));
	pool_free(p);
	ck_assert_int_eq(ran, 3);
}
END_TEST

static struct pool_job children[64];

static void spawn(struct pool_job *job)
{
	(void)job;
	for (int i = 0; i < 64; i++) {
		children[i].run = count;
		ck_assert_int_eq(pool_submit(p, &children[i]), 0);
	}
}

START_TEST(test_a_worker_may_exceed_the_queue_and_is_drained)
{
	struct pool_job a = { .run = spawn };

	CLEAN(pool_new(&p, "test", 1, 1));
	CLEAN(pool_submit(p, &a));
	pool_free(p);
	ck_assert_int_eq(ran, 64);
}
END_TEST

static sigset_t worker_mask;
static char worker_name[16];

static void look(struct pool_job *job)
{
	(void)job;
	pthread_sigmask(SIG_SETMASK, NULL, &worker_mask);
	pthread_getname_np(pthread_self(), worker_name, sizeof(worker_name));
}

START_TEST(test_workers_block_signals_and_have_a_name)
{
	struct pool_job a = { .run = look };
	sigset_t mine;

	CLEAN(pool_new(&p, "a-name-that-is-too-long", 1, 1));
	clock_sleep(NS_PER_MS);
	CLEAN(pool_submit(p, &a));
	pool_free(p);
	ck_assert(sigismember(&worker_mask, SIGTERM));
	ck_assert(sigismember(&worker_mask, SIGUSR1));
	ck_assert_str_eq(worker_name, "a-name-that-is-");
	pthread_sigmask(SIG_SETMASK, NULL, &mine);
	ck_assert(!sigismember(&mine, SIGUSR1));
}
END_TEST

START_TEST(test_a_pool_that_cannot_start_leaves_nothing)
{
	char spec[64];

	snprintf(spec, sizeof(spec), _i < 3 ? "alloc@%d=ENOMEM" : "thread@%d=EAGAIN", _i < 3 ? _i : _i - 2);
	CLEAN(fault_set(spec));
	ck_assert_int_eq(pool_new(&p, "test", 3, 1), _i < 3 ? -ENOMEM : -EAGAIN);
	CLEAN(fault_set(NULL));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pool");
	TCase *c = tcase_create("pool");

	suite_add_tcase(s, c);
	tcase_add_test(c, test_every_job_runs_once_before_drain_returns);
	tcase_add_test(c, test_free_runs_what_is_queued);
	tcase_add_test(c, test_a_full_queue_refuses_a_try);
	tcase_add_test(c, test_a_worker_may_exceed_the_queue_and_is_drained);
	tcase_add_test(c, test_workers_block_signals_and_have_a_name);
	tcase_add_loop_test(c, test_a_pool_that_cannot_start_leaves_nothing, 1, 6);
	return unit_run(s);
}
