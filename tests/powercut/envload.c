/* SPDX-License-Identifier: Apache-2.0 */
/* layer: base */
/*
 * A load on an environment, and the proof that what a power cut left of it is right.
 *
 *	envload DIR SEED			under tests/preload/record.c
 *	envload verify SEED DIR MARKS	by tests/powercut/cut
 *
 * Writers change keys of their own, and each commit also says how many steps its writer has made:
 * the content must be exactly that of some step, not before the last complete checkpoint. Each step
 * also appends to the file `side` and commits where: what is committed must be there, as the
 * caller's before_sync has it.
 */
#include "../lib/fmodel.h"
#include "base/env.h"
#include "base/err.h"
#include "base/text.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITERS	   2u
#define KEYS	   300u
#define VALUE_MAX  9000u
#define SIDE	   700u /* bytes of a step: no multiple of a sector */
#define LIVES	   5u	/* processes, one after the other */
#define LIFE_STEPS 500u

void powercut_mark(const char *line) __attribute__((weak));
void powercut_kill(void) __attribute__((weak));

enum { DB_DATA, DB_STEP };
static const char *const dbs[] = {"data", "step", NULL};

struct writer {
	unsigned id;
	uint64_t seed, step;
	uint64_t value[KEYS]; /* seeds; 0: not there */
};
struct step {
	unsigned key;
	uint64_t value; /* 0: removed */
};
struct load {
	struct env *env;
	int side;
	struct writer w[WRITERS];
	_Atomic uint64_t done[WRITERS];
	_Atomic uint64_t side_end;
	unsigned life;
};

static void die(const char *what, int err)
{
	printf("%s: %s\n", what, err_text(err));
	exit(1);
}

static void fail(const char *what, unsigned w, uint64_t step, uint64_t x)
{
	printf("writer %u at step %llu: %s (%llu)\n", w, (unsigned long long)step, what,
	       (unsigned long long)x);
	exit(1);
}

static struct step step_of(const struct writer *w, uint64_t n)
{
	uint64_t s = w->seed * 31 + w->id + n * UINT64_C(0x2545f4914f6cdd1d);
	struct step st = {.key = (unsigned)rnd_below(&s, KEYS)};

	st.value = rnd_below(&s, 4) ? rnd(&s) | 1 : 0;
	return st;
}

static size_t value_of(uint64_t seed, uint8_t buf[VALUE_MAX])
{
	uint64_t s = seed;
	size_t n = rnd_below(&s, 8) ? 1 + rnd_below(&s, 300) : 1 + rnd_below(&s, VALUE_MAX);

	fm_fill(buf, seed, 0, n);
	return n;
}

static void writer_advance(struct writer *w)
{
	struct step st = step_of(w, ++w->step);

	w->value[st.key] = st.value;
}

/* ---- load ---- */

struct commit {
	struct load *l;
	struct writer *w;
	uint64_t side;
};

static int commit_fn(void *arg, MDB_txn *txn)
{
	struct commit *c = arg;
	uint64_t n = c->w->step + 1, at[2] = {n, c->side};
	struct step st = step_of(c->w, n);
	uint32_t k[2] = {c->w->id, st.key};
	uint8_t buf[VALUE_MAX];
	MDB_val key = {sizeof(k), k}, val = {0, buf};
	int rc;

	if (st.value) {
		val.mv_size = value_of(st.value, buf);
		rc = mdb_put(txn, env_db(c->l->env, DB_DATA), &key, &val, 0);
	} else {
		rc = mdb_del(txn, env_db(c->l->env, DB_DATA), &key, NULL);
		rc = rc == MDB_NOTFOUND ? 0 : rc;
	}
	key.mv_size = sizeof(k[0]);
	val = (MDB_val){sizeof(at), at};
	if (!rc)
		rc = mdb_put(txn, env_db(c->l->env, DB_STEP), &key, &val, 0);
	return env_error(rc);
}

static void side_fill(const struct writer *w, uint64_t step, uint8_t buf[SIDE])
{
	fm_fill(buf, w->seed * 7 + w->id + step * 1000003, 0, SIDE);
}

static void load_step(struct load *l, struct writer *w)
{
	uint8_t buf[SIDE];
	struct commit c = {l, w, atomic_fetch_add(&l->side_end, SIDE)};
	int err;

	side_fill(w, w->step + 1, buf);
	if (pwrite(l->side, buf, SIDE, (off_t)c.side) != SIDE)
		die("side", -EIO);
	err = env_write(l->env, commit_fn, &c, NULL);
	if (err)
		die("env_write", err);
	writer_advance(w);
	atomic_store(&l->done[w->id], w->step);
}

static int before_sync(void *arg, uint64_t txnid)
{
	struct load *l = arg;

	(void)txnid;
	return fdatasync(l->side) < 0 ? -EIO : 0;
}

