/* SPDX-License-Identifier: Apache-2.0 */
/* layer: meta */
/* Names: what POSIX says of create, link, unlink, rename and listing, on both engines. */
#include "../lib/metatest.h"
#include "base/err.h"
#include "base/fault.h"
#include "unit.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

extern uint64_t dentry_hash_mask;

#define R TESS_ROOT_INO
#define F (S_IFREG | 0644)
#define D (S_IFDIR | 0755)

START_TEST(names_are_found_until_they_go)
{
	struct meta_gone gone;
	uint64_t f;

	mt_open(_i);
	f = mt_make(R, "f", F);
	ck_assert_uint_eq(mt_find(R, "f"), f);
	ck_assert_uint_eq(mt_find(R, "F"), 0);
	ck_assert_uint_eq(mt_find(R, "."), R);
	ck_assert_uint_eq(mt_find(R, ".."), R);
	ck_assert_int_eq(mt_try_make(R, "f", D), -EEXIST);
	ck_assert_int_eq(mt_try_make(f, "x", F), -ENOTDIR);
	ck_assert_int_eq(mt_try_make(999, "x", F), -ENOENT);
	CLEAN(mt_unlink(R, "f", &gone));
	ck_assert_uint_eq(gone.ino, f);
	ck_assert_uint_eq(mt_find(R, "f"), 0);
	ck_assert_int_eq(mt_unlink(R, "f", &gone), -ENOENT);
	ck_assert_uint_eq(mt_attr(f).nlink, 0); /* still there for whoever has it open */
	mt_reclaim_all();
	struct meta_attr a;

	ck_assert_int_eq(meta_getattr(mt, f, &a), -TESS_E_STALE);
	mt_close();
}
END_TEST

START_TEST(names_are_any_bytes_up_to_255)
{
	char name[257];

	mt_open(_i);
	memset(name, 0xff, 256);
	name[255] = 0;
	mt_make(R, name, F);
	ck_assert_uint_ne(mt_find(R, name), 0);
	name[255] = 'x';
	name[256] = 0;
	ck_assert_int_eq(mt_try_make(R, name, F), -ENAMETOOLONG);
	ck_assert_int_eq(mt_try_make(R, "", F), -EINVAL);
	ck_assert_int_eq(mt_try_make(R, "a/b", F), -EINVAL);
	mt_close();
}
END_TEST

START_TEST(directories_count_their_subdirectories)
{
	uint64_t d, e;

	mt_open(_i);
	d = mt_make(R, "d", D);
	e = mt_make(d, "e", D);
	mt_make(d, "f", F);
	ck_assert_uint_eq(mt_attr(d).nlink, 3);
	ck_assert_uint_eq(mt_attr(R).nlink, 3);
	ck_assert_int_eq(mt_rmdir(R, "d"), -ENOTEMPTY);
	ck_assert_int_eq(mt_rmdir(d, "f"), -ENOTDIR);
	ck_assert_int_eq(mt_unlink(d, "e", NULL), -EISDIR);
	ck_assert_int_eq(mt_rmdir(d, "."), -EINVAL);
	ck_assert_int_eq(mt_rmdir(d, ".."), -ENOTEMPTY);
	CLEAN(mt_rmdir(d, "e"));
	ck_assert_uint_eq(mt_attr(d).nlink, 2);
	ck_assert_int_eq(mt_try_make(e, "late", F), -ENOENT);
	ck_assert_int_eq(mt_attr(d).mtime, NOW + 1);
	mt_close();
}
END_TEST

