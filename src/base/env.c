/* SPDX-License-Identifier: Apache-2.0 */
#include "base/env.h"
#include "base/env_impl.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/htab.h"
#include "base/scoped.h"
#include "base/text.h"
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ENV_MAP_DEFAULT	    (UINT64_C(1) << 30)
#define ENV_READERS_DEFAULT 1024u

int env_error(int rc)
{
	switch (rc) {
	case MDB_SUCCESS:
		return 0;
	case MDB_NOTFOUND:
		return -ENOENT;
	case MDB_KEYEXIST:
		return -EEXIST;
	case MDB_MAP_FULL:
		return -TESS_E_KV_FULL;
	case MDB_READERS_FULL:
		return -TESS_E_KV_READERS;
	case MDB_INVALID:
	case MDB_VERSION_MISMATCH:
	case MDB_PAGE_NOTFOUND:
	case MDB_CORRUPTED:
	case MDB_PANIC:
		return -TESS_E_KV_CORRUPT;
	default:
		return rc > 0 ? -rc : -TESS_E_KV_CORRUPT;
	}
}

/* ---- growing the map: no transaction of this process may touch it meanwhile ---- */

/* writer held. Readers are short, so they are waited for by yielding. */
static int env_map_set(struct env *e, uint64_t size)
{
	MDB_envinfo info;
	int rc;

	atomic_store(&e->growing, true);
	for (unsigned i = 0; i < atomic_load(&e->nreaders); i++)
		while (atomic_load(&e->readers[i].active))
			(void)sched_yield();
	(void)mdb_env_info(e->mdb, &info);
	rc = mdb_env_set_mapsize(e->mdb, size);
	atomic_fetch_add(&e->maps, 1);
	/* It unmapped first, so a refused size leaves no map at all: take the old one back. */
	if (rc && mdb_env_set_mapsize(e->mdb, info.me_mapsize) != 0)
		rc = MDB_PANIC;
	atomic_store(&e->growing, false);
	return rc == ENOMEM ? -TESS_E_KV_FULL : env_error(rc);
}

static int env_map_double(struct env *e)
{
	MDB_envinfo info;

	(void)mdb_env_info(e->mdb, &info);
	if (info.me_mapsize > SIZE_MAX / 4)
		return -TESS_E_KV_FULL;
	return env_map_set(e, (uint64_t)info.me_mapsize * 2);
}

/* ---- read transactions ---- */

static unsigned env_thread(void)
{
	static atomic_uint next;
	static _Thread_local unsigned self;

	if (!self)
		self = atomic_fetch_add(&next, 1) + 1;
	return self;
}

static struct env_reader *env_reader_take(struct env *e)
{
	unsigned n = e->max_readers, from = env_thread();
	unsigned look = MIN(atomic_load_explicit(&e->nreaders, memory_order_relaxed), n);

	/* Threads start at different places, so the first look is a hit that nobody contends for.
	 */
	for (unsigned i = 0; i < n && look > 0; i++) {
		_Atomic(struct env_reader *) *slot = &e->idle[(from + i) % n];

		if (i >= 64 && look < n)
			break;
		if (!atomic_load_explicit(slot, memory_order_relaxed))
			continue;
		struct env_reader *r = atomic_exchange(slot, NULL);

		if (r)
			return r;
	}
	return NULL;
}

static void env_reader_give(struct env *e, struct env_reader *r)
{
	/* There are as many slots as readers, so one is free. */
	for (unsigned i = env_thread();; i++) {
		struct env_reader *none = NULL;

		if (atomic_compare_exchange_strong(&e->idle[i % e->max_readers], &none, r))
			return;
	}
}

static void env_reader_enter(struct env *e, struct env_reader *r)
{
	for (;;) {
		atomic_store(&r->active, true);
		if (!atomic_load(&e->growing))
			return;
		atomic_store(&r->active, false);
		pthread_mutex_lock(&e->writer);
		pthread_mutex_unlock(&e->writer);
	}
}

