/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv:PATH[?size=SIZE][&index=DIR][&inline=BYTES][&direct=0]
 *
 * Making a target: device, index, and last the header, synced, so that a target that was not
 * completed is not one. Whatever exists already must be empty: an empty file, an empty index
 * directory, a block device that begins with 1 MiB of zeros.
 *
 * Opening: header and index carry the same random id, so that a device is not used with the index
 * of another, or with an old copy of either.
 */
#include "store/kv_impl.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/proc.h"
#include "base/range.h"
#include "base/scoped.h"
#include "base/text.h"
#include "store/deco.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

const char *const kv_db_names[] = {"super", "object", "space", "largest", "owner", "pending", NULL};

struct kv_params {
	const struct store_conf *conf;
	struct text             *why;
	uint64_t                 size;		/* 0: derive */
	uint64_t                 inline_max, direct;
	char                    *index;		/* owned */
	bool                     made_file, made_index;
};

static int kv_params_get(struct kv_params *p)
{
	const char *index = p->conf->param(p->conf, "index");
	struct stat st;
	int r = deco_param_size(p->conf, "size", 0, &p->size, p->why);

	if (r == 0)
		r = deco_param_size(p->conf, "inline", KV_INLINE_MAX, &p->inline_max, p->why);
	if (r == 0)
		r = deco_param_uint(p->conf, "direct", 1, &p->direct, p->why);
	if (r < 0)
		return r;
	if (p->inline_max > KV_INLINE_MAX) {
		text_fmt(p->why, "%s: inline: 0 to %u bytes are possible", p->conf->uri,
			 KV_INLINE_MAX);
		return -TESS_E_URI;
	}
	if (p->conf->param(p->conf, "size") && p->size < KV_SIZE_MIN) {
		text_fmt(p->why, "%s: size: at least 16M are needed", p->conf->uri);
		return -TESS_E_URI;
	}
	if (index && index[0] != '/') {
		text_fmt(p->why, "%s: index: an absolute path is needed", p->conf->uri);
		return -TESS_E_URI;
	}
	if (!index && stat(p->conf->place, &st) == 0 && S_ISBLK(st.st_mode)) {
		text_fmt(p->why, "%s: a block device needs index=DIR, a directory for its index",
			 p->conf->uri);
		return -TESS_E_URI;
	}
	p->index = index ? mem_strdup(index) : mem_printf("%s.index", p->conf->place);
	return p->index ? 0 : -ENOMEM;
}

static int kv_before_sync(void *arg, uint64_t txnid)
{
	struct kv *kv = arg;

	(void)txnid;
	return kv_dev_sync(&kv->dev);
}

static int kv_env_open(struct kv *kv, const struct kv_params *p)
{
	struct env_conf c = {
		.dir = p->index, .dbs = kv_db_names, .readonly = p->conf->readonly,
		.boot_id = p->conf->boot_id, .before_sync = kv_before_sync, .arg = kv,
	};
	int r = env_open(&kv->env, &c, p->why);

	if (r < 0 && !text_str(p->why)[0])
		text_fmt(p->why, "%s: index %s: %s", p->conf->uri, p->index, err_text(r));
	return r;
}

/* ---- making ---- */

static int format_refuse(const struct kv_params *p, struct kv_dev *d, const char *what)
{
	struct kv_target t;

	if (kv_dev_header_read(d, &t) == 0)
		text_fmt(p->why, "%s: already a target, of file system %016llx", p->conf->place,
			 (unsigned long long)t.fsid);
	else
		text_fmt(p->why, "%s: %s", p->conf->place, what);
	return -EEXIST;
}

static int format_check_block(struct kv_params *p, struct kv_dev *d)
{
	scoped_free char *buf = mem_pages(KV_DATA_OFF);
	struct iovec v = { buf, KV_DATA_OFF };
	struct tess_iov iov = { &v, 1, KV_DATA_OFF };
	int r = buf ? kv_dev_read(d, &iov, 0, KV_DATA_OFF, 0) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < KV_DATA_OFF; i++) {
		if (buf[i])
			return format_refuse(
				p, d,
				"holds data (wipe it first: blkdiscard -z, or dd from /dev/zero)");
	}
	return r;
}

