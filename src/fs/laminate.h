/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_LAMINATE_H
#define FS_LAMINATE_H
/*
 * Laminated files and directories never change again, so what was read of them once is remembered and
 * the namespace is not asked again; files of mode laminate are their writer's alone until then. Not
 * for other layers.
 */
#include "fs/state.h"

struct laminate;
int  laminate_start(struct fs *fs);
void laminate_stop(struct fs *fs); /* also after a start that failed */

/* meta_getattr() and meta_lookup(), from memory where that cannot be old. */
int laminate_getattr(struct fs *fs, uint64_t ino, struct meta_attr *ret);
int laminate_lookup(struct fs *fs, struct fs_name n, struct meta_attr *ret);
/* What a listing said; epoch: laminate_epoch() before it was asked. */
uint64_t laminate_epoch(const struct fs *fs);
void laminate_seen(struct fs *fs, uint64_t epoch, const struct meta_attr *a);
/* It changed after all: a link came or went, it was undone, here or elsewhere. */
void laminate_changed(struct fs *fs, uint64_t ino);
/* Everything; fn (may be NULL) is told of each inode. */
void laminate_forget(struct fs *fs, void (*fn)(void *arg, uint64_t ino), void *arg);

/* A directory whose names are known to be frozen; no question asked. */
bool laminate_frozen(const struct fs *fs, uint64_t dir);
bool laminate_bare(const struct fs *fs, uint64_t ino); /* known to have no extended attribute */
/* True from the second open on: the kernel's pages are of what is laminated. */
bool laminate_opened(struct fs *fs, uint64_t ino);

/* What a new file gets whose directory makes its mode laminate. */
void laminate_new(const struct fs *fs, struct meta_new *in);
/*
 * May it be opened, or cut, `write`? Takes over what a session that is gone left hidden. *ret_blind: it is
 * another's, who writes it: nothing is in it yet. -EPERM, -EBUSY.
 */
int laminate_open(struct fs *fs, bool write, struct meta_attr *inout, bool *ret_blind);
/* Of a file that is another's, who writes it, nothing is seen. */
int laminate_mask(struct fs *fs, struct meta_attr *inout);
/* 1: this change of mode laminated it; 0: it is any other. */
int laminate_chmod(struct fs *fs, struct tess_req *req, uint64_t ino, uint32_t mode);
/* Of the extended attribute tessera.laminated. */
int laminate_set(struct fs *fs, struct tess_req *req, uint64_t ino, const void *val, size_t n);
#endif
