/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PATH_H
#define BASE_PATH_H
/*
 * Paths that are used again later. A daemon leaves the directory it was started in, so that a relative
 * one has to be made absolute when it is taken.
 */

/* A copy of `path`, below the working directory unless it is absolute. free()d. -ENOMEM, or of getcwd(). */
int path_absolute(const char *path, char **ret);
#endif
