/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/* Every outcome that http.h promises, from a server that says it byte for byte. */
#include "store/http.h"

#include "base/clock.h"
#include "base/err.h"
#include "unit.h"
#include "wirecall.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- one reply each ---- */

enum after { CLOSES, RESETS, HOLDS };

struct script {
	const char *name, *method, *reply;
	enum after  after;
	size_t      into;	/* bytes of `into` */
	int         err;
	unsigned    status;
	uint64_t    got, length, total;
	const char *text;	/* of reply */
};

#define NONE UINT64_MAX
static const struct script scripts[] = {
	{ "whole", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", HOLDS, 8, 0, 200, 5, 5, NONE, "" },
	{ "whole, to reply", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", HOLDS, 0, 0, 200, 0, 5,
	  NONE, "hello" },
	{ "range", "GET",
	  "HTTP/1.1 206 Partial\r\nContent-Length: 3\r\nContent-Range: bytes 2-4/99\r\n\r\nllo", HOLDS, 3, 0,
	  206, 3, 3, 99, "" },
	{ "range of unknown whole", "GET",
	  "HTTP/1.1 206 P\r\nContent-Length: 1\r\nContent-Range: bytes 0-0/*\r\n\r\nh", HOLDS, 1, 0, 206, 1, 1,
	  NONE, "" },
	{ "outside the range", "GET",
	  "HTTP/1.1 416 No\r\nContent-Length: 2\r\nContent-Range: bytes */7\r\n\r\nno", HOLDS, 3, 0, 416, 0, 2, 7,
	  "no" },
	{ "lengths that are none", "GET",
	  "HTTP/1.1 206 P\r\nTransfer-Encoding: chunked\r\nContent-Range: bytes 0-0/7x\r\n\r\n0\r\n\r\n", HOLDS, 1,
	  0, 206, 0, NONE, NONE, "" },
	{ "error, not into", "GET", "HTTP/1.1 404 Not\r\nContent-Length: 3\r\n\r\nnix", HOLDS, 8, 0, 404, 0, 3, NONE,
	  "nix" },
	{ "empty", "GET", "HTTP/1.1 204 Nothing\r\n\r\n", HOLDS, 8, 0, 204, 0, NONE, NONE, "" },
	{ "head", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 123456789012\r\n\r\n", HOLDS, 8, 0, 200, 0,
	  123456789012, NONE, "" },
	{ "redirect", "GET", "HTTP/1.1 307 There\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n", HOLDS, 8, 0, 307, 0,
	  0, NONE, "" },
	{ "chunks", "GET",
	  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: r\r\n\r\n",
	  HOLDS, 8, 0, 200, 5, NONE, NONE, "" },
	{ "old and closed", "GET", "HTTP/1.0 200 OK\r\n\r\nhello", CLOSES, 8, 0, 200, 5, NONE, NONE, "" },
	{ "informed first", "GET",
	  "HTTP/1.1 103 Hints\r\nLink: x\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nh",
	  HOLDS, 8, 0, 200, 1, 1, NONE, "" },
	{ "more follows than announced", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello", HOLDS, 8, 0,
	  200, 2, 2, NONE, "" },
	{ "short", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", CLOSES, 9, -ECONNRESET, 200, 5, 9,
	  NONE, "" },
	{ "short chunks", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", CLOSES, 9,
	  -ECONNRESET, 200, 3, NONE, NONE, "" },
	{ "reset in the body", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", RESETS, 9, -ECONNRESET,
	  200, NONE, 9, NONE, "" },
	{ "closed in the head", "GET", "HTTP/1.1 200 OK\r\nContent-Le", CLOSES, 9, -ECONNRESET, 200, NONE,
	  NONE, NONE, "" },
	{ "reset at once", "GET", "", RESETS, 9, -ECONNRESET, 0, 0, NONE, NONE, "" },
	{ "closed at once", "GET", "", CLOSES, 9, -ECONNRESET, 0, 0, NONE, NONE, "" },
	{ "garbage", "GET", "SSH-2.0-OpenSSH_9.2\r\n", HOLDS, 9, -EPROTO, 0, 0, NONE, NONE, "" },
	{ "garbled chunks", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n", HOLDS, 9,
	  -EPROTO, 200, 0, NONE, NONE, "" },
	{ "too long for into", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", HOLDS, 4, -EPROTO, 200, NONE,
	  5, NONE, "" },
	{ "too long for reply", "GET", "HTTP/1.1 403 No\r\nContent-Length: 11\r\n\r\nhello world", HOLDS, 4, -EPROTO,
	  403, 0, 11, NONE, "" },
};

static void serve_script(struct wire_peer *p, void *arg)
{
	const struct script *s = arg;

	if (!wire_read(p))
		return;
	wire_say(p, s->reply);
	if (s->after == RESETS) {
		usleep(50000);	/* the reply is to be read before the reset discards it */
		wire_reset(p);
	} else if (s->after == HOLDS) {
		wire_hold(p);
	}
}

START_TEST(each_reply_has_the_outcome_that_the_table_says)
{
	const struct script *s = &scripts[_i];
	struct wire *w = wire_start(serve_script, (void *)s);
	char buf[16] = "";
	struct iovec v[2] = { { buf, s->into / 2 }, { buf + s->into / 2, s->into - s->into / 2 } };
	struct http_call c = { .method = s->method, .url = wc_url, .into = wc_vector(v, s->into ? 2 : 0) };

	wc_begin(&wc_plain, w);
	c.reply_max = 10;
	ck_assert_msg(http_do(wc_http, &c) == s->err, "%s: %s (%s)", s->name, err_name(c.err), http_why(&c));
	ck_assert_msg(c.status == s->status, "%s: %u", s->name, c.status);
	ck_assert_msg(s->got == NONE || c.got == s->got, "%s: got %llu", s->name,
		      (unsigned long long)c.got);
	ck_assert_msg(c.length == s->length, "%s: length %llu", s->name, (unsigned long long)c.length);
	ck_assert_msg(c.total == s->total, "%s: total %llu", s->name, (unsigned long long)c.total);
	ck_assert_str_eq(text_str(&c.reply), s->text);
	if (s->got && s->got != NONE && s->err == 0)
		ck_assert_msg(!memcmp(buf, strstr(s->reply, "bc\r") ? "abcde" :
					   strstr(s->reply, "llo") && s->got == 3 ? "llo" : "hello",
				      s->got), "%s: %s", s->name, buf);
	ck_assert_int_eq(c.first_byte > 0, c.status > 0);
	ck_assert_int_eq(*http_why(&c) != '\0', c.err != 0);
	ck_assert_uint_eq(wire_conns(w), 1);
	http_call_done(&c);
	http_call_done(&c);
	wc_end(w);
}
END_TEST

/* ---- what is sent ---- */

START_TEST(a_request_is_what_the_caller_said_and_nothing_else)
{
	static struct wc_seen s;
	struct wire *w = wire_start(wc_serve_seen, &s);
	char want[512];
	struct iovec v = { (char *)"body", 4 };
	struct http_call c = wc_get();

	wc_begin(&wc_plain, w);
	snprintf(wc_url, sizeof(wc_url), "http://127.0.0.1:%u/a/../b//c%%2F?q=1", wire_port(w));
	c.headers = "X-One: 1\nx-two:  b c\r\nX-Empty:\n";
	CLEAN(http_do(wc_http, &c));
	http_call_done(&c);
	snprintf(want, sizeof(want),
		 "GET /a/../b//c%%2F?q=1 HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nX-One: 1\r\nx-two:  b c\r\n"
		 "X-Empty:\r\n\r\n", wire_port(w));
	ck_assert_str_eq(s.head, want);

	c = wc_get();
	c.method = "PUT";
	CLEAN(http_do(wc_http, &c));
	http_call_done(&c);
	ck_assert_ptr_nonnull(strstr(s.head, "PUT /a"));
	ck_assert_ptr_nonnull(strstr(s.head, "\r\nContent-Length: 0\r\n"));
	ck_assert_ptr_null(strstr(s.head, "Expect"));

	c = wc_get();
	c.method = "POST";
	c.body = wc_vector(&v, 1);
	CLEAN(http_do(wc_http, &c));
	http_call_done(&c);
	ck_assert_ptr_nonnull(strstr(s.head, "POST /a"));
	ck_assert_ptr_nonnull(strstr(s.head, "\r\nContent-Length: 4\r\n"));
	ck_assert_ptr_null(strstr(s.head, "Content-Type"));

	c = wc_get();
	c.method = "DELETE";
	CLEAN(http_do(wc_http, &c));
	http_call_done(&c);
	ck_assert_ptr_nonnull(strstr(s.head, "DELETE /a"));
	ck_assert_ptr_null(strstr(s.head, "Content-Length"));
	ck_assert_uint_eq(wire_conns(w), 1);
	wc_end(w);
}
END_TEST

START_TEST(no_credentials_come_from_elsewhere)
{
	char dir[] = "/tmp/check_http.XXXXXX", path[64];
	static struct wc_seen s;
	struct wire *w = wire_start(wc_serve_seen, &s);
	struct http_call c = wc_get();
	FILE *f;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/.netrc", dir);
	f = fopen(path, "w");
	fprintf(f, "machine 127.0.0.1 login me password secret\n");
	fclose(f);
	setenv("HOME", dir, 1);
	wc_begin(&wc_plain, w);
	CLEAN(http_do(wc_http, &c));
	http_call_done(&c);
	ck_assert_ptr_null(strcasestr(s.head, "authorization"));
	snprintf(wc_url, sizeof(wc_url), "http://me:secret@127.0.0.1:%u/", wire_port(w));
	ck_assert_int_eq(http_do(wc_http, &c), -EINVAL);
	ck_assert_ptr_null(strstr(http_why(&c), "secret"));
	http_call_done(&c);
	unlink(path);
	rmdir(dir);
	wc_end(w);
}
END_TEST

START_TEST(what_is_no_request_is_refused)
{
	struct http_call c = wc_get();

	wc_begin(&wc_plain, NULL);
	c.url = "http://";
	ck_assert_int_eq(http_do(wc_http, &c), -EINVAL);
	http_call_done(&c);
	c.url = "file:///etc/passwd";
	ck_assert_int_eq(http_do(wc_http, &c), -EPROTO);
	http_call_done(&c);
	c.url = "http://127.0.0.1:1/";
	c.headers = "no colon\n";
	ck_assert_int_eq(http_do(wc_http, &c), -EINVAL);
	http_call_done(&c);
	http_free(wc_http);
}
END_TEST

START_TEST(headers_are_found_in_any_case_unfolded_and_trimmed)
{
	static struct wc_seen s = { .reply = "HTTP/1.1 200 OK\r\nETag:   \"x\"  \r\nX-FOLD: one\r\n \t two\r\n"
					  "x-none:\r\nRetry-After: 7\r\nCONTENT-length: 0\r\n\r\n" };
	struct wire *w = wire_start(wc_serve_seen, &s);
	struct http_call c = wc_get();

	wc_begin(&wc_plain, w);
	ck_assert_ptr_null(http_header(&c, "etag"));
	CLEAN(http_do(wc_http, &c));
	ck_assert_str_eq(http_header(&c, "etag"), "\"x\"");
	ck_assert_str_eq(http_header(&c, "X-fold"), "one two");
	ck_assert_str_eq(http_header(&c, "X-None"), "");
	ck_assert_ptr_null(http_header(&c, "one two"));
	ck_assert_ptr_null(http_header(&c, "e"));
	ck_assert_uint_eq(c.length, 0);
	ck_assert_int_eq(http_retry_after(&c), 7 * NS_PER_S);
	http_call_done(&c);
	ck_assert_ptr_null(http_header(&c, "etag"));
	wc_end(w);
}
END_TEST

START_TEST(retry_after_is_seconds_or_a_date_and_bounded)
{
	static const struct {
		const char *headers;
		int64_t     s;
	} rows[] = {
		{ "", 0 },
		{ "Retry-After: 0\r\n", 0 },
		{ "Retry-After: 59\r\n", 59 },
		{ "Retry-After: 61\r\n", 60 },
		{ "Retry-After: 99999999999999999999999\r\n", 60 },
		{ "Retry-After: -5\r\n", 0 },
		{ "Retry-After: soon\r\n", 0 },
		{ "Date: Wed, 21 Oct 2015 07:28:00 GMT\r\nRetry-After: Wed, 21 Oct 2015 07:28:09 GMT\r\n", 9 },
		{ "Date: Wed, 21 Oct 2015 07:28:00 GMT\r\nRetry-After: Wed, 21 Oct 2015 07:27:00 GMT\r\n", 0 },
		{ "Date: Wed, 21 Oct 2015 07:28:00 GMT\r\nRetry-After: Wed, 21 Oct 2095 07:27:00 GMT\r\n", 60 },
		{ "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", 0 },
	};
	static char replies[sizeof(rows) / sizeof(rows[0])][512];
	static struct wc_seen s;
	struct wire *w = wire_start(wc_serve_seen, &s);

	wc_begin(&wc_plain, w);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_call c = wc_get();

		snprintf(replies[i], sizeof(replies[i]), "HTTP/1.1 503 Busy\r\n%sContent-Length: 0\r\n\r\n",
			 rows[i].headers);
		s.reply = replies[i];
		CLEAN(http_do(wc_http, &c));
		ck_assert_msg(http_retry_after(&c) == rows[i].s * NS_PER_S, "%s", rows[i].headers);
		http_call_done(&c);
	}
	wc_end(w);
}
END_TEST

