/* SPDX-License-Identifier: Apache-2.0 */
/* layer: fs */
/* One mount whose kernel is this test, and beside it another session that is nothing but the namespace. */
#include "unit.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "fs/state.h"
#include "meta/meta_impl.h"
#include "store/store.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TOLD_MAX 256u

static struct {
	struct meta *meta, *other;
	struct store *store;
	struct io_target target;
	struct budget *budget;
	struct io *io;
	struct fs *fs;
	struct tess_req req;
	char dir[64], rescued[96];
	/* What the kernel was told. */
	struct lock lock;
	struct cond cond;
	struct {
		uint64_t ino;
		bool data;
		char name[32];
		int64_t off, len;
	} told[TOLD_MAX];
	unsigned ntold;
	atomic_bool block, blocked;
	atomic_uint done, names;
	atomic_bool cannot;	/* forget all names at once */
} s;

static void kernel_tell(uint64_t ino, bool data, int64_t off, int64_t bytes, const char *name, size_t len)
{
	scoped_lock(&s.lock);
	if (s.ntold < TOLD_MAX) {
		s.told[s.ntold].off = off;
		s.told[s.ntold].len = bytes;
		s.told[s.ntold].ino = ino;
		s.told[s.ntold].data = data;
		snprintf(s.told[s.ntold].name, sizeof(s.told[0].name), "%.*s", (int)len, name);
		s.ntold++;
	}
	while (s.block) {
		s.blocked = true;
		cond_wake_all(&s.cond);
		cond_wait(&s.cond, &s.lock);
	}
}

static void kernel_inode(void *arg, uint64_t ino, int64_t off, int64_t len)
{
	(void)arg;
	kernel_tell(ino, off != FS_KERNEL_ATTR, off, len, "", 0);
}

static void kernel_entry(void *arg, uint64_t dir, const char *name, size_t len)
{
	(void)arg;
	kernel_tell(dir, false, 0, 0, name, len);
}

static bool kernel_names(void *arg)
{
	(void)arg;
	atomic_fetch_add(&s.names, 1);
	return !atomic_load(&s.cannot);
}

static const struct fs_kernel kernel = { kernel_inode, kernel_entry, kernel_names };

static bool was_told(uint64_t ino, bool data, const char *name)
{
	scoped_lock(&s.lock);
	for (unsigned i = 0; i < s.ntold; i++)
		if (s.told[i].ino == ino && s.told[i].data == data && !strcmp(s.told[i].name, name))
			return true;
	return false;
}

#define SOON(cond)                                               \
	do {                                                     \
		for (int i_ = 0; i_ < 2000 && !(cond); i_++)     \
			clock_sleep(5 * NS_PER_MS);              \
		ck_assert(cond);                                 \
	} while (0)

