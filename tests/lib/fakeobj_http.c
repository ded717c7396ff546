/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 as far as a test server needs it: a head, a body with a length, bytes out. */
#include "fakeobj_int.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY_MAX (UINT64_C(1) << 30)

int fake_http_send_all(struct fakeobj *f, int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n > 0) {
		ssize_t did = send(fd, at, n, MSG_NOSIGNAL);

		if (did < 0 && errno == EINTR)
			continue;
		if (did <= 0)
			return -EPIPE;
		at += did;
		n -= (size_t)did;
		pthread_mutex_lock(&f->lock);
		f->bytes_out += (uint64_t)did;
		pthread_mutex_unlock(&f->lock);
	}
	return 0;
}

/* The close that follows sends RST. */
void fake_http_rst(int fd)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

bool fake_http_wait(struct fakeobj *f, int fd, unsigned ms)
{
	struct pollfd p[2] = { { .fd = fd, .events = POLLRDHUP },
			       { .fd = f->stop[0], .events = POLLIN } };

	return poll(p, 2, ms == UINT32_MAX ? -1 : (int)ms) == 0;
}

static int read_some(struct request *q, void *p, size_t n)
{
	ssize_t did;

	do
		did = recv(q->fd, p, n, 0);
	while (did < 0 && errno == EINTR);
	if (did > 0) {
		pthread_mutex_lock(&q->f->lock);
		q->f->bytes_in += (uint64_t)did;
		pthread_mutex_unlock(&q->f->lock);
	}
	return did < 0 ? -errno : (int)did;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void fake_http_decode(char *s, bool plus)
{
	char *to = s;

	for (; *s; s++) {
		if (*s == '%' && hex(s[1]) >= 0 && hex(s[2]) >= 0) {
			*to++ = (char)(hex(s[1]) * 16 + hex(s[2]));
			s += 2;
		} else {
			*to++ = plus && *s == '+' ? ' ' : *s;
		}
	}
	*to = 0;
}

void fake_http_encode_to(FILE *out, const char *s, bool slash)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
			     (c >= '0' && c <= '9') || strchr("-._~", c) || (slash && c == '/');

		if (plain)
			fputc(c, out);
		else
			fprintf(out, "%%%02X", c);
	}
}

unsigned fake_http_form(char *text, struct field *ret, unsigned max)
{
	unsigned n = 0;
	char *one;

	while (n < max && (one = strsep(&text, "&")) != NULL) {
		char *eq = strchr(one, '=');

		if (!*one)
			continue;
		if (eq)
			*eq++ = 0;
		fake_http_decode(one, true);
		if (eq)
			fake_http_decode(eq, true);
		ret[n].name = one;
		ret[n++].value = eq ? eq : "";
	}
	return n;
}

static const char *find(const struct field *v, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++) {
		if (strcasecmp(v[i].name, name) == 0)
			return v[i].value;
	}
	return NULL;
}

enum verb fake_http_verb(const struct request *q)
{
	static const struct {
		const char *method;
		enum verb   verb;
	} verbs[] = {
		{ "PUT", V_PUT }, { "GET", V_GET }, { "HEAD", V_HEAD }, { "DELETE", V_DEL },
	};

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(verbs[i].method, q->method) == 0)
			return verbs[i].verb;
	}
	return V_OTHER;
}

const char *fake_http_field(const struct request *q, const char *name)
{
	return find(q->field, q->nfield, name);
}

const char *fake_http_query(const struct request *q, const char *name)
{
	return find(q->query, q->nquery, name);
}

static int parse_target(struct request *q)
{
	size_t n = strlen(q->target) + 1;
	char *at, *query;

	/* http://HOST/PATH is what a proxy is sent: served alike. */
	if (strncasecmp(q->target, "http://", 7) == 0) {
		char *slash = strchr(q->target + 7, '/');

		q->target = slash ? slash : q->target + strlen(q->target) - 1;
		n = strlen(q->target) + 1;
	}
	if (q->target[0] != '/')
		return -EPROTO;
	q->scratch = malloc(4 * n);
	if (!q->scratch)
		return -ENOMEM;
	q->path = memcpy(q->scratch, q->target, n);
	q->rawpath = memcpy(q->scratch + n, q->target, n);
	query = memcpy(q->scratch + 2 * n, q->target, n);
	at = memcpy(q->scratch + 3 * n, q->target, n);
	q->path[strcspn(q->path, "?")] = 0;
	q->rawpath[strcspn(q->rawpath, "?")] = 0;
	fake_http_decode(q->path, false);
	query += strcspn(query, "?");
	q->rawquery = query + (*query == '?');
	at += strcspn(at, "?");
	q->nquery = fake_http_form(at + (*at == '?'), q->query, QUERIES_MAX);
	return 0;
}

