/* SPDX-License-Identifier: Apache-2.0 */
/* layer: fs */
#include "unit.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "fs/policy.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static const struct policy_opts none = POLICY_OPTS_INIT;

static struct tess_policy made(const struct policy_opts *o)
{
	struct tess_policy p;
	struct text why = TEXT_INIT;

	ck_assert_msg(!policy_make(o, &p, &why), "%s", text_str(&why));
	text_done(&why);
	return p;
}

/* By their words, since a struct has holes. */
static bool same(const struct tess_policy *a, const struct tess_policy *b)
{
	struct text x = TEXT_INIT, y = TEXT_INIT;
	bool ret;

	policy_text(a, true, &x);
	policy_text(b, true, &y);
	ret = !strcmp(text_str(&x), text_str(&y)) && a->given == b->given;
	text_done(&x);
	text_done(&y);
	return ret;
}

START_TEST(each_preset_is_made_from_its_name_and_names_itself)
{
	for (unsigned i = MODE_NONE + 1; i < MODE_COUNT; i++) {
		struct policy_opts o = none;
		struct tess_policy p;

		ck_assert_uint_eq(policy_mode(policy_presets[i].name), i);
		o.mode = (enum tess_mode)i;
		p = made(&o);
		ck_assert_msg(same(&p, &policy_presets[i]), "%s", policy_presets[i].name);
	}
	ck_assert_uint_eq(policy_mode("posix"), MODE_NONE);
	ck_assert_uint_eq(made(&none).mode, MODE_SESSION);
}
END_TEST

/* ---- contradictions: every single flag under every mode ---- */

#define LEGAL(s, c, e, l, z, p) { [MODE_STRICT] = (s), [MODE_COMMIT] = (c), [MODE_SESSION] = (e), \
				  [MODE_LAMINATE] = (l), [MODE_LAZY] = (z), [MODE_PRIVATE] = (p) }
static const struct flag {
	const char *name;
	size_t at, n;
	int64_t v;
	bool legal[MODE_COUNT];
} flags[] = {
#define FLAG(n, f, v, ...) \
	{ n, offsetof(struct policy_opts, f), sizeof(none.f), (v), LEGAL(__VA_ARGS__) }
	FLAG("writeback-cache", writeback, SWITCH_ON, 0, 0, 0, 0, 0, 1),
	FLAG("writeback-cache=off", writeback, SWITCH_OFF, 1, 1, 1, 1, 1, 1),
	FLAG("direct-io", direct_io, SWITCH_ON, 1, 1, 1, 1, 1, 1),
	FLAG("direct-io=off", direct_io, SWITCH_OFF, 1, 1, 1, 1, 1, 1),
	FLAG("nocto", nocto, true, 0, 0, 1, 0, 1, 0),
	FLAG("meta=relaxed", meta, OPT_LAX, 0, 1, 1, 1, 1, 1),
	FLAG("meta=strict", meta, OPT_STRICT, 1, 1, 1, 1, 1, 1),
	FLAG("append=local", append, OPT_APPEND_LOCAL, 0, 1, 1, 1, 1, 1),
	FLAG("append=atomic", append, OPT_APPEND_ATOMIC, 1, 1, 1, 1, 1, 1),
	FLAG("size=lazy", size, OPT_LAX, 0, 1, 1, 1, 1, 1),
	FLAG("size=strict", size, OPT_STRICT, 1, 1, 1, 1, 1, 1),
	FLAG("mtime=lazy", mtime, OPT_LAX, 0, 1, 1, 1, 1, 1),
	FLAG("mtime=strict", mtime, OPT_STRICT, 1, 1, 1, 1, 1, 1),
	FLAG("locks=global", locks, OPT_LOCKS_GLOBAL, 1, 1, 1, 1, 1, 0),
	FLAG("locks=local", locks, OPT_LOCKS_LOCAL, 0, 1, 1, 1, 1, 1),
	FLAG("locks=off", locks, OPT_LOCKS_OFF, 1, 1, 1, 1, 1, 1),
	FLAG("interval=1s", interval, NS_PER_S, 1, 1, 1, 1, 1, 1),
	FLAG("actimeo=5s", actimeo, 5 * NS_PER_S, 0, 1, 1, 1, 1, 1),
	FLAG("actimeo=0", actimeo, 0, 1, 1, 1, 1, 1, 1),
	FLAG("attr-time=5s", attr_time, 5 * NS_PER_S, 0, 1, 1, 1, 1, 1),
	FLAG("attr-time=0", attr_time, 0, 1, 1, 1, 1, 1, 1),
	FLAG("dentry-time=5s", dentry_time, 5 * NS_PER_S, 0, 1, 1, 1, 1, 1),
	FLAG("dentry-dir-time=5s", dentry_dir_time, 5 * NS_PER_S, 0, 1, 1, 1, 1, 1),
	FLAG("ndentry-time=5s", ndentry_time, 5 * NS_PER_S, 0, 1, 1, 1, 1, 1),
	FLAG("data-cache=on", data_cache, DATA_ON, 0, 0, 1, 1, 1, 1),
	FLAG("data-cache=otoc", data_cache, DATA_OTOC, 0, 0, 1, 1, 1, 1),
	FLAG("data-cache=TIME", data_cache, DATA_TIME, 0, 0, 1, 1, 1, 1),
	FLAG("data-cache=off", data_cache, DATA_OFF, 1, 1, 1, 1, 1, 1),
};
#define NFLAGS (sizeof(flags) / sizeof(flags[0]))

