# SPDX-License-Identifier: Apache-2.0
# For the cases cli-*.sh: a file system, its mount, and promises that are counted. Sourced.
set -u
[ -x "$TESSERA" ] || { echo 'no tessera program'; exit 77; }
fs=$TESS_TMP/fs mnt=$TESS_TMP/mnt
passed=0 failed=0

need_fuse() {
	[ -w /dev/fuse ] || { echo 'no /dev/fuse'; exit 77; }
	mkdir -p "$mnt"
}

# ok TEXT COMMAND…: the command succeeds.
ok() {
	local text=$1
	shift
	if "$@" >"$TESS_TMP/out" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $text: $* (exit $?)"
		tail -n 5 "$TESS_TMP/out"
	fi
}

# says CODE PATTERN COMMAND…: it exits with CODE and says one line on stderr that matches PATTERN.
says() {
	local want=$1 pattern=$2 rc
	shift 2
	"$@" >"$TESS_TMP/out" 2>"$TESS_TMP/err"
	rc=$?
	if [ $rc = "$want" ] && [ "$(wc -l <"$TESS_TMP/err")" = 1 ] && grep -qE -- "$pattern" "$TESS_TMP/err"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $*: exit $rc, not $want; or not one line like '$pattern':"
		cat "$TESS_TMP/err"
	fi
}

# shows PATTERN COMMAND…: it succeeds and its output has a line that matches.
shows() {
	local pattern=$1
	shift
	if "$@" >"$TESS_TMP/out" 2>&1 && grep -qE -- "$pattern" "$TESS_TMP/out"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $*: no line like '$pattern':"
		tail -n 5 "$TESS_TMP/out"
	fi
}

# json COMMAND…: its output is JSON. EXPR, in python over the value v, is true.
json() {
	local expr=$1
	shift
	if "$@" >"$TESS_TMP/out" 2>"$TESS_TMP/err" && python3 -c "
import json, sys
v = json.load(open('$TESS_TMP/out'))
sys.exit(0 if ($expr) else 1)" 2>>"$TESS_TMP/out"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $*: not JSON with $expr:"
		tail -n 5 "$TESS_TMP/out"
	fi
}

finish() {
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ]
	exit
}
