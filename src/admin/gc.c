/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/admin.h"

#include "base/err.h"
#include <inttypes.h>
#include <string.h>

struct gc {
	struct tess_gc *g;
	bool first;
};

static void gc_each(void *arg, const char *what, const char *name, uint64_t bytes)
{
	struct gc *gc = arg;

	if (!gc->g->verbose || !gc->g->out)
		return;
	if (!gc->g->json) {
		fprintf(gc->g->out, "%s %s %" PRIu64 "\n", what, name, bytes);
		return;
	}
	fprintf(gc->g->out, "%s\n{\"what\":\"%s\",\"name\":\"%s\",\"bytes\":%" PRIu64 "}",
		gc->first ? "" : ",", what, name, bytes);
	gc->first = false;
}

static void gc_summary(const struct gc *gc, const struct io_gc *r)
{
	FILE *out = gc->g->out;

	if (gc->g->json) {
		fprintf(out,
			"%s],\"garbage_objects\":%" PRIu64 ",\"garbage_bytes\":%" PRIu64
			",\"orphan_objects\":%" PRIu64 ",\"orphan_bytes\":%" PRIu64
			",\"staging_files\":%" PRIu64 ",\"kept\":%" PRIu64 ",\"deleted\":%" PRIu64
			",\"privates\":%" PRIu64 ",\"dry_run\":%s}\n",
			gc->first ? "" : "\n", r->garbage_objects, r->garbage_bytes, r->orphan_objects,
			r->orphan_bytes, r->staging_files, r->kept, r->deleted, gc->g->privates,
			r->dry_run ? "true" : "false");
		return;
	}
	fprintf(out,
		"garbage: %" PRIu64 " objects, %" PRIu64 " bytes\n"
		"in no record: %" PRIu64 " objects, %" PRIu64 " bytes; %" PRIu64 " staging files\n"
		"kept: %" PRIu64 " of live sessions or with foreign names\n",
		r->garbage_objects, r->garbage_bytes, r->orphan_objects, r->orphan_bytes,
		r->staging_files, r->kept);
	if (gc->g->privates)
		fprintf(out, "private trees of dead mounts: %" PRIu64 "\n", gc->g->privates);
	if (r->dry_run)
		fprintf(out, "nothing deleted: repeat with --delete\n");
	else
		fprintf(out, "deleted: %" PRIu64 "\n", r->deleted);
}

int admin_gc(struct admin *a, struct tess_gc *g, struct text *why)
{
	struct gc gc = { .g = g, .first = true };
	struct io_gc r = { .dry_run = g->dry_run, .fn = gc_each, .arg = &gc };
	int err;

	if (g->json && g->out)
		fputs("{\"list\":[", g->out);
	err = io_gc(a->io, &r);
	if (err)
		text_fmt(why, "stopped, what is listed was %s: %s",
			 g->dry_run ? "only looked at" : "handled", err_text(err));
	g->objects = r.garbage_objects + r.orphan_objects;
	g->bytes = r.garbage_bytes + r.orphan_bytes;
	g->deleted = r.deleted;
	if (g->out)
		gc_summary(&gc, &r);
	return err;
}
