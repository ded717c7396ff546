/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/*
 * HTTP when it takes long, is given up, comes in crowds or finds no memory. HTTP_CALLS=N makes the
 * crowd larger.
 */
#include "store/http.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
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
#include <strings.h>
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

static void serve_silent(struct wire_peer *p, void *arg)
{
	sem_t *came = arg;

	if (wire_read_head(p) && came)
		sem_post(came);
	wire_hold(p);
}

static void serve_ok(struct wire_peer *p, void *arg)
{
	(void)arg;
	while (wire_read(p))
		wire_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

/* ---- waiting ---- */

START_TEST(a_silent_server_is_given_up_at_the_first_limit)
{
	struct wire *w = wire_start(serve_silent, NULL);
	struct http_conf conf = plain;
	struct http_call c = a_get();
	struct tess_req req;
	int64_t from;

	conf.stall_timeout = _i == 0 ? 100 * NS_PER_MS : 0;
	begin(&conf, w);
	req_begin(&req, "test");
	c.req = &req;
	if (_i == 1)
		c.timeout = 100 * NS_PER_MS;
	if (_i == 2)
		req.deadline = clock_now() + 100 * NS_PER_MS;
	from = clock_now();
	ck_assert_int_eq(http_do(h, &c), -ETIMEDOUT);
	ck_assert_int_ge(clock_now() - from, 99 * NS_PER_MS);
	ck_assert_int_lt(clock_now() - from, 20 * NS_PER_S);
	ck_assert_uint_eq(c.status, 0);
	ck_assert_str_ne(http_why(&c), "");
	http_call_done(&c);
	end(w);
}
END_TEST

START_TEST(a_deadline_that_has_passed_sends_nothing)
{
	struct wire *w = wire_start(serve_ok, NULL);
	struct http_call c = a_get();
	struct tess_req req;

	begin(&plain, w);
	req_begin(&req, "test");
	req.deadline = clock_now() - 1;
	c.req = &req;
	ck_assert_int_eq(http_do(h, &c), -ETIMEDOUT);
	http_call_done(&c);
	ck_assert_uint_eq(wire_conns(w), 0);
	end(w);
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
	struct http_conf conf = plain;
	struct http_call c = a_get();
	char buf[9] = "";
	struct iovec v = { buf, 9 };

	c.into = (struct tess_iov){ &v, 1, 9 };
	conf.stall_timeout = 100 * NS_PER_MS;
	begin(&conf, w);
	ck_assert_int_eq(http_do(h, &c), -ETIMEDOUT);
	ck_assert_uint_eq(c.status, 200);
	ck_assert_uint_eq(c.got, 3);
	ck_assert_uint_eq(c.length, 9);
	http_call_done(&c);
	end(w);
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
	struct http_conf conf = plain;
	struct http_call c = a_get();

	conf.stall_timeout = 600 * NS_PER_MS;
	begin(&conf, w);
	ck_assert_msg(http_do(h, &c) == 0, "%s", http_why(&c));
	ck_assert_uint_eq(c.reply.n, 15);
	http_call_done(&c);
	end(w);
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
	struct http_conf conf = plain;
	struct http_call c = a_get();
	size_t n = 64 << 20;
	char *p = calloc(1, n);
	struct iovec v = { p, n };

	sem_init(&over, 0, 0);
	conf.stall_timeout = 500 * NS_PER_MS;
	c.method = "PUT";
	c.body = (struct tess_iov){ &v, 1, n };
	begin(&conf, w);
	ck_assert_int_eq(http_do(h, &c), -ETIMEDOUT);
	ck_assert_uint_eq(c.status, 0);
	http_call_done(&c);
	sem_post(&over);
	free(p);
	end(w);
}
END_TEST

/* The kernel completes no handshake for a listener whose queue is full. */
START_TEST(a_connection_that_is_not_made_is_given_up)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), full[8];
	struct http_conf conf = plain;
	struct http_call c = a_get();
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
	begin(&conf, NULL);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", ntohs(a.sin_port));
	from = clock_now();
	ck_assert_int_eq(http_do(h, &c), -ETIMEDOUT);
	ck_assert_int_ge(clock_now() - from, 190 * NS_PER_MS);
	http_call_done(&c);
	for (int i = 0; i < 8; i++)
		close(full[i]);
	close(fd);
	http_free(h);
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

struct later {
	struct http_call c;
	sem_t            over;
	unsigned         times;
};

