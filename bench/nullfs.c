/* SPDX-License-Identifier: Apache-2.0 */
/* layer: base */
/*
 * A null file system: what FUSE itself costs. Names and attributes live in memory; file data does
 * not live at all: writes are counted and dropped, reads are zeros. Nothing here is faster than the
 * kernel's side of FUSE and a thread that wakes up, so nothing over FUSE can be faster than this.
 *
 *	nullfs [-f] [-s] [-o direct,timeout=SECONDS,writeback,clone_fd] MOUNTPOINT
 *
 * direct: without the page cache. timeout: how long the kernel may believe names and attributes
 * (default 1, as passthrough_ll). One lock over the tree: it is held for less than a microsecond.
 */
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define WRITE_MAX (1u << 20)
#define BUCKETS (1u << 18)

struct node {
	struct stat  st;
	uint64_t     lookups;		/* the kernel's references */
	struct node *parent;		/* NULL: unlinked. A directory has one; hard links are refused */
	struct node *hash_next;		/* names[] */
	struct node *first, *next, *prev;	/* children, siblings */
	char        *target;		/* of a symbolic link */
	char        *name;
};

struct conf {
	int    direct, writeback;
	double timeout;
};

static struct conf conf = { .timeout = 1.0 };
static struct node root;
static struct node *names[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* everything above */
static uint64_t next_ino = 2;
static char zeros[WRITE_MAX];

static const struct fuse_opt opts[] = {
	{ "direct", offsetof(struct conf, direct), 1 },
	{ "writeback", offsetof(struct conf, writeback), 1 },
	{ "timeout=%lf", offsetof(struct conf, timeout), 0 },
	FUSE_OPT_END,
};

static struct node *node_of(fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? &root : (struct node *)(uintptr_t)ino;
}

static fuse_ino_t ino_of(struct node *n)
{
	return n == &root ? FUSE_ROOT_ID : (fuse_ino_t)(uintptr_t)n;
}

static struct node **bucket(const struct node *dir, const char *name)
{
	uint64_t h = (uintptr_t)dir * UINT64_C(0x9e3779b97f4a7c15);

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return &names[(h ^ h >> 32) % BUCKETS];
}

static struct node *find(const struct node *dir, const char *name)
{
	struct node *n = *bucket(dir, name);

	while (n && (n->parent != dir || strcmp(n->name, name) != 0))
		n = n->hash_next;
	return n;
}

static void touch(struct node *n)
{
	clock_gettime(CLOCK_REALTIME_COARSE, &n->st.st_mtim);
	n->st.st_ctim = n->st.st_mtim;
}

/* Enters n into dir under a name that is free. Takes `name`. */
static void attach(struct node *dir, struct node *n, char *name)
{
	struct node **b = bucket(dir, name);

	n->name = name;
	n->parent = dir;
	n->hash_next = *b;
	*b = n;
	n->prev = NULL;
	n->next = dir->first;
	if (dir->first)
		dir->first->prev = n;
	dir->first = n;
	dir->st.st_nlink += S_ISDIR(n->st.st_mode);
	touch(dir);
}

static void detach(struct node *n)
{
	struct node *dir = n->parent, **p = bucket(dir, n->name);

	while (*p != n)
		p = &(*p)->hash_next;
	*p = n->hash_next;
	if (n->prev)
		n->prev->next = n->next;
	else
		dir->first = n->next;
	if (n->next)
		n->next->prev = n->prev;
	n->parent = NULL;
	free(n->name);
	n->name = NULL;
	dir->st.st_nlink -= S_ISDIR(n->st.st_mode);
	touch(dir);
}

static void put(struct node *n, uint64_t count)
{
	n->lookups -= count;
	if (n->lookups == 0 && !n->parent && n != &root) {
		free(n->target);
		free(n);
	}
}

static struct fuse_entry_param entry_of(struct node *n)
{
	return (struct fuse_entry_param){ .ino = ino_of(n), .attr = n->st,
					  .attr_timeout = conf.timeout,
					  .entry_timeout = conf.timeout };
}

/* A new node with one lookup. Returns 0 or a positive errno, as fuse_reply_err() takes it. */
static int make(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		struct fuse_entry_param *ret)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct node *dir = node_of(parent), *n = calloc(1, sizeof(*n));
	char *copy = strdup(name);

	if (!n || !copy) {
		free(n);
		free(copy);
		return ENOMEM;
	}
	n->st.st_mode = mode;
	n->st.st_nlink = S_ISDIR(mode) ? 2 : 1;
	n->st.st_uid = ctx->uid;
	n->st.st_gid = ctx->gid;
	n->st.st_blksize = 4096;
	touch(n);
	n->st.st_atim = n->st.st_mtim;
	n->lookups = 1;
	pthread_mutex_lock(&lock);
	if (find(dir, name)) {
		pthread_mutex_unlock(&lock);
		free(n);
		free(copy);
		return EEXIST;
	}
	n->st.st_ino = next_ino++;
	attach(dir, n, copy);
	*ret = entry_of(n);
	pthread_mutex_unlock(&lock);
	return 0;
}

