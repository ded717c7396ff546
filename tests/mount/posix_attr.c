/* SPDX-License-Identifier: Apache-2.0 */
/* Modes, owners, times, extended attributes. As root where that is what is asked. */
#include "posix.h"

#include <sys/time.h>
#include <sys/xattr.h>

/* Runs fn as another user; fails when it does. */
static void as_user(uid_t uid, void (*fn)(void))
{
	int status;

	if (getuid())
		return;
	fflush(stdout);
	if (fork() == 0) {
		OK(setgid(uid) == 0 && setuid(uid) == 0);
		fn();
		fflush(stdout);
		_exit(posix_bad != 0);
	}
	wait(&status);
	EQ(0, status);
}

static void modes_owners_and_ctime(void)
{
	struct stat a, b;

	posix_put("f", "x");
	a = posix_stat("f");
	usleep(20000);
	OK(chmod("f", 04751) == 0);
	b = posix_stat("f");
	EQ(04751, b.st_mode & 07777);
	OK(memcmp(&a.st_ctim, &b.st_ctim, sizeof(a.st_ctim)));
	OK(!memcmp(&a.st_mtim, &b.st_mtim, sizeof(a.st_mtim)));
	if (getuid() == 0) {
		OK(chown("f", 12345, 23456) == 0);
		b = posix_stat("f");
		EQ(12345, b.st_uid);
		EQ(23456, b.st_gid);
		EQ(0751, b.st_mode & 07777);
		OK(chown("f", (uid_t)-1, 1) == 0);
		EQ(12345, posix_stat("f").st_uid);
	}
}

static void times_to_the_nanosecond(void)
{
	struct timespec ts[2] = { { 1000000001, 123456789 }, { -86400, 987654321 } };
	struct stat a, b;
	int fd;

	posix_put("f", "x");
	OK(utimensat(AT_FDCWD, "f", ts, 0) == 0);
	a = posix_stat("f");
	EQ(1000000001, a.st_atim.tv_sec);
	EQ(123456789, a.st_atim.tv_nsec);
	EQ(-86400, a.st_mtim.tv_sec);
	EQ(987654321, a.st_mtim.tv_nsec);
	ts[0].tv_nsec = UTIME_OMIT;
	ts[1].tv_nsec = UTIME_NOW;
	OK(utimensat(AT_FDCWD, "f", ts, 0) == 0);
	b = posix_stat("f");
	EQ(123456789, b.st_atim.tv_nsec);
	OK(b.st_mtim.tv_sec > 1600000000);
	/* An explicit time wins over that of a write before it that nobody has published yet. */
	fd = open("f", O_WRONLY);
	EQ(1, write(fd, "y", 1));
	ts[0] = ts[1] = (struct timespec){ 5, 6 };
	OK(futimens(fd, ts) == 0);
	OK(close(fd) == 0);
	EQ(5, posix_stat("f").st_mtim.tv_sec);
	EQ(6, posix_stat("f").st_mtim.tv_nsec);
}

static void writes_move_mtime_and_ctime(void)
{
	struct stat a, b;
	int fd;

	posix_put("f", "x");
	a = posix_stat("f");
	usleep(20000);
	fd = open("f", O_WRONLY);
	EQ(1, write(fd, "y", 1));
	OK(fstat(fd, &b) == 0);
	OK(memcmp(&a.st_mtim, &b.st_mtim, sizeof(a.st_mtim)));
	close(fd);
	a = posix_stat("f");
	OK(!memcmp(&a.st_mtim, &b.st_mtim, sizeof(a.st_mtim)));
	usleep(20000);
	OK(truncate("f", 0) == 0);
	b = posix_stat("f");
	OK(memcmp(&a.st_mtim, &b.st_mtim, sizeof(a.st_mtim)));
	OK(memcmp(&a.st_ctim, &b.st_ctim, sizeof(a.st_ctim)));
}

static void user_writes(void)
{
	int fd = open("f", O_WRONLY);

	EQ(1, write(fd, "y", 1));
	OK(close(fd) == 0);
}

static void user_truncates(void)
{
	OK(truncate("f", 0) == 0);
}

