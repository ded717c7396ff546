/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and tokens, and the services that issue keys:
 *
 *	PUT /latest/api/token, GET /latest/meta-data/iam/security-credentials/[ROLE]	instance, v2 only
 *	GET /v2/credentials/…							container
 *	POST or GET with Action=AssumeRole, Action=AssumeRoleWithWebIdentity	STS
 *
 * What was issued ends at the second that was announced, not later.
 */
#include "fakeobj_int.h"

#include <errno.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#define ROLE "fake-role"

time_t fake_now(const struct fakeobj *f)
{
	return time(NULL) + f->conf.skew;
}

void fake_creds_time(time_t t, char ret[24])
{
	struct tm tm;

	(void)gmtime_r(&t, &tm);
	(void)strftime(ret, 24, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static void random_text(char *ret, unsigned n)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

	(void)RAND_bytes((unsigned char *)ret, (int)n);
	for (unsigned i = 0; i < n; i++)
		ret[i] = letters[(unsigned char)ret[i] % 32];
	ret[n] = 0;
}

void fake_creds_issue(struct fakeobj *f, struct grant *ret)
{
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->id, "ASIA", 4);
	random_text(ret->id + 4, 16);
	random_text(ret->secret, 40);
	random_text(ret->token, 64);
	pthread_mutex_lock(&f->lock);
	/* Whole seconds, as it is announced; never less than was asked for. */
	ret->until = fake_now(f) + 1 + (f->conf.life_ms ? f->conf.life_ms : 3600000) / 1000;
	if (f->ngrants == f->capgrants) {
		f->capgrants = f->capgrants ? 2 * f->capgrants : 64;
		f->grants = realloc(f->grants, f->capgrants * sizeof(f->grants[0]));
		if (!f->grants)
			abort();
	}
	f->grants[f->ngrants++] = *ret;
	f->issued++;
	pthread_mutex_unlock(&f->lock);
}

int fake_creds_find(struct fakeobj *f, const char *id, const char *token, struct grant *ret)
{
	int r = -ENOENT;

	pthread_mutex_lock(&f->lock);
	if (id && strcmp(id, f->access) == 0) {
		memset(ret, 0, sizeof(*ret));
		(void)snprintf(ret->secret, sizeof(ret->secret), "%s", f->secret);
		r = 1;
	}
	for (size_t i = f->ngrants; i > 0 && r < 0; i--) {
		const struct grant *g = &f->grants[i - 1];

		if (id ? strcmp(g->id, id) != 0 : !token || strcmp(g->token, token) != 0)
			continue;
		*ret = *g;
		r = fake_now(f) < g->until;
	}
	pthread_mutex_unlock(&f->lock);
	return r;
}

bool fakeobj_leaks(struct fakeobj *f, const void *p, size_t n)
{
	bool found = memmem(p, n, f->secret, strlen(f->secret)) ||
		     memmem(p, n, f->key, strlen(f->key)) ||
		     memmem(p, n, FAKEOBJ_JWT, strlen(FAKEOBJ_JWT)) ||
		     memmem(p, n, FAKEOBJ_BEARER, strlen(FAKEOBJ_BEARER));

	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->ngrants && !found; i++)
		found = memmem(p, n, f->grants[i].secret, strlen(f->grants[i].secret)) ||
			memmem(p, n, f->grants[i].token, strlen(f->grants[i].token));
	pthread_mutex_unlock(&f->lock);
	return found;
}

static void keys_json(struct request *q, struct reply *r)
{
	struct grant g;
	char until[24], *p = NULL;

	fake_creds_issue(q->f, &g);
	fake_creds_time(g.until, until);
	if (asprintf(&p, "{\"Code\":\"Success\",\"Type\":\"AWS-HMAC\",\"LastUpdated\":"
		     "\"2026-01-02T03:04:05Z\",\"RoleArn\":\"arn:aws:iam::1:role/" ROLE "\","
		     "\"AccessKeyId\":\"%s\",\"SecretAccessKey\":\"%s\",\"Token\":\"%s\","
		     "\"Expiration\":\"%s\"}", g.id, g.secret, g.token, until) > 0)
		fake_reply_text(r, "application/json", p, strlen(p));
}

