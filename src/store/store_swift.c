/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swift://CONTAINER[/PREFIX]: objects of a service with the Object Storage API v1: OpenStack Swift,
 * radosgw. Each object is CONTAINER/PREFIX/NAME.
 *
 * What a reply must be to be believed:
 *
 *   op      reply
 *   PUT     201, with the ETag that is the MD5 of what was sent
 *   GET     206 with Content-Range from the first byte asked for, and as many bytes; or 200 when the
 *           whole object was asked for. Fewer than asked for because it ends there: a short body
 *   HEAD    200 or 204 with Content-Length
 *   DELETE  2xx or 404
 *   LIST    200 or 204; pages until one is empty, since a full one may be the last and a short one not
 */
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "store/marker.h"
#include "store/swift_impl.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>

static struct swift_store *swift_of(struct store *s)
{
	return container_of(s, struct swift_store, s);
}

static void op_finish(struct swift_call *c, int err)
{
	struct store_op *op = c->op;

	swift_call_done(c);
	store_op_done(op, err);
}

static struct swift_call *op_call(struct swift_store *s, struct store_op *op, const char *method,
				  void (*finish)(struct swift_call *c, int err))
{
	struct swift_call *c = swift_call_new(s, op, method, finish);

	if (!c)
		store_op_done(op, -ENOMEM);
	else if (op->code != STORE_LIST)
		text_fmt(&c->path, "%s%s", s->dir, op->key.name);
	return c;
}

/* ---- PUT ---- */

static int md5_of(const EVP_MD *md5, const struct tess_iov *data, char hex[SWIFT_MD5_HEX])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	EVP_MD_CTX *x = EVP_MD_CTX_new();
	bool good = x && EVP_DigestInit_ex(x, md5, NULL) == 1;

	for (unsigned i = 0; good && i < data->n; i++)
		good = EVP_DigestUpdate(x, data->iov[i].iov_base, data->iov[i].iov_len) == 1;
	good = good && EVP_DigestFinal_ex(x, sum, &n) == 1 && n == 16;
	EVP_MD_CTX_free(x);
	for (unsigned i = 0; good && i < n; i++)
		(void)snprintf(hex + 2 * (size_t)i, 3, "%02x", sum[i]);
	return good ? 0 : -EIO;
}

static bool etag_same(const char *etag, const char *md5)
{
	if (!etag)
		return true;
	etag += *etag == '"';
	return strncasecmp(etag, md5, SWIFT_MD5_HEX - 1) == 0;
}

static void put_done(struct swift_call *c, int err)
{
	if (err == 0 && c->http.status == 404)
		err = -EIO;	/* the container is gone: no object is missing */
	else if (err == 0 && c->http.status != 201)
		err = swift_call_err(c) < 0 ? swift_call_err(c) : -EPROTO;
	else if (err == 0 && c->md5[0] && !etag_same(http_header(&c->http, "ETag"), c->md5))
		err = -EPROTO;
	op_finish(c, err);
}

static void swift_put(struct store *st, struct store_op *op)
{
	struct swift_store *s = swift_of(st);
	struct swift_call *c = op_call(s, op, "PUT", put_done);

	if (!c)
		return;
	c->body = op->data;
	text_add(&c->headers, "Content-Type: application/octet-stream\n");
	if (s->md5) {
		if (md5_of(s->md5, &op->data, c->md5) < 0) {
			op_finish(c, -EIO);
			return;
		}
		text_fmt(&c->headers, "ETag: %s\n", c->md5);
	}
	/* Two that make a file system in one place: one of them hears of the other. */
	if (store_is_marker(op->key.name))
		text_add(&c->headers, "If-None-Match: *\n");
	swift_call_send(c);
}

/* ---- GET, HEAD ---- */

static int get_part(struct swift_call *c, struct store_op *op)
{
	uint64_t len, total;

	if (swift_range_parse(http_header(&c->http, "Content-Range"), op->range.off, &len, &total) < 0 ||
	    c->http.got != len || len > op->range.len)
		return -EPROTO;
	if (len < op->range.len)
		return op->range.off + len == total ? -TESS_E_SHORT_BODY : -EPROTO;
	op->info.size = total;
	return 0;
}

static int get_whole(struct swift_call *c, struct store_op *op)
{
	if (op->range.off || (c->http.length != UINT64_MAX && c->http.length != c->http.got))
		return -EPROTO;
	if (c->http.got < op->range.len)
		return -TESS_E_SHORT_BODY;
	op->info.size = c->http.got;
	return 0;
}

/*
 * A whole object that is shorter than the range, with nothing to say how long it is besides the
 * length of the reply, which what is between may have cut: asked for by HEAD.
 */
static void measure_done(struct swift_call *c, int err)
{
	if (err == 0)
		err = swift_call_err(c);
	if (err == 0)
		err = c->http.length == c->op->info.size ? -TESS_E_SHORT_BODY : -EPROTO;
	op_finish(c, err);
}

static void get_measure(struct swift_call *c)
{
	c->op->info.size = c->http.got;
	c->method = "HEAD";
	c->into = (struct tess_iov){ .n = 0 };
	text_clear(&c->headers);
	c->finish = measure_done;
	swift_call_send(c);
}

