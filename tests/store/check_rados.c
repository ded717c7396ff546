/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/*
 * What only a cluster that is ill shows of rados:// targets: OSDs that hang or die, a pool that is
 * full, a client that is shut out, and what is said of a target that cannot be opened. The contract
 * is held by check_contract on the same store. The cluster is a throw-away one on loopback.
 *
 * TESS_RADOS_OBJECTS=N: how many objects are listed (3000); above 65536 a listing needs several scans.
 */
#include "store/store.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "base/trace.h"
#include "storetest.h"
#include "unit.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MANY  8u
#define QUOTA (16u << 20)

/* librados is not instrumented: its own locks are not seen, and what they guard would seem to race. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "ignore_noninstrumented_modules=1";
}

static char dir[256], uri[2048];
static struct storetest t;

/* Runs tests/servers/ceph VERB DIR…; its exit code. */
static int __attribute__((format(printf, 2, 3))) ceph(const char *verb, const char *fmt, ...)
{
	char args[1024], cmd[2048];
	va_list ap;
	int st;

	va_start(ap, fmt);
	(void)vsnprintf(args, sizeof(args), fmt, ap);
	va_end(ap);
	(void)snprintf(cmd, sizeof(cmd), "tests/servers/ceph %s '%s' %s >/dev/null", verb, dir, args);
	st = system(cmd);
	return WIFEXITED(st) ? WEXITSTATUS(st) : -1;
}

static void open_place(const char *place, const char *params)
{
	ck_assert_int_lt(snprintf(uri, sizeof(uri), "rados://data/%s?conf=%s/ceph.conf&id=fs%s", place, dir,
				  params),
			 (int)sizeof(uri));
	memset(&t, 0, sizeof(t));
	t.uri = uri;
	req_begin(&t.req, "test");
	t.req.deadline = INT64_MAX;
	storetest_open(&t, true, NULL);
}

/* Removes what the test put there, since a quota is the pool's. */
static void close_place(void)
{
	static struct tess_key keys[100];
	static struct tess_objinfo infos[100];
	struct store_list l = { .max = 100, .keys = keys, .infos = infos };
	struct store_op op = { .req = &t.req, .code = STORE_LIST, .list = &l };

	do {
		CLEAN(store_do(t.s, &op));
		for (unsigned i = 0; i < l.n; i++)
			CLEAN(store_del(t.s, &t.req, keys[i].name));
		l.after = keys[99];
	} while (l.more);
	storetest_close(&t);
}

struct many {
	struct store_op op;
	struct iovec    v;
	char            data[100000];
	atomic_int     *left;
};

static void many_done(struct store_op *op)
{
	struct many *m = op->owner;

	atomic_fetch_sub(m->left, 1);
}

static struct many *many_put(atomic_int *left, const char *prefix)
{
	struct many *m = calloc(MANY, sizeof(*m));

	ck_assert_ptr_nonnull(m);
	atomic_store(left, MANY);
	for (unsigned i = 0; i < MANY; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "%s%u", prefix, i);
		storetest_fill(m[i].data, sizeof(m[i].data), name, 0);
		m[i].left = left;
		m[i].v = (struct iovec){ m[i].data, sizeof(m[i].data) };
		m[i].op = (struct store_op){ .req = &t.req, .code = STORE_PUT,
					     .data = { &m[i].v, 1, sizeof(m[i].data) },
					     .done = many_done, .owner = &m[i] };
		CLEAN(store_key_set(&m[i].op.key, name));
		store_submit(t.s, &m[i].op);
	}
	return m;
}

/* Whether all were done before `ns` had passed. */
static bool many_wait(const atomic_int *left, int64_t ns)
{
	int64_t end = clock_now() + ns;

	while (atomic_load(left) > 0) {
		if (clock_now() > end)
			return false;
		clock_sleep(NS_PER_MS);
	}
	return true;
}

static uint64_t counter(const char *name)
{
	struct text out = TEXT_INIT;
	const char *at;
	uint64_t n = 0;

	trace_dump(&out, 0);
	at = strstr(text_str(&out), name);
	ck_assert_ptr_nonnull(at);
	n = strtoull(at + strlen(name), NULL, 10);
	text_done(&out);
	return n;
}

static int open_and_say(const char *place, const char *params, char **ret_why)
{
	struct store_open_opts o = { .create = true, .fsid = 7, .label = "t0" };
	struct text why = TEXT_INIT;
	struct store *s = NULL;
	int r;

	ck_assert_int_lt(snprintf(uri, sizeof(uri), "rados://%s?%s", place, params), (int)sizeof(uri));
	r = store_open_uri(&s, uri, &o, &why);
	*ret_why = text_steal(&why);
	text_done(&why);
	store_close(s);
	return r;
}

