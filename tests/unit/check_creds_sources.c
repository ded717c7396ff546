/* SPDX-License-Identifier: Apache-2.0 */
/* Where credentials come from, and how long they live. layer: store */
#include "store/creds_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "credstest.h"
#include "unit.h"
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- credential_process ---- */

#define JSON(n) "{\"Version\": 1, \"AccessKeyId\": \"" KEY(n) "\", \"SecretAccessKey\": \"" SECRET(n) "\"}"

START_TEST(test_a_process_gives_keys_without_a_shell)
{
	char text[512];

	ct_write("json file", JSON("prc"));
	(void)snprintf(text, sizeof(text), "[default]\ncredential_process = cat \"%s/json file\"\n", ct_home);
	ct_write(".aws/config", text);
	ck_assert_str_eq(ct_opens(&(struct creds_conf){ 0 }), KEY("prc"));
	(void)snprintf(text, sizeof(text), "[default]\ncredential_process = cat %s/json\\ file\n", ct_home);
	ct_write(".aws/config", text);
	ck_assert_str_eq(ct_opens(&(struct creds_conf){ 0 }), KEY("prc"));
	ct_write(".aws/config", "[default]\ncredential_process = cat $HOME/json;x\n");
	ct_fails(&(struct creds_conf){ 0 }, -EACCES, "credential_process cat ended with exit status 1");
}
END_TEST

START_TEST(test_a_process_that_fails_is_told_without_its_words)
{
	static const struct {
		const char *line, *told;
		int err;
	} t[] = {
		{ "/no/such/program " LEAK, "/no/such/program cannot be started", -ENOENT },
		{ "sh -c 'echo " LEAK " >&2; echo " LEAK "; exit 3'", "sh ended with exit status 3", -EACCES },
		{ "sh -c 'kill -9 $$'", "sh was killed by signal 9", -EACCES },
		{ "yes " LEAK, "yes prints more than", -EFBIG },
		{ "echo " LEAK, "no JSON object", -EINVAL },
		{ "echo '[\"" LEAK "\"]'", "no JSON object", -EINVAL },
		{ "echo '{\"Version\":2}'", "\"Version\": 1 is missing", -EINVAL },
		{ "echo '{\"Version\":\"1\"}'", "\"Version\": 1 is missing", -EINVAL },
		{ "echo '{\"Version\":1,\"AccessKeyId\":\"" LEAK "\"}'", "\"SecretAccessKey\" is missing", -EINVAL },
		{ "echo '{\"Version\":1,\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"B\",\"Expiration\":\"" LEAK
		  "\"}'", "\"Expiration\" is not a time", -EINVAL },
		{ "echo '{\"Version\":1,\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"B\",\"Expiration\":"
		  "\"2001-01-01T00:00:00Z\"}'", "expired already", -EKEYEXPIRED },
		{ "echo '{\"Version\":1,\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"B\\nC\"}'",
		  "holds a character", -EINVAL },
		{ "true", "no JSON object", -EINVAL },
		{ "echo '" LEAK, "quotes do not match", -EINVAL },
	};
	char text[512];

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		(void)snprintf(text, sizeof(text), "[default]\ncredential_process = %s\n", t[i].line);
		ct_write(".aws/config", text);
		ct_fails(&(struct creds_conf){ 0 }, t[i].err, t[i].told);
	}
}
END_TEST

