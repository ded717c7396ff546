/* SPDX-License-Identifier: Apache-2.0 */
/* Where the requests of an s3 target go: host, path and region, from URI, environment and profile. */
#include "store/s3_impl.h"

#include "base/err.h"
#include "base/scoped.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct uri {
	struct store_conf conf;
	const char       *params[8];	/* name, value, … */
};

static const char *param(const struct store_conf *conf, const char *name)
{
	const struct uri *u = container_of(conf, struct uri, conf);

	for (unsigned i = 0; i + 1 < ARRAY_SIZE(u->params) && u->params[i]; i += 2) {
		if (strcmp(u->params[i], name) == 0)
			return u->params[i + 1];
	}
	return NULL;
}

static const struct row {
	const char *place, *params[8];
	const char *endpoint, *host, *path;
} rows[] = {
	{ "bucket", { "region", "eu-west-1" }, "https://s3.eu-west-1.amazonaws.com",
	  "bucket.s3.eu-west-1.amazonaws.com", "/name" },
	{ "bucket/p/q/", { NULL }, "https://s3.us-east-1.amazonaws.com",
	  "bucket.s3.us-east-1.amazonaws.com", "/p/q/name" },
	{ "bucket/p", { "region", "cn-north-1" }, "https://s3.cn-north-1.amazonaws.com.cn",
	  "bucket.s3.cn-north-1.amazonaws.com.cn", "/p/name" },
	/* No certificate of AWS's is for two labels. */
	{ "my.bucket", { NULL }, "https://s3.us-east-1.amazonaws.com", "s3.us-east-1.amazonaws.com",
	  "/my.bucket/name" },
	{ "bucket", { "path-style", "1" }, "https://s3.us-east-1.amazonaws.com",
	  "s3.us-east-1.amazonaws.com", "/bucket/name" },
	{ "bucket", { "endpoint", "http://host:9000" }, "http://host:9000", "host:9000", "/bucket/name" },
	{ "bucket/a+b(c)", { "endpoint", "https://host:443/s3/" }, "https://host/s3", "host",
	  "/s3/bucket/a%2Bb%28c%29/name" },
	{ "bucket", { "endpoint", "http://host:80", "path-style", "0" }, "http://host", "bucket.host",
	  "/name" },
	{ "bucket", { "endpoint", "https://[::1]:9000" }, "https://[::1]:9000", "[::1]:9000",
	  "/bucket/name" },
};

static void only_mine(void)
{
	static const char *const not[] = {
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE",
		"AWS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
	};

	for (size_t i = 0; i < ARRAY_SIZE(not); i++)
		ck_assert_int_eq(unsetenv(not[i]), 0);
	setenv("HOME", "/nonexistent", 1);
}

static void parse(struct s3_conf *c, const char *place, const char *const *params)
{
	struct uri u = { .conf = { .uri = "s3://…", .scheme = "s3", .place = place, .param = param } };
	struct text why = TEXT_INIT;
	int r;

	memcpy(u.params, params, sizeof(u.params));
	r = s3_conf_parse(c, &u.conf, &why);
	ck_assert_msg(r == 0, "%s: %s: %s", place, err_name(r), text_str(&why));
	text_done(&why);
}

static void is(struct text *t, const char *want)
{
	ck_assert_str_eq(text_str(t), want);
	text_done(t);
}

START_TEST(requests_go_where_the_uri_says)
{
	only_mine();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct text t = TEXT_INIT;
		struct s3_conf c;

		parse(&c, rows[i].place, rows[i].params);
		s3_conf_endpoint(&c, &t);
		is(&t, rows[i].endpoint);
		s3_conf_host(&c, &t);
		is(&t, rows[i].host);
		s3_conf_path(&c, "name", &t);
		is(&t, rows[i].path);
		s3_conf_done(&c);
	}
}
END_TEST

START_TEST(a_bucket_itself_has_a_path)
{
	static const char *const params[8] = { "endpoint", "http://host/x" };
	static const char *const none[8];
	struct text t = TEXT_INIT;
	struct s3_conf c;

	only_mine();
	parse(&c, "bucket/p", params);
	s3_conf_path(&c, NULL, &t);
	is(&t, "/x/bucket");
	s3_conf_done(&c);
	parse(&c, "bucket/p", none);
	s3_conf_path(&c, NULL, &t);
	is(&t, "/");
	s3_conf_done(&c);
}
END_TEST

