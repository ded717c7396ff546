/* SPDX-License-Identifier: Apache-2.0 */
/* Who has the file system open: for people. */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include "mount/mount.h"
#include <string.h>

#define SESSION_MAX 1024u

static const char *session_state(const struct meta_session *s)
{
	if (meta_session_dead(s))
		return "dead";
	if (s->fenced)
		return "fenced";
	return meta_session_lapsed(s, clock_now()) ? "silent" : "alive";
}

/* Beats count only of sessions on this boot's clock. */
static double session_silent(const struct meta_session *s)
{
	int64_t ns = clock_now() - s->beat;

	return ns > 0 ? (double)ns / NS_PER_S : 0;
}

static void session_json(const struct meta_session *s, bool first, FILE *out)
{
	struct text t = TEXT_INIT;

	text_fmt(&t, "%s\n{\"id\":%u,\"pid\":%u,\"state\":\"%s\",\"silent\":%.3f,\"host\":",
		 first ? "[" : ",", s->id, s->pid, session_state(s), session_silent(s));
	text_json(&t, s->host, strlen(s->host));
	text_add(&t, ",\"mountpoint\":");
	text_json(&t, s->mountpoint, strlen(s->mountpoint));
	text_add(&t, "}");
	fputs(text_str(&t), out);
	text_done(&t);
}

int tess_session_list(struct tess *t, bool json, FILE *out, char *why)
{
	scoped_free struct meta_session *s = mem_array(SESSION_MAX, sizeof(*s));
	unsigned n = 0;
	int err = s ? meta_sessions(t->meta, s, SESSION_MAX, &n) : -ENOMEM;

	if (err < 0)
		return mount_why(why, NULL, err);
	if (!json)
		fprintf(out, "%6s %7s %-6s %7s %s\n", "ID", "PID", "STATE", "SILENT", "MOUNTPOINT");
	for (unsigned i = 0; i < n; i++) {
		if (json)
			session_json(&s[i], i == 0, out);
		else
			fprintf(out, "%6u %7u %-6s %7.1f %s\n", s[i].id, s[i].pid,
				session_state(&s[i]), session_silent(&s[i]),
				*s[i].mountpoint ? s[i].mountpoint : "-");
	}
	if (json)
		fputs(n ? "\n]\n" : "[]\n", out);
	return ferror(out) ? -EIO : 0;
}

int tess_session_fence(struct tess *t, uint32_t id, char *why)
{
	int err = meta_fence(t->meta, id);

	if (err == -ENOENT && why)
		snprintf(why, TESS_WHY, "there is no such session");
	else if (err < 0)
		mount_why(why, NULL, err);
	return err;
}
