/* SPDX-License-Identifier: Apache-2.0 */
/* A thread for each connection, one lock for everything they share. */
#include "fakeobj_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const fake_verbs[V_N] = {
	"put", "get", "head", "del", "list", "bulk", "other", "auth", "creds", "connect", "none",
};
const char *const fake_outcomes[O_N] = { "ok", "fault", "denied", "missing", "other" };

struct connection {
	struct fakeobj *f;
	int             fd;
};

/* --- control and figures --- */

static uint64_t sum(const struct fakeobj *f, enum verb v)
{
	uint64_t n = 0;

	for (unsigned o = 0; o < O_N; o++)
		n += f->count[v][o];
	return n;
}

uint64_t fakeobj_count(struct fakeobj *f, const char *verb, const char *outcome)
{
	bool any = strcmp(verb, "any") == 0, all = strcmp(verb, "all") == 0;
	uint64_t n = 0;

	pthread_mutex_lock(&f->lock);
	if (strcmp(outcome, "elsewhere") == 0)
		n = f->elsewhere;
	else if (strcmp(outcome, "issued") == 0)
		n = f->issued;
	for (unsigned v = 0; v < V_CONNECT; v++) {
		if (strcmp(verb, fake_verbs[v]) != 0 && !all && !(any && v <= V_OTHER))
			continue;
		if (strcmp(outcome, "all") == 0)
			n += sum(f, v);
		for (unsigned o = 0; o < O_N; o++)
			n += strcmp(outcome, fake_outcomes[o]) == 0 ? f->count[v][o] : 0;
	}
	pthread_mutex_unlock(&f->lock);
	return n;
}

uint64_t fakeobj_objects(struct fakeobj *f, const char *prefix, uint64_t *ret_bytes)
{
	uint64_t n = 0, bytes = 0;

	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->nobjs; i++) {
		if (prefix && strncmp(f->objs[i]->name, prefix, strlen(prefix)) != 0)
			continue;
		n++;
		bytes += f->objs[i]->size;
	}
	pthread_mutex_unlock(&f->lock);
	if (ret_bytes)
		*ret_bytes = bytes;
	return n;
}

uint64_t fakeobj_connections(struct fakeobj *f)
{
	uint64_t n;

	pthread_mutex_lock(&f->lock);
	n = f->connections;
	pthread_mutex_unlock(&f->lock);
	return n;
}

char *fakeobj_stats(struct fakeobj *f)
{
	char *p = NULL;
	size_t n = 0;
	FILE *o = open_memstream(&p, &n);

	if (!o)
		return NULL;
	pthread_mutex_lock(&f->lock);
	fprintf(o, "{\"objects\":%zu,\"bytes\":%llu,\"connections\":%llu,\"open\":%u,\"issued\":%llu,"
		   "\"elsewhere\":%llu,\"bytes_in\":%llu,\"bytes_out\":%llu,\"requests\":{",
		f->nobjs, (unsigned long long)f->bytes, (unsigned long long)f->connections, f->nfds,
		(unsigned long long)f->issued, (unsigned long long)f->elsewhere,
		(unsigned long long)f->bytes_in, (unsigned long long)f->bytes_out);
	for (unsigned v = 0; v < V_CONNECT; v++) {
		fprintf(o, "%s\"%s\":{\"all\":%llu", v ? "," : "", fake_verbs[v],
			(unsigned long long)sum(f, v));
		for (unsigned i = 0; i < O_N; i++)
			fprintf(o, ",\"%s\":%llu", fake_outcomes[i],
				(unsigned long long)f->count[v][i]);
		fputs("}", o);
	}
	pthread_mutex_unlock(&f->lock);
	fputs("}}\n", o);
	return fclose(o) == 0 ? p : NULL;
}

int fakeobj_rules(struct fakeobj *f, const char *rules)
{
	return fake_fault_rules(f, rules);
}

void fakeobj_max_object(struct fakeobj *f, uint64_t bytes)
{
	pthread_mutex_lock(&f->lock);
	f->conf.max_object = bytes;
	pthread_mutex_unlock(&f->lock);
}

void fakeobj_life(struct fakeobj *f, unsigned life_ms)
{
	pthread_mutex_lock(&f->lock);
	f->conf.life_ms = life_ms;
	pthread_mutex_unlock(&f->lock);
}

void fakeobj_skew(struct fakeobj *f, int seconds)
{
	pthread_mutex_lock(&f->lock);
	f->conf.skew = seconds;
	pthread_mutex_unlock(&f->lock);
}

void fakeobj_expire(struct fakeobj *f)
{
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->ngrants; i++)
		f->grants[i].until = 1;
	pthread_mutex_unlock(&f->lock);
}

