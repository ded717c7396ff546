/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP transfer: options, callbacks, and what its end means. */
#include "store/http_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/scoped.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define HTTP_FIELDS_MAX (64u << 10)	/* of reply headers; real ones have some 1 KiB */
#define HTTP_EXPECT_MIN (1u << 20)
#define HTTP_EXPECT_WAIT 200L		/* ms */
/*
 * Of curl, for a transfer that moves more than that, each way. curl's 16 KiB cost a third more CPU
 * time a GiB; 256 KiB saved up to a tenth with 32 in flight and nothing with 8 (4 MiB bodies,
 * loopback, a busy machine), for four times the memory of each connection.
 */
#define HTTP_BUFFER 65536L

/* ---- bodies ---- */

/* Copies between `p` and the vector from the cursor on, as far as both reach; returns the bytes. */
static size_t iov_copy(const struct tess_iov *v, unsigned *i, size_t *off, char *p, size_t n, bool in)
{
	size_t left = n;

	while (left && *i < v->n) {
		const struct iovec *e = &v->iov[*i];
		size_t k = MIN(left, e->iov_len - *off);

		if (in)
			memcpy((char *)e->iov_base + *off, p, k);
		else
			memcpy(p, (const char *)e->iov_base + *off, k);
		p += k;
		left -= k;
		*off += k;
		if (*off == e->iov_len) {
			*off = 0;
			(*i)++;
		}
	}
	return n - left;
}

static size_t on_upload(char *p, size_t size, size_t n, void *arg)
{
	struct http_xfer *x = arg;

	return iov_copy(&x->call->body, &x->body_i, &x->body_off, p, size * n, false);
}

/* A request goes again from its start: the connection was found dead, or 417. */
static int on_rewind(void *arg, curl_off_t off, int origin)
{
	struct http_xfer *x = arg;
	const struct tess_iov *v = &x->call->body;
	uint64_t left = (uint64_t)off;

	if (origin != SEEK_SET || off < 0)
		return CURL_SEEKFUNC_FAIL;
	for (x->body_i = 0; x->body_i < v->n && left >= v->iov[x->body_i].iov_len; x->body_i++)
		left -= v->iov[x->body_i].iov_len;
	x->body_off = (size_t)left;
	return CURL_SEEKFUNC_OK;
}

static bool xfer_goes_into(const struct http_call *c)
{
	return c->into.len && (c->status == 200 || c->status == 206);
}

static int xfer_body(struct http_xfer *x, char *p, size_t n)
{
	struct http_call *c = x->call;

	x->in_body = true;
	if (xfer_goes_into(c)) {
		if (n > c->into.len - c->got)
			return -EPROTO;
		c->got += iov_copy(&c->into, &x->into_i, &x->into_off, p, n, true);
		return 0;
	}
	if (n > c->reply_max - c->reply.n)
		return -EPROTO;
	text_addn(&c->reply, p, n);
	return text_error(&c->reply);
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct http_xfer *x = arg;
	size_t bytes = size * n;

	x->err = xfer_body(x, p, bytes);
	if (x->err == -EPROTO)
		snprintf(x->why, sizeof(x->why), "reply is larger than what was asked for");
	return x->err ? !bytes : bytes;
}

/* ---- reply headers ---- */

/* Each 1xx and the reply proper begins with one. */
static void xfer_status_line(struct http_xfer *x, const char *p, size_t n)
{
	struct http_call *c = x->call;
	const char *sp = memchr(p, ' ', n);
	curl_off_t sent_us = 0;
	unsigned status = 0;

	for (sp = sp ? sp + 1 : p + n; sp < p + n && isdigit((unsigned char)*sp) && status < 1000; sp++)
		status = status * 10 + (unsigned)(*sp - '0');
	text_clear(&x->fields);
	x->headed = false;
	c->length = c->total = UINT64_MAX;
	c->status = status;
	if (status < 200) {
		x->continued |= status == 100;
		c->status = 0;
		return;
	}
	curl_easy_getinfo(x->easy, CURLINFO_PRETRANSFER_TIME_T, &sent_us);
	c->first_byte = MAX(clock_now() - x->started - sent_us * 1000, INT64_C(1));
}

