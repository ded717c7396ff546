#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Several processes copy, pack, move, compare and delete trees at the same time, then once more after
# a remount; meanwhile others list and stat what comes and goes.
set -u
[ -x "$TESSERA" ] && [ -w /dev/fuse ] || { echo "no tessera program or no /dev/fuse"; exit 77; }
fs=$TESS_TMP/fs mnt=$TESS_TMP/mnt src=$TESS_TMP/src
mkdir -p "$mnt" "$src"
bad=0
check() { # text command…
	local text=$1
	shift
	"$@" >"$TESS_TMP/out.$BASHPID" 2>&1 || { echo "FAILED: $text: $*"; tail -n 5 "$TESS_TMP/out.$BASHPID"; return 1; }
}

cp -rL /usr/include/linux /usr/include/x86_64-linux-gnu/bits "$src"/ 2>/dev/null || cp -rL /usr/include/linux "$src"/
ln -s linux "$src/link"
mkfifo "$src/fifo"
touch -d '2001-02-03 04:05:06.789' "$src/old"
ln "$src/old" "$src/hard"
head -c 3000000 /dev/urandom >"$src/random"
truncate -s 5M "$src/sparse"

"$TESSERA" mkfs "$fs" && "$TESSERA" mount "$fs" "$mnt" || exit 1

worker() { # number
	local d=$mnt/w$1 bad=0
	mkdir "$d" || return 1
	check "copy" cp -a "$src" "$d/a" || bad=1
	check "compare" diff -r --no-dereference -x fifo "$src" "$d/a" || bad=1
	check "pack" tar -C "$d" -cf "$d/a.tar" a || bad=1
	mkdir "$d/b"
	check "unpack" tar -C "$d/b" -xf "$d/a.tar" || bad=1
	check "compare unpacked" diff -r --no-dereference -x fifo "$d/a" "$d/b/a" || bad=1
	check "rename" mv "$d/b/a" "$d/c" || bad=1
	check "delete" rm -r "$d/a" "$d/a.tar" || bad=1
	check "still there" diff -r --no-dereference -x fifo "$src" "$d/c" || bad=1
	[ "$(stat -c %h "$d/c/hard")" = 2 ] || { echo "FAILED: hard link"; bad=1; }
	return $bad
}
noise() {
	while [ ! -e "$TESS_TMP/stop" ]; do
		find "$mnt" -newermt 2000-01-01 -size +1k >/dev/null 2>&1
		ls -lR "$mnt" >/dev/null 2>&1
	done
}

noise & noise_pid=$!
pids=()
for i in 1 2 3; do worker $i & pids+=($!); done
for p in "${pids[@]}"; do wait "$p" || bad=$((bad + 1)); done
touch "$TESS_TMP/stop"
wait $noise_pid

check "umount" "$TESSERA" umount "$mnt" || bad=$((bad + 1))
check "fsck" "$TESSERA" fsck "$fs" || bad=$((bad + 1))
"$TESSERA" mount "$fs" "$mnt" || exit 1
for i in 1 2 3; do
	check "after remount" diff -r --no-dereference -x fifo "$src" "$mnt/w$i/c" || bad=$((bad + 1))
done
check "rm" rm -rf "$mnt"/w1 "$mnt"/w2 "$mnt"/w3 || bad=$((bad + 1))
[ -z "$(ls -A "$mnt")" ] || { echo "FAILED: something is left"; bad=$((bad + 1)); }
check "umount" "$TESSERA" umount "$mnt" || bad=$((bad + 1))
check "fsck --verify" "$TESSERA" fsck "$fs" --verify || bad=$((bad + 1))
echo "$((bad ? 0 : 1)) passed, $bad failed"
[ $bad = 0 ]
