/* SPDX-License-Identifier: Apache-2.0 */
/* The consistency policy of a mount: made from its options once, and told to who asks. */
#include "base/err.h"
#include "base/fault.h"
#include "base/opt.h"
#include "base/scoped.h"
#include "mount/mount.h"
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

int mount_data_cache(const char *s, struct policy_opts *ret)
{
	static const struct {
		const char *word;
		enum policy_data data;
	} words[] = {
		{ "on", DATA_ON }, { "true", DATA_ON }, { "off", DATA_OFF }, { "false", DATA_OFF },
		{ "otoc", DATA_OTOC },
	};
	uint64_t ns;

	ret->data_cache = DATA_PRESET;
	if (!s)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!strcmp(s, words[i].word)) {
			ret->data_cache = words[i].data;
			return 0;
		}
	if (parse_time(s, &ns) < 0 || ns > INT64_MAX)
		return -EINVAL;
	ret->data_cache = ns ? DATA_TIME : DATA_OFF;
	ret->data_time = (int64_t)ns;
	return 0;
}

static enum policy_switch mode_switch(const struct tess_conf *c, uint32_t bit, bool value)
{
	return !(c->given & bit) ? SWITCH_PRESET : value ? SWITCH_ON : SWITCH_OFF;
}

static int64_t mode_time(const struct tess_conf *c, uint32_t bit, uint64_t value)
{
	return c->given & bit ? (int64_t)value : POLICY_UNSAID;
}

int mount_policy(struct tess *t, struct text *why)
{
	const struct tess_conf *c = t->conf;
	struct policy_opts o = {
		.mode = (enum tess_mode)c->mode,
		.locks = (unsigned)c->locks,
		.append = (unsigned)c->append,
		.size = (enum policy_how)c->size_how,
		.mtime = (enum policy_how)c->mtime_how,
		.meta = (enum policy_how)c->meta_how,
		.nocto = !c->cto,
		.writeback = mode_switch(c, TESS_GIVEN_WRITEBACK, c->writeback_cache),
		.direct_io = mode_switch(c, TESS_GIVEN_DIRECT, c->direct_io),
		.interval = mode_time(c, TESS_GIVEN_INTERVAL, c->interval),
		.actimeo = mode_time(c, TESS_GIVEN_ACTIMEO, c->actimeo),
		.attr_time = mode_time(c, TESS_GIVEN_ATTR, c->attr_time),
		.dentry_time = mode_time(c, TESS_GIVEN_DENTRY, c->dentry_time),
		.dentry_dir_time = mode_time(c, TESS_GIVEN_DENTRY_DIR, c->dentry_dir_time),
		.ndentry_time = mode_time(c, TESS_GIVEN_NDENTRY, c->ndentry_time),
	};
	int err = mount_data_cache(c->data_cache, &o);

	if (err)
		return err;
	t->policy_from = o.mode == MODE_NONE ? "default" : "mount";
	/* mkfs knew what the files are for; a private tree holds none of them. */
	if (t->meta && meta_super(t->meta)->mark && o.mode != MODE_PRIVATE) {
		o.mode = (enum tess_mode)meta_super(t->meta)->mark;
		if (o.mode >= MODE_PRIVATE) {
			text_fmt(why, "%s: made for a mode that this version does not know", t->dir);
			return -TESS_E_FORMAT_NEWER;
		}
		t->policy_from = "file system";
		o.mode_from = " (of the file system)";
	}
	return policy_make(&o, &t->policy, why);
}

/* ---- showing it ---- */

struct mode_of {
	uint64_t ino;		/* 0: the mount */
	bool     json;
	struct meta_attr a;
	struct tess_policy p;
	const char *from;
	char     path[PATH_MAX];
};

static int mode_parse(const char *arg, struct mode_of *m)
{
	char *end;

	if (!strncmp(arg, "json", 4)) {
		m->json = true;
		arg += 4 + (arg[4] == ' ');
	}
	m->ino = strtoull(arg, &end, 10);
	return *end ? -EINVAL : 0;
}

