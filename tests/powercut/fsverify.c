/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is what a power cut left of fsload.c's file system right?
 *
 *	fsverify SEED DIR MARKS
 *
 * It must open, be clean for fsck with every object read, and each writer's directory must be what
 * its load had made after some step: not before the last one whose return promised durability. Then
 * it is worked with, closed, checked again, and cut once more with nothing lost.
 */
#include "../lib/cutfs.h"
#include "base/err.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is there. */
struct found_file {
	bool there;
	uint64_t ino;
	uint32_t nlink;
	size_t size;
	uint8_t *data;
};
struct found {
	bool base, sub;
	bool dir[CM_DIRS];
	struct found_file slot[CM_SLOTS];
};
/* What a writer's steps were when the power went. */
struct bounds {
	uint64_t begun, done, least;
	bool closing, closed;
};
struct verify {
	struct fs *fs;
	uint64_t seed;
	bool made;
	struct bounds b[CF_LIVES][CF_WRITERS];
};

/* ---- marks ---- */

/* Which of a writer's steps promised to be durable: the load is gone over once more. */
static void find_least(struct verify *v, unsigned life, unsigned w)
{
	struct bounds *b = &v->b[life][w];
	struct cm c;

	cm_init(&c, cf_seed(v->seed, life, w));
	while (c.n < b->done) {
		struct cm_step s = cm_next(&c);

		cm_data(&c, &s);
		cm_commit(&c, &s, NULL);
		if (s.sync)
			b->least = c.n;
	}
	/* The end is a step of its own. */
	if (b->closed)
		b->least = b->done + 1;
	cm_done(&c);
}

static void marks_read(struct verify *v, const char *path)
{
	unsigned life, w;
	unsigned long long n;
	FILE *f = fopen(path, "re");
	char line[200];

	if (!f)
		cf_die("%s is missing", path);
	while (fgets(line, sizeof(line), f)) {
		if (!strcmp(line, "made\n"))
			v->made = true;
		else if (sscanf(line, "step %u %u %llu", &life, &w, &n) == 3)
			v->b[life][w].begun = n;
		else if (sscanf(line, "done %u %u %llu", &life, &w, &n) == 3)
			v->b[life][w].done = n;
		for (w = 0; sscanf(line, "closing %u", &life) == 1 && w < CF_WRITERS; w++)
			v->b[life][w].closing = true;
		for (w = 0; sscanf(line, "closed %u", &life) == 1 && w < CF_WRITERS; w++)
			v->b[life][w].closed = true;
	}
	fclose(f);
	for (life = 0; life < CF_LIVES; life++)
		for (w = 0; w < CF_WRITERS; w++)
			find_least(v, life, w);
	/* A checkpoint of a later life has everything that an earlier one committed. */
	for (life = CF_LIVES - 1; life-- > 0;)
		for (w = 0; w < CF_WRITERS; w++)
			if (life != CF_TWINS && (v->b[life + 1][0].least || v->b[life + 1][1].least) &&
			    v->b[life][w].least < v->b[life][w].done)
				v->b[life][w].least = v->b[life][w].done;
}

/* ---- looking ---- */

struct waiter {
	pthread_mutex_t m;
	pthread_cond_t c;
	bool done;
};

static void read_done(struct io_read *r)
{
	struct waiter *w = r->owner;

	pthread_mutex_lock(&w->m);
	w->done = true;
	pthread_cond_signal(&w->c);
	pthread_mutex_unlock(&w->m);
}

/* Pieces of an odd length, so that reads and extents do not coincide. */
static int read_piece(struct fs_file *fh, struct tess_req *req, size_t off, size_t len, uint8_t *to,
		      size_t *ret_n)
{
	struct waiter w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
	struct fs_read r = {.fh = fh};
	int err;

	r.io.off = off;
	r.io.len = len;
	r.io.done = read_done;
	r.io.owner = &w;
	r.io.req = req;
	fs_read(&r);
	pthread_mutex_lock(&w.m);
	while (!w.done)
		pthread_cond_wait(&w.c, &w.m);
	pthread_mutex_unlock(&w.m);
	err = r.io.err;
	*ret_n = 0;
	for (unsigned i = 0; !err && i < r.io.niov; i++) {
		memcpy(to + *ret_n, r.io.iov[i].iov_base, r.io.iov[i].iov_len);
		*ret_n += r.io.iov[i].iov_len;
	}
	fs_read_release(&r);
	return err;
}

static void look_file(struct verify *v, struct tess_req *req, const char *what, struct fs_name n,
		      struct found_file *ret)
{
	struct meta_attr a;
	struct fs_file *fh;
	size_t at, got;
	int err = fs_lookup(v->fs, req, n, &a);

