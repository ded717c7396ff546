/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modes; and after them what has a mode from somewhere else, MARK@MOUNT, or adjusts one, MODE+WHAT.
 * What a mark or flags of open promise is no less than what the mode of that name does.
 */
#include "litmus.h"

#include <fcntl.h>

#define OF_LAZY	"mode=lazy,interval=100ms"
#define RELAX	"meta=relaxed,interval=100ms"
#define NAMES	"dentry-time=1h,dentry-dir-time=1h,ndentry-time=1h"
#define ABSENT	INT64_C(1300000000)	/* of meta=relaxed: a second */

#define ENV(label, table, how, ...) { .name = label, .mode = LIT_##table, .options = how, __VA_ARGS__ }

const struct lit_env lit_envs[] = {
	ENV("strict", STRICT, "mode=strict"),
	ENV("commit", COMMIT, "mode=commit"),
	ENV("session", SESSION, "rw"), /* what who asks for nothing gets */
	ENV("laminate", LAMINATE, "mode=laminate"),
	ENV("lazy", LAZY, OF_LAZY, .waits = true),
	ENV("private", PRIVATE, "mode=private"),
	/* cell: marks */
	ENV("strict@lazy", STRICT, OF_LAZY, .mark = "strict"),
	ENV("strict@session", STRICT, "rw", .mark = "strict"),
	ENV("commit@lazy", COMMIT, OF_LAZY, .mark = "commit"),
	ENV("session@lazy", SESSION, OF_LAZY, .mark = "session"),
	ENV("session@strict", SESSION, "mode=strict", .mark = "session"),
	ENV("lazy@session", LAZY, "interval=100ms", .mark = "lazy", .waits = true),
	ENV("laminate@session", LAMINATE, "rw", .mark = "laminate", .locks = true),
	/* cell: tighten */
	ENV("session+sync", SESSION, "rw", .flags = O_SYNC),
	ENV("session+direct", SESSION, "rw", .flags = O_DIRECT),
	ENV("session+sync+direct", STRICT, "rw", .flags = O_SYNC | O_DIRECT),
	/* Bytes as in strict; what the kernel remembers of names and attributes is the mount's. */
	ENV("lazy+sync+direct", STRICT, OF_LAZY, .flags = O_SYNC | O_DIRECT, .waits = true,
	    .names = LIT_INTERVAL, .absent = LIT_INTERVAL, .attrs = LIT_INTERVAL),
	/* cell: relaxed */
	ENV("session+relaxed", SESSION, RELAX, .names = LIT_INTERVAL, .absent = ABSENT),
	ENV("commit+relaxed", COMMIT, "mode=commit," RELAX, .names = LIT_INTERVAL, .absent = ABSENT),
	/* cell: marks relaxed */
	ENV("strict@relaxed", STRICT, RELAX, .mark = "strict"),
	/* cell: remembered */
	ENV("session+dentry-time", SESSION, NAMES, .names = LIT_TOLD, .absent = LIT_TOLD),
	ENV("session+attr-time", SESSION, "attr-time=1h", .attrs = LIT_TOLD),
	{ .name = NULL },
};

unsigned lit_env_bits(const struct lit_env *e)
{
	return 1u << (e - lit_envs) | 1u << e->mode;
}
