/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CUTFS_H
#define TEST_CUTFS_H
/* What tests/powercut/fsload.c and fsverify.c agree on. */
#include "cutmodel.h"
#include "fs/fs.h"

#include <string.h>
#include <tessera/tessera.h>

#define CF_LIVES   4u
#define CF_WRITERS 2u
#define CF_STEPS   180u
#define CF_KILLED  1u /* this life does not end cleanly */
#define CF_TWINS   2u /* this life and the next are at the same time */

void powercut_mark(const char *line) __attribute__((weak));
void powercut_kill(void) __attribute__((weak));

/* Says it on stdout and ends the process, whatever its threads do. */
void cf_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* As cf_tiers() said last. */
int cf_open(struct tess **ret, const char *dir, enum tess_open_mode mode, const char *boot,
	    char *why);
uint64_t cf_seed(uint64_t seed, unsigned life, unsigned writer);
/* Half of the seeds: two targets are a tier that is written to, two the one where segments belong. */
bool cf_tiers(uint64_t seed);

static inline struct fs_name cf_name(uint64_t dir, const char *name)
{
	return (struct fs_name){dir, name, strlen(name)};
}
#endif
