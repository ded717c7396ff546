#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Many processes create, rename, link and unlink in one directory; then what is there is what the
# survivors say, readdir gives each name once, and nothing else is left behind.
set -u
[ -x "$TESSERA" ] && [ -w /dev/fuse ] || { echo "no tessera program or no /dev/fuse"; exit 77; }
fs=$TESS_TMP/fs mnt=$TESS_TMP/mnt
mkdir -p "$mnt"
bad=0
wrong() { echo "FAILED: $*"; bad=$((bad + 1)); }

"$TESSERA" mkfs "$fs" && "$TESSERA" mount "$fs" "$mnt" || exit 1
d=$mnt/d
mkdir "$d"
worker() { # number: leaves 50 files kN.1 … kN.50
	local i
	for i in $(seq 50); do
		echo "$1.$i" >"$d/t$1.$i" || return 1
		ln "$d/t$1.$i" "$d/l$1.$i" || return 1
		mv "$d/t$1.$i" "$d/k$1.$i" || return 1
		# All fight for one name; whoever wins, it is whole.
		cp "$d/k$1.$i" "$d/x$1" && mv -f "$d/x$1" "$d/prize" || return 1
		mkdir "$d/m$1.$i" && rmdir "$d/m$1.$i" || return 1
		rm "$d/l$1.$i" || return 1
	done
}
pids=()
for w in 1 2 3 4 5 6; do worker $w & pids+=($!); done
while kill -0 "${pids[0]}" 2>/dev/null; do
	grep -qE '^[1-6]\.[0-9]+$' "$d/prize" 2>/dev/null || [ ! -e "$d/prize" ] || {
		p=$(cat "$d/prize" 2>&1)
		[[ $p =~ ^[1-6]\.[0-9]+$ ]] || wrong "the prize is '$p'"
	}
	ls "$d" | sort | uniq -d | grep -q . && wrong "readdir gives a name twice"
done
for p in "${pids[@]}"; do wait "$p" || wrong "a worker failed"; done
[ "$(ls "$d" | wc -l)" = 301 ] || wrong "$(ls "$d" | wc -l) names, should be 301"
for again in 1 2; do
	for w in 1 2 3 4 5 6; do
		for i in $(seq 50); do
			[ "$(cat "$d/k$w.$i")" = "$w.$i" ] || wrong "k$w.$i"
		done
	done
	[ $again = 2 ] && break
	"$TESSERA" umount "$mnt" || wrong umount
	"$TESSERA" mount "$fs" "$mnt" || exit 1
done
"$TESSERA" umount "$mnt" || wrong umount
"$TESSERA" fsck "$fs" || wrong fsck
echo "$((bad ? 0 : 1)) passed, $bad failed"
[ $bad = 0 ]
