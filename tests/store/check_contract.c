/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/*
 * The contract of src/store/store.h, run against every store and every decorator. A row below is
 * all that a new store needs to be held to it; one that needs a server is named in the environment:
 * TESS_STORE_URIS holds target URIs, separated by white space, and only these are tested, each
 * time in a place of its own below the one that is named.
 */
#include "store/store.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/text.h"
#include "storetest.h"
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const char *const local_stacks[] = {
	"mem:?size=64M",
	"kv:@/dev?size=64M",
	"kv:@/dev?size=64M&direct=0",
	"kv:@/dev?size=64M&inline=0&trace=0",
	"mem:?size=64M&limit=1",
	"kv:@/dev?size=64M&limit=auto",
	"kv:@/dev?size=64M&limit=2",
	"mem:?size=64M&latency=1ms&rate=4G",
	"kv:@/dev?size=64M&latency=1ms",
	"mem:?size=64M&retry=3&deadline=60s",
	"kv:@/dev?size=64M&retry=3",
	"mem:?size=64M&fault=any:nth=1000000:EIO",
	"kv:@/dev?size=64M&fault=any:nth=1000000:delay=1ms",
	"mem:?size=64M&fault=any:every=5:busy&retry=20",
	"kv:@/dev?size=64M&fault=any:every=7:delay=1ms&latency=1ms&limit=3&retry=9&deadline=60s",
};

static const char *const *stacks = local_stacks;
static size_t nstacks = ARRAY_SIZE(local_stacks);
static struct storetest t;

static void begin(int i)
{
	storetest_init(&t, stacks[i]);
	storetest_open(&t, true, NULL);
}

/* Whatever was done, the store's bookkeeping agrees with itself. */
static void end(void)
{
	ck_assert_int_eq(storetest_defects(&t), 0);
	storetest_done(&t);
}

/* By listing them. A local store knows the number as well, at once. */
static uint64_t objects(void)
{
	uint64_t n = storetest_objects(&t, false);
	struct store_usage u;

	CLEAN(store_usage(t.s, &u));
	if (!storetest_remote(&t))
		ck_assert_uint_eq(u.objects, n);
	return n;
}

static bool is_volatile(void)
{
	return t.s->caps.flags & STORE_VOLATILE;
}

