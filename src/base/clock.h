/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H
/* Time in ns. Tests replace both clocks with clock_fake(). */
#include <stdint.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)
#define CLOCK_NEVER INT64_MAX

int64_t clock_now(void);	/* CLOCK_MONOTONIC: deadlines, latencies */
int64_t clock_now_coarse(void);	/* the same, some ms late: a vDSO read */
int64_t clock_wall(void);	/* CLOCK_REALTIME: what goes into inodes. Never a correctness input */
int64_t clock_wall_coarse(void);/* CLOCK_REALTIME_COARSE: a vDSO read; for mtime on the write path */
void    clock_fake(int64_t now, int64_t wall);	/* tests; both negative: the real clocks again */
void    clock_sleep(int64_t ns);
/* Full-jitter exponential back-off: uniform in [0, min(cap, base << attempt)], ns. */
int64_t clock_backoff(unsigned attempt, int64_t base, int64_t cap);
#endif
