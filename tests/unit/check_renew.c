/* SPDX-License-Identifier: Apache-2.0 */
#include "store/renew.h"

#include "base/clock.h"
#include "base/fault.h"
#include "unit.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WALL (INT64_C(1000000) * NS_PER_S)

/* What the fetch does: tests set it while the thread sleeps. */
static atomic_int fetches, made, freed, fail_with, gate_open = 1;
static atomic_llong life = 100 * NS_PER_S;
static struct renew *r;

struct thing {
	struct renewed r;
	int            number;
};

static void thing_free(struct renewed *v)
{
	atomic_fetch_add(&freed, 1);
	free(container_of(v, struct thing, r));
}

static int fetch(void *arg, struct renewed **ret, struct text *why)
{
	int err, number = atomic_fetch_add(&fetches, 1) + 1;
	struct thing *t;

	(void)arg;
	while (!gate_open)
		usleep(1000);
	err = fail_with;
	if (err) {
		text_add(why, "the clerk is out");
		return err;
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	atomic_init(&t->r.refs, 1);
	t->r.until = life < 0 ? INT64_MAX : clock_wall() + life;
	t->r.free = thing_free;
	t->number = number;
	atomic_fetch_add(&made, 1);
	*ret = &t->r;
	return 0;
}

static struct thing *get(void)
{
	static struct renew_wait w;
	struct renewed *v = renew_get(r, &w);

	return v ? container_of(v, struct thing, r) : NULL;
}

/* The number of the value that is served; the reference is given back. */
static int served(void)
{
	struct thing *t = get();
	int number = t ? t->number : 0;

	renewed_put(t ? &t->r : NULL);
	return number;
}

/* True: it became n within 20 s, which only a defect uses up. */
static bool reaches(atomic_int *count, int n)
{
	for (int i = 0; i < 20000 && *count < n; i++)
		usleep(1000);
	usleep(20000);	/* and no further */
	return *count == n;
}

static void advance(int64_t ns)
{
	clock_fake(clock_now() + ns, clock_wall() + ns);
}

static void begin(void)
{
	clock_fake(1000 * NS_PER_S, WALL);
	CLEAN(renew_new(&r, "badge", fetch, NULL));
	CLEAN(renew_first(r, 20 * NS_PER_S, NULL));
}

static void finish(void)
{
	renew_free(r);
	ck_assert_int_eq(made, freed);
}

struct waiter {
	struct renew_wait w;
	atomic_int called;
	int        number, err;
};

static void ready(struct renew_wait *w, struct renewed *v, int err)
{
	struct waiter *me = container_of(w, struct waiter, w);

	me->number = v ? container_of(v, struct thing, r)->number : 0;
	me->err = err;
	renewed_put(v);
	atomic_fetch_add(&me->called, 1);
}

static void await(struct waiter *w)
{
	struct renewed *v = renew_get(r, &w->w);

	if (!v)
		ck_assert(reaches(&w->called, 1));
	renewed_put(v);
}

START_TEST(test_it_is_fetched_ahead_of_its_end)
{
	begin();
	ck_assert_int_eq(served(), 1);
	advance(89 * NS_PER_S);
	ck_assert_int_eq(served(), 1);
	ck_assert(reaches(&fetches, 1));
	advance(2 * NS_PER_S);
	ck_assert_int_ne(served(), 0);	/* nobody waits for it: the old one is still good */
	ck_assert(reaches(&fetches, 2));
	ck_assert_int_eq(served(), 2);
	finish();
}
END_TEST

START_TEST(test_a_short_life_is_halved_and_a_long_one_ends_ten_minutes_early)
{
	life = 6 * NS_PER_S;
	begin();
	life = 100000 * NS_PER_S;
	advance(2 * NS_PER_S);
	ck_assert_int_eq(served(), 1);
	ck_assert(reaches(&fetches, 1));
	advance(1 * NS_PER_S);
	ck_assert_int_eq(served(), 1);
	ck_assert(reaches(&fetches, 2));
	advance(99399 * NS_PER_S);
	ck_assert_int_eq(served(), 2);
	ck_assert(reaches(&fetches, 2));
	advance(2 * NS_PER_S);
	ck_assert_int_eq(served(), 2);
	ck_assert(reaches(&fetches, 3));
	finish();
}
END_TEST

START_TEST(test_what_has_no_end_is_fetched_once)
{
	life = -1;
	begin();
	advance(INT64_C(100000000) * NS_PER_S);
	ck_assert_int_eq(served(), 1);
	ck_assert(reaches(&fetches, 1));
	finish();
}
END_TEST

START_TEST(test_without_real_waiting_it_is_renewed_again_and_again)
{
	life = 200 * NS_PER_MS;
	CLEAN(renew_new(&r, "badge", fetch, NULL));
	CLEAN(renew_first(r, 20 * NS_PER_S, NULL));
	for (int i = 0; i < 20000 && fetches < 4; i++)
		usleep(1000);
	ck_assert_int_ge(fetches, 4);
	finish();
}
END_TEST

START_TEST(test_each_waiter_is_called_once_with_a_reference_of_its_own)
{
	static struct waiter w[50];

	gate_open = 0;
	CLEAN(renew_new(&r, "badge", fetch, NULL));
	for (int i = 0; i < 50; i++) {
		w[i].w.ready = ready;
		ck_assert_ptr_null(renew_get(r, &w[i].w));
	}
	ck_assert(renew_forget(r, &w[7].w));
	ck_assert(!renew_forget(r, &w[7].w));
	gate_open = 1;
	CLEAN(renew_first(r, 20 * NS_PER_S, NULL));
	for (int i = 0; i < 50; i++) {
		if (i == 7)
			continue;
		ck_assert(reaches(&w[i].called, 1));
		ck_assert_int_eq(w[i].number, 1);
		CLEAN(w[i].err);
		ck_assert(!renew_forget(r, &w[i].w));
	}
	ck_assert_int_eq(w[7].called, 0);
	finish();
}
END_TEST

START_TEST(test_a_rejected_value_is_replaced_at_once_and_only_once)
{
	static struct waiter w = { .w.ready = ready };
	struct thing *old;

	begin();
	old = get();
	renew_reject(r, &old->r);
	await(&w);
	ck_assert(reaches(&fetches, 2));
	ck_assert_int_eq(served(), 2);
	renew_reject(r, &old->r);	/* by another request, later */
	renew_reject(r, NULL);
	ck_assert_int_eq(served(), 2);
	ck_assert(reaches(&fetches, 2));
	renewed_put(&old->r);
	finish();
}
END_TEST

START_TEST(test_a_service_that_refuses_all_is_not_asked_in_a_loop)
{
	static struct waiter w = { .w.ready = ready };
	struct thing *t;

	begin();
	t = get();
	renew_reject(r, &t->r);
	renewed_put(&t->r);
	ck_assert(reaches(&fetches, 2));
	t = get();
	renew_reject(r, &t->r);
	renewed_put(&t->r);
	ck_assert_ptr_null(renew_get(r, &w.w));
	ck_assert(reaches(&fetches, 2));	/* the clock stands still */
	ck_assert_int_eq(w.called, 0);
	ck_assert(renew_forget(r, &w.w));
	advance(100 * NS_PER_MS);
	await(&w);
	ck_assert(reaches(&fetches, 3));
	finish();
}
END_TEST

/* Lines on stderr that hold `s`. */
static int lines_with(const char *path, const char *s)
{
	char line[512];
	FILE *f = fopen(path, "r");
	int n = 0;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, s) != NULL;
	fclose(f);
	return n;
}

