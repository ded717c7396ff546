/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/htab.h"
#include "base/opt.h"
#include "base/scoped.h"
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#define FAULT_RULES 32
#define FAULT_POINTS 128
#define FAULT_NAME 48

enum fault_when { FAULT_ALWAYS, FAULT_NTH, FAULT_EVERY, FAULT_PERCENT };

struct fault_rule {
	char            point[FAULT_NAME];
	enum fault_when when;
	uint64_t        n;
	uint64_t        hits;
	int             err;	/* 0: none */
	bool            kill;
	uint64_t        delay;	/* ns */
};

static struct {
	pthread_mutex_t   mutex;
	struct fault_rule rule[FAULT_RULES];
	unsigned          nrules;
	struct {
		char     name[FAULT_NAME];
		uint64_t hits;
	} point[FAULT_POINTS];
	unsigned npoints;
	uint64_t random;
} fault = { .mutex = PTHREAD_MUTEX_INITIALIZER };
int fault_armed;

static int fault_parse_error(const char *s)
{
	for (int e = 1; e < 200; e++) {
		const char *name = strerrorname_np(e);

		if (name && !strcmp(name, s))
			return -e;
	}
	for (int e = TESS_E_FIRST + 1; e < TESS_E_LAST; e++)
		if (!strcmp(err_name(-e), s))
			return -e;
	return 0;
}

static int fault_parse_number(const char *s, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(s, &end, 10);
	return errno || end == s || *end || *s == '-' || *s == '+' ? -TESS_E_OPT_VALUE : 0;
}

static int fault_parse_when(char *at, struct fault_rule *r)
{
	int err;

	r->when = *at == '@' ? FAULT_NTH : *at == '#' ? FAULT_EVERY : FAULT_PERCENT;
	err = fault_parse_number(at + 1, &r->n);
	if (err)
		return err;
	if ((r->when == FAULT_EVERY && !r->n) || (r->when == FAULT_PERCENT && r->n > 100))
		return -TESS_E_OPT_VALUE;
	*at = '\0';
	return 0;
}

/* `s` is scratch: it is cut up. */
static int fault_parse_rule(char *s, struct fault_rule *ret)
{
	struct fault_rule r = { .when = FAULT_ALWAYS };
	char *action = strrchr(s, '='), *at;

	if (!action)
		return -TESS_E_OPT_VALUE;
	*action++ = '\0';
	at = s + strcspn(s, "@#%");
	if (*at && fault_parse_when(at, &r))
		return -TESS_E_OPT_VALUE;
	if (!*s || strlen(s) >= sizeof(r.point))
		return -TESS_E_OPT_VALUE;
	memcpy(r.point, s, strlen(s) + 1);
	if (!strcmp(action, "kill"))
		r.kill = true;
	else if (!strncmp(action, "delay:", 6)) {
		if (parse_time(action + 6, &r.delay))
			return -TESS_E_OPT_VALUE;
	} else {
		r.err = fault_parse_error(action);
		if (!r.err)
			return -TESS_E_OPT_VALUE;
	}
	*ret = r;
	return 0;
}

int fault_set(const char *spec)
{
	struct fault_rule rules[FAULT_RULES];
	unsigned n = 0;

	while (spec && *spec) {
		size_t len = strcspn(spec, ",");
		char one[128];

		if (len >= sizeof(one) || n == FAULT_RULES)
			return -TESS_E_OPT_VALUE;
		memcpy(one, spec, len);
		one[len] = '\0';
		if (fault_parse_rule(one, &rules[n]))
			return -TESS_E_OPT_VALUE;
		n++;
		spec += len + (spec[len] == ',');
	}
	pthread_mutex_lock(&fault.mutex);
	if (n)
		memcpy(fault.rule, rules, n * sizeof(rules[0]));
	fault.nrules = n;
	fault.npoints = 0;
	pthread_mutex_unlock(&fault.mutex);
	__atomic_store_n(&fault_armed, n > 0, __ATOMIC_RELAXED);
	return 0;
}

static void fault_count(const char *name)
{
	unsigned i;

	for (i = 0; i < fault.npoints; i++)
		if (!strcmp(fault.point[i].name, name))
			break;
	if (i == FAULT_POINTS || strlen(name) >= FAULT_NAME)
		return;
	if (i == fault.npoints) {
		memcpy(fault.point[i].name, name, strlen(name) + 1);
		fault.point[i].hits = 0;
		fault.npoints++;
	}
	fault.point[i].hits++;
}

static bool fault_due(struct fault_rule *r)
{
	r->hits++;
	switch (r->when) {
	case FAULT_NTH:
		return r->hits == r->n;
	case FAULT_EVERY:
		return r->hits % r->n == 0;
	case FAULT_PERCENT:
		fault.random += UINT64_C(0x9e3779b97f4a7c15);
		return hash64(fault.random) % 100 < r->n;
	case FAULT_ALWAYS:
		break;
	}
	return true;
}

int fault_hit(const char *name)
{
	uint64_t delay = 0;
	bool die = false;
	int err = 0;

	pthread_mutex_lock(&fault.mutex);
	fault_count(name);
	for (unsigned i = 0; i < fault.nrules; i++) {
		struct fault_rule *r = &fault.rule[i];

		if (strcmp(r->point, name) && strcmp(r->point, "*"))
			continue;
		if (!fault_due(r))
			continue;
		die |= r->kill;
		delay += r->delay;
		if (!err)
			err = r->err;
	}
	pthread_mutex_unlock(&fault.mutex);
	if (delay)
		clock_sleep((int64_t)MIN(delay, (uint64_t)INT64_MAX));
	while (die)
		kill(getpid(), SIGKILL);
	return err;
}

uint64_t fault_hits(const char *name)
{
	uint64_t n = 0;

	pthread_mutex_lock(&fault.mutex);
	for (unsigned i = 0; i < fault.npoints; i++)
		if (!strcmp(fault.point[i].name, name))
			n = fault.point[i].hits;
	pthread_mutex_unlock(&fault.mutex);
	return n;
}

/* Before main(), so that a fault may hit the very first allocation. */
__attribute__((constructor)) static void fault_from_environment(void)
{
	const char *spec = secure_getenv("TESSERA_FAULTS");

	fault.random = (uint64_t)getpid();
	if (spec && fault_set(spec)) {
		fprintf(stderr, "TESSERA_FAULTS: cannot parse \"%s\"\n", spec);
		_exit(2);
	}
}

void *mem_alloc(size_t n)
{
	return fault_point("alloc") ? NULL : malloc(n ? n : 1);
}

void *mem_zalloc(size_t n)
{
	return mem_array(1, n);
}

void *mem_array(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes) || fault_point("alloc"))
		return NULL;
	return calloc(1, bytes ? bytes : 1);
}

void *mem_resize(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes) || fault_point("alloc"))
		return NULL;
	return realloc(p, bytes ? bytes : 1);
}

char *mem_strdup(const char *s)
{
	return fault_point("alloc") ? NULL : strdup(s);
}

char *mem_printf(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	if (fault_point("alloc"))
		return NULL;
	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : s;
}

void *mem_pages(size_t n)
{
	if (n > SIZE_MAX - 4096 || fault_point("alloc"))
		return NULL;
	n = (n + 4095) & ~(size_t)4095;
	return aligned_alloc(4096, n ? n : 4096);
}
