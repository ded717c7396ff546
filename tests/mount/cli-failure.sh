#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What cannot be made durable is said at unmount and done by the next mount; what is lost is named by
# fsck; a file system in use in another PID namespace is refused.
. tests/mount/cli.bash
need_fuse
t=$TESSERA
ok 'mkfs' "$t" mkfs "$fs"

ok 'mount' "$t" mount "$fs" "$mnt"
ok 'a target that refuses' "$t" stats "$mnt" --faults store.put=EIO
echo hello >"$mnt/a"
says 1 'error' "$t" flush "$mnt"
shows 'put\.error [1-9]' "$t" stats "$mnt" --errors
json 'v["staged_bytes"] == 6' "$t" stats "$mnt" --pending --json
says 1 'not everything is durable.*6 bytes' "$t" umount "$mnt"
ok 'it is unmounted all the same' sh -c "! grep -q ' $mnt ' /proc/self/mountinfo"
ok 'nothing is lost' "$t" fsck "$fs" --verify
ok 'mount' "$t" mount "$fs" "$mnt"
ok 'content' test "$(cat "$mnt/a")" = hello
ok 'umount' "$t" umount "$mnt"
json 'v["staged_segments"] == 0 and v["sessions"] == 0' "$t" df "$fs" --json

ok 'mount' "$t" mount "$fs" "$mnt" -o seal-idle=1h
echo precious >"$mnt/lost"
ok 'kill' "$t" umount "$mnt" --force
for _ in $(seq 50); do "$t" df "$fs" --json | grep -q '"staged_segments":1' && break; sleep 0.1; done
mkdir "$TESS_TMP/aside" && mv "$fs"/staging/* "$TESS_TMP/aside"
named() {
	"$@" >"$TESS_TMP/out" 2>&1
	[ $? = 1 ] && grep -q 'staged: its staging file is missing; segment .* of ' "$TESS_TMP/out"
}
ok 'a lost staging file is found' named "$t" fsck "$fs"
mv "$TESS_TMP"/aside/* "$fs/staging"
ok 'and when it is back' "$t" fsck "$fs"
ok 'a tool adopts what a dead session left' "$t" gc "$fs" --delete
json 'v["staged_segments"] == 0 and v["sessions"] == 0' "$t" df "$fs" --json
ok 'clean' "$t" fsck "$fs" --verify

ok 'mount' "$t" mount "$fs" "$mnt"
if unshare -pf --mount-proc true 2>/dev/null; then
	says 1 'PID namespace' unshare -pf --mount-proc "$t" df "$fs"
	says 1 'PID namespace' unshare -pf --mount-proc "$t" gc "$fs"
fi
mkdir "$TESS_TMP/two"
ok 'a second mount is welcome' "$t" mount "$fs" "$TESS_TMP/two"
echo seen >"$TESS_TMP/two/b"
ok 'and shares' test "$(cat "$mnt/b")" = seen
json 'v["sessions"] == 2' "$t" df "$fs" --json
ok 'umount' "$t" umount "$TESS_TMP/two"
ok 'umount' "$t" umount "$mnt"
ok 'clean' "$t" fsck "$fs" --verify
finish