static void say(struct policy_opts *o, const struct flag *f)
{
	char *at = (char *)o + f->at;

	if (f->n == sizeof(bool))
		*(bool *)at = f->v;
	else if (f->n == sizeof(int))
		*(int *)(void *)at = (int)f->v;
	else
		*(int64_t *)(void *)at = f->v;
}

/* The part of a name before '=', as the line has it. */
static bool names(const char *line, const char *flag)
{
	char word[64];

	snprintf(word, sizeof(word), "%.*s", (int)strcspn(flag, "="), flag);
	return strstr(line, word) != NULL;
}

START_TEST(each_flag_goes_with_each_mode_or_is_refused_in_one_line_that_names_both)
{
	for (unsigned m = MODE_NONE + 1; m < MODE_COUNT; m++) {
		struct policy_opts o = none;
		struct text why = TEXT_INIT;
		struct tess_policy p;
		char mode[32];
		int err;

		say(&o, &flags[_i]);
		o.mode = (enum tess_mode)m;
		err = policy_make(&o, &p, &why);
		ck_assert_msg(err == (flags[_i].legal[m] ? 0 : -TESS_E_OPT_VALUE), "mode=%s,%s: %d %s",
			      policy_presets[m].name, flags[_i].name, err, text_str(&why));
		snprintf(mode, sizeof(mode), "mode=%s,", policy_presets[m].name);
		if (err)
			ck_assert_msg(strstr(text_str(&why), mode) && names(text_str(&why), flags[_i].name) &&
					      !strchr(text_str(&why), '\n'), "%s", text_str(&why));
		text_done(&why);
	}
}
END_TEST

static const struct {
	const char *a, *b;
} pairs[] = {
	{ "writeback-cache", "direct-io" },	{ "writeback-cache", "data-cache=off" },
	{ "direct-io", "data-cache=on" },	{ "direct-io", "data-cache=otoc" },
	{ "direct-io", "data-cache=TIME" },	{ "nocto", "direct-io" },
	{ "nocto", "data-cache=off" },		{ "size=strict", "attr-time=5s" },
	{ "mtime=strict", "attr-time=5s" },	{ "size=strict", "actimeo=5s" },
	{ "mtime=strict", "actimeo=5s" },
};

