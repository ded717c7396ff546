/* SPDX-License-Identifier: Apache-2.0 */
/* layer: fs */
/* What a read brings back while a write is on its way, and what the write has the kernel drop. */
#include "watchtest.h"
#include "unit.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static unsigned dropped_of(uint64_t ino, int64_t off, int64_t len)
{
	unsigned n = 0;

	scoped_lock(&wt.lock);
	for (unsigned i = 0; i < wt.ntold; i++)
		n += wt.told[i].ino == ino && wt.told[i].data && wt.told[i].off == off && wt.told[i].len == len;
	return n;
}

static void read_over(struct io_read *io)
{
	CLEAN(io->err);
	atomic_fetch_add(&wt.done, 1);
}

static void read_begin(struct fs_read *r, struct fs_file *fh, uint64_t off, size_t len)
{
	unsigned was = atomic_load(&wt.done);

	*r = (struct fs_read){ .fh = fh, .io = { .req = &wt.req, .off = off, .len = len, .done = read_over } };
	fs_read(r);
	SOON(atomic_load(&wt.done) == was + 1);
}

static void read_some(struct fs_file *fh, uint64_t off, size_t len)
{
	struct fs_read r;

	read_begin(&r, fh, off, len);
	fs_read_release(&r);
}

/* Open to write, the kernel's pages in order; then another mount publishes. */
static struct fs_file *written(struct meta_attr *a)
{
	struct meta_publish p = { .trunc_to = META_NO_TRUNC, .size = 40960 };
	struct fs_file *fh = wt_create("f", a);
	char page[4096] = "o";

	for (unsigned i = 0; i < 10; i++)
		CLEAN(fs_write(fh, &wt.req, i * 4096, page, 4096));
	CLEAN(fs_flush(fh, &wt.req));
	/* In the name of this one, so that the change log tells nobody. */
	CLEAN(meta_publish(wt.meta, a->ino, &p, NULL));
	return fh;
}

static struct fs_file *opened(uint64_t ino, int flags)
{
	struct fs_file *fh;

	CLEAN(fs_file_open(wt.fs, &wt.req, ino, flags, &fh));
	return fh;
}

START_TEST(what_came_back_before_a_write_goes_with_it)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r = opened(a.ino, O_RDONLY);

	ck_assert(!r->info.keep_cache);
	read_some(r, 8192, 8192);
	CLEAN(fs_write(w, &wt.req, 12000, "n", 1));
	/* Before the write was answered; the page of what it wrote alone, of what was read. */
	ck_assert_uint_eq(dropped_of(a.ino, 8192, 12001 - 8192), 1);
	/* The next was copied after the drop, or waits for the answer to this one. */
	read_some(r, 8192, 8192);
	CLEAN(fs_write(w, &wt.req, 12000, "n", 1));
	ck_assert_uint_eq(wt.ntold, 1);
	fs_release(r, &wt.req);
	fs_release(w, &wt.req);
}
END_TEST

START_TEST(what_a_write_does_not_touch_may_stay)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r;

	/* Nothing is read after the drop, */
	r = opened(a.ino, O_RDONLY);
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	fs_release(r, &wt.req);
	/* or nothing of what is written, */
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	r = opened(a.ino, O_RDONLY);
	read_some(r, 8192, 4096);
	CLEAN(fs_write(w, &wt.req, 12288, "n", 1));
	CLEAN(fs_write(w, &wt.req, 4096, "nnn", 3));
	fs_release(r, &wt.req);
	CLEAN(fs_flush(w, &wt.req));
	/* or there is no drop. */
	r = opened(a.ino, O_RDONLY);
	ck_assert(r->info.keep_cache);
	read_some(r, 0, 40960);
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	ck_assert_uint_eq(wt.ntold, 0);
	fs_release(r, &wt.req);
	fs_release(w, &wt.req);
}
END_TEST

/* The opener of the second may not have come to it: each write that comes may be older. */
START_TEST(as_long_as_a_drop_may_come_each_write_is_looked_at)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r = opened(a.ino, O_RDONLY), *late = opened(a.ino, O_RDONLY);

	read_some(r, 0, 4096);
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 2);
	fs_release(late, &wt.req);
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 3);
	fs_release(r, &wt.req);
	fs_release(w, &wt.req);
}
END_TEST

START_TEST(a_direct_write_drops_all_that_was_read)
{
	struct meta_attr a;
	struct fs_file *w, *r;

	fs_direct_appends(wt.fs);
	fs_release(written(&a), &wt.req);
	r = opened(a.ino, O_RDONLY);
	w = opened(a.ino, O_WRONLY | O_DIRECT);
	w->info.direct_io = true; /* as in the modes where O_DIRECT passes the cache by */
	refill_begin(wt.fs, w->in);
	for (unsigned i = 1; i <= 3; i++) {
		read_some(r, 0, 16384);
		CLEAN(fs_write(w, &wt.req, 4096, "n", 1));
		CLEAN(fs_write(w, &wt.req, 4096, "n", 1));
		ck_assert_uint_eq(dropped_of(a.ino, 0, 16384), i);
	}
	fs_release(r, &wt.req);
	fs_release(w, &wt.req);
}
END_TEST

