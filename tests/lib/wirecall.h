/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRECALL_H
#define WIRECALL_H
/* For tests of HTTP: one transport, calls to a server of wire.h, and the servers that several tests have. */
#include "store/http.h"
#include "wire.h"
#include <semaphore.h>
#include <stdatomic.h>

extern struct http *wc_http;
extern char wc_url[128];	/* of the server, "…/x" */
extern const struct http_conf wc_plain;	/* "t", no proxy */

void wc_begin(const struct http_conf *conf, const struct wire *w);	/* NULL: the URL stays */
void wc_end(struct wire *w);
struct http_call wc_get(void);
struct tess_iov wc_vector(struct iovec *v, unsigned n);
uint64_t wc_counter(const char *name);	/* of trace.h; 0: there is none */

/* A call that ends while the test does something else. */
struct wc_later {
	struct http_call c;
	sem_t            over;
	unsigned         times;	/* it was done */
};
void wc_later_send(struct wc_later *l);

void wc_serve_ok(struct wire_peer *p, void *arg);
/* Keeps the head of the last request, and answers `reply`, or 200 without a body. */
struct wc_seen {
	char                head[16384];
	const char *_Atomic reply;	/* what it points at stays as it is */
};
void wc_serve_seen(struct wire_peer *p, void *arg);
/* Sends back what it got, in 100-continue style where that is asked for and `arg` counts them. */
void wc_serve_echo(struct wire_peer *p, void *arg);
#endif
