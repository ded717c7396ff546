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
#define SESSIONS 256u

struct orphan {
	struct io     *io;
	struct io_gc  *gc;
	struct meta_session *sessions;	/* owned */
	unsigned       nsessions;
	struct tess_req req;
};

static bool session_alive(const struct orphan *o, uint32_t id)
{
	if (id == meta_session_id(o->io->meta))
		return true;
	for (unsigned i = 0; i < o->nsessions; i++)
		if (o->sessions[i].id == id)
			return !meta_session_dead(&o->sessions[i]);
	return false;
}

/*
 * Called after what is judged was listed: a session registers before it writes, so one that is not
 * in the table then wrote nothing of it or is gone.
 */
static int look_who_lives(struct orphan *o)
{
	return meta_sessions(o->io->meta, o->sessions, SESSIONS, &o->nsessions);
}

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

static int judge_object(struct orphan *o, struct io_tgt *t, const char *name, uint64_t bytes)
{
	struct meta_segment s;
	unsigned shard;
	tess_segid id;
	int e;

	if (place_parse(name, &id, &shard) < 0 || session_alive(o, (uint32_t)(id >> 32))) {
		o->gc->kept += place_parse(name, &id, &shard) < 0 ||
			       meta_segment_get(o->io->meta, id, &s) == -ENOENT;
		return 0;
	}
	e = meta_segment_get(o->io->meta, id, &s);
	/* A staged record with objects: a seal died before its commit and will be done again, on the same names. */
	if (e == 0)
		return 0;
	if (e != -ENOENT)
		return e;
	e = in_garbage_list(o, id);
	if (e != 0)
		return e < 0 ? e : 0;
	o->gc->orphan_objects++;
	o->gc->orphan_bytes += bytes;
	say(o, "orphan", name, bytes);
	if (o->gc->dry_run)
		return 0;
	e = fault_point("gc.delete");
	if (e == 0)
		e = store_del(t->store, &o->req, name);
	if (e == 0) {
		io_target_changed(t);
		o->gc->deleted++;
	}
	return e;
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
		if (e == 0)
			e = look_who_lives(o);
		for (unsigned i = 0; e == 0 && i < l.n; i++)
			e = judge_object(o, t, keys[i].name, infos[i].size);
		if (l.n > 0)
			l.after = keys[l.n - 1];
		else
			l.more = false;
	}
	return e;
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

			stage_name(g[i].seg.id, name);
			o->gc->garbage_objects += MAX(g[i].seg.width, 1);
			o->gc->garbage_bytes += g[i].seg.len;
			say(o, "garbage", name, g[i].seg.len);
			after = g[i].serial;
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
	int e = look_who_lives(o);

	if (e < 0)
		return e;
	stage_name(id, again);
	if (id == 0 || strcmp(name, again) != 0 || session_alive(o, (uint32_t)(id >> 32))) {
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
	if (o->gc->dry_run)
		return 0;
	e = stage_unlink(o->io, id);
	o->gc->deleted += e == 0;
	return e;
}

static int walk_staging(struct orphan *o)
{
	int fd = openat(o->io->stage->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), e = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *x;

	if (!d)
		return -errno;
	while (e == 0 && (x = readdir(d)))
		if (x->d_name[0] != '.')
			e = judge_staging(o, x->d_name);
	closedir(d);
	return e;
}

int io_gc(struct io *io, struct io_gc *gc)
{
	struct orphan o = { .io = io, .gc = gc };
	int e;

	req_begin(&o.req, "gc");
	o.sessions = mem_array(SESSIONS, sizeof(*o.sessions));
	if (!o.sessions)
		return -ENOMEM;
	/* What is not referred to now must not be so in what a power cut restores. */
	e = io_checkpoint(io);
	if (e == 0)
		e = walk_garbage(&o);
	if (e == 0 && !gc->dry_run) {
		(void)io_gc_pass(io, clock_now() + 10 * NS_PER_S);
		gc->deleted += gc->garbage_objects;
	}
	for (unsigned i = 0; e == 0 && i < io->ntgt; i++)
		e = walk_target(&o, &io->tgt[i]);
	if (e == 0)
		e = walk_staging(&o);
	free(o.sessions);
	return e;
}