START_TEST(test_a_process_that_hangs_is_killed_with_what_it_started)
{
	atomic_bool stop = false;
	struct creds_process p = { .timeout = 300 * NS_PER_MS, .stop = &stop };
	struct secret got = SECRET_INIT;
	char line[256];
	pid_t pid = 0;

	CLEAN(secret_init(&got, 4096));
	(void)snprintf(line, sizeof(line), "sh -c 'sleep 1000 & echo $! >%s/pid; wait'", ct_home);
	p.line = line;
	ck_assert_int_eq(creds_process_run(&p, &got, &ct_why), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(text_str(&ct_why), "was killed"));
	{
		FILE *f = fopen(ct_file("pid"), "r");

		ck_assert_ptr_nonnull(f);
		ck_assert_int_eq(fscanf(f, "%d", &pid), 1);
		fclose(f);
	}
	for (int i = 0; i < 5000 && !kill(pid, 0); i++) {
		char state = 0;
		FILE *f;

		(void)snprintf(line, sizeof(line), "/proc/%d/stat", pid);
		f = fopen(line, "r");
		if (!f || fscanf(f, "%*d %*s %c", &state) != 1)
			state = 'Z';
		if (f)
			fclose(f);
		if (state == 'Z')
			break;
		usleep(1000);
		ck_assert_int_lt(i, 4999);
	}
	/* Closing its output is not the end either. */
	p.line = "sh -c 'exec >&-; sleep 1000'";
	ck_assert_int_eq(creds_process_run(&p, &got, &ct_why), -ETIMEDOUT);
	atomic_store(&stop, true);
	p.timeout = 1000 * NS_PER_S;
	p.line = "sleep 1000";
	ck_assert_int_eq(creds_process_run(&p, &got, &ct_why), -ECANCELED);
	secret_done(&got);
}
END_TEST

