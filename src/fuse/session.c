/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/daemon.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scoped.h"
#include <string.h>

LOG_MODULE("mount");

#define SESSION_MAX_WRITE (1u << 20) /* what every libfuse 3 has buffers for */
#define SESSION_READAHEAD 1024u	     /* KiB: one full read request ahead */
#define SESSION_THREADS \
	32u /* most wait in fsync or for memory, so more than there are processors */
#define SESSION_THREADS_NET \
	128u /* a store that hangs holds its waiters for a minute: the others must find a thread */
#define SESSION_BACKGROUND 256u /* asynchronous reads the kernel may have in flight */

/* ---- what libfuse says while mounting: the last line is the reason when it fails ---- */

static char session_said[256];

__attribute__((format(printf, 2, 0))) static void session_log(enum fuse_log_level level,
							      const char *fmt, va_list ap)
{
	char line[256];

	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = '\0';
	if (level <= FUSE_LOG_ERR)
		snprintf(session_said, sizeof(session_said), "%s", line);
	if (level <= FUSE_LOG_WARNING)
		log_debug("libfuse: %s", line);
	else if (level == FUSE_LOG_DEBUG)
		fprintf(stderr, "%s\n", line);
}

/* ---- what is asked of the kernel ---- */

static void session_want(struct fuse_conn_info *conn, uint64_t cap, bool on)
{
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
	if (on)
		fuse_set_feature_flag(conn, cap);
	else
		fuse_unset_feature_flag(conn, cap);
#else
	if (on)
		conn->want |= conn->capable & (unsigned)cap;
	else
		conn->want &= ~(unsigned)cap;
#endif
}