static void null_init(void *user, struct fuse_conn_info *conn)
{
	(void)user;
	conn->max_write = WRITE_MAX;
	if (conf.writeback && conn->capable & FUSE_CAP_WRITEBACK_CACHE)
		conn->want |= FUSE_CAP_WRITEBACK_CACHE;
	conn->want |= conn->capable & FUSE_CAP_PARALLEL_DIROPS;
	/* A splice into a pipe that is then thrown away would be no work at all: not a limit. */
	conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
				  FUSE_CAP_SPLICE_MOVE);
}

static void null_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = { 0 };
	struct node *n;

	pthread_mutex_lock(&lock);
	n = find(node_of(parent), name);
	if (n) {
		n->lookups++;
		e = entry_of(n);
	}
	pthread_mutex_unlock(&lock);
	if (n)
		fuse_reply_entry(req, &e);
	else
		fuse_reply_err(req, ENOENT);
}

static void null_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	pthread_mutex_lock(&lock);
	put(node_of(ino), nlookup);
	pthread_mutex_unlock(&lock);
	fuse_reply_none(req);
}

static void null_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *f)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++)
		put(node_of(f[i].ino), f[i].nlookup);
	pthread_mutex_unlock(&lock);
	fuse_reply_none(req);
}

static void null_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	pthread_mutex_lock(&lock);
	st = node_of(ino)->st;
	pthread_mutex_unlock(&lock);
	fuse_reply_attr(req, &st, conf.timeout);
}

static void null_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int set,
			 struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	struct stat st;

	(void)fi;
	pthread_mutex_lock(&lock);
	touch(n);
	if (set & FUSE_SET_ATTR_MODE)
		n->st.st_mode = (n->st.st_mode & S_IFMT) | (attr->st_mode & ~(mode_t)S_IFMT);
	if (set & FUSE_SET_ATTR_UID)
		n->st.st_uid = attr->st_uid;
	if (set & FUSE_SET_ATTR_GID)
		n->st.st_gid = attr->st_gid;
	if (set & FUSE_SET_ATTR_SIZE)
		n->st.st_size = attr->st_size;
	if (set & FUSE_SET_ATTR_ATIME && !(set & FUSE_SET_ATTR_ATIME_NOW))
		n->st.st_atim = attr->st_atim;
	if (set & FUSE_SET_ATTR_MTIME && !(set & FUSE_SET_ATTR_MTIME_NOW))
		n->st.st_mtim = attr->st_mtim;
	st = n->st;
	pthread_mutex_unlock(&lock);
	fuse_reply_attr(req, &st, conf.timeout);
}

static void reply_made(fuse_req_t req, int err, const struct fuse_entry_param *e)
{
	if (err)
		fuse_reply_err(req, err);
	else
		fuse_reply_entry(req, e);
}

static void null_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t dev)
{
	struct fuse_entry_param e;

	(void)dev;
	reply_made(req, make(req, parent, name, mode, &e), &e);
}

static void null_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct fuse_entry_param e;

	reply_made(req, make(req, parent, name, S_IFDIR | (mode & ~(mode_t)S_IFMT), &e), &e);
}

