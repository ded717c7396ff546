/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles: what one says, and what it refers to. A profile that takes a role names who asks for
 * it, maybe another profile that takes a role; the walk is bounded and a profile comes by once.
 */
#include "store/creds_impl.h"

#include "base/err.h"
#include "base/scoped.h"
#include "base/clock.h"
#include <string.h>

#define WALK_MAX	8u
#define PROCESS_TIMEOUT (60 * NS_PER_S)
#define PROCESS_OUTPUT	(64u << 10)

void creds_profiles_done(struct creds_profiles *p)
{
	creds_file_done(&p->credentials);
	creds_file_done(&p->config);
}

static int file_load(struct creds_file *f, const char *path, bool config, struct text *why)
{
	struct text missing = TEXT_INIT;
	int err = creds_file_read(f, path, &missing);

	if (err == -ENOENT)
		err = 0;
	else if (err)
		text_add(why, text_str(&missing));
	text_done(&missing);
	return err ? err : creds_ini_parse(f, config, why);
}

/* Either or both may be missing. */
int creds_profiles_load(const struct creds *c, struct creds_profiles *p, struct text *why)
{
	int err;

	memset(p, 0, sizeof(*p));
	err = file_load(&p->credentials, c->credentials, false, why);
	if (!err)
		err = file_load(&p->config, c->config, true, why);
	if (err)
		creds_profiles_done(p);
	return err;
}

static const char *profile_find(const struct creds_profiles *p, const char *profile,
				const char *key, const struct creds_file **ret_file)
{
	const char *v = creds_ini_get(&p->credentials, "profile", profile, NULL, key);

	*ret_file = v ? &p->credentials : &p->config;
	return v ? v : creds_ini_get(&p->config, "profile", profile, NULL, key);
}

const char *creds_profile_get(const struct creds_profiles *p, const char *profile, const char *key)
{
	const struct creds_file *f;

	return profile_find(p, profile, key, &f);
}

const char *creds_endpoint(const struct creds *c, const struct creds_profiles *p,
			   const char *service)
{
	const char *v = c->env[strcmp(service, "s3") ? ENV_ENDPOINT_STS : ENV_ENDPOINT_S3];
	const char *services = creds_profile_get(p, c->profile, "services");

	v = v ? v : c->env[ENV_ENDPOINT];
	if (!v && services)
		v = creds_ini_get(&p->config, "services", services, service, "endpoint_url");
	return v ? v : creds_profile_get(p, c->profile, "endpoint_url");
}

const char *creds_region(const struct creds *c, const struct creds_profiles *p)
{
	const char *v = c->conf.region ? c->conf.region : c->env[ENV_REGION];

	v = v ? v : c->env[ENV_DEFAULT_REGION];
	return v ? v : creds_profile_get(p, c->profile, "region");
}

enum take { TAKE_NOTHING, TAKE_ROLE, TAKE_WEB, TAKE_KEYS, TAKE_PROCESS, TAKE_SSO };

/* The SDKs' order; who only asks for another profile's role is himself first, and a role last. */
static enum take profile_take(const struct creds_profiles *p, const char *name, bool asks)
{
	bool keys = creds_profile_get(p, name, "aws_access_key_id") ||
		    creds_profile_get(p, name, "aws_secret_access_key");

	if (keys && asks)
		return TAKE_KEYS;
	if (creds_profile_get(p, name, "role_arn"))
		return creds_profile_get(p, name, "web_identity_token_file") ? TAKE_WEB : TAKE_ROLE;
	if (keys)
		return TAKE_KEYS;
	if (creds_profile_get(p, name, "credential_process"))
		return TAKE_PROCESS;
	if (creds_profile_get(p, name, "sso_session") ||
	    creds_profile_get(p, name, "sso_start_url"))
		return TAKE_SSO;
	return TAKE_NOTHING;
}

