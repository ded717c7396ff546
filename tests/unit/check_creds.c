/* SPDX-License-Identifier: Apache-2.0 */
#include "store/creds_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "credstest.h"
#include "unit.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- environment, order ---- */

START_TEST(test_the_environment_is_used)
{
	setenv("AWS_ACCESS_KEY_ID", KEY("env"), 1);
	ct_fails(&(struct creds_conf){ 0 }, -EINVAL, "AWS_SECRET_ACCESS_KEY is not set");
	setenv("AWS_SECRET_ACCESS_KEY", SECRET("env"), 1);
	ck_assert_str_eq(ct_opens(&(struct creds_conf){ 0 }), KEY("env"));
	setenv("AWS_SECRET_ACCESS_KEY", "", 1);
	ct_fails(&(struct creds_conf){ 0 }, -EINVAL, "AWS_SECRET_ACCESS_KEY is not set");
	setenv("AWS_SECRET_ACCESS_KEY", SECRET("env") "\r\nX-Evil: 1", 1);
	ct_fails(&(struct creds_conf){ 0 }, -EINVAL, "holds a character");
	setenv("AWS_SECRET_ACCESS_KEY", SECRET("env"), 1);
	setenv("AWS_SESSION_TOKEN", LEAK " two", 1);
	ct_fails(&(struct creds_conf){ .uri = "s3://b" }, -EINVAL, "s3://b: the session token holds");
}
END_TEST

START_TEST(test_what_the_uri_says_goes_before_the_environment)
{
	ct_write(".aws/credentials", "[default]\n" KEYS("def") "[lab]\n" KEYS("lab"));
	ct_write("key", KEY("two") "\n" SECRET("two") "\n");
	ck_assert_str_eq(ct_opens(&(struct creds_conf){ 0 }), KEY("def"));
	setenv("AWS_PROFILE", "lab", 1);
	ck_assert_str_eq(ct_opens(&(struct creds_conf){ 0 }), KEY("lab"));
	setenv("AWS_ACCESS_KEY_ID", KEY("env"), 1);
	setenv("AWS_SECRET_ACCESS_KEY", SECRET("env"), 1);
	ck_assert_str_eq(ct_opens(&(struct creds_conf){ 0 }), KEY("env"));
	ck_assert_str_eq(ct_opens(&(struct creds_conf){ .profile = "default" }), KEY("def"));
	ck_assert_str_eq(ct_opens(&(struct creds_conf){ .key_file = ct_file("key") }), KEY("two"));
	ck_assert_str_eq(ct_opens(&(struct creds_conf){ .anonymous = true }), "");
}
END_TEST

START_TEST(test_nothing_configured_says_what_was_looked_at)
{
	ct_fails(&(struct creds_conf){ .uri = "s3://b" }, -EACCES, "s3://b: no credentials are configured");
	ck_assert_ptr_nonnull(strstr(text_str(&ct_why), "/.aws/credentials"));
	ck_assert_ptr_nonnull(strstr(text_str(&ct_why), "AWS_ACCESS_KEY_ID"));
	ck_assert_ptr_nonnull(strstr(text_str(&ct_why), "AWS_EC2_METADATA_DISABLED"));
	setenv("AWS_PROFILE", "gone", 1);
	ct_fails(&(struct creds_conf){ 0 }, -ENOENT, "profile gone: not in ");
}
END_TEST

START_TEST(test_a_source_that_fails_is_the_end)
{
	ct_write(".aws/credentials", "[default]\n" KEYS("def"));
	ct_fails(&(struct creds_conf){ .key_file = ct_file("missing") }, -ENOENT, "/missing: No such file");
	ct_fails(&(struct creds_conf){ .profile = "other" }, -ENOENT, "profile other: not in");
	setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/missing", 1);
	setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/x", 1);
	ct_fails(&(struct creds_conf){ 0 }, -ENOENT, "/missing: No such file");
}
END_TEST

/* ---- files ---- */

