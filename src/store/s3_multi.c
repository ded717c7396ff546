/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object larger than max-put goes up in parts, one after the other:
 *
 *   create -> part 1 … part n -> complete -> done
 *      |         |                  |
 *      |         |                  +-> look: is it there? -> done
 *      |         |                       |
 *      +---------+-----------------------+--> abort -> done with the error
 *
 * Parts that are left behind cost money and are in no listing: whatever fails after `create`, the
 * upload is aborted. Complete may say 200 and fail in its body; and it may succeed without our
 * hearing of it: the transport, or what is between, asks again, and the upload is gone (NoSuchUpload).
 * All parts would go up once more for nothing.
 */
#include "store/s3_impl.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ABORT_TIMEOUT (5 * NS_PER_S)
#define ETAG_MAX      256u

struct s3_multi {
	struct s3_call   call;
	struct store_op *op;
	struct s3       *s3;
	struct text      upload;	/* its id */
	struct text      parts;		/* the body of complete, so far */
	struct iovec    *v;		/* of the part, or of `parts` */
	unsigned         part;		/* from 1 */
	uint64_t         sent;
	unsigned char   *sums;		/* owned: those of the parts, 16 bytes each */
	bool             unsummed;	/* one is not known */
	char             number[12];
	char             sum_name[32], sum[32];
	int              err;		/* why it is aborted */
};

static void multi_finish(struct s3_multi *m, int err)
{
	struct store_op *op = m->op;

	text_done(&m->upload);
	text_done(&m->parts);
	free(m->sums);
	free(m->v);
	free(m);
	store_op_done(op, err);
}

static void multi_send(struct s3_multi *m, const char *method, void (*done)(struct s3_call *, int))
{
	struct s3_call *c = &m->call;

	c->s3 = m->s3;
	c->op = m->op;
	c->req = m->op->req;
	c->method = method;
	c->name = m->op->key.name;
	c->done = done;
	c->owner = m;
	if (m->upload.n)
		s3_call_query(c, "uploadId", text_str(&m->upload));
	s3_call_send(c);
}

static void abort_done(struct s3_call *c, int err)
{
	struct s3_multi *m = c->owner;

	(void)err;	/* the other error is the one to tell */
	s3_call_done(c);
	multi_finish(m, m->err);
}

/* Not bound by the requester's patience: it may be over, which is why we are here. */
static void multi_abort(struct s3_multi *m, int err)
{
	struct s3_call *c = &m->call;

	m->err = err;
	c->s3 = m->s3;
	c->timeout = ABORT_TIMEOUT;
	c->method = "DELETE";
	c->name = m->op->key.name;
	c->done = abort_done;
	c->owner = m;
	s3_call_query(c, "uploadId", text_str(&m->upload));
	s3_call_send(c);
}

/* The bytes of 32 hexadecimal digits; false: something else. */
static bool md5_read(const char *s, unsigned char ret[16])
{
	for (unsigned i = 0; i < 16; i++) {
		char two[3] = { s[2 * i], s[2 * i] ? s[2 * i + 1] : '\0', '\0' };

		if (strspn(two, "0123456789abcdefABCDEF") != 2)
			return false;
		ret[i] = (unsigned char)strtoul(two, NULL, 16);
	}
	return true;
}

/* Remembers the ETag of a part, where it is one of which that of the whole is made. */
static void part_note(struct s3_multi *m, const char *etag)
{
	etag += *etag == '"';
	if (!md5_read(etag, m->sums + (size_t)(m->part - 1) * 16) || etag[32] != '"')
		m->unsummed = true;
}

/* The MD5 of the parts' MD5s, a hyphen, and their number: of these parts? True when it is no such thing. */
static bool etag_fits(const struct s3_multi *m, const char *etag)
{
	struct iovec v = { .iov_base = m->sums, .iov_len = (size_t)m->part * 16 };
	const struct tess_iov all = { .iov = &v, .n = 1, .len = v.iov_len };
	unsigned char is[16], want[16];
	char tail[16];

	if (!etag || m->unsummed)
		return true;
	etag += *etag == '"';
	(void)snprintf(tail, sizeof(tail), "-%u\"", m->part);
	if (!md5_read(etag, is) || strcmp(etag + 32, tail) != 0 || s3_md5(&all, want) < 0)
		return true;
	return memcmp(is, want, sizeof(is)) == 0;
}

/* Names are never used again for other bytes: what has this one and this length is this object. */
static void look_done(struct s3_call *c, int err)
{
	struct s3_multi *m = c->owner;
	uint64_t size = c->head_as_get ? c->http.total : c->http.length;
	bool there = err == 0 && size == m->op->data.len &&
		     etag_fits(m, http_header(&c->http, "ETag"));

	s3_call_done(c);
	if (there)
		multi_finish(m, 0);
	else
		multi_abort(m, err == -ECANCELED ? err : m->err);
}