static void text_lower(struct text *t, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char low = (char)tolower((unsigned char)p[i]);

		text_addn(t, &low, 1);
	}
}

static int xfer_field(struct http_xfer *x, const char *p, size_t n)
{
	struct text *t = &x->fields;
	bool folded = n && (*p == ' ' || *p == '\t');
	const char *value = p, *colon;

	while (n && isspace((unsigned char)p[n - 1]))
		n--;
	x->headed |= !n;
	if (!n || x->in_body || (folded && !t->n))
		return 0;
	if (t->n + n + 3 > HTTP_FIELDS_MAX)
		return -EPROTO;
	if (folded) {
		t->n--;	/* the NUL: RFC 9112 5.2 makes the fold a space */
		text_addn(t, " ", 1);
	} else {
		colon = memchr(p, ':', n);
		if (!colon)
			return 0;
		text_lower(t, p, (size_t)(colon - p));
		text_addn(t, "", 1);
		value = colon + 1;
	}
	while (value < p + n && isspace((unsigned char)*value))
		value++;
	text_addn(t, value, (size_t)(p + n - value));
	text_addn(t, "", 1);
	if (text_error(t)) {
		text_clear(t);	/* half a field would be read beyond its end */
		return -ENOMEM;
	}
	return 0;
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
	struct http_xfer *x = arg;
	size_t bytes = size * n;

	x->head_bytes += bytes;
	if (bytes >= 5 && !memcmp(p, "HTTP/", 5))
		xfer_status_line(x, p, bytes);
	else
		x->err = xfer_field(x, p, bytes);
	if (x->err == -EPROTO)
		snprintf(x->why, sizeof(x->why), "reply has too many headers");
	return x->err ? !bytes : bytes;
}

const char *http_header(const struct http_call *c, const char *name)
{
	const struct http_xfer *x = c->priv;
	const char *p = x ? text_str(&x->fields) : "", *end = p + (x ? x->fields.n : 0);

	while (p < end) {
		const char *value = p + strlen(p) + 1;

		if (!strcasecmp(p, name))
			return value;
		p = value + strlen(value) + 1;
	}
	return NULL;
}

static uint64_t parse_digits(const char *s)
{
	char *end;
	uint64_t n;

	if (!isdigit((unsigned char)*s))
		return UINT64_MAX;
	errno = 0;
	n = strtoull(s, &end, 10);
	return errno || *end ? UINT64_MAX : n;
}

static void xfer_lengths(struct http_call *c)
{
	const char *len = http_header(c, "content-length"), *range = http_header(c, "content-range");

	if (len)
		c->length = parse_digits(len);
	if (range)
		range = strchr(range, '/');
	if (range)
		c->total = parse_digits(range + 1);
}

/* ---- what is sent ---- */

static int xfer_add_header(struct http_xfer *x, const char *line)
{
	struct curl_slist *l = curl_slist_append(x->headers, line);

	if (!l)
		return -ENOMEM;
	x->headers = l;
	return 0;
}

/* curl takes "Name:" as a wish to omit that header; an empty one is "Name;". */
static int xfer_add_line(struct http_xfer *x, const char *p, size_t n)
{
	const char *colon = memchr(p, ':', n);
	struct text t = TEXT_INIT;
	size_t i;
	int r;

	if (!colon)
		return -EINVAL;
	while (isspace((unsigned char)p[n - 1]))
		n--;
	for (i = (size_t)(colon - p) + 1; i < n && isspace((unsigned char)p[i]); i++)
		continue;
	if (i == n) {
		text_addn(&t, p, (size_t)(colon - p));
		text_add(&t, ";");
	} else {
		text_addn(&t, p, n);
	}
	r = text_error(&t);
	if (r == 0)
		r = xfer_add_header(x, text_str(&t));
	text_done(&t);
	return r;
}