START_TEST(test_what_is_wrong_with_a_target_is_one_line_that_says_so)
{
	static const struct {
		const char *place, *params, *says;
	} rows[] = {
		{ "nopool", "conf=@/ceph.conf&id=fs", "has no pool nopool" },
		{ "data/other", "conf=@/ceph.conf&id=ns", "client.ns may not use pool data, namespace other" },
		{ "data/x", "conf=@/ceph.conf&id=ro", "client.ro may not use pool data" },
		{ "data/x", "conf=@/ceph.conf&id=nobody", "no keyring with a key of client.nobody" },
		{ "data/x", "conf=@/ceph.conf&id=fs&keyring=@/client.ro.keyring", "does not accept client.fs" },
		{ "data/x", "conf=@/ceph.conf&id=fs&keyring=@/absent", "keyring" },
		{ "data/x", "conf=@/ceph.conf&id=fs&keyring=@/wrong.keyring", "does not accept client.fs" },
		{ "data/x", "conf=@/ceph.conf&id=fs&keyring=@/wide.keyring", "everybody may read" },
		{ "data/x", "conf=@/absent.conf&id=fs", "configuration file" },
		{ "data/x", "conf=@/nowhere.conf&id=fs&timeout=1s", "did not answer within 1 s" },
		{ "data/x", "conf=@/ceph.conf&id=fs&timeout=1ms", "timeout: 1s to 1h" },
		{ "data/", "conf=@/ceph.conf&id=fs", "rados://POOL[/NAMESPACE]" },
		{ "data", "conf=@/ceph.conf&id=fs&user=x", "unknown parameter" },
	};
	char cmd[2048];

	(void)snprintf(cmd, sizeof(cmd),
		       "cd '%s' && sed s/.client.ro./[client.fs]/ client.ro.keyring >wrong.keyring && "
		       "chmod 600 wrong.keyring && cp client.fs.keyring wide.keyring && "
		       "chmod 644 wide.keyring && cp client.fs.keyring x.client.fs.keyring && "
		       "sed 's/^mon_host.*/mon_host = v2:127.0.0.1:1/' ceph.conf >nowhere.conf",
		       dir);
	ck_assert_int_eq(system(cmd), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char params[1024] = "", *why;
		size_t n = 0;

		for (const char *c = rows[i].params; *c && n < sizeof(params) - 260; c++) {
			if (*c == '@')
				n += (size_t)snprintf(params + n, sizeof(params) - n, "%s", dir);
			else
				params[n++] = *c;
		}
		params[n] = 0;
		ck_assert_msg(open_and_say(rows[i].place, params, &why) < 0, "%s?%s", rows[i].place, params);
		ck_assert_msg(strstr(why, rows[i].says) && !strchr(why, '\n'), "\"%s\" does not say \"%s\"",
			      why, rows[i].says);
		free(why);
	}
}
END_TEST

START_TEST(test_what_somebody_else_put_there_is_not_ours)
{
	char cmd[1024], *why;

	(void)snprintf(cmd, sizeof(cmd), "rados -c %s/ceph.conf --id fs -p data -N theirs put Some.Object %s",
		       dir, "/etc/hostname");
	ck_assert_int_eq(system(cmd), 0);
	(void)snprintf(cmd, sizeof(cmd), "conf=%s/ceph.conf&id=fs", dir);
	ck_assert_int_eq(open_and_say("data/theirs", cmd, &why), -EEXIST);
	ck_assert_msg(strstr(why, "Some.Object"), "%s", why);
	free(why);
}
END_TEST

START_TEST(test_operations_on_a_cluster_that_hangs_end_by_their_timeout_and_it_heals)
{
	atomic_int left;
	int64_t start;
	struct many *m;
	char p[100];

	open_place("hangs", "&timeout=2s&retry=0");
	CLEAN(storetest_put(&t, "before", 100));
	ck_assert_int_eq(ceph("pause", "osd.0"), 0);
	start = clock_now();
	m = many_put(&left, "p");
	ck_assert_int_eq(store_get(t.s, &t.req, "before", 0, p, sizeof(p)), -ETIMEDOUT);
	ck_assert(many_wait(&left, 20 * NS_PER_S));
	ck_assert_int_ge(clock_now() - start, 1 * NS_PER_S);
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_int_eq(m[i].op.err, -ETIMEDOUT);
	/* Cancelled it does not take that long. */
	free(m);
	storetest_close(&t);
	ck_assert_int_eq(ceph("cont", "osd.0"), 0);
	storetest_open(&t, false, NULL);
	CLEAN(storetest_verify(&t, "before", 100));
	CLEAN(storetest_put(&t, "after", 100000));
	CLEAN(storetest_verify(&t, "after", 100000));
	close_place();
}
END_TEST

