/* SPDX-License-Identifier: Apache-2.0 */
/* layer: meta */
/* Extended attributes, ACLs, and the super record. */
#include "../lib/metatest.h"
#include "base/err.h"
#include "base/text.h"
#include "meta/codec.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define R	TESS_ROOT_INO
#define F	(S_IFREG | 0644)
#define D	(S_IFDIR | 0755)
#define ACCESS	"system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"

static int set(uint64_t ino, const char *name, const char *val)
{
	return meta_xattr_set(mt, ino, name, val, strlen(val), 0, NOW + 9);
}

static int get(uint64_t ino, const char *name, char buf[64])
{
	size_t n;
	int err = meta_xattr_get(mt, ino, name, buf, 63, &n);

	if (!err)
		buf[n] = 0;
	return err;
}

START_TEST(attributes_are_kept_by_name)
{
	char buf[64];
	size_t n;
	uint64_t f, g;

	mt_open(_i);
	f = mt_make(R, "f", F);
	g = mt_make(R, "g", F);
	ck_assert_int_eq(get(f, "user.a", buf), -ENODATA);
	CLEAN(set(f, "user.a", "one"));
	CLEAN(set(f, "user.ab", ""));
	CLEAN(set(g, "user.a", "other"));
	CLEAN(set(f, "user.a", "two"));
	CLEAN(get(f, "user.a", buf));
	ck_assert_str_eq(buf, "two");
	CLEAN(get(f, "user.ab", buf));
	ck_assert_str_eq(buf, "");
	ck_assert_int_eq(meta_xattr_get(mt, f, "user.a", buf, 2, &n), -ERANGE);
	CLEAN(meta_xattr_get(mt, f, "user.a", NULL, 0, &n));
	ck_assert_uint_eq(n, 3);
	CLEAN(meta_xattr_list(mt, f, buf, sizeof(buf), &n));
	ck_assert(n == 15 && memcmp(buf, "user.a\0user.ab", 15) == 0);
	ck_assert_int_eq(meta_xattr_list(mt, f, buf, 14, &n), -ERANGE);
	CLEAN(meta_xattr_list(mt, f, NULL, 0, &n));
	ck_assert_uint_eq(n, 15);
	CLEAN(meta_xattr_remove(mt, f, "user.a", NOW));
	ck_assert_int_eq(meta_xattr_remove(mt, f, "user.a", NOW), -ENODATA);
	ck_assert_uint_eq(mt_attr(f).flags, META_HAS_XATTR);
	CLEAN(meta_xattr_remove(mt, f, "user.ab", NOW));
	ck_assert_uint_eq(mt_attr(f).flags, 0);
	CLEAN(get(g, "user.a", buf));
	ck_assert_str_eq(buf, "other");
	mt_close();
}
END_TEST

START_TEST(create_and_replace_are_told_apart)
{
	static char big[65537], name[300];
	uint64_t f;
	size_t n;

	mt_open(_i);
	f = mt_make(R, "f", F);
	ck_assert_int_eq(meta_xattr_set(mt, f, "user.a", "x", 1, XATTR_REPLACE, NOW), -ENODATA);
	CLEAN(meta_xattr_set(mt, f, "user.a", "x", 1, XATTR_CREATE, NOW));
	ck_assert_int_eq(meta_xattr_set(mt, f, "user.a", "y", 1, XATTR_CREATE, NOW), -EEXIST);
	CLEAN(meta_xattr_set(mt, f, "user.a", "y", 1, XATTR_REPLACE, NOW));
	CLEAN(meta_xattr_set(mt, f, "user.big", big, 65536, 0, NOW));
	CLEAN(meta_xattr_get(mt, f, "user.big", NULL, 0, &n));
	ck_assert_uint_eq(n, 65536);
	ck_assert_int_eq(meta_xattr_set(mt, f, "user.big", big, 65537, 0, NOW), -E2BIG);
	memset(name, 'n', 256);
	ck_assert_int_eq(set(f, name, "x"), -ERANGE);
	ck_assert_int_eq(set(f, "", "x"), -ERANGE);
	ck_assert_int_eq(set(999, "user.a", "x"), -TESS_E_STALE);
	CLEAN(mt_unlink(R, "f", NULL));
	mt_reclaim_all();
	mt_close();
}
END_TEST

