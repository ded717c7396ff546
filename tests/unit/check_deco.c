/* SPDX-License-Identifier: Apache-2.0 */
/* What each decorator adds; that it takes nothing away is tests/store/check_contract.c. */
#include "store/store.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/list.h"
#include "base/text.h"
#include "base/trace.h"
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static struct tess_req req;

static struct store *open_it(const char *uri)
{
	struct store_open_opts o = { .label = "t0" };
	struct text why = TEXT_INIT;
	struct store *s = NULL;
	int r = store_open_uri(&s, uri, &o, &why);

	ck_assert_msg(r == 0, "%s", text_str(&why));
	text_done(&why);
	req_begin(&req, "test");
	return s;
}

/* The value of "name" in what trace_dump() prints; 0 when it is not there. */
static uint64_t counter(const char *name)
{
	struct text out = TEXT_INIT;
	const char *at;
	uint64_t v = 0;

	trace_dump(&out, 0);
	at = strstr(text_str(&out), name);
	if (at)
		v = strtoull(at + strlen(name), NULL, 10);
	text_done(&out);
	return v;
}

START_TEST(test_trace_counts_requests_by_outcome_and_bytes)
{
	struct store *s = open_it("mem:?size=1M");
	char p[100] = "";

	CLEAN(store_put(s, &req, "a", p, 100));
	CLEAN(store_put(s, &req, "b", p, 50));
	CLEAN(store_get(s, &req, "a", 10, p, 20));
	ck_assert_int_eq(store_get(s, &req, "c", 0, p, 1), -ENOENT);
	CLEAN(store_del(s, &req, "a"));
	CLEAN(store_barrier(s, &req));
	{
		static char big[2 << 20];

		ck_assert_int_eq(store_put(s, &req, "big", big, sizeof(big)), -TESS_E_STORE_FULL);
	}
	ck_assert_uint_eq(counter("store.t0.put.ok "), 2);
	ck_assert_uint_eq(counter("store.t0.put.bytes "), 150);
	ck_assert_uint_eq(counter("store.t0.put.full "), 1);
	ck_assert_uint_eq(counter("store.t0.get.ok "), 1);
	ck_assert_uint_eq(counter("store.t0.get.missing "), 1);
	ck_assert_uint_eq(counter("store.t0.get.bytes "), 20);
	ck_assert_uint_eq(counter("store.t0.del.ok "), 1);
	ck_assert_uint_eq(counter("store.t0.barrier.ok "), 1);
	store_close(s);
	ck_assert_uint_eq(counter("store.t0.put.ok "), 0);
}
END_TEST

START_TEST(test_trace_without_memory_lets_the_request_through)
{
	struct store *s = open_it("mem:");

	CLEAN(fault_set("alloc@1=ENOMEM"));
	CLEAN(store_put(s, &req, "a", "x", 1));
	CLEAN(fault_set(NULL));
	CLEAN(store_put(s, &req, "a", "x", 1));
	store_close(s);
}
END_TEST

static int put(struct store *s)
{
	return store_put(s, &req, "a", "xyz", 3);
}

START_TEST(test_fault_rules_hit_when_they_say)
{
	struct store *s =
		open_it("mem:?fault=put:every=3:EIO,get:nth=2:busy,del:from=2:full,head:EACCES");
	struct tess_objinfo info;
	char c;

	for (unsigned i = 1; i <= 9; i++)
		ck_assert_int_eq(put(s), i % 3 == 0 ? -EIO : 0);
	for (unsigned i = 1; i <= 4; i++)
		ck_assert_int_eq(store_get(s, &req, "a", 0, &c, 1),
				 i == 2 ? -TESS_E_STORE_BUSY : 0);
	ck_assert_int_eq(store_head(s, &req, "a", &info), -EACCES);
	CLEAN(store_del(s, &req, "a"));
	ck_assert_int_eq(store_del(s, &req, "a"), -TESS_E_STORE_FULL);
	ck_assert_int_eq(store_del(s, &req, "a"), -TESS_E_STORE_FULL);
	CLEAN(store_barrier(s, &req));
	store_close(s);
}
END_TEST