static void env_index_add(struct env *e, struct env_reader *r)
{
	for (uint64_t i = hash64((uintptr_t)r->txn);; i++) {
		struct env_reader *none = NULL;

		if (atomic_compare_exchange_strong(&e->index[i & e->index_mask], &none, r))
			return;
	}
}

static struct env_reader *env_index_find(const struct env *e, const MDB_txn *txn)
{
	for (uint64_t i = hash64((uintptr_t)txn);; i++) {
		struct env_reader *r =
			atomic_load_explicit(&e->index[i & e->index_mask], memory_order_acquire);

		if (r->txn == txn)
			return r;
	}
}

/* A transaction made here is renewed for ever after; only the first begin takes a slot in LMDB. */
static int env_reader_new(struct env *e, struct env_reader **ret)
{
	struct env_reader *r;
	unsigned i;
	int rc;

	pthread_mutex_lock(&e->writer);
	i = atomic_load(&e->nreaders);
	if (i == e->max_readers) {
		pthread_mutex_unlock(&e->writer);
		return -TESS_E_KV_READERS;
	}
	r = &e->readers[i];
	rc = mdb_txn_begin(e->mdb, NULL, MDB_RDONLY, &r->txn);
	if (rc == MDB_READERS_FULL && mdb_reader_check(e->mdb, NULL) == 0)
		rc = mdb_txn_begin(e->mdb, NULL, MDB_RDONLY, &r->txn);
	if (rc == MDB_MAP_RESIZED) {
		rc = env_map_set(e, 0) ? MDB_PANIC : 0;
		if (!rc)
			rc = mdb_txn_begin(e->mdb, NULL, MDB_RDONLY, &r->txn);
	}
	if (!rc) {
		mdb_txn_reset(r->txn);
		env_index_add(e, r);
		atomic_store(&e->nreaders, i + 1);
		*ret = r;
	}
	pthread_mutex_unlock(&e->writer);
	return env_error(rc);
}

int env_begin_read(struct env *e, MDB_txn **ret)
{
	struct env_reader *r = env_reader_take(e);
	int rc, err = r ? 0 : env_reader_new(e, &r);

	if (err)
		return err;
	for (;;) {
		env_reader_enter(e, r);
		rc = mdb_txn_renew(r->txn);
		if (!rc) {
			*ret = r->txn;
			return 0;
		}
		atomic_store(&r->active, false);
		if (rc != MDB_MAP_RESIZED)
			break;
		pthread_mutex_lock(&e->writer);
		err = env_map_set(e, 0);
		pthread_mutex_unlock(&e->writer);
		if (err)
			break;
	}
	env_reader_give(e, r);
	return err ? err : env_error(rc);
}

void env_end_read(struct env *e, MDB_txn *txn)
{
	struct env_reader *r = env_index_find(e, txn);

	mdb_txn_reset(txn);
	atomic_store_explicit(&r->active, false, memory_order_release);
	env_reader_give(e, r);
}

/* ---- write transactions ---- */

int env_txn_writer(struct env *e, MDB_txn **ret)
{
	int rc, err = 0;

	pthread_mutex_lock(&e->writer);
	env_turn_ask(e, ENV_TURN_WRITE);
	while ((rc = mdb_txn_begin(e->mdb, NULL, 0, ret)) == MDB_MAP_RESIZED && !err)
		err = env_map_set(e, 0);
	env_turn_got(e, ENV_TURN_WRITE);
	if (rc)
		pthread_mutex_unlock(&e->writer);
	return err ? err : env_error(rc);
}

/* LMDB calls a short write EIO; that is how a full disk begins. */
static int env_commit_error(const struct env *e, int rc)
{
	struct statvfs st;

	if (rc == EIO && statvfs(e->dir, &st) == 0 && st.f_bavail * st.f_frsize < (1u << 20))
		return -ENOSPC;
	return env_error(rc);
}

int env_begin_write(struct env *e, MDB_txn **ret, uint64_t *ret_maps)
{
	int err = e->readonly ? -EROFS : env_txn_writer(e, ret);

	if (!err)
		*ret_maps = atomic_load(&e->maps);
	return err;
}

