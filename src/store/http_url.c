/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of HTTP that need no connection: addresses, encoding, what a status means. */
#include "store/http.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/scoped.h"
#include <arpa/inet.h>
#include <curl/curl.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

#define HTTP_RETRY_AFTER_MAX (60 * NS_PER_S)

static const struct {
	unsigned status;
	int      err;
} statuses[] = {
	{ 404, -ENOENT },
	{ 401, -EACCES },
	{ 403, -EACCES },
	{ 408, -ETIMEDOUT },
	{ 425, -ETIMEDOUT },
	{ 409, -EBUSY },
	{ 412, -EEXIST },
	{ 413, -EFBIG },
	{ 416, -TESS_E_SHORT_BODY },
	{ 429, -TESS_E_STORE_BUSY },
	{ 503, -TESS_E_STORE_BUSY },
	{ 500, -EIO },
	{ 502, -EIO },
	{ 504, -EIO },
	{ 507, -TESS_E_STORE_FULL },
};

int http_status_err(unsigned status)
{
	if (status >= 200 && status < 300)
		return 0;
	for (unsigned i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].status == status)
			return statuses[i].err;
	return -EPROTO;
}

/* A date is taken against the server's own: only the difference is meant, and its clock may be off. */
static int64_t http_date_after(const char *when, const char *date)
{
	time_t at = curl_getdate(when, NULL), now = date ? curl_getdate(date, NULL) : -1;

	if (at == -1)
		return 0;
	if (now == -1)
		now = (time_t)(clock_wall() / NS_PER_S);
	return at > now ? MIN((int64_t)(at - now), INT64_C(3600)) * NS_PER_S : 0;
}

int64_t http_retry_after(const struct http_call *c)
{
	const char *s = http_header(c, "retry-after");
	int64_t ns;

	if (!s || !*s)
		return 0;
	if (s[strspn(s, "0123456789")]) {
		ns = http_date_after(s, http_header(c, "date"));
	} else {
		ns = strlen(s) < 10 ? (int64_t)strtoull(s, NULL, 10) * NS_PER_S :
				      HTTP_RETRY_AFTER_MAX;
	}
	return MIN(ns, HTTP_RETRY_AFTER_MAX);
}

void http_encode(struct text *out, const char *s, bool slash)
{
	static const char hex[] = "0123456789ABCDEF";

	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		char esc[3] = { '%', hex[c >> 4], hex[c & 15] };
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			     strchr("-._~", c) || (slash && c == '/');

		text_addn(out, plain ? s : esc, plain ? 1 : 3);
	}
}

/* Splits off the port; -EINVAL when it is none. */
static int url_port(const char *s, size_t n, unsigned *ret)
{
	unsigned port = 0;

	if (!n || n > 5)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)s[i]))
			return -EINVAL;
		port = port * 10 + (unsigned)(s[i] - '0');
	}
	if (!port || port > 65535)
		return -EINVAL;
	*ret = port;
	return 0;
}

static bool url_host_ok(const char *s, size_t n)
{
	bool six = n && s[0] == '[';

	if (!n || (six && (n < 4 || s[n - 1] != ']')))
		return false;
	for (size_t i = six; i < n - six; i++)	/* of an IPv6 address, with its zone */
		if (!isalnum((unsigned char)s[i]) && !strchr(six ? ":.%-_~" : "-._", s[i]))
			return false;
	return true;
}

int http_url_parse(const char *url, struct http_url *ret)
{
	struct http_url u = { .port = 0 };
	size_t n, host;

	if (!strncasecmp(url, "https://", 8))
		u.tls = true;
	else if (strncasecmp(url, "http://", 7))
		return -EINVAL;
	url += u.tls ? 8 : 7;
	n = strcspn(url, "/");
	host = *url == '[' ? strcspn(url, "]") + 1 : strcspn(url, ":/");
	if (host > n || host >= sizeof(u.host) || !url_host_ok(url, host))
		return -EINVAL;
	if (host < n && (url[host] != ':' || url_port(url + host + 1, n - host - 1, &u.port)))
		return -EINVAL;
	memcpy(u.host, url, host);
	url += n;
	n = strlen(url);
	while (n && url[n - 1] == '/')
		n--;
	if (n >= sizeof(u.path))
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (url[i] <= ' ' || url[i] == 127 || url[i] == '?' || url[i] == '#')
			return -EINVAL;
	memcpy(u.path, url, n);
	*ret = u;
	return 0;
}

bool http_host_is_loopback(const char *host)
{
	struct in_addr a;

	if (!strcasecmp(host, "localhost") || !strcmp(host, "[::1]"))
		return true;
	return inet_pton(AF_INET, host, &a) == 1 && (ntohl(a.s_addr) >> 24) == 127;
}
