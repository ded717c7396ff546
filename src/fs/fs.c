/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/laminate.h"

#include "base/clock.h"
#include "base/fault.h"
#include <string.h>

#define FS_BSIZE 4096u
#define FS_RELAX NS_PER_S /* meta=relaxed: how old a directory's mtime may be */
/* Told when no target knows its size: large, and no sum of two of them overflows anything. */
#define FS_UNKNOWN (UINT64_C(1) << 50)
/* Inodes cost LMDB pages, not a table: "as many as you like" in a figure that 32-bit tools print.
 */
#define FS_INODES UINT64_C(4000000000)

static void fs_published(void *arg, uint64_t ino, uint64_t generation)
{
	icache_known_bump(arg, ino, generation);
}

/* The marks that promise exact metadata on a mount which relaxes its own. */
static unsigned fs_exact_marks(const struct tess_policy *mount)
{
	struct tess_policy p;
	unsigned ret = 0;

	for (unsigned i = 0; i < MODE_COUNT; i++) {
		policy_resolve(mount, (enum tess_mode)i, &p);
		ret |= (unsigned)!p.relaxed_meta << i;
	}
	return ret;
}

int fs_open(struct fs **ret, const struct fs_conf *conf)
{
	struct fs *fs = mem_zalloc(sizeof(*fs));
	int r;

	if (!fs)
		return -ENOMEM;
	fs->conf = *conf;
	r = icache_init(fs);
	if (r == 0)
		r = laminate_start(fs);
	if (r < 0)
		goto fail;
	reclaim_init(fs);
	r = watch_start(fs);
	if (r == 0)
		r = locks_start(fs);
	if (r < 0)
		goto fail_watch;
	r = reclaim_start(fs);
	if (r < 0)
		goto fail_locks;
	io_on_publish(fs->conf.io, fs_published, fs);
	if (conf->policy->relaxed_meta)
		meta_relax(conf->meta, FS_RELAX, fs_exact_marks(conf->policy));
	*ret = fs;
	return 0;
fail_locks:
	locks_stop(fs);
fail_watch:
	watch_stop(fs);
	reclaim_done(fs);
fail:
	laminate_stop(fs);
	icache_done(fs);
	free(fs);
	return r;
}

int fs_close(struct fs *fs)
{
	struct tess_req req;
	int r;

	if (!fs)
		return 0;
	locks_stop(fs);
	req_begin(&req, "unmount");
	/* What goes with the mount need not go anywhere before. */
	r = fs->conf.readonly || fs->conf.policy->durable == NEVER ? 0 : io_sync_all(fs->conf.io, &req);
	reclaim_stop(fs);
	watch_stop(fs);
	reclaim_done(fs);
	icache_done(fs);
	laminate_stop(fs);
	io_on_publish(fs->conf.io, NULL, NULL);
	free(fs);
	return r;
}

void fs_given_up(struct fs *fs)
{
	io_given_up(fs->conf.io);
}

bool fs_is_local(const struct fs *fs)
{
	return io_is_local(fs->conf.io);
}

const struct tess_policy *fs_policy(const struct fs *fs)
{
	return fs->conf.policy;
}

void fs_direct_appends(struct fs *fs)
{
	atomic_store(&fs->direct_appends, true);
}

void fs_policy_of(const struct fs *fs, const struct meta_attr *a, struct tess_policy *ret)
{
	policy_resolve(fs->conf.policy, (enum tess_mode)meta_mark(a->flags), ret);
	/* Whatever it is marked with: nothing can happen that one would have to look for. */
	if (a->flags & META_LAMINATED) {
		ret->refresh = REFRESH_NEVER;
		ret->keep_cache = true;
		ret->direct_io = false;
	}
}

void fs_forget_begin(struct fs *fs)
{
	atomic_store(&fs->forgets, true);
}

int fs_statfs(struct fs *fs, struct tess_req *req, struct statvfs *ret)
{
	uint64_t total = 0, avail = 0, staged;
	struct meta_totals t;
	int r = meta_totals(fs->conf.meta, &t);

	(void)req;
	if (r < 0)
		return r;
	for (unsigned i = 0; i < fs->conf.ntargets; i++) {
		struct store_usage u;

		if (store_usage(fs->conf.targets[i].store, &u) < 0 || u.total == 0)
			u.total = u.free = FS_UNKNOWN;
		total += u.total;
		/* A draining target takes nothing new. */
		avail += fs->conf.targets[i].weight > 0 ? u.free : 0;
	}
	staged = io_staged(fs->conf.io);
	avail -= MIN(avail, staged);
	memset(ret, 0, sizeof(*ret));
	ret->f_bsize = ret->f_frsize = FS_BSIZE;
	ret->f_blocks = total / FS_BSIZE;
	ret->f_bfree = ret->f_bavail = avail / FS_BSIZE;
	ret->f_files = MAX(FS_INODES, t.inodes);
	ret->f_ffree = ret->f_favail = ret->f_files - t.inodes;
	ret->f_namemax = TESS_NAME_MAX;
	ret->f_fsid = meta_super(fs->conf.meta)->fsid;
	return 0;
}