static void session_init_caps(struct fuse_conn_info *conn)
{
	static const struct {
		uint64_t cap;
		bool on;
	} rows[] = {
		{FUSE_CAP_ASYNC_READ, true},
		{FUSE_CAP_ASYNC_DIO, true},
		{FUSE_CAP_ATOMIC_O_TRUNC,
		 true}, /* the old content lives until the new is published */
		{FUSE_CAP_PARALLEL_DIROPS, true},
		{FUSE_CAP_READDIRPLUS, true},
		{FUSE_CAP_READDIRPLUS_AUTO, true},
		{FUSE_CAP_CACHE_SYMLINKS, true},
		{FUSE_CAP_POSIX_ACL, true},
		{FUSE_CAP_DONT_MASK, true}, /* a default ACL replaces the umask */
#ifdef FUSE_CAP_HANDLE_KILLPRIV_V2
		{FUSE_CAP_HANDLE_KILLPRIV_V2, true}, /* see raw.c */
#endif
		{FUSE_CAP_HANDLE_KILLPRIV, false},
		/*
		 * Pages are kept or dropped at open, by generation. Dropping them when mtime
		 * changes would drop what we have just written ourselves.
		 */
		{FUSE_CAP_AUTO_INVAL_DATA, false},
		/*
		 * Not explicit alone: when another session made the file longer, the page with the old
		 * end has zeros behind it, and must go.
		 */
		{FUSE_CAP_EXPLICIT_INVAL_DATA, false},
		/* Moving pages through a pipe costs more than the one copy it saves. */
		{FUSE_CAP_SPLICE_READ, false},
		{FUSE_CAP_SPLICE_WRITE, false},
		{FUSE_CAP_SPLICE_MOVE, false},
		{FUSE_CAP_EXPORT_SUPPORT, false}, /* no handle survives our restart */
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		session_want(conn, rows[i].cap, rows[i].on);
}

static void session_init(void *userdata, struct fuse_conn_info *conn)
{
	struct daemon *d = userdata;
	const struct tess_conf *conf = d->conf->conf;

	session_init_caps(conn);
	/*
	 * Of the whole connection; what may not be collected is opened for direct I/O. The fault point
	 * lets a test see what it does to a file of two mounts.
	 */
	session_want(conn, FUSE_CAP_WRITEBACK_CACHE,
		     fs_policy(d->fs)->kernel_writeback || fault_point("fuse.writeback"));
#ifdef FUSE_CAP_DIRECT_IO_ALLOW_MMAP
	session_want(conn, FUSE_CAP_DIRECT_IO_ALLOW_MMAP, !fault_point("fuse.mmap"));
#endif
	session_want(conn, FUSE_CAP_POSIX_LOCKS, !fs_lock_by_kernel(d->fs));
	session_want(conn, FUSE_CAP_FLOCK_LOCKS, !fs_lock_by_kernel(d->fs));
	conn->max_write = conf && conf->max_write
				  ? (unsigned)MIN(conf->max_write, SESSION_MAX_WRITE)
				  : SESSION_MAX_WRITE;
	conn->max_readahead = SESSION_MAX_WRITE;
	conn->max_background = SESSION_BACKGROUND;
	conn->congestion_threshold = SESSION_BACKGROUND * 3 / 4;
	conn->time_gran = 1;
	if (raw_allows_mmap(conn))
		fs_direct_appends(d->fs);
	if (d->conf->ready)
		d->conf->ready(d->conf->arg);
	/* Not before: a daemon's goes to syslog, and mount(8) says nothing when all is well. */
	log_notice("serving %s on %s: %s%s", d->conf->dir, d->conf->mountpoint, fuse_build_info(),
		   DAEMON_HAS_URING && !d->uring ? " (it does not: see fuse.enable_uring)" : "");
}

static const struct fuse_lowlevel_ops *session_ops(void)
{
	static struct fuse_lowlevel_ops ops;

	ops.init = session_init;
	ops_file_fill(&ops);
	ops_dir_fill(&ops);
	ops_attr_fill(&ops);
	ops_lock_fill(&ops);
	return &ops;
}

/* ---- arguments of libfuse ---- */

static int session_add(struct fuse_args *args, const char *opt)
{
	return fuse_opt_add_arg(args, "-o") < 0 || fuse_opt_add_arg(args, opt) < 0 ? -ENOMEM : 0;
}

static int session_add_source(struct fuse_args *args, const char *dir)
{
	scoped_free char *named = mem_printf("fsname=%s", dir);
	char *escaped = NULL;
	int r = -ENOMEM;

	if (named && fuse_opt_add_opt_escaped(&escaped, named) == 0)
		r = session_add(args, escaped);
	free(escaped);
	return r;
}

#if DAEMON_HAS_URING
static bool session_uring_offered(void)
{
	scoped_file FILE *f = fopen("/sys/module/fuse/parameters/enable_uring", "re");
	int c = f ? fgetc(f) : EOF;

	return c == 'Y' || c == '1';
}
#endif

#if DAEMON_HAS_URING
/* Each entry pins a buffer of the largest write: many per processor only where processors are few. */
static int session_add_uring(struct fuse_args *args)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);
	char opt[64];

	snprintf(opt, sizeof(opt), "io_uring,io_uring_q_depth=%ld", MAX(4, MIN(32, 64 / MAX(1, n))));
	return session_add(args, opt);
}
#endif

static int session_args(struct daemon *d, struct fuse_args *args)
{
	const struct tess_conf *conf = d->conf->conf;
	bool root = geteuid() == 0;
	int r = fuse_opt_add_arg(args, "tessera") < 0 ? -ENOMEM : 0;

	if (r == 0)
		r = session_add_source(args, d->conf->dir);
	if (r == 0)
		r = session_add(args, "subtype=tessera");
	/* As of any file system that root mounts; -o nosuid,nodev come after and win. */
	if (r == 0 && root)
		r = session_add(args, "suid,dev");
	if (r == 0 && (conf->default_permissions || conf->allow_other || root))
		r = session_add(args, "default_permissions");
	if (r == 0 && (conf->allow_other || (root && !conf->allow_root)))
		r = session_add(args, "allow_other");
	if (r == 0 && conf->allow_root)
		r = session_add(args, "allow_root");
	if (r == 0 && conf->readonly)
		r = session_add(args, "ro");
	if (r == 0 && conf->generic && *conf->generic)
		r = session_add(args, conf->generic);
	if (r == 0 && conf->debug_fuse)
		r = session_add(args, "debug");
#if DAEMON_HAS_URING
	d->uring = session_uring_offered();
	if (r == 0 && d->uring)
		r = session_add_uring(args);
#else
	d->uring = false;
#endif
	return r;
}