static void setup(void)
{
	struct meta_super super = { .format = 1, .fsid = 7, .ntargets = 1,
				    .targets = { { .id = 0, .uri = "mem:" } } };
	struct store_open_opts so = { .create = true, .fsid = 7, .label = "mem0" };
	struct kv_conf kc = { .create = true };
	static struct tess_policy lazy;
	struct text why = TEXT_INIT;
	struct kv *kv;

	lazy = policy_presets[MODE_LAZY];
	req_begin(&s.req, "test");
	lock_init(&s.lock, LOCK_LEAF, "test");
	cond_init(&s.cond);
	CLEAN(fs_layout_parse("class=S1,segment=64K,mapper=write-optimized", 1, &super.layout, &why));
	CLEAN(kv_mem_open(&kv, &kc, &why));
	CLEAN(meta_format(kv, &super, &s.req, clock_wall()));
	CLEAN(meta_open(&s.meta, kv, &why));
	CLEAN(meta_open(&s.other, kv, &why));
	CLEAN(meta_session_begin(s.meta, "/mnt", clock_wall(), &why));
	CLEAN(store_open_uri(&s.store, "mem:", &so, &why));
	s.target = (struct io_target){ .id = 0, .store = s.store, .weight = 1 };
	CLEAN(budget_new(&s.budget, 64 << 20));
	snprintf(s.dir, sizeof(s.dir), "/tmp/check_watch.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(s.dir));
	snprintf(s.rescued, sizeof(s.rescued), "%s.rescued", s.dir);
	struct io_conf ic = { .meta = s.meta, .budget = s.budget, .targets = &s.target, .ntargets = 1,
			      .staging_dir = s.dir, .staging_size = 64 << 20, .fsync_local = true,
			      .rescue_dir = s.rescued };

	CLEAN(io_open(&s.io, &ic, &why));
	struct fs_conf fc = { .meta = s.meta, .io = s.io, .policy = &lazy, .targets = &s.target,
			      .ntargets = 1, .lease = NS_PER_S };

	CLEAN(fs_open(&s.fs, &fc));
	fs_watch_begin(s.fs, &kernel, NULL);
	text_done(&why);
}

static void remove_all(const char *dir)
{
	char path[800];
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && remove(path) < 0)
			remove_all(path);
	}
	if (d)
		closedir(d);
	remove(dir);
}

static void join(void)
{
	CLEAN(meta_session_begin(s.other, "/mnt2", clock_wall(), NULL));
	SOON(fs_shared(s.fs));
}

/* What a mount's own watch would do. */
static void other_knows_all(void)
{
	if (meta_session_id(s.other))
		ck_assert_int_ge(meta_tail(s.other, kv_last(meta_kv(s.meta))), 0);
}

static void leave(void)
{
	if (meta_session_id(s.other))
		CLEAN(meta_session_end(s.other));
}

static void teardown(void)
{
	struct meta_check c = {0};
	struct text why = TEXT_INIT;
	bool fenced = fs_fenced(s.fs);
	int r;

	fs_watch_end(s.fs);
	other_knows_all();
	r = fs_close(s.fs);
	ck_assert(r == 0 || fenced);
	r = io_close(s.io, true, &why);
	ck_assert(r == 0 || fenced);
	leave();
	r = meta_session_end(s.meta);
	ck_assert(r == 0 || fenced);
	CLEAN(meta_check(s.meta, &c));
	ck_assert_uint_eq(c.findings, 0);
	s.other->kv = NULL;
	meta_close(s.other);
	meta_close(s.meta);
	store_close(s.store);
	budget_free(s.budget);
	text_done(&why);
	remove_all(s.dir);
	remove_all(s.rescued);
}

static struct fs_name name(const char *n)
{
	return (struct fs_name){ TESS_ROOT_INO, n, strlen(n) };
}

static struct fs_file *create(const char *n, struct meta_attr *a)
{
	struct fs_file *fh;

	CLEAN(fs_create(s.fs, &s.req, name(n), 0644, O_RDWR, a, &fh));
	return fh;
}

static void other_unlinks(const char *n)
{
	CLEAN(meta_unlink(s.other, TESS_ROOT_INO, n, strlen(n), clock_wall(), NULL));
}

static bool there(uint64_t ino)
{
	struct meta_attr a;

	return meta_getattr(s.meta, ino, &a) == 0;
}

static uint64_t tail(void)
{
	struct meta_session self;

	CLEAN(meta_session_get(s.other, meta_session_id(s.meta), &self));
	return self.tail;
}

static void count_done(void *arg)
{
	(void)arg;
	atomic_fetch_add(&s.done, 1);
}

START_TEST(who_is_alone_knows_it)
{
	SOON(!fs_shared(s.fs));
	join();
	ck_assert(fs_shared(s.fs));
	leave();
	SOON(!fs_shared(s.fs));
}
END_TEST

