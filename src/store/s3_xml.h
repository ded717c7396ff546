/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_S3_XML_H
#define STORE_S3_XML_H
/*
 * The XML an S3 service answers with. What comes in is not trusted: no DOCTYPE and so no entities of
 * its own, no element deeper than eight, no text longer than 4 KiB. Everything else of a document is
 * passed over. -EPROTO for what is no such document, -ENOMEM.
 *
 * Source: Amazon S3 API Reference: ListObjectsV2, DeleteObjects, CreateMultipartUpload, Error Responses.
 */
#include "base/text.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* <Error>. What a service says beside these, its strings to sign and tokens, is not kept. */
struct s3_xml_error {
	char code[64];		/* "" : there was none */
	char message[256];	/* printable */
	char region[64];
	char request[80];
};
/* 0: it is an <Error>. -ENOENT: well-formed as far as read, and something else. */
int s3_xml_error(const char *p, size_t n, struct s3_xml_error *ret);

struct s3_xml_page {
	bool        truncated;
	struct text token;	/* the caller frees it */
	/* For each of <Contents>, the key percent-decoded. Not 0 ends the walk with that. */
	int       (*entry)(void *arg, const char *key, uint64_t size);
	void       *arg;
};
int s3_xml_list(const char *p, size_t n, struct s3_xml_page *page);

/* For each <Error> of a <DeleteResult>. */
int s3_xml_deleted(const char *p, size_t n, void (*failed)(void *arg, const char *key, const char *code),
		   void *arg);
/* UploadId of an <InitiateMultipartUploadResult>. */
int s3_xml_upload(const char *p, size_t n, struct text *ret);
/* 0 when the root element is `name`. */
int s3_xml_root(const char *p, size_t n, const char *name);

void s3_xml_escape(struct text *out, const char *s);
#endif
