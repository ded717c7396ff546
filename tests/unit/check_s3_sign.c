/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Against the examples that AWS published: the four of "Authenticating Requests: Using the
 * Authorization Header" (S3), the derived key of the SigV4 documentation and the aws-sig-v4-test-suite.
 */
#include "store/s3_sign.h"

#include "base/clock.h"
#include "base/scoped.h"
#include "unit.h"

#include <string.h>

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct vector {
	const char    *name;
	const char    *method, *path;
	struct s3_pair query[3], headers[6];
	const char    *payload, *signature, *names;
};

static unsigned count(const struct s3_pair *p, unsigned max)
{
	unsigned n = 0;

	while (n < max && p[n].name)
		n++;
	return n;
}

static void hold(const struct vector *v, const char *id, const char *secret, const char *date,
		 const char *service)
{
	struct s3_request rq = {
		.method = v->method, .path = v->path, .query = v->query,
		.nquery = count(v->query, ARRAY_SIZE(v->query)), .headers = v->headers,
		.nheaders = count(v->headers, ARRAY_SIZE(v->headers)), .payload = v->payload,
	};
	struct text out = TEXT_INIT, want = TEXT_INIT;
	struct s3_signkey key;

	CLEAN(s3_signkey_derive(&key, secret, date, "us-east-1", service));
	CLEAN(s3_authorization(&out, &rq, id, date, &key));
	text_fmt(&want,
		 "AWS4-HMAC-SHA256 Credential=%s/%.8s/us-east-1/%s/aws4_request,"
		 "SignedHeaders=%s,Signature=%s",
		 id, date, service, v->names, v->signature);
	ck_assert_msg(strcmp(text_str(&out), text_str(&want)) == 0, "%s:\n got %s\nwant %s", v->name,
		      text_str(&out), text_str(&want));
	text_done(&out);
	text_done(&want);
}

#define S3_HOST { "Host", "examplebucket.s3.amazonaws.com" }
#define S3_DATE { "x-amz-date", "20130524T000000Z" }
static const struct vector s3_examples[] = {
	{ "GET object", "GET", "/test.txt", {{ NULL, NULL }},
	  { S3_HOST, { "Range", "bytes=0-9" }, { "x-amz-content-sha256", EMPTY }, S3_DATE }, EMPTY,
	  "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
	  "host;range;x-amz-content-sha256;x-amz-date" },
	{ "PUT object", "PUT", "/test%24file.text", {{ NULL, NULL }},
	  { { "x-amz-storage-class", "REDUCED_REDUNDANCY" }, S3_HOST,
	    { "Date", "Fri, 24 May 2013 00:00:00 GMT" }, S3_DATE,
	    { "x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072" } },
	  "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
	  "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
	  "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class" },
	{ "GET bucket lifecycle", "GET", "/", {{ "lifecycle", "" }},
	  { S3_HOST, S3_DATE, { "x-amz-content-sha256", EMPTY } }, EMPTY,
	  "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
	  "host;x-amz-content-sha256;x-amz-date" },
	{ "GET bucket list", "GET", "/", {{ "prefix", "J" }, { "max-keys", "2" }},
	  { S3_HOST, S3_DATE, { "x-amz-content-sha256", EMPTY } }, EMPTY,
	  "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
	  "host;x-amz-content-sha256;x-amz-date" },
};