static int xfer_headers(struct http_xfer *x)
{
	const char *p = x->call->headers ? x->call->headers : "";
	int r = 0;

	while (*p && r == 0) {
		size_t n = strcspn(p, "\n");

		if (n)
			r = xfer_add_line(x, p, n);
		p += n + (p[n] == '\n');
	}
	x->expects = x->call->body.len > HTTP_EXPECT_MIN &&
		     !atomic_load_explicit(&x->http->no_continue, memory_order_relaxed);
	if (r == 0)
		r = xfer_add_header(x, x->expects ? "Expect: 100-continue" : "Expect:");
	return r == 0 ? xfer_add_header(x, "Accept:") : r;
}

/* Not inherited by what the process may execute. */
static curl_socket_t on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	(void)arg;
	(void)purpose;
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

#define SET(opt, value) (bad |= curl_easy_setopt(x->easy, (opt), (value)))

static unsigned xfer_set_wire(struct http_xfer *x)
{
	const struct http_conf *k = &x->http->conf;
	unsigned bad = 0;

#if LIBCURL_VERSION_NUM >= 0x075500
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
	SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_NOPROGRESS, 1L);
	SET(CURLOPT_TCP_NODELAY, 1L);
	SET(CURLOPT_TCP_KEEPALIVE, 1L);
	SET(CURLOPT_OPENSOCKETFUNCTION, on_socket);
	SET(CURLOPT_CONNECTTIMEOUT_MS, (long)((k->connect_timeout + NS_PER_MS - 1) / NS_PER_MS));
#if LIBCURL_VERSION_NUM >= 0x075700
	/* Giving up on a name must not wait for the resolver's thread. */
	SET(CURLOPT_QUICK_EXIT, 1L);
#endif
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_PATH_AS_IS, 1L);
	SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
	SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	if (k->proxy)
		SET(CURLOPT_PROXY, k->proxy);
	return bad;
}

static unsigned xfer_set_tls(struct http_xfer *x)
{
	const struct http_conf *k = &x->http->conf;
	unsigned bad = 0;

	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	if (k->ca_file) {
		/* Instead of the system's, not besides them. */
		SET(CURLOPT_CAINFO, k->ca_file);
		SET(CURLOPT_CAPATH, NULL);
		SET(CURLOPT_PROXY_CAINFO, k->ca_file);
		SET(CURLOPT_PROXY_CAPATH, NULL);
	}
	if (k->cert_file) {
		SET(CURLOPT_SSLCERT, k->cert_file);
		SET(CURLOPT_SSLKEY, k->key_file ? k->key_file : k->cert_file);
		SET(CURLOPT_KEYPASSWD, "");	/* or OpenSSL asks the terminal */
	}
	return bad;
}

static unsigned xfer_set_call(struct http_xfer *x)
{
	const struct http_call *c = x->call;
	unsigned bad = 0;

	SET(CURLOPT_PRIVATE, x);
	SET(CURLOPT_ERRORBUFFER, x->why);
	SET(CURLOPT_URL, c->url);
	SET(CURLOPT_HTTPHEADER, x->headers);
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_HEADERDATA, x);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, x);
	if (c->into.len > (uint64_t)HTTP_BUFFER)
		SET(CURLOPT_BUFFERSIZE, HTTP_BUFFER);
	if (c->body.len || !strcmp(c->method, "PUT") || !strcmp(c->method, "POST")) {
		SET(CURLOPT_UPLOAD, 1L);
		SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)c->body.len);
		SET(CURLOPT_READFUNCTION, on_upload);
		SET(CURLOPT_READDATA, x);
		SET(CURLOPT_SEEKFUNCTION, on_rewind);
		SET(CURLOPT_SEEKDATA, x);
		SET(CURLOPT_EXPECT_100_TIMEOUT_MS, HTTP_EXPECT_WAIT);
		if (c->body.len > (uint64_t)HTTP_BUFFER)
			SET(CURLOPT_UPLOAD_BUFFERSIZE, HTTP_BUFFER);
	} else if (!strcmp(c->method, "HEAD")) {
		SET(CURLOPT_NOBODY, 1L);
	}
	SET(CURLOPT_CUSTOMREQUEST, c->method);
	return bad;
}
#undef SET