START_TEST(links_share_an_inode)
{
	struct meta_attr a;
	struct meta_gone gone;
	uint64_t f, d;

	mt_open(_i);
	f = mt_make(R, "f", F);
	d = mt_make(R, "d", D);
	CLEAN(meta_link(mt, f, d, "g", 1, NOW, &a));
	ck_assert_uint_eq(a.nlink, 2);
	ck_assert_int_eq(meta_link(mt, f, d, "g", 1, NOW, &a), -EEXIST);
	ck_assert_int_eq(meta_link(mt, d, R, "d2", 2, NOW, &a), -EPERM);
	CLEAN(mt_unlink(R, "f", &gone));
	ck_assert_uint_eq(gone.ino, 0);
	ck_assert_uint_eq(mt_find(d, "g"), f);
	/* rename over another link of the same file does nothing */
	CLEAN(meta_link(mt, f, d, "h", 1, NOW, &a));
	CLEAN(mt_rename(d, "g", d, "h", 0));
	ck_assert_uint_eq(mt_find(d, "g"), f);
	ck_assert_uint_eq(mt_attr(f).nlink, 2);
	mt_close();
}
END_TEST

START_TEST(a_temporary_file_may_be_linked)
{
	struct meta_new in = {.mode = F};
	struct meta_attr a;
	uint64_t inos[2];
	unsigned n;

	mt_open(_i);
	CLEAN(meta_tmpfile(mt, R, &in, NOW, &a));
	ck_assert_uint_eq(a.nlink, 0);
	CLEAN(meta_orphans(mt, 0, inos, 2, &n));
	ck_assert_uint_eq(n, 1);
	CLEAN(meta_link(mt, a.ino, R, "t", 1, NOW, &a));
	ck_assert_uint_eq(a.nlink, 1);
	CLEAN(meta_orphans(mt, 0, inos, 2, &n));
	ck_assert_uint_eq(n, 0);
	bool more;

	CLEAN(meta_reclaim(mt, &a.ino, 1, 100, NOW, &more));
	ck_assert_uint_eq(mt_find(R, "t"), a.ino);
	mt_close();
}
END_TEST

START_TEST(attributes_change_one_by_one)
{
	struct meta_attr in = {.mode = 04755,
			       .uid = 1,
			       .gid = 2,
			       .atime = 3,
			       .mtime = 4,
			       .ctime = 5},
			 a;
	uint64_t f, gen;

	mt_open(_i);
	f = mt_make(R, "f", F);
	gen = mt_attr(f).generation;
	CLEAN(meta_setattr(mt, f, META_SET_UID | META_SET_ATIME, &in, 77, &a));
	ck_assert(a.uid == 1 && a.gid == 20 && a.atime == 3 && a.mtime == NOW && a.ctime == 77);
	ck_assert_uint_gt(a.generation, gen);
	CLEAN(meta_setattr(mt, f, META_SET_MODE, &in, 78, &a));
	ck_assert_uint_eq(a.mode, S_IFREG | 04755);
	CLEAN(meta_setattr(mt, f, META_KILL_PRIV | META_SET_CTIME, &in, 79, &a));
	ck_assert_uint_eq(a.mode, S_IFREG | 0755);
	ck_assert_int_eq(a.ctime, 5);
	in.mode = 02644; /* setgid without group execution is no privilege */
	CLEAN(meta_setattr(mt, f, META_SET_MODE, &in, 78, &a));
	CLEAN(meta_setattr(mt, f, META_KILL_PRIV, &in, 79, &a));
	ck_assert_uint_eq(a.mode, S_IFREG | 02644);
	ck_assert_int_eq(meta_setattr(mt, 12345, META_SET_MODE, &in, 1, &a), -TESS_E_STALE);
	mt_close();
}
END_TEST

static void make_at(uint64_t dir, const char *name, uint32_t mode, int64_t now)
{
	struct meta_new in = {.mode = mode};
	struct meta_attr a;

	CLEAN(meta_create(mt, dir, name, strlen(name), &in, now, &a));
}

