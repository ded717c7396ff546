/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/admin.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "oclass/oclass.h"
#include "oclass/place.h"
#include "store/store.h"
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define ADMIN_PAGE 1000u	/* objects asked for at a time: the page of S3 and Swift */

struct store *admin_target(const struct admin *a, unsigned id)
{
	for (unsigned i = 0; i < a->ntargets; i++)
		if (a->targets[i].id == id)
			return a->targets[i].store;
	return NULL;
}

int admin_geo(const struct meta_segment *seg, struct oclass_geo *ret)
{
	struct oclass_geo g = { .width = seg->width, .cell = seg->cell, .len = seg->len };
	int err = oclass_from_id(seg->cls, &g.cls);

	if (!err)
		err = oclass_geo_check(&g);
	if (!err)
		*ret = g;
	return err;
}

int admin_staged_size(const struct admin *a, tess_segid id, uint64_t *ret)
{
	scoped_free char *path = mem_printf("%s/%016" PRIx64, a->staging, id);
	struct stat st;

	if (!path)
		return -ENOMEM;
	if (stat(path, &st) < 0)
		return -errno;
	*ret = (uint64_t)st.st_size;
	return 0;
}

int admin_staged_total(const struct admin *a, uint64_t *ret_files, uint64_t *ret_bytes)
{
	uint64_t files = 0, bytes = 0;
	DIR *d = opendir(a->staging);
	struct dirent *e;
	struct stat st;

	if (!d)
		return -errno;
	while ((e = readdir(d)))
		if (!fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode)) {
			files++;
			bytes += (uint64_t)st.st_size;
		}
	closedir(d);
	*ret_files = files;
	*ret_bytes = bytes;
	return 0;
}

static int admin_page(struct store *s, struct store_list *l)
{
	struct tess_req req;
	struct store_op op = { .req = &req, .code = STORE_LIST, .list = l };

	req_begin(&req, "list");
	l->max = ADMIN_PAGE;
	l->n = 0;
	l->more = false;
	return store_do(s, &op);
}

int admin_objects(struct store *s, int (*fn)(void *arg, const char *name, uint64_t size), void *arg)
{
	scoped_free struct tess_key *keys = mem_array(ADMIN_PAGE, sizeof(*keys));
	scoped_free struct tess_objinfo *infos = mem_array(ADMIN_PAGE, sizeof(*infos));
	struct store_list l = { .keys = keys, .infos = infos };
	int r;

	if (!keys || !infos)
		return -ENOMEM;
	do {
		r = admin_page(s, &l);
		for (unsigned i = 0; r == 0 && i < l.n; i++)
			r = fn(arg, keys[i].name, infos[i].size);
		if (l.n)
			l.after = keys[l.n - 1];
	} while (r == 0 && l.more && l.n);
	return r;
}