int xfer_prepare(struct http_xfer *x)
{
	int r = xfer_headers(x);

	if (r < 0)
		return r;
	return xfer_set_wire(x) | xfer_set_tls(x) | xfer_set_call(x) ? -ENOMEM : 0;
}

/* ---- how it ended ---- */

/*
 * The first row whose code is that, and whose text, if any, is in curl's message. Alerts about our
 * certificate come, with TLS 1.3, only after the handshake, when we read.
 */
static const struct {
	CURLcode    code;
	const char *text;
	int         err;
} outcomes[] = {
	{ CURLE_OK, NULL, 0 },
	{ CURLE_UNSUPPORTED_PROTOCOL, NULL, -EPROTO },
	{ CURLE_URL_MALFORMAT, NULL, -EINVAL },
	{ CURLE_LOGIN_DENIED, NULL, -EINVAL },
	{ CURLE_COULDNT_RESOLVE_PROXY, NULL, -EHOSTUNREACH },
	{ CURLE_COULDNT_RESOLVE_HOST, NULL, -EHOSTUNREACH },
	{ CURLE_COULDNT_CONNECT, NULL, -ENOTCONN },
	{ CURLE_PROXY, NULL, -ENOTCONN },
	{ CURLE_OPERATION_TIMEDOUT, NULL, -ETIMEDOUT },
	{ CURLE_OUT_OF_MEMORY, NULL, -ENOMEM },
	{ CURLE_SSL_CONNECT_ERROR, "certificate", -EACCES },
	{ CURLE_SSL_CONNECT_ERROR, "unknown ca", -EACCES },
	{ CURLE_SSL_CONNECT_ERROR, NULL, -ENOTCONN },
	{ CURLE_SSL_CIPHER, NULL, -ENOTCONN },
	{ CURLE_PEER_FAILED_VERIFICATION, NULL, -EACCES },
	{ CURLE_SSL_CERTPROBLEM, NULL, -EACCES },
	{ CURLE_SSL_CACERT_BADFILE, NULL, -EACCES },
	{ CURLE_SSL_ISSUER_ERROR, NULL, -EACCES },
	{ CURLE_SSL_INVALIDCERTSTATUS, NULL, -EACCES },
#if LIBCURL_VERSION_NUM >= 0x074d00
	{ CURLE_SSL_CLIENTCERT, NULL, -EACCES },
#endif
	{ CURLE_SEND_ERROR, "alert certificate", -EACCES },
	{ CURLE_SEND_ERROR, "alert bad certificate", -EACCES },
	{ CURLE_SEND_ERROR, "alert unknown ca", -EACCES },
	{ CURLE_SEND_ERROR, NULL, -ECONNRESET },
	{ CURLE_RECV_ERROR, "alert certificate", -EACCES },
	{ CURLE_RECV_ERROR, "alert bad certificate", -EACCES },
	{ CURLE_RECV_ERROR, "alert unknown ca", -EACCES },
	{ CURLE_RECV_ERROR, "chunk", -EPROTO },	/* worded differently by curl 7 and 8 */
	{ CURLE_RECV_ERROR, "CONNECT tunnel failed", -ENOTCONN },
	{ CURLE_RECV_ERROR, "from proxy after CONNECT", -ENOTCONN },
	{ CURLE_RECV_ERROR, NULL, -ECONNRESET },
	{ CURLE_GOT_NOTHING, NULL, -ECONNRESET },
	{ CURLE_PARTIAL_FILE, NULL, -ECONNRESET },
	{ CURLE_SEND_FAIL_REWIND, NULL, -ECONNRESET },
	{ CURLE_WEIRD_SERVER_REPLY, NULL, -EPROTO },
	{ CURLE_BAD_CONTENT_ENCODING, NULL, -EPROTO },
};