static bool contradict(const char *a, const char *b)
{
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if ((!strcmp(pairs[i].a, a) && !strcmp(pairs[i].b, b)) ||
		    (!strcmp(pairs[i].a, b) && !strcmp(pairs[i].b, a)))
			return true;
	return false;
}

/* Under session, which takes each of them alone; but private where one of them is for that only. */
START_TEST(each_pair_of_flags_goes_together_or_is_refused_by_both_names)
{
	for (size_t j = 0; j < NFLAGS; j++) {
		struct policy_opts o = none;
		bool bad = contradict(flags[_i].name, flags[j].name);
		struct text why = TEXT_INIT;
		struct tess_policy p;
		int err;

		if (names(flags[j].name, flags[_i].name))
			continue;	/* two values of one option: the last one is what is said */
		if (flags[_i].legal[MODE_SESSION] < flags[_i].legal[MODE_PRIVATE] ||
		    flags[j].legal[MODE_SESSION] < flags[j].legal[MODE_PRIVATE])
			o.mode = MODE_PRIVATE;
		if (o.mode && (!flags[_i].legal[o.mode] || !flags[j].legal[o.mode]))
			continue;
		say(&o, &flags[_i]);
		say(&o, &flags[j]);
		err = policy_make(&o, &p, &why);
		ck_assert_msg(!err == !bad, "%s,%s: %d %s", flags[_i].name, flags[j].name, err, text_str(&why));
		if (bad)
			ck_assert_msg(names(text_str(&why), flags[_i].name) && names(text_str(&why), flags[j].name),
				      "%s", text_str(&why));
		text_done(&why);
	}
}
END_TEST

START_TEST(a_mode_that_is_not_the_mounts_own_says_whose_it_is)
{
	struct policy_opts o = none;
	struct text why = TEXT_INIT;
	struct tess_policy p;

	o.mode = MODE_STRICT;
	o.mode_from = " (of the file system)";
	o.nocto = true;
	ck_assert_int_eq(policy_make(&o, &p, &why), -TESS_E_OPT_VALUE);
	ck_assert_ptr_nonnull(strstr(text_str(&why), "mode=strict (of the file system),nocto"));
	text_done(&why);
}
END_TEST

/* ---- what the flags do ---- */

START_TEST(dfuses_rule_sets_what_is_left_out_to_nothing)
{
	struct policy_opts o = none;
	struct tess_policy p;

	o.attr_time = 5 * NS_PER_S;
	p = made(&o);
	ck_assert_int_eq(p.attr_ttl, 5 * NS_PER_S);
	ck_assert_int_eq(p.entry_ttl, 0);
	ck_assert_int_eq(p.dir_ttl, 0);
	ck_assert_int_eq(p.negative_ttl, 0);
	ck_assert(p.direct_io && !p.keep_cache);

	o = none;
	o.dentry_time = 7 * NS_PER_S;
	o.data_cache = DATA_OTOC;
	p = made(&o);
	ck_assert_int_eq(p.attr_ttl, 0);
	ck_assert_int_eq(p.entry_ttl, 7 * NS_PER_S);
	ck_assert_int_eq(p.dir_ttl, 7 * NS_PER_S);
	ck_assert(!p.direct_io && !p.keep_cache);

	o.dentry_dir_time = NS_PER_S;
	o.data_cache = DATA_TIME;
	o.data_time = 600 * NS_PER_S;
	p = made(&o);
	ck_assert_int_eq(p.dir_ttl, NS_PER_S);
	ck_assert(p.keep_cache);
	ck_assert_int_eq(p.data_ttl, 600 * NS_PER_S);

	p = made(&none);
	ck_assert_int_eq(p.attr_ttl, POLICY_AUTO);
	ck_assert(p.keep_cache && !p.direct_io);
}
END_TEST

