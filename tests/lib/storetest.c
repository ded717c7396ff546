/* SPDX-License-Identifier: Apache-2.0 */
#include "storetest.h"

#include "base/err.h"
#include "base/htab.h"
#include "base/text.h"

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define STORETEST_FSID 7u

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	(void)type;
	(void)f;
	return remove(path);
}

bool storetest_remote(const struct storetest *t)
{
	return strstr(t->uri, "://") != NULL;
}

static char *place_of_its_own(const char *uri)
{
	static unsigned serial;
	size_t n = strcspn(uri, "?");
	const char *place = strstr(uri, "://") + 3;
	bool bare = !memchr(place, '/', n - (size_t)(place - uri));
	char *ret;

	ck_assert_int_ge(asprintf(&ret, "%.*s%cc%d.%u%s", (int)n, uri, bare ? '/' : '-', getpid(),
				  serial++, uri + n),
			 0);
	return ret;
}

void storetest_init(struct storetest *t, const char *uri_template)
{
	const char *tmp = getenv("TMPDIR"), *at = strchr(uri_template, '@');

	memset(t, 0, sizeof(*t));
	ck_assert_int_lt(snprintf(t->dir, sizeof(t->dir), "%s/store-XXXXXX", tmp ? tmp : "/tmp"),
			 (int)sizeof(t->dir));
	ck_assert_ptr_nonnull(mkdtemp(t->dir));
	if (at)
		ck_assert_int_ge(asprintf(&t->uri, "%.*s%s%s", (int)(at - uri_template),
					  uri_template, t->dir, at + 1),
				 0);
	else if (strstr(uri_template, "://"))
		t->uri = place_of_its_own(uri_template);
	else
		t->uri = strdup(uri_template);
	ck_assert_ptr_nonnull(t->uri);
	req_begin(&t->req, "test");
	t->req.deadline = INT64_MAX;
}

void storetest_done(struct storetest *t)
{
	if (storetest_remote(t)) {
		if (t->s)
			(void)storetest_objects(t, true);
		storetest_close(t);
		store_unmake_uri(t->uri, STORETEST_FSID);
	}
	storetest_close(t);
	(void)nftw(t->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(t->uri);
	t->uri = NULL;
}

int storetest_try(struct storetest *t, bool create, const char *boot, char **ret_why)
{
	struct store_open_opts o = { .create = create, .fsid = STORETEST_FSID, .label = "t0", .boot_id = boot };
	struct text why = TEXT_INIT;
	int r = store_open_uri(&t->s, t->uri, &o, &why);

	if (ret_why)
		*ret_why = text_steal(&why);
	else if (r < 0)
		printf("%s: %s: %s\n", t->uri, err_text(r), text_str(&why));
	text_done(&why);
	if (r < 0)
		t->s = NULL;
	return r;
}

void storetest_open(struct storetest *t, bool create, const char *boot)
{
	ck_assert_int_eq(storetest_try(t, create, boot, NULL), 0);
}

void storetest_close(struct storetest *t)
{
	store_close(t->s);
	t->s = NULL;
}

static uint64_t word_of(const char *name, uint64_t i)
{
	return hash64(hash_bytes(name, strlen(name), 1) + i);
}

void storetest_fill(void *p, size_t n, const char *name, uint64_t off)
{
	unsigned char *to = p;
	uint64_t base = hash_bytes(name, strlen(name), 1), w = 0;

	for (size_t i = 0; i < n; i++, off++) {
		if (i == 0 || off % 8 == 0)
			w = hash64(base + off / 8);
		to[i] = (unsigned char)(w >> (off % 8 * 8));
	}
}

bool storetest_same(const void *p, size_t n, const char *name, uint64_t off)
{
	const unsigned char *at = p;
	uint64_t w = 0;

	for (size_t i = 0; i < n; i++, off++) {
		if (i == 0 || off % 8 == 0)
			w = word_of(name, off / 8);
		if (at[i] != (unsigned char)(w >> (off % 8 * 8)))
			return false;
	}
	return true;
}

int storetest_put(struct storetest *t, const char *name, size_t n)
{
	char *p = aligned_alloc(4096, (n + 4096) / 4096 * 4096);
	int r;

	ck_assert_ptr_nonnull(p);
	storetest_fill(p, n, name, 0);
	r = store_put(t->s, &t->req, name, p, n);
	free(p);
	return r;
}

int storetest_verify(struct storetest *t, const char *name, size_t n)
{
	char *p = aligned_alloc(4096, (n + 4096) / 4096 * 4096);
	struct tess_objinfo info = { 0 };
	int r;

	ck_assert_ptr_nonnull(p);
	memset(p, 0x5a, n);
	r = store_head(t->s, &t->req, name, &info);
	if (r == 0 && info.size != n)
		r = 1;
	if (r == 0)
		r = store_get(t->s, &t->req, name, 0, p, n);
	if (r == 0 && !storetest_same(p, n, name, 0))
		r = 1;
	free(p);
	return r;
}

uint64_t storetest_objects(struct storetest *t, bool del)
{
	static struct tess_key keys[1000];
	static struct tess_objinfo infos[1000];
	struct tess_key last = { "" };
	uint64_t n = 0;

	for (bool more = true; more;) {
		struct store_list l = { .after = last, .max = 1000, .keys = keys, .infos = infos };
		struct store_op op = { .req = &t->req, .code = STORE_LIST, .list = &l };

		ck_assert_int_eq(store_do(t->s, &op), 0);
		for (unsigned i = 0; i < l.n && del; i++)
			ck_assert_int_eq(store_del(t->s, &t->req, keys[i].name), 0);
		if (l.n)
			last = keys[l.n - 1];
		n += l.n;
		more = l.more;
	}
	return n;
}

int storetest_defects(struct storetest *t)
{
	struct text out = TEXT_INIT;
	int n = store_check(t->s, &out);

	if (n)
		printf("%s: %d defects\n%s", t->uri, n, text_str(&out));
	text_done(&out);
	return n;
}