START_TEST(test_words_are_split_as_a_shell_would)
{
	static const struct {
		const char *line, *words;	/* NULL: refused */
	} t[] = {
		{ "a", "a|" }, { " a  b\tc ", "a|b|c|" }, { "'a b' \"c d\"", "a b|c d|" },
		{ "a'b c'd", "ab cd|" }, { "a\\ b", "a b|" }, { "\"a\\\"b\\\\c\\d\"", "a\"b\\c\\d|" },
		{ "'a\\'", "a\\|" }, { "'' \"\"", "||" }, { "a\\", NULL }, { "'a", NULL }, { "\"a", NULL },
		{ "\"a\\", NULL }, { "", NULL }, { "  ", NULL }, { "'a'\"b\"", "ab|" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		char line[64], joined[64] = "", *argv[8];
		int err;

		(void)snprintf(line, sizeof(line), "%s", t[i].line);
		err = creds_words_split(line, argv, 8);
		if (!t[i].words) {
			ck_assert_int_eq(err, -EINVAL);
			continue;
		}
		CLEAN(err);
		for (int k = 0; argv[k]; k++) {
			size_t n = strlen(joined);

			(void)snprintf(joined + n, sizeof(joined) - n, "%s|", argv[k]);
		}
		ck_assert_str_eq(joined, t[i].words);
	}
	{
		char line[] = "a b c d", *argv[4];

		ck_assert_int_eq(creds_words_split(line, argv, 4), -E2BIG);
	}
}
END_TEST

/* ---- container and instance ---- */

START_TEST(test_a_token_goes_in_the_clear_to_near_hosts_only)
{
	static const struct {
		const char *relative, *full, *url;	/* url NULL: refused */
	} t[] = {
		{ "/v2/x?y=1", NULL, "http://169.254.170.2/v2/x?y=1" },
		{ "/a", "http://evil.org/", "http://169.254.170.2/a" },
		{ "@evil.org/", NULL, NULL },
		{ "/a b", NULL, NULL },
		{ "/a\r\nb", NULL, NULL },
		{ NULL, "http://localhost:1/x", "http://localhost:1/x" },
		{ NULL, "http://127.1.2.3/x", "http://127.1.2.3/x" },
		{ NULL, "http://[::1]:80/x", "http://[::1]:80/x" },
		{ NULL, "http://169.254.170.2/x", "http://169.254.170.2/x" },
		{ NULL, "http://169.254.170.23/x", "http://169.254.170.23/x" },
		{ NULL, "http://[fd00:ec2::23]/x", "http://[fd00:ec2::23]/x" },
		{ NULL, "https://any.org/x", "https://any.org/x" },
		{ NULL, "http://any.org/x", NULL },
		{ NULL, "http://127.0.0.1.evil.org/x", NULL },
		{ NULL, "http://169.254.170.22/x", NULL },
		{ NULL, "http://localhost.evil.org/", NULL },
		{ NULL, "ftp://127.0.0.1/x", NULL },
		{ NULL, "nonsense", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		int err;

		text_clear(&ct_out);
		err = creds_container_url(t[i].relative, t[i].full, &ct_out, &ct_why);
		ck_assert_msg(!err == !!t[i].url, "row %zu: %s", i, err_name(err));
		if (!err)
			ck_assert_str_eq(text_str(&ct_out), t[i].url);
	}
}
END_TEST

START_TEST(test_the_container_endpoint_wants_its_token)
{
	ct_fake_start();
	setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", ct_url("/v2/credentials/1"), 1);
	ct_fails(&(struct creds_conf){ 0 }, -EACCES, "container endpoint: status 401");
	setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", FAKEOBJ_BEARER, 1);
	ck_assert_int_eq(strncmp(ct_opens(&(struct creds_conf){ 0 }), "ASIA", 4), 0);
	ct_write("token", LEAK);
	setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", ct_path, 1);
	ct_fails(&(struct creds_conf){ 0 }, -EACCES, "container endpoint: status 401");
	ct_write("token", LEAK "\r\nX-Evil: 1");
	ct_fails(&(struct creds_conf){ 0 }, -EINVAL, "control character");
	ct_write("token", FAKEOBJ_BEARER "\n");
	ck_assert_int_eq(strncmp(ct_opens(&(struct creds_conf){ 0 }), "ASIA", 4), 0);
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	unsetenv("no_proxy");
	ck_assert_int_eq(strncmp(ct_opens(&(struct creds_conf){ 0 }), "ASIA", 4), 0);
}
END_TEST

START_TEST(test_the_instance_is_asked_with_a_token_and_a_second_time)
{
	ct_fake_start();
	unsetenv("AWS_EC2_METADATA_DISABLED");
	ck_assert_int_eq(strncmp(ct_opens(&(struct creds_conf){ 0 }), "ASIA", 4), 0);
	ck_assert_uint_eq(fakeobj_count(ct_fake, "creds", "all"), 3);
	CLEAN(fakeobj_rules(ct_fake, "creds:nth=1:500"));
	ck_assert_int_eq(strncmp(ct_opens(&(struct creds_conf){ 0 }), "ASIA", 4), 0);
	CLEAN(fakeobj_rules(ct_fake, "creds:nth=2:reset"));
	ck_assert_int_eq(strncmp(ct_opens(&(struct creds_conf){ 0 }), "ASIA", 4), 0);
	CLEAN(fakeobj_rules(ct_fake, "creds:every=1:403"));
	ct_fails(&(struct creds_conf){ 0 }, -EACCES, "instance metadata: PUT: status 403");
	CLEAN(fakeobj_rules(ct_fake, "creds:every=1:redirect=301"));
	ct_fails(&(struct creds_conf){ 0 }, -EPROTO, "instance metadata: PUT: status 301");
	ck_assert_uint_eq(fakeobj_count(ct_fake, "all", "elsewhere"), 0);
	CLEAN(fakeobj_rules(ct_fake, "creds:nth=3:bad-body"));
	ct_fails(&(struct creds_conf){ 0 }, -EINVAL, "instance metadata: what came");
	CLEAN(fakeobj_rules(ct_fake, "creds:nth=3:huge-body"));
	ct_fails(&(struct creds_conf){ 0 }, -EPROTO, "instance metadata");
	setenv("AWS_EC2_METADATA_DISABLED", "True", 1);
	ct_fails(&(struct creds_conf){ 0 }, -EACCES, "AWS_EC2_METADATA_DISABLED is set");
}
END_TEST

START_TEST(test_no_instance_means_nothing_is_configured)
{
	unsetenv("AWS_EC2_METADATA_DISABLED");
	setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1", 1);
	ct_fails(&(struct creds_conf){ 0 }, -EACCES, "no credentials are configured");
	ck_assert_ptr_nonnull(strstr(text_str(&ct_why), "IMDSv2 at http://127.0.0.1:1"));
}
END_TEST

/* ---- replies ---- */

START_TEST(test_times_are_iso_8601)
{
	static const struct {
		const char *s;
		int64_t     seconds;	/* -1: refused */
	} t[] = {
		{ "1970-01-01T00:00:00Z", 0 }, { "2026-11-20T21:54:10Z", 1795211650 },
		{ "2026-11-20T21:54:10.123456789Z", 1795211650 },
		{ "2026-11-20T22:54:10+01:00", 1795211650 }, { "2026-11-20T16:24:10-0530", 1795211650 },
		{ "2026-11-20 21:54:10z", 1795211650 }, { "2024-02-29T23:59:60Z", 1709251200 },
		{ "", -1 }, { "2026", -1 }, { "2026-11-20T21:54:10", -1 }, { "2026-13-20T21:54:10Z", -1 },
		{ "2026-11-20T21:54:10Zx", -1 }, { "2026-11-20T24:00:00Z", -1 }, { "1795211650", -1 },
		{ "2026-11-20T21:54:10.Z", -1 }, { "2026-11-20T21:54:10+1", -1 }, { "-026-11-20T21:54:10Z", -1 },
		{ "2026-11-20T21:54:10+24:00", -1 },
	};
	int64_t v;

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		int err = creds_time_parse(t[i].s, &v);

		ck_assert_msg(!err == (t[i].seconds >= 0), "%s", t[i].s);
		if (!err)
			ck_assert_msg(v == t[i].seconds * NS_PER_S, "%s: %" PRIi64, t[i].s, v / NS_PER_S);
	}
	CLEAN(creds_time_parse("9999-12-31T23:59:59Z", &v));
	ck_assert(v == INT64_MAX);
	text_clear(&ct_out);
	creds_time_add(&ct_out, 1795211650 * NS_PER_S);
	ck_assert_str_eq(text_str(&ct_out), "2026-11-20T21:54:10Z");
}
END_TEST

#define STS_KEYS(until) "<A><B><Credentials><AccessKeyId>ID</AccessKeyId><SecretAccessKey>" LEAK        \
			"</SecretAccessKey><Expiration>" until "</Expiration></Credentials></B></A>"

#define DEEP "<A><A><A><A><A><A><A><A><A><A><A><A><A><A><A><A><A></A></A></A></A></A></A></A></A></A>"   \
	     "</A></A></A></A></A></A></A></A>"

START_TEST(test_no_reply_of_sts_confuses_the_reader)
{
	static const char *const bad[] = {
		"", "<", "x", "<A/>", "{\"AccessKeyId\": \"" LEAK "\"}", STS_KEYS("never"), STS_KEYS(""),
		"<A><AccessKeyId>ID</AccessKeyId><SecretAccessKey>" LEAK "</SecretAccessKey></A>",
		"<!DOCTYPE A [<!ENTITY e \"" LEAK "\">]>" STS_KEYS("2030-01-01T00:00:00Z"),
		DEEP,
		"<A><Credentials><AccessKeyId>&x;</AccessKeyId></Credentials></A>",
	};
	char *big = calloc(1, 400 + 20000), error[300];
	struct creds_aws *v = NULL;

	CLEAN(creds_sts_parse(STS_KEYS("2030-01-01T00:00:00Z"), strlen(STS_KEYS("2030-01-01T00:00:00Z")),
			      "x", &v, &ct_why));
	ck_assert_str_eq(v->id, "ID");
	ck_assert_str_eq(v->secret, LEAK);
	ck_assert_ptr_null(v->token);
	renewed_put(&v->r);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		text_clear(&ct_why);
		ck_assert_int_eq(creds_sts_parse(bad[i], strlen(bad[i]), "x", &v, &ct_why), -EPROTO);
		ct_no_leak(&ct_why);
	}
	memcpy(big, "<A><Credentials><SessionToken>", 30);
	memset(big + 30, 'A', 20000);
	memcpy(big + 20030, "</SessionToken></Credentials></A>", 34);
	ck_assert_int_eq(creds_sts_parse(big, strlen(big), "x", &v, &ct_why), -EPROTO);
	free(big);
	text_clear(&ct_out);
	(void)snprintf(error, sizeof(error), "<E><Error><Code>Bad\x7f</Code><Message>%s</Message></Error></E>",
		       LEAK);
	creds_sts_error(error, strlen(error), &ct_out);
	ck_assert_str_eq(text_str(&ct_out), " Bad?");
	text_clear(&ct_out);
	creds_sts_error("<html>" LEAK, 12, &ct_out);
	ck_assert_str_eq(text_str(&ct_out), "");
}
END_TEST

