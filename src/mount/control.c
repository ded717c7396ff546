/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket. One thread accepts, a small pool answers, so that a `flush` that takes its
 * time does not hold up `stats`. Nothing here passes through the kernel's side of the mount: a
 * daemon whose targets do not answer still says so.
 *
 *	client	COMMAND\n		and shuts down its sending side
 *	daemon	MOUNTPOINT\n0\nTEXT	or MOUNTPOINT\nERROR\nTEXT, ERROR a positive errno
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/pool.h"
#include "base/scoped.h"
#include "base/trace.h"
#include "mount/mount.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

LOG_MODULE("control");

#define CONTROL_THREADS 4
#define CONTROL_LINE    4096u

struct control {
	struct tess *t;		/* borrowed */
	int          fd, run;	/* listening socket; FS/run */
	char         name[32];	/* of the socket in it */
	pthread_t    thread;
	struct pool *pool;
	atomic_bool  stop;
};

struct control_job {
	struct pool_job job;
	struct control *c;
	int             fd;	/* owned */
};

static void control_look_json(struct text *out)
{
	struct text more = TEXT_INIT;

	mount_look(true, &more);
	if (more.n)
		text_fmt(out, ",%s", text_str(&more));
	text_done(&more);
}

/* The object of all counters, and some more members. */
static void control_stats_json(struct tess *t, struct text *out)
{
	struct text all = TEXT_INIT;
	const char *end;

	trace_dump(&all, 1);
	end = strrchr(text_str(&all), '}');
	text_addn(out, text_str(&all), end ? (size_t)(end - text_str(&all)) : 0);
	text_fmt(out, "%s\"budget\":{\"limit\":%llu,\"dirty\":%llu,\"cache\":%llu,\"io\":%llu}",
		 !end || end == text_str(&all) + 1 ? "" : ",",
		 (unsigned long long)budget_limit(t->budget),
		 (unsigned long long)budget_used(t->budget, MEM_DIRTY),
		 (unsigned long long)budget_used(t->budget, MEM_CACHE),
		 (unsigned long long)budget_used(t->budget, MEM_IO));
	control_look_json(out);
	text_add(out, "}\n");
	text_done(&all);
}

static void control_stats(struct tess *t, const char *arg, struct text *out)
{
	struct io *io = atomic_load(&t->io);

	if (!strcmp(arg, "json")) {
		control_stats_json(t, out);
		return;
	}
	trace_dump(out, 0);
	text_fmt(out, "budget.limit %llu\nbudget.dirty %llu\nbudget.cache %llu\nbudget.io %llu\n",
		 (unsigned long long)budget_limit(t->budget),
		 (unsigned long long)budget_used(t->budget, MEM_DIRTY),
		 (unsigned long long)budget_used(t->budget, MEM_CACHE),
		 (unsigned long long)budget_used(t->budget, MEM_IO));
	if (io)
		io_to_text(io, out);
	mount_look(false, out);
	for (unsigned i = 0; i < t->ntargets && !strcmp(arg, "verbose"); i++) {
		text_fmt(out, "\ntarget %u, %s:\n", (unsigned)t->targets[i].id,
			 t->targets[i].store->label);
		store_to_text(t->targets[i].store, out);
	}
}

static int control_do_stats(struct tess *t, const char *arg, struct text *out)
{
	control_stats(t, arg, out);
	return 0;
}

static int control_do_pending(struct tess *t, const char *arg, struct text *out)
{
	struct io_pending p;

	io_pending(atomic_load(&t->io), &p);
	text_fmt(out, strcmp(arg, "json") ? "dirty_bytes %llu\ndirty_files %llu\nstaged_bytes %llu\n"
					    "staged_segments %llu\nuncheckpointed %llu\n"
					  : "{\"dirty_bytes\":%llu,\"dirty_files\":%llu,"
					    "\"staged_bytes\":%llu,\"staged_segments\":%llu,"
					    "\"uncheckpointed\":%llu}\n",
		 (unsigned long long)p.dirty_bytes, (unsigned long long)p.dirty_files,
		 (unsigned long long)p.staged_bytes, (unsigned long long)p.staged_segments,
		 (unsigned long long)p.uncheckpointed);
	return 0;
}

