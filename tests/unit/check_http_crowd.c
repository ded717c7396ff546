/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/* HTTP in crowds, or without memory. HTTP_CALLS=N makes the crowd larger. */
#include "store/http.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "unit.h"
#include "wirecall.h"

#include <curl/curl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- crowds ---- */

static atomic_uint continues;

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
	o->c = (struct http_call){ .method = i % 3 ? "PUT" : "POST", .url = wc_url, .owner = o, .done = one_done };
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
		http_send(wc_http, &s->ones[i].c);
	return NULL;
}

/* Four threads send, a fifth of the calls is cancelled at some time. */
static void crowd(bool cancel)
{
	struct http_conf conf = { .name = "t", .proxy = "", .connections = 8, .threads = 3 };
	unsigned n = crowd_size() / 4 * 4;
	struct wire *w = wire_start(wc_serve_echo, &continues);
	struct one *ones = calloc(n, sizeof(*ones));
	struct sender s[4];
	pthread_t t[4];
	sem_t over;

	sem_init(&over, 0, 0);
	wc_begin(&conf, w);
	for (unsigned i = 0; i < n; i++)
		one_begin(&ones[i], i, &over);
	for (unsigned i = 0; i < 4; i++) {
		s[i] = (struct sender){ ones + i * n / 4, n / 4 };
		CLEAN(pthread_create(&t[i], NULL, sender_run, &s[i]));
	}
	for (unsigned i = 0; i < n && cancel; i += 5)
		http_cancel(wc_http, &ones[i].c);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 1; i < n && cancel; i += 5)
		http_cancel(wc_http, &ones[i].c);
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
	wc_end(w);
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
	struct wc_later *l = c->owner;

	l->times++;
	if (c->err == 0 && l->times < 50) {
		http_call_done(c);
		http_send(wc_http, c);
	} else {
		sem_post(&l->over);
	}
}

START_TEST(a_call_may_be_sent_from_done)
{
	struct wire *w = wire_start(wc_serve_ok, NULL);
	struct wc_later l = { .c = { .method = "GET", .url = wc_url, .done = chain_done } };

	l.c.owner = &l;
	sem_init(&l.over, 0, 0);
	wc_begin(&wc_plain, w);
	http_send(wc_http, &l.c);
	sem_wait(&l.over);
	CLEAN(l.c.err);
	ck_assert_uint_eq(l.times, 50);
	ck_assert_uint_eq(wire_conns(w), 1);
	http_call_done(&l.c);
	wc_end(w);
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
	r = http_new(&wc_http, &conf, &why);
	if (r == 0) {
		struct http_call c = wc_get();

		c.headers = "A: b\nC:\n";
		c.method = upload ? "PUT" : "GET";
		if (upload)
			c.body = c.into = (struct tess_iov){ &v, 1, sizeof(big) };
		http_do(wc_http, &c);
		over = fault_hits("alloc") < nth;
		/* curl reports some of its failures as those of what it could not do. */
		ck_assert_msg(c.err != 0 || c.status == 200, "%u: %u", nth, c.status);
		ck_assert_msg(!over || c.err == 0, "%u: %s: %s", nth, err_name(c.err), http_why(&c));
		http_call_done(&c);
		http_free(wc_http);
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
	struct wire *w = wire_start(_i ? wc_serve_echo : wc_serve_ok, NULL);
	unsigned n = 1;

	CLEAN(curl_global_init_mem(CURL_GLOBAL_ALL, mem_alloc, curl_free_it, curl_realloc_it, mem_strdup,
				   mem_array));
	wc_begin(&wc_plain, w);
	http_free(wc_http);
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
		ck_assert_int_eq(http_new(&wc_http, &wc_plain, &why), -EAGAIN);
		fault_set(NULL);
	}
	text_done(&why);
}
END_TEST

START_TEST(files_that_cannot_be_read_are_named)
{
	struct http_conf conf = wc_plain;
	struct text why = TEXT_INIT;

	conf.ca_file = "/nonexistent/ca.pem";
	ck_assert_int_eq(http_new(&wc_http, &conf, &why), -ENOENT);
	ck_assert_ptr_nonnull(strstr(text_str(&why), "/nonexistent/ca.pem"));
	text_clear(&why);
	conf = wc_plain;
	conf.cert_file = "/nonexistent/cert.pem";
	ck_assert_int_eq(http_new(&wc_http, &conf, &why), -ENOENT);
	ck_assert_ptr_nonnull(strstr(text_str(&why), "/nonexistent/cert.pem"));
	http_free(NULL);
	text_done(&why);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("http_crowd");
	TCase *t = tcase_create("http_crowd");

	tcase_set_timeout(t, 120);
	suite_add_tcase(s, t);
	tcase_add_test(t, many_calls_share_few_connections);
	tcase_add_test(t, calls_are_cancelled_amid_others);
	tcase_add_test(t, a_call_may_be_sent_from_done);
	tcase_add_loop_test(t, any_allocation_may_fail, 0, 2);
	tcase_add_test(t, a_thread_that_cannot_start_is_an_error);
	tcase_add_test(t, files_that_cannot_be_read_are_named);
	return unit_run(s);
}
