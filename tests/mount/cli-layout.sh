#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# layout, setlayout and whose agree with each other and with what was written.
. tests/mount/cli.bash
need_fuse
t=$TESSERA
ok 'mkfs' "$t" mkfs "$fs" -c S2 -z 1M -t "kv:$TESS_TMP/a?size=256M" -t "kv:$TESS_TMP/b?size=256M"
ok 'mount' "$t" mount "$fs" "$mnt"
head -c $((5 << 20)) /dev/urandom >"$mnt/big"
# Many small files make one segment whose objects have several cells each.
mkdir "$mnt/many"
ok 'larger segments' "$t" setlayout "$mnt/many" -z 4M
for i in $(seq 60); do head -c 60000 /dev/urandom >"$mnt/many/$i"; done
printf tiny >"$mnt/tiny"
truncate -s 3M "$mnt/hole"
mkdir "$mnt/d"
ok 'flush' "$t" flush "$mnt"

cover='sum(e["length"] for e in v["extents"]) == 5 << 20'
json "v['path'] == '$mnt/big' and v['size'] == 5 << 20 and v['class'] == 'S2' and v['segment_size'] == 1 << 20 and $cover" \
	"$t" layout --json "$mnt/big"
json 'all(e["state"] == "durable" and len(e["objects"]) == 2 for e in v["extents"])' "$t" layout --json "$mnt/big"
json 'sum(o["length"] for e in v["extents"] for o in e["objects"]) >= 5 << 20' "$t" layout --json "$mnt/big"
json 'set(o["target"] for e in v["extents"] for o in e["objects"]) == {0, 1}' "$t" layout --json "$mnt/big"
json 'v["size"] == 3 << 20 and v["extents"] == []' "$t" layout --json "$mnt/hole"
json 'v["ino"] == '"$(stat -c %i "$mnt/tiny")" "$t" getstripe --json "$mnt/tiny"
json 'len(v) == 2' "$t" layout --json "$mnt/big" "$mnt/tiny"
json 'len(v) == 66' "$t" layout -r --json "$mnt"
shows 'class S2, segment 1.0M, mapper write-optimized' "$t" layout "$mnt/big"
shows 'durable +[01]:[0-9a-f]{16}\.00 [01]:[0-9a-f]{16}\.01' "$t" layout "$mnt/big"
shows 'hole' "$t" layout "$mnt/hole"
json 'v["size"] == 5 << 20' getfattr --absolute-names --only-values -n tessera.layout "$mnt/big"

# Each object of the file is the file's, and together they are all of it.
total=0
for o in $("$t" layout --json "$mnt/big" | python3 -c '
import json, sys
for e in json.load(sys.stdin)["extents"]:
    for o in e["objects"]: print("%d:%s" % (o["target"], o["name"]))' | sort -u); do
	n=$("$t" whose "$o" "$mnt" --json | python3 -c '
import json, sys
print(sum(r["length"] for r in json.load(sys.stdin) if r["path"].endswith("/big") or r["path"] == "big"))')
	total=$((total + n))
done
ok 'whose finds every byte' test "$total" = $((5 << 20))
cp --reflink=auto "$mnt/big" "$mnt/clone" 2>/dev/null || cp "$mnt/big" "$mnt/clone"
says 2 'TARGET:OBJECT' "$t" whose nonsense "$mnt"
says 1 'not an object name' "$t" whose 0:nonsense "$mnt"
says 1 'no file has it' "$t" whose 0:ffffffffffffffff.00 "$mnt"

ok 'setlayout' "$t" setlayout "$mnt/d" -c S1 -z 64k -m balanced
echo x >"$mnt/d/new"
json 'v["class"] == "S1" and v["mapper"] == "balanced" and v["segment_size"] == 65536' "$t" layout --json "$mnt/d/new"
ok 'by attribute' setfattr -n tessera.layout -v class=SX "$mnt/d/new"
json 'v["class"] == "SX" and v["mapper"] == "balanced"' "$t" layout --json "$mnt/d/new"
says 2 'nothing to set' "$t" setlayout "$mnt/d"
says 1 'lazy' "$t" setlayout "$mnt/d" -m lazy
says 1 'S3' "$t" setlayout "$mnt/d" -c S3
says 1 'segment' "$t" setstripe "$mnt/d" -z 1k
says 1 'not on a mounted' "$t" setlayout "$TESS_TMP" -c S1
ok 'umount' "$t" umount "$mnt"
ok 'fsck' "$t" fsck "$fs" --verify
finish
