/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of S3 services, good and hostile. */
#include "store/s3_xml.h"

#include "base/fault.h"
#include "base/scoped.h"
#include "unit.h"

#include <string.h>

#define HEAD "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
#define NS   " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""

static int error_of(const char *s, struct s3_xml_error *e)
{
	memset(e, 0, sizeof(*e));
	return s3_xml_error(s, strlen(s), e);
}

START_TEST(an_error_is_told_from_everything_else)
{
	struct s3_xml_error e;

	CLEAN(error_of(HEAD "<Error><Code>AuthorizationHeaderMalformed</Code><Message>wrong; expecting "
			    "'eu-west-1'</Message><Region>eu-west-1</Region><RequestId>4442587FB7D0A2F9"
			    "</RequestId><HostId>x</HostId></Error>", &e));
	ck_assert_str_eq(e.code, "AuthorizationHeaderMalformed");
	ck_assert_str_eq(e.region, "eu-west-1");
	ck_assert_str_eq(e.request, "4442587FB7D0A2F9");
	CLEAN(error_of("  \r\n<Error" NS "><Code>InternalError</Code></Error>", &e));
	ck_assert_str_eq(e.code, "InternalError");
	CLEAN(error_of("<s3:Error xmlns:s3=\"x\"><s3:Code>SlowDown</s3:Code></s3:Error>", &e));
	ck_assert_str_eq(e.code, "SlowDown");
	ck_assert_int_eq(error_of("<ListBucketResult><Error><Code>X</Code></Error></ListBucketResult>", &e),
			 -ENOENT);
	ck_assert_str_eq(e.code, "");
	ck_assert_int_eq(error_of("<html><body>502</body></html>", &e), -ENOENT);
	ck_assert_int_eq(error_of("", &e), -EPROTO);
	ck_assert_int_eq(error_of("   ", &e), -EPROTO);
	ck_assert_int_eq(error_of("Bad Gateway", &e), -EPROTO);
	ck_assert_int_eq(error_of("<Error><Code>InternalErr", &e), -EPROTO);
	ck_assert_str_eq(e.code, "");
}
END_TEST

START_TEST(what_is_kept_of_an_error_is_printable_and_bounded)
{
	struct text t = TEXT_INIT;
	struct s3_xml_error e;

	text_add(&t, "<Error><Code>C</Code><StringToSign>secret</StringToSign><Message>a&#10;b\t");
	for (int i = 0; i < 1000; i++)
		text_add(&t, "\xc3\xa9");
	text_add(&t, "</Message></Error>");
	CLEAN(error_of(text_str(&t), &e));
	ck_assert_uint_eq(strlen(e.message), sizeof(e.message) - 1);
	ck_assert_int_eq(strncmp(e.message, "a b ", 4), 0);
	for (const char *s = e.message; *s; s++)
		ck_assert(*s >= ' ' && *s < 0x7f);
	text_done(&t);
}
END_TEST

struct seen {
	char     keys[8][32];
	uint64_t sizes[8];
	unsigned n;
	int      answer;
};

static int take(void *arg, const char *key, uint64_t size)
{
	struct seen *s = arg;

	ck_assert_uint_lt(s->n, 8);
	(void)snprintf(s->keys[s->n], sizeof(s->keys[0]), "%s", key);
	s->sizes[s->n++] = size;
	return s->answer;
}

static int list_of(const char *xml, struct seen *s, struct s3_xml_page *page)
{
	*page = (struct s3_xml_page){ .entry = take, .arg = s };
	s->n = 0;
	return s3_xml_list(xml, strlen(xml), page);
}

