/* SPDX-License-Identifier: Apache-2.0 */
/* layer: meta */
/* What is laminated does not change; what is hidden is one session's. On both engines. */
#include "../lib/metatest.h"
#include "base/err.h"
#include "base/fault.h"
#include "unit.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define R TESS_ROOT_INO
#define F (S_IFREG | 0644)
#define D (S_IFDIR | 0755)

static uint64_t make_hidden(const char *name, uint32_t session, uint8_t marks)
{
	struct meta_new in = {.mode = F, .hidden = session, .hidden_marks = marks};
	struct meta_attr a;

	CLEAN(meta_create(mt, R, name, strlen(name), &in, NOW, &a));
	return a.ino;
}

/* Every change of a record counts its generation up. */
static void expect_same(uint64_t ino, const struct meta_attr *was)
{
	struct meta_attr a = mt_attr(ino);

	ck_assert_uint_eq(a.generation, was->generation);
	ck_assert_uint_eq(a.flags, was->flags);
	ck_assert_uint_eq(a.mode, was->mode);
	ck_assert_uint_eq(a.rdev, was->rdev);
	ck_assert_int_eq(a.ctime, was->ctime);
}

static int cut(uint64_t ino)
{
	struct meta_publish p = {.trunc_to = 0, .mtime = NOW};

	return meta_publish(mt, ino, &p, NULL);
}

START_TEST(what_is_laminated_refuses_each_change)
{
	struct meta_attr a, was, in = {.mode = 0600, .uid = 5, .mtime = 7};
	struct meta_clone c = {.len = 4096};
	struct meta_publish p = {.trunc_to = META_NO_TRUNC, .size = 9, .mtime = NOW};
	tess_segid seg;
	uint64_t f, g;

	mt_open(_i);
	f = mt_make(R, "f", F);
	g = mt_make(R, "g", F);
	CLEAN(mt_publish(f, 0, 4096, &seg));
	CLEAN(mt_publish(g, 0, 4096, &seg));
	CLEAN(meta_laminate(mt, f, 0, 0444, NOW + 1, &a));
	ck_assert_uint_eq(a.mode & 07777, 0444);
	ck_assert_uint_eq(a.flags & (META_LAMINATED | META_HIDDEN), META_LAMINATED);
	was = mt_attr(f);
	ck_assert_int_eq(cut(f), -EPERM);
	ck_assert_int_eq(meta_publish(mt, f, &p, NULL), -EPERM);
	c.src = g;
	c.dst = f;
	ck_assert_int_eq(meta_clone(mt, &c, NOW, NULL), -EPERM);
	ck_assert_int_eq(meta_setattr(mt, f, META_SET_MODE, &in, NOW, &a), -EPERM);
	ck_assert_int_eq(meta_setattr(mt, f, META_SET_UID, &in, NOW, &a), -EPERM);
	ck_assert_int_eq(meta_setattr(mt, f, META_SET_MTIME, &in, NOW, &a), -EPERM);
	ck_assert_int_eq(meta_xattr_set(mt, f, "user.a", "b", 1, 0, NOW), -EPERM);
	ck_assert_int_eq(meta_xattr_remove(mt, f, "user.a", NOW), -EPERM);
	ck_assert_int_eq(meta_claim(mt, f, 1, true, NOW, &a), -EPERM);
	expect_same(f, &was);
	/* It may be read from, and its names are the directory's. */
	c.src = f;
	c.dst = g;
	CLEAN(meta_clone(mt, &c, NOW, NULL));
	CLEAN(mt_rename(R, "f", R, "h", 0));
	ck_assert_int_eq(mt_attr(f).ctime, was.ctime);
	CLEAN(meta_link(mt, f, R, "i", 1, NOW, &a));
	CLEAN(mt_unlink(R, "h", NULL));
	CLEAN(meta_laminate(mt, f, 0, META_KEEP_MODE, NOW, &a)); /* again: nothing */
	CLEAN(meta_unlaminate(mt, f, NOW, &a));
	CLEAN(cut(f));
	mt_close();
}
END_TEST