static void checkpoint(struct load *l)
{
	static atomic_uint serial;
	unsigned id = atomic_fetch_add(&serial, 1) + l->life * 1000000;
	char line[100];
	int err;

	snprintf(line, sizeof(line), "begin %u %llu %llu", id,
		 (unsigned long long)atomic_load(&l->done[0]),
		 (unsigned long long)atomic_load(&l->done[1]));
	if (powercut_mark)
		powercut_mark(line);
	err = env_checkpoint(l->env);
	if (err)
		die("env_checkpoint", err);
	snprintf(line, sizeof(line), "end %u", id);
	if (powercut_mark)
		powercut_mark(line);
}

struct thread {
	struct load *l;
	struct writer *w;
};

static void *run_writer(void *arg)
{
	struct thread *t = arg;
	uint64_t s = t->w->seed + t->w->step * 3 + t->w->id;

	for (unsigned i = 0; i < LIFE_STEPS; i++) {
		load_step(t->l, t->w);
		if (rnd_below(&s, 25) == 0)
			checkpoint(t->l);
		if (t->w->id == 0 && i > LIFE_STEPS / 2 && rnd_below(&s, 200) == 0 && powercut_kill)
			powercut_kill();
	}
	return NULL;
}

static void load_open(struct load *l, const char *dir, const char *boot)
{
	struct env_conf conf = {.dir = dir, .dbs = dbs, .map_size = 1u << 20, .boot_id = boot,
				.before_sync = before_sync, .arg = l};
	struct text why = TEXT_INIT;
	int err = env_open(&l->env, &conf, &why);

	if (err)
		die(text_str(&why), err);
}

static bool step_get(struct load *l, unsigned w, uint64_t ret[2])
{
	uint32_t k = w;
	MDB_val key = {sizeof(k), &k}, val;
	MDB_txn *txn;
	int rc, err = env_begin_read(l->env, &txn);

	if (err)
		die("env_begin_read", err);
	rc = mdb_get(txn, env_db(l->env, DB_STEP), &key, &val);
	if (rc == 0 && val.mv_size == 16)
		memcpy(ret, val.mv_data, 16);
	env_end_read(l->env, txn);
	if (rc && rc != MDB_NOTFOUND)
		die("steps", env_error(rc));
	return rc == 0;
}

/* The writers go on where the environment says they are. */
static void load_resume(struct load *l, uint64_t seed)
{
	uint64_t at[2];
	struct stat st;

	for (unsigned i = 0; i < WRITERS; i++) {
		l->w[i] = (struct writer){.id = i, .seed = seed};
		while (step_get(l, i, at) && l->w[i].step < at[0])
			writer_advance(&l->w[i]);
		atomic_store(&l->done[i], l->w[i].step);
	}
	if (fstat(l->side, &st) < 0)
		die("side", -errno);
	atomic_store(&l->side_end, (uint64_t)st.st_size);
}

/* The names of what is used here are the environment's owner's to keep. */
static void sync_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		die(dir, -errno);
	close(fd);
}

static int load_life(const char *dir, uint64_t seed, unsigned life)
{
	struct load l = {.life = life};
	struct thread t[WRITERS];
	pthread_t id[WRITERS];
	char path[4200];
	int err;

	snprintf(path, sizeof(path), "%s/side", dir);
	l.side = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	snprintf(path, sizeof(path), "%s/env", dir);
	if (l.side < 0 || (mkdir(path, 0700) < 0 && errno != EEXIST))
		die(path, -errno);
	sync_dir(dir);
	load_open(&l, path, NULL);
	load_resume(&l, seed);
	for (unsigned i = 0; i < WRITERS; i++) {
		t[i] = (struct thread){&l, &l.w[i]};
		pthread_create(&id[i], NULL, run_writer, &t[i]);
	}
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(id[i], NULL);
	err = env_close(l.env);
	if (err)
		die("env_close", err);
	return 0;
}

static int load(const char *dir, uint64_t seed)
{
	for (unsigned i = 0; i < LIVES; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0)
			exit(load_life(dir, seed, i));
		if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
			die("a life of the load", -EIO);
	}
	return 0;
}

/* ---- verify ---- */

/* How far each writer was when the last complete checkpoint began. */
static void marks_read(const char *path, uint64_t ret[WRITERS])
{
	unsigned long long id, a, b;
	struct begun {
		unsigned long long id, a, b;
	} *v = calloc(1, sizeof(*v));
	size_t n = 0;
	char line[200];
	FILE *f = fopen(path, "re");

	if (!f || !v)
		die(path, -errno);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "begin %llu %llu %llu", &id, &a, &b) == 3) {
			v = realloc(v, (n + 1) * sizeof(*v));
			if (!v)
				die(path, -ENOMEM);
			v[n++] = (struct begun){id, a, b};
		} else if (sscanf(line, "end %llu", &id) == 1) {
			for (size_t i = 0; i < n; i++)
				if (v[i].id == id) {
					ret[0] = v[i].a > ret[0] ? v[i].a : ret[0];
					ret[1] = v[i].b > ret[1] ? v[i].b : ret[1];
				}
		}
	}
	fclose(f);
	free(v);
}

