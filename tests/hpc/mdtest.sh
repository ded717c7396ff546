#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mdtest easy (empty files, a directory per rank) and hard (3,901-byte files in one directory, read
# back and verified). It comes with IOR; used where it is installed.
. "$(dirname "$0")/common"
command -v mdtest >/dev/null || skip 'mdtest is not on the PATH'

run() { # text mdtest-options…
	local text=$1
	shift
	check "$text" mpiexec "${mpi_args[@]}" -n 2 mdtest "$@" -d "$mnt/mdtest" || return
	! grep -iE 'error|failed' "$TESS_TMP/out" || bad=1
}

make_fs
run 'easy' -n 500 -u -L -F
run 'directories' -n 300 -u -D
run 'hard' -n 300 -t -F -w 3901 -e 3901 -X
run 'tree' -I 5 -z 3 -b 3
drop_fs
exit $bad
