/* SPDX-License-Identifier: Apache-2.0 */
/* layer: fs */
/* What a mount hears of other sessions, and tells its kernel. */
#include "watchtest.h"
#include "unit.h"
#include "base/err.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static bool was_told(uint64_t ino, bool data, const char *name)
{
	scoped_lock(&wt.lock);
	for (unsigned i = 0; i < wt.ntold; i++)
		if (wt.told[i].ino == ino && wt.told[i].data == data && !strcmp(wt.told[i].name, name))
			return true;
	return false;
}

static void other_unlinks(const char *n)
{
	CLEAN(meta_unlink(wt.other, TESS_ROOT_INO, n, strlen(n), clock_wall(), NULL));
}

static bool there(uint64_t ino)
{
	struct meta_attr a;

	return meta_getattr(wt.meta, ino, &a) == 0;
}

static uint64_t tail(void)
{
	struct meta_session self;

	CLEAN(meta_session_get(wt.other, meta_session_id(wt.meta), &self));
	return self.tail;
}

static void count_done(void *arg)
{
	(void)arg;
	atomic_fetch_add(&wt.done, 1);
}

START_TEST(who_is_alone_knows_it)
{
	SOON(!fs_shared(wt.fs));
	wt_join();
	ck_assert(fs_shared(wt.fs));
	wt_leave();
	SOON(!fs_shared(wt.fs));
}
END_TEST

START_TEST(one_that_did_not_look_is_not_alone)
{
	SOON(!fs_shared(wt.fs));
	atomic_store(&wt.fs->watch.looked, clock_now_coarse() - NS_PER_S);
	/* At once, and until it has looked. */
	ck_assert(fs_shared(wt.fs) || clock_now_coarse() - wt.fs->watch.looked < NS_PER_S);
	SOON(!fs_shared(wt.fs));
}
END_TEST

START_TEST(the_kernel_hears_of_names_and_attributes)
{
	struct meta_new in = { .mode = S_IFREG | 0644 };
	struct meta_attr a, set = { .mode = 0600 };

	wt_join();
	CLEAN(meta_create(wt.other, TESS_ROOT_INO, "f", 1, &in, clock_wall(), &a));
	SOON(was_told(TESS_ROOT_INO, false, "f") && was_told(TESS_ROOT_INO, false, ""));
	CLEAN(meta_setattr(wt.other, a.ino, META_SET_MODE, &set, clock_wall(), &a));
	SOON(was_told(a.ino, false, ""));
	/* Nobody here has it open: open(2) looks, whatever pages there are. */
	ck_assert(!was_told(a.ino, true, ""));
	other_unlinks("f");
	bool more;

	SOON(meta_reclaim(wt.other, &a.ino, 1, 100, clock_wall(), &more) == 0);
}
END_TEST

START_TEST(pages_of_an_open_file_go_when_they_are_kept_by_time)
{
	struct meta_publish p = { .trunc_to = META_NO_TRUNC, .size = 100 };
	struct meta_attr a;
	struct fs_file *fh = wt_create("f", &a);

	wt_join();
	CLEAN(meta_publish(wt.other, a.ino, &p, NULL));
	SOON(was_told(a.ino, true, ""));
	fs_release(fh, &wt.req);
}
END_TEST

START_TEST(what_this_mount_does_the_kernel_knows)
{
	struct meta_attr a;

	wt_join();
	fs_release(wt_create("mine", &a), &wt.req);
	SOON(tail() >= kv_last(meta_kv(wt.meta)) - 1);
	ck_assert(!was_told(TESS_ROOT_INO, false, "mine"));
}
END_TEST

static void count_locked(struct fs_lock *l, int err)
{
	(void)l;
	CLEAN(err);
	atomic_fetch_add(&wt.done, 1);
}

static void lock_shared(struct fs_lock *l, struct fs_file *fh, uint64_t owner)
{
	*l = (struct fs_lock){ .fh = fh, .req = &wt.req, .done = count_locked,
			       .want = { .owner = owner, .kind = META_LOCK_FLOCK,
					 .type = META_LOCK_READ, .end = META_LOCK_END } };
	(void)fs_lock_begin(l);
	l->want.ino = fs_file_ino(fh);
	fs_lock_set(l);
}

/* What the second one reads must not be what the first one is still getting rid of. */
START_TEST(no_lock_is_had_while_old_pages_are_there)
{
	struct meta_publish p = { .trunc_to = META_NO_TRUNC, .size = 10, .mtime = 1 };
	struct meta_attr a;
	struct fs_file *fh = wt_create("f", &a);
	struct fs_lock l[2];

	wt_join();
	CLEAN(meta_publish(wt.other, a.ino, &p, NULL));
	wt.block = true;
	lock_shared(&l[0], fh, 1);
	SOON(wt.blocked);
	lock_shared(&l[1], fh, 2);
	clock_sleep(50 * NS_PER_MS);
	ck_assert_uint_eq(atomic_load(&wt.done), 0);
	lock_take(&wt.lock);
	wt.block = false;
	cond_wake_all(&wt.cond);
	lock_drop(&wt.lock);
	SOON(atomic_load(&wt.done) == 2);
	fs_lock_release(fh, &wt.req);
	fs_release(fh, &wt.req);
}
END_TEST

