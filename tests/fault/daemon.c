/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each named fault point fails at its Nth hit in a running daemon, under one scripted load.
 *
 * An application must see an errno or its bytes: what returned success is there, what failed left
 *the old content readable. Once disarmed everything goes on; the daemon never dies of a fault; fsck
 *is clean. Then the same for starting (it mounts, or says no in one line) and for unmounting.
 *
 *	FAULT_POINT=NAME	only this one
 */
#include "fload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

/* ENOMEM and ENOSPC take other ways than EIO does: they may be tried again. */
static const struct point {
	const char *name, *error;
	unsigned every; /* so many hits apart are worth a try */
} points[] = {
	{ "alloc", "ENOMEM", 3 },
	{ "kv.put", "EIO", 2 },
	{ "kv.commit", "EIO", 1 },
	{ "kv.get", "EIO", 3 },
	{ "kv.del", "EIO", 2 },
	{ "kv.seek", "EIO", 4 },
	{ "env.commit", "EIO", 1 },
	{ "env.sync", "EIO", 1 },
	{ "env.meta", "EIO", 1 },
	{ "store.put", "EIO", 1 },
	{ "store.put", "ENOSPC", 1 },
	{ "store.get", "EIO", 1 },
	{ "store.del", "EIO", 1 },
	{ "store.head", "EIO", 1 },
	{ "store.list", "EIO", 1 },
	{ "store.kv.allocate", "ENOSPC", 1 },
	{ "store.kv.write", "EIO", 1 },
	{ "store.kv.read", "EIO", 1 },
	{ "store.kv.sync", "EIO", 1 },
	{ "store.kv.header", "EIO", 1 },
	{ "io.flush.put", "EIO", 1 },
	{ "io.flush.commit", "EIO", 1 },
	{ "io.sync", "EIO", 1 },
	{ "stage.append", "EIO", 1 },
	{ "stage.append", "ENOSPC", 1 },
	{ "stage.seal.put", "EIO", 1 },
	{ "stage.seal.commit", "EIO", 1 },
	{ "gc.delete", "EIO", 1 },
	{ "thread", "EAGAIN", 1 },
};

static struct mnt mnt;
static unsigned failures;

static void nap(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/* Under a fault of `alloc` the request itself may meet it. */
static int disarm(void)
{
	for (unsigned i = 0; i < 200; i++) {
		if (!mnt_control(&mnt, "faults", NULL, 0))
			return 0;
		nap(5);
	}
	return -1;
}

static void after(void)
{
	if (!mnt_alive(&mnt)) {
		fload_broken("load", "the daemon died");
		mnt_show_log(&mnt, 40);
		if (mnt_mount(&mnt, NULL))
			exit(1);
	} else if (disarm()) {
		fload_broken("load", "disarming fails");
	}
	fload_mend();
}

static void check_whole(bool killed)
{
	if (killed)
		mnt_kill(&mnt);
	else if (mnt_umount(&mnt))
		fload_broken("load", "unmounting");
	if (mnt_fsck(&mnt, false))
		fload_broken("load", "fsck");
	if (mnt_mount(&mnt, NULL)) {
		fload_broken("load", "mounting");
		exit(1);
	}
	fload_look(false);
}

static void try_point(const struct point *p)
{
	static const unsigned at[] = {1, 2, 3, 5, 8, 13, 21, 34, 0};
	unsigned errors = fload_errors, before = fload_bad;
	char spec[128];

	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		/* The last one: again and again. */
		if (at[i])
			snprintf(spec, sizeof(spec), "faults %s@%u=%s", p->name, at[i] * p->every,
				 p->error);
		else
			snprintf(spec, sizeof(spec), "faults %s%%20=%s", p->name, p->error);
		fload_what("%s", spec + 7);
		/* Armed, "alloc" may already take the answer. */
		if (mnt_control(&mnt, spec, NULL, 0) && strcmp(p->name, "alloc"))
			fload_broken("load", "arming");
		fload_run();
		/* Sealer and committer pass it too. */
		nap(i % 3 ? 5 : 60);
		after();
		if (fload_bad > before)
			break;
	}
	check_whole((p - points) % 2);
	printf("%-16s %-8s %u errors seen%s\n", p->name, p->error, fload_errors - errors,
	       fload_bad > before ? ", BROKEN" : "");
	failures += fload_bad > before;
}

/* Starting with a fault: it mounts or it says no, and leaves nothing behind either way. */
static void try_start(void)
{
	static const char *const at_start[][2] = {
		{"alloc", "ENOMEM"},  {"env.sync", "EIO"},  {"kv.put", "EIO"},
		{"kv.commit", "EIO"}, {"thread", "EAGAIN"}, {"env.commit", "EIO"},
	};
	unsigned before = fload_bad;
	char options[128];

	mnt_kill(&mnt);
	for (unsigned i = 0; i < sizeof(at_start) / sizeof(at_start[0]); i++)
		for (unsigned n = 1; n < 100; n = n * 2 + n / 3) {
			snprintf(options, sizeof(options), "faults=%s@%u=%s", at_start[i][0], n,
				 at_start[i][1]);
			fload_what("mount -o %.100s", options);
			if (!mnt_mount(&mnt, options))
				mnt_kill(&mnt);
			else if (!WIFEXITED(mnt.status))
				fload_broken("load", "the daemon crashed");
		}
	fload_what("mount after failed mounts");
	if (mnt_mount(&mnt, NULL)) {
		fload_broken("load", "mounting");
		exit(1);
	}
	fload_look(false);
	failures += fload_bad > before;
}

/* Unmounting while targets refuse: it says so, and nothing that was closed is lost. */
static void try_umount(void)
{
	unsigned before = fload_bad;

	fload_what("umount with store.put=EIO");
	fload_run();
	mnt_control(&mnt, "faults store.put=EIO", NULL, 0);
	fload_touch();
	mnt_tessera(&mnt, "umount", mnt.dir, NULL);
	if (mnt_wait_dead(&mnt, 60000)) {
		fload_broken("load", "the daemon does not end");
		mnt_kill(&mnt);
	} else if (!WIFEXITED(mnt.status)) {
		fload_broken("load", "the daemon crashed");
	}
	if (mnt_mount(&mnt, NULL)) {
		fload_broken("load", "mounting");
		exit(1);
	}
	fload_look(false);
	failures += fload_bad > before;
}

int main(void)
{
	const char *only = getenv("FAULT_POINT");
	unsigned n = 0;

	mnt_need();
	mnt_init(&mnt, "fault");
	if (mnt_mkfs(&mnt, NULL, NULL) || mnt_mount(&mnt, NULL))
		return 1;
	fload_what("without faults");
	failures += fload_init(&mnt) != 0;
	fload_run();
	after();
	failures += fload_bad > 0 || fload_errors > 0;
	for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		if (!only || !strcmp(only, points[i].name)) {
			try_point(&points[i]);
			n++;
		}
	if (!only || !strcmp(only, "start"))
		try_start();
	if (!only || !strcmp(only, "umount"))
		try_umount();
	fload_what("the end");
	check_whole(false);
	if (mnt_umount(&mnt) || mnt_fsck(&mnt, true))
		failures++;
	mnt_end(&mnt);
	printf("%u passed, %u failed\n", n + 3 > failures ? n + 3 - failures : 0, failures);
	return failures != 0;
}
