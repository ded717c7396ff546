/* SPDX-License-Identifier: Apache-2.0 */
/* S3: path style, or the bucket as the first part of a host below "localhost". */
#include "fakeobj_int.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct place {
	char bucket[256];
	char name[1400];	/* "bucket/key" */
	const char *key;	/* in name */
};

static bool place_of(const struct request *q, struct place *p)
{
	const char *host = fake_http_field(q, "Host"), *dot = host ? strchr(host, '.') : NULL;
	const char *path = q->path + 1;

	if (dot && strncasecmp(dot, ".localhost", 10) == 0) {
		(void)snprintf(p->bucket, sizeof(p->bucket), "%.*s", (int)(dot - host), host);
	} else {
		size_t n = strcspn(path, "/");

		(void)snprintf(p->bucket, sizeof(p->bucket), "%.*s", (int)n, path);
		path += n + (path[n] == '/');
	}
	if (snprintf(p->name, sizeof(p->name), "%s/%s", p->bucket, path) >= (int)sizeof(p->name))
		return false;
	p->key = p->name + strlen(p->bucket) + 1;
	return true;
}

enum verb fake_s3_verb(const struct request *q)
{
	struct place p;

	if (!place_of(q, &p))
		return V_OTHER;
	if (!*p.key) {
		if (strcmp(q->method, "POST") == 0 && fake_http_query(q, "delete"))
			return V_BULK;
		return strcmp(q->method, "GET") == 0 && p.bucket[0] && !fake_http_query(q, "location") ?
			       V_LIST : V_OTHER;
	}
	return fake_http_verb(q);
}

static void xml_text(FILE *o, const char *s, bool url)
{
	if (url) {
		fake_http_encode_to(o, s, false);
		return;
	}
	for (; *s; s++) {
		if (*s == '&')
			fputs("&amp;", o);
		else if (*s == '<')
			fputs("&lt;", o);
		else
			fputc(*s, o);
	}
}

static void list_rows(FILE *o, struct object *const *objs, size_t n, size_t skip, bool url)
{
	for (size_t i = 0; i < n; i++) {
		fputs("<Contents><Key>", o);
		xml_text(o, objs[i]->name + skip, url);
		fprintf(o, "</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>&quot;%s"
			   "&quot;</ETag><Size>%zu</Size><StorageClass>STANDARD</StorageClass></Contents>",
			objs[i]->md5, objs[i]->size);
	}
}

/* A continuation token is the last name backwards: no client can take it for a name. */
static void backwards(const char *s, char *ret, size_t cap)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n && i + 1 < cap; i++)
		ret[i] = s[n - 1 - i];
	ret[n < cap ? n : cap - 1] = 0;
}

static void list(struct request *q, struct reply *r, const struct place *p)
{
	const char *prefix = fake_http_query(q, "prefix"), *after = fake_http_query(q, "start-after");
	const char *token = fake_http_query(q, "continuation-token");
	const char *max = fake_http_query(q, "max-keys");
	const char *encoding = fake_http_query(q, "encoding-type"), *v2 = fake_http_query(q, "list-type");
	size_t page = q->f->conf.page ? q->f->conf.page : 1000, n, len = 0;
	bool url = encoding && strcmp(encoding, "url") == 0, more;
	char whole[1700], from[1700], turned[1400];
	struct object **objs;
	char *text = NULL;
	FILE *o;

	if (!v2 || strcmp(v2, "2") != 0) {
		fake_reply_error(r, q, 501, NULL);
		return;
	}
	if (max && strtoul(max, NULL, 10) < page)
		page = strtoul(max, NULL, 10);
	backwards(token ? token : "", turned, sizeof(turned));
	(void)snprintf(whole, sizeof(whole), "%s/%s", p->bucket, prefix ? prefix : "");
	(void)snprintf(from, sizeof(from), "%s/%s", p->bucket,
		       token ? turned : after ? after : "");
	objs = calloc(page + 1, sizeof(objs[0]));
	o = open_memstream(&text, &len);
	if (!objs || !o)
		abort();
	n = fake_objects_list(q->f, whole, from, objs, page + 1);
	more = n > page;
	fprintf(o, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://"
		   "s3.amazonaws.com/doc/2006-03-01/\"><Name>%s</Name><Prefix>", p->bucket);
	xml_text(o, prefix ? prefix : "", url);
	fprintf(o, "</Prefix><KeyCount>%zu</KeyCount><MaxKeys>%zu</MaxKeys><IsTruncated>%s"
		   "</IsTruncated>", more ? page : n, page, more ? "true" : "false");
	if (url)
		fputs("<EncodingType>url</EncodingType>", o);
	if (more && page > 0) {
		backwards(objs[page - 1]->name + strlen(p->bucket) + 1, turned, sizeof(turned));
		fputs("<NextContinuationToken>", o);
		xml_text(o, turned, false);
		fputs("</NextContinuationToken>", o);
	}
	list_rows(o, objs, more ? page : n, strlen(p->bucket) + 1, url);
	fputs("</ListBucketResult>", o);
	(void)fclose(o);
	for (size_t i = 0; i < n; i++)
		fake_object_unref(objs[i]);
	free(objs);
	fake_reply_text(r, "application/xml", text, len);
}

