/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of durable segments. A segment id names the same bytes for ever, so nothing here is ever
 * stale; what is not wanted is freed, least recently used first, when the budget says so.
 *
 *   state     buf        waiters   in the LRU list
 *   LOADING   not yet    maybe     no
 *   READY     the bytes  none      yes
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "io/read_int.h"

#define SHARDS 16u
#define MISSED 256u	/* chunks whose misses are remembered */
#define SPENT  (UINT64_C(32) << 20)	/* the cache's size from which on spent chunks go at once */
#define FEW    3u	/* misses of packed files, from which on loading all of a chunk costs less */
#define DENSE  8u	/* of a chunk, one part in so many: fetched bit by bit, the rest will be asked for too */
#define LATELY 34u	/* log2 ns: 17 s. Misses older than one to two of that are forgotten */

struct chunk {
	struct htab_node node;		/* key: hash of segment id and index */
	tess_segid       seg;
	uint32_t         index;
	bool             ready, ahead;	/* ahead: nobody asked for it yet */
	bool             spent;		/* read to its end */
	struct buf      *buf;		/* a reference */
	struct list_node lru;
	struct list_node waiters;
	struct io_fetch  fetch;
	struct tess_req  req;
};

struct shard {
	struct lock      lock;		/* LOCK_IO_CACHE */
	struct htab      table;
	struct list_node lru;		/* oldest first */
	struct list_node spent;		/* likewise, of those that were read to their end */
};

struct cache {
	struct shard shard[SHARDS];
	struct lock  lock;		/* LOCK_LEAF, guards loading */
	struct cond  idle;
	unsigned     loading;
	atomic_uint  hand;		/* the shard that is reclaimed from next */
	atomic_uint_fast64_t missed[MISSED];	/* of chunks that small reads missed lately: see below */
	atomic_uint_fast64_t bytes;
};

static uint64_t chunk_key(tess_segid seg, uint32_t index)
{
	return hash64(seg + hash64(index + UINT64_C(1)));
}

static struct shard *shard_of(struct cache *c, uint64_t key)
{
	return &c->shard[key >> 60];
}

int cache_new(struct io *io)
{
	struct cache *c = mem_zalloc(sizeof(*c));
	int e = 0;

	if (!c)
		return -ENOMEM;
	for (unsigned i = 0; i < SHARDS; i++) {
		lock_init(&c->shard[i].lock, LOCK_IO_CACHE, "io.cache");
		list_init(&c->shard[i].lru);
		list_init(&c->shard[i].spent);
		if (htab_init(&c->shard[i].table, 64) < 0)
			e = -ENOMEM;
	}
	lock_init(&c->lock, LOCK_LEAF, "io.cache.idle");
	cond_init(&c->idle);
	io->cache = c;
	if (e < 0)
		cache_free(io);
	return e;
}

static struct chunk *find_locked(struct shard *s, uint64_t key, tess_segid seg, uint32_t index)
{
	struct chunk *c = (struct chunk *)htab_find(&s->table, key);

	/* 64 bits of hash: a collision is treated as a miss that is never cached. */
	return c && c->seg == seg && c->index == index ? c : NULL;
}

static void chunk_free(struct cache *cache, struct chunk *c)
{
	if (c->buf)
		atomic_fetch_sub(&cache->bytes, c->buf->cap);
	buf_unref(c->buf);
	io_fetch_done(&c->fetch);
	free(c);
}

enum cache_got cache_get(struct io *io, tess_segid seg, uint32_t chunk, struct buf **ret,
			 struct cache_wait *w, uint64_t end)
{
	uint64_t key = chunk_key(seg, chunk);
	struct shard *s = shard_of(io->cache, key);
	struct chunk *c;

	scoped_lock(&s->lock);
	c = find_locked(s, key, seg, chunk);
	if (!c)
		return CACHE_MISS;
	if (!w)
		return c->ready ? CACHE_HIT : CACHE_WAIT;
	if (c->ahead)
		io_count(io, IO_AHEAD_USED, 1);
	c->ahead = false;
	c->spent |= end >= c->fetch.want.len;
	if (!c->ready) {
		list_push_back(&c->waiters, &w->link);
		return CACHE_WAIT;
	}
	list_remove(&c->lru);
	list_push_back(c->spent ? &s->spent : &s->lru, &c->lru);
	*ret = buf_ref(c->buf);
	return CACHE_HIT;
}

