/* SPDX-License-Identifier: Apache-2.0 */
/* Names: links, rename, removal, listings. */
#include "posix.h"

#include <dirent.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

static int rename2(const char *from, const char *to, unsigned flags)
{
	return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}

static void hard_links_share_everything(void)
{
	posix_put("a", "one");
	OK(link("a", "b") == 0);
	EQ(2, posix_stat("a").st_nlink);
	EQ(posix_stat("a").st_ino, posix_stat("b").st_ino);
	posix_put("b", "two");
	OK(posix_holds("a", "two"));
	OK(unlink("a") == 0);
	EQ(1, posix_stat("b").st_nlink);
	OK(posix_holds("b", "two"));
	FAILS(EPERM, link(".", "d"));
	FAILS(EEXIST, link("b", "b"));
}

static void rename_replaces_at_once(void)
{
	posix_put("old", "old");
	posix_put("new", "new");
	OK(rename("new", "old") == 0);
	OK(posix_holds("old", "new"));
	FAILS(ENOENT, access("new", F_OK));
	OK(mkdir("d", 0755) == 0 && mkdir("e", 0755) == 0);
	FAILS(EISDIR, rename("old", "d"));
	FAILS(ENOTDIR, rename("d", "old"));
	posix_put("e/x", "x");
	OK(rename("d", "e") < 0 && (errno == ENOTEMPTY || errno == EEXIST));
	OK(unlink("e/x") == 0);
	OK(rename("d", "e") == 0);
	FAILS(EINVAL, rename("e", "e/f"));
	OK(rename("e", "e") == 0);
}

static void rename_between_directories_moves_dotdot(void)
{
	struct stat a, b;

	OK(mkdir("p", 0755) == 0 && mkdir("q", 0755) == 0 && mkdir("p/s", 0755) == 0);
	EQ(3, posix_stat("p").st_nlink);
	OK(rename("p/s", "q/t") == 0);
	EQ(2, posix_stat("p").st_nlink);
	EQ(3, posix_stat("q").st_nlink);
	OK(stat("q/t/..", &a) == 0 && stat("q", &b) == 0);
	EQ(b.st_ino, a.st_ino);
}

static void rename_of_one_link_onto_another_does_nothing(void)
{
	posix_put("a", "x");
	OK(link("a", "b") == 0);
	OK(rename("a", "b") == 0);
	OK(access("a", F_OK) == 0 && access("b", F_OK) == 0);
	EQ(2, posix_stat("a").st_nlink);
}

static void rename_noreplace_and_exchange(void)
{
	posix_put("a", "a");
	posix_put("b", "b");
	FAILS(EEXIST, rename2("a", "b", RENAME_NOREPLACE));
	OK(rename2("a", "c", RENAME_NOREPLACE) == 0);
	OK(rename2("c", "b", RENAME_EXCHANGE) == 0);
	OK(posix_holds("c", "b") && posix_holds("b", "a"));
	OK(mkdir("d", 0755) == 0);
	posix_put("d/in", "in");
	OK(rename2("d", "b", RENAME_EXCHANGE) == 0);
	OK(posix_holds("b/in", "in") && posix_holds("d", "a"));
	FAILS(ENOENT, rename2("b", "none", RENAME_EXCHANGE));
}

static void rename_over_open_file_keeps_it_readable(void)
{
	char buf[8] = "";
	int fd;

	posix_put("old", "old");
	posix_put("new", "new");
	fd = open("old", O_RDONLY);
	OK(rename("new", "old") == 0);
	EQ(3, read(fd, buf, sizeof(buf)));
	OK(!memcmp(buf, "old", 3));
	close(fd);
}

