/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may come of a step. A change is seen by its own mount when the call returned, by another when
 * the mode says (`rule_latest`), not before the call began (`rule_earliest`), and by a handle there
 * from when it looks again (`reader.refresh`). A reader gets of each byte the value of a change that it
 * may see and that no later one which it must see has replaced. Names are registers of the same kind.
 */
#include "litmus.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER_SEEN INT64_MAX
#define BEFORE	   INT64_MIN
#define END	   1	/* the "byte" behind the end of a file */
#define OBJS	   32u
#define EVENTS	   128u

enum ev_kind { EV_BYTES, EV_SIZE, EV_ROOM, EV_NAME };

struct event {
	enum ev_kind kind;
	int	     obj;	/* of a name: what it then is, -1: nothing */
	unsigned     world, mount;
	int64_t	     t0, t1, published;
	long	     lo, hi;	/* EV_SIZE: the new size is lo */
	char	     c;		/* the byte, or the name */
	bool	     mapped, punched;
};

struct object {
	unsigned owner;
	int64_t	 lam0, lam1;	/* laminated between these */
	int64_t	 opaque;	/* from here on, bytes are at offsets nobody knows */
	bool	 dir;
};

struct handle {
	int	 obj;
	unsigned file;		/* the open file: dup and fork share it */
	bool	 open, writes, sync, direct;
	int64_t	 refresh, mapped;
	unsigned opened;	/* the step */
};

struct held {
	int	 obj;
	unsigned owner, mount;
	char	 kind, type;
	long	 lo, hi;
	unsigned file, process;
};

struct reader {
	unsigned mount, world;
	int	 obj;
	int64_t	 t0, t1, refresh;
	unsigned opened;
	int64_t told;		/* when its mount was last told to forget */
};

struct history {
	const struct lit_prog  *p;
	const struct lit_obs   *obs;
	const struct lit_world *w;
	unsigned		order[LIT_STEPS];
	struct event		ev[EVENTS];
	unsigned		nev;
	struct object		obj[OBJS];
	unsigned		nobj, nfiles, nheld;
	struct handle		h[LIT_PARTIES][LIT_HANDLES];
	struct held		held[LIT_STEPS];
	/* of each step, as it was when it ran */
	struct reader		reader[LIT_STEPS];
	bool			conflict[LIT_STEPS];
	uint32_t		gone[LIT_STEPS];	/* objects that an open cannot find any more */
	int64_t			told[2];
	uint32_t		used[2];		/* objects that a mount had open */
};

_Static_assert(OBJS <= 32, "sets of objects");

static enum lit_mode rule_mode(const struct history *h)
{
	return h->w->env->mode;
}

static unsigned rule_mount(const struct lit_world *w, unsigned party)
{
	return w->place == LIT_MOUNTS && party == 1;
}

static unsigned rule_world(const struct lit_world *w, unsigned party)
{
	return w->env->mode == LIT_PRIVATE ? rule_mount(w, party) : 0;
}

static bool rule_ok(const struct lit_obs *o)
{
	return !strcmp(o->text, "ok");
}

/* --- visibility --- */

static int64_t rule_latest(const struct history *h, const struct event *e, unsigned mount)
{
	if (e->mount == mount || e->t1 == BEFORE)
		return e->mount != mount && rule_mode(h) == LIT_LAMINATE && e->kind != EV_NAME
			       ? h->obj[e->obj].lam1 : e->t1;
	switch (rule_mode(h)) {
	case LIT_STRICT: return e->mapped ? e->published : e->t1;
	case LIT_COMMIT:
	case LIT_SESSION: return e->kind == EV_NAME ? e->t1 : e->published;
	case LIT_LAMINATE: return e->kind == EV_NAME ? e->t1 : h->obj[e->obj].lam1;
	case LIT_LAZY: return e->t1 + LIT_INTERVAL;
	default: return NEVER_SEEN;
	}
}

static int64_t rule_earliest(const struct history *h, const struct event *e, unsigned mount)
{
	if (e->mount != mount && rule_mode(h) == LIT_LAMINATE && e->kind != EV_NAME)
		return h->obj[e->obj].lam0;
	return e->t0;
}

