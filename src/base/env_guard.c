/* SPDX-License-Identifier: Apache-2.0 */
/* Who may open an environment: not over a network, one host, one PID namespace; and did the host
 * crash. */
#include "base/env_impl.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/scoped.h"
#include "base/text.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The kernel's <linux/magic.h> has not all of them. */
static const struct {
	uint32_t type;
	const char *name;
} netfs[] = {
	{0x6969, "nfs"},	  {0x517b, "smb"},	  {0xff534d42, "cifs"},
	{0xfe534d42, "smb2"},	  {0x65735546, "fuse"},	  {0x00c36400, "ceph"},
	{0x0bd00bd0, "lustre"},	  {0x47504653, "gpfs"},	  {0x5346414f, "afs"},
	{0x6b414653, "afs"},	  {0x73757245, "coda"},	  {0x01021997, "9p"},
	{0x564c, "ncp"},	  {0x19830326, "beegfs"}, {0xaad7aaea, "panfs"},
	{0x20030528, "orangefs"}, {0xbacbacbc, "vmhgfs"}, {0x786f4256, "vboxsf"},
};

int env_guard_fs(const char *dir, struct text *why)
{
	struct statfs st;
	struct stat sb;

	if (stat(dir, &sb) < 0 || statfs(dir, &st) < 0) {
		int err = -errno;

		if (why)
			text_fmt(why, "%s: %s", dir, strerror(errno));
		return err;
	}
	if (!S_ISDIR(sb.st_mode)) {
		if (why)
			text_fmt(why, "%s is not a directory", dir);
		return -ENOTDIR;
	}
	for (size_t i = 0; i < ARRAY_SIZE(netfs); i++) {
		if ((uint32_t)st.f_type != netfs[i].type)
			continue;
		if (why)
			text_fmt(why,
				 "%s is on a network or FUSE file system (%s); metadata needs a "
				 "local one",
				 dir, netfs[i].name);
		return -TESS_E_NETFS;
	}
	return 0;
}

int env_boot_id(char *ret, size_t cap)
{
	scoped_fd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, cap - 1);

	if (n < 36)
		return -EIO;
	ret[36] = 0;
	return 0;
}

static void env_guard_sign(struct env *e)
{
	struct env_shared *s = e->shared;
	struct stat st;

	memset(s, 0, sizeof(*s));
	if (stat("/proc/self/ns/pid", &st) == 0)
		s->pidns = st.st_ino;
	memcpy(s->boot, e->boot, sizeof(s->boot));
	(void)gethostname(s->host, sizeof(s->host) - 1);
}

static int env_guard_same(const struct env *e, struct text *why)
{
	const struct env_shared *s = e->shared;
	struct stat st;

	if (strncmp(s->boot, e->boot, sizeof(s->boot)) != 0) {
		if (why)
			text_fmt(why, "%s is in use on another host (%.71s)", e->dir, s->host);
		return -TESS_E_OTHER_HOST;
	}
	if (s->pidns && stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != s->pidns) {
		if (why)
			text_fmt(why,
				 "%s is in use in another PID namespace (a container?) of this "
				 "host; stop it there or use it there",
				 e->dir);
		return -TESS_E_OTHER_PIDNS;
	}
	return 0;
}

/*
 * The first opener holds `users` exclusively until it is done; the others wait for it. A record
 * left by processes that are gone is seen with nobody holding the lock, and so is overwritten, not
 * believed.
 */
int env_guard_enter(struct env *e, bool *ret_alone, struct text *why)
{
	int err;

	e->users_fd = openat(AT_FDCWD, e->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (e->users_fd < 0)
		return -errno;
	scoped_fd int dirfd = steal_fd(e->users_fd);

	e->users_fd = openat(dirfd, "users", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	e->opened_fd = openat(dirfd, "opened", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (e->users_fd < 0 || e->opened_fd < 0 || ftruncate(e->users_fd, ENV_SLOT_BYTES) < 0) {
		err = -errno;
		if (why)
			text_fmt(why, "%s: %s", e->dir, strerror(-err));
		return err;
	}
	void *p = mmap(NULL, ENV_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, e->users_fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	e->shared = p;
	for (;;) {
		if (flock(e->users_fd, LOCK_EX | LOCK_NB) == 0) {
			env_guard_sign(e);
			*ret_alone = true;
			return 0;
		}
		while (flock(e->users_fd, LOCK_SH) < 0)
			if (errno != EINTR)
				return -errno;
		err = env_guard_same(e, NULL);
		if (!err) {
			*ret_alone = false;
			return 0;
		}
		/* Does anybody hold it still? Failing gives up our share, which is what we want
		 * then. */
		if (flock(e->users_fd, LOCK_EX | LOCK_NB) < 0)
			return env_guard_same(e, why);
		(void)flock(e->users_fd, LOCK_UN);
	}
}

void env_guard_settle(struct env *e)
{
	while (flock(e->users_fd, LOCK_SH) < 0 && errno == EINTR)
		;
}

/* Two that close at once: each gave up its share before asking, so one of them gets the lock. */
bool env_guard_last(struct env *e)
{
	return flock(e->users_fd, LOCK_EX | LOCK_NB) == 0;
}

/* ---- the marker: one sector of text, so that a write of it is whole or absent ---- */

#define MARKER_BYTES 512u

int env_marker_read(struct env *e, bool *ret_crashed)
{
	char m[MARKER_BYTES + 1];
	ssize_t n = pread(e->opened_fd, m, MARKER_BYTES, 0);
	char boot[ENV_BOOT_MAX], state[8];
	unsigned crc;

	if (n < 0)
		return -errno;
	*ret_crashed = n > 0; /* what cannot be read was being written when the power went */
	if (n == 0)
		return 0;
	m[n] = 0;
	if (sscanf(m, "env 1\nboot %39s\nstate %7s\ncrc %8x\n", boot, state, &crc) != 3)
		return 0;
	const char *tail = strstr(m, "crc ");

	if (!tail || crc32c(0, m, (size_t)(tail - m)) != crc)
		return 0;
	*ret_crashed = strcmp(state, "clean") != 0 && strcmp(boot, e->boot) != 0;
	return 0;
}

/* "open" must be on disk before the first commit; a "clean" that gets lost only costs a restore. */
int env_marker_write(struct env *e, bool clean)
{
	char m[MARKER_BYTES] = {0}, old[MARKER_BYTES] = {0};
	int n = snprintf(m, sizeof(m), "env 1\nboot %s\nstate %s\n", e->boot,
			 clean ? "clean" : "open");

	(void)snprintf(m + n, sizeof(m) - (size_t)n, "crc %08x\n", crc32c(0, m, (size_t)n));
	if (pread(e->opened_fd, old, sizeof(old), 0) == sizeof(old) &&
	    memcmp(m, old, sizeof(m)) == 0)
		return 0;
	ssize_t w = pwrite(e->opened_fd, m, sizeof(m), 0);

	if (w != (ssize_t)sizeof(m))
		return w < 0 ? -errno : -ENOSPC;
	return !clean && fsync(e->opened_fd) < 0 ? -errno : 0;
}
