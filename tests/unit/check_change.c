/* SPDX-License-Identifier: Apache-2.0 */
/* layer: meta */
/* What sessions tell each other: notes, tails, fences, and who deletes what nobody names. */
#include "metatest.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "meta/meta_impl.h"
#include "unit.h"
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

/*
 * Several sessions of one process over one engine: each has a struct meta, and only the
 * first closes it.
 */
#define NSESSIONS 3
static struct meta *m[NSESSIONS];

static void start_sessions(int engine)
{
	mt_open(engine);
	m[0] = mt;
	for (unsigned i = 1; i < NSESSIONS; i++) {
		ck_assert_int_eq(meta_open(&m[i], meta_kv(mt), NULL), 0);
		ck_assert_int_eq(meta_session_begin(m[i], "/mnt2", NOW, NULL), 0);
	}
}

static void end_sessions(void)
{
	for (unsigned i = 1; i < NSESSIONS; i++) {
		int err = meta_session_end(m[i]);

		ck_assert(err == 0 || err == -TESS_E_FENCED);
		m[i]->kv = NULL;
		meta_close(m[i]);
	}
	mt_close();
}

struct told {
	unsigned n, attr, data, name, orphan;
	uint64_t ino;
	char last[TESS_NAME_MAX + 1];
};

static void tell(void *arg, const struct meta_change *c)
{
	struct told *t = arg;

	t->n++;
	t->attr += c->kind == META_CHANGE_ATTR;
	t->data += c->kind == META_CHANGE_DATA;
	t->name += c->kind == META_CHANGE_NAME;
	t->orphan += c->kind == META_CHANGE_ORPHAN;
	t->ino = c->ino;
	if (c->kind == META_CHANGE_NAME) {
		memcpy(t->last, c->name, c->nlen);
		t->last[c->nlen] = 0;
	}
}

/* What session i hears since *at. */
static struct told hear(unsigned i, uint64_t *at)
{
	struct told t = {0};
	struct meta_look look = {.more = true};

	while (look.more) {
		ck_assert_int_eq(meta_look(m[i], *at, tell, &t, &look), 0);
		*at = look.serial;
	}
	return t;
}

static uint64_t make(unsigned i, const char *name)
{
	struct meta_new in = {.mode = S_IFREG | 0644};
	struct meta_attr a;

	ck_assert_int_eq(meta_create(m[i], TESS_ROOT_INO, name, strlen(name), &in, NOW, &a), 0);
	return a.ino;
}

static void drop(unsigned i, const char *name)
{
	ck_assert_int_eq(meta_unlink(m[i], TESS_ROOT_INO, name, strlen(name), NOW, NULL), 0);
}

static uint64_t notes(void)
{
	struct kv_txn *x;
	uint64_t n;

	ck_assert_int_eq(meta_kv(mt)->ops->begin(meta_kv(mt), false, &x), 0);
	ck_assert_int_eq(kv_count(x, KV_CHANGE, &n), 0);
	meta_kv(mt)->ops->abort(x);
	return n;
}

START_TEST(alone_no_note_is_written)
{
	struct meta_attr a;

	mt_open(_i);
	m[0] = mt;
	make(0, "f");
	ck_assert_int_eq(meta_setattr(mt, TESS_ROOT_INO, META_SET_MODE, &(struct meta_attr){.mode = 0700},
				      NOW, &a), 0);
	drop(0, "f");
	ck_assert_uint_eq(notes(), 0);
	mt_reclaim_all();
	mt_close();
}
END_TEST

