/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target URIs:  SCHEME:PLACE[?NAME=VALUE[&NAME=VALUE]…], percent-encoding in PLACE and VALUE. The
 * stores of a network are written SCHEME://PLACE.
 *
 * Every parameter is in a table, the store's own or the one of the decorators, so that a misspelt
 * one is refused instead of ignored. A decorator is stacked when one of its parameters is there.
 */
#include "store/store.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define URI_MAX    4096u
#define PARAMS_MAX 32u

struct scheme {
	const char             *name;
	const struct store_ops *ops;	/* NULL: known, not built in */
	bool                    place;	/* PLACE must be there */
	bool                    path;	/* PLACE is a path of this host */
	const char *const      *params;	/* NULL-terminated */
	const char             *form;	/* how a URI of it looks */
	bool                    net;	/* PLACE follows "//"; net_defaults apply */
};

static const char *const kv_params[] = { "size", "index", "inline", "direct", NULL };
static const char *const mem_params[] = { "size", NULL };
#ifdef HAVE_RADOS
#define RADOS_OPS &store_rados_ops
#else
#define RADOS_OPS NULL
#endif
static const char *const rados_params[] = { "conf", "id", "cluster", "keyring", "timeout", NULL };
static const char *const s3_params[] = { "endpoint", "region", "profile", "key-file", "anonymous",
					 "path-style", "ca", "cert", "key", "proxy", "payload-hash",
					 "checksum", "connections", "max-put", NULL };
static const char *const swift_params[] = { "auth", "region", "user", "key-file", "cloud", "ca", "cert",
					    "key", "proxy", "interface", "connections", "checksum",
					    NULL };
static const struct scheme schemes[] = {
	{ "kv", &store_kv_ops, true, true, kv_params, "kv:PATH", false },
	{ "mem", &store_mem_ops, false, false, mem_params, "mem:", false },
	{ "rados", RADOS_OPS, true, false, rados_params, "rados://POOL[/NAMESPACE]", true },
	{ "s3", &store_s3_ops, true, false, s3_params, "s3://BUCKET[/PREFIX]", true },
	{ "swift", &store_swift_ops, true, false, swift_params, "swift://CONTAINER[/PREFIX]", true },
};

/*
 * What a store behind a network gets unless the URI says otherwise: without a deadline a service
 * that vanished would hold its callers for ever; one that hiccups is not worth an I/O error.
 */
static const struct {
	const char *name, *value;
} net_defaults[] = {
	{ "retry", "12" },
	{ "deadline", "60s" },
	{ "limit", "auto" },
};

/* Innermost first. A decorator is there when its first parameter is, or another of its own. */
static const struct deco {
	const struct store_ops *ops;
	const char             *params[3];
	bool                    unless;	/* stacked unless params[0] is "0" */
} decos[] = {
	{ &deco_fault_ops, { "fault" }, false },
	{ &deco_latency_ops, { "latency", "rate" }, false },
	{ &deco_limit_ops, { "limit" }, false },
	{ &deco_retry_ops, { "retry", "deadline" }, false },
	{ &deco_trace_ops, { "trace" }, true },
};

/* The file system's own, not a store's. */
static const char *const fs_params[] = { "tier", "label", NULL };

struct uri {
	struct store_conf    conf;
	const struct scheme *scheme;
	char                *buf;	/* owned; the strings below point into it */
	unsigned             n;
	struct {
		const char *name, *value;
	} params[PARAMS_MAX];
};

void store_names(struct text *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		if (schemes[i].ops)
			text_fmt(out, "%s%s", i ? " " : "", schemes[i].name);
	}
}

static const char *uri_param(const struct store_conf *conf, const char *name)
{
	const struct uri *u = container_of(conf, struct uri, conf);

	for (unsigned i = 0; i < u->n; i++) {
		if (strcmp(u->params[i].name, name) == 0)
			return u->params[i].value;
	}
	return NULL;
}

static bool in_list(const char *const *list, const char *name)
{
	for (; *list; list++) {
		if (strcmp(*list, name) == 0)
			return true;
	}
	return false;
}

static bool param_known(const struct scheme *s, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(decos); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(decos[i].params) && decos[i].params[j]; j++) {
			if (strcmp(decos[i].params[j], name) == 0)
				return true;
		}
	}
	return in_list(s->params, name) || in_list(fs_params, name);
}