static void later_done(struct http_call *c)
{
	struct later *l = c->owner;

	l->times++;
	sem_post(&l->over);
}

static void later_send(struct later *l)
{
	l->c.done = later_done;
	l->c.owner = l;
	if (!l->times)
		sem_init(&l->over, 0, 0);
	http_send(h, &l->c);
}

START_TEST(a_name_that_is_not_found_holds_up_nobody)
{
	struct wire *w = wire_start(serve_ok, NULL);
	struct http_conf conf = plain;
	struct later slow = { .c = { .method = "GET", .url = "http://slow.test/" } };
	struct http_call c;

	sem_init(&looking, 0, 0);
	sem_init(&found, 0, 0);
	conf.threads = 1;
	begin(&conf, w);
	c = a_get();
	later_send(&slow);
	sem_wait(&looking);
	CLEAN(http_do(h, &c));	/* while it is looked up */
	http_call_done(&c);
	http_cancel(h, &slow.c);
	sem_wait(&slow.over);
	ck_assert_int_eq(slow.c.err, -ECANCELED);
	http_call_done(&slow.c);
	slow.c.timeout = 50 * NS_PER_MS;
	later_send(&slow);
	sem_wait(&looking);
	sem_wait(&slow.over);
	ck_assert_int_eq(slow.c.err, -ETIMEDOUT);
	http_call_done(&slow.c);
	CLEAN(http_do(h, &c));	/* given up, and still looked up */
	http_call_done(&c);
	sem_post(&found);
	sem_post(&found);
	usleep(50000);	/* curl's threads end */
	end(w);
}
END_TEST

/* ---- cancellation ---- */

START_TEST(a_call_in_flight_is_cancelled)
{
	sem_t came;
	struct wire *w = wire_start(serve_silent, &came);
	struct later l = { .c = { .method = "GET", .url = url } };

	sem_init(&came, 0, 0);
	begin(&plain, w);
	later_send(&l);
	sem_wait(&came);
	http_cancel(h, &l.c);
	http_cancel(h, &l.c);
	sem_wait(&l.over);
	ck_assert_int_eq(l.c.err, -ECANCELED);
	http_call_done(&l.c);
	end(w);
}
END_TEST

START_TEST(a_call_that_waits_for_a_connection_is_cancelled_or_ends_at_its_deadline)
{
	sem_t came;
	struct wire *w = wire_start(serve_silent, &came);
	struct http_conf conf = plain;
	struct later l[3] = { { .c = { .method = "GET", .url = url } },
			      { .c = { .method = "GET", .url = url } },
			      { .c = { .method = "GET", .url = url } } };

	sem_init(&came, 0, 0);
	conf.connections = 1;
	begin(&conf, w);
	later_send(&l[0]);
	sem_wait(&came);
	later_send(&l[1]);
	l[2].c.timeout = 50 * NS_PER_MS;
	later_send(&l[2]);
	sem_wait(&l[2].over);
	ck_assert_int_eq(l[2].c.err, -ETIMEDOUT);
	http_cancel(h, &l[1].c);
	sem_wait(&l[1].over);
	ck_assert_int_eq(l[1].c.err, -ECANCELED);
	ck_assert_int_ne(sem_trywait(&l[0].over), 0);
	http_cancel(h, &l[0].c);
	sem_wait(&l[0].over);
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(l[i].times, 1);
		http_call_done(&l[i].c);
	}
	ck_assert_uint_eq(wire_conns(w), 1);
	end(w);
}
END_TEST

START_TEST(cancelling_what_is_done_or_was_never_sent_does_nothing)
{
	struct wire *w = wire_start(serve_ok, NULL);
	struct http_call c = a_get();

	begin(&plain, w);
	http_cancel(h, &c);
	CLEAN(http_do(h, &c));
	http_cancel(h, &c);
	http_call_done(&c);
	http_cancel(h, (struct http_call *)16);	/* only compared */
	CLEAN(http_do(h, &c));
	http_call_done(&c);
	end(w);
}
END_TEST

/* ---- crowds ---- */

static void serve_echo(struct wire_peer *p, void *arg)
{
	char head[128];

	(void)arg;
	while (wire_read_head(p)) {
		if (strcasestr(p->head, "\r\nExpect: 100-continue\r\n"))
			wire_say(p, "HTTP/1.1 100 Continue\r\n\r\n");
		if (!wire_read_body(p))
			return;
		snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", p->body_len);
		wire_say(p, head);
		wire_send(p, p->body, p->body_len);
	}
}