START_TEST(test_files_with_keys_that_others_can_read_are_refused)
{
	static const mode_t modes[] = { 0644, 0640, 0604, 0660, 0606, 0777 };
	struct creds_conf key = { 0 };
	char want[64];

	ct_write(".aws/credentials", "[default]\n" KEYS("def"));
	ct_write("key", KEY("two") "\n" SECRET("two") "\n");
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		(void)snprintf(want, sizeof(want), "key: mode %04o", modes[i]);
		ck_assert_int_eq(chmod(ct_file("key"), modes[i]), 0);
		key.key_file = ct_file("key");
		ct_fails(&key, -EPERM, want);
		ck_assert_int_eq(chmod(ct_file(".aws/credentials"), modes[i]), 0);
		ct_fails(&(struct creds_conf){ 0 }, -EPERM, "/.aws/credentials: mode ");
	}
	ck_assert_int_eq(chmod(ct_file("key"), 0400), 0);
	ck_assert_str_eq(ct_opens(&key), KEY("two"));
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(ct_file("key"), 12345, 12345), 0);
		ct_fails(&key, -EPERM, "belongs to user 12345");
	}
}
END_TEST

START_TEST(test_a_wide_config_is_fine_without_keys_and_nobody_else_may_change_it)
{
	ct_write(".aws/config", "[default]\ncredential_process = sh -c 'cat " "$HOME/json'\n");
	ct_write("json", "{\"Version\":1,\"AccessKeyId\":\"" KEY("jsn") "\",\"SecretAccessKey\":\"" SECRET(
			   "jsn") "\"}");
	ck_assert_int_eq(chmod(ct_file(".aws/config"), 0644), 0);
	ck_assert_str_eq(ct_opens(&(struct creds_conf){ 0 }), KEY("jsn"));
	ck_assert_int_eq(chmod(ct_file(".aws/config"), 0666), 0);
	ct_fails(&(struct creds_conf){ 0 }, -EPERM, "lets others change it");
	ct_write(".aws/config", "[default]\n" KEYS("cfg"));
	ck_assert_str_eq(ct_opens(&(struct creds_conf){ 0 }), KEY("cfg"));
	ck_assert_int_eq(chmod(ct_file(".aws/config"), 0644), 0);
	ct_fails(&(struct creds_conf){ 0 }, -EPERM, "lets others read it");
}
END_TEST

START_TEST(test_a_key_file_is_two_words_or_ini)
{
	struct creds_conf key = { .key_file = NULL };
	static const char *const good[] = {
		KEY("two") "\n" SECRET("two"),
		"\n  " KEY("two") "\r\n\t" SECRET("two") "\r\n\n",
		"# mine\n[default]\n" KEYS("two"),
		"aws_access_key_id=" KEY("two") "\naws_secret_access_key=" SECRET("two"),
	};
	static const char *const bad[] = {
		"", "\n\n", SECRET("one"), KEY("x") " " SECRET("x") " " LEAK, "[default]\n",
		"[default]\naws_secret_access_key=" SECRET("x"), "[default\n" KEYS("x"), "# only a comment",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		ct_write("key", good[i]);
		key.key_file = ct_file("key");
		ck_assert_str_eq(ct_opens(&key), KEY("two"));
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct creds *c;

		ct_write("key", bad[i]);
		text_clear(&ct_why);
		ck_assert_int_lt(creds_open(&c, &key, &ct_why), 0);
		ck_assert_uint_gt(ct_why.n, 0);
		ct_no_leak(&ct_why);
	}
	ct_write("key", "[default]\n" KEYS("def") "[lab]\n" KEYS("lab"));
	setenv("AWS_PROFILE", "elsewhere", 1);
	ck_assert_str_eq(ct_opens(&key), KEY("def"));
	key.profile = "lab";
	ck_assert_str_eq(ct_opens(&key), KEY("lab"));
	key.profile = "none";
	ct_fails(&key, -ENOENT, "profile none: not in ");
}
END_TEST

