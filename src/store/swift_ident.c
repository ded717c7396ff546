/* SPDX-License-Identifier: Apache-2.0 */
#include "store/swift_ident.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/path.h"
#include "base/scoped.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_LIMIT  (1u << 20)
#define VALUE_LIMIT 16384u

static const struct field {
	const char *env, *alt;
} fields[SWIFT_NFIELDS] = {
#define SWIFT_FIELD_ROW(name, env, alt, yaml, secret) { env, alt },
	SWIFT_FIELDS(SWIFT_FIELD_ROW)
#undef SWIFT_FIELD_ROW
};

void swift_wipe(struct text *t)
{
	if (t->s)
		OPENSSL_cleanse(t->s, t->cap);
	text_done(t);
}

int swift_secret_room(struct text *t, size_t n)
{
	t->s = mem_zalloc(n);
	if (!t->s)
		return -ENOMEM;
	t->cap = n;
	return 0;
}

int swift_ident_set(struct swift_ident *id, enum swift_field field, const char *value, size_t n)
{
	char *copy;

	if (!value || n == 0)
		return 0;
	if (n > VALUE_LIMIT)
		return -EINVAL;
	/* These go into header lines and messages. */
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)value[i] < ' ' || value[i] == 0x7f)
			return -EINVAL;
	}
	copy = mem_alloc(n + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, value, n);
	copy[n] = 0;
	if (id->f[field]) {
		OPENSSL_cleanse(id->f[field], strlen(id->f[field]));
		free(id->f[field]);
	}
	id->f[field] = copy;
	return 0;
}

void swift_ident_done(struct swift_ident *id)
{
	for (unsigned i = 0; i < SWIFT_NFIELDS; i++) {
		if (id->f[i])
			OPENSSL_cleanse(id->f[i], strlen(id->f[i]));
		free(id->f[i]);
	}
	memset(id, 0, sizeof(*id));
}

void swift_auth_conf_set(struct swift_auth_conf *c, const struct store_conf *conf)
{
	*c = (struct swift_auth_conf){
		.uri = conf->uri,
		.auth = conf->param(conf, "auth"),
		.user = conf->param(conf, "user"),
		.key_file = conf->param(conf, "key-file"),
		.cloud = conf->param(conf, "cloud"),
		.region = conf->param(conf, "region"),
		.interface = conf->param(conf, "interface"),
		.ca = conf->param(conf, "ca"),
		.cert = conf->param(conf, "cert"),
		.key = conf->param(conf, "key"),
		.proxy = conf->param(conf, "proxy"),
	};
}

/* ---- files ---- */

static int file_fill(int fd, struct text *t, size_t size)
{
	size_t got = 0;

	if (swift_secret_room(t, size + 1) < 0)
		return -ENOMEM;
	while (got < size) {
		ssize_t n = read(fd, t->s + got, size - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	t->n = got;
	t->s[got] = 0;
	return 0;
}

int swift_file_read(const char *file, bool secret, struct text *ret, bool *ret_open,
		    struct text *why)
{
	/* Not blocked by a FIFO that somebody put there. */
	scoped_fd int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	bool wide;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0) {
		r = -errno;
		text_fmt(why, "%s: %s", file, err_text(r));
		return r;
	}
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)FILE_LIMIT) {
		text_fmt(why, "%s: not a regular file of at most 1 MiB", file);
		return -EINVAL;
	}
	wide = (st.st_mode & 077) || (st.st_uid != geteuid() && st.st_uid != 0);
	if (secret && wide) {
		text_fmt(why,
			 "%s: holds a secret, and its mode is %04o, owner %u: it must be this "
			 "user's (%u) and 0600 or 0400", file, st.st_mode & 07777, st.st_uid,
			 geteuid());
		return -EPERM;
	}
	r = file_fill(fd, ret, (size_t)st.st_size);
	if (r == 0 && strlen(text_str(ret)) != ret->n)
		r = -EINVAL;
	if (r < 0) {
		swift_wipe(ret);
		text_fmt(why, "%s: %s", file, err_text(r));
		return r;
	}
	if (ret_open)
		*ret_open = wide;
	return 0;
}

