/* SPDX-License-Identifier: Apache-2.0 */
#ifdef HAVE_RADOS
#include "store/rados_api.h"

#include "base/scoped.h"
#include "base/text.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "librados.so.2"

static struct rados_api api;
static bool loaded;
static char problem[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Never unloaded: threads of it may outlive the last handle. */
static void load(void)
{
	static const struct {
		const char *name;
		size_t      at;
	} rows[] = {
#define RADOS_ROW(f) { "rados_" #f, offsetof(struct rados_api, f) },
		RADOS_FUNCTIONS(RADOS_ROW)
#undef RADOS_ROW
	};
	void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		(void)snprintf(problem, sizeof(problem), "%s", dlerror());
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		void *f = dlsym(lib, rows[i].name);

		if (!f) {
			(void)snprintf(problem, sizeof(problem), "%s has no %s: too old", LIBRARY,
				       rows[i].name);
			return;
		}
		memcpy((char *)&api + rows[i].at, &f, sizeof(f));
	}
	loaded = true;
}

const struct rados_api *rados_api(struct text *why)
{
	(void)pthread_once(&once, load);
	if (loaded)
		return &api;
	text_fmt(why, "targets on RADOS need %s, package librados2 (%s)", LIBRARY, problem);
	return NULL;
}
#endif
