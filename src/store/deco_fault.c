/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault=SPEC: a store that fails as told, on a real mount too.
 *
 *   SPEC := rule[,rule…]          the first rule that applies to a request decides
 *   rule := op[:when]:what
 *   op   := put | get | head | del | list | barrier | any
 *   when := every=N   each Nth      nth=N   the Nth only      prob=P   P of 100, at random
 *           from=N    the Nth and all after it                (left out: always)
 *   what := EIO | ENOSPC | ETIMEDOUT | …   fails with it, nothing done below
 *           busy | full | deadline         likewise, with the store's own codes
 *           lost        put, del: done below, then -EIO all the same: the answer was lost
 *           short       get: -TESS_E_SHORT_BODY after the bytes were read
 *           corrupt     get: succeeds with one bit changed
 *           delay=TIME  answered that much later; a cancelled one at once
 *           kill        SIGKILL to this process before anything is done
 *
 * E.g. fault=put:every=7:EIO,get:nth=3:corrupt. Numbers count the requests of that rule's op.
 * `prob` draws from a fixed seed: a failing run can be repeated.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/htab.h"
#include "base/opt.h"
#include "base/text.h"
#include "store/deco.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#define FAULT_RULES_MAX 16u
enum { OP_BARRIER = STORE_NCODES, OP_ANY, OP_N };
enum fault_when { WHEN_ALWAYS, WHEN_EVERY, WHEN_NTH, WHEN_FROM, WHEN_PROB };
enum fault_what { WHAT_ERR, WHAT_LOST, WHAT_SHORT, WHAT_CORRUPT, WHAT_DELAY, WHAT_KILL };

struct fault_rule {
	int             op;
	enum fault_when when;
	uint64_t        n;
	enum fault_what what;
	int             err;	/* WHAT_ERR: negative */
	int64_t         delay;	/* WHAT_DELAY: ns */
	atomic_uint_fast64_t hits;
};

struct fault_store {
	struct store       s;
	struct fault_rule  rules[FAULT_RULES_MAX];
	unsigned           nrules;
	char              *spec;	/* owned */
	struct deco_timer *timer;	/* owned */
};

struct fault_op {
	struct deco_hook         hook;
	struct deco_wait         wait;
	const struct fault_rule *rule;
};

static const char *const op_names[OP_N] = { "put", "get", "head", "del", "list", "barrier", "any" };
static const struct {
	const char *name;
	int         err;
} err_names[] = {
	{ "EIO", -EIO }, { "ENOSPC", -ENOSPC }, { "ETIMEDOUT", -ETIMEDOUT }, { "EAGAIN", -EAGAIN },
	{ "EACCES", -EACCES }, { "EPERM", -EPERM }, { "ENOENT", -ENOENT }, { "ENOMEM", -ENOMEM },
	{ "EROFS", -EROFS }, { "ECONNRESET", -ECONNRESET }, { "ECONNREFUSED", -ECONNREFUSED },
	{ "EHOSTUNREACH", -EHOSTUNREACH }, { "EPIPE", -EPIPE }, { "busy", -TESS_E_STORE_BUSY },
	{ "full", -TESS_E_STORE_FULL }, { "deadline", -TESS_E_STORE_DEADLINE },
};

static bool rule_hits(struct fault_rule *r, int op)
{
	uint64_t n;

	if (r->op != op && r->op != OP_ANY)
		return false;
	if ((r->what == WHAT_LOST && op != STORE_PUT && op != STORE_DEL) ||
	    ((r->what == WHAT_SHORT || r->what == WHAT_CORRUPT) && op != STORE_GET))
		return false;
	n = atomic_fetch_add(&r->hits, 1) + 1;
	switch (r->when) {
	case WHEN_ALWAYS:
		return true;
	case WHEN_EVERY:
		return n % r->n == 0;
	case WHEN_NTH:
		return n == r->n;
	case WHEN_FROM:
		return n >= r->n;
	case WHEN_PROB:
		return hash64(n) % 100 < r->n;
	}
	return false;
}

