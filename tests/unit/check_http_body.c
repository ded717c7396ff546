/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/* Uploads and what comes back, and connections that are used again. */
#include "store/http.h"

#include "base/err.h"
#include "unit.h"
#include "wirecall.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- uploads ---- */

static void fill(char *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)((seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407) >> 56);
}

/* `n` bytes in pieces of odd sizes there and back. */
static void echo(size_t n)
{
	char *out = malloc(n), *in = calloc(1, n);
	struct iovec o[3] = { { out, n / 3 }, { out + n / 3, 0 }, { out + n / 3, n - n / 3 } };
	struct iovec v[2] = { { in, n - n / 7 }, { in + n - n / 7, n / 7 } };
	struct http_call c = { .method = "PUT", .url = wc_url, .body = wc_vector(o, 3), .into = wc_vector(v, 2) };

	fill(out, n, n);
	ck_assert_msg(http_do(wc_http, &c) == 0, "%s", http_why(&c));
	ck_assert_uint_eq(c.got, n);
	ck_assert(!memcmp(in, out, n));
	http_call_done(&c);
	free(in);
	free(out);
}

START_TEST(bodies_of_any_size_arrive_whole)
{
	static const size_t sizes[] = { 1, 3, 1000, 65535, 65536, 65537, 262144, 1 << 20, (1 << 20) + 1,
					5000011 };
	struct wire *w = wire_start(wc_serve_echo, NULL);

	wc_begin(&wc_plain, w);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		echo(sizes[i]);
	ck_assert_uint_eq(wire_conns(w), 1);
	ck_assert_uint_eq(wc_counter("http.t.reused "), sizeof(sizes) / sizeof(sizes[0]) - 1);
	ck_assert_uint_eq(wc_counter("http.t.connects "), 1);
	ck_assert_uint_eq(wc_counter("http.t.calls "), sizeof(sizes) / sizeof(sizes[0]));
	ck_assert_uint_gt(wc_counter("http.t.bytes_up "), 5000011);
	ck_assert_uint_gt(wc_counter("http.t.bytes_down "), 5000011);
	wc_end(w);
}
END_TEST

START_TEST(a_large_upload_asks_first_and_a_small_one_does_not)
{
	atomic_uint continues = 0;
	struct wire *w = wire_start(wc_serve_echo, &continues);

	wc_begin(&wc_plain, w);
	echo(1 << 20);
	ck_assert_uint_eq(atomic_load(&continues), 0);
	echo((1 << 20) + 1);
	ck_assert_uint_eq(atomic_load(&continues), 1);
	echo(3 << 20);
	ck_assert_uint_eq(atomic_load(&continues), 2);
	wc_end(w);
}
END_TEST

static atomic_uint expects;

/* Does not know Expect: it waits for the body. */
static void serve_deaf(struct wire_peer *p, void *arg)
{
	(void)arg;
	while (wire_read_head(p)) {
		atomic_fetch_add(&expects, strcasestr(p->head, "expect") != NULL);
		if (!wire_read_body(p))
			return;
		wire_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	}
}

START_TEST(a_server_that_does_not_know_100_is_asked_once)
{
	struct wire *w = wire_start(serve_deaf, NULL);
	char *p = calloc(1, 2 << 20);
	struct iovec v = { p, 2 << 20 };

	wc_begin(&wc_plain, w);
	for (int i = 0; i < 3; i++) {
		struct http_call c = { .method = "PUT", .url = wc_url, .body = wc_vector(&v, 1) };

		CLEAN(http_do(wc_http, &c));
		ck_assert_uint_eq(c.status, 200);
		http_call_done(&c);
	}
	ck_assert_uint_eq(atomic_load(&expects), 1);
	free(p);
	wc_end(w);
}
END_TEST

/* Refuses before the body. */
static void serve_refuse(struct wire_peer *p, void *arg)
{
	(void)arg;
	if (!wire_read_head(p))
		return;
	wire_say(p, "HTTP/1.1 503 Slow\r\nContent-Length: 4\r\nConnection: close\r\n\r\nslow");
	shutdown(p->fd, SHUT_WR);
	wire_hold(p);
}

