/* SPDX-License-Identifier: Apache-2.0 */
#include "base/req.h"

#include "base/clock.h"
#include "unit.h"
#include <string.h>

START_TEST(test_requests_are_numbered_and_have_no_deadline)
{
	struct tess_req a, b;

	memset(&a, 0xff, sizeof(a));
	req_begin(&a, "read");
	req_begin(&b, "write");
	ck_assert_uint_gt(a.id, 0);
	ck_assert_uint_gt(b.id, a.id);
	ck_assert_str_eq(a.op, "read");
	ck_assert_uint_eq(a.ino, 0);
	ck_assert_uint_eq(a.uid, 0);
	ck_assert_int_eq(a.deadline, CLOCK_NEVER);
	ck_assert(!req_expired(&a));
}
END_TEST

START_TEST(test_a_request_ends_at_its_deadline_or_when_cancelled)
{
	struct tess_req r;

	clock_fake(100, 100);
	req_begin(&r, "read");
	ck_assert_int_eq(r.start, 100);
	r.deadline = 200;
	clock_sleep(99);
	ck_assert(!req_expired(&r));
	clock_sleep(1);
	ck_assert(req_expired(&r));
	r.deadline = CLOCK_NEVER;
	ck_assert(!req_expired(&r));
	atomic_store(&r.cancelled, true);
	ck_assert(req_expired(&r));
}
END_TEST

UNIT_MAIN("req", test_requests_are_numbered_and_have_no_deadline,
	  test_a_request_ends_at_its_deadline_or_when_cancelled)