START_TEST(test_what_was_put_is_got_whatever_its_size)
{
	static const size_t sizes[] = {0, 1, 511, 4095, 4096, 4097, 65536, 1 << 20, (4 << 20) + 1};
	char name[32], part[100];

	begin(_i);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		(void)snprintf(name, sizeof(name), "o%zu", i);
		CLEAN(storetest_put(&t, name, sizes[i]));
		CLEAN(storetest_verify(&t, name, sizes[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		(void)snprintf(name, sizeof(name), "o%zu", i);
		CLEAN(storetest_verify(&t, name, sizes[i]));
		for (size_t off = 0; off + sizeof(part) <= sizes[i]; off = off * 3 + 1777) {
			CLEAN(store_get(t.s, &t.req, name, off, part, sizeof(part)));
			ck_assert(storetest_same(part, sizeof(part), name, off));
		}
	}
	end();
}
END_TEST

/* Pieces of p[0, n): odd lengths when `odd`, else pages. */
static unsigned cut(char *p, size_t n, bool odd, struct iovec *v, unsigned max)
{
	size_t at = 0;
	unsigned i = 0;

	for (; at < n; i++) {
		size_t len = odd ? 1 + (size_t)i * 997 % 47008 : 4096 * (1 + i % 5);

		ck_assert_uint_lt(i, max);
		v[i].iov_base = p + at;
		v[i].iov_len = MIN(len, n - at);
		at += v[i].iov_len;
	}
	return i;
}

static void scattered(bool odd, size_t n, const char *name)
{
	char *p = aligned_alloc(4096, (n + 8191) / 4096 * 4096);
	static struct iovec v[2048];
	struct store_op op = { .req = &t.req, .code = STORE_PUT, .data = { .iov = v, .len = n } };

	storetest_fill(p, n, name, 0);
	op.data.n = cut(p, n, odd, v, 2048);
	CLEAN(store_key_set(&op.key, name));
	CLEAN(store_do(t.s, &op));
	memset(p, 0, n);
	op.code = STORE_GET;
	op.range.len = n;
	CLEAN(store_do(t.s, &op));
	ck_assert(storetest_same(p, n, name, 0));
	ck_assert_uint_eq(op.info.size, n);
	/* From the middle of a block into memory that is aligned, and the other way round. */
	memset(p, 0, n);
	op.range.off = n / 3;
	op.range.len = op.data.len = n - n / 3;
	op.data.n = cut(p, op.data.len, odd, v, 2048);
	CLEAN(store_do(t.s, &op));
	ck_assert(storetest_same(p, n - n / 3, name, n / 3));
	free(p);
}

START_TEST(test_scattered_memory_is_one_object)
{
	begin(_i);
	scattered(true, 3000000, "odd");
	scattered(false, 3 << 20, "pages");
	scattered(false, (3 << 20) + 77, "tail");
	scattered(true, 4000, "small");
	scattered(false, 8192, "two-pages");
	end();
}
END_TEST

START_TEST(test_a_range_past_the_end_is_a_short_body)
{
	char p[4096];

	begin(_i);
	CLEAN(storetest_put(&t, "big", 10000));
	CLEAN(storetest_put(&t, "small", 100));
	ck_assert_int_eq(store_get(t.s, &t.req, "big", 9999, p, 2), -TESS_E_SHORT_BODY);
	ck_assert_int_eq(store_get(t.s, &t.req, "big", 1 << 20, p, 1), -TESS_E_SHORT_BODY);
	ck_assert_int_eq(store_get(t.s, &t.req, "small", 100, p, 1), -TESS_E_SHORT_BODY);
	ck_assert_int_eq(store_get(t.s, &t.req, "small", 0, p, 101), -TESS_E_SHORT_BODY);
	CLEAN(store_get(t.s, &t.req, "big", 9999, p, 1));
	ck_assert(storetest_same(p, 1, "big", 9999));
	end();
}
END_TEST

START_TEST(test_what_is_missing_is_enoent_and_deleting_it_succeeds)
{
	struct tess_objinfo info;
	char p[10];

	begin(_i);
	ck_assert_int_eq(store_get(t.s, &t.req, "no", 0, p, 10), -ENOENT);
	ck_assert_int_eq(store_head(t.s, &t.req, "no", &info), -ENOENT);
	CLEAN(store_del(t.s, &t.req, "no"));
	CLEAN(storetest_put(&t, "yes", 5000));
	CLEAN(store_del(t.s, &t.req, "yes"));
	ck_assert_int_eq(store_get(t.s, &t.req, "yes", 0, p, 10), -ENOENT);
	ck_assert_int_eq(store_head(t.s, &t.req, "yes", &info), -ENOENT);
	CLEAN(store_del(t.s, &t.req, "yes"));
	end();
}
END_TEST

START_TEST(test_a_second_put_of_a_name_is_allowed)
{
	begin(_i);
	for (unsigned i = 0; i < 20; i++) {
		CLEAN(storetest_put(&t, "again", 100000));
		CLEAN(storetest_put(&t, "small", 1000));
	}
	CLEAN(storetest_verify(&t, "again", 100000));
	CLEAN(storetest_verify(&t, "small", 1000));
	ck_assert_uint_eq(objects(), 2);
	end();
}
END_TEST

START_TEST(test_a_listing_is_in_order_and_complete_page_by_page)
{
	struct tess_key keys[7], last = { "" };
	struct tess_objinfo infos[7];
	char name[32];
	unsigned seen = 0;

	begin(_i);
	for (unsigned i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof(name), "%u.%u", i * 37 % 100, i);
		CLEAN(storetest_put(&t, name, i));
	}
	for (bool more = true; more;) {
		struct store_list l = { .after = last, .max = 7, .keys = keys, .infos = infos };
		struct store_op op = { .req = &t.req, .code = STORE_LIST, .list = &l };

		CLEAN(store_do(t.s, &op));
		for (unsigned i = 0; i < l.n; i++, seen++) {
			ck_assert_int_lt(strcmp(last.name, keys[i].name), 0);
			last = keys[i];
			ck_assert_uint_eq(infos[i].size,
					  strtoul(strchr(last.name, '.') + 1, NULL, 10));
		}
		more = l.more;
		ck_assert(!more || l.n == 7);
	}
	ck_assert_uint_eq(seen, 100);
	end();
}
END_TEST

START_TEST(test_names_of_full_length_work_and_others_are_refused)
{
	char name[STORE_NAME_MAX + 2];

	begin(_i);
	memset(name, 'a', sizeof(name));
	name[STORE_NAME_MAX + 1] = 0;
	ck_assert_int_eq(store_put(t.s, &t.req, name, "x", 1), -ENAMETOOLONG);
	name[STORE_NAME_MAX] = 0;
	CLEAN(storetest_put(&t, name, 9000));
	CLEAN(storetest_verify(&t, name, 9000));
	ck_assert_int_eq(store_put(t.s, &t.req, "A", "x", 1), -EINVAL);
	ck_assert_int_eq(store_put(t.s, &t.req, "a/b", "x", 1), -EINVAL);
	ck_assert_int_eq(store_put(t.s, &t.req, "", "x", 1), -EINVAL);
	end();
}
END_TEST

static void *worker(void *arg)
{
	unsigned id = *(unsigned *)arg;
	struct storetest mine = t;
	char name[32];

	req_begin(&mine.req, "worker");
	mine.req.deadline = INT64_MAX;
	for (unsigned i = 0; i < 30; i++) {
		size_t n = (size_t)(i * 7919 + id * 104729) % 200000;

		(void)snprintf(name, sizeof(name), "w%u.%u", id, i);
		CLEAN(storetest_put(&mine, name, n));
		CLEAN(storetest_put(&mine, "shared", 70000));
		CLEAN(storetest_verify(&mine, name, n));
		CLEAN(storetest_verify(&mine, "shared", 70000));
		if (i % 3 == 0)
			CLEAN(store_del(mine.s, &mine.req, name));
	}
	return NULL;
}

START_TEST(test_many_threads_at_once)
{
	unsigned ids[6];
	pthread_t th[6];

	begin(_i);
	for (unsigned i = 0; i < 6; i++) {
		ids[i] = i;
		ck_assert_int_eq(pthread_create(&th[i], NULL, worker, &ids[i]), 0);
	}
	for (unsigned i = 0; i < 6; i++)
		ck_assert_int_eq(pthread_join(th[i], NULL), 0);
	ck_assert_uint_eq(objects(), 6 * 20 + 1);
	end();
}
END_TEST

struct many {
	struct store_op op;
	struct iovec    v;
	char            data[5000];
	atomic_int     *left;
	atomic_int      dones;
};

static void many_done(struct store_op *op)
{
	struct many *m = op->owner;

	atomic_fetch_add(&m->dones, 1);
	atomic_fetch_sub(m->left, 1);
}

static void many_submit(struct many *m, unsigned n, enum store_code code, atomic_int *left)
{
	atomic_store(left, (int)n);
	for (unsigned i = 0; i < n; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "m%u", i);
		if (code == STORE_PUT)
			storetest_fill(m[i].data, sizeof(m[i].data), name, 0);
		m[i].left = left;
		atomic_store(&m[i].dones, 0);
		m[i].v = (struct iovec){ m[i].data, sizeof(m[i].data) };
		m[i].op = (struct store_op){
			.req = &t.req,
			.code = code,
			.range = {0, sizeof(m[i].data)},
			.data = {&m[i].v, 1, sizeof(m[i].data)},
			.done = many_done,
			.owner = &m[i],
		};
		CLEAN(store_key_set(&m[i].op.key, name));
		store_submit(t.s, &m[i].op);
	}
}

