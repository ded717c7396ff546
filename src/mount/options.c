/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "base/fault.h"
#include "base/opt.h"
#include "base/scoped.h"
#include "mount/mount.h"
#include <string.h>
#include <tessera/opt.h>

static const char *const options_fsync[] = { "auto", "local", "target", NULL };
/* Their order is that of enum tess_mode and of struct policy_opts. */
static const char *const options_mode[] = { "default", "strict",   "commit", "session",
					    "laminate", "lazy", "private", NULL };
static const char *const options_locks[] = { "default", "global", "local", "off", NULL };
static const char *const options_append[] = { "default", "atomic", "local", NULL };
static const char *const options_exact[] = { "default", "strict", "lazy", NULL };
static const char *const options_meta[] = { "default", "strict", "relaxed", NULL };
static const char *const options_atime[] = { "no", "rel", "strict", NULL };
static const char *const options_drain[] = { "eager", "close", "idle", "manual", NULL };

#define ROW(n, t, f, d, lo, hi, w, h)                                                           \
	{ .name = (n), .type = TESS_OPT_##t, .when = TESS_AT_MOUNT,                             \
	  .at = offsetof(struct tess_conf, f), .dflt = (d), .min = (lo), .max = (hi),           \
	  .words = (w), .help = (h) }
#define MIB(n) ((uint64_t)(n) << 20)
#define SEC(n) ((uint64_t)(n)*1000000000u)
#define MSEC(n) ((uint64_t)(n)*1000000u)
#define DAY SEC(86400)

/* 0 means "chosen at mount" where the help says so. */
static const struct tess_opt options_rows[] = {
	ROW("ro", BOOL, readonly, NULL, 0, 0, NULL, "refuse every change"),
	ROW("cache-size", SIZE, cache_size, "0", 0, 0, NULL,
	    "memory for write buffers, read-ahead and caches; 0: a quarter of what there is"),
	ROW("staging", STRING, staging, NULL, 0, 0, NULL,
	    "directory for open segments, on a local disk; kept for later mounts"),
	ROW("staging-size", SIZE, staging_size, "0", 0, 0, NULL,
	    "limit of the staging area; 0: 1G, at most a quarter of the free space"),
	ROW("fsync", ENUM, fsync_how, "auto", 0, 0, options_fsync,
	    "where fsync puts data before it returns; auto: local when all targets are"),
	ROW("drain", ENUM, drain, "eager", 0, 0, options_drain,
	    "when staged data goes to its targets; but for eager, all data is staged first"),
	ROW("write-tier", STRING, write_tier, NULL, 0, 0, NULL, "tier of targets that new segments are put on"),
	ROW("rest-tier", STRING, rest_tier, NULL, 0, 0, NULL,
	    "tier of targets where segments belong: others are moved there in the background"),
	ROW("commit-interval", TIME, commit_interval, "5s", 1000000, SEC(3600), NULL,
	    "longest time until a change survives a power cut by itself"),
	ROW("seal-idle", TIME, seal_idle, "1s", 1000000, SEC(3600), NULL,
	    "how long an open segment may idle before it goes to its targets"),
	ROW("readahead", SIZE, readahead, "16M", 0, MIB(1024), NULL,
	    "bytes fetched ahead of a sequential reader; 0: the default"),
	ROW("mode", ENUM, mode, "default", 0, 0, options_mode,
	    "what other mounts see when; default: as mkfs said, else session"),
	ROW("locks", ENUM, locks, "default", 0, 0, options_locks,
	    "who sees locks: every mount, this one; off: locking is refused"),
	ROW("append", ENUM, append, "default", 0, 0, options_append,
	    "whether O_APPEND is atomic between mounts"),
	ROW("size", ENUM, size_how, "default", 0, 0, options_exact,
	    "whether other mounts' sizes may be old for a moment"),
	ROW("mtime", ENUM, mtime_how, "default", 0, 0, options_exact,
	    "whether other mounts' modification times may be old for a moment"),
	ROW("meta", ENUM, meta_how, "default", 0, 0, options_meta,
	    "relaxed: drop metadata that the mapping of files to objects does not need"),
	ROW("atime", ENUM, atime, "no", 0, 0, options_atime,
	    "update access times: not, by the relatime rule, at each close after a read"),
	ROW("cto", BOOL, cto, "on", 0, 0, NULL, "an open looks for what others closed; nocto: not within actimeo"),
	ROW("actimeo", TIME, actimeo, "0", 0, 366 * DAY, NULL,
	    "how long the kernel remembers names and attributes; not given: the mode's"),
	ROW("interval", TIME, interval, "5s", MSEC(10), DAY, NULL,
	    "mode lazy's time until others see a change"),
	ROW("lease", TIME, lease, "30s", SEC(1), SEC(3600), NULL,
	    "how long this mount may not answer before another that needs what it holds shuts it out"),
	ROW("writeback-cache", BOOL, writeback_cache, NULL, 0, 0, NULL,
	    "the kernel collects writes; not given: the mode's"),
	ROW("direct-io", BOOL, direct_io, NULL, 0, 0, NULL,
	    "pass the kernel's page cache by; not given: the mode's"),
	ROW("attr-time", TIME, attr_time, "0", 0, 366 * DAY, NULL,
	    "how long the kernel remembers attributes; as dfuse-attr-time of DFuse"),
	ROW("dentry-time", TIME, dentry_time, "0", 0, 366 * DAY, NULL,
	    "how long the kernel remembers names; as dfuse-dentry-time"),
	ROW("dentry-dir-time", TIME, dentry_dir_time, "0", 0, 366 * DAY, NULL,
	    "how long the kernel remembers names of directories; as dfuse-dentry-dir-time"),
	ROW("ndentry-time", TIME, ndentry_time, "0", 0, 366 * DAY, NULL,
	    "how long the kernel remembers that a name is not there; as dfuse-ndentry-time"),
	ROW("data-cache", STRING, data_cache, NULL, 0, 0, NULL,
	    "keep pages after close: on, off (also none while open), otoc or a time; as dfuse-data-cache"),
	ROW("threads", UINT, threads, "0", 0, 256, NULL,
	    "threads that serve the kernel; 0: 32, with a target behind a network 128"),
	ROW("hung-request", TIME, hung_request, "60s", 0, SEC(86400), NULL,
	    "age at which the log tells of a request and what it waits for; 0: never"),
	ROW("max-write", SIZE, max_write, "1M", 4096, MIB(1), NULL, "largest write request of the kernel"),
	ROW("allow_other", BOOL, allow_other, NULL, 0, 0, NULL,
	    "other users may enter; always so for root's mounts"),
	ROW("allow_root", BOOL, allow_root, NULL, 0, 0, NULL, "root may enter too"),
	ROW("default_permissions", BOOL, default_permissions, "on", 0, 0, NULL,
	    "the kernel checks modes and ACLs"),
	ROW("foreground", BOOL, foreground, NULL, 0, 0, NULL, "stay in the foreground; also -f"),
	ROW("debug", BOOL, debug_fuse, NULL, 0, 0, NULL, "print each request, in the foreground"),
	ROW("log", STRING, log, NULL, 0, 0, NULL, "log level, of all or by module: io=debug;store=debug"),
	ROW("faults", STRING, faults, NULL, 0, 0, NULL, "arm fault points, for tests"),
	ROW("boot-id", STRING, boot_id, NULL, 0, 0, NULL, "pretend another boot of the host, for tests"),
	ROW("meta-latency", TIME, meta_latency, "0", 0, SEC(1), NULL,
	    "each transaction of the namespace takes so much longer, for measuring"),
	{ 0 },
};

