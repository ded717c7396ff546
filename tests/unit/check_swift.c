/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/* What Keystone and Swift are asked and reply, as text. */
#include "base/err.h"
#include "base/scoped.h"
#include "store/swift_ident.h"
#include "store/swift_reply.h"
#include "unit.h"

#include <string.h>

static struct swift_ident id;
static struct text why;

static void begin(void)
{
	memset(&id, 0, sizeof(id));
	text_clear(&why);
}

static void end(void)
{
	swift_ident_done(&id);
	text_done(&why);
}

static void says(const char *what)
{
	unit_says(text_str(&why), what, "s3cret");
}

/* ---- Keystone ---- */

static void set(enum swift_field f, const char *v)
{
	CLEAN(swift_ident_set(&id, f, v, strlen(v)));
}

static void body_is(const char *want)
{
	struct text t = TEXT_INIT;

	CLEAN(swift_keystone_body(&id, &t));
	ck_assert_str_eq(text_str(&t), want);
	swift_wipe(&t);
}

START_TEST(test_keystone_is_asked_as_its_api_says)
{
	begin();
	id.kind = SWIFT_KEYSTONE;
	set(SWIFT_USER, "u\"");
	set(SWIFT_PASSWORD, "p");
	body_is("{\"auth\":{\"identity\":{\"methods\":[\"password\"],\"password\":{\"user\":{"
		"\"name\":\"u\\\"\",\"domain\":{\"id\":\"default\"},\"password\":\"p\"}}}}}");
	set(SWIFT_PROJECT, "pr");
	set(SWIFT_USER_DOMAIN, "d");
	set(SWIFT_PROJECT_DOMAIN_ID, "e");
	body_is("{\"auth\":{\"identity\":{\"methods\":[\"password\"],\"password\":{\"user\":{"
		"\"name\":\"u\\\"\",\"domain\":{\"name\":\"d\"},\"password\":\"p\"}}},"
		"\"scope\":{\"project\":{\"name\":\"pr\",\"domain\":{\"id\":\"e\"}}}}}");
	set(SWIFT_APP_NAME, "n");
	set(SWIFT_APP_SECRET, "s");
	body_is("{\"auth\":{\"identity\":{\"methods\":[\"application_credential\"],"
		"\"application_credential\":{\"name\":\"n\",\"user\":{\"name\":\"u\\\"\","
		"\"domain\":{\"name\":\"d\"}},\"secret\":\"s\"}}}}");
	set(SWIFT_APP_ID, "i");
	body_is("{\"auth\":{\"identity\":{\"methods\":[\"application_credential\"],"
		"\"application_credential\":{\"id\":\"i\",\"secret\":\"s\"}}}}");
	end();
	begin();
	set(SWIFT_TOKEN, "t");
	set(SWIFT_PROJECT_ID, "7");
	body_is("{\"auth\":{\"identity\":{\"methods\":[\"token\"],\"token\":{\"id\":\"t\"}},"
		"\"scope\":{\"project\":{\"id\":\"7\"}}}}");
	end();
}
END_TEST

START_TEST(test_the_url_of_the_tokens_is_found_from_any_auth_url)
{
	static const char *const urls[] = { "http://h:5000", "http://h:5000/", "http://h:5000/v3",
					    "http://h:5000/v3/" };
	struct text t = TEXT_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		text_clear(&t);
		CLEAN(swift_keystone_url(urls[i], &t));
		ck_assert_str_eq(text_str(&t), "http://h:5000/v3/auth/tokens");
	}
	ck_assert_int_eq(swift_keystone_url("http://h/v2.0/", &t), -EINVAL);
	text_done(&t);
}
END_TEST

#define END(interface, region, url) \
	"{\"interface\":\"" interface "\",\"region\":\"" region "\",\"region_id\":\"" region "\",\"url\":\"" url "\"}"
#define CATALOG \
	"{\"token\":{\"issued_at\":\"2020-01-01T00:00:00.000000Z\",\"expires_at\":\"2020-01-01T01:00:00.000000Z\"," \
	"\"catalog\":[{\"type\":\"image\",\"endpoints\":[" END("public", "A", "http://image") "]}," \
	"{\"type\":\"object-store\",\"endpoints\":[" END("public", "A", "http://a") "," \
	END("internal", "A", "http://ai") "," END("public", "B", "http://b") "]}]}}"