static void many_wait(atomic_int *left)
{
	while (atomic_load(left) > 0)
		clock_sleep(NS_PER_MS);
	/* A second done() would come late. */
	clock_sleep(2 * NS_PER_MS);
	ck_assert_int_eq(atomic_load(left), 0);
}

START_TEST(test_each_of_many_ops_in_flight_is_done_exactly_once)
{
	static struct many m[100];
	static atomic_int left;

	begin(_i);
	many_submit(m, 100, STORE_PUT, &left);
	many_wait(&left);
	for (unsigned i = 0; i < 100; i++) {
		ck_assert_int_eq(atomic_load(&m[i].dones), 1);
		CLEAN(m[i].op.err);
		ck_assert_ptr_eq(m[i].op.owner, &m[i]);
	}
	memset(m, 0, sizeof(m));
	many_submit(m, 100, STORE_GET, &left);
	many_wait(&left);
	for (unsigned i = 0; i < 100; i++) {
		CLEAN(m[i].op.err);
		ck_assert_int_eq(atomic_load(&m[i].dones), 1);
		ck_assert(storetest_same(m[i].data, sizeof(m[i].data), m[i].op.key.name, 0));
	}
	end();
}
END_TEST

START_TEST(test_a_cancelled_op_is_still_done_exactly_once)
{
	static struct many m[100];
	static atomic_int left;

	begin(_i);
	many_submit(m, 100, STORE_PUT, &left);
	for (unsigned i = 0; i < 100; i++)
		store_cancel(t.s, &m[i].op);
	many_wait(&left);
	for (unsigned i = 0; i < 100; i++) {
		ck_assert_int_eq(atomic_load(&m[i].dones), 1);
		ck_assert(m[i].op.err == 0 || m[i].op.err == -ECANCELED);
		if (m[i].op.err == 0)
			CLEAN(storetest_verify(&t, m[i].op.key.name, sizeof(m[i].data)));
	}
	end();
}
END_TEST