/* ---- life of a value ---- */

START_TEST(test_keys_that_end_are_replaced_in_time)
{
	static struct ct_waiter w = { .w.ready = ct_ready };
	char ids[3][32] = { "" };
	struct creds *c;
	int n = 0;

	ct_fake_start();
	fakeobj_life(ct_fake, 2000);
	unsetenv("AWS_EC2_METADATA_DISABLED");
	CLEAN(creds_open(&c, &(struct creds_conf){ 0 }, &ct_why));
	for (int i = 0; i < 30000 && n < 3; i++) {
		struct renewed *v = renew_get(creds_renew(c), &w.w);

		if (!v) {	/* a slow machine */
			while (!w.called)
				usleep(1000);
			w.called = 0;
			v = w.v;
		}
		ck_assert_ptr_nonnull(v);
		{
			const struct creds_aws *a = container_of(v, struct creds_aws, r);

			if (!n || strcmp(ids[n - 1], a->id))
				(void)snprintf(ids[n++], sizeof(ids[0]), "%s", a->id);
		}
		renewed_put(v);
		usleep(1000);
	}
	ck_assert_int_eq(n, 3);
	creds_close(c);
}
END_TEST

START_TEST(test_a_renewal_never_changes_identity)
{
	static struct ct_waiter w = { .w.ready = ct_ready };
	struct renewed *v;
	struct creds *c;

	ct_write("key", KEY("two") "\n" SECRET("two") "\n");
	CLEAN(creds_open(&c, &(struct creds_conf){ .key_file = ct_path }, &ct_why));
	setenv("AWS_ACCESS_KEY_ID", KEY("env"), 1);
	setenv("AWS_SECRET_ACCESS_KEY", SECRET("env"), 1);
	v = renew_get(creds_renew(c), &w.w);
	ct_write("key", KEY("new") "\n" SECRET("new") "\n");
	renew_reject(creds_renew(c), v);
	renewed_put(v);
	v = renew_get(creds_renew(c), &w.w);
	if (!v) {
		while (!w.called)
			usleep(1000);
		v = w.v;
	}
	ck_assert_ptr_nonnull(v);
	ck_assert_str_eq(container_of(v, struct creds_aws, r)->id, KEY("new"));
	unlink(ct_path);
	renew_reject(creds_renew(c), v);
	renewed_put(v);
	w.called = 0;
	v = renew_get(creds_renew(c), &w.w);
	while (!v && !w.called)
		usleep(1000);
	ck_assert_ptr_null(v);
	ck_assert_ptr_null(w.v);
	creds_close(c);
}
END_TEST

