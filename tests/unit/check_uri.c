/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "base/err.h"
#include "base/htab.h"
#include "base/text.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *uri, *says;
} bad[] = {
	{ "", "STORE:PLACE" },
	{ "kv", "STORE:PLACE" },
	{ ":", "STORE:PLACE" },
	{ "/data/t0", "STORE:PLACE" },
	{ "kv:", "kv:PATH" },
	{ "kv:?size=1G", "kv:PATH" },
	{ "ftp:x", "built in: kv mem" },
	{ "KV:/x", "unknown store" },
	{ "s3:bucket", "s3://BUCKET[/PREFIX]" },
	{ "s3://", "no place" },
	{ "s3://key:word@bucket", "takes no credentials" },
	{ "s3://bucket?secret=word", "s3:bucket: secret: unknown parameter" },
	{ "s3://bucket?endpoint=http://key:word@host", "endpoint takes no credentials" },
	{ "s3://bucket?proxy=http://key:word@host", "proxy in a target URI takes no" },
	{ "s3://b", "bucket: 3 or more" },
	{ "s3://bucket/a//b", "prefix: names divided" },
	{ "s3://bucket/../b", "prefix: names divided" },
	{ "s3://bucket/a%25b", "prefix: names divided" },
	{ "s3://bucket?endpoint=ftp://host", "endpoint: http[s]://" },
	{ "s3://bucket?region=a/b", "region: letters" },
	{ "s3://bucket?path-style=2", "path-style=2: one of 0 1 auto" },
	{ "s3://bucket?payload-hash=md5", "one of unsigned sha256" },
	{ "s3://bucket?checksum=sha1", "one of none md5 crc32c" },
	{ "s3://bucket?max-put=1M", "max-put: 5M to 5G" },
	{ "s3://bucket?connections=0", "connections: 1 to 1024" },
	{ "s3://bucket?cert=/x", "cert: a client certificate is" },
	{ "s3://bucket?anonymous=1&profile=x", "anonymous: profile and key-file" },
	{ "rados:pool", "rados" },
	{ "mem:?zork=1", "there are size fault latency rate" },
	{ "kv:/x?size", "NAME=VALUE" },
	{ "kv:/x?size=", "NAME=VALUE" },
	{ "kv:/x?=1", "NAME=VALUE" },
	{ "kv:/x?size=1G&", "NAME=VALUE" },
	{ "kv:/x?size=1G&&tier=a", "NAME=VALUE" },
	{ "kv:/x?size=1G&size=2G", "size: given twice" },
	{ "mem:?size=12Q", "size=12Q: not a size" },
	{ "mem:?size=-1", "not a size" },
	{ "mem:?latency=soon", "latency=soon: not a time" },
	{ "mem:?latency=1ms&rate=fast", "rate=fast: not a size" },
	{ "mem:?limit=0", "limit: 1 to 65536" },
	{ "mem:?limit=many", "limit=many: not a number" },
	{ "mem:?limit=99999999999999999999", "not a number" },
	{ "mem:?retry=1000", "retry: 0 to 100" },
	{ "mem:?retry=1&deadline=x", "deadline=x" },
	{ "mem:%zz", "hexadecimal" },
	{ "mem:?tier=%0", "tier: %" },
	{ "kv:/a%00b", "not 00" },
	{ "kv:/x\ny", "control character at position 5" },
	{ "mem:?fault=put", "OP[:WHEN]:WHAT" },
	{ "mem:?fault=", "NAME=VALUE" },
	{ "mem:?fault=post:EIO", "OP is put" },
	{ "mem:?fault=put:always:EIO", "WHEN is every=N" },
	{ "mem:?fault=put:every=0:EIO", "WHEN is" },
	{ "mem:?fault=put:prob=101:EIO", "WHEN is" },
	{ "mem:?fault=put:nth=:EIO", "WHEN is" },
	{ "mem:?fault=put:EWHAT", "WHAT is" },
	{ "mem:?fault=put:delay=x", "WHAT is" },
	{ "mem:?fault=put:EIO,,get:EIO", "OP[:WHEN]:WHAT" },
};

