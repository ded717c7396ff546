/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_HTTP_IMPL_H
#define STORE_HTTP_IMPL_H
/*
 * Between http.c, http_loop.c (who runs when) and http_call.c (one transfer: what curl is told, what it
 * said). A transfer belongs to one loop and is touched by its thread alone, from the moment the loop
 * took it off `incoming`; only `cancel` is another thread's, under the loop's lock.
 */
#include "base/lock.h"
#include "base/trace.h"
#include "store/http.h"
#include <curl/curl.h>
#include <stdatomic.h>

enum http_counter {
	HTTP_CALLS,
	HTTP_CONNECTS,
	HTTP_REUSED,
	HTTP_RESENT,
	HTTP_BYTES_UP,
	HTTP_BYTES_DOWN,
	HTTP_ERR_UNSENT,
	HTTP_ERR_RESET,
	HTTP_ERR_PROTO,
	HTTP_ERR_TIMEOUT,
	HTTP_ERR_CANCEL,
	HTTP_ERR_CERT,
	HTTP_ERR_MEMORY,
	HTTP_NCOUNTERS
};

struct http {
	struct http_conf     conf;		/* strings owned */
	atomic_bool          no_continue;	/* a server let us wait for its 100 in vain */
	struct trace_group   trace;
	struct trace_counter counters[HTTP_NCOUNTERS];
	struct trace_hist    first_byte;
	bool                 traced;
	struct http_loop    *loops;		/* owned */
	unsigned             nloops;
};

/* A call while it is held, and what http_header() and http_why() read afterwards. */
struct http_xfer {
	struct list_node   link;	/* incoming, waiting or active of its loop */
	struct http_call  *call;
	struct http       *http;
	CURL              *easy;	/* from start to end */
	struct curl_slist *headers;	/* ours, sent */
	struct text        fields;	/* theirs: "name\0value\0", names in lower case */
	unsigned           body_i, into_i;	/* cursors: entry of the vector … */
	size_t             body_off, into_off;	/* … and bytes of it that are done */
	int64_t            deadline;	/* clock_now() scale */
	int64_t            started;
	int64_t            moved_at;	/* when `moved` was last seen to differ */
	uint64_t           moved;
	uint64_t           head_bytes;	/* of their headers */
	int                err;		/* found by a callback */
	bool               cancel;	/* under the loop's lock */
	bool               resent, expects, continued;
	bool               headed, in_body;	/* the blank line, a byte of the body came */
	char               why[CURL_ERROR_SIZE];
};

/* conf.threads of them. What was started is stopped by the other, in any case. */
int  http_loops_start(struct http *h);
void http_loops_stop(struct http *h);

/* Hands everything about the call to a fresh or reset easy handle. 0, -ENOMEM, -EINVAL. */
int  xfer_prepare(struct http_xfer *x);
/*
 * True: a kept connection was closed by the server as we used it, and no byte of a reply came. The
 * transfer is set to go again, once, over a new connection.
 */
bool xfer_again(struct http_xfer *x, CURLcode code);
/* The row of http.h's table; fills what is valid from done on. The easy handle is still there. */
int  xfer_outcome(struct http_xfer *x, CURLcode code);
/* Bytes that crossed so far, either way. Only differences mean something. */
uint64_t xfer_moved(const struct http_xfer *x);
#endif
