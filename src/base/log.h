/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOG_H
#define BASE_LOG_H
/*
 * One line per event, to stderr or syslog: "time level module req=ID message". Library layers
 * return errors and do not log; the edge (fuse/reply, a tool's main, a background thread that has
 * nobody to return to) logs once. log_debug() costs one predictable branch when off.
 */
#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERR, LOG_WARN, LOG_NOTICE, LOG_DEBUG };

/* Each .c that logs says: LOG_MODULE("io"); switched by log_set("io=debug,store=debug") or TESSERA_LOG. */
struct log_module {
	const char        *name;
	enum log_level     level;	/* lines above it are dropped */
	struct log_module *next;
};
#define LOG_MODULE(str)                                                                         \
	static struct log_module log_module_ = { .name = (str), .level = LOG_NOTICE };          \
	__attribute__((constructor)) static void log_module_init_(void)                         \
	{                                                                                       \
		log_register(&log_module_);                                                     \
	}

void log_register(struct log_module *m);
/* "debug" or "module=level,…"; returns -TESS_E_OPT_VALUE and changes nothing when it does not parse. */
int log_set(const char *spec);
/* From now on lines go to syslog (daemonised) instead of stderr. */
void log_to_syslog(const char *ident);
/* Rate limited: at most 50 lines of one call site a second, then one line that counts the dropped. */
void log_line(struct log_module *m, enum log_level lv, uint64_t req, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#define log_at(lv, req, ...)                                                                    \
	do {                                                                                    \
		if ((int)(lv) <= (int)__atomic_load_n(&log_module_.level, __ATOMIC_RELAXED))    \
			log_line(&log_module_, (lv), (req), __VA_ARGS__);                       \
	} while (0)
#define log_err(...)    log_at(LOG_ERR, 0, __VA_ARGS__)
#define log_warn(...)   log_at(LOG_WARN, 0, __VA_ARGS__)
#define log_notice(...) log_at(LOG_NOTICE, 0, __VA_ARGS__)
#define log_debug(...)  log_at(LOG_DEBUG, 0, __VA_ARGS__)
#endif