/*
 * Small reads that keep coming back to a chunk, in a slot of 64 bits: 40 of its key, 8 of the time, 4 of how
 * often, 12 of how many blocks. Lossy, and races lose counts: it is a guess.
 */
#define MISS_OFTEN UINT64_C(15)
#define MISS_BLOCKS UINT64_C(4095)

static uint64_t miss_count(uint64_t slot)
{
	return slot & MISS_OFTEN;
}

static uint64_t miss_blocks(uint64_t slot)
{
	return slot >> 4 & MISS_BLOCKS;
}

/* The slot as it was, 0 when it is another's or old; and with this miss in it. */
static uint64_t miss_note(struct cache *c, uint64_t key, uint64_t blocks)
{
	atomic_uint_fast64_t *slot = &c->missed[key >> 24 & (MISSED - 1)];
	uint64_t was = atomic_load_explicit(slot, memory_order_relaxed);
	uint64_t now = (uint64_t)clock_now() >> LATELY & 255, then = was >> 16 & 255;

	if (was >> 24 != key >> 24 || (now != then && now != ((then + 1) & 255)))
		was = 0;
	else
		now = then;	/* the first miss starts the clock */
	blocks = MIN(miss_blocks(was) + blocks, MISS_BLOCKS);
	atomic_store_explicit(slot, key >> 24 << 24 | now << 16 | blocks << 4 |
			      MIN(miss_count(was) + 1, MISS_OFTEN), memory_order_relaxed);
	return was;
}

/*
 * Files that were written together are often read together, and each of them alone is no sequence. And
 * reads all over a file, or in an order that only the program knows, pay a round trip each where a
 * chunk costs a few: when an eighth of one has gone that way it is fetched whole, so that no pattern
 * makes it more than nine times what was asked for, and reads of a large file that stay apart move
 * nothing else. A local store has no round trips to save.
 */
bool cache_often_missed(struct io *io, const struct meta_segment *seg, uint32_t chunk, uint64_t len)
{
	uint64_t was = miss_note(io->cache, chunk_key(seg->id, chunk),
				 round_up(len, TESS_BLOCK) / TESS_BLOCK);
	uint64_t all = MIN(io->chunk, seg->len - chunk * io->chunk);

	if (seg->owner == TESS_PACKED_INO)
		return miss_count(was) + 1 >= FEW;
	return !io->local && miss_count(was) >= FEW + 1 &&
	       miss_blocks(was) * TESS_BLOCK * DENSE >= all;
}

static void load_over(struct cache *c)
{
	scoped_lock(&c->lock);
	if (--c->loading == 0)
		cond_wake_all(&c->idle);
}

static void load_done(struct io_fetch *f)
{
	struct chunk *c = f->owner;
	struct io *io = f->io;
	struct cache *cache = io->cache;
	struct shard *s = shard_of(cache, c->node.key);
	struct list_node waiters = LIST_INIT(waiters), *n;
	struct buf *b = f->err == 0 ? buf_ref(f->buf) : NULL;
	int e = f->err;

	lock_take(&s->lock);
	while ((n = list_pop_front(&c->waiters)))
		list_push_back(&waiters, n);
	if (e == 0) {
		c->buf = steal_ptr(f->buf);
		c->ready = true;
		atomic_fetch_add(&cache->bytes, c->buf->cap);
		list_push_back(c->spent ? &s->spent : &s->lru, &c->lru);
		c = NULL;
	} else {
		htab_remove(&s->table, &c->node);
	}
	lock_drop(&s->lock);
	while ((n = list_pop_front(&waiters))) {
		struct cache_wait *w = list_entry(n, struct cache_wait, link);

		w->fn(w, b, e);
	}
	buf_unref(b);
	if (c)
		chunk_free(cache, c);
	load_over(cache);	/* last: from here on io may be closed */
}

/* The oldest chunk of a shard, spent ones first; NULL when there is none. */
static struct chunk *evict(struct io *io, struct shard *s, bool spent_only)
{
	struct list_node *n;
	struct chunk *c;

	scoped_lock(&s->lock);
	n = list_pop_front(&s->spent);
	if (!n && !spent_only)
		n = list_pop_front(&s->lru);
	if (!n)
		return NULL;
	c = list_entry(n, struct chunk, lru);
	htab_remove(&s->table, &c->node);
	if (c->ahead)
		io_count(io, IO_AHEAD_WASTED, 1);
	return c;
}