START_TEST(test_a_cancelled_operation_ends_long_before_its_timeout)
{
	atomic_int left;
	struct many *m;

	open_place("cancel", "&timeout=60s&retry=0&deadline=0");
	ck_assert_int_eq(ceph("pause", "osd.0"), 0);
	m = many_put(&left, "c");
	for (int tries = 0; tries < 200 && atomic_load(&left) > 0; tries++) {
		for (unsigned i = 0; i < MANY; i++)
			store_cancel(t.s, &m[i].op);
		clock_sleep(50 * NS_PER_MS);
	}
	ck_assert_int_eq(atomic_load(&left), 0);
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_int_eq(m[i].op.err, -ECANCELED);
	free(m);
	ck_assert_int_eq(ceph("cont", "osd.0"), 0);
	close_place();
}
END_TEST

static atomic_int enough;

struct writer {
	pthread_t th;
	unsigned  id, n, failed;
};

static void *writer_main(void *arg)
{
	struct storetest mine = t;
	struct writer *w = arg;
	char name[32];

	req_begin(&mine.req, "writer");
	mine.req.deadline = INT64_MAX;
	while (!atomic_load(&enough) && w->n < 5000) {
		(void)snprintf(name, sizeof(name), "w%u.%u", w->id, w->n);
		if (storetest_put(&mine, name, 50000) == 0)
			w->n++;
		else
			w->failed++;
		clock_sleep(NS_PER_MS);
	}
	return NULL;
}

START_TEST(test_every_acknowledged_put_outlives_the_kill_of_its_osd)
{
	struct writer w[4] = { { 0 } };
	unsigned before = 0, after = 0;
	char name[32];

	open_place("killed", "&retry=12&deadline=100s");
	for (unsigned i = 0; i < 4; i++) {
		w[i].id = i;
		ck_assert_int_eq(pthread_create(&w[i].th, NULL, writer_main, &w[i]), 0);
	}
	clock_sleep(300 * NS_PER_MS);
	ck_assert_int_eq(ceph("kill", "osd.0"), 0);
	for (unsigned i = 0; i < 4; i++)
		before += __atomic_load_n(&w[i].n, __ATOMIC_RELAXED);
	ck_assert_int_eq(ceph("run", "osd.0"), 0);
	/* The next write is acknowledged when the OSD is back. */
	CLEAN(storetest_put(&t, "back", 10));
	clock_sleep(200 * NS_PER_MS);
	atomic_store(&enough, 1);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(pthread_join(w[i].th, NULL), 0);
		ck_assert_uint_eq(w[i].failed, 0);
		after += w[i].n;
	}
	ck_assert_uint_gt(before, 4);
	ck_assert_uint_gt(after, before);
	for (unsigned i = 0; i < 4; i++) {
		for (unsigned k = 0; k < w[i].n; k++) {
			(void)snprintf(name, sizeof(name), "w%u.%u", i, k);
			CLEAN(storetest_verify(&t, name, 50000));
		}
	}
	close_place();
}
END_TEST

static void quota(uint64_t bytes)
{
	ck_assert_int_eq(ceph("mon",
			      "'{\"prefix\":\"osd pool set-quota\",\"pool\":\"data\",\"field\":\"max_bytes\","
			      "\"val\":\"%llu\"}'",
			      (unsigned long long)bytes),
			 0);
}

static int put_soon(const char *name, size_t n)
{
	int64_t end = clock_now() + 60 * NS_PER_S;
	int r;

	do {
		r = storetest_put(&t, name, n);
		if (r < 0)
			clock_sleep(100 * NS_PER_MS);
	} while (r < 0 && clock_now() < end);
	return r;
}

