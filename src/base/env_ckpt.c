/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of an environment, and going back to one. */
#include "base/env_impl.h"
#include "base/clock.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scoped.h"
#include "base/text.h"
#include <endian.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

LOG_MODULE("env")

/*
 * What LMDB 0.9 keeps at the head of pages 0 and 1. The library has no header for it, so it is
 * checked field by field against what the library says, each time it is copied; an LMDB with
 * another layout makes checkpoints fail, it does not make them wrong.
 */
struct lmdb_meta_page {
	uint64_t pgno;
	uint16_t pad, flags;
	uint16_t lower, upper;
	uint32_t magic, version;
	uint64_t address, mapsize;
	struct lmdb_meta_db {
		uint32_t pad; /* of the first: the page size */
		uint16_t flags, depth;
		uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
	} dbs[2];
	uint64_t last_pg;
	uint64_t txnid;
};
_Static_assert(sizeof(struct lmdb_meta_page) == ENV_META_BYTES, "layout of LMDB 0.9, 64-bit");
#define LMDB_P_META  0x08u
#define LMDB_MAGIC   0xBEEFC0DEu
#define LMDB_VERSION 1u

/* A slot of `synced`: host order, as the LMDB file is. It fits a sector, so it is written whole or
 * not. */
struct env_slot {
	char magic[8];
	uint32_t version;
	uint32_t crc;	 /* of the rest */
	uint64_t serial; /* of the checkpoint: the greater valid slot wins */
	uint64_t txnid;
	uint64_t psize;
	struct lmdb_meta_page meta;
};
_Static_assert(sizeof(struct env_slot) <= 512, "one sector");
#define SLOT_VERSION 1u
static const char slot_magic[8] = "envsync";

static uint32_t env_slot_crc(const struct env_slot *s)
{
	size_t from = offsetof(struct env_slot, serial);

	return crc32c(0, (const char *)s + from, sizeof(*s) - from);
}

static bool env_slot_read(const struct env *e, unsigned i, struct env_slot *ret)
{
	return pread(e->synced_fd, ret, sizeof(*ret), (off_t)i * ENV_SLOT_BYTES) == sizeof(*ret) &&
	       memcmp(ret->magic, slot_magic, sizeof(slot_magic)) == 0 &&
	       ret->version == SLOT_VERSION && env_slot_crc(ret) == ret->crc;
}

/* The newest valid slot; *ret_slot is its number. */
static bool env_slot_newest(const struct env *e, struct env_slot *ret, unsigned *ret_slot)
{
	struct env_slot s[2];
	bool ok0 = env_slot_read(e, 0, &s[0]), ok1 = env_slot_read(e, 1, &s[1]);

	if (!ok0 && !ok1)
		return false;
	*ret_slot = ok1 && (!ok0 || s[1].serial > s[0].serial);
	*ret = s[*ret_slot];
	return true;
}

/*
 * Written in full once and synced, so that a checkpoint's write changes no metadata of the host's
 * file system and costs one flush.
 */
int env_synced_open(struct env *e)
{
	scoped_free char *path = mem_printf("%s/synced", e->dir);
	char zero[2 * ENV_SLOT_BYTES] = {0};
	struct stat st;
	struct env_slot s;

	if (!path)
		return -ENOMEM;
	e->synced_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | (e->readonly ? 0 : O_DSYNC), 0666);
	if (e->synced_fd < 0 || fstat(e->synced_fd, &st) < 0)
		return -errno;
	if ((size_t)st.st_size < sizeof(zero)) {
		/* Only ever a file that was never complete: no slot is in it. */
		ssize_t n = pwrite(e->synced_fd, zero, sizeof(zero), 0);

		if (n != (ssize_t)sizeof(zero))
			return n < 0 ? -errno : -ENOSPC;
		if (fsync(e->synced_fd) < 0)
			return -errno;
	}
	if (env_slot_newest(e, &s, &e->slot)) {
		e->slot ^= 1;
		atomic_store(&e->shared->durable, MAX(s.txnid, atomic_load(&e->shared->durable)));
	}
	return 0;
}