static void params_list(const struct scheme *s, struct text *out)
{
	for (const char *const *p = s->params; *p; p++)
		text_fmt(out, "%s ", *p);
	for (size_t i = 0; i < ARRAY_SIZE(decos); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(decos[i].params) && decos[i].params[j]; j++)
			text_fmt(out, "%s ", decos[i].params[j]);
	}
	text_add(out, "tier label");
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place. */
static int decode(char *s)
{
	char *to = s;

	for (; *s; s++) {
		int hi, lo;

		if (*s != '%') {
			*to++ = *s;
			continue;
		}
		hi = hex(s[1]);
		lo = hi < 0 ? -1 : hex(s[2]);
		if (lo < 0 || hi * 16 + lo == 0)
			return -EINVAL;
		*to++ = (char)(hi * 16 + lo);
		s += 2;
	}
	*to = 0;
	return 0;
}

static int uri_params(struct uri *u, char *query, struct text *why)
{
	char *one;

	while ((one = strsep(&query, "&")) != NULL) {
		char *value = strchr(one, '=');

		if (!value || value == one || !value[1]) {
			text_fmt(why, "%s: \"%s\": a parameter is NAME=VALUE", u->conf.uri, one);
			return -TESS_E_URI;
		}
		*value++ = 0;
		if (!param_known(u->scheme, one)) {
			/* Its value is not repeated: it may be a secret that somebody tried here. */
			text_fmt(why, "%s:%s: %s: unknown parameter; of %s: there are ",
				 u->scheme->name, u->conf.place, one, u->scheme->name);
			params_list(u->scheme, why);
			return -TESS_E_URI;
		}
		if (uri_param(&u->conf, one)) {
			text_fmt(why, "%s: %s: given twice", u->conf.uri, one);
			return -TESS_E_URI;
		}
		if (decode(value) < 0) {
			text_fmt(why, "%s: %s: %% is followed by two hexadecimal digits, not 00",
				 u->conf.uri, one);
			return -TESS_E_URI;
		}
		if (u->n == PARAMS_MAX) {
			text_fmt(why, "%s: more than %u parameters", u->conf.uri, PARAMS_MAX);
			return -TESS_E_URI;
		}
		u->params[u->n].name = one;
		u->params[u->n++].value = value;
	}
	return 0;
}

static int uri_defaults(struct uri *u, struct text *why)
{
	for (size_t i = 0; i < ARRAY_SIZE(net_defaults); i++) {
		if (uri_param(&u->conf, net_defaults[i].name))
			continue;
		if (u->n == PARAMS_MAX) {
			text_fmt(why, "%s: more than %zu parameters", u->conf.uri,
				 PARAMS_MAX - ARRAY_SIZE(net_defaults));
			return -TESS_E_URI;
		}
		u->params[u->n].name = net_defaults[i].name;
		u->params[u->n++].value = net_defaults[i].value;
	}
	return 0;
}

static int uri_scheme(struct uri *u, const char *name, struct text *why)
{
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		if (strcmp(schemes[i].name, name) == 0)
			u->scheme = &schemes[i];
	}
	if (u->scheme && u->scheme->ops)
		return 0;
	text_fmt(why, u->scheme ? "%s: store %s is not built into this program; built in: " :
				  "%s: \"%s\": unknown store; built in: ", u->conf.uri, name);
	store_names(why);
	return -TESS_E_URI;
}

/* Everything but opening. u->buf is the caller's to free, also after an error. */
static int uri_parse(struct uri *u, const char *uri, struct text *why)
{
	char *place, *query;

	memset(u, 0, sizeof(*u));
	u->conf.uri = uri;
	u->conf.param = uri_param;
	if (strlen(uri) > URI_MAX) {
		text_fmt(why, "target URI is longer than %u characters", URI_MAX);
		return -TESS_E_URI;
	}
	for (const char *c = uri; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f) {
			text_fmt(why,
				 "target URI holds a control character at position %zu: write it "
				 "as %%%02X",
				 (size_t)(c - uri), (unsigned char)*c);
			return -TESS_E_URI;
		}
	}
	u->buf = mem_strdup(uri);
	if (!u->buf)
		return -ENOMEM;
	place = strchr(u->buf, ':');
	if (!place || place == u->buf) {
		text_fmt(why,
			 "\"%s\": a target is STORE:PLACE[?NAME=VALUE&…], such as "
			 "kv:/data/t0?size=100G",
			 uri);
		return -TESS_E_URI;
	}
	*place++ = 0;
	if (uri_scheme(u, u->buf, why) < 0)
		return -TESS_E_URI;
	if (u->scheme->net && strncmp(place, "//", 2) != 0) {
		text_fmt(why, "%s: a target of %s is written %s", uri, u->buf, u->scheme->form);
		return -TESS_E_URI;
	}
	place += u->scheme->net ? 2 : 0;
	if (u->scheme->net && place[strcspn(place, "@/?")] == '@') {
		text_fmt(why, "%s: a target URI takes no credentials; see tessera-target(7) for where they belong",
			 u->buf);
		return -TESS_E_URI;
	}
	query = strchr(place, '?');
	if (query)
		*query++ = 0;
	if (decode(place) < 0) {
		text_fmt(why, "%s: place: %% is followed by two hexadecimal digits, not 00", uri);
		return -TESS_E_URI;
	}
	if (!*place && u->scheme->place) {
		text_fmt(why, "%s: no place; a target is %s", uri, u->scheme->form);
		return -TESS_E_URI;
	}
	u->conf.scheme = u->buf;
	u->conf.place = place;
	if (query && uri_params(u, query, why) < 0)
		return -TESS_E_URI;
	return u->scheme->net ? uri_defaults(u, why) : 0;
}