static int format_open(struct kv *kv, struct kv_params *p)
{
	const char *path = p->conf->place;
	struct stat st;
	int r, flags = O_RDWR;

	if (stat(path, &st) < 0) {
		if (errno != ENOENT) {
			r = -errno;
			text_fmt(p->why, "%s: %s", path, err_text(r));
			return r;
		}
		flags |= O_CREAT | O_EXCL;
	} else if (S_ISBLK(st.st_mode)) {
		flags |= O_EXCL;	/* refuses what is mounted or in use by the kernel */
	}
	r = kv_dev_open(&kv->dev, path, flags, p->direct != 0, p->why);
	if (r < 0)
		return r;
	p->made_file = flags & O_CREAT;
	if (kv->dev.block)
		return format_check_block(p, &kv->dev);
	if (!p->made_file && st.st_size > 0)
		return format_refuse(p, &kv->dev, "exists and is not empty");
	return 0;
}

static int format_size(struct kv *kv, struct kv_params *p)
{
	uint64_t size = p->size, have;
	struct statvfs st;
	int r;

	if (kv->dev.block) {
		r = kv_dev_size(&kv->dev, &have);
		if (r < 0)
			return r;
		if (size > have) {
			text_fmt(p->why, "%s: size: the device has only %llu bytes", p->conf->uri,
				 (unsigned long long)have);
			return -TESS_E_URI;
		}
		size = size ? size : have;
	} else if (!size) {
		if (fstatvfs(kv->dev.fd, &st) < 0)
			return -errno;
		size = (uint64_t)st.f_bavail * st.f_frsize / 10 * 8;
	}
	size = round_down(size, KV_UNIT);
	if (size < KV_SIZE_MIN) {
		text_fmt(p->why, "%s: no room for a target: at least 16M are needed",
			 p->conf->place);
		return -ENOSPC;
	}
	kv->target.size = size;
	if (kv->dev.block)
		return 0;
	/* A size that was asked for is had now; the derived one grows into what is free. */
	if (ftruncate(kv->dev.fd, (off_t)size) < 0)
		r = -errno;
	else
		r = p->size ? kv_dev_allocate(&kv->dev, (struct kv_ext){ 0, size }) : 0;
	if (r < 0)
		text_fmt(p->why, "%s: %llu bytes cannot be had: %s", p->conf->place,
			 (unsigned long long)size, err_text(r));
	return r;
}

static int format_index_dir(struct kv_params *p)
{
	int r;

	if (mkdir(p->index, 0700) < 0) {
		r = -errno;
		if (r != -EEXIST) {
			text_fmt(p->why, "%s: %s", p->index, err_text(r));
			return r;
		}
		/* Removing succeeds when it is empty, and then it is ours to make. */
		if (rmdir(p->index) < 0 || mkdir(p->index, 0700) < 0) {
			text_fmt(p->why, "%s: exists and is not an empty directory", p->index);
			return -EEXIST;
		}
	}
	p->made_index = true;
	return 0;
}

static int format_txn(void *arg, MDB_txn *txn)
{
	struct kv *kv = arg;
	struct kv_counts none = { 0 };
	struct kv_ext all = { KV_DATA_OFF, kv->target.size - KV_DATA_OFF };
	int r = kv_target_put(kv, txn, &kv->target);

	if (r == 0)
		r = kv_counts_put(kv, txn, &none);
	return r == 0 ? kv_space_add(kv, txn, 0, all) : r;
}

