/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer: store. What files, processes and services hand out as credentials: the first byte chooses
 * the reader.
 */
#include "store/creds_impl.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void check_ini(struct secret *in, bool config)
{
	struct creds_file f = { .path = "file", .there = true };
	struct text why = TEXT_INIT;
	const char *end;

	in->n = strlen(in->s);	/* the reader of files refuses NUL */
	f.text = *in;
	end = in->s + in->n;
	if (creds_ini_parse(&f, config, &why))
		require(strstr(text_str(&why), "LEAKED") == NULL);
	for (unsigned i = 0; i < f.n; i++) {
		require(f.e[i].key >= in->s && f.e[i].key < end);
		require(f.e[i].value >= in->s && f.e[i].value <= end);
		require(creds_ini_has(&f, f.e[i].kind, f.e[i].section));
	}
	free(f.e);
	text_done(&why);
}

static void check_reply(struct secret *in, unsigned kind)
{
	struct text why = TEXT_INIT;
	struct creds_aws *v = NULL;
	int err;

	if (kind == 2) {
		creds_sts_error(in->s, in->n, &why);
		err = creds_sts_parse(in->s, in->n, "test", &v, &why);
	} else {
		err = creds_json_parse(kind ? CREDS_JSON_PROCESS : CREDS_JSON_SERVICE, in, "test", &v, &why);
	}
	require(err <= 0 && (err == 0) == (v != NULL));
	if (v) {
		/* It goes into a header. */
		for (const char *s = v->id; *s; s++)
			require(*s > ' ' && *s <= '~');
		for (const char *s = v->token ? v->token : ""; *s; s++)
			require(*s > ' ' && *s <= '~');
		renewed_put(&v->r);
	}
	for (const char *s = text_str(&why); *s; s++)
		require(*s >= ' ' && *s <= '~');
	text_done(&why);
}

static void check_line(struct secret *in, unsigned kind)
{
	struct text out = TEXT_INIT, why = TEXT_INIT;
	size_t n = strlen(in->s);
	char *argv[16];
	int64_t t;

	if (kind == 0 && creds_time_parse(in->s, &t) == 0 && t != INT64_MAX) {
		int64_t again;

		creds_time_add(&out, t);
		require(creds_time_parse(text_str(&out), &again) == 0 && again == t);
	}
	if (kind == 1 && creds_container_url(NULL, in->s, &out, &why) == 0)
		require(strcmp(text_str(&out), in->s) == 0);
	if (kind == 2 && creds_words_split(in->s, argv, 16) == 0) {
		for (unsigned i = 0; argv[i]; i++)
			require(argv[i] >= in->s && argv[i] + strlen(argv[i]) <= in->s + n);
	}
	text_done(&out);
	text_done(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct secret in = SECRET_INIT;
	unsigned kind;

	if (!n)
		return 0;
	require(secret_init(&in, n) == 0 && secret_addn(&in, (const char *)data + 1, n - 1) == 0);
	kind = data[0] % 8;
	if (kind < 2)
		check_ini(&in, kind == 1);
	else if (kind < 5)
		check_reply(&in, kind - 2);
	else
		check_line(&in, kind - 5);
	in.n = n - 1;
	secret_done(&in);
	return 0;
}
