/* SPDX-License-Identifier: Apache-2.0 */
#include "base/req.h"

#include "base/clock.h"
#include <string.h>

void req_begin(struct tess_req *r, const char *op)
{
	static atomic_uint_fast64_t last;

	memset(r, 0, sizeof(*r));
	r->id = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
	r->op = op;
	r->start = clock_now();
	r->deadline = CLOCK_NEVER;
	atomic_init(&r->cancelled, false);
}

bool req_expired(const struct tess_req *r)
{
	if (atomic_load_explicit(&r->cancelled, memory_order_relaxed))
		return true;
	return r->deadline != CLOCK_NEVER && clock_now() >= r->deadline;
}