START_TEST(one_that_did_not_look_is_not_alone)
{
	SOON(!fs_shared(s.fs));
	atomic_store(&s.fs->watch.looked, clock_now_coarse() - NS_PER_S);
	/* At once, and until it has looked. */
	ck_assert(fs_shared(s.fs) || clock_now_coarse() - s.fs->watch.looked < NS_PER_S);
	SOON(!fs_shared(s.fs));
}
END_TEST

START_TEST(the_kernel_hears_of_names_and_attributes)
{
	struct meta_new in = { .mode = S_IFREG | 0644 };
	struct meta_attr a, set = { .mode = 0600 };

	join();
	CLEAN(meta_create(s.other, TESS_ROOT_INO, "f", 1, &in, clock_wall(), &a));
	SOON(was_told(TESS_ROOT_INO, false, "f") && was_told(TESS_ROOT_INO, false, ""));
	CLEAN(meta_setattr(s.other, a.ino, META_SET_MODE, &set, clock_wall(), &a));
	SOON(was_told(a.ino, false, ""));
	/* Nobody here has it open: open(2) looks, whatever pages there are. */
	ck_assert(!was_told(a.ino, true, ""));
	other_unlinks("f");
	bool more;

	SOON(meta_reclaim(s.other, &a.ino, 1, 100, clock_wall(), &more) == 0);
}
END_TEST

START_TEST(pages_of_an_open_file_go_when_they_are_kept_by_time)
{
	struct meta_publish p = { .trunc_to = META_NO_TRUNC, .size = 100 };
	struct meta_attr a;
	struct fs_file *fh = create("f", &a);

	join();
	CLEAN(meta_publish(s.other, a.ino, &p, NULL));
	SOON(was_told(a.ino, true, ""));
	fs_release(fh, &s.req);
}
END_TEST

START_TEST(what_this_mount_does_the_kernel_knows)
{
	struct meta_attr a;

	join();
	fs_release(create("mine", &a), &s.req);
	SOON(tail() >= kv_last(meta_kv(s.meta)) - 1);
	ck_assert(!was_told(TESS_ROOT_INO, false, "mine"));
}
END_TEST

static void count_locked(struct fs_lock *l, int err)
{
	(void)l;
	CLEAN(err);
	atomic_fetch_add(&s.done, 1);
}

