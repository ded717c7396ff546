/* SPDX-License-Identifier: Apache-2.0 */
#ifndef META_CODEC_H
#define META_CODEC_H
/*
 * Packs, unpacks and validates the records and keys of format.h. Pure. A *_get() returns 0 or
 * -TESS_E_RECORD, for whatever bytes it is given; a *_put() returns the length it wrote, and what
 * it wrote always passes the *_get().
 */
#include "base/pack.h"
#include "meta/format.h"
#include "meta/lock.h"
#include "meta/meta.h"
#include <string.h>

/* ---- keys ---- */

struct fmt_key {
	size_t n;
	uint8_t b[8 + TESS_NAME_MAX];
};
static inline void fmt_be64(void *p, uint64_t x)
{
	put_be64(p, x);
}
static inline uint64_t fmt_be64_get(const void *p)
{
	return get_be64(p);
}
static inline uint32_t fmt_be32_get(const void *p)
{
	return get_be32(p);
}
static inline struct kv_val key_u64(struct fmt_key *k, uint64_t a)
{
	fmt_be64(k->b, a);
	k->n = 8;
	return kv_val(k->b, 8);
}
static inline struct kv_val key_u64_u64(struct fmt_key *k, uint64_t a, uint64_t b)
{
	fmt_be64(k->b, a);
	fmt_be64(k->b + 8, b);
	k->n = 16;
	return kv_val(k->b, 16);
}
static inline struct kv_val key_u32(struct fmt_key *k, uint32_t a)
{
	put_be32(k->b, a);
	k->n = 4;
	return kv_val(k->b, 4);
}
static inline struct kv_val key_u32_u64(struct fmt_key *k, uint32_t a, uint64_t b)
{
	(void)key_u32(k, a);
	fmt_be64(k->b + 4, b);
	k->n = 12;
	return kv_val(k->b, 12);
}
static inline struct kv_val key_xattr(struct fmt_key *k, uint64_t ino, const char *name, size_t n)
{
	fmt_be64(k->b, ino);
	memcpy(k->b + 8, name, n);
	k->n = 8 + n;
	return kv_val(k->b, k->n);
}
static inline struct kv_val key_change(struct fmt_key *k, uint64_t serial, uint8_t kind, uint64_t ino)
{
	fmt_be64(k->b, serial);
	k->b[8] = kind;
	fmt_be64(k->b + 9, ino);
	k->n = 17;
	return kv_val(k->b, 17);
}
static inline struct kv_val key_str(const char *s)
{
	return kv_val(s, strlen(s));
}

/* ---- records ---- */

struct fmt_dentry {
	uint64_t ino;
	uint32_t type;	  /* S_IFMT bits */
	const char *name; /* in the record */
	size_t nlen;
};
struct fmt_extent {
	uint64_t len;
	tess_segid seg;
	uint64_t seg_off;
	uint64_t turn;
};

/* ino is the key's. */
size_t codec_inode_put(uint8_t buf[FMT_INODE_LEN], const struct meta_attr *a);
int codec_inode_get(struct kv_val v, uint64_t ino, struct meta_attr *ret);
size_t codec_dentry_put(uint8_t buf[FMT_DENTRY_MAX], const struct fmt_dentry *d);
int codec_dentry_get(struct kv_val v, struct fmt_dentry *ret);
size_t codec_extent_put(uint8_t buf[FMT_EXTENT_MAX], const struct fmt_extent *e);
/* From key and value. */
int codec_extent_get(struct kv_val key, struct kv_val v, uint64_t *ret_ino,
		     struct tess_extent *ret);
size_t codec_segment_put(uint8_t buf[FMT_SEGMENT_MAX], const struct meta_segment *s);
int codec_segment_get(struct kv_val v, tess_segid id, struct meta_segment *ret);
size_t codec_garbage_put(uint8_t buf[FMT_GARBAGE_MAX], const struct meta_garbage *g);
int codec_garbage_get(struct kv_val v, uint64_t serial, struct meta_garbage *ret);
size_t codec_session_put(uint8_t buf[FMT_SESSION_MAX], const struct meta_session *s);
int codec_session_get(struct kv_val v, uint32_t id, struct meta_session *ret);
size_t codec_change_put(uint8_t buf[FMT_CHANGE_MAX], uint32_t session, struct kv_val name);
/* From key and value; the name stays the record's. */
int codec_change_get(struct kv_val key, struct kv_val v, struct meta_change *ret);
/* A record that is a u64. */
size_t codec_u64_put(uint8_t buf[FMT_HEAD + 8], enum fmt_tag tag, uint64_t x);
int codec_u64_get(struct kv_val v, enum fmt_tag tag, uint64_t *ret);
/* A lock is in its key as much as in its record. */
struct kv_val key_lock(struct fmt_key *k, const struct meta_lock *l);
size_t codec_lock_put(uint8_t buf[FMT_LOCK_LEN], const struct meta_lock *l);
int codec_lock_get(struct kv_val key, struct kv_val v, struct meta_lock *ret);
/* Head, then raw bytes: xattr values, symlinks, checksums. *ret is what follows the head. */
void codec_head_put(uint8_t *buf, enum fmt_tag tag);
int codec_bytes_get(struct kv_val v, enum fmt_tag tag, struct kv_val *ret);
uint32_t codec_csum_get(struct kv_val bytes, uint32_t i); /* i < bytes.n / 4 */
/* Owned by the caller. NULL: out of memory. */
uint8_t *codec_super_put(const struct meta_super *s, size_t *ret_n);
/* -TESS_E_FORMAT_MAGIC, -TESS_E_FORMAT_NEWER, -TESS_E_RECORD. ret is written in the latter two
 * cases too, as far as read. */
int codec_super_get(struct kv_val v, struct meta_super *ret);

bool codec_mode_ok(uint32_t mode); /* a known file type */
bool codec_name_ok(const char *name, size_t n);
#endif