/* The first line is the key. */
static int key_file_load(struct swift_ident *id, const char *file, struct text *why)
{
	struct text t = TEXT_INIT;
	int r = swift_file_read(file, true, &t, NULL, why);
	size_t n;

	if (r < 0)
		return r;
	n = strcspn(text_str(&t), "\r\n");
	r = n ? swift_ident_set(id, SWIFT_PASSWORD, text_str(&t), n) : -EINVAL;
	if (r == -EINVAL)
		text_fmt(why, "%s: its first line is not a key", file);
	swift_wipe(&t);
	return r;
}

/* ---- sources ---- */

static const char *env_get(const char *name)
{
	const char *v = name ? getenv(name) : NULL;

	return v && v[0] ? v : NULL;
}

static int env_set(struct swift_ident *id, enum swift_field field, const char *name,
		   struct text *why)
{
	const char *v = env_get(name);
	int r = v ? swift_ident_set(id, field, v, strlen(v)) : 0;

	if (r == -EINVAL)
		text_fmt(why, "%s: is too long or holds control characters", name);
	return r;
}

static int env_keystone(struct swift_ident *id, struct text *why)
{
	int r = 0;

	for (unsigned i = 0; i < SWIFT_NFIELDS && r == 0; i++) {
		bool first = env_get(fields[i].env) != NULL;

		r = env_set(id, i, first ? fields[i].env : fields[i].alt, why);
	}
	return r;
}

static int env_tempauth(struct swift_ident *id, struct text *why)
{
	int r = env_set(id, SWIFT_AUTH_URL, "ST_AUTH", why);

	if (r == 0)
		r = env_set(id, SWIFT_USER, "ST_USER", why);
	if (r == 0)
		r = env_set(id, SWIFT_PASSWORD, "ST_KEY", why);
	if (r == 0)
		r = env_set(id, SWIFT_CACERT, "OS_CACERT", why);
	return r;
}

static bool url_is_tempauth(const char *url)
{
	static const char *const ends[] = { "/v1", "/v1.0", "/1.0" };
	size_t n = strlen(url);

	while (n > 0 && url[n - 1] == '/')
		n--;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t e = strlen(ends[i]);

		if (n > e && strncmp(url + n - e, ends[i], e) == 0)
			return true;
	}
	return false;
}

static int src_uri(struct swift_ident *id, const struct swift_auth_conf *c, struct text *why)
{
	int r;

	id->kind = url_is_tempauth(c->auth) ? SWIFT_TEMPAUTH : SWIFT_KEYSTONE;
	r = id->kind == SWIFT_TEMPAUTH ? env_tempauth(id, why) : env_keystone(id, why);
	return r < 0 ? r : swift_ident_set(id, SWIFT_AUTH_URL, c->auth, strlen(c->auth));
}

static const char *cloud_name(const struct swift_auth_conf *c)
{
	return c->cloud ? c->cloud : env_get("OS_CLOUD");
}

/* Appends the first of the usual places that has `base`; an explicit file is the only one. */
static bool cloud_file(const char *env, const char *base, struct text *ret)
{
	const char *home = env_get("HOME"), *xdg = env_get("XDG_CONFIG_HOME");

	if (env_get(env)) {
		text_add(ret, env_get(env));
		return true;
	}
	for (unsigned i = 0; i < 3; i++) {
		text_clear(ret);
		if (i == 0)
			text_add(ret, base);
		else if (i == 1 && xdg)
			text_fmt(ret, "%s/openstack/%s", xdg, base);
		else if (i == 1 && home)
			text_fmt(ret, "%s/.config/openstack/%s", home, base);
		else if (i == 2)
			text_fmt(ret, "/etc/openstack/%s", base);
		if (text_str(ret)[0] && access(text_str(ret), F_OK) == 0)
			return true;
	}
	text_clear(ret);
	return false;
}

