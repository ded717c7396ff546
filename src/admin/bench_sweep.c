/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep. One cell is (size, ranks, mode): rounds of putting and deleting until putting took the
 * time of a cell, since only so much space is used at once; the objects of the first round are
 * got, again and again until the time is over.
 */
#include "admin/bench_int.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/htab.h"
#include "base/pool.h"
#include "base/scoped.h"
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define CELL_OBJECTS 16384u	/* at once: names have a price too, whatever the size */
#define CELL_ROUNDS  1000u

/* ---- contents ---- */

static void body_fill(char *p, size_t n)
{
	/* Nothing that a store could compress, nor the same at any two places. */
	for (size_t i = 0; i < n; i += 8) {
		uint64_t v = hash64(i + 1);

		memcpy(p + i, &v, MIN(n - i, (size_t)8));
	}
}

static void stamp_make(const struct bench_rank *r, uint64_t index, char *ret)
{
	uint64_t a = hash64(r->b->salt ^ ((uint64_t)r->id << 32)), b = hash64(a ^ index);

	/* The most telling bytes first: an object of two bytes has no others. */
	memcpy(ret, &b, 8);
	memcpy(ret + 8, &index, 8);
}

unsigned bench_fill(const struct bench_rank *r, uint64_t index, char *page, struct iovec *iov)
{
	size_t n = r->phase.size, first = MIN(n, (size_t)BENCH_PAGE);
	char stamp[16];

	stamp_make(r, index, stamp);
	memcpy(page, r->b->body, first);
	memcpy(page, stamp, MIN(first, sizeof(stamp)));
	iov[0] = (struct iovec){ page, first };
	if (n == first)
		return 1;
	iov[1] = (struct iovec){ r->b->body + first, n - first };
	return 2;
}

bool bench_check(const struct bench_rank *r, uint64_t index, const char *data)
{
	size_t n = r->phase.size, first;
	char stamp[16];

	stamp_make(r, index, stamp);
	first = MIN(n, sizeof(stamp));
	return memcmp(data, stamp, first) == 0 &&
	       memcmp(data + first, r->b->body + first, n - first) == 0;
}

void bench_object_name(const struct bench_rank *r, uint64_t index, char *ret, size_t cap)
{
	/* What differs comes first: services split their key space by prefix. */
	snprintf(ret, cap, "%08" PRIx32 ".%" PRIx32 ".%x.%" PRIx64, (uint32_t)hash64(index ^ r->b->salt),
		 r->b->salt, r->id, index);
}

/* ---- a phase, in the rank ---- */

void bench_start(struct bench_rank *r)
{
	r->start = clock_now();
	r->deadline = r->start + r->phase.time;
}

bool bench_next(struct bench_rank *r, uint64_t *ret_index)
{
	const struct bench_phase *p = &r->phase;
	bool late = clock_now() >= r->deadline;
	scoped_lock(&r->lock);
	uint64_t n = r->next;

	if (r->err || (!p->clean && atomic_load(&r->b->stop)))
		return false;
	if (p->op == BENCH_PUT && (n >= p->count || (n > 0 && late)))
		return false;
	if (p->op == BENCH_GET && (!r->have || (n > 0 && late)))
		return false;
	if (p->op == BENCH_DELETE && n >= r->have)
		return false;
	r->next++;
	if (p->op == BENCH_PUT)
		r->have = r->next;
	*ret_index = r->base + (p->op == BENCH_GET ? n % r->have : n);
	return true;
}

void bench_count(struct bench_rank *r, int64_t ns)
{
	scoped_lock(&r->lock);
	r->ops++;
	r->bytes += r->phase.size;
	bench_hist_add(&r->hist, ns);
}

void bench_fail(struct bench_rank *r, int err, const char *name)
{
	scoped_lock(&r->lock);
	/* Interrupted ones are what was asked for. */
	if (r->err || (!r->phase.clean && atomic_load(&r->b->stop)))
		return;
	r->err = err;
	snprintf(r->why, sizeof(r->why), "%s of %" PRIu64 " bytes, \"%s\": %s",
		 bench_op_names[r->phase.op], r->phase.size, name,
		 err == -TESS_E_CHECKSUM ? "other bytes came back than were put" : err_text(err));
}

void bench_end(struct bench_rank *r)
{
	r->end = clock_now();
}

