/* SPDX-License-Identifier: Apache-2.0 */
/* layer: meta */
/*
 * The rules of locks against a byte array that has one owner's type per byte; and locks as records,
 * of sessions that live, die and wait.
 */
#include "unit.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "meta/lock.h"
#include "meta/meta_impl.h"
#include "metatest.h"
#include <string.h>
#include <sys/wait.h>

#define BYTES  24u
#define OWNERS 3u

static struct meta_lock range(uint64_t owner, uint64_t start, uint64_t end, unsigned type)
{
	return (struct meta_lock){.ino = 17, .owner = owner, .start = start, .end = end,
				  .kind = META_LOCK_RANGE, .type = (uint8_t)type, .session = 1};
}

/* ---- the rules ---- */

static uint8_t oracle[OWNERS][BYTES + 1]; /* the last one stands for all that follow */

static bool oracle_blocked(const struct meta_lock *w)
{
	for (unsigned o = 0; o < OWNERS; o++)
		for (uint64_t b = w->start; o != w->owner && b <= MIN(w->end, BYTES); b++)
			if (oracle[o][b] + w->type > META_LOCK_WRITE && oracle[o][b] && w->type)
				return true;
	return false;
}

static void oracle_agrees(const struct lockset *s)
{
	uint8_t seen[OWNERS][BYTES + 1] = {{0}};

	for (unsigned i = 0; i < s->n; i++) {
		const struct meta_lock *l = &s->v[i].l;

		if (s->v[i].gone)
			continue;
		for (uint64_t b = l->start; b <= MIN(l->end, BYTES); b++) {
			ck_assert_uint_eq(seen[l->owner][b], 0);
			seen[l->owner][b] = l->type;
		}
		/* Joined: no neighbour of the same owner and type. */
		for (unsigned j = 0; j < s->n; j++)
			ck_assert(s->v[j].gone || j == i || s->v[j].l.owner != l->owner ||
				  s->v[j].l.type != l->type || s->v[j].l.start != l->end + 1);
	}
	ck_assert_mem_eq(seen, oracle, sizeof(seen));
}

START_TEST(ranges_are_what_a_byte_array_says)
{
	const char *more = getenv("LOCK_ROUNDS");
	long rounds = more ? atol(more) : 20000;
	struct lockset s = {0};
	unsigned blocked = 0;

	mt_rnd_seed(11);
	for (long i = 0; i < rounds; i++) {
		uint64_t a = mt_rnd(BYTES + 1), b = mt_rnd(BYTES + 1);
		struct meta_lock w = range(mt_rnd(OWNERS), MIN(a, b), MAX(a, b), (unsigned)mt_rnd(3));

		if (w.end == BYTES)
			w.end = META_LOCK_END;
		ck_assert_int_eq(w.type && lockset_conflict(&s, &w), oracle_blocked(&w));
		if (oracle_blocked(&w)) {
			blocked++;
			continue;
		}
		CLEAN(lockset_apply(&s, &w));
		for (b = w.start; b <= MIN(w.end, BYTES); b++)
			oracle[w.owner][b] = w.type;
		if (mt_rnd(4) == 0)
			lockset_sweep(&s);
		oracle_agrees(&s);
		for (uint64_t o = 0; o < OWNERS; o++) {
			struct meta_lock who = range(o, 0, 0, 0);
			static const uint8_t none[BYTES + 1];

			ck_assert_int_eq(lockset_holds(&s, &who),
					 memcmp(oracle[o], none, sizeof(none)) != 0);
		}
	}
	ck_assert_uint_gt(blocked, (unsigned)rounds / 20);
	lockset_done(&s);
}
END_TEST

START_TEST(no_memory_changes_nothing)
{
	struct lockset s = {0};
	struct meta_lock a = range(1, 0, META_LOCK_END, META_LOCK_READ), b = a;

	CLEAN(fault_set("alloc=ENOMEM"));
	ck_assert_int_eq(lockset_apply(&s, &a), -ENOMEM);
	CLEAN(fault_set(NULL));
	CLEAN(lockset_apply(&s, &a));
	/* Each write in the middle takes three rows more, so that some call has to grow the set. */
	for (uint64_t i = 0; i < 20; i++) {
		b = range(1, 10 * i + 5, 10 * i + 6, META_LOCK_WRITE);
		CLEAN(fault_set("alloc=ENOMEM"));
		int err = lockset_apply(&s, &b);

		CLEAN(fault_set(NULL));
		if (err) {
			struct meta_lock r = range(2, b.start, b.end, META_LOCK_READ);

			ck_assert_ptr_null(lockset_conflict(&s, &r));
			CLEAN(lockset_apply(&s, &b));
			ck_assert_ptr_nonnull(lockset_conflict(&s, &r));
		}
	}
	lockset_done(&s);
}
END_TEST