static unsigned crowd_size(void)
{
	const char *s = getenv("HTTP_CALLS");

	return s ? (unsigned)strtoul(s, NULL, 10) : 600;
}

struct one {
	struct http_call c;
	struct iovec     out[5], in[3];
	char            *sent, *back;
	size_t           n;
	sem_t           *over;
};

static void one_done(struct http_call *c)
{
	struct one *o = c->owner;

	sem_post(o->over);
}

static void one_begin(struct one *o, unsigned i, sem_t *over)
{
	size_t n = 1 + (i * UINT64_C(2654435761)) % (i % 50 == 0 ? 3000000 : 60000), at = 0;

	*o = (struct one){ .n = n, .over = over, .sent = malloc(n), .back = calloc(1, n) };
	for (size_t k = 0; k < n; k++)
		o->sent[k] = (char)((i + k) * 0x9e3779b97f4a7c15 >> 32);
	for (unsigned k = 0; k < 5; k++) {
		size_t m = k == 4 ? n - at : (n - at) / (k + 2);

		o->out[k] = (struct iovec){ o->sent + at, m };
		at += m;
	}
	o->in[0] = (struct iovec){ o->back, n / 2 };
	o->in[1] = (struct iovec){ o->back + n / 2, 0 };
	o->in[2] = (struct iovec){ o->back + n / 2, n - n / 2 };
	o->c = (struct http_call){ .method = i % 3 ? "PUT" : "POST", .url = url, .owner = o, .done = one_done };
	o->c.body = (struct tess_iov){ o->out, 5, n };
	o->c.into = (struct tess_iov){ o->in, 3, n };
}

struct sender {
	struct one *ones;
	unsigned    n;
};

static void *sender_run(void *arg)
{
	struct sender *s = arg;

	for (unsigned i = 0; i < s->n; i++)
		http_send(h, &s->ones[i].c);
	return NULL;
}

/* Four threads send, a fifth of the calls is cancelled at some time. */
static void crowd(bool cancel)
{
	struct http_conf conf = { .name = "t", .proxy = "", .connections = 8, .threads = 3 };
	unsigned n = crowd_size() / 4 * 4;
	struct wire *w = wire_start(serve_echo, NULL);
	struct one *ones = calloc(n, sizeof(*ones));
	struct sender s[4];
	pthread_t t[4];
	sem_t over;

	sem_init(&over, 0, 0);
	begin(&conf, w);
	for (unsigned i = 0; i < n; i++)
		one_begin(&ones[i], i, &over);
	for (unsigned i = 0; i < 4; i++) {
		s[i] = (struct sender){ ones + i * n / 4, n / 4 };
		CLEAN(pthread_create(&t[i], NULL, sender_run, &s[i]));
	}
	for (unsigned i = 0; i < n && cancel; i += 5)
		http_cancel(h, &ones[i].c);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 1; i < n && cancel; i += 5)
		http_cancel(h, &ones[i].c);
	for (unsigned i = 0; i < n; i++)
		sem_wait(&over);
	for (unsigned i = 0; i < n; i++) {
		struct one *o = &ones[i];

		if (!cancel || o->c.err != -ECANCELED) {
			ck_assert_msg(o->c.err == 0, "%s: %s", err_name(o->c.err), http_why(&o->c));
			ck_assert_uint_eq(o->c.got, o->n);
			ck_assert(!memcmp(o->sent, o->back, o->n));
		}
		http_call_done(&o->c);
		free(o->sent);
		free(o->back);
	}
	if (!cancel)
		ck_assert_uint_le(wire_conns(w), 8);
	free(ones);
	end(w);
}

START_TEST(many_calls_share_few_connections)
{
	crowd(false);
}
END_TEST

START_TEST(calls_are_cancelled_amid_others)
{
	crowd(true);
}
END_TEST

/* The next is sent from done(), on the transport's thread. */
static void chain_done(struct http_call *c)
{
	struct later *l = c->owner;

	l->times++;
	if (c->err == 0 && l->times < 50) {
		http_call_done(c);
		http_send(h, c);
	} else {
		sem_post(&l->over);
	}
}

