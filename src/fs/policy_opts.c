/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the options of a mount to its policy. A flag may adjust a preset, not break what the preset's
 * name promises: that is refused at mount, by the table below, rather than silently dropped.
 */
#include "fs/policy.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/scoped.h"
#include "base/text.h"
#include <string.h>

/* How long the kernel answers by itself once somebody said that it may: NFS's shortest is 3 s. */
#define OPTS_LAX_TTL NS_PER_S

/* What was said, one bit each: the two sides of a contradiction. */
enum fact {
	F_NONE = 0,
	F_WRITEBACK = 1 << 0, F_NOCTO = 1 << 1, F_RELAXED = 1 << 2, F_APPEND_LOCAL = 1 << 3,
	F_SIZE_LAZY = 1 << 4, F_MTIME_LAZY = 1 << 5, F_ATTR = 1 << 6, F_DENTRY = 1 << 7,
	F_DENTRY_DIR = 1 << 8, F_NDENTRY = 1 << 9, F_ACTIMEO = 1 << 10, F_DATA_KEEP = 1 << 11,
	F_DATA_OTOC = 1 << 12, F_DATA_OFF = 1 << 13, F_DIRECT = 1 << 14, F_LOCKS_LOCAL = 1 << 15,
	F_LOCKS_GLOBAL = 1 << 16, F_SIZE_STRICT = 1 << 17, F_MTIME_STRICT = 1 << 18,
	F_META_STRICT = 1 << 19,
};

static const struct {
	enum fact fact;
	const char *text;
} opts_facts[] = {
	{ F_WRITEBACK, "writeback-cache" }, { F_NOCTO, "nocto" }, { F_RELAXED, "meta=relaxed" },
	{ F_APPEND_LOCAL, "append=local" }, { F_SIZE_LAZY, "size=lazy" },
	{ F_MTIME_LAZY, "mtime=lazy" }, { F_ATTR, "attr-time" }, { F_DENTRY, "dentry-time" },
	{ F_DENTRY_DIR, "dentry-dir-time" }, { F_NDENTRY, "ndentry-time" }, { F_ACTIMEO, "actimeo" },
	{ F_DATA_KEEP, "data-cache" }, { F_DATA_OTOC, "data-cache=otoc" },
	{ F_DATA_OFF, "data-cache=off" }, { F_DIRECT, "direct-io" }, { F_LOCKS_LOCAL, "locks=local" },
	{ F_LOCKS_GLOBAL, "locks=global" }, { F_SIZE_STRICT, "size=strict" },
	{ F_MTIME_STRICT, "mtime=strict" }, { F_META_STRICT, "meta=strict" },
};

#define M(mode) (1u << MODE_##mode)
#define M_ALL	~0u
#define F_TTL	(F_ATTR | F_DENTRY | F_DENTRY_DIR | F_NDENTRY | F_ACTIMEO)

/* Under one of `modes`: any of `a`, with any of `b` unless that is F_NONE (then with the mode itself). */
static const struct opts_row {
	unsigned modes, a, b;
	const char *why;
} opts_rows[] = {
	/* Linux then believes its own size and mtime of every regular file for as long as it knows the file. */
	{ M_ALL & ~M(PRIVATE), F_WRITEBACK, F_NONE,
	  "the kernel would never learn of sizes that other mounts make; leave it out, or take mode=private" },
	{ M(STRICT) | M(COMMIT), F_NOCTO, F_NONE,
	  "the mode looks at every read; leave it out, or take mode=session" },
	{ M(STRICT) | M(COMMIT), F_DATA_KEEP | F_DATA_OTOC, F_NONE,
	  "the mode reads past the page cache; take data-cache=off, or mode=session" },
	{ M(STRICT), F_TTL, F_NONE,
	  "strict answers nothing from what may be old; set it to 0, or take mode=commit or session" },
	{ M(STRICT), F_RELAXED, F_NONE, "strict promises exact metadata; leave it out, or take mode=commit" },
	{ M(STRICT), F_APPEND_LOCAL, F_NONE,
	  "strict promises atomic appends; take append=atomic, or mode=commit" },
	{ M(STRICT), F_SIZE_LAZY | F_MTIME_LAZY, F_NONE,
	  "strict promises exact sizes and times; take strict, or mode=commit" },
	{ M(STRICT), F_LOCKS_LOCAL, F_NONE,
	  "locks that others do not see would be granted; take locks=global, or locks=off, which refuses" },
	{ M(PRIVATE), F_LOCKS_GLOBAL, F_NONE,
	  "no other mount sees a private tree; take locks=local or off" },
	{ M(PRIVATE) | M(LAMINATE), F_NOCTO, F_NONE,
	  "the mode caches without limit where it may; leave it out" },
	{ M_ALL, F_WRITEBACK, F_DIRECT | F_DATA_OFF,
	  "writes cannot wait in a page cache that is passed by; take one of them" },
	{ M_ALL, F_DIRECT, F_DATA_KEEP | F_DATA_OTOC,
	  "there are no pages to keep past the page cache; take one of them" },
	{ M_ALL, F_NOCTO, F_DIRECT | F_DATA_OFF,
	  "nothing is kept that an open could trust; take one of them" },
	{ M_ALL, F_SIZE_STRICT | F_MTIME_STRICT, F_ATTR | F_ACTIMEO,
	  "attributes that the kernel remembers may be old; set it to 0, or take lazy" },
};