static void writes_of_others_clear_suid_and_sgid(void)
{
	if (getuid())
		return;
	posix_put("f", "x");
	OK(chmod("f", 06777) == 0);
	user_writes();
	EQ(06777, posix_stat("f").st_mode & 07777);
	as_user(1000, user_writes);
	EQ(0777, posix_stat("f").st_mode & 07777);
	OK(chmod("f", 06777) == 0);
	as_user(1000, user_truncates);
	EQ(0777, posix_stat("f").st_mode & 07777);
}

static void suid_set_after_a_write_stays(void)
{
	int fd = posix_make("f", "x", 1);

	OK(fchmod(fd, 04755) == 0);
	OK(close(fd) == 0);
	EQ(04755, posix_stat("f").st_mode & 07777);
	usleep(1100000);
	EQ(04755, posix_stat("f").st_mode & 07777);
}

static void setgid_directories_pass_on_their_group(void)
{
	if (getuid())
		return;
	OK(mkdir("d", 0755) == 0 && chown("d", 0, 4321) == 0 && chmod("d", 02755) == 0);
	posix_put("d/f", "x");
	EQ(4321, posix_stat("d/f").st_gid);
	OK(mkdir("d/e", 0755) == 0);
	EQ(4321, posix_stat("d/e").st_gid);
	EQ(02755, posix_stat("d/e").st_mode & 07777);
}

static void user_may_not(void)
{
	FAILS(EACCES, open("private", O_RDONLY));
	FAILS(EACCES, open("dir/x", O_CREAT | O_RDWR, 0644));
	FAILS(EPERM, chmod("private", 0777));
	FAILS(EPERM, chown("private", 1000, 1000));
	FAILS(EPERM, unlink("sticky/f"));
	FAILS(EACCES, unlink("dir/f"));
	FAILS(EPERM, mknod("sticky/c", S_IFCHR | 0644, 0x103));
}

static void permissions_are_checked(void)
{
	posix_put("private", "x");
	OK(chmod("private", 0600) == 0);
	OK(mkdir("dir", 0755) == 0 && mkdir("sticky", 0755) == 0 && chmod("sticky", 01777) == 0);
	posix_put("sticky/f", "x");
	posix_put("dir/f", "x");
	as_user(1000, user_may_not);
}

static void umask_applies(void)
{
	umask(027);
	posix_put("f", "x");
	EQ(0640, posix_stat("f").st_mode & 07777);
	OK(mkdir("d", 0777) == 0);
	EQ(0750, posix_stat("d").st_mode & 07777);
	OK(mkfifo("p", 0666) == 0);
	EQ(0640, posix_stat("p").st_mode & 07777);
}

static void xattrs_of_every_namespace(void)
{
	char buf[128];

	posix_put("f", "x");
	OK(setxattr("f", "user.a", "1", 1, XATTR_CREATE) == 0);
	FAILS(EEXIST, setxattr("f", "user.a", "2", 1, XATTR_CREATE));
	FAILS(ENODATA, setxattr("f", "user.b", "2", 1, XATTR_REPLACE));
	OK(setxattr("f", "user.a", "22", 2, XATTR_REPLACE) == 0);
	EQ(2, getxattr("f", "user.a", NULL, 0));
	EQ(2, getxattr("f", "user.a", buf, sizeof(buf)));
	FAILS(ERANGE, getxattr("f", "user.a", buf, 1));
	FAILS(ENODATA, getxattr("f", "user.none", buf, sizeof(buf)));
	OK(setxattr("f", "user.empty", "", 0, 0) == 0);
	EQ(0, getxattr("f", "user.empty", buf, sizeof(buf)));
	if (getuid() == 0) {
		OK(setxattr("f", "trusted.t", "t", 1, 0) == 0);
		OK(setxattr("f", "security.test", "s", 1, 0) == 0);
		EQ(1, getxattr("f", "trusted.t", buf, sizeof(buf)));
	}
	EQ(getuid() ? 18 : 18 + 10 + 14, listxattr("f", buf, sizeof(buf)));
	FAILS(ERANGE, listxattr("f", buf, 5));
	OK(removexattr("f", "user.a") == 0);
	FAILS(ENODATA, removexattr("f", "user.a"));
	OK(mkdir("d", 0755) == 0 && setxattr("d", "user.d", "d", 1, 0) == 0);
	if (getuid() == 0) {
		OK(symlink("none", "l") == 0);
		OK(lsetxattr("l", "trusted.l", "l", 1, 0) == 0);
		FAILS(EPERM, lsetxattr("l", "user.l", "l", 1, 0));
	}
}