static void cut_all(struct fakeobj *f, int but)
{
	pthread_mutex_lock(&f->lock);
	for (unsigned i = 0; i < f->nfds; i++) {
		if (f->fds[i] == but)
			continue;
		fake_http_rst(f->fds[i]);
		(void)shutdown(f->fds[i], SHUT_RDWR);
	}
	pthread_mutex_unlock(&f->lock);
}

void fakeobj_kick(struct fakeobj *f)
{
	cut_all(f, -1);
}

static unsigned number(const struct request *q, const char *name)
{
	const char *v = fake_http_query(q, name);

	return v ? (unsigned)strtoul(v, NULL, 10) : 0;
}

static void control(struct request *q, struct reply *r)
{
	const char *rules = fake_http_query(q, "rules");
	struct fakeobj *f = q->f;

	if (rules && fake_fault_rules(f, rules) < 0) {
		fake_reply_error(r, q, 400, "BadRule");
		return;
	}
	pthread_mutex_lock(&f->lock);
	if (fake_http_query(q, "life"))
		f->conf.life_ms = number(q, "life");
	if (fake_http_query(q, "page"))
		f->conf.page = number(q, "page");
	if (fake_http_query(q, "skew"))
		f->conf.skew = (int)strtol(fake_http_query(q, "skew"), NULL, 10);
	if (fake_http_query(q, "anonymous"))
		f->conf.anonymous = number(q, "anonymous") != 0;
	if (number(q, "reset")) {
		memset(f->count, 0, sizeof(f->count));
		f->issued = f->elsewhere = f->bytes_in = f->bytes_out = 0;
	}
	pthread_mutex_unlock(&f->lock);
	if (number(q, "expire"))
		fakeobj_expire(f);
	if (number(q, "kick"))
		cut_all(f, q->fd);
	if (number(q, "clear"))
		fake_objects_clear(f);
	r->status = 204;
}

/* Asked by the tests themselves, or never to be asked; true: answered. */
static bool special(struct request *q, struct reply *r)
{
	char *p;

	if (strcmp(q->path, "/_stats") == 0) {
		p = fakeobj_stats(q->f);
		fake_reply_text(r, "application/json", p, p ? strlen(p) : 0);
	} else if (strcmp(q->path, "/_control") == 0) {
		control(q, r);
	} else if (strncmp(q->path, "/_elsewhere", 11) == 0) {
		pthread_mutex_lock(&q->f->lock);
		q->f->elsewhere++;
		pthread_mutex_unlock(&q->f->lock);
		fake_reply_error(r, q, 404, "NoSuchKey");
	} else {
		return false;
	}
	return true;
}

/* --- connections --- */

static void count(struct request *q, const struct reply *r, bool fault)
{
	enum outcome o = O_OTHER;

	if (fault)
		o = O_FAULT;
	else if (r->status < 300)
		o = O_OK;
	else if (r->status == 401 || r->status == 403)
		o = O_DENIED;
	else if (r->status == 404)
		o = O_MISSING;
	pthread_mutex_lock(&q->f->lock);
	q->f->count[q->verb][o]++;
	pthread_mutex_unlock(&q->f->lock);
}

static int serve(struct request *q)
{
	struct reply r;
	bool fault;
	int err;

	fake_reply_begin(&r, q);
	q->verb = V_NONE;
	if (special(q, &r)) {
		err = fake_reply_send(&r, q);
		fake_reply_done(&r);
		return err;
	}
	q->swift = fake_swift_is(q);
	if (fake_creds_is(q))
		q->verb = V_CREDS;
	else
		q->verb = q->swift ? fake_swift_verb(q) : fake_s3_verb(q);
	q->fault = fake_fault_pick(q->f, q->verb);
	fault = q->fault.kind != K_NONE;
	if (!fault || q->fault.kind > K_CARRIED_OUT) {
		if (q->verb == V_CREDS)
			fake_creds_serve(q, &r);
		else if (q->swift)
			fake_swift_serve(q, &r);
		else
			fake_s3_serve(q, &r);
		/* Before it is sent: who has the answer may look at the counters. */
		count(q, &r, fault);
		err = fake_reply_send(&r, q);
	} else {
		count(q, &r, fault);
		err = fake_fault_answer(q, &r);
	}
	fake_reply_done(&r);
	return err;
}

static void forget(struct fakeobj *f, int fd)
{
	pthread_mutex_lock(&f->lock);
	for (unsigned i = 0; i < f->nfds; i++) {
		if (f->fds[i] == fd) {
			f->fds[i] = f->fds[--f->nfds];
			break;
		}
	}
	/* Within the lock: the number is another's as soon as it is closed. */
	(void)close(fd);
	if (f->nfds == 0)
		pthread_cond_broadcast(&f->idle);
	pthread_mutex_unlock(&f->lock);
}