static int try(const char *uri, struct text *why)
{
	struct store *s = NULL;
	int r = store_open_uri(&s, uri, NULL, why);

	ck_assert((r == 0) == (s != NULL));
	store_close(s);
	return r;
}

START_TEST(test_a_bad_uri_gets_one_line_that_names_the_part_and_the_legal_choice)
{
	struct text why = TEXT_INIT;

	ck_assert_int_eq(try(bad[_i].uri, &why), -TESS_E_URI);
	ck_assert_msg(strstr(text_str(&why), bad[_i].says) != NULL,
		      "%s: \"%s\" does not say \"%s\"", bad[_i].uri, text_str(&why), bad[_i].says);
	ck_assert_ptr_null(strchr(text_str(&why), '\n'));
	text_done(&why);
	/* Nobody has to want the line. */
	ck_assert_int_eq(try(bad[_i].uri, NULL), -TESS_E_URI);
}
END_TEST

START_TEST(test_a_secret_that_somebody_put_into_a_uri_is_not_repeated)
{
	static const char *const uris[] = {
		"s3://key:hunter2@bucket", "s3://bucket?secret=hunter2", "swift://user:hunter2@c",
		"s3://bucket?endpoint=http://key:hunter2@host", "s3://bucket?proxy=http://key:hunter2@host",
	};
	struct text why = TEXT_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(uris); i++) {
		text_clear(&why);
		ck_assert_int_eq(try(uris[i], &why), -TESS_E_URI);
		ck_assert_msg(!strstr(text_str(&why), "hunter2"), "%s", text_str(&why));
	}
	text_done(&why);
}
END_TEST

START_TEST(test_a_private_key_that_others_can_read_is_refused)
{
	struct text why = TEXT_INIT;

	ck_assert_int_eq(try("s3://bucket?anonymous=1&cert=/dev/null&key=/dev/null", &why), -EPERM);
	ck_assert_ptr_nonnull(strstr(text_str(&why), "lets others read it"));
	text_clear(&why);
	ck_assert_int_eq(try("s3://bucket?anonymous=1&cert=/dev/null&key=/nonexistent", &why), -ENOENT);
	ck_assert_ptr_nonnull(strstr(text_str(&why), "key=/nonexistent: "));
	text_done(&why);
}
END_TEST

START_TEST(test_a_too_long_uri_is_refused)
{
	static char uri[10000];
	struct text why = TEXT_INIT;

	(void)snprintf(uri, sizeof(uri), "mem:%09990d", 0);
	ck_assert_int_eq(try(uri, &why), -TESS_E_URI);
	ck_assert_uint_lt(strlen(text_str(&why)), 100);
	text_done(&why);
}
END_TEST

static unsigned depth(const struct store *s, char *names, size_t cap)
{
	unsigned n = 0;

	names[0] = 0;
	for (; s; s = s->inner, n++)
		(void)snprintf(names + strlen(names), cap - strlen(names), "%s ", s->ops->name);
	return n;
}

START_TEST(test_decorators_are_stacked_in_their_order_whatever_the_uri_s)
{
	static const struct {
		const char *uri, *stack;
	} rows[] = {
		{"mem:", "trace mem "},
		{"mem:?trace=0", "mem "},
		{"mem:?trace=1&tier=fast&label=x", "trace mem "},
		{"mem:?retry=3&limit=2&latency=1ms&fault=put:EIO",
		 "trace retry limit latency fault mem "},
		{"mem:?fault=put%3AEIO&trace=0&rate=1M&deadline=1s", "retry latency fault mem "},
	};
	char names[200];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct store_open_opts o = { .label = "t7" };
		struct store *s;

		CLEAN(store_open_uri(&s, rows[i].uri, &o, NULL));
		(void)depth(s, names, sizeof(names));
		ck_assert_str_eq(names, rows[i].stack);
		for (struct store *at = s; at; at = at->inner) {
			ck_assert_str_eq(at->label, "t7");
			ck_assert(at->caps.flags & STORE_VOLATILE);
			ck_assert_uint_gt(at->caps.max_object, 0);
			ck_assert_uint_gt(at->caps.max_inflight, 0);
		}
		store_close(s);
	}
}
END_TEST

