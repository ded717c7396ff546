/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/admin.h"

#include "base/err.h"
#include "base/scoped.h"
#include "store/store.h"
#include <inttypes.h>
#include <string.h>

struct df {
	struct meta_totals totals;
	uint64_t staged_files, staged_bytes, garbage_bytes;
	unsigned sessions;
};

static int df_garbage(struct admin *a, struct df *d)
{
	struct meta_garbage g[64];
	uint64_t after = 0;
	unsigned n;

	do {
		int err = meta_garbage_list(a->meta, after, g, ARRAY_SIZE(g), &n);

		if (err)
			return err;
		for (unsigned i = 0; i < n; i++) {
			d->garbage_bytes += g[i].seg.len;
			after = g[i].serial;
		}
	} while (n == ARRAY_SIZE(g));
	return 0;
}

static int df_collect(struct admin *a, struct df *d)
{
	struct meta_session s[64];
	int err = meta_totals(a->meta, &d->totals);

	if (!err)
		err = meta_sessions(a->meta, s, ARRAY_SIZE(s), &d->sessions);
	if (!err)
		err = df_garbage(a, d);
	if (!err)
		err = admin_staged_total(a, &d->staged_files, &d->staged_bytes);
	return err;
}

static void df_target_json(const struct admin *a, unsigned i, struct text *out)
{
	const struct meta_target *t = &meta_super(a->meta)->targets[i];
	struct store_usage u = { .objects = UINT64_MAX };
	struct store *s = admin_target(a, t->id);

	text_fmt(out, "%s{\"target\":%u,\"uri\":", i ? "," : "", t->id);
	text_json(out, t->uri, strlen(t->uri));
	text_add(out, ",\"tier\":");
	text_json(out, t->tier, strlen(t->tier));
	text_fmt(out, ",\"state\":\"%s\"", t->state == META_TARGET_DRAINING ? "draining" : "up");
	if (s && !store_usage(s, &u) && u.total)
		text_fmt(out, ",\"total\":%" PRIu64 ",\"used\":%" PRIu64 ",\"free\":%" PRIu64, u.total,
			 u.total - u.free, u.free);
	if (u.objects != UINT64_MAX)
		text_fmt(out, ",\"objects\":%" PRIu64, u.objects);
	text_add(out, "}");
}

static void df_json(const struct admin *a, const struct df *d, struct text *out)
{
	const struct meta_super *s = meta_super(a->meta);
	const struct meta_totals *t = &d->totals;

	text_add(out, "{\"label\":");
	text_json(out, s->label, strlen(s->label));
	text_fmt(out, ",\"fsid\":\"%016" PRIx64 "\",\"targets\":[", s->fsid);
	for (unsigned i = 0; i < s->ntargets; i++)
		df_target_json(a, i, out);
	text_fmt(out,
		 "],\"inodes\":%" PRIu64 ",\"names\":%" PRIu64 ",\"extents\":%" PRIu64
		 ",\"segments\":%" PRIu64 ",\"metadata_bytes\":%" PRIu64
		 ",\"staged_segments\":%" PRIu64 ",\"staged_bytes\":%" PRIu64 ",\"garbage\":%" PRIu64
		 ",\"garbage_bytes\":%" PRIu64 ",\"sessions\":%u}\n",
		 t->inodes, t->dentries, t->extents, t->segments, t->kv_bytes, t->staged_segments,
		 d->staged_bytes, t->garbage, d->garbage_bytes, d->sessions);
}

/* A size in eight columns. */
static void df_size(struct text *out, uint64_t n)
{
	struct text s = TEXT_INIT;

	text_size(&s, n);
	text_fmt(out, " %8s", text_str(&s));
	text_done(&s);
}

static void df_target(const struct admin *a, unsigned i, struct text *out)
{
	const struct meta_target *t = &meta_super(a->meta)->targets[i];
	struct store_usage u = { .objects = UINT64_MAX };
	struct store *s = admin_target(a, t->id);

	text_fmt(out, "%6u", t->id);
	if (s && !store_usage(s, &u) && u.total) {
		df_size(out, u.total);
		df_size(out, u.total - u.free);
		df_size(out, u.free);
		text_fmt(out, " %3.0f%%", 100.0 * (double)(u.total - u.free) / (double)u.total);
	} else {
		text_fmt(out, " %8s %8s %8s %4s", "-", "-", "-", "-");
	}
	text_fmt(out, "  %s%s\n", t->uri, t->state == META_TARGET_DRAINING ? " (draining)" : "");
}

static void df_table(const struct admin *a, const struct df *d, struct text *out)
{
	const struct meta_super *s = meta_super(a->meta);
	const struct meta_totals *t = &d->totals;

	text_fmt(out, "target %8s %8s %8s %4s  %s\n", "size", "used", "free", "use", "where");
	for (unsigned i = 0; i < s->ntargets; i++)
		df_target(a, i, out);
	text_fmt(out, "names %" PRIu64 ", inodes %" PRIu64 ", extents %" PRIu64 ", segments %" PRIu64
		 ", metadata ", t->dentries, t->inodes, t->extents, t->segments);
	text_size(out, t->kv_bytes);
	text_fmt(out, "\nstaged %" PRIu64 " segments (", t->staged_segments);
	text_size(out, d->staged_bytes);
	text_fmt(out, "), garbage %" PRIu64 " segments (", t->garbage);
	text_size(out, d->garbage_bytes);
	text_fmt(out, "), sessions %u\n", d->sessions);
}

int admin_df(struct admin *a, bool json, FILE *out, struct text *why)
{
	struct text t = TEXT_INIT;
	struct df d = { 0 };
	int err = df_collect(a, &d);

	if (!err) {
		if (json)
			df_json(a, &d, &t);
		else
			df_table(a, &d, &t);
		err = text_error(&t);
	}
	if (!err && fputs(text_str(&t), out) < 0)
		err = -EIO;
	if (err)
		text_add(why, err_text(err));
	text_done(&t);
	return err;
}