START_TEST(a_page_is_read_whatever_its_order)
{
	struct seen s = { .answer = 0 };
	struct s3_xml_page p;

	CLEAN(list_of(HEAD "<ListBucketResult" NS "><Name>b</Name><Prefix>p/</Prefix>"
			   "<Contents><Key>p/a%2Db</Key><ETag>&quot;x&quot;</ETag><Size>12</Size>"
			   "<Owner><ID>i</ID><Key>not this</Key></Owner></Contents>"
			   "<CommonPrefixes><Prefix>p/deep/</Prefix></CommonPrefixes>"
			   "<Contents><Size>18446744073709551615</Size><Key>p/%zz%0</Key></Contents>"
			   "<NextContinuationToken>t&amp;1</NextContinuationToken>"
			   "<IsTruncated>true</IsTruncated></ListBucketResult>", &s, &p));
	ck_assert_uint_eq(s.n, 2);
	ck_assert_str_eq(s.keys[0], "p/a-b");
	ck_assert_uint_eq(s.sizes[0], 12);
	ck_assert_str_eq(s.keys[1], "p/%zz%0");
	ck_assert_uint_eq(s.sizes[1], UINT64_MAX);
	ck_assert(p.truncated);
	ck_assert_str_eq(text_str(&p.token), "t&1");
	text_done(&p.token);
	CLEAN(list_of("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>", &s, &p));
	ck_assert_uint_eq(s.n, 0);
	ck_assert(!p.truncated);
}
END_TEST

START_TEST(a_page_that_is_none_is_refused)
{
	static const char *const bad[] = {
		"", "<", "<ListBucketResult>", "<ListBucketResult/><ListBucketResult/>", "<Error/>",
		"<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
		"<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
		"<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
		"<ListBucketResult><Contents><Key>a</Key><Size></Size></Contents></ListBucketResult>",
		"<ListBucketResult><Contents><Key>a</Key><Size>1x</Size></Contents></ListBucketResult>",
		("<ListBucketResult><Contents><Key>a</Key><Size>99999999999999999999</Size></Contents>"
		 "</ListBucketResult>"),
		"<ListBucketResult><Contents><Key>\x01</Key><Size>1</Size></Contents></ListBucketResult>",
		"<ListBucketResult><Contents><Key>\xff\xfe</Key><Size>1</Size></Contents></ListBucketResult>",
		"<ListBucketResult><Contents><Key>&who;</Key><Size>1</Size></Contents></ListBucketResult>",
		"{\"keys\":[]}",
	};
	struct seen s = { .answer = 0 };
	struct s3_xml_page p;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ck_assert_msg(list_of(bad[i], &s, &p) == -EPROTO, "%s", bad[i]);
		text_done(&p.token);
	}
	s.answer = -E2BIG;
	ck_assert_int_eq(list_of("<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents>"
				 "</ListBucketResult>", &s, &p), -E2BIG);
}
END_TEST

START_TEST(entities_and_document_types_are_refused)
{
	static const char laughs[] =
		"<?xml version=\"1.0\"?><!DOCTYPE lolz [<!ENTITY a \"lol\"><!ENTITY b \"&a;&a;&a;&a;\">"
		"<!ENTITY c \"&b;&b;&b;&b;\">]><Error><Code>&c;</Code></Error>";
	static const char outside[] =
		"<!DOCTYPE x SYSTEM \"file:///etc/passwd\"><Error><Code>a</Code></Error>";
	struct s3_xml_error e;

	ck_assert_int_eq(error_of(laughs, &e), -EPROTO);
	ck_assert_int_eq(error_of(outside, &e), -EPROTO);
	ck_assert_str_eq(e.code, "");
}
END_TEST

static void nested(struct text *t, unsigned depth)
{
	text_clear(t);
	text_add(t, "<Error>");
	for (unsigned i = 1; i < depth; i++)
		text_add(t, "<a>");
	for (unsigned i = 1; i < depth; i++)
		text_add(t, "</a>");
	text_add(t, "</Error>");
}