/* A mark is inherited at creation: one that the parent has too may as well have come from there. */
static const char *mode_from(const struct tess *t, const struct meta_attr *a)
{
	struct meta_attr dir;

	if (!meta_mark(a->flags))
		return t->policy_from;
	if (S_ISDIR(a->mode))
		return "directory";
	if (!meta_getattr(t->meta, a->parent, &dir) && meta_mark(dir.flags) == meta_mark(a->flags))
		return "directory, inherited";
	return "file";
}

static const char *mode_state(uint32_t flags)
{
	return flags & META_LAMINATED ? "laminated" : flags & META_HIDDEN ? "hidden" : "-";
}

static int mode_find(struct tess *t, struct mode_of *m)
{
	int err;

	m->p = t->policy;
	m->from = t->policy_from;
	if (!m->ino)
		return 0;
	err = meta_getattr(t->meta, m->ino, &m->a);
	if (err)
		return err;
	policy_resolve(&t->policy, (enum tess_mode)meta_mark(m->a.flags), &m->p);
	m->from = mode_from(t, &m->a);
	if (m->a.flags & META_LAMINATED) {
		m->p.attr_ttl = m->p.entry_ttl = m->p.dir_ttl = POLICY_FOREVER;
		m->p.refresh = REFRESH_NEVER;
		m->p.keep_cache = true;
		m->p.direct_io = false;
	}
	if (meta_path(t->meta, m->ino, m->path, sizeof(m->path)) < 0)
		m->path[0] = '\0';
	return 0;
}

static void mode_json(struct tess *t, const struct mode_of *m, struct text *out)
{
	bool shared = fs_shared(t->fs);

	text_add(out, "{\"mountpoint\":");
	text_json(out, t->mountpoint ? t->mountpoint : "", t->mountpoint ? strlen(t->mountpoint) : 0);
	text_fmt(out, ",\"from\":\"%s\",\"shared\":%s,\"fsync\":\"%s\",\"lease\":\"", m->from,
		 shared ? "true" : "false", mount_fsync_local(t) ? "local" : "target");
	policy_time((int64_t)t->conf->lease, out);
	text_add(out, "\",");
	if (m->ino) {
		text_fmt(out, "\"ino\":%" PRIu64 ",\"path\":", m->ino);
		text_json(out, m->path, strlen(m->path));
		text_fmt(out, ",\"mark\":\"%s\",\"state\":\"%s\",", fs_mark_name(m->a.flags),
			 mode_state(m->a.flags));
	}
	policy_json(&m->p, shared, out);
	text_add(out, "}\n");
}

static void mode_row(struct text *out, const char *name, const char *value)
{
	text_fmt(out, "%-18s %s\n", name, value);
}

static void mode_text(struct tess *t, const struct mode_of *m, struct text *out)
{
	bool shared = fs_shared(t->fs);
	struct text lease = TEXT_INIT;

	if (m->ino) {
		mode_row(out, "path", m->path);
		mode_row(out, "mark", fs_mark_name(m->a.flags));
		mode_row(out, "state", mode_state(m->a.flags));
	}
	mode_row(out, "from", m->from);
	policy_text(&m->p, shared, out);
	mode_row(out, "fsync", mount_fsync_local(t) ? "local" : "target");
	policy_time((int64_t)t->conf->lease, &lease);
	mode_row(out, "lease", text_str(&lease));
	mode_row(out, "shared", shared ? "yes" : "no");
	text_done(&lease);
}

int mount_mode(struct tess *t, const char *arg, struct text *out)
{
	scoped_free struct mode_of *m = mem_zalloc(sizeof(*m));
	int err = m ? mode_parse(arg, m) : -ENOMEM;

	if (!err)
		err = mode_find(t, m);
	if (err)
		text_fmt(out, "mode %s: %s", arg, err_text(err));
	else if (m->json)
		mode_json(t, m, out);
	else
		mode_text(t, m, out);
	return err;
}

int tess_mode_list(bool json, FILE *out)
{
	struct text t = TEXT_INIT;

	policy_table(json, &t);
	fputs(text_str(&t), out);
	text_done(&t);
	return ferror(out) ? -EIO : 0;
}
