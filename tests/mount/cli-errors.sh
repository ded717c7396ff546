#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tessera errors: failures of requests and of background work, each once with a count, by path.
. tests/mount/functions.bash
MKFS_ARGS="-t kv:$TESS_TMP/kv?size=256M"
start
mkdir "$mnt/dir"
head -c 3000000 /dev/urandom >"$mnt/dir/a b"
ok 'flush' "$t" flush "$mnt"
equal 'nothing has failed' '' "$("$t" errors "$mnt")"
json 'v == []' "$t" errors "$mnt" --json
ok 'PUTs fail' "$t" stats "$mnt" --faults 'store.put=EIO'
for i in 1 2 3; do
	fails 'an fsync' dd if=/dev/zero of="$mnt/dir/a b" bs=1M count=1 conv=notrunc,fsync
done
shows 'LAST +TIMES +ERROR +WHAT' "$t" errors "$mnt"
shows 'EIO +fsync: .*  /dir/a b$' "$t" errors "$mnt"
json 'any(x["what"] == "fsync" and x["count"] == 3 and x["path"] == "/dir/a b" and x["error"] == "EIO" for x in v)' "$t" errors "$mnt" --json
json 'any(x["what"] == "store" and x["path"] == "/dir/a b" for x in v)' "$t" errors "$mnt" --json
json 'all(0 < x["first"] <= x["last"] and x["message"] for x in v)' "$t" errors "$mnt" --json
json 'all(a["last"] >= b["last"] for a, b in zip(v, v[1:]))' "$t" errors "$fs" --json
ok 'no more faults' "$t" stats "$mnt" --faults ''
ok 'the file heals' dd if=/dev/zero of="$mnt/dir/a b" bs=1M count=1 conv=notrunc,fsync status=none
shows 'fsync: .*  /dir/a b$' "$t" errors "$mnt"
mv "$mnt/dir/a b" "$mnt/dir/c"
shows 'fsync: .*  /dir/c$' "$t" errors "$mnt"
rm "$mnt/dir/c"
shows 'fsync: .*  inode [0-9]+$' "$t" errors "$mnt"
# Bytes that nobody waits for.
ok 'small segments fail' "$t" stats "$mnt" --faults 'stage.seal.put=EIO'
echo small >"$mnt/small"
told() { "$t" errors "$mnt" | grep -q 'segment of small files'; }
ok 'what fails in the background is told' wait_for 10 told
ok 'no more faults' "$t" stats "$mnt" --faults ''
ok 'listed and forgotten' "$t" errors "$mnt" --clear
equal 'nothing is left' '' "$("$t" errors "$mnt")"
says 2 'unknown option' "$t" errors "$mnt" --frobnicate
says 1 'not a Tessera|no daemon|No such' "$t" errors "$TESS_TMP"
stop