static void multi_look(struct s3_multi *m, int err)
{
	struct s3_call *c = &m->call;

	m->err = err;
	c->s3 = m->s3;
	c->op = m->op;
	c->req = m->op->req;
	c->method = "HEAD";
	c->name = m->op->key.name;
	c->done = look_done;
	c->owner = m;
	s3_call_send(c);
}

/* Errors that leave open whether it was carried out; EIO is what NoSuchUpload is as well. */
static bool complete_unsure(int err)
{
	return err == -EIO || err == -EPROTO || err == -ECONNRESET || err == -ETIMEDOUT;
}

static void complete_done(struct s3_call *c, int err)
{
	struct s3_multi *m = c->owner;

	if (err == 0)
		err = s3_xml_root(text_str(&c->http.reply), c->http.reply.n,
				  "CompleteMultipartUploadResult");
	s3_call_done(c);
	if (complete_unsure(err))
		multi_look(m, err);
	else if (err < 0)
		multi_abort(m, err);
	else
		multi_finish(m, 0);
}

static void multi_complete(struct s3_multi *m)
{
	text_add(&m->parts, "</CompleteMultipartUpload>");
	if (text_error(&m->parts) < 0) {
		multi_abort(m, -ENOMEM);
		return;
	}
	m->v[0] = (struct iovec){ .iov_base = m->parts.s, .iov_len = m->parts.n };
	m->call.body = (struct tess_iov){ .iov = m->v, .n = 1, .len = m->parts.n };
	s3_call_header(&m->call, "Content-Type", "application/xml");
	multi_send(m, "POST", complete_done);
}

static void multi_part(struct s3_multi *m);

static void part_done(struct s3_call *c, int err)
{
	struct s3_multi *m = c->owner;
	const char *etag = err == 0 ? http_header(&c->http, "ETag") : NULL;
	uint64_t len = c->body.len;

	if (err == 0 && (!etag || strlen(etag) > ETAG_MAX))
		err = -EPROTO;
	if (err == 0) {
		text_fmt(&m->parts, "<Part><PartNumber>%u</PartNumber><ETag>", m->part);
		s3_xml_escape(&m->parts, etag);
		text_add(&m->parts, "</ETag></Part>");
		part_note(m, etag);
	}
	s3_call_done(c);
	if (err < 0) {
		multi_abort(m, err);
		return;
	}
	m->sent += len;
	if (m->sent < m->op->data.len)
		multi_part(m);
	else
		multi_complete(m);
}

static int part_sum(struct s3_multi *m)
{
	unsigned char md5[16];
	int r;

	if (m->s3->conf.checksum == S3_SUM_NONE)
		return 0;
	/* Of a part, Content-MD5 does what both are for; crc32c would have to be announced at create. */
	r = s3_md5(&m->call.body, md5);
	if (r == 0) {
		s3_base64(m->sum, md5, sizeof(md5));
		s3_call_header(&m->call, "Content-MD5", m->sum);
	}
	return r;
}

static void multi_part(struct s3_multi *m)
{
	struct s3_call *c = &m->call;
	uint64_t len = MIN(m->s3->conf.max_put, m->op->data.len - m->sent);
	unsigned n = m->op->data.n;
	int r = iov_slice(&m->op->data, m->sent, len, m->v, &n);

	if (r == 0) {
		c->body = (struct tess_iov){ .iov = m->v, .n = n, .len = len };
		r = part_sum(m);
	}
	if (r < 0) {
		memset(c, 0, sizeof(*c));
		multi_abort(m, r);
		return;
	}
	(void)snprintf(m->number, sizeof(m->number), "%u", ++m->part);
	s3_call_query(c, "partNumber", m->number);
	multi_send(m, "PUT", part_done);
}

static void create_done(struct s3_call *c, int err)
{
	struct s3_multi *m = c->owner;

	if (err == 0)
		err = s3_xml_upload(text_str(&c->http.reply), c->http.reply.n, &m->upload);
	s3_call_done(c);
	if (err < 0)
		multi_finish(m, err);
	else
		multi_part(m);
}

void s3_multi_submit(struct s3 *s3, struct store_op *op)
{
	struct s3_multi *m = mem_zalloc(sizeof(*m));

	if (m) {
		m->v = mem_array(op->data.n + 1, sizeof(m->v[0]));
		m->sums = mem_array(op->data.len / s3->conf.max_put + 1, 16);
	}
	if (!m || !m->v || !m->sums) {
		if (m) {
			free(m->sums);
			free(m->v);
		}
		free(m);
		store_op_done(op, -ENOMEM);
		return;
	}
	m->s3 = s3;
	m->op = op;
	text_add(&m->parts, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	s3_call_query(&m->call, "uploads", "");
	multi_send(m, "POST", create_done);
}
