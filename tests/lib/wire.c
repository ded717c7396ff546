/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define WIRE_PEERS 4096

struct wire {
	int             fd;
	unsigned        port;
	wire_serve      serve;
	void           *arg;
	pthread_t       thread;
	pthread_mutex_t mutex;
	atomic_uint     conns;
	bool            stop;
	int             fds[WIRE_PEERS];	/* -1: closed */
	pthread_t       threads[WIRE_PEERS];
};

static void wire_die(const char *what)
{
	fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
	abort();
}

static void *peer_run(void *arg)
{
	struct wire_peer *p = arg;
	struct wire *w = p->wire;

	w->serve(p, w->arg);
	pthread_mutex_lock(&w->mutex);
	if (p->fd >= 0)
		close(p->fd);
	w->fds[p->conn] = -1;
	pthread_mutex_unlock(&w->mutex);
	free(p->body);
	free(p);
	return NULL;
}

static bool wire_accept(struct wire *w)
{
	int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC), one = 1;
	unsigned n = atomic_load(&w->conns);
	struct wire_peer *p;

	pthread_mutex_lock(&w->mutex);
	if (fd < 0 || w->stop || n == WIRE_PEERS) {
		pthread_mutex_unlock(&w->mutex);
		if (fd >= 0)
			close(fd);
		return false;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	p = calloc(1, sizeof(*p));
	if (!p)
		wire_die("calloc");
	p->fd = fd;
	p->conn = n;
	p->wire = w;
	w->fds[n] = fd;
	atomic_fetch_add(&w->conns, 1);
	if (pthread_create(&w->threads[n], NULL, peer_run, p))
		wire_die("pthread_create");
	pthread_mutex_unlock(&w->mutex);
	return true;
}

static void *wire_run(void *arg)
{
	while (wire_accept(arg))
		continue;
	return NULL;
}

/* A free port, or -1. */
static int wire_listen(const char *address, unsigned *ret_port)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	struct sockaddr_in four = { .sin_family = AF_INET };
	bool is_six = strchr(address, ':');
	struct sockaddr *a = is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four;
	socklen_t len = is_six ? sizeof(six) : sizeof(four);
	int fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	inet_pton(a->sa_family, address, is_six ? (void *)&six.sin6_addr : (void *)&four.sin_addr);
	if (bind(fd, a, len) || listen(fd, 256) || getsockname(fd, a, &len)) {
		close(fd);
		return -1;
	}
	*ret_port = ntohs(is_six ? six.sin6_port : four.sin_port);
	return fd;
}

struct wire *wire_start_on(const char *address, wire_serve serve, void *arg)
{
	struct wire *w = calloc(1, sizeof(*w));

	if (!w)
		wire_die("calloc");
	w->fd = wire_listen(address, &w->port);
	if (w->fd < 0) {
		free(w);
		return NULL;
	}
	w->serve = serve;
	w->arg = arg;
	pthread_mutex_init(&w->mutex, NULL);
	if (pthread_create(&w->thread, NULL, wire_run, w))
		wire_die("pthread_create");
	return w;
}

struct wire *wire_start(wire_serve serve, void *arg)
{
	struct wire *w = wire_start_on("127.0.0.1", serve, arg);

	if (!w)
		wire_die("listen");
	return w;
}

void wire_stop(struct wire *w)
{
	unsigned n;

	pthread_mutex_lock(&w->mutex);
	w->stop = true;
	pthread_mutex_unlock(&w->mutex);
	shutdown(w->fd, SHUT_RDWR);
	pthread_join(w->thread, NULL);
	n = atomic_load(&w->conns);
	pthread_mutex_lock(&w->mutex);
	for (unsigned i = 0; i < n; i++)
		if (w->fds[i] >= 0)
			shutdown(w->fds[i], SHUT_RDWR);
	pthread_mutex_unlock(&w->mutex);
	for (unsigned i = 0; i < n; i++)
		pthread_join(w->threads[i], NULL);
	close(w->fd);
	pthread_mutex_destroy(&w->mutex);
	free(w);
}

unsigned wire_port(const struct wire *w)
{
	return w->port;
}

unsigned wire_conns(const struct wire *w)
{
	return atomic_load(&w->conns);
}

static size_t head_length(const char *head)
{
	const char *s = strcasestr(head, "\r\nContent-Length:");

	return s ? strtoull(s + 17, NULL, 10) : 0;
}

bool wire_read_head(struct wire_peer *p)
{
	size_t n = p->nspare;
	char *end;

	memcpy(p->head, p->spare, n);
	p->head[n] = '\0';
	p->nspare = 0;
	while (!(end = strstr(p->head, "\r\n\r\n"))) {
		ssize_t k = n < sizeof(p->head) - 1 ?
				    read(p->fd, p->head + n, sizeof(p->head) - 1 - n) :
				    -1;

		if (k <= 0)
			return false;
		n += (size_t)k;
		p->head[n] = '\0';
	}
	end += 4;
	p->nspare = n - (size_t)(end - p->head);
	memcpy(p->spare, end, p->nspare);
	*end = '\0';
	free(p->body);
	p->body = NULL;
	p->body_len = head_length(p->head);
	return true;
}

bool wire_read_body(struct wire_peer *p)
{
	size_t n = p->nspare < p->body_len ? p->nspare : p->body_len;

	if (!p->body_len)
		return true;
	p->body = malloc(p->body_len);
	if (!p->body)
		wire_die("malloc");
	memcpy(p->body, p->spare, n);
	p->nspare -= n;
	memmove(p->spare, p->spare + n, p->nspare);
	while (n < p->body_len) {
		ssize_t k = read(p->fd, p->body + n, p->body_len - n);

		if (k <= 0)
			return false;
		n += (size_t)k;
	}
	return true;
}

bool wire_read(struct wire_peer *p)
{
	return wire_read_head(p) && wire_read_body(p);
}

void wire_send(struct wire_peer *p, const void *data, size_t n)
{
	const char *s = data;

	while (n) {
		ssize_t k = send(p->fd, s, n, MSG_NOSIGNAL);

		if (k <= 0)
			return;
		s += k;
		n -= (size_t)k;
	}
}

void wire_say(struct wire_peer *p, const char *s)
{
	wire_send(p, s, strlen(s));
}

void wire_reset(struct wire_peer *p)
{
	struct linger now = { .l_onoff = 1 };

	pthread_mutex_lock(&p->wire->mutex);
	setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(p->fd);
	p->wire->fds[p->conn] = -1;
	p->fd = -1;
	pthread_mutex_unlock(&p->wire->mutex);
}

void wire_hold(struct wire_peer *p)
{
	char c[4096];

	while (read(p->fd, c, sizeof(c)) > 0)
		continue;
}
