/* SPDX-License-Identifier: Apache-2.0 */
#include "store/window.h"

#include "base/err.h"
#include "unit.h"

/* A service that works on `width` requests of 1 ms at a time; more wait their turn. */
static int64_t service(unsigned running, unsigned width)
{
	return running <= width ? 1000000 : 1000000ll * running / width;
}

static void run(struct window *w, unsigned width, unsigned offered, unsigned answers)
{
	struct store_op op = { .code = STORE_GET, .data.len = 4096 };

	for (unsigned i = 0; i < answers; i++) {
		unsigned n = MIN(offered, window_size(w));

		window_ended(w, &op, service(n, width), n);
	}
}

START_TEST(test_it_grows_while_latency_holds_and_stops_when_requests_only_wait)
{
	static const unsigned widths[] = { 1, 4, 20, 100 };
	struct window w;

	for (unsigned i = 0; i < ARRAY_SIZE(widths); i++) {
		window_init(&w, 1, 1, 256);
		run(&w, widths[i], 1000, 100000);
		ck_assert_uint_ge(window_size(&w), widths[i]);
		ck_assert_uint_le(window_size(&w), widths[i] * 3 + 1);
	}
}
END_TEST

START_TEST(test_it_shrinks_when_the_service_gets_narrower)
{
	struct window w;

	window_init(&w, 1, 16, 256);
	run(&w, 64, 1000, 50000);
	ck_assert_uint_ge(window_size(&w), 64);
	run(&w, 4, 1000, 5000);
	ck_assert_uint_le(window_size(&w), 40);
}
END_TEST

START_TEST(test_an_idle_window_does_not_grow)
{
	struct window w;

	window_init(&w, 1, 16, 256);
	run(&w, 1000, 3, 100000);
	ck_assert_uint_eq(window_size(&w), 16);
}
END_TEST

START_TEST(test_a_slow_client_does_not_end_up_with_one_request)
{
	struct store_op op = { .code = STORE_GET, .data.len = 4096 };
	struct window w;

	window_init(&w, 1, 16, 256);
	for (unsigned i = 0; i < 10000; i++)
		window_ended(&w, &op, i % 10 ? 1000000 : 90000000, 64);
	ck_assert_uint_ge(window_size(&w), 4);	/* a probe takes a quarter, for a round */
	op.err = -TESS_E_STORE_BUSY;
	for (unsigned i = 0; i < 1000; i++)
		window_ended(&w, &op, 1000, 64);
	op.err = 0;
	for (unsigned i = 0; i < 20; i++)
		for (unsigned j = 0; j < 16; j++)
			window_ended(&w, &op, j ? 1000000 : 90000000, 64);
	ck_assert_uint_ge(window_size(&w), 12);
}
END_TEST

START_TEST(test_busy_halves_once_a_round_and_never_to_nothing)
{
	struct store_op op = { .code = STORE_PUT, .err = -TESS_E_STORE_BUSY };
	struct window w;

	window_init(&w, 1, 64, 256);
	for (unsigned i = 0; i < 20; i++)
		window_ended(&w, &op, 1000, 64);
	ck_assert_uint_eq(window_size(&w), 32);
	for (unsigned i = 0; i < 1000; i++)
		window_ended(&w, &op, 1000, 64);
	ck_assert_uint_eq(window_size(&w), 1);
	run(&w, 8, 1000, 1000);
	ck_assert_uint_ge(window_size(&w), 8);
}
END_TEST

START_TEST(test_a_large_body_is_not_taken_for_a_slow_service)
{
	struct store_op small = { .code = STORE_GET, .data.len = 4096 };
	struct store_op large = { .code = STORE_GET, .data.len = 4 << 20 };
	struct window w;

	window_init(&w, 1, 16, 64);
	for (unsigned i = 0; i < 20000; i++)
		window_ended(&w, i % 2 ? &small : &large, i % 2 ? 1000000 : 50000000, 64);
	ck_assert_uint_eq(window_size(&w), 64);
}
END_TEST

START_TEST(test_errors_say_nothing_about_speed)
{
	struct store_op op = { .code = STORE_PUT, .err = -EIO };
	struct window w;

	window_init(&w, 1, 16, 64);
	for (unsigned i = 0; i < 1000; i++)
		window_ended(&w, &op, i, 64);
	ck_assert_uint_eq(window_size(&w), 16);
}
END_TEST

UNIT_MAIN("window", test_it_grows_while_latency_holds_and_stops_when_requests_only_wait,
	  test_it_shrinks_when_the_service_gets_narrower, test_an_idle_window_does_not_grow,
	  test_a_slow_client_does_not_end_up_with_one_request, test_busy_halves_once_a_round_and_never_to_nothing,
	  test_a_large_body_is_not_taken_for_a_slow_service, test_errors_say_nothing_about_speed)