struct walk {
	struct creds          *c;
	struct creds_profiles *p;
	const char            *seen[WALK_MAX];
	unsigned               n;
	struct text           *why;
};

static int walk_refuse(struct walk *w, int err, const char *what)
{
	text_add(w->why, "profile ");
	for (unsigned i = 0; i < w->n; i++) {
		text_add(w->why, i ? " -> " : "");
		creds_add_name(w->why, w->seen[i]);
	}
	text_fmt(w->why, ": %s", what);
	return err;
}

/* "profile lab of /home/u/.aws/credentials" */
static void profile_source(struct text *out, const char *name, const struct creds_file *f)
{
	text_add(out, "profile ");
	creds_add_name(out, name);
	text_fmt(out, " of %s", f->path);
}

/* Both keys of one file: halves of two identities make none. */
static int take_keys(struct walk *w, const char *name, struct creds_aws **ret)
{
	const struct creds_file *f = &w->p->credentials;
	struct creds_parts parts = { .until = INT64_MAX };
	struct text source = TEXT_INIT;
	int err;

	if (!creds_ini_get(f, "profile", name, NULL, "aws_access_key_id") &&
	    !creds_ini_get(f, "profile", name, NULL, "aws_secret_access_key"))
		f = &w->p->config;
	parts.id = creds_ini_get(f, "profile", name, NULL, "aws_access_key_id");
	parts.secret = creds_ini_get(f, "profile", name, NULL, "aws_secret_access_key");
	parts.token = creds_ini_get(f, "profile", name, NULL, "aws_session_token");
	if (!parts.id || !parts.secret)
		return walk_refuse(w, -EINVAL,
				   parts.id ? "aws_access_key_id without aws_secret_access_key"
					    : "aws_secret_access_key without aws_access_key_id");
	err = creds_file_private(f, true, w->why);
	if (err)
		return err;
	profile_source(&source, name, f);
	err = text_error(&source);
	if (!err)
		err = creds_value_new(ret, &parts, text_str(&source), w->why);
	text_done(&source);
	return err;
}

static int take_process(struct walk *w, const char *name, struct creds_aws **ret)
{
	const struct creds_file *f;
	struct creds_process run = {
		.line = profile_find(w->p, name, "credential_process", &f),
		.timeout = PROCESS_TIMEOUT,
		.stop = &w->c->stop,
	};
	struct text source = TEXT_INIT;
	struct secret out = SECRET_INIT;
	int err = creds_file_private(f, false, w->why);

	if (!err)
		err = secret_init(&out, PROCESS_OUTPUT);
	if (err)
		return err;
	text_add(&source, "credential_process of ");
	profile_source(&source, name, f);
	err = creds_process_run(&run, &out, w->why);
	if (!err)
		err = creds_json_parse(CREDS_JSON_PROCESS, &out, text_str(&source), ret, w->why);
	secret_done(&out);
	text_done(&source);
	return err;
}

static int walk_profile(struct walk *w, const char *name, struct creds_aws **ret);

static int take_by_source(struct walk *w, const char *from, struct creds_aws **ret)
{
	if (!strcmp(from, "Environment"))
		return creds_fetch_static(w->c, ret, w->why);
	if (!strcmp(from, "EcsContainer"))
		return creds_container_fetch(w->c, ret, w->why);
	if (!strcmp(from, "Ec2InstanceMetadata"))
		return creds_instance_fetch(w->c, ret, w->why);
	return walk_refuse(w, -EINVAL, "credential_source is Environment, EcsContainer or "
				       "Ec2InstanceMetadata");
}

