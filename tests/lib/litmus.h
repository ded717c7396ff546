/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_LITMUS_H
#define TEST_LITMUS_H
/*
 * Litmus programs: two or three parties do a few system calls on a few files, one after the other or
 * at once, and each call's result is compared with what the consistency mode allows. The programs are
 * the text tests/semantics/programs, which says how they are written. What is allowed follows from the
 * axes of the mode (when a write is visible, when a reader looks again …) and the times at which the
 * calls began and ended; a program says it itself only where no rule gives it.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <time.h>

#define LIT_PARTIES 3u
#define LIT_STEPS   40u
#define LIT_HANDLES 4u
#define LIT_BATCH   32u
#define LIT_TEXT    200u
#define LIT_WANTS   12u
#define LIT_ENVS    32u

enum lit_mode { LIT_STRICT, LIT_COMMIT, LIT_SESSION, LIT_LAMINATE, LIT_LAZY, LIT_PRIVATE, LIT_MODES };
/* The parties are threads of one process, processes on one mount, or (A, C) and (B) on two mounts. */
enum lit_place { LIT_THREADS, LIT_PROCS, LIT_MOUNTS, LIT_PLACES };

/*
 * What programs run in: a mode of the whole mount, or one that a mark, flags of open or options adjust.
 * A set of them has a bit for each; that of a mode is in the sets of all that its table holds for.
 */
#define LIT_TOLD INT64_MAX	/* late until `tessera invalidate` */
struct lit_env {
	const char   *name;
	enum lit_mode mode;	/* whose table holds */
	const char   *options;	/* of both mounts */
	const char   *mark;	/* of the directory that the programs run in; NULL: none */
	int	      flags;	/* of each open, besides its own */
	bool	      waits;	/* `wait` does */
	bool	      locks;	/* global, although the mode's are not */
	/* How late the changes of another mount may be: names, those of what was not there, stat(). */
	int64_t	      names, absent, attrs;
};
extern const struct lit_env lit_envs[];	/* the modes first, in their order; the last has no name */
unsigned lit_env_bits(const struct lit_env *e);

enum lit_op {
	OP_OPEN, OP_CLOSE, OP_WRITE, OP_READ, OP_APPEND, OP_SWRITE, OP_FSYNC, OP_FDATASYNC, OP_TRUNC,
	OP_FTRUNC, OP_STAT, OP_FSTAT, OP_UNLINK, OP_RENAME, OP_LINK, OP_MKDIR, OP_RMDIR, OP_LIST,
	OP_MMAP, OP_MREAD, OP_MWRITE, OP_MSYNC, OP_MUNMAP, OP_FLOCK, OP_SETLK, OP_OFD, OP_INCR,
	OP_COUNT, OP_DUP, OP_FWRITE, OP_FSWRITE, OP_PUNCH, OP_FALLOC, OP_UTIME, OP_LAM, OP_WAIT,
	OP_TALLY, OP_SYNCRANGE, OP_LOOP, OP_PAUSE, OP_INVAL, OP_STAMP, OP_MOVED, OP_FRESH, OP_LINKS,
	OP_OPS
};

struct lit_step {
	enum lit_op op;
	uint8_t	    party, phase;
	int	    h, h2;	/* handles */
	char	    f, g;	/* names; 0: none */
	int	    flags;	/* of open */
	long	    off, len, n;
	char	    fill, how, label;
};

/* `want [PLACES/ENV,…] x = a|b`, or of two steps together: `one xy`, `equal xy`. */
struct lit_want {
	enum { WANT_IN, WANT_ONE, WANT_EQUAL } kind;
	char	 labels[4];
	unsigned modes, places;
	char	 alts[80];
};

struct lit_prog {
	char		name[40], about[160], cells[160], setup[80];
	unsigned	skip[LIT_PLACES], shows[LIT_PLACES], only;	/* sets of environments */
	struct lit_step steps[LIT_STEPS];
	unsigned	nsteps, nphases, nwants;
	struct lit_want wants[LIT_WANTS];
	bool		waits, racing[LIT_STEPS];
};

/* What a step gave, and when. */
struct lit_obs {
	int64_t t0, t1;
	char	text[LIT_TEXT];
};

extern const char *const lit_places[LIT_PLACES];

/* All programs of a file; NULL: a line is wrong, said on stderr. */
struct lit_prog *lit_parse(const char *path, unsigned *ret_n);
void lit_describe(const struct lit_prog *p, unsigned step, char *buf, size_t cap);

/* A party at work. Each instance of a program has a directory of its own. */
struct lit_party {
	const char *root;
	unsigned    who;
	int64_t	    wait_ns;	/* what `wait` sleeps; 0: nothing */
	int	    fds[LIT_BATCH][LIT_HANDLES];
	int	    flags;	/* of each open */
	struct timespec stamp[LIT_BATCH][2];
	char	   *maps[LIT_BATCH][LIT_HANDLES];
	size_t	    lens[LIT_BATCH][LIT_HANDLES];
};
void lit_do(struct lit_party *p, const struct lit_step *s, const char *dir, unsigned slot,
	    char text[LIT_TEXT]);
void lit_party_init(struct lit_party *p);
void lit_party_reset(struct lit_party *p, unsigned slot);
int lit_setup(const struct lit_prog *p, const char *root, const char *dir);
int64_t lit_now(void);

/* The workers of a placement; what they did is in obs[slot][step]. */
struct lit_crew;
struct lit_crew *lit_crew_start(const struct lit_prog *progs, enum lit_place place,
				const char *const roots[2], const struct lit_env *env);
/* Runs `n` instances, named first, first + 1 …; 0, or -ETIMEDOUT: somebody hangs (said). */
int lit_crew_run(struct lit_crew *c, const struct lit_prog *p, unsigned first, unsigned n);
const struct lit_obs *lit_crew_obs(const struct lit_crew *c, unsigned slot);
void lit_crew_dir(char *buf, size_t cap, const struct lit_prog *p, enum lit_place place, unsigned inst);
void lit_crew_end(struct lit_crew *c);

struct lit_world {
	const struct lit_env *env;
	enum lit_place	      place;
};
/* The first step whose outcome is outside, or -1; `why` says what was allowed. */
#define LIT_INTERVAL INT64_C(400000000)	/* of options with interval=100ms, with room for a busy machine */
#define LIT_WAIT     INT64_C(500000000)
int lit_judge(const struct lit_prog *p, const struct lit_obs *obs, const struct lit_world *w,
	      char *why, size_t cap);
#endif
