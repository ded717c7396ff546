/* SPDX-License-Identifier: Apache-2.0 */
#include "ref.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TEN   "0123456789"
#define FIFTY TEN TEN TEN TEN TEN
/* One of the greatest length and one that is no UTF-8. */
const char *const ref_name[REF_NAMES] = {
	"a", "b", "c", "d", "e", "f", FIFTY FIFTY FIFTY FIFTY FIFTY "12345", "\xff\x01 \xc3",
};

struct ref_node *ref_new(uint32_t mode)
{
	struct ref_node *n = calloc(1, sizeof(*n));

	if (!n)
		abort();
	n->mode = mode;
	return n;
}

void ref_put(struct ref_node *n)
{
	if (n->nlink || n->opens)
		return;
	free(n->data);
	free(n);
}

void ref_free_tree(struct ref_node *n)
{
	for (unsigned i = 0; i < REF_NAMES; i++)
		if (n->child[i])
			ref_free_tree(n->child[i]);
	if (n->nlink)
		n->nlink--;
	ref_put(n);
}

void ref_path_text(const char *base, const struct ref_path *p, char *ret, size_t cap)
{
	int at = snprintf(ret, cap, "%s", base);

	for (unsigned i = 0; i < p->n && (size_t)at < cap; i++)
		at += snprintf(ret + at, cap - (size_t)at, "/%s", ref_name[p->name[i]]);
}

int ref_parent(struct ref_node *root, const struct ref_path *p, struct ref_node **ret)
{
	struct ref_node *n = root;

	for (unsigned i = 0; i + 1 < p->n; i++) {
		n = n->child[p->name[i]];
		/* Symbolic links of this model lead nowhere. */
		if (!n || S_ISLNK(n->mode))
			return ENOENT;
		if (!S_ISDIR(n->mode))
			return ENOTDIR;
	}
	*ret = n;
	return 0;
}

int ref_find(struct ref_node *root, const struct ref_path *p, struct ref_node **ret)
{
	struct ref_node *dir;
	int e = ref_parent(root, p, &dir);

	if (e)
		return e;
	*ret = dir->child[p->name[p->n - 1]];
	return *ret ? 0 : ENOENT;
}

int ref_create(struct ref_node *root, const struct ref_path *p, uint32_t mode,
	       struct ref_node **ret)
{
	struct ref_node *dir;
	int e = ref_parent(root, p, &dir);

	if (e)
		return e;
	if (dir->child[p->name[p->n - 1]])
		return EEXIST;
	*ret = ref_new(mode);
	(*ret)->nlink = 1;
	(*ret)->parent = dir;
	dir->child[p->name[p->n - 1]] = *ret;
	dir->mtime = 0;
	return 0;
}

static bool empty(const struct ref_node *n)
{
	for (unsigned i = 0; i < REF_NAMES; i++)
		if (n->child[i])
			return false;
	return true;
}

static void take_out(struct ref_node *dir, unsigned name)
{
	struct ref_node *n = dir->child[name];

	dir->child[name] = NULL;
	dir->mtime = 0;
	if (!n)
		return;
	n->nlink--;
	ref_put(n);
}

int ref_unlink(struct ref_node *root, const struct ref_path *p)
{
	struct ref_node *dir, *n;
	int e = ref_find(root, p, &n);

	if (e)
		return e;
	if (S_ISDIR(n->mode))
		return EISDIR;
	if (ref_parent(root, p, &dir))
		return ENOENT;
	take_out(dir, p->name[p->n - 1]);
	return 0;
}

int ref_rmdir(struct ref_node *root, const struct ref_path *p)
{
	struct ref_node *dir, *n;
	int e = ref_find(root, p, &n);

	if (e)
		return e;
	if (!S_ISDIR(n->mode))
		return ENOTDIR;
	if (!empty(n))
		return ENOTEMPTY;
	if (ref_parent(root, p, &dir))
		return ENOENT;
	take_out(dir, p->name[p->n - 1]);
	return 0;
}

int ref_link(struct ref_node *root, const struct ref_path *from, const struct ref_path *to)
{
	struct ref_node *n, *dir;
	int e = ref_find(root, from, &n);

	if (!e)
		e = ref_parent(root, to, &dir);
	if (e)
		return e;
	if (dir->child[to->name[to->n - 1]])
		return EEXIST;
	if (S_ISDIR(n->mode))
		return EPERM;
	dir->child[to->name[to->n - 1]] = n;
	dir->mtime = 0;
	n->nlink++;
	return 0;
}

static bool inside(const struct ref_node *n, const struct ref_node *top)
{
	for (; n; n = n->parent)
		if (n == top)
			return true;
	return false;
}

static int may_replace(const struct ref_node *from, const struct ref_node *to)
{
	if (S_ISDIR(from->mode) && !S_ISDIR(to->mode))
		return ENOTDIR;
	if (!S_ISDIR(from->mode) && S_ISDIR(to->mode))
		return EISDIR;
	return S_ISDIR(to->mode) && !empty(to) ? ENOTEMPTY : 0;
}

int ref_rename(struct ref_node *root, const struct ref_path *from, const struct ref_path *to,
	       unsigned flags)
{
	unsigned a = from->name[from->n - 1], b = to->name[to->n - 1];
	struct ref_node *da, *db, *x, *y;
	int e = ref_parent(root, from, &da);

	if (!e)
		e = ref_parent(root, to, &db);
	if (e)
		return e;
	x = da->child[a];
	y = db->child[b];
	if (!x)
		return ENOENT;
	if (y && flags & RENAME_NOREPLACE)
		return EEXIST;
	if (!y && flags & RENAME_EXCHANGE)
		return ENOENT;
	if (da != db && inside(db, x))
		return EINVAL;
	if (da != db && y && inside(da, y))
		return flags & RENAME_EXCHANGE ? EINVAL : ENOTEMPTY;
	if (x == y)
		return 0;
	if (y && !(flags & RENAME_EXCHANGE)) {
		e = may_replace(x, y);
		if (e)
			return e;
		take_out(db, b);
		y = NULL;
	}
	da->child[a] = y;
	db->child[b] = x;
	x->parent = db;
	if (y)
		y->parent = da;
	da->mtime = db->mtime = 0;
	return 0;
}

void ref_size(struct ref_node *n, size_t size)
{
	if (size > n->cap) {
		n->cap = size + size / 2;
		n->data = realloc(n->data, n->cap);
		if (!n->data)
			abort();
	}
	if (size > n->size)
		memset(n->data + n->size, 0, size - n->size);
	n->size = size;
}

void ref_write(struct ref_node *n, const void *p, size_t off, size_t len)
{
	if (!len)
		return;
	if (off + len > n->size)
		ref_size(n, off + len);
	memcpy(n->data + off, p, len);
	n->mtime = 0;
}

void ref_zero(struct ref_node *n, size_t off, size_t len)
{
	n->mtime = 0;
	if (off >= n->size)
		return;
	memset(n->data + off, 0, len < n->size - off ? len : n->size - off);
}

uint32_t ref_nlink(const struct ref_node *n)
{
	uint32_t links = n->nlink;

	if (!S_ISDIR(n->mode))
		return links;
	links = 2;
	for (unsigned i = 0; i < REF_NAMES; i++)
		links += n->child[i] && S_ISDIR(n->child[i]->mode);
	return links;
}