START_TEST(kinds_inodes_and_sessions_are_apart)
{
	struct lockset s = {0};
	struct meta_lock a = range(1, 0, 9, META_LOCK_WRITE), b = a;

	CLEAN(lockset_apply(&s, &a));
	ck_assert_ptr_null(lockset_conflict(&s, &b));
	b.kind = META_LOCK_FLOCK;
	ck_assert_ptr_null(lockset_conflict(&s, &b));
	b = a;
	b.ino++;
	ck_assert_ptr_null(lockset_conflict(&s, &b));
	b = a;
	b.session++;
	ck_assert_ptr_nonnull(lockset_conflict(&s, &b));
	lockset_drop_session(&s, 1);
	ck_assert_ptr_null(lockset_conflict(&s, &b));
	lockset_done(&s);
}
END_TEST

static void add_wait(struct lockset *s, struct meta_lock l, uint64_t id)
{
	l.wait = l.ticket = id;
	CLEAN(lockset_add(s, &l, true));
}

START_TEST(circles_are_found_and_nothing_else)
{
	struct lockset s = {0};
	struct meta_lock w;

	/* 1 holds 0, 2 holds 1, 3 holds 2; 1 waits for 2, 2 for 3. */
	for (uint64_t o = 1; o <= 3; o++) {
		w = range(o, o - 1, o - 1, META_LOCK_WRITE);
		CLEAN(lockset_apply(&s, &w));
	}
	add_wait(&s, range(1, 1, 1, META_LOCK_READ), 1);
	add_wait(&s, range(2, 2, 2, META_LOCK_READ), 2);
	w = range(3, 0, 0, META_LOCK_READ);
	ck_assert(lockset_deadlock(&s, &w));
	w = range(4, 0, 0, META_LOCK_READ);
	ck_assert(!lockset_deadlock(&s, &w));
	w = range(3, 7, 7, META_LOCK_WRITE);
	ck_assert(!lockset_deadlock(&s, &w));
	lockset_done(&s);
	/* Two readers that both want to write. */
	w = range(1, 0, 9, META_LOCK_READ);
	CLEAN(lockset_apply(&s, &w));
	w.owner = 2;
	CLEAN(lockset_apply(&s, &w));
	w.type = META_LOCK_WRITE;
	ck_assert(!lockset_deadlock(&s, &w));
	add_wait(&s, range(1, 0, 9, META_LOCK_WRITE), 3);
	ck_assert(lockset_deadlock(&s, &w));
	/* The same number in another session is another owner. */
	w.session = 2;
	ck_assert(!lockset_deadlock(&s, &w));
	lockset_done(&s);
}
END_TEST

/* ---- records ---- */

static int put_session(struct kv_txn *t, void *arg)
{
	struct meta_session *s = arg;
	uint8_t buf[FMT_SESSION_MAX];
	struct fmt_key k;
	struct kv_val v;

	if (kv_get(t, KV_SESSION, key_u32(&k, s->id), &v) == -ENOENT)
		CLEAN(session_count_add(t, 1, 0));
	return kv_put(t, KV_SESSION, key_u32(&k, s->id), kv_val(buf, codec_session_put(buf, s)));
}

static int put_lock(struct kv_txn *t, void *arg)
{
	const struct meta_lock *l = arg;
	uint8_t buf[FMT_LOCK_LEN];
	struct fmt_key k;

	return kv_put(t, KV_LOCK, key_lock(&k, l), kv_val(buf, codec_lock_put(buf, l)));
}

/* A session whose process is `pid`, else like ours. */
static void other_session(uint32_t id, pid_t pid, uint64_t pid_start)
{
	struct meta_session s[4];
	unsigned n;

	CLEAN(meta_sessions(mt, s, 4, &n));
	s[0].id = id;
	if (pid) {
		s[0].pid = (uint32_t)pid;
		s[0].pid_start = pid_start;
	}
	CLEAN(kv_run(meta_kv(mt), put_session, &s[0], NULL));
}

static int set(struct meta_lock w, struct meta_lock_op *ret)
{
	*ret = (struct meta_lock_op){.want = w};
	return meta_lock_set(mt, ret);
}

static unsigned count(void)
{
	struct meta_lock l[16];
	unsigned n;

	CLEAN(meta_locks(mt, l, 16, &n));
	return n;
}

