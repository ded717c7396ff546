/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include "admin/admin.h"

struct creds_opts {
	bool explain, json;
};

static const struct tess_opt creds_rows[] = {
	{ .name = "explain", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct creds_opts, explain),
	  .help = "show each source, which one is used, and what it gave" },
	{ .name = "json", .type = TESS_OPT_BOOL, .when = TESS_AT_RUN,
	  .at = offsetof(struct creds_opts, json),
	  .help = "for programs" },
	{ 0 },
};

static int creds_run(struct tool *t)
{
	struct creds_opts *o = t->opts;
	struct text why = TEXT_INIT;
	int r = TOOL_OK;

	if (!o->explain)
		return tool_usage(t, "%s", "what to do is missing: --explain");
	if (admin_creds(t->argv[0], o->json, stdout, &why) < 0)
		r = tool_fail(t, NULL, text_str(&why));
	text_done(&why);
	return r;
}

const struct tool_cmd cmd_creds = {
	.name = "creds",
	.args = "--explain URI [--json]",
	.summary = "show where the credentials of a target come from",
	.opts = creds_rows,
	.size = sizeof(struct creds_opts),
	.min = 1,
	.max = 1,
	.run = creds_run,
	.more = "It asks for credentials as a mount would. Secrets are never shown.\n",
};