/* ---- serving ---- */

static int session_why(char *why, int err, const char *what)
{
	snprintf(why, TESS_WHY, "%s%s%s", what, *session_said ? ": " : "", session_said);
	return err;
}

static int session_new(struct daemon *d, char *why)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	int r = session_args(d, &args);

	*session_said = '\0';
	fuse_set_log_func(session_log);
	if (r == 0) {
		d->se = fuse_session_new(&args, session_ops(), sizeof(struct fuse_lowlevel_ops), d);
		r = d->se ? 0 : session_why(why, -EINVAL, "cannot set up FUSE");
	}
	fuse_opt_free_args(&args);
	return r;
}

static int session_mount(struct daemon *d, char *why)
{
	int r;

	if (fuse_session_mount(d->se, d->conf->mountpoint) != 0) {
		char what[128];

		snprintf(what, sizeof(what), "cannot mount on %.100s", d->conf->mountpoint);
		return session_why(why, -EIO, what);
	}
	r = raw_hook(d->se);
	if (r < 0)
		log_notice("the kernel will ask for capabilities before each write: %s",
			   err_text(r));
	mountpoint_readahead(d->conf->mountpoint, SESSION_READAHEAD);
	return 0;
}

static unsigned session_threads(const struct daemon *d)
{
	if (d->conf->conf->threads)
		return (unsigned)d->conf->conf->threads;
	return fs_is_local(d->fs) ? SESSION_THREADS : SESSION_THREADS_NET;
}

static int session_loop(struct daemon *d, char *why)
{
	unsigned threads = session_threads(d);
	struct fuse_loop_config *cfg = fuse_loop_cfg_create();
	int r;

	if (!cfg)
		return -ENOMEM;
	/* Both limits: libfuse 3.14 has no default for the first, and makes and ends threads all
	 * the time by the second. */
	fuse_loop_cfg_set_clone_fd(cfg, 1);
	fuse_loop_cfg_set_max_threads(cfg, threads);
	fuse_loop_cfg_set_idle_threads(cfg, threads);
	signals_attach(d->se, d->conf->mountpoint);
	r = fuse_session_loop_mt(d->se, cfg);
	signals_detach();
	fuse_loop_cfg_destroy(cfg);
	return r < 0 ? session_why(why, r, "the connection to the kernel failed") : 0;
}

static void session_drain(struct daemon *d)
{
	while (atomic_load(&d->inflight))
		clock_sleep(NS_PER_MS);
}

#define SESSION_STR_(x) #x
#define SESSION_STR(x)	SESSION_STR_(x)
#define SESSION_LIB	"libfuse " SESSION_STR(FUSE_MAJOR_VERSION) "." SESSION_STR(FUSE_MINOR_VERSION)

const char *fuse_build_info(void)
{
#if DAEMON_HAS_URING
	return SESSION_LIB ", io_uring where the kernel allows, parallel direct writes";
#elif DAEMON_HAS_PARALLEL
	return SESSION_LIB ", no io_uring (3.18 has it), parallel direct writes";
#else
	return SESSION_LIB ", no io_uring (3.18 has it), no parallel direct writes (3.15 has them)";
#endif
}

int fuse_serve(struct tess *t, const struct fuse_serve_conf *conf, char *why)
{
	struct daemon d = {.t = t, .fs = tess_fs(t), .conf = conf};
	int r;

	r = session_new(&d, why);
	if (r < 0)
		return r;
	if (d.uring)
		r = waiters_new(&d.waiters, 0, false);
	else if (!fs_is_local(d.fs))
		r = waiters_new(&d.waiters, session_threads(&d) / 2, true);
	if (r == 0)
		r = hung_start(&d);
	if (r == 0)
		r = session_mount(&d, why);
	if (r == 0) {
		fs_forget_begin(d.fs);
		reply_stats_start();
		notify_begin(&d);
		r = session_loop(&d, why);
		notify_end(&d);
		fuse_session_unmount(d.se);
		fs_lock_stop(d.fs);
		session_drain(&d);
		reply_stats_stop();
	}
	waiters_free(d.waiters);
	hung_stop(&d);
	fuse_session_destroy(d.se);
	return r;
}
