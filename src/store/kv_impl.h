/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_KV_IMPL_H
#define STORE_KV_IMPL_H
/*
 * The kv store, inside: store_kv.c (operations), kv_open.c (making, opening), kv_alloc.c and
 * kv_space.c (space), kv_index.c (records), kv_dev.c (device I/O), kv_check.c (bookkeeping against
 * itself). Nobody else includes this. The theory is at the head of store_kv.c.
 *
 * The index's databases, keys big-endian so that they scan in order, values little-endian:
 *   super    "target" -> struct kv_target; "counts" -> struct kv_counts; "owner" -> u64 last id
 *   object   name -> record (kv_index.c)
 *   space    (u64 owner, u64 offset) -> u64 length. Owner 0: free. Ranges of one owner never touch
 *   largest  (u64 length, u64 offset) -> "": the free ranges by size
 *   owner    u64 -> pid, start time, boot id of the process that reserved ranges
 *   pending  (u64 transaction, u64 offset) -> u64 length: freed by it, reusable once it is durable
 */
#include "base/env.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/pack.h"
#include "store/store.h"

#include <stdatomic.h>

#define KV_UNIT        4096u			/* space is counted and addressed in these */
#define KV_INLINE_MAX  4096u			/* values up to here live in the index */
#define KV_DATA_OFF    (UINT64_C(1) << 20)	/* behind the header; aligned to any stripe */
#define KV_SIZE_MIN    (UINT64_C(16) << 20)
#define KV_EXTENTS_MAX 1024u			/* of one object */
#define KV_VERSION     1u

enum kv_db { KV_SUPER, KV_OBJECT, KV_SPACE, KV_LARGEST, KV_OWNER, KV_PENDING, KV_NDBS };

struct kv_ext {
	uint64_t off, len;	/* on the device, both multiples of KV_UNIT, len > 0 */
};

/* A growing list of them; e is few[] or owned. */
struct kv_extv {
	struct kv_ext *e;
	unsigned       n, cap;
	struct kv_ext  few[4];
};
#define KV_EXTV_INIT { .n = 0 }
int  kv_extv_add(struct kv_extv *v, struct kv_ext x);	/* 0 or -ENOMEM */
void kv_extv_done(struct kv_extv *v);

/* What the device's header and the index both say; they must agree. */
struct kv_target {
	uint64_t version, fsid, uid, size;
};

struct kv_counts {
	uint64_t objects;
	uint64_t used;		/* bytes in extents of objects */
	uint64_t pending;	/* bytes in `pending` */
};

struct kv_dev {
	int              fd;
	bool             direct;	/* O_DIRECT is on */
	bool             block;		/* a block device */
	uint32_t         mem_mask, len_mask;	/* O_DIRECT's alignment of memory, lengths, less 1 */
	char            *path;		/* owned */
	struct lock      lock;
	struct list_node bounce;	/* idle bounce buffers, by: lock */
	unsigned         nbounce;	/* by: lock */
};

/* Space this process reserved and has not given to an object. Sorted by offset, none touch. */
struct kv_pool {
	struct lock    lock;
	struct cond    cond;
	bool           refilling;	/* by: lock, as all below */
	struct kv_ext *r;		/* owned */
	unsigned       n, cap;
	uint64_t       bytes;
	uint64_t       owner;		/* our id in `owner`; 0: none yet */
};

struct kv {
	struct store     s;
	struct env      *env;		/* owned */
	struct kv_dev    dev;
	struct kv_pool   pool;
	struct kv_target target;
	uint64_t         chunk;		/* reserved at a time */
	uint64_t         inline_max;
	bool             readonly;
	char             boot[40];
	uint64_t         start;		/* proc_start() of this process */
};

/* kv_dev.c. Offsets are on the device. `why` gets a line. */
int  kv_dev_open(struct kv_dev *d, const char *path, int flags, bool direct, struct text *why);
void kv_dev_close(struct kv_dev *d);
int  kv_dev_size(const struct kv_dev *d, uint64_t *ret);
int  kv_dev_write(struct kv_dev *d, const struct tess_iov *src, uint64_t skip, uint64_t len,
		  uint64_t off);
