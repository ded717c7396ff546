#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sweeps: every cell has its row, contents are compared, nothing is left behind, bad arguments are told.
. tests/mount/cli.bash
t=$TESSERA
small=(--min-size 2 --max-size 8k --time 10ms --space 1M)
dir=$TESS_TMP/dir
mkdir "$dir"

rows() { # WANT FILE
	[ "$(($(wc -l <"$2") - 1))" = "$1" ]
}
no_zero_rows() { # FILE: each row counts operations, and bytes as size times operations
	awk -F, 'NR > 1 && ($6 < 1 || $7 != $5 * $6 || $8 <= 0 || $11 > $12) { exit 1 }' "$1"
}
nothing_in() { [ -z "$(ls -A "$1")" ]; }

# 13 sizes, two rank counts, two modes, three ops.
ok 'mem' "$t" bench store mem: "${small[@]}" --ranks 1,3 --csv "$TESS_TMP/mem.csv" --svg "$TESS_TMP/mem.svg"
ok 'mem: a row for each cell' rows $((13 * 2 * 2 * 3)) "$TESS_TMP/mem.csv"
ok 'mem: rows add up' no_zero_rows "$TESS_TMP/mem.csv"
ok 'mem: a plot' grep -q '</svg>' "$TESS_TMP/mem.svg"
ok 'kv in a directory' "$t" bench store "kv:$dir?size=64M" "${small[@]}" --min-size 4k --ranks 2 \
	--csv "$TESS_TMP/kv.csv"
ok 'kv: a row for each cell' rows $((2 * 2 * 3)) "$TESS_TMP/kv.csv"
ok 'kv: nothing left' nothing_in "$dir"
ok 'kv: a file by name' "$t" bench store "kv:$dir/k?size=64M" "${small[@]}" --min-size 8k --ranks 1
ok 'kv: and its index is gone' nothing_in "$dir"
ok 'processes' "$t" bench store "kv:$dir?size=64M" "${small[@]}" --min-size 4k --ranks 2 --processes \
	--csv "$TESS_TMP/p.csv"
ok 'processes: a row for each cell' rows $((2 * 2 * 3)) "$TESS_TMP/p.csv"
ok 'processes: nothing left' nothing_in "$dir"
json 'len(v) == 2 and len(v[1]["rows"]) == 2 and v[0]["rows"][0]["op"] == "get"' "$t" bench store mem: \
	"mem:?latency=1us" "${small[@]}" --min-size 8k --ops get --ranks 1 --json
shows '^get +async +2 +8192 ' "$t" bench store mem: "${small[@]}" --ranks 2 --repeat 3 --depth 4
shows 'left out: 2 cells' "$t" bench store mem: --max-size 8 --min-size 8 --space 15 --ranks 1,2 --time 1ms

# Through a mount; without FUSE any directory is as good for what is tested here.
if [ -w /dev/fuse ]; then
	mkdir "$mnt"
	ok 'mkfs' "$t" mkfs "$fs"
	ok 'mount' "$t" mount "$fs" "$mnt"
	trap '"$t" umount "$mnt" >/dev/null 2>&1 || umount -l "$mnt" 2>/dev/null' EXIT
else
	mnt=$dir
fi
for how in '' --processes; do
	# shellcheck disable=SC2086
	ok "mount $how" "$t" bench store --mount "$mnt" "${small[@]}" --min-size 4k --ranks 1,2 --depth 3 $how \
		--csv "$TESS_TMP/m.csv"
	ok "mount $how: a row for each cell" rows $((2 * 2 * 2 * 3)) "$TESS_TMP/m.csv"
	ok "mount $how: rows add up" no_zero_rows "$TESS_TMP/m.csv"
	ok "mount $how: nothing left" nothing_in "$mnt"
done

# What a store spoils is told, and nothing is left then either.
spoilt() { # PATTERN FAULT OPTION…
	local pattern=$1 fault=$2
	shift 2
	says 1 "$pattern" "$t" bench store "kv:$dir?size=64M&fault=$fault" "${small[@]}" --min-size 8k --ranks 2 "$@"
	ok "$fault: nothing left" nothing_in "$dir"
}
spoilt 'get of 8192 bytes, "[0-9a-f.]+": Input/output' get:nth=3:EIO
spoilt 'get of 8192 bytes, "[0-9a-f.]+": other bytes' get:nth=3:corrupt
spoilt 'put of 8192 bytes' put:nth=2:EIO
spoilt 'delete of 8192 bytes' del:nth=2:EIO
spoilt 'a rank died' put:nth=5:kill --processes
ok 'not compared' "$t" bench store "kv:$dir?size=64M&fault=get:nth=3:corrupt" "${small[@]}" --min-size 8k \
	--ranks 2 --no-verify

interrupt() { # SIGNAL ARGUMENT…: starts, waits until it works, ends it
	local sig=$1 pid n=0
	shift
	"$t" bench store "$@" --time 60s --ranks 2 --min-size 4k --max-size 4k >/dev/null 2>"$TESS_TMP/err" &
	pid=$!
	while nothing_in "$where" && [ $n -lt 200 ]; do
		sleep 0.05
		n=$((n + 1))
	done
	sleep 0.3
	kill -"$sig" $pid
	wait $pid
	[ $? = 1 ] && grep -q interrupted "$TESS_TMP/err" && nothing_in "$where"
}
# A background job of a script ignores SIGINT unless it is taught not to.
where=$dir
ok 'interrupted' interrupt TERM "kv:$dir?size=64M&latency=20ms"
ok 'interrupted, slow' interrupt TERM "kv:$dir?size=64M&latency=1s"
ok 'interrupted processes' interrupt TERM "kv:$dir?size=64M&latency=20ms" --processes
where=$mnt
ok 'interrupted mount' interrupt INT --mount "$mnt"

# Places that hold something are not touched.
echo precious >"$dir/file"
says 1 'not empty' "$t" bench store "kv:$dir/file" "${small[@]}"
ok 'it is as it was' grep -qx precious "$dir/file"
ok 'a target' "$t" mkfs "$TESS_TMP/fs2" -t "kv:$dir/t?size=64M"
says 1 'already a target' "$t" bench store "kv:$dir/t" "${small[@]}"
ok 'it is still one' "$t" fsck "$TESS_TMP/fs2"

says 1 'does not see' "$t" bench store mem: --processes
says 1 'unknown store' "$t" bench store nosuch:x
says 1 'No such file' "$t" bench store --mount "$TESS_TMP/none"
says 1 'No such file' "$t" bench store mem: --csv "$TESS_TMP/none/x"
says 2 'missing' "$t" bench
says 2 'missing' "$t" bench store
says 2 'only store' "$t" bench shop mem:
says 2 'ranks' "$t" bench store mem: --ranks 1,0
says 2 'put, get, delete' "$t" bench store mem: --ops put,list
says 2 'sync, async' "$t" bench store mem: --modes later
says 2 'larger than' "$t" bench store mem: --min-size 2M --max-size 1M
says 2 'max-size' "$t" bench store mem: --max-size 2G
says 2 'depth' "$t" bench store mem: --depth 0
says 2 'time' "$t" bench store mem: --time soon
says 2 'unknown option --frobnicate' "$t" bench store mem: --frobnicate
finish
