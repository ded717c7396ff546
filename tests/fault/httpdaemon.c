/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mounted file system whose targets are behind HTTP, on a server that misbehaves
 * (tests/lib/fakeobj.h).
 *
 * Every k-th request goes wrong, for each way it can: an application sees an errno or its bytes,
 * old content stays readable, and when the server behaves again so does everything. Credentials
 * that live for two seconds are not noticed at all. No secret is found where others could look.
 *
 *	HTTP_PART=NAME		only s3-faults, swift-faults, s3-instance, swift-tempauth or swift-keystone
 *	HTTP_FAULT=KIND		of the faults, only this one
 *	HTTP_SECONDS=N		of load on each kind of short-lived credentials; 6
 *	HTTP_LIFE=N		of these, in seconds; 2
 *	HTTP_PAUSE=N		between two rounds of that load, in milliseconds; 0
 */
#include "fakeobj.h"
#include "fload.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum service { STATIC, INSTANCE, TEMPAUTH, KEYSTONE };

static struct mnt mnt;
static struct fakeobj *server;
static unsigned passed, failures;

static const struct {
	const char *verb, *kind;
	unsigned    every;
} faults[] = {
	{ "any", "500", 3 },	      { "any", "500", 1 },	    { "any", "slowdown", 2 },
	{ "any", "toomany=0", 3 },    { "any", "403", 5 },	    { "put", "403", 1 },
	{ "any", "401", 7 },	      { "get", "404=NoSuchKey", 4 },{ "put", "507", 2 },
	{ "any", "ok-error", 3 },     { "put", "ok-error", 1 },	    { "any", "redirect=307", 4 },
	{ "any", "redirect=301", 5 }, { "any", "reset", 3 },	    { "any", "reset", 1 },
	{ "any", "reset-after", 3 },  { "any", "reset-mid", 3 },    { "any", "half", 3 },
	{ "any", "garbage", 3 },      { "get", "short", 2 },	    { "get", "long", 2 },
	{ "get", "less", 2 },	      { "get", "more", 2 },	    { "get", "unframed", 2 },
	{ "get", "other-range", 2 },  { "get", "whole", 2 },	    { "get", "flip", 3 },
	{ "get", "flip", 1 },	      { "get", "bad-body", 2 },	    { "any", "stall=30", 5 },
	{ "any", "delay=20", 2 },     { "any", "close", 1 },	    { "any", "blackhole", 30 },
	{ "connect", "reset", 2 },    { "connect", "garbage", 3 },
};

static void set(const char *name, const char *value)
{
	if (value ? setenv(name, value, 1) : unsetenv(name))
		abort();
}

static void set_url(const char *name, const char *path)
{
	char v[100];

	snprintf(v, sizeof(v), "http://127.0.0.1:%u%s", fakeobj_port(server), path);
	set(name, v);
}

