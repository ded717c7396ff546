/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes. A symlink's target is kept with them, under the empty name. */
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"
#include <sys/stat.h>
#include <sys/xattr.h>

int xattr_get(struct kv_txn *t, uint64_t ino, const char *name, struct kv_val *ret)
{
	struct fmt_key k;
	struct kv_val v;
	int err = kv_get(t, KV_XATTR, key_xattr(&k, ino, name, strlen(name)), &v);

	if (err)
		return err == -ENOENT ? -ENODATA : err;
	return codec_bytes_get(v, *name ? FMT_XATTR : FMT_SYMLINK, ret);
}

int xattr_put(struct kv_txn *t, uint64_t ino, const char *name, enum fmt_tag tag, struct kv_val val)
{
	uint8_t few[FMT_HEAD + 256];
	scoped_free uint8_t *many = NULL;
	uint8_t *buf = few;
	struct fmt_key k;

	if (val.n > sizeof(few) - FMT_HEAD)
		buf = many = mem_alloc(FMT_HEAD + val.n);
	if (!buf)
		return -ENOMEM;
	codec_head_put(buf, tag);
	if (val.n)
		memcpy(buf + FMT_HEAD, val.p, val.n);
	return kv_put(t, KV_XATTR, key_xattr(&k, ino, name, strlen(name)),
		      kv_val(buf, FMT_HEAD + val.n));
}

/* First name of ino's that is not below `from`; -ENODATA when there is none. */
static int xattr_first(struct kv_txn *t, uint64_t ino, const char *from, struct kv_val *ret_key)
{
	struct fmt_key k;
	struct kv_val v, key = key_xattr(&k, ino, from, strlen(from));
	int err = kv_seek(t, KV_XATTR, 1, &key, &v);

	if (err)
		return err == -ENOENT ? -ENODATA : err;
	if (key.n < 8 || fmt_be64_get(key.p) != ino)
		return -ENODATA;
	*ret_key = key;
	return 0;
}

int xattr_del(struct kv_txn *t, struct meta_attr *a, const char *name)
{
	struct fmt_key k;
	struct kv_val key;
	int err = kv_del(t, KV_XATTR, key_xattr(&k, a->ino, name, strlen(name)));

	if (err)
		return err == -ENOENT ? -ENODATA : err;
	err = xattr_first(t, a->ino, "\1", &key);
	if (err == -ENODATA) {
		a->flags &= ~(uint32_t)META_HAS_XATTR;
		return 0;
	}
	return err;
}

int xattr_drop_all(struct kv_txn *t, uint64_t ino, unsigned *budget)
{
	struct kv_val key;
	struct fmt_key k;
	int err = 0;

	while (*budget && !(err = xattr_first(t, ino, "", &key))) {
		if (key.n > sizeof(k.b))
			return -TESS_E_RECORD;
		memcpy(k.b, key.p, key.n);
		err = kv_del(t, KV_XATTR, kv_val(k.b, key.n));
		if (err)
			return err;
		--*budget;
	}
	return err == -ENODATA ? 0 : err;
}

struct xattr_op {
	struct meta *m;
	uint64_t ino;
	const char *name;
	const void *val;
	size_t n;
	int flags;
	int64_t now;
	char *ret;
	size_t cap, got;
};

static int xattr_name_check(const char *name)
{
	size_t n = strlen(name);

	return n == 0 || n > TESS_NAME_MAX ? -ERANGE : 0;
}

static int xattr_run_get(struct kv_txn *t, void *arg)
{
	struct xattr_op *o = arg;
	struct meta_attr a;
	struct kv_val v;
	int err = *o->name ? inode_get(t, o->ino, &a) : 0;

	if (!err)
		err = *o->name && !(a.flags & META_HAS_XATTR) ? -ENODATA
							      : xattr_get(t, o->ino, o->name, &v);
	if (err)
		return err;
	o->got = v.n;
	if (o->cap && v.n > o->cap)
		return -ERANGE;
	if (o->cap && v.n)
		memcpy(o->ret, v.p, v.n);
	return 0;
}

int meta_xattr_get(struct meta *m, uint64_t ino, const char *name, void *ret, size_t cap,
		   size_t *ret_len)
{
	struct xattr_op o = {.ino = ino, .name = name, .ret = ret, .cap = cap};
	int err = xattr_name_check(name);

	if (!err)
		err = kv_read(m->kv, xattr_run_get, &o);
	if (!err)
		*ret_len = o.got;
	return err;
}

int meta_readlink(struct meta *m, uint64_t ino, char *ret, size_t cap, size_t *ret_len)
{
	struct xattr_op o = {.ino = ino, .name = "", .ret = ret, .cap = cap};
	int err = kv_read(m->kv, xattr_run_get, &o);

	if (!err)
		*ret_len = o.got;
	return err == -ENODATA ? -EINVAL : err;
}