START_TEST(test_query_values_are_decoded_and_found)
{
	struct text v = TEXT_INIT, why = TEXT_INIT;

	CLEAN(store_uri_param("kv:/x?tier=fast%20one&size=1G", "tier", &v, &why));
	ck_assert_str_eq(text_str(&v), "fast one");
	ck_assert_int_eq(store_uri_param("kv:/x?size=1G", "tier", &v, &why), -ENOENT);
	ck_assert_int_eq(store_uri_param("kv:/x?tear=1", "tier", &v, &why), -TESS_E_URI);
	CLEAN(store_uri_check("kv:/no/such/place?size=1G&latency=5ms", &why));
	text_done(&v);
	text_done(&why);
}
END_TEST

START_TEST(test_a_relative_place_is_made_absolute_and_nothing_else_changes)
{
	struct text v = TEXT_INIT, why = TEXT_INIT;

	ck_assert_int_eq(chdir("/tmp"), 0);
	CLEAN(store_uri_absolute("kv:a%20b/c?tier=x%26", &v, &why));
	ck_assert_str_eq(text_str(&v), "kv:/tmp/a%20b/c?tier=x%26");
	text_clear(&v);
	CLEAN(store_uri_absolute("kv:/d?size=1G", &v, &why));
	ck_assert_str_eq(text_str(&v), "kv:/d?size=1G");
	text_clear(&v);
	CLEAN(store_uri_absolute("mem:", &v, &why));
	ck_assert_str_eq(text_str(&v), "mem:");
	text_done(&v);
	text_done(&why);
}
END_TEST

/* Pieces of the grammar in any order: never a crash, and an error is never silent. */
START_TEST(test_random_uris_are_parsed_or_refused)
{
	static const char *const parts[] = {
		"mem",	 "kv",	  ":",	 "?",	"&",	"=",	"size", "16M",	 "latency", "1ns",
		"fault", "put",	  "EIO", "%41", "%",	"%00",	",",	"limit", "3",	    "retry",
		"every", "trace", "0",	 "/x",	"tier", "\x7f", "\xff", "..",
	};
	uint64_t seed = 42;

	for (unsigned i = 0; i < 20000; i++) {
		struct text why = TEXT_INIT;
		char uri[256] = "";
		int r;

		seed = hash64(seed + i);
		for (unsigned j = 0; j < 2 + seed % 12; j++)
			(void)snprintf(
				uri + strlen(uri), sizeof(uri) - strlen(uri), "%s",
				parts[hash64(seed + j * 77) % (sizeof(parts) / sizeof(parts[0]))]);
		r = strncmp(uri, "mem:", 4) == 0 ? try(uri, &why) : store_uri_check(uri, &why);
		ck_assert(r == 0 || r == -TESS_E_URI);
		ck_assert((r == 0) == (text_str(&why)[0] == 0));
		text_done(&why);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("uri");
	TCase *c = tcase_create("uri");

	suite_add_tcase(s, c);
	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c,
			    test_a_bad_uri_gets_one_line_that_names_the_part_and_the_legal_choice,
			    0, (int)(sizeof(bad) / sizeof(bad[0])));
	tcase_add_test(c, test_a_too_long_uri_is_refused);
	tcase_add_test(c, test_a_secret_that_somebody_put_into_a_uri_is_not_repeated);
	tcase_add_test(c, test_a_private_key_that_others_can_read_is_refused);
	tcase_add_test(c, test_decorators_are_stacked_in_their_order_whatever_the_uri_s);
	tcase_add_test(c, test_query_values_are_decoded_and_found);
	tcase_add_test(c, test_a_relative_place_is_made_absolute_and_nothing_else_changes);
	tcase_add_test(c, test_random_uris_are_parsed_or_refused);
	return unit_run(s);
}
