#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The staging area of a file system is one place for all its mounts, and of no other file system: none
# moves it away from under another, or takes another's files for what a killed session left.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
MOUNT_ARGS="-o drain=manual"
start
says 1 'staging=.*: another mount' "$t" mount "$fs" "$mnt2" -o "drain=manual,staging=$TESS_TMP/elsewhere"
ok 'a second mount' "$t" mount "$fs" "$mnt2" -o drain=manual
echo here >"$mnt/f"
equal 'what one staged the other reads' here "$(cat "$mnt2/f")"
for pid in $(daemons); do kill -9 "$pid"; done
umount -l "$mnt" "$mnt2"
remount
equal 'and the next, after a kill' here "$(cat "$mnt/f")"
ok 'umount' "$t" umount "$mnt"
ok 'alone it moves' "$t" mount "$fs" "$mnt" -o "drain=manual,staging=$TESS_TMP/elsewhere"
echo there >"$mnt/f"
equal 'and works' there "$(cat "$mnt/f")"
# Another file system, whose sessions have other numbers.
ok 'mkfs' "$t" mkfs "$TESS_TMP/fs2"
for i in 1 2 3 4 5; do
	ok "mount $i" "$t" mount "$TESS_TMP/fs2" "$mnt2"
	ok "umount $i" "$t" umount "$mnt2"
done
says 1 "staging area .*: it is that of $fs" "$t" mount "$TESS_TMP/fs2" "$mnt2" -o "staging=$TESS_TMP/elsewhere"
for pid in $(daemons); do kill -9 "$pid"; done
umount -l "$mnt"
says 1 "staging area .*: it is that of $fs" "$t" mount "$TESS_TMP/fs2" "$mnt2" -o "staging=$TESS_TMP/elsewhere"
remount
equal 'nobody took it' there "$(cat "$mnt/f")"
ok 'umount' "$t" umount "$mnt"
ok 'and back inside' "$t" mount "$fs" "$mnt" -o "staging=$fs/staging"
echo home >"$mnt/f"
ok 'given up, it is anybody'"'s" "$t" mount "$TESS_TMP/fs2" "$mnt2" -o "staging=$TESS_TMP/elsewhere"
echo theirs >"$mnt2/f"
equal 'each has its own' 'home theirs' "$(cat "$mnt/f") $(cat "$mnt2/f")"
ok 'umount' "$t" umount "$mnt2"
stop