START_TEST(test_a_full_pool_says_so_and_takes_deletions)
{
	struct store_usage u = { 0 };
	char name[32];
	unsigned n = 0;
	int r = 0;

	open_place("full", "&timeout=20s&retry=0");
	quota(QUOTA);
	/* The monitor looks about once in a second. */
	for (; n < 600 && r == 0; n++) {
		(void)snprintf(name, sizeof(name), "f%u", n);
		r = storetest_put(&t, name, 1 << 20);
		clock_sleep(50 * NS_PER_MS);
	}
	ck_assert_int_eq(r, -TESS_E_STORE_FULL);
	CLEAN(storetest_verify(&t, "f0", 1 << 20));
	for (int i = 0; i < 100 && u.total != QUOTA; i++) {
		CLEAN(store_usage(t.s, &u));
		clock_sleep(100 * NS_PER_MS);
	}
	ck_assert_uint_eq(u.total, QUOTA);
	ck_assert_uint_lt(u.free, 1 << 20);
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "f%u", i);
		CLEAN(store_del(t.s, &t.req, name));
	}
	CLEAN(put_soon("again", 1000));
	quota(0);
	CLEAN(storetest_verify(&t, "again", 1000));
	close_place();
}
END_TEST

static void my_address(char *ret, size_t n)
{
	struct text out = TEXT_INIT;
	const char *at;

	store_to_text(t.s, &out);
	at = strstr(text_str(&out), "client=");
	ck_assert_ptr_nonnull(at);
	(void)snprintf(ret, n, "%.*s", (int)strcspn(at + 7, "\n "), at + 7);
	text_done(&out);
}

START_TEST(test_a_client_that_is_shut_out_fails_what_it_has_in_flight_and_then_goes_on)
{
	char old[128], now[128];
	atomic_int left;
	struct many *m;
	char p[8];

	open_place("shutout", "&timeout=60s&retry=5");
	CLEAN(storetest_put(&t, "before", 1000));
	my_address(old, sizeof(old));
	ck_assert_int_eq(ceph("pause", "osd.0"), 0);
	m = many_put(&left, "s");
	ck_assert_int_eq(ceph("mon", "'{\"prefix\":\"osd blocklist\",\"blocklistop\":\"add\",\"addr\":\"%s\"}'",
			      old),
			 0);
	ck_assert_int_eq(ceph("cont", "osd.0"), 0);
	ck_assert(many_wait(&left, 30 * NS_PER_S));
	/* What reached the OSD before it heard of the list may have been done. None was done later. */
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_msg(m[i].op.err == -TESS_E_SHUT_OUT || m[i].op.err == 0, "%s",
			      err_name(m[i].op.err));
	free(m);
	/* Somebody hears of it: by the next operation at the latest. */
	(void)store_get(t.s, &t.req, "before", 0, p, sizeof(p));
	CLEAN(put_soon("after", 1000));
	CLEAN(storetest_verify(&t, "before", 1000));
	CLEAN(storetest_verify(&t, "after", 1000));
	my_address(now, sizeof(now));
	ck_assert_str_ne(old, now);
	ck_assert_uint_eq(counter("rados.data.shut_out "), 1);
	ck_assert_uint_eq(counter("rados.data.connects "), 1);
	close_place();
}
END_TEST

START_TEST(test_an_operation_of_a_shut_out_client_is_not_repeated)
{
	char old[128];
	int r = 0;

	open_place("refused", "&timeout=60s&retry=50");
	my_address(old, sizeof(old));
	ck_assert_int_eq(ceph("mon", "'{\"prefix\":\"osd blocklist\",\"blocklistop\":\"add\",\"addr\":\"%s\"}'",
			      old),
			 0);
	/* The OSD hears of it soon after; then one fails, however many tries there are. */
	for (int i = 0; i < 2000 && r == 0; i++) {
		r = storetest_put(&t, "x", 100);
		clock_sleep(5 * NS_PER_MS);
	}
	ck_assert_int_eq(r, -TESS_E_SHUT_OUT);
	CLEAN(put_soon("y", 100));
	close_place();
}
END_TEST

START_TEST(test_a_listing_of_many_pages_goes_through_the_objects_once)
{
	const char *env = getenv("TESS_RADOS_OBJECTS");
	unsigned want = env ? (unsigned)strtoul(env, NULL, 10) : 3000, seen = 0;
	static struct tess_key keys[100], last;
	static struct tess_objinfo infos[100];
	struct many *m = calloc(256, sizeof(*m));
	atomic_int left = 0;
	uint64_t scanned;

	open_place("listing", "");
	ck_assert_ptr_nonnull(m);
	for (unsigned at = 0; at < want; at += 256) {
		atomic_store(&left, (int)MIN(256u, want - at));
		for (unsigned i = 0; i < MIN(256u, want - at); i++) {
			char name[32];

			(void)snprintf(name, sizeof(name), "%08x", (at + i) * 2654435761u);
			m[i].left = &left;
			m[i].op = (struct store_op){ .req = &t.req, .code = STORE_PUT, .done = many_done,
						     .owner = &m[i] };
			CLEAN(store_key_set(&m[i].op.key, name));
			store_submit(t.s, &m[i].op);
		}
		ck_assert(many_wait(&left, 60 * NS_PER_S));
	}
	scanned = counter("rados.data.list.scanned ");
	for (bool more = true; more;) {
		struct store_list l = { .after = last, .max = 100, .keys = keys, .infos = infos };
		struct store_op op = { .req = &t.req, .code = STORE_LIST, .list = &l };

		CLEAN(store_do(t.s, &op));
		for (unsigned i = 0; i < l.n; i++, seen++) {
			ck_assert_int_lt(strcmp(last.name, keys[i].name), 0);
			last = keys[i];
		}
		more = l.more;
	}
	ck_assert_uint_eq(seen, want);
	/* And the marker each time. */
	ck_assert_uint_eq(counter("rados.data.list.scanned ") - scanned, (want / 65536 + 1) * (want + 1));
	free(m);
	close_place();
}
END_TEST

