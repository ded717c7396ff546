/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a connection: who we are, where the cluster is, and one line about what is wrong. The secret
 * never passes through here: librados reads it from the keyring file.
 */
#ifdef HAVE_RADOS
#include "store/rados_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/text.h"
#include "store/deco.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define TIMEOUT_DEFAULT (30 * NS_PER_S)
#define TIMEOUT_MIN     (1 * NS_PER_S)
#define MAX_OBJECT      (UINT64_C(128) << 20)	/* where the cluster does not say */

static int copy_param(char **ret, const struct store_conf *conf, const char *name, const char *dflt)
{
	const char *v = conf->param(conf, name);

	v = v ? v : dflt;
	if (!v)
		return 0;
	*ret = mem_strdup(v);
	return *ret ? 0 : -ENOMEM;
}

int rados_settings_read(struct rados_settings *set, const struct store_conf *conf, struct text *why)
{
	const char *slash = strchr(conf->place, '/');
	const char *id = conf->param(conf, "id");
	uint64_t timeout;
	int r = deco_param_time(conf, "timeout", TIMEOUT_DEFAULT, &timeout, why);

	if (r == 0)
		r = deco_param_path(conf, "conf", why);
	if (r == 0)
		r = deco_param_path(conf, "keyring", why);
	set->pool = mem_strdup(conf->place);
	if (r < 0 || !set->pool)
		return r < 0 ? r : -ENOMEM;
	set->timeout = (int64_t)timeout;
	if (set->timeout < TIMEOUT_MIN || set->timeout > 3600 * NS_PER_S) {
		text_fmt(why, "%s: timeout: 1s to 1h are possible", conf->uri);
		return -TESS_E_URI;
	}
	if (slash) {
		set->pool[slash - conf->place] = 0;
		if (slash == conf->place || !slash[1]) {
			text_fmt(why, "%s: a target is rados://POOL[/NAMESPACE]", conf->uri);
			return -TESS_E_URI;
		}
		set->nspace = mem_strdup(slash + 1);
		if (!set->nspace)
			return -ENOMEM;
	}
	/* Both ways of writing a name are in use. */
	if (id && strncmp(id, "client.", 7) == 0)
		id += 7;
	set->id = mem_strdup(id ? id : "admin");
	r = set->id ? copy_param(&set->conf, conf, "conf", NULL) : -ENOMEM;
	if (r == 0)
		r = copy_param(&set->cluster, conf, "cluster", "ceph");
	if (r == 0)
		r = copy_param(&set->keyring, conf, "keyring", NULL);
	return r;
}

void rados_settings_done(struct rados_settings *set)
{
	free(set->pool);
	free(set->nspace);
	free(set->conf);
	free(set->id);
	free(set->cluster);
	free(set->keyring);
}

static void say(struct text *why, const char *uri, const char *what)
{
	text_fmt(why, "%s: %s", uri, what);
}

/* A key that everybody on this host can read is nobody's. */
static int keyring_check(const char *path, const char *uri, struct text *why)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (st.st_mode & 07) {
		text_fmt(why, "%s: %s: everybody may read this keyring; make it mode 600", uri, path);
		return -TESS_E_URI;
	}
	return 0;
}

/* librados takes the first that is there of a list. */
static int keyrings_check(const struct rados *rs, rados_t cluster, const char *uri, struct text *why)
{
	char list[4096], *at = list, *one;

	if (rs->api->conf_get(cluster, "key", list, sizeof(list)) == 0 && list[0]) {
		explicit_bzero(list, sizeof(list));
		return rs->set.conf ? keyring_check(rs->set.conf, uri, why) : 0;
	}
	if (rs->api->conf_get(cluster, "keyring", list, sizeof(list)) < 0)
		return 0;
	while ((one = strsep(&at, ",; ")) != NULL) {
		int r = *one ? keyring_check(one, uri, why) : -ENOENT;

		if (r != -ENOENT)
			return r == -EACCES ? 0 : r;
	}
	return 0;
}

static int conn_options(const struct rados *rs, rados_t cluster)
{
	char seconds[32];
	const struct {
		const char *name, *value;
	} options[] = {
		{ "rados_osd_op_timeout", seconds },
		{ "rados_mon_op_timeout", seconds },
		{ "client_mount_timeout", seconds },
		{ "objecter_inflight_ops", "0" },	/* no bound, see store_rados.c */
		{ "objecter_inflight_op_bytes", "0" },
		{ "err_to_stderr", "false" },
		{ "log_to_stderr", "false" },
		{ "keyring", rs->set.keyring },
	};

	(void)snprintf(seconds, sizeof(seconds), "%lld",
		       (long long)((rs->set.timeout + NS_PER_S - 1) / NS_PER_S));
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		int r = 0;

		if (options[i].value)
			r = rs->api->conf_set(cluster, options[i].name, options[i].value);
		if (r < 0)
			return r;
	}
	return 0;
}