/* Who asks for the role of `name`. */
static int take_asker(struct walk *w, const char *name, struct creds_aws **ret)
{
	const char *profile = creds_profile_get(w->p, name, "source_profile");
	const char *from = creds_profile_get(w->p, name, "credential_source");

	if (!profile == !from)
		return walk_refuse(w, -EINVAL,
				   "role_arn needs one of source_profile, credential_source "
				   "and web_identity_token_file");
	if (from)
		return take_by_source(w, from, ret);
	if (!strcmp(profile, name))	/* its own keys ask */
		return profile_take(w->p, name, true) == TAKE_KEYS
			       ? take_keys(w, name, ret)
			       : walk_refuse(w, -EINVAL,
					     "names itself as source_profile and has no keys");
	return walk_profile(w, profile, ret);
}

static int take_role(struct walk *w, const char *name, bool web, struct creds_aws **ret)
{
	struct text source = TEXT_INIT;
	struct creds_aws *by = NULL;
	const struct creds_file *f;
	struct creds_role role = {
		.arn = profile_find(w->p, name, "role_arn", &f),
		.session = creds_profile_get(w->p, name, "role_session_name"),
		.external_id = creds_profile_get(w->p, name, "external_id"),
		.duration = creds_profile_get(w->p, name, "duration_seconds"),
		.token_file = web ? creds_profile_get(w->p, name, "web_identity_token_file") : NULL,
		.region = creds_region(w->c, w->p),
		.endpoint = creds_endpoint(w->c, w->p, "sts"),
	};
	int err = creds_file_private(f, false, w->why);

	if (!err && creds_profile_get(w->p, name, "mfa_serial"))
		err = walk_refuse(w, -ENOTSUP,
				  "mfa_serial: nobody is there to ask; use credential_process");
	if (!err && !web)
		err = take_asker(w, name, &by);
	if (err)
		return err;
	text_add(&source, "role ");
	creds_add_name(&source, role.arn);
	text_add(&source, web ? " by web identity, " : ", ");
	profile_source(&source, name, f);
	role.by = by;
	role.source = text_str(&source);
	err = creds_role_fetch(w->c, &role, ret, w->why);
	renewed_put(by ? &by->r : NULL);
	text_done(&source);
	return err;
}

static int walk_profile(struct walk *w, const char *name, struct creds_aws **ret)
{
	bool loop = false;

	for (unsigned i = 0; i < w->n; i++)
		loop = loop || !strcmp(w->seen[i], name);
	if (w->n == WALK_MAX)
		return walk_refuse(w, -ELOOP, "source_profile goes on for too long");
	w->seen[w->n++] = name;
	if (loop)
		return walk_refuse(w, -ELOOP, "source_profile is a loop");
	switch (profile_take(w->p, name, w->n > 1)) {
	case TAKE_ROLE:
		return take_role(w, name, false, ret);
	case TAKE_WEB:
		return take_role(w, name, true, ret);
	case TAKE_KEYS:
		return take_keys(w, name, ret);
	case TAKE_PROCESS:
		return take_process(w, name, ret);
	case TAKE_SSO:
		return walk_refuse(
			w, -ENOTSUP,
			"single sign-on is not done here; give it credential_process = aws "
			"configure export-credentials --profile NAME --format process");
	default:
		break;
	}
	if (!creds_ini_has(&w->p->credentials, "profile", name) &&
	    !creds_ini_has(&w->p->config, "profile", name)) {
		walk_refuse(w, -ENOENT, "not in ");
		text_add(w->why, w->p->credentials.path);
		if (w->p->config.path)
			text_fmt(w->why, ", nor in %s", w->p->config.path);
		return -ENOENT;
	}
	return walk_refuse(w, -EACCES, "has neither keys nor a way to get some");
}

static void take_describe(const struct creds_profiles *p, const char *name, enum take take,
			  struct text *out)
{
	static const char *const keys[] = {
		[TAKE_ROLE] = "role_arn",
		[TAKE_WEB] = "role_arn",
		[TAKE_KEYS] = "aws_access_key_id",
		[TAKE_PROCESS] = "credential_process",
		[TAKE_SSO] = "sso_session",
	};
	const struct creds_file *f;
	const char *v = profile_find(p, name, keys[take], &f);

