/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every outcome that http.h promises, from a server that says it byte for byte.
 */
#include "store/http.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/trace.h"
#include "unit.h"
#include "wire.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct http *h;
static char url[128];

static struct http_conf plain = { .name = "t", .proxy = "" };

static void begin(const struct http_conf *conf, const struct wire *w)
{
	struct text why = TEXT_INIT;

	ck_assert_msg(http_new(&h, conf, &why) == 0, "%s", text_str(&why));
	text_done(&why);
	if (w)
		snprintf(url, sizeof(url), "http://127.0.0.1:%u/x", wire_port(w));
}

static void end(struct wire *w)
{
	http_free(h);
	wire_stop(w);
}

static struct http_call a_get(void)
{
	return (struct http_call){ .method = "GET", .url = url };
}

static struct tess_iov vector(struct iovec *v, unsigned n)
{
	struct tess_iov r = { .iov = v, .n = n };

	for (unsigned i = 0; i < n; i++)
		r.len += v[i].iov_len;
	return r;
}

static uint64_t counter(const char *name)
{
	struct text out = TEXT_INIT;
	const char *at;
	uint64_t v = 0;

	trace_dump(&out, 0);
	at = strstr(text_str(&out), name);
	if (at)
		v = strtoull(at + strlen(name), NULL, 10);
	text_done(&out);
	return v;
}

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
	struct http_call c = { .method = s->method, .url = url, .into = vector(v, s->into ? 2 : 0) };

	begin(&plain, w);
	c.reply_max = 10;
	ck_assert_msg(http_do(h, &c) == s->err, "%s: %s (%s)", s->name, err_name(c.err), http_why(&c));
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
	end(w);
}
END_TEST

/* ---- what is sent ---- */

struct seen {
	char                head[16384];
	const char *_Atomic reply;	/* what it points at stays as it is */
};

static void serve_seen(struct wire_peer *p, void *arg)
{
	struct seen *s = arg;

	while (wire_read(p)) {
		const char *reply = s->reply;

		memcpy(s->head, p->head, sizeof(s->head));
		wire_say(p, reply ? reply : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	}
}

START_TEST(a_request_is_what_the_caller_said_and_nothing_else)
{
	static struct seen s;
	struct wire *w = wire_start(serve_seen, &s);
	char want[512];
	struct iovec v = { (char *)"body", 4 };
	struct http_call c = a_get();

	begin(&plain, w);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/a/../b//c%%2F?q=1", wire_port(w));
	c.headers = "X-One: 1\nx-two:  b c\r\nX-Empty:\n";
	CLEAN(http_do(h, &c));
	http_call_done(&c);
	snprintf(want, sizeof(want),
		 "GET /a/../b//c%%2F?q=1 HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nX-One: 1\r\nx-two:  b c\r\n"
		 "X-Empty:\r\n\r\n", wire_port(w));
	ck_assert_str_eq(s.head, want);

	c = a_get();
	c.method = "PUT";
	CLEAN(http_do(h, &c));
	http_call_done(&c);
	ck_assert_ptr_nonnull(strstr(s.head, "PUT /a"));
	ck_assert_ptr_nonnull(strstr(s.head, "\r\nContent-Length: 0\r\n"));
	ck_assert_ptr_null(strstr(s.head, "Expect"));

	c = a_get();
	c.method = "POST";
	c.body = vector(&v, 1);
	CLEAN(http_do(h, &c));
	http_call_done(&c);
	ck_assert_ptr_nonnull(strstr(s.head, "POST /a"));
	ck_assert_ptr_nonnull(strstr(s.head, "\r\nContent-Length: 4\r\n"));
	ck_assert_ptr_null(strstr(s.head, "Content-Type"));

	c = a_get();
	c.method = "DELETE";
	CLEAN(http_do(h, &c));
	http_call_done(&c);
	ck_assert_ptr_nonnull(strstr(s.head, "DELETE /a"));
	ck_assert_ptr_null(strstr(s.head, "Content-Length"));
	ck_assert_uint_eq(wire_conns(w), 1);
	end(w);
}
END_TEST

START_TEST(no_credentials_come_from_elsewhere)
{
	char dir[] = "/tmp/check_http.XXXXXX", path[64];
	static struct seen s;
	struct wire *w = wire_start(serve_seen, &s);
	struct http_call c = a_get();
	FILE *f;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/.netrc", dir);
	f = fopen(path, "w");
	fprintf(f, "machine 127.0.0.1 login me password secret\n");
	fclose(f);
	setenv("HOME", dir, 1);
	begin(&plain, w);
	CLEAN(http_do(h, &c));
	http_call_done(&c);
	ck_assert_ptr_null(strcasestr(s.head, "authorization"));
	snprintf(url, sizeof(url), "http://me:secret@127.0.0.1:%u/", wire_port(w));
	ck_assert_int_eq(http_do(h, &c), -EINVAL);
	ck_assert_ptr_null(strstr(http_why(&c), "secret"));
	http_call_done(&c);
	unlink(path);
	rmdir(dir);
	end(w);
}
END_TEST

START_TEST(what_is_no_request_is_refused)
{
	struct http_call c = a_get();

	begin(&plain, NULL);
	c.url = "http://";
	ck_assert_int_eq(http_do(h, &c), -EINVAL);
	http_call_done(&c);
	c.url = "file:///etc/passwd";
	ck_assert_int_eq(http_do(h, &c), -EPROTO);
	http_call_done(&c);
	c.url = "http://127.0.0.1:1/";
	c.headers = "no colon\n";
	ck_assert_int_eq(http_do(h, &c), -EINVAL);
	http_call_done(&c);
	http_free(h);
}
END_TEST

START_TEST(headers_are_found_in_any_case_unfolded_and_trimmed)
{
	static struct seen s = { .reply = "HTTP/1.1 200 OK\r\nETag:   \"x\"  \r\nX-FOLD: one\r\n \t two\r\n"
					  "x-none:\r\nRetry-After: 7\r\nCONTENT-length: 0\r\n\r\n" };
	struct wire *w = wire_start(serve_seen, &s);
	struct http_call c = a_get();

	begin(&plain, w);
	ck_assert_ptr_null(http_header(&c, "etag"));
	CLEAN(http_do(h, &c));
	ck_assert_str_eq(http_header(&c, "etag"), "\"x\"");
	ck_assert_str_eq(http_header(&c, "X-fold"), "one two");
	ck_assert_str_eq(http_header(&c, "X-None"), "");
	ck_assert_ptr_null(http_header(&c, "one two"));
	ck_assert_ptr_null(http_header(&c, "e"));
	ck_assert_uint_eq(c.length, 0);
	ck_assert_int_eq(http_retry_after(&c), 7 * NS_PER_S);
	http_call_done(&c);
	ck_assert_ptr_null(http_header(&c, "etag"));
	end(w);
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
	static struct seen s;
	struct wire *w = wire_start(serve_seen, &s);

	begin(&plain, w);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_call c = a_get();

		snprintf(replies[i], sizeof(replies[i]), "HTTP/1.1 503 Busy\r\n%sContent-Length: 0\r\n\r\n",
			 rows[i].headers);
		s.reply = replies[i];
		CLEAN(http_do(h, &c));
		ck_assert_msg(http_retry_after(&c) == rows[i].s * NS_PER_S, "%s", rows[i].headers);
		http_call_done(&c);
	}
	end(w);
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
	struct http_call c = a_get();

	begin(&plain, w);
	ck_assert_int_eq(http_do(h, &c), -EPROTO);
	http_call_done(&c);
	end(w);
}
END_TEST