static int reply(const char *json, struct text *url, int64_t *life)
{
	text_clear(url);
	text_clear(&why);
	return swift_keystone_reply(&id, json, strlen(json), url, life, &why);
}

START_TEST(test_the_endpoint_is_the_one_of_region_and_interface)
{
	struct text url = TEXT_INIT;
	int64_t life = 0;

	begin();
	ck_assert_int_eq(reply(CATALOG, &url, &life), -EACCES);
	says("more than one object-store endpoint");
	says("public in B");
	set(SWIFT_REGION, "B");
	CLEAN(reply(CATALOG, &url, &life));
	ck_assert_str_eq(text_str(&url), "http://b");
	/* An hour, though by our clock it ended long ago. */
	ck_assert_int_eq(life, INT64_C(3600000000000));
	set(SWIFT_REGION, "A");
	set(SWIFT_INTERFACE, "internal");
	CLEAN(reply(CATALOG, &url, &life));
	ck_assert_str_eq(text_str(&url), "http://ai");
	set(SWIFT_REGION, "C");
	ck_assert_int_eq(reply(CATALOG, &url, &life), -EACCES);
	says("no object-store endpoint internal in region C");
	ck_assert_int_eq(reply("{\"token\":{}}", &url, &life), -EACCES);
	says("no catalog");
	set(SWIFT_STORAGE_URL, "http://mine");
	CLEAN(reply("{\"token\":{}}", &url, &life));
	ck_assert_str_eq(text_str(&url), "http://mine");
	ck_assert_int_eq(life, INT64_MAX);
	text_done(&url);
	end();
}
END_TEST

START_TEST(test_hostile_replies_of_keystone_are_errors)
{
	static const char *const bad[] = {
		"", "{", "[]", "null", "{\"token\":[]}", "{\"token\":1}", "{\"token\":{},\"token\":{}}",
		"{\"token\":{\"catalog\":5}}", "{\"token\":{\"catalog\":[1,\"x\",{}]}}",
		"{\"token\":{\"catalog\":[{\"type\":5,\"endpoints\":{}}]}}",
		"{\"token\":{\"catalog\":[{\"type\":\"object-store\",\"endpoints\":[[],1,null]}]}}",
	};
	struct text url = TEXT_INIT;
	char part[sizeof(CATALOG)];
	int64_t life;

	begin();
	set(SWIFT_REGION, "B");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_int_lt(reply(bad[i], &url, &life), 0);
	for (size_t n = 0; n + 1 < sizeof(CATALOG); n++) {
		memcpy(part, CATALOG, n);
		part[n] = 0;
		ck_assert_int_lt(reply(part, &url, &life), 0);
	}
	text_done(&url);
	end();
}
END_TEST

START_TEST(test_what_a_service_says_is_one_short_line)
{
	static const char json[] = "{\"error\":{\"message\":\"no\\u0007 \\npe\",\"code\":401}}";
	struct text t = TEXT_INIT;
	char big[5000];

	swift_reply_says("<html><h1>Forbidden</h1><p>Access\r\nwas  denied</p></html>", 55, &t);
	ck_assert_str_eq(text_str(&t), "Forbidden Access was denied");
	text_clear(&t);
	swift_reply_says(json, strlen(json), &t);
	ck_assert_str_eq(text_str(&t), "no pe");
	text_clear(&t);
	memset(big, 'x', sizeof(big));
	swift_reply_says(big, sizeof(big), &t);
	ck_assert_uint_le(t.n, 201);
	text_clear(&t);
	swift_reply_says("", 0, &t);
	ck_assert_uint_eq(t.n, 0);
	text_done(&t);
}
END_TEST

/* ---- Swift ---- */

static struct tess_key keys[4];
static struct tess_objinfo infos[4];

static int list(const char *json, const char *prefix, struct store_list *l, struct text *last,
		unsigned *raw)
{
	return swift_list_parse(json, strlen(json), prefix, l, last, raw);
}

