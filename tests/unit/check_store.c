/* SPDX-License-Identifier: Apache-2.0 */
/* The asserting front: what a caller or a store does wrong stops there. */
#include "store/store.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "unit.h"

#include <signal.h>
#include <string.h>

static struct tess_req req;
static int bad_err;

static void bad_submit(struct store *s, struct store_op *op)
{
	(void)s;
	store_op_done(op, bad_err);
}

static int bad_usage(struct store *s, struct store_usage *ret)
{
	(void)s;
	ret->total = 1;
	ret->free = 2;
	return 0;
}

static const struct store_ops bad_ops = { .name = "bad", .submit = bad_submit, .usage = bad_usage };
static struct store bad = { .ops = &bad_ops, .caps = { .max_object = 100 } };

static void nothing(struct store_op *op)
{
	(void)op;
}

static struct store_op op_of(enum store_code code)
{
	struct store_op op = { .req = &req, .code = code, .key = { "a" }, .done = nothing };

	return op;
}

START_TEST(test_an_op_without_done_aborts)
{
	struct store_op op = op_of(STORE_HEAD);

	op.done = NULL;
	store_submit(&bad, &op);
}
END_TEST

START_TEST(test_an_op_without_a_name_aborts)
{
	struct store_op op = op_of(STORE_DEL);

	op.key.name[0] = 0;
	store_submit(&bad, &op);
}
END_TEST

START_TEST(test_a_get_of_another_length_than_its_memory_aborts)
{
	char p[8];
	struct iovec v = { p, 8 };
	struct store_op op = op_of(STORE_GET);

	op.range = (struct tess_range){ 0, 9 };
	op.data = (struct tess_iov){ &v, 1, 8 };
	store_submit(&bad, &op);
}
END_TEST

START_TEST(test_a_put_whose_pieces_do_not_sum_up_aborts)
{
	char p[8] = "";
	struct iovec v = { p, 8 };
	struct store_op op = op_of(STORE_PUT);

	op.data = (struct tess_iov){ &v, 1, 9 };
	store_submit(&bad, &op);
}
END_TEST

START_TEST(test_a_listing_without_room_aborts)
{
	struct store_list l = { .max = 0 };
	struct store_op op = op_of(STORE_LIST);

	op.list = &l;
	store_submit(&bad, &op);
}
END_TEST

START_TEST(test_a_store_that_reports_a_positive_error_aborts)
{
	struct store_op op = op_of(STORE_HEAD);

	bad_err = 5;
	store_submit(&bad, &op);
}
END_TEST

START_TEST(test_a_store_with_more_free_than_total_aborts)
{
	struct store_usage u;

	(void)store_usage(&bad, &u);
}
END_TEST

START_TEST(test_an_object_larger_than_the_store_takes_is_efbig)
{
	static char p[101];

	bad_err = 0;
	CLEAN(store_put(&bad, &req, "a", p, 100));
	ck_assert_int_eq(store_put(&bad, &req, "a", p, 101), -EFBIG);
}
END_TEST

START_TEST(test_names)
{
	struct tess_key k;
	char longest[STORE_NAME_MAX + 2];

	memset(longest, 'z', sizeof(longest));
	longest[STORE_NAME_MAX + 1] = 0;
	ck_assert_int_eq(store_key_set(&k, longest), -ENAMETOOLONG);
	longest[STORE_NAME_MAX] = 0;
	CLEAN(store_key_set(&k, longest));
	CLEAN(store_key_set(&k, "0-9a_z.x"));
	ck_assert_str_eq(k.name, "0-9a_z.x");
	ck_assert_int_eq(store_key_set(&k, ""), -EINVAL);
	ck_assert_int_eq(store_key_set(&k, "A"), -EINVAL);
	ck_assert_int_eq(store_key_set(&k, "a b"), -EINVAL);
	ck_assert_int_eq(store_key_set(&k, "\xc3\xa9"), -EINVAL);
	ck_assert_str_eq(k.name, "0-9a_z.x");
}
END_TEST

START_TEST(test_every_kind_of_request_has_a_fault_point)
{
	CLEAN(fault_set("store.put=EIO,store.get=ENOSPC,store.head=EPERM,store.del=EACCES,store."
			"list=ENOMEM"));
	ck_assert_int_eq(store_fault(STORE_PUT), -EIO);
	ck_assert_int_eq(store_fault(STORE_GET), -ENOSPC);
	ck_assert_int_eq(store_fault(STORE_HEAD), -EPERM);
	ck_assert_int_eq(store_fault(STORE_DEL), -EACCES);
	ck_assert_int_eq(store_fault(STORE_LIST), -ENOMEM);
	CLEAN(fault_set(NULL));
	CLEAN(store_fault(STORE_PUT));
}
END_TEST

START_TEST(test_optional_calls_may_be_missing)
{
	static const struct store_ops least = { .name = "least", .submit = bad_submit };
	struct store s = { .ops = &least };
	struct text out = TEXT_INIT;
	struct store_op op = op_of(STORE_HEAD);
	struct store_usage u;

	store_cancel(&s, &op);
	CLEAN(store_barrier(&s, &req));
	CLEAN(store_usage(&s, &u));
	ck_assert_uint_eq(u.total, 0);
	ck_assert_uint_eq(u.objects, UINT64_MAX);
	ck_assert_int_eq(store_check(&s, &out), 0);
	store_to_text(&s, &out);
	ck_assert_str_eq(text_str(&out), "least\n");
	store_close(NULL);
	text_done(&out);
}
END_TEST

int main(void)
{
	const TTest *const aborts[] = {
		test_an_op_without_done_aborts,
		test_an_op_without_a_name_aborts,
		test_a_get_of_another_length_than_its_memory_aborts,
		test_a_put_whose_pieces_do_not_sum_up_aborts,
		test_a_listing_without_room_aborts,
		test_a_store_that_reports_a_positive_error_aborts,
		test_a_store_with_more_free_than_total_aborts,
	};
	const TTest *const tests[] = {
		test_an_object_larger_than_the_store_takes_is_efbig,
		test_names,
		test_every_kind_of_request_has_a_fault_point,
		test_optional_calls_may_be_missing,
	};
	Suite *s = unit_suite("store", tests, sizeof(tests) / sizeof(tests[0]));
	TCase *c = tcase_create("aborts");

	req_begin(&req, "test");
	suite_add_tcase(s, c);
	for (size_t i = 0; i < sizeof(aborts) / sizeof(aborts[0]); i++)
		tcase_add_test_raise_signal(c, aborts[i], SIGABRT);
	return unit_run(s);
}