START_TEST(test_a_lost_answer_is_an_error_after_the_work_was_done)
{
	struct store *s = open_it("mem:?fault=put:nth=1:lost,get:nth=2:short,get:nth=3:corrupt");
	char p[3];

	ck_assert_int_eq(put(s), -EIO);
	CLEAN(store_get(s, &req, "a", 0, p, 3));
	ck_assert_int_eq(memcmp(p, "xyz", 3), 0);
	ck_assert_int_eq(store_get(s, &req, "a", 0, p, 3), -TESS_E_SHORT_BODY);
	CLEAN(store_get(s, &req, "a", 0, p, 3));
	ck_assert_int_eq(memcmp(p, "xyz", 3), 0);
	store_close(s);
	s = open_it("mem:?fault=get:nth=1:corrupt");
	CLEAN(put(s));
	CLEAN(store_get(s, &req, "a", 0, p, 3));
	ck_assert_int_ne(memcmp(p, "xyz", 3), 0);
	store_close(s);
}
END_TEST

START_TEST(test_prob_hits_about_as_often_as_it_says_and_repeatably)
{
	unsigned hits[2] = { 0, 0 };

	for (unsigned run = 0; run < 2; run++) {
		struct store *s = open_it("mem:?fault=put:prob=30:EIO");

		for (unsigned i = 0; i < 1000; i++)
			hits[run] += put(s) == -EIO;
		store_close(s);
	}
	ck_assert_uint_gt(hits[0], 200);
	ck_assert_uint_lt(hits[0], 400);
	ck_assert_uint_eq(hits[0], hits[1]);
}
END_TEST

START_TEST(test_a_kill_rule_kills)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct store *s = open_it("mem:?fault=put:nth=2:kill,barrier:EIO");

		if (put(s) == 0 && store_barrier(s, &req) == -EIO)
			(void)put(s);
		_exit(1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
END_TEST

START_TEST(test_fault_points_reach_the_store_below_all_decorators)
{
	struct store *s = open_it("mem:");

	CLEAN(fault_set("store.put@2=ENOSPC"));
	CLEAN(put(s));
	ck_assert_int_eq(put(s), -ENOSPC);
	CLEAN(fault_set(NULL));
	store_close(s);
}
END_TEST

START_TEST(test_retry_tries_again_what_may_pass_and_only_that)
{
	struct store *s =
		open_it("mem:?retry=5&fault=put:nth=1:busy,put:nth=1:EIO,put:nth=1:ECONNRESET,"
			"get:EACCES,del:from=1:busy");
	char c;

	CLEAN(put(s));
	ck_assert_uint_eq(counter("store.t0.retry.again "), 3);
	ck_assert_uint_eq(counter("store.t0.put.ok "), 1);
	ck_assert_int_eq(store_get(s, &req, "a", 0, &c, 1), -EACCES);
	ck_assert_uint_eq(counter("store.t0.retry.again "), 3);
	ck_assert_int_eq(store_get(s, &req, "a", 2, &c, 1), -EACCES);
	store_close(s);
	s = open_it("mem:?retry=2&fault=del:busy");
	ck_assert_int_eq(store_del(s, &req, "a"), -TESS_E_STORE_BUSY);
	ck_assert_uint_eq(counter("store.t0.retry.again "), 2);
	ck_assert_uint_eq(counter("store.t0.retry.gave_up "), 1);
	store_close(s);
}
END_TEST

START_TEST(test_retry_stops_for_a_requester_who_gave_up)
{
	struct store *s = open_it("mem:?retry=100&fault=put:busy");

	atomic_store(&req.cancelled, true);
	ck_assert_int_eq(put(s), -TESS_E_STORE_BUSY);
	ck_assert_uint_eq(counter("store.t0.retry.again "), 0);
	store_close(s);
}
END_TEST

/* The store hangs for an hour; the deadline does not. */
START_TEST(test_a_deadline_ends_what_hangs)
{
	struct store *s = open_it("mem:?retry=5&deadline=30ms&fault=put:nth=1:delay=1h");

	ck_assert_int_eq(put(s), -TESS_E_STORE_DEADLINE);
	ck_assert_uint_eq(counter("store.t0.retry.deadline "), 1);
	CLEAN(put(s));
	store_close(s);
	s = open_it("mem:?retry=5&latency=1h");
	req.deadline = clock_now() + 30 * NS_PER_MS;
	ck_assert_int_eq(put(s), -TESS_E_STORE_DEADLINE);
	store_close(s);
	s = open_it("mem:?retry=5&limit=1&latency=1h");
	req.deadline = clock_now() - 1;
	ck_assert_int_eq(put(s), -TESS_E_STORE_DEADLINE);
	store_close(s);
}
END_TEST

START_TEST(test_a_deadline_ends_the_tries)
{
	struct store *s = open_it("mem:?retry=100&deadline=100ms&fault=put:busy");

	ck_assert_int_eq(put(s), -TESS_E_STORE_BUSY);
	ck_assert_uint_eq(counter("store.t0.retry.gave_up "), 1);
	ck_assert_uint_lt(counter("store.t0.retry.again "), 100);
	store_close(s);
}
END_TEST

START_TEST(test_latency_delays_the_answer_and_rate_the_bytes)
{
	static char p[100000];
	struct store *s = open_it("mem:?latency=20ms&rate=1M");
	int64_t start = clock_now();

	CLEAN(store_put(s, &req, "a", p, sizeof(p)));
	/* Never early; how late is the machine's business. */
	ck_assert_int_ge(clock_now() - start, 20 * NS_PER_MS + 95 * NS_PER_MS);
	ck_assert(!(s->caps.flags & STORE_LOCAL));
	store_close(s);
}
END_TEST

/* ---- limit ---- */

static atomic_int running, most, ended;
static unsigned order[20];

struct slow_op {
	struct store_op op;
	struct iovec    v;
	unsigned        i;
};

static void slow_done(struct store_op *op)
{
	struct slow_op *x = op->owner;

	order[atomic_fetch_add(&ended, 1)] = x->i;
}

static void slow_submit(struct store *s, struct slow_op *x, unsigned i)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "s%u", i);
	x->i = i;
	x->v = (struct iovec){ name, 1 };
	x->op = (struct store_op){ .req = &req, .code = STORE_DEL, .done = slow_done, .owner = x };
	CLEAN(store_key_set(&x->op.key, name));
	store_submit(s, &x->op);
}