static int parse_head(struct request *q)
{
	char *rest = q->head, *line = strsep(&rest, "\n"), *version;

	q->method = strsep(&line, " ");
	q->target = strsep(&line, " ");
	version = line;
	if (!q->target || !version || strncmp(version, "HTTP/1.", 7) != 0)
		return -EPROTO;
	q->keep = version[7] == '1';
	while ((line = strsep(&rest, "\n")) != NULL) {
		char *value = strchr(line, ':');

		line[strcspn(line, "\r")] = 0;
		if (!*line)
			break;
		if (!value || q->nfield == FIELDS_MAX)
			return -EPROTO;
		*value++ = 0;
		value += strspn(value, " \t");
		for (size_t n = strlen(value); n > 0 && strchr(" \t", value[n - 1]); n--)
			value[n - 1] = 0;
		q->field[q->nfield].name = line;
		q->field[q->nfield++].value = value;
	}
	line = (char *)(uintptr_t)fake_http_field(q, "Connection");
	if (line && strcasecmp(line, "close") == 0)
		q->keep = false;
	return parse_target(q);
}

/* `have` bytes of it came with the head. */
static int read_body(struct request *q, const char *early, size_t have)
{
	const char *length = fake_http_field(q, "Content-Length"), *expect = fake_http_field(q, "Expect");
	uint64_t n = length ? strtoull(length, NULL, 10) : 0;

	if (fake_http_field(q, "Transfer-Encoding") || n > BODY_MAX || have > n)
		return -EPROTO;
	q->body = malloc((size_t)n + 1);
	if (!q->body)
		return -ENOMEM;
	q->body[n] = 0;
	if (have > 0)
		memcpy(q->body, early, have);
	q->body_len = (size_t)n;
	if (have < n && expect && strcasecmp(expect, "100-continue") == 0 &&
	    fake_http_send_all(q->f, q->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25) < 0)
		return -EPIPE;
	while (have < n) {
		int did = read_some(q, q->body + have, (size_t)n - have);

		if (did <= 0)
			return -EPIPE;
		have += (size_t)did;
	}
	return 0;
}

int fake_http_read(struct request *q)
{
	size_t have = 0, head = 0;
	char *end = NULL;
	int r;

	q->head = malloc(HEAD_MAX + 1);
	if (!q->head)
		return -ENOMEM;
	while (!end) {
		int did = have < HEAD_MAX ? read_some(q, q->head + have, HEAD_MAX - have) : -E2BIG;

		if (did <= 0)
			return did;
		have += (size_t)did;
		q->head[have] = 0;
		end = strstr(q->head, "\r\n\r\n");
	}
	head = (size_t)(end - q->head) + 4;
	end[2] = 0;
	r = parse_head(q);
	if (r == 0)
		r = read_body(q, q->head + head, have - head);
	return r < 0 ? r : 1;
}

void fake_http_request_free(struct request *q)
{
	free(q->head);
	free(q->body);
	free(q->scratch);
}

const char *fake_http_reason(unsigned status)
{
	static const struct {
		unsigned    status;
		const char *text;
	} reasons[] = {
		{ 200, "OK" }, { 201, "Created" }, { 202, "Accepted" }, { 204, "No Content" },
		{ 206, "Partial Content" }, { 301, "Moved Permanently" }, { 302, "Found" },
		{ 307, "Temporary Redirect" }, { 308, "Permanent Redirect" }, { 400, "Bad Request" },
		{ 401, "Unauthorized" }, { 403, "Forbidden" }, { 404, "Not Found" },
		{ 409, "Conflict" }, { 412, "Precondition Failed" },
		{ 416, "Requested Range Not Satisfiable" }, { 429, "Too Many Requests" },
		{ 500, "Internal Server Error" }, { 501, "Not Implemented" },
		{ 503, "Service Unavailable" },
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].status == status)
			return reasons[i].text;
	}
	return "Whatever";
}