int  kv_dev_read(struct kv_dev *d, const struct tess_iov *dst, uint64_t skip, uint64_t len,
		 uint64_t off);
int  kv_dev_sync(struct kv_dev *d);
/* Of a file: what it may still take from its file system, and the bytes that it has. */
int  kv_dev_host(const struct kv_dev *d, uint64_t *ret_free, uint64_t *ret_blocks);
/* Blocks under a sparse file; -TESS_E_STORE_FULL. */
int  kv_dev_allocate(struct kv_dev *d, struct kv_ext x);
int  kv_dev_header_write(struct kv_dev *d, const struct kv_target *t);
/* -TESS_E_FORMAT_MAGIC: not a kv target; -TESS_E_FORMAT_NEWER */
int  kv_dev_header_read(struct kv_dev *d, struct kv_target *ret);

/* kv_index.c: inside a transaction. */
struct kv_rec {
	uint64_t       size, gen;	/* gen: the transaction that put it */
	const char    *data;		/* inline: in the transaction; NULL: extents */
	struct kv_extv ext;
};
/* -ENOENT, -TESS_E_RECORD */
int  kv_rec_get(struct kv *kv, MDB_txn *txn, const char *name, struct kv_rec *ret);
int  kv_rec_decode(const struct kv_target *t, MDB_val key, MDB_val val, struct kv_rec *ret);
int  kv_rec_put(struct kv *kv, MDB_txn *txn, const char *name, const struct kv_rec *rec);
void kv_rec_done(struct kv_rec *r);
uint64_t kv_rec_space(const struct kv_rec *r);
int  kv_counts_get(struct kv *kv, MDB_txn *txn, struct kv_counts *ret);
int  kv_counts_put(struct kv *kv, MDB_txn *txn, const struct kv_counts *c);
int  kv_target_get(struct kv *kv, MDB_txn *txn, struct kv_target *ret);
int  kv_target_put(struct kv *kv, MDB_txn *txn, const struct kv_target *t);

/* kv_space.c: ranges inside a transaction. owner 0: free. */
int  kv_space_add(struct kv *kv, MDB_txn *txn, uint64_t owner, struct kv_ext x);
/* x must all be there */
int  kv_space_cut(struct kv *kv, MDB_txn *txn, uint64_t owner, struct kv_ext x);
/* Any; the smallest free one of at least `min`, else the largest: 0 or -ENOENT */
int  kv_space_any(struct kv *kv, MDB_txn *txn, uint64_t owner, struct kv_ext *ret);
int  kv_space_pick(struct kv *kv, MDB_txn *txn, uint64_t min, struct kv_ext *ret);
int  kv_space_retire(struct kv *kv, MDB_txn *txn, struct kv_ext x);	/* into `pending` */
/* Moves up to `max` pending ranges of transactions <= durable to free; *ret_n how many. */
int  kv_space_drain(struct kv *kv, MDB_txn *txn, uint64_t durable, unsigned max, unsigned *ret_n);

/* kv_alloc.c: reserved chunks, in memory */
void kv_pool_init(struct kv_pool *p);
void kv_pool_done(struct kv_pool *p);
/* -TESS_E_STORE_FULL. *ret_owner is whose reservation it was carved from. */
int  kv_alloc(struct kv *kv, uint64_t bytes, struct kv_extv *ret, uint64_t *ret_owner);
void kv_alloc_undo(struct kv *kv, const struct kv_extv *v);		/* nothing refers to it */
int  kv_alloc_release(struct kv *kv);	/* what this process has reserved is free again */
int  kv_alloc_reap(struct kv *kv, bool *ret_any);	/* likewise for processes that are gone */

/* kv_open.c */
extern const char *const kv_db_names[];
int  kv_open(struct store **ret, const struct store_conf *conf, struct store *inner,
	     struct text *why);
void kv_store_close(struct store *s);
void kv_unmake(const struct store_conf *conf);
/* kv_check.c */
int  kv_check(struct store *s, struct text *out);
#endif