static int control_do_flush(struct tess *t, const char *arg, struct text *out)
{
	struct io *io = atomic_load(&t->io);
	struct tess_req req;
	int err;

	req_begin(&req, "flush");
	if (strcmp(arg, "rest"))
		err = tess_sync(t);
	else
		err = t->private ? 0 : io_rest(io, &req, out);
	if (err && !out->n)
		text_add(out, err_text(err));
	return err;
}

/* "INO MS": inode 0 is everything. */
static int control_do_durable(struct tess *t, const char *arg, struct text *out)
{
	struct tess_req req;
	char *end;
	uint64_t ino = strtoull(arg, &end, 10);
	int64_t ms = strtoll(end, NULL, 10);
	int err;

	req_begin(&req, "wait-durable");
	req.ino = ino;
	if (ms > 0)
		req.deadline = clock_now() + ms * NS_PER_MS;
	err = ino ? fs_wait_durable(t->fs, &req, ino) : io_sync_all(atomic_load(&t->io), &req);
	if (err)
		text_fmt(out, "%s", err_text(err));
	return err;
}

static int control_do_invalidate(struct tess *t, const char *arg, struct text *out)
{
	int err = fs_invalidate(t->fs, strtoull(arg, NULL, 10));

	if (err)
		text_fmt(out, "%s", err_text(err));
	return err;
}

/* The counters of what went wrong, those that are not 0. */
static int control_do_errors(struct tess *t, const char *arg, struct text *out)
{
	struct text all = TEXT_INIT;
	const char *line;

	control_stats(t, arg, &all);
	for (line = text_str(&all); *line; line += strcspn(line, "\n"), line += *line == '\n') {
		size_t n = strcspn(line, "\n");
		const char *space = memrchr(line, ' ', n);

		if (!space || !strncmp(space, " 0\n", 3))
			continue;
		if (memmem(line, n, "err", 3) || memmem(line, n, "fail", 4) || memmem(line, n, "retr", 4)) {
			text_addn(out, line, n);
			text_add(out, "\n");
		}
	}
	text_done(&all);
	return 0;
}

/* Numbers of one moment, for `tessera top`. */
static int control_do_sample(struct tess *t, const char *arg, struct text *out)
{
	(void)t;
	(void)arg;
	trace_dump_raw(out);
	return 0;
}

static void control_failure(struct tess *t, const struct io_error *x, bool json, struct text *out)
{
	scoped_free char *path = mem_alloc(PATH_MAX);
	const char *name = path;

	if (!path || x->ino == 0 || meta_path(t->meta, x->ino, path, PATH_MAX) < 0)
		name = "";
	/* A row is a line. */
	for (char *c = path; !json && *name && *c; c++)
		*c = (unsigned char)*c < ' ' ? '?' : *c;
	text_fmt(out, json ? "{\"ino\":%llu,\"error\":\"%s\",\"what\":\"%s\",\"first\":%lld,"
			     "\"last\":%lld,\"count\":%llu,\"message\":"
			   : "%llu\t%s\t%s\t%lld\t%lld\t%llu\t",
		 (unsigned long long)x->ino, err_name(err_fold(x->err)), x->what,
		 (long long)(x->first / NS_PER_S), (long long)(x->last / NS_PER_S),
		 (unsigned long long)x->count);
	if (json) {
		text_json(out, err_text(x->err), strlen(err_text(x->err)));
		text_add(out, ",\"path\":");
		text_json(out, name, strlen(name));
		text_add(out, "}");
	} else {
		text_fmt(out, "%s\t%s\n", err_text(x->err), name);
	}
}

/* The ring of recent failures: tab-separated rows, a path last, or an array. */
static int control_do_failures(struct tess *t, const char *arg, struct text *out)
{
	scoped_free struct io_error *all = mem_array(IO_ERRORS, sizeof(*all));
	bool json = strstr(arg, "json") != NULL;
	unsigned n;

	if (!all)
		return -ENOMEM;
	n = io_errors(atomic_load(&t->io), all, strstr(arg, "clear") != NULL);
	text_add(out, json ? "[" : "");
	for (unsigned i = 0; i < n; i++) {
		text_add(out, json && i ? "," : "");
		control_failure(t, &all[i], json, out);
	}
	text_add(out, json ? "]\n" : "");
	return 0;
}

