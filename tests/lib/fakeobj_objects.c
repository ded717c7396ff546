/* SPDX-License-Identifier: Apache-2.0 */
/* The objects: an array sorted by name. Fast enough for the some ten thousand of a test. */
#include "fakeobj_int.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* Index of the first name >= `name`. */
static size_t place(const struct fakeobj *f, const char *name)
{
	size_t lo = 0, hi = f->nobjs;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (strcmp(f->objs[mid]->name, name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool is_at(const struct fakeobj *f, size_t i, const char *name)
{
	return i < f->nobjs && strcmp(f->objs[i]->name, name) == 0;
}

void fake_object_unref(struct object *o)
{
	if (!o || atomic_fetch_sub(&o->refs, 1) != 1)
		return;
	free(o->name);
	free(o);
}

static struct object *make(const char *name, const void *p, size_t n)
{
	struct object *o = malloc(sizeof(*o) + n + 1);
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned len = 0;

	if (!o)
		return NULL;
	atomic_init(&o->refs, 1);
	o->name = strdup(name);
	o->size = n;
	o->made = time(NULL);
	if (n > 0)
		memcpy(o->data, p, n);
	(void)EVP_Digest(o->data, n, md, &len, EVP_md5(), NULL);
	for (unsigned i = 0; i < 16; i++)
		(void)snprintf(o->md5 + 2 * i, 3, "%02x", md[i]);
	return o;
}

int fake_objects_put(struct fakeobj *f, const char *name, const void *p, size_t n, bool exclusive,
		char md5[FAKE_TAG])
{
	struct object *o = make(name, p, n), *old = NULL;
	int r = o ? 0 : -ENOMEM;
	size_t at;

	if (r < 0)
		return r;
	memcpy(md5, o->md5, FAKE_TAG);
	pthread_mutex_lock(&f->lock);
	at = place(f, name);
	if (is_at(f, at, name) && exclusive) {
		old = o;
		r = -EEXIST;
	} else if (is_at(f, at, name)) {
		old = f->objs[at];
		f->objs[at] = o;
		f->bytes += n - old->size;
	} else {
		if (f->nobjs == f->capobjs) {
			f->capobjs = f->capobjs ? 2 * f->capobjs : 256;
			f->objs = realloc(f->objs, f->capobjs * sizeof(f->objs[0]));
			if (!f->objs)
				abort();
		}
		memmove(f->objs + at + 1, f->objs + at, (f->nobjs - at) * sizeof(f->objs[0]));
		f->objs[at] = o;
		f->nobjs++;
		f->bytes += n;
	}
	pthread_mutex_unlock(&f->lock);
	fake_object_unref(old);
	return r;
}

void fake_objects_tag(struct fakeobj *f, const char *name, const char *tag)
{
	size_t at;

	pthread_mutex_lock(&f->lock);
	at = place(f, name);
	if (is_at(f, at, name))
		(void)snprintf(f->objs[at]->md5, FAKE_TAG, "%s", tag);
	pthread_mutex_unlock(&f->lock);
}

struct object *fake_objects_get(struct fakeobj *f, const char *name)
{
	struct object *o = NULL;
	size_t at;

	pthread_mutex_lock(&f->lock);
	at = place(f, name);
	if (is_at(f, at, name)) {
		o = f->objs[at];
		atomic_fetch_add(&o->refs, 1);
	}
	pthread_mutex_unlock(&f->lock);
	return o;
}

bool fake_objects_del(struct fakeobj *f, const char *name)
{
	struct object *old = NULL;
	size_t at;

	pthread_mutex_lock(&f->lock);
	at = place(f, name);
	if (is_at(f, at, name)) {
		old = f->objs[at];
		f->nobjs--;
		f->bytes -= old->size;
		memmove(f->objs + at, f->objs + at + 1, (f->nobjs - at) * sizeof(f->objs[0]));
	}
	pthread_mutex_unlock(&f->lock);
	fake_object_unref(old);
	return old != NULL;
}

size_t fake_objects_list(struct fakeobj *f, const char *prefix, const char *after,
			 struct object **ret, size_t max)
{
	size_t n = 0, len = strlen(prefix);

	pthread_mutex_lock(&f->lock);
	for (size_t i = place(f, strcmp(after, prefix) > 0 ? after : prefix);
	     i < f->nobjs && n < max && strncmp(f->objs[i]->name, prefix, len) == 0; i++) {
		if (strcmp(f->objs[i]->name, after) <= 0)
			continue;
		ret[n] = f->objs[i];
		atomic_fetch_add(&ret[n++]->refs, 1);
	}
	pthread_mutex_unlock(&f->lock);
	return n;
}

void fake_objects_clear(struct fakeobj *f)
{
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->nobjs; i++)
		fake_object_unref(f->objs[i]);
	f->nobjs = 0;
	f->bytes = 0;
	pthread_mutex_unlock(&f->lock);
}