START_TEST(an_upload_refused_at_its_head_has_the_status)
{
	struct wire *w = wire_start(serve_refuse, NULL);
	char *p = calloc(1, 2 << 20);
	struct iovec v = { p, 2 << 20 };
	struct http_call c = { .method = "PUT", .url = wc_url, .body = wc_vector(&v, 1) };

	wc_begin(&wc_plain, w);
	CLEAN(http_do(wc_http, &c));
	ck_assert_uint_eq(c.status, 503);
	ck_assert_str_eq(text_str(&c.reply), "slow");
	http_call_done(&c);
	ck_assert_uint_lt(wc_counter("http.t.bytes_up "), 2 << 20);
	free(p);
	wc_end(w);
}
END_TEST

/* ---- kept connections ---- */

struct stale {
	size_t read;	/* of the body of the second request on a connection, before the end; NONE: not even the head */
	bool   always;	/* each connection ends so, even on its first request */
};

static void serve_stale(struct wire_peer *p, void *arg)
{
	const struct stale *s = arg;
	char c[4096];

	if (!s->always) {
		if (!wire_read(p))
			return;
		wire_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
		if (p->conn % 2) {
			wire_hold(p);
			return;
		}
	}
	if (s->read == SIZE_MAX)
		return;	/* closed while idle */
	if (!wire_read_head(p))
		return;
	for (size_t n = p->nspare; n < s->read && n < p->body_len; n += sizeof(c))
		if (read(p->fd, c, sizeof(c)) <= 0)
			return;
	wire_reset(p);
}

START_TEST(a_kept_connection_that_was_closed_is_no_error)
{
	static const struct stale how[] = { { SIZE_MAX, false }, { 0, false }, { 100000, false } };
	static char p[3 << 20];
	struct wire *w = wire_start(serve_stale, (void *)&how[_i / 3]);
	struct iovec v = { p, _i % 3 == 1 ? 1000 : sizeof(p) };

	wc_begin(&wc_plain, w);
	for (int i = 0; i < 6; i++) {
		struct http_call c = { .method = _i % 3 ? "PUT" : "GET", .url = wc_url };

		if (_i % 3)
			c.body = wc_vector(&v, 1);
		ck_assert_msg(http_do(wc_http, &c) == 0, "call %d: %s: %s", i, err_name(c.err), http_why(&c));
		ck_assert_uint_eq(c.status, 200);
		ck_assert_str_eq(text_str(&c.reply), "ok");
		http_call_done(&c);
		if (_i / 3 == 0)
			usleep(2000);
		if (i % 2)
			http_free(wc_http), wc_begin(&wc_plain, w);	/* the odd connections answer once */
	}
	wc_end(w);
}
END_TEST

START_TEST(a_server_that_always_resets_is_an_error_at_once)
{
	static const struct stale how = { 0, true };
	struct wire *w = wire_start(serve_stale, (void *)&how);
	struct http_call c = wc_get();

	wc_begin(&wc_plain, w);
	ck_assert_int_eq(http_do(wc_http, &c), -ECONNRESET);
	http_call_done(&c);
	ck_assert_uint_eq(wire_conns(w), 1);
	ck_assert_uint_eq(wc_counter("http.t.err.reset "), 1);
	wc_end(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("http_body");
	TCase *t = tcase_create("http_body");

	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	tcase_add_test(t, bodies_of_any_size_arrive_whole);
	tcase_add_test(t, a_large_upload_asks_first_and_a_small_one_does_not);
	tcase_add_test(t, a_server_that_does_not_know_100_is_asked_once);
	tcase_add_test(t, an_upload_refused_at_its_head_has_the_status);
	tcase_add_loop_test(t, a_kept_connection_that_was_closed_is_no_error, 0, 9);
	tcase_add_test(t, a_server_that_always_resets_is_an_error_at_once);
	return unit_run(s);
}
