/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer: io. Every allocation, and every point where kv, store or io may fail, fails in turn. A call
 * that failed said so; what it did not say was lost is there; and once nothing fails any more,
 * everything can be synced, drained and checked.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "iotest.h"
#include "unit.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SIZE 200000u
#define ROUNDS 400u		/* later hits are the same calls again */

static struct iotest t;
static uint8_t model[SIZE], small[3000];
static size_t model_len;

static void fill(uint8_t *p, size_t n, unsigned what)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(what + i * 31 + (i >> 12));
}

/* A write that failed changed nothing. */
static void put(struct io_file *f, uint64_t off, size_t n, unsigned what)
{
	static uint8_t p[SIZE];

	fill(p, n, what);
	if (io_write(f, &t.req, off, p, n) < 0)
		return;
	memcpy(model + off, p, n);
	if (off + n > model_len)
		model_len = off + n;
}

static void same(struct io_file *f, bool must)
{
	static uint8_t p[SIZE];
	ssize_t n = io_read_sync(f, &t.req, 0, p, sizeof(p));

	if (n < 0 && !must)
		return;
	if (n < 0)
		ck_abort_msg("read: %s", err_text((int)n));
	ck_assert_uint_eq((size_t)n, model_len);
	for (size_t i = 0; i < model_len; i++)
		if (p[i] != model[i])
			ck_abort_msg("byte %zu of %zu is %02x, not %02x", i, model_len, p[i], model[i]);
}

static void begin(void)
{
	struct io_file *f;

	iotest_init(&t);
	t.conf.idle_seal = 3600 * NS_PER_S;
	t.conf.commit_interval = 3600 * NS_PER_S;
	iotest_open(&t);
	model_len = 0;
	memset(model, 0, sizeof(model));
	f = iotest_file(&t, 1);
	put(f, 0, 150000, 1);
	CLEAN(io_sync_file(f, &t.req, IO_DURABLE));
	io_file_close(f, false);
	(void)iotest_ino(&t, 2);
}

/* *ret: f2 was synced, so it must stay. */
static void scenario(struct io_file *f, struct io_file *g, bool *ret)
{
	put(f, 10000, 90000, 2);
	same(f, false);
	(void)io_sync_file(f, &t.req, IO_PUBLISH);
	if (io_truncate(f, &t.req, 120000, 1) == 0) {
		memset(model + 120000, 0, SIZE - 120000);
		model_len = 120000;
	}
	if (io_punch(f, &t.req, (struct tess_range){ 5000, 20000 }, 1) == 0)
		memset(model + 5000, 0, 20000);
	put(f, 119000, 3000, 3);
	*ret = io_write(g, &t.req, 0, small, sizeof(small)) == 0 &&
	       io_sync_file(g, &t.req, IO_DURABLE) == 0;
	same(f, false);
	(void)io_sync_file(f, &t.req, IO_DURABLE);
	(void)io_sync_all(t.io, &t.req);
	same(f, false);
}

static uint64_t round_with(const char *point, unsigned nth, const char *err)
{
	uint8_t p[sizeof(small)];
	struct io_file *f, *g;
	bool synced = false;
	char spec[64];
	uint64_t hits;

	begin();
	f = iotest_file(&t, 1);
	g = iotest_file(&t, 2);
	snprintf(spec, sizeof(spec), "%s@%u=%s", point, nth, err);
	CLEAN(fault_set(spec));
	scenario(f, g, &synced);
	hits = fault_hits(point);
	CLEAN(fault_set(NULL));
	CLEAN(io_sync_file(f, &t.req, IO_DURABLE));
	same(f, true);
	if (synced) {
		ck_assert_int_eq(io_read_sync(g, &t.req, 0, p, sizeof(p)), sizeof(p));
		ck_assert(memcmp(p, small, sizeof(p)) == 0);
	}
	io_file_close(f, false);
	io_file_close(g, false);
	CLEAN(iotest_close(&t, true));
	iotest_open(&t);
	f = iotest_file(&t, 1);
	same(f, true);
	io_file_close(f, false);
	CLEAN(iotest_check(&t));
	iotest_done(&t);
	return hits;
}

static const struct {
	const char *point, *err;
} points[] = {
	{ "alloc", "ENOMEM" },	  { "kv.get", "EIO" },	     { "kv.put", "EIO" },
	{ "kv.commit", "ENOSPC" }, { "kv.seek", "EIO" },      { "kv.sync", "EIO" },
	{ "store.put", "EIO" },	  { "store.get", "EIO" },    { "store.del", "EIO" },
	{ "stage.append", "EIO" }, { "stage.seal.put", "EIO" }, { "stage.seal.commit", "EIO" },
	{ "io.flush.put", "ENOSPC" }, { "io.flush.commit", "EIO" }, { "io.sync", "EIO" },
};

START_TEST(every_failure_is_told_and_nothing_else_is_lost)
{
	uint64_t hits = 1;
	unsigned n;

	fill(small, sizeof(small), 9);
	for (n = 1; n <= hits && n <= ROUNDS; n++)
		hits = round_with(points[_i].point, n, points[_i].err);
	printf("%s: %u of %llu\n", points[_i].point, n - 1, (unsigned long long)hits);
}
END_TEST

START_TEST(every_failure_to_open_leaves_nothing_behind)
{
	struct io_conf c;
	int e = -1;

	iotest_init(&t);
	iotest_open(&t);
	c = t.conf;
	(void)iotest_close(&t, true);
	for (unsigned n = 1; e < 0; n++) {
		struct io_target targets[IOTEST_TARGETS];
		char spec[32], dir[96];
		struct io *io = NULL;

		for (unsigned i = 0; i < IOTEST_TARGETS; i++)
			targets[i] = (struct io_target){ .id = (uint16_t)i, .store = t.store[i], .weight = 1 };
		c.targets = targets;
		snprintf(dir, sizeof(dir), "%s/staging", t.dir);
		c.staging_dir = dir;
		snprintf(spec, sizeof(spec), "%s@%u=ENOMEM", _i ? "thread" : "alloc", n);
		CLEAN(fault_set(spec));
		e = io_open(&io, &c, NULL);
		CLEAN(fault_set(NULL));
		if (e == 0)
			CLEAN(io_close(io, true, NULL));
		ck_assert_uint_lt(n, 1000);
	}
	iotest_open(&t);
	iotest_done(&t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("io_fault");
	TCase *c = tcase_create("fault");

	tcase_set_timeout(c, 300);
	tcase_add_loop_test(c, every_failure_is_told_and_nothing_else_is_lost, 0,
			    sizeof(points) / sizeof(points[0]));
	tcase_add_loop_test(c, every_failure_to_open_leaves_nothing_behind, 0, 2);
	suite_add_tcase(s, c);
	return unit_run(s);
}
