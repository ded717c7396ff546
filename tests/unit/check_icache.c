/* SPDX-License-Identifier: Apache-2.0 */
/* layer: fs */
/* Handles, names and removal above a namespace and a store in memory. */
#include "unit.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "fs/fs.h"
#include "meta/meta_impl.h"
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
	struct tess_policy policy;
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
	CLEAN(meta_session_begin(s.meta, "/mnt", clock_wall(), &why));
	CLEAN(store_open_uri(&s.store, "mem:", &so, &why));
	s.target = (struct io_target){ .id = 0, .store = s.store, .weight = 1 };
	CLEAN(budget_new(&s.budget, 64 << 20));
	snprintf(s.dir, sizeof(s.dir), "/tmp/check_icache.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(s.dir));
	struct io_conf ic = { .meta = s.meta, .budget = s.budget, .targets = &s.target, .ntargets = 1,
			      .staging_dir = s.dir, .staging_size = 64 << 20, .fsync_local = true };

	CLEAN(io_open(&s.io, &ic, &why));
	struct fs_conf fc = { .meta = s.meta, .io = s.io, .policy = &s.policy,
			      .targets = &s.target, .ntargets = 1 };

	s.policy = policy_presets[MODE_SESSION];
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

START_TEST(reserving_space_cuts_nothing_that_others_publish_meanwhile)
{
	/* What another session does. */
	struct meta_publish longer = { .trunc_to = META_NO_TRUNC, .size = 1 << 21 };
	struct meta_attr a;
	struct fs_file *fh = create("f", &a);

	CLEAN(fs_fallocate(fh, &s.req, 0, 0, 1 << 20));
	ck_assert_uint_eq(size_of(a.ino), 1 << 20);
	CLEAN(meta_publish(s.meta, a.ino, &longer, NULL));
	CLEAN(fs_fsync(fh, &s.req, false));
	CLEAN(meta_getattr(s.meta, a.ino, &a));
	ck_assert_uint_eq(a.size, 1 << 21);
	CLEAN(fs_fallocate(fh, &s.req, 0, 0, 1 << 22));
	CLEAN(fs_fsync(fh, &s.req, false));
	ck_assert_uint_eq(size_of(a.ino), 1 << 22);
	fs_release(fh, &s.req);
}
END_TEST

/* As a mount does that joins: it changes nothing before the others have seen it. */
static struct meta *join(void)
{
	struct meta_session self;
	struct meta *other;
	uint64_t tails = 0;

	CLEAN(meta_open(&other, meta_kv(s.meta), NULL));
	CLEAN(meta_session_begin(other, "/mnt2", clock_wall(), NULL));
	CLEAN(meta_session_get(other, meta_session_id(other), &self));
	for (unsigned i = 0; i < 2000 && tails < self.joined; i++) {
		clock_sleep(5 * NS_PER_MS);
		CLEAN(meta_tails(other, &tails));
	}
	ck_assert_uint_ge(tails, self.joined);
	return other;
}

static void leave(struct meta *other)
{
	CLEAN(meta_session_end(other));
	other->kv = NULL;
	meta_close(other);
}

START_TEST(what_was_appended_while_alone_is_in_the_file_before_others_append)
{
	struct meta_publish more = { .trunc_to = META_NO_TRUNC, .size = 5, .append = true };
	struct meta_attr a;
	struct fs_file *fh = create("f", &a), *ap;
	struct meta *other;

	CLEAN(fs_file_open(s.fs, &s.req, fs_file_ino(fh), O_WRONLY | O_APPEND, &ap));
	CLEAN(fs_write(ap, &s.req, 0, "0123456789", 10));
	other = join();
	CLEAN(meta_publish(other, fs_file_ino(fh), &more, NULL));
	CLEAN(fs_fsync(ap, &s.req, false));
	CLEAN(meta_getattr(other, fs_file_ino(fh), &a));
	ck_assert_uint_eq(a.size, 15);
	fs_release(ap, &s.req);
	fs_release(fh, &s.req);
	leave(other);
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

/* A lax mount's kernel remembers that a name is not there; not below a mark that looks each time. */
START_TEST(names_that_are_not_there_are_as_new_as_their_directory_is_marked)
{
	struct meta_new in = { .mode = S_IFDIR | 0755 };
	struct meta_attr plain, strict;

	CLEAN(meta_create(s.meta, TESS_ROOT_INO, "plain", 5, &in, 1, &plain));
	CLEAN(meta_create(s.meta, TESS_ROOT_INO, "strict", 6, &in, 1, &strict));
	strict.flags = MODE_STRICT << META_MODE_SHIFT;
	CLEAN(meta_setattr(s.meta, strict.ino, META_SET_MARK, &strict, 2, &strict));
	s.policy = policy_presets[MODE_LAZY];
	s.policy.negative_ttl = 10 * NS_PER_S;
	ck_assert(fs_ttl(s.fs, TESS_ROOT_INO, NULL).entry == 10);
	ck_assert(fs_ttl(s.fs, plain.ino, NULL).entry == 10);
	/* Alone, nobody changes it. */
	ck_assert(fs_ttl(s.fs, strict.ino, NULL).entry <= 1);
	/* A directory that is gone */
	ck_assert(fs_ttl(s.fs, 1 << 20, NULL).entry == 0);
}
END_TEST

/* The kernel drops its pages when it has the reply: until it uses the handle it may not have come to that. */
START_TEST(no_open_trusts_pages_that_another_is_about_to_drop)
{
	struct meta_publish p = { .trunc_to = 0, .mtime = 1 };
	struct fs_file *one, *two;
	struct meta_attr a;

	one = create("f", &a);
	CLEAN(fs_write(one, &s.req, 0, "x", 1));
	CLEAN(fs_flush(one, &s.req));
	fs_release(one, &s.req);
	CLEAN(meta_publish(s.meta, a.ino, &p, &a));
	CLEAN(fs_file_open(s.fs, &s.req, a.ino, O_RDONLY, &one));
	ck_assert(!fs_file_info(one).keep_cache);
	CLEAN(fs_file_open(s.fs, &s.req, a.ino, O_RDONLY, &two));
	ck_assert(!fs_file_info(two).keep_cache);
	fs_release(two, &s.req);
	CLEAN(fs_file_open(s.fs, &s.req, a.ino, O_RDONLY, &two));
	ck_assert(fs_file_info(two).keep_cache);
	fs_release(two, &s.req);
	fs_release(one, &s.req);
}
END_TEST

START_TEST(writes_by_users_clear_privileges_those_of_root_do_not)
{
	struct meta_attr a, in = { .mode = S_IFREG | 06755 };
	struct fs_file *fh = create("f", &a);

	CLEAN(fs_setattr(s.fs, &s.req, a.ino, fh, META_SET_MODE, &in, &a));
	ck_assert(fs_ttl(s.fs, 0, &a).attr == 0);
	s.req.uid = 0;
	CLEAN(fs_write(fh, &s.req, 0, "x", 1));
	CLEAN(fs_getattr(s.fs, &s.req, a.ino, &a));
	ck_assert_uint_eq(a.mode & 07777, 06755);
	s.req.uid = 1000;
	CLEAN(fs_write(fh, &s.req, 0, "y", 1));
	CLEAN(fs_getattr(s.fs, &s.req, a.ino, &a));
	ck_assert_uint_eq(a.mode & 07777, 0755);
	ck_assert(fs_ttl(s.fs, 0, &a).attr > 0);
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
	tcase_add_test(c, reserving_space_cuts_nothing_that_others_publish_meanwhile);
	tcase_add_test(c, what_was_appended_while_alone_is_in_the_file_before_others_append);
	tcase_add_test(c, an_unlinked_file_goes_with_its_last_handle);
	tcase_add_test(c, with_a_kernel_it_stays_until_it_is_forgotten);
	tcase_add_test(c, a_nameless_file_can_get_a_name);
	tcase_add_test(c, rename_over_an_open_file_keeps_its_bytes_for_the_holder);
	tcase_add_test(c, pages_are_kept_while_only_this_mount_changes_the_file);
	tcase_add_test(c, names_that_are_not_there_are_as_new_as_their_directory_is_marked);
	tcase_add_test(c, no_open_trusts_pages_that_another_is_about_to_drop);
	tcase_add_test(c, writes_by_users_clear_privileges_those_of_root_do_not);
	tcase_add_test(c, creating_and_removing_one_name_from_many_threads_leaves_nothing);
	suite_add_tcase(suite, c);
	return unit_run(suite);
}