START_TEST(dropped_pages_are_answered_for)
{
	CLEAN(fs_drop_pages(wt.fs, 77, count_done, NULL));
	SOON(atomic_load(&wt.done) == 1);
	ck_assert(was_told(77, true, ""));
	fs_watch_end(wt.fs);
	CLEAN(fs_drop_pages(wt.fs, 78, count_done, NULL));
	ck_assert_uint_eq(atomic_load(&wt.done), 2);
	ck_assert(!was_told(78, true, ""));
}
END_TEST

START_TEST(who_has_caught_up_has_queued_what_was_committed)
{
	struct meta_new in = { .mode = S_IFREG | 0644 };
	struct meta_attr a;
	bool more;

	wt_join();
	for (unsigned i = 0; i < 20; i++) {
		CLEAN(meta_create(wt.other, TESS_ROOT_INO, "f", 1, &in, clock_wall(), &a));
		other_unlinks("f");
		wt.ntold = 0;
		CLEAN(fs_invalidate(wt.fs, i % 2 ? a.ino : TESS_ROOT_INO));
		/* It is not in the directory that is walked, and leads to the file no more. */
		ck_assert(was_told(TESS_ROOT_INO, false, "f"));
		SOON(meta_reclaim(wt.other, &a.ino, 1, 100, clock_wall(), &more) == 0);
	}
}
END_TEST

static void too_much_for_a_kernel_that_waits(void)
{
	wt.block = true;
	CLEAN(fs_drop_pages(wt.fs, 77, count_done, NULL));
	SOON(wt.blocked);
	for (unsigned i = 0; i < 70000; i++)
		watch_forget_name(wt.fs, TESS_ROOT_INO, "x", 1);
	lock_take(&wt.lock);
	wt.block = false;
	cond_wake_all(&wt.cond);
	lock_drop(&wt.lock);
}

START_TEST(of_too_much_all_names_are_forgotten)
{
	too_much_for_a_kernel_that_waits();
	SOON(atomic_load(&wt.names) == 1);
}
END_TEST

START_TEST(a_kernel_that_cannot_hears_of_the_names_of_the_root)
{
	struct meta_attr a;
	char n[8];

	for (unsigned i = 0; i < 150; i++) {
		snprintf(n, sizeof(n), "f%u", i);
		fs_release(wt_create(n, &a), &wt.req);
	}
	wt.cannot = true;
	too_much_for_a_kernel_that_waits();
	for (unsigned i = 0; i < 150; i++) {
		snprintf(n, sizeof(n), "f%u", i);
		SOON(was_told(TESS_ROOT_INO, false, n));
	}
	ck_assert(!was_told(TESS_ROOT_INO, false, "."));
}
END_TEST

START_TEST(a_kernel_that_waits_holds_up_no_tail_and_no_end)
{
	struct meta_new in = { .mode = S_IFREG | 0644 };
	struct meta_attr a;

	wt_join();
	wt.block = true;
	CLEAN(fs_drop_pages(wt.fs, 77, count_done, NULL));
	SOON(wt.blocked);
	CLEAN(fs_drop_pages(wt.fs, 78, count_done, NULL));
	for (unsigned i = 0; i < 20; i++) {
		char n[8];

		snprintf(n, sizeof(n), "f%u", i);
		CLEAN(meta_create(wt.other, TESS_ROOT_INO, n, strlen(n), &in, clock_wall(), &a));
	}
	SOON(tail() >= kv_last(meta_kv(wt.meta)) - 1);
	ck_assert_uint_eq(atomic_load(&wt.done), 0);
	lock_take(&wt.lock);
	wt.block = false;
	cond_wake_all(&wt.cond);
	lock_drop(&wt.lock);
	fs_watch_end(wt.fs);
	ck_assert_uint_eq(atomic_load(&wt.done), 2);
}
END_TEST