static void unlinked_open_file_lives_until_closed(void)
{
	char buf[16] = "";
	struct stat st;
	int fd = posix_make("f", "hello", 5);

	OK(unlink("f") == 0);
	FAILS(ENOENT, access("f", F_OK));
	OK(fstat(fd, &st) == 0);
	EQ(0, st.st_nlink);
	EQ(5, pwrite(fd, "world", 5, 5));
	EQ(10, pread(fd, buf, sizeof(buf), 0));
	OK(!memcmp(buf, "helloworld", 10));
	OK(fstat(fd, &st) == 0);
	EQ(10, st.st_size);
	OK(fchmod(fd, 0600) == 0);
	OK(ftruncate(fd, 3) == 0);
	OK(fstat(fd, &st) == 0);
	EQ(3, st.st_size);
	OK(fsync(fd) == 0);
	OK(close(fd) == 0);
}

/* Where libfuse passes O_TMPFILE on (3.17). */
static void nameless_files_can_get_a_name(void)
{
	int fd = open(".", O_TMPFILE | O_RDWR, 0640);
	char proc[64];
	struct stat st;

	if (fd < 0) {
		EQ(EOPNOTSUPP, errno);
		return;
	}
	OK(fstat(fd, &st) == 0);
	EQ(0, st.st_nlink);
	EQ(0640, st.st_mode & 07777);
	EQ(5, write(fd, "hello", 5));
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	OK(linkat(AT_FDCWD, proc, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0);
	OK(close(fd) == 0);
	OK(posix_holds("named", "hello"));
	EQ(1, posix_stat("named").st_nlink);
	fd = open(".", O_TMPFILE | O_RDWR, 0600);
	EQ(5, write(fd, "never", 5));
	OK(close(fd) == 0);
}

static void removed_directory_can_still_be_asked(void)
{
	struct stat st;
	int fd;

	OK(mkdir("d", 0755) == 0);
	fd = open("d", O_RDONLY | O_DIRECTORY);
	OK(rmdir("d") == 0);
	OK(fstat(fd, &st) == 0);
	EQ(0, st.st_nlink);
	FAILS(ENOENT, openat(fd, "x", O_CREAT | O_RDWR, 0644));
	close(fd);
	posix_put("f", "x");
	fd = open("f", O_PATH);
	OK(unlink("f") == 0);
	OK(fstat(fd, &st) == 0);
	EQ(0, st.st_nlink);
	close(fd);
}

static void directories_refuse_what_they_must(void)
{
	OK(mkdir("d", 0755) == 0);
	posix_put("d/f", "x");
	OK(rmdir("d") < 0 && (errno == ENOTEMPTY || errno == EEXIST));
	FAILS(EISDIR, unlink("d"));
	FAILS(ENOTDIR, rmdir("d/f"));
	FAILS(EEXIST, mkdir("d", 0755));
	FAILS(ENOTDIR, open("d/f/x", O_RDONLY));
	FAILS(EISDIR, open("d", O_RDWR));
	FAILS(EINVAL, rmdir("d/."));
	FAILS(EEXIST, open("d/f", O_CREAT | O_EXCL | O_RDWR, 0644));
	FAILS(EEXIST, symlink("x", "d/f"));
	FAILS(EEXIST, mknod("d/f", S_IFIFO | 0644, 0));
}

static void symbolic_links(void)
{
	char target[4097], buf[4200];
	struct stat st;

	OK(symlink("f", "l") == 0);
	FAILS(ENOENT, open("l", O_RDONLY));
	posix_put("f", "x");
	OK(posix_holds("l", "x"));
	EQ(1, readlink("l", buf, sizeof(buf)));
	st = posix_stat("l");
	OK(S_ISLNK(st.st_mode));
	EQ(1, st.st_size);
	memset(target, 'y', 4095);
	target[4095] = '\0';
	OK(symlink(target, "long") == 0);
	EQ(4095, readlink("long", buf, sizeof(buf)));
	OK(!memcmp(buf, target, 4095));
	OK(symlink("loop", "loop") == 0);
	FAILS(ELOOP, open("loop", O_RDONLY));
	FAILS(ELOOP, open("l", O_RDONLY | O_NOFOLLOW));
	OK(link("l", "m") == 0);
	EQ(2, posix_stat("l").st_nlink);
	OK(lchown("l", 1, 2) == 0 || getuid());
}

static void special_files(void)
{
	struct stat st;

	OK(mkfifo("p", 0640) == 0);
	st = posix_stat("p");
	OK(S_ISFIFO(st.st_mode) && (st.st_mode & 07777) == 0640);
	OK(mknod("s", S_IFSOCK | 0600, 0) == 0);
	OK(S_ISSOCK(posix_stat("s").st_mode));
	if (getuid() == 0) {
		OK(mknod("c", S_IFCHR | 0600, makedev(1, 3)) == 0);
		st = posix_stat("c");
		OK(S_ISCHR(st.st_mode));
		EQ(makedev(1, 3), st.st_rdev);
		OK(mknod("b", S_IFBLK | 0600, makedev(259, 70000)) == 0);
		EQ(makedev(259, 70000), posix_stat("b").st_rdev);
	}
	OK(mknod("r", S_IFREG | 0600, 0) == 0);
	OK(S_ISREG(posix_stat("r").st_mode));
	if (fork() == 0) {
		int fd = open("p", O_WRONLY);

		_exit(write(fd, "z", 1) != 1);
	}
	OK(posix_holds("p", "z"));
	wait(NULL);
}

static void names_are_bytes_up_to_255(void)
{
	char name[300];

	memset(name, 'n', 256);
	name[255] = '\0';
	posix_put(name, "x");
	OK(posix_holds(name, "x"));
	name[255] = 'n';
	name[256] = '\0';
	FAILS(ENAMETOOLONG, open(name, O_CREAT | O_RDWR, 0644));
	FAILS(ENAMETOOLONG, mkdir(name, 0755));
	posix_put("x", "x");
	FAILS(ENAMETOOLONG, rename("x", name));
	for (int c = 1; c < 256; c++) {
		name[0] = 'c';
		name[1] = (char)c;
		name[2] = '\0';
		if (c == '/')
			continue;
		OK(mkdir(name, 0755) == 0);
	}
	for (int c = 1; c < 256; c++) {
		name[1] = (char)c;
		if (c != '/')
			OK(rmdir(name) == 0);
	}
}

/* Counts the entries, and how often each of f0 … f<n-1> came. */
static unsigned list(DIR *d, unsigned *seen, unsigned n)
{
	unsigned total = 0;
	struct dirent *e;

	rewinddir(d);
	while ((e = readdir(d))) {
		unsigned i;

		total++;
		if (sscanf(e->d_name, "f%u", &i) == 1 && i < n && e->d_name[0] == 'f')
			seen[i]++;
	}
	return total;
}

static void listing_is_complete_and_has_types(void)
{
	enum { N = 3000 };
	static unsigned seen[N];
	char name[32];
	struct dirent *e;
	bool dot = false, dotdot = false;
	DIR *d;

	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		OK(mknod(name, S_IFREG | 0644, 0) == 0);
	}
	OK(mkdir("dir", 0755) == 0 && symlink("x", "sym") == 0);
	d = opendir(".");
	EQ(N + 4, list(d, seen, N));
	for (int i = 0; i < N; i++)
		EQ(1, seen[i]);
	rewinddir(d);
	while ((e = readdir(d))) {
		dot |= !strcmp(e->d_name, ".");
		dotdot |= !strcmp(e->d_name, "..");
		if (!strcmp(e->d_name, "dir"))
			EQ(DT_DIR, e->d_type);
		if (!strcmp(e->d_name, "sym"))
			EQ(DT_LNK, e->d_type);
		if (e->d_name[0] == 'f')
			EQ(DT_REG, e->d_type);
	}
	OK(dot && dotdot);
	closedir(d);
}