static void rank_phase(struct bench_rank *r)
{
	r->next = r->ops = r->bytes = 0;
	r->err = 0;
	memset(&r->hist, 0, sizeof(r->hist));
	if (r->phase.op == BENCH_PUT) {
		r->base += r->have;
		r->have = 0;
	}
	bench_start(r);
	r->end = r->start;
	r->b->port->run(r);
	if (r->phase.op == BENCH_DELETE) {
		r->base += r->have;
		r->have = 0;
	}
}

static void *rank_serve(void *arg)
{
	struct bench_rank *r = arg;
	bool open = false;
	char ack = 1;

	/* A socket that ends is a caller that died. */
	while (recv(r->fd, &r->phase, sizeof(r->phase), 0) == sizeof(r->phase) &&
	       r->phase.step != BENCH_QUIT) {
		if (r->phase.step == BENCH_OPEN) {
			r->err = r->b->port->open(r);
			open = r->err == 0;
		} else {
			rank_phase(r);
		}
		if (send(r->fd, &ack, 1, MSG_NOSIGNAL) != 1)
			break;
	}
	if (open)
		r->b->port->close(r);
	return NULL;
}

/* ---- ranks ---- */

static _Noreturn void rank_process(struct bench_rank *r)
{
	/* The terminal's interrupt goes to all; who started us decides. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	/* Somebody else's end kept open would hide that he died. */
	for (unsigned i = 0; i < r->b->nranks; i++) {
		close(r->b->ranks[i].peer);
		if (&r->b->ranks[i] != r)
			close(r->b->ranks[i].fd);
	}
	rank_serve(r);
	_exit(0);
}

static int ranks_start(struct bench *b)
{
	for (unsigned i = 0; i < b->nranks; i++) {
		struct bench_rank *r = &b->ranks[i];
		int err = 0;

		if (b->processes) {
			fflush(NULL);
			r->pid = fork();
			if (r->pid == 0)
				rank_process(r);
			err = r->pid < 0 ? -errno : 0;
		} else {
			err = thread_start(&r->thread, "bench", rank_serve, r);
		}
		if (err)
			return err;
		r->running = true;
	}
	/* A process has its own copy; the number is still its to read. */
	for (unsigned i = 0; b->processes && i < b->nranks; i++)
		close(b->ranks[i].fd);
	b->given = b->processes;
	return 0;
}

static int ranks_wire(struct bench *b)
{
	for (unsigned i = 0; i < b->nranks; i++) {
		int fds[2];

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
			return -errno;
		b->ranks[i].fd = fds[0];
		b->ranks[i].peer = fds[1];
	}
	return 0;
}

