/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/* HTTP when it takes long or is given up. */
#include "store/http.h"

#include "base/clock.h"
#include "unit.h"
#include "wirecall.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void serve_silent(struct wire_peer *p, void *arg)
{
	sem_t *came = arg;

	if (wire_read_head(p) && came)
		sem_post(came);
	wire_hold(p);
}

/* ---- waiting ---- */

START_TEST(a_silent_server_is_given_up_at_the_first_limit)
{
	struct wire *w = wire_start(serve_silent, NULL);
	struct http_conf conf = wc_plain;
	struct http_call c = wc_get();
	struct tess_req req;
	int64_t from;

	conf.stall_timeout = _i == 0 ? 100 * NS_PER_MS : 0;
	wc_begin(&conf, w);
	req_begin(&req, "test");
	c.req = &req;
	if (_i == 1)
		c.timeout = 100 * NS_PER_MS;
	if (_i == 2)
		req.deadline = clock_now() + 100 * NS_PER_MS;
	from = clock_now();
	ck_assert_int_eq(http_do(wc_http, &c), -ETIMEDOUT);
	ck_assert_int_ge(clock_now() - from, 99 * NS_PER_MS);
	ck_assert_int_lt(clock_now() - from, 20 * NS_PER_S);
	ck_assert_uint_eq(c.status, 0);
	ck_assert_str_ne(http_why(&c), "");
	http_call_done(&c);
	wc_end(w);
}
END_TEST

START_TEST(a_deadline_that_has_passed_sends_nothing)
{
	struct wire *w = wire_start(wc_serve_ok, NULL);
	struct http_call c = wc_get();
	struct tess_req req;

	wc_begin(&wc_plain, w);
	req_begin(&req, "test");
	req.deadline = clock_now() - 1;
	c.req = &req;
	ck_assert_int_eq(http_do(wc_http, &c), -ETIMEDOUT);
	http_call_done(&c);
	ck_assert_uint_eq(wire_conns(w), 0);
	wc_end(w);
}
END_TEST

static void serve_stall(struct wire_peer *p, void *arg)
{
	(void)arg;
	if (!wire_read(p))
		return;
	wire_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel");
	wire_hold(p);
}

START_TEST(a_stall_in_the_body_keeps_what_came)
{
	struct wire *w = wire_start(serve_stall, NULL);
	struct http_conf conf = wc_plain;
	struct http_call c = wc_get();
	char buf[9] = "";
	struct iovec v = { buf, 9 };

	c.into = (struct tess_iov){ &v, 1, 9 };
	conf.stall_timeout = 100 * NS_PER_MS;
	wc_begin(&conf, w);
	ck_assert_int_eq(http_do(wc_http, &c), -ETIMEDOUT);
	ck_assert_uint_eq(c.status, 200);
	ck_assert_uint_eq(c.got, 3);
	ck_assert_uint_eq(c.length, 9);
	http_call_done(&c);
	wc_end(w);
}
END_TEST

/* A byte each 60 ms for 900 ms. */
static void serve_slow(struct wire_peer *p, void *arg)
{
	(void)arg;
	if (!wire_read(p))
		return;
	wire_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n");
	for (int i = 0; i < 15; i++) {
		usleep(60000);
		wire_say(p, "x");
	}
	wire_hold(p);
}

START_TEST(slow_is_not_stalled)
{
	struct wire *w = wire_start(serve_slow, NULL);
	struct http_conf conf = wc_plain;
	struct http_call c = wc_get();

	conf.stall_timeout = 600 * NS_PER_MS;
	wc_begin(&conf, w);
	ck_assert_msg(http_do(wc_http, &c) == 0, "%s", http_why(&c));
	ck_assert_uint_eq(c.reply.n, 15);
	http_call_done(&c);
	wc_end(w);
}
END_TEST

static void serve_stuck(struct wire_peer *p, void *arg)
{
	if (wire_read_head(p))
		sem_wait(arg);
}

START_TEST(an_upload_that_nobody_reads_stalls)
{
	sem_t over;
	struct wire *w = wire_start(serve_stuck, &over);
	struct http_conf conf = wc_plain;
	struct http_call c = wc_get();
	size_t n = 64 << 20;
	char *p = calloc(1, n);
	struct iovec v = { p, n };

	sem_init(&over, 0, 0);
	conf.stall_timeout = 500 * NS_PER_MS;
	c.method = "PUT";
	c.body = (struct tess_iov){ &v, 1, n };
	wc_begin(&conf, w);
	ck_assert_int_eq(http_do(wc_http, &c), -ETIMEDOUT);
	ck_assert_uint_eq(c.status, 0);
	http_call_done(&c);
	sem_post(&over);
	free(p);
	wc_end(w);
}
END_TEST

/* The kernel completes no handshake for a listener whose queue is full. */
START_TEST(a_connection_that_is_not_made_is_given_up)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), full[8];
	struct http_conf conf = wc_plain;
	struct http_call c = wc_get();
	socklen_t len = sizeof(a);
	int64_t from;

	CLEAN(bind(fd, (struct sockaddr *)&a, len));
	CLEAN(listen(fd, 0));
	CLEAN(getsockname(fd, (struct sockaddr *)&a, &len));
	for (int i = 0; i < 8; i++) {
		full[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		ck_assert_int_ge(full[i], 0);
		if (connect(full[i], (struct sockaddr *)&a, len))
			ck_assert_int_eq(errno, EINPROGRESS);
	}
	conf.connect_timeout = 200 * NS_PER_MS;
	wc_begin(&conf, NULL);
	snprintf(wc_url, sizeof(wc_url), "http://127.0.0.1:%u/", ntohs(a.sin_port));
	from = clock_now();
	ck_assert_int_eq(http_do(wc_http, &c), -ETIMEDOUT);
	ck_assert_int_ge(clock_now() - from, 190 * NS_PER_MS);
	http_call_done(&c);
	for (int i = 0; i < 8; i++)
		close(full[i]);
	close(fd);
	http_free(wc_http);
}
END_TEST