/* Not of a server: how much it takes is not for a test to try out. */
START_TEST(test_a_full_store_says_so_and_goes_on_after_a_deletion)
{
	const size_t size = (3 << 20) + 5;
	struct store_usage before, full;
	char name[32];
	unsigned n = 0;
	int r;

	begin(_i);
	if (storetest_remote(&t)) {
		end();
		return;
	}
	CLEAN(store_usage(t.s, &before));
	for (;; n++) {
		(void)snprintf(name, sizeof(name), "f%u", n);
		r = storetest_put(&t, name, size);
		if (r < 0)
			break;
		ck_assert_uint_lt(n, 64);
	}
	ck_assert_int_eq(r, -TESS_E_STORE_FULL);
	ck_assert_uint_ge(n, 15);
	CLEAN(store_usage(t.s, &full));
	ck_assert_uint_lt(full.free, 2 * size);
	ck_assert_uint_eq(full.objects, n);
	ck_assert_int_eq(storetest_put(&t, name, size), -TESS_E_STORE_FULL);
	ck_assert_int_eq(storetest_verify(&t, name, size), -ENOENT);
	for (unsigned i = 0; i < n; i += 2) {
		(void)snprintf(name, sizeof(name), "f%u", i);
		CLEAN(store_del(t.s, &t.req, name));
	}
	/* What the deletions freed is there without anybody asking for a barrier. */
	for (unsigned i = 0; i < n; i += 2) {
		(void)snprintf(name, sizeof(name), "g%u", i);
		CLEAN(storetest_put(&t, name, size));
	}
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "%c%u", i % 2 ? 'f' : 'g', i);
		CLEAN(storetest_verify(&t, name, size));
	}
	end();
}
END_TEST

