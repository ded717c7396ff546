#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The runner itself: what it counts as passed, failed and skipped, and that it cleans up.
set -u
t=$TESS_TMP/cases
mkdir -p "$t" "$TESS_TMP/build"
case_of() {
	cat >"$t/$1"
	chmod +x "$t/$1"
}
case_of pass.sh <<<$'#!/bin/sh\necho all is well'
case_of fail.sh <<<$'#!/bin/sh\nexit 3'
case_of skip.sh <<<$'#!/bin/sh\necho no such device\nexit 77'
case_of check_good <<<$'#!/bin/sh\necho "100%: Checks: 7, Failures: 0, Errors: 0"'
case_of check_bad <<<$'#!/bin/sh\necho "50%: Checks: 4, Failures: 1, Errors: 1"\nexit 1'
case_of check_two <<<$'#!/bin/sh\necho "100%: Checks: 2, Failures: 0, Errors: 0"\necho "100%: Checks: 3, Failures: 0, Errors: 0"'
case_of leaks <<<$'#!/bin/sh\necho "100%: Checks: 2, Failures: 0, Errors: 0"\nexit 23'
case_of counts.sh <<<$'#!/bin/sh\necho noise\necho "10 passed, 2 failed, 1 skipped"\nexit 1'
case_of silent.sh <<<$'#!/bin/sh\necho "4 passed, 1 failed"'
case_of tmp.sh <<<$'#!/bin/sh\n[ -d "$TESS_TMP" ] && [ -z "$(ls -A "$TESS_TMP")" ] && echo "$TESS_TMP" >'"$TESS_TMP/where"$' && touch "$TESS_TMP/x"'

bad=0
expect() { # closing line, exit code, tests…
	local want=$1 code=$2 got rc
	shift 2
	got=$(BUILD=$TESS_TMP/build TESTS='' tests/run unit: "$@" 2>&1)
	rc=$?
	[ "$(tail -n 1 <<<"$got")" = "$want" ] && [ $rc = "$code" ] && return
	echo "$*: wanted \"$want\" and exit $code, got exit $rc and"
	echo "$got"
	bad=1
}
expect '1 passed, 0 failed, 0 skipped' 0 "$t/pass.sh"
expect '0 passed, 1 failed, 0 skipped' 1 "$t/fail.sh"
expect '0 passed, 0 failed, 1 skipped' 0 "$t/skip.sh"
expect '7 passed, 0 failed, 0 skipped' 0 "$t/check_good"
expect '2 passed, 2 failed, 0 skipped' 1 "$t/check_bad"
expect '5 passed, 0 failed, 0 skipped' 0 "$t/check_two"
expect '2 passed, 1 failed, 0 skipped' 1 "$t/leaks"
expect '10 passed, 2 failed, 1 skipped' 1 "$t/counts.sh"
expect '4 passed, 1 failed, 0 skipped' 1 "$t/silent.sh"
expect '0 passed, 1 failed, 0 skipped' 1 "$t/absent"
expect '8 passed, 1 failed, 1 skipped' 1 "$t/pass.sh" "$t/fail.sh" "$t/skip.sh" "$t/check_good"
expect '1 passed, 0 failed, 0 skipped' 0 "$t/tmp.sh"
[ ! -e "$(cat "$TESS_TMP/where")" ] || { echo 'the directory of a test was left behind'; bad=1; }
exit $bad