/* However many attempts came before: who waits hears of the next within two seconds. */
static void hears_within_two_seconds(bool refused)
{
	static struct waiter w = { .w.ready = ready }, poke = { .w.ready = ready };
	struct renewed *v;

	for (int i = 0; i < 18; i++) {
		struct thing *t = refused ? get() : NULL;

		if (t) {
			renew_reject(r, &t->r);
			renewed_put(&t->r);
		}
		atomic_store(&w.called, 0);
		v = renew_get(r, &w.w);
		if (!v) {
			advance(2 * NS_PER_S);
			v = renew_get(r, &poke.w);	/* wakes it */
			if (!v)
				(void)renew_forget(r, &poke.w);
			ck_assert_msg(reaches(&w.called, 1), "attempt %d", i);
		}
		renewed_put(v);
	}
}

START_TEST(test_a_service_that_fails_is_asked_again_within_two_seconds)
{
	begin();
	fail_with = -ECONNREFUSED;
	advance(101 * NS_PER_S);
	hears_within_two_seconds(false);
	fail_with = 0;
	finish();
}
END_TEST

START_TEST(test_a_service_that_forgets_what_it_issued_is_asked_again_within_two_seconds)
{
	char path[] = "/tmp/check_renew.XXXXXX";
	int fd = mkstemp(path), keep = dup(2);

	ck_assert_int_ge(fd, 0);
	dup2(fd, 2);
	begin();
	hears_within_two_seconds(true);
	finish();
	dup2(keep, 2);
	ck_assert_int_eq(lines_with(path, "badge: what has just been issued is refused"), 1);
	unlink(path);
}
END_TEST