static void get_done(struct swift_call *c, int err)
{
	if (err == 0) {
		if (c->http.status == 206)
			err = get_part(c, c->op);
		else if (c->http.status == 200)
			err = get_whole(c, c->op);
		else
			err = swift_call_err(c) < 0 ? swift_call_err(c) : -EPROTO;
	}
	if (err == -TESS_E_SHORT_BODY && c->http.status == 200)
		get_measure(c);
	else
		op_finish(c, err);
}

static void swift_get(struct store *st, struct store_op *op)
{
	struct swift_store *s = swift_of(st);
	struct swift_call *c = op_call(s, op, "GET", get_done);

	if (!c)
		return;
	c->into = op->data;
	text_fmt(&c->headers, "Range: bytes=%" PRIu64 "-%" PRIu64 "\n", op->range.off,
		 op->range.off + op->range.len - 1);
	swift_call_send(c);
}

static void head_done(struct swift_call *c, int err)
{
	if (err == 0)
		err = swift_call_err(c);
	if (err == 0 && c->http.length == UINT64_MAX)
		err = -EPROTO;
	if (err == 0)
		c->op->info.size = c->http.length;
	op_finish(c, err);
}

static void swift_head(struct store *st, struct store_op *op)
{
	struct swift_store *s = swift_of(st);
	struct swift_call *c = op_call(s, op, "HEAD", head_done);

	if (c)
		swift_call_send(c);
}

/* ---- LIST ---- */

static void list_finish(struct swift_call *c, int err)
{
	struct text *last = c->priv;

	text_done(last);
	free(last);
	op_finish(c, err);
}

static void list_page(struct swift_call *c)
{
	struct swift_store *s = c->s;
	struct store_list *l = c->op->list;
	struct text *last = c->priv;

	text_clear(&c->path);
	text_fmt(&c->path, "%s?format=json&delimiter=/&limit=%u", s->place,
		 MIN(s->info.list_max, l->max - l->n + 1));
	if (s->prefix[0]) {
		text_add(&c->path, "&prefix=");
		http_encode(&c->path, s->prefix, false);
	}
	if (last->n) {
		text_add(&c->path, "&marker=");
		http_encode(&c->path, text_str(last), false);
	}
	swift_call_send(c);
}

static void list_done(struct swift_call *c, int err)
{
	struct store_list *l = c->op->list;
	unsigned raw = 0;

	if (err == 0)
		err = swift_call_err(c);
	if (err == -ENOENT)
		err = -EIO;	/* the container */
	if (err == 0 && c->http.status != 204)
		err = swift_list_parse(text_str(&c->http.reply), c->http.reply.n, c->s->prefix, l,
				       c->priv, &raw);
	if (err < 0 || l->more || raw == 0)
		list_finish(c, err);
	else
		list_page(c);
}

static void swift_list(struct store *st, struct store_op *op)
{
	struct swift_store *s = swift_of(st);
	struct text *last = mem_zalloc(sizeof(*last));
	struct swift_call *c;

	if (!last) {
		store_op_done(op, -ENOMEM);
		return;
	}
	op->list->n = 0;
	op->list->more = false;
	if (op->list->after.name[0])
		text_fmt(last, "%s%s", s->prefix, op->list->after.name);
	c = op_call(s, op, "GET", list_done);
	if (!c) {
		text_done(last);
		free(last);
		return;
	}
	c->priv = last;
	c->reply_max = HTTP_REPLY_MAX;
	list_page(c);
}

/* ---- the store ---- */

static void swift_del(struct store *st, struct store_op *op)
{
	swift_del_submit(swift_of(st), op);
}

static void swift_submit(struct store *st, struct store_op *op)
{
	static const store_verb verbs[STORE_NCODES] = {
		[STORE_PUT] = swift_put, [STORE_GET] = swift_get, [STORE_HEAD] = swift_head,
		[STORE_DEL] = swift_del, [STORE_LIST] = swift_list,
	};

	store_dispatch(st, op, verbs);
}

static void swift_cancel(struct store *st, struct store_op *op)
{
	struct swift_store *s = swift_of(st);

	if (!swift_del_cancel(s, op))
		swift_call_cancel_op(s, op);
}

static void swift_to_text(const struct store *st, struct text *out)
{
	struct swift_store *s = container_of(st, struct swift_store, s);

	text_fmt(out, "%s, %s, checksum=%s max_object=%" PRIu64, s->dir,
		 swift_auth_source(s->auth), s->md5 ? "md5" : "none", s->info.max_object);
	scoped_lock(&s->lock);
	text_fmt(out, " bulk=%u used=%" PRIu64, s->no_bulk ? 0 : s->info.bulk_max, s->used);
}

const struct store_ops store_swift_ops = {
	.name = "swift",
	.open = swift_open,
	.submit = swift_submit,
	.cancel = swift_cancel,
	.usage = swift_usage,
	.to_text = swift_to_text,
	.close = swift_close,
	.unmake = swift_unmake,
};
