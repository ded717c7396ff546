/* SPDX-License-Identifier: Apache-2.0 */
/* S3's uploads in parts. A part is an object below a name that no bucket has. */
#include "fakeobj_int.h"

#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#define PARTS 10000u

static void part_name(char *ret, size_t cap, const char *id, unsigned long part)
{
	(void)snprintf(ret, cap, "\x01%s/%05lu", id, part);
}

static void begin(struct request *q, struct reply *r)
{
	unsigned char id[8];
	char name[64], md5[33], hex[17], *p = NULL;

	(void)RAND_bytes(id, sizeof(id));
	for (unsigned i = 0; i < sizeof(id); i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", id[i]);
	/* Part 0: the upload is there. */
	part_name(name, sizeof(name), hex, 0);
	(void)fake_objects_put(q->f, name, "", 0, false, md5);
	if (asprintf(&p, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<InitiateMultipartUploadResult "
		     "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><UploadId>%s</UploadId>"
		     "</InitiateMultipartUploadResult>", hex) > 0)
		fake_reply_text(r, "application/xml", p, strlen(p));
}

static void forget(struct fakeobj *f, const char *id)
{
	char prefix[64];
	struct object *o;

	(void)snprintf(prefix, sizeof(prefix), "\x01%s/", id);
	while (fake_objects_list(f, prefix, "", &o, 1) == 1) {
		(void)fake_objects_del(f, o->name);
		fake_object_unref(o);
	}
}

/* The parts the document names, in its order; NULL: one is missing or out of order. */
static char *join(struct request *q, const char *id, size_t *ret)
{
	const char *at = (const char *)q->body;
	unsigned long last = 0, n;
	char name[64], *p = NULL;
	FILE *o = open_memstream(&p, ret);

	while (o && (at = strstr(at, "<PartNumber>")) != NULL) {
		struct object *part;

		at += 12;
		n = strtoul(at, NULL, 10);
		part_name(name, sizeof(name), id, n);
		part = n > last && n <= PARTS ? fake_objects_get(q->f, name) : NULL;
		if (part && strncmp(at + strcspn(at, "E"), "ETag>", 5) == 0 &&
		    strstr(at, part->md5) != NULL)
			(void)fwrite(part->data, 1, part->size, o);
		else
			last = PARTS;
		last = last == PARTS ? PARTS : n;
		fake_object_unref(part);
	}
	if (!o)
		return NULL;
	(void)fclose(o);
	if (last == 0 || last == PARTS) {
		free(p);
		return NULL;
	}
	return p;
}

static void complete(struct request *q, struct reply *r, const char *name, const char *id)
{
	const char *none = fake_http_field(q, "If-None-Match");
	size_t n = 0;
	char *p = join(q, id, &n), *text = NULL, md5[33];
	int err;

	if (!p) {
		fake_reply_error(r, q, 400, "InvalidPart");
		return;
	}
	err = fake_objects_put(q->f, name, p, n, none != NULL, md5);
	free(p);
	if (err < 0) {
		fake_reply_error(r, q, 412, NULL);
		return;
	}
	forget(q->f, id);
	if (asprintf(&text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<CompleteMultipartUploadResult "
		     "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><ETag>\"%s-1\"</ETag>"
		     "</CompleteMultipartUploadResult>", md5) > 0)
		fake_reply_text(r, "application/xml", text, strlen(text));
}

bool fake_multi_serve(struct request *q, struct reply *r, const char *name)
{
	const char *id = fake_http_query(q, "uploadId"), *part = fake_http_query(q, "partNumber");
	char path[64], md5[33];
	struct object *o;

	if (strcmp(q->method, "POST") == 0 && fake_http_query(q, "uploads")) {
		begin(q, r);
		return true;
	}
	if (!id)
		return false;
	part_name(path, sizeof(path), id, 0);
	o = fake_objects_get(q->f, path);
	fake_object_unref(o);
	if (!o) {
		fake_reply_error(r, q, 404, "NoSuchUpload");
	} else if (strcmp(q->method, "PUT") == 0 && part) {
		part_name(path, sizeof(path), id, strtoul(part, NULL, 10));
		(void)fake_objects_put(q->f, path, q->body, q->body_len, false, md5);
		fake_reply_header(r, "ETag: \"%s\"", md5);
	} else if (strcmp(q->method, "POST") == 0) {
		complete(q, r, name, id);
	} else if (strcmp(q->method, "DELETE") == 0) {
		forget(q->f, id);
		r->status = 204;
	} else {
		fake_reply_error(r, q, 501, NULL);
	}
	return true;
}