static int control_do_config(struct tess *t, const char *arg, struct text *out)
{
	(void)arg;
	text_fmt(out, "version=%s\ndir=%s\nmountpoint=%s\npid=%d\n", tess_version(), t->dir,
		 t->mountpoint ? t->mountpoint : "", (int)getpid());
	opt_to_text(tess_mount_opts(), t->conf, out);
	return 0;
}

static int control_do_faults(struct tess *t, const char *arg, struct text *out)
{
	int err = fault_set(arg);

	(void)t;
	if (err)
		text_fmt(out, "faults '%s': point[@N|%%P|#N]=action,…", arg);
	return err;
}

static int control_do_log(struct tess *t, const char *arg, struct text *out)
{
	int err = log_set(arg);

	(void)t;
	if (err)
		text_fmt(out, "log '%s': a level (error, warning, notice, debug) or module=level,…", arg);
	return err;
}

static int control_do_hello(struct tess *t, const char *arg, struct text *out)
{
	(void)t;
	(void)arg;
	text_fmt(out, "%d\n", (int)getpid());
	return 0;
}

static const struct control_cmd {
	const char *name;
	int (*run)(struct tess *t, const char *arg, struct text *out);
} control_cmds[] = {
	{ "hello", control_do_hello },	 { "stats", control_do_stats },
	{ "pending", control_do_pending }, { "flush", control_do_flush },
	{ "errors", control_do_errors },   { "durable", control_do_durable },
	{ "invalidate", control_do_invalidate },
	{ "config", control_do_config },
	{ "faults", control_do_faults },   { "log", control_do_log },
	{ "mode", mount_mode },
	{ "sample", control_do_sample },   { "failures", control_do_failures },
};

static int control_run(struct tess *t, char *line, struct text *out)
{
	char *arg = line + strcspn(line, " ");

	if (*arg)
		*arg++ = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(control_cmds); i++)
		if (!strcmp(line, control_cmds[i].name))
			return control_cmds[i].run(t, arg, out);
	text_fmt(out, "unknown request '%s': one of", line);
	for (size_t i = 0; i < ARRAY_SIZE(control_cmds); i++)
		text_fmt(out, " %s", control_cmds[i].name);
	return -EINVAL;
}

static int control_send(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t r = send(fd, p, n, MSG_NOSIGNAL);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return -EIO;
		p += r;
		n -= (size_t)r;
	}
	return 0;
}

/* The mode of the socket keeps others out; this holds even where the file system ignores modes. */
static bool control_is_owner(int fd)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return false;
	return cred.uid == geteuid() || cred.uid == 0;
}

static int control_read_line(int fd, char *line, size_t cap)
{
	size_t n = 0;

	while (n < cap - 1) {
		ssize_t r = recv(fd, line + n, cap - 1 - n, 0);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		n += (size_t)r;
		if (memchr(line, '\n', n))
			break;
	}
	line[n] = '\0';
	line[strcspn(line, "\r\n")] = '\0';
	return 0;
}

static void control_answer(struct pool_job *job)
{
	struct control_job *j = container_of(job, struct control_job, job);
	struct tess *t = j->c->t;
	struct text out = TEXT_INIT, head = TEXT_INIT;
	char line[CONTROL_LINE];
	int err;

	if (control_is_owner(j->fd) && !control_read_line(j->fd, line, sizeof(line))) {
		err = control_run(t, line, &out);
		text_fmt(&head, "%s\n%d\n", t->mountpoint ? t->mountpoint : "", tess_errno(err));
		if (!control_send(j->fd, text_str(&head), head.n))
			control_send(j->fd, text_str(&out), out.n);
	}
	text_done(&head);
	text_done(&out);
	close(j->fd);
	free(j);
}

