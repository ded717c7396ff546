#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every header compiles alone, without warnings, under each compiler that is here, and may be included twice.
set -u
: "${LINT_CFLAGS:=-std=gnu11 -D_GNU_SOURCE -Isrc -Iinclude -I/usr/include/fuse3}"
warn="-Wall -Wextra -Wshadow -Wstrict-prototypes -Wpointer-arith -Wwrite-strings -Wno-unused-function -Werror"
bad=0
for cc in gcc clang; do
	command -v $cc >/dev/null || { echo "$cc is not here: skipped"; continue; }
	for h in src/*/*.h include/tessera/*.h; do
		case $h in */banned.h) continue ;; esac
		# shellcheck disable=SC2086
		printf '#include "%s"\n#include "%s"\nextern int unit_is_not_empty;\n' "$PWD/$h" "$PWD/$h" |
			$cc $LINT_CFLAGS $warn -fsyntax-only -x c - || { echo "$h does not compile alone with $cc"; bad=1; }
	done
done
exit $bad