/* ---- uploads ---- */

/* Sends back what it got, in 100-continue style where that is asked for and `arg` says so. */
static void serve_echo(struct wire_peer *p, void *arg)
{
	atomic_uint *continues = arg;
	char head[128];

	while (wire_read_head(p)) {
		if (continues && strcasestr(p->head, "\r\nExpect: 100-continue\r\n")) {
			atomic_fetch_add(continues, 1);
			wire_say(p, "HTTP/1.1 100 Continue\r\n\r\n");
		}
		if (!wire_read_body(p))
			return;
		snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", p->body_len);
		wire_say(p, head);
		wire_send(p, p->body, p->body_len);
	}
}

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
	struct http_call c = { .method = "PUT", .url = url, .body = vector(o, 3), .into = vector(v, 2) };

	fill(out, n, n);
	ck_assert_msg(http_do(h, &c) == 0, "%s", http_why(&c));
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
	struct wire *w = wire_start(serve_echo, NULL);

	begin(&plain, w);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		echo(sizes[i]);
	ck_assert_uint_eq(wire_conns(w), 1);
	ck_assert_uint_eq(counter("http.t.reused "), sizeof(sizes) / sizeof(sizes[0]) - 1);
	ck_assert_uint_eq(counter("http.t.connects "), 1);
	ck_assert_uint_eq(counter("http.t.calls "), sizeof(sizes) / sizeof(sizes[0]));
	ck_assert_uint_gt(counter("http.t.bytes_up "), 5000011);
	ck_assert_uint_gt(counter("http.t.bytes_down "), 5000011);
	end(w);
}
END_TEST