/*
 * The ACLs are attributes and more: the access ACL decides the mode's permission bits, is not kept
 * when those say the same, and a flag spares everybody else the look.
 */
static int xattr_acl(struct kv_txn *t, const struct xattr_op *o, struct meta_attr *a,
		     bool *ret_keep)
{
	bool dflt = strcmp(o->name, ACL_DEFAULT) == 0;
	uint32_t flag = dflt ? META_DFLT_ACL : META_HAS_ACL;
	int err = 0;

	if (!dflt && strcmp(o->name, ACL_ACCESS) != 0)
		return 0;
	if (S_ISLNK(a->mode))
		return -EOPNOTSUPP;
	if (dflt && !S_ISDIR(a->mode))
		return -EACCES;
	*ret_keep = o->n > ACL_BASE_LEN; /* no entry at all: remove */
	if (*ret_keep) {
		err = acl_check(o->val, o->n);
		if (!err && !dflt)
			*ret_keep = acl_to_mode(o->val, o->n, &a->mode);
	}
	if (err)
		return err;
	if (*ret_keep) {
		a->flags |= flag;
		return 0;
	}
	a->flags &= ~flag;
	err = xattr_del(t, a, o->name);
	return err == -ENODATA ? 0 : err;
}

static int xattr_run_set(struct kv_txn *t, void *arg)
{
	struct xattr_op *o = arg;
	struct meta_attr a;
	struct kv_val old;
	bool keep = true;
	int err = inode_get(t, o->ino, &a);

	if (!err && (a.flags & META_LAMINATED))
		err = -EPERM;
	if (err)
		return err;
	if (o->flags) {
		err = xattr_get(t, o->ino, o->name, &old);
		if (err && err != -ENODATA)
			return err;
		if (!err && (o->flags & XATTR_CREATE))
			return -EEXIST;
		if (err && (o->flags & XATTR_REPLACE))
			return -ENODATA;
	}
	err = xattr_acl(t, o, &a, &keep);
	if (err)
		return err;
	if (keep) {
		err = xattr_put(t, o->ino, o->name, FMT_XATTR, kv_val(o->val, o->n));
		if (err)
			return err;
		a.flags |= META_HAS_XATTR;
	}
	a.ctime = o->now;
	a.generation++;
	return inode_put(t, &a);
}

int meta_xattr_set(struct meta *m, uint64_t ino, const char *name, const void *val, size_t n,
		   int flags, int64_t now)
{
	struct xattr_op o = {
		.ino = ino, .name = name, .val = val, .n = n, .flags = flags, .now = now};
	int err = xattr_name_check(name);

	if (!err && n > FMT_XATTR_MAX)
		err = -E2BIG;
	return err ? err : meta_run(m, xattr_run_set, &o);
}

static int xattr_run_remove(struct kv_txn *t, void *arg)
{
	struct xattr_op *o = arg;
	struct meta_attr a;
	int err = inode_get(t, o->ino, &a);

	if (!err && (a.flags & META_LAMINATED))
		err = -EPERM;
	if (!err)
		err = xattr_del(t, &a, o->name);
	if (err)
		return err;
	if (strcmp(o->name, ACL_ACCESS) == 0)
		a.flags &= ~(uint32_t)META_HAS_ACL;
	if (strcmp(o->name, ACL_DEFAULT) == 0)
		a.flags &= ~(uint32_t)META_DFLT_ACL;
	a.ctime = o->now;
	a.generation++;
	return inode_put(t, &a);
}

int meta_xattr_remove(struct meta *m, uint64_t ino, const char *name, int64_t now)
{
	struct xattr_op o = {.ino = ino, .name = name, .now = now};
	int err = xattr_name_check(name);

	return err ? err : meta_run(m, xattr_run_remove, &o);
}

static int xattr_run_list(struct kv_txn *t, void *arg)
{
	struct xattr_op *o = arg;
	struct meta_attr a;
	struct kv_val key, v;
	int err = inode_get(t, o->ino, &a);

	if (err || !(a.flags & META_HAS_XATTR))
		return err;
	err = xattr_first(t, o->ino, "\1", &key);
	while (!err && key.n > 8 && fmt_be64_get(key.p) == o->ino) {
		size_t n = key.n - 8;

		if (o->cap && o->cap - o->got < n + 1)
			return -ERANGE;
		if (o->cap) {
			memcpy(o->ret + o->got, (const char *)key.p + 8, n);
			o->ret[o->got + n] = 0;
		}
		o->got += n + 1;
		err = kv_step(t, KV_XATTR, 1, &key, &v);
	}
	return err == -ENODATA ? 0 : absent_ok(err);
}

int meta_xattr_list(struct meta *m, uint64_t ino, char *ret, size_t cap, size_t *ret_len)
{
	struct xattr_op o = {.ino = ino, .ret = ret, .cap = cap};
	int err = kv_read(m->kv, xattr_run_list, &o);

	if (!err)
		*ret_len = o.got;
	return err;
}
