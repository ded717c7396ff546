/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_OPT_H
#define TESSERA_OPT_H
/*
 * Option rows: one row makes the parser, the limits, the help text, `--json` and the man page
 * check. A row writes into a plain struct at `at`; rows are static const, values belong to the
 * caller. Parsed by src/base/opt.c.
 */
#include <stddef.h>
#include <stdint.h>

enum tess_opt_type {
	TESS_OPT_BOOL,		/* bool          "name", "name=on|off|yes|no|true|false|1|0", "noname" */
	TESS_OPT_UINT,		/* uint64_t      decimal */
	TESS_OPT_SIZE,		/* uint64_t      bytes; suffix k M G T, binary */
	TESS_OPT_TIME,		/* uint64_t ns   suffix ns us ms s m h d; a bare number is seconds */
	TESS_OPT_DOUBLE,	/* double */
	TESS_OPT_ENUM,		/* int           index into words[] */
	TESS_OPT_STRING,	/* char *        owned by the struct; freed by opt_done() */
};

enum tess_opt_when { TESS_AT_MKFS = 1, TESS_AT_MOUNT = 2, TESS_AT_RUN = 4, TESS_AT_INODE = 8 };

struct tess_opt {
	const char        *name;	/* as typed; NULL ends a table */
	enum tess_opt_type type;
	unsigned           when;	/* mask of enum tess_opt_when */
	size_t             at;		/* offsetof() in the caller's struct */
	const char        *dflt;	/* text, parsed like input; NULL: 0, false, NULL */
	uint64_t           min, max;	/* UINT SIZE TIME; max 0 = no limit */
	const char *const *words;	/* ENUM: NULL-terminated legal words */
	const char        *help;	/* one line, no full stop */
};
#endif