START_TEST(test_a_listing_has_our_objects_only)
{
	struct store_list l = { .max = 4, .keys = keys, .infos = infos };
	struct text last = TEXT_INIT;
	unsigned raw;

	CLEAN(list("[{\"name\":\"p/A\",\"bytes\":1},{\"name\":\"p/a\",\"bytes\":10},{\"subdir\":\"p/b/\"},"
		   "{\"name\":\"p/c d\",\"bytes\":1},{\"name\":\"p/e\",\"bytes\":0},"
		   "{\"name\":\"p/tessera-target\",\"bytes\":39}]", "p/", &l, &last, &raw));
	ck_assert_uint_eq(raw, 6);
	ck_assert_uint_eq(l.n, 2);
	ck_assert_str_eq(keys[0].name, "a");
	ck_assert_uint_eq(infos[0].size, 10);
	ck_assert_str_eq(keys[1].name, "e");
	ck_assert(!l.more);
	ck_assert_str_eq(text_str(&last), "p/tessera-target");
	CLEAN(list("[{\"name\":\"p/u\",\"bytes\":1},{\"name\":\"p/v\",\"bytes\":1},"
		   "{\"name\":\"p/w\",\"bytes\":1}]", "p/", &l, &last, &raw));
	ck_assert_uint_eq(l.n, 4);
	ck_assert(l.more);
	CLEAN(list("[]", "p/", &l, &last, &raw));
	ck_assert_uint_eq(raw, 0);
	text_done(&last);
}
END_TEST

START_TEST(test_hostile_listings_are_errors)
{
	static const char *const bad[] = {
		"", "{}", "[", "[1]", "[null]", "[{}]", "[{\"name\":5}]", "[{\"name\":\"p/a\"}]",
		"[{\"name\":\"p/a\",\"bytes\":-1}]", "[{\"name\":\"p/a\",\"bytes\":1.5}]",
		"[{\"name\":\"p/a\",\"bytes\":\"1\"}]",
		"[{\"name\":\"p/b\",\"bytes\":1},{\"name\":\"p/a\",\"bytes\":1}]",
		"[{\"name\":\"p/a\",\"bytes\":1},{\"name\":\"p/a\",\"bytes\":1}]",
		"[{\"name\":\"q/a\",\"bytes\":1}]", "[{\"subdir\":\"q/\"}]",
		"[{\"name\":\"p/a\",\"bytes\":99999999999999999999}]",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct store_list l = { .max = 4, .keys = keys, .infos = infos };
		struct text last = TEXT_INIT;
		unsigned raw;

		ck_assert_msg(list(bad[i], "p/", &l, &last, &raw) == -EPROTO, "%s", bad[i]);
		text_done(&last);
	}
}
END_TEST

START_TEST(test_a_listing_that_does_not_advance_is_an_error)
{
	struct store_list l = { .max = 4, .keys = keys, .infos = infos };
	struct text last = TEXT_INIT;
	unsigned raw;

	CLEAN(list("[{\"subdir\":\"a/\"}]", "", &l, &last, &raw));
	ck_assert_int_eq(list("[{\"subdir\":\"a/\"}]", "", &l, &last, &raw), -EPROTO);
	text_done(&last);
}
END_TEST

#define BULK(status, gone, none, errors) \
	"  \r\n{\"Response Status\":\"" status "\",\"Number Deleted\":" gone \
	",\"Number Not Found\":" none ",\"Errors\":" errors "}"

START_TEST(test_a_bulk_delete_counts_every_name_or_is_not_believed)
{
	static const struct {
		const char *json;
		int         r;
	} c[] = {
		{ BULK("200 OK", "3", "0", "[]"), 0 },
		{ BULK("200 OK", "2", "1", "[]"), 0 },
		{ BULK("200 OK", "2", "0", "[]"), -EIO },
		{ BULK("200 OK", "3", "1", "[]"), -EIO },
		{ BULK("200 OK", "9223372036854775807", "9223372036854775807", "[]"), -EIO },
		{ BULK("400 Bad Request", "3", "0", "[]"), -EIO },
		{ BULK("400 Bad Request", "2", "0", "[[\"/c/o\",\"403 Forbidden\"]]"), -EIO },
		{ BULK("200 OK", "3", "0", "[[\"/c/o\",\"403 Forbidden\"]]"), -EIO },
		{ BULK("200 OK", "\"3\"", "0", "[]"), -EPROTO },
		{ BULK("200 OK", "-1", "4", "[]"), -EPROTO },
		{ "{}", -EPROTO }, { "", -EPROTO }, { "[]", -EPROTO }, { "<html>", -EPROTO },
		{ "{\"Response Status\":200,\"Number Deleted\":3,\"Number Not Found\":0}", -EPROTO },
	};

	for (size_t i = 0; i < ARRAY_SIZE(c); i++)
		ck_assert_msg(swift_bulk_parse(c[i].json, strlen(c[i].json), 3) == c[i].r, "%s",
			      c[i].json);
}
END_TEST

