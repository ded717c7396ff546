/* SPDX-License-Identifier: Apache-2.0 */
/* layer: mount */
#include "base/err.h"
#include "base/fault.h"
#include "fakeobj.h"
#include "meta/kv.h"
#include "unit.h"
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <tessera/tessera.h>
#include <unistd.h>

static char top[256], dir[300], why[TESS_WHY];

static void setup(void)
{
	const char *tmp = getenv("TESS_TMP");

	snprintf(top, sizeof(top), "%.200s/mkfs.XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/fs", top);
	why[0] = '\0';
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void teardown(void)
{
	fault_set(NULL);
	nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static unsigned entries(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

START_TEST(what_mkfs_made_opens)
{
	struct tess_mkfs conf = { .dir = dir, .label = "a label" };
	struct tess *t;
	uint64_t ino;

	ck_assert_msg(!tess_mkfs(&conf, why), "%s", why);
	ck_assert_msg(!tess_open(&t, dir, TESS_LOOK, NULL, NULL, why), "%s", why);
	CLEAN(tess_resolve(t, "/", &ino));
	ck_assert_uint_eq(ino, TESS_ROOT_INO);
	CLEAN(tess_close(t, why));
}
END_TEST

START_TEST(it_opens_for_work_and_leaves_no_session)
{
	struct tess_mkfs conf = { .dir = dir };
	struct tess_fsck f = { 0 };
	struct tess *t, *u;

	ck_assert_msg(!tess_mkfs(&conf, why), "%s", why);
	for (int i = 0; i < 2; i++) {
		ck_assert_msg(!tess_open(&t, dir, TESS_WORK, NULL, NULL, why), "%s", why);
		ck_assert_msg(!tess_close(t, why), "%s", why);
	}
	ck_assert_msg(!tess_open(&u, dir, TESS_LOOK, NULL, NULL, why), "%s", why);
	ck_assert_msg(!tess_fsck(u, &f, why), "%s", why);
	ck_assert_uint_eq(f.findings, 0);
	ck_assert_uint_eq(f.inodes, 1);
	CLEAN(tess_close(u, why));
}
END_TEST

START_TEST(a_mount_answers_on_its_socket)
{
	struct tess_mkfs conf = { .dir = dir };
	char *answer = NULL;
	struct tess *t;

	ck_assert_msg(!tess_mkfs(&conf, why), "%s", why);
	ck_assert_int_eq(tess_control(dir, "/nowhere", "hello", &answer, why), -ENOTCONN);
	ck_assert_msg(!tess_open(&t, dir, TESS_MOUNT, NULL, "/nowhere", why), "%s", why);
	ck_assert_msg(!tess_control(dir, "/nowhere", "hello", &answer, why), "%s", why);
	ck_assert_int_eq(strtol(answer, NULL, 10), getpid());
	free(answer);
	ck_assert_msg(!tess_control(dir, NULL, "flush", &answer, why), "%s", why);
	free(answer);
	ck_assert_int_eq(tess_control(dir, "/elsewhere", "hello", &answer, why), -ENOTCONN);
	ck_assert_int_lt(tess_control(dir, NULL, "dance", &answer, why), 0);
	ck_assert_ptr_nonnull(strstr(why, "stats"));
	ck_assert_msg(!tess_close(t, why), "%s", why);
	ck_assert_int_eq(tess_control(dir, NULL, "hello", &answer, why), -ENOTCONN);
}
END_TEST

START_TEST(a_second_mkfs_is_refused_and_harmless)
{
	struct tess_mkfs conf = { .dir = dir };
	struct tess *t;

	CLEAN(tess_mkfs(&conf, why));
	ck_assert_int_eq(tess_mkfs(&conf, why), -ENOTEMPTY);
	ck_assert_ptr_nonnull(strstr(why, "already"));
	CLEAN(tess_open(&t, dir, TESS_LOOK, NULL, NULL, why));
	CLEAN(tess_close(t, why));
}
END_TEST

static const struct {
	struct tess_mkfs conf;
	int err;
	const char *says;
} bad[] = {
	{ { .cls = "S0" }, -TESS_E_CLASS_UNKNOWN, "S" },
	{ { .cls = "RP_2G1" }, -TESS_E_CLASS_LATER, "RP_2G1" },
	{ { .cls = "EC_4P2GX" }, -TESS_E_CLASS_LATER, "EC_4P2GX" },
	{ { .cls = "S2" }, -TESS_E_CLASS_TARGETS, "target" },
	{ { .mapper = "lazy" }, -TESS_E_MAPPER_UNKNOWN, "write-optimized" },
	{ { .segment_size = 1 }, -TESS_E_OPT_VALUE, "64k" },
	{ { .segment_size = UINT64_C(1) << 40 }, -TESS_E_OPT_VALUE, "64M" },
	{ { .targets = (const char *const[]){ "kv" }, .ntargets = 1 }, -TESS_E_URI, "kv" },
	{ { .targets = (const char *const[]){ "tape:x" }, .ntargets = 1 }, -TESS_E_URI, "tape" },
	{ { .targets = (const char *const[]){ "mem:", "mem:" }, .ntargets = 2 }, -TESS_E_URI, "twice" },
};

START_TEST(bad_input_is_named_and_leaves_nothing)
{
	struct tess_mkfs conf = bad[_i].conf;

	conf.dir = dir;
	ck_assert_int_eq(tess_mkfs(&conf, why), bad[_i].err);
	ck_assert_msg(strstr(why, bad[_i].says), "'%s' does not name '%s'", why, bad[_i].says);
	ck_assert_ptr_null(strchr(why, '\n'));
	ck_assert_uint_eq(entries(top), 0);
}
END_TEST

/* A Swift service whose objects have at most 1 MiB. */
static struct fakeobj *swift_begin(void)
{
	const struct fakeobj_conf conf = { .max_object = UINT64_C(1) << 20 };
	struct fakeobj *f;
	char url[64];

	CLEAN(fakeobj_start(&f, &conf));
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/auth/v1.0", fakeobj_port(f));
	setenv("ST_AUTH", url, 1);
	setenv("ST_USER", FAKEOBJ_USER, 1);
	setenv("ST_KEY", FAKEOBJ_KEY, 1);
	return f;
}

static void says_too_large(const char *uri, const char *segment)
{
	ck_assert_msg(strstr(why, uri) && strstr(why, "1048576") && strstr(why, segment),
		      "'%s' does not say '%s', 1048576, '%s'", why, uri, segment);
	ck_assert_ptr_null(strchr(why, '\n'));
}

START_TEST(a_segment_larger_than_a_target_takes_is_refused_by_mkfs)
{
	static const char *const targets[] = { "swift://c/one", "swift://c/two" };
	struct tess_mkfs conf = { .dir = dir, .targets = targets, .ntargets = 2 };
	struct fakeobj *f = swift_begin();
	struct tess *t;

	ck_assert_int_eq(tess_mkfs(&conf, why), -TESS_E_URI);
	says_too_large(targets[0], "4194304");
	ck_assert_uint_eq(entries(top), 0);
	/* What was made before is taken back, or this would be told that another file system is there. */
	ck_assert_uint_eq(fakeobj_objects(f, "", NULL), 0);
	conf.segment_size = 1 << 20;
	ck_assert_msg(!tess_mkfs(&conf, why), "%s", why);
	ck_assert_msg(!tess_open(&t, dir, TESS_WORK, NULL, NULL, why), "%s", why);
	ck_assert_msg(!tess_close(t, why), "%s", why);
	fakeobj_stop(f);
}
END_TEST

START_TEST(a_target_that_takes_less_by_now_is_refused_by_mount)
{
	static const char *const targets[] = { "swift://c/one" };
	struct tess_mkfs conf = { .dir = dir, .targets = targets, .ntargets = 1, .segment_size = 1 << 20 };
	struct fakeobj *f = swift_begin();
	struct tess *t;

	ck_assert_msg(!tess_mkfs(&conf, why), "%s", why);
	fakeobj_max_object(f, (UINT64_C(1) << 20) - 1);
	ck_assert_int_eq(tess_open(&t, dir, TESS_WORK, NULL, NULL, why), -TESS_E_URI);
	ck_assert_msg(strstr(why, targets[0]) && strstr(why, "1048575") && strstr(why, "1048576"),
		      "%s", why);
	fakeobj_max_object(f, UINT64_C(2) << 20);
	ck_assert_msg(!tess_open(&t, dir, TESS_WORK, NULL, NULL, why), "%s", why);
	ck_assert_msg(!tess_close(t, why), "%s", why);
	fakeobj_stop(f);
}
END_TEST

/* Fails each allocation in turn, until none is left to fail. */
START_TEST(a_failed_allocation_leaves_nothing)
{
	struct tess_mkfs conf = { .dir = dir };
	int err = -ENOMEM;
	unsigned n = 0;

	while (err) {
		char spec[64];

		snprintf(spec, sizeof(spec), "alloc@%u=ENOMEM", ++n);
		CLEAN(fault_set(spec));
		err = tess_mkfs(&conf, why);
		fault_set(NULL);
		if (err)
			ck_assert_msg(entries(top) == 0, "allocation %u left something: %s", n, why);
		ck_assert_uint_lt(n, 10000);
	}
	ck_assert_uint_gt(n, 10);
}
END_TEST

/* The same for opening: what is half open is closed again, and the next attempt finds it whole. */
START_TEST(a_failed_allocation_does_not_keep_it_open)
{
	const enum tess_open_mode mode = _i;
	struct tess_mkfs conf = { .dir = dir };
	struct tess *t = NULL;
	int err = -ENOMEM;
	unsigned n = 0;

	CLEAN(tess_mkfs(&conf, why));
	while (err) {
		char spec[64];

		snprintf(spec, sizeof(spec), "alloc@%u=ENOMEM", ++n);
		CLEAN(fault_set(spec));
		err = tess_open(&t, dir, mode, NULL, "/nowhere", why);
		fault_set(NULL);
		ck_assert_uint_lt(n, 10000);
	}
	ck_assert_uint_gt(n, 5);
	ck_assert_msg(!tess_close(t, why), "%s", why);
	CLEAN(tess_open(&t, dir, TESS_LOOK, NULL, NULL, why));
	CLEAN(tess_close(t, why));
}
END_TEST

START_TEST(what_is_no_file_system_is_refused)
{
	struct tess *t;

	ck_assert_int_eq(tess_open(&t, dir, TESS_LOOK, NULL, NULL, why), -ENOENT);
	ck_assert_int_eq(tess_open(&t, top, TESS_LOOK, NULL, NULL, why), -TESS_E_FORMAT_MAGIC);
	ck_assert_ptr_nonnull(strstr(why, "not a Tessera"));
	ck_assert_int_eq(tess_open(&t, "/etc/passwd", TESS_LOOK, NULL, NULL, why), -ENOTDIR);
}
END_TEST

START_TEST(a_garbage_namespace_is_refused)
{
	struct tess_mkfs conf = { .dir = dir };
	char path[400], junk[8192];
	struct tess *t;
	int fd;

	CLEAN(tess_mkfs(&conf, why));
	snprintf(path, sizeof(path), "%s/meta/data.mdb", dir);
	memset(junk, 'j', sizeof(junk));
	fd = open(path, O_WRONLY);
	ck_assert_int_eq(pwrite(fd, junk, sizeof(junk), 0), sizeof(junk));
	close(fd);
	ck_assert_int_lt(tess_open(&t, dir, TESS_LOOK, NULL, NULL, why), 0);
	ck_assert_ptr_null(strchr(why, '\n'));
	ck_assert_uint_gt(strlen(why), 10);
}
END_TEST

/* Where a byte of the super record is changed, and what opening says then. */
static const struct {
	size_t at;	/* from the end when beyond 1000 */
	uint8_t xor;
	int err;
	const char *says;
} spoils[] = {
	{ 2, 1, -TESS_E_FORMAT_MAGIC, "not a Tessera" },
	{ 10, 64, -TESS_E_FORMAT_NEWER, "newer" },
	{ 30, 1, -TESS_E_FORMAT_NEWER, "newer" },
	{ 40, 1, -TESS_E_RECORD, "corrupt" },
	{ 1001, 1, -TESS_E_RECORD, "corrupt" },
};

static int spoil_txn(struct kv_txn *txn, void *arg)
{
	const int *i = arg;
	uint8_t buf[4096];
	struct kv_val v;
	size_t at;

	CLEAN(kv_get(txn, KV_SUPER, kv_val("super", 5), &v));
	ck_assert_uint_le(v.n, sizeof(buf));
	memcpy(buf, v.p, v.n);
	at = spoils[*i].at > 1000 ? v.n - (spoils[*i].at - 1000) : spoils[*i].at;
	buf[at] ^= spoils[*i].xor;
	return kv_put(txn, KV_SUPER, kv_val("super", 5), kv_val(buf, v.n));
}

START_TEST(a_spoilt_super_record_is_named)
{
	struct tess_mkfs conf = { .dir = dir };
	struct kv_conf kc = { 0 };
	char meta[400];
	struct tess *t;
	struct kv *kv;
	int i = _i;

	CLEAN(tess_mkfs(&conf, why));
	snprintf(meta, sizeof(meta), "%s/meta", dir);
	kc.dir = meta;
	CLEAN(kv_lmdb_open(&kv, &kc, NULL));
	CLEAN(kv_run(kv, spoil_txn, &i, NULL));
	kv_close(kv);
	ck_assert_int_eq(tess_open(&t, dir, TESS_LOOK, NULL, NULL, why), spoils[i].err);
	ck_assert_msg(strstr(why, spoils[i].says), "'%s' does not say '%s'", why, spoils[i].says);
	ck_assert_ptr_null(strchr(why, '\n'));
	ck_assert_int_eq(tess_open(&t, dir, TESS_MOUNT, NULL, "/nowhere", why), spoils[i].err);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("mkfs");
	TCase *c = tcase_create("mkfs");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	tcase_add_test(c, what_mkfs_made_opens);
	tcase_add_test(c, it_opens_for_work_and_leaves_no_session);
	tcase_add_test(c, a_mount_answers_on_its_socket);
	tcase_add_test(c, a_second_mkfs_is_refused_and_harmless);
	tcase_add_loop_test(c, bad_input_is_named_and_leaves_nothing, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(c, a_segment_larger_than_a_target_takes_is_refused_by_mkfs);
	tcase_add_test(c, a_target_that_takes_less_by_now_is_refused_by_mount);
	tcase_add_test(c, a_failed_allocation_leaves_nothing);
	tcase_add_loop_test(c, a_failed_allocation_does_not_keep_it_open, TESS_LOOK, TESS_MOUNT + 1);
	tcase_add_test(c, what_is_no_file_system_is_refused);
	tcase_add_test(c, a_garbage_namespace_is_refused);
	tcase_add_loop_test(c, a_spoilt_super_record_is_named, 0, sizeof(spoils) / sizeof(spoils[0]));
	suite_add_tcase(s, c);
	return unit_run(s);
}
