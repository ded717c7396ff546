/* SPDX-License-Identifier: Apache-2.0 */
/* Replies, and the faults of those that were carried out. */
#include "fakeobj_int.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

void fake_reply_begin(struct reply *r, const struct request *q)
{
	memset(r, 0, sizeof(*r));
	r->status = 200;
	r->head = q->method && strcmp(q->method, "HEAD") == 0;
	r->headers = open_memstream(&r->header_text, &r->header_len);
	if (!r->headers)
		abort();
}

void fake_reply_header(struct reply *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vfprintf(r->headers, fmt, ap);
	va_end(ap);
	fputs("\r\n", r->headers);
}

void fake_reply_text(struct reply *r, const char *type, char *own, size_t len)
{
	free(r->own);
	r->own = own;
	r->data = (const uint8_t *)own;
	r->len = own ? len : 0;
	fake_reply_header(r, "Content-Type: %s", type);
}

static const char *usual_code(unsigned status)
{
	static const struct {
		unsigned    status;
		const char *code;
	} codes[] = {
		{ 400, "InvalidRequest" }, { 401, "AccessDenied" }, { 403, "AccessDenied" },
		{ 404, "NoSuchKey" }, { 408, "RequestTimeout" }, { 409, "OperationAborted" },
		{ 412, "PreconditionFailed" }, { 507, "InsufficientStorage" },
		{ 416, "InvalidRange" }, { 429, "TooManyRequests" }, { 500, "InternalError" },
		{ 501, "NotImplemented" }, { 503, "SlowDown" },
	};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		if (codes[i].status == status)
			return codes[i].code;
	}
	return "InternalError";
}

void fake_reply_error(struct reply *r, const struct request *q, unsigned status, const char *code)
{
	const char *region = "";
	char *p = NULL;

	code = code ? code : usual_code(status);
	if (strcmp(code, "AuthorizationHeaderMalformed") == 0)
		region = q->f->region;
	r->status = status;
	if (q->swift) {
		if (asprintf(&p, "<html><h1>%s</h1><p>%s</p></html>", fake_http_reason(status), code) > 0)
			fake_reply_text(r, "text/html; charset=UTF-8", p, strlen(p));
	} else {
		if (asprintf(&p, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code>"
			     "<Message>fakeobj says so</Message><RequestId>0123456789</RequestId>"
			     "<Region>%s</Region></Error>", code, region) > 0)
			fake_reply_text(r, "application/xml", p, strlen(p));
	}
	if (r->head) {
		r->announce = r->len;
		r->len = 0;
	}
}

/* "bytes=A-B", "bytes=A-", "bytes=-N"; false: none, or one that is ignored. */
static bool range_of(const char *text, uint64_t size, uint64_t *from, uint64_t *to)
{
	char *end;

	if (!text || strncmp(text, "bytes=", 6) != 0)
		return false;
	text += 6;
	if (*text == '-') {
		uint64_t n = strtoull(text + 1, NULL, 10);

		*from = n < size ? size - n : 0;
		*to = size - 1;
		return n > 0;
	}
	*from = strtoull(text, &end, 10);
	if (*end != '-')
		return false;
	*to = end[1] ? strtoull(end + 1, NULL, 10) : size - 1;
	return *to >= *from;
}

void fake_reply_object(struct reply *r, struct request *q, struct object *o)
{
	uint64_t from = 0, to = o->size ? o->size - 1 : 0;
	bool ranged = !r->head && q->fault.kind != K_WHOLE && q->fault.kind != K_CUT &&
		      range_of(fake_http_field(q, "Range"), o->size, &from, &to);

	r->obj = o;
	if (ranged && from >= o->size) {
		fake_reply_header(r, "Content-Range: bytes */%zu", o->size);
		fake_reply_error(r, q, 416, "InvalidRange");
		return;
	}
	to = to < o->size ? to : o->size - 1;
	if (q->fault.kind == K_OTHER_RANGE && ranged && to + 1 < o->size) {
		from++;
		to++;
	} else if (q->fault.kind == K_LESS && to > from) {
		to--;
	} else if (q->fault.kind == K_CUT) {
		to /= 2;
	}
	r->data = o->data + from;
	r->len = o->size ? (size_t)(to - from + 1) : 0;
	r->status = ranged ? 206 : 200;
	if (ranged)
		fake_reply_header(r, "Content-Range: bytes %llu-%llu/%zu", (unsigned long long)from,
			     (unsigned long long)to, o->size);
	fake_reply_header(r, q->swift ? "Etag: %s" : "ETag: \"%s\"", o->md5);
	fake_reply_header(r, "Content-Type: application/octet-stream");
	fake_reply_header(r, "Last-Modified: Fri, 02 Jan 2026 03:04:05 GMT");
	fake_reply_header(r, "Accept-Ranges: bytes");
	if (r->head) {
		r->announce = r->len;
		r->len = 0;
	}
}