static void serve_endless(struct wire_peer *p, void *arg)
{
	char line[1024];

	(void)arg;
	if (!wire_read(p))
		return;
	memset(line, 'x', sizeof(line));
	memcpy(line, "X: ", 3);
	memcpy(line + sizeof(line) - 3, "\r\n", 3);
	wire_say(p, "HTTP/1.1 200 OK\r\n");
	for (int i = 0; i < 10000; i++)
		wire_say(p, line);
}

START_TEST(headers_without_end_are_a_protocol_error)
{
	struct wire *w = wire_start(serve_endless, NULL);
	struct http_call c = wc_get();

	wc_begin(&wc_plain, w);
	ck_assert_int_eq(http_do(wc_http, &c), -EPROTO);
	http_call_done(&c);
	wc_end(w);
}
END_TEST

/* ---- never sent ---- */

static unsigned closed_port(void)
{
	struct wire *w = wire_start(wc_serve_seen, NULL);
	unsigned port = wire_port(w);

	wire_stop(w);
	return port;
}

START_TEST(what_was_never_sent_is_told_apart)
{
	struct http_call c = wc_get();

	wc_begin(&wc_plain, NULL);
	snprintf(wc_url, sizeof(wc_url), "http://127.0.0.1:%u/", closed_port());
	ck_assert_int_eq(http_do(wc_http, &c), -ECONNREFUSED);
	ck_assert_uint_eq(c.status, 0);
	ck_assert_str_ne(http_why(&c), "");
	http_call_done(&c);
	c.url = "http://no-such-host.invalid/";
	ck_assert_int_eq(http_do(wc_http, &c), -EHOSTUNREACH);
	http_call_done(&c);
	ck_assert_uint_eq(wc_counter("http.t.err.unsent "), 2);
	http_free(wc_http);
}
END_TEST

