/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CUT_INT_H
#define TEST_CUT_INT_H
/* Between cut_state.c and cut_build.c. */
#include "cut_state.h"

void *cut_alloc(size_t n);
bool cut_is_name(const struct cut_event *e);
void cut_decide(struct cut_log *l, const struct cut_choice *c); /* durable, kept, torn */
#endif