START_TEST(a_call_may_be_sent_from_done)
{
	struct wire *w = wire_start(serve_ok, NULL);
	struct later l = { .c = { .method = "GET", .url = url, .done = chain_done } };

	l.c.owner = &l;
	sem_init(&l.over, 0, 0);
	begin(&plain, w);
	http_send(h, &l.c);
	sem_wait(&l.over);
	CLEAN(l.c.err);
	ck_assert_uint_eq(l.times, 50);
	ck_assert_uint_eq(wire_conns(w), 1);
	http_call_done(&l.c);
	end(w);
}
END_TEST

/* ---- memory, files ---- */

static void curl_free_it(void *p)
{
	free(p);
}

static void *curl_realloc_it(void *p, size_t n)
{
	return mem_resize(p, n, 1);
}

/* One life with the Nth allocation failing, curl's included; true: there was no Nth any more. */
static bool starve(unsigned nth, bool upload)
{
	/* Some failures curl loses: nothing happens then, until the stall. */
	struct http_conf conf = { .name = "t", .proxy = "", .stall_timeout = 300 * NS_PER_MS };
	static char big[200000];
	struct iovec v = { big, sizeof(big) };
	struct text why = TEXT_INIT;
	char spec[64];
	bool over;
	int r;

	snprintf(spec, sizeof(spec), "alloc@%u=ENOMEM", nth);
	CLEAN(fault_set(spec));
	r = http_new(&h, &conf, &why);
	if (r == 0) {
		struct http_call c = a_get();

		c.headers = "A: b\nC:\n";
		c.method = upload ? "PUT" : "GET";
		if (upload)
			c.body = c.into = (struct tess_iov){ &v, 1, sizeof(big) };
		http_do(h, &c);
		over = fault_hits("alloc") < nth;
		/* curl reports some of its failures as those of what it could not do. */
		ck_assert_msg(c.err != 0 || c.status == 200, "%u: %u", nth, c.status);
		ck_assert_msg(!over || c.err == 0, "%u: %s: %s", nth, err_name(c.err), http_why(&c));
		http_call_done(&c);
		http_free(h);
	} else {
		ck_assert_msg(r == -ENOMEM, "%u: %s", nth, err_name(r));
		over = false;
	}
	fault_set(NULL);
	text_done(&why);
	return over;
}

START_TEST(any_allocation_may_fail)
{
	struct wire *w = wire_start(_i ? serve_echo : serve_ok, NULL);
	unsigned n = 1;

	CLEAN(curl_global_init_mem(CURL_GLOBAL_ALL, mem_alloc, curl_free_it, curl_realloc_it, mem_strdup,
				   mem_array));
	begin(&plain, w);
	http_free(h);
	while (!starve(n, _i))
		n++;
	ck_assert_uint_gt(n, 20);
	wire_stop(w);
}
END_TEST

START_TEST(a_thread_that_cannot_start_is_an_error)
{
	struct text why = TEXT_INIT;

	for (int i = 1; i <= 2; i++) {
		char spec[32];

		snprintf(spec, sizeof(spec), "thread@%d=EAGAIN", i);
		CLEAN(fault_set(spec));
		ck_assert_int_eq(http_new(&h, &plain, &why), -EAGAIN);
		fault_set(NULL);
	}
	text_done(&why);
}
END_TEST

START_TEST(files_that_cannot_be_read_are_named)
{
	struct http_conf conf = plain;
	struct text why = TEXT_INIT;

	conf.ca_file = "/nonexistent/ca.pem";
	ck_assert_int_eq(http_new(&h, &conf, &why), -ENOENT);
	ck_assert_ptr_nonnull(strstr(text_str(&why), "/nonexistent/ca.pem"));
	text_clear(&why);
	conf = plain;
	conf.cert_file = "/nonexistent/cert.pem";
	ck_assert_int_eq(http_new(&h, &conf, &why), -ENOENT);
	ck_assert_ptr_nonnull(strstr(text_str(&why), "/nonexistent/cert.pem"));
	http_free(NULL);
	text_done(&why);
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
	tcase_add_test(t, many_calls_share_few_connections);
	tcase_add_test(t, calls_are_cancelled_amid_others);
	tcase_add_test(t, a_call_may_be_sent_from_done);
	tcase_add_loop_test(t, any_allocation_may_fail, 0, 2);
	tcase_add_test(t, a_thread_that_cannot_start_is_an_error);
	tcase_add_test(t, files_that_cannot_be_read_are_named);
	return unit_run(s);
}