static int xfer_classify(const struct http_xfer *x, CURLcode code)
{
	long os = 0;
	int err = -EPROTO;

	for (unsigned i = 0; i < ARRAY_SIZE(outcomes); i++)
		if (outcomes[i].code == code &&
		    (!outcomes[i].text || strstr(x->why, outcomes[i].text))) {
			err = outcomes[i].err;
			break;
		}
	if (code != CURLE_COULDNT_CONNECT)
		return err;
	curl_easy_getinfo(x->easy, CURLINFO_OS_ERRNO, &os);
	switch (os) {
	case ECONNREFUSED:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ETIMEDOUT:
		return -(int)os;
	default:
		return err;
	}
}

bool xfer_again(struct http_xfer *x, CURLcode code)
{
	long fresh = 1;

	if (code != CURLE_SEND_ERROR && code != CURLE_RECV_ERROR && code != CURLE_GOT_NOTHING)
		return false;
	curl_easy_getinfo(x->easy, CURLINFO_NUM_CONNECTS, &fresh);
	if (fresh || x->head_bytes || x->resent || x->err)
		return false;
	x->resent = true;
	x->why[0] = '\0';
	x->body_i = 0;
	x->body_off = 0;
	return curl_easy_setopt(x->easy, CURLOPT_FRESH_CONNECT, 1L) == CURLE_OK;
}

uint64_t xfer_moved(const struct http_xfer *x)
{
	curl_off_t up = 0;

	curl_easy_getinfo(x->easy, CURLINFO_SIZE_UPLOAD_T, &up);
	return (uint64_t)up + x->head_bytes + x->call->got + x->call->reply.n;
}

static void xfer_count(struct http_xfer *x)
{
	struct trace_counter *n = x->http->counters;
	struct http_call *c = x->call;
	curl_off_t up = 0;
	long fresh = 0;

	curl_easy_getinfo(x->easy, CURLINFO_SIZE_UPLOAD_T, &up);
	curl_easy_getinfo(x->easy, CURLINFO_NUM_CONNECTS, &fresh);
	trace_add(&n[HTTP_BYTES_UP], (uint64_t)up);
	trace_add(&n[HTTP_BYTES_DOWN], c->got + c->reply.n);
	trace_add(&n[HTTP_CONNECTS], (uint64_t)fresh);
	if (x->resent)
		trace_add(&n[HTTP_RESENT], 1);
	if (c->status && !fresh)
		trace_add(&n[HTTP_REUSED], 1);
	if (c->status)
		trace_lat(&x->http->first_byte, c->first_byte);
}

int xfer_outcome(struct http_xfer *x, CURLcode code)
{
	struct http_call *c = x->call;
	int err = x->err ? x->err : xfer_classify(x, code);

	/* To curl a reply that ends among its headers is whole. */
	if (err == 0 && !x->headed) {
		err = -ECONNRESET;
		snprintf(x->why, sizeof(x->why), "connection closed among the headers of the reply");
	}
	/* A proxy's address may have a password in it, and a malformed one is quoted. */
	if (strchr(x->why, '@'))
		x->why[0] = '\0';
	if (err && !x->why[0] && code != CURLE_OK)
		snprintf(x->why, sizeof(x->why), "%s", curl_easy_strerror(code));
	xfer_lengths(c);
	xfer_count(x);
	if (x->expects && err == 0 && !x->continued && c->status < 300)
		atomic_store_explicit(&x->http->no_continue, true, memory_order_relaxed);
	return err;
}

const char *http_why(const struct http_call *c)
{
	const struct http_xfer *x = c->priv;

	if (!c->err)
		return "";
	return x && x->why[0] ? x->why : err_text(c->err);
}

void http_call_done(struct http_call *c)
{
	struct http_xfer *x = c->priv;

	text_done(&c->reply);
	if (!x)
		return;
	text_done(&x->fields);
	free(x);
	c->priv = NULL;
}
