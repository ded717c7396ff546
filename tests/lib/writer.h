/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_WRITER_H
#define TEST_WRITER_H
/* One writer of the crash loop: a directory of its own, what is in it, and what must be. */
#include "fmodel.h"

#include <stdbool.h>
#include <stdint.h>

#define WR_NAMES 32	/* the last four are the temporary names of the rename idiom */
#define WR_TEMPS 4
#define WR_DIRS 4
#define WR_HANDLES 6
#define WR_RECORDS 8
#define WR_RECORD_SIZE 47008u
#define WR_HISTORY 1024

struct wr_file {
	struct fmodel m;
	uint32_t      id;
	uint32_t      names, handles;	/* freed when both are 0 */
};
struct wr_handle {
	int             fd;		/* -1: free */
	struct wr_file *file;
	bool            append, sync;
};
enum wr_kind { WR_NONE, WR_CREATE, WR_RENAME, WR_UNLINK, WR_MKDIR, WR_RMDIR };
struct wr_event {			/* for the report of a failure */
	uint32_t    file;
	const char *what;
	uint64_t    a, b;
};
struct writer {
	unsigned         id, nwriters;
	const char      *mnt;
	char             dir[512];
	uint64_t         rng, serial;
	bool             ready, failed;
	struct wr_file  *name[WR_NAMES];
	bool             has_dir[WR_DIRS];	/* made and removed at random; nothing goes into them */
	struct wr_handle handle[WR_HANDLES];
	struct fmodel    record[WR_RECORDS];	/* of the shared file */
	int              shared;		/* descriptor of it, or -1 */
	/* What was asked for and did not return: it happened or it did not. */
	enum wr_kind     flight;
	unsigned         from, to;
	struct wr_file  *file;
	struct wr_event  history[WR_HISTORY];
	uint32_t         nhistory, nfiles;
};

void writer_init(struct writer *w, const char *mnt, unsigned id, unsigned nwriters, uint64_t seed);
int  writer_step(struct writer *w);	/* one operation; non-zero: the mount is dead, or w->failed */
void writer_stop(struct writer *w, bool alive);	/* closes its handles; alive: that counts */
int  writer_verify(struct writer *w);	/* on the new mount; what is found is what it goes on with */
void writer_done(struct writer *w);

/* between the two files of it */
void writer_path(const struct writer *w, unsigned name, char *ret, size_t cap);
void writer_dir_path(const struct writer *w, unsigned d, char *ret, size_t cap);
void writer_shared_path(const struct writer *w, char *ret, size_t cap);
void writer_put(struct wr_file *f);	/* frees it when nothing holds it */
void writer_note(struct writer *w, uint32_t file, const char *what, uint64_t a, uint64_t b);
int  writer_fail(struct writer *w, uint32_t file, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#endif
