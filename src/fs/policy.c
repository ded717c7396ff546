/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/policy.h"

#include "base/clock.h"
#include "base/scoped.h"
#include <fcntl.h>
#include <string.h>

#define POLICY_T (5 * NS_PER_S)
#define POLICY_RELAXED (30 * NS_PER_S) /* how old a name may be: as of NFS by default */

/*
 * Strict and commit go past the page cache: the kernel's own check compares (mtime, size), which
 * `cp -p` leaves equal, and a push from another session's commit comes late. Asking at each read is
 * what these two promise.
 */
const struct tess_policy policy_presets[MODE_COUNT] = {
	[MODE_STRICT] = {
		.mode = MODE_STRICT, .name = "strict",
		.summary = "a write is everybody's when it returns",
		.visible = AT_WRITE, .durable = AT_FSYNC, .refresh = REFRESH_READ,
		.attr_ttl = 0, .entry_ttl = POLICY_AUTO, .dir_ttl = POLICY_AUTO, .negative_ttl = POLICY_AUTO,
		.exact_size = true, .exact_mtime = true, .atomic_append = true,
		.locks = LOCKS_GLOBAL, .direct_io = true,
	},
	[MODE_COMMIT] = {
		.mode = MODE_COMMIT, .name = "commit",
		.summary = "fsync, close and unlock publish; each read looks",
		.visible = AT_FSYNC, .durable = AT_FSYNC, .refresh = REFRESH_READ,
		.attr_ttl = 0, .entry_ttl = POLICY_AUTO, .dir_ttl = POLICY_AUTO, .negative_ttl = POLICY_AUTO,
		.exact_size = true, .exact_mtime = true, .atomic_append = true,
		.locks = LOCKS_GLOBAL, .direct_io = true,
	},
	[MODE_SESSION] = {
		.mode = MODE_SESSION, .name = "session",
		.summary = "close publishes, open looks: close-to-open; the default",
		.visible = AT_CLOSE, .durable = AT_FSYNC, .refresh = REFRESH_OPEN,
		.attr_ttl = POLICY_AUTO, .entry_ttl = POLICY_AUTO, .dir_ttl = POLICY_AUTO,
		.negative_ttl = POLICY_AUTO,
		.exact_size = true, .exact_mtime = true, .atomic_append = true,
		.locks = LOCKS_GLOBAL, .keep_cache = true,
	},
	[MODE_LAMINATE] = {
		.mode = MODE_LAMINATE, .name = "laminate",
		.summary = "a file is its writer's until it is laminated, then everybody's and immutable",
		.visible = AT_PUBLISH, .durable = AT_FSYNC, .refresh = REFRESH_OPEN,
		.attr_ttl = POLICY_AUTO, .entry_ttl = POLICY_AUTO, .dir_ttl = POLICY_AUTO,
		.negative_ttl = POLICY_AUTO,
		.exact_size = true, .exact_mtime = true,
		.locks = LOCKS_LOCAL, .keep_cache = true,
	},
	[MODE_LAZY] = {
		.mode = MODE_LAZY, .name = "lazy",
		.summary = "everything is everybody's within the interval",
		.visible = AT_INTERVAL, .durable = AT_FSYNC, .refresh = REFRESH_INTERVAL,
		.interval = POLICY_T,
		.attr_ttl = POLICY_T / 4, .entry_ttl = POLICY_T / 4, .dir_ttl = POLICY_T / 4,
		.negative_ttl = POLICY_T / 4,
		/* Late is what lazy promises, not lost. */
		.atomic_append = true, .locks = LOCKS_GLOBAL, .keep_cache = true,
	},
	[MODE_PRIVATE] = {
		.mode = MODE_PRIVATE, .name = "private",
		.summary = "a tree of this mount's own, gone when it is unmounted",
		.visible = NEVER, .durable = NEVER, .refresh = REFRESH_NEVER,
		.attr_ttl = POLICY_FOREVER, .entry_ttl = POLICY_FOREVER, .dir_ttl = POLICY_FOREVER,
		.negative_ttl = POLICY_FOREVER,
		.exact_size = true, .exact_mtime = true,
		.locks = LOCKS_LOCAL, .kernel_writeback = true, .keep_cache = true,
	},
};