static const struct fault_rule *fault_find(struct fault_store *f, int op)
{
	for (unsigned i = 0; i < f->nrules; i++) {
		if (rule_hits(&f->rules[i], op))
			return &f->rules[i];
	}
	return NULL;
}

static void fault_finish(struct store_op *op, int err)
{
	struct fault_op *x = op->owner;

	deco_unhook_op(op);
	free(x);
	store_op_done(op, err);
}

static void fault_late(struct deco_wait *w)
{
	fault_finish(w->op, w->op->err);
}

static void fault_done(struct store_op *op)
{
	struct fault_op *x = op->owner;
	struct fault_store *f = container_of(x->hook.s, struct fault_store, s);
	int err = op->err;

	if (x->rule->what == WHAT_DELAY) {
		deco_timer_add(f->timer, &x->wait, clock_now() + x->rule->delay);
		return;
	}
	if (err == 0 && x->rule->what == WHAT_LOST)
		err = -EIO;
	if (err == 0 && x->rule->what == WHAT_SHORT)
		err = -TESS_E_SHORT_BODY;
	if (err == 0 && x->rule->what == WHAT_CORRUPT) {
		for (unsigned i = 0; i < op->data.n; i++) {
			if (op->data.iov[i].iov_len) {
				*(char *)op->data.iov[i].iov_base ^= 1;
				break;
			}
		}
	}
	fault_finish(op, err);
}

static void fault_submit(struct store *s, struct store_op *op)
{
	struct fault_store *f = container_of(s, struct fault_store, s);
	const struct fault_rule *r = fault_find(f, (int)op->code);
	struct fault_op *x;

	if (!r) {
		store_submit(s->inner, op);
		return;
	}
	if (r->what == WHAT_KILL)
		(void)kill(getpid(), SIGKILL);
	x = r->what == WHAT_ERR ? NULL : mem_zalloc(sizeof(*x));
	if (!x) {
		store_op_done(op, r->what == WHAT_ERR ? r->err : -ENOMEM);
		return;
	}
	x->rule = r;
	x->wait.op = op;
	x->wait.fire = fault_late;
	deco_hook_op(&x->hook, s, op, fault_done);
	store_submit(s->inner, op);
}

static void fault_cancel(struct store *s, struct store_op *op)
{
	struct fault_store *f = container_of(s, struct fault_store, s);

	if (f->timer && deco_timer_find(f->timer, op, fault_late))
		fault_finish(op, -ECANCELED);
	else
		store_cancel(s->inner, op);
}

static int fault_barrier(struct store *s, struct tess_req *req)
{
	const struct fault_rule *r = fault_find(container_of(s, struct fault_store, s), OP_BARRIER);

	if (r && r->what == WHAT_KILL)
		(void)kill(getpid(), SIGKILL);
	if (r && r->what == WHAT_ERR)
		return r->err;
	if (r && r->what == WHAT_DELAY)
		clock_sleep(r->delay);
	return store_barrier(s->inner, req);
}

/* ---- the grammar ---- */

static int parse_when(const char *s, struct fault_rule *r)
{
	static const struct {
		const char     *name;
		enum fault_when when;
	} rows[] = {
		{"every=", WHEN_EVERY},
		{"nth=", WHEN_NTH},
		{"from=", WHEN_FROM},
		{"prob=", WHEN_PROB},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t n = strlen(rows[i].name);
		char *end;

		if (strncmp(s, rows[i].name, n) != 0)
			continue;
		if (s[n] < '0' || s[n] > '9')
			return -EINVAL;
		r->when = rows[i].when;
		r->n = strtoull(s + n, &end, 10);
		if (*end || r->n < 1 || (r->when == WHEN_PROB && r->n > 100))
			return -EINVAL;
		return 0;
	}
	return -EINVAL;
}

