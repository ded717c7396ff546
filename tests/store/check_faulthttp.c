/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/*
 * The stores behind HTTP against a server that misbehaves (tests/lib/fakeobj.h): whatever it does,
 * an operation ends, with the right bytes or with an error that says what is wrong, and what was
 * there before can be read afterwards.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "httptest.h"
#include "unit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const enum ht_service stores[] = { HT_S3, HT_TEMPAUTH };

/* --- what every fault must end with --- */

#define AS(v) (1u << (v))
#define DATA  (AS(HT_GET) | AS(HT_LIST))
#define ANY	  (AS(HT_PUT) | AS(HT_GET) | AS(HT_HEAD) | AS(HT_DEL) | AS(HT_LIST))
enum service_kind { BOTH, S3_ONLY, SWIFT_ONLY };

/*
 * `verbs` must fail; with `no` after folding, or, when that is 0, in a way that another try may
 * mend. `maybe` may: success is fine as long as it is true.
 */
static const struct row {
	const char       *kind;
	unsigned          verbs, maybe;
	int               no;
	enum service_kind of;
} table[] = {
	{ "500", ANY, 0, EIO, BOTH },
	{ "502", ANY, 0, EIO, BOTH },
	{ "504", ANY, 0, EIO, BOTH },
	{ "slowdown", ANY, 0, EAGAIN, BOTH },
	{ "toomany=1", ANY, 0, EAGAIN, BOTH },
	{ "408", ANY, 0, ETIMEDOUT, BOTH },
	{ "409", AS(HT_PUT), 0, EBUSY, BOTH },
	{ "507", AS(HT_PUT), 0, ENOSPC, BOTH },
	{ "403", ANY, 0, EACCES, BOTH },
	{ "401", ANY, 0, EACCES, S3_ONLY },
	/* One that sends for new tokens, for who is refused those too backs off. */
	{ "401", AS(HT_PUT), 0, EAGAIN, SWIFT_ONLY },
	{ "403=InvalidAccessKeyId", AS(HT_GET), 0, EACCES, S3_ONLY },
	{ "403=SignatureDoesNotMatch", ANY, 0, EACCES, S3_ONLY },
	{ "403=ExpiredToken", AS(HT_DEL), 0, EACCES, S3_ONLY },
	{ "400=ExpiredToken", AS(HT_PUT) | AS(HT_LIST), 0, EACCES, S3_ONLY },
	{ "403=RequestTimeTooSkewed", ANY, 0, EACCES, S3_ONLY },
	{ "403=AccountProblem", ANY, 0, EACCES, S3_ONLY },
	{ "403=AllAccessDisabled", ANY, 0, EACCES, S3_ONLY },
	{ "404=NoSuchBucket", AS(HT_PUT) | AS(HT_GET) | AS(HT_LIST), 0, ENODEV, S3_ONLY },
	{ "404=NoSuchKey", AS(HT_GET) | AS(HT_HEAD), 0, ENOENT, BOTH },
	{ "500=InternalError", ANY, 0, EIO, S3_ONLY },
	{ "503=ServiceUnavailable", ANY, 0, EAGAIN, S3_ONLY },
	{ "503=InternalError", ANY, 0, -1, S3_ONLY },
	{ "ok-error", AS(HT_PUT) | DATA, AS(HT_DEL), EIO, S3_ONLY },
	{ "ok-error=SlowDown", AS(HT_PUT) | DATA, AS(HT_DEL), -1, S3_ONLY },
	{ "ok-error", DATA, 0, 0, SWIFT_ONLY },
	{ "204", AS(HT_PUT) | DATA, 0, EPROTO, S3_ONLY },
	{ "204", AS(HT_PUT) | AS(HT_GET), 0, EPROTO, SWIFT_ONLY },
	{ "202", AS(HT_PUT), 0, 0, BOTH },
	{ "redirect=301", ANY, 0, -1, BOTH },
	{ "redirect=302", ANY, 0, -1, BOTH },
	{ "redirect=307", ANY, 0, -1, BOTH },
	{ "redirect=308", ANY, 0, -1, BOTH },
	{ "reset", ANY, 0, 0, BOTH },
	{ "half", ANY, 0, 0, BOTH },
	{ "garbage", ANY, 0, 0, BOTH },
	{ "endless", ANY, 0, 0, BOTH },
	{ "reset-after", ANY, 0, 0, BOTH },
	{ "reset-mid", DATA, AS(HT_PUT) | AS(HT_HEAD) | AS(HT_DEL), 0, BOTH },
	{ "short", DATA, AS(HT_PUT) | AS(HT_HEAD) | AS(HT_DEL), 0, BOTH },
	{ "stall=100", DATA, AS(HT_PUT) | AS(HT_HEAD) | AS(HT_DEL), 0, BOTH },
	{ "unframed", DATA, AS(HT_PUT) | AS(HT_HEAD) | AS(HT_DEL), 0, BOTH },
	{ "less", AS(HT_GET), 0, 0, BOTH },
	{ "more", AS(HT_GET), AS(HT_PUT) | AS(HT_DEL) | AS(HT_LIST), 0, BOTH },
	{ "long", 0, ANY, 0, BOTH },
	{ "other-range", AS(HT_GET), 0, 0, BOTH },
	/* All of it is more than was asked for; who takes the part that was is right too. */
	{ "whole", 0, AS(HT_GET), 0, BOTH },
	{ "bad-body", DATA, 0, 0, BOTH },
	{ "cut-body", DATA, 0, 0, BOTH },
	{ "bomb-body", DATA, 0, 0, BOTH },
	{ "xxe-body", DATA, 0, 0, BOTH },
	{ "huge-body", DATA, 0, 0, BOTH },
	{ "delay=30", 0, 0, 0, BOTH },
	{ "close", 0, 0, 0, BOTH },
};

