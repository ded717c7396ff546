#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Staging as a mode: where bytes are, when they move, and who waits for them.
. tests/mount/functions.bash
# Bytes of a file in a state.
bytes() {
	"$t" layout --json "$2" | python3 -c '
import json, sys
d = json.load(sys.stdin)
print(sum(e["length"] for e in d["extents"] if e.get("state") == sys.argv[1]))' "$1"
}
again() { # OPTIONS
	MOUNT_ARGS="-o $1"
	ok 'umount' "$t" umount "$mnt"
	remount
}
settles() { # WHAT WANTED COMMAND...: within 10 s
	local what=$1 want=$2 i got
	shift 2
	for i in $(seq 100); do
		got=$("$@")
		[ "$got" = "$want" ] && break
		sleep 0.1
	done
	equal "$what" "$want" "$got"
}
write() { dd if=/dev/urandom of="$1" bs=1M count="$2" conv=fsync 2>/dev/null; }

MOUNT_ARGS="-o drain=manual,fsync=local,staging-size=64M"
start
write "$mnt/a" 20
sleep 2.5
equal 'manual: staged, though idle' $((20 << 20)) "$(bytes staged "$mnt/a")"
sum=$(sha256sum <"$mnt/a")
ok 'wait-durable' "$t" wait-durable "$mnt/a" --timeout 30s
equal 'now on its target' $((20 << 20)) "$(bytes durable "$mnt/a")"
equal 'the same bytes' "$sum" "$(sha256sum <"$mnt/a")"
# The limit: more than fits goes through, since a full area drains in every mode.
write "$mnt/big" 100
ok 'more than the area holds' cmp "$mnt/big" "$mnt/big"
ok 'never more than its size is staged' test "$(bytes staged "$mnt/big")" -le $((64 << 20))
ok 'wait for a directory' "$t" wait-durable "$mnt"
equal 'all of it' 0 "$(bytes staged "$mnt/big")"
# Killed with staged bytes: nothing that was acknowledged is lost, and the next session drains it.
write "$mnt/k" 16
sum=$(sha256sum <"$mnt/k")
pid=$("$t" stats --config "$mnt" | sed -n 's/^pid=//p')
kill -9 "$pid"
umount -l "$mnt" 2>/dev/null || fusermount3 -uz "$mnt"
ok 'mounted again' "$t" mount "$fs" "$mnt" -o drain=manual,fsync=local
equal 'staged bytes of a killed daemon' "$sum" "$(sha256sum <"$mnt/k")"
settles 'adopted, and drained' 0 bytes staged "$mnt/k"
again "drain=close,fsync=local"
python3 -c '
import os, sys, time
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(f, os.urandom(9000000))
os.fsync(f)
time.sleep(3)' "$mnt/c" &
sleep 1.5
equal 'close: nothing moves while it is open' 0 "$(bytes durable "$mnt/c")"
wait $!
settles 'close moves it' 9000000 bytes durable "$mnt/c"
again "drain=idle,fsync=local,seal-idle=500ms"
write "$mnt/i" 9
settles 'idle moves it' $((9 << 20)) bytes durable "$mnt/i"
again "drain=manual,fsync=target"
write "$mnt/f" 9
equal 'fsync=target takes its file along' $((9 << 20)) "$(bytes durable "$mnt/f")"
stop
