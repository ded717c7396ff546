/* SPDX-License-Identifier: Apache-2.0 */
/* layer: base. Option lists, sizes, times, fault and log specs: whatever a command line can carry. */
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/scoped.h"
#include "base/text.h"
#include <string.h>

struct conf {
	bool     flag;
	uint64_t number, size, time;
	double   real;
	int      word;
	char    *string;
};
static const char *const words[] = { "one", "two", "three", NULL };
#define AT(f) offsetof(struct conf, f)
static const struct tess_opt rows[] = {
	{ "flag", TESS_OPT_BOOL, TESS_AT_MOUNT, AT(flag), "on", 0, 0, NULL, "a" },
	{ "number", TESS_OPT_UINT, TESS_AT_MOUNT, AT(number), "3", 1, 1000, NULL, "b" },
	{ "size", TESS_OPT_SIZE, TESS_AT_MOUNT, AT(size), "1M", 0, 0, NULL, "c" },
	{ "time", TESS_OPT_TIME, TESS_AT_MOUNT, AT(time), "1s", 0, 0, NULL, "d" },
	{ "real", TESS_OPT_DOUBLE, TESS_AT_MOUNT, AT(real), NULL, 0, 0, NULL, "e" },
	{ "word", TESS_OPT_ENUM, TESS_AT_MOUNT, AT(word), "two", 0, 0, words, "f" },
	{ "string", TESS_OPT_STRING, TESS_AT_MKFS, AT(string), "x", 0, 0, NULL, "g" },
	{ NULL, TESS_OPT_BOOL, 0, 0, NULL, 0, 0, NULL, NULL },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Whatever was accepted must be within limits, and print to what parses to the same again. */
static void check(struct conf *c)
{
	struct text a = TEXT_INIT, b = TEXT_INIT;
	struct conf again;
	char *list;

	if (c->number < 1 || c->number > 1000 || c->word < 0 || c->word > 2)
		abort();
	opt_to_text(rows, c, &a);
	list = text_steal(&a);
	for (char *s = list; (s = strchr(s, '\n'));)
		*s = ',';
	if (opt_init(rows, &again) || opt_parse(rows, &again, TESS_AT_MOUNT | TESS_AT_MKFS, list, NULL))
		abort();
	opt_to_text(rows, &again, &b);
	for (char *s = b.s; (s = strchr(s, '\n'));)
		*s = ',';
	if (strcmp(list, text_str(&b)))
		abort();
	free(list);
	text_done(&b);
	opt_done(rows, &again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	scoped_free char *s = malloc(n + 1);
	struct text why = TEXT_INIT;
	struct conf c;
	int err;

	if (!s)
		abort();
	memcpy(s, data, n);
	s[n] = '\0';
	if (opt_init(rows, &c))
		abort();
	/* A newline in a string would not survive the list form above; no option may hold one anyway. */
	err = opt_parse(rows, &c, TESS_AT_MOUNT, s, &why);
	if (err && (err_fold(err) != -EINVAL || !why.n))
		abort();
	check(&c);
	opt_done(rows, &c);
	text_done(&why);
	if (!fault_set(s))
		fault_set(NULL);
	log_set(s);
	return 0;
}