START_TEST(relaxed_times_of_a_directory_are_late_by_no_more_than_told)
{
	struct meta_rename in_place = {R, R, "a", "z", 1, 1, 0}, away = {R, 0, "z", "z", 1, 1, 0};
	int64_t ctime;

	mt_open(_i);
	make_at(R, "a", F, 5000);
	ck_assert_int_eq(mt_attr(R).mtime, 5000);
	meta_relax(mt, 100, 0);
	make_at(R, "b", F, 5099);
	ck_assert_int_eq(mt_attr(R).mtime, 5000);
	make_at(R, "c", F, 5100);
	ck_assert_int_eq(mt_attr(R).mtime, 5100);
	/* A link count is exact, and the times go with it. */
	make_at(R, "d", D, 5101);
	ck_assert_int_eq(mt_attr(R).mtime, 5101);
	ck_assert_uint_eq(mt_attr(R).nlink, 3);
	ctime = mt_attr(mt_find(R, "a")).ctime;
	CLEAN(meta_rename(mt, &in_place, 5102, NULL));
	ck_assert_int_eq(mt_attr(mt_find(R, "z")).ctime, ctime);
	ck_assert_int_eq(mt_attr(R).mtime, 5101);
	away.to_dir = mt_find(R, "d");
	CLEAN(meta_rename(mt, &away, 5103, NULL));
	ck_assert_int_eq(mt_attr(mt_find(away.to_dir, "z")).ctime, 5103);
	ck_assert_uint_eq(mt_attr(mt_find(away.to_dir, "z")).parent, away.to_dir);
	/* A clock that was set back does not stop it. */
	make_at(R, "e", F, 4000);
	ck_assert_int_eq(mt_attr(R).mtime, 4000);
	meta_relax(mt, 0, 0);
	make_at(R, "f", F, 4001);
	ck_assert_int_eq(mt_attr(R).mtime, 4001);
	mt_close();
}
END_TEST

START_TEST(what_is_marked_as_exact_is_not_relaxed)
{
	struct meta_rename in_place = {R, R, "a", "b", 1, 1, 0};
	struct meta_attr a;

	mt_open(_i);
	make_at(R, "a", F, 5000);
	a = mt_attr(R);
	a.flags = 1u << META_MODE_SHIFT;
	CLEAN(meta_setattr(mt, R, META_SET_MARK, &a, 5000, &a));
	meta_relax(mt, 100, 1u << 1);
	make_at(R, "c", F, 5001);
	ck_assert_int_eq(mt_attr(R).mtime, 5001);
	/* Not marked itself */
	CLEAN(meta_rename(mt, &in_place, 5002, NULL));
	ck_assert_int_eq(mt_attr(mt_find(R, "b")).ctime, 5000);
	ck_assert_int_eq(mt_attr(R).mtime, 5002);
	meta_relax(mt, 100, 1u << 2 | 1u << 0);
	make_at(R, "d", F, 5003);
	ck_assert_int_eq(mt_attr(R).mtime, 5002);
	in_place = (struct meta_rename){R, R, "b", "e", 1, 1, 0};
	CLEAN(meta_rename(mt, &in_place, 5004, NULL));
	ck_assert_int_eq(mt_attr(mt_find(R, "e")).ctime, 5004);
	mt_close();
}
END_TEST

START_TEST(a_setgid_directory_gives_its_group)
{
	struct meta_new in = {.mode = S_IFDIR | 02755, .uid = 1, .gid = 50, .umask = 022};
	struct meta_attr d, a;

	mt_open(_i);
	CLEAN(meta_create(mt, R, "d", 1, &in, NOW, &d));
	in.mode = S_IFDIR | 0777;
	in.gid = 60;
	CLEAN(meta_create(mt, d.ino, "e", 1, &in, NOW, &a));
	ck_assert_uint_eq(a.gid, 50);
	ck_assert_uint_eq(a.mode, S_IFDIR | 02755);
	in.mode = S_IFREG | 0666;
	CLEAN(meta_create(mt, d.ino, "f", 1, &in, NOW, &a));
	ck_assert_uint_eq(a.gid, 50);
	ck_assert_uint_eq(a.mode, S_IFREG | 0644);
	mt_close();
}
END_TEST