void env_abort(struct env *e, MDB_txn *txn)
{
	mdb_txn_abort(txn);
	pthread_mutex_unlock(&e->writer);
}

int env_commit(struct env *e, MDB_txn *txn, uint64_t *ret_txnid)
{
	uint64_t id = mdb_txn_id(txn);
	int err = fault_point("env.commit");

	if (err)
		mdb_txn_abort(txn);
	else
		err = env_commit_error(e, mdb_txn_commit(txn));
	pthread_mutex_unlock(&e->writer);
	if (err)
		return err;
	env_auto_kick(e, id);
	if (ret_txnid)
		*ret_txnid = id;
	return 0;
}

int env_grow(struct env *e, uint64_t maps)
{
	int err;

	pthread_mutex_lock(&e->writer);
	/* Another thread may have grown it for all of us. */
	err = atomic_load(&e->maps) != maps ? 0 : env_map_double(e);
	pthread_mutex_unlock(&e->writer);
	return err;
}

int env_squeeze(struct env *e)
{
	return env_durable(e) < env_last(e) ? env_checkpoint(e) : -ENOSPC;
}

int env_write(struct env *e, int (*fn)(void *arg, MDB_txn *txn), void *arg, uint64_t *ret_txnid)
{
	uint64_t maps;
	MDB_txn *txn;
	bool again;
	int err;

	do {
		err = env_begin_write(e, &txn, &maps);
		if (err)
			return err;
		err = fn(arg, txn);
		if (err) {
			env_abort(e, txn);
			again = err == -TESS_E_KV_FULL;
		} else {
			err = env_commit(e, txn, ret_txnid);
			again = err == -TESS_E_KV_FULL || err == -ENOSPC;
		}
		if (!again)
			return err;
		err = err == -ENOSPC ? env_squeeze(e) : env_grow(e, maps);
	} while (!err);
	return err;
}

/* ---- facts ---- */

uint64_t env_durable(const struct env *e)
{
	return atomic_load(&e->shared->durable);
}

/* Inside a read transaction, because both facts are read from the map. */
uint64_t env_last(struct env *e)
{
	MDB_txn *txn;
	uint64_t id;

	if (env_begin_read(e, &txn))
		return atomic_load(&e->pinned);
	id = mdb_txn_id(txn);
	env_end_read(e, txn);
	return id;
}

uint64_t env_bytes(struct env *e)
{
	MDB_envinfo info;
	MDB_txn *txn;

	if (env_begin_read(e, &txn))
		return 0;
	(void)mdb_env_info(e->mdb, &info);
	env_end_read(e, txn);
	return ((uint64_t)info.me_last_pgno + 1) * e->psize;
}

int env_reap_readers(struct env *e, int *ret_reaped)
{
	int dead = 0;
	int err = env_error(mdb_reader_check(e->mdb, &dead));

	if (!err && ret_reaped)
		*ret_reaped = dead;
	return err;
}

MDB_dbi env_db(const struct env *e, unsigned i)
{
	return e->dbi[i];
}

/* ---- opening and closing ---- */

static int env_init_conf(struct env *e, const struct env_conf *c)
{
	unsigned ndbs = 0;

	while (c->dbs[ndbs])
		ndbs++;
	e->readonly = c->readonly;
	e->before_sync = c->before_sync;
	e->arg = c->arg;
	e->users_fd = e->opened_fd = e->synced_fd = e->rouse_fd = -1;
	e->max_readers = c->readers ? c->readers : ENV_READERS_DEFAULT;
	for (e->index_mask = 1; e->index_mask < 2 * (uint64_t)e->max_readers; e->index_mask *= 2)
		;
	e->dbi = mem_array(ndbs + 1, sizeof(*e->dbi));
	e->readers = mem_array(e->max_readers, sizeof(*e->readers));
	e->idle = mem_array(e->max_readers, sizeof(*e->idle));
	e->index = mem_array(e->index_mask, sizeof(*e->index));
	e->index_mask--;
	e->dir = mem_strdup(c->dir);
	if (!e->dbi || !e->readers || !e->idle || !e->index || !e->dir)
		return -ENOMEM;
	if (!c->boot_id)
		return env_boot_id(e->boot, sizeof(e->boot));
	memcpy(e->boot, c->boot_id, strnlen(c->boot_id, sizeof(e->boot) - 1));
	return 0;
}

