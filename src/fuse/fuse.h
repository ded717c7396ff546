/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUSE_FUSE_H
#define FUSE_FUSE_H
/*
 * The FUSE daemon. A tool parses its command line and calls fuse_mount_main(); everything between
 * fork() and the exit code is here.
 */
#include <stdbool.h>
#include <tessera/tessera.h>

/*
 * Mounts the file system in `dir` on `mountpoint` and serves it. A dead mount (ENOTCONN) on the
 * mount point is detached first. Unless conf->foreground, forks before anything of the file system
 * is opened (LMDB handles must not cross a fork); the parent returns once the mount answers, or
 * failed. `why` (TESS_WHY bytes) gets one line on failure.
 *
 * Returns 0 in the parent (daemonised), or in the foreground after a clean unmount. Negative when
 * it did not get mounted, or when not everything was durable at the end. The daemon itself never
 * returns from here: it exits with 0 or 1.
 *
 * `conf` is borrowed. Paths may be relative.
 */
int fuse_mount_main(const char *dir, const char *mountpoint, const struct tess_conf *conf,
		    char *why);

/*
 * Mounts and serves an open file system until it is unmounted or told to stop; `ready(arg)` is
 * called once the kernel has initialised the mount. Does not close `t`. 0, or negative with `why`.
 */
struct fuse_serve_conf {
	const char *dir;	/* absolute; shown as the mount's source */
	const char *mountpoint; /* absolute */
	const struct tess_conf *conf;
	void (*ready)(void *arg);
	void *arg;
};
int fuse_serve(struct tess *t, const struct fuse_serve_conf *conf, char *why);

/*
 * Unmounts `mountpoint` and waits until its daemon has made everything durable and ended. 0, or
 * negative with `why`: not mounted, busy, or what is not durable. `lazy`: detaches now, still
 * waits.
 */
int fuse_umount_main(const char *mountpoint, bool lazy, char *why);

/* "3.14, no io_uring, no parallel direct writes": what this build serves with. Static. */
const char *fuse_build_info(void);
#endif