START_TEST(symlinks_and_devices_keep_what_they_are)
{
	struct meta_new in = {.mode = S_IFLNK | 0777, .symlink = "a/b", .symlink_len = 3};
	struct meta_attr a;
	char buf[8];
	size_t n;

	mt_open(_i);
	CLEAN(meta_create(mt, R, "l", 1, &in, NOW, &a));
	ck_assert_uint_eq(a.size, 3);
	CLEAN(meta_readlink(mt, a.ino, buf, sizeof(buf), &n));
	ck_assert(n == 3 && memcmp(buf, "a/b", 3) == 0);
	CLEAN(meta_setattr(mt, a.ino, META_SET_UID, &a, 1, &a));
	CLEAN(meta_readlink(mt, a.ino, buf, sizeof(buf), &n));
	ck_assert_uint_eq(n, 3);
	in = (struct meta_new){.mode = S_IFCHR | 0600, .rdev = 0x105};
	CLEAN(meta_create(mt, R, "c", 1, &in, NOW, &a));
	ck_assert_uint_eq(a.rdev, 0x105);
	ck_assert_int_eq(meta_readlink(mt, a.ino, buf, sizeof(buf), &n), -EINVAL);
	CLEAN(mt_unlink(R, "l", NULL));
	mt_reclaim_all();
	mt_close();
}
END_TEST

/* ---- rename ---- */

static const struct {
	const char *from, *to; /* of the tree below */
	unsigned flags;
	int err;
} renames[] = {
	{"d/f", "d/new", 0, 0},
	{"d/f", "e/new", 0, 0},
	{"d/f", "d/g", 0, 0},
	{"d/f", "d/f", 0, 0},
	{"d/none", "d/new", 0, -ENOENT},
	{"d/f", "d/g", RENAME_NOREPLACE, -EEXIST},
	{"d/f", "d/f", RENAME_NOREPLACE, -EEXIST},
	{"d/f", "d/new", RENAME_NOREPLACE, 0},
	{"d/f", "d/new", RENAME_EXCHANGE, -ENOENT},
	{"d/f", "d/g", RENAME_EXCHANGE, 0},
	{"d/f", "e/sub", RENAME_EXCHANGE, 0},
	{"d/f", "e", RENAME_EXCHANGE, 0},
	{"d/f", "d/g", RENAME_EXCHANGE | RENAME_NOREPLACE, -EINVAL},
	{"d/f", "d/new", RENAME_WHITEOUT, -EINVAL},
	{"d/f", "e", 0, -EISDIR},
	{"e", "d/f", 0, -ENOTDIR},
	{"e", "empty", 0, 0},
	{"empty", "e", 0, -ENOTEMPTY},
	{"e", "d/sub", 0, 0},
	{"e", "e/x", 0, -EINVAL},
	{"e", "e/sub/x", 0, -EINVAL},
	{"e", "e/sub", RENAME_EXCHANGE, -EINVAL},
	{"e/sub", "e", RENAME_EXCHANGE, -EINVAL},
	{"e/sub", "e", 0, -ENOTEMPTY},
	{"e/sub", "empty", 0, 0},
	{"e/sub", "empty", RENAME_EXCHANGE, 0},
	{"e/sub", "up", 0, 0},
	{"d/f", "d/.", 0, -EINVAL},
	{"d/..", "d/x", 0, -EINVAL},
	{"lnk", "d/f", 0, 0},
	{"d/f", "d/f2", 0, 0}, /* both names of one file stay */
};

static uint64_t walk(const char *path, const char **ret_name)
{
	const char *slash = strchr(path, '/');
	uint64_t dir = R;

	while (slash) {
		char name[32] = {0};

		memcpy(name, path, (size_t)(slash - path));
		dir = mt_find(dir, name);
		path = slash + 1;
		slash = strchr(path, '/');
	}
	*ret_name = path;
	return dir;
}

static void rename_tree(void)
{
	struct meta_attr a;
	uint64_t d = mt_make(R, "d", D), e = mt_make(R, "e", D), f = mt_make(d, "f", F);

	mt_make(d, "g", F);
	CLEAN(meta_link(mt, f, d, "f2", 2, NOW, &a));
	mt_make(e, "sub", D);
	mt_make(R, "empty", D);
	mt_make(R, "lnk", S_IFLNK | 0777);
}