int env_synced_restore(struct env *e, struct text *why)
{
	scoped_free char *path = mem_printf("%s/data.mdb", e->dir);
	scoped_free char *page = NULL;
	scoped_fd int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	struct env_slot s;
	struct stat st;
	unsigned i;

	if (fd < 0)
		return !path ? -ENOMEM : errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!env_slot_newest(e, &s, &i)) {
		if (st.st_size == 0)
			return 0;
		if (why)
			text_fmt(why,
				 "%s was not completely created when the host went down, or its "
				 "file `synced` is lost",
				 e->dir);
		return -TESS_E_KV_CORRUPT;
	}
	if (s.psize < 512 || s.psize > 65536 || (uint64_t)st.st_size < 2 * s.psize)
		return -TESS_E_KV_CORRUPT;
	page = mem_zalloc(s.psize);
	if (!page)
		return -ENOMEM;
	for (i = 0; i < 2; i++) {
		s.meta.pgno = i;
		memcpy(page, &s.meta, sizeof(s.meta));
		if (pwrite(fd, page, s.psize, (off_t)(i * s.psize)) != (ssize_t)s.psize)
			return -EIO;
	}
	return fdatasync(fd) < 0 ? -errno : 0;
}

/* Pins the newest commit and copies its meta page; the writer lock keeps both of one commit. */
static int env_ckpt_pin(struct env *e, unsigned at, struct lmdb_meta_page *ret)
{
	MDB_txn *w, **pin = &e->pin[at];
	int rc, err = env_txn_writer(e, &w);

	if (err)
		return err;
	if (!*pin) {
		rc = mdb_txn_begin(e->mdb, NULL, MDB_RDONLY, pin);
		if (rc == MDB_READERS_FULL && mdb_reader_check(e->mdb, NULL) == 0)
			rc = mdb_txn_begin(e->mdb, NULL, MDB_RDONLY, pin);
		if (rc)
			*pin = NULL;
	} else {
		rc = mdb_txn_renew(*pin);
	}
	uint64_t id = mdb_txn_id(w) - 1;

	err = env_error(rc);
	if (!err &&
	    (mdb_txn_id(*pin) != id ||
	     pread(e->data_fd, ret, sizeof(*ret), (off_t)((id & 1) * e->psize)) !=
		     (ssize_t)sizeof(*ret) ||
	     ret->magic != LMDB_MAGIC || ret->version != LMDB_VERSION ||
	     !(ret->flags & LMDB_P_META) || ret->txnid != id || ret->dbs[0].pad != e->psize))
		err = -TESS_E_KV_CORRUPT;
	if (err && !rc)
		mdb_txn_reset(*pin);
	mdb_txn_abort(w);
	pthread_mutex_unlock(&e->writer);
	return err;
}

/*
 * After a failed fdatasync the kernel holds pages that it calls clean though they never reached the
 * disk, and the next fdatasync would succeed without them. So everything is written again.
 */
static int env_ckpt_rewrite(struct env *e)
{
	const size_t step = (size_t)1 << 20;
	scoped_free char *buf = mem_alloc(step);
	MDB_txn *w;
	int err = buf ? env_txn_writer(e, &w) : -ENOMEM;

	if (err)
		return err;
	for (off_t off = 0;; off += (off_t)step) {
		ssize_t n = pread(e->data_fd, buf, step, off);

		if (n <= 0) {
			err = n < 0 ? -errno : 0;
			break;
		}
		ssize_t wr = pwrite(e->data_fd, buf, (size_t)n, off);

		if (wr != n) {
			err = wr < 0 ? -errno : -ENOSPC;
			break;
		}
	}
	mdb_txn_abort(w);
	pthread_mutex_unlock(&e->writer);
	return err;
}

static int env_ckpt_sync(struct env *e)
{
	int err = e->suspect ? env_ckpt_rewrite(e) : 0;

	if (!err)
		err = fault_point("env.sync");
	if (!err && fdatasync(e->data_fd) < 0)
		err = -errno;
	e->suspect = err != 0;
	return err;
}

static int env_ckpt_store(struct env *e, const struct lmdb_meta_page *meta)
{
	struct env_slot newest, *s;
	unsigned at;
	char page[ENV_SLOT_BYTES] __attribute__((aligned(8))) = {0};
	int err = fault_point("env.meta");

	if (err)
		return err;
	/* Another process may have written since we last did. */
	uint64_t serial = env_slot_newest(e, &newest, &at) ? newest.serial + 1 : 1;

	e->slot = serial > 1 ? at ^ 1 : 0;
	s = (struct env_slot *)(void *)page;
	memcpy(s->magic, slot_magic, sizeof(slot_magic));
	s->version = SLOT_VERSION;
	s->serial = serial;
	s->txnid = meta->txnid;
	s->psize = e->psize;
	s->meta = *meta;
	s->crc = env_slot_crc(s);
	ssize_t n = pwrite(e->synced_fd, page, sizeof(page), (off_t)e->slot * ENV_SLOT_BYTES);

	return n == (ssize_t)sizeof(page) ? 0 : n < 0 ? -errno : -EIO;
}

