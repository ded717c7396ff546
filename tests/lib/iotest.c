/* SPDX-License-Identifier: Apache-2.0 */
#include "iotest.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "oclass/oclass.h"

#include <check.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	(void)type;
	(void)f;
	return remove(path);
}

void iotest_init(struct iotest *t)
{
	const char *tmp = getenv("TMPDIR");

	memset(t, 0, sizeof(*t));
	t->uri = "mem:";
	t->cls = "S1";
	t->segment = 64 << 10;
	t->limit = 64 << 20;
	t->conf.staging_size = 64 << 20;
	t->conf.fsync_local = true;
	ck_assert_int_lt(snprintf(t->dir, sizeof(t->dir), "%s/io-XXXXXX", tmp ? tmp : "/tmp"),
			 (int)sizeof(t->dir));
	ck_assert_ptr_nonnull(mkdtemp(t->dir));
	req_begin(&t->req, "test");
	t->req.deadline = CLOCK_NEVER;
}

static const char *path_of(const struct iotest *t, const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", t->dir, name);
	return path;
}

static int before_sync(void *arg, uint64_t serial)
{
	struct iotest *t = arg;

	return t->io ? io_before_sync(t->io, serial) : 0;
}

static void open_stores(struct iotest *t)
{
	struct text why = TEXT_INIT;

	for (unsigned i = 0; i < IOTEST_TARGETS; i++) {
		struct store_open_opts o = { .create = !t->formatted, .fsid = 1, .label = "t" };
		const char *at = strchr(t->uri, '@');
		char uri[256];
		int e;

		if (t->store[i])
			continue;
		if (at)
			snprintf(uri, sizeof(uri), "%.*s%s/target%u%s", (int)(at - t->uri), t->uri,
				 t->dir, i, at + 1);
		else
			snprintf(uri, sizeof(uri), "%s", t->uri);
		e = store_open_uri(&t->store[i], uri, &o, &why);
		if (e < 0)
			ck_abort_msg("%s: %s: %s", uri, err_text(e), text_str(&why));
	}
	text_done(&why);
}

static void format(struct iotest *t)
{
	struct meta_super s = { .format = 1, .fsid = 1, .label = "test", .ntargets = IOTEST_TARGETS };
	struct oclass c;

	ck_assert_int_eq(oclass_parse(t->cls, &c, NULL), 0);
	s.layout = (struct meta_layout){ .cls = c.id, .mapper = 1, .segment_size = t->segment };
	for (unsigned i = 0; i < IOTEST_TARGETS; i++) {
		s.targets[i].id = (uint16_t)i;
		snprintf(s.targets[i].uri, sizeof(s.targets[i].uri), "mem:");
	}
	ck_assert_int_eq(meta_format(t->kv, &s, &t->req, 1), 0);
}

static void open_meta(struct iotest *t)
{
	struct kv_conf c = { .dir = t->dir, .create = !t->formatted, .before_sync = before_sync,
			     .arg = t };
	struct text why = TEXT_INIT;
	int e;

	if (t->meta)
		return;
	e = t->lmdb ? kv_lmdb_open(&t->kv, &c, &why) : kv_mem_open(&t->kv, &c, &why);
	if (e == 0 && !t->formatted)
		format(t);
	if (e == 0)
		e = meta_open(&t->meta, t->kv, &why);
	if (e == 0)
		e = meta_session_begin(t->meta, "/test", clock_wall(), &why);
	if (e < 0)
		ck_abort_msg("namespace: %s: %s", err_text(e), text_str(&why));
	text_done(&why);
}

void iotest_open(struct iotest *t)
{
	struct io_target targets[IOTEST_TARGETS];
	static char staging[128];

	snprintf(staging, sizeof(staging), "%s", path_of(t, "staging"));
	(void)mkdir(staging, 0700);
	open_stores(t);
	open_meta(t);
	t->formatted = true;
	if (!t->budget)
		ck_assert_int_eq(budget_new(&t->budget, t->limit), 0);
	for (unsigned i = 0; i < IOTEST_TARGETS; i++)
		targets[i] = (struct io_target){ .id = (uint16_t)i, .store = t->store[i], .weight = 1,
						   .tiers = t->tiers[i] };
	t->conf.meta = t->meta;
	t->conf.budget = t->budget;
	t->conf.targets = targets;
	t->conf.ntargets = IOTEST_TARGETS;
	t->conf.staging_dir = staging;
	ck_assert_int_eq(io_open(&t->io, &t->conf, NULL), 0);
}

static void close_meta(struct iotest *t)
{
	(void)kv_sync(meta_kv(t->meta));
	meta_close(t->meta);
	t->meta = NULL;
}

int iotest_close(struct iotest *t, bool drain)
{
	struct text why = TEXT_INIT;
	struct io *io = t->io;
	int e = io_close(io, drain, &why);

	t->io = NULL;
	if (e < 0)
		printf("io_close: %s: %s\n", err_text(e), text_str(&why));
	text_done(&why);
	if (t->lmdb) {
		if (drain && e == 0)
			ck_assert_int_eq(meta_session_end(t->meta), 0);
		close_meta(t);
	}
	for (unsigned i = 0; strchr(t->uri, '@') && i < IOTEST_TARGETS; i++) {
		store_close(t->store[i]);
		t->store[i] = NULL;
	}
	return e;
}

