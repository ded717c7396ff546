/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_REF_H
#define TEST_REF_H
/*
 * The reference: a POSIX namespace in memory, as small as it can be. A call returns what the kernel
 * would put into errno, in the order in which Linux looks at things; 0 for success.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REF_NAMES 8
#define REF_DEPTH 3
#define REF_XATTRS 4
#define REF_VALUE 200
#define REF_TARGET 40

struct ref_xattr {
	bool    set;
	size_t  len;
	uint8_t value[REF_VALUE];
};
struct ref_node {
	uint32_t         mode, uid, gid, nlink;		/* with S_IFMT */
	uint64_t         ino;				/* as first seen; 0: not yet */
	unsigned         opens;
	struct ref_node *child[REF_NAMES], *parent;	/* directories */
	uint8_t         *data;
	size_t           size, cap;
	char             target[REF_TARGET];
	struct ref_xattr xattr[REF_XATTRS];
	int64_t          mtime;				/* ns; 0: not known exactly */
	bool             mapped;			/* written through a mapping and not yet synced */
};
struct ref_path {
	unsigned n;
	uint8_t  name[REF_DEPTH];
};

extern const char *const ref_name[REF_NAMES];

struct ref_node *ref_new(uint32_t mode);
void ref_put(struct ref_node *n);		/* frees it when no name and no handle is left */
void ref_free_tree(struct ref_node *root);
void ref_path_text(const char *base, const struct ref_path *p, char *ret, size_t cap);

/* The directory of the last component, and the node there or NULL. */
int ref_parent(struct ref_node *root, const struct ref_path *p, struct ref_node **ret);
int ref_find(struct ref_node *root, const struct ref_path *p, struct ref_node **ret);

int ref_create(struct ref_node *root, const struct ref_path *p, uint32_t mode, struct ref_node **ret);	/* exclusive */
int ref_unlink(struct ref_node *root, const struct ref_path *p);
int ref_rmdir(struct ref_node *root, const struct ref_path *p);
int ref_link(struct ref_node *root, const struct ref_path *from, const struct ref_path *to);
int ref_rename(struct ref_node *root, const struct ref_path *from, const struct ref_path *to, unsigned flags);

void ref_size(struct ref_node *n, size_t size);	/* cut or extend with zeros */
void ref_write(struct ref_node *n, const void *p, size_t off, size_t len);
void ref_zero(struct ref_node *n, size_t off, size_t len);	/* within the size */
uint32_t ref_nlink(const struct ref_node *n);
#endif
