#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ranks write a file each, parts of one file, and records of one file in turn, and compare what
# another wrote; on one target and striped over two; more ranks than processors; odd record sizes.
. "$(dirname "$0")/common"
mpi_rw=$TESS_PROGS/hpc/mpi_rw
[ -x "$mpi_rw" ] || skip 'mpi_rw is not built: no MPI compiler'

run() { # ranks options…
	local n=$1
	shift
	check "$n ranks $*" mpiexec "${mpi_args[@]}" -n "$n" "$mpi_rw" "$@" "$mnt"
}

make_fs
for mode in each blocks strided; do
	run 2 -m $mode
	run 2 -m $mode -s
done
run 4 -m strided -r 4096 -n 200
run 3 -m strided -r 1 -n 1000
run 2 -m strided -r 1048577 -n 10
run 2 -m blocks -r 47008 -n 1000
[ -z "$(ls -A "$mnt")" ] || { echo "FAILED: left behind: $(ls -A "$mnt")"; bad=1; }
drop_fs

make_fs --target "kv:$TESS_TMP/t0" --target "kv:$TESS_TMP/t1" -c S2
for mode in each strided; do run 2 -m $mode; done
drop_fs
exit $bad