static void lock_shared(struct fs_lock *l, struct fs_file *fh, uint64_t owner)
{
	*l = (struct fs_lock){ .fh = fh, .req = &s.req, .done = count_locked,
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
	struct fs_file *fh = create("f", &a);
	struct fs_lock l[2];

	join();
	CLEAN(meta_publish(s.other, a.ino, &p, NULL));
	s.block = true;
	lock_shared(&l[0], fh, 1);
	SOON(s.blocked);
	lock_shared(&l[1], fh, 2);
	clock_sleep(50 * NS_PER_MS);
	ck_assert_uint_eq(atomic_load(&s.done), 0);
	lock_take(&s.lock);
	s.block = false;
	cond_wake_all(&s.cond);
	lock_drop(&s.lock);
	SOON(atomic_load(&s.done) == 2);
	fs_lock_release(fh, &s.req);
	fs_release(fh, &s.req);
}
END_TEST

START_TEST(dropped_pages_are_answered_for)
{
	CLEAN(fs_drop_pages(s.fs, 77, count_done, NULL));
	SOON(atomic_load(&s.done) == 1);
	ck_assert(was_told(77, true, ""));
	fs_watch_end(s.fs);
	CLEAN(fs_drop_pages(s.fs, 78, count_done, NULL));
	ck_assert_uint_eq(atomic_load(&s.done), 2);
	ck_assert(!was_told(78, true, ""));
}
END_TEST

START_TEST(who_has_caught_up_has_queued_what_was_committed)
{
	struct meta_new in = { .mode = S_IFREG | 0644 };
	struct meta_attr a;
	bool more;

	join();
	for (unsigned i = 0; i < 20; i++) {
		CLEAN(meta_create(s.other, TESS_ROOT_INO, "f", 1, &in, clock_wall(), &a));
		other_unlinks("f");
		s.ntold = 0;
		CLEAN(fs_invalidate(s.fs, i % 2 ? a.ino : TESS_ROOT_INO));
		/* It is not in the directory that is walked, and leads to the file no more. */
		ck_assert(was_told(TESS_ROOT_INO, false, "f"));
		SOON(meta_reclaim(s.other, &a.ino, 1, 100, clock_wall(), &more) == 0);
	}
}
END_TEST

static void too_much_for_a_kernel_that_waits(void)
{
	s.block = true;
	CLEAN(fs_drop_pages(s.fs, 77, count_done, NULL));
	SOON(s.blocked);
	for (unsigned i = 0; i < 70000; i++)
		watch_forget_name(s.fs, TESS_ROOT_INO, "x", 1);
	lock_take(&s.lock);
	s.block = false;
	cond_wake_all(&s.cond);
	lock_drop(&s.lock);
}

START_TEST(of_too_much_all_names_are_forgotten)
{
	too_much_for_a_kernel_that_waits();
	SOON(atomic_load(&s.names) == 1);
}
END_TEST

START_TEST(a_kernel_that_cannot_hears_of_the_names_of_the_root)
{
	struct meta_attr a;
	char n[8];

	for (unsigned i = 0; i < 150; i++) {
		snprintf(n, sizeof(n), "f%u", i);
		fs_release(create(n, &a), &s.req);
	}
	s.cannot = true;
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

	join();
	s.block = true;
	CLEAN(fs_drop_pages(s.fs, 77, count_done, NULL));
	SOON(s.blocked);
	CLEAN(fs_drop_pages(s.fs, 78, count_done, NULL));
	for (unsigned i = 0; i < 20; i++) {
		char n[8];

		snprintf(n, sizeof(n), "f%u", i);
		CLEAN(meta_create(s.other, TESS_ROOT_INO, n, strlen(n), &in, clock_wall(), &a));
	}
	SOON(tail() >= kv_last(meta_kv(s.meta)) - 1);
	ck_assert_uint_eq(atomic_load(&s.done), 0);
	lock_take(&s.lock);
	s.block = false;
	cond_wake_all(&s.cond);
	lock_drop(&s.lock);
	fs_watch_end(s.fs);
	ck_assert_uint_eq(atomic_load(&s.done), 2);
}
END_TEST

START_TEST(a_file_unlinked_elsewhere_lives_while_it_is_open)
{
	struct meta_attr a;
	struct fs_file *fh = create("f", &a), *again;
	bool more = true;
	char c = 0;

	CLEAN(fs_write(fh, &s.req, 0, "x", 1));
	CLEAN(fs_flush(fh, &s.req));
	join();
	other_unlinks("f");
	SOON(meta_orphan_held(s.meta, a.ino) == 0);
	other_knows_all();
	SOON(meta_reclaim(s.other, &a.ino, 1, 100, clock_wall(), &more) == 0);
	ck_assert(there(a.ino));
	/* By another handle, too: /proc/self/fd. */
	CLEAN(fs_file_open(s.fs, &s.req, a.ino, O_RDONLY, &again));
	ck_assert_int_eq(io_read_sync(again->in->file, &s.req, 0, &c, 1), 1);
	ck_assert_int_eq(c, 'x');
	CLEAN(fs_write(fh, &s.req, 0, "y", 1));
	CLEAN(fs_fsync(fh, &s.req, false));
	fs_release(again, &s.req);
	fs_release(fh, &s.req);
	SOON(!there(a.ino));
}
END_TEST

START_TEST(one_that_was_not_open_is_stale)
{
	struct meta_attr a;
	struct fs_file *fh = create("f", &a);

	fs_release(fh, &s.req);
	join();
	other_unlinks("f");
	ck_assert_int_eq(fs_file_open(s.fs, &s.req, a.ino, O_RDONLY, &fh), -TESS_E_STALE);
	SOON(tail() >= kv_last(meta_kv(s.meta)) - 1);
	ck_assert_int_eq(fs_file_open(s.fs, &s.req, a.ino, O_RDONLY, &fh), -TESS_E_STALE);
	ck_assert_int_eq(meta_orphan_held(s.meta, a.ino), -TESS_E_STALE);
	bool more;

	SOON(meta_reclaim(s.other, &a.ino, 1, 100, clock_wall(), &more) == 0);
	ck_assert(!there(a.ino));
}
END_TEST

START_TEST(ours_waits_for_the_other_to_hear)
{
	struct meta_attr a;
	struct fs_file *fh = create("f", &a);

	join();
	CLEAN(fs_unlink(s.fs, &s.req, name("f")));
	fs_release(fh, &s.req);
	clock_sleep(200 * NS_PER_MS);
	ck_assert(there(a.ino));
	other_knows_all();
	SOON(!there(a.ino));
}
END_TEST

START_TEST(a_fenced_mount_keeps_what_it_could_not_publish)
{
	char path[200], got[32] = "";
	struct meta_attr a;
	struct fs_file *fh = create("f", &a), *other = create("g", &a);
	int fd;

	CLEAN(fs_write(fh, &s.req, 5, "precious", 8));
	join();
	CLEAN(meta_fence(s.other, meta_session_id(s.meta)));
	SOON(fs_fenced(s.fs));
	ck_assert_int_eq(fs_write(fh, &s.req, 0, "x", 1), -TESS_E_FENCED);
	ck_assert_int_eq(fs_fsync(fh, &s.req, false), -TESS_E_FENCED);
	ck_assert_int_eq(fs_mknod(s.fs, &s.req, name("new"), S_IFREG | 0644, 0, &a), -TESS_E_FENCED);
	CLEAN(fs_getattr(s.fs, &s.req, TESS_ROOT_INO, &a));
	snprintf(path, sizeof(path), "%s/%u/%llu.5", s.rescued, meta_session_id(s.meta),
		 (unsigned long long)fs_file_ino(fh));
	fd = open(path, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(read(fd, got, sizeof(got)), 8);
	close(fd);
	ck_assert_str_eq(got, "precious");
	snprintf(path, sizeof(path), "%s/%u/manifest", s.rescued, meta_session_id(s.meta));
	memset(got, 0, sizeof(got));
	fd = open(path, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_gt(read(fd, got, sizeof(got) - 1), 0);
	close(fd);
	ck_assert_int_eq(strncmp(got, "/f\t5\t8\t", 7), 0);
	fs_release(other, &s.req);
	fs_release(fh, &s.req);
}
END_TEST

/* ---- what a read brings back while a write is on its way ---- */

static unsigned dropped_of(uint64_t ino, int64_t off, int64_t len)
{
	unsigned n = 0;

	scoped_lock(&s.lock);
	for (unsigned i = 0; i < s.ntold; i++)
		n += s.told[i].ino == ino && s.told[i].data && s.told[i].off == off && s.told[i].len == len;
	return n;
}

static void read_over(struct io_read *io)
{
	CLEAN(io->err);
	atomic_fetch_add(&s.done, 1);
}

static void read_begin(struct fs_read *r, struct fs_file *fh, uint64_t off, size_t len)
{
	unsigned was = atomic_load(&s.done);

	*r = (struct fs_read){ .fh = fh, .io = { .req = &s.req, .off = off, .len = len, .done = read_over } };
	fs_read(r);
	SOON(atomic_load(&s.done) == was + 1);
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
	struct fs_file *fh = create("f", a);
	char page[4096] = "o";

	for (unsigned i = 0; i < 10; i++)
		CLEAN(fs_write(fh, &s.req, i * 4096, page, 4096));
	CLEAN(fs_flush(fh, &s.req));
	/* In the name of this one, so that the change log tells nobody. */
	CLEAN(meta_publish(s.meta, a->ino, &p, NULL));
	return fh;
}

static struct fs_file *opened(uint64_t ino, int flags)
{
	struct fs_file *fh;

	CLEAN(fs_file_open(s.fs, &s.req, ino, flags, &fh));
	return fh;
}

START_TEST(what_came_back_before_a_write_goes_with_it)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r = opened(a.ino, O_RDONLY);

	ck_assert(!r->info.keep_cache);
	read_some(r, 8192, 8192);
	CLEAN(fs_write(w, &s.req, 12000, "n", 1));
	/* Before the write was answered; the page of what it wrote alone, of what was read. */
	ck_assert_uint_eq(dropped_of(a.ino, 8192, 12001 - 8192), 1);
	/* The next was copied after the drop, or waits for the answer to this one. */
	read_some(r, 8192, 8192);
	CLEAN(fs_write(w, &s.req, 12000, "n", 1));
	ck_assert_uint_eq(s.ntold, 1);
	fs_release(r, &s.req);
	fs_release(w, &s.req);
}
END_TEST

START_TEST(what_a_write_does_not_touch_may_stay)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r;

	/* Nothing is read after the drop, */
	r = opened(a.ino, O_RDONLY);
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	fs_release(r, &s.req);
	/* or nothing of what is written, */
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	r = opened(a.ino, O_RDONLY);
	read_some(r, 8192, 4096);
	CLEAN(fs_write(w, &s.req, 12288, "n", 1));
	CLEAN(fs_write(w, &s.req, 4096, "nnn", 3));
	fs_release(r, &s.req);
	CLEAN(fs_flush(w, &s.req));
	/* or there is no drop. */
	r = opened(a.ino, O_RDONLY);
	ck_assert(r->info.keep_cache);
	read_some(r, 0, 40960);
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	ck_assert_uint_eq(s.ntold, 0);
	fs_release(r, &s.req);
	fs_release(w, &s.req);
}
END_TEST

/* The opener of the second may not have come to it: each write that comes may be older. */
START_TEST(as_long_as_a_drop_may_come_each_write_is_looked_at)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r = opened(a.ino, O_RDONLY), *late = opened(a.ino, O_RDONLY);

	read_some(r, 0, 4096);
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 2);
	fs_release(late, &s.req);
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 3);
	fs_release(r, &s.req);
	fs_release(w, &s.req);
}
END_TEST