START_TEST(test_hostile_files_are_refused)
{
	static char big[CREDS_FILE_MAX + 2];
	struct creds_conf key = { 0 };

	ct_fails(&(struct creds_conf){ .key_file = ct_home }, -EINVAL, "not a regular file");
	ck_assert_int_eq(mkfifo(ct_file("fifo"), 0600), 0);
	key.key_file = ct_path;
	ct_fails(&key, -EINVAL, "not a regular file");
	memset(big, 'A', sizeof(big));
	ct_write_bytes("key", big, sizeof(big), 0600);
	key.key_file = ct_path;
	ct_fails(&key, -EFBIG, "larger than");
	ct_write_bytes("key", "A\0B", 3, 0600);
	ct_fails(&key, -EINVAL, "NUL");
	memset(big, '\n', 100);
	memcpy(big + 50, "a=b", 3);
	big[100] = 0;
	ct_write_bytes("key", big, 2000, 0600);
	ct_fails(&key, -EINVAL, "NUL");
	unlink(ct_path);
	ck_assert_int_eq(symlink(ct_path, ct_path), 0);
	ct_fails(&key, -ELOOP, "key");
}
END_TEST

/* ---- INI ---- */

static const char sample[] =
	"\xef\xbb\xbf# " LEAK "\r\n"
	"; " LEAK "\n"
	"\n"
	"[ default ]   # trailing\n"
	"region=eu-1\n"
	"[profile \"my lab\"]\n"
	"    Region =   eu-2   ; a comment\n"
	"    endpoint_url = http://h:1/a#b\n"
	"    s3 =\n"
	"        endpoint_url = http://nested\n"
	"        max_concurrent_requests = 10\n"
	"    empty =\n"
	"    ca_bundle = /a\n"
	"[sso-session x]\n"
	"region = eu-3\n"
	"[profile\tlab]\n"
	"region = eu-4\r\n"
	"region = eu-5\n"
	"services = mine\n"
	"[services mine]\n"
	"s3 =\n"
	"  endpoint_url = http://of-s3\n"
	"sts =\n"
	"  endpoint_url = http://of-sts\n"
	"[stray]\n"
	"region = eu-6\n";

static const char *setting(const char *profile, const char *name)
{
	struct creds_conf conf = { .profile = profile };
	int err;

	text_clear(&ct_out);
	err = creds_setting(&conf, name, &ct_out);
	return err ? err_name(err) : text_str(&ct_out);
}

START_TEST(test_the_files_are_read_as_the_aws_tools_do)
{
	ct_write(".aws/config", sample);
	ck_assert_str_eq(setting(NULL, "region"), "eu-1");
	ck_assert_str_eq(setting("my lab", "region"), "eu-2");
	ck_assert_str_eq(setting("my lab", "endpoint_url"), "http://h:1/a#b");
	ck_assert_str_eq(setting("my lab", "ca_bundle"), "/a");
	ck_assert_str_eq(setting("my lab", "empty"), "ENOENT");
	ck_assert_str_eq(setting("lab", "region"), "eu-5");
	ck_assert_str_eq(setting("lab", "endpoint_url"), "http://of-s3");
	ck_assert_str_eq(setting("stray", "region"), "ENOENT");
	ck_assert_str_eq(setting("x", "region"), "ENOENT");
	ct_write(".aws/credentials", "[lab]\nregion = eu-7\n");
	ck_assert_str_eq(setting("lab", "region"), "eu-7");
}
END_TEST