/* ---- names ---- */

static sem_t looking, found;

/* Ours comes before the C library's. */
int getaddrinfo(const char *restrict name, const char *restrict service,
		const struct addrinfo *restrict hints, struct addrinfo **restrict ret)
{
	(void)service;
	(void)hints;
	(void)ret;
	if (!strcmp(name, "slow.test")) {
		sem_post(&looking);
		sem_wait(&found);
	}
	return EAI_NONAME;
}

START_TEST(a_name_that_is_not_found_holds_up_nobody)
{
	struct wire *w = wire_start(wc_serve_ok, NULL);
	struct http_conf conf = wc_plain;
	struct wc_later slow = { .c = { .method = "GET", .url = "http://slow.test/" } };
	struct http_call c;

	sem_init(&looking, 0, 0);
	sem_init(&found, 0, 0);
	conf.threads = 1;
	wc_begin(&conf, w);
	c = wc_get();
	wc_later_send(&slow);
	sem_wait(&looking);
	CLEAN(http_do(wc_http, &c));	/* while it is looked up */
	http_call_done(&c);
	http_cancel(wc_http, &slow.c);
	sem_wait(&slow.over);
	ck_assert_int_eq(slow.c.err, -ECANCELED);
	http_call_done(&slow.c);
	slow.c.timeout = 50 * NS_PER_MS;
	wc_later_send(&slow);
	sem_wait(&looking);
	sem_wait(&slow.over);
	ck_assert_int_eq(slow.c.err, -ETIMEDOUT);
	http_call_done(&slow.c);
	CLEAN(http_do(wc_http, &c));	/* given up, and still looked up */
	http_call_done(&c);
	sem_post(&found);
	sem_post(&found);
	usleep(50000);	/* curl's threads end */
	wc_end(w);
}
END_TEST

/* ---- cancellation ---- */

START_TEST(a_call_in_flight_is_cancelled)
{
	sem_t came;
	struct wire *w = wire_start(serve_silent, &came);
	struct wc_later l = { .c = { .method = "GET", .url = wc_url } };

	sem_init(&came, 0, 0);
	wc_begin(&wc_plain, w);
	wc_later_send(&l);
	sem_wait(&came);
	http_cancel(wc_http, &l.c);
	http_cancel(wc_http, &l.c);
	sem_wait(&l.over);
	ck_assert_int_eq(l.c.err, -ECANCELED);
	http_call_done(&l.c);
	wc_end(w);
}
END_TEST

START_TEST(a_call_that_waits_for_a_connection_is_cancelled_or_ends_at_its_deadline)
{
	sem_t came;
	struct wire *w = wire_start(serve_silent, &came);
	struct http_conf conf = wc_plain;
	struct wc_later l[3] = { { .c = { .method = "GET", .url = wc_url } },
			      { .c = { .method = "GET", .url = wc_url } },
			      { .c = { .method = "GET", .url = wc_url } } };

	sem_init(&came, 0, 0);
	conf.connections = 1;
	wc_begin(&conf, w);
	wc_later_send(&l[0]);
	sem_wait(&came);
	wc_later_send(&l[1]);
	l[2].c.timeout = 50 * NS_PER_MS;
	wc_later_send(&l[2]);
	sem_wait(&l[2].over);
	ck_assert_int_eq(l[2].c.err, -ETIMEDOUT);
	http_cancel(wc_http, &l[1].c);
	sem_wait(&l[1].over);
	ck_assert_int_eq(l[1].c.err, -ECANCELED);
	ck_assert_int_ne(sem_trywait(&l[0].over), 0);
	http_cancel(wc_http, &l[0].c);
	sem_wait(&l[0].over);
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(l[i].times, 1);
		http_call_done(&l[i].c);
	}
	ck_assert_uint_eq(wire_conns(w), 1);
	wc_end(w);
}
END_TEST

START_TEST(cancelling_what_is_done_or_was_never_sent_does_nothing)
{
	struct wire *w = wire_start(wc_serve_ok, NULL);
	struct http_call c = wc_get();

	wc_begin(&wc_plain, w);
	http_cancel(wc_http, &c);
	CLEAN(http_do(wc_http, &c));
	http_cancel(wc_http, &c);
	http_call_done(&c);
	http_cancel(wc_http, (struct http_call *)16);	/* only compared */
	CLEAN(http_do(wc_http, &c));
	http_call_done(&c);
	wc_end(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("http_time");
	TCase *t = tcase_create("http_time");

	tcase_set_timeout(t, 120);
	suite_add_tcase(s, t);
	tcase_add_loop_test(t, a_silent_server_is_given_up_at_the_first_limit, 0, 3);
	tcase_add_test(t, a_deadline_that_has_passed_sends_nothing);
	tcase_add_test(t, a_stall_in_the_body_keeps_what_came);
	tcase_add_test(t, slow_is_not_stalled);
	tcase_add_test(t, an_upload_that_nobody_reads_stalls);
	tcase_add_test(t, a_connection_that_is_not_made_is_given_up);
	tcase_add_test(t, a_name_that_is_not_found_holds_up_nobody);
	tcase_add_test(t, a_call_in_flight_is_cancelled);
	tcase_add_test(t, a_call_that_waits_for_a_connection_is_cancelled_or_ends_at_its_deadline);
	tcase_add_test(t, cancelling_what_is_done_or_was_never_sent_does_nothing);
	return unit_run(s);
}
