/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every program of tests/semantics/programs, in every mode and placement, RUNS times: no outcome
 * outside what the mode allows, and each relaxed mode shows its relaxation at least once. And in what
 * has a mode from a mark, or adjusts one (tests/lib/litmus_env.c); of those, unless RUNS or PLACES are
 * given, a few runs on two mounts.
 * layer: mount
 * Environment: RUNS, MODES and PLACES (lists with commas), FILTER (part of a program's name);
 * MOUNT_AS=OPTIONS mounts so and judges as MODES say, to see the judge find something.
 */
#include "litmus.h"
#include "mnt.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KINDS 24u
#define FEW   3u
#define MORE  10u	/* batches for those that have not shown their relaxation: others may be too slow */

struct tally {
	bool	 on;	/* runs in this batch */
	unsigned runs, bad, relaxed, kinds;
	unsigned count[KINDS];
	char	 text[KINDS][LIT_TEXT], why[500];
};

static struct lit_prog *progs;
static unsigned nprogs, passed, failed, skipped;
static struct mnt m1, m2;
static char roots[2][540];

static bool listed(const char *env, const char *word)
{
	const char *list = getenv(env);
	size_t n = strlen(word);

	if (!list || !*list)
		return true;
	for (const char *s = list; *s; s += strcspn(s, ","), s += *s == ',')
		if (strcspn(s, ",") == n && !strncmp(s, word, n))
			return true;
	return false;
}

static bool wanted(const struct lit_prog *p, const struct lit_world *w)
{
	const char *f = getenv("FILTER");

	unsigned bits = lit_env_bits(w->env);

	return (!f || strstr(p->name, f)) && !(p->skip[w->place] & bits) && (!p->only || p->only & bits);
}

static bool hides(const struct lit_prog *p, const struct lit_world *w, const struct tally *t)
{
	return p->shows[w->place] & lit_env_bits(w->env) && !t->relaxed;
}

/* What the observing steps gave, and what failed. */
static void outcome(const struct lit_prog *p, const struct lit_obs *obs, char *text)
{
	size_t n = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < p->nsteps && n < LIT_TEXT; i++) {
		const struct lit_step *s = &p->steps[i];

		if (s->label || strcmp(obs[i].text, "ok"))
			n += (size_t)snprintf(text + n, LIT_TEXT - n, "%s%s", n ? " " : "", obs[i].text);
	}
	if (!n)
		(void)snprintf(text, LIT_TEXT, "ok");
}

static void count(struct tally *t, const char *text)
{
	unsigned i = 0;

	while (i < t->kinds && strcmp(t->text[i], text))
		i++;
	if (i == t->kinds && t->kinds < KINDS)
		(void)snprintf(t->text[t->kinds++], LIT_TEXT, "%s", text);
	if (i < KINDS)
		t->count[i]++;
}

static void judge_run(const struct lit_prog *p, const struct lit_obs *obs, const struct lit_world *w,
		      struct tally *t)
{
	const struct lit_world strict = { .env = &lit_envs[LIT_STRICT], .place = w->place };
	char text[LIT_TEXT], why[200], step[60];
	int bad = lit_judge(p, obs, w, why, sizeof(why));

	outcome(p, obs, text);
	count(t, text);
	t->runs++;
	if (bad >= 0) {
		lit_describe(p, (unsigned)bad, step, sizeof(step));
		if (!t->bad++)
			(void)snprintf(t->why, sizeof(t->why), "step %s gave %s; allowed: %s", step,
				       obs[bad].text, why);
	} else if (lit_judge(p, obs, &strict, why, sizeof(why)) >= 0) {
		t->relaxed++;
	}
}

static int rm_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag;
	if (ftw->level)
		(void)remove(path);
	return 0;
}

static int setup(const struct lit_world *w, const struct tally *t, unsigned first, unsigned n)
{
	bool both = w->env->mode == LIT_PRIVATE && w->place == LIT_MOUNTS;

	for (unsigned k = 0; k < 1 + (unsigned)both; k++)
		for (unsigned i = 0; i < nprogs; i++) {
			char path[1200], dir[80];

			if (!t[i].on)
				continue;
			(void)snprintf(path, sizeof(path), "%s/%s.%s", roots[k], progs[i].name,
				       lit_places[w->place]);
			if (mkdir(path, 0777) && errno != EEXIST) {
				perror(path);
				return -1;
			}
			for (unsigned s = 0; s < n; s++) {
				lit_crew_dir(dir, sizeof(dir), &progs[i], w->place, first + s);
				if (lit_setup(&progs[i], roots[k], dir)) {
					perror(progs[i].name);
					return -1;
				}
			}
		}
	if (w->env->waits || w->env->names)
		nanosleep(&(struct timespec){ .tv_nsec = LIT_WAIT }, NULL);
	if (w->place == LIT_MOUNTS && (w->env->names == LIT_TOLD || w->env->attrs == LIT_TOLD))
		return mnt_tessera(&m2, "invalidate", m2.dir, NULL);
	return 0;
}

/* A batch of every program; the wait for what a lazy setup made is one for all. */
static int run_batch(struct lit_crew *crew, const struct lit_world *w, struct tally *t, unsigned first,
		     unsigned n)
{
	if (setup(w, t, first, n))
		return -1;
	for (unsigned i = 0; i < nprogs; i++) {
		const struct lit_prog *p = &progs[i];
		unsigned step = p->waits ? n : 1;

		if (!t[i].on)
			continue;
		for (unsigned at = 0; at < n; at += step) {
			if (lit_crew_run(crew, p, first + at, step))
				return -1;
			for (unsigned s = 0; s < step; s++)
				judge_run(p, lit_crew_obs(crew, s), w, &t[i]);
		}
	}
	(void)nftw(roots[0], rm_one, 32, FTW_DEPTH | FTW_PHYS);
	if (m2.pid && w->env->mode == LIT_PRIVATE)
		(void)nftw(roots[1], rm_one, 32, FTW_DEPTH | FTW_PHYS);
	return 0;
}

