/* SPDX-License-Identifier: Apache-2.0 */
#include "wirecall.h"

#include "base/trace.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct http *wc_http;
char wc_url[128];
const struct http_conf wc_plain = { .name = "t", .proxy = "" };

void wc_begin(const struct http_conf *conf, const struct wire *w)
{
	struct text why = TEXT_INIT;

	ck_assert_msg(http_new(&wc_http, conf, &why) == 0, "%s", text_str(&why));
	text_done(&why);
	if (w)
		snprintf(wc_url, sizeof(wc_url), "http://127.0.0.1:%u/x", wire_port(w));
}

void wc_end(struct wire *w)
{
	http_free(wc_http);
	wire_stop(w);
}

struct http_call wc_get(void)
{
	return (struct http_call){ .method = "GET", .url = wc_url };
}

struct tess_iov wc_vector(struct iovec *v, unsigned n)
{
	struct tess_iov r = { .iov = v, .n = n };

	for (unsigned i = 0; i < n; i++)
		r.len += v[i].iov_len;
	return r;
}

uint64_t wc_counter(const char *name)
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

static void later_done(struct http_call *c)
{
	struct wc_later *l = c->owner;

	l->times++;
	sem_post(&l->over);
}

void wc_later_send(struct wc_later *l)
{
	l->c.done = later_done;
	l->c.owner = l;
	if (!l->times)
		sem_init(&l->over, 0, 0);
	http_send(wc_http, &l->c);
}

void wc_serve_ok(struct wire_peer *p, void *arg)
{
	(void)arg;
	while (wire_read(p))
		wire_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

void wc_serve_seen(struct wire_peer *p, void *arg)
{
	struct wc_seen *s = arg;

	while (wire_read(p)) {
		const char *reply = s->reply;

		memcpy(s->head, p->head, sizeof(s->head));
		wire_say(p, reply ? reply : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	}
}

void wc_serve_echo(struct wire_peer *p, void *arg)
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
