/* SPDX-License-Identifier: Apache-2.0 */
#include "credstest.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "unit.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char ct_home[64], ct_path[160];
struct text ct_why, ct_out;
struct fakeobj *ct_fake;

void ct_setup(void)
{
	extern char **environ;

	for (;;) {
		char name[128], **e = environ;

		while (*e && strncmp(*e, "AWS_", 4))
			e++;
		if (!*e)
			break;
		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
		unsetenv(name);
	}
	(void)snprintf(ct_home, sizeof(ct_home), "/tmp/check_creds.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(ct_home));
	(void)snprintf(ct_path, sizeof(ct_path), "%s/.aws", ct_home);
	ck_assert_int_eq(mkdir(ct_path, 0700), 0);
	setenv("HOME", ct_home, 1);
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
}

void ct_teardown(void)
{
	char cmd[128];

	fakeobj_stop(steal_ptr(ct_fake));
	text_done(&ct_why);
	text_done(&ct_out);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf %s", ct_home);
	ck_assert_int_eq(system(cmd), 0);
}

const char *ct_file(const char *name)
{
	(void)snprintf(ct_path, sizeof(ct_path), "%s/%s", ct_home, name);
	return ct_path;
}

void ct_write_bytes(const char *name, const void *p, size_t n, mode_t mode)
{
	int fd = open(ct_file(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, p, n), (ssize_t)n);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
}

void ct_write(const char *name, const char *s)
{
	ct_write_bytes(name, s, strlen(s), 0600);
}

void ct_no_leak(const struct text *t)
{
	ck_assert_msg(!strstr(text_str(t), LEAK), "%s", text_str(t));
}

/* The id that the chain ends with; the value itself is given back. */
const char *ct_opens(const struct creds_conf *conf)
{
	static char id[64];
	static struct renew_wait w;
	struct creds *c = NULL;
	struct renewed *r;
	const struct creds_aws *v;
	int err;

	text_clear(&ct_why);
	err = creds_open(&c, conf, &ct_why);
	ck_assert_msg(!err, "%s: %s", err_name(err), text_str(&ct_why));
	r = renew_get(creds_renew(c), &w);
	ck_assert_ptr_nonnull(r);
	v = container_of(r, struct creds_aws, r);
	(void)snprintf(id, sizeof(id), "%s", v->id ? v->id : "");
	if (v->id && !strncmp(v->id, KEY(""), strlen(KEY(""))))
		ck_assert_ptr_nonnull(strstr(v->secret, v->id + strlen(KEY(""))));
	renewed_put(r);
	creds_close(c);
	return id;
}

void ct_fails(const struct creds_conf *conf, int want, const char *part)
{
	struct creds *c = NULL;
	int err;

	text_clear(&ct_why);
	err = creds_open(&c, conf, &ct_why);
	ck_assert_msg(err == want, "%s, not %s: %s", err_name(err), err_name(want),
		      text_str(&ct_why));
	ck_assert_ptr_null(c);
	ck_assert_msg(strstr(text_str(&ct_why), part), "no \"%s\" in: %s", part, text_str(&ct_why));
	ck_assert_msg(!strchr(text_str(&ct_why), '\n'), "%s", text_str(&ct_why));
	ct_no_leak(&ct_why);
	creds_close(c);
}

const char *ct_url(const char *tail)
{
	static char s[128];

	(void)snprintf(s, sizeof(s), "http://127.0.0.1:%u%s", fakeobj_port(ct_fake), tail);
	return s;
}

void ct_fake_start(void)
{
	CLEAN(fakeobj_start(&ct_fake, NULL));
	setenv("AWS_ENDPOINT_URL_STS", ct_url(""), 1);
	setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", ct_url("/"), 1);
	setenv("no_proxy", "127.0.0.1", 1);
}

void ct_ready(struct renew_wait *w, struct renewed *v, int err)
{
	struct ct_waiter *me = container_of(w, struct ct_waiter, w);

	(void)err;
	me->v = v;
	atomic_store(&me->called, 1);
}