START_TEST(the_examples_of_s3_hold)
{
	for (size_t i = 0; i < ARRAY_SIZE(s3_examples); i++)
		hold(&s3_examples[i], "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		     "20130524T000000Z", "s3");
}
END_TEST

#define HOST { "Host", "example.amazonaws.com" }
#define DATE { "X-Amz-Date", "20150830T123600Z" }
#define FORM "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"
static const struct vector suite[] = {
	{ "get-vanilla", "GET", "/", {{ NULL, NULL }}, { HOST, DATE }, EMPTY,
	  "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31", "host;x-amz-date" },
	{ "post-vanilla", "POST", "/", {{ NULL, NULL }}, { HOST, DATE }, EMPTY,
	  "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b", "host;x-amz-date" },
	{ "get-vanilla-query-order-key-case", "GET", "/",
	  {{ "Param2", "value2" }, { "Param1", "value1" }}, { HOST, DATE }, EMPTY,
	  "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500", "host;x-amz-date" },
	{ "get-vanilla-empty-query-key", "GET", "/", {{ "Param1", "value1" }}, { HOST, DATE }, EMPTY,
	  "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb", "host;x-amz-date" },
	{ "get-vanilla-query-unreserved", "GET", "/",
	  {{ "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
	     "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" }},
	  { HOST, DATE }, EMPTY,
	  "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197", "host;x-amz-date" },
	{ "get-utf8", "GET", "/%E1%88%B4", {{ NULL, NULL }}, { HOST, DATE }, EMPTY,
	  "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85", "host;x-amz-date" },
	{ "get-unreserved", "GET",
	  "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", {{ NULL, NULL }},
	  { HOST, DATE }, EMPTY,
	  "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f", "host;x-amz-date" },
	{ "get-header-key-duplicate", "GET", "/", {{ NULL, NULL }},
	  { HOST, { "My-Header1", "value2" }, { "My-Header1", "value2" }, { "My-Header1", "value1" },
	    DATE }, EMPTY,
	  "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
	  "host;my-header1;x-amz-date" },
	{ "get-header-value-order", "GET", "/", {{ NULL, NULL }},
	  { HOST, { "My-Header1", "value4" }, { "My-Header1", "value1" }, { "My-Header1", "value3" },
	    { "My-Header1", "value2" }, DATE }, EMPTY,
	  "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
	  "host;my-header1;x-amz-date" },
	{ "get-header-value-trim", "GET", "/", {{ NULL, NULL }},
	  { HOST, { "My-Header1", " value1" }, { "My-Header2", " \"a   b   c\"" }, DATE }, EMPTY,
	  "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
	  "host;my-header1;my-header2;x-amz-date" },
	{ "post-header-key-sort", "POST", "/", {{ NULL, NULL }},
	  { HOST, { "My-Header1", "value1" }, DATE }, EMPTY,
	  "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
	  "host;my-header1;x-amz-date" },
	{ "post-x-www-form-urlencoded", "POST", "/", {{ NULL, NULL }},
	  { { "Content-Type", "application/x-www-form-urlencoded" }, HOST, DATE }, FORM,
	  "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
	  "content-type;host;x-amz-date" },
};

START_TEST(the_suite_of_aws_holds)
{
	for (size_t i = 0; i < ARRAY_SIZE(suite); i++)
		hold(&suite[i], "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
		     "20150830T123600Z", "service");
}
END_TEST

START_TEST(the_derived_key_is_that_of_the_documentation)
{
	struct s3_signkey key;
	char hex[65];

	CLEAN(s3_signkey_derive(&key, "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830T000000Z",
				"us-east-1", "iam"));
	s3_hex(hex, key.key, 32);
	ck_assert_str_eq(hex, "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
	ck_assert_str_eq(key.day, "20150830");
}
END_TEST

START_TEST(a_query_is_sorted_as_it_is_encoded)
{
	static const struct s3_pair p[] = {
		{ "b", "2" }, { "a-b", "" }, { "a", "z" }, { "a", "b c/d+e" }, { "a!", "~" },
	};
	struct text t = TEXT_INIT;

	CLEAN(s3_query(&t, p, ARRAY_SIZE(p)));
	ck_assert_str_eq(text_str(&t), "a=b%20c%2Fd%2Be&a=z&a%21=~&a-b=&b=2");
	text_done(&t);
}
END_TEST

START_TEST(too_much_is_refused)
{
	static struct s3_pair p[S3_PAIRS_MAX + 1];
	struct s3_request rq = { .method = "GET", .path = "/", .headers = p, .nheaders = S3_PAIRS_MAX + 1,
				 .payload = EMPTY };
	struct text t = TEXT_INIT;
	struct s3_signkey key;
	char longs[300];

	for (unsigned i = 0; i <= S3_PAIRS_MAX; i++)
		p[i] = (struct s3_pair){ "a", "b" };
	memset(longs, 'x', sizeof(longs));
	longs[sizeof(longs) - 1] = 0;
	ck_assert_int_eq(s3_query(&t, p, S3_PAIRS_MAX + 1), -E2BIG);
	ck_assert_int_eq(s3_canonical(&t, &rq), -E2BIG);
	ck_assert_int_eq(s3_signkey_derive(&key, longs, "20150830T000000Z", "r", "s3"), -ENAMETOOLONG);
	ck_assert_int_eq(s3_signkey_derive(&key, "s", "20150830T000000Z", longs, "s3"), -ENAMETOOLONG);
	text_done(&t);
}
END_TEST

START_TEST(bodies_in_pieces_hash_as_one)
{
	char text[] = "Welcome to Amazon S3.";
	struct iovec v[3] = { { text, 11 }, { text, 0 }, { text + 11, 10 } };
	struct tess_iov body = { v, 3, 21 }, none = { NULL, 0, 0 };
	unsigned char md5[16];
	char hex[65], base[25];

	CLEAN(s3_sha256_hex(&body, hex));
	ck_assert_str_eq(hex, s3_examples[1].payload);
	CLEAN(s3_sha256_hex(&none, hex));
	ck_assert_str_eq(hex, EMPTY);
	CLEAN(s3_md5(&none, md5));
	s3_base64(base, md5, 16);
	ck_assert_str_eq(base, "1B2M2Y8AsgTpgAmY7PhCfg==");
}
END_TEST

START_TEST(dates_are_of_utc)
{
	char date[17];

	s3_date(INT64_C(1369353600) * NS_PER_S, date);
	ck_assert_str_eq(date, "20130524T000000Z");
	s3_date(INT64_C(1440938160) * NS_PER_S + 999999999, date);
	ck_assert_str_eq(date, "20150830T123600Z");
}
END_TEST

UNIT_MAIN("s3_sign", the_examples_of_s3_hold, the_suite_of_aws_holds,
	  the_derived_key_is_that_of_the_documentation, a_query_is_sorted_as_it_is_encoded,
	  too_much_is_refused, bodies_in_pieces_hash_as_one, dates_are_of_utc)
