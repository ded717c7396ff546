/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a file system. Everything that can be checked is checked before anything is made; while
 * the rest goes on the directory holds a mark, so that what a killed mkfs leaves is recognised.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "map/map.h"
#include "mount/mount.h"
#include "oclass/oclass.h"
#include "store/store.h"
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

struct mkfs {
	const struct tess_mkfs *conf;
	char  *dir;			/* owned; absolute once it exists */
	bool   made_dir, marked;
	struct meta_super super;	/* some 70 KiB: on the heap with the rest */
	struct store *stores[TESS_TARGETS_MAX];
	bool   fresh[TESS_TARGETS_MAX];	/* its file was not there before */
	bool   unmake[TESS_TARGETS_MAX];	/* was made, and is no file: what a failure takes back */
	struct text *why;
};

static int mkfs_err(struct mkfs *m, const char *what, int err)
{
	text_fmt(m->why, "%s: %s", what, err_text(err));
	return err;
}

static int mkfs_check_mode(struct mkfs *m)
{
	uint32_t flags = 0;
	int err = m->conf->mode ? fs_mark_parse(m->conf->mode, &flags, m->why) : 0;

	if (!err)
		m->super.mark = (uint16_t)meta_mark(flags);
	return err;
}

static int mkfs_check_layout(struct mkfs *m)
{
	const struct tess_mkfs *c = m->conf;
	unsigned ntargets = c->ntargets ? c->ntargets : 1;
	uint64_t size = c->segment_size ? c->segment_size : TESS_SEGMENT_DEFAULT;
	const struct tess_mapper *mapper = map_find(c->mapper ? c->mapper : "write-optimized");
	struct oclass cls;
	int err;

	if (ntargets > TESS_TARGETS_MAX) {
		text_fmt(m->why, "%u targets: at most %u", ntargets, TESS_TARGETS_MAX);
		return -EINVAL;
	}
	if (size < TESS_SEGMENT_MIN || size > TESS_SEGMENT_MAX || size % TESS_BLOCK) {
		text_fmt(m->why, "segment size %llu: a multiple of 4k from 64k to 64M",
			 (unsigned long long)size);
		return -TESS_E_OPT_VALUE;
	}
	if (!mapper) {
		text_fmt(m->why, "unknown mapper '%s': one of ", c->mapper);
		map_names(m->why);
		return -TESS_E_MAPPER_UNKNOWN;
	}
	if (c->label && strlen(c->label) > META_LABEL_MAX) {
		text_fmt(m->why, "label '%s': longer than %u bytes", c->label, META_LABEL_MAX);
		return -ENAMETOOLONG;
	}
	err = mkfs_check_mode(m);
	if (err)
		return err;
	err = oclass_parse(c->cls ? c->cls : "S1", &cls, m->why);
	if (!err)
		err = oclass_usable(&cls, ntargets, m->why);
	if (err)
		return err;
	m->super.layout = (struct meta_layout){ cls.id, mapper->id, (uint32_t)size };
	if (c->label)
		memcpy(m->super.label, c->label, strlen(c->label) + 1);
	return 0;
}

static int mkfs_target(struct mkfs *m, unsigned i, const char *typed)
{
	struct meta_target *t = &m->super.targets[i];
	struct text uri = TEXT_INIT;
	const char *tier;
	int err;

	err = i || m->conf->ntargets ? mount_target_absolute(typed, &uri, m->why) : 0;
	if (!m->conf->ntargets)
		text_add(&uri, typed);
	if (!err && uri.n > META_URI_MAX) {
		text_fmt(m->why, "target %u: URI is longer than %u bytes", i, META_URI_MAX);
		err = -TESS_E_URI;
	}
	for (unsigned j = 0; !err && j < i; j++)
		if (!strcmp(m->super.targets[j].uri, text_str(&uri))) {
			text_fmt(m->why, "target %s: given twice", typed);
			err = -TESS_E_URI;
		}
	if (!err) {
		t->id = (uint16_t)i;
		t->state = META_TARGET_UP;
		memcpy(t->uri, text_str(&uri), uri.n + 1);
		tier = strstr(t->uri, "tier=");
		if (tier && (tier[-1] == '?' || tier[-1] == '&'))
			snprintf(t->tier, sizeof(t->tier), "%.*s", (int)strcspn(tier + 5, "&"),
				 tier + 5);
		m->super.ntargets++;
	}
	text_done(&uri);
	return err;
}

