#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Mount, use, ask, unmount; bad options are refused in one line; mount(8) finds us.
. tests/mount/cli.bash
need_fuse
t=$TESSERA
ok 'mkfs' "$t" mkfs "$fs"

says 2 'colour' "$t" mount "$fs" "$mnt" -o colour=red
says 2 'cache-size.*lots|lots.*cache-size' "$t" mount "$fs" "$mnt" -o cache-size=lots
says 2 'fsync.*auto, local, target' "$t" mount "$fs" "$mnt" -o fsync=maybe
says 2 'remount' "$t" mount "$fs" "$mnt" -o remount
says 2 'needed' "$t" mount "$fs"
says 1 'No such file' "$t" mount "$fs" "$TESS_TMP/nowhere"
says 1 'No such file' "$t" mount "$TESS_TMP/nofs" "$mnt"
says 1 'not a Tessera' "$t" mount "$TESS_TMP" "$mnt"
says 1 'not a directory' "$t" mount /etc/passwd "$mnt"
ok 'nothing is mounted' sh -c "! grep -q '$mnt' /proc/self/mountinfo"

ok 'mount' "$t" mount "$fs" "$mnt" -o defaults,nofail,x-test,noatime,commit-interval=1s
ok 'its type and source' grep -q " $mnt .* fuse.tessera $(realpath "$fs") " /proc/self/mountinfo
ok 'write' sh -c "echo hello >'$mnt/f' && dd if=/dev/urandom of='$mnt/big' bs=1M count=9 status=none"
sum=$(md5sum <"$mnt/big")
shows 'commit-interval=1s' "$t" stats "$mnt" --config
shows 'io\.' "$t" stats "$mnt"
json 'len(v) > 0' "$t" stats "$mnt" --json
shows 'io\.' "$t" stats "$fs"
ok 'flush' "$t" flush "$mnt"
json 'v["dirty_bytes"] == 0 and v["staged_bytes"] == 0' "$t" stats "$mnt" --pending --json
ok 'errors' "$t" stats "$mnt" --errors
ok 'log level' "$t" stats "$mnt" --log io=warning
says 1 'level' "$t" stats "$mnt" --log io=loud
says 1 'action' "$t" stats "$mnt" --faults nonsense
ok 'df of the mount' "$t" df "$mnt"
json 'v["inodes"] == 3 and v["sessions"] >= 1' "$t" df "$mnt" --json
ok 'fsck while mounted' "$t" fsck "$mnt" --verify
ok 'repair while mounted' "$t" fsck "$mnt" --repair
ok 'gc while mounted' "$t" gc "$mnt" --delete
ok 'content' test "$(cat "$mnt/f")" = hello
ok 'only the owner may ask' test "$(stat -c %a "$fs"/run/*.sock)" = 600

(cd "$mnt" && says 1 'busy' "$t" umount "$mnt")
ok 'umount' "$t" umount "$mnt"
ok 'it is gone' sh -c "! grep -q '$mnt' /proc/self/mountinfo"
ok 'no socket is left' sh -c "! ls '$fs'/run/*.sock 2>/dev/null"
ok 'no session is left' sh -c "'$t' df '$fs' --json | grep -q '\"sessions\":0'"
json 'v["staged_segments"] == 0' "$t" df "$fs" --json

ok 'mount again' "$t" mount "$fs" "$mnt"
ok 'content after it' test "$(md5sum <"$mnt/big")" = "$sum"
ok 'umount --force' "$t" umount "$mnt" --force
ok 'heals' "$t" mount "$fs" "$mnt"
ok 'content after that' test "$(md5sum <"$mnt/big")" = "$sum"
kill -9 "$(basename "$(ls "$fs"/run/*.sock | tail -n 1)" .sock)"
sleep 0.2
says 1 'gone|no daemon' "$t" stats "$mnt"
ok 'a dead mount heals too' "$t" mount "$fs" "$mnt"
ok 'content after the kill' test "$(md5sum <"$mnt/big")" = "$sum"
ok 'umount' "$t" umount "$mnt"

ok 'read-only' "$t" mount "$fs" "$mnt" -o ro
ok 'refuses changes' sh -c "! touch '$mnt/x' 2>/dev/null"
ok 'reads' test "$(cat "$mnt/f")" = hello
ok 'umount' "$t" umount "$mnt"

mkdir "$TESS_TMP/stage"
ok 'staging elsewhere' "$t" mount "$fs" "$mnt" -o "staging=$TESS_TMP/stage,seal-idle=1h"
echo small >"$mnt/small"
ok 'is used' test -n "$(ls "$TESS_TMP/stage")"
ok 'umount' "$t" umount "$mnt"
ok 'and remembered' test "$(realpath "$fs/staging")" = "$TESS_TMP/stage"
ok 'mount without saying' "$t" mount "$fs" "$mnt"
ok 'content' test "$(cat "$mnt/small")" = small
ok 'umount' "$t" umount "$mnt"

# As mount(8) calls it.
ln -s "$(realpath "$t")" "$TESS_TMP/mount.fuse.tessera"
ok 'as mount.fuse.tessera' "$TESS_TMP/mount.fuse.tessera" "$fs" "$mnt" -n -v -s -o rw,nosuid,nodev
ok 'nosuid,nodev arrive' grep -qE " $mnt [^ ]*nosuid,nodev" /proc/self/mountinfo
ok 'umount(8) does' umount "$mnt"
for _ in $(seq 100); do ls "$fs"/run/*.sock >/dev/null 2>&1 || break; sleep 0.1; done
ok 'fsck' "$t" fsck "$fs" --verify
finish
