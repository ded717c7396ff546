/* SPDX-License-Identifier: Apache-2.0 */
/* layer: store. Replies of an S3 service: every reader of them on whatever comes. */
#include "base/text.h"
#include "store/s3_xml.h"
#include "store/store.h"
#include <errno.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int entry(void *arg, const char *key, uint64_t size)
{
	struct tess_key k;
	size_t *count = arg;

	(void)size;
	if (store_key_set(&k, key) == 0 && strcmp(k.name, key))
		abort();
	/* An element cannot be shorter than its tags. */
	if (++*count > (size_t)1 << 20)
		abort();
	return 0;
}

static void failed(void *arg, const char *key, const char *code)
{
	text_fmt(arg, "%s %s", key, code);
}

static void known(int r)
{
	if (r && r != -EPROTO && r != -ENOENT && r != -ENOMEM)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const char *p = (const char *)data;
	struct s3_xml_error e = { .code = "" };
	struct text t = TEXT_INIT;
	size_t count = 0;
	struct s3_xml_page page = { .entry = entry, .arg = &count };

	known(s3_xml_error(p, n, &e));
	if (!memchr(e.code, 0, sizeof(e.code)) || !memchr(e.message, 0, sizeof(e.message)))
		abort();
	for (const char *s = e.message; *s; s++) {
		if (*s < ' ' || *s > '~')
			abort();
	}
	known(s3_xml_list(p, n, &page));
	known(s3_xml_deleted(p, n, failed, &t));
	text_clear(&t);
	known(s3_xml_upload(p, n, &t));
	known(s3_xml_root(p, n, "CompleteMultipartUploadResult"));
	text_clear(&t);
	s3_xml_escape(&t, e.message);
	text_done(&t);
	text_done(&page.token);
	return 0;
}