START_TEST(test_a_failure_is_backed_off_from_and_told_once_while_the_old_one_serves)
{
	char path[] = "/tmp/check_renew.XXXXXX";
	int fd = mkstemp(path), keep = dup(2);

	ck_assert_int_ge(fd, 0);
	dup2(fd, 2);
	begin();
	fail_with = -ETIMEDOUT;
	advance(91 * NS_PER_S);
	ck_assert_int_eq(served(), 1);
	ck_assert(reaches(&fetches, 2));
	ck_assert_int_eq(served(), 1);
	ck_assert(reaches(&fetches, 2));	/* not before the back-off has passed */
	for (int i = 3; i < 6; i++) {
		advance(NS_PER_S);
		ck_assert_int_eq(served(), 1);
		ck_assert(reaches(&fetches, i));
	}
	fail_with = 0;
	advance(2 * NS_PER_S);
	ck_assert_int_eq(served(), 1);
	ck_assert(reaches(&fetches, 6));
	ck_assert_int_eq(served(), 6);
	finish();
	dup2(keep, 2);
	ck_assert_int_eq(lines_with(path, "badge: not renewed"), 1);
	ck_assert_int_eq(lines_with(path, "the clerk is out"), 1);
	ck_assert_int_eq(lines_with(path, "badge: renewed"), 1);
	unlink(path);
}
END_TEST

START_TEST(test_waiters_hear_of_a_failure_when_nothing_good_is_left)
{
	static struct waiter w = { .w.ready = ready }, late = { .w.ready = ready };

	begin();
	fail_with = -EIO;
	advance(101 * NS_PER_S);
	ck_assert_ptr_null(renew_get(r, &w.w));
	ck_assert(reaches(&w.called, 1));
	ck_assert_int_eq(w.err, -EIO);
	ck_assert_int_eq(w.number, 0);
	fail_with = 0;
	/* The next attempt comes with the back-off, not with who asks. */
	ck_assert_ptr_null(renew_get(r, &w.w));
	ck_assert(reaches(&w.called, 1));
	advance(31 * NS_PER_S);
	await(&late);
	ck_assert(reaches(&w.called, 2));
	CLEAN(w.err);
	ck_assert_int_eq(w.number, 3);
	finish();
}
END_TEST

START_TEST(test_the_first_failure_is_told_to_who_opens)
{
	struct text why = TEXT_INIT;

	fail_with = -EACCES;
	CLEAN(renew_new(&r, "badge", fetch, NULL));
	ck_assert_int_eq(renew_first(r, 20 * NS_PER_S, &why), -EACCES);
	ck_assert_str_eq(text_str(&why), "the clerk is out");
	text_done(&why);
	finish();
}
END_TEST

START_TEST(test_a_first_fetch_that_hangs_is_told_by_the_timeout)
{
	struct text why = TEXT_INIT;

	gate_open = 0;
	CLEAN(renew_new(&r, "badge", fetch, NULL));
	ck_assert_int_eq(renew_first(r, 10 * NS_PER_MS, &why), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(text_str(&why), "badge"));
	text_done(&why);
	gate_open = 1;
	finish();
}
END_TEST

