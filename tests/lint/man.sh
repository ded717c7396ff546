#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Man pages are well-formed; every command has one or is in tessera(8); every option row is described.
set -u
bad=0
say() {
	echo "$1"
	bad=1
}
pages=$(ls man/*.[1-9] 2>/dev/null)
[ -n "$pages" ] || { echo 'there are no man pages yet'; exit 77; }
if command -v mandoc >/dev/null; then
	# shellcheck disable=SC2086
	out=$(mandoc -Tlint -Wwarning $pages 2>&1) || true
	[ -z "$out" ] || say "$out"
else
	echo 'mandoc is not here: pages were not linted'
fi
for c in $(sed -n '/^const struct tool_cmd cmd_/,/^};/s/^[[:space:]]*\.name = "\([a-z]*\)".*/\1/p' tools/*.c); do
	[ -f "man/tessera-$c.8" ] || grep -qw -- "$c" man/tessera.8 || say "command $c has no man page"
done
# A row begins { "name", TESS_OPT_TYPE in whatever table.
rows=$(grep -rhoE '\{[[:space:]]*(\.name = )?"[a-z0-9_-]+",[[:space:]]*(\.type = )?TESS_OPT_[A-Z]+' src mappers tools |
	sed 's/^[^"]*"\([^"]*\)".*/\1/' | sort -u)
for o in $rows; do
	# mdoc and man markup may escape the hyphens.
	# shellcheck disable=SC2086
	sed 's/\\-/-/g' $pages | grep -qwE -- "$o" || say "option $o is in no man page"
done
exit $bad
