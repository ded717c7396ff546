/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_MARKER_H
#define STORE_MARKER_H
/*
 * A store behind a network remembers whose it is in one small object, so that two file systems
 * never share a bucket prefix, container or pool namespace: their garbage collectors would delete
 * each other's objects. Listings leave it out.
 */
#include "store/store.h"

/* No segment is named so: theirs are hexadecimal digits. */
#define STORE_MARKER "tessera-target"

/*
 * For open(), with the store ready for submits: with conf->create the place must hold no object, else
 * -EEXIST and a line that names one; then the marker is put. Without, it must be there and name
 * conf->fsid (0: any): -TESS_E_URI, `why` telling which of the two. The blocking calls end with `timeout` (ns).
 */
int store_marker_check(struct store *s, const struct store_conf *conf, int64_t timeout, struct text *why);
/* For unmake(): only one that names conf->fsid is removed. */
void store_marker_remove(struct store *s, const struct store_conf *conf, int64_t timeout);
static inline bool store_is_marker(const char *name)
{
	return __builtin_strcmp(name, STORE_MARKER) == 0;
}
#endif