START_TEST(actimeo_sets_all_four_times_and_gives_way_to_those_that_are_named)
{
	struct policy_opts o = none;
	struct tess_policy p;

	o.actimeo = 9 * NS_PER_S;
	o.ndentry_time = 0;
	p = made(&o);
	ck_assert_int_eq(p.attr_ttl, 9 * NS_PER_S);
	ck_assert_int_eq(p.entry_ttl, 9 * NS_PER_S);
	ck_assert_int_eq(p.dir_ttl, 9 * NS_PER_S);
	ck_assert_int_eq(p.negative_ttl, 0);
	ck_assert(p.keep_cache);
}
END_TEST

START_TEST(the_interval_makes_lazys_times_and_nobody_elses)
{
	struct policy_opts o = none;
	struct tess_policy p, q;

	o.interval = 200 * NS_PER_MS;
	p = made(&o);
	ck_assert_int_eq(p.attr_ttl, POLICY_AUTO);
	policy_resolve(&p, MODE_LAZY, &q);
	ck_assert_int_eq(q.interval, 200 * NS_PER_MS);
	ck_assert_int_eq(q.attr_ttl, 50 * NS_PER_MS);
	o.mode = MODE_LAZY;
	p = made(&o);
	ck_assert_int_eq(p.interval, 200 * NS_PER_MS);
	ck_assert_int_eq(p.entry_ttl, 50 * NS_PER_MS);
}
END_TEST

START_TEST(size_and_mtime_decide_together_whether_the_kernel_remembers_attributes)
{
	struct policy_opts o = none;

	o.size = OPT_LAX;
	ck_assert_int_eq(made(&o).attr_ttl, POLICY_AUTO);
	o.mtime = OPT_LAX;
	ck_assert_int_eq(made(&o).attr_ttl, NS_PER_S);
	o = none;
	o.mode = MODE_LAZY;
	ck_assert_int_gt(made(&o).attr_ttl, 0);
	o.size = OPT_STRICT;
	ck_assert_int_eq(made(&o).attr_ttl, POLICY_AUTO);
}
END_TEST

START_TEST(nocto_trusts_what_was_looked_at_for_a_while)
{
	struct policy_opts o = none;
	struct tess_policy p;

	o.nocto = true;
	p = made(&o);
	ck_assert_int_eq(p.refresh, REFRESH_INTERVAL);
	ck_assert_int_gt(p.attr_ttl, 0);
	ck_assert_int_gt(p.interval, 0);
	ck_assert(p.keep_cache);
	o.actimeo = 30 * NS_PER_S;
	p = made(&o);
	ck_assert_int_eq(p.attr_ttl, 30 * NS_PER_S);
	ck_assert_int_eq(p.interval, 60 * NS_PER_S);
}
END_TEST

START_TEST(a_private_tree_has_writeback_unless_told_otherwise)
{
	struct policy_opts o = none;

	o.mode = MODE_PRIVATE;
	ck_assert(made(&o).kernel_writeback);
	o.writeback = SWITCH_OFF;
	ck_assert(!made(&o).kernel_writeback);
	o.writeback = SWITCH_PRESET;
	o.direct_io = SWITCH_ON;
	ck_assert(!made(&o).kernel_writeback);
}
END_TEST

/* ---- marks ---- */

/* How much each promises: smaller is more. */
static int64_t ttl_rank(int64_t ttl)
{
	return ttl == POLICY_AUTO ? 0 : ttl;
}