START_TEST(others_hear_what_changed_and_one_does_not_hear_oneself)
{
	struct meta_attr a, set = {.mode = 0600};
	uint64_t at = 0, own = 0, ino;
	struct told t;

	start_sessions(_i);
	at = own = kv_last(meta_kv(mt));
	ino = make(0, "f");
	t = hear(1, &at);
	/* The name and its directory; of the file nobody knew. */
	ck_assert_uint_eq(t.name, 1);
	ck_assert_uint_eq(t.attr, 1);
	ck_assert_str_eq(t.last, "f");
	ck_assert_int_eq(meta_setattr(mt, ino, META_SET_MODE, &set, NOW, &a), 0);
	t = hear(1, &at);
	ck_assert_uint_eq(t.n, 1);
	ck_assert(t.attr == 1 && t.ino == ino);
	/* A reader's atime is nobody's business. */
	set.atime = NOW;
	ck_assert_int_eq(meta_setattr(mt, ino, META_SET_ATIME | META_SET_CTIME, &set, NOW, &a), 0);
	ck_assert_uint_eq(hear(1, &at).n, 0);
	ck_assert_int_eq(meta_publish(mt, ino, &(struct meta_publish){.trunc_to = META_NO_TRUNC, .size = 9,
								      .mtime = NOW}, &a), 0);
	t = hear(1, &at);
	ck_assert(t.data == 1 && t.attr == 1);
	drop(0, "f");
	t = hear(1, &at);
	ck_assert(t.name == 1 && t.orphan == 1);
	ck_assert_str_eq(t.last, "f");
	ck_assert_uint_eq(hear(0, &own).n, 0);
	for (unsigned i = 1; i < NSESSIONS; i++)
		ck_assert_int_eq(meta_tail(m[i], kv_last(meta_kv(mt))), 0);
	mt_reclaim_all();
	end_sessions();
}
END_TEST

START_TEST(what_all_have_passed_goes)
{
	uint64_t at;

	start_sessions(_i);
	make(0, "a");
	make(0, "b");
	ck_assert_uint_gt(notes(), 0);
	at = kv_last(meta_kv(mt));
	ck_assert_int_eq(meta_tail(m[0], at), 0);
	ck_assert_int_eq(meta_tail(m[1], at), 0);
	ck_assert_uint_gt(notes(), 0);
	/* One that is shut out is not waited for. */
	ck_assert_int_eq(meta_fence(m[0], meta_session_id(m[2])), 0);
	ck_assert_int_eq(meta_tail(m[1], at), 0);
	ck_assert_uint_eq(notes(), 0);
	end_sessions();
}
END_TEST

START_TEST(the_log_is_bounded_and_says_so)
{
	uint64_t max = change_log_max, at;
	struct meta_look look;
	char name[16];

	change_log_max = 100;
	start_sessions(_i);
	at = kv_last(meta_kv(mt));
	for (unsigned i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "%u", i);
		make(0, name);
		ck_assert_int_eq(meta_look(m[1], at, NULL, NULL, &look), 0);
		ck_assert(!look.lost);
	}
	for (unsigned i = 40; i < 200; i++) {
		snprintf(name, sizeof(name), "%u", i);
		make(0, name);
	}
	ck_assert_uint_le(notes(), 100);
	ck_assert_int_eq(meta_look(m[1], at, NULL, NULL, &look), 0);
	ck_assert(look.lost);
	ck_assert_int_eq(meta_look(m[1], look.serial, NULL, NULL, &look), 0);
	ck_assert(!look.lost);
	change_log_max = max;
	end_sessions();
}
END_TEST

START_TEST(much_is_told_in_pieces_that_are_whole_commits)
{
	uint64_t at, from;
	struct meta_look look;
	struct told t = {0};
	unsigned looks = 0;
	char name[16];

	start_sessions(_i);
	from = at = kv_last(meta_kv(mt));
	for (unsigned i = 0; i < 1200; i++) {
		snprintf(name, sizeof(name), "%u", i);
		make(0, name);
	}
	do {
		ck_assert_int_eq(meta_look(m[1], at, tell, &t, &look), 0);
		ck_assert_uint_gt(look.serial, at);
		at = look.serial;
		looks++;
	} while (look.more);
	ck_assert_uint_gt(looks, 1);
	ck_assert_uint_eq(t.name, 1200);
	ck_assert_uint_eq(hear(2, &from).name, 1200);
	end_sessions();
}
END_TEST

