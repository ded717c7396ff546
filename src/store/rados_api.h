/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_RADOS_API_H
#define STORE_RADOS_API_H
/*
 * The functions of librados, found when the first rados:// target is opened. Linking the library would
 * cost every command and every mount its start-up time and tens of MiB. The types are its header's, so
 * that the compiler checks every call.
 */
#include <rados/librados.h>

struct text;

#define RADOS_FUNCTIONS(x)                                                                      \
	x(create2) x(conf_read_file) x(conf_set) x(conf_get) x(connect) x(shutdown)             \
	x(ioctx_create) x(ioctx_set_namespace) x(ioctx_destroy)                                 \
	x(aio_create_completion2) x(aio_release) x(aio_get_return_value)                        \
	x(aio_wait_for_complete) x(aio_cancel) x(aio_stat)                                      \
	x(create_write_op) x(release_write_op) x(write_op_write_full) x(write_op_remove)        \
	x(aio_write_op_operate)                                                                 \
	x(create_read_op) x(release_read_op) x(read_op_stat) x(read_op_read)                    \
	x(aio_read_op_operate)                                                                  \
	x(nobjects_list_open) x(nobjects_list_next) x(nobjects_list_close)                      \
	x(mon_command) x(buffer_free) x(cluster_stat) x(getaddrs)

struct rados_api {
#define RADOS_MEMBER(f) __typeof__(&rados_##f) f;
	RADOS_FUNCTIONS(RADOS_MEMBER)
#undef RADOS_MEMBER
};

/* NULL, with a line in `why` that names the package, where the library is not installed. */
const struct rados_api *rados_api(struct text *why);
#endif