START_TEST(test_limits_come_from_info_and_nonsense_leaves_the_defaults)
{
	static const char good[] = "{\"swift\":{\"max_file_size\":1000,\"max_object_name_length\":100,"
				   "\"container_listing_limit\":7},\"bulk_delete\":{\"max_deletes_per_request\":5}}";
	static const char odd[] = "{\"swift\":{\"max_file_size\":\"x\",\"container_listing_limit\":-1}}";
	struct swift_info info;

	CLEAN(swift_info_parse(good, strlen(good), &info));
	ck_assert_uint_eq(info.max_object, 1000);
	ck_assert_uint_eq(info.max_name, 100);
	ck_assert_uint_eq(info.list_max, 7);
	ck_assert_uint_eq(info.bulk_max, 5);
	CLEAN(swift_info_parse(odd, strlen(odd), &info));
	ck_assert_uint_eq(info.max_object, UINT64_C(5) << 30);
	ck_assert_uint_eq(info.list_max, 10000);
	ck_assert_uint_eq(info.bulk_max, 0);
	ck_assert_int_eq(swift_info_parse("<html>", 6, &info), -EPROTO);
	ck_assert_uint_eq(info.max_object, UINT64_C(5) << 30);
}
END_TEST

START_TEST(test_a_content_range_is_the_one_asked_for)
{
	static const char *const bad[] = { "", "bytes", "bytes 5-9", "bytes 5-9/", "bytes 5-9/*", "bytes 4-9/20",
					   "bytes 5-4/20", "bytes 5-20/20", "bytes 5-9/20x", "items 5-9/20",
					   "bytes 5-99999999999999999999/20", "bytes */20" };
	uint64_t len, total;

	CLEAN(swift_range_parse("bytes 5-9/20", 5, &len, &total));
	ck_assert_uint_eq(len, 5);
	ck_assert_uint_eq(total, 20);
	ck_assert_int_eq(swift_range_parse(NULL, 5, &len, &total), -EPROTO);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(swift_range_parse(bad[i], 5, &len, &total) == -EPROTO, "%s", bad[i]);
}
END_TEST

START_TEST(test_each_status_has_its_error)
{
	static const struct {
		unsigned    status;
		const char *body;
		int         r;
	} c[] = {
		{ 200, "", 0 }, { 201, "", 0 }, { 204, "", 0 }, { 401, "", -EACCES }, { 403, "", -EACCES },
		{ 404, "", -ENOENT }, { 408, "", -ETIMEDOUT }, { 409, "", -EBUSY }, { 412, "", -EEXIST },
		{ 413, "too large", -EFBIG }, { 413, "Upload exceeds quota.", -TESS_E_STORE_FULL },
		{ 413, "QuotaExceeded", -TESS_E_STORE_FULL }, { 416, "", -TESS_E_SHORT_BODY },
		{ 422, "", -EPROTO }, { 429, "", -TESS_E_STORE_BUSY }, { 498, "", -TESS_E_STORE_BUSY },
		{ 503, "", -TESS_E_STORE_BUSY }, { 500, "", -EIO }, { 507, "", -TESS_E_STORE_FULL },
		{ 302, "", -EPROTO }, { 418, "", -EPROTO },
	};

	for (size_t i = 0; i < ARRAY_SIZE(c); i++)
		ck_assert_msg(swift_status_err(c[i].status, c[i].body) == c[i].r, "%u", c[i].status);
}
END_TEST

UNIT_MAIN("swift",
	  test_keystone_is_asked_as_its_api_says,
	  test_the_url_of_the_tokens_is_found_from_any_auth_url,
	  test_the_endpoint_is_the_one_of_region_and_interface,
	  test_hostile_replies_of_keystone_are_errors,
	  test_what_a_service_says_is_one_short_line,
	  test_a_listing_has_our_objects_only,
	  test_hostile_listings_are_errors,
	  test_a_listing_that_does_not_advance_is_an_error,
	  test_a_bulk_delete_counts_every_name_or_is_not_believed,
	  test_limits_come_from_info_and_nonsense_leaves_the_defaults,
	  test_a_content_range_is_the_one_asked_for,
	  test_each_status_has_its_error)
