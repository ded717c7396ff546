/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNT_MOUNT_H
#define MOUNT_MOUNT_H
/*
 * The composition root's own: what an open file system consists of. Public calls are in
 * tessera/tessera.h.
 *
 * The directory of a file system:
 *
 *   meta/             the namespace: an LMDB environment
 *   staging/          open segments; a symbolic link when `-o staging=DIR` moved it
 *   kv0/              the embedded target, unless mkfs was given others
 *   run/PID.sock      control socket of the daemon PID
 *   run/PID.failed    what that daemon could not make durable when it ended
 *   mkfs.incomplete   there while mkfs works: a directory that has it is no file system
 */
#include "admin/admin.h"
#include "base/budget.h"
#include "base/text.h"
#include "fs/fs.h"
#include "io/io.h"
#include "meta/meta.h"
#include <stdatomic.h>
#include <tessera/tessera.h>

#define MOUNT_META    "meta"
#define MOUNT_STAGING "staging"
#define MOUNT_RUN     "run"
#define MOUNT_KV      "kv0"
#define MOUNT_MARK    "mkfs.incomplete"
#define MOUNT_KV_URI  "kv:./kv0/data"	/* "./" right after the scheme: relative to the file system */

struct control;

struct tess {
	enum tess_open_mode mode;
	const struct tess_conf *conf;	/* borrowed until tess_close(); never NULL */
	struct tess_conf dflt;		/* what conf points at when the caller gave none */
	char *dir;			/* owned; absolute */
	char *mountpoint;		/* owned; NULL for tools */
	char *staging;			/* owned; absolute */
	struct meta *meta;
	struct io_target targets[TESS_TARGETS_MAX];
	unsigned ntargets;
	bool targets_open;
	struct budget *budget;
	_Atomic(struct io *) io;	/* before_sync, on any thread, looks at it while it comes and goes */
	struct fs *fs;
	struct control *control;
};

/* DIR/NAME, or NULL when out of memory. Freed by free(). */
char *mount_path(const char *dir, const char *name);
/* Copies `w`, or the sentence of `err`, to the caller's `why` (which may be NULL); returns err. */
int mount_why(char *why, const struct text *w, int err);

/* ---- target.c ---- */
/* The URI that the store is opened with: "./" resolved against `dir`. */
int mount_target_uri(const char *dir, const char *uri, struct text *ret);
/* What mkfs stores for a URI as typed: a relative path becomes absolute. */
int mount_target_absolute(const char *uri, struct text *ret, struct text *why);
int mount_targets_open(struct tess *t, bool readonly, struct text *why);	/* later calls do nothing */
void mount_targets_close(struct tess *t);

/* ---- staging.c ---- */
/*
 * Where staging is, moved to `want` (NULL: as it is) when it is empty. The place is part of the file
 * system, not of one mount, so that the next session finds what a dead one left.
 */
int mount_staging_prepare(const char *dir, const char *want, char **ret, struct text *why);
uint64_t mount_staging_size(const char *staging, uint64_t want);

/* ---- control.c ---- */
int  control_start(struct control **ret, struct tess *t, struct text *why);
void control_stop(struct control *c);	/* answers what was asked; NULL is fine */
/* Opens FS/run, making it when `make`; -errno. */
int  control_run_dir(const char *dir, bool make);
/* A socket connected to NAME in FS/run, or -errno; -ECONNREFUSED: a dead daemon's. */
int  control_connect(int run, const char *name);
/* The last words of a daemon that could not make everything durable. */
void control_leave_note(const struct tess *t, const char *text);
#endif
