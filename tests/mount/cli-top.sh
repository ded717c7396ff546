#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tessera top: what happens in an interval is shown in it, with rates that fit what was done.
. tests/mount/functions.bash
MKFS_ARGS="-t kv:$TESS_TMP/kv?size=256M&latency=5ms"
start
work() { # two writes of 1 MiB, a read and an fsync, over and over
	while [ ! -e "$TESS_TMP/enough" ]; do
		dd if=/dev/zero of="$mnt/f" bs=1M count=2 conv=fsync,notrunc status=none
		stat "$mnt/f" >/dev/null
	done
}
work & worker=$!
ok 'three intervals, as objects' sh -c "'$t' top '$mnt' -n 3 --interval 300ms --json >'$TESS_TMP/top'"
equal 'a line each' 3 "$(wc -l <"$TESS_TMP/top")"
tail -n 1 "$TESS_TMP/top" >"$TESS_TMP/last"
json '0.25 < v["interval_s"] < 5 and v["time"] > 1.7e9' cat "$TESS_TMP/last"
json 'v["operations"]["write"]["per_s"] > 0 and v["operations"]["fsync"]["mean_us"] > 5000' cat "$TESS_TMP/last"
json 'v["operations"]["fsync"]["p50_us"] <= v["operations"]["fsync"]["p99_us"]' cat "$TESS_TMP/last"
# As many bytes go to the target as are written, but for what an interval cuts.
json '0 < v["bytes_per_s"]["written"] < 20 * v["targets"]["kv0"]["put_bytes_per_s"] + 2**24' cat "$TESS_TMP/last"
json '"inflight" in v["targets"]["kv0"] and v["targets"]["kv0"]["put"]["mean_us"] >= 5000' cat "$TESS_TMP/last"
shows '^  fsync  *[0-9]+ ' "$t" top "$mnt" -n 1 --interval 300ms
shows '^  kv0: [0-9]+ in flight' "$t" top "$fs" -n 1 --interval 50ms
ok 'no control characters but on a terminal' sh -c "! '$t' top '$mnt' -n 1 --interval 50ms | grep -q '\033'"
if command -v script >/dev/null; then
	ok 'on a terminal the screen is drawn anew' sh -c "script -qc \"'$t' top '$mnt' -n 1 --interval 50ms\" /dev/null | grep -q '\033.\[J\|\[J'"
fi
: >"$TESS_TMP/enough"
wait $worker
"$t" top "$mnt" -n 1 --interval 300ms --json >"$TESS_TMP/idle"
json 'v["operations"].get("write") is None and v["bytes_per_s"]["written"] == 0' cat "$TESS_TMP/idle"
says 2 'unknown option' "$t" top "$mnt" --frobnicate
says 2 'count' "$t" top "$mnt" -n x
says 1 'not a Tessera|no daemon|No such' "$t" top "$TESS_TMP"
# It ends with the daemon, and says so.
"$t" top "$mnt" --interval 50ms >/dev/null 2>"$TESS_TMP/err" & top=$!
sleep 0.3
ok 'umount' "$t" umount "$mnt"
ok 'it ends' wait_for 5 gone $top
wait $top
equal 'with a failure' 1 $?
equal 'of one line' 1 "$(wc -l <"$TESS_TMP/err")"
finish