static void reclaim(struct io *io, uint64_t want, bool spent_only)
{
	struct cache *cache = io->cache;
	unsigned empty = 0;

	while (want > 0 && empty < SHARDS) {
		unsigned i = atomic_fetch_add(&cache->hand, 1) % SHARDS;
		struct chunk *c = evict(io, &cache->shard[i], spent_only);

		empty = c ? 0 : empty + 1;
		if (c) {
			want -= MIN(want, (uint64_t)c->buf->cap);
			chunk_free(cache, c);
		}
	}
}

void cache_reclaim(void *arg, uint64_t want)
{
	reclaim(arg, want, false);
}

/*
 * Before a chunk is loaded. What a reader has read to its end the kernel has by now, and a buffer that
 * is used again costs no page faults; so little of that is kept, however much memory there is.
 */
static void make_room(struct io *io)
{
	if (atomic_load(&io->cache->bytes) > SPENT)
		reclaim(io, io->chunk, true);
	if (budget_over(io->budget, MEM_CACHE))
		reclaim(io, 2 * io->chunk, false);
}

int cache_load(struct io *io, const struct meta_segment *seg, uint32_t index, bool ahead)
{
	uint64_t key = chunk_key(seg->id, index), off = index * io->chunk;
	struct cache *cache = io->cache;
	struct shard *s = shard_of(cache, key);
	struct chunk *c = mem_zalloc(sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->node.key = key;
	c->seg = seg->id;
	c->index = index;
	c->ahead = ahead;
	list_init(&c->waiters);
	list_init(&c->lru);
	req_begin(&c->req, ahead ? "read-ahead" : "read");
	c->req.deadline = clock_now() + IO_DEADLINE;
	c->fetch = (struct io_fetch){ .io = io, .req = &c->req, .seg = *seg, .done = load_done,
				      .owner = c, .use = MEM_CACHE,
				      .want = { off, MIN(io->chunk, seg->len - off) } };
	lock_take(&s->lock);
	if (htab_find(&s->table, key)) {
		lock_drop(&s->lock);
		free(c);
		return 0;
	}
	htab_insert(&s->table, &c->node);
	lock_drop(&s->lock);
	lock_take(&cache->lock);
	cache->loading++;
	lock_drop(&cache->lock);
	if (ahead)
		io_count(io, IO_AHEAD_CHUNKS, 1);
	make_room(io);
	io_fetch_start(&c->fetch);
	return 0;
}

/* Takes the waiters of a shard that were given up. */
static void waiters_given_up(struct shard *s, struct list_node *ret)
{
	struct htab_node *h = NULL;

	scoped_lock(&s->lock);
	while ((h = htab_next(&s->table, h)) != NULL) {
		struct chunk *c = container_of(h, struct chunk, node);

		list_for_each_safe(n, tmp, &c->waiters) {
			if (!atomic_load(&list_entry(n, struct cache_wait, link)->req->cancelled))
				continue;
			list_remove(n);
			list_push_back(ret, n);
		}
	}
}

void cache_hurry(struct io *io)
{
	struct list_node over = LIST_INIT(over), *n;

	for (unsigned i = 0; i < SHARDS; i++)
		waiters_given_up(&io->cache->shard[i], &over);
	while ((n = list_pop_front(&over))) {
		struct cache_wait *w = list_entry(n, struct cache_wait, link);

		w->fn(w, NULL, -EINTR);
	}
}

void cache_drain(struct io *io)
{
	struct cache *c = io->cache;

	scoped_lock(&c->lock);
	while (c->loading > 0)
		cond_wait(&c->idle, &c->lock);
}

uint64_t cache_bytes(struct io *io)
{
	return atomic_load(&io->cache->bytes);
}

void cache_free(struct io *io)
{
	struct cache *c = io->cache;

	if (!c)
		return;
	if (io->cache)
		cache_reclaim(io, UINT64_MAX);
	for (unsigned i = 0; i < SHARDS; i++) {
		htab_done(&c->shard[i].table);
		lock_done(&c->shard[i].lock);
	}
	cond_done(&c->idle);
	lock_done(&c->lock);
	free(c);
	io->cache = NULL;
}