static void *bench_map(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static size_t bench_bytes(unsigned nranks)
{
	return sizeof(struct bench) + nranks * sizeof(struct bench_rank);
}

int bench_new(struct bench **ret, const struct bench_conf *conf, const struct bench_port *port,
	      void *priv)
{
	struct bench *b;
	unsigned n = 0;
	int err;

	for (unsigned i = 0; i < conf->nranks; i++)
		n = MAX(n, conf->ranks[i]);
	b = bench_map(bench_bytes(n));
	if (!b)
		return -ENOMEM;
	b->conf = conf;
	b->port = port;
	b->priv = priv;
	b->processes = conf->processes;
	b->nranks = n;
	b->max_size = conf->max_size;
	b->body_len = conf->max_size;
	for (unsigned i = 0; i < n; i++) {
		b->ranks[i].b = b;
		b->ranks[i].id = i;
		b->ranks[i].fd = b->ranks[i].peer = -1;
		lock_init(&b->ranks[i].lock, LOCK_LEAF, "bench rank");
	}
	b->body = bench_map(b->body_len);
	err = b->body ? ranks_wire(b) : -ENOMEM;
	if (!err && getrandom(&b->salt, sizeof(b->salt), 0) != sizeof(b->salt))
		err = -EIO;
	if (!err && b->processes)
		err = ranks_start(b);
	if (err) {
		bench_free(b);
		return err;
	}
	*ret = b;
	return 0;
}

void bench_free(struct bench *b)
{
	struct bench_phase quit = { .step = BENCH_QUIT };

	if (!b)
		return;
	for (unsigned i = 0; i < b->nranks; i++) {
		struct bench_rank *r = &b->ranks[i];

		if (r->running)
			(void)send(r->peer, &quit, sizeof(quit), MSG_NOSIGNAL);
		if (r->running && b->processes)
			while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
				;
		else if (r->running)
			pthread_join(r->thread, NULL);
		if (r->fd >= 0 && !b->given)
			close(r->fd);
		if (r->peer >= 0)
			close(r->peer);
		lock_done(&r->lock);
	}
	if (b->body)
		munmap(b->body, b->body_len);
	munmap(b, bench_bytes(b->nranks));
}

/* ---- a phase, from outside ---- */

static void stop_poll(struct bench *b)
{
	if (b->conf->stopped && b->conf->stopped(b->conf->arg))
		atomic_store(&b->stop, true);
}

static int rank_wait(struct bench_rank *r)
{
	struct pollfd p = { .fd = r->peer, .events = POLLIN };
	char ack;

	for (;;) {
		int n = poll(&p, 1, 100);

		stop_poll(r->b);
		if (n > 0)
			return recv(r->peer, &ack, 1, 0) == 1 ? 0 : -EPIPE;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

/* The first error of any, with its words in `why`. All have answered, or are dead. */
static int bench_phase_run(struct bench *b, unsigned ranks, const struct bench_phase *p,
			   struct text *why)
{
	unsigned sent = 0;
	int err = 0;

	for (; sent < ranks; sent++) {
		if (send(b->ranks[sent].peer, p, sizeof(*p), MSG_NOSIGNAL) != sizeof(*p)) {
			err = -EPIPE;
			break;
		}
	}
	for (unsigned i = 0; i < sent; i++) {
		struct bench_rank *r = &b->ranks[i];
		int e = rank_wait(r);

		if (e == 0 && r->err && !err && r->why[0])
			text_add(why, r->why);
		err = err ? err : e ? e : r->err;
	}
	if (err == -EPIPE && !text_str(why)[0])
		text_add(why, "a rank died");
	return err;
}

/* ---- a cell ---- */

struct cell {
	uint64_t          size;
	unsigned          ranks;
	enum bench_mode   mode;
	struct bench_row  row[BENCH_NOPS];
	struct bench_hist hist[BENCH_NOPS];
};

static void cell_collect(struct bench *b, struct cell *c, enum bench_op op)
{
	int64_t start = INT64_MAX, end = INT64_MIN;
	struct bench_row *w = &c->row[op];

	for (unsigned i = 0; i < c->ranks; i++) {
		const struct bench_rank *r = &b->ranks[i];

		start = MIN(start, r->start);
		end = MAX(end, r->end);
		w->ops += r->ops;
		w->bytes += r->bytes;
		bench_hist_merge(&c->hist[op], &r->hist);
	}
	w->ns += end - start;
}

static int cell_phase(struct bench *b, struct cell *c, enum bench_op op, struct text *why)
{
	const struct bench_conf *conf = b->conf;
	uint64_t count = MIN(conf->space / c->ranks / c->size, (uint64_t)CELL_OBJECTS / c->ranks);
	struct bench_phase p = {
		.step = BENCH_RUN, .op = op, .mode = c->mode, .size = c->size, .count = count,
		.window = c->mode == BENCH_SYNC ? 1 : (unsigned)MIN((uint64_t)conf->depth, count),
		.time = (int64_t)conf->time - (op == BENCH_PUT ? c->row[op].ns : 0),
		.clean = op == BENCH_DELETE,
	};
	int err = bench_phase_run(b, c->ranks, &p, why);

	if (!err)
		cell_collect(b, c, op);
	return err;
}

static int cell_run(struct bench *b, struct cell *c, struct text *why)
{
	const struct bench_conf *conf = b->conf;
	bool put = conf->ops & (1u << BENCH_PUT), get = conf->ops & (1u << BENCH_GET);
	struct text unread = TEXT_INIT;
	int err = 0, err2;

	for (unsigned round = 0; !err && round < CELL_ROUNDS && !atomic_load(&b->stop); round++) {
		if (round && (!put || c->row[BENCH_PUT].ns >= (int64_t)(conf->time / 10 * 8)))
			break;
		err = cell_phase(b, c, BENCH_PUT, why);
		if (!err && !round && get && !atomic_load(&b->stop)) {
			if (b->port->cold)
				b->port->cold(b);
			err = cell_phase(b, c, BENCH_GET, why);
		}
		err2 = cell_phase(b, c, BENCH_DELETE, err ? &unread : why);
		err = err ? err : err2;
	}
	for (unsigned op = 0; op < BENCH_NOPS; op++) {
		c->row[op].p50 = bench_hist_at(&c->hist[op], 0.5);
		c->row[op].p99 = bench_hist_at(&c->hist[op], 0.99);
	}
	text_done(&unread);
	return err;
}

/* ---- the sweep ---- */

struct sweep {
	struct bench     *b;
	unsigned          ncells;	/* of one pass */
	struct bench_row *runs;		/* [cell][op][pass] */
	unsigned          passes;
};

/* The i-th cell: all modes of all ranks of a size. False: there is no such size. */
static bool cell_at(const struct bench *b, unsigned i, struct cell *ret)
{
	const struct bench_conf *conf = b->conf;
	unsigned modes = conf->modes == 3 ? 2 : 1, per_size = modes * conf->nranks;
	uint64_t size = conf->min_size;

	for (unsigned k = i / per_size; k > 0 && size <= b->max_size; k--)
		size *= 2;
	if (size > b->max_size)
		return false;
	memset(ret, 0, sizeof(*ret));
	ret->size = size;
	ret->ranks = conf->ranks[i % per_size / modes];
	if (modes == 2)
		ret->mode = i % modes ? BENCH_ASYNC : BENCH_SYNC;
	else
		ret->mode = conf->modes == 1u << BENCH_ASYNC ? BENCH_ASYNC : BENCH_SYNC;
	for (unsigned op = 0; op < BENCH_NOPS; op++)
		ret->row[op] = (struct bench_row){
			.op = op, .mode = ret->mode, .ranks = ret->ranks, .size = size,
		};
	return true;
}

static bool cell_fits(const struct bench *b, const struct cell *c)
{
	return b->conf->space / c->ranks >= c->size;
}

static int sweep_pass(struct sweep *s, unsigned pass, struct cell *c, struct text *why)
{
	struct bench *b = s->b;
	int err = 0;

	for (unsigned i = 0; !err && cell_at(b, i, c); i++) {
		char what[96];

		stop_poll(b);
		if (atomic_load(&b->stop))
			return -EINTR;
		if (!cell_fits(b, c))
			continue;
		snprintf(what, sizeof(what), "%" PRIu64 " bytes, %u rank%s, %s", c->size, c->ranks,
			 c->ranks == 1 ? "" : "s", bench_mode_names[c->mode]);
		if (b->conf->progress)
			b->conf->progress(b->conf->arg, pass * s->ncells + i, s->passes * s->ncells, what);
		err = cell_run(b, c, why);
		if (atomic_load(&b->stop))
			return -EINTR;
		for (unsigned op = 0; !err && op < BENCH_NOPS; op++)
			s->runs[(i * BENCH_NOPS + op) * s->passes + pass] = c->row[op];
	}
	return err;
}

/* Of an interrupted sweep the passes that there are. */
static void sweep_rows(const struct sweep *s, struct bench_result *ret, struct cell *c)
{
	for (unsigned op = 0; op < BENCH_NOPS; op++) {
		for (unsigned i = 0; s->b->conf->ops & (1u << op) && cell_at(s->b, i, c); i++) {
			const struct bench_row *runs = &s->runs[(i * BENCH_NOPS + op) * s->passes];
			unsigned n = 0;

			while (n < s->passes && runs[n].ops)
				n++;
			if (n)
				ret->rows[ret->n++] = runs[bench_median(runs, n)];
		}
	}
	for (unsigned i = 0; cell_at(s->b, i, c); i++)
		ret->left_out += !cell_fits(s->b, c);
}

static int sweep_run(struct sweep *s, struct bench_result *ret, struct text *why)
{
	scoped_free struct cell *c = mem_zalloc(sizeof(*c));
	scoped_free struct bench_row *runs = NULL;
	int err = 0;

	if (!c)
		return -ENOMEM;
	while (cell_at(s->b, s->ncells, c))
		s->ncells++;
	s->passes = s->b->conf->repeat;
	s->runs = runs = mem_array((size_t)s->ncells * BENCH_NOPS * s->passes + 1, sizeof(*runs));
	ret->rows = mem_array((size_t)s->ncells * BENCH_NOPS + 1, sizeof(*ret->rows));
	if (!runs || !ret->rows)
		return -ENOMEM;
	for (unsigned pass = 0; !err && pass < s->passes; pass++)
		err = sweep_pass(s, pass, c, why);
	sweep_rows(s, ret, c);
	return err;
}

int bench_sweep(struct bench *b, struct bench_result *ret, struct text *why)
{
	struct bench_phase open = { .step = BENCH_OPEN };
	struct sweep s = { .b = b };
	int err = b->processes ? 0 : ranks_start(b);

	body_fill(b->body, b->max_size);
	if (!err)
		err = bench_phase_run(b, b->nranks, &open, why);
	return err ? err : sweep_run(&s, ret, why);
}
