/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "base/scoped.h"
#include <string.h>

static const struct err_row {
	const char *name;
	int         no;
	const char *text;
} err_rows[] = {
#define ERR_ROW(name, no, text) { "TESS_E_" #name, no, text },
	TESS_ERRORS(ERR_ROW)
#undef ERR_ROW
};

/* The enum's first value is TESS_E_FIRST; rows follow it. */
static const struct err_row *err_find(int err)
{
	if (err >= 0 || err <= -TESS_E_LAST || err >= -TESS_E_FIRST)
		return NULL;
	return &err_rows[-err - TESS_E_FIRST - 1];
}

int err_fold(int err)
{
	const struct err_row *row = err_find(err);

	if (row)
		return -row->no;
	/* A number outside both ranges is a bug somewhere; the kernel must still get an errno. */
	return err <= -TESS_E_BASE ? -EIO : err;
}

const char *err_name(int err)
{
	const struct err_row *row = err_find(err);
	const char *name;

	if (row)
		return row->name;
	if (err >= 0)
		return "OK";
	name = strerrorname_np(-err);
	return name ? name : "UNKNOWN";
}

const char *err_text(int err)
{
	const struct err_row *row = err_find(err);
	const char *text;

	if (row)
		return row->text;
	if (err >= 0)
		return "success";
	text = strerrordesc_np(-err);
	return text ? text : "unknown error";
}