START_TEST(a_fenced_session_changes_nothing)
{
	struct meta_new in = {.mode = S_IFREG | 0644};
	struct meta_session s;
	struct meta_attr a;
	uint64_t before;

	start_sessions(_i);
	make(1, "f");
	before = kv_last(meta_kv(mt));
	ck_assert_int_eq(meta_fence(m[0], meta_session_id(m[0])), -EINVAL);
	ck_assert_int_eq(meta_fence(m[0], 4711), -ENOENT);
	ck_assert_int_eq(meta_fence(m[0], meta_session_id(m[1])), 0);
	ck_assert_int_eq(meta_fence(m[0], meta_session_id(m[1])), 0);
	ck_assert_uint_gt(kv_last(meta_kv(mt)), before);
	before = kv_last(meta_kv(mt));
	ck_assert(!meta_fenced(m[1]));
	ck_assert_int_eq(meta_create(m[1], TESS_ROOT_INO, "g", 1, &in, NOW, &a), -TESS_E_FENCED);
	ck_assert(meta_fenced(m[1]));
	ck_assert_int_eq(meta_unlink(m[1], TESS_ROOT_INO, "f", 1, NOW, NULL), -TESS_E_FENCED);
	ck_assert_int_eq(meta_fence(m[1], meta_session_id(m[2])), -TESS_E_FENCED);
	ck_assert_int_eq(meta_session_beat(m[1], NOW), -TESS_E_FENCED);
	ck_assert_int_eq(meta_session_end(m[1]), -TESS_E_FENCED);
	ck_assert_int_eq(err_fold(-TESS_E_FENCED), -ESTALE);
	ck_assert_uint_eq(kv_last(meta_kv(mt)), before);
	/* Reads go on. */
	ck_assert_int_eq(meta_lookup(m[1], TESS_ROOT_INO, "f", 1, &a), 0);
	make(2, "g");
	ck_assert_int_eq(mt_check(false), 0);
	/* Taken over by another, it is as if it had never been. */
	ck_assert_int_eq(meta_session_adopt(m[2], meta_session_id(m[1])), 0);
	ck_assert_int_eq(meta_session_get(m[2], meta_session_id(m[1]), &s), -ENOENT);
	ck_assert_int_eq(mt_check(false), 0);
	end_sessions();
}
END_TEST

START_TEST(a_lease_lapses_when_nobody_beats)
{
	struct meta_session s;

	start_sessions(_i);
	ck_assert_int_eq(meta_session_get(m[0], meta_session_id(m[1]), &s), 0);
	ck_assert(!meta_session_lapsed(&s, s.beat + 30 * NS_PER_S));
	ck_assert(meta_session_lapsed(&s, s.beat + 30 * NS_PER_S + 1));
	/* Each by what it was told itself, not by what the others were. */
	ck_assert_int_eq(meta_session_end(m[1]), 0);
	meta_lease(m[1], NS_PER_S);
	ck_assert_int_eq(meta_session_begin(m[1], "/mnt2", NOW, NULL), 0);
	ck_assert_int_eq(meta_session_get(m[0], meta_session_id(m[1]), &s), 0);
	ck_assert(!meta_session_lapsed(&s, s.beat + NS_PER_S));
	ck_assert(meta_session_lapsed(&s, s.beat + NS_PER_S + 1));
	ck_assert_int_eq(meta_session_beat(m[1], NOW), 0);
	ck_assert_int_eq(meta_fence(m[0], s.id), 0);
	ck_assert_int_eq(meta_session_get(m[0], s.id, &s), 0);
	ck_assert(s.fenced && !meta_session_lapsed(&s, INT64_MAX));
	end_sessions();
}
END_TEST

static bool there(uint64_t ino)
{
	struct meta_attr a;

	return meta_getattr(m[0], ino, &a) == 0;
}

static int reclaim(unsigned i, uint64_t ino)
{
	bool more = true;
	int err = 0;

	while (!err && more)
		err = meta_reclaim(m[i], &ino, 1, 100, NOW, &more);
	return err;
}

START_TEST(an_orphan_waits_until_all_have_heard)
{
	uint64_t ino, at;

	start_sessions(_i);
	ino = make(0, "f");
	drop(0, "f");
	at = kv_last(meta_kv(mt));
	ck_assert_int_eq(reclaim(0, ino), -EBUSY);
	ck_assert_int_eq(meta_tail(m[1], at), 0);
	ck_assert_int_eq(reclaim(0, ino), -EBUSY);
	ck_assert_int_eq(meta_tail(m[2], at - 1), 0);
	ck_assert_int_eq(reclaim(0, ino), -EBUSY);
	ck_assert(there(ino));
	ck_assert_int_eq(meta_tail(m[2], at), 0);
	ck_assert_int_eq(reclaim(0, ino), 0);
	ck_assert(!there(ino));
	end_sessions();
}
END_TEST