struct late_write {
	struct fs_file *fh;
	atomic_bool over;
};

static void *late_write(void *arg)
{
	struct late_write *l = arg;
	struct tess_req req;

	req_begin(&req, "late");
	req.deadline = clock_now() + 60 * NS_PER_S;
	CLEAN(fs_write(l->fh, &req, 0, "n", 1));
	atomic_store(&l->over, true);
	return NULL;
}

static void unblock(void)
{
	lock_take(&wt.lock);
	wt.block = false;
	cond_wake_all(&wt.cond);
	lock_drop(&wt.lock);
}

/* It may wait for a page that the write itself has locked. */
START_TEST(a_kernel_that_waits_holds_up_no_write_for_long)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r = opened(a.ino, O_RDONLY);

	read_some(r, 0, 4096);
	wt.block = true;
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	unblock();
	SOON(dropped_of(a.ino, 0, 1) == 1);
	fs_release(r, &wt.req);
	fs_release(w, &wt.req);
}
END_TEST

/* For what that brings is old, and the kernel waits for it before it drops anything. */
START_TEST(a_write_waits_for_a_read_under_way)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r = opened(a.ino, O_RDONLY);
	struct late_write l = { .fh = w };
	struct fs_read rd = { .fh = r, .io = { .off = 0, .len = 4096, .done = read_over } };
	pthread_t thread;

	file_opened(r);
	refill_read(&rd);
	wt.block = true;
	ck_assert_int_eq(pthread_create(&thread, NULL, late_write, &l), 0);
	SOON(wt.blocked);
	clock_sleep(200 * NS_PER_MS);
	ck_assert(!atomic_load(&l.over));
	rd.io.done(&rd.io);
	ck_assert_uint_eq(atomic_load(&wt.done), 1);
	unblock();
	pthread_join(thread, NULL);
	fs_release(r, &wt.req);
	fs_release(w, &wt.req);
}
END_TEST

/* Where many read there always is one. */
START_TEST(a_write_waits_for_no_read_that_is_younger)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r = opened(a.ino, O_RDONLY), *idle = opened(a.ino, O_RDONLY);
	struct fs_read rd[2] = { { .fh = r, .io = { .off = 0, .len = 4096, .done = read_over } },
				 { .fh = r, .io = { .off = 0, .len = 40960, .done = read_over } } };
	struct late_write l = { .fh = w };
	pthread_t thread;

	file_opened(r);
	refill_read(&rd[0]);
	wt.block = true;
	ck_assert_int_eq(pthread_create(&thread, NULL, late_write, &l), 0);
	SOON(wt.blocked);
	refill_read(&rd[1]);
	rd[0].io.done(&rd[0].io);
	SOON(atomic_load(&l.over));
	rd[1].io.done(&rd[1].io);
	unblock();
	pthread_join(thread, NULL);
	fs_release(idle, &wt.req);
	fs_release(r, &wt.req);
	fs_release(w, &wt.req);
}
END_TEST

/* That is when the kernel gets to the page. */
START_TEST(a_write_is_patient_once_a_read_is_over)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r;

	for (unsigned i = 0; i < 8; i++) {
		struct meta_publish p = { .trunc_to = META_NO_TRUNC, .size = 40960 };
		struct late_write l = { .fh = w };
		pthread_t thread;
		int64_t at;

		CLEAN(fs_flush(w, &wt.req));
		CLEAN(meta_publish(wt.meta, a.ino, &p, NULL));
		r = opened(a.ino, O_RDONLY);
		struct fs_read rd = { .fh = r, .io = { .off = 0, .len = 4096, .done = read_over } };

		file_opened(r);
		refill_read(&rd);
		wt.blocked = false;
		wt.block = true;
		ck_assert_int_eq(pthread_create(&thread, NULL, late_write, &l), 0);
		SOON(wt.blocked);
		clock_sleep((30 + i) * NS_PER_MS);
		at = clock_now();
		rd.io.done(&rd.io);
		clock_sleep(15 * NS_PER_MS);
		bool over = atomic_load(&l.over);

		ck_assert(!over || clock_now() - at > 19 * NS_PER_MS);
		unblock();
		pthread_join(thread, NULL);
		fs_release(r, &wt.req);
	}
	fs_release(w, &wt.req);
}
END_TEST