START_TEST(test_settings_come_from_the_environment_first)
{
	ct_write(".aws/config", sample);
	setenv("AWS_DEFAULT_REGION", "us-8", 1);
	ck_assert_str_eq(setting("lab", "region"), "us-8");
	setenv("AWS_REGION", "us-9", 1);
	ck_assert_str_eq(setting("lab", "region"), "us-9");
	setenv("AWS_ENDPOINT_URL", "http://all", 1);
	ck_assert_str_eq(setting("lab", "endpoint_url"), "http://all");
	setenv("AWS_ENDPOINT_URL_S3", "http://one", 1);
	ck_assert_str_eq(setting("lab", "endpoint_url"), "http://one");
	setenv("AWS_CA_BUNDLE", "/b", 1);
	ck_assert_str_eq(setting("my lab", "ca_bundle"), "/b");
	setenv("AWS_CONFIG_FILE", "~/other", 1);
	ct_write("other", "[default]\ncolour = green\n");
	ck_assert_str_eq(setting(NULL, "colour"), "green");
	setenv("AWS_CONFIG_FILE", "/nowhere", 1);
	ck_assert_str_eq(setting(NULL, "colour"), "ENOENT");
	setenv("AWS_CONFIG_FILE", "/dev/null", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
	ck_assert_str_eq(setting(NULL, "colour"), "ENOENT");
	ct_fails(&(struct creds_conf){ 0 }, -EACCES, "no credentials are configured");
}
END_TEST

START_TEST(test_what_cannot_be_read_is_told_by_its_line)
{
	static const struct {
		const char *text, *told;
	} t[] = {
		{ "[default]\n" LEAK "\n", "config:2: neither" },
		{ "[default]\n= " LEAK "\n", "config:2: neither" },
		{ "\n\n[" LEAK "\n", "config:3: a section without ]" },
		{ "[]\n", "config:1: a section without a name" },
		{ "[profile ]\n", "config:" },
		{ "[default] " LEAK "\n", "config:1: something follows" },
		{ "key = " LEAK "\n[default]\n", "config:1: a key before" },
	};

	setenv("AWS_PROFILE", "default", 1);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct creds *c;

		ct_write(".aws/config", t[i].text);
		text_clear(&ct_why);
		ck_assert_int_lt(creds_open(&c, &(struct creds_conf){ 0 }, &ct_why), 0);
		ck_assert_msg(strstr(text_str(&ct_why), i == 4 ? "profile default" : t[i].told),
			      "%zu: %s", i, text_str(&ct_why));
		ct_no_leak(&ct_why);
	}
}
END_TEST

/* Whatever the bytes: an answer, and none of them in it. */
START_TEST(test_no_bytes_confuse_the_reader)
{
	static const char bits[] = "[]=#; \t\n\r\"'\\profile default\xff";
	char text[sizeof(sample)];
	unsigned seed = 4711;

	setenv("AWS_PROFILE", "lab", 1);
	for (int i = 0; i < 400; i++) {
		struct creds *c = NULL;

		memcpy(text, sample, sizeof(text));
		for (int k = 0; k < 1 + i % 20; k++) {
			seed = seed * 1103515245 + 12345;
			text[(seed >> 8) % (sizeof(text) - 1)] = bits[(seed >> 20) % (sizeof(bits) - 1)];
		}
		ct_write_bytes(".aws/config", text, sizeof(text) - 1, 0600);
		text_clear(&ct_why);
		ck_assert_int_lt(creds_open(&c, &(struct creds_conf){ 0 }, &ct_why), 0);
		ct_no_leak(&ct_why);
	}
}
END_TEST

/* ---- profiles and roles ---- */

START_TEST(test_a_role_is_taken_by_who_has_keys)
{
	ct_fake_start();
	ct_write(".aws/credentials", "[base]\naws_access_key_id = " FAKEOBJ_ACCESS
				       "\naws_secret_access_key = " FAKEOBJ_SECRET "\n");
	ct_write(".aws/config",
		   "[profile one]\nrole_arn = arn:aws:iam::1:role/one\nsource_profile = base\n"
		   "role_session_name = me@here\nexternal_id = a b&c\nduration_seconds = 900\n"
		   "region = eu-west-1\n"
		   "[profile two]\nrole_arn = arn:aws:iam::1:role/two\nsource_profile = one\n");
	ck_assert_int_eq(strncmp(ct_opens(&(struct creds_conf){ .profile = "one" }), "ASIA", 4), 0);
	ck_assert_uint_eq(fakeobj_count(ct_fake, "creds", "ok"), 1);
	/* The second is signed with what the first gave. */
	ck_assert_int_eq(strncmp(ct_opens(&(struct creds_conf){ .profile = "two" }), "ASIA", 4), 0);
	ck_assert_uint_eq(fakeobj_count(ct_fake, "creds", "ok"), 3);
	ct_write(".aws/credentials", "[base]\naws_access_key_id = " FAKEOBJ_ACCESS
				       "\naws_secret_access_key = " SECRET("bad") "\n");
	ct_fails(&(struct creds_conf){ .profile = "one" }, -EACCES, "SignatureDoesNotMatch");
	ck_assert_ptr_nonnull(strstr(text_str(&ct_why), "role arn:aws:iam::1:role/one, profile one"));
}
END_TEST