/* The identity that mkfs and mount find. */
static void identity(enum service s)
{
	static const char *const names[] = {
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
		"AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
		"ST_AUTH", "ST_USER", "ST_KEY", "OS_AUTH_URL", "OS_CLOUD", "http_proxy", "all_proxy",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		set(names[i], NULL);
	set("HOME", mnt_tmp());
	set("AWS_EC2_METADATA_DISABLED", s == INSTANCE ? "false" : "true");
	switch (s) {
	case STATIC:
		set("AWS_ACCESS_KEY_ID", FAKEOBJ_ACCESS);
		set("AWS_SECRET_ACCESS_KEY", FAKEOBJ_SECRET);
		break;
	case INSTANCE:
		set_url("AWS_EC2_METADATA_SERVICE_ENDPOINT", "");
		break;
	case TEMPAUTH:
		set_url("ST_AUTH", "/auth/v1.0");
		set("ST_USER", FAKEOBJ_USER);
		set("ST_KEY", FAKEOBJ_KEY);
		break;
	case KEYSTONE:
		set_url("OS_AUTH_URL", "/v3");
		set("OS_USERNAME", "tester");
		set("OS_PASSWORD", FAKEOBJ_KEY);
		set("OS_PROJECT_NAME", "test");
		set("OS_USER_DOMAIN_NAME", "Default");
		set("OS_PROJECT_DOMAIN_NAME", "Default");
		set("OS_REGION_NAME", "RegionOne");
		break;
	}
}

static bool wanted(const char *part)
{
	const char *only = getenv("HTTP_PART");

	return !only || strcmp(only, part) == 0;
}

static void verdict(bool good)
{
	passed += good;
	failures += !good;
}

/* A file system of its own, mounted; its files are not there yet. */
static int begin(const char *name, enum service s, const char *query, unsigned life)
{
	struct fakeobj_conf conf = { .life_ms = 1000 * life };
	char uri[300];

	if (fakeobj_start(&server, &conf))
		return -1;
	identity(s);
	mnt_init(&mnt, name);
	if (s == STATIC || s == INSTANCE)
		snprintf(uri, sizeof(uri), "s3://data/%s?endpoint=http://127.0.0.1:%u&%s", name,
			 fakeobj_port(server), query);
	else
		snprintf(uri, sizeof(uri), "swift://data/%s?%s", name, query);
	if (mnt_tessera(&mnt, "mkfs", mnt.fs, "-t", uri, "-z", "256k", NULL)) {
		mnt_show_log(&mnt, 20);
		return -1;
	}
	return mnt_mount(&mnt, "seal-idle=100ms,log=debug");
}

/* --- secrets --- */

static unsigned look_into(const char *path)
{
	FILE *f = fopen(path, "r");
	char *p = NULL;
	size_t n = 0;
	bool leaks;

	if (!f)
		return 0;
	/* Whole: a secret may lie across any boundary. */
	for (size_t cap = 1 << 20, did = 1; did > 0; cap *= 2) {
		p = realloc(p, cap);
		if (!p)
			abort();
		did = fread(p + n, 1, cap - n, f);
		n += did;
	}
	fclose(f);
	leaks = fakeobj_leaks(server, p, n);
	free(p);
	if (leaks)
		fprintf(stderr, "a secret is in %s\n", path);
	return leaks;
}

static unsigned look_below(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	unsigned n = 0;
	char path[1200];

	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (e->d_type == DT_DIR)
			n += look_below(path);
		else if (e->d_type == DT_REG)
			n += look_into(path);
	}
	if (d)
		closedir(d);
	return n;
}

/* What the daemon shows of itself, and what it keeps. */
static void look_for_secrets(void)
{
	static const char *const own[] = {
		"cmdline", "comm", "status", "mountinfo", "mounts", "maps", "limits",
	};
	unsigned n = 0;
	char path[600];

	for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)mnt.pid, own[i]);
		n += look_into(path);
	}
	n += look_into("/proc/self/mountinfo");
	/* These write into the log. */
	if (mnt_tessera(&mnt, "stats", mnt.dir, NULL) || mnt_tessera(&mnt, "df", mnt.dir, NULL))
		n++;
	n += look_into(mnt.log);
	n += look_below(mnt.fs);
	/* Looking finds. */
	n += !fakeobj_leaks(server, "x" FAKEOBJ_SECRET "y", sizeof(FAKEOBJ_SECRET) + 1);
	verdict(n == 0);
}

/* --- faults --- */

static void check_alive(void)
{
	if (mnt_alive(&mnt))
		return;
	fload_broken("load", "the daemon died");
	mnt_show_log(&mnt, 40);
	if (mnt_mount(&mnt, "seal-idle=100ms"))
		exit(1);
}

static void try_fault(unsigned i)
{
	unsigned errors = fload_errors, before = fload_bad;
	uint64_t hits = fakeobj_count(server, "all", "fault");
	char rule[64];

	snprintf(rule, sizeof(rule), "%s:every=%u:%s", faults[i].verb, faults[i].every,
		 faults[i].kind);
	fload_what("%s", rule);
	/* Again, with nothing in the caches. */
	if (mnt_remount(&mnt, "seal-idle=100ms")) {
		fload_broken("load", "mounting again");
		return;
	}
	if (fakeobj_rules(server, rule))
		abort();
	if (strcmp(faults[i].verb, "connect") == 0)
		fakeobj_kick(server);
	fload_look(true);
	fload_run();
	if (fakeobj_rules(server, ""))
		abort();
	check_alive();
	fload_mend();
	if (fakeobj_count(server, "any", "elsewhere"))
		fload_broken("load", "a redirect was followed");
	if (strcmp(faults[i].verb, "connect") != 0 && fakeobj_count(server, "all", "fault") == hits)
		fload_broken("load", "nothing went wrong at all");
	printf("%-28s %4llu faults, %2u errors seen%s\n", rule,
	       (unsigned long long)(fakeobj_count(server, "all", "fault") - hits),
	       fload_errors - errors, fload_bad > before ? ", BROKEN" : "");
	verdict(fload_bad == before);
}