START_TEST(test_what_comes_expired_is_a_failure)
{
	struct text why = TEXT_INIT;

	life = 0;
	clock_fake(1000 * NS_PER_S, WALL);
	CLEAN(renew_new(&r, "badge", fetch, NULL));
	ck_assert_int_eq(renew_first(r, 20 * NS_PER_S, &why), -EKEYEXPIRED);
	ck_assert_ptr_nonnull(strstr(text_str(&why), "expired"));
	text_done(&why);
	finish();
}
END_TEST

START_TEST(test_free_calls_who_still_waits)
{
	static struct waiter w[3] = {{.w.ready = ready}, {.w.ready = ready}, {.w.ready = ready}};

	begin();
	fail_with = -EIO;
	advance(101 * NS_PER_S);
	ck_assert_ptr_null(renew_get(r, &w[0].w));
	ck_assert(reaches(&w[0].called, 1));
	/* Now it backs off, and the clock stands still. */
	ck_assert_ptr_null(renew_get(r, &w[1].w));
	ck_assert_ptr_null(renew_get(r, &w[2].w));
	finish();
	ck_assert_int_eq(w[0].called, 1);
	for (int i = 1; i < 3; i++) {
		ck_assert_int_eq(w[i].called, 1);
		ck_assert_int_eq(w[i].err, -ECANCELED);
	}
	renew_free(NULL);
	renewed_put(NULL);
}
END_TEST

START_TEST(test_a_value_outlives_its_renewer)
{
	struct thing *t;

	begin();
	t = get();
	renew_free(r);
	ck_assert_int_eq(freed, 0);
	ck_assert_int_eq(t->number, 1);
	renewed_put(&t->r);
	ck_assert_int_eq(freed, 1);
}
END_TEST

static void *hammer(void *arg)
{
	int64_t end = clock_now() + 300 * NS_PER_MS;
	unsigned i = 0;

	(void)arg;
	while (clock_now() < end) {
		struct waiter w = { .w.ready = ready };
		struct renewed *v = renew_get(r, &w.w);

		if (v && ++i % 64 == 0)
			renew_reject(r, v);
		renewed_put(v);
		if (!v && !renew_forget(r, &w.w))
			while (!w.called)
				usleep(100);
	}
	return NULL;
}

START_TEST(test_threads_get_reject_and_forget_at_once)
{
	pthread_t t[4];

	life = 50 * NS_PER_MS;
	CLEAN(renew_new(&r, "badge", fetch, NULL));
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, hammer, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	finish();
}
END_TEST

START_TEST(test_no_memory_or_no_thread_is_an_error)
{
	CLEAN(fault_set("alloc@1=ENOMEM"));
	ck_assert_int_eq(renew_new(&r, "badge", fetch, NULL), -ENOMEM);
	CLEAN(fault_set("thread@1=EAGAIN"));
	ck_assert_int_eq(renew_new(&r, "badge", fetch, NULL), -EAGAIN);
	CLEAN(fault_set(NULL));
}
END_TEST

UNIT_MAIN("renew", test_it_is_fetched_ahead_of_its_end,
	  test_a_short_life_is_halved_and_a_long_one_ends_ten_minutes_early,
	  test_what_has_no_end_is_fetched_once,
	  test_without_real_waiting_it_is_renewed_again_and_again,
	  test_each_waiter_is_called_once_with_a_reference_of_its_own,
	  test_a_rejected_value_is_replaced_at_once_and_only_once,
	  test_a_service_that_refuses_all_is_not_asked_in_a_loop,
	  test_a_service_that_fails_is_asked_again_within_two_seconds,
	  test_a_service_that_forgets_what_it_issued_is_asked_again_within_two_seconds,
	  test_a_failure_is_backed_off_from_and_told_once_while_the_old_one_serves,
	  test_waiters_hear_of_a_failure_when_nothing_good_is_left,
	  test_the_first_failure_is_told_to_who_opens,
	  test_a_first_fetch_that_hangs_is_told_by_the_timeout,
	  test_what_comes_expired_is_a_failure, test_free_calls_who_still_waits,
	  test_a_value_outlives_its_renewer, test_threads_get_reject_and_forget_at_once,
	  test_no_memory_or_no_thread_is_an_error)