static int mkfs_check_targets(struct mkfs *m)
{
	char uri[64] = MOUNT_KV_URI;

	if (!m->conf->ntargets && m->conf->kv_size)
		snprintf(uri, sizeof(uri), "%s?size=%llu", MOUNT_KV_URI,
			 (unsigned long long)m->conf->kv_size);
	if (!m->conf->ntargets)
		return mkfs_target(m, 0, uri);
	for (unsigned i = 0; i < m->conf->ntargets; i++) {
		int err = mkfs_target(m, i, m->conf->targets[i]);

		if (err)
			return err;
	}
	return 0;
}

/* "not empty" alone would leave the user guessing in the two cases that are ours. */
static int mkfs_check_contents(struct mkfs *m, DIR *d)
{
	bool meta = false, mark = false, any = false;
	struct dirent *e;

	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		any = true;
		meta |= !strcmp(e->d_name, MOUNT_META);
		mark |= !strcmp(e->d_name, MOUNT_MARK);
	}
	if (!any)
		return 0;
	if (mark)
		text_fmt(m->why, "%s: a mkfs was interrupted here: remove the directory first",
			 m->conf->dir);
	else if (meta)
		text_fmt(m->why, "%s: already holds a Tessera file system", m->conf->dir);
	else
		text_fmt(m->why, "%s: directory is not empty", m->conf->dir);
	return -ENOTEMPTY;
}

static int mkfs_make_dir(struct mkfs *m)
{
	const char *dir = m->conf->dir;
	struct stat st;
	DIR *d;
	int err;

	if (stat(dir, &st) < 0) {
		if (errno != ENOENT || mkdir(dir, 0755) < 0)
			return mkfs_err(m, dir, -errno);
		m->made_dir = true;
	} else if (!S_ISDIR(st.st_mode)) {
		text_fmt(m->why, "%s: not a directory", dir);
		return -ENOTDIR;
	}
	m->dir = realpath(dir, NULL);
	d = m->dir ? opendir(m->dir) : NULL;
	if (!d)
		return mkfs_err(m, dir, -errno);
	err = mkfs_check_contents(m, d);
	closedir(d);
	return err;
}

static int mkfs_subdir(struct mkfs *m, const char *name)
{
	scoped_free char *path = mount_path(m->dir, name);

	if (!path)
		return -ENOMEM;
	return mkdir(path, 0700) < 0 ? mkfs_err(m, path, -errno) : 0;
}

static int mkfs_mark(struct mkfs *m)
{
	scoped_free char *path = mount_path(m->dir, MOUNT_MARK);
	scoped_fd int fd = -1;

	if (!path)
		return -ENOMEM;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return mkfs_err(m, path, -errno);
	m->marked = true;
	return 0;
}

