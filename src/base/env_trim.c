/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives mapped pages of the environment back. They are the page cache's, but a site that watches its
 * daemons by resident set, and a cgroup that charges the first to touch a page, count them as ours.
 * LMDB maps the file read-only here (no WRITEMAP), so a page that goes is a minor fault away.
 */
#include "base/env_impl.h"
#include "base/scoped.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ENV_TRIM_BYTES (UINT64_C(8) << 20) /* of file pages, the program's own 3 MiB included */

/* The third field: resident pages that a file is behind. */
static uint64_t trim_resident(const struct env *e)
{
	scoped_file FILE *f = fopen("/proc/self/statm", "re");
	unsigned long size, resident, shared;

	if (!f || fscanf(f, "%lu %lu %lu", &size, &resident, &shared) != 3)
		return 0;
	return (uint64_t)shared * e->psize;
}

/* LMDB tells no address: the kernel does, by the file's inode and name (the device it
 * shows is not stat's on some file systems). Shared and read-only, or it is not LMDB's. */
static void trim_mappings(const struct env *e)
{
	scoped_file FILE *f = fopen("/proc/self/maps", "re");
	unsigned long from, to, ino;
	char line[4200];
	struct stat st;

	if (!f || fstat(e->data_fd, &st) < 0)
		return;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx r--s %*x %*x:%*x %lu", &from, &to, &ino) == 3 &&
		    ino == st.st_ino && strstr(line, "/data.mdb"))
			(void)madvise((void *)from, to - from, MADV_DONTNEED);
}

void env_trim(struct env *e)
{
	if (trim_resident(e) <= ENV_TRIM_BYTES)
		return;
	/* The map moves only in its writer's turn. */
	pthread_mutex_lock(&e->writer);
	trim_mappings(e);
	pthread_mutex_unlock(&e->writer);
}