START_TEST(the_last_holder_deletes)
{
	uint64_t ino;

	start_sessions(_i);
	ino = make(0, "f");
	ck_assert_int_eq(meta_orphan_hold(m[1], ino), 0);
	ck_assert_int_eq(meta_orphan_held(m[1], ino), -TESS_E_STALE);
	drop(0, "f");
	ck_assert_int_eq(meta_orphan_held(m[0], ino), 0);
	for (unsigned i = 1; i < NSESSIONS; i++) {
		ck_assert_int_eq(meta_orphan_hold(m[i], ino), 0);
		ck_assert_int_eq(meta_orphan_hold(m[i], ino), 0);
		ck_assert_int_eq(meta_orphan_held(m[i], ino), 0);
	}
	ck_assert_int_eq(mt_check(false), 0);
	for (unsigned i = 0; i < NSESSIONS; i++)
		ck_assert_int_eq(meta_tail(m[i], kv_last(meta_kv(mt))), 0);
	ck_assert_int_eq(reclaim(0, ino), 0);
	ck_assert_int_eq(meta_orphan_held(m[0], ino), -TESS_E_STALE);
	ck_assert(there(ino));
	ck_assert_int_eq(reclaim(2, ino), 0);
	ck_assert(there(ino));
	ck_assert_int_eq(reclaim(1, ino), 0);
	ck_assert(!there(ino));
	ck_assert_int_eq(meta_orphan_hold(m[2], ino), -TESS_E_STALE);
	end_sessions();
}
END_TEST

START_TEST(a_new_name_ends_all_holds)
{
	struct meta_attr a;
	uint64_t ino;

	start_sessions(_i);
	ino = make(0, "f");
	drop(0, "f");
	ck_assert_int_eq(meta_orphan_hold(m[1], ino), 0);
	ck_assert_int_eq(meta_link(m[0], ino, TESS_ROOT_INO, "g", 1, NOW, &a), 0);
	ck_assert_int_eq(mt_check(false), 0);
	ck_assert_int_eq(reclaim(1, ino), 0);
	ck_assert(there(ino));
	end_sessions();
}
END_TEST

START_TEST(who_ends_leaves_what_others_may_have_open)
{
	uint64_t ino, got[4];
	unsigned n;

	start_sessions(_i);
	ino = make(1, "f");
	drop(1, "f");
	ck_assert_int_eq(reclaim(1, ino), -EBUSY);
	ck_assert_int_eq(meta_session_end(m[1]), -EBUSY);
	ck_assert_int_eq(meta_orphans_leave(m[1]), 0);
	ck_assert_int_eq(meta_session_end(m[1]), 0);
	ck_assert_int_eq(meta_orphans(m[0], 0, got, 4, &n), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(got[0], ino);
	ck_assert_int_eq(meta_tail(m[2], kv_last(meta_kv(mt))), 0);
	ck_assert_int_eq(reclaim(0, ino), 0);
	ck_assert(!there(ino));
	end_sessions();
}
END_TEST

/* As of a daemon that has as many files open as it may: it must not take others' sessions from them. */
START_TEST(who_cannot_be_looked_at_is_not_dead)
{
	struct rlimit was, none;
	struct meta_session s;
	bool dead;

	mt_open(0);
	CLEAN(meta_session_get(mt, meta_session_id(mt), &s));
	CLEAN(getrlimit(RLIMIT_NOFILE, &was));
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = was.rlim_max };
	CLEAN(setrlimit(RLIMIT_NOFILE, &none));
	dead = meta_session_dead(&s);
	CLEAN(setrlimit(RLIMIT_NOFILE, &was));
	ck_assert(!dead);
	ck_assert(!meta_session_dead(&s));
	/* Nor does it begin one that others could not tell from a dead one's. */
	CLEAN(setrlimit(RLIMIT_NOFILE, &none));
	ck_assert_int_lt(meta_session_begin(mt, "/mnt", NOW, NULL), 0);
	CLEAN(setrlimit(RLIMIT_NOFILE, &was));
	s.pid = 0x7ffffff0;
	ck_assert(meta_session_dead(&s));
	mt_close();
}
END_TEST