START_TEST(records_hold_and_let_go)
{
	struct meta_lock_op o;

	mt_open(_i);
	CLEAN(set(range(1, 0, 99, META_LOCK_WRITE), &o));
	ck_assert(o.left);
	ck_assert_int_eq(set(range(2, 50, 60, META_LOCK_READ), &o), -EAGAIN);
	ck_assert_uint_eq(o.holder.owner, 1);
	CLEAN(set(range(1, 50, 60, META_LOCK_NONE), &o));
	ck_assert(o.left);
	ck_assert_uint_eq(count(), 2);
	CLEAN(set(range(2, 50, 60, META_LOCK_READ), &o));
	CLEAN(set(range(1, 50, 60, META_LOCK_READ), &o));
	ck_assert_uint_eq(count(), 4);
	CLEAN(set(range(1, 0, 99, META_LOCK_READ), &o));
	ck_assert_uint_eq(count(), 2);
	o.want = range(2, 99, 99, META_LOCK_WRITE);
	ck_assert_int_eq(meta_lock_test(mt, &o), -EAGAIN);
	ck_assert(o.holder.start == 0 && o.holder.end == 99);
	CLEAN(meta_lock_drop(mt, &(struct meta_lock_op){.want = range(1, 5, 5, 0)}));
	CLEAN(set(range(2, 50, 60, META_LOCK_NONE), &o));
	ck_assert(!o.left);
	ck_assert_uint_eq(count(), 0);
	mt_close();
}
END_TEST

START_TEST(a_flock_that_cannot_be_converted_is_lost)
{
	struct meta_lock a = range(1, 0, META_LOCK_END, META_LOCK_READ), b;
	struct meta_lock_op o;

	mt_open(_i);
	a.kind = META_LOCK_FLOCK;
	b = a;
	b.owner = 2;
	CLEAN(set(a, &o));
	CLEAN(set(b, &o));
	a.type = META_LOCK_WRITE;
	ck_assert_int_eq(set(a, &o), -EAGAIN);
	ck_assert_uint_eq(count(), 1);
	b.type = META_LOCK_WRITE;
	CLEAN(set(b, &o));
	b.type = META_LOCK_NONE;
	CLEAN(set(b, &o));
	mt_close();
}
END_TEST

START_TEST(what_the_dead_hold_is_broken)
{
	struct meta_lock l = range(1, 0, 9, META_LOCK_WRITE);
	struct meta_lock_op o;
	pid_t pid;

	mt_open(_i);
	/* Of a session that never was, of one whose process ended, of one that lives. */
	l.session = 77;
	CLEAN(kv_run(meta_kv(mt), put_lock, &l, NULL));
	CLEAN(set(range(1, 0, 99, META_LOCK_WRITE), &o));
	ck_assert_uint_eq(count(), 1);
	CLEAN(set(range(1, 0, 99, META_LOCK_NONE), &o));
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	other_session(77, pid, 1);
	CLEAN(kv_run(meta_kv(mt), put_lock, &l, NULL));
	CLEAN(set(range(1, 0, 99, META_LOCK_WRITE), &o));
	CLEAN(set(range(1, 0, 99, META_LOCK_NONE), &o));
	other_session(77, 0, 0);
	CLEAN(kv_run(meta_kv(mt), put_lock, &l, NULL));
	ck_assert_int_eq(set(range(1, 0, 99, META_LOCK_WRITE), &o), -EAGAIN);
	ck_assert_uint_eq(o.holder.session, 77);
	ck_assert_uint_eq(count(), 1);
	CLEAN(meta_session_adopt(mt, 77));
	ck_assert_uint_eq(count(), 0);
	mt_close();
}
END_TEST

START_TEST(a_session_that_ends_leaves_no_lock)
{
	struct meta_lock_op o;

	mt_open(_i);
	CLEAN(set(range(1, 0, 99, META_LOCK_WRITE), &o));
	o.want = range(2, 0, 0, META_LOCK_WRITE);
	o.want.wait = 5;
	CLEAN(meta_lock_wait(mt, &o));
	ck_assert_uint_eq(count(), 2);
	CLEAN(meta_session_end(mt));
	ck_assert_uint_eq(count(), 0);
	mt_close();
}
END_TEST

START_TEST(who_waits_longer_in_another_session_goes_first)
{
	struct meta_lock w = range(9, 0, 9, META_LOCK_WRITE);
	struct meta_lock_op o = {.want = range(1, 5, 5, META_LOCK_READ), .yield = true};

	mt_open(_i);
	w.session = 77;
	w.wait = 3;
	w.ticket = 1;
	other_session(77, 0, 0);
	CLEAN(kv_run(meta_kv(mt), put_lock, &w, NULL));
	ck_assert_int_eq(meta_lock_set(mt, &o), -EAGAIN);
	ck_assert_uint_eq(o.holder.wait, 3);
	o.deaf = 77;
	CLEAN(meta_lock_set(mt, &o));
	o.want.type = META_LOCK_NONE;
	CLEAN(meta_lock_set(mt, &o));
	/* Ours is the older ticket, and goes with the lock. */
	w.ticket = UINT64_MAX;
	CLEAN(kv_run(meta_kv(mt), put_lock, &w, NULL));
	o = (struct meta_lock_op){.want = range(1, 5, 5, META_LOCK_READ), .yield = true};
	o.want.wait = 4;
	CLEAN(meta_lock_wait(mt, &o));
	ck_assert_uint_gt(o.want.ticket, 0);
	ck_assert_uint_eq(count(), 2);
	CLEAN(meta_lock_set(mt, &o));
	ck_assert_uint_eq(count(), 2);
	CLEAN(meta_session_adopt(mt, 77));
	ck_assert_uint_eq(count(), 1);
	mt_close();
}
END_TEST