static enum fact opts_ttl_fact(int64_t ttl, enum fact f)
{
	return ttl > 0 ? f : F_NONE;
}

static unsigned opts_said(const struct policy_opts *o)
{
	unsigned f = opts_ttl_fact(o->attr_time, F_ATTR) | opts_ttl_fact(o->dentry_time, F_DENTRY) |
		     opts_ttl_fact(o->dentry_dir_time, F_DENTRY_DIR) |
		     opts_ttl_fact(o->ndentry_time, F_NDENTRY) | opts_ttl_fact(o->actimeo, F_ACTIMEO);

	f |= o->writeback == SWITCH_ON ? F_WRITEBACK : 0;
	f |= o->direct_io == SWITCH_ON ? F_DIRECT : 0;
	f |= o->nocto ? F_NOCTO : 0;
	f |= o->meta == OPT_LAX ? F_RELAXED : o->meta == OPT_STRICT ? F_META_STRICT : 0;
	f |= o->size == OPT_LAX ? F_SIZE_LAZY : o->size == OPT_STRICT ? F_SIZE_STRICT : 0;
	f |= o->mtime == OPT_LAX ? F_MTIME_LAZY : o->mtime == OPT_STRICT ? F_MTIME_STRICT : 0;
	f |= o->append == OPT_APPEND_LOCAL ? F_APPEND_LOCAL : 0;
	f |= o->locks == OPT_LOCKS_LOCAL ? F_LOCKS_LOCAL : o->locks == OPT_LOCKS_GLOBAL ? F_LOCKS_GLOBAL : 0;
	f |= o->data_cache == DATA_ON || o->data_cache == DATA_TIME ? F_DATA_KEEP : 0;
	f |= o->data_cache == DATA_OTOC ? F_DATA_OTOC : o->data_cache == DATA_OFF ? F_DATA_OFF : 0;
	return f;
}

static const char *opts_name(unsigned facts)
{
	for (unsigned i = 0; i < ARRAY_SIZE(opts_facts); i++)
		if (facts & opts_facts[i].fact)
			return opts_facts[i].text;
	return "?";
}

static int opts_check(const struct policy_opts *o, const struct tess_policy *p, struct text *why)
{
	unsigned said = opts_said(o);

	for (unsigned i = 0; i < ARRAY_SIZE(opts_rows); i++) {
		const struct opts_row *r = &opts_rows[i];

		if (!(r->modes & (1u << p->mode)) || !(said & r->a) || (r->b && !(said & r->b)))
			continue;
		if (r->b)
			text_fmt(why, "%s,%s: %s", opts_name(said & r->a), opts_name(said & r->b), r->why);
		else
			text_fmt(why, "mode=%s%s,%s: %s", p->name, o->mode_from ? o->mode_from : "",
				 opts_name(said & r->a), r->why);
		return -TESS_E_OPT_VALUE;
	}
	return 0;
}

/* ---- flags over the preset ---- */

static void opts_ttl(struct tess_policy *p, int64_t *at, int64_t said, enum policy_given bit)
{
	if (said == POLICY_UNSAID)
		return;
	*at = said;
	p->given |= bit;
}

static void opts_ttl_lax(int64_t *at, int64_t ttl)
{
	if (*at == POLICY_AUTO || *at == 0)
		*at = ttl;
}

/* DFuse: with one of its five set, those left out are 0 and off, but a directory's entry is as any other. */
static void opts_dfuse_rule(struct policy_opts *o)
{
	if (o->attr_time == POLICY_UNSAID && o->dentry_time == POLICY_UNSAID &&
	    o->dentry_dir_time == POLICY_UNSAID && o->ndentry_time == POLICY_UNSAID &&
	    o->data_cache == DATA_PRESET)
		return;
	if (o->dentry_dir_time == POLICY_UNSAID)
		o->dentry_dir_time = o->dentry_time;
	if (o->actimeo != POLICY_UNSAID)
		return;
	o->attr_time = MAX(o->attr_time, INT64_C(0));
	o->dentry_time = MAX(o->dentry_time, INT64_C(0));
	o->dentry_dir_time = MAX(o->dentry_dir_time, INT64_C(0));
	o->ndentry_time = MAX(o->ndentry_time, INT64_C(0));
	if (o->data_cache == DATA_PRESET)
		o->data_cache = DATA_OFF;
}

