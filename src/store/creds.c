/* SPDX-License-Identifier: Apache-2.0 */
/* The chain: which source is configured, which is taken, and its renewal. */
#include "store/creds_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/path.h"
#include "base/scoped.h"
#include <pwd.h>
#include <string.h>

#define FIRST_TIMEOUT (120 * NS_PER_S)	/* beyond that of any source */

#define NOTHING "no credentials are configured"

static const char *const env_names[ENV_N] = {
	[ENV_KEY_ID] = "AWS_ACCESS_KEY_ID",
	[ENV_SECRET] = "AWS_SECRET_ACCESS_KEY",
	[ENV_TOKEN] = "AWS_SESSION_TOKEN",
	[ENV_PROFILE] = "AWS_PROFILE",
	[ENV_CREDENTIALS_FILE] = "AWS_SHARED_CREDENTIALS_FILE",
	[ENV_CONFIG_FILE] = "AWS_CONFIG_FILE",
	[ENV_WEB_TOKEN_FILE] = "AWS_WEB_IDENTITY_TOKEN_FILE",
	[ENV_ROLE_ARN] = "AWS_ROLE_ARN",
	[ENV_ROLE_SESSION] = "AWS_ROLE_SESSION_NAME",
	[ENV_CONTAINER_REL] = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
	[ENV_CONTAINER_FULL] = "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	[ENV_CONTAINER_AUTH] = "AWS_CONTAINER_AUTHORIZATION_TOKEN",
	[ENV_CONTAINER_AUTH_FILE] = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
	[ENV_IMDS_OFF] = "AWS_EC2_METADATA_DISABLED",
	[ENV_IMDS_ENDPOINT] = "AWS_EC2_METADATA_SERVICE_ENDPOINT",
	[ENV_IMDS_MODE] = "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
	[ENV_REGION] = "AWS_REGION",
	[ENV_DEFAULT_REGION] = "AWS_DEFAULT_REGION",
	[ENV_ENDPOINT] = "AWS_ENDPOINT_URL",
	[ENV_ENDPOINT_STS] = "AWS_ENDPOINT_URL_STS",
	[ENV_ENDPOINT_S3] = "AWS_ENDPOINT_URL_S3",
	[ENV_CA_BUNDLE] = "AWS_CA_BUNDLE",
	[ENV_HOME] = "HOME",
};

/* ---- what is known before anything is fetched ---- */

static size_t room_of(const char *s)
{
	return s ? strlen(s) + 1 : 0;
}

/* Into room that was measured before. */
static const char *arena_add(struct creds *c, const char *s)
{
	const char *ret = c->arena.s + c->arena.n;

	if (!s)
		return NULL;
	(void)secret_addn(&c->arena, s, strlen(s) + 1);
	return ret;
}

/* Files that are read again when what is in them has to be renewed. */
static const enum creds_env env_files[] = {
	ENV_CREDENTIALS_FILE, ENV_CONFIG_FILE, ENV_WEB_TOKEN_FILE, ENV_CONTAINER_AUTH_FILE, ENV_CA_BUNDLE,
};

struct env_paths {
	char *of[ARRAY_SIZE(env_files)];	/* owned */
};

/* "~/" is resolved where it is known, and what cannot be resolved is told when it is read. */
static void env_paths_resolve(struct env_paths *p, const char **env)
{
	for (unsigned i = 0; i < ARRAY_SIZE(env_files); i++) {
		const char **v = &env[env_files[i]];

		if (*v && strncmp(*v, "~/", 2) && path_absolute(*v, &p->of[i]) == 0)
			*v = p->of[i];
	}
}