START_TEST(test_usage_follows_what_is_stored)
{
	struct store_usage a, b, c;

	begin(_i);
	CLEAN(store_usage(t.s, &a));
	ck_assert_uint_le(a.free, a.total);
	if (storetest_remote(&t)) {
		end();
		return;
	}
	ck_assert_uint_eq(a.objects, 0);
	CLEAN(storetest_put(&t, "x", 10 << 20));
	CLEAN(store_usage(t.s, &b));
	ck_assert_uint_eq(a.free - b.free, 10 << 20);
	ck_assert_uint_eq(b.objects, 1);
	CLEAN(store_del(t.s, &t.req, "x"));
	CLEAN(store_barrier(t.s, &t.req));
	CLEAN(store_usage(t.s, &c));
	ck_assert_uint_eq(c.free, a.free);
	end();
}
END_TEST

START_TEST(test_closed_and_opened_again_it_holds_the_same)
{
	begin(_i);
	if (!is_volatile()) {
		CLEAN(storetest_put(&t, "a", 100));
		CLEAN(storetest_put(&t, "b", 100000));
		CLEAN(storetest_put(&t, "gone", 100000));
		CLEAN(store_del(t.s, &t.req, "gone"));
		storetest_close(&t);
		storetest_open(&t, false, NULL);
		CLEAN(storetest_verify(&t, "a", 100));
		CLEAN(storetest_verify(&t, "b", 100000));
		ck_assert_int_eq(storetest_verify(&t, "gone", 1), -ENOENT);
		CLEAN(storetest_put(&t, "c", 200000));
		CLEAN(storetest_verify(&t, "c", 200000));
	}
	end();
}
END_TEST

START_TEST(test_every_layer_describes_itself)
{
	struct text out = TEXT_INIT;
	unsigned layers = 0, lines = 0;

	begin(_i);
	for (const struct store *s = t.s; s; s = s->inner)
		layers++;
	store_to_text(t.s, &out);
	for (const char *c = text_str(&out); *c; c++)
		lines += *c == '\n';
	ck_assert_uint_eq(lines, layers);
	text_done(&out);
	end();
}
END_TEST

/* The words of TESS_STORE_URIS instead of the stacks above. */
static void stacks_of_environment(void)
{
	static const char *uris[64];
	const char *env = getenv("TESS_STORE_URIS");
	char *at = env && *env ? strdup(env) : NULL, *one;

	if (!at)
		return;
	nstacks = 0;
	while ((one = strsep(&at, " \t\n")) != NULL) {
		if (*one && nstacks < ARRAY_SIZE(uris))
			uris[nstacks++] = one;
	}
	stacks = uris;
}

int main(void)
{
	const TTest *const tests[] = {
		test_what_was_put_is_got_whatever_its_size,
		test_scattered_memory_is_one_object,
		test_a_range_past_the_end_is_a_short_body,
		test_what_is_missing_is_enoent_and_deleting_it_succeeds,
		test_a_second_put_of_a_name_is_allowed,
		test_a_listing_is_in_order_and_complete_page_by_page,
		test_names_of_full_length_work_and_others_are_refused,
		test_many_threads_at_once,
		test_each_of_many_ops_in_flight_is_done_exactly_once,
		test_a_cancelled_op_is_still_done_exactly_once,
		test_a_full_store_says_so_and_goes_on_after_a_deletion,
		test_usage_follows_what_is_stored,
		test_closed_and_opened_again_it_holds_the_same,
		test_every_layer_describes_itself,
	};
	Suite *s = suite_create("store contract");
	TCase *c = tcase_create("every stack");

	stacks_of_environment();
	suite_add_tcase(s, c);
	tcase_set_timeout(c, 120);
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
		tcase_add_loop_test(c, tests[i], 0, (int)nstacks);
	return unit_run(s);
}