static int finish(void)
{
	unsigned before = fload_bad;

	fload_what("the end");
	if (mnt_remount(&mnt, NULL))
		return -1;
	fload_look(false);
	if (mnt_umount(&mnt) || mnt_fsck(&mnt, true))
		fload_bad++;
	mnt_end(&mnt);
	verdict(fload_bad == before);
	return 0;
}

static int all_faults(const char *name, enum service s)
{
	const char *only = getenv("HTTP_FAULT");

	if (!wanted(name))
		return 0;
	if (begin(name, s, "retry=4&deadline=2s", 3600))
		return -1;
	fload_what("without faults");
	if (fload_init(&mnt))
		return -1;
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		/* Those of the documents of S3; and most of the transport's, which is the same. */
		if (s >= TEMPAUTH && (strncmp(faults[i].kind, "ok-error", 8) == 0 || i % 3 == 0))
			continue;
		if (!only || strstr(faults[i].kind, only))
			try_fault(i);
	}
	look_for_secrets();
	if (finish())
		return -1;
	fakeobj_stop(server);
	return 0;
}


/* --- credentials that end --- */

static int short_lives(const char *name, enum service s)
{
	unsigned life = (unsigned)mnt_env("HTTP_LIFE", 2), before = fload_bad, runs = 0;
	time_t until = time(NULL) + (time_t)mnt_env("HTTP_SECONDS", 6), mounted;
	uint64_t denied;

	if (!wanted(name))
		return 0;
	if (begin(name, s, "retry=12", life))
		return -1;
	fload_errors = 0;
	fload_what("%s", name);
	if (fload_init(&mnt))
		fload_broken("load", "making files");
	mounted = time(NULL);
	for (; time(NULL) < until && fload_errors == 0; runs++) {
		fload_run();
		usleep((useconds_t)mnt_env("HTTP_PAUSE", 0) * 1000);
		/* So that something is read from the server; not before its credentials ended. */
		if (time(NULL) - mounted > 2 * (time_t)life) {
			if (mnt_remount(&mnt, "seal-idle=100ms,log=debug"))
				return -1;
			mounted = time(NULL);
		}
	}
	look_for_secrets();
	denied = fakeobj_count(server, "any", "denied");
	printf("%-28s %u runs, %llu requests, %llu issued, %llu refused, %u errors seen\n", name, runs,
	       (unsigned long long)fakeobj_count(server, "any", "all"),
	       (unsigned long long)fakeobj_count(server, "any", "issued"),
	       (unsigned long long)denied, fload_errors);
	verdict(fload_errors == 0 && fload_bad == before && runs > 0 &&
		fakeobj_count(server, "any", "issued") > 1);
	if (finish())
		return -1;
	fakeobj_stop(server);
	return 0;
}

int main(void)
{
	int r;

	mnt_need();
	setvbuf(stdout, NULL, _IOLBF, 0);
	r = all_faults("s3-faults", STATIC);
	if (r == 0)
		r = all_faults("swift-faults", TEMPAUTH);
	if (r == 0 && !getenv("HTTP_FAULT")) {
		r |= short_lives("s3-instance", INSTANCE);
		r |= short_lives("swift-tempauth", TEMPAUTH);
		r |= short_lives("swift-keystone", KEYSTONE);
	}
	if (r) {
		fprintf(stderr, "no file system to test on\n");
		failures++;
	}
	printf("%u passed, %u failed\n", passed, failures);
	return failures != 0;
}