	*ret = (struct found_file){0};
	if (err == -ENOENT)
		return;
	if (err < 0)
		cf_die("%s: lookup: %s", what, err_text(err));
	*ret = (struct found_file){true, a.ino, a.nlink, a.size, malloc(a.size + 70001)};
	err = ret->data ? fs_file_open(v->fs, req, a.ino, O_RDONLY, &fh) : -ENOMEM;
	if (err < 0)
		cf_die("%s: open: %s", what, err_text(err));
	for (at = 0; at < a.size; at += got) {
		err = read_piece(fh, req, at, 70001, ret->data + at, &got);
		if (err < 0 || !got || at + got > a.size)
			cf_die("%s: size %llu, reading at %zu gives %zu bytes: %s", what,
			       (unsigned long long)a.size, at, got, err_text(err));
	}
	fs_release(fh, req);
}

static bool look_dir(struct verify *v, struct tess_req *req, uint64_t dir, const char *name,
		     uint64_t *ret)
{
	struct meta_attr a;
	int err = fs_lookup(v->fs, req, cf_name(dir, name), &a);

	if (err && err != -ENOENT)
		cf_die("%s: lookup: %s", name, err_text(err));
	if (!err && !S_ISDIR(a.mode))
		cf_die("%s is no directory", name);
	if (!err && ret)
		*ret = a.ino;
	return !err;
}

static int count_entry(void *arg, const struct meta_dirent *e)
{
	(void)e;
	++*(unsigned *)arg;
	return 0;
}

/* A lookup finds what it is asked for; is there more? */
static void look_strangers(struct verify *v, struct tess_req *req, const char *what,
			   const struct found *f, const uint64_t dir[2])
{
	unsigned n = 0, want = 2 + 2 * f->sub + f->sub;
	int err = fs_readdir(v->fs, req, dir[0], 0, false, count_entry, &n);

	if (!err && f->sub)
		err = fs_readdir(v->fs, req, dir[1], 0, false, count_entry, &n);
	if (err < 0)
		cf_die("%s: readdir: %s", what, err_text(err));
	for (unsigned i = 0; i < CM_DIRS; i++)
		want += f->dir[i];
	for (unsigned i = 0; i < CM_SLOTS; i++)
		want += f->slot[i].there;
	if (n != want)
		cf_die("%s: directories have %u entries, lookups find %u", what, n, want);
}

static void look(struct verify *v, const char *what, struct found *ret)
{
	uint64_t dir[2] = {0};
	struct tess_req req;
	char name[40];

	*ret = (struct found){0};
	req_begin(&req, "verify");
	ret->base = look_dir(v, &req, 1, what, &dir[0]);
	if (!ret->base)
		return;
	ret->sub = look_dir(v, &req, dir[0], "s", &dir[1]);
	for (unsigned i = 0; i < CM_DIRS; i++) {
		snprintf(name, sizeof(name), "e%u", i);
		ret->dir[i] = look_dir(v, &req, dir[0], name, NULL);
	}
	for (unsigned i = 0; i < CM_SLOTS; i++) {
		char text[60];

		snprintf(name, sizeof(name), "f%u", i);
		snprintf(text, sizeof(text), "%s/%s%s", what, i % 2 ? "s/" : "", name);
		if (i % 2 == 0 || ret->sub)
			look_file(v, &req, text, cf_name(dir[i % 2], name), &ret->slot[i]);
	}
	look_strangers(v, &req, what, ret, dir);
}

static void found_done(struct found *f)
{
	for (unsigned i = 0; i < CM_SLOTS; i++)
		free(f->slot[i].data);
}

/* ---- comparing ---- */

/* NULL, or which name is not as after this step. */
static const char *compare_names(const struct cm *c, const struct found *f)
{
	static char why[100];

	if (c->base != f->base || c->sub != f->sub)
		return "its own directories";
	for (unsigned i = 0; i < CM_DIRS; i++)
		if (c->dir[i] != f->dir[i])
			return "an empty directory";
	for (unsigned i = 0; i < CM_SLOTS; i++) {
		const struct cm_file *a = c->slot[i];

		snprintf(why, sizeof(why), "f%u", i);
		if ((a != NULL) != f->slot[i].there)
			return why;
		if (a && a->names != f->slot[i].nlink)
			return why;
		for (unsigned j = 0; j < i; j++)
			if (a && c->slot[j] &&
			    (a == c->slot[j]) != (f->slot[i].ino == f->slot[j].ino))
				return why;
	}
	return NULL;
}

static const char *compare_data(const struct cm *c, const struct found *f)
{
	static char why[400];

	for (unsigned i = 0; i < CM_SLOTS; i++) {
		const struct cm_file *a = c->slot[i];
		const char *bad =
			a ? fm_check(&a->m, f->slot[i].data, f->slot[i].size) : NULL;

		if (!bad)
			continue;
		snprintf(why, sizeof(why), "file %u, f%u: %s", a->id, i, bad);
		return why;
	}
	return NULL;
}

