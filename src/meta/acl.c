/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX ACLs in the form that the kernel passes as an xattr: a little-endian version, then entries
 * of tag, permissions and id. They are edited in that form; the rules are those of acl(5) and of
 * IEEE 1003.1e draft 17, as Linux has them.
 */
#include "base/fault.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"
#include <sys/stat.h>

#define ACL_VERSION 2u
#define ACL_ENTRY   8u
enum {
	ACL_USER_OBJ = 1,
	ACL_USER = 2,
	ACL_GROUP_OBJ = 4,
	ACL_GROUP = 8,
	ACL_MASK = 16,
	ACL_OTHER = 32
};

static unsigned acl_count(size_t n)
{
	return (unsigned)((n - ACL_BASE_LEN) / ACL_ENTRY);
}

static uint8_t *acl_entry(void *acl, unsigned i)
{
	return (uint8_t *)acl + ACL_BASE_LEN + (size_t)i * ACL_ENTRY;
}

static unsigned acl_tag(const uint8_t *e)
{
	return e[0] | (unsigned)e[1] << 8;
}

static unsigned acl_perm(const uint8_t *e)
{
	return e[2] | (unsigned)e[3] << 8;
}

static void acl_set_perm(uint8_t *e, unsigned perm)
{
	e[2] = (uint8_t)(perm & 7);
	e[3] = 0;
}

/* Each tag in its place, the three base entries once, and a mask where a named entry needs one. */
int acl_check(const void *acl, size_t n)
{
	unsigned seen = 0, last = 0;
	uint32_t version;

	if (n < ACL_BASE_LEN || (n - ACL_BASE_LEN) % ACL_ENTRY)
		return -EINVAL;
	memcpy(&version, acl, sizeof(version));
	if (le32toh(version) != ACL_VERSION)
		return -EINVAL;
	for (unsigned i = 0; i < acl_count(n); i++) {
		const uint8_t *e = acl_entry((void *)(uintptr_t)acl, i);
		unsigned tag = acl_tag(e);
		bool many = tag == ACL_USER || tag == ACL_GROUP;

		if (acl_perm(e) > 7 || tag == 0 || tag > ACL_OTHER || (tag & (tag - 1)))
			return -EINVAL;
		if (tag < last || (tag == last && !many))
			return -EINVAL;
		seen |= tag;
		last = tag;
	}
	if ((seen & (ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER)) !=
	    (ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER))
		return -EINVAL;
	return (seen & (ACL_USER | ACL_GROUP)) && !(seen & ACL_MASK) ? -EINVAL : 0;
}

bool acl_to_mode(const void *acl, size_t n, uint32_t *mode)
{
	uint32_t bits = 0, group = 0, mask = 0;
	bool more = false, masked = false;

	for (unsigned i = 0; i < acl_count(n); i++) {
		const uint8_t *e = acl_entry((void *)(uintptr_t)acl, i);

		switch (acl_tag(e)) {
		case ACL_USER_OBJ:
			bits |= acl_perm(e) << 6;
			break;
		case ACL_GROUP_OBJ:
			group = acl_perm(e) << 3;
			break;
		case ACL_OTHER:
			bits |= acl_perm(e);
			break;
		case ACL_MASK:
			mask = acl_perm(e) << 3;
			masked = more = true;
			break;
		default:
			more = true;
		}
	}
	*mode = (*mode & ~0777u) | bits | (masked ? mask : group);
	return more;
}

/* The entry that the mode's group bits speak of: the mask where there is one. */
static uint8_t *acl_group_class(void *acl, size_t n)
{
	uint8_t *group = NULL;

	for (unsigned i = 0; i < acl_count(n); i++) {
		uint8_t *e = acl_entry(acl, i);

		if (acl_tag(e) == ACL_MASK)
			return e;
		if (acl_tag(e) == ACL_GROUP_OBJ)
			group = e;
	}
	return group;
}

void acl_from_mode(void *acl, size_t n, uint32_t mode)
{
	uint8_t *group = acl_group_class(acl, n);

	if (group)
		acl_set_perm(group, mode >> 3);
	for (unsigned i = 0; i < acl_count(n); i++) {
		uint8_t *e = acl_entry(acl, i);

		if (acl_tag(e) == ACL_USER_OBJ)
			acl_set_perm(e, mode >> 6);
		else if (acl_tag(e) == ACL_OTHER)
			acl_set_perm(e, mode);
	}
}

/* Entries and asked mode limit each other; the umask has no part in it. */
bool acl_for_new(void *acl, size_t n, uint32_t *mode)
{
	uint8_t *group = acl_group_class(acl, n);
	uint32_t had = 0;
	bool more = acl_to_mode(acl, n, &had);

	*mode &= ~0777u | had;
	for (unsigned i = 0; i < acl_count(n); i++) {
		uint8_t *e = acl_entry(acl, i);

		if (acl_tag(e) == ACL_USER_OBJ)
			acl_set_perm(e, *mode >> 6);
		else if (acl_tag(e) == ACL_OTHER)
			acl_set_perm(e, *mode);
		else if (e == group)
			acl_set_perm(e, *mode >> 3);
	}
	return more;
}

/* A copy that may be edited: what the engine lends may not, and ends with the next put. */
static int acl_load(struct kv_txn *t, uint64_t ino, const char *name, void **ret, size_t *ret_n)
{
	struct kv_val v;
	void *copy;
	int err = xattr_get(t, ino, name, &v);

	if (err)
		return err;
	if (acl_check(v.p, v.n))
		return -ENODATA; /* the checker tells; the mode alone then rules */
	copy = mem_alloc(v.n);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, v.p, v.n);
	*ret = copy;
	*ret_n = v.n;
	return 0;
}

int acl_chmod(struct kv_txn *t, const struct meta_attr *a)
{
	scoped_free void *acl = NULL;
	size_t n;
	int err;

	if (!(a->flags & META_HAS_ACL))
		return 0;
	err = acl_load(t, a->ino, ACL_ACCESS, &acl, &n);
	if (err)
		return err == -ENODATA ? 0 : err;
	acl_from_mode(acl, n, a->mode);
	return xattr_put(t, a->ino, ACL_ACCESS, FMT_XATTR, kv_val(acl, n));
}

int acl_inherit(struct kv_txn *t, const struct meta_attr *parent, struct meta_attr *a)
{
	scoped_free void *acl = NULL;
	size_t n;
	int err = acl_load(t, parent->ino, ACL_DEFAULT, &acl, &n);

	if (err)
		return err == -ENODATA ? 0 : err;
	if (S_ISDIR(a->mode)) {
		err = xattr_put(t, a->ino, ACL_DEFAULT, FMT_XATTR, kv_val(acl, n));
		if (err)
			return err;
		a->flags |= META_DFLT_ACL | META_HAS_XATTR;
	}
	if (!acl_for_new(acl, n, &a->mode))
		return 0;
	a->flags |= META_HAS_ACL | META_HAS_XATTR;
	return xattr_put(t, a->ino, ACL_ACCESS, FMT_XATTR, kv_val(acl, n));
}