START_TEST(ipv6_is_spoken)
{
	static struct wc_seen s;
	struct wire *w = wire_start_on("::1", wc_serve_seen, &s);
	struct http_call c = wc_get();
	char host[64];

	if (!w) {
		fprintf(stderr, "check_http: no IPv6 on loopback here: not tested\n");
		return;
	}
	wc_begin(&wc_plain, NULL);
	snprintf(wc_url, sizeof(wc_url), "http://[::1]:%u/", wire_port(w));
	CLEAN(http_do(wc_http, &c));
	http_call_done(&c);
	snprintf(host, sizeof(host), "\r\nHost: [::1]:%u\r\n", wire_port(w));
	ck_assert_ptr_nonnull(strstr(s.head, host));
	wc_end(w);
}
END_TEST

START_TEST(a_proxy_is_the_one_configured_or_of_the_environment_or_none)
{
	static struct wc_seen s, direct;
	struct wire *proxy = wire_start(wc_serve_seen, &s), *w = wire_start(wc_serve_seen, &direct);
	struct http_conf conf = { .name = "t" };
	char at[64];
	struct http_call c = wc_get();

	snprintf(at, sizeof(at), "http://127.0.0.1:%u", wire_port(proxy));
	setenv("http_proxy", at, 1);
	unsetenv("no_proxy");
	unsetenv("NO_PROXY");
	for (int i = 0; i < 4; i++) {
		/* environment; its exception; none; ours */
		if (i == 1)
			setenv("no_proxy", "127.0.0.1", 1);
		if (i == 3) {
			unsetenv("http_proxy");
			unsetenv("no_proxy");
		}
		conf.proxy = i == 2 ? "" : i == 3 ? at : NULL;
		s.head[0] = direct.head[0] = '\0';
		wc_begin(&conf, w);
		CLEAN(http_do(wc_http, &c));
		http_call_done(&c);
		http_free(wc_http);
		ck_assert_int_eq(s.head[0] != '\0', i == 0 || i == 3);
		ck_assert_int_eq(direct.head[0] != '\0', i == 1 || i == 2);
		if (s.head[0])
			ck_assert_ptr_nonnull(strstr(s.head, "GET http://127.0.0.1:"));
	}
	conf.proxy = "http://user:hunter2@[broken";
	wc_begin(&conf, w);
	ck_assert_int_ne(http_do(wc_http, &c), 0);
	ck_assert_ptr_null(strstr(http_why(&c), "hunter2"));
	http_call_done(&c);
	wc_end(w);
	wire_stop(proxy);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("http");
	TCase *t = tcase_create("http");

	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	tcase_add_loop_test(t, each_reply_has_the_outcome_that_the_table_says, 0,
			    (int)(sizeof(scripts) / sizeof(scripts[0])));
	tcase_add_test(t, a_request_is_what_the_caller_said_and_nothing_else);
	tcase_add_test(t, no_credentials_come_from_elsewhere);
	tcase_add_test(t, what_is_no_request_is_refused);
	tcase_add_test(t, headers_are_found_in_any_case_unfolded_and_trimmed);
	tcase_add_test(t, retry_after_is_seconds_or_a_date_and_bounded);
	tcase_add_test(t, headers_without_end_are_a_protocol_error);
	tcase_add_test(t, what_was_never_sent_is_told_apart);
	tcase_add_test(t, ipv6_is_spoken);
	tcase_add_test(t, a_proxy_is_the_one_configured_or_of_the_environment_or_none);
	return unit_run(s);
}