START_TEST(a_direct_write_drops_all_that_was_read)
{
	struct meta_attr a;
	struct fs_file *w, *r;

	fs_direct_appends(s.fs);
	fs_release(written(&a), &s.req);
	r = opened(a.ino, O_RDONLY);
	w = opened(a.ino, O_WRONLY | O_DIRECT);
	w->info.direct_io = true; /* as in the modes where O_DIRECT passes the cache by */
	refill_begin(s.fs, w->in);
	for (unsigned i = 1; i <= 3; i++) {
		read_some(r, 0, 16384);
		CLEAN(fs_write(w, &s.req, 4096, "n", 1));
		CLEAN(fs_write(w, &s.req, 4096, "n", 1));
		ck_assert_uint_eq(dropped_of(a.ino, 0, 16384), i);
	}
	fs_release(r, &s.req);
	fs_release(w, &s.req);
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
	lock_take(&s.lock);
	s.block = false;
	cond_wake_all(&s.cond);
	lock_drop(&s.lock);
}

/* It may wait for a page that the write itself has locked. */
START_TEST(a_kernel_that_waits_holds_up_no_write_for_long)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r = opened(a.ino, O_RDONLY);

	read_some(r, 0, 4096);
	s.block = true;
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	unblock();
	SOON(dropped_of(a.ino, 0, 1) == 1);
	fs_release(r, &s.req);
	fs_release(w, &s.req);
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
	s.block = true;
	ck_assert_int_eq(pthread_create(&thread, NULL, late_write, &l), 0);
	SOON(s.blocked);
	clock_sleep(200 * NS_PER_MS);
	ck_assert(!atomic_load(&l.over));
	rd.io.done(&rd.io);
	ck_assert_uint_eq(atomic_load(&s.done), 1);
	unblock();
	pthread_join(thread, NULL);
	fs_release(r, &s.req);
	fs_release(w, &s.req);
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
	s.block = true;
	ck_assert_int_eq(pthread_create(&thread, NULL, late_write, &l), 0);
	SOON(s.blocked);
	refill_read(&rd[1]);
	rd[0].io.done(&rd[0].io);
	SOON(atomic_load(&l.over));
	rd[1].io.done(&rd[1].io);
	unblock();
	pthread_join(thread, NULL);
	fs_release(idle, &s.req);
	fs_release(r, &s.req);
	fs_release(w, &s.req);
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

		CLEAN(fs_flush(w, &s.req));
		CLEAN(meta_publish(s.meta, a.ino, &p, NULL));
		r = opened(a.ino, O_RDONLY);
		struct fs_read rd = { .fh = r, .io = { .off = 0, .len = 4096, .done = read_over } };

		file_opened(r);
		refill_read(&rd);
		s.blocked = false;
		s.block = true;
		ck_assert_int_eq(pthread_create(&thread, NULL, late_write, &l), 0);
		SOON(s.blocked);
		clock_sleep((30 + i) * NS_PER_MS);
		at = clock_now();
		rd.io.done(&rd.io);
		clock_sleep(15 * NS_PER_MS);
		bool over = atomic_load(&l.over);

		ck_assert(!over || clock_now() - at > 19 * NS_PER_MS);
		unblock();
		pthread_join(thread, NULL);
		fs_release(r, &s.req);
	}
	fs_release(w, &s.req);
}
END_TEST

