/* SPDX-License-Identifier: Apache-2.0 */
/* Where the credentials of a target come from. */
#include "admin/admin.h"

#include "base/err.h"
#include "base/scoped.h"
#include "store/creds.h"
#include "store/store.h"
#include "store/swift_auth.h"
#include <string.h>
#include <sys/stat.h>

/* A parameter of the URI; "" when it is not there. */
static int param(const char *uri, const char *name, struct text *ret)
{
	struct text unread = TEXT_INIT;
	int r = store_uri_param(uri, name, ret, &unread);

	text_done(&unread);
	return r == -ENOENT ? 0 : r;
}

static int explain_s3(const char *uri, struct text *out)
{
	struct text profile = TEXT_INIT, file = TEXT_INIT, region = TEXT_INIT,
		    anonymous = TEXT_INIT;
	int r = param(uri, "profile", &profile);

	r = r ? r : param(uri, "key-file", &file);
	r = r ? r : param(uri, "region", &region);
	r = r ? r : param(uri, "anonymous", &anonymous);
	if (!r) {
		const struct creds_conf conf = {
			.uri = uri,
			.profile = profile.n ? text_str(&profile) : NULL,
			.key_file = file.n ? text_str(&file) : NULL,
			.region = region.n && strcmp(text_str(&region), "auto") ? text_str(&region)
										: NULL,
			.anonymous = !strcmp(text_str(&anonymous), "1"),
		};

		r = creds_explain(&conf, out);
	}
	text_done(&profile);
	text_done(&file);
	text_done(&region);
	text_done(&anonymous);
	return r;
}

static void explain_file(struct text *out, const char *what, const char *path, bool given)
{
	struct stat st;

	text_fmt(out, "%-12s  ", what);
	if (stat(path, &st))
		text_fmt(out, "absent  %s: %s", path, strerror(errno));
	else
		text_fmt(out, "%-6s  %s, mode %04o", access(path, R_OK) ? "broken" : "used", path,
			 (unsigned)st.st_mode & 07777);
	text_fmt(out, "%s\n", given ? "" : " (by default; what ceph.conf says goes first)");
}

/* librados reads the files itself; this says which, without it. */
static int explain_rados(const char *uri, struct text *out)
{
	struct text conf = TEXT_INIT, id = TEXT_INIT, cluster = TEXT_INIT, keyring = TEXT_INIT;
	struct text path = TEXT_INIT;
	int r = param(uri, "conf", &conf);

	r = r ? r : param(uri, "id", &id);
	r = r ? r : param(uri, "cluster", &cluster);
	r = r ? r : param(uri, "keyring", &keyring);
	if (!r) {
		const char *env = getenv("CEPH_CONF"), *name = id.n ? text_str(&id) : "admin";
		const char *of = cluster.n ? text_str(&cluster) : "ceph";

		name = strncmp(name, "client.", 7) ? name : name + 7;
		text_fmt(out, "%-12s  used    client.%s of cluster %s\n", "user", name, of);
		if (conf.n || (env && *env)) {
			explain_file(out, "conf", conf.n ? text_str(&conf) : env, true);
		} else {
			text_fmt(&path, "/etc/ceph/%s.conf", of);
			explain_file(out, "conf", text_str(&path), true);
		}
		text_clear(&path);
		text_fmt(&path, "/etc/ceph/%s.client.%s.keyring", of, name);
		explain_file(out, "keyring", keyring.n ? text_str(&keyring) : text_str(&path),
			     keyring.n != 0);
	}
	text_done(&conf);
	text_done(&id);
	text_done(&cluster);
	text_done(&keyring);
	text_done(&path);
	return r;
}

static int explain_none(const char *uri, struct text *out)
{
	(void)uri;
	text_fmt(out, "%-12s  usable  this store asks for no credentials\n", "result");
	return 0;
}

static const struct {
	const char *prefix;
	int       (*explain)(const char *uri, struct text *out);
} schemes[] = {
	{ "s3:", explain_s3 },
	{ "swift:", swift_auth_explain },
	{ "rados:", explain_rados },
	{ "", explain_none },
};

static const char *const states[] = { "used", "unused", "absent", "broken", "usable", "failed" };

/* "SOURCE [STATE] WHAT" */
static void line_json(struct text *out, const char *s, size_t n, bool first)
{
	size_t word = strcspn(s, " \n");
	const char *end = s + n;

	text_fmt(out, "%s\n {\"source\":", first ? "" : ",");
	text_json(out, s, MIN(word, n));
	s += MIN(word, n);
	s += strspn(s, " ");
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		size_t k = strlen(states[i]);

		if ((size_t)(end - s) >= k && !strncmp(s, states[i], k) &&
		    (s[k] == ' ' || s + k == end)) {
			text_fmt(out, ",\"state\":\"%s\"", states[i]);
			s += k;
			s += strspn(s, " ");
			break;
		}
	}
	text_add(out, ",\"what\":");
	text_json(out, s, (size_t)(end - s));
	text_add(out, "}");
}

static void lines_json(struct text *out, const char *uri, bool usable, const char *lines)
{
	text_add(out, "{\"uri\":");
	text_json(out, uri, strlen(uri));
	text_fmt(out, ",\"usable\":%s,\"lines\":[", usable ? "true" : "false");
	for (const char *s = lines; *s; s += strcspn(s, "\n"), s += *s != 0)
		line_json(out, s, strcspn(s, "\n"), s == lines);
	text_add(out, "]}\n");
}

int admin_creds(const char *uri, bool json, FILE *out, struct text *why)
{
	struct text lines = TEXT_INIT, all = TEXT_INIT;
	size_t i = 0;
	int r = store_uri_check(uri, why);

	if (r)
		return r;
	while (strncmp(uri, schemes[i].prefix, strlen(schemes[i].prefix)))
		i++;
	r = schemes[i].explain(uri, &lines);
	if (json)
		lines_json(&all, uri, !r, text_str(&lines));
	else
		text_add(&all, text_str(&lines));
	r = r ? r : text_error(&lines);
	r = r ? r : text_error(&all);
	if (fputs(text_str(&all), out) < 0)
		r = -EIO;
	if (r)
		text_fmt(why, "%s: no credentials can be used: %s", uri, err_text(r));
	text_done(&lines);
	text_done(&all);
	return r;
}