START_TEST(the_last_wait_of_a_circle_is_refused)
{
	struct meta_lock_op o;

	mt_open(_i);
	CLEAN(set(range(1, 0, 0, META_LOCK_WRITE), &o));
	CLEAN(set(range(2, 1, 1, META_LOCK_WRITE), &o));
	o.want = range(1, 1, 1, META_LOCK_WRITE);
	o.want.wait = 1;
	CLEAN(meta_lock_wait(mt, &o));
	o.want = range(2, 0, 0, META_LOCK_WRITE);
	o.want.wait = 2;
	ck_assert_int_eq(meta_lock_wait(mt, &o), -EDEADLK);
	ck_assert_uint_eq(count(), 3);
	o.want = range(1, 1, 1, META_LOCK_WRITE);
	o.want.wait = 1;
	CLEAN(meta_lock_wait_end(mt, &o));
	o.want = range(2, 0, 0, META_LOCK_WRITE);
	o.want.wait = 2;
	CLEAN(meta_lock_wait(mt, &o));
	mt_close();
}
END_TEST

/* Every fault point on the way fails in turn: either nothing happened, or all of it. */
START_TEST(a_failure_leaves_all_or_nothing)
{
	static const char *const points[] = {"alloc=ENOMEM", "kv.put=EIO", "kv.del=EIO",
					     "kv.seek=EIO", "kv.commit=EIO", "kv.get=EIO"};
	unsigned failed = 0;

	mt_open(_i);
	for (unsigned p = 0; p < ARRAY_SIZE(points); p++) {
		const char *eq = strchr(points[p], '=');

		for (unsigned n = 1; n < 12; n++) {
			struct meta_lock_op o;
			char spec[64];

			CLEAN(set(range(1, 0, 99, META_LOCK_WRITE), &o));
			snprintf(spec, sizeof(spec), "%.*s@%u%s", (int)(eq - points[p]), points[p],
				 n, eq);
			CLEAN(fault_set(spec));
			int err = set(range(1, 40, 49, META_LOCK_READ), &o);

			CLEAN(fault_set(NULL));
			ck_assert_uint_eq(count(), err ? 1 : 3);
			failed += err != 0;
			CLEAN(set(range(1, 0, META_LOCK_END, META_LOCK_NONE), &o));
			ck_assert_uint_eq(count(), 0);
		}
	}
	ck_assert_uint_gt(failed, 8);
	mt_close();
}
END_TEST

static unsigned stale;

static void tell(void *arg, const struct meta_finding *f)
{
	(void)arg;
	stale += strcmp(f->what, "lock") == 0;
}

START_TEST(the_checker_knows_locks)
{
	struct meta_lock l = range(1, 0, 9, META_LOCK_WRITE);
	struct meta_check c = {.fn = tell};
	struct meta_lock_op o;

	mt_open(_i);
	CLEAN(set(range(1, 20, 29, META_LOCK_WRITE), &o));
	CLEAN(meta_check(mt, &c));
	ck_assert_uint_eq(c.findings, 0);
	l.session = 77;
	CLEAN(kv_run(meta_kv(mt), put_lock, &l, NULL));
	CLEAN(meta_check(mt, &c));
	ck_assert(c.findings == 1 && stale == 1);
	c.repair = true;
	CLEAN(meta_check(mt, &c));
	ck_assert(c.repaired == 1 && count() == 1);
	mt_close();
}
END_TEST

int main(void)
{
	const TTest *const records[] = {
		records_hold_and_let_go, a_flock_that_cannot_be_converted_is_lost,
		what_the_dead_hold_is_broken, a_session_that_ends_leaves_no_lock,
		who_waits_longer_in_another_session_goes_first,
		the_last_wait_of_a_circle_is_refused, a_failure_leaves_all_or_nothing,
		the_checker_knows_locks,
	};
	const TTest *const rules[] = {
		ranges_are_what_a_byte_array_says, no_memory_changes_nothing,
		kinds_inodes_and_sessions_are_apart, circles_are_found_and_nothing_else,
	};
	Suite *s = unit_suite("locks", rules, ARRAY_SIZE(rules));
	TCase *c = tcase_create("records");

	suite_add_tcase(s, c);
	for (unsigned i = 0; i < ARRAY_SIZE(records); i++)
		tcase_add_loop_test(c, records[i], 0, 2);
	return unit_run(s);
}
