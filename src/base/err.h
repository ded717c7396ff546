/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ERR_H
#define BASE_ERR_H
/*
 * Errors. Every function that can fail returns 0 or a negative number: either -errno or -TESS_E_x.
 * A private code names the throw point, so that a log line says where it came from; err_fold()
 * turns it into an errno and is called in one place, the edge (FUSE reply, tool's exit).
 */
#include <errno.h>

/*      name             errno       what it means, as a user reads it */
#define TESS_ERRORS(x)                                                                          \
	x(SHORT_BODY,    EIO,        "store returned fewer or more bytes than asked for")       \
	x(CHECKSUM,      EIO,        "checksum mismatch")                                       \
	x(NO_OBJECT,     EIO,        "object is missing from its store")                        \
	x(STORE_DEADLINE, ETIMEDOUT, "store did not answer before the deadline")                \
	x(STORE_FULL,    ENOSPC,     "target is full")                                          \
	x(STORE_BUSY,    EAGAIN,     "store asks to slow down")                                 \
	x(SHUT_OUT,      EIO,        "the cluster has shut this client out (blocklisted it)")   \
	x(STAGE_FULL,    ENOSPC,     "staging area is full")                                    \
	x(STAGE_LOST,    EIO,        "staged segment is missing")                               \
	x(RECORD,        EIO,        "metadata record is corrupt")                              \
	x(FORMAT_MAGIC,  EINVAL,     "not a Tessera file system")                               \
	x(FORMAT_NEWER,  ENOTSUP,    "file system was made by a newer Tessera")                 \
	x(KV_CONFLICT,   EAGAIN,     "metadata transaction conflict")                           \
	x(KV_FULL,       ENOSPC,     "metadata map is full and cannot grow")                    \
	x(KV_READERS,    EAGAIN,     "metadata reader table is full")                           \
	x(KV_CORRUPT,    EIO,        "metadata database is corrupt")                            \
	x(NETFS,         ENOTSUP,    "metadata may not live on a network file system")          \
	x(OTHER_HOST,    EBUSY,      "file system is in use on another host")                   \
	x(OTHER_PIDNS,   EBUSY,      "file system is in use in another PID namespace")          \
	x(PLAN,          EIO,        "mapper made an invalid plan")                             \
	x(CLASS_UNKNOWN, EINVAL,     "unknown object class")                                    \
	x(CLASS_LATER,   ENOTSUP,    "object class is not available in this version")           \
	x(CLASS_TARGETS, EINVAL,     "object class needs more targets than there are")          \
	x(MAPPER_UNKNOWN, EINVAL,    "unknown mapper")                                          \
	x(OPT_UNKNOWN,   EINVAL,     "unknown option")                                          \
	x(OPT_VALUE,     EINVAL,     "bad option value")                                        \
	x(URI,           EINVAL,     "bad target URI")                                          \
	x(STALE,         ESTALE,     "file is gone")                                            \
	x(FENCED,        ESTALE,     "this session was shut out: it did not answer for longer than its lease") \
	x(FAULT,         EIO,        "injected fault")                                          \
	x(NOT_AT_REST,   EIO,        "not everything is on the rest tier")                      \
	x(STOPPING,      ESHUTDOWN,  "file system is being unmounted")

#define TESS_E_BASE 4000	/* above every errno the kernel knows (MAX_ERRNO is 4095, used ones < 600) */
enum tess_err {
	TESS_E_FIRST = TESS_E_BASE,
#define TESS_E_ROW(name, no, text) TESS_E_##name,
	TESS_ERRORS(TESS_E_ROW)
#undef TESS_E_ROW
	TESS_E_LAST
};

/* Folds a negative error to a negative errno; 0 and positive values pass unchanged. Pure. */
int err_fold(int err);

/* Name ("TESS_E_CHECKSUM", "ENOENT") and sentence of a negative error. Static strings, never NULL. */
const char *err_name(int err);
const char *err_text(int err);
#endif