static int sync_dir_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	scoped_free char *dir = !slash ? mem_strdup(".") : slash == path ? mem_strdup("/") :
					 mem_printf("%.*s", (int)(slash - path), path);
	scoped_fd int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (!dir)
		return -ENOMEM;
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static void format_undo(const struct kv_params *p)
{
	DIR *dir = p->made_index ? opendir(p->index) : NULL;
	const struct dirent *e;

	while (dir && (e = readdir(dir)) != NULL) {
		if (e->d_name[0] != '.')
			(void)unlinkat(dirfd(dir), e->d_name, 0);
	}
	if (dir)
		closedir(dir);
	if (p->made_index)
		(void)rmdir(p->index);
	if (p->made_file)
		(void)unlink(p->conf->place);
}

/* Only what says that it is this file system's; a block device loses its header. */
void kv_unmake(const struct store_conf *conf)
{
	struct text unread = TEXT_INIT;
	struct kv_params p = { .conf = conf, .why = &unread };
	struct kv_dev d = { .fd = -1 };
	struct kv_target t, none = { 0 };

	if (kv_params_get(&p) == 0 && kv_dev_open(&d, conf->place, O_RDWR, true, &unread) == 0 &&
	    kv_dev_header_read(&d, &t) == 0 && t.fsid == conf->fsid) {
		if (d.block)
			(void)kv_dev_header_write(&d, &none);
		p.made_file = !d.block;
		p.made_index = true;
		format_undo(&p);
	}
	kv_dev_close(&d);
	free(p.index);
	text_done(&unread);
}

static int kv_format(struct kv *kv, struct kv_params *p)
{
	int r, r2;

	kv->target.version = KV_VERSION;
	kv->target.fsid = p->conf->fsid;
	if (getrandom(&kv->target.uid, sizeof(kv->target.uid), 0) != sizeof(kv->target.uid))
		return -EIO;
	r = format_open(kv, p);
	if (r == 0)
		r = format_size(kv, p);
	if (r == 0)
		r = format_index_dir(p);
	if (r == 0)
		r = kv_env_open(kv, p);
	if (r == 0) {
		r = env_write(kv->env, format_txn, kv, NULL);
		r2 = env_close(kv->env);
		kv->env = NULL;
		r = r < 0 ? r : r2;
	}
	if (r == 0)
		r = sync_dir_of(p->index);
	if (r == 0)
		r = kv_dev_header_write(&kv->dev, &kv->target);
	if (r == 0 && !kv->dev.block)
		r = sync_dir_of(p->conf->place);
	if (r < 0) {
		format_undo(p);
		if (!text_str(p->why)[0])
			text_fmt(p->why, "%s: %s", p->conf->place, err_text(r));
	}
	kv_dev_close(&kv->dev);
	return r;
}

/* ---- opening ---- */

static int attach_device(struct kv *kv, const struct kv_params *p)
{
	const char *path = p->conf->place;
	uint64_t size;
	int r = kv_dev_open(&kv->dev, path, p->conf->readonly ? O_RDONLY : O_RDWR, p->direct != 0,
			    p->why);

	if (r < 0)
		return r;
	r = kv_dev_header_read(&kv->dev, &kv->target);
	if (r == -TESS_E_FORMAT_MAGIC)
		text_fmt(p->why, "%s: not a kv target", path);
	else if (r == -TESS_E_FORMAT_NEWER)
		text_fmt(p->why, "%s: a kv target of format %llu; this version knows %u", path,
			 (unsigned long long)kv->target.version, KV_VERSION);
	else if (r < 0)
		text_fmt(p->why, "%s: %s", path, err_text(r));
	if (r < 0)
		return r;
	if (p->conf->fsid && kv->target.fsid != p->conf->fsid) {
		text_fmt(p->why, "%s: a target of another file system, %016llx", path,
			 (unsigned long long)kv->target.fsid);
		return -EINVAL;
	}
	r = kv_dev_size(&kv->dev, &size);
	if (r == 0 && size < kv->target.size) {
		text_fmt(p->why, "%s: has %llu bytes, but was made with %llu: truncated?", path,
			 (unsigned long long)size, (unsigned long long)kv->target.size);
		r = -EIO;
	}
	return r;
}

