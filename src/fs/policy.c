/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/fs.h"

/*
 * Close-to-open. Times to live of a second cost a local user nothing (the kernel drops what it
 * changes itself) and bound how late another session's names appear.
 */
const struct tess_policy policy_session = {
	.name = "session",
	.visible = AT_CLOSE,
	.durable = AT_FSYNC,
	.attr_ttl = 1.0,
	.entry_ttl = 1.0,
	.negative_ttl = 1.0,
	.exact_size = true,
	.exact_mtime = true,
	.atomic_append = false,
	.posix_locks = true,
	.kernel_writeback = false,
	.keep_cache = true,
	.direct_io = false,
};