/* Before the kernel's reply to open(2) can have been all it drops: it is what it drops. */
START_TEST(what_is_written_back_says_nothing_of_an_open)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *late = opened(a.ino, O_RDWR);

	ck_assert(atomic_load(&late->opening));
	CLEAN(fs_write_back(late, &s.req, 0, "b", 1));
	read_some(w, 0, 4096);
	for (unsigned i = 1; i <= 2; i++) {
		CLEAN(fs_write(w, &s.req, 0, "n", 1));
		ck_assert_uint_eq(dropped_of(a.ino, 0, 1), i);
	}
	fs_release(late, &s.req);
	fs_release(w, &s.req);
}
END_TEST

START_TEST(a_size_of_another_mount_drops_pages)
{
	struct meta_attr a;
	struct fs_file *w = written(&a);

	/* Alone the kernel knows. */
	fs_ttl(s.fs, 0, &a);
	read_some(w, 0, 4096);
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	ck_assert_uint_eq(s.ntold, 0);
	join();
	a.size = 40960;
	fs_ttl(s.fs, 0, &a);
	clock_sleep(300 * NS_PER_MS);
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	/* The size it has, and what it makes of it itself, */
	fs_ttl(s.fs, 0, &a);
	CLEAN(fs_write(w, &s.req, 40960, "n", 1));
	a.size = 40961;
	fs_ttl(s.fs, 0, &a);
	read_some(w, 0, 4096);
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 0);
	/* and another, to which it may come later. */
	a.size = 50000;
	fs_ttl(s.fs, 0, &a);
	read_some(w, 0, 4096);
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 1);
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 2);
	fs_release(w, &s.req);
}
END_TEST