/* Once, so that what is measured is what is copied. */
static int creds_copy(struct creds *c, const struct creds_conf *conf)
{
	const char *env[ENV_N];
	struct env_paths paths = { 0 };
	size_t n = room_of(conf->uri) + room_of(conf->profile) + room_of(conf->key_file) +
		   room_of(conf->region);
	int err;

	for (unsigned i = 0; i < ENV_N; i++) {
		env[i] = getenv(env_names[i]);
		env[i] = env[i] && *env[i] ? env[i] : NULL;
	}
	env_paths_resolve(&paths, env);
	for (unsigned i = 0; i < ENV_N; i++)
		n += room_of(env[i]);
	err = secret_init(&c->arena, n);
	for (unsigned i = 0; i < ENV_N && !err; i++)
		c->env[i] = arena_add(c, env[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(env_files); i++)
		free(paths.of[i]);
	if (err)
		return err;
	c->conf.uri = arena_add(c, conf->uri);
	c->conf.profile = arena_add(c, conf->profile);
	c->conf.key_file = arena_add(c, conf->key_file);
	c->conf.region = arena_add(c, conf->region);
	c->conf.anonymous = conf->anonymous;
	return 0;
}

/* NULL: no memory. */
static char *aws_path(const struct creds *c, const char *given, const char *name)
{
	const char *home = c->env[ENV_HOME];
	scoped_free char *buf = NULL;
	struct passwd pw, *found = NULL;

	if (given && strncmp(given, "~/", 2))
		return mem_strdup(given);
	if (!home) {
		buf = mem_alloc(16384);
		if (!buf)
			return NULL;
		if (!getpwuid_r(geteuid(), &pw, buf, 16384, &found) && found)
			home = found->pw_dir;
	}
	if (given)
		return mem_printf("%s/%s", home ? home : "~", given + 2);
	return mem_printf("%s/.aws/%s", home ? home : "~", name);
}

int creds_init(struct creds *c, const struct creds_conf *conf, struct text *why)
{
	int err;

	memset(c, 0, sizeof(*c));
	lock_init(&c->lock, LOCK_LEAF, "creds");
	err = creds_copy(c, conf);
	if (!err) {
		c->credentials = aws_path(c, c->env[ENV_CREDENTIALS_FILE], "credentials");
		c->config = aws_path(c, c->env[ENV_CONFIG_FILE], "config");
		err = c->credentials && c->config ? 0 : -ENOMEM;
	}
	if (err) {
		text_add(why, err_text(err));
		creds_done(c);
		return err;
	}
	c->profile = c->conf.profile ? c->conf.profile : c->env[ENV_PROFILE];
	c->profile_given = c->profile != NULL;
	c->profile = c->profile ? c->profile : "default";
	return 0;
}

void creds_done(struct creds *c)
{
	http_free(c->near);
	http_free(c->far);
	free(c->credentials);
	free(c->config);
	secret_done(&c->arena);
	lock_done(&c->lock);
}

/* ---- sources ---- */

static int environment_configured(struct creds *c, struct text *what)
{
	if (c->conf.profile || c->conf.key_file) {
		text_fmt(what, "not looked at: %s is given",
			 c->conf.key_file ? "key-file" : "a profile");
		return 0;
	}
	if (!c->env[ENV_KEY_ID] && !c->env[ENV_SECRET]) {
		text_add(what, "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY: not set");
		return 0;
	}
	text_fmt(what, "%s%s%s%s", c->env[ENV_KEY_ID] ? "AWS_ACCESS_KEY_ID" : "",
		 c->env[ENV_KEY_ID] && c->env[ENV_SECRET] ? ", " : "",
		 c->env[ENV_SECRET] ? "AWS_SECRET_ACCESS_KEY" : "",
		 c->env[ENV_TOKEN] ? ", AWS_SESSION_TOKEN" : "");
	return 1;
}

int creds_fetch_static(struct creds *c, struct creds_aws **ret, struct text *why)
{
	struct creds_parts p = {
		.id = c->env[ENV_KEY_ID],
		.secret = c->env[ENV_SECRET],
		.token = c->env[ENV_TOKEN],
		.until = INT64_MAX,
	};

	if (!p.id || !p.secret) {
		text_fmt(why, "environment: %s is not set",
			 env_names[p.id ? ENV_SECRET : ENV_KEY_ID]);
		return -EINVAL;
	}
	return creds_value_new(ret, &p, "environment", why);
}

static int keyfile_configured(struct creds *c, struct text *what)
{
	text_add(what, c->conf.key_file ? c->conf.key_file : "not given");
	return c->conf.key_file != NULL;
}

static int web_configured(struct creds *c, struct text *what)
{
	const char *token = c->env[ENV_WEB_TOKEN_FILE], *role = c->env[ENV_ROLE_ARN];

	if (c->conf.profile) {
		text_add(what, "not looked at: a profile is given");
		return 0;
	}
	if (!token || !role) {
		text_fmt(what, "%s%s%s: not set", token ? "" : env_names[ENV_WEB_TOKEN_FILE],
			 token || role ? "" : ", ", role ? "" : env_names[ENV_ROLE_ARN]);
		return 0;
	}
	text_add(what, "role ");
	creds_add_name(what, role);
	text_fmt(what, " by %s", token);
	return 1;
}

static int web_fetch(struct creds *c, struct creds_aws **ret, struct text *why)
{
	struct text source = TEXT_INIT;
	struct creds_profiles p;
	struct creds_role role = {
		.arn = c->env[ENV_ROLE_ARN],
		.session = c->env[ENV_ROLE_SESSION],
		.token_file = c->env[ENV_WEB_TOKEN_FILE],
	};
	int err = creds_profiles_load(c, &p, why);

	if (err)
		return err;
	role.region = creds_region(c, &p);
	role.endpoint = creds_endpoint(c, &p, "sts");
	text_add(&source, "role ");
	creds_add_name(&source, role.arn);
	text_add(&source, " by web identity");
	role.source = text_str(&source);
	err = creds_role_fetch(c, &role, ret, why);
	text_done(&source);
	creds_profiles_done(&p);
	return err;
}

static int anonymous_configured(struct creds *c, struct text *what)
{
	text_add(what, c->conf.anonymous ? "anonymous=1" : "not asked for");
	return c->conf.anonymous;
}

static int anonymous_fetch(struct creds *c, struct creds_aws **ret, struct text *why)
{
	const struct creds_parts p = { .until = INT64_MAX };

	(void)c;
	return creds_value_new(ret, &p, "anonymous", why);
}

static const struct creds_source {
	const char *name;
	/* 1: will be taken; 0: not configured; negative: nobody can tell. Appends what it is, or why not. */
	int (*configured)(struct creds *c, struct text *what);
	int (*fetch)(struct creds *c, struct creds_aws **ret, struct text *why);
} sources[] = {
	{ "environment", environment_configured, creds_fetch_static },
	{ "key-file", keyfile_configured, creds_keyfile_fetch },
	{ "web-identity", web_configured, web_fetch },
	{ "profile", creds_profile_configured, creds_profile_fetch },
	{ "container", creds_container_configured, creds_container_fetch },
	{ "instance", creds_instance_configured, creds_instance_fetch },
	{ "anonymous", anonymous_configured, anonymous_fetch },
};

/* ---- the chain ---- */

/* Appends what was looked at, for who finds nothing; not what only the URI could have asked for. */
static void chain_list(struct creds *c, struct text *out)
{
	text_add(out, NOTHING "; looked at ");
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		if (sources[i].fetch == creds_keyfile_fetch || sources[i].fetch == anonymous_fetch)
			continue;
		text_fmt(out, "%s%s (", i ? ", " : "", sources[i].name);
		(void)sources[i].configured(c, out);
		text_add(out, ")");
	}
}