static void *control_main(void *arg)
{
	struct control *c = arg;
	const struct timeval patience = { .tv_sec = 5 };

	while (!atomic_load(&c->stop)) {
		struct control_job *j;
		int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0)
			break;
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
		j = mem_zalloc(sizeof(*j));
		if (!j) {
			close(fd);
			continue;
		}
		j->job.run = control_answer;
		j->c = c;
		j->fd = fd;
		if (pool_try(c->pool, &j->job) < 0) {
			close(fd);
			free(j);
		}
	}
	return NULL;
}

int control_run_dir(const char *dir, bool make)
{
	scoped_free char *path = mount_path(dir, MOUNT_RUN);
	int fd;

	if (!path)
		return -ENOMEM;
	if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* A socket's path has 108 bytes at most, a directory's many more: the way leads through /proc. */
static void control_addr(int run, const char *name, struct sockaddr_un *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%.63s", run, name);
}

/* Sockets of dead daemons, and last words that somebody had the time to read. */
static void control_clear(int run)
{
	int copy = dup(run);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		const char *end = strrchr(e->d_name, '.');

		if (end && !strcmp(end, ".failed")) {
			unlinkat(run, e->d_name, 0);
		} else if (end && !strcmp(end, ".sock")) {
			int fd = control_connect(run, e->d_name);

			if (fd == -ECONNREFUSED)
				unlinkat(run, e->d_name, 0);
			if (fd >= 0)
				close(fd);
		}
	}
	if (d)
		closedir(d);
}

/*
 * Under a name that nobody looks at until it listens: before that, a connection is refused, which is how
 * another daemon that starts now knows the sockets of dead ones.
 */
static int control_listen(struct control *c)
{
	struct sockaddr_un addr;
	char name[32];
	int err;

	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return -errno;
	snprintf(name, sizeof(name), "%d.new", (int)getpid());
	control_addr(c->run, name, &addr);
	unlinkat(c->run, name, 0);	/* of a dead process that had our pid */
	if (bind(c->fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    fchmodat(c->run, name, 0600, 0) < 0 || listen(c->fd, 16) < 0 ||
	    renameat(c->run, name, c->run, c->name) < 0) {
		err = -errno;
		close(c->fd);
		unlinkat(c->run, name, 0);
		return err;
	}
	return 0;
}

static int control_new(struct control **ret, struct tess *t)
{
	struct control *c = mem_zalloc(sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	c->t = t;
	snprintf(c->name, sizeof(c->name), "%d.sock", (int)getpid());
	err = c->run = control_run_dir(t->dir, true);
	if (err < 0)
		goto fail;
	err = pool_new(&c->pool, "control", CONTROL_THREADS, 64);
	if (err < 0)
		goto fail_run;
	control_clear(c->run);
	err = control_listen(c);
	if (err < 0)
		goto fail_pool;
	err = thread_start(&c->thread, "control", control_main, c);
	if (err < 0)
		goto fail_listen;
	*ret = c;
	return 0;

fail_listen:
	close(c->fd);
	unlinkat(c->run, c->name, 0);
fail_pool:
	pool_free(c->pool);
fail_run:
	close(c->run);
fail:
	free(c);
	return err;
}

int control_start(struct control **ret, struct tess *t, struct text *why)
{
	int err = control_new(ret, t);

	if (err < 0)
		text_fmt(why, "%s/%s: control socket: %s", t->dir, MOUNT_RUN, err_text(err));
	return err;
}

void control_stop(struct control *c)
{
	if (!c)
		return;
	atomic_store(&c->stop, true);
	shutdown(c->fd, SHUT_RDWR);
	pthread_join(c->thread, NULL);
	pool_free(c->pool);
	unlinkat(c->run, c->name, 0);
	close(c->fd);
	close(c->run);
	free(c);
}

void control_leave_note(const struct tess *t, const char *text)
{
	scoped_fd int run = control_run_dir(t->dir, true);
	scoped_fd int fd = -1;
	char name[32];

	snprintf(name, sizeof(name), "%d.failed", (int)getpid());
	if (run >= 0)
		fd = openat(run, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		log_err("%s: not durable: %s", t->dir, text);
}
