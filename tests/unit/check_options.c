/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "unit.h"
#include <string.h>
#include <tessera/opt.h>
#include <tessera/tessera.h>

static struct tess_conf conf;
static char why[TESS_WHY];

static void setup(void)
{
	CLEAN(tess_conf_init(&conf));
	why[0] = '\0';
}

static void teardown(void)
{
	tess_conf_done(&conf);
}

START_TEST(defaults_are_those_of_the_rows)
{
	ck_assert(!conf.readonly);
	ck_assert(conf.default_permissions);
	ck_assert(!conf.atime);
	ck_assert_uint_eq(conf.commit_interval, UINT64_C(5000000000));
	ck_assert_uint_eq(conf.seal_idle, UINT64_C(1000000000));
	ck_assert_int_eq(conf.fsync_how, 0);
	ck_assert_ptr_null(conf.generic);
	ck_assert_int_eq(conf.mode, 0);
	ck_assert(conf.cto);
	ck_assert_uint_eq(conf.lease, UINT64_C(30000000000));
	ck_assert_uint_eq(conf.given, 0);
}
END_TEST

START_TEST(what_was_given_is_told_from_what_was_not)
{
	CLEAN(tess_conf_parse(&conf, "attr-time=0,nowriteback-cache,mode=lazy,interval=1d,nocto", why));
	ck_assert_uint_eq(conf.given, TESS_GIVEN_ATTR | TESS_GIVEN_WRITEBACK | TESS_GIVEN_INTERVAL);
	ck_assert_uint_eq(conf.attr_time, 0);
	ck_assert(!conf.writeback_cache && !conf.cto);
	ck_assert_uint_eq(conf.interval, UINT64_C(86400000000000));
}
END_TEST

START_TEST(names_of_dfuse_are_taken)
{
	CLEAN(tess_conf_parse(&conf,
			      "dfuse-attr-time=5m,dfuse-dentry-time=7,dfuse-dentry-dir-time=2h,"
			      "dfuse-ndentry-time=1s,dfuse-data-cache=otoc",
			      why));
	ck_assert_uint_eq(conf.attr_time, UINT64_C(300000000000));
	ck_assert_uint_eq(conf.dentry_time, UINT64_C(7000000000));
	ck_assert_uint_eq(conf.dentry_dir_time, UINT64_C(7200000000000));
	ck_assert_uint_eq(conf.ndentry_time, UINT64_C(1000000000));
	ck_assert_str_eq(conf.data_cache, "otoc");
	ck_assert_uint_eq(conf.given, TESS_GIVEN_ATTR | TESS_GIVEN_DENTRY | TESS_GIVEN_DENTRY_DIR |
					      TESS_GIVEN_NDENTRY);
	ck_assert_int_eq(tess_conf_parse(&conf, "dfuse-cache-size=1M", why), -TESS_E_OPT_UNKNOWN);
}
END_TEST

