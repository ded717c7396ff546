/* SPDX-License-Identifier: Apache-2.0 */
/* Which request goes wrong, and the answers that come instead of one. */
#include "fakeobj_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct {
	const char *name;
	enum kind   kind;
} kinds[] = {
	{ "ok-error", K_OK_ERROR }, { "redirect", K_REDIRECT }, { "reset", K_RESET },
	{ "half", K_HALF }, { "garbage", K_GARBAGE }, { "endless", K_ENDLESS },
	{ "blackhole", K_BLACKHOLE }, { "bad-body", K_BAD_BODY }, { "cut-body", K_CUT_BODY },
	{ "bomb-body", K_BOMB_BODY }, { "huge-body", K_HUGE_BODY }, { "xxe-body", K_XXE_BODY },
	{ "reset-after", K_RESET_AFTER }, { "reset-mid", K_RESET_MID }, { "short", K_SHORT },
	{ "long", K_LONG }, { "less", K_LESS }, { "more", K_MORE }, { "unframed", K_UNFRAMED },
	{ "delay", K_DELAY }, { "stall", K_STALL }, { "flip", K_FLIP }, { "etag", K_ETAG },
	{ "other-range", K_OTHER_RANGE }, { "whole", K_WHOLE }, { "cut", K_CUT },
	{ "close", K_CLOSE },
};

#define HUGE_BLOCKS 1024u	/* of 64 KiB */

static int parse_kind(const char *text, struct fault *ret)
{
	char name[32];
	const char *eq = strchr(text, '=');

	(void)snprintf(name, sizeof(name), "%.*s", (int)(eq ? eq - text : 31), text);
	(void)snprintf(ret->arg, sizeof(ret->arg), "%s", eq ? eq + 1 : "");
	ret->ms = eq ? (unsigned)strtoul(eq + 1, NULL, 10) : UINT32_MAX;
	ret->status = (unsigned)strtoul(name, NULL, 10);
	if (strcmp(name, "slowdown") == 0) {
		ret->status = 503;
	} else if (strcmp(name, "toomany") == 0) {
		ret->status = 429;
	}
	if (ret->status >= 100 && ret->status <= 599) {
		ret->kind = K_STATUS;
		return 0;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].name, name) == 0) {
			ret->kind = kinds[i].kind;
			return ret->kind == K_DELAY && !eq ? -EINVAL : 0;
		}
	}
	return -EINVAL;
}

static bool verb_known(const char *name)
{
	for (unsigned i = 0; i < V_NONE; i++) {
		if (strcmp(fake_verbs[i], name) == 0)
			return true;
	}
	return strcmp(name, "any") == 0 || strcmp(name, "all") == 0;
}

static int parse_rule(char *text, struct rule *ret)
{
	char *verb = strsep(&text, ":"), *when;

	memset(ret, 0, sizeof(*ret));
	if (!verb_known(verb))
		return -EINVAL;
	(void)snprintf(ret->verb, sizeof(ret->verb), "%s", verb);
	ret->every = 1;
	ret->from = 1;
	ret->to = UINT64_MAX;
	while (text) {
		if (strncmp(text, "every=", 6) && strncmp(text, "nth=", 4) &&
		    strncmp(text, "from=", 5) && strncmp(text, "to=", 3))
			return parse_kind(text, &ret->fault);
		when = strsep(&text, ":");
		if (strncmp(when, "every=", 6) == 0)
			ret->every = strtoull(when + 6, NULL, 10);
		else if (strncmp(when, "nth=", 4) == 0)
			ret->from = ret->to = strtoull(when + 4, NULL, 10);
		else if (strncmp(when, "from=", 5) == 0)
			ret->from = strtoull(when + 5, NULL, 10);
		else
			ret->to = strtoull(when + 3, NULL, 10);
		if (ret->every == 0)
			return -EINVAL;
	}
	return -EINVAL;
}

