/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "mount/mount.h"
#include "store/store.h"
#include <string.h>

/* A path inside a URI: what would end it or start an escape is escaped. */
static void target_escape(struct text *out, const char *path)
{
	for (; *path; path++) {
		if (strchr("%?#&", *path))
			text_fmt(out, "%%%02X", (unsigned char)*path);
		else
			text_addn(out, path, 1);
	}
}

int mount_target_uri(const char *dir, const char *uri, struct text *ret)
{
	const char *colon = strchr(uri, ':');

	if (colon && !strncmp(colon + 1, "./", 2)) {
		text_addn(ret, uri, (size_t)(colon + 1 - uri));
		target_escape(ret, dir);
		text_add(ret, colon + 2);
	} else {
		text_add(ret, uri);
	}
	return text_error(ret);
}

int mount_target_absolute(const char *uri, struct text *ret, struct text *why)
{
	const char *path = strncmp(uri, "kv:", 3) ? NULL : uri + 3;
	scoped_free char *cwd = NULL;

	if (!path || *path == '/' || !*path || *path == '?') {
		text_add(ret, uri);
		return text_error(ret);
	}
	cwd = getcwd(NULL, 0);
	if (!cwd) {
		int err = -errno;

		text_fmt(why, "target %s: current directory: %s", uri, err_text(err));
		return err;
	}
	text_add(ret, "kv:");
	target_escape(ret, cwd);
	text_add(ret, "/");
	while (!strncmp(path, "./", 2))
		path += 2;
	text_add(ret, path);
	return text_error(ret);
}

int mount_target_fits(const struct store *s, const char *uri, uint32_t segment_size, struct text *why)
{
	if (s->caps.max_object >= segment_size)
		return 0;
	text_fmt(why, "target %s: takes objects of at most %llu bytes, and the segment size is %u", uri,
		 (unsigned long long)s->caps.max_object, segment_size);
	return -TESS_E_URI;
}

static int target_open(struct tess *t, const struct meta_target *mt, bool readonly, struct text *why)
{
	struct store_open_opts opts = {
		.readonly = readonly,
		.fsid = meta_super(t->meta)->fsid,
		.boot_id = t->conf->boot_id,
	};
	struct io_target *it = &t->targets[t->ntargets];
	struct text uri = TEXT_INIT;
	char label[32];
	int err;

	snprintf(label, sizeof(label), "%.*s%u", (int)MIN(strcspn(mt->uri, ":"), (size_t)16), mt->uri,
		 mt->id);
	opts.label = label;
	err = mount_target_uri(t->dir, mt->uri, &uri);
	if (!err)
		err = store_open_uri(&it->store, text_str(&uri), &opts, why);
	text_done(&uri);
	/* What is there can be read whatever the service takes by now. */
	if (!err && !readonly) {
		err = mount_target_fits(it->store, mt->uri, meta_super(t->meta)->layout.segment_size,
					why);
		if (err)
			store_close(it->store);
	}
	if (err)
		return err;
	it->id = mt->id;
	t->ntargets++;
	return 0;
}

/* By capacity when every target tells it; else all count the same. */
static void target_weigh(struct tess *t)
{
	const struct meta_super *super = meta_super(t->meta);
	struct store_usage u[TESS_TARGETS_MAX];
	bool known = true;

	for (unsigned i = 0; i < t->ntargets; i++)
		if (store_usage(t->targets[i].store, &u[i]) < 0 || !u[i].total)
			known = false;
	for (unsigned i = 0; i < t->ntargets; i++) {
		if (super->targets[i].state == META_TARGET_DRAINING)
			t->targets[i].weight = 0;
		else
			t->targets[i].weight = known ? (double)u[i].total : 1.0;
	}
}

int mount_targets_open(struct tess *t, bool readonly, struct text *why)
{
	const struct meta_super *super = meta_super(t->meta);

	if (t->targets_open)
		return 0;
	for (unsigned i = 0; i < super->ntargets; i++) {
		int err = target_open(t, &super->targets[i], readonly, why);

		if (err) {
			mount_targets_close(t);
			return err;
		}
	}
	target_weigh(t);
	t->targets_open = true;
	return 0;
}

void mount_targets_close(struct tess *t)
{
	while (t->ntargets)
		store_close(t->targets[--t->ntargets].store);
	t->targets_open = false;
}