/* Asking for nobody's credentials is as explicit as it can be, so it comes before the order. */
static int chain_choose(struct creds *c, const struct creds_source **ret, struct text *why)
{
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		struct text what = TEXT_INIT;
		int r = 0;

		if (!c->conf.anonymous || sources[i].configured == anonymous_configured)
			r = sources[i].configured(c, &what);
		if (r < 0)
			text_add(why, text_str(&what));
		text_done(&what);
		if (r < 0)
			return r;
		if (r) {
			*ret = &sources[i];
			return 0;
		}
	}
	chain_list(c, why);
	return -EACCES;
}

/* The instance is always worth asking; that nobody answers means that this host is none. */
static bool instance_is_none(const struct creds_source *s, int err)
{
	return s->fetch == creds_instance_fetch &&
	       (err == -ECONNREFUSED || err == -EHOSTUNREACH || err == -ENETUNREACH ||
		err == -ENOTCONN || err == -ETIMEDOUT || err == -ENOENT);
}

static int chain_fetch(struct creds *c, struct creds_aws **ret, struct text *why)
{
	const struct creds_source *s = c->source;
	struct text what = TEXT_INIT;
	int err = s ? 0 : chain_choose(c, &s, why);

	if (err)
		return err;
	err = s->fetch(c, ret, &what);
	if (!err) {
		c->source = s;
	} else if (!c->source && instance_is_none(s, err)) {
		chain_list(c, why);
		text_fmt(why, "; %s", text_str(&what));
		err = -EACCES;
	} else {
		text_add(why, what.n ? text_str(&what) : err_text(err));
	}
	text_done(&what);
	return err;
}

static int creds_renewed(void *arg, struct renewed **ret, struct text *why)
{
	struct creds_aws *v;
	int err = chain_fetch(arg, &v, why);

	if (!err)
		*ret = &v->r;
	return err;
}

static void creds_name(const struct creds *c, struct text *out)
{
	text_add(out, "credentials");
	if (c->conf.uri)
		text_fmt(out, " for %s", c->conf.uri);
}