static bool ident_secret(const struct swift_ident *id)
{
	return id->f[SWIFT_PASSWORD] || id->f[SWIFT_APP_SECRET] || id->f[SWIFT_TOKEN];
}

/* One file; one that others can read may hold everything but a secret. */
static int cloud_read(struct swift_ident *id, const char *file, bool secret, const char *cloud,
		      bool *ret_found, struct text *why)
{
	struct text t = TEXT_INIT;
	bool open = false, had = ident_secret(id);
	int r = swift_file_read(file, secret, &t, &open, why);

	if (r < 0)
		return r;
	r = swift_clouds_parse(id, &t, cloud, ret_found, why);
	swift_wipe(&t);
	if (r < 0) {
		struct text line = TEXT_INIT;

		text_fmt(&line, "%s: %s", file, text_str(why));
		text_clear(why);
		text_add(why, text_str(&line));
		text_done(&line);
		return r;
	}
	if (open && !had && ident_secret(id))
		return swift_file_read(file, true, &t, NULL, why);	/* says what is wrong */
	return 0;
}

static int cloud_kind(struct swift_ident *id, struct text *why)
{
	static const char *const known[] = { "password", "v3password", "token", "v3token",
					     "v3applicationcredential", "v1password" };
	const char *type = id->f[SWIFT_AUTH_TYPE];

	id->kind = SWIFT_KEYSTONE;
	if (!type)
		return 0;
	if (strcmp(type, "v1password") == 0)
		id->kind = SWIFT_TEMPAUTH;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(type, known[i]) == 0)
			return 0;
	}
	text_fmt(why, "%s: auth_type %s: is not one of password, token, v3password, v3token, "
		 "v3applicationcredential, v1password", id->file, type);
	return -TESS_E_URI;
}

static int src_cloud(struct swift_ident *id, const struct swift_auth_conf *c, struct text *why)
{
	struct text file = TEXT_INIT, safe = TEXT_INIT;
	const char *cloud = cloud_name(c);
	bool found = false, more = false;
	int r = 0;

	if (!cloud_file("OS_CLIENT_CONFIG_FILE", "clouds.yaml", &file)) {
		text_fmt(why, "cloud %s: no clouds.yaml here, in ~/.config/openstack or in "
			 "/etc/openstack", cloud);
		r = -ENOENT;
	}
	/* secure.yaml has the last word, and what is there already is kept: so it is read first. */
	if (r == 0 && cloud_file("OS_CLIENT_SECURE_FILE", "secure.yaml", &safe))
		r = cloud_read(id, text_str(&safe), true, cloud, &more, why);
	if (r == 0)
		r = cloud_read(id, text_str(&file), false, cloud, &found, why);
	if (r == 0 && !found) {
		text_fmt(why, "%s: has no cloud \"%s\"", text_str(&file), cloud);
		r = -ENOENT;
	}
	(void)snprintf(id->file, sizeof(id->file), "%s", text_str(&file));
	text_done(&file);
	text_done(&safe);
	return r < 0 ? r : cloud_kind(id, why);
}

static int src_token(struct swift_ident *id, const struct swift_auth_conf *c, struct text *why)
{
	(void)c;
	id->kind = SWIFT_STATIC;
	return env_keystone(id, why);
}

static int src_keystone(struct swift_ident *id, const struct swift_auth_conf *c, struct text *why)
{
	(void)c;
	id->kind = SWIFT_KEYSTONE;
	return env_keystone(id, why);
}

static int src_tempauth(struct swift_ident *id, const struct swift_auth_conf *c, struct text *why)
{
	(void)c;
	id->kind = SWIFT_TEMPAUTH;
	return env_tempauth(id, why);
}

