/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load on a file system, through the library alone. fsverify.c looks at what power cuts leave.
 *
 *	fsload DIR SEED		under tests/preload/record.c
 *
 * Processes come one after the other; one ends cleanly, one is killed; the last two work at the
 * same time. In each, writers work in
 * directories of their own (cutmodel.h) with everything small, so that segments are sealed, staging
 * is full and checkpoints happen all the time.
 */
#include "../lib/cutfs.h"
#include "base/err.h"
#include "base/req.h"

#include <errno.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ORPHANS 4u

struct driver {
	struct tess *t;
	struct fs *fs;
	struct cm model;
	unsigned life, writer, steps;
	uint64_t base, sub; /* inodes */
	struct fs_file *orphan[ORPHANS];
	unsigned norphans;
	bool kills; /* ends the process somewhere in the second half */
};

static void slot_text(char ret[16], unsigned slot)
{
	snprintf(ret, 16, "f%u", slot);
}

__attribute__((format(printf, 1, 2))) static void mark(const char *fmt, ...)
{
	char line[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (powercut_mark)
		powercut_mark(line);
}

static void must(const struct driver *d, const struct cm_step *s, int err)
{
	if (err < 0)
		cf_die("life %u writer %u step %llu, %s: %s", d->life, d->writer,
		       (unsigned long long)d->model.n + 1, cm_op_name(s->op), err_text(err));
}

/* ---- one step ---- */

static struct fs_name slot_name(const struct driver *d, unsigned slot, char buf[16])
{
	slot_text(buf, slot);
	return cf_name(slot % 2 ? d->sub : d->base, buf);
}

static struct fs_file *step_handle(struct driver *d, struct tess_req *req, const struct cm_step *s)
{
	struct cm_file *f = d->model.slot[s->a];
	struct fs_file *fh = f->handle;
	struct meta_attr a;
	char buf[16];

	if (fh)
		return fh;
	must(d, s, fs_lookup(d->fs, req, slot_name(d, s->a, buf), &a));
	must(d, s, fs_file_open(d->fs, req, a.ino, O_RDWR | (s->osync ? O_SYNC : 0), &fh));
	f->handle = fh;
	return fh;
}

static int step_data(struct driver *d, struct tess_req *req, const struct cm_step *s)
{
	struct fs_file *fh = step_handle(d, req, s);
	struct meta_attr a = {.size = s->off};
	int err;

	if (s->op == CM_CUT)
		return fs_setattr(d->fs, req, fs_file_ino(fh), fh, FS_SET_SIZE, &a, &a);
	if (s->op == CM_PUNCH)
		return fs_fallocate(fh, req, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, s->off, s->len);
	uint8_t *buf = malloc(s->len);

	if (!buf)
		return -ENOMEM;
	fm_fill(buf, s->seed, s->off, s->len);
	err = fs_write(fh, req, s->off, buf, s->len);
	free(buf);
	return err;
}

static int step_close(struct driver *d, struct tess_req *req, struct cm_file *f)
{
	int err = fs_flush(f->handle, req);

	(void)d;
	fs_release(f->handle, req);
	f->handle = NULL;
	return err;
}

static int step_mkdir(struct driver *d, struct tess_req *req, uint64_t dir, const char *name,
		      uint64_t *ret)
{
	struct meta_attr a;
	int err = fs_mknod(d->fs, req, cf_name(dir, name), S_IFDIR | 0755, 0, &a);

	if (!err && ret)
		*ret = a.ino;
	return err;
}

static int step_name(struct driver *d, struct tess_req *req, const struct cm_step *s)
{
	char abuf[16], bbuf[16];
	struct fs_name a = slot_name(d, s->a, abuf), b = slot_name(d, s->b, bbuf);
	struct meta_attr attr;

	switch (s->op) {
	case CM_RENAME:
		return fs_rename(d->fs, req, a, b, 0);
	case CM_UNLINK:
		return fs_unlink(d->fs, req, a);
	case CM_LINK:
		must(d, s, fs_lookup(d->fs, req, a, &attr));
		return fs_link(d->fs, req, attr.ino, b, &attr);
	default:
		break;
	}
	snprintf(abuf, sizeof(abuf), "e%u", s->a % CM_DIRS);
	if (s->op == CM_MKDIR)
		return step_mkdir(d, req, d->base, abuf, NULL);
	return fs_rmdir(d->fs, req, cf_name(d->base, abuf));
}

static int step_do(struct driver *d, struct tess_req *req, const struct cm_step *s,
		   struct fs_file **ret_fh)
{
	struct tess_gc gc = {0};
	struct meta_attr a;
	char name[16];

	switch (s->op) {
	case CM_BASE:
		snprintf(name, sizeof(name), "l%uw%u", d->life, d->writer);
		return step_mkdir(d, req, 1, name, &d->base);
	case CM_SUB:
		return step_mkdir(d, req, d->base, "s", &d->sub);
	case CM_WRITE:
	case CM_CUT:
	case CM_PUNCH:
		return step_data(d, req, s);
	case CM_FSYNC:
		return fs_fsync(d->model.slot[s->a]->handle, req, s->seed & 2);
	case CM_CLOSE:
		return step_close(d, req, d->model.slot[s->a]);
	case CM_CREATE:
		return fs_create(d->fs, req, slot_name(d, s->a, name), 0644,
				 O_RDWR | O_CREAT | O_EXCL | (s->osync ? O_SYNC : 0), &a, ret_fh);
	case CM_FSYNCDIR:
		return fs_fsyncdir(d->fs, req);
	case CM_SYNC_ALL:
		return tess_sync(d->t);
	case CM_GC:
		return tess_gc(d->t, &gc, NULL);
	default:
		return step_name(d, req, s);
	}
}

static void release_orphans(struct driver *d, struct tess_req *req)
{
	while (d->norphans)
		fs_release(d->orphan[--d->norphans], req);
}

static void step(struct driver *d)
{
	struct cm_step s = cm_next(&d->model);
	struct fs_file *fh = NULL;
	struct tess_req req;
	void *gone = NULL;

	req_begin(&req, "load");
	mark("step %u %u %llu", d->life, d->writer, (unsigned long long)d->model.n + 1);
	/* The handle it opens is kept in the model before the model knows that it is open. */
	must(d, &s, step_do(d, &req, &s, &fh));
	cm_data(&d->model, &s);
	cm_commit(&d->model, &s, &gone);
	mark("done %u %u %llu", d->life, d->writer, (unsigned long long)d->model.n);
	if (fh)
		d->model.slot[s.a]->handle = fh;
	if (gone && d->norphans == ORPHANS)
		release_orphans(d, &req);
	if (gone)
		d->orphan[d->norphans++] = gone;
}

/* ---- a life ---- */

static void *run_writer(void *arg)
{
	struct driver *d = arg;
	struct tess_req req;
	uint64_t rng = d->model.seed;

	for (unsigned i = 0; i < d->steps; i++) {
		step(d);
		if (d->kills && i > d->steps / 2 && rnd_below(&rng, 40) == 0 && powercut_kill)
			powercut_kill();
	}
	if (d->kills && powercut_kill)
		powercut_kill();
	req_begin(&req, "load");
	release_orphans(d, &req);
	for (unsigned i = 0; i < CM_SLOTS; i++) {
		struct cm_file *f = d->model.slot[i];

		if (f && f->handle && step_close(d, &req, f) < 0)
			cf_die("closing at the end of a life");
	}
	return NULL;
}

static int life(const char *dir, uint64_t seed, unsigned n)
{
	struct driver d[CF_WRITERS];
	pthread_t id[CF_WRITERS];
	char path[500], why[TESS_WHY];
	struct tess *t;

	memset(d, 0, sizeof(d));
	snprintf(path, sizeof(path), "%s/fs", dir);
	if (cf_open(&t, path, TESS_MOUNT, NULL, why) < 0)
		cf_die("open: %s", why);
	for (unsigned i = 0; i < CF_WRITERS; i++) {
		d[i] = (struct driver){.t = t, .fs = tess_fs(t), .life = n, .writer = i,
				       .steps = CF_STEPS, .kills = n == CF_KILLED && i == 0};
		cm_init(&d[i].model, cf_seed(seed, n, i));
		pthread_create(&id[i], NULL, run_writer, &d[i]);
	}
	for (unsigned i = 0; i < CF_WRITERS; i++)
		pthread_join(id[i], NULL);
	mark("closing %u", n);
	if (tess_close(t, why) < 0)
		cf_die("close: %s", why);
	mark("closed %u", n);
	for (unsigned i = 0; i < CF_WRITERS; i++)
		cm_done(&d[i].model);
	return 0;
}

static int make(const char *dir, uint64_t seed, unsigned n)
{
	static const char *const cls[] = {"S1", "S2", "SX", "S1"};
	char uri[4][600], why[TESS_WHY];
	const char *targets[4] = {uri[0], uri[1], uri[2], uri[3]};
	bool tiers = cf_tiers(seed);
	struct tess_mkfs conf = {.dir = dir, .targets = targets, .ntargets = tiers ? 4 : 3,
				 .cls = cls[seed % 4], .segment_size = 65536};
	char path[500];

	(void)n;
	snprintf(path, sizeof(path), "%s/fs", dir);
	conf.dir = path;
	for (unsigned i = 0; i < conf.ntargets; i++)
		snprintf(uri[i], sizeof(uri[i]), "kv:%s/kv%u?size=64M%s", dir, i,
			 !tiers ? "" : i < 2 ? "&tier=fast" : "&tier=rest");
	if (tess_mkfs(&conf, why) < 0)
		cf_die("mkfs: %s", why);
	mark("made");
	return 0;
}

static pid_t child(int (*fn)(const char *, uint64_t, unsigned), const char *dir, uint64_t seed,
		   unsigned n)
{
	pid_t pid = fork();

	if (pid == 0) {
		int r = fn(dir, seed, n);

		fflush(stdout);
		_exit(r);
	}
	return pid;
}

static void wait_for(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
		cf_die("a process of the load ended with %d", pid < 0 ? -1 : status);
}

int main(int argc, char **argv)
{
	uint64_t seed;
	pid_t pid;

	if (argc != 3) {
		printf("usage: fsload DIR SEED\n");
		return 2;
	}
	seed = strtoull(argv[2], NULL, 0);
	(void)cf_tiers(seed);
	wait_for(child(make, argv[1], seed, 0));
	for (unsigned i = 0; i < CF_LIVES; i++) {
		pid = child(life, argv[1], seed, i);
		if (i == CF_TWINS)
			wait_for(child(life, argv[1], seed, ++i));
		wait_for(pid);
	}
	return 0;
}