START_TEST(a_write_takes_capabilities_away)
{
	struct meta_publish p = {
		.trunc_to = META_NO_TRUNC, .size = 10, .mtime = 5, .kill_priv = true};
	struct meta_attr in = {.mode = 06755}, a;
	char buf[64];
	uint64_t f;

	mt_open(_i);
	f = mt_make(R, "f", F);
	CLEAN(meta_setattr(mt, f, META_SET_MODE, &in, 1, &a));
	CLEAN(set(f, "security.capability", "all"));
	CLEAN(set(f, "user.keep", "me"));
	CLEAN(meta_publish(mt, f, &p, &a));
	ck_assert_uint_eq(a.mode, S_IFREG | 0755);
	ck_assert_int_eq(get(f, "security.capability", buf), -ENODATA);
	CLEAN(get(f, "user.keep", buf));
	mt_close();
}
END_TEST

/* ---- ACLs ---- */

struct acl {
	uint32_t version;
	struct {
		uint16_t tag, perm;
		uint32_t id;
	} e[8];
};
#define ACL_LEN(n) (4 + (size_t)(n)*8)
enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHER = 32 };

static const struct acl named = {
	2, {{USER_OBJ, 7, 0}, {USER, 6, 1000}, {GROUP_OBJ, 5, 0}, {MASK, 6, 0}, {OTHER, 1, 0}}};
static const struct acl base = {2, {{USER_OBJ, 6, 0}, {GROUP_OBJ, 4, 0}, {OTHER, 2, 0}}};

static int set_acl(uint64_t ino, const char *name, const struct acl *a, unsigned n)
{
	return meta_xattr_set(mt, ino, name, a, ACL_LEN(n), 0, NOW);
}

static unsigned perm_of(uint64_t ino, const char *name, unsigned tag)
{
	struct acl a;
	size_t n;

	CLEAN(meta_xattr_get(mt, ino, name, &a, sizeof(a), &n));
	for (unsigned i = 0; i < (n - 4) / 8; i++)
		if (a.e[i].tag == tag)
			return a.e[i].perm;
	return 99;
}

START_TEST(an_acl_and_the_mode_agree)
{
	struct meta_attr in = {.mode = 0640}, a;
	char buf[64];
	uint64_t f;

	mt_open(_i);
	f = mt_make(R, "f", F);
	CLEAN(set_acl(f, ACCESS, &named, 5));
	ck_assert_uint_eq(mt_attr(f).mode, S_IFREG | 0761); /* the mask is the group's */
	ck_assert(mt_attr(f).flags & META_HAS_ACL);
	CLEAN(meta_setattr(mt, f, META_SET_MODE, &in, 1, &a));
	ck_assert_uint_eq(perm_of(f, ACCESS, USER_OBJ), 6);
	ck_assert_uint_eq(perm_of(f, ACCESS, MASK), 4);
	ck_assert_uint_eq(perm_of(f, ACCESS, GROUP_OBJ), 5);
	ck_assert_uint_eq(perm_of(f, ACCESS, USER), 6);
	ck_assert_uint_eq(perm_of(f, ACCESS, OTHER), 0);
	/* What the mode says alone is not kept. */
	CLEAN(set_acl(f, ACCESS, &base, 3));
	ck_assert_uint_eq(mt_attr(f).mode, S_IFREG | 0642);
	ck_assert_int_eq(get(f, ACCESS, buf), -ENODATA);
	ck_assert_uint_eq(mt_attr(f).flags, 0);
	CLEAN(set_acl(f, ACCESS, &named, 5));
	CLEAN(meta_xattr_remove(mt, f, ACCESS, NOW));
	ck_assert_uint_eq(mt_attr(f).flags, 0);
	ck_assert_int_eq(set_acl(f, DEFAULT, &named, 5), -EACCES);
	mt_close();
}
END_TEST

