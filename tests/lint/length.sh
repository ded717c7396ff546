#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No function is longer than 100 lines and no file than 1000, nor has a function more than 8 parameters
# (those of src/fuse are libfuse's).
set -u
bad=0
files=$(ls src/*/*.[ch] include/tessera/*.h mappers/*.c tools/*.c tests/*/*.[ch] bench/*.[ch] 2>/dev/null)
for f in $files; do
	n=$(wc -l <"$f")
	[ "$n" -le 1000 ] || { echo "$f: $n lines, more than 1000"; bad=1; }
	long=$(awk -v f="$f" 'length($0) > 120 { print f ":" FNR ": longer than 120 characters" }' "$f")
	[ -z "$long" ] || { echo "$long"; bad=1; }
done
if ! ctags --version 2>/dev/null | grep -q 'Universal'; then
	echo 'universal-ctags is not here: functions were not measured'
	exit $((bad ? 1 : 77))
fi
# shellcheck disable=SC2086
long=$(ctags -x --languages=C --kinds-C=f --fields=+neS --_xformat='%{line} %{end} %{input} %{name} %{signature}' $files |
	awk '{ n = $2 - $1 + 1; p = gsub(/,/, ","); }
	     n > 100 { print $3 ": " $4 "() has " n " lines, more than 100" }
	     p > 7 && $3 !~ /^src.fuse/ && $0 !~ /\(\*/ { print $3 ": " $4 "() has " p + 1 " parameters, more than 8" }')
[ -z "$long" ] || { echo "$long"; bad=1; }
exit $bad