START_TEST(test_sources_of_a_role_that_make_no_sense_are_refused)
{
	static const struct {
		const char *profile, *told;
		int err;
	} t[] = {
		{ "a", "profile a -> b -> c -> a: source_profile is a loop", -ELOOP },
		{ "self", "names itself", -EINVAL },
		{ "nobody", "needs one of", -EINVAL },
		{ "both", "needs one of", -EINVAL },
		{ "odd", "credential_source is", -EINVAL },
		{ "missing", "profile missing -> gone: not in", -ENOENT },
		{ "d1", "goes on for too long", -ELOOP },
		{ "mfa", "mfa_serial", -ENOTSUP },
		{ "sso", "single sign-on", -ENOTSUP },
		{ "long", "duration_seconds", -EINVAL },
		{ "poor", "has neither keys", -EACCES },
		{ "half", "without aws_secret_access_key", -EINVAL },
		{ "evil", "no region's name", -EINVAL },
	};

	ct_write(".aws/credentials", "[keys]\n" KEYS("kys") "[half]\naws_access_key_id = " KEY("hlf"));
	ct_write(".aws/config",
		   "[profile a]\nrole_arn=x\nsource_profile=b\n[profile b]\nrole_arn=x\nsource_profile=c\n"
		   "[profile c]\nrole_arn=x\nsource_profile=a\n[profile self]\nrole_arn=x\n"
		   "source_profile=self\n[profile nobody]\nrole_arn=x\n[profile both]\nrole_arn=x\n"
		   "source_profile=keys\ncredential_source=Environment\n[profile odd]\nrole_arn=x\n"
		   "credential_source=" LEAK "\n[profile missing]\nrole_arn=x\nsource_profile=gone\n"
		   "[profile mfa]\nrole_arn=x\nmfa_serial=y\nsource_profile=keys\n"
		   "[profile sso]\nsso_session=x\n[profile long]\nrole_arn=x\nsource_profile=keys\n"
		   "duration_seconds=1e9\n[profile poor]\nregion=x\n[profile evil]\nrole_arn=x\n"
		   "region=evil.org/\nsource_profile=keys\n"
		   "[profile d1]\nrole_arn=x\nsource_profile=d2\n[profile d2]\nrole_arn=x\nsource_profile=d3\n"
		   "[profile d3]\nrole_arn=x\nsource_profile=d4\n[profile d4]\nrole_arn=x\nsource_profile=d5\n"
		   "[profile d5]\nrole_arn=x\nsource_profile=d6\n[profile d6]\nrole_arn=x\nsource_profile=d7\n"
		   "[profile d7]\nrole_arn=x\nsource_profile=d8\n[profile d8]\nrole_arn=x\nsource_profile=d9\n"
		   "[profile d9]\nrole_arn=x\nsource_profile=keys\n");
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		ct_fails(&(struct creds_conf){ .profile = t[i].profile }, t[i].err, t[i].told);
}
END_TEST

START_TEST(test_a_role_may_be_asked_for_by_other_sources)
{
	ct_fake_start();
	unsetenv("AWS_EC2_METADATA_DISABLED");
	setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", ct_url("/v2/credentials/1"), 1);
	setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", FAKEOBJ_BEARER, 1);
	ct_write(".aws/config",
		   "[profile e]\nrole_arn = x\ncredential_source = Environment\n"
		   "[profile c]\nrole_arn = x\ncredential_source = EcsContainer\n"
		   "[profile i]\nrole_arn = x\ncredential_source = Ec2InstanceMetadata\n"
		   "[profile s]\nrole_arn = x\nsource_profile = s\naws_access_key_id = " FAKEOBJ_ACCESS
		   "\naws_secret_access_key = " FAKEOBJ_SECRET "\n");
	ct_fails(&(struct creds_conf){ .profile = "e" }, -EINVAL, "AWS_ACCESS_KEY_ID is not set");
	setenv("AWS_ACCESS_KEY_ID", FAKEOBJ_ACCESS, 1);
	setenv("AWS_SECRET_ACCESS_KEY", FAKEOBJ_SECRET, 1);
	for (const char *p = "ecis"; *p; p++) {
		char name[2] = { *p, 0 };

		ck_assert_int_eq(strncmp(ct_opens(&(struct creds_conf){ .profile = name }), "ASIA", 4), 0);
	}
	unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	ct_fails(&(struct creds_conf){ .profile = "c" }, -ENOENT, "not set");
}
END_TEST

