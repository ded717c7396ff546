/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper is the thread that does what blocks: it ends connections that the cluster shut out,
 * makes a new one, and asks how full the pool is when somebody wanted to know.
 */
#ifdef HAVE_RADOS
#include "store/rados_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

LOG_MODULE("rados")

#define AGAIN_AFTER (2 * NS_PER_S)	/* a new connection at most so often */

struct rados_conn *rados_conn_take(struct rados *rs)
{
	scoped_lock(&rs->lock);
	if (rs->conn)
		rs->conn->refs++;
	return rs->conn;
}

void rados_conn_drop(struct rados *rs, struct rados_conn *c)
{
	if (!c)
		return;
	scoped_lock(&rs->lock);
	if (--c->refs == 0 && (c->dead || rs->stop))
		cond_wake_all(&rs->cond);
}

bool rados_conn_dead_locked(struct rados *rs, struct rados_conn *c, int r)
{
	lock_assert_held(&rs->lock);
	if (r == -ESHUTDOWN && !c->dead) {
		c->dead = true;
		trace_add(&rs->counters[RADOS_C_SHUT_OUT], 1);
		if (rs->conn == c)
			rs->conn = NULL;
		list_push_back(&rs->retired, &c->link);
		cond_wake_all(&rs->cond);
	}
	return c->dead;
}

/* ---- usage ---- */

static uint64_t json_u64(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);
	double d = json_number_value(v);

	if (json_is_integer(v))
		return json_integer_value(v) > 0 ? (uint64_t)json_integer_value(v) : 0;
	return d > 0 && d < 1.8e19 ? (uint64_t)d : 0;
}

/* What fits into the pool is its `max_avail`, all copies and parity counted, or what its quota leaves. */
static void usage_of_pool(struct store_usage *u, const json_t *stats)
{
	uint64_t stored = json_u64(stats, "stored"), avail = json_u64(stats, "max_avail");
	uint64_t quota = json_u64(stats, "quota_bytes");

	u->free = avail;
	u->total = stored + avail;
	if (u->total > 0 && quota > 0 && quota < u->total) {
		u->free = quota > stored ? MIN(avail, quota - stored) : 0;
		u->total = MAX(quota, u->free);
	}
}

static bool usage_parse(const struct rados *rs, struct store_usage *u, const char *buf, size_t n)
{
	json_t *root = json_loadb(buf, n, 0, NULL), *pool;
	bool found = false;
	size_t i;

	json_array_foreach(json_object_get(root, "pools"), i, pool) {
		const char *name = json_string_value(json_object_get(pool, "name"));

		if (name && strcmp(name, rs->set.pool) == 0) {
			usage_of_pool(u, json_object_get(pool, "stats"));
			found = true;
		}
	}
	json_decref(root);
	return found;
}

/* A client may be denied `df`; what the cluster has in all is then better than nothing. */
static void usage_of_cluster(const struct rados *rs, const struct rados_conn *c, struct store_usage *u)
{
	struct rados_cluster_stat_t st;

	if (rs->api->cluster_stat(c->cluster, &st) < 0)
		return;
	u->total = st.kb * 1024;
	u->free = MIN(st.kb_avail, st.kb) * 1024;
}

/* Without a manager daemon all is 0: unknown. Objects are counted for a pool, not for a namespace: unknown too. */
void rados_usage_read(struct rados *rs, struct rados_conn *c)
{
	const char *cmd = "{\"prefix\":\"df\",\"detail\":\"detail\",\"format\":\"json\"}";
	struct store_usage u = { .objects = UINT64_MAX };
	char *out = NULL, *status = NULL;
	size_t out_n = 0, status_n = 0;
	int r = rs->api->mon_command(c->cluster, &cmd, 1, "", 0, &out, &out_n, &status, &status_n);

	if (r < 0 || !usage_parse(rs, &u, out, out_n))
		usage_of_cluster(rs, c, &u);
	if (out)
		rs->api->buffer_free(out);
	if (status)
		rs->api->buffer_free(status);
	scoped_lock(&rs->lock);
	rs->usage = u;
	rs->usage_at = clock_now();
	rs->usage_wanted = false;
}

/* ---- the thread ---- */

static struct rados_conn *idle_locked(struct rados *rs)
{
	list_for_each(n, &rs->retired) {
		struct rados_conn *c = list_entry(n, struct rados_conn, link);

		if (c->refs == 0) {
			list_remove(n);
			return c;
		}
	}
	return NULL;
}

static void keeper_bury(struct rados *rs)
{
	struct rados_conn *c;

	rados_calls_cancel(rs);
	do {
		lock_take(&rs->lock);
		c = idle_locked(rs);
		lock_drop(&rs->lock);
		rados_conn_free(rs, c);
	} while (c);
}

static void keeper_connect(struct rados *rs)
{
	struct text why = TEXT_INIT;
	struct rados_conn *c = NULL;
	int r;

	log_warn("pool %s: the cluster has shut this client out (blocklisted it): connecting anew",
		 rs->set.pool);
	r = rados_conn_new(&c, rs, rs->set.pool, &why);
	if (r < 0) {
		log_err("%s", text_str(&why));
	} else {
		trace_add(&rs->counters[RADOS_C_CONNECTS], 1);
		scoped_lock(&rs->lock);
		rs->conn = c;
	}
	text_done(&why);
}

static void keeper_usage(struct rados *rs)
{
	struct rados_conn *c = rados_conn_take(rs);

	if (c)
		rados_usage_read(rs, c);
	rados_conn_drop(rs, c);
}

static void *keeper_main(void *arg)
{
	struct rados *rs = arg;
	int64_t next = 0;
	bool usage, connect;

	lock_take(&rs->lock);
	while (!rs->stop) {
		connect = !rs->conn && clock_now() >= next;
		usage = rs->usage_wanted && rs->conn;
		if (!connect && !usage && list_empty(&rs->retired)) {
			if (rs->conn)
				cond_wait(&rs->cond, &rs->lock);
			else
				(void)cond_wait_until(&rs->cond, &rs->lock, next);
			continue;
		}
		lock_drop(&rs->lock);
		if (connect) {
			keeper_connect(rs);
			next = clock_now() + AGAIN_AFTER;
		}
		if (usage)
			keeper_usage(rs);
		keeper_bury(rs);
		lock_take(&rs->lock);
		if (!rs->stop && !list_empty(&rs->retired))
			(void)cond_wait_until(&rs->cond, &rs->lock, clock_now() + NS_PER_S / 10);
	}
	lock_drop(&rs->lock);
	return NULL;
}

int rados_keeper_start(struct rados *rs)
{
	int r = thread_start(&rs->keeper, "tess-rados-keep", keeper_main, rs);

	rs->kept = r == 0;
	return r;
}

void rados_keeper_stop(struct rados *rs)
{
	lock_take(&rs->lock);
	rs->stop = true;
	cond_wake_all(&rs->cond);
	lock_drop(&rs->lock);
	if (rs->kept)
		pthread_join(rs->keeper, NULL);
	/* done() was called for every operation, but the last callbacks may still be on their way out. */
	lock_take(&rs->lock);
	if (rs->conn)
		list_push_back(&rs->retired, &rs->conn->link);
	rs->conn = NULL;
	for (;;) {
		struct rados_conn *c = idle_locked(rs);

		if (c) {
			lock_drop(&rs->lock);
			rados_conn_free(rs, c);
			lock_take(&rs->lock);
		} else if (list_empty(&rs->retired)) {
			break;
		} else {
			cond_wait(&rs->cond, &rs->lock);
		}
	}
	lock_drop(&rs->lock);
}
#endif