int fake_fault_rules(struct fakeobj *f, const char *rules)
{
	struct rule rule[RULES_MAX];
	unsigned n = 0;
	char *copy = strdup(rules ? rules : ""), *rest = copy, *one;
	int r = copy ? 0 : -ENOMEM;

	while (r == 0 && (one = strsep(&rest, ";")) != NULL) {
		if (*one)
			r = n < RULES_MAX ? parse_rule(one, &rule[n]) : -EINVAL;
		n += *one != 0;
	}
	free(copy);
	if (r < 0)
		return r;
	pthread_mutex_lock(&f->lock);
	memcpy(f->rule, rule, n * sizeof(rule[0]));
	f->nrules = n;
	pthread_mutex_unlock(&f->lock);
	return 0;
}

static bool covers(const struct rule *r, enum verb v)
{
	if (strcmp(r->verb, fake_verbs[v]) == 0)
		return true;
	if (v >= V_CONNECT)
		return false;
	return strcmp(r->verb, "all") == 0 || (strcmp(r->verb, "any") == 0 && v <= V_OTHER);
}

struct fault fake_fault_pick(struct fakeobj *f, enum verb v)
{
	struct fault ret = { .kind = K_NONE };

	pthread_mutex_lock(&f->lock);
	for (unsigned i = 0; i < f->nrules; i++) {
		struct rule *r = &f->rule[i];

		if (!covers(r, v))
			continue;
		r->seen++;
		if (ret.kind == K_NONE && r->seen >= r->from && r->seen <= r->to &&
		    r->seen % r->every == 0)
			ret = r->fault;
	}
	pthread_mutex_unlock(&f->lock);
	return ret;
}

/* A document that never was one, or is out to hurt the parser. */
static char *evil(const struct request *q, size_t *ret)
{
	bool json = q->swift;
	char *p = NULL;
	FILE *o = open_memstream(&p, ret);

	if (!o)
		return NULL;
	switch (q->fault.kind) {
	case K_BAD_BODY:
		fputs(json ? "[{\"name\": , }}]\x01\xff" : "<a><b></a>\x01\xff&&&<<<", o);
		break;
	case K_CUT_BODY:
		fputs(json ? "[{\"name\":\"0123456789abcdef\",\"bytes\":1},{\"na" :
			     "<?xml version=\"1.0\"?><ListBucketResult><Contents><Key>0123456789abcdef"
			     "</Key><Size>1</Size></Contents><Contents><Ke", o);
		break;
	case K_BOMB_BODY:
		if (json) {
			for (unsigned i = 0; i < 1000000; i++)
				fputs("[", o);
			break;
		}
		fputs("<?xml version=\"1.0\"?><!DOCTYPE l [<!ENTITY a \"0123456789\">", o);
		for (char c = 'b'; c <= 'l'; c++) {
			fprintf(o, "<!ENTITY %c \"", c);
			for (unsigned i = 0; i < 10; i++)
				fprintf(o, "&%c;", c - 1);
			fputs("\">", o);
		}
		fputs("]><ListBucketResult><Contents><Key>&l;</Key></Contents>"
		      "</ListBucketResult>", o);
		break;
	default:
		fputs(json ? "[{\"name\":\"/etc/passwd\",\"bytes\":-1}]" :
			     "<?xml version=\"1.0\"?><!DOCTYPE l [<!ENTITY e SYSTEM "
			     "\"file:///etc/passwd\">]><ListBucketResult><Contents><Key>&e;</Key>"
			     "</Contents></ListBucketResult>", o);
		break;
	}
	return fclose(o) == 0 ? p : NULL;
}

