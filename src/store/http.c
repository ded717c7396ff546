/* SPDX-License-Identifier: Apache-2.0 */
/* An http and its configuration; what moves is in http_loop.c and http_call.c. */
#include "store/http_impl.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <fcntl.h>
#include <string.h>

static const char *const counter_names[HTTP_NCOUNTERS] = {
	[HTTP_CALLS] = "calls",
	[HTTP_CONNECTS] = "connects",
	[HTTP_REUSED] = "reused",
	[HTTP_RESENT] = "resent",
	[HTTP_BYTES_UP] = "bytes_up",
	[HTTP_BYTES_DOWN] = "bytes_down",
	[HTTP_ERR_UNSENT] = "err.unsent",
	[HTTP_ERR_RESET] = "err.reset",
	[HTTP_ERR_PROTO] = "err.protocol",
	[HTTP_ERR_TIMEOUT] = "err.timeout",
	[HTTP_ERR_CANCEL] = "err.cancelled",
	[HTTP_ERR_CERT] = "err.certificate",
	[HTTP_ERR_MEMORY] = "err.memory",
};

/* Told now, with its name, rather than by curl at each handshake. */
static int http_check_file(const char *what, const char *path, struct text *why)
{
	scoped_fd int fd = -1;
	int err;

	if (!path)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return 0;
	err = errno;
	text_fmt(why, "%s %s: %s", what, path, strerror(err));
	return -err;
}

static int conf_string(const char **s)
{
	if (!*s)
		return 0;
	*s = mem_strdup(*s);
	return *s ? 0 : -ENOMEM;
}

static int http_copy_conf(struct http *h, const struct http_conf *conf)
{
	struct http_conf *k = &h->conf;
	int r = 0;

	*k = *conf;
	k->name = conf->name ? conf->name : "http";
	r |= conf_string(&k->name);
	r |= conf_string(&k->ca_file);
	r |= conf_string(&k->cert_file);
	r |= conf_string(&k->key_file);
	r |= conf_string(&k->proxy);
	k->connections = k->connections ? k->connections : 64;
	k->threads = MIN(k->threads ? k->threads : 2, k->connections);
	k->connect_timeout = k->connect_timeout > 0 ? k->connect_timeout : 5 * NS_PER_S;
	k->stall_timeout = k->stall_timeout > 0 ? k->stall_timeout : 30 * NS_PER_S;
	return r;
}

static CURLcode global_init;

static void http_global_init(void)
{
	global_init = curl_global_init(CURL_GLOBAL_ALL);
}

/* A lookup that blocks a loop would block every other call of it. */
static int http_check_library(struct text *why)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, http_global_init);
	if (global_init != CURLE_OK)
		return -ENOMEM;
	if (curl_version_info(CURLVERSION_NOW)->features & CURL_VERSION_ASYNCHDNS)
		return 0;
	text_add(why, "libcurl was built without asynchronous name lookups");
	return -ENOTSUP;
}

static void http_trace(struct http *h)
{
	for (unsigned i = 0; i < HTTP_NCOUNTERS; i++)
		h->counters[i].name = counter_names[i];
	h->first_byte.name = "first_byte";
	snprintf(h->trace.name, sizeof(h->trace.name), "http.%s", h->conf.name);
	h->trace.counters = h->counters;
	h->trace.ncounters = HTTP_NCOUNTERS;
	h->trace.hists = &h->first_byte;
	h->trace.nhists = 1;
	trace_register(&h->trace);
	h->traced = true;
}

int http_new(struct http **ret, const struct http_conf *conf, struct text *why)
{
	struct http *h;
	int r = http_check_library(why);

	if (r == 0)
		r = http_check_file("CA file", conf->ca_file, why);
	if (r == 0)
		r = http_check_file("certificate file", conf->cert_file, why);
	if (r == 0)
		r = http_check_file("key file", conf->key_file, why);
	if (r < 0)
		return r;
	h = mem_zalloc(sizeof(*h));
	if (!h)
		return -ENOMEM;
	r = http_copy_conf(h, conf);
	if (r == 0)
		r = http_loops_start(h);
	if (r < 0) {
		http_free(h);
		return r;
	}
	http_trace(h);
	*ret = h;
	return 0;
}

void http_free(struct http *h)
{
	if (!h)
		return;
	if (h->traced)
		trace_unregister(&h->trace);
	http_loops_stop(h);
	free((char *)h->conf.name);
	free((char *)h->conf.ca_file);
	free((char *)h->conf.cert_file);
	free((char *)h->conf.key_file);
	free((char *)h->conf.proxy);
	free(h);
}

struct http_waiter {
	struct lock lock;
	struct cond cond;
	bool        over GUARDED_BY(lock);
};

static void http_do_done(struct http_call *c)
{
	struct http_waiter *w = c->owner;

	scoped_lock(&w->lock);
	w->over = true;
	cond_wake_all(&w->cond);
}

int http_do(struct http *h, struct http_call *c)
{
	struct http_waiter w = { .over = false };
	void (*done)(struct http_call *) = c->done;
	void *owner = c->owner;

	lock_init(&w.lock, LOCK_LEAF, "http_do");
	cond_init(&w.cond);
	c->done = http_do_done;
	c->owner = &w;
	http_send(h, c);
	lock_take(&w.lock);
	while (!w.over)
		cond_wait(&w.cond, &w.lock);
	lock_drop(&w.lock);
	cond_done(&w.cond);
	lock_done(&w.lock);
	c->done = done;
	c->owner = owner;
	return c->err;
}