static bool transient(int err)
{
	static const int list[] = { EIO, EAGAIN, ETIMEDOUT, ECONNRESET, EPROTO, EPIPE, ENOTCONN };

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		if (err_fold(err) == -list[i] && err != -TESS_E_SHORT_BODY)
			return true;
	}
	return false;
}

static const char *verdict(const struct row *row, enum ht_verb v, int r)
{
	if (r == 1)
		return "wrong, and said to be right";
	if (r == 0)
		return row->verbs & AS(v) ? "must fail" : NULL;
	if (!((row->verbs | row->maybe) & AS(v)))
		return "must succeed";
	if (row->no > 0 && err_fold(r) != -row->no)
		return "has the wrong errno";
	if (row->no != ENOENT && r == -ENOENT)
		return "looks as if the object were gone";
	if (row->no == 0 && !transient(r))
		return "does not look as if another try would help";
	return NULL;
}

/* Verbs that are about this row at all. */
static bool tells(const struct row *row, enum ht_verb v)
{
	return (row->verbs | row->maybe) == 0 || ((row->verbs | row->maybe) & AS(v));
}

static bool concerns(const struct row *row)
{
	return row->of == BOTH || (row->of == S3_ONLY) == ht_is_s3();
}

static bool old_is_there(unsigned serial)
{
	(void)serial;
	return ht_old_is_there();
}

/* What came behind the reply is the next one's on that connection. */
static bool again(bool (*fn)(unsigned serial), unsigned serial)
{
	for (unsigned i = 0; i < 4; i++) {
		if (fn(serial))
			return true;
	}
	return false;
}

static unsigned judge(const struct row *row, enum ht_verb v, unsigned serial)
{
	/* Deletions may go together; a HEAD that says nothing may be asked again as a GET. */
	const char *too = v == HT_DEL ? "bulk" : v == HT_HEAD ? "get" : ht_verb_names[v];
	const char *bad;
	int r;

	if (v == HT_DEL)
		CLEAN(ht_do(HT_PUT, serial));
	ht_rules("%s:%s;%s:%s", ht_verb_names[v], row->kind, too, row->kind);
	r = ht_do(v, serial);
	ht_rules("%s", "");
	bad = verdict(row, v, r);
	if (!bad && r == 0 && (v == HT_PUT || v == HT_DEL) &&
	    !again(v == HT_PUT ? ht_is_put : ht_is_gone, serial))
		bad = "succeeded, and did nothing";
	if (!bad && !again(old_is_there, 0))
		bad = "and what was there is gone";
	if (bad)
		printf("%s: %s of %s: %s (%s)\n", ht_name(), row->kind, ht_verb_names[v],
		       bad, ht_said(r));
	return bad != NULL;
}

START_TEST(test_each_fault_of_each_verb_ends_with_its_errno)
{
	unsigned serial = 0, bad = 0;

	ht_begin(stores[_i], "retry=0&deadline=20s", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		for (enum ht_verb v = 0; v < HT_NVERBS && concerns(&table[i]); v++)
			bad += tells(&table[i], v) ? judge(&table[i], v, ++serial) : 0;
	}
	ck_assert_uint_eq(bad, 0);
	ck_assert_uint_eq(fakeobj_count(ht.server, "any", "elsewhere"), 0);
	ht_end();
}
END_TEST