static int conn_configure(const struct rados *rs, rados_t *ret, const char *uri, struct text *why)
{
	const struct rados_api *api = rs->api;
	char name[128];
	int r;

	(void)snprintf(name, sizeof(name), "client.%s", rs->set.id);
	r = api->create2(ret, rs->set.cluster, name, 0);
	if (r < 0) {
		*ret = NULL;
		say(why, uri, "librados refuses the name of the client or cluster");
		return r;
	}
	r = api->conf_read_file(*ret, rs->set.conf);
	if (r < 0) {
		text_fmt(why, "%s: configuration file %s: %s", uri,
			 rs->set.conf ? rs->set.conf : "(CEPH_CONF or /etc/ceph/ceph.conf; conf=FILE)",
			 err_text(r));
		return r == -ENOENT ? -TESS_E_URI : r;
	}
	r = conn_options(rs, *ret);
	if (r < 0) {
		say(why, uri, "librados refuses an option that is needed");
		return r;
	}
	r = keyrings_check(rs, *ret, uri, why);
	if (r < 0 && r != -TESS_E_URI)
		text_fmt(why, "%s: keyring: %s", uri, err_text(r));
	return r;
}

static void explain_connect(const struct rados *rs, int r, const char *uri, struct text *why)
{
	const char *id = rs->set.id;

	if (r == -EACCES || r == -EPERM)
		text_fmt(why, "%s: the cluster does not accept client.%s with the key of its keyring",
			 uri, id);
	else if (r == -ENOENT)
		text_fmt(why, "%s: no keyring with a key of client.%s (keyring=FILE, id=NAME)", uri, id);
	else if (r == -ETIMEDOUT)
		text_fmt(why, "%s: the monitors did not answer within %lld s", uri,
			 (long long)(rs->set.timeout / NS_PER_S));
	else
		text_fmt(why, "%s: connecting: %s (mon_host of the configuration file?)", uri,
			 err_text(r));
}

void rados_conn_free(const struct rados *rs, struct rados_conn *c)
{
	if (!c)
		return;
	if (c->io)
		rs->api->ioctx_destroy(c->io);
	if (c->cluster)
		rs->api->shutdown(c->cluster);
	free(c->addr);
	free(c);
}

int rados_conn_new(struct rados_conn **ret, const struct rados *rs, const char *uri, struct text *why)
{
	struct text unread = TEXT_INIT;
	struct rados_conn *c = mem_zalloc(sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	why = why ? why : &unread;
	list_init(&c->calls);
	list_init(&c->link);
	r = conn_configure(rs, &c->cluster, uri, why);
	if (r == 0) {
		r = rs->api->connect(c->cluster);
		if (r < 0)
			explain_connect(rs, r, uri, why);
	}
	if (r == 0) {
		r = rs->api->ioctx_create(c->cluster, rs->set.pool, &c->io);
		if (r < 0)
			c->io = NULL;
		if (r == -ENOENT)
			text_fmt(why, "%s: the cluster has no pool %s", uri, rs->set.pool);
		else if (r < 0)
			text_fmt(why, "%s: pool %s: %s", uri, rs->set.pool, err_text(r));
	}
	text_done(&unread);
	if (r < 0) {
		rados_conn_free(rs, c);
		return r == -ENOENT ? -TESS_E_URI : rados_map_error(r);
	}
	if (rs->set.nspace)
		rs->api->ioctx_set_namespace(c->io, rs->set.nspace);
	if (rs->api->getaddrs(c->cluster, &c->addr) < 0)
		c->addr = NULL;
	*ret = c;
	return 0;
}

static uint64_t conf_number(const struct rados *rs, const struct rados_conn *c, const char *name)
{
	char buf[64];

	if (rs->api->conf_get(c->cluster, name, buf, sizeof(buf)) < 0)
		return 0;
	return strtoull(buf, NULL, 10);
}

/* An object is one write operation, so that the limit of those counts too. It is given in MiB. */
uint64_t rados_conn_max_object(const struct rados *rs, const struct rados_conn *c)
{
	uint64_t object = conf_number(rs, c, "osd_max_object_size");
	uint64_t write = conf_number(rs, c, "osd_max_write_size") << 20;

	object = object ? object : MAX_OBJECT;
	return write ? MIN(object, write) : object;
}
#endif