static void verify_values(struct load *l, const struct writer *w)
{
	uint8_t buf[VALUE_MAX];
	size_t found = 0, want = 0, n;
	MDB_val key, val;
	MDB_cursor *c;
	MDB_txn *txn;
	int rc, err = env_begin_read(l->env, &txn);

	if (err)
		die("env_begin_read", err);
	rc = mdb_cursor_open(txn, env_db(l->env, DB_DATA), &c);
	for (MDB_cursor_op op = MDB_FIRST; !rc; op = MDB_NEXT) {
		uint32_t k[2];

		rc = mdb_cursor_get(c, &key, &val, op);
		if (rc)
			break;
		if (key.mv_size != sizeof(k))
			fail("a key of a wrong size", w->id, w->step, key.mv_size);
		memcpy(k, key.mv_data, sizeof(k));
		if (k[0] >= WRITERS || k[1] >= KEYS)
			fail("a key that was never written", w->id, w->step, k[1]);
		if (k[0] != w->id)
			continue;
		found++;
		if (!w->value[k[1]])
			fail("a key that was removed", w->id, w->step, k[1]);
		n = value_of(w->value[k[1]], buf);
		if (n != val.mv_size || memcmp(buf, val.mv_data, n))
			fail("a wrong value", w->id, w->step, k[1]);
	}
	if (rc != MDB_NOTFOUND)
		die("reading", env_error(rc));
	mdb_cursor_close(c);
	env_end_read(l->env, txn);
	for (unsigned i = 0; i < KEYS; i++)
		want += w->value[i] != 0;
	if (found != want)
		fail("keys are missing", w->id, w->step, want - found);
}

static void verify_writer(struct load *l, unsigned i, uint64_t seed, uint64_t least)
{
	uint64_t at[2] = {0, 0};
	uint8_t want[SIDE], got[SIDE];
	struct writer *w = &l->w[i];

	*w = (struct writer){.id = i, .seed = seed};
	if (step_get(l, i, at) && at[0] > UINT64_C(1000000))
		fail("a step that was never made", i, 0, at[0]);
	while (w->step < at[0])
		writer_advance(w);
	if (w->step < least)
		fail("a complete checkpoint had this step", i, w->step, least);
	verify_values(l, w);
	if (!w->step)
		return;
	side_fill(w, w->step, want);
	if (pread(l->side, got, SIDE, (off_t)at[1]) != SIDE || memcmp(want, got, SIDE))
		fail("committed, but what before_sync synced is not there", i, w->step, at[1]);
}

static int verify(uint64_t seed, const char *dir, const char *marks)
{
	static const char *const boot[] = {"cut-1", "cut-1", "cut-2"};
	uint64_t least[WRITERS] = {0};
	struct load l = {.life = 900};
	char path[4200];
	struct stat st;

	marks_read(marks, least);
	snprintf(path, sizeof(path), "%s/side", dir);
	l.side = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	snprintf(path, sizeof(path), "%s/env", dir);
	if (stat(path, &st) < 0) {
		if (least[0] || least[1])
			fail("the environment is gone", 0, 0, least[0]);
		return 0;
	}
	/* As it was left; with more written, closed and opened; after yet another cut, of nothing. */
	for (unsigned i = 0; i < 3; i++) {
		struct env_conf conf = {.dir = path, .dbs = dbs, .boot_id = boot[i],
					.before_sync = before_sync, .arg = &l};
		struct text why = TEXT_INIT;
		int err = env_open(&l.env, &conf, &why);

		/* Before the first checkpoint was complete there is nothing to lose. */
		if (err && i == 0 && !least[0] && !least[1] && why.n) {
			printf("%s\n", text_str(&why));
			return 0;
		}
		if (err)
			die(text_str(&why), err);
		load_resume(&l, seed);
		for (unsigned w = 0; w < WRITERS; w++)
			verify_writer(&l, w, seed, least[w]);
		for (unsigned k = 0; i < 2 && k < 60; k++)
			load_step(&l, &l.w[k % WRITERS]);
		for (unsigned w = 0; w < WRITERS; w++) {
			verify_values(&l, &l.w[w]);
			least[w] = l.w[w].step;
		}
		err = env_close(l.env);
		if (err)
			die("env_close", err);
		text_done(&why);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return load(argv[1], strtoull(argv[2], NULL, 0));
	if (argc == 5 && !strcmp(argv[1], "verify"))
		return verify(strtoull(argv[2], NULL, 0), argv[3], argv[4]);
	printf("usage: envload DIR SEED | verify SEED DIR MARKS\n");
	return 2;
}
