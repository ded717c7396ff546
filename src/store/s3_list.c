/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ListObjectsV2 as pages of struct store_list. Keys that are none of ours (another alphabet, deeper
 * "directories", the marker) are passed over, so that one page of ours may take several of theirs.
 */
#include "store/s3_impl.h"

#include "base/fault.h"
#include "base/scoped.h"
#include "store/marker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct s3_listing {
	struct s3_call    call;
	struct store_op  *op;
	struct s3_xml_page page;
	char              max[16];
	struct text       after;	/* prefix + name; or */
	struct text       token;	/* where the last page ended */
	bool              wrong;	/* names came in no order */
};

static void list_done(struct s3_call *c, int err);

static void list_finish(struct s3_listing *x, int err)
{
	struct store_op *op = x->op;

	text_done(&x->page.token);
	text_done(&x->after);
	text_done(&x->token);
	free(x);
	store_op_done(op, err);
}

static int list_entry_take(void *arg, const char *key, uint64_t size)
{
	struct s3_listing *x = arg;
	struct store_list *l = x->op->list;
	const char *prefix = x->call.s3->conf.prefix;
	const char *last = l->n ? l->keys[l->n - 1].name : l->after.name;
	size_t n = strlen(prefix);
	struct tess_key k;

	if (strncmp(key, prefix, n) != 0 || store_key_set(&k, key + n) < 0 || store_is_marker(k.name))
		return 0;
	if (strcmp(k.name, last) <= 0) {
		/* A service that begins at the beginning is only slow; one without order loses names. */
		if (l->n == 0)
			return 0;
		return -EPROTO;
	}
	if (l->n == l->max)
		return -EPROTO;
	l->keys[l->n] = k;
	l->infos[l->n++].size = size;
	return 0;
}

static void list_send(struct s3_listing *x, struct s3 *s3)
{
	struct s3_call *c = &x->call;

	c->s3 = s3;
	c->op = x->op;
	c->req = x->op->req;
	c->method = "GET";
	c->reply_max = 4 << 20;
	c->done = list_done;
	c->owner = x;
	s3_call_query(c, "list-type", "2");
	s3_call_query(c, "prefix", s3->conf.prefix);
	s3_call_query(c, "delimiter", "/");
	s3_call_query(c, "max-keys", x->max);
	s3_call_query(c, "encoding-type", "url");	/* XML has no way to write every name there may be */
	if (x->token.n)
		s3_call_query(c, "continuation-token", text_str(&x->token));
	else if (x->after.n)
		s3_call_query(c, "start-after", text_str(&x->after));
	s3_call_send(c);
}

static void list_done(struct s3_call *c, int err)
{
	struct s3_listing *x = c->owner;
	struct store_list *l = x->op->list;
	struct s3 *s3 = c->s3;

	if (err == 0) {
		text_clear(&x->page.token);
		err = s3_xml_list(text_str(&c->http.reply), c->http.reply.n, &x->page);
	}
	s3_call_done(c);
	if (err == 0 && x->page.truncated && l->n == 0) {
		/* The same place again would go round for ever. */
		if (!x->page.token.n || strcmp(text_str(&x->page.token), text_str(&x->token)) == 0) {
			list_finish(x, -EPROTO);
			return;
		}
		text_clear(&x->token);
		text_add(&x->token, text_str(&x->page.token));
		if (text_error(&x->token) == 0) {
			list_send(x, s3);
			return;
		}
		err = -ENOMEM;
	}
	if (err == 0)
		l->more = x->page.truncated;
	list_finish(x, err);
}

void s3_list_submit(struct s3 *s3, struct store_op *op)
{
	struct s3_listing *x = mem_zalloc(sizeof(*x));
	struct store_list *l = op->list;

	if (!x) {
		store_op_done(op, -ENOMEM);
		return;
	}
	l->n = 0;
	l->more = false;
	x->op = op;
	x->page.entry = list_entry_take;
	x->page.arg = x;
	(void)snprintf(x->max, sizeof(x->max), "%u", MIN(l->max, S3_PAGE));
	if (l->after.name[0])
		text_fmt(&x->after, "%s%s", s3->conf.prefix, l->after.name);
	if (text_error(&x->after) < 0)
		list_finish(x, -ENOMEM);
	else
		list_send(x, s3);
}