static bool rule_may(const struct history *h, const struct event *e, const struct reader *r)
{
	return rule_earliest(h, e, r->mount) < r->t1;
}

static bool rule_must(const struct history *h, const struct event *e, const struct reader *r)
{
	return rule_latest(h, e, r->mount) <= (e->mount == r->mount ? r->t0 : r->refresh);
}

/* When what the kernel of another mount remembers has given way to e. */
static int64_t rule_forgotten(int64_t late, const struct event *e, const struct reader *r)
{
	if (late == LIT_TOLD)
		return e->t1 <= r->told ? e->t1 : NEVER_SEEN;
	return e->t1 + late;
}

/* As rule_must() where what e replaced is a name that the kernel may remember, or one that was not there. */
static bool rule_must_name(const struct history *h, const struct event *e, const struct reader *r, bool absent)
{
	int64_t late = absent ? h->w->env->absent : h->w->env->names;

	return rule_must(h, e, r) && (!late || e->mount == r->mount || e->t1 == BEFORE ||
				      rule_forgotten(late, e, r) <= r->refresh);
}

/*
 * Bytes lie in the order they were written in, whoever publishes first. A store to a mapping is written at its
 * publish; a hole is none of the writes that have an order.
 */
static bool rule_written_before(const struct event *a, const struct event *b)
{
	return a->kind == EV_BYTES && b->kind == EV_BYTES && !b->punched &&
	       (a->mapped ? a->published : a->t1) < b->t0;
}

/* a came before b for everybody. */
static bool rule_before(const struct history *h, const struct event *a, const struct event *b)
{
	if (a->t1 == BEFORE || rule_written_before(a, b))
		return true;
	return (a->mount == b->mount ? a->t1 : rule_latest(h, a, b->mount)) < b->t0;
}

/* 0: does not touch this byte; else the value. */
static char rule_value(const struct event *e, long z)
{
	if (e->kind == EV_BYTES && z >= e->lo && z < e->hi)
		return e->c;
	return e->kind == EV_SIZE && z >= e->lo ? END : 0;
}

static bool rule_concerns(const struct event *e, const struct reader *r)
{
	return e->kind != EV_NAME && e->obj == r->obj;
}

static bool rule_replaced(const struct history *h, const struct event *e, const struct reader *r, long z)
{
	for (unsigned i = 0; i < h->nev; i++) {
		const struct event *o = &h->ev[i];

		if (o != e && rule_concerns(o, r) && rule_value(o, z) && rule_must(h, o, r) &&
		    (!e || rule_before(h, e, o)))
			return true;
	}
	return false;
}

/* A file that grew past z has zeros there, not an end. */
static void rule_grown(const struct history *h, const struct reader *r, long z, bool set[256])
{
	for (unsigned i = 0; i < h->nev; i++) {
		const struct event *e = &h->ev[i];
		bool after_all = true;

		if (!rule_concerns(e, r) || rule_value(e, z) || !rule_may(h, e, r) ||
		    z >= (e->kind == EV_SIZE ? e->lo : e->hi))
			continue;
		set['.'] = true;
		for (unsigned k = 0; k < h->nev; k++)
			if (h->ev[k].kind == EV_SIZE && rule_concerns(&h->ev[k], r) &&
			    rule_value(&h->ev[k], z) && !rule_before(h, &h->ev[k], e))
				after_all = false;
		if (after_all && rule_must(h, e, r)) {
			set[END] = false;
			return;
		}
	}
}

static void rule_byte(const struct history *h, const struct reader *r, long z, bool set[256])
{
	memset(set, 0, 256 * sizeof(*set));
	set[END] = !rule_replaced(h, NULL, r, z);
	for (unsigned i = 0; i < h->nev; i++) {
		const struct event *e = &h->ev[i];
		char c = rule_concerns(e, r) ? rule_value(e, z) : 0;

		if (c && rule_may(h, e, r) && !rule_replaced(h, e, r, z))
			set[(unsigned char)c] = true;
	}
	if (set[END])
		rule_grown(h, r, z, set);
}

