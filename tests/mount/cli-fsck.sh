#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is damaged is found and named; what crashes leave is collected; what is in use is not.
. tests/mount/cli.bash
need_fuse
t=$TESSERA
ok 'mkfs' "$t" mkfs "$fs" -z 64k
ok 'mount' "$t" mount "$fs" "$mnt"
head -c 1000000 /dev/urandom >"$mnt/a"
head -c 1000000 /dev/urandom >"$mnt/b"
ok 'umount' "$t" umount "$mnt"
shows 'clean' "$t" fsck "$fs" --verify
json 'v["findings"] == 0 and v["inodes"] == 3 and v["objects"] > 0 and v["list"] == []' "$t" fsck "$fs" --json --verify

# A flipped byte in the target: only --verify reads it. /a begins somewhere behind the header.
python3 - "$fs/kv0/data" <<'P'
import sys
f = open(sys.argv[1], 'r+b')
f.seek(1 << 20)
while True:
    at = f.tell()
    d = f.read(4096)
    if not d: sys.exit('empty target')
    if any(d):
        f.seek(at + 100)
        f.write(bytes([d[100] ^ 1]))
        break
P
ok 'lengths still agree' "$t" fsck "$fs"
says_out() {
	"$@" >"$TESS_TMP/out" 2>&1
	[ $? = 1 ] && grep -q 'checksum' "$TESS_TMP/out"
}
ok 'a flipped byte is found' says_out "$t" fsck "$fs" --verify
ok 'also as JSON' sh -c "'$t' fsck '$fs' --verify --json | python3 -c '
import json, sys
v = json.load(sys.stdin)
assert v[\"findings\"] == 1 and v[\"list\"][0][\"what\"] == \"checksum\", v'"

# Nothing is garbage; after a deletion and an unmount nothing is left either.
json 'v["orphan_objects"] == 0 and v["dry_run"] and v["deleted"] == 0' "$t" gc "$fs" --json
ok 'mount' "$t" mount "$fs" "$mnt"
rm "$mnt/a" "$mnt/b"
ok 'umount' "$t" umount "$mnt"
ok 'gc' "$t" gc "$fs" --delete
json 'v["inodes"] == 1 and v["segments"] == 0 and v["garbage"] == 0' "$t" df "$fs" --json
json 'v["targets"][0].get("objects", 0) == 0' "$t" df "$fs" --json
ok 'clean again' "$t" fsck "$fs" --verify

# Killed between storing and publishing: objects that no record knows.
ok 'mount to be killed' "$t" mount "$fs" "$mnt" -o faults=io.flush.commit=kill
head -c 524288 /dev/urandom >"$mnt/a" 2>/dev/null
for _ in $(seq 50); do "$t" stats "$mnt" >/dev/null 2>&1 || break; sleep 0.1; done
shows '^[1-9][0-9]* objects .* in no record' "$t" fsck "$fs"
json 'v["orphan_objects"] == 8 and v["orphan_bytes"] == 524288 and v["deleted"] == 0' "$t" gc "$fs" --json
json 'v["deleted"] == 8 and len(v["list"]) == 8' "$t" gc "$fs" --json --delete -v
json 'v["orphan_objects"] == 0' "$t" gc "$fs" --json

# Beside a writer, gc deletes nothing that is on its way.
ok 'mount over the dead mount' "$t" mount "$fs" "$mnt"
for i in $(seq 60); do head -c 300000 /dev/urandom | tee "$TESS_TMP/copy.$i" >"$mnt/f.$i"; done & writer=$!
while kill -0 $writer 2>/dev/null; do
	ok 'gc beside a writer' "$t" gc "$mnt" --delete
	ok 'fsck beside a writer' "$t" fsck "$mnt"
done
wait $writer
ok 'umount' "$t" umount "$mnt"
ok 'mount' "$t" mount "$fs" "$mnt"
same=0
for i in $(seq 60); do cmp -s "$TESS_TMP/copy.$i" "$mnt/f.$i" && same=$((same + 1)); done
ok 'every byte is there' test $same = 60
ok 'umount' "$t" umount "$mnt"
ok 'clean at the end' "$t" fsck "$fs" --verify
finish