/* Not made in memory first: the tests measure that of their process, which may be this one. */
static int huge(struct request *q, struct reply *r)
{
	const char *item = q->swift ?
		"{\"name\":\"0123456789abcdef\",\"bytes\":1},\n" :
		"<Contents><Key>0123456789abcdef</Key><Size>1</Size></Contents>\n";
	const char *begin = q->swift ? "[" : "<?xml version=\"1.0\"?><ListBucketResult>";
	size_t n = strlen(item), at = 0;
	char block[64u << 10];

	while (at + n <= sizeof(block)) {
		memcpy(block + at, item, n);
		at += n;
	}
	r->status = 200;
	r->data = (const uint8_t *)begin;
	r->len = strlen(begin);
	r->announce = r->len + HUGE_BLOCKS * at;
	if (fake_reply_send(r, q) < 0)
		return -1;
	for (unsigned i = 0; i < HUGE_BLOCKS; i++) {
		if (fake_http_send_all(q->f, q->fd, block, at) < 0)
			break;
	}
	return -1;
}

static void endless(struct request *q)
{
	char line[1024];

	memset(line, 'x', sizeof(line));
	memcpy(line, "X-A: ", 5);
	memcpy(line + sizeof(line) - 2, "\r\n", 2);
	(void)fake_http_send_all(q->f, q->fd, "HTTP/1.1 200 OK\r\n", 17);
	for (unsigned i = 0; i < 64u << 10; i++) {
		if (fake_http_send_all(q->f, q->fd, line, sizeof(line)) < 0)
			return;
	}
}

static const char noise[] = "\x15\x03\x01 220 mail.example.org ESMTP ready\r\n\r\n\0\xff\xfe";

static int hang_up(struct request *q)
{
	switch (q->fault.kind) {
	case K_RESET:
		fake_http_rst(q->fd);
		break;
	case K_HALF:
		(void)shutdown(q->fd, SHUT_WR);
		(void)fake_http_wait(q->f, q->fd, 30000);
		break;
	case K_GARBAGE:
		(void)fake_http_send_all(q->f, q->fd, noise, sizeof(noise));
		break;
	case K_ENDLESS:
		endless(q);
		break;
	default:
		(void)fake_http_wait(q->f, q->fd, UINT32_MAX);
		break;
	}
	return -1;
}

int fake_fault_answer(struct request *q, struct reply *r)
{
	struct fault *t = &q->fault;
	size_t n = 0;
	char *p;

	switch (t->kind) {
	case K_STATUS:
		fake_reply_error(r, q, t->status,
			    t->arg[0] && t->status != 429 ? t->arg : NULL);
		if (t->status == 204)
			r->len = 0;	/* it has no body */
		if (t->status == 429)
			fake_reply_header(r, "Retry-After: %s", t->arg[0] ? t->arg : "1");
		if (t->status == 401 && q->swift)
			fake_reply_header(r, "WWW-Authenticate: Swift realm=\"test\"");
		break;
	case K_OK_ERROR:
		fake_reply_error(r, q, 200, t->arg[0] ? t->arg : "InternalError");
		break;
	case K_REDIRECT:
		fake_reply_error(r, q, t->arg[0] ? (unsigned)strtoul(t->arg, NULL, 10) : 307,
			    "TemporaryRedirect");
		fake_reply_header(r, "Location: http://127.0.0.1:%u/_elsewhere%s", q->f->port, q->target);
		break;
	case K_BAD_BODY:
	case K_CUT_BODY:
	case K_BOMB_BODY:
	case K_XXE_BODY:
		p = evil(q, &n);
		r->status = 200;
		fake_reply_text(r, q->swift ? "application/json" : "application/xml", p, n);
		break;
	case K_HUGE_BODY:
		t->kind = K_NONE;
		return huge(q, r);
	default:
		return hang_up(q);
	}
	t->kind = K_NONE;
	return fake_reply_send(r, q);
}

int fake_fault_connect(struct fakeobj *f, int fd)
{
	struct request q = { .fd = fd, .f = f };

	q.fault = fake_fault_pick(f, V_CONNECT);
	if (q.fault.kind == K_NONE)
		return 0;
	if (q.fault.kind == K_DELAY)
		return fake_http_wait(f, fd, q.fault.ms) ? 0 : -1;
	return hang_up(&q);
}