static void rule_set_text(const bool set[256], long z, char *why, size_t cap)
{
	size_t n = (size_t)snprintf(why, cap, "byte %ld may be", z);

	for (unsigned c = 0; c < 256 && n + 8 < cap; c++)
		if (set[c])
			n += (size_t)snprintf(why + n, cap - n, c == END ? " END" : " %c", c);
}

/* What a name may be for a reader: set[0] nothing, set[1 + obj]. */
static void rule_name(const struct history *h, const struct reader *r, char name, bool set[OBJS + 1])
{
	bool any = false;

	memset(set, 0, (OBJS + 1) * sizeof(*set));
	for (unsigned i = 0; i < h->nev; i++) {
		const struct event *e = &h->ev[i];
		bool replaced = false;

		if (e->kind != EV_NAME || e->c != name || e->world != r->world)
			continue;
		for (unsigned k = 0; k < h->nev && !replaced; k++) {
			const struct event *o = &h->ev[k];

			replaced = o != e && o->kind == EV_NAME && o->c == name && o->world == r->world &&
				   rule_must_name(h, o, r, e->obj < 0) && rule_before(h, e, o);
		}
		if (rule_may(h, e, r) && !replaced)
			set[e->obj + 1] = true;
		any |= rule_must_name(h, e, r, true);
	}
	set[0] |= !any;
}

/* --- building the history --- */

static struct event *hist_event(struct history *h, enum ev_kind kind, int obj, unsigned step)
{
	struct event *e = &h->ev[h->nev];

	if (h->nev + 1 == EVENTS)
		abort();
	h->nev++;
	memset(e, 0, sizeof(*e));
	e->kind = kind;
	e->obj = obj;
	e->mount = rule_mount(h->w, h->p->steps[step].party);
	e->world = rule_world(h->w, h->p->steps[step].party);
	e->t0 = h->obs[step].t0;
	e->t1 = h->obs[step].t1;
	e->published = NEVER_SEEN;
	return e;
}

static int hist_object(struct history *h, unsigned owner)
{
	struct object *o = &h->obj[h->nobj];

	if (h->nobj + 1 == OBJS)
		abort();
	memset(o, 0, sizeof(*o));
	o->owner = owner;
	o->lam0 = o->lam1 = o->opaque = NEVER_SEEN;
	return (int)h->nobj++;
}

static void hist_name(struct history *h, char name, int obj, unsigned step)
{
	hist_event(h, EV_NAME, obj, step)->c = name;
}

static void hist_setup(struct history *h)
{
	unsigned worlds = rule_mode(h) == LIT_PRIVATE && h->w->place == LIT_MOUNTS ? 2 : 1;

	for (unsigned k = 0; k < worlds; k++)
		for (const char *s = h->p->setup; *s; s += strcspn(s, " "), s += strspn(s, " ")) {
			int obj = hist_object(h, k);
			struct event *e = hist_event(h, EV_NAME, obj, 0);

			e->c = *s;
			e->mount = e->world = k;
			e->t0 = e->t1 = BEFORE;
			h->obj[obj].dir = s[2] == '/';
			if (h->obj[obj].dir)
				continue;
			e = hist_event(h, EV_BYTES, obj, 0);
			e->mount = e->world = k;
			e->t0 = e->t1 = e->published = BEFORE;
			e->c = s[2];
			e->hi = strtol(s + 3, NULL, 10);
		}
}

/* What the name is after all that ended so far. */
static int hist_lookup(const struct history *h, char name, unsigned world)
{
	int obj = -1;

	for (unsigned i = 0; i < h->nev; i++)
		if (h->ev[i].kind == EV_NAME && h->ev[i].c == name && h->ev[i].world == world)
			obj = h->ev[i].obj;
	return obj;
}

/* Without a name when step i began, and never open on its mount: found to be gone, however old the name. */
static uint32_t hist_gone(const struct history *h, unsigned i)
{
	uint32_t named = 0, was = 0;

	for (unsigned k = 0; k < h->nev; k++) {
		const struct event *e = &h->ev[k];
		bool last = e->kind == EV_NAME && e->obj >= 0;

		if (!last)
			continue;
		was |= 1u << e->obj;
		for (unsigned o = k + 1; o < h->nev && last; o++)
			last = h->ev[o].kind != EV_NAME || h->ev[o].c != e->c ||
			       h->ev[o].t1 > h->obs[i].t0;
		named |= last ? 1u << e->obj : 0;
	}
	return was & ~named & ~h->used[rule_mount(h->w, h->p->steps[i].party)];
}