const struct tess_opt *tess_mount_opts(void)
{
	return options_rows;
}

int tess_conf_init(struct tess_conf *conf)
{
	memset(conf, 0, sizeof(*conf));
	return opt_init(options_rows, conf);
}

void tess_conf_done(struct tess_conf *conf)
{
	scoped_free char *generic = steal_ptr(conf->generic);

	opt_done(options_rows, conf);
}

/* Options of mount(8) that the kernel acts on: libfuse knows them by these names. */
static const char *const options_kernel[] = {
	"suid", "nosuid", "dev", "nodev", "exec", "noexec", "sync", "async", "dirsync", "noatime",
	"nodiratime", "norelatime", NULL,
};
/* What fstab(5) and mount(8) say to themselves, and kernel defaults. */
static const char *const options_dropped[] = {
	"rw", "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail",
	"fail", "_netdev", "relatime", "strictatime", "nostrictatime", "diratime", "lazytime",
	"nolazytime", "iversion", "noiversion", "mand", "nomand", "loud", "silent", "nosymfollow",
	"_rnetdev", "noowner", "nogroup", "nousers", NULL,
};
static const char *const options_dropped_prefix[] = {
	"x-", "X-", "comment=", "user=", "uhelper=", "helper=", "context=", "fscontext=",
	"defcontext=", "rootcontext=", "fsname=", "subtype=", NULL,
};

static bool options_in(const char *const *words, const char *s)
{
	for (; *words; words++)
		if (!strcmp(*words, s))
			return true;
	return false;
}