static void listing_resumes_where_it_was(void)
{
	char name[32], after[300] = "";
	struct dirent *e;
	long at = 0;
	DIR *d;
	int n = 0;

	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		OK(mknod(name, S_IFREG | 0644, 0) == 0);
	}
	d = opendir(".");
	while ((e = readdir(d))) {
		if (++n == 200) {
			at = telldir(d);
			e = readdir(d);
			snprintf(after, sizeof(after), "%s", e->d_name);
			break;
		}
	}
	closedir(d);
	/* Another handle, and entries before it gone: the cookie still means the same place. */
	for (int i = 0; i < 500; i += 2) {
		snprintf(name, sizeof(name), "f%d", i);
		if (strcmp(name, after))
			OK(unlink(name) == 0);
	}
	d = opendir(".");
	seekdir(d, at);
	e = readdir(d);
	OK(e && !strcmp(e->d_name, after));
	closedir(d);
}

static _Atomic bool churn_stop;
static void *churn(void *arg)
{
	(void)arg;
	for (unsigned i = 0; !churn_stop; i++) {
		char name[32];

		snprintf(name, sizeof(name), "t%u", i % 97);
		if (mknod(name, S_IFREG | 0644, 0) < 0)
			unlink(name);
	}
	return NULL;
}

static void listing_under_change_misses_and_repeats_nothing(void)
{
	enum { N = 1000 };
	pthread_t t;
	char name[32];

	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		OK(mknod(name, S_IFREG | 0644, 0) == 0);
	}
	pthread_create(&t, NULL, churn, NULL);
	for (int round = 0; round < 20; round++) {
		static unsigned seen[N];
		DIR *d = opendir(".");

		memset(seen, 0, sizeof(seen));
		list(d, seen, N);
		closedir(d);
		for (int i = 0; i < N; i++)
			if (seen[i] != 1) {
				EQ(1, seen[i]);
				break;
			}
	}
	churn_stop = true;
	pthread_join(t, NULL);
}