static void hist_open(struct history *h, unsigned i)
{
	const struct lit_step *s = &h->p->steps[i];
	struct handle *f = &h->h[s->party][s->h];
	int obj = hist_lookup(h, s->f, rule_world(h->w, s->party)), flags = s->flags | h->w->env->flags;

	h->gone[i] = hist_gone(h, i);
	if (!rule_ok(&h->obs[i]))
		return;
	if (obj < 0 && (s->flags & O_CREAT)) {
		obj = hist_object(h, rule_mount(h->w, s->party));
		hist_name(h, s->f, obj, i);
	}
	*f = (struct handle){ .obj = obj, .file = ++h->nfiles, .open = true, .refresh = h->obs[i].t0, .opened = i,
			      .writes = (s->flags & O_ACCMODE) != O_RDONLY,
			      .sync = flags & (O_SYNC | O_DSYNC), .direct = flags & O_DIRECT };
	if (obj >= 0)
		h->used[rule_mount(h->w, s->party)] |= 1u << obj;
	if (obj >= 0 && (s->flags & O_TRUNC))
		(void)hist_event(h, EV_SIZE, obj, i);
}

static void hist_write(struct history *h, unsigned i)
{
	const struct lit_step *s = &h->p->steps[i];
	const struct handle *f = &h->h[s->party][s->h];
	struct event *e;

	if (f->obj < 0)
		return;
	if (s->op == OP_APPEND || s->op == OP_SWRITE || s->op == OP_FSWRITE || s->op == OP_INCR) {
		if (h->obj[f->obj].opaque > h->obs[i].t0)
			h->obj[f->obj].opaque = h->obs[i].t0;
		return;
	}
	e = hist_event(h, s->op == OP_FALLOC ? EV_ROOM : s->op == OP_FTRUNC ? EV_SIZE : EV_BYTES, f->obj, i);
	e->lo = s->op == OP_FTRUNC ? s->len : s->off;
	e->hi = s->off + s->len;
	e->c = s->op == OP_PUNCH ? '.' : s->fill;
	e->mapped = s->op == OP_MWRITE;
	e->punched = s->op == OP_PUNCH;
	if ((s->op == OP_FTRUNC && rule_mode(h) == LIT_COMMIT) || f->sync)
		e->published = e->t1;
}

/* Everything its mount wrote before is published when this step returns. */
static void hist_publish(struct history *h, int obj, unsigned i)
{
	unsigned mount = rule_mount(h->w, h->p->steps[i].party);

	for (unsigned k = 0; k < h->nev; k++) {
		struct event *e = &h->ev[k];

		if (e->kind != EV_NAME && e->obj == obj && e->mount == mount && e->t1 <= h->obs[i].t0 &&
		    e->published > h->obs[i].t1)
			e->published = h->obs[i].t1;
	}
}

static bool hist_dropped(const struct held *l, const struct held *by)
{
	return l->kind == by->kind && l->obj == by->obj &&
	       (l->kind == 'p' ? l->process == by->process : l->file == by->file) && l->lo >= by->lo &&
	       l->hi <= by->hi;
}

static bool hist_conflicts(const struct history *h, const struct held *a, const struct held *b)
{
	bool same = a->kind == 'p' && b->kind == 'p' ? a->process == b->process : a->file == b->file;

	if (a->obj != b->obj || (a->kind == 'f') != (b->kind == 'f') || same)
		return false;
	if (a->mount != b->mount && !h->w->env->locks &&
	    (rule_mode(h) == LIT_LAMINATE || rule_mode(h) == LIT_PRIVATE))
		return false;
	return (a->type == 'w' || b->type == 'w') && a->lo < b->hi && b->lo < a->hi;
}

