/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3://BUCKET[/PREFIX]: an object of the store is an object of the bucket, PREFIX/NAME. Here are the
 * verbs that are one request each; see s3_impl.h for the others.
 *
 * Every body is checked for its length, and a range for being the one asked for: a service, or what is
 * between, may answer with another (-EPROTO), or with the whole object.
 */
#include "store/s3_impl.h"

#include "base/buf.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "store/marker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct verb {
	struct s3_call   call;
	struct store_op *op;
	bool             condition;	/* PUT only where nothing is */
	char             range[48];
	char             sum[32];
	char             md5[33];	/* hexadecimal; "": not computed */
};

static struct s3 *s3_of(struct store *s)
{
	return container_of(s, struct s3, s);
}

static void verb_finish(struct verb *x, int err)
{
	struct store_op *op = x->op;

	s3_call_done(&x->call);
	free(x);
	store_op_done(op, err);
}

/* ---- PUT ---- */

/*
 * An ETag is the MD5 of what was stored unless a key of the service's encrypts it. Then it only
 * looks like one.
 */
static int put_etag(const struct verb *x)
{
	const char *etag = http_header(&x->call.http, "ETag");
	const char *sse = http_header(&x->call.http, "x-amz-server-side-encryption");
	size_t n;

	if (!x->md5[0] || !etag || (sse && strcmp(sse, "AES256") != 0) ||
	    http_header(&x->call.http, "x-amz-server-side-encryption-customer-algorithm"))
		return 0;
	etag += *etag == '"';
	n = strcspn(etag, "\"");
	if (n != 32 || strspn(etag, "0123456789abcdefABCDEF") < 32)
		return 0;
	return strncasecmp(etag, x->md5, 32) == 0 ? 0 : -EPROTO;
}

static void put_again(struct verb *x);

static void put_done(struct s3_call *c, int err)
{
	struct verb *x = c->owner;

	if (err == -EOPNOTSUPP && x->condition) {
		put_again(x);
		return;
	}
	/* Another success than this is not known to mean that it is stored. */
	if (err == 0)
		err = c->http.status == 200 ? put_etag(x) : -EPROTO;
	verb_finish(x, err);
}

static int put_sum(struct verb *x)
{
	const struct tess_iov *d = &x->op->data;
	unsigned char md5[16];
	uint32_t crc = 0;
	int r;

	switch (x->call.s3->conf.checksum) {
	case S3_SUM_NONE:
		break;
	case S3_SUM_MD5:
		r = s3_md5(d, md5);
		if (r < 0)
			return r;
		s3_hex(x->md5, md5, sizeof(md5));
		s3_base64(x->sum, md5, sizeof(md5));
		s3_call_header(&x->call, "Content-MD5", x->sum);
		break;
	case S3_SUM_CRC32C:
		for (unsigned i = 0; i < d->n; i++)
			crc = crc32c(crc, d->iov[i].iov_base, d->iov[i].iov_len);
		crc = __builtin_bswap32(crc);
		s3_base64(x->sum, (const unsigned char *)&crc, sizeof(crc));
		s3_call_header(&x->call, "x-amz-checksum-crc32c", x->sum);
		break;
	}
	return 0;
}

static int put_fill(struct verb *x)
{
	struct s3_call *c = &x->call;

	c->method = "PUT";
	c->body = x->op->data;
	c->done = put_done;
	/* Two that make a file system in one place at once: one of them is told. */
	if (x->condition)
		s3_call_header(c, "If-None-Match", "*");
	return put_sum(x);
}

static void verb_begin(struct verb *x, struct s3 *s3);

/* The service has no conditions. */
static void put_again(struct verb *x)
{
	struct s3 *s3 = x->call.s3;
	int r;

	s3_call_done(&x->call);
	verb_begin(x, s3);
	x->condition = false;
	r = put_fill(x);
	if (r < 0)
		verb_finish(x, r);
	else
		s3_call_send(&x->call);
}

