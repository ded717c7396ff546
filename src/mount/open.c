/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that sees every constructor. Opening goes up the layers, closing comes down again
 * in reverse, with one exception that tess_close() explains.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scoped.h"
#include "mount/mount.h"
#include "store/store.h"
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

const char *tess_version(void)
{
	return TESS_VERSION;
}

int tess_errno(int err)
{
	return -err_fold(err);
}

const char *tess_strerror(int err)
{
	return err_text(err);
}

char *mount_path(const char *dir, const char *name)
{
	return mem_printf("%s/%s", dir, name);
}

int mount_why(char *why, const struct text *w, int err)
{
	const char *s = w && w->n ? text_str(w) : err_text(err);

	if (why)
		snprintf(why, TESS_WHY, "%s", s);
	return err;
}

const char *tess_dir(const struct tess *t)
{
	return t->dir;
}

struct fs *tess_fs(struct tess *t)
{
	return t->fs;
}

/* Is there a Tessera file system in it? The answer names what is there instead. */
static int open_check_dir(const char *dir, struct text *why)
{
	scoped_free char *meta = mount_path(dir, MOUNT_META), *mark = mount_path(dir, MOUNT_MARK);
	struct stat st;

	if (!meta || !mark)
		return -ENOMEM;
	if (stat(dir, &st) < 0) {
		int err = -errno;

		text_fmt(why, "%s: %s", dir, err_text(err));
		return err;
	}
	if (!S_ISDIR(st.st_mode)) {
		text_fmt(why, "%s: not a directory: a Tessera file system is one, made by tessera mkfs",
			 dir);
		return -ENOTDIR;
	}
	if (!access(mark, F_OK)) {
		text_fmt(why, "%s: a mkfs was interrupted here: make the file system again", dir);
		return -TESS_E_FORMAT_MAGIC;
	}
	if (stat(meta, &st) < 0 && errno != ENOENT) {
		int err = -errno;

		text_fmt(why, "%s: %s", meta, err_text(err));
		return err;
	}
	if (stat(meta, &st) < 0 || !S_ISDIR(st.st_mode)) {
		text_fmt(why, "%s: not a Tessera file system", dir);
		return -TESS_E_FORMAT_MAGIC;
	}
	return 0;
}

/*
 * A checkpoint makes the commits of every session durable, so what they all refer to must be there
 * first. The io layer knows what it changed; without one, all of staging and targets is synced.
 */
static int open_before_sync(void *arg, uint64_t serial)
{
	struct tess *t = arg;
	struct io *io = atomic_load(&t->io);
	scoped_fd int fd = -1;
	struct tess_req req;

	/* A power cut ends it: what it refers to need not be on any disk. */
	if (t->private)
		return 0;
	if (io)
		return io_before_sync(io, serial);
	fd = open(t->staging, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || syncfs(fd) < 0)
		return -errno;
	req_begin(&req, "checkpoint");
	for (unsigned i = 0; i < t->ntargets; i++) {
		int err = store_barrier(t->targets[i].store, &req);

		if (err)
			return err;
	}
	return 0;
}

/* For measuring: as far away as a namespace across a network. */
static int open_latency(const struct tess *t, struct kv **inout)
{
	struct kv *far;
	int err;

	if (t->mode != TESS_MOUNT || !t->conf->meta_latency)
		return 0;
	err = kv_latency_open(&far, *inout, (int64_t)t->conf->meta_latency);
	if (!err)
		*inout = far;
	return err;
}

static int open_namespace(struct tess *t, bool readonly, struct text *why)
{
	scoped_free char *path = mount_path(t->dir, MOUNT_META);
	struct kv_conf kc = {
		.dir = path,
		.readonly = readonly,
		.boot_id = t->conf->boot_id,
		.before_sync = open_before_sync,
		.arg = t,
	};
	struct kv *kv;
	int err;

	if (!path)
		return -ENOMEM;
	err = kv_lmdb_open(&kv, &kc, why);
	if (err)
		return err;
	err = open_latency(t, &kv);
	if (!err)
		err = meta_open(&t->meta, kv, why);
	if (err)
		kv_close(kv);
	return err;
}

/*
 * Opening the namespace for writing makes a checkpoint of what a killed session committed last, and so
 * asks the targets, which the namespace names, for a barrier: they come first, after a look at it.
 */
static int open_targets(struct tess *t, struct text *why)
{
	int err = open_namespace(t, true, why);

	if (err)
		return err;
	err = mount_targets_open(t, false, why);
	meta_close(t->meta);
	t->meta = NULL;
	return err;
}

bool mount_fsync_local(const struct tess *t)
{
	if (t->conf->fsync_how)
		return t->conf->fsync_how == 1;
	for (unsigned i = 0; i < t->ntargets; i++)
		if (!(t->targets[i].store->caps.flags & STORE_LOCAL))
			return false;
	return true;
}

