/* SPDX-License-Identifier: Apache-2.0 */
#include "base/words.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "base/text.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static int words_map(const char *path, size_t len, void **ret)
{
	scoped_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	struct stat st;
	int err;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	/* Only once: where the C library does it by hand it would write beside who has them mapped. */
	err = st.st_size < (off_t)len ? posix_fallocate(fd, 0, (off_t)len) : 0;
	if (err)
		return -err;
	*ret = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return *ret == MAP_FAILED ? -errno : 0;
}

int words_open(shared_word **ret, const char *dir, const char *name, uint32_t n, struct text *why)
{
	scoped_free char *path = mem_printf("%s/%s", dir, name);
	void *p = NULL;
	int err = path ? fault_point("words.open") : -ENOMEM;

	if (!err)
		err = words_map(path, n * sizeof(shared_word), &p);
	if (!err)
		*ret = p;
	else if (why)
		text_fmt(why, "%s/%s: %s", dir, name, strerror(-err));
	return err;
}

void words_close(shared_word *w, uint32_t n)
{
	if (w)
		(void)munmap((void *)w, n * sizeof(*w));
}