START_TEST(a_file_unlinked_elsewhere_lives_while_it_is_open)
{
	struct meta_attr a;
	struct fs_file *fh = wt_create("f", &a), *again;
	bool more = true;
	char c = 0;

	CLEAN(fs_write(fh, &wt.req, 0, "x", 1));
	CLEAN(fs_flush(fh, &wt.req));
	wt_join();
	other_unlinks("f");
	SOON(meta_orphan_held(wt.meta, a.ino) == 0);
	wt_other_knows_all();
	SOON(meta_reclaim(wt.other, &a.ino, 1, 100, clock_wall(), &more) == 0);
	ck_assert(there(a.ino));
	/* By another handle, too: /proc/self/fd. */
	CLEAN(fs_file_open(wt.fs, &wt.req, a.ino, O_RDONLY, &again));
	ck_assert_int_eq(io_read_sync(again->in->file, &wt.req, 0, &c, 1), 1);
	ck_assert_int_eq(c, 'x');
	CLEAN(fs_write(fh, &wt.req, 0, "y", 1));
	CLEAN(fs_fsync(fh, &wt.req, false));
	fs_release(again, &wt.req);
	fs_release(fh, &wt.req);
	SOON(!there(a.ino));
}
END_TEST

START_TEST(one_that_was_not_open_is_stale)
{
	struct meta_attr a;
	struct fs_file *fh = wt_create("f", &a);

	fs_release(fh, &wt.req);
	wt_join();
	other_unlinks("f");
	ck_assert_int_eq(fs_file_open(wt.fs, &wt.req, a.ino, O_RDONLY, &fh), -TESS_E_STALE);
	SOON(tail() >= kv_last(meta_kv(wt.meta)) - 1);
	ck_assert_int_eq(fs_file_open(wt.fs, &wt.req, a.ino, O_RDONLY, &fh), -TESS_E_STALE);
	ck_assert_int_eq(meta_orphan_held(wt.meta, a.ino), -TESS_E_STALE);
	bool more;

	SOON(meta_reclaim(wt.other, &a.ino, 1, 100, clock_wall(), &more) == 0);
	ck_assert(!there(a.ino));
}
END_TEST

START_TEST(ours_waits_for_the_other_to_hear)
{
	struct meta_attr a;
	struct fs_file *fh = wt_create("f", &a);

	wt_join();
	CLEAN(fs_unlink(wt.fs, &wt.req, wt_name("f")));
	fs_release(fh, &wt.req);
	clock_sleep(200 * NS_PER_MS);
	ck_assert(there(a.ino));
	wt_other_knows_all();
	SOON(!there(a.ino));
}
END_TEST

START_TEST(a_fenced_mount_keeps_what_it_could_not_publish)
{
	char path[400], got[32] = "";
	struct meta_attr a;
	struct fs_file *fh = wt_create("f", &a), *other = wt_create("g", &a);
	int fd;

	CLEAN(fs_write(fh, &wt.req, 5, "precious", 8));
	wt_join();
	CLEAN(meta_fence(wt.other, meta_session_id(wt.meta)));
	SOON(fs_fenced(wt.fs));
	ck_assert_int_eq(fs_write(fh, &wt.req, 0, "x", 1), -TESS_E_FENCED);
	ck_assert_int_eq(fs_fsync(fh, &wt.req, false), -TESS_E_FENCED);
	ck_assert_int_eq(fs_mknod(wt.fs, &wt.req, wt_name("new"), S_IFREG | 0644, 0, &a), -TESS_E_FENCED);
	CLEAN(fs_getattr(wt.fs, &wt.req, TESS_ROOT_INO, &a));
	snprintf(path, sizeof(path), "%s/%u/%llu.5", wt.rescued, meta_session_id(wt.meta),
		 (unsigned long long)fs_file_ino(fh));
	fd = open(path, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(read(fd, got, sizeof(got)), 8);
	close(fd);
	ck_assert_str_eq(got, "precious");
	snprintf(path, sizeof(path), "%s/%u/manifest", wt.rescued, meta_session_id(wt.meta));
	memset(got, 0, sizeof(got));
	fd = open(path, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_gt(read(fd, got, sizeof(got) - 1), 0);
	close(fd);
	ck_assert_int_eq(strncmp(got, "/f\t5\t8\t", 7), 0);
	fs_release(other, &wt.req);
	fs_release(fh, &wt.req);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		who_is_alone_knows_it,
		one_that_did_not_look_is_not_alone,
		the_kernel_hears_of_names_and_attributes,
		pages_of_an_open_file_go_when_they_are_kept_by_time,
		what_this_mount_does_the_kernel_knows,
		no_lock_is_had_while_old_pages_are_there,
		dropped_pages_are_answered_for,
		who_has_caught_up_has_queued_what_was_committed,
		of_too_much_all_names_are_forgotten,
		a_kernel_that_cannot_hears_of_the_names_of_the_root,
		a_kernel_that_waits_holds_up_no_tail_and_no_end,
		a_file_unlinked_elsewhere_lives_while_it_is_open,
		one_that_was_not_open_is_stale,
		ours_waits_for_the_other_to_hear,
		a_fenced_mount_keeps_what_it_could_not_publish,
	};

	return unit_run_with("watch", tests, sizeof(tests) / sizeof(tests[0]), wt_setup, wt_teardown, 60);
}
