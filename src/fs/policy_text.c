/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy says, for people and for programs: one table of rows makes both. */
#include "fs/policy.h"

#include "base/clock.h"
#include "base/scoped.h"
#include "base/text.h"
#include <string.h>

static const char *const when_words[] = { "write", "fsync", "close", "interval", "laminate", "never" };
static const char *const refresh_words[] = { "read", "open", "interval", "never" };
static const char *const locks_words[] = { "global", "local", "off" };

void policy_time(int64_t ns, struct text *out)
{
	if (ns == POLICY_FOREVER)
		text_add(out, "unlimited");
	else if (ns % NS_PER_S == 0)
		text_fmt(out, "%llds", (long long)(ns / NS_PER_S));
	else if (ns % NS_PER_MS == 0)
		text_fmt(out, "%lldms", (long long)(ns / NS_PER_MS));
	else
		text_fmt(out, "%lldns", (long long)ns);
}

static void words_ttl(int64_t ttl, bool shared, struct text *out)
{
	if (ttl == POLICY_AUTO)
		text_add(out, shared ? "0s" : "1s");
	else
		policy_time(ttl, out);
}

static const char *words_pages(const struct tess_policy *p)
{
	if (p->direct_io)
		return "none";
	if (!p->keep_cache)
		return "while-open";
	return p->refresh == REFRESH_NEVER ? "kept" : "kept-if-unchanged";
}

static const char *words_lookups(const struct tess_policy *p)
{
	static const char *const words[] = { "each-read", "each-open", "each-interval", "none" };

	return words[p->refresh];
}

static const char *words_invalidation(const struct tess_policy *p)
{
	if (p->refresh == REFRESH_NEVER)
		return "none";
	return p->refresh == REFRESH_READ ? "before-the-answer" : "by-change-log";
}

enum row {
	ROW_MODE, ROW_VISIBLE, ROW_DURABLE, ROW_REFRESH, ROW_INTERVAL, ROW_ATTR, ROW_ENTRY, ROW_DIR,
	ROW_NEGATIVE, ROW_SIZE, ROW_MTIME, ROW_META, ROW_APPEND, ROW_LOCKS, ROW_WRITEBACK, ROW_PAGES,
	ROW_PAGES_FOR, ROW_DIRECT, ROW_LOOKUPS, ROW_INVALIDATION, ROW_COUNT
};
static const char *const row_names[ROW_COUNT] = {
	"mode", "visible", "durable", "refresh", "interval", "attr-time", "dentry-time",
	"dentry-dir-time", "ndentry-time", "size", "mtime", "meta", "append", "locks",
	"kernel-writeback", "page-cache", "pages-kept-for", "direct-io", "lookups", "invalidation",
};

static const char *row_word(const struct tess_policy *p, enum row row)
{
	switch (row) {
	case ROW_MODE:
		return p->name;
	case ROW_VISIBLE:
		return when_words[p->visible];
	case ROW_DURABLE:
		return when_words[p->durable];
	case ROW_REFRESH:
		return refresh_words[p->refresh];
	case ROW_SIZE:
		return p->exact_size ? "strict" : "lazy";
	case ROW_MTIME:
		return p->exact_mtime ? "strict" : "lazy";
	case ROW_META:
		return p->relaxed_meta ? "relaxed" : "strict";
	case ROW_APPEND:
		return p->atomic_append ? "atomic" : "local";
	case ROW_LOCKS:
		return locks_words[p->locks];
	case ROW_WRITEBACK:
		return p->kernel_writeback ? "on" : "off";
	case ROW_PAGES:
		return words_pages(p);
	case ROW_DIRECT:
		return p->direct_io ? "on" : "off";
	case ROW_LOOKUPS:
		return words_lookups(p);
	case ROW_INVALIDATION:
		return words_invalidation(p);
	default:
		return NULL;
	}
}

static void row_value(const struct tess_policy *p, bool shared, enum row row, struct text *out)
{
	const char *word = row_word(p, row);

	if (word)
		text_add(out, word);
	else if (row == ROW_INTERVAL && !p->interval)
		text_add(out, "-");
	else if (row == ROW_INTERVAL)
		policy_time(p->interval, out);
	else if (row == ROW_PAGES_FOR)
		policy_time(!p->keep_cache ? 0 : p->data_ttl ? p->data_ttl : POLICY_FOREVER, out);
	else
		words_ttl(row == ROW_ATTR    ? p->attr_ttl
			  : row == ROW_ENTRY ? p->entry_ttl
			  : row == ROW_DIR   ? p->dir_ttl
					     : p->negative_ttl,
			  shared, out);
}

void policy_text(const struct tess_policy *p, bool shared, struct text *out)
{
	for (unsigned i = 0; i < ROW_COUNT; i++) {
		text_fmt(out, "%-18s ", row_names[i]);
		row_value(p, shared, (enum row)i, out);
		text_add(out, "\n");
	}
}

void policy_json(const struct tess_policy *p, bool shared, struct text *out)
{
	for (unsigned i = 0; i < ROW_COUNT; i++) {
		struct text v = TEXT_INIT;

		row_value(p, shared, (enum row)i, &v);
		text_fmt(out, "%s\"%s\":", i ? "," : "", row_names[i]);
		text_json(out, text_str(&v), v.n);
		text_done(&v);
	}
}

void policy_table(bool json, struct text *out)
{
	if (!json)
		text_fmt(out, "%-10s %-9s %-9s %-9s %-10s %-7s %-7s %-10s %s\n", "mode", "visible", "durable",
			 "refresh", "attr-time", "locks", "append", "writeback", "summary");
	for (unsigned i = MODE_NONE + 1; i < MODE_COUNT; i++) {
		const struct tess_policy *p = &policy_presets[i];
		struct text ttl = TEXT_INIT;

		if (json) {
			text_fmt(out, "%s\n{", i > MODE_NONE + 1 ? "," : "[");
			policy_json(p, true, out);
			text_add(out, ",\"summary\":");
			text_json(out, p->summary, strlen(p->summary));
			text_add(out, "}");
			continue;
		}
		words_ttl(p->attr_ttl, true, &ttl);
		text_fmt(out, "%-10s %-9s %-9s %-9s %-10s %-7s %-7s %-10s %s\n", p->name,
			 when_words[p->visible], when_words[p->durable], refresh_words[p->refresh],
			 text_str(&ttl), locks_words[p->locks], p->atomic_append ? "atomic" : "local",
			 p->kernel_writeback ? "on" : "off", p->summary);
		text_done(&ttl);
	}
	if (json)
		text_add(out, "\n]\n");
}
