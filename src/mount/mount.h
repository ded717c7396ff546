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
 *   rescued/SESSION/  what a fenced daemon could not publish: see tessera-session(8)
 *   private/ID/       the file system of a mount with -o mode=private, while it lasts
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
#define MOUNT_RESCUED "rescued"
#define MOUNT_KV      "kv0"
#define MOUNT_PRIVATE "private"
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
	char *rescued;			/* owned; absolute; made at need */
	struct meta *meta;
	struct io_target targets[TESS_TARGETS_MAX];
	unsigned ntargets;
	bool targets_open;
	struct budget *budget;
	_Atomic(struct io *) io;	/* before_sync, on any thread, looks at it while it comes and goes */
	struct fs *fs;
	struct control *control;
	struct tess_policy policy;	/* of the mount: its flags over its mode */
	const char *policy_from;	/* whose mode that is: "mount", "file system" or "default" */
	struct private *private;	/* owned; NULL: not a private tree */
};

/* DIR/NAME, or NULL when out of memory. Freed by free(). */
char *mount_path(const char *dir, const char *name);
/* Copies `w`, or the sentence of `err`, to the caller's `why` (which may be NULL); returns err. */
int mount_why(char *why, const struct text *w, int err);

/* ---- open.c ---- */
bool mount_fsync_local(const struct tess *t);

/* ---- mode.c ---- */
/* "on", "off", "otoc" or a time (NULL: none of them). 0 or -EINVAL. */
int mount_data_cache(const char *s, struct policy_opts *ret);
/* Fills t->policy from the options and, once the namespace is open, from what mkfs said. */
int mount_policy(struct tess *t, struct text *why);
/* The answer to "mode [json] [INO]": what holds for the mount, or for an inode. */
int mount_mode(struct tess *t, const char *arg, struct text *out);

/* ---- private.c ---- */
/* A file system of this mount's own, below t->dir; private_free() removes it. */
int mount_private_make(struct private **ret, const struct tess *t, struct text *why);
void private_free(struct private *p);	/* NULL is fine */
const char *private_dir(const struct private *p);
const char *private_staging(const struct private *p);	/* where staging has to go, or NULL */
/* How many trees dead daemons left below the file system `fs`; removes them if told to. */
unsigned mount_private_sweep(const char *fs, bool remove_them);

/* ---- mkfs.c ---- */
void mount_remove(const char *path);	/* a whole tree; NULL is fine */

/* ---- target.c ---- */
/* The URI that the store is opened with: "./" resolved against `dir`. */
int mount_target_uri(const char *dir, const char *uri, struct text *ret);
/* What mkfs stores for a URI as typed: a relative path becomes absolute. */
int mount_target_absolute(const char *uri, struct text *ret, struct text *why);
/* -TESS_E_URI when a segment may be larger than the largest object it takes. */
int mount_target_fits(const struct store *s, const char *uri, uint32_t segment_size, struct text *why);
int mount_targets_open(struct tess *t, bool readonly, struct text *why);	/* later calls do nothing */
void mount_targets_close(struct tess *t);

/* ---- tier.c ---- */
/* What the options say of tiers goes into t->targets; -TESS_E_OPT_VALUE: no such tier, or too few targets. */
int mount_tiers(struct tess *t, struct text *why);

/* ---- join.c ---- */
/*
 * Before this mount serves: returns when no kernel of another mount can answer from what it was told
 * while that one was alone.
 */
int mount_join(struct tess *t);

/* ---- look.c ---- */
/* Who serves the mount adds to what `stats` shows: lines, or members of the object. NULL: not any more. */
void tess_on_look(struct tess *t, void (*fn)(void *arg, bool json, struct text *out), void *arg);
void mount_look(bool json, struct text *out);
/* io_waits() and io_error_note() of the open file system. */
void tess_waits(struct tess *t, uint64_t ino, struct text *out);
void tess_note_error(struct tess *t, uint64_t ino, const char *what, int err);

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
