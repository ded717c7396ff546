/* SPDX-License-Identifier: Apache-2.0 */
#ifndef META_FORMAT_H
#define META_FORMAT_H
/*
 * Every key and record as stored, and nothing else. Keys are big-endian, so that byte order is the
 * order of numbers; records are little-endian and packed, each behind a two-byte head: a tag that
 * says which record it is and that record's version. A reader refuses a version it does not know;
 * the super record's feature bits say beforehand whether it will meet one.
 *
 *   database  key                               record
 *   super     "super"                           'S'  the file system, its targets
 *             "next-ino", "next-session"        'N'  u64: the next one not handed out
 *             "sessions"                        'U'  u64: how many there are; high half: how many are fenced
 *             "change-floor"                    'N'  u64: notes of commits up to it may have been dropped unseen
 *   inode     ino 8                             'I'  attributes, fixed size
 *   dentry    parent 8, cookie 8                'D'  type, ino, name
 *   xattr     ino 8, name 1..255                'X'  value
 *             ino 8                             'L'  a symlink's target
 *   extent    ino 8, offset 8                   'E'  length, segment, offset in it; of a file that
 *                                                    others may have been writing, the turn
 *   segment   id 8                              'G'  class, state, length, live bytes, targets
 *   csum      id 8                              'C'  u32 for each block of the segment
 *   garbage   serial 8                          'W'  kind, died, the segment record; of a move, whose
 *   session   session 4                         'P'  the process
 *             session 4, segment 8              'T'  a staged segment of it; u64: 0, or its garbage
 *                                                          serial
 *   orphan    session 4, ino 8                  'O'  u64: the commit since when that session holds it
 *   change    commit 8, kind 1, ino 8           'H'  whose; the name, of a name's change
 *             … and for a name: cookie 8
 *   lock      ino 8, session 4, owner 8, kind 1, start 8
 *                                               'K'  type, pid, end: a lock that is held
 *             the same, kind | 128, number 8    'K'  and start, ticket: one that is waited for
 *
 * A dentry's cookie is hash55 << 8 | collision: positive as a signed number, above 2 (1 and 2 are
 * "." and ".."), and it stays with the entry for life, because readdir resumes by it.
 */
#define FMT_VERSION   1u /* of the file system */
#define FMT_MAGIC     "tessera\n"
#define FMT_MAGIC_LEN 8u
/* Feature bits that this program knows. An unknown incompat bit refuses, ro_compat refuses writing.
 */
#define FMT_COMPAT_KNOWN    0u
#define FMT_RO_COMPAT_KNOWN 0u
#define FMT_INCOMPAT_KNOWN  0u

#define FMT_KEY_SUPER	     "super"
#define FMT_KEY_NEXT_INO     "next-ino"
#define FMT_KEY_NEXT_SESSION "next-session"
#define FMT_KEY_SESSIONS     "sessions"
#define FMT_KEY_CHANGE_FLOOR "change-floor"

enum fmt_tag {
	FMT_SUPER = 'S',
	FMT_NEXT = 'N',
	FMT_INODE = 'I',
	FMT_DENTRY = 'D',
	FMT_XATTR = 'X',
	FMT_SYMLINK = 'L',
	FMT_EXTENT = 'E',
	FMT_SEGMENT = 'G',
	FMT_CSUM = 'C',
	FMT_GARBAGE = 'W',
	FMT_SESSION = 'P',
	FMT_STAGED = 'T',
	FMT_ORPHAN = 'O',
	FMT_COUNT = 'U',
	FMT_CHANGE = 'H',
	FMT_LOCK = 'K',
};
#define FMT_RECORD_VERSION 1u /* of every record so far */
#define FMT_HEAD	   2u

#define FMT_FIRST_INO  16u  /* below: the root, and what may come */
#define FMT_COOKIE_MIN 256u /* hash55 is never 0 */
#define FMT_COLLISIONS 256u

/* Sizes, head included. */
#define FMT_INODE_LEN	(FMT_HEAD + 5 * 4 + 9 * 8 + 2 + 2 + 4)
#define FMT_EXTENT_MAX	(FMT_HEAD + 4 + 8 + 4 + 8)
#define FMT_SEGMENT_MAX (FMT_HEAD + 2 + 1 + 1 + 4 + 8 + 8 + 8 + 64 * 2 + 8)
#define FMT_DENTRY_MAX	(FMT_HEAD + 1 + 8 + 255)
#define FMT_SESSION_MAX (FMT_HEAD + 3 * 2 + 64 + 36 + 255 + 8 + 4 + 8 + 6 * 8 + 1)
#define FMT_CHANGE_MAX	(FMT_HEAD + 4 + 255)
#define FMT_GARBAGE_MAX (1 + FMT_HEAD + 8 + 8 + FMT_SEGMENT_MAX + 4)
#define FMT_LOCK_KEY	(8 + 4 + 8 + 1 + 8)
#define FMT_LOCK_LEN	(FMT_HEAD + 1 + 4 + 3 * 8)
#define FMT_XATTR_MAX	65536u /* of a value, as Linux */
#endif
