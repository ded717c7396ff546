/* SPDX-License-Identifier: Apache-2.0 */
/* What the mount options say of tiers, against what mkfs said of targets. */
#include "base/err.h"
#include "mount/mount.h"
#include "oclass/oclass.h"
#include <string.h>

/* The names there are, each once. */
static void tier_names(const struct meta_super *s, struct text *out)
{
	const char *sep = "";

	for (unsigned i = 0; i < s->ntargets; i++) {
		bool seen = !s->targets[i].tier[0];

		for (unsigned j = 0; j < i; j++)
			seen |= !strcmp(s->targets[j].tier, s->targets[i].tier);
		if (seen)
			continue;
		text_fmt(out, "%s%s", sep, s->targets[i].tier);
		sep = ", ";
	}
}

static int tier_set(struct tess *t, const char *option, const char *name, enum io_tier bit,
		    struct text *why)
{
	const struct meta_super *s = meta_super(t->meta);
	struct text too_few = TEXT_INIT;
	unsigned n = 0, live = 0;
	struct oclass cls;
	int err;

	for (unsigned i = 0; i < s->ntargets; i++) {
		if (strcmp(s->targets[i].tier, name))
			continue;
		t->targets[i].tiers |= bit;
		n++;
		live += t->targets[i].weight > 0;
	}
	if (!n || !*name) {
		text_fmt(why, "%s=%s: no target is of that tier; there are: ", option, name);
		n = (unsigned)why->n;
		tier_names(s, why);
		if (why->n == n)
			text_add(why, "none, mkfs was given no target with tier=NAME");
		return -TESS_E_OPT_VALUE;
	}
	err = oclass_from_id(s->layout.cls, &cls);
	if (!err)
		err = oclass_usable(&cls, live, &too_few);
	if (err)
		text_fmt(why, "%s=%s: %s in that tier", option, name,
			 too_few.n ? text_str(&too_few) : err_text(err));
	text_done(&too_few);
	return err ? -TESS_E_OPT_VALUE : 0;
}

int mount_tiers(struct tess *t, struct text *why)
{
	const struct tess_conf *c = t->conf;
	int err = c->write_tier ? tier_set(t, "write-tier", c->write_tier, IO_TIER_WRITE, why) : 0;

	if (!err && c->rest_tier)
		err = tier_set(t, "rest-tier", c->rest_tier, IO_TIER_REST, why);
	/* Checked all the same; nothing moves. */
	for (unsigned i = 0; c->readonly && i < t->ntargets; i++)
		t->targets[i].tiers &= ~(unsigned)IO_TIER_REST;
	return err;
}
