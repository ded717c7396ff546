/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CUTLOG_H
#define TEST_CUTLOG_H
/*
 * What a process did to the files below a directory, in order: written by tests/preload/record.c,
 * read by tests/powercut/cut.c. A record is a header, then `path`, `path2` and `data` bytes.
 *
 * Paths are relative to the directory, which is "" itself. A file is known by its inode number from
 * its CUT_CREATE on. A sync covers what is before its CUT_SYNC when its CUT_SYNCED is there; both
 * have the same `len`.
 */
#include <stdint.h>

#define CUT_MAGIC 0x54554321u

enum cut_type {
	CUT_CREATE = 1,
	CUT_MKDIR,
	CUT_SYMLINK, /* data: where it leads */
	CUT_LINK,    /* path: the new name */
	CUT_RENAME,  /* path to path2 */
	CUT_UNLINK,
	CUT_RMDIR,
	CUT_WRITE,
	CUT_SIZE,   /* becomes len; grows with zeros */
	CUT_ZERO,   /* [off, off + len), size kept */
	CUT_SYNC,   /* of a file or directory; ino 0: of everything */
	CUT_SYNCED,
	CUT_MAPPED, /* for writing and shared: what is in it is not recorded, nor does it matter */
	CUT_MARK,   /* data: a line of the program's own */
};
#define CUT_DURABLE 1u /* a write that is durable when it returns */

struct cut_rec {
	uint32_t magic, type;
	uint64_t ino, off, len;
	uint32_t flags, path, path2, data;
};
#endif
