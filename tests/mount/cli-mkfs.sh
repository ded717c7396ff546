#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Bad input to mkfs gets one clear line and leaves nothing behind; good input makes a file system.
. tests/mount/cli.bash
t=$TESSERA

touch "$TESS_TMP/file"
says 1 'tessera mkfs: .*/file: not a directory' "$t" mkfs "$TESS_TMP/file"
mkdir "$TESS_TMP/full" && touch "$TESS_TMP/full/x"
says 1 'not empty' "$t" mkfs "$TESS_TMP/full"
ok 'what was there stays' test -e "$TESS_TMP/full/x"
says 1 'No such file' "$t" mkfs "$TESS_TMP/no/such"
says 1 "S3x|S3" "$t" mkfs "$fs" -c S3x
says 1 'not available|RP_2G1' "$t" mkfs "$fs" -c RP_2G1
says 1 'not available|EC_2P1G1' "$t" mkfs "$fs" -c EC_2P1G1
says 1 'target' "$t" mkfs "$fs" -c S2
says 1 'balanced, naive, write-optimized' "$t" mkfs "$fs" -m lazy
says 2 'segment' "$t" mkfs "$fs" -z 1k
says 2 'segment' "$t" mkfs "$fs" -z many
says 1 'multiple' "$t" mkfs "$fs" -z 65537
says 1 'nosuch' "$t" mkfs "$fs" --target nosuch:x
says 1 'colour' "$t" mkfs "$fs" --target "kv:$TESS_TMP/k?colour=red"
says 1 'twice' "$t" mkfs "$fs" -t "kv:$TESS_TMP/k" -t "kv:$TESS_TMP/k"
says 2 'unknown option --colour' "$t" mkfs "$fs" --colour
says 2 'missing' "$t" mkfs
says 2 'too many' "$t" mkfs "$fs" "$fs"
ok 'no trace of a failed mkfs' test ! -e "$fs"
mkdir "$fs"
says 1 'nosuch' "$t" mkfs "$fs" --target "kv:$TESS_TMP/k" --target nosuch:x
ok 'an empty directory stays empty' rmdir "$fs"
ok 'nor of its first target' test ! -e "$TESS_TMP/k" -a ! -e "$TESS_TMP/k.index"

ok 'mkfs' "$t" mkfs "$fs" --label 'a "name"' -z 64k -m balanced
says 1 'already holds a Tessera' "$t" mkfs "$fs"
json 'v["label"] == "a \"name\"" and len(v["targets"]) == 1 and v["inodes"] == 1' "$t" df "$fs" --json
shows '^ +0 .*kv:' "$t" df "$fs"
ok 'a fresh one is clean' "$t" fsck "$fs"
shows 'clean' "$t" fsck "$fs"
ok 'gc of an empty one' "$t" gc "$fs"
mv "$fs" "$fs.moved"
ok 'it can be moved' "$t" fsck "$fs.moved"
(cd "$TESS_TMP" && ok 'relative directory' "$t" fsck fs.moved)

ok 'two targets' "$t" mkfs "$fs" -c SX -t "kv:$TESS_TMP/a?size=64M" -t "kv:$TESS_TMP/b?size=64M"
json 'len(v["targets"]) == 2 and v["targets"][0]["total"] <= 64 << 20' "$t" df "$fs" --json
says 1 'a\?size|/a' "$t" mkfs "$fs.2" -t "kv:$TESS_TMP/a"
ok 'a refused target leaves nothing' test ! -e "$fs.2"

ok 'one to spoil' "$t" mkfs "$fs.spoilt"
dd if=/dev/urandom of="$fs.spoilt/meta/data.mdb" bs=4k count=4 conv=notrunc status=none
says 1 'damaged' "$t" fsck "$fs.spoilt"
says 1 'not a Tessera' "$t" fsck "$TESS_TMP/full"
says 1 'not a directory' "$t" df "$TESS_TMP/file"
says 1 'No such file' "$t" df "$TESS_TMP/no"
mkdir -p "$TESS_TMP/half/meta" && touch "$TESS_TMP/half/mkfs.incomplete"
says 1 'interrupted' "$t" fsck "$TESS_TMP/half"
says 1 'interrupted' "$t" mkfs "$TESS_TMP/half"
finish
