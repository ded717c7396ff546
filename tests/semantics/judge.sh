#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The judge of the litmus programs finds what is wrong: mounts of one mode, judged by a stricter one.
set -u
passed=0 failed=0
[ -w /dev/fuse ] || { echo 'no /dev/fuse'; exit 77; }
finds() { # JUDGED MOUNTED PROGRAM
	local out
	out=$(RUNS=10 PLACES=c MODES=$1 MOUNT_AS=mode=$2 FILTER=$3 TESS_TMP=$(mktemp -d "$TESS_TMP/XXXXXX") \
		"$TESS_PROGS/semantics/check_litmus" 2>&1)
	if [ $? = 1 ] && grep -q "^FAILED: $1 c $3:" <<<"$out"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $3 on a mount with mode=$2 passes for $1:"
		tail -n 5 <<<"$out"
	fi
}
finds strict session write-read
finds strict commit write-open
finds strict lazy unlink
finds commit session write-fsync-read
finds session lazy negative
finds session laminate new-file
finds session private lock-sees
finds private session write-close-open
finds laminate session laminate-immutable
finds session session,meta=relaxed rename
finds session session,meta=relaxed negative
finds session session,meta=relaxed rename-ctime
finds session session,dentry-time=1h rename-dir
finds session+attr-time session,dentry-time=1h rename
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