static void *converse(void *arg)
{
	struct connection c = *(struct connection *)arg;
	int r = fake_fault_connect(c.f, c.fd);

	free(arg);
	while (r == 0) {
		struct request q = { .fd = c.fd, .f = c.f };

		r = fake_http_read(&q) == 1 ? serve(&q) : -1;
		fake_http_request_free(&q);
	}
	forget(c.f, c.fd);
	return NULL;
}

static void welcome(struct fakeobj *f, int fd)
{
	struct connection *c = malloc(sizeof(*c));
	pthread_attr_t attr;
	pthread_t t;
	int one = 1;

	if (!c)
		abort();
	c->f = f;
	c->fd = fd;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	pthread_mutex_lock(&f->lock);
	if (f->nfds == f->capfds) {
		f->capfds = f->capfds ? 2 * f->capfds : 64;
		f->fds = realloc(f->fds, f->capfds * sizeof(f->fds[0]));
		if (!f->fds)
			abort();
	}
	f->fds[f->nfds++] = fd;
	f->connections++;
	pthread_mutex_unlock(&f->lock);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&t, &attr, converse, c) != 0) {
		free(c);
		forget(f, fd);
	}
	(void)pthread_attr_destroy(&attr);
}

static void *accept_all(void *arg)
{
	struct fakeobj *f = arg;
	struct pollfd p[2] = { { .fd = f->listener, .events = POLLIN },
			       { .fd = f->stop[0], .events = POLLIN } };

	for (;;) {
		int fd;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return NULL;
		if (p[1].revents)
			return NULL;
		fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			welcome(f, fd);
	}
}

static int open_port(struct fakeobj *f)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)f->conf.port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	int one = 1;

	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (f->listener < 0)
		return -errno;
	(void)setsockopt(f->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(f->listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(f->listener, 512) < 0 ||
	    getsockname(f->listener, (struct sockaddr *)&a, &n) < 0)
		return -errno;
	f->port = ntohs(a.sin_port);
	return 0;
}

static void copy_text(char *to, size_t cap, const char *value, const char *dflt)
{
	(void)snprintf(to, cap, "%s", value ? value : dflt);
}

void fakeobj_access(struct fakeobj *f, const char *access)
{
	pthread_mutex_lock(&f->lock);
	copy_text(f->access, sizeof(f->access), access, FAKEOBJ_ACCESS);
	pthread_mutex_unlock(&f->lock);
}

int fakeobj_start(struct fakeobj **ret, const struct fakeobj_conf *conf)
{
	struct fakeobj *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	if (conf)
		f->conf = *conf;
	if (!f->conf.max_object)
		f->conf.max_object = (UINT64_C(5) << 30) + 2;
	copy_text(f->access, sizeof(f->access), f->conf.access, FAKEOBJ_ACCESS);
	copy_text(f->secret, sizeof(f->secret), f->conf.secret, FAKEOBJ_SECRET);
	copy_text(f->user, sizeof(f->user), f->conf.user, FAKEOBJ_USER);
	copy_text(f->key, sizeof(f->key), f->conf.key, FAKEOBJ_KEY);
	copy_text(f->region, sizeof(f->region), f->conf.region, "");
	(void)pthread_mutex_init(&f->lock, NULL);
	(void)pthread_cond_init(&f->idle, NULL);
	r = pipe2(f->stop, O_CLOEXEC) < 0 ? -errno : open_port(f);
	if (r == 0)
		r = -pthread_create(&f->acceptor, NULL, accept_all, f);
	if (r < 0) {
		free(f);
		return r;
	}
	*ret = f;
	return 0;
}

unsigned fakeobj_port(const struct fakeobj *f)
{
	return f->port;
}

void fakeobj_stop(struct fakeobj *f)
{
	if (!f)
		return;
	if (write(f->stop[1], "x", 1) != 1)
		abort();
	(void)pthread_join(f->acceptor, NULL);
	(void)close(f->listener);
	cut_all(f, -1);
	pthread_mutex_lock(&f->lock);
	while (f->nfds > 0)
		(void)pthread_cond_wait(&f->idle, &f->lock);
	pthread_mutex_unlock(&f->lock);
	fake_objects_clear(f);
	(void)close(f->stop[0]);
	(void)close(f->stop[1]);
	free(f->objs);
	free(f->fds);
	free(f->grants);
	(void)pthread_cond_destroy(&f->idle);
	(void)pthread_mutex_destroy(&f->lock);
	free(f);
}
