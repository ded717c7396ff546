#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tiers: where segments are written, where they come to rest, and what is readable in between.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
# The tiers that hold a file's objects; "staged" is one as well.
tiers() {
	"$t" layout --json "$1" | grep -oE '"(tier":"[a-z]+|state":"staged)"' | cut -d'"' -f4 | sort -u | paste -sd' '
}
settles() { # WHAT WANTED COMMAND…: within 20 s
	local what=$1 want=$2 i got
	shift 2
	for i in $(seq 200); do
		got=$("$@")
		[ "$got" = "$want" ] && break
		sleep 0.1
	done
	equal "$what" "$want" "$got"
}
again() { # OPTIONS
	MOUNT_ARGS="-o $1"
	ok 'umount' "$t" umount "$mnt"
	remount
}
kill_daemon() {
	kill -9 "$("$t" stats --config "$mnt" | sed -n 's/^pid=//p')"
	umount -l "$mnt" 2>/dev/null || fusermount3 -uz "$mnt"
}
write() { dd if=/dev/urandom of="$1" bs=1M count="$2" conv=fsync 2>/dev/null; }
both='write-tier=fast,rest-tier=cap'

MKFS_ARGS="-z 1M -t kv:$TESS_TMP/fast?size=64M&tier=fast -t kv:$TESS_TMP/cap?size=512M&tier=cap"
MOUNT_ARGS="-o $both,drain=manual"
# shellcheck disable=SC2086
ok 'mkfs' "$t" mkfs "$fs" $MKFS_ARGS
says 1 'write-tier=quick: no target is of that tier; there are: fast, cap' \
	"$t" mount "$fs" "$mnt" -o write-tier=quick
says 1 'rest-tier=.*no target' "$t" mount "$fs" "$mnt" -o rest-tier=
# shellcheck disable=SC2086
ok 'a wide class' "$t" mkfs "$TESS_TMP/wide" -c S2 -t "kv:$TESS_TMP/w0?size=64M&tier=fast" \
	-t "kv:$TESS_TMP/w1?size=64M&tier=cap"
says 1 'rest-tier=cap: object class S2 needs 2 targets, there is 1 in that tier' \
	"$t" mount "$TESS_TMP/wide" "$mnt" -o rest-tier=cap
remount

write "$mnt/a" 4
ok 'flush' "$t" flush "$mnt"
equal 'manual: written to the fast tier' fast "$(tiers "$mnt/a")"
shows '0:[0-9a-f]{16}\.00 \(fast\)' "$t" layout "$mnt/a"
sum=$(sha256sum <"$mnt/a")
ok 'flush --rest' "$t" flush --rest "$mnt"
equal 'at rest' cap "$(tiers "$mnt/a")"
equal 'the same bytes' "$sum" "$(sha256sum <"$mnt/a")"
ok 'they are counted' test "$(stat_of io.move.segments)" -ge 1
equal 'none waits' 0 "$(stat_of io.move.waiting)"
# More than the fast tier takes goes to the other one at once.
write "$mnt/big" 80
ok 'flush' "$t" flush "$mnt"
equal 'spilled' 'cap fast' "$(tiers "$mnt/big")"
sum2=$(sha256sum <"$mnt/big")
ok 'flush --rest' "$t" flush --rest "$mnt"
equal 'all of it at rest' cap "$(tiers "$mnt/big")"
equal 'and the same' "$sum2" "$(sha256sum <"$mnt/big")"
rm "$mnt/big"
# umount waits for no move, the next mount goes on.
write "$mnt/u" 4
again "$both,drain=eager"
settles 'the next mount moves it' cap tiers "$mnt/u"
write "$mnt/e" 4
settles 'eager' cap tiers "$mnt/e"
again "$both,drain=close"
python3 -c '
import os, sys, time
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(f, os.urandom(4 << 20))
os.fsync(f)
time.sleep(1.5)' "$mnt/c" &
sleep 1
ok 'close: not while it is open' test "$(tiers "$mnt/c")" != cap
wait $!
settles 'close moves it' cap tiers "$mnt/c"
again "$both,drain=idle,seal-idle=500ms"
write "$mnt/i" 4
settles 'idle moves it' cap tiers "$mnt/i"

# Killed in the middle of a move: every byte is there, and nothing is left over.
for point in move.end move.ended; do
	again "$both,drain=manual"
	write "$mnt/k" 4
	sum=$(sha256sum <"$mnt/k")
	ok 'flush' "$t" flush "$mnt"
	"$t" stats "$mnt" --faults "$point@2=kill" >/dev/null
	fails "killed at $point" "$t" flush --rest "$mnt"
	umount -l "$mnt" 2>/dev/null || fusermount3 -uz "$mnt"
	remount
	equal "$point: the bytes of a killed daemon" "$sum" "$(sha256sum <"$mnt/k")"
	wait_for 20 "$t" flush --rest "$mnt"
	equal "$point: at rest in the end" cap "$(tiers "$mnt/k")"
	equal "$point: and the same" "$sum" "$(sha256sum <"$mnt/k")"
done
again "$both,drain=manual,commit-interval=100ms"
ok 'gc' "$t" gc "$fs" --delete
left() { "$t" gc "$fs" --json | grep -oE '"(garbage|orphan)_objects":[0-9]+' | cut -d: -f2 | paste -sd+; }
settles 'nothing is left for gc' 0+0 left

# Killed at some moment, with many under way.
again "$both,drain=eager,commit-interval=100ms"
for i in 1 2 3 4; do write "$mnt/m$i" 4; done
sums=$(cat "$mnt"/m? | sha256sum)
kill_daemon
remount
equal 'killed while moving' "$sums" "$(cat "$mnt"/m? | sha256sum)"
for i in 1 2 3 4; do settles "m$i comes to rest" cap tiers "$mnt/m$i"; done

# A reader on another mount, while segments move and the old ones are deleted.
again "$both,drain=manual,commit-interval=100ms"
write "$mnt/r" 8
sum=$(sha256sum <"$mnt/r")
ok 'a second mount' "$t" mount "$fs" "$mnt2" -o "$both,cache-size=64M"
ok 'flush' "$t" flush "$mnt"
equal 'fast' fast "$(tiers "$mnt/r")"
python3 - "$mnt2/r" "$TESS_TMP/stop" "$sum" >"$TESS_TMP/reader" <<'P' &
import hashlib, os, sys
path, stop, want = sys.argv[1:]
f = os.open(path, os.O_RDONLY)
bad = n = 0
while not os.path.exists(stop) or n < 2:
    os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
    h = hashlib.sha256()
    for at in range(0, 8 << 20, 1 << 18):
        h.update(os.pread(f, 1 << 18, at))
    bad += h.hexdigest() + "  -" != want
    n += 1
print("bad", bad)
P
reader=$!
ok 'flush --rest' "$t" flush --rest "$mnt"
equal 'moved under the reader' cap "$(tiers "$mnt/r")"
sleep 1
touch "$TESS_TMP/stop"
wait $reader
equal 'the reader of the other mount' 'bad 0' "$(cat "$TESS_TMP/reader")"
# What the other mount wrote is its own to move.
write "$mnt2/o" 4
ok 'flush the other' "$t" flush "$mnt2"
equal 'at rest on its own account' 0 "$("$t" flush --rest "$mnt2" >/dev/null 2>&1; echo $?)"
ok 'umount the second' "$t" umount "$mnt2"
stop