int creds_open(struct creds **ret, const struct creds_conf *conf, struct text *why)
{
	struct creds *c = mem_zalloc(sizeof(*c));
	struct text name = TEXT_INIT, what = TEXT_INIT;
	int err;

	if (!c)
		return -ENOMEM;
	err = creds_init(c, conf, why);
	if (err) {
		free(c);
		return err;
	}
	creds_name(c, &name);
	err = renew_new(&c->renew, text_str(&name), creds_renewed, c);
	if (!err)
		err = renew_first(c->renew, FIRST_TIMEOUT, &what);
	if (!err)
		*ret = c;
	else
		text_fmt(why, "%s: %s", text_str(&name), what.n ? text_str(&what) : err_text(err));
	text_done(&what);
	text_done(&name);
	if (err)
		creds_close(c);
	return err;
}

void creds_close(struct creds *c)
{
	struct http_call *call;
	struct http *by;

	if (!c)
		return;
	atomic_store(&c->stop, true);
	lock_take(&c->lock);
	call = c->calling;
	by = c->calling_by;
	lock_drop(&c->lock);
	if (call)
		http_cancel(by, call);
	renew_free(c->renew);
	creds_done(c);
	free(c);
}

struct renew *creds_renew(struct creds *c)
{
	return c->renew;
}

/* ---- settings ---- */

int creds_setting(const struct creds_conf *conf, const char *name, struct text *ret)
{
	struct text unread = TEXT_INIT;
	struct creds_profiles p;
	const char *v = NULL;
	struct creds c;
	int err = creds_init(&c, conf, &unread);

	if (err)
		goto out;
	err = creds_profiles_load(&c, &p, &unread);
	if (!err) {
		if (!strcmp(name, "region"))
			v = creds_region(&c, &p);
		else if (!strcmp(name, "endpoint_url"))
			v = creds_endpoint(&c, &p, "s3");
		else if (!strcmp(name, "ca_bundle"))
			v = c.env[ENV_CA_BUNDLE];
		v = v ? v : creds_profile_get(&p, c.profile, name);
		if (v)
			text_add(ret, v);
		creds_profiles_done(&p);
		err = v ? text_error(ret) : -ENOENT;
	}
	creds_done(&c);
out:
	text_done(&unread);
	return err;
}

/* ---- explain ---- */

static void explain_line(struct text *out, const char *name, const char *state, const char *what)
{
	text_fmt(out, "%-12s  %-6s  %s\n", name, state, what);
}

static void explain_sources(struct creds *c, const struct creds_source *taken, struct text *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		struct text what = TEXT_INIT;
		int r = sources[i].configured(c, &what);
		const char *state = r < 0 ? "broken" : r ? "unused" : "absent";

		explain_line(out, sources[i].name, &sources[i] == taken ? "used" : state,
			     text_str(&what));
		text_done(&what);
	}
}

static void explain_value(const struct creds_aws *v, struct text *out)
{
	struct text what = TEXT_INIT;
	size_t n = v->id ? strlen(v->id) : 0;

	if (!v->id) {
		text_add(&what, "requests are not signed");
	} else {
		text_add(&what, v->token ? "temporary keys" : "keys");
		if (n >= 8)
			text_fmt(&what, ", the id ends in %s", v->id + n - 4);
		if (v->r.until == INT64_MAX) {
			text_add(&what, ", no expiry is known");
		} else {
			text_add(&what, ", until ");
			creds_time_add(&what, v->r.until);
		}
		text_fmt(&what, ", from %s", v->source);
	}
	explain_line(out, "result", "usable", text_str(&what));
	text_done(&what);
}

int creds_explain(const struct creds_conf *conf, struct text *out)
{
	const struct creds_source *taken = NULL;
	struct text why = TEXT_INIT;
	struct creds_aws *v;
	struct creds c;
	int err = creds_init(&c, conf, &why);

	if (!err) {
		err = chain_choose(&c, &taken, &why);
		/* The list of what was looked at is above it already. */
		if (err && !strncmp(text_str(&why), NOTHING, strlen(NOTHING))) {
			text_clear(&why);
			text_add(&why, NOTHING);
		}
		explain_sources(&c, taken, out);
		if (!err)
			err = chain_fetch(&c, &v, &why);
		if (!err && v->r.until <= clock_wall()) {
			text_add(&why, "what came has expired already; is the clock right?");
			renewed_put(&v->r);
			err = -EKEYEXPIRED;
		}
		if (!err) {
			explain_value(v, out);
			renewed_put(&v->r);
		}
		creds_done(&c);
	}
	if (err)
		explain_line(out, "result", "failed", why.n ? text_str(&why) : err_text(err));
	text_done(&why);
	return err ? err : text_error(out);
}
