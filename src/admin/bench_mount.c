/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep through a mount: an object is a file, in a directory of its rank's. Mode async is a
 * window of threads, since a file system call returns when it is done; mode sync makes each file
 * durable before the next one.
 */
#include "admin/bench_int.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/pool.h"
#include "base/scoped.h"
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct bench_dirs {
	char *top;	/* owned; made by us */
};

struct worker {
	struct bench_rank *r;
	pthread_t          thread;
	char              *data;	/* owned; a page for put, a file for get */
};

static int file_write(const struct worker *w, int fd, uint64_t index)
{
	struct iovec iov[2], *v = iov;
	unsigned n = bench_fill(w->r, index, w->data, iov);

	while (n) {
		ssize_t done = writev(fd, v, (int)n);

		if (done < 0)
			return -errno;
		while (n && (size_t)done >= v->iov_len) {
			done -= (ssize_t)v->iov_len;
			v++;
			n--;
		}
		if (n) {
			v->iov_base = (char *)v->iov_base + done;
			v->iov_len -= (size_t)done;
		}
	}
	return 0;
}

static int file_put(const struct worker *w, int dir, const char *name, uint64_t index)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int err;

	if (fd < 0)
		return -errno;
	err = file_write(w, fd, index);
	if (!err && w->r->phase.mode == BENCH_SYNC && fsync(fd) < 0)
		err = -errno;
	/* Where errors of writing are told, if not before. */
	if (close(fd) < 0 && !err)
		err = -errno;
	return err;
}

static int file_get(const struct worker *w, int dir, const char *name)
{
	scoped_fd int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	uint64_t got = 0;

	if (fd < 0)
		return -errno;
	/* As cold as one may ask: what the kernel keeps of it is dropped. */
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	while (got < w->r->phase.size) {
		ssize_t n = read(fd, w->data + got, w->r->phase.size - got);

		if (n < 0)
			return -errno;
		if (n == 0)
			return -TESS_E_SHORT_BODY;
		got += (uint64_t)n;
	}
	return 0;
}

static int file_op(const struct worker *w, int dir, const char *name, uint64_t index)
{
	switch (w->r->phase.op) {
	case BENCH_PUT:
		return file_put(w, dir, name, index);
	case BENCH_GET:
		return file_get(w, dir, name);
	case BENCH_DELETE:
		/* A put that failed left nothing, maybe. */
		return unlinkat(dir, name, 0) < 0 && errno != ENOENT ? -errno : 0;
	default:
		return -EINVAL;
	}
}

static void *worker_run(void *arg)
{
	const struct worker *w = arg;
	struct bench_rank *r = w->r;
	int dir = *(int *)r->priv;
	uint64_t index;

	while (bench_next(r, &index)) {
		char name[96];
		int64_t start, end;
		int err;

		bench_object_name(r, index, name, sizeof(name));
		start = clock_now();
		err = file_op(w, dir, name, index);
		end = clock_now();
		if (!err && r->phase.op == BENCH_GET && r->b->conf->verify && !bench_check(r, index, w->data))
			err = -TESS_E_CHECKSUM;
		if (err)
			bench_fail(r, err, name);
		else
			bench_count(r, end - start);
	}
	return NULL;
}

static void mount_rank_run(struct bench_rank *r)
{
	unsigned window = r->phase.window ? r->phase.window : 1, started = 0;
	scoped_free struct worker *w = mem_array(window, sizeof(*w));
	size_t n = r->phase.op == BENCH_GET ? r->phase.size : BENCH_PAGE;
	int err = w ? 0 : -ENOMEM;

	for (unsigned i = 0; !err && i < window; i++) {
		w[i].r = r;
		w[i].data = mem_pages(n);
		err = w[i].data ? 0 : -ENOMEM;
		/* The first touch of memory is not what is measured. */
		if (!err)
			memset(w[i].data, 0, n);
	}
	bench_start(r);
	for (; !err && window > 1 && started < window; started++) {
		err = thread_start(&w[started].thread, "bench", worker_run, &w[started]);
		if (err)
			break;
	}
	if (!err && window == 1)
		worker_run(w);
	for (unsigned i = 0; i < started; i++)
		pthread_join(w[i].thread, NULL);
	bench_end(r);
	if (err)
		bench_fail(r, err, "");
	for (unsigned i = 0; w && i < window; i++)
		free(w[i].data);
}

static int mount_rank_open(struct bench_rank *r)
{
	const struct bench_dirs *d = r->b->priv;
	scoped_free char *path = mem_printf("%s/%u", d->top, r->id);
	scoped_free int *fd = mem_zalloc(sizeof(*fd));

	if (!path || !fd)
		return -ENOMEM;
	*fd = mkdir(path, 0700) < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*fd < 0) {
		int err = -errno;

		snprintf(r->why, sizeof(r->why), "%s: %s", path, err_text(err));
		return err;
	}
	r->priv = steal_ptr(fd);
	return 0;
}

static void mount_rank_close(struct bench_rank *r)
{
	close(*(int *)r->priv);
	free(r->priv);
}

static void mount_cold(struct bench *b)
{
	scoped_fd int fd = b->conf->drop_caches ? open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC) : -1;

	/* Without the right to it, reading is as cold as it gets. */
	if (fd >= 0) {
		sync();
		(void)!write(fd, "1\n", 2);
	}
}

static const struct bench_port mount_port = {
	.open = mount_rank_open,
	.run = mount_rank_run,
	.close = mount_rank_close,
	.cold = mount_cold,
};

/* Removes a directory of ours with what ranks left in it; two levels, as we made it. */
static int dirs_remove(const char *path, bool deeper)
{
	DIR *dir = opendir(path);
	const struct dirent *e;
	int err = 0;

	if (!dir)
		return -errno;
	while ((e = readdir(dir)) != NULL) {
		scoped_free char *sub = NULL;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		sub = deeper ? mem_printf("%s/%s", path, e->d_name) : NULL;
		if (sub && !err)
			err = dirs_remove(sub, false);
		else if (unlinkat(dirfd(dir), e->d_name, 0) < 0 && !err)
			err = -errno;
	}
	closedir(dir);
	return rmdir(path) < 0 && !err ? -errno : err;
}

int bench_mount(const char *dir, const struct bench_conf *conf, struct bench_result *ret,
		struct text *why)
{
	struct bench_dirs d = { .top = mem_printf("%s/tessera-bench.XXXXXX", dir) };
	struct bench *b = NULL;
	int err, err2;

	*ret = (struct bench_result){ .name = mem_strdup(dir) };
	if (!ret->name || !d.top) {
		free(d.top);
		return -ENOMEM;
	}
	if (!mkdtemp(d.top)) {
		err = -errno;
		text_fmt(why, "%s: %s", dir, err_text(err));
		free(d.top);
		return err;
	}
	err = bench_new(&b, conf, &mount_port, &d);
	if (!err)
		err = bench_sweep(b, ret, why);
	bench_free(b);
	err2 = dirs_remove(d.top, true);
	if (err2)
		text_fmt(why, "%s%s remains: %s", text_str(why)[0] ? "; " : "", d.top, err_text(err2));
	free(d.top);
	err = err ? err : err2;
	if (err && err != -EINTR && !text_str(why)[0])
		text_fmt(why, "%s: %s", dir, err_text(err));
	return err;
}