START_TEST(rename_is_as_posix_and_linux_say)
{
	unsigned i = (unsigned)_i / 2;
	const char *from, *to;
	uint64_t fd, td, fino, tino;

	mt_open(_i % 2);
	rename_tree();
	fd = walk(renames[i].from, &from);
	td = walk(renames[i].to, &to);
	fino = *from == '.' ? 0 : mt_find(fd, from);
	tino = *to == '.' ? 0 : mt_find(td, to);
	ck_assert_int_eq(mt_rename(fd, from, td, to, renames[i].flags), renames[i].err);
	if (renames[i].err || fino == tino) {
		ck_assert(*from == '.' || mt_find(fd, from) == fino);
		ck_assert(*to == '.' || mt_find(td, to) == tino);
	} else {
		ck_assert_uint_eq(mt_find(td, to), fino);
		ck_assert_uint_eq(mt_find(fd, from), renames[i].flags & RENAME_EXCHANGE ? tino : 0);
		ck_assert_int_eq(mt_attr(fino).ctime, NOW + 2);
		ck_assert_uint_eq(mt_attr(fino).parent, td);
	}
	mt_close(); /* counts every link */
}
END_TEST

START_TEST(a_removed_directory_takes_nothing)
{
	uint64_t d, gone;

	mt_open(_i);
	d = mt_make(R, "d", D);
	gone = mt_make(R, "gone", D);
	mt_make(d, "f", F);
	CLEAN(mt_rmdir(R, "gone"));
	ck_assert_int_eq(mt_rename(d, "f", gone, "f", 0), -ENOENT);
	ck_assert_int_eq(mt_rename(gone, "f", d, "g", 0), -ENOENT);
	struct meta_attr a;

	ck_assert_int_eq(meta_link(mt, mt_find(d, "f"), gone, "f", 1, NOW, &a), -ENOENT);
	mt_close();
}
END_TEST

/* ---- colliding hashes ---- */

START_TEST(names_of_one_hash_are_kept_apart)
{
	char name[16];

	dentry_hash_mask = 0;
	mt_open(_i);
	for (unsigned i = 0; i < 256; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		mt_make(R, name, F);
	}
	ck_assert_int_eq(mt_try_make(R, "one more", F), -ENOSPC);
	for (unsigned i = 0; i < 256; i += 2) {
		snprintf(name, sizeof(name), "n%u", i);
		CLEAN(mt_unlink(R, name, NULL));
	}
	for (unsigned i = 0; i < 256; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		ck_assert_int_eq(mt_find(R, name) != 0, i & 1);
	}
	mt_make(R, "one more", F);
	CLEAN(mt_rename(R, "n1", R, "n0", 0));
	CLEAN(mt_rename(R, "n3", R, "n5", 0));
	ck_assert_uint_eq(mt_find(R, "n3"), 0);
	mt_reclaim_all();
	mt_close();
}
END_TEST

/* ---- listing ---- */

struct listing {
	unsigned seen[600], n, stop_after;
	uint64_t last;
	bool dot, dotdot;
};

static int list_one(void *arg, const struct meta_dirent *e)
{
	struct listing *l = arg;
	char name[TESS_NAME_MAX + 1] = {0};
	unsigned i;

	memcpy(name, e->name, e->nlen);
	ck_assert_uint_gt(e->cookie, l->last);
	l->last = e->cookie;
	if (e->nlen == 1 && *e->name == '.')
		l->dot = true;
	else if (e->nlen == 2 && e->name[0] == '.' && e->name[1] == '.')
		l->dotdot = true;
	else if (sscanf(name, "k%u", &i) == 1)
		l->seen[i]++;
	return ++l->n % l->stop_after == 0;
}

