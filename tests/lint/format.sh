#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Spacing that does not depend on a formatter's taste: tabs for indentation, no space before a tab,
# a newline at the end of every file.
set -u
bad=0
for f in src/*/*.[ch] include/tessera/*.h mappers/*.c tools/*.[ch] tests/*/*.[ch] bench/*.[ch]; do
	[ -f "$f" ] || continue
	[ -z "$(tail -c 1 "$f")" ] || { echo "$f: no newline at its end"; bad=1; }
	grep -nHE '^ {8}|^ +	' "$f" && bad=1
done
exit $bad