/* --- with retries: as if nothing were wrong --- */

static const char *const mended[] = {
	"500", "slowdown", "toomany=0", "reset", "reset-after", "reset-mid", "half", "garbage",
	"short", "long", "less", "other-range", "unframed", "stall=20", "close", "408",
	"bad-body", "cut-body",
};

/* Whose body it is that could be bad; a HEAD that is wrong by one is not to be noticed. */
static const char *meant(const char *kind)
{
	if (strcmp(kind, "less") == 0)
		return "get";
	return strcmp(kind, "bad-body") == 0 || strcmp(kind, "cut-body") == 0 ? "list" : "any";
}

START_TEST(test_every_kth_request_failing_is_not_seen_behind_retries)
{
	unsigned serial = 1000, bad = 0;

	ht_begin(stores[_i], "retry=30&deadline=60s", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(mended); i++) {
		/* Not 2: what takes two requests would meet the second each time. */
		for (unsigned k = 3; k <= 7; k += 4) {
			ht_rules("%s:every=%u:%s", meant(mended[i]), k, mended[i]);
			for (unsigned n = 0; n < 10; n++) {
				enum ht_verb v = (enum ht_verb)(n % HT_NVERBS);
				int r = ht_do(v, n % HT_NVERBS ? serial : ++serial);

				if (r != 0) {
					printf("%s: %s every %u: %s: %s\n", ht_name(),
					       mended[i], k, ht_verb_names[v],
					       ht_said(r));
					bad++;
				}
			}
		}
	}
	ck_assert_uint_eq(bad, 0);
	ck_assert_uint_gt(fakeobj_count(ht.server, "any", "fault"), 50);
	ht_end();
}
END_TEST

/* 200 with its length, which is all there is to say that it is less than was asked for. */
START_TEST(test_a_body_cut_on_its_way_is_not_a_short_object)
{
	char buf[HT_OLD_SIZE + 1];

	ht_begin(stores[_i], "retry=0&deadline=60s", NULL);
	ht_rules("get:every=1:cut");
	ck_assert_int_eq(store_get(ht.t.s, &ht.t.req, "old", 0, buf, HT_OLD_SIZE), -EPROTO);
	/* It is that short, says a service that knows no ranges. */
	ht_rules("get:every=1:whole");
	ck_assert_int_eq(store_get(ht.t.s, &ht.t.req, "old", 0, buf, HT_OLD_SIZE + 1),
			 -TESS_E_SHORT_BODY);
	CLEAN(store_get(ht.t.s, &ht.t.req, "old", 0, buf, HT_OLD_SIZE));
	ck_assert(storetest_same(buf, HT_OLD_SIZE, "old", 0));
	ht_rules("%s", "");
	ht_end();
}
END_TEST

/* What the service says it stored is not what was sent: damaged on the way, which another try may mend. */
START_TEST(test_an_etag_of_other_bytes_is_an_error_where_it_is_compared)
{
	ht_begin(stores[_i], "retry=0&checksum=md5", NULL);
	ht_rules("put:every=1:etag");
	ck_assert_int_eq(storetest_put(&ht.t, "x", 5000), -EPROTO);
	ht_rules("%s", "");
	CLEAN(storetest_put(&ht.t, "x", 5000));
	ht_end();
	ht_begin(stores[_i], "retry=3&checksum=md5", NULL);
	ht_rules("put:nth=1:etag");
	CLEAN(storetest_put(&ht.t, "x", 5000));
	ht_rules("%s", "");
	ht_end();
	ht_begin(stores[_i], "retry=0&checksum=none", NULL);
	ht_rules("put:every=1:etag");
	CLEAN(storetest_put(&ht.t, "x", 5000));
	ht_rules("%s", "");
	ht_end();
}
END_TEST

START_TEST(test_a_storm_of_503_passes)
{
	ht_begin(stores[_i], "retry=30&deadline=60s", NULL);
	ht_rules("any:from=5:to=30:slowdown");
	ck_assert_uint_ge(ht_load(NS_PER_S / 2, 4), 20);
	ht_rules("any:from=5:to=30:toomany=0");
	ck_assert_uint_ge(ht_load(NS_PER_S / 2, 4), 20);
	CLEAN(storetest_verify(&ht.t, "old", HT_OLD_SIZE));
	ht_end();
}
END_TEST