/* Before the kernel's reply to open(2) can have been all it drops: it is what it drops. */
START_TEST(what_is_written_back_says_nothing_of_an_open)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *late = opened(a.ino, O_RDWR);

	ck_assert(atomic_load(&late->opening));
	CLEAN(fs_write_back(late, &wt.req, 0, "b", 1));
	read_some(w, 0, 4096);
	for (unsigned i = 1; i <= 2; i++) {
		CLEAN(fs_write(w, &wt.req, 0, "n", 1));
		ck_assert_uint_eq(dropped_of(a.ino, 0, 1), i);
	}
	fs_release(late, &wt.req);
	fs_release(w, &wt.req);
}
END_TEST

START_TEST(a_size_of_another_mount_drops_pages)
{
	struct meta_attr a;
	struct fs_file *w = written(&a);

	/* Alone the kernel knows. */
	fs_ttl(wt.fs, 0, &a);
	read_some(w, 0, 4096);
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	ck_assert_uint_eq(wt.ntold, 0);
	wt_join();
	a.size = 40960;
	fs_ttl(wt.fs, 0, &a);
	clock_sleep(300 * NS_PER_MS);
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	/* The size it has, and what it makes of it itself, */
	fs_ttl(wt.fs, 0, &a);
	CLEAN(fs_write(w, &wt.req, 40960, "n", 1));
	a.size = 40961;
	fs_ttl(wt.fs, 0, &a);
	read_some(w, 0, 4096);
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 0);
	/* and another, to which it may come later. */
	a.size = 50000;
	fs_ttl(wt.fs, 0, &a);
	read_some(w, 0, 4096);
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 1);
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 2);
	fs_release(w, &wt.req);
}
END_TEST

/* It thinks that its bytes are where it sent them, wherever other mounts have appended. */
START_TEST(the_kernel_puts_an_append_where_it_thinks_the_end_is)
{
	struct meta_attr a;
	struct fs_file *w;

	fs_release(written(&a), &wt.req);
	wt_join();
	w = opened(a.ino, O_WRONLY | O_APPEND);
	ck_assert(w->policy.atomic_append);
	CLEAN(fs_write(w, &wt.req, 50000, "n", 1));
	ck_assert_uint_eq(atomic_load(&w->in->refill.size), 50001);
	fs_release(w, &wt.req);
}
END_TEST

START_TEST(what_this_mount_cuts_itself_is_no_drop)
{
	struct meta_attr a, set = { .size = 20000 };
	struct fs_file *w = written(&a);

	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	wt_join();
	CLEAN(fs_setattr(wt.fs, &wt.req, a.ino, w, FS_SET_SIZE, &set, &a));
	fs_ttl(wt.fs, 0, &a);
	CLEAN(fs_fallocate(w, &wt.req, 0, 0, 30000));
	CLEAN(fs_getattr(wt.fs, &wt.req, a.ino, &a));
	ck_assert_uint_eq(a.size, 30000);
	fs_ttl(wt.fs, 0, &a);
	read_some(w, 0, 4096);
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 0);
	fs_release(w, &wt.req);
}
END_TEST

START_TEST(what_a_direct_handle_maps_is_read_into_pages)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r = opened(a.ino, O_RDONLY);
	struct fs_read rd = { .fh = r, .direct = true,
			      .io = { .req = &wt.req, .off = 0, .len = 4096, .done = read_over } };

	r->info.direct_io = true;
	fs_read(&rd);
	SOON(atomic_load(&wt.done) == 1);
	fs_read_release(&rd);
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	ck_assert_uint_eq(wt.ntold, 0);
	refill_begin(wt.fs, w->in);
	read_some(r, 0, 4096);
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 1);
	refill_end(wt.fs, w->in);
	fs_release(r, &wt.req);
	fs_release(w, &wt.req);
}
END_TEST

START_TEST(without_a_kernel_nobody_waits)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r = opened(a.ino, O_RDONLY);

	fs_watch_end(wt.fs);
	read_some(r, 0, 4096);
	CLEAN(fs_write(w, &wt.req, 0, "n", 1));
	fs_release(r, &wt.req);
	fs_release(w, &wt.req);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		what_came_back_before_a_write_goes_with_it,
		what_a_write_does_not_touch_may_stay,
		as_long_as_a_drop_may_come_each_write_is_looked_at,
		a_direct_write_drops_all_that_was_read,
		a_kernel_that_waits_holds_up_no_write_for_long,
		a_write_waits_for_a_read_under_way,
		a_write_waits_for_no_read_that_is_younger,
		a_write_is_patient_once_a_read_is_over,
		what_is_written_back_says_nothing_of_an_open,
		a_size_of_another_mount_drops_pages,
		the_kernel_puts_an_append_where_it_thinks_the_end_is,
		what_this_mount_cuts_itself_is_no_drop,
		what_a_direct_handle_maps_is_read_into_pages,
		without_a_kernel_nobody_waits,
	};

	return unit_run_with("refill", tests, sizeof(tests) / sizeof(tests[0]), wt_setup, wt_teardown, 60);
}