START_TEST(new_entries_inherit_the_default_acl)
{
	struct meta_new in = {.mode = S_IFREG | 0666, .umask = 0777};
	struct meta_attr a, d;
	uint64_t dir;
	char buf[64];

	mt_open(_i);
	dir = mt_make(R, "d", D);
	CLEAN(set_acl(dir, DEFAULT, &named, 5));
	ck_assert_uint_eq(mt_attr(dir).mode, D);
	CLEAN(meta_create(mt, dir, "f", 1, &in, NOW, &a));
	/* 0666 limited by rwx, the mask rw, and x for others: the umask has no say. */
	ck_assert_uint_eq(a.mode, S_IFREG | 0660);
	ck_assert_uint_eq(perm_of(a.ino, ACCESS, MASK), 6);
	ck_assert_uint_eq(perm_of(a.ino, ACCESS, USER_OBJ), 6);
	ck_assert_uint_eq(perm_of(a.ino, ACCESS, OTHER), 0);
	ck_assert_int_eq(get(a.ino, DEFAULT, buf), -ENODATA);
	in.mode = S_IFDIR | 0777;
	CLEAN(meta_create(mt, dir, "sub", 3, &in, NOW, &d));
	ck_assert_uint_eq(d.mode, S_IFDIR | 0761);
	ck_assert(d.flags & META_DFLT_ACL);
	ck_assert_uint_eq(perm_of(d.ino, DEFAULT, OTHER), 1);
	/* Base entries alone shape the mode and are not kept on the file. */
	CLEAN(set_acl(dir, DEFAULT, &base, 3));
	in.mode = S_IFREG | 0777;
	CLEAN(meta_create(mt, dir, "g", 1, &in, NOW, &a));
	ck_assert_uint_eq(a.mode, S_IFREG | 0642);
	ck_assert_uint_eq(a.flags, 0);
	CLEAN(meta_xattr_set(mt, dir, DEFAULT, &base, 4, 0, NOW)); /* no entries: none */
	ck_assert_uint_eq(mt_attr(dir).flags, 0);
	mt_close();
}
END_TEST

static const struct {
	struct acl a;
	unsigned n;
} bad_acls[] = {
	{{1, {{USER_OBJ, 7, 0}, {GROUP_OBJ, 5, 0}, {OTHER, 0, 0}}}, 3},
	{{2, {{USER_OBJ, 7, 0}, {GROUP_OBJ, 5, 0}}}, 2},
	{{2, {{GROUP_OBJ, 7, 0}, {USER_OBJ, 5, 0}, {OTHER, 0, 0}}}, 3},
	{{2, {{USER_OBJ, 7, 0}, {USER, 7, 1}, {GROUP_OBJ, 5, 0}, {OTHER, 0, 0}}}, 4},
	{{2, {{USER_OBJ, 8, 0}, {GROUP_OBJ, 5, 0}, {OTHER, 0, 0}}}, 3},
	{{2, {{USER_OBJ, 7, 0}, {GROUP_OBJ, 5, 0}, {3, 0, 0}}}, 3},
	{{2, {{USER_OBJ, 7, 0}, {USER_OBJ, 7, 0}, {GROUP_OBJ, 5, 0}, {OTHER, 0, 0}}}, 4},
};

START_TEST(malformed_acls_are_refused)
{
	uint64_t f;

	mt_open(0);
	f = mt_make(R, "f", F);
	ck_assert_int_eq(set_acl(f, ACCESS, &bad_acls[_i].a, bad_acls[_i].n), -EINVAL);
	ck_assert_int_eq(meta_xattr_set(mt, f, ACCESS, &named, ACL_LEN(5) - 1, 0, NOW), -EINVAL);
	ck_assert_uint_eq(mt_attr(f).mode, F);
	mt_close();
}
END_TEST

