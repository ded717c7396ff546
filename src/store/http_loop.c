/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops. A call goes to the loop with the fewest, the first of equals: what little traffic there
 * is keeps few connections warm. A loop holds it in one of
 *
 *	incoming   taken by http_send(), under the lock
 *	waiting    for one of the loop's connections; its deadline runs
 *	active     curl has it
 *
 * and in `held` all the time, by which http_cancel() finds it. curl is driven by epoll and
 * curl_multi_socket_action() rather than curl_multi_poll(): that one looks at every transfer, with a
 * system call each, whenever one of them moves.
 *
 * No more transfers are active than the loop may have connections, so that curl never queues.
 */
#include "store/http_impl.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/pool.h"
#include "base/scoped.h"
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>

#define HTTP_EVENTS 64

struct http_loop {
	struct http     *http;
	CURLM           *multi;
	pthread_t        thread;
	bool             running;	/* the thread is there */
	int              epoll_fd, wake_fd;
	int64_t          curl_at;	/* when curl wants to be called, mono(); CLOCK_NEVER */
	int64_t          check_at;	/* no deadline and no stall before that; clock_now() scale */
	struct list_node waiting, active;	/* http_xfer.link */
	unsigned         nactive, max;
	CURL           **idle;		/* owned; reset handles, nidle of max */
	unsigned         nidle;

	atomic_uint      load;		/* calls held */
	struct lock      lock;
	struct list_node held GUARDED_BY(lock);	/* http_call.link */
	struct list_node starved GUARDED_BY(lock);	/* http_call.link: no memory to hold them */
	struct list_node incoming GUARDED_BY(lock);	/* http_xfer.link */
	bool             woken GUARDED_BY(lock), cancels GUARDED_BY(lock), stop GUARDED_BY(lock);
};

static enum http_counter http_err_counter(int err)
{
	switch (-err) {
	case ECONNRESET:
		return HTTP_ERR_RESET;
	case ETIMEDOUT:
		return HTTP_ERR_TIMEOUT;
	case ECANCELED:
		return HTTP_ERR_CANCEL;
	case EACCES:
		return HTTP_ERR_CERT;
	case ENOMEM:
		return HTTP_ERR_MEMORY;
	case EPROTO:
	case EINVAL:
		return HTTP_ERR_PROTO;
	default:
		return HTTP_ERR_UNSENT;
	}
}