START_TEST(what_stays_is_listed_exactly_once)
{
	static struct listing l;
	char name[16];
	unsigned before;
	uint64_t d;

	if (_i >= 2)
		dentry_hash_mask = UINT64_C(15) << 60; /* many in one hash */
	mt_open(_i % 2);
	d = mt_make(R, "d", D);
	for (unsigned i = 0; i < 600; i++) {
		snprintf(name, sizeof(name), "k%u", i);
		mt_make(d, name, F);
	}
	l.stop_after = 7;
	do {
		before = l.n;
		CLEAN(meta_readdir(mt, d, l.last, l.n & 1, list_one, &l));
		/* Names of other kinds come and go between the replies, and some of the listed go.
		 */
		for (unsigned i = 0; i < 3; i++) {
			snprintf(name, sizeof(name), "x%u", (unsigned)mt_rnd(50));
			if (mt_try_make(d, name, F) == -EEXIST)
				CLEAN(mt_unlink(d, name, NULL));
		}
	} while (l.n != before);
	ck_assert(l.dot && l.dotdot);
	for (unsigned i = 0; i < 600; i++)
		ck_assert_uint_eq(l.seen[i], 1);
	mt_close();
}
END_TEST

START_TEST(paths_lead_there_and_back)
{
	struct meta_attr a;
	char path[64];
	uint64_t d, f;

	mt_open(_i);
	d = mt_make(R, "dir", D);
	f = mt_make(d, "file", F);
	CLEAN(meta_path(mt, f, path, sizeof(path)));
	ck_assert_str_eq(path, "/dir/file");
	CLEAN(meta_path(mt, R, path, sizeof(path)));
	ck_assert_str_eq(path, "/");
	ck_assert_int_eq(meta_path(mt, f, path, 6), -ERANGE);
	CLEAN(meta_resolve(mt, "//dir/./../dir/file", &a));
	ck_assert_uint_eq(a.ino, f);
	ck_assert_int_eq(meta_resolve(mt, "dir/none", &a), -ENOENT);
	ck_assert_int_eq(meta_resolve(mt, "dir/file/x", &a), -ENOTDIR);
	CLEAN(mt_unlink(d, "file", NULL));
	ck_assert_int_eq(meta_path(mt, f, path, sizeof(path)), -ENOENT);
	mt_close();
}
END_TEST

/* ---- random, threads, failures ---- */

static void random_name(char ret[4])
{
	snprintf(ret, 4, "%c", (char)('a' + (char)mt_rnd(6)));
}

static void random_op(uint64_t dirs[8])
{
	char a[4], b[4];
	uint64_t d = dirs[mt_rnd(8)], e = dirs[mt_rnd(8)];
	struct meta_attr attr;
	static const unsigned flags[] = {0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};

	random_name(a);
	random_name(b);
	switch (mt_rnd(7)) {
	case 0:
		(void)mt_try_make(d, a, F);
		break;
	case 1:
		if (mt_try_make(d, a, D) == 0)
			dirs[mt_rnd(7) + 1] = mt_find(d, a);
		break;
	case 2:
		(void)mt_unlink(d, a, NULL);
		break;
	case 3:
		(void)mt_rmdir(d, a);
		break;
	case 4:
		if (meta_lookup(mt, d, a, 1, &attr) == 0)
			(void)meta_link(mt, attr.ino, e, b, 1, NOW, &attr);
		break;
	default:
		(void)mt_rename(d, a, e, b, flags[mt_rnd(4)]);
	}
}

START_TEST(random_operations_leave_a_sound_tree)
{
	uint64_t dirs[8];

	mt_open(_i % 2);
	mt_rnd_seed((uint64_t)_i + 1);
	if (_i >= 6)
		meta_relax(mt, 1, 0); /* it is always NOW */
	for (unsigned i = 0; i < 8; i++)
		dirs[i] = R;
	for (unsigned i = 0; i < 3000; i++) {
		random_op(dirs);
		if (i % 300 == 0) {
			mt_reclaim_all();
			ck_assert_int_eq(mt_check(false), 0);
			for (unsigned k = 1; k < 8; k++)
				dirs[k] = R; /* some were reclaimed */
		}
	}
	mt_reclaim_all();
	mt_close();
}
END_TEST

static atomic_uint errors;