void iotest_done(struct iotest *t)
{
	(void)fault_set(NULL);
	if (t->io)
		(void)iotest_close(t, true);
	if (t->meta)
		close_meta(t);
	for (unsigned i = 0; i < IOTEST_TARGETS; i++)
		store_close(t->store[i]);
	ck_assert_uint_eq(budget_used(t->budget, MEM_DIRTY), 0);
	ck_assert_uint_eq(budget_used(t->budget, MEM_IO), 0);
	ck_assert_uint_eq(budget_used(t->budget, MEM_CACHE), 0);
	budget_free(t->budget);
	(void)nftw(t->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int find(struct iotest *t, unsigned n, struct meta_attr *a)
{
	struct meta_new in = { .mode = S_IFREG | 0644 };
	char name[16];
	int e;

	snprintf(name, sizeof(name), "f%u", n);
	e = meta_create(t->meta, TESS_ROOT_INO, name, strlen(name), &in, clock_wall(), a);
	if (e == -EEXIST)
		e = meta_lookup(t->meta, TESS_ROOT_INO, name, strlen(name), a);
	return e;
}

struct io_file *iotest_file(struct iotest *t, unsigned n)
{
	struct io_file *f = NULL;
	struct meta_attr a;
	int e = find(t, n, &a);

	if (e == 0)
		e = io_file_open(t->io, &a, &f);
	if (e < 0)
		ck_abort_msg("f%u: %s", n, err_text(e));
	return f;
}

uint64_t iotest_ino(struct iotest *t, unsigned n)
{
	struct meta_attr a;

	ck_assert_int_eq(find(t, n, &a), 0);
	return a.ino;
}

uint64_t iotest_counter(struct iotest *t, const char *name)
{
	struct text out = TEXT_INIT;
	char key[64];
	const char *at;
	uint64_t n = 0;

	io_to_text(t->io, &out);
	snprintf(key, sizeof(key), "\n%s: ", name);
	at = strstr(text_str(&out), key);
	ck_assert_ptr_nonnull(at);
	n = strtoull(at + strlen(key), NULL, 10);
	text_done(&out);
	return n;
}

unsigned iotest_objects(struct iotest *t)
{
	static struct tess_key keys[65536];
	static struct tess_objinfo infos[65536];
	unsigned n = 0;

	for (unsigned i = 0; i < IOTEST_TARGETS; i++) {
		struct store_list l = { .max = 65536, .keys = keys, .infos = infos };
		struct store_op op = { .req = &t->req, .code = STORE_LIST, .list = &l };

		ck_assert_int_eq(store_do(t->store[i], &op), 0);
		n += l.n;
	}
	return n;
}

unsigned iotest_staging(struct iotest *t)
{
	DIR *d = opendir(path_of(t, "staging"));
	struct dirent *x;
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	while ((x = readdir(d)))
		n += x->d_name[0] != '.';
	closedir(d);
	return n;
}

static void finding(void *arg, const struct meta_finding *f)
{
	(void)arg;
	printf("check: %s: ino %llu seg %016llx: %s\n", f->what, (unsigned long long)f->ino,
	       (unsigned long long)f->seg, f->text);
}

int iotest_check(struct iotest *t)
{
	struct meta_check c = { .fn = finding };
	int e = meta_check(t->meta, &c);

	return e < 0 ? e : (int)c.findings;
}

void iotest_fill(void *p, size_t n, unsigned what)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = (uint8_t)(what + i * 31 + (i >> 12));
}

char *iotest_bytes(size_t n, unsigned what)
{
	char *p = malloc(n);

	ck_assert_ptr_nonnull(p);
	iotest_fill(p, n, what);
	return p;
}

void iotest_write(struct iotest *t, struct io_file *f, uint64_t off, size_t n, unsigned what)
{
	char *p = iotest_bytes(n, what);
	int e = io_write(f, &t->req, off, p, n);

	free(p);
	ck_assert_int_eq(e, 0);
}

void iotest_expect(struct iotest *t, struct io_file *f, uint64_t off, size_t n, unsigned what)
{
	char *p = iotest_bytes(n, what), *q = malloc(n);
	ssize_t got = io_read_sync(f, &t->req, off, q, n);

	if (got != (ssize_t)n)
		ck_abort_msg("read %zu at %llu: %zd (%s)", n, (unsigned long long)off, got,
			     got < 0 ? err_text((int)got) : "short");
	ck_assert(memcmp(p, q, n) == 0);
	free(p);
	free(q);
}

int iotest_publish(struct iotest *t, struct io_file *f)
{
	return io_sync_file(f, &t->req, IO_PUBLISH);
}

void iotest_put_small(struct iotest *t, unsigned n, size_t size)
{
	struct io_file *f = iotest_file(t, n);

	iotest_write(t, f, 0, size, n);
	io_file_close(f, false);
}

void iotest_expect_small(struct iotest *t, unsigned n, size_t size)
{
	struct io_file *f = iotest_file(t, n);

	iotest_expect(t, f, 0, size, n);
	io_file_close(f, false);
}

void iotest_until_zero(struct iotest *t, unsigned (*fn)(struct iotest *))
{
	for (unsigned i = 0; fn(t) != 0; i++) {
		ck_assert_uint_lt(i, 3000);
		clock_sleep(10 * NS_PER_MS);
	}
}
