/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfuse before 3.17 cannot ask for FUSE_HANDLE_KILLPRIV_V2. Without it the kernel asks for
 * security.capability before every write(2): a second round trip that doubles the cost of small
 * writes. So the flag is added to the one INIT reply on its way out, through libfuse's own
 * interface for custom I/O. What the flag demands, clearing suid, sgid and capabilities, is done in
 * fs/.
 */
#include "fuse/daemon.h"

#if DAEMON_HAS_KILLPRIV
int raw_hook(struct fuse_session *se)
{
	(void)se;
	return 0;
}
#else
#include <linux/fuse.h>
#include <unistd.h>

#ifndef FUSE_HANDLE_KILLPRIV_V2
#define FUSE_HANDLE_KILLPRIV_V2 (1u << 28)
#endif

/* The kernel sends nothing before INIT is answered, so the first two of these are read by one
 * thread. */
static uint64_t raw_init_unique;
static atomic_bool raw_init_done;

static ssize_t raw_read(int fd, void *buf, size_t len, void *userdata)
{
	ssize_t n = read(fd, buf, len);
	const struct fuse_in_header *in = buf;

	(void)userdata;
	if (atomic_load_explicit(&raw_init_done, memory_order_relaxed) || n < (ssize_t)sizeof(*in))
		return n;
	if (in->opcode == FUSE_INIT) {
		const struct fuse_init_in *init = (const struct fuse_init_in *)(in + 1);

		if (init->flags & FUSE_HANDLE_KILLPRIV_V2)
			raw_init_unique = in->unique;
	} else {
		atomic_store(&raw_init_done, true);
	}
	return n;
}

static ssize_t raw_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	const struct fuse_out_header *out = iov[0].iov_base;

	(void)userdata;
	if (!atomic_load_explicit(&raw_init_done, memory_order_relaxed) && raw_init_unique &&
	    out->unique == raw_init_unique && out->error == 0 && count > 1 &&
	    iov[1].iov_len >= offsetof(struct fuse_init_out, flags) + sizeof(uint32_t)) {
		struct fuse_init_out *init = iov[1].iov_base;

		init->flags |= FUSE_HANDLE_KILLPRIV_V2;
	}
	return writev(fd, iov, count);
}

int raw_hook(struct fuse_session *se)
{
	static const struct fuse_custom_io io = {.writev = raw_writev, .read = raw_read};

	raw_init_unique = 0;
	atomic_store(&raw_init_done, false);
	return fuse_session_custom_io(se, &io, fuse_session_fd(se));
}
#endif