/* It thinks that its bytes are where it sent them, wherever other mounts have appended. */
START_TEST(the_kernel_puts_an_append_where_it_thinks_the_end_is)
{
	struct meta_attr a;
	struct fs_file *w;

	fs_release(written(&a), &s.req);
	join();
	w = opened(a.ino, O_WRONLY | O_APPEND);
	ck_assert(w->policy.atomic_append);
	CLEAN(fs_write(w, &s.req, 50000, "n", 1));
	ck_assert_uint_eq(atomic_load(&w->in->refill.size), 50001);
	fs_release(w, &s.req);
}
END_TEST

START_TEST(what_this_mount_cuts_itself_is_no_drop)
{
	struct meta_attr a, set = { .size = 20000 };
	struct fs_file *w = written(&a);

	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	join();
	CLEAN(fs_setattr(s.fs, &s.req, a.ino, w, FS_SET_SIZE, &set, &a));
	fs_ttl(s.fs, 0, &a);
	CLEAN(fs_fallocate(w, &s.req, 0, 0, 30000));
	CLEAN(fs_getattr(s.fs, &s.req, a.ino, &a));
	ck_assert_uint_eq(a.size, 30000);
	fs_ttl(s.fs, 0, &a);
	read_some(w, 0, 4096);
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 0);
	fs_release(w, &s.req);
}
END_TEST