static bool md5_fits(const struct request *q)
{
	const char *said = fake_http_field(q, "Content-MD5");
	unsigned char md[16], text[32];

	if (!said)
		return true;
	(void)EVP_Digest(q->body, q->body_len, md, NULL, EVP_md5(), NULL);
	(void)EVP_EncodeBlock(text, md, 16);
	return strcmp((const char *)text, said) == 0;
}

static void put(struct request *q, struct reply *r, const struct place *p)
{
	const char *none = fake_http_field(q, "If-None-Match");
	char md5[FAKE_TAG];
	int err;

	if (!fake_http_field(q, "Content-Length")) {
		fake_reply_error(r, q, 411, "MissingContentLength");
		return;
	}
	if (none && (q->f->conf.no_conditional || strcmp(none, "*") != 0)) {
		fake_reply_error(r, q, 501, NULL);
		return;
	}
	if (!md5_fits(q)) {
		fake_reply_error(r, q, 400, "BadDigest");
		return;
	}
	err = fake_objects_put(q->f, p->name, q->body, q->body_len, none != NULL, md5);
	if (err == -EEXIST)
		fake_reply_error(r, q, 412, NULL);
	else if (err < 0)
		fake_reply_error(r, q, 500, NULL);
	else
		fake_reply_header(r, "ETag: \"%s\"", q->fault.kind == K_ETAG ? FAKE_OTHER_TAG : md5);
}

/* Enough of XML for what clients send: the text between <Key> and </Key>. */
static void bulk(struct request *q, struct reply *r, const struct place *p)
{
	char *at = (char *)q->body, *end, *text = NULL, name[1700];
	bool quiet = strstr(at, "<Quiet>true</Quiet>") != NULL;
	size_t len = 0;
	unsigned n = 0;
	FILE *o;

	if (q->f->conf.no_bulk) {
		fake_reply_error(r, q, 501, NULL);
		return;
	}
	/* What is signed needs no digest of its own. */
	if (!md5_fits(q)) {
		fake_reply_error(r, q, 400, "InvalidDigest");
		return;
	}
	o = open_memstream(&text, &len);
	if (!o)
		abort();
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<DeleteResult "
	      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">", o);
	while ((at = strstr(at, "<Key>")) != NULL && (end = strstr(at, "</Key>")) != NULL) {
		at += 5;
		*end = 0;
		(void)snprintf(name, sizeof(name), "%s/%s", p->bucket, at);
		(void)fake_objects_del(q->f, name);
		if (!quiet)
			fprintf(o, "<Deleted><Key>%s</Key></Deleted>", at);
		at = end + 1;
		n++;
	}
	fputs("</DeleteResult>", o);
	(void)fclose(o);
	fake_reply_text(r, "application/xml", text, len);
	if (n == 0 || n > 1000)
		fake_reply_error(r, q, 400, "MalformedXML");
}

static void bucket(struct request *q, struct reply *r, const struct place *p)
{
	char *text;

	if (q->verb == V_LIST) {
		list(q, r, p);
	} else if (q->verb == V_BULK) {
		bulk(q, r, p);
	} else if (strcmp(q->method, "GET") == 0 && fake_http_query(q, "location")) {
		if (asprintf(&text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<LocationConstraint "
			     "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">%s</LocationConstraint>",
			     q->f->region) > 0)
			fake_reply_text(r, "application/xml", text, strlen(text));
	} else if (strcmp(q->method, "PUT") != 0 && strcmp(q->method, "HEAD") != 0) {
		fake_reply_error(r, q, 501, NULL);
	} else if (q->f->region[0]) {
		fake_reply_header(r, "x-amz-bucket-region: %s", q->f->region);
	}
}

void fake_s3_serve(struct request *q, struct reply *r)
{
	struct object *o;
	struct place p;
	unsigned status;
	const char *bad = fake_sigv4_check(q, "s3", &status);

	if (bad) {
		fake_reply_error(r, q, status, bad);
		return;
	}
	if (!place_of(q, &p)) {
		fake_reply_error(r, q, 400, "KeyTooLongError");
		return;
	}
	if (strncmp(p.bucket, "missing", 7) == 0) {
		fake_reply_error(r, q, 404, "NoSuchBucket");
		return;
	}
	if (*p.key && fake_multi_serve(q, r, p.name))
		return;
	switch (*p.key ? q->verb : V_OTHER) {
	case V_PUT:
		put(q, r, &p);
		break;
	case V_GET:
	case V_HEAD:
		o = fake_objects_get(q->f, p.name);
		if (o)
			fake_reply_object(r, q, o);
		else
			fake_reply_error(r, q, 404, "NoSuchKey");
		break;
	case V_DEL:
		(void)fake_objects_del(q->f, p.name);
		r->status = 204;
		break;
	default:
		if (*p.key)
			fake_reply_error(r, q, 501, NULL);
		else
			bucket(q, r, &p);
		break;
	}
}