START_TEST(names_of_a_laminated_directory_are_frozen)
{
	struct meta_new in = {.mode = F};
	struct meta_attr a;
	uint64_t d, f;

	mt_open(_i);
	d = mt_make(R, "d", D);
	f = mt_make(d, "f", F);
	mt_make(d, "s", D);
	mt_make(R, "g", F);
	CLEAN(meta_laminate(mt, d, 0, META_KEEP_MODE, NOW, &a));
	ck_assert_int_eq(mt_try_make(d, "n", F), -EPERM);
	ck_assert_int_eq(mt_try_make(d, "n", D), -EPERM);
	ck_assert_int_eq(meta_tmpfile(mt, d, &in, NOW, &a), -EPERM);
	ck_assert_int_eq(mt_unlink(d, "f", NULL), -EPERM);
	ck_assert_int_eq(mt_rmdir(d, "s"), -EPERM);
	ck_assert_int_eq(mt_rename(d, "f", d, "g", 0), -EPERM);
	ck_assert_int_eq(mt_rename(d, "f", R, "f", 0), -EPERM);
	ck_assert_int_eq(mt_rename(R, "g", d, "g", 0), -EPERM);
	ck_assert_int_eq(mt_rename(R, "g", d, "f", RENAME_EXCHANGE), -EPERM);
	ck_assert_int_eq(meta_link(mt, f, d, "l", 1, NOW, &a), -EPERM);
	/* What is in it is another matter, and so is its own name. */
	CLEAN(cut(f));
	CLEAN(mt_rename(R, "d", R, "e", 0));
	ck_assert_uint_eq(mt_find(d, "f"), f);
	CLEAN(meta_unlaminate(mt, d, NOW, &a));
	CLEAN(mt_unlink(d, "f", NULL));
	mt_reclaim_all();
	mt_close();
}
END_TEST

START_TEST(hidden_files_are_their_sessions)
{
	struct meta_attr a;
	uint64_t ours, theirs;
	uint32_t self;

	mt_open(_i);
	self = meta_session_id(mt);
	ck_assert_uint_eq(mt_attr(make_hidden("no", self, 0)).flags & META_HIDDEN, 0);
	ours = make_hidden("ours", self, 1);
	theirs = make_hidden("theirs", self + 7, 1);
	ck_assert_uint_eq(mt_attr(ours).flags & META_HIDDEN, META_HIDDEN);
	ck_assert_uint_eq(mt_attr(ours).rdev, self);
	CLEAN(cut(ours));
	ck_assert_int_eq(cut(theirs), -EBUSY);
	ck_assert_int_eq(meta_laminate(mt, theirs, self, META_KEEP_MODE, NOW, &a), -EBUSY);
	ck_assert_int_eq(meta_claim(mt, theirs, self + 6, true, NOW, &a), -EBUSY);
	CLEAN(meta_claim(mt, ours, self + 7, false, NOW, &a)); /* it is */
	ck_assert_uint_eq(a.flags & META_HIDDEN, META_HIDDEN);
	CLEAN(meta_claim(mt, theirs, self + 7, true, NOW, &a));
	ck_assert_uint_eq(a.rdev, self);
	CLEAN(cut(theirs));
	CLEAN(meta_laminate(mt, theirs, self, META_KEEP_MODE, NOW, &a));
	ck_assert_uint_eq(a.rdev, 0);
	ck_assert_uint_eq(a.flags & META_HIDDEN, 0);
	theirs = make_hidden("more", self + 7, 1);
	CLEAN(meta_claim(mt, theirs, self + 7, false, NOW, &a));
	ck_assert_uint_eq(a.flags & META_HIDDEN, 0);
	ck_assert_uint_eq(a.rdev, 0);
	mt_close();
}
END_TEST

static const char *const points[] = {"kv.put", "kv.get", "kv.commit"};

START_TEST(a_failure_laminates_nothing)
{
	char spec[64];
	struct meta_attr a, was;
	uint64_t f;

	mt_open(1);
	f = make_hidden("f", meta_session_id(mt), 1);
	was = mt_attr(f);
	for (int n = 1; n < 20; n++) {
		int err;

		snprintf(spec, sizeof(spec), "%s@%d=ENOMEM", points[_i], n);
		CLEAN(fault_set(spec));
		err = meta_laminate(mt, f, meta_session_id(mt), 0400, NOW, &a);
		CLEAN(fault_set(NULL));
		if (!err) {
			ck_assert_uint_eq(mt_attr(f).mode & 07777, 0400);
			mt_close();
			return;
		}
		ck_assert_int_eq(err, -ENOMEM);
		expect_same(f, &was);
	}
	ck_abort_msg("it never succeeded");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("meta_laminate");
	TCase *c = tcase_create("laminate");

	suite_add_tcase(s, c);
	tcase_add_loop_test(c, what_is_laminated_refuses_each_change, 0, 2);
	tcase_add_loop_test(c, names_of_a_laminated_directory_are_frozen, 0, 2);
	tcase_add_loop_test(c, hidden_files_are_their_sessions, 0, 2);
	tcase_add_loop_test(c, a_failure_laminates_nothing, 0,
			    (int)(sizeof(points) / sizeof(points[0])));
	return unit_run(s);
}