static void instance(struct request *q, struct reply *r)
{
	static const char roles[] = "/latest/meta-data/iam/security-credentials/";
	const char *token = fake_http_field(q, "X-aws-ec2-metadata-token");
	struct grant g;

	if (strcmp(q->path, "/latest/api/token") == 0) {
		if (strcmp(q->method, "PUT") != 0 ||
		    !fake_http_field(q, "X-aws-ec2-metadata-token-ttl-seconds")) {
			fake_reply_error(r, q, 400, NULL);
			return;
		}
		fake_creds_issue(q->f, &g);
		fake_reply_header(r, "X-aws-ec2-metadata-token-ttl-seconds: %u",
			     q->f->conf.life_ms ? q->f->conf.life_ms / 1000 : 3600);
		fake_reply_text(r, "text/plain", strdup(g.token), strlen(g.token));
		return;
	}
	if (fake_creds_find(q->f, NULL, token, &g) != 1)
		fake_reply_error(r, q, 401, NULL);
	else if (strcmp(q->path, roles) == 0)
		fake_reply_text(r, "text/plain", strdup(ROLE), strlen(ROLE));
	else if (strncmp(q->path, roles, strlen(roles)) == 0 &&
		 strcmp(q->path + strlen(roles), ROLE) == 0)
		keys_json(q, r);
	else
		fake_reply_error(r, q, 404, NULL);
}

static void container(struct request *q, struct reply *r)
{
	const char *auth = fake_http_field(q, "Authorization");

	if (!auth || strcmp(auth, FAKEOBJ_BEARER) != 0)
		fake_reply_error(r, q, 401, NULL);
	else
		keys_json(q, r);
}

static void sts_error(struct reply *r, unsigned status, const char *code)
{
	char *p = NULL;

	r->status = status;
	if (asprintf(&p, "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error>"
		     "<Type>Sender</Type><Code>%s</Code><Message>fakeobj says so</Message></Error>"
		     "<RequestId>1</RequestId></ErrorResponse>", code) > 0)
		fake_reply_text(r, "text/xml", p, strlen(p));
}

static const char *param(const struct request *q, const struct field *form, unsigned n,
			 const char *name)
{
	for (unsigned i = 0; i < n; i++) {
		if (strcmp(form[i].name, name) == 0)
			return form[i].value;
	}
	return fake_http_query(q, name);
}

/* What it is asked, taken from a form in the body or from the query. */
static void sts(struct request *q, struct reply *r)
{
	char *copy = strdup((const char *)q->body), until[24], *p = NULL;
	struct field form[QUERIES_MAX];
	unsigned n = fake_http_form(copy, form, QUERIES_MAX), status = 403;
	const char *action = param(q, form, n, "Action"), *arn = param(q, form, n, "RoleArn");
	const char *session = param(q, form, n, "RoleSessionName"), *bad = NULL, *jwt;
	struct grant g;

	if (!action || !arn || !*arn || !session || !*session) {
		bad = "ValidationError";
		status = 400;
	} else if (strcmp(action, "AssumeRole") == 0) {
		bad = fake_sigv4_check(q, "sts", &status);
	} else {
		jwt = param(q, form, n, "WebIdentityToken");
		status = 400;
		if (!jwt || strcmp(jwt, FAKEOBJ_JWT) != 0)
			bad = "InvalidIdentityToken";
	}
	if (bad) {
		sts_error(r, status, bad);
	} else {
		fake_creds_issue(q->f, &g);
		fake_creds_time(g.until, until);
		if (asprintf(&p, "<%sResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
			     "<%sResult><AssumedRoleUser><Arn>%s</Arn><AssumedRoleId>1</AssumedRoleId>"
			     "</AssumedRoleUser><Credentials><AccessKeyId>%s</AccessKeyId>"
			     "<SecretAccessKey>%s</SecretAccessKey><SessionToken>%s</SessionToken>"
			     "<Expiration>%s</Expiration></Credentials></%sResult></%sResponse>",
			     action, action, arn, g.id, g.secret, g.token, until, action, action) > 0)
			fake_reply_text(r, "text/xml", p, strlen(p));
	}
	free(copy);
}

static bool is_sts(const struct request *q)
{
	const char *type = fake_http_field(q, "Content-Type"), *action = fake_http_query(q, "Action");

	if (action)
		return strncmp(action, "AssumeRole", 10) == 0;
	return strcmp(q->method, "POST") == 0 && type &&
	       strncmp(type, "application/x-www-form-urlencoded", 33) == 0 && q->body &&
	       strstr((const char *)q->body, "Action=AssumeRole") != NULL;
}

bool fake_creds_is(const struct request *q)
{
	return strncmp(q->path, "/latest/", 8) == 0 || strncmp(q->path, "/v2/credentials", 15) == 0 ||
	       is_sts(q);
}

void fake_creds_serve(struct request *q, struct reply *r)
{
	if (strncmp(q->path, "/latest/", 8) == 0)
		instance(q, r);
	else if (is_sts(q))
		sts(q, r);
	else
		container(q, r);
}
