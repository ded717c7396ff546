/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/err.h"
#include "base/scoped.h"
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#define LOG_LINES_PER_S 50
#define LOG_SITES 256

/* A call site is known by the address of its format. Two sites that collide share a slot in turn. */
struct log_site {
	const char *fmt;
	time_t      second;
	unsigned    lines, dropped;
};

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct log_module *log_modules;
static struct log_site log_sites[LOG_SITES];
static bool log_syslog;
static const char *const log_words[] = { "error", "warning", "notice", "debug" };

static int log_parse_level(const char *s, size_t n, enum log_level *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(log_words); i++)
		if (strlen(log_words[i]) == n && !memcmp(s, log_words[i], n)) {
			*ret = (enum log_level)i;
			return 0;
		}
	return -TESS_E_OPT_VALUE;
}

static void log_set_level(struct log_module *m, enum log_level lv)
{
	__atomic_store_n(&m->level, lv, __ATOMIC_RELAXED);
}

/* One "module=level" or "level" of n bytes; `only` NULL: every module. Called with log_mutex. */
static int log_apply(const char *s, size_t n, struct log_module *only, bool dry)
{
	const char *eq = memchr(s, '=', n);
	size_t name = eq ? (size_t)(eq - s) : 0;
	enum log_level lv;
	int err;

	err = eq ? log_parse_level(eq + 1, n - name - 1, &lv) : log_parse_level(s, n, &lv);
	if (err || dry)
		return err;
	for (struct log_module *m = only ? only : log_modules; m; m = only ? NULL : m->next)
		if (!eq || (strlen(m->name) == name && !memcmp(m->name, s, name)))
			log_set_level(m, lv);
	return 0;
}

static int log_each(const char *spec, struct log_module *only, bool dry)
{
	while (*spec) {
		size_t n = strcspn(spec, ",");
		int err = n ? log_apply(spec, n, only, dry) : 0;

		if (err)
			return err;
		spec += n + (spec[n] == ',');
	}
	return 0;
}

void log_register(struct log_module *m)
{
	const char *spec = secure_getenv("TESSERA_LOG");

	pthread_mutex_lock(&log_mutex);
	m->next = log_modules;
	log_modules = m;
	if (spec && !log_each(spec, m, true))
		log_each(spec, m, false);
	pthread_mutex_unlock(&log_mutex);
}

int log_set(const char *spec)
{
	int err;

	pthread_mutex_lock(&log_mutex);
	err = log_each(spec, NULL, true);
	if (!err)
		log_each(spec, NULL, false);
	pthread_mutex_unlock(&log_mutex);
	return err;
}

void log_to_syslog(const char *ident)
{
	openlog(ident, LOG_PID, LOG_DAEMON);
	__atomic_store_n(&log_syslog, true, __ATOMIC_RELEASE);
}

static void log_emit(const struct log_module *m, enum log_level lv, uint64_t req, const char *msg)
{
	static const int priority[] = { 3, 4, 5, 7 };	/* syslog's LOG_ERR … LOG_DEBUG; ours hide the names */
	char stamp[32], id[32] = "";
	struct timespec ts;
	struct tm tm;

	if (req)
		snprintf(id, sizeof(id), " req=%llu", (unsigned long long)req);
	if (__atomic_load_n(&log_syslog, __ATOMIC_ACQUIRE)) {
		syslog(priority[lv], "%s:%s %s", m->name, id, msg);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &ts);
	localtime_r(&ts.tv_sec, &tm);
	strftime(stamp, sizeof(stamp), "%F %T", &tm);
	fprintf(stderr, "%s.%03ld %s %s%s %s\n", stamp, ts.tv_nsec / 1000000, log_words[lv], m->name,
		id, msg);
}

/* False: drop the line. *ret_dropped is what an earlier second of this site lost. */
static bool log_admit(const char *fmt, unsigned *ret_dropped)
{
	struct log_site *s = &log_sites[((uintptr_t)fmt >> 3) % LOG_SITES];
	struct timespec ts;
	bool ok;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	*ret_dropped = 0;
	pthread_mutex_lock(&log_mutex);
	if (s->fmt != fmt || s->second != ts.tv_sec) {
		if (s->fmt == fmt)
			*ret_dropped = s->dropped;
		*s = (struct log_site){ .fmt = fmt, .second = ts.tv_sec };
	}
	ok = s->lines < LOG_LINES_PER_S;
	if (ok)
		s->lines++;
	else
		s->dropped++;
	pthread_mutex_unlock(&log_mutex);
	return ok;
}

void log_line(struct log_module *m, enum log_level lv, uint64_t req, const char *fmt, ...)
{
	int saved = errno;
	char msg[1024];
	unsigned dropped;
	va_list ap;

	if (!log_admit(fmt, &dropped)) {
		errno = saved;
		return;
	}
	if (dropped) {
		snprintf(msg, sizeof(msg), "%u lines like the next one were dropped", dropped);
		log_emit(m, lv, 0, msg);
	}
	va_start(ap, fmt);
	errno = saved;
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	log_emit(m, lv, req, msg);
	errno = saved;
}