static bool options_starts(const char *const *prefixes, const char *s)
{
	for (; *prefixes; prefixes++)
		if (!strncmp(*prefixes, s, strlen(*prefixes)))
			return true;
	return false;
}

static int options_add_generic(struct tess_conf *conf, const char *word)
{
	char *s = conf->generic ? mem_printf("%s,%s", conf->generic, word) : mem_strdup(word);

	if (!s)
		return -ENOMEM;
	free(conf->generic);
	conf->generic = s;
	return 0;
}

/* Level lists have commas of their own, which -o already uses: there they are semicolons. */
static void options_commas(char *s)
{
	for (; s && *s; s++)
		if (*s == ';')
			*s = ',';
}

/* Options whose 0 says something: that they were given is kept apart. */
static const struct {
	const char *name;
	uint32_t bit;
} options_given[] = {
	{ "writeback-cache", TESS_GIVEN_WRITEBACK }, { "direct-io", TESS_GIVEN_DIRECT },
	{ "interval", TESS_GIVEN_INTERVAL },	     { "actimeo", TESS_GIVEN_ACTIMEO },
	{ "attr-time", TESS_GIVEN_ATTR },	     { "dentry-time", TESS_GIVEN_DENTRY },
	{ "dentry-dir-time", TESS_GIVEN_DENTRY_DIR }, { "ndentry-time", TESS_GIVEN_NDENTRY },
};

static void options_note(struct tess_conf *conf, const char *name)
{
	/* "nowriteback-cache" is given as well. */
	const char *bare = !strncmp(name, "no", 2) ? name + 2 : name;

	for (size_t i = 0; i < ARRAY_SIZE(options_given); i++)
		if (!strcmp(options_given[i].name, name) || !strcmp(options_given[i].name, bare))
			conf->given |= options_given[i].bit;
}

/* What `atime` was, a switch, and what DFuse calls its own. */
static void options_old_names(const char **name, const char **value)
{
	static const char *const yes[] = { "on", "yes", "true", "1", NULL };
	static const char *const no[] = { "off", "false", "0", NULL };
	static const char *const dfuse[] = { "dfuse-attr-time", "dfuse-dentry-time",
					     "dfuse-dentry-dir-time", "dfuse-ndentry-time",
					     "dfuse-data-cache", NULL };

	if (options_in(dfuse, *name))
		*name += strlen("dfuse-");
	if (strcmp(*name, "atime"))
		return;
	if (!*value || options_in(yes, *value))
		*value = "rel";
	else if (options_in(no, *value))
		*value = "no";
}

static int options_check(const struct tess_conf *conf, const char *name, struct text *why)
{
	struct policy_opts o;

	if (!strcmp(name, "data-cache") && mount_data_cache(conf->data_cache, &o) < 0) {
		text_fmt(why, "option data-cache: \"%s\" is not on, off, otoc or a time like 600s",
			 conf->data_cache);
		return -TESS_E_OPT_VALUE;
	}
	return 0;
}

static int options_set(struct tess_conf *conf, const char *name, const char *value, struct text *why)
{
	int err;

	options_old_names(&name, &value);
	err = opt_set(options_rows, conf, TESS_AT_MOUNT, name, value, why);
	if (err)
		return err;
	options_note(conf, name);
	if (!strcmp(name, "log") || !strcmp(name, "faults"))
		options_commas(!strcmp(name, "log") ? conf->log : conf->faults);
	return options_check(conf, name, why);
}

static int options_word(struct tess_conf *conf, char *word, struct text *why)
{
	char *value;

	if (!*word || options_in(options_dropped, word) || options_starts(options_dropped_prefix, word)) {
		if (!strcmp(word, "rw"))
			conf->readonly = false;
		return 0;
	}
	if (options_in(options_kernel, word)) {
		if (!strcmp(word, "noatime"))
			conf->atime = 0;
		return options_add_generic(conf, word);
	}
	if (!strcmp(word, "remount") || !strcmp(word, "bind")) {
		text_fmt(why, "option %s: not possible with a FUSE file system: unmount and mount again",
			 word);
		return -TESS_E_OPT_VALUE;
	}
	value = strchr(word, '=');
	if (value)
		*value++ = '\0';
	return options_set(conf, word, value, why);
}

int tess_conf_parse(struct tess_conf *conf, const char *list, char *why)
{
	scoped_free char *copy = mem_strdup(list);
	struct text w = TEXT_INIT;
	char *word = copy;
	int err = copy ? 0 : -ENOMEM;

	while (!err && word) {
		char *next = strchr(word, ',');

		if (next)
			*next++ = '\0';
		err = options_word(conf, word, &w);
		word = next;
	}
	if (err)
		err = mount_why(why, &w, err);
	text_done(&w);
	return err;
}