static void xattr_limits(void)
{
	static char big[65536 + 1], got[65536];
	char name[300] = "user.";

	posix_put("f", "x");
	memset(big, 'v', sizeof(big));
	OK(setxattr("f", "user.big", big, 65536, 0) == 0);
	EQ(65536, getxattr("f", "user.big", got, sizeof(got)));
	OK(!memcmp(big, got, 65536));
	FAILS(E2BIG, setxattr("f", "user.big", big, 65537, 0));
	memset(name + 5, 'n', 250);
	OK(setxattr("f", name, "x", 1, 0) == 0);
	name[255] = 'n';
	FAILS(ERANGE, setxattr("f", name, "x", 1, 0));
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "user.number.%d", i);
		OK(setxattr("f", name, &i, sizeof(i), 0) == 0);
	}
	for (int i = 0; i < 200; i++) {
		int v = -1;

		snprintf(name, sizeof(name), "user.number.%d", i);
		EQ(sizeof(v), getxattr("f", name, &v, sizeof(v)));
		EQ(i, v);
	}
}

static void writes_clear_capabilities(void)
{
	/* vfs_cap_data version 2 with CAP_NET_RAW */
	static const unsigned char cap[20] = { 1, 0, 0, 2, 0, 0x20 };
	char buf[64];
	int fd;

	if (getuid())
		return;
	posix_put("f", "x");
	OK(setxattr("f", "security.capability", cap, sizeof(cap), 0) == 0);
	EQ(20, getxattr("f", "security.capability", buf, sizeof(buf)));
	fd = open("f", O_WRONLY);
	EQ(1, write(fd, "y", 1));
	FAILS(ENODATA, getxattr("f", "security.capability", buf, sizeof(buf)));
	close(fd);
}

static void views_show_and_set_the_layout(void)
{
	static char buf[65536];
	ssize_t n;

	posix_put("f", "x");
	n = getxattr("f", "tessera.layout", buf, sizeof(buf) - 1);
	OK(n > 0);
	buf[n > 0 ? n : 0] = '\0';
	OK(strstr(buf, "\"class\":\"S1\"") && strstr(buf, "\"size\":1"));
	OK(getxattr("f", "tessera.generation", buf, sizeof(buf)) > 0);
	OK(getxattr("f", "tessera.durability", buf, sizeof(buf)) > 0);
	FAILS(ENODATA, getxattr("f", "tessera.nonsense", buf, sizeof(buf)));
	OK(setxattr("f", "tessera.layout", "segment=64K,mapper=balanced", 27, 0) == 0);
	n = getxattr("f", "tessera.layout", buf, sizeof(buf) - 1);
	buf[n > 0 ? n : 0] = '\0';
	OK(strstr(buf, "\"segment_size\":65536") && strstr(buf, "\"mapper\":\"balanced\""));
	FAILS(EINVAL, setxattr("f", "tessera.layout", "class=S3x", 9, 0));
	EQ(0, listxattr("f", buf, sizeof(buf)));
	OK(mkdir("d", 0755) == 0);
	posix_put("d/a", "12345");
	posix_put("d/b", "67890");
	n = getxattr("d", "tessera.rbytes", buf, sizeof(buf));
	OK(n == 2 && !memcmp(buf, "10", 2));
}

int main(int argc, char **argv)
{
#define C(fn) { #fn, fn }
	static const struct posix_check checks[] = {
		C(modes_owners_and_ctime), C(times_to_the_nanosecond), C(writes_move_mtime_and_ctime),
		C(writes_of_others_clear_suid_and_sgid), C(suid_set_after_a_write_stays),
		C(setgid_directories_pass_on_their_group), C(permissions_are_checked), C(umask_applies),
		C(xattrs_of_every_namespace), C(xattr_limits), C(writes_clear_capabilities),
		C(views_show_and_set_the_layout),
		{ NULL, NULL },
	};

	return posix_main(argc, argv, checks);
}