static void *name_thread(void *arg)
{
	char name[32];
	uintptr_t self = (uintptr_t)arg;

	for (unsigned i = 0; i < 150; i++) {
		struct meta_new in = {.mode = F};
		struct meta_attr a;
		int n = snprintf(name, sizeof(name), "t%u-%u", (unsigned)self, i % 10);

		if (meta_create(mt, R, name, (size_t)n, &in, NOW, &a) ||
		    meta_lookup(mt, R, name, (size_t)n, &a) ||
		    meta_unlink(mt, R, name, (size_t)n, NOW, NULL))
			atomic_fetch_add(&errors, 1);
	}
	return NULL;
}

START_TEST(threads_do_not_disturb_each_other)
{
	pthread_t th[4];

	mt_open(_i);
	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&th[i], NULL, name_thread, (void *)i), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	ck_assert_uint_eq(atomic_load(&errors), 0);
	mt_reclaim_all();
	mt_close();
}
END_TEST

static const char *const points[] = {"alloc", "kv.put", "kv.get", "kv.seek", "kv.del", "kv.commit"};

/* Each call of a point fails in turn; the tree is sound after each, and works. */
START_TEST(any_failure_leaves_a_sound_tree)
{
	char spec[64];

	mt_open(1);
	for (int n = 1; n < 60; n++) {
		uint64_t d = mt_make(R, "d", D);

		mt_make(d, "f", F);
		snprintf(spec, sizeof(spec), "%s@%d=ENOMEM", points[_i], n);
		CLEAN(fault_set(spec));
		struct meta_rename r = {R, d, "s", "s", 1, 1, 0};
		struct meta_rename q = {d, R, "f", "s2", 1, 2, 0};
		int err = mt_try_make(R, "s", D);

		if (!err)
			err = meta_rename(mt, &r, NOW, NULL);
		if (!err)
			err = meta_rename(mt, &q, NOW, NULL);
		if (!err)
			err = mt_rmdir(d, "s");
		CLEAN(fault_set(NULL));
		ck_assert(err == 0 || err == -ENOMEM);
		ck_assert_int_eq(mt_check(false), 0);
		(void)mt_rmdir(R, "s");
		(void)mt_rmdir(d, "s");
		(void)mt_unlink(d, "f", NULL);
		(void)mt_unlink(R, "s2", NULL);
		CLEAN(mt_rmdir(R, "d"));
		mt_reclaim_all();
		if (!err)
			break;
	}
	mt_close();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("meta_names");
	TCase *c = tcase_create("names");

	suite_add_tcase(s, c);
	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, names_are_found_until_they_go, 0, 2);
	tcase_add_loop_test(c, names_are_any_bytes_up_to_255, 0, 2);
	tcase_add_loop_test(c, directories_count_their_subdirectories, 0, 2);
	tcase_add_loop_test(c, links_share_an_inode, 0, 2);
	tcase_add_loop_test(c, a_temporary_file_may_be_linked, 0, 2);
	tcase_add_loop_test(c, attributes_change_one_by_one, 0, 2);
	tcase_add_loop_test(c, relaxed_times_of_a_directory_are_late_by_no_more_than_told, 0, 2);
	tcase_add_loop_test(c, what_is_marked_as_exact_is_not_relaxed, 0, 2);
	tcase_add_loop_test(c, a_setgid_directory_gives_its_group, 0, 2);
	tcase_add_loop_test(c, symlinks_and_devices_keep_what_they_are, 0, 2);
	tcase_add_loop_test(c, rename_is_as_posix_and_linux_say, 0,
			    2 * (int)(sizeof(renames) / sizeof(renames[0])));
	tcase_add_loop_test(c, a_removed_directory_takes_nothing, 0, 2);
	tcase_add_loop_test(c, names_of_one_hash_are_kept_apart, 0, 2);
	tcase_add_loop_test(c, what_stays_is_listed_exactly_once, 0, 3);
	tcase_add_loop_test(c, paths_lead_there_and_back, 0, 2);
	tcase_add_loop_test(c, random_operations_leave_a_sound_tree, 0, 10);
	tcase_add_loop_test(c, threads_do_not_disturb_each_other, 0, 2);
	tcase_add_loop_test(c, any_failure_leaves_a_sound_tree, 0,
			    (int)(sizeof(points) / sizeof(points[0])));
	return unit_run(s);
}