START_TEST(a_large_upload_asks_first_and_a_small_one_does_not)
{
	atomic_uint continues = 0;
	struct wire *w = wire_start(serve_echo, &continues);

	begin(&plain, w);
	echo(1 << 20);
	ck_assert_uint_eq(atomic_load(&continues), 0);
	echo((1 << 20) + 1);
	ck_assert_uint_eq(atomic_load(&continues), 1);
	echo(3 << 20);
	ck_assert_uint_eq(atomic_load(&continues), 2);
	end(w);
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

	begin(&plain, w);
	for (int i = 0; i < 3; i++) {
		struct http_call c = { .method = "PUT", .url = url, .body = vector(&v, 1) };

		CLEAN(http_do(h, &c));
		ck_assert_uint_eq(c.status, 200);
		http_call_done(&c);
	}
	ck_assert_uint_eq(atomic_load(&expects), 1);
	free(p);
	end(w);
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
	struct http_call c = { .method = "PUT", .url = url, .body = vector(&v, 1) };

	begin(&plain, w);
	CLEAN(http_do(h, &c));
	ck_assert_uint_eq(c.status, 503);
	ck_assert_str_eq(text_str(&c.reply), "slow");
	http_call_done(&c);
	ck_assert_uint_lt(counter("http.t.bytes_up "), 2 << 20);
	free(p);
	end(w);
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

	begin(&plain, w);
	for (int i = 0; i < 6; i++) {
		struct http_call c = { .method = _i % 3 ? "PUT" : "GET", .url = url };

		if (_i % 3)
			c.body = vector(&v, 1);
		ck_assert_msg(http_do(h, &c) == 0, "call %d: %s: %s", i, err_name(c.err), http_why(&c));
		ck_assert_uint_eq(c.status, 200);
		ck_assert_str_eq(text_str(&c.reply), "ok");
		http_call_done(&c);
		if (_i / 3 == 0)
			usleep(2000);
		if (i % 2)
			http_free(h), begin(&plain, w);	/* the odd connections answer once */
	}
	end(w);
}
END_TEST

START_TEST(a_server_that_always_resets_is_an_error_at_once)
{
	static const struct stale how = { 0, true };
	struct wire *w = wire_start(serve_stale, (void *)&how);
	struct http_call c = a_get();

	begin(&plain, w);
	ck_assert_int_eq(http_do(h, &c), -ECONNRESET);
	http_call_done(&c);
	ck_assert_uint_eq(wire_conns(w), 1);
	ck_assert_uint_eq(counter("http.t.err.reset "), 1);
	end(w);
}
END_TEST

/* ---- never sent ---- */

static unsigned closed_port(void)
{
	struct wire *w = wire_start(serve_seen, NULL);
	unsigned port = wire_port(w);

	wire_stop(w);
	return port;
}

START_TEST(what_was_never_sent_is_told_apart)
{
	struct http_call c = a_get();

	begin(&plain, NULL);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", closed_port());
	ck_assert_int_eq(http_do(h, &c), -ECONNREFUSED);
	ck_assert_uint_eq(c.status, 0);
	ck_assert_str_ne(http_why(&c), "");
	http_call_done(&c);
	c.url = "http://no-such-host.invalid/";
	ck_assert_int_eq(http_do(h, &c), -EHOSTUNREACH);
	http_call_done(&c);
	ck_assert_uint_eq(counter("http.t.err.unsent "), 2);
	http_free(h);
}
END_TEST

START_TEST(ipv6_is_spoken)
{
	static struct seen s;
	struct wire *w = wire_start_on("::1", serve_seen, &s);
	struct http_call c = a_get();
	char host[64];

	if (!w) {
		fprintf(stderr, "check_http: no IPv6 on loopback here: not tested\n");
		return;
	}
	begin(&plain, NULL);
	snprintf(url, sizeof(url), "http://[::1]:%u/", wire_port(w));
	CLEAN(http_do(h, &c));
	http_call_done(&c);
	snprintf(host, sizeof(host), "\r\nHost: [::1]:%u\r\n", wire_port(w));
	ck_assert_ptr_nonnull(strstr(s.head, host));
	end(w);
}
END_TEST

START_TEST(a_proxy_is_the_one_configured_or_of_the_environment_or_none)
{
	static struct seen s, direct;
	struct wire *proxy = wire_start(serve_seen, &s), *w = wire_start(serve_seen, &direct);
	struct http_conf conf = { .name = "t" };
	char at[64];
	struct http_call c = a_get();

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
		begin(&conf, w);
		CLEAN(http_do(h, &c));
		http_call_done(&c);
		http_free(h);
		ck_assert_int_eq(s.head[0] != '\0', i == 0 || i == 3);
		ck_assert_int_eq(direct.head[0] != '\0', i == 1 || i == 2);
		if (s.head[0])
			ck_assert_ptr_nonnull(strstr(s.head, "GET http://127.0.0.1:"));
	}
	conf.proxy = "http://user:hunter2@[broken";
	begin(&conf, w);
	ck_assert_int_ne(http_do(h, &c), 0);
	ck_assert_ptr_null(strstr(http_why(&c), "hunter2"));
	http_call_done(&c);
	end(w);
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
	tcase_add_test(t, bodies_of_any_size_arrive_whole);
	tcase_add_test(t, a_large_upload_asks_first_and_a_small_one_does_not);
	tcase_add_test(t, a_server_that_does_not_know_100_is_asked_once);
	tcase_add_test(t, an_upload_refused_at_its_head_has_the_status);
	tcase_add_loop_test(t, a_kept_connection_that_was_closed_is_no_error, 0, 9);
	tcase_add_test(t, a_server_that_always_resets_is_an_error_at_once);
	tcase_add_test(t, what_was_never_sent_is_told_apart);
	tcase_add_test(t, ipv6_is_spoken);
	tcase_add_test(t, a_proxy_is_the_one_configured_or_of_the_environment_or_none);
	return unit_run(s);
}
