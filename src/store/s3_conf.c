/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3_impl.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/opt.h"
#include "base/path.h"
#include "base/text.h"
#include "store/deco.h"

#include <string.h>
#include <sys/stat.h>

#define MAX_PUT	   (UINT64_C(5) << 30)	/* what S3 takes in one PUT */
#define PREFIX_MAX 900u			/* 1024 bytes make a key */

static int refuse(const struct store_conf *conf, struct text *why, const char *name,
		  const char *says)
{
	text_fmt(why, "%s: %s: %s", conf->uri, name, says);
	return -TESS_E_URI;
}

static int param_dup(const struct store_conf *conf, const char *name, char **ret)
{
	const char *v = conf->param(conf, name);

	if (!v)
		return 0;
	*ret = mem_strdup(v);
	return *ret ? 0 : -ENOMEM;
}

/* Index of the value in `words`, or `dflt` when the parameter is not there. */
static int param_word(const struct store_conf *conf, const char *name, const char *const *words,
		      int dflt, int *ret, struct text *why)
{
	const char *v = conf->param(conf, name);

	*ret = dflt;
	if (!v)
		return 0;
	for (int i = 0; words[i]; i++) {
		if (strcmp(words[i], v) == 0) {
			*ret = i;
			return 0;
		}
	}
	text_fmt(why, "%s: %s=%s: one of", conf->uri, name, v);
	for (int i = 0; words[i]; i++)
		text_fmt(why, " %s", words[i]);
	text_add(why, " is possible");
	return -TESS_E_URI;
}

static bool bucket_ok(const char *s, size_t n)
{
	if (n < 3 || n > 255)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", s[i]))
			return false;
	}
	return s[0] != '.' && s[0] != '-';
}

/* Services disagree about what else a key may hold, and an HTTP library about "." and "..". */
static bool prefix_ok(const char *s)
{
	if (strlen(s) > PREFIX_MAX)
		return false;
	while (*s) {
		size_t n = strcspn(s, "/");

		if (n == 0 || (n <= 2 && strspn(s, ".") >= n))
			return false;
		for (size_t i = 0; i < n; i++) {
			if ((unsigned char)s[i] <= ' ' || s[i] == 0x7f || strchr("%?#&\\\"<>", s[i]))
				return false;
		}
		s += n;
		if (*s == '/')
			s++;
	}
	return true;
}

static int conf_place(struct s3_conf *c, const struct store_conf *conf, struct text *why)
{
	size_t n = strcspn(conf->place, "/"), k;
	const char *p = conf->place + n + (conf->place[n] == '/');

	/* Not even its URI is repeated: a secret may be in it. */
	if (strchr(conf->place, '@')) {
		text_add(why, "s3: a target URI takes no credentials: give them as the aws command line does");
		return -TESS_E_URI;
	}
	if (!bucket_ok(conf->place, n))
		return refuse(conf, why, "bucket", "3 or more letters, digits, dots and hyphens are possible");
	if (!prefix_ok(p))
		return refuse(conf, why, "prefix",
			      "names divided by '/' are possible, none empty, \".\" or \"..\"");
	c->bucket = mem_printf("%.*s", (int)n, conf->place);
	k = strlen(p);
	c->prefix = mem_printf("%s%s", p, k > 0 && p[k - 1] != '/' ? "/" : "");
	return c->bucket && c->prefix ? 0 : -ENOMEM;
}

/* A setting of the URI, else of the environment or the profile; -ENOENT. */
static int conf_setting(const struct s3_conf *c, const struct store_conf *conf, const char *param,
			const char *setting, struct text *ret)
{
	struct creds_conf cc = { .uri = conf->uri, .profile = c->profile };
	const char *v = conf->param(conf, param);
	int r;

	if (v) {
		text_add(ret, v);
		return text_error(ret);
	}
	if (c->anonymous)
		cc.anonymous = true;
	r = creds_setting(&cc, setting, ret);
	if (r == -ENOMEM)
		return r;
	/* A file that is broken is named by the credentials, if they come from there. */
	return r < 0 || !text_str(ret)[0] ? -ENOENT : 0;
}

