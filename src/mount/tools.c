/* SPDX-License-Identifier: Apache-2.0 */
/* libtessera's calls for tools: opens what the work needs and hands it to admin/. */
#include "admin/admin.h"
#include "base/err.h"
#include "base/scoped.h"
#include "map/map.h"
#include "mount/mount.h"
#include "oclass/oclass.h"
#include <inttypes.h>
#include <string.h>

static struct admin tools_admin(struct tess *t)
{
	return (struct admin){
		.meta = t->meta,
		.targets = t->targets,
		.ntargets = t->ntargets,
		.io = atomic_load(&t->io),
		.staging = t->staging,
	};
}

static int tools_end(int err, struct text *w, char *why)
{
	if (err < 0)
		mount_why(why, w, err);
	text_done(w);
	return err;
}

int tess_resolve(struct tess *t, const char *path, uint64_t *ret_ino)
{
	struct meta_attr attr;
	int err = meta_resolve(t->meta, path, &attr);

	if (!err)
		*ret_ino = attr.ino;
	return err;
}

int tess_layout(struct tess *t, uint64_t ino, const char *path, enum tess_layout_format how,
		FILE *out, char *why)
{
	struct admin a = tools_admin(t);
	struct text w = TEXT_INIT;

	return tools_end(admin_layout(&a, ino, path, how, out, &w), &w, why);
}

int tess_setlayout(struct tess *t, uint64_t ino, const char *spec, char *why)
{
	struct admin a = tools_admin(t);
	struct text w = TEXT_INIT;

	return tools_end(admin_setlayout(&a, ino, spec, &w), &w, why);
}

int tess_checklayout(const char *dir, const char *spec, char *why)
{
	struct meta_attr attr = { 0 };
	struct text w = TEXT_INIT;
	struct tess *t;
	unsigned mask;
	int err = tess_open(&t, dir, TESS_LOOK, NULL, NULL, why);

	if (err)
		return err;
	attr.layout = meta_super(t->meta)->layout;
	err = fs_spec_parse(spec, meta_super(t->meta)->ntargets, &attr, &mask, &w);
	tess_close(t, NULL);
	return tools_end(err, &w, why);
}

int tess_whose(struct tess *t, unsigned target, const char *object,
	       int (*fn)(void *arg, const struct tess_owner *), void *arg, char *why)
{
	struct admin_whose q = { .target = target, .object = object, .fn = fn, .arg = arg };
	struct admin a = tools_admin(t);
	struct text w = TEXT_INIT;

	return tools_end(admin_whose(&a, &q, &w), &w, why);
}

int tess_df(struct tess *t, bool json, FILE *out, char *why)
{
	struct text w = TEXT_INIT;
	struct admin a;
	int err = mount_targets_open(t, true, &w);

	a = tools_admin(t);
	if (!err)
		err = admin_df(&a, json, out, &w);
	return tools_end(err, &w, why);
}

int tess_fsck(struct tess *t, struct tess_fsck *f, char *why)
{
	struct text w = TEXT_INIT;
	struct admin a;
	int err = mount_targets_open(t, true, &w);

	a = tools_admin(t);
	if (!err)
		err = admin_fsck(&a, f, &w);
	return tools_end(err, &w, why);
}

int tess_gc(struct tess *t, struct tess_gc *g, char *why)
{
	struct admin a = tools_admin(t);
	struct text w = TEXT_INIT;

	g->privates = mount_private_sweep(t->dir, !g->dry_run);
	return tools_end(admin_gc(&a, g, &w), &w, why);
}

static const char *tools_scheme(const struct oclass *c)
{
	static const char *const names[] = { "striped", "replicated", "erasure-coded" };

	return names[c->scheme];
}

int tess_class_list(bool json, FILE *out)
{
	struct oclass c;
	char name[16];

	if (json)
		fputs("[", out);
	else
		fprintf(out, "%-12s %-14s %5s %6s %6s  %s\n", "class", "scheme", "data", "parity",
			"groups", "usable");
	for (unsigned i = 0; oclass_row(i, &c); i++) {
		bool usable = oclass_usable(&c, TESS_TARGETS_MAX, NULL) == 0;

		oclass_name(&c, name);
		if (json)
			fprintf(out,
				"%s\n{\"class\":\"%s\",\"id\":%u,\"scheme\":\"%s\",\"data\":%u,"
				"\"parity\":%u,\"groups\":%u,\"usable\":%s}",
				i ? "," : "", name, c.id, tools_scheme(&c), c.data, c.parity, c.groups,
				usable ? "true" : "false");
		else if (c.groups)
			fprintf(out, "%-12s %-14s %5u %6u %6u  %s\n", name, tools_scheme(&c), c.data,
				c.parity, c.groups, usable ? "yes" : "not in this version");
		else
			fprintf(out, "%-12s %-14s %5u %6u %6s  %s\n", name, tools_scheme(&c), c.data,
				c.parity, "all", usable ? "yes" : "not in this version");
	}
	if (json)
		fputs("\n]\n", out);
	return ferror(out) ? -EIO : 0;
}

int tess_mapper_list(bool json, FILE *out)
{
	const struct tess_mapper *m;
	struct text t = TEXT_INIT;

	for (unsigned i = 0; (m = map_row(i)); i++) {
		if (json) {
			text_fmt(&t, "%s\n{\"mapper\":\"%s\",\"id\":%u,\"summary\":", i ? "," : "[",
				 m->name, m->id);
			text_json(&t, m->summary, strlen(m->summary));
			text_add(&t, "}");
		} else {
			text_fmt(&t, "%-16s %s\n", m->name, m->summary);
		}
	}
	if (json)
		text_add(&t, "\n]\n");
	fputs(text_str(&t), out);
	text_done(&t);
	return ferror(out) ? -EIO : 0;
}
