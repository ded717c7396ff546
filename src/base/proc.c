/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc.h"

#include "base/scoped.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Field 22, after the name in parentheses, which may hold anything. A zombie's threads may live on. */
int proc_look(uint32_t pid, uint64_t *ret_start, char *ret_state)
{
	char path[32], buf[1024];
	unsigned long long start;
	char state;
	long threads;

	(void)snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return kill((pid_t)pid, 0) < 0 && errno == ESRCH ? -ESRCH : -EACCES;
	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, buf, sizeof(buf) - 1);

	if (n <= 0)
		return n < 0 ? -errno : -EIO;
	buf[n] = 0;
	const char *s = strrchr(buf, ')');

	if (!s || sscanf(s + 1,
			 " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
			 "%*d %ld %*d %llu",
			 &state, &threads, &start) != 3)
		return -EIO;
	if ((state == 'Z' || state == 'X') && threads <= 1)
		return -ESRCH;
	*ret_start = start;
	*ret_state = state;
	return 0;
}

int proc_start(uint32_t pid, uint64_t *ret)
{
	char state;

	return proc_look(pid, ret, &state);
}
