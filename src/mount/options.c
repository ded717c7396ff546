/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "base/fault.h"
#include "base/opt.h"
#include "base/scoped.h"
#include "mount/mount.h"
#include <string.h>
#include <tessera/opt.h>

static const char *const options_fsync[] = { "auto", "local", "target", NULL };

#define ROW(n, t, f, d, lo, hi, w, h)                                                           \
	{ .name = (n), .type = TESS_OPT_##t, .when = TESS_AT_MOUNT,                             \
	  .at = offsetof(struct tess_conf, f), .dflt = (d), .min = (lo), .max = (hi),           \
	  .words = (w), .help = (h) }
#define MIB(n) ((uint64_t)(n) << 20)
#define SEC(n) ((uint64_t)(n)*1000000000u)

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
	ROW("commit-interval", TIME, commit_interval, "5s", 1000000, SEC(3600), NULL,
	    "longest time until a change survives a power cut by itself"),
	ROW("seal-idle", TIME, seal_idle, "1s", 1000000, SEC(3600), NULL,
	    "how long an open segment may idle before it goes to its targets"),
	ROW("readahead", SIZE, readahead, "16M", 0, MIB(1024), NULL,
	    "bytes fetched ahead of a sequential reader; 0: the default"),
	ROW("atime", BOOL, atime, "off", 0, 0, NULL, "update access times, by the relatime rule"),
	ROW("threads", UINT, threads, "0", 0, 256, NULL,
	    "threads that serve the kernel; 0: 32, with a target behind a network 128"),
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

static int options_word(struct tess_conf *conf, char *word, struct text *why)
{
	char *value;
	int err;

	if (!*word || options_in(options_dropped, word) || options_starts(options_dropped_prefix, word)) {
		if (!strcmp(word, "rw"))
			conf->readonly = false;
		return 0;
	}
	if (options_in(options_kernel, word)) {
		if (!strcmp(word, "noatime"))
			conf->atime = false;
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
	err = opt_set(options_rows, conf, TESS_AT_MOUNT, word, value, why);
	if (!err && (!strcmp(word, "log") || !strcmp(word, "faults")))
		options_commas(!strcmp(word, "log") ? conf->log : conf->faults);
	return err;
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