/* ---- GET ---- */

/* "bytes FIRST-LAST/SIZE"; false: not that. */
static bool content_range(const struct s3_call *c, uint64_t *first, uint64_t *last)
{
	const char *s = http_header(&c->http, "Content-Range");
	char slash;

	return s && sscanf(s, "bytes %" SCNu64 "-%" SCNu64 "%c", first, last, &slash) == 3 &&
	       slash == '/' && *first <= *last;
}

/*
 * The whole instead of the range: a service that does not do ranges, which is fine where that was
 * asked for, or an <Error> that calls itself a success.
 */
static int get_whole(const struct verb *x)
{
	const struct http_call *h = &x->call.http;
	const struct tess_range *want = &x->op->range;
	struct s3_xml_error e;
	char doc[4096];
	size_t n;

	if (want->off == 0 && h->got == want->len)
		return 0;
	n = iov_copy_out(doc, &x->op->data, 0, MIN(h->got, (uint64_t)sizeof(doc)));
	if (s3_xml_error(doc, n, &e) == 0)
		return s3_err_find(e.code, 200).err;
	return want->off == 0 ? -TESS_E_SHORT_BODY : -EPROTO;
}

static int get_check(const struct verb *x)
{
	const struct http_call *h = &x->call.http;
	const struct tess_range *want = &x->op->range;
	uint64_t first, last;

	if (h->status == 200)
		return get_whole(x);
	if (h->status != 206 || !content_range(&x->call, &first, &last))
		return -EPROTO;
	if (first != want->off || last - first >= want->len || h->got != last - first + 1)
		return -EPROTO;
	if (h->got == want->len)
		return 0;
	/* Less than asked for is right only where the object ends. */
	return last + 1 == h->total ? -TESS_E_SHORT_BODY : -EPROTO;
}

static void get_measure(struct verb *x);

static void get_done(struct s3_call *c, int err)
{
	struct verb *x = c->owner;

	if (err == 0)
		err = get_check(x);
	if (err == -TESS_E_SHORT_BODY && c->http.status == 200) {
		get_measure(x);
		return;
	}
	if (err == 0)
		x->op->info.size = c->http.total != UINT64_MAX ? c->http.total : c->http.got;
	verb_finish(x, err);
}

static int get_fill(struct verb *x)
{
	const struct tess_range *want = &x->op->range;
	struct s3_call *c = &x->call;

	c->method = "GET";
	c->into = x->op->data;
	c->done = get_done;
	(void)snprintf(x->range, sizeof(x->range), "bytes=%" PRIu64 "-%" PRIu64, want->off,
		       want->off + want->len - 1);
	s3_call_header(c, "Range", x->range);
	return 0;
}

/* ---- HEAD ---- */

static int head_size(const struct s3_call *c, int err, uint64_t *ret)
{
	uint64_t size = c->head_as_get ? c->http.total : c->http.length;

	/* The first byte of nothing: it is there, and empty. */
	if (c->head_as_get && err == -TESS_E_SHORT_BODY) {
		size = 0;
		err = 0;
	}
	if (err == 0 && c->head_as_get && c->http.status == 200)
		size = c->http.length;
	if (err == 0 && size == UINT64_MAX)
		err = -EPROTO;
	if (err == 0)
		*ret = size;
	return err;
}

static void head_done(struct s3_call *c, int err)
{
	struct verb *x = c->owner;

	verb_finish(x, head_size(c, err, &x->op->info.size));
}

/*
 * A whole object that is shorter than the range, with nothing to say how long it is besides the
 * length of the reply, which what is between may have cut: asked for by HEAD.
 */
static void measure_done(struct s3_call *c, int err)
{
	struct verb *x = c->owner;
	uint64_t size = 0, got = x->op->info.size;

	err = head_size(c, err, &size);
	if (err == 0)
		err = size == got ? -TESS_E_SHORT_BODY : -EPROTO;
	verb_finish(x, err);
}