START_TEST(test_closing_does_not_wait_for_who_does_not_answer)
{
	struct renewed *v;
	struct creds *c;
	int64_t begun;

	ct_fake_start();
	ct_write("jwt", FAKEOBJ_JWT);
	setenv("AWS_WEB_IDENTITY_TOKEN_FILE", ct_path, 1);
	setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/web", 1);
	CLEAN(creds_open(&c, &(struct creds_conf){ 0 }, &ct_why));
	CLEAN(fakeobj_rules(ct_fake, "creds:every=1:blackhole"));
	v = renew_get(creds_renew(c), &(struct renew_wait){ .ready = ct_ready });
	ck_assert_ptr_nonnull(v);
	renew_reject(creds_renew(c), v);
	renewed_put(v);
	while (!fakeobj_count(ct_fake, "creds", "fault"))
		usleep(1000);
	begun = clock_now();
	creds_close(c);
	ck_assert_int_lt((clock_now() - begun) / NS_PER_S, 5);	/* three tries of 10 s otherwise */
}
END_TEST

/*
 * Occurrences of first..second in what this process may write to. They are never put together here,
 * so none is the test's own.
 */
static int memory_holds(const char *first, const char *second)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC), n = 0;
	size_t n1 = strlen(first), n2 = strlen(second);
	static char block[1 << 16];
	char line[512];

	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps)) {
		uintptr_t from, to;
		char mode[5];

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, mode) != 3 || mode[1] != 'w' ||
		    to - from > (256u << 20))	/* a sanitizer's */
			continue;
		for (uintptr_t at = from; at < to; at += sizeof(block) - n1 - n2) {
			ssize_t got = pread(mem, block, MIN(sizeof(block), to - at), (off_t)at);

			for (ssize_t i = 0; i + (ssize_t)(n1 + n2) <= got; i++) {
				if (block[i] == first[0] && !memcmp(block + i, first, n1) &&
				    !memcmp(block + i + n1, second, n2) &&
				    (at + (uintptr_t)i < (uintptr_t)block ||
				     at + (uintptr_t)i >= (uintptr_t)block + sizeof(block)))
					n++;
			}
		}
		memset(block, 0, sizeof(block));
	}
	close(mem);
	fclose(maps);
	return n;
}

