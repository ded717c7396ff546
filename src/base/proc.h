/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROC_H
#define BASE_PROC_H
/*
 * Other processes, by number. A number comes again: the time a process started tells it from a later one.
 */
#include <stdint.h>

/*
 * When process `pid` started, in ticks since boot: 0, or -ESRCH when there is none, or only its corpse.
 * Other errors say nothing of it (we have too many files open, /proc hides it from us): who means to take
 * what was its own must let it live.
 */
int proc_start(uint32_t pid, uint64_t *ret);
/* The same; *ret_state: 'R', 'S', 'T', … of proc(5). */
int proc_look(uint32_t pid, uint64_t *ret_start, char *ret_state);
#endif
