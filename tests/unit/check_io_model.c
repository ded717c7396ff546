/* SPDX-License-Identifier: Apache-2.0 */
/* layer: io. Random operations on a few files, compared with the same on byte arrays. */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "iotest.h"
#include "unit.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define FILES 3u
#define SPAN  (768u << 10)

static const struct config {
	const char *name;
	bool        lmdb;
	const char *uri, *cls;
	uint16_t    mapper;
	uint32_t    segment;
	unsigned    ops;
} configs[] = {
	{ "mem", false, "mem:", "S1", 1, 64 << 10, 6000 },
	{ "balanced", false, "mem:", "S2", 2, 64 << 10, 3000 },
	{ "naive", false, "mem:", "S1", 3, 1 << 20, 1500 },
	{ "late", false, "mem:?latency=1ms", "S2", 1, 128 << 10, 400 },
	{ "disk", true, "kv:@?size=256M", "S2", 1, 256 << 10, 500 },
};

static struct iotest t;
static const struct config *cfg;
static struct {
	struct io_file *f;
	uint8_t        *bytes;		/* SPAN */
	uint8_t        *data;		/* 1 where not a hole; loosely: blocks of published padding may be data too */
	uint64_t        size;
} file[FILES];

static uint64_t seed;
static uint32_t rnd(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)((seed >> 33) % below);
}

static void must(int e, const char *what)
{
	if (e < 0)
		ck_abort_msg("%s: %s: %s", cfg->name, what, err_text(e));
}

static void set_layout(unsigned i)
{
	struct meta_attr a;

	must(meta_getattr(t.meta, iotest_ino(&t, i), &a), "getattr");
	a.layout.mapper = cfg->mapper;
	io_file_layout_set(file[i].f, &a.layout);
}

static void open_all(void)
{
	for (unsigned i = 0; i < FILES; i++) {
		file[i].f = iotest_file(&t, i);
		set_layout(i);
	}
}

static void close_all(void)
{
	for (unsigned i = 0; i < FILES; i++)
		io_file_close(file[i].f, false);
}

static void op_write(unsigned i)
{
	static uint8_t p[SPAN];
	uint32_t off = rnd(SPAN), len = 1 + (rnd(10) ? rnd(9000) : rnd(300000)), v = rnd(256);

	if (rnd(2))
		off &= ~4095u, len = (len + 4095) & ~4095u;
	if (rnd(4) == 0 && file[i].size < SPAN)
		off = (uint32_t)file[i].size;
	if (len > SPAN - off)
		len = SPAN - off;
	for (uint32_t k = 0; k < len; k++)
		p[k] = (uint8_t)(v + k * 13 + 1);
	must(io_write(file[i].f, &t.req, off, p, len), "write");
	memcpy(file[i].bytes + off, p, len);
	memset(file[i].data + off, 1, len);
	if (off + len > file[i].size)
		file[i].size = off + len;
}

static void op_read(unsigned i)
{
	static uint8_t p[SPAN];
	uint32_t off = rnd(SPAN), len = 1 + (rnd(4) ? rnd(20000) : rnd(SPAN));
	uint64_t want = off < file[i].size ? file[i].size - off : 0;
	ssize_t n = io_read_sync(file[i].f, &t.req, off, p, len);

	if (want > len)
		want = len;
	must((int)(n < 0 ? n : 0), "read");
	ck_assert_uint_eq((uint64_t)n, want);
	for (uint64_t k = 0; k < want; k++)
		if (p[k] != file[i].bytes[off + k])
			ck_abort_msg("%s: f%u byte %llu is %02x, not %02x", cfg->name, i,
				     (unsigned long long)(off + k), p[k], file[i].bytes[off + k]);
}

static void op_truncate(unsigned i)
{
	uint64_t size = rnd(SPAN);

	must(io_truncate(file[i].f, &t.req, size, clock_wall()), "truncate");
	if (size < file[i].size) {
		memset(file[i].bytes + size, 0, SPAN - size);
		memset(file[i].data + size, 0, SPAN - size);
	}
	file[i].size = size;
}

static void op_punch(unsigned i)
{
	uint32_t off = rnd(SPAN), len = 1 + rnd(100000);

	if (rnd(2))
		off &= ~4095u, len = (len + 4095) & ~4095u;
	if (len > SPAN - off)
		len = SPAN - off;
	must(io_punch(file[i].f, &t.req, (struct tess_range){ off, len }, clock_wall()), "punch");
	memset(file[i].bytes + off, 0, len);
	memset(file[i].data + off, 0, len);
}