static void hist_drop(struct history *h, const struct held *by)
{
	unsigned n = 0;

	for (unsigned k = 0; k < h->nheld; k++)
		if (!hist_dropped(&h->held[k], by))
			h->held[n++] = h->held[k];
	h->nheld = n;
}

static void hist_lock(struct history *h, unsigned i)
{
	const struct lit_step *s = &h->p->steps[i];
	struct handle *f = &h->h[s->party][s->h];
	struct held l = { .obj = f->obj, .mount = rule_mount(h->w, s->party), .type = s->how,
			  .lo = s->off, .hi = s->len ? s->off + s->len : INT64_MAX, .file = f->file,
			  .process = h->w->place == LIT_THREADS ? 0 : s->party,
			  .kind = s->op == OP_FLOCK ? 'f' : s->op == OP_OFD ? 'o' : 'p' };

	if (s->how == 'u')
		hist_publish(h, f->obj, i);
	for (unsigned k = 0; k < h->nheld && s->how != 'u'; k++)
		h->conflict[i] |= hist_conflicts(h, &h->held[k], &l);
	if (!rule_ok(&h->obs[i]))
		return;
	hist_drop(h, &l);
	if (s->how == 'u')
		return;
	h->held[h->nheld++] = l;
	f->refresh = h->obs[i].t0;
}

static void hist_close(struct history *h, unsigned i)
{
	const struct lit_step *s = &h->p->steps[i];
	struct handle *f = &h->h[s->party][s->h];
	struct held all = { .obj = f->obj, .hi = INT64_MAX, .file = f->file,
			    .process = h->w->place == LIT_THREADS ? 0 : s->party, .kind = 'p' };

	if (f->writes)
		hist_publish(h, f->obj, i);
	f->open = false;
	hist_drop(h, &all);
	for (unsigned k = 0; k < LIT_HANDLES; k++)
		if (h->h[s->party][k].open && h->h[s->party][k].file == f->file)
			return;
	all.kind = 'f';
	hist_drop(h, &all);
	all.kind = 'o';
	hist_drop(h, &all);
}

static void hist_named(struct history *h, unsigned i)
{
	const struct lit_step *s = &h->p->steps[i];
	int obj = hist_lookup(h, s->f, rule_world(h->w, s->party));

	switch (s->op) {
	case OP_TRUNC:
		if (obj >= 0) {
			struct event *e = hist_event(h, EV_SIZE, obj, i);

			e->lo = s->len;
			e->published = e->t1;
			hist_publish(h, obj, i);
		}
		break;
	case OP_UNLINK:
	case OP_RMDIR: hist_name(h, s->f, -1, i); break;
	case OP_RENAME:
		hist_name(h, s->f, -1, i);
		hist_name(h, s->g, obj, i);
		break;
	case OP_LINK: hist_name(h, s->g, obj, i); break;
	case OP_MKDIR:
		obj = hist_object(h, rule_mount(h->w, s->party));
		h->obj[obj].dir = true;
		hist_name(h, s->f, obj, i);
		break;
	case OP_LAM:
		if (obj >= 0) {
			h->obj[obj].lam0 = h->obs[i].t0;
			h->obj[obj].lam1 = h->obs[i].t1;
		}
		break;
	default: break;
	}
}