static void report(const struct lit_world *w, const struct tally *t)
{
	const char *env = w->env->name, *place = lit_places[w->place];
	unsigned relaxed = 0, bad = 0, ran = 0;

	for (unsigned i = 0; i < nprogs; i++) {
		if (!t[i].runs)
			continue;
		bool hidden = hides(&progs[i], w, &t[i]);

		printf("%s %s %-24s %u runs:", env, place, progs[i].name, t[i].runs);
		for (unsigned k = 0; k < t[i].kinds; k++)
			printf(" {%s} %u", t[i].text[k], t[i].count[k]);
		printf("%s%s\n", t[i].relaxed ? ", relaxed" : "", t[i].bad || hidden ? "" : ", PASS");
		if (t[i].bad)
			printf("FAILED: %s %s %s: %u of %u outside: %s\n", env, place, progs[i].name, t[i].bad,
			       t[i].runs, t[i].why);
		if (hidden)
			printf("FAILED: %s %s %s: never shows the relaxation\n", env, place, progs[i].name);
		ran++;
		bad += t[i].bad || hidden;
		relaxed += !!t[i].relaxed;
	}
	passed += ran - bad;
	failed += bad;
	if (w->place != LIT_MOUNTS || (w->env->mode == LIT_STRICT && !w->env->names) || getenv("FILTER"))
		return;
	if (relaxed)
		passed++;
	else
		failed++;
	printf("%s%s c: %u programs show the relaxation\n", relaxed ? "" : "FAILED: ", env, relaxed);
}

static void run_place(const struct lit_world *w, unsigned runs)
{
	const char *const dirs[2] = { roots[0], roots[1] };
	struct tally *t = calloc(nprogs, sizeof(*t));
	struct lit_crew *crew;
	int64_t t0 = lit_now();
	unsigned at;
	int err = 0;

	if (!listed("PLACES", lit_places[w->place])) {
		free(t);
		return;
	}
	crew = lit_crew_start(progs, w->place, dirs, w->env);
	for (unsigned i = 0; i < nprogs; i++)
		t[i].on = wanted(&progs[i], w);
	for (at = 0; at < runs && !err; at += LIT_BATCH)
		err = run_batch(crew, w, t, at, runs - at < LIT_BATCH ? runs - at : LIT_BATCH);
	for (unsigned more = 0; more < MORE && !err; more++, at += FEW) {
		unsigned n = 0;

		for (unsigned i = 0; i < nprogs; i++)
			n += t[i].on = t[i].on && hides(&progs[i], w, &t[i]);
		err = n ? run_batch(crew, w, t, at, FEW) : 0;
	}
	lit_crew_end(crew);
	report(w, t);
	if (err) {
		printf("FAILED: %s %s: ended early\n", w->env->name, lit_places[w->place]);
		failed++;
	}
	printf("%s %s: %.1f s\n", w->env->name, lit_places[w->place], (double)(lit_now() - t0) / 1e9);
	(void)fflush(stdout);
	free(t);
}

/* What is marked is a directory, before anything is in it. */
static int mount_first(const struct lit_env *env, const char *options)
{
	const char *below = env->mark ? "/marked" : "";

	mnt_init(&m1, env->name);
	mnt_init(&m2, "second");
	memcpy(m2.fs, m1.fs, sizeof(m2.fs));
	(void)snprintf(roots[0], sizeof(roots[0]), "%s%s", m1.dir, below);
	(void)snprintf(roots[1], sizeof(roots[1]), "%s%s", m2.dir, below);
	if (mnt_mkfs(&m1, NULL, NULL) || mnt_mount(&m1, options))
		return -1;
	if (env->mark && (mkdir(roots[0], 0777) || mnt_tessera(&m1, "setlayout", roots[0], "-M", env->mark, NULL)))
		return -1;
	return 0;
}

static void run_env(const struct lit_env *env)
{
	struct lit_world w = { .env = env };
	const char *as = getenv("MOUNT_AS"), *options = as && *as ? as : env->options;
	bool few = env > &lit_envs[LIT_PRIVATE] && !getenv("RUNS");
	unsigned runs = (unsigned)mnt_env("RUNS", few ? FEW : 20);

	if (mount_first(env, options)) {
		printf("FAILED: %s: no mount\n", env->name);
		mnt_show_log(&m1, 5);
		failed++;
		mnt_end(&m1);
		return;
	}
	for (w.place = few && !getenv("PLACES") ? LIT_MOUNTS : LIT_THREADS; w.place < LIT_PLACES; w.place++) {
		if (w.place == LIT_MOUNTS && mnt_mount(&m2, options)) {
			printf("FAILED: %s: no second mount\n", env->name);
			failed++;
			break;
		}
		run_place(&w, runs);
	}
	if ((m2.pid && mnt_umount(&m2)) || mnt_umount(&m1) || mnt_fsck(&m1, true)) {
		printf("FAILED: %s: umount or fsck\n", env->name);
		mnt_show_log(&m1, 20);
		failed++;
	} else {
		passed++;
	}
	mnt_end(&m2);
	mnt_end(&m1);
}

int main(int argc, char **argv)
{
	progs = lit_parse(argc > 1 ? argv[1] : "tests/semantics/programs", &nprogs);
	if (!progs)
		return 1;
	mnt_need();
	for (const struct lit_env *e = lit_envs; e->name; e++)
		if (listed("MODES", e->name))
			run_env(e);
	printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
	free(progs);
	return failed ? 1 : 0;
}