static void removing_while_listing_removes_all(void)
{
	char name[32];
	struct dirent *e;
	DIR *d;

	OK(mkdir("d", 0755) == 0);
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "d/f%d", i);
		OK(mknod(name, S_IFREG | 0644, 0) == 0);
	}
	d = opendir("d");
	while ((e = readdir(d)))
		if (e->d_name[0] == 'f')
			OK(unlinkat(dirfd(d), e->d_name, 0) == 0);
	closedir(d);
	OK(rmdir("d") == 0);
}

static void changes_move_the_times_of_directories(void)
{
	struct stat a, b;

	OK(mkdir("d", 0755) == 0);
	a = posix_stat("d");
	usleep(20000);
	posix_put("d/x", "x");
	b = posix_stat("d");
	OK(b.st_mtim.tv_sec > a.st_mtim.tv_sec || b.st_mtim.tv_nsec != a.st_mtim.tv_nsec);
	a = posix_stat("d/x");
	usleep(20000);
	OK(rename("d/x", "d/y") == 0);
	b = posix_stat("d/y");
	OK(memcmp(&a.st_ctim, &b.st_ctim, sizeof(a.st_ctim)));
	OK(!memcmp(&a.st_mtim, &b.st_mtim, sizeof(a.st_mtim)));
}

int main(int argc, char **argv)
{
#define C(fn) { #fn, fn }
	static const struct posix_check checks[] = {
		C(hard_links_share_everything), C(rename_replaces_at_once),
		C(rename_between_directories_moves_dotdot),
		C(rename_of_one_link_onto_another_does_nothing), C(rename_noreplace_and_exchange),
		C(rename_over_open_file_keeps_it_readable), C(unlinked_open_file_lives_until_closed),
		C(nameless_files_can_get_a_name), C(removed_directory_can_still_be_asked),
		C(directories_refuse_what_they_must),
		C(symbolic_links), C(special_files), C(names_are_bytes_up_to_255),
		C(listing_is_complete_and_has_types), C(listing_resumes_where_it_was),
		C(listing_under_change_misses_and_repeats_nothing),
		C(removing_while_listing_removes_all), C(changes_move_the_times_of_directories),
		{ NULL, NULL },
	};

	return posix_main(argc, argv, checks);
}