static int send_head(struct reply *r, struct request *q, uint64_t length, bool framed)
{
	char *p = NULL;
	size_t n = 0;
	FILE *o = open_memstream(&p, &n);
	time_t now = fake_now(q->f);
	char date[40] = "";
	struct tm tm;
	int err;

	if (!o)
		return -ENOMEM;
	if (gmtime_r(&now, &tm))
		(void)strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	fprintf(o, "HTTP/1.1 %u %s\r\nServer: fakeobj\r\nDate: %s\r\nx-amz-request-id: 0123456789\r\n",
		r->status, fake_http_reason(r->status), date);
	if (framed && r->status != 204)
		fprintf(o, "Content-Length: %llu\r\n", (unsigned long long)length);
	if (!q->keep && q->fault.kind != K_CLOSE)
		fputs("Connection: close\r\n", o);
	fflush(r->headers);
	fprintf(o, "%s\r\n", r->header_text ? r->header_text : "");
	if (fclose(o) != 0)
		return -ENOMEM;
	err = fake_http_send_all(q->f, q->fd, p, n);
	free(p);
	return err;
}

/* What a body that is none is replaced by where a fault needs one. */
static const uint8_t filler[256];

static int send_broken(struct reply *r, struct request *q)
{
	uint64_t length = r->head ? r->announce : r->len;
	size_t half = r->len / 2;

	if (r->status == 204)
		r->status = 200;
	switch (q->fault.kind) {
	case K_SHORT:
	case K_STALL:
	case K_RESET_MID:
		/* An empty reply announces some and sends none. */
		if (r->head || send_head(r, q, length ? length : 100, true) < 0 ||
		    fake_http_send_all(q->f, q->fd, r->data, half) < 0)
			break;
		if (q->fault.kind == K_STALL)
			(void)fake_http_wait(q->f, q->fd, q->fault.ms);
		break;
	case K_LONG:
		if (send_head(r, q, length, true) == 0 &&
		    fake_http_send_all(q->f, q->fd, r->data, r->len) == 0)
			(void)fake_http_send_all(q->f, q->fd, filler, sizeof(filler));
		break;
	case K_MORE:
		if (send_head(r, q, length + 1, true) == 0 &&
		    fake_http_send_all(q->f, q->fd, r->data, r->len) == 0 && !r->head)
			(void)fake_http_send_all(q->f, q->fd, filler, 1);
		return q->keep ? 0 : -1;
	default:
		if (send_head(r, q, 0, false) == 0)
			(void)fake_http_send_all(q->f, q->fd, r->data, half);
		break;
	}
	if (q->fault.kind == K_RESET_MID)
		fake_http_rst(q->fd);
	return -1;
}

static int send_flipped(struct reply *r)
{
	char *p = malloc(r->len);

	if (!p)
		return -ENOMEM;
	memcpy(p, r->data, r->len);
	p[r->len * 2 / 3] ^= 0x10;
	free(r->own);
	r->own = p;
	r->data = (const uint8_t *)p;
	return 0;
}

int fake_reply_send(struct reply *r, struct request *q)
{
	/* Errors of its own go out as they are. */
	if (r->status >= 300 && q->fault.kind != K_DELAY && q->fault.kind != K_RESET_AFTER &&
	    q->fault.kind != K_CLOSE)
		q->fault.kind = K_NONE;
	switch (q->fault.kind) {
	case K_RESET_AFTER:
		fake_http_rst(q->fd);
		return -1;
	case K_SHORT:
	case K_STALL:
	case K_RESET_MID:
	case K_LONG:
	case K_MORE:
	case K_UNFRAMED:
		return send_broken(r, q);
	case K_DELAY:
		if (!fake_http_wait(q->f, q->fd, q->fault.ms))
			return -1;
		break;
	case K_FLIP:
		if (r->len > 0 && send_flipped(r) < 0)
			return -1;
		break;
	default:
		break;
	}
	if (send_head(r, q, r->announce ? r->announce : r->len, true) < 0 ||
	    (r->len > 0 && fake_http_send_all(q->f, q->fd, r->data, r->len) < 0))
		return -1;
	return q->keep && q->fault.kind != K_CLOSE ? 0 : -1;
}

void fake_reply_done(struct reply *r)
{
	if (r->headers)
		(void)fclose(r->headers);
	free(r->header_text);
	free(r->own);
	fake_object_unref(r->obj);
}