/* ---- the super record ---- */

struct raw {
	const void *p;
	size_t n;
};

static int put_super(struct kv_txn *t, void *arg)
{
	const struct raw *r = arg;

	return kv_put(t, KV_SUPER, kv_val("super", 5), kv_val(r->p, r->n));
}

static void refuse(struct kv *kv, int err, const char *says)
{
	struct text why = TEXT_INIT;
	struct meta *m;

	ck_assert_int_eq(meta_open(&m, kv, &why), err);
	ck_assert_msg(strstr(text_str(&why), says) != NULL, "%s", text_str(&why));
	ck_assert_ptr_null(strchr(text_str(&why), '\n'));
	text_done(&why);
}

START_TEST(a_bad_super_record_gets_one_clear_line)
{
	static struct meta_super s = {.format = FMT_VERSION + 1};
	struct raw r = {"junk", 4};
	struct kv *kv;
	size_t n;

	CLEAN(kv_mem_open(&kv, NULL, NULL));
	refuse(kv, -TESS_E_FORMAT_MAGIC, "not a Tessera");
	CLEAN(kv_run(kv, put_super, &r, NULL));
	refuse(kv, -TESS_E_FORMAT_MAGIC, "not a Tessera");
	uint8_t *buf = codec_super_put(&s, &n);

	r = (struct raw){buf, n};
	CLEAN(kv_run(kv, put_super, &r, NULL));
	refuse(kv, -TESS_E_FORMAT_NEWER, "newer");
	free(buf);
	s.format = FMT_VERSION;
	buf = codec_super_put(&s, &n);
	buf[n - 9] ^= 1;
	r = (struct raw){buf, n};
	CLEAN(kv_run(kv, put_super, &r, NULL));
	refuse(kv, -TESS_E_RECORD, "corrupt");
	free(buf);
	kv_close(kv);
}
END_TEST

START_TEST(the_super_record_is_made_once_and_changed)
{
	static struct meta_super s;
	struct kv *kv;

	mt_open(_i);
	kv = meta_kv(mt);
	ck_assert_int_eq(meta_format(kv, meta_super(mt), NULL, NOW), -EEXIST);
	s = *meta_super(mt);
	const struct meta_super *old = meta_super(mt);

	memcpy(s.label, "new", 4);
	s.ntargets = 1;
	memcpy(s.targets[0].uri, "mem:", 5);
	s.fsid++; /* names are hashed with it: never changes */
	CLEAN(meta_super_update(mt, &s));
	ck_assert_str_eq(meta_super(mt)->label, "new");
	ck_assert_str_eq(old->label, "test"); /* lent until close */
	ck_assert_uint_eq(meta_super(mt)->fsid, old->fsid);
	mt_close();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("meta_xattr");
	TCase *c = tcase_create("xattr");

	suite_add_tcase(s, c);
	tcase_add_loop_test(c, attributes_are_kept_by_name, 0, 2);
	tcase_add_loop_test(c, create_and_replace_are_told_apart, 0, 2);
	tcase_add_loop_test(c, a_write_takes_capabilities_away, 0, 2);
	tcase_add_loop_test(c, an_acl_and_the_mode_agree, 0, 2);
	tcase_add_loop_test(c, new_entries_inherit_the_default_acl, 0, 2);
	tcase_add_loop_test(c, malformed_acls_are_refused, 0,
			    (int)(sizeof(bad_acls) / sizeof(bad_acls[0])));
	tcase_add_test(c, a_bad_super_record_gets_one_clear_line);
	tcase_add_loop_test(c, the_super_record_is_made_once_and_changed, 0, 2);
	return unit_run(s);
}
