/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SCOPED_H
#define BASE_SCOPED_H
/*
 * Locals that clean themselves, which may be all they are for; the success path ends in
 * `*ret = steal_ptr(x)`.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void scoped_free_(void *p)
{
	free(*(void **)p);
}

static inline void scoped_fd_(const int *fd)
{
	if (*fd >= 0) {
		int e = errno;
		close(*fd);
		errno = e;
	}
}

static inline void scoped_file_(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define scoped_free __attribute__((cleanup(scoped_free_), unused))
#define scoped_fd   __attribute__((cleanup(scoped_fd_), unused))
#define scoped_file __attribute__((cleanup(scoped_file_), unused))
/* For a type with a destructor `void f(T *)` that takes NULL: DEFINE_SCOPED(T, f) then scoped(f) T *x = NULL; */
#define DEFINE_SCOPED(type, fn)                                                                 \
	static inline void scoped_##fn##_(type **p)                                             \
	{                                                                                       \
		if (*p)                                                                         \
			fn(*p);                                                                 \
	}
#define scoped(fn) __attribute__((cleanup(scoped_##fn##_), unused))

#define steal_ptr(p)                                                                            \
	__extension__({                                                                         \
		__typeof__(p) steal_tmp_ = (p);                                                 \
		(p) = NULL;                                                                     \
		steal_tmp_;                                                                     \
	})
#define steal_fd(fd)                                                                            \
	__extension__({                                                                         \
		int steal_tmp_ = (fd);                                                          \
		(fd) = -1;                                                                      \
		steal_tmp_;                                                                     \
	})
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))
/* Each argument is evaluated once; the counter keeps nested uses from shadowing one another. */
#define MIN(a, b) MINMAX_(a, b, <, __COUNTER__)
#define MAX(a, b) MINMAX_(a, b, >, __COUNTER__)
#define MINMAX_(a, b, op, n) MINMAX__(a, b, op, n)
#define MINMAX__(a, b, op, n)                                                                   \
	__extension__({                                                                         \
		__typeof__(a) minmax_a_##n = (a);                                               \
		__typeof__(b) minmax_b_##n = (b);                                               \
		minmax_a_##n op minmax_b_##n ? minmax_a_##n : minmax_b_##n;                     \
	})
#endif
