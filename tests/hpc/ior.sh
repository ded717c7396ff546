#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# IOR easy (file per process) and hard (47,008-byte records in one file): written, fsynced, checked
# after writing, read by another rank, checked. IOR is used where it is installed; it does not come
# with Tessera.
. "$(dirname "$0")/common"
command -v ior >/dev/null || skip 'ior is not on the PATH'

run() { # text ior-options…
	local text=$1
	shift
	check "$text" mpiexec "${mpi_args[@]}" -n 2 ior -a POSIX -w -r -W -R -C -e -k "$@" || return
	# Some versions count errors in a warning and still exit with 0.
	! grep -iE 'data check error|incorrect data|WARNING.*(mismatch|error)' "$TESS_TMP/out" || bad=1
	check "$text, clean up" rm -r "$mnt/ior"
	mkdir "$mnt/ior"
}

make_fs
mkdir "$mnt/ior"
run 'easy' -F -t 1m -b 64m -o "$mnt/ior/easy"
run 'hard' -t 47008 -b 47008 -s 1000 -o "$mnt/ior/hard"
run 'small transfers' -t 4k -b 4m -s 4 -o "$mnt/ior/small"
run 'random offsets' --random-offset-seed=7 -F -z -t 64k -b 16m -o "$mnt/ior/random"
drop_fs
exit $bad