/* Whichever allocation fails, it is told, nothing leaks and the next try works. */
START_TEST(test_running_out_of_memory_anywhere_is_an_error)
{
	static char p[3][100];
	struct tess_key key;
	struct tess_objinfo info;
	unsigned done = 0;
	char spec[64];

	open_place("memory", "&retry=0");
	CLEAN(storetest_put(&t, "x", 300));
	storetest_close(&t);
	for (unsigned n = 1; done < 3 && n < 200; n++) {
		struct iovec v[3] = { { p[0], 100 }, { p[1], 100 }, { p[2], 100 } };
		struct store_list l = { .max = 1, .keys = &key, .infos = &info };
		struct store_op list = { .req = &t.req, .code = STORE_LIST, .list = &l };
		struct store_op put = { .req = &t.req, .code = STORE_PUT, .data = { v, 3, 300 } };
		struct store_op get = { .req = &t.req, .code = STORE_GET, .range = { 0, 300 },
					.data = { v, 3, 300 } };
		char *why = NULL;
		int r;

		CLEAN(store_key_set(&put.key, "y"));
		CLEAN(store_key_set(&get.key, "x"));
		(void)snprintf(spec, sizeof(spec), "alloc@%u=ENOMEM", n);
		CLEAN(fault_set(spec));
		r = storetest_try(&t, false, NULL, &why);
		if (r == 0) {
			r = store_do(t.s, &put);
			ck_assert(r == 0 || r == -ENOMEM);
			r = store_do(t.s, &get);
			ck_assert(r == 0 || r == -ENOMEM);
			r = store_do(t.s, &list);
			ck_assert(r == 0 || r == -ENOMEM);
			done += fault_hits("alloc") < n;
			storetest_close(&t);
		}
		CLEAN(fault_set(NULL));
		free(why);
	}
	ck_assert_uint_eq(done, 3);
	storetest_open(&t, false, NULL);
	close_place();
}
END_TEST

int main(void)
{
	const char *tmp = getenv("TESS_TMP");
	Suite *s = suite_create("rados");
	TCase *c = tcase_create("a cluster");
	int r;

	(void)snprintf(dir, sizeof(dir), "%s/ceph", tmp ? tmp : "/tmp/tess-check-rados");
#ifndef HAVE_RADOS
	printf("built without librados\n");
	return 77;
#endif
	r = ceph("start", "%s", "");
	if (r == 77)
		printf("ceph is not installed: make deps-test\n");
	if (r != 0)
		return r;
	suite_add_tcase(s, c);
	tcase_set_timeout(c, 110);
	tcase_add_test(c, test_what_is_wrong_with_a_target_is_one_line_that_says_so);
	tcase_add_test(c, test_what_somebody_else_put_there_is_not_ours);
	tcase_add_test(c, test_operations_on_a_cluster_that_hangs_end_by_their_timeout_and_it_heals);
	tcase_add_test(c, test_a_cancelled_operation_ends_long_before_its_timeout);
	tcase_add_test(c, test_every_acknowledged_put_outlives_the_kill_of_its_osd);
	tcase_add_test(c, test_a_full_pool_says_so_and_takes_deletions);
	tcase_add_test(c, test_a_client_that_is_shut_out_fails_what_it_has_in_flight_and_then_goes_on);
	tcase_add_test(c, test_an_operation_of_a_shut_out_client_is_not_repeated);
	tcase_add_test(c, test_running_out_of_memory_anywhere_is_an_error);
	tcase_add_test(c, test_a_listing_of_many_pages_goes_through_the_objects_once);
	r = unit_run(s);
	(void)ceph("stop", "%s", "");
	return r;
}