static int conf_region(struct s3_conf *c, const struct store_conf *conf, struct text *why)
{
	struct text t = TEXT_INIT;
	int r = conf_setting(c, conf, "region", "region", &t);

	if (r == 0 && strcmp(text_str(&t), "auto") != 0) {
		c->region_given = true;
		if (t.n >= sizeof(c->region) ||
		    strspn(text_str(&t), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != t.n)
			r = refuse(conf, why, "region", "letters, digits and hyphens are possible");
		else
			(void)snprintf(c->region, sizeof(c->region), "%s", text_str(&t));
	} else if (r == 0 || r == -ENOENT) {
		(void)snprintf(c->region, sizeof(c->region), S3_REGION_DEFAULT);
		r = 0;
	}
	text_done(&t);
	return r;
}

static int conf_endpoint(struct s3_conf *c, const struct store_conf *conf, struct text *why)
{
	struct text t = TEXT_INIT;
	int r = conf_setting(c, conf, "endpoint", "endpoint_url", &t);

	if (r == -ENOENT) {
		c->aws = c->end.tls = true;
		r = 0;
	} else if (r == 0 && strchr(text_str(&t), '@')) {
		text_add(why, "s3: an endpoint takes no credentials: give them as the aws command line does");
		r = -TESS_E_URI;
	} else if (r == 0 && (http_url_parse(text_str(&t), &c->end) < 0 || strpbrk(c->end.path, "%?#"))) {
		r = refuse(conf, why, "endpoint", "http[s]://HOST[:PORT][/PATH] is possible");
	}
	if (c->end.port == (c->end.tls ? 443 : 80))
		c->end.port = 0;
	text_done(&t);
	return r;
}

static int conf_style(struct s3_conf *c, const struct store_conf *conf, struct text *why)
{
	static const char *const styles[] = { "0", "1", "auto", NULL };
	int style, r = param_word(conf, "path-style", styles, 2, &style, why);

	/* A wildcard of a certificate does not match dots. */
	c->path_style = style == 2 ? !c->aws || strchr(c->bucket, '.') : style == 1;
	return r;
}

static int conf_body(struct s3_conf *c, const struct store_conf *conf, struct text *why)
{
	static const char *const hashes[] = { "unsigned", "sha256", NULL };
	static const char *const sums[] = { "none", "md5", "crc32c", NULL };
	int hash, sum, r;

	/* Hashing costs more than all else of a PUT; TLS guards the body already, and on loopback nobody meets it. */
	r = param_word(conf, "payload-hash", hashes, !c->end.tls && !http_host_is_loopback(c->end.host),
		       &hash, why);
	if (r == 0)
		r = param_word(conf, "checksum", sums, S3_SUM_NONE, &sum, why);
	if (r == 0)
		r = deco_param_size(conf, "max-put", MAX_PUT, &c->max_put, why);
	if (r == 0)
		r = deco_param_uint(conf, "connections", 64, &c->connections, why);
	if (r < 0)
		return r;
	c->sign_body = hash == 1;
	c->checksum = (enum s3_checksum)sum;
	if (c->max_put < S3_PART_MIN || c->max_put > MAX_PUT)
		return refuse(conf, why, "max-put", "5M to 5G are possible");
	if (c->connections < 1 || c->connections > 1024)
		return refuse(conf, why, "connections", "1 to 1024 are possible");
	return 0;
}

/* As ssh does: a private key that others can read is no longer private. */
static int key_private(const struct store_conf *conf, const char *path, struct text *why)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		int r = -errno;

		text_fmt(why, "%s: key=%s: %s", conf->uri, path, err_text(r));
		return r;
	}
	if (st.st_mode & 077) {
		text_fmt(why, "%s: key=%s: mode %04o lets others read it: chmod 600 it", conf->uri,
			 path, st.st_mode & 07777);
		return -EPERM;
	}
	return 0;
}