START_TEST(what_a_direct_handle_maps_is_read_into_pages)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r = opened(a.ino, O_RDONLY);
	struct fs_read rd = { .fh = r, .direct = true,
			      .io = { .req = &s.req, .off = 0, .len = 4096, .done = read_over } };

	r->info.direct_io = true;
	fs_read(&rd);
	SOON(atomic_load(&s.done) == 1);
	fs_read_release(&rd);
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	ck_assert_uint_eq(s.ntold, 0);
	refill_begin(s.fs, w->in);
	read_some(r, 0, 4096);
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	ck_assert_uint_eq(dropped_of(a.ino, 0, 1), 1);
	refill_end(s.fs, w->in);
	fs_release(r, &s.req);
	fs_release(w, &s.req);
}
END_TEST

START_TEST(without_a_kernel_nobody_waits)
{
	struct meta_attr a;
	struct fs_file *w = written(&a), *r = opened(a.ino, O_RDONLY);

	fs_watch_end(s.fs);
	read_some(r, 0, 4096);
	CLEAN(fs_write(w, &s.req, 0, "n", 1));
	fs_release(r, &s.req);
	fs_release(w, &s.req);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		who_is_alone_knows_it, one_that_did_not_look_is_not_alone,
		the_kernel_hears_of_names_and_attributes,
		pages_of_an_open_file_go_when_they_are_kept_by_time,
		what_this_mount_does_the_kernel_knows, dropped_pages_are_answered_for,
		no_lock_is_had_while_old_pages_are_there,
		who_has_caught_up_has_queued_what_was_committed, of_too_much_all_names_are_forgotten,
		a_kernel_that_cannot_hears_of_the_names_of_the_root,
		a_kernel_that_waits_holds_up_no_tail_and_no_end,
		a_file_unlinked_elsewhere_lives_while_it_is_open, one_that_was_not_open_is_stale,
		ours_waits_for_the_other_to_hear, a_fenced_mount_keeps_what_it_could_not_publish,
		what_came_back_before_a_write_goes_with_it, what_a_write_does_not_touch_may_stay,
		as_long_as_a_drop_may_come_each_write_is_looked_at, a_direct_write_drops_all_that_was_read,
		a_kernel_that_waits_holds_up_no_write_for_long, a_write_waits_for_a_read_under_way,
		a_write_waits_for_no_read_that_is_younger, a_write_is_patient_once_a_read_is_over,
		what_is_written_back_says_nothing_of_an_open, a_size_of_another_mount_drops_pages,
		what_this_mount_cuts_itself_is_no_drop,
		the_kernel_puts_an_append_where_it_thinks_the_end_is,
		what_a_direct_handle_maps_is_read_into_pages, without_a_kernel_nobody_waits,
	};
	Suite *su = suite_create("watch");
	TCase *c = tcase_create("watch");

	suite_add_tcase(su, c);
	tcase_add_checked_fixture(c, setup, teardown);
	for (unsigned i = 0; i < sizeof(tests) / sizeof(*tests); i++)
		tcase_add_test(c, tests[i]);
	return unit_run(su);
}
