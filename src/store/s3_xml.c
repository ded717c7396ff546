/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3_xml.h"

#include "base/fault.h"
#include "base/scoped.h"

#include <errno.h>
#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XML_DEPTH 8u
#define XML_NAME  48u
#define XML_TEXT  4096u
#define XML_MAX   (UINT32_C(16) << 20)

struct walk {
	XML_Parser  parser;
	const char *root;	/* what the outermost element has to be; NULL: any */
	/* Called at the end of each element, with the text directly in it. Not 0 ends the walk. */
	int       (*end)(struct walk *w, const char *text);
	void       *arg;
	int         err;
	unsigned    depth;
	char        path[XML_DEPTH][XML_NAME];
	char        text[XML_TEXT];
	size_t      n;
};

static void walk_stop(struct walk *w, int err)
{
	w->err = err;
	(void)XML_StopParser(w->parser, XML_FALSE);
}

static void on_start(void *arg, const XML_Char *name, const XML_Char **atts)
{
	struct walk *w = arg;
	const char *colon = strrchr(name, ':');

	(void)atts;
	if (w->err)
		return;
	name = colon ? colon + 1 : name;
	if (w->depth == XML_DEPTH || strlen(name) >= XML_NAME) {
		walk_stop(w, -EPROTO);
		return;
	}
	(void)snprintf(w->path[w->depth++], XML_NAME, "%s", name);
	w->n = 0;
	if (w->depth == 1 && w->root && strcmp(name, w->root) != 0)
		walk_stop(w, -ENOENT);
}

static void on_end(void *arg, const XML_Char *name)
{
	struct walk *w = arg;
	int r;

	(void)name;
	if (w->err)
		return;
	w->text[w->n] = 0;
	r = w->end ? w->end(w, w->text) : 0;
	w->depth--;
	w->n = 0;
	if (r)
		walk_stop(w, r);
}

static void on_text(void *arg, const XML_Char *s, int n)
{
	struct walk *w = arg;

	if (w->err)
		return;
	if ((size_t)n >= XML_TEXT - w->n) {
		walk_stop(w, -EPROTO);
		return;
	}
	memcpy(w->text + w->n, s, (size_t)n);
	w->n += (size_t)n;
}

static void on_doctype(void *arg, const XML_Char *name, const XML_Char *sys, const XML_Char *pub,
		       int internal)
{
	(void)name;
	(void)sys;
	(void)pub;
	(void)internal;
	walk_stop(arg, -EPROTO);
}

static void *xml_realloc(void *p, size_t n)
{
	return mem_resize(p, n, 1);
}

static int walk_run(struct walk *w, const char *p, size_t n)
{
	static const XML_Memory_Handling_Suite memory = { mem_alloc, xml_realloc, free };
	enum XML_Status status;
	enum XML_Error error;

	/* A service that keeps a connection alive while it works sends blanks ahead. */
	while (n > 0 && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
		p++;
		n--;
	}
	if (n == 0 || n > XML_MAX)
		return -EPROTO;
	w->parser = XML_ParserCreate_MM(NULL, &memory, NULL);
	if (!w->parser)
		return -ENOMEM;
	XML_SetUserData(w->parser, w);
	XML_SetElementHandler(w->parser, on_start, on_end);
	XML_SetCharacterDataHandler(w->parser, on_text);
	XML_SetStartDoctypeDeclHandler(w->parser, on_doctype);
	status = XML_Parse(w->parser, p, (int)n, XML_TRUE);
	error = XML_GetErrorCode(w->parser);
	XML_ParserFree(w->parser);
	if (w->err)
		return w->err;
	if (status != XML_STATUS_OK)
		return error == XML_ERROR_NO_MEMORY ? -ENOMEM : -EPROTO;
	return 0;
}

/* The element that ends is path[at], at that depth. */
static bool is_at(const struct walk *w, unsigned at, const char *name)
{
	return w->depth == at + 1 && strcmp(w->path[at], name) == 0;
}

/* ---- <Error> ---- */

static void keep_printable(char *ret, size_t cap, const char *s)
{
	size_t n = 0;

	for (; *s && n + 1 < cap; s++)
		ret[n++] = (char)(*s >= ' ' && *s < 0x7f ? *s : ' ');
	ret[n] = 0;
}

static int error_end(struct walk *w, const char *text)
{
	struct s3_xml_error *e = w->arg;

	if (is_at(w, 1, "Code"))
		keep_printable(e->code, sizeof(e->code), text);
	else if (is_at(w, 1, "Message"))
		keep_printable(e->message, sizeof(e->message), text);
	else if (is_at(w, 1, "Region"))
		keep_printable(e->region, sizeof(e->region), text);
	else if (is_at(w, 1, "RequestId"))
		keep_printable(e->request, sizeof(e->request), text);
	return 0;
}