static int conf_paths(const struct store_conf *conf, struct text *why)
{
	static const char *const files[] = { "key-file", "ca", "cert", "key" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (deco_param_path(conf, files[i], why) < 0)
			return -TESS_E_URI;
	}
	return 0;
}

static int conf_tls(struct s3_conf *c, const struct store_conf *conf, struct text *why)
{
	struct text t = TEXT_INIT;
	int r = conf_paths(conf, why);

	if (r == 0)
		r = param_dup(conf, "cert", &c->cert);
	if (r == 0)
		r = param_dup(conf, "key", &c->key);
	if (r == 0)
		r = param_dup(conf, "proxy", &c->proxy);
	if (r == 0) {
		r = conf_setting(c, conf, "ca", "ca_bundle", &t);
		if (r == 0)
			r = path_absolute(text_str(&t), &c->ca);
		else if (r == -ENOENT)
			r = 0;
	}
	text_done(&t);
	if (r < 0)
		return r;
	if (c->proxy && strchr(c->proxy, '@')) {
		text_add(why, "s3: a proxy in a target URI takes no credentials: set https_proxy instead");
		return -TESS_E_URI;
	}
	if (!c->cert != !c->key)
		return refuse(conf, why, "cert", "a client certificate is cert=FILE and key=FILE");
	return c->key ? key_private(conf, c->key, why) : 0;
}

static int conf_who(struct s3_conf *c, const struct store_conf *conf, struct text *why)
{
	static const char *const flags[] = { "0", "1", NULL };
	int anonymous, r = param_word(conf, "anonymous", flags, 0, &anonymous, why);

	c->anonymous = anonymous == 1;
	if (r == 0)
		r = param_dup(conf, "profile", &c->profile);
	if (r == 0)
		r = param_dup(conf, "key-file", &c->key_file);
	if (r == 0 && c->anonymous && (c->profile || c->key_file))
		r = refuse(conf, why, "anonymous", "profile and key-file say who you are: give one of these");
	return r;
}

int s3_conf_parse(struct s3_conf *ret, const struct store_conf *conf, struct text *why)
{
	static int (*const parts[])(struct s3_conf *, const struct store_conf *, struct text *) = {
		conf_place, conf_who, conf_endpoint, conf_region, conf_style, conf_tls, conf_body,
	};
	struct s3_conf c = { .bucket = NULL };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts) && r == 0; i++)
		r = parts[i](&c, conf, why);
	if (r < 0)
		s3_conf_done(&c);
	else
		*ret = c;
	return r;
}

void s3_conf_done(struct s3_conf *c)
{
	free(c->bucket);
	free(c->prefix);
	free(c->profile);
	free(c->key_file);
	free(c->ca);
	free(c->cert);
	free(c->key);
	free(c->proxy);
}

static void add_host(const struct s3_conf *c, struct text *out)
{
	if (c->aws)
		text_fmt(out, "s3.%s.amazonaws.com%s", c->region,
			 strncmp(c->region, "cn-", 3) == 0 ? ".cn" : "");
	else
		text_add(out, c->end.host);
	if (c->end.port)
		text_fmt(out, ":%u", c->end.port);
}

void s3_conf_host(const struct s3_conf *c, struct text *out)
{
	if (!c->path_style)
		text_fmt(out, "%s.", c->bucket);
	add_host(c, out);
}

void s3_conf_path(const struct s3_conf *c, const char *name, struct text *out)
{
	text_fmt(out, "%s/", c->end.path);
	if (c->path_style) {
		http_encode(out, c->bucket, false);
		if (name)
			text_add(out, "/");
	}
	if (name) {
		http_encode(out, c->prefix, true);
		http_encode(out, name, true);
	}
}

void s3_conf_endpoint(const struct s3_conf *c, struct text *out)
{
	text_add(out, c->end.tls ? "https://" : "http://");
	add_host(c, out);
	text_add(out, c->end.path);
}
