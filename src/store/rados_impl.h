/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_RADOS_IMPL_H
#define STORE_RADOS_IMPL_H
/*
 * For src/store/store_rados.c and rados_*.c only.
 *
 * A connection is a handle of librados and what is in flight on it. Ceph may shut a client out
 * ("blocklist" it); the handle is of no use then, and whatever was in flight has failed. The store
 * retires such a connection and its keeper, a thread, makes a new one, for later operations only:
 * repeating the old ones would hide that somebody decided this client must not write any more.
 */
#include "base/list.h"
#include "base/lock.h"
#include "base/pool.h"
#include "base/trace.h"
#include "store/rados_api.h"
#include "store/store.h"

#include <stdatomic.h>

struct rados_conn {
	rados_t          cluster;
	rados_ioctx_t    io;
	char            *addr;		/* owned: what an administrator would blocklist; NULL: unknown */
	unsigned         refs;		/* rados.lock: operations that use it */
	struct list_node calls;		/* rados.lock: rados_call.link */
	struct list_node link;		/* rados.lock: rados.retired */
	bool             dead;		/* rados.lock */
};

/* What a connection is made from. Owned strings; NULL: librados' default. */
struct rados_settings {
	char   *pool, *nspace, *conf, *id, *cluster, *keyring;
	int64_t timeout;		/* ns, of every operation */
};

enum { RADOS_C_COPIES, RADOS_C_COPIED, RADOS_C_SHUT_OUT, RADOS_C_CONNECTS, RADOS_C_SCANNED, RADOS_C_N };

struct rados {
	struct store            s;
	const struct rados_api *api;
	struct rados_settings   set;		/* const */
	struct lock             lock;
	struct cond             cond;		/* work for the keeper; a connection became idle; keeper ended */
	struct rados_conn      *conn;		/* NULL: shut out, the keeper is at it */
	struct list_node        retired;	/* rados_conn.link */
	struct list_node        lists;		/* rados_list_job.link */
	struct rados_page      *page;		/* names left over from the last listing, or NULL */
	bool                    stop;
	struct store_usage      usage;
	int64_t                 usage_at;	/* when; 0: never */
	bool                    usage_wanted;
	pthread_t               keeper;
	bool                    kept;		/* the keeper runs */
	struct pool            *pool;		/* listings */
	struct trace_group      group;
	struct trace_counter    counters[RADOS_C_N];
};

static inline struct rados *rados_of(struct store *s)
{
	return container_of(s, struct rados, s);
}

/* A negative return value of librados as an error of the contract. */
int rados_map_error(int r);

/* ---- rados_conn.c ---- */

int  rados_settings_read(struct rados_settings *set, const struct store_conf *conf, struct text *why);
void rados_settings_done(struct rados_settings *set);
/* `why` has one line when it fails; NULL: nobody reads. */
int  rados_conn_new(struct rados_conn **ret, const struct rados *rs, const char *uri, struct text *why);
void rados_conn_free(const struct rados *rs, struct rados_conn *c);	/* nothing uses it; NULL is fine */
/* The largest object that one operation can write. */
uint64_t rados_conn_max_object(const struct rados *rs, const struct rados_conn *c);

/* ---- rados_keeper.c ---- */

/* The present connection with a reference, or NULL: none now. */
struct rados_conn *rados_conn_take(struct rados *rs);
void rados_conn_drop(struct rados *rs, struct rados_conn *c);
/* An operation on `c` ended with `r`: true when that says, or was known, that the cluster shut us out. */
bool rados_conn_dead_locked(struct rados *rs, struct rados_conn *c, int r);
int  rados_keeper_start(struct rados *rs);
void rados_keeper_stop(struct rados *rs);	/* frees every connection; no operation is left */
void rados_usage_read(struct rados *rs, struct rados_conn *c);

/* ---- store_rados.c ---- */

/* Cancels what is in flight on retired connections. */
void rados_calls_cancel(struct rados *rs);

/* ---- rados_list.c ---- */

void rados_list_submit(struct rados *rs, struct store_op *op);
bool rados_list_cancel(struct rados *rs, const struct store_op *op);
void rados_page_free(struct rados_page *p);
/* -EEXIST, naming an object, unless there is none but the marker. */
int  rados_list_refuse_used(struct rados *rs, struct rados_conn *c, const char *uri, struct text *why);
#endif