static int attach_index(struct kv *kv, const struct kv_params *p)
{
	struct kv_target t;
	struct stat st;
	MDB_txn *txn;
	int r;

	if (stat(p->index, &st) < 0 || !S_ISDIR(st.st_mode)) {
		text_fmt(p->why, "%s: its index directory %s is missing", p->conf->place, p->index);
		return -ENOENT;
	}
	r = kv_env_open(kv, p);
	if (r < 0)
		return r;
	r = env_begin_read(kv->env, &txn);
	if (r < 0)
		return r;
	r = kv_target_get(kv, txn, &t);
	env_end_read(kv->env, txn);
	if (r == 0 && (t.uid != kv->target.uid || t.size != kv->target.size)) {
		text_fmt(p->why, "%s: index %s is of another device", p->conf->place, p->index);
		return -EINVAL;
	}
	if (r < 0)
		text_fmt(p->why, "%s: index %s: %s", p->conf->place, p->index, err_text(r));
	return r;
}

/* What others tell us from the dead by: without it they would take our reservations. */
static int self_read(struct kv *kv, const char *given)
{
	scoped_fd int fd = -1;
	int r = proc_start((uint32_t)getpid(), &kv->start);

	if (given)
		memcpy(kv->boot, given, strnlen(given, sizeof(kv->boot)));
	if (r < 0 || given)
		return r;
	fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return read(fd, kv->boot, sizeof(kv->boot) - 4) < 0 ? -errno : 0;
}

static int kv_attach(struct kv *kv, const struct kv_params *p)
{
	bool any;
	int r = attach_device(kv, p);

	if (r == 0)
		r = attach_index(kv, p);
	if (r < 0)
		return r;
	kv->s.ops = &store_kv_ops;
	kv->s.caps = (struct store_caps){
		.flags = STORE_LOCAL, .max_object = UINT64_C(1) << 30, .best_put = 1 << 20,
		.min_get = KV_UNIT, .max_inflight = 32,
	};
	kv->readonly = p->conf->readonly;
	kv->inline_max = p->inline_max;
	/* So that a few processes together reserve little of a small target. */
	kv->chunk = round_up(kv->target.size / 256, UINT64_C(1) << 20);
	kv->chunk = MIN(kv->chunk, UINT64_C(64) << 20);
	return kv->readonly ? 0 : kv_alloc_reap(kv, &any);
}

int kv_open(struct store **ret, const struct store_conf *conf, struct store *inner,
	    struct text *why)
{
	struct kv_params p = { .conf = conf, .why = why };
	struct kv *kv = mem_zalloc(sizeof(*kv));
	int r;

	(void)inner;
	if (!kv)
		return -ENOMEM;
	kv_pool_init(&kv->pool);
	r = self_read(kv, conf->boot_id);
	if (r < 0)
		text_fmt(why, "%s: who we are cannot be read from /proc: %s", conf->place, err_text(r));
	if (r == 0)
		r = kv_params_get(&p);
	if (r == 0 && conf->create)
		r = kv_format(kv, &p);
	if (r == 0) {
		r = kv_attach(kv, &p);
		if (r < 0 && conf->create)
			format_undo(&p);
	}
	free(p.index);
	if (r < 0) {
		kv_store_close(&kv->s);
		return r;
	}
	*ret = &kv->s;
	return 0;
}

void kv_store_close(struct store *s)
{
	struct kv *kv = container_of(s, struct kv, s);

	/* An error of either costs nothing: the next one to open gives back what we did not. */
	if (kv->env && !kv->readonly)
		(void)kv_alloc_release(kv);
	if (kv->env)
		(void)env_close(kv->env);
	kv_dev_close(&kv->dev);
	kv_pool_done(&kv->pool);
	free(kv);
}