static void null_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e;
	char *copy = strdup(target);
	int err = copy ? make(req, parent, name, S_IFLNK | 0777, &e) : ENOMEM;

	if (err) {
		free(copy);
	} else {
		pthread_mutex_lock(&lock);
		node_of(e.ino)->target = copy;
		e.attr.st_size = node_of(e.ino)->st.st_size = (off_t)strlen(target);
		pthread_mutex_unlock(&lock);
	}
	reply_made(req, err, &e);
}

static void null_readlink(fuse_req_t req, fuse_ino_t ino)
{
	fuse_reply_readlink(req, node_of(ino)->target);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent, const char *name, int want_dir)
{
	struct node *n;
	int err = 0;

	pthread_mutex_lock(&lock);
	n = find(node_of(parent), name);
	if (!n)
		err = ENOENT;
	else if (want_dir && n->first)
		err = ENOTEMPTY;
	else if ((S_ISDIR(n->st.st_mode) ? 1 : 0) != want_dir)
		err = want_dir ? ENOTDIR : EISDIR;
	if (err == 0) {
		detach(n);
		n->st.st_nlink = 0;
		put(n, 0);
	}
	pthread_mutex_unlock(&lock);
	fuse_reply_err(req, err);
}

static void null_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, 0);
}

static void null_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, 1);
}

static void null_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
			const char *newname, unsigned flags)
{
	char *copy = strdup(newname);
	struct node *n, *old;
	int err = 0;

	pthread_mutex_lock(&lock);
	n = find(node_of(parent), name);
	old = find(node_of(newparent), newname);
	if (!copy)
		err = ENOMEM;
	else if (flags)
		err = EINVAL;
	else if (!n)
		err = ENOENT;
	else if (old && old->first)
		err = ENOTEMPTY;
	if (err == 0 && n != old) {
		if (old) {
			detach(old);
			old->st.st_nlink = 0;
			put(old, 0);
		}
		detach(n);
		attach(node_of(newparent), n, copy);
		copy = NULL;
	}
	pthread_mutex_unlock(&lock);
	free(copy);
	fuse_reply_err(req, err);
}

static void set_flags(struct fuse_file_info *fi)
{
	fi->direct_io = conf.direct != 0;
	fi->keep_cache = 0;
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 15)
	fi->parallel_direct_writes = 1;
#endif
}

static void null_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	set_flags(fi);
	fuse_reply_open(req, fi);
}

static void null_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
			struct fuse_file_info *fi)
{
	struct fuse_entry_param e;
	int err = make(req, parent, name, S_IFREG | (mode & ~(mode_t)S_IFMT), &e);

	if (err == EEXIST && !(fi->flags & O_EXCL)) {
		pthread_mutex_lock(&lock);
		struct node *n = find(node_of(parent), name);

		if (n) {
			n->lookups++;
			e = entry_of(n);
			err = 0;
		}
		pthread_mutex_unlock(&lock);
	}
	set_flags(fi);
	if (err)
		fuse_reply_err(req, err);
	else
		fuse_reply_create(req, &e, fi);
}

static void null_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		      struct fuse_file_info *fi)
{
	off_t end;

	(void)fi;
	pthread_mutex_lock(&lock);
	end = node_of(ino)->st.st_size;
	pthread_mutex_unlock(&lock);
	if (off >= end)
		size = 0;
	else if ((off_t)size > end - off)
		size = (size_t)(end - off);
	fuse_reply_buf(req, zeros, size < WRITE_MAX ? size : WRITE_MAX);
}

static void null_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);

	(void)buf;
	(void)fi;
	pthread_mutex_lock(&lock);
	if (n->st.st_size < off + (off_t)size)
		n->st.st_size = off + (off_t)size;
	n->st.st_blocks = (n->st.st_size + 511) / 512;
	touch(n);
	pthread_mutex_unlock(&lock);
	fuse_reply_write(req, size);
}

static void null_ok(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	(void)fi;
	fuse_reply_err(req, 0);
}

static void null_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void)datasync;
	null_ok(req, ino, fi);
}

/* The whole listing at opendir: offsets are places in it, so that removal in between moves nothing. */
struct listing {
	size_t n;
	struct {
		char name[256];
		struct stat st;
	} e[];
};

