/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_MNT_H
#define TEST_MNT_H
/*
 * A file system under test: made, mounted, killed, mounted again. The daemon runs in the foreground
 * as a child, so that its death, its exit code and what it prints (to `log`) are ours. Calls print
 * what went wrong to stderr and return non-zero.
 */
#include <stdbool.h>
#include <sys/types.h>

struct mnt {
	char  fs[512], dir[512], log[512];
	pid_t pid;	/* 0: not mounted */
	int   status;	/* of the last daemon that ended, as wait() gives it */
};

/* Exits with 77 when this machine cannot mount, or the program is not built. */
void mnt_need(void);
/* Paths below TESS_TMP (or a directory made in /tmp); the file system's directory is not made yet. */
void mnt_init(struct mnt *m, const char *name);
const char *mnt_tmp(void);
/* Runs `tessera` with these arguments (NULL-terminated), output to the log. Its exit code, or -1. */
int mnt_tessera(struct mnt *m, ...) __attribute__((sentinel));
/*
 * `option` may be NULL. Then, with TESS_TARGET=URI in the environment, the file system's target is that
 * one, with the name of `fs` appended to its place.
 */
int mnt_mkfs(struct mnt *m, const char *option, const char *value);
int mnt_mount(struct mnt *m, const char *options);	/* NULL: none; the default ones follow */
bool mnt_alive(struct mnt *m);		/* reaps; false: m->pid is 0, m->status says why */
int mnt_wait_dead(struct mnt *m, int ms);	/* 0: it ended by itself */
void mnt_kill(struct mnt *m);		/* SIGKILL and reap; the dead mount stays */
int mnt_umount(struct mnt *m);		/* clean; the daemon must exit with 0 */
int mnt_remount(struct mnt *m, const char *options);
int mnt_fsck(struct mnt *m, bool verify);	/* 0: clean */
/* A line for the control socket; 0 and the answer in `ret` (may be NULL). */
int mnt_control(struct mnt *m, const char *cmd, char *ret, size_t cap);
void mnt_stacks(struct mnt *m);		/* the daemon's, where gdb is there; to stderr */
void mnt_show_log(struct mnt *m, unsigned lines);
void mnt_end(struct mnt *m);		/* kills what is left, detaches */
unsigned long mnt_env(const char *name, unsigned long dflt);
#endif