enum tess_mode policy_mode(const char *name)
{
	for (unsigned i = MODE_NONE + 1; i < MODE_COUNT; i++)
		if (!strcmp(policy_presets[i].name, name))
			return (enum tess_mode)i;
	return MODE_NONE;
}

/* The stricter of two times to live. POLICY_AUTO is 0 when it matters. */
static int64_t policy_sooner(int64_t a, int64_t b)
{
	if (a == 0 || b == 0)
		return 0;
	if (a == POLICY_AUTO || b == POLICY_AUTO)
		return POLICY_AUTO;
	return MIN(a, b);
}

static void policy_tighten_times(const struct tess_policy *mount, struct tess_policy *ret)
{
	if (ret->mode == MODE_LAZY && mount->interval) {
		ret->interval = mount->interval;
		ret->attr_ttl = ret->entry_ttl = ret->dir_ttl = ret->negative_ttl = mount->interval / 4;
	}
	if (mount->given & GIVEN_ATTR)
		ret->attr_ttl = policy_sooner(ret->attr_ttl, mount->attr_ttl);
	if (mount->given & GIVEN_ENTRY)
		ret->entry_ttl = policy_sooner(ret->entry_ttl, mount->entry_ttl);
	if (mount->given & GIVEN_DIR)
		ret->dir_ttl = policy_sooner(ret->dir_ttl, mount->dir_ttl);
	if (mount->given & GIVEN_NEGATIVE)
		ret->negative_ttl = policy_sooner(ret->negative_ttl, mount->negative_ttl);
	if ((mount->given & (GIVEN_SIZE | GIVEN_MTIME)) && (mount->exact_size || mount->exact_mtime))
		ret->attr_ttl = policy_sooner(ret->attr_ttl, POLICY_AUTO);
}

/*
 * Names may be old, and an old one does no harm: whoever opens what it meant is told ESTALE, and the
 * kernel looks again. Sizes may not, the kernel cuts reads off by them. Nor names that are not there:
 * programs wait for files of other nodes to appear.
 */
void policy_relax(struct tess_policy *p)
{
	int64_t ttl = p->interval ? p->interval : POLICY_RELAXED;

	if (p->entry_ttl == POLICY_AUTO)
		p->entry_ttl = ttl;
	if (p->dir_ttl == POLICY_AUTO)
		p->dir_ttl = ttl;
	if (p->negative_ttl == POLICY_AUTO)
		p->negative_ttl = NS_PER_S;
}

static void policy_take(const struct tess_policy *mount, enum tess_mode mark, struct tess_policy *ret)
{
	if (mark == MODE_NONE || mark >= MODE_COUNT || mark == MODE_PRIVATE ||
	    mount->mode == MODE_PRIVATE) {
		*ret = *mount;
		return;
	}
	*ret = policy_presets[mark];
	policy_tighten_times(mount, ret);
	ret->given = mount->given;
	ret->relaxed_meta = mount->relaxed_meta && mark > MODE_SESSION;
	ret->atomic_append |= mount->atomic_append;
	ret->exact_size |= (mount->given & GIVEN_SIZE) && mount->exact_size;
	ret->exact_mtime |= (mount->given & GIVEN_MTIME) && mount->exact_mtime;
	if (mount->given & GIVEN_DATA) {
		ret->keep_cache &= mount->keep_cache;
		ret->data_ttl = mount->data_ttl;
	}
	if (mount->given & (GIVEN_DATA | GIVEN_DIRECT))
		ret->direct_io |= mount->direct_io;
	/* Off is not laxer than local: it refuses, and says so. */
	if (mount->locks == LOCKS_OFF || (mount->locks == LOCKS_GLOBAL && ret->locks == LOCKS_LOCAL))
		ret->locks = mount->locks;
}

void policy_resolve(const struct tess_policy *mount, enum tess_mode mark, struct tess_policy *ret)
{
	policy_take(mount, mark, ret);
	if (ret->relaxed_meta)
		policy_relax(ret);
}

void policy_tighten(struct tess_policy *p, int open_flags)
{
	if ((open_flags & (O_SYNC | O_DSYNC)) && p->durable != NEVER) {
		p->durable = AT_WRITE;
		if (p->visible == AT_CLOSE || p->visible == AT_FSYNC || p->visible == AT_INTERVAL)
			p->visible = AT_WRITE;
	}
	if ((open_flags & O_DIRECT) && p->refresh != REFRESH_NEVER)
		p->refresh = REFRESH_READ;
}