static void hist_step(struct history *h, unsigned i)
{
	const struct lit_step *s = &h->p->steps[i];
	struct handle *f = &h->h[s->party][s->h];
	bool every = rule_mode(h) == LIT_STRICT || rule_mode(h) == LIT_COMMIT || rule_mode(h) == LIT_LAZY;
	struct reader *r = &h->reader[i];

	*r = (struct reader){ .mount = rule_mount(h->w, s->party), .world = rule_world(h->w, s->party),
			      .t0 = h->obs[i].t0, .t1 = h->obs[i].t1,
			      .told = h->told[rule_mount(h->w, s->party)] };
	r->obj = s->f ? hist_lookup(h, s->f, r->world) : f->obj;
	r->opened = f->opened;
	r->refresh = s->f || (every && s->op != OP_MREAD) ? r->t0 : f->refresh;
	if (every && s->op == OP_MREAD)
		r->refresh = f->mapped;
	else if (f->direct && rule_mode(h) == LIT_SESSION && s->op != OP_MREAD)
		r->refresh = r->t0;
	if (s->op == OP_OPEN) {
		hist_open(h, i);
	} else if (s->op == OP_FLOCK || s->op == OP_SETLK || s->op == OP_OFD) {
		hist_lock(h, i);
	} else if (!rule_ok(&h->obs[i])) {
		return;
	} else if (s->op == OP_INVAL) {
		h->told[r->mount] = r->t0;
	} else if (s->f) {
		hist_named(h, i);
	} else if (s->op == OP_CLOSE) {
		hist_close(h, i);
	} else if (s->op == OP_DUP) {
		h->h[s->party][s->h2] = *f;
	} else if (s->op == OP_MMAP) {
		f->mapped = h->obs[i].t0;
	} else if (s->op == OP_WRITE || s->op == OP_FWRITE || s->op == OP_MWRITE || s->op == OP_FTRUNC ||
		   s->op == OP_PUNCH || s->op == OP_FALLOC || s->op == OP_APPEND || s->op == OP_SWRITE ||
		   s->op == OP_FSWRITE || s->op == OP_INCR) {
		hist_write(h, i);
	}
	if (s->op == OP_FSYNC || s->op == OP_FDATASYNC || s->op == OP_MSYNC ||
	    (s->op == OP_FTRUNC && rule_mode(h) == LIT_COMMIT))
		hist_publish(h, f->obj, i);
}

static void hist_build(struct history *h)
{
	unsigned n = h->p->nsteps;

	hist_setup(h);
	for (unsigned i = 0; i < n; i++) {
		unsigned k = i;

		for (; k && h->obs[h->order[k - 1]].t1 > h->obs[i].t1; k--)
			h->order[k] = h->order[k - 1];
		h->order[k] = i;
	}
	for (unsigned i = 0; i < n; i++)
		hist_step(h, h->order[i]);
}

/* --- judging --- */

/*
 * Behind the end of a file, the rest of a mapped page is zeros. So is a page that another mount's cut has made
 * short for a kernel that is told of it in the middle of the read, and whose size may be late.
 */
static bool judge_got(const struct history *h, const struct lit_step *s, const bool set[256], char c)
{
	bool late = rule_mode(h) == LIT_LAZY && h->w->place == LIT_MOUNTS;

	return set[(unsigned char)c] || (c == '.' && set[END] && (s->op == OP_MREAD || late));
}

static bool judge_bytes(const struct history *h, unsigned i, const struct reader *r, char *why, size_t cap)
{
	const struct lit_step *s = &h->p->steps[i];
	const char *t = h->obs[i].text;
	long z = s->off;
	bool set[256];

	if (r->obj < 0 || h->obj[r->obj].opaque < r->t1) {
		(void)snprintf(why, cap, "no rule: say what is wanted");
		return false;
	}
	if (!strcmp(t, "empty") || (s->op == OP_MREAD && !strcmp(t, "SIGBUS")))
		t = "";
	while (*t) {
		char c = *t++, *end;
		long n = strtol(t, &end, 10);

		if (c == '?' && !*t)
			return true;	/* a race of many pieces: the text holds the first ones */
		if (end == t) {
			(void)snprintf(why, cap, "content");
			return false;
		}
		t = end;
		for (long k = 0; k < n; k++, z++) {
			/* Between two borders of changes all bytes are alike. */
			bool border = !k || k == n - 1;

			for (unsigned e = 0; e < h->nev && !border; e++)
				border = z == h->ev[e].lo || z == h->ev[e].hi;
			if (!border)
				continue;
			rule_byte(h, r, z, set);
			rule_set_text(set, z, why, cap);
			if (!judge_got(h, s, set, c))
				return false;
		}
	}
	if (z < s->off + s->len) {
		rule_byte(h, r, z, set);
		rule_set_text(set, z, why, cap);
		return set[END];
	}
	return true;
}

