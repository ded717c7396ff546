/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_TYPES_H
#define TESSERA_TYPES_H
/*
 * The nouns of Tessera, shared by every layer and by mapper plug-ins.
 *
 * Units: every length and offset is in bytes and 64 bits wide, every time is
 * nanoseconds since the Unix epoch, signed 64 bits. Numbers are host order in
 * memory; what is stored on disk is defined in src/meta/format.h alone.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <sys/uio.h>

#define TESS_ROOT_INO		UINT64_C(1)
#define TESS_NAME_MAX		255u
#define TESS_SYMLINK_MAX	4095u		/* as Linux: PATH_MAX less the NUL */
#define TESS_FILE_MAX		INT64_MAX	/* largest offset the kernel can ask for */

#define TESS_BLOCK		4096u		/* one checksum covers this much of a segment */
#define TESS_SEGMENT_MIN	(UINT64_C(64) << 10)
#define TESS_SEGMENT_MAX	(UINT64_C(64) << 20)
#define TESS_SEGMENT_DEFAULT	(UINT64_C(4) << 20)
#define TESS_TARGETS_MAX	64u		/* targets of one file system */
#define TESS_SHARDS_MAX		64u		/* objects of one segment */

/* A half-open byte range [off, off + len); off + len never overflows (see base/range.h). */
struct tess_range {
	uint64_t off;
	uint64_t len;
};

/*
 * A segment id: the session that wrote it in the high half, its serial in that session in the
 * low half, so that ids need no transaction to be unique and an orphan names its writer.
 * 0 is never a segment.
 */
typedef uint64_t tess_segid;

/* What is written where: file range → bytes of a segment. */
struct tess_extent {
	uint64_t   off;		/* in the file */
	uint64_t   len;		/* > 0 */
	tess_segid seg;
	uint64_t   seg_off;	/* in the segment */
	uint64_t   turn;	/* when it was written, among all sessions' writes of these bytes; 0: before all */
};

/* Scattered memory. `len` is the sum over iov[0..n). Who owns the bytes is said where it is used. */
struct tess_iov {
	struct iovec *iov;
	unsigned      n;
	uint64_t      len;
};

#define TESS_PACKED_INO UINT64_MAX	/* "many files", where a segment's owner is asked for */
#endif