static int open_io(struct tess *t, struct text *why)
{
	struct io_conf ic = {
		.meta = t->meta,
		.budget = t->budget,
		.targets = t->targets,
		.ntargets = t->ntargets,
		.staging_dir = t->staging,
		.rescue_dir = t->rescued,
		.staging_size = mount_staging_size(t->staging, t->conf->staging_size),
		.idle_seal = (int64_t)t->conf->seal_idle,
		.commit_interval = (int64_t)t->conf->commit_interval,
		.fsync_local = mount_fsync_local(t),
		.drain = (enum io_drain)t->conf->drain,
		.readahead = t->conf->readahead,
	};
	struct io *io;
	int err = t->mode == TESS_MOUNT ? mount_tiers(t, why) : 0;

	if (!err)
		err = io_open(&io, &ic, why);
	if (!err)
		atomic_store(&t->io, io);
	return err;
}

static int open_fs(struct tess *t)
{
	struct fs_conf fc = {
		.meta = t->meta,
		.io = atomic_load(&t->io),
		.policy = &t->policy,
		.targets = t->targets,
		.ntargets = t->ntargets,
		.readonly = t->conf->readonly,
		.atime = (enum fs_atime)t->conf->atime,
		.lease = (int64_t)t->conf->lease,
	};

	return fs_open(&t->fs, &fc);
}

/* Settings of the process, not of the file system: they stay when opening fails. */
static int open_switches(const struct tess_conf *conf, struct text *why)
{
	if (conf->log && log_set(conf->log) < 0) {
		text_fmt(why, "log=%s: a level (error, warning, notice, debug) or module=level;…", conf->log);
		return -TESS_E_OPT_VALUE;
	}
	if (conf->faults && fault_set(conf->faults) < 0) {
		text_fmt(why, "faults=%s: point[@N|%%P|#N]=action;…", conf->faults);
		return -TESS_E_OPT_VALUE;
	}
	return 0;
}

static int open_stack(struct tess *t, struct text *why)
{
	struct text last = TEXT_INIT;	/* what closing says is not what went wrong */
	int err;

	err = t->mode == TESS_LOOK ? 0 : open_targets(t, why);
	if (!err)
		err = open_namespace(t, t->mode == TESS_LOOK, why);
	if (err)
		goto fail_targets;
	if (t->mode == TESS_LOOK)
		return 0;
	err = mount_policy(t, why);
	if (err)
		goto fail_meta;
	meta_lease(t->meta, (int64_t)t->conf->lease);
	err = meta_session_begin(t->meta, t->mountpoint ? t->mountpoint : "", clock_wall(), why);
	if (err)
		goto fail_meta;
	err = budget_new(&t->budget, t->conf->cache_size);
	if (err)
		goto fail_session;
	err = open_io(t, why);
	if (err)
		goto fail_budget;
	if (t->mode == TESS_WORK)
		return 0;
	err = open_fs(t);
	if (err)
		goto fail_io;
	err = control_start(&t->control, t, why);
	if (!err)
		err = mount_join(t);
	if (err)
		goto fail_fs;
	return 0;

fail_fs:
	control_stop(t->control);
	fs_close(t->fs);
fail_io:
	io_close(atomic_load(&t->io), false, &last);
	text_done(&last);
	atomic_store(&t->io, NULL);
fail_budget:
	budget_free(t->budget);
fail_session:
	meta_session_end(t->meta);
fail_meta:
	meta_close(t->meta);
fail_targets:
	mount_targets_close(t);
	return err;
}

static void tess_free(struct tess *t)
{
	if (!t)
		return;
	private_free(t->private);
	tess_conf_done(&t->dflt);
	free(t->dir);
	free(t->mountpoint);
	free(t->staging);
	free(t->rescued);
	free(t);
}
DEFINE_SCOPED(struct tess, tess_free)

