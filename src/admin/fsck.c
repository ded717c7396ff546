/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the file system what it should be? First the namespace against itself, then every segment
 * against what its targets and the staging area hold, then the targets against the namespace.
 */
#include "admin/admin.h"

#include "base/err.h"
#include <inttypes.h>
#include <string.h>

static void finding_json(struct admin_check *c, const struct meta_finding *m)
{
	struct text t = TEXT_INIT;

	text_fmt(&t, "%s\n{\"what\":\"%s\",\"ino\":%" PRIu64 ",\"segment\":\"%016" PRIx64 "\",\"text\":",
		 c->first ? "" : ",", m->what, m->ino, m->seg);
	text_json(&t, m->text, strlen(m->text));
	text_fmt(&t, ",\"repaired\":%s}", m->repaired ? "true" : "false");
	fputs(text_str(&t), c->f->out);
	text_done(&t);
	c->first = false;
}

void admin_finding(struct admin_check *c, const struct meta_finding *m)
{
	c->f->findings++;
	if (m->repaired)
		c->f->repaired++;
	if (!c->f->out)
		return;
	if (c->f->json) {
		finding_json(c, m);
		return;
	}
	fprintf(c->f->out, "%s: %s%s\n", m->what, m->text, m->repaired ? " (repaired)" : "");
}

static void fsck_meta_finding(void *arg, const struct meta_finding *m)
{
	admin_finding(arg, m);
}

/* Another process may change what we look at. Our own session does not count. */
static bool fsck_online(struct admin *a)
{
	struct meta_session s[64];
	unsigned n;

	if (meta_sessions(a->meta, s, 64, &n) < 0)
		return true;
	for (unsigned i = 0; i < n; i++)
		if (s[i].id != meta_session_id(a->meta) && !meta_session_dead(&s[i]))
			return true;
	return false;
}

static int fsck_namespace(struct admin_check *c)
{
	struct meta_check mc = {
		.online = c->online,
		.repair = c->f->repair,
		.fn = fsck_meta_finding,
		.arg = c,
	};
	int err = meta_check(c->a->meta, &mc);

	c->f->inodes = mc.inodes;
	c->f->extents = mc.extents;
	c->f->segments = mc.segments;
	return err;
}

static void fsck_summary(struct admin_check *c)
{
	struct tess_fsck *f = c->f;

	if (f->json) {
		fprintf(f->out,
			"%s],\"inodes\":%" PRIu64 ",\"extents\":%" PRIu64 ",\"segments\":%" PRIu64
			",\"objects\":%" PRIu64 ",\"unknown_objects\":%" PRIu64
			",\"unknown_bytes\":%" PRIu64 ",\"findings\":%" PRIu64 ",\"repaired\":%" PRIu64
			"}\n",
			c->first ? "" : "\n", f->inodes, f->extents, f->segments, f->objects,
			c->unknown, c->unknown_bytes, f->findings, f->repaired);
		return;
	}
	fprintf(f->out,
		"%" PRIu64 " inodes, %" PRIu64 " extents, %" PRIu64 " segments, %" PRIu64
		" objects%s: ",
		f->inodes, f->extents, f->segments, f->objects, f->verify ? " read" : "");
	if (!f->findings)
		fprintf(f->out, "clean\n");
	else
		fprintf(f->out, "%" PRIu64 " findings, %" PRIu64 " repaired\n", f->findings, f->repaired);
	if (c->unknown)
		fprintf(f->out, "%" PRIu64 " objects (%" PRIu64 " bytes) in no record: see tessera gc\n",
			c->unknown, c->unknown_bytes);
}

int admin_fsck(struct admin *a, struct tess_fsck *f, struct text *why)
{
	struct admin_check c = { .a = a, .f = f, .first = true, .online = fsck_online(a) };
	int err;

	if (f->json && f->out)
		fputs("{\"list\":[", f->out);
	err = fsck_namespace(&c);
	if (!err)
		err = admin_check_segments(&c);
	if (!err)
		err = admin_check_unknown(&c);
	if (!err && !c.online)
		err = admin_check_stores(&c);
	if (err)
		text_fmt(why, "stopped: %s", err_text(err));
	if (f->out)
		fsck_summary(&c);
	return err;
}