static bool deco_wanted(const struct uri *u, const struct deco *d)
{
	const char *v = uri_param(&u->conf, d->params[0]);

	if (d->unless)
		return !v || strcmp(v, "0") != 0;
	for (size_t j = 0; j < ARRAY_SIZE(d->params) && d->params[j]; j++) {
		if (uri_param(&u->conf, d->params[j]))
			return true;
	}
	return false;
}

static int uri_stack(struct uri *u, const struct store_open_opts *o, struct store **ret,
		     struct text *why)
{
	struct store *s = NULL, *outer;
	int r = u->scheme->ops->open(&s, &u->conf, NULL, why);

	if (r < 0)
		return r;
	(void)snprintf(s->label, sizeof(s->label), "%s", o->label ? o->label : u->scheme->name);
	for (size_t i = 0; i < ARRAY_SIZE(decos); i++) {
		if (!deco_wanted(u, &decos[i]))
			continue;
		r = decos[i].ops->open(&outer, &u->conf, s, why);
		if (r < 0) {
			store_close(s);
			if (o->create && u->scheme->ops->unmake)
				u->scheme->ops->unmake(&u->conf);
			return r;
		}
		s = outer;
	}
	*ret = s;
	return 0;
}

int store_open_uri(struct store **ret, const char *uri, const struct store_open_opts *opts,
		   struct text *why)
{
	static const struct store_open_opts none;
	struct text unread = TEXT_INIT;
	struct uri u;
	int r;

	why = why ? why : &unread;
	opts = opts ? opts : &none;
	r = uri_parse(&u, uri, why);
	if (r == 0) {
		u.conf.create = opts->create;
		u.conf.readonly = opts->readonly;
		u.conf.fsid = opts->fsid;
		u.conf.boot_id = opts->boot_id;
		r = uri_stack(&u, opts, ret, why);
	}
	if (r < 0 && !text_str(why)[0])
		text_fmt(why, "%s: %s", uri, err_text(r));
	free(u.buf);
	text_done(&unread);
	return r;
}

void store_unmake_uri(const char *uri, uint64_t fsid)
{
	struct text unread = TEXT_INIT;
	struct uri u;

	if (uri_parse(&u, uri, &unread) == 0 && u.scheme->ops->unmake) {
		u.conf.fsid = fsid;
		u.scheme->ops->unmake(&u.conf);
	}
	free(u.buf);
	text_done(&unread);
}

int store_uri_check(const char *uri, struct text *why)
{
	struct uri u;
	int r = uri_parse(&u, uri, why);

	free(u.buf);
	return r;
}

int store_uri_param(const char *uri, const char *name, struct text *ret, struct text *why)
{
	struct uri u;
	int r = uri_parse(&u, uri, why);
	const char *v = r == 0 ? uri_param(&u.conf, name) : NULL;

	if (v)
		text_add(ret, v);
	else if (r == 0)
		r = -ENOENT;
	free(u.buf);
	return r == 0 ? text_error(ret) : r;
}

static void add_encoded(struct text *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '%' || *s == '?' || (unsigned char)*s < ' ' || *s == 0x7f)
			text_fmt(out, "%%%02X", (unsigned char)*s);
		else
			text_addn(out, s, 1);
	}
}

int store_uri_absolute(const char *uri, struct text *ret, struct text *why)
{
	struct uri u;
	int r = uri_parse(&u, uri, why);

	if (r == 0 && u.scheme->path && u.conf.place[0] != '/') {
		scoped_free char *cwd = getcwd(NULL, 0);

		if (cwd) {
			text_fmt(ret, "%s:", u.scheme->name);
			add_encoded(ret, cwd);
			text_fmt(ret, "/%s", strchr(uri, ':') + 1);
		} else {
			r = -errno;
			text_fmt(why, "%s: the working directory is gone", uri);
		}
	} else if (r == 0) {
		text_add(ret, uri);
	}
	free(u.buf);
	return r == 0 ? text_error(ret) : r;
}