/* The content of any file that the name may have been when the handle was opened. */
static bool judge_read(const struct history *h, unsigned i, char *why, size_t cap)
{
	const struct reader *r = &h->reader[i];
	bool set[OBJS + 1];

	if (judge_bytes(h, i, r, why, cap))
		return true;
	rule_name(h, &h->reader[r->opened], h->p->steps[r->opened].f, set);
	for (int k = 0; k < (int)OBJS; k++) {
		struct reader any = *r;

		any.obj = k;
		if (set[k + 1] && k != r->obj && judge_bytes(h, i, &any, why, cap))
			return true;
	}
	return false;
}

static bool judge_size(const struct history *h, unsigned i, const struct reader *now, char *why, size_t cap)
{
	struct reader old = *now, *r = &old;
	long size = strtol(h->obs[i].text + 1, NULL, 10);
	int64_t late = h->w->env->attrs;
	bool set[256], some = false;

	if (late)
		r->refresh = late == LIT_TOLD ? r->told : r->refresh - late;

	if (r->obj < 0 || h->obj[r->obj].opaque < r->t1 || h->obs[i].text[0] != 's') {
		(void)snprintf(why, cap, "no rule: say what is wanted");
		return false;
	}
	rule_byte(h, r, size, set);
	rule_set_text(set, size, why, cap);
	if (!set[END])
		return false;
	if (!size)
		return true;
	rule_byte(h, r, size - 1, set);
	rule_set_text(set, size - 1, why, cap);
	for (unsigned c = 2; c < 256; c++)
		some |= set[c];
	return some;
}

/* Who may write a file under laminate: 1 yes, 0 EBUSY, -1 EPERM; 2: any of them, it changes now. */
static int judge_writer(const struct history *h, const struct reader *r, int obj)
{
	if (rule_mode(h) != LIT_LAMINATE || obj < 0)
		return 1;
	if (h->obj[obj].lam1 <= r->t0)
		return -1;
	if (h->obj[obj].lam0 < r->t1)
		return 2;
	return h->obj[obj].owner == r->mount;
}

static bool judge_name(const struct history *h, unsigned i, char *why, size_t cap)
{
	const struct lit_step *s = &h->p->steps[i];
	const struct reader *r = &h->reader[i];
	const char *t = h->obs[i].text;
	bool set[OBJS + 1], there = false, creates, excl;
	int writer = 1;

	rule_name(h, r, s->op == OP_LINK ? s->g : s->f, set);
	for (unsigned k = 0; k < OBJS && s->op == OP_OPEN && h->w->env->names; k++)
		set[k + 1] &= !(h->gone[i] >> k & 1);
	creates = s->op == OP_MKDIR || s->op == OP_LINK || (s->op == OP_OPEN && s->flags & O_CREAT);
	excl = s->op == OP_MKDIR || s->op == OP_LINK || (s->op == OP_OPEN && s->flags & O_EXCL);
	for (unsigned k = 1; k <= OBJS; k++)
		there |= set[k];
	(void)snprintf(why, cap, "the name is%s%s", there ? " there" : "", set[0] ? " not there" : "");
	if (s->op == OP_TRUNC || (s->op == OP_OPEN && (s->flags & O_ACCMODE) != O_RDONLY))
		writer = judge_writer(h, r, r->obj);
	if (there && !excl && writer != 1) {
		(void)snprintf(why, cap, "%s", writer == 2 ? "EBUSY EPERM" : writer ? "EPERM" : "EBUSY");
		return (writer == 2 && !strncmp(t, "E", 1)) || !strcmp(t, why);
	}
	if (!strcmp(t, "ENOENT"))
		return !creates && set[0];
	if (!strcmp(t, "EEXIST"))
		return excl && there;
	if (s->op == OP_STAT && *t == 's') {
		/* Of any file that the name may still be. */
		for (int k = 0; k < (int)OBJS; k++) {
			struct reader any = *r;

			any.obj = k;
			if (set[k + 1] && judge_size(h, i, &any, why, cap))
				return true;
		}
		return false;
	}
	return (!strcmp(t, "ok") || (s->op == OP_STAT && !strcmp(t, "dir"))) &&
	       ((there && !excl) || (creates && set[0]));
}

