/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_POLICY_H
#define FS_POLICY_H
/*
 * Consistency is data: who sees what when, and what survives what, is a row of a table, chosen at
 * mount, marked on directories and files, and resolved once into a handle. tessera-semantics(7) is
 * this table in words, with the test behind each cell.
 *
 * Within one mount read-after-write, append and rename keep POSIX in every mode. The rows say what
 * another session (another mount of the same file system) may see.
 */
#include <stdbool.h>
#include <stdint.h>

enum tess_when { AT_WRITE, AT_FSYNC, AT_CLOSE, AT_INTERVAL, AT_PUBLISH, NEVER };
/* When an open handle looks again for what other sessions published */
enum tess_refresh { REFRESH_READ, REFRESH_OPEN, REFRESH_INTERVAL, REFRESH_NEVER };
enum tess_locks { LOCKS_GLOBAL, LOCKS_LOCAL, LOCKS_OFF };

/* Strictest first but for NONE: the numbers are in inode records. */
enum tess_mode {
	MODE_NONE,	/* an inode without a mark */
	MODE_STRICT,
	MODE_COMMIT,
	MODE_SESSION,
	MODE_LAMINATE,
	MODE_LAZY,
	MODE_PRIVATE,	/* of a whole mount, never of an inode */
	MODE_COUNT
};

#define POLICY_FOREVER INT64_MAX	/* a time to live without end */
#define POLICY_AUTO    INT64_C(-1)	/* 1 s while alone, 0 while the file system is shared */

struct tess_policy {
	enum tess_mode    mode;
	const char       *name;
	const char       *summary;		/* one line */
	enum tess_when    visible, durable;	/* to other sessions; against a power cut */
	enum tess_refresh refresh;
	int64_t           interval;		/* ns: T of AT_INTERVAL and REFRESH_INTERVAL */
	/* ns, or POLICY_*; dir: of entries that are directories */
	int64_t           attr_ttl, entry_ttl, dir_ttl, negative_ttl;
	bool              exact_size, exact_mtime;	/* false: stat may be late by attr_ttl */
	bool              relaxed_meta;		/* drop what the mapping does not need */
	bool              atomic_append;	/* between sessions */
	enum tess_locks   locks;
	bool              kernel_writeback;	/* for files this session alone writes */
	bool              keep_cache;		/* pages of an unchanged file live on at open */
	int64_t           data_ttl;		/* ns after the last close that they do, with keep_cache; 0: no limit */
	bool              direct_io;		/* reads and writes pass the page cache by */
	uint32_t          given;		/* enum policy_given: what the mount's own flags said */
};

/* A flag that was given holds for marked files too where it asks for more than their mark does. */
enum policy_given {
	GIVEN_ATTR = 1 << 0, GIVEN_ENTRY = 1 << 1, GIVEN_DIR = 1 << 2, GIVEN_NEGATIVE = 1 << 3,
	GIVEN_SIZE = 1 << 4, GIVEN_MTIME = 1 << 5, GIVEN_DATA = 1 << 6, GIVEN_DIRECT = 1 << 7,
};

/* The presets; index: enum tess_mode. MODE_NONE's has no name. */
extern const struct tess_policy policy_presets[MODE_COUNT];

enum tess_mode policy_mode(const char *name);	/* MODE_NONE: no such preset */
/*
 * What holds for an inode marked `mark` (MODE_NONE: not) on a mount whose policy is `mount`: the mark's
 * preset, with the mount's interval and explicit times to live. The mount's single flags may
 * tighten, never weaken it.
 */
void policy_resolve(const struct tess_policy *mount, enum tess_mode mark, struct tess_policy *ret);
/* Of meta=relaxed: how old names may be where nothing else says so. */
void policy_relax(struct tess_policy *p);
/* O_SYNC, O_DSYNC and O_DIRECT tighten a handle. */
void policy_tighten(struct tess_policy *p, int open_flags);

/* ---- policy_opts.c: from the options of a mount to its policy ---- */

enum policy_data { DATA_PRESET, DATA_ON, DATA_OFF, DATA_OTOC, DATA_TIME };

/* What was said; the first value of each enumeration and POLICY_UNSAID leave it to the preset. */
#define POLICY_UNSAID INT64_C(-2)
struct policy_opts {
	enum tess_mode mode;		/* MODE_NONE: session */
	const char    *mode_from;	/* for messages: whose mode it is when not the mount's; NULL: it is */
	enum { OPT_LOCKS_PRESET, OPT_LOCKS_GLOBAL, OPT_LOCKS_LOCAL, OPT_LOCKS_OFF } locks;
	enum { OPT_APPEND_PRESET, OPT_APPEND_ATOMIC, OPT_APPEND_LOCAL } append;
	enum policy_how { OPT_PRESET, OPT_STRICT, OPT_LAX } size, mtime, meta;
	bool           nocto;
	enum policy_switch { SWITCH_PRESET, SWITCH_ON, SWITCH_OFF } writeback, direct_io;
	int64_t        interval, actimeo;	/* ns */
	/* The cache times under the names that DFuse has for them, and its rule: one set, the others are 0. */
	int64_t        attr_time, dentry_time, dentry_dir_time, ndentry_time;
	enum policy_data data_cache;
	int64_t        data_time;	/* of DATA_TIME */
};
#define POLICY_OPTS_INIT                                                                           \
	{ .interval = POLICY_UNSAID, .actimeo = POLICY_UNSAID, .attr_time = POLICY_UNSAID,         \
	  .dentry_time = POLICY_UNSAID, .dentry_dir_time = POLICY_UNSAID,                          \
	  .ndentry_time = POLICY_UNSAID }

struct text;
/* 0, or -TESS_E_OPT_VALUE with one line that names the two options that contradict and what is legal. */
int policy_make(const struct policy_opts *o, struct tess_policy *ret, struct text *why);
void policy_time(int64_t ns, struct text *out);	/* "30s", "1250ms", "unlimited" */
/* Words for what a policy says; the times to live as in force while `shared` or not. */
void policy_text(const struct tess_policy *p, bool shared, struct text *out);	/* "name value\n" each */
void policy_json(const struct tess_policy *p, bool shared, struct text *out);	/* members, no braces */
void policy_table(bool json, struct text *out);					/* the presets */
#endif
