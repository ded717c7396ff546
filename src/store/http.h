/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_HTTP_H
#define STORE_HTTP_H
/*
 * HTTP for stores: requests in flight on a few threads of one curl multi loop each, connections
 * kept alive. It knows methods, headers and bodies; what a status means to S3 or Swift, who signs
 * and what is tried again is not here.
 *
 * One outcome per call, told apart by `err` and `status`:
 *
 *   err                    status  meaning
 *   0                      any     the whole reply came, with the length it announced
 *   -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH, -ENOTCONN
 *                          0       never sent: name, route, connect, TLS handshake
 *   -ECONNRESET            0 or n  broke off: reset, closed early, fewer bytes than announced
 *   -EPROTO                0 or n  no HTTP, more bytes than `into` takes, a reply larger than reply_max
 *   -ETIMEDOUT             0 or n  connect_timeout; no byte moved for stall_timeout; req's deadline
 *   -ECANCELED             0 or n  http_cancel()
 *   -EACCES                0       certificate refused, ours or theirs (named by http_why())
 *   -ENOMEM                0
 *   -EINVAL                0       no URL, a user name in it, a header line without a colon
 *
 * A kept connection that the server closed as it was used is no outcome: when no byte of a reply came
 * the request goes again, once, over a new one, whatever its method (RFC 9112, 9.3.1).
 *
 * Redirects are never followed: a signed request is for one host, and credentials must not travel.
 * Nothing here logs a header: they hold secrets.
 *
 * Source of the retry-relevant distinctions: RFC 9110 (idempotence, Content-Length, Content-Range).
 */
#include "base/list.h"
#include "base/req.h"
#include "base/text.h"
#include <tessera/types.h>

struct http;

struct http_conf {
	const char *name;		/* of threads and counters, e.g. "s3" */
	const char *ca_file;		/* PEM; NULL: the system's */
	const char *cert_file, *key_file;/* client certificate; NULL: none */
	const char *proxy;		/* URL; NULL: http_proxy, https_proxy, all_proxy, no_proxy of the environment; "": none */
	unsigned    threads;		/* 0: 2 */
	unsigned    connections;	/* kept alive and open at most, over all threads; 0: 64 */
	int64_t     connect_timeout;	/* ns, 0: 5 s */
	int64_t     stall_timeout;	/* ns, 0: 30 s */
};
/* Strings are copied. -EACCES, -ENOENT with `why` for a file that cannot be read. */
int  http_new(struct http **ret, const struct http_conf *conf, struct text *why);
void http_free(struct http *h);		/* every call is done; NULL is fine */

#define HTTP_REPLY_MAX (UINT32_C(16) << 20)

struct http_call {
	/* Set by the caller before http_send(); borrowed until done. Zero the rest. */
	struct tess_req  *req;		/* deadline; NULL: none */
	const char       *method;	/* "GET", "PUT", "HEAD", "POST", "DELETE" */
	const char       *url;		/* encoded, http:// or https:// */
	const char       *headers;	/* lines "Name: value\n"; NULL: none. Host and Content-Length are made here */
	struct tess_iov   body;		/* sent when len > 0, or the method is PUT or POST */
	/*
	 * Where the body of a 200 or 206 goes: as far as it fills this, in place, with no copy kept. All
	 * other bodies, and all when len is 0, go to `reply`.
	 */
	struct tess_iov   into;
	uint32_t          reply_max;	/* of `reply`, bytes; 0: 64 KiB. More is -EPROTO */
	int64_t           timeout;	/* ns from http_send(), besides req's deadline; 0: none */
	void            (*done)(struct http_call *);	/* once; a transport thread; no lock held; must not block */
	void             *owner;

	/* Valid from done on. */
	int               err;
	unsigned          status;	/* 100 .. 599; 0: none came */
	uint64_t          got;		/* bytes put into `into` */
	uint64_t          length;	/* Content-Length (of HEAD: what GET would send); UINT64_MAX: not said */
	uint64_t          total;	/* of Content-Range: size of the whole; UINT64_MAX: not said */
	struct text       reply;	/* freed by http_call_done() */
	int64_t           first_byte;	/* ns from sending to the first byte of the reply; 0: none */

	/* http.c's */
	struct list_node  link;
	void             *priv;
};

/* Takes the call and returns at once. done() comes on a transport thread, maybe before this returns. */
void http_send(struct http *h, struct http_call *c);
/* Hurries a call that may be in flight; done() still comes. Only compared with the calls held. */
void http_cancel(struct http *h, struct http_call *c);
/* Sends and waits. For mount, tools and the threads that renew credentials. Returns c->err. */
int  http_do(struct http *h, struct http_call *c);
/* Value of a reply header, any case, trimmed; NULL. Valid from done() to http_call_done(). */
const char *http_header(const struct http_call *c, const char *name);
/* One line about what went wrong in the transport: "certificate has expired", without secrets. Never NULL. */
const char *http_why(const struct http_call *c);
/* Frees what a call holds: reply, headers. Every call that was done. */
void http_call_done(struct http_call *c);

/*
 * What most services mean by a status, for calls with err 0:
 * 2xx 0, 404 -ENOENT, 401 403 -EACCES, 408 425 -ETIMEDOUT, 409 -EBUSY, 412 -EEXIST, 413 -EFBIG,
 * 416 -TESS_E_SHORT_BODY, 429 503 -TESS_E_STORE_BUSY, 500 502 504 -EIO, 507 -TESS_E_STORE_FULL,
 * anything else -EPROTO.
 */
int http_status_err(unsigned status);
/* Seconds that Retry-After asks for, at most 60 s, in ns; 0: not said. */
int64_t http_retry_after(const struct http_call *c);
/* Appends `s` with everything but A-Z a-z 0-9 - . _ ~ percent-encoded; '/' stays when `slash`. RFC 3986. */
void http_encode(struct text *out, const char *s, bool slash);

/* Parts of "http[s]://HOST[:PORT][/PATH]"; no user, query, fragment. */
struct http_url {
	char     host[256];	/* with [] for IPv6 */
	char     path[1024];	/* "/a/b" or "": a slash first, none last; as it was, still encoded */
	unsigned port;		/* 0: the scheme's */
	bool     tls;
};
int http_url_parse(const char *url, struct http_url *ret);	/* -EINVAL */
bool http_host_is_loopback(const char *host);	/* as in http_url */
#endif
