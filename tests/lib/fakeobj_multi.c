/* SPDX-License-Identifier: Apache-2.0 */
/* S3's uploads in parts. A part is an object below a name that no bucket has. */
#include "fakeobj_int.h"

#include <openssl/evp.h>
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
	char name[64], md5[FAKE_TAG], hex[17], *p = NULL;

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

static void add_part(const struct object *part, FILE *all, FILE *sums)
{
	(void)fwrite(part->data, 1, part->size, all);
	for (unsigned i = 0; i < 16; i++) {
		char two[3] = { part->md5[2 * i], part->md5[2 * i + 1], 0 };

		(void)fputc((int)strtoul(two, NULL, 16), sums);
	}
}

static void tag_of(const char *sums, size_t n, char tag[FAKE_TAG])
{
	unsigned char md[EVP_MAX_MD_SIZE];

	(void)EVP_Digest(sums, n, md, NULL, EVP_md5(), NULL);
	for (unsigned i = 0; i < 16; i++)
		(void)snprintf(tag + 2 * i, 3, "%02x", md[i]);
	(void)snprintf(tag + 32, FAKE_TAG - 32, "-%u", (unsigned)(n / 16 % 100000));
}

/* The parts the document names, in its order; NULL: one is missing or out of order. */
static char *join(struct request *q, const char *id, size_t *ret, char tag[FAKE_TAG])
{
	const char *at = (const char *)q->body;
	unsigned long last = 0, n;
	char name[64], *p = NULL, *sums = NULL;
	size_t nsums = 0;
	FILE *o = open_memstream(&p, ret), *s = open_memstream(&sums, &nsums);

	while (o && (at = strstr(at, "<PartNumber>")) != NULL) {
		struct object *part;

		at += 12;
		n = strtoul(at, NULL, 10);
		part_name(name, sizeof(name), id, n);
		part = n > last && n <= PARTS ? fake_objects_get(q->f, name) : NULL;
		if (part && strncmp(at + strcspn(at, "E"), "ETag>", 5) == 0 &&
		    strstr(at, part->md5) != NULL)
			add_part(part, o, s);
		else
			last = PARTS;
		last = last == PARTS ? PARTS : n;
		fake_object_unref(part);
	}
	if (!o || !s || fclose(o) != 0 || fclose(s) != 0)
		abort();
	tag_of(sums, nsums, tag);
	free(sums);
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
	char tag[FAKE_TAG], md5[FAKE_TAG];
	char *p = join(q, id, &n, tag), *text = NULL;
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
	fake_objects_tag(q->f, name, tag);
	forget(q->f, id);
	if (asprintf(&text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<CompleteMultipartUploadResult "
		     "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><ETag>\"%s\"</ETag>"
		     "</CompleteMultipartUploadResult>", tag) > 0)
		fake_reply_text(r, "application/xml", text, strlen(text));
}

bool fake_multi_serve(struct request *q, struct reply *r, const char *name)
{
	const char *id = fake_http_query(q, "uploadId"), *part = fake_http_query(q, "partNumber");
	char path[64], md5[FAKE_TAG];
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
