/* SPDX-License-Identifier: Apache-2.0 */
#ifndef META_KV_H
#define META_KV_H
/*
 * The ordered-KV transaction that the namespace is written on: the only thing an engine implements.
 * Ten calls. POSIX semantics live once, above. Nothing above may assume that a get is free (an engine may be
 * a network away) or that the process is alone.
 *
 * Isolation: a read transaction sees one snapshot; write transactions are serialisable. An engine
 * without a single writer reports a conflict at commit as -TESS_E_KV_CONFLICT and kv_run() runs the
 * closure again.
 */
#include "base/trace.h"
#include "base/words.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv;
struct kv_txn;
struct text;

/* One ordered map each; keys compare as byte strings. */
enum kv_db {
	KV_SUPER,	/* name → record */
	KV_INODE,	/* ino → inode */
	KV_DENTRY,	/* parent, name hash, collision → name, ino, type */
	KV_XATTR,	/* ino, name → value */
	KV_EXTENT,	/* ino, offset → length, segment, segment offset */
	KV_SEGMENT,	/* id → class, shards' targets, length, live bytes, state */
	KV_CSUM,	/* id → CRC32C per block; written once */
	KV_GARBAGE,	/* serial → segment or staging file that may go */
	KV_SESSION,	/* id → session */
	KV_ORPHAN,	/* session, ino → unlinked but maybe open */
	KV_CHANGE,	/* commit, kind, ino → what other sessions have to hear of */
	KV_LOCK,	/* ino, session, owner, kind, start → a lock held, or waited for */
	KV_NDBS
};

struct kv_val {
	const void *p;	/* from get and cursors: the engine's, valid until the next put/del or the end of the transaction */
	size_t      n;
};
static inline struct kv_val kv_val(const void *p, size_t n)
{
	struct kv_val v = { p, n };
	return v;
}

enum kv_fact { KV_FACT_DURABLE, KV_FACT_LAST, KV_FACT_BYTES };

struct kv_ops {
	const char *name;
	int  (*begin)(struct kv *kv, bool write, struct kv_txn **ret);
	int  (*commit)(struct kv_txn *txn, uint64_t *ret_serial);	/* always ends txn. serial: grows with every commit */
	void (*abort)(struct kv_txn *txn);				/* ends a read or write txn */
	int  (*get)(struct kv_txn *txn, enum kv_db db, struct kv_val key, struct kv_val *ret);	/* -ENOENT */
	int  (*put)(struct kv_txn *txn, enum kv_db db, struct kv_val key, struct kv_val val);	/* replaces */
	int  (*del)(struct kv_txn *txn, enum kv_db db, struct kv_val key);	/* -ENOENT */
	/* The first pair with key >= *key (dir > 0) or the last with key <= *key (dir < 0). -ENOENT past the end. */
	int  (*seek)(struct kv_txn *txn, enum kv_db db, int dir, struct kv_val *key, struct kv_val *ret);
	/* The pair after (before) the one that the last seek or step of this db in this txn returned. */
	int  (*step)(struct kv_txn *txn, enum kv_db db, int dir, struct kv_val *ret_key, struct kv_val *ret);
	int  (*sync)(struct kv *kv);	/* all commits so far, with what before_sync covers, survive a power cut */
	void (*close)(struct kv *kv);	/* sync first, if the caller cares for its error */

	/* Facts, not part of the ten. */
	uint64_t (*fact)(struct kv *kv, enum kv_fact f);
	int  (*count)(struct kv_txn *txn, enum kv_db db, uint64_t *ret);	/* pairs in db; O(1) */
	int  (*reap)(struct kv *kv);	/* NULL: nothing to reap */
	shared_word *(*words)(struct kv *kv);	/* [KV_WORDS]; NULL: opened to look only */
};
#define KV_WORDS 32768u

/* First member of an engine's struct. */
struct kv {
	const struct kv_ops *ops;
	struct trace_counter count[2];	/* transactions through the front below: [write] */
};
struct kv_txn {
	struct kv *kv;
	bool       write;
	uint64_t   serial;	/* of the snapshot; of a write: what its commit will have */
	void      *ctx;		/* of whoever runs the closure; NULL from kv_run() */
};

struct kv_conf {
	const char *dir;
	bool        create, readonly;
	uint64_t    map_size;	/* 0: default */
	const char *boot_id;	/* NULL, or a test's */
	int       (*before_sync)(void *arg, uint64_t serial);	/* syncs what commits <= serial refer to: staging, stores */
	void       *arg;
};
int kv_lmdb_open(struct kv **ret, const struct kv_conf *conf, struct text *why);
int kv_mem_open(struct kv **ret, const struct kv_conf *conf, struct text *why);	/* tests; dir ignored */
/*
 * `on`, which becomes the new one's, as far away as `ns`: each read transaction begins and each commit
 * ends so much later.
 */
int kv_latency_open(struct kv **ret, struct kv *on, int64_t ns);

/*
 * Runs fn in one transaction. A write commits when fn returns 0 and aborts otherwise; fn may run several
 * times (conflict, map growth) and so has no side effect outside txn but on its own *arg, which it
 * rewrites whole. *ret_serial (may be NULL) is the commit's serial.
 */
int kv_read(struct kv *kv, int (*fn)(struct kv_txn *, void *arg), void *arg);
int kv_run(struct kv *kv, int (*fn)(struct kv_txn *, void *arg), void *arg, uint64_t *ret_serial);

/* The asserting front. */
int kv_get(struct kv_txn *t, enum kv_db db, struct kv_val key, struct kv_val *ret);
int kv_put(struct kv_txn *t, enum kv_db db, struct kv_val key, struct kv_val val);
int kv_del(struct kv_txn *t, enum kv_db db, struct kv_val key);
int kv_seek(struct kv_txn *t, enum kv_db db, int dir, struct kv_val *key, struct kv_val *ret);
int kv_step(struct kv_txn *t, enum kv_db db, int dir, struct kv_val *ret_key, struct kv_val *ret);
int kv_count(struct kv_txn *t, enum kv_db db, uint64_t *ret);
int kv_sync(struct kv *kv);
/* Serial of the newest commit known to survive a power cut, of any process; and of the newest commit. */
uint64_t kv_durable(struct kv *kv);
uint64_t kv_last(struct kv *kv);
/* Words that all processes with this namespace open share, outside transactions; not kept in a power cut. */
shared_word *kv_words(struct kv *kv);
uint64_t kv_bytes(struct kv *kv);	/* what the engine takes on disk */
int  kv_reap(struct kv *kv);	/* drops what killed processes left in the engine */
void kv_close(struct kv *kv);
#endif