	profile_source(out, name, f);
	text_add(out, ": ");
	switch (take) {
	case TAKE_ROLE:
	case TAKE_WEB:
		text_add(out, "role ");
		creds_add_name(out, v);
		text_add(out, take == TAKE_WEB ? " by web identity of " : " by ");
		v = creds_profile_get(p, name, take == TAKE_WEB ? "web_identity_token_file" :
								  "source_profile");
		if (!v)
			v = creds_profile_get(p, name, "credential_source");
		creds_add_name(out, v ? v : "nobody");
		break;
	case TAKE_KEYS:
		text_add(out, "keys");
		break;
	default:
		text_add(out, keys[take]);
	}
}

int creds_profile_configured(struct creds *c, struct text *what)
{
	struct creds_profiles p;
	enum take take;
	int err = creds_profiles_load(c, &p, what);

	if (err)
		return err;
	take = profile_take(&p, c->profile, false);
	if (take) {
		take_describe(&p, c->profile, take, what);
	} else {
		creds_add_name(what, c->profile);
		text_fmt(what, ": nothing in %s%s, nor in %s%s", c->credentials,
			 p.credentials.there ? "" : " (no such file)", c->config,
			 p.config.there ? "" : " (no such file)");
	}
	creds_profiles_done(&p);
	/* One that was asked for by name is the chain's end, there or not. */
	return take || c->profile_given;
}

int creds_profile_fetch(struct creds *c, struct creds_aws **ret, struct text *why)
{
	struct creds_profiles p;
	struct walk w = { .c = c, .p = &p, .why = why };
	int err = creds_profiles_load(c, &p, why);

	if (err)
		return err;
	err = walk_profile(&w, c->profile, ret);
	creds_profiles_done(&p);
	return err;
}

/* ---- key-file ---- */

static bool keyfile_is_ini(const char *s)
{
	for (; *s; s += strcspn(s, "\n"), s += *s != 0) {
		size_t blank = strspn(s, " \t\r");

		if (!strchr("#;\n", s[blank]))
			return s[blank] == '[' || memchr(s, '=', strcspn(s, "\n"));
	}
	return false;
}

/* The words of the file: they must be two. */
static int keyfile_lines(struct creds_file *f, struct creds_parts *parts, struct text *why)
{
	char *rest = f->text.s, *word;
	const char *words[2] = { NULL, NULL };
	unsigned n = 0;

	while ((word = strsep(&rest, " \t\r\n"))) {
		if (!*word)
			continue;
		if (n < 2)
			words[n] = word;
		n++;
	}
	if (n != 2) {
		text_fmt(why,
			 "%s: has %u words, not two: key id and secret key on a line each, or an "
			 "INI file as of the AWS tools",
			 f->path, n);
		return -EINVAL;
	}
	parts->id = words[0];
	parts->secret = words[1];
	return 0;
}

int creds_keyfile_fetch(struct creds *c, struct creds_aws **ret, struct text *why)
{
	struct creds_parts parts = { .until = INT64_MAX };
	struct creds_profiles p = { 0 };
	struct walk w = { .c = c, .p = &p, .why = why };
	int err = creds_file_read(&p.credentials, c->conf.key_file, why);

	if (!err)
		err = creds_file_private(&p.credentials, true, why);
	if (!err && keyfile_is_ini(p.credentials.text.s)) {
		err = creds_ini_parse(&p.credentials, false, why);
		/* AWS_PROFILE is about other files. */
		if (!err)
			err = walk_profile(&w, c->conf.profile ? c->conf.profile : "default", ret);
	} else if (!err) {
		struct text source = TEXT_INIT;

		text_fmt(&source, "key-file %s", c->conf.key_file);
		err = keyfile_lines(&p.credentials, &parts, why);
		if (!err)
			err = creds_value_new(ret, &parts, text_str(&source), why);
		text_done(&source);
	}
	creds_profiles_done(&p);
	return err;
}