static void op_sync(unsigned i)
{
	struct meta_attr a;

	must(io_sync_file(file[i].f, &t.req, rnd(4) ? IO_PUBLISH : IO_DURABLE), "sync");
	must(meta_getattr(t.meta, iotest_ino(&t, i), &a), "getattr");
	ck_assert_uint_eq(a.size, file[i].size);
	ck_assert(!io_file_dirty(file[i].f));
}

static void op_clone(unsigned i)
{
	unsigned j = (i + 1) % FILES;
	uint32_t from = rnd(SPAN / 4096) * 4096, to = rnd(SPAN / 4096) * 4096, len = 4096 * (1 + rnd(40));
	struct meta_attr a;

	if (from >= file[i].size)
		return;
	if (len > file[i].size - from)
		len = (uint32_t)(file[i].size - from);
	if (len > SPAN - to)
		len = SPAN - to;
	must(io_clone(file[i].f, from, file[j].f, to, len, &t.req, clock_wall(), &a), "clone");
	memcpy(file[j].bytes + to, file[i].bytes + from, len);
	memcpy(file[j].data + to, file[i].data + from, len);
	if (to + len > file[j].size)
		file[j].size = to + len;
	ck_assert_uint_eq(a.size, file[j].size);
}

static void op_seek(unsigned i)
{
	uint64_t off = rnd(SPAN), at, want = off;
	bool data = rnd(2);
	int e = io_seek(file[i].f, off, data, &at);

	if (off >= file[i].size) {
		ck_assert_int_eq(e, -ENXIO);
		return;
	}
	while (want < file[i].size && (file[i].data[want] != 0) != data)
		want++;
	if (data && want >= file[i].size) {
		ck_assert_int_eq(e, -ENXIO);
		return;
	}
	must(e, "seek");
	if (at != want)
		ck_abort_msg("%s: f%u seek %s from %llu: %llu, not %llu", cfg->name, i, data ? "data" : "hole",
			     (unsigned long long)off, (unsigned long long)at, (unsigned long long)want);
}

static void op_reopen(void)
{
	close_all();
	if (rnd(3) == 0) {
		must(iotest_close(&t, rnd(2)), "close");
		iotest_open(&t);
	}
	open_all();
}

static void one_op(void)
{
	unsigned i = rnd(FILES), what = rnd(100);

	if (what < 45)
		op_write(i);
	else if (what < 75)
		op_read(i);
	else if (what < 80)
		op_truncate(i);
	else if (what < 85)
		op_punch(i);
	else if (what < 92)
		op_sync(i);
	else if (what < 95)
		op_clone(i);
	else if (what < 99)
		op_seek(i);
	else
		op_reopen();
}

START_TEST(random_operations_equal_byte_arrays)
{
	const char *s = getenv("IO_SEED"), *factor = getenv("IO_OPS");

	cfg = &configs[_i];
	seed = s ? strtoull(s, NULL, 10) : 88172645463325252u + (unsigned)_i;
	iotest_init(&t);
	t.lmdb = cfg->lmdb;
	t.uri = cfg->uri;
	t.cls = cfg->cls;
	t.segment = cfg->segment;
	t.conf.idle_seal = 20 * NS_PER_MS;
	t.conf.commit_interval = 30 * NS_PER_MS;
	t.conf.direct_min = 16 << 10;
	iotest_open(&t);
	for (unsigned i = 0; i < FILES; i++) {
		file[i].bytes = calloc(1, SPAN);
		file[i].data = calloc(1, SPAN);
		ck_assert(file[i].bytes && file[i].data);
	}
	open_all();
	for (unsigned n = 0; n < cfg->ops * (factor ? (unsigned)strtoul(factor, NULL, 10) : 1); n++)
		one_op();
	close_all();
	must(iotest_close(&t, true), "close");
	iotest_open(&t);
	ck_assert_int_eq(iotest_check(&t), 0);
	open_all();
	for (unsigned i = 0; i < FILES; i++)
		for (unsigned n = 0; n < 5; n++)
			op_read(i);
	close_all();
	iotest_done(&t);
	for (unsigned i = 0; i < FILES; i++) {
		free(file[i].bytes);
		free(file[i].data);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("io_model");
	TCase *c = tcase_create("model");

	tcase_set_timeout(c, 300);
	tcase_add_loop_test(c, random_operations_equal_byte_arrays, 0,
			    sizeof(configs) / sizeof(configs[0]));
	suite_add_tcase(s, c);
	return unit_run(s);
}