static void no_weaker(const struct tess_policy *p, const struct tess_policy *preset, const char *flag)
{
	ck_assert_msg(p->visible == preset->visible && p->durable == preset->durable &&
			      p->refresh == preset->refresh, "%s: visibility of %s", flag, preset->name);
	ck_assert_msg(ttl_rank(p->attr_ttl) <= ttl_rank(preset->attr_ttl), "%s: attr of %s", flag, preset->name);
	ck_assert_msg(ttl_rank(p->entry_ttl) <= ttl_rank(preset->entry_ttl), "%s: entry of %s", flag,
		      preset->name);
	ck_assert_msg(ttl_rank(p->dir_ttl) <= ttl_rank(preset->dir_ttl), "%s: dir of %s", flag, preset->name);
	ck_assert_msg(p->exact_size >= preset->exact_size && p->exact_mtime >= preset->exact_mtime, "%s", flag);
	ck_assert_msg(p->atomic_append >= preset->atomic_append, "%s: append of %s", flag, preset->name);
	ck_assert_msg(p->direct_io >= preset->direct_io, "%s: direct io of %s", flag, preset->name);
	ck_assert_msg(p->locks <= preset->locks || p->locks == LOCKS_OFF, "%s: locks of %s", flag, preset->name);
	ck_assert_msg(!(p->kernel_writeback && p->direct_io), "%s", flag);
	ck_assert_msg(!p->kernel_writeback, "%s", flag);
	if (preset->mode == MODE_STRICT)
		ck_assert_msg(!p->relaxed_meta, "%s", flag);
}

START_TEST(no_mount_and_no_flag_weakens_a_marked_file)
{
	for (unsigned mode = MODE_STRICT; mode < MODE_PRIVATE; mode++)
		for (unsigned mark = MODE_STRICT; mark < MODE_PRIVATE; mark++) {
			struct policy_opts o = none;
			struct tess_policy mount, p;

			if (!flags[_i].legal[mode])
				continue;
			say(&o, &flags[_i]);
			o.mode = (enum tess_mode)mode;
			/* It changes what lazy is, for marked files, too. */
			if (mark == MODE_LAZY && o.interval != POLICY_UNSAID)
				continue;
			/* Of names alone; these two promise nothing about them. */
			if (mark > MODE_SESSION && o.meta == OPT_LAX)
				continue;
			mount = made(&o);
			policy_resolve(&mount, (enum tess_mode)mark, &p);
			ck_assert_uint_eq(p.mode, mark);
			no_weaker(&p, &policy_presets[mark], flags[_i].name);
		}
}
END_TEST

START_TEST(a_file_without_a_mark_has_the_mounts_policy)
{
	for (unsigned mode = MODE_STRICT; mode < MODE_COUNT; mode++) {
		struct policy_opts o = none;
		struct tess_policy mount, p;

		if (!flags[_i].legal[mode])
			continue;
		say(&o, &flags[_i]);
		o.mode = (enum tess_mode)mode;
		mount = made(&o);
		policy_resolve(&mount, MODE_NONE, &p);
		ck_assert(same(&p, &mount));
	}
}
END_TEST

START_TEST(flags_that_ask_for_more_hold_for_marked_files)
{
	struct policy_opts o = none;
	struct tess_policy mount, p;

	o.attr_time = 0;
	o.data_cache = DATA_ON;
	mount = made(&o);
	policy_resolve(&mount, MODE_LAZY, &p);
	ck_assert_int_eq(p.attr_ttl, 0);
	ck_assert_int_eq(p.entry_ttl, 0);
	o = none;
	o.locks = OPT_LOCKS_OFF;
	mount = made(&o);
	policy_resolve(&mount, MODE_STRICT, &p);
	ck_assert_int_eq(p.locks, LOCKS_OFF);
	o = none;
	o.direct_io = SWITCH_ON;
	mount = made(&o);
	policy_resolve(&mount, MODE_LAZY, &p);
	ck_assert(p.direct_io);
	o = none;
	o.size = o.mtime = OPT_STRICT;
	mount = made(&o);
	policy_resolve(&mount, MODE_LAZY, &p);
	ck_assert_int_eq(p.attr_ttl, POLICY_AUTO);
	ck_assert(p.exact_size && p.exact_mtime);
}
END_TEST