START_TEST(a_dead_holders_hold_goes_over_with_it)
{
	uint64_t ino;

	start_sessions(_i);
	ino = make(0, "f");
	drop(0, "f");
	ck_assert_int_eq(meta_orphan_hold(m[1], ino), 0);
	for (unsigned i = 0; i < NSESSIONS; i++)
		ck_assert_int_eq(meta_tail(m[i], kv_last(meta_kv(mt))), 0);
	ck_assert_int_eq(reclaim(0, ino), 0);
	ck_assert(there(ino));
	ck_assert_int_eq(meta_session_adopt(m[2], meta_session_id(m[1])), 0);
	ck_assert_int_eq(meta_orphan_held(m[2], ino), 0);
	ck_assert_int_eq(reclaim(2, ino), 0);
	ck_assert(!there(ino));
	end_sessions();
}
END_TEST

START_TEST(the_checker_counts_sessions_and_reads_notes)
{
	struct kv *kv;
	struct kv_txn *t;
	struct fmt_key k;

	start_sessions(_i);
	kv = meta_kv(mt);
	make(0, "f");
	ck_assert_int_eq(mt_check(false), 0);
	ck_assert_int_eq(kv->ops->begin(kv, true, &t), 0);
	ck_assert_int_eq(session_count_put(t, 7, 2), 0);
	ck_assert_int_eq(kv_put(t, KV_CHANGE, key_change(&k, 1, 9, 1), kv_val("x", 1)), 0);
	ck_assert_int_eq(kv->ops->commit(t, NULL), 0);
	ck_assert_int_eq(mt_check(false), 2);
	ck_assert_int_eq(mt_check(true), 2);
	ck_assert_int_eq(mt_check(false), 0);
	end_sessions();
}
END_TEST

START_TEST(each_failure_leaves_all_as_it_was)
{
	static const char *const points[] = {"kv.get", "kv.put", "kv.del", "kv.seek", "kv.commit"};
	struct meta_session s;
	char spec[64];

	start_sessions(_i);
	for (unsigned p = 0; p < sizeof(points) / sizeof(*points); p++) {
		for (unsigned n = 1; n < 30; n++) {
			uint64_t ino = make(0, "f");
			int err;

			ck_assert_int_eq(meta_tail(m[1], 1), 0);
			drop(0, "f");
			snprintf(spec, sizeof(spec), "%s@%u=EIO", points[p], n);
			ck_assert_int_eq(fault_set(spec), 0);
			err = meta_orphan_hold(m[1], ino);
			ck_assert(err == 0 || err == -EIO);
			err = meta_tail(m[1], kv_last(meta_kv(mt)));
			ck_assert(err == 0 || err == -EIO);
			err = meta_session_beat(m[1], NOW);
			ck_assert(err == 0 || err == -EIO);
			err = meta_orphans_leave(m[1]);
			ck_assert(err == 0 || err == -EIO);
			(void)fault_set(NULL);
			ck_assert_int_eq(mt_check(false), 0);
			for (unsigned i = 0; i < NSESSIONS; i++)
				ck_assert_int_ge(meta_tail(m[i], kv_last(meta_kv(mt))), 0);
			for (unsigned i = 0; i < NSESSIONS; i++)
				ck_assert_int_eq(reclaim(i, ino), 0);
			ck_assert(!there(ino));
		}
	}
	snprintf(spec, sizeof(spec), "kv.put@2=EIO");
	ck_assert_int_eq(fault_set(spec), 0);
	ck_assert_int_eq(meta_fence(m[0], meta_session_id(m[1])), -EIO);
	(void)fault_set(NULL);
	ck_assert_int_eq(meta_session_get(m[0], meta_session_id(m[1]), &s), 0);
	ck_assert(!s.fenced);
	end_sessions();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		alone_no_note_is_written, others_hear_what_changed_and_one_does_not_hear_oneself,
		what_all_have_passed_goes, the_log_is_bounded_and_says_so,
		much_is_told_in_pieces_that_are_whole_commits, a_fenced_session_changes_nothing,
		a_lease_lapses_when_nobody_beats, an_orphan_waits_until_all_have_heard,
		the_last_holder_deletes, a_new_name_ends_all_holds,
		who_ends_leaves_what_others_may_have_open, a_dead_holders_hold_goes_over_with_it,
		who_cannot_be_looked_at_is_not_dead,
		the_checker_counts_sessions_and_reads_notes, each_failure_leaves_all_as_it_was,
	};
	Suite *s = suite_create("change");
	TCase *c = tcase_create("change");

	suite_add_tcase(s, c);
	for (unsigned i = 0; i < sizeof(tests) / sizeof(*tests); i++)
		tcase_add_loop_test(c, tests[i], 0, 2);
	return unit_run(s);
}