START_TEST(test_a_web_identity_token_is_read_each_time)
{
	ct_fake_start();
	ct_write("jwt", FAKEOBJ_JWT "\n");
	chmod(ct_file("jwt"), 0644);	/* as Kubernetes projects it */
	setenv("AWS_WEB_IDENTITY_TOKEN_FILE", ct_path, 1);
	setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/web", 1);
	ck_assert_int_eq(strncmp(ct_opens(&(struct creds_conf){ 0 }), "ASIA", 4), 0);
	ct_write("jwt", LEAK);
	ct_fails(&(struct creds_conf){ 0 }, -EACCES, "InvalidIdentityToken");
	ct_write("jwt", "");
	ct_fails(&(struct creds_conf){ 0 }, -EINVAL, "is empty");
	unsetenv("AWS_ROLE_ARN");
	ct_fails(&(struct creds_conf){ 0 }, -EACCES, "AWS_ROLE_ARN: not set");
	ct_write("jwt", FAKEOBJ_JWT);
	(void)snprintf(ct_path, sizeof(ct_path), "[default]\nrole_arn = x\nweb_identity_token_file = %s/jwt\n", ct_home);
	{
		scoped_free char *config = strdup(ct_path);

		ct_write(".aws/config", config);
	}
	ck_assert_int_eq(strncmp(ct_opens(&(struct creds_conf){ 0 }), "ASIA", 4), 0);
}
END_TEST

/* ---- explain ---- */

static int explains(const struct creds_conf *conf)
{
	int err;

	text_clear(&ct_out);
	err = creds_explain(conf, &ct_out);
	ct_no_leak(&ct_out);
	return err;
}

#define SAYS(s) ck_assert_msg(strstr(text_str(&ct_out), s), "no \"%s\" in:\n%s", s, text_str(&ct_out))

START_TEST(test_explain_shows_each_source_and_no_secret)
{
	static const char *const names[] = { "environment ", "key-file ", "web-identity ", "profile ",
					     "container ", "instance ", "anonymous ", "result " };
	const char *at;

	ck_assert_int_eq(explains(&(struct creds_conf){ 0 }), -EACCES);
	at = text_str(&ct_out);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		ck_assert_msg(!strncmp(at, names[i], strlen(names[i])), "%s", text_str(&ct_out));
		at = strchr(at, '\n') + 1;
	}
	ck_assert_str_eq(at, "");
	SAYS("result        failed  no credentials are configured");
	ct_write(".aws/credentials", "[default]\n" KEYS("def"));
	CLEAN(explains(&(struct creds_conf){ 0 }));
	SAYS("environment   absent  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY: not set");
	SAYS("profile       used    profile default of ");
	SAYS("result        usable  keys, the id ends in 0def, no expiry is known");
	setenv("AWS_ACCESS_KEY_ID", KEY("env"), 1);
	setenv("AWS_SECRET_ACCESS_KEY", SECRET("env"), 1);
	setenv("AWS_SESSION_TOKEN", LEAK "token", 1);
	CLEAN(explains(&(struct creds_conf){ 0 }));
	SAYS("environment   used    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN");
	SAYS("profile       unused  profile default of ");
	SAYS("result        usable  temporary keys, the id ends in 0env");
	ct_write(".aws/config", LEAK);
	CLEAN(explains(&(struct creds_conf){ 0 }));
	SAYS("profile       broken ");
	CLEAN(explains(&(struct creds_conf){ .anonymous = true }));
	SAYS("anonymous     used ");
	SAYS("result        usable  requests are not signed");
	chmod(ct_file(".aws/credentials"), 0644);
	ct_write(".aws/config", "");
	ck_assert_int_eq(explains(&(struct creds_conf){ .profile = "default" }), -EPERM);
	SAYS("result        failed  ");
	SAYS("mode 0644");
}
END_TEST