START_TEST(nothing_is_marked_in_a_private_tree_and_nothing_private_elsewhere)
{
	struct policy_opts o = none;
	struct tess_policy mount, p;

	o.mode = MODE_PRIVATE;
	mount = made(&o);
	policy_resolve(&mount, MODE_STRICT, &p);
	ck_assert_uint_eq(p.mode, MODE_PRIVATE);
	mount = made(&none);
	policy_resolve(&mount, MODE_PRIVATE, &p);
	ck_assert_uint_eq(p.mode, MODE_SESSION);
}
END_TEST

START_TEST(open_flags_tighten_and_never_loosen)
{
	static const int words[] = { O_SYNC, O_DSYNC, O_DIRECT, O_SYNC | O_DIRECT, O_RDONLY, O_APPEND };

	for (unsigned m = MODE_STRICT; m < MODE_COUNT; m++)
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
			struct tess_policy p = policy_presets[m], was = p;

			policy_tighten(&p, words[i]);
			ck_assert_msg(p.visible <= was.visible && p.durable <= was.durable &&
					      p.refresh <= was.refresh, "%s, %#x", was.name, (unsigned)words[i]);
			if ((words[i] & O_DSYNC) && m != MODE_PRIVATE)
				ck_assert_int_eq(p.durable, AT_WRITE);
			if ((words[i] & O_DIRECT) && was.refresh != REFRESH_NEVER)
				ck_assert_int_eq(p.refresh, REFRESH_READ);
		}
}
END_TEST

/* ---- words ---- */

START_TEST(times_are_shown_as_they_are_in_force)
{
	struct tess_policy p = made(&none);
	struct text alone = TEXT_INIT, shared = TEXT_INIT, json = TEXT_INIT;

	policy_text(&p, false, &alone);
	policy_text(&p, true, &shared);
	policy_json(&p, true, &json);
	ck_assert_ptr_nonnull(strstr(text_str(&alone), "attr-time          1s\n"));
	ck_assert_ptr_nonnull(strstr(text_str(&shared), "attr-time          0s\n"));
	ck_assert_ptr_nonnull(strstr(text_str(&json), "\"mode\":\"session\""));
	text_done(&alone);
	text_done(&shared);
	text_done(&json);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("policy");
	TCase *c = tcase_create("policy");

	tcase_add_test(c, each_preset_is_made_from_its_name_and_names_itself);
	tcase_add_loop_test(c, each_flag_goes_with_each_mode_or_is_refused_in_one_line_that_names_both, 0,
			    NFLAGS);
	tcase_add_loop_test(c, each_pair_of_flags_goes_together_or_is_refused_by_both_names, 0, NFLAGS);
	tcase_add_test(c, a_mode_that_is_not_the_mounts_own_says_whose_it_is);
	tcase_add_test(c, dfuses_rule_sets_what_is_left_out_to_nothing);
	tcase_add_test(c, actimeo_sets_all_four_times_and_gives_way_to_those_that_are_named);
	tcase_add_test(c, the_interval_makes_lazys_times_and_nobody_elses);
	tcase_add_test(c, size_and_mtime_decide_together_whether_the_kernel_remembers_attributes);
	tcase_add_test(c, nocto_trusts_what_was_looked_at_for_a_while);
	tcase_add_test(c, a_private_tree_has_writeback_unless_told_otherwise);
	tcase_add_loop_test(c, no_mount_and_no_flag_weakens_a_marked_file, 0, NFLAGS);
	tcase_add_loop_test(c, a_file_without_a_mark_has_the_mounts_policy, 0, NFLAGS);
	tcase_add_test(c, flags_that_ask_for_more_hold_for_marked_files);
	tcase_add_test(c, nothing_is_marked_in_a_private_tree_and_nothing_private_elsewhere);
	tcase_add_test(c, open_flags_tighten_and_never_loosen);
	tcase_add_test(c, times_are_shown_as_they_are_in_force);
	suite_add_tcase(s, c);
	return unit_run(s);
}
