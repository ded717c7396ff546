/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tessera gc`: what the garbage list does not know. A crash leaves objects that no record names and
 * staging files that no record refers to; an object's name says which session wrote it, so what a live
 * session may be about to publish is left alone, however old it is.
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "io/stage.h"
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PAGE 256u
#define STAGING 1024u	/* files for one checkpoint */

struct orphan {
	struct io     *io;
	struct io_gc  *gc;
	struct tess_req req;
	tess_segid    *staging;		/* owned: files that may go */
	unsigned       nstaging;
};

static void say(const struct orphan *o, const char *what, const char *name, uint64_t bytes)
{
	if (o->gc->fn)
		o->gc->fn(o->gc->arg, what, name, bytes);
}

/* 1: garbage of the list, which the mount collects; 0: not in it; or negative. */
static int in_garbage_list(struct orphan *o, tess_segid id)
{
	struct meta_garbage g[32];
	uint64_t after = 0;
	unsigned n = ARRAY_SIZE(g);

	while (n == ARRAY_SIZE(g)) {
		int e = meta_garbage_list(o->io->meta, after, g, ARRAY_SIZE(g), &n);

		if (e < 0)
			return e;
		for (unsigned i = 0; i < n; i++) {
			if (g[i].seg.id == id)
				return 1;
			after = g[i].serial;
		}
	}
	return 0;
}

static int drop_object(struct orphan *o, struct io_tgt *t, const char *name)
{
	int e = fault_point("gc.delete");

	if (e == 0)
		e = store_del(t->store, &o->req, name);
	if (e == 0)
		io_target_changed(t);
	return e;
}

static int judge_object(struct orphan *o, struct io_tgt *t, const char *name, uint64_t bytes)
{
	struct meta_segment s;
	unsigned shard;
	bool lives;
	tess_segid id;
	int e;

	if (place_parse(name, &id, &shard) < 0 || io_session_lives(o->io, (uint32_t)(id >> 32))) {
		o->gc->kept += place_parse(name, &id, &shard) < 0 ||
			       meta_segment_get(o->io->meta, id, &s) == -ENOENT;
		return 0;
	}
	e = meta_object_known(o->io->meta, id, shard, t->id);
	lives = e == 0;
	if (e == -ENOENT)
		e = in_garbage_list(o, id);
	if (e != 0)
		return e < 0 ? e : 0;
	o->gc->orphan_objects++;
	o->gc->orphan_bytes += bytes;
	say(o, "orphan", name, bytes);
	if (o->gc->dry_run)
		return 0;
	/* One of a segment that lives elsewhere goes by the list: it might be on its way here again. */
	e = lives ? meta_object_stray(o->io->meta, id, shard, t->id) : drop_object(o, t, name);
	o->gc->deleted += e == 0;
	return e == -EBUSY || (lives && e == -ENOENT) ? 0 : e;
}

static int walk_target(struct orphan *o, struct io_tgt *t)
{
	scoped_free struct tess_key *keys = mem_array(PAGE, sizeof(*keys));
	scoped_free struct tess_objinfo *infos = mem_array(PAGE, sizeof(*infos));
	struct store_list l = { .max = PAGE, .keys = keys, .infos = infos, .more = true };
	int e = keys && infos ? 0 : -ENOMEM;

	while (e == 0 && l.more) {
		struct store_op op = { .req = &o->req, .code = STORE_LIST, .list = &l };

		l.n = 0;
		l.more = false;
		o->req.deadline = clock_now() + IO_DEADLINE;
		e = store_do(t->store, &op);
		for (unsigned i = 0; e == 0 && i < l.n; i++)
			e = judge_object(o, t, keys[i].name, infos[i].size);
		if (l.n > 0)
			l.after = keys[l.n - 1];
		else
			l.more = false;
	}
	return e;
}

/* A copy that a live session is making is no garbage. */
static bool is_made(const struct orphan *o, const struct meta_garbage *g)
{
	return g->kind == META_GARBAGE_COPYING && io_session_lives(o->io, g->session);
}

static int walk_garbage(struct orphan *o)
{
	struct meta_garbage g[32];
	uint64_t after = 0;
	unsigned n = ARRAY_SIZE(g);

	while (n == ARRAY_SIZE(g)) {
		int e = meta_garbage_list(o->io->meta, after, g, ARRAY_SIZE(g), &n);

		if (e < 0)
			return e;
		for (unsigned i = 0; i < n; i++) {
			char name[17];

			after = g[i].serial;
			if (is_made(o, &g[i]))
				continue;
			stage_name(g[i].seg.id, name);
			o->gc->garbage_objects += MAX(g[i].seg.width, 1);
			o->gc->garbage_bytes += g[i].seg.len;
			say(o, "garbage", name, g[i].seg.len);
		}
	}
	return 0;
}

static int judge_staging(struct orphan *o, const char *name)
{
	struct meta_segment s;
	struct stat st;
	char again[17];
	tess_segid id = strtoull(name, NULL, 16);
	int e;

	stage_name(id, again);
	if (id == 0 || strcmp(name, again) != 0 || io_session_lives(o->io, (uint32_t)(id >> 32))) {
		o->gc->kept++;
		return 0;
	}
	e = meta_segment_get(o->io->meta, id, &s);
	if (e == 0 && s.state == META_STAGED)
		return 0;	/* the next mount seals it */
	if (e < 0 && e != -ENOENT)
		return e;
	if (fstatat(o->io->stage->dirfd, name, &st, 0) < 0)
		return errno == ENOENT ? 0 : -errno;
	o->gc->staging_files++;
	say(o, "staging", name, (uint64_t)st.st_size);
	if (!o->gc->dry_run)
		o->staging[o->nstaging++] = id;
	return 0;
}

/* In between, what is true of the namespace now becomes true of the one that a power cut would restore. */
static int drop_staging(struct orphan *o)
{
	int e = o->nstaging > 0 ? io_checkpoint(o->io) : 0;

	for (unsigned i = 0; e == 0 && i < o->nstaging; i++) {
		e = stage_unlink(o->io, o->staging[i]);
		o->gc->deleted += e == 0;
		o->gc->kept += e == -EBUSY;
		e = e == -EBUSY ? 0 : e;
	}
	o->nstaging = 0;
	return e;
}

static int walk_staging(struct orphan *o)
{
	int fd = openat(o->io->stage->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), e = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *x;

	if (!d)
		return -errno;
	while (e == 0 && (x = readdir(d))) {
		if (x->d_name[0] != '.')
			e = judge_staging(o, x->d_name);
		if (e == 0 && o->nstaging == STAGING)
			e = drop_staging(o);
	}
	closedir(d);
	return e < 0 ? e : drop_staging(o);
}

/* The second time for what the first one had to claim, and for what the walk found. */
static void collect(struct io *io)
{
	for (unsigned i = 0; i < 2; i++) {
		(void)io_checkpoint(io);
		(void)io_gc_pass(io, clock_now() + 10 * NS_PER_S);
	}
}

int io_gc(struct io *io, struct io_gc *gc)
{
	struct orphan o = { .io = io, .gc = gc };
	int e;

	req_begin(&o.req, "gc");
	o.staging = mem_array(STAGING, sizeof(*o.staging));
	if (!o.staging)
		return -ENOMEM;
	/* What is not referred to now must not be so in what a power cut restores. */
	e = io_checkpoint(io);
	if (e == 0)
		e = walk_garbage(&o);
	if (e == 0 && !gc->dry_run) {
		collect(io);
		gc->deleted += gc->garbage_objects;
	}
	for (unsigned i = 0; e == 0 && i < io->ntgt; i++)
		e = walk_target(&o, &io->tgt[i]);
	if (e == 0)
		e = walk_staging(&o);
	if (e == 0 && !gc->dry_run && gc->orphan_objects > 0)
		collect(io);
	free(o.staging);
	return e;
}