/* ---- the store ---- */

static void verb_begin(struct verb *x, struct s3 *s3)
{
	x->call.s3 = s3;
	x->call.op = x->op;
	x->call.req = x->op->req;
	x->call.name = x->op->key.name;
	x->call.owner = x;
}

static void get_measure(struct verb *x)
{
	struct s3 *s3 = x->call.s3;

	x->op->info.size = x->call.http.got;
	s3_call_done(&x->call);
	verb_begin(x, s3);
	x->call.method = "HEAD";
	x->call.done = measure_done;
	s3_call_send(&x->call);
}

static void verb_submit(struct s3 *s3, struct store_op *op)
{
	struct verb *x = mem_zalloc(sizeof(*x));
	int r = 0;

	if (!x) {
		store_op_done(op, -ENOMEM);
		return;
	}
	x->op = op;
	verb_begin(x, s3);
	if (op->code == STORE_PUT) {
		x->condition = store_is_marker(op->key.name);
		r = put_fill(x);
	} else if (op->code == STORE_GET) {
		r = get_fill(x);
	} else {
		x->call.method = "HEAD";
		x->call.done = head_done;
	}
	if (r < 0)
		verb_finish(x, r);
	else
		s3_call_send(&x->call);
}

static void s3_put(struct store *s, struct store_op *op)
{
	struct s3 *s3 = s3_of(s);

	if (op->data.len > s3->conf.max_put)
		s3_multi_submit(s3, op);
	else
		verb_submit(s3, op);
}

static void s3_look(struct store *s, struct store_op *op)
{
	verb_submit(s3_of(s), op);
}

static void s3_del(struct store *s, struct store_op *op)
{
	s3_del_submit(s3_of(s), op);
}

static void s3_list(struct store *s, struct store_op *op)
{
	s3_list_submit(s3_of(s), op);
}

static void s3_submit(struct store *s, struct store_op *op)
{
	static const store_verb verbs[STORE_NCODES] = {
		[STORE_PUT] = s3_put, [STORE_GET] = s3_look, [STORE_HEAD] = s3_look,
		[STORE_DEL] = s3_del, [STORE_LIST] = s3_list,
	};

	store_dispatch(s, op, verbs);
}

static void s3_cancel(struct store *s, struct store_op *op)
{
	struct s3 *s3 = s3_of(s);

	if (s3_del_cancel(s3, op))
		store_op_done(op, -ECANCELED);
	else
		s3_call_cancel(s3, op);
}

static int s3_usage(struct store *s, struct store_usage *ret)
{
	(void)s;	/* buckets have no size, and counting what is in one takes a listing of all */
	*ret = (struct store_usage){ .objects = UINT64_MAX };
	return 0;
}

static void s3_to_text(const struct store *s, struct text *out)
{
	struct s3 *s3 = container_of((struct store *)(uintptr_t)s, struct s3, s);
	const struct s3_conf *c = &s3->conf;

	text_add(out, "endpoint=");
	s3_conf_endpoint(c, out);
	text_fmt(out, " bucket=%s prefix=%s region=%s style=%s payload-hash=%s", c->bucket, c->prefix,
		 c->region, c->path_style ? "path" : "host", c->sign_body ? "sha256" : "unsigned");
	text_fmt(out, " conditional-put=%s bulk-delete=%s skew=%" PRId64 "ms",
		 s->caps.flags & STORE_CONDITIONAL_PUT ? "yes" : "no",
		 atomic_load(&s3->no_bulk) ? "no" : "yes",
		 (int64_t)atomic_load(&s3->skew) / 1000000);
}

const struct store_ops store_s3_ops = {
	.name = "s3",
	.open = s3_open,
	.submit = s3_submit,
	.cancel = s3_cancel,
	.usage = s3_usage,
	.to_text = s3_to_text,
	.close = s3_close,
	.unmake = s3_unmake,
};
