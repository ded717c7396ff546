#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon is killed while it has the kernel drop a page that one of its own requests has locked: whoever
# waits there is told, and the next mount finds everything. Without its guard the kernel waits for ever.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
guards() { # of that daemon
	local p
	for p in /proc/[0-9]*; do
		[ "$(cat "$p/comm" 2>/dev/null)" = tessera-guard ] && [ "$(awk '{ print $4 }' "$p/stat" 2>/dev/null)" = "$1" ] && echo "${p#/proc/}"
	done
}
told() { # of the kernel's waits the thread is in
	local s
	for s in /proc/"$1"/task/*; do
		[ "$(cat "$s/comm" 2>/dev/null)" = notify ] && [ "$(awk '{ print $3 }' "$s/stat")" = D ] && return 0
	done
	return 1
}
waits() { [ "$(awk '{ print $3 }' "/proc/$1/stat" 2>/dev/null)" = D ]; }
start
head -c 1000000 /dev/urandom >"$TESS_TMP/data"
cp "$TESS_TMP/data" "$mnt/f"
first=$(daemons)
equal 'one guard' 1 "$(guards "$first" | wc -l)"
guard=$(guards "$first")
ok 'umount' "$t" umount "$mnt"
ok 'no guard outlives a daemon that ends' wait_for 3 gone "$guard"

MOUNT_ARGS='-o faults=store.get=delay:300s'
remount
pid=$(daemons)
guard=$(guards "$pid")
ok 'a second mount' "$t" mount "$fs" "$mnt2"
# Open here, read, changed by the other: who then takes a lock has the kernel drop the pages.
python3 - "$mnt/f" "$TESS_TMP/now" <<'P' 2>/dev/null &
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
open(sys.argv[2] + '.open', 'w')
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
fcntl.lockf(fd, fcntl.LOCK_SH)
P
locker=$!
wait_for 10 test -e "$TESS_TMP/now.open"
cat "$mnt/f" >/dev/null 2>&1 &
reader=$!
ok 'it waits for its read' wait_for 10 waits $reader
printf x | dd of="$mnt2/f" conv=notrunc status=none
: >"$TESS_TMP/now"
ok 'the kernel waits' wait_for 5 told "$pid"
kill -9 "$pid"
ok 'the reader ends' wait_for 10 gone $reader
ok 'the one with the lock, too' wait_for 10 gone $locker
ok 'so does the daemon' wait_for 10 test ! -e "/proc/$pid/task/$pid/children" -o "$(ls "/proc/$pid/task" 2>/dev/null | wc -l)" -le 1
ok 'and its guard' wait_for 5 gone "$guard"
said=$(ls "$mnt" 2>&1)
ok "the mount says that it is dead: $said" grep -q 'not connected' <<<"$said"
equal 'the other goes on' 1000000 "$(stat -c %s "$mnt2/f")"
MOUNT_ARGS=''
remount
ok 'and reads' cmp -i 1 "$TESS_TMP/data" "$mnt2/f"
ok 'so does the next' cmp -i 1 "$TESS_TMP/data" "$mnt/f"
ok 'umount the second' "$t" umount "$mnt2"
stop
