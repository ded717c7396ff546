#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who may include whom. A layer sees itself and what is listed; <tessera/…> is open to all, and the
# only thing that a mapper sees.
set -u

allowed() {
	case $1 in
	base) echo base ;;
	store | oclass | map | meta) echo "$1 base" ;;
	io) echo io store oclass map meta base ;;
	fs) echo fs io oclass map meta base ;; # never store: data goes through io
	admin) echo admin fs io store oclass map meta base ;;
	mount) echo mount admin fs io store oclass map meta base ;;
	fuse) echo fuse mount fs base ;;
	tools) echo fuse mount admin base ;;
	mappers) echo ;;
	esac
}

# Prints the offending lines of the tree at $1; fails when there are any.
check() {
	local root=$1 dir layer f line want bad=0
	for dir in "$root"/src/*/ "$root/tools/" "$root/mappers/"; do
		[ -d "$dir" ] || continue
		layer=$(basename "$dir")
		want=" $(allowed "$layer") "
		while IFS=: read -r f line; do
			case $line in
			*\<tessera/*) continue ;;
			*\"tests/* | *\"../*) ;;
			*\"*/*\"*)
				line=${line#*\"}
				case $want in *" ${line%%/*} "*) continue ;; esac
				;;
			*\"*\"*) [ "$layer" != mappers ] && [ "$layer" != tools ] || continue ;;
			*) continue ;;
			esac
			echo "${f#"$root"/}: $layer may not include $line"
			bad=1
		done < <(grep -H -E '^[[:space:]]*#[[:space:]]*include' "$dir"*.[ch] 2>/dev/null | sed 's/:[[:space:]]*#/:#/')
	done
	return $bad
}

# A lint that finds nothing proves nothing until it has found what was planted.
plant() {
	local tmp=$1 at=$2 what=$3
	rm -rf "$tmp" && mkdir -p "$tmp/src/base" "$tmp/src/meta" "$tmp/src/fs" "$tmp/mappers" "$tmp/tools"
	printf '#include "base/err.h"\n#include <tessera/types.h>\n' >"$tmp/src/meta/good.c"
	check "$tmp" >/dev/null || { echo "layers: a clean tree is refused"; return 1; }
	echo "$what" >"$tmp/$at"
	! check "$tmp" >/dev/null || { echo "layers: $what in $at is not noticed"; return 1; }
}
tmp=${TESS_TMP:-$(mktemp -d)}/planted
plant "$tmp" src/meta/bad.c '#include "io/io.h"' || exit 1
plant "$tmp" src/fs/bad.h '  # include "store/store.h"' || exit 1
plant "$tmp" src/base/bad.c '#include "meta/meta.h"' || exit 1
plant "$tmp" mappers/bad.c '#include "base/err.h"' || exit 1
plant "$tmp" src/meta/bad.c '#include "../io/io.h"' || exit 1
rm -rf "$tmp"
check .