static void null_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct node *dir = node_of(ino);
	struct listing *l;
	size_t n = 0;

	pthread_mutex_lock(&lock);
	for (struct node *c = dir->first; c; c = c->next)
		n++;
	l = calloc(1, sizeof(*l) + n * sizeof(l->e[0]));
	for (struct node *c = dir->first; l && c; c = c->next, l->n++) {
		snprintf(l->e[l->n].name, sizeof(l->e[0].name), "%s", c->name);
		l->e[l->n].st = c->st;
	}
	pthread_mutex_unlock(&lock);
	if (!l) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	fi->fh = (uintptr_t)l;
	fuse_reply_open(req, fi);
}

static void null_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
			 struct fuse_file_info *fi)
{
	const struct listing *l = (const struct listing *)(uintptr_t)fi->fh;
	char *buf = malloc(size);
	size_t used = 0;

	(void)ino;
	for (size_t i = (size_t)off; buf && i < l->n; i++) {
		size_t need = fuse_add_direntry(req, buf + used, size - used, l->e[i].name,
						&l->e[i].st, (off_t)i + 1);

		if (need > size - used)
			break;
		used += need;
	}
	if (buf)
		fuse_reply_buf(req, buf, used);
	else
		fuse_reply_err(req, ENOMEM);
	free(buf);
}

static void null_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	free((void *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

static void null_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs s = { .f_bsize = 4096, .f_frsize = 4096, .f_blocks = 1u << 30,
			     .f_bfree = 1u << 30, .f_bavail = 1u << 30, .f_files = 1u << 30,
			     .f_ffree = 1u << 30, .f_namemax = 255 };

	(void)ino;
	fuse_reply_statfs(req, &s);
}

static const struct fuse_lowlevel_ops ops = {
	.init = null_init,
	.lookup = null_lookup,
	.forget = null_forget,
	.forget_multi = null_forget_multi,
	.getattr = null_getattr,
	.setattr = null_setattr,
	.mknod = null_mknod,
	.mkdir = null_mkdir,
	.symlink = null_symlink,
	.readlink = null_readlink,
	.unlink = null_unlink,
	.rmdir = null_rmdir,
	.rename = null_rename,
	.open = null_open,
	.create = null_create,
	.read = null_read,
	.write = null_write,
	.flush = null_ok,
	.release = null_ok,
	.fsync = null_fsync,
	.opendir = null_opendir,
	.readdir = null_readdir,
	.releasedir = null_releasedir,
	.statfs = null_statfs,
};

static int serve(struct fuse_session *se, const struct fuse_cmdline_opts *o)
{
	struct fuse_loop_config *loop;
	int r;

	if (o->singlethread)
		return fuse_session_loop(se);
	loop = fuse_loop_cfg_create();
	fuse_loop_cfg_set_clone_fd(loop, (unsigned)o->clone_fd);
	r = fuse_session_loop_mt(se, loop);
	fuse_loop_cfg_destroy(loop);
	return r;
}

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct fuse_cmdline_opts o = { 0 };
	struct fuse_session *se = NULL;
	int r = 1;

	root.st = (struct stat){ .st_ino = 1, .st_mode = S_IFDIR | 01777, .st_nlink = 2,
				 .st_blksize = 4096 };
	touch(&root);
	if (fuse_parse_cmdline(&args, &o) != 0 || !o.mountpoint ||
	    fuse_opt_parse(&args, &conf, opts, NULL) != 0) {
		fprintf(stderr, "usage: nullfs [-f] [-s] "
				"[-o direct,timeout=SECONDS,writeback,clone_fd] MOUNTPOINT\n");
		goto out;
	}
	se = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (!se || fuse_set_signal_handlers(se) != 0)
		goto out;
	if (fuse_session_mount(se, o.mountpoint) == 0) {
		fuse_daemonize(o.foreground);
		r = serve(se, &o) == 0 ? 0 : 1;
		fuse_session_unmount(se);
	}
	fuse_remove_signal_handlers(se);
out:
	if (se)
		fuse_session_destroy(se);
	free(o.mountpoint);
	fuse_opt_free_args(&args);
	return r;
}