START_TEST(atime_is_a_switch_and_three_words)
{
	static const struct {
		const char *list;
		int atime;
	} rows[] = {
		{ "atime", 1 }, { "atime=on", 1 }, { "atime=1", 1 }, { "atime=rel", 1 }, { "atime=strict", 2 },
		{ "atime=off", 0 }, { "atime=no", 0 }, { "atime=0", 0 }, { "atime=strict,noatime", 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEAN(tess_conf_parse(&conf, rows[i].list, why));
		ck_assert_msg(conf.atime == rows[i].atime, "%s", rows[i].list);
	}
}
END_TEST

START_TEST(options_are_parsed_by_type)
{
	CLEAN(tess_conf_parse(&conf, "ro,cache-size=1G,fsync=target,seal-idle=20ms,atime,threads=7", why));
	ck_assert(conf.readonly);
	ck_assert_uint_eq(conf.cache_size, UINT64_C(1) << 30);
	ck_assert_int_eq(conf.fsync_how, 2);
	ck_assert_uint_eq(conf.seal_idle, 20000000);
	ck_assert(conf.atime);
	ck_assert_uint_eq(conf.threads, 7);
}
END_TEST

START_TEST(the_last_of_ro_and_rw_wins)
{
	CLEAN(tess_conf_parse(&conf, "ro,rw", why));
	ck_assert(!conf.readonly);
	CLEAN(tess_conf_parse(&conf, "rw,ro", why));
	ck_assert(conf.readonly);
}
END_TEST

START_TEST(what_mount_and_fstab_say_is_accepted)
{
	CLEAN(tess_conf_parse(&conf,
			      "defaults,auto,noauto,user,users,nofail,_netdev,relatime,x-systemd.automount,"
			      "x-a=b,comment=c,strictatime,,owner",
			      why));
	ck_assert_ptr_null(conf.generic);
	ck_assert(!conf.atime);
}
END_TEST

START_TEST(kernel_flags_are_kept_in_order)
{
	CLEAN(tess_conf_parse(&conf, "nosuid,cache-size=1M,nodev,exec", why));
	ck_assert_str_eq(conf.generic, "nosuid,nodev,exec");
	CLEAN(tess_conf_parse(&conf, "suid", why));
	ck_assert_str_eq(conf.generic, "nosuid,nodev,exec,suid");
}
END_TEST

START_TEST(noatime_switches_atime_off)
{
	CLEAN(tess_conf_parse(&conf, "atime,noatime", why));
	ck_assert(!conf.atime);
}
END_TEST

START_TEST(semicolons_stand_for_commas_in_lists)
{
	CLEAN(tess_conf_parse(&conf, "log=io=debug;store=error,ro", why));
	ck_assert_str_eq(conf.log, "io=debug,store=error");
	ck_assert(conf.readonly);
}
END_TEST

static const struct {
	const char *list, *says;
	int err;
} bad[] = {
	{ "colour=red", "colour", -TESS_E_OPT_UNKNOWN },
	{ "cache-size=lots", "lots", -TESS_E_OPT_VALUE },
	{ "cache-size=-1", "cache-size", -TESS_E_OPT_VALUE },
	{ "fsync=maybe", "auto, local, target", -TESS_E_OPT_VALUE },
	{ "commit-interval=0", "commit-interval", -TESS_E_OPT_VALUE },
	{ "max-write=2M", "at most 1M", -TESS_E_OPT_VALUE },
	{ "threads=1000", "256", -TESS_E_OPT_VALUE },
	{ "threads=18446744073709551616", "threads", -TESS_E_OPT_VALUE },
	{ "remount,ro", "remount", -TESS_E_OPT_VALUE },
	{ "ro=perhaps", "perhaps", -TESS_E_OPT_VALUE },
	{ "mode=posix", "strict, commit, session, laminate, lazy, private", -TESS_E_OPT_VALUE },
	{ "locks=maybe", "global, local, off", -TESS_E_OPT_VALUE },
	{ "atime=sometimes", "no, rel, strict", -TESS_E_OPT_VALUE },
	{ "data-cache=maybe", "otoc", -TESS_E_OPT_VALUE },
	{ "interval=1ms", "10ms", -TESS_E_OPT_VALUE },
	{ "lease=1ms", "at least 1s", -TESS_E_OPT_VALUE },
};

START_TEST(a_bad_option_is_named_in_one_line)
{
	ck_assert_int_eq(tess_conf_parse(&conf, bad[_i].list, why), bad[_i].err);
	ck_assert_msg(strstr(why, bad[_i].says), "'%s' does not name '%s'", why, bad[_i].says);
	ck_assert_ptr_null(strchr(why, '\n'));
}
END_TEST

START_TEST(every_row_has_help_and_parses_its_own_default)
{
	for (const struct tess_opt *o = tess_mount_opts(); o->name; o++) {
		char list[128];

		ck_assert_msg(o->help && *o->help, "%s has no help", o->name);
		ck_assert_ptr_null(strchr(o->name, ','));
		if (!o->dflt)
			continue;
		snprintf(list, sizeof(list), "%s=%s", o->name, o->dflt);
		ck_assert_msg(!tess_conf_parse(&conf, list, why), "%s: %s", list, why);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("options");
	TCase *c = tcase_create("options");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, defaults_are_those_of_the_rows);
	tcase_add_test(c, what_was_given_is_told_from_what_was_not);
	tcase_add_test(c, names_of_dfuse_are_taken);
	tcase_add_test(c, atime_is_a_switch_and_three_words);
	tcase_add_test(c, options_are_parsed_by_type);
	tcase_add_test(c, the_last_of_ro_and_rw_wins);
	tcase_add_test(c, what_mount_and_fstab_say_is_accepted);
	tcase_add_test(c, kernel_flags_are_kept_in_order);
	tcase_add_test(c, noatime_switches_atime_off);
	tcase_add_test(c, semicolons_stand_for_commas_in_lists);
	tcase_add_loop_test(c, a_bad_option_is_named_in_one_line, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(c, every_row_has_help_and_parses_its_own_default);
	suite_add_tcase(s, c);
	return unit_run(s);
}