START_TEST(test_opening_fails_with_a_reason_whatever_goes_wrong)
{
	/* Opening tries again by itself what may pass: not all of them. */
	for (size_t i = 0; i < ARRAY_SIZE(table); i += 3) {
		char *why = NULL;
		int r;

		ht.service = stores[_i];
		if (strncmp(table[i].kind, "stall", 5) == 0 || !concerns(&table[i]))
			continue;
		ht_begin(stores[_i], "retry=0&deadline=5s", NULL);
		storetest_close(&ht.t);
		ht_rules("all:%s", table[i].kind);
		r = storetest_try(&ht.t, false, NULL, &why);
		ck_assert_msg(r == 0 || (why && strlen(why) > 10), "%s: %d", table[i].kind, r);
		ck_assert_msg(!why || !strstr(why, ht_is_s3() ? FAKEOBJ_SECRET : FAKEOBJ_KEY), "%s", why);
		ck_assert_uint_eq(fakeobj_count(ht.server, "any", "elsewhere"), 0);
		free(why);
		ht_end();
	}
}
END_TEST

/* --- a ht.server that does not answer --- */

START_TEST(test_a_black_hole_ends_at_the_deadline)
{
	static const char *const kinds[] = { "blackhole", "stall", "delay=60000" };

	ht_begin(stores[_i], "retry=12&deadline=400ms", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		/* What has no body has nothing to stall in. */
		for (enum ht_verb v = 0; v < HT_NVERBS; v++) {
			int64_t start = clock_now();
			int r;

			if (strcmp(kinds[i], "stall") == 0 && !(DATA & AS(v)))
				continue;
			ht_rules("any:%s", kinds[i]);
			r = ht_do(v, 7 + i);
			ck_assert_msg(err_fold(r) == -ETIMEDOUT, "%s of %s: %s", kinds[i],
				      ht_verb_names[v], ht_said(r));
			ck_assert_int_lt(clock_now() - start, 10 * NS_PER_S);
			ht_rules("%s", "");
		}
	}
	CLEAN(storetest_verify(&ht.t, "old", HT_OLD_SIZE));
	ht_end();
}
END_TEST

START_TEST(test_a_black_hole_ends_at_the_deadline_of_the_request)
{
	ht_begin(stores[_i], "retry=0", NULL);
	ht_rules("any:blackhole");
	for (enum ht_verb v = 0; v < HT_NVERBS; v++) {
		int r;

		ht.t.req.deadline = clock_now() + 300 * NS_PER_MS;
		r = ht_do(v, 3);
		ck_assert_msg(err_fold(r) == -ETIMEDOUT, "%s: %s", ht_verb_names[v],
			      ht_said(r));
	}
	ht.t.req.deadline = INT64_MAX;
	ht_rules("%s", "");
	CLEAN(storetest_verify(&ht.t, "old", HT_OLD_SIZE));
	ht_end();
}
END_TEST

static atomic_int ended;

static void note_end(struct store_op *op)
{
	(void)op;
	atomic_fetch_add(&ended, 1);
}

START_TEST(test_what_hangs_can_be_cancelled)
{
	static char buf[HT_NVERBS][1000];
	struct tess_key keys[8];
	struct tess_objinfo infos[8];
	struct store_list l = { .max = 8, .keys = keys, .infos = infos };
	struct iovec v[HT_NVERBS];
	struct store_op op[HT_NVERBS] = { { 0 } };

	ht_begin(stores[_i], "retry=12", NULL);
	ht_rules("any:blackhole");
	for (unsigned i = 0; i < HT_NVERBS; i++) {
		v[i] = (struct iovec){ buf[i], sizeof(buf[i]) };
		op[i] = (struct store_op){ .req = &ht.t.req, .code = (enum store_code)i, .done = note_end };
		CLEAN(store_key_set(&op[i].key, i == HT_PUT ? "new" : "old"));
		if (i == HT_PUT || i == HT_GET)
			op[i].data = (struct tess_iov){ &v[i], 1, sizeof(buf[i]) };
		op[i].range.len = i == HT_GET ? sizeof(buf[i]) : 0;
		op[i].list = i == HT_LIST ? &l : NULL;
		store_submit(ht.t.s, &op[i]);
	}
	for (unsigned n = 0; atomic_load(&ended) < (int)HT_NVERBS; n++) {
		ck_assert_uint_lt(n, 1000);
		/* Again: it may have been before the op arrived where it can be. */
		for (unsigned i = 0; i < HT_NVERBS; i++)
			store_cancel(ht.t.s, &op[i]);
		(void)usleep(10000);
	}
	for (unsigned i = 0; i < HT_NVERBS; i++)
		ck_assert_msg(op[i].err == -ECANCELED, "%s: %s", ht_verb_names[i], err_name(op[i].err));
	ht_end();
}
END_TEST

