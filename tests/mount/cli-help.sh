#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every command explains itself and has a page; every mount option is described with its default.
. tests/mount/cli.bash
t=$TESSERA

says 2 "no command 'frobnicate'" "$t" frobnicate
shows 'mkfs' "$t" help
shows 'mkfs' "$t" --help
shows '^tessera [0-9]' "$t" version
shows '^libfuse [0-9]' "$t" version
for c in $("$t" help | awk '/^  [a-z]/ { print $1 }'); do
	shows "usage: tessera $c" "$t" "$c" --help
	case $c in version | help) continue ;; esac
	ok "man page of $c" test -f "man/tessera-$c.8"
	# Each long option of the help is in the page, written --name.
	for o in $("$t" "$c" --help | grep -oE '^  .{3} --[a-z-]+' | grep -oE '[a-z][a-z-]+$'); do
		ok "$c --$o is described" grep -qE -- "Fl .*\\\\-$o\b" "man/tessera-$c.8"
	done
done
"$t" mount --list-options >"$TESS_TMP/options"
ok 'there are mount options' test "$(wc -l <"$TESS_TMP/options")" -gt 10
while IFS=$'\t' read -r name type default help; do
	ok "$name is described" grep -qE "^\.It Cm $name(=|\$)" man/mount.tessera.8
	ok "$name has help" test -n "$help"
done <"$TESS_TMP/options"
# … and nothing else is.
for o in $(sed -n '/^\.Sh OPTIONS/,/^\.El/s/^\.It Cm \([a-z_-]*\).*/\1/p' man/mount.tessera.8); do
	ok "mount option $o exists" grep -qP "^$o\t" "$TESS_TMP/options"
done
shows '^S1 ' "$t" class list
json 'any(c["class"] == "SX" and c["usable"] for c in v)' "$t" class list --json
shows '^balanced ' "$t" mapper list
json 'any(m["mapper"] == "write-optimized" for m in v)' "$t" mapper list --json
says 2 'only list' "$t" class frobnicate
says 2 'missing' "$t" layout
says 2 'unknown option' "$t" layout --frobnicate x
says 1 'not on a mounted Tessera' "$t" layout /
says 1 'not on a mounted Tessera' "$t" umount "$TESS_TMP"
says 1 'no daemon|not a Tessera|No such' "$t" stats "$TESS_TMP"
finish
