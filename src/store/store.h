/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_STORE_H
#define STORE_STORE_H
/*
 * A store keeps named immutable byte strings: objects. It knows nothing of files. Every store and
 * every decorator (a store around a store) implements struct store_ops and passes
 * tests/store/contract.
 *
 * The contract:
 *  - PUT creates the object whole or not at all; a second PUT of a name is allowed and idempotent
 *    (callers only ever repeat the same bytes). GET of a range beyond the end is -TESS_E_SHORT_BODY.
 *    GET, HEAD of a missing name: -ENOENT. DEL of a missing name succeeds.
 *  - submit() takes the op and returns nothing; done() comes exactly once, on any thread, with no
 *    lock held, possibly before submit() returns (a local store completes inline).
 *  - Ops may complete in any order. A PUT whose done() said 0 is visible to every later GET, HEAD
 *    and LIST of any process; it survives a kill. It survives a power cut after barrier(), or at
 *    once where STORE_DURABLE_ON_DONE is set.
 *  - No lock is held by the caller of submit(), cancel(), barrier(), close().
 *  - From submit() to done() the op belongs to the store: decorators borrow `done` and `owner` on the
 *    way down and put them back before the submitter sees the op again.
 */
#include "base/list.h"
#include "base/req.h"
#include <tessera/types.h>

#define STORE_NAME_MAX 64u	/* of an object, without NUL: [0-9a-z._-]+, legal on every service */

struct store;
struct text;

enum store_code { STORE_PUT, STORE_GET, STORE_HEAD, STORE_DEL, STORE_LIST, STORE_NCODES };

struct tess_key {
	char name[STORE_NAME_MAX + 1];	/* NUL-terminated */
};

struct tess_objinfo {
	uint64_t size;
};

/* One page of a listing, names in ascending byte order. */
struct store_list {
	struct tess_key      after;	/* in: names > after; "" from the start */
	unsigned             max;	/* in: slots in keys[] and infos[] */
	struct tess_key     *keys;	/* caller's */
	struct tess_objinfo *infos;	/* caller's */
	unsigned             n;		/* out */
	bool                 more;	/* out */
};

struct store_op {
	struct tess_req    *req;	/* borrowed until done: who asks, deadline, cancellation */
	enum store_code     code;
	struct tess_key     key;
	struct tess_range   range;	/* GET: within the object, len > 0, len == data.len */
	struct tess_iov     data;	/* PUT: borrowed until done. GET: destination, borrowed until done */
	struct store_list  *list;	/* LIST */
	int                 err;	/* valid from done on: 0 or negative */
	struct tess_objinfo info;	/* HEAD, GET */
	void              (*done)(struct store_op *);
	void               *owner;	/* the submitter's */
	struct list_node    link;	/* belongs to whichever store holds the op */
	void               *store_priv;	/* likewise */
};

enum store_cap {
	STORE_DURABLE_ON_DONE = 1 << 0,	/* a power cut after done() loses nothing */
	STORE_BULK_DELETE     = 1 << 1,
	STORE_CONDITIONAL_PUT = 1 << 2,
	STORE_LOCAL           = 1 << 3,	/* no network: a submit may use the calling thread for the I/O */
	STORE_VOLATILE        = 1 << 4,	/* gone when the process ends: mem */
};

struct store_caps {
	unsigned flags;		/* enum store_cap */
	uint64_t max_object;	/* bytes */
	uint64_t best_put;	/* a PUT of this size reaches full speed */
	uint64_t min_get;	/* a GET below this costs as much as this */
	unsigned max_inflight;	/* ops worth having in flight */
};

struct store_usage {
	uint64_t total, free;	/* bytes; both 0: unknown */
	uint64_t objects;	/* UINT64_MAX: unknown */
};

/* What a target URI said: scheme, place and query, percent-decoded. Owned by the caller of open(). */
struct store_conf {
	const char *uri;	/* for messages; never contains secrets */
	const char *scheme;	/* "kv" */
	const char *place;	/* "/dev/nvme0n1", "BUCKET/PREFIX" */
	const char *(*param)(const struct store_conf *, const char *name);	/* query value or NULL */
	bool        create;	/* mkfs: make and format what does not exist; refuse what holds something */
	bool        readonly;
	uint64_t    fsid;	/* of the file system; a store that can remember it refuses another's target */
	const char *boot_id;	/* NULL, or a test's */
};

struct store_ops {
	const char *name;	/* "kv", "retry" */
	/* `inner`: decorators only; owned by the new store on success. `why` gets one line on failure. */
	int  (*open)(struct store **ret, const struct store_conf *conf, struct store *inner,
		     struct text *why);
	void (*submit)(struct store *s, struct store_op *op);
	/*
	 * Optional: hurry done(); it still comes, with -ECANCELED where nothing better is known. `op` is only
	 * compared with the ops held: one that is done already is not looked into.
	 */
	void (*cancel)(struct store *s, struct store_op *op);
	int  (*barrier)(struct store *s, struct tess_req *req);	/* optional: all that done() acknowledged so far is durable */
	int  (*usage)(struct store *s, struct store_usage *ret);/* never blocks on I/O: cached */
	/*
	 * Deletions made so far may be undone by a power cut until barrier(); space they freed is not reused before.
	 */
	void (*to_text)(const struct store *s, struct text *out);
	void (*close)(struct store *s);				/* barrier first; all ops are done */
	/* Optional: removes what open() with `create` made and nobody used; it is closed. As well as it can. */
	void (*unmake)(const struct store_conf *conf);
	/* Optional: own bookkeeping against itself, with nobody writing. One line per defect; their number or negative. */
	int  (*check)(struct store *s, struct text *out);
};