/* curl's timers are of the kernel's clock, whatever a test makes of clock_now(). */
static int64_t mono(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* ---- calls come and go ---- */

static void loop_wake_locked(struct http_loop *l) NO_TSA
{
	uint64_t one = 1;

	if (l->woken)
		return;
	l->woken = true;
	/* Only a full counter could refuse, and that wakes as well. */
	if (write(l->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static struct http_loop *http_choose(struct http *h)
{
	struct http_loop *best = &h->loops[0];
	unsigned least = atomic_load_explicit(&best->load, memory_order_relaxed);

	for (unsigned i = 1; i < h->nloops && least; i++) {
		unsigned n = atomic_load_explicit(&h->loops[i].load, memory_order_relaxed);

		if (n < least) {
			least = n;
			best = &h->loops[i];
		}
	}
	return best;
}

static int64_t call_deadline(const struct http_call *c)
{
	int64_t by = CLOCK_NEVER, now;

	if (c->timeout > 0) {
		now = clock_now();
		by = c->timeout < CLOCK_NEVER - now ? now + c->timeout : CLOCK_NEVER;
	}
	return c->req ? MIN(by, c->req->deadline) : by;
}

/* The lock is held while the loop is woken: once it has the call, the http may be gone. */
void http_send(struct http *h, struct http_call *c)
{
	struct http_loop *l = http_choose(h);
	struct http_xfer *x = mem_zalloc(sizeof(*x));

	c->err = 0;
	c->status = 0;
	c->got = 0;
	c->length = c->total = UINT64_MAX;
	c->first_byte = 0;
	c->priv = x;
	if (!c->reply_max)
		c->reply_max = 64u << 10;
	if (x) {
		x->call = c;
		x->http = h;
		x->deadline = call_deadline(c);
	}
	trace_add(&h->counters[HTTP_CALLS], 1);
	scoped_lock(&l->lock);
	atomic_fetch_add_explicit(&l->load, 1, memory_order_relaxed);
	if (x) {
		list_push_back(&l->held, &c->link);
		list_push_back(&l->incoming, &x->link);
	} else {
		list_push_back(&l->starved, &c->link);
	}
	loop_wake_locked(l);
}

void http_cancel(struct http *h, struct http_call *c)
{
	for (unsigned i = 0; i < h->nloops; i++) {
		struct http_loop *l = &h->loops[i];

		scoped_lock(&l->lock);
		list_for_each(n, &l->held) {
			struct http_xfer *x;

			if (n != &c->link)
				continue;
			x = c->priv;
			x->cancel = true;
			l->cancels = true;
			loop_wake_locked(l);
			return;
		}
	}
}

/* The call is the caller's again, and may be gone when this returns. */
static void loop_end_call(struct http_loop *l, struct http_call *c, int err)
{
	if (err)
		trace_add(&l->http->counters[http_err_counter(err)], 1);
	c->err = err;
	lock_take(&l->lock);
	list_remove(&c->link);
	lock_drop(&l->lock);
	atomic_fetch_sub_explicit(&l->load, 1, memory_order_relaxed);
	c->done(c);
}

/* Takes a transfer off its list and out of curl; its handle is kept for the next. */
static void loop_end(struct http_loop *l, struct http_xfer *x, int err)
{
	list_remove(&x->link);
	if (x->easy) {
		l->nactive--;
		curl_easy_reset(x->easy);
		l->idle[l->nidle++] = x->easy;
		x->easy = NULL;
	}
	curl_slist_free_all(x->headers);
	x->headers = NULL;
	loop_end_call(l, x->call, err);
}

/* Ends it from outside curl, which closes the connection. */
static void loop_abort(struct http_loop *l, struct http_xfer *x, int err, const char *why)
{
	if (x->easy) {
		xfer_outcome(x, CURLE_ABORTED_BY_CALLBACK);
		curl_multi_remove_handle(l->multi, x->easy);
	}
	snprintf(x->why, sizeof(x->why), "%s", why);
	loop_end(l, x, err);
}

/* ---- deadlines, stalls, cancellation ---- */

static int64_t loop_sample(const struct http_loop *l)
{
	return l->http->conf.stall_timeout / 4 + 1;
}

static bool loop_stalled(struct http_loop *l, struct http_xfer *x, int64_t now)
{
	uint64_t moved = xfer_moved(x);

	if (moved != x->moved) {
		x->moved = moved;
		x->moved_at = now;
	}
	return now - x->moved_at >= l->http->conf.stall_timeout;
}

/* How many bytes moved is asked for four times in a stall's length, not told by each callback. */
static void loop_check(struct http_loop *l)
{
	int64_t now = clock_now(), next = CLOCK_NEVER;

	if (now < l->check_at)
		return;
	list_for_each_safe(n, tmp, &l->waiting) {
		struct http_xfer *x = list_entry(n, struct http_xfer, link);

		if (x->deadline <= now)
			loop_abort(l, x, -ETIMEDOUT, "deadline passed before a connection was free");
		else
			next = MIN(next, x->deadline);
	}
	list_for_each_safe(n, tmp, &l->active) {
		struct http_xfer *x = list_entry(n, struct http_xfer, link);

		if (x->deadline <= now)
			loop_abort(l, x, -ETIMEDOUT, "deadline passed");
		else if (loop_stalled(l, x, now))
			loop_abort(l, x, -ETIMEDOUT, "no byte moved for too long");
		else
			next = MIN(next, MIN(x->deadline, now + loop_sample(l)));
	}
	l->check_at = next;
}

static bool loop_is_cancelled(struct http_loop *l, const struct http_xfer *x)
{
	scoped_lock(&l->lock);
	return x->cancel;
}

static void loop_cancel_in(struct http_loop *l, struct list_node *list)
{
	list_for_each_safe(n, tmp, list) {
		struct http_xfer *x = list_entry(n, struct http_xfer, link);

		if (loop_is_cancelled(l, x))
			loop_abort(l, x, -ECANCELED, "cancelled");
	}
}

/* ---- curl ---- */

/*
 * A descriptor may have been closed and opened again behind our back; epoll forgot it then, or knows
 * the new one.
 */
static int on_watch(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
	struct http_loop *l = arg;
	struct epoll_event e = { .data.fd = fd };

	(void)easy;
	(void)unused;
	if (what == CURL_POLL_REMOVE) {
		/* Maybe another thread's by now, which epoll refuses: no race, so not shown to the thread sanitizer. */
		(void)syscall(SYS_epoll_ctl, l->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	if (what & CURL_POLL_IN)
		e.events |= EPOLLIN;
	if (what & CURL_POLL_OUT)
		e.events |= EPOLLOUT;
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, fd, &e) == 0)
		return 0;
	return errno == ENOENT && epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0 ? 0 : -1;
}

static int on_timer(CURLM *multi, long ms, void *arg)
{
	struct http_loop *l = arg;

	(void)multi;
	l->curl_at = ms < 0 ? CLOCK_NEVER : mono() + (int64_t)ms * NS_PER_MS;
	return 0;
}

static void loop_start(struct http_loop *l, struct http_xfer *x)
{
	int err = -ENOMEM;

	x->easy = l->nidle ? l->idle[--l->nidle] : curl_easy_init();
	if (x->easy) {
		l->nactive++;
		err = xfer_prepare(x);
	}
	if (err == 0) {
		x->started = x->moved_at = clock_now();
		err = curl_multi_add_handle(l->multi, x->easy) ? -ENOMEM : 0;
	}
	if (err) {
		loop_end(l, x, err);
		return;
	}
	list_push_back(&l->active, &x->link);
	l->check_at = MIN(l->check_at, MIN(x->deadline, x->started + loop_sample(l)));
}

static void loop_fill(struct http_loop *l)
{
	while (l->nactive < l->max) {
		struct list_node *n = list_pop_front(&l->waiting);

		if (!n)
			return;
		loop_start(l, list_entry(n, struct http_xfer, link));
	}
}

static void loop_reap(struct http_loop *l)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(l->multi, &left))) {
		CURL *easy = m->easy_handle;
		CURLcode code = m->data.result;
		struct http_xfer *x = NULL;

		curl_easy_getinfo(easy, CURLINFO_PRIVATE, &x);
		curl_multi_remove_handle(l->multi, easy);
		if (xfer_again(x, code) && !curl_multi_add_handle(l->multi, easy))
			continue;
		loop_end(l, x, xfer_outcome(x, code));
	}
}

static int loop_wait_ms(const struct http_loop *l)
{
	int64_t left = CLOCK_NEVER;

	/* A reply that was there at once made room for another request. */
	if (l->nactive < l->max && !list_empty(&l->waiting))
		return 0;
	if (l->curl_at != CLOCK_NEVER)
		left = l->curl_at - mono();
	if (l->check_at != CLOCK_NEVER)
		left = MIN(left, l->check_at - clock_now());
	if (left == CLOCK_NEVER)
		return -1;
	return left <= 0 ? 0 : (int)MIN((left + NS_PER_MS - 1) / NS_PER_MS, INT64_C(60000));
}

/* Also what begins a transfer that was just added: curl asks to be called at once. */
static void loop_tick(struct http_loop *l)
{
	int running;

	if (l->curl_at == CLOCK_NEVER || l->curl_at > mono())
		return;
	l->curl_at = CLOCK_NEVER;
	curl_multi_socket_action(l->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

static void loop_wait(struct http_loop *l)
{
	struct epoll_event ev[HTTP_EVENTS];
	int n = epoll_wait(l->epoll_fd, ev, HTTP_EVENTS, loop_wait_ms(l)), running;

	for (int i = 0; i < n; i++) {
		int what = (ev[i].events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
			   (ev[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
			   (ev[i].events & EPOLLERR ? CURL_CSELECT_ERR : 0);
		uint64_t woken;

		if (ev[i].data.fd != l->wake_fd)
			curl_multi_socket_action(l->multi, ev[i].data.fd, what, &running);
		else if (read(l->wake_fd, &woken, sizeof(woken)) < 0)
			continue;	/* woken all the same */
	}
}

/* ---- threads ---- */

/* What came since. False: it is over, and nothing is held. */
static bool loop_take(struct http_loop *l)
{
	struct list_node starved = LIST_INIT(starved), *n;
	bool cancels, over;

	lock_take(&l->lock);
	while ((n = list_pop_front(&l->incoming))) {
		struct http_xfer *x = list_entry(n, struct http_xfer, link);

		list_push_back(&l->waiting, n);
		l->check_at = MIN(l->check_at, x->deadline);
	}
	while ((n = list_pop_front(&l->starved)))
		list_push_back(&starved, n);
	cancels = l->cancels;
	l->cancels = false;
	l->woken = false;
	over = l->stop && list_empty(&l->held) && list_empty(&starved);
	lock_drop(&l->lock);
	while ((n = list_pop_front(&starved)))
		loop_end_call(l, list_entry(n, struct http_call, link), -ENOMEM);
	if (cancels) {
		loop_cancel_in(l, &l->waiting);
		loop_cancel_in(l, &l->active);
	}
	return !over;
}

/* curl is taken down here: this thread, unlike others, has SIGPIPE blocked. */
static void *loop_run(void *arg)
{
	struct http_loop *l = arg;

	while (loop_take(l)) {
		loop_check(l);
		loop_fill(l);
		loop_tick(l);
		loop_reap(l);
		loop_wait(l);
		loop_tick(l);
		loop_reap(l);
	}
	while (l->nidle)
		curl_easy_cleanup(l->idle[--l->nidle]);
	curl_multi_cleanup(l->multi);
	l->multi = NULL;
	return NULL;
}

static int loop_set_multi(struct http_loop *l)
{
	unsigned bad = 0;

	bad |= curl_multi_setopt(l->multi, CURLMOPT_SOCKETFUNCTION, on_watch) != CURLM_OK;
	bad |= curl_multi_setopt(l->multi, CURLMOPT_SOCKETDATA, l) != CURLM_OK;
	bad |= curl_multi_setopt(l->multi, CURLMOPT_TIMERFUNCTION, on_timer) != CURLM_OK;
	bad |= curl_multi_setopt(l->multi, CURLMOPT_TIMERDATA, l) != CURLM_OK;
	bad |= curl_multi_setopt(l->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING) != CURLM_OK;
	bad |= curl_multi_setopt(l->multi, CURLMOPT_MAXCONNECTS, (long)l->max) != CURLM_OK;
	bad |= curl_multi_setopt(l->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)l->max) != CURLM_OK;
	return bad ? -ENOMEM : 0;
}

static int loop_open(struct http_loop *l)
{
	struct epoll_event e = { .events = EPOLLIN };

	l->idle = mem_array(l->max, sizeof(CURL *));
	l->multi = curl_multi_init();
	if (!l->idle || !l->multi)
		return -ENOMEM;
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd < 0)
		return -errno;
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake_fd < 0)
		return -errno;
	e.data.fd = l->wake_fd;
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->wake_fd, &e) < 0)
		return -errno;
	return loop_set_multi(l);
}

static int loop_begin(struct http_loop *l, unsigned i)
{
	char name[16];
	int r = loop_open(l);

	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "http-%.7s-%u", l->http->conf.name, i % 100);
	r = thread_start(&l->thread, name, loop_run, l);
	l->running = r == 0;
	return r;
}