static int env_ckpt_steps(struct env *e)
{
	unsigned at = e->cur ^ 1;
	struct lmdb_meta_page meta;
	int err = env_ckpt_pin(e, at, &meta);

	if (err)
		return err;
	/*
	 * Either may come first, as long as both come before the slot; this way round what
	 * before_sync has under way in another thread goes on during our own fdatasync.
	 */
	err = env_ckpt_sync(e);
	if (!err && e->before_sync)
		err = e->before_sync(e->arg, meta.txnid);
	if (!err)
		err = env_ckpt_store(e, &meta);
	if (err) {
		mdb_txn_reset(e->pin[at]);
		return err;
	}
	atomic_store(&e->shared->durable, meta.txnid);
	if (e->has_pin)
		mdb_txn_reset(e->pin[e->cur]);
	e->cur = at;
	atomic_store(&e->pinned, meta.txnid);
	atomic_store(&e->has_pin, true);
	return 0;
}

int env_ckpt_run(struct env *e)
{
	int err;

	if (atomic_load(&e->has_pin) && atomic_load(&e->pinned) == env_last(e))
		return 0;
	/* Checkpoints of several processes go one after the other: `synced` only ever moves
	 * forward. */
	env_turn_ask(e, ENV_TURN_CHECKPOINT);
	do
		err = flock(e->synced_fd, LOCK_EX) < 0 ? -errno : 0;
	while (err == -EINTR);
	env_turn_got(e, ENV_TURN_CHECKPOINT);
	if (err)
		return err;
	err = env_ckpt_steps(e);
	(void)flock(e->synced_fd, LOCK_UN);
	return err;
}

/* ---- checkpoints, shared by all who ask at once ---- */

int env_checkpoint(struct env *e)
{
	uint64_t want;
	int err;

	if (e->readonly)
		return 0;
	scoped_lock(&e->lock);
	want = e->begun + 1;
	while (e->running && e->ended < want)
		cond_wait(&e->cond, &e->lock);
	/* Whoever is late sees a newer checkpoint's slot only if 64 passed, and then any is as
	 * good. */
	if (e->ended >= want)
		return e->errs[want % ARRAY_SIZE(e->errs)];
	e->running = true;
	want = ++e->begun;
	lock_drop(&e->lock);
	err = env_ckpt_run(e);
	env_trim(e);
	lock_take(&e->lock);
	e->running = false;
	e->ended = want;
	e->errs[want % ARRAY_SIZE(e->errs)] = err;
	cond_wake_all(&e->cond);
	return err;
}

/* ---- the thread that keeps the pin young ---- */

/*
 * While a checkpoint is pinned, each commit takes fresh pages for the ten or so that it changes:
 * the file, and the resident set with its mapped pages, would grow by some 40 KiB a commit until the
 * owner next asks for a checkpoint. 256 keeps that near 10 MiB; creates were not slower than with
 * 2,048 (medians of 3 runs each, within their spread).
 */
#define ENV_PIN_COMMITS 256u

static void *env_auto_run(void *arg)
{
	struct env *e = arg;

	(void)pthread_setname_np(pthread_self(), "tess-env");
	lock_take(&e->lock);
	while (!e->stopping) {
		if (!atomic_load(&e->kicked)) {
			cond_wait(&e->cond_auto, &e->lock);
			continue;
		}
		lock_drop(&e->lock);
		int err = env_checkpoint(e);

		if (err)
			log_err("%s: checkpoint failed: %s", e->dir, err_text(err));
		lock_take(&e->lock);
		if (err && !e->stopping)
			(void)cond_wait_until(&e->cond_auto, &e->lock, clock_now() + NS_PER_S);
		atomic_store(&e->kicked, false);
	}
	lock_drop(&e->lock);
	return NULL;
}

void env_auto_kick(struct env *e, uint64_t id)
{
	if (id - atomic_load(&e->pinned) < ENV_PIN_COMMITS || atomic_load(&e->kicked))
		return;
	scoped_lock(&e->lock);
	atomic_store(&e->kicked, true);
	cond_wake_one(&e->cond_auto);
}

int env_auto_start(struct env *e)
{
	int err = -pthread_create(&e->thread, NULL, env_auto_run, e);

	e->has_thread = !err;
	return err;
}

void env_auto_stop(struct env *e)
{
	if (!e->has_thread)
		return;
	lock_take(&e->lock);
	e->stopping = true;
	cond_wake_all(&e->cond_auto);
	lock_drop(&e->lock);
	pthread_join(e->thread, NULL);
	e->has_thread = false;
}
