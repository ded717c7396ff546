/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http.h"

#include "base/err.h"
#include "unit.h"

#include <string.h>

START_TEST(an_address_is_taken_apart)
{
	static const struct {
		const char *url, *host, *path;
		unsigned    port;
		bool        tls;
	} good[] = {
		{ "http://h", "h", "", 0, false },
		{ "https://H.example.org/", "H.example.org", "", 0, true },
		{ "HTTPS://h:8443/v1/AUTH_x//", "h", "/v1/AUTH_x", 8443, true },
		{ "http://[::1]:9000/a/b", "[::1]", "/a/b", 9000, false },
		{ "http://[fe80::1%25eth0]", "[fe80::1%25eth0]", "", 0, false },
		{ "http://10.0.0.1:1/x%20y", "10.0.0.1", "/x%20y", 1, false },
		{ "http://a_b-c:65535", "a_b-c", "", 65535, false },
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct http_url u;

		ck_assert_msg(http_url_parse(good[i].url, &u) == 0, "%s", good[i].url);
		ck_assert_str_eq(u.host, good[i].host);
		ck_assert_str_eq(u.path, good[i].path);
		ck_assert_uint_eq(u.port, good[i].port);
		ck_assert_int_eq(u.tls, good[i].tls);
	}
}
END_TEST

START_TEST(what_is_no_address_is_refused_and_writes_nothing)
{
	static const char *const bad[] = {
		"",		"h",		    "ftp://h",	       "http:/h",	"http://",
		"http:///p",	"http://h:",	    "http://h:0",      "http://h:65536",	"http://h:12x",
		"http://h:123456", "http://u@h",    "http://u:p@h/x",  "http://[::1",	"http://[]:80",
		"http://[::1]x", "http://h/a?b=c",  "http://h/a#b",    "http://h/a b",	"http://h\n/",
		"http://h/a\r\nX: y", "http://a b", "http://[ab\n::1]", "http://h?x",
	};
	struct http_url u = { .host = "untouched" };
	char long_one[2048];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(http_url_parse(bad[i], &u) == -EINVAL, "%s", bad[i]);
	memset(long_one, 'a', sizeof(long_one));
	memcpy(long_one, "http://", 7);
	long_one[400] = '\0';
	ck_assert_int_eq(http_url_parse(long_one, &u), -EINVAL);
	long_one[400] = 'a';
	long_one[8] = '/';
	long_one[sizeof(long_one) - 1] = '\0';
	ck_assert_int_eq(http_url_parse(long_one, &u), -EINVAL);
	ck_assert_str_eq(u.host, "untouched");
}
END_TEST

START_TEST(encoding_leaves_only_what_is_unreserved)
{
	struct text t = TEXT_INIT;
	char all[256];

	http_encode(&t, "AZaz09-._~/ +%\xc3\xa9*'()!=&", false);
	ck_assert_str_eq(text_str(&t), "AZaz09-._~%2F%20%2B%25%C3%A9%2A%27%28%29%21%3D%26");
	text_clear(&t);
	http_encode(&t, "a/b c/", true);
	ck_assert_str_eq(text_str(&t), "a/b%20c/");
	text_clear(&t);
	for (int i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	all[255] = '\0';
	http_encode(&t, all, false);
	ck_assert_uint_eq(t.n, 66 + 3 * (255 - 66));
	text_done(&t);
}
END_TEST

START_TEST(each_status_means_what_the_header_says)
{
	static const struct {
		unsigned status;
		int      err;
	} rows[] = {
		{ 200, 0 }, { 201, 0 }, { 204, 0 }, { 206, 0 }, { 299, 0 },
		{ 404, -ENOENT }, { 401, -EACCES }, { 403, -EACCES },
		{ 408, -ETIMEDOUT }, { 425, -ETIMEDOUT }, { 409, -EBUSY }, { 412, -EEXIST },
		{ 413, -EFBIG }, { 416, -TESS_E_SHORT_BODY },
		{ 429, -TESS_E_STORE_BUSY }, { 503, -TESS_E_STORE_BUSY },
		{ 500, -EIO }, { 502, -EIO }, { 504, -EIO }, { 507, -TESS_E_STORE_FULL },
		{ 0, -EPROTO }, { 100, -EPROTO }, { 301, -EPROTO }, { 304, -EPROTO }, { 307, -EPROTO },
		{ 400, -EPROTO }, { 418, -EPROTO }, { 501, -EPROTO }, { 599, -EPROTO },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_int_eq(http_status_err(rows[i].status), rows[i].err);
}
END_TEST

UNIT_MAIN("http_url", an_address_is_taken_apart, what_is_no_address_is_refused_and_writes_nothing,
	  encoding_leaves_only_what_is_unreserved, each_status_means_what_the_header_says)