static long resident_max(void)
{
	struct rusage u;

	ck_assert_int_eq(getrusage(RUSAGE_SELF, &u), 0);
	return u.ru_maxrss;
}

START_TEST(test_hostile_documents_are_refused_in_little_memory)
{
	static const char *const kinds[] = { "huge-body", "bomb-body", "xxe-body", "endless" };
	long before;

	ht_begin(stores[_i], "retry=0", NULL);
	CLEAN(ht_do(HT_LIST, 0));
	before = resident_max();
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		for (unsigned n = 0; n < 2; n++) {
			ht_rules("any:%s", kinds[i]);
			ck_assert_msg(ht_do(HT_LIST, 0) < 0, "%s", kinds[i]);
			ck_assert_msg(ht_do(HT_GET, 1) < 0, "%s", kinds[i]);
		}
	}
	/* A reply is 16 MiB at most; the sanitizers keep what was freed. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	ck_assert_int_lt(resident_max() - before, 48 << 10);
#else
	(void)before;
#endif
	ht_end();
}
END_TEST

START_TEST(test_deletions_of_many_are_judged_one_by_one)
{
	enum { MANY = 40 };
	static struct store_op op[MANY];
	static const char *const kinds[] = { "500", "ok-error", "bad-body", "reset-mid", "" };

	ht_begin(stores[_i], "retry=0", NULL);
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		unsigned failed = 0;
		char name[16];

		for (unsigned i = 0; i < MANY; i++) {
			(void)snprintf(name, sizeof(name), "d%u", i);
			CLEAN(storetest_put(&ht.t, name, 10));
		}
		if (*kinds[k])
			ht_rules("bulk:%s", kinds[k]);
		atomic_store(&ended, 0);
		for (unsigned i = 0; i < MANY; i++) {
			op[i] = (struct store_op){ .req = &ht.t.req, .code = STORE_DEL, .done = note_end };
			(void)snprintf(op[i].key.name, sizeof(op[i].key.name), "d%u", i);
			store_submit(ht.t.s, &op[i]);
		}
		for (unsigned n = 0; atomic_load(&ended) < MANY; n++) {
			ck_assert_uint_lt(n, 2000);
			(void)usleep(5000);
		}
		ht_rules("%s", "");
		for (unsigned i = 0; i < MANY; i++) {
			struct tess_objinfo info;

			failed += op[i].err != 0;
			(void)snprintf(name, sizeof(name), "d%u", i);
			if (op[i].err == 0)
				ck_assert_msg(store_head(ht.t.s, &ht.t.req, name, &info) == -ENOENT,
					      "%s: %s is still there", kinds[k], name);
		}
		ck_assert_msg(*kinds[k] || !failed, "%u of %d failed", failed, MANY);
	}
	ht_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("faulthttp");
	TCase *each = tcase_create("stores");

	/* A failed test ends without flushing. */
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	tcase_set_timeout(each, 60);
	suite_add_tcase(s, each);
#define EACH(test) tcase_add_loop_test(each, test, 0, ARRAY_SIZE(stores))
	EACH(test_each_fault_of_each_verb_ends_with_its_errno);
	EACH(test_every_kth_request_failing_is_not_seen_behind_retries);
	EACH(test_a_body_cut_on_its_way_is_not_a_short_object);
	EACH(test_an_etag_of_other_bytes_is_an_error_where_it_is_compared);
	EACH(test_a_storm_of_503_passes);
	EACH(test_opening_fails_with_a_reason_whatever_goes_wrong);
	EACH(test_a_black_hole_ends_at_the_deadline);
	EACH(test_a_black_hole_ends_at_the_deadline_of_the_request);
	EACH(test_what_hangs_can_be_cancelled);
	EACH(test_hostile_documents_are_refused_in_little_memory);
	EACH(test_deletions_of_many_are_judged_one_by_one);
	return unit_run(s);
}