START_TEST(test_explain_shows_when_keys_end)
{
	ct_fake_start();
	unsetenv("AWS_EC2_METADATA_DISABLED");
	CLEAN(explains(&(struct creds_conf){ 0 }));
	SAYS("instance      used    IMDSv2 at http://127.0.0.1:");
	SAYS("result        usable  temporary keys, the id ends in ");
	SAYS(", until 20");
	SAYS("from instance role fake-role");
}
END_TEST

/* ---- without memory ---- */

/* Each allocation fails in turn: an error or success, nothing lost, nothing crashes. */
static void starve(int (*run)(void))
{
	char spec[32];
	bool through = false;

	for (int n = 1; !through; n++) {
		int err;

		ck_assert_int_lt(n, 2000);
		(void)snprintf(spec, sizeof(spec), "alloc@%d=ENOMEM", n);
		CLEAN(fault_set(spec));
		err = run();
		through = fault_hits("alloc") < (uint64_t)n;
		CLEAN(fault_set(NULL));
		ck_assert_int_le(err, 0);
		ck_assert(!through || !err);
	}
}

static int run_explain(void)
{
	text_clear(&ct_out);
	return creds_explain(&(struct creds_conf){ .profile = "two" }, &ct_out);
}

static int run_open(void)
{
	struct creds *c = NULL;
	int err;

	text_clear(&ct_why);
	err = creds_open(&c, &(struct creds_conf){ .uri = "s3://b", .key_file = ct_path }, &ct_why);
	creds_close(c);
	return err;
}

static int run_setting(void)
{
	text_clear(&ct_out);
	return creds_setting(&(struct creds_conf){ .profile = "two" }, "region", &ct_out);
}

START_TEST(test_every_allocation_may_fail)
{
	char text[768];

	ct_fake_start();
	ct_write("json", "{\"Version\":1,\"AccessKeyId\":\"" FAKEOBJ_ACCESS "\",\"SecretAccessKey\":\"" FAKEOBJ_SECRET
			   "\"}");
	(void)snprintf(text, sizeof(text),
		       "[profile base]\ncredential_process = cat '%s/json'\n"
		       "[profile one]\nrole_arn = x\nsource_profile = base\n"
		       "[profile two]\nregion = eu-1\nrole_arn = x\nsource_profile = one\n", ct_home);
	ct_write(".aws/config", text);
	starve(run_explain);
	starve(run_setting);
	ct_write("key", KEY("two") "\n" SECRET("two") "\n");
	starve(run_open);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_the_environment_is_used, test_what_the_uri_says_goes_before_the_environment,
		test_nothing_configured_says_what_was_looked_at,
		test_a_source_that_fails_is_the_end,
		test_files_with_keys_that_others_can_read_are_refused,
		test_a_wide_config_is_fine_without_keys_and_nobody_else_may_change_it,
		test_a_key_file_is_two_words_or_ini, test_hostile_files_are_refused,
		test_the_files_are_read_as_the_aws_tools_do,
		test_settings_come_from_the_environment_first,
		test_what_cannot_be_read_is_told_by_its_line, test_no_bytes_confuse_the_reader,
		test_a_role_is_taken_by_who_has_keys,
		test_sources_of_a_role_that_make_no_sense_are_refused,
		test_a_role_may_be_asked_for_by_other_sources,
		test_a_web_identity_token_is_read_each_time,
		test_explain_shows_each_source_and_no_secret, test_explain_shows_when_keys_end,
		test_every_allocation_may_fail,
	};

	return unit_run_with("creds", tests, ARRAY_SIZE(tests), ct_setup, ct_teardown, 60);
}
