/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store */
/* Who we are to a Swift service: the sources of an identity, clouds.yaml. */
#include "base/err.h"
#include "base/scoped.h"
#include "store/swift_ident.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct swift_ident id;
static struct text why;

static void begin(void)
{
	static const char *const names[] = {
		"OS_CLOUD", "ST_AUTH", "ST_USER", "ST_KEY",
#define NAMES(name, env, alt, yaml, secret) env, alt,
		SWIFT_FIELDS(NAMES)
#undef NAMES
		"OS_CLIENT_CONFIG_FILE", "OS_CLIENT_SECURE_FILE", "XDG_CONFIG_HOME" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (names[i])
			ck_assert_int_eq(unsetenv(names[i]), 0);
	}
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

/* ---- clouds.yaml ---- */

static int clouds(const char *yaml, const char *cloud, bool *ret_found)
{
	struct text t = TEXT_INIT;
	int r;

	begin();
	text_add(&t, yaml);
	r = swift_clouds_parse(&id, &t, cloud, ret_found, &why);
	text_done(&t);
	return r;
}

static const char full[] =
	"---\n# ours\nclouds:\n"
	"    other:\n        auth: {auth_url: http://no, password: &x 'no'}\n        regions: [a,\n          b]\n"
	"    lab:   # the one\n"
	"        auth_type: \"v3password\"\r\n"
	"        auth:\n"
	"            auth_url: https://id.example:5000/v3   # with a port\n"
	"            username: 'o''brien'\n"
	"            password: \"s3cret \\\"#\\\\\"\n"
	"            project_name: a#b\n"
	"            user_domain_name: Default\n"
	"            system_scope:\n              all: true\n"
	"        regions:\n        - R0\n        - name: R1\n          values:\n            x: y\n"
	"        region_name: R1\n"
	"        interface: internal\n"
	"        identity_api_version: 3\n"
	"        verify: true\n"
	"        cacert:\n"
	"    third:\n      auth:\n        username: x\n"
	"cache:\n  auth: |\n     anything: [\n";

START_TEST(test_a_cloud_is_read_and_others_are_passed_over)
{
	bool found;

	CLEAN(clouds(full, "lab", &found));
	ck_assert(found);
	ck_assert_str_eq(id.f[SWIFT_AUTH_URL], "https://id.example:5000/v3");
	ck_assert_str_eq(id.f[SWIFT_USER], "o'brien");
	ck_assert_str_eq(id.f[SWIFT_PASSWORD], "s3cret \"#\\");
	ck_assert_str_eq(id.f[SWIFT_PROJECT], "a#b");
	ck_assert_str_eq(id.f[SWIFT_REGION], "R1");
	ck_assert_str_eq(id.f[SWIFT_INTERFACE], "internal");
	ck_assert_str_eq(id.f[SWIFT_AUTH_TYPE], "v3password");
	ck_assert_ptr_null(id.f[SWIFT_CACERT]);
	end();
	CLEAN(clouds(full, "third", &found));
	ck_assert(found);
	ck_assert_str_eq(id.f[SWIFT_USER], "x");
	ck_assert_ptr_null(id.f[SWIFT_PASSWORD]);
	end();
	CLEAN(clouds(full, "none", &found));
	ck_assert(!found);
	end();
}
END_TEST

#define LAB "clouds:\n  lab:\n"
static const struct {
	const char *yaml, *says;
} bad_clouds[] = {
	{ "clouds: {lab: {auth: {}}}\n", "line 1: an indented mapping" },
	{ "clouds:\n  lab: &a\n", "line 2: an indented mapping" },
	{ LAB "    auth: *a\n", "line 3: an indented mapping" },
	{ LAB "    auth:\n      password: |\n        s3cret\n", "line 4: only plain" },
	{ LAB "    auth:\n      password: >\n", "line 4: only plain" },
	{ LAB "    auth:\n      password: *x\n", "line 4: only plain" },
	{ LAB "    auth:\n      password: !x s3cret\n", "line 4: only plain" },
	{ LAB "    auth:\n      password: [s3cret]\n", "line 4: only plain" },
	{ LAB "    auth:\n      password: \"s3cret\n        more\"\n", "line 4: a quoted" },
	{ LAB "    auth:\n      password: 's3cret\n", "line 4: a quoted" },
	{ LAB "    auth:\n      password: 's3cret' x\n", "line 4: text after" },
	{ LAB "    auth:\n      password: \"s3\\x41cret\"\n", "line 4: this escape" },
	{ LAB "    auth:\n      password: s3cret: x\n", "line 4: a plain value" },
	{ LAB "    auth:\n      password:\n        s3cret\n", "line 5: a value must be on the line" },
	{ LAB "    auth:\n      password: a\n      password: b\n", "line 5: this is given twice" },
	{ LAB "    auth:\n      password: \"s3cret\ta\"\n", "line 4: the value is too long or holds" },
	{ LAB "    auth:\n      password: a\n     username: b\n", "line 5: the indentation" },
	{ LAB "    auth:\n\t  password: s3cret\n", "line 4: indented with a tab" },
	{ LAB "    auth:\n    - password: s3cret\n", "line 4: " },
	{ LAB "    auth\n", "line 3: not \"NAME: VALUE\"" },
	{ LAB "    profile: ovh\n", "line 3: vendor profiles" },
	{ LAB "    verify: false\n", "line 3: verify" },
	{ LAB "    identity_api_version: 2\n", "line 3: identity_api_version" },
	{ LAB "    region_name: a\n  lab:\n    region_name: b\n", "line 4: this cloud is there twice" },
};

START_TEST(test_a_cloud_that_is_not_understood_is_refused_with_its_line)
{
	bool found;

	ck_assert_int_eq(clouds(bad_clouds[_i].yaml, "lab", &found), -TESS_E_URI);
	says(bad_clouds[_i].says);
	end();
}
END_TEST

START_TEST(test_no_prefix_of_a_clouds_file_is_misread)
{
	bool found;
	char part[sizeof(full)];

	for (size_t n = 0; n < sizeof(full); n++) {
		int r;

		memcpy(part, full, n);
		part[n] = 0;
		r = clouds(part, "lab", &found);
		ck_assert(r == 0 || r == -TESS_E_URI);
		if (r == 0 && id.f[SWIFT_PASSWORD])
			ck_assert_str_eq(id.f[SWIFT_PASSWORD], "s3cret \"#\\");
		end();
	}
}
END_TEST

/* ---- the chain ---- */

static char dir[64];

static const char *file_make(const char *name, const char *text, mode_t mode)
{
	static char path[128];
	FILE *f;

	if (!dir[0]) {
		(void)snprintf(dir, sizeof(dir), "/tmp/swift-XXXXXX");
		ck_assert_ptr_nonnull(mkdtemp(dir));
	}
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(chmod(path, mode), 0);
	return path;
}

static void files_remove(void)
{
	char path[128];
	static const char *const names[] = { "key", "clouds.yaml", "secure.yaml" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		(void)unlink(path);
	}
	(void)rmdir(dir);
	dir[0] = 0;
}

static struct swift_auth_conf conf = { .uri = "swift://c" };

START_TEST(test_the_first_source_that_is_configured_is_used)
{
	struct text explain = TEXT_INIT;

	begin();
	ck_assert_int_eq(swift_ident_load(&id, &conf, &explain, &why), -EACCES);
	says("nobody says who we are");
	says("ST_AUTH");
	text_clear(&why);
	setenv("ST_AUTH", "http://h/auth/v1.0", 1);
	ck_assert_int_eq(swift_ident_load(&id, &conf, NULL, &why), -EACCES);
	says("there must be a user");
	setenv("ST_USER", "a:b", 1);
	setenv("ST_KEY", "s3cret", 1);
	setenv("OS_CACERT", "certs/ca.pem", 1);	/* from where the command is given */
	CLEAN(chdir("/usr"));
	CLEAN(swift_ident_load(&id, &conf, NULL, &why));
	ck_assert_int_eq(id.kind, SWIFT_TEMPAUTH);
	ck_assert_str_eq(id.f[SWIFT_CACERT], "/usr/certs/ca.pem");
	swift_ident_done(&id);
	setenv("OS_AUTH_URL", "http://h:5000", 1);
	setenv("OS_USERNAME", "u", 1);
	setenv("OS_PASSWORD", "s3cret", 1);
	CLEAN(swift_ident_load(&id, &conf, NULL, &why));
	ck_assert_int_eq(id.kind, SWIFT_KEYSTONE);
	swift_ident_done(&id);
	setenv("OS_STORAGE_URL", "http://h/v1/AUTH_x", 1);
	setenv("OS_AUTH_TOKEN", "s3cret", 1);
	text_clear(&explain);
	CLEAN(swift_ident_load(&id, &conf, &explain, &why));
	ck_assert_int_eq(id.kind, SWIFT_STATIC);
	ck_assert_ptr_nonnull(strstr(text_str(&explain), "configured, not used"));
	ck_assert_ptr_null(strstr(text_str(&explain), "s3cret"));
	text_clear(&explain);
	swift_ident_to_text(&id, &explain);
	ck_assert_ptr_null(strstr(text_str(&explain), "s3cret"));
	text_done(&explain);
	end();
}
END_TEST

START_TEST(test_a_key_file_that_others_can_read_is_refused)
{
	struct swift_auth_conf c = { .uri = "swift://c", .auth = "http://h/auth/1.0", .user = "u" };

	begin();
	c.key_file = file_make("key", "s3cret\nmore\n", 0644);
	ck_assert_int_eq(swift_ident_load(&id, &c, NULL, &why), -EPERM);
	says("0644");
	c.key_file = file_make("key", "s3cret\n", 0640);
	ck_assert_int_eq(swift_ident_load(&id, &c, NULL, &why), -EPERM);
	c.key_file = file_make("key", "\n", 0600);
	text_clear(&why);
	ck_assert_int_eq(swift_ident_load(&id, &c, NULL, &why), -EINVAL);
	says("first line");
	c.key_file = file_make("key", "s3cret\nmore\n", 0400);
	CLEAN(swift_ident_load(&id, &c, NULL, &why));
	ck_assert_str_eq(id.f[SWIFT_PASSWORD], "s3cret");
	ck_assert_str_eq(id.f[SWIFT_USER], "u");
	swift_ident_done(&id);
	c.key_file = "/nonexistent/key";
	text_clear(&why);
	ck_assert_int_eq(swift_ident_load(&id, &c, NULL, &why), -ENOENT);
	c.key_file = "/dev/zero";
	ck_assert_int_eq(swift_ident_load(&id, &c, NULL, &why), -EINVAL);
	files_remove();
	end();
}
END_TEST

START_TEST(test_secure_yaml_goes_before_clouds_yaml_and_a_wide_password_is_refused)
{
	static const char open_part[] = "clouds:\n lab:\n  auth:\n   auth_url: http://h/v3\n   username: u\n";
	struct swift_auth_conf c = { .uri = "swift://c", .cloud = "lab" };
	char secret[256];

	begin();
	(void)snprintf(secret, sizeof(secret), "%s   password: s3cret\n", open_part);
	setenv("OS_CLIENT_CONFIG_FILE", file_make("clouds.yaml", secret, 0644), 1);
	ck_assert_int_eq(swift_ident_load(&id, &c, NULL, &why), -EPERM);
	says("holds a secret");
	text_clear(&why);
	(void)file_make("clouds.yaml", secret, 0600);
	CLEAN(swift_ident_load(&id, &c, NULL, &why));
	swift_ident_done(&id);
	(void)file_make("clouds.yaml", open_part, 0644);
	ck_assert_int_eq(swift_ident_load(&id, &c, NULL, &why), -EACCES);
	says("a password");
	text_clear(&why);
	setenv("OS_CLIENT_SECURE_FILE",
	       file_make("secure.yaml", "clouds:\n lab:\n  auth:\n   password: other\n", 0600), 1);
	CLEAN(swift_ident_load(&id, &c, NULL, &why));
	ck_assert_str_eq(id.f[SWIFT_PASSWORD], "other");
	ck_assert_str_eq(id.f[SWIFT_USER], "u");
	swift_ident_done(&id);
	c.cloud = "absent";
	ck_assert_int_eq(swift_ident_load(&id, &c, NULL, &why), -ENOENT);
	says("has no cloud \"absent\"");
	files_remove();
	end();
}
END_TEST

START_TEST(test_a_value_with_control_characters_is_refused)
{
	begin();
	setenv("ST_AUTH", "http://h/auth/v1.0", 1);
	setenv("ST_USER", "a:b\nX-Other: 1", 1);
	setenv("ST_KEY", "k", 1);
	ck_assert_int_lt(swift_ident_load(&id, &conf, NULL, &why), 0);
	says("ST_USER");
	end();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_a_cloud_is_read_and_others_are_passed_over,
		test_no_prefix_of_a_clouds_file_is_misread,
		test_the_first_source_that_is_configured_is_used,
		test_a_key_file_that_others_can_read_is_refused,
		test_secure_yaml_goes_before_clouds_yaml_and_a_wide_password_is_refused,
		test_a_value_with_control_characters_is_refused,
	};
	Suite *s = unit_suite("swift ident", tests, ARRAY_SIZE(tests));
	TCase *c = tcase_create("clouds");

	suite_add_tcase(s, c);
	tcase_add_loop_test(c, test_a_cloud_that_is_not_understood_is_refused_with_its_line, 0,
			    (int)ARRAY_SIZE(bad_clouds));
	return unit_run(s);
}
