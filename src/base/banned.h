/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H
/*
 * Included before everything else by the build. These functions cannot be used safely, or cannot
 * report an error; naming one is a compile error. The headers that declare them come first, because
 * a poisoned name may not even be declared.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat strtok sprintf vsprintf gets atoi
#endif
