/* SPDX-License-Identifier: Apache-2.0 */
#include "metatest.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "meta/meta_impl.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct meta *mt, *mt_s[MT_SESSIONS];
char mt_dir[256];
static uint64_t rnd_state = 88172645463325252;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void clean(int err)
{
	ck_assert_msg(err == 0, "%s", err_name(err));
}

void mt_open(int engine)
{
	static struct meta_super super = {.fsid = 4711, .label = "test", .layout = {1, 1, 4 << 20}};
	const char *tmp = getenv("TESS_TMP");
	struct kv_conf c = {.dir = mt_dir, .create = true, .map_size = 1 << 20};
	struct text why = TEXT_INIT;
	struct kv *kv;

	snprintf(mt_dir, sizeof(mt_dir), "%s/meta.XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(mt_dir));
	clean((engine ? kv_lmdb_open : kv_mem_open)(&kv, &c, NULL));
	clean(meta_format(kv, &super, NULL, NOW));
	clean(meta_open(&mt, kv, &why));
	clean(meta_session_begin(mt, "/mnt", NOW, &why));
	memset(mt_s, 0, sizeof(mt_s));
	mt_s[0] = mt;
}

void mt_join(unsigned s)
{
	if (!mt_s[s])
		clean(meta_open(&mt_s[s], meta_kv(mt), NULL));
	clean(meta_session_begin(mt_s[s], "/mnt2", NOW, NULL));
}

void mt_leave(unsigned s)
{
	clean(meta_session_end(mt_s[s]));
}

void mt_leave_others(void)
{
	for (unsigned s = 1; s < MT_SESSIONS; s++) {
		if (!mt_s[s])
			continue;
		mt_leave(s);
		mt_s[s]->kv = NULL;
		meta_close(mt_s[s]);
		mt_s[s] = NULL;
	}
}

bool mt_in(unsigned s)
{
	return mt_s[s] && meta_session_id(mt_s[s]);
}

bool mt_alone(void)
{
	for (unsigned s = 1; s < MT_SESSIONS; s++)
		if (mt_in(s))
			return false;
	return true;
}

static void tell(void *arg, const struct meta_finding *f)
{
	if (!*(bool *)arg)
		printf("finding: %s ino %llu seg %llx: %s\n", f->what, (unsigned long long)f->ino,
		       (unsigned long long)f->seg, f->text);
}

int mt_check(bool repair)
{
	struct meta_check c = {.repair = repair, .fn = tell, .arg = &repair};

	clean(meta_check(mt, &c));
	return (int)c.findings;
}

void mt_close(void)
{
	(void)fault_set(NULL);
	mt_leave_others();
	ck_assert_int_eq(mt_check(false), 0);
	meta_close(mt);
	(void)nftw(mt_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void mt_rnd_seed(uint64_t seed)
{
	rnd_state = seed * 2 + 1;
}

uint64_t mt_rnd(uint64_t n)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state % n;
}

static int make(uint64_t dir, const char *name, uint32_t mode, uint64_t *ret)
{
	struct meta_new in = {
		.mode = mode, .uid = 10, .gid = 20, .symlink = "target", .symlink_len = 6};
	struct meta_attr a;
	int err = meta_create(mt, dir, name, strlen(name), &in, NOW, &a);

	if (!err)
		*ret = a.ino;
	return err;
}

int mt_try_make(uint64_t dir, const char *name, uint32_t mode)
{
	uint64_t ino;

	return make(dir, name, mode, &ino);
}

uint64_t mt_make(uint64_t dir, const char *name, uint32_t mode)
{
	uint64_t ino = 0;

	clean(make(dir, name, mode, &ino));
	return ino;
}

uint64_t mt_find(uint64_t dir, const char *name)
{
	struct meta_attr a;
	int err = meta_lookup(mt, dir, name, strlen(name), &a);

	if (err == -ENOENT)
		return 0;
	clean(err);
	return a.ino;
}

struct meta_attr mt_attr(uint64_t ino)
{
	struct meta_attr a;

	clean(meta_getattr(mt, ino, &a));
	return a;
}

int mt_unlink(uint64_t dir, const char *name, struct meta_gone *gone)
{
	return meta_unlink(mt, dir, name, strlen(name), NOW + 1, gone);
}

int mt_rmdir(uint64_t dir, const char *name)
{
	return meta_rmdir(mt, dir, name, strlen(name), NOW + 1, NULL);
}

int mt_rename(uint64_t from_dir, const char *from, uint64_t to_dir, const char *to, unsigned flags)
{
	struct meta_rename r = {from_dir, to_dir, from, to, strlen(from), strlen(to), flags};

	return meta_rename(mt, &r, NOW + 2, NULL);
}

void mt_reclaim_all(void)
{
	uint64_t inos[64];
	unsigned n;
	bool more;

	for (;;) {
		clean(meta_orphans(mt, 0, inos, 64, &n));
		if (!n)
			return;
		do
			clean(meta_reclaim(mt, inos, n, 7, NOW, &more));
		while (more);
	}
}

int mt_publish(uint64_t ino, uint64_t off, uint64_t len, tess_segid *ret_seg)
{
	uint32_t blocks = (uint32_t)((len + TESS_BLOCK - 1) / TESS_BLOCK);
	uint32_t *csums = calloc(blocks + 1, sizeof(*csums));
	struct meta_new_segment s = {{.id = meta_segment_new(mt),
				      .cls = 1,
				      .state = META_DURABLE,
				      .width = 1,
				      .len = len,
				      .owner = ino},
				     csums,
				     blocks};
	struct tess_extent x = {.off = off, .len = len, .seg = s.seg.id};
	struct meta_publish p = {.trunc_to = META_NO_TRUNC,
				 .size = off + len,
				 .ext = &x,
				 .next = 1,
				 .segs = &s,
				 .nsegs = 1,
				 .mtime = NOW + 3};
	int err = meta_publish(mt, ino, &p, NULL);

	free(csums);
	if (ret_seg)
		*ret_seg = s.seg.id;
	return err;
}