static bool judge_list(const struct history *h, unsigned i, char *why, size_t cap)
{
	bool good = true;

	(void)snprintf(why, cap, "names");
	for (char c = 'a'; c <= 'z'; c++) {
		bool set[OBJS + 1], there = false, shown = strchr(h->obs[i].text, c);

		rule_name(h, &h->reader[i], c, set);
		for (unsigned k = 1; k <= OBJS; k++)
			there |= set[k];
		good &= shown ? there : set[0];
	}
	return good && h->obs[i].text[0] == '[';
}

static const struct lit_want *judge_want(const struct history *h, char label)
{
	const struct lit_want *found = NULL;

	for (unsigned i = 0; i < h->p->nwants; i++) {
		const struct lit_want *w = &h->p->wants[i];

		if (w->kind == WANT_IN && w->labels[0] == label && (w->modes & lit_env_bits(h->w->env)) &&
		    (w->places & (1u << h->w->place)))
			found = w;
	}
	return found;
}

static bool judge_in(const char *text, const char *alts)
{
	size_t n = strlen(text);

	for (const char *a = alts; *a; a += strcspn(a, "|"), a += *a == '|')
		if ((*a == '*' && (a[1] == '|' || !a[1])) ||
		    (strcspn(a, "|") == n && !strncmp(a, text, n)))
			return true;
	return false;
}

static bool judge_of_name(enum lit_op op)
{
	return op != OP_TALLY && op != OP_LOOP && op < OP_PAUSE;
}

static bool judge_step(const struct history *h, unsigned i, char *why, size_t cap)
{
	const struct lit_step *s = &h->p->steps[i];
	const struct lit_obs *o = &h->obs[i];
	const struct lit_want *w = s->label ? judge_want(h, s->label) : NULL;

	if (w) {
		(void)snprintf(why, cap, "%s", w->alts);
		return judge_in(o->text, w->alts);
	}
	if (!strcmp(o->text, "-"))
		return true;
	if (s->op == OP_READ || s->op == OP_MREAD)
		return judge_read(h, i, why, cap);
	if (s->op == OP_FSTAT)
		return judge_size(h, i, &h->reader[i], why, cap);
	if (s->op == OP_LIST)
		return judge_list(h, i, why, cap);
	if (s->f && judge_of_name(s->op))
		return judge_name(h, i, why, cap);
	(void)snprintf(why, cap, "%s", h->conflict[i] ? "EAGAIN" : "ok");
	return !strcmp(o->text, why);
}

/* Of several steps together. */
static int judge_together(const struct history *h, const struct lit_want *w, char *why, size_t cap)
{
	const char *first = NULL;
	unsigned n = 0;
	int last = -1;
	bool differ = false;

	for (unsigned i = 0; i < h->p->nsteps; i++) {
		if (!h->p->steps[i].label || !strchr(w->labels, h->p->steps[i].label))
			continue;
		last = (int)i;
		n += rule_ok(&h->obs[i]);
		differ |= first && strcmp(first, h->obs[i].text);
		first = h->obs[i].text;
	}
	(void)snprintf(why, cap, "%s of %s", w->kind == WANT_ONE ? "one" : "equal", w->labels);
	return w->kind == WANT_ONE ? (n == 1 ? -1 : last) : differ ? last : -1;
}

int lit_judge(const struct lit_prog *p, const struct lit_obs *obs, const struct lit_world *w, char *why,
	      size_t cap)
{
	struct history *h = calloc(1, sizeof(*h));
	int bad = -1;

	h->p = p;
	h->obs = obs;
	h->w = w;
	h->told[0] = h->told[1] = BEFORE;
	for (unsigned i = 0; i < LIT_PARTIES; i++)
		for (unsigned k = 0; k < LIT_HANDLES; k++)
			h->h[i][k].obj = -1;
	hist_build(h);
	for (unsigned i = 0; i < p->nsteps && bad < 0; i++)
		if (!judge_step(h, i, why, cap))
			bad = (int)i;
	for (unsigned i = 0; i < p->nwants && bad < 0; i++)
		if (p->wants[i].kind != WANT_IN && (p->wants[i].modes & lit_env_bits(w->env)) &&
		    (p->wants[i].places & (1u << w->place)))
			bad = judge_together(h, &p->wants[i], why, cap);
	free(h);
	return bad;
}