/* The mark goes last, when all it guards is on the disk. */
static int mkfs_unmark(struct mkfs *m)
{
	scoped_free char *path = mount_path(m->dir, MOUNT_MARK);
	scoped_fd int fd = open(m->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (!path)
		return -ENOMEM;
	if (fd < 0 || syncfs(fd) < 0 || unlink(path) < 0 || fsync(fd) < 0)
		return mkfs_err(m, m->dir, -errno);
	m->marked = false;
	return 0;
}

/* The file of a "kv:PATH?…" URI that is outside the directory; NULL: none. Freed by free(). */
static char *mkfs_target_file(const char *uri)
{
	if (strncmp(uri, "kv:/", 4) || strchr(uri, '%'))
		return NULL;
	return mem_printf("%.*s", (int)strcspn(uri + 3, "?"), uri + 3);
}

/* A file outside the directory that was there before stays, whatever becomes of it. */
static bool mkfs_takes_back(const char *file)
{
	struct stat st;

	return !file || (stat(file, &st) == 0 && S_ISBLK(st.st_mode));
}

static int mkfs_open_targets(struct mkfs *m)
{
	for (unsigned i = 0; i < m->super.ntargets; i++) {
		const char *uri = m->super.targets[i].uri;
		scoped_free char *file = mkfs_target_file(uri);
		struct store_open_opts o = { .create = true, .fsid = m->super.fsid };
		struct text full = TEXT_INIT;
		char label[32];
		int err;

		snprintf(label, sizeof(label), "target%u", i);
		o.label = label;
		m->fresh[i] = file && access(file, F_OK) < 0;
		err = mount_target_uri(m->dir, uri, &full);
		if (!err)
			err = store_open_uri(&m->stores[i], text_str(&full), &o, m->why);
		text_done(&full);
		m->unmake[i] = !err && mkfs_takes_back(file);
		if (!err)
			err = mount_target_fits(m->stores[i], uri, m->super.layout.segment_size,
						m->why);
		if (err)
			return err;
	}
	return 0;
}

static int mkfs_format(struct mkfs *m)
{
	scoped_free char *path = mount_path(m->dir, MOUNT_META);
	struct kv_conf kc = { .dir = path, .create = true };
	struct tess_req req;
	struct kv *kv;
	int err;

	if (!path)
		return -ENOMEM;
	req_begin(&req, "mkfs");
	req.uid = geteuid();
	req.gid = getegid();
	err = kv_lmdb_open(&kv, &kc, m->why);
	if (err)
		return err;
	err = meta_format(kv, &m->super, &req, m->super.created);
	if (!err)
		err = kv_sync(kv);
	kv_close(kv);
	return err ? mkfs_err(m, path, err) : 0;
}

static int mkfs_identity(struct mkfs *m)
{
	uint8_t *u = m->super.uuid;

	if (getrandom(u, sizeof(m->super.uuid), 0) != sizeof(m->super.uuid))
		return mkfs_err(m, "getrandom", -EIO);
	u[6] = (u[6] & 0x0f) | 0x40;	/* RFC 4122, version 4 */
	u[8] = (u[8] & 0x3f) | 0x80;
	memcpy(&m->super.fsid, u, sizeof(m->super.fsid));
	m->super.created = clock_wall();
	return 0;
}

static int mkfs_make(struct mkfs *m)
{
	int err = mkfs_identity(m);

	if (!err)
		err = mkfs_mark(m);
	if (!err)
		err = mkfs_subdir(m, MOUNT_META);
	if (!err)
		err = mkfs_subdir(m, MOUNT_STAGING);
	if (!err)
		err = mkfs_subdir(m, MOUNT_RUN);
	if (!err && !m->conf->ntargets)
		err = mkfs_subdir(m, MOUNT_KV);
	if (!err)
		err = mkfs_open_targets(m);
	return err ? err : mkfs_format(m);
}

static int mkfs_remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	remove(path);
	return 0;
}

void mount_remove(const char *path)
{
	if (path)
		nftw(path, mkfs_remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Or the next mkfs would be told that the place belongs to a file system, which never was. */
static void mkfs_unmake_targets(struct mkfs *m)
{
	for (unsigned i = 0; i < m->super.ntargets; i++) {
		struct text full = TEXT_INIT;

		if (m->unmake[i] && !mount_target_uri(m->dir, m->super.targets[i].uri, &full))
			store_unmake_uri(text_str(&full), m->super.fsid);
		text_done(&full);
	}
}

/* The directory was empty before the mark was set: all that is in it is ours. */
static void mkfs_undo(struct mkfs *m)
{
	static const char *const names[] = { MOUNT_META, MOUNT_STAGING, MOUNT_RUN, MOUNT_KV, MOUNT_MARK };

	mkfs_unmake_targets(m);
	for (size_t i = 0; m->marked && i < ARRAY_SIZE(names); i++) {
		scoped_free char *path = mount_path(m->dir, names[i]);

		mount_remove(path);
	}
	for (unsigned i = 0; i < m->super.ntargets; i++) {
		scoped_free char *file = mkfs_target_file(m->super.targets[i].uri);
		scoped_free char *index = file ? mem_printf("%s.index", file) : NULL;

		if (m->fresh[i]) {
			mount_remove(file);
			mount_remove(index);
		}
	}
	if (m->made_dir)
		rmdir(m->conf->dir);
}

int tess_mkfs(const struct tess_mkfs *conf, char *why)
{
	scoped_free struct mkfs *m = mem_zalloc(sizeof(*m));
	struct text w = TEXT_INIT;
	int err;

	if (!m)
		return mount_why(why, NULL, -ENOMEM);
	m->conf = conf;
	m->why = &w;
	err = mkfs_check_layout(m);
	if (!err)
		err = mkfs_check_targets(m);
	if (!err)
		err = mkfs_make_dir(m);
	if (!err)
		err = mkfs_make(m);
	for (unsigned i = 0; i < m->super.ntargets; i++)
		store_close(m->stores[i]);
	if (!err)
		err = mkfs_unmark(m);
	if (err) {
		mkfs_undo(m);
		err = mount_why(why, &w, err);
	}
	free(m->dir);
	text_done(&w);
	return err;
}