/* For the report: the steps that concern what is found to be wrong. */
static void tell_steps(const struct verify *v, unsigned life, unsigned w, uint64_t from)
{
	const struct bounds *b = &v->b[life][w];
	struct cm c;

	cm_init(&c, cf_seed(v->seed, life, w));
	while (c.n < b->begun) {
		struct cm_step s = cm_next(&c);

		if (c.n + 1 >= from)
			printf("  #%llu %s f%u f%u off %zu len %zu%s%s\n",
			       (unsigned long long)c.n + 1, cm_op_name(s.op), s.a, s.b, s.off, s.len,
			       s.sync ? " sync" : "", c.n + 1 > b->done ? " (did not return)" : "");
		cm_data(&c, &s);
		cm_commit(&c, &s, NULL);
	}
	cm_done(&c);
}

static void verify_writer(struct verify *v, unsigned life, unsigned w)
{
	const struct bounds *b = &v->b[life][w];
	char what[16], why[500] = "no step has these names";
	uint64_t last = b->begun + b->closing;
	struct found f;
	struct cm c;
	bool ok = false;

	snprintf(what, sizeof(what), "l%uw%u", life, w);
	look(v, what, &f);
	cm_init(&c, cf_seed(v->seed, life, w));
	for (;;) {
		struct cm_step s = c.n < b->begun ? cm_next(&c) : cm_last();
		bool more = c.n < last;
		const char *bad = NULL;

		if (more)
			cm_data(&c, &s);
		if (c.n >= b->least && !compare_names(&c, &f)) {
			bad = compare_data(&c, &f);
			ok |= !bad;
		}
		if (bad)
			snprintf(why, sizeof(why), "names as after step %llu, but %s",
				 (unsigned long long)c.n, bad);
		if (ok || !more)
			break;
		cm_commit(&c, &s, NULL);
	}
	cm_done(&c);
	found_done(&f);
	if (ok)
		return;
	printf("%s: durable since step %llu, %llu returned, %llu begun%s: %s\n", what,
	       (unsigned long long)b->least, (unsigned long long)b->done,
	       (unsigned long long)b->begun, b->closing ? ", closing" : "", why);
	tell_steps(v, life, w, b->least > 20 ? b->least - 20 : 1);
	fflush(stdout);
	_exit(1);
}

/* ---- the file system ---- */

static int look_fsck(struct verify *v, const char *dir, const char *boot, const char *when)
{
	struct tess_fsck f = {.verify = true, .out = stdout};
	char why[TESS_WHY] = "";
	struct tess *t;
	int err = cf_open(&t, dir, TESS_LOOK, boot, why);

	/* A mkfs that did not end is no file system, but says so. */
	if (err < 0 && !v->made && *why) {
		printf("%s\n", why);
		return 1;
	}
	if (err < 0)
		cf_die("%s: open to look: %s", when, why);
	err = tess_fsck(t, &f, why);
	if (err < 0)
		cf_die("%s: fsck: %s", when, why);
	if (f.findings)
		cf_die("%s: fsck has %llu findings", when, (unsigned long long)f.findings);
	tess_close(t, why);
	return 0;
}

static void work_a_little(struct verify *v, const char *name)
{
	struct tess_req req;
	struct meta_attr a;
	struct fs_file *fh;
	uint8_t buf[20000];
	int err;

	fm_fill(buf, 5, 0, sizeof(buf));
	req_begin(&req, "verify");
	err = fs_create(v->fs, &req, cf_name(1, name), 0600, O_RDWR | O_CREAT | O_EXCL, &a, &fh);
	if (!err)
		err = fs_write(fh, &req, 0, buf, sizeof(buf));
	if (!err)
		err = fs_fsync(fh, &req, false);
	if (err < 0)
		cf_die("working on: %s", err_text(err));
	fs_release(fh, &req);
}

static void mounted(struct verify *v, const char *dir, const char *boot, const char *when)
{
	struct tess_gc gc = {0};
	char why[TESS_WHY];
	struct tess *t;

	if (cf_open(&t, dir, TESS_MOUNT, boot, why) < 0)
		cf_die("%s: open: %s", when, why);
	v->fs = tess_fs(t);
	printf("%s\n", when);
	for (unsigned life = 0; life < CF_LIVES; life++)
		for (unsigned w = 0; w < CF_WRITERS; w++)
			verify_writer(v, life, w);
	work_a_little(v, boot);
	if (tess_sync(t) < 0 || tess_gc(t, &gc, why) < 0)
		cf_die("%s: sync or gc: %s", when, why);
	if (tess_close(t, why) < 0)
		cf_die("%s: close: %s", when, why);
}

int main(int argc, char **argv)
{
	struct verify v = {0};
	char dir[600];

	if (argc != 4) {
		printf("usage: fsverify SEED DIR MARKS\n");
		return 2;
	}
	v.seed = strtoull(argv[1], NULL, 0);
	(void)cf_tiers(v.seed);
	snprintf(dir, sizeof(dir), "%s/fs", argv[2]);
	marks_read(&v, argv[3]);
	if (look_fsck(&v, dir, "cut-1", "after the cut"))
		return 0;
	mounted(&v, dir, "cut-1", "after the cut");
	look_fsck(&v, dir, "cut-1", "used again");
	mounted(&v, dir, "cut-2", "after another boot");
	look_fsck(&v, dir, "cut-2", "at last");
	return 0;
}