/* A store that holds what it gets until it is told to let one go, and counts. */
static struct store held;
static struct list_node holding = LIST_INIT(holding);

static void held_submit(struct store *s, struct store_op *op)
{
	(void)s;
	list_push_back(&holding, &op->link);
	atomic_store(&most, MAX(atomic_load(&most), atomic_fetch_add(&running, 1) + 1));
}

static void held_close(struct store *s)
{
	(void)s;
}

static const struct store_ops held_ops = {
	.name = "held", .submit = held_submit, .close = held_close};

static void held_release(void)
{
	atomic_fetch_sub(&running, 1);
	store_op_done(list_entry(list_pop_front(&holding), struct store_op, link), 0);
}

static const char *param_limit_3(const struct store_conf *c, const char *name)
{
	(void)c;
	return strcmp(name, "limit") == 0 ? "3" : NULL;
}

START_TEST(test_limit_lets_so_many_through_in_order)
{
	struct store_conf conf = { .uri = "test", .param = param_limit_3 };
	struct text why = TEXT_INIT;
	static struct slow_op x[20];
	struct store *s;

	held = (struct store){.ops = &held_ops,
			      .caps = {.max_object = 1 << 20, .max_inflight = 100}};
	req_begin(&req, "test");
	CLEAN(deco_limit_ops.open(&s, &conf, &held, &why));
	ck_assert_uint_eq(s->caps.max_inflight, 3);
	for (unsigned i = 0; i < 20; i++)
		slow_submit(s, &x[i], i);
	ck_assert_int_eq(atomic_load(&running), 3);
	/* One that waits ends at once when it is cancelled, one below does not. */
	store_cancel(s, &x[10].op);
	ck_assert_int_eq(x[10].op.err, -ECANCELED);
	ck_assert_uint_eq(order[0], 10);
	store_cancel(s, &x[0].op);
	ck_assert_int_eq(atomic_load(&ended), 1);
	for (unsigned i = 0; i < 19; i++)
		held_release();
	ck_assert_int_eq(atomic_load(&ended), 20);
	ck_assert_int_eq(atomic_load(&most), 3);
	for (unsigned i = 1; i < 20; i++)
		ck_assert_uint_eq(order[i], i <= 10 ? i - 1 : i);
	store_close(s);
	text_done(&why);
}
END_TEST