static bool has_uri(const struct swift_auth_conf *c)
{
	return c->auth != NULL;
}

static bool has_cloud(const struct swift_auth_conf *c)
{
	return cloud_name(c) != NULL;
}

static bool has_token(const struct swift_auth_conf *c)
{
	(void)c;
	return env_get("OS_STORAGE_URL") && (env_get("OS_AUTH_TOKEN") || env_get("OS_TOKEN"));
}

static bool has_keystone(const struct swift_auth_conf *c)
{
	(void)c;
	return env_get("OS_AUTH_URL") != NULL;
}

static bool has_tempauth(const struct swift_auth_conf *c)
{
	(void)c;
	return env_get("ST_AUTH") != NULL;
}

static const struct source {
	const char *name, *takes;
	bool      (*has)(const struct swift_auth_conf *c);
	int       (*load)(struct swift_ident *id, const struct swift_auth_conf *c, struct text *why);
} sources[] = {
	{ "uri", "auth= of the target URI", has_uri, src_uri },
	{ "cloud", "cloud= or OS_CLOUD, of clouds.yaml", has_cloud, src_cloud },
	{ "token", "OS_STORAGE_URL with OS_AUTH_TOKEN or OS_TOKEN", has_token, src_token },
	{ "keystone", "OS_AUTH_URL", has_keystone, src_keystone },
	{ "tempauth", "ST_AUTH", has_tempauth, src_tempauth },
};

static const struct source *source_find(const struct swift_auth_conf *c, struct text *explain)
{
	const struct source *used = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		bool has = sources[i].has(c);

		if (explain)
			text_fmt(explain, "%-9s %s: %s\n", sources[i].name, sources[i].takes,
				 !has ? "not configured" :
				 used ? "configured, not used" : "used");
		if (has && !used)
			used = &sources[i];
	}
	return used;
}

/* What the URI says over what the source did. */
static int ident_override(struct swift_ident *id, const struct swift_auth_conf *c, struct text *why)
{
	const struct {
		enum swift_field field;
		const char      *value;
	} over[] = {
		{ SWIFT_USER, c->user },       { SWIFT_REGION, c->region },
		{ SWIFT_INTERFACE, c->interface }, { SWIFT_CACERT, c->ca },
		{ SWIFT_CERT, c->cert },       { SWIFT_KEY, c->key },
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(over) && r == 0; i++) {
		if (over[i].value)
			r = swift_ident_set(id, over[i].field, over[i].value,
					    strlen(over[i].value));
	}
	if (r == 0 && c->key_file)
		r = key_file_load(id, c->key_file, why);
	return r;
}

/* OS_CACERT and the files of a cloud are said where the command was given; they are read later, too. */
static int paths_resolve(struct swift_ident *id)
{
	static const enum swift_field files[] = { SWIFT_CACERT, SWIFT_CERT, SWIFT_KEY };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char **f = &id->f[files[i]], *path = NULL;
		int r = *f ? path_absolute(*f, &path) : 0;

		if (r < 0)
			return r;
		free(*f);
		*f = path;
	}
	return 0;
}

int swift_ident_load(struct swift_ident *id, const struct swift_auth_conf *c, struct text *explain,
		     struct text *why)
{
	const struct source *s = source_find(c, explain);
	int r;

	memset(id, 0, sizeof(*id));
	if (!s) {
		text_fmt(why, "%s: nobody says who we are: there is no ", c->uri);
		for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
			text_fmt(why, "%s%s", i ? "; no " : "", sources[i].takes);
		return -EACCES;
	}
	if (c->auth && c->cloud) {
		text_fmt(why, "%s: auth= and cloud= exclude each other", c->uri);
		return -TESS_E_URI;
	}
	id->source = s->name;
	r = s->load(id, c, why);
	if (r == 0 && !(s->load == src_cloud && (c->user || c->key_file)))
		r = ident_override(id, c, why);
	else if (r == 0) {
		text_fmt(why, "%s: user= and key-file= do not go with a cloud", c->uri);
		r = -TESS_E_URI;
	}
	if (r == 0)
		r = paths_resolve(id);
	if (r == 0)
		r = swift_ident_check(id, c, why);
	if (r < 0 && !text_str(why)[0])
		text_fmt(why, "%s: %s: %s", c->uri, s->takes, err_text(r));
	if (r < 0)
		swift_ident_done(id);
	return r;
}