static int parse_what(const char *s, struct fault_rule *r)
{
	static const char *const names[] = {
		[WHAT_LOST] = "lost",
		[WHAT_SHORT] = "short",
		[WHAT_CORRUPT] = "corrupt",
		[WHAT_KILL] = "kill",
	};
	uint64_t ns;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (names[i] && strcmp(s, names[i]) == 0) {
			r->what = (enum fault_what)i;
			return 0;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(err_names); i++) {
		if (strcmp(s, err_names[i].name) == 0) {
			r->what = WHAT_ERR;
			r->err = err_names[i].err;
			return 0;
		}
	}
	if (strncmp(s, "delay=", 6) == 0 && parse_time(s + 6, &ns) == 0 &&
	    ns < (uint64_t)INT64_MAX / 4) {
		r->what = WHAT_DELAY;
		r->delay = (int64_t)ns;
		return 0;
	}
	return -EINVAL;
}

/* `s` is ours to cut up. On failure *bad says which part is wrong and what it may be. */
static int parse_rule(char *s, struct fault_rule *r, const char **bad)
{
	char *when = strchr(s, ':');
	char *what = when ? strchr(when + 1, ':') : NULL;

	*bad = "a rule is OP[:WHEN]:WHAT";
	if (!when)
		return -EINVAL;
	*when++ = 0;
	if (what)
		*what++ = 0;
	*bad = "OP is put, get, head, del, list, barrier or any";
	for (r->op = 0; r->op < OP_N && strcmp(s, op_names[r->op]) != 0; r->op++)
		;
	if (r->op == OP_N)
		return -EINVAL;
	*bad = "WHEN is every=N, nth=N, from=N or prob=PERCENT";
	r->when = WHEN_ALWAYS;
	if (what && parse_when(when, r) < 0)
		return -EINVAL;
	*bad = "WHAT is an error such as EIO, busy, full, deadline, lost, short, corrupt, kill or "
	       "delay=TIME";
	return parse_what(what ? what : when, r);
}

static int fault_parse(struct fault_store *f, const struct store_conf *conf, struct text *why)
{
	scoped_free char *copy = mem_strdup(f->spec);
	char *rest = copy, *one;

	if (!copy)
		return -ENOMEM;
	while ((one = strsep(&rest, ",")) != NULL) {
		const char *bad = NULL;

		if (f->nrules == FAULT_RULES_MAX) {
			text_fmt(why, "%s: fault: more than %u rules", conf->uri, FAULT_RULES_MAX);
			return -TESS_E_URI;
		}
		if (parse_rule(one, &f->rules[f->nrules], &bad) < 0) {
			text_fmt(why, "%s: fault=%s: %s", conf->uri, f->spec, bad);
			return -TESS_E_URI;
		}
		f->nrules++;
	}
	return 0;
}

static void fault_to_text(const struct store *s, struct text *out)
{
	text_fmt(out, "spec=%s", container_of(s, struct fault_store, s)->spec);
}

static void fault_close(struct store *s)
{
	struct fault_store *f = container_of(s, struct fault_store, s);

	deco_timer_free(f->timer);
	free(f->spec);
	free(f);
}

static int fault_open(struct store **ret, const struct store_conf *conf, struct store *inner,
		      struct text *why)
{
	const char *spec = conf->param(conf, "fault");
	struct fault_store *f = mem_zalloc(sizeof(*f));
	int r = -ENOMEM;

	if (!f)
		return -ENOMEM;
	deco_init(&f->s, &deco_fault_ops, inner);
	f->spec = mem_strdup(spec ? spec : "");
	if (f->spec)
		r = fault_parse(f, conf, why);
	for (unsigned i = 0; r == 0 && i < f->nrules; i++) {
		if (f->rules[i].what == WHAT_DELAY && !f->timer)
			r = deco_timer_new(&f->timer, "tess-fault");
	}
	if (r < 0) {
		fault_close(&f->s);
		return r;
	}
	*ret = &f->s;
	return 0;
}

const struct store_ops deco_fault_ops = {
	.name = "fault",
	.open = fault_open,
	.submit = fault_submit,
	.cancel = fault_cancel,
	.barrier = fault_barrier,
	.usage = deco_usage,
	.to_text = fault_to_text,
	.close = fault_close,
};