static void loop_finish(struct http_loop *l)
{
	if (l->running) {
		lock_take(&l->lock);
		l->stop = true;
		loop_wake_locked(l);
		lock_drop(&l->lock);
		pthread_join(l->thread, NULL);
	}
	curl_multi_cleanup(l->multi);
	if (l->epoll_fd >= 0)
		close(l->epoll_fd);
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	free(l->idle);
	lock_done(&l->lock);
}

int http_loops_start(struct http *h)
{
	unsigned n = h->conf.threads, total = h->conf.connections;
	int r = 0;

	h->loops = mem_array(n, sizeof(h->loops[0]));
	if (!h->loops)
		return -ENOMEM;
	for (unsigned i = 0; i < n && r == 0; i++) {
		struct http_loop *l = &h->loops[i];

		l->http = h;
		l->epoll_fd = l->wake_fd = -1;
		l->curl_at = l->check_at = CLOCK_NEVER;
		l->max = total / n + (i < total % n);
		list_init(&l->waiting);
		list_init(&l->active);
		list_init(&l->held);
		list_init(&l->starved);
		list_init(&l->incoming);
		lock_init(&l->lock, LOCK_LEAF, "http loop");
		h->nloops++;
		r = loop_begin(l, i);
	}
	return r;
}

void http_loops_stop(struct http *h)
{
	for (unsigned i = 0; i < h->nloops; i++)
		loop_finish(&h->loops[i]);
	free(h->loops);
}