static int check_interface(struct swift_ident *id, const struct swift_auth_conf *c,
			   struct text *why)
{
	char *v = id->f[SWIFT_INTERFACE];
	size_t n = v ? strlen(v) : 0;

	if (!v)
		return 0;
	if (n > 3 && strcmp(v + n - 3, "URL") == 0)	/* as Keystone v2 called them */
		v[n - 3] = 0;
	if (strcmp(v, "public") == 0 || strcmp(v, "internal") == 0 || strcmp(v, "admin") == 0)
		return 0;
	text_fmt(why, "%s: interface %s: public, internal and admin are possible", c->uri, v);
	return -TESS_E_URI;
}

int swift_ident_check(struct swift_ident *id, const struct swift_auth_conf *c, struct text *why)
{
	bool app = id->f[SWIFT_APP_SECRET] != NULL, user = id->f[SWIFT_USER] || id->f[SWIFT_USER_ID];
	const char *miss = NULL;

	if (id->kind == SWIFT_STATIC)
		miss = !id->f[SWIFT_TOKEN] ? "a token" : !id->f[SWIFT_STORAGE_URL] ? "a storage URL" : NULL;
	else if (!id->f[SWIFT_AUTH_URL])
		miss = "an auth URL";
	else if (id->kind == SWIFT_TEMPAUTH)
		miss = !id->f[SWIFT_USER]     ? "a user (user= or ST_USER)" :
		       !id->f[SWIFT_PASSWORD] ? "a key (key-file= or ST_KEY)" : NULL;
	else if (app)
		miss = id->f[SWIFT_APP_ID] || (id->f[SWIFT_APP_NAME] && user) ? NULL :
		       "the application credential's id, or its name and the user";
	else if (!user || !id->f[SWIFT_PASSWORD])
		miss = id->f[SWIFT_TOKEN] ? NULL :
		       !user ? "a user (user= or OS_USERNAME), an application credential or a token" :
			       "a password (key-file= or OS_PASSWORD)";
	if (miss) {
		text_fmt(why, "%s: %s: there must be %s", c->uri, id->source, miss);
		return -EACCES;
	}
	return check_interface(id, c, why);
}

void swift_ident_to_text(const struct swift_ident *id, struct text *out)
{
	static const char *const kinds[] = { "TempAuth", "Keystone", "a fixed token" };
	const char *user = id->f[SWIFT_USER] ? id->f[SWIFT_USER] : id->f[SWIFT_USER_ID];
	const char *project = id->f[SWIFT_PROJECT] ? id->f[SWIFT_PROJECT] : id->f[SWIFT_PROJECT_ID];

	text_fmt(out, "%s, %s", id->source, kinds[id->kind]);
	if (id->file[0])
		text_fmt(out, " of %s", id->file);
	if (id->kind == SWIFT_KEYSTONE && id->f[SWIFT_APP_SECRET])
		text_fmt(out, ", application credential %s",
			 id->f[SWIFT_APP_ID] ? id->f[SWIFT_APP_ID] : id->f[SWIFT_APP_NAME]);
	else if (id->kind != SWIFT_STATIC && user)
		text_fmt(out, ", user %s", user);
	if (id->kind == SWIFT_KEYSTONE && project)
		text_fmt(out, " of project %s", project);
	if (id->kind != SWIFT_STATIC)
		text_fmt(out, " at %s", id->f[SWIFT_AUTH_URL]);
}