START_TEST(depth_names_and_text_are_bounded)
{
	struct text t = TEXT_INIT;
	struct s3_xml_error e;

	nested(&t, 8);
	CLEAN(error_of(text_str(&t), &e));
	nested(&t, 9);
	ck_assert_int_eq(error_of(text_str(&t), &e), -EPROTO);
	nested(&t, 100000);
	ck_assert_int_eq(error_of(text_str(&t), &e), -EPROTO);
	text_clear(&t);
	text_add(&t, "<Error><Code>");
	for (int i = 0; i < 5000; i++)
		text_add(&t, "x");
	text_add(&t, "</Code></Error>");
	ck_assert_int_eq(error_of(text_str(&t), &e), -EPROTO);
	text_clear(&t);
	text_add(&t, "<Error><");
	for (int i = 0; i < 100; i++)
		text_add(&t, "x");
	text_add(&t, "/></Error>");
	ck_assert_int_eq(error_of(text_str(&t), &e), -EPROTO);
	text_done(&t);
}
END_TEST

static void failed(void *arg, const char *key, const char *code)
{
	text_fmt(arg, "%s=%s;", key, code);
}

START_TEST(of_deletions_only_the_failed_are_told)
{
	static const char xml[] =
		HEAD "<DeleteResult" NS "><Deleted><Key>a</Key></Deleted><Error><Key>p/b</Key><Code>"
		     "AccessDenied</Code><Message>m</Message></Error><Error><Code>InternalError</Code>"
		     "<Key>c</Key></Error><Error/></DeleteResult>";
	struct text t = TEXT_INIT;

	CLEAN(s3_xml_deleted(xml, strlen(xml), failed, &t));
	ck_assert_str_eq(text_str(&t), "p/b=AccessDenied;c=InternalError;=;");
	text_clear(&t);
	CLEAN(s3_xml_deleted("<DeleteResult/>", 15, failed, &t));
	ck_assert_str_eq(text_str(&t), "");
	ck_assert_int_eq(s3_xml_deleted("<Error/>", 8, failed, &t), -EPROTO);
	text_done(&t);
}
END_TEST

START_TEST(an_upload_has_an_id)
{
	static const char good[] = HEAD "<InitiateMultipartUploadResult" NS "><Bucket>b</Bucket><Key>k</Key>"
					"<UploadId>VXBsb2FkIElE</UploadId></InitiateMultipartUploadResult>";
	static const char none[] = "<InitiateMultipartUploadResult/>";
	struct text t = TEXT_INIT;

	CLEAN(s3_xml_upload(good, strlen(good), &t));
	ck_assert_str_eq(text_str(&t), "VXBsb2FkIElE");
	text_clear(&t);
	ck_assert_int_eq(s3_xml_upload(none, strlen(none), &t), -EPROTO);
	ck_assert_int_eq(s3_xml_upload("<Error/>", 8, &t), -EPROTO);
	CLEAN(s3_xml_root("\n<A><b/></A>", 12, "A"));
	ck_assert_int_eq(s3_xml_root("<B/>", 4, "A"), -EPROTO);
	text_clear(&t);
	s3_xml_escape(&t, "a<b>&\"c");
	ck_assert_str_eq(text_str(&t), "a&lt;b&gt;&amp;&quot;c");
	text_done(&t);
}
END_TEST

START_TEST(out_of_memory_is_said_whenever_it_comes)
{
	static const char xml[] = "<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents>"
				  "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>";
	struct seen s = { .answer = 0 };
	struct s3_xml_page p;
	char spec[32];
	int r = -1;

	for (int i = 1; i < 1000 && r != 0; i++) {
		(void)snprintf(spec, sizeof(spec), "alloc@%d=ENOMEM", i);
		CLEAN(fault_set(spec));
		r = list_of(xml, &s, &p);
		CLEAN(fault_set(NULL));
		text_done(&p.token);
		ck_assert_msg(r == 0 || r == -ENOMEM, "allocation %d: %d", i, r);
	}
	CLEAN(r);
}
END_TEST

UNIT_MAIN("s3_xml", an_error_is_told_from_everything_else,
	  what_is_kept_of_an_error_is_printable_and_bounded, a_page_is_read_whatever_its_order,
	  a_page_that_is_none_is_refused, entities_and_document_types_are_refused,
	  depth_names_and_text_are_bounded, of_deletions_only_the_failed_are_told, an_upload_has_an_id,
	  out_of_memory_is_said_whenever_it_comes)