static void opts_times(struct tess_policy *p, const struct policy_opts *o)
{
	if (o->interval != POLICY_UNSAID) {
		p->interval = o->interval;
		if (p->mode == MODE_LAZY)
			p->attr_ttl = p->entry_ttl = p->dir_ttl = p->negative_ttl = o->interval / 4;
	}
	opts_ttl(p, &p->attr_ttl, o->actimeo, GIVEN_ATTR);
	opts_ttl(p, &p->entry_ttl, o->actimeo, GIVEN_ENTRY);
	opts_ttl(p, &p->dir_ttl, o->actimeo, GIVEN_DIR);
	opts_ttl(p, &p->negative_ttl, o->actimeo, GIVEN_NEGATIVE);
	opts_ttl(p, &p->attr_ttl, o->attr_time, GIVEN_ATTR);
	opts_ttl(p, &p->entry_ttl, o->dentry_time, GIVEN_ENTRY);
	opts_ttl(p, &p->dir_ttl, o->dentry_dir_time, GIVEN_DIR);
	opts_ttl(p, &p->negative_ttl, o->ndentry_time, GIVEN_NEGATIVE);
	if (!p->exact_size && !p->exact_mtime && !(p->given & GIVEN_ATTR))
		opts_ttl_lax(&p->attr_ttl, OPTS_LAX_TTL);
	else if ((p->given & (GIVEN_SIZE | GIVEN_MTIME)) && p->attr_ttl > 0 && p->mode != MODE_PRIVATE)
		p->attr_ttl = POLICY_AUTO;
}

static void opts_data(struct tess_policy *p, const struct policy_opts *o)
{
	if (o->data_cache != DATA_PRESET) {
		p->given |= GIVEN_DATA;
		p->keep_cache = o->data_cache == DATA_ON || o->data_cache == DATA_TIME;
		p->data_ttl = o->data_cache == DATA_TIME ? o->data_time : 0;
		p->direct_io = o->data_cache == DATA_OFF;
	}
	if (o->direct_io != SWITCH_PRESET && p->mode != MODE_STRICT && p->mode != MODE_COMMIT) {
		p->given |= GIVEN_DIRECT;
		p->direct_io = o->direct_io == SWITCH_ON;
	}
	if (o->writeback != SWITCH_PRESET)
		p->kernel_writeback = o->writeback == SWITCH_ON;
	if (p->direct_io)
		p->kernel_writeback = p->keep_cache = false;
}

/* As a network file system's: what was looked at within the time to live is trusted, open or not. */
static void opts_nocto(struct tess_policy *p)
{
	opts_ttl_lax(&p->attr_ttl, OPTS_LAX_TTL);
	opts_ttl_lax(&p->entry_ttl, OPTS_LAX_TTL);
	opts_ttl_lax(&p->dir_ttl, OPTS_LAX_TTL);
	opts_ttl_lax(&p->negative_ttl, OPTS_LAX_TTL);
	p->refresh = REFRESH_INTERVAL;
	if (!p->interval)
		p->interval = 2 * p->attr_ttl;
}

static void opts_flags(struct tess_policy *p, const struct policy_opts *o)
{
	static const enum tess_locks locks[] = { LOCKS_GLOBAL, LOCKS_GLOBAL, LOCKS_LOCAL, LOCKS_OFF };

	if (o->locks != OPT_LOCKS_PRESET)
		p->locks = locks[o->locks];
	if (o->append != OPT_APPEND_PRESET)
		p->atomic_append = o->append == OPT_APPEND_ATOMIC;
	if (o->meta != OPT_PRESET)
		p->relaxed_meta = o->meta == OPT_LAX;
	if (o->size != OPT_PRESET) {
		p->exact_size = o->size == OPT_STRICT;
		p->given |= GIVEN_SIZE;
	}
	if (o->mtime != OPT_PRESET) {
		p->exact_mtime = o->mtime == OPT_STRICT;
		p->given |= GIVEN_MTIME;
	}
}

int policy_make(const struct policy_opts *opts, struct tess_policy *ret, struct text *why)
{
	struct policy_opts o = *opts;
	struct tess_policy p = policy_presets[o.mode == MODE_NONE ? MODE_SESSION : o.mode];
	int err = opts_check(&o, &p, why);

	if (err)
		return err;
	opts_dfuse_rule(&o);
	/* Said by DFuse's rule alone, "off" gives way to what was said in words. */
	if (opts->data_cache == DATA_PRESET && (o.writeback == SWITCH_ON || o.nocto))
		o.data_cache = DATA_PRESET;
	opts_flags(&p, &o);
	opts_times(&p, &o);
	opts_data(&p, &o);
	if (o.nocto)
		opts_nocto(&p);
	if (p.relaxed_meta)
		policy_relax(&p);
	*ret = p;
	return 0;
}
