/* SPDX-License-Identifier: Apache-2.0 */
#include "cutfs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void cf_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	_exit(1);
}

uint64_t cf_seed(uint64_t seed, unsigned life, unsigned writer)
{
	return ((seed * 16 + life) * 16 + writer + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool tiers;

bool cf_tiers(uint64_t seed)
{
	tiers = seed / 4 % 2;
	return tiers;
}

int cf_open(struct tess **ret, const char *dir, enum tess_open_mode mode, const char *boot,
	    char *why)
{
	static struct tess_conf conf; /* borrowed until the file system is closed */

	tess_conf_done(&conf);
	if (tess_conf_init(&conf) < 0)
		cf_die("tess_conf_init");
	conf.cache_size = UINT64_C(8) << 20;
	conf.staging_size = UINT64_C(1) << 20;
	conf.commit_interval = 40 * 1000000;
	conf.seal_idle = 30 * 1000000;
	conf.boot_id = boot ? strdup(boot) : NULL;
	conf.write_tier = tiers ? strdup("fast") : NULL;
	conf.rest_tier = tiers ? strdup("rest") : NULL;
	return tess_open(ret, dir, mode, &conf, mode == TESS_MOUNT ? "nowhere" : NULL, why);
}
