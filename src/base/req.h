/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_REQ_H
#define BASE_REQ_H
/*
 * Who asks. One per FUSE request, tool command or background job; passed down by pointer, borrowed
 * by everything below until the reply. No thread-local "current request".
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tess_req {
	uint64_t    id;		/* unique in the process; in every log line */
	const char *op;		/* "write"; static */
	uint64_t    ino;	/* what it is about, 0 unknown */
	int64_t     start;	/* clock_now() */
	int64_t     deadline;	/* clock_now() scale; CLOCK_NEVER */
	uid_t       uid;
	gid_t       gid;
	pid_t       pid;
	mode_t      umask;
	atomic_bool cancelled;	/* the application was killed: give up where it is safe */
};
void req_begin(struct tess_req *r, const char *op);	/* zeroes, numbers and stamps; no deadline */
bool req_expired(const struct tess_req *r);		/* cancelled or past its deadline */
#endif
