/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H
/*
 * Named fault points. A point does nothing until a spec arms it; unarmed it costs one load.
 *
 *   spec   := rule[,rule…]        from TESSERA_FAULTS, `fault=` of a target URI, or fault_set()
 *   rule   := point[@N|%P|#N]=action     @N only the Nth hit, #N every Nth, %P each with probability P/100
 *                                        @0 never: the point is only counted (fault_hits)
 *   action := error name (EIO, ENOSPC, TESS_E_CHECKSUM, …) | kill (SIGKILL to itself) | delay:TIME
 *
 * Points are dotted names by layer: "alloc", "kv.commit", "kv.put", "env.sync", "io.flush.put",
 * "io.flush.commit", "stage.append", "stage.seal", "gc.delete", …; "*" matches any.
 */
#include <stddef.h>
#include <stdint.h>

/* 0, or the negative error that the armed rule asks for; may not return (kill) or return late (delay). */
#define fault_point(name) \
	(__builtin_expect(__atomic_load_n(&fault_armed, __ATOMIC_RELAXED), 0) ? fault_hit(name) : 0)
extern int fault_armed;	/* read without order: a stale value only misses one hit */
int  fault_hit(const char *name);
int  fault_set(const char *spec);	/* NULL or "" disarms all; -TESS_E_OPT_VALUE when it does not parse */
uint64_t fault_hits(const char *name);	/* how often the point was passed since armed */

/* Checked allocation: every call passes the point "alloc". NULL on failure; overflow is failure. */
void *mem_alloc(size_t n);
void *mem_zalloc(size_t n);
void *mem_array(size_t n, size_t size);		/* zeroed */
void *mem_resize(void *p, size_t n, size_t size);	/* keeps p on failure */
char *mem_strdup(const char *s);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Page-aligned, for O_DIRECT; freed by free(). n is rounded up to 4096. */
void *mem_pages(size_t n);
#endif