START_TEST(the_environment_says_what_the_uri_does_not)
{
	static const char *const none[8];
	static const char *const both[8] = { "region", "of-uri", "endpoint", "https://of-uri" };
	struct text t = TEXT_INIT;
	struct s3_conf c;

	only_mine();
	setenv("AWS_REGION", "of-environment", 1);
	setenv("AWS_ENDPOINT_URL", "http://general:1", 1);
	setenv("AWS_ENDPOINT_URL_S3", "http://of-environment:1", 1);
	parse(&c, "bucket", none);
	ck_assert_str_eq(c.region, "of-environment");
	ck_assert(c.region_given);
	s3_conf_endpoint(&c, &t);
	is(&t, "http://of-environment:1");
	s3_conf_done(&c);
	parse(&c, "bucket", both);
	ck_assert_str_eq(c.region, "of-uri");
	s3_conf_endpoint(&c, &t);
	is(&t, "https://of-uri");
	s3_conf_done(&c);
}
END_TEST

START_TEST(bodies_are_hashed_where_nothing_else_guards_them)
{
	static const struct {
		const char *params[8];
		bool        sign;
	} bodies[] = {
		{ { "endpoint", "http://host" }, true },
		{ { "endpoint", "http://127.0.0.1:9000" }, false },
		{ { "endpoint", "http://[::1]:9000" }, false },
		{ { "endpoint", "http://128.0.0.1" }, true },
		{ { "endpoint", "https://host" }, false },
		{ { NULL }, false },
		{ { "endpoint", "http://host", "payload-hash", "unsigned" }, false },
		{ { "endpoint", "https://host", "payload-hash", "sha256" }, true },
	};
	struct s3_conf c;

	only_mine();
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		parse(&c, "bucket", bodies[i].params);
		ck_assert_msg(c.sign_body == bodies[i].sign, "%zu", i);
		s3_conf_done(&c);
	}
}
END_TEST

START_TEST(a_region_is_only_corrected_where_none_was_given)
{
	static const char *const none[8], *const automatic[8] = { "region", "auto" };
	struct s3_conf c;

	only_mine();
	parse(&c, "bucket", none);
	ck_assert(!c.region_given);
	ck_assert_str_eq(c.region, S3_REGION_DEFAULT);
	s3_conf_done(&c);
	parse(&c, "bucket", automatic);
	ck_assert(!c.region_given);
	s3_conf_done(&c);
}
END_TEST

/* The URI is remembered, and used from elsewhere; the environment is of where the command is given. */
START_TEST(a_relative_path_is_refused_in_the_uri_and_resolved_of_the_environment)
{
	static const char *const names[] = { "ca", "cert", "key", "key-file" }, *const none[8];
	struct uri u = { .conf = { .uri = "s3://…", .scheme = "s3", .place = "bucket", .param = param } };
	struct s3_conf c;

	only_mine();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct text why = TEXT_INIT;

		u.params[0] = names[i];
		u.params[1] = "certs/x.pem";
		ck_assert_int_eq(s3_conf_parse(&c, &u.conf, &why), -TESS_E_URI);
		ck_assert_msg(strstr(text_str(&why), names[i]) && strstr(text_str(&why), "absolute"), "%s",
			      text_str(&why));
		text_done(&why);
	}
	CLEAN(chdir("/usr"));
	setenv("AWS_CA_BUNDLE", "certs/x.pem", 1);
	parse(&c, "bucket", none);
	ck_assert_str_eq(c.ca, "/usr/certs/x.pem");
	s3_conf_done(&c);
}
END_TEST

UNIT_MAIN("s3_conf", requests_go_where_the_uri_says, a_bucket_itself_has_a_path,
	  the_environment_says_what_the_uri_does_not, bodies_are_hashed_where_nothing_else_guards_them,
	  a_region_is_only_corrected_where_none_was_given,
	  a_relative_path_is_refused_in_the_uri_and_resolved_of_the_environment)
