/* SPDX-License-Identifier: Apache-2.0 */
#include "watchtest.h"
#include "base/text.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLEAN(err) ck_assert_int_eq((err), 0)

struct watchtest wt;

static void kernel_tell(uint64_t ino, bool data, int64_t off, int64_t bytes, const char *name, size_t len)
{
	scoped_lock(&wt.lock);
	if (wt.ntold < WT_TOLD_MAX) {
		wt.told[wt.ntold].off = off;
		wt.told[wt.ntold].len = bytes;
		wt.told[wt.ntold].ino = ino;
		wt.told[wt.ntold].data = data;
		snprintf(wt.told[wt.ntold].name, sizeof(wt.told[0].name), "%.*s", (int)len, name);
		wt.ntold++;
	}
	while (wt.block) {
		wt.blocked = true;
		cond_wake_all(&wt.cond);
		cond_wait(&wt.cond, &wt.lock);
	}
}

static void kernel_inode(void *arg, uint64_t ino, int64_t off, int64_t len)
{
	(void)arg;
	kernel_tell(ino, off != FS_KERNEL_ATTR, off, len, "", 0);
}

static void kernel_entry(void *arg, uint64_t dir, const char *name, size_t len)
{
	(void)arg;
	kernel_tell(dir, false, 0, 0, name, len);
}

static bool kernel_names(void *arg)
{
	(void)arg;
	atomic_fetch_add(&wt.names, 1);
	return !atomic_load(&wt.cannot);
}

static const struct fs_kernel kernel = { kernel_inode, kernel_entry, kernel_names };

void wt_setup(void)
{
	struct meta_super super = { .format = 1, .fsid = 7, .ntargets = 1,
				    .targets = { { .id = 0, .uri = "mem:" } } };
	struct store_open_opts so = { .create = true, .fsid = 7, .label = "mem0" };
	struct kv_conf kc = { .create = true };
	static struct tess_policy lazy;
	const char *tmp = getenv("TESS_TMP");
	struct text why = TEXT_INIT;
	struct kv *kv;

	lazy = policy_presets[MODE_LAZY];
	req_begin(&wt.req, "test");
	lock_init(&wt.lock, LOCK_LEAF, "test");
	cond_init(&wt.cond);
	CLEAN(fs_layout_parse("class=S1,segment=64K,mapper=write-optimized", 1, &super.layout, &why));
	CLEAN(kv_mem_open(&kv, &kc, &why));
	CLEAN(meta_format(kv, &super, &wt.req, clock_wall()));
	CLEAN(meta_open(&wt.meta, kv, &why));
	CLEAN(meta_open(&wt.other, kv, &why));
	CLEAN(meta_session_begin(wt.meta, "/mnt", clock_wall(), &why));
	CLEAN(store_open_uri(&wt.store, "mem:", &so, &why));
	wt.target = (struct io_target){ .id = 0, .store = wt.store, .weight = 1 };
	CLEAN(budget_new(&wt.budget, 64 << 20));
	snprintf(wt.dir, sizeof(wt.dir), "%s/watch.XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(wt.dir));
	snprintf(wt.rescued, sizeof(wt.rescued), "%s.rescued", wt.dir);
	struct io_conf ic = { .meta = wt.meta, .budget = wt.budget, .targets = &wt.target, .ntargets = 1,
			      .staging_dir = wt.dir, .staging_size = 64 << 20, .fsync_local = true,
			      .rescue_dir = wt.rescued };

	CLEAN(io_open(&wt.io, &ic, &why));
	struct fs_conf fc = { .meta = wt.meta, .io = wt.io, .policy = &lazy, .targets = &wt.target,
			      .ntargets = 1, .lease = NS_PER_S };

	CLEAN(fs_open(&wt.fs, &fc));
	fs_watch_begin(wt.fs, &kernel, NULL);
	text_done(&why);
}

static void remove_all(const char *dir)
{
	char path[800];
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && remove(path) < 0)
			remove_all(path);
	}
	if (d)
		closedir(d);
	remove(dir);
}

void wt_join(void)
{
	CLEAN(meta_session_begin(wt.other, "/mnt2", clock_wall(), NULL));
	SOON(fs_shared(wt.fs));
}

/* What a mount's own watch would do. */
void wt_other_knows_all(void)
{
	if (meta_session_id(wt.other))
		ck_assert_int_ge(meta_tail(wt.other, kv_last(meta_kv(wt.meta))), 0);
}

void wt_leave(void)
{
	if (meta_session_id(wt.other))
		CLEAN(meta_session_end(wt.other));
}

void wt_teardown(void)
{
	struct meta_check c = {0};
	struct text why = TEXT_INIT;
	bool fenced = fs_fenced(wt.fs);
	int r;

	fs_watch_end(wt.fs);
	wt_other_knows_all();
	r = fs_close(wt.fs);
	ck_assert(r == 0 || fenced);
	r = io_close(wt.io, true, &why);
	ck_assert(r == 0 || fenced);
	wt_leave();
	r = meta_session_end(wt.meta);
	ck_assert(r == 0 || fenced);
	CLEAN(meta_check(wt.meta, &c));
	ck_assert_uint_eq(c.findings, 0);
	wt.other->kv = NULL;
	meta_close(wt.other);
	meta_close(wt.meta);
	store_close(wt.store);
	budget_free(wt.budget);
	text_done(&why);
	remove_all(wt.dir);
	remove_all(wt.rescued);
}

struct fs_name wt_name(const char *n)
{
	return (struct fs_name){ TESS_ROOT_INO, n, strlen(n) };
}

struct fs_file *wt_create(const char *n, struct meta_attr *a)
{
	struct fs_file *fh;

	CLEAN(fs_create(wt.fs, &wt.req, wt_name(n), 0644, O_RDWR, a, &fh));
	return fh;
}
