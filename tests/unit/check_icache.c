/* SPDX-License-Identifier: Apache-2.0 */
/* layer: fs */
/* Handles, names and removal above a namespace and a store in memory. */
#include "unit.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "fs/fs.h"
#include "store/store.h"
#include <dirent.h>
#include <linux/fs.h>
#include <pthread.h>
#include <string.h>

static struct {
	struct meta *meta;
	struct store *store;
	struct io_target target;
	struct budget *budget;
	struct io *io;
	struct fs *fs;
	struct tess_req req;
	char dir[64];
} s;

static void setup(void)
{
	struct meta_super super = { .format = 1, .fsid = 7, .ntargets = 1,
				    .targets = { { .id = 0, .uri = "mem:" } } };
	struct store_open_opts so = { .create = true, .fsid = 7, .label = "mem0" };
	struct kv_conf kc = { .create = true };
	struct text why = TEXT_INIT;
	struct kv *kv;

	req_begin(&s.req, "test");
	CLEAN(fs_layout_parse("class=S1,segment=64K,mapper=write-optimized", 1, &super.layout, &why));
	CLEAN(kv_mem_open(&kv, &kc, &why));
	CLEAN(meta_format(kv, &super, &s.req, clock_wall()));
	CLEAN(meta_open(&s.meta, kv, &why));
	CLEAN(meta_session_begin(s.meta, "", clock_wall(), &why));
	CLEAN(store_open_uri(&s.store, "mem:", &so, &why));
	s.target = (struct io_target){ .id = 0, .store = s.store, .weight = 1 };
	CLEAN(budget_new(&s.budget, 64 << 20));
	snprintf(s.dir, sizeof(s.dir), "/tmp/check_icache.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(s.dir));
	struct io_conf ic = { .meta = s.meta, .budget = s.budget, .targets = &s.target, .ntargets = 1,
			      .staging_dir = s.dir, .staging_size = 64 << 20, .fsync_local = true };

	CLEAN(io_open(&s.io, &ic, &why));
	struct fs_conf fc = { .meta = s.meta, .io = s.io, .policy = &policy_session,
			      .targets = &s.target, .ntargets = 1 };

	CLEAN(fs_open(&s.fs, &fc));
	text_done(&why);
}

static void teardown(void)
{
	struct text why = TEXT_INIT;
	char path[600];
	struct dirent *e;
	DIR *d;

	CLEAN(fs_close(s.fs));
	CLEAN(io_close(s.io, true, &why));
	CLEAN(meta_session_end(s.meta));
	meta_close(s.meta);
	store_close(s.store);
	budget_free(s.budget);
	text_done(&why);
	d = opendir(s.dir);
	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", s.dir, e->d_name);
		remove(path);
	}
	closedir(d);
	remove(s.dir);
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

static uint64_t size_of(uint64_t ino)
{
	struct meta_attr a;

	CLEAN(fs_getattr(s.fs, &s.req, ino, &a));
	return a.size;
}

static uint64_t inodes(void)
{
	struct meta_totals t;

	CLEAN(meta_totals(s.meta, &t));
	return t.inodes;
}

static bool inodes_become(uint64_t n)
{
	for (int i = 0; i < 1000; i++) {
		if (inodes() == n)
			return true;
		clock_sleep(5 * NS_PER_MS);
	}
	return false;
}

START_TEST(unpublished_bytes_are_in_every_stat)
{
	struct meta_attr a;
	struct fs_file *fh = create("f", &a);

	CLEAN(fs_write(fh, &s.req, 100, "x", 1));
	ck_assert_uint_eq(size_of(a.ino), 101);
	CLEAN(fs_lookup(s.fs, &s.req, name("f"), &a));
	ck_assert_uint_eq(a.size, 101);
	CLEAN(meta_getattr(s.meta, a.ino, &a));
	ck_assert_uint_eq(a.size, 0);
	CLEAN(fs_flush(fh, &s.req));
	CLEAN(meta_getattr(s.meta, a.ino, &a));
	ck_assert_uint_eq(a.size, 101);
	fs_release(fh, &s.req);
	ck_assert_uint_eq(size_of(a.ino), 101);
}
END_TEST

START_TEST(an_unlinked_file_goes_with_its_last_handle)
{
	struct meta_attr a;
	struct fs_file *fh = create("f", &a), *other;

	CLEAN(fs_file_open(s.fs, &s.req, a.ino, O_RDONLY, &other));
	CLEAN(fs_write(fh, &s.req, 0, "x", 1));
	CLEAN(fs_unlink(s.fs, &s.req, name("f")));
	fs_release(fh, &s.req);
	ck_assert_uint_eq(size_of(a.ino), 1);
	ck_assert_uint_eq(inodes(), 2);
	fs_release(other, &s.req);
	ck_assert(inodes_become(1));
	ck_assert_int_eq(fs_getattr(s.fs, &s.req, a.ino, &a), -TESS_E_STALE);
	ck_assert_int_eq(fs_file_open(s.fs, &s.req, a.ino, O_RDONLY, &other), -TESS_E_STALE);
}
END_TEST

START_TEST(with_a_kernel_it_stays_until_it_is_forgotten)
{
	struct meta_attr a;
	struct fs_file *fh = create("f", &a);

	fs_forget_begin(s.fs);
	fs_release(fh, &s.req);
	CLEAN(fs_unlink(s.fs, &s.req, name("f")));
	clock_sleep(50 * NS_PER_MS);
	CLEAN(fs_getattr(s.fs, &s.req, a.ino, &a));
	ck_assert_uint_eq(a.nlink, 0);
	fs_forget(s.fs, a.ino);
	ck_assert(inodes_become(1));
	/* What was forgotten while it had names is not meant. */
	fh = create("g", &a);
	fs_forget(s.fs, a.ino);
	fs_release(fh, &s.req);
	ck_assert_uint_eq(size_of(a.ino), 0);
}
END_TEST

START_TEST(a_nameless_file_can_get_a_name)
{
	struct fs_file *fh;
	struct meta_attr a;

	CLEAN(fs_tmpfile(s.fs, &s.req, TESS_ROOT_INO, 0600, O_RDWR, &a, &fh));
	ck_assert_uint_eq(a.nlink, 0);
	CLEAN(fs_write(fh, &s.req, 0, "abc", 3));
	CLEAN(fs_link(s.fs, &s.req, a.ino, name("now"), &a));
	ck_assert_uint_eq(a.nlink, 1);
	CLEAN(fs_flush(fh, &s.req));
	fs_release(fh, &s.req);
	clock_sleep(50 * NS_PER_MS);
	CLEAN(fs_lookup(s.fs, &s.req, name("now"), &a));
	ck_assert_uint_eq(a.size, 3);
	CLEAN(fs_tmpfile(s.fs, &s.req, TESS_ROOT_INO, 0600, O_RDWR, &a, &fh));
	fs_release(fh, &s.req);
	ck_assert(inodes_become(2));
}
END_TEST

START_TEST(rename_over_an_open_file_keeps_its_bytes_for_the_holder)
{
	struct meta_attr a, b;
	struct fs_file *old = create("old", &a), *new = create("new", &b);

	CLEAN(fs_write(old, &s.req, 0, "o", 1));
	CLEAN(fs_write(new, &s.req, 0, "n", 1));
	CLEAN(fs_rename(s.fs, &s.req, name("new"), name("old"), 0));
	/* Published before the name: a crash now leaves the new bytes under it. */
	CLEAN(meta_getattr(s.meta, b.ino, &b));
	ck_assert_uint_eq(b.size, 1);
	fs_release(new, &s.req);
	ck_assert_uint_eq(size_of(a.ino), 1);
	fs_release(old, &s.req);
	ck_assert(inodes_become(2));
	ck_assert_int_eq(fs_rename(s.fs, &s.req, name("old"), name("old"), RENAME_WHITEOUT), -EINVAL);
}
END_TEST

START_TEST(pages_are_kept_while_only_this_mount_changes_the_file)
{
	struct meta_attr a, in = { .mode = S_IFREG | 0600 };
	struct meta_publish p = { .trunc_to = 0, .mtime = 1 };
	struct fs_file *fh = create("f", &a);

	CLEAN(fs_write(fh, &s.req, 0, "x", 1));
	CLEAN(fs_flush(fh, &s.req));
	fs_release(fh, &s.req);
	CLEAN(fs_file_open(s.fs, &s.req, a.ino, O_RDONLY, &fh));
	ck_assert(fs_file_info(fh).keep_cache);
	ck_assert(fs_file_info(fh).noflush);
	fs_release(fh, &s.req);
	CLEAN(fs_setattr(s.fs, &s.req, a.ino, NULL, META_SET_MODE, &in, &a));
	CLEAN(fs_file_open(s.fs, &s.req, a.ino, O_RDWR, &fh));
	ck_assert(fs_file_info(fh).keep_cache);
	ck_assert(!fs_file_info(fh).noflush);
	fs_release(fh, &s.req);
	/* Somebody else */
	CLEAN(meta_publish(s.meta, a.ino, &p, &a));
	CLEAN(fs_file_open(s.fs, &s.req, a.ino, O_RDONLY, &fh));
	ck_assert(!fs_file_info(fh).keep_cache);
	fs_release(fh, &s.req);
	CLEAN(fs_file_open(s.fs, &s.req, a.ino, O_RDONLY, &fh));
	ck_assert(fs_file_info(fh).keep_cache);
	fs_release(fh, &s.req);
}
END_TEST

START_TEST(writes_by_users_clear_privileges_those_of_root_do_not)
{
	struct meta_attr a, in = { .mode = S_IFREG | 06755 };
	struct fs_file *fh = create("f", &a);

	CLEAN(fs_setattr(s.fs, &s.req, a.ino, fh, META_SET_MODE, &in, &a));
	ck_assert(!fs_attr_cacheable(&a));
	s.req.uid = 0;
	CLEAN(fs_write(fh, &s.req, 0, "x", 1));
	CLEAN(fs_getattr(s.fs, &s.req, a.ino, &a));
	ck_assert_uint_eq(a.mode & 07777, 06755);
	s.req.uid = 1000;
	CLEAN(fs_write(fh, &s.req, 0, "y", 1));
	CLEAN(fs_getattr(s.fs, &s.req, a.ino, &a));
	ck_assert_uint_eq(a.mode & 07777, 0755);
	ck_assert(fs_attr_cacheable(&a));
	/* Set again after the write, and before it is published: stays. */
	CLEAN(fs_setattr(s.fs, &s.req, a.ino, fh, META_SET_MODE, &in, &a));
	CLEAN(fs_flush(fh, &s.req));
	CLEAN(fs_getattr(s.fs, &s.req, a.ino, &a));
	ck_assert_uint_eq(a.mode & 07777, 06755);
	fs_release(fh, &s.req);
}
END_TEST

#define RACERS 4
static void *racer(void *arg)
{
	struct tess_req req;

	(void)arg;
	req_begin(&req, "race");
	for (int i = 0; i < 300; i++) {
		struct fs_file *fh;
		struct meta_attr a;

		int r = fs_create(s.fs, &req, name("race"), 0644, O_RDWR, &a, &fh);

		ck_assert_msg(r == 0 || r == -TESS_E_STALE, "%s", err_text(r));
		if (r == 0) {
			CLEAN(fs_write(fh, &req, 0, "x", 1));
			CLEAN(fs_flush(fh, &req));
			fs_release(fh, &req);
		}
		r = fs_unlink(s.fs, &req, name("race"));
		ck_assert(r == 0 || r == -ENOENT);
	}
	return NULL;
}

START_TEST(creating_and_removing_one_name_from_many_threads_leaves_nothing)
{
	pthread_t t[RACERS];

	for (int i = 0; i < RACERS; i++)
		pthread_create(&t[i], NULL, racer, NULL);
	for (int i = 0; i < RACERS; i++)
		pthread_join(t[i], NULL);
	ck_assert(inodes_become(1));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("icache");
	TCase *c = tcase_create("icache");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, unpublished_bytes_are_in_every_stat);
	tcase_add_test(c, an_unlinked_file_goes_with_its_last_handle);
	tcase_add_test(c, with_a_kernel_it_stays_until_it_is_forgotten);
	tcase_add_test(c, a_nameless_file_can_get_a_name);
	tcase_add_test(c, rename_over_an_open_file_keeps_its_bytes_for_the_holder);
	tcase_add_test(c, pages_are_kept_while_only_this_mount_changes_the_file);
	tcase_add_test(c, writes_by_users_clear_privileges_those_of_root_do_not);
	tcase_add_test(c, creating_and_removing_one_name_from_many_threads_leaves_nothing);
	suite_add_tcase(suite, c);
	return unit_run(suite);
}
