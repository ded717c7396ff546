/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libfuse before 3.17 cannot ask the kernel for is added to the one INIT reply on its way out,
 * through libfuse's own interface for custom I/O:
 *
 * HANDLE_KILLPRIV_V2: without it the kernel asks for security.capability before every write(2), a
 * second round trip that doubles the cost of small writes. What it demands, clearing suid, sgid and
 * capabilities, is done in fs/.
 * DIRECT_IO_ALLOW_MMAP (Linux 6.6): without it mmap(MAP_SHARED) of a file opened for direct I/O, as the
 * strict and commit modes do, is ENODEV. The fault point "fuse.mmap" makes any kernel such an old one.
 */
#include "fuse/daemon.h"

#include "base/fault.h"

#if DAEMON_HAS_KILLPRIV
int raw_hook(struct fuse_session *se)
{
	(void)se;
	return 0;
}

bool raw_allows_mmap(const struct fuse_conn_info *conn)
{
#ifdef FUSE_CAP_DIRECT_IO_ALLOW_MMAP
	/* fuse_get_feature_flag() says what the kernel is capable of, not what was agreed on. */
	return (conn->want_ext & FUSE_CAP_DIRECT_IO_ALLOW_MMAP) != 0;
#else
	(void)conn;
	return false;
#endif
}
#else
#include <linux/fuse.h>
#include <unistd.h>

#ifndef FUSE_HANDLE_KILLPRIV_V2
#define FUSE_HANDLE_KILLPRIV_V2 (1u << 28)
#endif
#ifndef FUSE_INIT_EXT
#define FUSE_INIT_EXT (1u << 30)
#endif
#define RAW_ALLOW_MMAP (1u << 4) /* FUSE_DIRECT_IO_ALLOW_MMAP >> 32: flags2's */

/* The kernel sends nothing before INIT is answered, so the first two of these are read by one
 * thread. */
static _Atomic uint64_t raw_init_unique; /* the notify thread writes before it is known, too */
static uint32_t raw_flags, raw_flags2; /* of those above, what the kernel offered */
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

		raw_flags = init->flags & (FUSE_HANDLE_KILLPRIV_V2 | FUSE_INIT_EXT);
		raw_flags2 = raw_flags & FUSE_INIT_EXT ? init->flags2 & RAW_ALLOW_MMAP : 0;
		if (fault_point("fuse.mmap"))
			raw_flags2 = 0;
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
	    iov[1].iov_len >= offsetof(struct fuse_init_out, flags2) + sizeof(uint32_t)) {
		struct fuse_init_out *init = iov[1].iov_base;

		init->flags |= raw_flags;
		init->flags2 |= raw_flags2;
	}
	return writev(fd, iov, count);
}

bool raw_allows_mmap(const struct fuse_conn_info *conn)
{
	(void)conn;
	return (raw_flags2 & RAW_ALLOW_MMAP) != 0;
}

int raw_hook(struct fuse_session *se)
{
	static const struct fuse_custom_io io = {.writev = raw_writev, .read = raw_read};

	raw_init_unique = 0;
	atomic_store(&raw_init_done, false);
	return fuse_session_custom_io(se, &io, fuse_session_fd(se));
}
#endif