/* VmFlags of the mapping that holds p. */
static bool left_out_of_cores(const void *p)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[512];
	bool in = false, ret = false;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		uintptr_t from, to;

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
			in = (uintptr_t)p >= from && (uintptr_t)p < to;
		else if (in && !strncmp(line, "VmFlags:", 8))
			ret = strstr(line, " dd") != NULL;
	}
	fclose(f);
	return ret;
}

START_TEST(test_a_secret_is_in_one_place_out_of_cores_and_gone_when_closed)
{
	char cmd[256];
	struct renewed *v;
	struct creds *c;

	(void)snprintf(cmd, sizeof(cmd),
		       "umask 077; printf 'AKIAKEY\\n%%s%%s\\n' SECRET+IN+HALVES+ONE- TWO+AND+NEVER+WHOLE >%s",
		       ct_file("key"));
	ck_assert_int_eq(system(cmd), 0);
	CLEAN(creds_open(&c, &(struct creds_conf){ .key_file = ct_path }, &ct_why));
	v = renew_get(creds_renew(c), &(struct renew_wait){ .ready = ct_ready });
	ck_assert_ptr_nonnull(v);
	ck_assert(left_out_of_cores(container_of(v, struct creds_aws, r)->secret));
	ck_assert_int_eq(memory_holds("SECRET+IN+HALVES+ONE-", "TWO+AND+NEVER+WHOLE"), 1);
	creds_close(c);
	ck_assert_int_eq(memory_holds("SECRET+IN+HALVES+ONE-", "TWO+AND+NEVER+WHOLE"), 1);
	renewed_put(v);
	ck_assert_int_eq(memory_holds("SECRET+IN+HALVES+ONE-", "TWO+AND+NEVER+WHOLE"), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_a_process_gives_keys_without_a_shell,
		test_a_process_that_fails_is_told_without_its_words,
		test_a_process_that_hangs_is_killed_with_what_it_started,
		test_words_are_split_as_a_shell_would,
		test_a_token_goes_in_the_clear_to_near_hosts_only,
		test_the_container_endpoint_wants_its_token,
		test_the_instance_is_asked_with_a_token_and_a_second_time,
		test_no_instance_means_nothing_is_configured, test_times_are_iso_8601,
		test_no_reply_of_sts_confuses_the_reader,
		test_keys_that_end_are_replaced_in_time, test_a_renewal_never_changes_identity,
		test_closing_does_not_wait_for_who_does_not_answer,
		test_a_secret_is_in_one_place_out_of_cores_and_gone_when_closed,
	};

	return unit_run_with("creds_sources", tests, ARRAY_SIZE(tests), ct_setup, ct_teardown, 60);
}