/* The map that the file asks for, so that a grown one does not grow again step by step. */
static uint64_t env_file_mapsize(const struct env *e)
{
	scoped_free char *path = mem_printf("%s/data.mdb", e->dir);
	scoped_fd int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	uint64_t size = 0;

	if (fd < 0 || pread(fd, &size, sizeof(size), 32) != sizeof(size))
		return 0;
	return size % 4096 == 0 && size < UINT64_C(1) << 46 ? size : 0;
}

/* Is there one at all? Garbage is not "no such file". */
static int env_file_look(const struct env *e, struct text *why)
{
	scoped_free char *path = mem_printf("%s/data.mdb", e->dir);

	if (!path)
		return -ENOMEM;
	if (access(path, R_OK) < 0)
		return -errno;
	if (env_file_mapsize(e))
		return 0;
	if (why)
		text_fmt(why, "%s is not an LMDB file, or is damaged", path);
	return -TESS_E_KV_CORRUPT;
}

static int env_open_lmdb(struct env *e, const struct env_conf *c)
{
	unsigned flags = MDB_NOSYNC | MDB_NOTLS | MDB_NORDAHEAD | (e->readonly ? MDB_RDONLY : 0);
	uint64_t size = MAX(c->map_size ? c->map_size : ENV_MAP_DEFAULT, env_file_mapsize(e));
	unsigned ndbs = 0;
	MDB_stat st;
	int rc;

	while (c->dbs[ndbs])
		ndbs++;
	rc = mdb_env_create(&e->mdb);
	if (!rc)
		rc = mdb_env_set_maxdbs(e->mdb, ndbs + 1);
	if (!rc) /* and two for the pins */
		rc = mdb_env_set_maxreaders(e->mdb, e->max_readers + 2);
	if (!rc)
		rc = mdb_env_set_mapsize(e->mdb, size);
	if (!rc)
		rc = mdb_env_open(e->mdb, e->dir, flags, 0666);
	if (!rc)
		rc = mdb_env_stat(e->mdb, &st);
	if (!rc)
		rc = mdb_env_get_fd(e->mdb, &e->data_fd);
	if (!rc)
		e->psize = st.ms_psize;
	return env_error(rc);
}

struct env_open_dbs {
	struct env *e;
	const struct env_conf *c;
	unsigned extra; /* MDB_CREATE or nothing */
};

static int env_open_dbs(void *arg, MDB_txn *txn)
{
	struct env_open_dbs *o = arg;
	int rc = 0;

	for (unsigned i = 0; o->c->dbs[i] && !rc; i++)
		rc = mdb_dbi_open(txn, o->c->dbs[i],
				  (o->c->db_flags ? o->c->db_flags[i] : 0) | o->extra,
				  &o->e->dbi[i]);
	return env_error(rc);
}

/* Not a recycled transaction: only its commit makes the handles the environment's. */
static int env_open_dbs_read(struct env *e, const struct env_conf *c)
{
	struct env_open_dbs o = {e, c, 0};
	MDB_txn *txn;
	int rc, err = 0;

	/* Slots of killed processes: enough of them fill the table, while others live on. */
	(void)mdb_reader_check(e->mdb, NULL);
	while ((rc = mdb_txn_begin(e->mdb, NULL, MDB_RDONLY, &txn)) == MDB_MAP_RESIZED && !err) {
		pthread_mutex_lock(&e->writer);
		err = env_map_set(e, 0);
		pthread_mutex_unlock(&e->writer);
	}
	if (rc)
		return err ? err : env_error(rc);
	err = env_open_dbs(&o, txn);
	if (err) {
		mdb_txn_abort(txn);
		return err;
	}
	return env_error(mdb_txn_commit(txn));
}