int s3_xml_error(const char *p, size_t n, struct s3_xml_error *ret)
{
	struct s3_xml_error e = { .code = "" };
	struct walk w = { .root = "Error", .end = error_end, .arg = &e };
	int r = walk_run(&w, p, n);

	if (r == 0)
		*ret = e;
	return r;
}

/* ---- <ListBucketResult> ---- */

struct list_walk {
	struct s3_xml_page *page;
	char                key[XML_TEXT];
	uint64_t            size;
	bool                has_key, has_size;
};

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Shorter or as long. A percent sign that begins nothing stays. */
static void percent_decode(char *to, const char *s)
{
	for (; *s; s++) {
		int hi = *s == '%' ? hex(s[1]) : -1;
		int lo = hi < 0 ? -1 : hex(s[2]);

		if (lo >= 0 && hi * 16 + lo != 0) {
			*to++ = (char)(hi * 16 + lo);
			s += 2;
		} else {
			*to++ = *s;
		}
	}
	*to = 0;
}

static int parse_u64(const char *s, uint64_t *ret)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno || end == s || *end || *s == '-')
		return -EPROTO;
	*ret = v;
	return 0;
}

static int list_end(struct walk *w, const char *text)
{
	struct list_walk *l = w->arg;

	if (is_at(w, 1, "IsTruncated")) {
		l->page->truncated = strcmp(text, "true") == 0;
	} else if (is_at(w, 1, "NextContinuationToken")) {
		text_clear(&l->page->token);
		text_add(&l->page->token, text);
		return text_error(&l->page->token);
	} else if (is_at(w, 1, "Contents")) {
		bool whole = l->has_key && l->has_size;

		l->has_key = l->has_size = false;
		return whole ? l->page->entry(l->page->arg, l->key, l->size) : -EPROTO;
	} else if (w->depth == 3 && strcmp(w->path[1], "Contents") == 0) {
		if (is_at(w, 2, "Key")) {
			percent_decode(l->key, text);
			l->has_key = true;
		} else if (is_at(w, 2, "Size")) {
			l->has_size = true;
			return parse_u64(text, &l->size);
		}
	}
	return 0;
}

/* A document of another kind is as wrong as none. */
static int root_wrong(int r)
{
	return r == -ENOENT ? -EPROTO : r;
}

int s3_xml_list(const char *p, size_t n, struct s3_xml_page *page)
{
	struct list_walk l = { .page = page };
	struct walk w = { .root = "ListBucketResult", .end = list_end, .arg = &l };

	page->truncated = false;
	return root_wrong(walk_run(&w, p, n));
}

/* ---- <DeleteResult> ---- */

struct deleted_walk {
	void (*failed)(void *arg, const char *key, const char *code);
	void  *arg;
	char   key[XML_TEXT], code[XML_TEXT];
};

static int deleted_end(struct walk *w, const char *text)
{
	struct deleted_walk *d = w->arg;

	if (is_at(w, 1, "Error")) {
		d->failed(d->arg, d->key, d->code);
		d->key[0] = d->code[0] = 0;
	} else if (w->depth == 3 && strcmp(w->path[1], "Error") == 0) {
		if (is_at(w, 2, "Key"))
			(void)snprintf(d->key, sizeof(d->key), "%s", text);
		else if (is_at(w, 2, "Code"))
			(void)snprintf(d->code, sizeof(d->code), "%s", text);
	}
	return 0;
}

int s3_xml_deleted(const char *p, size_t n, void (*failed)(void *arg, const char *key, const char *code),
		   void *arg)
{
	struct deleted_walk d = { .failed = failed, .arg = arg };
	struct walk w = { .root = "DeleteResult", .end = deleted_end, .arg = &d };

	return root_wrong(walk_run(&w, p, n));
}

/* ---- multipart ---- */

static int upload_end(struct walk *w, const char *text)
{
	struct text *id = w->arg;

	if (is_at(w, 1, "UploadId")) {
		text_clear(id);
		text_add(id, text);
		return text_error(id);
	}
	return 0;
}

int s3_xml_upload(const char *p, size_t n, struct text *ret)
{
	struct walk w = { .root = "InitiateMultipartUploadResult", .end = upload_end, .arg = ret };
	int r = root_wrong(walk_run(&w, p, n));

	return r == 0 && !text_str(ret)[0] ? -EPROTO : r;
}

int s3_xml_root(const char *p, size_t n, const char *name)
{
	struct walk w = { .root = name };

	return root_wrong(walk_run(&w, p, n));
}

void s3_xml_escape(struct text *out, const char *s)
{
	for (; *s; s++) {
		switch (*s) {
		case '&':
			text_add(out, "&amp;");
			break;
		case '<':
			text_add(out, "&lt;");
			break;
		case '>':
			text_add(out, "&gt;");
			break;
		case '"':
			text_add(out, "&quot;");
			break;
		default:
			text_addn(out, s, 1);
		}
	}
}
