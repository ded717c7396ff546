/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_H
#define WIRE_H
/*
 * A server on loopback that says byte for byte what a test tells it, for what a well-behaved one
 * never says. Each connection has a thread of its own that runs the test's function and is closed
 * when that returns.
 */
#include <stdbool.h>
#include <stddef.h>

struct wire;

struct wire_peer {
	int      fd;
	unsigned conn;		/* 0 for the first that was accepted */
	char     head[16384];	/* of the request read last, NUL-terminated */
	char    *body;		/* NULL where there is none */
	size_t   body_len;	/* announced */
	char     spare[16384];	/* read already, beyond the head */
	size_t   nspare;
	struct wire *wire;
};

typedef void (*wire_serve)(struct wire_peer *p, void *arg);

struct wire *wire_start(wire_serve serve, void *arg);	/* 127.0.0.1; never NULL: a test that cannot listen ends */
struct wire *wire_start_on(const char *address, wire_serve serve, void *arg);	/* "::1"; NULL: no such address */
void     wire_stop(struct wire *w);	/* ends every connection first */
unsigned wire_port(const struct wire *w);
unsigned wire_conns(const struct wire *w);	/* accepted so far */

/* The next request; false when the other side has closed. */
bool wire_read_head(struct wire_peer *p);
bool wire_read_body(struct wire_peer *p);
bool wire_read(struct wire_peer *p);	/* both */
void wire_say(struct wire_peer *p, const char *s);
void wire_send(struct wire_peer *p, const void *data, size_t n);
void wire_reset(struct wire_peer *p);	/* RST, now */
void wire_hold(struct wire_peer *p);	/* until the other side closes, or wire_stop() */
#endif