static void chain_done(struct store_op *op)
{
	(void)op;
	atomic_fetch_add(&ended, 1);
}

/* 50,000 wait behind one that is slow; each frame more per request would overrun the stack. */
START_TEST(test_limit_does_not_recurse_over_a_store_that_finishes_at_once)
{
	struct store *s = open_it("mem:?limit=1&trace=0&fault=del:nth=1:delay=50ms");
	static struct slow_op x[50000];

	for (unsigned i = 0; i < 50000; i++) {
		x[i].op = (struct store_op){
			.req = &req, .code = STORE_DEL, .done = chain_done, .owner = &x[i]};
		CLEAN(store_key_set(&x[i].op.key, "x"));
		store_submit(s, &x[i].op);
	}
	while (atomic_load(&ended) < 50000)
		clock_sleep(NS_PER_MS);
	store_close(s);
}
END_TEST

/* ---- the end of the last one ---- */

static struct store *closing;
static pthread_t closer;

static void *closer_main(void *arg)
{
	(void)arg;
	store_close(closing);
	return NULL;
}

/* Its owner hears that all are done and closes at once, before done() has returned. */
static void last_done(struct store_op *op)
{
	(void)op;
	if (atomic_fetch_add(&ended, 1) + 1 < 2)
		return;
	ck_assert_int_eq(pthread_create(&closer, NULL, closer_main, NULL), 0);
	ck_assert_int_eq(pthread_join(closer, NULL), 0);
}

/* Holds the first, finishes the others at once. */
static void first_held_submit(struct store *s, struct store_op *op)
{
	if (atomic_fetch_add(&running, 1) == 0)
		held_submit(s, op);
	else
		store_op_done(op, 0);
}

static const struct store_ops first_held_ops = {
	.name = "held", .submit = first_held_submit, .close = held_close};

static const char *param_limit_1(const struct store_conf *c, const char *name)
{
	(void)c;
	return strcmp(name, "limit") == 0 ? "1" : NULL;
}

/* With the address sanitizer, which sees it. */
START_TEST(test_limit_is_not_touched_when_its_last_request_is_done)
{
	struct store_conf conf = { .uri = "test", .param = param_limit_1 };
	struct text why = TEXT_INIT;
	static struct slow_op x[2];

	held = (struct store){.ops = &first_held_ops,
			      .caps = {.max_object = 1 << 20, .max_inflight = 100}};
	req_begin(&req, "test");
	CLEAN(deco_limit_ops.open(&closing, &conf, &held, &why));
	for (unsigned i = 0; i < 2; i++) {
		x[i].op = (struct store_op){
			.req = &req, .code = STORE_DEL, .done = last_done, .owner = &x[i]};
		CLEAN(store_key_set(&x[i].op.key, "x"));
		store_submit(closing, &x[i].op);
	}
	held_release();
	ck_assert_int_eq(atomic_load(&ended), 2);
	text_done(&why);
}
END_TEST

UNIT_MAIN("deco", test_trace_counts_requests_by_outcome_and_bytes,
	  test_trace_without_memory_lets_the_request_through, test_fault_rules_hit_when_they_say,
	  test_a_lost_answer_is_an_error_after_the_work_was_done,
	  test_prob_hits_about_as_often_as_it_says_and_repeatably, test_a_kill_rule_kills,
	  test_fault_points_reach_the_store_below_all_decorators,
	  test_retry_tries_again_what_may_pass_and_only_that,
	  test_retry_stops_for_a_requester_who_gave_up, test_a_deadline_ends_what_hangs,
	  test_a_deadline_ends_the_tries, test_latency_delays_the_answer_and_rate_the_bytes,
	  test_limit_lets_so_many_through_in_order,
	  test_limit_does_not_recurse_over_a_store_that_finishes_at_once,
	  test_limit_is_not_touched_when_its_last_request_is_done)