/* First member of every store's own struct. */
struct store {
	const struct store_ops *ops;
	struct store           *inner;	/* decorators */
	struct store_caps       caps;	/* data, never type checks; decorators copy and adjust */
	char                    label[32];	/* "kv0": for counters and messages */
};

/* ---- the asserting front: everybody outside a store calls these, never ->ops ---- */

void store_submit(struct store *s, struct store_op *op);
void store_cancel(struct store *s, struct store_op *op);
int  store_barrier(struct store *s, struct tess_req *req);
int  store_usage(struct store *s, struct store_usage *ret);
void store_to_text(const struct store *s, struct text *out);
void store_close(struct store *s);	/* NULL is fine; closes the decorated ones too */
int  store_check(struct store *s, struct text *out);	/* number of defects, or negative: for fsck */

/* Submits and waits: tools, tests and background threads; never a FUSE thread on a remote store. */
int store_do(struct store *s, struct store_op *op);
int store_put(struct store *s, struct tess_req *req, const char *name, const void *p, size_t n);
int store_get(struct store *s, struct tess_req *req, const char *name, uint64_t off, void *p,
	      size_t n);
int store_head(struct store *s, struct tess_req *req, const char *name, struct tess_objinfo *ret);
int store_del(struct store *s, struct tess_req *req, const char *name);

/* For a store's own use: sets err and calls done. The op is not the store's any more. */
void store_op_done(struct store_op *op, int err);
int  store_key_set(struct tess_key *k, const char *name);	/* -ENAMETOOLONG, -EINVAL */
const char *store_code_name(enum store_code code);	/* "put" */
int  store_fault(enum store_code code);	/* passes the fault point "store.put", … : stores, not decorators */
/* For submit(): passes the fault point of the op, then calls what does its code. */
typedef void (*store_verb)(struct store *s, struct store_op *op);
void store_dispatch(struct store *s, struct store_op *op, const store_verb verbs[STORE_NCODES]);

/* A request that was submitted and is not done. */
struct store_flight {
	enum store_code code;
	const char     *key;	/* "" for a listing */
	const char     *op;	/* tess_req.op of whoever asks */
	uint64_t        ino;	/* tess_req.ino: 0 when no file's alone */
	uint64_t        bytes;	/* of a PUT or GET */
	int64_t         start;
};
/*
 * Calls fn for each, oldest first, under a lock: it may only look and copy. Of a store that is opened
 * with trace=0 nothing is known.
 */
void store_flights(struct store *s, void (*fn)(void *arg, const struct store_flight *), void *arg);

/*
 * Opens a target URI with the decorators its query asks for, innermost first:
 *   fault=SPEC  latency=TIME[&rate=BYTES/s]  limit=N  retry=N[&deadline=TIME]  trace=0|1
 * `trace` is outermost and there unless trace=0: `tessera stats` shows requests and bytes of every target.
 * e.g. "kv:/mnt/nvme/t0?size=100G&latency=20ms". `tier` and `label` are the file system's, not a store's.
 * -TESS_E_URI with `why` naming the part and the legal choices.
 */
struct store_open_opts {
	bool        create, readonly;
	uint64_t    fsid;
	const char *label;
	const char *boot_id;
};
int store_open_uri(struct store **ret, const char *uri, const struct store_open_opts *opts,
		   struct text *why);
/* Takes a target back that store_open_uri() made with `create` and that is closed: when mkfs fails later on. */
void store_unmake_uri(const char *uri, uint64_t fsid);
/* Parses only: nothing is opened or made. 0, -ENOMEM, -TESS_E_URI with `why`. */
int store_uri_check(const char *uri, struct text *why);
/* Appends a query value ("tier", "label", …), decoded, to `ret`. 0, -ENOENT when it is not there, or as check. */
int store_uri_param(const char *uri, const char *name, struct text *ret, struct text *why);
/* Appends `uri` with a relative PLACE of a local store made absolute: what a file system may remember. */
int store_uri_absolute(const char *uri, struct text *ret, struct text *why);
/* Names of the stores built in, space-separated, for messages. */
void store_names(struct text *out);

extern const struct store_ops store_mem_ops, store_kv_ops, store_s3_ops;
extern const struct store_ops store_swift_ops;
extern const struct store_ops store_rados_ops;	/* with librados' header only */
extern const struct store_ops deco_retry_ops, deco_limit_ops, deco_trace_ops, deco_latency_ops,
	deco_fault_ops;
#endif