static int open_new(struct tess **ret, const char *dir, const struct tess_conf *conf,
		    const char *mountpoint)
{
	scoped(tess_free) struct tess *t = mem_zalloc(sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	err = tess_conf_init(&t->dflt);
	if (err)
		return err;
	t->conf = conf ? conf : &t->dflt;
	t->dir = realpath(dir, NULL);
	if (!t->dir)
		return -errno;
	t->rescued = mount_path(t->dir, MOUNT_RESCUED);
	if (!t->rescued)
		return -ENOMEM;
	if (mountpoint) {
		t->mountpoint = mem_strdup(mountpoint);
		if (!t->mountpoint)
			return -ENOMEM;
	}
	*ret = steal_ptr(t);
	return 0;
}

/* From here on the private tree is the file system that is opened. */
static int open_private(struct tess *t, struct text *why)
{
	int err = mount_private_make(&t->private, t, why);
	char *dir = err ? NULL : mem_strdup(private_dir(t->private));

	if (err || !dir)
		return err ? err : -ENOMEM;
	free(t->dir);
	t->dir = dir;
	return 0;
}

/* What the options say is checked before anything is made. */
static int open_mode(struct tess *t, struct text *why)
{
	int err = t->mode == TESS_MOUNT ? mount_policy(t, why) : 0;

	if (err || t->mode != TESS_MOUNT)
		return err;
	mount_private_sweep(t->dir, true);
	return t->policy.mode == MODE_PRIVATE ? open_private(t, why) : 0;
}

static int open_staging(struct tess *t, struct text *why)
{
	const char *want = t->mode == TESS_MOUNT ? t->conf->staging : NULL;

	return mount_staging_prepare(t->dir, t->private ? private_staging(t->private) : want, &t->staging,
				     why);
}

static int open_all(struct tess **ret, const char *dir, enum tess_open_mode mode,
		    const struct tess_conf *conf, const char *mountpoint, struct text *why)
{
	scoped(tess_free) struct tess *t = NULL;
	int err = open_check_dir(dir, why);

	if (!err)
		err = open_new(&t, dir, conf, mountpoint);
	if (err)
		return err;
	t->mode = mode;
	err = open_switches(t->conf, why);
	if (!err)
		err = open_mode(t, why);
	if (!err)
		err = open_staging(t, why);
	if (!err)
		err = open_stack(t, why);
	if (!err)
		*ret = steal_ptr(t);
	return err;
}

int tess_open(struct tess **ret, const char *dir, enum tess_open_mode mode,
	      const struct tess_conf *conf, const char *mountpoint, char *why)
{
	struct text w = TEXT_INIT;
	int err = open_all(ret, dir, mode, conf, mountpoint, &w);

	if (err)
		mount_why(why, &w, err);
	text_done(&w);
	return err;
}

/* Keeps the first error: later ones are mostly its consequences. */
static void close_note(int *first, int err, const char *what, struct text *why)
{
	if (!err)
		return;
	if (!*first && !why->n)
		text_fmt(why, "%s: %s", what, err_text(err));
	if (!*first)
		*first = err;
}

/*
 * Nobody has a file open any more, so what dead sessions left to ours can go now. The reclaimer of fs/
 * does the same while it runs; tools have none.
 */
static int close_reclaim(struct meta *m)
{
	uint64_t inos[64];
	unsigned n;
	bool more;
	int err;

	for (;;) {
		err = meta_orphans(m, 0, inos, ARRAY_SIZE(inos), &n);
		if (err || !n)
			return err;
		do {
			err = meta_reclaim(m, inos, n, 2000, clock_wall(), &more);
			/* Another mount may have it open, and does not answer: it has to see to it. */
			if (err == -EBUSY)
				return meta_orphans_leave(m);
			if (err)
				return err;
		} while (more);
	}
}

/*
 * The namespace is closed before the targets, though it was opened before them: closing it makes a
 * last checkpoint, which has to ask the targets for a barrier.
 */
int tess_close(struct tess *t, char *why)
{
	struct text w = TEXT_INIT;
	struct io *io;
	int err = 0;

	if (!t)
		return 0;
	control_stop(t->control);
	if (t->fs)
		close_note(&err, fs_close(t->fs), "open files", &w);
	io = atomic_load(&t->io);
	if (io) {
		close_note(&err, close_reclaim(t->meta), "unlinked files", &w);
		close_note(&err, io_close(io, !t->private, &w), "data", &w);
		atomic_store(&t->io, NULL);
	}
	/* After a failure the session stays: the next one adopts what it could not finish. */
	if (t->mode != TESS_LOOK && !err)
		close_note(&err, meta_session_end(t->meta), "session", &w);
	if (t->mode != TESS_LOOK)
		close_note(&err, kv_sync(meta_kv(t->meta)), "namespace", &w);
	meta_close(t->meta);
	mount_targets_close(t);
	if (t->budget)
		budget_free(t->budget);
	if (err == -TESS_E_FENCED) {
		text_done(&w);
		text_fmt(&w, "%s; what was not published is in %s", err_text(err), t->rescued);
	}
	if (err && t->mode == TESS_MOUNT)
		control_leave_note(t, text_str(&w));
	if (err)
		mount_why(why, &w, err);
	text_done(&w);
	tess_free(t);
	return err;
}

int tess_sync(struct tess *t)
{
	struct io *io = atomic_load(&t->io);
	struct tess_req req;

	if (!io || t->private)
		return 0;
	req_begin(&req, "sync");
	return io_sync_all(io, &req);
}