/* The checkpoint comes before the first commit of ours: its pin is what keeps the file restorable.
 */
static int env_open_content(struct env *e, const struct env_conf *c)
{
	struct env_open_dbs o = {e, c, MDB_CREATE};
	int err;

	if (e->readonly)
		return env_open_dbs_read(e, c);
	err = env_checkpoint(e);
	if (err)
		return err;
	err = env_open_dbs_read(e, c);
	if (err != -ENOENT)
		return err;
	err = env_write(e, env_open_dbs, &o, NULL);
	return err ? err : env_checkpoint(e);
}

/* The names of new files, before anybody relies on them. */
static int env_sync_dir(const struct env *e)
{
	scoped_fd int fd = open(e->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int env_open_files(struct env *e, const struct env_conf *c, struct text *why)
{
	bool alone = false, crashed = false;
	int err = env_guard_fs(e->dir, why);

	/* A look into some directory leaves nothing behind. */
	if (!err && e->readonly)
		err = env_file_look(e, why);
	if (!err)
		err = env_guard_enter(e, &alone, why);
	if (!err)
		err = env_synced_open(e);
	if (!err && alone)
		err = env_marker_read(e, &crashed);
	if (!err && crashed)
		err = env_synced_restore(e, why);
	if (!err && (!e->readonly || crashed))
		err = env_marker_write(e, false);
	if (!err)
		err = env_open_lmdb(e, c);
	if (!err && alone && !e->readonly)
		err = env_sync_dir(e);
	if (!err && !e->readonly)
		err = env_rouse_start(e);
	if (!err)
		err = env_open_content(e, c);
	if (!err && !e->readonly)
		err = env_auto_start(e);
	if (!err)
		env_guard_settle(e);
	return err;
}

static void env_free(struct env *e)
{
	env_rouse_stop(e);
	for (unsigned i = 0; i < 2; i++)
		if (e->pin[i])
			mdb_txn_abort(e->pin[i]);
	for (unsigned i = 0; i < atomic_load(&e->nreaders); i++)
		mdb_txn_abort(e->readers[i].txn);
	if (e->mdb)
		mdb_env_close(e->mdb);
	if (e->shared)
		(void)munmap(e->shared, ENV_SLOT_BYTES);
	scoped_fd_(&e->rouse_fd);
	scoped_fd_(&e->synced_fd);
	scoped_fd_(&e->opened_fd);
	scoped_fd_(&e->users_fd);
	cond_done(&e->cond_rouse);
	cond_done(&e->cond_auto);
	cond_done(&e->cond);
	lock_done(&e->lock);
	pthread_mutex_destroy(&e->writer);
	free(e->dbi);
	free(e->readers);
	free(e->idle);
	free(e->index);
	free(e->dir);
	free(e);
}

int env_open(struct env **ret, const struct env_conf *conf, struct text *why)
{
	struct env *e = mem_zalloc(sizeof(*e));
	int err;

	if (!e)
		return -ENOMEM;
	lock_init(&e->lock, LOCK_ENV, "env");
	cond_init(&e->cond);
	cond_init(&e->cond_auto);
	cond_init(&e->cond_rouse);
	pthread_mutex_init(&e->writer, NULL);
	err = env_init_conf(e, conf);
	if (!err)
		err = env_open_files(e, conf, why);
	if (err) {
		if (why && !why->n)
			text_fmt(why, "%s: %s", conf->dir, err_text(err));
		env_free(e);
		return err;
	}
	*ret = e;
	return 0;
}

int env_close(struct env *e)
{
	int err;

	env_auto_stop(e);
	err = env_checkpoint(e);
	/* Nobody holds it and all is synced: what a later boot finds is the checkpoint itself. */
	if (env_guard_last(e) && !err && !e->readonly)
		err = env_marker_write(e, true);
	env_free(e);
	return err;
}
